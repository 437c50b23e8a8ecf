// The float formats JavaScript lacks: known codes, and every code there and back.
import { expect, test } from 'vitest';
import { DTYPES } from '../dist/base/dtype.js';
import { decodeFloats, encodeNumbers } from '../dist/base/float.js';

const FLOATS = ['f16', 'bf16', 'f8e4m3fn', 'f8e5m2'] as const;
const every = (dtype: 'f16' | 'bf16' | 'f8e4m3fn' | 'f8e5m2') =>
  new DTYPES[dtype].array(2 ** (8 * DTYPES[dtype].bytes)).map((_, i) => i);

test.each(FLOATS)('%s: every code decodes to a number that encodes to it', (dtype) => {
  const codes = every(dtype);
  const values = decodeFloats(dtype, codes) as Float32Array;
  const back = encodeNumbers(dtype, values);
  codes.forEach((code, i) => Number.isNaN(values[i]) || expect(back[i], `code ${code} is ${values[i]}`).toBe(code));
  expect(decodeFloats(dtype, back)).toEqual(values); // NaNs become NaNs
});

// Values and codes as torch 2.13 converts them.
test.each([
  [
    'f16',
    [1, -2, 65504, 65520, 2 ** -24, 2.98e-8, 1 / 3, Number.NaN],
    [0x3c00, 0xc000, 0x7bff, 0x7c00, 1, 0, 0x3555, 0x7e00],
  ],
  ['bf16', [1, 3.2, 1e40, 1.00390625, 1.01171875, -0], [0x3f80, 0x404d, 0x7f80, 0x3f80, 0x3f82, 0x8000]],
  ['f8e4m3fn', [1, 448, 464, 465, 0.001953125, -0.5], [0x38, 0x7e, 0x7e, 0x7f, 1, 0xb0]],
  ['f8e5m2', [1, 57344, 61440, Number.POSITIVE_INFINITY, 0.0000152587890625], [0x3c, 0x7b, 0x7c, 0x7c, 1]],
] as const)('%s rounds to nearest, ties to even', (dtype, values, codes) => {
  expect([...(encodeNumbers(dtype, values) as Uint16Array)]).toEqual(codes);
});

test('whole numbers wrap as typed arrays do', () => {
  expect([...encodeNumbers('u8', [255, 256, -1])]).toEqual([255, 0, 255]);
  expect([...encodeNumbers('i64', [1, -2.9])]).toEqual([1n, -2n]);
  expect([...encodeNumbers('bool', [0, 2, -1])]).toEqual([0, 1, 1]);
});
