// Products with the Jacobian of a function: from the left (vjp, reverse mode) and from the right (jvp, forward mode).
// Forward mode is reverse mode twice: the vector-Jacobian product is linear in its vector, so its own vector-Jacobian product
// by that vector is the Jacobian-vector product. XLA removes unused intermediate results.
import { gradients } from '../autograd/sweep.js';
import { ArgumentError } from '../base/errors.js';
import { isInexact } from '../base/promote.js';
import { type Flat, isPlain, leafName } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { entry } from '../ir/source.js';
import { alias, parameter, substitute } from '../ops/prim/body.js';
import { zerosLike } from '../ops/prim/constant.js';
import type { Tensor } from '../tensor/tensor.js';
import { type FunctionOptions, TracedFunction } from '../tensor/traced-function.js';
import { checkSameTrees, exprsOf, raiseTree, tensorsOf } from '../tensor/trees.js';

/** A traced function with flattened results. */
export class Linear extends TracedFunction {
  /** Its results, in terms of the stand-ins. */
  readonly out: Flat<Tensor>;
  readonly ys: readonly Expr[];
  #transposed: Transposed | undefined;

  constructor(op: string, f: (...args: never[]) => unknown, args: readonly unknown[], options: FunctionOptions) {
    super(op, f, args, options);
    this.out = tensorsOf(`${op}: the function's result`, this.value);
    this.ys = exprsOf(this.out);
  }

  get results(): unknown {
    return raiseTree(this.out, this.outside(this.ys));
  }
  get others(): unknown {
    return this.outsideTree('aux', this.aux);
  }

  /** The gradients of the arguments' tensors by all results. */
  pull(seeds: readonly Expr[]): Expr[] {
    return this.outside(this.back(this.ys, seeds));
  }

  /** How the results change if the arguments' tensors change by these. */
  push(tangents: readonly Expr[]): Expr[] {
    this.#transposed ??= transpose(this.ys, this.inside);
    const { seeds, flow, standIns } = this.#transposed;
    const reached = flow.flatMap((g, i) => (g ? [i] : []));
    const change = gradients(
      reached.map((i) => flow[i]!),
      reached.map((i) => tangents[i]!),
      seeds.filter((s) => s !== null),
    );
    let at = 0;
    const all = seeds.map((s, i) => (s && change[at++]) || zerosLike(this.ys[i]!));
    const back = new Map([
      ...standIns.map((p, i): [Expr, Expr] => [p, this.given[i]!]),
      ...seeds.flatMap((s): [Expr, Expr][] => (s ? [[s, zerosLike(s)]] : [])),
    ]);
    return substitute(all, back, (this.#transposed.outside ??= new Map(back)));
  }
}

interface Transposed {
  /** What stands for the gradient of each result; null: it has none. */
  readonly seeds: readonly (Expr | null)[];
  /** The gradients of the arguments' tensors, in terms of those. */
  readonly flow: readonly (Expr | null)[];
  /** What stands for the arguments' tensors there. They want no gradient: it is by the seeds alone. */
  readonly standIns: readonly Expr[];
  outside?: Map<Expr, Expr>;
}
function transpose(ys: readonly Expr[], inside: readonly Expr[]): Transposed {
  const seeds = ys.map((y) => (y.differentiable && isInexact(y.dtype) ? alias(zerosLike(y)) : null));
  const seeded = ys.flatMap((_, i) => (seeds[i] ? [i] : []));
  const flow = gradients(
    seeded.map((i) => ys[i]!),
    seeded.map((i) => seeds[i]!),
    inside,
  );
  const standIns = inside.map((x) => parameter(x.aval, 0, false));
  const by = new Map(inside.map((x, i) => [x, standIns[i]!]));
  const made = substitute(
    flow.filter((g) => g !== null),
    by,
  );
  let at = 0;
  return { seeds, flow: flow.map((g) => g && made[at++]!), standIns };
}

// ---- the functions

type Function = (...args: never[]) => unknown;
interface AuxOptions {
  /** Whether f returns [value, aux]; aux is returned as it is. Default: false. */
  readonly hasAux?: boolean;
}
/** The type of the value of f. */
export type Value<F, O> = F extends (...args: never[]) => infer R
  ? O extends { readonly hasAux: true }
    ? R extends readonly [infer Y, unknown]
      ? Y
      : never
    : R
  : never;
export type Aux<F> = F extends (...args: never[]) => readonly [unknown, infer A] ? A : never;

type Primals<F> = F extends (...args: infer A) => unknown ? A : never;

/** Arguments, of which the last may be options: trees of tensors hold no booleans. */
function splitOptions(given: readonly unknown[]): { args: readonly unknown[]; options: AuxOptions } {
  const last = given.at(-1);
  const isOptions = isPlain(last) && Object.keys(last).join() === 'hasAux' && typeof last.hasAux === 'boolean';
  return isOptions ? { args: given.slice(0, -1), options: last as AuxOptions } : { args: given, options: {} };
}
const every = (args: readonly unknown[]): number[] => args.map((_, i) => i);

/** Tangents or cotangents, which must be like what they belong to. */
function vectors(op: string, what: string, like: Flat<Tensor>, given: unknown, whole: string): Expr[] {
  const flat = tensorsOf(`${op}: ${what}`, given);
  checkSameTrees(op, what, [flat, 'as given'], [like, `in ${whole}`]);
  return exprsOf(flat);
}

/**
 * The value of f, and the function that maps gradients of the results to an array with the gradient of each argument: the
 * vector-Jacobian product. With a last argument { hasAux: true } f returns [value, aux], and the third result is aux.
 */
export const vjp = entry((f: Function, ...given: unknown[]): unknown => {
  const { args, options } = splitOptions(given);
  if (!args.length) throw new ArgumentError('vjp: needs at least one argument to differentiate: write vjp(f, x)');
  const linear = new Linear('vjp', f, args, { ...options, argnums: every(args) });
  const pull = entry((cotangents: unknown): unknown[] => {
    const seeds = vectors('vjp', 'the cotangents', linear.out, cotangents, "the function's result");
    return linear.trees.length ? raised(linear, linear.pull(seeds)) : [];
  });
  return options.hasAux ? [linear.results, pull, linear.others] : [linear.results, pull];
}) as {
  <F extends Function>(
    f: F,
    ...args: [...Primals<F>, { readonly hasAux: true }]
  ): [Value<F, { hasAux: true }>, (cotangents: Value<F, { hasAux: true }>) => Primals<F>, Aux<F>];
  <A extends unknown[], Y>(
    f: (...args: A) => Y,
    ...args: NoInfer<A> | [...NoInfer<A>, { readonly hasAux: false }]
  ): [Y, (cotangents: Y) => A];
};
const raised = (linear: Linear, exprs: readonly Expr[]): unknown[] => {
  let at = 0;
  return linear.trees.map((t) => raiseTree(t, exprs.slice(at, (at += t.leaves.length))));
};

/**
 * The value of f, and its directional derivative along the tangents: the Jacobian-vector product. Arguments and tangents are
 * arrays, one entry for each. With hasAux f returns [value, aux], and the third result is aux.
 */
export const jvp = entry(
  (f: Function, primals: readonly unknown[], tangents: readonly unknown[], options: AuxOptions = {}): unknown => {
    const linear = linearOf('jvp', f, primals, options);
    const change = raiseTree(linear.out, linear.push(tangentsOf('jvp', linear, tangents)));
    return options.hasAux ? [linear.results, change, linear.others] : [linear.results, change];
  },
) as {
  <A extends unknown[], Y, X>(
    f: (...args: A) => readonly [Y, X],
    primals: NoInfer<Readonly<A>>,
    tangents: NoInfer<Readonly<A>>,
    options: AuxOptions & { readonly hasAux: true },
  ): [Y, Y, X];
  <A extends unknown[], Y>(
    f: (...args: A) => Y,
    primals: NoInfer<Readonly<A>>,
    tangents: NoInfer<Readonly<A>>,
    options?: AuxOptions,
  ): [Y, Y];
};

/** The value of f, and its jvp as a function of the tangents: for many tangents at the same point. */
export const linearize = entry((f: Function, ...args: unknown[]): unknown => {
  const linear = linearOf('linearize', f, args, {});
  const push = entry((...tangents: unknown[]) =>
    raiseTree(linear.out, linear.push(tangentsOf('linearize', linear, tangents))),
  );
  return [linear.results, push];
}) as <A extends unknown[], Y>(f: (...args: A) => Y, ...args: NoInfer<A>) => [Y, (...tangents: A) => Y];

function linearOf(op: string, f: Function, primals: readonly unknown[], options: AuxOptions): Linear {
  if (!Array.isArray(primals) || !primals.length)
    throw new ArgumentError(`${op}: the arguments must be an array with at least one element: write jvp(f, [x], [t])`);
  return new Linear(op, f, primals, { ...options, argnums: every(primals) });
}
function tangentsOf(op: string, { trees }: Linear, tangents: readonly unknown[]): Expr[] {
  if (!Array.isArray(tangents) || tangents.length !== trees.length)
    throw new ArgumentError(
      `${op}: ${Array.isArray(tangents) ? tangents.length : 'no'} tangents for ${trees.length} arguments: give one for each`,
    );
  return trees.flatMap((t, i) => vectors(op, leafName(`tangent ${i}`, ''), t, tangents[i], `argument ${i}`));
}
