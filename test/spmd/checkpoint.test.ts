// Sharded checkpoints: written in parts, read into any other mesh bit for bit, and never lost.
process.env.CPU_NUM_DEVICES = '8';

import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import type * as TX from 'tsxla';
import { afterAll, expect, test, vi } from 'vitest';
import type { Snapshot } from '../../dist/io/state.js';
import type { ShardedArray } from '../../dist/runtime/sharded.js';
import { javaScriptOf } from '../javascript.js';
import { scratch } from '../scratch.js';
import { goldenPath } from '../support.js';

const tx = await import('tsxla');
const { blockOf } = await import('../../dist/base/blocks.js');
const { writeCheckpoint } = await import('../../dist/io/checkpoint-files.js');
const { positionsToSave } = await import('../../dist/io/parts.js');
const { defaultClient } = await import('../../dist/runtime/value.js');
const { CheckpointManager } = tx.io;
const { Mesh, markSharding, Sharding } = tx.spmd;
const { newFolder } = scratch('sharded-checkpoint');

const mesh = new Mesh([2, 4], ['fsdp', 'model']);
const ramp = (shape: readonly number[]) =>
  Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => Math.sin(i));
const random = (shape: readonly number[]) => tx.tensor(ramp(shape), { shape: [...shape], dtype: 'f32' });
/** A linear layer whose weight is split in both directions; `spec`: in another way. */
function linear(spec: TX.spmd.PartitionSpec = ['fsdp', 'model'], over = mesh): TX.nn.Linear {
  const layer = new tx.nn.Linear(8, 16);
  markSharding(layer.weight, over, spec);
  return layer;
}
const shardShapes = (t: TX.Tensor) => (t.expr.record!.value as ShardedArray).shards.map((s) => s.type.shape);

const program = await javaScriptOf('test/spmd/checkpoint-case.ts');
afterAll(() => fs.rmSync(program));
test('written on 8 devices, it loads on 4 and on 1 bit for bit, and training continues alike', async () => {
  const run = async (dir: string, shape: string, steps: number) => {
    const { stdout } = await promisify(execFile)(process.execPath, [program, dir, shape, String(steps)]);
    return {
      hashes: [...stdout.matchAll(/hash (\w{64})/g)].map((m) => m[1]),
      losses: [...stdout.matchAll(/loss (\S+)/g)].map((m) => Number(m[1])),
    };
  };
  const dir = newFolder();
  const first = await run(dir, '2x4', 3);
  const others = await Promise.all(
    ['2x4', '4', '1'].map(async (shape) => {
      const copy = newFolder();
      fs.cpSync(dir, copy, { recursive: true });
      return run(copy, shape, 3);
    }),
  );
  const [same] = others;
  for (const { hashes, losses } of others) {
    expect(hashes[0]).toBe(first.hashes[0]);
    for (const [i, loss] of losses.entries()) expect(Math.abs(loss - same!.losses[i]!)).toBeLessThan(1e-5);
    expect(losses.length).toBe(3);
  }
  expect(same!.losses).not.toEqual(first.losses);
});

test('each part is in the file once, and read to where it lies: no device has the whole', async () => {
  const dir = newFolder();
  const manager = new CheckpointManager(dir, { background: false });
  const model = linear();
  const optimizer = new tx.optim.AdamW(model.parameters(), { lr: 0.1 });
  const average = new tx.optim.EMA(model.parameters());
  await manager.save(1, { model, optimizer, average });
  const folder = path.join(dir, 'step-00000001');
  const parts = await tx.io.readSafetensors(path.join(folder, 'model.part-00000.safetensors'));
  const names = [0, 8].flatMap((r) => [0, 2, 4, 6].map((c) => `weight[${r}:${r + 8}, ${c}:${c + 2}]`));
  expect([...parts.keys()].sort()).toEqual(['bias', ...names].sort());
  expect([...parts.values()].reduce((n, { data }) => n + data.length, 0)).toBe(16 * 8 + 16);

  const other = new Mesh([8], ['all']);
  const target = linear([null, 'all'], other);
  const moments = new tx.optim.AdamW(target.parameters(), { lr: 0.1 });
  const averages = new tx.optim.EMA(target.parameters());
  await manager.load({ model: target, optimizer: moments, average: averages });
  expect(shardShapes(target.weight)).toEqual(Array(8).fill([16, 1]));
  expect(await target.weight.data()).toEqual(await model.weight.data());
  const { exp_avg } = moments.stateDict().state[0]!;
  for (const t of [exp_avg!, averages.averages[0]!]) expect(shardShapes(t)).toEqual(Array(8).fill([16, 1]));
});

test('an optimizer whose parameters come in another order finds the state of each by name, split as it is', async () => {
  const manager = new CheckpointManager(newFolder(), { background: false });
  const make = (names: readonly string[]) => {
    const specs: Record<string, TX.spmd.PartitionSpec> = { rows: ['model'], columns: [null, 'fsdp'] };
    const named = names.map((name) => {
      const p = new tx.nn.Parameter(random([8, 8]));
      markSharding(p, mesh, specs[name]!);
      return [name, p] as const;
    });
    const optimizer = new tx.optim.AdamW(named, { lr: 0.1 });
    const step = tx.compile(() => {
      const [x, y] = named.map(([name, p]) => p.pow(name === 'rows' ? 2 : 3).sum());
      const loss = x!.add(y!);
      loss.backward();
      optimizer.step();
      optimizer.zeroGrad();
    });
    const momentOf = (name: string) => optimizer.stateDict().state[names.indexOf(name)]!.exp_avg!;
    return { optimizer, step, momentOf };
  };
  const [a, b] = [make(['rows', 'columns']), make(['columns', 'rows'])];
  await a.step();
  await manager.save(1, { optimizer: a.optimizer });
  await manager.load({ optimizer: b.optimizer });
  for (const name of ['rows', 'columns'])
    expect([name, await b.momentOf(name).data()]).toEqual([name, await a.momentOf(name).data()]);
  await b.step();
  expect(shardShapes(b.momentOf('rows'))[0]).toEqual([2, 8]);
  expect(shardShapes(b.momentOf('columns'))[0]).toEqual([8, 4]);
});

test('stacked layers that are split among themselves, other dtypes, scalars and empty arrays come back', async () => {
  const manager = new CheckpointManager(newFolder(), { background: false });
  const stackOf = (spec: TX.spmd.PartitionSpec) => {
    const stack = new tx.nn.LayerStack([0, 1, 2, 3].map(() => new tx.nn.Linear(8, 8))).to('bf16');
    markSharding(stack.parameters()[0]!, mesh, spec);
    return stack;
  };
  const stack = stackOf(['model', null, 'fsdp']);
  const values = new Map([
    ['flags', markSharding(tx.tensor([1, 0, 1, 1]).gt(0), mesh, ['model'])],
    ['empty', markSharding(tx.zeros([0, 4]), mesh, [null, 'model'])],
    ['big', markSharding(tx.arange(8).mul(2), mesh, [['model', 'fsdp']])],
    ['scalar', tx.tensor(3)],
  ]);
  await manager.save(1, { stack, values });
  const back = stackOf([null, 'fsdp', 'model']);
  const loaded = (await manager.load({ stack: back }))!.values.values as Map<string, TX.io.HostArray>;
  for (const [i, p] of stack.parameters().entries()) expect(await back.parameters()[i]!.data()).toEqual(await p.data());
  for (const [name, t] of values) {
    const { dtype, shape, data } = loaded.get(name)!;
    expect([name, dtype, shape, data]).toEqual([name, t.dtype, t.shape, await t.data()]);
  }
  const wide = new tx.nn.LayerStack([0, 1, 2, 3].map(() => new tx.nn.Linear(8, 8))); // f32
  markSharding(wide.parameters()[0]!, mesh, [null, 'fsdp']);
  await manager.load({ stack: wide });
  expect(await wide.parameters()[0]!.data()).toEqual(await stack.parameters()[0]!.to('f32').data());
});

test('what is saved in the background is what was there, and nothing of it stays on the devices', async () => {
  const model = linear();
  const optimizer = new tx.optim.AdamW(model.parameters(), { lr: 0.1 });
  const train = tx.compile((x: TX.Tensor) => {
    model.forward(x).sum().backward();
    optimizer.step();
    optimizer.zeroGrad();
  });
  const x = random([4, 8]);
  const live = async () => {
    await train(x);
    await tx.sync({ wait: true });
    return (await defaultClient()).live.buffers;
  };
  await live();
  const before = await live();
  const manager = new CheckpointManager(newFolder());
  const running = train(x); // not started yet
  const reading = model.weight.data();
  const saving = manager.save(1, { model, optimizer });
  await live(); // a step, before the values are on the host
  await Promise.all([running, saving]);
  const was = await reading;
  expect(await live()).toBe(before);
  const again = linear();
  await manager.load({ model: again });
  expect(await again.weight.data()).toEqual(was);
});

test('a byte that has changed, a part that is missing, another version, another shape: one sentence each', async () => {
  const dir = newFolder();
  const manager = new CheckpointManager(dir, { background: false });
  const model = linear();
  for (const step of [1, 2]) await manager.save(step, { model });
  const folder = path.join(dir, 'step-00000002');
  const file = path.join(folder, 'model.part-00000.safetensors');
  const whole = fs.readFileSync(file);
  const load = (layer = linear(['model'])) => manager.load({ model: layer }, { step: 2 });

  fs.writeFileSync(
    file,
    whole.map((byte, i) => (i === whole.length - 70 ? byte ^ 1 : byte)),
  );
  await expect(load()).rejects.toThrow(
    `${folder} is not a whole checkpoint: weight in model.part-00000.safetensors has changed since it was saved`,
  );
  expect((await manager.load({ model: linear() }))?.step).toBe(1);
  fs.rmSync(file);
  await expect(load()).rejects.toThrow('model.part-00000.safetensors is missing: restore it, or load another step');
  fs.copyFileSync(file.replace('2/', '1/'), file); // the same bytes
  await load();
  await expect(load(new tx.nn.Linear(8, 4))).rejects.toThrow(
    'size mismatch for weight: [16, 8] in the state dict, [4, 8] here',
  );
  const index = path.join(folder, 'arrays.json');
  const text = fs.readFileSync(index, 'utf8');
  fs.writeFileSync(index, text.replace('"start":[0,2]', '"start":[0,4]'));
  await expect(load()).rejects.toThrow('arrays.json has changed since it was saved');
  fs.writeFileSync(index, text);
  const manifest = path.join(folder, 'checkpoint.json');
  fs.writeFileSync(manifest, fs.readFileSync(manifest, 'utf8').replace('"version": 2', '"version": 9'));
  await expect(load()).rejects.toThrow('it has version 9, but this tsxla reads 1 and 2: use the version that saved it');
  expect((await manager.load({ model: linear() }))?.step).toBe(1);
  fs.rmSync(path.join(dir, 'step-00000001'), { recursive: true });
  await expect(manager.load({ model: linear() })).rejects.toThrow('version 9'); // and does not begin anew
});

test('checkpoints of version 1 are read, onto a mesh too', async () => {
  const dir = newFolder();
  fs.cpSync(goldenPath('checkpoint-v1'), dir, { recursive: true });
  const model = new tx.nn.Linear(2, 2, { bias: false });
  markSharding(model.weight, mesh, [null, 'fsdp']);
  const { values } = (await new CheckpointManager(dir).load({ model }))!;
  expect([await model.weight.tolist(), values.note]).toEqual([
    [
      [1, 2],
      [3, 4],
    ],
    'of version 1',
  ]);
});

// ---- several processes

const SHAPE = [8, 8];
const processOf = (device: number) => device >> 2;
/** What process `index` of two has of an array that is split over both, and of one that all have. */
function snapshotOf(index: number, sharding: TX.spmd.Sharding, value: Float32Array): Snapshot {
  const block = sharding.shardShape(SHAPE);
  const parts = positionsToSave(sharding, SHAPE, index, processOf).map((position) => {
    const start = sharding.startOf(SHAPE, position);
    return { start, shape: block, data: blockOf(value, SHAPE, start, block) };
  });
  const all = { start: [0], shape: [1], data: Float32Array.of(value[0]!) };
  const arrays = new Map([
    ['split', { dtype: 'f32' as const, shape: SHAPE, parts }],
    ['all', { dtype: 'f32' as const, shape: [1], parts: index ? [] : [all] }],
  ]);
  const tree = { $map: ['split', 'all'].map((name) => [name, { $tensor: name }]) };
  return new Map([['w', { stateful: false, tree, arrays }]]);
}
const about = (step: number) => ({ step, metrics: {}, order: step });
const valuesOf = async (manager: TX.io.CheckpointManager) => {
  const loaded = await manager.load({}, { rng: false });
  const w = loaded?.values.w as Map<string, TX.io.HostArray>;
  return [loaded?.step, w?.get('split')?.data, w?.get('all')?.data];
};

test.each([
  ['rows', ['fsdp', 'model']],
  ['every part in both processes', [null, 'model']],
] as const)('two processes write their own parts, and the first makes a checkpoint of them: %s', async (_, spec) => {
  const dir = newFolder();
  const manager = new CheckpointManager(dir);
  const sharding = Sharding.of(mesh, spec, SHAPE);
  const [old, value] = [ramp(SHAPE), ramp(SHAPE).map((x) => x + 1)];
  // A run that was killed at this step left its folder, with all that the second process had written.
  const left = path.join(dir, '.unfinished-elsewhere-1-x.5');
  fs.mkdirSync(left);
  const late = writeCheckpoint(dir, about(5), snapshotOf(1, sharding, old), { index: 1, count: 2, patience: 300 });
  await expect(late).rejects.toThrow('has not made a checkpoint of the parts of process 1 within 0.3 s');
  expect(fs.readdirSync(left)).toContain('parts-00001.json');

  await Promise.all(
    [1, 0].map(async (index) => {
      await setTimeout(100 * (1 - index)); // the second process is first
      await writeCheckpoint(dir, about(5), snapshotOf(index, sharding, value), { index, count: 2, patience: 5000 });
    }),
  );
  expect(await valuesOf(manager)).toEqual([5, value, Float32Array.of(value[0]!)]);
  const files = fs.readdirSync(path.join(dir, 'step-00000005')).sort();
  const second = spec[0] ? ['w.part-00001.safetensors'] : [];
  expect(files).toEqual(['arrays.json', 'checkpoint.json', 'w.part-00000.safetensors', ...second]);
});

test('layers of a stack that are whole, each in another process, are saved by those', async () => {
  const dir = newFolder();
  fs.mkdirSync(dir, { recursive: true });
  const rows = [0, 1].map((row) => ramp([4]).map((x) => x + row));
  const snapshot = (index: number): Snapshot => {
    const arrays = rows.map((data, row) => {
      const parts = row === index ? [{ start: [0], shape: [4], data }] : [];
      return [`layers.${row}.bias`, { dtype: 'f32' as const, shape: [4], parts }] as const;
    });
    return new Map([['stack', { stateful: false, tree: { $arrays: true }, arrays: new Map(arrays) }]]);
  };
  await Promise.all(
    [0, 1].map((index) => writeCheckpoint(dir, about(1), snapshot(index), { index, count: 2, patience: 5000 })),
  );
  const { values } = (await new CheckpointManager(dir).load({}, { rng: false }))!;
  expect([...(values.stack as Map<string, TX.io.HostArray>).values()].map((a) => a.data)).toEqual(rows);
});

test('what a run left unfinished may be removed by another process at the same time', () => {
  const dir = newFolder();
  const host = os.hostname().replace(/\W/g, '_');
  const gone = [`.unfinished-${host}-4194305-x.5`, `.unfinished-${host}-4194305-y.5-former`]; // no process has such a number
  const left = `.unfinished-${host}-4194305-z.6`;
  fs.mkdirSync(path.join(dir, left), { recursive: true });
  const listed = vi.spyOn(fs, 'readdirSync').mockReturnValueOnce([...gone, left] as never);
  new CheckpointManager(dir);
  listed.mockRestore();
  expect(fs.readdirSync(dir)).toEqual([]);
});

test('a process that is gone while all save: the others say so, and the last good checkpoint stays', async () => {
  const dir = newFolder();
  const manager = new CheckpointManager(dir);
  const sharding = Sharding.of(mesh, ['fsdp', 'model'], SHAPE);
  const save = (step: number, index: number, patience: number) =>
    writeCheckpoint(dir, about(step), snapshotOf(index, sharding, ramp(SHAPE)), { index, count: 2, patience });
  await Promise.all([save(1, 0, 5000), save(1, 1, 5000)]);
  await expect(save(2, 0, 200)).rejects.toThrow('process 1 of 2 has not written its parts within 0.2 s');
  expect(fs.readdirSync(dir)).toEqual(['step-00000001']);
  expect((await valuesOf(manager))[0]).toBe(1);
});

test.each([
  ['{ broken', 'parts-00001.json is not JSON'],
  ['{ "files": { "../x": { "bytes": 1 } }, "indexes": {} }', 'names ../x, which is not a file in its folder'],
  ['{ "files": {}, "indexes": { "model": { "w": 3 } } }', 'parts-00001.json: model: w'],
])('what another process says of its parts is checked: %s', async (content, said) => {
  const dir = newFolder();
  fs.mkdirSync(dir);
  const sharding = Sharding.of(mesh, ['fsdp', 'model'], SHAPE);
  const snapshot = snapshotOf(0, sharding, ramp(SHAPE));
  const saved = writeCheckpoint(dir, about(1), snapshot, { index: 0, count: 2, patience: 60_000 });
  const [name] = await vi.waitUntil(() => fs.readdirSync(dir).length && fs.readdirSync(dir), 30_000);
  fs.writeFileSync(path.join(dir, name!, 'aside'), content);
  fs.renameSync(path.join(dir, name!, 'aside'), path.join(dir, name!, 'parts-00001.json'));
  await expect(saved).rejects.toThrow(said);
  expect(fs.readdirSync(dir)).toEqual([]);
});

test('kill -9 at any moment: the last good checkpoint is there, whole', async () => {
  const code = `process.env.CPU_NUM_DEVICES = '8';
    const tx = await import(${JSON.stringify(path.resolve('dist/index.js'))});
    const mesh = new tx.spmd.Mesh([8], ['all']);
    const manager = new tx.io.CheckpointManager(process.argv[1], { background: false, keep: 2 });
    for (let step = 1; ; step++) {
      const w = tx.spmd.markSharding(tx.full([1 << 18], step, { dtype: 'f32' }), mesh, ['all']);
      await manager.save(step, { w });
      console.log(step);
    }`;
  const kill = async (after: number) => {
    const dir = newFolder();
    const child = spawn(process.execPath, ['--input-type=module', '-e', code, dir], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    let said = '';
    child.stdout.on('data', (data) => {
      if (!said) void setTimeout(after).then(() => child.kill('SIGKILL'));
      said += data;
    });
    await new Promise((resolve) => child.on('close', resolve));
    const last = Number(said.trim().split('\n').at(-1));
    const { step, values } = (await new CheckpointManager(dir).load({}, { rng: false }))!;
    expect([last, last + 1]).toContain(step);
    const { data } = values.w as { data: Float32Array };
    expect(data.every((x) => x === step) && data.length === 1 << 18).toBe(true);
    expect(fs.readdirSync(dir).filter((name) => name.startsWith('.'))).toEqual([]); // the next run cleans up
  };
  for (const _ of [1, 2]) await Promise.all([1, 2].map(() => kill(Math.random() * 150)));
});
