// Recovery LoRA in one command, `npm start`: a small Qwen3 learns to write short stories, is quantized to 2 bits per weight, which
// breaks it, and recovers its quality through small adapters that learn from its earlier predictions.
//   npx tsx examples/recover.ts [--device cpu|cuda|tpu] [--out FOLDER] [--seed 0] [--steps 1500] [--board] [--teacher-only]
// The same by hand, for a real model: tsxla kd-cache, tsxla quantize, tsxla train-recovery-lora (docs/recovery-lora.md).
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import * as tx from 'tsxla';
import { data, distill, lora, models, optim, quant, recovery, type Tensor } from 'tsxla';
import { RunLog, serveBoard, writeReport } from 'tsxla/board';
import { bytes, columns, seconds } from '../src/base/format.js';
import { progress } from '../src/cli/progress.js';
import { shower } from '../src/cli/train-recovery-lora.js';
import { writeTokenizer } from './bpe.js';
import { stories } from './stories.js';

const { values: args } = parseArgs({
  options: {
    device: { type: 'string', default: 'auto' },
    out: { type: 'string', default: 'out/recover' },
    seed: { type: 'string', default: '0' },
    steps: { type: 'string', default: '1500' }, // of the teacher; recovery takes a quarter of them
    board: { type: 'boolean', default: false }, // show live curves in the browser
    'teacher-only': { type: 'boolean', default: false }, // stop after the teacher: the text and the model for a tour of the commands
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
const runFolders = [inOut('teacher'), inOut('run')];
for (const folder of runFolders) rmSync(path.join(folder, 'events.jsonl'), { force: true });
const board = args.board ? await serveBoard(runFolders) : undefined;
if (board) console.log(board.url);

// ---- the text: stories, of which every tenth is held back

const documents = stories(6000, 0);
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
  `a Qwen3 of ${size.toLocaleString('en')} parameters learns to write, from ${train.length} stories (${bytes(train.join('').length)})`,
);

const optimizer = new optim.AdamW(teacher.parameters(), { lr: 6e-3, betas: [0.9, 0.95], weightDecay: 0.1 });
const schedule = new optim.CosineLR(optimizer, { totalSteps: steps, warmup: Math.ceil(steps / 20), floor: 4e-5 });
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
const log = RunLog.open(teacherFolder, { title: 'teacher', steps, settings: { lr: 8e-3, batchSize: BATCH, seed } });
const measure = async (step: number): Promise<number> => {
  const { perplexity, loss: evalLoss } = await recovery.evaluatePerplexity(teacher, heldBack, { batchSize: BATCH });
  log.metrics({ step, perplexity, evalLoss });
  return perplexity;
};
let loss = '';
const learned = progress('teacher', String, () => ` steps${loss}`);
for (let step = 0; step < steps; )
  for await (const { inputIds } of loader) {
    const lost = await learn(inputIds);
    schedule.step();
    if (++step % 25 === 0) {
      const value = await lost.item();
      log.metrics({ step, loss: value, lr: schedule.getLastLr()[0]! });
      loss = `, loss ${value.toFixed(3)}`;
    }
    if (step % Math.ceil(steps / 5) === 0 && step < steps) await measure(step);
    learned(step, steps);
    if (step === steps) break;
  }
const taught = await measure(steps);
log.end('finished');
await teacher.savePretrained(teacherFolder);
if (args['teacher-only']) {
  await board?.close();
  process.exit(0);
}

// ---- the teacher's logits of its 32 most likely tokens and 16 others, at each position; and the broken student

const cacheFolder = inOut('cache');
say('it writes down what it expects at each place of the text: the KD cache');
const cached = progress('kd-cache', String, () => ' sequences');
await distill.writeKDCache(cacheFolder, {
  teacher: teacherFolder,
  data: trainFile,
  sequenceLength: LENGTH,
  sequences: 1600,
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
const show = shower();
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
    evalSteps: Math.ceil(steps / 20), // for the curve
    logInterval: 10,
  },
  (event) => {
    if (event.kind !== 'eval' || event.step === 0 || event.step === Math.ceil(steps / 4)) show(event);
  },
);
if (!run.finished) process.exit(1); // Ctrl-C

// ---- the results

const recovered = (await recovery.loadStudent(studentFolder, { scanLayers: true })).model;
await lora.loadAdapters(recovered, run.adapters);
const PROMPT = 'There was a';
const said: string[] = [];
for (const model of [teacher, (await recovery.loadStudent(studentFolder, { scanLayers: true })).model, recovered]) {
  model.tokenizer = tokenizer;
  const [sample] = await model.eval().generate(PROMPT, { maxNewTokens: 120, temperature: 0.5, seed: 1 });
  said.push(sample!.text);
}
const perplexities = [taught, run.perplexity!.before, run.perplexity!.after];
const sizeOf = (...names: string[]): number => names.reduce((n, name) => n + statSync(inOut(name)).size, 0);
const packed = 'student/model.packed.safetensors';
const sizes = [
  sizeOf('teacher/model.safetensors'),
  sizeOf(packed),
  sizeOf(packed, 'run/adapters/adapter_model.safetensors'),
];
const names = ['teacher, 32 bits', 'broken student, 2 bits', 'recovered student'];
const folders = [teacherFolder, studentFolder, `${studentFolder} + ${run.adapters}`];
const table = names.map((name, i) => [name, perplexities[i]!.toFixed(2), bytes(sizes[i]!), folders[i]!]);
const head = ['', 'perplexity', 'size', 'where'];
const told = RunLog.append(inOut('run'));
told.title('student, broken and recovered');
told.table({ title: 'What came of it', head, rows: table });
for (const [i, text] of said.entries()) told.sample({ title: names[i]!, prompt: PROMPT, text });
told.mark({ metric: 'perplexity', label: 'teacher', value: perplexities[0]! });
told.mark({ metric: 'perplexity', label: 'broken student', value: perplexities[1]! });
told[Symbol.dispose]();
const reportFile = inOut('report.html');
await writeReport(reportFile, runFolders, { title: 'Recovery of a 2-bit student' });
await board?.close();
say('done\n');
console.log(columns([head, ...table]));
const [good, broken, again] = perplexities as [number, number, number];
console.log(`\n  ${((100 * (broken - again)) / (broken - good)).toFixed(0)}% of what was lost is back\n`);
const wrapped = (text: string): string => text.replace(/\s+/g, ' ').replace(/(.{1,92})(?: |$)|.{92}/g, '    $&\n');
for (const [i, text] of said.entries()) console.log(`${names[i]}:\n${wrapped(PROMPT + text)}`);
console.log(
  `npx tsxla generate --model ${studentFolder} --adapters ${run.adapters} --temperature 0.5 --prompt "One day"`,
);
console.log(
  `npx tsxla merge-lora --model ${studentFolder} --adapters ${run.adapters} --output ${inOut('merged')} --eval-data ${heldFile} --sequence-length ${LENGTH}`,
);
console.log(`\ncurves: ${reportFile}`);
