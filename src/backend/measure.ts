// Measures a model on sample inputs: outputs, time, memory and compile time. The model is unchanged afterwards: gradients,
// running statistics, random state and training flags.
import { isFloat } from '../base/promote.js';
import { undoing } from '../ir/scope.js';
import type { Module } from '../nn/module.js';
import { programBytes } from '../runtime/memory.js';
import { type Compiled, compile, type StepOptions } from '../step/step.js';
import { compute, sync } from '../step/sync.js';
import { grad, noGrad } from '../tensor/autograd.js';
import { stack, where } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Purpose, weightsOf } from './changes.js';
import { type Forward, tensorsIn } from './forward.js';

export interface Metrics {
  /** The median time of one forward pass, or of a loss and its gradients, in seconds. */
  readonly stepTime: number;
  /** Memory of the program on one device, in bytes: arguments, results and temporaries. */
  readonly memory: number;
  /** Compile time in seconds. */
  readonly compileTime: number;
  /** Bytes of parameters and buffers. */
  readonly weights: number;
}

/** Arguments of forward. */
export interface Sample {
  readonly tensors: readonly Tensor[];
  /** Calls forward on them; returns all tensors in its result. */
  readonly run: (model: Module, tensors: readonly Tensor[]) => Tensor[];
  /** How its programs are compiled. */
  readonly options: StepOptions;
}
/** From a tensor, or a list of forward's arguments; undefined if there is no tensor among them. */
export function sampleOf(given: unknown, options: StepOptions = {}): Sample | undefined {
  const { tensors, replaced } = tensorsIn<unknown[]>(Array.isArray(given) ? given : [given]);
  if (!tensors.length) return undefined;
  return {
    tensors,
    options,
    run: (model, tensors) => tensorsIn((model.forward as Forward)(...replaced(tensors))).tensors,
  };
}

type Step = Compiled<Tensor[], Tensor[]>;
const stepOf = (name: string, { options }: Sample, describe: (tensors: Tensor[]) => Tensor[]): Step =>
  compile((...tensors: Tensor[]) => undoing(() => describe(tensors)), { ...options, name });

const inference = (model: Module, sample: Sample): Step =>
  stepOf('optimizer_forward', sample, (tensors) => sample.run(model, tensors).map((t) => t.detach()));

/** A training step, with the mean square of all results as its loss. */
const training = (model: Module, sample: Sample): Step =>
  stepOf('optimizer_step', sample, (tensors) => {
    const floats = sample.run(model, tensors).filter((t) => isFloat(t.dtype));
    const loss = floats.map((t) => t.float().square().mean()).reduce((a, b) => a.add(b));
    const trained = model.parameters().filter((p) => p.requiresGrad);
    if (!loss.requiresGrad || !trained.length) return [loss];
    return [loss, ...grad(loss, trained, { allowUnused: true }).filter((g) => g !== null)];
  });

/** Runs fn with the model in training or eval mode. */
function inMode<T>(model: Module, on: boolean, fn: () => T): T {
  const flags = model.modules().map((m) => ({ m, was: m.training, size: m.modules().length }));
  model.train(on);
  try {
    return fn();
  } finally {
    // train() also sets all submodules: restore the outer modules first.
    for (const { m, was } of flags.sort((a, b) => b.size - a.size)) m.train(was);
  }
}
/** Calls fn in the mode for a purpose. */
const describing = <T>(model: Module, purpose: Purpose, fn: () => T): T =>
  inMode(model, purpose === 'training', () => (purpose === 'training' ? fn() : noGrad(fn)));

/** The model's outputs in eval mode. */
export function outputsOf(model: Module, sample: Sample): Promise<Tensor[]> {
  return describing(model, 'inference', () => inference(model, sample)(...sample.tensors));
}

/** Throws if a loss of the model and its gradients cannot be traced. */
export function checkTrains(model: Module, sample: Sample): void {
  describing(model, 'training', () => training(model, sample).lower([...sample.tensors]));
}

export interface Measured extends Metrics {
  /** The program's hash. */
  readonly hash: string;
}
export async function measure(model: Module, sample: Sample, purpose: Purpose, runs: number): Promise<Measured> {
  const step = (purpose === 'training' ? training : inference)(model, sample);
  const { tensors } = sample;
  const { preparing } = describing(model, purpose, () => ({ preparing: step.prepare([...tensors]) }));
  const { hash, seconds, memory } = await preparing;
  const times: number[] = [];
  for (let i = 0; i <= runs; i++) {
    const { start, done } = describing(model, purpose, () => ({ start: performance.now(), done: step(...tensors) }));
    const results = await done;
    await sync({ wait: true });
    if (i) times.push((performance.now() - start) / 1000); // the first run moves inputs to the device
    for (const t of results) t.dispose();
  }
  return {
    stepTime: times.sort((a, b) => a - b)[Math.floor(times.length / 2)]!,
    memory: programBytes(memory),
    compileTime: seconds,
    weights: weightsOf(model),
    hash,
  };
}

export interface Difference {
  readonly maxAbsoluteError: number;
  /** The norm of the difference divided by the norm before, for the result where it is largest. */
  readonly relativeError: number;
}
/** The difference between results. Infinite if their types differ, or if finite numbers became NaN or infinite. */
export async function differenceOf(before: readonly Tensor[], after: readonly Tensor[]): Promise<Difference> {
  const form = (list: readonly Tensor[]) => list.map((t) => `${t.aval}`).join();
  if (form(before) !== form(after)) return { maxAbsoluteError: Infinity, relativeError: Infinity };
  const rows = before.flatMap((was, i) => (was.numel() ? [rowOf(was.to('f64'), after[i]!.to('f64'))] : []));
  if (!rows.length) return { maxAbsoluteError: 0, relativeError: 0 };
  const all = stack(rows);
  await compute('optimizer_difference', all);
  const numbers = (await all.tolist()) as [number, number, number, number][];
  const relative = numbers.map(([difference, norm, , lost]) =>
    lost ? Infinity : difference ? Math.sqrt(difference / norm) : 0,
  );
  return {
    maxAbsoluteError: Math.max(...numbers.map(([, , largest, lost]) => (lost ? Infinity : largest))),
    relativeError: Math.max(...relative),
  };
}
/** Sums of squares of the difference and of the old values, the largest difference, and whether finite numbers were lost. */
function rowOf(was: Tensor, now: Tensor): Tensor {
  const [known, kept] = [was.isfinite(), now.isfinite()];
  const difference = where(known.logicalAnd(kept), now.sub(was), 0);
  return stack([
    difference.square().sum(),
    where(known, was, 0).square().sum(),
    difference.abs().amax(),
    known.logicalAnd(kept.logicalNot()).any().to('f64'),
  ]);
}
