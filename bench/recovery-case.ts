// The step of the main job at full size: a quantized Qwen3-0.6B with adapters learns from a teacher's cached logits.
// Micro-batches are a loop, and the layers one inside it; nothing is computed here, and no weight is made.
//   A micro-batches of B sequences of L tokens, K + R candidates of each position
import * as tx from 'tsxla';
import { type AheadOfTime, compileAhead } from 'tsxla/plan';
import { positionsOf } from '../dist/recovery/lessons.js';
import { recoveryStep } from '../dist/recovery/step.js';

const { ATTENTION, FactoredLinear, MLP, PackedLinear, PRESETS } = tx.quant;

/**
 * What the base weights are. materialized: bf16, computed once from codes and scales. packed: 2 and 4 bits, unpacked in every
 * pass. trained: codes, whose scales' magnitudes are learned beside the adapters.
 */
export type Base = 'materialized' | 'packed' | 'trained';
export interface Row {
  readonly rank: number;
  readonly batch: number;
  readonly accumulation: number;
  readonly base?: Base;
  readonly compute?: 'gather' | 'dense';
}
/** Spec 000's memory guide for a v6e, whose figures were 22, 24 and 28 GB. */
export const ROWS: readonly Row[] = [
  { rank: 8, batch: 4, accumulation: 8 },
  { rank: 16, batch: 4, accumulation: 8 },
  { rank: 8, batch: 8, accumulation: 4 },
];

function quantize(model: tx.nn.Module, base: Base): void {
  const { mlp, attention } = PRESETS.q2a4;
  for (const [name, linear] of [...model.namedModules()]) {
    const preset = MLP.test(name) ? mlp : ATTENTION.test(name) ? attention : undefined;
    if (!preset) continue;
    const layer = new FactoredLinear(linear as tx.nn.Linear, { lutSize: preset[0], scaleRank: preset[1] });
    model.setSubmodule(name, base === 'packed' ? PackedLinear.of(layer, 'f16') : layer);
    if (base === 'materialized') layer.materialize('bf16');
  }
}

export function recoveryProgram(row: Row, platform: 'cpu' | 'cuda' | 'tpu'): string {
  const { rank, batch, accumulation: accumulationSteps, base = 'materialized', compute = 'gather' } = row;
  const [N, L, K, R] = [accumulationSteps * batch, 1024, 128, 64];
  const model = new tx.models.Qwen3ForCausalLM(tx.models.QWEN3['0.6B'], { scanLayers: true, checkpoint: true });
  model.to('bf16');
  quantize(model, base);
  tx.lora.addLora(model, { rank });
  if (base === 'trained')
    for (const [, layer] of tx.quant.quantLinears(model))
      if (layer instanceof FactoredLinear) layer.rankMagnitude.requiresGrad_();
  const trained = model.parameters().filter((p) => p.requiresGrad);
  const train = recoveryStep({
    model,
    optimizer: new tx.optim.AdamW(trained, { lr: 8e-5 }),
    settings: { accumulationSteps, gradClip: 1, mixedPrecision: false, anchorInterval: 1 },
    lesson: {
      loss({ lmHead }, { inputIds, lossMask, ...candidates }, { hardTop1 }) {
        const hidden = positionsOf(model, inputIds);
        const mask = lossMask.narrow(1, 1, L - 1);
        const options = { mask, hardTop1, compute };
        return tx.distill.kdLoss(hidden, lmHead.weight, candidates as unknown as tx.distill.KdCandidates, options).loss;
      },
    },
  });
  const ids = (...shape: number[]) => tx.zeros([N, ...shape], { dtype: 'i32' });
  const logits = (k: number) => tx.zeros([N, L - 1, k], { dtype: 'f16' });
  const teacher = { topkIdx: ids(L - 1, K), topkLogits: logits(K), randIdx: ids(L - 1, R), randLogits: logits(R) };
  const lossMask = tx.zeros([N, L], { dtype: 'u8' });
  const now = { hardTop1: 0.02, anchor: 0, anchorWeight: 0 };
  return train.stablehlo([{ inputIds: ids(L), lossMask, ...teacher }, now], { platform });
}

export const planRecovery = (row: Row): Promise<AheadOfTime> =>
  compileAhead(recoveryProgram(row, 'tpu'), { topology: 'v6e:1x1', timeoutSeconds: 900 });
