// More adaptive optimizers: Adagrad, Adadelta, Adamax, NAdam, RAdam, SparseAdam. torch's formulas, as in rules.ts.
import type { Expr } from '../ir/expr.js';
import { full } from '../ops/prim/constant.js';
import { convert } from '../ops/prim/move.js';
import { abs, add, div, eq, exp, expm1, gt, lt, maximum, mul, ne, sqrt, sub, where } from '../ops/prim/pointwise.js';
import { correction, left, log, meanSquare, towards } from './formulas.js';
import { type Given, Optimizer, type Params } from './optimizer.js';
import {
  between01,
  COMMON,
  type CommonOptions,
  flag,
  fractions,
  type KernelOptions,
  kernels,
  notNegative,
  positive,
  type Rule,
  rate,
} from './rule.js';

// ---- the sum of squares

export interface AdagradOptions extends CommonOptions, Omit<KernelOptions, 'capturable'> {
  lr?: number;
  lrDecay?: number;
  weightDecay?: number;
  /** The initial value of the sums of squares. Default: 0. */
  initialAccumulatorValue?: number;
  eps?: number;
}
const adagrad: Rule<AdagradOptions> = {
  name: 'Adagrad',
  options: {
    lr: rate(1e-2),
    lrDecay: notNegative(0),
    eps: notNegative(1e-10),
    weightDecay: notNegative(0),
    initialAccumulatorValue: notNegative(0),
    ...COMMON,
    ...kernels('foreach', 'fused', 'differentiable'),
  },
  numbers: ({ lr, lrDecay, eps, weightDecay }) => ({ lr, lrDecay, eps, weightDecay }),
  state: (shape) => ({ sum: shape }),
  initial: ({ initialAccumulatorValue }) => ({ sum: initialAccumulatorValue }),
  begin: ({ lr, lrDecay, eps, weightDecay, t }) => {
    const size = div(lr!, add(mul(sub(t!, 1), lrDecay!), 1));
    return ({ p, g, sum: before }) => {
      const d = add(g!, mul(p!, weightDecay!));
      const sum = add(before!, mul(d, d));
      return { p: sub(p!, mul(div(d, add(sqrt(sum), eps!)), size)), sum };
    };
  },
};
/** Adagrad: gradients divided by the root of the sum of their squares (Duchi et al., 2011). */
export class Adagrad extends Optimizer<AdagradOptions> {
  constructor(params: Params<AdagradOptions>, options: Given<AdagradOptions> = {}) {
    super(adagrad, params, options);
  }
}

// ---- a rate of the size of earlier changes

export interface AdadeltaOptions extends CommonOptions, Omit<KernelOptions, 'fused'> {
  lr?: number;
  rho?: number;
  eps?: number;
  weightDecay?: number;
}
const adadelta: Rule<AdadeltaOptions> = {
  name: 'Adadelta',
  options: {
    lr: rate(1),
    rho: between01(0.9),
    eps: notNegative(1e-6),
    weightDecay: notNegative(0),
    ...COMMON,
    ...kernels('foreach', 'capturable', 'differentiable'),
  },
  numbers: ({ lr, rho, eps, weightDecay }) => ({ lr, rho, eps, weightDecay, rest: 1 - rho }),
  state: (shape) => ({ squareAvg: shape, accDelta: shape }),
  begin:
    ({ lr, rho, eps, weightDecay, rest }) =>
    ({ p, g, squareAvg, accDelta }) => {
      const d = add(g!, mul(p!, weightDecay!));
      const v = meanSquare(squareAvg!, d, rho!, rest!);
      const delta = mul(div(sqrt(add(accDelta!, eps!)), sqrt(add(v, eps!))), d);
      return { p: sub(p!, mul(delta, lr!)), squareAvg: v, accDelta: meanSquare(accDelta!, delta, rho!, rest!) };
    },
};
/** Adadelta: gradients times the RMS of earlier updates over that of earlier gradients (Zeiler, 2012). */
export class Adadelta extends Optimizer<AdadeltaOptions> {
  constructor(params: Params<AdadeltaOptions>, options: Given<AdadeltaOptions> = {}) {
    super(adadelta, params, options);
  }
}

// ---- Adam's relatives

export interface AdamaxOptions extends CommonOptions, Omit<KernelOptions, 'fused'> {
  lr?: number;
  betas?: readonly [number, number];
  eps?: number;
  weightDecay?: number;
}
const adamax: Rule<AdamaxOptions> = {
  name: 'Adamax',
  options: {
    lr: rate(2e-3),
    betas: fractions([0.9, 0.999]),
    eps: notNegative(1e-8),
    weightDecay: notNegative(0),
    ...COMMON,
    ...kernels('foreach', 'capturable', 'differentiable'),
  },
  numbers: ({ lr, betas: [b1, b2], eps, weightDecay }) => ({
    ...{ lr, eps, weightDecay, beta2: b2, rest1: 1 - b1, log1: log(b1) },
  }),
  state: (shape) => ({ expAvg: shape, expInf: shape }),
  begin: (s) => {
    const size = div(s.lr!, correction(s.t!, s.log1!));
    return ({ p, g, expAvg, expInf }) => {
      const d = add(g!, mul(p!, s.weightDecay!));
      const m = towards(expAvg!, d, s.rest1!);
      const most = maximum(mul(expInf!, s.beta2!), add(abs(d), s.eps!));
      return { p: sub(p!, mul(div(m, most), size)), expAvg: m, expInf: most };
    };
  },
};
/** Adamax: Adam with the decayed maximum of gradients instead of a mean of squares (Kingma and Ba, 2014). */
export class Adamax extends Optimizer<AdamaxOptions> {
  constructor(params: Params<AdamaxOptions>, options: Given<AdamaxOptions> = {}) {
    super(adamax, params, options);
  }
}

export interface NAdamOptions extends CommonOptions, Omit<KernelOptions, 'fused'> {
  lr?: number;
  betas?: readonly [number, number];
  eps?: number;
  weightDecay?: number;
  momentumDecay?: number;
  decoupledWeightDecay?: boolean;
}
/** The momentum of step t, and the product of all until then; nothing comes before the first. */
const momentum = (s: Readonly<Record<string, Expr>>, t: Expr): Expr =>
  mul(s.beta1!, sub(1, mul(exp(mul(mul(t, s.momentumDecay!), Math.log(0.96))), 0.5)));
const momentumProduct = (s: Readonly<Record<string, Expr>>): Expr => {
  const before = where(eq(s.t!, 1), full([], 1, s.t!.dtype), s.muProduct!);
  const f32 = (x: Expr) => convert(x, 'f32'); // as it is kept
  return convert(mul(f32(before), f32(momentum(s, s.t!))), s.t!.dtype);
};
const nadam: Rule<NAdamOptions> = {
  name: 'NAdam',
  options: {
    lr: rate(2e-3),
    betas: fractions([0.9, 0.999]),
    eps: notNegative(1e-8),
    weightDecay: notNegative(0),
    momentumDecay: notNegative(4e-3),
    decoupledWeightDecay: flag(),
    ...COMMON,
    ...kernels('foreach', 'capturable', 'differentiable'),
  },
  numbers: ({ lr, betas: [b1, b2], eps, weightDecay, momentumDecay }) => ({
    ...{ lr, eps, weightDecay, momentumDecay, kept: left(lr, weightDecay) },
    ...{ beta1: b1, beta2: b2, rest1: 1 - b1, rest2: 1 - b2, log2: log(b2) },
  }),
  state: (shape) => ({ expAvg: shape, expAvgSq: shape }),
  shared: ['muProduct'],
  begin: (s, { decoupledWeightDecay: decoupled }) => {
    const [mu, next, product] = [momentum(s, s.t!), momentum(s, add(s.t!, 1)), momentumProduct(s)];
    const fresh = div(mul(s.lr!, sub(1, mu)), sub(1, product));
    const size = div(mul(s.lr!, next), sub(1, mul(product, next)));
    const correction2 = correction(s.t!, s.log2!);
    return ({ p, g, expAvg, expAvgSq }) => {
      const d = decoupled ? g! : add(g!, mul(p!, s.weightDecay!));
      const m = towards(expAvg!, d, s.rest1!);
      const v = meanSquare(expAvgSq!, d, s.beta2!, s.rest2!);
      const root = add(sqrt(div(v, correction2)), s.eps!);
      const from = decoupled ? mul(p!, s.kept!) : p!;
      return { p: sub(sub(from, mul(div(d, root), fresh)), mul(div(m, root), size)), expAvg: m, expAvgSq: v };
    };
  },
  end: (s) => ({ muProduct: momentumProduct(s) }),
};
/** Adam with Nesterov's momentum (Dozat, 2016). */
export class NAdam extends Optimizer<NAdamOptions> {
  constructor(params: Params<NAdamOptions>, options: Given<NAdamOptions> = {}) {
    super(nadam, params, options);
  }
}

export interface RAdamOptions extends CommonOptions, Omit<KernelOptions, 'fused'> {
  lr?: number;
  betas?: readonly [number, number];
  eps?: number;
  weightDecay?: number;
  decoupledWeightDecay?: boolean;
}
/** 1 + 1/x - coth(x): by its series where the terms would cancel. */
const cothGap = (x: Expr): Expr => {
  const terms = [-1 / 3, 1 / 45, -2 / 945, 1 / 4725, -2 / 93555, 1382 / 638512875, -4 / 18243225];
  const x2 = mul(x, x);
  const series = terms.reduceRight<Expr | number>((sum, c) => add(mul(x2, sum), c), 0) as Expr;
  return where(lt(x, 1), add(mul(x, series), 1), sub(div(1, x), div(2, expm1(mul(x, 2)))));
};
/** coth(x) - 1/x on the host. */
const langevin = (x: number): number => (x < 1e-3 ? x / 3 : 1 / Math.tanh(x) - 1 / x);
const radam: Rule<RAdamOptions> = {
  name: 'RAdam',
  options: {
    lr: rate(1e-3),
    betas: fractions([0.9, 0.999]),
    eps: notNegative(1e-8),
    weightDecay: notNegative(0),
    decoupledWeightDecay: flag(),
    ...COMMON,
    ...kernels('foreach', 'capturable', 'differentiable'),
  },
  numbers: ({ lr, betas: [b1, b2], eps, weightDecay }) => {
    const most = 2 / (1 - b2) - 1;
    return {
      ...{ lr, eps, weightDecay, kept: left(lr, weightDecay) },
      ...{ beta2: b2, rest1: 1 - b1, rest2: 1 - b2, log1: log(b1), log2: log(b2) },
      ...{ half: -log(b2) / 2, tail: langevin(-log(b2) / 2), most: most / ((most - 4) * (most - 2)) },
    };
  },
  state: (shape) => ({ expAvg: shape, expAvgSq: shape }),
  begin: (s, { decoupledWeightDecay: decoupled }) => {
    // rho, the length of the mean, is most - 2 t b^t / (1 - b^t) = t (1 + 1/x - coth x) + tail, x = -t log(b) / 2: its terms
    // do not cancel, so f32 is enough where torch has f64 numbers.
    const rho = add(mul(s.t!, cothGap(mul(s.t!, s.half!))), s.tail!);
    const isLong = gt(rho, 5);
    const rectified = sqrt(div(mul(mul(sub(rho, 4), sub(rho, 2)), s.most!), rho));
    const correction1 = correction(s.t!, s.log1!);
    const root = sqrt(correction(s.t!, s.log2!));
    return ({ p, g, expAvg, expAvgSq }) => {
      const d = decoupled ? g! : add(g!, mul(p!, s.weightDecay!));
      const m = towards(expAvg!, d, s.rest1!);
      const v = meanSquare(expAvgSq!, d, s.beta2!, s.rest2!);
      const plain = mul(div(m, correction1), s.lr!);
      const change = where(isLong, mul(mul(plain, div(root, add(sqrt(v), s.eps!))), rectified), plain);
      return { p: sub(decoupled ? mul(p!, s.kept!) : p!, change), expAvg: m, expAvgSq: v };
    };
  },
};
/** RAdam: Adam that skips the division in the first steps, when the variance estimate is unreliable (Liu et al., 2019). */
export class RAdam extends Optimizer<RAdamOptions> {
  constructor(params: Params<RAdamOptions>, options: Given<RAdamOptions> = {}) {
    super(radam, params, options);
  }
}

export interface SparseAdamOptions extends CommonOptions {
  lr?: number;
  betas?: readonly [number, number];
  eps?: number;
}
const sparseAdam: Rule<SparseAdamOptions> = {
  name: 'SparseAdam',
  realOnly: true, // as torch's
  options: { lr: rate(1e-3, positive), betas: fractions([0.9, 0.999]), eps: positive(1e-8), ...COMMON },
  numbers: ({ lr, betas: [b1, b2], eps }) => ({
    ...{ lr, eps, rest1: 1 - b1, rest2: 1 - b2, log1: log(b1), log2: log(b2) },
  }),
  state: (shape) => ({ expAvg: shape, expAvgSq: shape }),
  begin: (s) => {
    const size = div(mul(s.lr!, sqrt(correction(s.t!, s.log2!))), correction(s.t!, s.log1!));
    return ({ p, g, expAvg, expAvgSq }) => {
      const isThere = ne(g!, 0);
      const m = towards(expAvg!, g!, s.rest1!);
      const v = towards(expAvgSq!, mul(g!, g!), s.rest2!);
      const next = sub(p!, mul(div(m, add(sqrt(v), s.eps!)), size));
      return {
        p: where(isThere, next, p!),
        expAvg: where(isThere, m, expAvg!),
        expAvgSq: where(isThere, v, expAvgSq!),
      };
    };
  },
};
/**
 * Adam that does not change parameters and means where the gradient is 0. Unlike torch: gradients are dense, and a zero
 * element counts as absent.
 */
export class SparseAdam extends Optimizer<SparseAdamOptions> {
  constructor(params: Params<SparseAdamOptions>, options: Given<SparseAdamOptions> = {}) {
    super(sparseAdam, params, options);
  }
}
