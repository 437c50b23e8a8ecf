// The safetensors format: a JSON header that names each array's dtype, shape and place, then their bytes.
import fs from 'node:fs/promises';
import { type ArrayType, byteLength, DTYPES, dtypeFrom, show, type TypedArray } from '../base/dtype.js';
import { ArgumentError, messageOf } from '../base/errors.js';

export interface HostArray extends ArrayType {
  readonly data: TypedArray;
}

const HEADER_LIMIT = 100 * 2 ** 20; // the format's own

interface Entry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

/** All arrays of a file, by name, in the file's order. */
export async function readSafetensors(path: string): Promise<Map<string, HostArray>> {
  const bad = (what: string, cause?: unknown) =>
    new ArgumentError(`${path} is not a whole safetensors file: ${what}`, { cause });
  const file = await fs.open(path).catch((e) => {
    throw new ArgumentError(`cannot read ${path}: ${messageOf(e)}`, { cause: e });
  });
  try {
    const { size } = await file.stat();
    const prefix = new DataView(new ArrayBuffer(8));
    if ((await file.read(prefix, 0, 8, 0)).bytesRead < 8) throw bad(`it has ${size} bytes`);
    const length = Number(prefix.getBigUint64(0, true));
    if (length > HEADER_LIMIT || 8 + length > size)
      throw bad(`its header would be ${length} bytes long, the file has ${size}`);
    let header: Record<string, Entry>;
    try {
      header = JSON.parse(Buffer.from((await file.read(Buffer.alloc(length), 0, length, 8)).buffer).toString('utf8'));
    } catch (e) {
      throw bad(`its header is not JSON (${messageOf(e)})`, e);
    }
    const arrays = new Map<string, HostArray>();
    for (const [name, entry] of Object.entries(header)) {
      if (name === '__metadata__') continue;
      const type = { dtype: dtypeFrom('safetensors', entry.dtype), shape: entry.shape };
      const [begin, end] = entry.data_offsets;
      if (end - begin !== byteLength(type)) throw bad(`${name} is ${show(type)} but has ${end - begin} bytes`);
      if (begin < 0 || 8 + length + end > size) throw bad(`${name} ends at byte ${8 + length + end} of ${size}`);
      const bytes = new Uint8Array(end - begin);
      for (let done = 0; done < bytes.length; ) {
        const { bytesRead } = await file.read(bytes, done, bytes.length - done, 8 + length + begin + done);
        if (!bytesRead) throw bad(`${name} is cut short`);
        done += bytesRead;
      }
      arrays.set(name, { ...type, data: new DTYPES[type.dtype].array(bytes.buffer) });
    }
    return arrays;
  } finally {
    await file.close();
  }
}

/** Writes arrays to a temporary name beside `path`, then renames: no reader ever sees half a file. */
export async function writeSafetensors(path: string, arrays: ReadonlyMap<string, HostArray>): Promise<void> {
  const header: Record<string, Entry> = {};
  let offset = 0;
  for (const [name, { dtype, shape, data }] of arrays) {
    const end = offset + data.byteLength;
    if (data.byteLength !== byteLength({ dtype, shape })) {
      throw new ArgumentError(`${name}: ${show({ dtype, shape })} has ${data.byteLength} bytes of data`);
    }
    header[name] = { dtype: DTYPES[dtype].safetensors, shape, data_offsets: [offset, end] };
    offset = end;
  }
  const json = JSON.stringify(header);
  const text = Buffer.from(json.padEnd(json.length + ((8 - (Buffer.byteLength(json) % 8)) % 8))); // data starts aligned
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(text.length));
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    const file = await fs.open(temporary, 'w');
    try {
      await file.appendFile(Buffer.concat([prefix, text]));
      for (const { data } of arrays.values())
        await file.appendFile(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    } finally {
      await file.close();
    }
    await fs.rename(temporary, path);
  } catch (e) {
    await fs.rm(temporary, { force: true });
    throw new ArgumentError(`cannot write ${path}: ${messageOf(e)}`, { cause: e });
  }
}
