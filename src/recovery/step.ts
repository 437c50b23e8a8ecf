// One step of the optimizer, as one program: the gradients of all micro-batches in a loop, their norm, the update. Of several
// workers that XLA does not join it is two programs, between which gradients meet.
import { insideModule } from '../ir/source.js';
import type { Qwen3ForCausalLM } from '../models/index.js';
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
type CompiledStep = Compiled<[Batch, Schedule], StepResult>;
export type Step = Pick<CompiledStep, 'prepare'> & ((...args: Parameters<CompiledStep>) => Promise<StepResult>);

export function recoveryStep(parts: StepParts): CompiledStep {
  const { backward, update } = passesOf(parts);
  return compile(function train(batch: Batch, now: Schedule) {
    const loss = backward(batch, now, counted(batch).clamp({ min: 1 }));
    return { loss, gradNorm: update() };
  });
}

/** The same of workers with a share of the sequences each: what a share counts depends on what all of them have. */
export function sharedStep(parts: StepParts): Step {
  const { parameters, backward, update } = passesOf(parts);
  const count = compile(counted);
  const gradients = compile(function gradients(batch: Batch, now: Schedule, positions: Tensor) {
    return backward(batch, now, positions);
  });
  const mean = async (x: Tensor): Promise<number> => {
    const value = Number(await offLoop(() => x.item()));
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

/** What one step is made of. `positions`: how many count in all, or in the mean share. */
function passesOf({ model, optimizer, lesson, anchor, settings }: StepParts) {
  const { accumulationSteps: A, gradClip, mixedPrecision, anchorInterval } = settings;
  const parameters = model.parameters().filter((p) => p.requiresGrad);
  return {
    parameters,
    backward: (batch: Batch, now: Schedule, positions: Tensor): Tensor =>
      insideModule(model, () => {
        // Each batch's mean, weighed by how many of all positions it has: the mean of the step, and its gradient.
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
      optimizer.zeroGrad(); // at the end: gradients are then no results of the step
      return gradNorm;
    },
  };
}

const counted = (batch: Batch): Tensor => targetMask(batch).float().sum();
/** [A B, ...] to [A, B, ...] */
const inParts = (batch: Batch, A: number): Batch =>
  Object.fromEntries(Object.entries(batch).map(([name, x]) => [name, microBatches(x, A)])) as Batch;
