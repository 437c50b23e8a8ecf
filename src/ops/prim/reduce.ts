// The primitives that reduce dimensions: those given, counted from the front, or all; they are dropped.
import type { DType } from '../../base/dtype.js';
import { ShapeError } from '../../base/errors.js';
import { highest, literal, lowest } from '../../base/literal.js';
import { isFloat, kindOf, wideType } from '../../base/promote.js';
import { normalizeDims, range } from '../../base/shape.js';
import { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import type { Emitter, Ssa } from '../../ir/op.js';
import { iota, zerosLike } from './constant.js';
import { checkDType, comparing, define, defineMulti, forgetsNaN, i64, i64s } from './define.js';
import { broadcastInDim, convert, reshape } from './move.js';
import { div, eq, isnan, logicalAnd, logicalOr, mul, where } from './pointwise.js';
import { productOfOthers } from './scanning.js';

interface Dims {
  readonly dims: readonly number[];
}
type Reduce = (x: Expr, dims?: readonly number[]) => Expr;
type Accepts = readonly [accepts: (d: DType) => boolean, what: string];
/** The sum over the reduced dimensions, stretched back. */
type Share = (x: Expr) => Expr;

export const scalarConstant = (e: Emitter, value: number | bigint | boolean, scalar: Aval): Ssa =>
  e.op('constant', [], [scalar], { value: `dense<${literal(value, scalar.dtype)}> : ${scalar.mlir}` })[0]!;
const without = (x: Aval, dims: readonly number[]): Aval => x.withShape(x.shape.filter((_, d) => !dims.includes(d)));
/** A reduced array in the shape of what it was reduced from. */
const stretched = (y: Expr, { shape }: Expr, dims: readonly number[]): Expr =>
  broadcastInDim(
    y,
    shape,
    range(shape.length).filter((d) => !dims.includes(d)),
  );

/** A reduction with a binary op of StableHLO's, which starts from `initial`. */
function reduction(
  name: string,
  hlo: string,
  initial: (d: DType) => number | bigint | boolean,
  accepts: Accepts,
  vjp?: (g: Expr, x: Expr, y: Expr, share: Share, dims: readonly number[]) => Expr,
  keepNaN = true,
): Reduce {
  const wide = hlo === 'add' || hlo === 'multiply';
  const op = define<[Expr], Dims>({
    name,
    infer: ([x], { dims }) => {
      checkDType(name, [x], ...accepts);
      return without(x, dims);
    },
    lower: (e, [x], { dims }, out) => {
      const inner = wide ? out.withDType(wideType(out.dtype)) : out;
      const scalar = inner.withShape([]);
      const given = inner === out ? x : e.op('convert', [x], [e.typeOf(x).withDType(inner.dtype)])[0]!;
      const body = e.region([scalar, scalar], (xs) => e.op(hlo, xs, [scalar]));
      const start = scalarConstant(e, initial(inner.dtype), scalar);
      const over = { dimensions: i64s(dims) };
      const [y] = e.op('reduce', [given, start], [inner], over, [body]);
      if (inner !== out) return e.op('convert', [y!], [out])[0]!;
      if (!keepNaN || !forgetsNaN(e, hlo, out)) return y!;
      const [flags, flag, any] = [e.typeOf(x), scalar, out].map((t) => t.withDType('bool')) as [Aval, Aval, Aval];
      const either = e.region([flag, flag], (xs) => e.op('or', xs, [flag]));
      const nans = e.op('compare', [x, x], [flags], comparing('NE', out.dtype));
      const [hit] = e.op('reduce', [nans[0]!, scalarConstant(e, false, flag)], [any], over, [either]);
      const nan = e.op('constant', [], [out], { value: `dense<${literal(Number.NaN, out.dtype)}> : ${out.mlir}` });
      return e.op('select', [hit!, nan[0]!, y!], [out])[0]!;
    },
    ...(vjp && {
      // What comes back is stretched to the operand's shape; the rule then only says how much of it each element gets.
      vjp: (g: Expr, [x]: readonly [Expr], { dims }: Dims, y: Expr): readonly [Expr] => {
        const stretch = (r: Expr) => stretched(r, x, dims);
        return [vjp(stretch(g), x, stretch(y), (part) => stretch(reduceSum(part, dims)), dims)];
      },
    }),
  });
  return (x, dims = range(x.shape.length)) => (dims.length ? op([x], { dims }) : x);
}

const numbers: Accepts = [(d) => kindOf(d) > 0, 'numbers'];
const anything: Accepts = [() => true, 'anything'];
const booleans: Accepts = [(d) => d === 'bool', 'booleans'];

export const reduceSum = reduction(
  'reduceSum',
  'add',
  () => 0,
  numbers,
  (g) => g,
);
/** Its gradient is made from the other elements, not by division: they may be zero. */
export const reduceProd = reduction(
  'reduceProd',
  'multiply',
  () => 1,
  numbers,
  (g, x, _y, _share, dims) => mul(g, productOfOthers(x, dims)),
);
/** Equal extremes share the gradient, as in torch. */
const toExtremes = (g: Expr, x: Expr, y: Expr, share: Share): Expr => {
  const hit = convert(eq(x, y), g.dtype);
  return mul(g, div(hit, share(hit)));
};
export const reduceMax = reduction('reduceMax', 'maximum', lowest, anything, toExtremes);
export const reduceMin = reduction('reduceMin', 'minimum', highest, anything, toExtremes);
/** The largest that is a number: where NaN is noticed anyway, and in half the time. */
export const reduceTop = reduction('reduceTop', 'maximum', lowest, anything, toExtremes, false);
export const reduceAnd = reduction('reduceAnd', 'and', () => true, booleans);
export const reduceOr = reduction('reduceOr', 'or', () => false, booleans);

const sharedOp = define<[Expr, Expr]>({
  name: 'shared',
  infer: ([, y]) => y,
  lower: (_, [, y]) => y,
  vjp: (g, [x, y]) => {
    const hit = convert(logicalOr(eq(x, y), logicalAnd(isnan(x), isnan(y))), g.dtype);
    return [mul(hit, div(g, reduceSum(hit))), null];
  },
});
/** y, which is one of x's values: all elements that have it share the gradient. */
export const shared = (x: Expr, y: Expr): Expr => sharedOp([x, y], null);

// ---- an extreme and where it is

interface Extreme {
  readonly dim: number;
  readonly largest: boolean;
}
const INDEX = 'i32'; // inside a program; torch's i64 outside
const LAST = 2 ** 31 - 1;

/** Whether the element (v, i) goes before (w, j): it is more extreme, or NaN, or as extreme and stands earlier. */
function goesFirst(e: Emitter, [v, i, w, j]: readonly Ssa[], largest: boolean): Ssa {
  const bool = Aval.of('bool', []);
  const is = (direction: string, a: Ssa, b: Ssa) =>
    e.op('compare', [a, b], [bool], comparing(direction, e.typeOf(a).dtype))[0]!;
  const both = (a: Ssa, b: Ssa) => e.op('and', [a, b], [bool])[0]!;
  const either = (a: Ssa, b: Ssa) => e.op('or', [a, b], [bool])[0]!;
  const more = is(largest ? 'GT' : 'LT', v!, w!);
  const [same, earlier] = [is('EQ', v!, w!), is('LT', i!, j!)];
  if (!isFloat(e.typeOf(v!).dtype)) return either(more, both(same, earlier));
  const [vNaN, wNaN, wFine] = [is('NE', v!, v!), is('NE', w!, w!), is('EQ', w!, w!)];
  return either(either(more, both(vNaN, wFine)), both(either(same, both(vNaN, wNaN)), earlier));
}

const extremeOp = defineMulti<[Expr], Extreme>({
  name: 'extreme',
  infer: ([x], { dim }) => [without(x, [dim]), without(x, [dim]).withDType('i64')],
  lower: (e, [x], { dim, largest }, [values, indices]) => {
    const type = e.typeOf(x);
    const [value, index] = [Aval.of(type.dtype, []), Aval.of(INDEX, [])];
    const [places] = e.op('iota', [], [type.withDType(INDEX)], { iota_dimension: i64(dim) });
    const start = scalarConstant(e, (largest ? lowest : highest)(type.dtype), value);
    const body = e.region([value, index, value, index], (p) => {
      const first = goesFirst(e, p, largest);
      const pick = (a: Ssa, b: Ssa, out: Aval) => e.op('select', [first, a, b], [out])[0]!;
      return [pick(p[0]!, p[2]!, value), pick(p[1]!, p[3]!, index)];
    });
    const [v, i] = e.op(
      'reduce',
      [x, places!, start, scalarConstant(e, LAST, index)],
      [values!, indices!.withDType(INDEX)],
      { dimensions: i64s([dim]) },
      [body],
    );
    return [v!, e.op('convert', [i!], [indices!])[0]!];
  },
  vjp: ([g], [x], { dim }, [, indices]) => {
    if (!g) return [null];
    const hit = eq(iota(x.shape, dim, 'i64'), stretched(indices!, x, [dim]));
    return [where(hit, stretched(g, x, [dim]), zerosLike(x))];
  },
});
/** The largest or smallest element along a dimension and its place: the first of equals; NaN beats all, as in torch. */
export function reduceExtreme(x: Expr, dim: number, largest: boolean): { values: Expr; indices: Expr } {
  const [values, indices] = extremeOp([x], { dim, largest }) as [Expr, Expr];
  return { values, indices };
}

// ---- dimensions as torch takes them

/** One dimension, several, or an object that names them; nothing, or an empty list, means all. */
export type DimOption =
  | number
  | readonly number[]
  | { readonly dim?: number | readonly number[]; readonly keepdim?: boolean };

export const dimOptions = <T extends object>(option: T | number | readonly number[] | undefined) =>
  (typeof option === 'number' || Array.isArray(option) ? { dim: option } : (option ?? {})) as Partial<T>;

/** Extremes of nothing do not exist. */
export function checkNotEmpty(op: string, x: Expr, dims: readonly number[]): void {
  const empty = dims.find((d) => x.shape[d] === 0);
  if (empty !== undefined)
    throw new ShapeError(`${op}: dim ${empty} of ${x.aval} has no elements, so it has no ${op}: leave such arrays out`);
}

/** Applies a strict reduction to the dimensions an option means. */
export function reduceOver(
  name: string,
  x: Expr,
  option: DimOption | undefined,
  reduce: (x: Expr, dims: readonly number[]) => Expr,
): Expr {
  const { dim, keepdim = false } = dimOptions(option);
  const dims = normalizeDims(name, Array.isArray(dim) && !dim.length ? undefined : dim, x.shape.length);
  const y = reduce(x, dims);
  return keepdim
    ? reshape(
        y,
        x.shape.map((n, d) => (dims.includes(d) ? 1 : n)),
      )
    : y;
}
