// The runtime's events: listeners come and go, several hear the same, and none is needed.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { BoundedMap } from '../dist/base/bounded.js';
import { ByGroup } from '../dist/observe/groups.js';
import { addSink, checksResults, type EventSink, events } from '../dist/runtime/events.js';
import { collectGarbage } from '../dist/runtime/memory.js';
import { defaultClient } from '../dist/runtime/value.js';

const added: Disposable[] = [];
const listen = (sink: Partial<EventSink>) => added.push(addSink(sink));
afterEach(() => {
  for (const sink of added.splice(0)) sink[Symbol.dispose]();
  vi.unstubAllEnvs();
});

/** A listener that writes down the names of a program's events. */
function listening() {
  const heard: string[] = [];
  listen({
    programMissing: ({ nodeCount }) => heard.push(`missing ${nodeCount}`),
    count: (kind) => kind === 'programFound' && heard.push('found'),
    compiling: ({ inputs, outputs }) => heard.push(`compiling ${inputs} to ${outputs}`),
    compilerStarted: () => heard.push('compiler'),
    compiled: async ({ tier }) => void heard.push(`compiled, ${tier}`),
    compileFailed: () => heard.push('failed'),
    running: (_program, { name }) => heard.push(`running ${name}`),
    started: () => heard.push('started'),
    ran: (_program, _request, start, end) => heard.push(`ran ${end >= start}`),
    dropped: () => heard.push('dropped'),
  });
  return heard;
}

test('a compiled function: described, compiled, run, found, dropped', async () => {
  vi.stubEnv('TSXLA_CACHE', 'off');
  const heard = listening();
  const double = tx.compile((x: tx.Tensor) => x.add(x), { name: 'events_double' });
  const x = tx.tensor([1, 2]);
  await double(x);
  await tx.sync({ wait: true });
  expect(heard.splice(0)).toEqual([
    'missing 2',
    'compiling 1 to 1',
    'compiler',
    'compiled, miss',
    'running events_double',
    'started',
    'ran true',
  ]);
  await double(x);
  await tx.sync({ wait: true });
  expect(heard.splice(0)).toEqual(['found', 'running events_double', 'started', 'ran true']);
  double.clearCache();
  expect(heard).toEqual(['dropped']);
});

test('transfers and tracing are spans, operations are counted', async () => {
  const spans: [kind: string, bytes: number | undefined, name: string | undefined][] = [];
  const ops: string[] = [];
  listen({
    span: (kind, start, end, bytes, request) => {
      expect(end).toBeGreaterThanOrEqual(start);
      if (kind !== 'wait' && kind !== 'loadFromDisk') spans.push([kind, bytes, request?.cause]);
    },
    op: (name) => ops.push(name),
  });
  const x = tx.tensor(new Float32Array(100));
  const y = await tx.step(() => x.mul(x), { name: 'events_square' });
  await y.data();
  expect(spans).toEqual([
    ['trace', undefined, undefined],
    ['gatherInputs', undefined, undefined],
    ['placeResults', undefined, undefined],
    ['upload', 400, undefined],
    ['read', 400, 'read'],
  ]);
  expect(ops).toEqual(['mul']);
});

test('a listener may refuse a program or a run: nothing is compiled or run', async () => {
  const heard = listening();
  const refuse = addSink({
    programMissing() {
      throw new Error('not this one');
    },
  });
  const refused = tx.compile((x: tx.Tensor) => x.add(41), { name: 'events_refused' });
  await expect(refused(tx.ones([3]))).rejects.toThrow('not this one');
  expect(heard.filter((name) => /^(compil|running)/.test(name))).toEqual([]);
  refuse[Symbol.dispose]();
  expect(await (await refused(tx.ones([3]))).tolist()).toEqual([42, 42, 42]);
});

describe('several listeners', () => {
  test('hear in the order in which they were added, until they are removed', () => {
    const heard: string[] = [];
    listen({ count: (kind) => heard.push(`a ${kind}`) });
    const b = addSink({ count: (kind) => heard.push(`b ${kind}`) });
    events.count('resharded');
    b[Symbol.dispose]();
    b[Symbol.dispose]();
    events.count('shardingMarked');
    expect(heard).toEqual(['a resharded', 'b resharded', 'a shardingMarked']);
  });

  test('are called as methods of their own', () => {
    class Counter implements Partial<EventSink> {
      total = 0;
      count(): void {
        this.total++;
      }
    }
    const counters = [new Counter(), new Counter()];
    for (const counter of counters) listen(counter);
    events.count('resharded');
    expect(counters.map((c) => c.total)).toEqual([1, 1]);
  });

  test('are all waited for, and the first error is that of the results', async () => {
    const done: string[] = [];
    const later = (ms: number, name: string) => () =>
      new Promise<void>((resolve) => setTimeout(() => resolve(void done.push(name)), ms));
    listen({ compiled: later(20, 'slow') });
    listen({ compiled: later(0, 'fast') });
    await events.compiled({} as never, { memory: () => ({}) } as never, {} as never);
    expect(done.sort()).toEqual(['fast', 'slow']);
    expect(checksResults()).toBe(false);
    const errors = [undefined, new Error('second'), new Error('third')];
    for (const error of errors) listen({ checkResults: async () => error });
    expect(checksResults()).toBe(true);
    expect(await events.checkResults({} as never, async () => [])).toBe(errors[1]);
  });
});

test('the runtime works without listeners', () => {
  const code = `
    import { events, checksResults } from './src/runtime/events.js';
    import { DiskCache } from './src/runtime/cache.js';
    events.count('tensorCreated');
    events.span('read', 0, 1, 4);
    console.log(checksResults(), events.compiled(), typeof DiskCache);`;
  const root = path.resolve(import.meta.dirname, '..');
  const args = ['--import', 'tsx', '--input-type=module', '-e', code]; // of src: a bundle of dist has the listeners, too
  const printed = execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8' });
  expect(printed).toBe('false undefined function\n');
});

test('what tx.debug.nans() needs is loaded when it is switched on: no module imports it otherwise', () => {
  const src = path.resolve(import.meta.dirname, '../src');
  const reached = new Set<string>();
  const visit = (file: string) => {
    if (reached.has(file)) return;
    reached.add(file);
    const text = readFileSync(file, 'utf8');
    for (const [, to] of text.matchAll(/^(?:import|export) (?!type )(?:[^;']*? from )?'(\.[^']*)\.js';/gm))
      visit(path.resolve(path.dirname(file), `${to}.ts`));
  };
  visit(path.join(src, 'index.ts'));
  const observe = [...reached].map((file) => path.relative(src, file)).filter((file) => file.startsWith('observe/'));
  expect(observe).toEqual(expect.arrayContaining(['observe/nans.ts', 'observe/dump.ts', 'observe/rules-loop.ts']));
  expect(observe.filter((file) => /nonfinite|statistics|doctor/.test(file))).toEqual([]);
});

describe('what is kept is bounded', () => {
  test('a map with a limit drops the oldest entries', () => {
    const map = new BoundedMap<string, number>(2).set('a', 1).set('b', 2).set('a', 3).set('c', 4);
    expect([...map]).toEqual([
      ['b', 2],
      ['c', 4],
    ]);
  });

  test('lines that read: the latest 1000', () => {
    const groups = new ByGroup<number>();
    for (let i = 0; i < 1500; i++) groups.set({ cause: 'read', name: `line ${i}` }, i);
    const kept = Array.from({ length: 1500 }, (_, i) => groups.get({ cause: 'read', name: `line ${i}` }));
    expect(kept.filter((x) => x !== undefined)).toHaveLength(1000);
    expect(kept.at(-1)).toBe(1499);
    groups.set({ cause: 'read' }, 1); // it has no source line
    expect(groups.get({ cause: 'read' })).toBeUndefined();
  });

  test('explanations keep no executable of a program with cache: false', async () => {
    const client = await defaultClient();
    const x = tx.ones([4]);
    const once = () => tx.step(() => x.mul(3), { name: 'events_once', cache: false });
    await once();
    await collectGarbage();
    const before = client.live.executables;
    for (let i = 0; i < 5; i++) await once();
    await tx.sync({ wait: true });
    await collectGarbage();
    expect(client.live.executables).toBe(before);
    expect(tx.explain().filter((r) => r.name === 'events_once')).toHaveLength(6);
  });
});
