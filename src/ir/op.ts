// What a node computes, seen from the graph: a name, how it is written as StableHLO, and its gradient.
import type { Aval } from './aval.js';
import type { Expr } from './expr.js';
import type { Graph } from './graph.js';
import type { Mesh, Sharding } from './mesh.js';

/** A value in StableHLO text: %12, or %12#1. */
export type Ssa = string;

/** Writes StableHLO, op by op, in MLIR's generic form. */
export interface Emitter {
  /** Adds an op of any dialect ("stablehlo.add" is just "add") and names its results. */
  op(
    name: string,
    operands: readonly Ssa[],
    outs: readonly Aval[],
    attrs?: Attributes,
    regions?: readonly Region[],
  ): Ssa[];
  /** A block of ops with parameters, for ops that hold one. `manual`: it is not split, but run by every device as it is. */
  region(params: readonly Aval[], body: (params: readonly Ssa[]) => readonly Ssa[], manual?: boolean): Region;
  /** Writes the nodes of a graph, all but those that `values` already has, and returns what its roots are called. */
  graph(graph: Graph, values: Map<Expr, readonly Ssa[]>): Ssa[];
  typeOf(value: Ssa): Aval;
  /** A sharding as an attribute; its mesh is declared in the module. */
  sharding(sharding: Sharding, rank: number): string;
  /** What the program is split over, if it is. */
  readonly mesh?: Mesh | undefined;
  /** Has a mesh declared in the module. */
  declare(mesh: Mesh): void;
  /** What it is written for ('cpu', 'cuda', 'tpu'): an op may have a form of its own there. */
  readonly platform: string;
}
export type Attributes = Readonly<Record<string, string>>;
export type Region = string;

/** An op with its rules, as the graph holds it; `define` in ops/ makes it from a typed record. */
export interface Op {
  readonly name: string;
  lower(e: Emitter, inputs: readonly Ssa[], expr: Expr): readonly Ssa[];
  /** The gradients of the inputs, given those of the results (null: none flows there). Absent: not differentiable. */
  vjp?(grads: readonly (Expr | null)[], expr: Expr): readonly (Expr | null)[];
  /** Whether `wide` computes, from the same inputs, what `narrow` does and more after it: then only `wide` is computed. */
  covers?(wide: Expr, narrow: Expr): boolean;
}
