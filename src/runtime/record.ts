// What the runtime knows about a node besides the graph: its value, its sharding, and the number of its holders.
import type { Expr } from '../ir/expr.js';
import type { Sharding } from '../ir/mesh.js';

export class NodeRecord {
  /** Its value, once there is one: on devices, in a host array, promised by a step, or failed (value.ts). */
  value: object | undefined;
  /** The sharding of its value; undefined if it is on one device, or was not set. */
  sharding: Sharding | undefined;
  /** It follows the other values of its program to any devices: the state of a random generator. */
  followsProgram = false;
  /** It is computed by a step that waits for its turn. */
  queued = false;
  /** The number of tensors, cells and calls that hold it. */
  holders = 0;
}

const NOTHING: Readonly<NodeRecord> = Object.freeze(new NodeRecord());
/** The record of a node, for reading. */
export const recordOf = (e: Expr): Readonly<NodeRecord> => (e.record as NodeRecord | undefined) ?? NOTHING;
/** The record of a node, for changing. */
export const ownRecord = (e: Expr): NodeRecord => (e.record ??= new NodeRecord()) as NodeRecord;

export const hold = (e: Expr): void => void ownRecord(e).holders++;
/** Releases a node; returns the number of remaining holders. */
export const release = (e: Expr): number => --ownRecord(e).holders;
