// Recovery from end to end for more architectures (one is in the quick suite), and teachers of another architecture.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { writeKDCache } from 'tsxla/distill';
import { trainRecoveryLora } from 'tsxla/recovery';
import { expect, test } from 'vitest';
import { fill, golden } from '../models/architectures.js';
import { folderOf, load } from '../models/support.js';
import { testRecovery } from '../recovery/architecture-cases.js';
import { file, linesOf, newFolder } from '../recovery/support.js';

const L = 16;

testRecovery('llama');
testRecovery('gpt2');
testRecovery('qwen3-moe');

test('a teacher of another architecture, live and by its cache: the student comes closer to it', async () => {
  const [teacher, student, cache] = [newFolder(), newFolder(), newFolder()];
  const qwen3 = await load('tied');
  const { vocabSize: vocab_size } = qwen3.config;
  const model = tx.models.AutoModelForCausalLM.fromConfig({ ...golden('gemma2').config, vocab_size }).eval();
  await fill(model);
  await model.savePretrained(teacher);
  for (const name of fs.readdirSync(folderOf('tied')).filter((name) => name.startsWith('tokenizer')))
    fs.copyFileSync(path.join(folderOf('tied'), name), path.join(teacher, name));
  await qwen3.savePretrained(student);
  const text = file('text.txt', linesOf(40).join('\n'));
  const sizes = { sequenceLength: L, topK: 5, negatives: 4, batchSize: 4 };
  await writeKDCache(cache, { teacher, data: text, dtype: 'f32', ...sizes });
  const run = { model: student, recoveryR: 4, lr: 2e-2, batchSize: 8, maxSteps: 12, warmupSteps: 0, logInterval: 1 };
  for (const lesson of [{ kdCacheDir: cache }, { teacher, trainData: [text], seqLen: L, kdAlpha: 1 }]) {
    const losses: number[] = [];
    await trainRecoveryLora({ ...run, ...lesson, output: newFolder(), shuffle: false }, (e) => {
      if (e.kind === 'log') losses.push(e.loss);
    });
    expect(losses.length).toBe(12);
    expect(Math.max(...losses.slice(-3))).toBeLessThan(losses[0]!);
  }
});
