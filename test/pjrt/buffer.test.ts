// Arrays to a device and back, for every element type; who owns what.

import { type Client, DTYPES, type DType, type TypedArray } from 'tsxla/pjrt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { golden, startCpu, upload } from '../support.js';

let client: Client;
beforeAll(async () => {
  client = await startCpu({ cpu_device_count: 2 });
});
afterAll(() => {
  expect(client.live.buffers).toBe(0);
  client.dispose();
});

/** Bytes with every bit pattern a dtype can hold, as far as they are few. */
function patterns(dtype: DType, n: number): TypedArray {
  const data = new DTYPES[dtype].array(dtype.startsWith('c') ? 2 * n : n); // complex ones have two numbers
  const bytes = new Uint8Array(data.buffer);
  bytes.forEach((_, i) => (bytes[i] = dtype === 'bool' ? i % 2 : (i * 37 + 11) & 0xff));
  return data;
}

test.each(Object.keys(DTYPES) as DType[])('%s: there and back, bit for bit', async (dtype) => {
  for (const shape of [[4], [2, 3], [2, 3, 5], [], [0], [3, 0, 2]]) {
    const data = patterns(
      dtype,
      shape.reduce((a, b) => a * b, 1),
    );
    using buffer = client.bufferFromHost(data, { dtype, shape });
    expect(buffer.deviceType()).toEqual({ dtype, shape });
    expect(await buffer.toHost()).toEqual(data);
  }
});

test('every dtype goes through a program', async () => {
  const executable = await client.compile(golden('mlir/dtypes.mlir'));
  const args = executable.inputs.map((t) => client.bufferFromHost(patterns(t.dtype, 4), t));
  expect(new Set(args.map((a) => a.type.dtype))).toEqual(new Set(Object.keys(DTYPES)));
  const { outputs: results } = executable.execute(args);
  for (const [i, result] of results.entries()) {
    expect(result.type).toEqual(args[i]!.type);
    expect(await result.toHost(), args[i]!.type.dtype).toEqual(patterns(result.type.dtype, 4));
  }
  for (const b of [...args, ...results]) b.dispose();
  executable.dispose();
});

test('the elements may come as bytes', async () => {
  const numbers = Float32Array.of(1, 2, 3);
  using buffer = client.bufferFromHost(new Uint8Array(numbers.buffer), { dtype: 'f32', shape: [3] });
  expect(await buffer.toHost()).toEqual(numbers);
});

test('the array may be changed as soon as the call has returned', async () => {
  const data = new Float32Array(1 << 18).fill(1);
  using buffer = client.bufferFromHost(data, { dtype: 'f32', shape: [1 << 18] });
  data.fill(2);
  expect((await buffer.toHost()).every((x) => x === 1)).toBe(true);
});

test('a copy on another device', async () => {
  using here = upload(client, 1, 2, 3);
  using there = here.copyTo(client.addressableDevices[1]!);
  expect(there.device).toBe(client.addressableDevices[1]);
  expect(await there.toHost()).toEqual(Float32Array.of(1, 2, 3));
});

describe('what is alive is counted', () => {
  test('by buffers and bytes', () => {
    const a = upload(client, 1, 2, 3);
    const b = client.bufferFromHost(new Uint16Array(8), { dtype: 'bf16', shape: [2, 4] });
    expect(client.live).toMatchObject({ buffers: 2, bytes: 12 + 16 });
    a.dispose();
    a.dispose(); // twice does no harm
    expect(client.live).toMatchObject({ buffers: 1, bytes: 16 });
    b[Symbol.dispose]();
    expect(client.live).toMatchObject({ buffers: 0, bytes: 0 });
  });

  test('and what is forgotten is freed by the garbage collector', async () => {
    for (let i = 0; i < 1000; i++) upload(client, i);
    expect(client.live.buffers).toBe(1000);
    for (let i = 0; i < 50 && client.live.buffers; i++) {
      globalThis.gc!();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(client.live).toMatchObject({ buffers: 0, bytes: 0 });
  });
});

describe('refused', () => {
  const make = (data: TypedArray, dtype: DType, ...shape: number[]) => client.bufferFromHost(data, { dtype, shape });
  test('a wrong number of elements', () => {
    expect(() => make(new Float32Array(5), 'f32', 2, 3)).toThrow(
      'a buffer of f32[2, 3] takes 6 elements in a Float32Array (or 24 bytes in a Uint8Array), got 5 in a Float32Array',
    );
  });
  test('a wrong array type', () => {
    expect(() => make(new Float64Array(6), 'f32', 6)).toThrow('got 6 in a Float64Array');
    expect(() => make(new Int32Array(1), 'i64')).toThrow('takes 1 elements in a BigInt64Array');
  });
  test('booleans that are neither 0 nor 1', () => {
    expect(() => make(Uint8Array.of(0, 1, 2), 'bool', 3)).toThrow('a bool must be 0 or 1: element 2 is 2');
  });
  test('what is no dtype, no shape, no array', () => {
    expect(() => make(new Float32Array(1), 'float32' as never, 1)).toThrow('a buffer needs a dtype, one of bool, i8,');
    expect(() => make(new Float32Array(3), 'f32', 1.5, 2)).toThrow(
      'a list of whole numbers of at least 0: got [1.5,2]',
    );
    expect(() => make(undefined as never, 'f32', 1)).toThrow('a buffer of f32[1] takes a Float32Array, got undefined');
  });
  test('a disposed buffer', async () => {
    const buffer = upload(client, 1);
    buffer.dispose();
    const message = 'buffer f32[1] was disposed: it cannot be used any more';
    await expect(buffer.toHost()).rejects.toThrow(message);
    expect(() => buffer.copyTo(client.addressableDevices[1]!)).toThrow(message);
    expect(buffer.toString()).toBe('buffer f32[1] on cpu:0 (gone)');
  });
  test('a device of another client', async () => {
    using other = await startCpu();
    expect(() => client.bufferFromHost(new Float32Array(1), { dtype: 'f32', shape: [1] }, other.defaultDevice)).toThrow(
      'device cpu:0 is not one of client cpu (2 devices)',
    );
  });
  test('a buffer whose client was disposed', async () => {
    const other = await startCpu();
    const buffer = upload(other, 1);
    other.dispose();
    other.dispose();
    await expect(buffer.toHost()).rejects.toThrow(
      'buffer f32[1] was destroyed with its client cpu (1 device), which was disposed',
    );
    expect(() => upload(other, 1)).toThrow('client cpu (1 device) was disposed');
    expect(other.live).toEqual({ buffers: 0, bytes: 0, executables: 0 });
  });
});
