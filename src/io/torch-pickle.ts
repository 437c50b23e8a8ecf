// The allowed imports of a torch file's pickle, and their values: tensors that are views of storages, and the other types that
// torch.load(weights_only=True) allows. Elements are not read here.
import { type ArrayType, DTYPES, type DType, sizeOf, TORCH, type TypedArray } from '../base/dtype.js';
import type { FileError } from '../base/errors.js';
import { range, type Shape } from '../base/shape.js';
import { spanOf } from './array.js';
import { keyName, type PickleWorld } from './pickle.js';
import type { ComplexNumber, RawTensor } from './torch-values.js';

/** An array whose elements are not read yet. */
export interface Draft extends ArrayType {
  data: TypedArray;
}
const draft = (dtype: DType, shape: Shape): Draft => ({ dtype, shape, data: new Uint8Array(0) });

/** Which signs are to be changed when elements are read: torch negates and conjugates late. */
export type Flip = '' | 'all' | 'odd' | 'even';

export interface View {
  readonly array: Draft;
  readonly strides: Shape; // in elements
  readonly position: number; // in bytes of the storage
  readonly flip: Flip;
  /** Its representation in the pickle's value: the array, or a tensor that contains it. */
  readonly value: unknown;
}

/** The bytes under one key, and the tensors that see parts of them. */
export interface Storage {
  readonly key: string;
  readonly count: number; // of elements
  readonly bytes: number;
  readonly views: Map<string, View>;
}

/** A tensor that torch can read but tsxla cannot: an error only when it is requested. */
export class Unreadable {
  constructor(readonly reason: string) {}
}

const DEPTH = 500;
const RANK = 64;

/** How the elements of a dtype are read. */
interface Element {
  readonly name: string;
  readonly dtype: DType; // in memory; of complex numbers, each part's
  readonly form: 'plain' | 'complex' | 'quantized' | 'raw' | 'packed';
}
// biome-ignore format: a table
const OTHERS: readonly (readonly [Element['form'], DType, readonly string[]])[] = [
  ['complex', 'f16', ['complex32']], ['complex', 'f32', ['complex64']], ['complex', 'f64', ['complex128']],
  ['quantized', 'i8', ['qint8']], ['quantized', 'u8', ['quint8']], ['quantized', 'i32', ['qint32']], ['packed', 'u8', ['quint4x2', 'quint2x4']],
  ['raw', 'u8', ['bits8', 'bits1x8', 'bits2x4', 'bits4x2', 'float8_e8m0fnu', 'float8_e5m2fnuz', 'float8_e4m3fnuz', 'float4_e2m1fn_x2']],
  ['raw', 'u8', range(7).flatMap((i) => [`uint${i + 1}`, `int${i + 1}`])], ['raw', 'u16', ['bits16']],
];
/** By the names that values have: ours where the dtype is here, else torch's. */
const ELEMENTS: ReadonlyMap<unknown, Element> = new Map([
  ...(Object.keys(DTYPES) as DType[]).map((dtype) => [dtype, { name: dtype, dtype, form: 'plain' }] as const),
  ...OTHERS.flatMap(([form, dtype, names]) => names.map((name) => [name, { name, dtype, form }] as const)),
]);
const bytesOf = ({ dtype, form }: Element): number => DTYPES[dtype].bytes * (form === 'complex' ? 2 : 1);

// biome-ignore format: a table
export const STORAGES: Readonly<Record<string, DType>> = {
  FloatStorage: 'f32', DoubleStorage: 'f64', HalfStorage: 'f16', BFloat16Storage: 'bf16', LongStorage: 'i64', IntStorage: 'i32',
  ShortStorage: 'i16', CharStorage: 'i8', ByteStorage: 'u8', BoolStorage: 'bool', UntypedStorage: 'u8',
};
// biome-ignore format: a table
const OTHER_STORAGES = {
  ComplexFloatStorage: 'complex64', ComplexDoubleStorage: 'complex128', QInt8Storage: 'qint8', QUInt8Storage: 'quint8',
  QInt32Storage: 'qint32', QUInt4x2Storage: 'quint4x2', QUInt2x4Storage: 'quint2x4',
};
/** A type named by a pickle. It is neither a value nor callable. */
class TypeName {
  constructor(readonly element?: Element) {}
}
const STORAGE_TYPES = Object.fromEntries(
  Object.entries({ ...STORAGES, ...OTHER_STORAGES }).map(([name, e]) => [name, new TypeName(ELEMENTS.get(e))]),
);
const DTYPE_NAMES = Object.fromEntries(OTHERS.flatMap(([, , names]) => names.map((n) => [n, n])));
const TENSOR_TYPES = ['Float', 'Double', 'Half', 'BFloat16', 'Long', 'Int', 'Short', 'Char', 'Byte', 'Bool'];
// biome-ignore format: a table
const SCHEMES = ['per_tensor_affine', 'per_tensor_symmetric', 'per_channel_affine', 'per_channel_symmetric', 'per_channel_affine_float_qparams'];
const COMPRESSED = ['sparse_csr', 'sparse_csc', 'sparse_bsr', 'sparse_bsc'];

const isCount = (n: unknown): n is number => Number.isSafeInteger(n) && (n as number) >= 0;
const isShape = (s: unknown): s is number[] => Array.isArray(s) && s.length <= RANK && s.every(isCount);

/** A storage, or a part of one, as a pickle refers to it. */
interface Part {
  readonly storage: Storage;
  readonly element: Element;
  readonly position: number; // bytes
  readonly count: number; // elements
  /** Its handle in the pickle. As a value it is an array of one dimension. */
  readonly view: View;
}

/** What the pickle of one file may import, and the storages it names. */
export class Archive implements PickleWorld {
  readonly #byKey = new Map<string, Storage>();
  readonly #parts = new Map<string, Part>();
  readonly #handles = new Map<unknown, Part>();
  readonly #tensors = new Set<unknown>(); // whatever stands for one
  readonly #globals: ReadonlyMap<string, unknown>;
  /** Tensors that have no form here, by where they are in the value, and why. */
  readonly unreadable = new Map<string, string>();

  constructor(readonly bad: (what: string) => FileError) {
    const list = (items: unknown = []): unknown[] => {
      if (Array.isArray(items)) return items;
      throw bad('it makes a dict, set or size of what is no list');
    };
    const pair = (item: unknown): [unknown, unknown] => {
      if (Array.isArray(item) && item.length === 2) return item as [unknown, unknown];
      throw bad('it makes a dict of what are no pairs');
    };
    const bytes = (content: unknown = '', encoding: unknown = 'latin1'): Uint8Array => {
      if (content instanceof Uint8Array) return content;
      const isLatin1 = encoding === 'latin1' || encoding === 'latin-1';
      if (typeof content !== 'string' || !isLatin1 || /[^\0-\xff]/.test(content))
        throw bad('it makes bytes of what is no Latin-1 text');
      return Uint8Array.from(Buffer.from(content, 'latin1'));
    };
    const set = (items: unknown) => new Set(list(items));
    const dict = (items: unknown) => new Map(items instanceof Map ? items : list(items).map(pair));
    const under = (modules: readonly string[], names: Readonly<Record<string, unknown>>): [string, unknown][] =>
      modules.flatMap((m) => Object.entries(names).map(([name, value]): [string, unknown] => [`${m}.${name}`, value]));
    const complex = (real: unknown = 0, imag: unknown = 0): ComplexNumber => {
      if (typeof real === 'number' && typeof imag === 'number') return { real, imag };
      throw bad('it makes a complex number of what are no numbers');
    };
    const device = (type: unknown, index?: unknown): string => {
      if (typeof type === 'string' && (index === undefined || isCount(index)))
        return index === undefined ? type : `${type}:${index}`;
      throw bad('it has a device without a name');
    };
    const layout = (name: unknown): string => {
      if (typeof name === 'string' && /^torch\.\w{1,40}$/.test(name)) return name.slice('torch.'.length);
      throw bad('it has a layout without a name');
    };
    const tensor = (x: unknown): unknown => {
      if (this.#tensors.has(x)) return x;
      throw bad('it makes a parameter of what is no tensor');
    };
    // Before torch 0.2 a tensor was its type, called with a storage.
    const oldTensor = (...a: unknown[]) => this.#tensor(a[0], a[1], a[2], a[3]);
    const Tensor = (...a: unknown[]) => oldTensor(...a);
    const unreadable = (reason: string) => () => this.#made(new Unreadable(reason));
    const type = new TypeName();
    this.#globals = new Map<string, unknown>([
      ...under(['collections'], {
        OrderedDict: dict,
        Counter: dict,
        defaultdict: (_: unknown, items: unknown) => dict(items),
      }),
      ...under(['builtins', '__builtin__'], { set, frozenset: set, bytes, bytearray: bytes, complex }),
      // What a defaultdict is made with.
      ...under(['builtins', '__builtin__'], {
        list: type,
        dict: type,
        tuple: type,
        int: type,
        float: type,
        str: type,
        bool: type,
      }),
      ...under(['_codecs'], { encode: bytes }), // bytes, in pickles that Python 2 can read
      ...under(['torch', 'torch.cuda', 'torch.storage'], STORAGE_TYPES),
      ...under(['torch', 'torch.cuda'], Object.fromEntries(TENSOR_TYPES.map((name) => [`${name}Tensor`, oldTensor]))),
      ...under(
        ['torch.sparse', 'torch.cuda.sparse'],
        Object.fromEntries(
          TENSOR_TYPES.map((name) => [`${name}Tensor`, unreadable('a sparse tensor of an old torch')]),
        ),
      ),
      ...under(['torch.storage'], { TypedStorage: type }),
      ...under(['torch'], { ...TORCH, ...DTYPE_NAMES, bool: 'bool', Size: list, device, Tensor }),
      ...under(['torch'], Object.fromEntries(SCHEMES.map((name) => [name, name]))),
      ...under(['torch.serialization'], { _get_layout: layout }),
      ...under(['torch.nn.parameter'], { Parameter: tensor }),
      ...under(['torch._tensor'], {
        // (function, type, its arguments, attributes of the tensor): they are left out
        _rebuild_from_type_v2: (f: unknown, kind: unknown, args: unknown) => {
          if (typeof f !== 'function' || ![Tensor, tensor].includes(kind as () => unknown) || !Array.isArray(args))
            throw bad('it has a tensor of a type that is not known');
          return tensor(f(...args.slice(0, 16)));
        },
      }),
      ...under(['torch._utils'], {
        // (storage, offset, size, stride, requires_grad, hooks, then in v3: dtype, then: an action for the reader)
        _rebuild_tensor: (...a: unknown[]) => this.#tensor(a[0], a[1], a[2], a[3]),
        _rebuild_tensor_v2: (...a: unknown[]) => this.#tensor(a[0], a[1], a[2], a[3], undefined, a[6]),
        _rebuild_tensor_v3: (...a: unknown[]) => this.#tensor(a[0], a[1], a[2], a[3], a[6] ?? '', a[7]),
        _rebuild_parameter: tensor,
        _rebuild_parameter_with_state: tensor,
        _rebuild_device_tensor_from_cpu_tensor: (x: unknown, dtype: unknown) => this.#cast(tensor(x), dtype),
        _rebuild_sparse_tensor: (kind: unknown, data: unknown) => this.#sparse(kind, list(data)),
        _rebuild_qtensor: (...a: unknown[]) => this.#quantized(a[0], a[1], a[2], a[3], list(a[4])),
        _rebuild_nested_tensor: (...a: unknown[]) => this.#nested(a),
        _rebuild_meta_tensor_no_storage: (dtype: unknown, shape: unknown) => this.#meta(dtype, shape),
        _rebuild_device_tensor_from_numpy: unreadable('a tensor made of a numpy array'),
        _rebuild_wrapper_subclass: unreadable('a tensor of a subclass'),
      }),
    ]);
  }

  isTensor = (x: unknown): boolean => this.#tensors.has(x);
  /** A tensor that is no array, in words: "complex64[2]". */
  describe(tensor: unknown): string {
    if (tensor instanceof Unreadable) return tensor.reason;
    const { dtype, layout, device, shape } = tensor as {
      dtype?: string;
      layout?: string;
      device?: string;
      shape?: Shape;
    };
    return [device, layout, `${dtype ?? 'tensor'}${shape ? `[${shape.join(', ')}]` : ''}`].filter(Boolean).join(' ');
  }

  find = (global: string): unknown => this.#globals.get(global);
  storages = (): Iterable<Storage> => this.#byKey.values();
  storage = (key: unknown): Storage | undefined => this.#byKey.get(key as string);

  /**
   * ('storage', its type, its key, the device it was on, how many elements it has), in old files then: None, or the part of it
   * that is meant (key, offset, how many elements)
   */
  persistent(id: unknown): unknown {
    const [what, type, key, , count, part] = Array.isArray(id) ? id : [];
    const element = type instanceof TypeName ? type.element : undefined;
    if (what !== 'storage' || !element || typeof key !== 'string' || !isCount(count)) {
      throw this.bad('it refers to something outside that is no storage');
    }
    const empty = count ? '' : ` ${element.name}`; // nothing can be seen as several dtypes
    const whole = this.#part(key, element, count, `all ${key}${empty}`, 0, count);
    if (part === null || part === undefined) return whole.view.value;
    const [name, offset, length] = Array.isArray(part) ? part : [];
    if (typeof name !== 'string' || !isCount(offset) || !isCount(length) || offset + length > count)
      throw this.bad(`it has a part of storage ${key} that is not inside of it`);
    return this.#part(key, element, count, `part ${name}`, offset, length).view.value;
  }

  #part(key: string, element: Element, total: number, name: string, offset: number, count: number): Part {
    const bytes = bytesOf(element);
    const storage = this.#byKey.get(key) ?? { key, count: total, bytes: total * bytes, views: new Map<string, View>() };
    this.#byKey.set(key, storage);
    const known = this.#parts.get(name);
    const position = offset * bytes;
    const same =
      !known ||
      (known.storage === storage && known.element === element && known.position === position && known.count === count);
    if (storage.bytes !== total * bytes || !same)
      throw this.bad(`storage ${key} is ${element.name}[${total}] and something else too`);
    const view = known?.view ?? viewOf(element, [count], [1], position, '');
    const part = known ?? { storage, element, position, count, view };
    this.#parts.set(name, part);
    this.#handles.set(view.value, part);
    return part;
  }

  #made<T>(tensor: T): T {
    this.#tensors.add(tensor);
    return tensor;
  }

  #tensor(
    stored: unknown,
    offset: unknown,
    shape: unknown,
    strides: unknown,
    dtype?: unknown,
    tasks?: unknown,
  ): unknown {
    const part = this.#handles.get(stored);
    if (!part || !isCount(offset) || !isShape(shape) || !isShape(strides) || shape.length !== strides.length) {
      throw this.bad('it has a tensor without storage, offset, shape or strides');
    }
    const { storage, position } = part;
    const element = dtype === undefined ? part.element : ELEMENTS.get(dtype);
    if (!element) throw this.bad('it has a tensor without dtype');
    const bytes = bytesOf(element);
    if (element.form === 'packed')
      return this.#made(new Unreadable(`${element.name}[${shape}], several elements a byte`));
    const inside = (offset + spanOf(shape, strides)) * bytes <= part.count * bytesOf(part.element);
    if (!(sizeOf(shape) <= Number.MAX_SAFE_INTEGER) || !inside) {
      const told = `${element.name}[${shape.join(', ')}]`;
      throw this.bad(`it has ${told} in storage ${storage.key}, which has ${storage.bytes} bytes`);
    }
    const flip = this.#flip(element, tasks);
    const at = position + offset * bytes;
    const key = `${element.name} ${at} ${shape} ${strides} ${flip}`; // equal views, as of tied weights, are one array
    const view = storage.views.get(key) ?? viewOf(element, shape, strides, at, flip);
    storage.views.set(key, view);
    return this.#made(view.value);
  }

  #flip({ dtype, form }: Element, tasks: unknown): Flip {
    const [negative, conjugate] = ['neg', 'conj'].map((task) => tasks instanceof Map && tasks.get(task) === true);
    if ((negative && !/^b?f/.test(dtype)) || (conjugate && form !== 'complex'))
      throw this.bad(`it has a tensor of ${dtype} that is to be ${negative ? 'negated' : 'conjugated'}`);
    return negative ? (conjugate ? 'even' : 'all') : conjugate ? 'odd' : '';
  }

  /** Made on another device, of a tensor that has its dtype already. */
  #cast(x: unknown, dtype: unknown): unknown {
    const same = (x as { dtype?: unknown }).dtype === dtype;
    return same ? x : this.#made(new Unreadable(`a tensor that is to become ${keyName(dtype)}`));
  }

  /** A tensor made of several; unreadable if one of them is. */
  #composed(what: string, parts: readonly unknown[], made: object): unknown {
    if (!parts.every((x) => this.#tensors.has(x))) throw this.bad(`it has a ${what} tensor whose parts are no tensors`);
    return parts.find((x) => x instanceof Unreadable) ?? this.#made(made);
  }

  #sparse(layout: unknown, data: readonly unknown[]): unknown {
    const coo = layout === 'sparse_coo';
    if (!coo && !COMPRESSED.includes(layout as string))
      throw this.bad(`it has a sparse tensor of layout ${keyName(layout)}`);
    const tensors = data.slice(0, coo ? 2 : 3);
    const [shape, coalesced = null] = data.slice(tensors.length);
    if (!isShape(shape) || !(coalesced === null || typeof coalesced === 'boolean'))
      throw this.bad('it has a sparse tensor without shape');
    const [a, b] = tensors;
    const values = tensors.at(-1);
    const made = coo
      ? { layout, indices: a, values, shape, coalesced: coalesced === true }
      : { layout, compressedIndices: a, plainIndices: b, values, shape };
    return this.#composed('sparse', tensors, made);
  }

  #quantized(stored: unknown, offset: unknown, shape: unknown, strides: unknown, how: readonly unknown[]): unknown {
    const made = this.#tensor(stored, offset, shape, strides);
    if (made instanceof Unreadable) return made;
    const [qscheme, scale, zeroPoint, axis] = how;
    const { dtype, bits: values } = made as RawTensor;
    const channels = axis !== undefined;
    const array = (x: unknown) => this.#tensors.has(x) && 'data' in (x as object);
    const fits = channels
      ? isCount(axis) && axis < (shape as number[]).length && array(scale) && array(zeroPoint)
      : typeof scale === 'number' && isCount(Math.abs(zeroPoint as number));
    if (!/^qu?int|^quint/.test(dtype) || !values || !SCHEMES.includes(qscheme as string) || !fits)
      throw this.bad('it has a quantized tensor without scale, zero point or axis');
    return this.#made({ dtype, shape, values, qscheme, scale, zeroPoint, ...(channels && { axis }) });
  }

  #nested(args: readonly unknown[]): unknown {
    const [buffer, sizes, strides, storageOffsets] = args;
    const made = { layout: 'nested', buffer, sizes, strides, storageOffsets };
    return this.#composed('nested', [buffer, sizes, strides, storageOffsets], made);
  }

  #meta(dtype: unknown, shape: unknown): unknown {
    if (!ELEMENTS.has(dtype) || !isShape(shape)) throw this.bad('it has a tensor without dtype or shape');
    return this.#made({ device: 'meta', dtype, shape });
  }

  /**
   * A value contains only values, of limited depth and without cycles, so it can be traversed. Storages that it holds
   * as they are become arrays of one dimension.
   */
  check(value: unknown): void {
    const { bad } = this;
    const tooDeep = () => bad(`it is nested more than ${DEPTH} deep`);
    const depths = new Map<object, number>(); // of what is done; 0 while it is open
    const open: {
      readonly object: object;
      readonly parts: Iterator<readonly [unknown, unknown]>;
      depth: number;
      name: unknown;
    }[] = [];
    const visit = (v: unknown, name: unknown): number => {
      if (typeof v === 'function' || v instanceof TypeName) throw bad('it holds a function or a type');
      if (v instanceof Unreadable)
        this.unreadable.set([...open.slice(1).map((o) => keyName(o.name)), keyName(name)].join('.'), v.reason);
      const part = this.#handles.get(v);
      part?.storage.views.set(`whole ${part.position} ${part.count}`, part.view);
      if (!(v instanceof Map || v instanceof Set || Array.isArray(v))) return 0;
      const known = depths.get(v);
      if (known === 0) throw bad('it holds something that holds itself');
      if (known !== undefined) return known;
      depths.set(v, 0);
      open.push({ object: v, parts: partsOf(v), depth: 1, name });
      if (open.length > DEPTH) throw tooDeep();
      return 0;
    };
    visit(value, '(all)');
    for (let here = open.at(-1); here; here = open.at(-1)) {
      const { value: next, done } = here.parts.next();
      if (!done) {
        here.depth = Math.max(here.depth, 1 + visit(next[1], next[0]));
        continue;
      }
      if (here.depth > DEPTH) throw tooDeep();
      depths.set(here.object, here.depth);
      open.pop();
      const above = open.at(-1);
      if (above) above.depth = Math.max(above.depth, 1 + here.depth);
    }
  }
}

/** The parts of a value, keys of dicts too, each with its name. */
function* partsOf(v: Map<unknown, unknown> | Set<unknown> | unknown[]): Generator<readonly [unknown, unknown]> {
  let i = 0;
  if (v instanceof Map)
    for (const [key, value] of v) {
      yield [undefined, key];
      yield [key, value];
    }
  else for (const value of v) yield [i++, value];
}

function viewOf(element: Element, shape: Shape, strides: Shape, position: number, flip: Flip): View {
  const { name, dtype, form } = element;
  if (form === 'complex') {
    const array = draft(dtype, [...shape, 2]);
    const value = { dtype: name, shape, viewAsReal: array };
    return { array, strides: [...strides.map((s) => 2 * s), 1], position, flip, value };
  }
  const array = draft(dtype, shape);
  return { array, strides, position, flip, value: form === 'plain' ? array : { dtype: name, shape, bits: array } };
}
