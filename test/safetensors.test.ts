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
  await expect(readSafetensors(path.join(dir, 'none'))).rejects.toThrow(/^cannot read .*none: ENOENT/);
});

test('data that does not fit its shape is not written', async () => {
  fs.rmSync(file, { force: true });
  const wrong = { dtype: 'f32', shape: [3], data: new Float32Array(2) } as const;
  await expect(writeSafetensors(file, new Map([['w', wrong]]))).rejects.toThrow('w: f32[3] has 8 bytes of data');
  expect(fs.readdirSync(dir)).toEqual([]);
});
