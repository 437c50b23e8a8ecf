// Moving windows and fixed places along one dimension: what pooling and interpolation are made of.
import type { DType } from '../base/dtype.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { literal } from '../base/literal.js';
import { range } from '../base/shape.js';
import { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { full } from './constant.js';
import { define, i64s, showAll } from './define.js';
import { convert, pad, reshape, sliceDim } from './move.js';

/** Pads one dimension; negative counts take away. */
export const padDim = (x: Expr, dim: number, low: number, high: number, value: number | bigint | boolean): Expr => {
  const at = (n: number) => x.shape.map((_, d) => (d === dim ? n : 0));
  return pad(x, full([], value, x.dtype), at(low), at(high), at(0));
};
export const zeroPad = (x: Expr, dim: number, low: number, high: number): Expr => padDim(x, dim, low, high, 0);

export interface Window {
  readonly size: number;
  readonly stride: number;
  readonly dilation: number;
}
/** For each place in the window, what stands there in all of `count` windows. */
export const places = (x: Expr, dim: number, count: number, { size, stride, dilation }: Window): Expr[] =>
  range(size).map((k) => sliceDim(x, dim, k * dilation, k * dilation + (count ? (count - 1) * stride + 1 : 0), stride));

const listOp = define<[], { values: readonly string[]; aval: Aval }>({
  name: 'list',
  infer: (_, { aval }) => aval,
  lower: (e, _, { values }, out) => e.op('constant', [], [out], { value: `dense<[${values}]> : ${out.mlir}` })[0]!,
});
/** Numbers known now, laid along dimension `dim` of `rank`. */
export const along = (values: readonly number[], dim: number, rank: number, dtype: DType): Expr =>
  reshape(
    listOp([], { values: values.map((v) => literal(v, dtype)), aval: Aval.of(dtype, [values.length]) }),
    range(rank).map((d) => (d === dim ? values.length : 1)),
  );

// ---- elements at fixed places of one dimension

interface Take {
  readonly dim: number;
  readonly indices: readonly number[];
  /** The size of the dimension they are taken from. */
  readonly size: number;
}
const others = (rank: number, dim: number): string =>
  `[${range(rank)
    .filter((d) => d !== dim)
    .join(', ')}]`;
const indexAval = (n: number): Aval => Aval.of('i32', [n]);
const denseIndices = (indices: readonly number[]): string =>
  `dense<[${indices.join(', ')}]> : ${indexAval(indices.length).mlir}`;

const takeOp: (xs: [Expr], attrs: Take) => Expr = define<[Expr], Take>({
  name: 'takeFixed',
  infer: ([x], { dim, indices }) => x.withShape(x.shape.with(dim, indices.length)),
  lower: (e, [x], { dim, indices }, out) => {
    const [at] = e.op('constant', [], [indexAval(indices.length)], { value: denseIndices(indices) });
    const numbers = `offset_dims = ${others(out.rank, dim)}, collapsed_slice_dims = [${dim}], start_index_map = [${dim}], index_vector_dim = 1`;
    const attrs = {
      dimension_numbers: `#stablehlo.gather<${numbers}>`,
      slice_sizes: i64s(e.typeOf(x).shape.with(dim, 1)),
      indices_are_sorted: 'false',
    };
    return e.op('gather', [x, at!], [out], attrs)[0]!;
  },
  vjp: (g, _, attrs) => [putOp([g], attrs)],
});
const putOp: (xs: [Expr], attrs: Take) => Expr = define<[Expr], Take>({
  name: 'putFixed',
  infer: ([x], { dim, size }) => x.withShape(x.shape.with(dim, size)),
  lower: (e, [x], { dim, indices }, out) => {
    const [at] = e.op('constant', [], [indexAval(indices.length)], { value: denseIndices(indices) });
    const [zero] = e.op('constant', [], [out], { value: `dense<${literal(0, out.dtype)}> : ${out.mlir}` });
    const scalar = out.withShape([]);
    const attrs = {
      scatter_dimension_numbers: `#stablehlo.scatter<update_window_dims = ${others(out.rank, dim)}, inserted_window_dims = [${dim}], scatter_dims_to_operand_dims = [${dim}], index_vector_dim = 1>`,
      indices_are_sorted: 'false',
      unique_indices: 'false',
    };
    return e.op('scatter', [zero!, at!, x], [out], attrs, [
      e.region([scalar, scalar], (xs) => e.op('add', xs, [scalar])),
    ])[0]!;
  },
  vjp: (g, _, attrs) => [takeOp([g], attrs)],
});
/** x[..., indices, ...] along one dimension, for indices known now. */
export const takeFixed = (x: Expr, dim: number, indices: readonly number[]): Expr =>
  indices.length === x.shape[dim] && indices.every((n, i) => n === i)
    ? x
    : takeOp([x], { dim, indices, size: x.shape[dim]! });

// ---- what public functions over space share

/** One number for every dimension of space, or one each. */
export type Sizes = number | readonly number[];
export const typesOf = (xs: readonly Expr[]): string => showAll(xs.map((x) => x.aval));
const SPACE = ['[N, C, L]', '[N, C, H, W]', '[N, C, D, H, W]'] as const;

export function sizesOf(op: string, what: string, given: Sizes, n: number, least: number): readonly number[] {
  const list =
    typeof given === 'number' ? range(n).map(() => given) : given.length === 1 ? range(n).map(() => given[0]!) : given;
  if (list.length !== n) throw new ArgumentError(`${op}: ${what} is [${list.join(', ')}]: give one number, or ${n}`);
  const bad = list.find((k) => !Number.isInteger(k) || k < least);
  if (bad !== undefined) throw new ArgumentError(`${op}: ${what} is ${bad}: use whole numbers from ${least} on`);
  return list;
}

/** Calls `f` with a batch dimension, which is added and taken off again where there is none. */
export function withBatch(op: string, x: Expr, n: number, f: (x: Expr) => Expr): Expr {
  if (x.shape.length !== n + 2 && x.shape.length !== n + 1) {
    throw new ShapeError(`${op}: takes ${SPACE[n - 1]}, or that without N, got ${x.aval}`);
  }
  if (x.shape.length === n + 2) return f(x);
  const y = f(reshape(x, [1, ...x.shape]));
  return reshape(y, y.shape.slice(1));
}

/** Sums of halves are rounded once, at the end: `f` gets them as f32. */
export const inF32 = (x: Expr, f: (x: Expr) => Expr): Expr =>
  x.dtype === 'f16' || x.dtype === 'bf16' ? convert(f(convert(x, 'f32')), x.dtype) : f(x);
