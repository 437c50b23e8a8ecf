// Steps among other code: what is called, changed, read, failed and freed around them takes effect in the order written.
import { inspect } from 'node:util';
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';

const f32 = (...values: number[]) => tx.tensor(values, { dtype: 'f32' });
const variable = (...values: number[]) => tx.tensor(values, { dtype: 'f32', requiresGrad: true });
const bad = { xlaFlags: { xla_no_such_flag: true } };
const quietly = (p: Promise<unknown>) => p.catch(() => {});

describe('changes in place around steps', () => {
  test('an average kept outside, awaited and not', async () => {
    const [w, ema] = [f32(1, 2, 3), f32(0, 0, 0)];
    const f = tx.compile(() => void w.add_(1));
    for (let i = 0; i < 3; i++) {
      await f();
      ema.lerp_(w, 0.5);
    }
    expect(await ema.tolist()).toEqual([3, 3.875, 4.75]);
    const [v, mean] = [tx.ones([2]).mul(3), tx.zeros([2])];
    const p = tx.step(() => void v.add_(1));
    mean.lerp_(v, 0.5);
    await p;
    expect([await v.tolist(), await mean.tolist()]).toEqual([
      [4, 4],
      [2, 2],
    ]);
  });

  test('of what a step changes, between steps that are not awaited', async () => {
    const w = f32(0);
    const all = [1, 2, 3].map(() => {
      const p = tx.step(() => void w.add_(1));
      w.mul_(2);
      return p;
    });
    await Promise.all(all);
    expect(await w.tolist()).toEqual([14]);
  });

  test('draws of random numbers while a step is under way', async () => {
    tx.manualSeed(3);
    let x = tx.rand([2]);
    const w = f32(0, 0);
    const f = tx.compile((x: tx.Tensor) => void w.add_(x.mul(tx.rand([2]))));
    for (let i = 0; i < 3; i++) {
      const p = f(x);
      x = tx.rand([2]);
      await p;
    }
    const overlapped = await w.tolist();
    tx.manualSeed(3);
    x = tx.rand([2]);
    const v = f32(0, 0);
    for (let i = 0; i < 3; i++) {
      v.add_(x.mul(tx.rand([2])));
      x = tx.rand([2]);
      await v.tolist();
    }
    expect(overlapped).toEqual(await v.tolist());
  });

  test('of what is disposed before it is computed', async () => {
    const total = f32(0);
    for (const k of [1, 2, 3]) {
      using loss = await tx.step(() => tx.full([1], k, { dtype: 'f32' }));
      total.add_(loss);
    }
    expect(await total.tolist()).toEqual([6]);
  });

  test('one that cannot be computed says so, and nothing else does', async () => {
    const a = f32(1, 2).mul(2);
    await tx.sync(a);
    const sum = f32(0, 0);
    const lost = a.mul(3);
    await tx.step(() => void a.add_(1));
    sum.add_(lost);
    expect(await f32(1).add(1).item()).toBe(2);
    await expect(sum.tolist()).rejects.toThrow(tx.SpentError);
    expect(await f32(1).add(2).item()).toBe(3);
    sum.copy_([1, 2]);
    expect(await sum.add(1).tolist()).toEqual([2, 3]);
  });

  test('requiresGrad_ while a step is under way', async () => {
    const w = variable(1, 2, 3, 4);
    const p = tx.step(() => tx.noGrad(() => void w.add_(1)));
    w.requiresGrad_(false);
    await p;
    expect(await w.tolist()).toEqual([2, 3, 4, 5]);
    expect(w.requiresGrad).toBe(false);
  });
});

describe('other tensors with the same value', () => {
  test.each([
    ['a step', (a: tx.Tensor) => tx.step(() => tx.noGrad(() => void a.add_(1)))],
    ['dispose', (a: tx.Tensor) => a.dispose()],
  ] as const)('of a variable, before %s', async (_, change) => {
    const a = f32(1, 2, 3, 4).mul(1);
    await tx.sync(a);
    const b = a.detach();
    a.requiresGrad_();
    await change(a);
    expect(await b.tolist()).toEqual([1, 2, 3, 4]);
  });

  test('detach() and clone() of a variable, not read yet', async () => {
    const w = variable(1, 2, 3);
    const [d, c] = [w.detach(), w.clone()];
    for (let i = 0; i < 2; i++) await tx.step(() => tx.noGrad(() => void w.add_(1)));
    expect([await d.tolist(), await c.tolist()]).toEqual([
      [1, 2, 3],
      [1, 2, 3],
    ]);
  });
});

describe('steps that fail', () => {
  test('in a burst: gradients and values are as they were', async () => {
    const w = variable(1, 2);
    w.mul(3).sum().backward();
    await tx.sync(w.grad!);
    const more = () => quietly(tx.step(() => w.mul(w).sum().backward(), bad));
    await Promise.all([more(), more(), more()]);
    expect(await w.grad!.tolist()).toEqual([3, 3]);
    const p = quietly(tx.step(() => void (w.grad = null), bad));
    w.grad = null; // the user's own
    await p;
    expect(w.grad).toBeNull();
  });

  test('what was described from it says so, and nothing else does', async () => {
    const [w, ema] = [f32(1), f32(0)];
    const p = quietly(tx.step(() => void w.add_(1), bad));
    ema.lerp_(w, 0.5);
    await p;
    expect(await w.tolist()).toEqual([1]);
    expect(await f32(5).add(1).item()).toBe(6);
    await expect(ema.tolist()).rejects.toThrow('xla_no_such_flag');
  });

  test('because an input is gone: that is said, and nothing is called lost', async () => {
    const [w, lr] = [f32(1, 1), f32(0.5, 0.5)];
    const f = tx.compile(() => void w.add_(lr));
    await f();
    lr.dispose();
    await expect(f()).rejects.toThrow(/^this f32\[2\] was disposed: it no longer has a value$/);
    expect(await w.tolist()).toEqual([1.5, 1.5]);
  });
});

describe('compile and its arguments', () => {
  test('gradients of arguments add up', async () => {
    const w = variable(1, 2);
    const f = tx.compile((w: tx.Tensor) => w.mul(w).sum().backward());
    for (let i = 0; i < 3; i++) await f(w);
    expect(await w.grad!.tolist()).toEqual([6, 12]);
    const g = tx.compile((w: tx.Tensor) => void tx.noGrad(() => w.sub_(w.grad ?? 0)));
    await g(w);
    expect(await w.tolist()).toEqual([-5, -10]);
  });

  test('one tensor as two arguments is one', async () => {
    const both = tx.compile((a: tx.Tensor, b: tx.Tensor) => {
      a.add_(1);
      b.mul_(2);
    });
    const x = f32(1);
    await both(x, x);
    expect(await x.tolist()).toEqual([4]);
    const y = variable(1);
    const grads = tx.compile((a: tx.Tensor, b: tx.Tensor) => a.mul(3).add(b.mul(5)).sum().backward());
    await grads(y, y);
    expect(await y.grad!.tolist()).toEqual([8]);
  });

  test('an argument that is also reached from outside, and changed', async () => {
    const p = f32(1);
    const f = tx.compile(function f(a: tx.Tensor) {
      a.add_(1);
      return p.mul(10);
    });
    await expect(f(p)).rejects.toThrow('f: the argument f32[1] is also captured from outside, and changed in place');
    expect(await (await f(f32(7))).tolist()).toEqual([10]);
  });

  test('null, nothing, empty lists and objects, and missing keys are not the same', async () => {
    const x = f32(1);
    const kinds = tx.compile((x: tx.Tensor, o?: unknown) =>
      x.mul(o === null ? 2 : o === undefined ? 3 : Array.isArray(o) ? 5 : 'mask' in (o as object) ? 7 : 11),
    );
    const seen = [];
    for (const o of [null, undefined, [], { mask: null }, {}]) seen.push(await (await kinds(x, o)).item());
    expect(seen).toEqual([2, 3, 5, 7, 11]);
  });

  test('static arguments: zeros, and strings that look like others', async () => {
    const x = f32(1);
    const f = tx.compile((x: tx.Tensor, k: number) => x.div(k), { staticArguments: [1] });
    expect(await (await f(x, 0)).item()).toBe(Number.POSITIVE_INFINITY);
    expect(await (await f(x, -0)).item()).toBe(Number.NEGATIVE_INFINITY);
  });

  test('numbers that f32 would change are refused', async () => {
    const f = tx.compile((x: tx.Tensor, k: tx.Tensor) => x.mul(k));
    expect(await (await f(f32(2), Number.NaN)).item()).toBeNaN();
    for (const k of [16777217, 1e300, 2n ** 64n])
      await expect(f(f32(2), k)).rejects.toThrow(
        /^the argument .* does not fit (f32|i64), the dtype of numbers passed to a compiled function/,
      );
  });

  test('computed from variables: refused at every call', async () => {
    const f = tx.compile((x: tx.Tensor) => x.sum());
    await f(variable(1));
    await expect(f(variable(1).mul(2))).rejects.toThrow('gradients do not pass into a compiled function');
  });

  test('stand-ins do not get out', async () => {
    let leak: tx.Tensor | undefined;
    const f = tx.compile(function f(x: tx.Tensor) {
      // eslint-disable-next-line tsxla/no-escaped-tensor -- this is what is tested
      leak = x;
      return x.add(1);
    });
    await f(f32(1));
    await expect(leak!.tolist()).rejects.toThrow(
      'this f32[1] was a placeholder for an argument of f while it was traced',
    );
  });
});

describe('compile and what it reaches', () => {
  test('gradients that are returned, kept or replaced', async () => {
    const w = variable(1);
    const f = tx.compile(() => w.grad!);
    w.grad = f32(10);
    expect(await (await f()).tolist()).toEqual([10]);
    w.grad = f32(20);
    expect(await (await f()).tolist()).toEqual([20]);
    const g = w.grad;
    const use = tx.compile(() => {
      w.grad = null;
      return g.mul(2);
    });
    await use();
    expect(await (await use()).tolist()).toEqual([40]);
  });

  test('freezing is kept where the tensor is only overwritten', async () => {
    const [w, v] = [variable(1), f32(5)];
    const f = tx.compile(() => void tx.noGrad(() => w.copy_(v)));
    await f();
    w.requiresGrad_(false);
    await f();
    expect(w.requiresGrad).toBe(false);
    w.requiresGrad_();
    await f();
    expect(w.requiresGrad).toBe(true);
  });

  test('check sees another tensor, and another form', async () => {
    const [a, b] = [f32(1), f32(2)];
    let w = a;
    // eslint-disable-next-line tsxla/no-stale-capture -- this is what is tested
    const f = tx.compile(() => w.mul(2), { check: true, name: 'f' });
    await f();
    w = b;
    await expect(f()).rejects.toThrow(
      /^f: it no longer describes the program it was traced to: it uses the tensor made at/,
    );
  });

  test('a compiled function inside another', async () => {
    const g = tx.compile((x: tx.Tensor) => x.add(1), { name: 'g' });
    const f = tx.compile((x: tx.Tensor) => g.fn(x).mul(2));
    expect(await (await f(f32(1))).item()).toBe(4);
    const wrong = tx.compile((x: tx.Tensor) => void g(x));
    await expect(wrong(f32(1))).rejects.toThrow(
      'g is called inside another step, where its result cannot be awaited: call the function itself (g.fn',
    );
  });
});

describe('after steps', () => {
  test('closures see what their step left, and each is called', async () => {
    const w = f32(0);
    const seen: unknown[] = [];
    const f = tx.compile(() => {
      w.add_(1);
      tx.afterStep(async (t: tx.Tensor) => void seen.push(await t.item()), w);
    });
    for (let i = 0; i < 5; i++) await f();
    await tx.sync({ wait: true });
    expect(seen).toEqual([1, 2, 3, 4, 5]);
    tx.afterStep(() => {
      throw new Error('one');
    });
    tx.afterStep(() => void seen.push('two'));
    await tx.sync();
    await expect(tx.sync({ wait: true })).rejects.toThrow('one');
    expect(seen.at(-1)).toBe('two');
  });

  test('sync takes lists, and nothing it does not know', async () => {
    await tx.sync([f32(1).add(1)], { wait: true });
    expect(() => tx.sync({ wiat: true } as never)).toThrow('sync: takes tensors, and { wait: true }');
    expect(() => tx.sync('x' as never)).toThrow("got 'x'");
  });

  test('console.log of a spent tensor', async () => {
    const x = f32(1);
    x.dispose();
    expect(inspect(x)).toBe('tensor(spent: this f32[1] was disposed: it no longer has a value)');
  });
});

test('a clone of what is not computed yet lives on, though a step changes the tensor', async () => {
  const w = tx.randn([3]);
  const c = w.clone();
  const change = tx.compile(() => void tx.noGrad(() => w.add_(1)));
  await change();
  await change();
  expect(await tx.allclose(w, c.add(2)).item()).toBe(1);
});

test.each(['of a step', 'set by the user'])('a step changes gradients %s in place, and clears them', async (whose) => {
  const w = tx.tensor([3, 4], { dtype: 'f32', requiresGrad: true });
  const gradients = tx.compile(() => w.mul(w).sum().backward());
  for (const [norm, left] of [
    [10, [2.4, 3.2]],
    [8, [1.8, 2.4]],
  ] as const) {
    await gradients();
    if (whose === 'set by the user') w.grad = tx.tensor(await w.grad!.data());
    const before = await tx.step(() => {
      const norm = tx.optim.clipGradNorm([w], 1);
      tx.noGrad(() => w.sub_(w.grad!));
      w.grad = null;
      return norm;
    });
    expect(await before.item()).toBeCloseTo(norm, 5);
    expect(w.grad).toBe(null);
    (await w.data()).forEach((x, i) => void expect(x).toBeCloseTo(left[i]!, 5));
  }
});

describe('gradients of calls that fail', () => {
  /** A function that changes p.grad in place and adds to it; a call with another shape is over its limit. */
  const decaying = (p: tx.Tensor) =>
    tx.compile(
      (x: tx.Tensor) => {
        p.grad!.mul_(0.5);
        p.mul(x).sum().backward();
      },
      { name: 'decay', maxGraphs: 1 },
    );

  test('a gradient that the call changed in place is as it was', async () => {
    const p = variable(1, 2, 3);
    p.mul(2).sum().backward();
    const decay = decaying(p);
    await decay(f32(3));
    await decay(f32(3));
    const [before, grad] = [await p.grad!.tolist(), p.grad];
    await expect(decay(f32(1, 1, 1))).rejects.toThrow('Maximum number of different graphs');
    expect(p.grad).toBe(grad);
    expect(await p.grad!.tolist()).toEqual(before);
    await decay(f32(3));
    expect(await p.grad!.tolist()).toEqual((before as number[]).map((g) => g / 2 + 3));
  });

  test('a function that uses a gradient sees it come back, and sees that it was replaced', async () => {
    const p = variable(1);
    const backward = tx.compile((y: tx.Tensor) => p.mul(y).sum().backward(), { name: 'backward', maxGraphs: 2 });
    await backward(f32(2));
    await backward(f32(2));
    const g = p.grad!;
    const read = tx.compile(() => g.mul(1), { name: 'read' });
    expect(await (await read()).tolist()).toEqual([4]);
    await expect(backward(f32(2, 2))).rejects.toThrow('Maximum number of different graphs');
    g.mul_(10);
    expect(await (await read()).tolist()).toEqual([40]);
    const kept = g.detach();
    await backward(f32(2));
    await expect(read()).rejects.toThrow('was a gradient that a later step replaced');
    expect(await kept.tolist()).toEqual([40]);
  });
});

test('a step that does not fit keeps no old values of what it would have changed', async () => {
  const live = async () => {
    for (let i = 0; i < 5; i++) {
      globalThis.gc!();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return tx.metrics.counter('CreateDataHandles')! - (tx.metrics.counter('DestroyDataHandles') ?? 0);
  };
  const ws = Array.from({ length: 10 }, () => tx.ones([1000]));
  const set = async (value: number) => {
    for (const w of ws) w.copy_(tx.full([1000], value));
    await tx.sync(...ws);
    return live();
  };
  const big = tx.compile((s: tx.Tensor) => {
    for (const w of ws) w.mul_(s);
    return tx.zeros([1 << 21, 1 << 16]).add(s);
  });
  const before = await set(2.5);
  await expect(big(tx.ones([]))).rejects.toThrow(tx.OutOfMemoryError);
  expect(await set(3.5)).toBeLessThanOrEqual(before);
});

test('afterStep outside of a step waits for the next one, not for one that was called before', async () => {
  const x = f32(0);
  const f = tx.compile(() => void x.add_(1), { name: 'counting' });
  await f();
  const calls = [f(), f()];
  const log: string[] = [];
  tx.afterStep(() => void log.push('called'));
  await Promise.all(calls);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(log).toEqual([]);
  await f();
  await tx.sync({ wait: true });
  expect(log).toEqual(['called']);
});

test('what waits for the next step waits on where that step was not started', async () => {
  const x = f32(0);
  const log: string[] = [];
  tx.afterStep(() => void log.push('called'));
  await expect(tx.step(() => void x.add_(1), bad)).rejects.toThrow();
  await tx.step(() => void x.add_(1));
  await tx.sync({ wait: true });
  expect(log).toEqual(['called']);
});
