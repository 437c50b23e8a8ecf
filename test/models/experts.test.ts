// Routed experts: which ones are chosen, the loss that evens them, memory and programs of the dispatch, several devices.
process.env.CPU_NUM_DEVICES = '4';
process.env.TSXLA_CACHE = 'off';

import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { readSafetensors } from 'tsxla/io';
import { loadStudent, mergeStudent, saveStudent } from 'tsxla/recovery';
import { describe, expect, test } from 'vitest';
import { RoutedMLP } from '../../dist/models/experts.js';
import { defaultClient } from '../../dist/runtime/value.js';
import { scratch } from '../scratch.js';
import { goldenPath } from '../support.js';
import { fill, golden } from './architectures.js';

const { AutoModelForCausalLM } = tx.models;
const { newFolder } = scratch('experts');
const make = async (name: string, options: tx.models.DecoderOptions = {}, change: object = {}) => {
  const model = AutoModelForCausalLM.fromConfig({ ...golden(name).config, ...change }, options).eval();
  await fill(model);
  return model;
};
const tokens = (ids: readonly (readonly number[])[]) => tx.tensor(ids, { dtype: 'i32' });
/** As scripts/golden/models.py has it: the second row begins with 5 of padding. */
const masked = () => tokens([Array(26).fill(1), [...Array(5).fill(0), ...Array(21).fill(1)]]).bool();

describe.each(['qwen3-moe', 'qwen3-moe-mixed', 'mixtral'])('%s', (name) => {
  const facts = golden(name);
  test('each token goes through the experts that transformers chooses, padding aside; the load-balancing loss is the same', async () => {
    const numbers = await readSafetensors(goldenPath(`models/${name}.safetensors`));
    const model = await make(name);
    const inputs = { attentionMask: masked(), outputRouterLogits: true } as const;
    const { routerLogits, auxLoss } = model.forward(tokens(facts.ids), inputs);
    const k = facts.config.num_experts_per_tok as number;
    const chosen = routerLogits!.map((logits) => logits.topk(k).indices.to('i32'));
    await tx.sync(auxLoss!, ...chosen);
    const wanted = [...numbers.keys()].filter((key) => key.startsWith('experts.'));
    expect(chosen.length).toBe(wanted.length);
    for (const [i, indices] of chosen.entries()) {
      const { data } = numbers.get(`experts.${i}`)!;
      const counts = (n: number) => n < 26 * k || n >= 31 * k; // transformers gives padding other hidden states
      expect(Array.from(await indices.data(), Number).filter((_, n) => counts(n))).toEqual(
        Array.from(data as Int32Array).filter((_, n) => counts(n)),
      );
    }
    expect(await auxLoss!.item()).toBeCloseTo((numbers.get('aux_loss')!.data as Float32Array)[0]!, 5);
  });

  test('layers one by one and as a loop have the same load, and add the same to the loss', async () => {
    const losses: number[] = [];
    for (const scanLayers of [false, true]) {
      const model = await make(name, { scanLayers });
      const inputs = { attentionMask: masked() };
      const plain = model.loss(tokens(facts.ids), tokens(facts.ids), { ...inputs, outputRouterLogits: false });
      const more = model.loss(tokens(facts.ids), tokens(facts.ids), { ...inputs, outputRouterLogits: true });
      const { auxLoss } = model.forward(tokens(facts.ids), { ...inputs, outputRouterLoad: true });
      const [a, b, c] = await tx.read(plain, more, auxLoss!);
      losses.push(Number(c));
      expect(Number(b) - Number(a)).toBeCloseTo((facts.config.router_aux_loss_coef as number) * Number(c), 4);
    }
    expect(losses[0]).toBeCloseTo(losses[1]!, 5);
  });
});

/** E experts of which a token goes through k. */
const block = (E: number, k: number) =>
  new tx.models.RoutedMLP({ hiddenSize: 32, intermediateSize: 16 }, { numExperts: E, topK: k, normalized: true });

test('what the dispatch takes grows with tokens x k, and not with the number of experts', async () => {
  const temporaries = async (N: number, E: number, k: number): Promise<number> => {
    const mlp = block(E, k);
    const run = tx.compile((x: tx.Tensor) => {
      mlp.forward(x).square().sum().backward();
      const grads = mlp.parameters().map((p) => p.grad!);
      mlp.zeroGrad();
      return grads;
    });
    return (await run.prepare([tx.zeros([1, N, 32])])).memory.temporaries;
  };
  const [N, k] = [512, 2];
  const few = await temporaries(N, 8, k);
  const many = await temporaries(N, 32, k);
  const rows = N * k * (32 + 3 * 16) * 4; // a row of each width, in bytes
  const gradients = (E: number) => 3 * E * 16 * 32 * 4;
  expect(few).toBeLessThan(8 * rows + gradients(8));
  expect(many - few).toBeLessThan(2 * (gradients(32) - gradients(8)) + 4 * N * 32 * 4); // the router's own [N, E]
  expect(many).toBeLessThan(N * 32 * 32 * 4 + gradients(32)); // less than one row of each token for each expert
});

test('nothing is dropped: all tokens may choose the same experts', async () => {
  const mlp = block(4, 2);
  tx.noGrad(() => mlp.gate.weight.zero_()); // all alike: the first two
  const x = tx.randn([1, 40, 32]);
  const [got, , alone] = [
    mlp.forward(x),
    null,
    [0, 1].map((e) => {
      const [gate, up, down] = ['gateProj', 'upProj', 'downProj'].map((n) =>
        mlp.experts.expert[n as 'upProj'].weight.select(0, e),
      );
      const y = tx.nn.functional.silu(x.matmul(gate!.t())).mul(x.matmul(up!.t()));
      return y.matmul(down!.t()).mul(0.5);
    }),
  ];
  const off = got.sub(alone[0]!.add(alone[1]!)).abs().max();
  expect(await off.item()).toBeLessThan(1e-5);
});

test('other tokens, other experts: the same program', async () => {
  const model = await make('qwen3-moe');
  const optimizer = new tx.optim.SGD(model.parameters(), { lr: 0.1 });
  const train = tx.compile((ids: tx.Tensor) => {
    optimizer.zeroGrad();
    const loss = model.loss(ids, ids, { outputRouterLogits: true });
    loss.backward();
    optimizer.step();
    return loss;
  });
  const { ids } = golden('qwen3-moe');
  const losses = [await (await train(tokens(ids))).item()];
  const before = tx.metrics.counter('StableHloCompile');
  for (let i = 0; i < 3; i++)
    losses.push(await (await train(tokens(ids.map((row) => row.map((t) => (t * 5 + i) % 97))))).item());
  expect(tx.metrics.counter('StableHloCompile')).toBe(before);
  expect(new Set(losses).size).toBe(4);
});

test('on a TPU it is one ragged product', () => {
  const mlp = block(4, 2);
  const run = tx.compile((x: tx.Tensor) => mlp.forward(x));
  const text = run.lower([tx.zeros([1, 8, 32])], { platform: 'tpu' }).text;
  expect(text.match(/"chlo\.ragged_dot"/g)?.length).toBe(3);
});

test.each([
  ['f32', 'f32', ''],
  ['bf16', 'bf16', ''],
  ['f16', 'f32', 'HIGHEST'],
] as const)(
  'on a TPU %s rows are padded to 8, and multiplied as %s: libtpu has a kernel for those',
  (dtype, as, precise) => {
    const [rows, ends] = [tx.zeros([30, 16], { dtype }), tx.zeros([4], { dtype: 'i32' })];
    const run = tx.compile((x: tx.Tensor, ends: tx.Tensor) => {
      const y = tx.groupedMm(x, tx.zeros([4, 16, 24], { dtype }), ends);
      return [y, tx.groupedMm(x.t(), y, ends)];
    });
    const { text } = run.lower([rows, ends], { platform: 'tpu' });
    const products = text.split('\n').filter((line) => line.includes('"chlo.ragged_dot"'));
    expect(products.map((line) => line.match(/tensor<[\dx]+\w+>/g))).toEqual([
      [`tensor<32x16x${as}>`, `tensor<4x16x24x${as}>`, 'tensor<4xi32>', `tensor<32x24x${as}>`],
      [`tensor<32x16x${as}>`, `tensor<32x24x${as}>`, 'tensor<4xi32>', `tensor<4x16x24x${as}>`],
    ]);
    const told = products.map((line) => /#chlo<precision (\w+)>/.exec(line)?.[1] ?? '');
    expect(told).toEqual([precise, precise]);
  },
);

test.each([
  ['high', 'HIGHEST'],
  ['highest', 'HIGHEST'],
] as const)('on a TPU a product of f32 with precision %s is one with %s', (precision, told) => {
  const run = tx.compile((x: tx.Tensor, w: tx.Tensor, ends: tx.Tensor) =>
    tx.matmulPrecision(precision, () => tx.groupedMm(x, w, ends)),
  );
  const args = [tx.zeros([8, 4]), tx.zeros([2, 4, 4]), tx.zeros([2], { dtype: 'i32' })] as const;
  const { text } = run.lower([...args], { platform: 'tpu' });
  expect(text).toContain(`precision_config = [#chlo<precision ${told}>, #chlo<precision ${told}>]`);
});

test.each([
  ['qwen3-moe', { router_aux_loss_coef: 1 }, 'mlp', ['gate_proj', 'up_proj', 'down_proj']],
  ['mixtral', { router_jitter_noise: 0 }, 'block_sparse_moe', ['w1', 'w3', 'w2']],
] as const)('%s: files have the names and shapes of the hub', async (name, change, block, [gate, up, down]) => {
  const model = await make(name, { scanLayers: true }, change);
  const folder = newFolder();
  await model.savePretrained(folder);
  const arrays = await readSafetensors(path.join(folder, 'model.safetensors'));
  const own = `model.layers.1.${block}`;
  const found = Object.fromEntries(
    [...arrays].flatMap(([key, { shape }]) => (key.startsWith(own) ? [[key.slice(own.length + 1), [...shape]]] : [])),
  );
  const E = name === 'mixtral' ? 5 : 8;
  const experts = Array.from({ length: E }, (_, e) => [
    [`experts.${e}.${gate}.weight`, [24, 32]],
    [`experts.${e}.${up}.weight`, [24, 32]],
    [`experts.${e}.${down}.weight`, [32, 24]],
  ]);
  expect(found).toEqual({ 'gate.weight': [E, 32], ...Object.fromEntries(experts.flat()) });
  const config = fs.readFileSync(path.join(folder, 'config.json'), 'utf8');
  for (const [key, value] of Object.entries(change)) expect(config).toContain(`"${key}": ${value}.0`); // transformers refuses 0
});

test('quantized experts: text is generated; adapters become codes of their own', async () => {
  const model = await make('mixtral', {}, { num_hidden_layers: 1, num_local_experts: 3 });
  await tx.quant.quantizeModel(model, { preset: 'q4a4', options: { scaleRank: 1 } });
  const prompt = [5, 6, 7, 8, 9, 10];
  const ids = tokens([prompt]);
  const before = model.forward(ids);
  const [generated] = await model.generate(prompt, { maxNewTokens: 4 });
  expect(generated!.tokens[0]).toBe(Number(await before.select(1, -1).argmax(-1).item()));
  tx.lora.addLora(model, { targets: ['w2'], rank: 2, alpha: 4 });
  for (const { loraB } of tx.lora.adaptersOf(model).values())
    loraB.assign(Float32Array.from({ length: loraB.numel() }, (_, i) => Math.sin(i)));
  const { errors } = await mergeStudent(model, 'requantize');
  expect([...errors.keys()]).toEqual([0, 1, 2].map((e) => `model.layers.0.block_sparse_moe.experts.${e}.w2`));
  expect(new Set(errors.values()).size).toBe(3);
  expect(Math.max(...errors.values())).toBeLessThan(0.3);
  const folder = newFolder();
  await saveStudent(folder, model);
  const { model: again } = await loadStudent(folder, { dtype: 'f32' });
  const [was, now, own] = await Promise.all([before, model.forward(ids), again.forward(ids)].map((y) => y.data()));
  expect(own).toEqual(now);
  expect(own).not.toEqual(was);
});

const { Mesh, parallelize, shardBatch } = tx.spmd;
/** Of adapted experts: the loss, the result and all gradients; and how devices exchange values, and the sizes of these. */
async function adapted(mesh?: InstanceType<typeof Mesh>) {
  const mlp = new RoutedMLP({ hiddenSize: 16, intermediateSize: 12 }, { numExperts: 8, topK: 2, normalized: true });
  const model = new tx.nn.Sequential(mlp as unknown as tx.nn.Linear);
  tx.lora.addLora(model, { targets: ['gate_proj', 'up_proj', 'down_proj'], rank: 2 });
  const wave = (n: number, by: number) => Float32Array.from({ length: n }, (_, j) => Math.sin(j * by + 1));
  for (const p of model.parameters()) p.assign(wave(p.numel(), 0.37).map((v) => v * 0.3));
  for (const p of mlp.gate.parameters()) p.requiresGrad_(true);
  const x = tx.tensor(wave(16 * 8 * 16, 1.7), { shape: [16, 8, 16], requiresGrad: true });
  if (mesh) parallelize(model, mesh, { 'experts.*': -1 });
  if (mesh) shardBatch(x, mesh, mesh.axisNames.includes('sequence') ? { sequence: 'sequence' } : {});
  const trained = [x, ...[...model.parameters()].filter((p) => p.requiresGrad)];
  const run = tx.compile((x: tx.Tensor) => {
    const y = model.forward(x);
    const loss = y.square().mean();
    return [loss, y, ...tx.grad(loss, [x, ...trained.slice(1)])];
  });
  const got = await Promise.all((await run(x)).map(async (t) => Array.from((await t.data()) as Float32Array)));
  expect(got).toHaveLength(2 + 1 + 1 + 6);
  if (!mesh) return { got, kinds: [], sizes: [] };
  const client = await defaultClient();
  const program = await client.compile(run.stablehlo([x]), { useSpmd: true, deviceIds: mesh.devices });
  const sums = [...(await program.optimizedHlo()).matchAll(/= (.*?) (all-\w+|reduce-scatter|collective-permute)\(/g)];
  const sizes = sums.flatMap(([, types]) => [...types!.matchAll(/\w\[([\d,]*)\]/g)].map((m) => m[1]!));
  return {
    got,
    kinds: sums.map((m) => m[2]!),
    sizes: sizes.map((dims) => dims.split(',').reduce((n, d) => n * Number(d || 1), 1)),
  };
}

test('each device computes its tokens with its experts: no token is sent, and gradients are those of one device', async () => {
  const { got: want } = await adapted();
  const meshes = [
    new Mesh([4], ['fsdp']),
    new Mesh([4], ['model']), // each has all tokens, and their results are added
    new Mesh([2, 2], ['data', 'model']),
    new Mesh([2, 2], ['data', 'sequence']),
  ];
  for (const mesh of meshes) {
    const split = await adapted(mesh);
    for (const [i, list] of split.got.entries()) {
      const scale = Math.max(...want[i]!.map(Math.abs));
      expect(scale, `${mesh}: ${i}`).toBeGreaterThan(1e-6);
      const errors = list.map((v, j) => Math.abs(v - want[i]![j]!) / scale);
      expect(Math.max(...errors), `${mesh}: ${i}`).toBeLessThan(1e-5);
    }
    expect(new Set(split.kinds), String(mesh)).toEqual(new Set(['all-reduce']));
    const tokens = (16 * 8) / (4 / mesh.sizeOf(mesh.axisNames.filter((axis) => axis === 'model'))); // of each device
    // The sums of results and of gradients. Without an axis for experts, gradients alone: less than the rows inside of experts.
    if (mesh.axisNames.includes('model')) expect(Math.max(...split.sizes), String(mesh)).toBe(tokens * 16);
    else expect(Math.max(...split.sizes), String(mesh)).toBeLessThan(tokens * 2 * 12);
  }
});

test('one prompt, which devices cannot split: each has it, with experts of its own', async () => {
  const model = await make('qwen3-moe', {}, { vocab_size: 96 });
  const prompt = [5, 6, 7, 8];
  const [alone] = await model.generate(prompt, { maxNewTokens: 3 });
  parallelize(model, new Mesh([2, 2], ['data', 'model']), model.architecture.tensorParallel);
  const [split] = await model.generate(prompt, { maxNewTokens: 3 });
  expect(split!.tokens).toEqual(alone!.tokens);
});

test('experts split over devices: losses and gradients of one device', async () => {
  const ids = golden('qwen3-moe').ids.map((row) => row.map((t) => t % 96)); // a vocabulary that splits
  const batch = [...ids, ...ids.map((row) => row.map((t) => (t * 7) % 96))];
  const train = async (mesh: InstanceType<typeof Mesh> | null) => {
    const model = await make('qwen3-moe', { scanLayers: true }, { vocab_size: 96 });
    if (mesh) parallelize(model, mesh, model.architecture.tensorParallel);
    const optimizer = new tx.optim.SGD(model.parameters(), { lr: 0.1 });
    const step = tx.compile((ids: tx.Tensor) => {
      optimizer.zeroGrad();
      const loss = model.loss(ids, ids, { outputRouterLogits: true });
      loss.backward();
      optimizer.step();
      return loss;
    });
    const given = mesh ? shardBatch(tokens(batch), mesh) : tokens(batch);
    const losses: number[] = [];
    for (let i = 0; i < 3; i++) losses.push(await (await step(given)).item());
    const weight = new Map(model.namedParameters()).get('model.layers.*.mlp.experts.*.gate_proj.weight')!;
    return { losses, spec: mesh && String(tx.spmd.shardingOf(weight)) };
  };
  const alone = await train(null);
  const split = await train(new Mesh([2, 2], ['data', 'model']));
  expect(split.spec).toBe('[null, model] over data=2, model=2'); // [layers, experts, out, in]
  for (const [i, loss] of split.losses.entries()) expect(loss).toBeCloseTo(alone.losses[i]!, 4);
});
