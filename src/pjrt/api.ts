// The PJRT C API of one plugin library, and the single point through which every call to it goes.
import fs from 'node:fs';
import { isMainThread } from 'node:worker_threads';
import type { KoffiFunc, TypeObject } from 'koffi';
import {
  CompileError,
  OutOfMemoryError,
  PjrtError,
  PluginLoadError,
  PluginVersionError,
  STATUS_CODES,
} from '../base/errors.js';
import { setEnvironment } from '../base/native.js';
import { koffi } from '../base/packages.js';
import { messageOf } from '../base/thrown.js';
import { EventQueue } from './event.js';
import { API_TABLE, FUNCTIONS, HEADER_VERSION, type STRUCTS } from './layout.js';
import { checkLibrary, exitNow, loadLibrary } from './library.js';
import { readBytes, readString, Struct, type Values } from './struct.js';

export type FunctionName = keyof typeof FUNCTIONS;
type Args<F extends FunctionName> = Extract<`${F}_Args`, keyof typeof STRUCTS>;

type NativeFunction = KoffiFunc<(args: Buffer) => bigint | null>;
let functionType: TypeObject | undefined; // the type of every function: PJRT_Error* f(Args*)

/** The oldest API whose functions and fields tsxla relies on. */
const OLDEST = { major: 0, minor: 70 };

const loaded = new Map<string, Api>(); // a library is initialised once per process

/** The most long calls at a time: libuv has four threads, and events and files need some. */
const LONG_CALLS = 2;

export class Api {
  /** Waits for this plugin's events. */
  readonly events: EventQueue;
  readonly #functions = new Map<FunctionName, NativeFunction>();
  #longCalls = 0;
  readonly #waiting: (() => void)[] = [];

  private constructor(
    readonly path: string,
    readonly version: { readonly major: number; readonly minor: number },
    readonly table: Buffer,
  ) {
    this.events = new EventQueue(this);
    process.on('exit', (code) => {
      this.events.drain(); // work in flight would crash in XLA's threads: let it finish
      if (this.#longCalls) exitNow(code); // do not wait for a compile, as Node would
    });
  }

  /** Loads a plugin library, checks it, and initialises it. */
  static load(path: string): Api {
    if (!isMainThread) {
      // Terminating a worker frees memory that XLA may still be writing to.
      throw new PluginLoadError('XLA can be used on the main thread only: use a separate process instead of a worker');
    }
    checkLibrary(path);
    const file = fs.realpathSync(path);
    const known = loaded.get(file);
    if (known) return known;
    setEnvironment('TF_CPP_MIN_LOG_LEVEL', process.env.TF_CPP_MIN_LOG_LEVEL ?? '2'); // XLA's own log: errors only by default
    let api: Api;
    try {
      const library = loadLibrary(file);
      api = Api.#fromTable(path, library.func('void* GetPjrtApi()')());
    } catch (e) {
      if (e instanceof PluginVersionError) throw e;
      const reason = /GetPjrtApi/.test(messageOf(e))
        ? 'it has no GetPjrtApi, so it is not a PJRT plugin'
        : messageOf(e);
      throw new PluginLoadError(`cannot load ${path}: ${reason}`, { cause: e });
    }
    api.call('PJRT_Plugin_Initialize'); // libtpu aborts the process without it
    loaded.set(file, api);
    return api;
  }

  static #fromTable(path: string, address: bigint): Api {
    const size = Number(readBytes(address, 8).readBigUInt64LE(API_TABLE.structSize));
    const table = readBytes(address, Math.min(size, API_TABLE.size));
    const version = { major: table.readInt32LE(API_TABLE.major), minor: table.readInt32LE(API_TABLE.minor) };
    if (version.major !== OLDEST.major || version.minor < OLDEST.minor) {
      throw new PluginVersionError(
        `${path} has PJRT C API ${version.major}.${version.minor}, but tsxla needs ${OLDEST.major}.${OLDEST.minor} ` +
          `or a later ${OLDEST.major}.x: install a newer plugin`,
      );
    }
    return new Api(path, version, table);
  }

  /** Whether the plugin has a function: an older plugin's table ends before it, or has a null for it. */
  has(name: FunctionName): boolean {
    const offset = FUNCTIONS[name];
    return offset + 8 <= this.table.length && this.table.readBigUInt64LE(offset) !== 0n;
  }

  /** Calls a function with the given fields set, and returns the args struct, which has the results. */
  call<F extends FunctionName>(name: F, values: Values<Args<F>> = {}): Struct<Args<F>> {
    const args = new Struct(`${name}_Args` as Args<F>, values);
    this.invoke(name, args);
    return args;
  }

  /** Calls a function with an args struct that the caller reuses. */
  invoke<F extends FunctionName>(name: F, args: Struct<Args<F>>): void {
    const error = this.#function(name)(args.bytes);
    if (error) throw this.takeError(error, name);
  }

  /** The same on another thread, without blocking the event loop. */
  async callAsync<F extends FunctionName>(
    name: F,
    values: Values<Args<F>> = {},
    length: 'short' | 'long' = 'long',
  ): Promise<Struct<Args<F>>> {
    const args = new Struct(`${name}_Args` as Args<F>, values); // the closure keeps it, and everything it points to, alive
    if (length === 'long') {
      if (this.#longCalls >= LONG_CALLS) await new Promise<void>((resolve) => this.#waiting.push(resolve));
      else this.#longCalls++; // a call that ends passes its slot to the next
    }
    try {
      const call = this.#function(name);
      const error = await new Promise<bigint | null>((resolve, reject) =>
        call.async(args.bytes, (failure: unknown, result: bigint | null) =>
          failure ? reject(failure) : resolve(result),
        ),
      );
      if (error) throw this.takeError(error, name);
      return args;
    } finally {
      if (length === 'long') (this.#waiting.shift() ?? (() => this.#longCalls--))();
    }
  }

  #function(name: FunctionName): NativeFunction {
    let f = this.#functions.get(name);
    if (!f) {
      if (!this.has(name)) {
        throw new PluginVersionError(
          `${this.path} has no ${name}: its PJRT C API is ${this.version.major}.${this.version.minor}, ` +
            `tsxla knows ${HEADER_VERSION.major}.${HEADER_VERSION.minor}`,
        );
      }
      functionType ??= koffi().proto('void*', ['void*']);
      f = koffi().decode(this.table.readBigUInt64LE(FUNCTIONS[name]), functionType) as NativeFunction;
      this.#functions.set(name, f);
    }
    return f;
  }

  /** Converts a PJRT_Error to an exception, and destroys it. */
  takeError(error: bigint, name: FunctionName): PjrtError {
    const raw = <F extends FunctionName>(f: F, values: Values<Args<F>>): Struct<Args<F>> => {
      const args = new Struct(`${f}_Args` as Args<F>, values);
      this.#function(f)(args.bytes); // these three cannot fail
      return args;
    };
    const text = raw('PJRT_Error_Message', { error });
    const message = readString(text.get('message'), text.get('message_size'));
    const code = STATUS_CODES[raw('PJRT_Error_GetCode', { error }).get('code')] ?? 'UNKNOWN';
    raw('PJRT_Error_Destroy', { error });
    if (code === 'RESOURCE_EXHAUSTED' || /out of memory/i.test(message))
      return new OutOfMemoryError(message, code, name);
    const compiling = name === 'PJRT_Client_Compile' || name === 'PJRT_Compile';
    return compiling ? new CompileError(withoutGuess(message), code, name) : new PjrtError(message, code, name);
  }

  /** Calls a plain C function by its address: a deleter returned by the API. */
  callPointer(f: bigint, argument: bigint): void {
    deleterType ??= koffi().proto('void', ['void*']);
    koffi().call(f, deleterType, argument);
  }
}

/** Removes XLA's guess, added to every parse error, that the plugin may be too old, if the message also has the cause. */
const withoutGuess = (message: string): string =>
  message.replace(/(.+)\n<unknown>:0: error: Failed to parse using.*\s*$/s, '$1');

let deleterType: TypeObject | undefined;
