// The data of a run, as the server reads it and the page draws it. Must not import Node modules: browsers run this file too.

/** A series: values at ascending x; null for values that are not finite. */
export interface Points {
  x: number[];
  y: (number | null)[];
}

export interface Compile {
  readonly t: number;
  readonly name: string | null;
  readonly cause: string;
  readonly hash: string;
  readonly at: string;
  readonly inputs: number;
  readonly outputs: number;
  readonly operations: number;
  /** Number of other programs of the same function. */
  readonly earlier: number;
  readonly seconds: number;
  readonly cache: string;
  readonly internal?: boolean;
  readonly difference?: {
    readonly what: string;
    readonly was: string;
    readonly now: string;
    readonly at: string;
    readonly fix: string;
  };
}
export interface Finding {
  readonly rule: string;
  readonly place: string;
  readonly what: string;
  readonly cost: string;
  readonly fix: string;
}
export interface Sample {
  readonly title: string;
  readonly prompt: string;
  readonly text: string;
}
export interface Table {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}
export interface Mark {
  readonly metric: string;
  readonly label: string;
  readonly value: number;
}
/** A value that is NaN or infinite. */
export interface Bad {
  readonly metric: string;
  readonly x: number;
  readonly value: string;
}

/** `recorded`: it is unknown how the run ended. `lost`: its process is gone without having reported an end. */
export type Status = 'live' | 'finished' | 'stopped' | 'failed' | 'lost' | 'recorded';
export interface RunInfo {
  readonly title?: string;
  readonly status: Status;
  readonly error?: string;
  /** The total number of steps. */
  readonly steps?: number;
  /**
   * The times of the start and of the last update, in milliseconds since 1970. For a resumed run the start is earlier by the time
   * that its earlier attempts took, so that the difference is the time of all.
   */
  readonly began?: number;
  readonly heard?: number;
  readonly settings?: Readonly<Record<string, unknown>>;
  /** Facts such as device, parameters and memory of the step, as text. */
  readonly facts?: Readonly<Record<string, string>>;
  /** Number of lines that could not be parsed. */
  readonly damaged?: number;
}

export type SeriesPatch = Readonly<Record<string, readonly [x: readonly number[], y: readonly (number | null)[]]>>;
/** The changes of a run. */
export interface Patch {
  readonly info?: Partial<RunInfo>;
  readonly series?: SeriesPatch;
  readonly compiles?: readonly Compile[];
  readonly findings?: readonly Finding[];
  readonly samples?: readonly Sample[];
  readonly tables?: readonly Table[];
  readonly marks?: readonly Mark[];
  readonly bad?: readonly Bad[];
}
/** The changes of one run; `reset`: discard its earlier data. */
export interface Change {
  readonly run: string;
  readonly name: string;
  readonly reset?: true;
  readonly patch: Patch;
}

/** The data that is embedded in the page. */
export interface PageData {
  readonly live: boolean;
  readonly changes?: readonly Change[];
  /** The time when a report was written, in milliseconds since 1970. */
  readonly written?: number;
}

const MOST_LISTED = 500; // compiles, findings, samples
export const MOST_POINTS = 400_000; // of a series; beyond that two thirds are dropped, but extremes are kept

/** The data of a run, built from patches in order. */
export class RunData {
  info: RunInfo = { status: 'recorded' };
  readonly series = new Map<string, Points>();
  compiles: Compile[] = [];
  findings: Finding[] = [];
  samples: Sample[] = [];
  tables: Table[] = [];
  marks: Mark[] = [];
  bad: Bad[] = [];

  apply({ info, series, ...lists }: Patch): void {
    if (info) this.info = { ...this.info, ...info };
    for (const [name, [x, y]] of Object.entries(series ?? {})) {
      let points = this.series.get(name);
      if (!points) this.series.set(name, (points = { x: [], y: [] }));
      for (let i = 0; i < x.length; i++) {
        points.x.push(x[i]!);
        points.y.push(y[i]!);
      }
      if (points.x.length > MOST_POINTS) Object.assign(points, thinned(points, MOST_POINTS / 4));
    }
    this.compiles = added(this.compiles, lists.compiles);
    this.findings = added(this.findings, lists.findings, (f) => `${f.rule} ${f.place}`);
    this.samples = added(this.samples, lists.samples, (s) => JSON.stringify([s.title, s.prompt]));
    this.tables = added(this.tables, lists.tables, (t) => t.title);
    this.marks = added(this.marks, lists.marks, (m) => `${m.metric} ${m.label}`);
    this.bad = added(this.bad, lists.bad);
  }

  /** The whole run as one patch, with at most `most` points of a series. */
  whole(most = MOST_POINTS): Patch {
    const { info, compiles, findings, samples, tables, marks, bad } = this;
    const series = [...this.series].map(([name, points]) => {
      const { x, y } = points.x.length > most ? thinned(points, most / 2) : points;
      return [name, [x, y]] as const;
    });
    return { info, series: Object.fromEntries(series), compiles, findings, samples, tables, marks, bad };
  }

  /** Drops points of these series after an x. */
  cut(names: Iterable<string>, from: number): void {
    for (const name of names) {
      const points = this.series.get(name);
      if (!points) continue;
      const at = lowerBound(points.x, from);
      points.x.length = points.y.length = at;
    }
  }
}

/** Adds items to a list; of items with the same key the last one replaces the first. */
function added<T>(list: T[], more: readonly T[] | undefined, keyOf?: (item: T) => string): T[] {
  if (!more?.length) return list;
  const all = [...list, ...more];
  const kept = keyOf ? [...new Map(all.map((item) => [keyOf(item), item])).values()] : all;
  return kept.slice(-MOST_LISTED);
}

/** The first index whose value is not below x. */
export function lowerBound(xs: readonly number[], x: number): number {
  let [low, high] = [0, xs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle]! < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The extremes of each of `n` equal parts of [from, to): a curve of n pixels looks the same. */
export function thinned({ x, y }: Points, parts: number, from = 0, to = x.length): Points {
  if (to - from <= 2 * parts) return { x: x.slice(from, to), y: y.slice(from, to) };
  const out: Points = { x: [], y: [] };
  const push = (i: number) => {
    out.x.push(x[i]!);
    out.y.push(y[i]!);
  };
  const [begin, width] = [x[from]!, (x[to - 1]! - x[from]!) / parts || 1];
  for (let i = from; i < to; ) {
    const end = begin + width * (Math.floor((x[i]! - begin) / width) + 1);
    let [least, most, gap] = [-1, -1, -1];
    let next = i;
    for (; next < to && (next === i || x[next]! < end); next++) {
      const value = y[next]!;
      if (value === null) gap = next;
      else {
        if (least < 0 || value < y[least]!) least = next;
        if (most < 0 || value > y[most]!) most = next;
      }
    }
    const found = [least, most, gap].filter((k) => k >= 0).sort((a, b) => a - b);
    for (const [k, place] of found.entries()) if (place !== found[k - 1]) push(place);
    i = next;
  }
  return out;
}

/** The quantile p (0 to 1) of values, as torch.quantile with interpolation 'lower'. */
export function quantile(values: readonly (number | null)[], p: number): number | undefined {
  const finite = values.filter((v) => v !== null).sort((a, b) => a - b);
  return finite[Math.floor(p * (finite.length - 1))];
}

/** An exponential mean without the bias of its start; it restarts after a gap. `weight` is that of earlier values. */
export function smoothed(y: readonly (number | null)[], weight: number): (number | null)[] {
  let [sum, norm] = [0, 0];
  return y.map((value) => {
    if (value === null) {
      sum = norm = 0;
      return null;
    }
    sum = weight * sum + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    return sum / norm;
  });
}
