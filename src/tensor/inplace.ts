// Operations in place: a trailing underscore, as in torch. The tensor's value is replaced; nothing is overwritten, so
// graphs that used the old value keep it.

import { gradEnabled } from '../autograd/mode.js';
import type { TypedArray } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
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
import { currentStep } from './scope.js';
import { type Nested, Tensor } from './tensor.js';

/** The operations that have a form in place: add_ and so on. */
export const IN_PLACE = [
  'add',
  'sub',
  'mul',
  'div',
  'pow',
  'remainder',
  'neg',
  'abs',
  'exp',
  'log',
  'sqrt',
  'rsqrt',
  'square',
  'reciprocal',
  'sign',
  'floor',
  'ceil',
  'round',
  'trunc',
  'sigmoid',
  'tanh',
  'relu',
  'clamp',
  'lerp',
  'addcmul',
  'addcdiv',
  'maskedFill',
  'nanToNum',
  'indexPut',
  'indexAdd',
  'indexCopy',
  'indexFill',
  'scatter',
  'scatterAdd',
  'tril',
  'triu',
] as const satisfies readonly (keyof typeof ops)[];
type Name = (typeof IN_PLACE)[number];

export const zero = (x: Expr): Expr => full(x.shape, 0, x.dtype);
export const fill = (x: Expr, value: number | bigint | boolean): Expr => full(x.shape, value, x.dtype);
export const copy = (x: Expr, from: Expr): Expr => broadcastTo(convert(from, x.dtype), x.shape);
const more = { zero, fill, copy };

/** In place of fill_ and copy_ with values of the host's, outside of steps: nothing has to be computed. */
function setFromHost(t: Tensor, name: string, value: unknown): boolean {
  if (value instanceof Tensor || (name === 'fill' && t.numel() !== 1) || currentStep()) return false;
  const made = tensor(value as Nested, { dtype: t.dtype });
  if (String(made.shape) !== String(t.shape) && made.numel() !== 1)
    throw new ArgumentError(`${name}_: values of shape ${showShape(made.shape)} do not fit this ${t.aval}`);
  if (made.numel() !== t.numel()) return false; // one number for many elements: the program repeats it
  t.assign(nodeValue(made.expr) as TypedArray);
  return true;
}

export type InPlaceMethods = { [K in Name as `${K}_`]: (...args: Parameters<Tensor[K]>) => Tensor } & {
  zero_(): Tensor;
  fill_(value: number | bigint | boolean): Tensor;
  /**
   * Takes the values of another tensor, in its own dtype and shape; or numbers of the host's, which become its value without
   * a program: so a learning rate changes from step to step.
   */
  copy_(from: Tensor | Nested | TypedArray): Tensor;
};

for (const [name, f] of [...IN_PLACE.map((n) => [n, ops[n]] as const), ...Object.entries(more)]) {
  const compute = liftMethod(`${name}_`, f as (...args: never[]) => unknown);
  Object.defineProperty(Tensor.prototype, `${name}_`, {
    configurable: true,
    writable: true,
    value: entry(function (this: Tensor, ...args: unknown[]) {
      if (this.requiresGrad && gradEnabled()) {
        throw new ArgumentError(`${name}_: this ${this.expr.aval} is a variable: change it inside noGrad(() => ...)`);
      }
      if (name in more && args.length && setFromHost(this, name, args[0])) return this;
      const given =
        name === 'copy' && !(args[0] instanceof Tensor) ? [tensor(args[0] as Nested, { dtype: this.dtype })] : args;
      const { expr } = compute.apply(this, given) as Tensor;
      if (expr.shape.length !== this.shape.length || expr.shape.some((n, d) => n !== this.shape[d])) {
        throw new ArgumentError(
          `${name}_: the result is ${expr.aval}, and this tensor ${this.expr.aval}: shapes stay in place`,
        );
      }
      events.op(name);
      return this.rebind(convert(expr, this.dtype));
    }),
  });
}
