// The optimizers SGD, Lion, RMSprop, Adam, AdamW, Adafactor: each is a table of options and an update rule. Formulas and order of
// operations are torch's, so that numbers agree to the last digits.
import { ArgumentError } from '../base/errors.js';
import type { Expr } from '../ir/expr.js';
import { square } from '../ops/math.js';
import { reduceSum } from '../ops/prim/broadcast.js';
import { reshape } from '../ops/prim/move.js';
import { add, div, eq, lt, maximum, minimum, mul, rsqrt, sign, sqrt, sub, where } from '../ops/prim/pointwise.js';
import { pow } from '../ops/prim/power.js';
import { correction, left, log, meanSquare, towards } from './formulas.js';
import { type Given, Optimizer, type Params } from './optimizer.js';
import {
  atLeastOne,
  COMMON,
  type CommonOptions,
  epsilons,
  finite,
  flag,
  fractions,
  type KernelOptions,
  kernels,
  notNegative,
  notPositive,
  type Rule,
  rate,
} from './rule.js';

// ---- stochastic gradient descent

export interface SGDOptions extends CommonOptions, Omit<KernelOptions, 'capturable'> {
  lr?: number;
  momentum?: number;
  dampening?: number;
  weightDecay?: number;
  nesterov?: boolean;
}
const sgd: Rule<SGDOptions> = {
  name: 'SGD',
  options: {
    lr: rate(1e-3),
    momentum: notNegative(0),
    dampening: finite(0),
    weightDecay: notNegative(0),
    nesterov: flag(),
    ...COMMON,
    ...kernels('foreach', 'fused', 'differentiable'),
  },
  check: ({ nesterov, momentum, dampening }) => {
    if (nesterov && (momentum <= 0 || dampening !== 0))
      throw new ArgumentError(
        `SGD: nesterov with momentum ${momentum} and dampening ${dampening}: it needs a momentum above 0 and no dampening`,
      );
  },
  numbers: ({ lr, momentum, dampening, weightDecay }) => ({
    lr,
    momentum,
    weightDecay,
    fresh: momentum ? 1 - dampening : 1,
  }),
  state: (shape, { momentum }) => (momentum ? { momentumBuffer: shape } : {}) as Record<string, typeof shape>,
  begin: ({ lr, momentum, weightDecay, fresh, t }, { nesterov }) => {
    const part = where(eq(t!, 1), 1, fresh!); // the first gradient starts the buffer, undamped
    return ({ p, g, momentumBuffer }) => {
      const d = add(g!, mul(p!, weightDecay!));
      if (!momentumBuffer) return { p: sub(p!, mul(d, lr!)) };
      const buffer = add(mul(momentumBuffer, momentum!), mul(d, part));
      return { p: sub(p!, mul(nesterov ? add(d, mul(buffer, momentum!)) : buffer, lr!)), momentumBuffer: buffer };
    };
  },
};
/** SGD: stochastic gradient descent, optionally with momentum. */
export class SGD extends Optimizer<SGDOptions> {
  constructor(params: Params<SGDOptions>, options: Given<SGDOptions> = {}) {
    super(sgd, params, options);
  }
}

// ---- the sign of a mean (Lion, Chen et al. 2023)

export interface LionOptions extends CommonOptions {
  lr?: number;
  betas?: readonly [number, number];
  weightDecay?: number;
}
const lion: Rule<LionOptions> = {
  name: 'Lion',
  options: { lr: rate(1e-4), betas: fractions([0.9, 0.99]), weightDecay: notNegative(0), ...COMMON },
  numbers: ({ lr, betas: [b1, b2], weightDecay }) => ({
    ...{ lr, weightDecay, kept: left(lr, weightDecay) },
    ...{ beta1: b1, beta2: b2, rest1: 1 - b1, rest2: 1 - b2 },
  }),
  state: (shape) => ({ expAvg: shape }),
  begin: (s) => {
    const mean = (m: Expr, g: Expr, keep: Expr, rest: Expr) => add(mul(m, keep), mul(g, rest));
    return ({ p, g, expAvg: m }) => ({
      p: sub(mul(p!, s.kept!), mul(sign(mean(m!, g!, s.beta1!, s.rest1!)), s.lr!)),
      expAvg: mean(m!, g!, s.beta2!, s.rest2!),
    });
  },
};
/** Lion: steps by the sign of a mean of gradients (Chen et al., 2023), with half of Adam's state. */
export class Lion extends Optimizer<LionOptions> {
  constructor(params: Params<LionOptions>, options: Given<LionOptions> = {}) {
    super(lion, params, options);
  }
}

// ---- the root of a mean square

export interface RMSpropOptions extends CommonOptions, Omit<KernelOptions, 'fused'> {
  lr?: number;
  alpha?: number;
  eps?: number;
  weightDecay?: number;
  momentum?: number;
  centered?: boolean;
}
const rmsprop: Rule<RMSpropOptions> = {
  name: 'RMSprop',
  options: {
    lr: rate(1e-2),
    alpha: notNegative(0.99),
    eps: notNegative(1e-8),
    weightDecay: notNegative(0),
    momentum: notNegative(0),
    centered: flag(),
    ...COMMON,
    ...kernels('foreach', 'capturable', 'differentiable'),
  },
  numbers: ({ lr, alpha, eps, weightDecay, momentum }) => ({ lr, alpha, eps, weightDecay, momentum, rest: 1 - alpha }),
  state: (shape, { momentum, centered }) => ({
    squareAvg: shape,
    ...(momentum && { momentumBuffer: shape }),
    ...(centered && { gradAvg: shape }),
  }),
  begin:
    ({ lr, alpha, eps, weightDecay, momentum, rest }) =>
    ({ p, g, squareAvg, momentumBuffer, gradAvg }) => {
      const d = add(g!, mul(p!, weightDecay!));
      const v = meanSquare(squareAvg!, d, alpha!, rest!);
      const mean = gradAvg && towards(gradAvg, d, rest!);
      const direction = div(d, add(sqrt(mean ? sub(v, mul(mean, mean)) : v), eps!));
      const buffer = momentumBuffer && add(mul(momentumBuffer, momentum!), direction);
      return {
        p: sub(p!, mul(buffer ?? direction, lr!)),
        squareAvg: v,
        ...(mean && { gradAvg: mean }),
        ...(buffer && { momentumBuffer: buffer }),
      };
    },
};
/** RMSprop: gradients divided by their root mean square (Hinton, 2012). */
export class RMSprop extends Optimizer<RMSpropOptions> {
  constructor(params: Params<RMSpropOptions>, options: Given<RMSpropOptions> = {}) {
    super(rmsprop, params, options);
  }
}

// ---- Adam, and AdamW, whose weight decay is apart from the gradient

export interface AdamOptions extends CommonOptions, KernelOptions {
  lr?: number;
  betas?: readonly [number, number];
  eps?: number;
  weightDecay?: number;
  amsgrad?: boolean;
  /** Whether weight decay is decoupled from the gradient, as in AdamW. Default: false. */
  decoupledWeightDecay?: boolean;
}
const adamLike = (name: string, weightDecay: number, decoupledWeightDecay: boolean): Rule<AdamOptions> => ({
  name,
  options: {
    lr: rate(1e-3),
    betas: fractions([0.9, 0.999]),
    eps: notNegative(1e-8),
    weightDecay: notNegative(weightDecay),
    amsgrad: flag(),
    decoupledWeightDecay: flag(decoupledWeightDecay),
    ...COMMON,
    ...kernels('foreach', 'fused', 'capturable', 'differentiable'),
  },
  check: ({ decoupledWeightDecay: isApart }) => {
    if (name === 'AdamW' && !isApart)
      throw new ArgumentError('AdamW: decoupledWeightDecay is false: AdamW always decouples it: use Adam');
  },
  numbers: ({ lr, betas: [b1, b2], eps, weightDecay }) => ({
    ...{ lr, eps, weightDecay, beta2: b2, kept: left(lr, weightDecay) },
    ...{ rest1: 1 - b1, rest2: 1 - b2, log1: log(b1), log2: log(b2) },
  }),
  state: (shape, { amsgrad }) => ({ expAvg: shape, expAvgSq: shape, ...(amsgrad && { maxExpAvgSq: shape }) }),
  begin: (s, { decoupledWeightDecay: decoupled }) => {
    const size = div(s.lr!, correction(s.t!, s.log1!));
    const root = sqrt(correction(s.t!, s.log2!));
    return ({ p, g, expAvg, expAvgSq, maxExpAvgSq }) => {
      const d = decoupled ? g! : add(g!, mul(p!, s.weightDecay!));
      const m = towards(expAvg!, d, s.rest1!);
      const v = meanSquare(expAvgSq!, d, s.beta2!, s.rest2!);
      const most = maxExpAvgSq && maximum(maxExpAvgSq, v);
      const change = mul(div(m, add(div(sqrt(most ?? v), root), s.eps!)), size);
      return {
        p: sub(decoupled ? mul(p!, s.kept!) : p!, change),
        expAvg: m,
        expAvgSq: v,
        ...(most && { maxExpAvgSq: most }),
      };
    };
  },
});
const [adam, adamW] = [adamLike('Adam', 0, false), adamLike('AdamW', 1e-2, true)];
/** Adam: means of gradients and of their squares (Kingma and Ba, 2014); weight decay is added to the gradient. */
export class Adam extends Optimizer<AdamOptions> {
  constructor(params: Params<AdamOptions>, options: Given<AdamOptions> = {}) {
    super(adam, params, options);
  }
}
/** AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, 2017). */
export class AdamW extends Optimizer<AdamOptions> {
  constructor(params: Params<AdamOptions>, options: Given<AdamOptions> = {}) {
    super(adamW, params, options);
  }
}

// ---- mean squares of rows and columns instead of all elements (Shazeer and Stern, 2018)

export interface AdafactorOptions extends CommonOptions, Pick<KernelOptions, 'foreach'> {
  lr?: number;
  beta2Decay?: number;
  /** Of squares (null: the dtype's own), and of the size of parameters. */
  eps?: readonly [number | null, number];
  /** Updates with a larger root mean square are scaled down to it. Default: 1. */
  d?: number;
  weightDecay?: number;
}
/** The larger of x and a bound, which is never NaN: unlike maximum, it asks only whether x is. */
const atLeast = (x: Expr, bound: Expr | number): Expr => where(lt(x, bound), bound, x);
const rootMeanSquare = (x: Expr): Expr => sqrt(div(reduceSum(square(x)), Math.max(1, x.aval.size)));
const meanOf = (x: Expr, dim: number): Expr => {
  const [at, shape] = [x.shape.length + dim, x.shape.with(dim, 1)];
  return div(reshape(reduceSum(x, [at]), shape), x.shape.at(dim)!);
};
const adafactor: Rule<AdafactorOptions> = {
  name: 'Adafactor',
  realOnly: true,
  options: {
    lr: rate(1e-2),
    beta2Decay: notPositive(-0.8),
    eps: epsilons([null, 1e-3]),
    d: atLeastOne(1),
    weightDecay: notNegative(0),
    ...COMMON,
    ...kernels('foreach'),
  },
  numbers: ({ lr, beta2Decay, eps, d, weightDecay }) => ({
    lr,
    beta2Decay,
    eps2: eps[1],
    d,
    weightDecay,
    kept: left(lr, weightDecay),
  }),
  state: (shape): Record<string, typeof shape> =>
    shape.length > 1 ? { rowVar: shape.with(-1, 1), colVar: shape.with(-2, 1) } : { variance: shape },
  begin: (s, { eps: [given] }) => {
    const rest = pow(s.t!, s.beta2Decay!);
    const rate = minimum(s.lr!, rsqrt(s.t!));
    return ({ p, g, rowVar, colVar, variance }, epsilon) => {
      const eps = given ?? epsilon;
      const alpha = mul(atLeast(rootMeanSquare(p!), s.eps2!), rate);
      const squares = square(g!);
      const row = rowVar && towards(rowVar, meanOf(squares, -1), rest);
      const col = colVar && towards(colVar, meanOf(squares, -2), rest);
      const v = variance && towards(variance, squares, rest);
      const estimate = v ?? div(mul(row!, col!), atLeast(meanOf(row!, -2), eps));
      const update = mul(rsqrt(atLeast(estimate, eps * eps)), g!);
      const size = div(alpha, atLeast(div(rootMeanSquare(update), s.d!), 1));
      return { p: sub(mul(p!, s.kept!), mul(update, size)), ...(v ? { variance: v } : { rowVar: row!, colVar: col! }) };
    };
  },
};
/** Adafactor: Adam with mean squares factored into rows and columns (Shazeer and Stern, 2018), for little state. */
export class Adafactor extends Optimizer<AdafactorOptions> {
  constructor(params: Params<AdafactorOptions>, options: Given<AdafactorOptions> = {}) {
    super(adafactor, params, options);
  }
}
