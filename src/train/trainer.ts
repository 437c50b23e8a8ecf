// The trainer of spec 003: one loop, on a laptop's CPU, a GPU or TPU slices. What runs the workers is an engine: this machine,
// or a Ray cluster where an address is given.
import path from 'node:path';
import { env } from '../base/env.js';
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe, isPlain } from '../base/tree.js';
import {
  RunConfig,
  type RunOptions,
  ScalingConfig,
  type ScalingOptions,
  TorchConfig,
  type TorchOptions,
} from './config.js';
import type { Datasets } from './data.js';
import { type Engine, type PlainResult, plainOf, type Result, type RunRequest, resultOf } from './engine.js';
import { TrainingFailedError } from './errors.js';
import { LocalEngine } from './local.js';
import type { WorkerSpec } from './protocol.js';
import { addressFromEnv } from './ray/address.js';
import type { RayOptions } from './ray/engine.js';
import { type Scale, scaleOf } from './scaling.js';
import { asWorker, runAsWorker, runLoop } from './worker.js';

/** A loop that takes something must be given it. */
export type TrainerOptions<C> = CommonOptions<C> &
  (undefined extends C ? { readonly trainLoopConfig?: C } : { readonly trainLoopConfig: C });
interface CommonOptions<C> {
  /** The training loop, which every worker runs. It may be async. */
  readonly trainLoopPerWorker: (config: C) => unknown;
  readonly scalingConfig?: ScalingOptions;
  readonly runConfig?: RunOptions;
  readonly torchConfig?: TorchOptions;
  /** Datasets by name, for getDatasetShard. */
  readonly datasets?: Datasets;
  /** Of a Ray cluster, as 'http://127.0.0.1:8265'. Default: RAY_ADDRESS; without one, this machine trains. */
  readonly address?: string;
  /** How the project comes to the cluster and what its workers may do. */
  readonly ray?: RayOptions;
}
const OPTIONS = [
  'trainLoopPerWorker',
  'trainLoopConfig',
  'scalingConfig',
  'runConfig',
  'torchConfig',
  'datasets',
  'address',
  'ray',
] as const;

/** What this program's runs came to, in the order of their fit(). */
const recorded: PlainResult[] = [];
let fits = 0;

export class TorchTrainer<C = undefined> {
  readonly scalingConfig: ScalingConfig;
  readonly runConfig: RunConfig;
  readonly torchConfig: TorchConfig;
  /** What they mean together. */
  readonly scale: Scale;
  readonly #options: TrainerOptions<C>;

  constructor(options: TrainerOptions<C>) {
    checkOptions('TorchTrainer', OPTIONS, options);
    if (typeof options?.trainLoopPerWorker !== 'function')
      throw new ArgumentError(
        `TorchTrainer: trainLoopPerWorker is ${describe(options?.trainLoopPerWorker)}: it must be a function`,
      );
    if (options.datasets !== undefined && !isPlain(options.datasets))
      throw new ArgumentError(
        `TorchTrainer: datasets is ${describe(options.datasets)}: give them by name, as in { train: rows }`,
      );
    this.#options = options;
    const workers = env('TSXLA_TRAIN_WORKERS'); // tsxla ray submit --workers
    this.scalingConfig = new ScalingConfig({
      ...options.scalingConfig,
      ...(workers && { numWorkers: Number(workers) }),
    });
    this.runConfig = new RunConfig(options.runConfig);
    this.torchConfig = new TorchConfig(options.torchConfig);
    this.scale = scaleOf(this.scalingConfig, this.torchConfig);
  }

  /** Waits for a run on a Ray cluster that is under way, by the id of its job, and gives what it came to. Ctrl-C does not end it. */
  static async attach(address: string, job: string, options: { readonly token?: string } = {}): Promise<Result> {
    return (await import('./ray/engine.js')).attach(address, job, options);
  }

  /**
   * Runs the loop and gives what it came to; a run that fails more often than it may throws a TrainingFailedError. Workers run
   * the program once more, up to here: in them it does not return.
   */
  async fit(): Promise<Result> {
    const run = fits++;
    const { trainLoopPerWorker: loop, trainLoopConfig: config, datasets = {} } = this.#options;
    const of = { loop, config: config as C, datasets };
    if (asWorker) return run === asWorker.spec.run ? runAsWorker(asWorker, of) : earlierResult(asWorker.spec, run);
    const { name = `train-${new Date().toISOString().replace(/[:.]/g, '-')}`, storagePath } = this.runConfig;
    const address = this.#options.address ?? addressFromEnv();
    const isRemote = /^\w+:\/\//.test(storagePath);
    if (isRemote && !address)
      throw new ArgumentError(
        `fit: storagePath is ${storagePath}, and this machine keeps runs in folders: give the path of one`,
      );
    const request: RunRequest = {
      name,
      storage: isRemote ? `${storagePath}/${name}` : path.resolve(storagePath, name),
      run,
      earlier: recorded,
      scale: this.scale,
      scaling: this.scalingConfig,
      failure: this.runConfig.failureConfig,
      checkpoint: this.runConfig.checkpointConfig,
      runHere: (spec, link) => runLoop(spec, link, of),
    };
    try {
      const result = await (await engineAt(address, this.#options.ray)).run(request);
      recorded[run] = plainOf(result);
      return result;
    } catch (e) {
      if (e instanceof TrainingFailedError) recorded[run] = { ...plainOf(e.result), error: e.message };
      throw e;
    }
  }
}

/** The engine of an address; without one, this machine. */
async function engineAt(address: string | undefined, options: RayOptions | undefined): Promise<Engine> {
  if (!address) return new LocalEngine();
  const { RayEngine } = await import('./ray/engine.js'); // who trains here needs none of it
  return new RayEngine(address, options);
}

/** In a worker, what a run before its own came to. */
function earlierResult({ earlier }: WorkerSpec, run: number): Result {
  const plain = earlier?.[run];
  if (!plain)
    throw new ArgumentError(
      `fit: a worker came to run ${run} of the script, which the program that started it did not: both must take the same way to fit()`,
    );
  if (plain.error) throw new TrainingFailedError(plain.error, resultOf(plain));
  return resultOf(plain);
}
