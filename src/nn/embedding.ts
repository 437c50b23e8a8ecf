// Tables of rows that are learned.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { gathered } from '../spmd/gathered.js';
import { noGrad } from '../tensor/autograd.js';
import { arange, empty, full, tensor, zeros } from '../tensor/create.js';
import { embedding, isneginf, searchsorted, where } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import * as init from './init.js';
import { Module, Parameter } from './module.js';
import { checkCount, type Given, optionsInOrder, optionsOf, showOptions } from './options.js';

export interface EmbeddingOptions {
  /** The index whose row is 0 and learns nothing. */
  readonly paddingIdx?: number;
}
/** What both have: the table, and an index that stands for nothing. */
class Table extends Module {
  readonly weight: Parameter;
  readonly paddingIdx: number | undefined;
  constructor(
    readonly numEmbeddings: number,
    readonly embeddingDim: number,
    paddingIdx: number | undefined,
  ) {
    super();
    const { name } = new.target;
    checkCount(`${name}: numEmbeddings`, numEmbeddings);
    checkCount(`${name}: embeddingDim`, embeddingDim);
    if (paddingIdx !== undefined && !(paddingIdx >= -numEmbeddings && paddingIdx < numEmbeddings))
      throw new ArgumentError(`${name}: paddingIdx is ${paddingIdx}: there are ${numEmbeddings} rows`);
    this.paddingIdx = paddingIdx === undefined || paddingIdx >= 0 ? paddingIdx : paddingIdx + numEmbeddings;
    this.weight = init.normal_(new Parameter(empty([numEmbeddings, embeddingDim])));
    const row = this.paddingIdx;
    if (row !== undefined) noGrad(() => this.weight.indexFill_(0, tensor([row]), 0));
  }
  protected rows(indices: Tensor): Tensor {
    const { paddingIdx } = this;
    return embedding(indices, gathered(this.weight), paddingIdx === undefined ? {} : { paddingIdx });
  }
  override extraRepr(): string {
    const padding = this.paddingIdx === undefined ? '' : `, paddingIdx=${this.paddingIdx}`;
    return `${this.numEmbeddings}, ${this.embeddingDim}${padding}`;
  }
}

/** A table of rows: whole numbers become rows of it. */
export class Embedding extends Table {
  constructor(numEmbeddings: number, embeddingDim: number, ...options: Given<EmbeddingOptions, ['paddingIdx']>) {
    super(
      numEmbeddings,
      embeddingDim,
      optionsInOrder<EmbeddingOptions>('Embedding', ['paddingIdx'], { paddingIdx: undefined }, options).paddingIdx,
    );
  }
  override forward(indices: Tensor): Tensor {
    return this.rows(indices);
  }
}

export interface EmbeddingBagOptions extends EmbeddingOptions {
  readonly mode?: 'sum' | 'mean' | 'max';
}
export interface BagOptions {
  /** Where each bag begins in a list of indices. */
  readonly offsets?: Tensor | null;
  /** What each row is multiplied with; for sums only. */
  readonly perSampleWeights?: Tensor | null;
}
/** Rows of a table, added up, averaged or their greatest for each bag: [N, L], or a list of indices with offsets [N]. */
export class EmbeddingBag extends Table {
  readonly mode: 'sum' | 'mean' | 'max';
  constructor(numEmbeddings: number, embeddingDim: number, options: EmbeddingBagOptions = {}) {
    const { mode, paddingIdx } = optionsOf<EmbeddingBagOptions>(
      'EmbeddingBag',
      { mode: 'mean', paddingIdx: undefined },
      options,
    );
    if (!['sum', 'mean', 'max'].includes(mode!))
      throw new ArgumentError(`EmbeddingBag: mode is '${mode}': use 'sum', 'mean' or 'max'`);
    super(numEmbeddings, embeddingDim, paddingIdx);
    this.mode = mode!;
  }
  override forward(indices: Tensor, options: BagOptions = {}): Tensor {
    const { offsets, perSampleWeights } = optionsOf<BagOptions>(
      'EmbeddingBag.forward',
      { offsets: null, perSampleWeights: null },
      options,
    );
    const { mode, paddingIdx } = this;
    if (indices.ndim !== (offsets ? 1 : 2))
      throw new ShapeError(`EmbeddingBag: takes bags [N, L], or a list with offsets, got ${indices.aval}`);
    if (perSampleWeights && mode !== 'sum')
      throw new ArgumentError(`EmbeddingBag: perSampleWeights are for mode 'sum', this is '${mode}'`);
    const least = mode === 'max' ? Number.NEGATIVE_INFINITY : 0;
    const pooled = offsets ? inBags(offsets, indices.size(0)) : inRows;
    const counts = paddingIdx === undefined ? null : indices.ne(paddingIdx).unsqueeze(-1); // padding counts for nothing
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
