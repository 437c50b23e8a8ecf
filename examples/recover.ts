// The whole of recovery on one command, `npm start`: a small Qwen3 learns from the English of this repository, is rounded to 2
// bits a weight, which breaks it, and gets its quality back through small adapters that learn what it said before.
//   npx tsx examples/recover.ts [--device cpu|cuda|tpu] [--out FOLDER] [--seed 0] [--steps 1500]
// The same by hand, for a real model: tsxla kd-cache, tsxla quantize, tsxla train-recovery-lora (docs/recovery-lora.md).
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import * as tx from 'tsxla';
import { data, distill, lora, models, optim, quant, recovery, type Tensor } from 'tsxla';
import { bytes, columns, seconds } from '../src/base/format.js';
import { progress } from '../src/cli/progress.js';
import { shower } from '../src/cli/train-recovery-lora.js';
import { writeTokenizer } from './bpe.js';
import { repositoryTexts } from './texts.js';

const { values: args } = parseArgs({
  options: {
    device: { type: 'string', default: 'auto' },
    out: { type: 'string', default: 'out/recover' },
    seed: { type: 'string', default: '0' },
    steps: { type: 'string', default: '1500' }, // of the teacher; the recovery takes a quarter of them
  },
});
const seed = Number(args.seed);
const steps = Number(args.steps);
if (!(Number.isInteger(steps) && steps > 0)) throw new Error(`--steps is ${args.steps}: it must be a whole number`);
const LENGTH = 128; // tokens of a sequence
const BATCH = 8;
const VOCABULARY = 512;

const began = performance.now();
const say = (text: string): void => console.log(`\n${seconds((performance.now() - began) / 1e3).padStart(6)}  ${text}`);
const inOut = (name: string): string => path.join(args.out, name);
tx.device(args.device as 'auto');
tx.manualSeed(seed);
mkdirSync(args.out, { recursive: true });

// ---- the text: English of this repository, of which every tenth file is held back

const documents = repositoryTexts();
const isHeldBack = (i: number): boolean => i % 10 === 9;
const trainFile = inOut('train.jsonl');
const heldFile = inOut('held-back.txt');
const train = documents.filter((_, i) => !isHeldBack(i));
writeFileSync(trainFile, train.map((text) => `${JSON.stringify({ text })}\n`).join(''));
writeFileSync(heldFile, documents.filter((_, i) => isHeldBack(i)).join('\n'));

// ---- the teacher

const teacherFolder = inOut('teacher');
const end = writeTokenizer(teacherFolder, train.join('\n'), VOCABULARY);
const tokenizer = await models.Tokenizer.fromPretrained(teacherFolder);
const heldBack = await recovery.perplexityRows(heldFile, tokenizer, { sequenceLength: LENGTH });
const teacher = new models.Qwen3ForCausalLM(
  {
    vocabSize: VOCABULARY,
    hiddenSize: 64,
    intermediateSize: 192,
    numHiddenLayers: 4,
    numAttentionHeads: 2,
    numKeyValueHeads: 1,
    headDim: 32,
    maxPositionEmbeddings: 512,
    ropeTheta: 1e4,
    initializerRange: 0.08,
    tieWordEmbeddings: true,
    dtype: 'f32',
    bosTokenId: null,
    eosTokenId: end,
  },
  { scanLayers: true },
);
const size = teacher.parameters().reduce((n, p) => n + p.numel(), 0);
say(
  `a Qwen3 of ${size.toLocaleString('en')} parameters learns from ${train.length} texts (${bytes(train.join('').length)})`,
);

const optimizer = new optim.AdamW(teacher.parameters(), { lr: 8e-3, betas: [0.9, 0.95], weightDecay: 0.1 });
const schedule = new optim.CosineLR(optimizer, { totalSteps: steps, warmup: Math.ceil(steps / 20), floor: 4e-4 });
const learn = tx.compile(function learn(ids: Tensor) {
  const loss = teacher.loss(ids);
  loss.backward();
  optim.clipGradNorm(teacher.parameters(), 1);
  optimizer.step();
  optimizer.zeroGrad();
  return loss;
});
const rows = data.chunkTokens(
  train.map((text) => tokenizer.encode(text)),
  { length: LENGTH, separator: end },
);
const loader = new data.DataLoader(rows.shuffle(4096, seed), { batchSize: BATCH, dropLast: true });
let loss = '';
const learned = progress('teacher', String, () => ` steps${loss}`);
for (let step = 0; step < steps; )
  for await (const { inputIds } of loader) {
    const lost = await learn(inputIds);
    schedule.step();
    if (++step % 25 === 0) loss = `, loss ${Number(await lost.item()).toFixed(3)}`;
    learned(step, steps);
    if (step === steps) break;
  }
await teacher.savePretrained(teacherFolder);

// ---- what it says, for each place of the text its 32 most likely tokens and 16 others; and the student, which is broken

const cacheFolder = inOut('cache');
say('it writes down what it expects at each place of the text: the KD cache');
const cached = progress('kd-cache', String, () => ' sequences');
await distill.writeKDCache(cacheFolder, {
  teacher: teacherFolder,
  data: trainFile,
  sequenceLength: LENGTH,
  topK: 32,
  negatives: 16,
  batchSize: 4 * BATCH,
  seed,
  overwrite: true,
  onProgress: ({ sequences, total }) => total && cached(sequences, total),
});

const studentFolder = inOut('student');
const student = await models.Qwen3ForCausalLM.fromPretrained(teacherFolder, { scanLayers: true });
const report = await quant.quantizeModel(student, { rules: [{ targets: '*_proj', kind: 'symmetric', bits: 2 }] });
const weights = report.layers.reduce((n, { shape: [out, width] }) => n + out * width, 0);
await recovery.saveStudent(studentFolder, student);
say(
  `its linears are quantized, ${bytes(report.bytesBefore)} to ${bytes(report.bytes)}: ${((8 * report.bytes) / weights).toFixed(2)} bits a weight`,
);

// ---- recovery: the command `tsxla train-recovery-lora`, as a function

say('adapters learn from the cache');
const run = await recovery.trainRecoveryLora(
  {
    model: studentFolder,
    kdCacheDir: cacheFolder,
    output: inOut('run'),
    overwrite: true,
    device: args.device as 'auto',
    seed,
    includeKProj: true,
    recoveryR: 4,
    kdTemperature: 1,
    compute: 'dense', // a small vocabulary
    lr: 5e-3,
    batchSize: BATCH,
    maxSteps: Math.ceil(steps / 4),
    evalData: [heldFile],
  },
  shower(),
);
if (!run.finished) process.exit(1); // Ctrl-C

// ---- what came of it

const recovered = (await recovery.loadStudent(studentFolder, { scanLayers: true })).model;
await lora.loadAdapters(recovered, run.adapters);
const said: string[] = [];
for (const model of [teacher, (await recovery.loadStudent(studentFolder, { scanLayers: true })).model, recovered]) {
  model.tokenizer = tokenizer;
  const [sample] = await model.eval().generate('The', { maxNewTokens: 96, temperature: 0.5, seed: 1 });
  said.push(sample!.text);
}
const perplexities = [
  (await recovery.evaluatePerplexity(teacher, heldBack, { batchSize: BATCH })).perplexity,
  run.perplexity!.before,
  run.perplexity!.after,
];
const sizeOf = (...names: string[]): number => names.reduce((n, name) => n + statSync(inOut(name)).size, 0);
const packed = 'student/model.packed.safetensors';
const sizes = [
  sizeOf('teacher/model.safetensors'),
  sizeOf(packed),
  sizeOf(packed, 'run/adapters/adapter_model.safetensors'),
];
const names = ['teacher, 32 bits', 'broken student, 2 bits', 'recovered student'];
const folders = [teacherFolder, studentFolder, `${studentFolder} + ${run.adapters}`];
say('done\n');
console.log(
  columns([
    ['', 'perplexity', 'size', 'where'],
    ...names.map((name, i) => [name, perplexities[i]!.toFixed(2), bytes(sizes[i]!), folders[i]!]),
  ]),
);
const [good, broken, again] = perplexities as [number, number, number];
console.log(`\n  ${((100 * (broken - again)) / (broken - good)).toFixed(0)}% of what was lost is back\n`);
for (const [i, text] of said.entries()) console.log(`${names[i]}:\n    The${text.replace(/\n/g, '\n    ')}\n`);
console.log(
  `npx tsxla generate --model ${studentFolder} --adapters ${run.adapters} --temperature 0.5 --prompt "A tensor"`,
);
console.log(
  `npx tsxla merge-lora --model ${studentFolder} --adapters ${run.adapters} --output ${inOut('merged')} --eval-data ${heldFile} --sequence-length ${LENGTH}`,
);
