// safetensors: what is written is what is read, and a damaged file is named.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type HostArray, readSafetensors, writeSafetensors } from 'tsxla/io';
import { DTYPES, type DType } from 'tsxla/pjrt';
import { afterAll, expect, test } from 'vitest';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-safetensors-'));
afterAll(() => fs.rmSync(dir, { recursive: true }));
const file = path.join(dir, 'x.safetensors');

const array = (dtype: DType, ...shape: number[]): HostArray => {
  const data = new DTYPES[dtype].array(shape.reduce((a, b) => a * b, 1));
  new Uint8Array(data.buffer).forEach((_, i, bytes) => (bytes[i] = i * 29));
  return { dtype, shape, data };
};

test('every dtype, scalars and empty arrays', async () => {
  const arrays = new Map(
    Object.keys(DTYPES).map((d, i) => [`a.${d}`, array(d as DType, ...[[3, 2], [], [0, 4]][i % 3]!)]),
  );
  await writeSafetensors(file, arrays);
  expect(await readSafetensors(file)).toEqual(arrays);
  expect(fs.readdirSync(dir)).toEqual(['x.safetensors']); // no temporary file is left
});

test('a file cut short, or that is something else', async () => {
  await writeSafetensors(file, new Map([['w', array('f32', 8)]]));
  const whole = fs.readFileSync(file);
  const damaged = async (bytes: Uint8Array) => {
    fs.writeFileSync(file, bytes);
    return readSafetensors(file);
  };
  await expect(damaged(whole.subarray(0, -4))).rejects.toThrow(
    /x\.safetensors is not a whole safetensors file: w ends at byte \d+ of \d+/,
  );
  await expect(damaged(whole.subarray(0, 5))).rejects.toThrow('it has 5 bytes');
  await expect(damaged(Buffer.from('PK this is a zip file, really'))).rejects.toThrow(
    /its header would be \d+ bytes long/,
  );
  await expect(damaged(Buffer.concat([whole.subarray(0, 8), Buffer.alloc(whole.length - 8, 'x')]))).rejects.toThrow(
    'its header is not JSON',
  );
  const headed = (header: unknown) => {
    const text = Buffer.from(JSON.stringify(header));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(text.length));
    return damaged(Buffer.concat([length, text, Buffer.alloc(64)]));
  };
  await expect(headed(null)).rejects.toThrow('its header is not an object');
  await expect(headed({ w: { dtype: 'F32', shape: [2] } })).rejects.toThrow(
    'its header says of w: {"dtype":"F32","shape":[2]}',
  );
  await expect(headed({ w: { dtype: 'F32', shape: [-2], data_offsets: [0, 8] } })).rejects.toThrow(
    'its header says of w',
  );
  await expect(headed({ w: { dtype: 'F32', shape: [2], data_offsets: [8, 0] } })).rejects.toThrow(
    'w is f32[2] but has -8 bytes',
  );
  await expect(readSafetensors(path.join(dir, 'none'))).rejects.toThrow(/^cannot read .*none: ENOENT/);
});

test('through a link, into a pipe, and by two at once', async () => {
  const real = path.join(dir, 'real.safetensors');
  const link = path.join(dir, 'link.safetensors');
  await writeSafetensors(real, new Map([['w', array('f32', 2)]]));
  fs.symlinkSync(real, link);
  await writeSafetensors(link, new Map([['w', array('f32', 3)]]));
  expect(fs.lstatSync(link).isSymbolicLink()).toBe(true);
  expect((await readSafetensors(real)).get('w')!.shape).toEqual([3]);
  await writeSafetensors('/dev/null', new Map([['w', array('f32', 3)]]));
  expect(fs.statSync('/dev/null').isCharacterDevice()).toBe(true);
  const filled = (v: number) =>
    new Map([['w', { dtype: 'f32', shape: [1 << 18], data: new Float32Array(1 << 18).fill(v) } as const]]);
  await Promise.all([1, 2, 3, 4].map((v) => writeSafetensors(real, filled(v))));
  const { data } = (await readSafetensors(real)).get('w')!;
  expect(data.every((v) => v === data[0])).toBe(true); // one of them, whole
  fs.rmSync(link);
  fs.rmSync(real);
});

test('names that are special to JSON or to the format', async () => {
  await writeSafetensors(file, new Map([['__proto__', array('f32', 2)]]));
  expect([...(await readSafetensors(file)).keys()]).toEqual(['__proto__']);
  await expect(writeSafetensors(file, new Map([['__metadata__', array('f32', 2)]]))).rejects.toThrow(
    'an array cannot be called __metadata__',
  );
});

test('data that does not fit its shape is not written', async () => {
  fs.rmSync(file, { force: true });
  const wrong = { dtype: 'f32', shape: [3], data: new Float32Array(2) } as const;
  await expect(writeSafetensors(file, new Map([['w', wrong]]))).rejects.toThrow(
    'w: f32[3] has 8 bytes of data in a Float32Array',
  );
  expect(fs.readdirSync(dir)).toEqual([]);
});
