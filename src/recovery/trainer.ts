// Recovery training as one asks for it: in this process, or by several workers under the trainer, here or on a Ray cluster.
// What workers keep is the run's own folder: checkpoints, adapters and metrics are those of a run in one process.
import fs from 'node:fs';
import path from 'node:path';
import { env } from '../base/env.js';
import { ArgumentError } from '../base/errors.js';
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
import { type RecoveryResult, recover, type Tell } from './train.js';
import { ALONE, workersHere } from './workers.js';

/** How workers of a cluster are told what is asked for: their folder is another one, so paths are whole. */
const ASKED = 'TSXLA_RECOVERY';

/**
 * With several workers `tell` is called in the first of them: each runs the script again up to here. `ray`: how the run is
 * submitted to a cluster.
 */
export async function trainRecoveryLora(
  options: RecoveryOptions,
  tell: Tell = () => {},
  ray: RayOptions = {},
): Promise<RecoveryResult> {
  const asked = env(ASKED);
  const settings = asked ? (JSON.parse(asked) as Settings) : settle(options);
  const [idle] = settings.ray ? [] : Object.keys(ray);
  if (idle) throw new ArgumentError(`${flagOf(idle)} does nothing without --ray: leave it out`);
  return settings.workers > 1 || settings.ray ? byWorkers(settings, tell, ray) : recover(settings, tell, ALONE);
}

async function byWorkers(settings: Settings, tell: Tell, ray: RayOptions): Promise<RecoveryResult> {
  const { workers, ray: address, topology, maxFailures, output } = settings;
  const asked = settings.tpu || topology ? 'tpu' : settings.device === 'auto' ? env('PJRT_DEVICE') : settings.device;
  const device = deviceNamed(asked ?? 'cpu');
  const [useTpu, useGpu] = [device === 'tpu', device === 'cuda'];
  if (!useTpu && !useGpu && settings.batchSize % workers)
    throw new ArgumentError(
      `--batch-size is ${settings.batchSize}, of which each of ${workers} workers has a share, and ${settings.batchSize} / ${workers} is no whole number: use ${settings.resume ? 'a number of --workers that divides it' : workers * Math.ceil(settings.batchSize / workers)}`,
    );
  const trainer = new TorchTrainer({
    trainLoopPerWorker: () => work(settings, tell),
    scalingConfig: { numWorkers: workers, useTpu, useGpu, ...(topology !== undefined && { topology }) },
    // Beside what the run itself keeps.
    runConfig: {
      name: path.basename(path.resolve(output)).replace(/[^\w.-]+|^\W+/g, '_'),
      storagePath: path.join(output, 'workers'),
      failureConfig: { maxFailures },
    },
    ...(address !== undefined && { address }),
    ray: { ...ray, env: { ...ray.env, [ASKED]: JSON.stringify(placed(settings)) } },
  });
  if (!asWorker) fs.rmSync(clearedIn(settings), { force: true }); // an earlier run's: workers need this one's
  const { metrics } = await leavingToWorkers(() => trainer.fit());
  if (!metrics) throw new ArgumentError(`the workers have ended, and reported nothing: ${output} has what they saved`);
  return resultOf(metrics, settings);
}

/** What a worker does. */
async function work(settings: Settings, tell: Tell): Promise<void> {
  const workers = workersHere();
  const goesOn = getContext().attempt > 0 && (!settings.overwrite || fs.existsSync(clearedIn(settings)));
  const result = await recover(
    goesOn ? { ...settings, resume: true, overwrite: false } : settings,
    workers.isFirst ? tell : () => {},
    workers,
  );
  await report(numbersOf(result));
}

/** A signal is the workers' affair: they save and leave, and their result is that of a run that was stopped. */
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

/** A result as workers report it. */
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
