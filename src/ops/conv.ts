// Convolutions over 1, 2 or 3 spatial dimensions: [N, C, ...space], or [C, ...space] without a batch.
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { range } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { type Convolution, convolution, moveGroups, type Roles } from './prim/convolution.js';
import { dtypesDiffer, typesOf } from './prim/define.js';
import { reshape, reverse } from './prim/move.js';
import { add } from './prim/pointwise.js';
import { type Sizes, sizesOf, withBatch } from './window.js';

export interface ConvOptions {
  readonly bias?: Expr | null;
  readonly stride?: Sizes;
  /** Zeros on both sides; 'same' keeps the size (stride 1 only), 'valid' is none. */
  readonly padding?: Sizes | 'same' | 'valid';
  readonly dilation?: Sizes;
  readonly groups?: number;
}
export interface ConvTransposeOptions {
  readonly bias?: Expr | null;
  readonly stride?: Sizes;
  readonly padding?: Sizes;
  /** Added to one side of the result's size. */
  readonly outputPadding?: Sizes;
  readonly groups?: number;
  readonly dilation?: Sizes;
}
type Conv<Options> = (x: Expr, weight: Expr, options?: Options) => Expr;

const roles = (n: number): Roles => ({ batch: 0, feature: 1, space: range(n).map((d) => d + 2) });
const plain = (n: number): Pick<Convolution, 'x' | 'kernel' | 'y' | 'batchGroups'> => ({
  x: roles(n),
  kernel: roles(n),
  y: roles(n),
  batchGroups: 1,
});

/** What both kinds check: `channels` is which dimension of the weight has the input's channels, `out` the result's. */
function checkConv(op: string, n: number, xs: readonly Expr[], groups: number, transposed: boolean): void {
  const [x, weight, bias] = xs as [Expr, Expr, Expr?];
  if (xs.some((y) => y.dtype !== x.dtype)) throw new DTypeError(dtypesDiffer(op, xs));
  const form = transposed ? '[in, out / groups' : '[out, in / groups';
  const fits = weight.shape.length === n + 2;
  const [of, ours] = [x.shape.at(-n - 1)!, weight.shape[transposed ? 0 : 1]! * (transposed ? 1 : groups)];
  if (!fits) throw new ShapeError(`${op}: takes a weight ${form}, ...window of ${n}], got ${typesOf([x, weight])}`);
  if (!Number.isInteger(groups) || groups < 1 || weight.shape[0]! % groups) {
    throw new ArgumentError(
      `${op}: ${groups} groups do not divide the ${weight.shape[0]} features of weight ${weight.aval}`,
    );
  }
  if (of !== ours)
    throw new ShapeError(
      `${op}: ${x.aval} has ${of} channels, weight ${weight.aval} takes ${ours} with ${groups} groups`,
    );
  const out = transposed ? weight.shape[1]! * groups : weight.shape[0]!;
  if (bias && (bias.shape.length !== 1 || bias.shape[0] !== out))
    throw new ShapeError(`${op}: bias is ${bias.aval}: it takes [${out}]`);
}
const withBias = (y: Expr, bias: Expr | null | undefined, n: number): Expr =>
  bias ? add(y, reshape(bias, [...bias.shape, ...range(n).map(() => 1)])) : y;

const conv =
  (op: string, n: number): Conv<ConvOptions> =>
  (x, weight, { bias, stride = 1, padding = 0, dilation = 1, groups = 1 } = {}) =>
    withBatch(op, x, n, (batch) => {
      checkConv(op, n, [x, weight, ...(bias ? [bias] : [])], groups, false);
      const window = weight.shape.slice(2);
      const [strides, dilations] = [sizesOf(op, 'stride', stride, n, 1), sizesOf(op, 'dilation', dilation, n, 1)];
      if (padding === 'same' && strides.some((s) => s > 1)) {
        throw new ArgumentError(
          `${op}: padding 'same' needs stride 1, got [${strides.join(', ')}]: give numbers as padding`,
        );
      }
      const sides = typeof padding === 'string' ? range(n).map(() => 0) : sizesOf(op, 'padding', padding, n, 0);
      const pads = sides.map((p, i): [number, number] => {
        const total = padding === 'same' ? dilations[i]! * (window[i]! - 1) : 2 * p;
        return [Math.floor(total / 2), Math.ceil(total / 2)];
      });
      window.forEach((k, i) => {
        const [have, need] = [batch.shape[i + 2]! + pads[i]![0] + pads[i]![1], dilations[i]! * (k - 1) + 1];
        if (have < need)
          throw new ShapeError(
            `${op}: the window covers ${need} elements, but the padded input ${x.aval} has ${have} in dim ${i - n}`,
          );
      });
      const y = convolution([batch, weight], {
        ...plain(n),
        stride: strides,
        padding: pads,
        dilation: strides.map(() => 1),
        kernelDilation: dilations,
        featureGroups: groups,
      });
      return withBias(y, bias, n);
    });
export const conv1d = conv('conv1d', 1);
export const conv2d = conv('conv2d', 2);
export const conv3d = conv('conv3d', 3);

const convTranspose =
  (op: string, n: number): Conv<ConvTransposeOptions> =>
  (x, weight, { bias, stride = 1, padding = 0, outputPadding = 0, groups = 1, dilation = 1 } = {}) =>
    withBatch(op, x, n, (batch) => {
      checkConv(op, n, [x, weight, ...(bias ? [bias] : [])], groups, true);
      const [strides, dilations] = [sizesOf(op, 'stride', stride, n, 1), sizesOf(op, 'dilation', dilation, n, 1)];
      const [pads, extra] = [sizesOf(op, 'padding', padding, n, 0), sizesOf(op, 'outputPadding', outputPadding, n, 0)];
      extra.forEach((e, i) => {
        if (e >= Math.max(strides[i]!, dilations[i]!)) {
          throw new ArgumentError(
            `${op}: outputPadding ${e} must be less than stride ${strides[i]} or dilation ${dilations[i]}`,
          );
        }
      });
      const { kernel, ...others } = plain(n);
      // The weight is [groups in, out]; a kernel takes it as [in, groups out].
      const turned = moveGroups(reverse(weight, kernel.space), 0, 1, groups);
      const reach = weight.shape.slice(2).map((k, i) => dilations[i]! * (k - 1));
      const y = convolution([batch, turned], {
        ...others,
        kernel: { ...kernel, batch: 1, feature: 0 },
        stride: strides.map(() => 1),
        padding: reach.map((r, i): [number, number] => [r - pads[i]!, r - pads[i]! + extra[i]!]),
        dilation: strides,
        kernelDilation: dilations,
        featureGroups: groups,
      });
      return withBias(y, bias, n);
    });
export const convTranspose1d = convTranspose('convTranspose1d', 1);
export const convTranspose2d = convTranspose('convTranspose2d', 2);
export const convTranspose3d = convTranspose('convTranspose3d', 3);
