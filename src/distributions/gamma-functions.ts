// Functions of the gamma family: the gradient of a gamma draw by its shape, and the incomplete gamma function.
import { whileLoop } from '../tensor/control.js';
import { full, onesLike, zerosLike } from '../tensor/create.js';
import { where } from '../tensor/functions.js';
import type { Generator } from '../tensor/random.js';
import { standardGamma } from '../tensor/samplers.js';
import type { Tensor } from '../tensor/tensor.js';
import { finfo } from './distribution.js';

// The bivariate rational approximation of torch (aten/src/ATen/native/Distributions.h).
const COEFFICIENTS = [
  [0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1, 0.32668115, 0.10406089, 0.0014179084],
  [0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915, -0.00058392623],
  [0.040121004, -0.0065914022, -0.0026286047, -0.0013441777, 0.017050642, -0.0021309326, 0.00085092367, -1.5247877e-7],
] as const;

/**
 * By how much the logarithm of a gamma draw x grows with the shape alpha while its quantile stays: implicit
 * reparameterization (Figurnov, Mohamed, Mnih, 2018), by torch's three approximations of (dx / dalpha) / x.
 */
export function logGammaGrad(alpha: Tensor, x: Tensor, logX: Tensor): Tensor {
  // Small x: the series of the incomplete gamma function.
  let [numerator, denominator] = [onesLike(x), alpha];
  let [first, second] = [alpha.reciprocal(), alpha.square().reciprocal()];
  for (let i = 1; i <= 5; i++) {
    numerator = numerator.mul(x).mul(-1 / i);
    denominator = denominator.add(1);
    first = first.add(numerator.div(denominator));
    second = second.add(numerator.div(denominator.square()));
  }
  const small = logX.sub(alpha.digamma()).mul(first).sub(second).mul(x.exp()).neg();

  // Large alpha: Rice's saddle point expansion, and its limit near x = alpha.
  const squared = alpha.square();
  const near = alpha
    .mul(12)
    .add(1)
    .mul(alpha.mul(24))
    .add(1)
    .mul(
      squared
        .mul(1440)
        .add(x.mul(6).mul(x.mul(-120).add(53)))
        .sub(x.square().mul(65).div(alpha))
        .add(alpha.mul(x.mul(3600).add(107))),
    )
    .div(squared.square().mul(1244160))
    .div(x);
  const ratio = logX.sub(alpha.log());
  const away = alpha.sub(x);
  const root = alpha.mul(8).sqrt();
  const power = x.sub(alpha).sub(alpha.mul(ratio)).pow(-1.5);
  const sides = root.div(away).add(where(x.lt(alpha), power.neg(), power));
  const slope = ratio.mul(sides).sub(alpha.reciprocal().mul(2).sqrt().mul(alpha.add(x)).div(away.square()));
  const stirling = alpha.mul(24).reciprocal().add(1).div(alpha.mul(12)).add(1);
  const far = stirling.mul(slope).div(root).neg();
  const isNear = x.ge(alpha.mul(0.9)).logicalAnd(x.le(alpha.mul(1.1)));

  // The rest: a rational function of log(x / alpha) and log(alpha).
  const v = alpha.log();
  const c = COEFFICIENTS[0].map((c0, i) => ratio.mul(COEFFICIENTS[2][i]!).add(COEFFICIENTS[1][i]!).mul(ratio).add(c0));
  const cubic = (k: number): Tensor =>
    v
      .mul(c[k + 3]!)
      .add(c[k + 2]!)
      .mul(v)
      .add(c[k + 1]!)
      .mul(v)
      .add(c[k]!);
  const middle = cubic(0).div(cubic(4)).exp().div(x);

  const slopeOf = where(x.lt(0.8), small, where(alpha.gt(8), where(isNear, near, far), middle));
  return where(slopeOf.isfinite(), slopeOf, 0);
}

/** A gamma draw of rate 1 and its logarithm, both with a gradient with respect to alpha. */
export function gammaDraw(alpha: Tensor, generator?: Generator): { readonly value: Tensor; readonly log: Tensor } {
  const { value, log } = standardGamma(alpha, generator);
  const x = value.clamp({ min: finfo(value).tiny });
  if (!alpha.requiresGrad) return { value: x, log };
  const fixed = alpha.detach();
  const along = alpha.sub(fixed).mul(logGammaGrad(fixed, x, log)); // zero, with the slope as its gradient
  return { value: x.mul(along.add(1)), log: log.add(along) };
}

const STEPS = 5000;
/** Passes of a series or fraction until no element changes. */
function converge<C extends Readonly<Record<string, Tensor>>>(
  first: C,
  done: Tensor,
  pass: (c: C, i: Tensor) => { carry: C; done: Tensor },
): C {
  const all = (t: Tensor): Tensor => (t.ndim ? t.flatten().all(0) : t);
  const start = { carry: first, done, i: full([], 1, { dtype: done.dtype === 'bool' ? 'f32' : done.dtype }) };
  return whileLoop(
    ({ done, i }) => all(done).logicalNot().logicalAnd(i.lt(STEPS)),
    ({ carry, done, i }) => {
      const next = pass(carry, i);
      const kept = Object.fromEntries(Object.entries(next.carry).map(([k, t]) => [k, where(done, carry[k]!, t)]));
      return { carry: kept as C, done: done.logicalOr(next.done), i: i.add(1) };
    },
    start,
  ).carry;
}

/** The regularized lower incomplete gamma function, P(a, x): its series below a + 1, else its continued fraction (Lentz). */
function incompleteGamma(a: Tensor, x: Tensor): Tensor {
  const { eps, tiny } = finfo(x);
  const isWrong = a.gt(0).logicalAnd(x.ge(0)).logicalNot();
  const isEnd = isWrong.logicalOr(x.eq(0)).logicalOr(x.isinf());
  const isLow = x.lt(a.add(1));
  const scale = a.mul(x.log()).sub(x).sub(a.lgamma()).exp();
  const term = a.reciprocal();
  const { sum } = converge({ term, sum: term, at: a }, isEnd.logicalOr(isLow.logicalNot()), (c) => {
    const at = c.at.add(1);
    const next = c.term.mul(x).div(at);
    const total = c.sum.add(next);
    return { carry: { term: next, sum: total, at }, done: next.abs().le(total.abs().mul(eps)) };
  });
  const b = x.sub(a).add(1);
  const start = {
    b,
    c: full([], 1 / tiny / 16, { dtype: x.dtype }).expand(x.shape),
    d: b.reciprocal(),
    h: b.reciprocal(),
  };
  const away = (t: Tensor): Tensor => where(t.abs().lt(tiny * 16), tiny * 16, t);
  const { h } = converge(start, isEnd.logicalOr(isLow), (s, i) => {
    const n = i.to(x.dtype);
    const an = a.sub(n).mul(n);
    const next = s.b.add(2);
    const d = away(an.mul(s.d).add(next)).reciprocal();
    const c = away(next.add(an.div(s.c)));
    const factor = d.mul(c);
    return { carry: { b: next, c, d, h: s.h.mul(factor) }, done: factor.sub(1).abs().le(eps) };
  });
  const inside = where(isLow, scale.mul(sum), scale.mul(h).neg().add(1));
  const ends = where(x.isinf(), onesLike(x), zerosLike(x));
  return where(isWrong, Number.NaN, where(isEnd, ends, inside));
}

/**
 * The same with gradients: by x its density, by a what implicit reparameterization says (to about three digits; torch has
 * none). There are no second derivatives.
 */
export function gammainc(a: Tensor, x: Tensor): Tensor {
  const [shape, at] = [a.detach(), x.detach()];
  const value = incompleteGamma(shape, at);
  if (!a.requiresGrad && !x.requiresGrad) return value;
  const density = shape.sub(1).mul(at.log()).sub(at).sub(shape.lgamma()).exp();
  const byX = density.mul(x.sub(at));
  return value.add(byX).sub(
    density
      .mul(at)
      .mul(logGammaGrad(shape, at, at.log()))
      .mul(a.sub(shape)),
  );
}
