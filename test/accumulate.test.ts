// Gradient accumulation in one program: the same gradients as a loop of backward() and as one large batch, in flat memory.
import * as tx from 'tsxla';
import { beforeEach, describe, expect, test } from 'vitest';
import { counts } from '../dist/runtime/program.js';
import { defaultClient } from '../dist/runtime/value.js';

type T = tx.Tensor;
const [N, B, D] = [4, 3, 5];
const numbers = async (t: T): Promise<number[]> => Array.from((await t.data()) as Float32Array);
async function expectClose(got: T, want: T, tolerance = 1e-6): Promise<void> {
  const [a, b] = [await numbers(got), await numbers(want)];
  expect(a).toHaveLength(b.length);
  const worst = Math.max(...a.map((v, i) => Math.abs(v - b[i]!) / (1 + Math.abs(b[i]!))));
  expect(worst).toBeLessThan(tolerance);
}

/** A network, and micro-batches of data for it. */
async function problem(dropout = 0) {
  tx.manualSeed(1);
  const [x, y] = [tx.randn([N, B, D]), tx.randn([N, B, 1])];
  const w = tx.randn([D, D], { requiresGrad: true });
  const b = tx.randn([D], { requiresGrad: true });
  const v = tx.randn([D, 1], { requiresGrad: true });
  await tx.sync(x, y, w, b, v);
  const net = (x: T) => tx.dropout(x.matmul(w).add(b).tanh(), { p: dropout }).matmul(v);
  const loss = ([x, y]: readonly [T, T]) => tx.mseLoss(net(x), y);
  const parameters = [w, b, v];
  /** What f leaves in the gradients, on top of what was there; and what it gives. */
  const gradsOf = async (f: () => T, before: T | null = null): Promise<T[]> => {
    for (const p of parameters) p.grad = before?.broadcastTo(p.shape) ?? null;
    const result = f();
    const left = [result, ...parameters.map((p) => p.grad!)];
    for (const p of parameters) p.grad = null;
    await tx.sync(...left);
    return left;
  };
  const loop = (scale: number) => () => {
    let total = tx.tensor(0, { dtype: 'f32' });
    for (let i = 0; i < N; i++) {
      const part = loss([x.select(0, i), y.select(0, i)]).mul(scale);
      part.backward();
      total = total.add(part.detach());
    }
    return total;
  };
  return { x, y, w, b, v, parameters, loss, gradsOf, loop };
}

describe('accumulate', () => {
  test('is the gradient of the whole batch, and of a loop that calls backward', async () => {
    const { x, y, loss, gradsOf, loop } = await problem();
    const got = await gradsOf(() => tx.accumulate([x, y] as const, loss));
    const whole = await gradsOf(() => {
      const l = loss([x.reshape([N * B, D]), y.reshape([N * B, 1])]);
      l.backward();
      return l;
    });
    const looped = await gradsOf(loop(1 / N));
    expect(got).toHaveLength(4);
    for (const [i, g] of got.entries()) {
      await expectClose(g, whole[i]!);
      await expectClose(g, looped[i]!);
    }
  });

  test('the sum, if asked for; and it is added to what grad holds', async () => {
    const { x, y, loss, gradsOf, loop } = await problem();
    const before = tx.tensor(0.5);
    const got = await gradsOf(() => tx.accumulate([x, y] as const, loss, { reduction: 'sum' }), before);
    const looped = await gradsOf(loop(1), before);
    for (const [i, g] of got.entries()) await expectClose(g, looped[i]!);
    const again = await gradsOf(
      () => tx.noGrad(() => tx.accumulate([x, y] as const, loss, { reduction: 'sum' })),
      before,
    );
    for (const [i, g] of again.entries()) await expectClose(g, looped[i]!);
  });

  test('with dropout: each micro-batch draws anew, and the generator continues as after the loop', async () => {
    const { x, y, loss, gradsOf, loop } = await problem(0.5);
    const draw = async (f: () => T) => {
      tx.manualSeed(7);
      const left = await gradsOf(f);
      return [...left, tx.defaultGenerator.getState()];
    };
    const got = await draw(() => tx.accumulate([x, y] as const, loss));
    const looped = await draw(loop(1 / N));
    for (const [i, g] of got.entries()) await expectClose(g, looped[i]!);
    const without = await gradsOf(() => tx.accumulate([x, y] as const, loss)); // from where the generator is now
    await expect(expectClose(got[1]!, without[1]!)).rejects.toThrow();
  });

  test('inside a step and inside a compiled function, in one program', async () => {
    const { x, y, parameters, loss, gradsOf } = await problem(0.5);
    tx.manualSeed(7);
    const plain = await gradsOf(() => tx.accumulate([x, y] as const, loss));
    const inside = (x: T, y: T) => {
      const l = tx.accumulate([x, y] as const, loss);
      const grads = parameters.map((p) => p.grad!);
      for (const p of parameters) p.grad = null;
      return [l, ...grads];
    };
    tx.manualSeed(7);
    for (const [i, t] of (await tx.step(() => inside(x, y))).entries()) await expectClose(t, plain[i]!);
    tx.manualSeed(7);
    for (const [i, t] of (await tx.compile(inside)(x, y)).entries()) await expectClose(t, plain[i]!);
  });

  test('a training loop compiles once, and learns', async () => {
    const { x, y, parameters, loss } = await problem();
    const train = tx.compile((x: T, y: T) => {
      for (const p of parameters) p.grad = null;
      const l = tx.accumulate({ x, y }, ({ x, y }) => loss([x, y]));
      tx.noGrad(() => {
        for (const p of parameters) p.sub_(p.grad!.mul(0.05));
      });
      return l;
    });
    const first = Number(await (await train(x, y)).item());
    const { compiled, executed } = counts;
    let last = first;
    for (let i = 0; i < 50; i++) last = Number(await (await train(x, y)).item());
    expect(last).toBeLessThan(first / 2);
    expect([counts.compiled - compiled, counts.executed - executed]).toEqual([0, 50]);
    expect(train.programs).toBe(1);
  });

  test('gradients that a step leaves go on in the next one', async () => {
    const { x, y, parameters, loss, gradsOf } = await problem();
    const twice = await gradsOf(() => {
      tx.accumulate([x, y] as const, loss);
      return tx.accumulate([x, y] as const, loss);
    });
    for (let i = 0; i < 2; i++) await tx.step(() => tx.accumulate([x, y] as const, loss));
    for (const [i, p] of parameters.entries()) await expectClose(p.grad!, twice[1 + i]!);
  });

  test('a plain loop compiles once, too', async () => {
    const { x, y, parameters, loss } = await problem();
    const { compiled } = counts;
    for (let i = 0; i < 5; i++) {
      const l = tx.accumulate([x, y] as const, loss);
      tx.noGrad(() => {
        for (const p of parameters) p.sub_(p.grad!.mul(0.05));
      });
      for (const p of parameters) p.grad = null;
      await l.item();
    }
    expect(counts.compiled - compiled).toBe(1);
  });

  test('calls fn once, with trees like the micro-batches', async () => {
    const table = tx.randn([10, 2], { requiresGrad: true });
    const ids = tx.randint(0, 10, [6, 4]);
    const seen: unknown[] = [];
    const loss = tx.accumulate({ ids, more: [tx.ones([6])] }, (batch) => {
      seen.push([batch.ids.shape, batch.ids.dtype, batch.more[0]!.shape]);
      return table.indexSelect(0, batch.ids).sum().mul(batch.more[0]!);
    });
    expect(seen).toEqual([[[4], 'i64', []]]);
    expect(loss.requiresGrad).toBe(false);
    expect(() => loss.backward()).toThrow('it was computed through detach()');
    const uses = new Array(10).fill(0);
    for (const i of ((await ids.tolist({ numbers: true })) as number[][]).flat()) uses[i]++;
    const want = uses.flatMap((n) => [n / 6, n / 6]);
    await expectClose(table.grad!, tx.tensor(want).reshape([10, 2]));
  });

  test('reaches variables through what was computed before it, and leaves others alone', async () => {
    const { x, y, w, b, v, gradsOf, loop, loss } = await problem();
    const looped = await gradsOf(loop(1 / N));
    const other = tx.ones([2], { requiresGrad: true });
    const twice = w.mul(2);
    tx.accumulate([x, y] as const, ([x, y]) =>
      tx.mseLoss(x.matmul(twice.div(2)).add(b).tanh().matmul(v), y).add(other.detach().sum().mul(0)),
    );
    await expectClose(w.grad!, looped[1]!);
    await expectClose(b.grad!, looped[2]!);
    expect(other.grad).toBeNull();
    expect(loss([x.select(0, 0), y.select(0, 0)]).requiresGrad).toBe(true); // nothing was detached
  });

  test('memory does not grow with the number of micro-batches', async () => {
    const client = await defaultClient();
    const size = 128;
    const w = tx.randn([size, size], { requiresGrad: true });
    await tx.sync(w);
    const temporaries = async (f: () => T): Promise<number> => {
      w.grad = null;
      const program = await client.compile(tx.getStablehlo([f(), w.grad!]));
      return program.memory().temporaries;
    };
    const part = (x: T) => tx.dropout(x.matmul(w).tanh()).square().mean();
    const data = async (n: number) => {
      const x = tx.randn([n, 64, size]);
      await tx.sync(x);
      return x;
    };
    const bytes: number[] = [];
    for (const n of [2, 8, 32]) {
      const x = await data(n);
      bytes.push(await temporaries(() => tx.accumulate(x, part)));
    }
    expect(Math.max(...bytes)).toBe(Math.min(...bytes));
    const x = await data(32);
    const whole = await temporaries(() => {
      const loss = part(x.reshape([32 * 64, size]));
      loss.backward();
      return loss;
    });
    expect(whole).toBeGreaterThan(4 * bytes[2]!); // it is worth it
  });
});

describe('misuse', () => {
  const w = tx.ones([2], { requiresGrad: true });
  const x = tx.ones([3, 2]);
  beforeEach(() => void (w.grad = null));
  const cases: [string, () => unknown, string][] = [
    [
      'no scalar',
      () => tx.accumulate(x, (x) => x.mul(w)),
      'accumulate: fn returned f32[2]: the loss must be a scalar of a floating point dtype (use sum or mean)',
    ],
    [
      'an integer',
      () => tx.accumulate(x, (x) => x.argmax()),
      'accumulate: fn returned i64[]: the loss must be a scalar of a floating point dtype (use sum or mean)',
    ],
    [
      'no tensor',
      () => tx.accumulate(x, () => 3 as never),
      'accumulate: fn returned the number 3: it must return the loss, a tensor',
    ],
    ['no function', () => tx.accumulate(x, 3 as never), 'accumulate: takes a function, got the number 3'],
    ['async', () => tx.accumulate(x, (async () => w.sum()) as never), 'accumulate: the function is async'],
    [
      'uneven micro-batches',
      () => tx.accumulate([x, tx.ones([2, 2])], ([x]) => x!.mul(w).sum()),
      "accumulate: microBatches differ in length: microBatches' leaf [0] has 3, microBatches' leaf [1] has 2",
    ],
    [
      'a scalar among them',
      () => tx.accumulate({ x, n: tx.tensor(1) }, ({ x }) => x.mul(w).sum()),
      "accumulate: microBatches' leaf .n is i64[]: a scalar has no dimension to iterate over",
    ],
    ['none', () => tx.accumulate([], () => w.sum()), 'accumulate: microBatches contains no tensor: pass at least one'],
    [
      'none of them',
      () => tx.accumulate(tx.ones([0, 2]), (x) => x.mul(w).sum()),
      'accumulate: microBatches have a first dimension of 0: pass at least one micro-batch',
    ],
    [
      'nothing wants a gradient',
      () => tx.accumulate(x, (x) => x.sum()),
      'accumulate: the loss of fn, f32[], depends on no tensor that requires a gradient: call requiresGrad_() on the parameters',
    ],
    [
      'the way is cut',
      () => tx.accumulate(x, (x) => x.mul(w.detach()).sum()),
      'accumulate: the loss of fn, f32[], depends on no tensor that requires a gradient: call requiresGrad_() on the parameters',
    ],
    [
      'the data want one',
      () => tx.accumulate(tx.ones([3, 2], { requiresGrad: true }), (x) => x.mul(w).sum()),
      'accumulate: microBatches, f32[3, 2], requires a gradient, but micro-batches get none: detach() it',
    ],
    [
      'reduction',
      () => tx.accumulate(x, (x) => x.mul(w).sum(), { reduction: 'max' as never }),
      'accumulate: reduction is max: it must be mean or sum',
    ],
    [
      'a running mean changed in place',
      () => {
        const mean = tx.zeros([2]);
        return tx.accumulate(x, (x) => {
          mean.mul_(0.9).add_(x.mul(0.1));
          return x.mul(w).sum();
        });
      },
      'this f32[2] is changed in place inside a body: accumulate calls fn once for all micro-batches: change it after accumulate, or put the layer in eval mode',
    ],
    [
      'inside a loop',
      () =>
        tx.scan((c, x: T) => [c.add(tx.accumulate(x.reshape([2, 1]), (x) => x.mul(w).sum())), c], tx.tensor(0.5), x),
      'accumulate: called inside the body of a loop or a branch, where gradients cannot be stored: call it outside',
    ],
  ];
  test.each(cases)('%s', (_, call, message) => {
    expect(call).toThrow(message);
    expect(w.grad).toBeNull();
  });

  test('errors say where, and a failed call leaves the generator where it was', async () => {
    tx.manualSeed(3);
    const before = await tx.defaultGenerator.getState().tolist();
    const call = () => tx.accumulate(x, (x) => tx.dropout(x).mul(w));
    expect(call).toThrow(/accumulate: fn returned f32\[2\].*\n {4}at .*accumulate\.test\.ts:\d+$/s);
    expect(await tx.defaultGenerator.getState().tolist()).toEqual(before);
  });
});
