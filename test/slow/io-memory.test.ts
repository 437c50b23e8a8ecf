// Loading N bytes holds at most 1.3 N: measured in a process that does nothing else.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { type HostArray, writeNpy, writeNpz, writeSafetensors, writeSharded } from 'tsxla/io';
import { expect, test } from 'vitest';
import { writeZip } from '../../dist/io/zip.js'; // to make torch files: there is no writer of them
import { temporaryFolder } from '../io/files.js';

const dir = temporaryFolder();
const at = (name: string) => path.join(dir, name);
const [ROWS, COLUMNS, COUNT] = [4096, 2560, 10]; // f32: 40 MiB each
const BYTES = 4 * ROWS * COLUMNS * COUNT;

const one = (rows: number, seed: number): HostArray => {
  const data = new Float32Array(rows * COLUMNS);
  for (let i = 0; i < data.length; i++) data[i] = (i % 1000) + seed;
  return { dtype: 'f32', shape: [rows, COLUMNS], data };
};
const model = new Map(Array.from({ length: COUNT }, (_, i) => [`layer${i}`, one(ROWS, i)]));
const large = () => one(ROWS * COUNT, 0);
const bytesOf = ({ data }: HostArray) => new Uint8Array(data.buffer);

/** Numpy's other order, made of one that is written: only the header says so. */
const fortran = (file: string) => {
  const text = fs.readFileSync(file, { encoding: 'latin1' }).slice(0, 128);
  const handle = fs.openSync(file, 'r+');
  fs.writeSync(
    handle,
    Buffer.from(text.replace("'fortran_order': False", "'fortran_order': True "), 'latin1'),
    0,
    128,
    0,
  );
  fs.closeSync(handle);
};

/** A list of tensors of one storage each, with these strides. */
const torchFile = async (file: string, strides: readonly [number, number], tensors: readonly HostArray[]) => {
  const int = (n: number) => Buffer.from([0x4a, ...new Uint8Array(Int32Array.of(n).buffer)]); // BININT
  const text = (s: string) => Buffer.from([0x8c, s.length, ...Buffer.from(s)]); // SHORT_BINUNICODE
  const pickle = tensors.flatMap(({ shape: [rows, columns], data }, i) => [
    Buffer.from('ctorch._utils\n_rebuild_tensor_v2\n(('),
    text('storage'),
    Buffer.from('ctorch\nFloatStorage\n'),
    text(`${i}`),
    text('cpu'),
    ...[int(data.length), Buffer.from('tQ'), int(0), Buffer.from('('), int(rows!), int(columns!), Buffer.from('t(')],
    ...[int(strides[0]), int(strides[1]), Buffer.from('t'), Buffer.from([0x89]), Buffer.from(')tR')],
  ]);
  const out = fs.createWriteStream(file);
  const write = (bytes: Uint8Array) => new Promise<void>((done) => void out.write(bytes, () => done()));
  await writeZip(write, [
    ['archive/data.pkl', async () => [Buffer.from('('), ...pickle, Buffer.from('l.')]],
    ...tensors.map((t, i) => [`archive/data/${i}`, async () => [bytesOf(t)]] as const),
  ]);
  await new Promise((done) => out.end(done));
};

const CASES: readonly (readonly [string, () => Promise<unknown>, string])[] = [
  ['safetensors', () => writeSafetensors(at('x'), model), 'readSafetensors(file)'],
  [
    'shards',
    () => writeSharded(at('x'), model, { maxShardBytes: BYTES / 4 }),
    'io.readAll(await io.openSharded(file))',
  ],
  ['one npy', () => writeNpy(at('x'), large()), 'readNpy(file)'],
  ['a Fortran npy', () => writeNpy(at('x'), large()).then(() => fortran(at('x'))), 'readNpy(file)'],
  ['npz', () => writeNpz(at('x'), model), 'readNpz(file)'],
  ['torch', () => torchFile(at('x'), [COLUMNS, 1], [...model.values()]), 'readTorch(file)'],
  ['one transposed tensor of torch', () => torchFile(at('x'), [1, ROWS * COUNT], [large()]), 'readTorch(file)'],
];

// ru_maxrss would count the parent's memory, so Linux's own figures are read.
test.skipIf(process.platform !== 'linux').each(CASES)('%s', async (_, write, call) => {
  await write();
  const program = `import fs from 'node:fs';
    import * as io from 'tsxla/io';
    const file = process.argv[1];
    const memory = (key) => 1024 * Number(fs.readFileSync('/proc/self/status', 'utf8').match(key + ':\\\\s*(\\\\d+)')[1]);
    const before = memory('VmRSS');
    const loaded = await ${call.startsWith('io.') ? call : `io.${call}`};
    const arrays = loaded instanceof Map ? [...loaded.values()] : [loaded].flat();
    console.log(JSON.stringify([arrays.reduce((n, a) => n + a.data.byteLength, 0), memory('VmHWM') - before]));`;
  const args = ['--input-type=module', '-e', program, at('x')];
  const said = execFileSync(process.execPath, args, { encoding: 'utf8', cwd: import.meta.dirname });
  const [bytes, held] = JSON.parse(said);
  console.log(`${call}: ${(held / bytes).toFixed(2)} times its ${bytes} bytes`);
  fs.rmSync(at('x'), { recursive: true });
  expect(bytes).toBe(BYTES);
  expect(held).toBeGreaterThan(0.9 * bytes); // it was measured: the start of the process counts some MB more or less
  expect(held).toBeLessThan(1.3 * bytes);
});
