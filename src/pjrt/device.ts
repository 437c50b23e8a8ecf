// Devices as described by the plugin. They belong to their client or topology, and need no dispose().
import { PjrtError } from '../base/errors.js';
import type { Owner } from './handle.js';
import { readString } from './struct.js';
import { type Attributes, decodeValues } from './values.js';

/** The description of a device, present or not. */
export class DeviceDescription {
  readonly id: number;
  /** The vendor's name: "cpu", "NVIDIA H200", "TPU v6 lite". */
  readonly kind: string;
  readonly processIndex: number;
  /** Coordinates, cores and other attributes from the plugin. */
  readonly attributes: Attributes;

  constructor({ api }: Owner, device_description: bigint) {
    const kind = api.call('PJRT_DeviceDescription_Kind', { device_description });
    const attributes = api.call('PJRT_DeviceDescription_Attributes', { device_description });
    this.id = api.call('PJRT_DeviceDescription_Id', { device_description }).get('id');
    this.kind = readString(kind.get('device_kind'), kind.get('device_kind_size'));
    this.processIndex = api.call('PJRT_DeviceDescription_ProcessIndex', { device_description }).get('process_index');
    this.attributes = decodeValues(attributes.get('attributes'), attributes.get('num_attributes'));
  }

  toString(): string {
    return `${this.kind}:${this.id}`;
  }
}

export interface DeviceMemory {
  readonly bytesInUse: number;
  readonly peakBytesInUse?: number;
  readonly bytesLimit?: number;
  readonly largestAllocation?: number;
  /** Bytes reserved for the system. */
  readonly bytesReserved?: number;
  /** Bytes the allocator has taken from the device, used or not. */
  readonly poolBytes?: number;
}

export class Device extends DeviceDescription {
  readonly #client: Owner;

  constructor(
    client: Owner,
    readonly address: bigint,
  ) {
    super(client, client.api.call('PJRT_Device_GetDescription', { device: address }).get('device_description'));
    this.#client = client;
  }

  /** Memory statistics reported by the device; undefined if the plugin reports none (CPU). */
  memory(): DeviceMemory | undefined {
    void this.#client.address; // throws if the client, and with it the device, is gone
    try {
      const s = this.#client.api.call('PJRT_Device_MemoryStats', { device: this.address });
      return {
        bytesInUse: s.get('bytes_in_use'),
        ...(s.get('peak_bytes_in_use_is_set') && { peakBytesInUse: s.get('peak_bytes_in_use') }),
        ...(s.get('bytes_limit_is_set') && { bytesLimit: s.get('bytes_limit') }),
        ...(s.get('largest_alloc_size_is_set') && { largestAllocation: s.get('largest_alloc_size') }),
        ...(s.get('bytes_reserved_is_set') && { bytesReserved: s.get('bytes_reserved') }),
        ...(s.get('pool_bytes_is_set') && { poolBytes: s.get('pool_bytes') }),
      };
    } catch (e) {
      if (e instanceof PjrtError && e.code === 'UNIMPLEMENTED') return undefined;
      throw e;
    }
  }
}
