// The configuration of specs 002 and 004: every field is checked, printed, and read from files and the environment.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { inspect } from 'node:util';
import {
  basicConfig,
  FIELDS,
  KernelPyTorchConfig,
  TorchBridgeConfig,
  TPUCompilationMode,
  TPUConfig,
  TPUConfigurationError,
  TPUVersion,
  XLACompiler,
} from 'tsxla/backend';
import { expect, test, vi } from 'vitest';

test('the defaults are those of the documents', () => {
  expect(new TPUConfig().toJSON()).toEqual({
    version: 'auto',
    memoryFraction: 0.9,
    mixedPrecision: true,
    precision: 'bfloat16',
    compilationMode: 'torch_xla',
    cacheMaxSize: 100,
    enableXlaCache: true,
    compilationTimeoutSeconds: 300,
    allocationHistoryRetentionSeconds: 3600,
    v6eMemoryGb: null,
    v7MemoryGb: null,
    enableStrictValidation: false,
    monitoringIntervalSeconds: 1,
    monitoringDurationSeconds: 60,
    gradientCheckpointing: true,
    xlaOptimizationLevel: 2,
  });
});

test('modes set what the documents say of them, and what is given goes before', () => {
  const tpuOf = (options: ConstructorParameters<typeof KernelPyTorchConfig>[0]) =>
    new KernelPyTorchConfig(options).hardware.tpu;
  expect(new KernelPyTorchConfig().mode).toBe('training');
  expect(tpuOf({ mode: 'inference' }).gradientCheckpointing).toBe(false);
  expect(tpuOf({ mode: 'training' })).toMatchObject({ gradientCheckpointing: true, xlaOptimizationLevel: 2 });
  expect(tpuOf({ mode: 'development' }).xlaOptimizationLevel).toBe(0);
  expect(tpuOf({ mode: 'development', hardware: { tpu: { xlaOptimizationLevel: 1 } } }).xlaOptimizationLevel).toBe(1);
  const own = new TPUConfig({ precision: 'float32' });
  expect(tpuOf({ hardware: { tpu: own } })).toBe(own);
  expect(TorchBridgeConfig).toBe(KernelPyTorchConfig);
  expect([TPUVersion.V5P, TPUCompilationMode.PJIT]).toEqual(['v5p', 'pjit']);
});

// biome-ignore format: a table
const WRONG: [field: keyof typeof FIELDS, value: unknown, said: string][] = [
  ['version', 'v9', "TPUConfig.version is 'v9': it must be auto, v4, v5e, v5p, v6e, v7"],
  ['memoryFraction', 1.5, 'TPUConfig.memoryFraction is 1.5: it must be a number above 0, at most 1'],
  ['memoryFraction', Number.NaN, 'TPUConfig.memoryFraction is NaN'],
  ['mixedPrecision', 'yes', "TPUConfig.mixedPrecision is 'yes': it must be true or false"],
  ['precision', 'int8', "TPUConfig.precision is 'int8': it must be bfloat16, float32"],
  ['compilationMode', 'eager', "TPUConfig.compilationMode is 'eager': it must be xla, pjit, torch_xla"],
  ['cacheMaxSize', 0, 'TPUConfig.cacheMaxSize is 0: it must be a whole number of at least 1'],
  ['cacheMaxSize', 1.5, 'TPUConfig.cacheMaxSize is 1.5: it must be a whole number of at least 1'],
  ['enableXlaCache', 1, 'TPUConfig.enableXlaCache is 1: it must be true or false'],
  ['compilationTimeoutSeconds', -1, 'TPUConfig.compilationTimeoutSeconds is -1: it must be a number above 0'],
  ['compilationTimeoutSeconds', 1e20, 'it must be a number above 0, at most 2147483'],
  ['allocationHistoryRetentionSeconds', 0, 'TPUConfig.allocationHistoryRetentionSeconds is 0'],
  ['v6eMemoryGb', 0, 'TPUConfig.v6eMemoryGb is 0: it must be a number above 0, or null'],
  ['v7MemoryGb', '128', "TPUConfig.v7MemoryGb is '128': it must be a number above 0, or null"],
  ['enableStrictValidation', null, 'TPUConfig.enableStrictValidation is null: it must be true or false'],
  ['monitoringIntervalSeconds', 0, 'TPUConfig.monitoringIntervalSeconds is 0: it must be a number above 0'],
  ['monitoringDurationSeconds', Number.POSITIVE_INFINITY, 'TPUConfig.monitoringDurationSeconds is Infinity'],
  ['gradientCheckpointing', 0, 'TPUConfig.gradientCheckpointing is 0: it must be true or false'],
  ['xlaOptimizationLevel', 3, 'TPUConfig.xlaOptimizationLevel is 3: it must be 0, 1, 2'],
];
test.each(WRONG)('%s = %s is refused where it is set, and nothing changes', (field, value, said) => {
  const config = new TPUConfig();
  const before = config[field];
  expect(() => Object.assign(config, { [field]: value })).toThrow(said);
  expect(() => new TPUConfig({ [field]: value })).toThrow(TPUConfigurationError);
  expect(config[field]).toBe(before);
});
test('every field has a wrong value above', () => {
  expect(new Set(WRONG.map(([field]) => field))).toEqual(new Set(Object.keys(FIELDS)));
});

test('an unknown field is named, with the one that was meant', () => {
  expect(() => new TPUConfig({ memory_fraction: 0.5 } as never)).toThrow(
    /no option 'memory_fraction'.*memoryFraction/s,
  );
  expect(() => new KernelPyTorchConfig({ mode: 'fast' as never })).toThrow(
    "mode is 'fast': it must be inference, training, development",
  );
  expect(() => new KernelPyTorchConfig('training' as never)).toThrow(
    'KernelPyTorchConfig: takes options { mode, hardware }, got',
  );
  expect(() => new XLACompiler({ memoryFraction: 0.5 } as never)).toThrow(
    'got an object: write new TPUConfig({ ... })',
  );
});
test('what was created has no other fields, mode or hardware', () => {
  const config = new KernelPyTorchConfig();
  const tpu = config.hardware.tpu as unknown as Record<string, unknown>;
  expect(() => {
    tpu['memory_fraction'] = 0.5;
  }).toThrow("no option 'memory_fraction': it takes version, memoryFraction");
  tpu['memoryFraction'] = 0.5;
  expect([config.hardware.tpu.memoryFraction, tpu instanceof Object]).toEqual([0.5, true]);
  for (const [at, name, value] of [
    [config, 'mode', 'eval'],
    [config, 'hardware', { tpu: { memoryFraction: 2 } }],
    [config.hardware, 'tpu', { memoryFraction: 2 }],
  ] as const)
    expect(() => Object.assign(at, { [name]: value })).toThrow(`read only property '${name}'`);
  expect([config.mode, config.hardware.tpu.memoryFraction]).toEqual(['training', 0.5]);
});

test('it is written as JSON and read again, from a file or the environment', () => {
  const config = new KernelPyTorchConfig({ mode: 'inference', hardware: { tpu: { v6eMemoryGb: 16 } } });
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-config-'));
  const file = path.join(folder, 'config.json');
  fs.writeFileSync(file, JSON.stringify(config));
  const again = KernelPyTorchConfig.fromFile(file);
  expect([again.mode, again.hardware.tpu.toJSON()]).toEqual(['inference', config.hardware.tpu.toJSON()]);
  fs.writeFileSync(file, '{ "hardware": { "tpu": { "memoryFraction": 2 } } }');
  expect(() => KernelPyTorchConfig.fromFile(file)).toThrow(`${file}: TPUConfig.memoryFraction is 2`);
  fs.writeFileSync(file, '{ broken');
  expect(() => KernelPyTorchConfig.fromFile(file)).toThrow(TPUConfigurationError);
  expect(() => KernelPyTorchConfig.fromFile(path.join(folder, 'none.json'))).toThrow(TPUConfigurationError);
  fs.rmSync(folder, { recursive: true });

  const env = { TSXLA_BACKEND_MODE: 'development', TSXLA_TPU_MEMORY_FRACTION: '0.8', TSXLA_TPU_VERSION: 'V6e' };
  const more = { TSXLA_TPU_ENABLE_XLA_CACHE: 'false', TSXLA_TPU_V6E_MEMORY_GB: '16', TSXLA_TPU_CACHE_MAX_SIZE: '7' };
  const read = KernelPyTorchConfig.fromEnv({ ...env, ...more });
  expect(read.mode).toBe('development');
  const wanted = { memoryFraction: 0.8, version: 'v6e', enableXlaCache: false, v6eMemoryGb: 16, cacheMaxSize: 7 };
  expect(read.hardware.tpu).toMatchObject({ ...wanted, xlaOptimizationLevel: 0 });
  expect(() => TPUConfig.fromEnv({ TSXLA_TPU_CACHE_MAX_SIZE: 'many' })).toThrow("TSXLA_TPU_CACHE_MAX_SIZE is 'many'");
  expect(() => TPUConfig.fromEnv({ TSXLA_TPU_MIXED_PRECISION: 'maybe' })).toThrow(
    "TSXLA_TPU_MIXED_PRECISION is 'maybe': it must be true or false",
  );
});

test('printed, it says what each field is and does', () => {
  const text = inspect(new KernelPyTorchConfig({ mode: 'inference' }));
  expect(text).toMatch(/^KernelPyTorchConfig\(mode=inference\)\nTPUConfig\n/);
  for (const [name, { about }] of Object.entries(FIELDS))
    expect(text.split('\n').some((line) => line.includes(`${name} `) && line.includes(about))).toBe(true);
  expect(text).toContain('gradientCheckpointing              false');
});

test('logging is told what to say, and in which form', () => {
  expect(() => basicConfig({ level: 'loud' as never })).toThrow("the log level is 'loud': it must be debug, info");
  expect(() => basicConfig({ format: 'xml' as never })).toThrow("the log format is 'xml': it must be pretty, json");
  expect(() => basicConfig('debug' as never)).toThrow('basicConfig: takes options { level, format, write }, got');
  vi.stubEnv('TSXLA_LOG_LEVEL', 'ERROR'); // as Python's logging writes it
  basicConfig();
  vi.unstubAllEnvs();
  basicConfig();
});
