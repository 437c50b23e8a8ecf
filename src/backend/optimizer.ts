// TPUOptimizer of KernelPyTorch's TPU Backend Guide: changes that make a model smaller and faster, each checked against the
// model's original outputs.
import { ArgumentError, DTypeError } from '../base/errors.js';
import { bytes, columns, seconds } from '../base/format.js';
import { sentenceOf } from '../base/thrown.js';
import { describe, isPlain, shown } from '../base/tree.js';
import { Mesh } from '../ir/mesh.js';
import type { Module } from '../nn/module.js';
import { collectGarbage } from '../runtime/memory.js';
import { dropPrograms } from '../runtime/program.js';
import { defaultClient } from '../runtime/value.js';
import { shardingOf, unmark } from '../spmd/sharding.js';
import { sync } from '../step/sync.js';
import type { Tensor } from '../tensor/tensor.js';
import {
  type Change,
  type Context,
  OPTIMIZATION_LEVELS,
  type OptimizationLevel,
  PURPOSES,
  type Purpose,
  roundingOf,
  weightsOf,
} from './changes.js';
import { checkCount, checkOneOf, checkOptions } from './check.js';
import { type Configuration, configOf, type KernelPyTorchConfig } from './config.js';
import { TPUConfigurationError, TPUOptimizationError, TPUValidationError } from './errors.js';
import { log, rounded, warnOrThrow } from './log.js';
import {
  checkTrains,
  type Difference,
  differenceOf,
  type Metrics,
  measure,
  outputsOf,
  type Sample,
  sampleOf,
} from './measure.js';
import { named } from './naming.js';
import {
  type ChangeReport,
  checkModel,
  contextOf,
  isRounded,
  purposeOf,
  reconcile,
  rowsOf,
  type Standing,
  standingOf,
  takeBack,
  tellLost,
  tryApply,
  undoOptimizations,
} from './standing.js';

export interface OptimizeOptions {
  /** The relative error of outputs that is allowed. Default: that of each change (0.05 with bf16, else 0.001). */
  readonly tolerance?: number;
  /** The number of timed runs. Default: 5. */
  readonly runs?: number;
  /** 'inference' or 'training'. Default: the configuration's mode. */
  readonly purpose?: Purpose;
}
const OPTIONS = ['tolerance', 'runs', 'purpose'] as const;

export interface PerformanceMetrics {
  readonly before: Metrics;
  readonly after: Metrics;
  /** Step time before divided by step time after. */
  readonly speedup: number;
  /** Bytes saved in a step's memory. */
  readonly memorySaved: number;
}
export interface Comparison extends Difference {
  readonly tolerance: number;
  /** The number of tensors compared. */
  readonly outputs: number;
}
/** Memory in bytes. */
export interface MemoryUsage {
  readonly weights: number;
  /** All live buffers on the devices. */
  readonly live: number;
}

type ResultFields<M extends Module> = Omit<TPUOptimizationResult<M>, 'toString' | 'undo'>;
export class TPUOptimizationResult<M extends Module = Module> {
  /** The given model, changed in place. */
  declare readonly optimizedModel: M;
  declare readonly optimizationLevel: OptimizationLevel;
  declare readonly purpose: Purpose;
  /** In seconds. */
  declare readonly optimizationTime: number;
  declare readonly changes: readonly ChangeReport[];
  /** Null without sample inputs; so is the comparison. */
  declare readonly performanceMetrics: PerformanceMetrics | null;
  declare readonly comparison: Comparison | null;
  declare readonly memoryUsage: MemoryUsage;
  constructor(fields: ResultFields<M>) {
    Object.assign(this, fields);
  }

  /** Undoes all changes applied to the model, as undoOptimizations does. */
  undo(): void {
    undoOptimizations(this.optimizedModel);
  }

  toString(): string {
    const { optimizedModel, optimizationLevel, purpose, changes, performanceMetrics: p, comparison } = this;
    const title = `${optimizedModel.constructor.name}, ${optimizationLevel}, for ${purpose}, in ${seconds(this.optimizationTime)}`;
    const drifted = (drift?: number) => (drift === undefined ? '' : drift.toExponential(1));
    const rows = [
      ['change', 'status', 'drift', ''],
      ...changes.map(({ name, status, drift, what }) => [name, status, drifted(drift), what]),
    ];
    const costs = (['stepTime', 'memory', 'compileTime', 'weights'] as const).map((name) => {
      const show = name.endsWith('Time') ? seconds : bytes;
      return [name, ...(p ? [show(p.before[name]), show(p.after[name])] : [])];
    });
    const measured = p
      ? `\n${columns([['', 'before', 'after'], ...costs])}\n  ${p.speedup.toFixed(2)} times as fast`
      : '\n  nothing was measured or compared: no sample inputs were given';
    const compared = comparison
      ? `; outputs differ by ${comparison.relativeError.toExponential(1)}, ${comparison.tolerance} is allowed`
      : '';
    return `${title}\n${columns(rows)}${measured}${compared}`;
  }
}

export interface OptimizationStats {
  readonly optimizations: number;
  /** The numbers of changes that were applied and undone. */
  readonly applied: number;
  readonly undone: number;
  readonly seconds: number;
  /** The number of programs compiled for measurements that are kept. */
  readonly programs: number;
}

const busy = new WeakSet<Module>();

export class TPUOptimizer {
  readonly config: KernelPyTorchConfig;
  #stats = { optimizations: 0, applied: 0, undone: 0, seconds: 0 };
  readonly #programs = new Set<string>();

  constructor(config?: Configuration) {
    this.config = configOf(config);
  }

  /**
   * Optimizes a model in place with the changes of a level. With sample inputs (a tensor, or a list of forward's arguments) each
   * change is checked against the model's previous outputs in eval mode and undone if they drift too far; time and memory are
   * measured before and after. Functions compiled before are not affected: compile them afterwards.
   */
  async optimize<M extends Module>(
    model: M,
    sampleInputs?: unknown,
    optimizationLevel: OptimizationLevel = 'balanced',
    options: OptimizeOptions = {},
  ): Promise<TPUOptimizationResult<M>> {
    checkModel(model);
    checkPlaces(sampleInputs, optimizationLevel);
    checkOneOf('the optimization level', optimizationLevel, OPTIMIZATION_LEVELS);
    const { purpose = purposeOf(this.config), runs = 5, tolerance } = options;
    checkOptions('optimize', OPTIONS, options, TPUConfigurationError);
    checkOneOf('the purpose', purpose, PURPOSES);
    checkNumbers(runs, tolerance);
    if (busy.has(model))
      throw new TPUOptimizationError(
        `this ${model.constructor.name} is already being optimized: await the earlier call first`,
      );
    busy.add(model);
    const whole = sampleOf(sampleInputs)?.tensors.filter((t) => !shardingOf(t)) ?? [];
    try {
      return await this.#optimize(model, sampleInputs, optimizationLevel, { purpose, runs, tolerance });
    } finally {
      busy.delete(model);
      if (Mesh.exists) for (const t of whole) unmark(t); // a program on many devices has replicated it
    }
  }

  /** Default level: conservative. Weights of Linear layers become bf16. */
  optimizeForInference<M extends Module>(
    model: M,
    sampleInputs?: unknown,
    level: OptimizationLevel = 'conservative',
    options: Omit<OptimizeOptions, 'purpose'> = {},
  ): Promise<TPUOptimizationResult<M>> {
    return this.optimize(model, sampleInputs, level, { ...options, purpose: 'inference' });
  }
  /** Default level: aggressive. Weights stay f32. */
  optimizeForTraining<M extends Module>(
    model: M,
    sampleInputs?: unknown,
    level: OptimizationLevel = 'aggressive',
    options: Omit<OptimizeOptions, 'purpose'> = {},
  ): Promise<TPUOptimizationResult<M>> {
    return this.optimize(model, sampleInputs, level, { ...options, purpose: 'training' });
  }

  getOptimizationStats(): OptimizationStats {
    return { ...this.#stats, programs: this.#programs.size };
  }
  /** Frees the programs compiled for measurements. */
  clearCache(): void {
    dropPrograms(this.#programs);
    this.#programs.clear();
  }

  async #optimize<M extends Module>(
    model: M,
    sampleInputs: unknown,
    level: OptimizationLevel,
    { purpose, runs, tolerance }: { purpose: Purpose; runs: number; tolerance: number | undefined },
  ): Promise<TPUOptimizationResult<M>> {
    const start = performance.now();
    const client = await defaultClient();
    const context = contextOf(purpose, this.config.hardware.tpu, client);
    const given = await this.#see(model, sampleInputs, purpose);
    const before = given && (await this.#measure(model, given.sample, purpose, runs));

    const standing = standingOf(model);
    const already = [...standing];
    const wasRounded = isRounded(already);
    const rows = rowsOf(level);
    reconcile(standing, rows, context);
    const earlier = standing.length;
    const rounding = Math.max(roundingOf(model), ...already.map(({ row }) => row.tolerance));
    const trial: Trial | undefined = given && {
      ...given,
      last: earlier < already.length ? await outputsOf(model, given.sample) : given.first,
      purpose,
      tolerance,
      allowed: tolerance ?? rounding,
    };
    const changes: ChangeReport[] = [];
    let after = before;
    try {
      for (const row of rows) changes.push(await this.#change(row, model, standing, context, trial));
      const isSame = standing.length === already.length && standing.every((s, i) => s === already[i]);
      if (trial && !isSame) after = await this.#measure(model, trial.sample, purpose, runs);
    } catch (e) {
      takeBack(standing, earlier);
      throw named(`${model.constructor.name} cannot be measured after its changes`, e, TPUOptimizationError);
    }
    tellLost(model, wasRounded);
    for (const { settle } of standing) settle?.();
    if (standing.some(({ settle }) => settle)) {
      await sync(); // weights in their new dtype
      await collectGarbage(); // frees those in the old dtype
    }

    const difference = trial && (await differenceOf(trial.first, trial.last));
    const result = new TPUOptimizationResult({
      optimizedModel: model,
      optimizationLevel: level,
      purpose,
      changes,
      performanceMetrics:
        before && after
          ? { before, after, speedup: before.stepTime / after.stepTime, memorySaved: before.memory - after.memory }
          : null,
      comparison: difference ? { ...difference, tolerance: trial.allowed, outputs: trial.last.length } : null,
      memoryUsage: { weights: weightsOf(model), live: client.live.bytes },
      optimizationTime: (performance.now() - start) / 1000,
    });
    this.#note(result);
    return result;
  }

  /** The model's outputs for the sample inputs; undefined if there are none, or the model does not accept them. */
  async #see(
    model: Module,
    sampleInputs: unknown,
    purpose: Purpose,
  ): Promise<Pick<Trial, 'sample' | 'first'> | undefined> {
    if (sampleInputs === undefined || sampleInputs === null) return undefined;
    const {
      enableStrictValidation: strict,
      enableXlaCache: cache,
      compilationTimeoutSeconds,
    } = this.config.hardware.tpu;
    const name = model.constructor.name;
    const without = 'changes are applied without comparing outputs';
    const sample = sampleOf(sampleInputs, { cache, compilationTimeoutSeconds });
    if (!sample) {
      warnOrThrow(strict, `optimize: the sample inputs, ${describe(sampleInputs)}, contain no tensor: ${without}`);
      return undefined;
    }
    try {
      const first = await outputsOf(model, sample);
      if (!first.length)
        throw new TPUOptimizationError(`${name}.forward returns no tensor: outputs cannot be compared`);
      if (purpose === 'training') checkTrains(model, sample);
      return { sample, first };
    } catch (e) {
      const otherwise = strict && e instanceof ArgumentError ? TPUValidationError : TPUOptimizationError;
      if (!(e instanceof DTypeError)) throw named(`${name} fails on the sample inputs`, e, otherwise);
      warnOrThrow(strict, `optimize: ${name} does not accept the sample inputs (${sentenceOf(e)}): ${without}`);
      return undefined;
    }
  }

  async #measure(model: Module, sample: Sample, purpose: Purpose, runs: number): Promise<Metrics> {
    try {
      const { hash, ...metrics } = await measure(model, sample, purpose, runs);
      this.#programs.add(hash);
      return metrics;
    } catch (e) {
      throw named(`${model.constructor.name} cannot be measured`, e, TPUOptimizationError);
    }
  }

  /** Makes one change, compares outputs, and undoes it if they drift too far. */
  async #change(
    row: Change,
    model: Module,
    standing: Standing[],
    context: Context,
    trial: Trial | undefined,
  ): Promise<ChangeReport> {
    const report = tryApply(row, model, standing, context);
    if (report) return report;
    const { name } = row;
    const { what } = standing.at(-1)!;
    if (!trial) return { name, status: 'applied', what: `${what} (not compared)` };
    const undone = (why: string, drift?: number): ChangeReport => {
      takeBack(standing, standing.length - 1);
      log.warning('change undone', { model: model.constructor.name, change: name, why });
      return { name, status: 'undone', what: why, ...(drift !== undefined && { drift }) };
    };
    try {
      const now = await outputsOf(model, trial.sample);
      if (trial.purpose === 'training') checkTrains(model, trial.sample);
      const allowed = Math.max(trial.allowed, trial.tolerance ?? row.tolerance);
      const { relativeError: drift } = await differenceOf(trial.last, now);
      const { relativeError: all } = await differenceOf(trial.first, now);
      if (!(drift <= allowed)) return undone(`outputs drift by ${drift.toPrecision(2)}, ${allowed} is allowed`, drift);
      if (!(all <= allowed))
        return undone(`outputs drift by ${all.toPrecision(2)} with the changes before it, ${allowed} is allowed`, all);
      Object.assign(trial, { last: now, allowed });
      return { name, status: 'applied', what, drift };
    } catch (e) {
      return undone(`it failed: ${sentenceOf(e)}`);
    }
  }

  #note({ optimizedModel, optimizationLevel, purpose, changes, optimizationTime }: TPUOptimizationResult): void {
    const count = (status: ChangeReport['status']) => changes.filter((c) => c.status === status).length;
    const [applied, undone] = [count('applied'), count('undone')];
    const { optimizations, seconds } = this.#stats;
    this.#stats = {
      optimizations: optimizations + 1,
      applied: this.#stats.applied + applied,
      undone: this.#stats.undone + undone,
      seconds: seconds + optimizationTime,
    };
    const model = optimizedModel.constructor.name;
    log.info('model optimized', {
      model,
      optimizationLevel,
      purpose,
      applied,
      undone,
      seconds: rounded(optimizationTime),
    });
  }
}

/** Sample inputs, with the model's outputs at first and after the last change that was kept. */
interface Trial {
  readonly sample: Sample;
  readonly first: readonly Tensor[];
  last: readonly Tensor[];
  readonly purpose: Purpose;
  readonly tolerance: number | undefined;
  /** The largest tolerance of a change that was kept: with values rounded to bf16, another order of sums rounds differently. */
  allowed: number;
}

/** Rejects Python's keyword arguments written as an object in place of positional ones. */
function checkPlaces(...given: unknown[]): void {
  const isKeywords = (x: unknown) => isPlain(x) && ('sampleInputs' in x || 'optimizationLevel' in x);
  if (given.some(isKeywords))
    throw new TPUConfigurationError(
      "optimize: sample inputs and level are positional arguments: write optimize(model, sampleInputs, 'balanced')",
    );
}
function checkNumbers(runs: number, tolerance: number | undefined): void {
  checkCount('optimize: runs', runs, 1, TPUConfigurationError);
  if (tolerance !== undefined && !(tolerance >= 0))
    throw new TPUConfigurationError(`optimize: tolerance is ${shown(tolerance)}: it must be a number of at least 0`);
}
