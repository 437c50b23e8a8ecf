// Every error of the two documents is raised by something that happens.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import * as tx from 'tsxla';
import * as backend from 'tsxla/backend';
import { expect, test } from 'vitest';
import { ERRORS } from './names.js';

const { KernelPyTorchConfig, TPUBackend, TPUConfig, TPUMemoryManager, TPUOptimizer, XLACompiler } = backend;
backend.basicConfig({ level: 'silent' });
const strict = new KernelPyTorchConfig({ hardware: { tpu: { enableStrictValidation: true } } });
const linear = () => new tx.nn.Sequential(new tx.nn.Linear(4, 2));
const x = tx.randn([3, 4]);
class Failing extends tx.nn.Module {
  override forward(x: tx.Tensor): tx.Tensor {
    return x.matmul(tx.zeros([5, 5]));
  }
}
const RAISED: Readonly<Record<string, () => unknown>> = {
  TPUNotAvailableError: () => new TPUBackend(strict),
  XLACompilationError: async () => {
    const compiled = await new XLACompiler(new TPUConfig({ compilationMode: 'xla' })).compileModel(linear(), x);
    await compiled(tx.zeros([7, 4]));
  },
  XLACompilationTimeoutError: () =>
    new XLACompiler(new TPUConfig({ compilationTimeoutSeconds: 1e-3, enableXlaCache: false })).compileModel(
      linear(),
      x,
    ),
  TPUMemoryError: () => new TPUMemoryManager().freeTensor(tx.zeros([1])),
  TPUOutOfMemoryError: () =>
    new TPUMemoryManager(new TPUConfig({ version: 'v6e', v6eMemoryGb: 2 ** -20 })).allocateTensor([1000, 1000]),
  TPUMemoryPoolError: () => new TPUMemoryManager().getTensorFromPool('none'),
  TPUCacheError: async () => {
    const { TSXLA_CACHE, TSXLA_CACHE_DIR } = process.env;
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-cache-'));
    fs.mkdirSync(path.join(folder, 'programs'));
    Object.assign(process.env, { TSXLA_CACHE: 'readonly', TSXLA_CACHE_DIR: folder });
    try {
      await new XLACompiler().clearDiskCache();
    } finally {
      Object.assign(process.env, { TSXLA_CACHE: TSXLA_CACHE ?? '', TSXLA_CACHE_DIR: TSXLA_CACHE_DIR ?? '' });
      fs.rmSync(folder, { recursive: true });
    }
  },
  TPUModelPreparationError: () => new TPUBackend().prepareModel({} as never),
  TPUOptimizationError: () => new TPUOptimizer().optimize(new Failing(), x),
  TPUValidationError: () => new TPUOptimizer(strict).optimize(linear(), 'not a tensor' as never),
  TPUDistributedError: () => new backend.XLADistributedTraining().allReduce(x, 'product' as never),
  TPUCheckpointError: () => new TPUBackend().loadModel(linear(), '/nowhere/model.pth'),
  TPUConfigurationError: () => Object.assign(new TPUConfig(), { memoryFraction: 2 }),
  TPUDeviceError: () => new TPUBackend().getDeviceInfo(3),
};

test.each(Object.keys(RAISED))('%s', async (name) => {
  const error = await (async () => RAISED[name]!())().then(
    () => undefined,
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(backend.TPUBackendError);
  expect((error as Error).name).toBe(name);
  expect((error as Error).message).toMatch(/\w+.*[:,] .*\w/s); // what it is about, and what is wrong
});

test('an error keeps what it is about, and what the runtime said', () => {
  const error = new backend.TPUBackendError('sentence', { details: { a: 1 }, cause: 'b' });
  expect([error.details, error.cause, error instanceof tx.TsxlaError]).toEqual([{ a: 1 }, 'b', true]);
});

test("the runtime's own errors are instances of their names here: a step throws those", async () => {
  const config = new TPUConfig({ memoryFraction: 1e-6 });
  new TPUBackend(config);
  const error = await tx
    .step(() => tx.randn([300, 300]).sum())
    .then((t) => t.item())
    .catch((e: unknown) => e);
  config.memoryFraction = 1;
  expect(error).toBeInstanceOf(tx.OutOfMemoryError);
  expect(error).toBeInstanceOf(backend.TPUOutOfMemoryError);
  expect(error).toBeInstanceOf(backend.OutOfMemoryError);
  expect(error).toBeInstanceOf(backend.TPUMemoryError);
  expect(error).toBeInstanceOf(backend.TPUBackendError);
  expect(error).not.toBeInstanceOf(backend.TPUMemoryPoolError);
  expect(error).not.toBeInstanceOf(backend.XLACompilationError);
  const { required, available } = (error as backend.TPUOutOfMemoryError).details;
  expect(required).toBeGreaterThan(available as number);
  expect(new tx.ShapeError('x')).not.toBeInstanceOf(backend.TPUBackendError);
  expect(new tx.FileError('x')).toBeInstanceOf(backend.TPUCheckpointError);
});

test('the table of the page has them all, and the other document has its names for three', () => {
  const classes = Object.values(backend).filter((x) => typeof x === 'function' && x.prototype instanceof Error);
  const names = new Set(classes.map((c) => (c as { name: string }).name));
  expect(names).toEqual(new Set(Object.keys(ERRORS)));
  expect(new Set([...Object.keys(RAISED), 'TPUBackendError'])).toEqual(names);
  expect(backend.DeviceNotAvailableError).toBe(backend.TPUNotAvailableError);
  expect(backend.OutOfMemoryError).toBe(backend.TPUOutOfMemoryError);
  expect(backend.CompilationError).toBe(backend.XLACompilationError);
  for (const name of ['XLACompilationTimeoutError', 'TPUOutOfMemoryError', 'TPUMemoryPoolError'] as const) {
    const parent = name.startsWith('XLA') ? backend.XLACompilationError : backend.TPUMemoryError;
    expect(backend[name].prototype).toBeInstanceOf(parent);
  }
});
