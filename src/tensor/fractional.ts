// Fractional max pooling: windows at random places, for any output size (Graham, arXiv:1412.6071).
import { sizeOf } from '../base/dtype.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { range, type Shape, showShape } from '../base/shape.js';
import { listed, shown } from '../base/tree.js';
import { sizesOf } from '../ops/window.js';
import { checked, named } from './arguments.js';
import { arange, full } from './create.js';
import { cat } from './functions.js';
import type { MaxPooled } from './pooled.js';
import { rand } from './random.js';
import type { Tensor } from './tensor.js';
import type { Sizes } from './types.js';

export interface FractionalMaxPoolOptions<I extends boolean = boolean> {
  /** The spatial size of the result. Alternatively outputRatio, its ratio to the input's, between 0 and 1. */
  readonly outputSize?: Sizes | null;
  readonly outputRatio?: Sizes | null;
  /** Whether to return [values, indices]; indices are into the flattened spatial dimensions. Default: false. */
  readonly returnIndices?: I;
  /** [N, C, dimensions]: positions of the windows, from 0 to 1. Default: drawn at each call. */
  readonly randomSamples?: Tensor | null;
}
export const FRACTIONAL_ORDER = ['outputSize', 'outputRatio', 'returnIndices', 'randomSamples'] as const;

/** The checked options: the window size (`kernel`), and the output size or its ratio to the input's. */
export interface FractionalWindows {
  readonly kernel: Shape;
  readonly size: Shape | null;
  readonly ratio: Shape | null;
}
export function fractionalWindows(
  op: string,
  n: number,
  kernelSize: Sizes,
  { outputSize = null, outputRatio = null }: FractionalMaxPoolOptions,
): FractionalWindows {
  if ((outputSize === null) === (outputRatio === null))
    throw new ArgumentError(`${op}: needs outputSize or outputRatio: give one of them`);
  const ratio = typeof outputRatio === 'number' ? range(n).map(() => outputRatio) : outputRatio;
  if (ratio && (ratio.length !== n || ratio.some((x) => !(x > 0 && x < 1))))
    throw new ArgumentError(`${op}: outputRatio is ${shown(outputRatio)}: it must be between 0 and 1`);
  return {
    kernel: sizesOf(op, 'kernelSize', kernelSize, n, 1),
    size: outputSize === null ? null : sizesOf(op, 'outputSize', outputSize, n, 1),
    ratio,
  };
}

export function fractionalMaxPool(
  op: string,
  x: Tensor,
  { kernel, size: wanted, ratio }: FractionalWindows,
  randomSamples: Tensor | null,
): { readonly values: Tensor; readonly indices: Tensor } {
  const n = kernel.length;
  if (x.ndim !== n + 1 && x.ndim !== n + 2)
    throw new ShapeError(`${op}: takes ${n} spatial dimensions after [N, C] or [C], got ${x.aval}`);
  const batched = x.ndim === n + 2 ? x : x.unsqueeze(0);
  const [N, C, ...space] = batched.shape as [number, number, ...number[]];
  const size = wanted ?? space.map((s, d) => Math.floor(s * ratio![d]!));
  if (size.some((s, d) => s < 1 || s + kernel[d]! - 1 > space[d]!))
    throw new ShapeError(`${op}: windows of ${showShape(kernel)} do not fit ${showShape(size)} times into ${x.aval}`);
  const samples = randomSamples ?? rand([N, C, n], { dtype: x.dtype });
  if (samples.ndim !== 3 || samples.size(0) < N || samples.size(1) !== C || samples.size(2) !== n)
    throw new ShapeError(`${op}: randomSamples are ${samples.aval}: they must be [${N}, ${C}, ${n}]`);
  const given = samples.narrow(0, 0, N); // torch allows more
  // The spatial index of each element of each window, [N, C, ...size, ...kernel].
  let at: Tensor | undefined;
  for (const d of range(n)) {
    const sample = given.select(2, n === 2 ? 1 - d : d); // as in torch: for two dimensions width comes first
    const rows = startsOf(sample, space[d]!, size[d]!, kernel[d]!).unsqueeze(-1).add(arange(kernel[d]!)); // [N, C, o, k]
    const shape = [N, C, ...range(2 * n).map((i) => (i === d ? size[d]! : i === n + d ? kernel[d]! : 1))];
    const step = sizeOf(space.slice(d + 1));
    const part = rows.reshape(shape).mul(step);
    at = at ? at.add(part) : part;
  }
  const [outputs, area, places] = [size, kernel, space].map((shape) => sizeOf(shape)) as [number, number, number];
  const windows = at!.reshape([N, C, outputs, area]);
  const elements = batched
    .reshape([N, C, places])
    .gather(2, windows.reshape([N, C, outputs * area]))
    .reshape(windows.shape);
  const { values, indices } = elements.max({ dim: -1 });
  const lead = x.ndim === n + 2 ? [N, C] : [C];
  const taken = windows.gather(3, indices.unsqueeze(-1));
  return { values: values.reshape([...lead, ...size]), indices: taken.reshape([...lead, ...size]) };
}
/** Where windows begin along one dimension: i64[N, C, count]. The last one ends with the input. */
function startsOf(sample: Tensor, size: number, count: number, kernel: number): Tensor {
  const last = full([...sample.shape, 1], size - kernel, { dtype: 'i64' });
  if (count === 1) return last;
  const { dtype } = sample;
  const alpha = full([], size - kernel, { dtype }).div(full([], count - 1, { dtype }));
  const from = sample.unsqueeze(-1);
  const first = from.mul(alpha).to('i64');
  const others = arange(count - 1, { dtype })
    .add(from)
    .mul(alpha)
    .to('i64')
    .sub(first);
  return cat([others, last], -1);
}

type Given<I extends boolean> =
  | [options: FractionalMaxPoolOptions<I>]
  | [outputSize: Sizes | null, options?: FractionalMaxPoolOptions<I>]
  | [outputSize: Sizes | null, outputRatio: Sizes | null, options?: FractionalMaxPoolOptions<I>]
  | [outputSize: Sizes | null, outputRatio: Sizes | null, returnIndices: I, randomSamples?: Tensor | null];
const pool =
  (op: string, n: number) =>
  <const I extends boolean = false>(
    x: Tensor,
    kernelSize: Sizes,
    ...given: Given<I>
  ): I extends true ? MaxPooled : Tensor => {
    const options = named<FractionalMaxPoolOptions>(FRACTIONAL_ORDER, given);
    const windows = fractionalWindows(op, n, kernelSize, options);
    const best = fractionalMaxPool(op, x, windows, options.randomSamples ?? null);
    return (options.returnIndices ? listed(best) : best.values) as I extends true ? MaxPooled : Tensor;
  };
/** The maximum of each of a grid of randomly placed windows: [H, W] becomes outputSize. */
export const fractionalMaxPool2d = checked('fractionalMaxPool2d', pool('fractionalMaxPool2d', 2));
/** The maximum of each of a grid of randomly placed windows: [D, H, W] becomes outputSize. */
export const fractionalMaxPool3d = checked('fractionalMaxPool3d', pool('fractionalMaxPool3d', 3));
