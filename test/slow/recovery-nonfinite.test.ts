// NaN and inf in weights, and tokens that a student does not have: the commands end with exit code 1 and name what is wrong.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { writeKDCache } from 'tsxla/distill';
import { openSafetensors, readSafetensors, writeSafetensors } from 'tsxla/io';
import { evaluatePerplexity } from 'tsxla/recovery';
import { expect, test } from 'vitest';
import { firstNonfinite } from '../../dist/nn/finite.js';
import { folderOf, load } from '../models/support.js';
import { file, linesOf, newFolder } from '../recovery/support.js';
import { goldenPath, tsxla } from '../support.js';

const text = file('text.txt', linesOf(40).join('\n\n'));

/** A copy of the small model with another weight. */
async function changed(weight: string, change: (data: Float32Array) => void): Promise<string> {
  const folder = newFolder();
  fs.cpSync(folderOf('tied'), folder, { recursive: true });
  const name = path.join(folder, 'model.safetensors');
  const arrays = await readSafetensors(name);
  const array = arrays.get(weight)!;
  const numbers = (await tx
    .tensor(array.data, { dtype: array.dtype, shape: array.shape })
    .float()
    .data()) as Float32Array;
  change(numbers);
  arrays.set(weight, { dtype: 'f32', shape: array.shape, data: numbers });
  await writeSafetensors(name, arrays);
  return folder;
}
const DOWN = 'model.layers.1.mlp.down_proj.weight';
const damaged = await changed(DOWN, (data) => void (data[2 * 64 + 5] = Number.NaN));
const loud = await changed('model.norm.weight', (data) => data.forEach((x, i) => void (data[i] = 1e5 * x)));
const width = (await readSafetensors(path.join(damaged, 'model.safetensors'))).get(DOWN)!.shape[1]!;
const place = `${DOWN} holds NaN at [${Math.floor((2 * 64 + 5) / width)}, ${(2 * 64 + 5) % width}]`;

const sizes = ['-l', '16', '-k', '5', '-r', '4', '--dtype', 'f32'];
const fails = async (args: string[], ...said: string[]): Promise<void> => {
  const { status, stdout, stderr } = await tsxla(args);
  expect([status, stdout, stderr.includes('    at ')], stderr).toEqual([1, '', false]);
  for (const text of said) expect(stderr).toContain(text);
};

test('firstNonfinite: the first in the order of the state dict, in a stack too, and of any float', async () => {
  for (const scanLayers of [false, true]) {
    const model = await load('tied', { scanLayers });
    expect(await firstNonfinite(model)).toBeUndefined();
    const damagedModel = await tx.models.Qwen3ForCausalLM.fromPretrained(damaged, { scanLayers });
    const { name, index, value } = (await firstNonfinite(damagedModel))!;
    expect(`${name} holds ${value} at [${index.join(', ')}]`).toBe(place);
  }
  const linear = new tx.nn.Linear(3, 2).to('bf16');
  tx.noGrad(() => void linear.bias!.copy_(tx.tensor([1, Number.NEGATIVE_INFINITY])));
  expect(await firstNonfinite(linear)).toEqual({ name: 'bias', index: [1], value: Number.NEGATIVE_INFINITY });
});

test('kd-cache: a NaN weight of the teacher is named, and the folder stays empty', async () => {
  const folder = newFolder();
  await fails(['kd-cache', '-t', damaged, '-d', text, '-o', folder, ...sizes], place, 'copy the model again');
  expect(fs.readdirSync(folder)).toEqual([]);
});

test('kd-cache: logits that f16 cannot hold are named; f32 can', async () => {
  const folder = newFolder();
  const args = ['kd-cache', '-t', loud, '-d', text, '-o', folder, ...sizes, '-n', '2'];
  await fails(
    args,
    'kd-cache: sequence 0, position 0: topk_logits is ',
    'which is too large for f16: make the cache with --logits f32',
  );
  expect(fs.readdirSync(folder)).toEqual([]);
  const { status, stderr } = await tsxla([...args, '--logits', 'f32']);
  expect(status, stderr).toBe(0);
});

test('quantize and eval-perplexity name the weight', async () => {
  const folder = newFolder();
  await fails(['quantize', '-m', damaged, '-o', folder, '--preset', 'q2a2'], `quantize: ${place}`);
  expect(fs.existsSync(folder)).toBe(false);
  await fails(['eval-perplexity', '-m', damaged, '-d', text, '-l', '16'], `the loss is NaN: ${place}`);
});

test('merge-lora names a weight of the student, or of the adapters, and writes no model', async () => {
  const [folder, adapters] = [newFolder(), newFolder()];
  const merge = (model: string, from: string) => ['merge-lora', '-m', model, '-a', from, '-o', folder];
  await fails(merge(damaged, goldenPath('lora/peft')), 'mergeStudent: ', 'down_proj', 'holds NaN at', 'copy the model');
  fs.cpSync(goldenPath('lora/peft'), adapters, { recursive: true });
  const name = path.join(adapters, 'adapter_model.safetensors');
  const arrays = await readSafetensors(name);
  const [key, first] = [...arrays].find(([key]) => key.includes('lora_A'))!;
  const data = Float32Array.from({ length: first.data.length }, (_, i) => (i ? 0 : Number.POSITIVE_INFINITY));
  await writeSafetensors(name, arrays.set(key, { dtype: 'f32', shape: first.shape, data }));
  await fails(merge(folderOf('tied'), adapters), 'mergeStudent: ', 'lora_A', 'holds inf at [0, 0]');
  expect(fs.existsSync(folder)).toBe(false);
});

test('quantize: a folder that cannot be written is refused before the model is read', async () => {
  for (const output of ['', path.join(text, 'sub'), '/proc/x/y'])
    await fails(['quantize', '-m', damaged, '-o', output], `--output ${output || "''"}: `);
});

test('a weight of zeros is quantized without an error of NaN', async () => {
  const model = await load('tied');
  const up = model.getSubmodule('model.layers.0.mlp.up_proj') as tx.nn.Linear;
  tx.noGrad(() => void up.weight.zero_());
  const report = await tx.quant.quantizeModel(model, { preset: 'q2a2', options: { scaleRank: 2 } });
  const { error } = report.layers.find((l) => l.name === 'model.layers.0.mlp.up_proj')!;
  expect(error).toBeLessThan(1e-3);
  expect(report.error).toBeLessThan(1);
});

test('evaluatePerplexity: the token whose loss is not finite, where all weights are', async () => {
  const model = await load('tied');
  tx.noGrad(() => void model.model.norm.weight.fill_(3e38)); // finite; its logits are not
  await tx.sync(model.model.norm.weight);
  expect(await firstNonfinite(model)).toBeUndefined();
  const rows = [{ inputIds: [1, 2, 3, 4], lossMask: [1, 0, 1, 1] }];
  await expect(evaluatePerplexity(model, rows)).rejects.toThrow(
    /^evaluatePerplexity: the loss of token 3 at position 2 of row 0 is (NaN|inf), though all weights are finite: the model's activations overflow f32$/,
  );
});

test('train-recovery-lora: tokens that the student does not have, and a bad weight, before the first step', async () => {
  const cache = newFolder();
  const teacher = await load('tied');
  await writeKDCache(cache, {
    teacher,
    data: text,
    sequenceLength: 16,
    topK: 5,
    negatives: 4,
    sequences: 4,
    logits: 'f32',
  });
  const shard = path.join(cache, 'shard-00000.safetensors');
  const arrays = await readSafetensors(shard);
  await using opened = await openSafetensors(shard);
  const { crc32: _, ...note } = JSON.parse(opened.metadata.get('kd-cache')!);
  (arrays.get('topk_idx')!.data as Int32Array).fill(1e9);
  await writeSafetensors(shard, arrays, { metadata: { 'kd-cache': JSON.stringify(note) } });
  const train = (model: string, data: string) => [
    'train-recovery-lora',
    '--model',
    model,
    '--kd-cache-dir',
    data,
    '--output',
    newFolder(),
    '--max-steps',
    '2',
    '--batch-size',
    '2',
    '--dtype',
    'f32',
  ];
  await fails(
    train(folderOf('tied'), cache),
    `${shard}: sequence 0 (0 of the cache), position 0: topk_idx holds token 1000000000, but the vocabulary has 0 to 351`,
  );
  const original = newFolder();
  fs.cpSync(goldenPath('kd-cache'), original, { recursive: true });
  await fails(train(damaged, original), `the student ${damaged}: ${place}`);
});
