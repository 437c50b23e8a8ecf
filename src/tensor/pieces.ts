// Types of operations that split a tensor into a given number of pieces: a tuple if the count is a literal.
import type { Tensor } from './tensor.js';

type Dim = number | { readonly dim?: number };
/** A tuple of n, if n is a literal of at most 64; otherwise an array. */
export type Tuple<N extends number, T extends Tensor[] = []> = number extends N
  ? Tensor[]
  : T['length'] extends N
    ? T
    : T['length'] extends 64
      ? Tensor[]
      : Tuple<N, [...T, Tensor]>;
/** One piece for each number of a list; a single size does not determine the count. */
type Each<S extends readonly number[]> = { -readonly [K in keyof S]: Tensor };
type BySizes<S extends number | readonly number[]> = S extends readonly number[] ? Each<S> : Tensor[];
type ByPlaces<S extends number | readonly number[]> = S extends readonly number[]
  ? number extends S['length']
    ? Tensor[]
    : Each<S> extends infer E extends Tensor[]
      ? [...E, Tensor]
      : never
  : S extends number
    ? Tuple<S>
    : never;

/** As methods. */
export interface Pieces {
  /** At most this many pieces of equal size; the last may be smaller. Fewer pieces if the dimension is too small. */
  chunk<N extends number>(chunks: N, dim?: Dim): Tuple<N>;
  /** Pieces of one size, the last possibly smaller; or of the sizes in a list, which must add up to the dimension. */
  split<const S extends number | readonly number[]>(sizes: S, dim?: Dim): BySizes<S>;
  /** Exactly this many pieces, with sizes that differ by at most one; or split before the indices in a list. */
  tensorSplit<const S extends number | readonly number[]>(sections: S, dim?: Dim): ByPlaces<S>;
  /** The slices along a dimension, which is removed. `x.unbind<3>(0)` tells TypeScript the size of that dimension. */
  unbind<N extends number = number>(dim?: Dim): Tuple<N>;
}
/** As functions. */
export interface PiecesOf {
  chunk<N extends number>(x: Tensor, chunks: N, dim?: Dim): Tuple<N>;
  split<const S extends number | readonly number[]>(x: Tensor, sizes: S, dim?: Dim): BySizes<S>;
  tensorSplit<const S extends number | readonly number[]>(x: Tensor, sections: S, dim?: Dim): ByPlaces<S>;
  unbind<N extends number = number>(x: Tensor, dim?: Dim): Tuple<N>;
}
