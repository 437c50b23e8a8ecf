// Programs that are split over devices: they are found again, say what differs, donate and give memory back, and what cannot be
// run harms nothing. Eight virtual devices, in one process.

import * as tx from 'tsxla';
import { describe, expect, test, vi } from 'vitest';
import {
  client,
  compiles,
  count,
  line,
  list,
  type Mesh as MeshOf,
  mesh,
  type Spec,
  settled,
  stored,
  upTo,
} from './support.js';

const { Mesh, markSharding, replicate, shard, shardingOf } = tx.spmd;

describe('values that lie on different devices', () => {
  const high = new Mesh([4], ['x'], { devices: [4, 5, 6, 7] });
  test('are refused with both lists, and harm nothing else', async () => {
    const [a, b] = [markSharding(count([8]), mesh, ['data']), markSharding(count([8]), high, ['x'])];
    const why =
      'f32[8] is on devices 4, 5, 6, 7 ([x] over x=4 on devices 4,5,6,7), and others of the same program are on devices ' +
      '0, 1, 2, 3, 4, 5, 6, 7 (data=2, model=4): a program has one list of devices: call markSharding() on it with the same mesh';
    await expect(a.add(b).data()).rejects.toThrow(why);
    await expect(tx.compile(() => a.add(b))()).rejects.toThrow(why);
    const c = count([8]);
    c.copy_(a.add(b)); // pending, and not in the way
    const other = count([8]).add(1);
    expect(await list(other)).toEqual(upTo(8).map((i) => i + 1));
    await expect(c.data()).rejects.toThrow(why);
    markSharding(b, mesh, ['model']); // as it says
    expect(await list(c)).toEqual(upTo(8).map((i) => 2 * i));
    await expect(shard(shard(count([8]).add(1), mesh, ['data']), high, ['x']).data()).rejects.toThrow(
      'a part of it is on devices 4, 5, 6, 7 (x=4 on devices 4,5,6,7), and others',
    );
    const inside = tx.compile((x: tx.Tensor) => shard(shard(x, mesh, ['data']), high, ['x']));
    await expect(inside(count([8]))).rejects.toThrow('a program has one list of devices');
  });
  test('what is whole everywhere goes along', async () => {
    const draw = tx.compile((x: tx.Tensor) => tx.dropout(x, { p: 0.5 }));
    const on = async (m: typeof mesh | undefined) => {
      tx.manualSeed(1);
      const drawn: number[][] = [];
      for (let i = 0; i < 3; i++) {
        const x = tx.ones([8]);
        drawn.push(await list(await draw(m ? markSharding(x, m, [m.axisNames[0]!]) : x)));
      }
      return drawn;
    };
    const expected = await on(undefined);
    for (const m of [mesh, high, mesh, high]) expect(await on(m)).toEqual(expected);
  });
  test('what was changed lies where it did, wherever the change comes from', async () => {
    const t = markSharding(count([8]), mesh, ['data']);
    await tx.sync(t.add(0));
    t.copy_(markSharding(count([8]), high, ['x']).add(5));
    expect(await list(t)).toEqual(upTo(8).map((i) => i + 5));
    expect(await list(t.add(markSharding(count([8]), mesh, ['model'])))).toEqual(upTo(8).map((i) => 2 * i + 5));
    expect(stored(t).sharding).toBe(shardingOf(t));
    const whole = replicate(count([8]), mesh);
    t.copy_(whole);
    expect(await list(t)).toEqual(upTo(8));
    expect(String(shardingOf(t))).toBe('[data] over data=2, model=4');
    expect(shardingOf(whole)!.isReplicated).toBe(true);
    expect(stored(t).sharding).toBe(shardingOf(t));
  });
});

describe('programs', () => {
  test('unsplit tensors become whole everywhere: the next call is the same program', async () => {
    const w = count([8]);
    const lr = tx.tensor(0.5);
    const f = tx.compile((x: tx.Tensor, scale: tx.Tensor) => {
      w.add_(x.mul(lr).mul(scale));
      return w.sum();
    });
    const x = () => markSharding(tx.ones([8]), mesh, ['model']);
    const [plain, split] = [tx.ones([8]).add(0), x()];
    await f(split, 2);
    await f(plain, 2); // another program: x is whole
    expect(
      await compiles(async () => {
        lr.copy_(0.25);
        for (let i = 0; i < 3; i++) {
          await f(x(), i);
          await f(plain, i);
        }
      }),
    ).toBe(0);
    expect(await list(w)).toEqual(upTo(8).map((i) => i + 1 + 1 + 2 * 0.25 * 3));
  });

  test('the same graph elsewhere is another program', async () => {
    const made = (m: MeshOf) => tx.compile(() => replicate(tx.arange(4, { dtype: 'f32' }), m))();
    for (const devices of [
      [0, 1],
      [5, 3],
      [3, 5],
    ]) {
      const t = await made(new Mesh([2], ['x'], { devices }));
      expect(await list(t)).toEqual(upTo(4));
      expect(stored(t).shards.map((s) => s.device.id)).toEqual(devices);
    }
  });

  test('a compile for another split says so', async () => {
    const f = tx.compile((x: tx.Tensor) => x.mul(2), { name: 'twice' });
    const on = (spec: Spec) => f(markSharding(count([8, 8]), mesh, spec));
    await on(['data']);
    await on(['data']);
    await on([null, ['model', 'data']]);
    expect(tx.explain().at(-1)!.difference).toMatchObject({
      kind: 'sharding',
      what: 'the sharding of argument [0]',
      was: '[data] over data=2, model=4',
      now: '[null, [model, data]] over data=2, model=4',
    });
    await f(count([8, 8]));
    expect(tx.explain().at(-1)!.difference).toMatchObject({ kind: 'sharding', now: 'on one device' });
    expect(f.programs).toBe(3);
  });

  test('a plain loop is one program after the first rounds, and does not grow', async () => {
    tx.manualSeed(0);
    const model = new tx.nn.Sequential(new tx.nn.Linear(8, 8), new tx.nn.ReLU(), new tx.nn.Linear(8, 8));
    tx.spmd.fsdp(model, line, { axis: 'all', minSize: 1 });
    const optimizer = new tx.optim.Adam(model.parameters(), { lr: 0.01 });
    const x = markSharding(count([8, 8]).div(64), line, ['all']);
    const losses: number[] = [];
    const round = async () => {
      optimizer.zeroGrad();
      const loss = model.forward(x).square().mean();
      loss.backward();
      optimizer.step();
      losses.push(Number(await loss.item()));
    };
    for (let i = 0; i < 5; i++) await round();
    const before = { live: await settled(), executed: tx.metrics.counter('ExecuteReplicated')! };
    expect(
      await compiles(async () => {
        for (let i = 0; i < 5; i++) await round();
      }),
    ).toBe(0);
    expect(tx.metrics.counter('ExecuteReplicated')! - before.executed).toBe(5);
    expect(await settled()).toBeLessThanOrEqual(before.live);
    expect(losses.at(-1)!).toBeLessThan(losses[0]!);
  });

  test('step, scan, cond and accumulate take split tensors', async () => {
    const x = () => count([4, 8, 2]).div(8);
    const split = () => markSharding(x(), mesh, ['model', 'data']);
    const both = async (fn: (x: tx.Tensor) => tx.Tensor) => {
      const [one, many] = [await tx.step(() => fn(x())), await tx.step(() => fn(split()))];
      expect(await list(many)).toEqual(await list(one));
      expect(await list(fn(split()))).toEqual(await list(one));
      expect(await list(await tx.compile(fn)(split()))).toEqual(await list(one));
    };
    await both((x) => tx.scan((c, row) => [c.add(row), c.mul(row)], tx.zeros([8, 2]), x)[1] as tx.Tensor);
    await both(
      (x) =>
        tx.cond(
          x.sum().gt(3),
          (a) => a.mul(2),
          (a) => a,
          x,
        ) as tx.Tensor,
    );
    await both((x) => tx.foriLoop(0, 3, (_, a) => a.add(x), x) as tx.Tensor);
    const grad = async (batch: tx.Tensor) => {
      const w = markSharding(count([2], { requiresGrad: true }), line, []);
      const train = tx.compile((b: tx.Tensor) => {
        w.grad = null;
        return tx.accumulate(b, (part) => part.mul(w).square().mean());
      });
      return [await (await train(batch)).item(), await list(w.grad!)];
    };
    expect(await grad(split())).toEqual(await grad(x()));
  });

  test('a run on eight devices is one sample of ExecuteReplicatedTime', async () => {
    const f = tx.compile((x: tx.Tensor) => x.exp().sum(), { name: 'measured' });
    const x = markSharding(count([8]), mesh, ['data']);
    await tx.sync(x, { wait: true });
    tx.metrics.clearAll();
    for (let i = 0; i < 3; i++) await f(x);
    await tx.sync({ wait: true });
    expect(tx.metrics.metricData('ExecuteReplicatedTime')!.total).toBe(3);
    expect(tx.metrics.metricData('ExecuteTime')).toBeUndefined();
  });

  test("PT_XLA_DEBUG's report, and PyTorch/XLA's counters", async () => {
    process.env.PT_XLA_DEBUG = '1';
    const written: string[] = [];
    const write = process.stderr.write.bind(process.stderr);
    process.stderr.write = ((text: string) => written.push(String(text)) > 0) as typeof write;
    try {
      await (
        await tx.compile((x: tx.Tensor) => x.exp(), { name: 'seen' })(markSharding(count([8]), mesh, ['data']))
      ).data();
    } finally {
      process.stderr.write = write;
      delete process.env.PT_XLA_DEBUG;
    }
    expect(written.join('')).toContain('Compilation Analysis');
    expect(written.join('')).toContain('Execution Analysis');
    expect(tx.metrics.counter('XlaMarkSharding')).toBeGreaterThan(0);
    expect(tx.metrics.report()).toContain('ExecuteReplicatedTime');
  });
});

describe('memory', () => {
  test('dispose frees every part', async () => {
    const before = await settled();
    const bytes = client.live.bytes;
    const t = markSharding(count([8, 8]), mesh, ['data']); // 4 devices have each half
    const y = t.add(0);
    await tx.sync(y);
    y.dispose();
    expect(client.live.bytes - bytes).toBeGreaterThanOrEqual(4 * 256);
    t.dispose();
    expect(await settled()).toBe(before);
    expect(client.live.bytes).toBe(bytes);
    {
      using u = shard(count([8]), mesh, ['data']);
      await tx.sync(u);
    }
    expect(client.live.buffers).toBeLessThanOrEqual(before + 8); // the host's array it came from
    await expect(t.data()).rejects.toThrow('was disposed');
  });

  test('moving gives back where it was', async () => {
    const t = count([8, 8]).add(0);
    await tx.sync(t);
    const one = await settled();
    const places: [MeshOf, Spec, number][] = [
      [new Mesh([4], ['x'], { devices: [4, 5, 6, 7] }), [], 4],
      [mesh, ['data'], 8],
      [mesh, [], 8],
      [new Mesh([2], ['x'], { devices: [2, 3] }), ['x'], 2],
      [line, ['all'], 8],
    ];
    for (const [m, spec, n] of places) {
      markSharding(t, m, spec);
      const y = t.add(1);
      await tx.sync(y);
      y.dispose();
      expect((await settled()) - one, `${m} ${spec}`).toBe(n - 1);
      expect(await list(t)).toEqual(upTo(64));
    }
  });

  test('a step donates all parts; what someone still sees is copied', async () => {
    const w = markSharding(count([8]), mesh, ['data']);
    const whole = replicate(count([8]), mesh);
    const change = tx.compile(() => {
      w.add_(1);
      whole.mul_(2);
    });
    await tx.sync(whole);
    await change();
    const live = await settled();
    const old = [stored(w), stored(whole)];
    await change();
    for (const array of old) expect(array.shards.every((s) => s.disposed)).toBe(true);
    expect(await settled()).toBe(live);
    const seen = w.detach();
    await change();
    expect(await list(seen)).toEqual(upTo(8).map((i) => i + 2));
    expect(await list(w)).toEqual(upTo(8).map((i) => i + 3));
    expect(await list(whole)).toEqual(upTo(8).map((i) => i * 8));
  });

  test('two hundred steps, with reads among them, neither hang nor leak', async () => {
    const w = markSharding(tx.zeros([8]), mesh, ['data']);
    const f = tx.compile((x: tx.Tensor) => {
      w.add_(x.sum().div(8));
      return w.sum();
    });
    const x = () =>
      markSharding(tx.fromBuffer(new Float32Array(8).fill(1), { dtype: 'f32', shape: [8] }), line, ['all']);
    await f(x());
    const live = await settled();
    const reads: Promise<unknown>[] = [];
    for (let i = 0; i < 200; i++) {
      const made = f(x());
      if (i % 10 === 0)
        reads.push(
          made.then((t) => t.item()),
          w.data(),
        );
      await made;
    }
    expect((await Promise.all(reads)).filter((r) => typeof r === 'number')).toEqual(
      upTo(20).map((i) => 8 * (i * 10 + 2)),
    );
    reads.length = 0;
    expect(await list(w)).toEqual(new Array(8).fill(201));
    expect(await settled()).toBeLessThanOrEqual(live + 8);
  });

  test('a step that fails on the devices says what is lost with it', async () => {
    vi.stubEnv('TSXLA_MEMORY_CHECK', 'off');
    const w = markSharding(tx.ones([8]), mesh, ['data']);
    const v = markSharding(tx.ones([8]), mesh, ['model']);
    await tx.sync(w, v);
    await tx.step(function huge() {
      const all = tx
        .rand([1 << 21, 1 << 21])
        .sort()
        .values.sum();
      w.add_(all.add(v));
    });
    vi.unstubAllEnvs();
    await expect(w.tolist()).rejects.toThrow(/^huge failed on the device: .*\n.*lost with it.*f32\[8\]/);
    expect(await list(v)).toEqual(new Array(8).fill(1)); // only read
    tx.manualSeed(0);
    w.copy_(upTo(8));
    await tx.step(() => void w.add_(v));
    expect(await list(w)).toEqual(upTo(8).map((i) => i + 1));
    expect(String(shardingOf(w))).toBe('[data] over data=2, model=4');
  });

  test('a step that cannot be run leaves all as it was', async () => {
    const w = markSharding(count([8]), mesh, ['data']);
    const f = tx.compile((x: tx.Tensor) => void w.add_(x));
    await f(tx.ones([8]));
    const far = markSharding(tx.ones([8]), new Mesh([4], ['x'], { devices: [4, 5, 6, 7] }), ['x']);
    await expect(f(far)).rejects.toThrow('a program has one list of devices');
    expect(await list(w)).toEqual(upTo(8).map((i) => i + 1));
    const gone = markSharding(tx.ones([16]), new Mesh([16], ['x']), ['x']);
    const why = 'the mesh x=16 needs 16 devices, but cpu has 8: set CPU_NUM_DEVICES=16 for that many virtual devices';
    await expect(tx.compile((x: tx.Tensor) => void w.add_(x.sum()))(gone)).rejects.toThrow(why);
    await expect(gone.add(1).data()).rejects.toThrow(why);
    await expect(tx.sync()).rejects.toThrow(why);
    gone.dispose();
    expect(await compiles(() => f(tx.ones([8])))).toBe(0);
    expect(await list(w)).toEqual(upTo(8).map((i) => i + 2));
    expect(String(shardingOf(w))).toBe('[data] over data=2, model=4');
  });
});
