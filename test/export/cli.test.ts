// `tsxla export`, as a user runs it: students with adapters, safetensors, StableHLO.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { readGguf, readSafetensors } from 'tsxla/io';
import { saveStudent } from 'tsxla/recovery';
import { expect, test } from 'vitest';
import { folderOf } from '../models/support.js';
import { scratch } from '../scratch.js';
import { tsxla } from '../support.js';

const { newFolder } = scratch('export-cli');
const { AutoModelForCausalLM } = tx.models;
const tied = folderOf('tied');
const exported = async (...args: string[]) => {
  const { stdout, stderr, status } = await tsxla(['export', ...args, '--json']);
  expect(stderr + stdout, args.join(' ')).toContain('{');
  expect(status).toBe(0);
  return JSON.parse(stdout.slice(stdout.indexOf('{')));
};

test('a quantized student with adapters: merged, in every form', async () => {
  const [student, adapters, plain] = [newFolder(), newFolder(), newFolder()];
  const model = await AutoModelForCausalLM.fromPretrained(tied, { dtype: 'f32' });
  await tx.quant.quantizeModel(model, { preset: 'q2a2', options: { scaleRank: 1 } });
  await saveStudent(student, model);
  tx.lora.addLora(model, { targets: /q_proj|down_proj/, rank: 2, alpha: 4 });
  for (const adapter of tx.lora.adaptersOf(model).values())
    adapter.loraB.assign(Float32Array.from({ length: adapter.loraB.numel() }, (_, i) => Math.sin(i) / 4));
  await tx.lora.saveAdapters(model, adapters);
  const ids = tx.tensor([[5, 6, 7, 8, 9, 10]], { dtype: 'i32' });
  const wanted = await model.forward(ids).data();
  const merged = tx.lora.adaptersOf(model).size;

  const report = await exported('-m', student, '-a', adapters, '--safetensors', plain, '--dtype', 'f32');
  expect(report).toMatchObject({ folder: plain, adapters: merged });
  const again = await AutoModelForCausalLM.fromPretrained(plain, { dtype: 'f32' });
  const largest = (a: ArrayLike<number>) =>
    Math.max(...Array.from(wanted as Float32Array, (x, i) => Math.abs(x - a[i]!)));
  expect(largest((await again.forward(ids).data()) as Float32Array)).toBeLessThan(1e-4);

  const file = path.join(plain, 'model.gguf');
  const gguf = await exported(
    '-m',
    student,
    '-a',
    adapters,
    '--gguf',
    file,
    '--type',
    'f32',
    '--dtype',
    'f32',
    '--name',
    'small',
  );
  expect(gguf).toMatchObject({ file, adapters: merged, vocabulary: { model: 'gpt2', pre: 'qwen2' } });
  const { metadata, arrays } = await readGguf(file);
  expect(metadata.get('general.name')).toEqual({ type: 'string', value: 'small' });
  const saved = await readSafetensors(path.join(plain, 'model.safetensors'));
  for (const [theirs, ours] of [
    ['blk.0.attn_q.weight', 'model.layers.0.self_attn.q_proj.weight'],
    ['blk.1.ffn_down.weight', 'model.layers.1.mlp.down_proj.weight'],
  ] as const)
    expect(arrays.get(theirs)!.data).toEqual(saved.get(ours)!.data);
});

test('StableHLO: tsxla hlo run computes the logits', async () => {
  const folder = newFolder();
  await exported('-m', tied, '--stablehlo', folder, '-b', '2', '-l', '8', '--dtype', 'f32');
  const text = fs.readFileSync(path.join(folder, 'model.mlir'), 'utf8');
  const { stablehlo_version, inputs } = JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json'), 'utf8'));
  expect(text).toMatch(new RegExp(`^// StableHLO ${stablehlo_version.replaceAll('.', '\\.')}, written by tsxla `));
  expect(stablehlo_version).toMatch(/^\d+\.\d+\.\d+$/);
  const named = inputs.filter((i: { kind: string }) => i.kind === 'weight').map((i: { name: string }) => i.name);
  const model = await AutoModelForCausalLM.fromPretrained(tied, { dtype: 'f32' });
  expect(named.sort()).toEqual([...model.namedParameters()].map(([name]) => name).sort());
  const [out, given] = ['out.safetensors', 'inputs.safetensors'].map((name) => path.join(folder, name)) as [
    string,
    string,
  ];
  const { status, stderr } = await tsxla([
    'hlo',
    'run',
    path.join(folder, 'model.mlir'),
    '--inputs',
    given,
    '--outputs',
    out,
  ]);
  expect(stderr).toBe('');
  expect(status).toBe(0);
  const logits = (await readSafetensors(out)).get('out0')!;
  const wanted = model.forward(tx.ones([2, 8], { dtype: 'i32' }));
  expect(logits.shape).toEqual(wanted.shape);
  const data = (await wanted.data()) as Float32Array;
  expect(Math.max(...data.map((x, i) => Math.abs(x - Number(logits.data[i]))))).toBeLessThan(1e-4);
});

test.each([
  [[], 'export: pass exactly one of --gguf, --safetensors, --stablehlo, got 0'],
  [['--gguf', 'a', '--safetensors', 'b'], 'got 2'],
  [['--safetensors', 'b', '--type', 'q8_0'], '--type applies to --gguf only: use --dtype for other formats'],
  [['--safetensors', tied], `--safetensors is ${tied}, the folder the model is read from`],
  [['--gguf', 'a', '--type', 'q2_k'], 'Allowed choices are f32, f16, bf16, q8_0, q4_0, q4_k'],
])('%j', async (args, message) => {
  const { stderr, status } = await tsxla(['export', '-m', tied, ...args]);
  expect(stderr).toContain(message);
  expect(status).toBe(1);
});
