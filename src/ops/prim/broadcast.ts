// Broadcasting and summing: the gradient of each is the other. And how other reductions are declared.
import type { DType } from '../../base/dtype.js';
import { ShapeError } from '../../base/errors.js';
import { literal } from '../../base/literal.js';
import { kindOf, wideType } from '../../base/promote.js';
import { range, type Shape, sameShape, showShape } from '../../base/shape.js';
import type { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import {
  type Accepts,
  checkDType,
  comparing,
  define,
  forgetsNaN,
  i64s,
  next,
  scalarConstant,
  shifted,
} from './define.js';
import { reshape } from './move.js';

// ---- broadcast

const broadcastOp = define<[Expr], { shape: Shape; dims: readonly number[] }>({
  name: 'broadcastInDim',
  infer: ([x], { shape }) => x.withShape(shape),
  lower: (e, xs, { dims }, out) => e.op('broadcast_in_dim', xs, [out], { broadcast_dimensions: i64s(dims) })[0]!,
  vjp: (g, [x], { dims }) => {
    const stretched = range(g.shape.length).filter((d) => !dims.includes(d) || x.shape[dims.indexOf(d)] !== g.shape[d]);
    return [reshape(reduceSum(g, stretched), x.shape)];
  },
  batch: shifted(({ shape, dims }, n) => ({ shape: [n, ...shape], dims: [0, ...next(dims)] })),
});
/** Dimension i of x becomes dimension dims[i] of the result. */
export const broadcastInDim = (x: Expr, shape: Shape, dims: readonly number[]): Expr =>
  broadcastOp([x], { shape, dims });

/** Stretches dimensions of size 1 and adds leading ones, as broadcasting does. */
export function broadcastTo(x: Expr, shape: Shape): Expr {
  if (sameShape(x.shape, shape)) return x;
  const lead = shape.length - x.shape.length;
  if (lead < 0 || x.shape.some((d, i) => d !== 1 && d !== shape[i + lead])) {
    throw new ShapeError(`broadcastTo: ${x.aval} does not broadcast to ${showShape(shape)}`);
  }
  return broadcastInDim(
    x,
    shape,
    range(x.shape.length).map((d) => d + lead),
  );
}

// ---- reductions: dimensions given, counted from the front, or all; they are dropped

interface Dims {
  readonly dims: readonly number[];
}
type Reduce = (x: Expr, dims?: readonly number[]) => Expr;
/** The sum over the reduced dimensions, stretched back. */
export type Share = (x: Expr) => Expr;

export const without = (x: Aval, dims: readonly number[]): Aval =>
  x.withShape(x.shape.filter((_, d) => !dims.includes(d)));
/** A reduced array, broadcast to the shape before the reduction. */
export const stretched = (y: Expr, { shape }: Expr, dims: readonly number[]): Expr =>
  broadcastInDim(
    y,
    shape,
    range(shape.length).filter((d) => !dims.includes(d)),
  );

/** A reduction with a binary op of StableHLO's, which starts from `initial`. */
export function reduction(
  name: string,
  hlo: string,
  initial: (d: DType) => number | bigint | boolean,
  accepts: Accepts,
  vjp?: (g: Expr, x: Expr, y: Expr, share: Share, dims: readonly number[]) => Expr,
  keepNaN = true,
): Reduce {
  const wide = hlo === 'add' || hlo === 'multiply';
  const op = define<[Expr], Dims>({
    name,
    infer: ([x], { dims }) => {
      checkDType(name, [x], ...accepts);
      return without(x, dims);
    },
    lower: (e, [x], { dims }, out) => {
      const inner = wide ? out.withDType(wideType(out.dtype)) : out;
      const scalar = inner.withShape([]);
      const given = inner === out ? x : e.op('convert', [x], [e.typeOf(x).withDType(inner.dtype)])[0]!;
      const body = e.region([scalar, scalar], (xs) => e.op(hlo, xs, [scalar]));
      const start = scalarConstant(e, initial(inner.dtype), scalar);
      const over = { dimensions: i64s(dims) };
      const [y] = e.op('reduce', [given, start], [inner], over, [body]);
      if (inner !== out) return e.op('convert', [y!], [out])[0]!;
      if (!keepNaN || !forgetsNaN(e, hlo, out)) return y!;
      const [flags, flag, any] = [e.typeOf(x), scalar, out].map((t) => t.withDType('bool')) as [Aval, Aval, Aval];
      const either = e.region([flag, flag], (xs) => e.op('or', xs, [flag]));
      const nans = e.op('compare', [x, x], [flags], comparing('NE', out.dtype));
      const [hit] = e.op('reduce', [nans[0]!, scalarConstant(e, false, flag)], [any], over, [either]);
      const nan = e.op('constant', [], [out], { value: `dense<${literal(Number.NaN, out.dtype)}> : ${out.mlir}` });
      return e.op('select', [hit!, nan[0]!, y!], [out])[0]!;
    },
    batch: shifted(({ dims }) => ({ dims: next(dims) })),
    ...(vjp && {
      // What comes back is stretched to the operand's shape; the rule then only says how much of it each element gets.
      vjp: (g: Expr, [x]: readonly [Expr], { dims }: Dims, y: Expr): readonly [Expr] => {
        const stretch = (r: Expr) => stretched(r, x, dims);
        return [vjp(stretch(g), x, stretch(y), (part) => stretch(reduceSum(part, dims)), dims)];
      },
    }),
  });
  return (x, dims = range(x.shape.length)) => (dims.length ? op([x], { dims }) : x);
}

export const numbers: Accepts = [(d) => kindOf(d) > 0, 'numbers'];
export const reduceSum = reduction(
  'reduceSum',
  'add',
  () => 0,
  numbers,
  (g) => g,
);
