// The training loop of recovery: a quantized student learns from a teacher or a text through adapters. Wrong options are errors
// before anything is compiled; whether the step fits into memory is known before data is read.
import { NonfiniteError } from '../base/errors.js';
import { notice } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { type DataLoader, IterableDataset } from '../data/index.js';
import { saveAdapters } from '../lora/index.js';
import type { DecoderForCausalLM } from '../models/index.js';
import { offLoop } from '../observe/rules-loop.js';
import { RunLog } from '../observe/run-log.js';
import { AdamW, LambdaLR } from '../optim/index.js';
import { StepProfiler } from '../profiler/index.js';
import { device } from '../runtime/device.js';
import { programBytes } from '../runtime/memory.js';
import { counts } from '../runtime/program.js';
import { batchFor } from '../spmd/index.js';
import type { Prepared } from '../step/step.js';
import { compute } from '../step/sync.js';
import { Tensor } from '../tensor/tensor.js';
import { shareLoader } from '../train/data.js';
import { getMemoryInfo } from '../xm/index.js';
import { type Anchor, emptyAnchor, fillAnchor } from './anchor.js';
import { type Batch, batchesOf, type Lesson } from './lessons.js';
import { Meter } from './meter.js';
import type { EvalMetrics, Metrics } from './metrics.js';
import { failedStep, type NonfiniteValue, nonfiniteRun } from './nonfinite.js';
import { fixed, type Settings } from './options.js';
import { OutputFolder, studentIn } from './output.js';
import { evaluatePerplexity, evaluating, type Perplexity, perplexityRows } from './perplexity.js';
import { prepare, type Setup } from './prepare.js';
import { rateFactor, scheduleAt } from './schedule.js';
import { recoveryStep, type Step, type StepResult, sharedStep } from './step.js';
import type { StudentForm } from './student.js';
import type { Workers } from './workers.js';

/** An event of a run, for progress displays and logs. */
export type RecoveryEvent =
  | {
      readonly kind: 'student';
      readonly form: StudentForm;
      readonly parameters: number;
      readonly trained: number;
      readonly device: string;
      readonly dtype: string;
    }
  | ({ readonly kind: 'preflight' } & Prepared)
  | { readonly kind: 'resumed'; readonly step: number; readonly steps: number }
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
  /** Whether all steps were done; false if a signal stopped the run. */
  readonly finished: boolean;
  /** The mean of the last losses that were logged. */
  readonly loss: number | undefined;
  /** Perplexity before the first step, after the last, and the lowest. */
  readonly perplexity?: { readonly before: number; readonly after: number; readonly best: number };
  /** The folder of the last adapters; `best` is that of the best. */
  readonly adapters: string;
  readonly best: string | undefined;
  readonly metrics: string;
  readonly seconds: number;
  readonly tokensPerSecond: number;
  /** Peak memory in use, in bytes, sampled at each step. */
  readonly peakMemory: number;
  /** Number of programs compiled after the student was loaded: initial values, the step, the evaluation. */
  readonly compiles: number;
}

export type OnEvent = (event: RecoveryEvent) => void;

export async function recover(settings: Settings, onEvent: OnEvent, workers: Workers): Promise<RecoveryResult> {
  using log = workers.isFirst ? new RunLog() : undefined; // notes compiles from here on
  await using folder = await OutputFolder.open(settings, workers); // disposing waits until checkpoints are on the disk
  try {
    const result = await recoverIn(folder, settings, onEvent, workers, log);
    log?.end(result.finished ? 'finished' : 'stopped');
    return result;
  } catch (e) {
    log?.end('failed', messageOf(e));
    throw e;
  }
}

async function recoverIn(
  folder: OutputFolder,
  settings: Settings,
  onEvent: OnEvent,
  workers: Workers,
  log: RunLog | undefined,
): Promise<RecoveryResult> {
  const { profile, profileSteps: steps } = settings;
  const profiling = { steps, rank: workers.rank, pointAt: ['models', 'nn', 'lora', 'quant', 'distill', 'recovery'] };
  await using profiler = profile === undefined ? undefined : new StepProfiler(profile, profiling);
  const prepared = await prepare(settings, workers);
  const compiled = counts.compiled;
  const learner = new Learner(prepared, settings, workers);
  const student = { ...learner.sizes, form: prepared.form, device: device(), dtype: prepared.dtype };
  log?.add('facts', student);
  onEvent({ kind: 'student', ...student });
  const step = await learner.preflight();
  log?.add('facts', { stepMemory: programBytes(step.memory) });
  onEvent({ kind: 'preflight', ...step });
  if (settings.overwrite) await folder.clear(settings); // only after all checks have passed
  await learner.fillAnchor(); // from here on data is read
  const run = new RecoveryRun(settings, prepared, learner, folder, onEvent, workers, profiler, log);
  await run.resume();
  await run.train();
  return { ...(await run.finish()), compiles: counts.compiled - compiled };
}

// ---- the student, its optimizer and its step

/** What is trained, and the compiled step that trains it. It knows nothing of files, logs and evaluations. */
class Learner {
  readonly student: DecoderForCausalLM;
  readonly lesson: Lesson;
  readonly optimizer: AdamW;
  readonly schedule: LambdaLR;
  readonly #settings: Settings;
  /** Hidden states of the student before training, which the anchor loss holds it to; and their number. */
  readonly #anchor: Anchor | undefined;
  readonly #anchors: number;
  readonly #step: Step;
  /** Number of a step's sequences that this worker's program takes. */
  readonly #sequences: number;

  constructor({ student, lesson }: Setup, s: Settings, { apart, count }: Workers) {
    this.student = student;
    this.lesson = lesson;
    this.#settings = s;
    this.optimizer = new AdamW(
      [...student.namedParameters()].filter(([, p]) => p.requiresGrad),
      { lr: s.lr, weightDecay: s.weightDecay, masterWeights: true }, // norms in bf16 would lose steps this small
    );
    this.schedule = new LambdaLR(this.optimizer, (n) => rateFactor(n, s));
    this.#anchors = s.anchorKlWeight ? Math.min(s.anchorSamples, lesson.sequences ?? s.anchorSamples) : 0;
    this.#anchor = this.#anchors ? emptyAnchor(student, this.#anchors, lesson.sequenceLength) : undefined;
    this.#sequences = (s.batchSize * s.accumulationSteps) / (apart ? count : 1);
    const parts = { model: student, optimizer: this.optimizer, lesson, anchor: this.#anchor, settings: s };
    this.#step = apart ? sharedStep(parts) : recoveryStep(parts);
  }
  get sizes(): { parameters: number; trained: number } {
    const size = (tensors: readonly Tensor[]) => tensors.reduce((n, t) => n + t.numel(), 0);
    const all = this.student.parameters();
    return { parameters: size(all), trained: size(all.filter((p) => p.requiresGrad)) };
  }

  /** Compiles the step. Returns the time it took and the memory that the step needs. */
  async preflight(): Promise<Prepared> {
    await compute('setup', ...this.student.parameters(), ...tensorsIn(this.optimizer.stateDict()));
    const batch = batchFor(this.student, this.lesson.placeholder(this.#sequences));
    return this.#step.prepare([batch, this.#scheduleAt(0)]);
  }
  async fillAnchor(): Promise<void> {
    if (this.#anchor) await fillAnchor(this.#anchor, this.student, this.lesson);
  }
  /** Starts step n, counted from 0. Disposes the batch. */
  async step(n: number, batch: Batch): Promise<StepResult & { readonly lr: number }> {
    const [lr] = this.schedule.getLastLr();
    const result = await this.#step(batch, this.#scheduleAt(n));
    for (const t of Object.values(batch)) t.dispose();
    this.schedule.step();
    return { ...result, lr: lr! };
  }
  #scheduleAt(n: number) {
    return scheduleAt(n, this.#settings, this.#anchors);
  }

  /** The trained tensors, for checkpoints. */
  get trained() {
    const { student } = this;
    return {
      *stateEntries() {
        for (const entry of student.stateEntries()) if (entry.tensor.requiresGrad) yield entry;
      },
      stateDict: () => student.stateDict(),
      loadStateDict: (state: Parameters<DecoderForCausalLM['loadStateDict']>[0]) =>
        void student.loadStateDict(state, { strict: false }),
    };
  }
}
const tensorsIn = (x: unknown): Tensor[] =>
  x instanceof Tensor ? [x] : x !== null && typeof x === 'object' ? Object.values(x).flatMap(tensorsIn) : [];

// ---- the steps of a run, and its files

/** The state of a run that is saved in checkpoints, so that a resumed run reports the same as an uninterrupted one. */
interface Progress {
  /** The lowest loss: of evaluations if there are any, else of training. */
  best: number;
  /** Losses of the steps since the last line of the log. */
  losses: number[];
  /** The loss in that line. */
  loss?: number;
  /** The first perplexity; `latest` is the last evaluation. */
  before?: number;
  latest?: Perplexity;
}

/** One run: drives the learner through the data, and evaluates, logs and saves in between. */
class RecoveryRun {
  readonly #settings: Settings;
  readonly #learner: Learner;
  readonly #folder: OutputFolder;
  readonly #onEvent: OnEvent;
  readonly #workers: Workers;
  readonly #profiler: StepProfiler | undefined;
  readonly #events: RunLog | undefined;
  readonly #batches: DataLoader<Readonly<Record<string, unknown>>, Batch>;
  readonly #meter: Meter;
  /** Number of steps that were started. */
  #step = 0;
  #last: { readonly lr: number; readonly gradNorm: Tensor } | undefined;
  /** Losses that are still being read, of steps since the last line of the log. */
  readonly #pending: Promise<number>[] = [];
  /** Resolves when the losses of all steps so far are in the event log. */
  #logged: Promise<void> = Promise.resolve();
  readonly #progress: Progress = { best: Number.POSITIVE_INFINITY, losses: [] };
  #evaluate: (() => Promise<Perplexity>) | undefined;
  #stopped = false;

  constructor(
    s: Settings,
    { lesson, share, mesh }: Setup,
    learner: Learner,
    folder: OutputFolder,
    onEvent: OnEvent,
    workers: Workers,
    profiler: StepProfiler | undefined,
    events: RunLog | undefined,
  ) {
    this.#settings = s;
    this.#profiler = profiler;
    this.#events = events;
    this.#learner = learner;
    this.#folder = folder;
    this.#onEvent = onEvent;
    const order = lesson.rows instanceof IterableDataset ? {} : { shuffle: s.shuffle, seed: s.seed };
    this.#workers = workers;
    const sequences = s.batchSize * s.accumulationSteps;
    const whole = batchesOf(lesson, { batchSize: sequences / share.count, ...order });
    this.#batches = shareLoader(whole, share.index, share.count, mesh);
    this.#meter = new Meter(s.maxSteps, sequences * lesson.sequenceLength);
  }
  get #ended(): boolean {
    return this.#step === this.#settings.maxSteps;
  }

  /** Restores the last checkpoint, if --resume is given and there is one. */
  async resume(): Promise<void> {
    const restored = this.#settings.resume ? await this.#folder.checkpoints.load(this.#states()) : undefined;
    if (restored) {
      this.#step = restored.step;
      Object.assign(this.#progress, restored.values.progress);
      this.#onEvent({ kind: 'resumed', step: this.#step, steps: this.#settings.maxSteps });
    } else if (this.#settings.resume && !this.#folder.checkpoints.latest && this.#workers.isFirst)
      notice(`${this.#settings.output} has no checkpoint to resume: the run begins at step 1`);
    this.#workers.ownRandom(); // from here on each worker draws its own dropout; a checkpoint has the state of worker 0
    await this.#folder.metrics.goBackTo(restored?.step);
    const { output, maxSteps: steps } = this.#settings;
    const start = { step: this.#step, steps, settings: fixed(this.#settings) };
    this.#events?.open(output, start, () => this.#folder.check());
  }
  #states() {
    const { trained, optimizer, schedule } = this.#learner;
    return { trained, optimizer, schedule, loader: this.#batches };
  }

  async train(): Promise<void> {
    const { logInterval, evalSteps } = this.#settings;
    this.#evaluate = await this.#evaluator();
    if (!this.#progress.latest) await this.#measure();
    if (!this.#step) await this.#sample('before');
    this.#meter.start(this.#step);
    for await (const batch of this.#epochs()) {
      const take = () => this.#take(batch);
      await (this.#profiler ? this.#profiler.step(this.#step + 1, take) : take());
      if (this.#ended || this.#step % logInterval === 0) await this.#log();
      if (this.#ended || (evalSteps && this.#step % evalSteps === 0)) await this.#measure();
      await this.#save();
    }
  }
  async *#epochs(): AsyncGenerator<Batch> {
    const isRunning = () => !this.#ended && !this.#stopped;
    while (isRunning())
      for await (const batch of this.#batches) {
        yield batch;
        if (!isRunning()) return;
      }
  }

  async #take(batch: Batch): Promise<void> {
    const { verbose, maxSteps: steps } = this.#settings;
    const { shape } = batch.inputIds;
    const step = this.#step + 1;
    const begun = performance.now();
    const onPhase = (phase: 'collated' | 'started' | 'done', loss: { readonly loss?: number } = {}) => {
      const seconds = phase === 'collated' ? 0 : (performance.now() - begun) / 1e3;
      if (verbose) this.#onEvent({ kind: 'step', step, phase, shape, seconds, ...loss });
    };
    onPhase('collated');
    const { loss, gradNorm, lr } = await this.#learner.step(this.#step, batch).catch(async (e: unknown) => {
      throw e instanceof NonfiniteError ? await failedStep(step, e, this.#folder) : e;
    });
    this.#step = step;
    this.#last = { lr, gradNorm };
    onPhase('started');
    const value = offLoop(() => loss.item()); // not awaited: the loop continues
    const before = this.#logged;
    const log = async (x: number) => {
      await before; // losses may arrive in another order than their steps
      this.#events?.step(step, x, this.#meter.step(step, x));
    };
    this.#logged = value.then(log).catch(() => {}); // a rejection surfaces where `value` is awaited
    this.#pending.push(value);
    if (verbose) onPhase('done', { loss: await value });
    this.#meter.memory((await getMemoryInfo()).bytesUsed);
    this.#onEvent({ kind: 'progress', step, steps, lr, ...this.#meter.now });
    await this.#pending.at(-2); // one step ahead of the device: it does not wait for the host, and batches do not pile up
  }
  /** Waits for the losses of all steps and throws unless they and the last gradient norm are finite: called before each save. */
  async #settle(): Promise<number> {
    const [first, losses] = [this.#step + 1 - this.#pending.length, await Promise.all(this.#pending.splice(0))];
    const bad = losses.findIndex((loss) => !Number.isFinite(loss)); // the first step to blame, not the last
    if (bad >= 0) throw await this.#nonfinite({ what: 'loss', step: first + bad, value: losses[bad]! });
    this.#progress.losses.push(...losses);
    await this.#logged;
    const gradNorm = await this.#last!.gradNorm.item();
    if (!Number.isFinite(gradNorm))
      throw await this.#nonfinite({ what: 'norm of the gradients', step: this.#step, value: gradNorm });
    return gradNorm;
  }
  #nonfinite(value: NonfiniteValue): Promise<NonfiniteError> {
    return nonfiniteRun(value, this.#folder);
  }

  async #log(): Promise<void> {
    const gradNorm = await this.#settle();
    const [step, { lr }] = [this.#step, this.#last!];
    const loss = mean(this.#progress.losses.splice(0));
    const { tokensPerSecond, memory, seconds } = this.#meter.now;
    const line = { step, loss, lr, gradNorm, tokensPerSecond, memory, seconds };
    this.#progress.loss = loss;
    this.#folder.metrics.add(line);
    this.#onEvent({ kind: 'log', ...line });
    if (!this.#evaluate) await this.#keepBest(loss);
  }
  async #measure(): Promise<void> {
    if (!this.#evaluate) return;
    const found = await this.#evaluate();
    const line = { step: this.#step, evalLoss: found.loss, perplexity: found.perplexity };
    this.#progress.before ??= found.perplexity;
    this.#progress.latest = found;
    this.#folder.metrics.add(line);
    this.#onEvent({ kind: 'eval', ...line });
    await this.#keepBest(found.loss);
    this.#meter.skip();
  }
  /** Logs how the student currently continues the prompt. */
  async #sample(title: string): Promise<void> {
    const { samplePrompt: prompt, seed } = this.#settings;
    if (prompt === undefined || !this.#folder.writes) return;
    const options = { maxNewTokens: SAMPLE_TOKENS, temperature: 0.7, seed };
    const { student } = this.#learner;
    const [sample] = await evaluating(student, () => student.generate(prompt, options));
    this.#events?.sample({ title, prompt, text: sample!.text });
  }
  async #evaluator(): Promise<(() => Promise<Perplexity>) | undefined> {
    const { evalData, evalSamples, textField: field, batchSize } = this.#settings;
    if (!evalData || !this.#folder.writes) return undefined;
    const { student, lesson } = this.#learner;
    const { sequenceLength } = lesson;
    const maxTokens = evalSamples ? { maxTokens: evalSamples * sequenceLength } : {};
    const rows = await perplexityRows(evalData, student.tokenizer, { sequenceLength, field, ...maxTokens });
    const onProgress = (done: number, total: number) => this.#onEvent({ kind: 'evaluating', done, total });
    return () => evaluatePerplexity(student, rows, { batchSize, onProgress });
  }

  async #keepBest(loss: number): Promise<void> {
    if (!this.#folder.writes || !(loss < this.#progress.best)) return;
    this.#progress.best = loss;
    await this.#saveAdapters(this.#folder.paths.best);
  }
  #saveAdapters(folder: string): Promise<void> {
    this.#folder.check();
    const { quantize, model } = this.#settings;
    return saveAdapters(this.#learner.student, folder, { baseModel: quantize ? studentIn(this.#settings) : model });
  }
  /** Saves a checkpoint if one is due. */
  async #save(): Promise<void> {
    const { checkpoints } = this.#folder;
    const stop = await this.#workers.any(checkpoints.isTold); // all workers stop after the same step
    if (this.#ended || stop || checkpoints.isDue(this.#step)) {
      await this.#settle();
      this.#folder.check();
    }
    const items = { ...this.#states(), settings: fixed(this.#settings), progress: this.#progress };
    const { loss, latest } = this.#progress;
    const metrics = { ...(loss !== undefined && { loss }), ...(latest && { evalLoss: latest.loss }) };
    this.#stopped = await checkpoints.tick(this.#step, items, { metrics, stop });
    if (this.#ended && !this.#stopped && this.#step % this.#settings.saveSteps)
      await checkpoints.save(this.#step, items, { metrics });
  }

  async finish(): Promise<Omit<RecoveryResult, 'compiles'>> {
    const { adapters, best, metrics } = this.#folder.paths;
    await this.#folder.checkpoints.done();
    if (this.#folder.writes) await this.#saveAdapters(adapters);
    if (this.#ended) await this.#sample('after');
    if (this.#stopped) this.#onEvent({ kind: 'stopped', step: this.#step });
    const { loss, before, latest, best: lowest } = this.#progress;
    const { tokensPerSecond, seconds, peakMemory } = this.#meter.now;
    return {
      steps: this.#step,
      finished: this.#ended,
      loss,
      ...(latest && { perplexity: { before: before!, after: latest.perplexity, best: Math.exp(lowest) } }),
      adapters,
      best: Number.isFinite(lowest) ? best : undefined,
      metrics,
      seconds,
      tokensPerSecond,
      peakMemory,
    };
  }
}
const SAMPLE_TOKENS = 96;
const mean = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0) / xs.length;
