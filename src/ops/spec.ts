// x[...]: parses the indices that torch and NumPy write between brackets into a plan, which reads and writes share.
import { checkWhole } from '../base/check.js';
import { DTYPES } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isInteger, isSigned } from '../base/promote.js';
import { normalizeDim, range, type Shape, sameShape, showShape } from '../base/shape.js';
import { Expr } from '../ir/expr.js';
import { isExpr, type Operand } from './prim/align.js';
import { broadcastInDim, broadcastTo } from './prim/broadcast.js';
import { constants, full, zerosLike } from './prim/constant.js';
import { dynamicSlice, dynamicUpdateSlice } from './prim/dynamic.js';
import { type Combine, putAt, takeAt } from './prim/gather.js';
import { convert, flat, reshape } from './prim/move.js';
import { add, lt, sub, where } from './prim/pointwise.js';
import { runningSum } from './prim/scanning.js';
import { pad, slice } from './prim/slice.js';

/** start:stop:step. As in Python, negative numbers count from the end, and omitted ones mean all. */
export interface Slice {
  readonly start?: number | null | undefined;
  readonly stop?: number | null | undefined;
  readonly step?: number | null | undefined;
}
/** A number, '1:5:2', '...', null for a new dimension, a slice, integer tensors, arrays of numbers. */
export type Index = number | string | null | Slice | Expr | readonly number[];

/** Negative indices count from the end of n elements. Small dtypes are widened: n may not fit them. */
export function wrap(index: Expr, n: number): Expr {
  const at = convert(index, DTYPES[index.dtype].bytes === 8 || index.dtype === 'u32' ? 'i64' : 'i32');
  return isSigned(index.dtype) ? where(lt(at, 0), add(at, full([], n, at.dtype)), at) : at;
}

/** How the numbers of an index come into a graph. */
export interface Numbers {
  /** Elements start, start + step, ... below limit, in each dimension. `shape`: reshapes the result. */
  cut(x: Expr, start: readonly number[], limit: readonly number[], step: readonly number[], shape?: Shape): Expr;
  /** x with the part that begins at `start` replaced. */
  put(x: Expr, part: Expr, start: readonly number[]): Expr;
  list(indices: readonly number[]): Expr;
}
/** As constants of the program: each number compiles another program. */
export const CONSTANTS: Numbers = {
  cut: (x, start, limit, step, shape) => {
    const part = slice(x, start, limit, step);
    return shape ? reshape(part, shape) : part;
  },
  put: (x, part, start) =>
    dynamicUpdateSlice(
      x,
      part,
      start.map((s) => full([], s, 'i64')),
    ),
  list: (indices) => constants(indices, 'i64'),
};

interface Plan {
  /** Scalar tensors, by dimension of x: one element is taken there when the program runs. */
  readonly dynamic: ReadonlyMap<number, Expr>;
  /** The range in each of the other dimensions. */
  readonly start: number[];
  readonly limit: number[];
  readonly step: number[];
  /** The shape of the ranges, with dimensions dropped and added. */
  readonly shape: number[];
  /** The dimensions of this shape that have indices. */
  readonly dims: number[];
  readonly indices: Expr[];
}

function plan(op: string, x: Expr, spec: readonly Index[], numbers: Numbers): Plan {
  const rank = x.shape.length;
  const taken = spec.filter((i) => i !== null && i !== '...').length;
  if (taken > rank) throw new ShapeError(`${op}: ${taken} indices for the ${rank} dimensions of ${x.aval}`);
  const at = spec.indexOf('...');
  if (at !== spec.lastIndexOf('...')) throw new ArgumentError(`${op}: '...' can be given only once`);
  const rest: Index[] = range(rank - taken).map(() => ':');
  const items = at < 0 ? [...spec, ...rest] : spec.toSpliced(at, 1, ...rest);

  const dynamic = new Map<number, Expr>();
  const p = { start: [], limit: [], step: [], shape: [], dims: [], indices: [] } as Omit<Plan, 'dynamic'>;
  for (const item of items) {
    const d = p.start.length; // of x
    const n = x.shape[d]!;
    const size = (count: number) => p.shape.push(count);
    const take = (start: number, limit: number, step = 1) => {
      p.start.push(start);
      p.limit.push(limit);
      p.step.push(step);
    };
    const where = `dim ${d} of ${x.aval}`;
    if (item === null) size(1);
    else if (typeof item === 'number') {
      const i = position(op, item, n, where);
      take(i, i + 1);
    } else if (item instanceof Expr || Array.isArray(item)) {
      if (Array.isArray(item) && item.some((i) => typeof i !== 'number'))
        throw new ArgumentError(
          `${op}: an array as an index must hold numbers: pass several indices as separate arguments`,
        );
      const index = item instanceof Expr ? item : numbers.list(item.map((i) => position(op, i, n, where)));
      if (index.dtype === 'bool') throw maskError(op, x, index);
      if (!isInteger(index.dtype))
        throw new DTypeError(`${op}: indices must be integers, got ${index.aval} for ${where}`);
      if (!n && index.aval.size) throw new ShapeError(`${op}: ${where} has no elements to index`);
      const scalar = index.shape.length === 0;
      if (scalar) dynamic.set(d, wrap(index, n));
      else {
        p.dims.push(p.shape.length);
        p.indices.push(item instanceof Expr ? wrap(index, n) : index);
        size(n);
      }
      take(0, scalar ? 1 : n);
    } else {
      const [start, stop, step] = bounds(op, item as string | Slice, n);
      take(start, stop, step);
      size(Math.ceil((stop - start) / step));
    }
  }
  return { dynamic, ...p };
}

function position(op: string, i: number, n: number, where: string): number {
  if (!Number.isInteger(i)) throw new ArgumentError(`${op}: ${String(i)} is not a valid index for ${where}`);
  if (i < -n || i >= n) throw new ShapeError(`${op}: index ${i} is out of range for ${where}`);
  return i < 0 ? i + n : i;
}

/** Where a slice starts and stops within n elements, and its step. */
function bounds(op: string, item: string | Slice, n: number): [start: number, stop: number, step: number] {
  const { start, stop, step } = typeof item === 'string' ? fromText(op, item) : checked(op, item);
  const at = (i: number) => Math.min(Math.max(i < 0 ? i + n : i, 0), n);
  const from = at(start ?? 0);
  if ((step ?? 1) < 1)
    throw new ArgumentError(`${op}: the step of a slice must be positive, got ${step}: use flip to go backwards`);
  return [from, Math.max(from, at(stop ?? n)), step ?? 1];
}
const HELP = `use a number, 'start:stop:step', slice(), '...', null or an integer tensor`;
function fromText(op: string, text: string): Slice {
  const m = /^\s*(-?\d+)?\s*:\s*(-?\d+)?\s*(?::\s*(-?\d+)?\s*)?$/.exec(text);
  if (!m) throw new ArgumentError(`${op}: '${text}' is not a valid index: ${HELP}`);
  const [start, stop, step] = m.slice(1).map((s) => (s === undefined ? undefined : Number(s)));
  return { start, stop, step };
}
function checked(op: string, s: Slice): Slice {
  const known = typeof s === 'object' && Object.keys(s).every((k) => ['start', 'stop', 'step'].includes(k));
  if (!known || Object.values(s).some((v) => v != null && !Number.isInteger(v)))
    throw new ArgumentError(
      `${op}: ${typeof s === 'object' ? JSON.stringify(s) : String(s)} is not a valid index: ${HELP}`,
    );
  return s;
}
const maskError = (op: string, x: Expr, mask: Expr): ArgumentError =>
  new ArgumentError(
    `${op}: the number of elements of ${x.aval} that the mask ${mask.aval} selects depends on its values, and shapes cannot: to change them use maskedFill(mask, value) or indexPut([mask], values); to read them ${x.shape.length === mask.shape.length ? 'await x.maskedSelect(mask)' : 'x.index(...(await mask.nonzero({ asTuple: true })))'}, or nonzero({ asTuple: true, size: n }) inside a compiled function; to choose between two tensors where(mask, a, b)`,
  );

// ---- use

const startsOf = (x: Expr, { dynamic }: Plan): Expr[] => {
  const [first] = dynamic.values();
  return x.shape.map((_, d) => convert(dynamic.get(d) ?? zerosLike(first!), first!.dtype));
};
/** The ranges of a plan, in the dimensions of x. */
const inner = (x: Expr, p: Plan): Expr =>
  p.dynamic.size
    ? dynamicSlice(
        x,
        startsOf(x, p),
        x.shape.map((n, d) => (p.dynamic.has(d) ? 1 : n)),
      )
    : x;

export function readAt(op: string, x: Expr, spec: readonly Index[], numbers = CONSTANTS): Expr {
  const p = plan(op, x, spec, numbers);
  const ranges = numbers.cut(inner(x, p), p.start, p.limit, p.step, p.shape);
  return p.dims.length ? takeAt(ranges, p.dims, p.indices) : ranges;
}

// ---- masks

const isMask = (item: Index): item is Expr => item instanceof Expr && item.dtype === 'bool';
/** For each element, the number of true elements before it: its position among the selected ones. */
export const placeAmong = (mask: Expr): Expr => reshape(sub(runningSum(convert(flat(mask), 'i64'), 0), 1), mask.shape);

/** x with values where a mask is true, in the part of x that the rest of the spec selects. */
function writeMasked(
  op: string,
  x: Expr,
  spec: readonly Index[],
  values: Operand,
  combine: Combine,
  numbers: Numbers,
): Expr {
  const place = spec.findIndex(isMask);
  const mask = spec[place] as Expr;
  const rest = spec.toSpliced(place, 1, ...mask.shape.map(() => ':'));
  if (rest.some((item) => isMask(item) || Array.isArray(item) || (item instanceof Expr && item.shape.length)))
    throw new ArgumentError(
      `${op}: a mask cannot be combined with another mask or a tensor of indices, only with numbers and slices: use the mask's indices, nonzero(mask, { size: n, asTuple: true })`,
    );
  const old = readAt(op, x, rest, numbers);
  const sizeOf = (items: readonly Index[]) =>
    items.filter((i) => i === null || typeof i === 'string' || isSlice(i)).length;
  const wide = old.shape.length - sizeOf(rest.filter((i) => i !== '...')); // dimensions that '...' means, or the end
  const before = spec.slice(0, place);
  const start = sizeOf(before.filter((i) => i !== '...')) + (before.includes('...') ? wide : 0);
  const end = start + mask.shape.length;
  if (!sameShape(old.shape.slice(start, end), mask.shape))
    throw new ShapeError(
      `${op}: the mask ${mask.aval} does not match ${showShape(old.shape.slice(start, end))}, the dimensions of ${x.aval} that it indexes`,
    );
  const value = isExpr(values) ? convert(values, x.dtype) : full([], values, x.dtype);
  const after = old.shape.length - end;
  // Values broadcast to [...before, count, ...after]: one row for all, or one for each selected element, in order.
  const counted = value.shape.length - after - 1;
  const rows = counted < 0 ? 1 : value.shape[counted]!;
  if (!rows) return x; // the mask selects nothing
  const inOrder = () => takeAt(value, [counted], [placeAmong(mask)]);
  const forAll = () =>
    counted < 0 ? value : reshape(value, value.shape.toSpliced(counted, 1, ...mask.shape.map(() => 1)));
  const spread = rows === 1 ? forAll() : inOrder();
  const held = broadcastInDim(
    mask,
    old.shape,
    range(mask.shape.length).map((d) => d + start),
  );
  const fitting = stretched(op, x, spread, old.shape);
  const changed = where(held, combine === 'add' ? add(old, fitting) : fitting, old);
  return write(op, x, rest, changed, 'set', numbers);
}
const isSlice = (item: Index): boolean =>
  typeof item === 'object' && item !== null && !(item instanceof Expr) && !Array.isArray(item);

/** Applies a plan's reshape, or its inverse. */
export function write(
  op: string,
  x: Expr,
  spec: readonly Index[],
  values: Operand,
  combine: Combine,
  numbers = CONSTANTS,
): Expr {
  if (spec.some(isMask)) return writeMasked(op, x, spec, values, combine, numbers);
  const p = plan(op, x, spec, numbers);
  const within = inner(x, p);
  const ranges = numbers.cut(within, p.start, p.limit, p.step);
  const old = reshape(ranges, p.shape);
  const value = isExpr(values) ? convert(values, x.dtype) : full([], values, x.dtype);
  const target = p.dims.length ? takeAt(old, p.dims, p.indices).shape : p.shape;
  const fitting = stretched(op, x, value, target);
  const changed = p.dims.length
    ? putAt(old, p.dims, p.indices, fitting, combine)
    : combine === 'add'
      ? add(old, fitting)
      : fitting;
  const whole = ranges === within && changed !== fitting; // made of all of x already
  const placed = whole ? reshape(changed, ranges.shape) : place(within, reshape(changed, ranges.shape), p, numbers);
  return p.dynamic.size ? dynamicUpdateSlice(x, placed, startsOf(x, p)) : placed;
}

/** Values broadcast to where they go; leading dimensions of 1 too many do not matter, as in torch. */
function stretched(op: string, x: Expr, value: Expr, target: readonly number[]): Expr {
  const extra = value.shape.slice(0, Math.max(0, value.shape.length - target.length));
  const shape = extra.every((n) => n === 1) ? value.shape.slice(extra.length) : value.shape;
  const lead = target.length - shape.length;
  if (lead < 0 || shape.some((n, d) => n !== 1 && n !== target[d + lead]))
    throw new ShapeError(
      `${op}: ${value.aval} does not broadcast to ${showShape(target)}, the selected part of ${x.aval}`,
    );
  return broadcastTo(reshape(value, shape), target);
}

/** x with the ranges of a plan replaced. */
function place(x: Expr, ranges: Expr, { start, step }: Plan, numbers: Numbers): Expr {
  if (step.every((s, d) => s === 1 || ranges.shape[d]! <= 1)) return numbers.put(x, ranges, start);
  const spread = (y: Expr) =>
    pad(
      y,
      full([], 0, y.dtype),
      start,
      x.shape.map((n, d) => n - start[d]! - (y.shape[d] ? 1 + (y.shape[d]! - 1) * step[d]! : 0)),
      step.map((s) => s - 1),
    );
  return where(spread(full(ranges.shape, true, 'bool')), spread(ranges), x);
}

// ---- along one dimension

/** The checked dimension of an operation. */
export function dimIn(op: string, x: Expr, dim: number): number {
  if (!x.shape.length) throw new ShapeError(`${op}: ${x.aval} has no dimensions`);
  return normalizeDim(op, dim, x.shape.length);
}

export function narrowed(
  x: Expr,
  dim: number,
  start: number | Expr,
  length: number,
  numbers = CONSTANTS,
  shape?: Shape,
): Expr {
  const d = dimIn('narrow', x, dim);
  const n = x.shape[d]!;
  checkWhole('narrow: length', length);
  const sizes = x.shape.with(d, length);
  if (typeof start !== 'number') {
    if (length > n) throw new ShapeError(`narrow: length ${length} is more than size ${n} of dim ${dim} in ${x.aval}`);
    if (start.aval.size !== 1 || !isInteger(start.dtype))
      throw new ArgumentError(`narrow: start must be one integer, got ${start.aval} for ${x.aval}`);
    const at = wrap(reshape(start, []), n);
    const starts = x.shape.map((_, k) => (k === d ? at : zerosLike(at)));
    return reshape(dynamicSlice(x, starts, sizes), shape ?? sizes);
  }
  const from = start < 0 ? start + n : start;
  if (!Number.isInteger(from) || from < 0 || from + length > n)
    throw new ShapeError(
      `narrow: ${start} to ${start + length} is out of range for size ${n} of dim ${dim} in ${x.aval}`,
    );
  const [zeros, ones] = [x.shape.map(() => 0), x.shape.map(() => 1)];
  return numbers.cut(x, zeros.with(d, from), x.shape.with(d, from + length), ones, shape);
}

export function selected(x: Expr, dim: number, index: number | Expr, numbers = CONSTANTS): Expr {
  const d = dimIn('select', x, dim);
  const n = x.shape[d]!;
  if (typeof index === 'number' && (!Number.isInteger(index) || index < -n || index >= n))
    throw new ShapeError(`select: index ${index} is out of range for size ${n} of dim ${dim} in ${x.aval}`);
  if (n === 0) throw new ShapeError(`select: dim ${dim} of ${x.aval} has no elements`);
  return narrowed(x, dim, index, 1, numbers, x.shape.toSpliced(d, 1));
}

/** The error for a tensor whose values would determine a shape. */
export const shapeByValues = (op: string, x: Expr): ArgumentError =>
  new ArgumentError(`${op}: a shape cannot depend on the values of ${x.aval}: pass numbers (await x.tolist())`);
