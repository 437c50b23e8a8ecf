// The same training code on one device and on eight, split in every way: the same losses, the collectives that each way needs,
// and no device with more than its part. The eight are virtual, in one process: real partitioning, real collectives.
process.env.CPU_NUM_DEVICES = '8';
process.env.TSXLA_CACHE = 'off';

import * as tx from 'tsxla';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ShardedArray } from '../../dist/runtime/sharded.js';
import { defaultClient } from '../../dist/runtime/value.js';

const { Mesh, dataParallel, fsdp, shardBatch, tensorParallel } = tx.spmd;
const { QWEN3_TENSOR_PARALLEL, Qwen3ForCausalLM } = tx.models;

const CONFIG = {
  vocabSize: 256,
  hiddenSize: 32,
  intermediateSize: 64,
  numHiddenLayers: 2,
  numAttentionHeads: 4,
  numKeyValueHeads: 4,
  headDim: 8,
  tieWordEmbeddings: true,
};
const [B, T, STEPS] = [8, 16, 50];
const ALL = { minSize: 1 }; // the small ones, too

type Model = InstanceType<typeof Qwen3ForCausalLM>;
interface Way {
  readonly mesh: InstanceType<typeof Mesh>;
  readonly split: (model: Model, mesh: InstanceType<typeof Mesh>) => Model;
  /** Which collectives its program needs, in XLA's words on the CPU: it reduces and then takes a part. */
  readonly collectives: readonly string[];
  /** What part of the parameters a device has. */
  readonly part: number;
  readonly batch?: tx.spmd.BatchOptions;
}
const WAYS: Readonly<Record<string, Way>> = {
  'data-parallel': {
    mesh: new Mesh([8], ['data']),
    split: (m, mesh) => dataParallel(m, mesh),
    collectives: ['all-reduce'],
    part: 1,
  },
  fsdp: {
    mesh: new Mesh([8], ['fsdp']),
    split: (m, mesh) => fsdp(m, mesh, ALL),
    collectives: ['all-gather', 'all-reduce'],
    part: 1 / 8,
  },
  'tensor-parallel': {
    mesh: new Mesh([4], ['model']),
    split: (m, mesh) => tensorParallel(m, mesh, QWEN3_TENSOR_PARALLEL),
    collectives: ['all-reduce'],
    part: 1 / 4,
  },
  'fsdp x tensor-parallel': {
    mesh: new Mesh([2, 4], ['fsdp', 'model']),
    split: (m, mesh) => fsdp(tensorParallel(m, mesh, QWEN3_TENSOR_PARALLEL), mesh, ALL),
    collectives: ['all-gather', 'all-reduce'],
    part: 1 / 8,
  },
  'data-parallel x sequence': {
    mesh: new Mesh([2, 4], ['data', 'sequence']),
    split: (m, mesh) => dataParallel(m, mesh),
    // Keys and values are gathered; of token ids, neighbours of the next part are.
    collectives: ['all-gather', 'all-reduce', 'all-to-all', 'collective-permute'],
    part: 1,
    batch: { sequence: 'sequence' },
  },
};

function setUp(way: Way | undefined, scanLayers = false) {
  tx.manualSeed(7);
  const made = new Qwen3ForCausalLM(CONFIG, { scanLayers, checkpoint: scanLayers });
  const model = way ? way.split(made, way.mesh) : made;
  const optimizer = new tx.optim.AdamW(model.parameters(), { lr: 3e-3 });
  const train = tx.compile(
    (ids: tx.Tensor) => {
      optimizer.zeroGrad();
      const loss = model.loss(ids);
      loss.backward();
      optimizer.step();
      return loss;
    },
    { name: 'train' },
  );
  return { model, optimizer, train };
}
/** Sequences with something to learn: each counts up from its own start, by its own step. */
function batch(i: number, way: Way | undefined): tx.Tensor {
  const data = Int32Array.from({ length: B * T }, (_, j) => {
    const row = Math.floor(j / T);
    return (i * 31 + row * 17 + (j % T) * (1 + (row % 3))) % 256;
  });
  const ids = tx.fromBuffer(data, { dtype: 'i32', shape: [B, T] });
  return way ? shardBatch(ids, way.mesh, way.batch) : ids;
}
async function curve({ train }: ReturnType<typeof setUp>, way: Way | undefined, steps = STEPS): Promise<number[]> {
  const losses: number[] = [];
  for (let i = 0; i < steps; i++) losses.push(Number(await (await train(batch(i, way))).item()));
  return losses;
}

/** What the optimized program exchanges between devices, by name. */
async function optimized(s: ReturnType<typeof setUp>, way: Way) {
  const client = await defaultClient();
  const text = s.train.stablehlo([batch(0, way)]);
  const executable = await client.compile(text, { useSpmd: true, deviceIds: way.mesh.devices });
  const hlo = await executable.optimizedHlo();
  const found = hlo.matchAll(/ (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(/g);
  return { hlo, collectives: new Set([...found].map((m) => m[1]!)), inputs: executable.inputs };
}

let single: number[];
beforeAll(async () => {
  single = await curve(setUp(undefined), undefined);
});

describe.each(Object.entries(WAYS))('%s', (_, way) => {
  let state: ReturnType<typeof setUp>;
  let losses: number[];
  beforeAll(async () => {
    state = setUp(way);
    losses = await curve(state, way);
  });

  test('gives the losses of one device within 1e-4 over 50 steps', () => {
    expect(single[0]! - single.at(-1)!).toBeGreaterThan(1); // there was something to learn
    losses.forEach((loss, i) => void expect(Math.abs(loss - single[i]!), `step ${i}`).toBeLessThan(1e-4));
  });

  test('is one program, after what was pending', () => {
    expect(state.train.programs).toBe(1);
  });

  test('exchanges what it needs to, and nothing else', async () => {
    const { collectives } = await optimized(state, way);
    expect([...collectives].sort()).toEqual(way.collectives);
  });

  test('no device holds more than its part of any matrix, nor of its moments', () => {
    const held = (t: tx.Tensor) =>
      (t.peek()!.record!.value as ShardedArray).shards.map((s) => s.type.shape.reduce((a, b) => a * b) / t.numel());
    for (const p of state.model.parameters().filter((p) => p.ndim === 2)) {
      const { expAvg, expAvgSq } = state.optimizer.state.get(p) as Record<string, tx.Tensor>;
      for (const t of [p, expAvg!, expAvgSq!]) expect(new Set(held(t))).toEqual(new Set([way.part]));
    }
  });
});

test('with layers in one loop, fsdp x tensor-parallel gives the losses of one device', async () => {
  const way = WAYS['fsdp x tensor-parallel']!;
  const alone = await curve(setUp(undefined, true), undefined, 10);
  const losses = await curve(setUp(way, true), way, 10);
  losses.forEach((loss, i) => void expect(Math.abs(loss - alone[i]!), `step ${i}`).toBeLessThan(1e-4));
});

test('random numbers agree with one device, bit for bit', async () => {
  const mesh = new Mesh([8], ['data']);
  const draw = (split: boolean) => {
    tx.manualSeed(3);
    const all = [tx.randn([64, 8]), tx.rand([64, 8]), tx.randperm(64)];
    if (split) for (const t of all) tx.spmd.markSharding(t, mesh, ['data']);
    return Promise.all(all.map((t) => t.data()));
  };
  const [one, many] = [await draw(false), await draw(true)];
  expect(many).toEqual(one);
  const drop = (x: tx.Tensor) => tx.compile((x: tx.Tensor) => tx.nn.functional.dropout(x, { p: 0.5 }))(x);
  tx.manualSeed(5);
  const here = await (await drop(tx.ones([64, 8]))).data();
  tx.manualSeed(5);
  const there = await (await drop(tx.spmd.shard(tx.ones([64, 8]), mesh, ['data']))).data();
  expect(there).toEqual(here);
});

afterAll(async () => void (await tx.sync({ wait: true })));
