// Runs the training loop as one worker: in a process that an engine started, or in the program itself.
import fs from 'node:fs';
import { env, envInteger } from '../base/env.js';
import { ArgumentError, FileError } from '../base/errors.js';
import { object, parseJson, text, whole } from '../base/json.js';
import { notice } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { version } from '../base/version.js';
import { device } from '../runtime/device.js';
import { deviceCount, meshFromConfig, processCount } from '../spmd/index.js';
import { type Datasets, Shards, shareOf } from './data.js';
import { isMistake } from './errors.js';
import { type Link, WorkerLink } from './link.js';
import { Loop, withLoop } from './loop.js';
import type { WorkerSpec } from './protocol.js';
import { RayDataset } from './ray-data.js';
import { describeSync } from './scaling.js';
import { Watch } from './watch.js';

/**
 * The spec of this worker and its link to the engine, if an engine started this process. The link is opened when this module is
 * loaded, because the engine may end before fit(). The variable is removed so that child processes are not taken for workers.
 */
export const asWorker: { readonly spec: WorkerSpec; readonly link: WorkerLink } | undefined = beWorker();
function beWorker() {
  const SPEC = object({ run: whole(), name: text, reduce: text });
  const file = env('TSXLA_TRAIN_SPEC');
  if (!file) return undefined;
  delete process.env.TSXLA_TRAIN_SPEC;
  process.env.TSXLA_TRAIN_WORKER = '1';
  try {
    const spec = parseJson(fs.readFileSync(file), 'it', SPEC) as object as WorkerSpec; // written by an engine of the same version
    return { spec, link: new WorkerLink() };
  } catch (e) {
    const why = `${messageOf(e)}: only an engine sets this variable, for its workers`;
    throw new FileError(`TSXLA_TRAIN_SPEC=${file} cannot be read: ${why}`, { cause: e });
  }
}

/** The user's loop, its argument and its datasets. */
interface LoopOf<C> {
  readonly loop: (config: C) => unknown;
  readonly config: C;
  readonly datasets: Datasets;
}

/** Runs the loop and ends the process: code after fit() runs only in the program that started the workers. */
export async function runAsWorker<C>({ spec, link }: NonNullable<typeof asWorker>, of: LoopOf<C>): Promise<never> {
  link.hello(version);
  try {
    await runLoop(spec, link, of);
  } catch (e) {
    const { name = 'Error', stack = '' } = (e ?? {}) as Partial<Error>;
    return link.end({ type: 'error', name, message: messageOf(e), stack, final: isMistake(e) }, 1);
  }
  return link.end({ type: 'done' }, 0);
}

/** Throws if XLA has not joined all workers: each would train a separate model unnoticed. */
async function checkJoined(): Promise<void> {
  const [found, wanted] = [await processCount(), envInteger('WORLD_SIZE', 1, 1)];
  if (found !== wanted)
    throw new ArgumentError(
      `the run has ${wanted} workers, but the device has joined ${found}: check TPU_WORKER_HOSTNAMES and TPU_PROCESS_BOUNDS on TPUs, WORLD_SIZE and MASTER_ADDR on GPUs`,
    );
}

export async function runLoop<C>(spec: WorkerSpec, link: Link, { loop, config, datasets }: LoopOf<C>): Promise<void> {
  if (spec.devices !== 'auto') device(spec.devices);
  const devices = await deviceCount();
  if (spec.reduce === 'xla') await checkJoined();
  const mesh = devices > 1 || spec.mesh ? meshFromConfig(spec.mesh ?? {}, devices) : undefined;
  const among = (name: string, alone: number) => (spec.reduce === 'none' ? alone : envInteger(name, alone, alone));
  const [rank, worldSize] = [among('RANK', 0), among('WORLD_SIZE', 1)];
  const context = {
    rank,
    worldSize,
    localRank: among('LOCAL_RANK', 0),
    localWorldSize: among('LOCAL_WORLD_SIZE', 1),
    nodeRank: among('NODE_RANK', 0),
    mesh: mesh?.shape.some((n) => n > 1) ? mesh : undefined,
    trialName: spec.name,
    trialDir: spec.storage ?? undefined,
    attempt: spec.attempt,
  };
  const said =
    rank === 0 &&
    !spec.attempt &&
    describeSync({ workers: worldSize, reduce: spec.reduce }, spec.engine ?? 'the engine');
  if (said) notice(said);
  const share = await shareOf(spec, context, context.mesh);
  const byRay = Object.keys(datasets).find((name) => datasets[name] instanceof RayDataset);
  if (byRay !== undefined && share.count !== worldSize)
    throw new ArgumentError(
      `the dataset '${byRay}' is a rayDataset, which gives each of ${worldSize} workers different rows, but in this mesh workers load the same rows in ${share.count} groups: use files, or a mesh with the data axis only`,
    );
  const shards = await Shards.open(datasets, share.index, share.count, link);
  const watch = new Watch(spec, rank);
  await watch.over(() => withLoop(new Loop(context, spec, link, shards, watch), () => loop(config)));
}
