// The names of modules and of their tensors, for messages. Modules are defined above this folder and register here.

import type { Expr } from '../ir/expr.js';
import type { Cell } from '../runtime/cell.js';

export interface ModuleNames {
  /** Whether calls of modules are to be recorded. */
  record(on: boolean): void;
  /** The path of the innermost module of a scope, from the outermost. `passOf`: the pass of a loop over layers. */
  pathOf(scope: readonly object[], passOf: (loop: object) => number | undefined): string;
  /** The tensors of a module, by their paths. A * stands for the first dimension of stacked parameters. */
  tensorsOf(root: object): Iterable<NamedTensor>;
}
export interface NamedTensor {
  readonly path: string;
  readonly kind: 'parameter' | 'buffer';
  readonly cell: Cell;
  readonly expr: Expr;
}

let names: ModuleNames | undefined;
let recording = false;

/** What was registered; undefined while nn is not loaded. */
export const modules = (): ModuleNames | undefined => names;

export function nameModules(own: ModuleNames): void {
  names = own;
  own.record(recording);
}

/** Switches the recording of module calls, also for modules that register later. */
export function recordModules(on: boolean): void {
  recording = on;
  names?.record(on);
}
