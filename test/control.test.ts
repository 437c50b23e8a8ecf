// Loops and branches inside a program: values, gradients against the loop written out and against finite differences, and
// the size of the program.
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';
import { collect } from '../dist/ir/graph.js';
import { dynamicSlice, dynamicUpdateSlice } from '../dist/ops/prim/dynamic.js';
import { evaluate } from '../dist/runtime/evaluate.js';
import { hasValue } from '../dist/runtime/value.js';
import { emitModule } from '../dist/stablehlo/emitter.js';

type T = tx.Tensor;
const f64 = (data: tx.Nested): T => tx.tensor(data, { dtype: 'f64' });
const wave = (n: number, shape: readonly number[], phase = 0): T =>
  tx.tensor(
    Float64Array.from({ length: n }, (_, i) => Math.sin(1.7 * i + phase)),
    { shape },
  );
const numbers = async (t: T): Promise<number[]> => Array.from((await t.data()) as Float64Array, Number);
const listOf = (ys: T | readonly T[]): readonly T[] => (Array.isArray(ys) ? ys : [ys]) as readonly T[];

/** The text of the program that computes these. */
const textOf = (...ts: T[]): string => {
  const graph = collect(
    ts.map((t) => t.expr),
    hasValue,
  );
  return emitModule(graph, graph.nodes.filter(hasValue));
};
const countOf = (text: string, op: string) => text.split(`"stablehlo.${op}"`).length - 1;

type F = (...xs: T[]) => T | readonly T[];
/** A number that depends on every element of the results. */
const weighted = (ys: T | readonly T[]): T =>
  listOf(ys)
    .map((y, i) => y.mul(wave(y.expr.aval.size, y.shape, i + 0.3)).sum())
    .reduce((a, b) => a.add(b));
/** Values and first and second derivatives of f and of the same written without loops; and finite differences. */
async function agrees(f: F, plain: F, inputs: readonly T[], differences = true): Promise<void> {
  const run = (g: F) => {
    const xs = inputs.map((x) => new tx.Tensor(x.expr).requiresGrad_());
    const ys = listOf(g(...xs));
    const first = tx.grad(weighted(ys), xs, { createGraph: true, allowUnused: true });
    const made = first.filter((d) => d !== null);
    const again = weighted(made);
    const second = again.requiresGrad ? tx.grad(again, xs, { allowUnused: true }) : [];
    return [...ys, ...first, ...second];
  };
  const [got, want] = [run(f), run(plain)];
  await evaluate(
    [...got, ...want].flatMap((t) => (t ? [t.expr] : [])),
    { cause: 'sync' },
  );
  for (const [i, w] of want.entries()) {
    const zero = w ? undefined : new Array(got[i]?.expr.aval.size ?? 0).fill(0);
    const expected = w ? await numbers(w) : zero!;
    const actual = got[i] ? await numbers(got[i]!) : expected.map(() => 0);
    expect(actual, `number ${i}`).toHaveLength(expected.length);
    actual.forEach((x, j) => expect(x, `number ${i}, element ${j}`).toBeCloseTo(expected[j]!, 9));
  }
  if (!differences) return;
  await tx.gradcheck(f, inputs);
  await tx.gradcheck(f, inputs, { order: 2 });
}

/** Row i, without an indexing op: the table's rows times a mask. */
const row = (xs: T, i: number): T => {
  const n = xs.shape[0]!;
  const shape = [n, ...xs.shape.slice(1).map(() => 1)];
  const mask = tx.tensor(
    Float64Array.from({ length: n }, (_, k) => (k === i ? 1 : 0)),
    { shape },
  );
  return xs.mul(mask).sum(0);
};
const stack = (rows: readonly T[]): T =>
  rows
    .map((r, i) => {
      const shape = [rows.length, ...r.shape.map(() => 1)];
      return r.mul(
        tx.tensor(
          Float64Array.from({ length: rows.length }, (_, k) => (k === i ? 1 : 0)),
          { shape },
        ),
      );
    })
    .reduce((a, b) => a.add(b));
/** scan as an ordinary loop. */
function unrolled<C>(f: (c: C, x: T) => readonly [C, T], init: C, xs: T, reverse = false): [C, T] {
  let carry = init;
  const ys: T[] = [];
  const order = Array.from({ length: xs.shape[0]! }, (_, i) => i);
  for (const i of reverse ? order.reverse() : order) [carry, ys[i]!] = f(carry, row(xs, i));
  return [carry, stack(ys)];
}

const W = wave(4, [2, 2]);
const H = wave(2, [2], 1);
const XS = wave(8, [4, 2], 2);
const rnn =
  (w: T) =>
  (h: T, x: T): readonly [T, T] => {
    const next = w.mul(h).sum(1).add(x).tanh();
    return [next, next.mul(next)];
  };

describe('scan', () => {
  test('a body may use what was computed before, in all three loops and a branch', async () => {
    const w = f64([1, 2]).mul(3);
    await tx.sync(w); // it has a value now, and has forgotten what it was made of
    const zero = f64([0, 0]);
    const loops = [
      tx.scan((c, x: T) => [c.add(w.mul(x)), c], zero, tx.ones([3], { dtype: 'f64' }))[0],
      tx.foriLoop(0, 3, (_, c) => c.add(w), zero),
      tx.whileLoop(
        (c) => c.sum().lt(20),
        (c) => c.add(w),
        zero,
      ),
      tx.cond(
        w.sum().gt(0),
        (c) => c.add(w).mul(3),
        (c) => c.sub(w),
        zero,
      ),
    ];
    for (const t of loops) expect(await numbers(t)).toEqual([9, 18]);
  });

  for (const options of [
    {},
    { reverse: true },
    { checkpoint: true },
    { unroll: 3 },
    { unroll: 2, reverse: true },
    { unroll: 9 },
  ]) {
    test(`an RNN with captured weights, ${JSON.stringify(options)}`, () =>
      agrees(
        (w, h, xs) => tx.scan(rnn(w!), h!, xs!, options),
        (w, h, xs) => unrolled(rnn(w!), h!, xs!, 'reverse' in options),
        [W, H, XS],
        !('unroll' in options),
      ));
  }

  test('on a CPU a loop takes the captured matrices that it multiplies with transposed, too', async () => {
    const shapes = [
      [5, 5],
      [3, 5],
      [3, 5],
      [9, 3, 5],
    ];
    const [w, b, h, xs] = shapes.map((shape, i) =>
      wave(
        shape.reduce((a, n) => a * n),
        shape,
        i,
      ),
    ) as [T, T, T, T];
    const cell = (w: T, b: T) => (c: T, x: T) => {
      const next = tx.linear(c, w).add(x).add(b).tanh();
      return [next, next] as [T, T];
    };
    await agrees(
      (w, b, h, xs) => tx.scan(cell(w!, b!), h!, xs!),
      (w, b, h, xs) => unrolled(cell(w!, b!), h!, xs!),
      [w, b, h, xs],
    );
    const text = tx.getStablehlo([tx.scan(cell(w.detach(), b.detach()), h.detach(), xs.detach())[1]]);
    const end = text.split('\n').find((line) => line.startsWith('}) : (tensor<i32>'))!; // of the loop
    expect(end.split('->')[1]!.split('tensor<5x5xf64>').length - 1).toBe(2);
  });

  test('passes that are left after the unrolled ones, reversed: gradients of both orders in one program', async () => {
    const given = [
      [4, 4],
      [4, 4],
      [1, 4],
      [9, 1, 4],
      [9, 1, 4],
    ].map((shape, i) =>
      wave(
        shape.reduce((a, n) => a * n),
        shape,
        i + 1,
      ).detach(),
    ) as [T, T, T, T, T];
    const [w, v, h, xs, scale] = given.map((t) => t.requiresGrad_()) as [T, T, T, T, T];
    const cell = (c: T, x: T): [T, T] => {
      const next = tx.linear(tx.linear(c, w).tanh(), v).sigmoid();
      return [next, next.mul(0.5).add(x.mul(0))];
    };
    const both = async (scanned: boolean) => {
      const passes = Array.from({ length: 9 }, (_, i) => xs.select(0, 8 - i));
      const [last, ys] = scanned
        ? tx.scan(cell, h, xs, { unroll: 2, reverse: true })
        : passes.reduce<[T, T[]]>(([c, ys], x) => [cell(c, x)[0], [cell(c, x)[1], ...ys]], [h, []]);
      const loss = last
        .square()
        .sum()
        .add((Array.isArray(ys) ? tx.stack(ys, 0) : ys).mul(scale).sum());
      const first = tx.autograd.grad(loss, [w, v, h], { createGraph: true }) as T[];
      const sum = first.map((g) => g.mul(0.3).sum()).reduce((a, b) => a.add(b));
      const all = [...first, ...(tx.autograd.grad(sum, [w, v, h]) as T[])];
      await tx.sync(...all);
      return Promise.all(all.map(async (t) => Array.from((await t.data()) as Float64Array)));
    };
    const [got, want] = [await both(true), await both(false)];
    for (const [i, list] of want.entries())
      for (const [k, x] of list.entries()) expect(got[i]![k]!, `${i}[${k}]`).toBeCloseTo(x, 12);
  });

  test('one pass is no loop, and no pass gives the carry and nothing', async () => {
    await agrees(
      (w, h, xs) => tx.scan(rnn(w!), h!, xs!),
      (w, h, xs) => unrolled(rnn(w!), h!, xs!),
      [W, H, wave(2, [1, 2])],
    );
    const [h, ys] = tx.scan(rnn(W), H, wave(0, [0, 2]));
    expect(await numbers(h)).toEqual(await numbers(H));
    expect([ys.shape, ys.dtype]).toEqual([[0, 2], 'f64']);
  });

  test('the carry is not used afterwards; or the outputs are not', async () => {
    await agrees(
      (w, h, xs) => tx.scan(rnn(w!), h!, xs!)[1],
      (w, h, xs) => unrolled(rnn(w!), h!, xs!)[1],
      [W, H, XS],
    );
    await agrees(
      (w, h, xs) => tx.scan(rnn(w!), h!, xs!)[0],
      (w, h, xs) => unrolled(rnn(w!), h!, xs!)[0],
      [W, H, XS],
    );
  });

  test('a carry that wants no gradient at first, and one that is thrown away', () =>
    agrees(
      (w, xs) => tx.scan((h: T, x: T) => [h.mul(x).add(w!).sin(), h] as const, tx.zeros([2], { dtype: 'f64' }), xs!),
      (w, xs) => unrolled((h: T, x: T) => [h.mul(x).add(w!).sin(), h] as const, tx.zeros([2], { dtype: 'f64' }), xs!),
      [H, XS],
    ));

  test('integer carries beside floats, in an object', () =>
    agrees(
      (h, xs) => {
        const init = { h: h!, n: tx.tensor(1) };
        const [end, ys] = tx.scan(
          (c: { h: T; n: T }, x: T) => [{ h: c.h.mul(x).sin().mul(c.n), n: c.n.add(1) }, c.h.mul(c.n)] as const,
          init,
          xs!,
        );
        expect([end.n.dtype, end.n.requiresGrad, end.h.requiresGrad]).toEqual(['i64', false, true]);
        return [end.h, ys];
      },
      (h, xs) => {
        let n = 0;
        return unrolled(
          (c: T, x: T) => {
            n++;
            return [c.mul(x).sin().mul(n), c.mul(n)] as const;
          },
          h!,
          xs!,
        );
      },
      [H, XS],
    ));

  test('several stacked inputs and outputs, some unused; a captured expression; the same one twice', () =>
    agrees(
      (w, h, xs) => {
        const [c, ys] = tx.scan(
          ({ a, b }: { a: T; b: T }, [x, z]: [T, T]) => {
            const e = w!.exp().sum(0); // depends on no parameter: computed once, outside
            return [
              { a: a.mul(e).add(x).sin(), b },
              { p: a.mul(a).mul(e), q: [x.mul(b), z] },
            ] as const;
          },
          { a: h!, b: h! },
          [xs!, xs!.mul(2)] as [T, T],
        );
        return [c.a, ys.p, ys.q[0]];
      },
      (w, h, xs) => {
        const e = w!.exp().sum(0);
        const qs: T[] = [];
        const [a, ps] = unrolled(
          (a: T, x: T) => {
            qs.push(x.mul(h!));
            return [a.mul(e).add(x).sin(), a.mul(a).mul(e)] as const;
          },
          h!,
          xs!,
        );
        return [a, ps, stack(qs)];
      },
      [W, H, XS],
    ));

  for (const checkpoint of [false, true]) {
    test(`a scan in a scan, checkpoint: ${checkpoint}`, () => {
      const inner = (w: T, h: T) => (c: T, x: T) => [c.mul(w).add(x.mul(h)).sin(), c] as const;
      return agrees(
        (w, h, xs) =>
          tx.scan(
            (c: T, x: T) => {
              const [d, ys] = tx.scan(inner(w!.sum(0), c), c, xs!, { checkpoint });
              return [d.mul(x), ys.sum(0).cos()] as const;
            },
            h!,
            xs!,
            { checkpoint },
          ),
        (w, h, xs) =>
          unrolled(
            (c: T, x: T) => {
              const [d, ys] = unrolled(inner(w!.sum(0), c), c, xs!);
              return [d.mul(x), ys.sum(0).cos()] as const;
            },
            h!,
            xs!,
          ),
        [W, H, wave(6, [3, 2], 2)],
      );
    });
  }

  test('an inner loop is not run again for the gradient: two loops there, two back', () => {
    const h = new tx.Tensor(H.expr).requiresGrad_();
    const inner = (c: T, x: T) => [c.mul(x).sin(), c] as const;
    const [end] = tx.scan((c: T, x: T) => [tx.scan(inner, c.add(x), XS)[0], null] as const, h, XS);
    end.sum().backward();
    expect(countOf(textOf(end, h.grad!), 'while')).toBe(4);
  });

  test('gradients taken inside a body', () => {
    const energy = (w: T, h: T) => h.mul(w).sin().sum();
    const step = (w: T) => (h: T, x: T) =>
      [
        h.sub(
          tx
            .grad((q: T) => energy(w, q))(h)
            .mul(x),
        ),
        h,
      ] as const;
    return agrees(
      (w, h, xs) => tx.scan(step(w!.sum(0)), h!, xs!),
      (w, h, xs) => unrolled(step(w!.sum(0)), h!, xs!),
      [W, H, XS],
    );
  });

  test('inside a function that is differentiated: value and gradient in one program', async () => {
    const loss = (w: T, h: T) => tx.scan(rnn(w), h, XS)[1].sum();
    const [value, [gw, gh]] = tx.valueAndGrad(loss, { argnums: [0, 1] })(W, H);
    expect([value, gw, gh].map((t) => t.requiresGrad)).toEqual([false, false, false]);
    expect(countOf(textOf(value, gw, gh), 'while')).toBe(2); // the widened loop stands for the first one
    const w = new tx.Tensor(W.expr).requiresGrad_();
    loss(w, H).backward();
    expect(await numbers(gw)).toEqual(await numbers(w.grad!));
  });

  test("the program does not grow with the number of passes, nor does the gradient's", async () => {
    const sizes = [3, 300].map((n) => {
      const [w, h] = [W, H].map((x) => new tx.Tensor(x.expr).requiresGrad_()) as [T, T];
      const [end, ys] = tx.scan(rnn(w), h, wave(2 * n, [n, 2]));
      end.sum().add(ys.sum()).backward();
      const text = textOf(end, ys, w.grad!, h.grad!);
      return { lines: text.split('\n').length, whiles: countOf(text, 'while') };
    });
    expect(sizes[0]).toEqual(sizes[1]);
    expect(sizes[0]!.whiles).toBe(2); // one there, one back
  });

  test('what is saved for the gradient is what it needs: one array for tanh, only the carry with checkpoint', () => {
    const stacksOf = (f: (h: T, x: T) => readonly [T, null], options: tx.ScanOptions) => {
      const h = new tx.Tensor(H.expr).requiresGrad_();
      const [end] = tx.scan(f, h, wave(14, [7, 2]), options);
      end.sum().backward();
      return countOf(textOf(end, h.grad!), 'dynamic_update_slice');
    };
    expect(stacksOf((h, x) => [h.mul(2).add(x).tanh(), null], {})).toBe(1);
    expect(stacksOf((h, x) => [h.mul(3).tanh().sin().exp().add(x), null], {})).toBe(2); // tanh and exp; cos is computed again
    expect(stacksOf((h, x) => [h.mul(3).tanh().sin().exp().add(x), null], { checkpoint: true })).toBe(1);
    expect(stacksOf((h, x) => [h.add(x), null], {})).toBe(0);
  });

  test('loops that compute the same are the same program', () => {
    const make = () => tx.scan(rnn(W), H, XS)[0].expr.inputs[0]!.signature;
    expect(make()).toBe(make());
    expect(tx.scan((h: T, x: T) => [h.add(x), h] as const, H, XS)[0].expr.inputs[0]!.signature).not.toBe(make());
    const swap = (k: number) =>
      tx.scan(([a, b]: [T, T], _: null) => [(k ? [b, a] : [a, b]) as [T, T], null] as const, [H, H] as [T, T], null, {
        length: 2,
      });
    expect(swap(0)[0][0].expr.inputs[0]!.signature).not.toBe(swap(1)[0][0].expr.inputs[0]!.signature);
  });
});

describe('cond', () => {
  for (const yes of [true, false]) {
    const f: F = (w, h) =>
      tx.cond(
        tx.tensor(yes),
        (x: { h: T }) => [x.h.mul(w!.sum(0)).sin(), x.h],
        (x: { h: T }) => [x.h.exp(), w!.sum(1).mul(2)],
        { h: h! },
      );
    const plain: F = (w, h) => (yes ? [h!.mul(w!.sum(0)).sin(), h!] : [h!.exp(), w!.sum(1).mul(2)]);
    test(`${yes}: captured and given`, () => agrees(f, plain, [W, H]));
  }

  test('only one branch runs', async () => {
    const forever = (x: T) =>
      tx.whileLoop(
        (y: T) => y.gt(-1),
        (y: T) => y.abs(),
        x,
      );
    expect(
      await tx
        .cond(
          tx.tensor(1).gt(2),
          (x: T) => forever(x),
          (x: T) => x.neg(),
          f64(3),
        )
        .item(),
    ).toBe(-3);
  });

  test('what a branch makes of captured values is its own: the program makes it nowhere else', async () => {
    const [x, pred] = [f64([1, 2, 3]), tx.tensor(true)];
    const made = tx.cond(
      pred,
      () => x.sin(),
      () => x.sub(x.exp().exp()),
    );
    const [before, inside] = tx.getStablehlo([made]).split('"stablehlo.case"') as [string, string];
    const operations = (text: string) => ['sine', 'exponential', 'subtract'].map((op) => text.split(op).length - 1);
    expect([operations(before), operations(inside)]).toEqual([
      [0, 0, 0],
      [1, 2, 1],
    ]);
    expect(await made.tolist()).toEqual([1, 2, 3].map(Math.sin));
  });

  test('without operands, of integers and booleans', async () => {
    const [a, b] = tx.cond(
      tx.tensor(true),
      () => [tx.tensor(1), tx.tensor(false)],
      () => [tx.tensor(2), tx.tensor(true)],
    );
    expect([await a!.item(), await b!.item()]).toEqual([1, 0]);
  });

  const step = (w: T) => (h: T, x: T) =>
    [
      tx.cond(
        x.sum().gt(0),
        (q: T) => q.mul(w).sin(),
        (q: T) => q.add(x).cos(),
        h,
      ),
      h,
    ] as const;
  const plainStep = (w: T) => (h: T, x: T) => {
    const up = tx.where(x.sum().gt(0), h.mul(w).sin(), h.add(x).cos());
    return [up, h] as const;
  };
  test('a cond in a scan', () =>
    agrees(
      (w, h, xs) => tx.scan(step(w!.sum(0)), h!, xs!),
      (w, h, xs) => unrolled(plainStep(w!.sum(0)), h!, xs!),
      [W, H, XS],
    ));
  test('a scan in a cond', () =>
    agrees(
      (w, h, xs) =>
        tx.cond(
          h!.sum().lt(100),
          () => tx.scan(rnn(w!), h!, xs!)[1],
          () => xs!,
        ),
      (w, h, xs) => unrolled(rnn(w!), h!, xs!)[1],
      [W, H, XS],
    ));
});

describe('whileLoop and foriLoop', () => {
  test('a while runs until its condition fails, with captured values', async () => {
    const [limit, step] = [f64(100), f64(3)];
    const end = tx.whileLoop(
      ({ x }) => x.lt(limit),
      ({ x, n }) => ({ x: x.mul(step), n: n.add(1) }),
      { x: f64(1), n: tx.tensor(0) },
    );
    expect([await end.x.item(), await end.n.item()]).toEqual([243, 5]);
    expect(
      await tx
        .whileLoop(
          (x: T) => x.lt(0),
          (x: T) => x.add(1),
          f64(7),
        )
        .item(),
    ).toBe(7);
  });

  test('a while in a while', async () => {
    const outer = tx.whileLoop(
      (x: T) => x.lt(1000),
      (x: T) =>
        tx.whileLoop(
          (y: T) => y.lt(x.mul(3)),
          (y: T) => y.add(x),
          x,
        ),
      f64(1),
    );
    expect(await outer.item()).toBe(2187);
  });

  test('foriLoop counts; with numbers it is differentiable', async () => {
    await agrees(
      (w, h) => tx.foriLoop(2, 6, (i, c: T) => c.mul(w!.sum(0)).sin().mul(i), h!),
      (w, h) => [2, 3, 4, 5].reduce((c, i) => c.mul(w!.sum(0)).sin().mul(i), h!),
      [W, H],
    );
    const text = textOf(tx.foriLoop(0, 1000, (_, c: T) => c.add(1), f64(0)));
    expect(countOf(text, 'while')).toBe(1);
    expect(await tx.foriLoop(5, 2, (_, c: T) => c.add(1), f64(0)).item()).toBe(0);
  });

  test('foriLoop with bounds that are computed', async () => {
    const n = tx.tensor(3).add(1);
    expect(await tx.foriLoop(1, n, (i, c: T) => c.add(i), f64(0)).item()).toBe(6);
    expect(await tx.foriLoop(n.neg(), 0, (i, c: T) => c.add(i), f64(0)).item()).toBe(-10);
  });
});

test('slices at places that are computed, which are moved inside', async () => {
  const at = (...starts: number[]) => starts.map((i) => tx.tensor(i, { dtype: 'i32' }).expr);
  const x = f64([
    [1, 2, 3],
    [4, 5, 6],
  ]);
  const read = (t: T, ...starts: number[]) => new tx.Tensor(dynamicSlice(t.expr, at(...starts), [1, 2]));
  const write = (t: T, u: T, ...starts: number[]) => new tx.Tensor(dynamicUpdateSlice(t.expr, u.expr, at(...starts)));
  expect(await numbers(read(x, 1, 1))).toEqual([5, 6]);
  expect(await numbers(read(x, 7, 7))).toEqual([5, 6]);
  expect(await numbers(write(x, f64([[8, 9]]), 0, 1))).toEqual([1, 8, 9, 4, 5, 6]);
  const f: F = (a, b) => [read(a!.mul(a!), 1, 0).sin(), write(a!, b!.mul(b!), 0, 1).cos()];
  await tx.gradcheck(f, [x, f64([[8, 9]])]);
  await tx.gradcheck(f, [x, f64([[8, 9]])], { order: 2 });
  expect(() => dynamicSlice(x.expr, at(0), [1, 2])).toThrow('dynamicSlice: 1 starts for the 2 dimensions of f64[2, 3]');
  expect(() => dynamicSlice(x.expr, at(0, 0), [3, 2])).toThrow('a slice of shape [3, 2] does not fit in f64[2, 3]');
});
