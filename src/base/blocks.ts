// Blocks of arrays: copies a part of an N-dimensional array out of the whole, or into it.
import { sizeOf, type TypedArray } from './dtype.js';
import type { Shape } from './shape.js';

/** Calls `copy` for every run of elements contiguous in both, with its offset in the whole, in the block, and its length. */
function eachRun(
  whole: Shape,
  start: Shape,
  block: Shape,
  copy: (inWhole: number, inBlock: number, length: number) => void,
): void {
  // The last dimension that is not taken whole, and all after it, are contiguous.
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

/** Shapes in numbers: a complex element adds a dimension of size 2. */
const inNumbers = (data: TypedArray, whole: Shape, start: Shape, block: Shape): [Shape, Shape, Shape] =>
  data.length > sizeOf(whole)
    ? [
        [...whole, 2],
        [...start, 0],
        [...block, 2],
      ]
    : [whole, start, block];

/** A block of an array. Shares the array's memory if its elements are contiguous. */
export function blockOf<A extends TypedArray>(data: A, whole: Shape, start: Shape, block: Shape): A {
  const shapes = inNumbers(data, whole, start, block);
  const size = sizeOf(shapes[2]);
  let out: A | undefined;
  eachRun(...shapes, (from, to, length) => {
    const run = data.subarray(from, from + length) as A;
    if (length === size) out = run;
    else (out ??= new (data.constructor as new (n: number) => A)(size)).set(run as never, to);
  });
  return out ?? (data.subarray(0, 0) as A);
}

/** Copies a block to its place in an array. */
export function putBlock(into: TypedArray, whole: Shape, start: Shape, block: Shape, data: TypedArray): void {
  eachRun(...inNumbers(into, whole, start, block), (to, from, length) => {
    into.set(data.subarray(from, from + length) as never, to);
  });
}

/** The contiguous ranges of a block within a file of the whole array, as first element and end. */
export function rangesOf(whole: Shape, start: Shape, block: Shape): [from: number, to: number][] {
  const ranges: [number, number][] = [];
  eachRun(whole, start, block, (from, _, length) => void ranges.push([from, from + length]));
  return ranges;
}
