// A kernel as StableHLO: its programs one after the other, in a loop over the grid. This is the form for devices without a
// compiler for kernels, and the interpreter: `checked` also finds reads and writes that are out of bounds, and programs that
// write, or read, what another one wrote.

import { highest, lowest } from '../base/literal.js';
import { isUnsigned } from '../base/promote.js';
import { range } from '../base/shape.js';
import { Aval } from '../ir/aval.js';
import type { Emitter, Ssa } from '../ir/op.js';
import type { Source } from '../ir/source.js';
import { comparing, i64, i64s, keepingNaN, scalarConstant } from '../ops/prim/define.js';
import { precisionConfig } from '../ops/prim/precision.js';
import type { Block, Ref, Region, Statement } from './block.js';
import { COMPARE, POINTWISE, REDUCE } from './operations.js';
import { blocksAlong, isKind, type KernelProgram, type Placed } from './program.js';

const I32 = Aval.of('i32', []);
const typeOf = (b: { readonly dtype: Block['dtype']; readonly shape: readonly number[] }): Aval =>
  Aval.of(b.dtype, b.shape);

/** Something a check found: of which kind, where in the kernel. */
export interface Site {
  readonly what: string;
  readonly source: Source | undefined;
}

/** What changes while the programs run. */
interface State {
  /** Whole results, padded to whole blocks. */
  outputs: Ssa[];
  scratch: Ssa[];
  /** Of a check: for each element of a result, the number of the program that wrote it, from 1; and the first site found. */
  owners: Ssa[];
  found: Ssa[];
}
const flatten = (s: State): Ssa[] => [...s.outputs, ...s.scratch, ...s.owners, ...s.found];

class Lowering {
  readonly sites: Site[] = [];
  readonly #values = new Map<Block, Ssa>();
  #state!: State;
  #ids: Ssa[] = [];
  #me: Ssa = '';
  /** Where the blocks of this program begin, for each array. */
  #starts = new Map<Ref, Ssa[]>();
  readonly #inputs: Ssa[] = [];

  constructor(
    readonly e: Emitter,
    readonly kernel: KernelProgram,
    readonly checked: boolean,
  ) {}

  run(operands: readonly Ssa[]): Ssa[] {
    const { kernel } = this;
    kernel.inputs.forEach((p, i) => this.#inputs.push(this.#padded(p, operands[i]!)));
    const zeros = (type: Aval) => this.#fill(type, 0);
    const padded = kernel.outputs.map((p) => p.array.withShape(blocksAlong(p).map((n, d) => n * (p.block[d] ?? 1))));
    this.#state = {
      outputs: padded.map(zeros),
      scratch: kernel.scratch.map((r) => zeros(typeOf(r))),
      owners: this.checked ? padded.map((t) => zeros(t.withDType('i32'))) : [],
      found: this.checked ? [this.#int(0)] : [],
    };
    const programs = kernel.grid.reduce((n, d) => n * d, 1);
    this.#loop(this.#int(0), this.#int(programs), [], (i) => {
      this.#program(i);
      return [];
    });
    this.#state.owners.forEach((x, i) => {
      const { array, ref } = kernel.outputs[i]!;
      const written = this.#cut(x, array.withDType('i32'));
      const none = this.#compare('EQ', written, this.#fill(array.withDType('i32'), 0));
      this.#site(`no program writes some elements of ${ref}: they may be anything`, undefined, this.#any(none));
    });
    const results = this.#state.outputs.map((x, i) => this.#cut(x, kernel.outputs[i]!.array));
    return [...results, ...this.#state.found];
  }

  // ---- small things

  #int(n: number): Ssa {
    return scalarConstant(this.e, n, I32);
  }
  #fill(type: Aval, value: number | boolean | bigint): Ssa {
    return this.#spread(scalarConstant(this.e, value, type.withShape([])), type);
  }
  #spread(x: Ssa, type: Aval): Ssa {
    if (!type.rank) return x;
    return this.e.op('broadcast_in_dim', [x], [type], { broadcast_dimensions: i64s([]) })[0]!;
  }
  #binary(hlo: string, a: Ssa, b: Ssa): Ssa {
    return this.e.op(hlo, [a, b], [this.e.typeOf(a)])[0]!;
  }
  #compare(hlo: string, a: Ssa, b: Ssa): Ssa {
    const type = this.e.typeOf(a);
    return this.e.op('compare', [a, b], [type.withDType('bool')], comparing(hlo, type.dtype))[0]!;
  }
  #select(condition: Ssa, yes: Ssa, no: Ssa): Ssa {
    return this.e.op('select', [condition, yes, no], [this.e.typeOf(yes)])[0]!;
  }
  #padHigh(x: Ssa, high: readonly number[], low: readonly number[] = high.map(() => 0)): Ssa {
    if (![...high, ...low].some(Boolean)) return x;
    const type = this.e.typeOf(x);
    const shape = type.shape.map((n, d) => n + high[d]! + low[d]!);
    const zero = scalarConstant(this.e, 0, type.withShape([]));
    const none = i64s(high.map(() => 0));
    return this.e.op('pad', [x, zero], [type.withShape(shape)], {
      edge_padding_low: i64s(low),
      edge_padding_high: i64s(high),
      interior_padding: none,
    })[0]!;
  }
  #padded(p: Placed, x: Ssa): Ssa {
    return this.#padHigh(
      x,
      blocksAlong(p).map((n, d) => n * (p.block[d] ?? 1) - p.array.shape[d]!),
    );
  }
  #cut(x: Ssa, to: Aval): Ssa {
    if (this.e.typeOf(x) === to) return x;
    return this.e.op('slice', [x], [to], {
      start_indices: i64s(to.shape.map(() => 0)),
      limit_indices: i64s(to.shape),
      strides: i64s(to.shape.map(() => 1)),
    })[0]!;
  }
  #reshape(x: Ssa, shape: readonly number[]): Ssa {
    const type = this.e.typeOf(x).withShape(shape);
    return type === this.e.typeOf(x) ? x : this.e.op('reshape', [x], [type])[0]!;
  }
  #slice(x: Ssa, starts: readonly Ssa[], shape: readonly number[]): Ssa {
    if (!shape.length) return x;
    return this.e.op('dynamic_slice', [x, ...starts], [this.e.typeOf(x).withShape(shape)], {
      slice_sizes: i64s(shape),
    })[0]!;
  }
  #update(x: Ssa, part: Ssa, starts: readonly Ssa[]): Ssa {
    if (!starts.length) return part;
    return this.e.op('dynamic_update_slice', [x, part, ...starts], [this.e.typeOf(x)])[0]!;
  }

  /** A loop of the device that carries these values and the state. */
  #loop(first: Ssa, end: Ssa, init: readonly Ssa[], body: (i: Ssa, carried: readonly Ssa[]) => readonly Ssa[]) {
    const { e } = this;
    const shape = (s: State) => [s.outputs.length, s.scratch.length, s.owners.length, s.found.length];
    const sizes = shape(this.#state);
    const unflatten = (all: readonly Ssa[]): State => {
      let i = 0;
      const take = (n: number) => all.slice(i, (i += n));
      const [a, b, c, d] = sizes.map(take) as [Ssa[], Ssa[], Ssa[], Ssa[]];
      return { outputs: [...a], scratch: [...b], owners: [...c], found: [...d] };
    };
    const start = [first, end, ...init, ...flatten(this.#state)];
    const types = start.map((x) => e.typeOf(x));
    const go = e.region(types, (p) => [this.#compare('LT', p[0]!, p[1]!)]);
    const pass = e.region(types, (p) => {
      this.#state = unflatten(p.slice(2 + init.length));
      const next = body(p[0]!, p.slice(2, 2 + init.length));
      return [this.#binary('add', p[0]!, this.#int(1)), p[1]!, ...next, ...flatten(this.#state)];
    });
    const all = e.op('while', start, types, {}, [go, pass]);
    this.#state = unflatten(all.slice(2 + init.length));
    return all.slice(2, 2 + init.length);
  }

  // ---- one program

  #program(i: Ssa): void {
    const { e, kernel } = this;
    this.#ids = [];
    let rest = i;
    for (const n of [...kernel.grid].reverse()) {
      this.#ids.unshift(this.#binary('remainder', rest, this.#int(n)));
      rest = this.#binary('divide', rest, this.#int(n));
    }
    if (this.checked) this.#me = this.#parallelNumber();
    kernel.placed.forEach((p) => {
      const own = this.#ids.slice(kernel.lead);
      p.index.params.forEach((b, d) => this.#values.set(b, own[d]!));
      this.#statements(p.index.body);
      const lead = this.#ids.slice(0, kernel.lead).filter((_, d) => p.lead[d]);
      const blocks = [...lead, ...p.index.results.map((b) => this.#values.get(b)!)];
      if (this.checked) this.#checkIndex(p, blocks);
      this.#starts.set(
        p.ref,
        blocks.map((b, d) => (p.block[d] ? this.#binary('multiply', b, this.#int(p.block[d])) : b)),
      );
    });
    // Scratch memory keeps its contents along sequential dimensions only; elsewhere each program begins with zeros.
    if (kernel.scratch.length && !kernel.sequential.every(Boolean)) {
      const firsts = this.#ids
        .filter((_, d) => kernel.sequential[d])
        .map((id) => this.#compare('EQ', id, this.#int(0)));
      const zeros = this.#state.scratch.map((x) => this.#fill(e.typeOf(x), 0));
      this.#state.scratch = firsts.length
        ? this.#state.scratch.map((x, j) => {
            const first = firsts.reduce((a, b) => this.#binary('and', a, b));
            return this.#select(this.#spread(first, e.typeOf(x).withDType('bool')), zeros[j]!, x);
          })
        : zeros;
    }
    this.#statements(kernel.body.body);
  }

  #parallelNumber(): Ssa {
    let n = this.#int(0);
    this.kernel.grid.forEach((size, d) => {
      if (this.kernel.sequential[d]) return;
      n = this.#binary('add', this.#binary('multiply', n, this.#int(size)), this.#ids[d]!);
    });
    return this.#binary('add', n, this.#int(1));
  }

  #statements(body: readonly Statement[]): void {
    for (const s of body) this.#statement(s);
  }
  #of(b: Block): Ssa {
    return this.#values.get(b)!;
  }
  #set(s: Statement, ...made: Ssa[]): void {
    s.outs.forEach((b, i) => this.#values.set(b, made[i]!));
  }

  #statement(s: Statement): void {
    const { e } = this;
    const xs = s.inputs.map((b) => this.#of(b));
    const out = s.outs[0] && typeOf(s.outs[0]);
    const simple = (hlo: string, attrs: Readonly<Record<string, string>> = {}) =>
      this.#set(s, e.op(hlo, xs, [out!], attrs)[0]!);
    if (isKind(s, 'constant')) this.#set(s, this.#fill(out!, s.attrs.value));
    else if (isKind(s, 'iota')) simple('iota', { iota_dimension: i64(s.attrs.dim) });
    else if (isKind(s, 'pointwise')) {
      const { hlo, operands } = POINTWISE[s.attrs.name];
      if (operands === 2) this.#set(s, keepingNaN(e, shiftOf(hlo, out!), xs, out!));
      else simple(hlo);
    } else if (isKind(s, 'compare')) this.#set(s, this.#compare(COMPARE[s.attrs.name].hlo, xs[0]!, xs[1]!));
    else if (isKind(s, 'select')) simple('select');
    else if (isKind(s, 'convert')) simple('convert');
    else if (isKind(s, 'broadcast'))
      simple('broadcast_in_dim', { broadcast_dimensions: i64s(range(e.typeOf(xs[0]!).rank)) });
    else if (isKind(s, 'expand') || isKind(s, 'squeeze')) simple('reshape');
    else if (isKind(s, 'transpose')) simple('transpose', { permutation: i64s(s.attrs.perm) });
    else if (isKind(s, 'reduce')) this.#set(s, this.#reduce(s, xs[0]!, out!));
    else if (isKind(s, 'dot')) {
      const [a, b] = s.attrs.transposed;
      const numbers = `lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [${a ? 0 : 1}], rhs_contracting_dimensions = [${b ? 1 : 0}]`;
      simple('dot_general', {
        dot_dimension_numbers: `#stablehlo.dot<${numbers}>`,
        ...(s.attrs.precision === 'highest' && precisionConfig(e, xs[0]!, 'highest')),
      });
    } else if (isKind(s, 'programId')) this.#set(s, this.#ids[s.attrs.dim + this.kernel.lead]!);
    else if (isKind(s, 'load')) this.#set(s, this.#load(s, xs));
    else if (isKind(s, 'store')) this.#store(s, xs);
    else if (isKind(s, 'loop')) {
      const [first, end, ...init] = xs as [Ssa, Ssa, ...Ssa[]];
      const [region] = s.regions as [Region];
      const carried = this.#loop(first, end, init, (i, now) => {
        [i, ...now].forEach((x, j) => this.#values.set(region.params[j]!, x));
        this.#statements(region.body);
        return region.results.map((b) => this.#of(b));
      });
      this.#set(s, ...carried);
    } else if (isKind(s, 'when')) this.#when(s, xs[0]!);
  }

  #reduce(s: Statement<'reduce'>, x: Ssa, out: Aval): Ssa {
    const { e } = this;
    const { name, dim } = s.attrs;
    const scalar = out.withShape([]);
    const start = name === 'sum' ? 0 : name === 'max' ? lowest(out.dtype) : highest(out.dtype);
    const body = e.region([scalar, scalar], (p) => [keepingNaN(e, REDUCE[name].hlo, p, scalar)]);
    return e.op('reduce', [x, scalarConstant(e, start, scalar)], [out], { dimensions: i64s([dim]) }, [body])[0]!;
  }

  #when(s: Statement<'when'>, condition: Ssa): void {
    const { e } = this;
    const before = this.#state;
    const all = flatten(before);
    const types = all.map((x) => e.typeOf(x));
    const copy = (): State => ({
      outputs: [...before.outputs],
      scratch: [...before.scratch],
      owners: [...before.owners],
      found: [...before.found],
    });
    const yes = e.region([], () => {
      this.#state = copy();
      this.#statements(s.regions[0]!.body);
      return flatten(this.#state);
    });
    const no = e.region([], () => all);
    const results = all.length ? e.op('if', [condition], types, {}, [yes, no]) : [];
    let i = 0;
    const take = (list: Ssa[]) => list.map(() => results[i++]!);
    this.#state = {
      outputs: take(before.outputs),
      scratch: take(before.scratch),
      owners: take(before.owners),
      found: take(before.found),
    };
  }

  // ---- memory

  /** Where a reference's block lies: in which array, from where on, and its shape there, with the dimensions it does not show. */
  #home(ref: Ref): { array: Ssa; starts: Ssa[]; block: readonly (number | null)[]; set: (x: Ssa) => void } {
    const list = { input: this.#inputs, output: this.#state.outputs, scratch: this.#state.scratch }[ref.role];
    const placed = { input: this.kernel.inputs, output: this.kernel.outputs, scratch: [] as Placed[] }[ref.role][
      ref.index
    ];
    return {
      array: list[ref.index]!,
      starts: placed ? this.#starts.get(ref)! : ref.shape.map(() => this.#int(0)),
      block: placed ? placed.block : ref.shape,
      set: (x) => void (list[ref.index] = x),
    };
  }
  #inBlock(block: readonly (number | null)[], visible: readonly number[]): number[] {
    let i = 0;
    return block.map((n) => (n === null ? 1 : visible[i++]!));
  }
  #offsets(block: readonly (number | null)[], starts: readonly Ssa[], at: readonly Ssa[]): Ssa[] {
    let i = 0;
    return block.map((n, d) => (n === null ? starts[d]! : this.#binary('add', starts[d]!, at[i++]!)));
  }
  /** Whether a part reaches beyond its block: then it is read, and written, in a copy with room around it. */
  #reaches(s: Statement<'load' | 'store'>, shape: readonly number[]): boolean {
    const ref = s.attrs.ref;
    return s.attrs.masked && !(shape.length === ref.shape.length && shape.every((n, d) => n === ref.shape[d]));
  }
  #part(ref: Ref, at: readonly Ssa[], shape: readonly number[], roomy: boolean): Ssa {
    const { array, starts, block } = this.#home(ref);
    if (!roomy) {
      const part = this.#slice(array, this.#offsets(block, starts, at), this.#inBlock(block, shape));
      return this.#reshape(part, shape);
    }
    const own = this.#reshape(this.#slice(array, starts, this.#inBlock(block, ref.shape)), ref.shape);
    const room = this.#padHigh(own, shape, shape);
    const from = at.map((x, d) => this.#binary('add', x, this.#int(shape[d]!)));
    return this.#slice(room, from, shape);
  }

  #load(s: Statement<'load'>, xs: readonly Ssa[]): Ssa {
    const { ref, masked } = s.attrs;
    const { shape } = s.outs[0]!;
    const at = xs.slice(0, ref.shape.length);
    const [mask, other] = masked ? xs.slice(ref.shape.length) : [];
    if (this.checked) this.#checkAccess(s, at, shape, mask);
    const x = this.#part(ref, at, shape, this.#reaches(s, shape));
    return mask ? this.#select(mask, x, this.#spread(other!, this.e.typeOf(x))) : x;
  }

  #store(s: Statement<'store'>, xs: readonly Ssa[]): void {
    const { ref } = s.attrs;
    const at = xs.slice(0, ref.shape.length);
    const [value, mask] = xs.slice(ref.shape.length) as [Ssa, Ssa?];
    const { shape } = this.e.typeOf(value);
    if (this.checked) this.#checkAccess(s, at, shape, mask);
    const { array, set } = this.#home(ref);
    set(this.#written(array, ref, at, value, mask, this.#reaches(s, shape)));
  }

  /** The array with a part of a block replaced. */
  #written(array: Ssa, ref: Ref, at: readonly Ssa[], value: Ssa, mask: Ssa | undefined, roomy: boolean): Ssa {
    const { starts, block } = this.#home(ref);
    const { shape } = this.e.typeOf(value);
    const put = (part: Ssa, offsets: Ssa[], visible: readonly number[]) =>
      this.#update(array, this.#reshape(part, this.#inBlock(block, visible)), offsets);
    if (!roomy) {
      const offsets = this.#offsets(block, starts, at);
      const old = () => this.#reshape(this.#slice(array, offsets, this.#inBlock(block, shape)), shape);
      return put(mask ? this.#select(mask, value, old()) : value, offsets, shape);
    }
    const own = this.#reshape(this.#slice(array, starts, this.#inBlock(block, ref.shape)), ref.shape);
    const room = this.#padHigh(own, shape, shape);
    const from = at.map((x, d) => this.#binary('add', x, this.#int(shape[d]!)));
    const next = this.#update(room, this.#select(mask!, value, this.#slice(room, from, shape)), from);
    const back = this.#slice(
      next,
      shape.map((n) => this.#int(n)),
      ref.shape,
    );
    return put(back, starts, ref.shape);
  }

  // ---- checks

  #site(what: string, source: Source | undefined, bad: Ssa): void {
    this.sites.push({ what, source });
    const code = this.#int(this.sites.length);
    const [was] = this.#state.found as [Ssa];
    const isNew = this.#binary('and', bad, this.#compare('EQ', was, this.#int(0)));
    this.#state.found = [this.#select(isNew, code, was)];
  }
  #any(x: Ssa): Ssa {
    const { e } = this;
    const type = e.typeOf(x);
    if (!type.rank) return x;
    const scalar = type.withShape([]);
    const body = e.region([scalar, scalar], ([a, b]) => [this.#binary('or', a!, b!)]);
    const none = scalarConstant(e, false, scalar);
    return e.op('reduce', [x, none], [scalar], { dimensions: i64s(range(type.rank)) }, [body])[0]!;
  }
  #checkIndex(p: Placed, blocks: readonly Ssa[]): void {
    const most = blocksAlong(p);
    blocks.forEach((b, d) => {
      const out = this.#binary('or', this.#compare('LT', b, this.#int(0)), this.#compare('GE', b, this.#int(most[d]!)));
      this.#site(`the index map of ${p.ref} leaves the array: dimension ${d} has ${most[d]} blocks`, undefined, out);
    });
  }
  #checkAccess(
    s: Statement<'load' | 'store'>,
    at: readonly Ssa[],
    shape: readonly number[],
    mask: Ssa | undefined,
  ): void {
    const { ref } = s.attrs;
    const type = Aval.of('i32', shape);
    const within = (bad: Ssa) => (mask ? this.#binary('and', bad, mask) : bad);
    at.forEach((from, d) => {
      const place = this.#binary(
        'add',
        this.#spread(from, type),
        this.e.op('iota', [], [type], { iota_dimension: i64(d) })[0]!,
      );
      const out = this.#binary(
        'or',
        this.#compare('LT', place, this.#fill(type, 0)),
        this.#compare('GE', place, this.#fill(type, ref.shape[d]!)),
      );
      this.#site(`${s.kind} out of bounds: dimension ${d} of ${ref}`, s.source, this.#any(within(out)));
    });
    if (ref.role !== 'output') return;
    const owners = this.#state.owners;
    const list = this.#state.outputs;
    const roomy = this.#reaches(s, shape);
    // The owners of the part lie where its elements lie.
    [list[ref.index], owners[ref.index]] = [owners[ref.index]!, list[ref.index]!];
    const old = this.#part(ref, at, shape, roomy);
    const me = this.#spread(this.#me, type);
    if (s.kind === 'load')
      this.#site(
        `load of elements of ${ref} that no program has written`,
        s.source,
        this.#any(within(this.#compare('EQ', old, this.#fill(type, 0)))),
      );
    const foreign = this.#binary('and', this.#compare('NE', old, this.#fill(type, 0)), this.#compare('NE', old, me));
    const next = s.kind === 'store' ? this.#written(list[ref.index]!, ref, at, me, mask, roomy) : list[ref.index]!;
    [list[ref.index], owners[ref.index]] = [owners[ref.index]!, next];
    const what =
      s.kind === 'store'
        ? `two programs write the same element of ${ref}: their order is not known`
        : `a program reads what another one wrote in ${ref}`;
    this.#site(what, s.source, this.#any(within(foreign)));
  }
}

const shiftOf = (hlo: string, { dtype }: Aval): string =>
  hlo === 'shift_right_arithmetic' && isUnsigned(dtype) ? 'shift_right_logical' : hlo;

export const lowerToStablehlo = (e: Emitter, kernel: KernelProgram, operands: readonly Ssa[]): Ssa[] =>
  new Lowering(e, kernel, false).run(operands);

/** The results, and as an i32 the number of the first of the sites that was hit, from 1, or 0. */
export function lowerChecked(
  e: Emitter,
  kernel: KernelProgram,
  operands: readonly Ssa[],
): { outs: Ssa[]; sites: Site[] } {
  const lowering = new Lowering(e, kernel, true);
  const outs = lowering.run(operands);
  return { outs, sites: lowering.sites };
}
