// TPUBackend: models and data as the configuration asks, remembered by identity; files; figures.
process.env.TSXLA_CACHE = 'off';

import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { inspect, promisify } from 'node:util';
import * as tx from 'tsxla';
import {
  BaseBackend,
  basicConfig,
  createXlaIntegration,
  KernelPyTorchConfig,
  TPUBackend,
  TPUCheckpointError,
  TPUConfig,
  TPUMemoryManager,
  TPUModelPreparationError,
  TPUNotAvailableError,
  TPUValidationError,
  XLACompiler,
  XLADeviceManager,
} from 'tsxla/backend';
import { readTorch } from 'tsxla/io';
import { CHIPS } from 'tsxla/plan';
import { afterAll, beforeEach, expect, test, vi } from 'vitest';
import { collectGarbage } from '../../dist/runtime/memory.js';

const { nn, optim } = tx;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-backend-'));
afterAll(() => fs.rmSync(folder, { recursive: true }));
let lines: Record<string, unknown>[] = [];
beforeEach(() => {
  lines = [];
  basicConfig({ level: 'info', format: 'json', write: (line) => lines.push(JSON.parse(line)) });
});
const list = async (t: tx.Tensor) => Array.from((await t.to('f32').data()) as Float32Array);
const mlp = () => new nn.Sequential(new nn.Linear(4, 8), new nn.GELU(), new nn.Linear(8, 2));
const plain = { mixedPrecision: false, precision: 'float32', gradientCheckpointing: false } as const;
const x = tx.randn([3, 4]);
await tx.sync(x);

test('without a TPU the CPU is used: said once, an error where validation is strict, nothing where it was asked for', () => {
  const backend = new TPUBackend();
  new TPUBackend(new TPUConfig());
  const [device, worldSize, rank, isDistributed] = ['cpu', 1, 0, false];
  expect(backend).toMatchObject({ device, worldSize, rank, isDistributed });
  expect(lines.filter((l) => String(l.message).includes('has no TPU'))).toMatchObject([
    { level: 'WARNING', device: 'cpu', message: expect.stringContaining('using the cpu instead') },
  ]);
  const strict = new TPUConfig({ enableStrictValidation: true });
  expect(() => new TPUBackend(strict)).toThrow(TPUNotAvailableError);
  expect(() => new TPUBackend(strict)).toThrow(/has no TPU.*to use the cpu, turn it off or set PJRT_DEVICE=CPU$/);
  expect(new BaseBackend(strict).device).toBe('cpu'); // which promises no TPU
  vi.stubEnv('PJRT_DEVICE', 'CPU');
  expect(new TPUBackend(strict).device).toBe('cpu');
  vi.unstubAllEnvs();
  expect(String(backend)).toBe('TPUBackend(device=cpu, worldSize=1, mode=training)');
});

test('that the CPU is used is not said again when it is started', async () => {
  const program = "import { TPUBackend } from 'tsxla/backend'; await new TPUBackend().getDeviceInfo();";
  const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
  expect((await run).stderr.trim().split('\n')).toEqual([expect.stringContaining('using the cpu instead')]);
});

test("the device's figures are the planner's, or the machine's own", async () => {
  const auto = await new TPUBackend().getDeviceInfo();
  expect(auto).toMatchObject({
    deviceType: 'cpu',
    deviceName: 'cpu',
    totalMemory: os.totalmem(),
    version: null,
    hbm: null,
  });
  expect(auto.memoryLimit).toBeCloseTo(0.9 * os.totalmem(), -3);
  for (const [version, name] of [
    ['v4', 'v4'],
    ['v5e', 'v5e'],
    ['v5p', 'v5p'],
    ['v6e', 'v6e'],
    ['v7', 'tpu7x'],
  ] as const) {
    const info = await new TPUBackend(new TPUConfig({ version })).getDeviceInfo();
    const chip = CHIPS.find((c) => c.name === name)!;
    expect(info).toMatchObject({ version: name, hbm: chip.hbm.bytes });
    expect(info.memoryLimit).toBeCloseTo(0.9 * Math.min(chip.hbm.bytes, os.totalmem()), -3);
    expect(info.batchGuidance!.rows).toBe(Math.round(chip.peak.bf16 / chip.hbm.bandwidth));
  }
  const less = await new TPUBackend(
    new TPUConfig({ version: 'v6e', v6eMemoryGb: 1, memoryFraction: 0.5 }),
  ).getDeviceInfo();
  expect([less.hbm, less.memoryLimit]).toEqual([2 ** 30, 2 ** 29]);
  new TPUBackend(); // all memory again
});

test('in training, products are bf16 and weights stay f32; in inference weights are bf16; without mixed precision all is', async () => {
  const dtypes = (model: tx.nn.Module) => [...new Set(model.parameters().map((p) => p.dtype))];
  const products = (model: tx.nn.Sequential) =>
    tx
      .compile((x: tx.Tensor) => model.forward(x))
      .stablehlo([x])
      .match(/dot_general.*-> tensor<\w+xbf16>/g)?.length ?? 0;
  const trained = mlp();
  const before = await list(trained.forward(x));
  expect(new TPUBackend().prepareModel(trained)).toBe(trained);
  expect([dtypes(trained), products(trained), trained.forward(x).dtype]).toEqual([['f32'], 2, 'f32']);
  const after = await list(trained.forward(x));
  expect(after).not.toEqual(before);
  for (const [i, v] of after.entries()) expect(Math.abs(v - before[i]!)).toBeLessThan(0.05);

  const served = mlp();
  new TPUBackend(new KernelPyTorchConfig({ mode: 'inference' })).prepareModel(served);
  expect([dtypes(served), products(served), served.forward(x).dtype]).toEqual([['bf16'], 2, 'f32']);

  const whole = mlp();
  const backend = new TPUBackend(new TPUConfig({ mixedPrecision: false }));
  backend.prepareModel(whole);
  expect([dtypes(whole), whole.forward(backend.prepareData(x)).dtype]).toEqual([['bf16'], 'bf16']);

  const exact = mlp();
  const was = await list(exact.forward(x));
  new TPUBackend(new TPUConfig(plain)).prepareModel(exact);
  expect(await list(exact.forward(x))).toEqual(was);
});

test.each(['inference', 'training'] as const)(
  'a model that is bf16 already, or shares a layer with one, takes f32: %s',
  async (mode) => {
    const backend = new TPUBackend(new KernelPyTorchConfig({ mode }));
    const loaded = mlp().to('bf16');
    backend.prepareModel(loaded);
    const y = loaded.forward(backend.prepareData(x));
    expect(y.dtype).toBe('f32');
    expect(loaded.forward(x.to('bf16')).dtype).toBe('bf16'); // as it was
    expect(await list(loaded.forward(x.to('bf16')))).toEqual(await list(y));
    const layer = new nn.Linear(4, 4);
    const [one, other, around] = [[], [new nn.ReLU()], [new nn.Linear(4, 2)]].map(
      (rest) => new nn.Sequential(layer, ...rest),
    );
    for (const model of [layer, one!, other!, around!]) backend.prepareModel(model);
    for (const model of [layer, one!, other!, around!]) expect(model.forward(x).dtype).toBe('f32');
  },
);

test('without mixed precision blocks are computed again, too, and a level leaves weights in the precision of the data', () => {
  const block = () => new nn.Sequential(new nn.Linear(4, 4), new nn.Tanh());
  for (const precision of ['float32', 'bfloat16'] as const) {
    const backend = new TPUBackend(new TPUConfig({ mixedPrecision: false, precision }));
    for (const level of [undefined, 'balanced'] as const) {
      const model = backend.prepareModel(new nn.Sequential(block(), block(), block()), level);
      const data = backend.prepareData(x);
      const step = tx.compile((x: tx.Tensor) => tx.grad(model.forward(x).sum(), model.parameters()));
      expect(step.stablehlo([data]).match(/optimization_barrier/g)).toHaveLength(3);
      expect(model.parameters()[0]!.dtype).toBe(data.dtype);
    }
  }
});

test('a prepared model is left alone until it is another: by identity, members and dtypes, never by name', async () => {
  const backend = new TPUBackend();
  const stats = async () => (await backend.getMemoryStats()).modelCacheStats;
  const [a, b] = [mlp(), mlp()];
  backend.prepareModel(a);
  const forward = a.forward;
  backend.prepareModel(a);
  expect(a.forward).toBe(forward); // nothing was put around it twice
  backend.prepareModel(b);
  expect(await stats()).toMatchObject({ hits: 1, misses: 2, size: 2 });
  expect(await list(a.forward(x))).not.toEqual(await list(b.forward(x)));
  a.setSubmodule('2', new nn.Linear(8, 5)); // a new member
  backend.prepareModel(a);
  expect(await stats()).toMatchObject({ hits: 1, misses: 3 });
  expect(a.forward(x).shape).toEqual([3, 5]);
  backend.prepareModel(a);
  b.to('bf16'); // other dtypes
  backend.prepareModel(b);
  expect(await stats()).toMatchObject({ hits: 2, misses: 4, size: 2 });
  expect(() => backend.prepareModel('model' as never)).toThrow(TPUModelPreparationError);
  expect(() => backend.prepareModel('model' as never)).toThrow("prepareModel: takes a model, got the string 'model'");
});

test('a layer that was made before a model was prepared is prepared when it comes into it', () => {
  const backend = new TPUBackend(new KernelPyTorchConfig({ mode: 'inference' }));
  const [spare, model] = [new nn.Linear(8, 2), mlp()];
  backend.prepareModel(model);
  model.setSubmodule('2', spare);
  backend.prepareModel(model);
  expect(spare.weight.dtype).toBe('bf16');
  expect(model.forward(x).dtype).toBe('f32');
});

test('weights that inference has rounded are not trained unawares', async () => {
  const [training, inference] = (['training', 'inference'] as const).map(
    (mode) => new TPUBackend(new KernelPyTorchConfig({ mode })),
  );
  const [model, lost] = [mlp(), () => lines.filter((l) => String(l.message).includes('rounded away'))];
  training!.prepareModel(model);
  inference!.prepareModel(model);
  inference!.clearCache();
  inference!.prepareModel(model); // once more the same
  expect([model.parameters()[0]!.dtype, lost()]).toEqual(['bf16', []]);
  training!.prepareModel(model);
  expect(model.parameters()[0]!.dtype).toBe('f32');
  expect(lost()).toMatchObject([{ level: 'WARNING', model: 'Sequential' }]);
});

test('models that are garbage go; of too many, the one not used for longest', async () => {
  const backend = new TPUBackend(new TPUConfig({ cacheMaxSize: 3 }));
  const stats = async () => (await backend.getMemoryStats()).modelCacheStats;
  const kept = [mlp(), mlp()];
  for (const model of kept) backend.prepareModel(model);
  (() => void backend.prepareModel(mlp()))();
  expect((await stats()).size).toBe(3);
  for (let i = 0; i < 10 && (await stats()).size > 2; i++) await collectGarbage();
  expect(await stats()).toMatchObject({ size: 2, collected: 1, evictions: 0 });
  for (const model of [mlp(), mlp()]) backend.prepareModel(model);
  expect(await stats()).toMatchObject({ size: 3, evictions: 1, maxSize: 3 });
  expect(lines.filter((l) => l.message === 'prepared model evicted from the cache')).toHaveLength(1);
  backend.clearCache();
  expect((await stats()).size).toBe(0);
});

test('data: any tree, with what is no tensor as it is', async () => {
  const backend = new TPUBackend(new TPUConfig({ mixedPrecision: false }));
  const ids = tx.tensor([1, 2]);
  const data = { x, list: [x, 'name', null, 3], map: new Map([['ids', ids]]), when: new Date(0), deep: { y: [[x]] } };
  const got = backend.prepareData(data);
  expect([got.x.dtype, (got.list[0] as tx.Tensor).dtype, got.deep.y[0]![0]!.dtype]).toEqual(['bf16', 'bf16', 'bf16']);
  expect([got.list.slice(1), got.map.get('ids')!.dtype, got.when]).toEqual([['name', null, 3], 'i64', new Date(0)]);
  expect(x.dtype).toBe('f32');
  expect(new TPUBackend().prepareData(x)).toBe(x);
  expect(() => backend.prepareData(Promise.resolve(x))).toThrow('prepareData: got a Promise: await it first');
});

test('printed, each says in a line what it is', () => {
  const all = [new TPUBackend(), new TPUMemoryManager(), new XLACompiler(), ...createXlaIntegration()].map((x) =>
    inspect(x),
  );
  expect(all).toEqual([
    'TPUBackend(device=cpu, worldSize=1, mode=training)',
    expect.stringMatching(/^TPUMemoryManager\(limit=[\d.]+ GiB, pools=0\)$/),
    'XLACompiler(cachedGraphs=0)',
    'XLADeviceManager(devices=cpu:0)',
    'XLADistributedTraining(devices=1)',
    'XLAOptimizations(mode=training)',
  ]);
});

test('figures of memory are real', async () => {
  const backend = new TPUBackend();
  await tx.sync();
  await collectGarbage();
  const before = await backend.getMemoryStats();
  const big = tx.zeros([1024, 1024]);
  await tx.sync(big);
  await backend.synchronize();
  const after = await backend.getMemoryStats();
  expect(after.allocatedMemory - before.allocatedMemory).toBe(2 ** 22);
  expect(before.availableMemory - after.availableMemory).toBe(2 ** 22);
  big.dispose();
  expect((await backend.getMemoryStats()).allocatedMemory).toBe(before.allocatedMemory);
  expect(after.executables).toBeGreaterThan(0);
  expect(after.programs).toBeGreaterThan(0);
  const compiled = await backend.compiler.compileModel(mlp(), x);
  expect((await backend.getMemoryStats()).compilationCacheStats.cachedGraphs).toBe(1);
  backend.clearCache();
  expect((await backend.getMemoryStats()).compilationCacheStats.cachedGraphs).toBe(0);
  expect((await compiled(x)).shape).toEqual([3, 2]);
});

test.each([
  ['synchronize', () => new TPUBackend().synchronize()],
  ['syncAllDevices', () => new XLADeviceManager().syncAllDevices()],
])('what fails on the device is thrown by %s', async (what, wait) => {
  vi.stubEnv('TSXLA_MEMORY_CHECK', 'off');
  const w = tx.ones([4]);
  await tx.sync(w);
  await tx.step(function huge() {
    w.add_(
      tx
        .rand([1 << 21, 1 << 21])
        .sort()
        .values.sum(),
    );
  });
  const error = await wait().catch((e: unknown) => e);
  expect(error).toMatchObject({ name: 'TPUBackendError', message: expect.stringMatching(`^${what}: huge failed`) });
  await wait(); // it was told
  vi.unstubAllEnvs();
  tx.manualSeed(0);
  w.copy_([1, 1, 1, 1]);
});

test('a model and its optimizer are saved and loaded; what does not fit changes nothing', async () => {
  const backend = new TPUBackend(new TPUConfig(plain));
  const train = async (model: tx.nn.Sequential, optimizer: tx.optim.Optimizer) => {
    optimizer.zeroGrad();
    model.forward(x).square().mean().backward();
    optimizer.step();
    await tx.sync();
  };
  const make = () => {
    const model = mlp();
    return { model, optimizer: new optim.Adam(model.parameters(), { lr: 0.01 }) };
  };
  const [first, second] = [make(), make()];
  for (let i = 0; i < 3; i++) await train(first.model, first.optimizer);
  const file = path.join(folder, 'model_checkpoint.pth');
  await backend.saveModel(first.model, file, { saveOptimizer: true, optimizer: first.optimizer });
  const saved = (await readTorch(file)) as Map<string, Map<string, unknown>>;
  expect([...saved.keys()]).toEqual(['model_state_dict', 'optimizer_state_dict', 'metadata']);
  expect([...saved.get('model_state_dict')!.keys()]).toEqual(['0.weight', '0.bias', '2.weight', '2.bias']);
  expect(saved.get('metadata')!.get('device')).toBe('cpu');
  const { optimizer } = second;
  expect(await backend.loadModel(second.model, file, { loadOptimizer: true, optimizer })).toBe(second.model);
  for (const { model, optimizer } of [first, second]) await train(model, optimizer);
  const parameters = ({ model }: typeof first) => Promise.all(model.parameters().map(list));
  expect(await parameters(second)).toEqual(await parameters(first)); // they go on alike, bit for bit

  const before = await parameters(second);
  const fails = async (name: string, options: object, said: RegExp) => {
    const loading = backend.loadModel(second.model, name, options);
    await expect(loading).rejects.toThrow(TPUCheckpointError);
    await expect(loading).rejects.toThrow(said);
    expect(await parameters(second)).toEqual(before);
  };
  const other = new nn.Sequential(new nn.Linear(4, 9));
  const otherFile = path.join(folder, 'other.pth');
  await backend.saveModel(other, otherFile);
  await fails(otherFile, {}, /cannot be loaded from .*other.pth: .*size mismatch for 0.weight/s);
  await fails(otherFile, { optimizer }, /it contains no optimizer state/);
  await fails(path.join(folder, 'none.pth'), {}, /none.pth/);
  await fails(file, { loadOptimizer: true }, /loadOptimizer is true, but no optimizer is given/);
  const smaller = new optim.Adam(second.model.parameters().slice(1));
  await fails(file, { optimizer: smaller }, /4 parameters in the state dict, 3 here/);
  fs.writeFileSync(path.join(folder, 'cut.pth'), fs.readFileSync(file).subarray(0, 500));
  await fails(path.join(folder, 'cut.pth'), {}, /cut.pth/);
  await expect(backend.saveModel(second.model, file, { saveOptimizer: true })).rejects.toThrow(TPUCheckpointError);
  const nowhere = backend.saveModel(second.model, path.join(folder, 'no/such/folder.pth'));
  await expect(nowhere).rejects.toThrow(TPUCheckpointError);
  await expect(nowhere).rejects.toThrow(/folder.pth was not written: folder .*no\/such does not exist$/);
  expect((await readTorch(file)) instanceof Map).toBe(true); // the good one is still there
});

test('the weights of the call are saved, even if training continues while they are written', async () => {
  const backend = new TPUBackend(new TPUConfig(plain));
  const model = new nn.Sequential(...Array.from({ length: 8 }, () => new nn.Linear(128, 128)));
  const set = (change: (p: tx.Tensor) => void) => tx.noGrad(() => model.parameters().forEach(change));
  set((p) => p.fill_(1));
  await tx.sync();
  const file = path.join(folder, 'moment.pth');
  const saving = backend.saveModel(model, file);
  for (let i = 0; i < 5; i++) {
    set((p) => p.add_(1));
    await tx.sync();
  }
  await saving;
  const state = ((await readTorch(file)) as Map<string, Map<string, { data: Float32Array }>>).get('model_state_dict')!;
  expect(new Set([...state.values()].flatMap(({ data }) => [...data]))).toEqual(new Set([1]));
});

test('what is no option of a method, no model or no path, is an error and not ignored', async () => {
  const [backend, model, file] = [new TPUBackend(), mlp(), path.join(folder, 'refused.pth')];
  const any = backend as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
  const refuses = async (method: string, args: unknown[], said: string) => {
    await expect(any[method]!(...args)).rejects.toThrow(TPUValidationError);
    await expect(any[method]!(...args)).rejects.toThrow(said);
  };
  const optimizer = new optim.Adam(model.parameters());
  await refuses('saveModel', [model, file, { save_optimizer: true, optimizer }], '(did you mean saveOptimizer?)');
  await refuses('saveModel', [model, file, true, optimizer], 'takes options { optimizer, saveOptimizer }, got');
  await refuses('saveModel', [model], 'takes the path of a file, got undefined: write saveModel(model, path)');
  expect(fs.existsSync(file)).toBe(false);
  await refuses('loadModel', [file], 'loadModel: takes a model, got the string');
  await refuses('loadModel', [model, file, { load_optimizer: true }], '(did you mean loadOptimizer?)');
  const compiling = (options: unknown) => backend.compiler.compileModel(model, x, options as object);
  await expect(compiling({ use_cache: false })).rejects.toThrow('(did you mean useCache?)');
  await expect(compiling(false)).rejects.toThrow('takes options { useCache }, got');
});
