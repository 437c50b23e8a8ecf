// Training steps of full-size Qwen3 models, compiled for TPUs that are not here; no weight is ever made.
import * as tx from 'tsxla';
import { compileAhead } from 'tsxla/plan';
import { expect, test } from 'vitest';

test.each([['0.6B', 1]] as const)(
  'a training step of Qwen3 %s fits a v6e',
  async (size, batch) => {
    const model = new tx.models.Qwen3ForCausalLM(tx.models.QWEN3[size], { scanLayers: true, checkpoint: true });
    model.to('bf16');
    const optimizer = new tx.optim.AdamW(model.parameters(), { lr: 1e-4 });
    const train = tx.compile(function train(ids: tx.Tensor) {
      const loss = model.loss(ids);
      loss.backward();
      optimizer.step();
      optimizer.zeroGrad();
      return loss;
    });
    const text = train.stablehlo([tx.zeros([batch, 2048], { dtype: 'i32' })], { platform: 'tpu' });
    const planned = await compileAhead(text, { topology: 'v6e:1x1', timeoutSeconds: 900 });
    const weights = model.parameters().reduce((n, p) => n + p.numel(), 0);
    expect(planned.memory.arguments).toBeGreaterThan(3 * 2 * weights); // weights and two moments, in bf16
    expect(tx.metrics.counter('ExecuteComputation') ?? 0).toBe(0);
  },
  1_000_000,
);
