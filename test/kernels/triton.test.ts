// Kernels as Triton IR, interpreted on the CPU: the same values as StableHLO's form.
import { describe, expect, test } from 'vitest';
import { CASES } from './cases.js';
import { difference, interpreted, triton } from './forms.js';

describe.each(Object.entries(CASES))('%s', (_, cases) => {
  test.each(cases.map((c) => [c.name, c] as const))('%s', async (_, kernel) => {
    expect(await difference(kernel)).toBe('');
  });
});

const named = (name: string) =>
  Object.values(CASES)
    .flat()
    .find((c) => c.name === name)!;

test.each([
  ['softmax of 20 rows', []],
  ['halves of a result', []],
  ['index maps with arithmetic', []],
  ['several results, of several dtypes', []],
  ['a product in tiles, summed in scratch memory along a sequential dimension', []],
  ['attention without a matrix of scores', []],
  ['masked stores: the rest is 0', [0]],
  ['parts of results that no program writes are 0', [0]],
  ['a result that is read, along a sequential dimension', [0]],
  ['parts of a block, at places known only on the device', [0]],
])('%s: results that begin as zeros: %j', (name, zeroed) => {
  expect(triton(named(name)).zeroed).toEqual(zeroed);
});

test('a barrier stands between accesses of different threads to one element, and nowhere else', () => {
  const barriers = (name: string) => triton(named(name)).ir.split('"gpu.barrier"').length - 1;
  expect(barriers('two stores to one element, in their order')).toBe(1);
  expect(barriers('a result that is read, along a sequential dimension')).toBe(2);
  expect(barriers('halves of a result')).toBe(0);
  expect(barriers('attention without a matrix of scores')).toBe(0);
});

test('the interpreter sees an access out of bounds', async () => {
  await expect(interpreted(named('softmax of 20 rows'), { short: true })).rejects.toThrow(
    'Triton IR: load at 99 of 99 elements',
  );
});
