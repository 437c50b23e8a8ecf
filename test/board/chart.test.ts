// Curves as an SVG: where the values lie in it, what is refused, and how pictures and tensors show themselves in a notebook.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { bars, type Curve, chart, chartRuns } from 'tsxla/board';
import { expect, test } from 'vitest';
import { tsxla } from '../support.js';
import { append, newFolder, start, steps } from './support.js';

/** The lines of values in an SVG, each as lists of points between gaps. */
const linesIn = (svg: string): [x: number, y: number][][][] =>
  [...svg.matchAll(/<path d="([^"]+)" fill="none"/g)].map(([, d]) =>
    d!
      .split('M')
      .slice(1)
      .map((part) => part.split('L').map((point) => point.split(' ').map(Number) as [number, number])),
  );
const shown = (svg: string) => [...svg.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text!);

test('values lie to scale, and gaps are gaps', () => {
  const { svg } = chart({ a: [0, 10, Number.NaN, 5], b: { x: [1, 3], y: [0, 10] } }, { title: 'two', x: 'step' });
  const [[first, last], [b]] = linesIn(svg) as [[[number, number][], [number, number][]], [[number, number][]]];
  expect([first.length, last.length, b.length]).toEqual([2, 1, 2]);
  const [[x0, y0], [x1, y10]] = first as [[number, number], [number, number]];
  expect(y10).toBeLessThan(y0); // up
  expect(last[0]![0]).toBeCloseTo(x0 + 3 * (x1 - x0), 0);
  expect(last[0]![1]).toBeCloseTo((y0 + y10) / 2, 0);
  expect(b).toEqual([
    [x1, y0],
    [last[0]![0], y10],
  ]);
  expect(shown(svg)).toEqual(expect.arrayContaining(['two', 'step', 'a', 'b', '0', '5', '10']));
});

test('a logarithmic scale: equal factors are equally far apart', () => {
  const [[[a, b, c]]] = linesIn(chart({ loss: [100, 10, 1] }, { log: true }).svg) as [[[number, number][]]];
  expect(b![1] - a![1]).toBeCloseTo(c![1] - b![1], 0);
});

test('long series keep their extremes, and names are text', () => {
  const y = Float32Array.from({ length: 100_000 }, (_, i) => (i === 54_321 ? 7 : Math.sin(i)));
  const { svg } = chart({ '<b>"&': y, other: [1] });
  expect(svg.length).toBeLessThan(60_000);
  const ys = linesIn(svg)[0]!
    .flat()
    .map(([, at]) => at);
  const sorted = [...ys].sort((a, b) => a - b);
  expect(sorted[1]! - sorted[0]!).toBeGreaterThan(100); // the one value of 7, far above all others
  expect(svg).toContain('&lt;b&gt;&quot;&amp;');
  expect(svg).not.toContain('<b>');
});

test.each<[unknown, object, string]>([
  [{ a: 'text' }, {}, "chart: a is the string 'text': give a list of numbers, or { x, y }"],
  [{ a: [Number.NaN] }, {}, 'there is no finite value to draw'],
  [{ a: { x: [1], y: [1, 2] } }, {}, 'a has 1 values of x and 2 of y'],
  [{ a: { x: [2, 1], y: [1, 2] } }, {}, 'a has x[1] = 1: x must be ascending'],
  [{ a: [1, 0] }, { log: true }, 'a logarithmic scale cannot show 0'],
  [{ a: [1] }, { width: 3 }, 'width is 3'],
])('%j with %j is refused', (curves, options, message) => {
  expect(() => chart(curves as Record<string, Curve>, options)).toThrow(message);
});

test('tsxla board --svg draws the metrics of runs', async () => {
  const folder = newFolder();
  const metrics = [1, 2, 3].map((step) => ({ step, loss: 4 - step, perplexity: 8 / step }));
  append(path.join(folder, 'a'), 'metrics.jsonl', ...metrics);
  append(path.join(folder, 'b'), 'events.jsonl', start({ title: 'second' }), steps(1, [3, 2, 1]), {
    kind: 'metrics',
    step: 3,
    loss: 1,
  });
  const file = path.join(folder, 'curves.svg');
  const { status, stdout } = await tsxla(['board', folder, '--svg', file]);
  expect([status, stdout]).toEqual([0, `${file}: loss, perplexity of a, second\n`]);
  const svg = fs.readFileSync(file, 'utf8');
  expect(linesIn(svg)).toHaveLength(3);
  expect(shown(svg)).toEqual(expect.arrayContaining(['loss', 'perplexity', 'second']));
  expect((await chartRuns([folder], { metrics: ['loss'] })).summary).toBe('loss of a, second');
  await expect(chartRuns([folder], { metrics: ['speed'] })).rejects.toThrow(
    'no run has the metric speed: the runs have loss, perplexity, stepLoss',
  );
  for (const [flags, message] of [
    [['--metrics', 'loss'], '--metrics has no effect without --svg'],
    [['--svg', file, '--port', '1'], '--svg and --port cannot be used together: leave one out'],
  ] as const)
    expect((await tsxla(['board', folder, ...flags])).stderr).toContain(message);
});

test('bars: a row for each name, a bar for each series, ranges and marks', () => {
  const series = { tsxla: { ResNet: { value: 0.5, low: 0.25, high: 1 }, GAT: 2 }, torch: { ResNet: 1, GAT: null } };
  const { svg, summary } = bars(series, { title: 'time', x: 'seconds', marks: [{ label: 'limit', value: 1 }] });
  expect(summary).toBe('time: tsxla, torch for ResNet, GAT');
  const widths = [...svg.matchAll(/<rect x=[^>]* width="([\d.]+)" height="11"/g)].map(([, width]) => Number(width));
  expect(widths.map((width) => Number((width / widths[0]!).toFixed(2)))).toEqual([1, 2, 4]);
  expect(shown(svg)).toEqual(
    expect.arrayContaining(['ResNet', 'GAT', 'time', 'seconds', 'limit', 'tsxla', 'torch', '2']),
  );
  expect(shown(bars({ only: { a: 1 } }).svg)).not.toContain('only');
  expect(() => bars({ a: { b: -1 } })).toThrow('bars: a, b is -1: bars show numbers from 0 on');
  expect(() => bars({ a: { b: null } })).toThrow('bars: there is no value above 0 to draw');
  expect(() => bars({ a: { b: 1 } }, { width: 3 })).toThrow('bars: width is 3: use 160 to 10000 pixels');
});

test('in a notebook, pictures are pictures and small tensors are tables', async () => {
  const inNotebook = (value: object) => (value as { [key: symbol]: () => unknown })[Symbol.for('Jupyter.display')]!();
  const picture = chart({ loss: [2, 1] });
  expect(inNotebook(picture)).toEqual({ 'image/svg+xml': picture.svg, 'text/plain': 'chart: loss (2)' });
  const x = tx.tensor([[1.5, -2, Number.NaN]], { requiresGrad: true }).mul(2);
  const table = (await inNotebook(x)) as Record<string, string>;
  expect(table['text/plain']).toBe(`${x}`); // read by now
  expect([...table['text/html']!.matchAll(/<td[^>]*>([^<]*)/g)].map(([, text]) => text)).toEqual(['3.', '-4.', 'nan']);
  expect(table['text/html']).toContain('f32[1, 3]');
  expect(await inNotebook(tx.tensor(2))).toEqual({ 'text/plain': 'tensor(2)' });
  expect(Object.keys((await inNotebook(tx.zeros([2, 30]))) as object)).toEqual(['text/plain']);
});
