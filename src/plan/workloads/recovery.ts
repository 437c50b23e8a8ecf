// The step of recovery LoRA: a quantized model with adapters learns from a teacher's cached logits. Micro-batches are a loop, with
// the layers as a loop inside it. Nothing is computed here, and no weights are created.
//   A micro-batches of B sequences of L tokens, K + R candidates of each position
import { type KdCandidates, kdLoss } from '../../distill/index.js';
import { addLora } from '../../lora/index.js';
import { CHECKPOINT, createModel, type DecoderConfig } from '../../models/index.js';
import type { Module } from '../../nn/module.js';
import { AdamW } from '../../optim/index.js';
import type { DeviceType } from '../../plugins/index.js';
import { FactoredLinear, PackedLinear, presetRules, quantLinears } from '../../quant/index.js';
import { linearsFor } from '../../quant/model.js';
import { quantLinear } from '../../quant/rules.js';
import { positionsOf, targetMask } from '../../recovery/lessons.js';
import { recoveryStep } from '../../recovery/step.js';
import { batchFor } from '../../spmd/index.js';
import type { Lowered } from '../../step/step.js';
import { zeros } from '../../tensor/create.js';
import { sharesOf, spread } from './parallel.js';
import { namesOf, type WorkloadSettings } from './workload.js';

/**
 * The form of the base weights. materialized: bf16, dequantized once. packed: 2 and 4 bits, unpacked in every pass. trained: codes,
 * with magnitudes of scales that are trained with the adapters.
 */
export type Base = 'materialized' | 'packed' | 'trained';

export interface RecoverySettings extends Omit<WorkloadSettings, 'newTokens'> {
  readonly base?: Base;
  readonly compute?: 'gather' | 'dense';
  readonly platform?: DeviceType;
}

const [K, R] = [128, 64]; // the defaults of tsxla kd-cache

function quantize(model: Module, base: Base, dtype: WorkloadSettings['dtype']): void {
  for (const [name, [linear, { targets: _, ...options }]] of linearsFor(model, presetRules('q2a4'))) {
    const layer = quantLinear(linear, options) as FactoredLinear;
    model.setSubmodule(name, base === 'packed' ? PackedLinear.of(layer, 'f16') : layer);
    if (base === 'materialized') layer.materialize(dtype);
  }
}

export function recoveryProgram(config: DecoderConfig, settings: RecoverySettings): Lowered {
  const { rank, batch, seq: L, accumulation: accumulationSteps, remat, dtype, mesh: sizes } = settings;
  const { base = 'materialized', compute = 'gather', platform = 'tpu' } = settings;
  const N = accumulationSteps * batch * sharesOf(sizes);
  const model = createModel(config, { scanLayers: true, checkpoint: CHECKPOINT[remat] });
  model.to(dtype);
  quantize(model, base, dtype);
  addLora(model, { rank });
  if (base === 'trained')
    for (const [, layer] of quantLinears(model))
      if (layer instanceof FactoredLinear) layer.rankMagnitude.requiresGrad_();
  spread(model, sizes);
  const trained = [...model.namedParameters()].filter(([, p]) => p.requiresGrad);
  const optimizer = new AdamW(trained, { lr: 8e-5 });
  const train = recoveryStep({
    model,
    optimizer,
    settings: { accumulationSteps, gradClip: 1, mixedPrecision: false, anchorInterval: 1 },
    lesson: {
      loss({ lmHead }, { inputIds, lossMask, ...candidates }, { hardTop1 }) {
        const options = { mask: targetMask({ lossMask }), hardTop1, compute, softcap: model.logitsSoftcap };
        const hidden = positionsOf(model, inputIds);
        return kdLoss(hidden, lmHead.weight, candidates as unknown as KdCandidates, options).loss;
      },
    },
  });
  const ids = (...shape: number[]) => zeros([N, ...shape], { dtype: 'i32' });
  const logits = (k: number) => zeros([N, L - 1, k], { dtype: 'f16' });
  const teacher = { topkIdx: ids(L - 1, K), topkLogits: logits(K), randIdx: ids(L - 1, R), randLogits: logits(R) };
  const lossMask = zeros([N, L], { dtype: 'u8' });
  const now = { hardTop1: 0.02, anchor: 0, anchorWeight: 0 };
  const names = namesOf(model, optimizer);
  const lessons = batchFor(model, { inputIds: ids(L), lossMask, ...teacher });
  return train.lower([lessons, now], { platform, names, locations: true });
}
