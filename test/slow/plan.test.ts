// A Qwen3 training step for a v6e, counted: products by hand, memory as the compiler allots it.
import * as tx from 'tsxla';
import { compileAhead, estimate, findChip } from 'tsxla/plan';
import { expect, test } from 'vitest';

const [B, L, D, F, V, N, H, KV, hd] = [4, 512, 512, 1536, 8192, 3, 8, 4, 64];
const config = {
  ...tx.models.QWEN3['0.6B'],
  ...{ vocabSize: V, hiddenSize: D, intermediateSize: F, numHiddenLayers: N },
  ...{ headDim: hd, numAttentionHeads: H, numKeyValueHeads: KV },
};
const product = (m: number, n: number, k: number) => 2 * m * n * k;
const heads = product(B * L, D, (H + 2 * KV) * hd) + product(B * L, H * hd, D); // q, k, v and o
const mlp = 3 * product(B * L, D, F);
const scores = B * H * product(L, L, hd);
const head = product(B * L, D, V);

function program(checkpoint: boolean, batch = B): string {
  const model = new tx.models.Qwen3ForCausalLM(config, { scanLayers: true, checkpoint });
  model.to('bf16');
  const optimizer = new tx.optim.AdamW(model.parameters(), { lr: 1e-4 });
  const train = tx.compile(function train(ids: tx.Tensor) {
    const loss = model.loss(ids);
    loss.backward();
    optimizer.step();
    optimizer.zeroGrad();
    return loss;
  });
  return train.stablehlo([tx.zeros([batch, L], { dtype: 'i32' })], { platform: 'tpu' });
}

test('a scanned step: each product thrice, scores thrice more, layers as often as there are', async () => {
  const { work, live, memory } = await compileAhead(program(false), { topology: 'v6e:1x1' });
  expect(work.openLoops).toBe(0);
  // Of attention's kernels: two products forward, three for the query's gradient, four for those of key and value.
  expect(work.productFlops).toBe(N * (3 * (heads + mlp) + 9 * scores) + 3 * head);
  const allotted = memory.arguments + memory.outputs - memory.aliased + memory.temporaries;
  expect(Math.abs(live.peak / allotted - 1)).toBeLessThan(0.02);
  expect(live.activations).toBeGreaterThan(live.temporaries);
  const { seconds, utilisation } = estimate(work, findChip('v6e')!);
  expect(seconds).toBeGreaterThan(work.productFlops / 918e12);
  expect(utilisation).toBeLessThan(1);
});

test('with checkpoints layers run once more, all but the last product, and only their inputs and the logits are kept', async () => {
  const { work, live } = await compileAhead(program(true), { topology: 'v6e:1x1' });
  const again = heads + mlp - product(B * L, F, D) + 2 * scores;
  expect(work.productFlops).toBe(N * (3 * (heads + mlp) + 9 * scores + again) + 3 * head);
  expect(live.activations).toBeLessThan(4 * B * L * V + 2 * (2 * N * B * L * D));
});

test('a step too large for the chip is compiled all the same, to see what fills it', async () => {
  const options = { topology: 'v6e:1x1', evenIfTooLarge: true };
  const { live } = await compileAhead(program(false, 700), options);
  expect(live.peak).toBeGreaterThan(findChip('v6e')!.hbm.available);
  expect(live.tenLargest[0]!.bytes).toBeGreaterThan(2 ** 30);
});
