// Low-rank matrix decompositions by random projections (Halko, Martinsson and Tropp, arXiv:0909.4061).
import { checkWhole } from '../base/check.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { range } from '../base/shape.js';
import { listed } from '../base/tree.js';
import { checked, named } from './arguments.js';
import { functions as f } from './functions-of-ops.js';
import type { Named } from './lift.js';
import { svd } from './linalg.js';
import { randn } from './random.js';
import type { Tensor } from './tensor.js';

export interface SvdLowrankOptions {
  /** A slightly overestimated rank. Default: 6. */
  readonly q?: number | null;
  /** The number of subspace iterations: products with the matrix and its transpose. Default: 2. */
  readonly niter?: number | null;
  /** Subtracted from the matrix. Default: nothing. */
  readonly M?: Tensor | null;
}
export interface PcaLowrankOptions {
  /** A slightly overestimated rank. Default: 6, or the smaller side. */
  readonly q?: number | null;
  /** Whether to subtract the mean of each column. Default: true. */
  readonly center?: boolean;
  readonly niter?: number | null;
}
type Factors = Named<{ readonly U: Tensor; readonly S: Tensor; readonly V: Tensor }>;

function lowrank(op: string, x: Tensor, rank: number, niter: number): Factors {
  checkWhole(`${op}: q`, rank);
  checkWhole(`${op}: niter`, niter);
  if (x.ndim < 2) throw new ShapeError(`${op}: takes matrices [..., m, n], got ${x.aval}`);
  const [m, n] = x.shape.slice(-2) as [number, number];
  const tall = m < n ? x.mT : x;
  const basis = (y: Tensor) => f.qr(y).Q;
  const start = basis(tall.matmul(randn([Math.min(m, n), rank], { dtype: x.dtype })));
  const Q = range(niter).reduce((q) => basis(tall.matmul(basis(tall.mT.matmul(q)))), start);
  const { U, S, Vh } = svd(Q.mT.matmul(tall), { fullMatrices: false });
  const [left, right] = [Q.matmul(U), Vh.mT];
  return listed(m < n ? { U: right, S, V: left } : { U: left, S, V: right }) as unknown as Factors;
}
type Given<O> = [options?: O] | [q: number | null, options?: O];
/** The q largest singular values of x - M, approximately: x - M = U diag(S) V^T. */
export const svdLowrank = checked(
  'svdLowrank',
  (
    x: Tensor,
    ...given: Given<SvdLowrankOptions> | [q: number | null, niter: number | null, M?: Tensor | null]
  ): Factors => {
    const { q, niter, M } = named<SvdLowrankOptions>(['q', 'niter', 'M'], given);
    return lowrank('svdLowrank', M ? x.sub(M.expand(x.shape)) : x, q ?? 6, niter ?? 2);
  },
);
/** The principal components of rows: V of the centered x = U diag(S) V^T, approximately. */
export const pcaLowrank = checked(
  'pcaLowrank',
  (
    x: Tensor,
    ...given: Given<PcaLowrankOptions> | [q: number | null, center: boolean, niter?: number | null]
  ): Factors => {
    const { q, center = true, niter } = named<PcaLowrankOptions>(['q', 'center', 'niter'], given);
    const most = Math.min(...x.shape.slice(-2));
    if (q != null && q > most)
      throw new ArgumentError(`pcaLowrank: q is ${q}: ${x.aval} has at most ${most} principal components`);
    return lowrank(
      'pcaLowrank',
      center ? x.sub(x.mean({ dim: -2, keepdim: true })) : x,
      q ?? Math.min(6, most),
      niter ?? 2,
    );
  },
);
