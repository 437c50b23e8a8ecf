// An expression: one immutable node of a graph. Nothing is computed here; the graph is printed as StableHLO later.
import type { Aval } from './aval.js';
import type { Sharding } from './mesh.js';
import type { Op } from './op.js';
import { currentSource, type Source } from './source.js';

let made = 0;
/** How many nodes were made so far. */
export const nodeCount = (): number => made;

export class Expr {
  /** Nodes are numbered as they are made: one cannot depend on another with a larger number. */
  readonly serial = made++;
  readonly source: Source | undefined = currentSource();
  /** Whether a gradient can flow through this node to something that wants one. */
  readonly differentiable: boolean;
  #signature: number | undefined; // made when it is asked for: nobody asks a value that is given

  /** Its value, once there is one: what that is, runtime/ knows. */
  value: object | undefined;
  /** How its value is to lie on several devices; undefined where one has it, or nobody said. */
  sharding: Sharding | undefined;
  /** Nobody says how it lies: it goes where others of a program are (the state of a random generator). */
  goesAlong = false;
  /** How many tensors and cells hold it: where it is one, nobody else sees its value. */
  holders = 0;

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

  /** What this node is, apart from its inputs: equal numbers mean equal op, attributes and type. */
  get signature(): number {
    return (this.#signature ??= sign(this.op, this.attrs, this.avals ?? this.aval));
  }

  /** Lets go of what it was made of: for a node whose value is there and that no gradient passes. */
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

const signatures = new Map<string, number>();
/** What a signature stands for. */
export interface Signature {
  readonly op: string;
  readonly attrs: unknown;
  readonly types: readonly Aval[];
}
const known: Signature[] = [];
export const signatureOf = (id: number): Signature => known[id]!;

function sign(op: Op, attrs: unknown, type: Aval | readonly Aval[]): number {
  const types = Array.isArray(type) ? type.map((t) => t.id).join() : (type as Aval).id;
  const text = attrs === null ? `${op.name}:${types}` : `${op.name}:${types}:${JSON.stringify(attrs)}`;
  let id = signatures.get(text);
  if (id === undefined) {
    id = known.length;
    signatures.set(text, id);
    known.push({ op: op.name, attrs, types: Array.isArray(type) ? type : [type as Aval] });
  }
  return id;
}
