// Activations as layers.
import { full } from '../tensor/create.js';
import * as f from '../tensor/functions.js';
import { rand } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';
import { layer } from './layer.js';
import { Module, Parameter } from './module.js';
import { checkCount, type Given, optionsInOrder, showOptions } from './options.js';

/** A function of one tensor and of options that all have defaults. */
const activation = <D extends object, const Order extends readonly (keyof D & string)[] = []>(
  compute: (x: Tensor, options: D) => Tensor,
  defaults: D = {} as D,
  order = [] as unknown as Order,
) => layer(order, defaults, (options: D, x: Tensor) => compute(x, options));
interface InPlace {
  readonly inplace: boolean;
}
/**
 * The same for activations that torch can compute in place. Unlike torch: `inplace` has no effect. The argument keeps its
 * values, and XLA decides whether its memory is reused.
 */
const inPlace = <D extends object, const Order extends readonly (keyof D & string)[] = []>(
  compute: (x: Tensor, options: D) => Tensor,
  defaults: D = {} as D,
  order = [] as unknown as Order,
) =>
  layer<[x: Tensor], Tensor, D & InPlace, D & InPlace, [...Order, 'inplace']>(
    [...order, 'inplace'],
    { ...defaults, inplace: false },
    ({ inplace: _, ...options }, x) => compute(x, options as unknown as D),
  );

export class ReLU extends inPlace((x) => f.relu(x)) {}
export class ReLU6 extends inPlace((x) => f.relu6(x)) {}
export class Sigmoid extends activation((x) => f.sigmoid(x)) {}
export class Tanh extends activation((x) => f.tanh(x)) {}
export class SiLU extends inPlace((x) => f.silu(x)) {}
export class Mish extends inPlace((x) => f.mish(x)) {}
export class SELU extends inPlace((x) => f.selu(x)) {}
export class Hardswish extends inPlace((x) => f.hardswish(x)) {}
export class Hardsigmoid extends inPlace((x) => f.hardsigmoid(x)) {}
export class Softsign extends activation((x) => f.softsign(x)) {}
export class Tanhshrink extends activation((x) => f.tanhshrink(x)) {}
export class LogSigmoid extends activation((x) => f.logsigmoid(x)) {}
export class GELU extends activation(f.gelu, { approximate: 'none' as 'none' | 'tanh' }, ['approximate']) {}
export class ELU extends inPlace(f.elu, { alpha: 1 }, ['alpha']) {}
export class CELU extends inPlace(f.celu, { alpha: 1 }, ['alpha']) {}
export class LeakyReLU extends inPlace(f.leakyRelu, { negativeSlope: 0.01 }, ['negativeSlope']) {}
export class Hardtanh extends inPlace(f.hardtanh, { minVal: -1, maxVal: 1 }, ['minVal', 'maxVal']) {}
export class Hardshrink extends activation(f.hardshrink, { lambd: 0.5 }, ['lambd']) {}
export class Softshrink extends activation(f.softshrink, { lambd: 0.5 }, ['lambd']) {}
export class Softplus extends activation(f.softplus, { beta: 1, threshold: 20 }, ['beta', 'threshold']) {}
export class GLU extends activation((x, { dim }) => f.glu(x, { dim }), { dim: -1 }, ['dim']) {}
/** Softmax over the channels of [N, C, H, W]. */
export class Softmax2d extends activation((x) => f.softmax(x, -3)) {}

interface Along {
  readonly dim: number;
}
export class Softmax extends layer(['dim'], {}, ({ dim }: Along, x: Tensor) => f.softmax(x, dim)) {}
export class LogSoftmax extends layer(['dim'], {}, ({ dim }: Along, x: Tensor) => f.logSoftmax(x, dim)) {}
export class Softmin extends layer(['dim'], {}, ({ dim }: Along, x: Tensor) => f.softmin(x, dim)) {}

export class Threshold extends layer(
  ['threshold', 'value', 'inplace'],
  { inplace: false },
  (o: InPlace & { readonly threshold: number; readonly value: number }, x: Tensor) =>
    f.threshold(x, o.threshold, o.value),
) {}

/** Leaky relu with a slope drawn for each element in train mode; in eval mode the middle of its range. */
export class RReLU extends layer(
  ['lower', 'upper', 'inplace'],
  { lower: 1 / 8, upper: 1 / 3, inplace: false },
  function (
    this: Module,
    { lower, upper }: InPlace & { readonly lower: number; readonly upper: number },
    x: Tensor,
  ): Tensor {
    if (!this.training) return f.leakyRelu(x, { negativeSlope: (lower + upper) / 2 });
    const slope = rand(x.shape, { dtype: x.dtype })
      .mul(upper - lower)
      .add(lower);
    return f.where(x.ge(0), x, x.mul(slope));
  },
) {}

/** Leaky relu with a learned slope: one for all, or one for each channel. */
export class PReLU extends Module {
  weight: Parameter;
  readonly numParameters: number;
  constructor(
    ...options: Given<{ readonly numParameters?: number; readonly init?: number }, ['numParameters', 'init']>
  ) {
    super();
    const { numParameters, init } = optionsInOrder(
      'PReLU',
      ['numParameters', 'init'],
      { numParameters: 1, init: 0.25 },
      options,
    );
    this.numParameters = numParameters;
    this.weight = new Parameter(full([checkCount('PReLU: numParameters', numParameters)], init, { dtype: 'f32' }));
  }
  override forward(x: Tensor): Tensor {
    return f.prelu(x, this.weight);
  }
  override extraRepr(): string {
    return showOptions({ numParameters: this.numParameters });
  }
}
