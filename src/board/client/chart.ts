// A chart: curves of runs over steps, reduced to the number of pixels.
import uPlot from 'uplot';
import { lowerBound, type Points, thinned } from '../data.js';
import { cssColor, h, setText, swatch } from './dom.js';
import type { Format } from './numbers.js';
import { count } from './numbers.js';
import { type ShownRun, shownRuns, view } from './state.js';

export interface Line {
  readonly run: ShownRun;
  readonly points: Points;
  /** A label in the readout, after the run's name: 'p90'. */
  readonly label?: string;
  /** Drawn behind other curves and not in the readout: single values under their mean. */
  readonly faint?: boolean;
  readonly dots?: boolean;
  readonly dash?: readonly number[];
}
export interface ChartSpec {
  readonly key: string;
  readonly title: string;
  readonly format: Format;
  /** The format of axis labels. Default: `format`. */
  readonly axis?: Format;
  readonly lines: (run: ShownRun) => readonly Line[];
  /** Names of metrics whose marks and non-finite values are shown. */
  readonly names: readonly string[];
  readonly wide?: boolean;
  /** Possible increments of the axis. Default: round decimals. */
  readonly steps?: readonly number[];
  /** Whether the axis begins at 0. */
  readonly fromZero?: boolean;
  /** Whether the logarithmic scale applies to it. */
  readonly log?: boolean;
}

const HEIGHT = 220;
const WIDE_HEIGHT = 270;
const sync = uPlot.sync('board');

export class Chart {
  readonly element: HTMLElement;
  readonly #plotHost = h('div', { class: 'plot', tabindex: '0', role: 'img' });
  readonly #readout = h('ul', { class: 'readout' });
  readonly #step = h('span', { class: 'at' });
  #plot: uPlot | undefined;
  #lines: readonly Line[] = [];
  /** The list of curves of the current plot: another list needs a new plot. */
  #shape = '';
  #values: { readonly line: Line; readonly element: HTMLElement }[] = [];
  /** The step at the cursor. */
  #cursor: number | undefined;
  #isVisible = true;
  #isStale = false;

  constructor(
    readonly spec: ChartSpec,
    readonly onZoom: (range: readonly [number, number] | undefined) => void,
  ) {
    this.element = h(
      'section',
      { class: `chart${spec.wide ? ' wide' : ''}`, 'data-chart': spec.key },
      h('header', {}, h('h2', {}, spec.title), this.#step),
      this.#readout,
      this.#plotHost,
    );
    this.#plotHost.addEventListener('keydown', (e) => this.#key(e));
    new ResizeObserver(() => this.update()).observe(this.#plotHost);
    new IntersectionObserver((entries) => {
      this.#isVisible = entries.at(-1)!.isIntersecting;
      if (this.#isVisible && this.#isStale) this.update();
    }).observe(this.element);
  }

  /** Draws the current data; charts that are not visible are drawn later. */
  update(): void {
    const lines = shownRuns().flatMap((run) => this.spec.lines(run));
    this.element.hidden = !lines.length;
    this.#isStale = !this.#isVisible;
    if (!lines.length || (this.#isStale && this.#plot)) return;
    this.#lines = lines;
    const width = Math.floor(this.#plotHost.clientWidth);
    if (!width) return;
    const shape = [view.log, ...lines.map((l) => `${l.run.id} ${l.label} ${l.faint} ${l.dots}`)].join('|');
    const data = this.#dataFor(width);
    if (this.#plot && shape === this.#shape) {
      if (this.#plot.width !== width) this.#plot.setSize({ width, height: this.#height });
      this.#plot.setData(data);
    } else {
      this.#shape = shape;
      this.#plot?.destroy();
      this.#plot = new uPlot(this.#options(width, this.#cursor), data, this.#plotHost);
      this.#makeReadout();
    }
    this.#read();
  }
  /** Redraws in the colours of the theme. */
  redraw(): void {
    this.#plot?.redraw(false, true);
  }

  /** The curves in one table, as uPlot needs them: undefined for x of other curves, null for a gap. */
  #dataFor(width: number): uPlot.AlignedData {
    const isLog = this.#isLog;
    const parts = this.#lines.map(({ points, dots }) => {
      const [from, to] = visible(points, view.range);
      const part = dots
        ? { x: points.x.slice(from, to), y: points.y.slice(from, to) }
        : thinned(points, width, from, to);
      return isLog ? { x: part.x, y: part.y.map((v) => (v !== null && v > 0 ? v : null)) } : part;
    });
    const xs = [...new Set(parts.flatMap(({ x }) => x))].sort((a, b) => a - b);
    const place = new Map(xs.map((x, i) => [x, i]));
    const table = parts.map(({ x, y }) => {
      const column = new Array<number | null | undefined>(xs.length);
      for (let i = 0; i < x.length; i++) column[place.get(x[i]!)!] = y[i]!;
      return column;
    });
    return [xs, ...table] as uPlot.AlignedData;
  }
  get #height(): number {
    return this.spec.wide ? WIDE_HEIGHT : HEIGHT;
  }
  get #isLog(): boolean {
    return view.log && this.spec.log === true;
  }

  /** `step`: where the cursor is, which a new plot takes over. */
  #options(width: number, step: number | undefined): uPlot.Options {
    const { spec } = this;
    const axis = (rest: uPlot.Axis): uPlot.Axis => ({
      stroke: () => cssColor('--faint'),
      font: '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
      grid: { stroke: () => cssColor('--grid'), width: 1 },
      ticks: { show: false },
      ...rest,
    });
    const onAxis = spec.axis ?? spec.format;
    return {
      width,
      height: this.#height,
      legend: { show: false },
      padding: [10, 26, 0, 0],
      cursor: {
        sync: { key: sync.key, setSeries: false },
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { size: 7 },
        bind: {
          dblclick: () => () => {
            this.onZoom(undefined);
            return null;
          },
        },
      },
      scales: {
        x: { time: false, range: () => this.#xRange() as [number, number] },
        y: {
          distr: this.#isLog ? 3 : 1,
          range: (_, min, max) => this.#yRange(min, max),
        },
      },
      axes: [
        axis({ space: 64, size: 30, values: (_, xs) => xs.map((x) => (Number.isInteger(x) ? count(x) : '')) }),
        axis({
          ...(spec.steps && { incrs: [...spec.steps] }),
          space: 34,
          size: (_, values) => 14 + 6.2 * Math.max(3, ...(values ?? []).map((v) => v?.length ?? 0)),
          values: (_, ys) => ys.map((y) => (y === null || y === undefined ? '' : onAxis(y))),
        }),
      ],
      series: [{}, ...this.#lines.map(seriesOf)],
      hooks: {
        setSelect: [
          (u) => {
            const { left, width: wide } = u.select;
            if (wide < 3) return;
            this.onZoom([u.posToVal(left, 'x'), u.posToVal(left + wide, 'x')]);
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
        setCursor: [
          (u) => {
            const { left } = u.cursor;
            this.#cursor =
              left === undefined || left === null || left < 0 ? undefined : Math.round(u.posToVal(left, 'x'));
            this.#read();
          },
        ],
        ready: [
          (u) => {
            if (step !== undefined) u.setCursor({ left: u.valToPos(step, 'x'), top: u.over.clientHeight / 2 });
          },
        ],
        draw: [(u) => this.#drawMarks(u)],
      },
    };
  }
  #xRange(): readonly [number, number] {
    if (view.range) return view.range;
    const ends = shownRuns().map((run) => run.step);
    const starts = shownRuns().map((run) => run.firstStep);
    const [least, most] = [Math.min(...starts), Math.max(...ends)];
    return least < most ? [least, most] : [least - 1, most + 1];
  }
  #yRange(min: number | null, max: number | null): [number, number] {
    const marks = this.#marks().map((m) => m.value);
    const [least, most] = [
      Math.min(min ?? Number.POSITIVE_INFINITY, ...marks),
      Math.max(max ?? Number.NEGATIVE_INFINITY, ...marks),
    ];
    if (!(least <= most)) return [0, 1];
    if (this.#isLog) return uPlot.rangeLog(least, most, 10, false) as [number, number];
    if (this.spec.fromZero) return [0, most > 0 ? most * 1.08 : 1];
    return uPlot.rangeNum(least, most, 0.08, true) as [number, number];
  }
  #marks() {
    const all = shownRuns().flatMap(({ data, color }) => data.marks.map((mark) => ({ ...mark, color })));
    return all.filter((m) => this.spec.names.includes(m.metric) && !(this.#isLog && m.value <= 0));
  }

  /** Draws reference lines, and marks of non-finite values. */
  #drawMarks(u: uPlot): void {
    const { ctx, bbox } = u;
    const scale = uPlot.pxRatio;
    ctx.save();
    ctx.font = `${11 * scale}px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`;
    ctx.lineWidth = scale;
    for (const { label, value } of this.#marks()) {
      const y = u.valToPos(value, 'y', true);
      ctx.strokeStyle = ctx.fillStyle = cssColor('--soft');
      line(ctx, [bbox.left, y], [bbox.left + bbox.width, y], [4 * scale, 4 * scale]);
      // Curves mostly decrease: the free corners are at the upper right and the lower left.
      const isLow = y > bbox.top + bbox.height / 2;
      ctx.textAlign = isLow ? 'left' : 'right';
      ctx.fillText(
        `${label} ${this.spec.format(value)}`,
        bbox.left + (isLow ? 6 * scale : bbox.width - 6 * scale),
        y - 5 * scale,
      );
    }
    ctx.strokeStyle = ctx.fillStyle = cssColor('--bad');
    for (const run of shownRuns()) {
      const bad = run.data.bad.find((b) => this.spec.names.includes(b.metric));
      if (!bad) continue;
      const x = u.valToPos(bad.x, 'x', true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      line(ctx, [x, bbox.top], [x, bbox.top + bbox.height], [3 * scale, 3 * scale]);
      ctx.textAlign = x > bbox.left + bbox.width / 2 ? 'right' : 'left';
      ctx.fillText(
        `${bad.value} at step ${count(bad.x)}`,
        x + (ctx.textAlign === 'right' ? -5 : 5) * scale,
        bbox.top + 12 * scale,
      );
    }
    ctx.restore();
  }

  // ---- the readout: values at the cursor, or else the last ones

  #makeReadout(): void {
    this.#values = this.#lines.filter((l) => !l.faint).map((line) => ({ line, element: h('b') }));
    const told = [...new Set(this.#values.map(({ line }) => line.run))];
    this.#readout.replaceChildren(
      ...told.map((run) => {
        const own = this.#values.filter(({ line }) => line.run === run);
        const values = own.flatMap(({ line: { label }, element }) => [
          label ? h('span', {}, label) : undefined,
          element,
        ]);
        return h('li', {}, ...(told.length > 1 ? [swatch(run.color), h('span', {}, run.title)] : []), ...values);
      }),
    );
  }
  #read(): void {
    const { format, title } = this.spec;
    const texts = this.#values.map(({ line: { run, points, label }, element }) => {
      const value = this.#cursor === undefined ? points.y.at(-1) : run.at(points, this.#cursor);
      const text = value === undefined ? '\u2013' : value === null ? 'not finite' : format(value);
      setText(element, text);
      return `${run.title}${label ? ` ${label}` : ''} ${text}`;
    });
    setText(this.#step, this.#cursor === undefined ? '' : `step ${count(this.#cursor)}`);
    this.#plotHost.setAttribute('aria-label', `${title}: ${texts.join(', ')}`);
  }

  #key(e: KeyboardEvent): void {
    const u = this.#plot;
    if (!u || e.ctrlKey || e.metaKey || e.altKey) return;
    const width = u.over.clientWidth;
    const now = u.cursor.left !== undefined && u.cursor.left !== null && u.cursor.left >= 0 ? u.cursor.left : width;
    const moves: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1, Home: -width, End: width };
    const move = moves[e.key];
    if (move !== undefined) {
      const left = Math.max(0, Math.min(width, now + move * (e.shiftKey ? 20 : 2)));
      u.setCursor({ left, top: u.over.clientHeight / 2 });
    } else if (e.key === '+' || e.key === '-') {
      const [from, to] = this.#xRange();
      const [at, half] = [u.posToVal(now, 'x'), ((to - from) / 2) * (e.key === '+' ? 0.5 : 2)];
      this.onZoom([at - half, at + half]);
    } else return;
    e.preventDefault();
  }
}

const seriesOf = ({ run: { color }, faint, dots, dash }: Line): uPlot.Series => ({
  stroke: faint ? `${color}4d` : color,
  width: faint ? 1 : 1.75,
  points: { show: dots === true, size: 5, fill: color },
  ...(dash && { dash: [...dash] }),
});

/** The indices of visible points, and of one more on each side. */
function visible({ x }: Points, range: readonly [number, number] | undefined): [number, number] {
  if (!range) return [0, x.length];
  return [Math.max(0, lowerBound(x, range[0]) - 1), Math.min(x.length, lowerBound(x, range[1]) + 1)];
}
type Place = readonly [x: number, y: number];
function line(ctx: CanvasRenderingContext2D, from: Place, to: Place, dash: number[]): void {
  ctx.setLineDash(dash);
  ctx.beginPath();
  ctx.moveTo(...from);
  ctx.lineTo(...to);
  ctx.stroke();
}
