// torch's .pt and .pth files: a zip with a pickle that describes tensors, and one member of bytes for each storage.
import { type ArrayType, byteLength, DTYPES, type DType, show, sizeOf, TORCH, type TypedArray } from '../base/dtype.js';
import { FileError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import {
  type ArraySource,
  type HostArray,
  isRowMajor,
  type Layout,
  piecesOf,
  readArray,
  readInto,
  spanOf,
  swapBytes,
} from './array.js';
import { type OpenFile, openFile, type ReadAt, withFile } from './file.js';
import { unpickle } from './pickle.js';
import { entryOf } from './safetensors.js';
import { type Member, withZip } from './zip.js';

/** What a torch file holds: dicts are Maps, tuples and sizes are arrays, tensors are HostArrays, dtypes their names here. */
export type TorchValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | HostArray
  | TorchValue[]
  | Map<TorchValue, TorchValue>
  | Set<TorchValue>;

const PICKLE_LIMIT = 64 * 2 ** 20; // bytes: it describes tensors, their numbers are elsewhere
const DEPTH = 500;
const RANK = 64;
const SLACK = 16 * 2 ** 20; // bytes that views laid out anew may take beyond twice the file's size

// torch itself compares no checksums, and can be told to write none.
const TORCH_FILE = { name: 'a torch file', checksums: false };

/** An array whose elements are not read yet. */
interface Draft extends ArrayType {
  data: TypedArray;
}
const draft = (dtype: DType, shape: Shape): Draft => ({ dtype, shape, data: new Uint8Array(0) });

interface View {
  readonly array: Draft;
  readonly strides: Shape; // in elements, as the offset
  readonly offset: number;
}

/** One member of bytes, and the tensors that see parts of it. */
interface Storage {
  readonly key: string;
  readonly bytes: number;
  readonly whole: Draft; // stands for it in the pickle
  readonly views: Map<string, View>;
}

/**
 * What a file that `torch.save` wrote holds. No code of the file is run: of Python's types, those that state dicts are made of
 * are known, and a file that wants to import any other is refused (UnsafePickleError).
 */
export const readTorch = (path: string): Promise<TorchValue> =>
  withTorch(path, async ({ value, archive, memberOf, file, bigEndian, bad }) => {
    let room = 2 * file.size + SLACK;
    for (const storage of archive.storages()) {
      if (!storage.views.size) continue;
      const member = memberOf(storage);
      for (const { array, strides } of storage.views.values())
        room -= isRowMajor(array.shape, strides) ? 0 : byteLength(array);
      if (room < 0) throw bad('its tensors are expanded far beyond what it holds: call clone() of them before saving');
      await fill(storage, await member.start(), file, bigEndian, bad);
    }
    return value as TorchValue;
  });

/** Where an array lies in a file: its elements in row-major order from this byte on. */
export interface ArrayPlace extends ArrayType {
  readonly position: number;
}

type LaidOut = ArrayPlace & Required<Layout>;
/** The tensors of a dict, not read yet. `inside`: it may be one of the values of another dict. */
const placesIn = (path: string, inside?: string): Promise<Map<string, LaidOut>> =>
  withTorch(path, async ({ value: outer, archive, memberOf, bigEndian, bad }) => {
    const value = (inside && outer instanceof Map && outer.get(inside)) || outer;
    if (!(value instanceof Map)) throw bad('its value is no dict of tensors');
    const found = new Map<unknown, LaidOut>();
    for (const storage of archive.storages())
      for (const { array, strides, offset } of storage.views.values()) {
        const { dtype, shape } = array;
        const position = (await memberOf(storage).start()) + offset * DTYPES[dtype].bytes;
        found.set(array, { dtype, shape, position, strides, bigEndian });
      }
    const isTensor = (e: [unknown, unknown]): e is [string, unknown] => typeof e[0] === 'string' && found.has(e[1]);
    return new Map([...value].filter(isTensor).map(([name, array]) => [name, found.get(array)!]));
  });

/** Where the tensors of a file lie whose value is a dict of them: for those who read a part of a large one. */
export async function locateTorch(path: string): Promise<Map<string, ArrayPlace>> {
  const places = await placesIn(path);
  const odd = [...places].find(([, p]) => p.bigEndian || !isRowMajor(p.shape, p.strides));
  if (!odd) return places;
  throw new FileError(`${path}: ${odd[0]} lies in another order: save it anew in Python, with .contiguous()`);
}

export interface TorchFile extends ArraySource, AsyncDisposable {}
/** Opens a file whose value is a dict of tensors, or has one under the name `inside`: each is read when asked for. */
export async function openTorch(path: string, inside?: string): Promise<TorchFile> {
  const entries = await placesIn(path, inside);
  const file = await openFile(path);
  return {
    entries,
    read: async (name) => {
      const { dtype, shape, position, ...layout } = entryOf(path, entries, name);
      return readArray(file.read, { dtype, shape }, position, layout);
    },
    [Symbol.asyncDispose]: () => file.close(),
  };
}

interface OpenTorch {
  /** What the pickle describes, its tensors not read yet. */
  readonly value: unknown;
  readonly archive: Archive;
  readonly memberOf: (storage: Storage) => Member;
  readonly file: OpenFile;
  readonly bigEndian: boolean;
  readonly bad: (what: string) => FileError;
}

async function withTorch<T>(path: string, use: (opened: OpenTorch) => Promise<T>): Promise<T> {
  await refuseOldFormat(path);
  return withZip(path, TORCH_FILE, async (members, file) => {
    const bad = (what: string) => new FileError(`${path} is not a whole torch file: ${what}`);
    const pickle = [...members.values()].find((m) => /^[^/]*\/data\.pkl$/.test(m.name));
    if (!pickle) throw bad('it has no data.pkl');
    if (pickle.size > PICKLE_LIMIT) throw bad(`its data.pkl has ${pickle.size} bytes, more than ${PICKLE_LIMIT}`);
    const root = pickle.name.slice(0, -'data.pkl'.length);
    const order = members.get(`${root}byteorder`);
    const bigEndian = order !== undefined && order.size < 16 && String(await bytesIn(order)) === 'big';
    const archive = new Archive(bad);
    const value = unpickle(await bytesIn(pickle), archive);
    checkValue(value, archive);
    const memberOf = ({ key, bytes }: Storage): Member => {
      const member = members.get(`${root}data/${key}`);
      if (!member) throw bad(`it has no storage data/${key}`);
      if (member.compressed) throw bad(`data/${key} is compressed, which torch never does: save it anew with torch`);
      if (member.size < bytes) throw bad(`data/${key} has ${member.size} bytes of ${bytes}`);
      return member;
    };
    return use({ value, archive, memberOf, file, bigEndian, bad });
  });
}

const bytesIn = (member: Member): Promise<Buffer> =>
  member.unpack(async (read) => {
    const bytes = Buffer.alloc(member.size);
    await read(bytes, 0);
    return bytes;
  });

/** Before torch 1.6 (2020) files were bare pickles; and a safetensors file begins with the size of its JSON. */
const refuseOldFormat = (path: string): Promise<void> =>
  withFile(path, async (file) => {
    const start = Buffer.alloc(Math.min(file.size, 9));
    await file.read(start, 0);
    if (start[8] === 0x7b && start.readUInt32LE(4) === 0)
      throw new FileError(`${path} is not a torch file: it is a safetensors file: read it with readSafetensors`);
    if (start[0] !== 0x80) return;
    throw new FileError(
      `${path} is in torch's old format, or a bare pickle. Save it anew in Python, with torch 1.6 or later: \
torch.save(torch.load('old.pt', weights_only=True), 'new.pt')`,
    );
  });

class StorageType {
  constructor(readonly dtype: DType) {}
}

// biome-ignore format: a table
export const STORAGES: Readonly<Record<string, DType>> = {
  FloatStorage: 'f32', DoubleStorage: 'f64', HalfStorage: 'f16', BFloat16Storage: 'bf16', LongStorage: 'i64', IntStorage: 'i32',
  ShortStorage: 'i16', CharStorage: 'i8', ByteStorage: 'u8', BoolStorage: 'bool', UntypedStorage: 'u8',
};
const STORAGE_TYPES = Object.fromEntries(
  Object.entries(STORAGES).map(([name, dtype]) => [name, new StorageType(dtype)]),
);

const isCount = (n: unknown): n is number => Number.isSafeInteger(n) && (n as number) >= 0;
const isShape = (s: unknown): s is number[] => Array.isArray(s) && s.length <= RANK && s.every(isCount);

/** What the pickle of one file may import, and the storages it names. */
class Archive {
  readonly #byKey = new Map<string, Storage>();
  readonly #byArray = new Map<unknown, Storage>();
  readonly #globals: ReadonlyMap<string, unknown>;

  constructor(readonly bad: (what: string) => Error) {
    const list = (items: unknown = []): unknown[] => {
      if (Array.isArray(items)) return items;
      throw bad('it makes a dict, set or size of what is no list');
    };
    const pair = (item: unknown): [unknown, unknown] => {
      if (Array.isArray(item) && item.length === 2) return item as [unknown, unknown];
      throw bad('it makes a dict of what are no pairs');
    };
    const bytes = (content: unknown = ''): Uint8Array => {
      if (content instanceof Uint8Array) return content;
      if (typeof content === 'string') return Uint8Array.from(Buffer.from(content, 'latin1'));
      throw bad('it makes bytes of what is no text');
    };
    const set = (items: unknown) => new Set(list(items));
    const under = (modules: readonly string[], names: Readonly<Record<string, unknown>>): [string, unknown][] =>
      modules.flatMap((m) => Object.entries(names).map(([name, value]): [string, unknown] => [`${m}.${name}`, value]));
    this.#globals = new Map([
      ...under(['collections'], { OrderedDict: (items: unknown) => new Map(list(items).map(pair)) }),
      ...under(['builtins', '__builtin__'], { set, frozenset: set, bytes, bytearray: bytes }),
      ...under(['_codecs'], { encode: bytes }), // bytes, in pickles that Python 2 can read
      ...under(['torch', 'torch.cuda', 'torch.storage'], STORAGE_TYPES),
      ...under(['torch'], { ...TORCH, bool: 'bool', Size: list }),
      ...under(['torch._utils'], {
        // (storage, offset, size, stride, requires_grad, hooks, then in v3: dtype, then: what is to be done when reading)
        _rebuild_tensor_v2: (...a: unknown[]) => this.#tensor(a[0], a[1], a[2], a[3], undefined, a[6]),
        _rebuild_tensor_v3: (...a: unknown[]) => this.#tensor(a[0], a[1], a[2], a[3], a[6], a[7]),
        _rebuild_parameter: (tensor: unknown) => tensor,
      }),
    ]);
  }

  find(global: string): unknown {
    const found = this.#globals.get(global);
    if (found !== undefined || !/^torch\.(complex|Complex|Q[UI]|q[ui])\w+$/.test(global)) return found;
    throw this.bad(`it holds tensors of ${global}, a type that is not here: convert them in torch first`);
  }

  storages = (): Iterable<Storage> => this.#byKey.values();

  /** ('storage', its type, its key, the device it was on, how many elements it has) */
  persistent(id: unknown): Draft {
    const [what, type, key, , count] = Array.isArray(id) ? id : [];
    if (what !== 'storage' || !(type instanceof StorageType) || typeof key !== 'string' || !isCount(count)) {
      throw this.bad('it refers to something outside that is no storage');
    }
    const whole = draft(type.dtype, [count]);
    const known = this.#byKey.get(key);
    if (known) {
      const equal = known.whole.dtype === type.dtype && known.whole.shape[0] === count;
      if (!equal) throw this.bad(`storage ${key} is ${show(known.whole)} and ${show(whole)}`);
      return known.whole;
    }
    const storage = { key, bytes: byteLength(whole), whole, views: new Map() };
    this.#byKey.set(key, storage);
    this.#byArray.set(whole, storage);
    return whole;
  }

  #tensor(stored: unknown, offset: unknown, shape: unknown, strides: unknown, dtype: unknown, tasks: unknown): Draft {
    const storage = this.#byArray.get(stored);
    if (!storage || !isCount(offset) || !isShape(shape) || !isShape(strides) || shape.length !== strides.length) {
      throw this.bad('it has a tensor without storage, offset, shape or strides');
    }
    if (tasks instanceof Map && (tasks.get('neg') || tasks.get('conj'))) {
      throw this.bad('it has a tensor that is to be negated when read: call resolve_neg() before saving');
    }
    const type = (dtype ?? storage.whole.dtype) as DType;
    if (typeof type !== 'string' || !Object.hasOwn(DTYPES, type)) throw this.bad('it has a tensor without dtype');
    const array = draft(type, shape);
    const last = (offset + spanOf(shape, strides)) * DTYPES[type].bytes;
    if (!(sizeOf(shape) <= Number.MAX_SAFE_INTEGER) || !(last <= storage.bytes)) {
      throw this.bad(`it has ${show(array)} in storage ${storage.key}, which has ${storage.bytes} bytes`);
    }
    const key = `${type} ${offset} ${shape} ${strides}`; // equal views, as of tied weights, are one array
    const view = storage.views.get(key) ?? { array, strides, offset };
    storage.views.set(key, view);
    return view.array;
  }

  /** A storage that a file holds as it is becomes an array of one dimension. */
  keepWhole(value: unknown): void {
    const storage = this.#byArray.get(value);
    storage?.views.set('whole', { array: storage.whole, strides: [1], offset: 0 });
  }
}

/** A value holds nothing but values, is not nested without end, and not in itself: so it can be walked. */
function checkValue(value: unknown, archive: Archive): void {
  const { bad } = archive;
  const depths = new Map<object, number>(); // of what is done; 0 while it is open
  const open: { readonly object: object; readonly parts: Iterator<unknown>; depth: number }[] = [];
  const depthOf = (v: unknown): number => {
    if (typeof v === 'function' || v instanceof StorageType) throw bad('it holds a function or a type');
    archive.keepWhole(v);
    if (!(v instanceof Map || v instanceof Set || Array.isArray(v))) return 0;
    const known = depths.get(v);
    if (known === 0) throw bad('it holds something that holds itself');
    if (known !== undefined) return known;
    depths.set(v, 0);
    const parts = v instanceof Map ? [...v].flat() : v;
    open.push({ object: v, parts: parts.values(), depth: 1 });
    return 0;
  };
  depthOf(value);
  for (let here = open.at(-1); here; here = open.at(-1)) {
    const { value: part, done } = here.parts.next();
    if (!done) {
      here.depth = Math.max(here.depth, 1 + depthOf(part));
      continue;
    }
    if (here.depth > DEPTH) throw bad(`it is nested more than ${DEPTH} deep`);
    depths.set(here.object, here.depth);
    open.pop();
    const above = open.at(-1);
    if (above) above.depth = Math.max(above.depth, 1 + here.depth);
  }
}

/** Reads a storage's arrays. Several are views of the same memory, as in torch; one alone has its own. */
async function fill(
  { key, bytes, views }: Storage,
  start: number,
  file: OpenFile,
  bigEndian: boolean,
  bad: (what: string) => Error,
): Promise<void> {
  const sizes = new Set([...views.values()].map(({ array }) => DTYPES[array.dtype].bytes));
  const [size] = sizes as Iterable<number>;
  if (views.size === 1) {
    for (const { array, strides, offset } of views.values()) {
      array.data = (await readArray(file.read, array, start + offset * size!, { strides, bigEndian })).data;
    }
    return;
  }
  if (bigEndian && sizes.size > 1) throw bad(`data/${key} is big endian, with elements of several sizes`);
  const whole = new DataView(new ArrayBuffer(bytes));
  await readInto(file.read, whole, start);
  if (bigEndian) for (const p of piecesOf(whole)) swapBytes(p.subarray(0, p.length - (p.length % size!)), size!);
  const read: ReadAt = async (into, at) => into.set(new Uint8Array(whole.buffer, at, into.byteLength));
  for (const { array, strides, offset } of views.values()) {
    const { bytes: each, array: Elements } = DTYPES[array.dtype];
    array.data = isRowMajor(array.shape, strides)
      ? new Elements(whole.buffer, offset * each, sizeOf(array.shape))
      : (await readArray(read, array, offset * each, { strides })).data;
  }
}
