// Convolutions, pooling, interpolation.
import * as tx from 'tsxla';
import { type Fill, type Input, input, Table } from './row.js';

export const table = new Table('conv');
const row: Table['row'] = table.row.bind(table);
type Shape = readonly number[];
type Options = Record<string, unknown>;

/** { outputPadding: 1, ceilMode: true } as Python's keyword arguments. */
const snake = (s: string) => s.replaceAll(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
const value = (v: unknown): string =>
  typeof v === 'boolean'
    ? v
      ? 'True'
      : 'False'
    : Array.isArray(v)
      ? `(${v.map(value).join(', ')},)`
      : typeof v === 'string'
        ? `'${v}'`
        : String(v);
const keywords = (options: Options): string =>
  Object.entries(options)
    .map(([k, v]) => `, ${snake(k)}=${value(v)}`)
    .join('');

// ---- convolutions

type ConvName = 'conv1d' | 'conv2d' | 'conv3d' | 'convTranspose1d' | 'convTranspose2d' | 'convTranspose3d';
const convolutions: readonly [op: ConvName, x: Shape, weight: Shape, options?: Options, bias?: number][] = [
  ['conv1d', [2, 2, 5], [3, 2, 3], {}, 3],
  ['conv1d', [2, 5], [2, 2, 2], { stride: 2, padding: 1 }],
  ['conv1d', [1, 1, 6], [1, 1, 3], { dilation: 2, padding: 'same' }],
  ['conv1d', [1, 1, 5], [1, 1, 4], { padding: 'same' }],
  ['conv1d', [1, 4, 4], [6, 2, 2], { groups: 2, stride: 2 }, 6],
  ['conv1d', [2, 2, 3], [2, 2, 1], { padding: 'valid' }],
  ['conv2d', [1, 2, 4, 4], [2, 2, 3, 3], { padding: 1 }, 2],
  ['conv2d', [2, 1, 4, 5], [2, 1, 2, 3], { stride: [2, 1], padding: [1, 0] }],
  ['conv2d', [1, 1, 5, 5], [1, 1, 2, 2], { dilation: [2, 3], stride: 2, padding: 1 }],
  ['conv2d', [1, 3, 3, 3], [3, 1, 2, 2], { groups: 3 }, 3],
  ['conv2d', [1, 2, 3, 3], [4, 1, 2, 2], { groups: 2, stride: 2, padding: 1 }],
  ['conv2d', [2, 4, 4], [2, 2, 2, 2], {}, 2],
  ['conv2d', [0, 2, 3, 3], [2, 2, 2, 2], {}, 2],
  ['conv3d', [1, 2, 3, 3, 2], [1, 2, 2, 2, 2], { padding: [1, 0, 0] }, 1],
  ['conv3d', [1, 2, 3, 3, 2], [2, 1, 2, 1, 1], { groups: 2, stride: [1, 2, 1] }],
  ['convTranspose1d', [2, 2, 3], [2, 3, 2], {}, 3],
  ['convTranspose1d', [2, 3], [2, 1, 3], { stride: 2, padding: 1, outputPadding: 1 }],
  ['convTranspose1d', [1, 4, 2], [4, 1, 2], { stride: 3, groups: 2, dilation: 2 }, 2],
  ['convTranspose2d', [1, 2, 2, 3], [2, 2, 2, 2], { stride: [2, 1], padding: [1, 0] }, 2],
  ['convTranspose2d', [1, 2, 2, 2], [2, 1, 3, 3], { stride: 2, padding: 1, outputPadding: [1, 0], groups: 2 }],
  ['convTranspose2d', [1, 1, 2, 2], [1, 1, 1, 1], { padding: 0, dilation: 2, outputPadding: 1 }],
  ['convTranspose3d', [1, 1, 2, 1, 2], [1, 2, 2, 2, 1], { stride: [1, 2, 1] }, 2],
];
for (const [op, x, weight, options = {}, bias] of convolutions) {
  const inputs = [input(x), input(weight), ...(bias ? [input([bias])] : [])];
  const run = (a: tx.Tensor, b: tx.Tensor, c?: tx.Tensor) => tx[op](a, b, c, options);
  row(op, inputs, run, `F.${op.replace('T', '_t')}(a, b${bias ? ', c' : ''}${keywords(options)})`);
}
for (const dtype of ['bf16', 'f16'] as const) {
  const run = (a: tx.Tensor, b: tx.Tensor) => a.conv2d(b, null, { padding: 1 });
  row(
    'conv2d',
    [input([1, 2, 3, 3], 'normal', dtype), input([2, 2, 3, 3], 'normal', dtype)],
    run,
    'F.conv2d(a, b, padding=1)',
  );
}

// ---- pooling

type PoolName = `${'maxPool' | 'avgPool'}${1 | 2 | 3}d`;
const pools: readonly [op: PoolName, x: Shape, size: number | Shape, options?: Options][] = [
  ['maxPool1d', [2, 2, 5], 2],
  ['maxPool1d', [2, 6], 3, { stride: 2, padding: 1, dilation: 2 }],
  ['maxPool1d', [1, 1, 6], 3, { stride: 2, ceilMode: true }],
  ['maxPool1d', [1, 1, 5], 2, { stride: 3, padding: 1, ceilMode: true }],
  ['maxPool2d', [1, 2, 4, 5], 2],
  ['maxPool2d', [1, 1, 5, 5], 3, { stride: 2, padding: 1 }],
  ['maxPool2d', [2, 4, 4], [2, 1], { stride: 1, dilation: [2, 1] }],
  ['maxPool2d', [1, 1, 4, 4], [3, 2], { stride: [2, 3], padding: [1, 1], ceilMode: true }],
  ['maxPool3d', [1, 1, 3, 3, 4], 2, { stride: 1 }],
  ['maxPool3d', [1, 3, 2, 4], [2, 1, 2], { padding: [1, 0, 1] }],
  ['avgPool1d', [2, 2, 6], 2],
  ['avgPool1d', [2, 5], 3, { stride: 2, padding: 1 }],
  ['avgPool1d', [1, 1, 6], 3, { stride: 2, padding: 1, ceilMode: true }],
  ['avgPool1d', [1, 1, 6], 4, { stride: 3, padding: 2, ceilMode: true, countIncludePad: false }],
  ['avgPool2d', [1, 2, 4, 4], 2],
  ['avgPool2d', [1, 1, 5, 4], [3, 2], { stride: [2, 1], padding: [1, 0], countIncludePad: false }],
  ['avgPool2d', [1, 1, 5, 5], 2, { ceilMode: true }],
  ['avgPool2d', [1, 1, 5, 5], 3, { padding: 1, ceilMode: true, divisorOverride: 5 }],
  ['avgPool2d', [2, 4, 4], [1, 3], { stride: 1, divisorOverride: 2 }],
  ['avgPool3d', [1, 1, 3, 2, 4], 2, { stride: 1, padding: 1 }],
  ['avgPool3d', [1, 3, 2, 4], [2, 1, 2]],
];
for (const [op, x, size, options = {}] of pools) {
  const fill: Fill = op.startsWith('max') ? 'distinct' : 'normal';
  row(
    op,
    [input(x, fill)],
    (a) => (tx[op] as typeof tx.avgPool2d)(a, size, options),
    `F.${op.replace('P', '_p')}(a, ${value(size)}${keywords(options)})`,
  );
}
row(
  'avgPool2d',
  [input([1, 1, 4, 4], 'normal', 'bf16')],
  (a) => a.avgPool2d(3, { stride: 1 }),
  'F.avg_pool2d(a, 3, stride=1)',
);
row(
  'maxPool2d',
  [input([1, 1, 4, 4], 'normal', 'bf16')],
  (a) => a.maxPool2d(3, { stride: 1 }),
  'F.max_pool2d(a, 3, stride=1)',
  { smooth: false },
);
// Equal elements: the first gets the gradient. No numbers win.
const ties: Input = input([1, 1, 4, 4], [1, 1, 2, 2, 1, 1, 2, 2, 0, 3, 3, 3, 3, 3, 0, 3]);
const odd: Input = input([1, 1, 3, 4], [1, 'nan', 2, '-inf', 'inf', 1, '-inf', '-inf', 0, 3, 'nan', 'inf']);
for (const x of [ties, odd]) {
  row('maxPool2d', [x], (a) => a.maxPool2d(3, { stride: 1, padding: 1 }), 'F.max_pool2d(a, 3, stride=1, padding=1)', {
    smooth: false,
  });
}
row('maxPool2d', [input([1, 4, 4], { from: -9, to: 9 }, 'i64')], (a) => a.maxPool2d(2), 'F.max_pool2d(a, 2)');

const indexed = [
  ['maxPool1dWithIndices', [2, 6], 'max_pool1d', '3, 2, 1'],
  ['maxPool2dWithIndices', [1, 2, 4, 5], 'max_pool2d', '3, 2, 1'],
  ['maxPool3dWithIndices', [1, 3, 4, 4], 'max_pool3d', '3, 2, 1'],
] as const;
for (const [op, shape, torch, args] of indexed) {
  const run = (a: tx.Tensor) => {
    const { values, indices } = tx[op](a, 3, { stride: 2, padding: 1 });
    return [values, indices];
  };
  row(op, [input(shape, 'distinct')], run, `F.${torch}(a, ${args}, return_indices=True)`);
  const plain = op.replace('WithIndices', '') as 'maxPool2d';
  const named = (a: tx.Tensor) => [...tx[plain](a, 3, { stride: 2, padding: 1, returnIndices: true })];
  const placed = (a: tx.Tensor) => [...tx[plain](a, 3, 2, 1, 1, true, true)];
  row(plain, [input(shape, 'distinct')], named, `F.${torch}(a, ${args}, return_indices=True)`);
  row(plain, [input(shape, 'distinct')], placed, `F.${torch}(a, ${args}, 1, True, True)`);
}

type LpName = 'lpPool1d' | 'lpPool2d' | 'lpPool3d';
const norms: readonly [op: LpName, x: Shape, p: number, size: number | Shape, options?: Options][] = [
  ['lpPool1d', [2, 2, 5], 2, 2],
  ['lpPool1d', [2, 5], 3, 2, { stride: 1 }],
  ['lpPool2d', [1, 1, 5, 4], 2, [2, 3], { stride: 2, ceilMode: true }],
  ['lpPool3d', [1, 1, 2, 3, 3], 2, 2, { stride: 1 }],
];
for (const [op, x, p, size, options = {}] of norms) {
  row(
    op,
    [input(x, 'positive')],
    (a) => tx[op](a, p, size, options),
    `F.${op.replace('P', '_p')}(a, ${p}, ${value(size)}${keywords(options)})`,
  );
}

type AdaptiveName = `adaptive${'Max' | 'Avg'}Pool${1 | 2 | 3}d`;
const adaptive: readonly [op: AdaptiveName, x: Shape, size: number | readonly (number | null)[]][] = [
  ['adaptiveAvgPool1d', [2, 2, 5], 3],
  ['adaptiveAvgPool1d', [2, 6], 2],
  ['adaptiveAvgPool1d', [1, 2, 2], 5],
  ['adaptiveAvgPool2d', [1, 2, 4, 4], 1],
  ['adaptiveAvgPool2d', [1, 1, 5, 7], [2, 3]],
  ['adaptiveAvgPool2d', [2, 4, 3], [null, 2]],
  ['adaptiveAvgPool3d', [1, 1, 3, 2, 4], [2, 1, 4]],
  ['adaptiveMaxPool1d', [2, 2, 5], 3],
  ['adaptiveMaxPool1d', [2, 6], 2],
  ['adaptiveMaxPool2d', [1, 2, 4, 4], 1],
  ['adaptiveMaxPool2d', [1, 1, 5, 7], [2, 3]],
  ['adaptiveMaxPool2d', [2, 4, 3], [null, 2]],
  ['adaptiveMaxPool3d', [1, 1, 3, 2, 4], [2, 1, 4]],
];
for (const [op, x, size] of adaptive) {
  const text = typeof size === 'number' ? String(size) : `(${size.map((s) => s ?? 'None').join(', ')})`;
  row(
    op,
    [input(x, op.includes('Max') ? 'distinct' : 'normal')],
    (a) => tx[op](a, size),
    `F.${snake(op).replace('pool', 'pool')}(a, ${text})`,
  );
}
for (const n of [1, 2, 3] as const) {
  const op = `adaptiveMaxPool${n}dWithIndices` as const;
  const run = (a: tx.Tensor) => {
    const { values, indices } = tx[op](a, 2);
    return [values, indices];
  };
  row(
    op,
    [input([1, 1, 5, 3, 4].slice(0, n + 2), 'distinct')],
    run,
    `F.adaptive_max_pool${n}d(a, 2, return_indices=True)`,
  );
  const plain = `adaptiveMaxPool${n}d` as const;
  row(
    plain,
    [input([1, 1, 5, 3, 4].slice(0, n + 2), 'distinct')],
    (a) => [...tx[plain](a, 3, { returnIndices: true })],
    `F.adaptive_max_pool${n}d(a, 3, return_indices=True)`,
  );
}

for (const n of [2, 3] as const) {
  const op = `fractionalMaxPool${n}d` as const;
  const torch = `F.fractional_max_pool${n}d`;
  const inputs = [input([2, 2, 7, 6, 5].slice(0, n + 2), 'distinct'), input([2, 2, n], 'unit')];
  row(
    op,
    inputs,
    (a, b) => tx.nn.functional[op](a, 2, { outputSize: 3, randomSamples: b.abs().clamp(0, 0.99).detach() }),
    `${torch}(a, 2, 3, _random_samples=b.abs().clamp(0, 0.99).detach())`,
    { smooth: false },
  );
  row(
    op,
    inputs,
    (a, b) => [...tx[op](a, 2, null, 0.5, true, b.abs().clamp(0, 0.99).detach())],
    `${torch}(a, 2, None, (${'0.5, '.repeat(n)}), True, _random_samples=b.abs().clamp(0, 0.99).detach())`,
    { grad: false },
  );
}

// ---- interpolation

type Resize = Exclude<NonNullable<Parameters<typeof tx.interpolate>[1]>, number | Shape>;
const images: readonly [x: Shape, options: Resize][] = [
  [[1, 2, 4], { size: 6 }],
  [[1, 1, 5], { scaleFactor: 2 }],
  [[1, 1, 5, 3], { size: [3, 7] }],
  [[1, 1, 3, 4], { scaleFactor: [1.5, 0.5] }],
  [[1, 1, 2, 2, 3], { size: [3, 2, 4] }],
  [[1, 1, 7], { scaleFactor: 0.3 }],
  [[1, 1, 5], { size: 8, mode: 'nearest-exact' }],
  [[1, 1, 5, 4], { size: [2, 6], mode: 'nearest-exact' }],
  [[1, 2, 4], { size: 7, mode: 'linear' }],
  [[1, 1, 4], { size: 7, mode: 'linear', alignCorners: true }],
  [[1, 1, 5], { scaleFactor: 1.7, mode: 'linear' }],
  [[1, 1, 5], { scaleFactor: 1.7, mode: 'linear', recomputeScaleFactor: true }],
  [[1, 2, 3, 4], { size: [5, 6], mode: 'bilinear' }],
  [[1, 1, 5, 6], { size: [3, 2], mode: 'bilinear' }],
  [[1, 1, 3, 4], { size: [5, 1], mode: 'bilinear', alignCorners: true }],
  [[1, 1, 3, 3], { scaleFactor: 2, mode: 'bilinear' }],
  [[1, 1, 4, 3], { size: [6, 5], mode: 'bicubic' }],
  [[1, 1, 5, 5], { size: [3, 4], mode: 'bicubic', alignCorners: true }],
  [[1, 1, 4, 4], { scaleFactor: 0.6, mode: 'bicubic' }],
  [[1, 1, 2, 3, 2], { size: [3, 4, 3], mode: 'trilinear' }],
  [[1, 1, 2, 3, 2], { scaleFactor: 1.5, mode: 'trilinear', alignCorners: true }],
];
for (const [x, options] of images) {
  row('interpolate', [input(x)], (a) => a.interpolate(options), `F.interpolate(a${keywords(options as Options)})`);
}
row(
  'interpolate',
  [input([1, 1, 3, 3], 'normal', 'bf16')],
  (a) => a.interpolate({ size: 5, mode: 'bilinear' }),
  "F.interpolate(a, size=(5, 5), mode='bilinear')",
);
row('interpolate', [odd], (a) => a.interpolate({ scaleFactor: 2 }), 'F.interpolate(a, scale_factor=2)', {
  smooth: false,
});

row('pixelShuffle', [input([1, 8, 2, 1])], (a) => a.pixelShuffle(2), 'F.pixel_shuffle(a, 2)');
row('pixelShuffle', [input([4, 1, 2])], (a) => a.pixelShuffle(2), 'F.pixel_shuffle(a, 2)');
row('pixelUnshuffle', [input([2, 1, 4, 2])], (a) => a.pixelUnshuffle(2), 'F.pixel_unshuffle(a, 2)');

const columns: readonly [x: Shape, size: number | Shape, options?: Options][] = [
  [[1, 2, 3, 4], 2],
  [[2, 4, 4], [2, 3], { stride: 2, padding: [0, 1] }],
  [[1, 1, 5, 4], [2, 2], { dilation: [2, 1], padding: 1, stride: [1, 2] }],
];
for (const [x, size, options = {}] of columns) {
  row('im2col', [input(x)], (a) => a.im2col(size, options), `F.unfold(a, ${value(size)}${keywords(options)})`);
}
row('col2im', [input([1, 8, 6])], (a) => a.col2im([3, 4], 2), 'F.fold(a, (3, 4), 2)');
row(
  'col2im',
  [input([4, 6])],
  (a) => a.col2im([4, 3], 2, { stride: 2, padding: 1 }),
  'F.fold(a, (4, 3), 2, stride=2, padding=1)',
);
row(
  'col2im',
  [input([1, 4, 6])],
  (a) => a.col2im([4, 4], 2, { dilation: [2, 1] }),
  'F.fold(a, (4, 4), 2, dilation=(2, 1))',
);

// ---- numbers that were once wrong

row('lpPool1d', [input([1, 1, 4], [0, 0, 1, 2])], (a) => a.lpPool1d(2, 2), 'F.lp_pool1d(a, 2.0, 2)', {
  smooth: false,
});

// ---- grids
for (const alignCorners of [false, true]) {
  const torch = `align_corners=${alignCorners ? 'True' : 'False'}`;
  row(
    'affineGrid',
    [input([2, 2, 3])],
    (a) => tx.affineGrid(a, [2, 1, 3, 4], { alignCorners }),
    `F.affine_grid(a, (2, 1, 3, 4), ${torch})`,
  );
  for (const paddingMode of ['zeros', 'border', 'reflection'] as const)
    for (const mode of ['bilinear', 'nearest', 'bicubic'] as const)
      row(
        'gridSample',
        [input([2, 2, 3, 4]), input([2, 2, 3, 2], 'normal')],
        (a, b) => tx.gridSample(a, b, { mode, paddingMode, alignCorners }),
        `F.grid_sample(a, b, '${mode}', '${paddingMode}', ${torch})`,
        { smooth: mode === 'bilinear' && paddingMode === 'border', tolerance: 1e-4 },
      );
}
row(
  'affineGrid',
  [input([1, 3, 4])],
  (a) => tx.affineGrid(a, [1, 1, 2, 3, 2]),
  'F.affine_grid(a, (1, 1, 2, 3, 2), align_corners=False)',
);
row(
  'gridSample',
  [input([1, 2, 2, 3, 3]), input([1, 2, 2, 1, 3], 'unit')],
  (a, b) => tx.gridSample(a, b),
  'F.grid_sample(a, b, align_corners=False)',
  { smooth: false },
);

// ---- bags of embeddings
const weight = input([6, 3]);
const inBags: Input = { shape: [2, 3], dtype: 'i64', fill: [0, 4, 2, 5, 5, 1] };
const ids: Input = { shape: [6], dtype: 'i64', fill: [0, 4, 2, 5, 5, 1] };
const offsets: Input = { shape: [3], dtype: 'i64', fill: [0, 2, 2] };
for (const mode of ['sum', 'mean', 'max'] as const) {
  row(
    'embeddingBag',
    [inBags, weight],
    (a, b) => tx.embeddingBag(a, b, { mode }),
    `F.embedding_bag(a, b, mode='${mode}')`,
    { smooth: mode !== 'max', grad: mode !== 'max' },
  );
  row(
    'embeddingBag',
    [ids, weight, offsets],
    (a, b, c) => tx.embeddingBag(a, b, c, { mode }),
    `F.embedding_bag(a, b, c, mode='${mode}')`,
    { smooth: false, grad: mode !== 'max' },
  );
  row(
    'embeddingBag',
    [ids, weight, offsets],
    (a, b, c) => tx.embeddingBag(a, b, { mode, offsets: c, paddingIdx: 5 }),
    `F.embedding_bag(a, b, c, mode='${mode}', padding_idx=5)`,
    { smooth: false, grad: mode !== 'max' },
  );
}
row(
  'embeddingBag',
  [inBags, weight, input([2, 3])],
  (a, b, c) => tx.embeddingBag(a, b, { mode: 'sum', perSampleWeights: c }),
  "F.embedding_bag(a, b, mode='sum', per_sample_weights=c)",
);
row(
  'embeddingBag',
  [ids, weight, { shape: [3], dtype: 'i64', fill: [0, 2, 6] }],
  (a, b, c) => tx.embeddingBag(a, b, { offsets: c, includeLastOffset: true }),
  'F.embedding_bag(a, b, c, include_last_offset=True)',
  { smooth: false },
);
row(
  'embeddingBag',
  [inBags, input([6, 3], 'distinct')],
  (a, b) => tx.embeddingBag(a, b, { mode: 'max' }),
  "F.embedding_bag(a, b, mode='max')",
  { smooth: false },
);
