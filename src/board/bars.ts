// Draws horizontal bars as a self-contained SVG: one row for each name, one bar in it for each series.
import { ArgumentError } from '../base/errors.js';
import { GRID, INK, numberText, type Picture, pictureOf, SOFT, ticks } from './chart.js';
import { escaped } from './html.js';
import { PALETTE } from './style.js';

/** A value, or one with the range that was seen. null: there is none, and no bar. */
export type Bar = number | { readonly value: number; readonly low: number; readonly high: number } | null;

export interface BarsOptions {
  readonly title?: string;
  /** The label of the axis. */
  readonly x?: string;
  /** Vertical lines with labels. */
  readonly marks?: readonly { readonly label: string; readonly value: number }[];
  /** Width in pixels. Default: 640. The height follows from the number of bars. */
  readonly width?: number;
}

const BAR = 12; // pixels
const TOP = 34;
const BELOW = 42;

/** Draws series of bars, by the names of the series and then of the rows: `bars({ tsxla: { ResNet: 0.9 }, torch: { ResNet: 1 } })`. */
export function bars(
  series: Readonly<Record<string, Readonly<Record<string, Bar>>>>,
  options: BarsOptions = {},
): Picture {
  const { title, x, marks = [], width = 640 } = options;
  if (!(width >= 160 && width <= 10_000)) throw new ArgumentError(`bars: width is ${width}: use 160 to 10000 pixels`);
  const all = Object.entries(series);
  const rows = [...new Set(all.flatMap(([, values]) => Object.keys(values)))];
  const parts = (bar: Bar | undefined) =>
    bar == null ? undefined : typeof bar === 'number' ? { value: bar, low: bar, high: bar } : bar;
  for (const [name, values] of all)
    for (const [row, bar] of Object.entries(values)) {
      const wrong = Object.values(parts(bar) ?? {}).find((v) => !(v >= 0 && Number.isFinite(v)));
      if (wrong !== undefined)
        throw new ArgumentError(`bars: ${name}, ${row} is ${wrong}: bars show numbers from 0 on`);
    }
  const highest = Math.max(
    0,
    ...all.flatMap(([, values]) => Object.values(values).map((bar) => parts(bar)?.high ?? 0)),
    ...marks.map((m) => m.value),
  );
  if (!rows.length || !highest) throw new ArgumentError(`${title ?? 'bars'}: there is no value above 0 to draw`);

  const left = 18 + 6.6 * Math.max(...rows.map((row) => row.length));
  const [w, pitch] = [width - left - 48, BAR * all.length + 10];
  const bottom = TOP + pitch * rows.length;
  const across = (value: number) => left + (value / (highest * 1.05)) * w;
  const text = (at: string, words: string, fill = SOFT) => `<text ${at} fill="${fill}">${escaped(words)}</text>`;
  const grid = ticks(0, highest * 1.05, Math.max(2, Math.floor(w / 70))).map((value) => {
    const at = across(value).toFixed(1);
    return `<path d="M${at} ${TOP}V${bottom}" stroke="${GRID}"/>${text(`x="${at}" y="${bottom + 16}" text-anchor="middle"`, numberText(value))}`;
  });
  const drawn = rows.map((row, r) => {
    const top = TOP + r * pitch + 5;
    const name = text(
      `x="${left - 8}" y="${(top + (BAR * all.length) / 2 + 4).toFixed(1)}" text-anchor="end"`,
      row,
      INK,
    );
    const own = all.map(([, values], s) => {
      const bar = parts(values[row]);
      const y = top + s * BAR;
      if (!bar) return '';
      const { value, low, high } = bar;
      const range =
        high > low
          ? `<path d="M${across(low).toFixed(1)} ${y + BAR / 2 - 0.5}H${across(high).toFixed(1)}" stroke="${INK}"/>`
          : '';
      const end = across(high) + 5;
      return `<rect x="${left}" y="${y}" width="${(across(value) - left).toFixed(1)}" height="${BAR - 1}" fill="${PALETTE[s % PALETTE.length]}"/>${range}${text(`x="${end.toFixed(1)}" y="${y + 10}" font-size="11"`, numberText(Number(value.toPrecision(3))))}`;
    });
    return name + own.join('');
  });
  const marked = marks.map(({ label, value }) => {
    const at = across(value).toFixed(1);
    return `<path d="M${at} ${TOP}V${bottom}" stroke="${SOFT}" stroke-dasharray="4 3"/>${text(`x="${at}" y="${TOP - 4}" text-anchor="middle" font-size="11"`, label)}`;
  });
  let at = width - 14;
  const legend =
    all.length < 2
      ? []
      : all
          .map(([name], s) => ({ name, colour: PALETTE[s % PALETTE.length]! }))
          .reverse()
          .map(({ name, colour }) => {
            at -= 7 * name.length + 22;
            return `<path d="M${at} 14h12" stroke="${colour}" stroke-width="3"/>${text(`x="${at + 16}" y="18"`, name, INK)}`;
          });
  const frame = [
    ...grid,
    ...drawn,
    ...marked,
    title ? text('x="14" y="18" font-weight="600"', title, INK) : '',
    x ? text(`x="${left + w / 2}" y="${bottom + 34}" text-anchor="middle"`, x) : '',
    ...legend,
  ].join('');
  return pictureOf(
    [frame],
    width,
    bottom + BELOW,
    `${title ?? 'bars'}: ${all.map(([name]) => name).join(', ')} for ${rows.join(', ')}`,
  );
}
