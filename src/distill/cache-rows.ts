// Reads files of documents as rows of L tokens.
import fs from 'node:fs/promises';
import path from 'node:path';
import { ArgumentError, DataError } from '../base/errors.js';
import { describe } from '../base/tree.js';
import {
  type Document,
  IterableDataset,
  JsonlDataset,
  ParquetDataset,
  type Read,
  type State,
  TextDataset,
} from '../data/index.js';
import { findFiles, isHubFile } from '../io/hub-files.js';
import type { ChatMessage, Tokenizer } from '../models/index.js';

export interface DocumentOptions {
  /** The JSON field or column of the documents, each a string, tokens, or messages of a chat. Default: 'text'. */
  readonly field?: string;
  /** What is a document in a text file. Default: 'paragraph'. */
  readonly by?: 'line' | 'paragraph';
  /** The token after each text; null: none. Default: the tokenizer's end of text. */
  readonly separator?: number | null;
}

type Open = (
  files: readonly string[],
  options: Pick<Required<DocumentOptions>, 'field' | 'by'>,
) => IterableDataset<unknown>;
const READERS: readonly (readonly [RegExp, Open])[] = [
  [/\.(jsonl|ndjson)(\.gz)?$/i, (files) => new JsonlDataset(files)],
  [/\.parquet$/i, (files, { field }) => new ParquetDataset(files, field ? { columns: [field] } : {})],
  [/\.(txt|text|md)(\.gz)?$/i, (files, { by }) => new TextDataset(files, { by })],
];

/** The items of files: JSON objects, rows or pieces of text. */
export function itemsOf(
  files: readonly string[],
  options: Pick<Required<DocumentOptions>, 'field' | 'by'>,
): IterableDataset<unknown> {
  const readers = files.map((file) => {
    const found = READERS.find(([ends]) => ends.test(file));
    if (found) return found[1];
    throw new ArgumentError(
      `${file}: documents must be in .jsonl, .parquet or .txt files (.jsonl.gz, .txt.gz)${isHubFile(file) ? ': the pattern must end with one of these' : ''}`,
    );
  });
  const [open] = readers;
  if (!open) throw new DataError('there are no files to read documents from');
  if (readers.some((r) => r !== open)) throw new ArgumentError(`${files.join(', ')}: give files of one kind at a time`);
  return open(files, options);
}
/** The documents of files, as tokens. */
export const documentsOf = (
  files: readonly string[],
  tokenizer: Tokenizer | null,
  options: Required<DocumentOptions>,
): IterableDataset<Document> => itemsOf(files, options).map((item) => tokensOf(item, tokenizer, options));

/** Columns of 64-bit integers have BigInt values. */
const isTokens = (x: unknown): x is ArrayLike<number | bigint> =>
  (Array.isArray(x) || ArrayBuffer.isView(x)) &&
  Array.from(x as never[]).every((n) => typeof n === 'number' || typeof n === 'bigint');

/** The tokens of an item. */
export function tokensOf(
  item: unknown,
  tokenizer: Tokenizer | null,
  { field, separator }: Required<DocumentOptions>,
): Document {
  const isRecord = typeof item === 'object' && item !== null && !Array.isArray(item);
  const value = isRecord ? (item as Record<string, unknown>)[field] : item;
  if (value === undefined)
    throw new DataError(`a document has no field '${field}'; its fields are ${Object.keys(item as object).join(', ')}`);
  if (value === null) return []; // a row without text
  if (isTokens(value)) return Array.from(value, Number);
  if (!tokenizer)
    throw new ArgumentError(
      'the model has no tokenizer.json: add one to its folder, or give documents as lists of token ids',
    );
  if (Array.isArray(value))
    return tokenizer.encode(tokenizer.applyChatTemplate(value as ChatMessage[], { addGenerationPrompt: false }), {
      addSpecialTokens: false,
    });
  if (typeof value !== 'string')
    throw new DataError(
      `the field '${field}' of a document is ${describe(value)}: it must be a string, tokens or messages`,
    );
  const tokens = tokenizer.encode(value, { addSpecialTokens: false });
  return separator === null || !tokens.length ? tokens : [...tokens, separator];
}

/** The tokenizer's end-of-text token, if it has one. */
export function endOfText(tokenizer: Tokenizer | null): number | null {
  const name = tokenizer?.specialTokens.eos_token;
  return name ? tokenizer.encode(name, { addSpecialTokens: false })[0]! : null;
}

/** The names and sizes of files. Throws if one is missing. */
export const sourcesOf = async (files: readonly string[]): Promise<{ name: string; bytes: number }[]> =>
  Promise.all(
    (await findFiles(files)).map(async ({ path: file, bytes, fetch }) => {
      if (bytes !== undefined) return { name: path.basename(file), bytes }; // a file on the hub
      const found = await fs.stat(await fetch()).catch(() => undefined);
      if (found?.isDirectory()) throw new DataError(`${file} is a folder: name the files in it`);
      if (!found?.isFile()) throw new DataError(`there is no file ${file}`);
      return { name: path.basename(file), bytes: found.size };
    }),
  );

/** The fraction of the files read in this state, from 0 to 1. */
export function fractionOf(sources: readonly { name: string; bytes: number }[], after: State): number {
  const { file, byte = 0 } = ((after as { source?: State } | null)?.source ?? { file: 0 }) as {
    file: number;
    byte?: number;
  };
  const total = sources.reduce((sum, s) => sum + s.bytes, 0);
  const here = sources[file]?.name.endsWith('.gz') ? 0 : byte;
  return total && (sources.slice(0, file).reduce((sum, s) => sum + s.bytes, 0) + here) / total;
}

export interface CacheRow {
  readonly inputIds: Int32Array;
  /** 1 for a token, 0 for the padding at the end. */
  readonly attentionMask: Uint8Array;
  /** 1 for a token to predict: not padding, and not labeled -100. */
  readonly lossMask: Uint8Array;
}

export interface RowOptions {
  readonly length: number;
  /** Whether rows have several documents. Otherwise each document has one row and is truncated or padded. */
  readonly pack: boolean;
  readonly padValue: number;
  readonly vocabSize: number;
}

/** Rows of equal length; only the last has padding if documents are packed. The state is a document and a position in it. */
export class CacheRows extends IterableDataset<CacheRow> {
  constructor(
    readonly source: IterableDataset<Document>,
    readonly options: RowOptions,
  ) {
    super();
  }

  override async *read(epoch: number, from?: State): AsyncIterable<Read<CacheRow>> {
    const { length, pack } = this.options;
    let { skip, source: before } = (from ?? { skip: 0 }) as { skip: number; source?: State };
    const state = (skip: number, source: State | undefined): State =>
      source === undefined ? { skip } : { skip, source };
    let row = this.#empty();
    let filled = 0;
    for await (const { item, after } of this.source.read(epoch, before)) {
      const { tokens, labels } = this.#check(item);
      for (let at = skip; at < tokens.length; ) {
        const n = Math.min(length - filled, tokens.length - at);
        for (let i = 0; i < n; i++, at++, filled++) {
          row.inputIds[filled] = tokens[at]!;
          row.attentionMask[filled] = 1;
          row.lossMask[filled] = labels[at] === -100 ? 0 : 1;
        }
        if (!pack) at = tokens.length;
        if (filled < (pack ? length : 2)) continue;
        yield { item: row, after: at < tokens.length ? state(at, before) : state(0, after) };
        row = this.#empty();
        filled = 0;
      }
      if (!pack && filled) {
        row = this.#empty(); // a single token has nothing to predict
        filled = 0;
      }
      skip = 0;
      before = after;
    }
    if (filled > 1) yield { item: row, after: state(0, before) };
  }

  #empty(): CacheRow {
    const { length, padValue } = this.options;
    return {
      inputIds: new Int32Array(length).fill(padValue),
      attentionMask: new Uint8Array(length),
      lossMask: new Uint8Array(length),
    };
  }

  #check(document: Document): { tokens: ArrayLike<number>; labels: ArrayLike<number> } {
    const { tokens, labels = tokens } = 'length' in document ? { tokens: document } : document;
    const { vocabSize } = this.options;
    for (let i = 0; i < tokens.length; i++) {
      const token = tokens[i]!;
      if (!Number.isInteger(token) || token < 0 || token >= vocabSize)
        throw new DataError(
          `token ${token} of a document is out of range: the teacher's tokens are 0 to ${vocabSize - 1}`,
        );
    }
    if (labels.length !== tokens.length)
      throw new DataError(
        `a document has ${tokens.length} tokens but ${labels.length} labels: the numbers must be equal`,
      );
    return { tokens, labels };
  }
}
