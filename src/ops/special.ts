// torch.special: functions that torch has only there. tensor/special.ts lists the others.
import { ArgumentError } from '../base/errors.js';
import { range } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { i0e } from './math.js';
import { alignFloats, floating, inWide, isExpr, type Operand } from './prim/align.js';
import { full, onesLike } from './prim/constant.js';
import {
  abs,
  add,
  cos,
  div,
  eq,
  erfc,
  exp,
  floor,
  ge,
  gt,
  isinf,
  isnan,
  le,
  log,
  log1p,
  logicalAnd,
  logicalNot,
  logicalOr,
  lt,
  mul,
  ne,
  neg,
  sign,
  sin,
  sqrt,
  sub,
  trunc,
  where,
} from './prim/pointwise.js';
import { pow } from './prim/power.js';
import { chebyshev } from './series.js';
import { AIRY, ERFCX, I1_FAR, I1_NEAR, J0, J1, K0, K1, NDTRI, Y0, Y1 } from './special-tables.js';

const pair = (op: string, a: Operand, b: Operand) => alignFloats(op, [a, b]) as [Expr, Expr];
/** Element by element, of floats; small ones in f32. */
const unary =
  (f: (x: Expr) => Expr) =>
  (x: Expr): Expr =>
    inWide(floating(x), f);
/** A polynomial by its coefficients, the highest first. */
const polynomial = (coefficients: readonly number[], x: Expr): Expr =>
  coefficients.slice(1).reduce<Expr>((y, c) => add(mul(y, x), c), full(x.shape, coefficients[0]!, x.dtype));
const ratio = (p: readonly number[], q: readonly number[], x: Expr): Expr => div(polynomial(p, x), polynomial(q, x));
/** A branch sees only what it is for: elsewhere its gradient might not be finite. */
const within = (x: Expr, inside: Expr, otherwise: number): Expr => where(inside, x, otherwise);

// ---- probability

/** -x log(x), 0 at 0, and minus infinity below. */
export const entr = unary((x) => {
  const positive = gt(x, 0);
  const inside = neg(mul(x, log(within(x, positive, 1))));
  return where(logicalOr(positive, isnan(x)), inside, where(eq(x, 0), 0, Number.NEGATIVE_INFINITY));
});
/** The standard normal cumulative distribution function. */
export const ndtr = unary((x) => mul(0.5, erfc(mul(x, -Math.SQRT1_2))));
/** exp(x^2) erfc(x), which does not vanish where erfc does. */
export const erfcx = unary((x) => {
  const down = lt(x, 0);
  const y = abs(x);
  const series = div(chebyshev(ERFCX, sub(1, div(7.5, add(y, 3.75)))), add(mul(y, 2), 1));
  const low = within(x, down, 0);
  return where(down, sub(mul(2, exp(mul(low, low))), series), series);
});
/** The logarithm of the standard normal cumulative distribution function. */
export const logNdtr = unary((x) => {
  const down = lt(x, -1);
  const [low, high] = [within(x, down, -1), where(down, 0, x)];
  const tail = sub(log(mul(0.5, erfcx(mul(low, -Math.SQRT1_2)))), mul(0.5, mul(low, low)));
  return where(down, tail, log1p(mul(-0.5, erfc(mul(high, Math.SQRT1_2)))));
});
/** The inverse of the standard normal cumulative distribution function. */
export const ndtri = unary((x) => {
  const tail = Math.exp(-2);
  const [low, high] = [le(x, tail), gt(x, 1 - tail)];
  const middle = logicalOr(low, high);
  const y = sub(where(middle, 0.5, x), 0.5);
  const square = mul(y, y);
  const near = mul(Math.sqrt(2 * Math.PI), add(y, mul(y, mul(square, ratio(NDTRI.P0, NDTRI.Q0, square)))));
  const share = where(high, sub(1, x), x);
  const inside = logicalAnd(middle, gt(share, 0));
  const z = sqrt(mul(-2, log(within(share, inside, tail))));
  const inverse = div(1, z);
  const far = lt(z, 8);
  const rest = where(far, ratio(NDTRI.P1, NDTRI.Q1, inverse), ratio(NDTRI.P2, NDTRI.Q2, inverse));
  const away = sub(sub(z, div(log(z), z)), mul(inverse, rest));
  const found = where(middle, where(high, away, neg(away)), near);
  const ends = where(eq(x, 0), Number.NEGATIVE_INFINITY, where(eq(x, 1), Number.POSITIVE_INFINITY, found));
  return where(logicalOr(lt(x, 0), logicalOr(gt(x, 1), isnan(x))), Number.NaN, ends);
});
/** x log(1 + y), which is 0 where x is, whatever number y is. */
export const xlog1py = (x: Operand, y: Operand): Expr => {
  const [a, b] = pair('xlog1py', x, y);
  const nothing = logicalAnd(eq(a, 0), eq(b, b));
  const finite = logicalAnd(gt(b, -1), lt(b, Number.POSITIVE_INFINITY));
  return where(nothing, mul(a, log1p(where(finite, b, 0))), mul(a, log1p(where(nothing, 0, b))));
};

// ---- zeta

/** 2k! / B_2k, of the Euler-Maclaurin sum. */
const EULER = [
  12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1892437580.3183792, 74724249600.0, -2950130727918.164,
  116467828143500.67, -4597978722407473, 1.8152105401943546e17, -7.166165256175667e18,
];
/** Hurwitz's zeta function: the sum of (q + k)^-x. Unlike torch: NaN for q below -20. */
export function zeta(x: Operand, q: Operand): Expr {
  const [s, start] = pair('zeta', x, q);
  const whole = eq(start, floor(start));
  const pole = logicalAnd(le(start, 0), whole);
  const [power, first] = [where(gt(s, 1), s, 2), where(pole, 1, start)];
  let [sum, last, a] = [pow(first, neg(power)), pow(first, neg(power)), first];
  // Terms one by one, up to an argument that is large enough for the expansion.
  for (let i = 1; i < 30; i++) {
    const more = i < 10 ? full(a.shape, true, 'bool') : le(a, 9);
    const next = add(a, 1);
    const term = pow(next, neg(power));
    [a, last, sum] = [where(more, next, a), where(more, term, last), where(more, add(sum, term), sum)];
  }
  sum = add(sum, sub(div(mul(last, a), sub(power, 1)), mul(last, 0.5)));
  let [factor, b] = [onesLike(a), last];
  for (const [k, c] of EULER.entries()) {
    [factor, b] = [mul(factor, add(power, 2 * k)), div(b, a)];
    sum = add(sum, div(mul(factor, b), c));
    [factor, b] = [mul(factor, add(power, 2 * k + 1)), div(b, a)];
  }
  const defined = where(logicalAnd(lt(start, 0), ne(s, floor(s))), Number.NaN, where(lt(start, -20), Number.NaN, sum));
  const infinite = logicalOr(eq(s, 1), logicalAnd(pole, gt(s, 1)));
  const known = where(infinite, Number.POSITIVE_INFINITY, where(lt(s, 1), Number.NaN, defined));
  return where(logicalOr(isnan(s), isnan(start)), Number.NaN, known);
}

// ---- Bessel and Airy functions

/** exp(-|x|) times the modified Bessel function of the first kind, of order 1. */
export const i1e = unary((x) => {
  const y = abs(x);
  const beyond = gt(y, 8);
  const near = logicalNot(beyond); // NaN, too
  const far = within(y, beyond, 8);
  const [a, b] = [chebyshev(I1_NEAR, sub(div(within(y, near, 8), 4), 1)), chebyshev(I1_FAR, sub(div(16, far), 1))];
  return where(near, mul(x, a), mul(sign(x), div(b, sqrt(far))));
});
/** The modified Bessel function of the first kind, of order 1. */
export const i1 = unary((x) => mul(exp(abs(x)), i1e(x)));

interface Wave {
  readonly PP: readonly number[];
  readonly PQ: readonly number[];
  readonly QP: readonly number[];
  readonly QQ: readonly number[];
}
/** Beyond 5: a cosine (of the first kind) or sine (of the second) that slowly decays. */
function wave({ PP, PQ, QP, QQ }: Wave, x: Expr, phase: number, second: boolean): Expr {
  const inverse = div(5, x);
  const square = mul(inverse, inverse);
  const angle = sub(x, phase);
  const [p, q] = [ratio(PP, PQ, square), mul(inverse, ratio(QP, QQ, square))];
  const sum = second ? add(mul(p, sin(angle)), mul(q, cos(angle))) : sub(mul(p, cos(angle)), mul(q, sin(angle)));
  return div(mul(Math.sqrt(2 / Math.PI), sum), sqrt(x));
}
/** Of the first kind, of order 0. */
export const besselJ0 = unary((x) => {
  const y = abs(x);
  const near = le(y, 5);
  const square = mul(within(y, near, 1), within(y, near, 1));
  const zeros = mul(sub(square, 5.783185962946784), sub(square, 30.471262343662087));
  const far = where(logicalOr(near, isinf(y)), 6, y);
  return where(near, mul(zeros, ratio(J0.RP, J0.RQ, square)), where(isinf(y), 0, wave(J0, far, Math.PI / 4, false)));
});
/** Of the first kind, of order 1. */
export const besselJ1 = unary((x) => {
  const y = abs(x);
  const near = le(y, 5);
  const inner = within(y, near, 1);
  const square = mul(inner, inner);
  const zeros = mul(mul(inner, sub(square, 14.681970642123893)), sub(square, 49.2184563216946));
  const far = where(logicalOr(near, isinf(y)), 6, y);
  const size = where(near, mul(zeros, ratio(J1.RP, J1.RQ, square)), wave(J1, far, (3 * Math.PI) / 4, false));
  return mul(sign(x), where(isinf(y), 0, size));
});
/** Of the second kind: minus infinity at 0, and NaN below. Far from 0 it has the coefficients of the first kind. */
const secondKind = (near: (x: Expr) => Expr, table: Wave, phase: number) =>
  unary((x) => {
    const inside = logicalAnd(gt(x, 0), le(x, 5));
    const far = where(logicalAnd(gt(x, 5), lt(x, Number.POSITIVE_INFINITY)), x, 6);
    const positive = where(inside, near(within(x, inside, 1)), wave(table, far, phase, true));
    const value = where(isinf(x), 0, positive);
    return where(gt(x, 0), value, where(eq(x, 0), Number.NEGATIVE_INFINITY, Number.NaN));
  });
/** Of the second kind, of order 0. */
export const besselY0 = secondKind(
  (x) => add(ratio(Y0.YP, Y0.YQ, mul(x, x)), mul(2 / Math.PI, mul(log(x), besselJ0(x)))),
  J0,
  Math.PI / 4,
);
/** Of the second kind, of order 1. */
export const besselY1 = secondKind(
  (x) => add(mul(x, ratio(Y1.YP, Y1.YQ, mul(x, x))), mul(2 / Math.PI, sub(mul(besselJ1(x), log(x)), div(1, x)))),
  J1,
  (3 * Math.PI) / 4,
);
/** The modified Bessel functions of the first kind: i0 and i1. */
export const modifiedBesselI0 = unary((x) => mul(exp(abs(x)), i0e(x)));
export const modifiedBesselI1 = i1;

/** Cephes' Chebyshev series: the highest first, the last one halved. */
const cephes = (coefficients: readonly number[], t: Expr): Expr => {
  const lowest = coefficients.toReversed();
  return chebyshev([lowest[0]! / 2, ...lowest.slice(1)], t);
};
/** exp(x) times the modified Bessel function of the second kind: infinite at 0, and NaN below. */
const scaledK =
  (near: (x: Expr) => Expr, table: { readonly B: readonly number[] }) =>
  (x: Expr): Expr => {
    const inside = logicalAnd(gt(x, 0), le(x, 2));
    const inner = within(x, inside, 1);
    const far = within(x, gt(x, 2), 3);
    const tail = div(cephes(table.B, sub(div(4, far), 1)), sqrt(far));
    const positive = where(inside, mul(near(inner), exp(inner)), tail);
    return where(gt(x, 0), positive, where(eq(x, 0), Number.POSITIVE_INFINITY, Number.NaN));
  };
const k0 = scaledK(
  (x) => sub(cephes(K0.A, sub(mul(0.5, mul(x, x)), 1)), mul(log(mul(0.5, x)), modifiedBesselI0(x))),
  K0,
);
const k1 = scaledK((x) => add(mul(log(mul(0.5, x)), i1(x)), div(cephes(K1.A, sub(mul(0.5, mul(x, x)), 1)), x)), K1);
const unscaled = (k: (x: Expr) => Expr) => unary((x) => mul(where(gt(x, 0), exp(neg(where(gt(x, 0), x, 0))), 1), k(x)));
export const scaledModifiedBesselK0 = unary(k0);
export const scaledModifiedBesselK1 = unary(k1);
export const modifiedBesselK0 = unscaled(k0);
export const modifiedBesselK1 = unscaled(k1);
/** sin(x) / x. */
export const sphericalBesselJ0 = unary((x) => {
  const near = lt(abs(x), 0.5);
  const square = mul(within(x, near, 0), within(x, near, 0));
  const terms = [1 / 6227020800, -1 / 39916800, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6, 1];
  const far = where(logicalOr(near, isinf(x)), 1, x);
  return where(near, polynomial(terms, square), where(isinf(x), 0, div(sin(far), far)));
});
/** Airy's function Ai. */
export const airyAi = unary((x) => {
  const [low, high] = [lt(x, -2.09), ge(x, 2.09)];
  const down = neg(within(x, low, -3)); // oscillates
  const angle = div(mul(mul(2, down), sqrt(down)), 3);
  const z = div(1, angle);
  const square = mul(z, z);
  const turned = add(angle, Math.PI / 4);
  const f = add(1, mul(square, ratio(AIRY.AFN, AIRY.AFD, square)));
  const g = mul(z, ratio(AIRY.AGN, AIRY.AGD, square));
  const scale = 1 / Math.sqrt(Math.PI);
  const left = div(mul(scale, sub(mul(sin(turned), f), mul(cos(turned), g))), sqrt(sqrt(down)));
  const up = within(x, logicalAnd(high, lt(x, 103.892)), 3); // vanishes
  const depth = div(mul(mul(2, up), sqrt(up)), 3);
  const right = div(mul(scale / 2, ratio(AIRY.AN, AIRY.AD, div(1, depth))), mul(sqrt(sqrt(up)), exp(depth)));
  // Between: the power series of two solutions.
  const near = where(logicalOr(low, high), 0, x);
  const cube = mul(near, mul(near, near));
  let [m, n] = [onesLike(near), near];
  let [a, b] = [m, n];
  for (let k = 1; k < 40; k += 3) {
    [m, n] = [div(mul(m, cube), (k + 1) * (k + 2)), div(mul(n, cube), (k + 2) * (k + 3))];
    [a, b] = [add(a, m), add(b, n)];
  }
  const middle = sub(mul(a, 0.3550280538878172), mul(b, 0.2588194037928068));
  const whole = where(low, left, where(high, where(lt(x, 103.892), right, 0), middle));
  return where(isinf(x), Number.NaN, whole);
});

// ---- orthogonal polynomials. Unlike torch: a tensor of degrees takes degrees up to 32, and gives NaN above; the
// gradient of x is there.

const DEGREES = 32;
type Step = (k: number, p: Expr, before: Expr, x: Expr) => Expr;
/** p_n(x), by p_0 = 1, p_1, and the recurrence for the next degree after k. */
const orthogonal =
  (op: string, first: (x: Expr) => Expr, next: Step) =>
  (x: Operand, n: Operand): Expr => {
    if (!isExpr(x) && !isExpr(n)) throw new ArgumentError(`${op}: takes a tensor, got the numbers ${x} and ${n}`);
    const [y, degrees] = pair(op, x, n);
    const most = isExpr(n) ? DEGREES : Math.trunc(Number(n));
    const all = [onesLike(y), first(y)];
    for (const k of range(Math.max(0, most - 1)).map((i) => i + 1)) all.push(next(k, all[k]!, all[k - 1]!, y));
    if (!isExpr(n)) return most < 0 ? full(y.shape, 0, y.dtype) : all[most]!;
    const degree = trunc(degrees); // torch cuts off what lies behind the point: -0.5 is 0
    const found = all.reduce((sum, p, k) => where(eq(degree, k), p, sum), full(y.shape, Number.NaN, y.dtype));
    return where(lt(degree, 0), 0, found);
  };
const twice = (x: Expr) => mul(2, x);
const shifted = (x: Expr) => sub(mul(2, x), 1);
const chebyshevStep: Step = (_, p, before, x) => sub(mul(twice(x), p), before);
const shiftedStep: Step = (k, p, before, x) => chebyshevStep(k, p, before, shifted(x));
/** Of the first kind. */
export const chebyshevPolynomialT = orthogonal('chebyshevPolynomialT', (x) => x, chebyshevStep);
/** Of the second kind. */
export const chebyshevPolynomialU = orthogonal('chebyshevPolynomialU', twice, chebyshevStep);
/** Of the third kind. */
export const chebyshevPolynomialV = orthogonal('chebyshevPolynomialV', (x) => sub(twice(x), 1), chebyshevStep);
/** Of the fourth kind. */
export const chebyshevPolynomialW = orthogonal('chebyshevPolynomialW', (x) => add(twice(x), 1), chebyshevStep);
/** The same of 2 x - 1. */
export const shiftedChebyshevPolynomialT = orthogonal('shiftedChebyshevPolynomialT', shifted, shiftedStep);
export const shiftedChebyshevPolynomialU = orthogonal(
  'shiftedChebyshevPolynomialU',
  (x) => twice(shifted(x)),
  shiftedStep,
);
export const shiftedChebyshevPolynomialV = orthogonal(
  'shiftedChebyshevPolynomialV',
  (x) => sub(twice(shifted(x)), 1),
  shiftedStep,
);
export const shiftedChebyshevPolynomialW = orthogonal(
  'shiftedChebyshevPolynomialW',
  (x) => add(twice(shifted(x)), 1),
  shiftedStep,
);
/** The physicist's. */
export const hermitePolynomialH = orthogonal('hermitePolynomialH', twice, (k, p, before, x) =>
  sub(mul(twice(x), p), mul(2 * k, before)),
);
/** The probabilist's. */
export const hermitePolynomialHe = orthogonal(
  'hermitePolynomialHe',
  (x) => x,
  (k, p, before, x) => sub(mul(x, p), mul(k, before)),
);
export const laguerrePolynomialL = orthogonal(
  'laguerrePolynomialL',
  (x) => sub(1, x),
  (k, p, before, x) => div(sub(mul(sub(2 * k + 1, x), p), mul(k, before)), k + 1),
);
export const legendrePolynomialP = orthogonal(
  'legendrePolynomialP',
  (x) => x,
  (k, p, before, x) => div(sub(mul(mul(2 * k + 1, x), p), mul(k, before)), k + 1),
);
