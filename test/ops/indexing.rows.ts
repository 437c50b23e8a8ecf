// Elements by their indices, read and written.
import * as tx from 'tsxla';
import { bools, type Input, input, ints, type Row, type RowOptions, Table } from './row.js';

export const table = new Table('indexing');
type Case = readonly [op: string, inputs: readonly Input[], run: Row['run'], torch: string, options?: RowOptions];
const rows = (cases: readonly Case[]) => {
  for (const [op, inputs, run, torch, options] of cases) table.row(op, inputs, run, torch, options);
};
const x = input([4, 5]);
const cube = input([2, 3, 4]);
const scalar = input([]);
const at = (shape: readonly number[], ...values: number[]): Input => ({ shape, dtype: 'i64', fill: values });
const none = at([0]);
const empty = input([0, 3]);
/** Indices of a dtype too small for the size of what they index. */
const at8 = (...values: number[]): Input => ({ shape: [values.length], dtype: 'u8', fill: values });
const { slice } = tx;

rows([
  ['gather', [x, ints([4, 3], 0, 5)], (a, b) => a.gather(1, b), 'a.gather(1, b)'],
  ['gather', [x, ints([2, 5], 0, 4)], (a, b) => a.gather(-2, b), 'a.gather(-2, b)'],
  ['gather', [cube, ints([1, 2, 6], 0, 4)], (a, b) => a.gather(2, b), 'a.gather(2, b)'],
  ['gather', [scalar, at([], 0)], (a, b) => a.gather(0, b), 'a.gather(0, b)'],
  ['gather', [x, at([4, 0])], (a, b) => a.gather(1, b), 'a.gather(1, b)'],
  ['gather', [bools([3]), ints([5], 0, 3)], (a, b) => a.gather(0, b), 'a.gather(0, b)'],
  ['gather', [input([3], 'normal', 'bf16'), ints([5], 0, 3)], (a, b) => a.gather(0, b), 'a.gather(0, b)'],
  ['gather', [input([5]), at([3], -1, -5, 2)], (a, b) => a.gather(0, b), 'a.gather(0, b % 5)'],
  ['gather', [scalar, at([3], 0, 0, 0)], (a, b) => a.gather(0, b), 'a.gather(0, b)'],
  ['takeAlongDim', [x, ints([4, 2], 0, 5)], (a, b) => a.takeAlongDim(b, 1), 'a.take_along_dim(b, 1)'],
  ['takeAlongDim', [x, ints([1, 2], 0, 5)], (a, b) => a.takeAlongDim(b, { dim: 1 }), 'a.take_along_dim(b, 1)'],
  ['takeAlongDim', [input([1, 5]), ints([3, 2], 0, 5)], (a, b) => a.takeAlongDim(b, 1), 'a.take_along_dim(b, 1)'],
  ['takeAlongDim', [x, ints([6], 0, 20)], (a, b) => a.takeAlongDim(b), 'a.take_along_dim(b)'],
]);

// Places that differ where torch does not say which write wins.
const apart = at([2, 3], 0, 2, 1, 3, 1, 2);
rows([
  ['scatter', [x, apart, input([2, 3])], (a, b, c) => a.scatter(0, b, c), 'a.scatter(0, b, c)'],
  ['scatter', [x, apart, input([4, 5])], (a, b, c) => a.scatter(1, b, c), 'a.scatter(1, b, c)', { grad: false }],
  ['scatter', [x, apart], (a, b) => a.scatter(1, b, 2.5), 'a.scatter(1, b, 2.5)'],
  ['scatter', [ints([4, 5]), apart], (a, b) => a.scatter(1, b, 7), 'a.scatter(1, b, 7)'],
  ['scatter', [bools([4, 5]), apart], (a, b) => a.scatter(1, b, true), 'a.scatter(1, b, True)'],
  ['scatter', [x, at([0, 5]), input([0, 5])], (a, b, c) => a.scatter(0, b, c), 'a.scatter(0, b, c)'],
  ['scatter', [scalar, at([], 0), scalar], (a, b, c) => a.scatter(0, b, c), 'a.scatter(0, b, c)'],
  [
    'scatter',
    [cube, at([2, 2, 1], 0, 2, 1, 0), input([2, 2, 1])],
    (a, b, c) => a.scatter(1, b, c),
    'a.scatter(1, b, c)',
  ],
  [
    'scatter',
    [x, ints([4, 5], 0, 4), x],
    (a, b, c) => a.scatter(0, b, c, { reduce: 'add' }),
    "a.scatter(0, b, c, reduce='add')",
    { grad: false },
  ],
  [
    'scatter',
    [x, ints([4, 5], 0, 4)],
    (a, b) => a.scatter(0, b, 2, { reduce: 'multiply' }),
    "a.scatter(0, b, 2, reduce='multiply')",
    { grad: false },
  ],
  ['scatterAdd', [x, ints([4, 5], 0, 4), x], (a, b, c) => a.scatterAdd(0, b, c), 'a.scatter_add(0, b, c)'],
  [
    'scatterAdd',
    [x, ints([3, 7], 0, 5), input([4, 8])],
    (a, b, c) => a.scatterAdd(-1, b, c),
    'a.scatter_add(-1, b, c)',
    { grad: false },
  ],
  ['scatterAdd', [ints([3]), ints([6], 0, 3), ints([6])], (a, b, c) => a.scatterAdd(0, b, c), 'a.scatter_add(0, b, c)'],
  [
    'scatterAdd',
    [input([3], 'normal', 'f16'), ints([4], 0, 3), input([4], 'normal', 'f16')],
    (a, b, c) => a.scatterAdd(0, b, c),
    'a.scatter_add(0, b, c)',
  ],
]);
for (const reduce of ['sum', 'prod', 'mean', 'amax', 'amin'] as const) {
  const inputs = [input([3, 4]), ints([4, 3], 0, 3), input([4, 3])];
  rows([
    ['scatterReduce', inputs, (a, b, c) => a.scatterReduce(0, b, c, reduce), `a.scatter_reduce(0, b, c, '${reduce}')`],
    [
      'scatterReduce',
      inputs,
      (a, b, c) => a.scatterReduce(0, b, c, reduce, { includeSelf: false }),
      `a.scatter_reduce(0, b, c, '${reduce}', include_self=False)`,
    ],
    [
      'scatterReduce',
      [ints([4]), ints([6], 0, 4), ints([6])],
      (a, b, c) => a.scatterReduce(0, b, c, reduce),
      `a.scatter_reduce(0, b, c, '${reduce}')`,
    ],
  ]);
}
const zeros = input([6], [0, 2, 0, 0, 3, 0]);
const ties = input([6], [1, 1, 2, 2, 2, 3]);
rows([
  [
    'scatterReduce',
    [input([3], [2, 0, 3]), at([6], 0, 0, 1, 2, 2, 2), zeros],
    (a, b, c) => a.scatterReduce(0, b, c, 'prod'),
    "a.scatter_reduce(0, b, c, 'prod')",
    { smooth: false, grad: false },
  ],
  [
    'scatterReduce',
    [input([3], [2, 5, 3]), at([6], 0, 0, 1, 2, 2, 2), zeros],
    (a, b, c) => a.scatterReduce(0, b, c, 'prod'),
    "a.scatter_reduce(0, b, c, 'prod')",
    { smooth: false },
  ],
  [
    'scatterReduce',
    [input([3], [1, 2, 9]), at([6], 0, 0, 1, 1, 1, 2), ties],
    (a, b, c) => a.scatterReduce(0, b, c, 'amax'),
    "a.scatter_reduce(0, b, c, 'amax')",
    { smooth: false },
  ],
]);

rows([
  ['indexSelect', [x, ints([3], 0, 4)], (a, b) => a.indexSelect(0, b), 'a.index_select(0, b)'],
  ['indexSelect', [cube, ints([5], 0, 3, 'i32')], (a, b) => a.indexSelect(-2, b), 'a.index_select(-2, b)'],
  ['indexSelect', [x, none], (a, b) => a.indexSelect(1, b), 'a.index_select(1, b)'],
  ['indexSelect', [x, at([], 2)], (a, b) => a.indexSelect(1, b), 'a.index_select(1, b)'],
  ['indexSelect', [x, at([2], -1, 0)], (a, b) => a.indexSelect(1, b), 'a.index_select(1, b % 5)'],
  ['indexAdd', [x, ints([3], 0, 4), input([3, 5])], (a, b, c) => a.indexAdd(0, b, c), 'a.index_add(0, b, c)'],
  [
    'indexAdd',
    [x, ints([3], 0, 4), input([4, 3])],
    (a, b, c) => a.indexAdd(1, b, c, { alpha: -2 }),
    'a.index_add(1, b, c, alpha=-2)',
  ],
  ['indexAdd', [x, none, input([0, 5])], (a, b, c) => a.indexAdd(0, b, c), 'a.index_add(0, b, c)'],
  ['indexCopy', [cube, at([2], 2, 0), input([2, 2, 4])], (a, b, c) => a.indexCopy(1, b, c), 'a.index_copy(1, b, c)'],
  ['indexCopy', [ints([3]), at([2], 2, 0), ints([2])], (a, b, c) => a.indexCopy(0, b, c), 'a.index_copy(0, b, c)'],
  ['indexFill', [x, at([2], 2, 0)], (a, b) => a.indexFill(1, b, -1), 'a.index_fill(1, b, -1)'],
  [
    'indexFill',
    [x, at([2], 2, 0), scalar],
    (a, b, c) => a.indexFill(1, b, c),
    'a.index_fill(1, b, c)',
    { smooth: true },
  ],
  ['indexFill', [x, at([3], 2, 0, 2), scalar], (a, b, c) => a.indexFill(1, b, c), 'a.index_fill(1, b, c)'],
  ['take', [x, ints([2, 3], 0, 20)], (a, b) => a.take(b), 'a.take(b)'],
  ['take', [empty, none], (a, b) => a.take(b), 'a.take(b)'],
  ['indexSelect', [empty, none], (a, b) => a.indexSelect(0, b), 'a.index_select(0, b)'],
  ['indexSelect', [empty, at([2], 1, 2)], (a, b) => a.indexSelect(1, b), 'a.index_select(1, b)'],
  ['index', [empty, none], (a, b) => a.index(b), 'a[b]'],
  ['index', [empty, at([2], 1, 2)], (a, b) => a.index(':', b), 'a[:, b]'],
  ['embedding', [at([2, 0]), empty], (a, b) => tx.embedding(a, b), 'F.embedding(a, b)'],
  ['take', [x, ints([4], -20, 20)], (a, b) => a.take(b), 'a.take(b)'],
  ['put', [x, at([3], 0, -1, 7), input([3])], (a, b, c) => a.put(b, c), 'a.put(b, c)'],
  [
    'put',
    [x, ints([2, 2], 0, 3), input([2, 2])],
    (a, b, c) => a.put(b, c, { accumulate: true }),
    'a.put(b, c, accumulate=True)',
  ],
  ['embedding', [ints([2, 3], 0, 4), x], (a, b) => tx.embedding(a, b), 'F.embedding(a, b)'],
  ['embedding', [at([], 2), x], (a, b) => a.embedding(b), 'F.embedding(a, b)'],
  ['embedding', [none, x], (a, b) => a.embedding(b), 'F.embedding(a, b)'],
  [
    'embedding',
    [at([2, 3], 0, 1, 3, 1, 2, 1), x],
    (a, b) => a.embedding(b, { paddingIdx: 1 }),
    'F.embedding(a, b, padding_idx=1)',
    { smooth: false },
  ],
  [
    'embedding',
    [at([4], 0, 3, 3, 2), input([4, 2], 'normal', 'bf16')],
    (a, b) => a.embedding(b, { paddingIdx: -1 }),
    'F.embedding(a, b, padding_idx=-1)',
    { smooth: false },
  ],
  ['oneHot', [ints([2, 3], 0, 4)], (a) => a.oneHot(4), 'F.one_hot(a, 4)'],
  ['oneHot', [at([], 1)], (a) => a.oneHot(3), 'F.one_hot(a, 3)'],
  ['oneHot', [none], (a) => a.oneHot(3), 'F.one_hot(a, 3)'],
  ['nonzero', [bools([3, 4])], (a) => a.nonzero({ size: 12 }), 'a.nonzero_static(size=12)'],
  [
    'argwhere',
    [bools([3, 4])],
    (a) => a.argwhere({ size: 12, fill: -1 }),
    'F.pad(torch.argwhere(a), (0, 0, 0, 12 - int(a.sum())), value=-1)',
  ],
  ['nonzero', [bools([3, 4])], (a) => a.nonzero({ size: 2, fill: 0 }), 'a.nonzero_static(size=2, fill_value=0)'],
  ['nonzero', [input([5], [0, 'nan', -1, 0, 2])], (a) => a.nonzero({ size: 7 }), 'a.nonzero_static(size=7)'],
  [
    'nonzero',
    [ints([2, 2, 2], 0, 2)],
    (a) => a.nonzero({ size: 3, fill: 9 }),
    'a.nonzero_static(size=3, fill_value=9)',
  ],
]);

/** Python's a[spec] = b on a copy, as an expression. */
const assigned = (spec: string, names: string) =>
  `(lambda y, ${names}: (y.__setitem__(np.s_[${spec}], b), y)[1])(a.clone(), ${names})`;

// x[...]: our spec, Python's.
const specs: readonly (readonly [Parameters<tx.Tensor['index']>, string])[] = [
  [[0], '0'],
  [[-1, '...', 2], '-1, ..., 2'],
  [['1:'], '1:'],
  [['...', '::2'], '..., ::2'],
  [['...', '-3:-1'], '..., -3:-1'],
  [['...', slice(1, 9, 2)], '..., 1:9:2'],
  [[slice(), slice(null, 2)], ':, :2'],
  [[null, 1, null], 'None, 1, None'],
  [['...'], '...'],
  [[], '()'],
  [['5:2'], '5:2'],
  [['0:0', '...', 0], '0:0, ..., 0'],
  [[[1, 0, 1]], '[1, 0, 1]'],
  [[':', [-1, 0]], ':, [-1, 0]'],
  [[':', [0, 2], [1, 3]], ':, [0, 2], [1, 3]'],
  [[[0, 1], ':', [1, 3]], '[0, 1], :, [1, 3]'],
  [[0, ':', [1, 3]], '0, :, [1, 3]'],
  [[[0, 1], 1, [1, 3]], '[0, 1], 1, [1, 3]'],
  [[[0, 1], null, [1, 2]], '[0, 1], None, [1, 2]'],
  [['...', [3, 0], null], '..., [3, 0], None'],
];
for (const [spec, python] of specs) {
  table.row('index', [cube], (a) => a.index(...spec), `a[${python}]`);
  const values = ['...', '()'].includes(python) ? cube : scalar;
  table.row('indexPut', [cube, values], (a, b) => a.indexPut(spec, b), assigned(python, 'b'), {
    smooth: python !== '[1, 0, 1]', // written twice: torch counts both, and so do we
  });
}
const rowIds = ints([3, 2], -2, 2);
rows([
  ['index', [cube, rowIds], (a, b) => a.index(b), 'a[b]'],
  ['index', [cube, ints([2, 1], 0, 3), ints([3], 0, 4, 'i32')], (a, b, c) => tx.index(a, '...', b, c), 'a[..., b, c]'],
  ['index', [cube, ints([2, 1], 0, 2), ints([3], 0, 4)], (a, b, c) => a.index(b, '1:', c), 'a[b, 1:, c]'],
  ['index', [cube, at([], 1)], (a, b) => a.index(':', b), 'a[:, b]'],
  ['index', [cube, at([], -1), at([2], 0, 3)], (a, b, c) => a.index(b, ':', c), 'a[b, :, c]'],
  ['index', [cube, at([], 1), at([2], 0, 3)], (a, b, c) => a.index(b, '1:', c), 'a[b, 1:, c]'],
  ['index', [x, none], (a, b) => a.index(b), 'a[b]'],
  ['index', [ints([4]), ints([2, 2], 0, 4, 'u8')], (a, b) => a.index(b), 'a[b.long()]'],
  ['index', [input([300]), at8(2, 250, 7)], (a, b) => a.index(b), 'a[b.long()]', { smooth: false }],
  ['index', [bools([4]), ints([2, 2], 0, 4)], (a, b) => a.index(b), 'a[b]'],
  ['index', [input([6]), at([3], -1, -6, 5)], (a, b) => a.index(b), 'a[b]'],
]);
const puts: readonly (readonly [Input[], (...ids: tx.Tensor[]) => Parameters<tx.Tensor['index']>, Input, string])[] = [
  [[], () => ['...', '1:3'], input([2, 3, 2]), '..., 1:3'],
  [[], () => [1, '::2'], input([4]), '1, ::2'],
  [[], () => [1, '::2', '1::2'], input([2, 2]), '1, ::2, 1::2'],
  [[], () => [0, null, 1], input([1, 4]), '0, None, 1'],
  [[at([], 1)], (c) => [':', c], input([2, 4]), ':, c'],
  [[at([], -2)], (c) => [':', c, '::3'], input([2]), ':, c, ::3'],
  [[at([2], 2, 0)], (c) => [':', c], input([2, 2, 4]), ':, c'],
  [[at([2], 2, 0)], (c) => [1, c, '1:3'], input([2]), '1, c, 1:3'],
  [[at([2, 1], 1, 0), at([3], 3, 1, 0)], (c, d) => [c, ':', d], input([2, 3, 3]), 'c, :, d'],
  [[at([2, 1], 2, -3), at([3], 3, 1, 0)], (c, d) => ['...', c, d], input([1, 1, 1, 3]), '..., c, d'],
  [[none], (c) => [c], input([0, 3, 4]), 'c'],
];
for (const [ids, spec, values, python] of puts) {
  const names = ['b', 'c', 'd'].slice(0, 1 + ids.length).join(', ');
  table.row('indexPut', [cube, values, ...ids], (a, b, ...i) => a.indexPut(spec(...i), b), assigned(python, names));
}
rows([
  [
    'indexPut',
    [x, ints([3], 0, 2), input([3, 5])],
    (a, b, c) => a.indexPut([b], c, { accumulate: true }),
    'a.index_put((b,), c, accumulate=True)',
  ],
  [
    'indexPut',
    [x, ints([6], 0, 2), ints([6], 0, 2), input([6])],
    (a, b, c, d) => a.indexPut([b, c], d, { accumulate: true }),
    'a.index_put((b, c), d, accumulate=True)',
  ],
  [
    'indexPut',
    [x, input([5])],
    (a, b) => a.indexPut(['1:3'], b, { accumulate: true }),
    'torch.cat([a[:1], a[1:3] + b, a[3:]])',
  ],
  ['indexPut', [ints([4])], (a) => a.indexPut(['1:3'], 7), 'torch.cat([a[:1], torch.tensor([7, 7]), a[3:]])'],
]);

// ---- boolean masks
const fixed = (...values: number[]): Input => ({ shape: [values.length], dtype: 'bool', fill: values });
const m4 = fixed(1, 0, 1, 1);
const m5 = fixed(0, 1, 1, 0, 1);
const grid: Input = { shape: [3, 4], dtype: 'bool', fill: [1, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0] };
/** torch's x[...] = v, of a clone. */
const changed = (spec: string, value: string) => `(lambda y: (y.__setitem__(${spec}, ${value}), y)[1])(a.clone())`;
rows([
  ['indexPut', [x, bools([4, 5])], (a, m) => a.indexPut([m], 1.5), 'a.index_put([b], torch.tensor(1.5))'],
  ['indexPut', [x, bools([4, 5]), scalar], (a, m, v) => a.indexPut([m], v), 'a.index_put([b], c)'],
  ['indexPut', [x, m4], (a, m) => a.indexPut([m], 0), 'a.index_put([b], torch.tensor(0.))'],
  ['indexPut', [x, m4, input([5])], (a, m, v) => a.indexPut([m], v), 'a.index_put([b], c)'],
  ['indexPut', [x, m4, input([3, 5])], (a, m, v) => a.indexPut([m], v), 'a.index_put([b], c)'],
  ['indexPut', [x, m4, input([3, 1])], (a, m, v) => a.indexPut([m], v), 'a.index_put([b], c)'],
  [
    'indexPut',
    [x, m4, input([3, 5])],
    (a, m, v) => a.indexPut([m], v, { accumulate: true }),
    'a.index_put([b], c, accumulate=True)',
  ],
  ['indexPut', [x, m5, input([3])], (a, m, v) => a.indexPut([':', m], v), changed('(slice(None), b)', 'c')],
  ['indexPut', [x, m5, input([4, 3])], (a, m, v) => a.indexPut([':', m], v), changed('(slice(None), b)', 'c')],
  ['indexPut', [x, m5, input([4, 1])], (a, m, v) => a.indexPut(['...', m], v), changed('(..., b)', 'c')],
  ['indexPut', [x, m5], (a, m) => a.indexPut([1, m], 2), changed('(1, b)', '2')],
  ['indexPut', [x, m4], (a, m) => a.indexPut([m, -1], 2), changed('(b, -1)', '2')],
  ['indexPut', [x, m4, input([3])], (a, m, v) => a.indexPut([m, 2], v), changed('(b, 2)', 'c')],
  ['indexPut', [x, m4, input([3, 2])], (a, m, v) => a.indexPut([m, '1:3'], v), changed('(b, slice(1, 3))', 'c')],
  [
    'indexPut',
    [x, fixed(1, 0, 1)],
    (a, m) => a.indexPut([slice(0, 3), m.index([0, 1, 2, 0, 1])], 7),
    changed('(slice(0, 3), b[[0, 1, 2, 0, 1]])', '7'),
  ],
  [
    'indexPut',
    [input([2, 3, 4]), grid, input([2, 5])],
    (a, m, v) => a.indexPut(['...', m], v),
    changed('(..., b)', 'c'),
  ],
  ['indexPut', [input([3, 4, 2]), grid, input([5, 2])], (a, m, v) => a.indexPut([m], v), 'a.index_put([b], c)'],
  ['indexPut', [ints([4, 5]), m4], (a, m) => a.indexPut([m], 7), 'a.index_put([b], torch.tensor(7))'],
  ['indexPut', [bools([4]), m4], (a, m) => a.indexPut([m], true), 'a.index_put([b], torch.tensor(True))'],
  [
    'indexPut',
    [x, fixed(0, 0, 0, 0), input([0, 5])],
    (a, m, v) => a.indexPut([m], v),
    'a.index_put([b], c)',
    { grad: false },
  ],
  ['maskedScatter', [x, bools([4, 5]), input([20])], (a, m, s) => a.maskedScatter(m, s), 'a.masked_scatter(b, c)'],
  ['maskedScatter', [x, m5, input([6, 4])], (a, m, s) => a.maskedScatter(m, s), 'a.masked_scatter(b, c)'],
  ['maskedScatter', [ints([4]), m4, ints([9])], (a, m, s) => a.maskedScatter(m, s), 'a.masked_scatter(b, c)'],
  [
    'maskedSelect',
    [x, bools([4, 5])],
    (a, m) => a.maskedSelect(m, { size: 20 }),
    'F.pad(a.masked_select(b), (0, 20 - int(b.sum())))',
  ],
  ['maskedSelect', [x, m5], (a, m) => a.maskedSelect(m, { size: 12, fill: 9 }), 'a.masked_select(b)'],
  ['maskedSelect', [x, m5], (a, m) => a.maskedSelect(m, { size: 5 }), 'a.masked_select(b)[:5]'],
  ['maskedSelect', [ints([4]), m4], (a, m) => a.maskedSelect(m, { size: 3 }), 'a.masked_select(b)'],
  ['nonzero', [grid], (a) => a.nonzero({ size: 5, asTuple: true }), 'a.nonzero(as_tuple=True)'],
  [
    'nonzeroStatic',
    [grid],
    (a) => a.nonzeroStatic({ size: 7, fillValue: 9 }),
    'a.nonzero_static(size=7, fill_value=9)',
  ],
]);

// ---- parts replaced
rows([
  ['selectScatter', [cube, input([2, 4])], (a, b) => a.selectScatter(b, 1, 2), 'torch.select_scatter(a, b, 1, 2)'],
  ['selectScatter', [x, input([5])], (a, b) => a.selectScatter(b, 0, -1), 'torch.select_scatter(a, b, 0, -1)'],
  ['diagonalScatter', [x, input([4])], (a, b) => a.diagonalScatter(b), 'torch.diagonal_scatter(a, b)'],
  ['diagonalScatter', [x, input([3])], (a, b) => a.diagonalScatter(b, -1), 'torch.diagonal_scatter(a, b, -1)'],
  [
    'diagonalScatter',
    [cube, input([3, 2])],
    (a, b) => a.diagonalScatter(b, { offset: 1, dim1: 0, dim2: 2 }),
    'torch.diagonal_scatter(a, b, offset=1, dim1=0, dim2=2)',
  ],
  ['fillDiagonal', [x], (a) => a.fillDiagonal(2.5), 'a.clone().fill_diagonal_(2.5)'],
  [
    'fillDiagonal',
    [input([8, 3])],
    (a) => a.fillDiagonal(-1, { wrap: true }),
    'a.clone().fill_diagonal_(-1, wrap=True)',
  ],
  ['fillDiagonal', [input([3, 3, 3])], (a) => a.fillDiagonal(0), 'a.clone().fill_diagonal_(0)'],
  ['renorm', [x], (a) => a.renorm(2, 0, 1.5), 'torch.renorm(a, 2, 0, 1.5)'],
  ['renorm', [cube], (a) => a.renorm(1, 1, 3), 'torch.renorm(a, 1, 1, 3)'],
  ['scatter', [x, apart], (a, b) => a.scatter(1, b, { value: 2.5 }), 'a.scatter(1, b, value=2.5)'],
  [
    'scatter',
    [x, apart],
    (a, b) => a.scatter(1, b, { value: 2, reduce: 'add' }),
    "a.scatter(1, b, 2, reduce='add')",
    { grad: false },
  ],
]);
for (const reduce of ['prod', 'mean', 'amax', 'amin'] as const)
  rows([
    [
      'indexReduce',
      [x, at([3], 0, 2, 0), input([3, 5])],
      (a, b, c) => a.indexReduce(0, b, c, reduce),
      `a.index_reduce(0, b, c, '${reduce}')`,
    ],
    [
      'indexReduce',
      [x, at([3], 0, 2, 0), input([4, 3])],
      (a, b, c) => a.indexReduce(1, b, c, reduce, { includeSelf: false }),
      `a.index_reduce(1, b, c, '${reduce}', include_self=False)`,
    ],
  ]);
