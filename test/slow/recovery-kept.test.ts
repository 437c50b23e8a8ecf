// What a run leaves behind is what it had: nothing is lost when it is stopped, resumed, begun anew, or goes wrong.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { anchorLoss, writeKDCache } from 'tsxla/distill';
import { loadStudent, mergeStudent, type RecoveryOptions, saveStudent, trainRecoveryLora } from 'tsxla/recovery';
import { beforeAll, expect, test } from 'vitest';
import { emptyAnchor, fillAnchor } from '../../dist/recovery/anchor.js';
import { recoveryStep } from '../../dist/recovery/step.js';
import { folderOf, load } from '../models/support.js';
import { file, ids, newFolder } from '../recovery/support.js';

process.env.TSXLA_LOG = 'quiet';
const [L, tied] = [16, folderOf('tied')];
const WORDS = 'the quick brown fox jumps over a lazy dog and runs far away from home'.split(' ');
const words = Array.from({ length: 300 }, (_, i) => WORDS[(i * i + 3 * i) % WORDS.length]);
const text = file('kept.txt', words.join(' ').replace(/((\S+ ){9})/g, '$1\n\n'));
const [packed, original, cache] = [newFolder(), newFolder(), newFolder()];

beforeAll(async () => {
  const model = await tx.models.Qwen3ForCausalLM.fromPretrained(tied, { dtype: 'f32' });
  await tx.quant.quantizeModel(model, { preset: 'q2a2', options: { scaleRank: 2 } });
  await saveStudent(packed, model);
  await saveStudent(original, model, { form: 'original', modelId: tied });
  await writeKDCache(cache, {
    ...{ teacher: tied, data: text, dtype: 'f32', logits: 'f32' },
    ...{ sequenceLength: L, topK: 5, negatives: 4, batchSize: 4, sequences: 8 },
  });
});

const run = (options: Partial<RecoveryOptions>, tell?: Parameters<typeof trainRecoveryLora>[1]) =>
  trainRecoveryLora(
    {
      ...{ model: packed, kdCacheDir: cache, output: newFolder(), recoveryR: 2, lr: 1e-2, batchSize: 2, dtype: 'f32' },
      ...{ logInterval: 1, maxSteps: 3, scanLayers: true, ...options },
    },
    tell,
  );
const metricsIn = (output: string): { step: number }[] =>
  fs
    .readFileSync(path.join(output, 'metrics.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
const bytesIn = (folder: string) => fs.readFileSync(path.join(folder, 'adapter_model.safetensors'));
const perplexityOf = async (model: tx.models.DecoderForCausalLM): Promise<number> => {
  const rows = await tx.recovery.perplexityRows([text], model.tokenizer, { sequenceLength: L });
  return (await tx.recovery.evaluatePerplexity(model, rows, { batchSize: 2 })).perplexity;
};

test('a resumed run has measured, and has for best, what one has that was never stopped', async () => {
  const options = { maxSteps: 5, evalData: [text], evalSteps: 2, lr: 0.05 };
  const [whole, output] = [newFolder(), newFolder()];
  const one = await run({ ...options, output: whole });
  await run({ ...options, output }, (e) => {
    if (e.kind === 'progress' && e.step === 3) process.emit('SIGTERM', 'SIGTERM');
  });
  fs.appendFileSync(path.join(output, 'metrics.jsonl'), '\0\0\0\n{"step":4,"lo'); // the power was cut while it wrote
  const two = await run({ ...options, output, resume: true });
  const told = (folder: string) => metricsIn(folder).map((m) => ({ ...m, tokensPerSecond: 0, memory: 0, seconds: 0 }));
  expect(told(output)).toEqual(told(whole));
  expect(two.perplexity).toEqual(one.perplexity);
  expect(bytesIn(two.best!)).toEqual(bytesIn(one.best!));
  const again = await run({ ...options, output, resume: true }); // it is finished
  expect([again.steps, again.loss, again.perplexity]).toEqual([5, one.loss, one.perplexity]);
  expect(told(output)).toEqual(told(whole));
});

test('--overwrite removes all of the run before, and nothing before all else is right', async () => {
  const options = { evalData: [text], lr: 1, maxSteps: 2 };
  const { output, best, adapters } = await run({ ...options, output: newFolder() }).then((r) => ({
    ...r,
    output: path.dirname(r.adapters),
  }));
  const there = () => fs.readdirSync(path.join(output, 'checkpoints'));
  const before = [there(), bytesIn(best!), bytesIn(adapters)];
  await expect(run({ ...options, output, overwrite: true, model: '/nowhere/m' })).rejects.toThrow('/nowhere/m');
  expect([there(), bytesIn(best!), bytesIn(adapters)]).toEqual(before);
  await run({ ...options, output, overwrite: true, maxSteps: 1 });
  expect(there()).toEqual(['step-00000001']);
  expect(metricsIn(output).map((m) => m.step)).toEqual([0, 1, 1]);
});

test('what is not a number is not saved: the last checkpoint is good', async () => {
  const output = newFolder();
  await expect(
    run({ output, lr: 1e30, maxSteps: 9, saveSteps: 1, keepCheckpoints: 1, logInterval: 9, warmupSteps: 0 }),
  ).rejects.toThrow(
    /^the (loss|norm of the gradients) of step \d is (NaN|Infinity): the adapters are lost\. .* What was saved is good: the checkpoint of step \d \(--resume\)\.$/,
  );
  const [last] = fs.readdirSync(path.join(output, 'checkpoints'));
  const trained = await tx.io.readSafetensors(path.join(output, 'checkpoints', last!, 'trained.safetensors'));
  expect([...trained.values()].every(({ data }) => (data as Float32Array).every(Number.isFinite))).toBe(true);
});

test('where the head is trained, the anchor is the head that it was', async () => {
  const model = await load('untied');
  tx.lora.addLora(model, { rank: 2, targets: 'up_proj', trainLmHead: true });
  const lossMask = tx.ones([1, 6], { dtype: 'u8' });
  const anchor = emptyAnchor(model, 1, 6);
  const row = { inputIds: Int32Array.of(1, 5, 9, 2, 7, 3), lossMask: new Uint8Array(6).fill(1) };
  await fillAnchor(anchor, model, { rows: { length: 1, get: () => row } } as never);
  const head = model.lmHead.weight;
  const was = head.detach().clone();
  tx.manualSeed(1);
  tx.noGrad(() => head.add_(tx.randn(head.shape).mul(0.1)));
  const hidden = tx.noGrad(() => model.model.forward(ids).narrow(1, 0, 5));
  anchorLoss(hidden, head, { hidden, head: was }).backward();
  const wanted = Number(await head.grad!.float().square().sum().sqrt().item());
  head.grad = null;
  const nothing = { loss: () => tx.zeros([]).add(head.sum().mul(0)) };
  const settings = { accumulationSteps: 1, gradClip: 0, mixedPrecision: false, anchorInterval: 1 };
  model.model.requiresGrad_(false);
  const optimizer = new tx.optim.SGD([head], { lr: 1e-9 });
  const step = recoveryStep({ model, optimizer, lesson: nothing, anchor, settings });
  const now = { hardTop1: 0, anchor: 0, anchorWeight: 1 };
  const { gradNorm } = await step({ inputIds: ids, lossMask }, now as never);
  expect(wanted).toBeGreaterThan(1e-3);
  expect(Math.abs(Number(await gradNorm.item()) / wanted - 1)).toBeLessThan(1e-4);
});

test('adapters of another alpha are others: they are not taken for the same', async () => {
  const { adapters } = await run({ maxSteps: 1, recoveryAlpha: 6 });
  await expect(run({ maxSteps: 1, resumeFrom: adapters })).rejects.toThrow(
    /has adapters of rank 2 and alpha 6 on .*, but the model has adapters of rank 2 and alpha 2 on/,
  );
});

// What is trained beside adapters goes with them: magnitudes, norms, embeddings, the head.
test.each<[string, () => Partial<RecoveryOptions>, (output: string) => string]>([
  ['a packed student, norms and embeddings', () => ({ trainNorms: true, trainEmbeddings: true }), () => packed],
  ["the original's form, with magnitudes", () => ({ model: original, trainLmHead: true }), () => original],
  ['one that was quantized on the way', () => ({ model: tied, quantize: 'q2a2' }), (output) => `${output}/student`],
])('%s: read again, with its adapters or merged, it is as good as it was', async (_, options, student) => {
  const output = newFolder();
  const { perplexity, adapters } = await run({ evalData: [text], lr: 0.05, ...options(), output });
  expect(Math.abs(perplexity!.after - perplexity!.before)).toBeGreaterThan(1);
  const { model } = await loadStudent(student(output), { dtype: 'f32', adapters, scanLayers: true });
  const found = await perplexityOf(model);
  expect(Math.abs(found / perplexity!.after - 1)).toBeLessThan(1e-4);
  const merged = await loadStudent(student(output), { dtype: 'f32', adapters, materialize: false, scanLayers: true });
  await mergeStudent(merged.model, 'dense');
  expect(Math.abs((await perplexityOf(merged.model)) / found - 1)).toBeLessThan(1e-4);
});

test("adapters inside of the original's files are trained as is asked for", async () => {
  const { model } = await loadStudent(original, { dtype: 'f32' });
  tx.lora.addLora(model, { rank: 2, alpha: 6, targets: 'mlp.up_proj' });
  const inside = newFolder();
  await saveStudent(inside, model, { form: 'original', modelId: tied });
  const { adapters } = await run({ model: inside, freezeMags: true, trainNorms: true, dropout: 0.25, maxSteps: 1 });
  const config = JSON.parse(fs.readFileSync(path.join(adapters, 'adapter_config.json'), 'utf8'));
  expect([config.lora_alpha, config.lora_dropout]).toEqual([6, 0.25]);
  expect(config.modules_to_save).toContain('model.norm');
  await expect(run({ model: inside, recoveryAlpha: 2 })).rejects.toThrow(/has adapters with alpha 6: use 6/);
});

test('norms of a student in bf16 learn, however small the steps are', async () => {
  const name = 'base_model.model.model.norm.weight';
  const options = { dtype: 'bf16', trainNorms: true, lr: 1e-3, maxSteps: 8, warmupSteps: 0, constantLr: true } as const;
  const { adapters } = await run({ ...options, logInterval: 8 });
  const trained = (await tx.io.readSafetensors(path.join(adapters, 'adapter_model.safetensors'))).get(name)!;
  const { model } = await loadStudent(packed, { dtype: 'bf16', materialize: false });
  const before = (await model.model.norm.weight.data()) as Uint16Array;
  const moved = Array.from(before, (x, i) => x !== trained.data[i]).filter(Boolean).length;
  expect(moved).toBeGreaterThan(before.length / 2);
});
