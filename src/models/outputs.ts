// Additional outputs of a decoder: hidden states, attention weights and router logits, with transformers' shapes and order.
import { ArgumentError } from '../base/errors.js';
import { ones } from '../tensor/create.js';
import { matmul, softmax, where } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { addLoad, type RouterLoad } from './router-load.js';

export interface OutputOptions {
  /** Also return the embeddings and the output of each layer: numHiddenLayers + 1 tensors [B, T, D]. Default: false. */
  readonly outputHiddenStates?: boolean | undefined;
  /** Also return the attention weights of each layer: [B, H, T, S]. Default: false. */
  readonly outputAttentions?: boolean | undefined;
  /** Also return the logits of each layer's router, [B T, experts], and the load-balancing loss. Default: false. */
  readonly outputRouterLogits?: boolean | undefined;
  /** Also return the sums for the load-balancing loss, which works with scanLayers too. Default: false. */
  readonly outputRouterLoad?: boolean | undefined;
}
/** The requested outputs; others are null. The last hidden state is the one after the last norm, as in transformers. */
export interface DecoderOutputs {
  readonly hiddenStates: readonly Tensor[] | null;
  readonly attentions: readonly Tensor[] | null;
  readonly routerLogits: readonly Tensor[] | null;
  readonly routerLoad: RouterLoad | null;
}
export interface DecoderModelOutput extends DecoderOutputs {
  readonly lastHiddenState: Tensor;
}
export interface DecoderOutput extends DecoderOutputs {
  readonly logits: Tensor;
  /** The load-balancing loss, f32[]. */
  readonly auxLoss: Tensor | null;
}
/** Options with which forward returns an object. */
export type WithOutputs<I> = I & { [K in keyof OutputOptions]-?: AskedFor<K> }[keyof OutputOptions];
type AskedFor<K extends keyof OutputOptions> = { readonly [P in K]: true };

export const OUTPUTS = ['outputHiddenStates', 'outputAttentions', 'outputRouterLogits', 'outputRouterLoad'] as const;
export const wantsOutputs = (options: OutputOptions): boolean => OUTPUTS.some((name) => options[name]);

/** The soft cap cap * tanh(x / cap), which is between -cap and cap; null: x itself. */
export const capped = (x: Tensor, cap: number | null): Tensor => (cap === null ? x : x.div(cap).tanh().mul(cap));

/** Tensors that are collected while the layers run. */
export class Collected {
  readonly states: Tensor[] = [];
  readonly weights: Tensor[] = [];
  readonly routers: Tensor[] = [];
  load: RouterLoad | null = null;
  constructor(
    readonly options: OutputOptions,
    /** The load of a layer from its router's logits; null: the model has no routers. */
    readonly loadOf: ((logits: Tensor) => RouterLoad) | null,
  ) {}
  /** Whether router outputs are requested. */
  get wantsRouters(): boolean {
    return Boolean(this.loadOf && (this.options.outputRouterLogits || this.options.outputRouterLoad));
  }
  /** Adds the router logits of one layer, [B, T, experts]. */
  router(logits: Tensor): void {
    const load = this.loadOf!(logits);
    this.load = this.load ? addLoad(this.load, load) : load;
    if (this.options.outputRouterLogits) this.routers.push(logits.reshape([-1, logits.size(-1)]));
  }
  state(x: Tensor): void {
    if (this.options.outputHiddenStates) this.states.push(x);
  }
  /** The receiver of attention weights; undefined: they are not computed. */
  get seen(): ((weights: Tensor) => void) | undefined {
    return this.options.outputAttentions ? (w) => void this.weights.push(w) : undefined;
  }
  outputs(): DecoderOutputs {
    const { outputHiddenStates, outputAttentions, outputRouterLogits } = this.options;
    return {
      hiddenStates: outputHiddenStates ? this.states : null,
      attentions: outputAttentions ? this.weights : null,
      routerLogits: outputRouterLogits && this.loadOf ? this.routers : null,
      routerLoad: this.load,
    };
  }
}
/** Throws for outputs that a loop over the layers does not have: it only has the load of routers. */
export function refuseStack(model: string, options: OutputOptions): void {
  const name = OUTPUTS.find((name) => name !== 'outputRouterLoad' && options[name]);
  if (!name) return;
  throw new ArgumentError(
    `${model}: ${name} is not available with scanLayers, where the layers are one loop: create the model without scanLayers`,
  );
}

/** Instead of -Infinity, which would give NaNs, also in the gradient, for a query that sees no key. */
const LEAST = -1e30;

/** Receives a router's logits, [B, T, experts]. */
export type Routed = (logits: Tensor) => void;

/** Receives attention weights. */
export type Seen = (weights: Tensor) => void;

/** scaledDotProductAttention that exposes its weights or caps its scores. q: [B, H, T, d], k and v: [B, G, S, d]. */
export function attendSeen(
  q: Tensor,
  k: Tensor,
  v: Tensor,
  visible: Tensor | null,
  { scale = 1 / Math.sqrt(q.size(-1)), softcap = null }: { readonly scale?: number; readonly softcap?: number | null },
  seen?: Seen,
): Tensor {
  const share = q.size(1) / k.size(1);
  const [keys, values] = [k, v].map((x) => x.repeatInterleave(share, { dim: 1 })) as [Tensor, Tensor];
  const mask = visible ?? ones([q.size(2), k.size(2)], { dtype: 'bool' }).tril(k.size(2) - q.size(2));
  const scores = capped(matmul(q, keys.adjoint()).mul(scale), softcap);
  const some = softmax(where(mask, scores.float(), LEAST), -1); // in f32, as transformers
  const weights = where(mask, some, 0).to(q.dtype); // a query that sees no key gets zeros
  seen?.(weights);
  return matmul(weights, values);
}
