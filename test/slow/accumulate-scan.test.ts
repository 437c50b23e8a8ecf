// The main job's step in one program: micro-batches in a loop, and in it a loop over layers that are computed again for the
// gradient, and one over chunks of the head; then clipping and AdamW. The gradients are those of the whole batch.
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';
import { relativeError } from '../models/support.js';

type T = tx.Tensor;
interface Batch {
  readonly ids: T;
  readonly mask: T;
  readonly topkIdx: T;
  readonly topkLogits: T;
  readonly randIdx: T;
  readonly randLogits: T;
}
const [A, B, L, V, K, R] = [3, 2, 8, 64, 6, 3];
const SIZES = { vocabSize: V, hiddenSize: 16, intermediateSize: 24, numHiddenLayers: 2, headDim: 8 };
const HEADS = { numAttentionHeads: 4, numKeyValueHeads: 2, tieWordEmbeddings: true };

/** A student with adapters, and micro-batches whose sequences end at different places. */
async function problem(options: tx.models.Qwen3Options, dropout = 0) {
  tx.manualSeed(1);
  const model = new tx.models.Qwen3ForCausalLM({ ...SIZES, ...HEADS }, options);
  const adapters = tx.lora.addLora(model, { rank: 2, dropout });
  for (const { loraB } of adapters.values()) tx.nn.init.normal_(loraB, 0, 0.1);
  const ends = tx.tensor([8, 3, 5, 8, 2, 7], { dtype: 'i32' }).reshape([A, B, 1]);
  const batch: Batch = {
    ids: tx.randint(0, V, [A, B, L]),
    mask: tx.arange(L, { dtype: 'i32' }).lt(ends),
    topkIdx: tx.randint(0, V, [A, B, L - 1, K]),
    topkLogits: tx.randn([A, B, L - 1, K]),
    randIdx: tx.randint(0, V, [A, B, L - 1, R]),
    randLogits: tx.randn([A, B, L - 1, R]),
  };
  await tx.sync();
  const loss = ({ ids, mask, ...candidates }: Batch): T => {
    const hidden = model.model.forward(ids, { attentionMask: mask }).narrow(1, 0, L - 1);
    const counted = mask.narrow(1, 1, L - 1);
    return tx.distill.kdLoss(hidden, model.lmHead.weight, candidates, { mask: counted, chunk: 5, hardTop1: 0.1 }).loss;
  };
  const counted = (b: Batch): T =>
    b.mask
      .narrow(-1, 1, L - 1)
      .float()
      .sum();
  const parameters = model.parameters().filter((p) => p.requiresGrad);
  /** The mean over all positions that count, whichever micro-batch they are in. */
  const accumulated = (all: Batch): T => {
    const total = counted(all);
    return tx.accumulate(all, (b) => loss(b).mul(counted(b)).div(total), { reduction: 'sum' });
  };
  const taken = (f: () => T): T[] => {
    const result = f();
    const grads = parameters.map((p) => p.grad!);
    for (const p of parameters) p.grad = null;
    return [result, ...grads];
  };
  const whole = Object.fromEntries(Object.entries(batch).map(([k, t]) => [k, t.flatten(0, 1)])) as unknown as Batch;
  return { model, parameters, batch, whole, loss, accumulated, taken };
}
const close = async (got: readonly T[], want: readonly T[], limit = 2e-5) => {
  expect(got.length).toBe(want.length);
  for (const [i, t] of got.entries()) {
    const data = (await want[i]!.data()) as Float32Array;
    expect(Math.max(...data.map(Math.abs)), `${i}`).toBeGreaterThan(0);
    expect(relativeError(await t.data(), { data, dtype: 'f32', shape: t.shape }), `${i}`).toBeLessThan(limit);
  }
};

describe('micro-batches in a loop', () => {
  test.each([
    ['layers in a loop, computed again', { scanLayers: true, checkpoint: true }],
    ['stacked layers, written out', { scanLayers: true, unroll: 2 }],
  ])('%s: loss and gradients are those of the whole batch', async (_, options) => {
    const { batch, whole, loss, accumulated, taken } = await problem(options);
    const [got, want] = await tx.step(() => [
      taken(() => accumulated(batch)),
      taken(() => {
        const l = loss(whole);
        l.backward();
        return l;
      }),
    ]);
    await close(got!, want!);
  });

  test('tx.grad in the body of a scan, sums in its carry: the same, for those who write the loop themselves', async () => {
    const { parameters, batch, loss, taken } = await problem({ scanLayers: true, checkpoint: true });
    const zeros = { loss: tx.zeros([]), grads: parameters.map((p) => tx.zeros(p.shape)) };
    const pass = (sums: typeof zeros, b: Batch) => {
      const l = loss(b);
      const grads = tx.grad(l, parameters);
      return [{ loss: sums.loss.add(l.detach()), grads: sums.grads.map((s, i) => s.add(grads[i]!)) }, []] as const;
    };
    const [got, want] = await tx.step(() => {
      const [sums] = tx.scan(pass, zeros, batch);
      return [[sums.loss, ...sums.grads], taken(() => tx.accumulate(batch, loss, { reduction: 'sum' }))];
    });
    await close(got!, want!);
  });

  test('with dropout each micro-batch and each layer draws anew; clipping and AdamW follow in the same program', async () => {
    const { model, parameters, batch, accumulated } = await problem({ scanLayers: true, checkpoint: true }, 0.3);
    const optimizer = new tx.optim.AdamW(parameters, { lr: 3e-2 });
    await tx.sync();
    const train = tx.compile((all: Batch) => {
      const loss = accumulated(all);
      const norm = tx.optim.clipGradNorm(parameters, 1);
      optimizer.step();
      optimizer.zeroGrad();
      return { loss, norm };
    });
    const losses: number[] = [];
    for (let i = 0; i < 20; i++) losses.push(Number(await (await train(batch)).loss.item()));
    expect(losses.at(-1)).toBeLessThan(losses[0]! * 0.96);
    expect(new Set(losses).size).toBe(20);
    expect(train.programs).toBe(1);
    expect(model.model.embedTokens.weight.grad).toBeNull();
  });
});
