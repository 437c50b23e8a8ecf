// Adapters in files: PEFT's, the original's, and our own in their layouts.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import * as tx from 'tsxla';
import { afterAll, expect, test } from 'vitest';
import { load, relativeError } from '../models/support.js';
import { goldenPath } from '../support.js';

const { lora } = tx;
const PEFT = goldenPath('lora/peft');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-lora-'));
afterAll(() => fs.rmSync(folder, { recursive: true }));
const config = (from: string) => JSON.parse(fs.readFileSync(path.join(from, 'adapter_config.json'), 'utf8'));
const WEIGHTS = 'adapter_model.safetensors';

const EMBEDDINGS = goldenPath('lora/embeddings'); // model.embed_tokens is trained, to which lm_head is tied
const ONE_LAYER = goldenPath('lora/one-layer'); // layers_to_transform is [1]
const SCAN = { scanLayers: true };

test.each([
  ['plain layers', PEFT, {}],
  ['a LayerStack', PEFT, SCAN],
  ['tied embeddings', EMBEDDINGS, {}],
] as const)('%s: what PEFT wrote is written as PEFT has it, array by array', async (_, peft, options) => {
  const model = await load('tied', options);
  await lora.loadAdapters(model, peft);
  await lora.saveAdapters(model, folder, { baseModel: 'qwen3/tied' });
  const [theirs, ours] = await Promise.all([peft, folder].map((f) => tx.io.readSafetensors(path.join(f, WEIGHTS))));
  expect([...ours!.keys()].sort()).toEqual([...theirs!.keys()].sort());
  for (const [name, array] of theirs!) expect(ours!.get(name), name).toEqual(array);
  const [want, got] = [config(peft), config(folder)];
  for (const key of Object.keys(got)) {
    const sorted = (x: unknown) => (Array.isArray(x) ? [...x].sort() : x);
    expect(sorted(got[key]), key).toEqual(sorted(want[key]));
  }
});

const more = await tx.io.readSafetensors(goldenPath('lora/more.safetensors'));
const logitsOf = async (model: tx.models.Qwen3ForCausalLM) => {
  const { data, shape } = more.get('ids')!;
  return (await model.forward(tx.tensor(data, { shape }).to('i32')).data()) as Float32Array;
};

test.each([
  ['tied embeddings', 'embeddings', {}],
  ['tied embeddings of a LayerStack', 'embeddings', SCAN],
  ['one layer', 'one-layer', {}],
  ['one layer of a LayerStack', 'one-layer', SCAN],
] as const)('%s, as PEFT saved them, give the logits of PEFT', async (_, name, options) => {
  const model = await load('tied', options);
  const before = await logitsOf(model);
  await lora.loadAdapters(model, goldenPath(`lora/${name}`));
  expect(relativeError(await logitsOf(model), more.get(name)!)).toBeLessThan(1e-5);
  expect(relativeError(before, more.get(name)!)).toBeGreaterThan(0.01);
});

test('layers of a LayerStack that files have no adapters for are left as they are by training, too', async () => {
  const model = await load('tied', SCAN);
  await lora.loadAdapters(model, ONE_LAYER);
  const optimizer = new tx.optim.AdamW(
    model.parameters().filter((p) => p.requiresGrad),
    { lr: 0.1, weightDecay: 0 },
  );
  model.loss(tx.tensor([[1, 5, 9, 2]], { dtype: 'i32' })).backward();
  optimizer.step();
  const adapter = lora.adaptersOf(model).get('model.layers.*.mlp.up_proj')!;
  const [first, second] = (await adapter.loraA.tolist()) as number[][][];
  expect(new Set(first!.flat())).toEqual(new Set([0]));
  expect(new Set(second!.flat()).size).toBeGreaterThan(1);
  expect(() => lora.addLora(model, {})).toThrow('already has adapters');
});

test('addLora on some layers of a LayerStack says what to do', async () => {
  const model = await load('tied', SCAN);
  const some = (name: string) => name === 'model.layers.1.mlp.up_proj';
  expect(() => lora.addLora(model, { targets: some })).toThrow(
    'addLora: the function in targets selects model.layers.1.mlp.up_proj but not model.layers.0.mlp.up_proj: all layers of a LayerStack get adapters together: select all of them, or create the model with scanLayers: false',
  );
});

test('embeddings that are tied here but were trained apart are refused', async () => {
  const apart = path.join(folder, 'apart');
  const write = async (tied: boolean | undefined, change: (arrays: Map<string, tx.io.HostArray>) => void) => {
    fs.mkdirSync(apart, { recursive: true });
    const { ensure_weight_tying: _, ...others } = config(EMBEDDINGS);
    const json = { ...others, ...(tied !== undefined && { ensure_weight_tying: tied }) };
    fs.writeFileSync(path.join(apart, 'adapter_config.json'), JSON.stringify(json));
    const arrays = await tx.io.readSafetensors(path.join(EMBEDDINGS, WEIGHTS));
    change(arrays);
    await tx.io.writeSafetensors(path.join(apart, WEIGHTS), arrays);
  };
  const HEAD = 'base_model.model.lm_head.weight';
  const said = expect.stringMatching(
    /embed_tokens\.weight and lm_head\.weight were trained separately .* but are one tensor/,
  );
  await write(false, (arrays) => void arrays.delete(HEAD));
  await expect(lora.loadAdapters(await load('tied'), apart)).rejects.toMatchObject({ message: said });
  await write(true, (arrays) => void (arrays.get(HEAD)!.data[0] = 7));
  await expect(lora.loadAdapters(await load('tied'), apart)).rejects.toMatchObject({ message: said });
  await write(undefined, (arrays) => void arrays.delete(HEAD)); // as earlier versions of tsxla wrote them
  const model = await load('tied');
  await lora.loadAdapters(model, apart);
  expect(relativeError(await logitsOf(model), more.get('embeddings')!)).toBeLessThan(1e-5);
});

test.each<[string, unknown, string]>([
  ['null', null, 'its content is null: expected an object'],
  ['a rank of text', { r: '3' }, '"r" is "3": expected a whole number from 1'],
  ['no alpha', { lora_alpha: undefined }, '"lora_alpha" is missing: expected a number'],
  ['a dropout of 2', { lora_dropout: 2 }, '"lora_dropout" is 2: expected a number from 0 to below 1'],
  ['aLoRA', { alora_invocation_tokens: [1] }, 'alora_invocation_tokens is [1]: only LoRA with one rank and alpha'],
])('adapter_config.json: %s is an error that names the file, the key and the value', async (_, change, said) => {
  const broken = path.join(folder, 'broken');
  fs.cpSync(PEFT, broken, { recursive: true });
  const file = path.join(broken, 'adapter_config.json');
  fs.writeFileSync(file, JSON.stringify(change && { ...config(PEFT), ...change }));
  await expect(lora.loadAdapters(new tx.nn.Sequential(), broken)).rejects.toThrow(`${file}: ${said}`);
});

test('the original: the names of the state dict, in one file; from its own files only adapters are read', async () => {
  const model = await load('tied');
  await lora.loadAdapters(model, goldenPath('lora/original.pt'), { alpha: 6 });
  expect([...lora.adaptersOf(model).values()].every((a) => a.rank === 3 && a.alpha === 6)).toBe(true);
  const file = path.join(folder, 'lora.safetensors');
  await lora.saveAdapters(model, file);
  const original = (await tx.io.readTorch(goldenPath('lora/original.pt'))) as Map<string, tx.io.HostArray>;
  original.delete('lm_head.weight');
  expect(new Map([...(await tx.io.readSafetensors(file))].sort())).toEqual(new Map([...original].sort()));
  const stacked = await load('tied', { scanLayers: true });
  await lora.loadAdapters(stacked, file); // alpha is in the file
  expect([...lora.adaptersOf(stacked).values()][0]!.alpha).toBe(6);
});

test('what else is trained is saved, too; layers that short names do not tell apart are named whole', async () => {
  const model = await load('tied');
  lora.addLora(model, { targets: 'layers.1.mlp.up_proj', trainNorms: true });
  const to = path.join(folder, 'norms');
  await lora.saveAdapters(model, to);
  const { target_modules, modules_to_save } = config(to);
  expect(target_modules).toEqual(['model.layers.1.mlp.up_proj']);
  expect(modules_to_save).toContain('model.layers.0.self_attn.q_norm');
  const names = [...(await tx.io.readSafetensors(path.join(to, WEIGHTS))).keys()];
  expect(names.length).toBe(2 + 2 * 4 + 1);
  expect(names).toContain('base_model.model.model.norm.weight');
  const file = path.join(folder, 'norms.safetensors');
  await lora.saveAdapters(model, file);
  const again = await load('tied');
  for (const from of [to, file]) {
    tx.nn.init.zeros_(again.model.norm.weight);
    await lora.loadAdapters(again, from);
    expect(await again.model.norm.weight.data()).toEqual(await model.model.norm.weight.data());
  }
});

test('files that do not fit are told, before the model is changed', async () => {
  const untied = await load('untied'); // other sizes, three layers
  await expect(lora.loadAdapters(untied, PEFT)).rejects.toThrow(
    'is not for this Qwen3ForCausalLM: model.layers.0.mlp.down_proj.lora_B is [64, 3], in the model [32, 3]; ',
  );
  const small = new tx.nn.Sequential(new tx.nn.Linear(4, 4));
  await expect(lora.loadAdapters(small, PEFT)).rejects.toThrow(
    'is not for this Sequential: the model has no layer for model.layers.0.mlp.down_proj.lora_A',
  );
  expect(lora.adaptersOf(untied).size + lora.adaptersOf(small).size).toBe(0);
  const broken = path.join(folder, 'dora');
  fs.cpSync(PEFT, broken, { recursive: true });
  fs.writeFileSync(path.join(broken, 'adapter_config.json'), JSON.stringify({ ...config(PEFT), use_dora: true }));
  await expect(lora.loadAdapters(await load('tied'), broken)).rejects.toThrow('adapter_config.json: use_dora is true');
  await expect(lora.loadAdapters(small, path.join(folder, 'nowhere'))).rejects.toThrow(
    'nowhere has no adapter_config.json: give a folder of adapters, or a .safetensors or .pt file',
  );
  fs.cpSync(PEFT, path.join(folder, 'run', 'best'), { recursive: true });
  await expect(lora.loadAdapters(small, path.join(folder, 'run'))).rejects.toThrow(
    `(did you mean ${path.join(folder, 'run', 'best')}?)`,
  );
  const doubled = await load('tied'); // of the same shapes: nothing else would show it
  lora.addLora(doubled, { rank: 3, alpha: 99, targets: config(PEFT).target_modules });
  await expect(lora.loadAdapters(doubled, PEFT)).rejects.toThrow(
    /peft has adapters of rank 3 and alpha \d+ on .*, but the model has adapters of rank 3 and alpha 99 on .*: they must be the same$/,
  );
  await expect(lora.saveAdapters(small, folder)).rejects.toThrow('Sequential has no adapters: add some with addLora');
  const plain = goldenPath('qwen3/tied/model.safetensors');
  await expect(lora.loadAdapters(small, plain)).rejects.toThrow('has no adapters: no name ends with lora_A');
});
