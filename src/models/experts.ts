// Routed experts: a router chooses k of E MLPs for each token and adds their results by its weights. No token is dropped, and shapes
// are fixed: there is a row for each token and choice, rows are sorted by expert, and each product is one operation for all groups
// of rows (ops/prim/grouped.ts).
//   N = B T tokens, D = hiddenSize, F = the intermediate size of an expert
import type { Mesh, PartitionSpec } from '../ir/mesh.js';
import { Experts } from '../nn/experts.js';
import { Linear } from '../nn/linear.js';
import { openRegion } from '../ops/prim/collective.js';
import { allReduce, type ShardMapOptions, shardMap } from '../spmd/manual.js';
import { markOf } from '../spmd/sharding.js';
import { batchAxes } from '../spmd/shares.js';
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
  /**
   * The router's logits [B, T, E], the weights of the choices [B, T, k], how rows are sorted, and the experts' branches, which have a
   * row for each token and choice.
   */
  override open(x: Tensor): Tensor[] {
    const logits = this.gate.forward(x);
    const spread = this.spread(x);
    const { numExperts, topK } = this.routing;
    const choose = (logits: Tensor, experts: Tensor) => {
      const { weights, chosen } = this.route(logits);
      return [weights, ...sortByExpert(chosen, numExperts, spread?.experts.length ? experts : undefined)];
    };
    const [weights, order, place, sizes] = onDevices(
      choose,
      spread,
      [TOKENS, EXPERTS],
      [TOKENS, ROWS, ROWS, ROWS],
    )(logits, arange(numExperts, { dtype: 'i32' })) as [Tensor, Tensor, Tensor, Tensor];
    const read = (x: Tensor, order: Tensor, place: Tensor) =>
      toExperts(x.reshape([-1, x.size(-1)]), order, place, topK);
    const rows = onDevices(read, spread, [TOKENS, ROWS, ROWS], ROWS)(x, order, place);
    return [logits, weights, order, place, sizes, ...this.among(spread, sizes, (expert) => expert.open(rows))];
  }
  override close([logits, weights, order, place, sizes, ...branches]: readonly Tensor[]): Tensor {
    const spread = this.spread(logits!);
    const made = this.among(spread, sizes!, (expert) => expert.close(branches));
    const sum = (made: Tensor, order: Tensor, place: Tensor, weights: Tensor) => {
      const own = fromExperts(made, order, place).reshape([...weights.shape, -1]); // [B, T, k, D]
      const y = own.mul(weights.unsqueeze(-1).to(own.dtype)).sum(2);
      return spread?.experts.length ? allReduce(y, spread.experts) : y;
    };
    return onDevices(sum, spread, [ROWS, ROWS, ROWS, TOKENS], TOKENS)(made, order!, place!, weights!);
  }
  private among<T>(spread: Spread | null, sizes: Tensor, fn: (expert: GatedMLP) => T): T {
    const split = spread && { mesh: spread.mesh, rows: rowAxes(spread), matrices: spread.experts };
    return this.experts.among(sizes, fn, split);
  }
  protected override routed([logits]: readonly Tensor[]): Tensor {
    return logits!;
  }
  /** The experts of each token, best first, [B, T, k], and their weights. In f32, as in transformers. */
  private route(logits: Tensor): { readonly weights: Tensor; readonly chosen: Tensor } {
    const { topK, normalized } = this.routing;
    const { values, indices: chosen } = softmax(logits.float(), -1).topk(topK);
    const weights = normalized ? values.div(values.sum(-1, true)) : values;
    return { weights: weights.to(logits.dtype), chosen: chosen.detach().to('i32') };
  }
  /** How tokens [B, T, ...] and experts are spread over the devices of the model's mesh; null on one device. */
  private spread(x: Tensor): Spread | null {
    const { expert } = this.experts;
    const [mark] = [...expert.parameters(), ...expert.buffers()].flatMap((t) => markOf(t) ?? []);
    return mark ? spreadOver(mark.mesh, x, mark.axes[0] ?? []) : null;
  }
  override extraRepr(): string {
    const { numExperts, topK, normalized } = this.routing;
    return `${topK} of ${numExperts} experts${normalized ? ', normalized' : ''}`;
  }
}

// ---- devices

/**
 * Each device goes through its own tokens with its own experts: XLA does not split sorted rows, and would have all devices compute
 * all of them. Devices that have the same tokens and other experts add their results.
 */
interface Spread {
  readonly mesh: Mesh;
  /** The axes along which the batch, the sequences and the experts are split. */
  readonly batch: readonly string[];
  readonly sequence: readonly string[];
  readonly experts: readonly string[];
}
type Spec = (spread: Spread) => PartitionSpec;
/** [B, T, ...] */
const TOKENS: Spec = ({ batch, sequence }) => [batch, sequence];
const EXPERTS: Spec = ({ experts }) => [experts];
/** What each device has of its own. */
const ROWS: Spec = (spread) => [rowAxes(spread)];
const rowAxes = ({ batch, sequence, experts }: Spread): string[] => [...batch, ...sequence, ...experts];

function spreadOver(mesh: Mesh, { shape: [B, T] }: Tensor, experts: readonly string[]): Spread | null {
  if (mesh.size === 1 || openRegion()) return null;
  const along = (axes: readonly string[], n: number) => {
    const split = axes.filter((axis) => mesh.sizeOf(axis) > 1 && !experts.includes(axis));
    return n % mesh.sizeOf(split) ? [] : split;
  };
  const sequence = mesh.axisNames.filter((axis) => axis === 'sequence');
  return { mesh, batch: along(batchAxes(mesh), B!), sequence: along(sequence, T!), experts };
}

/** fn on each device's parts, on one device fn itself. `ins` and `outs`: how arguments and results are split. */
function onDevices<A extends Tensor[], R extends Tensor | readonly Tensor[]>(
  fn: (...parts: A) => R,
  spread: Spread | null,
  ins: readonly Spec[],
  outs: R extends Tensor ? Spec : readonly Spec[],
): (...whole: A) => R {
  if (!spread) return fn;
  const of = (spec: Spec) => spec(spread);
  const out = typeof outs === 'function' ? of(outs) : (outs as readonly Spec[]).map(of);
  return shardMap(fn, { mesh: spread.mesh, in: ins.map(of), out } as unknown as ShardMapOptions<A, R>);
}

// ---- rows by expert

/**
 * Sorts the choices of all tokens, [B, T, k], by expert. Returns
 * - the choice of each row, i32[N k]: choice j of token i has the index i k + j,
 * - the row of each choice, i32[N k],
 * - the number of rows of each expert, i32[E].
 * `here`: the experts of this device, i32[H], if it does not have all. Their rows come first, and sizes are i32[H].
 */
function sortByExpert(chosen: Tensor, numExperts: number, here?: Tensor): Tensor[] {
  const flat = chosen.reshape([-1]);
  const rank = here ? flat.sub(here.narrow(0, 0, 1)).remainder(numExperts) : flat;
  const order = rank.argsort({ stable: true }).to('i32');
  const place = order.argsort().to('i32');
  const sizes = flat
    .unsqueeze(1)
    .eq(here ?? arange(numExperts, { dtype: 'i32' }))
    .sum({ dim: 0, dtype: 'i32' });
  return [order, place, sizes];
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
