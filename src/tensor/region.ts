// The step that is being traced, as tensors see it.
import type { Source } from '../ir/source.js';
import type { Tensor } from './tensor.js';

export interface Region {
  readonly name: string;
  readonly source: Source | undefined;
  /** Nodes with a smaller number were made before it. */
  readonly born: number;
  /** Every tensor made inside. */
  readonly made: Tensor[];
  /** What `grad` was where it was first read or set, and whether it was read. */
  readonly grads: Map<Tensor, { readonly before: Tensor | null; readonly version: number; readonly read: boolean }>;
  /** Called when its results are there, with the values of these tensors. */
  readonly closures: { readonly fn: (...args: never[]) => unknown; readonly args: readonly unknown[] }[];
}

let current: Region | undefined;
let born = -1;

export const currentRegion = (): Region | undefined => current;
/** Nodes with a smaller number come from outside of the step that is being traced; -1 where there is none. */
export const stepStart = (): number => born;

export function within<T>(region: Region, run: () => T): T {
  current = region;
  born = region.born;
  try {
    return run();
  } finally {
    current = undefined;
    born = -1;
  }
}
