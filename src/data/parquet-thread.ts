// What runs in the thread that decodes Parquet files.
import fs from 'node:fs/promises';
import { parentPort } from 'node:worker_threads';
import zlib from 'node:zlib';
import { type FileMetaData, parquetMetadataAsync, parquetReadObjects, parquetSchema } from 'hyparquet';
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
const zstd = (zlib as { zstdDecompressSync?: Parameters<typeof native>[0] }).zstdDecompressSync; // from Node 22.15
const DECOMPRESS = {
  ...compressors,
  GZIP: native(zlib.gunzipSync),
  BROTLI: native(zlib.brotliDecompressSync),
  ...(zstd && { ZSTD: native(zstd) }),
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
