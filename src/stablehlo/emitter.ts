// Prints a graph as a StableHLO module, in MLIR's generic form, which needs no printer for each op.
import { checkPlatform } from '../base/dtype.js';
import { isInteger } from '../base/promote.js';
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import type { Graph } from '../ir/graph.js';
import { locationOf } from '../ir/locations.js';
import type { Mesh, Sharding } from '../ir/mesh.js';
import type { Attributes, Emitter, Region, Ssa } from '../ir/op.js';

const BLOCK = 512;
/** Ops that are written once and shared: every parameter of an optimizer needs the same numbers, in its shape. */
const SHARED: ReadonlySet<string> = new Set(['constant', 'broadcast_in_dim']);

/** Integer division by 0 kills the process if XLA folds it at compile time; at run time it does not. */
const UNSAFE_TO_FOLD: ReadonlySet<string> = new Set(['divide', 'remainder']);

/** Operations whose results XLA does not fold. */
const KEPT: ReadonlySet<string> = new Set(['optimization_barrier', 'custom_call', 'rng_bit_generator', 'partition_id']);

export class TextEmitter implements Emitter {
  readonly turned = new Map<Ssa, Ssa>();
  readonly #types = new Map<Ssa, Aval>();
  /** Values that XLA may compute while it compiles: constants, and values computed from constants alone. */
  readonly #constant = new Set<Ssa>();
  /** Constants of a single number other than 0: division by them is safe. */
  readonly #nonzero = new Set<Ssa>();
  /** The meshes, by their names in the module. */
  readonly #meshes = new Map<string, Mesh>();
  #lines: string[] = [];
  #open = 0; // the number of last lines that are not joined yet
  #count = 0;
  /** The results of shared operations in the current region, by their text without the name. */
  #shared = new Map<string, Ssa>();
  /** The location in the user's code of the current node. */
  #location = '';

  /** `locations`: adds to every op its location in the user's code. */
  constructor(
    readonly locations = false,
    readonly platform = 'cpu',
    /** The mesh the program is split over; undefined in a manual region. */
    public mesh?: Mesh | undefined,
  ) {}

  op(
    name: string,
    operands: readonly Ssa[],
    outs: readonly Aval[],
    attrs: Attributes = {},
    regions: readonly Region[] = [],
  ): Ssa[] {
    const needed = name === 'dynamic_slice' ? operands.slice(0, 1) : operands; // of equal numbers, wherever it begins
    const isConstant = !regions.length && needed.every((x) => this.#constant.has(x));
    if (isConstant && UNSAFE_TO_FOLD.has(name) && isInteger(outs[0]!.dtype) && !this.#nonzero.has(operands[1]!))
      operands = [operands[0]!, ...this.op('optimization_barrier', operands.slice(1), outs)];
    let text = `"${name.includes('.') ? name : `stablehlo.${name}`}"(${operands.join(', ')})`;
    const properties = Object.entries(attrs);
    if (properties.length) text += ` <{${properties.map(([k, v]) => `${k} = ${v}`).join(', ')}}>`;
    if (regions.length) text += ` (${regions.join(', ')})`;
    const types = operands.map((x) => this.typeOf(x).mlir).join(', ');
    text += ` : (${types}) -> ${outs.length === 1 ? outs[0]!.mlir : `(${outs.map((o) => o.mlir).join(', ')})`}`;
    const known = SHARED.has(name) && this.#shared.get(text);
    if (known) return [known];
    for (const { dtype } of outs) checkPlatform(this.platform, dtype);
    const id = `%${this.#count++}`;
    if (SHARED.has(name)) this.#shared.set(text, id);
    const results = outs.length === 1 ? [id] : outs.map((_, i) => `${id}#${i}`);
    results.forEach((r, i) => {
      this.#types.set(r, outs[i]!);
      if (isConstant && !KEPT.has(name)) this.#constant.add(r);
      if (
        name === 'constant'
          ? /^dense<-?[1-9]/.test(attrs['value']!)
          : SHARED.has(name) && this.#nonzero.has(operands[0]!)
      )
        this.#nonzero.add(r);
    });
    const left = outs.length === 0 ? '' : outs.length === 1 ? `${id} = ` : `${id}:${outs.length} = `;
    this.#write(left + text + this.#location);
    return results;
  }

  /** Adds a line. Lines are joined in blocks: a hundred thousand small strings would keep the garbage collector busy. */
  #write(line: string): void {
    this.#lines.push(line);
    if (++this.#open < BLOCK) return;
    this.#lines.push(this.#lines.splice(-BLOCK).join('\n'));
    this.#open = 0;
  }

  region(params: readonly Aval[], body: (params: readonly Ssa[]) => readonly Ssa[], manual = false): Region {
    const outer = { lines: this.#lines, open: this.#open, shared: this.#shared, mesh: this.mesh };
    if (manual) this.mesh = undefined;
    this.#lines = [];
    this.#open = 0;
    this.#shared = new Map();
    const names = params.map((p) => this.parameter(p));
    for (const name of names) this.#constant.add(name); // what a loop is given may be
    const results = body(names);
    const types = results.map((r) => this.typeOf(r).mlir).join(', ');
    this.#lines.push(`"${manual ? 'sdy' : 'stablehlo'}.return"(${results.join(', ')}) : (${types}) -> ()`);
    const head = `^bb0(${names.map((n) => `${n}: ${this.typeOf(n).mlir}`).join(', ')}):`;
    const text = `{\n${params.length ? `${head}\n` : ''}${this.#lines.join('\n')}\n}`;
    this.#lines = outer.lines;
    this.#open = outer.open;
    this.#shared = outer.shared;
    this.mesh = outer.mesh;
    return text;
  }

  typeOf(value: Ssa): Aval {
    return this.#types.get(value)!;
  }

  sharding(sharding: Sharding, rank: number): string {
    const mesh = sharding.isReplicated ? (this.mesh ?? sharding.mesh) : sharding.mesh;
    this.declare(mesh);
    return `#sdy.sharding${sharding.mlir(rank, mesh)}`;
  }
  declare(mesh: Mesh): void {
    this.#meshes.set(mesh.symbol, mesh);
  }
  /** The module's declarations of its meshes. */
  get meshes(): string {
    return [...this.#meshes.values()].map((mesh) => `${mesh.mlir}\n`).join('');
  }

  /** A name for an argument of the function or of a region. */
  parameter(aval: Aval): Ssa {
    checkPlatform(this.platform, aval.dtype);
    const name = `%a${this.#count++}`;
    this.#types.set(name, aval);
    return name;
  }

  graph({ nodes, roots }: Graph, values: Map<Expr, readonly Ssa[]>): Ssa[] {
    const wide = nodes.filter((e) => e.op.covers);
    for (const e of nodes) {
      if (values.has(e)) continue;
      const cover = e.op.covers && widest(e, wide);
      if (cover) {
        if (!values.has(cover)) values.set(cover, this.#lower(cover, values));
        values.set(e, values.get(cover)!); // its first results
        continue;
      }
      if (e.op.name === 'pick') {
        values.set(e, [values.get(e.inputs[0]!)![(e.attrs as { index: number }).index]!]);
      } else {
        values.set(e, this.#lower(e, values));
      }
    }
    return roots.map((r) => values.get(r)![0]!);
  }

  #lower(e: Expr, values: ReadonlyMap<Expr, readonly Ssa[]>): readonly Ssa[] {
    const outer = this.#location;
    if (this.locations) this.#location = locationOf(e.source) || outer;
    const results = e.op.lower(
      this,
      e.inputs.map((x) => values.get(x)![0]!),
      e,
    );
    this.#location = outer;
    return results;
  }

  get text(): string {
    return this.#lines.join('\n');
  }
}

/** The node with the most results among those that compute this one's results from the same inputs. */
export function widest(e: Expr, among: readonly Expr[]): Expr {
  const same = among.filter(
    (w) => w.op === e.op && w.inputs.every((x, i) => x === e.inputs[i]) && (w === e || e.op.covers!(w, e)),
  );
  return same.reduce((a, b) => (b.avals!.length > a.avals!.length ? b : a));
}

export interface ModuleOptions {
  readonly name?: string;
  /** For each argument, the result that takes over its memory, or -1. */
  readonly aliases?: readonly number[];
  /** Adds to every op its location in the user's code; XLA passes it on to the optimized program and to profiles. */
  readonly locations?: boolean;
  /** The platform of the client that will compile it. */
  readonly platform?: string;
  readonly layout?: Layout | undefined;
}

/** How a program is split over the devices of a mesh. */
export interface Layout {
  readonly mesh: Mesh;
  readonly parameters: readonly Sharding[];
  /** The shardings of results; undefined lets XLA choose. */
  readonly results: readonly (Sharding | undefined)[];
}

/** Prints a module. `parameters` are the nodes with given values, in the order of the arguments. */
export function emitModule(
  graph: Graph,
  parameters: readonly Expr[],
  { name = 'main', aliases = [], locations = false, platform = 'cpu', layout }: ModuleOptions = {},
): string {
  const e = new TextEmitter(locations, platform, layout?.mesh);
  const shardingOf = (sharding: Sharding | undefined, { rank }: Aval) =>
    sharding ? [`sdy.sharding = ${e.sharding(sharding, rank)}`] : [];
  const withAttributes = (type: Aval, attributes: readonly string[]) =>
    attributes.length ? `${type.mlir} {${attributes.join(', ')}}` : type.mlir;
  const values = new Map<Expr, readonly Ssa[]>();
  const args = parameters.map((p, i) => {
    const arg = e.parameter(p.aval);
    values.set(p, [arg]);
    const alias = aliases[i] ?? -1;
    const aliasing = alias >= 0 ? [`tf.aliasing_output = ${alias} : i32`] : [];
    return `${arg}: ${withAttributes(p.aval, [...aliasing, ...shardingOf(layout?.parameters[i], p.aval)])}`;
  });
  const results = e.graph(graph, values);
  const types = graph.roots.map((r) => r.aval.mlir).join(', ');
  const outs = graph.roots.map((r, i) => withAttributes(r.aval, shardingOf(layout?.results[i], r.aval))).join(', ');
  const devices = layout
    ? ` attributes {mhlo.num_partitions = ${layout.mesh.size} : i32, mhlo.num_replicas = 1 : i32}`
    : '';
  return `module @${name}${devices} {
${e.meshes}func.func public @main(${args.join(', ')}) -> (${outs}) {
${e.text}
"func.return"(${results.join(', ')}) : (${types}) -> ()
}
}
`;
}
