// Layers, optimizers and what belongs to training, split over devices: what one device computes.
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';
import { compiles, count, line, list, mesh, settled, stored } from '../spmd/support.js';

const { Mesh, dataParallel, fsdp, markSharding, shardBatch, shardingOf } = tx.spmd;
const { nn, optim } = tx;
const data = new Mesh([8], ['data']);
const ALL = { axis: 'all', minSize: 1 };

function expectClose(got: readonly number[], wanted: readonly number[], what: string): void {
  expect(got.length).toBe(wanted.length);
  got.forEach(
    (x, i) =>
      void expect(Math.abs(x - wanted[i]!), `${what} ${i}: ${x} ${wanted[i]}`).toBeLessThan(
        2e-5 * (1 + Math.abs(wanted[i]!)),
      ),
  );
}

const wave = (shape: number[]) => count(shape).mul(0.37).sin();
const LAYERS: Record<string, [make: () => tx.nn.Module, shape: number[], run?: (m: never, x: tx.Tensor) => tx.Tensor]> =
  {
    Conv2d: [() => new nn.Conv2d(3, 4, 3, { padding: 1 }), [8, 3, 5, 5]],
    LayerNorm: [() => new nn.LayerNorm([6]), [8, 6]],
    BatchNorm2d: [() => new nn.BatchNorm2d(3), [8, 3, 4, 4]],
    Dropout: [() => new nn.Sequential(new nn.Linear(6, 8), new nn.Dropout(0.5)), [8, 6]],
    LSTM: [() => new nn.LSTM(4, 6, { batchFirst: true }), [8, 3, 4], (m: tx.nn.LSTM, x) => m.forward(x)[0]],
    MultiheadAttention: [
      () => new nn.MultiheadAttention(8, 2, { batchFirst: true }),
      [8, 4, 8],
      (m: tx.nn.MultiheadAttention, x) => m.forward(x, x, x)[0],
    ],
  };
describe('split over data', () => {
  test.each(Object.entries(LAYERS))('%s: forward and backward', async (_, [make, shape, run]) => {
    const results: number[][][] = [];
    for (const split of [false, true]) {
      tx.manualSeed(3);
      const model = make();
      if (split) dataParallel(model, data);
      const f = tx.compile((x: tx.Tensor) => {
        for (const p of model.parameters()) p.grad = null;
        const y = run ? run(model as never, x) : (model.forward(x as never) as tx.Tensor);
        y.mul(wave([...y.shape]))
          .sum()
          .backward();
        return y;
      });
      const x = () => (split ? shardBatch(wave(shape), data) : wave(shape));
      const y = await f(x());
      const all = [y, ...model.parameters().map((p) => p.grad!), ...model.buffers()].filter((t) => t.dtype === 'f32');
      results.push(await Promise.all(all.map(list)));
      const next = x();
      await tx.sync(next);
      expect(await compiles(() => f(next))).toBe(0);
    }
    results[1]!.forEach((values, i) => void expectClose(values, results[0]![i]!, `result ${i}`));
  });
});

/** Losses of some steps, and the parameters after them. */
async function train(
  place: ((m: tx.nn.Module) => void) | undefined,
  body: (model: tx.nn.Module, x: tx.Tensor) => () => tx.Tensor,
  steps = 4,
) {
  tx.manualSeed(0);
  const model = new nn.Sequential(new nn.Linear(8, 16), new nn.Tanh(), new nn.Dropout(0.2), new nn.Linear(16, 8));
  place?.(model);
  const x = wave([8, 8]);
  if (place) markSharding(x, line, ['all']);
  const step = tx.compile(body(model, x));
  const values: number[] = [];
  for (let i = 0; i < steps; i++) values.push(Number(await (await step()).item()));
  for (const p of model.parameters()) values.push(...(await list(p)));
  expect(step.programs).toBe(1);
  return { model, values, step };
}
const lossOf = (model: tx.nn.Module, x: tx.Tensor) => (model.forward(x as never) as tx.Tensor).sub(x).square().mean();

describe('training', () => {
  const ways: Record<string, (model: tx.nn.Module, x: tx.Tensor) => () => tx.Tensor> = {
    'SGD with momentum, clipped': (model, x) => {
      const o = new optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.9 });
      return () => {
        o.zeroGrad();
        const loss = lossOf(model, x);
        loss.backward();
        const norm = optim.clipGradNorm(model.parameters(), 0.1);
        o.step();
        return loss.add(norm);
      };
    },
    'AdamW, averaged': (model, x) => {
      const o = new optim.AdamW(model.parameters(), { lr: 0.01 });
      const ema = new optim.EMA(model.parameters(), { decay: 0.9 });
      return () => {
        o.zeroGrad();
        const loss = lossOf(model, x);
        loss.backward();
        o.step();
        ema.update();
        return loss.add(ema.averages[0]!.sum());
      };
    },
    'a scaled loss of micro-batches': (model, x) => {
      const o = new optim.Adam(model.parameters(), { lr: 0.01 });
      const scaler = new optim.GradScaler({ initScale: 8, growthInterval: 2 });
      return () => {
        o.zeroGrad();
        const loss = tx.accumulate(x.reshape([2, 4, 8]), (part) => scaler.scale(lossOf(model, part)));
        scaler.step(o);
        scaler.update();
        return loss;
      };
    },
  };
  test.each(Object.entries(ways))('%s: fsdp as one device, in one program', async (_, body) => {
    const one = await train(undefined, body);
    const many = await train((m) => void fsdp(m as never, line, ALL), body);
    expectClose(many.values, one.values, 'value');
    for (const p of many.model.parameters()) expect(stored(p).sharding.isReplicated).toBe(false);
  });

  test('steps leave no more buffers than they found', async () => {
    for (const place of [undefined, (m: tx.nn.Module) => void fsdp(m as never, line, ALL)]) {
      const { step } = await train(place, ways['AdamW, averaged']!);
      const before = await settled();
      for (let i = 0; i < 10; i++) await step(); // what they return is not kept, either
      expect(await settled()).toBeLessThanOrEqual(before + (place ? 8 : 1)); // the last result
    }
  });

  test('two models in one process, one of them split', async () => {
    const body = ways['SGD with momentum, clipped']!;
    const alone = await train(undefined, body);
    const split = await train((m) => void fsdp(m as never, line, ALL), body);
    const again = await train(undefined, body);
    expect(again.values).toEqual(alone.values);
    expect(again.model.parameters().every((p) => shardingOf(p) === undefined)).toBe(true);
    expect(await compiles(async () => [await split.step(), await alone.step(), await again.step()])).toBe(0);
    // From one into the other: values go, places stay.
    split.model.loadStateDict(alone.model.stateDict());
    for (const [i, p] of split.model.parameters().entries()) {
      expect(await list(p)).toEqual(await list(alone.model.parameters()[i]!));
      expect(String(shardingOf(p))).toContain('all');
    }
    alone.model.loadStateDict(split.model.stateDict());
    await tx.sync();
    expect(await compiles(async () => void (await split.step()))).toBe(0);
    expect(alone.model.parameters().every((p) => !shardingOf(p) || shardingOf(p)!.isReplicated)).toBe(true);
  });

  test('the parameters of a stack of layers are made where they belong', async () => {
    tx.manualSeed(4);
    const one = new nn.LayerStack([0, 1, 2, 3].map(() => new nn.Linear(8, 8)));
    const expected = await list(one.parameters()[0]!);
    tx.manualSeed(4);
    const many = fsdp(new nn.LayerStack([0, 1, 2, 3].map(() => new nn.Linear(8, 8))), line, ALL);
    const alone = tx.metrics.counter('ExecuteComputation');
    const weight = many.parameters()[0]!;
    expect(await list(weight)).toEqual(expected);
    expect(stored(weight).shards.map((s) => s.type.shape)).toEqual(new Array(8).fill([4, 1, 8]));
    expect(tx.metrics.counter('ExecuteComputation')! - alone!).toBeLessThanOrEqual(1); // the states of the generator
  });

  test('another dtype keeps the places', async () => {
    const model = new nn.Linear(8, 8);
    fsdp(model, line, ALL);
    await tx.sync(model.weight.add(0));
    model.to('bf16');
    expect(String(shardingOf(model.weight))).toBe('[all] over all=8');
    await tx.sync(model.weight);
    expect(model.weight.dtype).toBe('bf16');
    expect(stored(model.weight).shards.map((s) => s.type.shape)).toEqual(new Array(8).fill([1, 8]));
  });

  test('another shape is not split as the old one was', async () => {
    const t = markSharding(count([8]), line, ['all']);
    await tx.sync(t.add(0));
    t.become(count([3]).add(1).expr);
    expect(shardingOf(t)).toBeUndefined();
    expect(await list(t)).toEqual([1, 2, 3]);
  });

  test('an optimizer made before the model was split lies beside it', async () => {
    const model = new nn.Linear(8, 8);
    const o = new optim.Adam(model.parameters());
    await tx.sync();
    fsdp(model, line, ALL);
    const x = markSharding(wave([8, 8]), line, ['all']);
    const step = tx.compile(() => {
      o.zeroGrad();
      lossOf(model, x).backward();
      o.step();
    });
    await step();
    await step();
    expect(step.programs).toBe(1);
    const { expAvg } = o.state.get(model.weight) as Record<string, tx.Tensor>;
    expect(stored(expAvg!).sharding).toBe(stored(model.weight).sharding);
  });

  test('marking a parameter anew is one more program, with the same numbers', async () => {
    const { model, step } = await train((m) => void fsdp(m as never, line, ALL), ways['SGD with momentum, clipped']!);
    const w = model.parameters()[0]!;
    markSharding(w, mesh, [['model', 'data']]);
    expect(await compiles(() => step())).toBeGreaterThan(0);
    expect(await compiles(() => step())).toBe(0);
    const one = await train(undefined, ways['SGD with momentum, clipped']!, 6);
    expectClose(await list(w), await list(one.model.parameters()[0]!), 'weight');
  });
});

test('a second process compiles nothing; another order of devices is another program', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'tsxla-split-'));
  const child = fileURLToPath(new URL('../fixtures/split-child.mjs', import.meta.url));
  const run = async (devices: string) => {
    const { TSXLA_CACHE: _, ...inherited } = process.env;
    const env = { ...inherited, XLA_PERSISTENT_CACHE_PATH: folder, CPU_NUM_DEVICES: '4' };
    const { stdout } = await promisify(execFile)(process.execPath, [child, devices], { env });
    return JSON.parse(stdout) as { values: number[]; compiled: number; devices: number[] };
  };
  try {
    const first = await run('0,1,2,3');
    expect(first.compiled).toBeGreaterThan(0);
    expect(await run('0,1,2,3')).toEqual({ ...first, compiled: 0 });
    const other = await run('3,1,2,0');
    expect(other).toEqual({ ...first, devices: [3, 1, 2, 0] });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
