// Types of max pools: values, or values and indices where `returnIndices` is true.
import type * as ops from '../ops/pool.js';
import type { Sizes } from '../ops/window.js';
import type { Given, Lift, Named } from './lift.js';
import type { OrderOf } from './order.js';
import type { Tensor } from './tensor.js';

/** The result of a max pool with returnIndices. Also a list: `const [values, indices] = ...`. */
export type MaxPooled = Named<{ readonly values: Tensor; readonly indices: Tensor }>;
/** Options without and with indices: by name, or the first few by position. */
type Plain<O, Order> = Given<Omit<Lift<O>, 'returnIndices'> & { readonly returnIndices?: false | null }, Order>;
type Indexed<O, Order> =
  | [options: Omit<Lift<O>, 'returnIndices'> & { readonly returnIndices: true }]
  | (Order extends readonly [infer K extends keyof O, ...infer Rest]
      ? K extends 'returnIndices'
        ? [returnIndices: true]
        : [option: Lift<O>[K & keyof Lift<O>] | null, ...Indexed<Omit<O, K>, Rest>]
      : never);
type Max = ops.MaxPoolOptions;
type Order = OrderOf<'maxPool2d'>;
type Adaptive = ops.AdaptiveMaxPoolOptions;
type AdaptiveOrder = OrderOf<'adaptiveMaxPool2d'>;

export interface MaxPool {
  (kernelSize: Sizes, ...options: Indexed<Max, Order>): MaxPooled;
  (kernelSize: Sizes, ...options: Plain<Max, Order>): Tensor;
}
export interface AdaptiveMaxPool {
  (outputSize: ops.OutputSize, ...options: Indexed<Adaptive, AdaptiveOrder>): MaxPooled;
  (outputSize: ops.OutputSize, ...options: Plain<Adaptive, AdaptiveOrder>): Tensor;
}
/** As methods. */
export interface MaxPools {
  /** The maximum of each window of [N, C, L] or [C, L]. */
  readonly maxPool1d: MaxPool;
  /** The maximum of each window of [N, C, H, W] or [C, H, W]. */
  readonly maxPool2d: MaxPool;
  /** The maximum of each window of [N, C, D, H, W] or [C, D, H, W]. */
  readonly maxPool3d: MaxPool;
  /** The maximum of each window, for a given output size. */
  readonly adaptiveMaxPool1d: AdaptiveMaxPool;
  readonly adaptiveMaxPool2d: AdaptiveMaxPool;
  readonly adaptiveMaxPool3d: AdaptiveMaxPool;
}
export interface MaxPoolOf {
  (x: Tensor, kernelSize: Sizes, ...options: Indexed<Max, Order>): MaxPooled;
  (x: Tensor, kernelSize: Sizes, ...options: Plain<Max, Order>): Tensor;
}
export interface AdaptiveMaxPoolOf {
  (x: Tensor, outputSize: ops.OutputSize, ...options: Indexed<Adaptive, AdaptiveOrder>): MaxPooled;
  (x: Tensor, outputSize: ops.OutputSize, ...options: Plain<Adaptive, AdaptiveOrder>): Tensor;
}
/** As functions. */
export interface MaxPoolsOf {
  readonly maxPool1d: MaxPoolOf;
  readonly maxPool2d: MaxPoolOf;
  readonly maxPool3d: MaxPoolOf;
  readonly adaptiveMaxPool1d: AdaptiveMaxPoolOf;
  readonly adaptiveMaxPool2d: AdaptiveMaxPoolOf;
  readonly adaptiveMaxPool3d: AdaptiveMaxPoolOf;
}
