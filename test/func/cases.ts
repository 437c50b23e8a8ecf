// Functions under vmap against a loop: loops, branches, checkpoints, gradients of one's own and parts at places that are
// computed. Rows of the operations' tables are compared in rows.ts.
import * as tx from 'tsxla';
import { barrier } from '../../dist/autograd/checkpoint.js';
import { Expr } from '../../dist/ir/expr.js';
import { OPS } from '../../dist/ops/prim/define.js';
import { dynamicSlice, dynamicUpdateSlice } from '../../dist/ops/prim/dynamic.js';
import { pad } from '../../dist/ops/prim/slice.js';

type T = tx.Tensor;
export interface FunctionCase {
  readonly name: string;
  readonly inputs: readonly T[];
  readonly f: (...xs: T[]) => T | readonly T[];
  /** Only in the slow suite. */
  readonly slow?: boolean;
  /** false: it has no gradient. */
  readonly grad?: boolean;
}

/** Numbers that are all different, and of both signs: two examples along the first dimension. */
export const wave = (shape: readonly number[], phase = 0): T => {
  const n = shape.reduce((a, b) => a * b, 1);
  return tx.tensor(
    Float64Array.from({ length: n }, (_, i) => Math.sin(1.7 * i + phase)),
    { shape },
  );
};
const i32 = (...values: number[]) => tx.tensor(values, { dtype: 'i32' });

/** A node of a primitive that stands inside of others only, which write it as text. */
const node = (name: string, attrs: unknown, shape: readonly number[], ...xs: T[]): T => {
  const inputs = xs.map((x) => x.expr);
  return new tx.Tensor(new Expr(OPS.get(name)!, inputs, attrs, inputs[0]!.aval.withShape(shape)));
};

const scanned =
  (options: Parameters<typeof tx.scan>[3] = {}) =>
  (x: T, h: T, w: T): readonly T[] => {
    const [last, ys] = tx.scan(
      (c: { h: T; count: T }, row: T) => {
        const next = c.h.add(row).mul(w).tanh();
        return [{ h: next, count: c.count.add(1) }, [next.mul(row), c.count]];
      },
      { h, count: tx.tensor(0, { dtype: 'f64' }) },
      x,
      options,
    );
    return [last.h, last.count, ...ys];
  };
const ownSquare = tx.customVjp((x: T, y: T) => x.mul(x).mul(y), {
  forward: (x: T, y: T) => [x.mul(x).mul(y), [x, y]] as const,
  backward: ([x, y], g) => [g.mul(x).mul(y).mul(5), g.mul(x).mul(x)], // 5 in place of 2: to see that it is asked
});
const ownExp = tx.customVjp((x: T) => x.exp(), {
  backward: ({ output }: { output: T }, g: T) => [g.mul(output)],
});
const weights = wave([4], 0.4);

export const cases: readonly FunctionCase[] = [
  { name: 'scan', inputs: [wave([2, 5, 4]), wave([2, 4], 1), wave([2, 4], 2)], f: scanned() },
  {
    name: 'scan, reversed, unrolled',
    slow: true,
    inputs: [wave([2, 5, 4]), wave([2, 4], 1), wave([2, 4], 2)],
    f: scanned({ reverse: true, unroll: 2 }),
  },
  {
    name: 'scan, with checkpoints',
    slow: true,
    inputs: [wave([2, 5, 4]), wave([2, 4], 1), wave([2, 4], 2)],
    f: scanned({ checkpoint: true }),
  },
  {
    name: 'scan in a scan',
    slow: true,
    inputs: [wave([2, 3, 4, 2]), wave([2, 2], 1)],
    f: (x, h) =>
      tx.scan((c: T, rows: T) => [tx.scan((d: T, row: T) => [d.mul(row).sin(), []], c, rows)[0], []], h, x)[0],
  },
  {
    name: 'a carry that starts alike',
    inputs: [wave([2, 4, 2])],
    f: (x) =>
      tx
        .scan(
          (c: readonly [T, T], row: T) => [[c[1], c[0].add(row)] as const, c[0]],
          [weights.sum(), weights.sum()] as const,
          x.sum(-1),
        )
        .flat(2) as T[],
  },
  {
    name: 'foriLoop',
    inputs: [wave([2, 4])],
    f: (x) => tx.foriLoop(0, 4, (i, c: T) => c.mul(weights).add(i).sin(), x),
  },
  {
    name: 'whileLoop, each as often as it needs',
    inputs: [wave([2, 2]), wave([2], 2)],
    grad: false,
    f: (x, step) =>
      tx.whileLoop(
        ([, total]: readonly [T, T]) => total.lt(4),
        ([c, total]) => [c.mul(1.5).cos(), total.add(step.abs()).add(0.3)] as const,
        [x, tx.tensor(0, { dtype: 'f64' })] as const,
      ),
  },
  {
    name: 'whileLoop, all as often',
    inputs: [wave([2, 2])],
    grad: false,
    f: (x) =>
      tx.whileLoop(
        ([, i]: readonly [T, T]) => i.lt(5),
        ([c, i]) => [c.add(i).sin(), i.add(1)] as const,
        [x, tx.tensor(0)] as const,
      ),
  },
  {
    name: 'cond, chosen by each',
    inputs: [wave([2]), wave([2, 4], 1), wave([2, 4], 2)],
    f: (p, x, y) =>
      tx.cond(
        p.gt(0),
        (a: T, b: T) => [a.mul(b).sin(), a],
        (a: T, b: T) => [a.sub(b).exp(), weights],
        x,
        y,
      ),
  },
  {
    name: 'cond, chosen for all',
    inputs: [wave([2, 4], 1), wave([2, 4], 2)],
    f: (x, y) =>
      tx.cond(
        weights.sum().gt(100),
        (a: T, b: T) => [a.mul(b), weights],
        (a: T, b: T) => [a.sub(b).exp(), a],
        x,
        y,
      ),
  },
  {
    name: 'checkpoint',
    inputs: [wave([2, 4], 1), wave([2, 4], 2)],
    f: (x, y) => tx.checkpoint((a: T, b: T) => a.mul(b).sin().add(weights), x, y),
  },
  {
    name: 'barrier',
    inputs: [wave([2, 4], 1), wave([2, 4], 2)],
    f: (x, y) => barrier([x.expr, weights.expr, y.expr]).map((e) => new tx.Tensor(e)),
  },
  { name: 'customVjp', inputs: [wave([2, 4], 1), wave([2, 4], 2)], f: (x, y) => ownSquare(x, y) },
  { name: 'customVjp of what all have', inputs: [wave([2, 4])], f: (x) => ownSquare(weights, weights.mul(2)).add(x) },
  { name: 'customVjp by its result', inputs: [wave([2, 4])], f: (x) => ownExp(x).mul(ownExp(weights)) },
  {
    name: 'gradient of a gradient of one of its own',
    inputs: [wave([2, 4])],
    f: (x) => tx.grad((a: T) => ownExp(a.mul(a)).sum())(x),
  },
  {
    name: 'dynamicSlice',
    inputs: [wave([2, 4, 5]), i32(2, 9), i32(-3, 1)],
    f: (x, i, j) => new tx.Tensor(dynamicSlice(x.expr, [i.expr, j.expr], [2, 3])),
  },
  {
    name: 'dynamicSlice of one dimension',
    inputs: [wave([2, 6]), i32(2, 9)],
    f: (x, i) => new tx.Tensor(dynamicSlice(x.expr, [i.expr], [2])),
  },
  {
    name: 'dynamicUpdateSlice',
    inputs: [wave([2, 4, 5]), wave([2, 2, 3], 1), i32(2, 9), i32(-3, 1)],
    f: (x, y, i, j) => new tx.Tensor(dynamicUpdateSlice(x.expr, y.expr, [i.expr, j.expr])),
  },
  {
    name: 'parts at a place for all',
    inputs: [wave([2, 6]), wave([2, 2], 1)],
    f: (x, y) => {
      const at = weights.argmax().to('i32').expr;
      return [dynamicSlice(x.expr, [at], [2]), dynamicUpdateSlice(x.expr, y.expr, [at])].map((e) => new tx.Tensor(e));
    },
  },
  {
    name: 'pad with a value of its own',
    inputs: [wave([2, 4]), wave([2], 1)],
    f: (x, v) => new tx.Tensor(pad(x.expr, v.expr, [1], [2], [1])),
  },
  {
    name: 'convolution in groups',
    inputs: [wave([2, 3, 4, 5]), wave([2, 6, 2, 2], 1)],
    f: (x, w) => tx.conv1d(x, w, { groups: 2, stride: 2, padding: 1 }),
  },
  {
    name: 'random bits of a state',
    inputs: [
      tx.tensor(
        [
          [1, 2, 3, 4],
          [5, 6, 4294967290, 8],
        ],
        { dtype: 'u32' },
      ),
    ],
    grad: false,
    f: (state) => {
      const generator = new tx.Generator().setState(state);
      return [tx.rand([3], { generator }), tx.randn([2, 2], { generator }), generator.state];
    },
  },
  { name: 'backwards', inputs: [wave([2, 3, 4])], f: (x) => [x.flip(0), x.flip([0, 1]), x.flip(-1)] },
  { name: 'special functions', inputs: [wave([2, 4])], f: (x) => [x.erf(), x.add(2).digamma()] },
  {
    name: 'a variable made inside',
    inputs: [wave([2, 4])],
    f: (x) => x.mul(new tx.nn.Parameter(x.mul(2))),
  },
  { name: 'two ways to the same', inputs: [wave([2, 4])], f: (x) => [x, x.detach(), x.t(), weights] },
  {
    name: 'columns that are made orthogonal',
    inputs: [wave([2, 6, 2]), wave([2, 6, 2], 1)],
    grad: false,
    f: (left, right) => node('orthogonalize', { rows: 4 }, [6, 4], left, right),
  },
  {
    name: 'parts of special functions',
    inputs: [wave([2, 4])],
    grad: false,
    f: (x) => [node('erfNear', null, x.shape, x), node('digammaAway', null, x.shape, x)],
  },
];
