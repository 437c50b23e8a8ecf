// A run of workers on a cluster: the request to tsxla's driver (driver/main.py), and the events that it prints.
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { RayError } from '../../base/errors.js';
import { plural } from '../../base/format.js';
import { jsonOf, object, parseJson, text } from '../../base/json.js';
import { linkedPackage } from './files.js';
import { isFinal, type Job, type RayCluster } from './jobs.js';
import { type PackOptions, packProject, upload } from './pack.js';
import { backoff } from './patience.js';

/** The request to the driver. Names and values are those of ray.train; `spec` is for the workers. */
export interface RunRequest {
  readonly name: string;
  /** A folder that all machines share, or an address such as gs://...; null: Ray's default. */
  readonly storage: string | null;
  /** The command of a worker, such as ['node', 'train.js', ...], run in the folder of the project. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly device: 'cpu' | 'cuda' | 'tpu';
  readonly scaling: {
    readonly num_workers: number;
    readonly use_gpu?: boolean;
    readonly use_tpu?: boolean;
    readonly topology?: string;
    readonly accelerator_type?: string;
    readonly placement_strategy?: string;
    readonly resources_per_worker?: Readonly<Record<string, number>>;
  };
  readonly max_failures: number;
  readonly checkpoints: {
    readonly num_to_keep?: number;
    readonly checkpoint_score_attribute?: string;
    readonly checkpoint_score_order?: 'max' | 'min';
  };
  /** The datasets that Ray Data reads for the workers, by name. */
  readonly datasets?: Readonly<Record<string, object>>;
  /** The content of TSXLA_TRAIN_SPEC for each worker; the driver adds attempt, storage, checkpoint and engine. */
  readonly spec: {
    readonly run: number;
    readonly name: string;
    readonly reduce: 'none' | 'engine' | 'xla';
    readonly [more: string]: unknown;
  };
  /** The protocol version that workers must have (train/protocol.ts). Default: any. */
  readonly protocol?: number;
  /** The number of earlier attempts of this run. Default: 0. */
  readonly attempt?: number;
}

export interface SubmitOptions {
  /** The folder that is uploaded; it is the working directory of every worker. */
  readonly project: string;
  readonly pack?: PackOptions;
  /** The job's id. Default: one made from the run's name. */
  readonly id?: string;
  /** The Python on the cluster that has Ray. Default: 'python', from the PATH of the machines. */
  readonly python?: string;
  /** The folder of npm packages on the workers. Default: the project's node_modules, if it is at the same path there. */
  readonly modules?: string;
  /** Whether workers install missing npm packages (by the lock file) and the plugin. Default: false; missing ones are errors. */
  readonly install?: boolean;
  /** Seconds that the cluster may take to place the workers. Default: 60. */
  readonly startTimeout?: number;
  /** Whether workers check for the device's plugin before anything starts. Default: true. */
  readonly checkPlugin?: boolean;
  /** Aborts the submission. No job remains. */
  readonly signal?: AbortSignal;
}

/** The variable in which `tsxla ray submit` passes RayOptions to a script, as JSON. */
export const RAY_ENV = 'TSXLA_RAY';

/** The variable with the workers' environment for the driver, as JSON in base64. */
export const WORKER_ENV = 'TSXLA_WORKER_ENV';

export type RunEvent =
  | { readonly type: 'log'; readonly line: string }
  | { readonly type: 'driver'; readonly pid: number; readonly ray: string }
  | {
      readonly type: 'hello';
      readonly rank: number;
      readonly attempt: number;
      /** Number of reports up to the checkpoint that it resumes from. */
      readonly reports: number;
      readonly tsxla: string;
    }
  | { readonly type: 'history'; readonly metrics: readonly Metrics[] }
  | { readonly type: 'report'; readonly rank: number; readonly metrics: Metrics }
  | { readonly type: 'checkpoint'; readonly path: string; readonly metrics: Metrics }
  | {
      readonly type: 'error';
      readonly rank: number;
      readonly name: string;
      readonly message: string;
      readonly stack: string;
      /** A restart would fail in the same way, so none is made. */
      readonly final: boolean;
    }
  | { readonly type: 'crash'; readonly rank: number; readonly how: string }
  | { readonly type: 'failed'; readonly why: FailedWhy; readonly message: string }
  | {
      readonly type: 'result';
      readonly checkpoints: readonly { path: string; metrics: Metrics }[];
      readonly path: string;
    };
/** NaN and infinities, which JSON does not have, are strings. */
type Metrics = Readonly<Record<string, number | string>>;
export type FailedWhy = 'workers' | 'resources' | 'missing' | 'controller';

const DRIVER = 'tsxla_driver'; // a folder in the uploaded project, imported as a Python package
const REQUEST = 'tsxla_request.json';
const LONGEST = 2 ** 16; // Linux limits one argument to 128 KiB
const LONGEST_LINE = 2 ** 24; // characters; longer log lines are split
const MARK = '@tsxla ';
/** Seconds between a request to stop and Ray's kill. Workers have all but ten of them to save. */
const GRACE = 70;

/** Uploads the project and submits a run. Returns the job's id. */
export async function submitRun(cluster: RayCluster, request: RunRequest, options: SubmitOptions): Promise<string> {
  await cluster.version();
  const { project, python = 'python', install = false, startTimeout = 60, checkPlugin = true, signal } = options;
  const id = options.id ?? `tsxla-${request.name}-${Date.now().toString(36)}`;
  const full = {
    attempt: 0,
    ...request,
    env: {}, // may have secrets: command lines are visible in `ps`, in the job's log and in lists of jobs
    job: id,
    modules: options.modules ?? null,
    own_modules: path.join(project, 'node_modules'),
    install,
    check: checkPlugin ? request.device : null,
    start_timeout: startTimeout,
  };
  const text = jsonOf(full); // metrics of earlier runs may be NaN
  const isLong = text.length > LONGEST; // for a command line
  const extra = {
    ...options.pack?.extra,
    ...(await driverFiles()),
    ...(install && (await linkedPackage(project))),
    ...(isLong && { [REQUEST]: Buffer.from(text) }),
  };
  const { uri } = await upload(cluster, await packProject(project, { ...options.pack, extra }), signal);
  signal?.throwIfAborted();
  await cluster.submit({
    entrypoint: `${python} -m ${DRIVER}.main ${isLong ? `@${REQUEST}` : quoted(text)}`,
    submission_id: id,
    metadata: { tsxla: 'run', name: request.name, workers: String(request.scaling.num_workers) },
    runtime_env: {
      working_dir: uri,
      env_vars: {
        PYTHONUNBUFFERED: '1',
        RAY_JOB_STOP_WAIT_TIME_S: String(GRACE),
        // In base64, because Ray replaces ${NAME} in values.
        [WORKER_ENV]: Buffer.from(JSON.stringify(request.env)).toString('base64'),
      },
    },
    entrypoint_num_cpus: 0,
  });
  if (signal?.aborted) await stopJob(cluster, id);
  signal?.throwIfAborted();
  return id;
}

async function driverFiles(): Promise<Record<string, Uint8Array>> {
  const folder = new URL('driver/', import.meta.url);
  const names = (await readdir(folder)).filter((name) => name.endsWith('.py'));
  const read = async (name: string) => [`${DRIVER}/${name}`, await readFile(new URL(name, folder))] as const;
  return Object.fromEntries(await Promise.all(names.map(read)));
}

/** Yields the events of a run from its beginning until its job has ended. Returns the job. */
export async function* watchRun(
  cluster: RayCluster,
  id: string,
  options: { signal?: AbortSignal } = {},
): AsyncGenerator<RunEvent, Job> {
  const log = cluster.follow(id, options);
  let open = ''; // an incomplete line
  for (;;) {
    const { value, done } = await log.next();
    if (done) {
      yield* eventsOf(open);
      return value;
    }
    const end = value.lastIndexOf('\n') + 1;
    yield* end ? eventsOf(open + value.slice(0, end)) : [];
    open = end ? value.slice(end) : open + value;
    if (open.length > LONGEST_LINE && !open.startsWith(MARK)) {
      yield { type: 'log', line: open };
      open = '';
    }
  }
}

/** Parses complete lines of a log into events. */
export function eventsOf(log: string): RunEvent[] {
  const lines = log.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines.map((line) => {
    const event = line.startsWith(MARK) ? eventIn(line.slice(MARK.length)) : undefined;
    return event ?? { type: 'log', line };
  });
}
/** undefined for lines that are not events: a killed driver may leave half a line, and another program may print the mark. */
const EVENT = object({ type: text });
function eventIn(json: string): RunEvent | undefined {
  try {
    return parseJson(json, 'an event', EVENT) as RunEvent;
  } catch {
    return undefined;
  }
}

/** An event as a line of text for users; undefined for internal events. */
export function showEvent(event: RunEvent): string | undefined {
  switch (event.type) {
    case 'log':
      return / -- Runtime env is setting up|^Running entrypoint for job /.test(event.line) ? undefined : event.line;
    case 'hello': // of the first attempt nothing has to be said
      return event.rank || !event.attempt
        ? undefined
        : `attempt ${event.attempt + 1}: the workers were started again, ${event.reports ? `from the checkpoint after ${plural(event.reports, 'report')}` : 'from the beginning'}`;
    case 'report': {
      const metrics = Object.entries(event.metrics).map(([name, value]) => `${name} ${value}`);
      return `[rank ${event.rank}] reports ${metrics.join(', ')}`;
    }
    case 'checkpoint':
      return `checkpoint ${event.path}`;
    case 'error':
      return `[rank ${event.rank}] ${event.stack || `${event.name}: ${event.message}`}`;
    case 'crash':
      return `[rank ${event.rank}] ended with ${event.how}`;
    case 'failed':
      return `failed: ${event.message}`;
    default:
      return undefined;
  }
}

const STOP_ATTEMPTS = 5;

/** Stops a job and waits until it has stopped. Failing requests are retried, since the job would otherwise continue. */
export async function stopJob(
  cluster: RayCluster,
  id: string,
  { timeout = (GRACE + 30) * 1000, retryDelay = 500 } = {},
): Promise<Job> {
  const began = performance.now();
  let wasAsked = false;
  for (let failures = 0; ; ) {
    try {
      if (!wasAsked) await cluster.stop(id);
      wasAsked = true;
      const job = await cluster.job(id);
      if (isFinal(job.status)) return job;
      failures = 0;
      if (performance.now() - began > timeout)
        throw new StillRunningError(
          `the job ${id} is still ${job.status.toLowerCase()} ${timeout / 1000} s after it was asked to stop`,
        );
    } catch (e) {
      if (!(e instanceof RayError) || e instanceof StillRunningError) throw e;
      if (++failures === STOP_ATTEMPTS)
        throw new RayError(
          `the job ${id} may still be running: ${wasAsked ? 'it was asked to stop, and then ' : ''}${e.message}. ` +
            `Stop it with \`tsxla ray stop ${id} --address ${cluster.url.origin}\``,
          { cause: e },
        );
    }
    await sleep(failures ? backoff(retryDelay, failures) : 200);
  }
}
class StillRunningError extends RayError {}

/** Quotes text for the POSIX shell that runs the entry point. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
