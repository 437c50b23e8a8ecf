// The keys and values of the tokens so far, of a fixed size, so that every step of a generation is the same program.
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import type { Expr } from '../ir/expr.js';
import { full } from '../ops/prim/constant.js';
import { dynamicUpdateSlice } from '../ops/prim/dynamic.js';
import { arange, zeros } from '../tensor/create.js';
import { stepStart } from '../tensor/scope.js';
import { Tensor } from '../tensor/tensor.js';

export interface CacheSizes {
  readonly numHiddenLayers: number;
  readonly numKeyValueHeads: number;
  readonly headDim: number;
}

/** Takes new keys and values, [B, G, T, d], of one layer, and gives all that its queries are to see, [B, G, S, d]. */
export type Append = (k: Tensor, v: Tensor) => readonly [keys: Tensor, values: Tensor];

/**
 * Room for S tokens of each of B sequences: any number of tokens is added behind those that are there. Prompts are aligned at
 * their ends (padded on the left), so that all sequences write to the same slot. A compiled function changes it in place:
 * nothing is copied. How many slots are filled only the device knows: adding more than there are is not noticed.
 */
export class KeyValueCache {
  /**
   * [B * G, S, d], one for each layer; or, stacked, one [L, B * G, S, d] for all, for a model whose layers are a loop. In
   * the shape that products take: where XLA has to reshape what was written, it writes twice, and copies.
   */
  readonly keys: readonly Tensor[];
  readonly values: readonly Tensor[];
  /** i32[B]: the slot of each sequence's first token. */
  readonly starts: Tensor;
  /** i32[]: how many slots are filled. */
  readonly filled: Tensor;
  /** The start of the step in which it was emptied, if nothing was added since: elsewhere only the device knows. */
  #emptiedIn = -1;

  constructor(
    { numHiddenLayers: L, numKeyValueHeads: G, headDim: d }: CacheSizes,
    batch: number,
    readonly slots: number,
    { dtype, stacked = false }: { readonly dtype: DType; readonly stacked?: boolean },
  ) {
    const layer = [batch * G, slots, d];
    const make = () =>
      stacked ? [zeros([L, ...layer], { dtype })] : Array.from({ length: L }, () => zeros(layer, { dtype }));
    this.keys = make();
    this.values = make();
    this.starts = zeros([batch], { dtype: 'i32' });
    this.filled = zeros([], { dtype: 'i32' });
  }
  get tensors(): Tensor[] {
    return [...this.keys, ...this.values, this.starts, this.filled];
  }

  /**
   * Forgets all tokens. `starts` says how much of each prompt that comes next is padding. A prompt that is added in the same
   * step looks at itself alone, and not at all slots.
   */
  reset(starts?: Tensor): void {
    if (starts) this.starts.copy_(starts);
    else this.starts.zero_();
    this.filled.zero_();
    this.#emptiedIn = stepStart();
  }
  /** Known inside the step that empties it, which does so in every call; code around steps does not see what those add. */
  get #isEmpty(): boolean {
    return this.#emptiedIn >= 0 && this.#emptiedIn === stepStart();
  }

  /** The slots that T new tokens take, i32[T]. */
  slotsOf(T: number): Tensor {
    return arange(T, { dtype: 'i32' }).add(this.filled);
  }
  /** Where in its sequence each of them is, i32[B, T]; padding counts as the first. */
  positionsOf(T: number): Tensor {
    return this.slotsOf(T).sub(this.starts.unsqueeze(1)).clamp({ min: 0 });
  }
  /** The slots they can see, i32[S], and which of those are no padding, bool[B, S]. */
  seenBy(T: number): { readonly slots: Tensor; readonly kept: Tensor } {
    const slots = arange(this.#isEmpty ? T : this.slots, { dtype: 'i32' });
    return { slots, kept: slots.ge(this.starts.unsqueeze(1)) };
  }

  /** For layer i, by itself. */
  layer(i: number): Append {
    return (k, v) => {
      const put = (all: Tensor, x: Tensor) => this.#seen(all.rebind(this.#written(all, x)), x);
      return [put(this.keys[i]!, k), put(this.values[i]!, v)];
    };
  }
  /** For layer i, a number of the device's, of stacked keys and values, which are not changed: `after` gets those with the new ones. */
  row(i: Tensor, keys: Tensor, values: Tensor, after: (keys: Tensor, values: Tensor) => void): Append {
    return (k, v) => {
      const put = (all: Tensor, x: Tensor) => new Tensor(this.#written(all, x, i.expr));
      const all = [put(keys, k), put(values, v)] as const;
      after(...all);
      const own = (all: Tensor, x: Tensor) => this.#seen(all.narrow(0, i, 1).squeeze(0), x);
      return [own(all[0], k), own(all[1], v)];
    };
  }
  /** All slots with x, [B, G, T, d], among them. */
  #written(all: Tensor, x: Tensor, ...lead: Expr[]): Expr {
    const T = x.size(2);
    if (T > this.slots) throw new ArgumentError(`${T} tokens do not fit the ${this.slots} slots of the cache`);
    const zero = full([], 0, 'i32');
    const update = x.to(all.dtype).reshape([...lead.map(() => 1), -1, T, x.size(3)]);
    return dynamicUpdateSlice(all.expr, update.expr, [...lead, zero, this.filled.expr, zero]);
  }
  /** What x sees of all slots, [B, G, S, d]. */
  #seen(all: Tensor, x: Tensor): Tensor {
    const [B, G, , d] = x.shape as [number, number, number, number];
    return this.#isEmpty ? x : all.reshape([B, G, this.slots, d]);
  }

  /** After all layers have appended T tokens. */
  advance(T: number): void {
    this.filled.add_(T);
    this.#emptiedIn = -1;
  }
}
