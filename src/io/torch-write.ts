// Torch files, as torch.save writes them: tensors in dicts and lists, with numbers and texts beside them.
import { isHostArray } from '../base/dtype.js';
import { ArgumentError, DTypeError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import { describe, isPlain } from '../base/tree.js';
import { checkArray, compute, dataOf, type HostArray, type ReadLater, rowMajor } from './array.js';
import { replaceFiles } from './file.js';
import { STORAGES } from './torch.js';
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

/** Writes under a temporary name, flushed, then renamed. torch.load(path, weights_only=True) reads it. */
export async function writeTorch(path: string, value: TorchTree): Promise<void> {
  const arrays = new Map<string, HostArray | ReadLater>();
  const pickle = Buffer.from(PROTO + pickled(value, '', arrays) + STOP, 'latin1');
  await compute(arrays);
  const text = (value: string | Buffer) => async () => [Buffer.from(value)];
  await replaceFiles(
    new Map([
      [
        path,
        (write) =>
          writeZip(write, [
            ['archive/data.pkl', text(pickle)],
            ['archive/byteorder', text('little')],
            ...[...arrays.values()].map((array, i) => [`archive/data/${i}`, () => dataOf(array)] as const),
            ['archive/version', text('3\n')],
          ]),
      ],
    ]),
  );
}

// The opcodes of pickle's protocol 2 that these take.
const PROTO = '\x80\x02';
const [MARK, TUPLE, REDUCE, STOP] = ['(', 't', 'R', '.'];
const [EMPTY_DICT, SET_ITEMS, EMPTY_LIST, APPENDS, EMPTY_TUPLE] = ['}', 'u', ']', 'e', ')'];
const [NONE, TRUE, FALSE, PERSISTENT] = ['N', '\x88', '\x89', 'Q'];
const global = (module: string, name: string): string => `c${module}\n${name}\n`;
const tuple = (...items: readonly string[]): string => MARK + items.join('') + TUPLE;

const bytesOf = (n: number, size: 4 | 8): string => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(n));
  return bytes.toString('latin1', 0, size);
};
const int = (n: number): string => (Math.abs(n) < 2 ** 31 ? `J${bytesOf(n, 4)}` : `\x8a\x08${bytesOf(n, 8)}`);
function float(x: number): string {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(x);
  return `G${bytes.toString('latin1')}`;
}
const ints = (list: Shape): string => tuple(...list.map(int));
const text = (s: string): string => {
  const bytes = Buffer.from(s);
  return `X${bytesOf(bytes.length, 4)}${bytes.toString('latin1')}`;
};

const STORAGE_OF = new Map(Object.entries(STORAGES).map(([name, dtype]) => [dtype, name]));
STORAGE_OF.set('u8', 'ByteStorage'); // not UntypedStorage

type Arrays = Map<string, HostArray | ReadLater>;
const isArray = (x: object): x is HostArray | ReadLater => 'expr' in x || isHostArray(x);

/** The opcodes that make a value; arrays are noted by the names of their places. */
function pickled(x: TorchTree, at: string, arrays: Arrays): string {
  if (x === null) return NONE;
  if (typeof x === 'boolean') return x ? TRUE : FALSE;
  if (typeof x === 'string') return text(x);
  if (typeof x === 'number') return Number.isSafeInteger(x) && !Object.is(x, -0) ? int(x) : float(x);
  const inside = (key: string | number) => (at ? `${at}.${key}` : String(key));
  if (Array.isArray(x))
    return EMPTY_LIST + MARK + x.map((e, i) => pickled(e as TorchTree, inside(i), arrays)).join('') + APPENDS;
  if (x instanceof Map) return dict([...x], inside, arrays);
  if (typeof x === 'object' && isArray(x)) return tensor(x, at, arrays);
  if (isPlain(x)) {
    const key = (k: string) => (/^(0|[1-9]\d{0,8})$/.test(k) ? Number(k) : k);
    const entries = Object.entries(x).filter(([, value]) => value !== undefined);
    return dict(
      entries.map(([k, value]) => [key(k), value as TorchTree]),
      inside,
      arrays,
    );
  }
  throw new ArgumentError(
    `writeTorch: ${at || 'it'} is ${describe(x)}: tensors, numbers, texts, lists and dicts are written`,
  );
}

const dict = (
  entries: readonly (readonly [string | number, TorchTree])[],
  inside: (key: string | number) => string,
  arrays: Arrays,
): string => {
  const items = entries.map(([key, value]) => {
    if (key === '') throw new ArgumentError('writeTorch: an array without name');
    return (typeof key === 'number' ? int(key) : text(key)) + pickled(value, inside(key), arrays);
  });
  return EMPTY_DICT + MARK + items.join('') + SET_ITEMS;
};

function tensor(array: HostArray | ReadLater, name: string, arrays: Arrays): string {
  const { dtype, shape } = checkArray(name, array);
  const storage = STORAGE_OF.get(dtype);
  if (!storage)
    throw new DTypeError(`${name}: torch files of ${dtype} are not written here: convert it, or use writeSafetensors`);
  const number = arrays.size;
  arrays.set(`${number} ${name}`, array);
  const count = shape.reduce((n, d) => n * d, 1);
  const stored = tuple(text('storage'), global('torch', storage), text(String(number)), text('cpu'), int(count));
  const noHooks = global('collections', 'OrderedDict') + EMPTY_TUPLE + REDUCE;
  const made = [stored + PERSISTENT, int(0), ints(shape), ints(rowMajor(shape)), FALSE, noHooks];
  return global('torch._utils', '_rebuild_tensor_v2') + tuple(...made) + REDUCE;
}
