// The profiler of a plugin, through PJRT's profiler extension: records what ran on the device as a serialized XSpace. The plugins
// for CUDA and TPUs have one, the CPU plugin has none.
//     PJRT_Profiler_Extension { size, type, next, PLUGIN_Profiler_Api* }
//     PLUGIN_Profiler_Api { size, priv, error_destroy, error_message, error_get_code, create, destroy, start, stop, collect_data }
// Tested on an H200 with the CUDA plugin of jax 0.11.2.
import { PjrtError, STATUS_CODES } from '../base/errors.js';
import { koffi } from '../base/packages.js';
import type { Api } from './api.js';
import { encode, message } from './proto.js';
import { addressOf, readBytes, readString } from './struct.js';

const PROFILER_EXTENSION = 1;
const [FIRST, POINTER] = [16, 8]; // offset of the table's first function, and the size of each
const FUNCTIONS = [
  'errorDestroy',
  'errorMessage',
  'errorCode',
  'create',
  'destroy',
  'start',
  'stop',
  'collect',
] as const;
type FunctionName = (typeof FUNCTIONS)[number];

/** tensorflow.ProfileOptions. Without device_type, all devices are profiled. */
const OPTIONS = message({ hostTracer: [2, 'int'], deviceTracer: [3, 'int'], version: [5, 'int'], hlo: [7, 'bool'] });
const ASKED = { hostTracer: 2, deviceTracer: 1, version: 1, hlo: true };

/** The table of a plugin's profiler; 0 if it has none. */
function findTable({ table }: Api): bigint {
  const extensions = 8; // after PJRT_Api's struct_size
  for (let at = table.readBigUInt64LE(extensions); at; ) {
    const extension = readBytes(at, 32);
    if (extension.readInt32LE(8) === PROFILER_EXTENSION) return extension.readBigUInt64LE(24);
    at = extension.readBigUInt64LE(16);
  }
  return 0n;
}

export class PluginProfiler {
  readonly #functions: Buffer;
  readonly #profiler: bigint;
  readonly #options = Buffer.from(encode(OPTIONS, ASKED)); // the profiler may read it later

  private constructor(table: bigint) {
    this.#functions = readBytes(table, FIRST + POINTER * FUNCTIONS.length);
    this.#profiler = this.#call('create', [addressOf(this.#options), this.#options.length, 0n])[2]!;
  }

  /** Starts the profiler; undefined if the plugin has none. */
  static create(api: Api): PluginProfiler | undefined {
    const table = findTable(api);
    try {
      return table ? new PluginProfiler(table) : undefined;
    } catch (e) {
      if (e instanceof PjrtError && e.code === 'UNIMPLEMENTED') return undefined; // that for Apple GPUs has a table of refusals
      throw e;
    }
  }

  start(): void {
    this.#call('start', [this.#profiler]);
  }
  /** Stops it, returns the XSpace and frees everything. */
  finish(): Uint8Array {
    try {
      this.#call('stop', [this.#profiler]);
      // Without a buffer, it returns its own, which is freed with it.
      const [, address, size] = this.#call('collect', [this.#profiler, 0n, 0]);
      return readBytes(address!, Number(size!));
    } finally {
      this.discard();
    }
  }
  discard(): void {
    this.#call('destroy', [this.#profiler]);
  }

  /** Calls a function. An args struct is its own size, then values of 8 bytes each, including the results. */
  #call(name: FunctionName, values: readonly (bigint | number)[]): bigint[] {
    const args = Buffer.alloc(8 * (values.length + 1));
    args.writeBigUInt64LE(BigInt(args.length), 0);
    values.forEach((value, i) => args.writeBigUInt64LE(BigInt(value), 8 * (i + 1)));
    const error = this.#invoke(name, args);
    if (error) throw this.#taken(error, name);
    return values.map((_, i) => args.readBigUInt64LE(8 * (i + 1)));
  }
  #invoke(name: FunctionName, args: Buffer): bigint {
    const place = this.#functions.readBigUInt64LE(FIRST + POINTER * FUNCTIONS.indexOf(name));
    functionType ??= koffi().proto('void*', ['void*']);
    const error: unknown = koffi().call(place, functionType, args);
    return error === null ? 0n : typeof error === 'bigint' ? error : koffi().address(error as object);
  }
  #taken(error: bigint, name: FunctionName): PjrtError {
    const ask = (f: FunctionName, size: number): Buffer => {
      const args = Buffer.alloc(size);
      args.writeBigUInt64LE(BigInt(size), 0);
      args.writeBigUInt64LE(error, 8);
      this.#invoke(f, args);
      return args;
    };
    const text = ask('errorMessage', 32);
    const message = readString(text.readBigUInt64LE(16), Number(text.readBigUInt64LE(24)));
    const code = STATUS_CODES[ask('errorCode', 24).readInt32LE(16)] ?? 'UNKNOWN';
    ask('errorDestroy', 16);
    return new PjrtError(message, code, `profiler ${name}`);
  }
}
let functionType: ReturnType<ReturnType<typeof koffi>['proto']> | undefined;
