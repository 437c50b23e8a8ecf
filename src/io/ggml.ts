// ggml's element types of GGUF files: plain numbers, and blocks of 32 or 256 weights with shared scales.
import type { DType } from '../base/dtype.js';
import { decodeFloats, encodeNumbers } from '../base/float.js';
import { quantizeQ4K } from './ggml-q4k.js';

interface Format {
  /** Its number in files. */
  readonly id: number;
  /** Elements of a block, and its bytes. */
  readonly block: number;
  readonly bytes: number;
  /** The dtype that elements are read as. Default: f32. */
  readonly dtype?: DType;
  /** Writes the block of `x` at element `from` to `out` at byte `to`. */
  readonly quantize?: (x: Float32Array, from: number, out: Uint8Array, to: number) => void;
  /** The opposite. */
  readonly dequantize?: (bytes: Uint8Array, from: number, out: Float32Array, to: number) => void;
}

const { fround } = Math;
const f16 = (x: number): number => Number(encodeNumbers('f16', [x])[0]);
const F16 = decodeFloats(
  'f16',
  Uint16Array.from({ length: 2 ** 16 }, (_, code) => code),
) as Float32Array;
/** The f16 at a byte. */
export const halfAt = (bytes: Uint8Array, at: number): number => F16[bytes[at]! | (bytes[at + 1]! << 8)]!;
export function putHalf(x: number, out: Uint8Array, at: number): void {
  const code = f16(x);
  out[at] = code & 255;
  out[at + 1] = code >> 8;
}

/** The index of the largest magnitude; the first one, as numpy's argmax. */
function largest(x: Float32Array, from: number): number {
  let best = from;
  for (let i = from + 1; i < from + 32; i++) if (Math.abs(x[i]!) > Math.abs(x[best]!)) best = i;
  return best;
}
const inverse = (d: number): number => (d === 0 ? 0 : fround(1 / d));

// All arithmetic is rounded to f32 after each operation: the bytes are those of ggml and of gguf-py.
function quantizeQ8(x: Float32Array, from: number, out: Uint8Array, to: number): void {
  const d = fround(Math.abs(x[largest(x, from)]!) / 127);
  const id = inverse(d);
  putHalf(d, out, to);
  for (let i = 0; i < 32; i++) {
    const scaled = fround(x[from + i]! * id);
    const rounded = Math.floor(Math.abs(scaled) + 0.5); // away from zero; exact: a double has the bits
    out[to + 2 + i] = scaled < 0 ? -rounded : rounded;
  }
}
function dequantizeQ8(bytes: Uint8Array, from: number, out: Float32Array, to: number): void {
  const d = halfAt(bytes, from);
  for (let i = 0; i < 32; i++) out[to + i] = d * ((bytes[from + 2 + i]! << 24) >> 24);
}

/** Codes from 0 to 2 * half - 1 around `half`; the largest magnitude has the code 0. */
function symmetricCodes(x: Float32Array, from: number, half: number): { readonly d: number; readonly codes: number[] } {
  const d = fround(x[largest(x, from)]! / -half);
  const id = inverse(d);
  const codes = Array.from({ length: 32 }, (_, i) =>
    Math.min(2 * half - 1, Math.trunc(fround(fround(x[from + i]! * id) + half + 0.5))),
  );
  return { d, codes };
}
function quantizeQ40(x: Float32Array, from: number, out: Uint8Array, to: number): void {
  const { d, codes } = symmetricCodes(x, from, 8);
  putHalf(d, out, to);
  for (let i = 0; i < 16; i++) out[to + 2 + i] = codes[i]! | (codes[i + 16]! << 4);
}
function dequantizeQ40(bytes: Uint8Array, from: number, out: Float32Array, to: number): void {
  const d = halfAt(bytes, from);
  for (let i = 0; i < 16; i++) {
    const code = bytes[from + 2 + i]!;
    out[to + i] = d * ((code & 15) - 8);
    out[to + i + 16] = d * ((code >> 4) - 8);
  }
}
/** Q4_0 with a fifth bit, which is stored separately. */
function quantizeQ50(x: Float32Array, from: number, out: Uint8Array, to: number): void {
  const { d, codes } = symmetricCodes(x, from, 16);
  putHalf(d, out, to);
  out.fill(0, to + 2, to + 6);
  for (let i = 0; i < 32; i++) out[to + 2 + (i >> 3)]! |= (codes[i]! >> 4) << (i & 7);
  for (let i = 0; i < 16; i++) out[to + 6 + i] = (codes[i]! & 15) | ((codes[i + 16]! & 15) << 4);
}
function dequantizeQ50(bytes: Uint8Array, from: number, out: Float32Array, to: number): void {
  const d = halfAt(bytes, from);
  for (let i = 0; i < 32; i++) {
    const high = (bytes[from + 2 + (i >> 3)]! >> (i & 7)) & 1;
    const low = (bytes[from + 6 + (i & 15)]! >> (i < 16 ? 0 : 4)) & 15;
    out[to + i] = d * ((low | (high << 4)) - 16);
  }
}

/** 8 groups of 32: x = d * scale * code - dmin * min, where scale and min have 6 bits each. */
function dequantizeQ4K(bytes: Uint8Array, from: number, out: Float32Array, to: number): void {
  const [d, dmin] = [halfAt(bytes, from), halfAt(bytes, from + 2)];
  const six = from + 4;
  for (let g = 0; g < 8; g++) {
    const isLow = g < 4;
    const scale = isLow ? bytes[six + g]! & 63 : (bytes[six + g + 4]! & 15) | ((bytes[six + g - 4]! >> 6) << 4);
    const min = isLow ? bytes[six + g + 4]! & 63 : (bytes[six + g + 4]! >> 4) | ((bytes[six + g]! >> 6) << 4);
    const [step, offset] = [fround(d * scale), fround(dmin * min)];
    const codes = from + 16 + 32 * (g >> 1);
    for (let i = 0; i < 32; i++)
      out[to + 32 * g + i] = fround(step * ((bytes[codes + i]! >> (4 * (g & 1))) & 15)) - offset;
  }
}

// biome-ignore format: a table
const FORMATS = {
  F32: { id: 0, block: 1, bytes: 4, dtype: 'f32' },
  F16: { id: 1, block: 1, bytes: 2, dtype: 'f16' },
  Q4_0: { id: 2, block: 32, bytes: 18, quantize: quantizeQ40, dequantize: dequantizeQ40 },
  Q4_1: { id: 3, block: 32, bytes: 20 },
  Q5_0: { id: 6, block: 32, bytes: 22, quantize: quantizeQ50, dequantize: dequantizeQ50 },
  Q5_1: { id: 7, block: 32, bytes: 24 },
  Q8_0: { id: 8, block: 32, bytes: 34, quantize: quantizeQ8, dequantize: dequantizeQ8 },
  Q8_1: { id: 9, block: 32, bytes: 36 },
  Q2_K: { id: 10, block: 256, bytes: 84 },
  Q3_K: { id: 11, block: 256, bytes: 110 },
  Q4_K: { id: 12, block: 256, bytes: 144, quantize: quantizeQ4K, dequantize: dequantizeQ4K },
  Q5_K: { id: 13, block: 256, bytes: 176 },
  Q6_K: { id: 14, block: 256, bytes: 210 },
  Q8_K: { id: 15, block: 256, bytes: 292 },
  I8: { id: 24, block: 1, bytes: 1, dtype: 'i8' },
  I16: { id: 25, block: 1, bytes: 2, dtype: 'i16' },
  I32: { id: 26, block: 1, bytes: 4, dtype: 'i32' },
  I64: { id: 27, block: 1, bytes: 8, dtype: 'i64' },
  F64: { id: 28, block: 1, bytes: 8, dtype: 'f64' },
  BF16: { id: 30, block: 1, bytes: 2, dtype: 'bf16' },
} as const satisfies Readonly<Record<string, Format>>;

/** The name of an element type, as ggml has it. */
export type GgmlType = keyof typeof FORMATS;
export const GGML: Readonly<Record<GgmlType, Format>> = FORMATS;
export const GGML_TYPES = Object.keys(FORMATS) as readonly GgmlType[];
const BY_ID: ReadonlyMap<number, GgmlType> = new Map(GGML_TYPES.map((type) => [GGML[type].id, type]));
export const ggmlTypeOf = (id: number): GgmlType | undefined => BY_ID.get(id);

/** The bytes of a number of elements, which are whole blocks. */
export const ggmlBytes = (type: GgmlType, elements: number): number => (elements / GGML[type].block) * GGML[type].bytes;

/** Blocks of numbers; their count is a multiple of the block's. */
export function quantizeBlocks(type: GgmlType, x: Float32Array): Uint8Array {
  const { block, bytes, quantize } = GGML[type];
  const out = new Uint8Array(ggmlBytes(type, x.length));
  for (let from = 0, to = 0; from < x.length; from += block, to += bytes) quantize!(x, from, out, to);
  return out;
}
export function dequantizeBlocks(type: GgmlType, data: Uint8Array): Float32Array {
  const { block, bytes, dequantize } = GGML[type];
  const out = new Float32Array((data.length / bytes) * block);
  for (let from = 0, to = 0; from < data.length; from += bytes, to += block) dequantize!(data, from, out, to);
  return out;
}
