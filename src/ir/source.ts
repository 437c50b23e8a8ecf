// Where in the user's code a node was made. The frames are captured once for each call of the public API, raw (V8 makes
// text of them only when it is asked for), and every node made during that call carries them.
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

/** A source with what a search for NaN tells besides the line; made only while `recordCalls` is on. */
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
const CALL_DEPTH = DEEP ? WHOLE : 10; // for calls that run something: there are few of them
/** The folders of this package's code, which is not the user's: as built, and as source maps show it. */
const OWN = ['..', '../../src/'].map((folder) => fileURLToPath(new URL(folder, import.meta.url)));

/** Folders of it that count as the user's for the time being. */
let shown: readonly string[] = [];
/** Runs what describes a program of this package's own models: there is no other code to point at than theirs. */
export function pointingAt<T>(folders: readonly string[], run: () => T): T {
  const outer = shown;
  shown = OWN.flatMap((own) => folders.map((folder) => `${own}${folder}/`));
  try {
    return run();
  } finally {
    shown = outer;
  }
}
const isOwn = (file: string): boolean =>
  OWN.some((folder) => file.startsWith(folder)) && !shown.some((folder) => file.startsWith(folder));

let enabled = process.env.TSXLA_SOURCES !== '0';
let current: Source | undefined;

/** Turns capturing on or off (it is off with TSXLA_SOURCES=0). Returns what it was. */
export function captureSources(on: boolean): boolean {
  const was = enabled;
  enabled = on;
  return was;
}

let recording = false;
let scope: readonly object[] = [];
/** Whether sources know the modules, the calls and the gradients they belong to, and the whole stack. */
export const recordsCalls = (): boolean => recording;
export function recordCalls(on: boolean): void {
  recording = on;
}
/** Runs the code of a module, or of a loop over layers. */
export function insideModule<T>(part: object, run: () => T): T {
  if (!recording) return run();
  const outer = { scope, current };
  scope = scope.at(-1) === part ? scope : [...scope, part];
  if (current) current = within(current, { scope }); // one of our own calls is under way: its line stays
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

/** FILE:LINE, or nothing where no source is known. */
export const placeOf = (source: Source | undefined): string => (source ? String(source) : '');

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

/** The user's frames above a call of `below`, raw. */
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

/** As many frames as PT_XLA_DEBUG will show, and one more, to know that there are more. */
const callDepth = (): number => Math.max(CALL_DEPTH, 1 + (Number(process.env.PT_XLA_DEBUG_MAX_FRAME) || 0));

/** Makes a function of the public API: nodes made in a call of it carry the place it was called from, and its name. */
export function entry<This, A extends unknown[], R>(
  f: (this: This, ...args: A) => R,
  name?: string,
): (this: This, ...args: A) => R {
  return function entered(this: This, ...args: A): R {
    if ((current && !shown.length) || !(enabled || recording)) {
      if (!recording || !name || !(current instanceof CallSource) || current.call) return f.apply(this, args);
      return withSource(within(current, { call: name }), () => f.apply(this, args)); // a model of our own: what it calls
    }
    const outer = current;
    const source = outer ? nearest(entered, outer) : captureSource(entered, DEPTH, name);
    current = source;
    try {
      return f.apply(this, args);
    } catch (e) {
      const isKnown = source?.frames.length; // behind an await it is not
      if (e instanceof ArgumentError && !outer && isKnown) e.message += `\n    at ${source}`; // where in the user's code
      throw e;
    } finally {
      current = outer;
    }
  };
}
/** The innermost place in what is pointed at. */
function nearest(below: (...args: never[]) => unknown, outer: Source): Source {
  const source = captureSource(below, CALL_DEPTH)!;
  return source.frames.length ? source : outer;
}

const FRAME = /^\s+at (?:(.*?) \()?(file:\/\/.*?|.*?):(\d+):(\d+)\)?$/;
function parse(stack: string): Frame[] {
  return stack
    .replaceAll('at async ', 'at ')
    .split('\n')
    .flatMap((line) => {
      const m = FRAME.exec(line);
      if (!m) return [];
      const file = m[2]!.startsWith('file:') ? fileURLToPath(m[2]!) : m[2]!;
      if (isOwn(file) || file.startsWith('node:')) return [];
      return [original({ function: m[1] ?? '<top level>', file, line: Number(m[3]), column: Number(m[4]) })];
    });
}

const maps = new Map<string, SourceMap>();
/** A frame in a bundle of ours, which is shown only where our models are pointed at, as the line of src it was made from. */
function original(frame: Frame): Frame {
  if (!frame.file.endsWith('bundle.cjs') || !OWN.some((folder) => frame.file.startsWith(folder))) return frame;
  const map = maps.get(frame.file) ?? new SourceMap(JSON.parse(readFileSync(`${frame.file}.map`, 'utf8')));
  maps.set(frame.file, map);
  const found = map.findEntry(frame.line - 1, frame.column - 1);
  if (!('originalSource' in found)) return frame;
  const file = path.resolve(path.dirname(frame.file), found.originalSource);
  return { ...frame, file, line: found.originalLine + 1, column: found.originalColumn + 1 };
}
