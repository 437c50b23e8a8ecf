// Decodes tokens to text: reads the decoder of a tokenizer.json, and yields whole characters.
import * as v from 'valibot';
import { ArgumentError } from '../base/errors.js';
import { checkJson, list, object, optional, text, whole } from '../base/json.js';

/** How pieces of a vocabulary are decoded to text. */
export type PieceDecoder = { readonly kind: 'bytes' } | SpacePieces;
/** SentencePiece: a special character for spaces, and tokens such as <0xE4> for bytes. */
interface SpacePieces {
  readonly kind: 'spaces';
  readonly replacements: readonly (readonly [from: string, to: string])[];
  readonly hasBytes: boolean;
  /** The number of spaces that are removed from the beginning of a text. */
  readonly stripped: number;
  /** A string that is removed from the first token. */
  readonly lostAtFirst: string | null;
}

const StepSchema = object({
  type: text,
  decoders: optional(v.unknown()),
  pattern: optional(object({ String: optional(text) })),
  content: optional(text),
  start: optional(whole()),
  stop: optional(whole()),
  replacement: optional(text),
  prepend_scheme: optional(text),
  add_prefix_space: optional(v.boolean()),
});
const DecoderSchema = object({ decoder: optional(object({ type: text, decoders: optional(list(StepSchema)) })) });

/** Reads `decoder` of a tokenizer.json. */
export function pieceDecoder(json: unknown, file: string): PieceDecoder {
  const { decoder } = checkJson(json, file, DecoderSchema);
  const refuse = (what: string): never => {
    throw new ArgumentError(
      `${file}: ${what}: supported are byte-level tokenizers (GPT-2, Llama 3, Qwen) and SentencePiece (Llama 2, Gemma)`,
    );
  };
  if (!decoder) return refuse('it has no decoder');
  const steps = decoder.type === 'Sequence' ? (decoder.decoders ?? []) : [checkJson(decoder, file, StepSchema)];
  if (steps.some((step) => step.type === 'ByteLevel')) return { kind: 'bytes' };
  const replacements: (readonly [string, string])[] = [];
  let [hasBytes, stripped, lostAtFirst]: [boolean, number, string | null] = [false, 0, null];
  for (const { type, pattern, content = '', start = 0, stop = 0, replacement = '▁', ...step } of steps) {
    if (type === 'Replace' && pattern?.String) replacements.push([pattern.String, content]);
    else if (type === 'ByteFallback') hasBytes = true;
    else if (type === 'Strip' && content === ' ' && !stop) stripped = start;
    else if (type === 'Metaspace') {
      replacements.push([replacement, ' ']);
      lostAtFirst = step.prepend_scheme === 'never' || step.add_prefix_space === false ? null : replacement;
    } else if (type !== 'Fuse') return refuse(`its decoder has the step ${type}`);
  }
  return { kind: 'spaces', replacements, hasBytes, stripped, lostAtFirst };
}

/** A token's piece in the vocabulary, and whether it is one of added_tokens; null: the token is skipped. */
export type PieceOf = (id: number) => { readonly piece: string; readonly isAdded: boolean } | null;

/** Decodes tokens one by one. Incomplete characters are held back until the rest arrives. */
export class TextStream {
  readonly #reader: ByteReader | SpaceReader;
  readonly #pieceOf: PieceOf;
  constructor(decoder: PieceDecoder, pieceOf: PieceOf) {
    this.#reader = decoder.kind === 'bytes' ? new ByteReader() : new SpaceReader(decoder, true);
    this.#pieceOf = pieceOf;
  }
  push(id: number): string {
    const found = this.#pieceOf(id);
    return found ? this.#reader.push(found.piece, found.isAdded) : '';
  }
  /** The remaining text: an incomplete character becomes U+FFFD. */
  end(): string {
    return this.#reader.end();
  }
}

/** The text of a complete list of tokens. */
export function decodePieces(decoder: PieceDecoder, pieceOf: PieceOf, ids: readonly number[]): string {
  const reader = decoder.kind === 'bytes' ? new ByteReader() : new SpaceReader(decoder, false);
  const parts = ids.map((id) => {
    const found = pieceOf(id);
    return found ? reader.push(found.piece, found.isAdded) : '';
  });
  return parts.join('') + reader.end();
}

class ByteReader {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  push(piece: string, isAdded: boolean): string {
    const bytes = isAdded ? new TextEncoder().encode(piece) : Uint8Array.from([...piece], (c) => BYTES.get(c) ?? 0);
    return this.#decoder.decode(bytes, { stream: true });
  }
  end(): string {
    return this.#decoder.decode();
  }
}

class SpaceReader {
  #bytes: number[] = []; // of adjacent byte tokens
  #isFirst = true;
  #toStrip: number;
  /** `eager`: yield each character once it is complete. Otherwise adjacent bytes are decoded together, and fail together. */
  constructor(
    private readonly how: SpacePieces,
    private readonly eager: boolean,
  ) {
    this.#toStrip = how.stripped;
  }
  push(piece: string): string {
    const { replacements, hasBytes, lostAtFirst } = this.how;
    const byte = hasBytes && /^<0x([0-9A-Fa-f]{2})>$/.exec(piece)?.[1];
    if (byte) {
      this.#isFirst = false;
      this.#bytes.push(Number.parseInt(byte, 16));
      return this.eager && wholeText(this.#bytes) !== null ? this.end() : '';
    }
    const own = this.#isFirst && lostAtFirst !== null ? piece.replaceAll(lostAtFirst, '') : piece;
    this.#isFirst = false;
    return this.end() + this.#strip(replacements.reduce((text, [from, to]) => text.replaceAll(from, to), own));
  }
  end(): string {
    const bytes = this.#bytes;
    this.#bytes = [];
    return this.#strip(wholeText(bytes) ?? '\uFFFD'.repeat(bytes.length));
  }
  #strip(text: string): string {
    if (!this.#toStrip || !text) return text;
    const spaces = /^ */.exec(text.slice(0, this.#toStrip))![0].length;
    this.#toStrip = spaces === text.length ? this.#toStrip - spaces : 0;
    return text.slice(spaces);
  }
}

/** The text of bytes; null if they are not UTF-8. */
function wholeText(bytes: readonly number[]): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
  } catch {
    return null;
  }
}

/** Byte-level vocabularies write each byte as a printable character: itself where it is one, else one from U+0100 on. */
const BYTES: ReadonlyMap<string, number> = (() => {
  const printable = (b: number) => (b >= 33 && b <= 126) || (b >= 161 && b <= 255 && b !== 173);
  let next = 256;
  return new Map(Array.from({ length: 256 }, (_, b) => [String.fromCharCode(printable(b) ? b : next++), b]));
})();
