// The entry point of recovery training: runs it in this process, or by several workers under TorchTrainer, here or on a Ray
// cluster. The output folder of workers is the same as that of a run in one process.
import fs from 'node:fs';
import path from 'node:path';
import { env } from '../base/env.js';
import { ArgumentError } from '../base/errors.js';
import { object, parseJson, text, whole } from '../base/json.js';
import { notice } from '../base/log.js';
import { onSignals, STOP_SIGNALS } from '../base/signals.js';
import { deviceNamed } from '../runtime/device.js';
import {
  getContext,
  type Metrics,
  type RayOptions,
  report,
  TorchTrainer,
  TrainingFailedError,
} from '../train/index.js';
import { asWorker } from '../train/worker.js';
import { flagOf, placed, type RecoveryOptions, type Settings, settle } from './options.js';
import { clearedIn, pathsIn } from './output.js';
import { type OnEvent, type RecoveryResult, recover } from './train.js';
import { ALONE, workersHere } from './workers.js';

/** The variable that passes the settings to workers of a cluster, with absolute paths: their working directory differs. */
const SETTINGS_ENV = 'TSXLA_RECOVERY';

/**
 * Trains recovery adapters. With several workers each runs the script again up to this call, and `onEvent` is called in the first
 * of them. `ray` has options for submitting the run to a cluster.
 */
export async function trainRecoveryLora(
  options: RecoveryOptions,
  onEvent: OnEvent = () => {},
  ray: RayOptions = {},
): Promise<RecoveryResult> {
  const asked = env(SETTINGS_ENV);
  const settings = asked
    ? (parseJson(asked, SETTINGS_ENV, object({ model: text, workers: whole(1) })) as Settings)
    : settle(options);
  const [idle] = settings.ray ? [] : Object.keys(ray);
  if (idle) throw new ArgumentError(`${flagOf(idle)} does nothing without --ray: leave it out`);
  await using _board = settings.board && !asked ? await openBoard(settings) : undefined;
  return settings.workers > 1 || settings.ray
    ? await byWorkers(settings, onEvent, ray)
    : await recover(settings, onEvent, ALONE);
}

/** --board: the page shows the run until it ends. */
async function openBoard({ output }: Settings): Promise<AsyncDisposable> {
  const { serveBoard } = await import('../board/index.js');
  const board = await serveBoard([output]);
  notice(`the run is shown at ${board.url}`);
  return board;
}

async function byWorkers(settings: Settings, onEvent: OnEvent, ray: RayOptions): Promise<RecoveryResult> {
  const { workers, ray: address, topology, maxFailures, output } = settings;
  const asked = settings.tpu || topology ? 'tpu' : settings.device === 'auto' ? env('PJRT_DEVICE') : settings.device;
  const device = deviceNamed(asked ?? 'cpu');
  const [useTpu, useGpu] = [device === 'tpu', device === 'cuda'];
  if (!useTpu && !useGpu && settings.batchSize % workers)
    throw new ArgumentError(
      `--batch-size is ${settings.batchSize}, which ${workers} workers cannot split evenly: use ${settings.resume ? 'a number of --workers that divides it' : workers * Math.ceil(settings.batchSize / workers)}`,
    );
  const trainer = new TorchTrainer({
    trainLoopPerWorker: () => work(settings, onEvent),
    scalingConfig: { numWorkers: workers, useTpu, useGpu, ...(topology !== undefined && { topology }) },
    // The trainer's own folder, inside the run's.
    runConfig: {
      name: path.basename(path.resolve(output)).replace(/[^\w.-]+|^\W+/g, '_'),
      storagePath: path.join(output, 'workers'),
      failureConfig: { maxFailures },
    },
    ...(address !== undefined && { address }),
    ray: { ...ray, env: { ...ray.env, [SETTINGS_ENV]: JSON.stringify(placed(settings)) } },
  });
  if (!asWorker) fs.rmSync(clearedIn(settings), { force: true }); // one of an earlier run
  const { metrics } = await leavingToWorkers(() => trainer.fit());
  if (!metrics) throw new ArgumentError(`the workers ended without reporting a result; ${output} has what they saved`);
  return resultOf(metrics, settings);
}

/** The training loop of a worker. */
async function work(settings: Settings, onEvent: OnEvent): Promise<void> {
  const workers = workersHere();
  const resumes = getContext().attempt > 0 && (!settings.overwrite || fs.existsSync(clearedIn(settings)));
  const result = await recover(
    resumes ? { ...settings, resume: true, overwrite: false } : settings,
    workers.isFirst ? onEvent : () => {},
    workers,
  );
  await report(numbersOf(result));
}

/** Lets workers handle SIGINT and SIGTERM: they save and leave, and report the result of a stopped run. */
async function leavingToWorkers(run: () => ReturnType<TorchTrainer['fit']>): ReturnType<TorchTrainer['fit']> {
  const unlisten = onSignals(STOP_SIGNALS, () => {});
  try {
    return await run();
  } catch (e) {
    if (e instanceof TrainingFailedError && e.result.metrics?.['finished'] === 0) return e.result;
    throw e;
  } finally {
    unlisten();
  }
}

/** A result as metrics, for report(). */
function numbersOf({ perplexity: p, ...r }: RecoveryResult): Metrics {
  return {
    ...{ steps: r.steps, finished: Number(r.finished), hasBest: Number(r.best !== undefined) },
    ...(r.loss !== undefined && { loss: r.loss }),
    ...(p && { before: p.before, after: p.after, lowest: p.best }),
    ...{ seconds: r.seconds, tokensPerSecond: r.tokensPerSecond, peakMemory: r.peakMemory, compiles: r.compiles },
  };
}
function resultOf(m: Metrics, s: Settings): RecoveryResult {
  const { adapters, best, metrics } = pathsIn(s);
  return {
    ...{ steps: m['steps']!, finished: m['finished'] === 1, loss: m['loss'] },
    ...(m['before'] !== undefined && { perplexity: { before: m['before'], after: m['after']!, best: m['lowest']! } }),
    ...{ adapters, best: m['hasBest'] ? best : undefined, metrics },
    ...{ seconds: m['seconds']!, tokensPerSecond: m['tokensPerSecond']! },
    ...{ peakMemory: m['peakMemory']!, compiles: m['compiles']! },
  };
}
