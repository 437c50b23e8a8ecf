// An interpreter of Triton IR for tests: it runs the programs of a module one after the other, on arrays of numbers. It reads
// the generic form that src/kernels/mlir.ts writes, and the operations that src/kernels/triton.ts uses. It is strict: a place
// outside of an array, an operation it does not know and operands whose types do not fit are errors.
import { decodeFloats, encodeNumbers } from '../../dist/base/float.js';

// ---- reading

interface Op {
  readonly name: string;
  readonly results: readonly string[];
  readonly operands: readonly string[];
  readonly attributes: ReadonlyMap<string, string>;
  readonly regions: readonly Block[];
  readonly inputTypes: readonly Type[];
  readonly outputTypes: readonly Type[];
}
interface Block {
  readonly params: readonly string[];
  readonly ops: readonly Op[];
}
interface Type {
  readonly shape: readonly number[];
  /** f32, i1, or !tt.ptr<f32>. */
  readonly element: string;
  readonly text: string;
}

/** Parts between commas that are in no bracket. */
function split(text: string): string[] {
  const parts: string[] = [];
  let [depth, from] = [0, 0];
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (c === '"') while (text[++i] !== '"') if (text[i] === '\\') i++;
    if ('<([{'.includes(c)) depth++;
    if (')]}'.includes(c) || (c === '>' && text[i - 1] !== '-')) depth--;
    if (c === ',' && depth === 0) {
      parts.push(text.slice(from, i).trim());
      from = i + 1;
    }
  }
  const last = text.slice(from).trim();
  return last ? [...parts, last] : parts;
}
function typeOf(text: string): Type {
  const m = /^tensor<((?:\d+x)*)(.+)>$/.exec(text);
  if (!m) return { shape: [], element: text, text };
  return { shape: m[1]!.split('x').filter(Boolean).map(Number), element: m[2]!, text };
}
const unwrapped = (text: string): string => (text.startsWith('(') ? text.slice(1, -1) : text);

class Reader {
  #at = 0;
  constructor(readonly text: string) {}
  #take(pattern: RegExp): RegExpExecArray | null {
    const sticky = new RegExp(pattern.source, 'y');
    sticky.lastIndex = this.#at;
    const m = sticky.exec(this.text);
    if (m) this.#at = sticky.lastIndex;
    return m;
  }
  #need(pattern: RegExp): RegExpExecArray {
    const m = this.#take(pattern);
    if (m) return m;
    throw new Error(`Triton IR: expected ${pattern} at: ${this.text.slice(this.#at, this.#at + 80)}`);
  }
  op(): Op {
    const left = this.#take(/(%\d+)(?::(\d+))? = /);
    const many = left?.[2] ? Number(left[2]) : 0;
    const results = !left ? [] : many ? Array.from({ length: many }, (_, i) => `${left[1]}#${i}`) : [left[1]!];
    const name = this.#need(/"([\w.]+)"/)[1]!;
    const operands = split(this.#need(/\(([^()]*)\)/)[1]!);
    const properties = this.#take(/ <\{(.*?)\}>(?= \(\{\n| \{| :)/)?.[1] ?? '';
    const regions: Block[] = [];
    if (this.#take(/ \((?=\{\n)/)) {
      do regions.push(this.#region());
      while (this.#take(/, /));
      this.#need(/\)/);
    }
    const others = this.#take(/ \{(.*?)\}(?= :)/)?.[1] ?? '';
    const [, from, to] = this.#need(/ : \((.*)\) -> (.*)\n?/);
    const attributes = new Map(
      [...split(properties), ...split(others)].map((a) => {
        const i = a.indexOf(' = ');
        return [a.slice(0, i), a.slice(i + 3)];
      }),
    );
    const outputTypes = split(unwrapped(to!)).map(typeOf);
    return { name, results, operands, attributes, regions, inputTypes: split(from!).map(typeOf), outputTypes };
  }
  #region(): Block {
    this.#need(/\{\n/);
    const head = this.#take(/\^bb0\((.*)\):\n/);
    const params = head ? split(head[1]!).map((p) => p.slice(0, p.indexOf(':'))) : [];
    const ops: Op[] = [];
    while (!this.#take(/\n?\}/)) ops.push(this.op());
    return { params, ops };
  }
}

// ---- values

type N = number | bigint;
/** An array of the device. */
export interface Memory {
  readonly element: string;
  readonly data: N[];
}
interface Value extends Type {
  readonly data: readonly N[];
  /** Of pointers: what they point into; `data` are places there. */
  readonly memory?: Memory;
}

const count = (shape: readonly number[]): number => shape.reduce((n, d) => n * d, 1);
const isFloat = (element: string): boolean => /^b?f\d/.test(element);
const bitsOf = (element: string): number => Number(/\d+/.exec(element)![0]);
/** A number as its type holds it. Integers have a sign; i1 is 0 or 1. */
export function held(element: string, x: N): N {
  if (element === 'i64') return BigInt.asIntN(64, BigInt(x));
  const n = Number(x);
  if (element === 'i1') return n & 1;
  if (element === 'i32') return n | 0;
  if (element === 'f64') return n;
  if (element === 'f32') return Math.fround(n);
  if (isFloat(element)) {
    const dtype = element as 'bf16' | 'f16';
    return Number(decodeFloats(dtype, encodeNumbers(dtype, [n]))[0]);
  }
  const unused = 32 - bitsOf(element);
  return (n << unused) >> unused;
}
const natural = (element: string, x: N): N =>
  element === 'i64'
    ? BigInt.asUintN(64, x as bigint)
    : element === 'i32'
      ? Number(x) >>> 0
      : Number(x) & (2 ** bitsOf(element) - 1);

function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x);
  let [sum, term] = [x, x];
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
    term *= (-x * x) / n;
    sum += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}
const FUNCTIONS: Readonly<Record<string, (x: number) => number>> = {
  exp: Math.exp,
  log: Math.log,
  sqrt: Math.sqrt,
  rsqrt: (x) => 1 / Math.sqrt(x),
  sin: Math.sin,
  cos: Math.cos,
  tanh: Math.tanh,
  erf,
};
/** CUDA's names, of f32 and of f64. */
const LIBDEVICE = new Map(
  Object.entries(FUNCTIONS).flatMap(([n, f]) => [`__nv_${n}f`, `__nv_${n}`].map((s) => [s, f])),
);

type Fold = (a: never, b: never) => N;
const either = (f: (a: bigint, b: bigint) => bigint, g: (a: number, b: number) => number) =>
  ((a: N, b: N) => (typeof a === 'bigint' ? f(a, b as bigint) : g(a, b as number))) as Fold;
/** Integer division by 0 gives any number on a GPU: masked lanes do it, and their results are not used. */
const safe = (b: bigint): bigint => b || 1n;
const BINARY: Readonly<Record<string, Fold>> = {
  'arith.addf': (a: number, b: number) => a + b,
  'arith.subf': (a: number, b: number) => a - b,
  'arith.mulf': (a: number, b: number) => a * b,
  'arith.divf': (a: number, b: number) => a / b,
  'arith.remf': (a: number, b: number) => a % b,
  'arith.maximumf': (a: number, b: number) => Math.max(a, b),
  'arith.minimumf': (a: number, b: number) => Math.min(a, b),
  'arith.addi': either(
    (a, b) => a + b,
    (a, b) => a + b,
  ),
  'arith.subi': either(
    (a, b) => a - b,
    (a, b) => a - b,
  ),
  'arith.muli': either((a, b) => a * b, Math.imul),
  'arith.divsi': either(
    (a, b) => a / safe(b),
    (a, b) => Math.trunc(a / b),
  ),
  'arith.remsi': either(
    (a, b) => a % safe(b),
    (a, b) => a % b,
  ),
  'arith.maxsi': either((a, b) => (a - b > 0n ? a : b), Math.max),
  'arith.minsi': either((a, b) => (b - a > 0n ? a : b), Math.min),
  'arith.andi': either(
    (a, b) => a & b,
    (a, b) => a & b,
  ),
  'arith.ori': either(
    (a, b) => a | b,
    (a, b) => a | b,
  ),
  'arith.xori': either(
    (a, b) => a ^ b,
    (a, b) => a ^ b,
  ),
  'arith.shli': either(
    (a, b) => a << BigInt.asUintN(6, b),
    (a, b) => a << b,
  ),
  'arith.shrsi': either(
    (a, b) => a >> BigInt.asUintN(6, b),
    (a, b) => a >> b,
  ),
};
/** Of numbers without a sign. */
const NATURAL: Readonly<Record<string, Fold>> = {
  'arith.divui': either(
    (a, b) => a / safe(b),
    (a, b) => Math.floor(a / b),
  ),
  'arith.remui': either(
    (a, b) => a % safe(b),
    (a, b) => a % b,
  ),
  'arith.maxui': either((a, b) => (a - b > 0n ? a : b), Math.max),
  'arith.minui': either((a, b) => (b - a > 0n ? a : b), Math.min),
  'arith.shrui': either(
    (a, b) => a >> BigInt.asUintN(6, b),
    (a, b) => a >>> b,
  ),
};
const UNARY: Readonly<Record<string, (x: N) => N>> = {
  'math.floor': (x) => Math.floor(x as number),
  'math.ceil': (x) => Math.ceil(x as number),
  'math.absf': (x) => Math.abs(x as number),
  'math.absi': (x) => (x < 0 ? -x : x),
};
const within = (x: N, low: number, high: number): number => Math.min(Math.max(Math.trunc(Number(x)) || 0, low), high);
/** From one type to another. */
const CAST: Readonly<Record<string, (x: N, from: string, to: string) => N>> = {
  'arith.extf': (x) => x,
  'arith.truncf': (x) => x,
  'arith.extsi': (x, from) => (from === 'i1' ? -x : x),
  'arith.extui': (x, from) => natural(from, x),
  'arith.trunci': (x, from, to) => (from === 'i64' ? Number(BigInt.asIntN(32, x as bigint)) : held(to, x)),
  'arith.sitofp': (x) => Number(x),
  'arith.uitofp': (x, from) => Number(natural(from, x)),
  'arith.fptosi': (x, _, to) => within(x, -(2 ** (bitsOf(to) - 1)), 2 ** (bitsOf(to) - 1) - 1),
  'arith.fptoui': (x, _, to) => within(x, 0, 2 ** bitsOf(to) - 1),
};
const MEETS: readonly ((a: N, b: N) => boolean)[] = [
  (a, b) => a === b,
  (a, b) => a !== b,
  (a, b) => a < b,
  (a, b) => a <= b,
  (a, b) => a > b,
  (a, b) => a >= b,
];
const CMPF: Readonly<Record<number, number>> = { 1: 0, 2: 4, 3: 5, 4: 2, 5: 3, 13: 1 };

/** Places of a result in its operand: `from` is the operand's shape, with 1 where it is repeated. */
function repeated(data: readonly N[], from: readonly number[], to: readonly number[]): N[] {
  return Array.from({ length: count(to) }, (_, i) => {
    let [rest, place, stride] = [i, 0, 1];
    for (let d = to.length - 1; d >= 0; d--) {
      place += (from[d] === 1 ? 0 : rest % to[d]!) * stride;
      stride *= from[d]!;
      rest = Math.floor(rest / to[d]!);
    }
    return data[place]!;
  });
}

function literal(text: string, { shape, element }: Type): N[] {
  const inner = /^dense<([^>]*)>/.exec(text)?.[1] ?? text.split(' : ')[0]!;
  const n = (): N => {
    if (inner === 'true' || inner === 'false') return Number(inner === 'true');
    if (element === 'i64') return BigInt(inner);
    if (!inner.startsWith('0x') || !isFloat(element)) return Number(inner);
    const bytes = Uint8Array.from(inner.slice(2).match(/../g)!, (b) => Number.parseInt(b, 16)).reverse();
    if (element === 'f64') return new Float64Array(bytes.buffer)[0]!;
    if (element === 'f32') return new Float32Array(bytes.buffer)[0]!;
    return Number(decodeFloats(element as 'bf16' | 'f16', new Uint16Array(bytes.buffer))[0]);
  };
  return Array<N>(count(shape)).fill(held(element, n()));
}

// ---- running

class Program {
  constructor(readonly id: readonly number[]) {}

  run(block: Block, given: readonly Value[], outer: ReadonlyMap<string, Value>): readonly Value[] {
    const values = new Map(outer);
    block.params.forEach((p, i) => void values.set(p, given[i]!));
    for (const op of block.ops) {
      const xs = op.operands.map((x) => {
        const value = values.get(x);
        if (!value) throw new Error(`Triton IR: ${op.name} uses ${x} before it is there`);
        return value;
      });
      xs.forEach((x, i) => {
        if (x.text !== op.inputTypes[i]!.text)
          throw new Error(`Triton IR: ${op.name}: operand ${i} is ${x.text}, not ${op.inputTypes[i]!.text}`);
      });
      if (/\.(yield|return)$/.test(op.name)) return xs;
      const outs = this.#op(op, xs, values);
      if (outs.length !== op.results.length) throw new Error(`Triton IR: ${op.name} gives ${outs.length} results`);
      outs.forEach((data, i) => {
        const type = op.outputTypes[i]!;
        if (data.data.length !== count(type.shape)) throw new Error(`Triton IR: ${op.name} gives no ${type.text}`);
        values.set(op.results[i]!, { ...data, ...type });
      });
    }
    return [];
  }

  #op(op: Op, xs: readonly Value[], values: ReadonlyMap<string, Value>): { data: readonly N[]; memory?: Memory }[] {
    const { name } = op;
    const attribute = (key: string) => op.attributes.get(key) ?? '';
    const whole = (key: string) => Number.parseInt(attribute(key), 10);
    const [x, y, z] = xs as [Value, Value, Value];
    const [out] = op.outputTypes as [Type];
    const one = (data: readonly N[], memory?: Memory) => [{ data, ...(memory && { memory }) }];
    const each = (f: (i: number) => N) =>
      one(Array.from({ length: count(out.shape) }, (_, i) => held(out.element, f(i))));
    const fold = BINARY[name] ?? NATURAL[name];
    if (fold) {
      const of = name in NATURAL ? (v: N) => natural(x.element, v) : (v: N) => v;
      return each((i) => fold(of(x.data[i]!) as never, of(y.data[i]!) as never));
    }
    if (UNARY[name]) return each((i) => UNARY[name]!(x.data[i]!));
    if (CAST[name]) return each((i) => CAST[name]!(x.data[i]!, x.element, out.element));
    const inner = op.regions[0]!;
    switch (name) {
      case 'arith.constant':
        return one(literal(attribute('value'), out));
      case 'arith.cmpi': {
        const p = whole('predicate');
        const of = (v: N) => (p >= 6 ? natural(x.element, v) : v);
        return each((i) => Number(MEETS[p >= 6 ? p - 4 : p]!(of(x.data[i]!), of(y.data[i]!))));
      }
      case 'arith.cmpf':
        return each((i) => Number(MEETS[CMPF[whole('predicate')]!]!(x.data[i]!, y.data[i]!)));
      case 'arith.select':
        return each((i) => (x.data[x.data.length > 1 ? i : 0] ? y.data[i]! : z.data[i]!));
      case 'tt.get_program_id':
        return one([this.id[whole('axis')]!]);
      case 'tt.make_range':
        return one(Array.from({ length: whole('end') - whole('start') }, (_, i) => i + whole('start')));
      case 'tt.splat':
        return one(Array<N>(count(out.shape)).fill(x.data[0]!), x.memory);
      case 'tt.expand_dims':
      case 'tt.reshape':
        return one(x.data, x.memory);
      case 'tt.broadcast':
        return one(repeated(x.data, x.shape, out.shape), x.memory);
      case 'tt.addptr':
        return one(
          x.data.map((p, i) => Number(p) + Number(y.data[i]!)),
          x.memory,
        );
      case 'tt.trans': {
        const [n, m] = out.shape as [number, number];
        return one(Array.from({ length: n * m }, (_, i) => x.data[(i % m) * n + Math.floor(i / m)]!));
      }
      case 'tt.extern_elementwise': {
        const f = LIBDEVICE.get(attribute('symbol').slice(1, -1));
        if (!f) throw new Error(`Triton IR: ${attribute('symbol')} is unknown`);
        return each((i) => f(Number(x.data[i])));
      }
      case 'tt.load': {
        const { memory } = x;
        return each((i) => {
          if (y && !y.data[i]) return z.data[i]!;
          return memory!.data[this.#place('load', memory!, x.data[i]!)]!;
        });
      }
      case 'tt.store': {
        const { memory } = x;
        x.data.forEach((p, i) => {
          if (!z || z.data[i]) memory!.data[this.#place('store', memory!, p)] = y.data[i]!;
        });
        return [];
      }
      case 'tt.dot': {
        const [[m, k], [, n]] = [x.shape, y.shape] as [[number, number], [number, number]];
        if (Math.min(m, k, n) < 16) throw new Error(`Triton IR: tt.dot of ${x.text} and ${y.text}`);
        return each((i) => {
          let sum = Number(z.data[i]);
          for (let j = 0; j < k; j++)
            sum += Number(x.data[Math.floor(i / n) * k + j]) * Number(y.data[j * n + (i % n)]);
          return sum;
        });
      }
      case 'tt.reduce': {
        const axis = whole('axis');
        const combine = inner.ops[0]!;
        const step = x.shape.slice(axis + 1).reduce((n, d) => n * d, 1);
        const f = BINARY[combine.name] ?? NATURAL[combine.name]!;
        const of = combine.name in NATURAL ? (v: N) => natural(x.element, v) : (v: N) => v;
        return each((i) => {
          const first = Math.floor(i / step) * step * x.shape[axis]! + (i % step);
          let all = x.data[first]!;
          for (let j = 1; j < x.shape[axis]!; j++)
            all = held(x.element, f(of(all) as never, of(x.data[first + j * step]!) as never));
          return all;
        });
      }
      case 'scf.for': {
        const [first, end, step, ...init] = xs;
        let carried: readonly Value[] = init;
        for (let i = Number(first!.data[0]); i < Number(end!.data[0]); i += Number(step!.data[0]))
          carried = this.run(inner, [{ ...first!, data: [i] }, ...carried], values);
        return [...carried];
      }
      case 'scf.if':
        return [...this.run(op.regions[x.data[0] ? 0 : 1]!, [], values)];
      case 'gpu.barrier':
        return [];
    }
    throw new Error(`Triton IR: ${name} is unknown`);
  }
  #place(what: string, memory: Memory, place: N): number {
    const i = Number(place);
    if (Number.isInteger(i) && i >= 0 && i < memory.data.length) return i;
    throw new Error(`Triton IR: ${what} at ${i} of ${memory.data.length} elements`);
  }
}

/** Runs a kernel on these arrays, which are its parameters in order; it writes into them. */
export function runTriton(ir: string, grid: readonly number[], memories: readonly Memory[]): void {
  const [func] = new Reader(ir).op().regions[0]!.ops as [Op];
  const types = split(/^\((.*)\) -> \(\)$/.exec(func.attributes.get('function_type')!)![1]!).map(typeOf);
  const pointers = memories.map((memory, i): Value => {
    if (types[i]?.text !== `!tt.ptr<${memory.element}>`)
      throw new Error(`Triton IR: parameter ${i} is ${types[i]?.text}, the array has ${memory.element}`);
    return { ...types[i], data: [0], memory };
  });
  const [x = 1, y = 1, z = 1] = grid;
  for (let k = 0; k < z; k++)
    for (let j = 0; j < y; j++)
      for (let i = 0; i < x; i++) new Program([i, j, k]).run(func.regions[0]!, pointers, new Map());
}
