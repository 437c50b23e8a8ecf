// Max pooling with windows at random places, as layers.
import type { Shape } from '../base/shape.js';
import {
  FRACTIONAL_ORDER,
  type FractionalMaxPoolOptions,
  type FractionalWindows,
  fractionalMaxPool,
  fractionalWindows,
} from '../tensor/fractional.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Sizes } from '../tensor/types.js';
import { Buffer, Module } from './module.js';
import { optionsInOrder, showOptions } from './options.js';

export type { FractionalMaxPoolOptions } from '../tensor/fractional.js';

type Found<I extends boolean> = I extends true ? [values: Tensor, indices: Tensor] : Tensor;
type Given<I extends boolean> = [
  kernelSize: Sizes,
  outputSize?: Sizes | null | FractionalMaxPoolOptions<I>,
  outputRatio?: Sizes | null | FractionalMaxPoolOptions<I>,
  returnIndices?: I | FractionalMaxPoolOptions<I>,
  randomSamples?: Tensor | null | FractionalMaxPoolOptions<I>,
];

class FractionalMaxPool<I extends boolean> extends Module {
  readonly kernelSize: Shape;
  readonly outputSize: Shape | null;
  readonly outputRatio: Shape | null;
  readonly returnIndices: boolean;
  readonly _randomSamples: Buffer | null;
  constructor(space: number, [kernelSize, ...given]: readonly [Sizes, ...unknown[]]) {
    super();
    const { name } = new.target;
    const options = optionsInOrder<Required<FractionalMaxPoolOptions>>(
      name,
      FRACTIONAL_ORDER,
      { outputSize: null, outputRatio: null, returnIndices: false, randomSamples: null },
      given,
    );
    const { kernel, size, ratio } = fractionalWindows(name, space, kernelSize, options);
    this.kernelSize = kernel;
    this.outputSize = size;
    this.outputRatio = ratio;
    this.returnIndices = options.returnIndices;
    this._randomSamples = options.randomSamples && new Buffer(options.randomSamples);
  }
  override forward(x: Tensor): Found<I> {
    const windows: FractionalWindows = { kernel: this.kernelSize, size: this.outputSize, ratio: this.outputRatio };
    const { values, indices } = fractionalMaxPool(this.constructor.name, x, windows, this._randomSamples);
    return (this.returnIndices ? [values, indices] : values) as unknown as Found<I>;
  }
  override extraRepr(): string {
    const { kernelSize, outputSize, outputRatio, returnIndices } = this;
    return showOptions({ kernelSize, outputSize, outputRatio, ...(returnIndices && { returnIndices }) });
  }
}

/** The maximum of each of a grid of randomly placed windows: [H, W] becomes outputSize. */
export class FractionalMaxPool2d<const I extends boolean = false> extends FractionalMaxPool<I> {
  constructor(...given: Given<I>) {
    super(2, given);
  }
}
/** The maximum of each of a grid of randomly placed windows: [D, H, W] becomes outputSize. */
export class FractionalMaxPool3d<const I extends boolean = false> extends FractionalMaxPool<I> {
  constructor(...given: Given<I>) {
    super(3, given);
  }
}
