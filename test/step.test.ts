// Steps: one program a step, what lives after it, and what does not.
import * as tx from 'tsxla';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { counts } from '../dist/runtime/program.js';
import { defaultClient } from '../dist/runtime/value.js';

let start = { ...counts };
const since = () => ({ compiled: counts.compiled - start.compiled, executed: counts.executed - start.executed });
beforeEach(async () => {
  await tx.sync({ wait: true });
  start = { ...counts };
});

afterEach(() => vi.unstubAllEnvs());

/** y = 3x - 1 by gradient descent: parameters, momenta, data. */
async function problem() {
  const x = tx.linspace(-1, 1, 32).unsqueeze(1);
  const y = x.mul(3).sub(1);
  const w = tx.zeros([1, 1], { requiresGrad: true });
  const b = tx.zeros([1], { requiresGrad: true });
  const lr = tx.tensor(0.1);
  await tx.sync(x, y, w, b);
  start = { ...counts };
  const update = (x: tx.Tensor, y: tx.Tensor) => {
    for (const p of [w, b]) p.grad = null;
    const loss = tx.mseLoss(x.matmul(w).add(b), y);
    loss.backward();
    tx.noGrad(() => {
      for (const p of [w, b]) p.sub_(p.grad!.mul(lr));
    });
    return loss;
  };
  return { x, y, w, b, lr, update };
}

describe('step', () => {
  test('computes what it returns and what it changes in one program, the same every time', async () => {
    const { x, y, w, b, update } = await problem();
    let loss = Number.NaN;
    for (let i = 0; i < 200; i++) loss = Number(await (await tx.step(() => update(x, y))).item());
    expect(loss).toBeLessThan(1e-4);
    expect(since()).toEqual({ compiled: 1, executed: 200 });
    expect(await w.item()).toBeCloseTo(3, 1);
    expect(await b.item()).toBeCloseTo(-1, 1);
    expect(since().executed).toBe(200); // reading only copies
  });

  test('keeps gradients where they are still set', async () => {
    const { x, y, w, b, update } = await problem();
    await tx.step(() => update(x, y));
    expect(await w.grad!.item()).toBeLessThan(0);
    await tx.step(() => {
      w.grad = null;
    });
    expect(w.grad).toBeNull();
    expect(b.grad).not.toBeNull();
  });

  test('what is made inside and not returned is spent, and says where it was made', async () => {
    let kept: tx.Tensor | undefined;
    const x = tx.ones([2]);
    const returned = await tx.step(function add() {
      // eslint-disable-next-line tsxla/no-escaped-tensor -- this is what is tested
      kept = x.add(1);
      return kept.mul(2);
    });
    expect(await returned.tolist()).toEqual([4, 4]);
    expect(() => kept!.add(1)).toThrow(
      /^this f32\[2\] was made at .*step\.test\.ts:\d+, inside add, and not returned from it: its value is gone. Return it/,
    );
    await expect(kept!.item()).rejects.toThrow(tx.SpentError);
  });

  test('the tensor that is returned is the one that was made, and has no past', async () => {
    const w = tx.ones([2], { requiresGrad: true });
    let made: tx.Tensor | undefined;
    const y = await tx.step(() => {
      // eslint-disable-next-line tsxla/no-escaped-tensor -- this is what is tested
      made = w.mul(2);
      return made;
    });
    expect(y).toBe(made);
    expect(y.requiresGrad).toBe(false);
    expect(await y.tolist()).toEqual([2, 2]);
    expect(await tx.step(() => w)).toBe(w); // from outside: itself
  });

  test('trees are returned as they are', async () => {
    const x = tx.ones([2]);
    const { a, b } = await tx.step(() => ({ a: x.add(1), b: [x.mul(3), null] as const }));
    expect(await a.tolist()).toEqual([2, 2]);
    expect(await b[0].tolist()).toEqual([3, 3]);
    expect(b[1]).toBeNull();
    await expect(tx.step(() => 'x')).rejects.toThrow(
      "what step returns is the string 'x': it must be a tensor, or nested arrays and objects of tensors",
    );
  });

  test('a step that throws leaves everything as it was', async () => {
    const { x, y, w, update } = await problem();
    await tx.step(() => update(x, y));
    const before = await w.item();
    const grad = w.grad;
    await expect(
      tx.step(() => {
        update(x, y);
        w.grad = null;
        throw new Error('no');
      }),
    ).rejects.toThrow('no');
    expect(await w.item()).toBe(before);
    expect(w.grad).toBe(grad);
    expect(w.requiresGrad).toBe(true);
    await tx.step(() => update(x, y));
    expect(await w.item()).not.toBe(before);
    expect(since().compiled).toBeLessThan(2); // none if another test had the same program
  });

  test('a step that is larger than the device is not tried: nothing changes', async () => {
    const w = tx.ones([4]);
    await tx.sync(w);
    const huge = () =>
      void w.add_(
        tx
          .rand([1 << 21, 1 << 21])
          .sort()
          .values.sum(),
      );
    await expect(tx.step(huge, { name: 'huge' })).rejects.toThrow(
      /^huge needs 16\.0 TiB \(inputs .* B, new results .*, temporaries 16\.0 TiB\), .* has .* GiB: nothing was run or changed\. Use a smaller batch/,
    );
    expect(await w.tolist()).toEqual([1, 1, 1, 1]);
    expect(await (await tx.step(() => tx.rand([3]))).data()).toHaveLength(3); // the generator's state, too
  });

  test('a step that fails on the device says what is lost with it', async () => {
    vi.stubEnv('TSXLA_MEMORY_CHECK', 'off');
    const w = tx.ones([4]);
    const v = tx.ones([4]);
    await tx.sync(w, v);
    await tx.step(function huge() {
      w.add_(
        tx
          .rand([1 << 21, 1 << 21])
          .sort()
          .values.sum()
          .add(v),
      );
    });
    const message =
      /^huge failed on the device: .*Out of memory allocating \d+ bytes.*\n {4}lost with it, since their old values were donated to the step: .*f32\[4\] \(the tensor made at .*step\.test\.ts:\d+\).*: set them again, or load a checkpoint$/;
    await expect(w.tolist()).rejects.toThrow(message);
    await expect(w.tolist()).rejects.toThrow(tx.StepFailedError);
    await expect(tx.step(() => void w.add_(1))).rejects.toThrow(message);
    expect(await v.tolist()).toEqual([1, 1, 1, 1]); // only read
    await tx.defaultGenerator.manualSeed(0);
    w.copy_([5, 6, 7, 8]);
    await tx.step(() => void w.add_(v));
    expect(await w.tolist()).toEqual([6, 7, 8, 9]);
  });

  test('reading inside, an async function and sync inside are errors', async () => {
    const x = tx.ones([2]);
    await expect(
      tx.step(function f() {
        void x.item();
      }),
    ).rejects.toThrow(
      'item() inside f: a step only describes a computation and has no values yet: return the tensor, and read it after the step',
    );
    for (const method of ['data', 'tolist', 'print'] as const)
      await expect(tx.step(() => void x[method]())).rejects.toThrow(tx.ReadError);
    await expect(tx.step((async () => x) as never)).rejects.toThrow('the function is async');
    await expect(tx.step(() => void tx.sync())).rejects.toThrow('sync() inside step: a step is one program already');
  });

  test('a step inside a step is part of it', async () => {
    const x = tx.ones([2]);
    await tx.sync(x);
    start = { ...counts };
    await tx.step(() => {
      x.add_(1);
      void tx.step(() => {
        x.mul_(3);
      });
    });
    expect(await x.tolist()).toEqual([6, 6]);
    expect(since()).toEqual({ compiled: 1, executed: 1 });
  });

  test('steps run in the order of their calls, even if not awaited', async () => {
    const x = tx.ones([1]);
    await tx.sync(x);
    const all = [2, 3, 4].map((k) => tx.step(() => void x.mul_(k).add_(k)));
    const read = x.item();
    await Promise.all(all);
    expect(await read).toBe(((1 * 2 + 2) * 3 + 3) * 4 + 4);
  });

  test('what is changed between calls that are not awaited is changed between them', async () => {
    const [x, lr] = [tx.zeros([1]), tx.tensor(1)];
    const f = tx.compile((y: tx.Tensor) => void x.add_(y.mul(lr)));
    const y = tx.ones([1]);
    const reads = [];
    for (const k of [1, 10, 100]) {
      lr.copy_(k);
      y.copy_([k]);
      void f(y);
      reads.push(x.item());
      y.mul_(0);
    }
    expect(await Promise.all(reads)).toEqual([1, 101, 10101]);
  });

  test('calls after one that cannot be compiled fail with it, and all is as it was', async () => {
    const x = tx.ones([1]);
    await tx.sync(x);
    const bad = { xlaFlags: { xla_no_such_flag: true } };
    const first = tx.step(() => x.add_(1), bad);
    const second = tx.step(() => x.mul(2).add(x.add_(2)));
    await expect(first).rejects.toThrow('xla_no_such_flag');
    const third = tx.step(() => x.add_(5), bad);
    await expect(second).rejects.toThrow('xla_no_such_flag');
    await expect(third).rejects.toThrow('xla_no_such_flag');
    expect(await x.item()).toBe(1);
    expect(await (await tx.step(() => x.mul(2))).item()).toBe(2);
  });

  test('random numbers go on from step to step', async () => {
    tx.manualSeed(1);
    await tx.sync();
    start = { ...counts };
    const draw = () => tx.step(() => tx.rand([2]));
    const [a, b] = [await (await draw()).tolist(), await (await draw()).tolist()];
    expect(a).not.toEqual(b);
    tx.manualSeed(1);
    expect(await (await draw()).tolist()).toEqual(a);
    expect(since().compiled).toBe(1);
  });

  test('what is pending outside is computed before, so the first step is the same program as the others', async () => {
    const w = tx.randn([8]).mul(0.1);
    const m = tx.zeros([8]);
    const update = () => void w.add_(m.add_(1));
    await tx.step(update);
    await tx.step(update);
    expect(since()).toEqual({ compiled: 2, executed: 3 }); // one for what was pending
    expect(await m.tolist()).toEqual(Array(8).fill(2));
  });

  test('gradients flow to what was computed outside', async () => {
    const w = tx.tensor([2, 3], { requiresGrad: true, dtype: 'f32' });
    const h = w.mul(w); // pending, and differentiable
    await tx.step(() => {
      h.sum().backward();
    });
    expect(await w.grad!.tolist()).toEqual([4, 6]);
  });
});

describe('donation', () => {
  test('the old value of what a step changes is given up; live buffers stay the same', async () => {
    const { x, y, update } = await problem();
    const client = await defaultClient();
    const train = tx.compile(update);
    for (let i = 0; i < 2; i++) (await train(x, y)).dispose(); // a number that two calls use stays on the device
    const { buffers } = client.live;
    for (let i = 0; i < 20; i++) {
      (await train(x, y)).dispose();
      expect(client.live.buffers).toBe(buffers);
    }
  });

  test('not where another tensor has the same value', async () => {
    const w = tx.tensor([1, 2]);
    const same = w.detach();
    const copy = w.clone();
    await tx.sync(copy);
    for (let i = 0; i < 3; i++) await tx.step(() => void w.add_(1));
    expect(await w.tolist()).toEqual([4n, 5n]);
    expect(await same.tolist()).toEqual([1n, 2n]);
    expect(await copy.tolist()).toEqual([1n, 2n]);
  });

  test('a tensor that holds the old value when a compiled function is called again keeps it', async () => {
    const w = tx.tensor([1, 2], { dtype: 'f32', requiresGrad: true });
    const add = tx.compile(() => tx.noGrad(() => void w.add_(1)));
    await add();
    const seen = [];
    for (let i = 0; i < 3; i++) {
      const [same, copy] = [w.detach(), w.clone()];
      await tx.sync(copy);
      await add();
      seen.push(await same.tolist(), await copy.tolist());
    }
    expect(seen).toEqual([2, 2, 3, 3, 4, 4].map((x) => [x, x + 1]));
    expect(await w.tolist()).toEqual([5, 6]);
    expect(add.programs).toBe(1);
  });

  test('nor where one tensor takes the value of another', async () => {
    const w = tx.tensor([1, 2]);
    const ema = tx.zeros([2], { dtype: 'i64' });
    ema.copy_(w);
    for (let i = 0; i < 3; i++) await tx.step(() => void w.add_(1));
    expect(await ema.tolist()).toEqual([1n, 2n]);
    await tx.step(() => void ema.copy_(w));
    await tx.step(() => void w.add_(1));
    expect(await ema.tolist()).toEqual([4n, 5n]);
    expect(await w.tolist()).toEqual([5n, 6n]);
  });

  test('a clone that is not computed yet keeps the old value', async () => {
    const w = tx.tensor([1, 2]);
    const before = w.clone();
    await tx.step(() => void w.add_(1));
    expect(await before.tolist()).toEqual([1n, 2n]);
    expect(await w.tolist()).toEqual([2n, 3n]);
  });

  test('what else is pending on a value that is given up says so', async () => {
    const w = tx.tensor([1, 2]);
    const twice = w.mul(2);
    await tx.step(() => void w.add_(1));
    await expect(twice.tolist()).rejects.toThrow(/has no value any more.*await tx\.sync\(it\)/s);
    expect(await w.tolist()).toEqual([2n, 3n]);
  });

  test('an argument that is disposed before the step was started is still used by it', async () => {
    const f = tx.compile((x: tx.Tensor) => x.mul(7));
    const x = tx.tensor([1, 2, 3, 4, 5]);
    await tx.sync(x);
    const called = f(x);
    x.dispose();
    expect(await (await called).tolist()).toEqual([7n, 14n, 21n, 28n, 35n]);
  });

  test('the same tensor twice', async () => {
    const f = tx.compile((a: tx.Tensor, b: tx.Tensor) => {
      a.add_(b);
      return b.mul(1);
    });
    const x = tx.tensor([1, 2]);
    expect(await (await f(x, x)).tolist()).toEqual([2n, 4n]); // as in torch: it is one tensor
    expect(await x.tolist()).toEqual([2n, 4n]);
  });
});

describe('compile', () => {
  test('traces the function in the first three calls with each kind of arguments, and compiles it once', async () => {
    let calls = 0;
    const f = tx.compile((x: tx.Tensor, scale: tx.Tensor) => {
      calls++;
      return x.mul(scale);
    });
    const x = tx.tensor([1, 2], { dtype: 'f32' });
    const values = [];
    for (const k of [2, 0, 1, -1, 0.5, 7]) values.push(await (await f(x, k)).tolist());
    expect(values).toEqual([
      [2, 4],
      [0, 0],
      [1, 2],
      [-1, -2],
      [0.5, 1],
      [7, 14],
    ]);
    expect(calls).toBe(3);
    expect(since().compiled).toBe(1);
    await f(tx.ones([3]), 2);
    await f(tx.ones([2], { dtype: 'f16' }), 2);
    expect(calls).toBe(5);
    expect(f.programs).toBe(3);
  });

  test('strings and booleans are part of the program, and so is what is declared static', async () => {
    const f = tx.compile(
      (x: tx.Tensor, mode: string, twice: boolean, n: number) => {
        const y = mode === 'add' ? x.add(1) : x.mul(5);
        return (twice ? y.mul(2) : y).sum({ dim: n });
      },
      { staticArguments: [3] },
    );
    const x = tx.ones([2, 3]);
    expect(await (await f(x, 'add', true, 0)).tolist()).toEqual([8, 8, 8]);
    expect(await (await f(x, 'mul', false, 1)).tolist()).toEqual([15, 15]);
    expect(await (await f(x, 'mul', false, 1)).tolist()).toEqual([15, 15]);
    expect(f.programs).toBe(2);
  });

  test('tensors from outside are used as they are at each call', async () => {
    const scale = tx.tensor(2);
    const f = tx.compile((x: tx.Tensor) => x.mul(scale));
    const x = tx.tensor([1, 2]);
    expect(await (await f(x)).tolist()).toEqual([2n, 4n]);
    scale.copy_(5);
    expect(await (await f(x)).tolist()).toEqual([5n, 10n]);
    scale.add_(1);
    expect(await (await f(x)).tolist()).toEqual([6n, 12n]);
    expect(f.programs).toBe(1);
  });

  test('a call that has nothing to wait for has started its program when it returns', async () => {
    const w = tx.tensor([1, 2]);
    const f = tx.compile(() => void w.add_(1));
    await f();
    const { executed } = counts;
    const called = f();
    expect(counts.executed).toBe(executed + 1);
    w.mul_(2); // pending: the next call waits until it is computed
    const next = f();
    expect(counts.executed).toBe(executed + 1);
    await Promise.all([called, next]);
    expect(await w.tolist()).toEqual([7n, 9n]);
  });

  test('two tensors with one value when it was traced are two', async () => {
    const a = tx.tensor([1, 1]);
    const b = tx.zeros([2], { dtype: 'i64' });
    b.copy_(a);
    const f = tx.compile(() => a.mul(10).add(b));
    expect(await (await f()).tolist()).toEqual([11n, 11n]);
    b.copy_(tx.tensor([2, 2]));
    expect(await (await f()).tolist()).toEqual([12n, 12n]);
  });

  test('arguments that want gradients get them, and are changed in place', async () => {
    const f = tx.compile((x: tx.Tensor) => {
      const y = x.mul(x).sum();
      y.backward();
      tx.noGrad(() => x.sub_(x.grad!.mul(0.5)));
      return y;
    });
    const x = tx.tensor([1, 2], { dtype: 'f32', requiresGrad: true });
    expect(await (await f(x)).item()).toBe(5);
    expect(await x.grad!.tolist()).toEqual([2, 4]);
    expect(await x.tolist()).toEqual([0, 0]);
    expect(x.requiresGrad).toBe(true);
  });

  test('a parameter that is frozen is not trained any more', async () => {
    const [a, b] = [tx.ones([2], { requiresGrad: true }), tx.ones([2], { requiresGrad: true })];
    const f = tx.compile(() => {
      a.grad = b.grad = null;
      a.mul(b).sum().backward();
      tx.noGrad(() => {
        for (const p of [a, b]) if (p.grad) p.sub_(p.grad.mul(0.5));
      });
    });
    await f();
    expect([await a.tolist(), await b.tolist()]).toEqual([
      [0.5, 0.5],
      [0.5, 0.5],
    ]);
    b.requiresGrad_(false);
    await f();
    expect([await a.tolist(), await b.tolist()]).toEqual([
      [0.25, 0.25],
      [0.5, 0.5],
    ]);
    b.requiresGrad_();
    await f();
    expect(await b.tolist()).toEqual([0.375, 0.375]);
    expect(f.programs).toBe(2);
  });

  test('gradients that pile up: the first call has none before it, two programs in all', async () => {
    const w = tx.tensor([1, 2], { dtype: 'f32', requiresGrad: true });
    const f = tx.compile((x: tx.Tensor) => w.mul(x).sum().backward());
    for (let i = 0; i < 5; i++) await f(tx.ones([2]));
    expect(await w.grad!.tolist()).toEqual([5, 5]);
    expect(f.programs).toBe(2);
    w.grad = null;
    await f(tx.ones([2]));
    expect(await w.grad!.tolist()).toEqual([1, 1]);
    expect(f.programs).toBe(2);
  });

  test('gradients that are changed in place: clipped, and kept', async () => {
    const w = tx.tensor([3, 4], { dtype: 'f32', requiresGrad: true });
    const add = tx.compile(() => w.mul(w).sum().backward());
    const halve = tx.compile(() => void tx.noGrad(() => w.grad!.mul_(0.5)));
    for (let i = 0; i < 3; i++) {
      await add();
      await halve();
    }
    expect(await w.grad!.tolist()).toEqual([5.25, 7]); // 3, then 4.5, then 5.25 of 6
    expect([add.programs, halve.programs]).toEqual([2, 1]);
  });

  test('what is changed in place inside and was made inside costs nothing', async () => {
    const f = tx.compile((x: tx.Tensor) => x.add(1).mul_(3).sub_(1).sum());
    expect(await (await f(tx.ones([2]))).item()).toBe(10);
    expect(tx.explain().at(-1)).toMatchObject({ inputs: 1, outputs: 1 });
  });

  test('check: a function that describes something else each time is an error', async () => {
    let k = 1;
    // eslint-disable-next-line tsxla/no-stale-capture -- this is what is tested
    const f = tx.compile((x: tx.Tensor) => x.mul(k++), { check: true, name: 'odd' });
    await f(tx.ones([2]));
    await expect(f(tx.ones([2]))).rejects.toThrow(
      /^odd: it no longer describes the program it was traced to: a constant f32\[2\]: was 1\.0, now 2\.0\n {4}at .*step\.test\.ts:\d+/,
    );
  });

  test('check: what is made inside from the same numbers is the same', async () => {
    for (const values of [[0.5], [0.5, 1.5, 2.5]]) {
      const f = tx.compile((x: tx.Tensor) => x.add(tx.tensor(values)), { check: true });
      for (let i = 0; i < 3; i++) expect(await (await f(tx.ones([1]))).tolist()).toEqual(values.map((v) => v + 1));
    }
    let scale = 1;
    // eslint-disable-next-line tsxla/no-stale-capture -- { check: true } finds it
    const g = tx.compile((x: tx.Tensor) => x.mul(tx.tensor([scale, 2.5])), { check: true });
    for (let i = 0; i < 2; i++) await g(tx.ones([2]));
    scale = 3;
    await expect(g(tx.ones([2]))).rejects.toThrow(/no longer describes the program/);
  });

  test('maxGraphs', async () => {
    const f = tx.compile((x: tx.Tensor) => x.add(1), { maxGraphs: 1, name: 'one' });
    await f(tx.ones([10]));
    await f(tx.zeros([10]));
    await expect(f(tx.ones([5]))).rejects.toThrow(
      'one: Maximum number of different graphs allowed per function exceeded: 1\nGot: argument [0], f32[5]\nExpected: argument [0], f32[10]',
    );
    expect(await (await f(tx.ones([10]))).tolist()).toEqual(Array(10).fill(2));
  });

  test('bad arguments', async () => {
    const f = tx.compile((x: tx.Tensor) => x.add(1), { name: 'f' });
    await expect(f((() => 1) as never)).rejects.toThrow(
      'f: the arguments, at [0] is a function: it must be a tensor, a number, a string or a boolean, or nested arrays',
    );
    const w = tx.ones([2], { requiresGrad: true });
    await expect(f(w.mul(2))).rejects.toThrow(
      'f: argument [0] is f32[2], computed from variables, and gradients do not pass into a compiled function: detach() it',
    );
    expect(() => tx.compile(3 as never)).toThrow('compile: fn is 3: it takes a function: write compile(fn, { ');
  });
});

describe('afterStep', () => {
  test('runs when the results are there, in order; errors surface in the next sync', async () => {
    const seen: unknown[] = [];
    const x = tx.tensor([1, 2]);
    for (let i = 0; i < 3; i++)
      await tx.step(() => {
        x.add_(1);
        tx.afterStep(async (t: tx.Tensor, k: tx.Tensor) => void seen.push([await t.tolist(), t === k]), x.sum(), x);
      });
    await tx.sync({ wait: true });
    expect(seen).toEqual([5n, 7n, 9n].map((v) => [v, false]));
    await tx.step(() => {
      x.add_(1);
      tx.afterStep(() => {
        throw new Error('closure');
      });
    });
    await expect(tx.sync({ wait: true })).rejects.toThrow('closure');
    await tx.sync({ wait: true });
  });
});
