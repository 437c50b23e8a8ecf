// What is said when shapes, orders and parts are asked for that there are not.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

const x = tx.zeros([2, 3]);
const cases: readonly (readonly [what: string, run: () => unknown, text: string])[] = [
  ['reshape to another count', () => x.reshape(4, 2), 'reshape: 6 elements do not fit shape [4, 2] (from f32[2, 3])'],
  [
    'two unknown sizes',
    () => x.reshape(-1, -1),
    'reshape: [-1, -1] has 2 unknown sizes (-1): only one can be worked out (from f32[2, 3])',
  ],
  ['flatten backwards', () => x.flatten(1, 0), 'flatten: startDim 1 comes after endDim 0 in f32[2, 3]: swap them'],
  ['unflatten', () => x.unflatten(1, [2, -1]), 'unflatten: 3 elements do not fit shape [2, -1]'],
  [
    'permute with one missing',
    () => x.permute(1),
    'permute: f32[2, 3] has 2 dimensions, got [1]: give each dimension once',
  ],
  ['permute twice the same', () => x.permute(1, -1), 'permute: dim 1 is given twice'],
  ['transpose out of range', () => x.transpose(0, 2), 'transpose: dim 2 is out of range for 2 dimensions: use -2 to 1'],
  [
    't of a batch',
    () => tx.zeros([1, 2, 3]).T,
    't: takes at most 2 dimensions, got f32[1, 2, 3]: use mT or transpose(dim0, dim1)',
  ],
  ['movedim', () => x.movedim([0, 1], 0), 'movedim: cannot move 2 dimensions to 1 positions: give as many of each'],
  ['roll', () => x.roll([1, 2], 0), 'roll: 2 shifts for 1 dims: give one for each'],
  ['expand', () => x.expand(4, 3), 'expand: f32[2, 3] does not expand to [4, 3]: only sizes of 1 can be stretched'],
  ['expand a new unknown', () => x.expand(-1, 2, 3), 'expand: [-1, 2, 3] is not a shape: -1 is not a size'],
  ['repeat', () => x.repeat(2), 'repeat: f32[2, 3] needs 2 numbers or more, got [2]: use tile'],
  [
    'repeatInterleave',
    () => x.repeatInterleave([1, 2], { dim: 1 }),
    'repeatInterleave: 2 counts for size 3 of dim 1 in f32[2, 3]',
  ],
  [
    'counts in a tensor',
    () => x.repeatInterleave(tx.tensor([1, 2]).add(1), { dim: 0 }), // those of tx.tensor([1, 2]) are known
    'repeatInterleave: a shape cannot depend on the values of i64[2]: pass numbers (await x.tolist())',
  ],
  ['cat', () => tx.cat([x, tx.zeros([2, 4])]), 'cat: f32[2, 3] and f32[2, 4] differ in more than dim 0'],
  ['cat of nothing', () => tx.cat([]), 'cat: takes a list of at least one tensor: cat([a, b])'],
  [
    'cat of scalars',
    () => tx.cat([tx.zeros([])]),
    'cat: scalars have no dimension to join along: use stack, or unsqueeze(0) them first',
  ],
  [
    'stack',
    () => tx.stack([x, tx.zeros([3])]),
    'stack: shapes of f32[2, 3] and f32[3] differ: use cat, or pad them first',
  ],
  ['split', () => x.split([1, 1], 1), 'split: sizes [1, 1] add up to 2, but dim 1 of f32[2, 3] has size 3'],
  ['split by nothing', () => x.split(0), 'split: the size is 0: it must be a whole number, at least 1'],
  ['narrow', () => x.narrow(1, 2, 2), 'narrow: 2 to 4 is out of range for size 3 of dim 1 in f32[2, 3]'],
  [
    'narrow by a float',
    () => x.narrow(1, tx.zeros([]), 2),
    'narrow: start must be one integer, got f32[] for f32[2, 3]',
  ],
  ['select', () => x.select(1, 3), 'select: index 3 is out of range for size 3 of dim 1 in f32[2, 3]'],
  ['unbind a scalar', () => tx.zeros([]).unbind(), 'unbind: f32[] has no dimensions'],
  ['unfold', () => x.unfold(1, 4, 1), 'unfold: windows of 4 are larger than size 3 of dim 1 in f32[2, 3]'],
  [
    'pad, odd',
    () => x.pad([1]),
    'pad: [1] for f32[2, 3]: takes two whole numbers for each of at most 2 dimensions, the last first',
  ],
  [
    'pad, reflect',
    () => x.pad([3, 0], { mode: 'reflect' }),
    "pad: mode 'reflect' cannot add 3 elements to the 3 in dim 1 of f32[2, 3]",
  ],
  [
    'pad, mode',
    () => x.pad([1, 0], { mode: 'symmetric' as never }),
    "pad: mode is 'symmetric': use 'circular', 'constant', 'reflect' or 'replicate'",
  ],
  ['pad away', () => x.pad([-2, -2]), 'pad: [-2, -2] removes more elements than dim 1 of f32[2, 3] has'],
  [
    'diag',
    () => tx.zeros([1, 2, 3]).diag(),
    'diag: takes a vector or a matrix, got f32[1, 2, 3]: use diagonal or diagEmbed',
  ],
  ['tril', () => tx.zeros([3]).tril(), 'tril: takes two dimensions or more, got f32[3]'],
  ['trace', () => tx.zeros([3]).trace(), 'trace: takes a matrix, got f32[3]'],
  ['meshgrid', () => tx.meshgrid([x]), 'meshgrid: takes vectors, got f32[2, 3]'],
  ['to', () => x.to('float32' as never), "to: dtype 'float32' is written 'f32'"],
  [
    'viewDtype of booleans',
    () => x.bool().viewDtype('u8'),
    'viewDtype: booleans cannot be viewed as bits, got bool[2, 3] and u8: use to()',
  ],
  ['viewDtype', () => x.viewDtype('f64'), 'viewDtype: f32[2, 3] as f64: the last dimension must be a multiple of 2'],
];
test.each(cases)('%s', (_, run, text) => {
  expect(run).toThrow(tx.ArgumentError);
  expect(run).toThrow(`${text}\n    at ${import.meta.filename}:`);
});
