// Draws curves as a self-contained SVG, for notebooks, reports and pages without scripts.
import { ArgumentError } from '../base/errors.js';
import { JUPYTER_DISPLAY, type MimeBundle } from '../base/jupyter.js';
import { describe } from '../base/tree.js';
import { type Mark, type Points, thinned } from './data.js';
import { escaped } from './html.js';
import { Runs } from './runs.js';
import { PALETTE } from './style.js';

/** Values at x = 0, 1, 2, ..., or at given x. Non-finite values are gaps. */
export type Curve = ArrayLike<number> | { readonly x: ArrayLike<number>; readonly y: ArrayLike<number | null> };

export interface ChartOptions {
  readonly title?: string;
  /** Labels of the axes. */
  readonly x?: string;
  readonly y?: string;
  /** Logarithmic y axis; all values must be above 0. Default: false. */
  readonly log?: boolean;
  /** Size in pixels. Default: 640 x 320. */
  readonly width?: number;
  readonly height?: number;
  /** Horizontal lines with labels. */
  readonly marks?: readonly { readonly label: string; readonly value: number }[];
}

/** An SVG. Notebooks display it. */
export class Picture {
  constructor(
    readonly svg: string,
    /** A description of the content. */
    readonly summary: string,
  ) {}
  toString(): string {
    return this.svg;
  }
  [JUPYTER_DISPLAY](): MimeBundle {
    return { 'image/svg+xml': this.svg, 'text/plain': this.summary };
  }
}

/** Draws curves in one frame, by name. */
export function chart(curves: Readonly<Record<string, Curve>>, options: ChartOptions = {}): Picture {
  const lines = Object.entries(curves).map(([name, curve]) => ({ name, ...pointsOf(name, curve) }));
  const { width = 640, height = 320 } = options;
  for (const [name, size] of Object.entries({ width, height }))
    if (!(size >= 160 && size <= 10_000)) throw new ArgumentError(`chart: ${name} is ${size}: use 160 to 10000 pixels`);
  return pictureOf([frame(lines, { ...options, width, height })], width, height, summaryOf(lines, options.title));
}

export interface RunChartOptions {
  /** Names of metrics in metrics.jsonl. Default: those of loss, perplexity, lr and gradNorm that the runs have. */
  readonly metrics?: readonly string[];
  readonly width?: number;
}
const USUAL = ['loss', 'perplexity', 'lr', 'gradNorm'];

/** Draws a frame for each metric, with a curve for each run in these folders. */
export async function chartRuns(
  folders: readonly string[],
  { metrics, width = 960 }: RunChartOptions = {},
): Promise<Picture> {
  const runs = new Runs(folders);
  await runs.find();
  await runs.poll();
  const data = runs.all.map(({ name, data }) => ({ name: data.info.title ?? name, data }));
  const known = [...new Set(data.flatMap(({ data }) => [...data.series.keys()]))];
  const wanted = metrics ?? USUAL.filter((metric) => known.includes(metric));
  if (!wanted.length)
    throw new ArgumentError(`no metric to draw in ${folders.join(', ')}: the runs have ${listOf(known)}`);
  const columns = wanted.length > 1 ? 2 : 1;
  const [w, h] = [Math.floor(width / columns), 260];
  const frames = wanted.map((metric, i) => {
    const lines = data.flatMap(({ name, data }) => {
      const points = data.series.get(metric);
      return points ? [{ name, ...points }] : [];
    });
    if (!lines.length) throw new ArgumentError(`no run has the metric ${metric}: the runs have ${listOf(known)}`);
    const marks = data.flatMap(({ data }) => data.marks.filter((m: Mark) => m.metric === metric));
    const frameOf = frame(lines, { title: metric, x: 'step', width: w, height: h, marks });
    return `<g transform="translate(${(i % columns) * w},${Math.floor(i / columns) * h})">${frameOf}</g>`;
  });
  const height = Math.ceil(frames.length / columns) * h;
  return pictureOf(frames, columns * w, height, `${listOf(wanted)} of ${listOf(data.map(({ name }) => name))}`);
}

const listOf = (names: readonly string[]): string => names.join(', ') || 'none';

// ---- points

interface Line extends Points {
  readonly name: string;
}
const MOST = 2000; // points of a line, more than its pixels

function pointsOf(name: string, curve: Curve): Points {
  const own = curve as { readonly x?: ArrayLike<number>; readonly y?: ArrayLike<number | null> };
  const y = own.y ?? (curve as ArrayLike<number>);
  if (typeof y?.length !== 'number' || typeof curve === 'string')
    throw new ArgumentError(`chart: ${name} is ${describe(curve)}: give a list of numbers, or { x, y }`);
  const x = own.x ? Array.from(own.x) : Array.from(y, (_, i) => i);
  if (x.length !== y.length)
    throw new ArgumentError(
      `chart: ${name} has ${x.length} values of x and ${y.length} of y: the numbers must be equal`,
    );
  const wrong = x.findIndex((place, i) => !Number.isFinite(place) || (i > 0 && place < x[i - 1]!));
  if (wrong >= 0) throw new ArgumentError(`chart: ${name} has x[${wrong}] = ${x[wrong]}: x must be ascending numbers`);
  return { x, y: Array.from(y, (value) => (Number.isFinite(value) ? Number(value) : null)) };
}

const valuesOf = (lines: readonly Line[]): number[] => lines.flatMap(({ y }) => y.filter((v) => v !== null));
const summaryOf = (lines: readonly Line[], title = 'chart'): string =>
  `${title}: ${lines.map(({ name, y }) => `${name} (${y.length})`).join(', ')}`;

// ---- drawing

export const INK = '#1b1d21';
export const SOFT = '#62676f';
export const GRID = '#e3e3df';
const EDGE = { left: 62, right: 14, top: 30, bottom: 40 };

export function pictureOf(frames: readonly string[], width: number, height: number, summary: string): Picture {
  const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui,sans-serif" font-size="12" role="img">`;
  const ground = `<rect width="${width}" height="${height}" fill="#fff"/>`;
  return new Picture(`${head}<title>${escaped(summary)}</title>${ground}${frames.join('')}</svg>`, summary);
}

type Framed = ChartOptions & { readonly width: number; readonly height: number };

/** Draws one pair of axes with its lines. */
function frame(lines: readonly Line[], { title, x, y, log = false, width, height, marks = [] }: Framed): string {
  const values = [...valuesOf(lines), ...marks.map(({ value }) => value)];
  if (!values.length) throw new ArgumentError(`${title ?? 'chart'}: there is no finite value to draw`);
  const low = values.reduce((a, b) => Math.min(a, b));
  if (log && low <= 0)
    throw new ArgumentError(
      `${title ?? 'chart'}: a logarithmic scale cannot show ${low}: leave out log, or draw only values above 0`,
    );
  const places = lines.flatMap((line) => line.x);
  const [from, to] = rangeOf(places, false, 0);
  const [bottom, top] = rangeOf(values, log, 0.05);
  const [w, h] = [width - EDGE.left - EDGE.right, height - EDGE.top - EDGE.bottom];
  const across = (place: number) => EDGE.left + ((place - from) / (to - from)) * w;
  const scale = log ? Math.log10 : (value: number) => value;
  const up = (value: number) => EDGE.top + h - ((scale(value) - scale(bottom)) / (scale(top) - scale(bottom))) * h;
  const text = (at: string, words: string, fill = SOFT) => `<text ${at} fill="${fill}">${escaped(words)}</text>`;

  const rows = (log ? logTicks(bottom, top) : ticks(bottom, top, Math.max(2, Math.floor(h / 45)))).map((value) => {
    const at = up(value).toFixed(1);
    const line = `<path d="M${EDGE.left} ${at}h${w}" stroke="${GRID}"/>`;
    return `${line}${text(`x="${EDGE.left - 6}" y="${(up(value) + 4).toFixed(1)}" text-anchor="end"`, numberText(value))}`;
  });
  const below = EDGE.top + h + 16;
  const columns = ticks(from, to, Math.max(2, Math.floor(w / 90))).map((place) =>
    text(`x="${across(place).toFixed(1)}" y="${below}" text-anchor="middle"`, numberText(place)),
  );
  const drawn = lines.map((line, i) => {
    const colour = PALETTE[i % PALETTE.length]!;
    const points = thinned(line, MOST / 2);
    const single = points.y.filter((v) => v !== null).length < 30;
    const dots = points.x.flatMap((place, p) => {
      const value = points.y[p];
      return single && value != null
        ? [`<circle cx="${across(place).toFixed(1)}" cy="${up(value).toFixed(1)}" r="2.5" fill="${colour}"/>`]
        : [];
    });
    return `<path d="${pathOf(points, across, up)}" fill="none" stroke="${colour}" stroke-width="1.6" stroke-linejoin="round"/>${dots.join('')}`;
  });
  const marked = marks.map(({ label, value }) => {
    const at = up(value);
    const line = `<path d="M${EDGE.left} ${at.toFixed(1)}h${w}" stroke="${SOFT}" stroke-dasharray="4 3"/>`;
    return `${line}${text(`x="${EDGE.left + w}" y="${(at - 4).toFixed(1)}" text-anchor="end"`, label)}`;
  });
  return [
    ...rows,
    ...columns,
    `<path d="M${EDGE.left} ${EDGE.top + h}h${w}" stroke="${SOFT}"/>`,
    ...marked,
    ...drawn,
    title ? text(`x="${EDGE.left}" y="18" font-weight="600"`, title, INK) : '',
    x ? text(`x="${EDGE.left + w / 2}" y="${height - 6}" text-anchor="middle"`, x) : '',
    y ? text(`transform="translate(14 ${EDGE.top + h / 2}) rotate(-90)" text-anchor="middle"`, y) : '',
    ...legend(lines, width),
  ].join('');
}

/** The legend at the top right, if there are several lines. */
function legend(lines: readonly Line[], width: number): string[] {
  if (lines.length < 2) return [];
  let at = width - EDGE.right;
  return lines
    .map((line, i) => ({ name: line.name, colour: PALETTE[i % PALETTE.length]! }))
    .reverse()
    .map(({ name, colour }) => {
      at -= 7 * name.length + 22;
      return `<path d="M${at} 14h12" stroke="${colour}" stroke-width="3"/><text x="${at + 16}" y="18" fill="${INK}">${escaped(name)}</text>`;
    });
}

/** The path of a line, with gaps at missing values. */
function pathOf({ x, y }: Points, across: (x: number) => number, up: (y: number) => number): string {
  let path = '';
  let isOpen = false;
  for (let i = 0; i < x.length; i++) {
    const value = y[i];
    if (value != null) path += `${isOpen ? 'L' : 'M'}${across(x[i]!).toFixed(1)} ${up(value).toFixed(1)}`;
    isOpen = value != null;
  }
  return path;
}

/** The range of values with some margin; never empty. */
function rangeOf(values: readonly number[], log: boolean, room: number): [number, number] {
  let [low, high] = values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
  if (log) {
    const factor = Math.max(high / low, 1.1) ** room;
    return low === high ? [low / 2, high * 2] : [low / factor, high * factor];
  }
  if (low === high) [low, high] = [low - (Math.abs(low) / 2 || 1), high + (Math.abs(high) / 2 || 1)];
  const more = (high - low) * room;
  return [low - more, high + more];
}

/** About `count` round numbers in a range. */
export function ticks(from: number, to: number, count: number): number[] {
  const rough = (to - from) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((s) => s >= rough * 0.999)!;
  const first = Math.ceil(from / step - 1e-9);
  const last = Math.floor(to / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}
function logTicks(from: number, to: number): number[] {
  const powers = ticks(Math.floor(Math.log10(from)), Math.ceil(Math.log10(to)), 8).map((p) => 10 ** Math.round(p));
  const steps = powers.length > 4 ? [1] : [1, 2, 5];
  const all = [...new Set(powers)].flatMap((p) => steps.map((s) => Number((s * p).toPrecision(12))));
  const inside = all.filter((v) => v >= from && v <= to);
  return inside.length > 1 ? inside : ticks(from, to, 4).filter((v) => v > 0);
}
export const numberText = (value: number): string => {
  const size = Math.abs(value);
  return value !== 0 && (size >= 1e5 || size < 1e-3) ? value.toExponential().replace('e+', 'e') : String(value);
};
