// Names of modules and their tensors, for messages. Modules are defined in a higher layer, which registers itself here.

import type { Expr } from '../ir/expr.js';
import { setPathOf } from '../ir/locations.js';
import type { Cell } from '../runtime/cell.js';

export interface ModuleNames {
  /** Turns the recording of module calls on or off. */
  record(on: boolean): void;
  /** The path of the innermost module of a scope, from the outermost. `passOf`: the iteration of a loop over layers. */
  pathOf(scope: readonly object[], passOf: (loop: object) => number | undefined): string;
  /** The tensors of a module, with their paths. A * stands for the first dimension of stacked parameters. */
  tensorsOf(root: object): Iterable<NamedTensor>;
}
export interface NamedTensor {
  readonly path: string;
  readonly kind: 'parameter' | 'buffer';
  readonly cell: Cell;
  readonly expr: Expr;
}

setPathOf((scope) => names?.pathOf(scope, () => undefined) ?? '');

let names: ModuleNames | undefined;
let recording = false;

/** The registered names; undefined while nn is not loaded. */
export const modules = (): ModuleNames | undefined => names;

export function nameModules(own: ModuleNames): void {
  names = own;
  own.record(recording);
}

/** Turns the recording of module calls on or off, also if nn registers later. */
export function recordModules(on: boolean): void {
  recording = on;
  names?.record(on);
}
