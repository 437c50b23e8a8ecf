// Functions of two numbers, and of their bits: divisors, powers in f64, mantissas; incomplete gamma functions.
import { DTypeError } from '../base/errors.js';
import { isInteger } from '../base/promote.js';
import type { Expr } from '../ir/expr.js';
import { ldexp } from './math.js';
import { align, alignFloats, floating, isExpr, type Operand, resultTypeOf } from './prim/align.js';
import { full, zerosLike } from './prim/constant.js';
import { custom } from './prim/custom.js';
import { bitcast, convert } from './prim/move.js';
import {
  abs,
  add,
  bitwiseAnd,
  bitwiseRightShift,
  div,
  eq,
  exp,
  floorDivide,
  fmod,
  ge,
  gt,
  isinf,
  le,
  lgamma,
  log,
  logicalAnd,
  logicalNot,
  logicalOr,
  lt,
  mul,
  ne,
  neg,
  type Scaled,
  sub,
  where,
} from './prim/pointwise.js';
import { pow } from './prim/power.js';
import { reduceAnd, reduceOr } from './prim/reduce.js';
import { whileLoop } from './prim/while.js';

const pair = (xs: readonly Expr[]) => xs as unknown as [Expr, Expr];

/** b - alpha * a: sub with its operands the other way round. */
export const rsub = (a: Expr, b: Operand, options: Scaled = {}): Expr => sub(b, a, options);
/** a to the power b in f64, whatever they are. */
export const floatPower = (a: Operand, b: Operand): Expr => {
  const wide = (x: Operand) => (isExpr(x) ? convert(x, 'f64') : full([], Number(x), 'f64'));
  return pow(wide(a), wide(b));
};

function integers(op: string, a: Operand, b: Operand): [Expr, Expr] {
  const dtype = resultTypeOf(op, [a, b]);
  if (!isInteger(dtype)) throw new DTypeError(`${op}: takes integers, got ${dtype}: use long()`);
  return pair(align(op, [a, b]));
}
/** The greatest common divisor, by Euclid. */
export function gcd(a: Operand, b: Operand): Expr {
  const [x, y] = integers('gcd', a, b);
  const [found] = whileLoop(
    [abs(x), abs(y)],
    ([, rest]) => reduceOr(ne(rest!, 0)),
    ([m, n]) => {
      const done = eq(n!, 0);
      return [where(done, m!, n!), where(done, 0, fmod(m!, where(done, 1, n!)))];
    },
  );
  return found!;
}
/** The least common multiple. */
export function lcm(a: Operand, b: Operand): Expr {
  const [x, y] = integers('lcm', a, b);
  const divisor = gcd(x, y);
  return where(eq(divisor, 0), 0, abs(mul(floorDivide(x, where(eq(divisor, 0), 1, divisor)), y)));
}

/** x as mantissa * 2^exponent, with a mantissa from 0.5 up to 1. Of infinities and NaN the mantissa is themselves. */
export function frexp(x: Expr): { readonly mantissa: Expr; readonly exponent: Expr } {
  const given = floating(x);
  const wide = given.dtype === 'f64' ? given : convert(given, 'f32');
  const [whole, digits, bias, mask] =
    wide.dtype === 'f64' ? (['i64', 52, 1022, 0x7ff] as const) : (['i32', 23, 126, 0xff] as const);
  const code = bitwiseAnd(bitwiseRightShift(bitcast(wide, whole), digits), mask);
  const exponent = convert(where(logicalOr(eq(code, 0), eq(code, mask)), 0, sub(code, bias)), 'i32');
  return { mantissa: convert(ldexp(wide, neg(exponent)), given.dtype), exponent };
}

// ---- incomplete gamma functions

const PRECISION = {
  f32: { eps: 2 ** -24, tiny: 2 ** -120 },
  f64: { eps: 2 ** -53, tiny: 2 ** -1000 },
} as const;
const PASSES = 5000;
/** Passes of a series or fraction until no element changes. */
function converge(first: readonly Expr[], done: Expr, pass: (c: readonly Expr[], i: Expr) => [Expr[], Expr]): Expr[] {
  const counter = full([], 1, first[0]!.dtype);
  const outs = whileLoop(
    [...first, done, counter],
    (all) => logicalAnd(logicalNot(reduceAnd(all.at(-2)!)), lt(all.at(-1)!, PASSES)),
    (all) => {
      const [now, end, i] = [all.slice(0, -2), all.at(-2)!, all.at(-1)!];
      const [next, stops] = pass(now, i);
      return [...next.map((t, k) => where(end, now[k]!, t)), logicalOr(end, stops), add(i, 1)];
    },
  );
  return outs.slice(0, first.length);
}
/** P(a, x) and Q(a, x) = 1 - P: the series of P below a + 1, else the continued fraction of Q (Lentz). */
function incomplete(a: Expr, x: Expr, upper: boolean): Expr {
  const { eps, tiny } = PRECISION[a.dtype as 'f32'];
  const wrong = logicalNot(logicalAnd(ge(a, 0), ge(x, 0)));
  const ended = logicalOr(logicalOr(wrong, eq(x, 0)), logicalOr(isinf(x), logicalOr(isinf(a), eq(a, 0))));
  const low = lt(x, add(a, 1));
  const scale = exp(sub(sub(mul(a, log(x)), x), lgamma(a)));
  const term = div(1, a);
  const [, sum] = converge([term, term, a], logicalOr(ended, logicalNot(low)), ([t, total, at]) => {
    const n = add(at!, 1);
    const next = div(mul(t!, x), n);
    const more = add(total!, next);
    return [[next, more, n], le(abs(next), mul(abs(more), eps))];
  });
  const away = (t: Expr) => where(lt(abs(t), tiny), tiny, t);
  const b = add(sub(x, a), 1);
  const start = [b, full(x.shape, 1 / tiny, x.dtype), div(1, away(b)), div(1, away(b))];
  const [, , , fraction] = converge(start, logicalOr(ended, low), ([v, c, d, h], i) => {
    const an = mul(sub(a, i), i);
    const next = add(v!, 2);
    const [e, f] = [div(1, away(add(mul(an, d!), next))), away(add(next, div(an, c!)))];
    const factor = mul(e, f);
    return [[next, f, e, mul(h!, factor)], le(abs(sub(factor, 1)), eps)];
  });
  const [series, rest] = [mul(scale, sum!), mul(scale, fraction!)];
  const inside = upper ? where(low, sub(1, series), rest) : where(low, series, sub(1, rest));
  // All of the mass is below an infinite x, or at a = 0; none of it below x = 0, or for an infinite a.
  const below = logicalOr(logicalAnd(isinf(x), logicalNot(isinf(a))), logicalAnd(eq(a, 0), gt(x, 0)));
  const nowhere = logicalOr(logicalAnd(isinf(x), isinf(a)), logicalAnd(eq(a, 0), eq(x, 0)));
  const ends = convert(upper ? logicalNot(below) : below, x.dtype);
  return where(logicalOr(wrong, nowhere), Number.NaN, where(ended, ends, inside));
}
const incompleteGamma = (name: string, upper: boolean) => {
  const op = custom<[Expr, Expr]>(
    name,
    ([a, x]) => incomplete(a, x, upper),
    (g, [a, x]) => {
      const density = exp(sub(sub(mul(sub(a, 1), log(x)), x), lgamma(a)));
      return [zerosLike(g), mul(upper ? neg(g) : g, density)];
    },
  );
  return (a: Operand, x: Operand): Expr => {
    const [s, y] = pair(alignFloats(name, [a, x]));
    const wide = s.dtype === 'f64' ? 'f64' : 'f32';
    return convert(op([convert(s, wide), convert(y, wide)], null), s.dtype);
  };
};
/** The regularized lower incomplete gamma function P(a, x). Unlike torch: the gradient of a is 0, and no error. */
export const igamma = incompleteGamma('igamma', false);
/** The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x). Unlike torch: the gradient of a is 0, and no error. */
export const igammac = incompleteGamma('igammac', true);
