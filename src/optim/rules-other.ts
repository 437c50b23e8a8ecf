// Other optimizers: averaged parameters (ASGD), steps by sign (Rprop), orthogonal updates (Muon).
import { ArgumentError } from '../base/errors.js';
import { showShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { square } from '../ops/math.js';
import { reduceSum } from '../ops/prim/broadcast.js';
import { dotGeneral } from '../ops/prim/dot.js';
import { convert, permute } from '../ops/prim/move.js';
import { add, div, eq, gt, lt, maximum, minimum, mul, sign, sqrt, sub, where } from '../ops/prim/pointwise.js';
import { pow } from '../ops/prim/power.js';
import { left, towards } from './formulas.js';
import { type Given, Optimizer, type Params } from './optimizer.js';
import {
  COMMON,
  type CommonOptions,
  choice,
  count,
  finite,
  flag,
  type KernelOptions,
  kernels,
  notNegative,
  pair,
  type Rule,
  rate,
  triple,
} from './rule.js';

// ---- gradient descent whose average is the result

export interface ASGDOptions extends CommonOptions, Omit<KernelOptions, 'fused'> {
  lr?: number;
  /** The decay of parameters and of the rate. Default: 1e-4. */
  lambd?: number;
  /** The exponent of the rate's decay. Default: 0.75. */
  alpha?: number;
  /** The step at which averaging begins. Default: 1e6. */
  t0?: number;
  weightDecay?: number;
}
const asgd: Rule<ASGDOptions> = {
  name: 'ASGD',
  options: {
    lr: rate(1e-2),
    lambd: finite(1e-4),
    alpha: finite(0.75),
    t0: finite(1e6),
    weightDecay: notNegative(0),
    ...COMMON,
    ...kernels('foreach', 'capturable', 'differentiable'),
  },
  numbers: ({ lr, lambd, alpha, t0, weightDecay }) => ({ lr, lambd, alpha, t0, weightDecay }),
  state: (shape) => ({ ax: shape }),
  shared: ['eta', 'mu'],
  begin: ({ lr, lambd, weightDecay, t, eta: lastEta, mu: lastMu }) => {
    const isFirst = eq(t!, 1);
    const [eta, mu] = [where(isFirst, lr!, lastEta!), where(isFirst, 1, lastMu!)];
    const kept = sub(1, mul(lambd!, eta));
    const isCopy = eq(mu, 1);
    return ({ p, g, ax }) => {
      const d = add(g!, mul(p!, weightDecay!));
      const next = sub(mul(p!, kept), mul(d, eta));
      return { p: next, ax: where(isCopy, next, add(ax!, mul(sub(next, ax!), mu))) };
    };
  },
  end: ({ lr, lambd, alpha, t0, t }) => ({
    eta: div(lr!, pow(add(mul(mul(lambd!, lr!), t!), 1), alpha!)),
    mu: div(1, maximum(sub(t!, t0!), 1)),
  }),
};
/** ASGD: gradient descent, with the average of the parameters in the state `ax` (Polyak and Juditsky, 1992). */
export class ASGD extends Optimizer<ASGDOptions> {
  constructor(params: Params<ASGDOptions>, options: Given<ASGDOptions> = {}) {
    super(asgd, params, options);
  }
}

// ---- signs of gradients

export interface RpropOptions extends CommonOptions, Omit<KernelOptions, 'fused'> {
  lr?: number;
  /** The factors of an element's step size after a change of sign, and after the same sign. */
  etas?: readonly [number, number];
  /** The smallest and the largest step size. */
  stepSizes?: readonly [number, number];
}
const rprop: Rule<RpropOptions> = {
  name: 'Rprop',
  options: {
    lr: rate(1e-2),
    etas: pair([0.5, 1.2]),
    stepSizes: pair([1e-6, 50]),
    ...COMMON,
    ...kernels('foreach', 'capturable', 'differentiable'),
  },
  check: ({ etas: [less, more] }) => {
    if (!(less > 0 && less < 1 && more > 1))
      throw new ArgumentError(`Rprop: etas is [${less}, ${more}]: it must be 0 < first < 1 < second`);
  },
  numbers: ({ lr, etas: [less, more], stepSizes: [least, most] }) => ({ lr, less, more, least, most }),
  state: (shape) => ({ prev: shape, stepSize: shape }),
  begin:
    ({ lr, less, more, least, most }) =>
    ({ p, g, prev, stepSize }) => {
      const same = mul(g!, prev!);
      const isTurn = lt(same, 0);
      const factor = where(gt(same, 0), more!, where(isTurn, less!, 1));
      // A step of 0 has not begun: then it is the rate, whatever that is by now.
      const from = where(eq(stepSize!, 0), lr!, stepSize!);
      const size = minimum(maximum(mul(from, factor), least!), most!);
      const d = where(isTurn, 0, g!);
      return { p: sub(p!, mul(sign(d), size)), prev: d, stepSize: size };
    },
};
/** Rprop: steps by the sign of the gradient, with sizes that grow while it stays the same (Riedmiller and Braun, 1993). For full batches. */
export class Rprop extends Optimizer<RpropOptions> {
  constructor(params: Params<RpropOptions>, options: Given<RpropOptions> = {}) {
    super(rprop, params, options);
  }
}

// ---- the nearest orthogonal matrix

export interface MuonOptions extends CommonOptions {
  lr?: number;
  weightDecay?: number;
  momentum?: number;
  nesterov?: boolean;
  /** The coefficients of the Newton-Schulz polynomial. */
  nsCoefficients?: readonly [number, number, number];
  eps?: number;
  nsSteps?: number;
  /** How the rate depends on the shape: `'original'` or `'match_rms_adamw'`. Default: `'original'`. */
  adjustLrFn?: 'original' | 'match_rms_adamw' | null;
}
/** A product of bf16 matrices with f32 accumulation. */
const product = (a: Expr, b: Expr): Expr =>
  dotGeneral([a, b], {
    batch: [[], []],
    sum: [[1], [0]],
    out: 'f32',
  });
const bf16 = (x: Expr): Expr => convert(x, 'bf16');
/** The Newton-Schulz iteration, in bf16 as in torch. */
function orthogonal(matrix: Expr, [a, b, c]: readonly [Expr, Expr, Expr], eps: Expr, steps: number): Expr {
  const [rows, columns] = matrix.shape as [number, number];
  const turn = (x: Expr) => (rows > columns ? permute(x, [1, 0]) : x);
  let x = turn(bf16(matrix));
  const f32 = (e: Expr) => convert(e, 'f32');
  const norm = bf16(sqrt(reduceSum(square(f32(x)))));
  x = bf16(div(f32(x), maximum(f32(norm), eps)));
  for (let i = 0; i < steps; i++) {
    const gram = bf16(product(x, permute(x, [1, 0])));
    const update = bf16(add(mul(f32(gram), b), mul(product(gram, gram), c)));
    x = bf16(add(mul(f32(x), a), product(update, x)));
  }
  return turn(x);
}
const muon: Rule<MuonOptions> = {
  name: 'Muon',
  realOnly: true,
  options: {
    lr: rate(1e-3),
    weightDecay: notNegative(0.1),
    momentum: notNegative(0.95),
    nesterov: flag(true),
    nsCoefficients: triple([3.4445, -4.775, 2.0315]),
    eps: notNegative(1e-7),
    nsSteps: count(5, 0, 99),
    adjustLrFn: choice('original', 'match_rms_adamw'),
    ...COMMON,
  },
  numbers: ({ lr, weightDecay, momentum, nsCoefficients: [a, b, c], eps }) => ({
    ...{ lr, weightDecay, kept: left(lr, weightDecay), momentum, rest: 1 - momentum },
    ...{ a, b, c, eps },
  }),
  state: (shape) => {
    if (shape.length !== 2)
      throw new ArgumentError(
        `Muon: a parameter has shape ${showShape(shape)}: Muon takes only matrices: use another optimizer, such as AdamW, for the others`,
      );
    return { momentumBuffer: shape };
  },
  begin: (s, { nesterov, nsSteps, adjustLrFn }) => {
    const [a, b, c, eps] = [s.a!, s.b!, s.c!, s.eps!].map((x) => convert(x, 'f32')) as [Expr, Expr, Expr, Expr];
    return ({ p, g, momentumBuffer }) => {
      const [rows, columns] = p!.shape as [number, number];
      const ratio =
        adjustLrFn === 'match_rms_adamw'
          ? 0.2 * Math.sqrt(Math.max(rows, columns))
          : Math.sqrt(Math.max(1, rows / columns));
      const buffer = towards(momentumBuffer!, g!, s.rest!);
      const direction = nesterov ? towards(g!, buffer, s.momentum!) : buffer;
      const update = convert(orthogonal(direction, [a, b, c], eps, nsSteps), p!.dtype);
      return { p: sub(mul(p!, s.kept!), mul(update, mul(s.lr!, ratio))), momentumBuffer: buffer };
    };
  },
};
/** Muon: orthogonalized momentum, for the matrices of hidden layers (Jordan et al., 2024). */
export class Muon extends Optimizer<MuonOptions> {
  constructor(params: Params<MuonOptions>, options: Given<MuonOptions> = {}) {
    super(muon, params, options);
  }
}
