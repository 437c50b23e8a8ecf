// tx.func: how the transformations compose, in lazy code and inside of steps, loops and branches; modules; random numbers; errors.
import * as tx from 'tsxla';
import { functionalCall, stackModuleState } from 'tsxla/func';
import { beforeAll, describe, expect, expectTypeOf, test } from 'vitest';
import { wave } from './cases.js';

process.env['TSXLA_LOG'] = 'quiet';
type T = tx.Tensor;
const { grad, gradAndValue, hessian, jacfwd, jacrev, jvp, linearize, valueAndGrad, vjp, vmap } = tx.func;
const numbers = async (t: T) => Array.from((await t.data()) as Float64Array, Number);
async function same(got: T, want: T, digits = 9): Promise<void> {
  expect(got.aval).toBe(want.aval);
  const [a, b] = await Promise.all([numbers(got), numbers(want)]);
  a.forEach((x, i) => void expect(x).toBeCloseTo(b[i]!, digits));
}
const executions = () => tx.metrics.counter('ExecuteComputation') ?? 0;

const w = wave([3, 4], 0.7);
const f = (x: T) => w.matmul(x.sin()).tanh();
const number = (x: T) => f(x).square().sum();
const x = wave([4], 0.2);
const xs = wave([5, 4], 0.2);
const each = (g: (x: T) => T, all: T = xs): T => tx.stack(all.unbind().map(g));

describe('transformations of transformations', () => {
  test('vmap of a gradient, gradient of a vmap', async () => {
    await same(vmap(grad(number))(xs), each(grad(number)));
    await same(grad((a: T) => vmap(number)(a).sum())(xs), each(grad(number)));
    await same(
      vmap(
        grad((a: T) =>
          vmap((b: T) => b.mul(a).sum())(w)
            .square()
            .sum(),
        ),
      )(xs),
      each(grad((a: T) => w.matmul(a).square().sum())),
    );
  });
  test('vmap of a vmap', async () => {
    const outer = vmap((a: T) => vmap((b: T) => a.mul(b).sin().sum())(xs))(xs);
    await same(outer, xs.unsqueeze(1).mul(xs).sin().sum(-1));
    const dims = vmap((a: T, b: T) => vmap((p: T, q: T) => p.mul(q), { inDims: [0, null], outDims: -1 })(a, b), {
      inDims: [1, -1],
    });
    await same(dims(wave([4, 5]), wave([2, 5], 1)), tx.einsum('ik,jk->kji', wave([4, 5]), wave([2, 5], 1)));
  });
  test('jacobians of a vmap, and the other way round', async () => {
    const diagonal = jacrev((a: T) => vmap(number)(a))(xs);
    const want = tx
      .eye(5, { dtype: 'f64' })
      .unsqueeze(-1)
      .mul(each(grad(number)));
    await same(diagonal, want);
    await same(jacfwd((a: T) => vmap(number)(a))(xs), want);
    await same(vmap(jacfwd(f))(xs), each(jacrev(f)));
    await same(
      vmap(hessian(number))(xs),
      each((a) => jacrev(jacrev(number))(a)),
    );
  });
  test('all orders of forward and reverse give the same second and third derivatives', async () => {
    const want = hessian(number)(x);
    for (const g of [jacrev(jacrev(number)), jacfwd(jacfwd(number)), jacrev(jacfwd(number))]) await same(g(x), want);
    await same(jacfwd(hessian(number))(x), jacrev(jacrev(jacrev(number)))(x));
  });
  test('jvp is linear in tangents, and can be differentiated by them and by the arguments', async () => {
    const t = wave([4], 3);
    const product = (a: T, b: T) => jvp(number, [a], [b])[1];
    await same(product(x, t), grad(number)(x).mul(t).sum());
    await same(grad(product, { argnums: 1 })(x, t), grad(number)(x));
    await same(grad(product)(x, t), hessian(number)(x).matmul(t));
    const [value, push] = linearize(number, x);
    await same(value, number(x));
    await same(vmap(push)(xs), xs.matmul(grad(number)(x)));
  });
  test('a gradient that is written where it is used has its types', async () => {
    const tree = (p: { a: T }) => p.a.pow(3).sum();
    const [value, change] = jvp(grad(tree), [{ a: x }], [{ a: tx.onesLike(x) }]);
    expectTypeOf(change).toEqualTypeOf<{ a: T }>();
    await same(value.a, x.square().mul(3));
    await same(change.a, x.mul(6));
    const [, pull] = vjp(grad(number), x);
    expectTypeOf(pull).toEqualTypeOf<(cotangents: T) => [T]>();
    const [, push] = linearize(grad(number), x);
    await same(push(x), pull(x)[0]); // the Hessian is symmetric
  });

  test('what does not depend on the argument, or has no gradient', async () => {
    const [value, change] = jvp((a: T) => [a.gt(0), a.detach().mul(2), w, a] as const, [x], [x]);
    expect(value[0].dtype).toBe('bool');
    expect(change.map((t) => String(t.aval))).toEqual(['bool[4]', 'f64[4]', 'f64[3, 4]', 'f64[4]']);
    await same(change[1], tx.zerosLike(x));
    await same(change[3], x);
    await same(jacrev((_: T) => w)(x), tx.zeros([3, 4, 4], { dtype: 'f64' }));
    await same(jacfwd((_: T) => w)(x), tx.zeros([3, 4, 4], { dtype: 'f64' }));
  });
  test('a vector-Jacobian product is taken as often as one likes', async () => {
    const [value, pull] = vjp((a: T, b: { k: T }) => ({ y: f(a), z: b.k.mul(a).sum() }), x, { k: x.mul(2) });
    const seed = (k: number) => ({ y: wave([3], k), z: wave([], k) });
    await same(value.z, x.mul(x).mul(2).sum());
    for (const k of [1, 2]) {
      const [ga, gb] = pull(seed(k));
      await same(gb.k, x.mul(wave([], k)));
      await same(
        ga,
        jacrev(f)(x)
          .t()
          .matmul(wave([3], k))
          .add(x.mul(2).mul(wave([], k))),
      );
    }
    const [jac] = vmap(pull)({ y: tx.eye(3, { dtype: 'f64' }), z: tx.zeros([3], { dtype: 'f64' }) });
    await same(jac, jacrev(f)(x));
  });
});

describe('where it is used', () => {
  const perExample = vmap(
    grad((a: T, p: T) => p.matmul(a.sin()).tanh().square().sum(), { argnums: 1 }),
    { inDims: [0, null] },
  );
  const want = () => each((a) => grad((p: T) => p.matmul(a.sin()).tanh().square().sum())(w));

  test('in a compiled function', async () => {
    const step = tx.compile((a: T) => perExample(a, w));
    await same(await step(xs), want());
    await same(await step(xs.mul(1)), want());
  });
  test('in a scan, a branch and a checkpoint', async () => {
    const [total] = tx.scan(
      (c: T, a: T) => [c.add(vmap(number)(a.unsqueeze(0)).sum()), []],
      tx.zeros([], { dtype: 'f64' }),
      xs,
    );
    await same(total, each(number).sum());
    const chosen = tx.cond(
      w.sum().gt(-100),
      (a: T) => perExample(a, w).sum(0),
      (a: T) => w.mul(a.sum()),
      xs,
    );
    await same(chosen, want().sum(0));
    await same(grad((a: T) => tx.checkpoint((b: T) => vmap(number)(b).sum(), a))(xs), each(grad(number)));
    await same(
      grad((a: T) => tx.checkpoint((b: T) => jvp(number, [b], [b])[1], a))(x),
      grad((b: T) => jvp(number, [b], [b])[1])(x),
    );
  });
  test('through loops, forward', async () => {
    const looped = (a: T) => tx.scan((c: T, row: T) => [c.mul(row).sin(), c], a, w)[0];
    const plain = (a: T) => w.unbind().reduce((c, row) => c.mul(row).sin(), a);
    await same(jacfwd(looped)(x), jacrev(plain)(x));
    await same(hessian((a: T) => looped(a).sum())(x), jacrev(jacrev((a: T) => plain(a).sum()))(x));
    const branched = (a: T) =>
      tx.cond(
        a.sum().gt(0),
        (b: T) => b.sin(),
        (b: T) => b.exp(),
        a,
      );
    await same(jacfwd(branched)(x), jacrev(branched)(x));
  });
  test('in chunks: a loop, and the rest', async () => {
    await same(vmap(grad(number), { chunkSize: 2 })(xs), each(grad(number)));
    await same(vmap(grad(number), { chunkSize: 9 })(xs), each(grad(number)));
    await same(grad((a: T) => vmap(number, { chunkSize: 2 })(a).sum())(xs), each(grad(number)));
    const options = { outDims: [0, null], chunkSize: 2 } as const;
    const [own, shared] = vmap((a: T) => [number(a), w.sum()] as const, options)(xs) as readonly [T, T];
    await same(own, each(number));
    await same(shared, w.sum()); // the same for all examples: not stacked
  });
  test('trees, dimensions and what is the same for all', async () => {
    const g = vmap(({ a, b }: { a: T; b: [T, number] }, scale: number) => ({ sum: a.add(b[0]).mul(scale), one: w }), {
      inDims: [{ a: 1, b: null }, null],
      outDims: { sum: 1, one: null },
    });
    const { sum, one } = g({ a: xs.t(), b: [x, 7] }, 2);
    await same(sum, xs.add(x).mul(2).t());
    expect(one.shape).toEqual([3, 4]);
    await same(vmap((a: T) => [a.sum(), w] as const)(xs)[1], w.expand([5, 3, 4]));
  });
  test('what the function makes is its own to change', async () => {
    const counted = vmap((a: T) => {
      const total = tx.zeros([4], { dtype: 'f64' });
      total.add_(a);
      total.mul_(2);
      return total;
    });
    await same(counted(xs), xs.mul(2));
  });
});

describe('modules', () => {
  const { nn } = tx;
  class Tiny extends nn.Module {
    embed = new nn.Embedding(11, 8);
    layer = new nn.TransformerEncoderLayer(8, 2, { dimFeedforward: 16, dropout: 0, batchFirst: true });
    head = new nn.Linear(8, 11);
    override forward(ids: T): T {
      return this.head.forward(this.layer.forward(this.embed.forward(ids), { isCausal: true }));
    }
  }
  const ids = tx.tensor([
    [1, 2, 3, 4, 5],
    [9, 8, 7, 6, 5],
    [0, 1, 0, 1, 0],
  ]);
  let model: Tiny;
  beforeAll(() => {
    tx.manualSeed(3);
    model = new Tiny();
  });
  const lossOf = (params: Record<string, T>, row: T) =>
    tx.crossEntropy(functionalCall(model, params, row.unsqueeze(0)).select(0, 0), row.roll(-1));

  test('per-example gradients of a small transformer are one program', async () => {
    const params = Object.fromEntries([...model.namedParameters()].map(([name, p]) => [name, p.detach()]));
    await tx.sync({ wait: true });
    const before = executions();
    const grads = vmap(grad(lossOf), { inDims: [null, 0] })(params, ids);
    const [got] = await tx.read(grads);
    expect(executions() - before).toBe(1);
    expect(Object.keys(got).length).toBe(params ? Object.keys(params).length : 0);
    for (const [i, row] of ids.unbind().entries()) {
      model.zeroGrad();
      lossOf(Object.fromEntries(model.namedParameters()), row).backward();
      const [want] = await tx.read(
        Object.fromEntries([...model.namedParameters()].map(([name, p]) => [name, p.grad!])),
      );
      for (const [name, g] of Object.entries(want)) {
        const part = Array.from(got[name]! as Float32Array).slice(i * g.length, (i + 1) * g.length);
        part.forEach((y, k) => void expect(y, name).toBeCloseTo(Number(g[k]), 5));
      }
    }
  });

  test('an ensemble', async () => {
    const models = [1, 2, 3].map(
      () => new nn.Sequential(new nn.Linear(4, 3), new nn.Tanh(), new nn.BatchNorm1d(3).eval()),
    );
    const [params, buffers] = stackModuleState(models);
    expect(params['0.weight']!.shape).toEqual([3, 3, 4]);
    expect(params['0.weight']!.requiresGrad).toBe(true);
    expect(buffers['2.running_mean']!.requiresGrad).toBe(false);
    const input = wave([6, 4]).float();
    const call = (p: Record<string, T>, b: Record<string, T>, a: T) => functionalCall(models[0]!, [p, b], a);
    const all = vmap(call, { inDims: [0, 0, null] })(params, buffers, input);
    await same(all, tx.stack(models.map((m) => m.forward(input))), 5);
    const own = models.map((m) => m.forward(input).square().sum()).reduce((a, b) => a.add(b));
    own.backward();
    all.square().sum().backward();
    await same(params['0.weight']!.grad!, tx.stack(models.map((m) => m.parameters()[0]!.grad!)), 5);
  });

  test('what does not fit', () => {
    const linear = new nn.Linear(2, 2);
    const input = tx.ones([2]);
    expect(() => functionalCall(linear, { wait: input }, input)).toThrow(
      'functionalCall: the module has no parameter or buffer wait: it has weight, bias',
    );
    expect(() => functionalCall(linear, { bias: input }, input, { strict: true })).toThrow(
      'functionalCall: weight missing: pass them, or leave strict out',
    );
    expect(() => functionalCall(linear, [{ bias: input }, { bias: input }], input)).toThrow(
      'functionalCall: bias is given twice',
    );
    expect(() => stackModuleState([])).toThrow('stackModuleState: the list of modules is empty');
    expect(() => stackModuleState([linear, new nn.Linear(3, 2)])).toThrow(
      'stackModuleState: module 1 differs from module 0: weight is f32[2, 3] and f32[2, 2]: all modules must have the same structure',
    );
  });
});

describe('random numbers', () => {
  const noisy = (a: T) => a.add(tx.rand([2]).sum());
  const zeros = tx.zeros([64]);
  test('not by default', () => {
    expect(() => vmap(noisy)(zeros)).toThrow(
      "vmap: the function draws random numbers: pass randomness: 'different' for different numbers in each example, or 'same'",
    );
  });
  test('others for each example, or the same; and others in the next call', async () => {
    const different = vmap(noisy, { randomness: 'different' });
    const [a, b] = [await numbers(different(zeros)), await numbers(different(zeros))];
    expect(new Set([...a, ...b]).size).toBe(128);
    expect(a.reduce((s, y) => s + y) / 64).toBeCloseTo(1, 0);
    const alike = vmap(noisy, { randomness: 'same' });
    const [c, d] = [await numbers(alike(zeros)), await numbers(alike(zeros))];
    expect(new Set(c).size).toBe(1);
    expect(new Set([...c, ...d]).size).toBe(2);
  });
  test('one for all is what a call without vmap draws, and the generator continues from there', async () => {
    tx.manualSeed(5);
    const mapped = vmap(noisy, { randomness: 'same' })(zeros).select(0, 7);
    const next = tx.rand([2]);
    const got = [...(await numbers(mapped)), ...(await numbers(next))];
    tx.manualSeed(5);
    const plain = noisy(tx.zeros([]));
    expect(got).toEqual([...(await numbers(plain)), ...(await numbers(tx.rand([2])))]);
  });
  test('in a loop in a compiled function, and one vmap in another', async () => {
    const walk = (a: T) => tx.foriLoop(0, 3, (_, c: T) => c.add(tx.randn([])), a);
    const step = tx.compile(() => vmap(walk, { randomness: 'different' })(zeros));
    const [one, two] = [await numbers(await step()), await numbers(await step())];
    expect(new Set([...one, ...two]).size).toBe(128);
    const inner = (randomness: 'different' | 'same') => (a: T) => vmap(noisy, { randomness })(a);
    const grid = await numbers(vmap(inner('same'), { randomness: 'different' })(tx.zeros([4, 3])));
    expect(new Set(grid).size).toBe(4);
    const columns = await numbers(vmap(inner('different'), { randomness: 'same' })(tx.zeros([4, 3])));
    expect(new Set(columns).size).toBe(3);
    expect(() => vmap(inner('different'))(tx.zeros([4, 3]))).toThrow('vmap: the function draws random numbers');
  });
  test('dropout in attention', async () => {
    const q = wave([3, 1, 2, 4]).float();
    const attend = (a: T) => tx.scaledDotProductAttention(a, a, a, { dropoutP: 0.5 }).sum();
    const [one, two] = await numbers(vmap((_: T) => attend(q), { randomness: 'different' })(zeros.narrow(0, 0, 2)));
    expect(one).not.toBe(two);
    tx.manualSeed(9);
    const mapped = vmap(grad(attend), { randomness: 'same' })(q);
    const got = await numbers(mapped);
    tx.manualSeed(9);
    const first = grad(attend)(q.select(0, 0));
    expect(got.slice(0, 8)).toEqual(await numbers(first));
  });
});

describe('errors', () => {
  test.each<[string, () => unknown, string]>([
    ['a function is needed', () => vmap(3 as never), 'vmap: takes a function, got the number 3'],
    [
      'nothing to go along',
      () => vmap(f, { inDims: null })(xs),
      'vmap: inDims is null for all arguments: it must be a number for at least one tensor',
    ],
    [
      'sizes',
      () => vmap((a: T, b: T) => a.add(b))(xs, w),
      'vmap: argument 0, f64[5, 4], has 5 examples along dimension 0, but argument 1, f64[3, 4], has 3 along 0: they must be equal',
    ],
    [
      'a scalar',
      () => vmap(f)(w.sum()),
      'vmap: inDims is 0 for argument 0, f64[]: a scalar has no dimension: stack it, or pass null',
    ],
    [
      'a dimension',
      () => vmap(f, { inDims: 2 })(xs),
      'vmap: inDims is 2 for argument 0, f64[5, 4]: dimensions are -2 to 1',
    ],
    [
      'too many dims',
      () => vmap(f, { inDims: [0, 0] })(xs),
      'vmap: inDims has 2 entries, but the function was called with 1 arguments: give one for each',
    ],
    [
      'no tensor',
      () => vmap((a: T, n: number) => a.mul(n))(xs, 2),
      'vmap: argument 1 is the number 2: it must be a tensor, or nested arrays and objects of tensors; for all others pass inDims null',
    ],
    [
      'no tensor comes out',
      () => vmap((_: T) => 3)(xs),
      'vmap: the result is the number 3: it must be a tensor, or nested arrays and objects of tensors',
    ],
    [
      'differs',
      () => vmap(f, { outDims: null })(xs),
      'vmap: outDims is null for the result, f64[3], which differs between examples',
    ],
    [
      'randomness',
      () => vmap(f, { randomness: 'other' as never }),
      'vmap: randomness is other: it must be error, different, same',
    ],
    [
      'in place',
      () => vmap((a: T) => w.detach().add_(a.sum()))(xs),
      'is changed in place inside a body: vmap traces the function once for all examples: return the new value, and change the tensor after vmap',
    ],
    ['an argument in place', () => vmap((a: T) => a.add_(1))(xs), 'is changed in place inside a body: vmap traces'],
    // eslint-disable-next-line tsxla/await-read -- the error is tested
    ['a read', () => vmap((a: T) => a.mul(Number(a.item())))(xs), 'item() inside the body'],
    // eslint-disable-next-line tsxla/no-async-function -- the error is tested
    ['async', () => vmap(async (a: T) => a)(xs), 'vmap: the function is async'],
    ['integers', () => jacrev(f)(tx.tensor([1, 2, 3, 4])), 'jacrev: argument 0 is i64[4]: only floats have gradients'],
    [
      'integers come out',
      () => jacfwd((a: T) => a.argmax())(x),
      "jacfwd: the function's result is i64[]: only floats have derivatives: return it as aux, with hasAux",
    ],
    [
      'argnums twice',
      () => grad((a: T, b: T) => a.mul(b).sum(), { argnums: [0, -2] })(x, x),
      'grad: argnums is [0, -2], which names argument 0 twice: give each argument once',
    ],
    [
      'argnums',
      () => jacrev(f, { argnums: 1 })(x),
      'jacrev: argnums has 1, but the function was called with 1 arguments',
    ],
    ['tangents', () => jvp(f, [x], [w]), 'jvp: tangent 0 is f64[3, 4] as given and f64[4] in argument 0'],
    ['their number', () => jvp(f, [x], [] as never), 'jvp: 0 tangents for 1 arguments: give one for each'],
    ['cotangents', () => vjp(f, x)[1](x), "vjp: the cotangents is f64[4] as given and f64[3] in the function's result"],
    [
      'no aux',
      () => vjp(f as (a: T) => never, x, { hasAux: true }),
      'vjp: with hasAux the function must return [value, aux], got a Tensor',
    ],
    [
      'a loop of unknown length',
      () =>
        jvp(
          (a: T) =>
            tx.whileLoop(
              (c: T) => c.sum().lt(1),
              (c) => c.mul(2),
              a,
            ),
          [x],
          [x],
        ),
      'whileLoop: no gradient, as the number of iterations is unknown',
    ],
  ])('%s', (_, run, message) => expect(run).toThrow(message));
});

test('vmap keeps the order of keys, and results by name stay lists', async () => {
  const pair = tx.func.vmap((a: tx.Tensor) => ({ weight: a.mul(2), bias: a.add(1) }))(tx.ones([2, 3]));
  expect(Object.keys(pair)).toEqual(['weight', 'bias']);
  const [values, indices] = tx.func.vmap((a: tx.Tensor) => a.sort())(
    tx.tensor([
      [3, 1],
      [2, 5],
    ]),
  );
  expect([await values.tolist(), await indices.tolist()]).toEqual([
    [
      [1n, 3n],
      [2n, 5n],
    ],
    [
      [1n, 0n],
      [0n, 1n],
    ],
  ]);
});

test('types: argnums, hasAux and trees', async () => {
  const loss = (p: { w: T; b: T[] }, a: T) => p.w.mul(a).sum().add(p.b[0]!);
  const withAux = (a: T, b: T): [T, { double: T }] => [a.mul(b).sum(), { double: a.mul(2) }];
  const p = { w: x, b: [x.sum()] };
  expectTypeOf(grad(loss)(p, x)).toEqualTypeOf<{ w: T; b: T[] }>();
  expectTypeOf(grad(loss, { argnums: 1 })(p, x)).toEqualTypeOf<T>();
  const [[value, aux], both] = valueAndGrad(withAux, { argnums: [0, 1], hasAux: true })(x, x);
  expectTypeOf(aux).toEqualTypeOf<{ double: T }>();
  await same(value, x.mul(x).sum());
  await same(both[1], x);
  const [[first], [again, aside]] = gradAndValue(withAux, { argnums: [0], hasAux: true })(x, x);
  await same(first, x);
  await same(again, value);
  expectTypeOf(aside).toEqualTypeOf<{ double: T }>();
  expectTypeOf(gradAndValue(loss)(p, x)).toEqualTypeOf<[{ w: T; b: T[] }, T]>();
  const [jac, other] = jacrev(withAux, { argnums: 1, hasAux: true })(x, x);
  expectTypeOf(jac).toEqualTypeOf<T>();
  expectTypeOf(other).toEqualTypeOf<{ double: T }>();
  await same(other.double, x.mul(2));
  const second = hessian(loss)(p, x);
  expectTypeOf(second.w.b).toEqualTypeOf<T[]>();
  expect(second.w.w.shape).toEqual([4, 4]);
  const [y, pull, rest] = vjp(withAux, x, x, { hasAux: true });
  expectTypeOf(rest).toEqualTypeOf<{ double: T }>();
  expectTypeOf(pull(y)).toEqualTypeOf<[a: T, b: T]>();
  const [, change, third] = jvp(withAux, [x, x], [x, x], { hasAux: true });
  await same(change, x.mul(x).sum().mul(2));
  expectTypeOf(third).toEqualTypeOf<{ double: T }>();
  expectTypeOf(vmap(loss, { inDims: [null, 0] })).toEqualTypeOf(loss);
});
