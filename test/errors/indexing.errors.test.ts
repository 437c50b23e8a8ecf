// What is said of indices that cannot be; and what becomes of those in tensors, which only the device sees.
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';

const x = tx.zeros([2, 3]);
const ids = tx.tensor([0, 1]);
const mask = tx.tensor([true, false]);
const depends = (op: string) =>
  `${op}: the number of elements of f32[2, 3] that the mask bool[2] selects depends on its values, and shapes cannot: to change them use maskedFill(mask, value) or indexPut([mask], values); to read them x.index(...(await mask.nonzero({ asTuple: true }))), or nonzero({ asTuple: true, size: n }) inside a compiled function; to choose between two tensors where(mask, a, b)`;
const cases: readonly (readonly [what: string, run: () => unknown, text: string])[] = [
  ['too many indices', () => x.index(0, 0, 0), 'index: 3 indices for the 2 dimensions of f32[2, 3]'],
  ['a number out of range', () => x.index(':', -4), 'index: index -4 is out of range for dim 1 of f32[2, 3]'],
  ['a number in an array out of range', () => x.index([0, 2]), 'index: index 2 is out of range for dim 0 of f32[2, 3]'],
  ['not an integer', () => x.index(0.5), 'index: 0.5 is not a valid index for dim 0 of f32[2, 3]'],
  ['two ellipses', () => x.index('...', '...'), "index: '...' can be given only once"],
  [
    'a text that is none',
    () => x.index('a:b'),
    "index: 'a:b' is not a valid index: use a number, 'start:stop:step', slice(), '...', null or an integer tensor",
  ],
  ['backwards', () => x.index('::-1'), 'index: the step of a slice must be positive, got -1: use flip to go backwards'],
  [
    'all in one array',
    () => tx.index(x, [0, tx.slice(1)] as never),
    'index: spec[1] is { start, stop, step }: it takes a number (pass several indices as separate arguments): write index(x, ...spec)',
  ],
  ['floats', () => x.index(tx.zeros([2])), 'index: indices must be integers, got f32[2] for dim 0 of f32[2, 3]'],
  ['a mask that is computed', () => x.index(mask.logicalNot()), depends('index')],
  [
    'a mask of all dimensions',
    () => x.index(x.gt(0)),
    depends('index')
      .replace('bool[2]', 'bool[2, 3]')
      .replace(/x\.index\(.*\)\), or/, 'await x.maskedSelect(mask), or'),
  ],
  [
    'a mask that does not fit what is read',
    () => x.index(':', mask),
    'index: the mask bool[2] does not match [3], the dimensions of f32[2, 3] that it indexes',
  ],
  ...(
    [
      ['index', () => x.index(tx.tensor([0, 2]))],
      ['indexPut', () => x.indexPut([tx.tensor([2])], 1)],
      ['gather', () => x.gather(0, tx.tensor([[2]]))],
      ['scatter', () => x.scatter(0, tx.tensor([[2]]), x)],
      ['scatterAdd', () => x.scatterAdd(0, tx.tensor([[2]]), x)],
      ['scatterReduce', () => x.scatterReduce(0, tx.tensor([[2]]), x, 'sum')],
      ['indexSelect', () => x.indexSelect(0, tx.tensor([2]))],
      ['indexAdd', () => x.indexAdd(0, tx.tensor([2]), tx.zeros([1, 3]))],
      ['indexCopy', () => x.indexCopy(0, tx.tensor([2]), tx.zeros([1, 3]))],
      ['embedding', () => tx.embedding(tx.tensor([2]), x)],
    ] as const
  ).map(([op, run]) => {
    const type = /gather|scatter/.test(op) ? 'i64[1, 1]' : op === 'index' ? 'i64[2]' : 'i64[1]';
    return [
      `${op} out of range`,
      run,
      `${op}: index 2 in ${type} is out of range for size 2 of dim 0 in f32[2, 3]`,
    ] as const;
  }),
  [
    'take out of range',
    () => x.take(tx.tensor([-7])),
    'take: index -7 in i64[1] is out of range for size 6 of dim 0 in f32[6]',
  ],
  [
    'a mask that does not fit',
    () => x.indexPut([tx.tensor([true, false, true])], 1),
    'indexPut: the mask bool[3] does not match [2], the dimensions of f32[2, 3] that it indexes',
  ],
  [
    'a mask and indices',
    () => x.indexPut([mask, ids], 1),
    "indexPut: a mask cannot be combined with another mask or a tensor of indices, only with numbers and slices: use the mask's indices, nonzero(mask, { size: n, asTuple: true })",
  ],
  [
    'a mask of numbers',
    () => x.maskedSelect(ids as never),
    'maskedSelect: the mask is i64[2], not booleans: compare first, x.gt(0)',
  ],
  [
    'maskedScatter by numbers',
    () => x.maskedScatter(ids, x),
    'maskedScatter: the mask must be bool, got i64[2]: compare first, x.gt(0)',
  ],
  [
    'maskedScatter of another dtype',
    () => x.maskedScatter(mask.unsqueeze(1), ids),
    "maskedScatter: dtypes of f32[2, 3] and the source i64[2] differ: use to('f32')",
  ],
  [
    'indices that do not meet',
    () => x.index(ids, [0, 1, 2]),
    'index: shapes [2] and [3] do not broadcast: sizes 2 and 3 differ at dim -1',
  ],
  ['nothing to index', () => tx.zeros([0, 3]).index(ids), 'index: dim 0 of f32[0, 3] has no elements to index'],
  [
    'values that do not fit',
    () => x.indexPut([0], tx.zeros([2])),
    'indexPut: f32[2] does not broadcast to [3], the selected part of f32[2, 3]',
  ],
  [
    'a size that is none',
    () => x.nonzero({ size: 1.5 }),
    'nonzero: size is 1.5: it must be a whole number, at least 0',
  ],
  [
    'oneHot',
    () => ids.oneHot(undefined as never),
    'oneHot: numClasses is missing (the shape cannot depend on values): write x.oneHot(numClasses)',
  ],
  [
    'gather by floats',
    () => x.gather(0, x),
    'gather: the index must be integers, got f32[2, 3] for f32[2, 3]: use long()',
  ],
  ['gather by a vector', () => x.gather(0, ids), 'gather: f32[2, 3] takes an index with 2 dimensions, got i64[2]'],
  [
    'gather, larger',
    () => x.gather(0, tx.zeros([1, 4], { dtype: 'i64' })),
    'gather: the index i64[1, 4] is larger than f32[2, 3] in another dimension than 0',
  ],
  [
    'takeAlongDim',
    () => x.takeAlongDim(tx.zeros([3, 1], { dtype: 'i64' }), 1),
    'takeAlongDim: f32[2, 3] and i64[3, 1] do not broadcast at dim 0',
  ],
  [
    'scatter of another dtype',
    () => x.scatter(0, x.long(), x.half()),
    "scatter: dtypes of f32[2, 3] and the source f16[2, 3] differ: use to('f32')",
  ],
  [
    'scatter of too little',
    () => x.scatter(0, x.long(), tx.zeros([1, 3])),
    'scatter: the index i64[2, 3] is larger than the source f32[1, 3]',
  ],
  [
    'scatter, reduce',
    () => x.scatter(0, x.long(), x, { reduce: 'max' as never }),
    "scatter: reduce is 'max': use 'add' or 'multiply'",
  ],
  [
    'scatterReduce',
    () => x.scatterReduce(0, x.long(), x, 'max' as never),
    "scatterReduce: reduce is 'max': use 'amax', 'amin', 'mean', 'prod' or 'sum'",
  ],
  [
    'indexSelect',
    () => x.indexSelect(0, x.long()),
    'indexSelect: the index must be a vector, got i64[2, 3] for f32[2, 3]',
  ],
  ['indexAdd', () => x.indexAdd(1, ids, x), 'indexAdd: the source is f32[2, 3], f32[2, 3] at i64[2] takes f32[2, 2]'],
  [
    'embedding',
    () => tx.embedding(ids, tx.zeros([3])),
    'embedding: the weight must be [rows, features], got f32[3] for ids i64[2]',
  ],
  [
    'embedding, padding',
    () => tx.embedding(ids, x, { paddingIdx: 2 }),
    'embedding: paddingIdx 2 is out of range for the rows of f32[2, 3]',
  ],
];
test.each(cases)('%s', (_, run, text) => {
  expect(run).toThrow(tx.ArgumentError);
  expect(run).toThrow(`${text}\n    at ${import.meta.filename}:`);
});

describe('indices out of range that only the device has', () => {
  const far = tx.tensor([-9, 1, 9]).add(0);
  const values = () => tx.tensor([1.5, 2.5, 3.5], { requiresGrad: true });
  const dataOf = async (t: tx.Tensor | null) => [...((await t!.data()) as Float32Array)];

  test.each([
    ['index', (v: tx.Tensor) => v.index(far)],
    ['gather', (v: tx.Tensor) => v.gather(0, far)],
    ['take', (v: tx.Tensor) => v.take(far)],
    ['indexSelect', (v: tx.Tensor) => v.indexSelect(0, far)],
  ])('%s reads the nearest', async (_, read) => {
    expect(await dataOf(read(values()))).toEqual([1.5, 2.5, 3.5]);
  });
  test.each([
    ['index', (v: tx.Tensor, i: tx.Tensor) => v.index(i)],
    ['gather', (v: tx.Tensor, i: tx.Tensor) => v.gather(0, i)],
  ])('and the gradient of %s goes to what was read', async (_, read) => {
    const v = values();
    read(v, tx.tensor([9, 9]).add(0))
      .sum()
      .backward();
    expect(await dataOf(v.grad)).toEqual([0, 0, 2]);
  });
  test.each([
    ['indexPut', (v: tx.Tensor, s: tx.Tensor) => v.indexPut([far], s)],
    ['scatter', (v: tx.Tensor, s: tx.Tensor) => v.scatter(0, far, s)],
    ['indexCopy', (v: tx.Tensor, s: tx.Tensor) => v.indexCopy(0, far, s)],
  ])('%s leaves them out, and they get no gradient', async (_, write) => {
    const [v, s] = [values(), tx.tensor([10, 20, 30], { dtype: 'f32', requiresGrad: true })];
    const y = write(v, s);
    y.sum().backward();
    expect(await dataOf(y)).toEqual([1.5, 20, 3.5]);
    expect(await dataOf(s.grad)).toEqual([0, 1, 0]);
    expect(await dataOf(v.grad)).toEqual([1, 0, 1]);
  });
});
