// Functions inside a graph: the body of a loop or of a branch, traced once into a graph of its own.
import { ArgumentError } from '../../base/errors.js';
import { isFloat } from '../../base/promote.js';
import type { Aval } from '../../ir/aval.js';
import { Expr, nodeCount } from '../../ir/expr.js';
import { collect, type Graph, structure } from '../../ir/graph.js';
import { Mesh, Sharding } from '../../ir/mesh.js';
import type { Emitter, Op, Ssa } from '../../ir/op.js';
import { BodyScope, type CellLike, inScope, type Touched } from '../../ir/scope.js';
import { withSource } from '../../ir/source.js';
import { define, flows, OPS, PICK, results } from './define.js';
import { isInput } from './variable.js';

/** What a body is given when it runs. */
const PARAMETER: Op = {
  name: 'parameter',
  lower(_, __, expr) {
    throw new ArgumentError(
      `a value of the inside of a body (made at ${expr.source ?? 'an unknown place'}) is used outside of it: return it from the body`,
    );
  },
};
OPS.set(PARAMETER.name, PARAMETER);
export const isParameter = (e: Expr): boolean => e.op === PARAMETER;
export const parameter = (aval: Aval, index = 0, differentiable = isFloat(aval.dtype)): Expr =>
  new Expr(PARAMETER, [], { index }, aval, undefined, differentiable);

const aliasOp = define<[Expr]>({ name: 'alias', infer: ([x]) => x, lower: (_, [x]) => x, vjp: (g) => [g] });
const ALIAS = OPS.get('alias')!;
/** The same value as a node of its own that wants a gradient: the gradient by it leaves out other uses of x. */
export const alias = (x: Expr): Expr =>
  x.differentiable ? aliasOp([x], null) : new Expr(ALIAS, [x], null, x.aval, undefined, isFloat(x.dtype));

/** These results with some nodes replaced. What does not depend on those stays the same node. */
export function substitute(roots: readonly Expr[], by: ReadonlyMap<Expr, Expr>): Expr[] {
  const oldest = [...by.keys()].reduce((n, e) => Math.min(n, e.serial), Number.POSITIVE_INFINITY);
  const now = new Map(by);
  for (const e of collect(roots, (x) => by.has(x) || x.serial < oldest).nodes) {
    if (now.has(e)) continue;
    const inputs = e.inputs.map((x) => now.get(x) ?? x);
    now.set(e, inputs.every((x, i) => x === e.inputs[i]) ? e : withInputs(e, inputs));
  }
  return roots.map((r) => now.get(r)!);
}

function withInputs(e: Expr, inputs: readonly Expr[]): Expr {
  const { op, attrs, aval, avals } = e;
  if (op === PICK) return results(inputs[0]!)[(attrs as { index: number }).index]!;
  const differentiable = op.vjp ? flows(op, inputs, avals ?? [aval]) : e.differentiable;
  return withSource(e.source, () => new Expr(op, inputs, attrs, aval, avals, differentiable));
}

/** A closed function: its results depend on its parameters alone. */
export class Body {
  readonly params: readonly Expr[];
  readonly results: readonly Expr[];
  readonly graph: Graph;
  #json: string | undefined;
  #meshes: readonly Mesh[] | undefined;

  /** `params` are nodes that stand for the parameters in `results`: they are replaced by the body's own. */
  constructor(
    params: readonly Expr[],
    results: readonly Expr[],
    /** The body with the first of these results only. */
    readonly narrower?: Body,
  ) {
    this.params = params.map((p, i) => parameter(p.aval, i));
    this.results = substitute(results, new Map(params.map((p, i) => [p, this.params[i]!])));
    this.graph = collect(this.results);
  }

  /** Its results for these arguments, as nodes. */
  apply(args: readonly Expr[]): Expr[] {
    return substitute(this.results, new Map(this.params.map((p, i) => [p, args[i]!])));
  }

  emit(e: Emitter, args: readonly Ssa[]): Ssa[] {
    return e.graph(this.graph, new Map(this.params.map((p, i) => [p, [args[i]!]])));
  }

  /** The meshes that are named inside. */
  get meshes(): readonly Mesh[] {
    return (this.#meshes ??= meshesOf(this.graph));
  }

  /** Whether its first results are those of the other, for the same arguments. */
  covers(other: Body): boolean {
    return this === other || (this.narrower?.covers(other) ?? false) || this.toJSON() === other.toJSON();
  }

  /** Its exact structure: two bodies are the same program exactly if these are equal. */
  toJSON(): string {
    this.#json ??= `${this.params.map((p) => p.aval.id)}|${this.results.length}|${structure(this.graph)}`;
    return this.#json;
  }
}

/** The meshes that operations of the graph name; what is given may lie elsewhere by now. */
export const meshesOf = ({ nodes }: Graph, isGiven: (e: Expr) => boolean = () => false): readonly Mesh[] =>
  Mesh.exists ? [...new Set(nodes.flatMap((e) => (isGiven(e) ? [] : meshesIn(e))))] : [];

/** Those that the operation itself names, or others in its body. */
export const meshesIn = ({ attrs }: Expr): readonly Mesh[] =>
  (attrs ? (Object.values(attrs).flat() as unknown[]) : []).flatMap((x) =>
    x instanceof Mesh ? x : x instanceof Sharding ? x.mesh : x instanceof Body ? x.meshes : [],
  );

/** A cell that a body changes. */
export interface Changed extends Omit<Touched, 'restore'> {
  /** What the body leaves in it. */
  readonly after: Expr;
}

export interface Traced {
  readonly params: readonly Expr[];
  readonly results: readonly Expr[];
  /** State that the body changes. */
  readonly cells: ReadonlyMap<CellLike, Changed>;
  /** Every node with a smaller number was made before. */
  readonly born: number;
}

/** Runs a function once, on parameters, to see what it computes. */
export function trace(
  avals: readonly Aval[],
  run: (params: readonly Expr[]) => readonly Expr[],
  /** What to do instead of changing a tensor in place. */
  advice = 'make it part of the carry, or return it',
): Traced {
  const born = nodeCount();
  const params = avals.map((aval) => parameter(aval));
  const scope = new BodyScope((aval) => parameter(aval), advice);
  return inScope(
    scope,
    () => run(params),
    (result) => {
      const cells = [...scope.touched].map(([cell, { before, inside }]) => ({
        cell,
        before,
        inside,
        after: cell.peek(),
      }));
      // A cell that was only read is captured like any other value.
      const read = cells.filter((c) => c.after === c.inside);
      const by = new Map(read.map((c) => [c.inside, c.before]));
      const changed = cells.filter((c) => c.after !== c.inside);
      return {
        params,
        results: substitute(result, by),
        cells: new Map(changed.map(({ cell, ...c }) => [cell, { ...c, after: substitute([c.after], by)[0]! }])),
        born,
      };
    },
  );
}

/** Those of a traced function's parameters that its results depend on, by their numbers. */
export function usedBy({ born }: Traced, params: readonly Expr[], results: readonly Expr[]): number[] {
  const { index } = collect(results, (e) => e.serial < born);
  return params.flatMap((p, i) => (index.has(p) ? [i] : []));
}

/**
 * What results need of the outside: the last nodes on the way to them that depend on no parameter. Constants are not among
 * them: they are written again inside. `whole`: all that was made since `born` stays inside, whatever it depends on.
 */
export function captured(
  params: readonly Expr[],
  results: readonly Expr[],
  born: number,
  { whole = false }: { readonly whole?: boolean } = {},
): Expr[] {
  const own = new Set(params);
  const inside = new Set<Expr>(params);
  const constant = new Set<Expr>();
  const { nodes } = collect(results, (e) => own.has(e) || e.serial < born);
  for (const e of nodes) {
    if (own.has(e)) continue;
    // What was computed has forgotten its inputs: it is a value, and no constant.
    if (e.inputs.length === 0 && !e.isComputed && !isInput(e) && e.op !== PARAMETER) constant.add(e);
    if (e.serial < born || e.inputs.length === 0) continue;
    if (e.inputs.every((x) => constant.has(x))) constant.add(e);
    else if (e.inputs.some((x) => inside.has(x)) || (whole && (e.op !== PICK || e.inputs[0]!.serial >= born)))
      inside.add(e);
  }
  const needed = nodes.filter((e) => inside.has(e) && !own.has(e)).flatMap((e) => e.inputs);
  return [...new Set([...needed, ...results])].filter((e) => !inside.has(e) && !constant.has(e));
}
