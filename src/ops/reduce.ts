// The primitives that reduce dimensions: those given, counted from the front, or all; they are dropped.
import type { DType } from '../base/dtype.js';
import { highest, literal, lowest } from '../base/literal.js';
import { kindOf } from '../base/promote.js';
import { normalizeDims, range } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { checkDType, define, i64s } from './define.js';
import { broadcastInDim, convert, reshape } from './move.js';
import { div, eq, mul } from './pointwise.js';

interface Dims {
  readonly dims: readonly number[];
}
type Reduce = (x: Expr, dims?: readonly number[]) => Expr;
type Accepts = readonly [accepts: (d: DType) => boolean, what: string];
/** The sum over the reduced dimensions, stretched back. */
type Share = (x: Expr) => Expr;

/** A reduction with a binary op of StableHLO's, which starts from `initial`. */
function reduction(
  name: string,
  hlo: string,
  initial: (d: DType) => number | bigint | boolean,
  accepts: Accepts,
  vjp?: (g: Expr, x: Expr, y: Expr, share: Share) => Expr,
): Reduce {
  const op = define<[Expr], Dims>({
    name,
    infer: ([x], { dims }) => {
      checkDType(name, [x], ...accepts);
      return x.withShape(x.shape.filter((_, d) => !dims.includes(d)));
    },
    lower: (e, [x], { dims }, out) => {
      const scalar = out.withShape([]);
      const [start] = e.op('constant', [], [scalar], {
        value: `dense<${literal(initial(out.dtype), out.dtype)}> : ${scalar.mlir}`,
      });
      const body = e.region([scalar, scalar], (xs) => e.op(hlo, xs, [scalar]));
      return e.op('reduce', [x, start!], [out], { dimensions: i64s(dims) }, [body])[0]!;
    },
    ...(vjp && {
      // What comes back is stretched to the operand's shape; the rule then only says how much of it each element gets.
      vjp: (g: Expr, [x]: readonly [Expr], { dims }: Dims, y: Expr): readonly [Expr] => {
        const stretch = (r: Expr) =>
          broadcastInDim(
            r,
            x.shape,
            range(x.shape.length).filter((d) => !dims.includes(d)),
          );
        return [vjp(stretch(g), x, stretch(y), (part) => stretch(reduceSum(part, dims)))];
      },
    }),
  });
  return (x, dims = range(x.shape.length)) => (dims.length ? op([x], { dims }) : x);
}

const numbers: Accepts = [(d) => kindOf(d) > 0, 'numbers'];
const anything: Accepts = [() => true, 'anything'];
const booleans: Accepts = [(d) => d === 'bool', 'booleans'];

export const reduceSum = reduction(
  'reduceSum',
  'add',
  () => 0,
  numbers,
  (g) => g,
);
/** Without a gradient of its own: elements may be zero, so `prod` makes it from others. */
export const reduceProd = reduction('reduceProd', 'multiply', () => 1, numbers);
/** Equal extremes share the gradient, as in torch. */
const toExtremes = (g: Expr, x: Expr, y: Expr, share: Share): Expr => {
  const hit = convert(eq(x, y), g.dtype);
  return mul(g, div(hit, share(hit)));
};
export const reduceMax = reduction('reduceMax', 'maximum', lowest, anything, toExtremes);
export const reduceMin = reduction('reduceMin', 'minimum', highest, anything, toExtremes);
export const reduceAnd = reduction('reduceAnd', 'and', () => true, booleans);
export const reduceOr = reduction('reduceOr', 'or', () => false, booleans);

// ---- dimensions as torch takes them

/** One dimension, several, or an object that names them; nothing means all. */
export type DimOption =
  | number
  | readonly number[]
  | { readonly dim?: number | readonly number[]; readonly keepdim?: boolean };

const isList = (o: DimOption): o is number | readonly number[] => typeof o === 'number' || Array.isArray(o);

/** Applies a strict reduction to the dimensions an option means. */
export function reduceOver(
  name: string,
  x: Expr,
  option: DimOption | undefined,
  reduce: (x: Expr, dims: readonly number[]) => Expr,
): Expr {
  const { dim, keepdim = false } = option === undefined ? {} : isList(option) ? { dim: option } : option;
  const dims = normalizeDims(name, dim, x.shape.length);
  const y = reduce(x, dims);
  return keepdim
    ? reshape(
        y,
        x.shape.map((n, d) => (dims.includes(d) ? 1 : n)),
      )
    : y;
}
