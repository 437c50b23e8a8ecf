// The tokens of B sequences so far, on the device, for choosing the next ones.
import { arange, full, zeros } from '../tensor/create.js';
import { cat, where } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';

/** The placeholder in `ids` for no token. */
export const NO_TOKEN = -1;

/** Immutable: adding tokens returns a new state. */
export class TextState {
  constructor(
    /** bool[B, V]: the tokens that are in the sequences. */
    readonly seen: Tensor,
    /** i32[B, S]: the tokens, right-aligned, padded with NO_TOKEN. null: not used. */
    readonly ids: Tensor | null,
    /** i32[]: the number of generated tokens of each sequence. null if `ids` is. */
    readonly count: Tensor | null,
  ) {}

  static empty(rows: number, vocabSize: number, slots: number | null): TextState {
    return new TextState(
      zeros([rows, vocabSize], { dtype: 'bool' }),
      slots === null ? null : full([rows, slots], NO_TOKEN, { dtype: 'i32' }),
      slots === null ? null : zeros([], { dtype: 'i32' }),
    );
  }
  /** The state of prompts i32[B, P], each padded up to its `starts`. */
  static ofPrompts(ids: Tensor, starts: Tensor, vocabSize: number, slots: number | null): TextState {
    const [B, P] = ids.shape as [number, number];
    const isToken = arange(P, { dtype: 'i32' }).ge(starts.unsqueeze(1)); // [B, P]
    const none = zeros([B, vocabSize], { dtype: 'bool' });
    const seen = marked(none, where(isToken, ids, NO_TOKEN));
    if (slots === null) return new TextState(seen, null, null);
    const before = full([B, slots - P], NO_TOKEN, { dtype: 'i32' });
    const all = cat([before, where(isToken, ids, NO_TOKEN)], 1);
    return new TextState(seen, all, zeros([], { dtype: 'i32' }));
  }

  /** Adds one token to each sequence, i32[B]. */
  add(tokens: Tensor): TextState {
    const column = tokens.unsqueeze(1);
    return new TextState(
      this.seen.scatter(1, column.long(), true),
      this.ids && cat([this.ids.narrow(1, 1, this.ids.size(1) - 1), column], 1),
      this.count?.add(1) ?? null,
    );
  }
  /** Adds the first n (i32[]) of tokens i32[B, T]. */
  addFirst(tokens: Tensor, n: Tensor): TextState {
    const isAdded = arange(tokens.size(1), { dtype: 'i32' }).lt(n);
    return new TextState(
      marked(this.seen, where(isAdded, tokens, NO_TOKEN)),
      this.ids && cat([this.ids, tokens], 1).narrow(1, n, this.ids.size(1)),
      this.count?.add(n) ?? null,
    );
  }
  /** Selects sequences by index, i32[B]. */
  rows(index: Tensor): TextState {
    const pick = (x: Tensor) => x.indexSelect(0, index);
    return new TextState(pick(this.seen), this.ids && pick(this.ids), this.count);
  }

  get tensors(): Tensor[] {
    return [this.seen, this.ids, this.count].filter((t) => t !== null);
  }
  /** Overwrites the tensors with those of another state of the same sizes. */
  assign(other: TextState): void {
    for (const [i, t] of this.tensors.entries()) t.copy_(other.tensors[i]!);
  }
}

/** Adds tokens [B, n] to `seen`, bool[B, V]; NO_TOKEN is ignored. */
export function marked(seen: Tensor, tokens: Tensor): Tensor {
  const [B, V] = seen.shape as [number, number];
  const places = where(tokens.eq(NO_TOKEN), V, tokens).long(); // NO_TOKEN goes to an additional column that is cut off
  const wide = cat([seen, zeros([B, 1], { dtype: 'bool' })], 1);
  return wide.scatter(1, places, true).narrow(1, 0, V);
}
