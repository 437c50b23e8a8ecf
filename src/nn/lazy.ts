// torch's Lazy modules: layers that take the number of inputs from their first input.
import { ArgumentError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { isPlain } from '../base/tree.js';
import { currentStep } from '../tensor/scope.js';
import { Tensor } from '../tensor/tensor.js';
import {
  Conv1d,
  Conv2d,
  Conv3d,
  type ConvArguments,
  ConvTranspose1d,
  ConvTranspose2d,
  ConvTranspose3d,
  type TransposedArguments,
} from './conv.js';
import { Linear, type LinearArguments } from './linear.js';
import type { Module } from './module.js';
import { BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d } from './norm.js';

type Layer<A extends readonly unknown[], M> = new (inputs: number, ...args: A) => M;
const MADE_WITH = Symbol('madeWith');

/**
 * The class without its first argument. Parameters exist from the beginning, so that they can be passed to an optimizer, and
 * get their shapes and values in the first forward; from then on the layer is an ordinary one.
 */
function lazy<A extends readonly unknown[], M extends Module>(
  type: Layer<A, M>,
  /** The number of inputs, of the first tensor. */
  inputsOf: (x: Tensor) => number,
  /** A number that its arguments allow, while it is not known. */
  stand: (args: A) => number = () => 1,
): new (
  ...args: A
) => M {
  const Base = type as unknown as new (...args: unknown[]) => Module;
  class Lazy extends Base {
    readonly [MADE_WITH]: A;
    constructor(...args: unknown[]) {
      super(stand(args as unknown as A), ...args);
      this[MADE_WITH] = args as unknown as A;
    }
    override forward(...xs: never[]): unknown {
      const [x] = xs as readonly unknown[];
      const { name } = this.constructor;
      if (!(x instanceof Tensor)) throw new ArgumentError(`${name}: its first argument must be a tensor`);
      if (currentStep())
        throw new ArgumentError(
          `${name}: the first forward creates the parameters: call ${name}.forward(x) once outside of compiled functions`,
        );
      const real = new type(inputsOf(x), ...this[MADE_WITH]);
      if (isFloat(x.dtype)) real.to(x.dtype);
      for (const key of Reflect.ownKeys(real)) {
        const [mine, made] = [this, real].map((m) => (m as Record<PropertyKey, unknown>)[key]);
        if (mine instanceof Tensor && made instanceof Tensor) mine.become(made.expr);
        else if (!(made instanceof Tensor)) Reflect.set(this, key, made);
      }
      delete (this as { [MADE_WITH]?: unknown })[MADE_WITH];
      Object.setPrototypeOf(this, type.prototype as object);
      return (this.forward as (...xs: never[]) => unknown)(...xs);
    }
  }
  return Lazy as unknown as new (
    ...args: A
  ) => M;
}

const ofChannels = (space: number) => (x: Tensor) => x.size(x.ndim - space - 1);
/** The number of groups, which divides that of channels: the option, or the fourth after the kernel. */
function groupsOf(args: readonly unknown[]): number {
  const last = args.at(-1);
  const given = isPlain(last) ? last['groups'] : args[5];
  return typeof given === 'number' ? given : 1;
}
type Tail<A> = A extends readonly [unknown, ...infer R] ? R : never;
type Rest<C extends abstract new (...args: never) => unknown> = Tail<ConstructorParameters<C>>;
const conv = <M extends Module>(type: new (...args: ConvArguments) => M, space: number) =>
  lazy<Tail<ConvArguments>, M>(type as never, ofChannels(space), groupsOf);
const transposed = <M extends Module>(type: new (...args: TransposedArguments) => M, space: number) =>
  lazy<Tail<TransposedArguments>, M>(type as never, ofChannels(space), groupsOf);

export class LazyLinear extends lazy<Tail<LinearArguments>, Linear>(Linear, (x) => x.size(-1)) {}
export class LazyConv1d extends conv(Conv1d, 1) {}
export class LazyConv2d extends conv(Conv2d, 2) {}
export class LazyConv3d extends conv(Conv3d, 3) {}
export class LazyConvTranspose1d extends transposed(ConvTranspose1d, 1) {}
export class LazyConvTranspose2d extends transposed(ConvTranspose2d, 2) {}
export class LazyConvTranspose3d extends transposed(ConvTranspose3d, 3) {}
export class LazyBatchNorm1d extends lazy<Rest<typeof BatchNorm1d>, BatchNorm1d>(BatchNorm1d, (x) => x.size(1)) {}
export class LazyBatchNorm2d extends lazy<Rest<typeof BatchNorm2d>, BatchNorm2d>(BatchNorm2d, (x) => x.size(1)) {}
export class LazyBatchNorm3d extends lazy<Rest<typeof BatchNorm3d>, BatchNorm3d>(BatchNorm3d, (x) => x.size(1)) {}
export class LazyInstanceNorm1d extends lazy<Rest<typeof InstanceNorm1d>, InstanceNorm1d>(
  InstanceNorm1d,
  ofChannels(1),
) {}
export class LazyInstanceNorm2d extends lazy<Rest<typeof InstanceNorm2d>, InstanceNorm2d>(
  InstanceNorm2d,
  ofChannels(2),
) {}
export class LazyInstanceNorm3d extends lazy<Rest<typeof InstanceNorm3d>, InstanceNorm3d>(
  InstanceNorm3d,
  ofChannels(3),
) {}
