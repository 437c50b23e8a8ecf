// Sorting and searching.
import * as tx from 'tsxla';
import { bools, type Fill, type Input, input, ints, type RowOptions, Table } from './row.js';

export const table = new Table('sorting');
const row = table.row.bind(table);
const found = (f: { values: tx.Tensor; indices: tx.Tensor }) => [f.values, f.indices];
const notSmooth: RowOptions = { smooth: false };
const odd: Fill = [1, 'nan', -1, 0, 'inf', '-inf', 0, 'nan', 1, 2];

// ---- sort
for (const descending of [false, true]) {
  const py = `descending=${descending ? 'True' : 'False'}, stable=True`;
  row('sort', [input([2, 5], 'distinct')], (a) => found(a.sort({ descending })), `torch.sort(a, ${py})`);
  row('sort', [input([4, 3], 'distinct')], (a) => found(a.sort({ dim: 0, descending })), `torch.sort(a, dim=0, ${py})`);
  row(
    'sort',
    [input([2, 3, 2], 'distinct')],
    (a) => found(a.sort({ dim: -2, descending })),
    `torch.sort(a, dim=-2, ${py})`,
  );
  row('sort', [input([10], odd)], (a) => found(a.sort({ descending })), `torch.sort(a, ${py})`, notSmooth);
  row('sort', [input([4], [0, -0, 0, -0])], (a) => a.sort({ descending }).indices, `torch.sort(a, ${py})[1]`);
  for (const dtype of ['i64', 'u8', 'i8'] as const)
    row(
      'sort',
      [ints([3, 8], dtype === 'u8' ? 0 : -3, 4, dtype)],
      (a) => found(a.sort({ descending })),
      `torch.sort(a, ${py})`,
    );
  row('sort', [ints([40], 0, 4)], (a) => found(a.sort({ descending })), `torch.sort(a, ${py})`); // many alike: stable
  row(
    'sort',
    [input([12])],
    (a) => a.sort({ descending, stable: false }).values,
    `torch.sort(a, ${py.replace('stable=True', 'stable=False')}).values`,
  );
  row('sort', [bools([9])], (a) => found(a.sort({ descending })), `torch.sort(a, ${py})`);
  row('sort', [input([2, 5], 'distinct', 'bf16')], (a) => found(a.sort({ descending })), `torch.sort(a, ${py})`);
  row('sort', [input([5], 'distinct', 'f16')], (a) => found(a.sort({ descending })), `torch.sort(a, ${py})`);
  row('sort', [input([])], (a) => found(a.sort({ descending })), `torch.sort(a, ${py})`);
  row('sort', [input([0, 3])], (a) => found(a.sort({ dim: 0, descending })), `torch.sort(a, dim=0, ${py})`, notSmooth);
  row('argsort', [ints([2, 7], 0, 4)], (a) => a.argsort({ dim: 0, descending }), `torch.argsort(a, dim=0, ${py})`);
  row('argsort', [input([2, 5])], (a) => a.argsort({ descending }), `torch.argsort(a, ${py})`);
}
row('msort', [input([4, 2], 'distinct')], (a) => a.msort(), 'torch.msort(a)');
// Not linear, so that second derivatives go through the order too.
row('sort', [input([6], 'distinct')], (a) => a.sort().values.mul(a).exp(), 'torch.exp(torch.sort(a)[0] * a)');
row('topk', [input([2, 5], 'distinct')], (a) => a.topk(3).values.exp(), 'torch.exp(torch.topk(a, 3)[0])');
row('kthvalue', [input([5], 'distinct')], (a) => a.kthvalue(2).values.mul(a), 'torch.kthvalue(a, 2)[0] * a');

// ---- the first few
for (const largest of [true, false]) {
  const py = `largest=${largest ? 'True' : 'False'}`;
  row('topk', [input([2, 5], 'distinct')], (a) => found(a.topk(3, { largest })), `torch.topk(a, 3, ${py})`);
  row(
    'topk',
    [input([5, 2], 'distinct')],
    (a) => found(a.topk(2, { dim: 0, largest })),
    `torch.topk(a, 2, dim=0, ${py})`,
  );
  row(
    'topk',
    [input([2, 4, 3], 'distinct')],
    (a) => found(a.topk(4, { dim: 1, largest })),
    `torch.topk(a, 4, dim=1, ${py})`,
  );
  row(
    'topk',
    [input([6], [3, 'nan', 1, 'inf', '-inf', 2])],
    (a) => found(a.topk(4, { largest })),
    `torch.topk(a, 4, ${py})`,
    notSmooth,
  );
  row(
    'topk',
    [input([6], [3, 'nan', 1, 4, '-inf', 2])],
    (a) => a.neg().topk(6, { largest }).values,
    `torch.topk(-a, 6, ${py})[0]`,
    notSmooth,
  );
  for (const dtype of ['i64', 'i32', 'u8', 'i8'] as const)
    row(
      'topk',
      [ints([2, 6], dtype.startsWith('u') ? 0 : -90, 100, dtype)],
      (a) => a.topk(4, { largest }).values,
      `torch.topk(a, 4, ${py})[0]`,
    );
  row('topk', [input([3], [-128, 127, 0], 'i8')], (a) => found(a.topk(3, { largest })), `torch.topk(a, 3, ${py})`);
  row('topk', [bools([6])], (a) => a.topk(3, { largest }).values, `torch.topk(a.byte(), 3, ${py})[0].bool()`);
  row('topk', [input([2, 6], 'distinct', 'bf16')], (a) => found(a.topk(2, { largest })), `torch.topk(a, 2, ${py})`);
  row('topk', [input([6], 'distinct', 'f16')], (a) => found(a.topk(2, { largest })), `torch.topk(a, 2, ${py})`);
  row('topk', [input([6], 'distinct', 'f64')], (a) => found(a.topk(2, { largest })), `torch.topk(a, 2, ${py})`);
  row('topk', [input([])], (a) => found(a.topk(1, { largest })), `torch.topk(a, 1, ${py})`);
  row('topk', [input([3])], (a) => found(a.topk(0, { largest })), `torch.topk(a, 0, ${py})`, { grad: false });
}
row('kthvalue', [input([2, 5], 'distinct')], (a) => found(a.kthvalue(2)), 'torch.kthvalue(a, 2)');
row(
  'kthvalue',
  [input([4, 2], 'distinct')],
  (a) => found(a.kthvalue(4, { dim: 0, keepdim: true })),
  'torch.kthvalue(a, 4, dim=0, keepdim=True)',
);
row('kthvalue', [input([3], [3, 'nan', 1])], (a) => found(a.kthvalue(3)), 'torch.kthvalue(a, 3)', notSmooth);

// ---- search
for (const right of [false, true]) {
  const py = `right=${right ? 'True' : 'False'}`;
  const values = input([2, 4], [0, 1, 2, 2.5, 'inf', '-inf', 'nan', 9]);
  row(
    'searchsorted',
    [input([5], [1, 2, 2, 2, 5]), values],
    (a, b) => a.searchsorted(b, { right }),
    `torch.searchsorted(a, b, ${py})`,
  );
  row(
    'searchsorted',
    [input([2, 3], [1, 2, 3, -1, 0, 0]), values],
    (a, b) => tx.searchsorted(a, b, { right }),
    `torch.searchsorted(a, b, ${py})`,
  );
  row(
    'searchsorted',
    [ints([4], 3, 4), ints([3], 0, 9)],
    (a, b) => a.searchsorted(b, { right, outInt32: true }),
    `torch.searchsorted(a, b, ${py}, out_int32=True)`,
  );
  row(
    'searchsorted',
    [input([1], [1]), input([3], [0, 1, 2])],
    (a, b) => a.searchsorted(b, { right }),
    `torch.searchsorted(a, b, ${py})`,
  );
  row(
    'searchsorted',
    [input([0]), input([3])],
    (a, b) => a.searchsorted(b, { right }),
    `torch.searchsorted(a, b, ${py})`,
  );
  row(
    'bucketize',
    [input([2, 4]), input([3], [-1, 0, 1])],
    (a, b) => a.bucketize(b, { right }),
    `torch.bucketize(a, b, ${py})`,
  );
}
row(
  'searchsorted',
  [input([5], [1, 2, 2, 2, 5])],
  (a) => a.searchsorted(2, { side: 'right' }),
  'torch.searchsorted(a, 2, side="right")',
);
row('isin', [ints([2, 5], 0, 6), ints([3], 0, 6)], (a, b) => a.isin(b), 'torch.isin(a, b)');
row(
  'isin',
  [ints([2, 5], 0, 6), ints([2, 2], 0, 6)],
  (a, b) => a.isin(b, { invert: true }),
  'torch.isin(a, b, invert=True)',
);
row('isin', [ints([5], 0, 3)], (a) => a.isin(1), 'torch.isin(a, 1)');
row('isin', [input([3], [1, 'nan', 2]), input([2], ['nan', 2])], (a, b) => a.isin(b), 'torch.isin(a, b)');
row('isin', [ints([3]), ints([0])], (a, b) => a.isin(b), 'torch.isin(a, b)');

// ---- a fixed room for values that are found
row(
  'unique',
  [ints([3, 4], 0, 5)],
  (a) => a.unique({ size: 7, fill: -1 }),
  'F.pad(torch.unique(a), (0, 7 - torch.unique(a).numel()), value=-1)',
);
row('unique', [input([6], [1, 'inf', '-inf', 1, 2, 2])], (a) => a.unique({ size: 4 }), 'torch.unique(a.detach())');
row('unique', [ints([9], 0, 9)], (a) => a.unique({ size: 2 }), 'torch.unique(a)[:2]');
const few: Input = { shape: [2, 4], dtype: 'i64', fill: [3, 1, 3, 0, 1, 1, 3, 3] };
const lines = input([5, 2], [1, 2, 0, 5, 1, 2, 0, 4, 1, 2]);
row(
  'unique',
  [few],
  (a) => a.unique({ size: 3, sorted: true, returnInverse: true, returnCounts: true }),
  'torch.unique(a, sorted=True, return_inverse=True, return_counts=True)',
);
row('unique', [few], (a) => a.unique({ size: 3, returnCounts: true }), 'torch.unique(a, return_counts=True)');
for (const dim of [0, 1]) {
  row(
    'unique',
    [lines],
    (a) => a.unique({ size: dim ? 2 : 3, dim, returnInverse: true, returnCounts: true }),
    `torch.unique(a.detach(), dim=${dim}, return_inverse=True, return_counts=True)`,
  );
}
const runs: Input = { shape: [8], dtype: 'i64', fill: [1, 1, 2, 2, 3, 1, 1, 2] };
row(
  'uniqueConsecutive',
  [runs],
  (a) => a.uniqueConsecutive({ size: 5, returnInverse: true, returnCounts: true }),
  'torch.unique_consecutive(a, return_inverse=True, return_counts=True)',
);
row(
  'uniqueConsecutive',
  [input([4, 2], [1, 2, 1, 2, 0, 3, 1, 2])],
  (a) => a.uniqueConsecutive({ size: 4, fill: 7, dim: 0 }),
  'F.pad(torch.unique_consecutive(a.detach(), dim=0), (0, 0, 0, 1), value=7)',
);
row('topk', [input([5], 'distinct')], (a) => found(a.topk(2, { sorted: true })), 'torch.topk(a, 2, sorted=True)');
row(
  'bucketize',
  [input([5]), input([3], [-1, 0, 1])],
  (a, b) => a.bucketize(b, { side: 'right', outInt32: true }),
  'torch.bucketize(a, b, out_int32=True, right=True)',
  { grad: false },
);
// Numbers that were once wrong.
row('topk', [input([])], (a) => found(a.topk(0)), 'torch.topk(a, 0)');

row(
  'searchsorted',
  [input([2, 4], 'distinct'), input([2, 3])],
  (a, b) => a.searchsorted(b, { sorter: a.argsort() }),
  'torch.searchsorted(a.detach(), b.detach(), sorter=a.detach().argsort())',
);
