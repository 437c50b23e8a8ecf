// The state of the page: the shown runs, and the user's settings.
import { type Change, lowerBound, type Points, quantile, RunData, smoothed } from '../data.js';
import { PALETTE } from '../style.js';

export class ShownRun {
  data = new RunData();
  /** Whether its curves are drawn. */
  on = true;
  readonly #kept = new Map<string, { readonly length: number; readonly first: number; readonly points: Points }>();

  constructor(
    readonly id: string,
    public name: string,
    readonly color: string,
  ) {}

  get title(): string {
    return this.data.info.title ?? this.name;
  }
  series(name: string): Points | undefined {
    const points = this.data.series.get(name);
    return points?.x.length ? points : undefined;
  }
  /** Derived series, recomputed when the source has grown. */
  derived(name: string, of: string, make: (points: Points) => Points): Points | undefined {
    const points = this.series(of);
    if (!points) return undefined;
    const known = this.#kept.get(name);
    if (known && known.length === points.x.length && known.first === points.x[0]) return known.points;
    const made = make(points);
    this.#kept.set(name, { length: points.x.length, first: points.x[0]!, points: made });
    return made;
  }
  forget(): void {
    this.#kept.clear();
  }
  last(name: string): number | null | undefined {
    return this.series(name)?.y.at(-1);
  }
  /** The value of a series at a step, or the last one before it. */
  at(points: Points, x: number): number | null | undefined {
    const i = lowerBound(points.x, x + 1e-9) - 1;
    return i < 0 ? undefined : points.y[i];
  }
  get step(): number {
    const ends = [...this.data.series.values()].map(({ x }) => x.at(-1) ?? 0);
    return ends.length ? Math.max(...ends) : 0;
  }
  get firstStep(): number {
    return Math.min(...[...this.data.series.values()].map(({ x }) => x[0] ?? 0));
  }
  /** Estimated seconds until the last step, from recent steps. */
  get secondsLeft(): number | undefined {
    const { info } = this.data;
    const times = this.series('stepTime');
    if (info.status !== 'live' || info.steps === undefined || !times) return undefined;
    const perStep = quantile(times.y.slice(-100), 0.5);
    return perStep === undefined ? undefined : perStep * Math.max(0, info.steps - this.step);
  }
  smooth(weight: number): Points | undefined {
    return this.derived(`smooth ${weight}`, 'stepLoss', ({ x, y }) => ({ x, y: smoothed(y, weight) }));
  }
  /** A quantile of step times, for each of up to 150 windows. */
  stepTimes(p: number): Points | undefined {
    return this.derived(`p${p}`, 'stepTime', ({ x, y }) => {
      const window = Math.max(10, Math.ceil(x.length / 150));
      const made: Points = { x: [], y: [] };
      for (let i = 0; i < x.length; i += window) {
        const end = Math.min(x.length, i + window);
        made.x.push(x[end - 1]!);
        made.y.push(quantile(y.slice(i, end), p) ?? null);
      }
      return made;
    });
  }
}

export const runs = new Map<string, ShownRun>();
const MOST_ON = 8; // runs whose curves are shown initially

export function applyChanges(changes: readonly Change[]): void {
  for (const { run: id, name, reset, patch } of changes) {
    let run = runs.get(id);
    if (!run) {
      run = new ShownRun(id, name, PALETTE[runs.size % PALETTE.length]!);
      run.on = runs.size < MOST_ON;
      runs.set(id, run);
    }
    if (reset) {
      run.data = new RunData();
      run.forget();
    }
    run.name = name;
    run.data.apply(patch);
  }
}

/** The user's settings. */
export const view = {
  smoothing: 0.9,
  log: false,
  /** The range of shown steps; undefined: all. */
  range: undefined as readonly [number, number] | undefined,
};
export const shownRuns = (): ShownRun[] => [...runs.values()].filter((run) => run.on);
