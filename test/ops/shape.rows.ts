// Shapes, orders, parts and dtypes; and tensors made of nothing.
import * as tx from 'tsxla';
import { bools, type Input, input, ints, type Row, type RowOptions, Table } from './row.js';

export const table = new Table('shape');
type Case = readonly [
  op: string,
  inputs: Input | readonly Input[],
  run: Row['run'],
  torch: string,
  options?: RowOptions,
];
const rows = (cases: readonly Case[]) => {
  for (const [op, inputs, run, torch, options] of cases) table.row(op, [inputs].flat() as Input[], run, torch, options);
};
const x = input([2, 3, 4]);
const m = input([3, 4]);
const v = input([5]);
const scalar = input([]);
const none = input([0, 3]);

rows([
  ['reshape', x, (a) => a.reshape([4, -1]), 'a.reshape(4, -1)'],
  ['reshape', x, (a) => a.reshape(2, 2, 6), 'a.reshape(2, 2, 6)'],
  ['reshape', input([1, 1]), (a) => tx.reshape(a, []), 'a.reshape([])'],
  ['reshape', none, (a) => a.reshape([3, 0, 7]), 'a.reshape(3, 0, 7)'],
  ['reshape', bools([2, 3]), (a) => a.reshape([-1]), 'a.reshape(-1)'],
  ['reshape', input([2, 3], 'normal', 'bf16'), (a) => a.reshape([3, 2]), 'a.reshape(3, 2)'],
  ['view', x, (a) => a.view(-1, 4), 'a.view(-1, 4)'],
  ['viewAs', [m, input([2, 6])], (a, b) => a.viewAs(b), 'a.view_as(b)'],
  ['reshapeAs', [m, input([2, 6])], (a, b) => a.reshapeAs(b), 'a.reshape_as(b)'],
  ['flatten', x, (a) => a.flatten(), 'a.flatten()'],
  ['flatten', x, (a) => a.flatten(1), 'a.flatten(1)'],
  ['flatten', x, (a) => a.flatten(0, -2), 'a.flatten(0, -2)'],
  ['flatten', scalar, (a) => a.flatten(), 'a.flatten()'],
  ['unflatten', input([3, 8]), (a) => a.unflatten(-1, [2, -1]), 'a.unflatten(-1, (2, -1))'],
  ['ravel', x, (a) => a.ravel(), 'a.ravel()'],
  ['squeeze', input([1, 3, 1]), (a) => a.squeeze(), 'a.squeeze()'],
  ['squeeze', input([1, 3, 1]), (a) => a.squeeze(-1), 'a.squeeze(-1)'],
  ['squeeze', input([1, 3, 1]), (a) => a.squeeze([0, 1]), 'a.squeeze((0, 1))'],
  ['squeeze', scalar, (a) => a.squeeze(0), 'a.squeeze(0)'],
  ['unsqueeze', m, (a) => a.unsqueeze(0), 'a.unsqueeze(0)'],
  ['unsqueeze', m, (a) => a.unsqueeze(-1), 'a.unsqueeze(-1)'],
  ['unsqueeze', scalar, (a) => a.unsqueeze(0), 'a.unsqueeze(0)'],
  ['atleast1d', scalar, (a) => a.atleast1d(), 'torch.atleast_1d(a)'],
  ['atleast2d', v, (a) => a.atleast2d(), 'torch.atleast_2d(a)'],
  ['atleast3d', m, (a) => a.atleast3d(), 'torch.atleast_3d(a)'],
  ['atleast3d', v, (a) => a.atleast3d(), 'torch.atleast_3d(a)'],
  ['atleast3d', scalar, (a) => a.atleast3d(), 'torch.atleast_3d(a)'],
  ['clone', m, (a) => a.clone(), 'a.clone()'],
  ['contiguous', m, (a) => a.t().contiguous(), 'a.t().contiguous()'],
]);

rows([
  ['permute', x, (a) => a.permute(2, 0, 1), 'a.permute(2, 0, 1)'],
  ['permute', x, (a) => tx.permute(a, [-1, 0, -2]), 'a.permute(-1, 0, -2)'],
  ['permute', scalar, (a) => a.permute([]), 'a.permute(())'],
  ['transpose', x, (a) => a.transpose(0, -1), 'a.transpose(0, -1)'],
  ['transpose', scalar, (a) => a.transpose(0, -1), 'a.transpose(0, -1)'],
  ['t', m, (a) => a.t(), 'a.t()'],
  ['t', v, (a) => a.t(), 'a.t()'],
  ['t', m, (a) => a.T, 'a.T'],
  ['adjoint', x, (a) => a.adjoint(), 'torch.adjoint(a)'],
  ['adjoint', x, (a) => [a.mT, a.mH], '(a.mT, a.mH)'],
  ['movedim', x, (a) => a.movedim(0, -1), 'a.movedim(0, -1)'],
  ['movedim', x, (a) => a.movedim([0, 1], [1, 2]), 'a.movedim((0, 1), (1, 2))'],
  ['flip', x, (a) => a.flip(0, -1), 'a.flip(0, -1)'],
  ['flip', x, (a) => a.flip([1]), 'a.flip([1])'],
  ['fliplr', m, (a) => a.fliplr(), 'a.fliplr()'],
  ['flipud', v, (a) => a.flipud(), 'a.flipud()'],
  ...[-1, 0, 1, 2, 3, 5].map((k): Case => ['rot90', m, (a) => a.rot90(k), `a.rot90(${k})`]),
  ['rot90', x, (a) => a.rot90(1, [2, 0]), 'a.rot90(1, [2, 0])'],
  ['roll', v, (a) => a.roll(2), 'a.roll(2)'],
  ['roll', m, (a) => a.roll(-5), 'a.roll(-5)'],
  ['roll', x, (a) => a.roll([1, -2], [0, 2]), 'a.roll((1, -2), (0, 2))'],
  ['roll', none, (a) => a.roll(1, 0), 'a.roll(1, 0)'],
]);

rows([
  ['expand', input([3, 1]), (a) => a.expand(3, 4), 'a.expand(3, 4)'],
  ['expand', input([3, 1]), (a) => a.expand([2, -1, 4]), 'a.expand(2, -1, 4)'],
  ['expand', scalar, (a) => a.expand(2, 2), 'a.expand(2, 2)'],
  ['expand', input([1, 3]), (a) => a.expand(0, 3), 'a.expand(0, 3)'],
  ['expandAs', [input([3, 1]), m], (a, b) => a.expandAs(b), 'a.expand_as(b)'],
  ['broadcastTo', input([3, 1]), (a) => a.broadcastTo([2, 3, 2]), 'a.broadcast_to((2, 3, 2))'],
  [
    'broadcastTensors',
    [input([3, 1]), input([4]), scalar],
    (...xs) => tx.broadcastTensors(xs),
    'torch.broadcast_tensors(a, b, c)',
  ],
  ['meshgrid', [input([2]), input([3])], (...xs) => tx.meshgrid(xs), "torch.meshgrid(a, b, indexing='ij')"],
  [
    'meshgrid',
    [input([2]), input([3]), scalar],
    (...xs) => tx.meshgrid(...xs, { indexing: 'xy' }),
    "torch.meshgrid(a, b, c, indexing='xy')",
  ],
  ['repeat', input([2, 3]), (a) => a.repeat(2, 1), 'a.repeat(2, 1)'],
  ['repeat', input([2, 3]), (a) => a.repeat([2, 1, 3]), 'a.repeat(2, 1, 3)'],
  ['repeat', input([2]), (a) => a.repeat(0), 'a.repeat(0)'],
  ['tile', input([2, 3]), (a) => a.tile(2), 'a.tile(2)'],
  ['tile', input([2]), (a) => a.tile([2, 2]), 'a.tile((2, 2))'],
  ['tile', scalar, (a) => a.tile([3]), 'a.tile((3,))'],
  ['repeatInterleave', input([2, 3]), (a) => a.repeatInterleave(2), 'a.repeat_interleave(2)'],
  ['repeatInterleave', input([2, 3]), (a) => a.repeatInterleave(3, { dim: -1 }), 'a.repeat_interleave(3, dim=-1)'],
  [
    'repeatInterleave',
    input([2, 3]),
    (a) => a.repeatInterleave([2, 0, 1], { dim: 1 }),
    'a.repeat_interleave(torch.tensor([2, 0, 1]), dim=1)',
  ],
  ['repeatInterleave', scalar, (a) => a.repeatInterleave(2), 'a.repeat_interleave(2)'],
  ['cat', [input([2, 3]), input([1, 3])], (...xs) => tx.cat(xs), 'torch.cat([a, b])'],
  ['cat', [input([2, 3]), input([2, 1])], (...xs) => tx.cat(xs, { dim: -1 }), 'torch.cat([a, b], dim=-1)'],
  ['cat', [input([2]), ints([2]), bools([2])], (...xs) => tx.cat(xs, 0), 'torch.cat([a, b, c])'],
  ['cat', [ints([2]), input([2], 'normal', 'f16')], (...xs) => tx.cat(xs, 0), 'torch.cat([a, b])'],
  ['cat', [input([0]), input([2, 3])], (...xs) => tx.cat(xs, 1), 'torch.cat([a, b], 1)'],
  ['cat', [none, input([2, 3])], (...xs) => tx.cat(xs), 'torch.cat([a, b])'],
  ['stack', [v, v], (...xs) => tx.stack(xs), 'torch.stack([a, b])'],
  ['stack', [m, m, m], (...xs) => tx.stack(xs, -1), 'torch.stack([a, b, c], -1)'],
  ['stack', [scalar, ints([])], (...xs) => tx.stack(xs, { dim: 0 }), 'torch.stack([a, b])'],
  ['hstack', [v, input([2])], (...xs) => tx.hstack(xs), 'torch.hstack([a, b])'],
  ['hstack', [input([2, 1]), input([2, 2])], (...xs) => tx.hstack(xs), 'torch.hstack([a, b])'],
  ['hstack', [scalar, scalar], (...xs) => tx.hstack(xs), 'torch.hstack([a, b])'],
  ['vstack', [v, input([2, 5])], (...xs) => tx.vstack(xs), 'torch.vstack([a, b])'],
  ['dstack', [input([2, 3]), input([2, 3, 2])], (...xs) => tx.dstack(xs), 'torch.dstack([a, b])'],
]);

const long = input([2, 7]);
rows([
  ['split', long, (a) => a.split(3, 1), 'a.split(3, 1)'],
  ['split', long, (a) => a.split([2, 0, 5], { dim: -1 }), 'a.split([2, 0, 5], -1)'],
  ['split', none, (a) => a.split(2), 'a.split(2)'],
  ['tensorSplit', long, (a) => a.tensorSplit(3, 1), 'a.tensor_split(3, 1)'],
  ['tensorSplit', long, (a) => a.tensorSplit([1, -2, 9], 1), 'a.tensor_split([1, -2, 9], 1)'],
  ['tensorSplit', long, (a) => a.tensorSplit([4, 2], 1), 'a.tensor_split([4, 2], 1)'],
  ['chunk', long, (a) => a.chunk(3, -1), 'a.chunk(3, -1)'],
  ['chunk', long, (a) => a.chunk(5, 1), 'a.chunk(5, 1)'],
  ['chunk', none, (a) => a.chunk(2), 'a.chunk(2)'],
  ['unbind', m, (a) => a.unbind(), 'a.unbind()'],
  ['unbind', m, (a) => a.unbind({ dim: -1 }), 'a.unbind(-1)'],
  ['narrow', long, (a) => a.narrow(1, 2, 3), 'a.narrow(1, 2, 3)'],
  ['narrow', long, (a) => a.narrow(-1, -3, 2), 'a.narrow(-1, -3, 2)'],
  ['narrow', [long, ints([], 2, 3)], (a, b) => a.narrow(1, b, 3), 'a.narrow(1, b, 3)'],
  ['select', x, (a) => a.select(1, -1), 'a.select(1, -1)'],
  ['select', [x, ints([], 1, 2)], (a, b) => a.select(0, b), 'a.select(0, int(b))'],
  ['unfold', long, (a) => a.unfold(1, 3, 2), 'a.unfold(1, 3, 2)'],
  ['unfold', x, (a) => a.unfold(0, 2, 1), 'a.unfold(0, 2, 1)'],
  ['unfold', x, (a) => a.unfold(-2, 2, 1), 'a.unfold(-2, 2, 1)'],
  [
    'splitWithSizes',
    m,
    (a) => a.splitWithSizes([m.shape[1]! - 1, 1], { dim: 1 }),
    `a.split_with_sizes([${m.shape[1]! - 1}, 1], 1)`,
  ],
  ['pad', m, (a) => a.pad([1, 2]), 'F.pad(a, (1, 2))'],
  ['pad', x, (a) => a.pad([1, 0, 0, 2, 1, 1], { value: 0.5 }), 'F.pad(a, (1, 0, 0, 2, 1, 1), value=0.5)'],
  ['pad', m, (a) => a.pad([-1, 2, 1, -2]), 'F.pad(a, (-1, 2, 1, -2))'],
  [
    'pad',
    m,
    (a) => a.pad([1, 1], { value: Number.NEGATIVE_INFINITY }),
    "F.pad(a, (1, 1), value=float('-inf'))",
    { smooth: false },
  ],
  ['pad', ints([2, 2]), (a) => a.pad([1, 1, 1, 1], { value: 7 }), 'F.pad(a, (1, 1, 1, 1), value=7)'],
  ['pad', bools([3]), (a) => a.pad([1, 1], { value: true }), 'F.pad(a, (1, 1), value=True)'],
  ['pad', none, (a) => a.pad([0, 0, 1, 1], { value: 2 }), 'F.pad(a, (0, 0, 1, 1), value=2)'],
  ['pad', x, (a) => a.pad([2, 3], { mode: 'reflect' }), "F.pad(a, (2, 3), mode='reflect')"],
  ['pad', x, (a) => a.pad([1, 2, 2, 0], { mode: 'reflect' }), "F.pad(a, (1, 2, 2, 0), mode='reflect')"],
  ['pad', x, (a) => a.pad([2, 5], { mode: 'replicate' }), "F.pad(a, (2, 5), mode='replicate')"],
  ['pad', x, (a) => a.pad([-1, 2, 1, 1], { mode: 'replicate' }), "F.pad(a, (-1, 2, 1, 1), mode='replicate')"],
  ['pad', x, (a) => a.pad([4, 1], { mode: 'circular' }), "F.pad(a, (4, 1), mode='circular')"],
  [
    'pad',
    input([1, 2, 3, 3]),
    (a) => a.pad([1, 2, 0, 3], { mode: 'circular' }),
    "F.pad(a, (1, 2, 0, 3), mode='circular')",
  ],
  ['pad', input([2, 4]), (a) => a.pad([-1, 1], { mode: 'circular' }), "F.pad(a, (-1, 1), mode='circular')"],
  ['pad', input([1, 3, 5]), (a) => a.pad([2, -2], { mode: 'circular' }), "F.pad(a, (2, -2), mode='circular')"],
]);

const square = input([3, 3]);
rows([
  ...[0, 1, -2, 4, 9].map((k): Case => ['diag', m, (a) => a.diag(k), `a.diag(${k})`]),
  ...[0, 2, -1].map((k): Case => ['diag', input([3]), (a) => a.diag(k), `a.diag(${k})`]),
  ['diagonal', x, (a) => a.diagonal(), 'a.diagonal()'],
  ['diagonal', x, (a) => a.diagonal({ offset: 1, dim1: -1, dim2: 0 }), 'a.diagonal(1, -1, 0)'],
  ['diagonal', x, (a) => a.diagonal({ offset: -1, dim1: 1, dim2: 2 }), 'a.diagonal(-1, 1, 2)'],
  ['diagEmbed', input([2, 3]), (a) => a.diagEmbed(), 'a.diag_embed()'],
  ['diagEmbed', input([2, 3]), (a) => a.diagEmbed({ offset: 1, dim1: 0, dim2: 2 }), 'a.diag_embed(1, 0, 2)'],
  ['diagEmbed', input([2, 3]), (a) => a.diagEmbed({ offset: -2, dim1: -1, dim2: 0 }), 'a.diag_embed(-2, -1, 0)'],
  ['diagEmbed', ints([2, 1]), (a) => a.diagEmbed(), 'a.diag_embed()'],
  ...[0, 1, -1, 5].flatMap((k): Case[] => [
    ['tril', m, (a) => a.tril(k), `a.tril(${k})`],
    ['triu', m, (a) => a.triu(k), `a.triu(${k})`],
  ]),
  ['tril', x, (a) => a.tril(), 'a.tril()'],
  ['triu', bools([3, 3]), (a) => a.triu(1), 'a.triu(1)'],
  ['tril', input([2, 2], [1, 'nan', 'inf', 4]), (a) => a.tril(), 'a.tril()', { grad: false }],
  ['trace', square, (a) => a.trace(), 'a.trace()'],
  ['trace', m, (a) => a.trace(), 'a.trace()'],
  ['trace', ints([3, 3], -9, 10, 'i32'), (a) => a.trace(), 'a.trace()'],
]);

const floats = input([4], [-1.75, 0.5, 0, 3.25]);
rows([
  ['to', floats, (a) => a.to('f16'), 'a.to(torch.float16)', { smooth: false }],
  ['to', floats, (a) => a.to({ dtype: 'i8' }), 'a.to(torch.int8)'],
  ['to', ints([4], 0, 200, 'u8'), (a) => a.to('f64'), 'a.to(torch.float64)'],
  ['to', ints([4]), (a) => a.to('u8'), 'a.to(torch.uint8)'],
  ['to', input([3], [1.5, 'nan', '-inf'], 'f64'), (a) => a.to('bf16'), 'a.to(torch.bfloat16)', { grad: false }],
  ['typeAs', [floats, ints([1])], (a, b) => a.typeAs(b), 'a.type_as(b)'],
  ['float', ints([4]), (a) => a.float(), 'a.float()'],
  ['double', floats, (a) => a.double(), 'a.double()', { smooth: false }],
  ['half', floats, (a) => a.half(), 'a.half()', { smooth: false }],
  ['bfloat16', floats, (a) => a.bfloat16(), 'a.bfloat16()', { smooth: false }],
  ['int', floats, (a) => a.int(), 'a.int()'],
  ['long', floats, (a) => a.long(), 'a.long()'],
  ['bool', floats, (a) => a.bool(), 'a.bool()'],
  ['bool', ints([4], -1, 2), (a) => a.bool(), 'a.bool()'],
  ['viewDtype', floats, (a) => a.viewDtype('i32'), 'a.view(torch.int32)', { grad: false }],
  ['viewDtype', floats, (a) => a.viewDtype('u8'), 'a.view(torch.uint8)', { grad: false }],
  ['viewDtype', ints([2, 8], 0, 200, 'u8'), (a) => a.viewDtype('i32'), 'a.view(torch.int32)'],
  ['viewDtype', input([2, 2], 'normal', 'bf16'), (a) => a.viewDtype('i16'), 'a.view(torch.int16)', { grad: false }],
]);

// ---- made of nothing

const made = (op: string, run: () => ReturnType<Row['run']>, torch: string) => table.row(op, [], run, torch);
made(
  'tensor',
  () =>
    tx.tensor([
      [1, 2],
      [3, 4],
    ]),
  'torch.tensor([[1, 2], [3, 4]])',
);
made('tensor', () => tx.tensor([1, 2.5]), 'torch.tensor([1, 2.5])');
made('tensor', () => tx.tensor(true), 'torch.tensor(True)');
made('tensor', () => tx.tensor([true, 2]), 'torch.tensor([True, 2])');
made('tensor', () => tx.tensor([[], []]), 'torch.tensor([[], []])');
made('tensor', () => tx.tensor([1n, -(2n ** 63n)]), 'torch.tensor([1, -2**63])');
made('tensor', () => tx.tensor([1.7, -1.7], { dtype: 'i32' }), 'torch.tensor([1.7, -1.7], dtype=torch.int32)');
made('tensor', () => tx.tensor([0.1, 1e9], { dtype: 'bf16' }), 'torch.tensor([0.1, 1e9], dtype=torch.bfloat16)');
made('tensor', () => tx.tensor(Float64Array.of(0.1, 2), { dtype: 'f32', shape: [2, 1] }), 'torch.tensor([[0.1], [2]])');
made('tensor', () => tx.tensor(Uint8Array.of(1, 2)), 'torch.tensor([1, 2], dtype=torch.uint8)');
made(
  'fromBuffer',
  () => tx.fromBuffer(Uint8Array.of(1, 0, 2, 0).buffer, { dtype: 'i16' }),
  'torch.tensor([1, 2], dtype=torch.int16)',
);
made(
  'fromBuffer',
  () => tx.fromBuffer(Uint8Array.of(9, 1, 0, 2, 0).subarray(1), { dtype: 'i16', shape: [2, 1] }),
  'torch.tensor([[1], [2]], dtype=torch.int16)',
);
made('zeros', () => tx.zeros([2, 3]), 'torch.zeros(2, 3)');
made('zeros', () => tx.zeros([], { dtype: 'bool' }), 'torch.zeros((), dtype=torch.bool)');
made('ones', () => tx.ones([0, 2], { dtype: 'f16' }), 'torch.ones(0, 2, dtype=torch.float16)');
made('empty', () => tx.empty([2], { dtype: 'i64' }), 'torch.zeros(2, dtype=torch.int64)');
made('full', () => tx.full([2], 3), 'torch.full((2,), 3)');
made('full', () => tx.full([2], 0.1), 'torch.full((2,), 0.1)');
made('full', () => tx.full([2], true), 'torch.full((2,), True)');
made(
  'full',
  () => tx.full([2], Number.NEGATIVE_INFINITY, { dtype: 'bf16' }),
  "torch.full((2,), float('-inf'), dtype=torch.bfloat16)",
);
table.row('zerosLike', [m], (a) => tx.zerosLike(a), 'torch.zeros_like(a)');
table.row('onesLike', [m], (a) => tx.onesLike(a, { dtype: 'i32' }), 'torch.ones_like(a, dtype=torch.int32)');
table.row('emptyLike', [ints([2])], (a) => tx.emptyLike(a), 'torch.zeros_like(a)');
table.row('fullLike', [m], (a) => tx.fullLike(a, 7), 'torch.full_like(a, 7)');
made('eye', () => tx.eye(3), 'torch.eye(3)');
made('eye', () => tx.eye(2, 3, { dtype: 'i64' }), 'torch.eye(2, 3, dtype=torch.int64)');
made('eye', () => tx.eye(2, { dtype: 'bool' }), 'torch.eye(2, dtype=torch.bool)');
made('arange', () => tx.arange(5), 'torch.arange(5)');
made('arange', () => tx.arange(0), 'torch.arange(0)');
made('arange', () => tx.arange(2, 9, 3), 'torch.arange(2, 9, 3)');
made('arange', () => tx.arange(5, -2, -2), 'torch.arange(5, -2, -2)');
made('arange', () => tx.arange(0.5, 2.1, 0.25), 'torch.arange(0.5, 2.1, 0.25)');
made('arange', () => tx.arange(3, { dtype: 'f32' }), 'torch.arange(3, dtype=torch.float32)');
made('arange', () => tx.arange(0, 1, 0.1, { dtype: 'bf16' }), 'torch.arange(0, 1, 0.1, dtype=torch.bfloat16)');
made('arange', () => tx.arange(1, 4, { dtype: 'u8' }), 'torch.arange(1, 4, dtype=torch.uint8)');
made('linspace', () => tx.linspace(-1, 2, 7), 'torch.linspace(-1, 2, 7)');
made('linspace', () => tx.linspace(3, 10, 1), 'torch.linspace(3, 10, 1)');
made('linspace', () => tx.linspace(3, 10, 0), 'torch.linspace(3, 10, 0)');
made('linspace', () => tx.linspace(0, 10, 4, { dtype: 'i64' }), 'torch.linspace(0, 10, 4, dtype=torch.int64)');
made('linspace', () => tx.linspace(0, 0.1, 6, { dtype: 'f64' }), 'torch.linspace(0, 0.1, 6, dtype=torch.float64)');
made('linspace', () => tx.linspace(0, 1, 5, { dtype: 'f16' }), 'torch.linspace(0, 1, 5, dtype=torch.float16)');
made('logspace', () => tx.logspace(-2, 2, 5), 'torch.logspace(-2, 2, 5)');
made(
  'logspace',
  () => tx.logspace(0, 4, 5, { base: 2, dtype: 'f64' }),
  'torch.logspace(0, 4, 5, base=2, dtype=torch.float64)',
);
made('trilIndices', () => tx.trilIndices(3, 4), 'torch.tril_indices(3, 4)');
made('trilIndices', () => tx.trilIndices(3, 3, { offset: -1 }), 'torch.tril_indices(3, 3, -1)');
made(
  'triuIndices',
  () => tx.triuIndices(3, 4, { offset: 1, dtype: 'i32' }),
  'torch.triu_indices(3, 4, 1, dtype=torch.int32)',
);
table.row('chunk', [input([4, 3])], (a) => a.chunk(2, { dim: 0 }), 'a.chunk(2, dim=0)');
table.row('tensorSplit', [input([2, 5])], (a) => a.tensorSplit(2, { dim: 1 }), 'a.tensor_split(2, dim=1)');
