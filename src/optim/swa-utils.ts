// torch.optim.swa_utils: averages of whole models (AveragedModel, updateBn).
import { ArgumentError, ShapeError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { isComplex, isFloat } from '../base/promote.js';
import { sameShape } from '../base/shape.js';
import { describe, shown } from '../base/tree.js';
import { entry } from '../ir/source.js';
import { Buffer, Module } from '../nn/module.js';
import { BatchNorm1d, BatchNorm2d, BatchNorm3d } from '../nn/norm.js';
import { convert } from '../ops/prim/move.js';
import { eq, where } from '../ops/prim/pointwise.js';
import { sync } from '../step/sync.js';
import { noGrad } from '../tensor/autograd.js';
import { tensor } from '../tensor/create.js';
import { Tensor } from '../tensor/tensor.js';

export { SWALR, type SWALROptions } from './schedules-composed.js';

/** Returns the next average, given the average, the model's tensor, and the number of averaged models. */
export type AvgFn = (averaged: Tensor, current: Tensor, numAveraged: Tensor) => Tensor;
/** The same for a list of tensors of one dtype: changes the averages in place. */
export type MultiAvgFn = (averaged: readonly Tensor[], current: readonly Tensor[], numAveraged: Tensor) => void;

function checkDecay(name: string, decay: number): void {
  if (!(typeof decay === 'number' && decay >= 0 && decay <= 1))
    throw new ArgumentError(`${name}: decay is ${shown(decay)}: it must be from 0 to 1`);
}
/** The exponential average: decay * average + (1 - decay) * model. */
export function getEmaAvgFn(decay = 0.999): AvgFn {
  checkDecay('getEmaAvgFn', decay);
  return (averaged, current) => averaged.mul(decay).add(current.mul(1 - decay));
}
/** The mean of all models. */
export function getSwaAvgFn(): AvgFn {
  return (averaged, current, n) => averaged.add(current.sub(averaged).div(n.add(1)));
}
const inPlace =
  (fn: AvgFn): MultiAvgFn =>
  (averaged, current, n) =>
    averaged.forEach((a, i) => {
      a.copy_(fn(a, current[i]!, n));
    });
const canLerp = ({ dtype }: Tensor): boolean => isFloat(dtype) || isComplex(dtype);
/** getEmaAvgFn for several tensors. */
export function getEmaMultiAvgFn(decay = 0.999): MultiAvgFn {
  checkDecay('getEmaMultiAvgFn', decay);
  const others = getEmaAvgFn(decay);
  return inPlace((a, current, n) => (canLerp(a) ? a.lerp(current, 1 - decay) : others(a, current, n)));
}
/** getSwaAvgFn for several tensors. */
export const getSwaMultiAvgFn = (): MultiAvgFn => inPlace(getSwaAvgFn());

export interface AveragedModelOptions {
  /** The average of one tensor. Default: the mean of all models. */
  readonly avgFn?: AvgFn | null;
  /** The average of several tensors, instead of avgFn. */
  readonly multiAvgFn?: MultiAvgFn | null;
  /** Whether to average buffers too; otherwise they are copied from the model. Default: false. */
  readonly useBuffers?: boolean;
}
/**
 * A copy of a model with averaged parameters. Call updateParameters(model) after optimizer.step(), in a plain loop or inside a
 * compiled function. The first update copies. A state dict has torch's names: n_averaged, module.*.
 */
export class AveragedModel<M extends Module = Module> extends Module {
  readonly nAveraged: Buffer;
  readonly module: M;
  readonly avgFn: AvgFn | null;
  readonly multiAvgFn: MultiAvgFn | null;
  readonly useBuffers: boolean;
  constructor(model: M, options: AveragedModelOptions = {}) {
    super();
    if (!(model instanceof Module))
      throw new ArgumentError(`AveragedModel: the model is ${describe(model)}: it must be an nn.Module`);
    checkOptions('AveragedModel', ['avgFn', 'multiAvgFn', 'useBuffers'], options);
    const { avgFn = null, multiAvgFn = null, useBuffers = false } = options;
    if (avgFn && multiAvgFn) throw new ArgumentError('AveragedModel: avgFn and multiAvgFn are both given: pass one');
    this.nAveraged = new Buffer(tensor(0, { dtype: 'i64' }));
    this.module = model.clone();
    this.avgFn = avgFn;
    this.multiAvgFn = multiAvgFn;
    this.useBuffers = useBuffers;
  }
  override forward(...args: Parameters<M['forward']>): ReturnType<M['forward']> {
    return this.module.forward(...args) as ReturnType<M['forward']>;
  }

  /** Updates the averages with the current model. */
  updateParameters(model: Module): void {
    const averaged = pairsOf(this.module.namedParameters(), model.namedParameters());
    const buffers = pairsOf(this.module.namedBuffers(), model.namedBuffers());
    if (this.useBuffers) averaged.push(...buffers);
    const n = this.nAveraged.detach();
    noGrad(() => {
      const isFirst = eq(n.expr, 0);
      const next = this.#averages(averaged, n);
      averaged.forEach(([own, current], i) => {
        own.rebind(where(isFirst, convert(current.expr, own.dtype), convert(next[i]!.expr, own.dtype)));
      });
      if (!this.useBuffers) for (const [own, current] of buffers) own.rebind(convert(current.expr, own.dtype));
      this.nAveraged.add_(1);
    });
  }
  #averages(pairs: readonly Pair[], n: Tensor): Tensor[] {
    const averages = pairs.map(([own]) => own.detach());
    const { multiAvgFn, avgFn } = this;
    if (!multiAvgFn) return pairs.map(([, current], i) => (avgFn ?? getSwaAvgFn())(averages[i]!, current, n));
    for (const dtype of new Set(averages.map((a) => a.dtype))) {
      const places = averages.flatMap((a, i) => (a.dtype === dtype ? [i] : []));
      const currents = places.map((i) => pairs[i]![1].to(dtype));
      multiAvgFn(
        places.map((i) => averages[i]!),
        currents,
        n,
      );
    }
    return averages;
  }
}
Object.defineProperty(AveragedModel.prototype, 'updateParameters', {
  value: entry(AveragedModel.prototype.updateParameters as () => unknown),
});

type Pair = readonly [own: Tensor, current: Tensor];
/** The tensors of the average with those of the model, detached. */
function pairsOf(own: ReadonlyMap<string, Tensor>, model: ReadonlyMap<string, Tensor>): Pair[] {
  if (own.size !== model.size)
    throw new ArgumentError(
      `updateParameters: the model has ${model.size} tensors, the average ${own.size}: pass the model that was averaged from the start`,
    );
  const given = [...model];
  return [...own].map(([name, t], i) => {
    const [theirs, current] = given[i]!;
    if (!sameShape(t.shape, current.shape))
      throw new ShapeError(
        `updateParameters: ${theirs} is ${current.aval} in the model, ${name} is ${t.aval} in the average: pass the model that was averaged from the start`,
      );
    return [t, current.detach()];
  });
}

type Batches = Iterable<unknown> | AsyncIterable<unknown>;
/**
 * Recomputes the running statistics of all batch norms as the means over one pass through the data. A batch is a tensor, or a
 * list that begins with the model's input.
 */
export async function updateBn(loader: Batches, model: Module): Promise<void> {
  const norms = model
    .modules()
    .filter((m) => m instanceof BatchNorm1d || m instanceof BatchNorm2d || m instanceof BatchNorm3d);
  if (!norms.length) return;
  const momenta = norms.map((m) => m.momentum);
  const { training } = model;
  for (const m of norms) m.resetRunningStats();
  try {
    model.train();
    for (const m of norms) m.momentum = null;
    for await (const batch of loader) {
      const input: unknown = Array.isArray(batch) ? batch[0] : batch;
      if (!(input instanceof Tensor))
        throw new ArgumentError(
          `updateBn: a batch is ${describe(batch)}: it must be a tensor, or a list that begins with one`,
        );
      noGrad(() => (model as { forward(x: Tensor): unknown }).forward(input));
      await sync();
    }
  } finally {
    norms.forEach((m, i) => {
      m.momentum = momenta[i]!;
    });
    model.train(training);
  }
}
