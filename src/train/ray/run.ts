// A run of workers on a cluster: what our driver (driver/main.py) is asked for, and what it says while it runs.
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { RayError } from '../../base/errors.js';
import { jsonOf } from '../../base/json.js';
import { linkedPackage } from './files.js';
import { isFinal, type Job, type RayCluster } from './jobs.js';
import { type PackOptions, packProject, upload } from './pack.js';
import { backoff } from './patience.js';

/** What the driver is asked for. Amounts and names as ray.train has them; a worker reads the rest in its spec. */
export interface RunRequest {
  readonly name: string;
  /** A folder that all machines see, or an address as gs://...; null: what Ray has for it. */
  readonly storage: string | null;
  /** What a worker is: ['node', 'train.js', ...], from the folder of the project. */
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
  /** What each worker reads in TSXLA_TRAIN_SPEC; the driver adds attempt, storage, checkpoint and engine. */
  readonly spec: {
    readonly run: number;
    readonly name: string;
    readonly reduce: 'none' | 'engine' | 'xla';
    readonly [more: string]: unknown;
  };
  /** Which language workers must speak (train/protocol.ts). Default: any. */
  readonly protocol?: number;
  /** How often the run was begun before. Default 0. */
  readonly attempt?: number;
}

export interface SubmitOptions {
  /** The folder that is packed and is the working folder of every worker. */
  readonly project: string;
  readonly pack?: PackOptions;
  /** The job's id. Default: one made from the run's name. */
  readonly id?: string;
  /** The Python of the cluster that has Ray. Default `python`, as it is found on the PATH of the machines. */
  readonly python?: string;
  /** Where the workers have the npm packages, if not in the project's own place. */
  readonly modules?: string;
  /** Whether workers install what they lack: npm packages by the lock file, the plugin. Otherwise that is an error. */
  readonly install?: boolean;
  /** Seconds that the cluster may take to place the workers. Default 60. */
  readonly startTimeout?: number;
  /** Whether workers are asked for the device's plugin before anything starts. Default true. */
  readonly checkPlugin?: boolean;
  /** Ends the submission: no job is left then. */
  readonly signal?: AbortSignal;
}

/** The variable through which `tsxla ray submit` tells a script how its runs are to be submitted: JSON. */
export const RAY_ENV = 'TSXLA_RAY';

/** The variable in which the driver finds the workers' environment: JSON in base64. */
export const WORKER_ENV = 'TSXLA_WORKER_ENV';

export type RunEvent =
  | { readonly type: 'log'; readonly line: string }
  | { readonly type: 'driver'; readonly pid: number; readonly ray: string }
  | {
      readonly type: 'hello';
      readonly rank: number;
      readonly attempt: number;
      /** How many reports there were before the checkpoint that it goes on from. */
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
      /** It would be the same again: no worker is started for that. */
      readonly final: boolean;
    }
  | { readonly type: 'crash'; readonly rank: number; readonly how: string }
  | { readonly type: 'failed'; readonly why: FailedWhy; readonly message: string }
  | {
      readonly type: 'result';
      readonly checkpoints: readonly { path: string; metrics: Metrics }[];
      readonly path: string;
    };
/** JSON has no NaN and no infinity: they are texts. */
type Metrics = Readonly<Record<string, number | string>>;
export type FailedWhy = 'workers' | 'resources' | 'missing' | 'controller';

const DRIVER = 'tsxla_driver'; // a folder of the packed project, which Python takes for a package
const REQUEST = 'tsxla_request.json';
const LONGEST = 2 ** 16; // Linux has 128 KiB for one argument
const LONGEST_LINE = 2 ** 24; // characters that are waited for the end of a line
const MARK = '@tsxla ';
/** Seconds that a job has to end when it is told to; then Ray kills it. Workers have all but ten of them to save. */
const GRACE = 70;

/** Uploads the project and submits a run; gives the job's id. */
export async function submitRun(cluster: RayCluster, request: RunRequest, options: SubmitOptions): Promise<string> {
  await cluster.version();
  const { project, python = 'python', install = false, startTimeout = 60, checkPlugin = true, signal } = options;
  const id = options.id ?? `tsxla-${request.name}-${Date.now().toString(36)}`;
  const full = {
    attempt: 0,
    ...request,
    env: {}, // it may have secrets: a command line is for all to see, in `ps`, in the job's log and in lists of jobs
    job: id,
    modules: options.modules ?? null,
    own_modules: path.join(project, 'node_modules'),
    install,
    check: checkPlugin ? request.device : null,
    start_timeout: startTimeout,
  };
  const text = jsonOf(full); // what earlier runs reported may be NaN
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
        // In base64: Ray would replace ${NAME} in it.
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

/** What a run says, from its beginning, until its job has ended: that is the value returned. */
export async function* watchRun(
  cluster: RayCluster,
  id: string,
  options: { signal?: AbortSignal } = {},
): AsyncGenerator<RunEvent, Job> {
  const log = cluster.follow(id, options);
  let open = ''; // a line whose end has not come
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

/** What whole lines of a log say. */
export function eventsOf(log: string): RunEvent[] {
  const lines = log.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines.map((line) => {
    const event = line.startsWith(MARK) ? eventIn(line.slice(MARK.length)) : undefined;
    return event ?? { type: 'log', line };
  });
}
/** A driver that is killed may leave half a line, and another program may print our mark. */
function eventIn(text: string): RunEvent | undefined {
  try {
    const event = JSON.parse(text) as RunEvent | null;
    return typeof event?.type === 'string' ? event : undefined;
  } catch {
    return undefined;
  }
}

/** An event as a line for people; undefined for what is of no interest to them. */
export function showEvent(event: RunEvent): string | undefined {
  switch (event.type) {
    case 'log':
      return / -- Runtime env is setting up|^Running entrypoint for job /.test(event.line) ? undefined : event.line;
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

/** Stops a job and waits until it has. A dashboard that fails is asked a few times: a job that is not stopped goes on. */
export async function stopJob(
  cluster: RayCluster,
  id: string,
  { timeout = (GRACE + 30) * 1000, retryDelay = 500 } = {},
): Promise<Job> {
  const began = performance.now();
  let isTold = false;
  for (let failures = 0; ; ) {
    try {
      if (!isTold) await cluster.stop(id);
      isTold = true;
      const job = await cluster.job(id);
      if (isFinal(job.status)) return job;
      failures = 0;
      if (performance.now() - began > timeout)
        throw new StillRunningError(
          `the job ${id} is still ${job.status.toLowerCase()}, ${timeout / 1000} s after it was told to stop`,
        );
    } catch (e) {
      if (!(e instanceof RayError) || e instanceof StillRunningError) throw e;
      if (++failures === STOP_ATTEMPTS)
        throw new RayError(
          `the job ${id} may still be running: ${isTold ? 'it was told to stop, and then ' : ''}${e.message}. ` +
            `Stop it with \`tsxla ray stop ${id} --address ${cluster.url.origin}\``,
          { cause: e },
        );
    }
    await sleep(failures ? backoff(retryDelay, failures) : 200);
  }
}
class StillRunningError extends RayError {}

/** For a POSIX shell, which is what runs an entry point. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
