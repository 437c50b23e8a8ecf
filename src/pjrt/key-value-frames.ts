// The wire format between processes and the key-value store (key-value-network.ts). A frame is:
// [length u32] kind u8, id u32, number i32, length of text u32, text in UTF-8, value. `length` counts everything after it.

export interface Frame {
  readonly kind: number;
  /** A request and its answer have the same id. */
  readonly id: number;
  /** The rank of the joining process; the status of an answer. */
  readonly number: number;
  /** A key, the name of the joining process, or the message of an answer. */
  readonly text: string;
  readonly value: Uint8Array;
}
/** `refuse` is the last frame before a connection is closed: its text is the reason. */
export const KIND = { join: 1, put: 2, get: 3, tryGet: 4, answer: 5, refuse: 6 } as const;
const KINDS: ReadonlySet<number> = new Set(Object.values(KIND));

/** Bytes before the text. */
export const HEADER = 17;
/** The largest size of a frame in bytes. */
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
  /** The frame is incomplete: it (or at least its header) needs this many bytes. Never more than the limit. */
  | { readonly wanted: number }
  /** Why these bytes are not a frame. */
  | { readonly problem: string };

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Reads the frame at the start of these bytes. Never throws, and never reads other memory, for any bytes. */
export function readFrame(bytes: Uint8Array, limit = LARGEST): ReadFrame {
  if (bytes.length < HEADER) return { wanted: HEADER };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const size = 4 + view.getUint32(0, true);
  const kind = view.getUint8(4);
  const textEnd = HEADER + view.getUint32(13, true);
  const problem = (why: string) => ({ problem: `the data it sent is of another program, or damaged: ${why}` });
  if (size < HEADER || size > limit)
    return problem(`a frame of ${size} bytes, where ${HEADER} to ${limit} are allowed`);
  if (!KINDS.has(kind)) return problem(`a frame of unknown kind ${kind}`);
  if (textEnd > size) return problem(`a text of ${textEnd - HEADER} bytes in a frame of ${size}`);
  if (bytes.length < size) return { wanted: size };
  let text: string;
  try {
    text = utf8.decode(bytes.subarray(HEADER, textEnd));
  } catch {
    return problem('a text that is not UTF-8');
  }
  const value = new Uint8Array(bytes.subarray(textEnd, size)); // a copy, so that the rest of the memory can be freed
  return { frame: { kind, id: view.getUint32(5, true), number: view.getInt32(9, true), text, value }, size };
}
