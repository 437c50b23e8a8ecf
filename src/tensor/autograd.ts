// Gradients as functions: grad, valueAndGrad, customVjp, checkpoint, gradcheck, and noGrad.

import * as again from '../autograd/checkpoint.js';
import * as custom from '../autograd/custom-vjp.js';
import { compareWithDifferences, type GradcheckOptions } from '../autograd/gradcheck.js';
import { withGrad } from '../autograd/mode.js';
import { gradients } from '../autograd/sweep.js';
import { ArgumentError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { describe, type Flat } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { sweeping } from '../ir/hooks.js';
import { entry } from '../ir/source.js';
import { reduceSum } from '../ops/prim/broadcast.js';
import { zerosLike } from '../ops/prim/constant.js';
import { convert } from '../ops/prim/move.js';
import { add, mul } from '../ops/prim/pointwise.js';
import { detach } from '../ops/prim/variable.js';
import { tensor } from './create.js';
import { seedFor, Tensor } from './tensor.js';
import { type FunctionOptions, listOf, TracedFunction } from './traced-function.js';
import { callUser, checkSameTrees, exprsOf, raiseTree, tensorsOf } from './trees.js';

/** Runs fn without recording gradients. */
export const noGrad = <T>(fn: () => T): T => withGrad(false, 'noGrad', fn);
/** The same as noGrad: torch's inferenceMode, without its other restrictions. */
export const inferenceMode = <T>(fn: () => T): T => withGrad(false, 'inferenceMode', fn);
/** Records gradients again inside noGrad. */
export const enableGrad = <T>(fn: () => T): T => withGrad(true, 'enableGrad', fn);

// ---- of tensors, as torch.autograd.grad

export interface GradOptions {
  /** The gradients of the outputs. Default: 1, for outputs with one element. */
  readonly gradOutputs?: Tensor | readonly (Tensor | null)[];
  /** Whether the gradients can be differentiated again. Default: false. */
  readonly createGraph?: boolean;
  /** Accepted as in torch, without effect: the graph is always kept. */
  readonly retainGraph?: boolean;
  /** An input that no output depends on gets the gradient null instead of an error. Default: false. */
  readonly allowUnused?: boolean;
}

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
      throw new ArgumentError(
        `grad: input ${i}, ${x.expr.aval}, does not require a gradient: call requiresGrad_() on it first`,
      );
  });
  const seeds = ys.map((y, i) => seedFor('grad', y, gs[i] ?? undefined));
  const flow = sweeping(createGraph, () =>
    gradients(
      ys.map((y) => y.expr),
      seeds,
      xs.map((x) => x.expr),
    ),
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

/** The value of a function, and the gradients of its arguments, each a tree like the argument. */
function differentiate(
  op: string,
  f: (...args: never[]) => unknown,
  args: readonly unknown[],
  options: FunctionOptions,
): { value: Tensor; aux: unknown; grads: unknown } {
  const { argnums = 0, hasAux = false } = options;
  const traced = new TracedFunction(op, f, args, options);
  const { value: y } = traced;
  if (!(y instanceof Tensor))
    throw new ArgumentError(`${op}: the function returned ${describe(y)}: it must return a tensor`);
  if (y.expr.aval.size !== 1 || !isFloat(y.dtype))
    throw new ArgumentError(
      `${op}: the function returned ${y.expr.aval}: it must return one floating point number: reduce it (sum, mean)`,
    );
  const flow = y.requiresGrad ? traced.back([y.expr], [seedFor(op, y)]) : traced.inside.map(zerosLike);
  const grads = traced.arguments(traced.outside(flow).map((g) => new Tensor(g)));
  return {
    value: new Tensor(traced.outside([y.expr])[0]!),
    aux: hasAux ? traced.outsideTree('aux', traced.aux) : undefined,
    grads: typeof argnums === 'number' ? grads[0] : grads,
  };
}

export type { FunctionOptions };
export type Args<F> = F extends (...args: infer A) => unknown ? A : never;
type Function = (...args: never[]) => unknown;
export type Grads<F, N> = N extends readonly number[]
  ? { [K in keyof N]: Args<F>[N[K] & keyof Args<F>] }
  : Args<F>[N & keyof Args<F>];

/** The gradients of outputs with respect to inputs; given a function instead, the function that computes its gradient. */
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

/** A function that returns [value, gradient] of f (with hasAux: [[value, aux], gradient]). */
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
  /** Runs when a gradient may be needed: returns [result, residuals for backward]. */
  readonly forward?: (...xs: A) => readonly [Y, R];
  /** Returns the gradient of each argument (null: none), given the residuals and the gradient of the result. */
  readonly backward: (residuals: R, g: Y) => readonly unknown[];
}

/**
 * f with a custom gradient. Without `forward`, the residuals are { inputs, output }. The second derivative is the derivative
 * of backward.
 */
export function customVjp<A extends unknown[], Y, const R = { readonly inputs: A; readonly output: Y }>(
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
      `customVjp: backward returned ${got} for ${args.length} arguments: return an array with one gradient each`,
    );
  }
  const zeros = (tree: unknown) =>
    tensorsOf('', tree).rebuild(exprsOf(tensorsOf('', tree)).map((x) => new Tensor(zerosLike(x))));
  const full = tensorsOf(
    'customVjp: the result of backward',
    back.map((g, i) => g ?? zeros(args[i])),
  );
  checkSameTrees('customVjp', 'the arguments', [inputs, 'as given'], [full, 'in the result of backward']);
  return exprsOf(full);
}

/**
 * Calls f and keeps only its arguments for the gradient: f is computed again when the gradient is. Trades time for memory.
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

// ---- checking gradients

/**
 * Compares the gradients of f at these inputs with finite differences in f64, and throws a GradcheckError for the first that
 * differs. `order: 2` compares the gradient of the gradient.
 */
export async function gradcheck(
  f: (...xs: Tensor[]) => Tensor | readonly Tensor[],
  inputs: readonly Tensor[],
  { order = 1, ...options }: GradcheckOptions & { readonly order?: 1 | 2 } = {},
): Promise<true> {
  const places = inputs.flatMap((x, i) => (isFloat(x.dtype) ? [i] : []));
  if (!places.length) throw new ArgumentError('gradcheck: no input is a float tensor: there is no gradient to check');
  const start = await Promise.all(
    places.map(async (i) => (await new Tensor(convert(inputs[i]!.expr, 'f64')).data()) as Float64Array),
  );
  // A number that depends on every element of the results, with different weights.
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
    if (!ys.length) throw new ArgumentError('gradcheck: the function returned no float tensors');
    const value = weighted(ys);
    if (order === 1 || !value.requiresGrad) return { value, variables };
    const first = gradOf(value, variables, { createGraph: true, allowUnused: true });
    return { value: weighted(first.filter((g) => g !== null)), variables };
  };
  await compareWithDifferences(
    {
      value: (data) => make(data).value.item(),
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
