// Pools: tensors of one kind, lent and given back by handle.
import { setImmediate } from 'node:timers/promises';
import { compile, full, metrics, type Tensor, tensor } from 'tsxla';
import {
  basicConfig,
  TPUConfig,
  TPUMemoryError,
  TPUMemoryManager,
  TPUMemoryPoolError,
  TPUOutOfMemoryError,
} from 'tsxla/backend';
import { afterEach, expect, test } from 'vitest';

basicConfig({ level: 'silent' });
const manager = new TPUMemoryManager();
afterEach(() => manager.clearMemoryPools());

/** Where its value lies: the memory itself, not the handle. */
const memoryOf = (t: Tensor): object => t.expr.record!.value!;
const detailsOf = (id: string) => manager.getPoolStats(id).poolDetails[id]!;

test('a pool is on the device as soon as it is there, each tensor in its own memory, made by one program', async () => {
  const before = await manager.getMemoryStats();
  const runs = metrics.metricData('ExecuteTime')?.total ?? 0;
  const id = await manager.createMemoryPool(10, [512, 512]);
  expect(metrics.metricData('ExecuteTime')!.total - runs).toBe(1);
  const after = await manager.getMemoryStats();
  expect(after.allocatedMemory - before.allocatedMemory).toBe(10 * 512 * 512 * 4);
  expect(after.cachedMemory).toBe(10 * 512 * 512 * 4);
  const taken = Array.from({ length: 10 }, () => manager.getTensorFromPool(id));
  expect(new Set(taken.map(memoryOf)).size).toBe(10);
  expect(taken.map((t) => `${t.aval}`)).toEqual(Array(10).fill('f32[512, 512]'));
  expect(await taken[9]!.sum().item()).toBe(0);
  expect((await manager.getMemoryStats()).cachedMemory).toBe(0);
});

test('getPoolStats: how much of each pool is out', async () => {
  const small = await manager.createMemoryPool(4, [8], { dtype: 'bf16' });
  const large = await manager.createMemoryPool(2, [16, 16]);
  manager.getTensorFromPool(small);
  expect(manager.getPoolStats()).toMatchObject({ totalPools: 2, totalTensors: 6 });
  expect(manager.getPoolStats(small)).toEqual({
    totalPools: 1,
    totalTensors: 4,
    poolDetails: {
      [small]: { size: 4, available: 3, inUse: 1, utilization: 0.25, shape: [8], dtype: 'bf16', bytes: 64, waiting: 0 },
    },
  });
  expect(detailsOf(large).utilization).toBe(0);
});

test('100,000 gets and returns by 1,000 tasks at once lose no tensor and hand none out twice', async () => {
  const id = await manager.createMemoryPool(16, [4]);
  const all = Array.from({ length: 16 }, () => manager.getTensorFromPool(id));
  const slots = new Set(all.map(memoryOf));
  for (const t of all) manager.returnTensorToPool(id, t);
  const out = new Set<object>();
  let [uses, twice, strange, most, seed] = [0, 0, 0, 0, 1];
  const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
  const use = async (t: Tensor) => {
    const memory = memoryOf(t);
    if (out.has(memory)) twice++;
    if (!slots.has(memory)) strange++;
    out.add(memory);
    uses++;
    most = Math.max(most, out.size);
    for (let n = random(3); n; n--) await (random(50) ? null : setImmediate());
    out.delete(memory);
  };
  const once = async () => {
    const way = random(3);
    if (way === 0) return manager.withTensor(id, use);
    const { available } = detailsOf(id);
    const t = way === 1 && available ? manager.getTensorFromPool(id) : await manager.waitForTensor(id);
    await use(t);
    manager.returnTensorToPool(id, t);
  };
  const task = async () => {
    for (let i = 0; i < 100; i++) await once();
  };
  await Promise.all(Array.from({ length: 1000 }, task));
  expect({ uses, twice, strange, most }).toEqual({ uses: 100_000, twice: 0, strange: 0, most: 16 });
  expect(detailsOf(id)).toMatchObject({ size: 16, available: 16, inUse: 0, waiting: 0 });
  expect((await manager.getMemoryStats()).cachedMemory).toBe(16 * 16);
  const back = Array.from({ length: 16 }, () => memoryOf(manager.getTensorFromPool(id)));
  expect(new Set(back)).toEqual(slots);
});

test('equal values do not confuse the slots: what comes back is what was lent', async () => {
  const id = await manager.createMemoryPool(2, [3]);
  const [a, b] = [manager.getTensorFromPool(id), manager.getTensorFromPool(id)]; // both are zeros
  const memory = memoryOf(b);
  manager.returnTensorToPool(id, b);
  a.fill_(7);
  const again = manager.getTensorFromPool(id);
  expect(memoryOf(again)).toBe(memory);
  expect(await again.tolist()).toEqual([0, 0, 0]);
  expect(await a.tolist()).toEqual([7, 7, 7]);
});

test('what a tensor holds when it is returned, it holds when it is lent again', async () => {
  const id = await manager.createMemoryPool(1, [2]);
  const t = manager.getTensorFromPool(id);
  t.add_(tensor([1, 2]));
  manager.returnTensorToPool(id, t); // the change is still to be computed
  expect(await manager.getTensorFromPool(id).tolist()).toEqual([1, 2]);
});

test('a handle that was returned is spent: neither its old owner nor a compiled step reaches the value of the next', async () => {
  const id = await manager.createMemoryPool(1, [2]);
  const mine = manager.getTensorFromPool(id);
  const grow = compile(() => void mine.add_(1));
  await grow();
  manager.returnTensorToPool(id, mine);
  const theirs = manager.getTensorFromPool(id);
  expect(() => mine.add(1)).toThrow(`f32[2] was returned to pool ${id}`);
  await expect((async () => grow())()).rejects.toThrow(`f32[2] was returned to pool ${id}`);
  expect(await theirs.tolist()).toEqual([1, 1]);
  expect(() => manager.returnTensorToPool(id, mine)).toThrow(TPUMemoryPoolError); // though its slot is out
  expect(manager.returnTensorToPool(id, theirs)).toBe(true);
});

test('an empty pool says how many are out and what to do', async () => {
  const id = await manager.createMemoryPool(2, [2]);
  manager.getTensorFromPool(id);
  manager.getTensorFromPool(id);
  expect(() => manager.getTensorFromPool(id)).toThrow(TPUMemoryPoolError);
  expect(() => manager.getTensorFromPool(id)).toThrow(
    `pool ${id} is empty: all 2 of its f32[2] are in use: return one, wait with waitForTensor or withTensor, or create a larger pool`,
  );
});

test('waiting callers are served in turn, ahead of later ones', async () => {
  const id = await manager.createMemoryPool(1, [2]);
  const first = manager.getTensorFromPool(id);
  const served: number[] = [];
  const waiting = [1, 2, 3].map((i) => manager.withTensor(id, () => served.push(i)));
  await setImmediate();
  expect(detailsOf(id).waiting).toBe(3);
  manager.returnTensorToPool(id, first);
  expect(() => manager.getTensorFromPool(id)).toThrow('and 2 callers wait for one');
  await Promise.all(waiting);
  expect(served).toEqual([1, 2, 3]);
});

test('withTensor returns it whatever happens, and gives what the function gives', async () => {
  const id = await manager.createMemoryPool(1, [2]);
  expect(await manager.withTensor(id, async (t) => t.size(0))).toBe(2);
  const fails = async () => {
    throw new RangeError('mine');
  };
  await expect(manager.withTensor(id, fails)).rejects.toThrow(RangeError);
  await manager.withTensor(id, (t) => void manager.returnTensorToPool(id, t)); // was it so already, it is fine
  expect(detailsOf(id)).toMatchObject({ available: 1, inUse: 0 });
});

test('a foreign tensor, one twice, and a pool that is not there are errors', async () => {
  const id = await manager.createMemoryPool(2, [2]);
  const other = await manager.createMemoryPool(1, [2]);
  const t = manager.getTensorFromPool(id);
  const wrong = (poolId: string, x: Tensor) => expect(() => manager.returnTensorToPool(poolId, x));
  wrong(other, t).toThrow(
    `this f32[2] is not in use from pool ${other}: it was returned already, or is not from this pool`,
  );
  wrong(id, full([2], 0)).toThrow(TPUMemoryPoolError);
  wrong(id, 'pool' as never).toThrow(TPUMemoryPoolError);
  wrong('pool_99', t).toThrow(`there is no pool 'pool_99' (it may have been cleared): there are ${id}, ${other}`);
  expect(manager.returnTensorToPool(id, t)).toBe(true);
  wrong(id, t).toThrow(TPUMemoryPoolError);
  expect(() => manager.getTensorFromPool('x')).toThrow(TPUMemoryPoolError);
  await expect(manager.waitForTensor('x')).rejects.toThrow(TPUMemoryPoolError);
  expect(detailsOf(id)).toMatchObject({ available: 2, inUse: 0 });
});

test.each<[what: string, spoil: (t: Tensor) => unknown]>([
  ['disposed', (t) => t.dispose()],
  ['of another dtype', (t) => t.become(t.to('bf16').expr)],
  ['of another shape', (t) => t.become(t.reshape([4, 1]).expr)],
  ['a variable', (t) => t.requiresGrad_()],
])('what comes back %s is replaced by zeros', async (_, spoil) => {
  const id = await manager.createMemoryPool(1, [4]);
  const t = manager.getTensorFromPool(id);
  spoil(t);
  expect(manager.returnTensorToPool(id, t)).toBe(true);
  const next = manager.getTensorFromPool(id);
  expect(`${next.aval} ${next.requiresGrad}`).toBe('f32[4] false');
  expect(await next.tolist()).toEqual([0, 0, 0, 0]);
});

test('clearMemoryPools frees idle buffers, keeps those in use, and rejects waiting callers', async () => {
  const [id, empty] = [await manager.createMemoryPool(3, [1024]), await manager.createMemoryPool(1, [2])];
  const [mine, lent] = [manager.getTensorFromPool(id), manager.getTensorFromPool(id)];
  manager.getTensorFromPool(empty);
  const waiting = expect(manager.waitForTensor(empty)).rejects.toThrow(
    `pool ${empty} was cleared while this call waited`,
  );
  const before = (await manager.getMemoryStats()).allocatedMemory;
  manager.clearMemoryPools();
  await waiting;
  expect((await manager.getMemoryStats()).allocatedMemory).toBe(before - 4096);
  expect(manager.getPoolStats()).toEqual({ totalPools: 0, totalTensors: 0, poolDetails: {} });
  expect(await mine.sum().item()).toBe(0);
  expect(() => manager.returnTensorToPool(id, mine)).toThrow(
    `there is no pool '${id}' (it may have been cleared): there are none`,
  );
  manager.freeTensor(lent); // it belongs to no pool any more
  expect(() => lent.sum()).toThrow('was freed');
});

test('a tensor of a pool is not freed, but returned; one is allocated from it where it is such a one', async () => {
  const id = await manager.createMemoryPool(1, [8], { dtype: 'bf16' });
  const t = manager.allocateTensor([8], { dtype: 'bf16', poolId: id });
  expect(detailsOf(id).inUse).toBe(1);
  expect(() => manager.freeTensor(t)).toThrow(TPUMemoryError);
  expect(() => manager.freeTensor(t)).toThrow(`belongs to pool ${id}: return it with returnTensorToPool`);
  manager.returnTensorToPool(id, t);
  expect(() => manager.allocateTensor([8], { poolId: id })).toThrow(`pool ${id} has tensors bf16[8], not f32[8]`);
});

test('inside a step, which is traced once and run often, nothing is taken or returned', async () => {
  const id = await manager.createMemoryPool(1, [2]);
  await expect((async () => compile(() => manager.getTensorFromPool(id))())()).rejects.toThrow(
    'getTensorFromPool inside',
  );
  expect(detailsOf(id).available).toBe(1);
});

test.each([0, 1.5, -1, '2' as never])('a pool of %s tensors is an error', async (size) => {
  await expect(manager.createMemoryPool(size, [2])).rejects.toThrow('poolSize is');
});

test('a pool that is larger than what is left is refused before anything is made', async () => {
  const small = new TPUMemoryManager(new TPUConfig({ version: 'v6e', v6eMemoryGb: 1 / 1024, memoryFraction: 1 }));
  const before = metrics.counter('CreateXlaTensor');
  await expect(small.createMemoryPool(10, [512, 512])).rejects.toThrow(TPUOutOfMemoryError);
  await expect(small.createMemoryPool(10, [512, 512])).rejects.toThrow('10 of f32[512, 512] take 10.0 MiB');
  expect(metrics.counter('CreateXlaTensor')).toBe(before);
  new TPUMemoryManager(); // no such limit for what follows
});
