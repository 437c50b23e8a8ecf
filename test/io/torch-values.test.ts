// What torch.load(weights_only=True) reads beside plain tensors, and files in the form before torch 1.6.
import fs from 'node:fs';
import path from 'node:path';
import { FileError } from 'tsxla';
import {
  type ComplexTensor,
  type HostArray,
  locateTorch,
  openTorch,
  type QuantizedTensor,
  readTorch,
  type SparseTensor,
  type TorchValue,
} from 'tsxla/io';
import { expect, test } from 'vitest';
import { Archive } from '../../dist/io/torch-pickle.js';
import { golden, temporaryFolder, told, toldAll } from './files.js';

const dir = temporaryFolder();
const expected = JSON.parse(fs.readFileSync(golden('torch.json'), 'utf8'));
const dict = async (name: string) => (await readTorch(golden(name))) as Map<string, TorchValue>;
const hex = ({ data }: HostArray) => Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('hex');

test('devices, layouts, dtypes, numbers and counters are what their names say', async () => {
  const values = await dict('weights-only.pt');
  const names = ['device', 'cpu', 'layout', 'strided', 'size', 'dtype', 'odd dtype', 'qscheme', 'complex'];
  expect(names.map((name) => values.get(name))).toEqual([
    ...['cuda:1', 'cpu', 'sparse_coo', 'strided', [2, 3], 'complex64', 'float8_e8m0fnu', 'per_tensor_affine'],
    { real: 1, imag: -2 },
  ]);
  expect(values.get('counter')).toEqual(new Map(Object.entries({ a: 2, b: 1, c: 1 })));
  expect(values.get('meta')).toEqual({ device: 'meta', dtype: 'bf16', shape: [2, 3] });
  expect((await dict('defaultdict.pt')).get('lists')).toEqual(new Map([['a', [1]]]));
});

test('whatever torch.load(weights_only=True) may import is known', () => {
  const archive = new Archive((what) => new FileError(what));
  expect(expected.globals.length).toBeGreaterThan(100);
  expect(expected.globals.filter((name: string) => archive.find(name) === undefined)).toEqual([]);
});

test('tensors with attributes, and parameters', async () => {
  const values = (await dict('weights-only.pt')) as Map<string, HostArray>;
  const want = expected['weights-only.pt'];
  for (const name of ['plain', 'attribute', 'parameter', 'negative'])
    expect(told(values.get(name)!), name).toEqual(want[name]);
});

test('complex tensors, conjugated and transposed ones too', async () => {
  const values = (await dict('weights-only.pt')) as Map<string, ComplexTensor>;
  const want = expected['weights-only.pt'];
  for (const name of ['c64', 'c128', 'c32', 'transposed', 'conjugate']) {
    const { dtype, shape, viewAsReal } = values.get(name)!;
    expect([shape, viewAsReal.shape, hex(viewAsReal)], name).toEqual([[2, 2], [2, 2, 2], want[name]]);
    expect([dtype, viewAsReal.dtype]).toEqual(
      { c128: ['complex128', 'f64'], c32: ['complex32', 'f16'] }[name] ?? ['complex64', 'f32'],
    );
  }
  expect(values.get('c64')!.viewAsReal.data).toEqual(Float32Array.of(1, 2, 3, -4, 0, 5, -6, 0));
  const { bits, ...raw } = values.get('e8m0') as unknown as { bits: HostArray };
  expect([raw, bits.dtype, hex(bits)]).toEqual([{ dtype: 'float8_e8m0fnu', shape: [3] }, 'u8', want.e8m0]);
});

test('sparse, quantized and nested tensors', async () => {
  const values = await dict('weights-only.pt');
  const want = expected['weights-only.pt'];
  const sparse = values.get('sparse') as SparseTensor & { layout: 'sparse_coo' };
  expect([sparse.layout, sparse.shape, sparse.coalesced]).toEqual(['sparse_coo', [2, 3], true]);
  expect([told(sparse.indices), told(sparse.values as HostArray)]).toEqual(want.sparse);
  for (const name of ['csr', 'csc', 'bsr']) {
    const x = values.get(name) as SparseTensor & { layout: 'sparse_csr' };
    expect(x.layout).toBe(`sparse_${name}`);
    expect([x.compressedIndices, x.plainIndices, x.values as HostArray].map(told), name).toEqual(want[name]);
  }
  const complex = values.get('complex sparse') as SparseTensor & { layout: 'sparse_coo' };
  expect([told(complex.indices), hex((complex.values as ComplexTensor).viewAsReal)]).toEqual(want['complex sparse']);
  const { values: elements, ...rest } = values.get('quantized') as QuantizedTensor;
  expect(told(elements)).toEqual(want.quantized);
  expect(rest).toEqual({ dtype: 'qint8', shape: [3], qscheme: 'per_tensor_affine', scale: 0.5, zeroPoint: 3 });
  const channels = values.get('channels') as QuantizedTensor;
  expect(told(channels.values)).toEqual(want.channels);
  expect([channels.axis, channels.qscheme]).toEqual([1, 'per_channel_affine']);
  expect([channels.scale, channels.zeroPoint].map((x) => [...(x as HostArray).data])).toEqual([
    [0.5, 0.25],
    [1n, 2n],
  ]);
  const { layout, buffer } = values.get('nested') as { layout: 'nested'; buffer: HostArray };
  expect([layout, told(buffer)]).toEqual(['nested', want.nested]);
});

test('opened, a tensor without a form of its own is named when asked for, and no reason to refuse the others', async () => {
  await using file = await openTorch(golden('weights-only.pt'));
  expect(told(await file.read('plain'))).toEqual(expected['weights-only.pt'].plain);
  expect(told(await file.read('negative'))).toEqual(expected['weights-only.pt'].negative);
  expect(file.entries.has('c64')).toBe(false);
  await expect(file.read('c64')).rejects.toThrow(/weights-only\.pt: c64 is complex64\[2, 2\], which readTorch reads/);
  await expect(file.read('sparse')).rejects.toThrow(/sparse is sparse_coo tensor\[2, 3\], which readTorch reads/);
  await expect(locateTorch(golden('weights-only.pt'))).rejects.toThrow('which is not stored as one array');
  await using packed = await openTorch(golden('packed.pt'));
  expect((await packed.read('plain')).data).toEqual(Float32Array.of(0, 1));
  await expect(packed.read('packed')).rejects.toThrow('packed is quint4x2[2,4], several elements a byte');
});

test('files before torch 1.6', async () => {
  const legacy = (await dict('legacy.pt')) as Map<string, HostArray>;
  expect(toldAll(legacy)).toEqual(expected['legacy.pt']);
  expect(legacy.get('tied1')!.data).toBe(legacy.get('tied2')!.data);
  expect(legacy.get('part')!.data.buffer).toBe(legacy.get('base')!.data.buffer);
  await using opened = await openTorch(golden('legacy.pt'));
  for (const [name, array] of legacy) expect(await opened.read(name)).toEqual(array);
  const model = await dict('legacy-model.pt');
  expect(toldAll(model.get('model') as Map<string, HostArray>)).toEqual(expected['legacy-model.pt']);
  expect([model.get('step'), model.get('device')]).toEqual([3, 'cpu']);
  await using inner = await openTorch(golden('legacy-model.pt'), 'model');
  expect(told(await inner.read('0.weight'))).toEqual(expected['legacy-model.pt']['0.weight']);
  expect(toldAll(await dict('legacy-parts.pt'))).toEqual(expected['legacy-parts.pt']);
  const old: readonly HostArray[] = [await dict('old.pt'), await dict('legacy4.pt')].map(
    (d) => d.get('w') as HostArray,
  );
  expect(old.map((w) => [...w.data])).toEqual([
    [1, 1],
    [1, 1],
  ]);
});

test('where the tensors of an old file lie', async () => {
  const file = golden('legacy-parts.pt');
  const bytes = fs.readFileSync(file);
  for (const [name, { position, shape }] of await locateTorch(file)) {
    const length = 4 * shape.reduce((n, d) => n * d, 1);
    expect(bytes.toString('hex', position, position + length), name).toBe(expected['legacy-parts.pt'][name][2]);
  }
  await expect(locateTorch(golden('legacy.pt'))).rejects.toThrow('transposed is not contiguous');
});

/** Reads a copy of a file in which something was changed. */
function changed(name: string, change: (b: Buffer) => Buffer | undefined): Promise<TorchValue> {
  const bytes = fs.readFileSync(golden(name));
  fs.writeFileSync(path.join(dir, 'changed.pt'), change(bytes) ?? bytes);
  return readTorch(path.join(dir, 'changed.pt'));
}

test('old files that lie', async () => {
  const count = (b: Buffer) => b.length - 40; // in front of the last storage, of 8 numbers
  for (const [what, change] of [
    ['it should end at byte 375, but has 376', (b: Buffer) => Buffer.concat([b, Buffer.alloc(1)])],
    ['storage 10 reaches beyond its end', (b: Buffer) => b.subarray(0, -1)],
    ['storage 10 has 9 elements, not 8', (b: Buffer) => void b.writeBigInt64LE(9n, count(b))],
    ['storage 10 has -1 elements, not 8', (b: Buffer) => void b.writeBigInt64LE(-1n, count(b))],
    ['its list of storages is not that of its tensors', (b: Buffer) => void b.write('11', count(b) - 6)],
    ['it is a pickle, but torch.save did not write it', (b: Buffer) => void b.writeUInt8(0, 6)],
    ['its version is not 1001', (b: Buffer) => void b.writeUInt8(7, b.indexOf('M\xe9\x03', 0, 'latin1') + 1)],
    ['its pickle is cut short at byte 100', (b: Buffer) => b.subarray(0, 100)],
    [
      'a part of storage 10 that is not inside of it',
      (b: Buffer) => void b.writeUInt8(9, b.indexOf('K\x05', 0, 'latin1') + 1),
    ],
  ] as const) {
    const error = await changed('legacy-parts.pt', change as (b: Buffer) => Buffer | undefined).catch((e) => e);
    expect(error, what).toBeInstanceOf(FileError);
    expect(error.message).toContain(what);
  }
  fs.writeFileSync(
    path.join(dir, 'bare.pt'),
    Buffer.from('\x80\x02cposix\nsystem\nX\x01\x00\x00\x00a\x85R.', 'latin1'),
  );
  await expect(readTorch(path.join(dir, 'bare.pt'))).rejects.toThrow('it is a pickle, but torch.save did not write it');
  const whole = fs.readFileSync(golden('legacy.pt'));
  for (let end = 0; end < whole.length; end += 37)
    await expect(changed('legacy.pt', () => whole.subarray(0, end))).rejects.toThrow(FileError);
});

test('a storage with a wrong CRC-32 is an error; files without checksums are read', async () => {
  const bytes = fs.readFileSync(golden('every.pt'));
  const { position } = (await locateTorch(golden('every.pt'))).get('i32')!;
  bytes[position]! ^= 1;
  await expect(changed('every.pt', () => bytes)).rejects.toThrow(
    /data\/\d+ is damaged: its CRC-32 differs from the one in the archive/,
  );
  fs.writeFileSync(path.join(dir, 'damaged.pt'), bytes);
  await using damaged = await openTorch(path.join(dir, 'damaged.pt'));
  await expect(damaged.read('i32')).rejects.toThrow('is damaged: its CRC-32 differs from the one in the archive');
  expect((await damaged.read('f64')).dtype).toBe('f64');
  expect((await locateTorch(path.join(dir, 'damaged.pt'))).has('i32')).toBe(true);
  await expect(locateTorch(path.join(dir, 'damaged.pt'), { checksums: true })).rejects.toThrow(
    'is damaged: its CRC-32',
  );
  expect(await locateTorch(golden('every.pt'), { checksums: true })).toEqual(await locateTorch(golden('every.pt')));
  expect((await dict('no-checksums.pt')).get('w')).toMatchObject({ data: Float32Array.of(0, 1, 2) });
  expect((await dict('skipped.pt')).get('w')).toMatchObject({ shape: [3] });
});
