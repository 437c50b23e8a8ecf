// Students in folders: written and read in every form, with the same logits; and what does not fit, in a sentence.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { findStudent, loadStudent, type StudentForm, saveStudent } from 'tsxla/recovery';
import { expect, test } from 'vitest';
import { PACKED_FILE } from '../../dist/recovery/student.js';
import { folderOf, load } from '../models/support.js';
import { furthest, logits, newFolder } from './support.js';

const tied = folderOf('tied');
const quantized = await load('tied', { scanLayers: true });
await tx.quant.quantizeModel(quantized, { preset: 'q2a2', options: { scaleRank: 2 } });
const wanted = await logits(quantized);
const folders: Record<StudentForm, string> = { plain: newFolder(), packed: newFolder(), original: newFolder() };
for (const [form, folder] of Object.entries(folders))
  await saveStudent(folder, quantized, { form: form as StudentForm, modelId: tied });

test.each([
  ['packed', true],
  ['packed', false],
  ['plain', true],
  ['original', true],
  ['original', false],
] as const)(
  '%s (scanLayers: %s): the same logits, the tokenizer and how to generate come with it',
  async (form, scanLayers) => {
    const { model, form: found, adapters } = await loadStudent(folders[form], { dtype: 'f32', scanLayers });
    expect([found, adapters.size]).toEqual([form, 0]);
    expect(furthest(await logits(model), wanted)).toBeLessThan(1e-4);
    expect(model.tokenizer!.encode('the fox')).toEqual(quantized.tokenizer!.encode('the fox'));
    expect(model.generationConfig).toEqual(quantized.generationConfig);
    expect(model.training).toBe(false);
    const layers = [...tx.quant.quantLinears(model)].map(([, layer]) => layer);
    expect(layers.length).toBe(form === 'plain' ? 0 : scanLayers ? 7 : 14);
    expect(layers.every((layer) => layer.effective?.dtype === 'f32')).toBe(true);
  },
);

test('in bf16 the weights that are kept are bf16; scales and levels stay f32', async () => {
  const { model } = await loadStudent(folders.packed, { dtype: 'bf16', scanLayers: true });
  const [[, layer]] = [...tx.quant.quantLinears(model)] as [[string, tx.quant.PackedLinear]];
  expect([layer.effective!.dtype, layer.scaleA!.dtype, model.lmHead.weight.dtype]).toEqual(['bf16', 'f32', 'bf16']);
  const { model: trained } = await loadStudent(folders.packed, { dtype: 'f32', materialize: false });
  expect([...tx.quant.quantLinears(trained)].every(([, l]) => l.effective === null)).toBe(true);
});

test("adapters in the original's files are put on, with their alpha; unless they are not wanted", async () => {
  const { model } = await loadStudent(folders.original, { dtype: 'f32', scanLayers: true });
  tx.lora.addLora(model, { rank: 2, alpha: 6, targets: 'mlp.up_proj' });
  for (const a of tx.lora.adaptersOf(model).values()) tx.noGrad(() => a.loraB.fill_(0.1));
  await expect(saveStudent(newFolder(), model)).rejects.toThrow(
    'saveStudent: the model has adapters: merge them into its weights with mergeAndUnload, or save them with saveAdapters',
  );
  const folder = newFolder();
  await saveStudent(folder, model, { form: 'original', modelId: tied });
  const again = await loadStudent(folder, { dtype: 'f32', scanLayers: true });
  expect([...again.adapters.keys()]).toEqual(['model.layers.*.mlp.up_proj']);
  const adapted = await logits(again.model);
  expect(furthest(adapted, await logits(model))).toBeLessThan(1e-4);
  expect(furthest(adapted, wanted)).toBeGreaterThan(0.01);
  const without = await loadStudent(folder, { dtype: 'f32', scanLayers: true, adapters: false });
  expect(furthest(await logits(without.model), wanted)).toBeLessThan(1e-4);
});

test('a packed folder is not taken for a plain one, and is smaller', async () => {
  await expect(tx.models.Qwen3ForCausalLM.fromPretrained(folders.packed)).rejects.toThrow(
    /the weights of .* are quantized: load them with loadStudent of tsxla\/recovery, or write plain weights first: tsxla export/,
  );
  const size = (folder: string, name: string) => fs.statSync(path.join(folder, name)).size;
  expect(size(folders.packed, PACKED_FILE)).toBeLessThan(0.8 * size(folders.plain, 'model.safetensors'));
});

test('mistakes are sentences, before anything is compiled', async () => {
  const compiled = tx.explain().length;
  const copy = (from: string, change: (config: Record<string, unknown>) => void): string => {
    const to = newFolder();
    fs.cpSync(from, to, { recursive: true });
    const file = path.join(to, 'config.json');
    const config = JSON.parse(fs.readFileSync(file, 'utf8'));
    change(config);
    fs.writeFileSync(file, JSON.stringify(config));
    return to;
  };
  const said = (name: string, options = {}) => expect(loadStudent(name, options)).rejects;
  await said('/nowhere/at/all').toThrow('/nowhere/at/all is neither an existing folder');
  await said(copy(folders.packed, (c) => void (c.model_type = 'mamba'))).toThrow(
    'the architecture mamba is not supported',
  );
  await said(copy(folders.packed, (c) => void (c.hidden_size = 32))).toThrow(/the file belongs to another model/);
  await said(copy(folders.packed, (c) => void (c.vocab_size = 100))).toThrow(
    /model\.packed\.safetensors does not belong to the model .*: size mismatch for model\.embed_tokens\.weight/,
  );
  await said(copy(folders.packed, (c) => void (c.quantization_config = { quant_method: 'awq' }))).toThrow(
    /is quantized by awq: only plain folders and those of `tsxla quantize` can be loaded/,
  );
  const cut = copy(folders.packed, () => {});
  fs.rmSync(path.join(cut, PACKED_FILE));
  await said(cut).toThrow('is quantized, but its file model.packed.safetensors is missing: copy the whole folder');
  const nameless = copy(folders.original, (c) => void delete c.model_id);
  await said(nameless).toThrow(/does not name its model: pass the model that it was made of as base/);
  expect((await findStudent(nameless, { base: tied })).form).toBe('original');
  await said(path.join(folders.original, 'model_state_dict.pt'), { base: folderOf('untied') }).toThrow(
    /model_state_dict\.pt does not belong to the model/,
  );
  const plain = await load('untied');
  await expect(saveStudent(newFolder(), plain, { form: 'packed' })).rejects.toThrow(
    'saveStudent: form is packed, but the model is not quantized: use plain',
  );
  expect(tx.explain().length).toBe(compiled);
});

test('a student is not written beside the weights of another model', async () => {
  const { model } = await loadStudent(folders.packed, { dtype: 'f32' });
  await expect(saveStudent(folders.plain, model)).rejects.toThrow(
    `${folders.plain} has model.safetensors, the weights of another model, and ${PACKED_FILE} would be written beside it`,
  );
});
