// One step of the optimizer, as one program: the gradients of all micro-batches in a loop, their norm, the update.
import type { Qwen3ForCausalLM } from '../models/index.js';
import { clipGradNorm, type Optimizer } from '../optim/index.js';
import { microBatches } from '../spmd/sharding.js';
import { accumulate } from '../tensor/accumulate.js';
import { autocast } from '../tensor/autocast.js';
import { cond } from '../tensor/control.js';
import { zeros } from '../tensor/create.js';
import { type Compiled, compile } from '../tensor/step.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Anchor, distanceFrom } from './anchor.js';
import { type Batch, foreseen, type Lesson } from './lessons.js';
import type { Settings } from './options.js';
import type { Schedule } from './schedule.js';

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
  Object.fromEntries(Object.entries(batch).map(([name, x]) => [name, microBatches(x, A)])) as Batch;
