// A linear layer and the cross entropy of its logits, as torch.nn.LinearCrossEntropyLoss.
import { ArgumentError } from '../base/errors.js';
import { crossEntropy } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import type { CrossEntropyOptions } from '../tensor/types.js';
import { Linear } from './linear.js';
import { Buffer, Module } from './module.js';
import { checkCount, checkProbability, optionsOf, showOptions } from './options.js';

type Reduction = NonNullable<CrossEntropyOptions['reduction']>;
export interface LinearCrossEntropyLossOptions {
  /** Further dimensions of the target: a loss for each of [N, ...outFeatures]. */
  readonly outFeatures?: readonly number[];
  readonly bias?: boolean;
  readonly reduction?: Reduction;
  /** A weight for each class. */
  readonly weight?: Tensor | null;
  readonly ignoreIndex?: number | null;
  readonly labelSmoothing?: number;
  /** torch's hints for computing in chunks. Unlike torch: no effect; XLA plans the memory of the program. */
  readonly options?: object | null;
}
/** The cross entropy of a linear layer's logits: x [N, inFeatures] against classes [N, ...], or the probability of each. */
export class LinearCrossEntropyLoss extends Module {
  readonly linear: Linear;
  weight: Buffer | null;
  readonly outFeatures: readonly number[];
  readonly reduction: Reduction;
  readonly ignoreIndex: number | null;
  readonly labelSmoothing: number;
  constructor(
    inFeatures: number,
    readonly numClasses: number,
    options: LinearCrossEntropyLossOptions = {},
  ) {
    super();
    const name = 'LinearCrossEntropyLoss';
    const given = optionsOf<Required<LinearCrossEntropyLossOptions>>(
      name,
      {
        outFeatures: [],
        bias: false,
        reduction: 'mean',
        weight: null,
        ignoreIndex: null,
        labelSmoothing: 0,
        options: null,
      },
      options,
    );
    checkCount(`${name}: numClasses`, numClasses);
    if (given.weight && String(given.weight.shape) !== String([numClasses]))
      throw new ArgumentError(`${name}: weight is ${given.weight.aval}: it must have one number for each class`);
    this.weight = given.weight && new Buffer(given.weight);
    this.outFeatures = given.outFeatures;
    this.reduction = given.reduction;
    this.ignoreIndex = given.ignoreIndex;
    this.labelSmoothing = checkProbability(`${name}: labelSmoothing`, given.labelSmoothing);
    const outputs = given.outFeatures.reduce((a, b) => a * b, numClasses);
    this.linear = new Linear(inFeatures, outputs, { bias: given.bias });
  }
  override forward(x: Tensor, target: Tensor): Tensor {
    const { numClasses, outFeatures, weight, ignoreIndex, reduction, labelSmoothing } = this;
    const logits = this.linear.forward(x).reshape([...x.shape.slice(0, -1), numClasses, ...outFeatures]);
    return crossEntropy(logits, target, {
      reduction,
      labelSmoothing,
      ...(weight && { weight }),
      ...(ignoreIndex !== null && { ignoreIndex }),
    });
  }
  override extraRepr(): string {
    const { numClasses, outFeatures, reduction, ignoreIndex, labelSmoothing } = this;
    return showOptions({ numClasses, outFeatures, reduction, ignoreIndex, labelSmoothing });
  }
}
