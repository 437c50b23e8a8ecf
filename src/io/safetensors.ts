// The safetensors format: a JSON header that names each array's dtype, shape and place, then their bytes.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs/promises';
import { type ArrayType, byteLength, DTYPES, dtypeFrom, show, type TypedArray } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';

export interface HostArray extends ArrayType {
  readonly data: TypedArray;
}

const HEADER_LIMIT = 100 * 2 ** 20; // the format's own
const CHUNK = 2 ** 30; // Node reads at most 2 GiB at once

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

/** All arrays of a file, by name, in the file's order. */
export async function readSafetensors(path: string): Promise<Map<string, HostArray>> {
  const bad = (what: string, cause?: unknown) =>
    new ArgumentError(`${path} is not a whole safetensors file: ${what}`, { cause });
  const file = await fs.open(path).catch((e) => {
    throw new ArgumentError(`cannot read ${path}: ${messageOf(e)}`, { cause: e });
  });
  const read = async (length: number, position: number, what: string): Promise<Uint8Array<ArrayBuffer>> => {
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      const { bytesRead } = await file.read(bytes, done, Math.min(length - done, CHUNK), position + done);
      if (!bytesRead) throw bad(`${what} is cut short`);
      done += bytesRead;
    }
    return bytes;
  };
  try {
    const { size } = await file.stat();
    if (size < 8) throw bad(`it has ${size} bytes`);
    const length = Number(Buffer.from(await read(8, 0, 'the header')).readBigUInt64LE());
    if (length > HEADER_LIMIT || 8 + length > size) {
      throw bad(`its header would be ${length} bytes long, the file has ${size}`);
    }
    let header: unknown;
    try {
      header = JSON.parse(Buffer.from(await read(length, 8, 'the header')).toString('utf8'));
    } catch (e) {
      throw bad(`its header is not JSON (${messageOf(e)})`, e);
    }
    if (typeof header !== 'object' || header === null) throw bad('its header is not an object');
    const arrays = new Map<string, HostArray>();
    for (const [name, entry] of Object.entries(header)) {
      if (name === '__metadata__') continue;
      if (!isEntry(entry)) throw bad(`its header says of ${name}: ${JSON.stringify(entry)}`);
      const type = { dtype: dtypeFrom('safetensors', entry.dtype), shape: entry.shape };
      const [begin, end] = entry.data_offsets;
      if (end - begin !== byteLength(type)) throw bad(`${name} is ${show(type)} but has ${end - begin} bytes`);
      if (8 + length + end > size) throw bad(`${name} ends at byte ${8 + length + end} of ${size}`);
      const bytes = await read(end - begin, 8 + length + begin, name);
      arrays.set(name, { ...type, data: new DTYPES[type.dtype].array(bytes.buffer) });
    }
    return arrays;
  } finally {
    await file.close();
  }
}

/** Writes arrays to a temporary name beside `path`, then renames: no reader ever sees half a file. */
export async function writeSafetensors(path: string, arrays: ReadonlyMap<string, HostArray>): Promise<void> {
  const entries: [string, Entry][] = [];
  let offset = 0;
  for (const [name, { dtype, shape, data }] of arrays) {
    if (name === '__metadata__')
      throw new ArgumentError(`an array cannot be called ${name}: the format keeps that name for itself`);
    if (!(data instanceof DTYPES[dtype].array) || data.byteLength !== byteLength({ dtype, shape })) {
      throw new ArgumentError(
        `${name}: ${show({ dtype, shape })} has ${data.byteLength} bytes of data in a ${data.constructor.name}`,
      );
    }
    const end = offset + data.byteLength;
    entries.push([name, { dtype: DTYPES[dtype].safetensors, shape, data_offsets: [offset, end] }]);
    offset = end;
  }
  const json = JSON.stringify(Object.fromEntries(entries));
  const text = Buffer.from(json.padEnd(json.length + ((8 - (Buffer.byteLength(json) % 8)) % 8))); // data starts aligned
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(text.length));
  const write = async (target: string, flag: string) => {
    const file = await fs.open(target, flag);
    try {
      await file.writeFile(Buffer.concat([prefix, text]));
      for (const { data } of arrays.values()) {
        await file.writeFile(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      }
    } finally {
      await file.close();
    }
  };
  try {
    const known = await fs.stat(path).catch(() => undefined);
    if (known && !known.isFile()) return await write(path, 'w'); // a pipe or a device: nothing to rename over
    const target = known ? await fs.realpath(path) : path; // through a link, not in its place
    const temporary = `${target}.${randomUUID()}.tmp`;
    try {
      await write(temporary, 'wx');
      await fs.rename(temporary, target);
    } catch (e) {
      await fs.rm(temporary, { force: true });
      throw e;
    }
  } catch (e) {
    throw new ArgumentError(`cannot write ${path}: ${messageOf(e)}`, { cause: e });
  }
}
