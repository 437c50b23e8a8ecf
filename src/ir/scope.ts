// Scopes: the traces in progress, from the outermost to the innermost. A step, the body of a loop or a branch, and a part whose
// changes are undone each record the cells they touch, and restore them at the end.
import type { Aval } from './aval.js';
import type { Expr } from './expr.js';

/** A scope's view of a cell (runtime/cell.ts), a place with a changing expression. */
export interface CellLike {
  expr: Expr;
  /** Whether the body of a loop may change it: each iteration then sees the changes of the previous one. */
  readonly carried: boolean;
  /** Nodes with a smaller serial number are older than the cell. */
  readonly born: number;
  /** Its expression, without notifying scopes. */
  peek(): Expr;
}

export interface Touched {
  /** The cell's expression when the scope was entered. */
  readonly before: Expr;
  /** Its placeholder inside the scope. */
  readonly inside: Expr;
  /** Restores the cell. */
  readonly restore: () => void;
}

export abstract class Scope {
  readonly touched = new Map<CellLike, Touched>();
  /** The placeholder for a cell's value when it is first read or changed inside; undefined if the scope ignores it. */
  abstract standIn(cell: CellLike, before: Expr, change: boolean): Expr | undefined;
}

const scopes: Scope[] = [];
export const openScopes = (): readonly Scope[] => scopes;

/** Runs a function in a scope. `leave` sees the final state of the cells; afterwards they are restored. */
export function inScope<T, R>(scope: Scope, run: () => T, leave: (result: T) => R): R {
  scopes.push(scope);
  try {
    return leave(run());
  } finally {
    scopes.pop();
    for (const { restore } of scope.touched.values()) restore();
  }
}

/** The body of a loop or a branch. It is traced once and runs many times: a carried cell is a hidden parameter. */
export class BodyScope extends Scope {
  constructor(
    readonly parameter: (aval: Aval) => Expr,
    /** Advice for code that changes a cell that is not carried. */
    readonly advice: string,
    /** Whether a cell with this expression was made inside the body: then it may be changed too. */
    readonly owns: (e: Expr) => boolean = () => false,
  ) {
    super();
  }
  standIn(cell: CellLike, before: Expr): Expr | undefined {
    return cell.carried ? this.parameter(before.aval) : undefined;
  }
}
/** The innermost body that is being traced. */
export const currentBody = (): BodyScope | undefined => scopes.findLast((s) => s instanceof BodyScope);
export const insideBody = (): boolean => currentBody() !== undefined;

class UndoScope extends Scope {
  standIn(_: CellLike, before: Expr, change: boolean): Expr | undefined {
    return change ? before : undefined;
  }
}
/** Runs a part of a step, and undoes its changes afterwards. */
export const undoing = <T>(run: () => T): T => inScope(new UndoScope(), run, (result) => result);
