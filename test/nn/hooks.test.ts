// Hooks of modules and tensors: order, replaced values, removal; in plain code, compiled, in checkpoints and loops.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

const { nn } = tx;
const list = async (t: tx.Tensor | null | undefined) => (t ? await t.tolist() : null);
const leaf = (values: number[]) => tx.tensor(values, { dtype: 'f32', requiresGrad: true });

/** y = 3 x: gradients are easy to see. */
class Triple extends nn.Module {
  weight = new nn.Parameter(tx.tensor(3, { dtype: 'f32' }));
  override forward(x: tx.Tensor): tx.Tensor {
    return x.mul(this.weight);
  }
}

test('forward hooks run in order, may replace values, and can be removed', async () => {
  const m = new Triple();
  const calls: string[] = [];
  const first = m.registerForwardPreHook((self, [x]) => {
    calls.push('pre 1');
    expect(self).toBe(m);
    return [x.add(1)];
  });
  m.registerForwardPreHook((_, [x]) => {
    calls.push('pre 2');
    return x.mul(2); // one value stands for a list of one
  });
  m.registerForwardHook((_, [x], y) => {
    calls.push('post 1');
    return y.add(x);
  });
  m.registerForwardHook(() => void calls.push('post 0'), { prepend: true });
  const x = leaf([1, 2]);
  expect(await list(m.forward(x))).toEqual([16, 24]); // ((x + 1) * 2) * 3 + (x + 1) * 2
  expect(calls).toEqual(['pre 1', 'pre 2', 'post 0', 'post 1']);
  first.remove();
  first.remove(); // twice is once
  expect(await list(m.forward(x))).toEqual([8, 16]);
});

test('without hooks a module has the forward of its class again', () => {
  const m = new Triple();
  const handle = m.registerForwardHook(() => {});
  expect(Object.hasOwn(m, 'forward')).toBe(true);
  handle.remove();
  expect(Object.hasOwn(m, 'forward')).toBe(false);
  {
    using _ = m.registerForwardHook(() => {});
    expect(Object.hasOwn(m, 'forward')).toBe(true);
  }
  expect(Object.hasOwn(m, 'forward')).toBe(false);
});

test('a forward hook collects what modules inside a model give', async () => {
  const net = new nn.Sequential(new nn.Linear(3, 4), new nn.ReLU(), new nn.Linear(4, 2));
  const seen = new Map<string, tx.Tensor>();
  for (const [name, m] of net.namedModules())
    if (m instanceof nn.Linear) m.registerForwardHook((_, __, y) => void seen.set(name, y));
  const y = net.forward(tx.randn([5, 3]));
  expect([...seen].map(([name, t]) => [name, t.shape])).toEqual([
    ['0', [5, 4]],
    ['2', [5, 2]],
  ]);
  expect(await list(seen.get('2'))).toEqual(await list(y));
});

test('full backward hooks see and replace the gradients of arguments and results', async () => {
  const m = new Triple();
  const seen: [string, tx.Tensor | null][] = [];
  m.registerFullBackwardHook((_, [gx], [gy]) => {
    seen.push(['input', gx!], ['output', gy!]);
    return [gx!.mul(10)];
  });
  m.registerFullBackwardPreHook((_, [gy]) => {
    seen.push(['pre', gy!]);
    return gy!.mul(2);
  });
  const x = leaf([1, 2]);
  m.forward(x).sum().backward();
  expect(seen.map(([what]) => what)).toEqual(['pre', 'input', 'output']);
  expect(await list(seen[0]![1])).toEqual([1, 1]);
  expect(await list(seen[1]![1])).toEqual([6, 6]); // 3 * 2
  expect(await list(seen[2]![1])).toEqual([2, 2]);
  expect(seen.every(([, g]) => !g!.requiresGrad)).toBe(true);
  expect(await list(x.grad)).toEqual([60, 60]);
  expect(await list(m.weight.grad)).toEqual(6); // the sum of x * 2: the hook is behind it
});

test('where no argument wants a gradient, a backward hook sees that of the result', async () => {
  const m = new Triple();
  let seen: readonly (tx.Tensor | null)[] = [];
  m.registerFullBackwardHook((_, gx, gy) => {
    seen = [...gx, ...gy];
  });
  m.forward(tx.tensor([1, 2], { dtype: 'f32' }))
    .sum()
    .backward();
  expect(seen.length).toBe(1);
  expect(await list(seen[0])).toEqual([1, 1]);
});

test('several arguments and results: one call with the gradients of all, null where none comes', async () => {
  class Pair extends nn.Module {
    override forward(a: tx.Tensor, b: tx.Tensor, n: number): [tx.Tensor, tx.Tensor] {
      return [a.mul(n), a.mul(b)];
    }
  }
  const m = new Pair();
  const calls: (readonly (tx.Tensor | null)[])[] = [];
  m.registerFullBackwardHook((_, gx, gy) => void calls.push(gx, gy));
  const [a, b] = [leaf([1, 2]), leaf([3, 4])];
  const [y, z] = m.forward(a, b, 5);
  y.sum().add(z.sum()).backward();
  expect(calls.length).toBe(2);
  expect(await Promise.all(calls[0]!.map(list))).toEqual([[8, 9], [1, 2], null]);
  m.forward(a, b, 5)[0].sum().backward();
  expect(await Promise.all(calls[2]!.map(list))).toEqual([[5, 5], null, null]);
  expect(await Promise.all(calls[3]!.map(list))).toEqual([[1, 1], null]);
});

test('tensor hooks see the whole gradient of a leaf or of what was computed, and may replace it', async () => {
  const x = leaf([1, 2]);
  const y = x.mul(3);
  const seen: tx.Tensor[] = [];
  const double = x.registerHook((g) => g.mul(2));
  y.registerHook((g) => void seen.push(g));
  y.registerHook((g) => g.add(1));
  y.retainGrad();
  y.sum().add(y.mul(4).sum()).backward();
  expect(await list(seen[0])).toEqual([5, 5]); // both ways together
  expect(await list(y.grad)).toEqual([6, 6]); // after the hooks, as in torch
  expect(await list(x.grad)).toEqual([36, 36]);
  double.remove();
  x.grad = null;
  const [g] = tx.grad(x.mul(3).sum(), x);
  expect(await list(g!)).toEqual([3, 3]);
  expect(() => tx.zeros([2]).registerHook(() => {})).toThrow(/does not require a gradient/);
});

test('a hook of a parameter stays through updates, and second derivatives pass hooks', async () => {
  const p = new nn.Parameter(tx.tensor([1, 2], { dtype: 'f32' }));
  p.registerHook((g) => g.clamp(-1, 1));
  const opt = new tx.optim.SGD([p], { lr: 0.5 });
  for (let i = 0; i < 2; i++) {
    p.grad = null;
    p.mul(10).sum().backward();
    opt.step();
  }
  expect(await list(p)).toEqual([0, 1]);
  const x = leaf([2]);
  const y = x.mul(1);
  y.registerHook((g) => g.mul(g));
  const [first] = tx.grad(y.pow(3).sum(), x, { createGraph: true }); // (3 x^2)^2
  const [second] = tx.grad(first!.sum(), x);
  expect(await list(first!)).toEqual([144]);
  expect(await list(second!)).toEqual([82944]); // 36 x^3, which passes the hook once more
});

test('registerPostAccumulateGradHook is called with the variable, after its grad', async () => {
  const x = leaf([1, 2]);
  const seen: tx.Tensor[] = [];
  x.registerPostAccumulateGradHook((t) => void seen.push(t.grad!));
  x.sum().backward();
  x.sum().backward();
  expect(await Promise.all(seen.map(list))).toEqual([
    [1, 1],
    [2, 2],
  ]);
  expect(() => x.mul(1).registerPostAccumulateGradHook(() => {})).toThrow(/not a leaf that requires a gradient/);
});

test('a hook that is added or removed changes a compiled function; without hooks the first trace is found again', async () => {
  const m = new Triple();
  let traced = 0;
  const run = tx.compile(
    (x: tx.Tensor) => {
      traced++;
      return m.forward(x).sum();
    },
    { check: false },
  );
  const x = tx.tensor([1, 2], { dtype: 'f32' });
  expect(await (await run(x)).item()).toBe(9);
  const handle = m.registerForwardHook((_, __, y) => y.mul(2));
  expect(await (await run(x)).item()).toBe(18);
  expect(await (await run(x)).item()).toBe(18);
  handle.remove();
  expect(await (await run(x)).item()).toBe(9);
  expect(traced).toBe(2);
});

test('hooks in a compiled training step: gradients are replaced inside the program', async () => {
  const m = new Triple();
  m.registerFullBackwardHook((_, [gx]) => [gx!.mul(10)]);
  m.weight.registerHook((g) => g.mul(100));
  const train = tx.compile((x: tx.Tensor) => {
    const h = x.mul(1).requiresGrad_();
    m.zeroGrad();
    m.forward(h).sum().backward();
    return [h.grad!, m.weight.grad!];
  });
  const got = await train(tx.tensor([1, 2], { dtype: 'f32' }));
  expect(await Promise.all(got.map(list))).toEqual([[30, 30], 300]);
});

test('a value that a hook keeps from a compiled function is gone; afterStep hands it out', async () => {
  const m = new Triple();
  let kept: tx.Tensor | undefined;
  const values: unknown[] = [];
  m.registerForwardHook((_, __, y) => {
    kept = y;
    tx.afterStep(async (t) => void values.push(await t.tolist()), y);
  });
  const run = tx.compile((x: tx.Tensor) => m.forward(x).sum());
  await run(tx.tensor([1, 2], { dtype: 'f32' }));
  await expect(async () => kept!.tolist()).rejects.toThrow(/its value is gone/);
  await expect.poll(() => values).toEqual([[3, 6]]);
});

test('in a checkpoint backward hooks and tensor hooks run when it is computed again', async () => {
  const m = new Triple();
  const seen: tx.Tensor[] = [];
  m.registerFullBackwardHook((_, [gx]) => {
    seen.push(gx!);
    return [gx!.mul(10)];
  });
  const x = leaf([1, 2]);
  tx.checkpoint((t: tx.Tensor) => {
    const h = m.forward(t);
    h.registerHook((g) => g.mul(2));
    return h.mul(h);
  }, x)
    .sum()
    .backward();
  expect(await list(x.grad)).toEqual([360, 720]); // 2 h * 2 * 3 * 10
  expect(await list(seen[0])).toEqual([36, 72]);
});

test('in a scan hooks replace gradients of each pass; what they keep cannot be used outside', async () => {
  const m = new Triple();
  let kept: tx.Tensor | undefined;
  m.registerFullBackwardHook((_, [gx]) => {
    kept = gx!;
    return [gx!.mul(2)];
  });
  const x = leaf([1, 1]);
  const [last] = tx.scan((carry: tx.Tensor, _: tx.Tensor) => [m.forward(carry), []] as const, x, tx.zeros([3]));
  last.sum().backward();
  expect(await list(x.grad)).toEqual([216, 216]); // (3 * 2)^3
  await expect(async () => kept!.tolist()).rejects.toThrow(/inside of a body/);
});

test('layers that run as one loop refuse hooks instead of skipping them', () => {
  const layers = [new nn.Linear(2, 2), new nn.Linear(2, 2)];
  const handle = layers[1]!.registerForwardHook(() => {});
  expect(() => nn.scanLayers(layers, tx.zeros([1, 2]))).toThrow(/has hooks, but the code of one layer runs for all/);
  expect(() => new nn.LayerStack(layers)).toThrow(/has hooks/);
  handle.remove();
  expect(nn.scanLayers(layers, tx.zeros([1, 2])).shape).toEqual([1, 2]);
});

test('under vmap gradients inside of the function pass hooks; outside of it they are refused', async () => {
  const m = new Triple();
  m.registerFullBackwardHook((_, [gx]) => [gx!.mul(10)]);
  const perExample = tx.func.vmap((x: tx.Tensor) => tx.grad((t: tx.Tensor) => m.forward(t).sum())(x));
  expect(await list(perExample(tx.ones([2, 1])))).toEqual([[30], [30]]);
  const x = tx.ones([2, 1], { requiresGrad: true });
  expect(() => tx.func.vmap((t: tx.Tensor) => m.forward(t))(x)).toThrow(/belongs to one example/);
});

test('what hooks must not return, and async hooks, are errors that say so', () => {
  const m = new Triple();
  const x = leaf([1]);
  m.registerFullBackwardHook(() => [] as never);
  expect(() => m.forward(x).sum().backward()).toThrow(/must return 1 gradients/);
  const y = leaf([1]);
  y.registerHook((async () => {}) as never);
  expect(() => y.sum().backward()).toThrow(/hook is async/);
  const z = leaf([1]);
  z.registerHook(() => tx.zeros([2]));
  expect(() => z.sum().backward()).toThrow(/for a gradient of type f32\[1\]/);
  expect(() => m.registerForwardHook(3 as never)).toThrow(/takes a function, got the number 3/);
});
