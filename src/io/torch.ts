// Reads torch's .pt and .pth files: a pickle that describes tensors, and bytes for each storage. Since torch 1.6 (2020) these are
// members of a zip; older files have them one after another.
import { type ArrayType, byteLength, DTYPES, sizeOf, type TypedArray } from '../base/dtype.js';
import { FileError } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import {
  type ArrayOrder,
  type ArraySource,
  type HostArray,
  isRowMajor,
  piecesOf,
  readArray,
  readInto,
  swapBytes,
} from './array.js';
import { type OpenFile, openFile, type ReadAt, withFile } from './file.js';
import { type PickleWorld, unpickle } from './pickle.js';
import { entryOf } from './safetensors.js';
import { Archive, type Flip, type Storage, type View } from './torch-pickle.js';
import type { TorchValue } from './torch-values.js';
import { type CheckedReader, type Member, membersOf, printable } from './zip.js';

const PICKLE_LIMIT = 64 * 2 ** 20; // bytes: it describes tensors, their numbers are elsewhere
const SLACK = 16 * 2 ** 20; // bytes that views laid out anew may take beyond twice the file's size

// torch.serialization.set_crc32_options(False) and skip_data() write zeros for checksums.
const TORCH_FILE = { name: 'a torch file', zeroIsNone: true };

/**
 * The value of a file written by `torch.save`. No code of the file is run: the types that `torch.load(weights_only=True)` allows
 * are supported, and a file that imports any other is rejected (UnsafePickleError).
 */
export const readTorch = (path: string): Promise<TorchValue> =>
  withFile(path, async (file) => {
    const { value, archive, placeOf, bigEndian, bad } = await load(file);
    for (const [name, reason] of archive.unreadable)
      throw new FileError(`${path}: ${name} is ${reason}, which is not supported: convert it in torch first`);
    let room = 2 * file.size + SLACK;
    for (const storage of archive.storages()) {
      if (!storage.views.size) continue;
      const place = placeOf(storage);
      for (const view of storage.views.values()) room -= isDirect(view) ? 0 : byteLength(view.array);
      if (room < 0) throw bad('its tensors are expanded far beyond what it holds: call clone() of them before saving');
      await fill(storage, place.open(), bigEndian, bad);
    }
    return value as TorchValue;
  });

/** The position of an array in a file: its elements start at this byte, in row-major order. */
export interface ArrayPlace extends ArrayType {
  readonly position: number;
}

/**
 * The positions of the tensors of a file whose value is a dict of them, to read parts of a large file. With `checksums: true`
 * all their storages are read once and compared with their checksums. Default: false.
 */
export const locateTorch = (
  path: string,
  options: { readonly checksums?: boolean } = {},
): Promise<Map<string, ArrayPlace>> =>
  withFile(path, async (file) => {
    const { tensors, others } = dictOf(await load(file));
    const places = new Set(options.checksums ? [...tensors.values()].map(({ place }) => place) : []);
    for (const place of places) await place.open().verify();
    for (const [name, what] of others)
      throw new FileError(`${path}: ${name} is ${what}, which is not stored as one array`);
    for (const [name, { view, bigEndian }] of tensors)
      if (bigEndian || !isDirect(view))
        throw new FileError(`${path}: ${name} is not contiguous: save it again in Python, with .contiguous()`);
    return new Map(
      [...tensors].map(([name, { view, place }]) => {
        const { dtype, shape } = view.array;
        return [name, { dtype, shape, position: place.start + view.position }];
      }),
    );
  });

export interface TorchFile extends ArraySource, AsyncDisposable {}
/**
 * Opens a file whose value is a dict of tensors, or has one under the name `inside`; tensors are read on request. The bytes of
 * a storage are then compared with their checksum, once.
 */
export async function openTorch(path: string, inside?: string): Promise<TorchFile> {
  const file = await openFile(path);
  try {
    const { tensors, others } = dictOf(await load(file), inside);
    const verified = new Map<StoragePlace, Promise<void>>();
    const entries = new Map([...tensors].map(([name, { view }]) => [name, typeOf(view)]));
    const read = async (name: string): Promise<HostArray> => {
      const other = others.get(name);
      if (other) throw new FileError(`${path}: ${name} is ${other}, which readTorch reads and openTorch does not`);
      entryOf(path, entries, name);
      const { view, place, bigEndian } = tensors.get(name)!;
      const reader = place.open();
      const array = await readView(reader.read, view, view.position, bigEndian);
      if (!verified.has(place)) verified.set(place, reader.verify());
      await verified.get(place);
      return array;
    };
    return { entries, read, [Symbol.asyncDispose]: () => file.close() };
  } catch (e) {
    await file.close();
    throw e;
  }
}
const typeOf = ({ array: { dtype, shape } }: View): ArrayType => ({ dtype, shape });

/** The bytes of one storage. */
interface StoragePlace {
  readonly start: number; // in the file
  open(): CheckedReader;
}

/** A file whose pickle has been read, but none of its tensors. */
interface Loaded {
  readonly value: unknown;
  readonly archive: Archive;
  readonly placeOf: (storage: Storage) => StoragePlace;
  readonly bigEndian: boolean;
  readonly bad: Bad;
}
type Bad = (what: string) => FileError;

async function load(file: OpenFile): Promise<Loaded> {
  const start = Buffer.alloc(Math.min(file.size, 512));
  await file.read(start, 0);
  if (start[8] === 0x7b && start.readUInt32LE(4) === 0)
    throw new FileError(`${file.path} is not a torch file: it is a safetensors file: read it with readSafetensors`);
  if (start.toString('latin1', 257, 262) === 'ustar')
    throw new FileError(
      `${file.path} is a tar file, as torch before 0.1.10 wrote it. Save it anew in Python: \
torch.save(torch.load('old.pt', weights_only=False), 'new.pt'), if you trust it`,
    );
  const bad = (what: string) => new FileError(`${file.path} is not a whole torch file: ${printable(what)}`);
  return start[0] === 0x80 ? loadLegacy(file, bad) : loadZip(file, bad);
}

async function loadZip(file: OpenFile, bad: Bad): Promise<Loaded> {
  const members = await membersOf(file, TORCH_FILE);
  const [pickle, second] = [...members.values()].filter((m) => /^[^/]*\/data\.pkl$/.test(m.name));
  if (!pickle) throw bad('it has no data.pkl');
  if (second) throw bad(`it has ${pickle.name} and ${second.name}`);
  if (pickle.size > PICKLE_LIMIT) throw bad(`its data.pkl has ${pickle.size} bytes, more than ${PICKLE_LIMIT}`);
  const root = pickle.name.slice(0, -'data.pkl'.length);
  const order = members.get(`${root}byteorder`);
  const byteOrder = !order ? 'little' : order.size < 16 ? String(await bytesIn(order)) : '';
  if (byteOrder !== 'little' && byteOrder !== 'big') throw bad('its byteorder is neither little nor big');
  const archive = new Archive(bad);
  const bytes = await bytesIn(pickle);
  const { value, end } = unpickle(bytes, archive) ?? cutShort(bytes, bad);
  if (end !== bytes.length) throw bad(`its pickle ends at byte ${end} of ${bytes.length}`);
  archive.check(value);
  const places = new Map<Storage, Member>();
  for (const storage of archive.storages()) {
    const { key, bytes } = storage;
    const member = members.get(`${root}data/${key}`);
    if (!member) throw bad(`it has no storage data/${key}`);
    if (member.compressed) throw bad(`data/${key} is compressed, which torch never does: save it again with torch`);
    if (member.size < bytes) throw bad(`data/${key} has ${member.size} bytes of ${bytes}`);
    places.set(storage, member);
  }
  return { value, archive, placeOf: (storage) => places.get(storage)!, bigEndian: byteOrder === 'big', bad };
}

const cutShort = (bytes: Uint8Array, bad: Bad): never => {
  throw bad(`its pickle is cut short at byte ${bytes.length}`);
};

const bytesIn = (member: Member): Promise<Buffer> =>
  member.unpack(async (read) => {
    const bytes = Buffer.alloc(member.size);
    await read(bytes, 0);
    return bytes;
  });

const MAGIC = 0x1950a86a20f9469cfc6cn;
const PROTOCOL = 1001;
/** What stands beside the value is made of numbers, texts, dicts and lists. */
const plainWorld = (bad: Bad): PickleWorld => ({
  find: () => undefined,
  persistent: () => {
    throw bad('it refers to something outside that is no storage');
  },
  bad,
});

/**
 * The format before torch 1.6, still written with _use_new_zipfile_serialization=False: pickles of a magic
 * number, a version, facts about the machine, the value and the keys of its storages; then for each key how many elements it
 * has and its bytes, always little endian. There are no checksums.
 */
async function loadLegacy(file: OpenFile, bad: Bad): Promise<Loaded> {
  const most = Math.min(file.size, PICKLE_LIMIT);
  for (let window = 2 ** 20; ; window *= 4) {
    const bytes = Buffer.alloc(Math.min(window, most));
    await file.read(bytes, 0);
    const pickles = legacyPickles(bytes, bad);
    if (pickles) return { ...pickles, placeOf: await legacyPlaces(file, pickles, bad), bigEndian: false, bad };
    if (bytes.length === most)
      throw bad(
        most < file.size ? `its pickle has more than ${PICKLE_LIMIT} bytes` : `its pickle is cut short at byte ${most}`,
      );
  }
}

interface LegacyPickles {
  readonly value: unknown;
  readonly archive: Archive;
  readonly keys: unknown;
  readonly end: number;
}
/** Undefined if they are longer than these bytes. */
function legacyPickles(bytes: Buffer, bad: Bad): LegacyPickles | undefined {
  let at = 0;
  const next = (world: PickleWorld) => {
    const pickled = unpickle(bytes, world, at);
    at = pickled?.end ?? at;
    return pickled;
  };
  const plain = plainWorld(bad);
  const noTorch = () =>
    bad('it is a pickle, but torch.save did not write it: save its tensors with torch or safetensors');
  const magic = next({ ...plain, find: () => noTorch });
  if (!magic) return undefined;
  if (magic.value !== MAGIC) throw noTorch();
  const version = next(plain);
  if (version && version.value !== PROTOCOL) throw bad(`its version is not ${PROTOCOL}`);
  const archive = new Archive(bad);
  if (!version || !next(plain)) return undefined; // facts about the machine, which torch does not look at
  const pickled = next(archive);
  const keys = pickled && next(plain);
  if (!keys) return undefined;
  archive.check(pickled.value);
  return { value: pickled.value, archive, keys: keys.value, end: at };
}

async function legacyPlaces(file: OpenFile, { archive, keys, end }: LegacyPickles, bad: Bad) {
  const places = new Map<Storage, StoragePlace>();
  let at = end;
  if (!Array.isArray(keys)) throw bad('it has no list of its storages');
  for (const key of keys) {
    const storage = archive.storage(key);
    if (!storage || places.has(storage)) throw bad('its list of storages is not that of its tensors');
    const count = Buffer.alloc(8);
    if (at + count.length + storage.bytes > file.size) throw bad(`storage ${storage.key} reaches beyond its end`);
    file.readNow(count, at);
    if (count.readBigInt64LE() !== BigInt(storage.count))
      throw bad(`storage ${storage.key} has ${count.readBigInt64LE()} elements, not ${storage.count}`);
    const start = at + count.length;
    const read: ReadAt = (into, position) => file.read(into, start + position);
    places.set(storage, { start, open: () => ({ read, verify: async () => undefined }) });
    at = start + storage.bytes;
  }
  for (const storage of archive.storages()) if (!places.has(storage)) throw bad(`it has no storage ${storage.key}`);
  if (at !== file.size) throw bad(`it should end at byte ${at}, but has ${file.size}`);
  return (storage: Storage) => places.get(storage)!;
}

interface Placed {
  readonly view: View;
  readonly place: StoragePlace;
  readonly bigEndian: boolean;
}
/** The tensors of a dict, and what they are that are no arrays. `inside`: it may be one of the values of another dict. */
function dictOf({ value: outer, archive, placeOf, bigEndian, bad }: Loaded, inside?: string) {
  const value = (inside && outer instanceof Map && outer.get(inside)) || outer;
  if (!(value instanceof Map)) throw bad('its value is not a dict of tensors');
  const placed = new Map<unknown, Placed>();
  for (const storage of archive.storages())
    for (const view of storage.views.values()) placed.set(view.array, { view, place: placeOf(storage), bigEndian });
  const tensors = new Map<string, Placed>();
  const others = new Map<string, string>();
  for (const [name, item] of value) {
    if (typeof name !== 'string') continue;
    const tensor = placed.get(item);
    if (tensor) tensors.set(name, tensor);
    else if (archive.isTensor(item)) others.set(name, archive.describe(item));
  }
  return { tensors, others };
}

/** Whether its elements are contiguous, so that it can share the memory of its storage. */
const isDirect = ({ array, strides, position, flip }: View): boolean =>
  !flip && position % DTYPES[array.dtype].bytes === 0 && isRowMajor(array.shape, strides);

async function readView(read: ReadAt, view: View, position: number, bigEndian: boolean): Promise<HostArray> {
  const { dtype, shape } = view.array;
  const array = await readArray(read, { dtype, shape }, position, {
    strides: view.strides,
    bigEndian,
  } satisfies ArrayOrder);
  if (view.flip) flipSigns(array.data, view.flip);
  return array;
}

/** Changes signs: the highest bit of each float. */
function flipSigns(data: TypedArray, flip: Flip): void {
  const size = data.BYTES_PER_ELEMENT;
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const first = (flip === 'odd' ? 2 : 1) * size - 1;
  for (let i = first; i < bytes.length; i += flip === 'all' ? size : 2 * size) bytes[i]! ^= 0x80;
}

/** Reads a storage's arrays. Several are views of the same memory, as in torch; one alone has its own. */
async function fill(storage: Storage, reader: CheckedReader, bigEndian: boolean, bad: Bad): Promise<void> {
  const { key, bytes, views } = storage;
  const sizes = new Set([...views.values()].map(({ array }) => DTYPES[array.dtype].bytes));
  const [size] = sizes as Iterable<number>;
  if (views.size === 1) {
    for (const view of views.values())
      view.array.data = (await readView(reader.read, view, view.position, bigEndian)).data;
    return reader.verify();
  }
  if (bigEndian && sizes.size > 1) throw bad(`data/${key} is big endian, with elements of several sizes`);
  const whole = memoryOf(key, bytes, bad);
  await readInto(reader.read, whole, 0);
  await reader.verify();
  if (bigEndian) for (const p of piecesOf(whole)) swapBytes(p.subarray(0, p.length - (p.length % size!)), size!);
  const read: ReadAt = async (into, at) => into.set(new Uint8Array(whole.buffer, at, into.byteLength));
  for (const view of views.values()) {
    const { array, position } = view;
    array.data = isDirect(view)
      ? new DTYPES[array.dtype].array(whole.buffer, position, sizeOf(array.shape))
      : (await readView(read, view, position, false)).data;
  }
}

function memoryOf(key: string, bytes: number, bad: Bad): DataView<ArrayBuffer> {
  try {
    return new DataView(new ArrayBuffer(bytes));
  } catch (e) {
    throw bad(`storage ${key} has ${bytes} bytes, which cannot be held here (${messageOf(e)})`);
  }
}
