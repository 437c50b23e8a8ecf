// Convolutions as matrix products, for XLA's CPU compiler: there a window that is larger than the operand runs a plain loop,
// a hundred times slower than the product, and many weights on few positions are mostly copied from layout to layout. Of few
// features it gathers patches element by element.
import { sizeOf } from '../../base/dtype.js';
import { isFloat, wideType } from '../../base/promote.js';
import { range } from '../../base/shape.js';
import { Aval } from '../../ir/aval.js';
import type { Emitter, Ssa } from '../../ir/op.js';
import type { Convolution } from './convolution.js';
import { i64, i64s, scalarConstant } from './define.js';
import { lowerRanked } from './dot.js';

/** A program's text has an operation for each position of the window. */
const MOST_TAPS = 64;

/** The convolution as a product; undefined where XLA's own convolution is as fast. */
export function lowerAsProduct(
  e: Emitter,
  [x, kernel]: readonly [Ssa, Ssa],
  c: Convolution,
  out: Aval,
): Ssa | undefined {
  if (e.platform !== 'cpu' || e.mesh || c.featureGroups * c.batchGroups > 1) return undefined;
  const [operand, window] = [e.typeOf(x), e.typeOf(kernel)];
  const isTrailing = c.kernel.space.every((d, i) => d === 2 + i);
  if (!c.x.space.length || !isTrailing || !operand.size || !window.size || !out.size) return undefined;
  const columns = ofFewFeatures(e, [x, kernel], c, out);
  if (columns) return columns;
  const f = factsOf(operand, window, c, out);
  if (!f.taps.length || f.taps.length > MOST_TAPS) return undefined;

  // Elements that are written beside the result: patches, and a kernel in another order than [output features, sums].
  const isTurned = c.kernel.feature < c.kernel.batch;
  const [before, after] = [f.inner, f.outer].map((space) => f.batch * sizeOf(space) * f.taps.length) as [
    number,
    number,
  ];
  const gathering = after * f.features + (isTurned ? window.size : 0);
  const scattering = isTurned && c.stride.every((s) => s === 1) ? before * f.outputs : Number.POSITIVE_INFINITY;
  const swapsOperands = sizeOf(window.shape.slice(2)) > sizeOf(f.inner); // what XLA does, and then has no fast code
  if (!swapsOperands && Math.min(gathering, scattering) > Math.max(window.size, out.size)) return undefined;

  const y = (scattering < gathering ? scattered : gathered)(e, x, cut(e, kernel, f), c, f);
  // [batch, output features, space] as the result has it.
  const order = out.shape.map((_, d) => (d === c.y.batch ? 0 : d === c.y.feature ? 1 : 2 + c.y.space.indexOf(d)));
  return transpose(e, y, order);
}

/** More features than these are read as vectors by XLA's own convolution. */
const FEW_FEATURES = 8;
/** Elements of patches, or of kernels for each example, beyond which writing them takes longer than XLA's convolution. */
const MOST_WRITTEN = 2 ** 22;

/**
 * The convolution of an operand with few features, or the gradient of its kernel, by a product of patches for each example: nothing
 * is brought into another order. Both need the same patches, which XLA then computes once. Undefined for other convolutions.
 */
function ofFewFeatures(e: Emitter, [x, kernel]: readonly [Ssa, Ssa], c: Convolution, out: Aval): Ssa | undefined {
  const [operand, window] = [e.typeOf(x), e.typeOf(kernel)];
  const space = c.x.space.map((_, i) => 2 + i);
  const isPlain = [c.x, c.y].every((r) => r.space.every((d, i) => d === space[i])) && c.dilation.every((d) => d === 1);
  if (!isPlain || c.reversed || !isFloat(out.dtype)) return undefined;
  // In the gradient of a kernel, examples and features have changed places.
  const isGradient = c.x.batch === 1 && c.kernel.batch === 1 && c.y.batch === 1;
  if (!isGradient && (c.x.batch !== 0 || c.y.batch !== 0)) return undefined;
  const [taps, outer] = isGradient ? [out, window] : [window, out];
  const p: Patches = {
    ...{ taps: taps.shape.slice(2), outer: outer.shape.slice(2), low: c.padding.map(([low]) => low) },
    ...(isGradient ? { steps: c.stride, stride: c.kernelDilation } : { steps: c.kernelDilation, stride: c.stride }),
  };
  const [batch, features] = operand.shape as [number, number];
  const [count, sums, places] = [sizeOf(p.taps), features * sizeOf(p.taps), sizeOf(p.outer)];
  const outputs = window.shape[isGradient ? 1 : c.kernel.batch]!;
  if (features > FEW_FEATURES || count < 2 || count > MOST_TAPS) return undefined;
  if (batch * sums * Math.max(places, outputs) > MOST_WRITTEN) return undefined;

  const patches = reshape(e, patchesOf(e, x, p), [batch, sums, places]);
  if (isGradient) {
    const g = transpose(e, reshape(e, kernel, [batch, outputs, places]), [0, 2, 1]);
    const each = Aval.of(wideType(out.dtype), [batch, sums, outputs]); // as reductions sum
    const parts = lowerRanked(e, [patches, g], { batch: [[0], [0]], sum: [[2], [1]] }, each);
    const total = reshape(e, transpose(e, sumOfExamples(e, parts), [1, 0]), out.shape);
    return each.dtype === out.dtype ? total : e.op('convert', [total], [out])[0]!;
  }
  const weights = transpose(e, kernel, [c.kernel.batch, c.kernel.feature, ...space]);
  const [each] = e.op(
    'broadcast_in_dim',
    [reshape(e, weights, [outputs, sums])],
    [window.withShape([batch, outputs, sums])],
    {
      broadcast_dimensions: i64s([1, 2]),
    },
  );
  const y = Aval.of(out.dtype, [batch, outputs, places]);
  return reshape(e, lowerRanked(e, [each!, patches], { batch: [[0], [0]], sum: [[2], [1]] }, y), out.shape);
}

/** The elements that each position of the result reads: of each dimension of space, their number and the distances. */
interface Patches {
  readonly taps: readonly number[];
  /** Between the taps of one position. */
  readonly steps: readonly number[];
  readonly outer: readonly number[];
  /** Between positions. */
  readonly stride: readonly number[];
  /** The padding before the operand. */
  readonly low: readonly number[];
}
/** [batch, features, taps, positions]. Equal patches have equal text, whatever the padding after them. */
function patchesOf(e: Emitter, x: Ssa, { taps, steps, outer, stride, low }: Patches): Ssa {
  const type = e.typeOf(x);
  const [batch, features, ...inner] = type.shape as [number, number, ...number[]];
  const n = inner.length;
  // Elements that are a stride apart side by side: slices with a stride are read one by one.
  const rows = taps.map((k, i) => Math.ceil(((outer[i]! - 1) * stride[i]! + (k - 1) * steps[i]! + 1) / stride[i]!));
  const high = rows.map((m, i) => m * stride[i]! - inner[i]! - low[i]!);
  const padded = pad(e, x, { low, high, dilation: low.map(() => 1) });
  const phases = reshape(e, padded, [batch, features, ...rows.flatMap((m, i) => [m, stride[i]!])]);
  const apart = transpose(e, phases, [0, 1, ...range(n).map((i) => 3 + 2 * i), ...range(n).map((i) => 2 + 2 * i)]);
  const places = taps.reduce<number[][]>((all, k) => all.flatMap((at) => range(k).map((t) => [...at, t])), [[]]);
  const parts = places.map((at) => {
    const from = at.map((t, i) => t * steps[i]!);
    const [phase, first] = [from.map((f, i) => f % stride[i]!), from.map((f, i) => Math.floor(f / stride[i]!))];
    const limit = [batch, features, ...phase.map((f) => f + 1), ...first.map((f, i) => f + outer[i]!)];
    const shape = [batch, features, ...phase.map(() => 1), ...outer];
    const [part] = e.op('slice', [apart], [type.withShape(shape)], slicing([0, 0, ...phase, ...first], limit));
    return reshape(e, part!, [batch, features, 1, ...outer]);
  });
  return e.op('concatenate', parts, [type.withShape([batch, features, parts.length, ...outer])], {
    dimension: i64(2),
  })[0]!;
}

/** [batch, ...] summed over the batch. */
function sumOfExamples(e: Emitter, x: Ssa): Ssa {
  const type = e.typeOf(x);
  const scalar = type.withShape([]);
  const adds = e.region([scalar, scalar], ([a, b]) => e.op('add', [a!, b!], [scalar]));
  const zero = scalarConstant(e, 0, scalar);
  return e.op('reduce', [x, zero], [type.withShape(type.shape.slice(1))], { dimensions: i64s([0]) }, [adds])[0]!;
}

interface Facts {
  readonly batch: number;
  readonly features: number;
  readonly outputs: number;
  /** Sizes of space: of the operand, and of the result. */
  readonly inner: readonly number[];
  readonly outer: readonly number[];
  /** The part of the kernel's window that meets the operand, not its padding alone. */
  readonly first: readonly number[];
  readonly last: readonly number[];
  /** In the order of the kernel's elements: where each reads, from the padded operand's begin. */
  readonly taps: readonly (readonly number[])[];
}
function factsOf(operand: Aval, window: Aval, c: Convolution, out: Aval): Facts {
  const inner = c.x.space.map((d) => operand.shape[d]!);
  const outer = c.y.space.map((d) => out.shape[d]!);
  const offset = (i: number, k: number) => (c.reversed ? window.shape[2 + i]! - 1 - k : k) * c.kernelDilation[i]!;
  const meeting = inner.map((n, i) =>
    range(window.shape[2 + i]!).filter((k) =>
      range(outer[i]!).some((o) => {
        const at = o * c.stride[i]! + offset(i, k) - c.padding[i]![0];
        return at >= 0 && at <= (n - 1) * c.dilation[i]! && at % c.dilation[i]! === 0;
      }),
    ),
  );
  const [first, last] = [meeting.map((ks) => ks[0] ?? 0), meeting.map((ks) => ks.at(-1) ?? -1)];
  const taps = first.reduce<number[][]>(
    (all, from, i) => all.flatMap((at) => range(last[i]! - from + 1).map((k) => [...at, offset(i, from + k)])),
    [[]],
  );
  return {
    ...{ batch: operand.shape[c.x.batch]!, features: operand.shape[c.x.feature]! },
    ...{ outputs: window.shape[c.kernel.batch]!, inner, outer, first, last, taps },
  };
}

/** Patches of the operand, which one product multiplies with the kernel. */
function gathered(e: Emitter, x: Ssa, kernel: Ssa, c: Convolution, f: Facts): Ssa {
  const { batch, features, outputs, outer, taps } = f;
  const padded = pad(e, transpose(e, x, [c.x.batch, c.x.feature, ...c.x.space]), {
    low: c.padding.map(([low]) => low),
    high: c.padding.map(([, high]) => high),
    dilation: c.dilation,
  });
  const type = e.typeOf(x).withShape([batch, features, ...outer]);
  const parts = taps.map((at) => {
    const limit = outer.map((n, i) => at[i]! + (n - 1) * c.stride[i]! + 1);
    const [part] = e.op(
      'slice',
      [padded],
      [type],
      slicing([0, 0, ...at], [batch, features, ...limit], [1, 1, ...c.stride]),
    );
    return reshape(e, part!, [batch, features, 1, ...outer]);
  });
  const stacked = type.withShape([batch, features, taps.length, ...outer]);
  const patches = parts.length === 1 ? parts[0]! : e.op('concatenate', parts, [stacked], { dimension: i64(2) })[0]!;
  const space = outer.map((_, i) => 3 + i);
  const rows = batch * sizeOf(outer);
  const left = reshape(e, transpose(e, patches, [0, ...space, 1, 2]), [rows, features * taps.length]);
  const window = transpose(e, kernel, [c.kernel.batch, c.kernel.feature, ...c.kernel.space]);
  const right = reshape(e, window, [outputs, features * taps.length]);
  // What the result has first, so that the larger side need not be transposed.
  if (c.y.feature < c.y.batch) {
    const y = reshape(e, product(e, right, left), [outputs, batch, ...outer]);
    return transpose(e, y, [1, 0, ...outer.map((_, i) => 2 + i)]);
  }
  const y = reshape(e, product(e, left, right), [batch, ...outer, outputs]);
  return transpose(e, y, [0, 1 + outer.length, ...outer.map((_, i) => 1 + i)]);
}

/** What each element of the operand adds to each of the results that read it; those are summed. */
function scattered(e: Emitter, x: Ssa, kernel: Ssa, c: Convolution, f: Facts): Ssa {
  const { batch, features, outputs, inner, outer, taps } = f;
  const left = reshape(e, transpose(e, x, [c.x.batch, ...c.x.space, c.x.feature]), [batch * sizeOf(inner), features]);
  const right = reshape(e, kernel, [features, outputs * taps.length]);
  const all = reshape(e, product(e, left, right, 0), [batch, ...inner, outputs, taps.length]);
  const added = transpose(e, all, [0, 1 + inner.length, ...inner.map((_, i) => 1 + i), 2 + inner.length]);
  const [shape, out] = [
    [batch, outputs, ...inner],
    [batch, outputs, ...outer],
  ];
  const type = e.typeOf(x);
  return taps
    .map((at, t) => {
      const start = [...shape.map(() => 0), t];
      const type1 = type.withShape([...shape, 1]);
      const [part] = e.op('slice', [added], [type1], slicing(start, [...shape, t + 1]));
      const low = at.map((k, i) => c.padding[i]![0] - k);
      const high = inner.map((n, i) => outer[i]! - low[i]! - ((n - 1) * c.dilation[i]! + 1));
      return pad(e, reshape(e, part!, shape), { low, high, dilation: c.dilation });
    })
    .reduce((a, b) => e.op('add', [a, b], [type.withShape(out)])[0]!);
}

/** a b^T, or a b where dimension 0 of b is summed over. */
function product(e: Emitter, a: Ssa, b: Ssa, summed: 0 | 1 = 1): Ssa {
  const [left, right] = [e.typeOf(a), e.typeOf(b)];
  const dims = { batch: [[], []], sum: [[1], [summed]] } as const;
  return lowerRanked(e, [a, b], dims, Aval.of(left.dtype, [left.shape[0]!, right.shape[1 - summed]!]));
}
function transpose(e: Emitter, x: Ssa, order: readonly number[]): Ssa {
  if (order.every((d, i) => d === i)) return x;
  const type = e.typeOf(x);
  return e.op('transpose', [x], [type.withShape(order.map((d) => type.shape[d]!))], { permutation: i64s(order) })[0]!;
}
function reshape(e: Emitter, x: Ssa, shape: readonly number[]): Ssa {
  return e.op('reshape', [x], [e.typeOf(x).withShape(shape)])[0]!;
}
const slicing = (start: readonly number[], limit: readonly number[], strides = start.map(() => 1)) => ({
  start_indices: i64s(start),
  limit_indices: i64s(limit),
  strides: i64s(strides),
});
/** The part of the kernel's window that is read. */
function cut(e: Emitter, kernel: Ssa, { first, last }: Facts): Ssa {
  const type = e.typeOf(kernel);
  const limit = [...type.shape.slice(0, 2), ...last.map((k) => k + 1)];
  const shape = limit.map((n, d) => n - (first[d - 2] ?? 0));
  if (shape.every((n, d) => n === type.shape[d])) return kernel;
  return e.op('slice', [kernel], [type.withShape(shape)], slicing([0, 0, ...first], limit))[0]!;
}
interface Padding {
  readonly low: readonly number[];
  readonly high: readonly number[];
  readonly dilation: readonly number[];
}
/** [batch, features, space] with zeros around it and between its elements; less than 0 cuts. */
function pad(e: Emitter, x: Ssa, { low, high, dilation }: Padding): Ssa {
  const type = e.typeOf(x);
  if ([...low, ...high].every((n) => n === 0) && dilation.every((d) => d === 1)) return x;
  const sizes = low.map((n, i) => n + (type.shape[2 + i]! - 1) * dilation[i]! + 1 + high[i]!);
  const fill = scalarConstant(e, 0, Aval.of(type.dtype, []));
  return e.op('pad', [x, fill], [type.withShape([...type.shape.slice(0, 2), ...sizes])], {
    edge_padding_low: i64s([0, 0, ...low]),
    edge_padding_high: i64s([0, 0, ...high]),
    interior_padding: i64s([0, 0, ...dilation.map((d) => d - 1)]),
  })[0]!;
}
