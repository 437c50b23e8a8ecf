// A loop, run by one worker: in a process that an engine started for it, or in the program's own.
import fs from 'node:fs';
import { envInteger } from '../base/env.js';
import { ArgumentError } from '../base/errors.js';
import { notice } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { device } from '../runtime/device.js';
import { batchShare, deviceCount, meshFromConfig } from '../spmd/index.js';
import { Loop, withLoop } from './context.js';
import { type Datasets, Shards } from './data.js';
import { isMistake } from './errors.js';
import type { asWorker, Link, WorkerSpec } from './link.js';
import { saySync } from './scaling.js';

/** What the user has written. */
export interface LoopOf<C> {
  readonly loop: (config: C) => unknown;
  readonly config: C;
  readonly datasets: Datasets;
}

/** Runs the loop and ends the process: what comes after fit() is for the program that started it. */
export async function runAsWorker<C>({ spec, link }: NonNullable<typeof asWorker>, of: LoopOf<C>): Promise<never> {
  const { version } = JSON.parse(fs.readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  link.hello(envInteger('RANK', 0, 0), version);
  try {
    await runLoop(spec, link, of);
  } catch (e) {
    const { name = 'Error', stack = '' } = e as Partial<Error>;
    return link.end({ type: 'error', name, message: messageOf(e), stack, final: isMistake(e) }, 1);
  }
  return link.end({ type: 'done' }, 0);
}

export async function runLoop<C>(spec: WorkerSpec, link: Link, { loop, config, datasets }: LoopOf<C>): Promise<void> {
  const [rank, worldSize] =
    spec.reduce === 'none' ? [0, 1] : [envInteger('RANK', 0, 0), envInteger('WORLD_SIZE', 1, 1)];
  if (spec.devices !== 'auto') device(spec.devices);
  const devices = await deviceCount();
  const mesh = devices > 1 || spec.mesh ? meshFromConfig(spec.mesh ?? {}, devices) : undefined;
  const isAmong = worldSize > 1;
  const context = {
    rank,
    worldSize,
    localRank: isAmong ? envInteger('LOCAL_RANK', 0, 0) : 0,
    localWorldSize: isAmong ? envInteger('LOCAL_WORLD_SIZE', 1, 1) : 1,
    nodeRank: isAmong ? envInteger('NODE_RANK', 0, 0) : 0,
    mesh: mesh?.shape.some((n) => n > 1) ? mesh : undefined,
    trialName: spec.name,
    trialDir: spec.storage ?? undefined,
    attempt: spec.attempt,
  };
  const said =
    rank === 0 && !spec.attempt && saySync({ workers: worldSize, reduce: spec.reduce }, spec.engine ?? 'the engine');
  if (said) notice(said);
  // Where XLA joins processes, those whose devices split the model between them load the same batches.
  const share =
    spec.reduce === 'xla' && context.mesh ? await batchShare(context.mesh) : { index: rank, count: worldSize };
  const shards = await Shards.open(datasets, share.index, share.count);
  if (typeof loop !== 'function') throw new ArgumentError('fit: trainLoopPerWorker is no function');
  await withLoop(new Loop(context, spec, link, shards), () => loop(config));
}
