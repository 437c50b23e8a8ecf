// A place whose value changes: what it holds is an expression, and a new one is put there when it changes (the state of a
// random generator). The body of a loop runs many times though it is traced once: a cell that it reads or changes becomes
// a hidden parameter of the body, so that each pass sees what the one before it left.
import { ArgumentError } from '../base/errors.js';
import type { Aval } from './aval.js';
import type { Expr } from './expr.js';
import type { Sharding } from './mesh.js';

export interface Touched {
  /** What the cell held when the body was entered. */
  readonly before: Expr;
  /** The body's parameter for it. */
  readonly inside: Expr;
  /** What the body leaves in it. */
  readonly after: Expr;
}
interface Frame {
  readonly parameter: (aval: Aval) => Expr;
  readonly touched: Map<Cell, { before: Expr; inside: Expr }>;
  /** What to do instead of changing a cell that is not carried. */
  readonly advice: string;
}
const frames: Frame[] = [];
/** Whether the body of a loop or a branch is being traced. */
export const insideBody = (): boolean => frames.length > 0;

export class Cell {
  #expr: Expr;
  #sharding: Sharding | undefined;
  #before: Expr | undefined;
  /** One of the same shape, beside which this lies unless told: of a parameter, for an optimizer's state of it. */
  follows: Cell | undefined;
  /** `carried`: bodies of loops may change it. A cell that is not can be read there, but changed only outside. */
  constructor(
    expr: Expr,
    readonly carried = true,
    /** What it is, for explanations. */
    readonly name?: string,
  ) {
    this.#expr = expr;
    expr.holders++;
    expr.goesAlong ||= carried;
  }

  get expr(): Expr {
    if (watch) this.#watched(watch);
    this.#enter();
    return this.#expr;
  }
  set expr(expr: Expr) {
    if (!this.carried && frames.length) {
      throw new ArgumentError(`this ${this.#expr.aval} is changed in place inside a body: ${frames.at(-1)!.advice}`);
    }
    if (watch) this.#watched(watch);
    if (!frames.length && !undone?.has(this)) undone?.set(this, this.#expr);
    const isComputed = !rebound.has(this) || this.#expr.value !== undefined; // a value that was put in is kept
    if (keeping && !frames.length && !watch && isComputed) this.#before = this.#expr;
    this.#enter();
    this.#hold(expr);
    if (!frames.length && !watch) this.touch();
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
  restore(): void {
    if (!this.#before) return;
    this.settle(this.#before);
    this.#before = undefined;
  }

  /** What it holds, without anyone noticing. */
  peek(): Expr {
    return this.#expr;
  }
  /** Another value, which is known already: nothing is left to compute. */
  settle(expr: Expr): void {
    this.#hold(expr);
    rebound.delete(this);
  }
  #hold(expr: Expr): void {
    const { aval, sharding } = this.#expr;
    const isOfShape = expr.aval === aval || String(expr.aval.shape) === String(aval.shape);
    this.#sharding = isOfShape ? (sharding ?? this.#sharding) : undefined;
    this.#expr.holders--;
    expr.holders++;
    expr.goesAlong ||= this.carried;
    this.#expr = expr;
  }

  /** How what it holds lies on several devices: as what it held before, unless told. */
  get sharding(): Sharding | undefined {
    return this.#expr.sharding ?? this.#sharding ?? this.follows?.sharding;
  }

  /** What it holds lies on one device again, and so does what comes after it. */
  unplace(): void {
    this.#sharding = undefined;
    this.#expr.sharding = undefined;
  }

  /** What it holds is computed with whatever is computed next. */
  touch(): void {
    rebound.add(this);
  }
  #watched({ touched, enter }: Watch): void {
    if (touched.has(this)) return;
    const before = this.#expr;
    const inside = enter(this, before);
    touched.set(this, { before, inside });
    this.#hold(inside);
  }
  #enter(): void {
    if (!this.carried) return;
    for (const { touched, parameter } of frames) {
      if (touched.has(this)) continue;
      const inside = parameter(this.#expr.aval);
      touched.set(this, { before: this.#expr, inside });
      this.#expr = inside;
    }
  }

  /** Runs what describes a step. `leave` sees the cells as the step leaves them; then they hold what they held before. */
  static watched<T, R>(step: Watch, run: () => T, leave: (result: T) => R): R {
    watch = step;
    try {
      return leave(run());
    } finally {
      watch = undefined;
      for (const [cell, { before }] of step.touched) cell.#hold(before);
    }
  }

  /** Runs a part of a step. Whatever it changes holds afterwards what it held before. */
  static undoing<T>(run: () => T): T {
    const outer = undone;
    const before = new Map<Cell, Expr>();
    undone = before;
    try {
      return run();
    } finally {
      undone = outer;
      for (const [cell, expr] of before) cell.#hold(expr);
    }
  }

  /** Runs a body and says which cells it touched; they hold what they held before. */
  static within<T>(
    parameter: (aval: Aval) => Expr,
    run: () => T,
    advice: string,
  ): { result: T; cells: Map<Cell, Touched> } {
    const touched: Frame['touched'] = new Map();
    const cells = new Map<Cell, Touched>();
    frames.push({ parameter, touched, advice });
    try {
      const result = run();
      for (const [cell, t] of touched) cells.set(cell, { ...t, after: cell.#expr });
      return { result, cells };
    } finally {
      frames.pop();
      for (const [cell, { before }] of touched) cell.#expr = before;
    }
  }
}

/** A step that is being traced: the cells it touches, what they held, and what stands for that inside. */
export interface Watch {
  readonly touched: Map<Cell, { readonly before: Expr; readonly inside: Expr }>;
  /** What stands for a cell's value inside. */
  readonly enter: (cell: Cell, before: Expr) => Expr;
}
let watch: Watch | undefined;
/** What cells held before they were changed, where that is to be undone. */
let undone: Map<Cell, Expr> | undefined;
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
