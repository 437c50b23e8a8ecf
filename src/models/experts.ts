// Routed experts: a router chooses k of E MLPs for each token and adds their results by its weights. No token is dropped, and shapes
// are fixed: there is a row for each token and choice, rows are sorted by expert, and each product is one operation for all groups
// of rows (ops/prim/grouped.ts).
//   N = B T tokens, D = hiddenSize, F = the intermediate size of an expert
import { Experts } from '../nn/experts.js';
import { Linear } from '../nn/linear.js';
import { customVjp } from '../tensor/autograd.js';
import { arange } from '../tensor/create.js';
import { softmax } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Activation } from './activations.js';
import { DecoderMLP, GatedMLP } from './blocks.js';

export interface Routing {
  readonly numExperts: number;
  /** The number of experts for each token. */
  readonly topK: number;
  /** Whether the weights of a token's experts are normalized to sum 1. */
  readonly normalized: boolean;
}
export interface ExpertSizes {
  readonly hiddenSize: number;
  /** The intermediate size of one expert. */
  readonly intermediateSize: number;
  readonly activation?: Activation;
}

export class RoutedMLP extends DecoderMLP {
  readonly gate: Linear;
  readonly experts: Experts<GatedMLP>;
  readonly routing: Routing;
  constructor({ activation = 'silu', ...sizes }: ExpertSizes, routing: Routing) {
    super();
    this.gate = new Linear(sizes.hiddenSize, routing.numExperts, { bias: false });
    this.experts = new Experts(routing.numExperts, this.makeExpert(sizes, activation));
    this.routing = routing;
  }
  protected makeExpert(sizes: Omit<ExpertSizes, 'activation'>, activation: Activation): GatedMLP {
    return new GatedMLP(sizes, { activation });
  }
  /** The router's logits [B, T, E], the weights of the choices [N, k], how rows are sorted, and the experts' branches [N k, F]. */
  override open(x: Tensor): Tensor[] {
    const { topK: k, numExperts } = this.routing;
    const logits = this.gate.forward(x); // [B, T, E]
    const { weights, chosen } = this.route(logits);
    const { order, place, sizes } = sortByExpert(chosen, numExperts);
    const rows = toExperts(x.reshape([-1, x.size(-1)]), order, place, k); // [N k, D]
    return [logits, weights, order, place, sizes, ...this.experts.among(sizes, (expert) => expert.open(rows))];
  }
  override close([logits, weights, order, place, sizes, ...branches]: readonly Tensor[]): Tensor {
    const made = this.experts.among(sizes!, (expert) => expert.close(branches)); // [N k, D]
    const own = fromExperts(made, order!, place!).reshape([...weights!.shape, -1]); // [N, k, D]
    const sum = own.mul(weights!.unsqueeze(-1).to(own.dtype)).sum(1); // [N, D]
    return sum.reshape([...logits!.shape.slice(0, -1), -1]);
  }
  protected override routed([logits]: readonly Tensor[]): Tensor {
    return logits!;
  }
  /** The experts of each token, best first, [N, k], and their weights. In f32, as in transformers. */
  private route(logits: Tensor): { readonly weights: Tensor; readonly chosen: Tensor } {
    const { topK, numExperts, normalized } = this.routing;
    const shares = softmax(logits.reshape([-1, numExperts]).float(), -1);
    const { values, indices: chosen } = shares.topk(topK);
    const weights = normalized ? values.div(values.sum(-1, true)) : values;
    return { weights: weights.to(logits.dtype), chosen };
  }
  override extraRepr(): string {
    const { numExperts, topK, normalized } = this.routing;
    return `${topK} of ${numExperts} experts${normalized ? ', normalized' : ''}`;
  }
}

// ---- rows by expert

interface Sorted {
  /** The choice of each row, i32[N k]: choice j of token i has the index i k + j. */
  readonly order: Tensor;
  /** The row of each choice, i32[N k]. */
  readonly place: Tensor;
  /** The number of rows of each expert, i32[E]. */
  readonly sizes: Tensor;
}
function sortByExpert(chosen: Tensor, numExperts: number): Sorted {
  const flat = chosen.detach().reshape([-1]).to('i32');
  const order = flat.argsort({ stable: true }).to('i32');
  const place = order.argsort().to('i32');
  const sizes = flat
    .unsqueeze(1)
    .eq(arange(numExperts, { dtype: 'i32' }))
    .sum({ dim: 0, dtype: 'i32' });
  return { order, place, sizes };
}

/**
 * From tokens [N, D] to a row for each choice, [N k, D]. The gradient gathers the rows of each token; that of a plain indexSelect
 * would be a scatter-add.
 */
function toExperts(x: Tensor, order: Tensor, place: Tensor, k: number): Tensor {
  const read = (x: Tensor, order: Tensor, _: Tensor) => x.indexSelect(0, order.floorDivide(k));
  const rows = customVjp(read, {
    forward: (x, order, place) => [read(x, order, place), place] as const,
    backward: (place: Tensor, g: Tensor) => {
      const own = g.indexSelect(0, place).reshape([-1, k, g.size(-1)]);
      return [own.sum(1), null, null];
    },
  });
  return rows(x, order, place);
}
/** Reorders the rows of the experts, [N k, D], by choice. */
const fromExperts = customVjp((y: Tensor, _: Tensor, place: Tensor) => y.indexSelect(0, place), {
  forward: (y, order, place) => [y.indexSelect(0, place), order] as const,
  backward: (order: Tensor, g: Tensor) => [g.indexSelect(0, order), null, null],
});
