// MultiheadAttention, as in torch: attention with several heads and input and output projections.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { describe } from '../base/tree.js';
import { scaledDotProductAttention } from '../tensor/attention.js';
import { empty, ones, zeros } from '../tensor/create.js';
import { cat, linear, matmul, pad, softmax, where } from '../tensor/functions.js';
import { dropout } from '../tensor/random.js';
import { Tensor } from '../tensor/tensor.js';
import * as init from './init.js';
import { Linear } from './linear.js';
import { Module, Parameter } from './module.js';
import { checkCount, checkProbability, type Given, optionsInOrder, showOptions } from './options.js';

export interface MultiheadAttentionOptions {
  /** The dropout probability of the attention weights in train mode. Default: 0. */
  readonly dropout?: number;
  readonly bias?: boolean;
  /** Whether to append a learned key and value. Default: false. */
  readonly addBiasKv?: boolean;
  /** Whether to append a key and a value of zeros. Default: false. */
  readonly addZeroAttn?: boolean;
  /** The widths of keys and values. Default: embedDim. */
  readonly kdim?: number | null;
  readonly vdim?: number | null;
  /** Whether tensors are [N, L, E] instead of [L, N, E]. Default: false. */
  readonly batchFirst?: boolean;
}
type MadeWith = Required<Omit<MultiheadAttentionOptions, 'kdim' | 'vdim'>> &
  Pick<MultiheadAttentionOptions, 'kdim' | 'vdim'>;
const ORDER = ['dropout', 'bias', 'addBiasKv', 'addZeroAttn', 'kdim', 'vdim', 'batchFirst'] as const;
export interface AttendOptions {
  /** [N, S]: true (or -infinity for floats) for keys to ignore. */
  readonly keyPaddingMask?: Tensor | null;
  /** [L, S] or [N * heads, L, S]: true for pairs to mask; floats are added to the scores. */
  readonly attnMask?: Tensor | null;
  /** Whether each position attends only to itself and those before. In torch a hint about attnMask; here it is the mask. */
  readonly isCausal?: boolean;
  /** Whether to return the attention weights too. Default: true. */
  readonly needWeights?: boolean;
  /** Whether to average the weights over the heads. Default: true. */
  readonly averageAttnWeights?: boolean;
}
const ATTEND = ['keyPaddingMask', 'needWeights', 'attnMask', 'averageAttnWeights', 'isCausal'] as const;
type Projected = [q: Tensor, k: Tensor, v: Tensor];
type Attended = [output: Tensor, weights: Tensor | null];

/** Multi-head attention with projections: forward(query, key, value). */
export class MultiheadAttention extends Module {
  inProjWeight: Parameter | null;
  /** Used instead of inProjWeight if keys or values have other widths. */
  qProjWeight: Parameter | null;
  kProjWeight: Parameter | null;
  vProjWeight: Parameter | null;
  inProjBias: Parameter | null;
  biasK: Parameter | null;
  biasV: Parameter | null;
  readonly outProj: Linear;
  readonly kdim: number;
  readonly vdim: number;
  readonly dropout: number;
  readonly batchFirst: boolean;
  readonly addZeroAttn: boolean;

  constructor(
    readonly embedDim: number,
    readonly numHeads: number,
    ...options: Given<MultiheadAttentionOptions, typeof ORDER>
  ) {
    super();
    const name = 'MultiheadAttention';
    const given = optionsInOrder<MadeWith>(
      name,
      ORDER,
      {
        dropout: 0,
        bias: true,
        addBiasKv: false,
        addZeroAttn: false,
        kdim: undefined,
        vdim: undefined,
        batchFirst: false,
      },
      options,
    );
    checkCount(`${name}: embedDim`, embedDim);
    checkCount(`${name}: numHeads`, numHeads);
    if (embedDim % numHeads)
      throw new ArgumentError(`${name}: numHeads ${numHeads} does not divide embedDim ${embedDim}`);
    this.kdim = checkCount(`${name}: kdim`, given.kdim ?? embedDim);
    this.vdim = checkCount(`${name}: vdim`, given.vdim ?? embedDim);
    this.dropout = checkProbability(`${name}: dropout`, given.dropout);
    this.batchFirst = given.batchFirst;
    this.addZeroAttn = given.addZeroAttn;
    const projection = (...shape: [number, number]) => init.xavierUniform_(new Parameter(empty(shape)));
    const together = this.kdim === embedDim && this.vdim === embedDim;
    this.inProjWeight = together ? projection(3 * embedDim, embedDim) : null;
    this.qProjWeight = together ? null : projection(embedDim, embedDim);
    this.kProjWeight = together ? null : projection(embedDim, this.kdim);
    this.vProjWeight = together ? null : projection(embedDim, this.vdim);
    this.inProjBias = given.bias ? new Parameter(zeros([3 * embedDim])) : null;
    this.outProj = new Linear(embedDim, embedDim, { bias: given.bias });
    if (this.outProj.bias) init.zeros_(this.outProj.bias);
    const extra = () => (given.addBiasKv ? init.xavierNormal_(new Parameter(empty([1, 1, embedDim]))) : null);
    this.biasK = extra();
    this.biasV = extra();
  }

  /** Returns [output, weights]; the weights are null unless needWeights is set. */
  override forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ...options: Given<AttendOptions, typeof ATTEND>
  ): Attended {
    const given = optionsInOrder<AttendOptions>(
      'MultiheadAttention.forward',
      ATTEND,
      { keyPaddingMask: null, attnMask: null, isCausal: false, needWeights: true, averageAttnWeights: true },
      options,
    );
    for (const [name, x] of Object.entries({ query, key, value }))
      if (!(x instanceof Tensor))
        throw new ArgumentError(
          `MultiheadAttention.forward: ${name} is ${describe(x)}: it takes query, key and value: for self-attention write forward(x, x, x)`,
        );
    if (query.ndim !== 3 && query.ndim !== 2)
      throw new ShapeError(
        `MultiheadAttention: takes ${this.batchFirst ? '[N, L, E]' : '[L, N, E]'}, or that without N, got ${query.aval}`,
      );
    const batched = query.ndim === 3;
    const arrange = (x: Tensor) => (!batched ? x.unsqueeze(0) : this.batchFirst ? x : x.transpose(0, 1)); // [N, L, E]
    const same = key === query && value === query;
    const [q, k, v] = same
      ? this.projectOne(arrange(query))
      : this.project(arrange(query), arrange(key), arrange(value));
    const [heads, others] = [this.split(q), this.extend(k, v)];
    const { k: keys, v: values, added } = others;
    const dropoutP = this.training ? this.dropout : 0;
    // isCausal alone needs no mask, unless the weights are returned.
    const isCausal = Boolean(
      given.isCausal && !given.needWeights && !given.attnMask && !given.keyPaddingMask && !added,
    );
    const mask = isCausal ? null : this.maskOf(given, heads, others.length, added, batched);
    const { found, weights } = given.needWeights
      ? attendWithWeights(heads, keys, values, mask, dropoutP)
      : {
          weights: null,
          found: scaledDotProductAttention(heads, keys, values, { attnMask: mask, isCausal, dropoutP }),
        };
    const [n, , length] = heads.shape as [number, number, number, number];
    const output = this.outProj.forward(found.transpose(1, 2).reshape([n, length, this.embedDim]));
    const shown = weights && given.averageAttnWeights ? weights.mean({ dim: 1 }) : weights;
    if (!batched) return [output.squeeze(0), shown?.squeeze(0) ?? null];
    return [this.batchFirst ? output : output.transpose(0, 1), shown];
  }

  /** Queries, keys and values of one input: one product. */
  private projectOne(x: Tensor): Projected {
    if (!this.inProjWeight) return this.project(x, x, x);
    return linear(x, this.inProjWeight, this.inProjBias).chunk(3, { dim: -1 }) as Projected;
  }
  private project(...xs: Projected): Projected {
    const weights = this.inProjWeight?.chunk(3) ?? [this.qProjWeight!, this.kProjWeight!, this.vProjWeight!];
    const biases = this.inProjBias?.chunk(3);
    return xs.map((x, i) => linear(x, weights[i]!, biases?.[i] ?? null)) as Projected;
  }
  /** [N, L, E] to [N, heads, L, E / heads]. */
  private split(x: Tensor): Tensor {
    const [n, length] = x.shape as [number, number];
    return x.reshape([n, length, this.numHeads, this.embedDim / this.numHeads]).transpose(1, 2);
  }
  /** Keys and values with those that are appended; and the numbers of given and appended ones. */
  private extend(k: Tensor, v: Tensor): { k: Tensor; v: Tensor; length: number; added: number } {
    const [n, length] = k.shape as [number, number];
    const learned = (x: Tensor, more: Tensor | null) =>
      more ? cat([x, more.to(x.dtype).expand([n, 1, this.embedDim])], 1) : x;
    const [keys, values] = [this.split(learned(k, this.biasK)), this.split(learned(v, this.biasV))];
    const zero = (x: Tensor) => (this.addZeroAttn ? pad(x, [0, 0, 0, 1]) : x);
    return { k: zero(keys), v: zero(values), length, added: Number(this.biasK !== null) + Number(this.addZeroAttn) };
  }
  /** Both masks as one that is added to the scores [N, heads, L, S + added]; appended keys are never masked. */
  private maskOf(
    { keyPaddingMask, attnMask, isCausal }: AttendOptions,
    heads: Tensor,
    keys: number,
    added: number,
    batched: boolean,
  ): Tensor | null {
    const [n, h, length] = heads.shape as [number, number, number];
    const parts: Tensor[] = [];
    if (attnMask) {
      const shapes = [
        [length, keys],
        [n * h, length, keys],
      ];
      if (!shapes.some((s) => String(s) === String(attnMask.shape)))
        throw new ShapeError(
          `MultiheadAttention: attnMask is ${attnMask.aval}: it must be [${shapes[0]!.join(', ')}] or [${shapes[1]!.join(', ')}]`,
        );
      parts.push(additive(attnMask, heads).reshape(attnMask.ndim === 2 ? [1, 1, length, keys] : [n, h, length, keys]));
    } else if (isCausal) {
      const later = ones([length, keys], { dtype: 'bool' }).triu(1);
      parts.push(additive(later, heads).reshape([1, 1, length, keys]));
    }
    if (keyPaddingMask) {
      const expected = batched ? [n, keys] : [keys];
      if (String(keyPaddingMask.shape) !== String(expected))
        throw new ShapeError(
          `MultiheadAttention: keyPaddingMask is ${keyPaddingMask.aval}: it must be [${expected.join(', ')}]`,
        );
      parts.push(additive(keyPaddingMask, heads).reshape([n, 1, 1, keys]));
    }
    if (!parts.length) return null;
    const mask = parts.reduce((a, b) => a.add(b));
    return added ? pad(mask, [0, added]) : mask;
  }

  override extraRepr(): string {
    const { embedDim, numHeads, dropout, kdim, vdim, batchFirst, addZeroAttn, inProjBias } = this;
    const widths = this.inProjWeight ? {} : { kdim, vdim };
    const flags = { ...(batchFirst && { batchFirst }), ...(addZeroAttn && { addZeroAttn }) };
    const rest = { ...(dropout && { dropout }), ...(!inProjBias && { bias: false }), ...widths, ...flags };
    return [`${embedDim}, ${numHeads}`, ...(Object.keys(rest).length ? [showOptions(rest)] : [])].join(', ');
  }
}

/** A mask as numbers that are added to scores: -infinity for true. */
const additive = (mask: Tensor, like: Tensor): Tensor =>
  mask.dtype === 'bool' ? where(mask, Number.NEGATIVE_INFINITY, zeros([], { dtype: like.dtype })) : mask.to(like.dtype);

/** scaledDotProductAttention that also returns the weights. */
function attendWithWeights(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | null, dropoutP: number) {
  const scores = matmul(q.mul(1 / Math.sqrt(q.size(-1))), k.adjoint());
  const weights = dropout(softmax(mask ? scores.add(mask) : scores, -1), dropoutP);
  return { found: matmul(weights, v), weights };
}
