// Normalizations.
import * as tx from 'tsxla';
import type { DType } from 'tsxla/pjrt';
import { input, type Row, Table } from './row.js';

export const table = new Table('norm');
type Shape = readonly number[];

// In three dtypes against torch, or against its f64 where its own bf16 is coarse. What is compared with finite differences
// is computed in f64 in any case: once is enough.
const FLOATS: readonly DType[] = ['f32', 'f64', 'bf16'];
function row(op: string, shapes: readonly Shape[], run: Row['run'], torch: string, dtypes = FLOATS): void {
  for (const dtype of dtypes) {
    const inputs = shapes.map((s) => input(s, 'normal', dtype));
    table.row(op, inputs, run, torch, { smooth: dtype === 'f32' });
  }
}

row('layerNorm', [[3, 5]], (a) => a.layerNorm(5), 'F.layer_norm(a, (5,))');
row(
  'layerNorm',
  [[2, 2, 3], [3], [3]],
  (a, weight, bias) => a.layerNorm([3], { weight, bias }),
  'F.layer_norm(a, (3,), weight=b, bias=c)',
);
row(
  'layerNorm',
  [
    [2, 2, 2],
    [2, 2],
  ],
  (a, weight) => a.layerNorm([2, 2], { weight, eps: 0.1 }),
  'F.layer_norm(a, (2, 2), weight=b, eps=0.1)',
);
row('layerNorm', [[2, 3], [3], [3]], (a, w, b) => a.layerNorm([3], w, b, 0.1), 'F.layer_norm(a, (3,), b, c, 0.1)');
table.row(
  'layerNorm',
  [input([2, 3], [1e4, 1e4 + 1, 1e4 + 2, -7, -7, -7])],
  (a) => a.layerNorm(3),
  'F.layer_norm(a.double(), (3,)).float()',
  { smooth: false },
);
table.row('layerNorm', [input([0, 3])], (a) => a.layerNorm(3), 'F.layer_norm(a, (3,))');

row('rmsNorm', [[3, 5]], (a) => a.rmsNorm(5), 'F.rms_norm(a, (5,))');
row(
  'rmsNorm',
  [[2, 2, 3], [3]],
  (a, weight) => a.rmsNorm([3], { weight, eps: 1e-6 }),
  'F.rms_norm(a, (3,), weight=b, eps=1e-6)',
);
row(
  'rmsNorm',
  [
    [2, 2, 2],
    [2, 2],
  ],
  (a, weight) => a.rmsNorm([2, 2], weight, 0.1),
  'F.rms_norm(a, (2, 2), b, 0.1)',
);
table.row('rmsNorm', [input([1, 3], [0, 0, 0])], (a) => a.rmsNorm(3), 'F.rms_norm(a, (3,))', { smooth: false });

row('groupNorm', [[2, 4, 3]], (a) => a.groupNorm(2), 'F.group_norm(a, 2)');
row(
  'groupNorm',
  [[1, 4, 2, 1], [4], [4]],
  (a, weight, bias) => a.groupNorm(2, { weight, bias, eps: 0.1 }),
  'F.group_norm(a, 2, weight=b, bias=c, eps=0.1)',
);
row('groupNorm', [[3, 4], [4]], (a, weight) => a.groupNorm(1, { weight }), 'F.group_norm(a, 1, weight=b)');

row('localResponseNorm', [[2, 5, 3]], (a) => a.localResponseNorm(3), 'F.local_response_norm(a, 3)');
row(
  'localResponseNorm',
  [[1, 4, 2, 2]],
  (a) => a.localResponseNorm(2, { alpha: 0.5, beta: 0.6, k: 2 }),
  'F.local_response_norm(a, 2, alpha=0.5, beta=0.6, k=2.0)',
  ['f32', 'f64'], // torch has no bf16 here
);

row('normalize', [[3, 4]], (a) => a.normalize(), 'F.normalize(a.double()).to(a.dtype)');
row(
  'normalize',
  [[2, 3, 2]],
  (a) => a.normalize({ p: 3, dim: 0, eps: 1e-3 }),
  'F.normalize(a, p=3.0, dim=0, eps=1e-3)',
);
row('normalize', [[2, 3, 2]], (a) => a.normalize({ dim: [1, 2] }), 'F.normalize(a, dim=(1, 2))');
table.row('normalize', [input([2, 2], [0, 0, 1e-14, 0])], (a) => a.normalize(), 'F.normalize(a.double()).to(a.dtype)', {
  smooth: false,
});

// ---- with running statistics: they are results too, changed in place

/** Running statistics to begin with, and the same in Python. */
const begin = (like: tx.Tensor, c: number): [mean: tx.Tensor, variance: tx.Tensor] => [
  tx.tensor([0.5, -0.25, 1].slice(0, c), { dtype: like.dtype }),
  tx.tensor([1.5, 0.5, 2].slice(0, c), { dtype: like.dtype }),
];
const inTorch = (call: string, c: number) =>
  `(lambda m, v: (${call}, m, v))(torch.tensor([0.5, -0.25, 1][:${c}], dtype=a.dtype), torch.tensor([1.5, 0.5, 2][:${c}], dtype=a.dtype))`;
for (const shape of [
  [3, 2],
  [2, 3, 2],
  [2, 2, 1, 2],
] as readonly Shape[]) {
  const c = shape[1]!;
  for (const training of [true, false]) {
    row(
      'batchNorm',
      [shape, [c], [c]],
      (a, weight, bias) => {
        const [mean, variance] = begin(a, c);
        return [tx.batchNorm(a, mean, variance, { weight, bias, training, momentum: 0.3, eps: 0.1 }), mean, variance];
      },
      inTorch(`F.batch_norm(a, m, v, b, c, training=${training ? 'True' : 'False'}, momentum=0.3, eps=0.1)`, c),
    );
  }
}
row(
  'batchNorm',
  [[4, 2]],
  (a) => tx.batchNorm(a, null, null, { training: true }),
  'F.batch_norm(a.double(), None, None, training=True).to(a.dtype)',
);

row('instanceNorm', [[2, 3, 3]], (a) => tx.instanceNorm(a), 'F.instance_norm(a.double()).to(a.dtype)');
for (const useInputStats of [true, false]) {
  row(
    'instanceNorm',
    [[2, 2, 2, 2], [2], [2]],
    (a, weight, bias) => {
      const [runningMean, runningVar] = begin(a, 2);
      const options = { runningMean, runningVar, weight, bias, useInputStats, momentum: 0.3, eps: 0.1 };
      return [tx.instanceNorm(a, options), runningMean, runningVar];
    },
    inTorch(
      `F.instance_norm(a, m, v, b, c, use_input_stats=${useInputStats ? 'True' : 'False'}, momentum=0.3, eps=0.1)`,
      2,
    ),
  );
}
