// Blocks of arrays: a part of an N-dimensional array, copied out of the whole or into it.
import { sizeOf, type TypedArray } from './dtype.js';
import type { Shape } from './shape.js';

/** Calls `copy` for every run of elements that lie together in both: where it is in the whole, in the block, how long. */
function eachRun(
  whole: Shape,
  start: Shape,
  block: Shape,
  copy: (inWhole: number, inBlock: number, length: number) => void,
): void {
  // The last dimension that is not taken whole, and all after it, lie together.
  const last = block.findLastIndex((n, d) => n !== whole[d]);
  const strides = whole.map((_, d) => sizeOf(whole.slice(d + 1)));
  const length = last < 0 ? sizeOf(block) : block[last]! * strides[last]!;
  if (!length) return;
  const walk = (d: number, offset: number, done: number): number => {
    if (d >= last) {
      copy(offset + (last < 0 ? 0 : start[last]! * strides[last]!), done, length);
      return done + length;
    }
    for (let i = 0; i < block[d]!; i++) done = walk(d + 1, offset + (start[d]! + i) * strides[d]!, done);
    return done;
  };
  walk(0, 0, 0);
}

/** A block of an array, which shares its memory where the elements lie together. */
export function blockOf<A extends TypedArray>(data: A, whole: Shape, start: Shape, block: Shape): A {
  const size = sizeOf(block);
  let out: A | undefined;
  eachRun(whole, start, block, (from, to, length) => {
    const run = data.subarray(from, from + length) as A;
    if (length === size) out = run;
    else (out ??= new (data.constructor as new (n: number) => A)(size)).set(run as never, to);
  });
  return out ?? (data.subarray(0, 0) as A);
}

/** Puts a block into its place in an array. */
export function putBlock(into: TypedArray, whole: Shape, start: Shape, block: Shape, data: TypedArray): void {
  eachRun(whole, start, block, (to, from, length) => {
    into.set(data.subarray(from, from + length) as never, to);
  });
}

/** The bytes of a block in a file of the whole, as ranges that lie together: each begins and ends at these elements. */
export function rangesOf(whole: Shape, start: Shape, block: Shape): [from: number, to: number][] {
  const ranges: [number, number][] = [];
  eachRun(whole, start, block, (from, _, length) => void ranges.push([from, from + length]));
  return ranges;
}
