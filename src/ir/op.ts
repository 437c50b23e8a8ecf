// Op: the operation of a node, with its name, its lowering to StableHLO, and its gradient.
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
  /** A block of ops with parameters, for ops that contain one. `manual`: every device runs it as it is, without splitting. */
  region(params: readonly Aval[], body: (params: readonly Ssa[]) => readonly Ssa[], manual?: boolean): Region;
  /** Writes the nodes of a graph that are not in `values`, and returns the names of its roots. */
  graph(graph: Graph, values: Map<Expr, readonly Ssa[]>): Ssa[];
  typeOf(value: Ssa): Aval;
  /** A sharding as an attribute; its mesh is declared in the module. */
  sharding(sharding: Sharding, rank: number): string;
  /** The mesh the program is split over, if any. */
  readonly mesh?: Mesh | undefined;
  /** Declares a mesh in the module. */
  declare(mesh: Mesh): void;
  /** Matrices that are there transposed, too: for products that are faster with that form. */
  readonly turned?: Map<Ssa, Ssa>;
  /** The target platform ('cpu', 'cuda', 'tpu'): ops may be lowered differently there. */
  readonly platform: string;
}
export type Attributes = Readonly<Record<string, string>>;
export type Region = string;

/** A value computed for n examples at once: with an additional leading dimension of size n, or the same for all. */
export interface Lane {
  readonly x: Expr;
  readonly stacked: boolean;
}

/** An op with its rules; `define` in ops/ makes it from a typed record. */
export interface Op {
  readonly name: string;
  lower(e: Emitter, inputs: readonly Ssa[], expr: Expr): readonly Ssa[];
  /** The gradients of the inputs from those of the results (null: no gradient). Absent: not differentiable. */
  vjp?(grads: readonly (Expr | null)[], expr: Expr): readonly (Expr | null)[];
  /**
   * The results for n examples, where some inputs are stacked. `stack` repeats an input that is the same for all n times. Absent:
   * the op has no inputs.
   */
  batch?(expr: Expr, inputs: readonly Lane[], n: number, stack: (x: Expr) => Expr): readonly Lane[];
  /** Whether `wide` computes the results of `narrow` and more from the same inputs: then only `wide` is computed. */
  covers?(wide: Expr, narrow: Expr): boolean;
}
