// Tensors that are split over devices: wherever they lie, they are the values they were. Eight virtual devices, in one process.

import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';
import { Buffer as DeviceBuffer } from '../../dist/pjrt/index.js';
import { compiles, count, held, line, list, mesh, type Spec, stored, upTo } from './support.js';

const { Mesh, markSharding, replicate, shard, shardingOf } = tx.spmd;

describe('markSharding', () => {
  const double = tx.compile((x: tx.Tensor) => x.mul(2));
  const check = async (t: tx.Tensor, times = 1) => {
    const doubled = await double(t);
    expect(await list(doubled)).toEqual(upTo(8).map((i) => 2 * times * i));
    expect(await list(t)).toEqual(upTo(8).map((i) => times * i));
    expect(String(shardingOf(t))).toBe('[data] over data=2, model=4');
    expect((await held(t))[0]).toEqual(upTo(4).map((i) => times * i));
    expect((await held(t))[7]).toEqual(upTo(4).map((i) => times * (i + 4)));
  };

  test("of the host's array", () => check(markSharding(count([8]), mesh, ['data'])));
  test('of a value on one device', async () => {
    const t = count([8]).add(0);
    await tx.sync(t);
    expect(t.peek()!.record!.value).toBeInstanceOf(DeviceBuffer);
    await check(markSharding(t, mesh, ['data']));
  });
  test('of a value that is not computed yet', () => check(markSharding(count([8]).add(0), mesh, ['data'])));
  test('of a value that a step will make', async () => {
    const triple = tx.compile((x: tx.Tensor) => x.mul(3));
    const x = count([8]);
    const state = count([8]);
    const change = tx.compile(() => void state.mul_(3));
    await change();
    state.copy_(Array.from(upTo(8)));
    const started = change(); // not waited for
    markSharding(state, mesh, ['data']);
    await started;
    await check(state, 3);
    const made = await triple(x);
    await check(markSharding(made, mesh, ['data']), 3);
  });
  test('of a tensor that shares its value', async () => {
    const a = count([8]);
    const b = a.detach();
    const c = a.clone();
    await tx.sync(c);
    markSharding(a, mesh, ['data']);
    await check(a);
    expect(await list(b)).toEqual(upTo(8));
    expect(await list(c)).toEqual(upTo(8));
    tx.noGrad(() => a.add_(1));
    expect(await list(a)).toEqual(upTo(8).map((i) => i + 1));
    expect(await list(b)).toEqual(upTo(8));
  });
  test('of a variable that took over a value, replicated and then changed by a step', async () => {
    const a = count([8]).add(0);
    await tx.sync(a);
    const old = a.mul(10); // described from the value it had
    a.requiresGrad_();
    const x = markSharding(tx.ones([8]), mesh, ['data']);
    const use = tx.compile((x: tx.Tensor) => tx.noGrad(() => void a.add_(x)));
    await tx.sync(old);
    await use(x);
    await use(x);
    expect(await list(a)).toEqual(upTo(8).map((i) => i + 2));
    expect(await list(old)).toEqual(upTo(8).map((i) => i * 10));
  });
  test('inside a step: of a parameter, of an argument, and of a result', async () => {
    const w = count([8], { requiresGrad: true });
    const f = tx.compile((x: tx.Tensor) => {
      markSharding(w, mesh, ['data']);
      markSharding(x, mesh, ['model']);
      w.grad = null;
      const y = markSharding(w.mul(x), mesh, [['model', 'data']]);
      y.sum().backward();
      return y;
    });
    const x = count([8]).add(1);
    expect(await list(await f(x))).toEqual(upTo(8).map((i) => i * (i + 1)));
    expect(await list(w.grad!)).toEqual(upTo(8).map((i) => i + 1));
    expect(await list(x)).toEqual(upTo(8).map((i) => i + 1));
    expect(await list(w)).toEqual(upTo(8));
    await f(x);
    expect(await compiles(() => f(x))).toBe(0);
  });
  test('twice: the last one counts, whether there is a value or not', async () => {
    const four = new Mesh([4], ['x'], { devices: [4, 5, 6, 7] });
    for (const t of [count([8]), count([8]).add(0)]) {
      markSharding(t, line, ['all']);
      markSharding(t, four, ['x']);
      markSharding(t, mesh, ['data']);
      await check(t);
    }
  });
  test('of what was split by a program, on other devices', async () => {
    const other = new Mesh([4], ['x'], { devices: [4, 5, 6, 7] });
    const t = shard(count([8]), line, ['all']);
    await tx.sync(t);
    markSharding(t, other, ['x']);
    expect(await list(t.add(1))).toEqual(upTo(8).map((i) => i + 1));
    await check(markSharding(t, mesh, ['data']));
  });
  test('stays a variable, with its gradient', async () => {
    for (const w of [count([8], { requiresGrad: true }), count([8]).add(0).requiresGrad_()]) {
      markSharding(w, mesh, ['model']);
      expect([w.requiresGrad, w.isLeaf]).toEqual([true, true]);
      w.square().sum().backward();
      expect(await list(w.grad!)).toEqual(upTo(8).map((i) => 2 * i));
    }
  });
});

describe('shard and replicate', () => {
  test('gradients pass, and are the same', async () => {
    const w = count([8, 4], { requiresGrad: true });
    const loss = (f: (x: tx.Tensor) => tx.Tensor) => {
      w.grad = null;
      f(w)
        .mul(count([8, 4]))
        .sum()
        .backward();
      return list(w.grad!);
    };
    const expected = upTo(32);
    expect(await loss((x) => shard(x, mesh, ['data', 'model']))).toEqual(expected);
    expect(
      await loss((x) => tx.checkpoint((y: tx.Tensor) => shard(y, mesh, [null, 'data']).mul(1), x) as tx.Tensor),
    ).toEqual(expected);
    expect(await loss((x) => replicate(shard(x, mesh, [['model', 'data']]), mesh))).toEqual(expected);
  });

  test.each(['bool', 'bf16', 'f16', 'i64', 'u8', 'f64', 'f8e4m3fn'] as const)('%s', async (dtype) => {
    const x = count([4, 2]).remainder(2).to(dtype);
    const [whole, split] = [await x.tolist(), await shard(x, mesh, ['model', 'data']).tolist()];
    expect(split).toEqual(whole);
    const back = tx.tensor(whole as number[][], { dtype });
    expect(await markSharding(back, mesh, ['model', 'data']).tolist()).toEqual(whole);
    expect(await back.eq(x).all().item()).toBe(1);
  });

  test('of nothing, and of one number', async () => {
    const empty = markSharding(tx.zeros([0, 4]), mesh, ['data', 'model']);
    expect(await list(empty)).toEqual([]);
    expect(
      await tx
        .cat([empty, tx.ones([1, 4])])
        .sum()
        .item(),
    ).toBe(4);
    expect(await list(shard(tx.zeros([4, 0]).add(1), mesh, ['model', 'data']))).toEqual([]);
    const hosted = markSharding(tx.tensor(new Float32Array(0), { dtype: 'f32' }).reshape([0, 8]), mesh, [null, 'data']);
    expect((await hosted.add(1).data()).length).toBe(0);
    const one = markSharding(tx.tensor(3), mesh, []);
    expect(await one.add(shard(tx.tensor(4), mesh, [])).item()).toBe(7);
  });
});

describe('resharding', () => {
  const SPECS: Spec[] = [
    [],
    ['data', 'model'],
    ['model', 'data'],
    [['data', 'model']],
    [['model', 'data']],
    [null, 'model'],
  ];
  test('between all pairs of specs keeps the values', async () => {
    const expected = upTo(64);
    for (const from of SPECS)
      for (const to of SPECS) {
        const t = markSharding(count([8, 8]), mesh, from);
        await tx.sync(t.add(0)); // on its devices
        markSharding(t, mesh, to);
        expect(await list(replicate(t, mesh)), JSON.stringify([from, to])).toEqual(expected);
        expect(stored(t).sharding).toBe(shardingOf(t));
        expect(await list(t)).toEqual(expected);
      }
  });

  test('parts lie where the spec says', async () => {
    const t = markSharding(count([8]), mesh, [['model', 'data']]);
    await tx.sync(t.add(0));
    // Along model first: device 0 has part 0, device 4 (data 1, model 0) part 1, device 1 part 2.
    expect(await held(t)).toEqual({ 0: [0], 4: [1], 1: [2], 5: [3], 2: [4], 6: [5], 3: [6], 7: [7] });
    const computed = shard(t.add(0), mesh, [['model', 'data']]);
    await tx.sync(computed);
    expect(await held(computed)).toEqual(await held(t));
  });

  const reversed = new Mesh([2, 4], ['data', 'model'], { devices: [7, 6, 5, 4, 3, 2, 1, 0] });
  const low = new Mesh([4], ['x'], { devices: [3, 1, 2, 0] });
  const high = new Mesh([2, 2], ['x', 'y'], { devices: [4, 6, 5, 7] });
  const alone = new Mesh([1], ['x'], { devices: [5] });
  test.each([
    ['another order', reversed, ['data', 'model']],
    ['four devices', low, ['x']],
    ['four others', high, ['y', 'x']],
    ['one other', alone, ['x']],
  ] as const)('to %s and back', async (_, other, spec) => {
    const plain = count([8, 8]);
    const sums = await list(plain.matmul(plain.t()).sum({ dim: 0 }));
    const t = markSharding(count([8, 8]), mesh, ['model', 'data']);
    for (let i = 0; i < 2; i++) {
      for (const [m, s] of [
        [other, spec],
        [mesh, ['data']],
      ] as const) {
        markSharding(t, m, s);
        expect(await list(t.matmul(t.t()).sum({ dim: 0 }))).toEqual(sums);
        expect(stored(t).shards.map((b) => b.device.id)).toEqual(m.devices);
        expect(await list(t)).toEqual(upTo(64));
      }
    }
  });
});

describe('results that lie as XLA chose', () => {
  const f = tx.compile((x: tx.Tensor, w: tx.Tensor) => ({
    product: x.matmul(w),
    rows: x.sum({ dim: 0 }),
    columns: x.sum({ dim: 1 }),
    turned: x.t(),
    flat: x.reshape([-1]),
    folded: x.reshape([4, 4, -1]),
    six: x.reshape([-1]).narrow(0, 0, 6),
    part: x.narrow(0, 1, 3),
    joined: tx.cat([x, x.index(tx.slice(0, 1))]),
    all: x.sum(),
    largest: x.argmax({ dim: 1 }),
    sorted: x.neg().sort({ dim: 0 }).values,
    turns: x.roll(1, 0),
    flipped: x.flip(0),
    many: x.unsqueeze(0).expand([3, 8, 6]),
    none: x.narrow(0, 0, 0),
  }));
  const doubled = tx.compile((all: tx.Tensor[]) => all.map((t) => t.mul(2).sum()));
  const [x, w] = [() => count([8, 6]), () => count([6, 4])];
  test.each([
    ['rows', mesh, ['data'], []],
    ['columns', mesh, [null, 'data'], ['data', 'model']],
    ['both', mesh, ['model', 'data'], [null, 'model']],
    ['tuples', mesh, [['model', 'data']], []],
    ['one axis, which shapes cut', line, ['all'], []],
    ['four devices', new Mesh([4], ['x'], { devices: [6, 4, 7, 5] }), ['x'], [null, 'x']],
  ] as const)('are right: %s', async (_, m, a, b) => {
    const expected = await f(x(), w());
    const made = await f(markSharding(x(), m, a), markSharding(w(), m, b));
    for (const key of Object.keys(expected) as (keyof typeof expected)[]) {
      expect(await made[key].tolist(), key).toEqual(await expected[key].tolist());
    }
    const [some, others] = [made, expected].map((all) => Object.values(all).filter((t) => t.numel()));
    const sums = await doubled(some!); // as inputs of another program, too
    for (const [i, sum] of (await doubled(others!)).entries()) expect(await list(sums[i]!)).toEqual(await list(sum));
  });

  test('over two meshes of the same devices', async () => {
    const y = markSharding(count([8, 8]), line, ['all']).matmul(markSharding(count([8, 8]), mesh, ['data', 'model']));
    const z = replicate(y, mesh).add(shard(count([8, 8]), line, [null, 'all']));
    const expected = count([8, 8])
      .matmul(count([8, 8]))
      .add(count([8, 8]));
    expect(await list(z)).toEqual(await list(expected));
    // What is split along one mesh stays so where another is named.
    const g = tx.compile((x: tx.Tensor) => replicate(x.sum(), mesh).add(x));
    const out = await g(markSharding(count([8]), line, ['all']));
    expect(await list(out)).toEqual(upTo(8).map((i) => 28 + i));
    expect(shardingOf(out)!.isReplicated || shardingOf(out)!.mesh === line).toBe(true);
  });
});

test('tracing alone changes nothing about where tensors lie', async () => {
  const [x, y] = [count([8]), count([8])];
  await tx.sync(x, y);
  const failing = tx.compile(() => {
    markSharding(x, mesh, ['data']);
    x.add_(1);
    throw new Error('from inside');
  });
  await expect(failing()).rejects.toThrow('from inside');
  const split = markSharding(count([8]), mesh, ['data']);
  tx.compile(() => void y.copy_(split)).lower([]);
  expect([shardingOf(x), shardingOf(y)]).toEqual([undefined, undefined]);
  expect(await list(x)).toEqual(upTo(8));
});

test('parts at changing offsets: one program where all devices have the whole, constants where it is split', async () => {
  const rows = (i: number) => upTo(8).map((j) => 8 * i + j);
  const parts = async (x: tx.Tensor) => {
    await tx.sync(x);
    return compiles(async () => {
      for (const i of upTo(4)) {
        expect(await list(x.narrow(0, 2 * i, 2))).toEqual([...rows(2 * i), ...rows(2 * i + 1)]);
        expect(await list(x.select(0, i).mul(2))).toEqual(rows(i).map((v) => 2 * v));
      }
    });
  };
  expect(await parts(replicate(count([8, 8]).add(0), mesh))).toBe(2);
  expect(await parts(markSharding(count([8, 8]).add(0), mesh, ['data', null]))).toBe(8);
  const host = markSharding(count([8, 8]), mesh, ['data', null]); // not brought there yet
  expect(await list(host.narrow(0, 3, 1))).toEqual(rows(3));
});
