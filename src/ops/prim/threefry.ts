// Random bits from a key and a counter: Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers,
// as easy as 1, 2, 3; SC 2011). Every element is made from its own counter by integer operations alone, so the bits are the
// same on every device and however an array is sharded.
import type { DType } from '../../base/dtype.js';
import { range, type Shape } from '../../base/shape.js';
import type { Expr } from '../../ir/expr.js';
import type { Ssa } from '../../ir/op.js';
import { broadcastTo } from './broadcast.js';
import { full, iota } from './constant.js';
import { custom } from './custom.js';
import { checkDType, checkSame, defineMulti, same } from './define.js';
import { convert, reshape } from './move.js';
import { add, bitwiseLeftShift, bitwiseOr, bitwiseRightShift, lt, maximum, minimum, mul } from './pointwise.js';
import { concat, slice } from './slice.js';

const ROTATIONS = [
  [13, 15, 26, 6],
  [17, 29, 16, 24],
] as const;
const PARITY = 0x1bd11bda;

/** Two words for two words of key and two of counter. */
const threefryOp = defineMulti<[k0: Expr, k1: Expr, c0: Expr, c1: Expr]>({
  name: 'threefry2x32',
  infer: (xs) => {
    checkDType('threefry2x32', xs, (d) => d === 'u32', 'u32');
    const aval = checkSame('threefry2x32', xs);
    return [aval, aval];
  },
  lower: (e, [k0, k1, c0, c1], _, [word]) => {
    const op = (name: string, a: Ssa, b: Ssa) => e.op(name, [a, b], [word!])[0]!;
    const constant = (x: number) => e.op('constant', [], [word!], { value: `dense<${x}> : ${word!.mlir}` })[0]!;
    const rotate = (x: Ssa, by: number) =>
      op('or', op('shift_left', x, constant(by)), op('shift_right_logical', x, constant(32 - by)));
    // Flips the sign bit before and after the last addition, which does not change the sum. LLVM looks for checksums in loops
    // of 8, 16, 24, ... passes that end in a minimum or a maximum (HashRecognize), and follows every path through the rounds,
    // exponentially many: rand([5, 16]).min() compiled for minutes. It gives up at the second xor if the first has a constant.
    const flip = (x: Ssa) => (e.platform === 'cpu' ? op('xor', x, constant(2 ** 31)) : x);
    const keys = [k0, k1, op('xor', op('xor', k0, k1), constant(PARITY))];
    let [x0, x1] = [op('add', c0, k0), op('add', c1, k1)];
    for (const group of range(5)) {
      for (const by of ROTATIONS[group % 2]!) {
        x0 = op('add', x0, x1);
        x1 = op('xor', rotate(x1, by), x0);
      }
      if (group === 4) [x0, x1] = [flip(x0), flip(x1)];
      x0 = op('add', x0, keys[(group + 1) % 3]!);
      x1 = op('add', op('add', x1, keys[(group + 2) % 3]!), constant(group + 1));
    }
    return [flip(x0), flip(x1)];
  },
  batch: same,
});
export const threefry2x32 = (k0: Expr, k1: Expr, c0: Expr, c1: Expr): [Expr, Expr] =>
  threefryOp([k0, k1, c0, c1], null) as [Expr, Expr];

// ---- the state of a generator, u32[4]: two words of key, two of counter, the lower first

const word = (state: Expr, i: number): Expr => reshape(slice(state, [i], [i + 1]), []);
const u32 = (shape: Shape, x: number): Expr => full(shape, x, 'u32');

const advanceOp = custom<[Expr], { readonly by: number }>(
  'advance',
  ([state], { by }) => {
    const [lo, hi] = plus(word(state, 2), word(state, 3), u32([], by % 2 ** 32));
    const next = add(hi, u32([], Math.floor(by / 2 ** 32)));
    return concat([slice(state, [0], [2]), reshape(lo, [1]), reshape(next, [1])], 0);
  },
  () => [null],
  null,
);
/** The counter `by` further. */
export const advance = (state: Expr, by: number): Expr => advanceOp([state], { by });
/** Whether a node is a generator's state after a draw: all that draws depend on of those before them. */
export const isAdvanced = (e: Expr): boolean => e.op.name === 'advance';
/** Of 64 bits in two words. */
function plus(lo: Expr, hi: Expr, x: Expr): [Expr, Expr] {
  const sum = add(lo, x);
  return [sum, add(hi, convert(lt(sum, x), 'u32'))];
}

/** Two words for each element of a shape: element i of the array has counter + i * stride + offset. */
export function words(state: Expr, shape: Shape, stride = 1, offset = 0): [Expr, Expr] {
  // The element's place, from each dimension's own: an array cut up in any dimension makes its part by itself.
  const place = shape.reduce<{ sum: Expr; size: number }>(
    ({ sum, size }, _, i) => {
      const d = shape.length - 1 - i;
      return {
        sum: add(sum, mul(iota(shape, d, 'u32'), u32(shape, (size * stride) % 2 ** 32))),
        size: size * shape[d]!,
      };
    },
    { sum: u32(shape, offset), size: 1 },
  ).sum;
  const of = (i: number) => broadcastTo(word(state, i), shape);
  const [lo, hi] = plus(of(2), of(3), place);
  return threefry2x32(of(0), of(1), lo, hi);
}

// ---- numbers

/** Both words as one, the first above. */
export const word64 = ([hi, lo]: readonly [Expr, Expr]): Expr =>
  bitwiseOr(bitwiseLeftShift(convert(hi, 'u64'), full(hi.shape, 32, 'u64')), convert(lo, 'u64'));

/** The bits of a dtype's fraction: as many random ones make a uniform number, as in torch. */
const DIGITS: Partial<Record<DType, number>> = { f64: 53, f32: 24, f16: 11, bf16: 8, f8e4m3fn: 4, f8e5m2: 3 };

/** In [0, 1), a multiple of 2 ** -24 for f32 (53 for f64, 11 for f16, 8 for bf16). */
export function unit(pair: readonly [Expr, Expr], dtype: DType): Expr {
  const digits = DIGITS[dtype]!;
  const [bits, size] = dtype === 'f64' ? [word64(pair), 64] : [pair[0], 32];
  const top = bitwiseRightShift(bits, full(bits.shape, size - digits, bits.dtype));
  return convert(mul(convert(top, dtype === 'f64' ? 'f64' : 'f32'), 2 ** -digits), dtype);
}

/** In (0, 1), with all 32 bits (53 for f64): small numbers are finer than large ones. For logarithms. */
export function open(pair: readonly [Expr, Expr], dtype: 'f32' | 'f64'): Expr {
  if (dtype === 'f64') return maximum(unit(pair, 'f64'), 2 ** -54);
  const x = mul(add(convert(pair[0], 'f32'), 0.5), 2 ** -32);
  return minimum(x, 1 - 2 ** -24);
}

const F16_MAX = 65504;
/** Draws in `dtype`. Those of a long tail that f16 cannot hold become its largest number instead of infinite. */
export const rounded = (x: Expr, dtype: DType): Expr =>
  convert(dtype === 'f16' ? minimum(maximum(x, -F16_MAX), F16_MAX) : x, dtype);
