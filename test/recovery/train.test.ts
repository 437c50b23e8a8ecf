// Recovery training from end to end on a small student, and the defects of the original, each with a test of its name.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { KDCacheDataset, writeKDCache } from 'tsxla/distill';
import { type Metrics, type RecoveryEvent, type RecoveryOptions, trainRecoveryLora } from 'tsxla/recovery';
import { SummaryWriter } from 'tsxla/tensorboard';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { eventFiles, readEvents } from '../../dist/board/event-file.js';
import { rateFactor } from '../../dist/recovery/schedule.js';
import { counts } from '../../dist/runtime/program.js';
import { folderOf } from '../models/support.js';
import { file, linesOf, newFolder, writeStudentAndCache } from './support.js';

process.env.TSXLA_LOG = 'quiet';
const [L, K, R] = [16, 5, 4];
const lines = linesOf(40);
const text = file('train.txt', lines.join('\n\n'));
const [student, cache] = [newFolder(), newFolder()];
const base: RecoveryOptions = {
  model: student,
  kdCacheDir: cache,
  recoveryR: 2,
  lr: 1e-2,
  batchSize: 2,
  logInterval: 1,
};

beforeAll(async () => {
  await writeStudentAndCache(student, cache, text, { sequenceLength: L, topK: K, negatives: R, sequences: 24 });
});

interface Run {
  readonly output: string;
  readonly metrics: Metrics[];
  readonly events: RecoveryEvent[];
  readonly result: Awaited<ReturnType<typeof trainRecoveryLora>>;
}
async function run(options: Partial<RecoveryOptions>, tell: (e: RecoveryEvent) => void = () => {}): Promise<Run> {
  const output = options.output ?? newFolder();
  const events: RecoveryEvent[] = [];
  const result = await trainRecoveryLora({ ...base, output, ...options }, (e) => {
    events.push(e);
    tell(e);
  });
  return { output, events, result, metrics: metricsIn(output) };
}
const metricsIn = (output: string): Metrics[] =>
  fs
    .readFileSync(path.join(output, 'metrics.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
const adaptersIn = async (folder: string) =>
  [...(await tx.io.readSafetensors(path.join(folder, 'adapter_model.safetensors')))].map(
    ([name, { data }]) => [name, Array.from(data as Float32Array)] as const,
  );

describe('the original’s defects', () => {
  test('logged loss is the true mean, whatever the accumulation', async () => {
    // The same 8 sequences: at once, in two batches, in four; the last has padding, so batches weigh differently.
    const common = { maxSteps: 1, shuffle: false } as const;
    const runs = [];
    for (const [batchSize, accumulationSteps] of [
      [8, 1],
      [4, 2],
      [2, 4],
    ] as const)
      runs.push(await run({ ...common, batchSize, accumulationSteps }));
    const [whole, ...parts] = runs.map((r) => r.metrics[0]!);
    for (const part of parts) {
      expect(Math.abs(part.loss / whole!.loss - 1)).toBeLessThan(1e-5);
      expect(Math.abs(part.gradNorm / whole!.gradNorm - 1)).toBeLessThan(1e-4);
    }
  });

  test('learning rate ends at its floor with accumulation', async () => {
    const { metrics } = await run({ maxSteps: 12, accumulationSteps: 4, warmupSteps: 3, minLrRatio: 0.1 });
    const rates = metrics.map((m) => m.lr / 1e-2);
    expect(rates.length).toBe(12);
    expect(rates[0]).toBeCloseTo(0.1, 6);
    expect(rates[3]).toBeCloseTo(1, 6);
    expect(rates.at(-1)).toBeCloseTo(0.1, 6);
    for (let i = 4; i < 12; i++) expect(rates[i]).toBeLessThan(rates[i - 1]!);
    const reference = { maxSteps: 1200, warmupSteps: 100, minLrRatio: 0.1, constantLr: false };
    expect(rateFactor(1199, reference)).toBeCloseTo(0.1, 9); // there it ends at 97%
    expect(rateFactor(1199, { ...reference, constantLr: true })).toBe(1);
  });

  test('resume equals never having stopped', async () => {
    const options = {
      ...{
        maxSteps: 9,
        saveSteps: 4,
        logInterval: 3,
        dropout: 0.3,
        accumulationSteps: 2,
        hardTop1: 0.2,
        hardTop1End: 0,
      },
      ...{ anchorKlWeight: 0.1, anchorSamples: 3, seed: 5 },
    };
    const profile = newFolder();
    const whole = await run({ ...options, profile, profileSteps: '3:5' });
    const [file] = fs
      .readdirSync(profile, { recursive: true, encoding: 'utf8' })
      .filter((f) => f.endsWith('.xplane.pb'));
    expect(tx.profiler.summarizeProfile(path.join(profile, file!))).toMatchObject({ device: undefined, steps: 2 });
    const output = newFolder();
    const tensorboard = newFolder();
    // Stopped in the middle of an interval, at a step at which nothing is saved of itself.
    const first = await run({ ...options, output, tensorboard }, (e) => {
      if (e.kind === 'progress' && e.step === 5) process.emit('SIGTERM', 'SIGTERM');
    });
    expect([first.result.finished, first.result.steps]).toEqual([false, 5]);
    new SummaryWriter(tensorboard).addScalar('train/loss', 7, 6); // of a run that died behind its checkpoint
    const second = await run({ ...options, output, tensorboard, resume: true });
    expect(second.events.find((e) => e.kind === 'resumed')).toMatchObject({ step: 5 });
    expect(await adaptersIn(second.result.adapters)).toEqual(await adaptersIn(whole.result.adapters));
    const told = (metrics: Metrics[]) => metrics.map(({ step, loss, lr, gradNorm }) => ({ step, loss, lr, gradNorm }));
    expect(told(second.metrics)).toEqual(told(whole.metrics));
    const losses = eventFiles(tensorboard)
      .flatMap((file) => [...readEvents(file)])
      .flatMap(({ event: { step, summary } }) =>
        (summary?.values ?? []).map(({ tag, simpleValue }) => [tag, step, simpleValue]),
      )
      .filter(([tag]) => tag === 'train/loss');
    expect(losses).toEqual(second.metrics.map(({ step, loss }) => ['train/loss', step, Math.fround(loss)]));
  });

  test('padding does not count', async () => {
    // Sequences of one document each: short ones are mostly padding, whose loss would pull the mean.
    const padded = newFolder();
    await writeKDCache(padded, {
      ...{ teacher: folderOf('tied'), data: text, dtype: 'f32', logits: 'f32', pack: false },
      ...{ sequenceLength: 24, topK: K, negatives: R, sequences: 4 },
    });
    const dataset = await KDCacheDataset.open(padded);
    const masks = await Promise.all(
      [0, 1, 2, 3].map(async (i) => Array.from((await dataset.get(i)).lossMask.data as Uint8Array)),
    );
    const tokens = masks.flatMap((m) => m.slice(1)).reduce((a, b) => a + b, 0);
    expect(tokens).toBeLessThan(4 * 23);
    const options = { kdCacheDir: padded, maxSteps: 1, shuffle: false, batchSize: 4 };
    const { metrics } = await run(options);
    // By hand: KL of every position, those that count averaged.
    const model = (await tx.recovery.loadStudent(student, { dtype: 'f32' })).model;
    let [sum, n] = [0, 0];
    for (let i = 0; i < 4; i++) {
      const row = await dataset.get(i);
      const t = (a: { data: unknown; shape: readonly number[]; dtype: string }) =>
        tx.tensor(a.data as Float32Array, { shape: a.shape, dtype: a.dtype as 'f32' });
      const logits = model.forward(t(row.inputIds).unsqueeze(0)).select(0, 0).narrow(0, 0, 23);
      const at = tx.cat([t(row.topkIdx), t(row.randIdx!)], -1);
      const teacher = tx
        .cat([t(row.topkLogits), t(row.randLogits!)], -1)
        .div(2)
        .logSoftmax(-1);
      const kl = teacher
        .exp()
        .mul(teacher.sub(logits.gather(-1, at).div(2).logSoftmax(-1)))
        .sum(-1)
        .mul(4);
      const values = (await kl.data()) as Float32Array;
      masks[i]!.slice(1).forEach((m, p) => {
        sum += m * values[p]!;
        n += m;
      });
    }
    expect(Math.abs(metrics[0]!.loss / (sum / n) - 1)).toBeLessThan(1e-5);
  });

  test('random negatives are used', async () => {
    const without = newFolder();
    await writeKDCache(without, {
      ...{ teacher: folderOf('tied'), data: text, dtype: 'f32', logits: 'f32' },
      ...{ sequenceLength: L, topK: K, negatives: 0, batchSize: 4, sequences: 24 },
    });
    const options = { maxSteps: 1, shuffle: false } as const;
    const [a, b] = [await run(options), await run({ ...options, kdCacheDir: without })];
    expect(Math.abs(a.metrics[0]!.loss - b.metrics[0]!.loss)).toBeGreaterThan(1e-3);
  });

  test('the teacher’s share is not ignored with a cache', async () => {
    const options = { maxSteps: 1, shuffle: false } as const;
    const loss = async (kdAlpha: number) => (await run({ ...options, kdAlpha })).metrics[0]!.loss;
    const [all, half, none] = [await loss(1), await loss(0.5), await loss(0)];
    expect(half).toBeCloseTo((all + none) / 2, 5);
    expect(none).toBeGreaterThan(3); // cross-entropy of a student that knows little
  });

  test('the anchor is the student without adapters', async () => {
    // Adapters begin as nothing, so that at first there is no distance; later it holds them back.
    const options = { maxSteps: 6, shuffle: false } as const;
    const anchored = { ...options, anchorSamples: 4, anchorKlWeight: 100 };
    const free = await run(options);
    const held = await run(anchored);
    expect(held.metrics[0]!.loss).toBe(free.metrics[0]!.loss);
    expect(Math.abs(held.metrics[0]!.gradNorm / free.metrics[0]!.gradNorm - 1)).toBeLessThan(1e-3);
    expect(held.metrics.at(-1)!.loss).toBeGreaterThan(free.metrics.at(-1)!.loss);
    expect(held.metrics[1]!.gradNorm).toBeGreaterThan(1.01 * free.metrics[1]!.gradNorm);
    const seldom = await run({ ...anchored, anchorInterval: 3 }); // in steps 1 and 4
    expect(Math.abs(seldom.metrics[1]!.gradNorm / free.metrics[1]!.gradNorm - 1)).toBeLessThan(1e-3);
    expect(Math.abs(seldom.metrics[3]!.gradNorm / free.metrics[3]!.gradNorm - 1)).toBeGreaterThan(1e-2);
  });

  test('a step is started while the one before runs, and no more than that', async () => {
    let told = 0;
    const ahead: number[] = [];
    const read = tx.Tensor.prototype.item;
    const slow = vi.spyOn(tx.Tensor.prototype, 'item').mockImplementation(async function (this: tx.Tensor) {
      const step = told + 1;
      const value = await read.call(this);
      do await new Promise((r) => setTimeout(r, 10));
      while (told <= step && step < 5); // the next is started, however long that takes
      ahead.push(told);
      return value;
    });
    try {
      await run({ maxSteps: 5, logInterval: 5 }, (e) => {
        if (e.kind === 'progress') told = e.step;
      });
    } finally {
      slow.mockRestore();
    }
    expect(ahead.slice(0, 5)).toEqual([2, 3, 4, 5, 5]); // when a loss was there, this step had been started
  });

  test('a step is one execution', async () => {
    const executions: number[] = [];
    await run({ maxSteps: 8, logInterval: 8, accumulationSteps: 3 }, (e) => {
      if (e.kind === 'progress') executions.push(counts.executed);
    });
    expect(executions.slice(1).map((n, i) => n - executions[i]!)).toEqual(Array(7).fill(1));
  });

  test('the best adapters are kept, by perplexity where there is text to measure it on', async () => {
    const { result, metrics } = await run({ maxSteps: 6, evalData: [text], evalSteps: 2, lr: 0.02 });
    const found = metrics.flatMap((m) =>
      'perplexity' in m ? [m as unknown as { step: number; perplexity: number }] : [],
    );
    expect(found.map((m) => m.step)).toEqual([0, 2, 4, 6]);
    expect(result.perplexity!.before).toBe(found[0]!.perplexity);
    expect(result.perplexity!.best).toBeCloseTo(Math.min(...found.map((m) => m.perplexity)), 3);
    const model = (await tx.recovery.loadStudent(student, { dtype: 'f32' })).model;
    await tx.lora.loadAdapters(model, result.best!);
    const rows = await tx.recovery.perplexityRows([text], model.tokenizer, { sequenceLength: L });
    const again = await tx.recovery.evaluatePerplexity(model, rows, { batchSize: 2 });
    expect(again.perplexity).toBeCloseTo(result.perplexity!.best, 2);
  });

  test('sft does not learn the question', async () => {
    const tasks = file(
      'tasks.jsonl',
      Array.from({ length: 12 }, (_, i) => JSON.stringify({ instruction: lines[i], output: lines[i + 12] })).join('\n'),
    );
    const options = { maxSteps: 1, shuffle: false, trainData: [tasks], datasetFormat: 'alpaca', seqLen: L } as const;
    const loss = async (loraMode: 'sft' | 'recover') =>
      (await run({ ...options, loraMode, kdCacheDir: undefined })).metrics[0]!.loss;
    expect(Math.abs((await loss('sft')) - (await loss('recover')))).toBeGreaterThan(1e-3);
  });
});

test('it learns: the loss goes down, in one program at any number of steps', async () => {
  const evaluated = { evalData: [text], evalSteps: 5, saveSteps: 4, scanLayers: true, recoveryR: 3 };
  const { result, metrics: all } = await run({ ...evaluated, maxSteps: 40 });
  expect(result.compiles).toBe(3); // what it begins with, the step, the evaluation
  const metrics = all.filter((m) => 'lr' in m);
  const mean = (xs: Metrics[]) => xs.reduce((sum, m) => sum + m.loss, 0) / xs.length;
  expect(mean(metrics.slice(-8))).toBeLessThan(0.8 * mean(metrics.slice(0, 8)));
});

test('a live teacher, text alone, mixed precision, and every layer trained: all learn', async () => {
  const cases: Partial<RecoveryOptions>[] = [
    { kdCacheDir: undefined, trainData: [text], teacher: folderOf('tied'), seqLen: L },
    { kdCacheDir: undefined, trainData: [text], seqLen: L },
    { mixedPrecision: true, gradientCheckpointing: 'light', scanLayers: true },
    { gradientCheckpointing: 'full', trainNorms: true, trainEmbeddings: true, includeKProj: true, hardFull: 0.1 },
  ];
  for (const options of cases) {
    const { metrics } = await run({ maxSteps: 4, shuffle: false, batchSize: 8, ...options });
    expect(metrics.at(-1)!.loss).toBeLessThan(metrics[0]!.loss); // three steps are an epoch: the same sequences
  }
});

test('the preflight says what it takes before the first step', async () => {
  const { events } = await run({ maxSteps: 1 });
  const kinds = events.map((e) => e.kind);
  expect(kinds.indexOf('preflight')).toBeLessThan(kinds.indexOf('progress'));
  const [found] = events.filter((e) => e.kind === 'preflight');
  expect(found!.memory.arguments).toBeGreaterThan(0);
  expect(found!.available).toBeGreaterThan(found!.memory.arguments + found!.memory.temporaries);
});

describe('mistakes are told in a sentence, before anything is compiled', () => {
  const other = newFolder();
  const mistakes: [string, Partial<RecoveryOptions>, string | RegExp][] = [
    ['a model folder that is not there', { model: '/nowhere/model' }, /nowhere\/model/],
    [
      'no data',
      { kdCacheDir: undefined },
      'no training data: pass --kd-cache-dir (tsxla kd-cache makes one) or --train-data FILES',
    ],
    [
      'a cache that is not there',
      { kdCacheDir: '/nowhere/cache' },
      'there is no KD cache /nowhere/cache: make one with `tsxla kd-cache`',
    ],
    ['rank 0', { recoveryR: 0 }, '--recovery-r is 0: it must be a whole number, at least 1'],
    [
      'a batch that is larger than the data',
      { batchSize: 8, accumulationSteps: 4 },
      /a step takes 32 sequences \(--batch-size 8 times --accumulation-steps 4\), but .* has only 24 sequences: use smaller values/,
    ],
    ['another sequence length', { seqLen: 32 }, /32/],
    [
      'a warm-up that is too long',
      { maxSteps: 10, warmupSteps: 10 },
      '--warmup-steps is 10: it must be less than --max-steps, which is 10',
    ],
    [
      'a cache and a teacher',
      { teacher: folderOf('tied') },
      "--kd-cache-dir and --teacher are both given, and the cache has a teacher's logits already: pass one of them",
    ],
    ['a student that is quantized already', { quantize: 'q4a4' }, /is quantized already: leave it out/],
    ['a name that is no option', { recoveryRank: 3 } as object, /there is no option 'recoveryRank'/],
    [
      'magnitudes that a packed student does not have',
      { freezeMags: true },
      /^--freeze-mags: .* is not in the original's format and has no magnitudes: leave the flag out$/,
    ],
    ['a model that is none', { model: text }, /train.txt is not a model: give a folder/],
    ['a folder instead of files', { evalData: [cache] }, /is a folder: name the files in it/],
    [
      'text of another form',
      { kdCacheDir: undefined, trainData: [text], datasetFormat: 'alpaca', seqLen: 16 },
      /--dataset-format alpaca: an object has no string field 'instruction'/,
    ],
    ['adapters that are not there', { resumeFrom: '/nowhere/a' }, '--resume-from: /nowhere/a does not exist'],
    ['text that is not there', { evalData: ['/nowhere/b.txt'], evalSteps: 1 }, 'there is no file /nowhere/b.txt'],
  ];
  test.each(mistakes)('%s', async (_, options, message) => {
    const from = counts.compiled;
    await expect(run({ maxSteps: 4, ...options })).rejects.toThrow(message);
    expect(counts.compiled).toBe(from);
  });

  test('a cache of another tokenizer, or vocabulary', async () => {
    fs.cpSync(cache, other, { recursive: true });
    const manifest = path.join(other, 'manifest.json');
    const text = fs.readFileSync(manifest, 'utf8');
    const from = counts.compiled;
    fs.writeFileSync(manifest, text.replace(/("tokenizer": *")[^"]*/, '$1another'));
    await expect(run({ maxSteps: 1, kdCacheDir: other })).rejects.toThrow(/tokenizer/);
    fs.writeFileSync(manifest, text.replace(/("vocabSize": *)\d+/, '$17'));
    await expect(run({ maxSteps: 1, kdCacheDir: other })).rejects.toThrow(/vocabulary|tokens/);
    expect(counts.compiled).toBe(from);
  });

  test('a run that is there, and a checkpoint of another run', async () => {
    const { output } = await run({ maxSteps: 2 });
    await expect(run({ maxSteps: 2, output })).rejects.toThrow(
      `${output} already has a run, at step 2: pass --resume to continue it, --overwrite to replace it, or another --output`,
    );
    await expect(run({ maxSteps: 2, output, resume: true, lr: 0.5 })).rejects.toThrow(
      /is a checkpoint of a run with other options: its --lr was 0.01, here it is 0.5: use the same options, or another --output/,
    );
    await expect(run({ maxSteps: 3, output, resume: true, lr: 0.5 })).rejects.toThrow(
      /(0\.5 \(--max-steps|3 \(--lr) differs, too\): use the same options/,
    );
    const { result } = await run({ maxSteps: 3, output, overwrite: true });
    expect(result.steps).toBe(3);
  });
});

describe('the folder of a run', () => {
  test('--overwrite removes what a run left, and not before every mistake was told', async () => {
    const { output } = await run({ maxSteps: 2, evalData: [text], evalSamples: 2 });
    const left = fs.readdirSync(output, { recursive: true }).sort();
    await expect(run({ maxSteps: 2, output, overwrite: true, model: cache })).rejects.toThrow(/no config.json/);
    expect(fs.readdirSync(output, { recursive: true }).sort()).toEqual(left);
    const { metrics } = await run({ maxSteps: 2, output, overwrite: true, evalData: [text], evalSamples: 2 });
    expect(metrics.map((m) => [m.step, 'perplexity' in m])).toEqual([
      ...[[0, true]], // once: nothing of the run before
      ...[1, 2].map((step) => [step, false]),
      [2, true],
    ]);
  });

  test('two runs at once do not write to one folder: the second waits a while', async () => {
    const output = newFolder();
    const order: string[] = [];
    let second: Promise<Run> | undefined;
    const first = run({ output, maxSteps: 2 }, (e) => {
      if (e.kind === 'preflight')
        second = run(
          { output, maxSteps: 3, overwrite: true },
          (e) => e.kind === 'student' && order.push('second begins'),
        );
    });
    await first.then(() => order.push('first is done'));
    expect((await second!).result.steps).toBe(3);
    expect(order).toEqual(['first is done', 'second begins']);
  });
});
