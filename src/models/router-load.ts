// The load of experts, and the load-balancing loss.
import { arange, full, zeros } from '../tensor/create.js';
import { softmax } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';

/** Sums over layers and tokens for the load-balancing loss: f32[E] both, and the number of tokens, f32[]. */
export interface RouterLoad {
  /** The number of times that each expert was chosen. */
  readonly chosen: Tensor;
  /** The sum of the routers' probabilities for each expert. */
  readonly shares: Tensor;
  readonly tokens: Tensor;
}

/** The load of one layer's logits [B, T, E]. `mask`, bool[B, T]: the tokens that count. */
export function routerLoad(logits: Tensor, topK: number, mask?: Tensor): RouterLoad {
  const E = logits.size(-1);
  const flat = logits.reshape([-1, E]);
  const counts = mask?.reshape([-1, 1]).float();
  const counted = (x: Tensor): Tensor => (counts ? x.mul(counts) : x).sum(0);
  const shares = softmax(flat, -1);
  const places = shares.detach().topk(topK).indices.to('i32').unsqueeze(-1); // [N, k, 1]
  const isChosen = places
    .eq(arange(E, { dtype: 'i32' }))
    .any(1)
    .float(); // [N, E]
  const tokens = counts ? counts.sum() : full([], flat.size(0), { dtype: 'f32' });
  return { chosen: counted(isChosen), shares: counted(shares.float()), tokens };
}
export const addLoad = (a: RouterLoad, b: RouterLoad): RouterLoad => ({
  chosen: a.chosen.add(b.chosen),
  shares: a.shares.add(b.shares),
  tokens: a.tokens.add(b.tokens),
});
/** The initial load of a loop over layers. */
export const noLoad = (numExperts: number): RouterLoad => ({
  chosen: zeros([numExperts], { dtype: 'f32' }),
  shares: zeros([numExperts], { dtype: 'f32' }),
  tokens: zeros([], { dtype: 'f32' }),
});

/** The load-balancing loss (arXiv:2101.03961, equations 4 to 6): k if all experts have the same load, else more. */
export const loadBalancingLoss = ({ chosen, shares, tokens }: RouterLoad): Tensor =>
  chosen.div(tokens).mul(shares.div(tokens)).sum().mul(chosen.size(0));
