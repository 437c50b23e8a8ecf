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
  /** What it depends on that is no tensor (a module's training flag): where one is another, it is traced anew. */
  readonly conditions: Map<object, { readonly read: () => unknown; readonly value: unknown }>;
  /** Called when its results are there, with the values of these tensors. */
  readonly closures: { readonly fn: (...args: never[]) => unknown; readonly args: readonly unknown[] }[];
}

let current: Region | undefined;
let born = -1;

export const currentRegion = (): Region | undefined => current;
/** Nodes with a smaller number come from outside of the step that is being traced; -1 where there is none. */
export const stepStart = (): number => born;

/** A value of the host's that decides what a step describes, of which there is one for each key. */
export function dependOn<T>(key: object, read: () => T): T {
  const value = read();
  if (current && !current.conditions.has(key)) current.conditions.set(key, { read, value });
  return value;
}

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
