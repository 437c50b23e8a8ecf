// A kernel as a Mosaic module, the form that XLA's compiler for TPUs takes: text of MLIR's stable_mosaic dialects, in the
// configuration of a custom call. It is what Pallas writes for the same kernel (test/kernels/mosaic.test.ts compares them): blocks
// lie in VMEM, and the compiler moves them between there and main memory, by the grid and a function for each array.
import { DTYPES, type DType } from '../base/dtype.js';
import { highest, lowest } from '../base/literal.js';
import { isFloat, isUnsigned } from '../base/promote.js';
import { range } from '../base/shape.js';
import type { Aval } from '../ir/aval.js';
import type { Emitter, Ssa } from '../ir/op.js';
import { placeOf } from '../ir/source.js';
import { scalarConstant } from '../ops/prim/define.js';
import type { Block, Ref, Region, Statement } from './block.js';
import { kernelCost } from './cost.js';
import { type Attributes, array, elementOf, int, list, MlirWriter, number, shaped, text, type Value } from './mlir.js';
import { checkForTpu, inMemory, isWhole } from './mosaic-rules.js';
import { COMPARE, type CompareName, mlirOf, REDUCE } from './operations.js';
import { isKind, type KernelProgram, type Placed, statementsOf } from './program.js';
import { Unsupported } from './unsupported.js';

const VERSION = 11; // of stable_mosaic: libtpu 0.0.51 reads it, and older ones that JAX 0.10 works with
const DIALECT = 'stable_mosaic';
const VMEM = '#tpu.memory_space<vmem>';
const FASTMATH = { fastmath: '#arith.fastmath<none>' };
const OVERFLOW = { overflowFlags: '#arith.overflow<none>' };
/** Attributes that operations of arith and math must have. */
function attributesOf(name: string): Attributes {
  if (/^arith\.(addi|subi|muli|shli)$/.test(name)) return OVERFLOW;
  if (name === 'arith.truncf' || name === 'arith.extf') return {};
  return name.startsWith('math.') || /^arith\.\w+f$/.test(name) ? (name === 'math.absi' ? {} : FASTMATH) : {};
}

const vector = (shape: readonly number[], element: string): string =>
  shape.length ? shaped('vector', shape, element) : element;
const memref = (shape: readonly number[], dtype: DType): string =>
  shaped('memref', shape, elementOf(inMemory(dtype)), VMEM);
const sizesOf = (p: Placed): number[] => p.block.map((n) => n ?? 1);
const bits = (dtype: DType): number => 8 * DTYPES[dtype].bytes;
/** Arithmetic is done in 32 bits, and of bf16 where the chip can. */
const COMPUTED = new Set<DType>(['f32', 'bf16', 'i32', 'u32', 'bool']);

const constant = (w: MlirWriter, value: number | bigint | boolean, dtype: DType): Value =>
  w.pure(`${DIALECT}.arith.constant`, [], elementOf(dtype), { attributes: { value: number(value, dtype) } });
const indexOf = (w: MlirWriter, value: number): Value =>
  w.pure(`${DIALECT}.arith.constant`, [], 'index', { attributes: { value: int(value, 'index') } });

/** What the windows' functions and the kernel share: whole numbers and conditions. */
function pure(w: MlirWriter, name: string, xs: readonly Value[], type: string, more: Attributes = {}): Value {
  const attributes = { ...attributesOf(name), ...more };
  return w.pure(`${DIALECT}.${name}`, xs, type, Object.keys(attributes).length ? { attributes } : {});
}

class Lowering {
  readonly w = new MlirWriter();
  readonly #values = new Map<Block, Value>();
  /** Blocks of one number, and scalars: what it is. */
  readonly #numbers = new Map<Block, number | boolean>();
  readonly #refs = new Map<Ref, Value>();
  #ids: readonly Value[] = [];
  /** Of arrays whose last block is not full: how many elements of this program's block lie in the array. */
  readonly #inside = new Map<Ref, readonly (Value | undefined)[]>();

  constructor(readonly kernel: KernelProgram) {}

  module(): string {
    const { w, kernel } = this;
    const { placed, scratch } = kernel;
    const grid = kernel.grid.length ? kernel.grid : [1];
    const ids = grid.map(() => 'i32');
    const rooms = [
      ...placed.map((p) => memref(sizesOf(p), p.array.dtype)),
      ...scratch.map((r) => memref(r.shape, r.dtype)),
    ];
    const refs = [...placed.map((p) => p.ref), ...scratch];
    const body = w.region([...ids, ...rooms], (...params) => {
      this.#ids = params.slice(0, grid.length);
      refs.forEach((r, i) => this.#refs.set(r, params[grid.length + i]!));
      for (const p of placed) this.#findInside(p);
      this.#clear();
      this.#statements(kernel.body.body);
      w.op(`${DIALECT}.func.return`, [], []);
    });
    const windows = placed.map((p, i) =>
      [
        ...(isWhole(p) ? ['pipeline_mode = #tpu.pipeline_mode<synchronous>'] : []),
        `transform_indices = @transform_${i}`,
        `window_bounds = ${array(sizesOf(p))}`,
      ].join(', '),
    );
    w.op(`${DIALECT}.func.func`, [], [], {
      regions: [body],
      attributes: {
        dimension_semantics: list(
          grid.map((_, d) => `#tpu.dimension_semantics<${kernel.sequential[d] ? 'arbitrary' : 'parallel'}>`),
        ),
        function_type: `(${[...ids, ...rooms].join(', ')}) -> ()`,
        iteration_bounds: array(grid),
        scalar_prefetch: int(0, 'i64'),
        scratch_operands: int(scratch.length, 'i64'),
        sym_name: text(kernel.name),
        'tpu.core_type': '#tpu.core_type<tc>',
        window_params: list(windows.map((x) => `{${x}}`)),
      },
    });
    placed.forEach((p, i) => this.#transform(p, i, ids));
    return w.module({ [`${DIALECT}.version`]: int(VERSION, 'i64'), sym_name: text(kernel.name) });
  }

  /** The function from a program's numbers to the number of its block. */
  #transform(p: Placed, i: number, ids: readonly string[]): void {
    const { w } = this;
    const out = p.array.shape.map(() => 'i32');
    const body = w.region(ids, (...params) => {
      w.op(`${DIALECT}.func.return`, this.#blockOf(p, params), []);
    });
    w.op(`${DIALECT}.func.func`, [], [], {
      regions: [body],
      attributes: {
        function_type: `(${ids.join(', ')}) -> ${out.length === 1 ? out[0] : `(${out.join(', ')})`}`,
        sym_name: text(`transform_${i}`),
      },
    });
  }
  #blockOf(p: Placed, ids: readonly Value[]): Value[] {
    const { lead } = this.kernel;
    p.index.params.forEach((b, d) => this.#values.set(b, ids[d + lead]!));
    this.#statements(p.index.body);
    return [...ids.slice(0, lead).filter((_, d) => p.lead[d]), ...p.index.results.map((b) => this.#of(b))];
  }

  // ---- memory that is not whole

  #findInside(p: Placed): void {
    const edges = p.block.map((n, d) => n !== null && p.array.shape[d]! % n !== 0);
    if (p.ref.role === 'scratch' || !edges.some(Boolean)) return;
    const loaded = [...statementsOf(this.kernel.body)].some((s) => isKind(s, 'load') && s.attrs.ref === p.ref);
    if (!loaded) return;
    const blocks = this.#blockOf(p, this.#ids);
    const all = p.block.map((n, d) => {
      if (!edges[d]) return undefined;
      const first = this.#int('muli', blocks[d]!, constant(this.w, n!, 'i32'));
      return this.#int('subi', constant(this.w, p.array.shape[d]!, 'i32'), first);
    });
    this.#inside.set(
      p.ref,
      all.filter((_, d) => p.block[d] !== null),
    );
  }

  /** Scratch memory and results begin with zeros, where the kernel might read what it has not written. */
  #clear(): void {
    const { w, kernel } = this;
    const uncleared = [...kernel.outputs.map((p) => p.ref), ...kernel.scratch].filter((r) => !writesFirst(kernel, r));
    for (const ref of uncleared) {
      const p = kernel.outputs.find((each) => each.ref === ref);
      const dims = range(kernel.grid.length).filter(
        (d) => kernel.sequential[d] && kernel.grid[d]! > 1 && !(p && dependsOn(p, d - kernel.lead)),
      );
      const zero = () => {
        const at = ref.shape.map(() => indexOf(w, 0));
        const splat = this.#spread(constant(w, 0, inMemory(ref.dtype)), ref.shape, elementOf(inMemory(ref.dtype)));
        this.#write(ref, at, splat, ref.shape);
      };
      if (!dims.length) zero();
      else {
        const firsts = dims.map((d) =>
          this.#pure('arith.cmpi', [this.#ids[d]!, constant(w, 0, 'i32')], 'i1', { predicate: int(0, 'i64') }),
        );
        this.#if(
          firsts.reduce((a, b) => this.#pure('arith.andi', [a, b], 'i1')),
          zero,
        );
      }
    }
  }
  #if(condition: Value, body: () => void): void {
    const { w } = this;
    const yes = w.region([], () => {
      body();
      w.op(`${DIALECT}.scf.yield`, [], []);
    });
    const no = w.region([], () => void w.op(`${DIALECT}.scf.yield`, [], []));
    w.op(`${DIALECT}.scf.if`, [condition], [], { regions: [yes, no] });
  }

  // ---- small things

  #pure(name: string, xs: readonly Value[], type: string, more: Attributes = {}): Value {
    return pure(this.w, name, xs, type, more);
  }
  #int(name: 'addi' | 'subi' | 'muli', a: Value, b: Value): Value {
    return this.#pure(`arith.${name}`, [a, b], 'i32');
  }
  #spread(x: Value, shape: readonly number[], element: string): Value {
    return shape.length ? this.#pure('vector.broadcast', [x], vector(shape, element)) : x;
  }
  #splat(value: number | bigint | boolean, dtype: DType, shape: readonly number[]): Value {
    return this.#spread(constant(this.w, value, dtype), shape, elementOf(dtype));
  }
  #reshape(x: Value, type: string): Value {
    return x.type === type ? x : this.#pure('vector.shape_cast', [x], type);
  }
  #of(b: Block): Value {
    return this.#values.get(b)!;
  }
  #statements(body: readonly Statement[]): void {
    for (const s of body) this.#statement(s);
  }
  #fail(s: Statement, why: string): never {
    const line = placeOf(s.source);
    throw new Unsupported(`${why}${line && ` (${line})`}`);
  }

  #statement(s: Statement): void {
    const xs = s.inputs.map((b) => this.#of(b));
    const [out] = s.outs;
    const set = (value: Value) => void this.#values.set(out!, value);
    const type = out && vector(out.shape, elementOf(out.dtype));
    if (isKind(s, 'constant')) {
      this.#numbers.set(out!, s.attrs.value);
      set(this.#splat(s.attrs.value, out!.dtype, out!.shape));
    } else if (isKind(s, 'iota')) set(this.#iota(out!.shape, s.attrs.dim));
    else if (isKind(s, 'pointwise')) {
      this.#computes(s, out!.dtype);
      set(this.#pure(mlirOf(s.attrs.name, out!.dtype)!, xs, type!));
    } else if (isKind(s, 'compare')) set(this.#compare(s, xs));
    else if (isKind(s, 'select')) set(this.#select(xs, out!.dtype, type!));
    else if (isKind(s, 'convert')) set(this.#convert(s, xs[0]!, s.inputs[0]!.dtype, out!.dtype, out!.shape));
    else if (isKind(s, 'broadcast')) set(this.#pure('vector.broadcast', xs, type!));
    else if (isKind(s, 'expand'))
      set(s.inputs[0]!.shape.length ? this.#reshape(xs[0]!, type!) : this.#pure('vector.broadcast', xs, type!));
    else if (isKind(s, 'squeeze')) set(out!.shape.length ? this.#reshape(xs[0]!, type!) : this.#scalarOf(xs[0]!, 1));
    else if (isKind(s, 'transpose')) set(this.#pure('tpu.transpose', xs, type!, { permutation: array(s.attrs.perm) }));
    else if (isKind(s, 'reduce')) set(this.#reduce(s, xs[0]!));
    else if (isKind(s, 'dot')) set(this.#dot(s, xs, type!));
    else if (isKind(s, 'programId')) set(this.#ids[s.attrs.dim + this.kernel.lead]!);
    else if (isKind(s, 'load')) set(this.#load(s, xs));
    else if (isKind(s, 'store')) this.#store(s, xs);
    else if (isKind(s, 'loop')) this.#loop(s, xs);
    else if (isKind(s, 'when')) this.#if(xs[0]!, () => this.#statements(s.regions[0]!.body));
  }

  // ---- values

  #computes(s: Statement, dtype: DType): void {
    if (!COMPUTED.has(dtype)) this.#fail(s, `a TPU does not compute with ${dtype}: convert it first, x.to('i32')`);
  }
  #scalarOf(x: Value, rank: number): Value {
    const element = x.type.replace(/^vector<(?:\d+x)*/, '').replace(/>$/, '');
    return this.#pure('vector.extract', [x], element, { static_position: array(range(rank).map(() => 0)) });
  }
  /** Mosaic counts in two dimensions at least. */
  #iota(shape: readonly number[], dim: number): Value {
    const two = shape.length < 2 ? [1, ...shape] : shape;
    const d = dim + two.length - shape.length;
    const x = this.#pure('tpu.iota', [], vector(two, 'i32'), { dimensions: array([d], 'i32') });
    return this.#reshape(x, vector(shape, 'i32'));
  }
  #compare(s: Statement<'compare'>, xs: readonly Value[]): Value {
    const [{ dtype, shape }] = s.inputs as [Block];
    const row = COMPARE[s.attrs.name];
    const type = vector(shape, 'i1');
    if (isFloat(dtype)) {
      this.#computes(s, dtype);
      return this.#compareFloats(s.attrs.name, xs, type);
    }
    const is = dtype === 'i32' || dtype === 'u32' ? dtype : isUnsigned(dtype) ? 'u32' : 'i32';
    const wide = xs.map((x) => this.#convert(s, x, dtype, is, shape));
    return this.#pure('arith.cmpi', wide, type, {
      predicate: int(isUnsigned(dtype) ? row.unsigned : row.signed, 'i64'),
    });
  }
  /** Mosaic cannot ask for `une`, which holds of NaN: it is what is not equal. */
  #compareFloats(name: CompareName, xs: readonly Value[], type: string): Value {
    const is = (n: CompareName) => this.#pure('arith.cmpf', xs, type, { predicate: int(COMPARE[n].float, 'i64') });
    return name === 'ne' ? this.#not(is('eq')) : is(name);
  }
  #select([condition, yes, no]: readonly Value[], dtype: DType, type: string): Value {
    if (dtype !== 'bool') return this.#pure('arith.select', [condition!, yes!, no!], type);
    const [both, other] = [this.#pure('arith.andi', [condition!, yes!], type), this.#not(condition!)];
    return this.#pure('arith.ori', [both, this.#pure('arith.andi', [other, no!], type)], type);
  }
  #not(x: Value): Value {
    const yes = constant(this.w, true, 'bool');
    const all = x.type === 'i1' ? yes : this.#pure('vector.broadcast', [yes], x.type);
    return this.#pure('arith.xori', [x, all], x.type);
  }
  #convert(s: Statement, x: Value, from: DType, to: DType, shape: readonly number[]): Value {
    if (from === to) return x;
    const type = vector(shape, elementOf(to));
    const via = (middle: DType) => this.#convert(s, this.#convert(s, x, from, middle, shape), middle, to, shape);
    if (isFloat(from) && isFloat(to))
      return this.#pure(bits(to) > bits(from) ? 'arith.extf' : 'arith.truncf', [x], type);
    if (to === 'bool') {
      if (isFloat(from) ? from !== 'f32' : bits(from) < 32) return via(isFloat(from) ? 'f32' : 'i32');
      const zero = this.#splat(0, from, shape);
      return isFloat(from)
        ? this.#compareFloats('ne', [x, zero], type)
        : this.#pure('arith.cmpi', [x, zero], type, { predicate: int(COMPARE.ne.signed, 'i64') });
    }
    if (isFloat(from)) {
      if (from !== 'f32') return via('f32');
      if (to === 'u32') this.#fail(s, "a TPU's kernels do not convert floats to u32: use x.to('i32')");
      return to === 'i32' ? this.#pure('arith.fptosi', [x], type) : via('i32');
    }
    if (isFloat(to)) {
      if (from === 'u32') this.#fail(s, "a TPU's kernels do not convert u32 to floats: use x.to('i32') first");
      if (from !== 'i32') return via('i32');
      return to === 'f32' ? this.#pure('arith.sitofp', [x], type) : via('f32');
    }
    if (from === 'bool' && bits(to) < 32) return via('i32');
    if (from === 'bool') return this.#pure('arith.extui', [x], type);
    if (bits(to) === bits(from)) return x; // a sign is the operation's, not the type's
    if (bits(to) < bits(from)) return this.#pure('arith.trunci', [x], type);
    return this.#pure(isUnsigned(from) ? 'arith.extui' : 'arith.extsi', [x], type);
  }

  #reduce(s: Statement<'reduce'>, x: Value): Value {
    const { name, dim } = s.attrs;
    const [{ dtype, shape }] = s.inputs as [Block];
    if (dtype === 'bf16') {
      const wide = this.#convert(s, x, 'bf16', 'f32', shape);
      return this.#convert(s, this.#reduced(name, dim, wide, 'f32', shape), 'f32', 'bf16', s.outs[0]!.shape);
    }
    if (dtype !== 'f32' && dtype !== 'i32')
      this.#fail(s, `a TPU reduces f32, bf16 and i32, and this is ${dtype}: convert it`);
    return this.#reduced(name, dim, x, dtype, shape);
  }
  #reduced(name: keyof typeof REDUCE, dim: number, x: Value, dtype: DType, shape: readonly number[]): Value {
    // One row stands for a list: Mosaic reduces to vectors.
    if (shape.length === 1) {
      const row = this.#reshape(x, vector([1, ...shape], elementOf(dtype)));
      return this.#scalarOf(this.#reduced(name, 1, row, dtype, [1, ...shape]), 1);
    }
    const type = vector(shape.toSpliced(dim, 1), elementOf(dtype));
    const start = name === 'sum' ? 0 : name === 'max' ? lowest(dtype) : highest(dtype);
    const first = this.#pure('arith.constant', [], type, { value: number(start, dtype, type) });
    const kind = name === 'sum' ? 'add' : REDUCE[name][isFloat(dtype) ? 'float' : 'signed'].replace('arith.', '');
    return this.#pure('vector.multi_reduction', [x, first], type, {
      kind: `#vector.kind<${kind}>`,
      reduction_dims: array([dim]),
    });
  }

  #dot(s: Statement<'dot'>, xs: readonly Value[], type: string): Value {
    const [a] = s.inputs as [Block, Block];
    const { transposed, precision } = s.attrs;
    const { dtype } = s.outs[0]!;
    if (isUnsigned(a.dtype)) this.#fail(s, `dot: a TPU multiplies signed integers: convert ${a.dtype} to i8`);
    const zero = this.#pure('arith.constant', [], type, { value: number(0, dtype, type) });
    const [ca, cb] = [transposed[0] ? 0 : 1, transposed[1] ? 1 : 0];
    const [ra, rb] = [1 - ca, 1 - cb];
    return this.#pure('tpu.matmul', [...xs, zero], type, {
      dimension_numbers: `#tpu.dot_dimension_numbers<[${ca}], [${cb}], [${ra}], [${rb}], [0, ${ra}, 1, ${rb}], [], []>`,
      precision: a.dtype === 'f32' && precision === 'highest' ? '#tpu.contract_precision<fp32>' : undefined,
      transpose_lhs: 'false',
      transpose_rhs: 'false',
    });
  }

  // ---- control

  #loop(s: Statement<'loop'>, xs: readonly Value[]): void {
    const { w } = this;
    const [first, end, ...init] = xs as [Value, Value, ...Value[]];
    const [region] = s.regions as [Region];
    const types = init.map((x) => x.type);
    const body = w.region(['i32', ...types], (...params) => {
      region.params.forEach((b, i) => this.#values.set(b, params[i]!));
      this.#statements(region.body);
      w.op(
        `${DIALECT}.scf.yield`,
        region.results.map((b) => this.#of(b)),
        [],
      );
    });
    const made = w.op(`${DIALECT}.scf.for`, [first, end, constant(w, 1, 'i32'), ...init], types, { regions: [body] });
    s.outs.forEach((b, i) => this.#values.set(b, made[i]!));
  }

  // ---- memory

  #placedOf(ref: Ref): Placed | undefined {
    return this.kernel.placed.find((p) => p.ref === ref);
  }
  /** Indices of all dimensions of the memory, and a shape in them. */
  #within(ref: Ref, at: readonly Value[], shape: readonly number[]): { at: Value[]; shape: number[] } {
    const block = this.#placedOf(ref)?.block ?? ref.shape;
    let [i, j] = [0, 0];
    return {
      at: block.map((n) => (n === null ? indexOf(this.w, 0) : at[i++]!)),
      shape: block.map((n) => (n === null ? 1 : shape[j++]!)),
    };
  }
  #starts(s: Statement<'load' | 'store'>): Value[] {
    return s.inputs.slice(0, s.attrs.ref.shape.length).map((b) => {
      const known = this.#numbers.get(b);
      return known === undefined
        ? this.#pure('arith.index_cast', [this.#of(b)], 'index')
        : indexOf(this.w, Number(known));
    });
  }
  #checkMask(s: Statement<'load' | 'store'>, shape: readonly number[]): void {
    if (s.attrs.masked && shape.some((n, d) => n !== s.attrs.ref.shape[d]))
      this.#fail(s, `a masked ${s.kind} of a part of ${s.attrs.ref} may reach beyond it: mask the whole block`);
  }

  /** Part of a reference, as it lies in memory: booleans as i32. */
  #read(ref: Ref, starts: readonly Value[], shape: readonly number[]): Value {
    const element = elementOf(inMemory(ref.dtype));
    const place = this.#within(ref, starts, shape);
    const [x] = this.w.op(
      `${DIALECT}.vector.load`,
      [this.#refs.get(ref)!, ...place.at],
      [vector(place.shape, element)],
    );
    return shape.length ? this.#reshape(x!, vector(shape, element)) : this.#scalarOf(x!, place.shape.length);
  }
  #write(ref: Ref, starts: readonly Value[], value: Value, shape: readonly number[], mask?: Value): void {
    const place = this.#within(ref, starts, shape);
    const shapedAs = (x: Value, element: string) => this.#reshape(x, vector(place.shape, element));
    const element = elementOf(inMemory(ref.dtype));
    const whole = shape.length
      ? shapedAs(value, element)
      : this.#pure('vector.broadcast', [value], vector(place.shape, element));
    const masks = mask ? [shapedAs(mask, 'i1')] : [];
    this.w.op(`${DIALECT}.tpu.vector_store`, [whole, this.#refs.get(ref)!, ...place.at, ...masks], [], {
      attributes: {
        add: 'false',
        operandSegmentSizes: array([1, 1, place.at.length, masks.length], 'i32'),
        strides: array([], 'i32'),
      },
    });
  }

  #load(s: Statement<'load'>, xs: readonly Value[]): Value {
    const { ref, masked } = s.attrs;
    const { shape, dtype } = s.outs[0]!;
    this.#checkMask(s, shape);
    const starts = this.#starts(s);
    const raw = this.#read(ref, starts, shape);
    const value = dtype === 'bool' ? this.#convert(s, raw, 'i32', 'bool', shape) : raw;
    const inside = this.#insideOf(s, xs);
    const cut = inside ? this.#chosen(s, inside, value, this.#splat(0, dtype, shape), dtype, shape) : value;
    if (!masked) return cut;
    const [mask, other] = xs.slice(ref.shape.length) as [Value, Value];
    return this.#chosen(s, mask, cut, this.#spread(other, shape, elementOf(dtype)), dtype, shape);
  }
  /** Masks are made in 32 bits, so what they choose from is, too. */
  #chosen(s: Statement, mask: Value, yes: Value, no: Value, dtype: DType, shape: readonly number[]): Value {
    const type = vector(shape, elementOf(dtype));
    if (dtype === 'bool' || bits(dtype) === 32) return this.#select([mask, yes, no], dtype, type);
    const wide = isFloat(dtype) ? 'f32' : 'i32';
    const [a, b] = [yes, no].map((x) => this.#convert(s, x, dtype, wide, shape));
    return this.#convert(s, this.#select([mask, a!, b!], wide, vector(shape, elementOf(wide))), wide, dtype, shape);
  }
  /** Which elements of what is loaded lie in the array, where not all do. */
  #insideOf(s: Statement<'load'>, xs: readonly Value[]): Value | undefined {
    const { shape } = s.outs[0]!;
    const sizes = this.#inside.get(s.attrs.ref);
    const masks = sizes?.flatMap((size, d) => {
      if (!size) return [];
      const place = this.#moved(this.#iota(shape, d), xs[d]!, this.#numbers.get(s.inputs[d]!), shape);
      const limit = this.#spread(size, shape, 'i32');
      return [
        this.#pure('arith.cmpi', [place, limit], vector(shape, 'i1'), { predicate: int(COMPARE.lt.signed, 'i64') }),
      ];
    });
    return masks?.reduce((a, b) => this.#pure('arith.andi', [a, b], a.type));
  }
  #moved(counted: Value, from: Value, known: number | boolean | undefined, shape: readonly number[]): Value {
    if (known === 0) return counted;
    return this.#pure('arith.addi', [counted, this.#spread(from, shape, 'i32')], counted.type);
  }

  #store(s: Statement<'store'>, xs: readonly Value[]): void {
    const { ref, masked } = s.attrs;
    const [block] = s.inputs.slice(ref.shape.length) as [Block];
    this.#checkMask(s, block.shape);
    const [given, mask] = xs.slice(ref.shape.length) as [Value, Value?];
    const starts = this.#starts(s);
    const there = inMemory(ref.dtype);
    const value = this.#convert(s, given, ref.dtype, there, block.shape);
    const byHand = masked && bits(there) !== 32; // a masked store takes 32 bits only
    const next = byHand
      ? this.#chosen(s, mask!, value, this.#read(ref, starts, block.shape), there, block.shape)
      : value;
    this.#write(ref, starts, next, block.shape, byHand ? undefined : mask);
  }
}

// ---- what a kernel writes before it reads

/** Whether an array's block changes along a dimension of the kernel's own grid. */
function dependsOn({ index }: Placed, dim: number): boolean {
  const param = index.params[dim];
  if (!param) return true;
  const reached = new Set<Block>([param]);
  for (const s of index.body) if (s.inputs.some((b) => reached.has(b))) for (const o of s.outs) reached.add(o);
  return index.results.some((b) => reached.has(b));
}

const isWholeStore = (s: Statement, ref: Ref): boolean =>
  isKind(s, 'store') &&
  s.attrs.ref === ref &&
  !s.attrs.masked &&
  s.inputs[ref.shape.length]!.shape.every((n, d) => n === ref.shape[d]);
const touches = (s: Statement, ref: Ref): boolean =>
  'ref' in (s.attrs ?? {})
    ? (s.attrs as { ref: Ref }).ref === ref
    : s.regions.some((r) => r.body.some((x) => touches(x, ref)));

/**
 * Whether the first thing done with a reference's memory is to write all of it: at once, or where the program is the first
 * (of a result: any one) of those that share it.
 */
function writesFirst(kernel: KernelProgram, ref: Ref): boolean {
  const first = kernel.body.body.find((s) => touches(s, ref));
  if (!first) return true; // never used
  if (isWholeStore(first, ref)) return true;
  if (!isKind(first, 'when')) return false;
  const inner = first.regions[0]!.body.find((s) => touches(s, ref));
  if (!inner || !isWholeStore(inner, ref)) return false;
  const id = equalId(kernel, first.inputs[0]!);
  if (!id) return false;
  const p = kernel.outputs.find((each) => each.ref === ref);
  const shared = range(kernel.grid.length).filter(
    (d) => kernel.sequential[d] && kernel.grid[d]! > 1 && !(p && dependsOn(p, d - kernel.lead)),
  );
  if (shared.length !== 1 || shared[0] !== id.dim + kernel.lead)
    return shared.length === 0 && kernel.grid[id.dim + kernel.lead] === 1;
  const read = [...statementsOf(kernel.body)].some((s) => isKind(s, 'load') && s.attrs.ref === ref);
  return id.value === 0 || (!read && id.value < kernel.grid[id.dim + kernel.lead]!);
}
/** programId(dim) == value */
function equalId(kernel: KernelProgram, condition: Block): { dim: number; value: number } | undefined {
  const made = new Map<Block, Statement>();
  for (const s of kernel.body.body) for (const o of s.outs) made.set(o, s);
  const compare = made.get(condition);
  if (!compare || !isKind(compare, 'compare') || compare.attrs.name !== 'eq') return undefined;
  const [a, b] = compare.inputs.map((x) => made.get(x));
  if (!a || !b || !isKind(a, 'programId') || !isKind(b, 'constant')) return undefined;
  return { dim: a.attrs.dim, value: Number(b.attrs.value) };
}

/** A result that is read must stay where it is while programs share it: Mosaic does not fetch results. */
function checkResults(kernel: KernelProgram): void {
  for (const p of kernel.outputs) {
    const read = [...statementsOf(kernel.body)].some((s) => isKind(s, 'load') && s.attrs.ref === p.ref);
    const moves = range(kernel.grid.length).some(
      (d) => kernel.sequential[d] && kernel.grid[d]! > 1 && dependsOn(p, d - kernel.lead),
    );
    if (read && moves)
      throw new Unsupported(
        `${p.ref} is read, and its block changes along a sequential dimension of the grid: sum in scratch memory, and store once`,
      );
  }
}

/** The module, as text. Throws `Unsupported` for a kernel that a TPU cannot run. */
export function mosaicText(kernel: KernelProgram): string {
  checkForTpu(kernel);
  checkResults(kernel);
  return new Lowering(kernel).module();
}

const layouts = (all: readonly Aval[]): string =>
  `[${all.map(({ rank }) => `dense<[${range(rank).reverse().join(', ')}]> : tensor<${rank}xindex>`).join(', ')}]`;

export function lowerToMosaic(
  e: Emitter,
  kernel: KernelProgram,
  operands: readonly Ssa[],
  outs: readonly Aval[],
): Ssa[] {
  if (e.mesh)
    throw new Unsupported("XLA does not split kernels over a mesh: call it in shardMap, on each device's part");
  const body = mosaicText(kernel);
  const { products, flops, transcendentals, bytes } = kernelCost(kernel);
  const config = {
    custom_call_config: {
      body: Buffer.from(body).toString('base64'),
      cost_estimate: { bytes_accessed: bytes, flops: products || flops, remote_bytes_transferred: 0, transcendentals },
      serialization_format: 1,
      needs_layout_passes: true,
    },
  };
  const given = operands.map((x, i) => {
    const { array } = kernel.inputs[i]!;
    return array.dtype === 'bool' ? e.op('convert', [x], [array.withDType('i32')])[0]! : x;
  });
  const types = outs.map((t) => t.withDType(inMemory(t.dtype)));
  const made = e.op('custom_call', given, types, {
    call_target_name: '"tpu_custom_call"',
    api_version: '1 : i32',
    backend_config: JSON.stringify(JSON.stringify(config)),
    operand_layouts: layouts(given.map((x) => e.typeOf(x))),
    result_layouts: layouts(types),
  });
  return made.map((x, i) => {
    const type = outs[i]!;
    if (type.dtype !== 'bool') return x;
    const zero = e.op('broadcast_in_dim', [scalarConstant(e, 0, types[i]!.withShape([]))], [types[i]!], {
      broadcast_dimensions: 'array<i64>',
    });
    return e.op('compare', [x, zero[0]!], [type], {
      comparison_direction: '#stablehlo<comparison_direction NE>',
      compare_type: '#stablehlo<comparison_type SIGNED>',
    })[0]!;
  });
}
