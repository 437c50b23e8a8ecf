// Experts of a mixture-of-experts layer: equal modules, of which each row goes through one, chosen by a router.
import { empty } from '../tensor/create.js';
import type { Tensor } from '../tensor/tensor.js';
import { inGroups, type Split } from './grouped.js';
import { uniform_ } from './init.js';
import { Module } from './module.js';
import { stackedEntries } from './stack.js';

// Symbols, and no private names: a copy of a module (clone) has them, too.
const EXPERT = Symbol('expert');

/**
 * Experts of the same form, named 0, 1, 2 and so on in state dicts, and * as parameters: each is stacked, [experts, ...].
 * Their linear layers must not have biases.
 */
export class Experts<M extends Module = Module> extends Module {
  readonly [EXPERT]: M;
  readonly length: number;
  /** `template` is used for all experts from now on: its parameters get a leading dimension. */
  constructor(length: number, expert: M) {
    super();
    this[EXPERT] = expert;
    this.length = length;
    for (const p of expert.parameters()) {
      const bound = 1 / Math.sqrt(p.shape.at(-1) ?? 1);
      p.become(empty([length, ...p.shape], { dtype: p.dtype }).expr);
      uniform_(p, -bound, bound);
    }
  }
  get expert(): M {
    return this[EXPERT];
  }
  /**
   * Calls fn with rows sorted by expert. `sizes`: the number of rows of each, i32[experts]. With `split`, each device has some of
   * the experts, and rows for these.
   */
  among<T>(sizes: Tensor, fn: (expert: M) => T, split: Split | null = null): T {
    return inGroups(sizes, split, () => fn(this[EXPERT]));
  }
  /** Rows [m, D], those of expert 0 first. */
  override forward(x: Tensor, sizes: Tensor): Tensor {
    return this.among(sizes, (expert) => expert.forward(x as never) as Tensor);
  }
  override *members(): ReturnType<Module['members']> {
    yield ['*', this[EXPERT]];
  }
  override *stateEntries(prefix = ''): ReturnType<Module['stateEntries']> {
    yield* stackedEntries(this[EXPERT], this.length, prefix);
  }
  override extraRepr(): string {
    return `${this.length} experts`;
  }
}
