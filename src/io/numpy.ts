// numpy files: .npy has one array after a header that is a Python dict literal, .npz is a zip of them.
import { type ArrayType, byteLength, DTYPES, type DType, show } from '../base/dtype.js';
import { DTypeError, FileError } from '../base/errors.js';
import type { Tensor } from '../tensor/index.js';
import {
  checkArray,
  columnMajor,
  compute,
  dataOf,
  type HostArray,
  type NamedArrays,
  type ReadLater,
  readArray,
} from './array.js';
import { type ReadAt, replaceFiles, type Write, withFile } from './file.js';
import { withZip, writeZip } from './zip.js';

// biome-ignore format: a table
const NUMPY: Readonly<Partial<Record<DType, string>>> = {
  bool: '|b1', i8: '|i1', i16: '<i2', i32: '<i4', i64: '<i8', u8: '|u1', u16: '<u2', u32: '<u4', u64: '<u8', f16: '<f2', f32: '<f4', f64: '<f8',
  c64: '<c8', c128: '<c16',
};
const DTYPE_OF = new Map(Object.entries(NUMPY).map(([dtype, descr]) => [descr.slice(1), dtype as DType]));

const MAGIC = Buffer.from('\x93NUMPY', 'latin1');
const HEADER_LIMIT = 2 ** 20;

/** Reads a .npy file; the result is row-major for any order in the file. */
export const readNpy = (path: string): Promise<HostArray> =>
  withFile(path, ({ read, size }) => readFrom(read, size, path));

/** Reads all arrays of a .npz file by name, compressed or not. */
export const readNpz = (path: string): Promise<Map<string, HostArray>> =>
  withZip(path, { name: 'a npz file' }, async (members) => {
    const arrays = new Map<string, HostArray>();
    for (const { name, size, unpack } of members.values()) {
      if (!name.endsWith('.npy')) throw new FileError(`${path} contains ${name}, which is not an array`);
      arrays.set(name.slice(0, -4), await unpack((read) => readFrom(read, size, `${path}: ${name}`)));
    }
    return arrays;
  });

/** Positions are read in ascending order: the bytes may come out of an archive. */
async function readFrom(read: ReadAt, size: number, path: string): Promise<HostArray> {
  const bad = (what: string) => new FileError(`${path} is not a whole npy file: ${what}`);
  const take = async (length: number, position: number) => {
    if (position + length > size) throw bad(`it has ${size} bytes`);
    const bytes = Buffer.alloc(length);
    await read(bytes, position);
    return bytes;
  };
  const start = await take(8, 0);
  const version = start[6]!;
  if (!start.subarray(0, 6).equals(MAGIC)) throw bad("it does not begin with '\\x93NUMPY'");
  if (version < 1 || version > 3) throw bad(`its version is ${version}: supported are 1 to 3`);
  const wide = version > 1 ? 4 : 2; // bytes of the header's length
  const length = (await take(wide, 8)).readUIntLE(0, wide);
  if (length > HEADER_LIMIT) throw bad(`its header would be ${length} bytes long`);
  const header = (await take(length, 8 + wide)).toString(version > 2 ? 'utf8' : 'latin1');
  const { dtype, shape, fortran, bigEndian } = parseHeader(header, bad);
  const data = 8 + wide + length;
  const type = { dtype, shape };
  if (byteLength(type) !== size - data) throw bad(`it is ${show(type)} but has ${size - data} bytes of elements`);
  return readArray(read, type, data, { bigEndian, ...(fortran && { strides: columnMajor(shape) }) });
}

/** One pair of a Python dict: 'key': 'text' | True | False | (2, 3) | [...] */
const PAIR = /\s*(['"])(\w+)\1\s*:\s*(?:(['"])([^'"]*)\3|(True|False)|\(([\dL\s,]*)\)|(\[.*\]))\s*(?:,|(?=\}))/sy;

/** Matches the text, and evaluates none of it. */
function parseHeader(text: string, bad: (what: string) => Error): ArrayType & { fortran: boolean; bigEndian: boolean } {
  const said = new Map<string, string>();
  const dict = text.trim();
  let closed = false;
  PAIR.lastIndex = 1;
  for (let m = PAIR.exec(dict); m; m = PAIR.exec(dict)) {
    if (said.has(m[2]!)) throw bad(`its header says ${m[2]} twice`);
    said.set(m[2]!, (m[4] ?? m[5] ?? m[6] ?? m[7])!);
    closed = /^\s*\}$/.test(dict.slice(PAIR.lastIndex));
    if (closed || said.size > 3) break;
  }
  const [descr, order, sizes] = ['descr', 'fortran_order', 'shape'].map((key) => said.get(key));
  const whole = dict[0] === '{' && closed && said.size === 3 && /^(True|False)$/.test(order!);
  if (!whole || descr === undefined || sizes === undefined) throw bad(`its header is ${dict.slice(0, 200)}`);
  const dtype = DTYPE_OF.get(descr.slice(1));
  if (!dtype || !/^[<>|=]/.test(descr)) {
    throw bad(`its elements are ${descr.slice(0, 80)}, which is none of ${Object.values(NUMPY).join(', ')}`);
  }
  const shape = sizes.split(',').map((n) => n.trim().replace(/L$/, '')); // Python 2 wrote (3L, 4L)
  if (shape.at(-1) === '') shape.pop();
  if (!shape.every((n) => /^\d{1,15}$/.test(n)) || (shape.length === 1 && !sizes.includes(','))) {
    throw bad(`its shape is (${sizes.slice(0, 80)})`);
  }
  return { dtype, shape: shape.map(Number), fortran: order === 'True', bigEndian: descr[0] === '>' };
}

/** Writes an array or a tensor, row-major, under a temporary name that is then renamed. */
export const writeNpy = async (path: string, array: HostArray | Tensor): Promise<void> => {
  const header = headerOf(path, array);
  const file = async (write: Write) => {
    for (const piece of [header, ...(await dataOf(array))]) await write(piece);
  };
  await replaceFiles(new Map([[path, file]]));
};

/** Writes arrays and tensors as numpy's `savez` does, uncompressed, under a temporary name that is then renamed. */
export const writeNpz = async (path: string, arrays: NamedArrays): Promise<void> => {
  const members = [...arrays].map(([name, array]) => {
    const header = headerOf(name, array);
    return [`${name}.npy`, async () => [header, ...(await dataOf(array))]] as const;
  });
  await compute(arrays);
  await replaceFiles(new Map([[path, (write) => writeZip(write, members)]]));
};

function headerOf(name: string, array: HostArray | ReadLater): Buffer {
  const { dtype, shape } = checkArray(name, array);
  const descr = NUMPY[dtype];
  if (!descr) {
    throw new DTypeError(
      `${name}: numpy has no ${dtype} (${DTYPES[dtype].mlir}): convert it to f32, or write safetensors`,
    );
  }
  const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(', ');
  const dict = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${sizes}), }`;
  const wide = dict.length > 60_000 ? 4 : 2;
  const length = Math.ceil((8 + wide + dict.length + 1) / 64) * 64 - 8 - wide; // elements begin at a multiple of 64 bytes
  const start = Buffer.alloc(8 + wide);
  MAGIC.copy(start);
  start[6] = wide / 2;
  start.writeUIntLE(length, 8, wide);
  return Buffer.concat([start, Buffer.from(`${dict.padEnd(length - 1)}\n`)]);
}
