// One step of the optimizer, as one program: the gradients of all micro-batches in a loop, their norm, the update.
import { anchorLoss, annealed } from '../distill/index.js';
import { disableAdapter } from '../lora/index.js';
import type { Qwen3ForCausalLM } from '../models/index.js';
import { clipGradNorm, type Optimizer } from '../optim/index.js';
import { accumulate } from '../tensor/accumulate.js';
import { autocast } from '../tensor/autocast.js';
import { noGrad } from '../tensor/autograd.js';
import { cond } from '../tensor/control.js';
import { zeros } from '../tensor/create.js';
import { cat } from '../tensor/functions.js';
import { type Compiled, compile } from '../tensor/step.js';
import { compute } from '../tensor/sync.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Batch, foreseen, type Lesson, positionsOf, type Weights } from './lessons.js';
import type { Settings } from './options.js';

/** What changes from step to step. */
export interface Schedule extends Weights {
  /** Which of the anchor's sequences is looked at. */
  readonly anchor: Tensor;
  /** 0 in steps that leave it out. */
  readonly anchorWeight: Tensor;
}
type Numbers = { readonly [K in keyof Schedule]: number };
/** Of step n, counted from 0. */
export function scheduleAt(n: number, s: Settings, anchors: number): Numbers {
  return {
    hardTop1: annealed(s.hardTop1, s.hardTop1End ?? s.hardTop1, n, s.maxSteps),
    anchor: anchors ? Math.floor(n / s.anchorInterval) % anchors : 0,
    anchorWeight: n % s.anchorInterval ? 0 : s.anchorKlWeight,
  };
}

/** Sequences, and what the student without adapters makes of them: [N, L], [N, L], [N, S, D]; its head, where that is trained. */
export interface Anchor {
  readonly inputIds: Tensor;
  readonly lossMask: Tensor;
  readonly hidden: Tensor;
  readonly head?: Tensor;
}

/** Room for the anchor: the step can be compiled before there is one. */
export function emptyAnchor({ config, lmHead }: Qwen3ForCausalLM, N: number, L: number): Anchor {
  return {
    inputIds: zeros([N, L], { dtype: 'i32' }),
    lossMask: zeros([N, L], { dtype: 'u8' }),
    hidden: zeros([N, L - 1, config.hiddenSize], { dtype: lmHead.weight.dtype }),
    ...(lmHead.weight.requiresGrad && { head: zeros(lmHead.weight.shape, { dtype: lmHead.weight.dtype }) }),
  };
}
/** Takes these sequences, [1, L] each, for it. */
export async function fillAnchor(anchor: Anchor, model: Qwen3ForCausalLM, sequences: readonly Batch[]): Promise<void> {
  const forward = compile(function anchor(inputIds: Tensor) {
    return noGrad(() => disableAdapter(model, () => positionsOf(model, inputIds)));
  });
  const hidden: Tensor[] = [];
  for (const { inputIds } of sequences) hidden.push(await forward(inputIds));
  anchor.inputIds.become(cat(sequences.map((b) => b.inputIds)).expr);
  anchor.lossMask.become(cat(sequences.map((b) => b.lossMask)).expr);
  anchor.hidden.become(cat(hidden).expr);
  anchor.head?.become(model.lmHead.weight.detach().expr);
  await compute('anchor', ...Object.values(anchor));
}

export interface StepParts {
  readonly model: Qwen3ForCausalLM;
  readonly optimizer: Pick<Optimizer, 'step' | 'zeroGrad'>;
  readonly lesson: Pick<Lesson, 'loss'>;
  readonly anchor?: Anchor | undefined;
  readonly settings: Pick<Settings, 'accumulationSteps' | 'gradClip' | 'mixedPrecision' | 'anchorInterval'>;
}
export interface StepResult {
  /** The mean over all positions of the step that count, whatever batch they are in. */
  readonly loss: Tensor;
  /** Of all gradients, before they are clipped. */
  readonly gradNorm: Tensor;
}

/** Takes accumulationSteps batches as one, [A B, ...]. */
export function recoveryStep({
  model,
  optimizer,
  lesson,
  anchor,
  settings,
}: StepParts): Compiled<[Batch, Schedule], StepResult> {
  const { accumulationSteps: A, gradClip, mixedPrecision, anchorInterval } = settings;
  const parameters = model.parameters().filter((p) => p.requiresGrad);
  return compile(function train(batch: Batch, now: Schedule) {
    const all = counted(batch);
    // Each batch's mean, weighed by how many of all positions it has: the mean of the step, and its gradient.
    const part = (b: Batch) =>
      autocast({ dtype: 'bf16', enabled: mixedPrecision }, () => lesson.loss(model, b, now)).mul(counted(b).div(all));
    const loss = A === 1 ? part(batch) : accumulate(inParts(batch, A), part, { reduction: 'sum' });
    if (A === 1) loss.backward();
    if (anchor) {
      const far = () => distanceFrom(anchor, now.anchor, model).mul(now.anchorWeight);
      (anchorInterval === 1 ? far() : cond(now.anchorWeight.gt(0), far, () => zeros([]))).backward();
    }
    const gradNorm = clipGradNorm(parameters, gradClip || Number.POSITIVE_INFINITY);
    optimizer.step();
    optimizer.zeroGrad(); // at the end: gradients are then no results of the step
    return { loss: loss.detach(), gradNorm };
  });
}

const counted = (batch: Batch): Tensor => foreseen(batch).float().sum().clamp({ min: 1 });
/** [A B, ...] to [A, B, ...] */
const inParts = (batch: Batch, A: number): Batch =>
  Object.fromEntries(
    Object.entries(batch).map(([name, x]) => [name, x.reshape([A, -1, ...x.shape.slice(1)])]),
  ) as Batch;

function distanceFrom({ inputIds, lossMask, hidden, ...head }: Anchor, which: Tensor, model: Qwen3ForCausalLM): Tensor {
  const at = which.to('i32').reshape([1]);
  const row = (x: Tensor) => x.indexSelect(0, at);
  const mask = foreseen({ lossMask: row(lossMask) });
  return anchorLoss(positionsOf(model, row(inputIds)), model.lmHead.weight, { hidden: row(hidden), ...head }, { mask });
}
