// Readers of files: what they give, and that what is broken is told with its place.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import * as tx from 'tsxla';
import { JsonlDataset, ParquetDataset, TextDataset } from 'tsxla/data';
import { afterAll, describe, expect, test } from 'vitest';
import { changePage, pagesOf } from '../../scripts/fuzz/parquet.js';
import { goldenPath } from '../support.js';

const folder = mkdtempSync(path.join(tmpdir(), 'tsxla-files-'));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (name: string, content: string | Uint8Array) => {
  writeFileSync(path.join(folder, name), content);
  return path.join(folder, name);
};
const collect = async <T>(source: AsyncIterable<T>): Promise<T[]> => {
  const seen: T[] = [];
  for await (const x of source) seen.push(x);
  return seen;
};
const refuses = (source: AsyncIterable<unknown>, message: string | RegExp) =>
  expect(collect(source)).rejects.toThrow(typeof message === 'string' ? new tx.DataError(message) : message);

describe('JSON Lines', () => {
  test('a value a line, of several files, packed or not', async () => {
    const a = file('a.jsonl', '{"x": 1}\r\n\n[2]\n"é"');
    const b = file('b.jsonl.gz', gzipSync('3\n4\n'));
    expect(await collect(new JsonlDataset([a, b]))).toEqual([{ x: 1 }, [2], 'é', 3, 4]);
    expect(await collect(new JsonlDataset<number>(b).map((x) => x * 2).filter((x) => x > 6))).toEqual([8]);
  });

  test('what is wrong is told with file and line', async () => {
    const a = file('a.jsonl', '{"x": 1}\n\n{"x": oops}\n');
    await expect(collect(new JsonlDataset(a))).rejects.toThrow(`${a}:3: the line is not valid JSON: Unexpected token`);
    const b = file('b.jsonl', Uint8Array.of(0x31, 0x0a, 0x22, 0xff, 0x22));
    await refuses(new JsonlDataset(b), `${b}:2: the line is not UTF-8`);
    const c = file('c.jsonl', `1\n"${'x'.repeat(100)}"\n`);
    await refuses(
      new JsonlDataset(c, { maxBytes: 50 }),
      `${c}:2: the line is longer than 50 B: pass a larger { maxBytes } if that is intended`,
    );
    const d = file('d.jsonl.gz', gzipSync('1\n2\n'.repeat(1000)).subarray(0, 12));
    await refuses(new JsonlDataset(d), `cannot read ${d}: unexpected end of file`);
    await refuses(new JsonlDataset(path.join(folder, 'none')), /cannot read .*none: ENOENT/);
  });

  test('an empty dataset is an error that says so', async () => {
    const a = file('a.jsonl', '\n\n');
    await refuses(new JsonlDataset([a, a]), `JsonlDataset: the dataset is empty: no items in ${a}, ${a}`);
    expect(() => new JsonlDataset([])).toThrow('JsonlDataset: the list of files is empty');
  });
});

test('text: lines and paragraphs', async () => {
  const a = file('a.txt', 'one\ntwo\n\n \nthree\n');
  expect(await collect(new TextDataset(a))).toEqual(['one', 'two', 'three']);
  expect(await collect(new TextDataset(a, { by: 'paragraph' }))).toEqual(['one\ntwo', 'three']);
  await refuses(new TextDataset(a, { by: 'paragraph', maxBytes: 6 }), /a.txt:2: the paragraph is longer than 6 B/);
});

describe('Parquet', () => {
  const row = (id: number) => ({
    id: BigInt(id),
    text: id % 10 === 9 ? null : `row ${id}`,
    score: id / 4,
    tokens: Array.from({ length: id % 5 }, (_, j) => id + j),
  });
  test.each(['none', 'snappy', 'gzip', 'zstd', 'brotli'])('as pyarrow wrote it: %s', async (codec) => {
    const rows = await collect(new ParquetDataset(goldenPath(`parquet/${codec}.parquet`)));
    expect(JSON.stringify(rows.map((r) => ({ ...r, id: Number(r['id']) })))).toBe(
      JSON.stringify(Array.from({ length: 100 }, (_, i) => ({ ...row(i), id: i }))),
    );
  });

  test('some columns', async () => {
    const some = new ParquetDataset(goldenPath('parquet/zstd.parquet'), { columns: ['score', 'id'] }).take(2);
    expect(await collect(some)).toEqual([
      { score: 0, id: 0n },
      { score: 0.25, id: 1n },
    ]);
  });

  test('a column that is not there, an empty file, one that is something else', async () => {
    const good = goldenPath('parquet/none.parquet');
    await refuses(
      new ParquetDataset(good, { columns: ['id', 'txt'] }),
      `${good} has no column 'txt': it has id, text, score, tokens`,
    );
    const empty = goldenPath('parquet/empty.parquet');
    await refuses(new ParquetDataset(empty), `ParquetDataset: the dataset is empty: no rows in ${empty}`);
    const other = file('x.parquet', '{"a": 1}\n');
    await refuses(
      new ParquetDataset(other),
      `${other} is no whole Parquet file: parquet file invalid (footer != PAR1)`,
    );
    await refuses(new ParquetDataset(file('0.parquet', '')), /0.parquet is no whole Parquet file/);
  });
});

test('a Parquet file that takes forever to decode is given up, and the next one is read', async () => {
  // A mutation of zstd.parquet, on which the JavaScript decoder loops; the one in newer Nodes says what is wrong at once.
  const endless = new ParquetDataset(goldenPath('parquet/endless.parquet'), { timeoutSeconds: 1 });
  await refuses(endless, /endless.parquet(: its rows from 0 on were not decoded in 1 s| is no whole Parquet file)/);
  expect(await collect(new ParquetDataset(goldenPath('parquet/zstd.parquet')))).toHaveLength(100);
});

test('a program that leaves a Parquet file half-way can end', async () => {
  const code = `import { ParquetDataset } from 'tsxla/data';
    const rows = new ParquetDataset(process.argv[1]).read(0)[Symbol.asyncIterator]();
    console.log((await rows.next()).value.item.text);`;
  const args = ['--input-type=module', '-e', code, goldenPath('parquet/zstd.parquet')];
  const options = { cwd: path.join(import.meta.dirname, '../..'), timeout: 120_000 };
  expect((await promisify(execFile)(process.execPath, args, options)).stdout).toBe('row 0\n');
});

test('a Parquet file with a run of a thousand million values ends no process', async () => {
  // A mutation of none.parquet: 20 bytes of a page would become an array that V8 cannot make.
  const endless = goldenPath('parquet/run.parquet');
  await refuses(new ParquetDataset(endless), /run.parquet is no whole Parquet file: /);
  expect(await collect(new ParquetDataset(goldenPath('parquet/none.parquet')))).toHaveLength(100);
});

test.each([
  ['snappy', 2 ** 31 - 1, /a page of \d+ bytes cannot be one of 2147483647/],
  ['zstd', 1, /zstd.parquet is no whole Parquet file/],
])('%s: a page that says it has %d bytes is refused before there is room for it', async (codec, size, message) => {
  const whole = readFileSync(goldenPath(`parquet/${codec}.parquet`));
  const lying = changePage(whole, 0, pagesOf(whole)[0]![0]!, (header) => {
    header.find((field) => field.id === 2)!.value = BigInt(size); // uncompressed_page_size
  });
  await refuses(new ParquetDataset(file(`${codec}.parquet`, lying)), message);
});
