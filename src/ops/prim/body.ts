// Body: a function inside a graph, as of a loop or a branch, traced once into a separate graph.
import { ArgumentError } from '../../base/errors.js';
import { isInexact } from '../../base/promote.js';
import type { Aval } from '../../ir/aval.js';
import { Expr, nodeCount } from '../../ir/expr.js';
import { collect, type Graph, structure } from '../../ir/graph.js';
import { copyHooks } from '../../ir/hooks.js';
import { Mesh, Sharding } from '../../ir/mesh.js';
import type { Emitter, Op, Ssa } from '../../ir/op.js';
import { BodyScope, type CellLike, inScope, type Touched } from '../../ir/scope.js';
import { placeOf, withSource } from '../../ir/source.js';
import { define, flows, OPS, PICK, results, same } from './define.js';
import { isInput } from './variable.js';

/** The parameter of a body, given when it runs. */
const PARAMETER: Op = {
  name: 'parameter',
  lower(_, __, expr) {
    throw new ArgumentError(
      `a value from inside of a body (made at ${placeOf(expr.source) || 'an unknown place'}) is used outside of it: return it from the body`,
    );
  },
};
OPS.set(PARAMETER.name, PARAMETER);
export const isParameter = (e: Expr): boolean => e.op === PARAMETER;
export const parameter = (aval: Aval, index = 0, differentiable = isInexact(aval.dtype)): Expr =>
  new Expr(PARAMETER, [], { index }, aval, undefined, differentiable);

const aliasOp = define<[Expr]>({
  name: 'alias',
  infer: ([x]) => x,
  lower: (_, [x]) => x,
  vjp: (g) => [g],
  batch: same,
});
const ALIAS = OPS.get('alias')!;
/** The same value as a separate node. */
export const sameValue = (x: Expr): Expr => aliasOp([x], null);
/** The same value as a separate node that requires a gradient: its gradient excludes other uses of x. */
export const alias = (x: Expr): Expr =>
  x.differentiable ? aliasOp([x], null) : new Expr(ALIAS, [x], null, x.aval, undefined, isInexact(x.dtype));

/** The earliest of these: nothing made before it depends on any of them. */
export const oldestOf = (nodes: Iterable<Expr>): number =>
  [...nodes].reduce((n, e) => Math.min(n, e.serial), Number.POSITIVE_INFINITY);

/**
 * These results with some nodes replaced. Nodes that do not depend on those stay the same. `now`: what was made of other
 * results with the same nodes replaced; what they share is made once.
 */
export function substitute(
  roots: readonly Expr[],
  by: ReadonlyMap<Expr, Expr>,
  now: Map<Expr, Expr> = new Map(by),
): Expr[] {
  const oldest = oldestOf(by.keys());
  for (const e of collect(roots, (x) => by.has(x) || x.serial < oldest).nodes) {
    if (now.has(e)) continue;
    const inputs = e.inputs.map((x) => now.get(x) ?? x);
    now.set(e, inputs.every((x, i) => x === e.inputs[i]) ? e : withInputs(e, inputs));
  }
  return roots.map((r) => now.get(r)!);
}

/** The same operation on other inputs of the same types. */
export function withInputs(e: Expr, inputs: readonly Expr[]): Expr {
  const { op, attrs, aval, avals } = e;
  if (op === PICK) {
    const picked = results(inputs[0]!)[(attrs as { index: number }).index]!;
    copyHooks(e, picked);
    return picked;
  }
  const differentiable = op.vjp ? flows(op, inputs, avals ?? [aval]) : e.differentiable;
  const made = withSource(e.source, () => new Expr(op, inputs, attrs, aval, avals, differentiable));
  copyHooks(e, made);
  return made;
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

  /** The structure as text: two bodies are the same program if and only if these are equal. */
  toJSON(): string {
    this.#json ??= `${this.params.map((p) => p.aval.id)}|${this.results.length}|${structure(this.graph)}`;
    return this.#json;
  }
}

/** The meshes named by operations of the graph; the operands may be on other devices by now. */
export const meshesOf = ({ nodes }: Graph, isGiven: (e: Expr) => boolean = () => false): readonly Mesh[] =>
  Mesh.exists ? [...new Set(nodes.flatMap((e) => (isGiven(e) ? [] : meshesIn(e))))] : [];

/** Those that the operation itself names, or others in its body. */
export const meshesIn = ({ attrs }: Expr): readonly Mesh[] =>
  (attrs ? (Object.values(attrs).flat() as unknown[]) : []).flatMap((x) =>
    x instanceof Mesh ? x : x instanceof Sharding ? x.mesh : x instanceof Body ? x.meshes : [],
  );

/** A cell that a body changes. */
export interface Changed extends Omit<Touched, 'restore'> {
  /** The value after the body. */
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

export interface TraceOptions {
  /** Whether a gradient can flow to each parameter. Default: to all floats. */
  readonly wants?: readonly boolean[];
  /** Tensors made inside may be changed in place. */
  readonly ownInPlace?: boolean;
}

/** Traces a function: runs it once on parameters. */
export function trace(
  avals: readonly Aval[],
  run: (params: readonly Expr[]) => readonly Expr[],
  /** The advice in the error for changing a tensor in place. */
  advice = 'make it part of the carry, or return it',
  { wants, ownInPlace = false }: TraceOptions = {},
): Traced {
  const born = nodeCount();
  const params = avals.map((aval, i) => parameter(aval, 0, wants?.[i]));
  const owns = (e: Expr) => ownInPlace && e.serial >= born && e.op !== PARAMETER;
  const scope = new BodyScope((aval) => parameter(aval), advice, owns);
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
 * The outside values that results need: the last nodes on the paths to them that do not depend on a parameter. Constants are
 * excluded: they are repeated inside. `whole`: all nodes made since `born` stay inside, whatever they depend on.
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
    // A computed node has dropped its inputs: it is a value, not a constant.
    if (e.inputs.length === 0 && !e.isComputed && !isInput(e) && e.op !== PARAMETER) constant.add(e);
    if (e.serial < born || e.inputs.length === 0) continue;
    if (e.inputs.every((x) => constant.has(x))) constant.add(e);
    else if (e.inputs.some((x) => inside.has(x)) || (whole && (e.op !== PICK || e.inputs[0]!.serial >= born)))
      inside.add(e);
  }
  const needed = nodes.filter((e) => inside.has(e) && !own.has(e)).flatMap((e) => e.inputs);
  return [...new Set([...needed, ...results])].filter((e) => !inside.has(e) && !constant.has(e));
}
