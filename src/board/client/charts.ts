// The list of charts: those of every training run, and one for each other metric of a run.
import type { ChartSpec, Line } from './chart.js';
import { fixed, memory, plain, time } from './numbers.js';
import { runs, type ShownRun, view } from './state.js';

const of =
  (name: string, more: Partial<Line> = {}) =>
  (run: ShownRun): readonly Line[] => {
    const points = run.series(name);
    return points ? [{ run, points, dots: points.x.length < 3, ...more }] : [];
  };

function losses(run: ShownRun): readonly Line[] {
  const steps = run.series('stepLoss');
  const evaluated = of('evalLoss', { label: 'evaluation', dots: true, dash: [4, 4] })(run);
  if (!steps) return [...of('loss')(run), ...evaluated];
  const mean = run.smooth(view.smoothing)!;
  const single: Line[] = view.smoothing > 0 ? [{ run, points: steps, faint: true }] : [];
  return [...single, { run, points: mean, ...(evaluated.length && { label: 'training' }) }, ...evaluated];
}
const times = (run: ShownRun): readonly Line[] =>
  [0.5, 0.9, 0.99].flatMap((p, i) => {
    const points = run.stepTimes(p);
    const dash = [undefined, [6, 3], [2, 3]][i];
    return points ? [{ run, points, label: `p${100 * p}`, dots: points.x.length < 3, ...(dash && { dash }) }] : [];
  });

/** Axis increments of bytes: GiB and fractions of it. */
const POWERS = Array.from({ length: 50 }, (_, i) => 2 ** i);

const STANDARD: readonly ChartSpec[] = [
  {
    key: 'loss',
    title: 'Loss',
    format: fixed(4),
    axis: plainAxis,
    lines: losses,
    names: ['loss', 'stepLoss', 'evalLoss'],
    wide: true,
    log: true,
  },
  {
    key: 'perplexity',
    title: 'Perplexity',
    format: fixed(2),
    axis: plainAxis,
    lines: of('perplexity', { dots: true }),
    names: ['perplexity'],
    log: true,
  },
  { key: 'lr', title: 'Learning rate', format: plain, axis: plainAxis, lines: of('lr'), names: ['lr'], fromZero: true },
  {
    key: 'gradNorm',
    title: 'Gradient norm',
    format: fixed(3),
    axis: plainAxis,
    lines: of('gradNorm'),
    names: ['gradNorm'],
    log: true,
  },
  {
    key: 'speed',
    title: 'Tokens per second',
    format: plain,
    axis: plainAxis,
    lines: of('tokensPerSecond'),
    names: ['tokensPerSecond'],
    fromZero: true,
  },
  {
    key: 'times',
    title: 'Time of a step',
    format: time,
    axis: (x) => (x === 0 ? '0' : time(x)),
    lines: times,
    names: ['stepTime'],
    fromZero: true,
  },
  {
    key: 'memory',
    title: 'Device memory',
    format: memory,
    axis: (x) => (x === 0 ? '0' : memory(x)),
    lines: of('memory'),
    names: ['memory'],
    steps: POWERS,
    fromZero: true,
  },
];
function plainAxis(x: number): string {
  const text =
    Math.abs(x) >= 1e6 || (x !== 0 && Math.abs(x) < 1e-3)
      ? x.toExponential()
      : x.toLocaleString('en', { maximumFractionDigits: 4 });
  return text.replace('e+', 'e').replace('-', '\u2212');
}

/** The charts for the current metrics of the runs. */
export function specs(): ChartSpec[] {
  const known = new Set(STANDARD.flatMap(({ names }) => names));
  const names = new Set([...runs.values()].flatMap(({ data }) => [...data.series.keys()]));
  const others = [...names].filter((name) => !known.has(name)).sort();
  return [
    ...STANDARD,
    ...others.slice(0, 40).map(
      (name): ChartSpec => ({
        key: `other ${name}`,
        title: name,
        format: plain,
        axis: plainAxis,
        lines: of(name),
        names: [name],
        log: true,
      }),
    ),
  ];
}
