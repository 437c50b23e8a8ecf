// Tables of levels (LUTs), and rounding with straight-through gradients.
//   L levels, sorted; an optional leading dimension is that of the layers of a LayerStack
import { ArgumentError } from '../base/errors.js';
import { decodeFloats, encodeNumbers } from '../base/float.js';
import { customVjp } from '../tensor/autograd.js';
import { tensor } from '../tensor/create.js';
import { cat, softmax, where } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';

const F16_MAX = 65504;
export const toF16 = (x: number): number => Number(decodeFloats('f16', encodeNumbers('f16', [x]))[0]);

/** Rounds x to f16 precision, saturated, in x's dtype. Straight-through gradient. */
export const roundF16 = customVjp((x: Tensor) => x.clamp(-F16_MAX, F16_MAX).to('f16').to(x.dtype), {
  backward: (_, g: Tensor) => [g],
});
/** Rounds half to even. Straight-through gradient. */
export const roundThrough = customVjp((x: Tensor) => x.round(), { backward: (_, g: Tensor) => [g] });

/** Levels from -1 to 1 in f16, as torch.linspace(-1, 1, size, dtype=torch.float16) rounds them. */
export function uniformLut(size: number, { includeZero = false }: { readonly includeZero?: boolean } = {}): number[] {
  if (!includeZero || size % 2 === 1) return linspace(-1, 1, size);
  return [...linspace(-1, 0, size / 2 + 1).slice(0, -1), ...linspace(0, 1, size / 2)];
}
function linspace(start: number, end: number, size: number): number[] {
  const step = toF16((end - start) / (size - 1));
  return Array.from({ length: size }, (_, i) =>
    i < size / 2 ? toF16(start + toF16(step * i)) : toF16(end - toF16(step * (size - 1 - i))),
  );
}

/** The number of bits of an index into a table of lutSize levels: 1, 2, 4 or 8. */
export function bitsOf(lutSize: number): number {
  const bits = [1, 2, 4, 8].find((b) => 2 ** b >= lutSize);
  if (Number.isInteger(lutSize) && lutSize >= 2 && bits) return bits;
  throw new ArgumentError(`lutSize is ${lutSize}: it must be from 2 to 256, usually 4 (2 bits) or 16 (4 bits)`);
}

/** lut [..., L] at codes u8 [..., out, in]. Computed by selects, which run at memory speed; gathers of single numbers do not. */
export function lookup(lut: Tensor, codes: Tensor): Tensor {
  const level = (k: number) => lut.select(-1, k).unsqueeze(-1).unsqueeze(-1); // [..., 1, 1]
  let found = level(0).expand(codes.shape);
  for (let k = 1; k < lut.size(-1); k++) found = where(codes.eq(k), level(k), found);
  return found;
}

/** For each x [..., out, in], values(k) of the nearest level k; of two equally near, the lower one. */
function atNearest(x: Tensor, lut: Tensor, values: (k: number) => Tensor): Tensor {
  const L = lut.size(-1);
  const middles = lut
    .narrow(-1, 0, L - 1)
    .add(lut.narrow(-1, 1, L - 1))
    .div(2)
    .detach()
    .to(x.dtype);
  let found = values(0).expand(x.shape);
  for (let k = 1; k < L; k++)
    found = where(
      x.gt(
        middles
          .select(-1, k - 1)
          .unsqueeze(-1)
          .unsqueeze(-1),
      ),
      values(k),
      found,
    );
  return found;
}
/** The codes of the levels nearest to x. */
export const nearest = (x: Tensor, lut: Tensor): Tensor => atNearest(x, lut, (k) => tensor(k, { dtype: 'u8' }));
/** The levels nearest to x. */
export const snap = (x: Tensor, lut: Tensor): Tensor =>
  atNearest(x, lut, (k) => lut.select(-1, k).unsqueeze(-1).unsqueeze(-1));

/** The least distance between levels, absolute, so that no two levels are equal in f16 and none is 0. */
export const leastGap = (maxAbs: number): number =>
  Math.max(2 * 2 ** (Math.ceil(Math.log2(Math.max(maxAbs, 1e-6))) - 10), 1e-4);

/** Learned levels: symmetric, increasing, without 0, up to maxAbs, from logits [..., L / 2] of the gaps between them. */
export function symmetricLut(logits: Tensor, maxAbs: number): Tensor {
  const least = leastGap(maxAbs);
  const gaps = softmax(logits, -1)
    .mul(maxAbs - logits.size(-1) * least)
    .add(least);
  const upper = gaps.cumsum(-1);
  return roundF16(cat([upper.flip([-1]).neg(), upper], -1));
}
/** The inverse of symmetricLut: the logits of these levels. */
export function gapLogits(lut: readonly number[], maxAbs: number): number[] {
  const upper = lut.slice(lut.length / 2);
  const least = leastGap(maxAbs);
  const room = maxAbs - upper.length * least;
  return upper.map((level, i) => Math.log(Math.max((level - (upper[i - 1] ?? 0) - least) / room, 1e-6)));
}
