// Recovery training: a quantized student learns, through small adapters, what a teacher or a text says. Whatever is wrong with
// what is asked for is said before anything is compiled, and whether it fits before data is read.
import fs from 'node:fs/promises';
import path from 'node:path';
import { ArgumentError, CheckpointError } from '../base/errors.js';
import { DataLoader, IterableDataset } from '../data/index.js';
import { CheckpointManager } from '../io/index.js';
import { saveAdapters } from '../lora/index.js';
import type { Qwen3ForCausalLM } from '../models/index.js';
import { AdamW, LambdaLR } from '../optim/index.js';
import { device } from '../runtime/device.js';
import { counts } from '../runtime/program.js';
import type { Prepared as PreparedProgram } from '../tensor/step.js';
import { compute } from '../tensor/sync.js';
import { Tensor } from '../tensor/tensor.js';
import { getMemoryInfo } from '../xm/index.js';
import type { Batch, Lesson } from './lessons.js';
import { type EvalMetrics, type Metrics, MetricsFile } from './metrics.js';
import { flagOf, type RecoveryOptions, type Settings, settle } from './options.js';
import { evaluatePerplexity, type Perplexity, perplexityRows } from './perplexity.js';
import { prepare } from './prepare.js';
import { emptyAnchor, fillAnchor, recoveryStep, scheduleAt } from './step.js';
import type { StudentForm } from './student.js';

/** What happens in a run, for whoever shows it. */
export type RecoveryEvent =
  | {
      readonly kind: 'student';
      readonly form: StudentForm;
      readonly parameters: number;
      readonly trained: number;
      readonly device: string;
      readonly dtype: string;
    }
  | ({ readonly kind: 'preflight' } & PreparedProgram)
  | { readonly kind: 'resumed'; readonly step: number }
  | {
      readonly kind: 'step';
      readonly step: number;
      readonly phase: 'collated' | 'started' | 'done';
      readonly shape: readonly number[];
      readonly seconds: number;
      readonly loss?: number;
    }
  | {
      readonly kind: 'progress';
      readonly step: number;
      readonly steps: number;
      readonly loss: number | undefined;
      readonly lr: number;
      readonly tokensPerSecond: number;
      readonly memory: number;
      readonly secondsLeft: number;
    }
  | ({ readonly kind: 'log' } & Metrics)
  | { readonly kind: 'evaluating'; readonly done: number; readonly total: number }
  | ({ readonly kind: 'eval' } & EvalMetrics)
  | { readonly kind: 'stopped'; readonly step: number };

export interface RecoveryResult {
  readonly steps: number;
  /** Whether all steps were done; a signal ends a run before. */
  readonly finished: boolean;
  /** The mean of the last losses that were logged. */
  readonly loss: number | undefined;
  /** Before the first step and after the last. */
  readonly perplexity?: { readonly before: number; readonly after: number; readonly best: number };
  /** The folders of the last adapters, and of the best. */
  readonly adapters: string;
  readonly best: string | undefined;
  readonly metrics: string;
  readonly seconds: number;
  readonly tokensPerSecond: number;
  /** The most memory that was seen in use, in bytes. */
  readonly peakMemory: number;
  /** Programs that were compiled since the student was there: for its beginnings, the step, the evaluation. */
  readonly compiles: number;
}

export async function trainRecoveryLora(
  options: RecoveryOptions,
  tell: (event: RecoveryEvent) => void = () => {},
): Promise<RecoveryResult> {
  const s = settle(options);
  const manager = await openOutput(s);
  await using _ = manager; // whatever happens, what was saved is on the disk
  const { student, form, lesson, dtype } = await prepare(s);
  const compiled = counts.compiled;
  const trained = [...student.namedParameters()].filter(([, p]) => p.requiresGrad);
  const size = (tensors: readonly Tensor[]) => tensors.reduce((n, t) => n + t.numel(), 0);
  tell({
    kind: 'student',
    form,
    parameters: size(student.parameters()),
    trained: size(trained.map(([, p]) => p)),
    device: device(),
    dtype,
  });

  const optimizer = new AdamW(trained, { lr: s.lr, weightDecay: s.weightDecay });
  await compute('setup', ...student.parameters(), ...tensorsIn(optimizer.stateDict()));
  const schedule = new LambdaLR(optimizer, (n) => rateFactor(n, s));
  const anchors = s.anchorKlWeight ? Math.min(s.anchorSamples, lesson.sequences ?? s.anchorSamples) : 0;
  const anchor = anchors ? emptyAnchor(student, anchors, lesson.sequenceLength) : undefined;
  const train = recoveryStep({ model: student, optimizer, lesson, anchor, settings: s });
  const perStep = s.batchSize * s.accumulationSteps;
  tell({ kind: 'preflight', ...(await train.prepare([lesson.placeholder(perStep), scheduleAt(0, s, anchors)])) });

  // From here on data is read, and what is written over goes.
  if (s.overwrite) await clear(s.output, manager);
  if (anchor) await fillAnchor(anchor, student, await firstSequences(lesson, anchors));
  const loader = new DataLoader(lesson.rows as IterableDataset<Row>, {
    batchSize: perStep,
    ...(!(lesson.rows instanceof IterableDataset) && { shuffle: s.shuffle, seed: s.seed }),
  });
  const progress: Progress = { best: Number.POSITIVE_INFINITY, losses: [] };
  const items = () => ({ trained: trainedState(student), optimizer, schedule, loader, settings: fixed(s), progress });
  const metrics = new MetricsFile(path.join(s.output, 'metrics.jsonl'));
  const { settings: _settings, progress: _progress, ...states } = items();
  const restored = s.resume ? await manager.load(states) : undefined;
  let step = restored?.step ?? 0;
  if (restored) {
    Object.assign(progress, restored.values.progress);
    tell({ kind: 'resumed', step });
  }
  metrics.goBackTo(restored ? step : -1);
  const evaluate = await evaluator(s, student, lesson.sequenceLength, tell);
  const bestFolder = path.join(s.output, 'best');
  const baseModel = s.quantize ? path.join(s.output, 'student') : s.model;
  const note = async (loss: number): Promise<void> => {
    if (!(loss < progress.best)) return;
    progress.best = loss;
    await saveAdapters(student, bestFolder, { baseModel });
  };
  const measure = async (): Promise<void> => {
    const found = await evaluate?.();
    if (!found) return;
    const line = { step, evalLoss: found.loss, perplexity: found.perplexity };
    metrics.add(line);
    tell({ kind: 'eval', ...line });
    await note(found.loss);
    progress.before ??= found.perplexity;
    progress.latest = found;
  };

  if (progress.before === undefined) await measure();
  const meter = new Meter(step, perStep * lesson.sequenceLength);
  let stopped = false;
  const pending: Promise<number>[] = []; // losses on their way, of the steps since the last line
  const settled = async () => progress.losses.push(...(await Promise.all(pending.splice(0))));

  for await (const batch of forever(loader, () => step < s.maxSteps && !stopped)) {
    const shape = batch.inputIds.shape;
    const begun = performance.now();
    const since = () => (performance.now() - begun) / 1e3;
    if (s.verbose) tell({ kind: 'step', step: step + 1, phase: 'collated', shape, seconds: 0 });
    const { loss, gradNorm } = await train(batch, scheduleAt(step, s, anchors));
    for (const t of Object.values(batch)) t.dispose();
    const lr = schedule.getLastLr()[0]!;
    schedule.step();
    step++;
    if (s.verbose) tell({ kind: 'step', step, phase: 'started', shape, seconds: since() });
    const value = loss.item().then(Number);
    value.then((x) => meter.done(step, x)).catch(() => {}); // whoever awaits it hears of it
    pending.push(value);
    if (s.verbose) tell({ kind: 'step', step, phase: 'done', shape, loss: await value, seconds: since() });
    meter.memory((await getMemoryInfo()).bytesUsed);
    tell({ kind: 'progress', step, steps: s.maxSteps, lr, ...meter.now(s.maxSteps) });

    const last = step === s.maxSteps;
    const logs = last || step % s.logInterval === 0;
    const evaluates = evaluate && (last || (s.evalSteps > 0 && step % s.evalSteps === 0));
    await settled();
    checkFinite('the loss', progress.losses.at(-1)!, step, s);
    // Whatever is kept is good: the losses were finite, and so was the last update.
    const norm = logs || evaluates || manager.isDue(step) ? Number(await gradNorm.item()) : 0;
    checkFinite('the norm of the gradients', norm, step, s);
    if (logs) {
      progress.loss = mean(progress.losses.splice(0));
      const { tokensPerSecond, memory, seconds } = meter.now(s.maxSteps);
      const line = { step, loss: progress.loss, lr, gradNorm: norm, tokensPerSecond, memory, seconds };
      metrics.add(line);
      tell({ kind: 'log', ...line });
      if (!evaluate) await note(progress.loss);
    }
    if (evaluates) {
      await measure();
      meter.resume();
    }
    stopped = await manager.tick(step, items(), { metrics: metricsOf(progress) });
    if (last && !stopped && step % s.saveSteps) await manager.save(step, items(), { metrics: metricsOf(progress) });
  }
  await manager.done();
  const adapters = path.join(s.output, 'adapters');
  await saveAdapters(student, adapters, { baseModel });
  if (stopped) tell({ kind: 'stopped', step });
  const { tokensPerSecond, seconds } = meter.now(s.maxSteps);
  return {
    steps: step,
    finished: step === s.maxSteps,
    loss: progress.loss,
    ...(progress.latest && {
      perplexity: {
        before: progress.before!,
        after: progress.latest.perplexity,
        best: Math.exp(progress.best),
      },
    }),
    adapters,
    best: Number.isFinite(progress.best) ? bestFolder : undefined,
    metrics: metrics.path,
    seconds,
    tokensPerSecond,
    peakMemory: meter.peak,
    compiles: counts.compiled - compiled,
  };
}

type Row = Readonly<Record<string, unknown>>;
/** What a run knows of itself, and goes on with when it is resumed. */
interface Progress {
  /** The lowest loss so far, of those that say what is best. */
  best: number;
  /** Of the steps since the last line of the log. */
  losses: number[];
  /** Of that line. */
  loss?: number;
  /** The perplexity at first, and what was found last. */
  before?: number;
  latest?: Perplexity;
}
const tensorsIn = (x: unknown): Tensor[] =>
  x instanceof Tensor ? [x] : x !== null && typeof x === 'object' ? Object.values(x).flatMap(tensorsIn) : [];
const mean = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0) / xs.length;
const metricsOf = ({ loss, latest }: Progress): Record<string, number> => ({
  ...(loss !== undefined && { loss }),
  ...(latest && { evalLoss: latest.loss }),
});
function checkFinite(what: string, value: number, step: number, s: Settings): void {
  if (!Number.isFinite(value))
    throw new ArgumentError(
      `${what} of step ${step} is ${value}: the adapters are lost: train with a smaller --lr or --grad-clip, anew or with --resume-from ${path.join(s.output, 'best')}; what is saved in ${s.output} is good`,
    );
}

/**
 * The learning rate of step n, counted from 0, as a part of the highest: from a tenth in a line, then along half a cosine down
 * to minLrRatio, which the last step has. Steps are the optimizer's, however many batches each takes.
 */
export function rateFactor(
  n: number,
  s: Pick<Settings, 'maxSteps' | 'warmupSteps' | 'minLrRatio' | 'constantLr'>,
): number {
  const warmup = s.warmupSteps ?? Math.min(100, Math.floor(s.maxSteps / 10));
  if (n < warmup) return 0.1 + (0.9 * n) / warmup;
  if (s.constantLr) return 1;
  const part = Math.min(1, (n - warmup) / Math.max(1, s.maxSteps - 1 - warmup));
  return s.minLrRatio + ((1 - s.minLrRatio) / 2) * (1 + Math.cos(Math.PI * part));
}

async function* forever(loader: AsyncIterable<unknown>, goesOn: () => boolean): AsyncGenerator<Batch> {
  while (goesOn())
    for await (const batch of loader) {
      yield batch as Batch;
      if (!goesOn()) return;
    }
}

async function firstSequences({ rows }: Lesson, n: number): Promise<Batch[]> {
  const loader = new DataLoader(rows as IterableDataset<Row>, { batchSize: 1 });
  const found: Batch[] = [];
  for await (const batch of loader) {
    found.push(batch as unknown as Batch);
    if (found.length === n) return found;
  }
  throw new ArgumentError(`--anchor-samples ${n}: the data has ${found.length} sequences: use fewer`);
}

async function evaluator(
  s: Settings,
  model: Qwen3ForCausalLM,
  sequenceLength: number,
  tell: (event: RecoveryEvent) => void,
): Promise<(() => Promise<Perplexity>) | undefined> {
  if (!s.evalData) return undefined;
  const maxTokens = s.evalSamples ? { maxTokens: s.evalSamples * sequenceLength } : {};
  const rows = await perplexityRows(s.evalData, model.tokenizer, { sequenceLength, field: s.textField, ...maxTokens });
  const onProgress = (done: number, total: number) => tell({ kind: 'evaluating', done, total });
  return () => evaluatePerplexity(model, rows, { batchSize: s.batchSize, onProgress });
}

// ---- the folder of a run

/** What a run may change when it goes on. */
const FREE = [
  'output',
  'device',
  'tpu',
  'xlaCacheDir',
  'preload',
  'logInterval',
  'saveSteps',
  'keepCheckpoints',
  'evalSteps',
  'resume',
  'overwrite',
  'verbose',
];
const fixed = (s: Settings): Record<string, unknown> =>
  Object.fromEntries(Object.entries(s).filter(([name]) => !FREE.includes(name)));

/** What a run leaves there, less its metrics. */
async function clear(output: string, { dir }: CheckpointManager): Promise<void> {
  for (const folder of [dir, path.join(output, 'adapters'), path.join(output, 'best')])
    await fs.rm(folder, { recursive: true, force: true });
  await fs.mkdir(dir);
}

/** A new run does not write over another, and one that goes on must be the same. */
async function openOutput(s: Settings): Promise<CheckpointManager> {
  const manager = new CheckpointManager(path.join(s.output, 'checkpoints'), {
    keep: s.keepCheckpoints,
    every: s.saveSteps,
    best: { metric: s.evalData ? 'evalLoss' : 'loss' },
  });
  const { latest } = manager;
  if (s.overwrite) return manager;
  if (latest && !s.resume)
    throw new ArgumentError(
      `${s.output} has a run already, at step ${latest.step}: pass --resume to go on with it, --overwrite to begin anew, or another --output`,
    );
  if (!latest) return manager;
  const { values } = (await manager.load({}, { rng: false }))!;
  const was = values.settings as Record<string, unknown>;
  const now = fixed(s);
  const differing = [...new Set([...Object.keys(was ?? {}), ...Object.keys(now)])].filter(
    (name) => JSON.stringify(was?.[name]) !== JSON.stringify(now[name]),
  );
  const [first] = differing;
  if (!was || first)
    throw new CheckpointError(
      `${latest.path} is of another run: ${first ? `its ${flagOf(first)} was ${JSON.stringify(was?.[first]) ?? 'not given'}, here it is ${JSON.stringify(now[first]) ?? 'not given'}` : 'it has no settings'}${differing.length > 1 ? ` (and ${differing.length - 1} more differ)` : ''}: use the same, or another --output`,
    );
  return manager;
}

/** What is trained, as checkpoints have it. */
const trainedState = (model: Qwen3ForCausalLM) => ({
  *stateEntries() {
    for (const entry of model.stateEntries()) if (entry.tensor.requiresGrad) yield entry;
  },
  stateDict: () => model.stateDict(),
  loadStateDict: (state: Parameters<Qwen3ForCausalLM['loadStateDict']>[0]) =>
    void model.loadStateDict(state, { strict: false }),
});

/** How fast it goes: measured over the steps that are done, without what stands between them. */
class Meter {
  readonly #tokens: number;
  readonly #from: number;
  #begin = performance.now();
  #steps = 0;
  #clock: number | undefined; // when the first step was done: without loading and the first transfer
  #busy = 0; // seconds until the last break
  #loss: number | undefined;
  #memory = 0;
  peak = 0;
  constructor(from: number, tokens: number) {
    this.#from = from;
    this.#tokens = tokens;
  }
  done(step: number, loss: number): void {
    this.#loss = loss;
    const now = performance.now();
    if (this.#clock === undefined) this.#clock = now;
    else this.#steps = Math.max(this.#steps, step - this.#from - 1);
    this.#last = now;
  }
  #last = 0;
  memory(bytes: number): void {
    this.#memory = bytes;
    this.peak = Math.max(this.peak, bytes);
  }
  /** What happened since the last step does not count. */
  resume(): void {
    if (this.#clock === undefined) return;
    this.#busy += this.#last - this.#clock;
    this.#clock = performance.now();
    this.#last = this.#clock;
  }
  now(total: number) {
    const busy = (this.#busy + (this.#clock === undefined ? 0 : this.#last - this.#clock)) / 1e3;
    const perStep = this.#steps ? busy / this.#steps : 0;
    return {
      loss: this.#loss,
      tokensPerSecond: perStep ? this.#tokens / perStep : 0,
      memory: this.#memory,
      secondsLeft: perStep * (total - this.#from - 1 - this.#steps),
      seconds: (performance.now() - this.#begin) / 1e3,
    };
  }
}
