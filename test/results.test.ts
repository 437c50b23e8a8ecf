// Results by name are also lists, in torch's order; pieces are tuples where their count is known.
import * as tx from 'tsxla';
import { expect, expectTypeOf, test } from 'vitest';
import { functions } from '../dist/tensor/functions-of-ops.js';

const x = tx.tensor([[3, 1, 2, 4]], { dtype: 'f32' });
const square = tx.tensor(
  [
    [2, 1],
    [1, 3],
  ],
  { dtype: 'f64' },
);
const wide = tx.arange(6, { dtype: 'f32' }).reshape([1, 1, 6]);

/** Every operation with results by name, and torch's order of them. */
const NAMED: Readonly<Record<string, [call: () => Iterable<tx.Tensor>, names: string]>> = {
  max: [() => x.max(1), 'values indices'],
  min: [() => x.min({ dim: 1 }), 'values indices'],
  median: [() => x.median(1), 'values indices'],
  nanmedian: [() => x.nanmedian(1), 'values indices'],
  mode: [() => x.mode(1), 'values indices'],
  sort: [() => x.sort(), 'values indices'],
  topk: [() => x.topk(2), 'values indices'],
  kthvalue: [() => x.kthvalue(2), 'values indices'],
  cummax: [() => x.cummax(1), 'values indices'],
  cummin: [() => x.cummin(1), 'values indices'],
  frexp: [() => x.frexp(), 'mantissa exponent'],
  histogram: [() => x.histogram(3), 'hist binEdges'],
  luUnpack: [
    () => {
      const { LU, pivots } = tx.linalg.luFactor(square);
      return tx.luUnpack(LU, pivots);
    },
    'P L U',
  ],
  aminmax: [() => x.aminmax({ dim: 1 }), 'min max'],
  slogdet: [() => square.slogdet(), 'sign logabsdet'],
  qr: [() => square.qr(), 'Q R'],
  eigh: [() => square.eigh(), 'eigenvalues eigenvectors'],
  svd: [() => square.svd(), 'U S V'],
  triangularSolve: [() => square.triangularSolve(square), 'solution clonedCoefficient'],
  geqrf: [() => square.geqrf(), 'a tau'],
  maxPool1d: [() => wide.maxPool1d(2, { returnIndices: true }), 'values indices'],
  maxPool1dWithIndices: [() => tx.maxPool1dWithIndices(wide, 2), 'values indices'],
};

test.each(Object.entries(NAMED))('%s', async (_, [call, names]) => {
  const results = call();
  expect(Object.keys(results)).toEqual(names.split(' '));
  const same = [...results].map((t, i) => t === Object.values(results)[i]);
  expect(same).toEqual(names.split(' ').map(() => true));
});

test('no operation with results by name is left out', () => {
  const named = Object.entries(functions).flatMap(([name, f]) => {
    if (name in NAMED) return [];
    for (const args of [[square], [square, 1], [x, 1], [wide, 2], [square, square]])
      try {
        const y: unknown = (f as (...args: unknown[]) => unknown)(...args);
        if (y && Object.getPrototypeOf(y) === Object.prototype && Object.values(y).every((t) => t instanceof tx.Tensor))
          return [name];
      } catch {}
    return [];
  });
  expect(named.filter((name) => !/WithIndices$|^lstsq$/.test(name))).toEqual([]);
});

test('as torch writes it', async () => {
  const [values, indices] = x.max(1);
  expectTypeOf(values).toEqualTypeOf<tx.Tensor>();
  expectTypeOf(x.max(1)[1]).toEqualTypeOf<tx.Tensor>();
  expect(x.max(1)[1]).toBeInstanceOf(tx.Tensor);
  // @ts-expect-error: there are two
  expect(x.max(1)[2]).toBeUndefined();
  expect(await values.tolist()).toEqual([4]);
  expect(await indices.tolist()).toEqual([3n]);
  const [U, S, Vh] = tx.linalg.svd(square);
  expect((await tx.allclose(U.mul(S).matmul(Vh), square).item()) === 1).toBe(true);
});

test('a compiled function, and a loop inside it, keep the order', async () => {
  const f = tx.compile((t: tx.Tensor) => t.topk(2));
  const [values, indices] = await f(x);
  expect([await values.tolist(), await indices.tolist()]).toEqual([[[4, 3]], [[3n, 0n]]]);
  const g = tx.compile((t: tx.Tensor) => tx.checkpoint((u: tx.Tensor) => u.svd(), t));
  const [U, , V] = await g(square);
  expect([U.shape, V.shape]).toEqual([
    [2, 2],
    [2, 2],
  ]);
});

test('max pools give a tensor, or values and indices', () => {
  expectTypeOf(wide.maxPool1d(2)).toEqualTypeOf<tx.Tensor>();
  expectTypeOf(wide.maxPool1d(2, 2, { padding: 1 })).toEqualTypeOf<tx.Tensor>();
  expectTypeOf(tx.maxPool1d(wide, 2, { returnIndices: false })).toEqualTypeOf<tx.Tensor>();
  expectTypeOf(tx.maxPool1d(wide, 2, 1, { returnIndices: true }).indices).toEqualTypeOf<tx.Tensor>();
  expectTypeOf(wide.maxPool1d(2, 1, 0, 1, false, true).values).toEqualTypeOf<tx.Tensor>();
  expectTypeOf(wide.adaptiveMaxPool1d(2, true).indices).toEqualTypeOf<tx.Tensor>();
  const [values, indices] = tx.nn.functional.adaptiveMaxPool1d(wide, 2, { returnIndices: true });
  expect([values.shape, indices.dtype]).toEqual([[...wide.shape.slice(0, -1), 2], 'i64']);
  // @ts-expect-error: there is no such option
  expect(() => wide.maxPool1d(2, { returnIndex: true })).toThrow("there is no option 'returnIndex'");
});

test('pieces are tuples where their count is a literal', () => {
  const [q, k, v] = tx.ones([2, 6]).chunk(3, 1);
  expectTypeOf(tx.ones([4]).chunk(2)).toEqualTypeOf<[tx.Tensor, tx.Tensor]>();
  expectTypeOf(tx.chunk(x, 2, { dim: 1 })).toEqualTypeOf<[tx.Tensor, tx.Tensor]>();
  expectTypeOf(x.split([1, 3], 1)).toEqualTypeOf<[tx.Tensor, tx.Tensor]>();
  expectTypeOf(x.split(2, 1)).toEqualTypeOf<tx.Tensor[]>();
  expectTypeOf(x.tensorSplit([1, 2], 1)).toEqualTypeOf<[tx.Tensor, tx.Tensor, tx.Tensor]>();
  expectTypeOf(x.tensorSplit(2, 1)).toEqualTypeOf<[tx.Tensor, tx.Tensor]>();
  expectTypeOf(x.unbind<2>(1)).toEqualTypeOf<[tx.Tensor, tx.Tensor]>();
  const sizes: number[] = [1, 3];
  expectTypeOf(x.split(sizes, 1)).toEqualTypeOf<tx.Tensor[]>();
  const count: number = 2;
  expectTypeOf(x.chunk(count, 1)).toEqualTypeOf<tx.Tensor[]>();
  expect([q, k, v].map((t) => t.shape)).toEqual([
    [2, 2],
    [2, 2],
    [2, 2],
  ]);
  expect(x.tensorSplit([1, 2], 1).map((t) => t.shape)).toEqual([
    [1, 1],
    [1, 1],
    [1, 2],
  ]);
});
