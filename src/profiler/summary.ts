// A one-page summary of a profile: the time of a step and where it goes, the longest kernels, what the device waited for, and
// advice on what to do first. For a CPU, it shows programs in place of kernels.
import { columns, plural, seconds } from '../base/format.js';
import { type Interval, lengthOf, union, without } from './intervals.js';
import { CATEGORIES, type Category, KernelNames } from './kernels.js';
import { LANES, type LaneName } from './recorder.js';
import { planesOf } from './trace.js';
import type { ReadEvent, ReadLine, ReadPlane } from './xplane.js';

/** A time in microseconds, and its fraction of the whole. */
export interface Share {
  readonly name: string;
  readonly time: number;
  readonly share: number;
}
export interface KernelShare extends Share {
  readonly category: Category | 'program';
  readonly count: number;
  /** The user's line and the path of the module, if the program has them. */
  readonly source: string | undefined;
  readonly path: string | undefined;
}
/** Why the device waited. */
export type Cause = 'compile' | 'loader' | 'trace' | 'gc' | 'transfer' | 'read' | 'runtime' | 'code';

export interface ProfileSummary {
  /** '/device:GPU:0'; undefined if the profile has none (CPU). */
  readonly device: string | undefined;
  readonly devices: number;
  readonly steps: number;
  /** All times are in microseconds. */
  readonly stepTime: number;
  readonly window: number;
  /** Products, attention, ... and idle; for a CPU, programs and idle. */
  readonly categories: readonly Share[];
  readonly kernels: readonly KernelShare[];
  /** The fraction of kernels' time in kernels with a known line. */
  readonly known: number;
  readonly waited: readonly (Share & { readonly cause: Cause })[];
  readonly advice: string;
}

export const summarizeProfile = (file: string): ProfileSummary => summarize(planesOf(file));

const MS = 1e3;
const laneOf = (line: ReadLine): LaneName | undefined => {
  const name = line.name.replace(/ \d+$/, '');
  return (Object.keys(LANES) as LaneName[]).find((lane) => LANES[lane] === name);
};
const intervalOf = (e: ReadEvent): Interval => [e.start * MS, e.start * MS + e.duration];

interface Work {
  readonly event: ReadEvent;
  /** Its time without nested events (a loop's body). */
  readonly own: number;
}
/** The work on a device: TPUs have one line of operations; GPUs have one for each stream. */
function workOn(plane: ReadPlane): Work[] {
  const operations = plane.lines.filter((line) => line.name === 'XLA Ops');
  const lines = operations.length ? operations : plane.lines.filter((line) => /^stream/i.test(line.name));
  return lines.flatMap(({ events }) => ownTimes(events));
}
function ownTimes(events: readonly ReadEvent[]): Work[] {
  const all: { event: ReadEvent; own: number; end: number }[] = [];
  const open: typeof all = [];
  for (const event of [...events].sort((a, b) => a.start - b.start || b.duration - a.duration)) {
    const [start, end] = intervalOf(event);
    while (open.length && open.at(-1)!.end <= start) open.pop();
    const outer = open.at(-1);
    if (outer && outer.end >= end) outer.own -= event.duration;
    const work = { event, own: event.duration, end };
    all.push(work);
    open.push(work);
  }
  return all;
}

export function summarize(planes: readonly ReadPlane[]): ProfileSummary {
  const devices = planes.filter(({ name }) => /^\/device:(GPU|TPU):\d+/.test(name) && name);
  const [device] = devices;
  const host = new Map<LaneName, ReadEvent[]>();
  for (const line of planes.filter((p) => /^\/host:CPU$|tsxla/.test(p.name)).flatMap((p) => p.lines)) {
    const lane = laneOf(line);
    if (lane) host.set(lane, [...(host.get(lane) ?? []), ...line.events]);
  }
  const runs = host.get('execute') ?? [];
  const work = device ? workOn(device) : ownRuns(runs);
  const busy = union(work.map(({ event }) => intervalOf(event)));
  const begins = [...(host.get('step') ?? []), ...(device ? [] : runs)].map((e) => e.start * MS);
  const from = begins.reduce((a, b) => Math.min(a, b), busy[0]?.[0] ?? Number.POSITIVE_INFINITY); // they may be many
  const to = busy.at(-1)?.[1] ?? from;
  const window = busy.length ? to - from : 0;
  const shareOf = (time: number) => (window ? time / window : 0);
  const idle = without(window ? [[from, to]] : [], busy);

  const names = new KernelNames(planes, device ? work.map(({ event }) => event) : []);
  const kernels = new Map<string, { -readonly [K in keyof KernelShare]: KernelShare[K] }>();
  for (const { event, own } of work) {
    const known = device ? names.of(event) : undefined;
    const source = known ? known.source : (event.stat('source') as string | undefined);
    const key = `${event.name} ${source ?? ''}`;
    const kernel = kernels.get(key) ?? {
      ...{ name: event.name, category: known?.category ?? ('program' as const), source, path: known?.path },
      ...{ time: 0, share: 0, count: 0 },
    };
    kernels.set(key, kernel);
    kernel.path = commonPath(kernel.path, known?.path);
    kernel.time += own;
    kernel.count++;
  }
  const all = [...kernels.values()].sort((a, b) => b.time - a.time);
  const total = all.reduce((n, k) => n + k.time, 0);
  for (const kernel of all) kernel.share = shareOf(kernel.time);
  // Streams overlap: categories share the time the device was busy.
  const scale = total ? lengthOf(busy) / total : 0;
  const timeOf = (category: KernelShare['category']) =>
    scale * all.filter((k) => k.category === category).reduce((n, k) => n + k.time, 0);
  const kinds: readonly KernelShare['category'][] = device ? CATEGORIES : ['program'];
  const times = [
    ...kinds.map((kind) => [kind === 'program' ? 'programs' : kind, timeOf(kind)] as const),
    ['idle', lengthOf(idle)] as const,
  ];
  const categories = times.map(([name, time]) => ({ name, time, share: shareOf(time) }));

  const waited = causesOf(idle, host).map(([cause, time]) => ({
    cause,
    name: CAUSES[cause].name,
    time,
    share: shareOf(time),
  }));
  const { steps, stepTime } = stepsOf(host, window, device !== undefined);
  const found = {
    ...{ device: device?.name, devices: devices.length, steps, stepTime, window, categories },
    ...{ kernels: all.slice(0, 10), waited },
    known: total ? all.filter((k) => k.source).reduce((n, k) => n + k.time, 0) / total : 0,
  };
  return { ...found, advice: adviceOn(found) };
}

/** The common path of equal layers, which share kernels: `layers.0.mlp/mul` and `layers.1.mlp/mul` are `layers.*.mlp/mul`. */
function commonPath(a: string | undefined, b: string | undefined): string | undefined {
  if (a === b || a === undefined || b === undefined) return a ?? b;
  const [x, y] = [a.split('.'), b.split('.')];
  const joined = x.map((part, i) =>
    part === y[i] ? part : /^(\d+|\*)$/.test(part) && /^\d+$/.test(y[i] ?? '') ? '*' : '',
  );
  return x.length === y.length && !joined.includes('') ? joined.join('.') : a;
}

/** The own time of runs: a run waits for the previous one, so its time begins when that ends. */
function ownRuns(runs: readonly ReadEvent[]): Work[] {
  let last = Number.NEGATIVE_INFINITY;
  return [...runs]
    .sort((a, b) => a.start - b.start)
    .map((event) => {
      const [start, end] = intervalOf(event);
      const own = Math.max(0, end - Math.max(start, last));
      last = Math.max(last, end);
      return { event, own };
    });
}

/** The steps marked by the user, else the runs of the program that took the most time. */
function stepsOf(
  host: ReadonlyMap<LaneName, readonly ReadEvent[]>,
  window: number,
  hasDevice: boolean,
): { steps: number; stepTime: number } {
  const marked = host.get('step') ?? [];
  const byName = new Map<string, ReadEvent[]>();
  for (const run of host.get('execute') ?? []) byName.set(run.name, [...(byName.get(run.name) ?? []), run]);
  const timeOf = (events: readonly ReadEvent[]) => events.reduce((n, e) => n + e.duration, 0);
  const [longest = []] = [...byName.values()].sort((a, b) => timeOf(b) - timeOf(a));
  const steps = marked.length ? marked : longest;
  // A call returns before its step has run: measure by the device's work.
  if (hasDevice) return { steps: steps.length, stepTime: steps.length ? window / steps.length : 0 };
  const starts = steps.map((e) => e.start * MS).sort((a, b) => a - b);
  const gaps = starts
    .slice(1)
    .map((start, i) => start - starts[i]!)
    .sort((a, b) => a - b);
  const middle = gaps[Math.floor(gaps.length / 2)];
  return { steps: steps.length, stepTime: middle ?? (steps.length ? window / steps.length : 0) };
}

/** Causes of waiting, with advice, in order of precedence if a wait has several. */
const CAUSES: Readonly<
  Record<Cause, { readonly name: string; readonly lanes: readonly LaneName[]; readonly advice: string }>
> = {
  compile: {
    name: 'compiling programs',
    lanes: ['compile'],
    advice: 'profile later steps, or find out with tx.explain() why programs are compiled again',
  },
  loader: {
    name: 'the next batch',
    lanes: ['loader'],
    advice: 'give the DataLoader workers or a larger prefetch (train-recovery-lora: --preload)',
  },
  trace: { name: 'describing the step', lanes: ['trace'], advice: 'use tx.compile, which describes a step once' },
  gc: { name: 'garbage collection', lanes: ['gc'], advice: 'create fewer objects in the loop' },
  transfer: { name: 'transfers to the device', lanes: ['transfer'], advice: 'let a DataLoader send batches ahead' },
  read: { name: 'reading results', lanes: ['read'], advice: 'read fewer values, or do not await them in the loop' },
  runtime: { name: 'starting programs', lanes: ['host'], advice: 'put more work into one compiled step' },
  code: {
    name: 'your code between programs',
    lanes: [],
    advice: 'do less between steps, or put a larger batch into one',
  },
};
function causesOf(idle: readonly Interval[], host: ReadonlyMap<LaneName, readonly ReadEvent[]>): [Cause, number][] {
  const found: [Cause, number][] = [];
  let left: readonly Interval[] = idle;
  for (const [cause, { lanes }] of Object.entries(CAUSES) as [Cause, (typeof CAUSES)[Cause]][]) {
    const events = lanes.flatMap((lane) => host.get(lane) ?? []).filter((e) => e.name !== 'wait for earlier steps');
    const rest = lanes.length ? without(left, union(events.map(intervalOf))) : [];
    found.push([cause, lengthOf(left) - lengthOf(rest)]);
    left = rest;
  }
  return found.filter(([, time]) => time > 0).sort((a, b) => b[1] - a[1]);
}

const WAITS = 0.1;
const ADVICE: Readonly<Record<string, string>> = {
  products: 'use bf16 and larger batches, or a chip with more FLOP/s',
  attention: 'use scaledDotProductAttention with bf16, whose kernels are fused',
  collectives: 'give each device a larger share of the batch, or split along another axis',
  elementwise: 'use bf16 for activations, and checkpoint less',
  copies: 'look for transposes and conversions at the lines above',
  programs: 'a profile on a GPU or TPU shows where the time goes; here, compare programs with tsxla hlo run',
};
function adviceOn({ window, categories, waited }: Pick<ProfileSummary, 'window' | 'categories' | 'waited'>): string {
  if (!window)
    return 'Nothing ran on the device during this trace: start it before a step, and stop it after the step.';
  const percent = (x: number) => `${Math.round(100 * x)}%`;
  const idle = categories.find((c) => c.name === 'idle')!;
  const [first] = waited;
  if (first && idle.share >= WAITS)
    return `The device waits ${percent(idle.share)} of the time, mostly for ${first.name}: ${CAUSES[first.cause].advice}.`;
  const [most] = categories.filter((c) => c.name !== 'idle').sort((a, b) => b.time - a.time);
  return `The device is busy, mostly with ${most!.name} (${percent(most!.share)}): ${ADVICE[most!.name]}.`;
}

/** The summary as text. */
export function showProfile(p: ProfileSummary): string {
  const time = (us: number) => (us ? seconds(us / 1e6) : '0');
  const percent = (x: number) => `${(100 * x).toFixed(1)}%`;
  const rows = (shares: readonly Share[]) => columns(shares.map((s) => [s.name, time(s.time), percent(s.share)]));
  const others = p.devices > 1 ? ` (the first of ${p.devices})` : '';
  const where = p.device
    ? `${p.device}${others}`
    : 'no device in it: times are those of programs, measured on the host';
  const kernels = p.kernels.map((k) => [
    k.name.length > 60 ? `${k.name.slice(0, 57)}...` : k.name,
    ...[time(k.time), percent(k.share), `${k.count}x`, ...(p.device ? [k.category] : [])],
    [k.path, k.source].filter(Boolean).join(' '),
  ]);
  return [
    where,
    `${plural(p.steps, 'step')}, ${time(p.stepTime)} each; ${time(p.window)} in all`,
    `\nwhere the time goes\n${rows(p.categories)}`,
    `\nthe longest ${p.device ? 'kernels' : 'programs'}\n${columns(kernels).trimEnd()}`,
    ...(p.device ? [`lines are known for ${percent(p.known)} of kernels' time`] : []),
    ...(p.waited.length ? [`\nwhat the device waited for\n${rows(p.waited)}`] : []),
    `\n${p.advice}\n`,
  ].join('\n');
}
