// Quantizing to Q4_K: 256 weights in 8 groups of 32, x = d * scale * code - dmin * min with codes of 4 bits, scales and mins of
// 6 bits, and two f16 for all. Each group's line is fitted by least squares, from several beginnings.
import { decodeFloats, encodeNumbers } from '../base/float.js';

const [GROUPS, SIZE, TOP, SIX] = [8, 32, 15, 63];
/** How far beyond the codes' range the beginnings stretch a group: a narrower grid clips its largest weights. */
const STRETCHES = Array.from({ length: 21 }, (_, i) => TOP - 1 + i / 10);

const halfOf = (x: number): number => Number(encodeNumbers('f16', [x])[0]);
const halfValue = (code: number): number => Number(decodeFloats('f16', Uint16Array.of(code))[0]);
const clamp = (x: number, top: number): number => (x < 0 ? 0 : x > top ? top : Math.round(x));

/** x = step * code - offset, both at least 0. */
interface Line {
  step: number;
  offset: number;
}

const weights = new Float64Array(SIZE); // of errors: large weights count more
const codes = new Uint8Array(SIZE);

function weigh(x: Float32Array, from: number): void {
  let sum = 0;
  for (let i = 0; i < SIZE; i++) sum += x[from + i]! ** 2;
  const mean = Math.sqrt(sum / SIZE);
  for (let i = 0; i < SIZE; i++) weights[i] = mean + Math.abs(x[from + i]!);
}

/** The weighted squared error of a line, each weight with its nearest code. Leaves the codes in `codes`. */
function errorOf(x: Float32Array, from: number, { step, offset }: Line): number {
  const inverse = step > 0 ? 1 / step : 0;
  let error = 0;
  for (let i = 0; i < SIZE; i++) {
    const code = clamp((x[from + i]! + offset) * inverse, TOP);
    codes[i] = code;
    error += weights[i]! * (step * code - offset - x[from + i]!) ** 2;
  }
  return error;
}

/** The line of least squares through the present codes. */
function leastSquares(x: Float32Array, from: number): Line {
  let [w, wq, wqq, wx, wqx] = [0, 0, 0, 0, 0];
  for (let i = 0; i < SIZE; i++) {
    const [weight, q, value] = [weights[i]!, codes[i]!, x[from + i]!];
    w += weight;
    wq += weight * q;
    wqq += weight * q * q;
    wx += weight * value;
    wqx += weight * q * value;
  }
  const determinant = w * wqq - wq * wq;
  const free =
    determinant > 0
      ? { step: (w * wqx - wq * wx) / determinant, offset: (wq * wqx - wqq * wx) / determinant }
      : undefined;
  if (free && free.offset >= 0 && free.step > 0) return free;
  return { step: wqq > 0 ? Math.max(0, wqx / wqq) : 0, offset: 0 }; // through 0: an offset cannot be negative
}

function bestLine(x: Float32Array, from: number): Line {
  let [low, high] = [0, 0]; // 0 is always in the range: an offset cannot be negative
  for (let i = 0; i < SIZE; i++) {
    low = Math.min(low, x[from + i]!);
    high = Math.max(high, x[from + i]!);
  }
  if (high === low) return { step: 0, offset: 0 };
  let best: Line = { step: (high - low) / TOP, offset: -low };
  let least = errorOf(x, from, best);
  for (const stretch of STRETCHES) {
    errorOf(x, from, { step: (high - low) / stretch, offset: -low });
    const line = leastSquares(x, from);
    const error = errorOf(x, from, line);
    if (error >= least) continue;
    [best, least] = [line, error];
  }
  return best;
}

/** The largest of the numbers in 6 bits, as an f16 that the others are multiples of. */
const unitOf = (numbers: readonly number[]): number => halfOf(Math.max(...numbers) / SIX);

/** 6 bits: the nearest, or a neighbour if the error is less with it. */
function roundLine(x: Float32Array, from: number, line: Line, d: number, dmin: number): { scale: number; min: number } {
  const near = (value: number, unit: number): number[] => {
    if (unit === 0) return [0];
    const middle = clamp(value / unit, SIX);
    return [middle, middle - 1, middle + 1].filter((n) => n >= 0 && n <= SIX);
  };
  let best = { scale: 0, min: 0 };
  let least = Number.POSITIVE_INFINITY;
  for (const scale of near(line.step, d))
    for (const min of near(line.offset, dmin)) {
      const error = errorOf(x, from, { step: d * scale, offset: dmin * min });
      if (error >= least) continue;
      [best, least] = [{ scale, min }, error];
    }
  return best;
}

/** Writes the block of 256 weights at `from` to the 144 bytes at `to`. */
export function quantizeQ4K(x: Float32Array, from: number, out: Uint8Array, to: number): void {
  const lines = Array.from({ length: GROUPS }, (_, g) => {
    weigh(x, from + SIZE * g);
    return bestLine(x, from + SIZE * g);
  });
  const units = [unitOf(lines.map((l) => l.step)), unitOf(lines.map((l) => l.offset))] as const;
  const [d, dmin] = units.map(halfValue) as [number, number];
  out.fill(0, to, to + 144);
  for (const [i, unit] of units.entries()) {
    out[to + 2 * i] = unit & 255;
    out[to + 2 * i + 1] = unit >> 8;
  }
  const six = to + 4;
  for (const [g, line] of lines.entries()) {
    const start = from + SIZE * g;
    weigh(x, start);
    const { scale, min } = roundLine(x, start, line, d, dmin);
    errorOf(x, start, { step: d * scale, offset: dmin * min });
    if (g < 4) {
      out[six + g]! |= scale;
      out[six + g + 4]! |= min;
    } else {
      out[six + g + 4] = (scale & 15) | ((min & 15) << 4);
      out[six + g - 4]! |= (scale >> 4) << 6;
      out[six + g]! |= (min >> 4) << 6;
    }
    for (let i = 0; i < SIZE; i++) out[to + 16 + 32 * (g >> 1) + i]! |= codes[i]! << (4 * (g & 1));
  }
}
