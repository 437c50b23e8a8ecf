// What decoders are made of: norms, attention with grouped heads, MLPs, and the layer around them. An architecture is a choice
// of these, in a file of its own. Names of fields are Hugging Face's in camelCase, so its files load by name.
//   B sequences, T tokens, S tokens to be seen, D = hiddenSize, H heads that share G key-value heads, d = headDim
import { hasHooks } from '../nn/hooks.js';
import { Linear } from '../nn/linear.js';
import { type Buffer, Module, Parameter } from '../nn/module.js';
import { forwardEach } from '../nn/projection.js';
import { scaledDotProductAttention } from '../tensor/attention.js';
import { checkpoint } from '../tensor/autograd.js';
import { full, ones } from '../tensor/create.js';
import type { Tensor } from '../tensor/tensor.js';
import { ACTIVATIONS, type Activation } from './activations.js';
import type { Append } from './cache.js';
import type { DecoderSizes } from './config.js';
import { fusesHeads, type HeadNorms, turnHeads } from './heads.js';
import { attendSeen, type Routed, type Seen } from './outputs.js';
import { type Rotation, rotate } from './rope.js';

/** A module's members under the names that files have. */
export function* renamed(
  members: Iterable<[string, unknown]>,
  names: Readonly<Record<string, string>>,
): ReturnType<Module['members']> {
  for (const [name, member] of members) yield [names[name] ?? name, member] as never;
}

// ---- norms

/** A norm of the last dimension. */
export interface Norm extends Module {
  weight: Parameter;
  forward(x: Tensor): Tensor;
}

/** In Llama's order: normalized in f32, rounded to x's dtype, then scaled. */
export class DecoderRMSNorm extends Module {
  weight: Parameter;
  constructor(
    size: number,
    readonly eps: number,
  ) {
    super();
    this.weight = new Parameter(ones([size]));
  }
  override forward(x: Tensor): Tensor {
    const wide = x.float();
    const variance = wide.square().mean({ dim: -1, keepdim: true });
    return wide.mul(variance.add(this.eps).rsqrt()).to(x.dtype).mul(this.weight);
  }
  override extraRepr(): string {
    return `${this.weight.shape[0]}, eps=${this.eps}`;
  }
}

/** Normalized and scaled in f32, then rounded. The scale is `offset` + weight: of Gemma's, 1 + weight. */
export class WideRMSNorm extends Module {
  weight: Parameter;
  constructor(
    size: number,
    readonly eps: number,
    readonly offset = 0,
  ) {
    super();
    this.weight = new Parameter(full([size], 1 - offset, { dtype: 'f32' }));
  }
  override forward(x: Tensor): Tensor {
    const wide = x.float();
    const variance = wide.square().mean({ dim: -1, keepdim: true });
    const scale = this.offset ? this.weight.float().add(this.offset) : this.weight.float();
    return wide.mul(variance.add(this.eps).rsqrt()).mul(scale).to(x.dtype);
  }
  override extraRepr(): string {
    return `${this.weight.shape[0]}, eps=${this.eps}${this.offset ? `, offset=${this.offset}` : ''}`;
  }
}

/** What a norm computes; undefined: its class is another one, or it has hooks. */
function numbersOf(norm: Norm | null): Pick<HeadNorms, 'eps' | 'offset'> | undefined {
  if (!norm || hasHooks(norm)) return undefined;
  if (norm instanceof DecoderRMSNorm && norm.forward === DecoderRMSNorm.prototype.forward)
    return { eps: norm.eps, offset: 0 };
  if (norm instanceof WideRMSNorm && norm.forward === WideRMSNorm.prototype.forward)
    return { eps: norm.eps, offset: norm.offset };
  return undefined;
}

// ---- attention

export type AttentionSizes = Pick<DecoderSizes, 'hiddenSize' | 'numAttentionHeads' | 'numKeyValueHeads' | 'headDim'>;
export interface AttentionOptions {
  /** Of the scores. Default: 1 / sqrt(d). */
  readonly scale?: number | undefined;
  /** Scores stay between -softcap and softcap. Default: no cap. */
  readonly softcap?: number | null | undefined;
}

/** Attention from queries, keys and values that subclasses compute. */
export abstract class DecoderAttention extends Module {
  abstract readonly oProj: Linear;
  readonly sizes: AttentionSizes;
  readonly options: AttentionOptions;
  constructor(sizes: AttentionSizes, { scale, softcap = null }: AttentionOptions = {}) {
    super();
    const { hiddenSize, numAttentionHeads, numKeyValueHeads, headDim } = sizes;
    this.sizes = { hiddenSize, numAttentionHeads, numKeyValueHeads, headDim };
    this.options = { ...(scale !== undefined && { scale }), softcap };
  }
  override forward(x: Tensor, rotation: Rotation | null, visible: Tensor | null, append?: Append, seen?: Seen): Tensor {
    return this.attend(this.project(x), rotation, visible, append, seen);
  }
  /** Queries, keys and values: [B, T, H d], and twice [B, T, G d]. */
  abstract project(x: Tensor): Tensor[];
  /** What happens to queries or keys [B, T, H or G, d] before they are turned. */
  protected normQuery(q: Tensor): Tensor {
    return q;
  }
  protected normKey(k: Tensor): Tensor {
    return k;
  }
  /** The norms of heads as numbers, for a kernel; null: there are none; undefined: they are of another kind. */
  protected headNorms(): HeadNorms | null | undefined {
    return null;
  }
  /** Queries and keys [B, T, H or G, d], normalized and turned. */
  private turned(xq: Tensor, xk: Tensor, rotation: Rotation | null): [Tensor, Tensor] {
    const norms = rotation && fusesHeads(xq, xk, rotation) ? this.headNorms() : undefined;
    if (rotation && norms !== undefined) {
      const [q, k] = turnHeads(xq, xk, rotation, norms);
      return [q.transpose(1, 2), k.transpose(1, 2)];
    }
    const turn = (x: Tensor) => (rotation ? rotate(x, rotation) : x);
    return [turn(this.normQuery(xq).transpose(1, 2)), turn(this.normKey(xk).transpose(1, 2))];
  }
  attend(
    projected: readonly Tensor[],
    rotation: Rotation | null,
    visible: Tensor | null,
    append?: Append,
    seen?: Seen,
  ): Tensor {
    const [B, T] = projected[0]!.shape as [number, number];
    const { scale, softcap = null } = this.options;
    const heads = (y: Tensor) => y.reshape([B, T, -1, this.sizes.headDim]); // [B, T, H or G, d]
    const [xq, xk, xv] = projected.map(heads) as [Tensor, Tensor, Tensor];
    const [q, k] = this.turned(xq, xk, rotation); // [B, H, T, d], [B, G, T, d]
    const v = xv.transpose(1, 2); // [B, G, T, d]
    const [keys, values] = append?.(k, v) ?? [k, v]; // [B, G, S, d]
    const mask = visible ? { attnMask: visible } : { isCausal: true };
    const scaled = scale === undefined ? {} : { scale };
    const y =
      seen || softcap !== null
        ? attendSeen(q, keys, values, visible, { ...scaled, softcap }, seen)
        : scaledDotProductAttention(q, keys, values, { ...mask, ...scaled, enableGqa: true }); // [B, H, T, d]
    return this.oProj.forward(y.transpose(1, 2).reshape([B, T, -1])); // [B, T, D]
  }
}

export interface SplitAttentionOptions extends AttentionOptions {
  /** Biases of queries, keys and values, and of the output. Default: none. */
  readonly bias?: boolean | { readonly qkv: boolean; readonly o: boolean };
  /** Norms of queries and keys: of each head by itself, or of all heads together. */
  readonly qkNorm?: { readonly of: 'head' | 'all'; make(size: number): Norm };
}

/** A linear layer each for queries, keys, values and the output. */
export class Attention extends DecoderAttention {
  readonly qProj: Linear;
  readonly kProj: Linear;
  readonly vProj: Linear;
  readonly oProj: Linear;
  readonly qNorm: Norm | null;
  readonly kNorm: Norm | null;
  readonly normOf: 'head' | 'all';
  constructor(sizes: AttentionSizes, options: SplitAttentionOptions = {}) {
    super(sizes, options);
    const { hiddenSize: D, numAttentionHeads: H, numKeyValueHeads: G, headDim: d } = sizes;
    const { bias = false, qkNorm } = options;
    const { qkv, o } = typeof bias === 'object' ? bias : { qkv: bias, o: bias };
    this.qProj = new Linear(D, H * d, { bias: qkv });
    this.kProj = new Linear(D, G * d, { bias: qkv });
    this.vProj = new Linear(D, G * d, { bias: qkv });
    this.oProj = new Linear(H * d, D, { bias: o });
    this.normOf = qkNorm?.of ?? 'head';
    this.qNorm = qkNorm?.make(this.normOf === 'head' ? d : H * d) ?? null;
    this.kNorm = qkNorm?.make(this.normOf === 'head' ? d : G * d) ?? null;
  }
  override project(x: Tensor): Tensor[] {
    return forwardEach([this.qProj, this.kProj, this.vProj], x);
  }
  protected override normQuery(q: Tensor): Tensor {
    return this.normed(this.qNorm, q);
  }
  protected override normKey(k: Tensor): Tensor {
    return this.normed(this.kNorm, k);
  }
  protected override headNorms(): HeadNorms | null | undefined {
    const { qNorm, kNorm } = this;
    if (!qNorm && !kNorm) return null;
    const [q, k] = [qNorm, kNorm].map(numbersOf);
    if (this.normOf !== 'head' || !q || !k || q.eps !== k.eps || q.offset !== k.offset) return undefined;
    return { ...q, weights: [qNorm!.weight, kNorm!.weight] };
  }
  private normed(norm: Norm | null, x: Tensor): Tensor {
    if (!norm) return x;
    return this.normOf === 'head' ? norm.forward(x) : norm.forward(x.flatten(2)).reshape(x.shape);
  }
}

/** One linear layer for queries, keys and values, whose outputs lie side by side. */
export class FusedAttention extends DecoderAttention {
  readonly qkvProj: Linear;
  readonly oProj: Linear;
  constructor(
    sizes: AttentionSizes,
    { bias = false, ...options }: AttentionOptions & { readonly bias?: boolean } = {},
  ) {
    super(sizes, options);
    const { hiddenSize: D, numAttentionHeads: H, numKeyValueHeads: G, headDim: d } = sizes;
    this.qkvProj = new Linear(D, (H + 2 * G) * d, { bias });
    this.oProj = new Linear(H * d, D, { bias });
  }
  override project(x: Tensor): Tensor[] {
    const { numAttentionHeads: H, numKeyValueHeads: G, headDim: d } = this.sizes;
    return [...this.qkvProj.forward(x).split([H * d, G * d, G * d], -1)];
  }
}

// ---- MLPs

/** An MLP in two parts: `light` checkpoints keep what lies between them. */
export abstract class DecoderMLP extends Module {
  /** `routed` is told the router's logits, where there is one. */
  override forward(x: Tensor, routed?: Routed): Tensor {
    const branches = this.open(x);
    this.tell(branches, routed);
    return this.close(branches);
  }
  tell(branches: readonly Tensor[], routed?: Routed): void {
    const logits = routed && this.routed(branches);
    if (logits) routed(logits);
  }
  /** The router's logits [B, T, experts] among the branches; null: there is no router. */
  protected routed(_branches: readonly Tensor[]): Tensor | null {
    return null;
  }
  abstract open(x: Tensor): Tensor[];
  abstract close(branches: readonly Tensor[]): Tensor;
}

export interface MLPOptions {
  readonly bias?: boolean;
  readonly activation?: Activation;
}
type MLPSizes = Pick<DecoderSizes, 'hiddenSize' | 'intermediateSize'>;

/** SwiGLU and its like (arXiv:2002.05202): one branch opens and closes the other. */
export class GatedMLP extends DecoderMLP {
  readonly gateProj: Linear;
  readonly upProj: Linear;
  readonly downProj: Linear;
  readonly activation: Activation;
  constructor(
    { hiddenSize: D, intermediateSize: F }: MLPSizes,
    { bias = false, activation = 'silu' }: MLPOptions = {},
  ) {
    super();
    this.gateProj = new Linear(D, F, { bias });
    this.upProj = new Linear(D, F, { bias });
    this.downProj = new Linear(F, D, { bias });
    this.activation = activation;
  }
  /** Both branches: gate and up. */
  override open(x: Tensor): Tensor[] {
    return forwardEach([this.gateProj, this.upProj], x);
  }
  override close([gate, up]: readonly Tensor[]): Tensor {
    return this.downProj.forward(ACTIVATIONS[this.activation](gate!).mul(up!));
  }
}

/** The same with one linear layer for both branches, the gate's outputs first. */
export class FusedGatedMLP extends DecoderMLP {
  readonly gateUpProj: Linear;
  readonly downProj: Linear;
  readonly activation: Activation;
  constructor(
    { hiddenSize: D, intermediateSize: F }: MLPSizes,
    { bias = false, activation = 'silu' }: MLPOptions = {},
  ) {
    super();
    this.gateUpProj = new Linear(D, 2 * F, { bias });
    this.downProj = new Linear(F, D, { bias });
    this.activation = activation;
  }
  override open(x: Tensor): Tensor[] {
    return [...this.gateUpProj.forward(x).chunk(2, -1)];
  }
  override close([gate, up]: readonly Tensor[]): Tensor {
    return this.downProj.forward(ACTIVATIONS[this.activation](gate!).mul(up!));
  }
}

// ---- the layer

/** Norms before and after attention and MLP; null where there is none. */
export interface LayerNorms {
  readonly beforeAttention: Norm | null;
  readonly afterAttention: Norm | null;
  readonly beforeMlp: Norm | null;
  readonly afterMlp: Norm | null;
}

export abstract class DecoderLayer extends Module {
  abstract readonly selfAttn: DecoderAttention;
  abstract readonly mlp: DecoderMLP;
  /** Which of the model's kinds of layers it is, i32[]: where they differ, and the layers are a loop. */
  kind: Buffer | null = null;
  /** `light`: for the gradient, norms and gates are computed again, and only what products gave is kept. */
  constructor(readonly light = false) {
    super();
  }
  protected abstract norms(): LayerNorms;
  override forward(
    x: Tensor,
    rotation: Rotation | null,
    visible: Tensor | null,
    append?: Append,
    seen?: Seen,
    routed?: Routed,
  ): Tensor {
    const { selfAttn, mlp } = this;
    const { beforeAttention, afterAttention, beforeMlp, afterMlp } = this.norms();
    const normed = (norm: Norm | null, x: Tensor) => (norm ? norm.forward(x) : x);
    if (!this.light || hasHooks(selfAttn) || hasHooks(mlp)) {
      const attended = selfAttn.forward(normed(beforeAttention, x), rotation, visible, append, seen);
      const y = x.add(normed(afterAttention, attended));
      return y.add(normed(afterMlp, mlp.forward(normed(beforeMlp, y), routed)));
    }
    const projected = checkpoint((x: Tensor) => selfAttn.project(normed(beforeAttention, x)), x);
    const y = x.add(normed(afterAttention, selfAttn.attend(projected, rotation, visible, append, seen)));
    const branches = checkpoint((y: Tensor) => mlp.open(normed(beforeMlp, y)), y);
    mlp.tell(branches, routed);
    return y.add(
      normed(
        afterMlp,
        checkpoint((branches: Tensor[]) => mlp.close(branches), branches),
      ),
    );
  }
}

/** Norms before attention and before the MLP, as most decoders have them. */
export abstract class PreNormLayer extends DecoderLayer {
  abstract readonly inputLayernorm: Norm;
  abstract readonly postAttentionLayernorm: Norm;
  protected override norms(): LayerNorms {
    const { inputLayernorm: beforeAttention, postAttentionLayernorm: beforeMlp } = this;
    return { beforeAttention, afterAttention: null, beforeMlp, afterMlp: null };
  }
}
