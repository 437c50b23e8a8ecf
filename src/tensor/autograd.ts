// Gradients as functions, and what can be said about them.

import * as again from '../autograd/checkpoint.js';
import * as custom from '../autograd/custom-vjp.js';
import { compareWithDifferences, type GradcheckOptions } from '../autograd/gradcheck.js';
import { withGrad } from '../autograd/mode.js';
import { gradients } from '../autograd/sweep.js';
import { ArgumentError, DTypeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { describe, type Flat, leafName } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { entry } from '../ir/source.js';
import { alias, substitute } from '../ops/prim/body.js';
import { reduceSum } from '../ops/prim/broadcast.js';
import { zerosLike } from '../ops/prim/constant.js';
import { convert } from '../ops/prim/move.js';
import { add, mul } from '../ops/prim/pointwise.js';
import { detach } from '../ops/prim/variable.js';
import { tensor } from './create.js';
import { seedFor, Tensor } from './tensor.js';
import { callUser, checkSameTrees, exprsOf, raiseTree, tensorsOf } from './trees.js';

/** What is computed inside has no gradient. */
export const noGrad = <T>(fn: () => T): T => withGrad(false, 'noGrad', fn);
/** Inside noGrad: what is computed here has one again. */
export const enableGrad = <T>(fn: () => T): T => withGrad(true, 'enableGrad', fn);

// ---- of tensors, as torch.autograd.grad

export interface GradOptions {
  /** The gradients of the outputs; 1 for an output with one element. */
  readonly gradOutputs?: Tensor | readonly (Tensor | null)[];
  /** The gradients can be differentiated again. */
  readonly createGraph?: boolean;
  /** An input that no output depends on has the gradient null, instead of being an error. */
  readonly allowUnused?: boolean;
}

const listOf = <T>(x: T | readonly T[]): readonly T[] => (Array.isArray(x) ? x : [x]) as readonly T[];

function gradOf(
  outputs: Tensor | readonly Tensor[],
  inputs: Tensor | readonly Tensor[],
  { gradOutputs, createGraph = false, allowUnused = false }: GradOptions = {},
): (Tensor | null)[] {
  const [ys, xs] = [listOf(outputs), listOf(inputs)];
  const gs = gradOutputs === undefined ? [] : listOf(gradOutputs);
  if (gradOutputs !== undefined && gs.length !== ys.length)
    throw new ArgumentError(`grad: ${gs.length} gradOutputs for ${ys.length} outputs`);
  xs.forEach((x, i) => {
    if (!x.requiresGrad)
      throw new ArgumentError(`grad: input ${i}, ${x.expr.aval}, wants no gradient: call requiresGrad_() on it first`);
  });
  const seeds = ys.map((y, i) => seedFor('grad', y, gs[i] ?? undefined));
  const flow = gradients(
    ys.map((y) => y.expr),
    seeds,
    xs.map((x) => x.expr),
  );
  return flow.map((g, i) => {
    if (g) return new Tensor(createGraph ? g : detach(g));
    if (allowUnused) return null;
    throw new ArgumentError(
      `grad: no output depends on input ${i}, ${xs[i]!.expr.aval}: leave it out, or pass { allowUnused: true }`,
    );
  });
}

// ---- of functions

export interface FunctionOptions<N extends number | readonly number[] = number | readonly number[]> {
  /** Which arguments to differentiate by: one (0 unless told) or several. */
  readonly argnums?: N;
  /** f gives [the value, something else]: that is handed through. */
  readonly hasAux?: boolean;
}

/** The value and the gradients of a function's arguments, each a tree like the argument. */
function differentiate(
  op: string,
  f: (...args: never[]) => unknown,
  args: readonly unknown[],
  { argnums = 0, hasAux = false }: FunctionOptions,
): { value: Tensor; aux: unknown; grads: unknown } {
  const places = listOf(argnums).map((n) => {
    if (Number.isInteger(n) && n >= 0 && n < args.length) return n;
    throw new ArgumentError(`${op}: argnums has ${n}, but the function was called with ${args.length} arguments`);
  });
  const trees = places.map((n) => tensorsOf(`${op}: argument ${n}`, args[n]));
  places.forEach((n, k) => checkFloats(op, n, trees[k]!));
  const given = trees.map((t) => exprsOf(t).map(alias));
  const passed = args.map((arg, n) => {
    const k = places.indexOf(n);
    return k < 0 ? arg : withGrad(true, op, () => raiseTree(trees[k]!, given[k]!));
  });
  const out = withGrad(true, op, () => callUser(op, f, ...(passed as never[])));
  const [y, aux] = hasAux ? (out as readonly [unknown, unknown]) : [out, undefined];
  if (!(y instanceof Tensor)) throw new ArgumentError(`${op}: the function gives ${describe(y)}: it must be a tensor`);
  if (y.expr.aval.size !== 1 || !isFloat(y.dtype))
    throw new ArgumentError(
      `${op}: the function gives ${y.expr.aval}: it must be one floating point number (sum, mean)`,
    );
  const flat = given.flat();
  const flow = y.requiresGrad ? gradients([y.expr], [seedFor(op, y)], flat) : flat.map(() => null);
  // Outside, the arguments are what they were: what was given gets back in place of the nodes that stood for it.
  const others = hasAux ? tensorsOf(`${op}: aux`, aux) : undefined;
  const before = new Map(trees.flatMap(exprsOf).map((x, i) => [flat[i]!, x]));
  const results = substitute(
    [y.expr, ...flow.map((g, i) => g ?? zerosLike(flat[i]!)), ...(others ? exprsOf(others) : [])],
    before,
  );
  let at = 1;
  const grads = trees.map((t) => raiseTree(t, results.slice(at, (at += t.leaves.length))));
  return {
    value: new Tensor(results[0]!),
    aux: others && raiseTree(others, results.slice(at)),
    grads: typeof argnums === 'number' ? grads[0] : grads,
  };
}

function checkFloats(op: string, n: number, { leaves, paths }: Flat<Tensor>): void {
  leaves.forEach((x, i) => {
    if (!isFloat(x.dtype))
      throw new DTypeError(
        `${op}: ${leafName(`argument ${n}`, paths[i]!)} is ${x.expr.aval}: only floats have gradients`,
      );
  });
}

type Args<F> = F extends (...args: infer A) => unknown ? A : never;
type Function = (...args: never[]) => unknown;
type Grads<F, N> = N extends readonly number[]
  ? { [K in keyof N]: Args<F>[N[K] & keyof Args<F>] }
  : Args<F>[N & keyof Args<F>];

/** The gradients of outputs by inputs; or, of a function: the function that gives its gradient. */
function gradOrFunction(
  outputs: Tensor | readonly Tensor[] | Function,
  rest?: unknown,
  options?: GradOptions,
): unknown {
  if (typeof outputs !== 'function') return gradOf(outputs, rest as Tensor | readonly Tensor[], options);
  const how = (rest ?? {}) as FunctionOptions;
  return entry((...args: unknown[]) => {
    const { grads, aux } = differentiate('grad', outputs, args, how);
    return how.hasAux ? [grads, aux] : grads;
  });
}
export const grad = entry(gradOrFunction) as {
  (
    outputs: Tensor | readonly Tensor[],
    inputs: Tensor | readonly Tensor[],
    options: GradOptions & { readonly allowUnused: true },
  ): (Tensor | null)[];
  (outputs: Tensor | readonly Tensor[], inputs: Tensor | readonly Tensor[], options?: GradOptions): Tensor[];
  <F extends (...args: never[]) => readonly [Tensor, unknown], const N extends number | readonly number[] = 0>(
    f: F,
    options: FunctionOptions<N> & { readonly hasAux: true },
  ): (...args: Args<F>) => [Grads<F, N>, ReturnType<F>[1]];
  <F extends (...args: never[]) => Tensor, const N extends number | readonly number[] = 0>(
    f: F,
    options?: FunctionOptions<N>,
  ): (...args: Args<F>) => Grads<F, N>;
};

/** A function that gives the value of f and its gradient (with hasAux: [[value, aux], gradient]). */
export const valueAndGrad = entry((f: Function, options: FunctionOptions = {}): unknown =>
  entry((...args: unknown[]) => {
    const { value, aux, grads } = differentiate('valueAndGrad', f, args, options);
    return options.hasAux ? [[value, aux], grads] : [value, grads];
  }),
) as {
  <F extends (...args: never[]) => readonly [Tensor, unknown], const N extends number | readonly number[] = 0>(
    f: F,
    options: FunctionOptions<N> & { readonly hasAux: true },
  ): (...args: Args<F>) => [ReturnType<F>, Grads<F, N>];
  <F extends (...args: never[]) => Tensor, const N extends number | readonly number[] = 0>(
    f: F,
    options?: FunctionOptions<N>,
  ): (...args: Args<F>) => [Tensor, Grads<F, N>];
};

// ---- how a gradient is computed

export interface CustomVjp<A extends unknown[], Y, R> {
  /** What is computed when a gradient may be wanted: [the result, what backward needs]. */
  readonly forward?: (...xs: A) => readonly [Y, R];
  /** The gradients of the arguments, one each (null: none), from what it needs and the gradient of the result. */
  readonly backward: (residuals: R, g: Y) => readonly unknown[];
}

/**
 * f with a gradient of one's own. Without `forward`, backward is given { inputs, output }. The second derivative is that of
 * backward as it is written.
 */
export function customVjp<A extends unknown[], Y, R = { readonly inputs: A; readonly output: Y }>(
  f: (...xs: A) => Y,
  { forward, backward }: CustomVjp<A, Y, R>,
): (...xs: A) => Y {
  return entry((...args: A): Y => {
    const inputs = tensorsOf('customVjp: the arguments', args);
    const [y, needed] = forward
      ? callUser('customVjp', forward, ...args)
      : ((out: Y) => [out, { inputs: args, output: out } as R] as const)(callUser('customVjp', f, ...args));
    const output = tensorsOf('customVjp: the result', y);
    const needs = tensorsOf('customVjp: the residuals', needed);
    const results = custom.customVjp(exprsOf(inputs), exprsOf(output), exprsOf(needs), (residuals, gs) => {
      const back = callUser('customVjp', backward, raiseTree(needs, residuals) as R, raiseTree(output, gs) as Y);
      return gradientsOf(args, inputs, back);
    });
    return raiseTree(output, results) as Y;
  });
}

/** One gradient for each tensor of the arguments; null stands for none. */
function gradientsOf(args: readonly unknown[], inputs: Flat<Tensor>, back: unknown): Expr[] {
  if (!Array.isArray(back) || back.length !== args.length) {
    const got = Array.isArray(back) ? `${back.length} gradients` : describe(back);
    throw new ArgumentError(
      `customVjp: backward gives ${got} for ${args.length} arguments: it must be an array, one each`,
    );
  }
  const zeros = (tree: unknown) =>
    tensorsOf('', tree).rebuild(exprsOf(tensorsOf('', tree)).map((x) => new Tensor(zerosLike(x))));
  const full = tensorsOf(
    'customVjp: what backward gives',
    back.map((g, i) => g ?? zeros(args[i])),
  );
  checkSameTrees('customVjp', 'the arguments', [inputs, 'as given'], [full, 'in what backward gives']);
  return exprsOf(full);
}

/**
 * f of these arguments, keeping for its gradient only the arguments: when the gradient is computed, so is f, again. It
 * trades time for memory.
 */
export const checkpoint = entry(<A extends unknown[], Y>(f: (...xs: A) => Y, ...args: A): Y => {
  const inputs = tensorsOf('checkpoint: the arguments', args);
  let output: Flat<Tensor> | undefined;
  const results = again.checkpoint(exprsOf(inputs), (xs) => {
    output = tensorsOf('checkpoint: the result', callUser('checkpoint', f, ...(raiseTree(inputs, xs) as A)));
    return exprsOf(output);
  });
  return raiseTree(output!, results) as Y;
});

// ---- are gradients right?

/**
 * Compares the gradients of f with finite differences, in f64, at these inputs, and throws a GradcheckError with the first
 * that differs. `order: 2` compares the gradient's own gradient.
 */
export async function gradcheck(
  f: (...xs: Tensor[]) => Tensor | readonly Tensor[],
  inputs: readonly Tensor[],
  { order = 1, ...options }: GradcheckOptions & { readonly order?: 1 | 2 } = {},
): Promise<true> {
  const places = inputs.flatMap((x, i) => (isFloat(x.dtype) ? [i] : []));
  if (!places.length) throw new ArgumentError('gradcheck: no input is a float: nothing has a gradient');
  const start = await Promise.all(
    places.map(async (i) => (await new Tensor(convert(inputs[i]!.expr, 'f64')).data()) as Float64Array),
  );
  // A number that depends on every element of the results, on each in another way.
  const weighted = (ys: readonly Tensor[]): Tensor => {
    const parts = ys.map((y) => {
      const weights = tensor(
        Float64Array.from({ length: y.expr.aval.size }, (_, k) => Math.cos(3 * k + 1)),
        { shape: y.shape },
      );
      return reduceSum(mul(convert(y.expr, 'f64'), weights.expr));
    });
    return new Tensor(parts.reduce((a, b) => add(a, b)));
  };
  const make = (data: readonly Float64Array[]) => {
    const xs = inputs.map((x, i) => {
      const k = places.indexOf(i);
      return k < 0 ? x : tensor(data[k]!, { dtype: 'f64', shape: x.shape, requiresGrad: true });
    });
    const variables = places.map((i) => xs[i]!);
    const ys = listOf(f(...xs)).filter((y) => isFloat(y.dtype));
    if (!ys.length) throw new ArgumentError('gradcheck: the function gives no floats');
    const value = weighted(ys);
    if (order === 1 || !value.requiresGrad) return { value, variables };
    const first = gradOf(value, variables, { createGraph: true, allowUnused: true });
    return { value: weighted(first.filter((g) => g !== null)), variables };
  };
  await compareWithDifferences(
    {
      value: async (data) => Number(await make(data).value.item()),
      gradient: async (data) => {
        const { value, variables } = make(data);
        if (!value.requiresGrad) return variables.map(() => null);
        const flow = gradOf(value, variables, { allowUnused: true });
        return Promise.all(flow.map(async (g) => g && ((await g.data()) as Float64Array)));
      },
    },
    start,
    options,
  );
  return true;
}
