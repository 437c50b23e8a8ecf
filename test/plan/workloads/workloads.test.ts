// Workloads as programs: what their inputs are, by name, on one device and on several. Nothing is computed, and nothing compiled.
import { existsSync } from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import * as jobs from 'tsxla/jobs';
import { findModel, SETTINGS, WORKLOADS, type WorkloadName, type WorkloadSettings } from 'tsxla/workloads';
import { expect, test } from 'vitest';
import { POINTED } from '../../../dist/plan/workloads/plan.js';
import { pendingCells } from '../../../dist/runtime/cell.js';
import { describedSince } from '../../../dist/runtime/evaluate.js';
import { scratch } from '../../scratch.js';
import { tsxla } from '../../support.js';

const sizes = { vocab_size: 512, hidden_size: 128, intermediate_size: 512, num_hidden_layers: 2, head_dim: 32 };
const heads = { num_attention_heads: 4, num_key_value_heads: 2, tie_word_embeddings: true, torch_dtype: 'bfloat16' };
const file = scratch('workloads').file('config.json', JSON.stringify({ model_type: 'qwen3', ...sizes, ...heads }));
const { config } = findModel(file);

const programs = (workload: WorkloadName, settings: Partial<WorkloadSettings> = {}) =>
  WORKLOADS[workload].programs(config, { ...SETTINGS, batch: 2, seq: 16, ...settings });
const inputs = (workload: WorkloadName, settings: Partial<WorkloadSettings> = {}) =>
  programs(workload, settings)
    .at(-1)!
    .lowered.inputs.map((x) => `${x.kind} ${x.label} ${x.dtype}[${x.shape}]`);

test('a full fine-tune: weights, their f32 copies and moments, tokens', () => {
  const seen = inputs('full');
  for (const wanted of [
    'weights model.embed_tokens.weight bf16[512,128]',
    'weights model.layers.*.mlp.down_proj.weight bf16[2,128,512]',
    'state model.layers.*.mlp.down_proj.weight (master) f32[2,128,512]',
    'state model.layers.*.mlp.down_proj.weight (expAvgSq) f32[2,128,512]',
    'batch argument [0] i32[2,16]',
  ])
    expect(seen).toContain(wanted);
  expect(programs('full', { accumulation: 3 })[0]!.tokens).toBe(3 * 2 * 16);
});

test('recovery: frozen weights and adapters, state of the adapters alone, what a teacher said', () => {
  const seen = inputs('recovery-lora', { rank: 4 });
  expect(seen).toContain('weights model.layers.*.mlp.up_proj.base_layer.effective bf16[2,512,128]');
  expect(seen).toContain('weights model.layers.*.mlp.up_proj.lora_A f32[2,4,128]');
  expect(seen).toContain('batch argument [0].topkLogits f16[2,15,128]');
  expect(seen.filter((x) => x.startsWith('state') && x.includes('[2,')).every((x) => x.includes('lora_'))).toBe(true);
});

test('inference: a prompt, then a token; keys and values for all that may come', () => {
  const [prefill, decode] = programs('inference', { newTokens: 8 });
  expect([prefill!.lowered.name, prefill!.tokens, decode!.lowered.name, decode!.tokens]).toEqual([
    'prefill',
    32,
    'decode',
    2,
  ]);
  expect(inputs('inference', { newTokens: 8 })).toContain('state keys bf16[2,4,24,32]'); // [layers, B G, slots, d]
});

test('over a mesh: each device has its part of weights, state and batch', () => {
  const seen = inputs('full', { mesh: { data: 2, fsdp: 2 } });
  expect(seen).toContain('weights model.layers.*.mlp.down_proj.weight bf16[2,128,256]');
  expect(seen).toContain('state model.layers.*.mlp.down_proj.weight (expAvg) f32[2,128,256]');
  expect(seen).toContain('batch argument [0] i32[2,16]'); // 8 sequences of 4 shares
  expect(inputs('inference', { mesh: { model: 2 } })).toContain('state keys bf16[2,2,272,32]');
  expect(programs('full', { mesh: { data: 4 } })[0]!.tokens).toBe(4 * 2 * 16);
});

test('over a mesh, each device has its part of every micro-batch', () => {
  for (const workload of ['full', 'recovery-lora'] as const) {
    const { text } = programs(workload, { mesh: { data: 8 }, accumulation: 8 })[0]!.lowered;
    const split = text.split('\n').find((line) => line.includes('sharding_constraint') && line.includes('8x16x16xi32'));
    expect(split).toContain('<@mesh_data8, [{}, {"data"}, {}]>'); // [A, B, L]
  }
});

test('nothing was computed for all that, and nothing is left that would be with the next thing', () => {
  expect(pendingCells()).toEqual([]);
  expect(describedSince()).toBeLessThan(5000); // of 50,000 that are warned of
  expect(tx.metrics.counter('ExecuteComputation') ?? 0).toBe(0);
  expect(tx.metrics.counter('UncachedCompile') ?? 0).toBe(0);
});

test('the folders whose lines name buffers are there', () => {
  const src = path.resolve(import.meta.dirname, '../../../src');
  expect(POINTED.filter((folder) => !existsSync(path.join(src, folder)))).toEqual([]);
});

test('the former names are the same things', async () => {
  expect([tx.jobs.JOBS, jobs.JOBS]).toEqual([tx.workloads.WORKLOADS, WORKLOADS]);
  const wrong = { model: file, job: 'train' as never, tpus: ['v6e-1'] };
  await expect(jobs.planJob(wrong)).rejects.toThrow('there is no workload train');
});

test.each([
  ['--job train', 'there is no workload train: use recovery-lora, full, inference'],
  ['--jobs 5000', '--parallel is 5000: it must be a whole number, 1 to 1024'],
  ['--workload train', 'there is no workload train: use recovery-lora, full, inference'],
  ['--model Qwen3-0.5B', 'there is no model Qwen3-0.5B: use Qwen3-0.6B, Qwen3-1.7B'],
  ['--tpu v6e-7', 'v6e-7: there is no v6e slice of 7 chips: use 1, 4, 8,'],
  ['--tpu v9-8', 'there is no TPU generation v9'],
  ['--batch 0', '--batch is 0: it must be a whole number, 1 to 1048576'],
  ['--tpu v6e-8 --mesh data=2,fsdp=3', '--mesh data=2,fsdp=3 on v6e-8: data 2 x fsdp 3 = 6, and there are 8 devices'],
  [
    '--tpu v6e-8 --mesh data=-1,fsdp=3',
    '--mesh data=-1,fsdp=3 on v6e-8: fsdp 3, and there are 8 devices: 8 / 3 is not an integer',
  ],
  ['--tpu v6e-8 --mesh data=16', '--mesh data=16 on v6e-8: data 16, and there are 8 devices\n'],
  [
    '--tpu v6e-8 --mesh data=0',
    '--mesh data=0: data is 0: it must be a whole number of at least 1, or -1 for the remaining devices',
  ],
  ['--timeout 0', "argument '0' is invalid. must be at least 1"],
  ['--tpu v6e-8 --mesh data=2,pipe=4', '--mesh data=2,pipe=4: unknown axis pipe: use data, fsdp, model'],
  ['--tpu v6e-8 --mesh 8', '--mesh 8: write data=2,fsdp=4'],
  ['--seq 50000', '--seq 50000: Qwen3-0.6B has only 40960 positions'],
  ['--remat some', '--remat some: use none, light, full'],
  ['--rank 4', '--rank does nothing with --workload full: leave it out'],
  ['--workload inference --remat light', '--remat does nothing with --workload inference: leave it out'],
])('tsxla plan %s is refused in one sentence', async (flags, sentence) => {
  const given = flags.split(' ');
  const others = { '--model': 'Qwen3-0.6B', '--workload': 'full', '--tpu': 'v6e-1' };
  const rest = Object.entries(others).flatMap(([flag, value]) =>
    given.includes(flag) || (flag === '--workload' && given.includes('--job')) ? [] : [flag, value],
  );
  const { status, stderr } = await tsxla(['plan', ...given, ...rest]);
  expect(stderr).toContain(sentence);
  expect(stderr.trim().split('\n')).toHaveLength(1);
  expect(status).toBe(1);
});
