// x[...]: what torch and NumPy write between brackets, read once into a plan, and used to read and to write.
import { DTYPES } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isInteger, isSigned } from '../base/promote.js';
import { range, showShape } from '../base/shape.js';
import { Expr } from '../ir/expr.js';
import { isExpr, type Operand } from './prim/align.js';
import { broadcastTo } from './prim/broadcast.js';
import { constants, full, zerosLike } from './prim/constant.js';
import { dynamicSlice, dynamicUpdateSlice } from './prim/dynamic.js';
import { type Combine, putAt, takeAt } from './prim/gather.js';
import { convert, reshape } from './prim/move.js';
import { add, lt, where } from './prim/pointwise.js';
import { pad, slice } from './prim/slice.js';

/** start to stop, step apart: as in Python, negative ones count from the end and what is left out means all. */
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

interface Plan {
  /** Scalars that are known when the program runs, by dimension of x: one element is taken there. */
  readonly dynamic: ReadonlyMap<number, Expr>;
  /** A range of what is left, in each dimension. */
  readonly start: number[];
  readonly limit: number[];
  readonly step: number[];
  /** Of the ranges, with dimensions dropped and added. */
  readonly shape: number[];
  /** The dimensions of this shape that have indices. */
  readonly dims: number[];
  readonly indices: Expr[];
}

function plan(op: string, x: Expr, spec: readonly Index[]): Plan {
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
        throw new ArgumentError(`${op}: an array as an index holds numbers; several indices are given one by one`);
      const index =
        item instanceof Expr
          ? item
          : constants(
              item.map((i) => position(op, i, n, where)),
              'i64',
            );
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
  if (!Number.isInteger(i)) throw new ArgumentError(`${op}: ${String(i)} is no index for ${where}`);
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
  if (!m) throw new ArgumentError(`${op}: '${text}' is no index: ${HELP}`);
  const [start, stop, step] = m.slice(1).map((s) => (s === undefined ? undefined : Number(s)));
  return { start, stop, step };
}
function checked(op: string, s: Slice): Slice {
  const known = typeof s === 'object' && Object.keys(s).every((k) => ['start', 'stop', 'step'].includes(k));
  if (!known || Object.values(s).some((v) => v != null && !Number.isInteger(v)))
    throw new ArgumentError(`${op}: ${typeof s === 'object' ? JSON.stringify(s) : String(s)} is no index: ${HELP}`);
  return s;
}
export const maskError = (op: string, x: Expr, mask: Expr): ArgumentError =>
  new ArgumentError(
    `${op}: how many elements of ${x.aval} the mask ${mask.aval} picks depends on its values, and shapes cannot: use where(mask, a, b), or nonzero(mask, { size: n }) for the first n indices`,
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

export function read(op: string, x: Expr, spec: readonly Index[]): Expr {
  const p = plan(op, x, spec);
  const ranges = reshape(slice(inner(x, p), p.start, p.limit, p.step), p.shape);
  return p.dims.length ? takeAt(ranges, p.dims, p.indices) : ranges;
}

/** The same way in, and back out again. */
export function write(op: string, x: Expr, spec: readonly Index[], values: Operand, combine: Combine): Expr {
  const p = plan(op, x, spec);
  const within = inner(x, p);
  const ranges = slice(within, p.start, p.limit, p.step);
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
  const placed = whole ? reshape(changed, ranges.shape) : place(within, reshape(changed, ranges.shape), p);
  return p.dynamic.size ? dynamicUpdateSlice(x, placed, startsOf(x, p)) : placed;
}

/** Values broadcast to where they go; leading dimensions of 1 too many do not matter, as in torch. */
function stretched(op: string, x: Expr, value: Expr, target: readonly number[]): Expr {
  const extra = value.shape.slice(0, Math.max(0, value.shape.length - target.length));
  const shape = extra.every((n) => n === 1) ? value.shape.slice(extra.length) : value.shape;
  const lead = target.length - shape.length;
  if (lead < 0 || shape.some((n, d) => n !== 1 && n !== target[d + lead]))
    throw new ShapeError(
      `${op}: ${value.aval} does not broadcast to ${showShape(target)}, the part of ${x.aval} it is for`,
    );
  return broadcastTo(reshape(value, shape), target);
}

/** x with the ranges of a plan replaced. */
function place(x: Expr, ranges: Expr, { start, step }: Plan): Expr {
  if (step.every((s, d) => s === 1 || ranges.shape[d]! <= 1))
    return dynamicUpdateSlice(
      x,
      ranges,
      start.map((s) => full([], s, 'i64')),
    );
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
