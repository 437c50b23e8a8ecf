// Constraints: the valid values of parameters and samples. `check` is the test as a tensor operation; `test` checks host values.
import { eye } from '../tensor/create.js';
import { cholesky } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';

export class Constraint {
  constructor(
    readonly name: string,
    /** The number of trailing dimensions of one value. */
    readonly eventDim: number,
    /** A boolean for each value of a tensor: whether it is valid. */
    readonly check: (x: Tensor) => Tensor,
    /** The same of the elements of one value (rows of the last dimension); undefined: not asked on the host. */
    readonly test?: (elements: readonly number[]) => boolean,
    readonly isDiscrete = false,
  ) {}
  toString(): string {
    return this.name;
  }
}

const each = (name: string, check: (x: Tensor) => Tensor, test: (x: number) => boolean, isDiscrete = false) =>
  new Constraint(name, 0, check, ([x]) => test(x!), isDiscrete);
const vector = (
  name: string,
  check: (x: Tensor) => Tensor,
  test: (xs: readonly number[]) => boolean,
  discrete = false,
) => new Constraint(name, 1, check, test, discrete);
const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0);
const whole = (x: Tensor): Tensor => x.eq(x.floor());

export const real = each(
  'real',
  (x) => x.eq(x),
  (x) => !Number.isNaN(x),
);
export const boolean = each(
  'boolean',
  (x) => x.eq(0).logicalOr(x.eq(1)),
  (x) => x === 0 || x === 1,
  true,
);
export const positive = each(
  'positive',
  (x) => x.gt(0),
  (x) => x > 0,
);
export const nonnegative = each(
  'nonnegative',
  (x) => x.ge(0),
  (x) => x >= 0,
);
export const unitInterval = each(
  'in [0, 1]',
  (x) => x.ge(0).logicalAnd(x.le(1)),
  (x) => x >= 0 && x <= 1,
);
export const nonnegativeInteger = each(
  'a whole number that is not negative',
  (x) => whole(x).logicalAnd(x.ge(0)),
  (x) => Number.isInteger(x) && x >= 0,
  true,
);
type Bound = number | Tensor;
const areNumbers = (a: Bound, b: Bound): boolean => typeof a === 'number' && typeof b === 'number';
/** Between two bounds, both included. On the host only numbers are compared. */
export const interval = (low: Bound, high: Bound): Constraint =>
  new Constraint(
    areNumbers(low, high) ? `in [${low}, ${high}]` : 'within its bounds',
    0,
    (x) => x.ge(low).logicalAnd(x.le(high)),
    areNumbers(low, high) ? ([x]) => x! >= Number(low) && x! <= Number(high) : undefined,
  );
export const greaterThan = (low: Bound): Constraint =>
  new Constraint(
    typeof low === 'number' ? `above ${low}` : 'above its bound',
    0,
    (x) => x.gt(low),
    typeof low === 'number' ? ([x]) => x! > low : undefined,
  );
export const lessThan = (high: Bound): Constraint =>
  new Constraint(
    typeof high === 'number' ? `below ${high}` : 'below its bound',
    0,
    (x) => x.lt(high),
    typeof high === 'number' ? ([x]) => x! < high : undefined,
  );
export const integerInterval = (low: number, high: Bound): Constraint =>
  new Constraint(
    typeof high === 'number' ? `a whole number in [${low}, ${high}]` : 'a whole number within its bounds',
    0,
    (x) => whole(x).logicalAnd(x.ge(low)).logicalAnd(x.le(high)),
    typeof high === 'number' ? ([x]) => Number.isInteger(x) && x! >= low && x! <= high : undefined,
    true,
  );

/** The same for each element of the last dimensions. */
export const independent = (base: Constraint, dims: number): Constraint =>
  dims === 0
    ? base
    : new Constraint(
        base.name,
        base.eventDim + dims,
        (x) => {
          const ok = base.check(x);
          return ok.flatten(ok.ndim - dims).all(-1);
        },
        base.eventDim === 0 && base.test ? (xs) => xs.every((x) => base.test!([x])) : undefined,
        base.isDiscrete,
      );
export const realVector = independent(real, 1);
export const simplex = vector(
  'a simplex (not negative, with the sum 1)',
  (x) => x.ge(0).all(-1).logicalAnd(x.sum(-1).sub(1).abs().lt(1e-6)),
  (xs) => xs.every((x) => x >= 0) && Math.abs(sum(xs) - 1) < 1e-6,
);
export const oneHot = vector(
  'one-hot (a single 1, otherwise 0)',
  (x) => x.eq(0).logicalOr(x.eq(1)).all(-1).logicalAnd(x.sum(-1).eq(1)),
  (xs) => xs.every((x) => x === 0 || x === 1) && sum(xs) === 1,
  true,
);
/** Counts that add up to at most `total`. */
export const multinomial = (total: number): Constraint =>
  vector(
    `counts with the sum ${total}`,
    (x) => x.ge(0).all(-1).logicalAnd(x.sum(-1).le(total)),
    (xs) => xs.every((x) => x >= 0) && sum(xs) <= total,
    true,
  );
export const lowerTriangular = new Constraint('lower triangular', 2, (x) => x.tril().eq(x).flatten(-2).all(-1));
export const lowerCholesky = new Constraint('lower triangular with a positive diagonal', 2, (x) =>
  x
    .tril()
    .eq(x)
    .flatten(-2)
    .all(-1)
    .logicalAnd(x.diagonal({ dim1: -2, dim2: -1 }).gt(0).all(-1)),
);
export const square = new Constraint('square', 2, (x) => {
  const lead = x.shape.slice(0, -2);
  return eye(1, { dtype: 'bool' }).reshape([]).expand(lead);
});
export const positiveDefinite = new Constraint('positive definite', 2, (x) => {
  const factor = cholesky(x);
  const isSymmetric = x.isclose(x.mT, { atol: 1e-6 }).flatten(-2).all(-1);
  return isSymmetric.logicalAnd(factor.isfinite().flatten(-2).all(-1));
});
