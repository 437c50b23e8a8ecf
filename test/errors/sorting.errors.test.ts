// What sorting and searching say when they are misused.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

const x = tx.zeros([2, 3]);

// biome-ignore format: a table
const cases: readonly [what: string, misuse: () => unknown, says: string][] = [
  ['a dim that is not there', () => x.sort({ dim: 2 }), 'sort: dim 2 is out of range for 2 dimensions: use -2 to 1'],
  ['another', () => x.argsort({ dim: -3 }), 'sort: dim -3 is out of range for 2 dimensions'],
  ['more than there are', () => x.topk(4), 'topk: k is 4, but dim 1 of f32[2, 3] has 3 elements: use 0 to 3'],
  ['fewer than none', () => x.topk(-1, { dim: 0 }), 'topk: k is -1, but dim 0 of f32[2, 3] has 2 elements'],
  ['half an element', () => x.topk(1.5), 'topk: k is 1.5'],
  ['the zeroth', () => x.kthvalue(0), 'kthvalue: k is 0, but dim 1 of f32[2, 3] has 3 elements: use 1 to 3'],
  ['a search in a scalar', () => tx.searchsorted(tx.tensor(1.5), x), 'searchsorted: f32[] has no dimension to search'],
  ['rows that do not match', () => x.searchsorted(tx.zeros([3, 3])), 'searchsorted: f32[2, 3] and f32[3, 3] differ in more than the last dimension'],
  ['boundaries in two dimensions', () => x.bucketize(x), 'bucketize: boundaries must have one dimension, got f32[2, 3] for f32[2, 3]'],
];

for (const [what, misuse, says] of cases) {
  test(what, () => {
    expect(misuse).toThrow(says);
    expect(misuse).toThrow('sorting.errors.test.ts:'); // the user's line
  });
}
