// Data: JSON Lines, text and Parquet.
import path from 'node:path';
import zlib from 'node:zlib';
import { parquetMetadata } from 'hyparquet';
import { JsonlDataset, ParquetDataset, TextDataset } from 'tsxla/data';
import { type Mutate, mutateBytes, oneOf } from '../bytes.js';
import { sameValue } from '../compare.js';
import { mutateJson } from '../json.js';
import { mutateParquet } from '../parquet.js';
import type { Files, Target } from '../target.js';
import { alone, strictly } from './files.js';

const MOST = 100_000; // items: none of the seeds has more than 100
async function collect(items: AsyncIterable<unknown>): Promise<unknown[]> {
  const list: unknown[] = [];
  for await (const item of items) {
    list.push(item);
    if (list.length > MOST) throw new Error(`more than ${MOST} items`);
  }
  return list;
}
const only = (files: Files): [name: string, bytes: Buffer] => [...files][0]!;

const LINES = Buffer.from(
  Array.from({ length: 12 }, (_, i) =>
    JSON.stringify({ id: i, text: `é ${i} ${'words '.repeat(i)}`, list: [i, [null, { a: 1.5 }]] }),
  ).join('\n'),
);
/** One line changed as JSON, or lines moved about. */
const line: Mutate = (b, random, others) => {
  const lines = b.toString('latin1').split('\n');
  const i = random.below(lines.length);
  const how = random.below(6);
  if (how === 0) lines.splice(i, 1);
  else if (how === 1) lines.splice(i, 0, random.pick(['', ' ', '\r', 'null', '[]', '{', '\ufffe', '1', '"x"', '\v']));
  else if (how === 2) lines[i] += random.pick(['\r', '\n', ' ', '\0', lines[i]!, ',']);
  else {
    const mutant = mutateJson(Buffer.from(lines[i]!, 'latin1'), random, others)!;
    lines[i] = mutant.bytes.toString('latin1');
    return { bytes: Buffer.from(lines.join('\n'), 'latin1'), what: `line ${i + 1}: ${mutant.what}` };
  }
  const what = ['removed', 'put in', 'appended to'][how];
  return { bytes: Buffer.from(lines.join('\n'), 'latin1'), what: `line ${i + 1}: ${what}` };
};
const mutateLines = oneOf(line, line, line, mutateBytes);
const GZIP_HEADER = 10;
/** What is packed, changed and packed again; or the packed bytes, with a checksum that is theirs. */
const mutateGzip: Mutate = oneOf(
  (b, random, others) => {
    try {
      const mutant = mutateLines(zlib.gunzipSync(b), random, others)!;
      return { bytes: zlib.gzipSync(mutant.bytes), what: `unpacked: ${mutant.what}` };
    } catch {
      return undefined;
    }
  },
  (b, random, others) => {
    if (b.length < GZIP_HEADER + 8) return undefined;
    const mutant = mutateBytes(b.subarray(GZIP_HEADER, -8), random, others)!;
    return {
      bytes: Buffer.concat([b.subarray(0, GZIP_HEADER), mutant.bytes, b.subarray(-8)]),
      what: `packed: ${mutant.what}`,
    };
  },
  (b) => ({ bytes: Buffer.concat([b, b]), what: 'two members' }),
  mutateBytes,
);

/** The lines of a file as texts; throws where it is packed wrong or is no UTF-8. */
function linesOf([name, bytes]: [string, Buffer]): string[] {
  const all = name.endsWith('.gz') ? zlib.gunzipSync(bytes, { maxOutputLength: 2 ** 28 }) : bytes;
  const found: string[] = [];
  const decoder = new TextDecoder('utf-8', { fatal: true });
  for (let at = 0; at < all.length; ) {
    const end = all.indexOf(10, at) < 0 ? all.length : all.indexOf(10, at);
    found.push(decoder.decode(all.subarray(at, end)).replace(/\r$/, ''));
    at = end + 1;
  }
  return found;
}

const jsonl: Target = {
  name: 'jsonl',
  about: 'JSON Lines, also packed (.gz)',
  covers: ['tsxla/data JsonlDataset'],
  make: () => [new Map([['a.jsonl', LINES]]), new Map([['a.jsonl.gz', zlib.gzipSync(LINES)]])],
  mutate: (name) => (name.endsWith('.gz') ? mutateGzip : mutateLines),
  read: (folder, files) => collect(new JsonlDataset(path.join(folder, only(files)[0]))),
  legal: ({ after, value }) =>
    strictly(
      () =>
        linesOf(only(after))
          .filter((text) => text.trim())
          .map((text) => JSON.parse(text)),
      (items) => (sameValue(items, value) === false ? 'other items than the lines of the file' : undefined),
    ),
};

const text: Target = {
  name: 'text',
  about: 'lines of text, also packed (.gz)',
  covers: ['tsxla/data TextDataset'],
  make: jsonl.make,
  mutate: jsonl.mutate,
  read: (folder, files) => collect(new TextDataset(path.join(folder, only(files)[0]))),
  legal: ({ after, value }) =>
    strictly(
      () => linesOf(only(after)).filter((line) => line.trim()),
      (lines) => (JSON.stringify(lines) === JSON.stringify(value) ? undefined : 'other lines than the file'),
    ),
};

const parquet: Target = {
  name: 'parquet',
  about: 'Parquet, in every compression',
  reserves: true,
  covers: ['tsxla/data ParquetDataset'],
  make: () =>
    ['none', 'snappy', 'gzip', 'zstd', 'brotli'].map((codec) => alone('a.parquet')(`parquet/${codec}.parquet`)),
  mutate: () => mutateParquet,
  read: (folder) => collect(new ParquetDataset(path.join(folder, 'a.parquet'), { timeoutSeconds: 5 })),
  legal({ before, after, base, value }) {
    const [was, is] = [footerOf(before.get('a.parquet')!), footerOf(after.get('a.parquet')!)];
    const [rows, old] = [value as Record<string, unknown>[], base as Record<string, unknown>[]];
    if (was.equals(is)) {
      // Elements may be others (pages have no checksums), rows and columns not.
      if (rows.length !== old.length) return `${rows.length} rows, there were ${old.length}`;
      const columns = (list: typeof rows) => JSON.stringify(list.map((row) => Object.keys(row)));
      return columns(rows) === columns(old) ? undefined : 'other columns, and the footer has not changed';
    }
    const told = Number(parquetMetadata(new Uint8Array(after.get('a.parquet')!).buffer).num_rows);
    return rows.length === told ? undefined : `${rows.length} rows, the footer says ${told}`;
  },
};
const footerOf = (b: Buffer): Buffer =>
  b.length < 8 ? b : b.subarray(Math.max(0, b.length - 8 - b.readUInt32LE(b.length - 8)));

export const DATA: readonly Target[] = [jsonl, text, parquet];
