// Files that torch.load reads: checked with torch by scripts/golden/torch_files.py check FILE, here by reading them again.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { type HostArray, locateTorch, readTorch, type TorchTree, writeTorch } from 'tsxla/io';
import { DTYPES, type DType } from 'tsxla/pjrt';
import { expect, test } from 'vitest';
import { array, golden, temporaryFolder } from './files.js';

const file = path.join(temporaryFolder(), 'x.pt');
const read = async (value: TorchTree) => {
  await writeTorch(file, value);
  return (await readTorch(file)) as Map<string, HostArray>;
};

test('every dtype, as torch itself writes it', async () => {
  const real = (Object.keys(DTYPES) as DType[]).filter((dtype) => !dtype.startsWith('c'));
  const arrays = new Map(real.map((dtype) => [dtype as string, array(dtype, 2, 3)]));
  expect(await read(arrays)).toEqual(arrays);
  const every = (await readTorch(golden('every.pt'))) as Map<string, HostArray>;
  expect(await read(every)).toEqual(every);
  // torch keeps elements without a storage type of their own in bytes, and tells their dtype apart.
  await writeTorch(file, { w: array('u16', 3) });
  const ours = fs.readFileSync(file, 'latin1');
  const theirs = fs.readFileSync(golden('every.pt'), 'latin1');
  for (const name of ['torch._utils\n_rebuild_tensor_v3\n', 'torch.storage\nUntypedStorage\n', 'torch\nuint16\n'])
    expect([ours.includes(name), theirs.includes(name)], name).toEqual([true, true]);
});

test('state dicts of a run, which load again', async () => {
  const make = () => {
    const model = new tx.nn.Linear(2, 1);
    const optimizer = new tx.optim.AdamW([{ params: [model.weight] }, { params: [model.bias!], weightDecay: 0 }]);
    return { model, optimizer, schedule: new tx.optim.StepLR(optimizer, 1) };
  };
  const { model, optimizer, schedule } = make();
  model
    .forward(tx.ones([1, 2]))
    .sum()
    .backward();
  await optimizer.step();
  schedule.step();
  await writeTorch(file, {
    model: model.stateDict(),
    optimizer: optimizer.stateDict(),
    schedule: schedule.stateDict(),
  });
  const saved = (await readTorch(file)) as Map<string, Map<string, HostArray>>;
  const again = make();
  again.model.loadStateDict(saved.get('model')!);
  again.optimizer.loadStateDict(saved.get('optimizer')!);
  again.schedule.loadStateDict(saved.get('schedule')!);
  expect(await again.model.weight.tolist()).toEqual(await model.weight.tolist());
  expect(again.optimizer.paramGroups.map((g) => [g.lr, g.weightDecay])).toEqual([
    [1e-4, 0.01],
    [1e-4, 0],
  ]);
  const { state } = again.optimizer.stateDict();
  expect(await state[0]!.exp_avg!.tolist()).toEqual(await optimizer.stateDict().state[0]!.exp_avg!.tolist());
  expect(again.schedule.getLastLr()).toEqual([1e-4, 1e-4]);
});

test('complex numbers, which are read as their parts', async () => {
  const z = tx.complex(tx.tensor([1.5, -2]), tx.tensor([0.5, 1]));
  const parts = await read({ z, w: z.to('c128') } as never);
  const viewAsReal = { dtype: 'f32', shape: [2, 2], data: Float32Array.of(1.5, 0.5, -2, 1) };
  expect(parts.get('z')).toEqual({ dtype: 'complex64', shape: [2], viewAsReal });
  expect(parts.get('w')).toMatchObject({ dtype: 'complex128', shape: [2] });
});

test('a tensor in two places is stored once, and shares its memory when read', async () => {
  const w = tx.arange(6, { dtype: 'f32' }).reshape([2, 3]);
  const back = await read({ embedding: w, head: w, other: w.mul(2) });
  expect(back.get('embedding')!.data).toBe(back.get('head')!.data);
  expect(back.get('other')!.data).toEqual(Float32Array.of(0, 2, 4, 6, 8, 10));
  const places = await locateTorch(file);
  expect(places.get('embedding')).toEqual(places.get('head'));
  const host = array('bf16', 4);
  const [first, second] = (await read([host, host] as never)) as unknown as HostArray[];
  expect(first!.data).toBe(second!.data);
});

test('arrays that overlap share a storage; those that only lie in one buffer do not', async () => {
  const data = Float32Array.from({ length: 12 }, (_, i) => i);
  const part = (from: number, to: number): HostArray => ({
    dtype: 'f32',
    shape: [to - from],
    data: data.subarray(from, to),
  });
  const back = await read({ low: part(2, 6), middle: part(4, 8), high: part(8, 12), empty: part(3, 3) });
  expect(Object.fromEntries([...back].map(([name, { data: d }]) => [name, [...d]]))).toEqual({
    low: [2, 3, 4, 5],
    middle: [4, 5, 6, 7],
    high: [8, 9, 10, 11],
    empty: [],
  } as never);
  expect(back.get('low')!.data.buffer).toBe(back.get('middle')!.data.buffer);
  expect(back.get('low')!.data.buffer.byteLength).toBe(6 * 4); // the stretch that both lie in
  expect(back.get('high')!.data.buffer).not.toBe(back.get('low')!.data.buffer);
  // The same bytes as other numbers: torch has no storage of two dtypes.
  const bits: HostArray = { dtype: 'u32', shape: [4], data: new Uint32Array(data.buffer, 8, 4) };
  const both = await read({ low: part(2, 6), bits });
  expect(both.get('bits')!.data).toEqual(bits.data);
  expect(both.get('bits')!.data.buffer).not.toBe(both.get('low')!.data.buffer);
  const views = (await readTorch(golden('views.pt'))) as Map<string, HostArray>;
  const again = await read(views);
  expect(again).toEqual(views);
  expect(again.get('part')!.data.buffer).toBe(again.get('base')!.data.buffer);
});

test('what cannot be written', async () => {
  const list: TorchTree[] = [];
  list.push(list);
  await expect(writeTorch(file, list)).rejects.toThrow(
    'writeTorch: a list or dict that contains itself cannot be written',
  );
  let deep: TorchTree = 1;
  for (let i = 0; i < 20_000; i++) deep = [deep];
  await expect(writeTorch(file, deep)).rejects.toThrow('writeTorch: lists and dicts are nested more than 500 deep');
  await expect(writeTorch(file, { a: '\ud800' })).rejects.toThrow('has half of a surrogate pair');
  await expect(writeTorch(file, { f: (() => 1) as never })).rejects.toThrow(tx.ArgumentError);
});
