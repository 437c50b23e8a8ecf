// The location in the user's code where a node was made. Stack frames are captured once for each call of the public API, raw (V8
// formats them only when needed), and shared by every node made during that call.
import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { envFlag } from '../base/env.js';
import { ArgumentError } from '../base/errors.js';

export interface Frame {
  readonly function: string;
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

export class Source {
  declare readonly stack?: string; // filled in by V8, formatted when first read
  #frames: readonly Frame[] | undefined;

  /** The user's frames, innermost first. */
  get frames(): readonly Frame[] {
    this.#frames ??= parse(this.stack ?? '');
    return this.#frames;
  }

  /** /home/me/train.ts:31 */
  toString(): string {
    const [frame] = this.frames;
    return frame ? `${frame.file}:${frame.line}` : 'unknown';
  }
}

/** A source with more details for the search for NaN; made only while `recordCalls` is on. */
export class CallSource extends Source {
  constructor(
    /** The function of the public API that was called. */
    readonly call: string | undefined,
    /** The modules and loops over layers whose code made the call, outermost first. */
    readonly scope: readonly object[],
    /** The operations whose gradient this is part of, the last one first. */
    readonly gradientOf: readonly string[] = [],
    readonly base?: Source,
  ) {
    super();
  }
  override get frames(): readonly Frame[] {
    return this.base ? this.base.frames : super.frames;
  }
}

const DEEP = envFlag('XLA_IR_DEBUG'); // the whole stack of each call
const WHOLE = 100;
const DEPTH = DEEP ? WHOLE : 3; // each frame costs 0.4 us
const CALL_DEPTH = DEEP ? WHOLE : 10; // for calls that run a program, which are few
/** The folders of this package's own code: as built, and as in source maps. */
const OWN = ['..', '../../src/'].map((folder) => fileURLToPath(new URL(folder, import.meta.url)));

/** Folders of this package that currently count as the user's code. */
let shown: readonly string[] = [];
/** Counts folders as the user's code until the result is disposed: for programs of this package's own models. */
export function pointAt(folders: readonly string[]): Disposable {
  const outer = shown;
  shown = OWN.flatMap((own) => folders.map((folder) => `${own}${folder}/`));
  return { [Symbol.dispose]: () => void (shown = outer) };
}
/** The same while something runs. */
export function pointingAt<T>(folders: readonly string[], run: () => T): T {
  const pointing = pointAt(folders);
  try {
    return run();
  } finally {
    pointing[Symbol.dispose]();
  }
}
const isOwn = (file: string): boolean =>
  OWN.some((folder) => file.startsWith(folder)) && !shown.some((folder) => file.startsWith(folder));

let enabled = process.env.TSXLA_SOURCES !== '0';
let current: Source | undefined;

/** Turns capturing on or off (off with TSXLA_SOURCES=0). Returns the previous setting. */
export function captureSources(on: boolean): boolean {
  const was = enabled;
  enabled = on;
  return was;
}

let recording = false;
let scope: readonly object[] = [];
/** Whether sources record the modules, calls and gradients they belong to, and the whole stack. */
export const recordsCalls = (): boolean => recording;
export function recordCalls(on: boolean): void {
  recording = on;
}
/** Runs the code of a module or of a loop over layers, recorded in the scope of sources. */
export function insideModule<T>(part: object, run: () => T): T {
  if (!recording) return run();
  const outer = { scope, current };
  scope = scope.at(-1) === part ? scope : [...scope, part];
  if (current) current = within(current, { scope }); // inside one of our own calls: keep its line
  try {
    return run();
  } finally {
    ({ scope, current } = outer);
  }
}
/** The source of the nodes of an operation's gradient. */
export function gradientSource(source: Source | undefined, op: string): Source | undefined {
  if (!recording) return source;
  const before = source instanceof CallSource ? source.gradientOf : [];
  return within(source, { gradientOf: [op, ...before] });
}
function within(
  source: Source | undefined,
  over: Partial<Pick<CallSource, 'call' | 'scope' | 'gradientOf'>>,
): CallSource {
  const known = source instanceof CallSource ? source : undefined;
  const { call, scope = [], gradientOf } = { ...known, ...over };
  return new CallSource(call, scope, gradientOf, known?.base ?? source);
}

/** FILE:LINE, or '' if no source is known. */
export const placeOf = (source: Source | undefined): string => (source?.frames.length ? String(source) : '');

export const currentSource = (): Source | undefined => current;

/** Every node that `make` creates carries the given source. */
export function withSource<T>(source: Source | undefined, make: () => T): T {
  const outer = current;
  current = source;
  try {
    return make();
  } finally {
    current = outer;
  }
}

/** The user's raw stack frames above a call of `below`. */
export function captureSource(
  below: (...args: never[]) => unknown,
  depth = callDepth(),
  call?: string,
): Source | undefined {
  if (!enabled && !recording) return undefined;
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = recording ? WHOLE : depth;
  const source = recording ? new CallSource(call, scope) : new Source();
  Error.captureStackTrace(source, below);
  Error.stackTraceLimit = limit;
  return source;
}

/** The number of frames that PT_XLA_DEBUG shows, plus one to detect that there are more. */
const callDepth = (): number => Math.max(CALL_DEPTH, 1 + (Number(process.env.PT_XLA_DEBUG_MAX_FRAME) || 0));

/** Makes a function of the public API: nodes made during its call carry the location of the call, and its name. */
export function entry<This, A extends unknown[], R>(
  f: (this: This, ...args: A) => R,
  name?: string,
): (this: This, ...args: A) => R {
  return function entered(this: This, ...args: A): R {
    if ((current && !shown.length) || !(enabled || recording)) {
      if (!recording || !name || !(current instanceof CallSource) || current.call) return f.apply(this, args);
      return withSource(within(current, { call: name }), () => f.apply(this, args)); // called by one of our own models: keeps the source, records the call
    }
    const outer = current;
    const source = outer ? nearest(entered, outer, name) : captureSource(entered, DEPTH, name);
    current = source;
    try {
      return f.apply(this, args);
    } catch (e) {
      const isKnown = source?.frames.length; // unknown after an await
      const place = `\n    at ${source}`; // where in the user's code
      if (e instanceof ArgumentError && !outer && isKnown && !e.message.endsWith(place)) e.message += place;
      throw e;
    } finally {
      current = outer;
    }
  };
}
/** The innermost frame in the folders of `pointAt`. */
function nearest(below: (...args: never[]) => unknown, outer: Source, name: string | undefined): Source {
  const source = captureSource(below, CALL_DEPTH, name)!;
  return source.frames.length ? source : outer;
}

/** The command-line parser, which calls our commands: not the user's code either. */
const PARSER = `${path.sep}node_modules${path.sep}commander${path.sep}`;
const FRAME = /^\s+at (?:(.*?) \()?(file:\/\/.*?|.*?):(\d+):(\d+)\)?$/;
function parse(stack: string): Frame[] {
  return stack
    .replaceAll('at async ', 'at ')
    .split('\n')
    .flatMap((line) => {
      const m = FRAME.exec(line);
      if (!m) return [];
      const file = m[2]!.startsWith('file:') ? fileURLToPath(m[2]!) : m[2]!;
      if (isOwn(file) || file.startsWith('node:') || file.includes(PARSER)) return [];
      return [original({ function: m[1] ?? '<top level>', file, line: Number(m[3]), column: Number(m[4]) })];
    });
}

const maps = new Map<string, SourceMap>();
/** Maps a frame in one of our bundles, shown only for `pointAt`, to its line in src. */
function original(frame: Frame): Frame {
  if (!frame.file.endsWith('bundle.cjs') || !OWN.some((folder) => frame.file.startsWith(folder))) return frame;
  const map = maps.get(frame.file) ?? new SourceMap(JSON.parse(readFileSync(`${frame.file}.map`, 'utf8')));
  maps.set(frame.file, map);
  const found = map.findEntry(frame.line - 1, frame.column - 1);
  if (!('originalSource' in found)) return frame;
  const file = path.resolve(path.dirname(frame.file), found.originalSource);
  return { ...frame, file, line: found.originalLine + 1, column: found.originalColumn + 1 };
}
