// What processes send each other to reach the key-value store (key-value-network.ts), in bytes:
// [length u32] kind u8, id u32, number i32, length of text u32, text in UTF-8, value. The length is that of all behind it.

export interface Frame {
  readonly kind: number;
  /** A question and its answer have the same. */
  readonly id: number;
  /** The rank of who joins; the status of an answer. */
  readonly number: number;
  /** A key, the name of who joins, or the message of an answer. */
  readonly text: string;
  readonly value: Uint8Array;
}
/** `refuse` is the last frame before a connection is closed: its text says why. */
export const KIND = { join: 1, put: 2, get: 3, tryGet: 4, answer: 5, refuse: 6 } as const;
const KINDS: ReadonlySet<number> = new Set(Object.values(KIND));

/** Bytes before the text. */
export const HEADER = 17;
/** The most bytes that a frame may have. */
export const LARGEST = 2 ** 28;

export function frameBytes({ kind, id, number, text, value }: Frame): Buffer {
  const bytes = Buffer.from(text);
  const header = Buffer.alloc(HEADER);
  header.writeUInt32LE(HEADER - 4 + bytes.length + value.length, 0);
  header.writeUInt8(kind, 4);
  header.writeUInt32LE(id, 5);
  header.writeInt32LE(number, 9);
  header.writeUInt32LE(bytes.length, 13);
  return Buffer.concat([header, bytes, value]);
}

export type ReadFrame =
  | { readonly frame: Frame; readonly size: number }
  /** There is no whole frame yet: it takes this many bytes, or at least its header does. Never more than the limit. */
  | { readonly wanted: number }
  /** These bytes begin no frame: why. */
  | { readonly problem: string };

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The frame that bytes begin with. Whatever the bytes are, it throws nothing and reads no other memory. */
export function readFrame(bytes: Uint8Array, limit = LARGEST): ReadFrame {
  if (bytes.length < HEADER) return { wanted: HEADER };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const size = 4 + view.getUint32(0, true);
  const kind = view.getUint8(4);
  const textEnd = HEADER + view.getUint32(13, true);
  const problem = (why: string) => ({ problem: `what it sends is of another program, or damaged: ${why}` });
  if (size < HEADER || size > limit)
    return problem(`a frame of ${size} bytes, where ${HEADER} to ${limit} are allowed`);
  if (!KINDS.has(kind)) return problem(`a frame of the unknown kind ${kind}`);
  if (textEnd > size) return problem(`a text of ${textEnd - HEADER} bytes in a frame of ${size}`);
  if (bytes.length < size) return { wanted: size };
  let text: string;
  try {
    text = utf8.decode(bytes.subarray(HEADER, textEnd));
  } catch {
    return problem('a text that is not UTF-8');
  }
  const value = new Uint8Array(bytes.subarray(textEnd, size)); // its own memory: the rest is let go
  return { frame: { kind, id: view.getUint32(5, true), number: view.getInt32(9, true), text, value }, size };
}
