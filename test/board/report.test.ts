// Reports: one file that needs nothing else, in which texts of runs stay texts; and the log that a loop writes.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { RunLog, writeReport } from 'tsxla/board';
import { expect, test } from 'vitest';
import { type PageData, quantile, type RunData, smoothed, thinned } from '../../dist/board/data.js';
import { Run } from '../../dist/board/run.js';
import { tsxla } from '../support.js';
import { append, newFolder, start, steps } from './support.js';

const EVIL = `</script><script>alert(1)</script><img src=x onerror=alert(2)> & "quoted" '--> <!--`;
async function report(folder: string) {
  const file = path.join(folder, 'report.html');
  await writeReport(file, [folder], { title: EVIL });
  const html = fs.readFileSync(file, 'utf8');
  const [, json] = /<script type="application\/json" id="data">(.*?)<\/script>/s.exec(html)!;
  return { html, data: JSON.parse(json!) as PageData, json: json! };
}
const read = async (folder: string): Promise<RunData> => {
  const run = new Run('1', 'run', folder);
  await run.poll();
  return run.data;
};

test('a report has its data and scripts inside, and loads nothing', async () => {
  const folder = newFolder();
  append(path.join(folder, 'a'), 'events.jsonl', start(), steps(1, [3, 2, 1]));
  const { html, data } = await report(folder);
  expect(data.changes).toHaveLength(1);
  expect(data.changes![0]!.patch.series!['stepLoss']).toEqual([
    [1, 2, 3],
    [3, 2, 1],
  ]);
  // The only address is uPlot's own, in the comment with its licence.
  expect(
    [...html.matchAll(/https?:\/\/[\w./-]+/g)].map(([url]) => url).filter((url) => !/leeoniya|localhost/.test(url)),
  ).toEqual([]);
  expect(html).not.toMatch(/<(script|link|img|iframe)[^>]* (src|href)="(?!data:)/);
  expect(html).not.toMatch(/@import|url\(/);
  const [, policy] = /http-equiv="Content-Security-Policy" content="(.*?)"/.exec(html)!;
  expect(policy).toMatch(/^default-src &#39;none&#39;; style-src &#39;sha256-/);
  expect(policy).not.toMatch(/unsafe|connect-src/);
});

test('names, titles, samples and findings with HTML in them end no script and make no element', async () => {
  const folder = newFolder();
  const name = 'a <b>&"\'';
  append(
    path.join(folder, name),
    'events.jsonl',
    start({ title: EVIL, settings: { [EVIL]: EVIL } }),
    steps(1, [1, 2]),
    { kind: 'sample', title: EVIL, prompt: EVIL, text: EVIL },
    { kind: 'finding', rule: EVIL, place: EVIL, what: EVIL, cost: EVIL, fix: EVIL },
    { kind: 'table', title: EVIL, head: [EVIL], rows: [[EVIL]] },
    { kind: 'end', status: 'failed', error: EVIL },
  );
  const { html, data, json } = await report(folder);
  expect(data.changes![0]).toMatchObject({
    name,
    patch: { info: { title: EVIL, error: EVIL }, samples: [{ text: EVIL }] },
  });
  expect(json).not.toContain('<');
  expect(html.match(/<script/g)).toHaveLength(2); // the data, and the page's own
  expect(html.match(/<\/script/g)).toHaveLength(2);
  expect(html).toContain('<title>&lt;/script&gt;&lt;script&gt;alert(1)');
  expect(html).not.toContain('<img');
});

test('the page never makes HTML of texts', () => {
  const client = path.resolve(import.meta.dirname, '../../src/board/client');
  for (const file of fs.readdirSync(client).filter((f) => f.endsWith('.ts')))
    expect(fs.readFileSync(path.join(client, file), 'utf8'), file).not.toMatch(
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|DOMParser|createContextualFragment/,
    );
});

test('tsxla board --export, and a folder without runs', async () => {
  const folder = newFolder();
  append(path.join(folder, 'a'), 'metrics.jsonl', { step: 1, loss: 2, lr: 0.1 });
  append(path.join(folder, 'deep/er/b'), 'history.jsonl', { loss: 'NaN', accuracy: 0.5 }, { loss: 1, accuracy: 0.6 });
  const file = path.join(folder, 'out/r.html');
  const { status, stdout, stderr } = await tsxla(['board', '--export', file, folder]);
  expect([status, stdout, stderr]).toEqual([0, `${file}: 2 runs\n`, '']);
  const empty = newFolder();
  const failed = await tsxla(['board', '--export', file, empty]);
  expect(failed.status).toBe(1);
  expect(failed.stderr).toBe(
    `error: no run in ${empty}: a run's folder has a metrics.jsonl, history.jsonl or events.jsonl\n`,
  );
  const { series, bad } = await read(path.join(folder, 'deep/er/b'));
  expect(series.get('accuracy')).toEqual({ x: [1, 2], y: [0.5, 0.6] });
  expect(series.get('loss')).toEqual({ x: [1, 2], y: [null, 1] });
  expect(bad).toEqual([{ metric: 'loss', x: 1, value: 'NaN' }]);
});

test('a log of a loop: steps, compiles with why, samples, marks, the end', async () => {
  const folder = newFolder();
  const log = RunLog.open(folder, { title: 'mine', steps: 3 });
  const double = tx.compile(function double(x: tx.Tensor) {
    return x.mul(2);
  });
  for (const [i, size] of [2, 2, 2, 3].entries()) {
    const y = await double(tx.zeros([size]));
    log.step(i + 1, (await y.data())[0] as number, 0.25);
  }
  log.step(9, Number.NaN);
  log.metrics({ step: 4, accuracy: 0.5 });
  log.sample({ title: 'before', prompt: 'a', text: 'b' });
  log.mark({ metric: 'accuracy', label: 'peer', value: 0.9 });
  log.end('failed', 'why');
  log.end('finished');
  log.step(10, 1); // after the end: nothing
  const data = await read(folder);
  expect(data.info).toMatchObject({ title: 'mine', status: 'failed', error: 'why', steps: 3 });
  expect(data.series.get('stepLoss')).toEqual({ x: [1, 2, 3, 4, 9], y: [0, 0, 0, 0, null] });
  expect(data.series.get('stepTime')!.y).toEqual([0.25, 0.25, 0.25, 0.25]);
  expect(data.series.get('accuracy')).toEqual({ x: [4], y: [0.5] });
  expect([data.samples, data.marks]).toEqual([
    [{ title: 'before', prompt: 'a', text: 'b' }],
    [{ metric: 'accuracy', label: 'peer', value: 0.9 }],
  ]);
  const [first, second] = data.compiles.filter((c) => c.name === 'double');
  expect(first!.difference).toBeUndefined();
  expect(second!.difference).toMatchObject({ was: 'f32[2]', now: 'f32[3]' });
  expect(second!.difference!.fix).toContain('pad the input');
});

test('a killed run leaves half a line: the next one adds whole ones, and readers pass it over', async () => {
  const folder = newFolder();
  append(folder, 'events.jsonl', { ...start(), pid: 2 ** 22 + 1 }, steps(1, [3, 2])); // no process has this number
  fs.appendFileSync(path.join(folder, 'events.jsonl'), '{"kind":"steps","fir');
  expect((await read(folder)).info.status).toBe('lost');
  const log = new RunLog();
  log.open(folder, { step: 1 });
  log.step(2, 2.5);
  log.flush();
  const data = await read(folder);
  expect(data.info).toMatchObject({ status: 'live', damaged: 1 });
  expect(data.series.get('stepLoss')!.y.slice(0, 2)).toEqual([3, 2.5]);
  log.end('finished');
  expect((await read(folder)).info.status).toBe('finished');
});

test('a log that cannot be written ends no run', async () => {
  const folder = newFolder();
  const log = RunLog.open(folder);
  fs.rmSync(folder, { recursive: true });
  log.step(1, 1);
  expect(() => log.end('finished')).not.toThrow();
});

test('a log that cannot be written for a while has all of it later', async () => {
  const folder = newFolder();
  const file = path.join(folder, 'events.jsonl');
  fs.mkdirSync(file); // as a disk that is full
  const log = RunLog.open(folder);
  for (let step = 1; step <= 3; step++) {
    log.metrics({ step, loss: 1 / step });
    log.flush();
  }
  fs.rmdirSync(file);
  log.metrics({ step: 4, loss: 0 });
  log.end('finished');
  const run = new Run('1', 'a', folder);
  await run.poll();
  expect(run.data.series.get('loss')).toEqual({ x: [1, 2, 3, 4], y: [1, 0.5, 1 / 3, 0] });
  expect(run.data.info).toMatchObject({ status: 'finished' });
});

test('fewer points have the same extremes, gaps and order', () => {
  const x = Array.from({ length: 100_000 }, (_, i) => 3 * i);
  const y: (number | null)[] = x.map((v, i) => (i === 5000 ? null : Math.sin(v / 1e4)));
  y[77_777] = 50;
  y[33_333] = -50;
  const few = thinned({ x, y }, 800);
  expect(few.x.length).toBeLessThanOrEqual(1602);
  expect([...few.x].sort((a, b) => a - b)).toEqual(few.x);
  expect(new Set(few.x).size).toBe(few.x.length);
  expect([few.y[few.x.indexOf(3 * 77_777)], few.y[few.x.indexOf(3 * 33_333)]]).toEqual([50, -50]);
  expect(few.y[few.x.indexOf(15_000)]).toBeNull();
  expect(thinned({ x: [1, 2], y: [3, 4] }, 10)).toEqual({ x: [1, 2], y: [3, 4] });
});

test('quantiles are values that were there; means of losses have no bias at the start', () => {
  expect([0, 0.5, 0.9, 1].map((p) => quantile([5, null, 1, 3, 2, 4], p))).toEqual([1, 3, 4, 5]);
  expect(quantile([null], 0.5)).toBeUndefined();
  const mean = smoothed([2, 4, null, 6], 0.5);
  expect(mean[0]).toBe(2);
  expect(mean[1]).toBeCloseTo((0.5 * 2 + 4) / 1.5, 12);
  expect(mean.slice(2)).toEqual([null, 6]);
});
