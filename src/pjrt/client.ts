// Client: a running plugin with its devices, and the owner of all buffers and executables on them.
import type { ArrayType, TypedArray } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { Api } from './api.js';
import { Buffer } from './buffer.js';
import { Device } from './device.js';
import { LoadedExecutable } from './executable.js';
import { Owner } from './handle.js';
import type { KeyValueCallbacks } from './key-value.js';
import { type CompileOptions, encodeCompileOptions } from './options.js';
import { devicesOf, encodeProgram, type Program } from './program.js';
import { readPointers, readString } from './struct.js';
import { type Attributes, decodeValues, encodeOptions, type Options } from './values.js';

export class Client extends Owner {
  /** "cpu", "cuda", "tpu", "mps". */
  readonly platform: string;
  readonly platformVersion: string;
  readonly processIndex: number;
  /** All devices, of every process. */
  readonly devices: readonly Device[];
  /** The devices this process can use. */
  readonly addressableDevices: readonly Device[];

  private constructor(
    api: Api,
    address: bigint,
    /** Default options of every compile. */
    readonly defaults: CompileOptions,
  ) {
    super(api, address, 'PJRT_Client_Destroy');
    const name = api.call('PJRT_Client_PlatformName', { client: address });
    const version = api.call('PJRT_Client_PlatformVersion', { client: address });
    const devices = api.call('PJRT_Client_Devices', { client: address });
    const ours = api.call('PJRT_Client_AddressableDevices', { client: address });
    this.platform = readString(name.get('platform_name'), name.get('platform_name_size'));
    this.platformVersion = readString(version.get('platform_version'), version.get('platform_version_size'));
    this.processIndex = api.call('PJRT_Client_ProcessIndex', { client: address }).get('process_index');
    this.devices = readPointers(devices.get('devices'), devices.get('num_devices')).map((d) => new Device(this, d));
    this.addressableDevices = this.devicesAt(ours.get('addressable_devices'), ours.get('num_addressable_devices'));
  }

  /** The plugin's attributes: xla_version, stablehlo_current_version, ... */
  get pluginAttributes(): Attributes {
    const said = this.api.call('PJRT_Plugin_Attributes', {});
    return decodeValues(said.get('attributes'), Number(said.get('num_attributes')));
  }

  /** The devices in a C array of them. */
  devicesAt(address: bigint, count: number): Device[] {
    return readPointers(address, count).map((pointer) => this.devices.find((d) => d.address === pointer)!);
  }

  /**
   * Starts a plugin: a loaded one, or the library at a path. Options are the plugin's own, for instance
   * `{ cpu_device_count: 4 }` (virtual CPU devices) or `{ allocator: 'bfc', preallocate: false }` (CUDA). With several
   * processes, they find each other through the callbacks of a key-value store.
   */
  static async create(
    plugin: Api | string,
    options: Options = {},
    defaults: CompileOptions = {},
    callbacks?: KeyValueCallbacks,
  ): Promise<Client> {
    const api = typeof plugin === 'string' ? Api.load(plugin) : plugin;
    const list = encodeOptions(options);
    const s = await api.callAsync('PJRT_Client_Create', {
      create_options: list,
      num_options: list.count,
      ...callbacks,
    });
    return new Client(api, s.get('client'), defaults);
  }

  /** Live objects, counted by tsxla: buffers, the bytes of their elements, and executables. */
  get live(): { readonly buffers: number; readonly bytes: number; readonly executables: number } {
    const { buffers, bytes, executables } = this.ledger;
    return { buffers, bytes, executables };
  }

  get defaultDevice(): Device {
    return this.addressableDevices[0] ?? fail(`${this.describe()} has no devices`);
  }

  bufferFromHost(data: TypedArray, type: ArrayType, device: Device = this.defaultDevice): Buffer {
    this.checkDevice(device);
    return Buffer.fromHost(this, data, type, device);
  }

  /** Compiles StableHLO (text or bytecode) off the main thread. */
  async compile(program: Program, options: CompileOptions = {}): Promise<LoadedExecutable> {
    const xlaFlags = { ...this.defaults.xlaFlags, ...options.xlaFlags };
    const all = { ...this.defaults, ...devicesOf(program), ...options, xlaFlags };
    const compile_options = encodeCompileOptions(all, { name: `the ${this.platform} client`, devices: this.devices });
    return this.ledger.during(async () => {
      const s = await this.api.callAsync('PJRT_Client_Compile', {
        client: this.address,
        program: encodeProgram(program),
        compile_options,
        compile_options_size: compile_options.length,
      });
      return LoadedExecutable.open(this, s.get('executable'));
    });
  }

  /** Loads the bytes of `executable.serialize()`, from this or another process with the same plugin and kind of device. */
  load(serialized: Uint8Array): Promise<LoadedExecutable> {
    return this.ledger.during(async () => {
      const s = await this.api.callAsync('PJRT_Executable_DeserializeAndLoad', {
        client: this.address,
        serialized_executable: Uint8Array.from(serialized), // a copy: the call reads it on another thread
        serialized_executable_size: serialized.length,
      });
      return LoadedExecutable.open(this, s.get('loaded_executable'));
    });
  }

  /** Resolves when all work dispatched before is done; failures reject the promises of their results. */
  synchronize(): Promise<void> {
    return this.api.events.settled(this.ledger);
  }

  /**
   * XLA's CPU client runs collectives on a few threads, and deadlocks when many runs wait for each other (seen from a
   * hundred in flight; sixteen passed every trial). Blocks if there are more.
   */
  limitRunAhead(devices: number): void {
    const { events } = this.api;
    if (this.platform === 'cpu' && events.countOf(this.ledger) > 16 * devices) events.drain(this.ledger);
  }

  checkDevice(device: Device): void {
    if (this.addressableDevices.includes(device)) return;
    throw new ArgumentError(`device ${device} is not one of ${this.describe()}`);
  }

  override describe(): string {
    return `client ${this.platform} (${plural(this.addressableDevices.length, 'device')})`;
  }
}

function fail(message: string): never {
  throw new ArgumentError(message);
}
