// numpy's files: what numpy saved is what is read, and what is written numpy's own reader would take.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { readNpy, readNpz, writeNpy, writeNpz } from 'tsxla/io';
import { expect, test } from 'vitest';
import { array, expected, golden, temporaryFolder, told, toldAll } from './files.js';

const dir = temporaryFolder();
const file = (name: string) => path.join(dir, name);

test('every dtype, both orders, both byte orders', async () => {
  expect(toldAll(await readNpz(golden('every.npz')))).toEqual(expected['every.npz']);
});

test('compressed archives', async () => {
  const arrays = await readNpz(golden('compressed.npz'));
  expect(arrays.get('zeros')).toEqual({ dtype: 'f64', shape: [5000], data: new Float64Array(5000) });
  arrays.delete('zeros');
  expect(toldAll(arrays)).toEqual(expected['every.npz']);
});

test.each([1, 2, 3])('headers of version %i', async (version) => {
  expect(told(await readNpy(golden(`version${version}.npy`)))).toEqual(expected['every.npz'].fortran);
});

test('a Fortran array larger than the window it is read through', async () => {
  const [rows, columns] = [3001, 1009]; // 12 MB
  const dict = `{'descr': '<f4', 'fortran_order': True, 'shape': (${rows}, ${columns}), }`;
  const header = Buffer.from(`${dict.padEnd(117)}\n`);
  const data = Float32Array.from({ length: rows * columns }, (_, i) => i);
  fs.writeFileSync(
    file('f.npy'),
    Buffer.concat([Buffer.from('\x93NUMPY\x01\x00\x76\x00', 'latin1'), header, Buffer.from(data.buffer)]),
  );
  const read = await readNpy(file('f.npy'));
  expect(read.data.every((v, i) => v === (i % columns) * rows + Math.floor(i / columns))).toBe(true);
});

test('what is written is what is read, and byte for byte what numpy writes', async () => {
  await writeNpy(file('v.npy'), { dtype: 'f64', shape: [3], data: Float64Array.of(0, 1, 2) });
  const npz = fs.readFileSync(golden('every.npz'));
  expect(npz.includes(fs.readFileSync(file('v.npy')))).toBe(true); // its member vector.npy
  const arrays = await readNpz(golden('every.npz'));
  await writeNpz(file('all.npz'), arrays);
  expect(await readNpz(file('all.npz'))).toEqual(arrays);
  await writeNpz(file('none.npz'), new Map());
  expect((await readNpz(file('none.npz'))).size).toBe(0);
  const names = new Map([['größe/語', array('i8', 2)]]);
  await writeNpz(file('names.npz'), names);
  expect(await readNpz(file('names.npz'))).toEqual(names);
});

const python = spawnSync('python3', ['--version']).status === 0;
test.skipIf(!python)('another reader of zip files finds archives whole', async () => {
  const arrays = new Map([
    ['a', array('f32', 2, 3)],
    ['b', array('u8', 100_000)],
  ]);
  await writeNpz(file('checked.npz'), arrays);
  const program = 'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); print(z.testzip(), z.namelist())';
  const { stdout } = spawnSync('python3', ['-c', program, file('checked.npz')], { encoding: 'utf8' });
  expect(stdout.trim()).toBe("None ['a.npy', 'b.npy']");
});

test('names that no archive can hold', async () => {
  for (const name of ['a\0b', '\ud800', 'x'.repeat(70_000)])
    await expect(writeNpz(file('n.npz'), new Map([[name, array('i8', 1)]]))).rejects.toThrow(
      'cannot be the name of a member of a zip archive',
    );
  expect(fs.existsSync(file('n.npz'))).toBe(false);
});

test('tensors', async () => {
  const x = tx.arange(6).reshape([2, 3]);
  await writeNpy(file('t.npy'), x);
  expect(await readNpy(file('t.npy'))).toEqual({
    dtype: 'i64',
    shape: [2, 3],
    data: BigInt64Array.of(0n, 1n, 2n, 3n, 4n, 5n),
  });
  await writeNpz(file('t.npz'), new Map([['x', x.mul(2)]]));
  expect((await readNpz(file('t.npz'))).get('x')!.data).toEqual(BigInt64Array.of(0n, 2n, 4n, 6n, 8n, 10n));
});

test('a damaged archive', async () => {
  const bytes = fs.readFileSync(golden('every.npz'));
  bytes[bytes.indexOf(Buffer.from('vector.npy')) + 170]! ^= 1; // inside its elements
  fs.writeFileSync(file('damaged.npz'), bytes);
  await expect(readNpz(file('damaged.npz'))).rejects.toThrow(
    /damaged\.npz is not a npz file: .*\.npy is damaged: its CRC-32 differs from the one in the archive/,
  );
});

test('complex numbers', async () => {
  expect(await readNpy(golden('complex.npy'))).toEqual({ dtype: 'c64', shape: [2], data: Float32Array.of(1, 0, 1, 0) });
});

test('what numpy has and we have not, and the reverse', async () => {
  await expect(readNpy(golden('object.npy'))).rejects.toThrow(
    'object.npy is not a whole npy file: its elements are |O, which is none of',
  );
  await expect(readNpy(golden('records.npy'))).rejects.toThrow("its elements are [('a', '<f4'), ('b', '<i8')]");
  await expect(writeNpy(file('b.npy'), array('bf16', 2))).rejects.toThrow(
    /numpy has no bf16 .*: convert it to f32, or write safetensors/,
  );
});

test('headers that lie', async () => {
  const made = (dict: string, elements: number) => {
    const start = Buffer.from('\x93NUMPY\x01\x00\x00\x00', 'latin1');
    start.writeUInt16LE(dict.length, 8);
    fs.writeFileSync(file('lie.npy'), Buffer.concat([start, Buffer.from(dict), Buffer.alloc(elements)]));
    return readNpy(file('lie.npy'));
  };
  const dict = (shape: string, more = '') => `{'descr': '<f4', 'fortran_order': False, 'shape': ${shape}, ${more}}`;
  expect((await made(dict('(2, 2)'), 16)).shape).toEqual([2, 2]);
  expect((await made(dict('(2L, 2L)'), 16)).shape).toEqual([2, 2]);
  expect((await made(dict('()'), 4)).shape).toEqual([]);
  await expect(made(dict('(2, 2)'), 12)).rejects.toThrow('it is f32[2, 2] but has 12 bytes of elements');
  await expect(made(dict('(999999999999999, 999999999999999)'), 12)).rejects.toThrow('but has 12 bytes of elements');
  await expect(made(dict('(-2, 2)'), 12)).rejects.toThrow('its header is {');
  await expect(made(dict('(2)'), 8)).rejects.toThrow('its shape is (2)');
  await expect(made(dict("__import__('os')"), 8)).rejects.toThrow('its header is {');
  await expect(made(dict('(2,)', "'shape': (3,), "), 8)).rejects.toThrow('its header says shape twice');
  await expect(made(dict('(2,)', "'more': (3,), "), 8)).rejects.toThrow('its header is {');
  await expect(made(`${dict('(2,)')} or 1`, 8)).rejects.toThrow('its header is {');
  fs.writeFileSync(file('lie.npy'), 'PK');
  await expect(readNpy(file('lie.npy'))).rejects.toThrow('it has 2 bytes');
});
