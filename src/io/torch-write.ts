// Writes torch files, as torch.save: dicts and lists of tensors, numbers and strings.
import { byteLength, DTYPES, type DType, isHostArray, TORCH } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import { describe, isPlain } from '../base/tree.js';
import {
  checkArray,
  compute,
  dataOf,
  type HostArray,
  type NamedArrays,
  piecesOf,
  type ReadLater,
  rowMajor,
} from './array.js';
import { replaceFiles, type WriteFile } from './file.js';
import { STORAGES } from './torch-pickle.js';
import { writeZip } from './zip.js';

/** What can be written: a Map or an object is a dict (whole numbers as keys of an object are ints), a list is a list. */
export type TorchTree =
  | HostArray
  | ReadLater
  | number
  | string
  | boolean
  | null
  | readonly TorchTree[]
  | ReadonlyMap<string | number, TorchTree>
  | { readonly [key: string]: TorchTree };

/**
 * Writes under a temporary name, flushed, then renamed. torch.load(path, weights_only=True) reads it. What shares memory here
 * shares it there: a tensor that is in two places, and arrays of one dtype that overlap, are one storage.
 */
export async function writeTorch(path: string, value: TorchTree): Promise<void> {
  await replaceFiles(new Map([[path, await torchFile(value)]]));
}

/** What writes such a file, for a set with others. */
export async function torchFile(value: TorchTree): Promise<WriteFile> {
  const storages = new Storages(collect(value));
  const pickle = Buffer.from(PROTO + pickled(value, '', storages) + STOP, 'latin1');
  await compute(storages.tensors());
  const text = (value: string | Buffer) => async () => [Buffer.from(value)];
  return (write) =>
    writeZip(write, [
      ['archive/data.pkl', text(pickle)],
      ['archive/byteorder', text('little')],
      ...storages.contents().map((bytes, i) => [`archive/data/${i}`, bytes] as const),
      ['archive/version', text('3\n')],
    ]);
}

// The opcodes of pickle's protocol 2 that these take.
const PROTO = '\x80\x02';
const [MARK, TUPLE, REDUCE, STOP] = ['(', 't', 'R', '.'];
const [EMPTY_DICT, SET_ITEMS, EMPTY_LIST, APPENDS, EMPTY_TUPLE] = ['}', 'u', ']', 'e', ')'];
const [NONE, TRUE, FALSE, PERSISTENT] = ['N', '\x88', '\x89', 'Q'];
const global = (module: string, name: string): string => `c${module}\n${name}\n`;
const tuple = (...items: readonly string[]): string => MARK + items.join('') + TUPLE;

const littleEndian = (n: number, size: 4 | 8): string => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(n));
  return bytes.toString('latin1', 0, size);
};
const int = (n: number): string => (Math.abs(n) < 2 ** 31 ? `J${littleEndian(n, 4)}` : `\x8a\x08${littleEndian(n, 8)}`);
function float(x: number): string {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(x);
  return `G${bytes.toString('latin1')}`;
}
const ints = (list: Shape): string => tuple(...list.map(int));
const text = (s: string): string => {
  const bytes = Buffer.from(s);
  if (bytes.toString() !== s) throw new ArgumentError(`writeTorch: '${s.slice(0, 80)}' has half of a surrogate pair`);
  return `X${littleEndian(bytes.length, 4)}${bytes.toString('latin1')}`;
};

const STORAGE_OF = new Map(Object.entries(STORAGES).map(([name, dtype]) => [dtype, name]));
STORAGE_OF.set('u8', 'ByteStorage'); // not UntypedStorage
STORAGE_OF.set('c64', 'ComplexFloatStorage').set('c128', 'ComplexDoubleStorage');
/** Dtypes without a storage type of their own: their storage is bytes, and the tensor tells the dtype. */
const UNTYPED = ['u16', 'u32', 'u64', 'f8e4m3fn', 'f8e5m2'] as const satisfies readonly DType[];
const torchName = new Map(
  UNTYPED.map((dtype): [DType, string] => [dtype, Object.entries(TORCH).find(([, ours]) => ours === dtype)![0]]),
);

type Saved = HostArray | ReadLater;
const isArray = (x: object): x is Saved => 'expr' in x || isHostArray(x);
const isHost = (array: Saved): array is HostArray => typeof array.data !== 'function';

const DEPTH = 500; // as deep as files are read

/** All arrays of a value, in order; its other contents are checked when it is written. */
function collect(value: TorchTree): Set<Saved> {
  const found = new Set<Saved>();
  const done = new Set<object>();
  const open = new Set<object>();
  const visit = (x: unknown): void => {
    if (typeof x !== 'object' || x === null || done.has(x)) return;
    if (isArray(x)) return void found.add(x);
    if (open.has(x)) throw new ArgumentError('writeTorch: a list or dict that contains itself cannot be written');
    if (open.size === DEPTH) throw new ArgumentError(`writeTorch: lists and dicts are nested more than ${DEPTH} deep`);
    open.add(x);
    for (const part of x instanceof Map ? x.values() : Array.isArray(x) ? x : isPlain(x) ? Object.values(x) : [])
      visit(part);
    open.delete(x);
    done.add(x);
  };
  visit(value);
  return found;
}

/** The position of an array: its storage, and the byte where it starts there. */
interface Place {
  readonly number: number;
  readonly bytes: number; // of the whole storage
  readonly position: number;
}

/** The storages of a file: one for each tensor, and for each stretch of memory that arrays of one dtype overlap in. */
class Storages {
  readonly #places = new Map<Saved, Place>();
  readonly #contents: (() => Promise<readonly Uint8Array[]>)[] = [];

  constructor(readonly arrays: ReadonlySet<Saved>) {
    const stretches = stretchesOf([...arrays].filter(isHost).filter(({ data }) => ArrayBuffer.isView(data)));
    for (const array of arrays) {
      if (this.#places.has(array)) continue;
      const stretch = isHost(array) ? stretches.get(array) : undefined;
      const number = this.#contents.length;
      this.#contents.push(() => (stretch ? bytesOf(stretch) : dataOf(array)));
      if (!stretch) this.#places.set(array, { number, bytes: byteLength(array), position: 0 });
      for (const one of stretch?.arrays ?? []) {
        const { start, end } = stretch!;
        this.#places.set(one, { number, bytes: end - start, position: one.data.byteOffset - start });
      }
    }
  }
  placeOf = (array: Saved): Place => this.#places.get(array)!;
  contents = () => this.#contents;
  /** The tensors that must be computed before it can be written. */
  tensors = (): NamedArrays => new Map([...this.arrays].map((array, i) => [String(i), array]));
}

interface Stretch {
  readonly start: number; // bytes in the buffer
  end: number;
  readonly arrays: HostArray[];
}
const bytesOf = async ({ start, end, arrays }: Stretch): Promise<Uint8Array[]> =>
  piecesOf(new DataView(arrays[0]!.data.buffer, start, end - start));
function stretchesOf(arrays: readonly HostArray[]): Map<HostArray, Stretch> {
  const found = new Map<HostArray, Stretch>();
  const groups = new Map<ArrayBufferLike, Map<DType, HostArray[]>>();
  for (const array of arrays) {
    if (!array.data.byteLength) continue;
    const byType = groups.get(array.data.buffer) ?? new Map<DType, HostArray[]>();
    groups.set(array.data.buffer, byType);
    byType.set(array.dtype, [...(byType.get(array.dtype) ?? []), array]);
  }
  for (const group of [...groups.values()].flatMap((byType) => [...byType.values()])) {
    let last: Stretch | undefined;
    for (const array of group.sort((a, b) => a.data.byteOffset - b.data.byteOffset)) {
      const { byteOffset, byteLength: length } = array.data;
      if (!last || byteOffset >= last.end) last = { start: byteOffset, end: byteOffset, arrays: [] };
      last.end = Math.max(last.end, byteOffset + length);
      last.arrays.push(array);
      found.set(array, last);
    }
  }
  return found;
}

/** The opcodes that make a value. */
function pickled(x: TorchTree, at: string, storages: Storages): string {
  if (x === null) return NONE;
  if (typeof x === 'boolean') return x ? TRUE : FALSE;
  if (typeof x === 'string') return text(x);
  if (typeof x === 'number') return Number.isSafeInteger(x) && !Object.is(x, -0) ? int(x) : float(x);
  const inside = (key: string | number) => (at ? `${at}.${key}` : String(key));
  if (Array.isArray(x))
    return EMPTY_LIST + MARK + x.map((e, i) => pickled(e as TorchTree, inside(i), storages)).join('') + APPENDS;
  if (x instanceof Map) return dict([...x], inside, storages);
  if (typeof x === 'object' && isArray(x)) return tensor(x, at, storages);
  if (isPlain(x)) {
    const key = (k: string) => (/^(0|[1-9]\d{0,8})$/.test(k) ? Number(k) : k);
    const entries = Object.entries(x).filter(([, value]) => value !== undefined);
    return dict(
      entries.map(([k, value]) => [key(k), value as TorchTree]),
      inside,
      storages,
    );
  }
  throw new ArgumentError(
    `writeTorch: ${at || 'it'} is ${describe(x)}: only tensors, numbers, strings, lists and dicts can be written`,
  );
}

const dict = (
  entries: readonly (readonly [string | number, TorchTree])[],
  inside: (key: string | number) => string,
  storages: Storages,
): string => {
  const items = entries.map(([key, value]) => {
    if (key === '') throw new ArgumentError('writeTorch: the name of an array is empty');
    return (typeof key === 'number' ? int(key) : text(key)) + pickled(value, inside(key), storages);
  });
  return EMPTY_DICT + MARK + items.join('') + SET_ITEMS;
};

function tensor(array: Saved, name: string, storages: Storages): string {
  const { dtype, shape } = checkArray(name, array);
  const { number, bytes, position } = storages.placeOf(array);
  const { bytes: size } = DTYPES[dtype];
  const untyped = torchName.get(dtype);
  const type = untyped ? global('torch.storage', 'UntypedStorage') : global('torch', STORAGE_OF.get(dtype)!);
  const count = untyped ? bytes : bytes / size;
  const stored = tuple(text('storage'), type, text(String(number)), text('cpu'), int(count));
  const noHooks = global('collections', 'OrderedDict') + EMPTY_TUPLE + REDUCE;
  const made = [stored + PERSISTENT, int(position / size), ints(shape), ints(rowMajor(shape)), FALSE, noHooks];
  return untyped
    ? global('torch._utils', '_rebuild_tensor_v3') + tuple(...made, global('torch', untyped)) + REDUCE
    : global('torch._utils', '_rebuild_tensor_v2') + tuple(...made) + REDUCE;
}
