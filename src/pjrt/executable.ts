// Compiled programs: what they need and cost, and running them.
import { type ArrayType, dtypeFrom, sameType, show } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { Buffer } from './buffer.js';
import type { Client } from './client.js';
import type { Device } from './device.js';
import { Handle, type Owner } from './handle.js';
import { type HloFormat, type ProgramShape, printHlo, readProgramShape } from './hlo.js';
import { addressOf, readBytes, readInt64s, readPointers, readString, Struct } from './struct.js';
import { decodeValues } from './values.js';

/** Bytes on one device. */
export interface MemoryStats {
  readonly arguments: number;
  readonly outputs: number;
  /** Outputs that live in the memory of donated arguments: counted in both of the above. */
  readonly aliased: number;
  readonly temporaries: number;
  readonly code: number;
  readonly peak: number;
}

/** A compiled program: all but running it. */
export class Executable extends Handle {
  readonly name: string;
  readonly numReplicas: number;
  readonly numPartitions: number;
  /** One device's results. */
  readonly outputs: readonly ArrayType[];
  #shape: (ProgramShape & { aliased: readonly number[] }) | undefined;

  constructor(
    override readonly owner: Owner,
    executable: bigint,
  ) {
    super(owner, executable, 'PJRT_Executable_Destroy');
    const { api } = owner;
    const name = api.call('PJRT_Executable_Name', { executable });
    const types = api.call('PJRT_Executable_OutputElementTypes', { executable });
    const dims = api.call('PJRT_Executable_OutputDimensions', { executable });
    this.name = readString(name.get('executable_name'), name.get('executable_name_size'));
    this.numReplicas = api.call('PJRT_Executable_NumReplicas', { executable }).get('num_replicas');
    this.numPartitions = api.call('PJRT_Executable_NumPartitions', { executable }).get('num_partitions');
    const count = types.get('num_output_types');
    const elements = readBytes(types.get('output_types'), 4 * count);
    const ranks = readInt64s(dims.get('dim_sizes'), count);
    const sizes = readInt64s(
      dims.get('dims'),
      ranks.reduce((a, b) => a + b, 0),
    );
    this.outputs = ranks.map((rank, i) => ({
      dtype: dtypeFrom('pjrt', elements.readInt32LE(4 * i)),
      shape: sizes.splice(0, rank),
    }));
  }

  /** One device's arguments, as the compiled program takes them. */
  get inputs(): readonly ArrayType[] {
    return this.shape.inputs;
  }

  /** Arguments whose memory a result takes over, and that result; the argument is gone after the call. */
  get aliases(): ProgramShape['aliases'] {
    return this.shape.aliases;
  }

  /** The arguments of `aliases`. */
  get aliased(): readonly number[] {
    return this.shape.aliased;
  }

  /** Arguments given up without naming a result: XLA may take their memory. */
  get donors(): readonly number[] {
    return this.shape.donors;
  }

  /** Read from the compiled program itself when first asked for: it alone knows what one device is given. */
  protected get shape(): ProgramShape & { aliased: readonly number[] } {
    if (!this.#shape) {
      const { bytes, format } = this.#optimizedProgram();
      const shape = readProgramShape(bytes, format);
      this.#shape = { ...shape, aliased: shape.aliases.map((a) => a.input) };
    }
    return this.#shape;
  }

  memory(): MemoryStats {
    const s = this.owner.api.call('PJRT_Executable_GetCompiledMemoryStats', { executable: this.address });
    return {
      arguments: s.get('argument_size_in_bytes'),
      outputs: s.get('output_size_in_bytes'),
      aliased: s.get('alias_size_in_bytes'),
      temporaries: s.get('temp_size_in_bytes'),
      code: s.get('generated_code_size_in_bytes'),
      peak: s.get('peak_memory_in_bytes'),
    };
  }

  /** XLA's estimate: `flops`, `bytes accessed` and others. The body of a loop counts once. */
  cost(): Readonly<Record<string, number>> {
    const s = this.owner.api.call('PJRT_Executable_GetCostAnalysis', { executable: this.address });
    return decodeValues(s.get('properties'), s.get('num_properties')) as Record<string, number>;
  }

  /** The program after XLA's optimizations, as HLO text. */
  optimizedHlo(): string {
    const { bytes, format } = this.#optimizedProgram();
    return printHlo(bytes, format);
  }

  #optimizedProgram(): { bytes: Uint8Array; format: HloFormat } {
    const { api } = this.owner;
    const program = new Struct('PJRT_Program');
    const ask = () => api.call('PJRT_Executable_OptimizedProgram', { executable: this.address, program });
    ask(); // without memory to write to, it tells the size
    const bytes = new Uint8Array(program.get('code_size'));
    program.set('code', bytes);
    ask();
    return { bytes, format: readString(program.get('format'), program.get('format_size')) as HloFormat };
  }

  /** Bytes that `client.load` takes, in this or another process with the same plugin. */
  serialize(): Uint8Array {
    const { api } = this.owner;
    const s = api.call('PJRT_Executable_Serialize', { executable: this.address });
    const bytes = readBytes(s.get('serialized_bytes'), s.get('serialized_bytes_size'));
    api.callPointer(s.get('serialized_executable_deleter'), s.get('serialized_executable'));
    return bytes;
  }

  override describe(): string {
    return `executable ${this.name}`;
  }
}

export interface ExecuteOptions {
  /** Arguments that the program would take over, but that the caller wants to keep: XLA copies them. */
  readonly keep?: readonly number[];
}

/** One run: results that are being made, a row of them for each device. */
export interface Execution {
  readonly outputs: readonly (readonly Buffer[])[];
  /** Resolves when the devices are done, rejects with the error that stopped one. */
  readonly done: Promise<void>;
}

/** A compiled program on the devices of a client. */
export class LoadedExecutable extends Handle {
  /** The program itself: what it needs and costs. */
  readonly program: Executable;
  readonly devices: readonly Device[];
  #memory: CallMemory | undefined;

  constructor(
    readonly client: Client,
    address: bigint,
  ) {
    super(client, address, 'PJRT_LoadedExecutable_Destroy');
    const { api } = client;
    const program = api.call('PJRT_LoadedExecutable_GetExecutable', { loaded_executable: address });
    const list = api.call('PJRT_LoadedExecutable_AddressableDevices', { executable: address });
    this.program = new Executable(client, program.get('executable'));
    this.devices = readPointers(list.get('addressable_devices'), list.get('num_addressable_devices')).map(
      (device) => client.devices.find((d) => d.address === device)!,
    );
  }

  /** Runs it on its one device. Returns at once: the results are being made. */
  execute(args: readonly Buffer[], options: ExecuteOptions = {}): readonly Buffer[] {
    return this.executeOn([args], options).outputs[0]!;
  }

  /** Runs it on all its devices, with one row of arguments for each. */
  executeOn(rows: readonly (readonly Buffer[])[], { keep = [] }: ExecuteOptions = {}): Execution {
    this.#check(rows, keep);
    const { api } = this.client;
    const { aliased, donors } = this.program;
    this.#memory ??= new CallMemory(this.address, this.devices.length, this.program);
    const memory = this.#memory.fill(rows, keep);
    try {
      api.invoke('PJRT_LoadedExecutable_Execute', memory.args);
    } catch (e) {
      // XLA may take arguments before it fails.
      this.#markTaken(rows, [...aliased, ...donors], (b) => b.isDeleted(), Promise.resolve());
      throw e;
    }
    const waits = Array.from(memory.events, (event) => api.events.wait(event, 'PJRT_LoadedExecutable_Execute'));
    const done = waits.length === 1 ? waits[0]! : Promise.all(waits).then(() => {});
    done.catch(() => {}); // the outputs reject as well: nobody has to look at both
    this.#markTaken(rows, keep.length ? aliased.filter((i) => !keep.includes(i)) : aliased, () => true, done);
    this.#markTaken(rows, donors, (b) => b.isDeleted(), done);
    const outputs = memory.results.map((row, d) =>
      this.program.outputs.map((type, i) => new Buffer(this.client, row[i]!, type, this.devices[d]!)),
    );
    return { outputs, done };
  }

  /** The arguments of a next run: results take the place of the inputs they alias, and the other results are freed. */
  feedBack(rows: readonly (readonly Buffer[])[], outputs: Execution['outputs']): Buffer[][] {
    const { aliases } = this.program;
    return rows.map((row, d) => {
      const next = [...row];
      const rest = new Set(outputs[d]);
      for (const { input, output } of aliases) rest.delete((next[input] = outputs[d]![output]!));
      for (const buffer of rest) buffer.dispose();
      return next;
    });
  }

  #markTaken(
    rows: readonly (readonly Buffer[])[],
    inputs: readonly number[],
    taken: (b: Buffer) => boolean,
    done: Promise<void>,
  ): void {
    for (const row of rows) {
      for (const i of inputs) if (!row[i]!.disposed && taken(row[i]!)) row[i]!.donated(this.program.name, i, done);
    }
  }

  /** Every argument, before XLA sees it: XLA itself compares sizes in bytes only. */
  #check(rows: readonly (readonly Buffer[])[], keep: readonly number[]): void {
    const { name, inputs } = this.program;
    const refuse = (what: string): never => {
      throw new ArgumentError(`execute ${name}: ${what}`);
    };
    const { length } = this.devices;
    if (rows.length !== length) refuse(`it runs on ${length} devices, got arguments for ${rows.length}`);
    for (const i of keep) if (!(i in inputs)) refuse(`keep: there is no argument ${i}, it takes ${inputs.length}`);
    rows.forEach((row, d) => {
      if (row.length !== inputs.length) refuse(`it takes ${inputs.length} arguments, got ${row.length}`);
      for (let i = 0; i < row.length; i++) {
        const buffer = row[i]!;
        if (buffer.client !== this.client) refuse(`argument ${i} (${buffer.describe()}) belongs to another client`);
        if (!sameType(buffer.type, inputs[i]!)) {
          refuse(`argument ${i} is ${show(buffer.type)}, the program takes ${show(inputs[i]!)}`);
        }
        if (buffer.device !== this.devices[d]) {
          refuse(
            `argument ${i} (${buffer.describe()}) is on ${buffer.device}, it runs on ${this.devices[d]}: use copyTo`,
          );
        }
      }
    });
  }

  override dispose(): void {
    this.program.dispose();
    super.dispose();
  }

  override describe(): string {
    return this.program.describe();
  }
}

/** The arrays and structs one call of Execute needs, made once: the call is synchronous, so they can be used again. */
class CallMemory {
  readonly args: Struct<'PJRT_LoadedExecutable_Execute_Args'>;
  readonly results: readonly BigUint64Array[];
  readonly events: BigUint64Array;
  readonly #options = new Struct('PJRT_ExecuteOptions');
  readonly #arguments: readonly BigUint64Array[];

  constructor(executable: bigint, numDevices: number, program: Executable) {
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

  fill(rows: readonly (readonly Buffer[])[], keep: readonly number[]): this {
    rows.forEach((row, d) => {
      const pointers = this.#arguments[d]!;
      for (let i = 0; i < row.length; i++) pointers[i] = row[i]!.address;
    });
    const indices = BigInt64Array.from(keep, BigInt);
    this.#options.set('non_donatable_input_indices', indices).set('num_non_donatable_input_indices', keep.length);
    return this;
  }
}
