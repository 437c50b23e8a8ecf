// What a call leaves in a place, the cell or the gradient of a tensor: a value to come. It is there at once, so that what follows
// is described in the order of the calls, and is undone if the call fails. A later call may put its own on top before that.
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import type { Cell } from '../runtime/cell.js';
import { recordOf } from '../runtime/record.js';
import { freeValue, hasValue } from '../runtime/value.js';
import type { Tensor } from '../tensor/tensor.js';

export abstract class Put<V> {
  #was: V | undefined;
  #below: Put<V> | undefined;
  #failed = false;
  /** The node whose value nothing in this place needs any more. */
  protected replaced: Expr | undefined;

  constructor(was: V, below: Put<V> | undefined) {
    this.#was = was;
    this.#below = below;
  }
  /** Whether nothing was put there since. */
  protected abstract isOnTop(): boolean;
  /** `below`: the call that put it there, if one did. */
  protected abstract putBack(was: V, below: Put<V> | undefined): void;

  /** The call has failed: the place gets back what it had before this call, and before those under it that failed, too. */
  undo(): void {
    this.#failed = true;
    if (!this.isOnTop()) return;
    let first: Put<V> = this;
    for (let put = this.#below; put; put = put.#below) {
      if (!put.#failed) break;
      first = put;
    }
    this.putBack(first.#was as V, first.#below);
    this.#drop();
  }

  /** The call was started: what it replaced is freed, unless others hold it. */
  settle(): void {
    if (this.replaced && recordOf(this.replaced).holders === 0) freeValue(this.replaced);
    this.#drop();
  }
  /** Lets go of what was there before, which would keep all before that. */
  #drop(): void {
    this.#was = this.#below = this.replaced = undefined;
  }
}

export class CellPut extends Put<Expr> {
  constructor(
    readonly cell: Cell,
    readonly now: Expr,
  ) {
    const was = cell.peek();
    const last = cell.put as CellPut | undefined;
    super(was, last?.now === was ? last : undefined);
    this.replaced = was;
    cell.settle(now);
    cell.put = this;
  }
  override settle(): void {
    super.settle();
    this.#leave();
  }
  override undo(): void {
    super.undo();
    this.#leave();
  }
  /** If it is the last: the cell would keep the value after another took its place. */
  #leave(): void {
    if (this.cell.put === this) this.cell.put = undefined;
  }
  protected isOnTop(): boolean {
    return this.cell.peek() === this.now;
  }
  protected putBack(was: Expr): void {
    this.cell.settle(was);
    if (!hasValue(was)) this.cell.touch();
  }
}

export class GradPut extends Put<Tensor | null> {
  /** The gradient that an earlier call made: it goes with this call. */
  #spent: Tensor | undefined;

  constructor(
    readonly owner: Tensor,
    readonly now: Tensor | null,
  ) {
    const was = owner.grad;
    const last = owner.gradPut as GradPut | undefined;
    super(was, last);
    const node = was && last?.now === was ? was.peek() : undefined;
    if (node) {
      this.#spent = was!;
      this.replaced = node;
      was!.spend(replacedGrad);
    }
    owner.grad = now;
    owner.gradPut = this;
  }
  override undo(): void {
    this.#spent?.revive(this.replaced!);
    super.undo();
  }
  override settle(): void {
    super.settle();
    this.#spent = undefined;
  }
  /** Whether the gradient that was there goes with this call. */
  get isReplacing(): boolean {
    return this.#spent !== undefined;
  }
  protected isOnTop(): boolean {
    return this.owner.gradPut === this;
  }
  protected putBack(was: Tensor | null, below: Put<Tensor | null> | undefined): void {
    this.owner.restoreGrad(was, below);
  }
}
/** By itself: inside a call, it would keep all that the call left. */
const replacedGrad = (aval: Aval): string =>
  `this ${aval} was a gradient that a later step replaced: clone() it to keep it`;
