// Products of vectors and matrices.
import * as tx from 'tsxla';
import type { DType } from 'tsxla/pjrt';
import { type Input, input, ints, Table } from './row.js';

export const table = new Table('matmul');
const { row } = { row: table.row.bind(table) };
type Shape = readonly number[];
const i32 = (shape: Shape): Input => ints(shape, -9, 10, 'i32');

// Every pairing of ranks, broadcast batches, and sizes of zero.
const shapes: readonly [Shape, Shape][] = [
  [[3], [3]],
  [[3], [3, 2]],
  [[3], [2, 3, 2]],
  [[2, 3], [3]],
  [[2, 2, 3], [3]],
  [
    [2, 3],
    [3, 2],
  ],
  [
    [2, 2, 3],
    [3, 2],
  ],
  [
    [2, 1, 2, 3],
    [3, 2],
  ],
  [
    [2, 3],
    [2, 3, 2],
  ],
  [
    [2, 2, 3],
    [1, 3, 2],
  ],
  [
    [2, 2, 3],
    [2, 3, 2],
  ],
  [
    [2, 1, 2, 3],
    [2, 3, 2],
  ],
  [
    [1, 2, 3],
    [2, 2, 3, 1],
  ],
  [
    [2, 2, 3],
    [1, 1, 3, 2],
  ],
  [
    [0, 3],
    [3, 2],
  ],
  [
    [2, 0],
    [0, 3],
  ],
  [
    [2, 3],
    [3, 0],
  ],
  [
    [0, 2, 3],
    [0, 3, 2],
  ],
  [
    [2, 0, 3],
    [3, 2],
  ],
  [[0], [0]],
];
for (const [a, b] of shapes) row('matmul', [input(a), input(b)], (x, y) => x.matmul(y), 'torch.matmul(a, b)');
for (const dtype of ['f16', 'bf16', 'f64'] as const) {
  row(
    'matmul',
    [input([2, 2, 5], 'normal', dtype), input([5, 3], 'normal', dtype)],
    (a, b) => tx.matmul(a, b),
    'a @ b',
  );
}
for (const dtype of ['i64', 'i32', 'i16', 'i8', 'u8'] as DType[]) {
  const [from, to] = dtype === 'u8' ? [0, 20] : [-9, 10];
  row('matmul', [ints([2, 3], from, to, dtype), ints([3, 2], from, to, dtype)], (a, b) => tx.matmul(a, b), 'a @ b');
}
row('matmul', [ints([2, 2, 3]), ints([2, 3, 2])], (a, b) => tx.matmul(a, b), 'a @ b');
const odd: Input = input([2, 2], [1, 'nan', 'inf', 2]);
row('matmul', [odd, input([2, 2], [1, 2, 0, 1])], (a, b) => a.matmul(b), 'a @ b', { smooth: false });

row('matmul', [input([2, 3]), input([3, 4])], (a, b) => a.matmul(b, { precision: 'high' }), 'a @ b');
row('mm', [input([2, 3]), input([3, 4])], (a, b) => a.mm(b), 'torch.mm(a, b)');
row('bmm', [input([2, 2, 3]), input([2, 3, 2])], (a, b) => a.bmm(b), 'torch.bmm(a, b)');
row('mv', [input([2, 3]), input([3])], (a, b) => a.mv(b), 'torch.mv(a, b)');
row('dot', [input([4]), input([4])], (a, b) => a.dot(b), 'torch.dot(a, b)');
row('dot', [i32([4]), i32([4])], (a, b) => a.dot(b), 'torch.dot(a, b)');
row('vdot', [input([4]), input([4])], (a, b) => a.vdot(b), 'torch.vdot(a, b)');
row('outer', [input([2]), input([3])], (a, b) => a.outer(b), 'torch.outer(a, b)');
row('outer', [ints([2]), input([3])], (a, b) => a.outer(b), 'torch.outer(a, b)');
row('inner', [input([3]), input([3])], (a, b) => a.inner(b), 'torch.inner(a, b)');
row('inner', [input([2, 2, 3]), input([2, 3])], (a, b) => a.inner(b), 'torch.inner(a, b)');
row('inner', [input([]), input([3, 2])], (a, b) => a.inner(b), 'torch.inner(a, b)');

const two = { beta: 0.5, alpha: -2 };
const text = 'beta=0.5, alpha=-2';
row('addmm', [input([2, 2]), input([2, 3]), input([3, 2])], (a, b, c) => a.addmm(b, c), 'torch.addmm(a, b, c)');
row(
  'addmm',
  [input([2]), input([2, 3]), input([3, 2])],
  (a, b, c) => a.addmm(b, c, two),
  `torch.addmm(a, b, c, ${text})`,
);
row(
  'addmm',
  [input([2], 'normal', 'bf16'), input([2, 3], 'normal', 'bf16'), input([3, 2], 'normal', 'bf16')],
  (a, b, c) => a.addmm(b, c, two),
  `torch.addmm(a, b, c, ${text})`,
);
row(
  'addmm',
  [i32([2]), i32([2, 3]), i32([3, 2])],
  (a, b, c) => a.addmm(b, c, { beta: 2, alpha: 3 }),
  'torch.addmm(a, b, c, beta=2, alpha=3)',
);
row(
  'addmm',
  [input([2], ['nan', 'inf']), input([2, 3]), input([3, 2])],
  (a, b, c) => a.addmm(b, c, { beta: 0 }),
  'torch.addmm(a, b, c, beta=0)',
  { grad: false },
);
row('addmv', [input([2]), input([2, 3]), input([3])], (a, b, c) => a.addmv(b, c, two), `torch.addmv(a, b, c, ${text})`);
row('addr', [input([2, 3]), input([2]), input([3])], (a, b, c) => a.addr(b, c, two), `torch.addr(a, b, c, ${text})`);
row(
  'baddbmm',
  [input([2, 1, 2]), input([2, 2, 3]), input([2, 3, 2])],
  (a, b, c) => a.baddbmm(b, c, two),
  `torch.baddbmm(a, b, c, ${text})`,
);
row(
  'addbmm',
  [input([2, 2]), input([2, 2, 3]), input([2, 3, 2])],
  (a, b, c) => a.addbmm(b, c, two),
  `torch.addbmm(a, b, c, ${text})`,
);

row('linear', [input([2, 3]), input([4, 3]), input([4])], (a, b, c) => a.linear(b, c), 'F.linear(a, b, c)');
row('linear', [input([2, 2, 3]), input([2, 3])], (a, b) => tx.linear(a, b), 'F.linear(a, b)');
row('linear', [input([3]), input([2, 3]), input([2])], (a, b, c) => tx.linear(a, b, c), 'F.linear(a, b, c)');
row(
  'linear',
  [input([2, 3]), input([4, 3])],
  (a, b) => tx.linear(a, b, null, { precision: 'highest' }),
  'F.linear(a, b)',
);
row('linear', [input([2, 3]), input([3])], (a, b) => tx.linear(a, b, null), 'F.linear(a, b)');
row(
  'linear',
  [input([2, 3], 'normal', 'bf16'), input([4, 3], 'normal', 'bf16'), input([4], 'normal', 'bf16')],
  (a, b, c) => a.linear(b, c),
  'F.linear(a, b, c)',
);
row(
  'bilinear',
  [input([2, 2]), input([2, 3]), input([2, 2, 3]), input([2])],
  (a, b, c, d) => tx.bilinear(a, b, c, d),
  'F.bilinear(a, b, c, d)',
);
row(
  'bilinear',
  [input([2, 1, 2]), input([2, 1, 3]), input([2, 2, 3])],
  (a, b, c) => tx.bilinear(a, b, c),
  'F.bilinear(a, b, c)',
);

row('tensordot', [input([2, 3, 2]), input([3, 2, 2])], (a, b) => a.tensordot(b), 'torch.tensordot(a, b)');
row('tensordot', [input([2, 3]), input([3, 2])], (a, b) => a.tensordot(b, 1), 'torch.tensordot(a, b, dims=1)');
row('tensordot', [input([2]), input([3])], (a, b) => a.tensordot(b, 0), 'torch.tensordot(a, b, dims=0)');
row(
  'tensordot',
  [input([2, 3, 2]), input([2, 2, 3])],
  (a, b) =>
    a.tensordot(b, [
      [1, 0],
      [-1, 0],
    ]),
  'torch.tensordot(a, b, dims=([1, 0], [-1, 0]))',
);
row('tensordot', [input([2, 1]), input([3, 2])], (a, b) => a.tensordot(b, 1), 'torch.tensordot(a, b, dims=1)');
row('tensordot', [ints([2, 3]), ints([3, 2])], (a, b) => a.tensordot(b, 1), 'torch.tensordot(a, b, dims=1)');

const sums: readonly [equation: string, ...Shape[]][] = [
  ['ij->ji', [2, 3]],
  ['ji', [2, 3]],
  ['ij->', [2, 3]],
  ['ij->i', [2, 3]],
  ['ii->i', [3, 3]],
  ['ii', [3, 3]],
  ['iij->ji', [2, 2, 3]],
  ['iii->i', [2, 2, 2]],
  ['...ii->...i', [2, 3, 3]],
  ['...ij->...ji', [2, 2, 3]],
  ['i,i', [3], [3]],
  ['i,i->i', [3], [3]],
  ['i,j->ij', [2], [3]],
  ['i , j -> j i', [2], [3]],
  ['ij,jk', [2, 3], [3, 2]],
  ['ij,jk->ki', [2, 3], [3, 2]],
  ['ij,kj->ik', [2, 3], [2, 3]],
  ['ji,jk->ik', [3, 2], [3, 2]],
  ['ba,b', [2, 3], [2]],
  ['bij,bjk->bik', [2, 2, 3], [2, 3, 2]],
  ['bhqd,bhkd->bhqk', [2, 1, 2, 3], [2, 1, 3, 3]],
  ['bqhd,bkhd->bhqk', [2, 2, 1, 3], [2, 3, 1, 3]],
  ['ijk,kl->ijl', [2, 2, 3], [3, 2]],
  ['ijkl,kjm->mil', [2, 2, 3, 1], [3, 2, 2]],
  ['...ij,...jk->...ik', [2, 2, 3], [3, 2]],
  ['...ij,...jk', [2, 1, 2, 3], [3, 3, 2]],
  ['i...,i...->...', [2, 3], [2, 3]],
  ['...,...', [2, 3], [3]],
  ['ij,jk->ik', [2, 1], [3, 2]],
  ['bi,bj->bij', [1, 2], [3, 2]],
  ['ik,jk,k->ij', [2, 3], [2, 3], [3]],
  ['ij,jk,kl,lm->im', [2, 3], [3, 1], [1, 3], [3, 2]],
  ['ij,kl->ik', [2, 3], [2, 2]],
  ['Ab,bA->Ab', [2, 3], [3, 2]],
  [',->', [], []],
  ['ij,jk->ik', [2, 0], [0, 2]],
];
for (const [equation, ...operands] of sums) {
  const names = operands.map((_, i) => 'abcdef'[i]).join(', ');
  row(
    'einsum',
    operands.map((s) => input(s)),
    (...xs) => tx.einsum(equation, ...xs),
    `torch.einsum('${equation}', ${names})`,
  );
}
row('einsum', [ints([2, 3]), ints([3, 2])], (a, b) => tx.einsum('ij,jk->ik', a, b), "torch.einsum('ij,jk->ik', a, b)");

row('kron', [input([2, 2]), input([1, 3])], (a, b) => a.kron(b), 'torch.kron(a, b)');
row('kron', [input([2]), input([2, 1, 2])], (a, b) => a.kron(b), 'torch.kron(a, b)');
row('kron', [input([]), ints([2])], (a, b) => a.kron(b), 'torch.kron(a, b)');
row(
  'multiDot',
  [input([2, 3]), input([3, 1]), input([1, 2])],
  (...xs) => tx.multiDot(xs),
  'torch.linalg.multi_dot([a, b, c])',
);
row(
  'multiDot',
  [input([3]), input([3, 2]), input([2])],
  (...xs) => tx.multiDot(xs),
  'torch.linalg.multi_dot([a, b, c])',
);
row(
  'chainMatmul',
  [input([2, 3]), input([3, 1]), input([1, 2])],
  (...xs) => tx.chainMatmul(...xs),
  'torch.linalg.multi_dot([a, b, c])',
);
const rows: readonly [Shape, Shape][] = [
  [
    [2, 3],
    [3, 3],
  ],
  [
    [2, 1, 2, 2],
    [2, 3, 2],
  ],
  [
    [0, 2],
    [2, 2],
  ],
];
for (const [a, b] of rows) row('cdist', [input(a), input(b)], (x, y) => x.cdist(y), 'torch.cdist(a, b)');
for (const p of [0, 1, 1.5, 3]) {
  row(
    'cdist',
    [input([2, 3]), input([2, 3])],
    (a, b) => a.cdist(b, { p }),
    `torch.cdist(a, b, p=${p}.)`.replace('.5.', '.5'),
    { smooth: p > 0 },
  );
}
row(
  'cdist',
  [input([2, 3]), input([2, 3])],
  (a, b) => a.cdist(b, { p: Number.POSITIVE_INFINITY }),
  "torch.cdist(a, b, p=float('inf'))",
);
row('cdist', [input([2, 2], [1, 2, 3, 4]), input([2, 2], [1, 2, 3, 5])], (a, b) => a.cdist(b), 'torch.cdist(a, b)', {
  smooth: false,
});

// Rows in groups. torch's own takes rows of whole 16 bytes alone; the parts say the same for any.
row(
  'groupedMm',
  [input([8, 4]), input([3, 4, 8]), input([3], [2, 0, 6], 'i32')],
  (a, b, sizes) => a.groupedMm(b, sizes.cumsum(0)),
  'F.grouped_mm(a, b, offs=c.cumsum(0).int())',
);
row(
  'groupedMm',
  [input([7, 3]), input([4, 3, 2]), input([4], [0, 3, 0, 4], 'i32')],
  (a, b, sizes) => a.groupedMm(b, sizes.cumsum(0)),
  'torch.cat([a[:3] @ b[1], a[3:] @ b[3]])',
);
row(
  'groupedMm',
  [input([6, 3]), input([2, 3, 2]), input([2], [1, 3], 'i64')],
  (a, b, sizes) => a.groupedMm(b, sizes.cumsum(0)),
  'torch.cat([a[:1] @ b[0], a[1:4] @ b[1], a[4:] @ b[0] * 0])',
);
row(
  'groupedMm',
  [input([3, 7]), input([7, 2]), input([3], [2, 0, 5], 'i32')],
  (a, b, sizes) => a.groupedMm(b, sizes.cumsum(0)),
  'torch.stack([a[:, :2] @ b[:2], a[:, :0] @ b[:0], a[:, 2:] @ b[2:]])',
);
