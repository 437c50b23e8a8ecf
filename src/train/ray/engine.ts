// The engine of a Ray cluster: the project is uploaded, a job runs our driver there (src/train/ray/driver), and placement, restarts
// and what is kept are ray.train's. Here we watch it, and end it when we are told to end.
import path from 'node:path';
import { env } from '../../base/env.js';
import { ArgumentError, RayError } from '../../base/errors.js';
import { anyObject, parseJson } from '../../base/json.js';
import { notice } from '../../base/log.js';
import { END_SIGNALS, onSignals } from '../../base/signals.js';
import { messageOf } from '../../base/thrown.js';
import { isPlain } from '../../base/tree.js';
import { checkFields, type Fields, flag, text, wholeField } from '../config.js';
import {
  type Engine,
  failedError,
  ownCommand,
  type PlainResult,
  type Result,
  type RunRequest,
  resultOf,
} from '../engine.js';
import { StoppedError, WorkerError } from '../errors.js';
import { type JsonMetrics, PROTOCOL } from '../protocol.js';
import { type Job, RayCluster } from './jobs.js';
import { scriptInProject } from './pack.js';
import {
  RAY_ENV,
  type RunRequest as RayRequest,
  type RunEvent,
  showEvent,
  stopJob,
  submitRun,
  watchRun,
} from './run.js';

export interface RayOptions {
  /** For a cluster that asks for one; else RAY_AUTH_TOKEN. */
  readonly token?: string;
  /** Whether workers install what they lack: npm packages by the lock file, the plugin. */
  readonly install?: boolean;
  /** Where the workers have the npm packages, if neither in the project's place on this machine nor from its lock file. */
  readonly modules?: string;
  /** Ignored files and folders of the project that the workers need: ['dist']. */
  readonly include?: readonly string[];
  /** The cluster's Python that has Ray: default 'python'. */
  readonly python?: string;
  /** Seconds that the cluster may take to place the workers. Default: 60. */
  readonly startTimeout?: number;
  /** For the workers' environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** The program ends when the job is submitted: `tsxla ray logs --follow` and TorchTrainer.attach show it then. */
  readonly detach?: boolean;
}
const texts = (values: readonly unknown[]): boolean => values.every((x) => typeof x === 'string');
const FIELDS: Fields<RayOptions> = {
  token: text,
  install: flag,
  modules: text,
  include: { is: (x: unknown) => Array.isArray(x) && texts(x), must: "a list of paths, as in ['data']" },
  python: text,
  startTimeout: wholeField(1),
  env: { is: (x: unknown) => isPlain(x) && texts(Object.values(x)), must: "texts by name, as in { MODE: 'test' }" },
  detach: flag,
};

export class RayEngine implements Engine {
  readonly #options: RayOptions;
  readonly #cluster: RayCluster;

  constructor(address: string, options: RayOptions = {}) {
    checkFields('ray', FIELDS, options);
    const error = (message: string) => new ArgumentError(message);
    const given: RayOptions = parseJson(env(RAY_ENV) ?? '{}', RAY_ENV, anyObject, { error });
    checkFields(RAY_ENV, FIELDS, given);
    this.#options = { ...options, ...given, env: { ...options.env, ...given.env } };
    this.#cluster = new RayCluster(address, { token: this.#options.token });
  }

  run(request: RunRequest): Promise<Result> {
    return stoppable((signal) => this.#run(request, signal));
  }

  async #run(request: RunRequest, signal: AbortSignal): Promise<Result> {
    const { include, detach, token: _, env: given = {}, ...submit } = this.#options;
    const { project, script, command } = workerCommand(request.scale.workers);
    const { maxFailures } = request.failure;
    const record = new RunRecord(request.storage);
    // Restarts of workers are the driver's business; one is left to us: that of a driver which died itself.
    for (let attempt = 0; ; attempt++) {
      const asked = { ...askedOf(request, command, given), attempt: record.attempts };
      const pack = { script, ...(include && { include }) };
      const id = await submitRun(this.#cluster, asked, { project, pack, ...submit, signal }).catch((e) => {
        throw e === signal.reason ? failedError(request.name, record.attempts, record.plain(), signal.reason) : e;
      });
      const follow = `tsxla ray logs --follow ${id} --address ${this.#cluster.url.origin}`;
      notice(`the run ${request.name} is the job ${id}${detach ? `; it goes on without this program: ${follow}` : ''}`);
      if (detach) process.exit(0);
      const error = await watch(this.#cluster, id, record, signal);
      if (!error) return resultOf(record.plain());
      const isLost = error instanceof DriverLostError && (maxFailures < 0 || attempt < maxFailures);
      if (!isLost) throw failedError(request.name, record.attempts, record.plain(), error);
      notice(`${error.message}. That is done now`);
    }
  }
}

/** A job whose driver died without a word. */
class DriverLostError extends RayError {}

export async function attach(address: string, id: string, options: { readonly token?: string } = {}): Promise<Result> {
  const cluster = new RayCluster(address, options);
  const { metadata } = await cluster.job(id); // one that is not there is said, and not waited for
  const record = new RunRecord('');
  const error = await watch(cluster, id, record);
  if (error) throw failedError(metadata?.['name'] ?? id, record.attempts, record.plain(), error);
  return resultOf(record.plain());
}

/** Work that a signal ends: the program ends by it then, unless there is another listener. A second one ends it at once. */
async function stoppable<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  let told: NodeJS.Signals | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    told = signal;
    stop.abort(new StoppedError(`it was stopped by ${signal}`));
  };
  const unlisten = onSignals(END_SIGNALS, onSignal, { once: true });
  try {
    return await work(stop.signal);
  } catch (e) {
    if (told && (e as Error).cause !== stop.signal.reason) notice(messageOf(e)); // the caller may be gone
    throw e;
  } finally {
    unlisten();
    if (told && !process.listenerCount(told)) process.kill(process.pid, told);
  }
}

/** Follows a job to its end, which a signal may bring about, and says why it is not a success. */
async function watch(
  cluster: RayCluster,
  id: string,
  record: RunRecord,
  signal?: AbortSignal,
): Promise<Error | undefined> {
  const lost = new AbortController(); // nothing is to be heard of it any more
  const stop = () => {
    notice(`stops the job ${id}, whose workers may save first; once more leaves that to the cluster`);
    stopJob(cluster, id).catch((e) => lost.abort(e));
  };
  if (signal?.aborted) stop();
  signal?.addEventListener('abort', stop, { once: true });
  try {
    const events = watchRun(cluster, id, { signal: lost.signal });
    let next = await events.next();
    for (; !next.done; next = await events.next()) record.add(next.value);
    lost.signal.throwIfAborted();
    const error = record.error(id, next.value);
    return error && signal?.aborted ? signal.reason : error;
  } catch (e) {
    if (e instanceof RayError) return e;
    throw e;
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}

/** What is known of a run by what its job has said. */
class RunRecord {
  attempts = 0;
  #history: JsonMetrics[] = [];
  #kept: PlainResult['checkpoints'] = [];
  #path: string;
  #worker: WorkerError | undefined;
  #failed: Extract<RunEvent, { type: 'failed' }> | undefined;
  #isDone = false;
  readonly #last: string[] = [];

  constructor(path: string) {
    this.#path = path;
  }

  add(event: RunEvent): void {
    const text = event.type === 'report' || event.type === 'checkpoint' ? undefined : showEvent(event);
    if (text !== undefined) {
      this.#last.push(text);
      if (this.#last.length > 20) this.#last.shift();
      process.stdout.write(`${text}\n`);
    }
    switch (event.type) {
      case 'hello':
        if (event.attempt >= this.attempts) this.#begin(event);
        break;
      case 'history':
        this.#history = [...event.metrics];
        break;
      case 'report':
        this.#history.push(event.metrics);
        break;
      case 'checkpoint':
        this.#kept = [event];
        break;
      case 'error':
        this.#worker ??= new WorkerError(`worker ${event.rank}: ${event.name}: ${event.message}`, event.rank, {
          final: event.final,
        });
        break;
      case 'crash':
        this.#worker ??= new WorkerError(`worker ${event.rank} ended with ${event.how}`, event.rank);
        break;
      case 'failed':
        this.#failed = event;
        break;
      case 'result':
        this.#isDone = true;
        this.#path = event.path;
        this.#kept = event.checkpoints;
    }
  }

  /** A new group of workers goes on from the last checkpoint: what was reported behind it will be again. */
  #begin({ attempt, reports }: Extract<RunEvent, { type: 'hello' }>): void {
    this.attempts = attempt + 1;
    this.#history.length = Math.min(this.#history.length, reports);
    this.#worker = undefined;
  }

  error(id: string, { status, message }: Job): Error | undefined {
    if (this.#isDone && status === 'SUCCEEDED') return undefined;
    if (status === 'STOPPED') return new StoppedError(`the job ${id} was stopped`);
    const failed = this.#failed;
    if (failed?.why === 'workers') return this.#worker ?? new RayError(failed.message);
    if (failed?.why === 'missing')
      return new RayError(
        `the workers lack what they need: ${failed.message}. Install it there, or let them: ray: { install: true }, tsxla ray submit --install`,
      );
    if (failed) return new RayError(failed.message);
    const how = (message ?? status).split(/,? last available logs|\n/)[0];
    const said = this.#last.length ? `; its last lines: ${this.#last.slice(-5).join(' | ')}` : '';
    const again = `; submitted again under its name, the run goes on from the last checkpoint in ${this.#path}`;
    return new DriverLostError(`the driver of the job ${id} died: ${how}${said}${this.#path && again}`);
  }

  plain(): PlainResult {
    return { history: this.#history, checkpoints: this.#kept, path: this.#path };
  }
}

/** In the words of ray.train. */
function askedOf(request: RunRequest, command: readonly string[], given: Readonly<Record<string, string>>): RayRequest {
  const { name, run, earlier, storage, scale, scaling, failure, checkpoint } = request;
  const { numToKeep, checkpointScoreAttribute: attribute, checkpointScoreOrder: order } = checkpoint;
  const { slice } = scale;
  const device = scale.device === 'auto' ? 'cpu' : scale.device;
  const workers = env('TSXLA_TRAIN_WORKERS');
  return {
    name,
    storage: storage.slice(0, storage.lastIndexOf('/')),
    command,
    env: { ...(workers && { TSXLA_TRAIN_WORKERS: workers }), ...given },
    device,
    scaling: {
      num_workers: scale.workers,
      resources_per_worker: scale.resources,
      ...(device === 'cuda' && { use_gpu: true }),
      ...(device === 'tpu' && { use_tpu: true }),
      ...(slice && {
        topology: slice.shape.join('x'),
        accelerator_type: slice.chip.rayType,
      }),
      ...(scaling.placementStrategy && { placement_strategy: scaling.placementStrategy }),
    },
    max_failures: failure.maxFailures,
    checkpoints: {
      ...(numToKeep !== undefined && { num_to_keep: numToKeep }),
      ...(attribute !== undefined && { checkpoint_score_attribute: attribute, checkpoint_score_order: order }),
    },
    protocol: PROTOCOL,
    spec: { run, name, reduce: scale.reduce, mesh: scale.mesh, devices: device, earlier },
  };
}

/** This program as a worker runs it: from the folder of the project, which is uploaded. */
function workerCommand(workers: number): { project: string; script: string; command: string[] } {
  const own = ownCommand(workers);
  const { project, script } = scriptInProject(own.script);
  return { project, script, command: ['node', ...flagsThere(own.execArgv, project), script, ...own.args] };
}

/** Node's flags, with tsx by its name and files by their place in the project: other machines have other folders. */
function flagsThere(flags: readonly string[], project: string): string[] {
  const [loads, others]: [string[], string[]] = [[], []];
  for (let i = 0; i < flags.length; i++) {
    const [, flag, value] = /^(--import|--require|--loader|-r)(?:=(.*))?$/.exec(flags[i]!) ?? [];
    if (!flag) others.push(flags[i]!);
    else loads.push(`${flag === '-r' ? '--require' : flag}=${value ?? flags[++i]}`);
  }
  const usesTsx = loads.some((load) => /[\\/]tsx[\\/]|=tsx(\/|$)/.test(load));
  const own = loads
    .filter((load) => !/[\\/]tsx[\\/]|=tsx(\/|$)/.test(load))
    .map((load) =>
      load.replace(/^([^=]*)=(?:file:\/\/)?(\/.*)$/, (_, flag, file) => `${flag}=./${path.relative(project, file)}`),
    );
  return [...others, ...(usesTsx ? ['--import=tsx'] : []), ...own];
}
