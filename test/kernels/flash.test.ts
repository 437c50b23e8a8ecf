// Flash attention by kernels, as StableHLO, beside the plain form: values and gradients, for shapes that are and are not whole
// blocks, and whatever hides keys.
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';

interface Case extends Omit<tx.kernels.FlashOptions, 'segmentIds'> {
  readonly B?: number;
  readonly H?: number;
  readonly G?: number;
  readonly T: number;
  readonly S?: number;
  readonly d?: number;
  readonly e?: number;
  readonly segments?: readonly number[];
}
const { flashAttention } = tx.kernels;

/** By a matrix of scores, in f32. */
function plain(q: tx.Tensor, k: tx.Tensor, v: tx.Tensor, of: Case): tx.Tensor {
  const [T, S, share] = [q.size(2), k.size(2), q.size(1) / k.size(1)];
  const [keys, values] = [k, v].map((x) => x.float().repeatInterleave(share, { dim: 1 })) as [tx.Tensor, tx.Tensor];
  let scores = q
    .float()
    .matmul(keys.transpose(-1, -2))
    .mul(of.scale ?? q.size(3) ** -0.5);
  if (of.softcap) scores = scores.div(of.softcap).tanh().mul(of.softcap);
  const [i, j] = [tx.arange(T).unsqueeze(1), tx.arange(S).unsqueeze(0)];
  let seen = tx.ones([T, S], { dtype: 'bool' });
  if (of.isCausal) seen = i.ge(j);
  if (of.window) seen = seen.logicalAnd(i.sub(j).lt(of.window));
  if (of.segments) {
    const ids = tx.tensor(of.segments as number[]);
    seen = seen.logicalAnd(
      ids
        .narrow(0, 0, T)
        .unsqueeze(1)
        .eq(ids.narrow(0, 0, S).unsqueeze(0)),
    );
  }
  const weights = tx.where(seen, tx.where(seen, scores, -1e30).softmax(-1), 0);
  return weights.matmul(values);
}

async function compare(c: Case, dtype: tx.DType, tolerance: number): Promise<void> {
  const { B = 1, H = 2, G = H, T, S = T, d = 8, e = d, segments, ...options } = c;
  tx.manualSeed(3);
  const make = (...shape: number[]) => tx.randn(shape).to(dtype).requiresGrad_();
  const [q, k, v] = [make(B, H, T, d), make(B, G, S, d), make(B, G, S, e)];
  const g = tx.randn([B, H, T, e]);
  const gradients = (y: tx.Tensor) => tx.grad(y.float().mul(g).sum(), [q, k, v]) as tx.Tensor[];
  const numbers = (n: number) =>
    tx
      .tensor((segments ?? []).slice(0, n))
      .unsqueeze(0)
      .expand([B, n]);
  const segmentIds = segments && (T === S ? numbers(T) : { queries: numbers(T), keys: numbers(S) });
  const flash = flashAttention(q, k, v, { ...options, ...(segmentIds && { segmentIds }) });
  const want = plain(q, k, v, c);
  expect([flash.dtype, flash.shape]).toEqual([dtype, [B, H, T, e]]);
  const pairs = [[flash, want], ...gradients(flash).map((x, i) => [x, gradients(want)[i]!])] as [
    tx.Tensor,
    tx.Tensor,
  ][];
  const most = (x: tx.Tensor) => x.abs().max();
  const sizes = pairs.flatMap(([a, b]) => [most(a.float().sub(b.float())), most(b.float())]);
  const found = (await tx.stack(sizes).tolist()) as number[]; // one program
  for (const [i, what] of ['the output', 'of query', 'of key', 'of value'].entries()) {
    const [difference, size] = found.slice(2 * i) as [number, number];
    expect(difference, `${what}, up to ${size}`).toBeLessThan(tolerance * (1 + size));
  }
}
const blocks = { queries: 16, keys: 8 };

describe('values and gradients', () => {
  test.each<[string, Case]>([
    ['one block', { T: 12 }],
    ['whole blocks', { T: 32, blocks }],
    ['no whole blocks', { T: 37, S: 21, blocks }],
    ['causal', { T: 32, isCausal: true, blocks }],
    ['causal, no whole blocks', { T: 45, isCausal: true, blocks }],
    ['causal, more queries than keys', { T: 40, S: 19, isCausal: true, blocks }],
    ['causal, more keys than queries', { T: 19, S: 40, isCausal: true, blocks }],
    ['causal, larger blocks of keys', { T: 45, isCausal: true, blocks: { queries: 8, keys: 16 } }],
    ['grouped heads', { B: 2, H: 6, G: 2, T: 24, isCausal: true, blocks }],
    ['one head for all', { H: 3, G: 1, T: 21, S: 30, blocks }],
    ['a window', { T: 45, isCausal: true, window: 11, blocks }],
    ['a window of one block', { T: 64, isCausal: true, window: 16, H: 4, G: 2, blocks: { queries: 16, keys: 16 } }],
    ['a window of one', { T: 20, isCausal: true, window: 1, blocks }],
    ['a soft cap', { T: 24, softcap: 1.5, blocks }],
    ['a soft cap and a scale', { T: 29, isCausal: true, softcap: 2, scale: 0.7, blocks }],
    ['segments', { B: 2, T: 29, segments: [...Array(29).keys()].map((i) => Math.floor(i / 7)), blocks }],
    [
      'segments, some without keys',
      { T: 12, S: 10, segments: [0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3], blocks: { queries: 8, keys: 8 } },
    ],
    ['values of another size', { T: 24, d: 8, e: 4, isCausal: true, blocks }],
    [
      'all of it',
      {
        B: 2,
        H: 4,
        G: 2,
        T: 41,
        isCausal: true,
        window: 17,
        softcap: 3,
        segments: [...Array(41).keys()].map((i) => Number(i > 23)),
        blocks,
      },
    ],
  ])('%s', async (_, c) => {
    await compare(c, 'f32', 2e-5);
  });

  test('bf16: products of bf16, sums in f32', async () => {
    await compare({ T: 45, H: 4, G: 2, isCausal: true, blocks }, 'bf16', 2e-2);
  });

  test('the default blocks, longer than one', async () => {
    await compare({ T: 640, H: 1, d: 4, isCausal: true }, 'f32', 2e-5);
  });
});

test('under vmap, and in a compiled step', async () => {
  const x = tx.randn([3, 1, 2, 20, 8]);
  const f = (q: tx.Tensor) => flashAttention(q, q, q, { isCausal: true, blocks });
  const want = plain(x.reshape([3, 2, 20, 8]), x.reshape([3, 2, 20, 8]), x.reshape([3, 2, 20, 8]), {
    T: 20,
    isCausal: true,
  });
  const near = async (y: tx.Tensor) =>
    expect(Number(await y.reshape([3, 2, 20, 8]).sub(want).abs().max().item())).toBeLessThan(2e-5);
  await near(tx.vmap(f)(x));
  await near(await tx.compile(f)(x.reshape([3, 2, 20, 8])));
});

test.each([
  ['no keys', [2, 4, 5, 8], [2, 2, 0, 8], [2, 2, 0, 3]],
  ['no queries', [2, 4, 0, 8], [2, 2, 5, 8], [2, 2, 5, 3]],
  ['no examples', [0, 4, 5, 8], [0, 2, 5, 8], [0, 2, 5, 3]],
  ['values of size 0', [2, 4, 5, 8], [2, 2, 5, 8], [2, 2, 5, 0]],
])('%s: zeros, with gradients', async (_, ...shapes) => {
  const [q, k, v] = shapes.map((shape) => tx.ones(shape, { requiresGrad: true })) as [tx.Tensor, tx.Tensor, tx.Tensor];
  const result = flashAttention(q, k, v);
  const want = tx.scaledDotProductAttention(q.detach(), k.detach(), v.detach(), { enableGqa: true });
  expect(result.shape).toEqual(want.shape);
  expect(await result.tolist()).toEqual(await want.tolist());
  result.sum().backward();
  for (const x of [q, k, v]) expect(await x.grad!.equal(tx.zeros(x.shape)).item()).toBeTruthy();
});

test('mistakes are named', () => {
  expect(() => flashAttention(tx.ones([1, 1, 2, 0]), tx.ones([1, 1, 2, 0]), tx.ones([1, 1, 2, 2]))).toThrow(
    'flashAttention: the last dim of query and key is 0',
  );
  const q = tx.ones([1, 4, 8, 8]);
  expect(() => flashAttention(q, tx.ones([1, 3, 8, 8]), tx.ones([1, 3, 8, 8]))).toThrow(
    /flashAttention: 3 heads of the key must divide the 4 of the query/,
  );
  expect(() => flashAttention(q, q, q, { window: 4 })).toThrow(
    /window is 4: takes a whole number from 1, together with isCausal/,
  );
  expect(() => flashAttention(q, q, q, { segmentIds: tx.ones([1, 8]) })).toThrow(
    /segmentIds must be integers \[1, 8\]/,
  );
  expect(() => flashAttention(q.squeeze(0), q, q)).toThrow(/takes \[B, heads, tokens, d\] three times/);
});
