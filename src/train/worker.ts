// A loop, run by one worker: in a process that an engine started for it, or in the program's own.
import fs from 'node:fs';
import { env, envInteger } from '../base/env.js';
import { ArgumentError, FileError } from '../base/errors.js';
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
import { saySync } from './scaling.js';

/**
 * What this process is told, and by whom, if an engine started it. The link is opened when this module is: the engine may end
 * before fit(), too. The variable is taken away: threads and processes that this one starts are no workers.
 */
export const asWorker: { readonly spec: WorkerSpec; readonly link: WorkerLink } | undefined = beWorker();
function beWorker() {
  const file = env('TSXLA_TRAIN_SPEC');
  if (!file) return undefined;
  delete process.env.TSXLA_TRAIN_SPEC;
  process.env.TSXLA_TRAIN_WORKER = '1';
  try {
    return { spec: JSON.parse(fs.readFileSync(file, 'utf8')) as WorkerSpec, link: new WorkerLink() };
  } catch (e) {
    const why = `${messageOf(e)}: an engine sets it, for its workers`;
    throw new FileError(`TSXLA_TRAIN_SPEC=${file} cannot be read: ${why}`, { cause: e });
  }
}

/** What the user has written. */
interface LoopOf<C> {
  readonly loop: (config: C) => unknown;
  readonly config: C;
  readonly datasets: Datasets;
}

/** Runs the loop and ends the process: what comes after fit() is for the program that started it. */
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

/** Each would train a model of its own, and nothing would tell. */
async function checkJoined(): Promise<void> {
  const [found, wanted] = [await processCount(), envInteger('WORLD_SIZE', 1, 1)];
  if (found !== wanted)
    throw new ArgumentError(
      `${wanted} workers, and the device knows of ${found}: on TPUs TPU_WORKER_HOSTNAMES and TPU_PROCESS_BOUNDS join them, on GPUs WORLD_SIZE and MASTER_ADDR`,
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
    rank === 0 && !spec.attempt && saySync({ workers: worldSize, reduce: spec.reduce }, spec.engine ?? 'the engine');
  if (said) notice(said);
  const share = await shareOf(spec, context, context.mesh);
  const shards = await Shards.open(datasets, share.index, share.count);
  await withLoop(new Loop(context, spec, link, shards), () => loop(config));
}
