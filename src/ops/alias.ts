// torch's aliases of operations.

import { inv, pinv } from './linalg.js';
import { clamp } from './math.js';
import { outer } from './matmul.js';
import {
  abs,
  acos,
  acosh,
  asin,
  asinh,
  atan,
  atan2,
  atanh,
  div,
  ge,
  gt,
  le,
  lt,
  mul,
  ne,
  neg,
  sub,
  trunc,
} from './prim/pointwise.js';
import { trapezoid } from './reduction.js';
import { cat, movedim, transpose, vstack } from './shape.js';

export const absolute = abs;
export const negative = neg;
export const subtract = sub;
export const multiply = mul;
export const divide = div;
export const trueDivide = div;
export const fix = trunc;
export const clip = clamp;
export const greater = gt;
export const greaterEqual = ge;
export const less = lt;
export const lessEqual = le;
export const notEqual = ne;
export const arcsin = asin;
export const arccos = acos;
export const arctan = atan;
export const arctan2 = atan2;
export const arcsinh = asinh;
export const arccosh = acosh;
export const arctanh = atanh;
export const concat = cat;
export const concatenate = cat;
export const rowStack = vstack;
export const swapaxes = transpose;
export const swapdims = transpose;
export const moveaxis = movedim;
export const inverse = inv;
export const ger = outer;
export const trapz = trapezoid;
export const pinverse = pinv;
