// Scopes: what is being traced now, from the outermost to the innermost. A step, the body of a loop or a branch, and a part
// whose changes are undone each keep the cells that they touch, and give them back as they were.
import type { Aval } from './aval.js';
import type { Expr } from './expr.js';

/** What a scope sees of a cell (runtime/cell.ts): a place whose expression changes. */
export interface CellLike {
  expr: Expr;
  /** Whether the body of a loop may change it: each pass then sees what the one before it left. */
  readonly carried: boolean;
  /** Its expression, without any scope taking note. */
  peek(): Expr;
}

export interface Touched {
  /** What the cell held when the scope was entered. */
  readonly before: Expr;
  /** What stands for that inside. */
  readonly inside: Expr;
  /** Gives the cell back as it was. */
  readonly restore: () => void;
}

export abstract class Scope {
  readonly touched = new Map<CellLike, Touched>();
  /** What stands for a cell's value inside, the first time that it is read or changed; undefined: it is not touched. */
  abstract standIn(cell: CellLike, before: Expr, change: boolean): Expr | undefined;
}

const scopes: Scope[] = [];
export const openScopes = (): readonly Scope[] => scopes;

/** Runs what a scope is of. `leave` sees the cells as it leaves them; afterwards they hold what they held before. */
export function inScope<T, R>(scope: Scope, run: () => T, leave: (result: T) => R): R {
  scopes.push(scope);
  try {
    return leave(run());
  } finally {
    scopes.pop();
    for (const { restore } of scope.touched.values()) restore();
  }
}

/** The body of a loop or a branch. It is traced once and runs many times: a carried cell is a hidden parameter of it. */
export class BodyScope extends Scope {
  constructor(
    readonly parameter: (aval: Aval) => Expr,
    /** What to do instead of changing a cell that is not carried. */
    readonly advice: string,
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
/** Runs a part of a step. Whatever it changes holds afterwards what it held before. */
export const undoing = <T>(run: () => T): T => inScope(new UndoScope(), run, (result) => result);
