// Misuse of products: by the text of the error.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

const f = (...shape: number[]) => tx.zeros(shape);
const i = (...shape: number[]) => tx.zeros(shape, { dtype: 'i64' });
const b = (...shape: number[]) => tx.zeros(shape, { dtype: 'bool' });

// biome-ignore format: a table
const cases: readonly [string, () => unknown, string][] = [
  ['inner sizes', () => f(4, 128).matmul(f(64, 256)), 'matmul: f32[4, 128] x f32[64, 256]: inner sizes 128 and 64 differ'],
  ['dtypes', () => f(2, 2).matmul(i(2, 2)), 'matmul: dtypes of f32[2, 2] and i64[2, 2] differ: convert one first: x.to(\'f32\'), or make it so: tx.tensor(data, { dtype: \'f32\' })'],
  ['booleans', () => b(2, 2).matmul(b(2, 2)), 'matmul: takes numbers, got bool[2, 2] and bool[2, 2]'],
  ['scalars', () => f().matmul(f(2)), 'matmul: takes vectors and matrices, got f32[] and f32[2]: use mul for scalars'],
  ['batches', () => f(2, 3, 4).matmul(f(5, 4, 3)), 'matmul: shapes [2] and [5] do not broadcast'],
  ['mm of a batch', () => f(2, 3, 4).mm(f(4, 3)), 'mm: takes two matrices, got f32[2, 3, 4] and f32[4, 3]: use matmul for other shapes'],
  ['bmm broadcasts not', () => f(1, 3, 4).bmm(f(2, 4, 3)), 'bmm: batch sizes of f32[1, 3, 4] and f32[2, 4, 3] differ: matmul broadcasts them'],
  ['dot', () => f(3).dot(f(4)), 'dot: f32[3] x f32[4]: inner sizes 3 and 4 differ'],
  ['addmm', () => f(3).addmm(f(2, 3), f(3, 2)), 'addmm: shapes [3] and [2, 2] do not broadcast'],
  ['addmm that widens', () => f(5, 2, 2).addmm(f(2, 3), f(3, 2)), 'addmm: f32[5, 2, 2] does not broadcast to the product f32[2, 2]'],
  ['addmm of integers', () => i(2, 2).addmm(i(2, 2), i(2, 2), { alpha: 0.5 }), 'addmm: beta 1 and alpha 0.5 must be whole'],
  ['linear', () => f(2, 3).linear(f(3, 4)), 'linear: f32[2, 3] x f32[3, 4]: inner sizes 3 and 4 differ: the weight is [out, in]'],
  ['bias', () => f(2, 3).linear(f(4, 3), f(3)), 'linear: bias is f32[3]: it takes [4]'],
  ['bilinear', () => tx.bilinear(f(2, 3), f(2, 4), f(5, 4, 3)), 'bilinear: takes [..., in1], [..., in2] and a weight [out, in1, in2]'],
  ['tensordot count', () => f(2, 3).tensordot(f(3), 2), 'tensordot: 2 dimensions cannot be summed over in f32[2, 3] and f32[3]'],
  ['tensordot sizes', () => f(2, 3).tensordot(f(2, 3), 1), 'tensordot: f32[2, 3] and f32[2, 3]: sizes 3 of dim 1 and 2 of dim 0 differ'],
  ['tensordot pairs', () => f(2, 3).tensordot(f(2, 3), [[0, 1], [0]]), 'tensordot: 2 dimensions of a and 1 of b: give as many of each'],
  ['einsum terms', () => tx.einsum('ij,jk', f(2, 3)), "einsum 'ij,jk' of f32[2, 3]: 2 terms for 1 operands"],
  ['einsum letters', () => tx.einsum('ijk->i', f(2, 3)), "einsum 'ijk->i' of f32[2, 3]: 'ijk' names 3 dimensions of f32[2, 3]"],
  ['einsum sizes', () => tx.einsum('ij,jk', f(2, 3), f(4, 2)), "sizes 3 and 4 of 'j' differ"],
  ['einsum diagonal', () => tx.einsum('ii', f(2, 3)), "sizes 2 and 3 of 'i' differ"],
  ['einsum output', () => tx.einsum('ij->ik', f(2, 3)), "'k' of the output is in no term"],
  ['einsum twice', () => tx.einsum('ij->ii', f(2, 3)), "'i' occurs twice in the output"],
  ['einsum sign', () => tx.einsum('i.j->i', f(2, 3)), "'i.j' is not a valid term: use letters and one '...'"],
  ['cdist', () => f(2, 3).cdist(f(2, 4)), 'cdist: takes [..., m, d] and [..., n, d], got f32[2, 3] and f32[2, 4]'],
  ['multiDot', () => tx.multiDot([f(2, 2)]), 'multiDot: takes at least two operands, got 1'],
];
test.each(cases)('%s', (_, misuse, text) => {
  expect(misuse).toThrow(text);
  expect(misuse).toThrow(/at .*matmul\.errors\.test\.ts:\d+/);
});
