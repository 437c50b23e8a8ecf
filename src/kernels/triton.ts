// A kernel for an NVIDIA GPU: Triton IR as text, which XLA's own copy of Triton compiles for the GPU at hand. A program of the
// grid is a CUDA block. Triton knows powers of two only: every block is rounded up to them, and what lies behind its own
// elements is never read from memory, never written, and neutral in reductions and products.
import type { DType } from '../base/dtype.js';
import { highest, lowest } from '../base/literal.js';
import { isFloat, isInteger, isSigned, isUnsigned, wideType } from '../base/promote.js';
import { range } from '../base/shape.js';
import type { Aval } from '../ir/aval.js';
import type { Emitter, Ssa } from '../ir/op.js';
import { layouts, rowMajor } from '../ops/prim/cudnn.js';
import { scalarConstant } from '../ops/prim/define.js';
import type { Block, Ref, Region, Statement } from './block.js';
import { array, elementOf, int, list, MlirWriter, number, shaped, text, type Value } from './mlir.js';
import { COMPARE, mlirOf, type PointwiseName, REDUCE, type ReduceName } from './operations.js';
import { isKind, type KernelProgram, statementsOf } from './program.js';
import { type Bounds, Reach, storedIn, stridesOf } from './reach.js';
import { Unsupported } from './unsupported.js';

const TARGET = '__gpu$xla.gpu.triton';
const MOST_ELEMENTS = 2 ** 20; // of a block: Triton's own limit
const MOST_X = 2 ** 31 - 1; // programs along x, y and z: CUDA's limits
const MOST_YZ = 65535;
const LARGE = 2 ** 31; // elements: from here on places are i64
const LEAST_DOT = 16; // sizes of a product: what the matrix units take
const MOST_PRODUCTS = 2 ** 17; // of a product that is written out

export interface TritonKernel {
  readonly name: string;
  /** Triton IR, in MLIR's generic form. */
  readonly ir: string;
  readonly grid: readonly [x: number, y: number, z: number];
  readonly warps: number;
  readonly stages: number;
  /** The results that begin as zeros: not every element of them is certainly written, or they are read. */
  readonly zeroed: readonly number[];
}

/** The kernel as Triton IR: its parameters are pointers, to the operands, the `zeroed` results' zeros, and the results. */
export const tritonOf = (kernel: KernelProgram): TritonKernel => new Lowering(kernel).run();

/** A call of the kernel, in a program for a GPU. */
export function lowerToTriton(
  e: Emitter,
  kernel: KernelProgram,
  operands: readonly Ssa[],
  outs: readonly Aval[],
): Ssa[] {
  const { name, ir, grid, warps, stages, zeroed } = tritonOf(kernel);
  const zeros = zeroed.map((i) => {
    const zero = scalarConstant(e, 0, outs[i]!.withShape([]));
    return e.op('broadcast_in_dim', [zero], [outs[i]!], { broadcast_dimensions: array([]) })[0]!;
  });
  const all = [...operands, ...zeros];
  const alias = (result: number, operand: number) =>
    `#stablehlo.output_operand_alias<output_tuple_indices = [${outs.length > 1 ? result : ''}], operand_index = ${operand}, operand_tuple_indices = []>`;
  const [grid_x, grid_y, grid_z] = grid.map((n) => int(n));
  const config = {
    debug: 'false',
    grid_x,
    grid_y,
    grid_z,
    ir: text(ir),
    name: text(name),
    num_stages: int(stages),
    num_warps: int(warps),
  };
  return e.op('custom_call', all, outs, {
    call_target_name: text(TARGET),
    api_version: int(4),
    operand_layouts: layouts(all.map((x) => rowMajor(e.typeOf(x)))),
    result_layouts: layouts(outs.map(rowMajor)),
    ...(zeroed.length && { output_operand_aliases: list(zeroed.map((r, i) => alias(r, operands.length + i))) }),
    backend_config: `{${Object.entries(config)
      .map(([key, value]) => `${key} = ${value}`)
      .join(', ')}}`,
  });
}

// ---- types

/** The next power of two. */
export const padded = (n: number): number => 2 ** Math.ceil(Math.log2(n));
const count = (shape: readonly number[]): number => shape.reduce((n, d) => n * d, 1);
const typeOf = (shape: readonly number[], element: string): string =>
  shape.length ? shaped('tensor', shape, element) : element;
/** A dtype in memory: booleans are bytes there. */
const stored = (dtype: DType): string => (dtype === 'bool' ? 'i8' : elementOf(dtype));
const isNatural = (dtype: DType): boolean => dtype === 'bool' || isUnsigned(dtype);
/** What integers below 32 bits, and floats below, are computed in where Triton or the GPU has nothing for them. */
const widened = (dtype: DType): DType =>
  isFloat(dtype)
    ? wideType(dtype)
    : dtype === 'i8' || dtype === 'i16'
      ? 'i32'
      : dtype === 'bool' || dtype === 'u8' || dtype === 'u16'
        ? 'u32'
        : dtype;
const bitsOf = (element: string): number => Number(/\d+/.exec(element)![0]);

/** CUDA's own functions (libdevice), as exact as XLA's: of f32 with an f behind, and of f64. */
const LIBDEVICE: Partial<Record<PointwiseName, string>> = {
  exp: '__nv_exp',
  log: '__nv_log',
  sqrt: '__nv_sqrt',
  rsqrt: '__nv_rsqrt',
  sin: '__nv_sin',
  cos: '__nv_cos',
  tanh: '__nv_tanh',
  erf: '__nv_erf',
};

const takes = (dtype: DType): boolean =>
  dtype === 'bool' || isInteger(dtype) || ['f64', 'f32', 'bf16', 'f16'].includes(dtype);

class Lowering {
  readonly #w = new MlirWriter();
  readonly #values = new Map<Block, Value>();
  readonly #pointers = new Map<Ref, Value>();
  readonly #reach: Reach;
  readonly #bounds = new Map<Ref, Bounds>();
  #ids: Value[] = [];
  /** Where the blocks of this program begin, in elements of each dimension of their arrays. */
  readonly #starts = new Map<Ref, Value[]>();
  readonly #scratch = new Map<Ref, Value>();
  /** What was stored to, and what was read, since all threads last met: another thread may use the same element next. */
  readonly #since = { store: new Set<Ref>(), load: new Set<Ref>() };
  /** Results that are read, or of which one element may be written twice. */
  readonly #shared: Set<Ref>;

  constructor(readonly kernel: KernelProgram) {
    this.#reach = new Reach(kernel);
    this.#shared = new Set(kernel.outputs.flatMap(({ ref }) => (this.#reach.isInParts(ref) ? [] : [ref])));
  }

  run(): TritonKernel {
    const { kernel } = this;
    const name = kernel.name.replace(/\W/g, '_').replace(/^(?=\d)/, '_');
    this.#check();
    const zeroed = kernel.outputs.flatMap((p, i) => (this.#reach.isWritten(p) ? [] : [i]));
    const parameters = [...kernel.inputs, ...zeroed.map((i) => kernel.outputs[i]!), ...kernel.outputs];
    const types = parameters.map((p) => `!tt.ptr<${stored(p.array.dtype)}>`);
    const axes = this.#axes();
    const body = this.#w.region(types, (...pointers) => {
      parameters.forEach((p, i) => this.#pointers.set(p.ref, pointers[i]!));
      this.#number(axes);
      for (const r of kernel.scratch) this.#scratch.set(r, this.#constant(0, r.dtype, r.shape.map(padded)));
      this.#nest(range(kernel.grid.length).filter((d) => kernel.sequential[d]));
      this.#w.op('tt.return', [], []);
    });
    this.#w.op('tt.func', [], [], {
      properties: {
        arg_attrs: list(types.map(() => `{tt.divisibility = ${int(16)}}`)),
        function_type: `(${types.join(', ')}) -> ()`,
        sym_name: text(name),
        sym_visibility: text('public'),
      },
      regions: [body],
    });
    const { warps = 4, stages = 2 } = kernel.tuning;
    const [x = 1, y = 1, z = 1] = axes.map((dims) => count(dims.map((d) => kernel.grid[d]!)));
    return { name, ir: this.#w.module(), grid: [x, y, z], warps, stages, zeroed };
  }

  // ---- limits

  #check(): void {
    const { kernel } = this;
    const { warps = 4, stages = 2 } = kernel.tuning;
    if (!Number.isInteger(warps) || warps < 1 || warps > 32 || padded(warps) !== warps)
      throw new Unsupported(`warps is ${warps}: Triton takes 1, 2, 4, 8, 16 or 32`);
    if (!Number.isInteger(stages) || stages < 1) throw new Unsupported(`stages is ${stages}: Triton takes 1 or more`);
    const empty = kernel.placed.find((p) => count(p.array.shape) === 0);
    if (empty) throw new Unsupported(`${empty.ref} has no elements`);
    const checkType = (what: string, dtype: DType) => {
      if (!takes(dtype)) throw new Unsupported(`${what} is ${dtype}, of which this form computes nothing`);
    };
    for (const { ref } of kernel.placed) checkType(String(ref), ref.dtype);
    for (const ref of kernel.scratch) checkType(String(ref), ref.dtype);
    for (const s of statementsOf(kernel.body))
      for (const b of s.outs) {
        checkType(String(b), b.dtype);
        if (count(b.shape.map(padded)) > MOST_ELEMENTS)
          throw new Unsupported(`${b} has more than Triton's ${MOST_ELEMENTS} elements: take smaller blocks`);
      }
  }

  // ---- the grid

  /** The dimensions of the grid along x, y and z: the last of those that run at once is x; what is too many is folded. */
  #axes(): number[][] {
    const { grid, sequential } = this.kernel;
    const sizeOf = (dims: readonly number[]) => count(dims.map((d) => grid[d]!));
    const dims = range(grid.length).filter((d) => !sequential[d] && grid[d]! > 1);
    const x = dims.slice(-1);
    const y = dims.slice(-2, -1);
    const z = dims.slice(0, -2);
    if (sizeOf(y) <= MOST_YZ && sizeOf(z) <= MOST_YZ) return [x, y, z];
    if (sizeOf(dims) > MOST_X) throw new Unsupported(`the grid has ${sizeOf(dims)} programs: a GPU takes ${MOST_X}`);
    return [dims, [], []];
  }
  #number(axes: readonly number[][]): void {
    const zero = this.#int(0);
    this.#ids = this.kernel.grid.map(() => zero);
    axes.forEach((dims, axis) => {
      if (!dims.length) return;
      let rest = this.#w.pure('tt.get_program_id', [], 'i32', { properties: { axis: int(axis) } });
      dims.toReversed().forEach((d, i) => {
        const last = i === dims.length - 1;
        const n = this.#int(this.kernel.grid[d]!);
        this.#ids[d] = last ? rest : this.#binary('arith.remsi', rest, n);
        if (!last) rest = this.#binary('arith.divsi', rest, n);
      });
    });
  }
  /** The sequential dimensions are loops, which carry scratch memory. */
  #nest([d, ...inner]: readonly number[]): void {
    if (d === undefined) this.#program();
    else if (this.kernel.grid[d] === 1) this.#nest(inner);
    else
      this.#loop(this.#int(0), this.#int(this.kernel.grid[d]!), [], this.kernel.body, (i) => {
        this.#ids[d] = i;
        this.#nest(inner);
        return [];
      });
  }
  #program(): void {
    const { kernel } = this;
    const own = this.#ids.slice(kernel.lead);
    for (const p of kernel.placed) {
      p.index.params.forEach((b, d) => void this.#values.set(b, own[d]!));
      this.#statements(p.index);
      const lead = this.#ids.slice(0, kernel.lead).filter((_, d) => p.lead[d]);
      const blocks = [...lead, ...p.index.results.map((b) => this.#of(b))];
      this.#starts.set(
        p.ref,
        blocks.map((b, d) => this.#times(b, p.block[d] ?? 1)),
      );
      this.#bounds.set(p.ref, this.#reach.bounds(p));
    }
    this.#statements(kernel.body);
  }

  // ---- small things

  #constant(value: number | bigint | boolean, dtype: DType, shape: readonly number[]): Value {
    const type = typeOf(shape, elementOf(dtype));
    return this.#w.pure('arith.constant', [], type, { properties: { value: number(value, dtype, type) } });
  }
  #int(n: number): Value {
    return this.#constant(n, 'i32', []);
  }
  #binary(name: string, a: Value, b: Value): Value {
    return this.#w.pure(name, [a, b], a.type);
  }
  /** Scalars, where 0 and 1 need no operation. */
  #plus(a: Value, b: Value): Value {
    if (a.id === this.#int(0).id) return b;
    return b.id === this.#int(0).id ? a : this.#binary('arith.addi', a, b);
  }
  #times(a: Value, n: number): Value {
    if (n === 1 || a.id === this.#int(0).id) return a;
    return this.#binary('arith.muli', a, this.#int(n));
  }
  #compare(predicate: number, a: Value, b: Value, shape: readonly number[], float = false): Value {
    return this.#w.pure(float ? 'arith.cmpf' : 'arith.cmpi', [a, b], typeOf(shape, 'i1'), {
      properties: { predicate: int(predicate, 'i64') },
    });
  }
  #select(condition: Value, yes: Value, no: Value): Value {
    return this.#w.pure('arith.select', [condition, yes, no], yes.type);
  }
  /** A scalar as a block. */
  #spread(x: Value, shape: readonly number[]): Value {
    return shape.length ? this.#w.pure('tt.splat', [x], typeOf(shape, x.type)) : x;
  }
  #broadcast(x: Value, from: readonly number[], to: readonly number[], element: string): Value {
    if (!from.length) return this.#spread(x, to);
    return from.every((n, d) => n === to[d]) ? x : this.#w.pure('tt.broadcast', [x], typeOf(to, element));
  }
  #expand(x: Value, shape: readonly number[], axis: number, element: string): Value {
    return this.#w.pure('tt.expand_dims', [x], typeOf(shape, element), { properties: { axis: int(axis) } });
  }
  /** 0, 1, 2, ... along a dimension; the others are 1. */
  #range(n: number, d: number, rank: number): Value {
    let x = this.#w.pure('tt.make_range', [], typeOf([n], 'i32'), { properties: { start: int(0), end: int(n) } });
    let shape = [n];
    for (const axis of range(rank)) {
      if (axis === d) continue;
      shape = shape.toSpliced(axis, 0, 1);
      x = this.#expand(x, shape, axis, 'i32');
    }
    return x;
  }
  #convert(x: Value, shape: readonly number[], from: DType, to: DType): Value {
    const [a, b] = [elementOf(from), elementOf(to)];
    if (a === b) return x;
    const type = typeOf(shape, b);
    const cast = (name: string) => this.#w.pure(name, [x], type);
    const via = (middle: DType) => this.#convert(this.#convert(x, shape, from, middle), shape, middle, to);
    if (to === 'bool') {
      const zero = this.#constant(0, from, shape);
      return isFloat(from)
        ? this.#compare(COMPARE.ne.float, x, zero, shape, true)
        : this.#compare(COMPARE.ne.signed, x, zero, shape);
    }
    if (isFloat(from) && isFloat(to)) {
      if (bitsOf(a) === bitsOf(b)) return via('f32');
      return cast(bitsOf(a) < bitsOf(b) ? 'arith.extf' : 'arith.truncf');
    }
    if (isFloat(from)) {
      if (wideType(from) !== from) return via('f32');
      return cast(isSigned(to) ? 'arith.fptosi' : 'arith.fptoui');
    }
    if (isFloat(to)) {
      if (wideType(to) !== to) return via('f32');
      return cast(isNatural(from) ? 'arith.uitofp' : 'arith.sitofp');
    }
    if (bitsOf(a) > bitsOf(b)) return cast('arith.trunci');
    return cast(isNatural(from) ? 'arith.extui' : 'arith.extsi');
  }
  /** What folds a dimension, which goes. */
  #fold(x: Value, shape: readonly number[], axis: number, dtype: DType, combine: string): Value {
    const element = elementOf(dtype);
    const region = this.#w.region([element, element], (a, b) => {
      this.#w.op('tt.reduce.return', [this.#binary(combine, a!, b!)], []);
    });
    return this.#w.op('tt.reduce', [x], [typeOf(shape.toSpliced(axis, 1), element)], {
      properties: { axis: int(axis) },
      regions: [region],
    })[0]!;
  }
  /** `fill` in the elements along `axis` that belong to no block. */
  #fillRest(x: Value, shape: readonly number[], axis: number, dtype: DType, fill: number | bigint | boolean): Value {
    const to = shape.map(padded);
    const n = shape[axis]!;
    if (to[axis] === n) return x;
    const line = to.map((m, d) => (d === axis ? m : 1));
    const own = this.#compare(
      COMPARE.lt.signed,
      this.#range(to[axis]!, axis, to.length),
      this.#constant(n, 'i32', line),
      line,
    );
    return this.#select(this.#broadcast(own, line, to, 'i1'), x, this.#constant(fill, dtype, to));
  }

  // ---- statements

  #statements(region: Region): void {
    for (const s of region.body) this.#statement(s);
  }
  #of(b: Block): Value {
    return this.#values.get(b)!;
  }

  #statement(s: Statement): void {
    const xs = s.inputs.map((b) => this.#of(b));
    if (isKind(s, 'store')) this.#store(s, xs);
    else if (isKind(s, 'when')) this.#when(s, xs[0]!);
    else if (isKind(s, 'loop')) {
      const [first, end, ...init] = xs as [Value, Value, ...Value[]];
      const [region] = s.regions as [Region];
      const made = this.#loop(first, end, init, region, (i, now) => {
        [i, ...now].forEach((x, j) => void this.#values.set(region.params[j]!, x));
        this.#statements(region);
        return region.results.map((b) => this.#of(b));
      });
      s.outs.forEach((b, i) => void this.#values.set(b, made[i]!));
    } else this.#values.set(s.outs[0]!, this.#computed(s, xs));
  }

  #computed(s: Statement, xs: readonly Value[]): Value {
    const [x] = xs as [Value];
    const out = s.outs[0]!;
    const to = out.shape.map(padded);
    const from = s.inputs[0]?.shape.map(padded) ?? [];
    const dtype = s.inputs[0]?.dtype ?? out.dtype;
    const element = elementOf(out.dtype);
    if (isKind(s, 'constant')) return this.#constant(s.attrs.value, out.dtype, to);
    if (isKind(s, 'iota')) {
      const { dim } = s.attrs;
      return this.#broadcast(
        this.#range(to[dim]!, dim, to.length),
        to.map((n, d) => (d === dim ? n : 1)),
        to,
        'i32',
      );
    }
    if (isKind(s, 'pointwise')) return this.#pointwise(s.attrs.name, xs, to, dtype, s);
    if (isKind(s, 'compare')) {
      const row = COMPARE[s.attrs.name];
      if (!isFloat(dtype)) return this.#compare(isNatural(dtype) ? row.unsigned : row.signed, x, xs[1]!, to);
      const [a, b] = xs.map((v) => this.#convert(v, to, dtype, wideType(dtype)));
      return this.#compare(row.float, a!, b!, to, true);
    }
    if (isKind(s, 'select')) return this.#select(x, xs[1]!, xs[2]!);
    if (isKind(s, 'convert')) return this.#convert(x, to, dtype, out.dtype);
    if (isKind(s, 'broadcast')) return this.#broadcast(x, from, to, element);
    if (isKind(s, 'expand')) return from.length ? this.#expand(x, to, s.attrs.dim, element) : this.#spread(x, to);
    if (isKind(s, 'squeeze')) return this.#fold(x, from, s.attrs.dim, dtype, plusOf(dtype));
    if (isKind(s, 'transpose')) return this.#transpose(x, to, element);
    if (isKind(s, 'reduce')) return this.#reduce(s.attrs.name, x, s.inputs[0]!, s.attrs.dim);
    if (isKind(s, 'dot')) return this.#dot(s, xs as [Value, Value]);
    if (isKind(s, 'programId')) return this.#ids[s.attrs.dim + this.kernel.lead]!;
    return this.#load(s as Statement<'load'>, xs);
  }

  #pointwise(name: PointwiseName, xs: readonly Value[], shape: readonly number[], dtype: DType, s: Statement): Value {
    const wide = isFloat(dtype) ? wideType(dtype) : dtype;
    const operands = xs.map((x) => this.#convert(x, shape, dtype, wide));
    return this.#convert(this.#wide(name, operands, wide, shape, s), shape, wide, dtype);
  }
  #wide(name: PointwiseName, xs: readonly Value[], dtype: DType, shape: readonly number[], s: Statement): Value {
    const { type } = xs[0]!;
    const symbol = LIBDEVICE[name];
    if (symbol)
      return this.#w.pure('tt.extern_elementwise', xs, type, {
        properties: {
          libname: text(''),
          libpath: text(''),
          pure: 'true',
          symbol: text(`${symbol}${dtype === 'f32' ? 'f' : ''}`),
        },
      });
    if (name === 'neg') return this.#binary('arith.subf', this.#constant(-0, dtype, shape), xs[0]!);
    const value = this.#w.pure(mlirOf(name, dtype)!, xs, type);
    if (name !== 'shl' && name !== 'shr') return value;
    // Shifted by all its bits or more, a number is 0, or its sign: what a GPU's instruction gives is not said.
    const bits = bitsOf(elementOf(dtype));
    const known = this.#reach.constant(s.inputs[1]!);
    if (typeof known === 'number' && known >= 0 && known < bits) return value;
    const most = this.#constant(bits - 1, dtype, shape);
    const over =
      name === 'shr' && !isUnsigned(dtype)
        ? this.#binary('arith.shrsi', xs[0]!, most)
        : this.#constant(0, dtype, shape);
    return this.#select(this.#compare(COMPARE.gt.unsigned, xs[1]!, most, shape), over, value);
  }

  #transpose(x: Value, to: readonly number[], element: string): Value {
    return this.#w.pure('tt.trans', [x], typeOf(to, element), { properties: { order: array([1, 0], 'i32') } });
  }

  #reduce(name: ReduceName, x: Value, of: Block, dim: number): Value {
    const from = of.shape.map(padded);
    const wide = widened(of.dtype);
    const start = name === 'sum' ? 0 : name === 'max' ? lowest(wide) : highest(wide);
    const full = this.#fillRest(this.#convert(x, from, of.dtype, wide), of.shape, dim, wide, start);
    const row = REDUCE[name];
    const combine = isFloat(wide) ? row.float : isUnsigned(wide) ? row.unsigned : row.signed;
    const y = this.#fold(full, from, dim, wide, combine);
    return this.#convert(y, from.toSpliced(dim, 1), wide, of.dtype);
  }

  // ---- products

  #dot(s: Statement<'dot'>, xs: readonly [Value, Value]): Value {
    const out = s.outs[0]!;
    const { dtype } = s.inputs[0]!;
    // Elements behind the end of what is summed over are 0 in both: 0 times infinity is not 0.
    const [a, b] = xs.map((x, i) => {
      const { shape } = s.inputs[i]!;
      const turned = s.attrs.transposed[i as 0 | 1];
      const clean = this.#fillRest(x, shape, (i === 0) === turned ? 0 : 1, dtype, 0);
      return turned ? this.#transpose(clean, shape.map(padded).reverse(), elementOf(dtype)) : clean;
    }) as [Value, Value];
    const [m, n] = out.shape.map(padded) as [number, number];
    const k = padded(s.inputs[0]!.shape[s.attrs.transposed[0] ? 0 : 1]!);
    const onUnits = dtype === 'i8' || (isFloat(dtype) && dtype !== 'f64');
    return onUnits
      ? this.#unitDot(a, b, [m, k, n], dtype, out.dtype)
      : this.#plainDot(s, a, b, [m, k, n], dtype, out.dtype);
  }
  /** By matrix units. They take 16 rows, columns and summands at least: fewer are repeated, or filled up with zeros. */
  #unitDot(a: Value, b: Value, [m, k, n]: readonly [number, number, number], dtype: DType, to: DType): Value {
    const least = dtype === 'i8' ? 2 * LEAST_DOT : LEAST_DOT;
    const [M, K, N] = [Math.max(m, LEAST_DOT), Math.max(k, least), Math.max(n, LEAST_DOT)];
    const left = this.#repeat(this.#stretch(a, [m, k], 1, K, dtype), [m, K], 0, M, elementOf(dtype));
    const right = this.#repeat(this.#stretch(b, [k, n], 0, K, dtype), [K, n], 1, N, elementOf(dtype));
    const product = this.#w.pure(
      'tt.dot',
      [left, right, this.#constant(0, to, [M, N])],
      typeOf([M, N], elementOf(to)),
      {
        properties: { inputPrecision: int(2), maxNumImpreciseAcc: int(0) }, // IEEE: f32 with all its bits
      },
    );
    return this.#once(this.#once(product, [M, N], 0, m, to), [m, N], 1, n, to);
  }
  /** A dimension as often as makes it `to`. */
  #repeat(x: Value, shape: readonly number[], d: number, to: number, element: string): Value {
    const n = shape[d]!;
    if (n === to) return x;
    const one = shape.toSpliced(d, 0, 1);
    const many = one.with(d, to / n);
    const wide = this.#broadcast(this.#expand(x, one, d, element), one, many, element);
    return this.#w.pure('tt.reshape', [wide], typeOf(shape.with(d, to), element));
  }
  /** The same, with zeros for all but the first time. */
  #stretch(x: Value, shape: readonly number[], d: number, to: number, dtype: DType): Value {
    const n = shape[d]!;
    if (n === to) return x;
    const line = shape.map((_, i) => (i === d ? to : 1));
    const whole = shape.with(d, to);
    const own = this.#compare(COMPARE.lt.signed, this.#range(to, d, 2), this.#constant(n, 'i32', line), line);
    const many = this.#repeat(x, shape, d, to, elementOf(dtype));
    return this.#select(this.#broadcast(own, line, whole, 'i1'), many, this.#constant(0, dtype, whole));
  }
  /** What was repeated, once: all are equal. */
  #once(x: Value, shape: readonly number[], d: number, to: number, dtype: DType): Value {
    const n = shape[d]!;
    if (n === to) return x;
    const parts = shape.with(d, to).toSpliced(d, 0, n / to);
    const apart = this.#w.pure('tt.reshape', [x], typeOf(parts, elementOf(dtype)));
    return this.#fold(apart, parts, d, dtype, isFloat(dtype) ? 'arith.maximumf' : 'arith.maxsi');
  }
  /** Written out as products and a sum: what there are no matrix units for. */
  #plainDot(
    s: Statement,
    a: Value,
    b: Value,
    shape: readonly [number, number, number],
    dtype: DType,
    to: DType,
  ): Value {
    const [m, k, n] = shape;
    if (m * k * n > MOST_PRODUCTS)
      throw new Unsupported(
        `dot of ${s.inputs[0]} and ${s.inputs[1]}: this form has matrix units for i8, f16, bf16 and f32`,
      );
    const element = elementOf(to);
    const left = this.#expand(this.#convert(a, [m, k], dtype, to), [m, k, 1], 2, element);
    const right = this.#expand(this.#convert(b, [k, n], dtype, to), [1, k, n], 0, element);
    const product = this.#binary(
      isFloat(to) ? 'arith.mulf' : 'arith.muli',
      this.#broadcast(left, [m, k, 1], shape, element),
      this.#broadcast(right, [1, k, n], shape, element),
    );
    return this.#fold(product, shape, 1, to, plusOf(to));
  }

  // ---- control

  /** A loop that carries these values, and the scratch memory that its body stores to. */
  #loop(
    first: Value,
    end: Value,
    init: readonly Value[],
    body: Region,
    run: (i: Value, carried: readonly Value[]) => readonly Value[],
  ): Value[] {
    const refs = storedIn(body);
    const rooms = this.kernel.scratch.filter((r) => refs.has(r));
    const start = [...init, ...rooms.map((r) => this.#scratch.get(r)!)];
    this.#mark(body); // by the pass before
    const region = this.#w.region(['i32', ...start.map((x) => x.type)], (i, ...now) => {
      rooms.forEach((r, j) => void this.#scratch.set(r, now[init.length + j]!));
      const next = run(i!, now.slice(0, init.length));
      this.#w.op('scf.yield', [...next, ...rooms.map((r) => this.#scratch.get(r)!)], []);
    });
    this.#mark(body);
    const types = start.map((x) => x.type);
    const outs = this.#w.op('scf.for', [first, end, this.#int(1), ...start], types, { regions: [region] });
    rooms.forEach((r, j) => void this.#scratch.set(r, outs[init.length + j]!));
    return outs.slice(0, init.length);
  }

  #when(s: Statement<'when'>, condition: Value): void {
    const [body] = s.regions as [Region];
    const refs = storedIn(body);
    const rooms = this.kernel.scratch.filter((r) => refs.has(r));
    const before = new Map(this.#scratch);
    const outside = { store: [...this.#since.store], load: [...this.#since.load] };
    const yes = this.#w.region([], () => {
      this.#statements(body);
      this.#w.op(
        'scf.yield',
        rooms.map((r) => this.#scratch.get(r)!),
        [],
      );
    });
    const no = this.#w.region([], () => {
      this.#w.op(
        'scf.yield',
        rooms.map((r) => before.get(r)!),
        [],
      );
    });
    const types = rooms.map((r) => before.get(r)!.type);
    const outs = this.#w.op('scf.if', [condition], types, { regions: [yes, rooms.length ? no : '{\n}'] });
    rooms.forEach((r, i) => void this.#scratch.set(r, outs[i]!));
    for (const r of outside.store) this.#since.store.add(r); // no barrier, if the condition does not hold
    for (const r of outside.load) this.#since.load.add(r);
  }

  // ---- memory

  /** A barrier, if another thread may have written the element that this one uses, or have read the one that it writes. */
  #settle({ kind, attrs: { ref } }: Statement<'load' | 'store'>): void {
    if (!this.#shared.has(ref)) return;
    if (this.#since.store.has(ref) || (kind === 'store' && this.#since.load.has(ref))) {
      this.#w.op('gpu.barrier', [], []);
      this.#since.store.clear();
      this.#since.load.clear();
    }
    this.#since[kind].add(ref);
  }
  /** All that a region stores and reads counts as done. */
  #mark(region: Region): void {
    for (const s of statementsOf(region))
      if ((isKind(s, 'load') || isKind(s, 'store')) && this.#shared.has(s.attrs.ref))
        this.#since[s.kind].add(s.attrs.ref);
  }

  /** Pointers to the elements of a part, and which of them may be used; undefined: all. */
  #part(s: Statement<'load' | 'store'>, at: readonly Value[], shape: readonly number[], mask: Value | undefined) {
    const { ref, masked } = s.attrs;
    const p = this.kernel.placed.find((q) => q.ref === ref)!;
    const to = shape.map(padded);
    const rank = to.length;
    const isLarge = count(p.array.shape) >= LARGE;
    const masks: Value[] = mask ? [mask] : [];
    const strides = stridesOf(p.array.shape);
    const starts = this.#starts.get(ref)!;
    const bounds = this.#bounds.get(ref);
    const wide = (x: Value, like: readonly number[]) => (isLarge ? this.#convert(x, like, 'i32', 'i64') : x);
    const stride = (d: number, like: readonly number[]) => this.#constant(strides[d]!, isLarge ? 'i64' : 'i32', like);
    const scaled = (x: Value, d: number, like: readonly number[]) =>
      strides[d] === 1 ? wide(x, like) : this.#binary('arith.muli', wide(x, like), stride(d, like));
    const isZero = (x: Value) => x.id === this.#int(0).id;

    let base: Value | undefined;
    const terms: Value[] = [];
    let visible = 0;
    const limit = (x: Value, predicate: number, than: Value, line: readonly number[]) => {
      masks.push(this.#broadcast(this.#compare(predicate, x, than, line), line, to, 'i1'));
    };
    p.array.shape.forEach((size, d) => {
      const own = p.block[d] ?? null;
      const i = own === null ? -1 : visible++;
      const from = own === null ? starts[d]! : this.#plus(starts[d]!, at[i]!);
      if (!isZero(from)) {
        const term = scaled(from, d, []);
        base = base ? this.#binary('arith.addi', base, term) : term;
      }
      const n = own === null ? 1 : shape[i]!;
      const line = to.map((m, j) => (j === i ? m : 1));
      const places = own === null || to[i] === 1 ? undefined : this.#range(to[i]!, i, rank);
      if (places) terms.push(this.#broadcast(scaled(places, d, line), line, to, isLarge ? 'i64' : 'i32'));
      // Which of them are in the block, in the array, and in the part.
      const fixed = own === null ? 0 : this.#reach.constant(s.inputs[i]!);
      const [low, high] = bounds?.[d] ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
      const known = typeof fixed === 'number' ? fixed : undefined;
      const index = places ?? this.#constant(0, 'i32', line);
      const scalar = own === null || !rank;
      const asBlock = (x: Value) => (scalar ? x : this.#spread(x, line));
      const [position, shapeOfIt] = scalar ? [this.#int(0), [] as number[]] : [index, line];
      if (places && to[i] !== n) limit(position, COMPARE.lt.signed, this.#constant(n, 'i32', line), shapeOfIt);
      if (known === undefined || high * (own ?? 1) + known + n > size)
        limit(position, COMPARE.lt.signed, asBlock(this.#binary('arith.subi', this.#int(size), from)), shapeOfIt);
      if (known === undefined || low * (own ?? 1) + known < 0)
        limit(position, COMPARE.ge.signed, asBlock(this.#binary('arith.subi', this.#int(0), from)), shapeOfIt);
      if (own === null || !masked) return;
      const most = ref.shape[i]!;
      if (known === undefined || known + n > most)
        limit(position, COMPARE.lt.signed, asBlock(this.#binary('arith.subi', this.#int(most), at[i]!)), shapeOfIt);
      if (known === undefined || known < 0)
        limit(position, COMPARE.ge.signed, asBlock(this.#binary('arith.subi', this.#int(0), at[i]!)), shapeOfIt);
    });
    const pointer = this.#pointers.get(ref)!;
    const first = base ? this.#w.pure('tt.addptr', [pointer, base], pointer.type) : pointer;
    const offset = terms.length ? terms.reduce((a, b) => this.#binary('arith.addi', a, b)) : undefined;
    const all = this.#spread(first, to);
    const pointers = offset ? this.#w.pure('tt.addptr', [all, offset], all.type) : all;
    return { pointers, allowed: masks.length ? masks.reduce((a, b) => this.#binary('arith.andi', a, b)) : undefined };
  }

  #load(s: Statement<'load'>, xs: readonly Value[]): Value {
    const { ref, masked } = s.attrs;
    const { shape, dtype } = s.outs[0]!;
    const to = shape.map(padded);
    const at = xs.slice(0, ref.shape.length);
    const [mask, other] = masked ? xs.slice(ref.shape.length) : [];
    const chosen = (x: Value): Value => {
      const instead = masked && this.#reach.constant(s.inputs[ref.shape.length + 1]!);
      return mask && instead !== 0 ? this.#select(mask, x, this.#spread(other!, to)) : x;
    };
    if (ref.role === 'scratch') {
      const x = this.#scratchPart(s, at, shape);
      return mask ? this.#select(mask, x, this.#spread(other!, to)) : x;
    }
    this.#settle(s);
    const { pointers, allowed } = this.#part(s, at, shape, mask);
    const type = typeOf(to, stored(dtype));
    const operands = allowed ? [allowed, this.#constant(0, dtype === 'bool' ? 'u8' : dtype, to)] : [];
    const [loaded] = this.#w.op('tt.load', [pointers, ...operands], [type], {
      properties: {
        cache: int(1),
        evict: int(1),
        isVolatile: 'false',
        operandSegmentSizes: array([1, ...(allowed ? [1, 1] : [0, 0])], 'i32'),
      },
    });
    return chosen(dtype === 'bool' ? this.#convert(loaded!, to, 'u8', 'bool') : loaded!);
  }

  #store(s: Statement<'store'>, xs: readonly Value[]): void {
    const { ref } = s.attrs;
    const at = xs.slice(0, ref.shape.length);
    const [value, mask] = xs.slice(ref.shape.length) as [Value, Value?];
    const { shape } = s.inputs[ref.shape.length]!;
    if (ref.role === 'scratch') {
      this.#keep(s, at, value, mask, shape);
      return;
    }
    this.#settle(s);
    const { pointers, allowed } = this.#part(s, at, shape, mask);
    const bytes = ref.dtype === 'bool' ? this.#convert(value, shape.map(padded), 'bool', 'u8') : value;
    this.#w.op('tt.store', [pointers, bytes, ...(allowed ? [allowed] : [])], [], {
      properties: { cache: int(1), evict: int(1) },
    });
  }

  // Scratch memory is a value: threads hold it in registers. A part of it is a whole dimension or one element of it.

  /** For each dimension of which one element is used: which elements of the whole that are. */
  #picked(s: Statement<'load' | 'store'>, at: readonly Value[], shape: readonly number[]): (Value | undefined)[] {
    const { ref } = s.attrs;
    const whole = ref.shape.map(padded);
    return ref.shape.map((n, d) => {
      if (shape[d] === n && (n === 1 || this.#reach.constant(s.inputs[d]!) === 0)) return undefined;
      if (shape[d] !== 1)
        throw new Unsupported(
          `${s.kind} of a part of ${ref}: of scratch memory this form uses whole dimensions, or one element of them`,
        );
      const line = whole.map((m, i) => (i === d ? m : 1));
      const here = this.#compare(
        COMPARE.eq.signed,
        this.#range(whole[d]!, d, whole.length),
        this.#spread(at[d]!, line),
        line,
      );
      return this.#broadcast(here, line, whole, 'i1');
    });
  }
  #scratchPart(s: Statement<'load'>, at: readonly Value[], shape: readonly number[]): Value {
    const { ref } = s.attrs;
    const [whole, dtype] = [ref.shape.map(padded), widened(ref.dtype)];
    const kept = this.#scratch.get(ref)!;
    const picked = this.#picked(s, at, shape);
    if (!picked.some(Boolean)) return kept;
    let x = this.#convert(kept, whole, ref.dtype, dtype);
    const now = [...whole];
    for (const here of picked) if (here) x = this.#select(here, x, this.#constant(0, dtype, whole));
    picked.forEach((here, d) => {
      if (!here) return;
      x = this.#fold(x, now, d, dtype, plusOf(dtype));
      now[d] = 1;
      x = now.length === 1 ? this.#spread(x, now) : this.#expand(x, now, d, elementOf(dtype));
    });
    return this.#convert(x, now, dtype, ref.dtype);
  }
  #keep(
    s: Statement<'store'>,
    at: readonly Value[],
    value: Value,
    mask: Value | undefined,
    shape: readonly number[],
  ): void {
    const { ref } = s.attrs;
    const whole = ref.shape.map(padded);
    const part = shape.map(padded);
    const conditions = this.#picked(s, at, shape).filter((x) => x !== undefined);
    if (mask) conditions.push(this.#broadcast(mask, part, whole, 'i1'));
    const wide = this.#broadcast(value, part, whole, elementOf(ref.dtype));
    const where = conditions.length ? conditions.reduce((a, b) => this.#binary('arith.andi', a, b)) : undefined;
    this.#scratch.set(ref, where ? this.#select(where, wide, this.#scratch.get(ref)!) : wide);
  }
}

const plusOf = (dtype: DType): string =>
  isFloat(dtype) ? REDUCE.sum.float : dtype === 'bool' ? 'arith.ori' : REDUCE.sum.signed;
