// Jacobians and Hessians: all rows (reverse mode) or all columns (forward mode) at once, by mapping a product with the Jacobian
// over unit vectors.
import { checkWhole } from '../base/check.js';
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { isFloat } from '../base/promote.js';
import { leafName } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { entry } from '../ir/source.js';
import { stackLane } from '../ops/prim/batch.js';
import { parameter } from '../ops/prim/body.js';
import { full, iota, zerosLike } from '../ops/prim/constant.js';
import { convert, permute, reshape } from '../ops/prim/move.js';
import { eq } from '../ops/prim/pointwise.js';
import type { Args } from '../tensor/autograd.js';
import { Tensor } from '../tensor/tensor.js';
import type { FunctionOptions } from '../tensor/traced-function.js';
import { inLanes } from './lanes.js';
import { type Aux, Linear, type Value } from './vjp.js';

/** A tree like Y with a tree like X in place of each tensor. */
export type Jacobian<Y, X> = Y extends Tensor
  ? PerLeaf<X>
  : { [K in keyof Y]: Y[K] extends Tensor ? PerLeaf<X> : Jacobian<Y[K], X> };
type PerLeaf<X> = X extends Tensor ? Tensor : { [K in keyof X]: PerLeaf<X[K]> };
/** The arguments to differentiate. Default: 0. */
type By<F, N> = N extends readonly number[]
  ? { [K in keyof N]: Args<F>[N[K] & keyof Args<F>] }
  : Args<F>[N & keyof Args<F>];

export interface JacobianOptions<N extends number | readonly number[] = number | readonly number[]>
  extends FunctionOptions<N> {
  /** The number of rows (jacfwd: columns) computed at a time. Default: all. */
  readonly chunkSize?: number | null;
}
type Jac = {
  <F extends (...args: never[]) => readonly [unknown, unknown], const N extends number | readonly number[] = 0>(
    f: F,
    options: JacobianOptions<N> & { readonly hasAux: true },
  ): (...args: Args<F>) => [Jacobian<Value<F, { hasAux: true }>, By<F, N>>, Aux<F>];
  <F extends (...args: never[]) => unknown, const N extends number | readonly number[] = 0>(
    f: F,
    options?: JacobianOptions<N>,
  ): (...args: Args<F>) => Jacobian<ReturnType<F>, By<F, N>>;
};

/** One row for each element of a type, in which it is 1. */
function basis(x: Expr): Expr {
  const { size } = x.aval;
  const square = [size, size];
  const ones = convert(eq(iota(square, 0, 'i32'), iota(square, 1, 'i32')), x.dtype);
  return reshape(ones, [size, ...x.shape]);
}

/** [from..., to...] as [to..., from...]. */
function swapped(x: Expr, from: number): Expr {
  const dims = x.shape.map((_, d) => d);
  return permute(x, [...dims.slice(from), ...dims.slice(0, from)]);
}

/** For each result, row by row: the derivatives by each tensor of the arguments. */
function rows(linear: Linear, chunkSize: number | null): Expr[][] {
  return linear.ys.map((y) => {
    const shapeBy = (x: Expr) => [...y.shape, ...x.shape];
    if (!y.differentiable || !y.aval.size) return linear.given.map((x) => full(shapeBy(x), 0, x.dtype));
    const row = parameter(y.aval);
    const flow = linear.outside(linear.back([y], [row]));
    const lanes = inLanes(flow, new Map([[row, { x: basis(y), stacked: true }]]), y.aval.size, chunkSize);
    return lanes.map((l, i) => reshape(stackLane(l, y.aval.size), shapeBy(linear.given[i]!)));
  });
}

/** The same, column by column. */
function columns(linear: Linear, chunkSize: number | null): Expr[][] {
  const byInput = linear.given.map((x, i) => {
    const { size } = x.aval;
    if (!size) return linear.ys.map((y) => full([...y.shape, ...x.shape], 0, y.dtype));
    const column = parameter(x.aval);
    const change = linear.push(linear.given.map((other, k) => (k === i ? column : zerosLike(other))));
    const lanes = inLanes(change, new Map([[column, { x: basis(x), stacked: true }]]), size, chunkSize);
    return lanes.map((l, k) =>
      swapped(reshape(stackLane(l, size), [...x.shape, ...linear.ys[k]!.shape]), x.shape.length),
    );
  });
  return linear.ys.map((_, k) => byInput.map((list) => list[k]!));
}

const jacobian = (op: string, parts: (linear: Linear, chunkSize: number | null) => Expr[][]) =>
  entry((f: (...args: never[]) => unknown, options: JacobianOptions = {}): unknown => {
    checkOptions(op, ['argnums', 'hasAux', 'chunkSize'], options);
    const { argnums = 0, hasAux = false, chunkSize = null } = options;
    if (chunkSize !== null) checkWhole(`${op}: chunkSize`, chunkSize, 1);
    return entry((...args: unknown[]) => {
      const linear = new Linear(op, f, args, { argnums, hasAux });
      linear.ys.forEach((y, i) => {
        if (!isFloat(y.dtype))
          throw new ArgumentError(
            `${op}: ${leafName("the function's result", linear.out.paths[i]!)} is ${y.aval}: only floats have derivatives: return it as aux, with hasAux`,
          );
      });
      const jacobians = parts(linear, chunkSize).map((list) => {
        const byArgument = linear.arguments(list.map((e) => new Tensor(e)));
        return typeof argnums === 'number' ? byArgument[0] : byArgument;
      });
      const all = linear.out.rebuild(jacobians);
      return hasAux ? [all, linear.others] : all;
    });
  }) as Jac;

/** The Jacobian of f by reverse mode, [...result, ...argument]: best if the result is smaller than the argument. */
export const jacrev: Jac = jacobian('jacrev', rows);
/** The Jacobian of f by forward mode, [...result, ...argument]: best if the argument is smaller than the result. */
export const jacfwd: Jac = jacobian('jacfwd', columns);

/** The second derivatives of f, [...result, ...argument, ...argument]: forward mode over reverse mode. */
export const hessian = entry(
  (f: (...args: never[]) => unknown, options: { readonly argnums?: number | readonly number[] } = {}): unknown => {
    checkOptions('hessian', ['argnums'], options);
    return jacfwd(jacrev(f, options), options);
  },
) as <F extends (...args: never[]) => unknown, const N extends number | readonly number[] = 0>(
  f: F,
  options?: { readonly argnums?: N },
) => (...args: Args<F>) => Jacobian<Jacobian<ReturnType<F>, By<F, N>>, By<F, N>>;
