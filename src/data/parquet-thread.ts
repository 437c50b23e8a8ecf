// The thread that decodes Parquet files.
import fs from 'node:fs/promises';
import { parentPort } from 'node:worker_threads';
import zlib from 'node:zlib';
import {
  type ColumnChunk,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
} from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { messageOf } from '../base/thrown.js';

/** The rows of a file from one on, up to the end of its row group. Requests of one reading are of one file. */
export interface GroupRequest {
  readonly reading: number;
  readonly file: string;
  readonly columns: readonly string[] | undefined;
  readonly row: number;
}
/** Rows, and where the next begin, if there are any; or a sentence that names the file. */
export type GroupAnswer =
  | { readonly rows: readonly Record<string, unknown>[]; readonly next?: number }
  | { readonly error: string };

type Decompress = (packed: Uint8Array, length: number) => Uint8Array;
const native = (f: (packed: Uint8Array, o: { maxOutputLength: number }) => Uint8Array): Decompress => {
  return (packed, length) => f(packed, { maxOutputLength: Math.max(1, length) });
};
/** What decodes in JavaScript makes room first, for as much as the page says: a number that is wrong could be any. */
const bounded = (ratio: number, f: Decompress | undefined): Decompress => {
  return (packed, length) => {
    if (!(length >= 0 && length <= packed.length * ratio + 64))
      throw new Error(`a page of ${packed.length} bytes cannot be one of ${length}`);
    return f!(packed, length);
  };
};
const WINDOW = 2 ** 27; // bytes: what zstd's highest level takes
/** The same of a frame of zstd, which has the size of its content and of the window behind it in its header. */
const boundedZstd: Decompress = (packed, length) => {
  const { content, window } = zstdSizes(packed);
  if (content > length || window > Math.max(length, WINDOW))
    throw new Error(`a page of ${length} bytes is packed as one of ${content}, with a window of ${window}`);
  return compressors.ZSTD!(packed, length);
};
/** Of the first frame; 0 where the header does not say, or is none. */
function zstdSizes(packed: Uint8Array): { readonly content: number; readonly window: number } {
  const b = Buffer.concat([packed.subarray(0, 18), Buffer.alloc(18)]);
  const flags = b[4]!;
  const isSingle = (flags & 0x20) !== 0;
  const at = 5 + (isSingle ? 0 : 1) + [0, 1, 2, 4][flags & 3]!;
  const field = [isSingle ? 1 : 0, 2, 4, 8][flags >> 6]!;
  const size = field === 8 ? Number(b.readBigUInt64LE(at)) : field ? b.readUIntLE(at, field) : 0;
  const content = field === 2 ? size + 256 : size;
  const base = 2 ** (10 + (b[5]! >> 3));
  return { content, window: isSingle ? content : base + (base / 8) * (b[5]! & 7) };
}
const zstd = (zlib as { zstdDecompressSync?: Parameters<typeof native>[0] }).zstdDecompressSync; // from Node 22.15
const DECOMPRESS = {
  // The most that each can shrink anything by: a copy of 64 bytes takes 3, a byte of a length stands for 255.
  SNAPPY: bounded(22, compressors.SNAPPY),
  LZ4: bounded(255, compressors.LZ4),
  LZ4_RAW: bounded(255, compressors.LZ4_RAW),
  GZIP: native(zlib.gunzipSync),
  BROTLI: native(zlib.brotliDecompressSync),
  ZSTD: zstd ? native(zstd) : boundedZstd,
};

interface Open {
  readonly reading: number;
  readonly handle: fs.FileHandle;
  readonly buffer: { readonly byteLength: number; slice(start: number, end?: number): Promise<ArrayBuffer> };
  readonly metadata: FileMetaData;
}
let open: Open | undefined;

async function openFile({ reading, file, columns }: GroupRequest): Promise<Open> {
  if (open?.reading === reading) return open;
  await open?.handle.close();
  open = undefined;
  const handle = await fs.open(file).catch((e) => {
    throw new Sentence(`cannot read ${file}: ${messageOf(e)}`);
  });
  const { size } = await handle.stat();
  const slice = async (start: number, end = size): Promise<ArrayBuffer> => {
    if (!(start >= 0 && end >= start && end <= size))
      throw new Error(`it has ${size} bytes, and says there is something at ${start} to ${end}`);
    const bytes = new Uint8Array(end - start);
    for (let done = 0; done < bytes.length; ) {
      const { bytesRead } = await handle.read(bytes, done, bytes.length - done, start + done);
      if (!bytesRead) throw new Error('it became shorter while it was read');
      done += bytesRead;
    }
    return bytes.buffer;
  };
  const buffer = { byteLength: size, slice };
  most = Math.min(size, MOST); // a list of the footer has at least a byte for each element
  try {
    const metadata = await parquetMetadataAsync(buffer);
    const there = parquetSchema(metadata).children.map((c) => c.element.name);
    const missing = columns?.find((c) => !there.includes(c));
    if (missing !== undefined) throw new Sentence(`${file} has no column '${missing}': it has ${there.join(', ')}`);
    checkCounts(metadata);
    open = { reading, handle, buffer, metadata };
    return open;
  } catch (e) {
    await handle.close();
    throw e;
  }
}

/** Room is made for as many rows as the file says there are: a number that is wrong could be any. */
function checkCounts({ num_rows, row_groups }: FileMetaData): void {
  const rows = row_groups.reduce((n, group) => n + group.num_rows, 0n);
  if (rows !== num_rows) throw new Error(`it has ${num_rows} rows, its row groups ${rows}`);
  for (const group of row_groups)
    for (const { meta_data: column } of group.columns)
      if (column && column.num_values < group.num_rows)
        throw new Error(
          `a row group has ${group.num_rows} rows, its column ${column.path_in_schema} ${column.num_values} values`,
        );
}

/**
 * Arrays of a given length cannot grow in this thread, in which nothing but the decoder runs. It writes runs of values behind
 * the ends of its arrays, and a broken run may have a thousand million: V8 then ends the process, with nothing to be caught.
 */
const MOST = 1e8; // elements: V8 makes no array of more than 1.3e8
let most = MOST;
const Growing = Array;
globalThis.Array = new Proxy(Growing, {
  construct(target, args, newTarget) {
    const [length] = args;
    if (args.length !== 1 || typeof length !== 'number') return Reflect.construct(target, args, newTarget);
    if (length > most) throw new Error(`it says that there are ${length} values, where ${most} are possible`);
    return Object.preventExtensions(new Growing(length).fill(undefined));
  },
});
/** A page has no more values than its column has. */
const mostIn = (columns: readonly ColumnChunk[]): number => {
  const values = columns.map(({ meta_data }) => Number(meta_data?.num_values ?? 0));
  return Math.min(values.reduce((a, b) => Math.max(a, b), 0) + 2 ** 16, MOST);
};

/** An error whose message says all. */
class Sentence extends Error {}

async function answer(request: GroupRequest): Promise<GroupAnswer> {
  try {
    const { buffer, metadata } = await openFile(request);
    let rowEnd = 0;
    for (const group of metadata.row_groups) {
      rowEnd += Number(group.num_rows);
      if (rowEnd <= request.row) continue;
      const range = { rowStart: request.row, rowEnd };
      const { columns } = request;
      const options = {
        file: buffer,
        metadata,
        compressors: DECOMPRESS,
        ...range,
        ...(columns && { columns: [...columns] }),
      };
      most = mostIn(group.columns);
      const rows = await parquetReadObjects(options);
      if (rows.length !== rowEnd - request.row) throw new Error(`rows ${request.row} to ${rowEnd} are ${rows.length}`);
      return { rows, next: rowEnd };
    }
    return { rows: [] };
  } catch (e) {
    return { error: e instanceof Sentence ? e.message : `${request.file} is no whole Parquet file: ${messageOf(e)}` };
  }
}

parentPort!.on('message', async (request: GroupRequest) => parentPort!.postMessage(await answer(request)));
