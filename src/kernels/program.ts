// A kernel as it is traced: its grid, where its blocks lie, and its statements. The three lowerings read it; its JSON is the
// part of the cache key that says which kernel it is.
import { createHash } from 'node:crypto';
import { type ArrayType, checkDTypeName } from '../base/dtype.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { noticeOnce } from '../base/log.js';
import { checkOptions } from '../base/options.js';
import { range } from '../base/shape.js';
import { Aval } from '../ir/aval.js';
import { placeOf } from '../ir/source.js';
import { Block, full, type Kind, type Operand, Ref, type Region, record, type Statement } from './block.js';

/** Which part of an array each program of the grid has. */
export interface BlockSpec {
  /** Its shape; null: one element, of a dimension that the kernel does not see. */
  readonly shape: readonly (number | null)[];
  /** From the program's numbers to the block's, counted in blocks. */
  readonly index: (...ids: Block[]) => readonly Operand[];
}
export interface OutSpec extends Partial<BlockSpec> {
  /** The whole result. */
  readonly of: ArrayType;
}

export interface KernelOptions {
  /** How many programs run, in each of up to four dimensions. */
  readonly grid: readonly number[];
  /** One for each operand. Default, also for null: every program has the whole array. */
  readonly in?: readonly (BlockSpec | null)[];
  /** The result, or several. */
  readonly out: OutSpec | readonly OutSpec[];
  /** Memory of a program's own, which keeps its contents along the sequential dimensions of the grid. */
  readonly scratch?: readonly ArrayType[];
  /** Dimensions of the grid, the last ones, whose programs run one after the other. All others may run at once. Default: none. */
  readonly sequential?: readonly number[];
  /** On a GPU: warps of 32 threads for each program. Default: 4. */
  readonly warps?: number;
  /** On a GPU: how many loads of a loop are in flight. Default: 2. */
  readonly stages?: number;
}

/** An array of the kernel and its blocks. */
export interface Placed {
  readonly array: Aval;
  readonly block: readonly (number | null)[];
  /** From the numbers of the grid's own dimensions (not those that vmap added) to the block's. */
  readonly index: Region;
  /** For each dimension that vmap added to the grid: whether it counts along a dimension in front of `block`. */
  readonly lead: readonly boolean[];
  readonly ref: Ref;
}

export const shapeOf = (block: readonly (number | null)[]): number[] => block.filter((n) => n !== null);
/** How many blocks lie along each dimension of an array. */
export const blocksAlong = ({ array, block }: Pick<Placed, 'array' | 'block'>): number[] =>
  array.shape.map((n, d) => Math.ceil(n / (block[d] ?? 1)));

export class KernelProgram {
  constructor(
    readonly name: string,
    /** Dimensions that vmap added come first. */
    readonly grid: readonly number[],
    readonly sequential: readonly boolean[],
    readonly inputs: readonly Placed[],
    readonly outputs: readonly Placed[],
    readonly scratch: readonly Ref[],
    readonly body: Region,
    readonly tuning: { readonly warps?: number; readonly stages?: number },
    /** How many dimensions of the grid vmap added. */
    readonly lead = 0,
  ) {}

  get placed(): readonly Placed[] {
    return [...this.inputs, ...this.outputs];
  }

  /** The same for n examples; `stacked`: which operands have a dimension more in front. All results do. */
  batch(n: number, stacked: readonly boolean[]): KernelProgram {
    const more = (p: Placed, is: boolean): Placed => ({
      ...p,
      array: is ? p.array.withShape([n, ...p.array.shape]) : p.array,
      block: is ? [null, ...p.block] : p.block,
      lead: [is, ...p.lead],
    });
    return new KernelProgram(
      this.name,
      [n, ...this.grid],
      [false, ...this.sequential],
      this.inputs.map((p, i) => more(p, stacked[i]!)),
      this.outputs.map((p) => more(p, true)),
      this.scratch,
      this.body,
      this.tuning,
      this.lead + 1,
    );
  }

  /** For explanations: kernels of one name that differ have other digests. */
  toString(): string {
    const digest = createHash('sha256').update(this.toJSON()).digest('hex').slice(0, 8);
    return `${this.name} ${digest} (grid ${this.grid.join(' x ')})`;
  }

  #json: string | undefined;
  toJSON(): string {
    return (this.#json ??= describe(this));
  }
}

/** Every statement of a region and of those inside it. */
export function* statementsOf(region: Region): Generator<Statement> {
  for (const s of region.body) {
    yield s;
    for (const inner of s.regions) yield* statementsOf(inner);
  }
}
export const isKind = <K extends Kind>(s: Statement, kind: K): s is Statement<K> => s.kind === kind;

function describe(k: KernelProgram): string {
  const numbers = new Map<Block, number>();
  const number = (b: Block): number => {
    const known = numbers.get(b) ?? numbers.size;
    numbers.set(b, known);
    return known;
  };
  const region = (r: Region): unknown => [
    r.params.map(number),
    r.body.map((s) => [
      s.kind,
      s.inputs.map(number),
      s.outs.map((b) => [number(b), b.dtype, b.shape]),
      { ...s.attrs, ref: 'ref' in (s.attrs ?? {}) ? String((s.attrs as { ref: Ref }).ref) : undefined },
      s.regions.map(region),
    ]),
    r.results.map(number),
  ];
  const placed = (p: Placed) => [p.array.id, p.block, p.lead, region(p.index)];
  return JSON.stringify([
    k.name,
    k.grid,
    k.sequential,
    k.inputs.map(placed),
    k.outputs.map(placed),
    k.scratch.map(String),
    region(k.body),
    k.tuning,
  ]);
}

// ---- tracing

const ofEmpty = (x: Aval): string =>
  `${x} is empty and the result is not: no program would write it. Compute this case without the kernel`;

const whole = (t: ArrayType): BlockSpec => ({ shape: t.shape, index: () => t.shape.map(() => 0) });
const MOST_DIMS = 4;
const OPTIONS: readonly (keyof KernelOptions)[] = ['grid', 'in', 'out', 'scratch', 'sequential', 'warps', 'stages'];

const outsOf = ({ out }: KernelOptions): readonly OutSpec[] => (Array.isArray(out) ? out : [out as OutSpec]);
/** The types of results that have no elements: nothing has to be run or traced for them. Undefined if some have. */
export function emptyResults(options: KernelOptions | null | undefined): readonly Aval[] | undefined {
  const types = options ? outsOf(options).map((o) => o?.of) : [];
  const areEmpty = types.length > 0 && types.every((t) => t?.dtype && Array.isArray(t.shape) && t.shape.includes(0));
  return areEmpty ? types.map((t) => Aval.of(t.dtype, t.shape)) : undefined;
}

/** Calls a kernel's function once, on references to its blocks. */
export function traceKernel(
  name: string,
  run: (...refs: Ref[]) => unknown,
  operands: readonly Aval[],
  options: KernelOptions,
): KernelProgram {
  const where = `kernel ${name}`;
  if (typeof options !== 'object' || options === null)
    throw new ArgumentError(
      `${where}: it has no options: give { grid, out }, or a function of the operands' types to them`,
    );
  const { grid, sequential = [], scratch = [] } = options;
  checkOptions(where, OPTIONS, options);
  if (!Array.isArray(grid) || grid.length > MOST_DIMS || grid.some((n) => !Number.isInteger(n) || n < 1)) {
    const empty = operands.find((x) => x.size === 0);
    throw new ArgumentError(
      `${where}: grid is ${Array.isArray(grid) ? `[${grid}]` : grid}: takes a list of up to ${MOST_DIMS} whole numbers from 1 on${empty ? `. ${ofEmpty(empty)}` : ''}`,
    );
  }
  const order = range(grid.length).map((d) => sequential.includes(d) || sequential.includes(d - grid.length));
  if (order.includes(true) && !order.slice(order.indexOf(true)).every(Boolean))
    throw new ArgumentError(`${where}: sequential [${sequential}]: must be the last dimensions of the grid`);
  const ins = options.in ?? [];
  if (ins.length > operands.length)
    throw new ArgumentError(`${where}: ${ins.length} blocks (in) for ${operands.length} operands`);
  const outs = outsOf(options);
  const shapeless = outs.findIndex((o) => !o?.of?.dtype || !Array.isArray(o.of.shape));
  if (shapeless >= 0 || !outs.length)
    throw new ArgumentError(
      `${where}: out says no type: write out: { of: { dtype: 'f32', shape: [4, 4] } }, or of: a tensor`,
    );
  for (const { of } of outs) checkDTypeName(`${where}: out`, of.dtype);
  for (const { dtype } of scratch) checkDTypeName(`${where}: scratch`, dtype);
  const place = (role: 'input' | 'output', array: Aval, given: Partial<BlockSpec> | null, i: number): Placed => {
    const spec = { ...whole(array), ...given } as BlockSpec;
    const what = `${where}: ${role} ${i}`;
    if (array.size === 0) throw new ShapeError(`${what}: ${ofEmpty(array)}`);
    if (spec.shape.length !== array.rank || spec.shape.some((n) => n !== null && (!Number.isInteger(n) || n < 1)))
      throw new ShapeError(
        `${what}: a block of shape [${spec.shape}] of ${array}: takes a size, or null, for each dimension`,
      );
    const ids = grid.map(() => new Block('i32', []));
    const index = record(`${name}, index of ${role} ${i}`, undefined, ids, () => {
      const found = spec.index(...ids);
      if (!Array.isArray(found) || found.length !== array.rank)
        throw new ShapeError(
          `${what}: its index map gives ${Array.isArray(found) ? `${found.length} ${found.length === 1 ? 'index' : 'indices'}` : `${found}, not a list`}, and ${array} has ${plural(array.rank, 'dimension')}: return a list with one index for each`,
        );
      return found.map((x) => asScalar(what, x));
    });
    const ref = new Ref(array.dtype, shapeOf(spec.shape), role, i);
    return { array, block: spec.shape, index, lead: [], ref };
  };
  const inputs = operands.map((a, i) => place('input', a, ins[i] ?? null, i));
  const outputs = outs.map((o, i) => place('output', Aval.of(o.of.dtype, o.of.shape), o, i));
  const rooms = scratch.map((t, i) => new Ref(t.dtype, t.shape, 'scratch', i));
  const references = inputs.length + outputs.length + rooms.length;
  if (run.length > references)
    throw new ArgumentError(
      `${where}: its function takes ${run.length} references, and there are ${references}: of ${inputs.length} operands, ${outputs.length} results (out) and ${rooms.length} scratch`,
    );
  const body = record(name, grid.length, [], () => {
    const result = run(...inputs.map((p) => p.ref), ...outputs.map((p) => p.ref), ...rooms);
    if (result instanceof Promise) throw new ArgumentError(`${where}: its function is async: a kernel only describes`);
    if (result instanceof Block)
      throw new ArgumentError(
        `${where}: its function returns a block: store it in the reference of a result, y.store(...)`,
      );
    return [];
  });
  noteUnused(where, body);
  const written = new Set([...statementsOf(body)].flatMap((s) => (isKind(s, 'store') ? [s.attrs.ref] : [])));
  const forgotten = outputs.find((p) => !written.has(p.ref));
  if (forgotten) throw new ArgumentError(`${where}: ${forgotten.ref} is never stored to`);
  const { warps, stages } = options;
  const tuning = { ...(warps !== undefined && { warps }), ...(stages !== undefined && { stages }) };
  return new KernelProgram(name, grid, order, inputs, outputs, rooms, body, tuning);
}

/** A comparison that nothing uses was a condition of JavaScript's own `if`, for which every block is true. */
function noteUnused(where: string, body: Region): void {
  const all = [...statementsOf(body)];
  const used = new Set(all.flatMap((s) => [...s.inputs, ...s.regions.flatMap((r) => r.results)]));
  const unused = all.find((s): s is Statement<'compare'> => isKind(s, 'compare') && !used.has(s.outs[0]!));
  if (!unused) return;
  const line = placeOf(unused.source);
  noticeOnce(
    `${where}: nothing uses the result of ${unused.attrs.name}. A block is always true for if, ?:, && and while of JavaScript: use kernels.when, kernels.where and kernels.loop${line && `\n    at ${line}`}`,
  );
}

function asScalar(what: string, x: Operand): Block {
  if (x instanceof Block && x.dtype === 'i32' && x.shape.length === 0) return x;
  if (typeof x === 'number' && Number.isInteger(x)) return full([], x, 'i32');
  throw new ShapeError(`${what}: its index map gives ${x}: takes whole numbers and scalars`);
}
