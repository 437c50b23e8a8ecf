// Embedding layers: learned tables of rows.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { describe, shown } from '../base/tree.js';
import { gathered } from '../spmd/gathered.js';
import { customVjp, noGrad } from '../tensor/autograd.js';
import { arange, empty, full, ones, tensor, zeros } from '../tensor/create.js';
import { embedding, isneginf, searchsorted, vectorNorm, where } from '../tensor/functions.js';
import { Tensor } from '../tensor/tensor.js';
import * as init from './init.js';
import { Module, Parameter } from './module.js';
import { checkCount, type Given, optionsInOrder, showOptions } from './options.js';

interface TableOptions {
  /** The index whose row is 0 and is not trained. */
  readonly paddingIdx?: number | null | undefined;
  /** Used rows with a larger norm are first scaled down to it, in place, as in torch. */
  readonly maxNorm?: number | null | undefined;
  /** The p of the norm for maxNorm. Default: 2. */
  readonly normType?: number;
  /** Whether to divide the gradient of each row by the count of its index in the batch. Default: false. */
  readonly scaleGradByFreq?: boolean;
  /** Unlike torch: no effect. Gradients are dense. */
  readonly sparse?: boolean;
}
export type EmbeddingOptions = TableOptions;
interface Made {
  readonly paddingIdx: number | undefined;
  readonly maxNorm: number | undefined;
  readonly normType: number;
  readonly scaleGradByFreq: boolean;
  readonly sparse: boolean;
}
const NORMALLY: { readonly [K in keyof Made]: Made[K] } = {
  paddingIdx: undefined,
  maxNorm: undefined,
  normType: 2,
  scaleGradByFreq: false,
  sparse: false,
};
/** What both have: the table, and an index that stands for nothing. */
class Table extends Module {
  weight: Parameter;
  readonly paddingIdx: number | undefined;
  readonly maxNorm: number | undefined;
  readonly normType: number;
  readonly scaleGradByFreq: boolean;
  constructor(
    readonly numEmbeddings: number,
    readonly embeddingDim: number,
    { paddingIdx, maxNorm, normType, scaleGradByFreq }: Made,
  ) {
    super();
    const { name } = new.target;
    checkCount(`${name}: numEmbeddings`, numEmbeddings);
    checkCount(`${name}: embeddingDim`, embeddingDim);
    if (paddingIdx !== undefined && !(paddingIdx >= -numEmbeddings && paddingIdx < numEmbeddings))
      throw new ArgumentError(
        `${name}: paddingIdx is ${paddingIdx}: it must be a row, of which there are ${numEmbeddings}`,
      );
    if (maxNorm !== undefined && !(maxNorm > 0))
      throw new ArgumentError(`${name}: maxNorm is ${shown(maxNorm)}: it must be a number above 0`);
    this.paddingIdx = paddingIdx === undefined || paddingIdx >= 0 ? paddingIdx : paddingIdx + numEmbeddings;
    this.maxNorm = maxNorm;
    this.normType = normType;
    this.scaleGradByFreq = scaleGradByFreq;
    this.weight = init.normal_(new Parameter(empty([numEmbeddings, embeddingDim])));
    const row = this.paddingIdx;
    if (row !== undefined) noGrad(() => this.weight.indexFill_(0, tensor([row]), 0));
  }
  protected rows(indices: Tensor): Tensor {
    const { paddingIdx, maxNorm } = this;
    if (maxNorm !== undefined) this.shorten(indices, maxNorm);
    const found = embedding(indices, gathered(this.weight), paddingIdx === undefined ? {} : { paddingIdx });
    if (!this.scaleGradByFreq) return found;
    const often = this.counts(indices)
      .indexSelect(0, indices.flatten())
      .reshape([...indices.shape, 1]);
    return dividedGradient(found, often);
  }
  /** How often each row is used. */
  private counts(indices: Tensor): Tensor {
    const { dtype } = this.weight;
    const flat = indices.flatten();
    return zeros([this.numEmbeddings], { dtype }).scatterAdd(0, flat, ones(flat.shape, { dtype }));
  }
  private shorten(indices: Tensor, maxNorm: number): void {
    noGrad(() => {
      const norms = vectorNorm(this.weight, { p: this.normType, dim: -1, keepdim: true });
      const long = norms.gt(maxNorm).logicalAnd(this.counts(indices).gt(0).unsqueeze(-1));
      this.weight.copy_(where(long, this.weight.mul(norms.add(1e-7).reciprocal().mul(maxNorm)), this.weight));
    });
  }
  override extraRepr(): string {
    const { paddingIdx, maxNorm, scaleGradByFreq } = this;
    const more = showOptions({ paddingIdx, maxNorm, ...(scaleGradByFreq && { scaleGradByFreq }) });
    return `${this.numEmbeddings}, ${this.embeddingDim}${more && `, ${more}`}`;
  }
}
/** x, whose gradient is divided by these numbers. */
const dividedGradient = customVjp((x: Tensor, _by: Tensor) => x, {
  backward: ({ inputs: [, by] }, g: Tensor) => [g.div(by), null],
});

export interface PretrainedEmbeddingOptions extends TableOptions {
  /** Whether the weights are frozen. Default: true. */
  readonly freeze?: boolean;
}
function checkPretrained(name: string, weights: Tensor): [rows: number, width: number] {
  if (!(weights instanceof Tensor) || weights.ndim !== 2)
    throw new ShapeError(
      `${name}.fromPretrained: takes a table [rows, features], got ${weights instanceof Tensor ? weights.aval : describe(weights)}`,
    );
  return weights.shape as unknown as [number, number];
}
/** A table with these weights. */
function filled<T extends Table>(made: T, weights: Tensor, freeze: boolean): T {
  made.weight = new Parameter(weights, { requiresGrad: !freeze });
  return made;
}

const EMBEDDING = ['paddingIdx', 'maxNorm', 'normType', 'scaleGradByFreq', 'sparse'] as const;
/** A lookup table: replaces integers by rows of its weight. */
export class Embedding extends Table {
  constructor(numEmbeddings: number, embeddingDim: number, ...options: Given<EmbeddingOptions, typeof EMBEDDING>) {
    super(numEmbeddings, embeddingDim, optionsInOrder<Made>('Embedding', EMBEDDING, NORMALLY, options));
  }
  /** A table with these weights [rows, features], frozen unless freeze is false. */
  static fromPretrained(
    weights: Tensor,
    ...options: Given<PretrainedEmbeddingOptions, ['freeze', ...typeof EMBEDDING]>
  ): Embedding {
    const [rows, width] = checkPretrained('Embedding', weights);
    const order = ['freeze', ...EMBEDDING] as const;
    const { freeze, ...rest } = optionsInOrder<Made & { readonly freeze: boolean }>(
      'Embedding.fromPretrained',
      order,
      { ...NORMALLY, freeze: true },
      options,
    );
    return filled(
      init.skipInit(() => new Embedding(rows, width, rest)),
      weights,
      freeze,
    );
  }
  override forward(indices: Tensor): Tensor {
    return this.rows(indices);
  }
}

type Mode = 'sum' | 'mean' | 'max';
export interface EmbeddingBagOptions extends TableOptions {
  readonly mode?: Mode;
  /** Whether offsets have one more entry, the end of the last bag. */
  readonly includeLastOffset?: boolean;
}
interface MadeBag extends Made {
  readonly mode: Mode;
  readonly includeLastOffset: boolean;
}
const NORMAL_BAG: { readonly [K in keyof MadeBag]: MadeBag[K] } = {
  ...NORMALLY,
  mode: 'mean',
  includeLastOffset: false,
};
const BAG = ['maxNorm', 'normType', 'scaleGradByFreq', 'mode', 'sparse', 'includeLastOffset', 'paddingIdx'] as const;
export interface BagOptions {
  /** The start of each bag in a vector of indices. */
  readonly offsets?: Tensor | null;
  /** A factor for each row; for mode 'sum' only. */
  readonly perSampleWeights?: Tensor | null;
}
/** The sum, mean or maximum of the rows of each bag: bags [N, L], or a vector of indices with offsets [N]. */
export class EmbeddingBag extends Table {
  readonly mode: Mode;
  readonly includeLastOffset: boolean;
  constructor(numEmbeddings: number, embeddingDim: number, ...options: Given<EmbeddingBagOptions, typeof BAG>) {
    const { mode, includeLastOffset, ...given } = optionsInOrder<MadeBag>('EmbeddingBag', BAG, NORMAL_BAG, options);
    if (!['sum', 'mean', 'max'].includes(mode))
      throw new ArgumentError(`EmbeddingBag: mode is '${mode}': use 'sum', 'mean' or 'max'`);
    super(numEmbeddings, embeddingDim, given);
    this.mode = mode;
    this.includeLastOffset = includeLastOffset;
  }
  /** Bags with these weights [rows, features], frozen unless freeze is false. */
  static fromPretrained(
    weights: Tensor,
    ...options: Given<EmbeddingBagOptions & { readonly freeze?: boolean }, ['freeze', ...typeof BAG]>
  ): EmbeddingBag {
    const [rows, width] = checkPretrained('EmbeddingBag', weights);
    const { freeze, ...rest } = optionsInOrder<MadeBag & { readonly freeze: boolean }>(
      'EmbeddingBag.fromPretrained',
      ['freeze', ...BAG],
      { ...NORMAL_BAG, freeze: true },
      options,
    );
    return filled(
      init.skipInit(() => new EmbeddingBag(rows, width, rest)),
      weights,
      freeze,
    );
  }
  override forward(indices: Tensor, ...options: Given<BagOptions, ['offsets', 'perSampleWeights']>): Tensor {
    const { offsets: given, perSampleWeights } = optionsInOrder<BagOptions>(
      'EmbeddingBag.forward',
      ['offsets', 'perSampleWeights'],
      { offsets: null, perSampleWeights: null },
      options,
    );
    const offsets = given && this.includeLastOffset ? given.narrow(0, 0, given.size(0) - 1) : given;
    const { mode, paddingIdx } = this;
    if (indices.ndim !== (offsets ? 1 : 2))
      throw new ShapeError(`EmbeddingBag: takes bags [N, L], or a list with offsets, got ${indices.aval}`);
    if (perSampleWeights && mode !== 'sum')
      throw new ArgumentError(`EmbeddingBag: perSampleWeights are for mode 'sum', but the mode is '${mode}'`);
    const least = mode === 'max' ? Number.NEGATIVE_INFINITY : 0;
    const pooled = offsets ? inBags(offsets, indices.size(0)) : inRows;
    const counts = paddingIdx === undefined ? null : indices.ne(paddingIdx).unsqueeze(-1); // padding is ignored
    const all = this.rows(indices);
    const weighed = perSampleWeights ? all.mul(perSampleWeights.unsqueeze(-1)) : all;
    const found = pooled(counts ? where(counts, weighed, least) : weighed, mode === 'max');
    if (mode === 'sum') return found;
    if (mode === 'max') return where(isneginf(found), 0, found); // an empty bag
    const one = counts?.to(all.dtype) ?? full([...indices.shape, 1], 1, { dtype: all.dtype });
    return found.div(pooled(one, false).clamp({ min: 1 }));
  }
  override extraRepr(): string {
    return `${super.extraRepr()}, ${showOptions({ mode: this.mode })}`;
  }
}
type Pool = (rows: Tensor, greatest: boolean) => Tensor;
const inRows: Pool = (rows, greatest) => (greatest ? rows.amax({ dim: 1 }) : rows.sum({ dim: 1 }));
const inBags = (offsets: Tensor, count: number): Pool => {
  const bag = searchsorted(offsets, arange(count, { dtype: offsets.dtype }), { right: true }).sub(1);
  return (rows, greatest) => {
    const shape = [offsets.size(0), rows.size(1)];
    const at = bag.unsqueeze(1).expand(rows.shape);
    if (!greatest) return zeros(shape, { dtype: rows.dtype }).scatterAdd(0, at, rows);
    return full(shape, Number.NEGATIVE_INFINITY, { dtype: rows.dtype }).scatterReduce(0, at, rows, 'amax');
  };
};
