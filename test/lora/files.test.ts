// Adapters in files: PEFT's, the original's, and our own in their layouts.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import * as tx from 'tsxla';
import { afterAll, expect, test } from 'vitest';
import { load } from '../models/support.js';
import { goldenPath } from '../support.js';

const { lora } = tx;
const PEFT = goldenPath('lora/peft');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-lora-'));
afterAll(() => fs.rmSync(folder, { recursive: true }));
const config = (from: string) => JSON.parse(fs.readFileSync(path.join(from, 'adapter_config.json'), 'utf8'));
const WEIGHTS = 'adapter_model.safetensors';

test.each([
  ['plain layers', {}],
  ['a LayerStack', { scanLayers: true }],
] as const)('%s: what PEFT wrote is written as PEFT has it, array by array', async (_, options) => {
  const model = await load('tied', options);
  await lora.loadAdapters(model, PEFT);
  await lora.saveAdapters(model, folder, { baseModel: 'qwen3/tied' });
  const [theirs, ours] = await Promise.all([PEFT, folder].map((f) => tx.io.readSafetensors(path.join(f, WEIGHTS))));
  expect([...ours!.keys()].sort()).toEqual([...theirs!.keys()].sort());
  for (const [name, array] of theirs!) expect(ours!.get(name), name).toEqual(array);
  const [want, got] = [config(PEFT), config(folder)];
  for (const key of Object.keys(got)) {
    const sorted = (x: unknown) => (Array.isArray(x) ? [...x].sort() : x);
    expect(sorted(got[key]), key).toEqual(sorted(want[key]));
  }
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
    'is not for this Qwen3ForCausalLM: model.layers.0.mlp.down_proj.lora_B is [64, 3], here [32, 3]; ',
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
    'nowhere has no adapter_config.json: it is not a folder of adapters, nor a .safetensors or .pt file',
  );
  const doubled = await load('tied'); // of the same shapes: nothing else would show it
  lora.addLora(doubled, { rank: 3, alpha: 99, targets: config(PEFT).target_modules });
  await expect(lora.loadAdapters(doubled, PEFT)).rejects.toThrow(
    /peft has adapters of rank 3 and alpha \d+ on .*, the model those of rank 3 and alpha 99 on .*: give it the same$/,
  );
  await expect(lora.saveAdapters(small, folder)).rejects.toThrow('Sequential has no adapters: addLora makes them');
  const plain = goldenPath('qwen3/tied/model.safetensors');
  await expect(lora.loadAdapters(small, plain)).rejects.toThrow('has no adapters: none of its names ends with lora_A');
});
