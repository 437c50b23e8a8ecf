// What the selection of PyTorch's operator database (test/opinfo) leaves out: its samples are large, or few.
import * as tx from 'tsxla';
import { input, ints, Table } from './row.js';

export const table = new Table('arrange');
const m = input([4, 3]);
table.row('channelShuffle', [input([1, 6, 2, 2])], (a) => tx.channelShuffle(a, 3), 'F.channel_shuffle(a, 3)', {});
table.row('fill', [m], (a) => tx.fill(a, 2.5), 'torch.fill(a, 2.5)', { grad: false });
table.row(
  'maxUnpool3d',
  [input([1, 2, 1, 2, 2]), { shape: [1, 2, 1, 2, 2], dtype: 'i64', fill: [0, 3, 12, 15, 5, 6, 9, 10] }],
  (a, b) => tx.maxUnpool3d(a, b, [1, 2, 2]),
  'F.max_unpool3d(a, b, (1, 2, 2))',
);
const classes = ints([4], 0, 3);
table.row('multiMarginLoss', [m, classes], (a, b) => tx.multiMarginLoss(a, b), 'F.multi_margin_loss(a, b)');
table.row(
  'multiMarginLoss',
  [m, classes, input([3], 'positive')],
  (a, b, c) => tx.multiMarginLoss(a, b, { p: 2, margin: 0.5, weight: c.detach(), reduction: 'sum' }),
  "F.multi_margin_loss(a, b, p=2, margin=0.5, weight=c.detach(), reduction='sum')",
  { grad: false },
);
const lists = { shape: [2, 3], dtype: 'i64', fill: [2, -1, 0, 0, 1, -1] } as const;
table.row(
  'multilabelMarginLoss',
  [input([2, 3]), lists],
  (a, b) => tx.multilabelMarginLoss(a, b, { reduction: 'none' }),
  "F.multilabel_margin_loss(a, b, reduction='none')",
);
table.row(
  'sliceScatter',
  [m, input([2, 3])],
  (a, b) => a.sliceScatter(b, 0, 1, 4, 2),
  'torch.slice_scatter(a, b, 0, 1, 4, 2)',
);
table.row('unravelIndex', [ints([5], 0, 12)], (a) => tx.unravelIndex(a, [3, 4]), 'torch.unravel_index(a, (3, 4))');
table.row(
  'upsample',
  [input([1, 2, 2, 2])],
  (a) => tx.upsample(a, { scaleFactor: 2, mode: 'bilinear', alignCorners: true }),
  "F.upsample(a, scale_factor=2, mode='bilinear', align_corners=True)",
);
table.row('splitWithSizes', [m], (a) => a.splitWithSizes([1, 2], 1), 'torch.split_with_sizes(a, [1, 2], dim=1)');
