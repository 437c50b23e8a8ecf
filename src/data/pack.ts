// Documents of tokens, of any length, as rows of one length: packed side by side, or cut from one long stream.
import { ArgumentError, DataError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe } from '../base/tree.js';
import { Blocks, IterableDataset, type Read, type Source, type State } from './iterable.js';
import { checkWhole } from './random.js';

export type Tokens = ArrayLike<number>;
/** A document; with labels of its own where some of its tokens are not to be learnt (-100). */
export type Document = Tokens | { readonly tokens: Tokens; readonly labels?: Tokens };

/** labels[i] is the token after inputIds[i], or -100, which crossEntropy ignores. */
export interface Row {
  readonly [key: string]: Int32Array;
  readonly inputIds: Int32Array;
  readonly labels: Int32Array;
}
export interface PackedRow extends Row {
  /** 1 for the tokens of the row's first document, 2 for the second, ...; 0 for padding: attention stays within a number. */
  readonly segmentIds: Int32Array;
  /** 0, 1, 2, ... from the start of each document. */
  readonly positionIds: Int32Array;
}
const IGNORE = -100;

export interface PackOptions {
  /** Of a row. */
  readonly length: number;
  readonly padValue?: number;
  /** How many documents are packed together: more leave less padding. Resuming reads them again. */
  readonly window?: number;
  /** What a document that is longer than a row is: an error, cut off, or cut in several. */
  readonly tooLong?: 'error' | 'truncate' | 'split';
}

/** Packs documents into rows: each goes to the first row that has room for it. */
export function packSequences(source: Source<Document>, options: PackOptions): IterableDataset<PackedRow> {
  checkOptions('packSequences', ['length', 'padValue', 'window', 'tooLong'], options);
  const { length, padValue = 0, window = 1024, tooLong = 'error' } = options;
  checkWhole('packSequences: length', length, 2);
  checkWhole('packSequences: window', window, 1);
  return new Blocks(IterableDataset.from(source), 'packSequences', { size: window, length, tooLong }, (documents) =>
    firstFit(
      documents.flatMap((d) => piecesOf(checkDocument(d), options)),
      length,
    ).map((row) => layOut(row, length, padValue)),
  );
}

interface Piece {
  readonly tokens: Int32Array;
  readonly labels: Int32Array;
}

function checkDocument(document: Document): Piece {
  const { tokens, labels = tokens } =
    'length' in Object(document) ? { tokens: document as Tokens } : (document as { tokens: Tokens; labels?: Tokens });
  if (typeof tokens?.length !== 'number' || typeof tokens === 'string')
    throw new DataError(`packSequences: takes arrays of tokens, or { tokens, labels }, got ${describe(document)}`);
  if (labels.length !== tokens.length)
    throw new DataError(
      `packSequences: a document has ${tokens.length} tokens and ${labels.length} labels: they must be as many`,
    );
  return { tokens: Int32Array.from(tokens), labels: Int32Array.from(labels) };
}

/** The pieces of a document that fit a row. One token alone teaches nothing, and is left out. */
function piecesOf({ tokens, labels }: Piece, { length, tooLong = 'error' }: PackOptions): Piece[] {
  if (tokens.length > length && tooLong === 'error')
    throw new DataError(
      `packSequences: a document has ${tokens.length} tokens, a row ${length}: pass { tooLong: 'split' } or 'truncate', or longer rows`,
    );
  const pieces: Piece[] = [];
  for (let at = 0; at < tokens.length; at += length) {
    pieces.push({ tokens: tokens.subarray(at, at + length), labels: labels.subarray(at, at + length) });
    if (tooLong === 'truncate') break;
  }
  return pieces.filter((p) => p.tokens.length > 1);
}

/** Each piece in the first row that has room. */
function firstFit(pieces: readonly Piece[], length: number): Piece[][] {
  const rows: { free: number; pieces: Piece[] }[] = [];
  let firstOpen = 0; // rows before have no room for anything
  for (const piece of pieces) {
    const n = piece.tokens.length;
    while (rows[firstOpen] && rows[firstOpen]!.free < 2) firstOpen++;
    let row = rows.slice(firstOpen).find((r) => r.free >= n);
    if (!row) rows.push((row = { free: length, pieces: [] }));
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
  let at = 0;
  pieces.forEach((piece, i) => {
    const n = piece.tokens.length;
    inputIds.set(piece.tokens, at);
    labels.set(piece.labels.subarray(1), at); // the last token has none after it: the next document is no answer to it
    segmentIds.fill(i + 1, at, at + n);
    for (let j = 0; j < n; j++) positionIds[at + j] = j;
    at += n;
  });
  return { inputIds, labels, segmentIds, positionIds };
}

export interface ChunkOptions {
  readonly length: number;
  /** A token that is put after each document. */
  readonly separator?: number;
}

/**
 * All documents as one stream of tokens, cut into rows. A row's labels are its tokens one further on, so rows overlap by
 * one; what is left at the end is dropped.
 */
export const chunkTokens = (source: Source<Tokens>, options: ChunkOptions): IterableDataset<Row> =>
  new Chunks(IterableDataset.from(source), options);

class Chunks extends IterableDataset<Row> {
  constructor(
    readonly source: IterableDataset<Tokens>,
    readonly options: ChunkOptions,
  ) {
    super();
    checkOptions('chunkTokens', ['length', 'separator'], options);
    checkWhole('chunkTokens: length', options.length, 1);
    if (options.separator !== undefined && !Number.isInteger(options.separator))
      throw new ArgumentError(`chunkTokens: separator is ${options.separator}: it must be a token, a whole number`);
  }

  /** The state: where the document is read that the next row begins in, and how many of its tokens come before that. */
  override async *read(epoch: number, from?: State): AsyncIterable<Read<Row>> {
    const { length, separator } = this.options;
    const resumed = (from ?? { skip: 0 }) as { skip: number; source?: State };
    // Documents that are not used up: their tokens, and the state before each.
    let open: { tokens: Int32Array; before: State | undefined }[] = [];
    let { skip, source: before } = resumed;
    let have = -skip; // tokens in `open` from where the next row begins
    for await (const { item, after } of this.source.read(epoch, before)) {
      if (typeof item?.length !== 'number' || typeof item === 'string')
        throw new DataError(`chunkTokens: takes arrays of tokens, got ${describe(item)}`);
      const tokens = Int32Array.from(separator === undefined ? item : [...Array.from(item), separator]);
      open.push({ tokens, before });
      have += tokens.length;
      before = after;
      while (have > length) {
        const row = joined(
          open.map((d) => d.tokens),
          skip,
          length + 1,
        );
        skip += length;
        have -= length;
        while (skip >= open[0]!.tokens.length) {
          skip -= open[0]!.tokens.length;
          open = open.slice(1);
        }
        const start = open[0]!.before;
        const state = start === undefined ? { skip } : { skip, source: start };
        yield { item: { inputIds: row.slice(0, length), labels: row.slice(1) }, after: state };
      }
    }
  }
}

/** n elements of several arrays in a row, after the first `skip`. */
function joined(arrays: readonly Int32Array[], skip: number, n: number): Int32Array {
  const out = new Int32Array(n);
  let at = -skip;
  for (const a of arrays) {
    if (at >= n) break;
    out.set(a.subarray(Math.max(0, -at), Math.min(a.length, n - at)), Math.max(0, at));
    at += a.length;
  }
  return out;
}
