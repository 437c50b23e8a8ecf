// GGUF: blocks against gguf-py's (scripts/golden/gguf.py), files there and back, and files that are refused.
import fs from 'node:fs';
import path from 'node:path';
import { type GgmlType, type GgufValue, openGguf, readGguf, writeGguf } from 'tsxla/io';
import { expect, test } from 'vitest';
import { dequantizeBlocks, quantizeBlocks } from '../../dist/io/ggml.js';
import { scratch } from '../scratch.js';

const place = scratch('gguf');
const folder = (): string => {
  const made = place.newFolder();
  fs.mkdirSync(made);
  return made;
};
const GOLDEN = path.join(import.meta.dirname, '../golden/gguf');
const EVERY = path.join(GOLDEN, 'every.gguf');
const blocks = JSON.parse(fs.readFileSync(path.join(GOLDEN, 'blocks.json'), 'utf8'));
const bytes = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));
const floats = (hex: string): Float32Array => new Float32Array(bytes(hex).buffer);
const x = floats(blocks.x);

test.each(['Q8_0', 'Q4_0', 'Q5_0'] satisfies GgmlType[])("%s has gguf-py's bytes, and its values", (type) => {
  const made = quantizeBlocks(type, x);
  expect(Buffer.from(made).toString('hex')).toBe(blocks[type].bytes);
  expect(dequantizeBlocks(type, made)).toEqual(floats(blocks[type].values));
});

test("Q4_K has gguf-py's values for any bytes", () => {
  expect(dequantizeBlocks('Q4_K', bytes(blocks.Q4_K.bytes))).toEqual(floats(blocks.Q4_K.values));
});

/** The mean squared error of blocks of 32, each with codes of 4 bits from its least to its largest weight, in full precision. */
function nearestError(values: Float32Array): number {
  let sum = 0;
  for (let from = 0; from < values.length; from += 32) {
    const group = values.subarray(from, from + 32);
    const [low, high] = [Math.min(0, ...group), Math.max(0, ...group)];
    const step = (high - low) / 15 || 1;
    for (const v of group) sum += (low + step * Math.round((v - low) / step) - v) ** 2;
  }
  return sum / values.length;
}
const errorOf = (type: GgmlType, values: Float32Array): number =>
  dequantizeBlocks(type, quantizeBlocks(type, values)).reduce((sum, v, i) => sum + (v - values[i]!) ** 2, 0) /
  values.length;

test('Q4_K is nearer than rounding to the nearest, though its scales have 6 bits, and than Q4_0', () => {
  const normal = x.subarray(0, 1024);
  expect(errorOf('Q4_K', normal)).toBeLessThan(0.9 * nearestError(normal));
  expect(errorOf('Q4_K', normal)).toBeLessThan(0.8 * errorOf('Q4_0', normal));
});

test('Q4_K holds zeros, equal weights, weights of one sign and one large weight', () => {
  const of = (f: (i: number) => number) => Float32Array.from({ length: 256 }, (_, i) => f(i));
  const back = (v: Float32Array) => dequantizeBlocks('Q4_K', quantizeBlocks('Q4_K', v));
  expect(back(of(() => 0))).toEqual(of(() => 0));
  for (const made of [back(of(() => 3)), back(of(() => -3))])
    for (const v of made) expect(Math.abs(v)).toBeCloseTo(3, 1);
  const positive = of((i) => 1 + (i % 16) / 16);
  back(positive).forEach((v, i) => void expect(Math.abs(v - positive[i]!)).toBeLessThan(0.08));
  expect(back(of((i) => (i === 7 ? 100 : 0.5)))[7]).toBeCloseTo(100, 0);
});

test('a file of gguf-py: every value type and tensor', async () => {
  const { metadata, arrays } = await readGguf(EVERY);
  const value = (key: string) => metadata.get(key)?.value;
  expect(
    [...'u8 i8 u16 i16 u32 i32 f32 u64 i64 f64 bool string'.split(' ')].map((t) => metadata.get(`a.${t}`)?.type),
  ).toEqual('u8 i8 u16 i16 u32 i32 f32 u64 i64 f64 bool string'.split(' '));
  expect([value('a.u8'), value('a.i16'), value('a.u32'), value('a.u64'), value('a.i64'), value('a.f64')]).toEqual([
    200,
    -30000,
    4000000000,
    2n ** 63n,
    -(2n ** 62n),
    0.1,
  ]);
  expect([value('a.bool'), value('a.string'), value('a.strings')]).toEqual([true, 'größe 語', ['one', '', 'ü']]);
  expect(metadata.get('a.bools')).toEqual({ type: 'array', of: 'bool', value: [true, false] });
  expect(arrays.get('f32')).toEqual({
    dtype: 'f32',
    shape: [2, 3],
    data: Float32Array.of(...x.subarray(0, 3), ...x.subarray(256, 259)),
  });
  expect(arrays.get('f16')!.data).toEqual(floats(blocks.F16.values).slice(0, 5));
  expect(arrays.get('i32')).toEqual({ dtype: 'i32', shape: [3, 2], data: Int32Array.of(0, 1, 2, 3, 4, 5) });
  for (const type of ['Q8_0', 'Q4_0', 'Q5_0', 'BF16'])
    expect(arrays.get(type)!.data.slice(0, 64), type).toEqual(floats(blocks[type].values).slice(0, 64));
  expect(arrays.get('Q4_K')!.data).toEqual(floats(blocks.Q4_K.values).slice(0, 512));
});

test('written and read back: metadata, shapes, types', async () => {
  const file = path.join(folder(), 'a.gguf');
  const metadata: Record<string, GgufValue> = {
    'general.alignment': { type: 'u32', value: 128 },
    nested: { type: 'array', of: 'array', value: [{ type: 'array', of: 'i16', value: [-1, 2] }] },
    big: { type: 'u64', value: 2n ** 64n - 1n },
    no: { type: 'bool', value: false },
    none: { type: 'array', of: 'string', value: [] },
  };
  const array = { dtype: 'f32', shape: [8, 256], data: x } as const;
  await writeGguf(
    file,
    { a: array, b: array, c: array, d: { dtype: 'i8', shape: [3], data: Int8Array.of(1, -2, 3) } },
    {
      metadata,
      types: { b: 'Q4_K', c: 'BF16' },
    },
  );
  await using opened = await openGguf(file);
  expect(Object.fromEntries(opened.metadata)).toEqual(metadata);
  expect([...opened.entries].map(([name, e]) => [name, e.type, e.shape])).toEqual([
    ['a', 'F32', [8, 256]],
    ['b', 'Q4_K', [8, 256]],
    ['c', 'BF16', [8, 256]],
    ['d', 'I8', [3]],
  ]);
  expect((await opened.read('a')).data).toEqual(x);
  expect((await opened.read('b')).data).toEqual(dequantizeBlocks('Q4_K', quantizeBlocks('Q4_K', x)));
  expect((await opened.read('c')).data).toEqual(floats(blocks.BF16.values));
});

test('what cannot be written is refused, and leaves no file', async () => {
  const file = path.join(folder(), 'a.gguf');
  const f32 = (shape: number[], value = 1) => ({
    dtype: 'f32' as const,
    shape,
    data: new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(value),
  });
  const write = (array: ReturnType<typeof f32>, type: GgmlType, metadata = {}) =>
    writeGguf(file, { a: array }, { types: { a: type }, metadata });
  await expect(write(f32([2, 33]), 'Q8_0')).rejects.toThrow(
    'a: rows of 33 are not whole blocks of 32: Q8_0 cannot hold it',
  );
  await expect(write(f32([1, 32], Number.NaN), 'Q4_0')).rejects.toThrow('a: element 0 is not finite');
  await expect(write(f32([4], 1e6), 'F16')).rejects.toThrow('a: element 0 is too large for F16: choose BF16 or F32');
  await expect(write(f32([1, 1, 1, 1, 1]), 'F32')).rejects.toThrow('5 dimensions: GGUF has at most 4');
  await expect(write(f32([4]), 'F32', { k: { type: 'u8', value: 256 } })).rejects.toThrow('k: 256 is not a valid u8');
  await expect(write(f32([4]), 'F32', { k: { type: 'string', value: 1 } })).rejects.toThrow(
    'k: 1 is not a valid string',
  );
  await expect(writeGguf(file, { a: { dtype: 'bool', shape: [1], data: Uint8Array.of(1) } })).rejects.toThrow(
    'GGUF has no bool',
  );
  expect(fs.existsSync(file)).toBe(false);
});

test('damaged files are refused by name', async () => {
  const file = path.join(folder(), 'a.gguf');
  const good = fs.readFileSync(EVERY);
  const refused = async (change: (b: Buffer) => Buffer | undefined, said: string) => {
    const copy = Buffer.from(good);
    fs.writeFileSync(file, change(copy) ?? copy);
    await expect(readGguf(file), said).rejects.toThrow(`${file} is not a whole GGUF file: ${said}`);
  };
  await refused((b) => void b.write('GGML'), "it does not begin with 'GGUF'");
  await refused((b) => void b.writeUInt32LE(1, 4), 'its version is 1: supported are 2 and 3');
  await refused((b) => void b.writeUInt32BE(3, 4), 'it is big endian');
  await refused((b) => void b.writeBigUInt64LE(2n ** 60n, 8), 'the count of tensors');
  await refused((b) => b.subarray(0, 100), 'its header goes beyond its 100 bytes');
  await refused((b) => b.subarray(0, b.length - 16), 'i32 ends at byte');
  await refused((b) => Buffer.concat([b, Buffer.alloc(64)]), 'bytes');
});
