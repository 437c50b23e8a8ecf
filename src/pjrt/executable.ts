// Compiled programs: their memory and cost, and running them.
import { type ArrayType, dtypeFrom, sameType, show } from '../base/dtype.js';
import { ArgumentError, PjrtError, PluginVersionError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { Buffer } from './buffer.js';
import type { Client } from './client.js';
import type { Device } from './device.js';
import { Handle, type Owned, type Owner } from './handle.js';
import { type HloFormat, type Module, type ProgramShape, readModule, readProgramShape } from './hlo.js';
import { addressOf, readBytes, readInt64s, readString, Struct } from './struct.js';
import { decodeValues } from './values.js';

/** Memory of a program on one device, in bytes. */
export interface MemoryStats {
  readonly arguments: number;
  readonly outputs: number;
  /** Outputs in the memory of donated arguments: counted in both of the above. */
  readonly aliased: number;
  readonly temporaries: number;
  readonly code: number;
  readonly peak: number;
}

/** A program's description from the C API: its results, but not its arguments. */
function describeProgram({ api }: Owner, executable: bigint) {
  const name = api.call('PJRT_Executable_Name', { executable });
  const types = api.call('PJRT_Executable_OutputElementTypes', { executable });
  const dims = api.call('PJRT_Executable_OutputDimensions', { executable });
  const count = types.get('num_output_types');
  const elements = readBytes(types.get('output_types'), 4 * count);
  const ranks = readInt64s(dims.get('dim_sizes'), count);
  const rankSum = ranks.reduce((a, b) => a + b, 0);
  const sizes = readInt64s(dims.get('dims'), rankSum);
  return {
    name: readString(name.get('executable_name'), name.get('executable_name_size')),
    numReplicas: api.call('PJRT_Executable_NumReplicas', { executable }).get('num_replicas'),
    numPartitions: api.call('PJRT_Executable_NumPartitions', { executable }).get('num_partitions'),
    outputs: ranks.map((rank, i) => ({
      dtype: dtypeFrom('pjrt', elements.readInt32LE(4 * i)),
      shape: sizes.splice(0, rank),
    })),
  };
}

/** A compiled program: its types, memory, cost and serialization. Only a LoadedExecutable can run. */
export class Executable extends Handle {
  readonly name: string;
  readonly numReplicas: number;
  readonly numPartitions: number;
  /** The results on one device. */
  readonly outputs: readonly ArrayType[];

  /** `objects` starts with the PJRT_Executable. */
  constructor(owner: Owner, ...objects: readonly [Owned, ...Owned[]]) {
    super(owner, ...objects);
    try {
      const { name, numReplicas, numPartitions, outputs } = describeProgram(owner, objects[0][1]);
      this.name = name;
      this.numReplicas = numReplicas;
      this.numPartitions = numPartitions;
      this.outputs = outputs;
    } catch (e) {
      this.dispose(); // free what cannot be described
      throw e;
    }
  }

  memory(): MemoryStats {
    const known = this.knownMemory();
    if (known) return known;
    throw new PluginVersionError(`${this.owner.api.path} does not say how much memory a program needs`);
  }

  /** The same, or undefined where the plugin does not tell (that for Apple GPUs). */
  knownMemory(): MemoryStats | undefined {
    let s: Struct<'PJRT_Executable_GetCompiledMemoryStats_Args'>;
    try {
      s = this.owner.api.call('PJRT_Executable_GetCompiledMemoryStats', { executable: this.address });
    } catch (e) {
      if (e instanceof PjrtError && e.code === 'UNIMPLEMENTED') return undefined;
      throw e;
    }
    return {
      arguments: s.get('argument_size_in_bytes'),
      outputs: s.get('output_size_in_bytes'),
      aliased: s.get('alias_size_in_bytes'),
      temporaries: s.get('temp_size_in_bytes'),
      code: s.get('generated_code_size_in_bytes'),
      peak: s.get('peak_memory_in_bytes'),
    };
  }

  /** XLA's cost estimate: `flops`, `bytes accessed` and others. The body of a loop counts once. */
  cost(): Readonly<Record<string, number>> {
    const s = this.owner.api.call('PJRT_Executable_GetCostAnalysis', { executable: this.address });
    return decodeValues(s.get('properties'), s.get('num_properties')) as Record<string, number>;
  }

  /** The program after XLA's optimizations, as HLO text. */
  async optimizedHlo(): Promise<string> {
    const { printHlo } = await import('./hlo-text.js');
    return printHlo(...(await this.optimizedProgram()));
  }

  /** The same, decoded: instructions, schedule, layouts. It can be large. */
  async optimizedModule(): Promise<Module> {
    return readModule(...(await this.optimizedProgram()));
  }

  /** The program as bytes for `client.load`, in this or another process with the same plugin. */
  serialize(): Promise<Uint8Array> {
    const { api } = this.owner;
    return this.during(async () => {
      const s = await api.callAsync('PJRT_Executable_Serialize', { executable: this.address }, 'short');
      const bytes = readBytes(s.get('serialized_bytes'), s.get('serialized_bytes_size'));
      api.callPointer(s.get('serialized_executable_deleter'), s.get('serialized_executable'));
      return bytes;
    });
  }

  /** The optimized program as XLA's protobuf, fetched off the main thread since it can be large. */
  optimizedProgram(): Promise<[bytes: Uint8Array, format: HloFormat]> {
    const program = new Struct('PJRT_Program');
    return this.during(async () => {
      const ask = () =>
        this.owner.api.callAsync('PJRT_Executable_OptimizedProgram', { executable: this.address, program }, 'short');
      await ask(); // without memory to write to, it returns the size
      const bytes = new Uint8Array(program.get('code_size'));
      program.set('code', bytes);
      await ask();
      return [bytes, readString(program.get('format'), program.get('format_size')) as HloFormat];
    });
  }

  override describe(): string {
    return `executable ${this.name}`;
  }
}

export interface ExecuteOptions {
  /** Donated arguments that the caller wants to keep: XLA copies them. */
  readonly keep?: readonly number[];
}

/** One run, with results that are being computed. */
export interface Execution<Outputs = readonly Buffer[]> {
  readonly outputs: Outputs;
  /** Resolves when the devices are done, rejects with the error that stopped one. */
  readonly done: Promise<void>;
}
/** One row of buffers for each device. */
export type Rows = readonly (readonly Buffer[])[];

/** A compiled program on the devices of a client. */
export class LoadedExecutable extends Executable {
  readonly devices: readonly Device[];
  #shape!: ProgramShape;
  /** The indices of the arguments in `aliases`. */
  #aliased!: readonly number[];
  #memory: CallMemory | undefined;

  private constructor(
    readonly client: Client,
    loaded: bigint,
  ) {
    const { api } = client;
    const executable = api.call('PJRT_LoadedExecutable_GetExecutable', { loaded_executable: loaded }).get('executable');
    super(client, ['PJRT_Executable_Destroy', executable], ['PJRT_LoadedExecutable_Destroy', loaded]);
    const list = api.call('PJRT_LoadedExecutable_AddressableDevices', { executable: loaded });
    this.devices = client.devicesAt(list.get('addressable_devices'), list.get('num_addressable_devices'));
  }

  /** Takes ownership of a compiled or loaded program. Its inputs are read from the optimized program: the API lacks them. */
  static async open(client: Client, loaded: bigint): Promise<LoadedExecutable> {
    const executable = new LoadedExecutable(client, loaded);
    try {
      executable.#shape = readProgramShape(...(await executable.optimizedProgram()));
    } catch (e) {
      executable.dispose();
      throw e;
    }
    executable.#aliased = executable.aliases.map((a) => a.input);
    return executable;
  }

  /** The types of the arguments on one device. */
  get inputs(): readonly ArrayType[] {
    return this.#shape.inputs;
  }

  /** Pairs of an argument and the result that takes over its memory; the argument is unusable after the call. */
  get aliases(): ProgramShape['aliases'] {
    return this.#shape.aliases;
  }

  /** Arguments donated without naming a result: XLA may reuse their memory. */
  get donors(): readonly number[] {
    return this.#shape.donors;
  }

  /** The sharding of each result, if the program runs on several devices. */
  get outputShardings(): ProgramShape['outputShardings'] {
    return this.#shape.outputShardings;
  }

  /** Runs it on its one device. Returns immediately, while the results are computed. */
  execute(args: readonly Buffer[], options: ExecuteOptions = {}): Execution {
    const { outputs, done } = this.executeSharded([args], options);
    return { outputs: outputs[0]!, done };
  }

  /** Runs it on all its devices, with one row of arguments for each. */
  executeSharded(rows: Rows, { keep = [] }: ExecuteOptions = {}): Execution<Rows> {
    const loaded = this.addressOf(1); // throws if it was disposed: the code below stores the pointer
    this.#check(rows, keep);
    const { api } = this.client;
    if (rows.length > 1) this.client.limitRunAhead(rows.length);
    this.#memory ??= new CallMemory(loaded, this.devices.length, this);
    const memory = this.#memory.fill(rows, keep);
    try {
      api.invoke('PJRT_LoadedExecutable_Execute', memory.args);
    } catch (e) {
      // XLA may take arguments before it fails.
      this.#markTaken(rows, [...this.#aliased, ...this.donors], (b) => b.isDeleted(), Promise.resolve());
      throw e;
    }
    const waits = Array.from(memory.events, (event) => this.client.wait(event, 'PJRT_LoadedExecutable_Execute'));
    const done = waits.length === 1 ? waits[0]! : Promise.all(waits).then(() => {});
    done.catch(() => {}); // the outputs reject as well
    const taken = keep.length ? this.#aliased.filter((i) => !keep.includes(i)) : this.#aliased;
    this.#markTaken(rows, taken, () => true, done);
    this.#markTaken(rows, this.donors, (b) => b.isDeleted(), done);
    const outputs = memory.results.map((row, d) =>
      this.outputs.map((type, i) => new Buffer(this.client, row[i]!, type, this.devices[d]!)),
    );
    return { outputs, done };
  }

  /** The arguments of the next run: results replace the inputs they alias, and other results are freed. */
  feedBack(rows: Rows, outputs: Rows): Buffer[][] {
    return rows.map((row, d) => {
      const next = [...row];
      const rest = new Set(outputs[d]);
      for (const { input, output } of this.aliases) rest.delete((next[input] = outputs[d]![output]!));
      for (const buffer of rest) buffer.dispose();
      return next;
    });
  }

  #markTaken(rows: Rows, inputs: readonly number[], taken: (b: Buffer) => boolean, done: Promise<void>): void {
    for (const row of rows) {
      for (const i of inputs) if (!row[i]!.disposed && taken(row[i]!)) row[i]!.donated(this.name, i, done);
    }
  }

  /** Checks every argument, since XLA itself compares only sizes in bytes. */
  #check(rows: Rows, keep: readonly number[]): void {
    const { inputs } = this;
    const refuse = (what: string): never => {
      throw new ArgumentError(`execute ${this.name}: ${what}`);
    };
    const { length } = this.devices;
    if (!rows.every(Array.isArray)) refuse('its arguments must be a list of buffers');
    if (rows.length !== length) refuse(`it runs on ${plural(length, 'device')}, got arguments for ${rows.length}`);
    for (const i of keep) if (!(i in inputs)) refuse(`keep: there is no argument ${i}: it takes ${inputs.length}`);
    rows.forEach((row, d) => {
      if (row.length !== inputs.length) refuse(`it takes ${plural(inputs.length, 'argument')}, got ${row.length}`);
      for (let i = 0; i < row.length; i++) {
        const buffer = row[i]!;
        if (!(buffer instanceof Buffer))
          refuse(`argument ${i} is ${typeof buffer}, not a buffer: use client.bufferFromHost`);
        if (buffer.client !== this.client) refuse(`argument ${i} (${buffer.describe()}) belongs to another client`);
        if (!sameType(buffer.type, inputs[i]!)) {
          refuse(`argument ${i} is ${show(buffer.type)}, but the program takes ${show(inputs[i]!)}`);
        }
        if (buffer.device !== this.devices[d]) {
          refuse(
            `argument ${i} (${buffer.describe()}) is on ${buffer.device}, but the program runs on ${this.devices[d]}: use copyTo`,
          );
        }
      }
    });
  }
}

let launches = 0;

/** The arrays and structs for one call of Execute, reused by every call, since the call is synchronous. */
class CallMemory {
  readonly args: Struct<'PJRT_LoadedExecutable_Execute_Args'>;
  readonly results: readonly BigUint64Array[];
  readonly events: BigUint64Array;
  readonly #options = new Struct('PJRT_ExecuteOptions');
  readonly #arguments: readonly BigUint64Array[];

  constructor(executable: bigint, numDevices: number, program: LoadedExecutable) {
    const rows = (width: number) => Array.from({ length: numDevices }, () => new BigUint64Array(width));
    this.#arguments = rows(program.inputs.length);
    this.results = rows(program.outputs.length);
    this.events = new BigUint64Array(numDevices);
    this.args = new Struct('PJRT_LoadedExecutable_Execute_Args', {
      executable,
      options: this.#options,
      argument_lists: BigUint64Array.from(this.#arguments, addressOf),
      num_devices: numDevices,
      num_args: program.inputs.length,
      output_lists: BigUint64Array.from(this.results, addressOf),
      device_complete_events: this.events,
    });
  }

  fill(rows: Rows, keep: readonly number[]): this {
    rows.forEach((row, d) => {
      const pointers = this.#arguments[d]!;
      for (let i = 0; i < row.length; i++) pointers[i] = row[i]!.address;
    });
    const indices = BigInt64Array.from(keep, BigInt);
    if (rows.length > 1) this.#options.set('launch_id', ++launches); // distinguishes the runs of a collective
    this.#options.set('non_donatable_input_indices', indices).set('num_non_donatable_input_indices', keep.length);
    return this;
  }
}
