// Reads Python pickles without running code: a stack machine that makes lists, tuples, dicts, sets, strings and numbers.
// Imports are looked up in the caller's table; any other import is an error that names it.
import { UnsafePickleError } from '../base/errors.js';

/** What a pickle may access outside itself. */
export interface PickleWorld {
  /** The function or value of an import. Undefined if it is not allowed. */
  find(global: string): unknown;
  /** A value stored outside the pickle (a persistent id). */
  persistent(id: unknown): unknown;
  bad(what: string): Error;
}

const OBJECTS = 2 ** 21; // lists, tuples, dicts and sets in one pickle: enough for 200,000 tensors
const VALUES = 2 ** 24; // values of any kind
const MEMO = 2 ** 22; // values kept to be recalled
const INTEGER_BYTES = 1024;
const LINE = 4096;

/** A pickle's value, and where it ends. */
export interface Pickled {
  readonly value: unknown;
  readonly end: number;
}

/**
 * The value of the pickle that begins at a byte: tuples are arrays, dicts are Maps, integers too large for a number are
 * bigints. Undefined if the bytes end before the pickle does.
 */
export function unpickle(bytes: Uint8Array, world: PickleWorld, start = 0): Pickled | undefined {
  const machine = new Machine(bytes, world, start);
  try {
    return { value: machine.run(), end: machine.at };
  } catch (e) {
    if (e === CUT_SHORT) return undefined;
    if (e instanceof RangeError) throw world.bad(`its pickle is too large for JavaScript (${e.message})`);
    throw e;
  }
}
const CUT_SHORT = Symbol('the bytes end before the pickle does');

class Machine {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  at: number;
  #objects = 0;
  #values = 0;
  #copied = 0;
  stack: unknown[] = [];
  readonly marked: unknown[][] = []; // the stacks below each mark
  readonly #kept: unknown[] = []; // by number, as Python counts them
  readonly #keptElsewhere = new Map<number, unknown>(); // of numbers that it would not give

  constructor(
    bytes: Uint8Array,
    readonly world: PickleWorld,
    start: number,
  ) {
    this.at = start;
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  run(): unknown {
    for (;;) {
      const code = this.u8();
      if (code === STOP) return this.pop();
      const op = OPCODES.get(code);
      if (!op) throw this.bad(`its pickle has opcode 0x${code.toString(16)} at byte ${this.at - 1}, which is not read`);
      op(this);
    }
  }

  bad(what: string): Error {
    return this.world.bad(what);
  }
  #take(n: number): number {
    const at = this.at;
    if (n > this.#bytes.length - at) throw CUT_SHORT;
    this.at += n;
    return at;
  }
  u8 = () => this.#view.getUint8(this.#take(1));
  u16 = () => this.#view.getUint16(this.#take(2), true);
  u32 = () => this.#view.getUint32(this.#take(4), true);
  i32 = () => this.#view.getInt32(this.#take(4), true);
  f64 = () => this.#view.getFloat64(this.#take(8)); // big endian
  u64 = () => Number(this.#view.getBigUint64(this.#take(8), true));
  skip = (n: number) => void this.#take(n);
  slice(n: number): Uint8Array {
    const at = this.#take(n);
    return this.#bytes.subarray(at, at + n);
  }
  text(n: number): string {
    const bytes = this.slice(n);
    const text = utf8(bytes);
    if (text === undefined) throw this.bad(`its pickle has a text at byte ${this.at - n} that is not UTF-8`);
    return text;
  }
  /** A text of Python 2, whose encoding is unknown. */
  oldText(n: number): string {
    const bytes = this.slice(n);
    return utf8(bytes) ?? Buffer.from(bytes).toString('latin1');
  }
  line(): string {
    const length = this.#bytes.subarray(this.at, this.at + LINE).indexOf(10);
    if (length < 0 && this.at + LINE > this.#bytes.length) throw CUT_SHORT;
    if (length < 0) throw this.bad(`its pickle has no end of line after byte ${this.at}`);
    const text = this.text(length);
    this.at++;
    return text;
  }
  /** Two's complement, little endian. */
  long(n: number): number | bigint {
    if (n > INTEGER_BYTES) throw this.bad(`its pickle has an integer of ${n} bytes`);
    const hex = Buffer.from(this.slice(n)).reverse().toString('hex');
    return whole(BigInt.asIntN(8 * n, BigInt(`0x${hex || 0}`)));
  }

  push(value: unknown): void {
    if (++this.#values > VALUES) throw this.bad(`its pickle makes more than ${VALUES} values`);
    this.stack.push(value);
  }
  pop(): unknown {
    if (!this.stack.length) throw this.bad('its pickle takes from an empty stack');
    return this.stack.pop();
  }
  top(): unknown {
    if (!this.stack.length) throw this.bad('its pickle takes from an empty stack');
    return this.stack.at(-1);
  }
  mark(): void {
    this.count();
    this.marked.push(this.stack);
    this.stack = [];
  }
  /** The items pushed since the last mark. */
  items(): unknown[] {
    const below = this.marked.pop();
    if (!below) throw this.bad('its pickle has no mark where it needs one');
    const items = this.stack;
    this.stack = below;
    return items;
  }
  /** A new list, dict or the like: small pickles must not become large things. */
  make<T>(object: T): T {
    this.count();
    this.push(object);
    return object;
  }
  count(): void {
    if (++this.#objects > OBJECTS) throw this.bad(`its pickle makes more than ${OBJECTS} objects`);
  }
  tuple(n: number): void {
    const items = Array.from({ length: n }, () => this.pop());
    this.make(items.reverse());
  }
  append(items: readonly unknown[]): void {
    const list = this.top();
    if (list instanceof Set) for (const item of items) list.add(item);
    else if (Array.isArray(list)) for (const item of items) list.push(item);
    else throw this.bad('its pickle appends to what is no list');
  }
  setItems(items: readonly unknown[], dict = this.top()): void {
    if (!(dict instanceof Map) || items.length % 2) throw this.bad('its pickle sets items of what is no dict');
    for (let i = 0; i < items.length; i += 2) {
      if (dict.has(items[i])) throw this.bad(`its pickle has a dict with ${keyName(items[i])} twice`);
      dict.set(items[i], items[i + 1]);
    }
  }
  keep(index = this.#kept.length + this.#keptElsewhere.size): void {
    if (index < this.#kept.length) this.#kept[index] = this.top();
    else if (index === this.#kept.length) this.#kept.push(this.top());
    else this.#keptElsewhere.set(index, this.top());
    if (this.#kept.length + this.#keptElsewhere.size > MEMO)
      throw this.bad(`its pickle keeps more than ${MEMO} values`);
  }
  recall(index: number): void {
    const elsewhere = this.#keptElsewhere.has(index);
    if (!elsewhere && !(index < this.#kept.length))
      throw this.bad(`its pickle recalls ${index}, which it has not kept`);
    this.push(elsewhere ? this.#keptElsewhere.get(index) : this.#kept[index]);
  }

  global(module: unknown, name: unknown): void {
    if (typeof module !== 'string' || typeof name !== 'string') throw this.bad('its pickle imports what is no name');
    const global = `${module}.${name}`;
    const found = this.world.find(global);
    if (found === undefined) throw unsafe(this.bad(`it wants to import ${global}`), global);
    this.push(found);
  }
  call(): void {
    const args = this.pop();
    const f = this.pop();
    if (typeof f !== 'function' || !Array.isArray(args)) throw this.bad('its pickle calls what is no function');
    // A list may be recalled and copied repeatedly: the copied amount is bounded by the pickle's size.
    for (const a of args) {
      if (Array.isArray(a) || typeof a === 'string') this.#copied += a.length;
      else if (a instanceof Map) this.#copied += a.size;
    }
    if (this.#copied > this.#bytes.length) throw this.bad('its pickle copies more than it holds');
    this.make(f(...args.slice(0, 16)));
  }
  /** Attributes of objects are left out: torch keeps version numbers of modules there. */
  build(): void {
    const state = this.pop();
    if (!(this.top() instanceof Map) || !(state instanceof Map))
      throw this.bad('its pickle sets attributes of what is no OrderedDict');
  }
}

const unsafe = ({ message }: Error, global: string): UnsafePickleError => {
  const wants = message.replace('is not a whole torch file: it wants', 'wants');
  const way = global.startsWith('torch.nn.')
    ? "It was made by torch.save(model): save the weights alone, torch.save(model.state_dict(), 'model.pt')"
    : "If you trust the file, load it in Python and save its tensors alone: safetensors.torch.save_file(state_dict, 'model.safetensors')";
  return new UnsafePickleError(
    `${wants}, and a pickle that imports can run anything: nothing of it was run. ${way}`,
    global,
  );
};

/** A key of a dict, as errors name it. */
export const keyName = (key: unknown): string =>
  typeof key === 'string' || typeof key === 'number' || typeof key === 'bigint' ? String(key).slice(0, 200) : '(a key)';

/** A number if it can be one. */
const whole = (n: bigint): number | bigint => (BigInt.asIntN(53, n) === n ? Number(n) : n);

function decimal(m: Machine, text: string): number | bigint | boolean {
  if (text === '00' || text === '01') return text === '01';
  if (!/^-?\d{1,400}L?$/.test(text)) throw m.bad(`its pickle has '${text.slice(0, 40)}' for an integer`);
  return whole(BigInt(text.replace('L', '')));
}

/** As float() of Python takes it, without its underscores. */
function float(m: Machine, text: string): number {
  const [, sign, name] = /^([+-]?)(inf|infinity|nan)$/i.exec(text) ?? [];
  if (name) return /nan/i.test(name) ? Number.NaN : sign === '-' ? -Infinity : Infinity;
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text))
    throw m.bad(`its pickle has '${text.slice(0, 40)}' for a float`);
  return Number(text);
}

const UTF8 = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true });
/** Python also writes halves of surrogate pairs, which are no UTF-8; JavaScript's texts hold them too. */
function utf8(bytes: Uint8Array): string | undefined {
  try {
    return UTF8.decode(bytes);
  } catch {
    const latin1 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
    const parts = latin1.split(/(\xed[\xa0-\xbf][\x80-\xbf])/); // every second one is such a half
    if (parts.length === 1) return undefined;
    const half = (p: string) =>
      String.fromCharCode(0xd000 | ((p.charCodeAt(1) & 0x3f) << 6) | (p.charCodeAt(2) & 0x3f));
    const texts = parts.map((p, i) => (i % 2 ? half(p) : utf8(Buffer.from(p, 'latin1'))));
    return texts.includes(undefined) ? undefined : texts.join('');
  }
}
const STOP = 0x2e;
type Op = (m: Machine) => void;
const char = (c: string): number => c.charCodeAt(0);
/** By their names in Python's pickletools. Those that import by number, or make instances, are not there. */
const OPCODES: ReadonlyMap<number, Op> = new Map<number, Op>([
  [0x80, (m) => m.skip(1)], // PROTO
  [0x95, (m) => m.skip(8)], // FRAME
  [char('N'), (m) => m.push(null)], // NONE
  [0x88, (m) => m.push(true)], // NEWTRUE
  [0x89, (m) => m.push(false)], // NEWFALSE
  [char('J'), (m) => m.push(m.i32())], // BININT
  [char('K'), (m) => m.push(m.u8())], // BININT1
  [char('M'), (m) => m.push(m.u16())], // BININT2
  [char('I'), (m) => m.push(decimal(m, m.line()))], // INT
  [char('L'), (m) => m.push(decimal(m, m.line()))], // LONG
  [0x8a, (m) => m.push(m.long(m.u8()))], // LONG1
  [0x8b, (m) => m.push(m.long(m.u32()))], // LONG4
  [char('F'), (m) => m.push(float(m, m.line()))], // FLOAT
  [char('G'), (m) => m.push(m.f64())], // BINFLOAT
  [char('U'), (m) => m.push(m.oldText(m.u8()))], // SHORT_BINSTRING
  [char('T'), (m) => m.push(m.oldText(m.u32()))], // BINSTRING
  [char('V'), (m) => m.push(m.line())], // UNICODE
  [char('X'), (m) => m.push(m.text(m.u32()))], // BINUNICODE
  [0x8c, (m) => m.push(m.text(m.u8()))], // SHORT_BINUNICODE
  [0x8d, (m) => m.push(m.text(m.u64()))], // BINUNICODE8
  [char('C'), (m) => m.make(Uint8Array.from(m.slice(m.u8())))], // SHORT_BINBYTES
  [char('B'), (m) => m.make(Uint8Array.from(m.slice(m.u32())))], // BINBYTES
  [0x8e, (m) => m.make(Uint8Array.from(m.slice(m.u64())))], // BINBYTES8
  [0x96, (m) => m.make(Uint8Array.from(m.slice(m.u64())))], // BYTEARRAY8
  [char('('), (m) => m.mark()], // MARK
  [char('0'), (m) => void (m.stack.length ? m.pop() : m.items())], // POP
  [char('1'), (m) => void m.items()], // POP_MARK
  [char('2'), (m) => m.push(m.top())], // DUP
  [char(')'), (m) => m.tuple(0)], // EMPTY_TUPLE
  [0x85, (m) => m.tuple(1)], // TUPLE1
  [0x86, (m) => m.tuple(2)], // TUPLE2
  [0x87, (m) => m.tuple(3)], // TUPLE3
  [char('t'), (m) => m.make(m.items())], // TUPLE
  [char(']'), (m) => m.make([])], // EMPTY_LIST
  [char('l'), (m) => m.make(m.items())], // LIST
  [char('a'), (m) => m.append([m.pop()])], // APPEND
  [char('e'), (m) => m.append(m.items())], // APPENDS
  [char('}'), (m) => m.make(new Map())], // EMPTY_DICT
  [char('d'), (m) => m.setItems(m.items(), m.make(new Map()))], // DICT
  [char('s'), (m) => m.setItems([m.pop(), m.pop()].reverse())], // SETITEM
  [char('u'), (m) => m.setItems(m.items())], // SETITEMS
  [0x8f, (m) => m.make(new Set())], // EMPTY_SET
  [0x90, (m) => m.append(m.items())], // ADDITEMS
  [0x91, (m) => m.make(new Set(m.items()))], // FROZENSET
  [char('p'), (m) => m.keep(Number(decimal(m, m.line())))], // PUT
  [char('q'), (m) => m.keep(m.u8())], // BINPUT
  [char('r'), (m) => m.keep(m.u32())], // LONG_BINPUT
  [0x94, (m) => m.keep()], // MEMOIZE
  [char('g'), (m) => m.recall(Number(decimal(m, m.line())))], // GET
  [char('h'), (m) => m.recall(m.u8())], // BINGET
  [char('j'), (m) => m.recall(m.u32())], // LONG_BINGET
  [char('c'), (m) => m.global(m.line(), m.line())], // GLOBAL
  [char('i'), (m) => m.global(m.line(), m.line())], // INST
  [0x93, (m) => m.global(...([m.pop(), m.pop()].reverse() as [unknown, unknown]))], // STACK_GLOBAL
  [char('R'), (m) => m.call()], // REDUCE
  [0x81, (m) => m.call()], // NEWOBJ
  [char('b'), (m) => m.build()], // BUILD
  [char('Q'), (m) => m.push(m.world.persistent(m.pop()))], // BINPERSID
]);
