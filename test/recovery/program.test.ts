// What the program of the main job's step does, counted: no product too many. Kernels on a GPU cost what they cost however
// small they are, and a step of 28 layers has thousands.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

// Every size is another, so that shapes tell what a product is of.
const [B, L, V, K, rank] = [2, 12, 72, 6, 4];
const SIZES = {
  vocabSize: V,
  hiddenSize: 32,
  intermediateSize: 56,
  numAttentionHeads: 4,
  numKeyValueHeads: 2,
  headDim: 24,
};

function program(layers: number, options: tx.models.Qwen3Options = {}): string {
  const model = new tx.models.Qwen3ForCausalLM({ ...SIZES, numHiddenLayers: layers, tieWordEmbeddings: true }, options);
  model.to('bf16');
  tx.lora.addLora(model, { rank });
  const trained = model.parameters().filter((p) => p.requiresGrad);
  const optimizer = new tx.optim.AdamW(trained, { lr: 1e-3 });
  const train = tx.compile((ids: tx.Tensor, topkIdx: tx.Tensor, topkLogits: tx.Tensor) => {
    const hidden = model.model.forward(ids).narrow(1, 0, L - 1);
    const { loss } = tx.distill.kdLoss(hidden, model.lmHead.weight, { topkIdx, topkLogits });
    loss.backward();
    optimizer.step();
    optimizer.zeroGrad();
    return loss;
  });
  const ids = (...shape: number[]) => tx.zeros(shape, { dtype: 'i32' });
  const logits = tx.zeros([B, L - 1, K], { dtype: 'f16' });
  return train.stablehlo([ids(B, L), ids(B, L - 1, K), logits], { platform: 'cuda' });
}
/** The shapes of all results of an operation. */
const resultsOf = (text: string, op: string): string[] =>
  [...text.matchAll(new RegExp(`"stablehlo\\.${op}"\\(.*-> tensor<(.*)>`, 'g'))].map((m) => m[1]!);
/** What one layer more adds. */
const ofOneLayer = (op: string, options?: (layers: number) => tx.models.Qwen3Options): number =>
  resultsOf(program(3, options?.(3)), op).length - resultsOf(program(2, options?.(2)), op).length;

const products = (text: string) => resultsOf(text, 'dot_general');
const isSmall = (shape: string) => shape.split('x').some((n) => n === `${rank}` || n === `${2 * rank}`);

test('a layer is 14 products with frozen weights and 30 of adapters, of which those of one input are one', () => {
  expect(ofOneLayer('dot_general')).toBe(14 + 30);
  const small = products(program(3)).filter(isSmall);
  // of q and v, of gate and up: x A^T, and the gradient of A
  expect(small.filter((s) => s.startsWith(`${B * L}x${2 * rank}x`))).toHaveLength(3 * 2);
  expect(small.filter((s) => s.startsWith(`32x${2 * rank}x`))).toHaveLength(3 * 2);
});

test.each([
  ['layers one by one', {}],
  ['layers in a loop, computed again', { scanLayers: true, checkpoint: true }],
])('%s: no gradient of a frozen weight is computed', (_, options) => {
  const weights = [96, 48, 56, V].flatMap((n) => [`${n}x32xbf16`, `32x${n}xbf16`]);
  const text = program(2, options);
  for (const shape of ['96x32xbf16', '32x56xbf16', `${V}x32xbf16`]) expect(text).toContain(shape); // they are there
  expect(products(text).filter((shape) => weights.includes(shape))).toEqual([]);
  expect(resultsOf(text, 'scatter')).toEqual([]); // the embedding's and the head's would be one
  const stacked = weights.map((shape) => `2x${shape}`);
  expect(resultsOf(text, 'dynamic_update_slice').filter((shape) => stacked.includes(shape))).toEqual([]);
});

test('pieces that were cut come back as one array, not as a sum of padded ones', () => {
  expect(ofOneLayer('pad')).toBe(0);
});

test('dtypes: norms and silu in f32 and back, forward and backward, and each adapter once a way', () => {
  const [norms, silu, adapters] = [4 * 4, 4, 12 * 2];
  expect(ofOneLayer('convert')).toBe(norms + silu + adapters);
});

test('stacked layers that are written out: one update for all layers, and nothing that is saved is stacked', () => {
  const text = program(3, { scanLayers: true, unroll: 3 });
  expect(resultsOf(text, 'sqrt').filter((s) => s.startsWith('3x'))).toHaveLength(12);
  expect(products(text)).toHaveLength(products(program(3)).length);
  expect(ofOneLayer('concatenate', (n) => ({ scanLayers: true, unroll: n }))).toBe(ofOneLayer('concatenate'));
  expect(ofOneLayer('dynamic_update_slice', (n) => ({ scanLayers: true, unroll: n }))).toBe(0);
});
