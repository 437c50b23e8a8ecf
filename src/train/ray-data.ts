// Ray Data: datasets that Ray reads, splits among the workers and streams to them. The driver makes the dataset
// (ray/driver/data.py); each worker's shard arrives block by block, as Parquet files that are deleted once read.
import fs from 'node:fs/promises';
import path from 'node:path';
import { checkWhole } from '../base/check.js';
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe } from '../base/tree.js';
import { IterableDataset, ParquetDataset, type Read, type State } from '../data/index.js';
import type { Link } from './link.js';

const FORMATS = ['parquet', 'json', 'csv', 'text'] as const;
export type RayFormat = (typeof FORMATS)[number];
const ENDINGS: Readonly<Record<string, RayFormat>> = {
  '.parquet': 'parquet',
  '.json': 'json',
  '.jsonl': 'json',
  '.ndjson': 'json',
  '.csv': 'csv',
  '.txt': 'text',
  '.text': 'text',
};

export interface RayDatasetOptions {
  /** The reader of Ray Data: read_parquet, read_json, ... Default: by the file extension. */
  readonly format?: RayFormat;
  /** The columns to read. Default: all. */
  readonly columns?: readonly string[];
  /** true: all rows are shuffled, in a new order each epoch. 'files': only the order of files, which is free. Default: false. */
  readonly shuffle?: boolean | 'files';
  /** The seed of the shuffling. Default: a random one. */
  readonly seed?: number;
  /** All workers get the same number of rows; with n workers, up to n - 1 rows are dropped. Default: false. */
  readonly equal?: boolean;
}

/** A dataset for Ray Data to read; getDatasetShard returns each worker's part as a RayShard. */
export class RayDataset {
  readonly sources: readonly string[];
  readonly format: RayFormat;
  constructor(
    source: string | readonly string[],
    readonly options: RayDatasetOptions = {},
  ) {
    checkOptions('rayDataset', ['format', 'columns', 'shuffle', 'seed', 'equal'], options);
    const { format, columns, shuffle = false, seed, equal = false } = options;
    const sources = typeof source === 'string' ? [source] : source;
    if (!Array.isArray(sources) || !sources.length || !sources.every((s) => typeof s === 'string' && s))
      throw new ArgumentError(`rayDataset: the source is ${describe(source)}: give a path, or a list of them`);
    const wrong = (name: string, value: unknown, must: string) =>
      new ArgumentError(`rayDataset: ${name} is ${describe(value)}: it must be ${must}`);
    if (format !== undefined && !FORMATS.includes(format)) throw wrong('format', format, FORMATS.join(', '));
    if (columns && !(Array.isArray(columns) && columns.length && columns.every((c) => typeof c === 'string')))
      throw wrong('columns', columns, 'a list of names');
    if (![true, false, 'files'].includes(shuffle)) throw wrong('shuffle', shuffle, "true, false or 'files'");
    if (typeof equal !== 'boolean') throw wrong('equal', equal, 'true or false');
    if (seed !== undefined) checkWhole('rayDataset: seed', seed);
    this.sources = sources;
    const formats = new Set(sources.map((s) => ENDINGS[path.extname(s).toLowerCase()]));
    const [found] = formats;
    if (!format && (formats.size > 1 || !found))
      throw new ArgumentError(
        `rayDataset: ${sources.join(', ')}: unknown format: pass { format }, one of ${FORMATS.join(', ')}`,
      );
    this.format = format ?? found!;
  }

  /** The request for the driver. Paths are those of this machine and must exist on all machines. */
  request() {
    const { columns = null, shuffle = false, seed = null, equal = false } = this.options;
    const paths = this.sources.map((s) => (/^\w+:\/\//.test(s) ? s : path.resolve(s)));
    return { paths, format: this.format, columns, shuffle, seed, equal };
  }
}

/**
 * A dataset for TorchTrainer's `datasets` that Ray Data reads: files by paths or patterns, streamed to the workers of a Ray
 * cluster. In each epoch every row goes to exactly one worker.
 */
export const rayDataset = (source: string | readonly string[], options: RayDatasetOptions = {}): RayDataset =>
  new RayDataset(source, options);

export interface IterBatchesOptions {
  /** Number of rows in a batch. Default: 256. */
  readonly batchSize?: number;
  /** 'columns' (default): an object with a list for each column. 'rows': a list of rows. */
  readonly batchFormat?: 'columns' | 'rows';
  /** Drops the last rows if they do not fill a batch. Default: false. */
  readonly dropLast?: boolean;
  /** Shuffles rows within a buffer of this number of rows. Default: no shuffling. */
  readonly localShuffleBufferSize?: number;
  readonly localShuffleSeed?: number;
}
const ITER_BATCHES = ['batchSize', 'batchFormat', 'dropLast', 'localShuffleBufferSize', 'localShuffleSeed'] as const;
type Columns = Readonly<Record<string, unknown[]>>;

/** A worker's part of a RayDataset. Each iteration is an epoch, which all workers begin together. */
export class RayShard<T = Readonly<Record<string, unknown>>> extends IterableDataset<T> {
  #epochs = 0;
  constructor(
    readonly name: string,
    readonly link: Link | undefined,
  ) {
    super();
  }

  /** Ray decides during the reading which worker gets a row, so an epoch cannot be resumed in the middle. */
  override async *read(_epoch: number, from?: State): AsyncIterable<Read<T>> {
    if (from !== undefined)
      throw new ArgumentError(
        `the dataset '${this.name}' is a rayDataset, which cannot resume in the middle of an epoch: start the epoch again`,
      );
    const ask = (begin: boolean) => {
      const file = this.link!.rows!(this.name, begin);
      file.catch(() => {}); // the error surfaces where `next` is awaited
      return file;
    };
    let next = ask(true);
    let rows = 0;
    try {
      for (let file = await next; file; file = await next) {
        next = ask(false);
        try {
          for await (const item of new ParquetDataset<T>(file)) yield { item, after: ++rows };
        } finally {
          await fs.rm(file, { force: true });
        }
      }
    } finally {
      void next.then((file) => (file ? fs.rm(file, { force: true }) : undefined)).catch(() => {}); // the caller left the loop early
    }
  }

  /** The rows of the next epoch in batches, as Ray Data's iter_batches. */
  iterBatches(options?: IterBatchesOptions & { readonly batchFormat?: 'columns' }): AsyncIterable<Columns>;
  iterBatches(options: IterBatchesOptions & { readonly batchFormat: 'rows' }): AsyncIterable<T[]>;
  async *iterBatches(options: IterBatchesOptions = {}): AsyncIterable<Columns | T[]> {
    checkOptions('iterBatches', ITER_BATCHES, options);
    const { batchSize = 256, batchFormat = 'columns', dropLast = false } = options;
    const { localShuffleBufferSize: buffer, localShuffleSeed: seed = 0 } = options;
    checkWhole('iterBatches: batchSize', batchSize, 1);
    if (!['columns', 'rows'].includes(batchFormat))
      throw new ArgumentError(`iterBatches: batchFormat is ${batchFormat}: use 'columns' or 'rows'`);
    const mixed = buffer === undefined ? this : this.shuffle(buffer, seed);
    for await (const { item } of mixed.batch(batchSize, { dropLast }).read(this.#epochs++))
      yield batchFormat === 'rows' ? item : columnsOf(item as object[]);
  }

  /** The rows of the next epoch. */
  iterRows(): AsyncIterable<T> {
    return this;
  }
}

function columnsOf(rows: readonly object[]): Columns {
  const columns: Record<string, unknown[]> = {};
  for (const name of Object.keys(rows[0]!)) columns[name] = rows.map((row) => row[name as keyof object]);
  return columns;
}
