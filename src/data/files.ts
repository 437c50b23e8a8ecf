// Datasets of text files (JSON Lines, lines, paragraphs), streamed: files may be larger than memory.

import fs from 'node:fs';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { checkWhole } from '../base/check.js';
import { ArgumentError, DataError } from '../base/errors.js';
import { bytes } from '../base/format.js';
import { checkOptions } from '../base/options.js';
import { messageOf } from '../base/thrown.js';
import { type FoundFile, findFiles, isHubFile, parseHubFile } from '../io/hub-files.js';
import { IterableDataset, type Read, type State } from './iterable.js';

export interface FilesOptions {
  /** The most bytes of a line (or paragraph): a longer one is an error, as the file is probably not text. Default: 64 MiB. */
  readonly maxBytes?: number;
}

/** The files of a dataset: one or several, on this machine or by their names on the hub. */
export function checkFiles(what: string, files: string | readonly string[]): readonly string[] {
  const all = typeof files === 'string' ? [files] : files;
  if (!Array.isArray(all) || !all.every((f) => typeof f === 'string'))
    throw new ArgumentError(`${what}: takes the path of a file, or a list of them`);
  if (!all.length) throw new DataError(`${what}: the list of files is empty`);
  for (const file of all) if (isHubFile(file)) parseHubFile(file);
  return all;
}

/** The local paths of files from one on, with their numbers. While one is read, the next is fetched. */
export async function* eachFile(files: readonly FoundFile[], first: number): AsyncIterable<[number, string]> {
  const stop = new AbortController();
  const fetching = (i: number) => {
    const file = files[i]?.fetch(stop.signal);
    file?.catch(() => {}); // it is thrown where it is awaited
    return file;
  };
  let next = fetching(first);
  try {
    for (let i = first; i < files.length; i++) {
      const here = await next!;
      next = fetching(i + 1);
      yield [i, here];
    }
  } finally {
    stop.abort();
    await next?.catch(() => {});
  }
}

/** The position to resume from: the file, and the position in it. */
export type FileState = { readonly [key: string]: State; readonly file: number; readonly name: string };
/** The state of a reader of these files, or one at their start. */
export function resumeFiles<S extends FileState>(
  what: string,
  files: readonly FoundFile[],
  from: State | undefined,
  start: Omit<S, 'file' | 'name'>,
): S {
  const state = (from ?? { file: 0, name: path.basename(files[0]!.path), ...start }) as S;
  const name = files[state?.file]?.path;
  if (name === undefined || path.basename(name) !== state.name)
    throw new ArgumentError(
      `${what}: the state is from file ${state?.file} named ${state?.name}, but that file is ${name && path.basename(name)} here`,
    );
  return state;
}

interface Line {
  readonly text: string;
  /** Counted from 1. */
  readonly number: number;
  /** The byte behind it. */
  readonly end: number;
}

/** The bytes of a file from a place on; of a .gz file, as they were before. */
function openBytes(file: string, start: number): Readable {
  if (!file.endsWith('.gz')) return fs.createReadStream(file, { start, highWaterMark: 2 ** 20 });
  const packed = fs.createReadStream(file, { highWaterMark: 2 ** 18 });
  const unpacked = createGunzip({ chunkSize: 2 ** 18 });
  packed.on('error', (e) => unpacked.destroy(e));
  unpacked.on('close', () => packed.destroy());
  return packed.pipe(unpacked);
}

const NEWLINE = 0x0a;
/** The lines of a file after `from`, without their ends. */
async function* linesOf(file: string, from: { byte: number; line: number }, maxBytes: number): AsyncIterable<Line> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let { byte: end, line: number } = from;
  let parts: Uint8Array[] = [];
  let size = 0;
  const add = (part: Uint8Array) => {
    size += part.length;
    if (size > maxBytes)
      throw new DataError(
        `${file}:${number + 1}: the line is longer than ${bytes(maxBytes)}: pass a larger { maxBytes } if that is intended`,
      );
    parts.push(part);
  };
  const finish = (behind: number): Line => {
    number++;
    end += size + behind;
    const whole = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    parts = [];
    size = 0;
    try {
      const text = decoder.decode(whole); // which leaves a byte order mark out
      return { text: text.endsWith('\r') ? text.slice(0, -1) : text, number, end };
    } catch (e) {
      throw new DataError(`${file}:${number}: the line is not UTF-8`, { cause: e });
    }
  };
  if (from.byte && !file.endsWith('.gz') && (await fs.promises.stat(file)).size < from.byte)
    throw new DataError(`${file} has become shorter: the state resumes at byte ${from.byte}`);
  let skip = file.endsWith('.gz') ? from.byte : 0; // what is packed can only be read from its start
  try {
    for await (let chunk of openBytes(file, from.byte) as AsyncIterable<Uint8Array>) {
      if (skip >= chunk.length) {
        skip -= chunk.length;
        continue;
      }
      chunk = chunk.subarray(skip);
      skip = 0;
      let at = 0;
      for (let stop = chunk.indexOf(NEWLINE); stop >= 0; stop = chunk.indexOf(NEWLINE, at)) {
        add(chunk.subarray(at, stop));
        yield finish(1);
        at = stop + 1;
      }
      if (at < chunk.length) add(chunk.subarray(at));
    }
  } catch (e) {
    throw e instanceof DataError
      ? e
      : new DataError(`cannot read ${file}${number ? ` after line ${number}` : ''}: ${messageOf(e)}`, { cause: e });
  }
  if (size) yield finish(0);
}

type LineState = FileState & { readonly byte: number; readonly line: number };

/** The base of datasets whose items are made of lines. */
abstract class LinesDataset<T> extends IterableDataset<T> {
  readonly files: readonly string[];
  readonly #maxBytes: number;
  constructor(
    readonly what: string,
    files: string | readonly string[],
    { maxBytes = 64 * 2 ** 20 }: FilesOptions,
  ) {
    super();
    this.files = checkFiles(what, files);
    this.#maxBytes = checkWhole(`${what}: maxBytes`, maxBytes, 1);
  }

  /** The items of one file, and where each ends. */
  protected abstract items(
    lines: AsyncIterable<Line>,
    file: string,
    maxBytes: number,
  ): AsyncIterable<{ item: T; end: Line }>;

  override async *read(_epoch: number, from?: State): AsyncIterable<Read<T>> {
    const files = await findFiles(this.files);
    const start = resumeFiles<LineState>(this.what, files, from, { byte: 0, line: 0 });
    let isEmpty = from === undefined;
    for await (const [file, path_] of eachFile(files, start.file)) {
      const name = path.basename(files[file]!.path);
      const lines = linesOf(path_, file === start.file ? start : { byte: 0, line: 0 }, this.#maxBytes);
      for await (const { item, end } of this.items(lines, path_, this.#maxBytes)) {
        isEmpty = false;
        yield { item, after: { file, name, byte: end.end, line: end.number } };
      }
    }
    if (isEmpty) throw new DataError(`${this.what}: the dataset is empty: no items in ${this.files.join(', ')}`);
  }
}

/** The values of JSON Lines files, one per line; .gz files are decompressed. Empty lines are skipped. */
export class JsonlDataset<T = unknown> extends LinesDataset<T> {
  constructor(files: string | readonly string[], options: FilesOptions = {}) {
    checkOptions('JsonlDataset', ['maxBytes'], options);
    super('JsonlDataset', files, options);
  }
  protected override async *items(lines: AsyncIterable<Line>, file: string): AsyncIterable<{ item: T; end: Line }> {
    for await (const end of lines) {
      if (!end.text.trim()) continue;
      let item: T;
      try {
        item = JSON.parse(end.text) as T;
      } catch (e) {
        throw new DataError(`${file}:${end.number}: the line is not valid JSON: ${messageOf(e)}`, { cause: e });
      }
      yield { item, end };
    }
  }
}

export interface TextOptions extends FilesOptions {
  /** 'line': each line is an item. 'paragraph': text between empty lines. Empty items are skipped. Default: 'line'. */
  readonly by?: 'line' | 'paragraph';
}

/** The lines or paragraphs of text files; .gz files are decompressed. */
export class TextDataset extends LinesDataset<string> {
  readonly #by: 'line' | 'paragraph';
  constructor(files: string | readonly string[], options: TextOptions = {}) {
    checkOptions('TextDataset', ['by', 'maxBytes'], options);
    super('TextDataset', files, options);
    this.#by = options.by ?? 'line';
    if (!['line', 'paragraph'].includes(this.#by))
      throw new ArgumentError(`TextDataset: by is ${this.#by}: use 'line' or 'paragraph'`);
  }
  protected override async *items(
    lines: AsyncIterable<Line>,
    file: string,
    maxBytes: number,
  ): AsyncIterable<{ item: string; end: Line }> {
    let open: string[] = [];
    let size = 0;
    let last: Line | undefined;
    for await (const line of lines) {
      last = line;
      const isEmpty = !line.text.trim();
      if (!isEmpty && this.#by === 'line') yield { item: line.text, end: line };
      else if (!isEmpty) {
        if ((size += line.text.length + 1) > maxBytes)
          throw new DataError(
            `${file}:${line.number}: the paragraph is longer than ${bytes(maxBytes)}: pass a larger { maxBytes }`,
          );
        open.push(line.text);
      } else if (open.length) {
        yield { item: open.join('\n'), end: line };
        open = [];
        size = 0;
      }
    }
    if (open.length) yield { item: open.join('\n'), end: last! };
  }
}
