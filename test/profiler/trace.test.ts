// tx.profiler on a CPU: what a trace has, that it costs nothing when there is none, and that its files are read.
import fs from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import * as tx from 'tsxla';
import * as xp from 'tsxla/xp';
import { expect, test } from 'vitest';
import { Recorder, sideBySide } from '../../dist/profiler/recorder.js';
import { planesOf } from '../../dist/profiler/trace.js';
import { counts } from '../../dist/runtime/program.js';
import { scratch } from '../scratch.js';
import { goldenPath, tsxla } from '../support.js';

process.env.TSXLA_LOG = 'quiet';
const { newFolder, file } = scratch('profiler');
const { profiler } = tx;
const lanesIn = (name: string) =>
  Object.fromEntries(planesOf(name).flatMap((plane) => plane.lines.map((line) => [line.name, line.events])));
const namesIn = (name: string, lane: string) => lanesIn(name)[lane]?.map((e) => e.name);
const double = tx.compile(function double(x: tx.Tensor) {
  return x.add(x).sum();
});

test('a trace has steps, annotations, compiles, runs, reads and waits for batches', async () => {
  const before = { ...counts };
  const loader = new tx.data.DataLoader(
    Array.from({ length: 6 }, () => ({ x: new Float32Array(4) })),
    { batchSize: 2 },
  );
  const { result, files } = await profiler.trace(newFolder(), async () => {
    let sum = 0;
    let step = 0;
    for await (const { x } of loader) {
      using _ = new profiler.StepTrace('train', { stepNum: step++ });
      using forward = new profiler.Trace('forward');
      const y = await double(x);
      using inner = new profiler.Trace('read');
      sum += await y.item();
      inner.end();
      forward.end();
    }
    return sum;
  });
  expect([result, files.hasDevice]).toEqual([0, false]);
  const lanes = lanesIn(files.xplane);
  expect(lanes['Steps']!.map((e) => [e.name, e.stat('step_num')])).toEqual([0n, 1n, 2n].map((n) => ['train', n]));
  expect(namesIn(files.xplane, 'Annotations')).toEqual(Array(3).fill(['forward', 'read']).flat());
  expect(lanes['Compile']!.filter((e) => e.name === 'double').length).toBe(1);
  expect(counts.compiled - before.compiled).toBe(lanes['Compile']!.filter((e) => e.name !== 'load from disk').length);
  const runs = lanes['Execute']!;
  expect(runs.length).toBe(counts.executed - before.executed);
  expect(runs.filter((e) => e.name === 'double').map((e) => e.stat('source'))).toEqual(
    Array(3).fill(expect.stringMatching(/trace\.test\.ts:\d+$/)),
  );
  expect(lanes['Read']!.map((e) => Number(e.stat('bytes')))).toEqual([4, 4, 4]);
  expect(lanes['Loader wait']!.length).toBe(4); // with that for the end
  expect(lanes['Trace']!.length).toBeGreaterThan(0);
});

test('nothing listens once a trace has ended, nor do annotations outside of one do anything', async () => {
  const recorder = new Recorder();
  await (await double(tx.ones([4]))).item();
  const spans = () => recorder.finish().flatMap((lane) => lane.spans).length;
  const seen = spans();
  expect(seen).toBeGreaterThan(1);
  new profiler.Trace('outside').end();
  await (await double(tx.ones([4]))).item();
  expect(spans()).toBe(seen);
});

test('Perfetto opens the other file: no two spans of a line overlap in part', async () => {
  const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  const task = async (name: string, ms: number) => {
    using _ = new profiler.Trace(name);
    await wait(ms);
  };
  const { files } = await profiler.trace(newFolder(), async () => {
    const late = (async () => {
      await wait(5);
      await task('c', 30);
    })();
    await Promise.all([task('a', 15), task('b', 25), late]);
  });
  const { traceEvents } = JSON.parse(gunzipSync(fs.readFileSync(files.trace)).toString());
  const spans = traceEvents.filter((e: { ph: string }) => e.ph === 'X');
  expect(
    spans
      .map((e: { name: string }) => e.name)
      .filter((name: string) => /^[abc]$/.test(name))
      .sort(),
  ).toEqual(['a', 'b', 'c']);
  for (const one of spans)
    for (const other of spans) {
      if (one === other || one.tid !== other.tid) continue;
      const [a, b] = one.ts <= other.ts ? [one, other] : [other, one];
      const isBeside = a.ts + a.dur <= b.ts + 1e-3; // microseconds
      const isInside = a.ts + a.dur >= b.ts + b.dur - 1e-3;
      expect(isBeside || isInside).toBe(true);
    }
});

test('sideBySide: what is inside stays, what overlaps has a line of its own', () => {
  const span = (name: string, start: number, end: number) => ({ name, start, end });
  const lines = sideBySide([span('b', 1, 3), span('a', 0, 10), span('c', 2, 4), span('d', 3, 5), span('e', 10, 11)]);
  expect(lines.map((line) => line.map((s) => s.name))).toEqual([['a', 'b', 'd', 'e'], ['c']]);
});

test('operations of programs that are compiled for a profile have the module and the line', async () => {
  const model = new tx.nn.Sequential(new tx.nn.Linear(2, 3), new tx.nn.Tanh());
  const text = () => tx.getStablehlo(model.forward(tx.ones([1, 2])));
  expect(text()).not.toContain('loc(');
  const naming = profiler.annotatePrograms();
  const named = text();
  naming[Symbol.dispose]();
  expect(named).toMatch(new RegExp(`stablehlo.tanh.* loc\\("1/tanh"\\("${import.meta.filename}":\\d+:\\d+\\)\\)`));
  expect(named).toMatch(/dot_general.* loc\("0\/\w+"/);
  expect(text()).not.toContain('loc(');
});

test('jobs of this package point at its models', async () => {
  const model = await tx.models.Qwen3ForCausalLM.fromPretrained(goldenPath('qwen3/tied'), { dtype: 'f32' });
  const naming = profiler.annotatePrograms({ pointAt: ['models', 'nn'] });
  const text = tx.getStablehlo(model.forward(tx.ones([1, 4], { dtype: 'i32' })));
  naming[Symbol.dispose]();
  const operations = text.split('\n').filter((line) => / = "stablehlo\.(?!constant|broadcast)/.test(line));
  const known = operations.filter((line) => /loc\("[^"]*"\(".*\/src\/(models|nn)\/\w+\.ts":\d+/.test(line));
  expect(known.length / operations.length).toBeGreaterThan(0.9);
  expect(text).toMatch(/dot_general.* loc\("model\.layers\..*qProj\/linear"/);
});

test('StepProfiler: the steps that were asked for, also of a run that ends before', async () => {
  const steps = async (range: string, count: number, options: { rank?: number } = {}) => {
    await using steps = new profiler.StepProfiler(newFolder(), { steps: range, ...options });
    const doubled = async (n: number) => {
      await double(tx.ones([n]));
      return n;
    };
    for (let n = 1; n <= count; n++) expect(await steps.step(n, () => doubled(n))).toBe(n);
    await steps[Symbol.asyncDispose]();
    return steps.files && lanesIn(steps.files.xplane)['Steps']!.map((e) => e.stat('step_num'));
  };
  expect(await steps('2:4', 6)).toEqual([2n, 3n]);
  expect(await steps('2:9', 3)).toEqual([2n, 3n]);
  expect(await steps('5:9', 3)).toBeUndefined();
  const taken = newFolder();
  fs.writeFileSync(taken, '');
  expect(() => new profiler.StepProfiler(taken)).toThrow(`StepProfiler: cannot write profiles into ${taken}: EEXIST`);
  const lost = newFolder(); // a folder that goes while the run trains: the run continues
  const unlucky = new profiler.StepProfiler(lost, { steps: '1:2' });
  fs.rmSync(lost, { recursive: true });
  fs.writeFileSync(lost, '');
  expect(await unlucky.step(1, () => 7)).toBe(7);
  await unlucky[Symbol.asyncDispose]();
  expect(unlucky.files).toBeUndefined();
  expect(() => new profiler.StepProfiler('x', { steps: '4:4' })).toThrow(
    'StepProfiler: steps is 4:4: write the first step and the one after the last, as in 10:15',
  );
});

test("PyTorch/XLA's names, and mistakes", async () => {
  expect(xp.startTrace).toBe(profiler.startTrace);
  expect(() => xp.startServer(9012)).toThrow('there is no profiling server to listen on port 9012');
  await expect(xp.stopTrace()).rejects.toThrow('stopTrace: no trace is running: start one with startTrace(dir)');
  await xp.startTrace(newFolder(), { run: 'run', host: 'one' });
  await expect(xp.startTrace(newFolder())).rejects.toThrow('a trace is already running');
  const { xplane, trace } = await xp.stopTrace();
  expect([xplane, trace].map((f) => path.basename(f))).toEqual(['one.xplane.pb', 'one.trace.json.gz']);
  expect(xplane).toContain(path.join('plugins', 'profile', 'run'));
  const failed = profiler.trace(newFolder(), () => Promise.reject(new Error('mine')));
  await expect(failed).rejects.toThrow('mine');
  await expect(profiler.startTrace(file('taken', ''))).rejects.toThrow('cannot write a profile into');
});

test('tsxla profile reads a file, or the newest of a folder', async () => {
  const folder = newFolder();
  const { files } = await profiler.trace(folder, async () => {
    for (let i = 0; i < 3; i++) await (await double(tx.ones([4]))).item();
  });
  const { stdout, status } = await tsxla(['profile', folder]);
  expect(status).toBe(0);
  expect(stdout).toContain(files.xplane);
  expect(stdout).toMatch(/no device in it: .*\n3 steps, .* each/);
  expect(stdout).toMatch(/the longest programs\n(?:.*\n)? {2}double .* 3x .*trace\.test\.ts:\d+/);
  expect(stdout).toMatch(/\n(The device|Nothing ran).*\.\n$/);
  const absent = await tsxla(['profile', path.join(folder, 'nope')]);
  expect(absent.stderr).toContain('nope does not exist: pass a profile (.xplane.pb), or the DIR of --profile');
  const wrong = await tsxla(['profile', file('other.xplane.pb', 'no profile')]);
  expect([wrong.status, wrong.stderr]).toEqual([
    1,
    expect.stringMatching(/other\.xplane\.pb is not a profile \(XSpace\): /),
  ]);
});
