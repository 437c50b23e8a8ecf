// Gradient hooks: user functions that see, and may replace, gradients during backward. They belong to nodes; those of a variable
// belong to its tensor, since its node changes with each update.
import type { Expr } from './expr.js';

/** A registration that can be removed. */
export interface Handle {
  remove(): void;
  [Symbol.dispose](): void;
}

/**
 * Identifies the set of hooks on objects that outlive a step (modules, variables): a combination of their ids, so that adding and
 * removing a hook restores the previous number. If it has changed, a traced step is stale.
 */
let version = 0;
export const hooksVersion = (): number => version;
let made = 0;
/** Scrambles a number, since sums of consecutive numbers would collide. */
function mixed(n: number): number {
  let x = Math.imul(n ^ (n >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return x ^ (x >>> 16);
}

/** Functions, in the order they are called. */
export class HookList<F> {
  readonly #hooks = new Set<{ readonly fn: F; readonly id: number }>();
  /** `lasts`: whether it belongs to something that outlives a step. */
  constructor(readonly lasts: boolean) {}
  get size(): number {
    return this.#hooks.size;
  }
  *[Symbol.iterator](): Iterator<F> {
    for (const { fn } of [...this.#hooks]) yield fn;
  }
  add(fn: F, prepend = false, removed: () => void = () => {}): Handle {
    const hook = { fn, id: this.lasts ? mixed(++made) : 0 };
    const before = prepend ? [...this.#hooks] : [];
    for (const h of before) this.#hooks.delete(h);
    this.#hooks.add(hook);
    for (const h of before) this.#hooks.add(h);
    version ^= hook.id;
    const remove = () => {
      if (!this.#hooks.delete(hook)) return;
      version ^= hook.id;
      removed();
    };
    return { remove, [Symbol.dispose]: remove };
  }
}

/** Takes the gradients of a node's results; returns replacements, or undefined. */
export type GradientHook = (gs: readonly (Expr | null)[]) => readonly (Expr | null)[] | undefined;

const ofNodes = new WeakMap<Expr, HookList<GradientHook>>();
let ofVariable: (e: Expr) => HookList<GradientHook> | undefined = () => undefined;
let used = false;
/** The hooks of a node, for adding one. */
export function hooksOfNode(e: Expr): HookList<GradientHook> {
  used = true;
  const list = ofNodes.get(e) ?? new HookList<GradientHook>(false);
  ofNodes.set(e, list);
  return list;
}
/** Sets how the hooks of a variable's tensor are found; called by the tensor's file. */
export function findVariableHooks(find: typeof ofVariable): void {
  ofVariable = find;
}
export const noteVariableHooks = (): void => void (used = true);
/** Whether a node has hooks. */
export const isHooked = (e: Expr): boolean => used && (ofNodes.get(e)?.size ?? 0) > 0;
/** Copies the hooks of a node to the node that replaces it when a body is inlined. */
export function copyHooks(from: Expr, to: Expr): void {
  const list = used ? ofNodes.get(from) : undefined;
  if (list) ofNodes.set(to, list);
}

/** Applies a node's hooks to the gradients of its results. */
export function applyHooks(e: Expr, gs: (Expr | null)[]): (Expr | null)[] {
  if (!used) return gs;
  let now: readonly (Expr | null)[] = gs;
  for (const list of [ofNodes.get(e), ofVariable(e)]) for (const hook of list ?? []) now = hook(now) ?? now;
  return [...now];
}

let graphKept = true;
/** Whether the running sweep keeps the graph of gradients; if not, hooks get detached values. */
export const keepsGraph = (): boolean => graphKept;
export function sweeping<T>(createGraph: boolean, run: () => T): T {
  const before = graphKept;
  graphKept = createGraph;
  try {
    return run();
  } finally {
    graphKept = before;
  }
}
