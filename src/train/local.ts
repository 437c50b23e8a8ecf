// The engine of this machine: one worker is this process; several are processes of their own, whose failures are theirs. A run
// that failed begins again, all workers together, from the last checkpoint that was kept.
import { setTimeout as sleep } from 'node:timers/promises';
import { notice } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { type Engine, failedError, type Result, type RunRequest, resultOf } from './engine.js';
import { isMistake, StoppedError, WorkerError } from './errors.js';
import { WorkerGroup } from './group.js';
import type { Link } from './link.js';
import type { Metrics, WorkerSpec } from './protocol.js';
import { lockRun, RunFolder } from './storage.js';

export class LocalEngine implements Engine {
  async run(request: RunRequest): Promise<Result> {
    const { maxFailures } = request.failure;
    if (request.scale.workers > 1) WorkerGroup.check(request.scale);
    await using lock = await lockRun(request.storage);
    let folder = new RunFolder(request.storage, request.checkpoint, lock);
    if (folder.last) notice(`the run ${request.name} goes on from ${folder.last.path}`);
    for (let attempt = 0; ; attempt++) {
      try {
        await runOnce(request, attempt, folder);
        await folder.close();
        return resultOf(folder.plain());
      } catch (e) {
        await folder.close();
        const isFinal = isMistake(e) || e instanceof StoppedError || (e instanceof WorkerError && e.final);
        if (isFinal || (maxFailures >= 0 && attempt >= maxFailures))
          throw failedError(request.name, attempt + 1, folder.plain(), e);
        folder = new RunFolder(request.storage, request.checkpoint, lock); // what is there, and was reported up to it
        const from = folder.last ? `from ${folder.last.path}` : 'without a checkpoint: none was reported';
        const of = maxFailures < 0 ? '' : ` of ${maxFailures}`;
        notice(`the run failed: ${messageOf(e)}; begins again (${attempt + 1}${of}) ${from}`);
        await sleep(Math.min(10 * 2 ** attempt, 5000)); // milliseconds: what fails at once would do nothing else
      }
    }
  }
}

async function runOnce(request: RunRequest, attempt: number, folder: RunFolder): Promise<void> {
  const { scale, name, run, earlier } = request;
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
    earlier,
  };
  if (scale.workers === 1) await request.runHere(spec, new OwnLink(folder));
  else await new WorkerGroup(spec, folder, scale).run();
}

/** The link of a loop that runs in this process, alone. */
class OwnLink implements Link {
  constructor(readonly folder: RunFolder) {}
  async report(metrics: Metrics, checkpoint: string | null): Promise<void> {
    const reports = this.folder.history.push(metrics);
    if (checkpoint !== null) await this.folder.persist([checkpoint], metrics, reports);
  }
  async reduce(_op: 'mean' | 'sum', data: Float32Array): Promise<Float32Array> {
    return data;
  }
  async barrier(): Promise<void> {}
}
