// Reductions and running totals.
import * as tx from 'tsxla';
import type { DType } from 'tsxla/pjrt';
import { bools, type Fill, input, ints, type RowOptions, Table } from './row.js';

export const table = new Table('reduction');
const row = table.row.bind(table);
type Option = { dim?: number | number[]; keepdim?: boolean; correction?: number; dtype?: DType };

/** The option as Python's keywords. */
const keywords = (o: Option): string =>
  Object.entries(o)
    .map(([k, v]) => `${k}=${v === true ? 'True' : k === 'dtype' ? TORCH[v as string] : JSON.stringify(v)}`)
    .join(', ');
const TORCH: Readonly<Record<string, string>> = { f64: 'torch.float64', i32: 'torch.int32', f32: 'torch.float32' };

// op, torch's name, what it is tried on, and options of the rows
// biome-ignore format: a table
const plain: readonly [op: 'sum' | 'mean' | 'prod' | 'amax' | 'amin' | 'nansum' | 'nanmean' | 'logsumexp' | 'var' | 'std' | 'any' | 'all' | 'countNonzero', torch: string, fill: Fill, options: readonly Option[]][] = [
  ['sum',          'sum',           'normal',   [{}, { dim: 1 }, { dim: [0, -1], keepdim: true }, { dim: [] }, { dim: 0, dtype: 'f64' }]],
  ['mean',         'mean',          'normal',   [{}, { dim: -1 }, { dim: [0, 1], keepdim: true }, { dtype: 'f64' }]],
  ['prod',         'prod',          'normal',   [{}, { dim: 1 }, { dim: 0, keepdim: true }]],
  ['amax',         'amax',          'distinct', [{}, { dim: 1 }, { dim: [0, -1], keepdim: true }]],
  ['amin',         'amin',          'distinct', [{}, { dim: 1 }, { dim: [0, -1], keepdim: true }]],
  ['nansum',       'nansum',        'normal',   [{}, { dim: 1, keepdim: true }]],
  ['nanmean',      'nanmean',       'normal',   [{}, { dim: [0, 2] }]],
  ['logsumexp',    'logsumexp',     'normal',   [{ dim: -1 }, { dim: [0, 1], keepdim: true }]],
  ['var',          'var',           'normal',   [{}, { dim: 1 }, { dim: [0, 2], keepdim: true, correction: 0 }, { dim: 1, correction: 2 }]],
  ['std',          'std',           'normal',   [{}, { dim: 1 }, { dim: [0, 2], keepdim: true, correction: 0 }]],
  ['any',          'any',           { from: -1, to: 1 }, [{}, { dim: 1 }, { dim: [0, -1], keepdim: true }]],
  ['all',          'all',           { from: -1, to: 1 }, [{}, { dim: 1 }, { dim: [0, -1], keepdim: true }]],
  ['countNonzero', 'count_nonzero', { from: -1, to: 2 }, [{}, { dim: 1 }, { dim: [0, 2] }]],
];
for (const [op, torch, fill, options] of plain) {
  const run = (o: Option) => (a: tx.Tensor) => tx[op](a, o as never);
  for (const o of options)
    row(op, [input([2, 3, 2], fill)], run(o), `torch.${torch}(a${keywords(o) && `, ${keywords(o)}`})`);
  // torch's gradient of var and std is itself made in bf16, where x - mean cancels; ours in f32.
  const coarse = op === 'var' || op === 'std' ? { tolerance: 0.03 } : {};
  row(op, [input([3, 4], fill, 'bf16')], run({ dim: 1 }), `torch.${torch}(a, dim=1)`, coarse);
  row(op, [input([], fill)], run({ dim: 0 }), `torch.${torch}(a, dim=0)`, { grad: op !== 'var' && op !== 'std' });
}
const isNumeric = ['sum', 'prod', 'amax', 'amin', 'any', 'all', 'countNonzero'] as const;
for (const op of isNumeric) {
  const torch = op === 'countNonzero' ? 'count_nonzero' : op;
  row(op, [ints([2, 3])], (a) => tx[op](a, 1), `torch.${torch}(a, dim=1)`);
  row(op, [ints([4], -3, 4, 'i32')], (a) => tx[op](a), `torch.${torch}(a)`);
  row(op, [bools([2, 3])], (a) => tx[op](a, -1), `torch.${torch}(a, dim=-1)`);
  row(op, [input([0, 3])], (a) => tx[op](a, 1), `torch.${torch}(a, dim=1)`, { smooth: false });
}
// Over nothing: the neutral element, or NaN.
row('sum', [input([0, 3])], (a) => a.sum(0), 'a.sum(0)');
row('prod', [input([2, 0])], (a) => a.prod(), 'a.prod()');
row('mean', [input([2, 0])], (a) => a.mean(1), 'a.mean(1)');
row('var', [input([2, 0])], (a) => a.var(1), 'a.var(1)');
row('logsumexp', [input([0, 3])], (a) => a.logsumexp(0), 'a.logsumexp(0)');
row('any', [bools([0, 2])], (a) => a.any(0), 'a.any(0)');
row('all', [bools([0, 2])], (a) => a.all(0), 'a.all(0)');
row('mean', [ints([2, 3])], (a) => a.mean(), 'a.float().mean()');
row('sum', [ints([3], 100, 127, 'i8')], (a) => a.sum({ dtype: 'i32' }), 'a.sum(dtype=torch.int32)');
row('sum', [input([1, 4096], 'positive', 'bf16')], (a) => a.sum(1), 'a.sum(1)', { smooth: false }); // made in f32: in bf16 it would stop growing
row('sum', [input([300], 'positive', 'f16')], (a) => a.sum(), 'a.sum()');

// The product's gradient, with zeros: one, two, none.
const zeros: Fill = [1, 2, 0, 3, 0, 4, 0, 0.5, 2, -1, 3, 0.5];
row('prod', [input([4, 3], zeros)], (a) => a.prod(1), 'a.prod(1)');
row('prod', [input([3], [0, 2, 3])], (a) => a.prod(), 'a.prod()');
row('prod', [input([2, 3])], (a) => a.prod({ dim: [0, 1], keepdim: true }), 'a.prod().reshape(1, 1)');
row('prod', [input([2, 3, 2])], (a) => a.prod({ dim: [2, 0] }), 'a.prod(2).prod(0)');

// ---- NaN and infinities
const odd: Fill = [1, 'nan', 2, 'inf', '-inf', 3, '-inf', '-inf', 0.5, 1, 2, 3];
const notSmooth: RowOptions = { smooth: false };
for (const op of ['nansum', 'nanmean', 'amax', 'amin', 'sum'] as const)
  row(op, [input([4, 3], odd)], (a) => tx[op](a, 1), `torch.${op}(a, dim=1)`, notSmooth);
row('nanmean', [input([2, 2], ['nan', 'nan', 1, 2])], (a) => a.nanmean(1), 'a.nanmean(1)', { grad: false });
row('logsumexp', [input([4, 3], odd)], (a) => a.logsumexp(1), 'a.logsumexp(1)', notSmooth);
row('logsumexp', [input([2], ['-inf', '-inf'])], (a) => a.logsumexp(0), 'a.logsumexp(0)', { grad: false });
row('logsumexp', [input([3], [1000, 1001, -1000], 'f64')], (a) => a.logsumexp(), 'a.logsumexp(0)', notSmooth);
row('logsumexp', [ints([2, 3])], (a) => a.logsumexp(1), 'a.logsumexp(1)');
row('std', [input([2, 2], [3, 3, 1, 2])], (a) => a.std(1), 'a.std(1)', notSmooth); // 0 where all are alike
row('amax', [input([2, 3], [1, 3, 3, 2, 2, 2])], (a) => a.amax(1), 'a.amax(1)', notSmooth);

// ---- extremes
for (const op of ['max', 'min'] as const) {
  const both = (f: { values: tx.Tensor; indices: tx.Tensor }) => [f.values, f.indices];
  const x = input([2, 3, 2], 'distinct');
  row(op, [x], (a) => tx[op](a), `torch.${op}(a)`);
  row(op, [x], (a) => both(tx[op](a, 1)), `torch.${op}(a, 1)`);
  row(op, [x], (a) => both(tx[op](a, { dim: -3, keepdim: true })), `torch.${op}(a, -3, keepdim=True)`);
  row(op, [input([2, 3]), input([3])], (a, b) => tx[op](a, b), `torch.${op}(a, b)`);
  row(
    op,
    [input([3, 3], [1, 3, 3, 'nan', 2, 'nan', 0, 0, 0])],
    (a) => both(tx[op](a, 1)),
    `torch.${op}(a, 1)`,
    notSmooth,
  );
  row(op, [input([4], ['-inf', '-inf', '-inf', '-inf'])], (a) => both(tx[op](a, 0)), `torch.${op}(a, 0)`, notSmooth);
  row(op, [input([3], ['inf', 'inf', 'inf'])], (a) => both(tx[op](a, 0)), `torch.${op}(a, 0)`, notSmooth);
  row(op, [input([4], [1, 3, 3, 1])], (a) => tx[op](a), `torch.${op}(a)`, notSmooth);
  row(op, [input([4], [1, 'nan', 3, 'nan'])], (a) => tx[op](a), `torch.${op}(a)`, notSmooth);
  row(op, [ints([2, 5], 0, 3, 'u8')], (a) => both(tx[op](a, 1)), `torch.${op}(a, 1)`);
  row(op, [bools([2, 5])], (a) => both(tx[op](a, 1)), `torch.${op}(a, 1)`);
  row(op, [input([2, 5], 'distinct', 'bf16')], (a) => both(tx[op](a, -1)), `torch.${op}(a, -1)`);
  row(op, [input([])], (a) => both(tx[op](a, 0)), `torch.${op}(a, 0)`);
  row(op, [input([0, 3])], (a) => both(tx[op](a, 1)), `torch.${op}(a, 1)`, notSmooth);

  const arg = `arg${op}` as const;
  row(arg, [x], (a) => tx[arg](a), `torch.${arg}(a)`);
  row(arg, [x], (a) => tx[arg](a, 1), `torch.${arg}(a, 1)`);
  row(arg, [x], (a) => tx[arg](a, { keepdim: true }), `torch.${arg}(a, keepdim=True)`);
  row(arg, [x], (a) => tx[arg](a, { dim: -1, keepdim: true }), `torch.${arg}(a, -1, keepdim=True)`);
  row(arg, [ints([3, 8], 0, 3)], (a) => tx[arg](a, 1), `torch.${arg}(a, 1)`);
  row(
    arg,
    [input([2, 4], [1, 'nan', 9, 'nan', '-inf', '-inf', '-inf', '-inf'])],
    (a) => tx[arg](a, 1),
    `torch.${arg}(a, 1)`,
  );
  row(arg, [input([])], (a) => tx[arg](a), `torch.${arg}(a)`);
}
const pair = (f: { min: tx.Tensor; max: tx.Tensor }) => [f.min, f.max];
row('aminmax', [input([2, 3], 'distinct')], (a) => pair(a.aminmax()), 'torch.aminmax(a)');
row(
  'aminmax',
  [input([2, 3], 'distinct')],
  (a) => pair(a.aminmax({ dim: 0, keepdim: true })),
  'torch.aminmax(a, dim=0, keepdim=True)',
);

// ---- spread and norms
row('varMean', [input([2, 3])], (a) => a.varMean({ dim: 1, keepdim: true }), 'torch.var_mean(a, dim=1, keepdim=True)');
row('varMean', [input([2, 3])], (a) => a.varMean(), 'torch.var_mean(a)');
row('stdMean', [input([2, 3])], (a) => a.stdMean({ dim: 0, correction: 0 }), 'torch.std_mean(a, dim=0, correction=0)');
row('stdMean', [input([4, 2], 'normal', 'f64')], (a) => a.stdMean(1), 'torch.std_mean(a, dim=1)');
const orders = [0, 0.5, 1, 1.5, 2, 3, -1, -2.5, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
for (const p of orders) {
  const text = Number.isFinite(p) ? String(p) : `float("${p < 0 ? '-' : ''}inf")`;
  const grad = p === 0 ? { grad: false } : {};
  row('norm', [input([2, 3])], (a) => a.norm(p), `torch.norm(a, ${text})`, grad);
  row(
    'vectorNorm',
    [input([2, 3, 2])],
    (a) => a.vectorNorm(p, { dim: [0, 1], keepdim: true }),
    `torch.linalg.vector_norm(a, ${text}, dim=(0, 1), keepdim=True)`,
    grad,
  );
  row('norm', [input([3, 3], [0, 3, -3, 0, 0, 0, 1, -2, 4])], (a) => a.norm(p, 1), `torch.norm(a, ${text}, dim=1)`, {
    ...grad,
    ...notSmooth,
  });
}
row('norm', [input([2, 3])], (a) => a.norm(), 'torch.norm(a)');
row('norm', [input([2, 3])], (a) => a.norm('fro', { dim: [0, 1] }), 'torch.norm(a, dim=(0, 1))');
row('norm', [input([2, 3], 'normal', 'bf16')], (a) => a.norm(2, -1), 'torch.norm(a, 2, dim=-1)');

// ---- order statistics
const found = (f: { values: tx.Tensor; indices: tx.Tensor }) => [f.values, f.indices];
for (const op of ['median', 'nanmedian'] as const) {
  row(op, [input([2, 5], 'distinct')], (a) => tx[op](a), `torch.${op}(a)`);
  row(op, [input([2, 4], 'distinct')], (a) => found(tx[op](a, 1)), `torch.${op}(a, 1)`);
  row(
    op,
    [input([3, 4], 'distinct')],
    (a) => found(tx[op](a, { dim: 0, keepdim: true })),
    `torch.${op}(a, 0, keepdim=True)`,
  );
  row(
    op,
    [input([3, 4], [1, 'nan', 9, 'nan', 4, 3, 2, 'nan', 'nan', 'nan', 5, 'nan'])],
    (a) => found(tx[op](a, 1)),
    `torch.${op}(a, 1)`,
    notSmooth,
  );
  row(op, [input([4], [1, 3, 3, 'nan'])], (a) => tx[op](a), `torch.${op}(a)`, notSmooth);
  row(op, [input([4], [1, 3, 3, 5])], (a) => tx[op](a), `torch.${op}(a)`, notSmooth);
  row(op, [ints([7], -50, 50)], (a) => tx[op](a), `torch.${op}(a)`);
}
row('mode', [ints([3, 7], 0, 3)], (a) => found(a.mode()), 'torch.mode(a)');
row(
  'mode',
  [input([5, 2], [1, 2, 1, 3, 4, 2, 1, 1, 5, 2])],
  (a) => found(a.mode({ dim: 0, keepdim: true })),
  'torch.mode(a, 0, keepdim=True)',
  notSmooth,
);
for (const interpolation of ['linear', 'lower', 'higher', 'midpoint', 'nearest'] as const) {
  row(
    'quantile',
    [input([3, 6], 'distinct')],
    (a) => a.quantile([0, 0.1, 0.5, 0.77, 1], { dim: 1, interpolation }),
    `torch.quantile(a, torch.tensor([0, 0.1, 0.5, 0.77, 1]), dim=1, interpolation="${interpolation}")`,
  );
}
row('quantile', [input([2, 3], 'distinct')], (a) => a.quantile(0.3), 'torch.quantile(a, 0.3)');
row(
  'quantile',
  [input([2, 3], 'distinct', 'f64')],
  (a) => a.quantile(0.3, { keepdim: true }),
  'torch.quantile(a, 0.3, keepdim=True)',
);
row(
  'quantile',
  [input([2, 3], [1, 'nan', 2, 3, 4, 5])],
  (a) => a.quantile([0.5], { dim: -1, keepdim: true }),
  'torch.quantile(a, torch.tensor([0.5]), dim=-1, keepdim=True)',
  { grad: false },
);

// ---- running
for (const op of ['cumsum', 'cumprod', 'logcumsumexp'] as const) {
  row(op, [input([2, 5])], (a) => tx[op](a, 1), `torch.${op}(a, 1)`);
  row(op, [input([3, 2])], (a) => tx[op](a, -2), `torch.${op}(a, -2)`);
  row(op, [input([])], (a) => tx[op](a, 0), `torch.${op}(a, 0)`);
  row(op, [input([0, 2])], (a) => tx[op](a, 0), `torch.${op}(a, 0)`, notSmooth);
  row(op, [input([3, 1])], (a) => tx[op](a, 1), `torch.${op}(a, 1)`);
  row(op, [input([9], 'unit', 'bf16')], (a) => tx[op](a, 0), `torch.${op}(a, 0)`);
  row(op, [input([4], [1, 2, 'nan', 3])], (a) => tx[op](a, 0), `torch.${op}(a, 0)`, { grad: false });
}
row('cumsum', [input([300], 'unit')], (a) => a.cumsum(0), 'a.cumsum(0)', notSmooth); // tiles of XLA's own
row('cumsum', [ints([2, 3], -5, 5, 'i32')], (a) => a.cumsum(0), 'a.cumsum(0)');
row('cumsum', [bools([5])], (a) => a.cumsum(0), 'a.cumsum(0)');
row('cumsum', [ints([3])], (a) => a.cumsum({ dim: 0, dtype: 'f64' }), 'a.cumsum(0, dtype=torch.float64)');
row('cumprod', [ints([5], 1, 4)], (a) => a.cumprod(0), 'a.cumprod(0)');
row('cumprod', [input([4, 3], zeros)], (a) => a.cumprod(1), 'a.cumprod(1)');
row('logcumsumexp', [input([5], ['-inf', 1, 500, -500, 500])], (a) => a.logcumsumexp(0), 'a.logcumsumexp(0)', {
  grad: false,
});
row('logcumsumexp', [input([4], [1, 1, 1, 1])], (a) => a.logcumsumexp(0), 'a.logcumsumexp(0)');
for (const op of ['cummax', 'cummin'] as const) {
  row(op, [input([2, 6], 'distinct')], (a) => found(tx[op](a, 1)), `torch.${op}(a, 1)`);
  row(op, [input([6], [1, 3, 3, 'nan', 2, 'nan'])], (a) => found(tx[op](a, 0)), `torch.${op}(a, 0)`, notSmooth);
  row(op, [ints([5, 2], -3, 3)], (a) => found(tx[op](a, -2)), `torch.${op}(a, -2)`);
  row(op, [bools([6])], (a) => found(tx[op](a, 0)), `torch.${op}(a, 0)`);
  row(op, [input([])], (a) => found(tx[op](a, 0)), `torch.${op}(a, 0)`);
}

// Not linear, so that second derivatives go through the choice too.
row('max', [input([2, 4], 'distinct')], (a) => a.max(1).values.exp(), 'torch.exp(a.max(1)[0])');
row('max', [input([4], 'distinct')], (a) => a.max().mul(a), 'a.max() * a');
row('amin', [input([2, 4], 'distinct')], (a) => a.amin(1).exp(), 'torch.exp(a.amin(1))');
row('median', [input([2, 5], 'distinct')], (a) => a.median(1).values.exp(), 'torch.exp(a.median(1)[0])');
row('cummax', [input([2, 5], 'distinct')], (a) => a.cummax(1).values.mul(a), 'a.cummax(1)[0] * a');
row('cumsum', [input([2, 5], 'unit')], (a) => a.cumsum(1).exp(), 'torch.exp(a.cumsum(1))');
row('quantile', [input([6], 'distinct')], (a) => a.quantile(0.3).mul(a), 'torch.quantile(a, 0.3) * a');

// ---- neighbours
row('diff', [input([2, 4])], (a) => a.diff(), 'torch.diff(a)');
row('diff', [input([4, 2])], (a) => a.diff({ n: 2, dim: 0 }), 'torch.diff(a, n=2, dim=0)');
row('diff', [input([3])], (a) => a.diff({ n: 5 }), 'torch.diff(a, n=5)', notSmooth);
row(
  'diff',
  [input([2, 3]), input([2, 1]), input([2, 2])],
  (a, b, c) => a.diff({ prepend: b, append: c }),
  'torch.diff(a, prepend=b, append=c)',
);
row('diff', [bools([6])], (a) => a.diff(), 'torch.diff(a)');
row('diff', [ints([4])], (a) => a.diff(), 'torch.diff(a)');
for (const [op, torch] of [
  ['trapezoid', 'trapezoid'],
  ['cumulativeTrapezoid', 'cumulative_trapezoid'],
] as const) {
  row(op, [input([2, 4])], (a) => tx[op](a), `torch.${torch}(a)`);
  row(op, [input([4, 2])], (a) => tx[op](a, { dx: 0.5, dim: 0 }), `torch.${torch}(a, dx=0.5, dim=0)`);
  row(op, [input([2, 4]), input([4])], (a, b) => tx[op](a, { x: b }), `torch.${torch}(a, b)`);
  row(op, [input([3, 2]), input([3, 2])], (a, b) => tx[op](a, { x: b, dim: 0 }), `torch.${torch}(a, b, dim=0)`);
  row(op, [input([3, 2]), input([3])], (a, b) => tx[op](a, { x: b, dim: 0 }), `torch.${torch}(a, b, dim=0)`);
}

// ---- counts
row('bincount', [ints([9], 0, 5)], (a) => a.bincount({ minlength: 6 }), 'torch.bincount(a, minlength=6)');
row('bincount', [ints([9], 0, 5)], (a) => a.add(0).bincount({ minlength: 3 }), 'torch.bincount(a)[:3]');
row('bincount', [ints([9], 0, 5), ints([9])], (a, b) => a.bincount(b, 9), 'torch.bincount(a, b, 9)');
row(
  'bincount',
  [ints([6], 0, 4), input([6])],
  (a, b) => a.bincount({ minlength: 4, weights: b }),
  'torch.bincount(a, weights=b.detach(), minlength=4)',
  { grad: false },
);
row('bincount', [ints([0], 0, 4)], (a) => a.bincount({ minlength: 2 }), 'torch.bincount(a, minlength=2)');
row(
  'histc',
  [input([20])],
  (a) => a.histc({ bins: 4, min: -1, max: 1 }),
  'torch.histc(a.detach(), bins=4, min=-1, max=1)',
);
row('histc', [input([2, 5])], (a) => a.histc({ bins: 3 }), 'torch.histc(a.detach(), bins=3)');
row('histc', [input([3], [1, 1, 1])], (a) => a.histc({ bins: 3 }), 'torch.histc(a.detach(), bins=3)');
row(
  'countNonzero',
  [ints([2, 3], -1, 2)],
  (a) => a.countNonzero({ dim: 1, keepdim: true }),
  '(a != 0).sum(dim=1, keepdim=True)',
);
row('varMean', [input([2, 4])], (a) => a.varMean({ dim: 1, correction: 0 }), 'torch.var_mean(a, dim=1, correction=0)');
row('stdMean', [input([2, 4])], (a) => a.stdMean({ dim: 0, keepdim: true }), 'torch.std_mean(a, dim=0, keepdim=True)');
row('norm', [input([2, 3])], (a) => a.norm(3, { dim: 1, keepdim: true }), 'torch.norm(a, 3, dim=1, keepdim=True)');
row(
  'cumprod',
  [ints([4], 1, 5)],
  (a) => a.cumprod({ dim: 0, dtype: 'f32' }),
  'torch.cumprod(a, 0, dtype=torch.float32)',
);
row('dist', [input([2, 3]), input([3])], (a, b) => a.dist(b, 3), 'torch.dist(a, b, 3)');

// ---- numbers that were once wrong

for (const correction of [3, 4]) {
  const [of3, keywords] = [input([2, 3], [1, 2, 4, 5, 5, 5]), `dim=1, correction=${correction}`];
  row('var', [of3], (a) => a.var({ dim: 1, correction }), `torch.var(a, ${keywords})`, { smooth: false });
  row('std', [of3], (a) => a.std({ dim: 1, correction }), `torch.std(a, ${keywords})`, { smooth: false });
}
row('norm', [input([2, 3], [0, 1, 2, 0, 'nan', 0])], (a) => a.norm(0, 1), 'torch.norm(a, 0, dim=1)', { smooth: false });
row('amax', [input([4], [1, 'nan', 2, 3])], (a) => a.amax(), 'torch.amax(a)', { smooth: false });
row('amin', [input([4], [1, 'nan', 2, 3])], (a) => a.amin(), 'torch.amin(a)', { smooth: false });
row(
  'mode',
  [input([3, 4], ['nan', 1, 2, 'nan', 1, 'nan', 3, 3, 'nan', 'nan', 'nan', 'nan'])],
  (a) => a.mode(1).values,
  'torch.mode(a, 1)[0]',
  { smooth: false },
);
row('trapezoid', [input([3, 0])], (a) => a.trapezoid(), 'torch.trapezoid(a)', { grad: false });
row('trapezoid', [input([3, 0]), input([0])], (a, x) => a.trapezoid({ x }), 'torch.trapezoid(a, b)', { grad: false });
row('cumulativeTrapezoid', [input([3, 0])], (a) => a.cumulativeTrapezoid(), 'torch.cumulative_trapezoid(a)', {
  grad: false,
});
row('quantile', [input([3], ['-inf', 1, 2])], (a) => a.quantile(0.4), 'torch.quantile(a, 0.4)', { smooth: false });

// ---- spread by torch's older name
for (const op of ['var', 'std'] as const)
  row(op, [input([3, 4])], (a) => a[op]({ dim: 1, unbiased: false }), `torch.${op}(a, 1, unbiased=False)`);
for (const op of ['varMean', 'stdMean'] as const)
  row(op, [input([3, 4])], (a) => a[op]({ unbiased: true }), `torch.${op.replace('M', '_m')}(a, unbiased=True)`);
row(
  'prod',
  [{ shape: [2, 3], dtype: 'bool', fill: [1, 1, 0, 1, 1, 1] }],
  (a) => a.prod({ dim: 1, dtype: 'bool' }),
  'torch.prod(a, 1, dtype=torch.bool)',
);
row('sum', [ints([2, 3], 0, 2)], (a) => a.sum({ dim: 0, dtype: 'bool' }), 'torch.sum(a, 0, dtype=torch.bool)');

// ---- statistics.ts
const seen = input([3, 6]);
row('cov', [seen], (a) => a.cov(), 'torch.cov(a)');
row('cov', [seen], (a) => a.cov({ correction: 0 }), 'torch.cov(a, correction=0)');
row('cov', [input([5])], (a) => a.cov(), 'torch.cov(a)');
row('cov', [ints([2, 4])], (a) => a.cov(), 'torch.cov(a)');
row(
  'cov',
  [seen, ints([6], 1, 5), input([6], 'positive')],
  (a, b, c) => a.cov({ fweights: b, aweights: c }),
  'torch.cov(a, fweights=b, aweights=c)',
);
row(
  'cov',
  [seen, input([6], 'positive')],
  (a, b) => a.cov({ aweights: b, correction: 2 }),
  'torch.cov(a, aweights=b, correction=2)',
);
row('corrcoef', [seen], (a) => a.corrcoef(), 'torch.corrcoef(a)');
row('corrcoef', [input([4])], (a) => a.corrcoef(), 'torch.corrcoef(a)', { grad: false });
const none = { grad: false };
row('histogram', [input([20])], (a) => [...a.histogram(5)], 'torch.histogram(a.detach(), 5)', none);
row(
  'histogram',
  [input([20])],
  (a) => [...a.histogram(4, { range: [-1, 1.5], density: true })],
  'torch.histogram(a.detach(), 4, range=(-1., 1.5), density=True)',
  none,
);
row(
  'histogram',
  [input([8]), input([4], [-1, 0, 0.5, 2]), input([8], 'positive')],
  (a, b, c) => [...a.histogram(b, { weight: c })],
  'torch.histogram(a.detach(), b.detach(), weight=c.detach())',
  none,
);
row('histogram', [input([4], [2, 2, 2, 2])], (a) => [...a.histogram(3)], 'torch.histogram(a.detach(), 3)', none);
const flatten = '(lambda r: [r[0], *r[1]])';
row(
  'histogramdd',
  [input([20, 2])],
  (a) => a.histogramdd([3, 4]),
  `${flatten}(torch.histogramdd(a.detach(), [3, 4]))`,
  none,
);
row(
  'histogramdd',
  [input([20, 2]), input([20], 'positive')],
  (a, b) => a.histogramdd(3, { range: [-2, 2, -1, 1], weight: b, density: true }),
  `${flatten}(torch.histogramdd(a.detach(), [3, 3], range=[-2., 2., -1., 1.], weight=b.detach(), density=True))`,
  none,
);
row(
  'histogramdd',
  [input([9, 2]), input([3], [-1, 0, 2]), input([3], [-2, 0.5, 1])],
  (a, b, c) => a.histogramdd([b, c]),
  `${flatten}(torch.histogramdd(a.detach(), [b.detach(), c.detach()]))`,
  none,
);
const holes = input([3, 5], [1, 5, 'nan', 2, 8, 3, 1, 4, 9, 7, 'nan', 'nan', 'nan', 'nan', 'nan']);
for (const interpolation of ['linear', 'lower', 'higher', 'midpoint', 'nearest'] as const) {
  const torch = `interpolation='${interpolation}'`;
  row(
    'nanquantile',
    [holes],
    (a) => a.nanquantile([0.1, 0.5, 0.9], 1, { interpolation }),
    `torch.nanquantile(a, torch.tensor([0.1, 0.5, 0.9]), 1, ${torch})`,
    { smooth: false },
  );
  row(
    'quantile',
    [input([3, 5], 'distinct'), input([2], [0.3, 0.8])],
    (a, b) => a.quantile(b.detach(), { dim: 0, interpolation }),
    `torch.quantile(a, b.detach(), 0, ${torch})`,
    { smooth: false },
  );
}
row(
  'nanquantile',
  [holes],
  (a) => a.nanquantile(0.4, { dim: 0, keepdim: true }),
  'torch.nanquantile(a, 0.4, 0, True)',
  { smooth: false },
);
row('nanquantile', [holes], (a) => a.nanquantile(0.4), 'torch.nanquantile(a, 0.4)', { smooth: false });
row(
  'quantile',
  [holes, input([], [0.5])],
  (a, b) => a.quantile(b.detach(), { dim: 1, keepdim: true }),
  'torch.quantile(a, b.detach(), 1, True)',
  none,
);
