// Merges adapters into a student's weights and measures the error: quantizing again loses some of what they learned.

import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { checkTied, namesOf } from '../lora/adapters.js';
import { adaptersOf, type LoraLinear, mergeAndUnload } from '../lora/index.js';
import type { DecoderForCausalLM } from '../models/index.js';
import { checkFinite } from '../nn/finite.js';
import { skipInit } from '../nn/init.js';
import { Linear } from '../nn/linear.js';
import { sync } from '../step/sync.js';
import { noGrad } from '../tensor/autograd.js';
import { tensor } from '../tensor/create.js';
import { logSoftmax } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';

/** requantize: layers stay quantized, with new codes. dense: every layer with an adapter becomes a plain linear. */
export type MergeMode = 'requantize' | 'dense';
export interface MergeReport {
  /** Relative error of each merged weight, by the names of layers. */
  readonly errors: ReadonlyMap<string, number>;
  /** The change of the logits, on fixed tokens. */
  readonly logits: {
    /** The mean KL divergence over positions, in nats. */
    readonly kl: number;
    /** The share of positions whose most likely token is the same. */
    readonly sameTop: number;
  };
}

/** Merges a student's adapters into its weights. This cannot be undone. */
export async function mergeStudent(model: DecoderForCausalLM, mode: MergeMode): Promise<MergeReport> {
  const adapters = adaptersOf(model);
  if (!adapters.size) throw new ArgumentError('mergeStudent: the model has no adapters: load some with loadAdapters');
  checkTied(model, adapters);
  await checkFinite('mergeStudent', model);
  const before = await probe(model);
  const errors = new Map<string, number>();
  for (const [name, adapter] of adapters) {
    const wanted = noGrad(() => adapter.weight.detach());
    await sync(wanted);
    const merged = mode === 'dense' ? dense(adapter, model.lmHead.weight.dtype) : requantized(adapter);
    if (mode === 'dense') model.setSubmodule(name, merged.layer);
    const length = (w: Tensor) => w.float().square().sum([-2, -1]).sqrt();
    const error = noGrad(() => length(merged.weight().float().sub(wanted.float())).div(length(wanted))).reshape([-1]);
    await sync(error, ...merged.layer.parameters(), ...merged.layer.buffers());
    const each = (await error.tolist()) as number[];
    for (const [i, of] of namesOf(model, name).entries()) errors.set(of, each[i]!);
  }
  if (mode === 'requantize') mergeAndUnload(model);
  const after = await probe(model);
  const kl = before.exp().mul(before.sub(after)).sum(-1).mean();
  const same = before.argmax(-1).eq(after.argmax(-1)).float().mean();
  const [lost, sameTop] = await Promise.all([kl.item(), same.item()]);
  return { errors, logits: { kl: Math.max(0, lost), sameTop } };
}

const TOKENS = 64;
/** Log-probabilities on a fixed sequence of tokens, [tokens, V]. */
async function probe(model: DecoderForCausalLM): Promise<Tensor> {
  const { vocabSize, maxPositionEmbeddings } = model.config;
  const T = Math.min(TOKENS, maxPositionEmbeddings);
  const ids = Int32Array.from({ length: T }, (_, i) => (1 + i * 7919) % vocabSize);
  const found = noGrad(() =>
    logSoftmax(
      model
        .forward(tensor(ids, { shape: [1, T] }))
        .select(0, 0)
        .float(),
      -1,
    ),
  );
  await sync(found);
  return found;
}

interface Merged {
  readonly layer: LoraLinear['baseLayer'];
  weight(): Tensor;
}
function requantized(adapter: LoraLinear): Merged {
  adapter.merge();
  const { baseLayer: layer } = adapter;
  return { layer, weight: () => layer.effectiveWeight?.() ?? layer.weight! };
}
function dense(adapter: LoraLinear, dtype: DType): Merged {
  const { inFeatures, outFeatures, baseLayer } = adapter;
  const layer = skipInit(() => new Linear(inFeatures, outFeatures, { bias: false }));
  layer.weight.become(noGrad(() => adapter.weight.detach().to(dtype)).expr);
  Object.assign(layer, { bias: 'bias' in baseLayer ? baseLayer.bias : null });
  return { layer: layer.train(adapter.training), weight: () => layer.weight };
}
