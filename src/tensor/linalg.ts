// tx.linalg: linear algebra, with torch.linalg's names and defaults.
import * as ops from '../ops/linalg-space.js';
import { functions } from './functions-of-ops.js';
import { liftSpace } from './lift.js';

const own = liftSpace('linalg', ops);
export const norm = own.norm;
export const vectorNorm = own.vectorNorm;
export const matrixNorm = own.matrixNorm;
export const cond = own.cond;
export const vecdot = own.vecdot;
export const diagonal = own.diagonal;
export const vander = own.vander;
export const matrixExp = own.matrixExp;
export const householderProduct = own.householderProduct;
export const svd = own.svd;
export const choleskyEx = own.choleskyEx;
export const invEx = own.invEx;
export const solveEx = own.solveEx;
export const tensorinv = own.tensorinv;
export const tensorsolve = own.tensorsolve;
export const lu = own.lu;
export const luFactor = own.luFactor;
export const luFactorEx = own.luFactorEx;
export const luSolve = own.luSolve;

// Functions that torch also has outside of torch.linalg.
export const cholesky = functions.cholesky;
export const cross = functions.cross;
export const det = functions.det;
export const eigh = functions.eigh;
export const eigvalsh = functions.eigvalsh;
export const inv = functions.inv;
export const lstsq = functions.lstsq;
export const matmul = functions.matmul;
export const matrixPower = functions.matrixPower;
export const matrixRank = functions.matrixRank;
export const multiDot = functions.multiDot;
export const pinv = functions.pinv;
export const qr = functions.qr;
export const slogdet = functions.slogdet;
export const solve = functions.solve;
export const solveTriangular = functions.solveTriangular;
export const svdvals = functions.svdvals;
