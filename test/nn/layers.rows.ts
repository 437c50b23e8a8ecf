// The table of layers: each as it is made here and in torch. scripts/golden/nn.py writes the answers, in f64: what differs is
// no rounding.
import * as tx from 'tsxla';
import { type Input, input, ints } from '../ops/row.js';

const { nn } = tx;
type Tensors = tx.Tensor | null | readonly Tensors[];
/** What all layers are called through here. */
type Call = (module: never, ...xs: tx.Tensor[]) => Tensors;

export interface LayerRow {
  readonly name: string;
  readonly make: () => tx.nn.Module;
  /** The same in Python. */
  readonly torch: string;
  readonly inputs: readonly Input[];
  readonly run: Call;
  /** The same in Python, with the module m and the inputs a, b, c, ... at hand. */
  readonly call: string;
  /** If not f64's own. */
  readonly tolerance?: number;
}
export const rows: LayerRow[] = [];

/** These divide by numbers of f32 in torch, whatever the dtype. */
const COARSE = /^(Hardsigmoid|CELU)/;
const forward: Call = (module: tx.nn.Module, ...xs) => (module.forward as (...xs: tx.Tensor[]) => Tensors)(...xs);
type Shape = readonly number[];
const isShape = (x: Input | Shape): x is Shape => Array.isArray(x);
function row(
  torch: string,
  make: () => tx.nn.Module,
  inputs: readonly (Input | Shape)[],
  run: Call = forward,
  call = `m(${'abcdefgh'.slice(0, inputs.length).split('').join(', ')})`,
): void {
  const of = inputs
    .map((i) => (isShape(i) ? input(i) : i))
    .map((i) => (i.dtype === 'f32' ? { ...i, dtype: 'f64' as const } : i));
  const types = of.map((i) => `${i.dtype}[${i.shape}]`).join(', ');
  const name = `nn.${torch} of ${types}${call.includes('=') || call.includes('(a, (') ? ` by ${call}` : ''}`;
  rows.push({
    name,
    make,
    torch: `nn.${torch}`,
    inputs: of,
    run,
    call,
    ...(COARSE.test(torch) && { tolerance: 1e-7 }),
  });
}
/** Layers without weights, on one input. */
const plain = (inputs: readonly (Input | Shape)[], ...layers: [torch: string, make: () => tx.nn.Module][]) => {
  for (const [torch, make] of layers) row(torch, make, inputs);
};

// ---- linear

row('Linear(3, 2)', () => new nn.Linear(3, 2), [[4, 3]]);
row('Linear(3, 2, bias=False)', () => new nn.Linear(3, 2, { bias: false }), [[2, 2, 3]]);
row('Bilinear(3, 2, 4)', () => new nn.Bilinear(3, 2, 4), [
  [5, 3],
  [5, 2],
]);
row('Bilinear(3, 2, 4, bias=False)', () => new nn.Bilinear(3, 2, 4, { bias: false }), [
  [2, 2, 3],
  [2, 2, 2],
]);
row('Embedding(5, 3)', () => new nn.Embedding(5, 3), [ints([2, 4], 0, 5)]);
row('Embedding(5, 3, padding_idx=1)', () => new nn.Embedding(5, 3, { paddingIdx: 1 }), [ints([2, 4], 0, 5)]);
for (const mode of ['sum', 'mean', 'max'] as const) {
  row(`EmbeddingBag(5, 3, mode='${mode}')`, () => new nn.EmbeddingBag(5, 3, { mode }), [ints([4, 3], 0, 5)]);
}
row(
  "EmbeddingBag(5, 3, mode='mean', padding_idx=1)",
  () => new nn.EmbeddingBag(5, 3, { mode: 'mean', paddingIdx: 1 }),
  [ints([4, 3], 0, 5)],
);
row(
  "EmbeddingBag(5, 3, mode='sum')",
  () => new nn.EmbeddingBag(5, 3, { mode: 'sum' }),
  [ints([4, 3], 0, 5), input([4, 3])],
  (m: tx.nn.EmbeddingBag, a, perSampleWeights) => m.forward(a, { perSampleWeights }),
  'm(a, per_sample_weights=b)',
);
row(
  "EmbeddingBag(5, 3, mode='mean')",
  () => new nn.EmbeddingBag(5, 3, { mode: 'mean' }),
  [ints([7], 0, 5), input([3], [0, 2, 2], 'i64')],
  (m: tx.nn.EmbeddingBag, a, offsets) => m.forward(a, { offsets }),
  'm(a, offsets=b)',
);

// ---- convolutions

row('Conv1d(2, 4, 3)', () => new nn.Conv1d(2, 4, 3), [[2, 2, 6]]);
row(
  "Conv1d(2, 4, 3, padding='same', dilation=2, bias=False)",
  () => new nn.Conv1d(2, 4, 3, { padding: 'same', dilation: 2, bias: false }),
  [[2, 6]],
);
row('Conv2d(4, 2, (3, 2), 2, (1, 0), 1, 2)', () => new nn.Conv2d(4, 2, [3, 2], 2, [1, 0], 1, 2), [[2, 4, 5, 4]]);
for (const paddingMode of ['reflect', 'replicate', 'circular'] as const) {
  row(
    `Conv2d(1, 2, 3, padding=(1, 2), padding_mode='${paddingMode}')`,
    () => new nn.Conv2d(1, 2, 3, { padding: [1, 2], paddingMode }),
    [[1, 1, 4, 4]],
  );
}
row(
  "Conv2d(1, 2, (2, 3), padding='same', padding_mode='reflect')",
  () => new nn.Conv2d(1, 2, [2, 3], { padding: 'same', paddingMode: 'reflect' }),
  [[1, 1, 4, 4]],
);
row('Conv3d(1, 2, 2)', () => new nn.Conv3d(1, 2, 2), [[1, 1, 3, 3, 2]]);
row('ConvTranspose1d(2, 3, 3, stride=2)', () => new nn.ConvTranspose1d(2, 3, 3, { stride: 2 }), [[2, 2, 4]]);
row('ConvTranspose2d(2, 4, 3, 2, 1, 1, 2)', () => new nn.ConvTranspose2d(2, 4, 3, 2, 1, 1, 2), [[1, 2, 3, 3]]);
row(
  'ConvTranspose2d(2, 1, 3, stride=2, bias=False)',
  () => new nn.ConvTranspose2d(2, 1, 3, { stride: 2, bias: false }),
  [[1, 2, 2, 3]],
  (m: tx.nn.ConvTranspose2d, a) => m.forward(a, [6, 7]),
  'm(a, (6, 7))',
);
row('ConvTranspose3d(1, 2, 2, dilation=2)', () => new nn.ConvTranspose3d(1, 2, 2, { dilation: 2 }), [[1, 1, 2, 2, 2]]);

// ---- norms

row('LayerNorm(4)', () => new nn.LayerNorm(4), [[3, 4]]);
row('LayerNorm((2, 3), eps=0.1, bias=False)', () => new nn.LayerNorm([2, 3], { eps: 0.1, bias: false }), [[2, 2, 3]]);
row('LayerNorm(4, elementwise_affine=False)', () => new nn.LayerNorm(4, { elementwiseAffine: false }), [[3, 4]]);
row('RMSNorm(4)', () => new nn.RMSNorm(4), [[3, 4]]);
row('RMSNorm((2, 3), eps=0.1)', () => new nn.RMSNorm([2, 3], { eps: 0.1 }), [[2, 2, 3]]);
row('GroupNorm(2, 4)', () => new nn.GroupNorm(2, 4), [[2, 4, 3]]);
row('GroupNorm(1, 4, eps=0.1, affine=False)', () => new nn.GroupNorm(1, 4, { eps: 0.1, affine: false }), [
  [2, 4, 2, 2],
]);
row('LocalResponseNorm(2, alpha=0.5)', () => new nn.LocalResponseNorm(2, { alpha: 0.5 }), [[2, 3, 2]]);
row('BatchNorm1d(3)', () => new nn.BatchNorm1d(3), [[4, 3]]);
row('BatchNorm1d(3, eps=0.1, momentum=None)', () => new nn.BatchNorm1d(3, { eps: 0.1, momentum: null }), [[2, 3, 4]]);
row('BatchNorm2d(2, momentum=0.3)', () => new nn.BatchNorm2d(2, { momentum: 0.3 }), [[2, 2, 3, 2]]);
row('BatchNorm2d(2, affine=False)', () => new nn.BatchNorm2d(2, { affine: false }), [[2, 2, 3, 2]]);
row('BatchNorm3d(2, track_running_stats=False)', () => new nn.BatchNorm3d(2, { trackRunningStats: false }), [
  [2, 2, 2, 1, 2],
]);
row('InstanceNorm1d(2)', () => new nn.InstanceNorm1d(2), [[3, 2, 4]]);
row(
  'InstanceNorm1d(2, affine=True, track_running_stats=True)',
  () => new nn.InstanceNorm1d(2, { affine: true, trackRunningStats: true }),
  [[2, 4]],
);
row(
  'InstanceNorm2d(2, affine=True, track_running_stats=True, momentum=0.3)',
  () => new nn.InstanceNorm2d(2, { affine: true, trackRunningStats: true, momentum: 0.3 }),
  [[2, 2, 2, 3]],
);
row('InstanceNorm3d(2, affine=True)', () => new nn.InstanceNorm3d(2, { affine: true }), [[2, 2, 2, 1, 2]]);

// ---- activations

plain(
  [[3, 4]],
  ['ReLU()', () => new nn.ReLU()],
  ['ReLU6()', () => new nn.ReLU6()],
  ['Sigmoid()', () => new nn.Sigmoid()],
  ['Tanh()', () => new nn.Tanh()],
  ['SiLU()', () => new nn.SiLU()],
  ['Mish()', () => new nn.Mish()],
  ['SELU()', () => new nn.SELU()],
  ['Hardswish()', () => new nn.Hardswish()],
  ['Hardsigmoid()', () => new nn.Hardsigmoid()],
  ['Softsign()', () => new nn.Softsign()],
  ['Tanhshrink()', () => new nn.Tanhshrink()],
  ['LogSigmoid()', () => new nn.LogSigmoid()],
  ['GELU()', () => new nn.GELU()],
  ["GELU(approximate='tanh')", () => new nn.GELU({ approximate: 'tanh' })],
  ['ELU(0.7)', () => new nn.ELU(0.7)],
  ['CELU(0.7)', () => new nn.CELU(0.7)],
  ['LeakyReLU(0.2)', () => new nn.LeakyReLU({ negativeSlope: 0.2 })],
  ['Hardtanh(-0.5, 0.7)', () => new nn.Hardtanh(-0.5, 0.7)],
  ['Hardshrink(0.3)', () => new nn.Hardshrink(0.3)],
  ['Softshrink(0.3)', () => new nn.Softshrink(0.3)],
  ['Softplus(2, 1)', () => new nn.Softplus(2, 1)],
  ['GLU()', () => new nn.GLU()],
  ['Softmax(dim=1)', () => new nn.Softmax({ dim: 1 })],
  ['LogSoftmax(0)', () => new nn.LogSoftmax(0)],
  ['Softmin(1)', () => new nn.Softmin(1)],
  ['Threshold(0.2, 3)', () => new nn.Threshold(0.2, 3)],
  ['RReLU(0.3, 0.3)', () => new nn.RReLU(0.3, 0.3)],
  ['PReLU()', () => new nn.PReLU()],
  ['PReLU(4)', () => new nn.PReLU(4)],
  ['Dropout(0)', () => new nn.Dropout(0)],
  ['AlphaDropout(0)', () => new nn.AlphaDropout(0)],
  ['Identity()', () => new nn.Identity()],
);
row('Softmax2d()', () => new nn.Softmax2d(), [[1, 3, 2, 2]]);
row('RReLU(0.1, 0.5)', () => new nn.RReLU(0.1, 0.5), [input([4], 'positive')]);

// ---- pooling: no two values alike, so that it is clear which is the greatest

const image = input([2, 2, 6, 5], 'distinct');
const line = input([2, 2, 7], 'distinct');
const volume = input([1, 2, 4, 3, 4], 'distinct');
plain(
  [line],
  ['MaxPool1d(2)', () => new nn.MaxPool1d(2)],
  ['AvgPool1d(3, 2, 1)', () => new nn.AvgPool1d(3, 2, 1)],
  ['AdaptiveAvgPool1d(3)', () => new nn.AdaptiveAvgPool1d(3)],
  ['AdaptiveMaxPool1d(3)', () => new nn.AdaptiveMaxPool1d(3)],
);
plain(
  [image],
  ['MaxPool2d(3, 2, 1)', () => new nn.MaxPool2d(3, 2, 1)],
  [
    'MaxPool2d((2, 3), stride=1, dilation=(2, 1), ceil_mode=True)',
    () => new nn.MaxPool2d([2, 3], { stride: 1, dilation: [2, 1], ceilMode: true }),
  ],
  ['AvgPool2d(2, 2, 1, count_include_pad=False)', () => new nn.AvgPool2d(2, 2, 1, { countIncludePad: false })],
  ['AvgPool2d(2, divisor_override=3)', () => new nn.AvgPool2d(2, { divisorOverride: 3 })],
  ['AdaptiveAvgPool2d((3, None))', () => new nn.AdaptiveAvgPool2d([3, null])],
  ['AdaptiveMaxPool2d((2, 3))', () => new nn.AdaptiveMaxPool2d([2, 3])],
);
plain(
  [volume],
  ['MaxPool3d(2)', () => new nn.MaxPool3d(2)],
  ['AvgPool3d(2, 1)', () => new nn.AvgPool3d(2, 1)],
  ['AdaptiveAvgPool3d(2)', () => new nn.AdaptiveAvgPool3d(2)],
  ['AdaptiveMaxPool3d(2)', () => new nn.AdaptiveMaxPool3d(2)],
);
row('LPPool1d(2, 3, stride=2)', () => new nn.LPPool1d(2, 3, { stride: 2 }), [input([2, 2, 7], 'positive')]);
row('LPPool2d(2, (2, 3), 1)', () => new nn.LPPool2d(2, [2, 3], 1), [input([1, 2, 4, 4], 'positive')]);
row('LPPool3d(2, 2)', () => new nn.LPPool3d(2, 2), [input([1, 1, 2, 3, 4], 'positive')]);

// ---- moving values

plain(
  [[2, 3, 2, 2]],
  ['Flatten()', () => new nn.Flatten()],
  ['Flatten(0, 2)', () => new nn.Flatten(0, 2)],
  ['Unflatten(1, (3, 1))', () => new nn.Unflatten(1, [3, 1])],
  ['Dropout2d(0)', () => new nn.Dropout2d(0)],
  ['FeatureAlphaDropout(0)', () => new nn.FeatureAlphaDropout(0)],
  ['Upsample(scale_factor=2)', () => new nn.Upsample({ scaleFactor: 2 })],
  [
    "Upsample(size=(3, 4), mode='bilinear', align_corners=True)",
    () => new nn.Upsample({ size: [3, 4], mode: 'bilinear', alignCorners: true }),
  ],
  ['Unfold(2, padding=1)', () => new nn.Unfold(2, { padding: 1 })],
  ['ZeroPad2d(1)', () => new nn.ZeroPad2d(1)],
  ['ConstantPad2d((1, 0, 2, 0), 0.5)', () => new nn.ConstantPad2d([1, 0, 2, 0], 0.5)],
  ['ReflectionPad2d(1)', () => new nn.ReflectionPad2d(1)],
  ['ReplicationPad2d((1, 2, 0, 1))', () => new nn.ReplicationPad2d([1, 2, 0, 1])],
  ['CircularPad2d(1)', () => new nn.CircularPad2d(1)],
);
row('PixelShuffle(2)', () => new nn.PixelShuffle(2), [[1, 4, 2, 3]]);
row('PixelUnshuffle(2)', () => new nn.PixelUnshuffle(2), [[1, 1, 4, 2]]);
row('Fold((3, 4), 2)', () => new nn.Fold([3, 4], 2), [[1, 8, 6]]);
plain(
  [[2, 2, 4]],
  ['Dropout1d(0)', () => new nn.Dropout1d(0)],
  ['ZeroPad1d(1)', () => new nn.ZeroPad1d(1)],
  ['ConstantPad1d(1, 2)', () => new nn.ConstantPad1d(1, 2)],
  ['ReflectionPad1d(2)', () => new nn.ReflectionPad1d(2)],
  ['ReplicationPad1d((1, 0))', () => new nn.ReplicationPad1d([1, 0])],
  ['CircularPad1d(2)', () => new nn.CircularPad1d(2)],
);
plain(
  [[1, 1, 2, 3, 2]],
  ['Dropout3d(0)', () => new nn.Dropout3d(0)],
  ['ZeroPad3d(1)', () => new nn.ZeroPad3d(1)],
  ['ConstantPad3d(1, 2)', () => new nn.ConstantPad3d(1, 2)],
  ['ReflectionPad3d(1)', () => new nn.ReflectionPad3d(1)],
  ['ReplicationPad3d(1)', () => new nn.ReplicationPad3d(1)],
  ['CircularPad3d(1)', () => new nn.CircularPad3d(1)],
);

// ---- recurrent

row('RNN(3, 2)', () => new nn.RNN(3, 2), [[4, 2, 3]]);
row(
  "RNN(3, 2, nonlinearity='relu', num_layers=2, bias=False)",
  () => new nn.RNN(3, 2, { nonlinearity: 'relu', numLayers: 2, bias: false }),
  [[4, 3]],
);
row('LSTM(3, 2)', () => new nn.LSTM(3, 2), [[4, 2, 3]]);
row(
  'LSTM(3, 2, num_layers=2, bidirectional=True, batch_first=True)',
  () => new nn.LSTM(3, 2, { numLayers: 2, bidirectional: true, batchFirst: true }),
  [
    [2, 4, 3],
    [4, 2, 2],
    [4, 2, 2],
  ],
  (m: tx.nn.LSTM, a, b, c) => m.forward(a, [b, c]),
  'm(a, (b, c))',
);
row('LSTM(3, 4, proj_size=2, num_layers=2)', () => new nn.LSTM(3, 4, { projSize: 2, numLayers: 2 }), [[3, 2, 3]]);
row('LSTM(3, 2, bidirectional=True)', () => new nn.LSTM(3, 2, { bidirectional: true }), [[4, 3]]);
row('GRU(3, 2)', () => new nn.GRU(3, 2), [[4, 2, 3]]);
row(
  'GRU(3, 2, num_layers=2, bidirectional=True, bias=False)',
  () => new nn.GRU(3, 2, { numLayers: 2, bidirectional: true, bias: false }),
  [
    [4, 2, 3],
    [4, 2, 2],
  ],
);
row('RNNCell(3, 2)', () => new nn.RNNCell(3, 2), [
  [4, 3],
  [4, 2],
]);
row("RNNCell(3, 2, nonlinearity='relu')", () => new nn.RNNCell(3, 2, { nonlinearity: 'relu' }), [[3]]);
row('GRUCell(3, 2)', () => new nn.GRUCell(3, 2), [
  [4, 3],
  [4, 2],
]);
row('LSTMCell(3, 2)', () => new nn.LSTMCell(3, 2), [[4, 3]]);
row(
  'LSTMCell(3, 2, bias=False)',
  () => new nn.LSTMCell(3, 2, { bias: false }),
  [
    [4, 3],
    [4, 2],
    [4, 2],
  ],
  (m: tx.nn.LSTMCell, a, b, c) => m.forward(a, [b, c]),
  'm(a, (b, c))',
);

// ---- attention

type Attention = tx.nn.MultiheadAttention;
const attend = (...shapes: Shape[]): Shape[] => shapes;
row('MultiheadAttention(4, 2)', () => new nn.MultiheadAttention(4, 2), attend([3, 2, 4], [5, 2, 4], [5, 2, 4]));
row(
  'MultiheadAttention(4, 2, bias=False)',
  () => new nn.MultiheadAttention(4, 2, { bias: false }),
  attend([3, 4], [5, 4], [5, 4]),
);
row(
  'MultiheadAttention(4, 2, batch_first=True)',
  () => new nn.MultiheadAttention(4, 2, { batchFirst: true }),
  attend([2, 3, 4]),
  (m: Attention, a) => m.forward(a, a, a, { averageAttnWeights: false }),
  'm(a, a, a, average_attn_weights=False)',
);
row(
  'MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True, add_zero_attn=True)',
  () => new nn.MultiheadAttention(4, 2, { kdim: 3, vdim: 5, addBiasKv: true, addZeroAttn: true }),
  [input([3, 2, 4]), input([3, 2, 3]), input([3, 2, 5]), input([2, 3], [0, 0, 1, 0, 1, 0], 'bool')],
  (m: Attention, a, b, c, keyPaddingMask) => m.forward(a, b, c, { keyPaddingMask }),
  'm(a, b, c, key_padding_mask=d)',
);
for (const needWeights of [true, false]) {
  row(
    'MultiheadAttention(4, 2, batch_first=True)',
    () => new nn.MultiheadAttention(4, 2, { batchFirst: true }),
    [input([2, 3, 4]), input([2, 3], [0, 0, 1, 0, 0, 0], 'bool')],
    (m: Attention, a, keyPaddingMask) => {
      const attnMask = tx.ones([3, 3], { dtype: 'bool' }).triu(1);
      return m.forward(a, a, a, { keyPaddingMask, attnMask, needWeights });
    },
    `m(a, a, a, key_padding_mask=b, attn_mask=torch.ones(3, 3, dtype=torch.bool).triu(1), need_weights=${needWeights ? 'True' : 'False'})`,
  );
}
row(
  'MultiheadAttention(4, 2)',
  () => new nn.MultiheadAttention(4, 2),
  attend([3, 2, 4], [4, 3, 3]),
  (m: Attention, a, attnMask) => m.forward(a, a, a, { attnMask: attnMask.detach() }),
  'm(a, a, a, attn_mask=b.detach())',
);
row(
  'MultiheadAttention(4, 2, batch_first=True)',
  () => new nn.MultiheadAttention(4, 2, { batchFirst: true }),
  attend([2, 3, 4]),
  (m: Attention, a) => m.forward(a, a, a, { isCausal: true, needWeights: false }),
  'm(a, a, a, attn_mask=torch.ones(3, 3, dtype=torch.bool).triu(1), is_causal=True, need_weights=False)',
);

// ---- transformers

const small = { dimFeedforward: 6, dropout: 0 };
const smallInTorch = 'dim_feedforward=6, dropout=0';
row(`TransformerEncoderLayer(4, 2, ${smallInTorch})`, () => new nn.TransformerEncoderLayer(4, 2, small), [[3, 2, 4]]);
row(
  `TransformerEncoderLayer(4, 2, ${smallInTorch}, activation='gelu', norm_first=True, batch_first=True, bias=False, layer_norm_eps=0.1)`,
  () =>
    new nn.TransformerEncoderLayer(4, 2, {
      ...small,
      activation: 'gelu',
      normFirst: true,
      batchFirst: true,
      bias: false,
      layerNormEps: 0.1,
    }),
  [input([2, 3, 4]), input([2, 3], [0, 0, 1, 0, 0, 0], 'bool')],
  (m: tx.nn.TransformerEncoderLayer, a, srcKeyPaddingMask) => m.forward(a, { srcKeyPaddingMask }),
  'm(a, src_key_padding_mask=b)',
);
row(
  `TransformerEncoder(nn.TransformerEncoderLayer(4, 2, ${smallInTorch}, batch_first=True), 2, norm=nn.LayerNorm(4))`,
  () =>
    new nn.TransformerEncoder(() => new nn.TransformerEncoderLayer(4, 2, { ...small, batchFirst: true }), 2, {
      norm: new nn.LayerNorm(4),
    }),
  [[2, 3, 4]],
  (m: tx.nn.TransformerEncoder, a) => m.forward(a, { mask: tx.ones([3, 3], { dtype: 'bool' }).triu(1) }),
  'm(a, mask=torch.ones(3, 3, dtype=torch.bool).triu(1))',
);
row(
  `TransformerDecoderLayer(4, 2, ${smallInTorch})`,
  () => new nn.TransformerDecoderLayer(4, 2, small),
  [
    [3, 2, 4],
    [5, 2, 4],
  ],
  (m: tx.nn.TransformerDecoderLayer, a, b) => m.forward(a, b, { tgtIsCausal: true }),
  'm(a, b, tgt_mask=torch.ones(3, 3, dtype=torch.bool).triu(1))',
);
row(
  `TransformerDecoder(nn.TransformerDecoderLayer(4, 2, ${smallInTorch}, norm_first=True), 2)`,
  () => new nn.TransformerDecoder(() => new nn.TransformerDecoderLayer(4, 2, { ...small, normFirst: true }), 2),
  [input([3, 2, 4]), input([4, 2, 4]), input([2, 4], [0, 0, 0, 1, 0, 0, 0, 0], 'bool')],
  (m: tx.nn.TransformerDecoder, a, b, memoryKeyPaddingMask) => m.forward(a, b, { memoryKeyPaddingMask }),
  'm(a, b, memory_key_padding_mask=c)',
);

// ---- containers

row(
  'Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Sequential(nn.Linear(2, 2)))',
  () => new nn.Sequential(new nn.Linear(3, 2), new nn.Tanh(), new nn.Sequential(new nn.Linear(2, 2))),
  [[4, 3]],
);

// ---- losses

const pair: Shape[] = [
  [3, 4],
  [3, 4],
];
const probabilities = input([3, 4], [0.1, 0.3, 0.5, 0.9, 0.2, 0.4, 0.6, 0.8, 0.15, 0.35, 0.55, 0.75]);
const classes = ints([3], 0, 4);
const signs = (n: number) =>
  input(
    [n],
    Array.from({ length: n }, (_, i) => (i % 2 ? -1 : 1)),
    'i64',
  );
plain(
  pair,
  ['MSELoss()', () => new nn.MSELoss()],
  ["MSELoss(reduction='sum')", () => new nn.MSELoss({ reduction: 'sum' })],
  ['L1Loss()', () => new nn.L1Loss()],
  ['SmoothL1Loss(beta=0.5)', () => new nn.SmoothL1Loss({ beta: 0.5 })],
  ["HuberLoss(delta=0.5, reduction='none')", () => new nn.HuberLoss({ delta: 0.5, reduction: 'none' })],
  ['CosineSimilarity()', () => new nn.CosineSimilarity()],
  ['PairwiseDistance(3, keepdim=True)', () => new nn.PairwiseDistance(3, { keepdim: true })],
  [
    "KLDivLoss(reduction='batchmean', log_target=True)",
    () => new nn.KLDivLoss({ reduction: 'batchmean', logTarget: true }),
  ],
  ['PoissonNLLLoss()', () => new nn.PoissonNLLLoss()],
);
row('CrossEntropyLoss()', () => new nn.CrossEntropyLoss(), [[3, 4], classes]);
row(
  "CrossEntropyLoss(weight=torch.ones(4), label_smoothing=0.1, ignore_index=1, reduction='sum')",
  () => new nn.CrossEntropyLoss({ weight: tx.ones([4]), labelSmoothing: 0.1, ignoreIndex: 1, reduction: 'sum' }),
  [[3, 4], classes],
);
row('NLLLoss(weight=torch.ones(4))', () => new nn.NLLLoss(tx.ones([4])), [[3, 4], classes]);
row('BCELoss()', () => new nn.BCELoss(), [probabilities, probabilities]);
row('BCEWithLogitsLoss(pos_weight=torch.ones(4))', () => new nn.BCEWithLogitsLoss({ posWeight: tx.ones([4]) }), [
  [3, 4],
  probabilities,
]);
row('GaussianNLLLoss()', () => new nn.GaussianNLLLoss(), [[3, 4], [3, 4], input([3, 4], 'positive')]);
row('HingeEmbeddingLoss(0.5)', () => new nn.HingeEmbeddingLoss(0.5), [[4], signs(4)]);
row('SoftMarginLoss()', () => new nn.SoftMarginLoss(), [[4], signs(4)]);
row('MarginRankingLoss(0.5)', () => new nn.MarginRankingLoss(0.5), [[4], [4], signs(4)]);
row('CosineEmbeddingLoss(0.1)', () => new nn.CosineEmbeddingLoss(0.1), [[4, 3], [4, 3], signs(4)]);
row('TripletMarginLoss(0.5, swap=True)', () => new nn.TripletMarginLoss(0.5, { swap: true }), [...pair, [3, 4]]);
