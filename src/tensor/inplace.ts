// In-place operations, with a trailing underscore as in torch. They replace the tensor's value and overwrite no memory, so
// graphs that used the old value keep it.

import { gradEnabled } from '../autograd/mode.js';
import type { TypedArray } from '../base/dtype.js';
import { ArgumentError, DTypeError } from '../base/errors.js';
import { kindOf } from '../base/promote.js';
import { showShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { entry } from '../ir/source.js';

import * as ops from '../ops/index.js';
import { broadcastTo } from '../ops/prim/broadcast.js';
import { full } from '../ops/prim/constant.js';
import { convert } from '../ops/prim/move.js';
import { events } from '../runtime/events.js';
import { nodeValue } from '../runtime/value.js';
import { tensor } from './create.js';
import { liftMethod } from './lift.js';
import { byOffsets } from './offsets.js';
import { currentStep } from './scope.js';
import { type Nested, Tensor } from './tensor.js';

/** The operations with an in-place form: add_ and so on. */
// biome-ignore format: a table
export const IN_PLACE = [
  'add', 'sub', 'mul', 'div', 'pow', 'remainder', 'neg', 'abs', 'exp', 'log', 'sqrt', 'rsqrt', 'square', 'reciprocal',
  'sign', 'floor', 'ceil', 'round', 'trunc', 'sigmoid', 'tanh', 'relu', 'clamp', 'lerp', 'addcmul', 'addcdiv',
  'maskedFill', 'fillDiagonal', 'nanToNum', 'indexPut', 'indexAdd', 'indexCopy', 'indexFill', 'scatter', 'scatterAdd', 'tril', 'triu',
  'maskedScatter', 'put', 'scatterReduce', 'cumsum', 'cumprod', 'fmod', 'floorDivide', 'trueDivide', 'divide',
  'multiply', 'subtract', 'clip', 'clampMin', 'clampMax', 'sin', 'cos', 'tan', 'sinh', 'cosh', 'asin', 'acos', 'atan',
  'atan2', 'asinh', 'acosh', 'atanh', 'exp2', 'expm1', 'log2', 'log10', 'log1p', 'erf', 'erfc', 'erfinv', 'lgamma',
  'digamma', 'polygamma', 'mvlgamma', 'logit', 'frac', 'fix', 'sgn', 'sinc', 'i0', 'copysign', 'hypot', 'heaviside',
  'ldexp', 'nextafter', 'xlogy', 'deg2rad', 'rad2deg', 'absolute', 'negative', 'bitwiseAnd', 'bitwiseOr',
  'bitwiseXor', 'bitwiseNot', 'bitwiseLeftShift', 'bitwiseRightShift', 'logicalAnd', 'logicalOr', 'logicalXor',
  'logicalNot', 'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'addmm', 'addmv', 'addr', 'addbmm', 'baddbmm', 'relu6',
  'leakyRelu', 'elu', 'celu', 'selu', 'silu', 'hardtanh', 'threshold',
] as const satisfies readonly (keyof typeof ops)[];
type Name = (typeof IN_PLACE)[number];

export const zero = (x: Expr): Expr => full(x.shape, 0, x.dtype);
export const fill = (x: Expr, value: number | bigint | boolean): Expr => full(x.shape, value, x.dtype);
export const copy = (x: Expr, from: Expr): Expr => broadcastTo(convert(from, x.dtype), x.shape);
const more = { zero, fill, copy };

/** As in torch, a result may be narrowed but not change its kind (a float to an integer). copy_ and fill_ convert. */
function checkKind(op: string, result: Expr, into: Expr): void {
  if (kindOf(result.dtype) > kindOf(into.dtype))
    throw new DTypeError(
      `${op}: the result is ${result.dtype}, which cannot be stored in this ${into.aval}: convert the tensor first, x = x.to('${result.dtype}'), or the result, x.copy_(result)`,
    );
}

/** fill_ and copy_ with values of the host, outside of steps: no program is needed. */
function setFromHost(t: Tensor, name: string, value: unknown): boolean {
  if (value instanceof Tensor || !t.isLeaf || (name === 'fill' && t.numel() !== 1) || currentStep()) return false;
  const made = tensor(value as Nested, { dtype: t.dtype });
  if (String(made.shape) !== String(t.shape) && made.numel() !== 1)
    throw new ArgumentError(
      `${name}_: values of shape ${showShape(made.shape)} must have the shape of this ${t.aval}, or one element`,
    );
  if (made.numel() !== t.numel()) return false; // one number for many elements: the program repeats it
  t.assign(nodeValue(made.expr) as TypedArray);
  return true;
}

export type InPlaceMethods = { [K in Name as `${K}_`]: (...args: Parameters<Tensor[K]>) => Tensor } & {
  zero_(): Tensor;
  fill_(value: number | bigint | boolean): Tensor;
  /**
   * Copies the values of another tensor, converted to this one's dtype and shape. Numbers of the host become the value without
   * a program: for a learning rate that changes at each step.
   */
  copy_(from: Tensor | Nested | TypedArray): Tensor;
};

const all = { ...ops, ...byOffsets };
for (const [name, f] of [...IN_PLACE.map((n) => [n, all[n]] as const), ...Object.entries(more)]) {
  const compute = liftMethod(`${name}_`, f as (...args: never[]) => unknown);
  Object.defineProperty(Tensor.prototype, `${name}_`, {
    configurable: true,
    writable: true,
    value: entry(function (this: Tensor, ...args: unknown[]) {
      if (this.requiresGrad && this.isLeaf && gradEnabled()) {
        throw new ArgumentError(`${name}_: this ${this.expr.aval} is a variable: change it inside noGrad(() => ...)`);
      }
      if (name in more && args.length && setFromHost(this, name, args[0])) return this;
      const given =
        name === 'copy' && !(args[0] instanceof Tensor) ? [tensor(args[0] as Nested, { dtype: this.dtype })] : args;
      const { expr } = compute.apply(this, given) as Tensor;
      if (expr.shape.length !== this.shape.length || expr.shape.some((n, d) => n !== this.shape[d])) {
        throw new ArgumentError(
          `${name}_: the result is ${expr.aval}, but this tensor is ${this.expr.aval}: an in-place operation cannot change the shape`,
        );
      }
      if (!(name in more)) checkKind(`${name}_`, expr, this.expr);
      // As index_put_ in torch; values of slices and numbers are converted, as copy_ does.
      const [spec, values] = args;
      if (
        name === 'indexPut' &&
        values instanceof Tensor &&
        Array.isArray(spec) &&
        spec.some((i) => i instanceof Tensor)
      )
        checkKind('indexPut_', values.expr, this.expr);
      events.op(name);
      return this.rebind(convert(expr, this.dtype));
    }),
  });
}
