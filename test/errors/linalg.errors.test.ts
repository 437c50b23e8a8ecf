// Misuse of linear algebra: by the text of the error.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

const f = (...shape: number[]) => tx.zeros(shape);

// biome-ignore format: a table
const cases: readonly [string, () => unknown, string][] = [
  ['not square', () => f(2, 3).inv(), 'inv: takes square matrices [..., n, n], got f32[2, 3]'],
  ['not a matrix', () => f(3).svd(), 'svd: takes matrices [..., m, n], got f32[3]'],
  ['halves', () => tx.zeros([2, 2], { dtype: 'bf16' }).cholesky(), 'cholesky: takes f32 or f64 (convert others first), got bf16[2, 2]'],
  ['integers', () => tx.zeros([2, 2], { dtype: 'i64' }).det(), 'det: takes f32 or f64 (convert others first), got i64[2, 2]'],
  ['rows', () => f(3, 3).solve(f(2, 1)), 'solve: f32[3, 3] and f32[2, 1]: 3 and 2 rows differ'],
  ['dtypes', () => f(2, 2).solve(tx.zeros([2, 1], { dtype: 'f64' })), 'solve: dtypes of f32[2, 2] and f64[2, 1] differ: convert one first'],
  ['batches', () => f(2, 3, 3).solveTriangular(f(4, 3, 1), { upper: true }), 'solveTriangular: shapes [2] and [4] do not broadcast'],
  ['mode', () => f(2, 2).qr({ mode: 'full' as 'r' }), "qr: mode is 'full': use 'complete', 'r' or 'reduced'"],
  ['cross', () => f(2).cross(f(2)), 'cross: takes 3 elements in dim -1, got f32[2] and f32[2]'],
  ['power', () => f(2, 2).matrixPower(0.5), 'matrixPower: 0.5 is not a whole number'],
  ['complete Q of a tall matrix', () => tx.zeros([3, 2], { requiresGrad: true }).qr({ mode: 'complete' }).Q.sum().backward(),
    "qr: the gradient of mode 'complete' is not determined for f32[3, 2] (more rows than columns): use 'reduced'"],
];
test.each(cases)('%s', (_, misuse, text) => expect(misuse).toThrow(text));
