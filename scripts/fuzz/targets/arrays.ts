// Files of arrays: safetensors and their index, numpy's.
import path from 'node:path';
import {
  type HostArray,
  openSafetensors,
  openSharded,
  readAll,
  readNpy,
  readNpz,
  readSafetensors,
  writeNpz,
} from 'tsxla/io';
import { DTYPES } from 'tsxla/pjrt';
import { mutateJson, Pairs, parseJson } from '../json.js';
import { mutateNpy, readNpyHeader } from '../npy.js';
import { mutateSafetensors, readSafetensorsStrictly, writeSafetensorsPlainly } from '../safetensors.js';
import type { Files, Target } from '../target.js';
import { mutateZip, readZip } from '../zip.js';
import { alone, bytesOf, differences, goldenPath, made, strictly, together } from './files.js';

interface Opened {
  readonly metadata: ReadonlyMap<string, string>;
  readonly arrays: ReadonlyMap<string, HostArray>;
}

const safetensors: Target = {
  name: 'safetensors',
  about: 'one safetensors file',
  covers: ['tsxla/io readSafetensors', 'tsxla/io openSafetensors', 'tsxla/io readAll', 'tsxla/io SafetensorsFile'],
  make: () => [
    ...['io/every.safetensors', 'checkpoint-v1/step-00000003/model.safetensors'].map(alone('a.safetensors')),
    new Map([['a.safetensors', withMetadata()]]),
  ],
  mutate: () => mutateSafetensors,
  async read(folder): Promise<Opened> {
    const file = path.join(folder, 'a.safetensors');
    const arrays = await readSafetensors(file);
    await using opened = await openSafetensors(file);
    for (const [name, { shape }] of opened.entries)
      if (shape.length) await opened.readRange(name, Math.min(1, shape[0]!), shape[0]!);
    return { metadata: opened.metadata, arrays };
  },
  legal: ({ after, value }) =>
    strictly(
      () => readSafetensorsStrictly(after.get('a.safetensors')!),
      (told) => differences((value as Opened).arrays, told),
    ),
};
/** Arrays of several types, one of them empty, one without dimensions. */
const withMetadata = (prefix = ''): Buffer =>
  writeSafetensorsPlainly(
    [
      [`${prefix}a.weight`, { dtype: 'F32', shape: [2, 3], bytes: Buffer.alloc(24, 'abcdefg') }],
      [`${prefix}a.bias`, { dtype: 'BF16', shape: [3], bytes: Buffer.alloc(6, 'xyz') }],
      [`${prefix}scalar`, { dtype: 'U8', shape: [], bytes: Buffer.alloc(1, 7) }],
      [`${prefix}none`, { dtype: 'I64', shape: [0, 4], bytes: Buffer.alloc(0) }],
    ],
    { format: 'pt', note: 'é' },
  );

const INDEX = 'model.safetensors.index.json';
const sharded: Target = {
  name: 'sharded',
  about: 'model.safetensors.index.json and its shards',
  covers: ['tsxla/io openSharded'],
  make: () => [
    new Map([
      [INDEX, Buffer.from(JSON.stringify({ metadata: { total_size: 62 }, weight_map: Object.fromEntries(SPREAD) }))],
      ...[0, 1].map((i) => [shard(i), withMetadata(`${i}.`)] as const),
    ]),
    together('qwen3/untied', [INDEX, ...[1, 2, 3].map((i) => `model-0000${i}-of-00003.safetensors`)]),
  ],
  mutate: (name) => (name === INDEX ? mutateJson : mutateSafetensors),
  read: async (folder) => readAll(await openSharded(folder)),
  legal({ after, value }) {
    const index = after.get(INDEX);
    if (!index) return 'read without its index';
    const map = parseJson(index.toString());
    const weights = map instanceof Pairs ? map.pairs.findLast(([key]) => key === 'weight_map')?.[1] : undefined;
    if (!(weights instanceof Pairs)) return 'read without a weight_map';
    return strictly(
      () => {
        const files = new Map(weights.pairs as [string, string][]);
        const shards = new Map([...new Set(files.values())].map((f) => [f, readSafetensorsStrictly(after.get(f)!)]));
        const named = new Map([...files].map(([array, file]) => [array, shards.get(file)!.get(array)!]));
        for (const [array, told] of [...shards.values()].flatMap((shard) => [...shard]))
          if (!named.has(array)) named.set(array, told);
        return named;
      },
      (told) => differences(value as Map<string, HostArray>, told),
    );
  },
};
const shard = (i: number): string => `model-0000${i + 1}-of-00002.safetensors`;
const SPREAD = ['a.weight', 'a.bias', 'scalar', 'none'].flatMap((name) =>
  [0, 1].map((i) => [`${i}.${name}`, shard(i)]),
);
/** numpy's name of a dtype, without the byte order. */
const NUMPY: Readonly<Record<string, string>> = {
  ...{ bool: 'b1', i8: 'i1', i16: 'i2', i32: 'i4', i64: 'i8', u8: 'u1', u16: 'u2', u32: 'u4', u64: 'u8' },
  ...{ f16: 'f2', f32: 'f4', f64: 'f8', c64: 'c8', c128: 'c16' },
};
/** How an array differs from what a .npy file says. */
function unlike(array: HostArray, file: Buffer): string | undefined {
  const told = readNpyHeader(file);
  if (!told) return 'read, though its header is not as numpy writes it';
  const { descr, fortran, shape, data } = told;
  if (NUMPY[array.dtype] !== descr.slice(1)) return `${array.dtype}, the file says ${descr}`;
  if (String(array.shape) !== String(shape)) return `shape ${array.shape}, the file says ${shape}`;
  const bytes = bytesOf(array);
  if (bytes.length !== data.length) return `${bytes.length} bytes, the file has ${data.length}`;
  const isPlain = !descr.startsWith('>') && (!fortran || array.shape.length < 2);
  const isSwapped = descr.startsWith('>') && (!fortran || array.shape.length < 2);
  if (isPlain && !bytes.equals(data)) return 'other elements than the file';
  const size = DTYPES[array.dtype].bytes / (array.dtype.startsWith('c') ? 2 : 1); // of one part of a complex number
  if (isSwapped && !swapped(bytes, size).equals(data)) return 'other elements than the file';
  return undefined;
}
const swapped = (b: Buffer, size: number): Buffer =>
  Buffer.concat(
    Array.from({ length: b.length / size }, (_, i) => Buffer.from(b.subarray(i * size, (i + 1) * size)).reverse()),
  );

const npy: Target = {
  name: 'npy',
  about: 'one array of numpy',
  covers: ['tsxla/io readNpy'],
  make: () => ['io/version1.npy', 'io/version2.npy', 'io/version3.npy'].map(alone('a.npy')),
  mutate: () => mutateNpy,
  read: (folder) => readNpy(path.join(folder, 'a.npy')),
  legal: ({ after, value }) => unlike(value as HostArray, after.get('a.npy')!),
};

const ZIPS = ['every', 'compressed', 'comment', 'paths', 'pipe', 'pipe-deflated'];
const npz: Target = {
  name: 'npz',
  about: 'a zip of arrays of numpy',
  covers: ['tsxla/io readNpz'],
  make: async () => [...ZIPS.map((name) => alone('a.npz')(`io/${name}.npz`)), await ownNpz()],
  mutate: () => mutateZip(() => mutateNpy),
  read: (folder) => readNpz(path.join(folder, 'a.npz')),
  legal: ({ after, value }) =>
    strictly(
      () => readZip(after.get('a.npz')!),
      (members) => {
        const read = value as Map<string, HostArray>;
        if (read.size !== members.length) return `${read.size} arrays of ${members.length}`;
        for (const { name, data, isSound } of members) {
          const array = read.get(name.replace(/\.npy$/, ''));
          const wrong = !isSound ? 'its checksum is wrong' : array ? unlike(array, data) : 'missing';
          if (wrong) return `${name}: ${wrong}`;
        }
        return undefined;
      },
    ),
};
/** As our own writer has it: with zip64 records. */
const ownNpz = (): Promise<Files> =>
  made(async (folder) => {
    await writeNpz(path.join(folder, 'a.npz'), await readNpz(goldenPath('io/every.npz')));
  });

export const ARRAYS: readonly Target[] = [safetensors, sharded, npy, npz];
