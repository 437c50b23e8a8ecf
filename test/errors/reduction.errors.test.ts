// What reductions say when they are misused.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

const x = tx.zeros([2, 3]);
const empty = tx.zeros([2, 0]);
const whole = tx.tensor([1, 2, 3]);

// biome-ignore format: a table
const cases: readonly [what: string, misuse: () => unknown, says: string][] = [
  ['a dim that is not there', () => x.sum(2), 'sum: dim 2 is out of range for 2 dimensions: use -2 to 1'],
  ['a dim of a scalar', () => tx.tensor(1.5).mean(1), 'mean: dim 1 is out of range for 0 dimensions: use -1 to 0'],
  ['a dim that is not an integer', () => x.prod(0.5), 'prod: dim 0.5 is out of range for 2 dimensions'],
  ['one dim twice', () => x.var({ dim: [1, -1] }), 'var: dim 1 is given twice'],
  ['the largest of nothing', () => empty.amax(1), 'amax: dim 1 of f32[2, 0] has no elements'],
  ['the place of nothing', () => empty.argmin(), 'argmin: dim 0 of f32[0] has no elements'],
  ['the largest of nothing, with its place', () => tx.max(empty, 1), 'max: dim 1 of f32[2, 0] has no elements'],
  ['the median of nothing', () => empty.median(1), 'median: dim 1 of f32[2, 0] has no elements'],
  ['a norm of matrices for a vector', () => tx.zeros([3]).norm('nuc'), "norm: 'nuc' is for matrices: give two dimensions of f32[3]"],
  ['a quantile beyond the end', () => x.quantile(1.5), 'quantile: q is 1.5 for f32[2, 3]: it must be between 0 and 1'],
  ['a quantile of integers', () => whole.quantile(0.5), 'quantile: takes floating point numbers, got i64[3]'],
  ['an unknown interpolation', () => x.quantile(0.5, { interpolation: 'cubic' as never }), "quantile: interpolation is 'cubic': use 'higher', 'linear', 'lower', 'midpoint' or 'nearest'"],
  ['two shapes that do not fit', () => tx.max(x, tx.zeros([2])), 'maximum: shapes [2, 3] and [2] do not broadcast'],
  ['a running sum along no dim', () => x.cumsum(3), 'cumsum: dim 3 is out of range for 2 dimensions'],
  ['differences of a scalar', () => tx.tensor(1.5).diff(), 'diff: f32[] has no dimension to take differences along'],
  ['differences with a row that does not fit', () => x.diff({ prepend: tx.zeros([3, 1]) }), 'cat: f32[3, 1] and f32[2, 3] differ in more than dim 1'],
  ['too few points', () => x.trapezoid({ x: tx.zeros([2]) }), 'trapezoid: x must have one point for each of y along dim 1, got f32[2] for f32[2, 3]'],
  ['bins of negative numbers', () => tx.tensor([1, -2]).bincount({ minlength: 3 }), 'bincount: i64[2] has the value -2: values must not be negative'],
  ['bins of floats', () => tx.zeros([3]).bincount({ minlength: 3 }), 'bincount: takes integers in one dimension, got f32[3]'],
  ['weights that do not fit', () => whole.bincount({ minlength: 3, weights: tx.zeros([2]) }), 'bincount: weights f32[2] do not match i64[3]'],
  ['a range upside down', () => x.histc({ bins: 3, min: 2, max: 1 }), 'histc: 3 bins from 2 to 1 for f32[2, 3]'],
];

for (const [what, misuse, says] of cases) {
  test(what, () => {
    expect(misuse).toThrow(says);
    expect(misuse).toThrow('reduction.errors.test.ts:'); // the user's line
  });
}
