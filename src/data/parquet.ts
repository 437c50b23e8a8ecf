// Parquet files, read row group by row group: they may be larger than memory.
import fs from 'node:fs/promises';
import path from 'node:path';
import { ArgumentError, DataError } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import { checkFiles, type FileState, resumeFiles } from './files.js';
import { IterableDataset, type Read, type State } from './iterable.js';

export interface ParquetOptions {
  /** The columns to read; all unless told. */
  readonly columns?: readonly string[];
}
type Columns = Readonly<Record<string, unknown>>;
type RowState = FileState & { readonly row: number };

/** The rows of Parquet files, as objects. */
export class ParquetDataset<T = Columns> extends IterableDataset<T> {
  readonly files: readonly string[];
  readonly columns: readonly string[] | undefined;

  constructor(files: string | readonly string[], { columns }: ParquetOptions = {}) {
    super();
    this.files = checkFiles('ParquetDataset', files);
    this.columns = columns;
    if (columns && !(Array.isArray(columns) && columns.length && columns.every((c) => typeof c === 'string')))
      throw new ArgumentError(`ParquetDataset: columns must be a list of names`);
  }

  override async *read(_epoch: number, from?: State): AsyncIterable<Read<T>> {
    const start = resumeFiles<RowState>('ParquetDataset', this.files, from, { row: 0 });
    let isEmpty = from === undefined;
    for (let file = start.file; file < this.files.length; file++) {
      const name = path.basename(this.files[file]!);
      let row = file === start.file ? start.row : 0;
      for await (const item of rowsOf(this.files[file]!, this.columns, row)) {
        isEmpty = false;
        yield { item: item as T, after: { file, name, row: ++row } };
      }
    }
    if (isEmpty)
      throw new DataError(`ParquetDataset: the dataset is empty: there is no row in ${this.files.join(', ')}`);
  }
}

/** The rows of a file from one on. Memory holds one row group at a time. */
async function* rowsOf(file: string, columns: readonly string[] | undefined, first: number): AsyncIterable<Columns> {
  const [{ parquetMetadataAsync, parquetReadObjects, parquetSchema }, { compressors }] = await Promise.all([
    import('hyparquet'),
    import('hyparquet-compressors'),
  ]);
  const broken = (e: unknown) =>
    e instanceof DataError ? e : new DataError(`${file} is no whole Parquet file: ${messageOf(e)}`, { cause: e });
  const handle = await fs.open(file).catch((e) => {
    throw new DataError(`cannot read ${file}: ${messageOf(e)}`, { cause: e });
  });
  try {
    const { size } = await handle.stat();
    const slice = async (start: number, end = size): Promise<ArrayBuffer> => {
      if (!(start >= 0 && end >= start && end <= size))
        throw new DataError(
          `${file} is no whole Parquet file: it has ${size} bytes, and says there is something at ${start} to ${end}`,
        );
      const bytes = new Uint8Array(end - start);
      for (let done = 0; done < bytes.length; ) {
        const { bytesRead } = await handle.read(bytes, done, bytes.length - done, start + done);
        if (!bytesRead) throw new DataError(`${file} became shorter while it was read`);
        done += bytesRead;
      }
      return bytes.buffer;
    };
    const buffer = { byteLength: size, slice };
    const metadata = await parquetMetadataAsync(buffer).catch((e) => {
      throw broken(e);
    });
    let there: string[];
    try {
      there = parquetSchema(metadata).children.map((c) => c.element.name);
    } catch (e) {
      throw broken(e);
    }
    const missing = columns?.find((c) => !there.includes(c));
    if (missing !== undefined) throw new DataError(`${file} has no column '${missing}': it has ${there.join(', ')}`);
    let rowStart = 0;
    for (const group of metadata.row_groups) {
      const rowEnd = rowStart + Number(group.num_rows);
      if (rowEnd > first) {
        const options = { file: buffer, metadata, compressors, rowStart: Math.max(first, rowStart), rowEnd };
        const rows = await parquetReadObjects({ ...options, ...(columns && { columns: [...columns] }) }).catch((e) => {
          throw broken(e);
        });
        yield* rows;
      }
      rowStart = rowEnd;
    }
  } finally {
    await handle.close();
  }
}
