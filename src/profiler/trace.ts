// Traces: record the host from startTrace to stopTrace, and the device if the plugin has a profiler, into the folder layout of
// TensorBoard and xprof: LOGDIR/plugins/profile/RUN/HOST.xplane.pb, with HOST.trace.json.gz for Perfetto next to it.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { ArgumentError, FileError } from '../base/errors.js';
import { makeFolder } from '../base/folder.js';
import { notice, noticeOnce } from '../base/log.js';
import { checkOptions } from '../base/options.js';
import { messageOf } from '../base/thrown.js';
import { describe } from '../base/tree.js';
import { nameOperations } from '../ir/locations.js';
import { pointAt, recordCalls } from '../ir/source.js';
import { recordModules } from '../observe/module-names.js';
import type { Api } from '../pjrt/index.js';
import { PluginProfiler } from '../pjrt/profiler.js';
import { decode } from '../pjrt/proto.js';
import { allDone, inTurn } from '../runtime/turn.js';
import { defaultClient } from '../runtime/value.js';
import { chromeTrace } from './chrome.js';
import { Recorder } from './recorder.js';
import { decodeSpace, encodeSpace, firstTimestamp, type ReadPlane, type StatValue, XSpace } from './xplane.js';

export interface TraceOptions {
  /** The name of the profile in the folder. Default: the time, such as 2026_01_31_12_00_00. */
  readonly run?: string;
  /** The name of its files. Default: the machine's name. */
  readonly host?: string;
}
export interface TraceFiles {
  /** For TensorBoard, xprof and `tsxla profile`. */
  readonly xplane: string;
  /** For Perfetto. */
  readonly trace: string;
  /** Whether it includes the device: the CPU plugin has no profiler. */
  readonly hasDevice: boolean;
}
interface Running {
  readonly folder: string;
  readonly host: string;
  /** Milliseconds since 1970. */
  readonly began: number;
  readonly recorder: Recorder;
  readonly plugin: PluginProfiler | undefined;
}

let running: Running | undefined;
let starting = false;

/** Starts a trace; stopTrace() writes it. One at a time. */
export async function startTrace(dir: string, options: TraceOptions = {}): Promise<void> {
  checkOptions('startTrace', ['run', 'host'], options);
  if (typeof dir !== 'string' || !dir)
    throw new ArgumentError(`startTrace: the folder is ${describe(dir)}: pass the path of a folder`);
  if (running || starting)
    throw new ArgumentError('startTrace: a trace is already running: end it with stopTrace() first');
  starting = true;
  try {
    const { api, platform } = await defaultClient();
    await inTurn(allDone); // earlier work is not part of the trace
    const { run = timeNow(), host = os.hostname().replace(/[^\w.-]+/g, '_') } = options;
    const folder = path.join(dir, 'plugins', 'profile', run);
    try {
      makeFolder(path.resolve(folder));
    } catch (e) {
      throw new FileError(`cannot write a profile into ${folder}: ${messageOf(e)}`, { cause: e });
    }
    const began = performance.timeOrigin + performance.now();
    const plugin = startPlugin(api, platform);
    running = { folder, host, began, recorder: new Recorder(), plugin };
  } finally {
    starting = false;
  }
}
/** Starts the plugin's own profiler, if it has one and it can start: access to a GPU's profiler may be restricted. */
function startPlugin(api: Api, platform: string): PluginProfiler | undefined {
  const rest = "the profile contains the host's work and the times of programs";
  let plugin: PluginProfiler | undefined;
  try {
    plugin = PluginProfiler.create(api);
    if (!plugin) noticeOnce(`the ${platform} plugin has no profiler: ${rest}`);
    plugin?.start();
    return plugin;
  } catch (e) {
    plugin?.discard();
    notice(`the profiler of the ${platform} plugin cannot be started: ${messageOf(e)}: ${rest}`);
    return undefined;
  }
}
/** The device's profile; undefined if it is not available. */
function finishPlugin(plugin: PluginProfiler): Uint8Array | undefined {
  try {
    return readable(plugin.finish());
  } catch (e) {
    notice(`the profile of the device is not available: ${messageOf(e)}: the file contains only the host's`);
    return undefined;
  }
}
/** 2026_01_31_12_00_00 in local time, as in JAX's names of profiles. */
function timeNow(): string {
  const now = new Date();
  const parts = [
    now.getFullYear(),
    now.getMonth() + 1,
    now.getDate(),
    now.getHours(),
    now.getMinutes(),
    now.getSeconds(),
  ];
  return parts.map((n) => String(n).padStart(2, '0')).join('_');
}

/** Waits for the device, ends the trace and writes its files. */
export async function stopTrace(): Promise<TraceFiles> {
  if (!running) throw new ArgumentError('stopTrace: no trace is running: start one with startTrace(dir)');
  await inTurn(allDone);
  const { folder, host, began, recorder, plugin } = running;
  running = undefined;
  const lanes = recorder.finish();
  const device = plugin && finishPlugin(plugin);
  // Concatenated messages are one message with the planes of both.
  const own = encodeSpace(
    device ? '/device:CUSTOM:tsxla' : '/host:CPU',
    lanes,
    host,
    device && originOf(device, began),
  );
  const space = device ? Buffer.concat([device, own]) : own;
  const [xplane, trace] = [path.join(folder, `${host}.xplane.pb`), path.join(folder, `${host}.trace.json.gz`)];
  try {
    fs.writeFileSync(xplane, space);
    fs.writeFileSync(trace, chromeTrace(decodeSpace(space)));
  } catch (e) {
    throw new FileError(`cannot write the profile ${xplane}: ${messageOf(e)}`, { cause: e });
  }
  return { xplane, trace, hasDevice: device !== undefined };
}
/** Plugins count nanoseconds from 1970, or from the start of the trace: times within 1970 are of the second kind. */
const YEAR = 365n * 24n * 3600n * 10n ** 9n;
const originOf = (device: Uint8Array, began: number): number =>
  firstTimestamp(decode(XSpace, device).planes) < YEAR ? began : 0;

/** The readable part of a message: the plugin of jax 0.11.2 returns one extra byte. */
export function readable(bytes: Uint8Array): Uint8Array | undefined {
  for (const end of [bytes.length, bytes.length - 1]) {
    try {
      decodeSpace(bytes.subarray(0, end));
      return bytes.subarray(0, end);
    } catch {}
  }
  notice(`the profile of the device (${bytes.length} bytes) cannot be read: the file contains only the host's`);
  return undefined;
}
export const planesOf = (file: string): ReadPlane[] => {
  let bytes: Uint8Array;
  try {
    bytes = fs.readFileSync(file);
  } catch (e) {
    throw new FileError(`cannot read ${file}: ${messageOf(e)}`, { cause: e });
  }
  try {
    return decodeSpace(bytes);
  } catch (e) {
    throw new FileError(`${file} is not a profile (XSpace): ${messageOf(e)}`, { cause: e });
  }
};

/** Traces a function until its promise resolves. */
export async function trace<T>(
  dir: string,
  fn: () => T | Promise<T>,
  options: TraceOptions = {},
): Promise<{ readonly result: T; readonly files: TraceFiles }> {
  await startTrace(dir, options);
  let files: TraceFiles | undefined;
  try {
    const result = await fn();
    files = await stopTrace();
    return { result, files };
  } finally {
    if (!files && running) await stopTrace().catch(() => {}); // fn's own error is the one to see
  }
}

/**
 * Adds the module and line of each operation to programs compiled from now on, for profiles of GPUs and TPUs. Costs time when a
 * step is described, none when it runs. `pointAt`: folders of this package whose lines count as the user's, for its own jobs.
 */
export function annotatePrograms({ pointAt: folders = [] }: { readonly pointAt?: readonly string[] } = {}): Disposable {
  const naming = nameOperations();
  const pointing = folders.length ? pointAt(folders) : undefined;
  recordCalls(true);
  recordModules(true);
  return {
    [Symbol.dispose]() {
      naming[Symbol.dispose]();
      pointing?.[Symbol.dispose]();
      recordCalls(false);
      recordModules(false);
    },
  };
}

/** A span of the user's code, from `new Trace('name')` to the end of the block: `using _ = new Trace('evaluate')`. */
export class Trace implements Disposable {
  readonly #start = performance.now();
  /** The trace running at construction: an annotation belongs to one trace. */
  #recorder = running?.recorder;

  constructor(readonly name: string) {
    if (typeof name !== 'string') throw new ArgumentError(`Trace: the name is ${describe(name)}: pass a string`);
  }
  /** Ends the span; later calls do nothing. */
  end(): void {
    this.#recorder?.add(...this.lane, this.#start, performance.now(), this.stats);
    this.#recorder = undefined;
  }
  [Symbol.dispose](): void {
    this.end();
  }
  protected get lane(): readonly ['step' | 'annotation', string] {
    return ['annotation', this.name];
  }
  protected get stats(): Readonly<Record<string, StatValue>> | undefined {
    return undefined;
  }
}

export interface StepTraceOptions {
  readonly stepNum?: number;
}
/** A span for a training step: profiles count steps by these. */
export class StepTrace extends Trace {
  readonly stepNum: number | undefined;
  constructor(name: string, { stepNum }: StepTraceOptions = {}) {
    super(name);
    this.stepNum = stepNum;
  }
  protected override get lane() {
    return ['step', this.name] as const;
  }
  /** XLA's own names, by which it groups events. */
  protected override get stats() {
    return { _r: 1, ...(this.stepNum !== undefined && { step_num: this.stepNum }) };
  }
}
