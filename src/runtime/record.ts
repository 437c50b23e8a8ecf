// What the runtime knows of a node beside the graph: its value, where that lies, and who holds it.
import type { Expr } from '../ir/expr.js';
import type { Sharding } from '../ir/mesh.js';

export class NodeRecord {
  /** Its value, once there is one: on devices, in an array of the host, promised by a step, or failed (value.ts). */
  value: object | undefined;
  /** How its value is to lie on several devices; undefined where one device has it, or it was not said. */
  sharding: Sharding | undefined;
  /** It lies wherever the others of its program do: the state of a random generator. */
  goesAnywhere = false;
  /** How many tensors, cells and calls hold it. */
  holders = 0;
}

const NOTHING: Readonly<NodeRecord> = Object.freeze(new NodeRecord());
/** To be read. */
export const recordOf = (e: Expr): Readonly<NodeRecord> => (e.record as NodeRecord | undefined) ?? NOTHING;
/** To be changed. */
export const ownRecord = (e: Expr): NodeRecord => (e.record ??= new NodeRecord()) as NodeRecord;

export const hold = (e: Expr): void => void ownRecord(e).holders++;
/** How many hold it still. */
export const release = (e: Expr): number => --ownRecord(e).holders;
