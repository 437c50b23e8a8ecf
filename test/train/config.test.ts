// What contradicts is said before anything is started, with its arithmetic.
import * as tx from 'tsxla';
import * as train from 'tsxla/train';
import { describe, expect, test } from 'vitest';

const loop = () => {};
const trainer = (
  scalingConfig: train.ScalingOptions,
  xlaSpmdConfig?: train.XlaSpmdConfig,
  more: Partial<train.TorchOptions> = {},
) =>
  new train.TorchTrainer({
    trainLoopPerWorker: loop,
    scalingConfig,
    torchConfig: { ...(xlaSpmdConfig && { xlaSpmdConfig }), ...more },
  });
const v4 = { useTpu: true, topology: '2x2', acceleratorType: 'TPU-V4' } as const;

describe('what cannot be', () => {
  test.each<[string, train.ScalingOptions, string]>([
    ['both', { useTpu: true, useGpu: true }, 'useTpu and useGpu are both true: a worker has one kind of device'],
    [
      'TPU alone',
      { resourcesPerWorker: { TPU: 4 } },
      'resourcesPerWorker has TPU: 4, but useTpu is not set: add useTpu',
    ],
    ['GPU alone', { resourcesPerWorker: { GPU: 1 } }, 'resourcesPerWorker has GPU: 1, but useGpu is not set'],
    ['no chip', { useTpu: true, resourcesPerWorker: { TPU: 0 } }, 'TPU: 0: give each worker a whole number of chips'],
    [
      'no slice',
      { useTpu: true, numWorkers: 2, resourcesPerWorker: { TPU: 1 } },
      "2 workers with useTpu, but no topology and no acceleratorType: a whole slice is reserved: add topology: '2x2x2', acceleratorType: 'TPU-V4'",
    ],
    [
      'no kind',
      { useTpu: true, numWorkers: 2, topology: '2x2' },
      "no acceleratorType: a whole slice is reserved: add acceleratorType: 'TPU-V4'",
    ],
    [
      '3 of 4',
      { ...v4, numWorkers: 3 },
      'v4:2x2x1 has 4 chips, and 4 / 3 workers is not a whole number: use numWorkers: 1, one for each host of 4 chips',
    ],
    [
      '3 x 2',
      { ...v4, numWorkers: 3, resourcesPerWorker: { TPU: 2 } },
      '3 workers x TPU: 2 = 6 chips, and v4:2x2x1 has 4',
    ],
    [
      'two hosts',
      { ...v4, topology: '2x2x2', numWorkers: 1 },
      "8 chips for each of 1 worker, but a host of v4:2x2x2 has 4, and a worker's chips are on one host: use numWorkers: 2",
    ],
    ['no chip of that name', { ...v4, numWorkers: 4, acceleratorType: 'TPU-V9' }, 'there is no TPU generation V9'],
    [
      'no topology',
      { ...v4, numWorkers: 4, topology: 'two' },
      "topology is 'two': it must be sizes in chips, as in '2x2x2', or a slice, as in 'v6e-16'",
    ],
    ['half', { numWorkers: 1.5 }, 'ScalingConfig: numWorkers is 1.5: it must be a whole number, 0 or more'],
    ['text', { numWorkers: '2' as never }, "numWorkers is '2': it must be a whole number"],
    ['name', { workers: 2 } as never, "there is no option 'workers'"],
    [
      'strategy',
      { placementStrategy: 'NEAR' as never },
      "placementStrategy is 'NEAR': it must be PACK, SPREAD, STRICT_PACK or STRICT_SPREAD",
    ],
    ['amounts', { resourcesPerWorker: 4 as never }, 'resourcesPerWorker is 4: it must be an object of amounts by name'],
    ['amount', { resourcesPerWorker: { CPU: -1 } }, 'resourcesPerWorker has CPU: -1: it must be a number, 0 or more'],
    ['case', { resourcesPerWorker: { cpu: 1 } }, "resourcesPerWorker has cpu: Ray's name for it is CPU"],
    ['no TPU', { numWorkers: 4, topology: '2x2' }, "topology is '2x2', but useTpu is not set: add useTpu: true"],
    ['type alone', { acceleratorType: 'TPU-V4' }, "acceleratorType is 'TPU-V4', but useTpu is not set"],
  ])('%s', (_, scaling, message) => {
    expect(() => trainer(scaling)).toThrow(tx.ArgumentError);
    expect(() => trainer(scaling)).toThrow(message);
  });

  test("Ray Train's own example: a mesh of 2 x 2 with data 4 and model 2 on 4 workers", () => {
    const mesh = { meshShape: [2, 2], dataParallelSize: 4, modelParallelSize: 2 };
    expect(() => trainer({ ...v4, numWorkers: 4 }, mesh)).toThrow(
      'meshShape [2, 2] is 2 x 2 = 4 devices, and data 4 x model 2 = 8: 8 is not 4',
    );
    expect(trainer({ ...v4, numWorkers: 4 }, { ...mesh, dataParallelSize: 2 }).scale.mesh).toMatchObject({
      dataParallelSize: 2,
    });
  });

  test('a mesh that has other sizes than the devices', () => {
    expect(() => trainer({ ...v4, numWorkers: 4 }, { dataParallelSize: 8 })).toThrow('data 8, and there are 4 devices');
    expect(() => trainer({ useGpu: true, numWorkers: 2 }, { dataParallelSize: 3 })).toThrow(
      'data 3, and there are 2 devices',
    );
    expect(() => trainer({ numWorkers: 4 }, { dataParallelSize: 2, modelParallelSize: 2 })).toThrow(
      'has data 2 on 4 CPU workers, and 2 / 4 is not a whole number. CPU workers split only the data axis',
    );
    expect(trainer({ numWorkers: 4 }, { dataParallelSize: 4 }).scale.mesh).toMatchObject({ dataParallelSize: 1 });
  });

  test('others', () => {
    expect(() => trainer({}, undefined, { backend: 'nccl' as never })).toThrow(
      "backend is 'nccl': it must be xla or xla_tpu",
    );
    expect(() => trainer({}, undefined, { backend: 'xla_tpu' })).toThrow(
      "backend is 'xla_tpu', but ScalingConfig has no useTpu: true",
    );
    expect(() => trainer({}, { partitioningMode: 'manual' as never })).toThrow(
      "partitioningMode is 'manual': it must be auto",
    );
    expect(() => trainer({}, { meshShape: [2, 0] })).toThrow(
      'meshShape is an Array: it must be a list of whole numbers',
    );
    expect(() => new train.FailureConfig({ maxFailures: -2 })).toThrow(
      'maxFailures is -2: it must be a whole number, -1 or more',
    );
    expect(() => new train.CheckpointConfig({ numToKeep: 0 })).toThrow('numToKeep is 0');
    expect(() => new train.RunConfig({ name: '../up' })).toThrow("name is '../up': it must be the name of a folder");
    expect(() => new train.RunConfig({ failureConfig: 3 as never })).toThrow(
      'failureConfig is 3: it must be a FailureConfig or its options',
    );
    expect(() => new train.TorchTrainer({ trainLoopPerWorker: 'loop' as never })).toThrow(
      'trainLoopPerWorker is the string',
    );
    expect(() => new train.TorchTrainer({ trainLoopPerWorker: loop, datasets: [] as never })).toThrow(
      'datasets is an Array: it must be an object of datasets by name',
    );
  });
});

describe('what it means', () => {
  test('a topology that names its chip needs no acceleratorType, and must agree with one', () => {
    const scale = (options: object) => trainer({ useTpu: true, numWorkers: 4, ...options }).scale;
    expect(scale({ topology: 'v6e-16' })).toMatchObject({ slice: { name: 'v6e:4x4' }, resources: { TPU: 4 } });
    expect(scale({ topology: 'v4:2x2x4', acceleratorType: 'TPU-V4' }).slice?.name).toBe('v4:2x2x4');
    expect(() => scale({ topology: 'v6e-16', acceleratorType: 'TPU-V4' })).toThrow(
      'topology v6e-16 is not of type TPU-V4: leave acceleratorType out',
    );
  });
  test.each([
    ['TPU-V4', '2x2x2', 2, 'v4:2x2x2', 4, 'v4-16'],
    ['TPU-V4', '2x2', 4, 'v4:2x2x1', 1, 'v4-8'],
    ['TPU-V5', '2x2x1', 1, 'v5p:2x2x1', 4, 'v5p-8'],
    ['TPU-V5LITEPOD', '4x4', 4, 'v5e:4x4', 4, 'v5e-16'],
    ['TPU-V6E', '2x4', 1, 'v6e:2x4', 8, 'v6e-8'],
    ['TPU-V7X', '2x2x1', 1, 'tpu7x:2x2x1', 4, 'tpu7x-8'],
  ])('%s %s on %i workers', (acceleratorType, topology, numWorkers, name, chips, pod) => {
    const { slice, resources, reduce } = trainer({ useTpu: true, acceleratorType, topology, numWorkers }).scale;
    expect([slice!.name, resources.TPU, slice!.accelerator, reduce]).toEqual([
      name,
      chips,
      pod,
      numWorkers > 1 ? 'xla' : 'none',
    ]);
  });

  test('which way gradients go', () => {
    const way = (scaling: train.ScalingOptions) => trainer(scaling).scale.reduce;
    expect([way({}), way({ numWorkers: 0 }), way({ numWorkers: 3 })]).toEqual(['none', 'none', 'engine']);
    expect([way({ useGpu: true }), way({ useGpu: true, numWorkers: 2 })]).toEqual(['none', 'xla']);
  });

  test('configurations, or their options', () => {
    const scaling = new train.ScalingConfig({ numWorkers: 2 });
    const run = new train.RunConfig({ name: 'a', failureConfig: new train.FailureConfig({ maxFailures: -1 }) });
    const both = new train.TorchTrainer({ trainLoopPerWorker: loop, scalingConfig: scaling, runConfig: run });
    expect({ ...both.scalingConfig }).toEqual({ numWorkers: 2 });
    expect(both.runConfig.failureConfig.maxFailures).toBe(-1);
    expect(both.runConfig.storagePath).toBe('runs');
  });
});

test('Ray is asked for by an address', async () => {
  const other = new train.TorchTrainer({ trainLoopPerWorker: loop, address: 'http://127.0.0.1:1' });
  await expect(other.fit()).rejects.toThrow(/Ray|127\.0\.0\.1:1/);
  const options = (ray: object) =>
    new train.TorchTrainer({ trainLoopPerWorker: loop, address: 'http://a:1', ray }).fit();
  await expect(options({ env: { A: 1 } })).rejects.toThrow(/ray: env is .*: it must be an object of strings/);
  await expect(options({ include: 'dist' })).rejects.toThrow("ray: include is 'dist': it must be a list of paths");
  await expect(options({ startTimeout: '5' })).rejects.toThrow(
    "ray: startTimeout is '5': it must be a whole number, 1",
  );
});

test('several workers with TPUs on one machine', async () => {
  const failed = trainer({ ...v4, numWorkers: 4 }).fit();
  await expect(failed).rejects.toThrow(tx.ArgumentError);
  await expect(failed).rejects.toThrow('4 workers with useTpu on one machine, but one process uses all its chips');
  const gpus = () =>
    new train.TorchTrainer({ trainLoopPerWorker: () => {}, scalingConfig: { numWorkers: 99, useGpu: true } }).fit();
  await expect(gpus()).rejects.toThrow(/99 workers with useGpu need 99 GPUs, and this machine has \d+ GPU/);
});
