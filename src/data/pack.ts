// Packs token documents of any length into rows of fixed length: several documents per row, or chunks of one long stream.
import { checkWhole } from '../base/check.js';
import { ArgumentError, DataError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe } from '../base/tree.js';
import { Blocks, IterableDataset, type Read, type Source, type State } from './iterable.js';

export type Tokens = ArrayLike<number>;
/** A document: tokens, optionally with labels (-100 for tokens without a loss). */
export type Document = Tokens | { readonly tokens: Tokens; readonly labels?: Tokens };

/**
 * labels[i] is inputIds[i], or -100 if that token has no loss. Models shift labels themselves to compare each with the
 * prediction from the tokens before it (Hugging Face's convention; loss() of the models here does so).
 */
export interface Row {
  readonly [key: string]: Int32Array;
  readonly inputIds: Int32Array;
  readonly labels: Int32Array;
}
export interface PackedRow extends Row {
  /** 1 for the tokens of the row's first document, 2 for the second, ...; 0 for padding. Attention does not cross segments. */
  readonly segmentIds: Int32Array;
  /** 0, 1, 2, ... from the start of each document. */
  readonly positionIds: Int32Array;
}
const IGNORE = -100;

export interface PackOptions {
  /** The length of a row. */
  readonly length: number;
  readonly padValue?: number;
  /** The number of documents packed together: more leave less padding. Resuming reads them again. */
  readonly window?: number;
  /** Documents longer than a row are an error, truncated, or split. Default: 'error'. */
  readonly tooLong?: 'error' | 'truncate' | 'split';
}

/** Packs documents into rows by first fit. */
export function packSequences(source: Source<Document>, options: PackOptions): IterableDataset<PackedRow> {
  checkOptions('packSequences', ['length', 'padValue', 'window', 'tooLong'], options);
  const { length, padValue = 0, window = 1024, tooLong = 'error' } = options;
  checkWhole('packSequences: length', length, 2);
  checkWhole('packSequences: window', window, 1);
  return new Blocks(IterableDataset.from(source), 'packSequences', { size: window, length, tooLong }, (documents) =>
    firstFit(
      documents.flatMap((d) => piecesOf(d, options)),
      length,
    ).map((row) => layOut(row, length, padValue)),
  );
}

/** n tokens of a document, from one on: nothing is copied before it is laid out. */
interface Piece {
  readonly tokens: Tokens;
  readonly labels: Tokens;
  readonly from: number;
  readonly n: number;
}

const isTokens = (x: unknown): x is Tokens =>
  typeof x === 'object' && typeof (x as Partial<Tokens> | null)?.length === 'number';

/** The pieces of a document that fit a row. A single token has no loss and is dropped. */
function piecesOf(document: Document, { length, tooLong = 'error' }: PackOptions): Piece[] {
  const { tokens, labels = tokens } = isTokens(document) ? { tokens: document } : Object(document);
  if (!isTokens(tokens))
    throw new DataError(`packSequences: takes arrays of tokens, or { tokens, labels }, got ${describe(document)}`);
  if (labels.length !== tokens.length)
    throw new DataError(
      `packSequences: a document has ${tokens.length} tokens but ${labels.length} labels: give one label per token`,
    );
  if (tokens.length > length && tooLong === 'error')
    throw new DataError(
      `packSequences: a document has ${tokens.length} tokens, but a row has ${length}: pass { tooLong: 'split' } or 'truncate', or longer rows`,
    );
  const end = tooLong === 'truncate' ? Math.min(length, tokens.length) : tokens.length;
  const pieces: Piece[] = [];
  for (let from = 0; from < end - 1; from += length)
    pieces.push({ tokens, labels, from, n: Math.min(length, end - from) });
  return pieces;
}

/** Each piece in the first row that has room. */
function firstFit(pieces: readonly Piece[], length: number): Piece[][] {
  const rows: { free: number; pieces: Piece[] }[] = [];
  const firstOf = new Uint32Array(length + 1); // by size: no row before has room for it
  for (const piece of pieces) {
    const { n } = piece;
    let i = firstOf[n]!;
    while (i < rows.length && rows[i]!.free < n) i++;
    firstOf[n] = i;
    const row = (rows[i] ??= { free: length, pieces: [] });
    row.free -= n;
    row.pieces.push(piece);
  }
  return rows.map((r) => r.pieces);
}

function layOut(pieces: readonly Piece[], length: number, padValue: number): PackedRow {
  const inputIds = new Int32Array(length).fill(padValue);
  const labels = new Int32Array(length).fill(IGNORE);
  const segmentIds = new Int32Array(length);
  const positionIds = new Int32Array(length);
  let start = 0;
  pieces.forEach((piece, i) => {
    for (let j = 0, at = start; j < piece.n; j++, at++) {
      inputIds[at] = piece.tokens[piece.from + j]!;
      if (j) labels[at] = piece.labels[piece.from + j]!; // the first token must not be predicted from the document before it
      segmentIds[at] = i + 1;
      positionIds[at] = j;
    }
    start += piece.n;
  });
  return { inputIds, labels, segmentIds, positionIds };
}

export interface ChunkOptions {
  readonly length: number;
  /** A token appended to each document. */
  readonly separator?: number;
}

/** Concatenates all documents and cuts the stream into rows; the rest at the end is dropped. */
export const chunkTokens = (source: Source<Tokens>, options: ChunkOptions): IterableDataset<Row> =>
  new Chunks(IterableDataset.from(source), options);

class Chunks extends IterableDataset<Row> {
  constructor(
    readonly source: IterableDataset<Tokens>,
    readonly options: ChunkOptions,
  ) {
    super();
    checkOptions('chunkTokens', ['length', 'separator'], options);
    checkWhole('chunkTokens: length', options.length, 2);
    if (options.separator !== undefined && !Number.isInteger(options.separator))
      throw new ArgumentError(`chunkTokens: separator is ${options.separator}: it must be a token, a whole number`);
  }

  /** The state: where the document is read that the next row begins in, and how many of its tokens come before that. */
  override async *read(epoch: number, from?: State): AsyncIterable<Read<Row>> {
    const { length, separator } = this.options;
    let { skip, source } = (from ?? { skip: 0 }) as { skip: number; source?: State };
    let row = new Int32Array(length);
    let filled = 0;
    for await (const { item, after } of this.source.read(epoch, source)) {
      if (!isTokens(item)) throw new DataError(`chunkTokens: takes arrays of tokens, got ${describe(item)}`);
      const end = item.length + (separator === undefined ? 0 : 1);
      for (; skip < end; skip++) {
        row[filled++] = skip < item.length ? item[skip]! : separator!;
        if (filled < length) continue;
        const state = { skip: skip + 1, ...(source !== undefined && { source }) };
        yield { item: { inputIds: row, labels: row.slice() }, after: state };
        row = new Int32Array(length);
        filled = 0;
      }
      skip = 0;
      source = after;
    }
  }
}
