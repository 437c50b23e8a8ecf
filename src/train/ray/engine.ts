// The engine of a Ray cluster: uploads the project and submits a job that runs tsxla's driver (src/train/ray/driver). Placement,
// restarts and checkpoints are ray.train's. This process follows the job, and stops it on SIGINT and SIGTERM.
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
  type FitRequest,
  failedError,
  ownCommand,
  type PlainResult,
  type Result,
  resultOf,
} from '../engine.js';
import { StoppedError, WorkerError } from '../errors.js';
import { type JsonMetrics, PROTOCOL } from '../protocol.js';
import { type Job, RayCluster } from './jobs.js';
import { scriptInProject } from './pack.js';
import { RAY_ENV, type RunEvent, type RunRequest, showEvent, stopJob, submitRun, watchRun } from './run.js';

export interface RayOptions {
  /** Token of clusters with authentication. Default: RAY_AUTH_TOKEN. */
  readonly token?: string;
  /** Whether workers install missing npm packages (by the lock file) and the plugin. Default: false; missing ones are errors. */
  readonly install?: boolean;
  /** The folder of npm packages on the workers, if they neither see the project's node_modules nor install from its lock file. */
  readonly modules?: string;
  /** Files and folders that git ignores but the workers need, such as ['dist']. */
  readonly include?: readonly string[];
  /** The Python on the cluster that has Ray. Default: 'python'. */
  readonly python?: string;
  /** Seconds that the cluster may take to place the workers. Default: 60. */
  readonly startTimeout?: number;
  /** Environment variables of the workers. */
  readonly env?: Readonly<Record<string, string>>;
  /** End the program once the job is submitted; `tsxla ray logs --follow` and TorchTrainer.attach follow it. Default: false. */
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
  env: {
    is: (x: unknown) => isPlain(x) && texts(Object.values(x)),
    must: "an object of strings, as in { MODE: 'test' }",
  },
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

  run(request: FitRequest): Promise<Result> {
    return stoppable((signal) => this.#run(request, signal));
  }

  async #run(request: FitRequest, signal: AbortSignal): Promise<Result> {
    if (request.tensorboard !== undefined)
      throw new ArgumentError(
        `fit: tensorboard is '${request.tensorboard}', which works for runs on this machine only: on a Ray cluster use SummaryWriter in the loop of rank 0`,
      );
    const { profile } = request;
    if (profile && !path.isAbsolute(profile.dir))
      throw new ArgumentError(
        `fit: profile is '${profile.dir}', but the workers of a Ray cluster run in other folders: give an absolute path, best one that all machines share`,
      );
    const { include, detach, token: _, env: given = {}, ...submit } = this.#options;
    const { project, script, command } = workerCommand(request.scale.workers);
    const { maxFailures } = request.failure;
    const record = new RunRecord(request.storage);
    // The driver restarts workers; only a driver that died is restarted here.
    for (let attempt = 0; ; attempt++) {
      const asked = { ...requestOf(request, command, given), attempt: record.attempts };
      const pack = { script, ...(include && { include }) };
      const id = await submitRun(this.#cluster, asked, { project, pack, ...submit, signal }).catch((e) => {
        throw e === signal.reason ? failedError(request.name, record.attempts, record.plain(), signal.reason) : e;
      });
      const follow = `tsxla ray logs --follow ${id} --address ${this.#cluster.url.origin}`;
      notice(
        `the run ${request.name} is the job ${id}${detach ? `; it continues without this program: ${follow}` : ''}`,
      );
      if (detach) process.exit(0);
      const error = await watch(this.#cluster, id, record, signal);
      if (!error) return resultOf(record.plain());
      const isLost = error instanceof DriverLostError && (maxFailures < 0 || attempt < maxFailures);
      if (!isLost) throw failedError(request.name, record.attempts, record.plain(), error);
      notice(`${error.message}. Submitting it again`);
    }
  }
}

/** The driver of a job died without reporting a result or an error. */
class DriverLostError extends RayError {}

export async function attach(address: string, id: string, options: { readonly token?: string } = {}): Promise<Result> {
  const cluster = new RayCluster(address, options);
  const { metadata } = await cluster.job(id); // throws at once if there is no such job
  const record = new RunRecord('');
  const error = await watch(cluster, id, record);
  if (error) throw failedError(metadata?.['name'] ?? id, record.attempts, record.plain(), error);
  return resultOf(record.plain());
}

/** Runs work that SIGINT or SIGTERM stops. The program then ends by that signal, unless it has another listener. */
async function stoppable<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  let told: NodeJS.Signals | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    told = signal;
    stop.abort(new StoppedError(`stopped by ${signal}`));
  };
  const unlisten = onSignals(END_SIGNALS, onSignal, { once: true });
  try {
    return await work(stop.signal);
  } catch (e) {
    if (told && (e as Error).cause !== stop.signal.reason) notice(messageOf(e)); // the process may end before the caller sees it
    throw e;
  } finally {
    unlisten();
    if (told && !process.listenerCount(told)) process.kill(process.pid, told);
  }
}

/** Follows a job to its end and returns its error, if any. An abort of the signal stops the job. */
async function watch(
  cluster: RayCluster,
  id: string,
  record: RunRecord,
  signal?: AbortSignal,
): Promise<Error | undefined> {
  const lost = new AbortController(); // aborted if the job cannot be stopped
  const stop = () => {
    notice(`stopping the job ${id}; its workers may save first. A second signal ends this program without waiting`);
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

/** The state of a run, collected from the events of its job. */
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

  /** A new group of workers resumes from the last checkpoint: what was reported after it is reported again. */
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
        `the workers are not ready: ${failed.message}. Install it there, or let them install it: ray: { install: true }, tsxla ray submit --install`,
      );
    if (failed) return new RayError(failed.message);
    const how = (message ?? status).split(/,? last available logs|\n/)[0];
    const said = this.#last.length ? `; its last lines: ${this.#last.slice(-5).join(' | ')}` : '';
    const again = `; if it is submitted again with the same name, the run resumes from the last checkpoint in ${this.#path}`;
    return new DriverLostError(`the driver of the job ${id} died: ${how}${said}${this.#path && again}`);
  }

  plain(): PlainResult {
    return { history: this.#history, checkpoints: this.#kept, path: this.#path };
  }
}

/** The request to the driver, in the terms of ray.train. */
function requestOf(
  request: FitRequest,
  command: readonly string[],
  given: Readonly<Record<string, string>>,
): RunRequest {
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
    datasets: request.rayDatasets,
    checkpoints: {
      ...(numToKeep !== undefined && { num_to_keep: numToKeep }),
      ...(attribute !== undefined && { checkpoint_score_attribute: attribute, checkpoint_score_order: order }),
    },
    protocol: PROTOCOL,
    spec: {
      run,
      name,
      reduce: scale.reduce,
      mesh: scale.mesh,
      devices: device,
      ...(request.profile && { profile: request.profile }),
      earlier,
    },
  };
}

/** The command that runs this program in a worker, from the folder of the uploaded project. */
function workerCommand(workers: number): { project: string; script: string; command: string[] } {
  const own = ownCommand(workers);
  const { project, script } = scriptInProject(own.script);
  return { project, script, command: ['node', ...flagsThere(own.execArgv, project), script, ...own.args] };
}

/** Node's flags for other machines: tsx by its name, files by paths relative to the project. */
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
