// Expr: one node of a graph, an operation on other nodes. Nothing is computed here; the graph is printed as StableHLO later. A
// node is immutable except for `forget`; its value is kept by the runtime.
import { Interner, newId } from '../base/intern.js';
import type { Aval } from './aval.js';
import type { Op } from './op.js';
import { currentSource, type Source } from './source.js';

let made = 0;
/** The number of nodes made so far. */
export const nodeCount = (): number => made;

/** The runtime's record of a node. The graph only uses whether there is a value. */
export interface RuntimeRecord {
  readonly value: object | undefined;
}

const FORGOTTEN: readonly Expr[] = Object.freeze([]);

export class Expr {
  /** Nodes are numbered in order of creation: a node cannot depend on one with a larger number. */
  readonly serial = made++;
  readonly source: Source | undefined = currentSource();
  /** Whether a gradient can flow through this node to a node that requires one. */
  readonly differentiable: boolean;
  #signature: Signature | undefined; // made when needed: given values need none

  /** Used by the runtime (runtime/record.ts): a graph is printed, hashed and lowered without it. */
  record: RuntimeRecord | undefined;

  constructor(
    readonly op: Op,
    readonly inputs: readonly Expr[],
    readonly attrs: unknown,
    /** The type of the result; of the first one, for an op with several. */
    readonly aval: Aval,
    /** The types of all results, for an op with several; `pick` takes one. */
    readonly avals?: readonly Aval[],
    differentiable = inputs.some((x) => x.differentiable),
  ) {
    this.differentiable = differentiable;
  }

  /** Identifies this node apart from its inputs: its op, attributes and types. */
  get signature(): Signature {
    return (this.#signature ??= sign(this.op, this.attrs, this.avals ?? [this.aval]));
  }

  /** Whether it has a value, and so need not be computed. */
  get isComputed(): boolean {
    return this.record?.value !== undefined;
  }

  /** Drops its inputs, so that past iterations can be freed: for a node that has a value and is not needed for gradients. */
  forget(): void {
    (this as { inputs: readonly Expr[] }).inputs = FORGOTTEN;
  }
  get isForgotten(): boolean {
    return this.inputs === FORGOTTEN;
  }

  get dtype() {
    return this.aval.dtype;
  }
  get shape() {
    return this.aval.shape;
  }
}

/** Identifies a node apart from its inputs: equal ones are the same object. */
export interface Signature {
  readonly id: number;
  readonly op: string;
  readonly attrs: unknown;
  readonly types: readonly Aval[];
}
const signatures = new Interner<Signature>();

function sign(op: Op, attrs: unknown, types: readonly Aval[]): Signature {
  const ids = types.map((t) => t.id).join();
  const key = attrs === null ? `${op.name}:${ids}` : `${op.name}:${ids}:${JSON.stringify(attrs)}`;
  return signatures.get(key, () => ({ id: newId(), op: op.name, attrs, types }));
}
/** The number of known signatures, for tests. */
export const signatureCount = (): number => signatures.size;
