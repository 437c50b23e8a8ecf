// A softmax over many classes, of which most are rare.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { listed } from '../base/tree.js';
import * as f from '../tensor/functions.js';
import { elementOf } from '../tensor/offsets.js';
import type { Tensor } from '../tensor/tensor.js';
import { ModuleList, Sequential } from './containers.js';
import { Linear } from './linear.js';
import { Module } from './module.js';
import { checkCount, type Given, optionsInOrder, showOptions } from './options.js';

export interface AdaptiveSoftmaxOptions {
  /** The factor by which the features shrink from one cluster to the next, rarer one. Default: 4. */
  readonly divValue?: number;
  readonly headBias?: boolean;
}
const ORDER = ['divValue', 'headBias'] as const;

/**
 * The log probabilities of the targets, and their mean as a loss (Grave et al., 2016). Classes must be sorted by descending
 * frequency; `cutoffs` splits them into clusters. Unlike torch: all clusters are computed for all rows, so that shapes do not
 * depend on values; a target out of range is an error only if the host has it, otherwise NaN.
 */
export class AdaptiveLogSoftmaxWithLoss extends Module {
  readonly cutoffs: readonly number[];
  readonly divValue: number;
  readonly headBias: boolean;
  head: Linear;
  tail: ModuleList<Sequential<[Linear, Linear]>>;
  constructor(
    readonly inFeatures: number,
    readonly nClasses: number,
    cutoffs: readonly number[],
    ...options: Given<AdaptiveSoftmaxOptions, typeof ORDER>
  ) {
    super();
    const name = 'AdaptiveLogSoftmaxWithLoss';
    const { divValue, headBias } = optionsInOrder<Required<AdaptiveSoftmaxOptions>>(
      name,
      ORDER,
      { divValue: 4, headBias: false },
      options,
    );
    checkCount(`${name}: inFeatures`, inFeatures);
    checkCount(`${name}: nClasses`, nClasses);
    const isRight = (c: number, i: number) => Number.isInteger(c) && c > (i ? cutoffs[i - 1]! : 0) && c < nClasses;
    if (!cutoffs.length || !cutoffs.every(isRight))
      throw new ArgumentError(
        `${name}: cutoffs are [${cutoffs.join(', ')}]: they must be whole numbers from 1 to ${nClasses - 1}, in ascending order`,
      );
    this.cutoffs = [...cutoffs, nClasses];
    this.divValue = divValue;
    this.headBias = headBias;
    this.head = new Linear(inFeatures, cutoffs[0]! + cutoffs.length, { bias: headBias });
    this.tail = new ModuleList(
      cutoffs.map((low, i) => {
        const features = Math.floor(inFeatures / divValue ** (i + 1));
        return new Sequential(
          new Linear(inFeatures, features, { bias: false }),
          new Linear(features, this.cutoffs[i + 1]! - low, { bias: false }),
        );
      }),
    );
  }

  /** Takes rows [N, inFeatures] and their classes [N], or one row and its class. */
  override forward(input: Tensor, target: Tensor): AdaptiveSoftmaxResult {
    const rows = target.shape.length;
    if (rows > 1 || input.shape.length !== rows + 1 || (rows && input.shape[0] !== target.shape[0]))
      throw new ShapeError(
        `AdaptiveLogSoftmaxWithLoss: the input is ${input.aval}, the target is ${target.aval}: give [N, ${this.inFeatures}] and [N], or [${this.inFeatures}] and []`,
      );
    const wrong = elementOf(target.expr, (c) => c < 0 || c >= this.nClasses);
    if (wrong !== undefined)
      throw new ArgumentError(
        `AdaptiveLogSoftmaxWithLoss: the target ${target.aval} has class ${wrong}: classes are 0 to ${this.nClasses - 1}`,
      );
    const x = rows ? input : input.unsqueeze(0);
    const classes = (rows ? target : target.unsqueeze(0)).to('i64');
    const [shortlist] = this.cutoffs as [number];
    const at = (logp: Tensor, index: Tensor) =>
      logp.gather(1, index.clamp(0, logp.shape[1]! - 1).unsqueeze(1)).squeeze(1);
    const head = f.logSoftmax(this.head.forward(x), 1);
    let output = at(head, classes);
    this.cutoffs.slice(0, -1).forEach((low, i) => {
      const cluster = f.logSoftmax(this.tail.at(i).forward(x), 1);
      const here = at(cluster, classes.sub(low)).add(head.select(1, shortlist + i));
      output = f.where(classes.ge(low), here, output);
    });
    output = f.where(classes.lt(0).logicalOr(classes.ge(this.nClasses)), Number.NaN, output);
    const result = { output: rows ? output : output.squeeze(0), loss: output.neg().mean() };
    return listed(result) as unknown as AdaptiveSoftmaxResult;
  }
  /** The log probabilities of all classes: [N, nClasses]. */
  logProb(input: Tensor): Tensor {
    const head = f.logSoftmax(this.head.forward(input), 1);
    const [shortlist] = this.cutoffs as [number];
    const clusters = [...this.tail].map((cluster, i) =>
      f.logSoftmax(cluster.forward(input), 1).add(head.narrow(1, shortlist + i, 1)),
    );
    return f.cat([head.narrow(1, 0, shortlist), ...clusters], 1);
  }
  /** The most probable class of each row. */
  predict(input: Tensor): Tensor {
    return this.logProb(input).argmax(1);
  }
  override extraRepr(): string {
    const { inFeatures, nClasses, cutoffs, divValue, headBias } = this;
    return showOptions({ inFeatures, nClasses, cutoffs: cutoffs.slice(0, -1), divValue, headBias });
  }
}
export type AdaptiveSoftmaxResult = { readonly output: Tensor; readonly loss: Tensor } & Iterable<Tensor>;
