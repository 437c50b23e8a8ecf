// An expression: one node of a graph, an operation on other nodes. Nothing is computed here; the graph is printed as StableHLO
// later. A node does not change, but for `forget`; its value is the runtime's.
import { Interner, newId } from '../base/intern.js';
import type { Aval } from './aval.js';
import type { Op } from './op.js';
import { currentSource, type Source } from './source.js';

let made = 0;
/** How many nodes were made so far. */
export const nodeCount = (): number => made;

/** What the runtime knows of a node. The graph only asks whether there is a value. */
export interface RuntimeRecord {
  readonly value: object | undefined;
}

export class Expr {
  /** Nodes are numbered as they are made: one cannot depend on another with a larger number. */
  readonly serial = made++;
  readonly source: Source | undefined = currentSource();
  /** Whether a gradient can flow through this node to something that wants one. */
  readonly differentiable: boolean;
  #signature: Signature | undefined; // made when it is asked for: a value that is given needs none

  /** The runtime's (runtime/record.ts): a graph is printed, hashed and lowered without it. */
  record: RuntimeRecord | undefined;

  constructor(
    readonly op: Op,
    readonly inputs: readonly Expr[],
    readonly attrs: unknown,
    /** Of the result; of the first one, for an op with several. */
    readonly aval: Aval,
    /** Of all results, for an op with several; `pick` takes one. */
    readonly avals?: readonly Aval[],
    differentiable = inputs.some((x) => x.differentiable),
  ) {
    this.differentiable = differentiable;
  }

  /** What this node is, apart from its inputs: its op, attributes and types. */
  get signature(): Signature {
    return (this.#signature ??= sign(this.op, this.attrs, this.avals ?? [this.aval]));
  }

  /** Whether it has a value: then nothing is computed from its inputs. */
  get isComputed(): boolean {
    return this.record?.value !== undefined;
  }

  /** Drops its inputs: for a node whose value is there and that no gradient passes, so that a loop's past can be freed. */
  forget(): void {
    (this as { inputs: readonly Expr[] }).inputs = [];
  }

  get dtype() {
    return this.aval.dtype;
  }
  get shape() {
    return this.aval.shape;
  }
}

/** What a node is, apart from its inputs: equal ones are one object. */
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
/** How many signatures are known: for tests. */
export const signatureCount = (): number => signatures.size;
