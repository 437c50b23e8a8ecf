// plan(): whether a function fits a TPU and what it costs, from shapes alone. Nothing is computed or allocated.

import { byteLength, checkDTypeName, type DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import type { Shape } from '../base/shape.js';
import { parseTopology, type Slice } from '../base/slices.js';
import { describe, isPlain } from '../base/tree.js';
import { type Compiled, compile, type Lowered, type LowerOptions } from '../step/step.js';
import type { ProgramInput } from '../step/trace.js';
import { zeros } from '../tensor/create.js';
import { type AskOptions, ask } from './compile.js';
import { type LiveBuffer, named } from './hlo/liveness.js';
import { type Estimate, estimate } from './roofline.js';

/** The parts of a device's memory at the peak, in bytes. */
export interface Parts {
  readonly weights: number;
  /** The optimizer's state; in inference, state that is kept between calls, such as keys and values. */
  readonly state: number;
  readonly batch: number;
  /** Computed in the forward pass and kept for the backward pass. */
  readonly activations: number;
  readonly temporaries: number;
  /** The size of the program's code, which is not part of the peak. */
  readonly code: number;
}
export const PARTS = ['weights', 'state', 'batch', 'activations', 'temporaries', 'code'] as const;

export interface Plan {
  readonly topology: Slice;
  readonly fits: boolean;
  /** Peak memory on one device, in bytes, also if it does not fit. */
  readonly peak: number;
  /** The memory that a program may use, in bytes. */
  readonly available: number;
  /** If it does not fit: the missing bytes. */
  readonly shortage?: number;
  readonly parts: Parts;
  /** The ten largest buffers at the peak, by the user's names and lines. */
  readonly largest: readonly LiveBuffer[];
  readonly compileSeconds: number;
  /** Whether the answer came from the cache. */
  readonly cached: boolean;
  /** Lower bounds of time, work and traffic of one run, on one device. */
  readonly estimate: Estimate;
}

export interface PlanOptions extends Pick<AskOptions, 'timeoutSeconds' | 'fresh'>, Pick<LowerOptions, 'names'> {}

/** The description of an argument. */
export interface Described {
  readonly dtype: DType;
  readonly shape: Shape;
}

/**
 * Compiles fn for a TPU ('v6e-8', 'v5p:2x2x1') on this machine, and returns its memory and cost. Arguments are tensors, which need
 * not be computed, or { dtype, shape }. `names` are the names of tensors that fn uses, such as model.namedParameters().
 */
export async function plan<A extends unknown[]>(
  fn: ((...args: A) => unknown) | Compiled<A, unknown>,
  args: readonly unknown[],
  topology: string,
  options: PlanOptions = {},
): Promise<Plan> {
  checkOptions('plan', ['timeoutSeconds', 'fresh', 'names'], options);
  if (typeof fn !== 'function') throw new ArgumentError(`plan: expected a function, got ${describe(fn)}`);
  if (!Array.isArray(args))
    throw new ArgumentError(`plan: the arguments are ${describe(args)}: pass them as a list, [x, y]`);
  const slice = parseTopology(topology);
  const compiled = ('lower' in fn ? fn : compile(fn as (...args: never[]) => unknown)) as unknown as Compiled<
    unknown[],
    unknown
  >;
  const { names = [], ...rest } = options;
  const lowered = compiled.lower(raise(args) as never, { platform: 'tpu', locations: true, names });
  return planLowered(lowered, slice, rest);
}

/** Replaces descriptions by tensors that are never computed. */
function raise(x: unknown): unknown {
  if (Array.isArray(x)) return x.map(raise);
  if (!isPlain(x)) return x;
  const { dtype, shape } = x as Partial<Described>;
  if (typeof dtype === 'string' && Array.isArray(shape) && Object.keys(x).length === 2)
    return zeros(shape as number[], { dtype: checkDTypeName('plan', dtype) });
  return Object.fromEntries(Object.entries(x).map(([key, value]) => [key, raise(value)]));
}

/** The plan of a lowered program. */
export async function planLowered(
  { name, text, inputs }: Lowered,
  slice: Slice,
  options: Omit<AskOptions, 'topology'> = {},
): Promise<Plan> {
  const { memory, seconds, cached, live, work } = await ask(name, text, { ...options, topology: slice.name });
  const { peak, code } = memory;
  const { available } = slice.chip.hbm;
  const given = { weights: sizeOf(inputs, 'weights'), state: sizeOf(inputs, 'state'), batch: sizeOf(inputs, 'batch') };
  const { activations, tenLargest } = live;
  const labels = inputs.map((x) => x.label);
  const rest = peak - given.weights - given.state - given.batch - activations;
  return {
    topology: slice,
    fits: peak <= available,
    peak,
    available,
    ...(peak > available && { shortage: peak - available }),
    parts: { ...given, activations, temporaries: Math.max(0, rest), code },
    largest: tenLargest.map((buffer) => named(buffer, labels)),
    compileSeconds: seconds,
    cached,
    estimate: estimate(work, slice.chip, slice),
  };
}

const sizeOf = (inputs: readonly ProgramInput[], kind: ProgramInput['kind']): number =>
  inputs.filter((x) => x.kind === kind).reduce((sum, x) => sum + byteLength(x), 0);
