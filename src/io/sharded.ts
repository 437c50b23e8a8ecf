// Models in several safetensors files, in Hugging Face's layout: an index maps each array to its file.
import fs from 'node:fs/promises';
import path from 'node:path';
import { byteLength } from '../base/dtype.js';
import { ArgumentError, FileError } from '../base/errors.js';
import { isFileName } from '../base/folder.js';
import { anyObject, jsonText, readJson } from '../base/json.js';
import { checkOptions } from '../base/options.js';
import type { Shape } from '../base/shape.js';
import { isPlain, shown } from '../base/tree.js';
import type { Tensor } from '../tensor/index.js';
import { checkArray, compute, type HostArray, type NamedArrays, namedArrays, type ReadLater } from './array.js';
import { type FileSet, openOutput, readSet, replaceFiles, type WriteFile } from './file.js';
import {
  entryOf,
  openSafetensors,
  type SafetensorsFile,
  safetensors,
  type TensorEntry,
  type TensorFile,
  type WriteOptions,
} from './safetensors.js';

const INDEX = 'model.safetensors.index.json';
const WHOLE = 'model.safetensors';
const SHARD = /^model-\d{5}-of-\d{5}\.safetensors$/;

class ShardedFile implements TensorFile {
  readonly metadata: ReadonlyMap<string, string>;
  readonly entries: ReadonlyMap<string, TensorEntry>;

  constructor(
    readonly path: string,
    private readonly holders: ReadonlyMap<string, SafetensorsFile>, // by array
    private readonly shards: readonly SafetensorsFile[],
  ) {
    this.metadata = new Map(shards.flatMap((s) => [...s.metadata]));
    this.entries = new Map([...holders].map(([name, shard]) => [name, shard.entries.get(name)!]));
  }

  keys(): IterableIterator<string> {
    return this.entries.keys();
  }
  async read(name: string): Promise<HostArray> {
    return entryOf(this.path, this.holders, name).read(name);
  }
  async readRange(name: string, start: number, end: number): Promise<HostArray> {
    return entryOf(this.path, this.holders, name).readRange(name, start, end);
  }
  async readBlock(name: string, start: Shape, block: Shape): Promise<HostArray> {
    return entryOf(this.path, this.holders, name).readBlock(name, start, block);
  }
  async close(): Promise<void> {
    await Promise.all(this.shards.map((s) => s.close()));
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Opens a model's arrays: a folder with an index or with one `model.safetensors`, or the path of an index. Each shard is opened
 * once; arrays are read on request.
 */
export async function openSharded(folderOrIndex: string): Promise<TensorFile> {
  const isFolder = (await fs.stat(folderOrIndex).catch(() => undefined))?.isDirectory();
  const folder = isFolder ? folderOrIndex : path.dirname(folderOrIndex);
  return readSet(
    folder,
    () => openArrays(folderOrIndex),
    (file) => file.close(),
  );
}

/** The same within a readSet. */
export async function openArrays(folderOrIndex: string): Promise<TensorFile> {
  const isFolder = (await fs.stat(folderOrIndex).catch(() => undefined))?.isDirectory();
  const index = isFolder ? path.join(folderOrIndex, INDEX) : folderOrIndex;
  const whole = path.join(folderOrIndex, WHOLE);
  if (isFolder && !(await exists(index))) {
    if (await exists(whole)) return openSafetensors(whole);
    throw new FileError(`${folderOrIndex} has no model: neither ${INDEX} nor ${WHOLE} exists`);
  }
  const map = await readIndex(index);
  const folder = path.dirname(index);
  const names = [...new Set(map.values())];
  const missing = [];
  for (const name of names) if (!(await exists(path.join(folder, name)))) missing.push(name);
  if (missing.length) {
    throw new FileError(
      `${index} names ${names.length} shards, ${missing.length} of which ${missing.length > 1 ? 'are' : 'is'} not there: ${list(missing)}`,
    );
  }
  const shards = new Map<string, SafetensorsFile>();
  const close = () => Promise.all([...shards.values()].map((s) => s.close()));
  try {
    for (const name of names) shards.set(name, await openSafetensors(path.join(folder, name)));
    const holders = new Map([...map].map(([array, name]) => [array, shards.get(name)!]));
    const absent = [...holders].filter(([array, shard]) => !shard.entries.has(array));
    if (absent.length) {
      const where = absent.map(([array, shard]) => `${array} (of ${path.basename(shard.path)})`);
      throw new FileError(`${index} lists arrays that are not in its shards: ${list(where)}`);
    }
    // Other tensors of a shard are read too, as transformers does, and reported as unexpected.
    for (const shard of shards.values())
      for (const array of shard.keys()) if (!holders.has(array)) holders.set(array, shard);
    return new ShardedFile(index, holders, [...shards.values()]);
  } catch (e) {
    await close();
    throw e;
  }
}

const exists = (file: string): Promise<boolean> =>
  fs.access(file).then(
    () => true,
    () => false,
  );
const list = (names: readonly string[]): string =>
  names.length > 10 ? `${names.slice(0, 10).join(', ')} and ${names.length - 10} more` : names.join(', ');

/** Which file holds which array. */
export async function readIndex(index: string): Promise<Map<string, string>> {
  const bad = (what: string, options?: ErrorOptions) =>
    new FileError(`${index} is not an index of shards: ${what}`, options);
  const parsed = await readJson(index, anyObject, { error: bad });
  if (!parsed) throw bad('there is no such file');
  const map = isPlain(parsed.weight_map) ? Object.entries(parsed.weight_map) : [];
  if (!map.length) throw bad('it has no weight_map');
  const wrong = map.find(([, file]) => typeof file !== 'string' || !isFileName(file));
  if (wrong)
    throw new FileError(`${index} says that ${wrong[0]} is in ${shown(wrong[1])}, which is not a file in its folder`);
  return new Map(map as [string, string][]);
}

export interface ShardOptions extends WriteOptions {
  /** The maximum size of a file, unless a single array is larger. Default: 5 GB, as Hugging Face. */
  readonly maxShardBytes?: number;
}

/**
 * Writes arrays and tensors to a folder in Hugging Face's layout: `model.safetensors`, or shards and an index if they exceed the
 * size of a shard. Files of a previous model in the folder are removed.
 */
export async function writeSharded(
  folder: string,
  given: NamedArrays | Readonly<Record<string, HostArray | Tensor>>,
  options: ShardOptions = {},
): Promise<void> {
  checkOptions('writeSharded', ['maxShardBytes', 'metadata'], options);
  const { files, remove } = await shardedFiles(folder, namedArrays('writeSharded', given), options);
  await openOutput(folder, 'writeSharded:');
  await replaceFiles(files, remove);
}

/** The files that writeSharded writes, for a set with others. */
export async function shardedFiles(folder: string, arrays: NamedArrays, options: ShardOptions = {}): Promise<FileSet> {
  const { maxShardBytes = 5e9, metadata = { format: 'pt' } } = options;
  if (!(maxShardBytes > 0))
    throw new ArgumentError(`writeSharded: maxShardBytes is ${maxShardBytes}: give a size in bytes`);
  const shards: Map<string, HostArray | ReadLater>[] = [];
  let [total, filled] = [0, Number.POSITIVE_INFINITY];
  for (const [name, array] of arrays) {
    const bytes = byteLength(checkArray(name, array));
    if (filled + bytes > maxShardBytes) {
      shards.push(new Map());
      filled = 0;
    }
    shards.at(-1)!.set(name, array);
    filled += bytes;
    total += bytes;
  }
  const count = String(shards.length).padStart(5, '0');
  const nameOf = (i: number) =>
    shards.length > 1 ? `model-${String(i + 1).padStart(5, '0')}-of-${count}.safetensors` : WHOLE;
  const files = new Map<string, WriteFile>();
  const add = (name: string, write: WriteFile) => files.set(path.join(folder, name), write);
  for (const [i, shard] of (shards.length ? shards : [new Map()]).entries())
    add(nameOf(i), safetensors(shard, { metadata }));
  if (shards.length > 1) {
    const map = Object.fromEntries(shards.flatMap((shard, i) => [...shard.keys()].map((name) => [name, nameOf(i)])));
    add(INDEX, (write) => write(jsonText({ metadata: { total_size: total }, weight_map: map })));
  }
  await compute(arrays);
  const ours = (name: string) => name === INDEX || name === WHOLE || SHARD.test(name);
  const before = (await fs.readdir(folder).catch(() => [])).filter(ours).map((name) => path.join(folder, name));
  return { files, remove: before.filter((file) => !files.has(file)) };
}
