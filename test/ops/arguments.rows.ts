// The ways to give arguments: options by place in torch's order, by name, or first some by place and then others by name.
import * as tx from 'tsxla';
import { type Input, input, ints, type RowOptions, Table } from './row.js';

export const table = new Table('arguments');
type Forms = readonly (readonly [run: (...xs: tx.Tensor[]) => tx.Tensor | readonly tx.Tensor[], torch: string])[];
/** Each form of one operation, of the same inputs. */
function forms(op: string, inputs: readonly Input[], all: Forms, options: RowOptions = {}): void {
  for (const [run, torch] of all) table.row(op, inputs, run, torch, { smooth: false, ...options });
}
const found = (f: { values: tx.Tensor; indices: tx.Tensor }) => [f.values, f.indices];
const distinct = input([3, 4], 'distinct');

// ---- reductions
for (const op of ['sum', 'mean', 'prod', 'nansum', 'amax', 'amin', 'logsumexp'] as const)
  forms(
    op,
    [distinct],
    [
      [(a) => a[op](0, true), `torch.${op}(a, 0, True)`],
      [(a) => a[op](-1, { keepdim: true }), `torch.${op}(a, -1, keepdim=True)`],
      [(a) => a[op]({ dim: 1, keepdim: true }), `torch.${op}(a, dim=1, keepdim=True)`],
    ],
  );
for (const op of ['max', 'min', 'median', 'nanmedian', 'mode'] as const)
  forms(
    op,
    [distinct],
    [
      [(a) => found(a[op](0)), `torch.${op}(a, 0)`],
      [(a) => found(a[op](1, true)), `torch.${op}(a, 1, True)`],
      [(a) => found(a[op]({ dim: 0, keepdim: true })), `torch.${op}(a, dim=0, keepdim=True)`],
    ],
  );
for (const op of ['argmax', 'argmin'] as const)
  forms(op, [distinct], [[(a) => a[op](1, true), `torch.${op}(a, 1, True)`]]);
for (const op of ['var', 'std'] as const)
  forms(
    op,
    [distinct],
    [[(a) => a[op](0, { correction: 0, keepdim: true }), `torch.${op}(a, 0, correction=0, keepdim=True)`]],
  );
forms(
  'mean',
  [ints([2, 3])],
  [[(a) => a.mean([0, 1], true, { dtype: 'f64' }), 'torch.mean(a, [0, 1], True, dtype=torch.float64)']],
);
for (const op of ['any', 'all'] as const)
  forms(op, [ints([2, 3], 0, 2)], [[(a) => a[op](0, true), `torch.${op}(a, 0, True)`]]);
for (const op of ['cumsum', 'cumprod', 'logcumsumexp'] as const)
  forms(op, [distinct], [[(a) => a[op]({ dim: 0 }), `torch.${op}(a, dim=0)`]]);
for (const op of ['cummax', 'cummin'] as const)
  forms(op, [distinct], [[(a) => found(a[op]({ dim: 0 })), `torch.${op}(a, dim=0)`]]);
forms(
  'norm',
  [distinct],
  [
    [(a) => a.norm(1), 'torch.norm(a, 1)'],
    [(a) => a.norm({ p: 1 }), 'torch.norm(a, p=1)'],
    [(a) => a.norm(3, 0, true), 'torch.norm(a, 3, 0, True)'],
    [(a) => a.norm('fro', { dim: 1 }), 'torch.norm(a, "fro", dim=1)'],
  ],
);
forms(
  'vectorNorm',
  [distinct],
  [
    [(a) => a.vectorNorm({ p: 1 }), 'torch.linalg.vector_norm(a, 1)'],
    [(a) => a.vectorNorm(3, 1, true), 'torch.linalg.vector_norm(a, 3, 1, True)'],
  ],
);
forms('quantile', [distinct], [[(a) => a.quantile(0.3, 1, true), 'torch.quantile(a, 0.3, 1, True)']]);
forms(
  'diff',
  [distinct],
  [
    [(a) => a.diff(2), 'torch.diff(a, 2)'],
    [(a) => a.diff(1, 0), 'torch.diff(a, 1, 0)'],
  ],
);
forms('trapezoid', [distinct, input([4])], [[(a, b) => a.trapezoid(b), 'torch.trapezoid(a, b)']]);
forms('histc', [input([9])], [[(a) => a.histc(4, -1, 1), 'torch.histc(a, 4, -1, 1)']], { grad: false });
forms('bincount', [ints([6], 0, 4), input([6])], [[(a, b) => a.bincount(b, 4), 'torch.bincount(a, b, 4)']], {
  grad: false,
});

// ---- sorting
forms(
  'sort',
  [distinct],
  [
    [(a) => found(a.sort(0)), 'torch.sort(a, 0)'],
    [(a) => found(a.sort(0, true)), 'torch.sort(a, 0, True)'],
    [(a) => found(a.sort(0, { descending: true })), 'torch.sort(a, 0, descending=True)'],
  ],
);
forms('argsort', [distinct], [[(a) => a.argsort(0, true), 'torch.argsort(a, 0, True)']]);
forms(
  'topk',
  [distinct],
  [
    [(a) => found(a.topk(2, 0)), 'torch.topk(a, 2, 0)'],
    [(a) => found(a.topk(2, 0, false)), 'torch.topk(a, 2, 0, False)'],
  ],
);
forms('kthvalue', [distinct], [[(a) => found(a.kthvalue(2, 0, true)), 'torch.kthvalue(a, 2, 0, True)']]);

// ---- shapes and parts
const cube = input([1, 3, 4]);
forms(
  'flatten',
  [cube],
  [
    [(a) => a.flatten(1), 'torch.flatten(a, 1)'],
    [(a) => a.flatten({ startDim: 1 }), 'torch.flatten(a, start_dim=1)'],
    [(a) => a.flatten(0, { endDim: 1 }), 'torch.flatten(a, 0, end_dim=1)'],
  ],
);
forms(
  'squeeze',
  [cube],
  [
    [(a) => a.squeeze(0), 'torch.squeeze(a, 0)'],
    [(a) => a.squeeze({ dim: 0 }), 'torch.squeeze(a, dim=0)'],
    [(a) => a.squeeze([0, 1]), 'torch.squeeze(a, (0, 1))'],
  ],
);
forms('unsqueeze', [cube], [[(a) => a.unsqueeze({ dim: -1 }), 'torch.unsqueeze(a, dim=-1)']]);
forms(
  'rot90',
  [distinct],
  [
    [(a) => a.rot90(3, [1, 0]), 'torch.rot90(a, 3, [1, 0])'],
    [(a) => a.rot90({ dims: [1, 0] }), 'torch.rot90(a, dims=[1, 0])'],
  ],
);
forms('repeatInterleave', [distinct], [[(a) => a.repeatInterleave(2, 0), 'torch.repeat_interleave(a, 2, 0)']]);
forms(
  'pad',
  [distinct],
  [
    [(a) => a.pad([1, 1], 'reflect'), 'F.pad(a, (1, 1), "reflect")'],
    [(a) => a.pad([1, 1], 'constant', 2), 'F.pad(a, (1, 1), "constant", 2)'],
  ],
);
forms(
  'diagonal',
  [cube],
  [
    [(a) => a.diagonal(1), 'torch.diagonal(a, 1)'],
    [(a) => a.diagonal(-1, 1, 2), 'torch.diagonal(a, -1, 1, 2)'],
  ],
);
forms('diagEmbed', [distinct], [[(a) => a.diagEmbed(1), 'torch.diag_embed(a, 1)']]);
for (const op of ['diag', 'tril', 'triu'] as const)
  forms(
    op,
    [distinct],
    [
      [(a) => a[op](1), `torch.${op}(a, 1)`],
      [(a) => a[op]({ diagonal: -1 }), `torch.${op}(a, diagonal=-1)`],
    ],
  );

// ---- numbers and activations
forms(
  'clamp',
  [distinct],
  [
    [(a) => a.clamp(-1, 1), 'torch.clamp(a, -1, 1)'],
    [(a) => a.clamp(-1, { max: 1 }), 'torch.clamp(a, -1, max=1)'],
  ],
);
forms('nanToNum', [input([3], ['nan', 'inf', '-inf'])], [[(a) => a.nanToNum(1, 2, 3), 'torch.nan_to_num(a, 1, 2, 3)']]);
forms(
  'isclose',
  [input([3], [1, 'nan', 3]), input([3], [1.2, 'nan', 4])],
  [[(a, b) => a.isclose(b, 0, 0.5, true), 'torch.isclose(a, b, 0, 0.5, True)']],
);
forms('logit', [input([3], 'unit')], [[(a) => a.logit(0.1), 'torch.logit(a, 0.1)']]);
forms('leakyRelu', [distinct], [[(a) => a.leakyRelu(0.5), 'F.leaky_relu(a, 0.5)']]);
forms('hardtanh', [distinct], [[(a) => a.hardtanh(-0.5, 0.5), 'F.hardtanh(a, -0.5, 0.5)']]);
forms('elu', [distinct], [[(a) => a.elu(0.5), 'F.elu(a, 0.5)']]);
forms('softplus', [distinct], [[(a) => a.softplus(2, 3), 'F.softplus(a, 2, 3)']]);
forms('hardshrink', [distinct], [[(a) => a.hardshrink(1), 'F.hardshrink(a, 1)']]);
forms(
  'softmax',
  [distinct],
  [
    [(a) => a.softmax(0, 'f64'), 'torch.softmax(a, 0, torch.float64)'],
    [(a) => a.softmax({ dim: 0 }), 'torch.softmax(a, dim=0)'],
  ],
);

// ---- matrices
const square = input([3, 3]);
forms('cross', [square, square], [[(a, b) => a.cross(b, 0), 'torch.cross(a, b, 0)']]);
forms('cdist', [square, square], [[(a, b) => a.cdist(b, 1), 'torch.cdist(a, b, 1)']]);
forms('vander', [input([3])], [[(a) => a.vander(2, true), 'torch.vander(a, 2, True)']], { grad: false });
forms('eigvalsh', [square], [[(a) => a.eigvalsh('U'), 'torch.linalg.eigvalsh(a, "U")']], { grad: false });
forms('einsum', [square, square], [[(a, b) => tx.einsum('ij,jk->ik', [a, b]), 'torch.einsum("ij,jk->ik", [a, b])']]);

// ---- losses and indices
forms(
  'crossEntropy',
  [input([3, 4]), ints([3], 0, 4), input([4], 'positive')],
  [
    [(a, b, c) => tx.crossEntropy(a, b, c), 'F.cross_entropy(a, b, c.detach())'],
    [(a, b, c) => tx.crossEntropy(a, b, c, { reduction: 'sum' }), 'F.cross_entropy(a, b, c.detach(), reduction="sum")'],
  ],
  { grad: false },
);
forms('cosineSimilarity', [distinct, distinct], [[(a, b) => a.cosineSimilarity(b, 0), 'F.cosine_similarity(a, b, 0)']]);
forms(
  'tripletMarginLoss',
  [distinct, input([3, 4]), input([3, 4])],
  [[(a, b, c) => tx.tripletMarginLoss(a, b, c, 0.5, 1), 'F.triplet_margin_loss(a, b, c, 0.5, 1)']],
);
forms(
  'oneHot',
  [ints([3], 0, 4)],
  [
    [(a) => a.oneHot(4), 'F.one_hot(a, 4)'],
    [(a) => a.oneHot({ numClasses: 4 }), 'F.one_hot(a, num_classes=4)'],
  ],
);
forms('embedding', [ints([3], 0, 4), input([4, 2])], [[(a, b) => tx.embedding(a, b, 1), 'F.embedding(a, b, 1)']]);

// ---- images
const image = [input([1, 2, 5, 5]), input([3, 2, 2, 2]), input([3])];
forms('conv2d', image, [
  [(a, b, c) => tx.conv2d(a, b, c, 2, 1), 'F.conv2d(a, b, c, 2, 1)'],
  [(a, b, c) => tx.conv2d(a, b, c, { stride: 2 }), 'F.conv2d(a, b, c, stride=2)'],
  [(a, b, c) => tx.conv2d(a, b, { bias: c, padding: 1 }), 'F.conv2d(a, b, bias=c, padding=1)'],
  [(a, b) => tx.conv2d(a, b, { stride: 2 }), 'F.conv2d(a, b, stride=2)'],
  [(a, b) => tx.conv2d(a, b, null, 2), 'F.conv2d(a, b, None, 2)'],
]);
forms(
  'convTranspose2d',
  [input([1, 2, 3, 3]), input([2, 3, 2, 2]), input([3])],
  [[(a, b, c) => tx.convTranspose2d(a, b, c, 2, 1, 1), 'F.conv_transpose2d(a, b, c, 2, 1, 1)']],
);
const plane = [input([1, 1, 4, 4], 'distinct')];
forms('maxPool2d', plane, [[(a) => a.maxPool2d(2, 1, 1), 'F.max_pool2d(a, 2, 1, 1)']]);
forms('avgPool2d', plane, [[(a) => a.avgPool2d(2, 1, 1, false, false), 'F.avg_pool2d(a, 2, 1, 1, False, False)']]);
forms('interpolate', plane, [[(a) => a.interpolate([3, 5]), 'F.interpolate(a, (3, 5))']]);
forms('im2col', plane, [[(a) => a.im2col(2, 1, 1, 2), 'F.unfold(a, 2, 1, 1, 2)']]);

// ---- null where torch takes None
forms(
  'sum',
  [distinct],
  [
    [(a) => a.sum(null), 'a.sum(None)'],
    [(a) => a.sum(null, true), 'a.sum(None, True)'],
    [(a) => a.sum({ dim: null, keepdim: true, dtype: null }), 'a.sum(None, keepdim=True, dtype=None)'],
  ],
);
forms(
  'clamp',
  [distinct],
  [
    [(a) => a.clamp(null, 1), 'a.clamp(None, 1)'],
    [(a) => a.clamp({ min: 0.5, max: null }), 'a.clamp(min=0.5, max=None)'],
  ],
);
forms('argmax', [distinct], [[(a) => a.argmax(null), 'a.argmax(None)']]);
forms('norm', [distinct], [[(a) => a.norm({ p: 1, dim: null }), 'a.norm(p=1, dim=None)']]);
forms('var', [distinct], [[(a) => a.var(null), 'a.var(None)']]);
forms('roll', [distinct], [[(a) => a.roll(2, null), 'a.roll(2, None)']]);
forms('logit', [input([3], 'positive')], [[(a) => a.div(3).logit(null), 'torch.logit(a / 3, None)']]);
forms('nanToNum', [distinct], [[(a) => a.nanToNum(null, 1), 'torch.nan_to_num(a, None, 1.0)']]);
forms('diff', [distinct], [[(a) => a.diff({ prepend: null }), 'torch.diff(a, prepend=None)']]);
forms('softmax', [distinct], [[(a) => a.softmax(1, null), 'a.softmax(1, None)']]);
forms(
  'crossEntropy',
  [distinct, ints([3], 0, 4)],
  [
    [(a, b) => tx.crossEntropy(a, b, null), 'F.cross_entropy(a, b, None)'],
    [(a, b) => tx.crossEntropy(a, b, { weight: null }), 'F.cross_entropy(a, b, weight=None)'],
  ],
);
forms('embedding', [ints([3], 0, 4), input([4, 2])], [[(a, b) => tx.embedding(a, b, null), 'F.embedding(a, b, None)']]);
forms('maxPool2d', plane, [[(a) => a.maxPool2d(2, null, 1), 'F.max_pool2d(a, 2, None, 1)']]);
forms('avgPool2d', plane, [[(a) => a.avgPool2d(2, null), 'F.avg_pool2d(a, 2, None)']]);
forms('interpolate', plane, [[(a) => a.interpolate(null, 2), 'F.interpolate(a, None, 2)']]);
