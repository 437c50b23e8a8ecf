// The step that is being traced, as tensors see it.
import { type Expr, nodeCount } from '../ir/expr.js';
import { type CellLike, openScopes, Scope } from '../ir/scope.js';
import type { Source } from '../ir/source.js';
import { input, isVariable } from '../ops/prim/variable.js';
import { ownRecord, recordOf } from '../runtime/record.js';
import type { Tensor } from './tensor.js';
import { variables } from './variables.js';

/** A call that waits for the results of a step, and what it is given. */
export interface Closure {
  readonly fn: (...args: never[]) => unknown;
  readonly args: readonly unknown[];
}

export class StepScope extends Scope {
  /** Nodes with a smaller number were made before it. */
  readonly born = nodeCount();
  /** Every tensor made inside. */
  readonly made: Tensor[] = [];
  /** What `grad` was where it was first read or set, and whether it was read. */
  readonly grads = new Map<
    Tensor,
    { readonly before: Tensor | null; readonly put: object | undefined; readonly read: boolean }
  >();
  /** What it depends on that is no tensor (a module's training flag): where one is another, it is traced anew. */
  readonly conditions = new Map<object, { readonly read: () => unknown; readonly value: unknown }>();
  /** Called when its results are there, with the values of these tensors. */
  readonly closures: Closure[] = [];

  constructor(
    readonly name: string,
    readonly source: Source | undefined,
  ) {
    super();
  }

  standIn(_: CellLike, before: Expr): Expr {
    if (before.serial >= this.born) return before; // of a tensor made inside
    if (before.differentiable && !isVariable(before)) return before; // the way of gradients leads on outside
    const inside = input(before.aval, before.differentiable);
    ownRecord(inside).sharding = recordOf(before).sharding;
    const owner = variables.get(before);
    if (owner) variables.set(inside, owner);
    return inside;
  }
}

export const currentStep = (): StepScope | undefined => openScopes().findLast((s) => s instanceof StepScope);
/** Nodes with a smaller number come from outside of the step that is being traced; -1 where there is none. */
export const stepStart = (): number => currentStep()?.born ?? -1;

/** A value of the host that decides what a step describes, of which there is one for each key. */
export function dependOn<T>(key: object, read: () => T): T {
  const value = read();
  const conditions = currentStep()?.conditions;
  if (conditions && !conditions.has(key)) conditions.set(key, { read, value });
  return value;
}
