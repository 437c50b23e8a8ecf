// What is known of a kernel before it runs: scalars that follow from the programs' numbers, how far its index maps reach, and
// whether its programs write every element of a result.
import { sizeOf } from '../base/dtype.js';
import { range, unravel } from '../base/shape.js';
import type { Block, Ref, Region, Statement } from './block.js';
import { COMPARE, type PointwiseName } from './operations.js';
import { blocksAlong, isKind, type KernelProgram, type Placed, shapeOf, statementsOf } from './program.js';

type Known = number | boolean;
type Binary = (a: number, b: number) => number;

const POINTWISE: Partial<Record<PointwiseName, Binary>> = {
  add: (a, b) => (a + b) | 0,
  sub: (a, b) => (a - b) | 0,
  mul: Math.imul,
  div: (a, b) => (b ? (a / b) | 0 : Number.NaN),
  rem: (a, b) => (b ? (a % b) | 0 : Number.NaN),
  max: Math.max,
  min: Math.min,
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
};

/** With more programs than this nothing is claimed. */
const MOST_PROGRAMS = 2 ** 18;
/** Every choice of one number below each size. */
function* points(sizes: readonly number[]): Generator<number[]> {
  const count = sizeOf(sizes);
  for (let n = 0; n < count; n++) yield unravel(n, sizes);
}

/** The least and the greatest block along each dimension of an array; undefined: unknown. */
export type Bounds = readonly (readonly [low: number, high: number])[] | undefined;

interface Store {
  readonly statement: Statement<'store'>;
  /** Of the `when`s around it; undefined: it is in a loop. */
  readonly conditions: readonly Block[] | undefined;
}

export class Reach {
  readonly #definitions = new Map<Block, Statement>();
  /** Parameters of index maps: dimensions of the grid. */
  readonly #params = new Map<Block, number>();
  readonly #grid: readonly number[];

  constructor(readonly kernel: KernelProgram) {
    this.#grid = kernel.grid.slice(kernel.lead);
    for (const { index } of kernel.placed) {
      this.#define(index);
      index.params.forEach((b, d) => void this.#params.set(b, d));
    }
    this.#define(kernel.body);
  }
  #define(region: Region): void {
    for (const s of statementsOf(region)) for (const b of s.outs) this.#definitions.set(b, s);
  }

  /** A scalar that is the same in all programs. */
  constant(b: Block): Known | undefined {
    const s = this.#definitions.get(b);
    return s && isKind(s, 'constant') ? s.attrs.value : undefined;
  }

  /** The dimensions of the grid that scalars depend on; undefined: on more than those. */
  #dims(blocks: readonly Block[]): number[] | undefined {
    const found = new Set<number>();
    const seen = new Set<Block>();
    const follow = (b: Block): boolean => {
      if (seen.has(b)) return true;
      seen.add(b);
      const param = this.#params.get(b);
      const s = this.#definitions.get(b);
      if (param !== undefined) found.add(param);
      else if (s && isKind(s, 'programId')) found.add(s.attrs.dim);
      else return b.shape.length === 0 && !!s && isScalar(s) && s.inputs.every(follow);
      return true;
    };
    return blocks.every(follow) ? [...found].sort((a, b) => a - b) : undefined;
  }
  #value(b: Block, ids: readonly number[], known: Map<Block, Known>): Known {
    const before = known.get(b);
    if (before !== undefined) return before;
    const param = this.#params.get(b);
    const s = this.#definitions.get(b);
    const value = param !== undefined ? ids[param]! : this.#compute(s!, ids, known);
    known.set(b, value);
    return value;
  }
  #compute(s: Statement, ids: readonly number[], known: Map<Block, Known>): Known {
    if (isKind(s, 'programId')) return ids[s.attrs.dim]!;
    if (isKind(s, 'constant')) return s.attrs.value;
    const [a, b, c] = s.inputs.map((x) => this.#value(x, ids, known));
    if (isKind(s, 'select')) return a ? b! : c!;
    if (isKind(s, 'compare')) return COMPARE[s.attrs.name].holds(Number(a), Number(b));
    const { name } = (s as Statement<'pointwise'>).attrs;
    const value = POINTWISE[name]!(Number(a), Number(b));
    return s.outs[0]!.dtype === 'bool' ? Boolean(value) : value;
  }

  /** Calls `visit` for each program, as far as these scalars can tell them apart; false: there is no telling. */
  #each(blocks: readonly Block[], visit: (values: (b: Block) => Known) => void, more: readonly number[] = []): boolean {
    const used = this.#dims(blocks);
    if (!used) return false;
    const dims = [...new Set([...used, ...more])];
    if (dims.reduce((n, d) => n * this.#grid[d]!, 1) > MOST_PROGRAMS) return false;
    for (const point of points(dims.map((d) => this.#grid[d]!))) {
      const ids = this.#grid.map(() => 0);
      dims.forEach((d, i) => void (ids[d] = point[i]!));
      const known = new Map<Block, Known>();
      visit((b) => this.#value(b, ids, known));
    }
    return true;
  }

  bounds(p: Placed): Bounds {
    const lead = p.lead.flatMap((is, d) => (is ? [[0, this.kernel.grid[d]! - 1] as [number, number]] : []));
    const own = p.index.results.map((): [number, number] => [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]);
    const isKnown = this.#each(p.index.results, (value) => {
      p.index.results.forEach((b, d) => {
        const n = Number(value(b));
        own[d] = [Math.min(own[d]![0], n), Math.max(own[d]![1], n)];
      });
    });
    return isKnown && !own.flat().some(Number.isNaN) ? [...lead, ...own] : undefined;
  }

  /** Whether every element of a result is certainly written, and nothing of it is read. */
  isWritten(p: Placed): boolean {
    const { ref } = p;
    for (const s of statementsOf(this.kernel.body)) if (isKind(s, 'load') && s.attrs.ref === ref) return false;
    const stores = [...storesOf(this.kernel.body, ref)].filter(
      ({ statement, conditions }) =>
        conditions && !statement.attrs.masked && this.#dims(conditions) && this.#box(statement),
    );
    if (!stores.length || stores.length > 30) return false;
    const own = p.index.results;
    const shape = shapeOf(p.block);
    const blocks = blocksAlong(p).slice(p.lead.filter(Boolean).length);
    if (blocks.reduce((n, d) => n * d, 1) > MOST_PROGRAMS) return false;
    const written = new Map<string, number>(); // which of the stores each block has seen
    const conditions = stores.flatMap((s) => s.conditions!);
    const isKnown = this.#each([...own, ...conditions], (value) => {
      const at = own.map((b) => value(b)).join();
      const bits = stores.reduce((n, s, i) => n | (Number(s.conditions!.every((c) => value(c))) << i), 0);
      written.set(at, (written.get(at) ?? 0) | bits);
    });
    if (!isKnown) return false;
    const enough = new Map<number, boolean>();
    const covers = (bits: number): boolean => {
      const known =
        enough.get(bits) ??
        isCovered(
          shape,
          stores.flatMap((s, i) => (bits & (1 << i) ? [this.#box(s.statement)!] : [])),
        );
      enough.set(bits, known);
      return known;
    };
    for (const at of points(blocks)) if (!covers(written.get(at.join()) ?? 0)) return false;
    return true;
  }
  /** The part of a block that is written: where it begins, and its shape. */
  /** Whether a result is only stored to, in parts that have no element in common. */
  isInParts(ref: Ref): boolean {
    const boxes: Box[] = [];
    for (const s of statementsOf(this.kernel.body)) {
      if (isKind(s, 'load') && s.attrs.ref === ref) return false;
      if (!isKind(s, 'store') || s.attrs.ref !== ref) continue;
      const box = this.#box(s);
      if (!box || boxes.some((b) => meet(b, box))) return false;
      boxes.push(box);
    }
    return true;
  }
  #box({ inputs, attrs: { ref } }: Statement<'store'>): Box | undefined {
    const at = inputs.slice(0, ref.shape.length).map((b) => this.constant(b));
    const { shape } = inputs[ref.shape.length]!;
    return at.includes(undefined) ? undefined : { at: at.map(Number), shape };
  }
}

interface Box {
  readonly at: readonly number[];
  readonly shape: readonly number[];
}
const meet = (a: Box, b: Box): boolean =>
  a.at.every((x, d) => x < b.at[d]! + b.shape[d]! && b.at[d]! < x + a.shape[d]!);
/** Whether boxes fill a block: counted in the cells between their edges. */
function isCovered(shape: readonly number[], boxes: readonly Box[]): boolean {
  const edges = shape.map((n, d) =>
    [...new Set([0, ...boxes.flatMap((b) => [b.at[d]!, b.at[d]! + b.shape[d]!])])]
      .filter((x) => x < n)
      .sort((a, b) => a - b),
  );
  for (const cell of points(edges.map((e) => e.length))) {
    const at = cell.map((i, d) => edges[d]![i]!);
    if (!boxes.some((b) => at.every((x, d) => x >= b.at[d]! && x < b.at[d]! + b.shape[d]!))) return false;
  }
  return true;
}

const isScalar = (s: Statement): boolean =>
  isKind(s, 'constant') ||
  isKind(s, 'compare') ||
  isKind(s, 'select') ||
  (isKind(s, 'pointwise') && s.attrs.name in POINTWISE && !s.outs[0]!.dtype.includes('f'));

function* storesOf(region: Region, ref: Ref, conditions: readonly Block[] | undefined = []): Generator<Store> {
  for (const s of region.body) {
    if (isKind(s, 'store') && s.attrs.ref === ref) yield { statement: s, conditions };
    const inner = isKind(s, 'when') && conditions ? [...conditions, s.inputs[0]!] : undefined;
    for (const r of s.regions) yield* storesOf(r, ref, inner);
  }
}

/** The references that a region stores to, itself or in regions inside it. */
export function storedIn(region: Region): Set<Ref> {
  return new Set([...statementsOf(region)].flatMap((s) => (isKind(s, 'store') ? [s.attrs.ref] : [])));
}
/** Strides of a row-major array, in elements. */
export const stridesOf = (shape: readonly number[]): number[] =>
  range(shape.length).map((d) => shape.slice(d + 1).reduce((n, m) => n * m, 1));
