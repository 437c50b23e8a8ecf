// The strict primitive of convolutions. Its gradients are convolutions again, so there are derivatives of any order.
import { DTypeError, ShapeError } from '../../base/errors.js';
import { isInteger, kindOf } from '../../base/promote.js';
import { range, showShape } from '../../base/shape.js';
import type { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import { lowerAsProduct } from './convolution-product.js';
import { checkDType, define, i64, i64s, showAll } from './define.js';
import { permute, reshape, reverse } from './move.js';
import { type MatmulPrecision, precisionConfig, precisionSettings } from './precision.js';

/** Which dimension is which: of the operand batch and feature, of the kernel output and input feature; and those of space. */
export interface Roles {
  readonly batch: number;
  readonly feature: number;
  readonly space: readonly number[];
}
export interface Convolution {
  readonly x: Roles;
  /** The kernel's `batch` is the output feature, its `feature` the input feature. */
  readonly kernel: Roles;
  readonly y: Roles;
  readonly stride: readonly number[];
  /** Before and after, in each dimension of space; may be negative. */
  readonly padding: readonly (readonly [number, number])[];
  /** The distance between elements of the operand and of the kernel. */
  readonly dilation: readonly number[];
  readonly kernelDilation: readonly number[];
  /** The number of parts into which the features, or the batch, fall; each makes its own part of the output features. */
  readonly featureGroups: number;
  readonly batchGroups: number;
  /** The kernel's window is read from its end. Default: false. */
  readonly reversed?: boolean;
  /** Of convolutions of f32, where it was set: `tpu` as products are computed, `cuda` without TF32. */
  readonly precision?: { readonly tpu?: MatmulPrecision | undefined; readonly cuda?: MatmulPrecision | undefined };
}

/** The size of n elements spread out. */
const spread = (n: number, dilation: number): number => (n ? (n - 1) * dilation + 1 : 0);
const spaceOf = (x: Pick<Aval, 'shape'>, { space }: Roles): number[] => space.map((d) => x.shape[d]!);

/** A list with each value at its dimension. */
const placed = <T>({ batch, feature, space }: Roles, b: T, f: T, s: readonly T[]): T[] => {
  const out: T[] = [];
  out[batch] = b;
  out[feature] = f;
  space.forEach((d, i) => (out[d] = s[i]!));
  return out;
};

function infer([x, kernel]: readonly [Aval, Aval], c: Convolution): Aval {
  checkDType('convolution', [x, kernel], (d) => kindOf(d) > 0, 'numbers');
  if (x.dtype !== kernel.dtype) throw new DTypeError(`convolution: dtypes of ${showAll([x, kernel])} differ`);
  const [batch, features, out] = [x.shape[c.x.batch]!, x.shape[c.x.feature]!, kernel.shape[c.kernel.batch]!];
  const groups = c.featureGroups * c.batchGroups;
  if (features !== kernel.shape[c.kernel.feature]! * c.featureGroups || out % groups || batch % c.batchGroups) {
    throw new ShapeError(`convolution: features of ${showAll([x, kernel])} do not fit ${groups} groups`);
  }
  const [inner, window] = [spaceOf(x, c.x), spaceOf(kernel, c.kernel)];
  const space = inner.map((n, i) => {
    const total = spread(n, c.dilation[i]!) + c.padding[i]![0] + c.padding[i]![1];
    return Math.max(0, Math.floor((total - spread(window[i]!, c.kernelDilation[i]!)) / c.stride[i]!) + 1);
  });
  return x.withShape(placed(c.y, batch / c.batchGroups, out, space));
}

export function convolution(xs: [Expr, Expr], attrs: Convolution): Expr {
  const { matmul, cudnnTf32 } = precisionSettings();
  if (attrs.precision || xs[0].dtype !== 'f32' || (!matmul && cudnnTf32)) return convolutionOp(xs, attrs);
  return convolutionOp(xs, { ...attrs, precision: { tpu: matmul, cuda: cudnnTf32 ? undefined : 'highest' } });
}
const convolutionOp: (xs: [Expr, Expr], attrs: Convolution) => Expr = define<[Expr, Expr], Convolution>({
  name: 'convolution',
  infer,
  lower: (e, xs, c, out) => {
    const product = lowerAsProduct(e, xs, c, out);
    if (product) return product;
    const names = (r: Roles, b: string, f: string) =>
      showShape(placed<string>(r, b, f, range(r.space.length).map(String)) as never);
    const n = c.x.space.length;
    // cuDNN has no integers but i8: f64 is exact up to 2^53.
    const wide = e.platform === 'cuda' && isInteger(out.dtype);
    const [type, window] = [e.typeOf(xs[1]), { dimensions: i64s(c.kernel.space) }];
    const turned = c.reversed ? e.op('reverse', [xs[1]], [type], window)[0]! : xs[1];
    const read = [xs[0], turned];
    const operands = wide ? read.map((x) => e.op('convert', [x], [e.typeOf(x).withDType('f64')])[0]!) : read;
    const [y] = e.op('convolution', operands, [wide ? out.withDType('f64') : out], {
      window_strides: i64s(c.stride),
      padding: `dense<[${c.padding.map(([l, h]) => `[${l}, ${h}]`).join(', ')}]> : tensor<${n}x2xi64>`,
      lhs_dilation: i64s(c.dilation),
      rhs_dilation: i64s(c.kernelDilation),
      dimension_numbers: `#stablehlo.conv<${names(c.x, 'b', 'f')}x${names(c.kernel, 'o', 'i')}->${names(c.y, 'b', 'f')}>`,
      feature_group_count: i64(c.featureGroups),
      batch_group_count: i64(c.batchGroups),
      // Absent: as fast as the device can, which on a GPU is TF32, as in torch.
      ...precisionConfig(e, xs[0], c.precision?.[e.platform as 'tpu' | 'cuda'] ?? 'medium'),
    });
    return wide ? e.op('convert', [y!], [out])[0]! : y!;
  },
  vjp: (g, [x, kernel], c) => [
    x.differentiable ? towardsOperand(g, x, kernel, c) : null,
    kernel.differentiable ? towardsKernel(g, x, kernel, c) : null,
  ],
  batch: ({ xs: [x, kernel], stacked: [inX, inKernel], attrs: c, n }) => {
    const groups = c.featureGroups * c.batchGroups;
    if (!inKernel) {
      // Examples of the operand alone: more of its batch.
      const y = convolution([join(x, c.x.batch, c.batchGroups), kernel], c);
      return split(y, c.y.batch, n, 1);
    }
    if (!inX) {
      // Of the kernel alone: more output features, in each group.
      const y = convolution([x, join(kernel, c.kernel.batch, groups)], c);
      return split(y, c.y.feature, n, groups);
    }
    // Of both: groups.
    const byBatch = c.batchGroups > 1;
    const y = convolution([join(x, byBatch ? c.x.batch : c.x.feature, 1), join(kernel, c.kernel.batch, 1)], {
      ...c,
      ...(byBatch ? { batchGroups: n * c.batchGroups } : { featureGroups: n * c.featureGroups }),
    });
    return split(y, c.y.feature, n, 1);
  },
});

/**
 * g spread by the stride, convolved with the reversed kernel, whose features change places. What was one group of output
 * features (or came of one group of the batch) becomes one group of input features.
 */
function towardsOperand(g: Expr, x: Expr, kernel: Expr, c: Convolution): Expr {
  const groups = c.featureGroups * c.batchGroups;
  const [inner, window, outer] = [spaceOf(x, c.x), spaceOf(kernel, c.kernel), spaceOf(g, c.y)];
  const padding = inner.map((n, i): [number, number] => {
    const reach = spread(window[i]!, c.kernelDilation[i]!) - 1;
    const low = reach - c.padding[i]![0];
    return [low, spread(n, c.dilation[i]!) + reach - spread(outer[i]!, c.stride[i]!) - low];
  });
  const gx = convolution([g, moveGroups(kernel, c.kernel.batch, c.kernel.feature, groups)], {
    x: c.y,
    kernel: { ...c.kernel, batch: c.kernel.feature, feature: c.kernel.batch },
    y: c.x,
    stride: c.dilation,
    padding,
    dilation: c.stride,
    kernelDilation: c.kernelDilation,
    featureGroups: groups,
    batchGroups: 1,
    reversed: !c.reversed,
    ...(c.precision && { precision: c.precision }),
  });
  return moveGroups(gx, c.x.feature, c.x.batch, c.batchGroups);
}

/** x convolved with g as the kernel. The sum is over the batch, so the features of x take the place of its batch. */
function towardsKernel(g: Expr, x: Expr, kernel: Expr, c: Convolution): Expr {
  const [inner, window, outer] = [spaceOf(x, c.x), spaceOf(kernel, c.kernel), spaceOf(g, c.y)];
  const padding = inner.map((n, i): [number, number] => {
    const [low] = c.padding[i]!;
    const total = spread(window[i]!, c.kernelDilation[i]!) + spread(outer[i]!, c.stride[i]!) - 1;
    return [low, total - spread(n, c.dilation[i]!) - low];
  });
  const gKernel = convolution([x, g], {
    x: { ...c.x, batch: c.x.feature, feature: c.x.batch },
    kernel: { ...c.y, batch: c.y.feature, feature: c.y.batch },
    y: { ...c.kernel, batch: c.kernel.feature, feature: c.kernel.batch },
    stride: c.kernelDilation,
    padding,
    dilation: c.dilation,
    kernelDilation: c.stride,
    featureGroups: c.batchGroups,
    batchGroups: c.featureGroups,
    ...(c.precision && { precision: c.precision }),
  });
  return c.reversed ? reverse(gKernel, c.kernel.space) : gKernel;
}

/** The first dimension, of n examples, becomes part of dimension d of the rest: inside of its groups. */
function join(x: Expr, d: number, groups: number): Expr {
  const [n, ...shape] = x.shape as [number, ...number[]];
  const size = shape[d]!;
  const parts = reshape(x, [n, ...shape.slice(0, d), groups, size / groups, ...shape.slice(d + 1)]);
  const dims = range(parts.shape.length).slice(1);
  return reshape(permute(parts, [...dims.slice(0, d + 1), 0, ...dims.slice(d + 1)]), shape.with(d, n * size));
}
/** And back. */
function split(y: Expr, d: number, n: number, groups: number): Expr {
  const size = y.shape[d]! / n;
  const parts = reshape(y, [...y.shape.slice(0, d), groups, n, size / groups, ...y.shape.slice(d + 1)]);
  const front = permute(parts, [d + 1, ...range(parts.shape.length).filter((i) => i !== d + 1)]);
  return reshape(front, [n, ...y.shape.with(d, size)]);
}

/** Splits `groups` off the front of one dimension and puts them in front of another: [g a], b becomes a, [g b]. */
export function moveGroups(x: Expr, from: number, to: number, groups: number): Expr {
  if (groups === 1) return x;
  const split = x.shape.flatMap((n, d) => (d === from ? [groups, n / groups] : [n]));
  const dims = range(split.length).filter((d) => d !== from);
  const at = dims.indexOf(to > from ? to + 1 : to); // where `to` is, after the split
  const moved = permute(reshape(x, split), [...dims.slice(0, at), from, ...dims.slice(at)]);
  return reshape(
    moved,
    x.shape.map((n, d) => (d === from ? n / groups : d === to ? n * groups : n)),
  );
}
