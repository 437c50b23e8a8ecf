// The strict primitive of convolutions. Its gradients are convolutions again, so there are derivatives of any order.
import { DTypeError, ShapeError } from '../../base/errors.js';
import { kindOf } from '../../base/promote.js';
import { range, showShape } from '../../base/shape.js';
import type { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import { checkDType, define, i64, i64s, showAll } from './define.js';
import { permute, reshape, reverse } from './move.js';

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
  /** The features, or the batch, fall into so many parts; each makes its own part of the output features. */
  readonly featureGroups: number;
  readonly batchGroups: number;
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

export const convolution: (xs: [Expr, Expr], attrs: Convolution) => Expr = define<[Expr, Expr], Convolution>({
  name: 'convolution',
  infer,
  lower: (e, xs, c, out) => {
    const names = (r: Roles, b: string, f: string) =>
      showShape(placed<string>(r, b, f, range(r.space.length).map(String)) as never);
    const n = c.x.space.length;
    return e.op('convolution', xs, [out], {
      window_strides: i64s(c.stride),
      padding: `dense<[${c.padding.map(([l, h]) => `[${l}, ${h}]`).join(', ')}]> : tensor<${n}x2xi64>`,
      lhs_dilation: i64s(c.dilation),
      rhs_dilation: i64s(c.kernelDilation),
      dimension_numbers: `#stablehlo.conv<${names(c.x, 'b', 'f')}x${names(c.kernel, 'o', 'i')}->${names(c.y, 'b', 'f')}>`,
      feature_group_count: i64(c.featureGroups),
      batch_group_count: i64(c.batchGroups),
    })[0]!;
  },
  vjp: (g, [x, kernel], c) => [
    x.differentiable ? towardsOperand(g, x, kernel, c) : null,
    kernel.differentiable ? towardsKernel(g, x, kernel, c) : null,
  ],
});

/**
 * g spread by the stride, convolved with the reversed kernel, whose features change places. What was one group of output
 * features (or came of one group of the batch) becomes one group of input features.
 */
function towardsOperand(g: Expr, x: Expr, kernel: Expr, c: Convolution): Expr {
  const groups = c.featureGroups * c.batchGroups;
  const turned = reverse(kernel, c.kernel.space);
  const [inner, window, outer] = [spaceOf(x, c.x), spaceOf(kernel, c.kernel), spaceOf(g, c.y)];
  const padding = inner.map((n, i): [number, number] => {
    const reach = spread(window[i]!, c.kernelDilation[i]!) - 1;
    const low = reach - c.padding[i]![0];
    return [low, spread(n, c.dilation[i]!) + reach - spread(outer[i]!, c.stride[i]!) - low];
  });
  const gx = convolution([g, moveGroups(turned, c.kernel.batch, c.kernel.feature, groups)], {
    x: c.y,
    kernel: { ...c.kernel, batch: c.kernel.feature, feature: c.kernel.batch },
    y: c.x,
    stride: c.dilation,
    padding,
    dilation: c.stride,
    kernelDilation: c.kernelDilation,
    featureGroups: groups,
    batchGroups: 1,
  });
  return moveGroups(gx, c.x.feature, c.x.batch, c.batchGroups);
}

/** x convolved with g as the kernel, the batch being what is summed over: features of x are its batch now. */
function towardsKernel(g: Expr, x: Expr, kernel: Expr, c: Convolution): Expr {
  const [inner, window, outer] = [spaceOf(x, c.x), spaceOf(kernel, c.kernel), spaceOf(g, c.y)];
  const padding = inner.map((n, i): [number, number] => {
    const [low] = c.padding[i]!;
    const total = spread(window[i]!, c.kernelDilation[i]!) + spread(outer[i]!, c.stride[i]!) - 1;
    return [low, total - spread(n, c.dilation[i]!) - low];
  });
  return convolution([x, g], {
    x: { ...c.x, batch: c.x.feature, feature: c.x.batch },
    kernel: { ...c.y, batch: c.y.feature, feature: c.y.batch },
    y: { ...c.kernel, batch: c.kernel.feature, feature: c.kernel.batch },
    stride: c.kernelDilation,
    padding,
    dilation: c.dilation,
    kernelDilation: c.stride,
    featureGroups: c.batchGroups,
    batchGroups: c.featureGroups,
  });
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
