// Meshes and specs: what is wrong with one is told in a sentence, with the arithmetic.
import * as tx from 'tsxla';
import { afterEach, describe, expect, test } from 'vitest';
import { count, line, list, mesh, upTo } from './support.js';

const { hybridMesh, Mesh, markSharding, meshFromConfig, meshFromEnv, meshOf, visualizeSharding } = tx.spmd;

describe('a mesh that cannot be', () => {
  test.each([
    [[2, 4], ['data'], {}, 'Mesh([2,4], [data]): 2 sizes and 1 names: each axis has a size and a name'],
    [[], [], {}, 'Mesh([], []): 0 sizes and 0 names: each axis has a size and a name'],
    [[0], ['a'], {}, 'Mesh([0], [a]): 0 devices along an axis: it must be a whole number, at least 1'],
    [[1.5], ['a'], {}, 'Mesh([1.5], [a]): 1.5 devices along an axis: it must be a whole number, at least 1'],
    [[2], ['a b'], {}, "Mesh([2], [a b]): an axis cannot be called 'a b': use letters, digits and _"],
    [[2, 2], ['a', 'a'], {}, 'Mesh([2,2], [a,a]): two axes are called a'],
    [[2, 2], ['a', 'b'], { devices: [0, 1] }, 'Mesh([2,2]): 2 x 2 = 4 devices are needed, but 2 are given'],
    [[2], ['a'], { devices: [1, 1] }, 'Mesh([2]): devices [1,1]: an id is repeated'],
    [[2], ['a'], { devices: [0, -1] }, 'Mesh([2]): there is no device -1: devices are numbered from 0'],
    [[2], ['a'], { devices: [0, 0.5] }, 'Mesh([2]): there is no device 0.5: devices are numbered from 0'],
    [8, ['a'], {}, "Mesh(8, [a]): sizes and names are lists: new Mesh([2, 4], ['data', 'model'])"],
    [[8], 'a', {}, 'Mesh([8], a): sizes and names are lists'],
  ])('%j %j %j', (shape, names, options, why) => {
    expect(() => new Mesh(shape as number[], names as string[], options)).toThrow(why);
  });

  test.each([
    [
      ['data', null, 'model'],
      'cannot be split as [data, null, model] over data=2, model=4: the spec has 3 entries for 2 dimensions',
    ],
    [['rows'], 'rows is not an axis of the mesh, which has data, model'],
    [[0], '0 is not an axis of the mesh, which has data, model'],
    [['data', 'data'], 'data is used twice, but an axis can split only one dimension'],
    [[['data', 'model', 'data']], 'data is used twice, but an axis can split only one dimension'],
    [
      [['data', 'model']],
      'markSharding: the tensor [6, 8] cannot be split as [[data, model]] over data=2, model=4: dimension 0 has size 6, ' +
        'which is not divisible by 8: pad it, or split another dimension',
    ],
    ['data', "markSharding: the spec is the string 'data': it must be a list such as ['data', null]"],
  ])('a spec: %j', (spec, why) => {
    expect(() => markSharding(count([6, 8]), mesh, spec as never)).toThrow(why);
  });

  test('who split it, and the parameter, are named', () => {
    const model = new tx.nn.Linear(8, 6);
    expect(() => tx.spmd.tensorParallel(model, mesh, { weight: 0 })).toThrow(
      'tensorParallel: weight [6, 8] cannot be split as [model] over data=2, model=4: dimension 0 has size 6, which is not divisible by 4',
    );
    expect(() => tx.spmd.shardBatch(count([5, 8]), mesh)).toThrow(
      'shardBatch: the tensor [5, 8] cannot be split as [data]',
    );
  });

  test('devices that are not there', async () => {
    const on = (m: InstanceType<typeof Mesh>) =>
      markSharding(count([16]), m, ['x'])
        .add(1)
        .data();
    await expect(on(new Mesh([16], ['x']))).rejects.toThrow(
      'the mesh x=16 needs 16 devices, but cpu has 8: set CPU_NUM_DEVICES=16 for that many virtual devices',
    );
    await expect(on(new Mesh([2], ['x'], { devices: [1, 9] }))).rejects.toThrow(
      'the mesh x=2 on devices 1,9 needs 10 devices, but cpu has 8 (there is no device 9): set CPU_NUM_DEVICES=10 for that many',
    );
    await expect(
      tx.compile((x: tx.Tensor) => x.add(1))(markSharding(count([16]), new Mesh([16], ['x']), ['x'])),
    ).rejects.toThrow('needs 16 devices');
    const far = markSharding(count([16]), new Mesh([16], ['x']), ['x']);
    await expect(tx.compile((x: tx.Tensor) => x.add(1)).prepare([far])).rejects.toThrow('needs 16 devices');
  });

  test('what is no tensor, no mesh', () => {
    expect(() => markSharding(1 as never, mesh, [])).toThrow('markSharding: takes a tensor, got the number 1');
    expect(() => markSharding(count([8]), [2, 4] as never, [])).toThrow('markSharding: takes a Mesh, got');
    expect(() => tx.spmd.shardBatch(count([8]), [8] as never)).toThrow('shardBatch: takes a Mesh, got');
  });
});

describe('from sizes', () => {
  const show = (m: InstanceType<typeof Mesh>) => String(m);
  test('what is left is -1, and axes of one are left out', () => {
    expect(show(meshOf({ data: 2, model: 4 }, 8))).toBe('data=2, model=4');
    expect(show(meshOf({ model: 4, data: -1 }, 8))).toBe('data=2, model=4');
    expect(show(meshOf({ fsdp: -1 }, 8))).toBe('fsdp=8');
    expect(show(meshOf({ model: 8, data: -1 }, 8))).toBe('model=8');
    expect(show(meshOf({ data: 2, sequence: 2, model: 2, fsdp: 1 }, 8))).toBe('data=2, sequence=2, model=2');
    expect(show(meshOf({}, 1))).toBe('data=1');
  });
  test.each([
    [
      { data: 4, model: 4 },
      8,
      'meshOf: data 4 x model 4 = 16, and there are 8 devices (on a CPU, CPU_NUM_DEVICES=16 makes that many virtual ones)',
    ],
    [{ data: 3, model: -1 }, 8, 'meshOf: data 3, and there are 8 devices: 8 / 3 is not an integer'],
    [{ data: -1, model: -1 }, 8, 'meshOf: data and model are both -1: only one axis can take the remaining devices'],
    [{ data: 0 }, 8, 'meshOf: data is 0: it must be a whole number of at least 1, or -1 for the remaining devices'],
    [{ data: 1.5 }, 8, 'meshOf: data is 1.5: it must be a whole number of at least 1, or -1 for the remaining devices'],
    [{ rows: 2 }, 8, 'meshOf: unknown axis rows: use data, fsdp, sequence, model'],
  ])('%j on %i', (sizes, devices, why) => {
    expect(() => meshOf(sizes as object, devices)).toThrow(why);
  });

  test('a configuration, where the shape and the sizes have to agree', () => {
    expect(() => meshFromConfig({ meshShape: [2, 2], dataParallelSize: 4, modelParallelSize: 2 }, 4)).toThrow(
      'meshShape [2, 2] is 2 x 2 = 4 devices, and data 4 x model 2 = 8: 8 is not 4',
    );
    expect(() => meshFromConfig({ meshShape: [2, 2] }, 8)).toThrow(
      'meshShape [2, 2] is 2 x 2 = 4 devices, and there are 8',
    );
    expect(show(meshFromConfig({ meshShape: [2, 2], modelParallelSize: 2, dataParallelSize: 2 }, 4))).toBe(
      'data=2, model=2',
    );
    expect(show(meshFromConfig({ meshShape: [2, 2], dataParallelSize: -1, modelParallelSize: 2 }, 4))).toBe(
      'data=2, model=2',
    );
    expect(() => meshFromConfig({ meshShape: [2, 2], dataParallelSize: -1, modelParallelSize: 3 }, 4)).toThrow(
      'model 3, and there are 4 devices: 4 / 3 is not an integer',
    );
    expect(show(meshFromConfig({ meshShape: [2, 2, 2] }, 8))).toBe('data=2, fsdp=2, model=2');
    expect(show(meshFromConfig({ meshShape: [8] }, 8))).toBe('data=8');
    expect(show(meshFromConfig({}, 8))).toBe('data=8');
    expect(() => meshFromConfig({ meshShape: [1, 2, 2, 2] }, 8)).toThrow(
      'meshShape [1, 2, 2, 2] has 4 axes: name them: new Mesh(shape, names)',
    );
  });

  afterEach(() => {
    for (const name of ['XLA_MESH_SHAPE', 'XLA_DATA_PARALLEL_SIZE', 'XLA_MODEL_PARALLEL_SIZE'])
      delete process.env[name];
  });
  test('the environment', () => {
    process.env.XLA_MESH_SHAPE = '2,4';
    expect(show(meshFromEnv(8))).toBe('data=2, model=4');
    process.env.XLA_DATA_PARALLEL_SIZE = '4';
    process.env.XLA_MODEL_PARALLEL_SIZE = '4';
    expect(() => meshFromEnv(8)).toThrow(
      'meshShape [2, 4] is 2 x 4 = 8 devices, and data 4 x model 4 = 16: 16 is not 8',
    );
    process.env.XLA_MESH_SHAPE = 'two';
    expect(() => meshFromEnv(8)).toThrow('XLA_MESH_SHAPE=two is not a valid shape: write 2,4');
    delete process.env.XLA_MESH_SHAPE;
    process.env.XLA_DATA_PARALLEL_SIZE = '-1';
    expect(show(meshFromEnv(8))).toBe('data=2, model=4');
    process.env.XLA_DATA_PARALLEL_SIZE = 'all';
    expect(() => meshFromEnv(8)).toThrow('XLA_DATA_PARALLEL_SIZE=all is not a whole number');
  });
});

test('several slices: neighbours along an axis are of the same slice', () => {
  // 2 slices of 4: along data, 2 slices of 1; along model, 4 of each.
  expect(hybridMesh([1, 4], [2, 1], ['data', 'model']).devices).toEqual(upTo(8));
  // Along model, 2 of each slice.
  expect(hybridMesh([2, 2], [1, 2], ['data', 'model']).devices).toEqual([0, 1, 4, 5, 2, 3, 6, 7]);
  expect(String(hybridMesh([2, 2], [2, 1], ['data', 'model']))).toBe('data=4, model=2');
  expect(() => hybridMesh([2], [2, 1], ['a', 'b'])).toThrow(
    'hybridMesh: 1 sizes within a slice, 2 across slices, 2 names',
  );
  expect(() => hybridMesh([1.5], [2], ['a'])).toThrow(
    '1.5 devices along an axis: it must be a whole number, at least 1',
  );
  expect(() => hybridMesh([4], [0], ['a'])).toThrow('0 devices along an axis: it must be a whole number, at least 1');
});

test('a tensor on a hybrid mesh is what it was', async () => {
  const m = hybridMesh([2, 2], [1, 2], ['data', 'model']);
  const t = markSharding(count([4, 4]), m, ['data', 'model']);
  expect(await list(t.matmul(t))).toEqual(await list(count([4, 4]).matmul(count([4, 4]))));
});

test('drawings', () => {
  const draw = (spec: Parameters<typeof markSharding>[2], shape = [8, 8], m = mesh) =>
    `\n${visualizeSharding(markSharding(count(shape), m, spec))}`;
  expect(draw(['data', 'model'])).toBe(`
f32[8, 8]: [data, model] over data=2, model=4
+---+---+---+---+
| 0 | 1 | 2 | 3 |
+---+---+---+---+
| 4 | 5 | 6 | 7 |
+---+---+---+---+`);
  expect(draw([null, 'data'])).toBe(`
f32[8, 8]: [null, data] over data=2, model=4
+---------+---------+
| 0,1,2,3 | 4,5,6,7 |
+---------+---------+`);
  expect(draw([['model', 'data']], [8])).toBe(`
f32[8]: [[model, data]] over data=2, model=4
+---+---+---+---+---+---+---+---+
| 0 | 4 | 1 | 5 | 2 | 6 | 3 | 7 |
+---+---+---+---+---+---+---+---+`);
  expect(draw(['all'], [8, 8], line).split('\n').slice(2, 5)).toEqual(['+---+', '| 0 |', '+---+']);
  expect(draw([])).toBe(`
f32[8, 8]: replicated over 8 devices
+-----------------+
| 0,1,2,3,4,5,6,7 |
+-----------------+`);
  expect(visualizeSharding(count([2]))).toBe('f32[2]: on one device');
  expect(() => draw([], [])).toThrow('visualizeSharding: f32[] has 0 dimensions: only 1 or 2 can be drawn');
});
