// Gradients: of tensors and of functions, when there are none, and how they are computed.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { collect } from '../dist/ir/graph.js';
import { defaultClient, hasValue } from '../dist/runtime/value.js';
import { emitModule } from '../dist/stablehlo/emitter.js';

type T = tx.Tensor;
const f64 = (data: tx.Nested, requiresGrad = false): T => tx.tensor(data, { dtype: 'f64', requiresGrad });
const numbers = async (t: T | null): Promise<number[]> => Array.from((await t!.data()) as Float64Array, Number);
const textOf = (...ts: T[]): string => {
  const graph = collect(
    ts.map((t) => t.expr),
    hasValue,
  );
  return emitModule(graph, graph.nodes.filter(hasValue));
};

// ---- variables

test('backward accumulates, and can be called again on the same graph', async () => {
  const x = f64([1, 2], true);
  const y = x.mul(x).sum();
  y.backward();
  expect(await numbers(x.grad)).toEqual([2, 4]);
  y.backward();
  x.mul(3).sum().backward();
  expect(await numbers(x.grad)).toEqual([7, 11]);
  expect(x.grad!.requiresGrad).toBe(false);
  x.grad = null;
  y.backward();
  expect(await numbers(x.grad)).toEqual([2, 4]);
});

test("torch's options of backward, with and without a gradient before them", async () => {
  const x = f64([1, 2], true);
  const y = x.mul(x);
  y.sum().backward({ retainGraph: true });
  y.backward(f64([1, 10]), { retainGraph: true });
  y.sum().backward(null, { createGraph: true });
  expect(await numbers(x.grad)).toEqual([6, 48]);
  expect(x.grad!.requiresGrad).toBe(true);
  const [g] = tx.grad(y.sum(), [x], { retainGraph: true });
  expect(await numbers(g!)).toEqual([2, 4]);
  // @ts-expect-error: no such option
  expect(() => y.sum().backward({ retain: true })).toThrow("there is no option 'retain'");
});

test('leaves, as torch counts them', () => {
  const x = f64([1, 2], true);
  const y = x.mul(2);
  expect([x, y, y.detach(), f64(1), f64(1).mul(2)].map((t) => t.isLeaf)).toEqual([true, false, true, true, true]);
  expect([x, y, y.detach(), f64(1)].map((t) => t.requiresGrad)).toEqual([true, true, false, false]);
});

test('requiresGrad can be set, as in torch', async () => {
  const [w, b] = [tx.tensor([2, 3], { dtype: 'f32', requiresGrad: true }), tx.ones([2])];
  [w.requiresGrad, b.requiresGrad] = [false, true];
  w.mul(b).sum().backward();
  expect(w.grad).toBeNull();
  expect(await b.grad!.tolist()).toEqual([2, 3]);
  expect(() => {
    tx.tensor([1]).requiresGrad = true;
  }).toThrow('this tensor is i64[1]: only floats have gradients');
});

test('requiresGrad_(false) makes a variable a value again', async () => {
  const x = f64([1, 2], true);
  const before = x.mul(2).sum();
  x.requiresGrad_(false);
  expect([x.requiresGrad, x.mul(2).requiresGrad]).toEqual([false, false]);
  before.backward(); // the graph made before still knows it
  expect(await numbers(x.grad)).toEqual([2, 2]);
});

test('retainGrad keeps the gradient of something computed', async () => {
  const x = f64([1, 2], true);
  const y = x.mul(x).retainGrad();
  y.mul(3).sum().backward();
  expect([await numbers(y.grad), await numbers(x.grad)]).toEqual([
    [3, 3],
    [6, 12],
  ]);
});

test('integers and booleans have no gradient, and stop none beside them', async () => {
  const x = f64([1.5, -2.5], true);
  const n = tx.tensor([2, 3]);
  const y = x.mul(n).mul(x.gt(0));
  expect([x.gt(0).requiresGrad, n.requiresGrad]).toEqual([false, false]);
  y.sum().backward();
  expect(await numbers(x.grad)).toEqual([2, 0]);
});

// ---- grad of tensors

test('grad gives gradients and leaves grad alone', async () => {
  const [x, w] = [f64([1, 2], true), f64(3, true)];
  const y = x.mul(w);
  const [gx, gw] = tx.grad(y, [x, w], { gradOutputs: f64([1, 10]) });
  expect([await numbers(gx!), await numbers(gw!)]).toEqual([[3, 30], [21]]);
  expect([x.grad, gx!.requiresGrad]).toEqual([null, false]);
});

test('grad by something computed, and by both ends of a chain', async () => {
  const x = f64(3, true);
  const y = x.mul(x);
  const [gx, gy] = tx.grad(y.mul(y), [x, y]);
  expect([await numbers(gx!), await numbers(gy!)]).toEqual([[108], [18]]); // 4 x^3, 2 y
});

test('several outputs with their gradients, one of them 1 by itself', async () => {
  const x = f64([1, 2], true);
  const [g] = tx.grad([x.mul(2), x.sum()], x, { gradOutputs: [f64([5, 7]), null] });
  expect(await numbers(g!)).toEqual([11, 15]);
});

test('createGraph: third derivative of x^4', async () => {
  const x = f64(2, true);
  let y = x.mul(x).mul(x).mul(x);
  for (let i = 0; i < 3; i++) [y] = tx.grad(y, x, { createGraph: true }) as [T];
  expect(await y.item()).toBe(48);
});

test('allowUnused: null for what is not used', () => {
  const [x, z] = [f64(1, true), f64(1, true)];
  expect(tx.grad(x.mul(2), [x, z], { allowUnused: true })[1]).toBe(null);
});

// ---- grad of functions

test('grad of a function, any number of times', async () => {
  const f = (x: T) => x.sin();
  expect(await tx.grad(f)(f64(1)).item()).toBeCloseTo(Math.cos(1), 12);
  expect(await tx.grad(tx.grad(f))(f64(1)).item()).toBeCloseTo(-Math.sin(1), 12);
  expect(
    await tx
      .grad(tx.grad(tx.grad(f)))(f64(1))
      .item(),
  ).toBeCloseTo(-Math.cos(1), 12);
});

test('argnums, trees of parameters, and what else the function gives', async () => {
  const f = (p: { w: T; b: readonly T[] }, x: T, scale: number) => p.w.mul(x).add(p.b[0]!).mul(scale).sum();
  const params = { w: f64(2), b: [f64([1, 1])] };
  const [value, g] = tx.valueAndGrad(f)(params, f64([3, 4]), 10);
  expect([await value.item(), await g.w.item(), await numbers(g.b[0]!)]).toEqual([160, 70, [10, 10]]);
  const [gx, gp] = tx.grad(f, { argnums: [1, 0] })(params, f64([3, 4]), 10);
  expect([await numbers(gx), await gp.w.item()]).toEqual([[20, 20], 70]);
  const withAux = (x: T) => [x.mul(x), { twice: x.mul(2) }] as const;
  const [d, aux] = tx.grad(withAux, { hasAux: true })(f64(5));
  const [[v], d2] = tx.valueAndGrad(withAux, { hasAux: true })(f64(5));
  expect([await d.item(), await aux.twice.item(), await v.item(), await d2.item()]).toEqual([10, 10, 25, 10]);
  expect([d.requiresGrad, aux.twice.requiresGrad]).toEqual([false, false]);
});

test('other uses of the argument are constants to the inner gradient, not to the outer one', async () => {
  const x = f64(3, true);
  const g = tx.grad((y: T) => y.mul(x))(x); // d(y x)/dy = x
  expect(await g.item()).toBe(3);
  expect(g.requiresGrad).toBe(true);
  g.mul(g).backward();
  expect(await x.grad!.item()).toBe(6);
});

test('an argument that is not used has gradient zero', async () => {
  expect(await numbers(tx.grad((x: T, _y: T) => x.sum(), { argnums: 1 })(f64([1]), f64([1, 2])))).toEqual([0, 0]);
});

// ---- none

test('noGrad: what is computed inside has no gradient; enableGrad inside it has', async () => {
  const x = f64([1, 2], true);
  const [a, b, c] = tx.noGrad(() => [x.mul(2), tx.enableGrad(() => x.mul(3)), f64(1, true)]);
  expect([a, b, c].map((t) => t!.requiresGrad)).toEqual([false, true, true]);
  expect(await numbers(a!)).toEqual([2, 4]);
  expect(x.mul(2).requiresGrad).toBe(true);
  expect(() =>
    tx.noGrad(() => {
      throw new Error('mine');
    }),
  ).toThrow('mine');
  expect(x.mul(2).requiresGrad).toBe(true);
  expect(await tx.noGrad(() => tx.grad((y: T) => y.mul(y))(f64(3))).item()).toBe(6);
});

test('floor has gradient zero', async () => {
  const x = f64([1.5], true);
  x.floor().add(x).sum().backward();
  expect(await numbers(x.grad)).toEqual([1]);
});

// ---- rules of one's own

test('customVjp: the rule is the gradient, at first order and at second', async () => {
  const cube = tx.customVjp((x: T) => x.mul(x).mul(x), {
    backward: ({ inputs: [x] }, g) => [g.mul(x).mul(x).mul(100)], // not 3: to see that it is taken
  });
  const x = f64([1, 2], true);
  const [g] = tx.grad(cube(x).sum(), x, { createGraph: true });
  expect(await numbers(cube(x))).toEqual([1, 8]);
  expect(await numbers(g!)).toEqual([100, 400]);
  expect(await numbers(tx.grad(g!.sum(), x)[0]!)).toEqual([200, 400]);
});

test("customVjp: the output in the rule has the rule's gradient, too", async () => {
  const exp = tx.customVjp((x: T) => x.exp(), { backward: ({ output }, g) => [g.mul(output).mul(2)] });
  const x = f64(0, true);
  const [g] = tx.grad(exp(x), x, { createGraph: true });
  const [h] = tx.grad(g!, x, { createGraph: true });
  expect([await g!.item(), await h!.item(), await tx.grad(h!, x)[0]!.item()]).toEqual([2, 4, 8]);
});

test('customVjp: residuals of its own, several arguments and results, null for no gradient', async () => {
  const scale = f64(5, true);
  const f = tx.customVjp((a: T, b: { n: T }, k: T) => ({ p: a.mul(b.n), q: a.add(k) }), {
    forward: (a, b, k) =>
      [
        { p: a.mul(b.n), q: a.add(k) },
        { a, twice: b.n.mul(2) },
      ] as const,
    backward: ({ a, twice }, g) => [g.p.mul(twice).add(g.q), { n: g.p.mul(a).mul(scale) }, null],
  });
  const [a, n] = [f64(3, true), f64(4, true)];
  const { p, q } = f(a, { n }, tx.tensor(7));
  expect([await p.item(), await q.item()]).toEqual([12, 10]);
  const [ga, gn] = tx.grad([p, q], [a, n], { createGraph: true });
  expect([await ga!.item(), await gn!.item()]).toEqual([9, 15]);
  expect(await numbers(tx.grad(gn!, scale)[0]!)).toEqual([3]); // what the rule reaches outside has its gradient
  expect(await tx.gradcheck((x, y) => f(x!, { n: y! }, tx.tensor(7)).q, [f64(1), f64(2)])).toBe(true);
});

class Scaled extends tx.autograd.Function {
  static forward(ctx: tx.autograd.FunctionContext, x: T, by: number, y: T): T {
    ctx.saveForBackward(x, null, y);
    ctx['by'] = by;
    return x.mul(y).mul(by);
  }
  static backward(ctx: tx.autograd.FunctionContext, g: T): (T | null)[] {
    const [x, none, y] = ctx.savedTensors;
    expect(none).toBeNull();
    expect(ctx.needsInputGrad).toEqual([true, false, false]);
    return [g.mul(y!).mul(ctx['by']).mul(10), null, x!];
  }
}
test('autograd.Function: forward and backward of a class, with arguments that are no tensors', async () => {
  const x = tx.tensor([1.5, 2.5], { requiresGrad: true });
  const y = Scaled.apply(x, 3, tx.tensor([2.5, 4.5]));
  y.sum().backward();
  expect(await y.tolist()).toEqual([11.25, 33.75]);
  expect(await x.grad!.tolist()).toEqual([75, 135]); // ten times too much: that of backward
  const compiled = tx.compile((t: T) => tx.grad((u: T) => Scaled.apply(u, 3, tx.tensor([2.5, 4.5])).sum())(t));
  expect(await (await compiled(tx.tensor([1.5, 2.5]))).tolist()).toEqual([75, 135]);
});
test('autograd.Function: several results, no gradient wanted, and what is wrong', async () => {
  class Both extends tx.autograd.Function {
    static forward(_: tx.autograd.FunctionContext, x: T): readonly [T, T] {
      return [x.mul(2), x.mul(3)];
    }
    static backward(_: tx.autograd.FunctionContext, g: T, h: T): T {
      return g.add(h.mul(100));
    }
  }
  const x = tx.tensor([1.5], { requiresGrad: true });
  const [a, b] = Both.apply(x);
  a.add(b).sum().backward();
  expect(await x.grad!.tolist()).toEqual([101]);
  expect(Both.apply(tx.tensor([1.5]))[1].requiresGrad).toBe(false);
  class Few extends tx.autograd.Function {
    static forward(_: tx.autograd.FunctionContext, u: T, v: T): T {
      return u.mul(v);
    }
    static backward(_: tx.autograd.FunctionContext, g: T): T {
      return g;
    }
  }
  expect(() => Few.apply(x, x)).toThrow(
    'Few.backward: returned 1 gradients for the 2 arguments of forward: return one for each, or null',
  );
  class None extends tx.autograd.Function {}
  expect(() => (None as unknown as typeof Few).apply(x, x)).toThrow('None.apply: needs static forward(ctx, ...args)');
});

test('customVjp inside a scan', async () => {
  const clip = tx.customVjp((x: T) => x.sin(), { backward: ({ inputs: [x] }, g) => [g.mul(x.cos())] });
  const run = (f: (x: T) => T) => (w: T, h: T, xs: T) =>
    tx.scan((c: T, x: T) => [f(c.mul(w).add(x)), c] as const, h, xs)[1];
  const inputs = [
    f64([0.3, 0.4]),
    f64([0.5, 0.6]),
    f64([
      [1, 2],
      [3, 4],
      [5, 6],
    ]),
  ];
  const grads = async (f: (x: T) => T) => {
    const xs = inputs.map((x) => new tx.Tensor(x.expr).requiresGrad_()) as [T, T, T];
    return Promise.all(tx.grad(run(f)(...xs).sum(), xs).map(numbers));
  };
  const [got, want] = [await grads(clip), await grads((x) => x.sin())];
  got.flat().forEach((x, i) => expect(x).toBeCloseTo(want.flat()[i]!, 12));
  await tx.gradcheck(run(clip) as never, inputs, { order: 2 });
});

// ---- computing again

const deep = (w: T) => (x: T) => [1, 2, 3].reduce((h, k) => h.mul(w).mul(k).tanh(), x);

test('checkpoint: the same values and gradients, captured ones and second order too', async () => {
  const [w, x] = [f64([0.5, 0.7]), f64([1, 2])];
  const run = (wrap: boolean) => {
    const [v, y] = [w, x].map((t) => new tx.Tensor(t.expr).requiresGrad_()) as [T, T];
    const out = (wrap ? tx.checkpoint(deep(v), y) : deep(v)(y)).mul(y).sum();
    const first = tx.grad(out, [v, y], { createGraph: true });
    return [out, ...first, ...tx.grad(first[0]!.sum().add(first[1]!.mul(y).sum()), [v, y])];
  };
  const [got, want] = [run(true), run(false)];
  for (const [i, t] of want.entries()) {
    const [g, e] = [await numbers(got[i]!), await numbers(t)];
    g.forEach((v, k) => expect(v).toBeCloseTo(e[k]!, 12));
  }
  await tx.gradcheck((a, b) => tx.checkpoint(deep(a!), b!), [w, x], { order: 2 });
});

test('checkpoint computes again, and XLA leaves it so', async () => {
  const tanhs = async (wrap: boolean) => {
    const [w, x] = [f64([0.5, 0.7], true), f64([1, 2], true)];
    const out = (wrap ? tx.checkpoint(deep(w), x) : deep(w)(x)).sum();
    out.backward();
    const text = textOf(out, x.grad!);
    const program = await (await defaultClient()).compile(text);
    const optimized = await program.optimizedHlo();
    const count = (t: string, what: RegExp) => t.match(what)?.length ?? 0;
    return [count(text, /stablehlo\.tanh/g), count(text, /optimization_barrier/g), count(optimized, / tanh\(/g)];
  };
  expect(await tanhs(false)).toEqual([3, 0, 3]);
  expect(await tanhs(true)).toEqual([6, 1, 6]);
});

test('checkpoint draws the same random numbers again', async () => {
  const x = tx.ones([1000], { dtype: 'f64', requiresGrad: true });
  const y = tx.checkpoint((v: T) => tx.dropout(v, { p: 0.5 }).mul(v), x);
  y.sum().backward();
  expect(await numbers(x.grad)).toEqual((await numbers(y)).map((v) => 2 * v));
});

// ---- gradcheck

test('gradcheck finds a wrong gradient, and says where', async () => {
  const wrong = tx.customVjp((x: T) => x.mul(x), { backward: ({ inputs: [x] }, g) => [g.mul(x).mul(2.1)] });
  await expect(tx.gradcheck((x) => wrong(x!), [f64([1, 2])])).rejects.toThrow(
    /^input 0, element 0: the gradient is .*, but finite differences give /,
  );
  expect(await tx.gradcheck((x, n) => [x!.mul(n!), x!.exp()], [tx.tensor([0.5, 1.5]), tx.tensor([2, 3])])).toBe(true);
});
