// With its layers as one loop, a training step of 28 layers is a program as large as one of 4: here, and for a TPU.
import * as tx from 'tsxla';
import { compileAhead } from 'tsxla/plan';
import { expect, test } from 'vitest';
import { startCpu } from '../support.js';

const { models, optim } = tx;

/** The program of a Qwen3 training step; nothing is computed. */
function stepText(layers: number, platform: 'cpu' | 'tpu'): string {
  const config = {
    ...models.QWEN3['0.6B'],
    numHiddenLayers: layers,
    hiddenSize: 256,
    intermediateSize: 768,
    numAttentionHeads: 4,
    numKeyValueHeads: 2,
    headDim: 64,
    vocabSize: 4096,
  };
  const model = new models.Qwen3ForCausalLM(config, { scanLayers: true, checkpoint: true });
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
  const train = tx.compile((ids: tx.Tensor, targets: tx.Tensor) => {
    const loss = tx.crossEntropy(model.forward(ids).reshape([-1, 4096]), targets.reshape([-1]));
    loss.backward();
    optimizer.step();
    optimizer.zeroGrad();
    return loss;
  });
  const ids = tx.zeros([2, 128], { dtype: 'i64' });
  return train.stablehlo([ids, ids], { platform });
}

test('on the CPU', async () => {
  using client = await startCpu();
  const [few, many] = [stepText(4, 'cpu'), stepText(28, 'cpu')];
  expect(many.length / few.length).toBeLessThan(1.05); // the program does not grow
  const compiledSize = async (text: string) => {
    using executable = await client.compile(text);
    return (await executable.optimizedHlo()).length;
  };
  const ratio = (await compiledSize(many)) / (await compiledSize(few));
  console.log(`28 layers are compiled to ${ratio.toFixed(2)} times the operations of 4 on the CPU`);
  expect(ratio).toBeLessThan(1.05); // unrolled: about 7
});

test('for a TPU v6e', async () => {
  const kernels = async (layers: number) =>
    (await compileAhead(stepText(layers, 'tpu'), { topology: 'v6e:1x1' })).work.kernels.length;
  const ratio = (await kernels(28)) / (await kernels(4));
  console.log(`28 layers are compiled to ${ratio.toFixed(2)} times the kernels of 4 for a v6e`);
  expect(ratio).toBeLessThan(1.5);
});
