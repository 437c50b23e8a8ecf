// The step that is being traced: what tensors and modules report to it.
import { type Expr, nodeCount } from '../ir/expr.js';
import { type CellLike, openScopes, Scope } from '../ir/scope.js';
import type { Source } from '../ir/source.js';
import { input, isVariable } from '../ops/prim/variable.js';
import { ownRecord, recordOf } from '../runtime/record.js';
import { MemberReads } from './member-reads.js';
import type { Tensor } from './tensor.js';
import { variables } from './variables.js';

/** A call that is made once the results of a step are available, with its arguments. */
export interface Closure {
  readonly fn: (...args: never[]) => unknown;
  readonly args: readonly unknown[];
}

export class StepScope extends Scope {
  /** Nodes with a smaller number were made before the trace. */
  readonly born = nodeCount();
  /** Every tensor made inside the trace. */
  readonly made: Tensor[] = [];
  /** The value of `grad` before it was first read or set, and whether it was read. */
  readonly grads = new Map<
    Tensor,
    { readonly before: Tensor | null; readonly put: object | undefined; readonly read: boolean }
  >();
  /** Values other than tensors that the step depends on (a module's training flag): a change traces the step again. */
  readonly conditions = new Map<object, { readonly read: () => unknown; readonly value: unknown }>();
  /** Reads of modules' fields. */
  readonly members = new MemberReads();
  /** Called with the values of these tensors when the results of the step are available. */
  readonly closures: Closure[] = [];

  constructor(
    readonly name: string,
    readonly source: Source | undefined,
  ) {
    super();
  }

  standIn(_: CellLike, before: Expr): Expr {
    if (before.serial >= this.born) return before; // made inside
    if (before.differentiable && !isVariable(before)) return before; // gradients continue outside
    const inside = input(before.aval, before.differentiable);
    ownRecord(inside).sharding = recordOf(before).sharding;
    const owner = variables.get(before);
    if (owner) variables.set(inside, owner);
    return inside;
  }
}

export const currentStep = (): StepScope | undefined => openScopes().findLast((s) => s instanceof StepScope);
/** Nodes with a smaller number come from outside the step that is being traced; -1 if no step is. */
export const stepStart = (): number => currentStep()?.born ?? -1;

/** Reads a host value that determines what a step describes, and records it as a condition of the trace. One value per key. */
export function dependOn<T>(key: object, read: () => T): T {
  const value = read();
  const conditions = currentStep()?.conditions;
  if (conditions && !conditions.has(key)) conditions.set(key, { read, value });
  return value;
}
