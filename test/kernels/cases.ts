// Kernels that between them use every operation of the language, for the forms of devices: each is run here and compared with
// StableHLO's form, and compiled by the device's own compiler (scripts/kernels-triton.ts).
import * as tx from 'tsxla';
import { type Definition, headsBackward, headsForward } from '../../dist/kernels/gpu/heads.js';

const { block, full, iota, loop, programId, when, where, zeros } = tx.kernels;
type Ref = tx.kernels.Ref;
type Block = tx.kernels.Block;
type Options = tx.kernels.KernelOptions;
type Out = tx.kernels.OutSpec;

export interface Case {
  readonly name: string;
  readonly run: (...refs: Ref[]) => void;
  readonly options: Options;
  readonly operands: readonly tx.Tensor[];
  /** Of vmap: operands have a dimension of this size more in front, and so have the results. */
  readonly examples?: number;
  /** How far results may differ, relative to 1. Default: 1e-6. */
  readonly tolerance?: number;
}

/** The results of a case's kernel for these operands. */
export function called({ run, options, examples }: Case, operands: readonly tx.Tensor[]): tx.Tensor[] {
  const whole = tx.kernel(run, options) as (...xs: tx.Tensor[]) => tx.Tensor | tx.Tensor[];
  return [(examples ? tx.vmap(whole) : whole)(...operands)].flat();
}

tx.manualSeed(5);
const randn = (shape: readonly number[], dtype: tx.DType = 'f32') => tx.randn([...shape]).to(dtype);
const ints = (shape: readonly number[], dtype: tx.DType = 'i32') =>
  tx.randint(dtype.startsWith('u') ? 0 : -60, 60, [...shape]).to(dtype);

const like = (dtype: tx.DType, ...shape: number[]) => ({ of: { dtype, shape } });
const isWhole = (dtype: tx.DType): boolean => /^[iu]/.test(dtype);
const some = (shape: readonly number[], dtype: tx.DType) => (isWhole(dtype) ? ints(shape, dtype) : randn(shape, dtype));

/** A kernel of one program, on whole arrays, with one result or several. Default: they are like the first operand. */
const whole = (
  name: string,
  operands: readonly tx.Tensor[],
  compute: (...blocks: Block[]) => Block | Block[],
  outs?: readonly Out[],
  tolerance?: number,
): Case => ({
  name,
  operands,
  options: { grid: [1], out: outs ?? [{ of: operands[0]! }] },
  run: (...refs) => {
    const made = [compute(...refs.slice(0, operands.length).map((r) => r.load()))].flat();
    made.forEach((x, i) => refs[operands.length + i]!.store(x));
  },
  ...(tolerance && { tolerance }),
});
/** The same with a result for each of these computations. */
const each = (
  name: string,
  operands: readonly tx.Tensor[],
  ops: readonly ((...blocks: Block[]) => Block)[],
  tolerance?: number,
) =>
  whole(
    name,
    operands,
    (...xs) => ops.map((op) => op(...xs)),
    ops.map(() => ({ of: operands[0]! })),
    tolerance,
  );

const A = randn([3, 5]);
const B = randn([3, 5]);

const BINARY = ['add', 'sub', 'mul', 'div', 'rem', 'maximum', 'minimum'] as const;
const COMPARE = ['eq', 'ne', 'lt', 'le', 'gt', 'ge'] as const;
const UNARY = ['neg', 'abs', 'exp', 'sin', 'cos', 'tanh', 'erf', 'floor', 'ceil', 'sigmoid'] as const;
const OF_POSITIVE = ['log', 'sqrt', 'rsqrt'] as const;
const TYPES = ['f32', 'bf16', 'f16', 'f64', 'i32', 'i8', 'u8', 'i64', 'bool'] as const;

const pointwise: Case[] = [
  ...(['f32', 'bf16', 'f16', 'f64', 'i32', 'i8', 'u8', 'i64'] as const).map((dtype) => {
    const [a, b] = [some([3, 5], dtype), some([3, 5], dtype)];
    const divisor = tx.where(b.eq(0), tx.ones([3, 5]).to(dtype), b);
    return each(
      `${BINARY} of ${dtype}`,
      [a, divisor],
      BINARY.map((op) => (x, y) => x[op](y!)),
    );
  }),
  ...(['f32', 'bf16', 'f16', 'f64'] as const).flatMap((dtype) => [
    each(
      `${UNARY} of ${dtype}`,
      [A.mul(3).to(dtype)],
      UNARY.map((op) => (x) => x[op]()),
      2e-6,
    ),
    each(
      `${OF_POSITIVE} of ${dtype}`,
      [A.abs().add(0.1).to(dtype)],
      OF_POSITIVE.map((op) => (x) => x[op]()),
      dtype === 'f16' ? 1e-3 : 2e-6, // XLA's CPU compiler rounds the root and its inverse
    ),
  ]),
  ...(['f32', 'bf16', 'i32', 'u8', 'bool'] as const).map((dtype) =>
    whole(
      `${COMPARE} of ${dtype}`,
      [ints([3, 5]).remainder(3).to(dtype), ints([3, 5]).remainder(3).to(dtype)],
      (x, y) => COMPARE.map((op) => x[op](y!)),
      COMPARE.map(() => like('bool', 3, 5)),
    ),
  ),
  ...(['i32', 'u8', 'i8'] as const).map((dtype) =>
    each(
      `bits, neg and abs of ${dtype}`,
      [ints([40], dtype), tx.arange(40).to(dtype)],
      [(x) => x.and(6).or(1).xor(3), (x) => x.shl(2).shr(1), (x, n) => x.shl(n!).xor(x.shr(n!)), (x) => x.neg().abs()],
    ),
  ),
  whole('and, or, xor of booleans', [A, B], (a, b) => where(a.gt(0).and(b!.gt(0)).or(a.lt(-1)).xor(b!.lt(-1)), a, b!)),
  whole('booleans in memory', [A.gt(0), B.gt(0)], (a, b) => a.and(b!)),
  whole('NaN in maximum and max', [tx.tensor([[1, Number.NaN, 2]])], (x) => x.maximum(0).max(1), [like('f32', 1)]),
  ...([...TYPES, 'i16'] as const).map((from) =>
    whole(
      `${from} to others`,
      [randn([7]).mul(9).abs().to(from)],
      (x) => TYPES.map((to) => x.to(to)),
      TYPES.map((to) => like(to, 7)),
    ),
  ),
];

const shapes: Case[] = [
  each(
    'shapes',
    [A],
    [
      (a) => a.add(iota([3, 5], 1).to('f32')).mul(iota([3, 5], 0).to('f32')),
      (a) =>
        a
          .add(full([3, 5], 2, 'f32'))
          .add(zeros([5]))
          .mul(3),
      (a) => a.sum(0).unsqueeze(0).squeeze(0).add(a),
      (a) => a.sum(0).max(0, true).squeeze(0).add(a),
      (a) => a.t().add(1).t(),
      (a) => a.sum(1, true).broadcastTo([3, 5]).add(a),
    ],
  ),
  whole('three dimensions', [randn([3, 2, 5]), randn([5])], (a, b) => a.sub(a.sum(1, true)).mul(b!)),
  whole('a scalar result', [A], (a) => a.sum(0).sum(0), [like('f32')]),
];

const REDUCE = ['sum', 'max', 'min'] as const;
const reductions: Case[] = (['f32', 'bf16', 'f64', 'i32', 'i8', 'u8', 'i64'] as const).map((dtype) => {
  const xs = [
    [3, 5],
    [4, 8],
    [1, 7],
  ].map((shape) => (isWhole(dtype) ? ints(shape, dtype).remainder(7) : randn(shape, dtype).sub(3)));
  return whole(
    `${REDUCE} of ${dtype}`,
    xs,
    (...blocks) => blocks.flatMap((a) => REDUCE.map((op) => a.sub(a[op](1, true)).add(a[op](0)))),
    xs.flatMap((x) => REDUCE.map(() => ({ of: x }))),
    dtype === 'bf16' ? 0.2 : 1e-6, // rounded after each sum, in another order
  );
});

const SIZES = [
  [16, 16, 16],
  [3, 5, 7],
  [1, 20, 33],
  [2, 4, 8],
] as const;
const products: Case[] = [
  ...(['f32', 'bf16', 'f16', 'i8', 'f64', 'i32', 'u8'] as const).flatMap((dtype) =>
    [false, true].map((turned) => {
      const make = (...shape: number[]) => (isWhole(dtype) ? ints(shape, dtype).remainder(5) : randn(shape, dtype));
      const out = dtype === 'f64' ? 'f64' : isWhole(dtype) ? 'i32' : 'f32';
      return whole(
        `dot of ${dtype}${turned ? ', transposed' : ''}`,
        SIZES.flatMap(([m, k, n]) => (turned ? [make(k, m), make(n, k)] : [make(m, k), make(k, n)])),
        (...xs) => SIZES.map((_, i) => xs[2 * i]!.dot(xs[2 * i + 1]!, { transA: turned, transB: turned })),
        SIZES.map(([m, , n]) => like(out, m, n)),
        1e-5,
      );
    }),
  ),
  whole(
    'dot of infinity, with a part that is filled up',
    [tx.full([2, 3], Number.POSITIVE_INFINITY), tx.ones([3, 2])],
    (a, b) => a.dot(b!),
    [like('f32', 2, 2)],
  ),
];

const rows = (n: number, width: number) => block([n, width], (i) => [i, 0]);
const softmax = (n: number): Case => ({
  name: `softmax of ${n} rows`,
  run: (x, y) => {
    const e = x!.load().sub(x!.load().max(1, true)).exp();
    y!.store(e.div(e.sum(1, true)));
  },
  operands: [randn([n, 5])],
  options: { grid: [Math.ceil(n / 8)], in: [rows(8, 5)], out: { ...like('f32', n, 5), ...rows(8, 5) } },
});

const memory: Case[] = [
  ...[8, 16, 20, 3].map(softmax),
  {
    name: 'elements beyond the end are 0, and are not written',
    run: (x, y) => y!.store(x!.load().add(1).sum(0, true)),
    operands: [randn([6])],
    options: { grid: [2], in: [block([4], (i) => [i])], out: { ...like('f32', 2), ...block([1], (i) => [i]) } },
  },
  {
    name: 'blocks of no power of two',
    run: (x, y) => y!.store(x!.load().mul(2)),
    operands: [randn([7, 10])],
    options: {
      grid: [3, 4],
      in: [block([3, 3], (i, j) => [i, j])],
      out: { ...like('f32', 7, 10), ...block([3, 3], (i, j) => [i, j]) },
    },
  },
  {
    name: 'dimensions that the kernel does not see',
    run: (a, b) => b!.store(a!.load().mul(2)),
    operands: [randn([3, 4, 5])],
    options: {
      grid: [3, 5],
      in: [block([null, 4, null], (i, j) => [i, 0, j])],
      out: { ...like('f32', 5, 3, 4), ...block([null, null, 4], (i, j) => [j, i, 0]) },
    },
  },
  { ...softmax(11), name: 'softmax of 11 rows, for many examples', operands: [randn([3, 11, 5])], examples: 3 },
  {
    name: 'four dimensions of a grid',
    run: (a, b) => b!.store(a!.load().add(programId(1).mul(10).add(programId(3)).to('f32'))),
    operands: [randn([2, 3, 2, 4])],
    options: {
      grid: [2, 3, 2, 4],
      in: [block([null, null, null, null], (...i) => i)],
      out: { ...like('f32', 2, 3, 2, 4), ...block([null, null, null, null], (...i) => i) },
    },
  },
  {
    name: 'index maps with arithmetic',
    run: (a, b) => b!.store(a!.load()),
    operands: [randn([12])],
    options: {
      grid: [3, 2],
      in: [block([2], (i, j) => [i.mul(2).add(j).neg().add(5)])],
      out: { ...like('f32', 12), ...block([2], (i, j) => [i.mul(2).add(j).rem(6).maximum(0)]) },
    },
  },
  {
    name: 'parts of a block, at places known only on the device',
    run: (x, y) =>
      void loop(0, 4, [], (i) => y!.store(x!.load({ at: [i, 0], size: [1, 3] }), { at: [i.neg().add(3), 0] })),
    operands: [randn([4, 3])],
    options: { grid: [1], out: like('f32', 4, 3) },
  },
  {
    name: 'a masked part that reaches beyond the block',
    run: (x, y) => y!.store(x!.load({ at: [full([], 4, 'i32')], size: [4], mask: iota([4], 0).lt(2), other: -1 })),
    operands: [tx.arange(6).to('f32')],
    options: { grid: [1], out: like('f32', 4) },
  },
  {
    name: 'masked stores: the rest is 0',
    run: (x, y) => y!.store(x!.load(), { mask: x!.load().gt(0) }),
    operands: [randn([6])],
    options: { grid: [1], out: like('f32', 6) },
  },
  {
    name: 'two stores to one element, in their order',
    run: (x, y) => {
      y!.store(1);
      y!.store(x!.load(), { at: [full([], 4, 'i32')], mask: iota([4], 0).lt(2) });
    },
    operands: [randn([4])],
    options: { grid: [1], out: like('f32', 6) },
  },
  {
    name: 'a result that is read, along a sequential dimension',
    run: (x, y) => y!.store(y!.load().add(x!.load())),
    operands: [randn([12])],
    options: {
      grid: [2, 3],
      sequential: [1],
      in: [block([2], (i, j) => [i.mul(3).add(j)])],
      out: { ...like('f32', 4), ...block([2], (i) => [i]) },
    },
  },
  {
    name: 'parts of results that no program writes are 0',
    run: (x, y) => when(programId(0).eq(1), () => y!.store(x!.load())),
    operands: [randn([4])],
    options: { grid: [2], in: [block([2], (i) => [i])], out: { ...like('f32', 4), ...block([2], (i) => [i]) } },
  },
  {
    name: 'halves of a result',
    run: (x, y) => {
      y!.store(x!.load({ size: [4, 3] }).neg(), { at: [0, 3] });
      y!.store(x!.load({ at: [0, 3], size: [4, 3] }), { at: [0, 0] });
    },
    operands: [randn([8, 6])],
    options: { grid: [2], in: [rows(4, 6)], out: { ...like('f32', 8, 6), ...rows(4, 6) } },
  },
  {
    name: 'several results, of several dtypes',
    run: (x, sum, top, sign) => {
      sum!.store(x!.load().sum(1, true));
      top!.store(x!.load().max(1, true).to('bf16'));
      sign!.store(x!.load().gt(0));
    },
    operands: [randn([3, 4])],
    options: { grid: [1], out: [like('f32', 3, 1), like('bf16', 3, 1), like('bool', 3, 4)] },
  },
];

const control: Case[] = [
  {
    name: 'a loop carries blocks, with bounds of the device',
    run: (x, y) => {
      const [p] = loop(0, programId(0), [full([2], 1, 'f32')], (_, p) => [p.mul(x!.load())]);
      y!.store(p!.unsqueeze(0));
    },
    operands: [tx.tensor([2, 3], { dtype: 'f32' })],
    options: { grid: [4], out: { ...like('f32', 4, 2), ...block([1, 2], (i) => [i, 0]) } },
  },
  {
    name: 'scratch memory begins with zeros in each program that may run alone',
    run: (y, n) => {
      n!.store(n!.load().add(1));
      y!.store(n!.load());
    },
    operands: [],
    options: {
      grid: [3, 2],
      sequential: [1],
      out: { ...like('i32', 3, 2), ...block([1, 1], (i, j) => [i, j]) },
      scratch: [{ dtype: 'i32', shape: [1, 1] }],
    },
  },
  {
    name: 'rows of scratch memory, by number',
    run: (x, y, room) => {
      loop(0, 5, [], (i) => room!.store(x!.load({ at: [i, 0], size: [1, 3] }).mul(2), { at: [i.neg().add(4), 0] }));
      room!.store(1, { mask: iota([5, 3], 1).eq(0) });
      loop(0, 5, [], (i) => y!.store(room!.load({ at: [i, 0], size: [1, 3] }), { at: [i, 0] }));
    },
    operands: [randn([5, 3])],
    options: { grid: [1], out: like('f32', 5, 3), scratch: [{ dtype: 'f32', shape: [5, 3] }] },
  },
  {
    name: 'when, with scratch memory and results, one in another',
    run: (x, y, sum) => {
      const i = programId(0);
      sum!.store(x!.load());
      when(i.gt(0), () => {
        sum!.store(sum!.load().mul(2));
        when(i.eq(2), () => sum!.store(sum!.load().add(100)));
      });
      y!.store(sum!.load());
    },
    operands: [randn([6])],
    options: {
      grid: [3],
      in: [block([2], (i) => [i])],
      out: { ...like('f32', 6), ...block([2], (i) => [i]) },
      scratch: [{ dtype: 'f32', shape: [2] }],
    },
  },
  {
    name: 'a product in tiles, summed in scratch memory along a sequential dimension',
    run: (a, b, c, sum) => {
      when(programId(2).eq(0), () => sum!.store(0));
      sum!.store(sum!.load().add(a!.load().dot(b!.load())));
      when(programId(2).eq(4), () => c!.store(sum!.load()));
    },
    operands: [randn([14, 19]), randn([19, 40])],
    tolerance: 1e-5,
    options: {
      grid: [2, 3, 5],
      sequential: [2],
      in: [block([8, 4], (i, _, k) => [i, k]), block([4, 16], (_, j, k) => [k, j])],
      out: { ...like('f32', 14, 40), ...block([8, 16], (i, j) => [i, j]) },
      scratch: [{ dtype: 'f32', shape: [8, 16] }],
    },
  },
  attention(),
];

/** docs/kernels.md's third kernel. */
function attention(): Case {
  const [T, d, size] = [64, 16, 16];
  const queries = block([null, size, d], (h, i) => [h, i, 0]);
  const keys = block([null, size, d], (h, _, j) => [h, j, 0]);
  const [column, part] = [
    [size, 1],
    [size, d],
  ].map((shape) => ({ dtype: 'f32' as const, shape }));
  return {
    name: 'attention without a matrix of scores',
    tolerance: 1e-5,
    run: (...refs) => {
      const [q, key, v, out, top, total, sum] = refs as [Ref, Ref, Ref, Ref, Ref, Ref, Ref];
      const [i, j] = [programId(1), programId(2)];
      when(j.eq(0), () => {
        top.store(-1e30);
        total.store(0);
        sum.store(0);
      });
      when(j.le(i), () => {
        const at = iota([size, size], 0).add(i.mul(size));
        const columns = iota([size, size], 1).add(j.mul(size));
        const products = q
          .load()
          .dot(key.load(), { transB: true })
          .mul(d ** -0.5);
        const scores = where(at.ge(columns), products, -1e30);
        const most = top.load().maximum(scores.max(1, true));
        const shrink = top.load().sub(most).exp();
        const weights = scores.sub(most).exp();
        total.store(total.load().mul(shrink).add(weights.sum(1, true)));
        sum.store(sum.load().mul(shrink).add(weights.dot(v.load())));
        top.store(most);
      });
      when(j.eq(T / size - 1), () => out.store(sum.load().div(total.load())));
    },
    operands: [randn([2, T, d]), randn([2, T, d]), randn([2, T, d])],
    options: {
      grid: [2, T / size, T / size],
      sequential: [2],
      in: [queries, keys, keys],
      out: { ...like('f32', 2, T, d), ...queries },
      scratch: [column!, column!, part!],
    },
  };
}

export const CASES: Readonly<Record<string, readonly Case[]>> = {
  pointwise,
  shapes,
  reductions,
  products,
  memory,
  control,
};

/** The kernels that ship, for a layer of these sizes. */
export function headsCases(
  dtype: tx.DType,
  [B, T, H, G, d]: readonly [number, number, number, number, number],
): Case[] {
  const angles = randn([1, 1, T, d]);
  const [q, k, gq, gk] = [H, G, H, G].map((n) => randn([B, T, n, d], dtype)) as [
    tx.Tensor,
    tx.Tensor,
    tx.Tensor,
    tx.Tensor,
  ];
  const weights = [randn([d], dtype), randn([d], dtype)];
  return [{ eps: 1e-6, offset: 0 }, { eps: 1e-5, offset: 1 }, null].flatMap((norm) => {
    const operands = [q, k, ...(norm ? weights : []), angles.cos(), angles.sin()];
    const what = `${norm ? `norm with offset ${norm.offset}` : 'no norm'}, ${dtype} ${[B, T, H, G, d]}`;
    const make = (name: string, { run, options }: Definition, xs: readonly tx.Tensor[]): Case => ({
      name: `${name}, ${what}`,
      run,
      options: options(...xs),
      operands: xs,
      tolerance: dtype === 'f32' ? 1e-5 : 2e-2,
    });
    return [
      make('heads', headsForward({ norm }), operands),
      make('gradients of heads', headsBackward({ norm }), [...operands, gq, gk]),
    ];
  });
}
