// torch.nn.utils.rnn: sequences of several lengths in one tensor. A packed sequence is stored padded, with its lengths, as
// shapes are static. Recurrent layers exclude padding from their results, states and gradients.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { isInteger } from '../base/promote.js';
import { range, showShape } from '../base/shape.js';
import { describe } from '../base/tree.js';
import { arange, full, tensor } from '../tensor/create.js';
import { cat, stack, where } from '../tensor/functions.js';
import { Tensor } from '../tensor/tensor.js';
import { type Given, optionsInOrder } from './options.js';

/** The length of each sequence: numbers, or i64[N], which may be an argument of a compiled function. */
export type Lengths = readonly number[] | Tensor;

/** Sequences of several lengths. Made by packPaddedSequence and packSequence. */
export class PackedSequence {
  /** The order with the longest first, as in torch; null if the sequences were already sorted. */
  readonly sortedIndices: readonly number[] | null;
  readonly unsortedIndices: readonly number[] | null;
  constructor(
    /** [L, N, ...]: time first, in the given order. Values after the end of a sequence are ignored. */
    readonly padded: Tensor,
    readonly lengths: Lengths,
    readonly enforceSorted: boolean,
  ) {
    const order = isStatic(lengths) && !enforceSorted ? sorted(lengths) : null;
    this.sortedIndices = order;
    this.unsortedIndices = order && range(order.length).map((i) => order.indexOf(i));
  }
  /** bool[L, N]: true for steps that belong to a sequence. */
  get mask(): Tensor {
    const length = this.padded.size(0);
    return arange(length, { dtype: 'i64' }).unsqueeze(1).lt(lengthsTensor(this.lengths).unsqueeze(0));
  }
  /** The number of sequences that have a step at each time. */
  get batchSizes(): readonly number[] {
    const lengths = this.#known('batchSizes');
    return range(Math.max(...lengths)).map((t) => lengths.filter((n) => n > t).length);
  }
  /** All steps of all sequences, time by time, the longest sequence first: [sum of the lengths, ...], as torch's data. */
  get data(): Tensor {
    const [length, n, ...rest] = this.padded.shape as [number, number, ...number[]];
    const rows = tensor(this.#places().map(([t, i]) => t * n + i));
    return this.padded.reshape([length * n, ...rest]).indexSelect(0, rows);
  }
  /** The same sequences with other data, in the order of `data`, with the same number of steps. */
  withData(data: Tensor): PackedSequence {
    const places = this.#places();
    if (data.size(0) !== places.length)
      throw new ShapeError(`PackedSequence: the data is ${data.aval}: it must have ${places.length} steps`);
    const [length, n] = this.padded.shape as [number, number];
    const at = Array.from({ length: length * n }, () => 0);
    places.forEach(([t, i], k) => void (at[t * n + i] = k));
    const rows = data.indexSelect(0, tensor(at)).reshape([length, n, ...data.shape.slice(1)]);
    return this.withPadded(where(like(this.mask, rows), rows, 0));
  }
  /** The same sequences with other steps, padded as `padded` is. */
  withPadded(padded: Tensor): PackedSequence {
    return new PackedSequence(padded, this.lengths, this.enforceSorted);
  }
  /** Time and sequence of each row of `data`. */
  #places(): [t: number, i: number][] {
    const lengths = this.#known('data');
    const order = this.sortedIndices ?? range(lengths.length);
    return range(Math.max(...lengths)).flatMap((t) =>
      order.filter((i) => lengths[i]! > t).map((i): [number, number] => [t, i]),
    );
  }
  #known(what: string): readonly number[] {
    if (isStatic(this.lengths)) return this.lengths;
    throw new ArgumentError(
      `PackedSequence.${what}: the lengths are a tensor, ${this.lengths.aval}, so the size is not known: give them as numbers, or use padPackedSequence`,
    );
  }
}

const isStatic = (lengths: Lengths): lengths is readonly number[] => !(lengths instanceof Tensor);
const lengthsTensor = (lengths: Lengths): Tensor =>
  isStatic(lengths) ? tensor(lengths as number[], { dtype: 'i64' }) : lengths.to('i64');
const sorted = (lengths: readonly number[]): number[] =>
  range(lengths.length).sort((a, b) => lengths[b]! - lengths[a]! || a - b);
/** A mask [L, N] for values [L, N, ...]. */
const like = (mask: Tensor, x: Tensor): Tensor => mask.reshape([...mask.shape, ...x.shape.slice(2).map(() => 1)]);

export interface PackOptions {
  /** Whether the input is [N, L, ...] instead of [L, N, ...]. Default: false. */
  readonly batchFirst?: boolean;
  /** Whether lengths must be given with the longest first. Default: true. */
  readonly enforceSorted?: boolean;
}
/** Packs padded sequences [L, N, ...] and their lengths for recurrent layers. */
export function packPaddedSequence(
  input: Tensor,
  lengths: Lengths,
  ...options: Given<PackOptions, ['batchFirst', 'enforceSorted']>
): PackedSequence {
  const name = 'packPaddedSequence';
  const { batchFirst, enforceSorted } = optionsInOrder<Required<PackOptions>>(
    name,
    ['batchFirst', 'enforceSorted'],
    { batchFirst: false, enforceSorted: true },
    options,
  );
  if (!(input instanceof Tensor) || input.ndim < 2)
    throw new ShapeError(
      `${name}: takes ${batchFirst ? '[N, L, ...]' : '[L, N, ...]'}, got ${input instanceof Tensor ? input.aval : describe(input)}`,
    );
  const padded = batchFirst ? input.transpose(0, 1) : input;
  const [length, n] = padded.shape as [number, number];
  if (!isStatic(lengths)) {
    if (String(lengths.shape) !== String([n]) || !isInteger(lengths.dtype))
      throw new ShapeError(`${name}: lengths are ${lengths.aval}: they must be integers [${n}]`);
    return new PackedSequence(padded, lengths, enforceSorted);
  }
  if (lengths.length !== n) throw new ShapeError(`${name}: ${lengths.length} lengths for ${n} sequences`);
  const wrong = lengths.find((l) => !(Number.isInteger(l) && l > 0 && l <= length));
  if (wrong !== undefined)
    throw new ArgumentError(`${name}: a length is ${wrong}: it must be a whole number, 1 to ${length}`);
  if (enforceSorted && lengths.some((l, i) => i > 0 && l > lengths[i - 1]!))
    throw new ArgumentError(
      `${name}: lengths are ${showShape(lengths)}: with enforceSorted the longest must come first: pass { enforceSorted: false }`,
    );
  return new PackedSequence(padded.narrow(0, 0, Math.max(...lengths)), [...lengths], enforceSorted);
}

export interface PadOptions {
  readonly batchFirst?: boolean;
  /** The value after the end of a sequence. Default: 0. */
  readonly paddingValue?: number;
  /** The length of the result. Default: that of the longest sequence. */
  readonly totalLength?: number | null;
}
/** Packed sequences as a padded tensor [L, N, ...], and their lengths i64[N]. */
export function padPackedSequence(
  sequence: PackedSequence,
  ...options: Given<PadOptions, ['batchFirst', 'paddingValue', 'totalLength']>
): [padded: Tensor, lengths: Tensor] {
  const name = 'padPackedSequence';
  const { batchFirst, paddingValue, totalLength } = optionsInOrder<Required<PadOptions>>(
    name,
    ['batchFirst', 'paddingValue', 'totalLength'],
    { batchFirst: false, paddingValue: 0, totalLength: null },
    options,
  );
  if (!(sequence instanceof PackedSequence))
    throw new ArgumentError(`${name}: takes a PackedSequence, got ${describe(sequence)}`);
  const { padded, mask, lengths } = sequence;
  const kept = where(like(mask, padded), padded, paddingValue);
  const [length, ...rest] = padded.shape as [number, ...number[]];
  if (totalLength !== null && totalLength < length)
    throw new ArgumentError(
      `${name}: totalLength is ${totalLength}: it must be at least the longest sequence, ${length}`,
    );
  const more = totalLength === null ? 0 : totalLength - length;
  const whole = more ? cat([kept, full([more, ...rest], paddingValue, { dtype: padded.dtype })]) : kept;
  return [batchFirst ? whole.transpose(0, 1) : whole, lengthsTensor(lengths)];
}

export interface PadSequenceOptions {
  readonly batchFirst?: boolean;
  readonly paddingValue?: number;
  readonly paddingSide?: 'left' | 'right';
}
/** Pads sequences [L_i, ...] to the longest and stacks them: [L, N, ...]. */
export function padSequence(
  sequences: readonly Tensor[],
  ...options: Given<PadSequenceOptions, ['batchFirst', 'paddingValue', 'paddingSide']>
): Tensor {
  const { batchFirst, paddingValue, paddingSide } = optionsInOrder<Required<PadSequenceOptions>>(
    'padSequence',
    ['batchFirst', 'paddingValue', 'paddingSide'],
    { batchFirst: false, paddingValue: 0, paddingSide: 'right' },
    options,
  );
  if (!Array.isArray(sequences) || !sequences.length || !sequences.every((x) => x instanceof Tensor))
    throw new ArgumentError(`padSequence: takes a list of tensors, got ${describe(sequences)}`);
  const rest = sequences[0]!.shape.slice(1);
  const other = sequences.find((x) => x.ndim === 0 || String(x.shape.slice(1)) !== String(rest));
  if (other)
    throw new ShapeError(
      `padSequence: ${sequences[0]!.aval} and ${other.aval}: sequences may differ in their first dimension only`,
    );
  const longest = Math.max(...sequences.map((x) => x.size(0)));
  const rows = sequences.map((x) => {
    const missing = longest - x.size(0);
    if (!missing) return x;
    const padding = full([missing, ...rest], paddingValue, { dtype: x.dtype });
    return cat(paddingSide === 'left' ? [padding, x] : [x, padding]);
  });
  return stack(rows, batchFirst ? 0 : 1);
}
/** Packs sequences [L_i, ...]. */
export function packSequence(
  sequences: readonly Tensor[],
  ...options: Given<{ readonly enforceSorted?: boolean }, ['enforceSorted']>
): PackedSequence {
  const { enforceSorted } = optionsInOrder('packSequence', ['enforceSorted'], { enforceSorted: true }, options);
  const padded = padSequence(sequences);
  return packPaddedSequence(
    padded,
    sequences.map((x) => x.size(0)),
    { enforceSorted },
  );
}
/** The sequences of a padded tensor: the inverse of padSequence. */
export function unpadSequence(
  padded: Tensor,
  lengths: readonly number[],
  options: { readonly batchFirst?: boolean } = {},
): Tensor[] {
  checkOptions('unpadSequence', ['batchFirst'], options);
  return lengths.map((n, i) => padded.select(options.batchFirst ? 0 : 1, i).narrow(0, 0, n));
}
/** The sequences of a PackedSequence. */
export function unpackSequence(sequence: PackedSequence): Tensor[] {
  const { lengths, padded } = sequence;
  if (!isStatic(lengths))
    throw new ArgumentError(
      'unpackSequence: the lengths are a tensor, so the shapes are not known: use padPackedSequence',
    );
  return unpadSequence(padded, lengths);
}
