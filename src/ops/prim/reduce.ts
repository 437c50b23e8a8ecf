import { highest, lowest } from '../../base/literal.js';
import { isComplex, isFloat } from '../../base/promote.js';
import { range } from '../../base/shape.js';
import { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import type { Emitter, Ssa } from '../../ir/op.js';
import { numbers, reduceSum, reduction, type Share, stretched, without } from './broadcast.js';
import { conjugate } from './complex.js';
import { iota, zerosLike } from './constant.js';
import {
  type Accepts,
  checkDType,
  comparing,
  define,
  defineMulti,
  i64,
  i64s,
  same,
  scalarConstant,
  shifted,
} from './define.js';
import { convert } from './move.js';
import { div, eq, isnan, logicalAnd, logicalOr, mul, where } from './pointwise.js';
import { productOfOthers } from './scanning.js';

const ordered: Accepts = [(d) => !isComplex(d), 'numbers that have an order, not complex ones (use abs() or real())'];
const booleans: Accepts = [(d) => d === 'bool', 'booleans'];

/** Its gradient is made from the other elements, not by division: they may be zero. */
export const reduceProd = reduction(
  'reduceProd',
  'multiply',
  () => 1,
  numbers,
  (g, x, _y, _share, dims) => mul(g, conjugate(productOfOthers(x, dims))),
);
/** Equal extremes share the gradient, as in torch. */
const toExtremes = (g: Expr, x: Expr, y: Expr, share: Share): Expr => {
  const hit = convert(eq(x, y), g.dtype);
  return mul(g, div(hit, share(hit)));
};
export const reduceMax = reduction('reduceMax', 'maximum', lowest, ordered, toExtremes);
export const reduceMin = reduction('reduceMin', 'minimum', highest, ordered, toExtremes);
/** The largest that is a number: where NaN is noticed anyway, and in half the time. */
export const reduceTop = reduction('reduceTop', 'maximum', lowest, ordered, toExtremes, false);
export const reduceAnd = reduction('reduceAnd', 'and', () => true, booleans);
export const reduceOr = reduction('reduceOr', 'or', () => false, booleans);

const sharedOp = define<[Expr, Expr], null>({
  name: 'shared',
  infer: ([, y]) => y,
  lower: (_, [, y]) => y,
  // y has the first dimensions of x: one value for each of them.
  vjp: (g, [x, y]) => {
    const rest = range(x.shape.length).slice(y.shape.length);
    const [value, gradient] = [stretched(y, x, rest), stretched(g, x, rest)];
    const hit = convert(logicalOr(eq(x, value), logicalAnd(isnan(x), isnan(value))), g.dtype);
    return [mul(hit, div(gradient, stretched(reduceSum(hit, rest), x, rest))), null];
  },
  batch: same,
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

/** Whether the element (v, i) goes before (w, j): it is more extreme, or NaN, or equal and earlier. */
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
  infer: ([x], { dim }) => {
    checkDType('max and min', [x], ...ordered);
    return [without(x, [dim]), without(x, [dim]).withDType('i64')];
  },
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
  batch: shifted(({ dim, largest }) => ({ dim: dim + 1, largest })),
});
/** The largest or smallest element along a dimension and its place: the first of equals; NaN beats all, as in torch. */
export function reduceExtreme(x: Expr, dim: number, largest: boolean): { values: Expr; indices: Expr } {
  const [values, indices] = extremeOp([x], { dim, largest }) as [Expr, Expr];
  return { values, indices };
}
