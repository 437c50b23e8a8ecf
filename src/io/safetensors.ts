// The safetensors format: a JSON header with each array's dtype, shape and position, then their bytes.
import { type ArrayType, byteLength, DTYPES, dtypeFrom, show } from '../base/dtype.js';
import { ArgumentError, DTypeError, FileError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import type { Shape } from '../base/shape.js';
import { messageOf } from '../base/thrown.js';
import type { Tensor } from '../tensor/index.js';
import {
  checkArray,
  compute,
  dataOf,
  type HostArray,
  type NamedArrays,
  namedArrays,
  readArray,
  readBlock,
} from './array.js';
import { type OpenFile, openFile, replaceFiles, type WriteFile } from './file.js';

const HEADER_LIMIT = 100 * 2 ** 20; // the format's own

/** The type of an array, known before it is read. */
export interface TensorEntry extends ArrayType {
  readonly byteLength: number;
}

/** Arrays of one or more files, read on request. */
export interface TensorFile extends AsyncDisposable {
  readonly path: string;
  readonly metadata: ReadonlyMap<string, string>;
  readonly entries: ReadonlyMap<string, TensorEntry>;
  keys(): IterableIterator<string>;
  read(name: string): Promise<HostArray>;
  /** Rows `start` to `end` (not included) of the first dimension. */
  readRange(name: string, start: number, end: number): Promise<HostArray>;
  /** Reads a block, given its start and size in each dimension. Only its bytes are read. */
  readBlock(name: string, start: Shape, block: Shape): Promise<HostArray>;
  close(): Promise<void>;
}

interface Place extends TensorEntry {
  readonly position: number; // in the file
}

/** The entry of that name, or an error that shows names like it. */
export function entryOf<T>(file: string, entries: ReadonlyMap<string, T>, name: string): T {
  const entry = entries.get(name);
  if (entry) return entry;
  const last = name.split('.').at(-1)!;
  const alike = [...entries.keys()].filter((k) => k.includes(last) || name.includes(k));
  const some = (alike.length ? alike : [...entries.keys()]).slice(0, 5).join(', ');
  throw new ArgumentError(`${file} has no array ${name}: it has ${entries.size}, ${some || 'that is none'}, ...`);
}

export class SafetensorsFile implements TensorFile {
  readonly #file: OpenFile;

  private constructor(
    file: OpenFile,
    readonly entries: ReadonlyMap<string, Place>,
    readonly metadata: ReadonlyMap<string, string>,
  ) {
    this.#file = file;
  }

  /** Reads the header and checks all of it. */
  static async open(path: string): Promise<SafetensorsFile> {
    const file = await openFile(path);
    try {
      const { entries, metadata } = await readHeader(file);
      return new SafetensorsFile(file, entries, metadata);
    } catch (e) {
      await file.close();
      throw e;
    }
  }

  get path(): string {
    return this.#file.path;
  }
  keys(): IterableIterator<string> {
    return this.entries.keys();
  }

  async read(name: string): Promise<HostArray> {
    const { dtype, shape, position } = entryOf(this.path, this.entries, name);
    return readArray(this.#file.read, { dtype, shape }, position);
  }

  async readRange(name: string, start: number, end: number): Promise<HostArray> {
    const { dtype, shape } = entryOf(this.path, this.entries, name);
    const [rows, ...rest] = shape;
    if (rows === undefined) throw new ArgumentError(`readRange: ${name} is a scalar (${dtype}[]): use read`);
    const inside = Number.isInteger(start) && Number.isInteger(end) && 0 <= start && start <= end && end <= rows;
    if (!inside) {
      throw new ArgumentError(
        `readRange: rows ${start} to ${end} are out of range for ${name}, ${show({ dtype, shape })}: use 0 to ${rows}`,
      );
    }
    return this.readBlock(name, [start, ...rest.map(() => 0)], [end - start, ...rest]);
  }

  async readBlock(name: string, start: Shape, block: Shape): Promise<HostArray> {
    const { dtype, shape, position } = entryOf(this.path, this.entries, name);
    return readBlock(this.#file, { dtype, shape }, position, start, block);
  }

  close(): Promise<void> {
    return this.#file.close();
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Opens a file and checks its header; arrays are read on request. */
export const openSafetensors = (path: string): Promise<SafetensorsFile> => SafetensorsFile.open(path);

/** All arrays of a file, by name, in the header's order. */
export async function readSafetensors(path: string): Promise<Map<string, HostArray>> {
  return readAll(await openSafetensors(path));
}

/** Reads everything, and closes the file. */
export async function readAll(file: TensorFile): Promise<Map<string, HostArray>> {
  try {
    const arrays = new Map<string, HostArray>();
    for (const name of file.keys()) arrays.set(name, await file.read(name));
    return arrays;
  } finally {
    await file.close();
  }
}

interface Entry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

const isCount = (n: unknown): boolean => Number.isSafeInteger(n) && (n as number) >= 0;
const isEntry = (e: unknown): e is Entry => {
  const { dtype, shape, data_offsets: place } = (e ?? {}) as Partial<Entry>;
  return (
    typeof dtype === 'string' &&
    Array.isArray(shape) &&
    shape.every(isCount) &&
    Array.isArray(place) &&
    place.length === 2 &&
    place.every(isCount)
  );
};
const isObject = (v: unknown): v is object => typeof v === 'object' && v !== null && !Array.isArray(v);

async function readHeader(file: OpenFile) {
  const bad = (what: string, cause?: unknown) =>
    new FileError(`${file.path} is not a whole safetensors file: ${what}`, { cause });
  const { size } = file;
  if (size < 8) throw bad(`it has ${size} bytes`);
  const prefix = Buffer.alloc(8);
  await file.read(prefix, 0);
  const length = Number(prefix.readBigUInt64LE());
  if (length > HEADER_LIMIT || 8 + length > size) {
    throw bad(`its header would be ${length} bytes long, but the file has ${size}`);
  }
  const bytes = new Uint8Array(length);
  await file.read(bytes, 8);
  let header: unknown;
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    header = JSON.parse(text);
  } catch (e) {
    throw bad(`its header is not JSON (${brief(messageOf(e))})`, e);
  }
  if (!isObject(header)) throw bad('its header is not an object');

  const entries = new Map<string, Place>();
  const metadata = new Map<string, string>();
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') {
      const pairs = isObject(entry) ? Object.entries(entry) : [[name, entry]];
      const wrong = pairs.find(([, value]) => typeof value !== 'string');
      if (wrong) throw bad(`its metadata is to hold texts, and says of ${brief(wrong[0])}: ${told(wrong[1])}`);
      for (const [key, value] of pairs) metadata.set(key, value);
      continue;
    }
    if (!isEntry(entry)) throw bad(`its header says of ${brief(name)}: ${told(entry)}`);
    const type = { dtype: dtypeOf(entry.dtype, name, bad), shape: entry.shape };
    const [begin, end] = entry.data_offsets;
    if (end - begin !== byteLength(type)) throw bad(`${name} is ${brief(show(type))} but has ${end - begin} bytes`);
    if (8 + length + end > size) throw bad(`${name} ends at byte ${8 + length + end} of ${size}`);
    entries.set(name, { ...type, byteLength: end - begin, position: 8 + length + begin });
  }
  checkNamedOnce(text, bad);
  checkPlaces(entries, 8 + length, size, bad);
  return { entries, metadata };
}

type Bad = (what: string) => FileError;

function dtypeOf(name: string, array: string, bad: Bad) {
  try {
    return dtypeFrom('safetensors', name);
  } catch (e) {
    throw bad(`${brief(array)}: ${brief(messageOf(e))}`);
  }
}

/** JSON.parse silently keeps the last of two equal names. All values are objects here, so depth 1 has names only. */
function checkNamedOnce(json: string, bad: Bad): void {
  const names = new Set<string>();
  for (let i = 0, depth = 0; i < json.length; i++) {
    const c = json[i];
    if (c === '{' || c === '[') depth++;
    else if (c === '}' || c === ']') depth--;
    else if (c === '"') {
      const start = i++;
      while (json[i] !== '"') i += json[i] === '\\' ? 2 : 1;
      if (depth > 1) continue;
      const name = JSON.parse(json.slice(start, i + 1)) as string;
      if (names.has(name)) throw bad(`its header names ${brief(name)} twice`);
      names.add(name);
    }
  }
}

/** Every byte after the header belongs to one array. */
function checkPlaces(entries: ReadonlyMap<string, Place>, start: number, size: number, bad: Bad): void {
  const inOrder = [...entries].sort(([, a], [, b]) => a.position - b.position || a.byteLength - b.byteLength);
  let [at, before] = [start, 'the header'];
  for (const [name, { position, byteLength: bytes }] of inOrder) {
    if (position < at) throw bad(`${brief(name)} begins at byte ${position}, inside ${before}`);
    if (position > at) throw bad(`bytes ${at} to ${position}, before ${brief(name)}, belong to no array`);
    [at, before] = [at + bytes, brief(name)];
  }
  if (at < size) throw bad(`bytes ${at} to ${size}, at its end, belong to no array`);
}

const brief = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}...` : text);
const told = (value: unknown): string => {
  try {
    return brief(JSON.stringify(value));
  } catch {
    return `a deeply nested ${typeof value}`; // deeper than the stack
  }
};

export interface WriteOptions {
  /** Texts that are kept in the header. */
  readonly metadata?: Readonly<Record<string, string>> | ReadonlyMap<string, string>;
}

/** Writes arrays and tensors atomically: under a temporary name, flushed, then renamed. */
export async function writeSafetensors(
  path: string,
  given: NamedArrays | Readonly<Record<string, HostArray | Tensor>>,
  options: WriteOptions = {},
): Promise<void> {
  checkOptions('writeSafetensors', ['metadata'], options);
  const arrays = namedArrays('writeSafetensors', given);
  const file = safetensors(arrays, options);
  await compute(arrays);
  await replaceFiles(new Map([[path, file]]));
}

/** The function that writes these arrays to a file. */
export function safetensors(arrays: NamedArrays, { metadata = {} }: WriteOptions = {}): WriteFile {
  const texts: Record<string, string> = Object.fromEntries(
    metadata instanceof Map ? metadata : Object.entries(metadata),
  );
  const wrong = Object.keys(texts).find((key) => typeof texts[key] !== 'string');
  if (wrong)
    throw new ArgumentError(`metadata must be strings: ${wrong} is a ${typeof texts[wrong]}: convert it to a string`);
  for (const [name, array] of arrays) checkArray(name, array);
  // Wide elements first, like the official writer: every array is then aligned to its element's size.
  const inOrder = [...arrays].sort(([, a], [, b]) => DTYPES[b.dtype].bytes - DTYPES[a.dtype].bytes);
  const places = new Map<string, Entry>();
  let offset = 0;
  for (const [name, { dtype, shape }] of inOrder) {
    if (name === '__metadata__')
      throw new ArgumentError(`an array cannot be named ${name}: the format reserves that name`);
    if (!DTYPES[dtype].safetensors)
      throw new DTypeError(`${name}: safetensors has no ${dtype}: convert it to c64, or write viewAsReal() of it`);
    const end = offset + byteLength({ dtype, shape });
    places.set(name, { dtype: DTYPES[dtype].safetensors, shape, data_offsets: [offset, end] });
    offset = end;
  }
  const header: [string, unknown][] = [...arrays.keys()].map((name) => [name, places.get(name)]);
  if (Object.keys(texts).length) header.unshift(['__metadata__', texts]);
  const json = JSON.stringify(Object.fromEntries(header));
  const text = Buffer.from(json.padEnd(json.length + ((8 - (Buffer.byteLength(json) % 8)) % 8))); // data starts aligned
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(text.length));
  return async (write) => {
    await write(Buffer.concat([prefix, text]));
    for (const [, array] of inOrder) for (const piece of await dataOf(array)) await write(piece);
  };
}
