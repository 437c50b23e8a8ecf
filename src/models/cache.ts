// The key-value cache of a generation. Its size is fixed, so that every step is the same program.
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

/** Appends keys and values, [B, G, T, d], of one layer. Returns those that its queries see, [B, G, S, d]. */
export type Append = (k: Tensor, v: Tensor) => readonly [keys: Tensor, values: Tensor];

/**
 * A cache of S slots for each of B sequences, filled from the front. Prompts are right-aligned (padded on the left), so that all
 * sequences write to the same slot. Compiled functions update it in place, without a copy. Only the device knows how many slots
 * are filled: adding more tokens than there are slots is not detected.
 */
export class KeyValueCache {
  /**
   * [B * G, S, d] for each layer; or, stacked, one [L, B * G, S, d], for a model whose layers are a loop. This is the shape of
   * the matrix products: if XLA had to reshape after writing, it would copy.
   */
  readonly keys: readonly Tensor[];
  readonly values: readonly Tensor[];
  /** i32[B]: the slot of each sequence's first token. */
  readonly starts: Tensor;
  /** i32[]: the number of filled slots. */
  readonly filled: Tensor;
  /** The start of the step in which the cache was emptied, if nothing was added since; in other steps this is unknown. */
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
   * Removes all tokens. `starts` is the padding of each prompt that is added next. A prompt that is added in the same step attends
   * only to itself, not to all slots.
   */
  reset(starts?: Tensor): void {
    if (starts) this.starts.copy_(starts);
    else this.starts.zero_();
    this.filled.zero_();
    this.#emptiedIn = stepStart();
  }
  /** Known only inside the step that empties the cache: code outside does not see what steps add. */
  get #isEmpty(): boolean {
    return this.#emptiedIn >= 0 && this.#emptiedIn === stepStart();
  }

  /** The slots of T new tokens, i32[T]. */
  slotsOf(T: number): Tensor {
    return arange(T, { dtype: 'i32' }).add(this.filled);
  }
  /** The positions of T new tokens in their sequences, i32[B, T]; 0 for padding. */
  positionsOf(T: number): Tensor {
    return this.slotsOf(T).sub(this.starts.unsqueeze(1)).clamp({ min: 0 });
  }
  /** The slots that T new tokens can see, i32[S], and which of those are not padding, bool[B, S]. */
  seenBy(T: number): { readonly slots: Tensor; readonly kept: Tensor } {
    const slots = arange(this.#isEmpty ? T : this.slots, { dtype: 'i32' });
    return { slots, kept: slots.ge(this.starts.unsqueeze(1)) };
  }

  /** The Append of layer i, for separate layers. */
  layer(i: number): Append {
    return (k, v) => {
      const put = (all: Tensor, x: Tensor) => this.#seen(all.rebind(this.#written(all, x)), x);
      return [put(this.keys[i]!, k), put(this.values[i]!, v)];
    };
  }
  /** The Append of layer i, a tensor, for stacked keys and values. These do not change: `after` receives the new ones. */
  row(i: Tensor, keys: Tensor, values: Tensor, after: (keys: Tensor, values: Tensor) => void): Append {
    return (k, v) => {
      const put = (all: Tensor, x: Tensor) => new Tensor(this.#written(all, x, i.expr));
      const all = [put(keys, k), put(values, v)] as const;
      after(...all);
      const own = (all: Tensor, x: Tensor) => this.#seen(all.narrow(0, i, 1).squeeze(0), x);
      return [own(all[0], k), own(all[1], v)];
    };
  }
  /** All slots after writing x, [B, G, T, d]. */
  #written(all: Tensor, x: Tensor, ...lead: Expr[]): Expr {
    const T = x.size(2);
    if (T > this.slots) throw new ArgumentError(`${T} tokens do not fit into the ${this.slots} slots of the cache`);
    const zero = full([], 0, 'i32');
    const update = x.to(all.dtype).reshape([...lead.map(() => 1), -1, T, x.size(3)]);
    return dynamicUpdateSlice(all.expr, update.expr, [...lead, zero, this.filled.expr, zero]);
  }
  /** The slots that x sees, [B, G, S, d]. */
  #seen(all: Tensor, x: Tensor): Tensor {
    const [B, G, , d] = x.shape as [number, number, number, number];
    return this.#isEmpty ? x : all.reshape([B, G, this.slots, d]);
  }

  /** Copies a cache of fewer slots, with each sequence repeated `times` times. */
  copyFrom(other: KeyValueCache, times = 1): void {
    const zero = full([], 0, 'i32');
    const copy = (all: Tensor, part: Tensor) => {
      const update = this.#byRow(part, other, (x) => x.repeatInterleave(times, { dim: -3 }));
      all.rebind(dynamicUpdateSlice(all.expr, update.to(all.dtype).expr, Array(all.ndim).fill(zero)));
    };
    for (const [i, all] of this.keys.entries()) copy(all, other.keys[i]!);
    for (const [i, all] of this.values.entries()) copy(all, other.values[i]!);
    this.starts.copy_(other.starts.repeatInterleave(times));
    this.filled.copy_(other.filled);
    this.#emptiedIn = -1;
  }
  /** Reorders the sequences by index, i32[B]; indices may repeat. */
  reorder(index: Tensor): void {
    for (const all of [...this.keys, ...this.values])
      all.rebind(this.#byRow(all, this, (x) => x.indexSelect(x.ndim - 3, index)).expr);
    this.starts.copy_(this.starts.indexSelect(0, index));
  }
  /** Applies f to keys or values reshaped to [..., B, G, S d], with or without leading layers. */
  #byRow(all: Tensor, { starts, slots }: KeyValueCache, f: (x: Tensor) => Tensor): Tensor {
    const lead = all.shape.slice(0, -3);
    const [B, d] = [starts.size(0), all.size(-1)];
    const G = all.size(-3) / B;
    return f(all.reshape([...lead, B, G, slots * d])).reshape([...lead, -1, slots, d]);
  }
  /** Removes all but the first n (i32[]) tokens of each sequence, including padding. */
  rewind(n: Tensor): void {
    this.filled.copy_(n);
  }

  /** Called after all layers have appended T tokens. */
  advance(T: number): void {
    this.filled.add_(T);
    this.#emptiedIn = -1;
  }
}
