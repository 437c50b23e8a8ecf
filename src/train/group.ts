// Starts and serves the worker processes of a run on this machine; each runs the program again. If one fails, all are ended. No
// worker outlives this process.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { ArgumentError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { jsonOf } from '../base/json.js';
import { notice } from '../base/log.js';
import { END_SIGNALS, onSignals } from '../base/signals.js';
import { temporaryFolder } from '../base/temporary.js';
import { visibleGpus } from '../runtime/device.js';
import { type Command, ownCommand } from './engine.js';
import { StoppedError, WorkerError } from './errors.js';
import {
  decodeMetrics,
  type FromWorker,
  floats,
  framesOf,
  PROTOCOL,
  send,
  type ToWorker,
  type WorkerSpec,
} from './protocol.js';
import type { Scale } from './scaling.js';
import type { RunFolder } from './storage.js';

/** Collective operations, in which workers wait for each other. */
type Collective = Extract<FromWorker, { type: 'reduce' | 'barrier' }> & { readonly data: Uint8Array };

interface Worker {
  readonly rank: number;
  readonly child: ChildProcess;
  readonly to: Writable;
  readonly exited: Promise<string>;
  /** The collectives in which it waits for the others, oldest first. */
  readonly waits: Collective[];
  /** The number of its last report. */
  reported: number;
  isConnected: boolean;
  isDone: boolean;
}

const GRACE = 60_000; // milliseconds for workers that were told to stop: a step may be long
const LEAVE = 5000; // for workers whose loops have ended
const PATIENCE = 30_000; // before a notice names the worker that is late

export class WorkerGroup {
  readonly #workers: Worker[] = [];
  readonly #token = randomBytes(16).toString('hex');
  /** Folders of checkpoints that not all workers have reported yet, by the number of the report. */
  readonly #parts = new Map<number, Map<Worker, string>>();
  #persisting: Promise<void> = Promise.resolve();
  readonly #logs: Promise<void>[] = [];
  /** Each resolves when all frames of a worker were handled; later ones would count for the next attempt. */
  readonly #served: Promise<void>[] = [];
  /** Number of reports before this attempt. */
  readonly #before: number;
  #end!: { readonly resolve: () => void; readonly reject: (e: unknown) => void };
  #stopping: NodeJS.Signals | undefined;
  readonly #reminders: NodeJS.Timeout[] = [];
  #waited: Collective | undefined;

  constructor(
    readonly spec: WorkerSpec,
    readonly folder: RunFolder,
    readonly scale: Scale,
  ) {
    this.#before = folder.history.length;
  }

  /** Throws before a run begins if this machine or this program cannot have these workers. */
  static check({ workers, device, resources }: Scale): Command {
    if (device === 'tpu')
      throw new ArgumentError(
        `fit: ${workers} workers with useTpu on one machine, but one process uses all its chips: leave numWorkers out, or give the address of a Ray cluster`,
      );
    if (process.versions['bun'])
      throw new ArgumentError(
        `fit: ${workers} workers need Node or Deno, as Bun does not read the pipes that they are told through: run this program with node, or leave numWorkers out`,
      );
    const [GPU, gpus] = [resources['GPU']!, visibleGpus().length];
    if (device === 'cuda' && gpus < workers * GPU)
      throw new ArgumentError(
        `fit: ${workers} workers with useGpu need ${plural(workers * GPU, 'GPU')}, and this machine has ${plural(gpus, 'GPU')}: ` +
          (gpus
            ? 'leave numWorkers out: one process uses all GPUs as a mesh'
            : 'leave useGpu out, or give the address of a Ray cluster'),
      );
    return ownCommand(workers, ', or leave numWorkers out');
  }

  /** Resolves when every worker's loop has ended. */
  async run(): Promise<void> {
    const own = WorkerGroup.check(this.scale);
    const scratch = await temporaryFolder('train');
    const specFile = path.join(scratch.path, 'spec.json');
    await fs.writeFile(specFile, jsonOf(this.spec));
    const port = await freePort();
    const over = new Promise<void>((resolve, reject) => {
      this.#end = { resolve, reject };
    });
    const kill = () => this.#kill();
    process.on('exit', kill);
    const unlisten = onSignals(END_SIGNALS, (signal) => this.#stop(signal));
    const watch = setInterval(() => this.#lookForLate(), PATIENCE).unref();
    try {
      for (let rank = 0; rank < this.scale.workers; rank++) this.#start(rank, own, specFile, port);
      await over;
      await this.#gone(LEAVE); // workers may run exit handlers
    } finally {
      clearInterval(watch);
      for (const reminder of this.#reminders) clearTimeout(reminder);
      this.#kill();
      await Promise.all(this.#workers.map((w) => w.exited));
      await this.#persisting;
      await within(1000, [...this.#logs, ...this.#served]); // their child processes may keep the pipes open
      await scratch.remove();
      process.off('exit', kill);
      unlisten();
      if (this.#stopping && !process.listenerCount(this.#stopping)) process.kill(process.pid, this.#stopping);
    }
  }

  #start(rank: number, own: Command, specFile: string, port: number): void {
    const { workers: world, device, resources } = this.scale;
    const GPU = resources['GPU']!;
    const gpus = device === 'cuda' ? visibleGpus().slice(rank * GPU, (rank + 1) * GPU) : [];
    const child = spawn(process.execPath, [...own.execArgv, own.script, ...own.args], {
      env: {
        ...process.env,
        ...numbered({ RANK: rank, WORLD_SIZE: world, LOCAL_RANK: rank, LOCAL_WORLD_SIZE: world, NODE_RANK: 0 }),
        ...numbered({ MASTER_PORT: port, PJRT_LOCAL_PROCESS_RANK: rank }), // local rank 0 logs for all
        MASTER_ADDR: '127.0.0.1',
        TSXLA_RENDEZVOUS_TOKEN: this.#token, // other users of this machine can reach the port
        PJRT_DEVICE: device.toUpperCase(),
        ...(device === 'cuda' && { CUDA_VISIBLE_DEVICES: gpus.join() }),
        TSXLA_TRAIN_SPEC: specFile,
      },
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    });
    const [, out, err, from, to] = child.stdio as unknown as [null, Readable, Readable, Readable, Writable];
    this.#logs.push(showLines(rank, out, process.stdout), showLines(rank, err, process.stderr));
    to.on('error', () => {}); // the worker is gone; its exit status is reported
    const exited = new Promise<string>((resolve) => {
      child.once('error', (e) => resolve(`could not be started: ${e.message}`));
      child.once('exit', (status, signal) =>
        resolve(signal ? `was killed by ${signal}` : `ended with status ${status}`),
      );
    });
    const worker: Worker = { rank, child, to, exited, waits: [], reported: 0, isConnected: false, isDone: false };
    this.#workers.push(worker);
    this.#served.push(this.#serve(worker, from).catch((e) => this.#fail(e)));
  }

  /** Handles all frames of a worker, then its exit. */
  async #serve(worker: Worker, from: Readable): Promise<void> {
    for await (const { frame, data } of framesOf<FromWorker>(from)) this.#take(worker, frame, data);
    const how = await worker.exited;
    if (worker.isDone || this.#stopping) return;
    const isKilled = worker.child.signalCode !== null;
    const before = !worker.isConnected ? ' before it called fit()' : isKilled ? '' : ' before its loop had ended';
    this.#fail(new WorkerError(`worker ${worker.rank} ${how}${before}`, worker.rank));
  }

  #take(worker: Worker, frame: FromWorker, data: Uint8Array): void {
    const { rank } = worker;
    if (frame.type === 'hello') {
      worker.isConnected = true;
      if (frame.protocol !== PROTOCOL)
        this.#fail(
          new WorkerError(
            `worker ${rank} has tsxla ${frame.tsxla} with protocol ${frame.protocol}, and this program has protocol ${PROTOCOL}: install the same version of tsxla in both`,
            rank,
          ),
        );
    } else if (frame.type === 'error') {
      const cause = Object.assign(new Error(frame.message), { name: frame.name, stack: frame.stack });
      this.#fail(
        new WorkerError(`worker ${rank}: ${frame.name}: ${frame.message}`, rank, { cause, final: frame.final }),
      );
    } else if (frame.type === 'report') {
      worker.reported = frame.id;
      if (rank === 0) this.folder.add(decodeMetrics(frame.metrics));
      if (frame.checkpoint !== null) {
        const known = this.#parts.get(frame.id);
        const parts = known ?? new Map<Worker, string>();
        this.#parts.set(frame.id, parts.set(worker, frame.checkpoint));
        if (!known)
          this.#remind(
            () => this.#parts.has(frame.id) && this.#workers.find((w) => w.reported < frame.id),
            (late) =>
              `worker ${rank} reported a checkpoint that worker ${late} has not reported yet: if the run hangs, ` +
              'stop it, and let all workers report equally often',
          );
      }
    } else if (frame.type === 'done') {
      const isFirst = !this.#workers.some((w) => w.isDone);
      worker.isDone = true;
      if (isFirst)
        this.#remind(
          () => this.#workers.find((w) => !w.isDone),
          (late) =>
            `the loop of worker ${rank} ended and that of worker ${late} did not: if the run hangs, ` +
            'stop it, and let all workers take the same number of steps, as with prepareDataLoader',
        );
    } else if (frame.type !== 'rows') worker.waits.push({ ...frame, data }); // no 'rows' here: fit() rejects rayDatasets
    this.#meet();
    this.#keep();
    if (this.#workers.every((w) => w.isDone)) void this.#persisting.then(() => this.#end.resolve());
  }

  /** Completes the collectives in which all workers wait. */
  #meet(): void {
    while (this.#workers.every((w) => w.waits.length)) {
      const all = this.#workers.map((w) => w.waits.shift()!);
      const odd = all.findIndex((wait) => nameOf(wait) !== nameOf(all[0]!));
      if (odd > 0) {
        this.#fail(
          new WorkerError(
            `worker 0 is at ${nameOf(all[0]!)}, and worker ${odd} at ${nameOf(all[odd]!)}: all workers must make the same calls in the same order, with tensors of the same sizes`,
            odd,
            { final: true },
          ),
        );
        return;
      }
      const [{ id, type }] = all as [Collective];
      const data = type === 'reduce' ? reduced(all) : undefined;
      const answer: ToWorker = data ? { type: 'reduced', id, bytes: data.length } : { type: 'ack', id };
      for (const { to } of this.#workers) send(to, answer, data);
    }
    const gone = this.#workers.find((w) => w.isDone && !w.waits.length);
    const waiting = this.#workers.find((w) => w.waits.length);
    if (gone && waiting)
      this.#fail(
        new WorkerError(
          `the loop of worker ${gone.rank} has ended, and worker ${waiting.rank} waits for it at ${nameOf(waiting.waits[0]!)}: ` +
            'all workers must take the same number of steps: prepareDataLoader gives each of them the same number of batches',
          gone.rank,
          { final: true },
        ),
      );
  }

  /** Stores checkpoints that are complete. A worker that waits for the others, or has ended, adds no part any more. */
  #keep(): void {
    for (const [id, parts] of this.#parts) {
      if (!this.#workers.every((w) => w.reported >= id || w.isDone || w.waits.length)) continue;
      this.#parts.delete(id);
      this.#persisting = this.#persisting.then(() => this.#persist(id, parts)).catch((e) => this.#fail(e));
    }
  }
  async #persist(id: number, parts: ReadonlyMap<Worker, string>): Promise<void> {
    const reports = this.#before + id / 2; // ids of reports are even
    const metrics = this.folder.history[reports - 1] ?? {};
    await this.folder.persist([...parts.values()], metrics, reports);
    for (const { to } of parts.keys()) send(to, { type: 'ack', id });
  }

  /** Names a worker for which another has waited since the last check. */
  #lookForLate(): void {
    const [waiting, late] = [this.#workers.find((w) => w.waits.length), this.#workers.find((w) => !w.waits.length)];
    const first = waiting?.waits[0];
    if (first && first === this.#waited && late)
      notice(`worker ${waiting.rank} has waited for worker ${late.rank} at ${nameOf(first)} for ${PATIENCE / 1000} s`);
    this.#waited = first;
  }

  /** An XLA collective hangs silently if a worker does not join it: shows a notice if `find` still finds a late worker. */
  #remind(find: () => Worker | false | undefined, text: (late: number) => string): void {
    if (this.scale.reduce !== 'xla') return; // else #lookForLate() detects it
    const look = () => {
      const late = find();
      if (late) notice(`${PATIENCE / 1000} s ago ${text(late.rank)}`);
    };
    this.#reminders.push(setTimeout(look, PATIENCE).unref());
  }

  #fail(e: unknown): void {
    if (!this.#stopping) this.#end.reject(e);
  }
  /** Asks the workers to save and leave. They are killed after GRACE, or at the second signal. */
  #stop(signal: NodeJS.Signals): void {
    if (this.#stopping) {
      this.#kill();
      return;
    }
    this.#stopping = signal;
    notice(`${signal}: stopping ${plural(this.#workers.length, 'worker')}; a second signal kills them now`);
    for (const { to } of this.#workers) send(to, { type: 'stop' });
    void this.#gone(GRACE).then(() => this.#end.reject(new StoppedError(`stopped by ${signal}`)));
  }
  #gone(milliseconds: number): Promise<unknown> {
    return within(
      milliseconds,
      this.#workers.map((w) => w.exited),
    );
  }
  #kill(): void {
    for (const { child } of this.#workers) child.kill('SIGKILL');
  }
}

/** Waits for all promises, at most for the given time. */
const within = (milliseconds: number, all: readonly Promise<unknown>[]): Promise<unknown> =>
  Promise.race([Promise.all(all), sleep(milliseconds, undefined, { ref: false })]);

/** Prints lines with the rank. Resolves at the end of the input. */
const showLines = (rank: number, input: Readable, to: Writable): Promise<void> =>
  new Promise((resolve) => {
    createInterface({ input })
      .on('line', (line) => void to.write(`[rank ${rank}] ${line}\n`))
      .on('close', resolve);
  });

const nameOf = (wait: Collective): string =>
  wait.type === 'barrier' ? 'barrier' : `${wait.what} of ${plural(wait.bytes / 4, 'number')}`;

function reduced(all: readonly Collective[]): Uint8Array {
  const [first, ...others] = all as [Collective, ...Collective[]];
  const sum = floats(first.data);
  for (const { data } of others) {
    const theirs = floats(data);
    for (let i = 0; i < sum.length; i++) sum[i]! += theirs[i]!;
  }
  if ('op' in first && first.op === 'mean') for (let i = 0; i < sum.length; i++) sum[i]! /= all.length;
  return new Uint8Array(sum.buffer);
}

const numbered = (numbers: Readonly<Record<string, number>>): Record<string, string> =>
  Object.fromEntries(Object.entries(numbers).map(([name, n]) => [name, String(n)]));

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = net.createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as net.AddressInfo;
      server.close(() => resolve(port));
    });
  });
