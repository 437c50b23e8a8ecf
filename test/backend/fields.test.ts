// Every field of a TPUConfig has an effect: with two values, two different things are seen.
process.env.TSXLA_CACHE = 'off';

import * as tx from 'tsxla';
import { basicConfig, FIELDS, TPUBackend, TPUConfig, TPUMemoryManager, TPUOptimizer, XLACompiler } from 'tsxla/backend';
import { afterAll, expect, test, vi } from 'vitest';

const { nn } = tx;
basicConfig({ level: 'silent' });
afterAll(() => void new TPUMemoryManager()); // no other limit than the machine's
const mlp = () => new nn.Sequential(new nn.Linear(4, 8), new nn.GELU(), new nn.Linear(8, 2));
const x = tx.randn([3, 4]);
await tx.sync(x);
const seen = async (act: () => unknown): Promise<string> => {
  try {
    await act();
    return 'done';
  } catch (e) {
    return (e as Error).name;
  }
};
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
/** What a monitor does with the clock in our hands. */
async function monitored(c: TPUConfig): Promise<{ samples: number; ms: number }> {
  const manager = new TPUMemoryManager(c);
  vi.spyOn(manager, 'getMemoryStats').mockResolvedValue(await manager.getMemoryStats());
  vi.useFakeTimers();
  try {
    const start = performance.now();
    const samples = manager.monitorMemory().all();
    await vi.runAllTimersAsync();
    return { samples: (await samples).length, ms: performance.now() - start };
  } finally {
    vi.useRealTimers();
  }
}
const GiB = 2 ** 30;
const limit = async (config: TPUConfig) => (await new TPUMemoryManager(config).getMemoryStats()).limit / GiB;
const compiles = () => tx.metrics.counter('StableHloCompile') ?? 0;

type Fields = ReturnType<TPUConfig['toJSON']>;
type Effect<K extends keyof Fields> = readonly [
  observe: (config: TPUConfig) => unknown,
  one: readonly [value: Fields[K], seen: unknown],
  other: readonly [value: Fields[K], seen: unknown],
];
const EFFECTS: { readonly [K in keyof Fields]: Effect<K> } = {
  version: [async (c) => (await new TPUBackend(c).getDeviceInfo()).hbm, ['v5e', 16 * GiB], ['v5p', 95 * GiB]],
  memoryFraction: [
    (c) => {
      Object.assign(c, { version: 'v6e', v6eMemoryGb: 2 ** -8 }); // 4 MiB
      const manager = new TPUMemoryManager(c);
      return seen(() => manager.allocateTensor([2 ** 19])); // 2 MiB of f32
    },
    [0.9, 'done'],
    [0.4, 'TPUOutOfMemoryError'],
  ],
  mixedPrecision: [
    (c) => {
      const model = new TPUBackend(c).prepareModel(mlp());
      return model.parameters()[0]!.dtype;
    },
    [true, 'f32'],
    [false, 'bf16'],
  ],
  precision: [
    (c) => {
      c.mixedPrecision = false;
      return new TPUBackend(c).prepareData(x).dtype;
    },
    ['bfloat16', 'bf16'],
    ['float32', 'f32'],
  ],
  compilationMode: [
    async (c) => {
      const compiled = await new XLACompiler(c).compileModel(mlp(), x);
      return seen(() => compiled(tx.zeros([5, 4])));
    },
    ['torch_xla', 'done'],
    ['xla', 'XLACompilationError'],
  ],
  cacheMaxSize: [
    async (c) => {
      const compiler = new XLACompiler(c);
      for (const rows of [1, 2, 3]) await compiler.compileModel(mlp(), tx.zeros([rows, 4]));
      return compiler.getCompilationStats().evictions;
    },
    [3, 0],
    [1, 2],
  ],
  enableXlaCache: [
    async (c) => {
      const [model, compiler] = [mlp(), new XLACompiler(c)];
      await tx.sync(...model.parameters());
      await compiler.compileModel(model, x);
      const before = compiles();
      await compiler.compileModel(model, x);
      return compiles() - before;
    },
    [true, 0],
    [false, 1],
  ],
  compilationTimeoutSeconds: [
    (c) => seen(() => new XLACompiler(c).compileModel(mlp(), tx.zeros([7, 4]), { useCache: false })),
    [60, 'done'],
    [1e-3, 'XLACompilationTimeoutError'],
  ],
  allocationHistoryRetentionSeconds: [
    async (c) => {
      const manager = new TPUMemoryManager(c);
      manager.allocateTensor([2], { purpose: 'test' });
      await pause(50);
      return manager.getAllocationHistory().map((record) => record.purpose);
    },
    [60, ['test']],
    [0.01, []],
  ],
  v6eMemoryGb: [(c) => limit(Object.assign(c, { version: 'v6e', memoryFraction: 1 })), [1, 1], [0.5, 0.5]],
  v7MemoryGb: [(c) => limit(Object.assign(c, { version: 'v7', memoryFraction: 1 })), [1, 1], [0.5, 0.5]],
  enableStrictValidation: [
    (c) => seen(() => new TPUOptimizer(c).optimize(mlp(), 'no tensor' as never)),
    [false, 'done'],
    [true, 'TPUValidationError'],
  ],
  monitoringIntervalSeconds: [
    async (c) => {
      c.monitoringDurationSeconds = 1;
      return (await monitored(c)).samples;
    },
    [0.125, 8],
    [0.25, 4],
  ],
  monitoringDurationSeconds: [
    async (c) => {
      c.monitoringIntervalSeconds = 0.02;
      return (await monitored(c)).ms;
    },
    [0.05, 50],
    [1.2, 1200],
  ],
  gradientCheckpointing: [
    (c) => {
      const block = () => new nn.Sequential(new nn.Linear(4, 4), new nn.Tanh());
      const model = new TPUBackend(c).prepareModel(new nn.Sequential(block(), block(), block()));
      const step = tx.compile((x: tx.Tensor) => tx.grad(model.forward(x).sum(), model.parameters()));
      return (step.stablehlo([x]).match(/optimization_barrier/g)?.length ?? 0) > 0;
    },
    [true, true],
    [false, false],
  ],
  xlaOptimizationLevel: [
    async (c) => {
      const { hash } = (await new XLACompiler(c).compileModel(mlp(), x)).program!;
      return hash === (await new XLACompiler().compileModel(mlp(), x)).program!.hash;
    },
    [2, true],
    [0, false],
  ],
};

test.each(Object.keys(FIELDS) as (keyof Fields)[])('%s', async (name) => {
  const [observe, ...values] = EFFECTS[name] as Effect<'version'>;
  for (const [value, wanted] of values) expect(await observe(new TPUConfig({ [name]: value }))).toEqual(wanted);
});
