// Gradient hooks of tensors: functions called with a gradient when it is computed; they may replace it.
import { barrier } from '../autograd/checkpoint.js';
import { ArgumentError } from '../base/errors.js';
import { describe } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import {
  findVariableHooks,
  type GradientHook,
  type Handle,
  HookList,
  hooksOfNode,
  keepsGraph,
  noteVariableHooks,
} from '../ir/hooks.js';
import { entry, withSource } from '../ir/source.js';
import { detach } from '../ops/prim/variable.js';
import { Tensor } from './tensor.js';
import { afterGrad, variables } from './variables.js';

export type { Handle };

const ofTensors = new WeakMap<Tensor, HookList<GradientHook>>();
findVariableHooks((e) => {
  const owner = variables.get(e);
  return owner && ofTensors.get(owner);
});

/** The argument of a hook: a plain value, or a gradient that can be differentiated again. */
const shown = (g: Expr): Tensor => new Tensor(keepsGraph() ? g : detach(g));
function callHook<A extends unknown[], R>(what: string, hook: (...args: A) => R, ...args: A): R {
  const result = withSource(undefined, () => hook(...args));
  if (result instanceof Promise) {
    result.catch(() => {});
    throw new ArgumentError(
      `${what}: the hook is async: hooks only describe a computation: make it synchronous, and read tensors afterwards`,
    );
  }
  return result;
}
/** Checks what a hook returned in place of a gradient. */
function replaced(what: string, was: Expr, now: unknown): Expr {
  if (!(now instanceof Tensor))
    throw new ArgumentError(
      `${what}: the hook returned ${describe(now)}: it must return a tensor to replace the gradient, or nothing`,
    );
  if (now.aval !== was.aval)
    throw new ArgumentError(
      `${what}: the hook returned ${now.aval} for a gradient of type ${was.aval}: shape and dtype must be the same`,
    );
  return now.expr;
}

/** Functions that return nothing are hooks, too. */
// biome-ignore lint/suspicious/noConfusingVoidType: a function declared with it is one
export type Nothing = void;
export type TensorHook = (grad: Tensor) => Tensor | Nothing;

function listOf<F>(lists: WeakMap<Tensor, HookList<F>>, t: Tensor): HookList<F> {
  const list = lists.get(t) ?? new HookList<F>(true);
  lists.set(t, list);
  noteVariableHooks();
  return list;
}

function registerHook(t: Tensor, hook: TensorHook): Handle {
  checkHook('registerHook', hook);
  if (!t.requiresGrad)
    throw new ArgumentError(
      `registerHook: ${t.aval} does not require a gradient: call requiresGrad_() on the tensor that needs one`,
    );
  const list = t.isLeaf ? listOf(ofTensors, t) : hooksOfNode(t.expr);
  return list.add((gs) =>
    gs.map((g) => {
      if (!g) return g;
      const now = callHook('registerHook', hook, shown(g));
      return now === undefined ? g : replaced('registerHook', g, now);
    }),
  );
}

function registerPostAccumulateGradHook(t: Tensor, hook: (tensor: Tensor) => void): Handle {
  checkHook('registerPostAccumulateGradHook', hook);
  if (!t.requiresGrad || !t.isLeaf)
    throw new ArgumentError(
      `registerPostAccumulateGradHook: ${t.aval} is not a leaf that requires a gradient: call requiresGrad_() on a leaf`,
    );
  return listOf(afterGrad, t).add((owner) => callHook('registerPostAccumulateGradHook', hook, owner));
}

export function checkHook(what: string, hook: unknown): void {
  if (typeof hook !== 'function') throw new ArgumentError(`${what}: takes a function, got ${describe(hook)}`);
}

export interface HookMethods {
  /**
   * Calls `hook` with this tensor's gradient whenever `backward()` or `tx.grad` computes it; a tensor that it returns replaces
   * the gradient. For a variable, or anything computed from one.
   */
  registerHook(hook: TensorHook): Handle;
  /** Calls `hook` with this variable after a gradient was added to its `grad`. */
  registerPostAccumulateGradHook(hook: (tensor: Tensor) => void): Handle;
}
const METHODS = {
  registerHook(this: Tensor, hook: TensorHook): Handle {
    return registerHook(this, hook);
  },
  registerPostAccumulateGradHook(this: Tensor, hook: (tensor: Tensor) => void): Handle {
    return registerPostAccumulateGradHook(this, hook);
  },
};
for (const [name, method] of Object.entries(METHODS))
  Object.defineProperty(Tensor.prototype, name, { value: entry(method), writable: true, configurable: true });

type Gradients = readonly (Tensor | null)[];
/**
 * Routes the tensors through one node: `hook` is called once with the gradients of all of them and may replace them. null:
 * no gradient reaches that tensor.
 */
export function watch(what: string, xs: readonly Tensor[], hook: (gs: Gradients) => Gradients | undefined): Tensor[] {
  const watched = xs.filter((x) => x.requiresGrad);
  if (!watched.length) return [...xs];
  const outs = barrier(watched.map((x) => x.expr));
  const place = xs.map((x) => watched.indexOf(x));
  hooksOfNode(outs[0]!.inputs[0]!).add((gs) => {
    const given = outs.map((_, i) => gs[i] ?? null);
    const now = callHook(
      what,
      hook,
      place.map((i) => (i < 0 || !given[i] ? null : shown(given[i]!))),
    );
    if (now === undefined) return undefined;
    return given.map((g, i) => {
      const mine = now[place.indexOf(i)];
      return g && mine ? replaced(what, g, mine) : mine ? mine.expr : null;
    });
  });
  return xs.map((x, i) => (place[i]! < 0 ? x : new Tensor(outs[place[i]!]!)));
}
