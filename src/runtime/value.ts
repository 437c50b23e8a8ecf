// The values of nodes: on the device, or in a host array until they are needed on the device.
import type { ArrayType, TypedArray } from '../base/dtype.js';
import { SpentError } from '../base/errors.js';
import type { Expr } from '../ir/expr.js';
import type { Sharding } from '../ir/mesh.js';
import { placeOf } from '../ir/source.js';
import type { Client } from '../pjrt/index.js';
import { openClient, settleDevice, virtualDevices } from './device.js';
import { events } from './events.js';
import { hold, ownRecord, recordOf, release } from './record.js';
import { isStored, ShardedArray, type Stored } from './sharded.js';

let client: Promise<Client> | undefined;
/** The process's client, started when first needed. */
export const defaultClient = (): Promise<Client> => (client ??= startDefault());
let running: Client | undefined;
/** The same if it was started; for callers that must not wait. */
export const startedClient = (): Client | undefined => running;
async function startDefault(): Promise<Client> {
  settleDevice();
  const { client } = await openClient('auto', { cpuDevices: virtualDevices() });
  client.ledger.onBuffer = (n) => events.count(n > 0 ? 'bufferCreated' : 'bufferFreed');
  running = client;
  return client;
}

/** In place of a value: a step that has been called but not started yet will compute it. */
export const PROMISED = {};
/** In place of a value that is gone, or that such a step failed to compute. */
export class Failed {
  #error: Error | undefined;
  readonly #make: () => Error;
  /** The error is created when it is first read. */
  constructor(make: () => Error) {
    this.#make = make;
  }
  get error(): Error {
    this.#error ??= this.#make();
    return this.#error;
  }
}

/** In place of a value that a step of a plain loop failed to compute: its error is reported, and its changes are undone. */
export class Undone extends Failed {}

export const hasValue = (e: Expr): boolean => e.isComputed;
export const nodeValue = (e: Expr): object | undefined => recordOf(e).value;
export function setValue(e: Expr, value: Stored | TypedArray): void {
  const record = ownRecord(e);
  record.value = value;
  if (!record.followsProgram && value instanceof ShardedArray) record.sharding = value.sharding;
  repay(e);
  if (ArrayBuffer.isView(value)) remember(e, value);
}

/** A node that will share its operand's value holds the operand until then: a step must not donate it. */
const lenders = new WeakMap<Expr, Expr>();
export function borrow(e: Expr): void {
  const [lender] = e.inputs;
  if (!lender) return;
  hold(lender);
  lenders.set(e, lender);
}
export function repay(e: Expr): void {
  const lender = lenders.get(e);
  if (!lender) return;
  release(lender);
  lenders.delete(e);
}

/** Small arrays that the host has seen, so that printing them computes nothing. */
const seen = new WeakMap<Expr, TypedArray>();
const SMALL = 10_000;
export const hostValue = (e: Expr): TypedArray | undefined => seen.get(e);
export function remember(e: Expr, array: TypedArray): void {
  if (array.length <= SMALL) seen.set(e, array.slice()); // a copy, since the caller may change its array
}

/** Copies a node's value, if it has one, to another node. */
export function shareValue(from: Expr, to: Expr): void {
  const { value, sharding } = recordOf(from);
  const record = ownRecord(to);
  if (isStored(value) || ArrayBuffer.isView(value)) record.value = value;
  if (isStored(value)) value.shared = true;
  record.sharding = sharding;
  const array = seen.get(from);
  if (array) seen.set(to, array);
}

/** The value of a node on the device; the node must have a value. */
export function onDevice(device: Client, e: Expr, sharding = recordOf(e).sharding): Stored {
  checkAlive(e);
  const record = ownRecord(e);
  if (isStored(record.value)) return record.value;
  const stored = upload(device, e, record.value as TypedArray, sharding);
  record.value = stored;
  if (!record.followsProgram) record.sharding ??= sharding; // another sharding may have been requested meanwhile
  return stored;
}

function upload(device: Client, e: Expr, value: TypedArray, sharding: Sharding | undefined): Stored {
  const start = performance.now();
  const buffer = sharding
    ? ShardedArray.fromHost(device, value, e.aval, sharding)
    : device.bufferFromHost(value, e.aval as ArrayType);
  events.span('upload', start, performance.now(), value.byteLength);
  return buffer;
}

/**
 * A number on the host: uploaded with the run and freed after it, so that a number set anew for each run leaves nothing behind.
 * If a second run needs it, it stays on the device: each run would wait for the upload.
 */
const isNumber = (value: object | undefined): value is TypedArray => ArrayBuffer.isView(value) && value.byteLength <= 8;

const uploadedOnce = new WeakSet<Expr>();
/** Calls `use` with the values of these nodes on the device, or on several of them. */
export function withBuffers<T>(
  device: Client,
  nodes: readonly Expr[],
  shardings: readonly Sharding[] | undefined,
  use: (buffers: readonly Stored[]) => T,
): T {
  const lent: Stored[] = [];
  const buffers = nodes.map((e, i) => {
    const sharding = shardings?.[i];
    const value = nodeValue(e);
    if (!isNumber(value) || uploadedOnce.has(e)) return onDevice(device, e, sharding);
    uploadedOnce.add(e);
    const buffer = upload(device, e, value, sharding);
    lent.push(buffer);
    return buffer;
  });
  try {
    return use(buffers);
  } finally {
    for (const buffer of lent) buffer.dispose(); // the run that uses it keeps its memory
  }
}

/** Starts uploading the host arrays among these values, before they are needed. */
export async function startUploads(nodes: readonly Expr[]): Promise<void> {
  const device = await defaultClient();
  for (const e of nodes) {
    const value = nodeValue(e);
    if (ArrayBuffer.isView(value) && !isNumber(value)) onDevice(device, e);
  }
}

/** Whether a node's value does not exist yet, or no longer. */
export function isUnsettled(e: Expr): boolean {
  const value = nodeValue(e);
  return isStored(value)
    ? value.disposed || value.failure !== undefined
    : value === PROMISED || value instanceof Failed;
}

/** Why a node's value is gone or was never computed; undefined if it exists or will. */
export function lossOf(e: Expr): Error | undefined {
  const value = nodeValue(e);
  if (value instanceof Failed) return value.error;
  if (!isStored(value)) return undefined;
  return value.failure ?? (value.disposed ? new SpentError(gone(e)) : undefined);
}
export function checkAlive(e: Expr): void {
  const loss = lossOf(e);
  if (loss) throw loss;
}

/** Frees the memory of a node's value immediately, without waiting for the garbage collector. */
export function freeValue(e: Expr): void {
  const value = nodeValue(e);
  if (isStored(value)) value.dispose();
}

const gone = (e: Expr): string =>
  `${e.aval}${placeOf(e.source) && `, made at ${e.source},`} has no value any more: it was disposed, or a step changed the tensor in ` +
  'place and gave its memory to the new value. Compute what depends on the old value before that (await tx.sync(it)), or clone() the tensor';
