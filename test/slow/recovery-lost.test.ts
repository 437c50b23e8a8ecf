// A run whose loss is NaN says why, as far as it can be known, and names only what is saved.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { type RecoveryOptions, saveStudent, trainRecoveryLora } from 'tsxla/recovery';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { folderOf } from '../models/support.js';
import { file, linesOf, newFolder } from '../recovery/support.js';

process.env.TSXLA_LOG = 'quiet';
const text = file('lost.txt', linesOf(40).join('\n\n'));
const [good, bad] = [newFolder(), newFolder()];

beforeAll(async () => {
  const model = await tx.models.Qwen3ForCausalLM.fromPretrained(folderOf('tied'), { dtype: 'f32' });
  await tx.quant.quantizeModel(model, { preset: 'q2a2', options: { scaleRank: 2 } });
  await saveStudent(good, model);
  const norm = (model.model.layers as tx.nn.ModuleList<tx.models.Qwen3DecoderLayer>).at(1).postAttentionLayernorm;
  norm.weight.assign(
    Float32Array.from((await norm.weight.data()) as Float32Array, (x, i) => (i === 3 ? Number.NaN : x)),
  );
  await saveStudent(bad, model);
});
afterEach(() => void tx.debug.nans(false));

const run = (options: Partial<RecoveryOptions>) =>
  trainRecoveryLora({
    ...{ model: good, trainData: [text], seqLen: 16, output: newFolder(), recoveryR: 2, batchSize: 2 },
    ...{ dtype: 'f32', logInterval: 1, warmupSteps: 0, ...options },
  } as RecoveryOptions);
const errorOf = async (options: Partial<RecoveryOptions>): Promise<Error> => {
  const error = await run(options).catch((e: unknown) => e as Error);
  expect(error).toBeInstanceOf(tx.NonfiniteError);
  return error as Error;
};

test('a bad weight of the student is named before anything is trained', async () => {
  const output = newFolder();
  await expect(run({ model: bad, output, maxSteps: 2 })).rejects.toThrow(
    'model.layers.1.post_attention_layernorm.weight holds NaN at [3]',
  );
  expect(fs.existsSync(path.join(output, 'best'))).toBe(false);
});

test('one that diverged: what is saved, and how the operation is found', async () => {
  const output = newFolder();
  const { message } = await errorOf({ lr: 1e30, maxSteps: 4, logInterval: 9, saveSteps: 1, output });
  expect(message).toMatch(
    /^the (loss|norm of the gradients) of step 2 is (NaN|Infinity): the adapters are lost\. To find the operation, run again with TSXLA_DEBUG_NANS=1 and --resume\. If it diverged, train with a smaller --lr or --grad-clip\. What was saved is good: the checkpoint of step 1 \(--resume\)\.$/,
  );
  expect(fs.existsSync(path.join(output, 'best'))).toBe(false);
  tx.debug.nans(); // what TSXLA_DEBUG_NANS=1 does
  const found = await errorOf({ lr: 1e30, maxSteps: 4, logInterval: 9, saveSteps: 1, output, resume: true });
  expect(found.message).toMatch(/^step 2 is not finite: train: its result loss/);
  expect(found.message).toMatch(/model\.layers\.\d\.(selfAttn|mlp)\.\w+Proj/);
  expect(found.message).toMatch(/What was saved is good: the checkpoint of step 1 \(--resume\)\.$/);
});
