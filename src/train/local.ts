// The engine of this machine: a single worker is this process; several are separate processes, so that their crashes do not end
// this one. A failed run restarts, with all workers, from the last checkpoint that was kept.
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { notice } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { EVENTS, RunLog } from '../observe/run-log.js';
import { ReportCurves } from './curves.js';
import { type Engine, type FitRequest, failedError, type Result, resultOf } from './engine.js';
import { isMistake, StoppedError, WorkerError } from './errors.js';
import { WorkerGroup } from './group.js';
import type { Link } from './link.js';
import type { Metrics, WorkerSpec } from './protocol.js';
import { lockRun, RunFolder } from './storage.js';

export class LocalEngine implements Engine {
  async run(request: FitRequest): Promise<Result> {
    const { maxFailures } = request.failure;
    if (request.scale.workers > 1) WorkerGroup.check(request.scale);
    await using lock = await lockRun(request.storage);
    await using curves = request.tensorboard === undefined ? undefined : new ReportCurves(request.tensorboard);
    let folder = new RunFolder(request.storage, request.checkpoint, lock, curves);
    if (folder.last) notice(`the run ${request.name} resumes from ${folder.last.path}`);
    for (let attempt = 0; ; attempt++) {
      try {
        await curves?.begin(folder.history, attempt > 0);
        await runOnce(request, attempt, folder);
        await folder.close();
        return resultOf(folder.plain());
      } catch (e) {
        await folder.close();
        const isFinal = isMistake(e) || e instanceof StoppedError || (e instanceof WorkerError && e.final);
        if (isFinal || (maxFailures >= 0 && attempt >= maxFailures)) {
          if (request.scale.workers > 1) logEnd(request.storage, e);
          throw failedError(request.name, attempt + 1, folder.plain(), e);
        }
        folder = new RunFolder(request.storage, request.checkpoint, lock, curves); // drops reports after the last checkpoint
        const from = folder.last ? `from ${folder.last.path}` : 'from the beginning: no checkpoint was reported';
        const of = maxFailures < 0 ? '' : ` of ${maxFailures}`;
        notice(`the run failed: ${messageOf(e)}; restarting (${attempt + 1}${of}) ${from}`);
        await sleep(Math.min(10 * 2 ** attempt, 5000)); // milliseconds: no busy loop if it fails at once
      }
    }
  }
}

/** Writes the end of the run to its log: worker 0, which writes the log, may have been killed. */
function logEnd(folder: string, e: unknown): void {
  if (!fs.existsSync(path.join(folder, EVENTS))) return;
  RunLog.append(folder).end(e instanceof StoppedError ? 'stopped' : 'failed', messageOf(e));
}

async function runOnce(request: FitRequest, attempt: number, folder: RunFolder): Promise<void> {
  const { scale, name, run, earlier, profile, isNamed } = request;
  const spec: WorkerSpec = {
    run,
    name,
    attempt,
    storage: folder.path,
    checkpoint: folder.last?.path ?? null,
    reduce: scale.reduce,
    mesh: scale.mesh,
    devices: scale.device,
    engine: 'the program that started them',
    log: isNamed,
    ...(profile && { profile: { ...profile, dir: path.resolve(profile.dir) } }),
    earlier,
  };
  if (scale.workers === 1) await request.runHere(spec, new OwnLink(folder));
  else await new WorkerGroup(spec, folder, scale).run();
}

/** The link of a single worker in this process. */
class OwnLink implements Link {
  constructor(readonly folder: RunFolder) {}
  async report(metrics: Metrics, checkpoint: string | null): Promise<void> {
    const reports = this.folder.add(metrics);
    if (checkpoint !== null) await this.folder.persist([checkpoint], metrics, reports);
  }
  async reduce(_op: 'mean' | 'sum', data: Float32Array): Promise<Float32Array> {
    return data;
  }
  async barrier(): Promise<void> {}
}
