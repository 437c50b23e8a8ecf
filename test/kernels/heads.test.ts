// Norm and rotation of queries and keys as one kernel: values and gradients beside those of the models' own layers, in
// StableHLO's form; and Triton's form beside that one.
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';
import { DecoderRMSNorm, WideRMSNorm } from '../../dist/models/blocks.js';
import { turnHeads } from '../../dist/models/heads.js';
import { RotaryEmbedding, rotate } from '../../dist/models/rope.js';
import { headsCases } from './cases.js';
import { difference } from './forms.js';

type Sizes = readonly [B: number, T: number, H: number, G: number, d: number];
const far = async (a: tx.Tensor, b: tx.Tensor): Promise<number> => {
  expect([a.dtype, a.shape]).toEqual([b.dtype, b.shape]);
  return Number(await a.sub(b).abs().max().div(b.abs().max()).item());
};

describe.each<[string, (d: number) => DecoderRMSNorm | WideRMSNorm | null]>([
  ["Llama's norm", (d) => new DecoderRMSNorm(d, 1e-6)],
  ["Gemma's norm", (d) => new WideRMSNorm(d, 1e-5, 1)],
  ['no norm', () => null],
])('%s', (_, normOf) => {
  test.each<Sizes>([
    [2, 5, 4, 2, 8],
    [1, 37, 4, 1, 64], // the last block of tokens is not full
    [2, 3, 3, 3, 6], // no powers of two
  ])('%i sequences, %i tokens, %i and %i heads of %i', async (B, T, H, G, d) => {
    const norms = [normOf(d), normOf(d)];
    const weights = norms.map((norm) => {
      if (norm) norm.weight = new tx.nn.Parameter(tx.randn([d]));
      return norm?.weight;
    });
    const rope = new RotaryEmbedding({ type: 'default', theta: 10_000, originalMaxPositionEmbeddings: 64 }, d, 64);
    const rotation = rope.forward(B > 1 ? tx.randint(0, 60, [B, T]) : tx.arange(T).unsqueeze(0));
    const [q, k] = [H, G].map((n) => tx.randn([B, T, n, d]).requiresGrad_()) as [tx.Tensor, tx.Tensor];
    const [gq, gk] = [tx.randn([B, H, T, d]), tx.randn([B, G, T, d])];
    const variables = [q, k, ...weights.filter((w) => w !== undefined)];

    const plain = [q, k].map((x, i) => rotate((norms[i]?.forward(x) ?? x).transpose(1, 2), rotation));
    const [norm] = norms;
    const numbers = norm && {
      eps: norm.eps,
      offset: norm instanceof WideRMSNorm ? norm.offset : 0,
      weights: weights as unknown as readonly [tx.Tensor, tx.Tensor],
    };
    const fused = turnHeads(q, k, rotation, numbers ?? null).map((x) => x.transpose(1, 2));
    const loss = ([a, b]: tx.Tensor[]) => a!.mul(gq).sum().add(b!.mul(gk).sum());
    const want = tx.grad(loss(plain), variables);
    const got = tx.grad(loss(fused), variables);
    for (const [i, y] of fused.entries()) expect(await far(y, plain[i]!)).toBeLessThan(1e-5);
    for (const [i, g] of got.entries()) expect(await far(g!, want[i]!)).toBeLessThan(1e-5);
  });
});

test('in bf16, as near to f32 as the layers are', async () => {
  const [B, T, H, d] = [1, 8, 4, 16];
  const norm = new DecoderRMSNorm(d, 1e-6);
  const rotation = new RotaryEmbedding(
    { type: 'default', theta: 10_000, originalMaxPositionEmbeddings: 64 },
    d,
    64,
  ).forward(tx.arange(T).unsqueeze(0));
  const q = tx.randn([B, T, H, d]).to('bf16');
  const exact = rotate(norm.forward(q.float()).transpose(1, 2), rotation);
  const [fused] = turnHeads(q, q, rotation, {
    eps: 1e-6,
    offset: 0,
    weights: [norm.weight.to('bf16'), norm.weight.to('bf16')],
  });
  expect(fused.dtype).toBe('bf16');
  expect(await far(fused.transpose(1, 2).float(), exact)).toBeLessThan(2 ** -8);
});

describe("Triton's form", () => {
  const cases = [
    ...headsCases('f32', [2, 5, 4, 2, 8]),
    ...headsCases('bf16', [1, 3, 3, 1, 6]),
    ...headsCases('f32', [1, 20, 4, 2, 64]),
  ];
  test.each(cases.map((c) => [c.name, c] as const))('%s', async (_, kernel) => {
    expect(await difference(kernel)).toBe('');
  });
});
