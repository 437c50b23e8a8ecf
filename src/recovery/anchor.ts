// The anchor: sequences on which a loss keeps the student close to itself without adapters (--anchor-kl-weight).
import { ArgumentError } from '../base/errors.js';
import { anchorLoss } from '../distill/index.js';
import { disableAdapter } from '../lora/index.js';
import type { DecoderForCausalLM } from '../models/index.js';
import { compile, ofLibrary } from '../step/step.js';
import { compute } from '../step/sync.js';
import { noGrad } from '../tensor/autograd.js';
import { zeros } from '../tensor/create.js';
import { cat } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Batch, batchesOf, type Lesson, positionsOf, targetMask } from './lessons.js';

/** Sequences [N, L], masks [N, L], hidden states of the student without adapters [N, S, D], and its head if that is trained. */
export interface Anchor {
  readonly inputIds: Tensor;
  readonly lossMask: Tensor;
  readonly hidden: Tensor;
  readonly head?: Tensor;
}

/** An anchor of zeros for N sequences of L tokens, so that the step can be compiled before data is read. */
export function emptyAnchor({ config, lmHead }: DecoderForCausalLM, N: number, L: number): Anchor {
  const { dtype, shape, requiresGrad } = lmHead.weight;
  return {
    inputIds: zeros([N, L], { dtype: 'i32' }),
    lossMask: zeros([N, L], { dtype: 'u8' }),
    hidden: zeros([N, L - 1, config.hiddenSize], { dtype }),
    ...(requiresGrad && { head: zeros(shape, { dtype }) }),
  };
}

/** Fills the anchor with the first sequences of the lesson. */
export async function fillAnchor(anchor: Anchor, model: DecoderForCausalLM, lesson: Lesson): Promise<void> {
  const sequences = await firstOf(lesson, anchor.inputIds.size(0));
  const forward = compile(
    ofLibrary(function anchor(inputIds: Tensor) {
      return noGrad(() => disableAdapter(model, () => positionsOf(model, inputIds)));
    }),
    { check: false },
  );
  const hidden: Tensor[] = [];
  for (const { inputIds } of sequences) hidden.push(await forward(inputIds));
  anchor.inputIds.become(cat(sequences.map((b) => b.inputIds)).expr);
  anchor.lossMask.become(cat(sequences.map((b) => b.lossMask)).expr);
  anchor.hidden.become(cat(hidden).expr);
  anchor.head?.become(model.lmHead.weight.detach().expr);
  await compute('anchor', ...Object.values(anchor));
}
async function firstOf(lesson: Lesson, n: number): Promise<Batch[]> {
  const found: Batch[] = [];
  for await (const batch of batchesOf(lesson, { batchSize: 1 })) {
    found.push(batch);
    if (found.length === n) return found;
  }
  throw new ArgumentError(`--anchor-samples is ${n}, but the data has ${found.length} sequences: use fewer`);
}

/** The KL divergence of the student from itself without adapters, on one sequence of the anchor. */
export function distanceFrom(anchor: Anchor, which: Tensor, model: DecoderForCausalLM): Tensor {
  const { inputIds, lossMask, hidden, ...head } = anchor;
  const at = which.to('i32').reshape([1]);
  const row = (x: Tensor) => x.indexSelect(0, at);
  const mask = targetMask({ lossMask: row(lossMask) });
  return anchorLoss(
    positionsOf(model, row(inputIds)),
    model.lmHead.weight,
    { hidden: row(hidden), ...head },
    { mask, softcap: model.logitsSoftcap },
  );
}
