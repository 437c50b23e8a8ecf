// A client of Ray's Jobs API, as `ray job` is. All HTTP requests go through one method; logs are followed over a websocket.
import http from 'node:http';
import https from 'node:https';
import { ArgumentError, RayError } from '../../base/errors.js';
import { bytes } from '../../base/format.js';
import { checkJson, flag, list, object, optional, type Read, type Schema, text } from '../../base/json.js';
import { parseAddress } from './address.js';
import { backoff, pause } from './patience.js';

/** The status of a job; the last three are final. */
export type JobStatus = 'PENDING' | 'RUNNING' | 'STOPPED' | 'SUCCEEDED' | 'FAILED';
export const isFinal = (status: JobStatus): boolean => ['STOPPED', 'SUCCEEDED', 'FAILED'].includes(status);

/** A job as Ray describes it. Times are in milliseconds since 1970. */
export interface Job {
  readonly submission_id: string;
  readonly status: JobStatus;
  readonly entrypoint: string;
  readonly message: string | null;
  readonly start_time: number | null;
  readonly end_time: number | null;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly driver_exit_code: number | null;
  readonly type: 'SUBMISSION' | 'DRIVER';
}

export interface JobRequest {
  readonly entrypoint: string;
  readonly submission_id?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly runtime_env?: {
    readonly working_dir?: string;
    readonly env_vars?: Readonly<Record<string, string>>;
  };
  readonly entrypoint_num_cpus?: number;
}

export interface ClusterOptions {
  /** Token of clusters with authentication. Default: RAY_AUTH_TOKEN. */
  readonly token?: string | undefined;
  /** Milliseconds that one request may take. Default: 30 000. */
  readonly timeout?: number;
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

// The fields of Ray's answers that are read.
const VERSION = object({ ray_version: optional(text) });
const JOB = object({ status: optional(text) });
const SUBMITTED = object({ submission_id: text });
const STOPPED = object({ stopped: flag });
const DELETED = object({ deleted: flag });
const LOGS = object({ logs: optional(text) });

/** An answer of more than LARGEST bytes. */
class TooLargeError extends RayError {}

/** The largest accepted answer, in bytes. Longer logs are read from the websocket, piece by piece. */
const LARGEST = 2 ** 27;
const OLDEST = [2, 60] as const; // the oldest Ray that the driver supports and is tested with

/** A Ray cluster, by the address of its dashboard: `http://host:8265`. */
export class RayCluster {
  readonly url: URL;
  readonly #token: string | undefined;
  readonly #timeout: number;

  constructor(address: string, options: ClusterOptions = {}) {
    this.url = parseAddress(address);
    this.#token = (options.token ?? process.env['RAY_AUTH_TOKEN'])?.trim();
    if (/[^\x20-\x7e]/.test(this.#token ?? ''))
      throw new ArgumentError(
        'the token of the Ray cluster (RAY_AUTH_TOKEN) has a line break or a non-ASCII character',
      );
    this.#timeout = options.timeout ?? 30_000;
  }

  /** The cluster's version of Ray. Throws if it is too old or if there is no Ray at the address. */
  async version(): Promise<string> {
    const { ray_version: version } = await this.#json(VERSION, 'GET', '/api/version');
    const [major = 0, minor = 0] = (version ?? '').split('.').map(Number);
    if (!version)
      throw new RayError(`${this.url.origin} answers without a version of Ray: check that it is Ray's dashboard`);
    if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]))
      throw new RayError(
        `the cluster at ${this.url.origin} has Ray ${version}: tsxla needs ${OLDEST.join('.')} or later`,
      );
    return version;
  }

  async submit(request: JobRequest): Promise<string> {
    const body = JSON.stringify(request);
    return (await this.#json(SUBMITTED, 'POST', '/api/jobs/', body)).submission_id;
  }

  /** The submitted jobs (without drivers that were started otherwise), newest first. */
  async jobs(): Promise<Job[]> {
    const all = (await this.#json(list(JOB), 'GET', '/api/jobs/')) as unknown as Job[];
    return all.filter((j) => j.type === 'SUBMISSION').sort((a, b) => (b.start_time ?? 0) - (a.start_time ?? 0));
  }

  async job(id: string): Promise<Job> {
    return (await this.#json(JOB, 'GET', pathOf(id), undefined, id)) as unknown as Job;
  }

  /** Asks a job to stop; false if it had ended already. It has stopped once its status is final. */
  async stop(id: string): Promise<boolean> {
    return (await this.#json(STOPPED, 'POST', pathOf(id, '/stop'), undefined, id)).stopped;
  }

  /** Deletes an ended job and its log from the cluster. */
  async delete(id: string): Promise<boolean> {
    return (await this.#json(DELETED, 'DELETE', pathOf(id), undefined, id)).deleted;
  }

  /** The output of a job so far. */
  async logs(id: string): Promise<string> {
    return (await this.#json(LOGS, 'GET', pathOf(id, '/logs'), undefined, id)).logs ?? '';
  }

  /**
   * Yields the output of a job from its beginning until the job has ended. Returns the job. Reconnects if the connection breaks:
   * Ray sends a log from its beginning each time, so output that was already yielded is skipped. Throws if the cluster does not
   * answer for `patience` milliseconds.
   */
  async *follow(id: string, options: { signal?: AbortSignal; patience?: number } = {}): AsyncGenerator<string, Job> {
    const { signal, patience = 60_000 } = options;
    const over = new AbortController();
    const either = AbortSignal.any([over.signal, ...(signal ? [signal] : [])]);
    const ended = this.#ended(id, either, patience);
    ended.then(
      () => over.abort(), // the websocket would close seconds later
      () => over.abort(),
    );
    let told = 0;
    try {
      for (let silent = 0; !either.aborted; ) {
        let seen = 0;
        for await (const text of this.#tail(id, either)) {
          const fresh = text.slice(Math.max(0, told - seen));
          seen += text.length;
          told = Math.max(told, seen);
          if (fresh) yield fresh;
        }
        silent = seen ? 0 : silent + 1;
        await pause(backoff(300, silent), either); // a connection that ends says nothing about the job
      }
      const job = await ended;
      if (!signal?.aborted) yield* this.#rest(id, told);
      return job;
    } finally {
      over.abort();
    }
  }

  /** The log of an ended job, without its first `told` characters. */
  async *#rest(id: string, told: number): AsyncGenerator<string> {
    try {
      const rest = (await this.logs(id)).slice(told);
      if (rest) yield rest;
    } catch (e) {
      if (!(e instanceof TooLargeError)) throw e;
      let seen = 0;
      for await (const text of this.#tail(id)) {
        const fresh = text.slice(Math.max(0, told - seen));
        seen += text.length;
        if (fresh) yield fresh;
      }
    }
  }

  /** Resolves with the job once its status is final. After an abort it asks one last time and returns any answer. */
  async #ended(id: string, signal: AbortSignal, patience: number): Promise<Job> {
    let answered = performance.now();
    for (let failures = 0; ; ) {
      const isLast = signal.aborted;
      try {
        const job = await this.job(id);
        if (isFinal(job.status) || signal.aborted) return job;
        [answered, failures] = [performance.now(), 0];
      } catch (e) {
        if (isLast || performance.now() - answered > patience) throw e;
        failures++;
      }
      await pause(backoff(500, failures), signal);
    }
  }

  /** The messages of one websocket, until it closes or the signal is aborted. */
  async *#tail(id: string, signal?: AbortSignal): AsyncGenerator<string> {
    const url = new URL(pathOf(id, '/logs/tail'), this.url);
    url.protocol = this.url.protocol.replace('http', 'ws');
    // Without compression: if it is offered, Ray's dashboard sends nothing.
    const { default: WebSocket } = await import('ws');
    const socket = new WebSocket(url, { perMessageDeflate: false, headers: this.#headers() });
    const texts: string[] = [];
    let [open, wake] = [true, () => {}];
    const end = () => {
      open = false;
      wake();
    };
    socket.on('message', (data) => {
      texts.push(String(data));
      wake();
    });
    socket.on('close', end);
    socket.on('error', end); // errors surface when the status of the job is requested
    signal?.addEventListener('abort', end, { once: true });
    try {
      while (texts.length || (open && !signal?.aborted)) {
        if (texts.length) yield texts.splice(0).join('');
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      signal?.removeEventListener('abort', end);
      socket.terminate();
    }
  }

  /** Whether the cluster has a package of this name. */
  async hasPackage(name: string): Promise<boolean> {
    const { status } = await this.#call('GET', `/api/packages/gcs/${encodeURIComponent(name)}`, { allow: [404] });
    return status === 200;
  }

  async putPackage(name: string, bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
    await this.#call('PUT', `/api/packages/gcs/${encodeURIComponent(name)}`, { body: bytes, signal });
  }

  #headers(): Record<string, string> {
    return this.#token ? { authorization: `Bearer ${this.#token}` } : {};
  }

  async #json<S extends Schema>(
    schema: S,
    method: string,
    path: string,
    body?: string,
    job?: string,
  ): Promise<Read<S>> {
    const { text, status } = await this.#call(method, path, { ...(body && { body }), ...(job && { allow: [404] }) });
    if (status === 404)
      throw new RayError(`there is no job ${job} at ${this.url.origin}: \`tsxla ray jobs\` lists the jobs`);
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      throw new RayError(`${this.url.origin} did not answer like Ray's dashboard: ${text.slice(0, 80).trim()}`);
    }
    const error = (message: string, options: ErrorOptions) => new RayError(message, options);
    return checkJson(value, `the answer to ${method} ${path} at ${this.url.origin}`, schema, { error });
  }

  // Not `fetch`: it sends sec-fetch-mode like a browser, and Ray rejects browser requests that change something.
  async #call(
    method: string,
    path: string,
    {
      body,
      allow = [],
      signal,
    }: { body?: string | Uint8Array; allow?: number[]; signal?: AbortSignal | undefined } = {},
  ) {
    const answer = await new Promise<Answer>((resolve, reject) => {
      const { request } = this.url.protocol === 'https:' ? https : http;
      const type = typeof body === 'string' ? { 'content-type': 'application/json' } : {};
      const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
      const headers = { ...this.#headers(), ...type, ...length };
      const options = { method, headers, timeout: this.#timeout, ...(signal && { signal }) };
      const call = request(new URL(path, this.url), options, (response) => {
        const parts: Buffer[] = [];
        let size = 0;
        response.on('data', (part: Buffer) => {
          parts.push(part);
          size += part.length;
          if (size > LARGEST)
            call.destroy(
              new TooLargeError(`${method} ${path} at ${this.url.origin}: the answer has more than ${bytes(LARGEST)}`),
            );
        });
        response.on('error', reject);
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString() }));
      });
      call.on('timeout', () => call.destroy(new Error(`no answer within ${this.#timeout / 1000} s`)));
      call.on('error', reject);
      call.end(body);
    }).catch((e: NodeJS.ErrnoException) => {
      signal?.throwIfAborted();
      if (e instanceof RayError) throw e;
      const why = whyNot(e);
      throw new RayError(
        `no Ray cluster at ${this.url.origin}: ${why}. Start one with \`ray start --head\`, or give the address of its dashboard`,
        { cause: e },
      );
    });
    const { status, text } = answer;
    if (status < 300 || allow.includes(status)) return answer;
    if (status === 401) throw new RayError(`the cluster at ${this.url.origin} requires a token: set RAY_AUTH_TOKEN`);
    if (status === 403)
      throw new RayError(
        `the cluster at ${this.url.origin} rejects the token: set RAY_AUTH_TOKEN to the cluster's token`,
      );
    throw new RayError(`${method} ${path} at ${this.url.origin}: ${status} ${text.slice(0, 600).trim()}`);
  }
}

const NOT_HTTP = 'the port is not that of a dashboard, which is 8265 by default';
/** The reason of a failed connection, for the error. */
const whyNot = ({ code = '', message }: NodeJS.ErrnoException): string =>
  code === 'ECONNREFUSED'
    ? 'nothing listens there'
    : code === 'ENOTFOUND'
      ? 'the host does not exist'
      : code.startsWith('HPE_') || code === 'ECONNRESET'
        ? NOT_HTTP
        : code.startsWith('ERR_SSL') || code === 'EPROTO'
          ? 'it does not speak https: write http://'
          : message;

/** The path of a job. Ids come from users: '..' would be another path, and '' the path of all jobs. */
function pathOf(id: string, rest = ''): string {
  if (/^\.{0,2}$/.test(id)) throw new ArgumentError(`'${id}' is not the id of a job: \`tsxla ray jobs\` lists them`);
  return `/api/jobs/${encodeURIComponent(id)}${rest}`;
}
