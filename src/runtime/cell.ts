// A cell is a mutable place for a value: of a tensor, or the state of a random generator. It holds an expression, which is
// replaced when the value changes. Open scopes (ir/scope.ts) are notified when a cell is read or changed.
import { ArgumentError } from '../base/errors.js';
import { type Expr, nodeCount } from '../ir/expr.js';
import { Mesh, type Sharding } from '../ir/mesh.js';
import { type CellLike, currentBody, openScopes } from '../ir/scope.js';
import { hold, ownRecord, recordOf, release } from './record.js';

export class Cell implements CellLike {
  #expr: Expr;
  #sharding: Sharding | undefined;
  #before: Expr | undefined;
  readonly born = nodeCount();
  /** A cell of the same shape whose sharding is the default for this one: the parameter's, for its optimizer state. */
  follows: Cell | undefined;
  /** `carried`: bodies of loops may change it. Other cells can be read there, but not changed. */
  constructor(
    expr: Expr,
    readonly carried = true,
    /** Its name in explanations. */
    readonly name?: string,
  ) {
    this.#expr = expr;
    this.#take(expr);
  }

  get expr(): Expr {
    this.#enter(false);
    return this.#expr;
  }
  set expr(expr: Expr) {
    const body = this.carried ? undefined : currentBody();
    if (body && !body.owns(this.#expr))
      throw new ArgumentError(`this ${this.#expr.aval} is changed in place inside a body: ${body.advice}`);
    if (openScopes().length) {
      this.#enter(true);
      this.replace(expr);
    } else if (expr.isComputed) this.settle(expr);
    else {
      const { before } = this;
      this.replace(expr);
      this.pend(before);
    }
  }

  /** The expression before the changes that are not computed yet. */
  get before(): Expr {
    return this.#before ?? this.#expr;
  }
  /** Marks its value to be computed with the next computation. */
  pend(before: Expr): void {
    this.#before = before;
    pending.add(this);
  }

  /** Its expression, without notifying scopes. */
  peek(): Expr {
    return this.#expr;
  }
  /** Sets a value that is already known: nothing is left to compute. */
  settle(expr: Expr): void {
    this.replace(expr);
    this.#before = undefined;
    pending.delete(this);
  }
  /** Replaces its expression, without notifying scopes. */
  replace(expr: Expr): void {
    const was = this.#expr;
    const isOfShape = expr.aval === was.aval || String(expr.aval.shape) === String(was.aval.shape);
    this.#sharding = isOfShape ? (recordOf(was).sharding ?? this.#sharding) : undefined;
    release(was);
    this.#take(expr);
  }
  #take(expr: Expr): void {
    hold(expr);
    if (this.carried) ownRecord(expr).followsProgram = true;
    this.#expr = expr;
  }

  /** The sharding of its value. Default: that of its previous value. */
  get sharding(): Sharding | undefined {
    return recordOf(this.#expr).sharding ?? this.#sharding ?? this.follows?.sharding;
  }

  /** Removes the sharding: its value, and later ones, are on one device again. */
  unplace(): void {
    this.#sharding = undefined;
    ownRecord(this.#expr).sharding = undefined;
  }

  /** Its expression, marked to get the sharding of its previous value. */
  placed(): Expr {
    if (Mesh.exists) ownRecord(this.#expr).sharding ??= this.sharding;
    return this.#expr;
  }

  /** Takes the change that is to be computed. Later changes are recorded anew. */
  take(): Change {
    const change = { cell: this, expr: this.placed(), before: this.before };
    this.#before = undefined;
    pending.delete(this);
    return change;
  }
  /** Puts back a change that was taken but not computed; a change on top of a failed step is undone with that. */
  giveBack(change: Change): void {
    const { expr, before } = change;
    if (undone.has(before)) this.undo(change);
    else if (this.#holds(expr)) this.pend(before); // else a call has put another value here
  }
  /**
   * Undoes a change that was taken, and all later ones. `since`: the expression before `before`, if `before` is not computed
   * yet.
   */
  undo({ expr, before }: Change, since?: Expr): void {
    const isOpen = since !== undefined && !before.isComputed;
    const back = undone.get(before) ?? (isOpen ? undone.get(since) : undefined) ?? { to: before, since };
    undone.set(expr, back);
    if (!this.#holds(expr)) return;
    this.settle(back.to);
    if (back.since && !back.to.isComputed) this.pend(back.since);
  }
  /** Whether it holds this expression, or changes of it that were not taken yet. */
  #holds(expr: Expr): boolean {
    return this.#expr === expr || (pending.has(this) && this.#before === expr);
  }
  #enter(change: boolean): void {
    for (const scope of openScopes()) {
      if (scope.touched.has(this)) continue;
      const before = this.#expr;
      const inside = scope.standIn(this, before, change);
      if (!inside) continue;
      const sharding = this.#sharding;
      const restore = () => {
        this.replace(before);
        this.#sharding = sharding;
      };
      scope.touched.set(this, { before, inside, restore });
      if (inside !== before) this.replace(inside);
    }
  }
}

/** A change of a cell that is not computed yet. */
export interface Change {
  readonly cell: Cell;
  readonly expr: Expr;
  /** The cell's expression before the change. */
  readonly before: Expr;
}

const pending = new Set<Cell>();
/** For each expression that a failed step or call had put into a cell: the one before it. Later steps on top of it fail too. */
const undone = new WeakMap<Expr, { readonly to: Expr; readonly since: Expr | undefined }>();
/** Whether a failed step or call had put this expression into a cell. */
export const isUndone = (e: Expr): boolean => undone.has(e);
/** The cells with changes that are not computed yet. */
export const pendingCells = (): Cell[] => [...pending];
/** Whether a cell was changed and its new value is not computed yet. */
export const changesArePending = (): boolean => pendingCells().some((cell) => !cell.peek().isComputed);
/** Takes all changes that are not computed yet: the caller is responsible for them now. */
export const takeChanges = (): Change[] =>
  pendingCells()
    .map((cell) => cell.take())
    .filter(({ expr }) => !expr.isComputed);
