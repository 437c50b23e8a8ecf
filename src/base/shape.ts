// Shapes: dimensions, broadcasting, and errors for shapes that do not fit.
import { ShapeError } from './errors.js';

export type Shape = readonly number[];

export const showShape = (shape: Shape): string => `[${shape.join(', ')}]`;
export const sameShape = (a: Shape, b: Shape): boolean =>
  a === b || (a.length === b.length && a.every((d, i) => d === b[i]));
/** The index of the n-th element, counted from 0: [1, 2] for n = 5 and shape [2, 3]. */
export function unravel(n: number, shape: Shape): number[] {
  const index: number[] = [];
  for (const size of shape.toReversed()) {
    index.unshift(n % size);
    n = Math.floor(n / size);
  }
  return index;
}
export const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

/** Checks sizes, which may be wrong in plain JavaScript. */
export function checkShape(op: string, shape: Shape): Shape {
  if (!Array.isArray(shape)) throw new ShapeError(`${op}: takes a shape as an array, got ${shape}: ${op}([2, 3])`);
  const bad = shape.find((n) => !Number.isSafeInteger(n) || n < 0);
  if (bad !== undefined) throw new ShapeError(`${op}: ${showShape(shape)} is not a shape: ${bad} is not a size`);
  return shape;
}

/** A dimension counted from the front: -1 is the last. A scalar has dimensions 0 and -1, as in torch. */
export function normalizeDim(op: string, dim: number, rank: number): number {
  const n = Math.max(rank, 1);
  if (!Number.isInteger(dim) || dim < -n || dim >= n) {
    throw new ShapeError(`${op}: dim ${dim} is out of range for ${rank} dimensions: use -${n} to ${n - 1}`);
  }
  return dim < 0 ? dim + n : dim;
}

/** The same limit as in torch and numpy. */
const MOST_DIMS = 64;
/** Several dimensions, each at most once; undefined means all. */
export function normalizeDims(op: string, dims: number | Shape | undefined, rank: number): number[] {
  if (rank > MOST_DIMS) throw new ShapeError(`${op}: takes at most ${MOST_DIMS} dimensions, got ${rank}`);
  if (dims === undefined) return range(rank);
  const list = (typeof dims === 'number' ? [dims] : dims).map((d) => normalizeDim(op, d, rank));
  if (new Set(list).size < list.length)
    throw new ShapeError(`${op}: dim ${list.find((d, i) => list.indexOf(d) < i)} is given twice`);
  return rank ? list : [];
}

/** The shape that all of these broadcast to. */
export function broadcastShapes(op: string, ...shapes: readonly Shape[]): Shape {
  const [first = []] = shapes;
  if (shapes.every((s) => s === first)) return first; // the usual case: equal types have the same shape object
  const rank = Math.max(0, ...shapes.map((s) => s.length));
  return range(rank).map((i) => {
    let size = 1;
    for (const s of shapes) {
      const d = s[i - rank + s.length] ?? 1;
      if (d !== 1 && size !== 1 && d !== size) {
        throw new ShapeError(
          `${op}: shapes ${shapes.map(showShape).join(' and ')} do not broadcast: sizes ${size} and ${d} differ at dim ${i - rank}`,
        );
      }
      if (d !== 1) size = d;
    }
    return size;
  });
}

/** Fills in the one -1 of a shape, for `count` elements. */
export function inferShape(op: string, shape: Shape, count: number): number[] {
  const holes = shape.filter((d) => d === -1).length;
  const known = shape.reduce((n, d) => (d === -1 ? n : n * d), 1);
  const bad = shape.find((d) => !Number.isInteger(d) || d < -1);
  if (bad !== undefined) throw new ShapeError(`${op}: ${showShape(shape)} is not a shape: ${bad} is not a size`);
  if (holes > 1)
    throw new ShapeError(`${op}: ${showShape(shape)} has ${holes} unknown sizes (-1): only one can be worked out`);
  if (holes ? known === 0 || count % known : known !== count) {
    throw new ShapeError(`${op}: ${count} elements do not fit shape ${showShape(shape)}`);
  }
  return shape.map((d) => (d === -1 ? count / known : d));
}
