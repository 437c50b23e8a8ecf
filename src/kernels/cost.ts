// What a kernel does, counted: every program of its grid is followed with the numbers it is given, so that parts that `when`
// leaves out, and blocks that stay where they are from one program to the next, cost nothing.
import { DTYPES, sizeOf } from '../base/dtype.js';
import { unravel } from '../base/shape.js';
import type { Block, Region, Statement } from './block.js';
import { COMPARE, type PointwiseName } from './operations.js';
import { isKind, type KernelProgram, type Placed } from './program.js';

export interface KernelCost {
  /** Of products: two for each multiplication with its addition. */
  readonly products: number;
  /** With one for each element that any other operation makes. */
  readonly flops: number;
  readonly transcendentals: number;
  /** Between main memory and the blocks. */
  readonly bytes: number;
}
type Work = Omit<KernelCost, 'bytes'>;

const TRANSCENDENTAL = new Set<PointwiseName>(['exp', 'log', 'sqrt', 'rsqrt', 'sin', 'cos', 'tanh', 'erf', 'div']);
/** Programs followed one by one; of a larger grid, first dimensions are followed once and multiplied. */
const MOST = 2 ** 15;

const known = new WeakMap<KernelProgram, KernelCost>();
export function kernelCost(kernel: KernelProgram): KernelCost {
  const cost = known.get(kernel) ?? count(kernel);
  known.set(kernel, cost);
  return cost;
}

function count(kernel: KernelProgram): KernelCost {
  const followed = [...kernel.grid];
  let times = 1;
  for (let d = 0; d < followed.length && sizeOf(followed) > MOST; d++) {
    times *= followed[d]!;
    followed[d] = 1;
  }
  const total = { products: 0, flops: 0, transcendentals: 0, bytes: 0 };
  const last = new Map<Placed, string>();
  const programs = sizeOf(followed);
  for (let n = 0; n < programs; n++) {
    const own = new Follower(kernel, unravel(n, followed));
    for (const p of kernel.placed) {
      const at = own.block(p);
      const place = at.join();
      if (last.get(p) === place) continue;
      last.set(p, place);
      total.bytes += bytesOf(p, at);
    }
    own.run(kernel.body);
    total.products += own.products;
    total.flops += own.flops;
    total.transcendentals += own.transcendentals;
  }
  return {
    products: total.products * times,
    flops: total.flops * times,
    transcendentals: total.transcendentals * times,
    bytes: total.bytes * times,
  };
}

/** Of a block, what of it lies in the array. */
function bytesOf({ array, block }: Placed, at: readonly (number | undefined)[]): number {
  const sizes = block.map((n, d) => {
    const first = (at[d] ?? 0) * (n ?? 1);
    return Math.max(0, Math.min(n ?? 1, array.shape[d]! - first));
  });
  return sizeOf(sizes) * DTYPES[array.dtype].bytes;
}

/** The scalars of one program, as far as its number decides them. */
class Follower implements Work {
  products = 0;
  flops = 0;
  transcendentals = 0;
  readonly #values = new Map<Block, number>();

  constructor(
    readonly kernel: KernelProgram,
    readonly ids: readonly number[],
  ) {}

  block(p: Placed): (number | undefined)[] {
    const own = this.ids.slice(this.kernel.lead);
    p.index.params.forEach((b, d) => this.#values.set(b, own[d]!));
    this.#scalars(p.index);
    const lead = this.ids.slice(0, this.kernel.lead).filter((_, d) => p.lead[d]);
    return [...lead, ...p.index.results.map((b) => this.#values.get(b))];
  }
  #scalars(region: Region): void {
    for (const s of region.body) this.#scalar(s);
  }

  run(region: Region): void {
    for (const s of region.body) {
      if (isKind(s, 'when')) {
        if (this.#values.get(s.inputs[0]!) !== 0) this.run(s.regions[0]!); // also where it is not known
      } else if (isKind(s, 'loop')) this.#loop(s);
      else {
        this.#scalar(s);
        this.#count(s);
      }
    }
  }
  #loop(s: Statement<'loop'>): void {
    const [first, end] = s.inputs.map((b) => this.#values.get(b));
    const [region] = s.regions as [Region];
    const runs = first === undefined || end === undefined ? 1 : Math.max(0, end - first);
    for (let i = 0; i < runs; i++) {
      region.params.forEach((p) => this.#values.delete(p));
      if (first !== undefined) this.#values.set(region.params[0]!, first + i);
      this.run(region);
    }
  }
  #count(s: Statement): void {
    const made = sizeOf(s.outs[0]?.shape ?? []);
    if (isKind(s, 'dot')) {
      const [a] = s.inputs as [Block];
      const products = 2 * made * a.shape[s.attrs.transposed[0] ? 0 : 1]!;
      this.products += products;
      this.flops += products;
    } else if (!s.outs[0]?.shape.length) return;
    else if (isKind(s, 'pointwise')) {
      this.flops += made;
      if (TRANSCENDENTAL.has(s.attrs.name)) this.transcendentals += made;
    } else if (isKind(s, 'compare') || isKind(s, 'select')) this.flops += made;
    else if (isKind(s, 'reduce')) this.flops += sizeOf(s.inputs[0]!.shape);
  }

  #scalar(s: Statement): void {
    const [out] = s.outs;
    if (!out || out.shape.length) return;
    const xs = s.inputs.map((b) => this.#values.get(b));
    const value = this.#valueOf(s, xs);
    if (value === undefined) this.#values.delete(out);
    else this.#values.set(out, value);
  }
  #valueOf(s: Statement, xs: readonly (number | undefined)[]): number | undefined {
    if (isKind(s, 'constant')) return Number(s.attrs.value);
    if (isKind(s, 'programId')) return this.ids[s.attrs.dim + this.kernel.lead];
    if (xs.some((x) => x === undefined)) return undefined;
    const [a, b, c] = xs as number[];
    if (isKind(s, 'pointwise')) return s.outs[0]!.dtype === 'f32' ? undefined : POINTWISE[s.attrs.name]?.(a!, b!);
    if (isKind(s, 'compare')) return Number(COMPARE[s.attrs.name].holds(a!, b!));
    if (isKind(s, 'select')) return a ? b : c;
    if (isKind(s, 'convert')) return s.outs[0]!.dtype === 'bool' ? Number(a !== 0) : a;
    return undefined;
  }
}

type Arithmetic = (a: number, b: number) => number;
const POINTWISE: Readonly<Partial<Record<PointwiseName, Arithmetic>>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => Math.trunc(a / b),
  rem: (a, b) => a % b,
  max: Math.max,
  min: Math.min,
  and: (a, b) => a & b,
  or: (a, b) => a | b,
};
