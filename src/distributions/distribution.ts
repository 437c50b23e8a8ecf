// Distribution, the base class: shapes, samples, probabilities, and checks of arguments.
import { type DType, sizeOf } from '../base/dtype.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { decodeFloats } from '../base/float.js';
import { DEFAULT_FLOAT, isFloat, promote } from '../base/promote.js';
import { broadcastShapes, checkShape, type Shape, showShape } from '../base/shape.js';
import { describe } from '../base/tree.js';
import { hostValue } from '../runtime/value.js';
import { noGrad } from '../tensor/autograd.js';
import { full } from '../tensor/create.js';
import type { Generator } from '../tensor/random.js';
import { Tensor } from '../tensor/tensor.js';
import { type Constraint, independent } from './constraints.js';

export type Value = Tensor | number;

export interface DistributionOptions {
  /**
   * Whether to check parameters and values if the host has them: numbers, and small tensors made from JavaScript values.
   * Default: true.
   */
  readonly validateArgs?: boolean;
}
export interface SampleOptions {
  /** The random generator. Default: that of `tx.manualSeed`. */
  readonly generator?: Generator;
}

let validateByDefault = true;
/** Sets the default of `validateArgs` for new distributions. */
export const setDefaultValidateArgs = (on: boolean): void => void (validateByDefault = on);

export abstract class Distribution {
  /** The shape of independent draws with separate parameters. */
  readonly batchShape: Shape;
  /** The shape of a single draw. */
  readonly eventShape: Shape;
  protected readonly validates: boolean;

  constructor(batchShape: Shape, eventShape: Shape, { validateArgs = validateByDefault }: DistributionOptions = {}) {
    this.batchShape = [...batchShape];
    this.eventShape = [...eventShape];
    this.validates = validateArgs;
  }

  /** The constraints of parameters, by name. */
  abstract get argConstraints(): Readonly<Record<string, Constraint>>;
  /** The constraint of samples. */
  abstract get support(): Constraint;
  abstract get mean(): Tensor;
  abstract get variance(): Tensor;
  /** The logarithm of the density or probability of a value. */
  abstract logProb(value: Value): Tensor;
  /** The distribution with its batch shape broadcast to another. */
  abstract expand(batchShape: Shape): Distribution;

  /** Whether `rsample` has gradients with respect to the parameters. */
  get hasRsample(): boolean {
    return false;
  }
  get hasEnumerateSupport(): boolean {
    return false;
  }

  /** A draw of shape [...sampleShape, ...batchShape, ...eventShape], without gradients. */
  sample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    return noGrad(() => this.rsample(sampleShape, options));
  }
  /** The same, with gradients with respect to the parameters. */
  rsample(_sampleShape: Shape = [], _options: SampleOptions = {}): Tensor {
    throw this.missing('rsample', 'it has no reparameterized samples: use sample and logProb (REINFORCE)');
  }
  /** n draws: sample([n]). */
  sampleN(n: number, options: SampleOptions = {}): Tensor {
    return this.sample([n], options);
  }

  get mode(): Tensor {
    throw this.missing('mode');
  }
  get stddev(): Tensor {
    return this.variance.sqrt();
  }
  entropy(): Tensor {
    throw this.missing('entropy');
  }
  /** The exponential of the entropy. */
  perplexity(): Tensor {
    return this.entropy().exp();
  }
  /** The cumulative distribution function. */
  cdf(_value: Value): Tensor {
    throw this.missing('cdf');
  }
  /** The inverse of the cumulative distribution function. */
  icdf(_probability: Value): Tensor {
    throw this.missing('icdf');
  }
  /** All values, in a new first dimension; `expand: false`: with batch dimensions of size 1. */
  enumerateSupport(_options: { readonly expand?: boolean } = {}): Tensor {
    throw this.missing('enumerateSupport');
  }

  toString(): string {
    return `${this.constructor.name}(batchShape ${showShape(this.batchShape)}, eventShape ${showShape(this.eventShape)})`;
  }

  protected missing(what: string, why = 'it is not implemented in torch either'): ArgumentError {
    return new ArgumentError(`${this.constructor.name}.${what}: ${why}`);
  }

  /** The shape of a draw. */
  protected extended(sampleShape: Shape = []): Shape {
    return [...checkShape('sample', sampleShape), ...this.batchShape, ...this.eventShape];
  }
  /** Each draw's own parameter. */
  protected spread(x: Tensor, sampleShape: Shape): Tensor {
    return x.expand(this.extended(sampleShape));
  }

  /** Checks parameters by argConstraints. Called at the end of a constructor. */
  protected checkArgs(given: Readonly<Record<string, Value | undefined>>): void {
    if (!this.validates) return;
    for (const [name, constraint] of Object.entries(this.argConstraints)) {
      const x = given[name];
      if (x !== undefined) this.#holds(`${name} is`, x, constraint);
    }
  }

  /** A value that a method was given, as a tensor of the parameters' dtype, if it is a number; checked. */
  protected value(op: string, value: Value, like: Tensor): Tensor {
    const x = tensorLike(`${this.constructor.name}.${op}: value`, value, like);
    if (!this.validates) return x;
    const [rank, events] = [x.ndim, this.eventShape.length];
    if (rank < events)
      throw new ShapeError(
        `${this.constructor.name}.${op}: ${x.aval} has fewer dimensions than one event, ${showShape(this.eventShape)}`,
      );
    broadcastShapes(`${this.constructor.name}.${op}`, x.shape, [...this.batchShape, ...this.eventShape]);
    this.#holds(`${op}: the value is`, value, this.support);
    return x;
  }

  #holds(what: string, x: Value, constraint: Constraint): void {
    const wrong = firstWrong(x, constraint);
    if (wrong === undefined) return;
    throw new ArgumentError(
      `${this.constructor.name}: ${what} ${wrong}: it must be ${constraint}. To disable checks pass { validateArgs: false }`,
    );
  }
}

/** The first value that a constraint forbids, of what the host knows. */
function firstWrong(x: Value, { test, eventDim }: Constraint): string | undefined {
  if (!test) return undefined;
  if (typeof x === 'number') return test([x]) ? undefined : String(x);
  const expr = x.peek();
  const known = expr && hostValue(expr);
  if (!known) return undefined;
  const elements = Array.from(decodeFloats(x.dtype, known) as ArrayLike<number | bigint>, Number);
  const size = eventDim ? sizeOf(x.shape.slice(-eventDim)) : 1;
  for (let i = 0; i < elements.length; i += size) {
    const part = elements.slice(i, i + size);
    if (!test(part)) return size === 1 ? String(part[0]) : showShape(part);
  }
  return undefined;
}

/** A number as a tensor of another's dtype; integers and booleans as floats. */
export function tensorLike(what: string, x: Value, like?: Tensor): Tensor {
  if (typeof x === 'number') return full([], x, { dtype: like?.dtype ?? DEFAULT_FLOAT });
  if (!(x instanceof Tensor)) throw new ArgumentError(`${what} is ${describe(x)}: it must be a tensor or a number`);
  return isFloat(x.dtype) ? x : x.to(like?.dtype ?? DEFAULT_FLOAT);
}

/** Parameters as tensors of one shape and float dtype. */
export function broadcastAll<T extends readonly Value[]>(op: string, ...given: T): { [K in keyof T]: Tensor } {
  const floats = given.flatMap((x) => (x instanceof Tensor && isFloat(x.dtype) ? [x.dtype] : []));
  const dtype: DType = floats.length ? floats.reduce(promote) : DEFAULT_FLOAT;
  const tensors = given.map((x) =>
    (typeof x === 'number' ? full([], x, { dtype }) : tensorLike(`${op}: a parameter`, x)).to(dtype),
  );
  const shape = broadcastShapes(op, ...tensors.map((t) => t.shape));
  return tensors.map((t) => t.expand(shape)) as { [K in keyof T]: Tensor };
}

/** The sum over the last n dimensions. */
export const sumRightmost = (x: Tensor, n: number): Tensor => (n === 0 ? x : x.flatten(x.ndim - n).sum(-1));

/** The machine epsilon and the smallest positive normal number of a dtype. */
export const FINFO: Readonly<Partial<Record<DType, { readonly eps: number; readonly tiny: number }>>> = {
  f64: { eps: 2 ** -52, tiny: 2 ** -1022 },
  f32: { eps: 2 ** -23, tiny: 2 ** -126 },
  f16: { eps: 2 ** -10, tiny: 2 ** -14 },
  bf16: { eps: 2 ** -7, tiny: 2 ** -126 },
};
export const finfo = (x: Tensor): { readonly eps: number; readonly tiny: number } => FINFO[x.dtype] ?? FINFO.f32!;
/** Probabilities away from 0 and 1, so that logits are finite. */
export const clampProbs = (p: Tensor): Tensor => p.clamp({ min: finfo(p).eps, max: 1 - finfo(p).eps });

export interface ProbsOrLogits extends DistributionOptions {
  readonly probs?: Value | null;
  readonly logits?: Value | null;
}
/** Exactly one of probs and logits. A tensor or number in place of the options are the probabilities, as in torch. */
export function oneOf(op: string, given: Value | ProbsOrLogits): { name: 'probs' | 'logits'; param: Value } {
  const { probs = null, logits = null } =
    typeof given === 'number' || given instanceof Tensor ? { probs: given } : given;
  if ((probs === null) === (logits === null))
    throw new ArgumentError(`${op}: give exactly one of probs and logits: new ${op}({ logits })`);
  return probs !== null ? { name: 'probs', param: probs } : { name: 'logits', param: logits! };
}
/** The options of a call whose first argument may be the probabilities. */
export const optionsOf = (given: Value | ProbsOrLogits, options: DistributionOptions = {}): DistributionOptions =>
  typeof given === 'number' || given instanceof Tensor
    ? options
    : { ...options, ...('validateArgs' in given && { validateArgs: given.validateArgs! }) };

export { independent };
