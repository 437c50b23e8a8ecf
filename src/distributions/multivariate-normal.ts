// Normal vectors, given by a covariance, a precision, or the Cholesky factor of the covariance.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { broadcastShapes, type Shape } from '../base/shape.js';
import { eye } from '../tensor/create.js';
import { cholesky, choleskyInverse, solveTriangular } from '../tensor/functions.js';
import { randn } from '../tensor/random.js';
import { Tensor } from '../tensor/tensor.js';
import type { Constraint } from './constraints.js';
import * as constraints from './constraints.js';
import { Distribution, type DistributionOptions, type SampleOptions, tensorLike, type Value } from './distribution.js';

export interface MultivariateNormalOptions extends DistributionOptions {
  /** Exactly one of these three. A tensor in place of the options is the covariance. */
  readonly covarianceMatrix?: Tensor | null;
  readonly precisionMatrix?: Tensor | null;
  readonly scaleTril?: Tensor | null;
}

/** |L^-1 x|^2, of the Cholesky factor of a covariance. */
export function mahalanobis(factor: Tensor, x: Tensor): Tensor {
  const batch = broadcastShapes('MultivariateNormal', factor.shape.slice(0, -2), x.shape.slice(0, -1));
  const n = x.shape.at(-1)!;
  const column = x.expand([...batch, n]).unsqueeze(-1);
  const solved = solveTriangular(factor.expand([...batch, n, n]), column, { upper: false });
  return solved.squeeze({ dim: -1 }).square().sum(-1);
}
/** The logarithm of a triangular matrix's determinant. */
export const logDiagonal = (factor: Tensor): Tensor => factor.diagonal({ dim1: -2, dim2: -1 }).log().sum(-1);

/** The Cholesky factor of a precision's inverse. */
function factorOfPrecision(precision: Tensor): Tensor {
  const flipped = cholesky(precision.flip(-2, -1)).flip(-2, -1).mT;
  const identity = eye(precision.shape.at(-1)!, { dtype: precision.dtype }).expand(precision.shape);
  return solveTriangular(flipped, identity, { upper: false });
}

export class MultivariateNormal extends Distribution {
  readonly loc: Tensor;
  readonly scaleTril: Tensor;
  constructor(loc: Tensor, given: Tensor | MultivariateNormalOptions, options: DistributionOptions = {}) {
    const named: MultivariateNormalOptions = {
      ...options,
      ...(given instanceof Tensor ? { covarianceMatrix: given } : given),
    };
    const { covarianceMatrix = null, precisionMatrix = null, scaleTril = null } = named;
    const matrices = [covarianceMatrix, precisionMatrix, scaleTril].filter((m) => m !== null);
    if (matrices.length !== 1)
      throw new ArgumentError(
        'MultivariateNormal: give exactly one of covarianceMatrix, precisionMatrix and scaleTril: new MultivariateNormal(loc, { scaleTril })',
      );
    const at = tensorLike('MultivariateNormal: loc', loc);
    const matrix = tensorLike('MultivariateNormal: the matrix', matrices[0]!);
    if (at.ndim < 1) throw new ShapeError(`MultivariateNormal: loc is ${at.aval}: it needs at least one dimension`);
    const n = at.shape.at(-1)!;
    if (matrix.ndim < 2 || matrix.shape.at(-1) !== n || matrix.shape.at(-2) !== n)
      throw new ShapeError(
        `MultivariateNormal: loc is ${at.aval} and the matrix is ${matrix.aval}: it must be [..., ${n}, ${n}]`,
      );
    const batch = broadcastShapes('MultivariateNormal', matrix.shape.slice(0, -2), at.shape.slice(0, -1));
    super(batch, [n], named);
    this.loc = at.expand([...batch, n]);
    const factor = scaleTril ? matrix : covarianceMatrix ? cholesky(matrix) : factorOfPrecision(matrix);
    this.scaleTril = factor.expand([...batch, n, n]);
    this.checkArgs({ loc });
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return {
      loc: constraints.realVector,
      covarianceMatrix: constraints.positiveDefinite,
      precisionMatrix: constraints.positiveDefinite,
      scaleTril: constraints.lowerCholesky,
    };
  }
  get support(): Constraint {
    return constraints.realVector;
  }
  override get hasRsample(): boolean {
    return true;
  }
  get covarianceMatrix(): Tensor {
    return this.scaleTril.matmul(this.scaleTril.mT);
  }
  get precisionMatrix(): Tensor {
    return choleskyInverse(this.scaleTril);
  }
  get mean(): Tensor {
    return this.loc;
  }
  override get mode(): Tensor {
    return this.loc;
  }
  get variance(): Tensor {
    return this.scaleTril.square().sum(-1);
  }
  override rsample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    const noise = randn(this.extended(sampleShape), { dtype: this.loc.dtype, ...options });
    return this.loc.add(this.scaleTril.matmul(noise.unsqueeze(-1)).squeeze({ dim: -1 }));
  }
  logProb(value: Value): Tensor {
    const away = this.value('logProb', value, this.loc).sub(this.loc);
    const n = this.eventShape[0]!;
    return mahalanobis(this.scaleTril, away)
      .add(n * Math.log(2 * Math.PI))
      .mul(-0.5)
      .sub(logDiagonal(this.scaleTril));
  }
  override entropy(): Tensor {
    return logDiagonal(this.scaleTril).add(0.5 * this.eventShape[0]! * (1 + Math.log(2 * Math.PI)));
  }
  expand(batchShape: Shape): MultivariateNormal {
    const n = this.eventShape[0]!;
    const scaleTril = this.scaleTril.expand([...batchShape, n, n]);
    return new MultivariateNormal(this.loc.expand([...batchShape, n]), { scaleTril, validateArgs: this.validates });
  }
}
