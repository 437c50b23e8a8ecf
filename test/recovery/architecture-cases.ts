// Recovery from end to end for other architectures than Qwen3: quantize, cache a teacher, train adapters, merge, evaluate. The quick
// suite does it with one, the slow suite with the others.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { writeKDCache } from 'tsxla/distill';
import { evaluatePerplexity, loadStudent, mergeStudent, saveStudent, trainRecoveryLora } from 'tsxla/recovery';
import { expect, test } from 'vitest';
import { fill, golden } from '../models/architectures.js';
import { furthest, logits, newFolder } from './support.js';

process.env.TSXLA_LOG = 'quiet';
const L = 16;
const documents = Array.from({ length: 24 }, (_, i) => Array.from({ length: L }, (_, j) => 1 + ((i * 7 + j * 3) % 90)));

const ROWS = {
  llama: { targets: ['q_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'], scanLayers: true },
  gemma3: { targets: ['q_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'], scanLayers: true },
  'qwen3-moe': { targets: ['q_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'], scanLayers: true },
  gpt2: { targets: ['c_attn', 'c_proj', 'c_fc'], scanLayers: false },
};

export const testRecovery = (name: keyof typeof ROWS): void =>
  test(`${name}: quantize, cache, train, merge, evaluate`, async () => {
    const { targets, scanLayers } = ROWS[name];
    const [teacher, student, cache, output, merged] = Array.from({ length: 5 }, newFolder) as string[];
    const model = tx.models.AutoModelForCausalLM.fromConfig(golden(name).config).eval();
    await fill(model);
    await model.savePretrained(teacher!);
    const report = await tx.quant.quantizeModel(model, { preset: 'q2a4', options: { scaleRank: 2 } });
    expect(new Set(report.layers.map((layer) => layer.bits))).toEqual(new Set([2, 4]));
    await saveStudent(student!, model);
    const sizes = { sequenceLength: L, topK: 5, negatives: 4, batchSize: 4 };
    await writeKDCache(cache!, { teacher: teacher!, data: documents, separator: null, dtype: 'f32', ...sizes });

    const losses: number[] = [];
    const run = { recoveryR: 2, lr: 1e-2, batchSize: 4, maxSteps: 18, warmupSteps: 0, logInterval: 1, shuffle: false };
    await trainRecoveryLora({ model: student!, kdCacheDir: cache!, output: output!, scanLayers, ...run }, (e) => {
      if (e.kind === 'log') losses.push(e.loss);
    });
    const mean = (some: readonly number[]) => some.reduce((a, b) => a + b, 0) / some.length;
    expect(mean(losses.slice(-6))).toBeLessThan(mean(losses.slice(0, 6))); // six steps are an epoch: the same sequences
    const [adapters] = fs
      .readdirSync(output!, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('adapter_config.json'))
      .map((file) => path.join(output!, path.dirname(file)));
    const config = JSON.parse(fs.readFileSync(path.join(adapters!, 'adapter_config.json'), 'utf8'));
    expect(new Set(config.target_modules)).toEqual(new Set(targets));

    const { model: adapted } = await loadStudent(student!, { dtype: 'f32', adapters: adapters! });
    const wanted = await logits(adapted);
    await mergeStudent(adapted, 'dense');
    await saveStudent(merged!, adapted, { form: 'plain' });
    const { model: plain } = await loadStudent(merged!, { dtype: 'f32', scanLayers: true });
    expect(furthest(await logits(plain), wanted)).toBeLessThan(1e-3);
    const [before, after] = [await loadStudent(student!, { dtype: 'f32' }), plain];
    const perplexity = async (m: typeof plain) => (await evaluatePerplexity(m, documents)).perplexity;
    expect(await perplexity(after)).not.toBeCloseTo(await perplexity(before.model), 3);
  });
