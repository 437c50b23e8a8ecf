// One optimizer step as one program: the gradients of all micro-batches in a loop, their norm, the update. For several workers that
// XLA does not join, the update is a separate program after gradients were averaged.
import { insideModule } from '../ir/source.js';
import type { DecoderForCausalLM } from '../models/index.js';
import { offLoop } from '../observe/rules-loop.js';
import { clipGradNorm, type Optimizer } from '../optim/index.js';
import { microBatches } from '../spmd/sharding.js';
import { accumulate } from '../step/accumulate.js';
import { type Compiled, compile, step } from '../step/step.js';
import { autocast } from '../tensor/autocast.js';
import { cond } from '../tensor/control.js';
import { tensor, zeros } from '../tensor/create.js';
import type { Tensor } from '../tensor/tensor.js';
import { averageGradients, averageMetrics } from '../train/index.js';
import { type Anchor, distanceFrom } from './anchor.js';
import { type Batch, type Lesson, targetMask } from './lessons.js';
import type { Settings } from './options.js';
import type { Schedule } from './schedule.js';

interface StepParts {
  readonly model: DecoderForCausalLM;
  readonly optimizer: Pick<Optimizer, 'step' | 'zeroGrad'>;
  readonly lesson: Pick<Lesson, 'loss'>;
  readonly anchor?: Anchor | undefined;
  readonly settings: Pick<Settings, 'accumulationSteps' | 'gradClip' | 'mixedPrecision' | 'anchorInterval'>;
}
export interface StepResult {
  /** The mean over all predicted positions of the step. */
  readonly loss: Tensor;
  /** The norm of all gradients before clipping. */
  readonly gradNorm: Tensor;
}
/** The input is accumulationSteps batches as one, [A B, ...]. */
type CompiledStep = Compiled<[Batch, Schedule], StepResult>;
export type Step = Pick<CompiledStep, 'prepare'> & ((...args: Parameters<CompiledStep>) => Promise<StepResult>);

export function recoveryStep(parts: StepParts): CompiledStep {
  const { backward, update } = passesOf(parts);
  return compile(
    function train(batch: Batch, now: Schedule) {
      const loss = backward(batch, now, counted(batch).clamp({ min: 1 }));
      return { loss, gradNorm: update() };
    },
    { check: false },
  );
}

/** The step of one of several workers. Its part of the loss is weighted by the number of predicted positions of all workers. */
export function sharedStep(parts: StepParts): Step {
  const { parameters, backward, update } = passesOf(parts);
  const count = compile(counted, { check: false });
  const gradients = compile(
    function gradients(batch: Batch, now: Schedule, positions: Tensor) {
      return backward(batch, now, positions);
    },
    { check: false },
  );
  const mean = async (x: Tensor): Promise<number> => {
    const value = await offLoop(() => x.item());
    return (await averageMetrics({ value })).value;
  };
  const run = async (...[batch, now]: Parameters<Step>): Promise<StepResult> => {
    const share = await gradients(batch, now, (await mean(await count(batch as Batch))) || 1);
    await averageGradients(parameters);
    const gradNorm = await step(update);
    return { loss: tensor(await mean(share)), gradNorm };
  };
  return Object.assign(run, { prepare: ([batch, now]: Parameters<Step>) => gradients.prepare([batch, now, 1]) });
}

/** The parts of a step. `positions`: the number of predicted positions in all, or in the mean share. */
function passesOf({ model, optimizer, lesson, anchor, settings }: StepParts) {
  const { accumulationSteps: A, gradClip, mixedPrecision, anchorInterval } = settings;
  const parameters = model.parameters().filter((p) => p.requiresGrad);
  return {
    parameters,
    backward: (batch: Batch, now: Schedule, positions: Tensor): Tensor =>
      insideModule(model, () => {
        // Each batch's mean, weighted by its part of all positions: the sum is the mean of the step.
        const part = (b: Batch) =>
          autocast({ dtype: 'bf16', enabled: mixedPrecision }, () => lesson.loss(model, b, now)).mul(
            counted(b).div(positions),
          );
        const loss = A === 1 ? part(batch) : accumulate(inParts(batch, A), part, { reduction: 'sum' });
        if (A === 1) loss.backward();
        if (anchor) {
          const far = () => distanceFrom(anchor, now.anchor, model).mul(now.anchorWeight);
          (anchorInterval === 1 ? far() : cond(now.anchorWeight.gt(0), far, () => zeros([]))).backward();
        }
        return loss.detach();
      }),
    update(): Tensor {
      const gradNorm = clipGradNorm(parameters, gradClip || Number.POSITIVE_INFINITY);
      optimizer.step();
      optimizer.zeroGrad(); // at the end, so that gradients are not results of the program
      return gradNorm;
    },
  };
}

const counted = (batch: Batch): Tensor => targetMask(batch).float().sum();
/** [A B, ...] to [A, B, ...] */
const inParts = (batch: Batch, A: number): Batch =>
  Object.fromEntries(Object.entries(batch).map(([name, x]) => [name, microBatches(x, A)])) as Batch;
