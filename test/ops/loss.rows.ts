// Losses.
import * as tx from 'tsxla';
import { type Fill, type Input, input, ints, type RowOptions, Table } from './row.js';

export const table = new Table('loss');
type Options = Readonly<Record<string, unknown>>;
const call = tx as unknown as Record<string, (...xs: unknown[]) => tx.Tensor>;
const snake = (s: string) => s.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
const python = (v: unknown) =>
  typeof v === 'string'
    ? `'${v}'`
    : v === true
      ? 'True'
      : v === false
        ? 'False'
        : v === Number.POSITIVE_INFINITY
          ? "float('inf')"
          : String(v);

/** One loss with each of some options; those of `named` are inputs, in the order of the letters after the first `count`. */
function rows(
  op: string,
  torch: string,
  inputs: readonly Input[],
  options: readonly Options[],
  named: readonly string[] = [],
  more: RowOptions = {},
) {
  const count = inputs.length - named.length;
  const letters = 'abcdefgh';
  for (const o of options) {
    const text = [
      ...letters.slice(0, count),
      ...named.map((n, i) => `${snake(n)}=${letters[count + i]}.detach()`), // torch has no gradient of these
      ...Object.entries(o).map(([k, v]) => `${snake(k)}=${python(v)}`),
    ].join(', ');
    const run = (...xs: tx.Tensor[]) =>
      call[op]!(...xs.slice(0, count), { ...o, ...Object.fromEntries(named.map((n, i) => [n, xs[count + i]])) });
    table.row(op, inputs, run, `F.${torch}(${text})`, {
      ...('reduction' in o && { smooth: false }), // the same function as its mean
      ...more,
    });
  }
}
const REDUCTIONS: readonly Options[] = [{}, { reduction: 'sum' }, { reduction: 'none' }];
const [X, Y] = [input([2, 3]), input([2, 3])];
const PROBS: Fill = [0.1, 0.9, 0.5, 0.3, 0.7, 0.2];
const SIGNS: Fill = [1, -1, -1, 1, 1, -1];

// ---- distances

const distances: readonly [string, string, readonly Options[]][] = [
  ['mseLoss', 'mse_loss', []],
  ['l1Loss', 'l1_loss', []],
  ['smoothL1Loss', 'smooth_l1_loss', [{ beta: 0.3 }, { beta: 0 }]],
  ['huberLoss', 'huber_loss', [{ delta: 0.3 }]],
];
for (const [op, torch, options] of distances) {
  rows(op, torch, [X, Y], [...REDUCTIONS, ...options]);
  rows(op, torch, [X, input([3])], [{}]);
  rows(op, torch, [input([0]), input([0])], [{}]);
  rows(op, torch, [input([4], 'normal', 'bf16'), input([4], 'normal', 'bf16')], [{}], [], { smooth: false });
  rows(op, torch, [input([4], [1, 0, 2, 1]), input([4], [0, 0, 0, 2])], [{ reduction: 'none' }], [], { smooth: false });
}
for (const op of ['mse', 'l1', 'huber'])
  rows(`${op}Loss`, `${op}_loss`, [X, Y, input([2, 3], 'positive')], [{ reduction: 'sum' }], ['weight']);

// ---- classes

const N4 = ints([4], 0, 3);
const some = (shape: readonly number[], fill: readonly number[]): Input => ({ shape, dtype: 'i64', fill });
for (const [op, torch] of [
  ['crossEntropy', 'cross_entropy'],
  ['nllLoss', 'nll_loss'],
] as const) {
  rows(op, torch, [input([4, 3]), N4], REDUCTIONS);
  rows(op, torch, [input([3]), ints([], 0, 3)], [{}]);
  rows(op, torch, [input([2, 3, 2]), ints([2, 2], 0, 3)], REDUCTIONS);
  rows(op, torch, [input([2, 3, 2, 2]), ints([2, 2, 2], 0, 3)], [{}]);
  rows(op, torch, [input([4, 3]), N4, input([3], 'positive')], REDUCTIONS, ['weight']);
  rows(op, torch, [input([4, 3]), some([4], [0, -100, 2, -100])], REDUCTIONS);
  rows(
    op,
    torch,
    [input([4, 3]), some([4], [0, 1, 2, 1])],
    [{ ignoreIndex: 1 }, { ignoreIndex: 1, reduction: 'none' }],
  );
  rows(op, torch, [input([4, 3]), some([4], [0, 1, 2, 1]), input([3], 'positive')], [{ ignoreIndex: 1 }], ['weight'], {
    smooth: false,
  });
  rows(op, torch, [input([2, 3]), some([2], [-100, -100])], [{ reduction: 'sum' }, {}], [], { smooth: false });
  rows(op, torch, [input([4, 3]), ints([4], 0, 3, 'u8')], [{}]);
  rows(op, torch, [input([0, 3]), some([0], [])], [{ reduction: 'none' }, { reduction: 'sum' }]);
  rows(op, torch, [input([4, 3], 'normal', 'bf16'), N4], [{}], [], { smooth: false });
}
const smoothing = [
  { labelSmoothing: 0.2 },
  { labelSmoothing: 0.2, reduction: 'sum' },
  { labelSmoothing: 0.2, reduction: 'none' },
];
rows('crossEntropy', 'cross_entropy', [input([4, 3]), N4], smoothing);
rows('crossEntropy', 'cross_entropy', [input([2, 3, 2]), some([2, 2], [0, -100, 2, 1])], smoothing);
rows('crossEntropy', 'cross_entropy', [input([4, 3]), some([4], [0, 1, -100, 2]), input([3], 'positive')], smoothing, [
  'weight',
]);
rows('crossEntropy', 'cross_entropy', [input([2, 3]), input([2, 3], PROBS)], [...REDUCTIONS, ...smoothing]);
rows('crossEntropy', 'cross_entropy', [input([3]), input([3], [0.2, 0.3, 0.5])], [{}]);
rows('crossEntropy', 'cross_entropy', [input([2, 3, 2]), input([2, 3, 2], 'positive')], REDUCTIONS);
rows(
  'crossEntropy',
  'cross_entropy',
  [input([2, 3]), input([2, 3], PROBS), input([3], 'positive')],
  [...REDUCTIONS, ...smoothing],
  ['weight'],
);
rows(
  'crossEntropy',
  'cross_entropy',
  [input([2, 3], [1000, -1000, 0, '-inf', 0, 1]), some([2], [0, 1])],
  [{ reduction: 'none' }],
  [],
  { smooth: false },
);

// ---- probabilities

const P = input([2, 3], PROBS);
rows('binaryCrossEntropy', 'binary_cross_entropy', [P, input([2, 3], [0, 1, 0.5, 0, 1, 0.25])], REDUCTIONS);
rows(
  'binaryCrossEntropy',
  'binary_cross_entropy',
  [P, input([2, 3], [0, 1, 0.5, 0, 1, 0.25]), input([3], 'positive')],
  REDUCTIONS,
  ['weight'],
);
rows(
  'binaryCrossEntropy',
  'binary_cross_entropy',
  [input([4], [0, 1, 0, 1]), input([4], [0, 0, 1, 1])],
  [{ reduction: 'none' }],
  [],
  { smooth: false },
);
rows('binaryCrossEntropyWithLogits', 'binary_cross_entropy_with_logits', [X, P], REDUCTIONS);
rows(
  'binaryCrossEntropyWithLogits',
  'binary_cross_entropy_with_logits',
  [X, P, input([2, 3], 'positive')],
  REDUCTIONS,
  ['weight'],
);
rows('binaryCrossEntropyWithLogits', 'binary_cross_entropy_with_logits', [X, P, input([3], 'positive')], REDUCTIONS, [
  'posWeight',
]);
rows(
  'binaryCrossEntropyWithLogits',
  'binary_cross_entropy_with_logits',
  [X, P, input([2, 1], 'positive'), input([3], 'positive')],
  [{}],
  ['weight', 'posWeight'],
);
rows(
  'binaryCrossEntropyWithLogits',
  'binary_cross_entropy_with_logits',
  [input([4], [0, 300, -300, 5]), input([4], [1, 0, 1, 1])],
  [{ reduction: 'none' }],
  [],
  { smooth: false },
);
rows(
  'klDiv',
  'kl_div',
  [X, P],
  [{}, { reduction: 'mean' }, { reduction: 'sum' }, { reduction: 'none' }, { reduction: 'batchmean' }],
);
rows('klDiv', 'kl_div', [X, Y], [{ logTarget: true }, { reduction: 'batchmean', logTarget: true }]);
rows('klDiv', 'kl_div', [input([3], [-1, -2, -3]), input([3], [0, 1, 0.5])], [{ reduction: 'none' }], [], {
  grad: false,
});
const COUNTS = input([2, 3], [0, 1.5, 3, 4, 0.5, 2]);
rows('poissonNllLoss', 'poisson_nll_loss', [X, COUNTS], [...REDUCTIONS]);
rows(
  'poissonNllLoss',
  'poisson_nll_loss',
  [input([2, 3], 'positive'), COUNTS],
  [{ logInput: false }, { logInput: false, eps: 0.1 }],
);
rows(
  'poissonNllLoss',
  'poisson_nll_loss',
  [X, input([2, 3], [0.25, 1.5, 3, 4, 0.5, 2])],
  [{ full: true }, { full: true, logInput: false, reduction: 'none' }],
  [],
  { smooth: false, grad: false },
);
rows('poissonNllLoss', 'poisson_nll_loss', [X, input([2, 3], [0.25, 1.5, 3, 4, 0.5, 2])], [{ full: true }]);
const gaussian = (v: Input, options: readonly Options[]) =>
  rows('gaussianNllLoss', 'gaussian_nll_loss', [X, Y, v], options);
gaussian(input([2, 3], 'positive'), [...REDUCTIONS, { full: true }]);
gaussian(input([2], 'positive'), [{ reduction: 'none' }]);
gaussian(input([2, 1], 'positive'), [{}]);
rows('gaussianNllLoss', 'gaussian_nll_loss', [input([3]), input([3]), input([3], [0, 1e-8, 1])], [{ eps: 0.01 }], [], {
  smooth: false,
});

// ---- likeness and margins

const V = input([3, 4]);
rows('cosineSimilarity', 'cosine_similarity', [V, input([3, 4])], [{}, { dim: 0 }, { dim: -1 }]);
// Of vectors shorter than eps torch's gradient is not the function's (its limit passes gradients); ours is.
rows('cosineSimilarity', 'cosine_similarity', [V, input([3, 4])], [{ eps: 4 }], [], { grad: false });
rows('cosineSimilarity', 'cosine_similarity', [V, input([4])], [{}]);
rows('cosineSimilarity', 'cosine_similarity', [input([2, 3], [0, 0, 0, 1, 2, 3]), input([2, 3])], [{}], [], {
  grad: false,
});
rows(
  'cosineSimilarity',
  'cosine_similarity',
  [input([2, 4], 'normal', 'f16'), input([2, 4], 'normal', 'f16')],
  [{}],
  [],
  { smooth: false },
);
rows(
  'cosineEmbeddingLoss',
  'cosine_embedding_loss',
  [V, input([3, 4]), some([3], [1, -1, -1])],
  [...REDUCTIONS, { margin: 0.3 }, { margin: -0.9, reduction: 'none' }],
);
rows('cosineEmbeddingLoss', 'cosine_embedding_loss', [input([4]), input([4]), some([], [1])], [{}]);
rows('hingeEmbeddingLoss', 'hinge_embedding_loss', [X, input([2, 3], SIGNS)], [...REDUCTIONS, { margin: 0.25 }], [], {
  smooth: false,
});
rows(
  'hingeEmbeddingLoss',
  'hinge_embedding_loss',
  [X, { shape: [2, 3], dtype: 'i64', fill: SIGNS }],
  [...REDUCTIONS, { margin: 0.25 }],
);
rows(
  'marginRankingLoss',
  'margin_ranking_loss',
  [X, Y, { shape: [2, 3], dtype: 'i64', fill: SIGNS }],
  [...REDUCTIONS, { margin: 0.5 }],
);
rows('marginRankingLoss', 'margin_ranking_loss', [input([3]), input([3]), input([3], [1, -1, 1])], [{}], [], {
  smooth: false,
});
for (const o of REDUCTIONS) {
  const text = Object.entries(o).map(([k, v]) => `, ${k}='${v}'`);
  table.row(
    'softMarginLoss',
    [X, input([2, 3], SIGNS)],
    (a, b) => call.softMarginLoss!(a, b, o),
    `F.soft_margin_loss(a, b.detach()${text})`,
  );
}
const TRIPLET = [V, input([3, 4]), input([3, 4])];
rows('tripletMarginLoss', 'triplet_margin_loss', TRIPLET, [
  ...REDUCTIONS,
  { margin: 3 },
  { p: 1 },
  { p: 3, margin: 2 },
  { swap: true, reduction: 'none' },
  { eps: 0.1 },
]);
rows('tripletMarginLoss', 'triplet_margin_loss', TRIPLET, [{ p: Number.POSITIVE_INFINITY, margin: 2 }]);
rows('tripletMarginLoss', 'triplet_margin_loss', [input([4]), input([4]), input([4])], [{}]);

// ---- dtypes that differ: each result has torch's. (Its steps round where ours need not.)

const F: Fill = [0.5, 1, 0, 0.25];
const N: Fill = [1, 1, 0, 0];
const of = (dtype: Input['dtype'], shape = [4]) => input(shape, dtype.includes('f') ? F : N, dtype);
const pairs = (...list: (readonly [Input['dtype'], Input['dtype']])[]) => list;
const MIXED: Readonly<Record<string, readonly (readonly [Input['dtype'], Input['dtype']])[]>> = {
  mseLoss: pairs(['f16', 'f32'], ['bf16', 'f16'], ['f16', 'i64'], ['i32', 'f16'], ['f16', 'bool'], ['f64', 'f32']),
  l1Loss: pairs(['f16', 'f32'], ['bf16', 'f16'], ['f16', 'i64'], ['i32', 'f16'], ['f32', 'f64']),
  smoothL1Loss: pairs(['f16', 'f32'], ['bf16', 'f16'], ['f16', 'i64'], ['i32', 'f16']),
  huberLoss: pairs(['f16', 'f32'], ['f32', 'f16'], ['bf16', 'f16'], ['f32', 'f64']),
  binaryCrossEntropyWithLogits: pairs(['f16', 'f32'], ['f32', 'f16'], ['bf16', 'f16'], ['f64', 'f32']),
  klDiv: pairs(['f16', 'f32'], ['f32', 'f16'], ['bf16', 'f16']),
  poissonNllLoss: pairs(['i64', 'f16'], ['f16', 'i64'], ['i32', 'i64'], ['f16', 'f32'], ['bool', 'bf16']),
  gaussianNllLoss: pairs(['f16', 'f32'], ['f32', 'f16'], ['f16', 'i64']),
  hingeEmbeddingLoss: pairs(['f16', 'f32'], ['f32', 'f16'], ['bf16', 'i64'], ['f32', 'bool']),
  marginRankingLoss: pairs(['i64', 'f16'], ['f16', 'i64'], ['f16', 'f32']),
  cosineEmbeddingLoss: pairs(['f16', 'i64'], ['i64', 'bf16'], ['i32', 'u8'], ['f16', 'f32'], ['bool', 'f16']),
  tripletMarginLoss: pairs(['i64', 'f16'], ['f16', 'i64'], ['f16', 'f32'], ['i64', 'i32']),
};
/** What they take besides two tensors. */
const THIRD: Readonly<Record<string, (a: tx.Tensor, b: tx.Tensor) => tx.Tensor>> = {
  gaussianNllLoss: () => tx.ones([4]),
  marginRankingLoss: (_, b) => b,
  cosineEmbeddingLoss: () => tx.tensor(1),
  tripletMarginLoss: (a) => a.add(a),
};
const THIRD_TORCH: Readonly<Record<string, string>> = {
  gaussianNllLoss: ', torch.ones(4)',
  marginRankingLoss: ', b',
  cosineEmbeddingLoss: ', torch.tensor(1)',
  tripletMarginLoss: ', a + a',
};
const NAMES: Readonly<Record<string, string>> = { smoothL1Loss: 'smooth_l1_loss', l1Loss: 'l1_loss' };
for (const [op, types] of Object.entries(MIXED)) {
  for (const [a, b] of types) {
    const third = THIRD[op];
    const run = (x: tx.Tensor, y: tx.Tensor) => call[op]!(x, y, ...(third ? [third(x, y)] : []));
    table.row(op, [of(a), of(b)], run, `F.${NAMES[op] ?? snake(op)}(a, b${THIRD_TORCH[op] ?? ''})`, {
      grad: false,
      tolerance: 1e-2,
    });
  }
}
for (const [a, b] of pairs(['f16', 'f32'], ['f32', 'f16'], ['bf16', 'f16'], ['f32', 'f64'])) {
  table.row('crossEntropy', [of(a, [2, 2]), of(b, [2, 2])], (x, y) => tx.crossEntropy(x, y), 'F.cross_entropy(a, b)', {
    grad: false,
    tolerance: 1e-2,
  });
}
for (const op of ['smoothL1Loss', 'huberLoss'] as const) {
  const far = [input([4], ['inf', 0.5, 3, '-inf']), input([4], [0, 0, 1, 0])];
  rows(op, NAMES[op] ?? snake(op), far, [{ reduction: 'none' }]);
}
rows('poissonNllLoss', 'poisson_nll_loss', [of('f16'), of('i64')], [{ full: true }], [], {
  grad: false,
  tolerance: 1e-2,
});

table.row(
  'gaussianNllLoss',
  [input([4, 3]), input([4, 3]), input([1, 3], 'positive')],
  (a, b, c) => tx.gaussianNllLoss(a, b, c),
  'F.gaussian_nll_loss(a, b, c)',
);

// ---- ctc: torch's gradient is that of logits, which logSoftmax makes the same
const spoken = input([6, 2, 4]);
const said: Input = { shape: [2, 3], dtype: 'i64', fill: [1, 2, 2, 3, 1, 1] };
const LOGITS = 'a.log_softmax(2)';
for (const reduction of ['mean', 'sum', 'none'] as const)
  table.row(
    'ctcLoss',
    [spoken, said],
    (a, b) => tx.ctcLoss(a.logSoftmax(2), b, [6, 5], [3, 2], { reduction }),
    `F.ctc_loss(${LOGITS}, b, (6, 5), (3, 2), reduction='${reduction}')`,
    { smooth: reduction === 'sum' },
  );
table.row(
  'ctcLoss',
  [spoken, { shape: [5], dtype: 'i64', fill: [1, 2, 0, 0, 1] }],
  (a, b) => tx.ctcLoss(a.logSoftmax(2), b, tx.tensor([6, 6]), tx.tensor([3, 2]), 3),
  `F.ctc_loss(${LOGITS}, b, (6, 6), (3, 2), 3)`,
  { smooth: false },
);
table.row(
  'ctcLoss',
  [spoken, { shape: [5], dtype: 'i64', fill: [1, 2, 2, 3, 1] }],
  (a, b) => tx.ctcLoss(a.logSoftmax(2), b, [2, 6], [3, 2], { zeroInfinity: true, blank: 0 }),
  `F.ctc_loss(${LOGITS}, b, (2, 6), (3, 2), zero_infinity=True)`,
  { smooth: false },
);
table.row(
  'ctcLoss',
  [input([4, 3]), { shape: [2], dtype: 'i64', fill: [1, 2] }],
  (a, b) => tx.ctcLoss(a.logSoftmax(1), b, [4], [2], { reduction: 'none' }),
  "F.ctc_loss(a.log_softmax(1), b, torch.tensor(4), torch.tensor(2), reduction='none')",
  { smooth: false },
);
table.row(
  'ctcLoss',
  [spoken, said],
  (a, b) => tx.ctcLoss(a.logSoftmax(2), b, [6, 5], [0, 2], { reduction: 'none' }),
  `F.ctc_loss(${LOGITS}, b, (6, 5), (0, 2), reduction='none')`,
  { smooth: false },
);
