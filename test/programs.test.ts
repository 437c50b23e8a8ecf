// Programs: the cache in memory, compiles that take too long, and what PT_XLA_DEBUG and the metrics tell of them.
import * as tx from 'tsxla';
import { afterEach, expect, test, vi } from 'vitest';
import { collectGarbage } from '../dist/runtime/memory.js';
import { counts, programCount } from '../dist/runtime/program.js';
import { defaultClient } from '../dist/runtime/value.js';

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

test('programs that were not used for longest make room, and are compiled again when they are needed', async () => {
  vi.stubEnv('XLA_COMPILATION_CACHE_SIZE', '3');
  const fs = [1, 2, 3, 4, 5].map((k) => tx.compile((x: tx.Tensor) => x.mul(k).exp().sum()));
  const x = tx.ones([2]);
  await tx.sync(x);
  for (const f of fs) await (await f(x)).item();
  expect(programCount()).toBeLessThanOrEqual(3);
  const { live } = await defaultClient();
  await vi.waitFor(() => expect(live.executables).toBeLessThanOrEqual(3)); // dropped when their last run is done
  const start = counts.compiled;
  expect(await (await fs[4]!(x)).item()).toBeCloseTo(2 * Math.exp(5), 2);
  expect(counts.compiled).toBe(start);
  expect(await (await fs[0]!(x)).item()).toBeCloseTo(2 * Math.E, 4);
  expect(counts.compiled).toBe(start + 1);
});

test('memory is a limit, too', async () => {
  vi.stubEnv('TSXLA_PROGRAM_MEMORY', '1');
  const x = tx.ones([3]);
  for (const k of [1, 2, 3]) await x.mul(k).cos().sum().item();
  expect(programCount()).toBeLessThanOrEqual(1);
});

test('a compile that takes too long: an error now, its result later, and nothing changed', async () => {
  const w = tx.ones([16, 16]);
  await tx.sync(w);
  const slow = tx.compile(
    function slow() {
      let x = w;
      for (let i = 0; i < 60; i++) x = x.matmul(w).sin();
      w.add_(1);
      return x.sum();
    },
    { compilationTimeoutSeconds: 0.001 },
  );
  const start = counts.compiled;
  await expect(slow()).rejects.toThrow(tx.CompileTimeoutError);
  await expect(slow()).rejects.toThrow(
    /^compiling slow \(\d+ operations\) took more than 0.001 s: nothing was run or changed, and the compile continues: call again later, or raise compilationTimeoutSeconds$/,
  );
  expect(((await w.tolist()) as number[][])[0]![0]).toBe(1);
  let done: tx.Tensor | undefined;
  while (!done) {
    await sleep(20);
    done = await slow().catch((e) => {
      if (!(e instanceof tx.CompileTimeoutError)) throw e;
      return undefined;
    });
  }
  expect(((await w.tolist()) as number[][])[0]![0]).toBe(2);
  expect(counts.compiled).toBe(start + 1);
});

test('PT_XLA_DEBUG tells of a step: the cause, the graph, the frames, the memory', async () => {
  vi.stubEnv('PT_XLA_DEBUG', '1');
  let said = '';
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    said += text;
    return true;
  });
  const w = tx.tensor([1, 2, 3], { dtype: 'f32' });
  const train = tx.compile(function toy(x: tx.Tensor) {
    w.add_(x);
    return w.sum();
  });
  const x = tx.ones([3]).mul(2); // pending
  await train(x);
  await train(x);
  const lines = said.split('\n');
  const blocks = (name: string) => lines.filter((l) => l === `${name}: ${'='.repeat(80)}`).length / 2;
  expect(blocks('Compilation Analysis')).toBe(2);
  expect(blocks('Post Compilation Analysis')).toBe(2);
  expect(blocks('Execution Analysis')).toBe(3);
  const of = (prefix: string) => lines.filter((l) => l.startsWith(prefix)).map((l) => l.slice(prefix.length).trim());
  expect(lines).toContain(
    'Compilation Analysis:   torch_xla.compile clear the pending graph prior calling the target function',
  );
  expect(lines).toContain('Compilation Analysis:   torch_xla.compile');
  expect(of('Compilation Analysis:   Graph Name:')).toEqual(['toy_clear_pending', 'toy']);
  expect(of('Execution Analysis:   Graph Name:')).toEqual(['toy_clear_pending', 'toy', 'toy']);
  expect(of('Compilation Analysis:   Graph Hash:')).toEqual(of('Execution Analysis:   Graph Hash:').slice(0, 2));
  expect(of('Compilation Analysis:   Number of Graph Inputs:')).toEqual(['0', '2']);
  expect(of('Compilation Analysis:   Number of Graph Outputs:')).toEqual(['1', '2']);
  expect(said).toMatch(
    /Execution Analysis: Python Frame Triggered Execution: \nExecution Analysis: {3}.* \(.*programs\.test\.ts:\d+\)/,
  );
  expect(said).toMatch(/Post Compilation Analysis: Aliased Input size: \d\.\d{6} GB/);
});

test('numbers that stay are brought to the device for two runs, those that are set for each run for each', async () => {
  const p = new tx.nn.Parameter(tx.ones([2]));
  const optimizer = new tx.optim.AdamW([p], { lr: 0.1 });
  const train = tx.compile(() => {
    p.sum().backward();
    optimizer.step();
    optimizer.zeroGrad();
  });
  const uploads = async (turns: number, before = () => {}) => {
    const start = tx.metrics.counter('SyncTensorsToData') ?? 0;
    for (let i = 0; i < turns; i++) {
      before();
      await train();
    }
    return (tx.metrics.counter('SyncTensorsToData') ?? 0) - start;
  };
  await uploads(2);
  expect(await uploads(5)).toBe(0);
  const client = await defaultClient();
  const setLr = () => void (optimizer.paramGroups[0]!.lr *= 0.9);
  const once = await uploads(1, setLr);
  const { buffers } = client.live;
  expect(await uploads(5, setLr)).toBe(5 * once);
  expect(once).toBeGreaterThan(0);
  expect(client.live.buffers).toBe(buffers);
});

test('the metrics count what happened', async () => {
  await tx.sync({ wait: true });
  tx.metrics.clearAll();
  const w = tx.tensor([1, 2, 3, 4, 5], { dtype: 'f32' });
  const train = tx.compile((x: tx.Tensor) => void w.add_(x));
  const x = tx.tensor(new Float32Array([1, 1, 1, 1, 1]));
  for (let i = 0; i < 4; i++) await train(x);
  await w.tolist();
  await tx.sync({ wait: true });
  const { counter, metricData } = tx.metrics;
  expect([counter('UncachedCompile'), counter('CachedCompile')]).toEqual([1, 3]);
  expect([counter('MarkStep'), counter('ExecuteComputation')]).toEqual([5, 4]);
  expect(metricData('ExecuteTime')!.total).toBe(4);
  expect(metricData('CompileTime')!.total).toBe(1);
  expect(metricData('OutboundData')).toMatchObject({ total: 2, accumulator: 40 });
  expect(metricData('InboundData')).toMatchObject({ total: 1, accumulator: 20 });
  expect(metricData('InputOutputAliasCount')).toMatchObject({ total: 1, accumulator: 1 });
});

test('reductions that follow one another compile soon: what comes before them is not computed again in each', async () => {
  const several = tx.compile(
    () => {
      const x = tx.randn([4, 512]).round();
      const groups = x.reshape([4, 4, 128]).amax(-1).topk(2).values;
      return x.topk(5).values.sum().add(groups.sum()).add(x.amax()).add(x.logsumexp(1).sum()).add(x.sum());
    },
    { compilationTimeoutSeconds: 40 },
  );
  expect(Number.isFinite(Number(await (await several()).item()))).toBe(true);
});

test('a program keeps no value that it was first traced or computed with', async () => {
  const client = await defaultClient();
  const live = async () => {
    await tx.sync({ wait: true });
    await collectGarbage();
    return client.live.bytes / 2 ** 20;
  };
  const before = await live();
  const layer = new tx.nn.Linear(1024, 1024, { bias: false });
  const forward = tx.compile((x: tx.Tensor) => layer.forward(x.to(layer.weight.dtype)));
  await forward(tx.ones([1, 1024]));
  expect((await live()) - before).toBeCloseTo(4, 1); // MiB
  layer.to('bf16');
  await forward(tx.ones([1, 1024]));
  expect((await live()) - before).toBeCloseTo(2, 1);
});
