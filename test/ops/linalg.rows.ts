// Linear algebra. Where signs are not determined (qr, eigh, svd), what does not depend on them is compared.
import * as tx from 'tsxla';
import { input, ints, Table } from './row.js';

export const table = new Table('linalg');
// Finite differences only for the first row of each op that has a rule of its own, or where asked for: a decomposition is
// a nest of loops, which takes XLA half a second to compile, and a row with them has five programs.
const RULES = ['cross', 'cholesky', 'solveTriangular', 'solve', 'det', 'qr', 'eigh', 'svd', 'pinv'];
const row: Table['row'] = (op, inputs, run, torch, options) =>
  table.row(op, inputs, run, torch, { smooth: RULES.includes(op) && !table.rows.some((r) => r.op === op), ...options });
type Shape = readonly number[];
type T = tx.Tensor;

/** Positive definite, symmetric, and well-conditioned square matrices of any. */
const T = (a: T) => tx.einsum('...ij->...ji', a);
const spd = (a: T) => a.matmul(T(a)).add(a.matrixPower(0));
const SPD = '(a @ a.mT + torch.eye(a.shape[-1], dtype=a.dtype))';
const symmetric = (a: T) => a.add(T(a));
const well = (a: T) => a.mul(0.3).add(a.matrixPower(0));
const WELL = '(a * 0.3 + torch.eye(a.shape[-1], dtype=a.dtype))';

row('cross', [input([3]), input([3])], (a, b) => a.cross(b), 'torch.linalg.cross(a, b)');
row('cross', [input([2, 1, 3]), input([1, 2, 3])], (a, b) => a.cross(b), 'torch.linalg.cross(a, b)');
row('cross', [input([3, 2]), input([3, 2])], (a, b) => a.cross(b, { dim: 0 }), 'torch.linalg.cross(a, b, dim=0)');
row('cross', [ints([2, 3]), ints([2, 3])], (a, b) => a.cross(b), 'torch.linalg.cross(a, b)');
for (const n of [0, 1, 2, 3, 5])
  row(
    'matrixPower',
    [input([2, 2, 2])],
    (a) => a.matrixPower(n),
    `torch.linalg.matrix_power(a, ${n})${n ? '' : ' + 0 * a'}`,
    { grad: n > 0 },
  );
row('matrixPower', [input([2, 2])], (a) => well(a).matrixPower(-2), `torch.linalg.matrix_power(${WELL}, -2)`);
row('vander', [input([3])], (a) => a.vander(), 'torch.vander(a)', { grad: false }); // torch's own gradient fails
row('vander', [input([3])], (a) => a.vander(), 'torch.stack([a * a, a, torch.ones_like(a)], -1)');
row('vander', [ints([3])], (a) => a.vander({ N: 4, increasing: true }), 'torch.vander(a, N=4, increasing=True)');
row('vander', [ints([3], 0, 99, 'i8')], (a) => a.vander(), 'torch.vander(a)');
row('vander', [input([2, 2])], (a) => a.vander({ N: 3, increasing: true }), 'torch.linalg.vander(a, N=3)', {
  grad: false,
});

for (const shape of [
  [2, 2],
  [1, 1],
  [3, 3],
  [2, 1, 2, 2],
]) {
  row('cholesky', [input(shape)], (a) => spd(a).cholesky(), `torch.linalg.cholesky(${SPD})`);
}
row('cholesky', [input([2, 2])], (a) => spd(a).cholesky({ upper: true }), `torch.linalg.cholesky(${SPD}, upper=True)`);
row('cholesky', [input([4, 4], 'normal', 'f64')], (a) => spd(a).cholesky(), `torch.linalg.cholesky(${SPD})`);
row(
  'choleskySolve',
  [input([2, 2]), input([2, 3])],
  (a, b) => b.choleskySolve(spd(a).cholesky()),
  `torch.cholesky_solve(b, torch.linalg.cholesky(${SPD}))`,
);
row(
  'choleskySolve',
  [input([2, 2, 2]), input([2, 1])],
  (a, b) => b.choleskySolve(spd(a).cholesky({ upper: true }), { upper: true }),
  `torch.cholesky_solve(b, torch.linalg.cholesky(${SPD}, upper=True), upper=True)`,
);
row(
  'choleskyInverse',
  [input([3, 3])],
  (a) => spd(a).cholesky().choleskyInverse(),
  `torch.cholesky_inverse(torch.linalg.cholesky(${SPD}))`,
);

const triangles: readonly [Shape, Shape, Parameters<typeof tx.solveTriangular>[2], string][] = [
  [[3, 3], [3, 2], { upper: true }, 'upper=True'],
  [[3, 3], [3, 2], { upper: false }, 'upper=False'],
  [[2, 2, 2], [2, 1], { upper: true, unitriangular: true }, 'upper=True, unitriangular=True'],
  [[2, 2], [2, 3, 2], { upper: false, left: false }, 'upper=False, left=False'],
  [[2, 2], [1, 2], { upper: true, left: false, unitriangular: true }, 'upper=True, left=False, unitriangular=True'],
];
for (const [a, b, options, text] of triangles) {
  row(
    'solveTriangular',
    [input(a), input(b)],
    (x, y) => well(x).solveTriangular(y, options),
    `torch.linalg.solve_triangular(${WELL}, b, ${text})`,
  );
}
row(
  'triangularSolve',
  [input([2, 2]), input([2, 1])],
  (a, b) => b.triangularSolve(well(a)),
  `torch.triangular_solve(b, ${WELL})[0]`,
);
row(
  'triangularSolve',
  [input([2, 2]), input([2, 1])],
  (a, b) => b.triangularSolve(well(a), { upper: false, transpose: true }),
  `torch.triangular_solve(b, ${WELL}, upper=False, transpose=True)[0]`,
);

const systems: readonly [Shape, Shape][] = [
  [[2, 2], [2]],
  [[1, 1], [1]],
  [[3, 3], [3]],
  [
    [3, 3],
    [3, 2],
  ],
  [
    [2, 2, 2],
    [2, 2],
  ],
  [
    [2, 2, 2],
    [2, 2, 1],
  ],
  [
    [2, 2],
    [2, 2, 3],
  ],
];
for (const [a, b] of systems)
  row('solve', [input(a), input(b)], (x, y) => well(x).solve(y), `torch.linalg.solve(${WELL}, b)`);
row(
  'solve',
  [input([2, 2]), input([3, 2])],
  (a, b) => well(a).solve(b, { left: false }),
  `torch.linalg.solve(${WELL}, b, left=False)`,
);
row('solve', [input([2, 2], [0, 1, 1, 0]), input([2])], (a, b) => a.solve(b), 'torch.linalg.solve(a, b)');
for (const shape of [
  [2, 2],
  [1, 1],
  [3, 3],
  [2, 2, 2],
]) {
  row('inv', [input(shape)], (a) => well(a).inv(), `torch.linalg.inv(${WELL})`);
  row('det', [input(shape)], (a) => a.det(), 'torch.linalg.det(a)');
  row('slogdet', [input(shape)], (a) => a.slogdet().logabsdet, 'torch.linalg.slogdet(a)[1]');
  row(
    'slogdet',
    [input(shape)],
    (a) => {
      const r = a.slogdet();
      return [r.sign, r.logabsdet];
    },
    'torch.linalg.slogdet(a)',
    { smooth: false },
  );
  row('logdet', [input(shape)], (a) => spd(a).logdet(), `torch.logdet(${SPD})`);
}
row('det', [input([4, 4], 'normal', 'f64')], (a) => a.det(), 'torch.linalg.det(a)');
row('det', [input([2, 2], [0, 1, 1, 0])], (a) => a.det(), 'torch.linalg.det(a)');
row('det', [input([2, 2], [1, 2, 2, 4])], (a) => a.det().add(1), 'torch.linalg.det(a) + 1', { grad: false });
row('logdet', [input([2, 2], [0, 1, 1, 0])], (a) => a.logdet(), 'torch.logdet(a)', { grad: false });

const qrs: Shape[] = [
  [3, 2],
  [2, 3],
  [1, 1],
  [3, 3],
  [2, 3, 2],
];
const product = (a: T) => {
  const { Q, R } = a.qr();
  return [Q.matmul(R), Q.abs(), R.abs()];
};
for (const shape of qrs)
  row('qr', [input(shape)], product, '(lambda q, r: (q @ r, q.abs(), r.abs()))(*torch.linalg.qr(a))', {
    smooth: qrs.indexOf(shape) < 2,
  });
row(
  'qr',
  [input([3, 2])],
  (a) => {
    const { Q, R } = a.qr({ mode: 'complete' });
    return [Q.matmul(R), T(Q).matmul(Q), R.abs()];
  },
  "(lambda q, r: (q @ r, q.mT @ q, r.abs()))(*torch.linalg.qr(a, mode='complete'))",
  { grad: false },
);
row(
  'qr',
  [input([2, 3])],
  (a) => {
    const { Q, R } = a.qr({ mode: 'complete' });
    return [Q.abs(), R.abs()];
  },
  "(lambda q, r: (q.abs(), r.abs()))(*torch.linalg.qr(a, mode='complete'))",
);
row('qr', [input([3, 2])], (a) => a.qr({ mode: 'r' }).R.abs(), "torch.linalg.qr(a, mode='r')[1].abs()", {
  grad: false,
});

for (const shape of [
  [3, 3],
  [1, 1],
  [4, 4],
  [2, 2, 2],
]) {
  row(
    'eigh',
    [input(shape)],
    (a) => {
      const { eigenvalues: w, eigenvectors: v } = symmetric(a).eigh();
      return [w, v.abs(), tx.einsum('...ij,...j,...kj->...ik', v, w, v)];
    },
    "(lambda w, v: (w, v.abs(), torch.einsum('...ij,...j,...kj->...ik', v, w, v)))(*torch.linalg.eigh(a + a.mT))",
  );
}
row(
  'eigh',
  [input([5, 5], 'normal', 'f64')],
  (a) => symmetric(a).eigh({ UPLO: 'U' }).eigenvectors.abs(),
  'torch.linalg.eigh(a + a.mT)[1].abs()',
);
row('eigh', [input([3, 3])], (a) => a.eigh().eigenvalues, 'torch.linalg.eigh(a)[0]', { grad: false });
row('eigh', [input([3, 3])], (a) => a.eigh({ UPLO: 'U' }).eigenvalues, "torch.linalg.eigh(a, UPLO='U')[0]", {
  grad: false,
});
row('eigvalsh', [input([3, 3])], (a) => symmetric(a).eigvalsh(), 'torch.linalg.eigvalsh(a + a.mT)');

const svds: Shape[] = [
  [3, 2],
  [2, 3],
  [3, 3],
  [1, 1],
  [2, 2, 2],
  [5, 5],
  [1, 3],
  [2, 1],
];
for (const shape of svds) {
  row(
    'svd',
    [input(shape)],
    (a) => {
      const { U, S, Vh } = a.svd({ fullMatrices: false });
      return [U.abs(), S, Vh.abs(), tx.einsum('...ij,...j,...jk->...ik', U, S, Vh)];
    },
    "(lambda u, s, v: (u.abs(), s, v.abs(), torch.einsum('...ij,...j,...jk->...ik', u, s, v)))(*torch.linalg.svd(a, full_matrices=False))",
    { smooth: svds.indexOf(shape) < 2, grad: svds.indexOf(shape) < 5 },
  );
}
const full = (a: T) => {
  const { U, S, Vh } = a.svd();
  return [T(U).matmul(U), S, Vh.matmul(T(Vh))];
};
for (const shape of [
  [4, 2],
  [2, 3],
])
  row('svd', [input(shape)], full, '(lambda u, s, v: (u.mT @ u, s, v @ v.mT))(*torch.linalg.svd(a))', { grad: false });
// Rank 1, zero, and singular values of very different size.
for (const values of [
  [1, 2, 3, 2, 4, 6, 3, 6, 9],
  [0, 0, 0, 0, 0, 0, 0, 0, 0],
  [1e6, 1, 0, 1, 1e-3, 0, 0, 0, 1e-7],
]) {
  row('svd', [input([3, 3], values)], full, '(lambda u, s, v: (u.mT @ u, s, v @ v.mT))(*torch.linalg.svd(a))', {
    grad: false,
  });
}
row('svdvals', [input([3, 2])], (a) => a.svdvals(), 'torch.linalg.svdvals(a)');
row('svdvals', [input([6, 7], 'normal', 'f64')], (a) => a.svdvals(), 'torch.linalg.svdvals(a)');
row('nuclearNorm', [input([2, 3])], (a) => a.nuclearNorm(), "torch.linalg.matrix_norm(a, 'nuc')");
row('spectralNorm', [input([2, 3, 2])], (a) => a.spectralNorm(), 'torch.linalg.matrix_norm(a, 2)');
for (const shape of [
  [3, 2],
  [2, 2],
  [2, 3],
  [2, 2, 3],
])
  row('pinv', [input(shape)], (a) => a.pinv(), 'torch.linalg.pinv(a)');
row(
  'pinv',
  [input([3, 3], [1, 2, 3, 2, 4, 6, 3, 6, 9])],
  (a) => a.pinv({ rtol: 1e-5 }),
  'torch.linalg.pinv(a, rtol=1e-5)',
  { smooth: false },
);
row('matrixRank', [input([2, 3, 3])], (a) => a.matrixRank(), 'torch.linalg.matrix_rank(a)', { grad: false });
row(
  'matrixRank',
  [input([3, 3], [1, 2, 3, 2, 4, 6, 3, 6, 10])],
  (a) => a.matrixRank({ atol: 1e-3 }),
  'torch.linalg.matrix_rank(a, atol=1e-3)',
  { grad: false },
);
row('lstsq', [input([4, 2]), input([4, 2])], (a, b) => a.lstsq(b).solution, 'torch.linalg.lstsq(a, b).solution');
row('lstsq', [input([2, 3]), input([2, 1])], (a, b) => a.lstsq(b).solution, 'torch.linalg.lstsq(a, b).solution');
row(
  'choleskyInverse',
  [input([3, 3])],
  (a) => spd(a).cholesky({ upper: true }).choleskyInverse({ upper: true }),
  'torch.cholesky_inverse(torch.linalg.cholesky(a @ a.mT + torch.eye(3), upper=True), upper=True)',
  { smooth: false },
);
row(
  'eigvalsh',
  [input([3, 3])],
  (a) => symmetric(a).eigvalsh({ UPLO: 'U' }),
  "torch.linalg.eigvalsh(a + a.mT, UPLO='U')",
  { smooth: false },
);
row('pinv', [input([3, 2])], (a) => a.pinv({ atol: 1e-4 }), 'torch.linalg.pinv(a, atol=1e-4)', { smooth: false });
row('matrixRank', [input([3, 3])], (a) => a.matrixRank({ rtol: 1e-4 }), 'torch.linalg.matrix_rank(a, rtol=1e-4)', {
  grad: false,
});
