// The inverse of max pooling: each value goes to the index it was taken from, zeros elsewhere.
import { sizeOf } from '../base/dtype.js';
import { ShapeError } from '../base/errors.js';
import { type Shape, sameShape, showShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { full } from './prim/constant.js';
import { scatterAlong } from './prim/gather.js';
import { reshape } from './prim/move.js';
import { type Sizes, sizesOf } from './window.js';

export interface MaxUnpoolOptions {
  /** Default: the window's size. */
  readonly stride?: Sizes;
  readonly padding?: Sizes;
  /** The output size: the spatial dimensions, or all. */
  readonly outputSize?: Shape;
}
const maxUnpool =
  (op: string, n: number) =>
  (x: Expr, indices: Expr, kernelSize: Sizes, { stride, padding = 0, outputSize }: MaxUnpoolOptions = {}): Expr => {
    if (x.shape.length !== n + 1 && x.shape.length !== n + 2)
      throw new ShapeError(`${op}: takes ${n} spatial dimensions after [N, C] or [C], got ${x.aval}`);
    if (!sameShape(x.shape, indices.shape))
      throw new ShapeError(`${op}: ${x.aval} and its indices ${indices.aval} differ in shape`);
    const k = sizesOf(op, 'kernelSize', kernelSize, n, 1);
    const s = sizesOf(op, 'stride', stride ?? kernelSize, n, 1);
    const p = sizesOf(op, 'padding', padding, n, 0);
    const lead = x.shape.slice(0, -n);
    const usual = k.map((size, i) => (x.shape.at(i - n)! - 1) * s[i]! + size - 2 * p[i]!);
    const space = outputSize ? outputSize.slice(-n) : usual;
    if (outputSize && outputSize.length !== n && outputSize.length !== x.shape.length)
      throw new ShapeError(`${op}: outputSize is ${showShape(outputSize)}: give ${n} sizes`);
    const odd = space.findIndex((size, i) => Math.abs(size - usual[i]!) >= s[i]!);
    if (odd >= 0)
      throw new ShapeError(
        `${op}: outputSize is ${showShape(space)}: in dim ${odd} of space it must be within ${s[odd]! - 1} of ${usual[odd]}`,
      );
    const rows = (y: Expr) => reshape(y, [sizeOf(lead), sizeOf(x.shape.slice(-n))]);
    const zeros = full([sizeOf(lead), sizeOf(space)], 0, x.dtype);
    return reshape(scatterAlong(zeros, rows(indices), rows(x), 1, 'set'), [...lead, ...space]);
  };
export const maxUnpool1d = maxUnpool('maxUnpool1d', 1);
export const maxUnpool2d = maxUnpool('maxUnpool2d', 2);
export const maxUnpool3d = maxUnpool('maxUnpool3d', 3);
