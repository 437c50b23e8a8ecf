// Torch files of named arrays, as torch.save writes a dict of tensors: for programs that read nothing else.
import { ArgumentError, DTypeError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import { checkArray, compute, dataOf, type HostArray, type NamedArrays, type ReadLater, rowMajor } from './array.js';
import { replaceFiles } from './file.js';
import { STORAGES } from './torch.js';
import { writeZip } from './zip.js';

/** Writes a dict of tensors under a temporary name, flushed, then renamed. torch.load(path, weights_only=True) reads it. */
export async function writeTorch(path: string, arrays: NamedArrays): Promise<void> {
  const named = [...arrays];
  const pickle = pickleOf(named);
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
            ...named.map(([, array], i) => [`archive/data/${i}`, () => dataOf(array)] as const),
            ['archive/version', text('3\n')],
          ]),
      ],
    ]),
  );
}

// The opcodes of pickle's protocol 2 that a dict of tensors takes.
const PROTO = '\x80\x02';
const [MARK, TUPLE, REDUCE, STOP] = ['(', 't', 'R', '.'];
const [EMPTY_DICT, SET_ITEMS, EMPTY_TUPLE, FALSE, PERSISTENT] = ['}', 'u', ')', '\x89', 'Q'];
const global = (module: string, name: string): string => `c${module}\n${name}\n`;
const tuple = (...items: readonly string[]): string => MARK + items.join('') + TUPLE;

const bytesOf = (n: number, size: 4 | 8): string => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(n));
  return bytes.toString('latin1', 0, size);
};
const int = (n: number): string => (n < 2 ** 31 ? `J${bytesOf(n, 4)}` : `\x8a\x08${bytesOf(n, 8)}`);
const ints = (list: Shape): string => tuple(...list.map(int));
const text = (s: string): string => {
  const bytes = Buffer.from(s);
  return `X${bytesOf(bytes.length, 4)}${bytes.toString('latin1')}`;
};

const STORAGE_OF = new Map(Object.entries(STORAGES).map(([name, dtype]) => [dtype, name]));
STORAGE_OF.set('u8', 'ByteStorage'); // not UntypedStorage

function pickleOf(arrays: readonly (readonly [string, HostArray | ReadLater])[]): Buffer {
  const items = arrays.map(([name, array], i) => {
    const { dtype, shape } = checkArray(name, array);
    const storage = STORAGE_OF.get(dtype);
    if (!storage)
      throw new DTypeError(
        `${name}: torch files of ${dtype} are not written here: convert it, or use writeSafetensors`,
      );
    if (!name) throw new ArgumentError('writeTorch: an array without name');
    const count = shape.reduce((n, d) => n * d, 1);
    const stored = tuple(text('storage'), global('torch', storage), text(String(i)), text('cpu'), int(count));
    const noHooks = global('collections', 'OrderedDict') + EMPTY_TUPLE + REDUCE;
    const tensor = [stored + PERSISTENT, int(0), ints(shape), ints(rowMajor(shape)), FALSE, noHooks];
    return text(name) + global('torch._utils', '_rebuild_tensor_v2') + tuple(...tensor) + REDUCE;
  });
  return Buffer.from(PROTO + EMPTY_DICT + MARK + items.join('') + SET_ITEMS + STOP, 'latin1');
}
