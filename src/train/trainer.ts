// TorchTrainer, after Ray Train's: runs one training loop on CPUs, GPUs or TPU slices. An engine runs the workers: on this
// machine, or on a Ray cluster if an address is given.
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
import { type Engine, type FitRequest, type PlainResult, plainOf, type Result, resultOf } from './engine.js';
import { TrainingFailedError } from './errors.js';
import { LocalEngine } from './local.js';
import type { WorkerSpec } from './protocol.js';
import { addressFromEnv } from './ray/address.js';
import type { RayOptions } from './ray/engine.js';
import { RayDataset } from './ray-data.js';
import { type Scale, scaleOf } from './scaling.js';
import { asWorker, runAsWorker, runLoop } from './worker.js';

/** trainLoopConfig is required if the loop takes an argument that may not be undefined. */
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
  /** Address of a Ray cluster, such as 'http://127.0.0.1:8265'. Default: RAY_ADDRESS; if unset, the run is on this machine. */
  readonly address?: string;
  /** For Ray clusters: what is uploaded, and the environment of the workers. */
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

/**
 * The results of this program's runs, in the order of their fit() calls. A worker runs the same program and must get the same
 * results of earlier runs without running them again.
 */
const recorded: PlainResult[] = [];
let fits = 0;

/** Ray Train's TorchTrainer: `new TorchTrainer({ trainLoopPerWorker, scalingConfig, runConfig }).fit()`. */
export class TorchTrainer<C = undefined> {
  readonly scalingConfig: ScalingConfig;
  readonly runConfig: RunConfig;
  readonly torchConfig: TorchConfig;
  /** Workers, devices and mesh, derived from scalingConfig and torchConfig. */
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
        `TorchTrainer: datasets is ${describe(options.datasets)}: it must be an object of datasets by name, as in { train: rows }`,
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

  /** Follows a running job on a Ray cluster, by its id, and returns the result of its run. Ctrl-C does not stop the job. */
  static async attach(address: string, job: string, options: { readonly token?: string } = {}): Promise<Result> {
    return (await import('./ray/engine.js')).attach(address, job, options);
  }

  get #profile(): WorkerSpec['profile'] {
    const { profile: dir, profileSteps: steps = '2:4' } = this.runConfig;
    return dir === undefined ? undefined : { dir, steps };
  }

  /**
   * Runs the loop and returns the result of the run. Throws a TrainingFailedError if the run fails more often than maxFailures
   * allows. Worker processes run the program again up to this call, which does not return in them.
   */
  async fit(): Promise<Result> {
    const run = fits++;
    const { trainLoopPerWorker: loop, trainLoopConfig: config, datasets = {} } = this.#options;
    const of = { loop, config: config as C, datasets };
    if (asWorker) return run === asWorker.spec.run ? runAsWorker(asWorker, of) : earlierResult(asWorker.spec, run);
    const { name = `train-${new Date().toISOString().replace(/[:.]/g, '-')}`, storagePath } = this.runConfig;
    const address = this.#options.address ?? addressFromEnv();
    const byRay = rayDatasetsOf(datasets);
    const [readByRay] = Object.keys(byRay);
    if (readByRay !== undefined && !address)
      throw new ArgumentError(
        `fit: the dataset '${readByRay}' is a rayDataset, which needs a Ray cluster: give its address (RAY_ADDRESS), or use the files themselves`,
      );
    const isRemote = /^\w+:\/\//.test(storagePath);
    if (isRemote && !address)
      throw new ArgumentError(
        `fit: storagePath is ${storagePath}, but runs on this machine are stored in folders: give the path of a folder`,
      );
    const request: FitRequest = {
      name,
      storage: isRemote ? `${storagePath}/${name}` : path.resolve(storagePath, name),
      isNamed: this.#options.runConfig?.name !== undefined || this.#options.runConfig?.storagePath !== undefined,
      run,
      earlier: recorded,
      scale: this.scale,
      scaling: this.scalingConfig,
      failure: this.runConfig.failureConfig,
      checkpoint: this.runConfig.checkpointConfig,
      tensorboard: this.runConfig.tensorboard,
      profile: this.#profile,
      rayDatasets: byRay,
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

const rayDatasetsOf = (datasets: Datasets) =>
  Object.fromEntries(
    Object.entries(datasets).flatMap(([name, d]) => (d instanceof RayDataset ? [[name, d.request()] as const] : [])),
  );

/** The engine of an address; without one, this machine. */
async function engineAt(address: string | undefined, options: RayOptions | undefined): Promise<Engine> {
  if (!address) return new LocalEngine();
  const { RayEngine } = await import('./ray/engine.js'); // loaded only for runs on Ray
  return new RayEngine(address, options);
}

/** In a worker: the result of an earlier run of the script. */
function earlierResult({ earlier }: WorkerSpec, run: number): Result {
  const plain = earlier?.[run];
  if (!plain)
    throw new ArgumentError(
      `fit: a worker reached run ${run} of the script, and the program that started it did not: both must make the same calls of fit()`,
    );
  if (plain.error) throw new TrainingFailedError(plain.error, resultOf(plain));
  return resultOf(plain);
}
