// Measures the backend's own overhead, next to the figures of the TPU Backend Guide. npm run bench:backend [-- --calls 1000]
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import * as tx from 'tsxla';
import { basicConfig, KernelPyTorchConfig, TPUBackend, TPUMemoryManager, XLACompiler } from 'tsxla/backend';

const { values } = parseArgs({ options: { calls: { type: 'string', default: '1000' } } });
const calls = Number(values.calls);
process.env['PJRT_DEVICE'] = 'CPU';
basicConfig({ level: 'silent' });

/** The median of single calls, in milliseconds: of the last of four rounds, when V8 has made its code of what they run. */
async function median(run: () => unknown): Promise<number> {
  let times: number[] = [];
  for (let round = 0; round < 4; round++) {
    await setTimeout(50);
    times = [];
    for (let i = 0; i < calls; i++) {
      const begin = performance.now();
      const result = run();
      if (result instanceof Promise) await result;
      times.push(performance.now() - begin);
    }
  }
  return times.sort((a, b) => a - b)[calls >> 1]!;
}

const config = new KernelPyTorchConfig();
const backend = new TPUBackend(config);
const model = backend.prepareModel(
  new tx.nn.Sequential(new tx.nn.Linear(512, 256), new tx.nn.GELU(), new tx.nn.Linear(256, 10)),
);
const x = tx.randn([32, 512]);
const compiler = new XLACompiler(config);
const manager = new TPUMemoryManager(config);
await tx.sync(x, ...model.parameters());
const fresh = await compiler.compileModel(model, x, { useCache: false });
await compiler.compileModel(model, x);
await manager.getMemoryStats();

const rows: readonly (readonly [what: string, document: string, limit: number, ms: number])[] = [
  ['backend creation', '~0.13 ms', 0.13, await median(() => new TPUBackend(config))],
  ['model preparation, cached', '<0.001 ms', 0.001, await median(() => backend.prepareModel(model))],
  ['XLA compilation, first', '1-10 s', 10_000, fresh.program!.seconds * 1e3],
  ['XLA compilation, cached', '(1-10 s, first run only)', 1000, await median(() => compiler.compileModel(model, x))],
  ['memory allocation, [1000, 1000]', '~0.001 ms', 0.001, await median(() => manager.allocateTensor([1000, 1000]))],
  ['synchronization', '<0.01 ms', 0.01, await median(() => backend.synchronize())],
];
const show = (ms: number) => (ms >= 1 ? `${ms.toFixed(1)} ms` : `${ms.toFixed(5)} ms`);
console.log(`| operation | the document | here, median of ${calls} | |\n|---|---|---|---|`);
for (const [what, document, limit, ms] of rows)
  console.log(
    `| ${what} | ${document} | ${show(ms)} | ${ms <= limit ? 'at or under' : `${(ms / limit).toFixed(1)} x over`} |`,
  );
process.exitCode = rows.every(([, , limit, ms]) => ms <= limit) ? 0 : 1;
