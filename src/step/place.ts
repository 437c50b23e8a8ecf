// Promised values that a call puts into a tensor's cell or gradient. They are in place at once, so that code after the call sees
// them in the order of the calls, and are undone if the call fails. A later call may put its own on top before that.
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import type { Cell } from '../runtime/cell.js';
import { recordOf } from '../runtime/record.js';
import { freeValue } from '../runtime/value.js';
import type { Tensor } from '../tensor/tensor.js';

/** A promised value in a cell. */
export class CellPut {
  /** The node that was there; and the one before it, if it still has to be computed. */
  #was: Expr | undefined;
  #before: Expr | undefined;

  constructor(
    readonly cell: Cell,
    readonly now: Expr,
  ) {
    this.#was = cell.peek();
    this.#before = cell.before;
    cell.settle(now);
  }
  /** The call was started: what it replaced is freed, unless others hold it. */
  settle(): void {
    free(this.#was!);
    this.#was = this.#before = undefined; // it would keep all before it
  }
  /** The call has failed: the cell gets back the value it held, even if it was changed since. */
  undo(): void {
    const { cell, now: expr } = this;
    cell.undo({ cell, expr, before: this.#was! }, this.#before);
    this.#was = this.#before = undefined;
  }
}

/** A promised gradient. */
export class GradPut {
  #was: Tensor | null | undefined;
  /** The call that put the earlier gradient there, if one did. */
  #below: GradPut | undefined;
  failed = false;
  /** The gradient that an earlier call made, and its node: this call replaces it. */
  #spent: { readonly grad: Tensor; readonly node: Expr } | undefined;

  constructor(
    readonly owner: Tensor,
    readonly now: Tensor | null,
  ) {
    const was = owner.grad;
    const last = owner.gradPut as GradPut | undefined;
    this.#was = was;
    this.#below = last;
    const node = was && last?.now === was ? was.peek() : undefined;
    if (was && node) {
      this.#spent = { grad: was, node };
      was.spend(replacedGrad);
    }
    owner.grad = now;
    owner.gradPut = this;
  }
  /** Whether this call replaces an earlier call's gradient. */
  get isReplacing(): boolean {
    return this.#spent !== undefined;
  }
  /** The call was started: what it replaced is freed, unless others hold it. */
  settle(): void {
    if (this.#spent) free(this.#spent.node);
    this.#drop();
  }
  /** The call has failed: restores the gradient from before this call, and from before failed calls under it. */
  undo(): void {
    this.failed = true;
    this.#spent?.grad.revive(this.#spent.node);
    if (this.owner.gradPut !== this) return; // set since
    let first: GradPut = this;
    while (first.#below?.failed) first = first.#below;
    this.owner.restoreGrad(first.#was!, first.#below);
    this.#drop();
  }
  /** Drops the reference to the earlier gradient, which would keep all earlier ones alive. */
  #drop(): void {
    this.#was = this.#below = this.#spent = undefined;
  }
}

const free = (e: Expr): void => {
  if (recordOf(e).holders === 0) freeValue(e);
};
/** A function at module level: a closure made inside a call would keep all of the call's results alive. */
const replacedGrad = (aval: Aval): string =>
  `this ${aval} was a gradient that a later step replaced: clone() it to keep it`;
