// The language of kernels: blocks of values, references to memory, loops and conditions. Calling a kernel's function once
// records statements in order; the three lowerings read them.
import { type DType, show } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isFloat, isInteger, isUnsigned } from '../base/promote.js';
import { captureSource, placeOf, type Source } from '../ir/source.js';
import {
  type CompareName,
  mlirOf,
  POINTWISE,
  type Pointwise,
  type PointwiseName,
  type ReduceName,
} from './operations.js';

/** One recorded operation. Its kind says what `attrs` hold: see `Attrs`. */
export interface Statement<K extends Kind = Kind> {
  readonly kind: K;
  readonly inputs: readonly Block[];
  readonly outs: readonly Block[];
  readonly attrs: Attrs[K];
  readonly regions: readonly Region[];
  readonly source: Source | undefined;
}
/** Statements with parameters and results: the kernel itself, the body of a loop, the branch of a condition, an index map. */
export interface Region {
  readonly params: readonly Block[];
  readonly body: readonly Statement[];
  readonly results: readonly Block[];
}

export interface Attrs {
  constant: { readonly value: number | boolean };
  /** 0, 1, 2, ... along a dimension. */
  iota: { readonly dim: number };
  pointwise: { readonly name: PointwiseName };
  compare: { readonly name: CompareName };
  /** condition, then, else */
  select: null;
  convert: null;
  /** Dimensions of 1, or a scalar, repeated. The rank stays, except of scalars. */
  broadcast: null;
  /** A dimension of 1 more, or one less. */
  expand: { readonly dim: number };
  squeeze: { readonly dim: number };
  transpose: { readonly perm: readonly number[] };
  reduce: { readonly name: ReduceName; readonly dim: number };
  /** Of two matrices; `transposed`: which of them are used transposed. */
  dot: { readonly transposed: readonly [boolean, boolean]; readonly precision: 'default' | 'highest' };
  programId: { readonly dim: number };
  /** starts, then the mask and the value elsewhere, if there is a mask */
  load: { readonly ref: Ref; readonly masked: boolean };
  /** starts, value, then the mask, if there is one */
  store: { readonly ref: Ref; readonly masked: boolean };
  /** first, end, what is carried; its region has the index and what is carried as parameters */
  loop: null;
  /** the condition */
  when: null;
}
export type Kind = keyof Attrs;

// ---- recording

interface Recorder {
  statements: Statement[];
  /** How many dimensions the grid has; undefined where there are no programs: in an index map their numbers are parameters. */
  readonly grid: number | undefined;
  readonly name: string;
  /** What is recorded around it. */
  readonly outer: Recorder | undefined;
  /** Its parameters, and what its statements have made. */
  readonly blocks: Set<Block>;
}
let recorder: Recorder | undefined;

/** Records what `run` does as a region of a kernel. */
export function record(
  name: string,
  grid: number | undefined,
  params: readonly Block[],
  run: () => readonly Block[],
): Region {
  const outer = recorder;
  recorder = { statements: [], grid, name, outer, blocks: new Set(params) };
  try {
    const results = run();
    checkInside('its result', results);
    return { params, body: recorder.statements, results };
  } finally {
    recorder = outer;
  }
}
const current = (what: string): Recorder => {
  if (recorder) return recorder;
  throw new ArgumentError(`${what}: works inside the function of a kernel only`);
};
/** Blocks of a body are gone when it has ended, and those of another kernel never were here. */
function checkInside(what: string, blocks: readonly Block[]): void {
  const isHere = (x: Block) => {
    for (let r = recorder; r; r = r.outer) if (r.blocks.has(x)) return true;
    return false;
  };
  const other = blocks.find((x) => x instanceof Block && !isHere(x));
  if (other)
    fail(
      ArgumentError,
      `${what}: ${other} was made in a when or a loop that has ended, or in another kernel: store it there, or return it from the loop`,
    );
}
const nameOf = (): string => (recorder ? `kernel ${recorder.name}: ` : '');

/** Marks errors with the kernel's line, which the recorded statement knows. */
const at = (source: Source | undefined): string => (placeOf(source) ? `\n    at ${placeOf(source)}` : '');
const DEPTH = 12; // frames of this file come first
const here = (): Source | undefined => captureSource(here, DEPTH);

function fail(error: new (message: string) => Error, message: string): never {
  throw new error(`${nameOf()}${message}${at(here())}`);
}

const MOST_STATEMENTS = 20_000; // of one body: more than any compiler takes
function emit<K extends Kind>(
  kind: K,
  inputs: readonly Block[],
  attrs: Attrs[K],
  types: readonly { readonly dtype: DType; readonly shape: readonly number[] }[],
  regions: readonly Region[] = [],
): Block[] {
  const { statements, blocks } = current(kind);
  if (statements.length === MOST_STATEMENTS)
    fail(
      ArgumentError,
      `its function made ${MOST_STATEMENTS} operations: a while of JavaScript on a block never ends: write kernels.loop(...)`,
    );
  checkInside(kind, inputs);
  const outs = types.map((t) => new Block(t.dtype, t.shape));
  for (const out of outs) blocks.add(out);
  statements.push({ kind, inputs, outs, attrs, regions, source: here() } as Statement);
  return outs;
}
const one = <K extends Kind>(
  kind: K,
  inputs: readonly Block[],
  attrs: Attrs[K],
  dtype: DType,
  shape: readonly number[],
): Block => emit(kind, inputs, attrs, [{ dtype, shape }])[0]!;

// ---- values

export type Operand = Block | number;

const same = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((n, i) => n === b[i]);

/** A block of values inside a kernel: known shape and dtype, never a tensor. A scalar has shape []. */
export class Block {
  constructor(
    readonly dtype: DType,
    readonly shape: readonly number[],
  ) {}

  toString(): string {
    return `block ${show(this)}`;
  }
  /** JavaScript asks for a number: `if (block)`, `block < 3`, `block + 1`. */
  [Symbol.toPrimitive](hint: string): string {
    if (hint === 'string') return this.toString();
    return fail(
      ArgumentError,
      `${this} is used as a JavaScript value: use its methods (x.add(y), x.lt(y)), kernels.when(...) for if, kernels.where(...) for ?:`,
    );
  }

  add(other: Operand): Block {
    return binary('add', this, other);
  }
  sub(other: Operand): Block {
    return binary('sub', this, other);
  }
  mul(other: Operand): Block {
    return binary('mul', this, other);
  }
  div(other: Operand): Block {
    return binary('div', this, other);
  }
  rem(other: Operand): Block {
    return binary('rem', this, other);
  }
  maximum(other: Operand): Block {
    return binary('max', this, other);
  }
  minimum(other: Operand): Block {
    return binary('min', this, other);
  }
  and(other: Operand): Block {
    return binary('and', this, other);
  }
  or(other: Operand): Block {
    return binary('or', this, other);
  }
  xor(other: Operand): Block {
    return binary('xor', this, other);
  }
  shl(bits: Operand): Block {
    return binary('shl', this, bits);
  }
  shr(bits: Operand): Block {
    return binary('shr', this, bits);
  }
  neg(): Block {
    return unary('neg', this);
  }
  abs(): Block {
    return unary('abs', this);
  }
  exp(): Block {
    return unary('exp', this);
  }
  log(): Block {
    return unary('log', this);
  }
  sqrt(): Block {
    return unary('sqrt', this);
  }
  rsqrt(): Block {
    return unary('rsqrt', this);
  }
  sin(): Block {
    return unary('sin', this);
  }
  cos(): Block {
    return unary('cos', this);
  }
  tanh(): Block {
    return unary('tanh', this);
  }
  erf(): Block {
    return unary('erf', this);
  }
  floor(): Block {
    return unary('floor', this);
  }
  ceil(): Block {
    return unary('ceil', this);
  }
  /** 1 / (1 + exp(-x)) */
  sigmoid(): Block {
    return full([], 1, this.dtype).div(this.neg().exp().add(1));
  }

  eq(other: Operand): Block {
    return compare('eq', this, other);
  }
  ne(other: Operand): Block {
    return compare('ne', this, other);
  }
  lt(other: Operand): Block {
    return compare('lt', this, other);
  }
  le(other: Operand): Block {
    return compare('le', this, other);
  }
  gt(other: Operand): Block {
    return compare('gt', this, other);
  }
  ge(other: Operand): Block {
    return compare('ge', this, other);
  }

  /** The elements as another dtype: rounded to the nearest, or towards zero to integers. */
  to(dtype: DType): Block {
    return dtype === this.dtype ? this : one('convert', [this], null, dtype, this.shape);
  }
  /** Dimensions of 1 repeated, missing ones in front added. */
  broadcastTo(shape: readonly number[]): Block {
    return broadcastTo(this, shape);
  }
  /** A dimension of 1 more, at `dim`. */
  unsqueeze(dim: number): Block {
    const d = place('unsqueeze', dim, this.shape.length + 1);
    return one('expand', [this], { dim: d }, this.dtype, this.shape.toSpliced(d, 0, 1));
  }
  /** Without a dimension of 1. */
  squeeze(dim: number): Block {
    const d = place('squeeze', dim, this.shape.length);
    if (this.shape[d] !== 1) fail(ShapeError, `squeeze(${dim}) of ${this}: the dimension is not 1`);
    return one('squeeze', [this], { dim: d }, this.dtype, this.shape.toSpliced(d, 1));
  }
  /** A matrix transposed. */
  t(): Block {
    if (this.shape.length !== 2) fail(ShapeError, `t() of ${this}: takes a matrix`);
    return one('transpose', [this], { perm: [1, 0] }, this.dtype, [this.shape[1]!, this.shape[0]!]);
  }

  sum(dim: number, keepdim = false): Block {
    return reduce('sum', this, dim, keepdim);
  }
  /** Of floats. */
  mean(dim: number, keepdim = false): Block {
    const d = place('mean', dim, this.shape.length);
    return reduce('sum', this, d, keepdim).div(this.shape[d]!);
  }
  max(dim: number, keepdim = false): Block {
    return reduce('max', this, dim, keepdim);
  }
  min(dim: number, keepdim = false): Block {
    return reduce('min', this, dim, keepdim);
  }

  /** The product of two matrices. Its dtype: f32 of floats up to 32 bits, i32 of integers up to 32 bits. */
  dot(other: Block, options: DotOptions = {}): Block {
    return dot(this, other, options);
  }
}

export interface DotOptions {
  /** Use this operand transposed. Default: false. */
  readonly transA?: boolean;
  readonly transB?: boolean;
  /** Of f32: 'default' lets the device round operands (TF32, bf16). Default: `'default'`. */
  readonly precision?: 'default' | 'highest';
}

function place(what: string, dim: number, rank: number, of = 'block'): number {
  const d = dim < 0 ? dim + rank : dim;
  if (!Number.isInteger(d) || d < 0 || d >= rank)
    fail(ShapeError, `${what}: dim ${dim} of a ${of} with ${rank} dimensions`);
  return d;
}

function broadcastTo(x: Block, shape: readonly number[]): Block {
  if (same(x.shape, shape)) return x;
  let y = x;
  if (x.shape.length > shape.length) fail(ShapeError, `${x} cannot be broadcast to [${shape.join(', ')}]`);
  while (y.shape.length > 0 && y.shape.length < shape.length) y = y.unsqueeze(0);
  if (y.shape.some((n, i) => n !== shape[i] && n !== 1))
    fail(ShapeError, `${x} cannot be broadcast to [${shape.join(', ')}]`);
  return same(y.shape, shape) ? y : one('broadcast', [y], null, y.dtype, shape);
}

/** The shape that two broadcast to, as in torch. */
function joint(what: string, a: Block, b: Block): readonly number[] {
  const rank = Math.max(a.shape.length, b.shape.length);
  return Array.from({ length: rank }, (_, i) => {
    const n = a.shape[i - rank + a.shape.length] ?? 1;
    const m = b.shape[i - rank + b.shape.length] ?? 1;
    if (n !== m && n !== 1 && m !== 1) fail(ShapeError, `${what}: shapes of ${a} and ${b} do not broadcast`);
    return Math.max(n, m);
  });
}
function aligned(what: string, a: Block, b: Operand): [Block, Block] {
  const other = typeof b === 'number' ? numberAs(what, b, a.dtype) : b;
  if (!(other instanceof Block)) fail(ArgumentError, `${what}: takes blocks and numbers, got ${String(b)}`);
  if (a.dtype !== other.dtype)
    fail(DTypeError, `${what}: dtypes of ${a} and ${other} differ: convert one, x.to('${a.dtype}')`);
  const shape = joint(what, a, other);
  return [broadcastTo(a, shape), broadcastTo(other, shape)];
}
function fitting(what: string, value: number, dtype: DType): number {
  if (isInteger(dtype) && !Number.isInteger(value))
    fail(DTypeError, `${what}: ${value} with integers (${dtype}): convert the block first, x.to('f32')`);
  return value;
}
const numberAs = (what: string, value: number, dtype: DType): Block => full([], fitting(what, value, dtype), dtype);

const spoken = (name: string): string => (name === 'max' ? 'maximum' : name === 'min' ? 'minimum' : name);
function binary(name: PointwiseName, a: Block, b: Operand): Block {
  const [x, y] = aligned(spoken(name), a, b);
  checkPointwise(name, x);
  return one('pointwise', [x, y], { name }, x.dtype, x.shape);
}
function unary(name: PointwiseName, x: Block): Block {
  if (name === 'neg' && isInteger(x.dtype)) return full(x.shape, 0, x.dtype).sub(x);
  if (name === 'abs' && isUnsigned(x.dtype)) return x;
  checkPointwise(name, x);
  return one('pointwise', [x], { name }, x.dtype, x.shape);
}
function checkPointwise(name: PointwiseName, x: Block): void {
  if (mlirOf(name, x.dtype)) return;
  const row: Pointwise = POINTWISE[name];
  fail(DTypeError, `${spoken(name)} of ${x}: takes ${row.float ? "floats: x.to('f32')" : 'integers or booleans'}`);
}
function compare(name: CompareName, a: Block, b: Operand): Block {
  const [x, y] = aligned(name, a, b);
  return one('compare', [x, y], { name }, 'bool', x.shape);
}
function reduce(name: ReduceName, x: Block, dim: number, keepdim: boolean): Block {
  const d = place(name, dim, x.shape.length);
  if (x.dtype === 'bool') fail(DTypeError, `${name} of ${x}: x.to('i32') first`);
  const y = one('reduce', [x], { name, dim: d }, x.dtype, x.shape.toSpliced(d, 1));
  return keepdim ? y.unsqueeze(d) : y;
}
function dot(a: Block, b: Block, { transA = false, transB = false, precision = 'default' }: DotOptions): Block {
  if (a.shape.length !== 2 || b?.shape?.length !== 2) fail(ShapeError, `dot: ${a} x ${b}: takes two matrices`);
  if (a.dtype !== b.dtype) fail(DTypeError, `dot: dtypes of ${a} and ${b} differ: convert one, x.to('${a.dtype}')`);
  const [m, k] = transA ? [a.shape[1]!, a.shape[0]!] : [a.shape[0]!, a.shape[1]!];
  const [l, n] = transB ? [b.shape[1]!, b.shape[0]!] : [b.shape[0]!, b.shape[1]!];
  if (k !== l) {
    const other = a.shape[transA ? 0 : 1] === b.shape[transB ? 0 : 1] ? ` (did you mean { transB: ${!transB} }?)` : '';
    fail(
      ShapeError,
      `dot: ${a}${transA ? '.t()' : ''} x ${b}${transB ? '.t()' : ''}: inner sizes ${k} and ${l} differ${other}`,
    );
  }
  const wide = a.dtype === 'f64' ? 'f64' : isFloat(a.dtype) ? 'f32' : 'i32';
  return one('dot', [a, b], { transposed: [transA, transB], precision }, wide, [m, n]);
}

/** A block of one number. */
export function full(shape: readonly number[], value: number | boolean, dtype: DType): Block {
  return one('constant', [], { value }, dtype, shape);
}
export const zeros = (shape: readonly number[], dtype: DType = 'f32'): Block => full(shape, 0, dtype);
/** 0, 1, 2, ... along `dim` of a block of i32. */
export function iota(shape: readonly number[], dim: number): Block {
  return one('iota', [], { dim: place('iota', dim, shape.length) }, 'i32', shape);
}
/** Element by element: the second where the condition holds, the third elsewhere. */
export function where(condition: Block, yes: Operand, no: Operand): Block {
  if (condition?.dtype !== 'bool') fail(DTypeError, `where: the condition is ${condition}: takes a block of booleans`);
  const dtype = yes instanceof Block ? yes.dtype : no instanceof Block ? no.dtype : 'f32';
  const [y, n] = [yes, no].map((x) => (x instanceof Block ? x : numberAs('where', x, dtype))) as [Block, Block];
  const [a, b] = aligned('where', y, n);
  const shape = joint('where', condition, a);
  return one(
    'select',
    [broadcastTo(condition, shape), broadcastTo(a, shape), broadcastTo(b, shape)],
    null,
    dtype,
    shape,
  );
}
/** The number of this program along a dimension of the grid: a scalar of i32. */
export function programId(dim: number): Block {
  const { grid } = current('programId');
  if (grid === undefined) fail(ArgumentError, 'programId: an index map is given the numbers as arguments');
  return one('programId', [], { dim: place('programId', dim, grid, 'grid') }, 'i32', []);
}

/**
 * Runs `body` for i from `first` to before `end`; both may be scalars of the device. What the body returns is given to its
 * next run, and after the last is the result.
 */
export function loop(
  first: Operand,
  end: Operand,
  init: readonly Block[],
  // biome-ignore lint/suspicious/noConfusingVoidType: a body that only stores returns nothing
  body: (i: Block, ...carried: Block[]) => readonly Block[] | void,
): Block[] {
  const r = current('loop');
  const [lo, hi] = [first, end].map((x) => scalar('loop', x)) as [Block, Block];
  const params = [new Block('i32', []), ...init.map((b) => new Block(b.dtype, b.shape))];
  const region = record(r.name, r.grid, params, () => body(params[0]!, ...params.slice(1)) ?? []);
  if (region.results.length !== init.length)
    fail(
      ArgumentError,
      `loop: its body returns ${region.results.length} blocks of the ${init.length} that are carried`,
    );
  region.results.forEach((x, i) => {
    const was = init[i]!;
    if (x.dtype !== was.dtype || !same(x.shape, was.shape))
      fail(ShapeError, `loop: what is carried begins as ${was}, and its body returns ${x}`);
  });
  return emit('loop', [lo, hi, ...init], null, init, [region]);
}
/** Runs `body` if the condition, a scalar, holds: for its stores. */
export function when(condition: Block, body: () => void): void {
  const r = current('when');
  if (condition?.dtype !== 'bool' || condition.shape.length)
    fail(DTypeError, `when: the condition is ${condition}: takes one boolean, as programId(0).eq(0)`);
  const region = record(r.name, r.grid, [], () => {
    body();
    return [];
  });
  emit('when', [condition], null, [], [region]);
}
function scalar(what: string, x: Operand): Block {
  if (typeof x === 'number') return numberAs(what, x, 'i32');
  if (!(x instanceof Block) || x.shape.length || x.dtype !== 'i32')
    fail(ShapeError, `${what}: takes whole numbers and scalars of i32, got ${x}`);
  return x;
}

// ---- memory

export interface LoadOptions {
  /** Where the part begins, one index a dimension. Default: the whole block. */
  readonly at?: readonly Operand[];
  /** How large it is. Default: from `at` to the end. */
  readonly size?: readonly number[];
  /** Elements to read; `other` is the value of the rest. */
  readonly mask?: Block;
  /** Default: 0. */
  readonly other?: number;
}
export interface StoreOptions {
  readonly at?: readonly Operand[];
  /** Elements to write. */
  readonly mask?: Block;
}

/** A reference to a block of an operand, a result, or scratch memory, in which a kernel reads and writes. */
export class Ref {
  constructor(
    readonly dtype: DType,
    readonly shape: readonly number[],
    readonly role: 'input' | 'output' | 'scratch',
    /** Among the references of its role. */
    readonly index: number,
  ) {}

  toString(): string {
    return `${this.role} ${this.index} (${show(this)})`;
  }
  [Symbol.toPrimitive](hint: string): string {
    if (hint === 'string') return this.toString();
    return fail(ArgumentError, `${this} is used as a value: read it with load()`);
  }

  /** The block, or a part of it. Elements of a block beyond the end of the array are 0. */
  load({ at: starts, size, mask, other = 0 }: LoadOptions = {}): Block {
    const from = this.#starts('load', starts);
    const shape = size ?? this.shape.map((n, d) => (typeof starts?.[d] === 'number' ? n - starts[d] : n));
    this.#fits('load', starts, shape);
    const masking = mask ? [this.#mask('load', mask, shape), numberAs('load', other, this.dtype)] : [];
    return one('load', [...from, ...masking], { ref: this, masked: mask !== undefined }, this.dtype, shape);
  }

  /** Writes a block, or a part of it. Elements beyond the end of the array are not written. */
  store(value: Operand, { at: starts, mask }: StoreOptions = {}): void {
    if (this.role === 'input')
      fail(ArgumentError, `store: ${this} is an operand: kernels write to results and scratch`);
    if (typeof value !== 'number' && !(value instanceof Block))
      fail(ArgumentError, `store: takes a block or a number, got ${String(value)}`);
    const block = typeof value === 'number' ? full(this.shape, fitting('store', value, this.dtype), this.dtype) : value;
    if (block.dtype !== this.dtype) fail(DTypeError, `store: ${block} into ${this}: convert it, x.to('${this.dtype}')`);
    const from = this.#starts('store', starts);
    const whole = starts ? block : broadcastTo(block, this.shape);
    this.#fits('store', starts, whole.shape);
    const masking = mask ? [this.#mask('store', mask, whole.shape)] : [];
    emit('store', [...from, whole, ...masking], { ref: this, masked: mask !== undefined }, []);
  }

  #starts(what: string, starts: readonly Operand[] | undefined): Block[] {
    if (starts && starts.length !== this.shape.length)
      fail(ShapeError, `${what}: ${starts.length} indices (at) for ${this}`);
    return this.shape.map((_, d) => scalar(what, starts?.[d] ?? 0));
  }
  #fits(what: string, starts: readonly Operand[] | undefined, shape: readonly number[]): void {
    if (shape.length !== this.shape.length || shape.some((n, d) => !Number.isInteger(n) || n < 1 || n > this.shape[d]!))
      fail(ShapeError, `${what}: a part of shape [${shape.join(', ')}] does not fit in ${this}`);
    starts?.forEach((s, d) => {
      if (typeof s === 'number' && (s < 0 || s + shape[d]! > this.shape[d]!))
        fail(ShapeError, `${what}: elements ${s} to ${s + shape[d]! - 1} of dimension ${d} are not in ${this}`);
    });
  }
  #mask(what: string, mask: Block, shape: readonly number[]): Block {
    if (mask.dtype !== 'bool') fail(DTypeError, `${what}: the mask is ${mask}: takes a block of booleans`);
    return broadcastTo(mask, shape);
  }
}

// ---- what blocks and references have not

/** What to write for operations that tensors have and blocks do not. */
const INSTEAD: Readonly<Record<string, string>> = {
  relu: 'x.maximum(0)',
  square: 'x.mul(x)',
  pow: 'x.mul(x), or x.log().mul(n).exp()',
  clamp: 'x.maximum(low).minimum(high)',
  silu: 'x.mul(x.sigmoid())',
  softmax: 'e.div(e.sum(dim, true)) of e = x.sub(x.max(dim, true)).exp()',
  matmul: 'a.dot(b)',
  mm: 'a.dot(b)',
  transpose: 'x.t()',
  permute: 'x.t()',
  expand: 'x.broadcastTo(shape)',
  float: "x.to('f32')",
  where: 'kernels.where(condition, yes, no)',
  maskedFill: 'kernels.where(mask, value, x)',
  index: 'load({ at, size }) of a part',
  narrow: 'load({ at, size }) of a part',
};
const READS = ['item', 'tolist', 'data', 'print'];

/**
 * Methods of tensors (`names`) that blocks and references do not have: calling one is an error that says what to write. Without
 * this, JavaScript would say that x.softmax is not a function.
 */
export function explainMissing(names: readonly string[]): void {
  const add = (of: object, name: string, why: (this: Block & Ref) => never) => {
    if (!(name in of)) Object.defineProperty(of, name, { value: why, configurable: true, writable: true });
  };
  for (const name of [...names, ...READS]) {
    const instead = INSTEAD[name] ?? 'compose it of those that they have (docs/kernels.md, The language)';
    add(Block.prototype, name, function () {
      if (READS.includes(name))
        return fail(ArgumentError, `${name} of ${this}: a kernel only describes: nothing can be read in it`);
      return fail(ArgumentError, `${name} of ${this}: blocks have no ${name}: write ${instead}`);
    });
  }
  for (const name of [...Object.getOwnPropertyNames(Block.prototype), ...names, ...READS])
    add(Ref.prototype, name, function () {
      return fail(ArgumentError, `${name} of ${this}: it is a reference: read it first: x.load().${name}(...)`);
    });
}
