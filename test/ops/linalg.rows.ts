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
  (a, b) => b.triangularSolve(well(a)).solution,
  `torch.triangular_solve(b, ${WELL})[0]`,
);
row(
  'triangularSolve',
  [input([2, 2]), input([2, 1])],
  (a, b) => b.triangularSolve(well(a), { upper: false, transpose: true }).solution,
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
  row('slogdet', [input(shape)], (a) => a.slogdet().sign, 'torch.linalg.slogdet(a)[0]', { smooth: false });
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
    'linalg.svd',
    [input(shape)],
    (a) => {
      const { U, S, Vh } = tx.linalg.svd(a, { fullMatrices: false });
      return [U.abs(), S, Vh.abs(), tx.einsum('...ij,...j,...jk->...ik', U, S, Vh)];
    },
    "(lambda u, s, v: (u.abs(), s, v.abs(), torch.einsum('...ij,...j,...jk->...ik', u, s, v)))(*torch.linalg.svd(a, full_matrices=False))",
    { smooth: svds.indexOf(shape) < 2, grad: svds.indexOf(shape) < 5 },
  );
}
for (const some of [true, false])
  row(
    'svd',
    [input([4, 2])],
    (a) => {
      const { U, S, V } = a.svd({ some });
      return [U.narrow(1, 0, 2).abs(), S, V.abs(), T(U).matmul(U)];
    },
    `(lambda u, s, v: (u[:, :2].abs(), s, v.abs(), u.mT @ u))(*torch.svd(a, some=${some ? 'True' : 'False'}))`,
    { grad: false },
  );
row('svd', [input([2, 3])], (a) => [...a.svd({ computeUv: false })], 'torch.svd(a, compute_uv=False)', { grad: false });
for (const shape of [
  [4, 3],
  [2, 3],
  [2, 3, 3],
]) {
  row('geqrf', [input(shape)], (a) => [...a.geqrf()], 'torch.geqrf(a)', { grad: false });
  const k = Math.min(...shape.slice(-2));
  row(
    'ormqr',
    [input(shape), input([...shape.slice(0, -2), k], 'unit'), input([...shape.slice(0, -2), shape.at(-2)!, 2])],
    (a, b, c) => tx.ormqr(a, b, c),
    'torch.ormqr(a, b, c)',
  );
}
for (const [left, transpose] of [
  [true, true],
  [false, false],
  [false, true],
]) {
  const python = (b: boolean | undefined) => (b ? 'True' : 'False');
  row(
    'ormqr',
    [input([3, 2]), input([2], 'unit'), input([3, 3])],
    (a, b, c) => tx.ormqr(a, b, c, { left: left!, transpose: transpose! }),
    `torch.ormqr(a, b, c, left=${python(left)}, transpose=${python(transpose)})`,
  );
}
for (const op of ['svdLowrank', 'pcaLowrank'] as const)
  row(
    op,
    [input([5, 2]), input([4, 2])],
    (a, b) => {
      const { U, S, V } = tx[op](a.matmul(T(b)), { q: 2 });
      return [S, U.mul(S).matmul(T(V))];
    },
    `(lambda u, s, v: (s, (u * s) @ v.mT))(*torch.${op === 'svdLowrank' ? 'svd' : 'pca'}_lowrank(a @ b.mT, q=2))`,
    { grad: false, tolerance: 1e-4 },
  );
const full = (a: T) => {
  const { U, S, Vh } = tx.linalg.svd(a);
  return [T(U).matmul(U), S, Vh.matmul(T(Vh))];
};
for (const shape of [
  [4, 2],
  [2, 3],
])
  row('linalg.svd', [input(shape)], full, '(lambda u, s, v: (u.mT @ u, s, v @ v.mT))(*torch.linalg.svd(a))', {
    grad: false,
  });
// Rank 1, zero, and singular values of very different size.
for (const values of [
  [1, 2, 3, 2, 4, 6, 3, 6, 9],
  [0, 0, 0, 0, 0, 0, 0, 0, 0],
  [1e6, 1, 0, 1, 1e-3, 0, 0, 0, 1e-7],
]) {
  row('linalg.svd', [input([3, 3], values)], full, '(lambda u, s, v: (u.mT @ u, s, v @ v.mT))(*torch.linalg.svd(a))', {
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

// ---- tx.linalg: what torch has only there, or with other defaults
const { linalg } = tx;
const inf = Number.POSITIVE_INFINITY;
const python = (ord: unknown) =>
  typeof ord === 'string'
    ? `'${ord}'`
    : String(ord).replace('Infinity', "float('inf')").replace('-float', '-1 * float');
const three = input([2, 3, 4], 'distinct');
for (const ord of ['fro', 'nuc', 1, -1, 2, -2, inf, -inf] as const) {
  row('linalg.matrixNorm', [three], (a) => linalg.matrixNorm(a, ord), `torch.linalg.matrix_norm(a, ${python(ord)})`);
  row(
    'linalg.norm',
    [input([3, 3], 'distinct')],
    (a) => linalg.norm(a, { ord }),
    `torch.linalg.norm(a, ${python(ord)})`,
  );
}
row(
  'linalg.matrixNorm',
  [three],
  (a) => linalg.matrixNorm(a, { ord: 1, dim: [0, 2], keepdim: true, dtype: 'f64' }),
  'torch.linalg.matrix_norm(a, 1, (0, 2), True, dtype=torch.float64)',
  { smooth: false },
);
row('linalg.norm', [three], (a) => linalg.norm(a), 'torch.linalg.norm(a)');
row('linalg.norm', [three], (a) => linalg.norm(a, null, 1), 'torch.linalg.norm(a, dim=1)');
row('linalg.norm', [three], (a) => linalg.norm(a, 3, 1, true), 'torch.linalg.norm(a, 3, 1, True)');
row(
  'linalg.norm',
  [three],
  (a) => linalg.norm(a, { dim: [0, 1], keepdim: true }),
  'torch.linalg.norm(a, dim=(0, 1), keepdim=True)',
);
row(
  'linalg.norm',
  [input([4])],
  (a) => linalg.norm(a, { ord: 1, dtype: 'f64' }),
  'torch.linalg.norm(a, 1, dtype=torch.float64)',
  { smooth: false },
);
row('linalg.vectorNorm', [three], (a) => linalg.vectorNorm(a, 3), 'torch.linalg.vector_norm(a, 3)');
row(
  'linalg.vectorNorm',
  [three],
  (a) => linalg.vectorNorm(a, { ord: 1, dim: [0, 2], keepdim: true, dtype: 'f64' }),
  'torch.linalg.vector_norm(a, 1, (0, 2), True, dtype=torch.float64)',
  { smooth: false },
);
row('linalg.cond', [input([2, 3, 3])], (a) => linalg.cond(well(a)), `torch.linalg.cond(${WELL})`, { tolerance: 1e-4 });
row('linalg.cond', [input([2, 3, 3])], (a) => linalg.cond(well(a), -2), `torch.linalg.cond(${WELL}, -2)`, {
  tolerance: 1e-4,
});
for (const p of ['fro', 'nuc', 1, inf] as const) {
  const cond = `torch.linalg.cond(${WELL}, p=${python(p)})`; // torch's own gradient fails
  row('linalg.cond', [input([2, 3, 3])], (a) => linalg.cond(well(a), { p }), cond, { tolerance: 1e-4, grad: false });
}
row('linalg.vecdot', [input([2, 3]), input([3])], (a, b) => linalg.vecdot(a, b), 'torch.linalg.vecdot(a, b)');
row(
  'linalg.vecdot',
  [input([2, 3]), input([2, 1])],
  (a, b) => linalg.vecdot(a, b, { dim: 0 }),
  'torch.linalg.vecdot(a, b, dim=0)',
);
row('linalg.diagonal', [input([2, 3, 4])], (a) => linalg.diagonal(a), 'torch.linalg.diagonal(a)');
row(
  'linalg.diagonal',
  [input([2, 3, 4])],
  (a) => linalg.diagonal(a, { offset: 1, dim1: 0, dim2: 2 }),
  'torch.linalg.diagonal(a, offset=1, dim1=0, dim2=2)',
);
row('linalg.vander', [ints([2, 3])], (a) => linalg.vander(a), 'torch.linalg.vander(a)');
row('linalg.vander', [ints([3])], (a) => linalg.vander(a, { N: 4 }), 'torch.linalg.vander(a, N=4)');
row('linalg.matrixExp', [input([2, 3, 3])], (a) => linalg.matrixExp(a), 'torch.linalg.matrix_exp(a)');
row(
  'linalg.matrixExp',
  [input([3, 3], [9, 1, 2, 3, -8, 4, 0, 1, 7])],
  (a) => linalg.matrixExp(a),
  'torch.linalg.matrix_exp(a)',
  { tolerance: 1e-4, smooth: false },
);
row(
  'linalg.householderProduct',
  [input([2, 4, 3]), input([2, 2])],
  (a, b) => linalg.householderProduct(a, b),
  'torch.linalg.householder_product(a, b)',
);
row(
  'linalg.choleskyEx',
  [input([2, 3, 3])],
  (a) => Object.values(linalg.choleskyEx(spd(a), { upper: true })),
  `torch.linalg.cholesky_ex(${SPD}, upper=True)`,
);
row('linalg.invEx', [input([2, 3, 3])], (a) => Object.values(linalg.invEx(well(a))), `torch.linalg.inv_ex(${WELL})`);
row(
  'linalg.solveEx',
  [input([3, 3]), input([3, 2])],
  (a, b) => Object.values(linalg.solveEx(well(a), b)),
  `torch.linalg.solve_ex(${WELL}, b)`,
);
row(
  'linalg.solveEx',
  [input([3, 3]), input([2, 3])],
  (a, b) => linalg.solveEx(well(a), b, { left: false }).result,
  `torch.linalg.solve_ex(${WELL}, b, left=False)[0]`,
);
row('linalg.tensorinv', [input([2, 3, 6])], (a) => linalg.tensorinv(a), 'torch.linalg.tensorinv(a)', {
  tolerance: 1e-3,
});
row(
  'linalg.tensorinv',
  [input([4, 2, 2])],
  (a) => linalg.tensorinv(a, { ind: 1 }),
  'torch.linalg.tensorinv(a, ind=1)',
  { tolerance: 1e-3 },
);
row(
  'linalg.tensorsolve',
  [input([2, 3, 6]), input([2, 3])],
  (a, b) => linalg.tensorsolve(a, b),
  'torch.linalg.tensorsolve(a, b)',
  { tolerance: 1e-3 },
);
row(
  'linalg.tensorsolve',
  [input([2, 6, 3]), input([2, 3])],
  (a, b) => linalg.tensorsolve(a, b, { dims: [1] }),
  'torch.linalg.tensorsolve(a, b, dims=(1,))',
  { tolerance: 1e-3 },
);

// ---- nothing to decompose
const nothing = { smooth: false };
for (const shape of [
  [0, 0],
  [0, 3, 3],
  [2, 0, 0],
]) {
  row('inv', [input(shape)], (a) => a.inv(), 'torch.linalg.inv(a)', nothing);
  row('det', [input(shape)], (a) => a.det(), 'torch.linalg.det(a)', nothing);
  row('slogdet', [input(shape)], (a) => a.slogdet().logabsdet, 'torch.linalg.slogdet(a)[1]', nothing);
  row('cholesky', [input(shape)], (a) => a.cholesky(), 'torch.linalg.cholesky(a)', nothing);
  row('eigh', [input(shape)], (a) => a.eigh().eigenvalues, 'torch.linalg.eigh(a)[0]', nothing);
  row(
    'solve',
    [input(shape), input([...shape.slice(0, -1), 2])],
    (a, b) => a.solve(b),
    'torch.linalg.solve(a, b)',
    nothing,
  );
}
for (const shape of [
  [0, 2],
  [3, 0],
  [0, 3, 2],
]) {
  row('linalg.svd', [input(shape)], (a) => Object.values(tx.linalg.svd(a)), 'torch.linalg.svd(a)', { grad: false });
  row('linalg.svd', [input(shape)], (a) => tx.linalg.svd(a, false).S, 'torch.linalg.svd(a, False)[1]', nothing);
  for (const mode of ['reduced', 'complete', 'r'] as const)
    row('qr', [input(shape)], (a) => Object.values(a.qr(mode)), `torch.linalg.qr(a, '${mode}')`, { grad: false });
  row('pinv', [input(shape)], (a) => a.pinv(), 'torch.linalg.pinv(a)', { grad: false });
  row('matrixRank', [input(shape)], (a) => a.matrixRank(), 'torch.linalg.matrix_rank(a)', { grad: false });
}
const even = input([3, 3], [2, 1, 0.5, 1, 3, 1, 0.5, 1, 4]);
const lower = input([3, 3], [2, 9, 9, 1, 3, 9, 0, 1, 4]);
row('pinv', [lower], (a) => a.pinv({ hermitian: true }), 'torch.linalg.pinv(a, hermitian=True)', { grad: false });
row('pinv', [even], (a) => a.pinv({ hermitian: true }), 'torch.linalg.pinv(a, hermitian=True)', { smooth: false });
row(
  'pinv',
  [input([3, 2]), input([], [0.1])],
  (a, b) => a.pinv({ rtol: b, atol: 0.01 }),
  'torch.linalg.pinv(a, rtol=b, atol=torch.tensor(0.01))',
  { grad: false },
);
row('matrixRank', [lower], (a) => a.matrixRank({ hermitian: true }), 'torch.linalg.matrix_rank(a, hermitian=True)', {
  grad: false,
});
for (const driver of ['gels', 'gelsy', 'gelsd', 'gelss'] as const)
  row(
    'lstsq',
    [input([4, 2]), input([4, 3])],
    (a, b) => [...Object.values(a.lstsq(b, { driver, rcond: 1e-6 }))].slice(0, 1),
    `torch.linalg.lstsq(a, b, rcond=1e-6, driver='${driver}')[0]`,
  );
row(
  'lstsq',
  [input([4, 2]), input([4, 3])],
  (a, b) => Object.values(a.lstsq(b, { driver: 'gelsd' })),
  "torch.linalg.lstsq(a, b, driver='gelsd')",
  { grad: false },
);

// ---- LU
for (const shape of [
  [3, 3],
  [2, 4, 4],
  [3, 2],
  [2, 3, 5],
  [0, 0],
] as const) {
  row('linalg.lu', [input(shape)], (a) => [...linalg.lu(a)], 'torch.linalg.lu(a)', { smooth: false });
  row('linalg.luFactor', [input(shape)], (a) => [...linalg.luFactor(a)], 'torch.linalg.lu_factor(a)', { grad: false });
}
row('linalg.luFactorEx', [input([2, 3, 3])], (a) => [...linalg.luFactorEx(a)], 'torch.linalg.lu_factor_ex(a)', {
  smooth: false,
});
row(
  'linalg.luFactorEx',
  [input([2, 2], [1, 2, 2, 4])],
  (a) => linalg.luFactorEx(a).info,
  'torch.linalg.lu_factor_ex(a)[2]',
  { grad: false },
);
const packed = 'torch.linalg.lu_factor(a)';
for (const left of [true, false])
  for (const adjoint of [true, false])
    row(
      'linalg.luSolve',
      [input([2, 3, 3]), input([2, 3, 3])],
      (a, b) => {
        const { LU, pivots } = linalg.luFactor(well(a));
        return linalg.luSolve(LU, pivots, b, { left, adjoint });
      },
      `torch.linalg.lu_solve(*torch.linalg.lu_factor(${WELL}), b, left=${left ? 'True' : 'False'}, adjoint=${adjoint ? 'True' : 'False'})`,
    );
row('lu', [input([2, 3, 3])], (a) => tx.lu(a, { pivot: true, getInfos: true }), 'torch.linalg.lu_factor_ex(a)', {
  grad: false,
});
row(
  'luSolve',
  [input([3, 3]), input([3, 2])],
  (a, b) => {
    const [LU, pivots] = tx.lu(well(a));
    return tx.luSolve(b, LU!, pivots!);
  },
  `torch.lu_solve(b, *torch.linalg.lu_factor(${WELL}))`,
);
row('luUnpack', [input([2, 3, 3])], (a) => [...tx.luUnpack(...(tx.lu(a) as [T, T]))], `torch.lu_unpack(*${packed})`, {
  smooth: false,
});
row(
  'luUnpack',
  [input([3, 3])],
  (a) => tx.luUnpack(...(tx.lu(a) as [T, T]), { unpackData: false }).P,
  `torch.lu_unpack(*${packed}, unpack_data=False)[0]`,
  { grad: false },
);
row(
  'luUnpack',
  [input([3, 3])],
  (a) => tx.luUnpack(...(tx.lu(a) as [T, T]), { unpackPivots: false }).U,
  `torch.lu_unpack(*${packed}, unpack_pivots=False)[2]`,
  { smooth: false },
);
row('norm', [input([3, 2])], (a) => a.norm('nuc'), "torch.norm(a, 'nuc')", { smooth: false });
row('norm', [input([3, 2, 4])], (a) => a.norm('nuc', [0, 2], true), "torch.norm(a, 'nuc', (0, 2), True)", {
  smooth: false,
});
row('matrixExp', [input([2, 3, 3])], (a) => a.matrixExp(), 'torch.matrix_exp(a)');
row('orgqr', [input([4, 3]), input([3])], (a, b) => a.orgqr(b), 'torch.orgqr(a, b)');
