// A place whose value changes: the value of a tensor, the state of a random generator. It holds an expression, and a new one
// is put there when it changes. The scopes that are open (ir/scope.ts) see when a cell is read or changed.
import { ArgumentError } from '../base/errors.js';
import type { Expr } from '../ir/expr.js';
import type { Sharding } from '../ir/mesh.js';
import { type CellLike, currentBody, openScopes } from '../ir/scope.js';
import { hold, ownRecord, recordOf, release } from './record.js';

export class Cell implements CellLike {
  #expr: Expr;
  #sharding: Sharding | undefined;
  #before: Expr | undefined;
  /** One of the same shape, beside which this lies by default: of a parameter, for an optimizer's state of it. */
  follows: Cell | undefined;
  /** The latest call that put something here (step/place.ts). */
  put: object | undefined;
  /** `carried`: bodies of loops may change it. A cell that is not can be read there, but changed only outside. */
  constructor(
    expr: Expr,
    readonly carried = true,
    /** What it is, for explanations. */
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
    if (body) throw new ArgumentError(`this ${this.#expr.aval} is changed in place inside a body: ${body.advice}`);
    const isTraced = openScopes().length > 0;
    const isComputed = !rebound.has(this) || recordOf(this.#expr).value !== undefined; // a value that was put in is kept
    if (keeping && !isTraced && isComputed) this.#before = this.#expr;
    this.#enter(true);
    this.replace(expr);
    if (!isTraced) this.touch();
  }

  /** While `keepBefore` is on: what it held before the changes that are still to be computed. */
  get before(): Expr | undefined {
    return this.#before;
  }
  /** Those changes have been computed. */
  forgetBefore(): void {
    this.#before = undefined;
  }
  /** Those changes are undone. */
  undoChanges(): void {
    if (this.#before) this.settle(this.#before);
  }

  /** Its expression, without any scope taking note. */
  peek(): Expr {
    return this.#expr;
  }
  /** Another value, which is known already: nothing is left to compute. */
  settle(expr: Expr): void {
    this.replace(expr);
    this.#before = undefined;
    rebound.delete(this);
  }
  /** Holds this instead, without any scope taking note. */
  replace(expr: Expr): void {
    const was = this.#expr;
    const isOfShape = expr.aval === was.aval || String(expr.aval.shape) === String(was.aval.shape);
    this.#sharding = isOfShape ? (recordOf(was).sharding ?? this.#sharding) : undefined;
    release(was);
    this.#take(expr);
  }
  #take(expr: Expr): void {
    hold(expr);
    if (this.carried) ownRecord(expr).goesAnywhere = true;
    this.#expr = expr;
  }

  /** How what it holds lies on several devices. Default: as what it held before. */
  get sharding(): Sharding | undefined {
    return recordOf(this.#expr).sharding ?? this.#sharding ?? this.follows?.sharding;
  }

  /** What it holds lies on one device again, and so does what comes after it. */
  unplace(): void {
    this.#sharding = undefined;
    ownRecord(this.#expr).sharding = undefined;
  }

  /** What it holds is computed with whatever is computed next. */
  touch(): void {
    rebound.add(this);
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

let keeping = false;
/** Whether cells remember what they held before changes that are still to be computed, so that those can be undone. */
export const keepBefore = (on: boolean): void => void (keeping = on);
const rebound = new Set<Cell>();
/** The cells that were changed and are still to be computed. */
export const pendingCells = (): Cell[] => [...rebound];
/** The cells that were changed since the last call: they are computed with whatever is computed next. */
export function takeRebound(): Cell[] {
  const cells = pendingCells();
  rebound.clear();
  return cells;
}
