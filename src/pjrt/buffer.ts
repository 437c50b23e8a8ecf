// An array on a device.
import {
  type ArrayType,
  arrayLength,
  byteLength,
  checkPlatform,
  DTYPES,
  dtypeFrom,
  hostArray,
  numbersIn,
  show,
  type TypedArray,
} from '../base/dtype.js';
import { ArgumentError, DonatedError } from '../base/errors.js';
import type { Client } from './client.js';
import type { Device } from './device.js';
import { Handle } from './handle.js';
import { readInt64s, Struct } from './struct.js';

const IMMUTABLE_ONLY_DURING_CALL = 0; // PJRT_HostBufferSemantics: XLA copies before it returns
const TILED = 0; // PJRT_Buffer_MemoryLayout_Type

export class Buffer extends Handle {
  /** Why its elements will never exist, if the code that started the run knows more than XLA reports. */
  failure: Error | undefined;
  /** Whether two tensors share it: a run must not get it twice as a donated argument. */
  shared = false;

  constructor(
    readonly client: Client,
    address: bigint,
    readonly type: ArrayType,
    readonly device: Device,
  ) {
    super(client, ['PJRT_Buffer_Destroy', address, byteLength(type)]);
  }

  /** Copies an array to a device. `data` is of the dtype's array type, or its bytes as a Uint8Array. */
  static fromHost(client: Client, data: TypedArray, type: ArrayType, device: Device): Buffer {
    checkType(type);
    checkPlatform(client.platform, type.dtype);
    const { array, pjrt } = DTYPES[type.dtype];
    if (!ArrayBuffer.isView(data)) {
      throw new ArgumentError(
        `a buffer of ${show(type)} takes a ${array.name}, got ${data === null ? 'null' : typeof data}`,
      );
    }
    const asBytes = data instanceof Uint8Array && data.byteLength === byteLength(type);
    if (!asBytes && (!(data instanceof array) || data.length !== arrayLength(type))) {
      throw new ArgumentError(
        `a buffer of ${show(type)} takes ${arrayLength(type)} ${numbersIn(type.dtype) > 1 ? 'numbers' : 'elements'} in a ${array.name} (or ${byteLength(type)} bytes ` +
          `in a Uint8Array), got ${data.length} in a ${data.constructor.name}`,
      );
    }
    if (type.dtype === 'bool') checkBooleans(data as Uint8Array);
    const s = client.api.call('PJRT_Client_BufferFromHostBuffer', {
      client: client.address,
      data,
      type: pjrt,
      dims: BigInt64Array.from(type.shape, BigInt),
      num_dims: type.shape.length,
      host_buffer_semantics: IMMUTABLE_ONLY_DURING_CALL,
      device: device.address,
    });
    const event = s.get('done_with_host_buffer'); // ready by now, as the semantics guarantee
    client.api.call('PJRT_Event_Destroy', { event });
    return new Buffer(client, s.get('buffer'), type, device);
  }

  /** The array, copied to the host once the device has computed it. Rejects with the error of the execution. */
  async toHost<A extends TypedArray = TypedArray>(): Promise<A> {
    const { api } = this.client;
    const array = hostArray(this.type) as A;
    const s = api.call('PJRT_Buffer_ToHostBuffer', {
      src: this.address,
      host_layout: rowMajor(this.type.shape.length),
      dst: array,
      dst_size: array.byteLength,
    });
    await this.client.wait(s.get('event'), 'PJRT_Buffer_ToHostBuffer'); // `array` is held by this frame until then
    return array;
  }

  /** Resolves when the device has computed it. */
  async ready(): Promise<void> {
    const event = this.client.api.call('PJRT_Buffer_ReadyEvent', { buffer: this.address }).get('event');
    await this.client.wait(event, 'PJRT_Buffer_ReadyEvent');
  }

  /** A copy on another device of the same client. */
  copyTo(device: Device): Buffer {
    this.client.checkDevice(device);
    const s = this.client.api.call('PJRT_Buffer_CopyToDevice', { buffer: this.address, dst_device: device.address });
    const copy = new Buffer(this.client, s.get('dst_buffer'), this.type, device);
    copy.ready().catch(() => {}); // makes client.synchronize() wait for it; an error surfaces on reading
    return copy;
  }

  /** The type as reported by the plugin, to verify ours. */
  deviceType(): ArrayType {
    const { api } = this.client;
    const dims = api.call('PJRT_Buffer_Dimensions', { buffer: this.address });
    const element = api.call('PJRT_Buffer_ElementType', { buffer: this.address }).get('type');
    return { dtype: dtypeFrom('pjrt', element), shape: readInt64s(dims.get('dims'), dims.get('num_dims')) };
  }

  /** Whether the plugin has deleted it or donated its memory. */
  isDeleted(): boolean {
    return this.client.api.call('PJRT_Buffer_IsDeleted', { buffer: this.address }).get('is_deleted');
  }

  /**
   * Called when an execution has taken the memory. Only an empty handle is left; destroying it would wait for that execution,
   * so it is destroyed when `done` has settled.
   */
  donated(program: string, argument: number, done: Promise<void>): void {
    this.release(
      () =>
        new DonatedError(
          `${this.describe()} was donated to ${program} as argument ${argument}: its memory now holds a result. ` +
            `Use the output that replaced it, or pass { keep: [${argument}] } to keep the input`,
        ),
      done,
    );
  }

  override describe(): string {
    return `buffer ${show(this.type)}`;
  }

  override toString(): string {
    return `${this.describe()} on ${this.device}${this.disposed ? ' (gone)' : ''}`;
  }
}

function checkType(type: ArrayType): void {
  if (!(type?.dtype in DTYPES)) {
    throw new ArgumentError(`a buffer needs a dtype, one of ${Object.keys(DTYPES).join(', ')}: got ${type?.dtype}`);
  }
  if (!Array.isArray(type.shape) || !type.shape.every((n) => Number.isSafeInteger(n) && n >= 0)) {
    throw new ArgumentError(
      `a buffer needs a shape, a list of whole numbers of at least 0: got ${JSON.stringify(type.shape)}`,
    );
  }
}

/** Checks that booleans are 0 or 1: XLA computes with the bytes as they are. */
function checkBooleans(data: Uint8Array): void {
  const wrong = data.findIndex((byte) => byte > 1);
  if (wrong >= 0) throw new ArgumentError(`a bool must be 0 or 1: element ${wrong} is ${data[wrong]}`);
}

/** The row-major layout, requested on reading: plugins may store an array in another order of dimensions. */
function rowMajor(rank: number): Struct<'PJRT_Buffer_MemoryLayout'> | null {
  if (rank < 2) return null;
  let layout = layouts.get(rank);
  if (!layout) {
    const minorToMajor = BigInt64Array.from({ length: rank }, (_, i) => BigInt(rank - 1 - i));
    layout = new Struct('PJRT_Buffer_MemoryLayout', { type: TILED });
    const tiled = new Struct('PJRT_Buffer_MemoryLayout_Tiled', {}, layout.get('tiled'));
    tiled.set('minor_to_major', minorToMajor).set('minor_to_major_size', rank);
    layouts.set(rank, layout);
    kept.push(tiled);
  }
  return layout;
}
const layouts = new Map<number, Struct<'PJRT_Buffer_MemoryLayout'>>();
const kept: unknown[] = []; // the memory those layouts point to
