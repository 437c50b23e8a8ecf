// Tiled layout of tensors in a chip's memory. Partly filled tiles at the end are moved and multiplied like full ones.

import { CHIPS, type Chip, findChip, tileOf } from '../base/chips.js';
import { byteLength, DTYPES } from '../base/dtype.js';
import { sameShape, showShape } from '../base/shape.js';
import { describe, shown } from '../base/tree.js';
import { entry } from '../ir/source.js';
import { full } from '../ops/prim/constant.js';
import { pad, slice } from '../ops/prim/slice.js';
import { Tensor } from '../tensor/tensor.js';
import { TPUValidationError } from './errors.js';

export interface LayoutOptions {
  /** A chip of the planner's table: 'v6e'. */
  readonly chip?: string;
}

export interface TensorLayout {
  /** The tensor padded with zeros; the given tensor itself if no padding is needed. */
  readonly tensor: Tensor;
  readonly shape: readonly number[];
  /** The shape before padding. */
  readonly original: readonly number[];
  /** Rows and columns of a tile, in elements. */
  readonly tile: readonly [rows: number, columns: number];
  /** Its size in bytes, with padding. */
  readonly paddedBytes: number;
  /** The fraction of that which is padding: 0 if there is none, always below 1. */
  readonly overhead: number;
  /** Removes the padding from a tensor of the padded shape. */
  readonly restore: (padded: Tensor) => Tensor;
}

/** `here`: the default chip. Without one, any TPU: all have the same tiles. */
export const optimizeLayout = entry(
  (tensor: Tensor, chip: string | undefined, here: Chip | undefined): TensorLayout => {
    if (!(tensor instanceof Tensor))
      throw new TPUValidationError(`optimizeTensorLayout: takes a tensor, got ${describe(tensor)}`);
    const { shape: original, dtype } = tensor;
    const tile = tileOf(chip === undefined ? (here ?? { platform: 'tpu' }) : chipNamed(chip), DTYPES[dtype].bytes);
    const unit = (dim: number) => tile[dim - original.length + 2] ?? 1;
    const shape = original.map((n, dim) => Math.ceil(n / unit(dim)) * unit(dim));
    const [before, paddedBytes] = [byteLength({ dtype, shape: original }), byteLength({ dtype, shape })];
    const none = shape.map(() => 0);
    const isWhole = sameShape(shape, original);
    const missing = shape.map((n, dim) => n - original[dim]!);
    return {
      tensor: isWhole ? tensor : new Tensor(pad(tensor.expr, full([], 0, dtype), none, missing, none)),
      shape,
      original,
      tile,
      paddedBytes,
      overhead: paddedBytes && 1 - before / paddedBytes,
      restore: entry((padded: Tensor) => {
        if (!sameShape(padded.shape, shape))
          throw new TPUValidationError(
            `restore: takes a tensor of the padded shape ${showShape(shape)}, got ${padded.aval}: slice it yourself`,
          );
        return isWhole ? padded : new Tensor(slice(padded.expr, none, original));
      }),
    };
  },
);

function chipNamed(name: string): Chip {
  const chip = findChip(String(name));
  if (chip) return chip;
  throw new TPUValidationError(
    `optimizeTensorLayout: ${shown(name)} is not a known chip: use one of ${CHIPS.map((c) => c.name).join(', ')}`,
    { details: { chip: name } },
  );
}
