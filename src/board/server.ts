// The board's server: one page and one stream of changes, for this machine only. Requests need the token of the link, a Host that
// names this machine (against DNS rebinding), and must not come from a page of another origin.
import { randomBytes, timingSafeEqual } from 'node:crypto';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { ArgumentError } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import type { Change } from './data.js';
import { boardPage } from './page.js';
import { Runs } from './runs.js';

export interface BoardOptions {
  /** The port. Default: 6070, or a free one if that is taken. */
  readonly port?: number;
  /** Milliseconds between two reads of the files. Default: 500. */
  readonly interval?: number;
}
export interface Board extends AsyncDisposable {
  /** The link, including the token. */
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

const PORT = 6070;
const LOOK = 5000; // milliseconds between two searches for new runs
const BEAT = 15_000; // milliseconds between writes, which detect readers that have left

/** Serves the runs in these folders, also new ones, until it is closed. */
export async function serveBoard(folders: readonly string[], options: BoardOptions = {}): Promise<Board> {
  const { port, interval = 500 } = options;
  const token = randomBytes(24).toString('base64url');
  const feed = new Feed(new Runs(folders), interval);
  const { html, policy } = boardPage({ live: true });
  const server = http.createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const refused = reasonToRefuse(request, url, token);
    const headers = { ...HEADERS, 'content-security-policy': policy };
    if (refused) response.writeHead(refused, HEADERS).end();
    else if (url.pathname === '/events') feed.add(request, response);
    else if (url.pathname !== '/') response.writeHead(404, HEADERS).end();
    else response.writeHead(200, { ...headers, 'content-type': 'text/html; charset=utf-8' }).end(html);
  });
  await listen(server, port ?? PORT).catch((e: NodeJS.ErrnoException) => {
    if (port === undefined && e.code === 'EADDRINUSE') return listen(server, 0);
    throw new ArgumentError(`--port ${port ?? PORT}: ${messageOf(e)}`, { cause: e });
  });
  const bound = (server.address() as AddressInfo).port;
  const close = async () => {
    await feed.close();
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  };
  return { url: `http://127.0.0.1:${bound}/?token=${token}`, port: bound, close, [Symbol.asyncDispose]: close };
}

const listen = (server: http.Server, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });

const HEADERS = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};
/** Host names of this machine, with any port, because tunnels may use another one. */
const HERE = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/;

function reasonToRefuse({ method, headers }: http.IncomingMessage, url: URL, token: string): number | undefined {
  const { host = '', origin } = headers;
  const site = headers['sec-fetch-site'];
  if (!HERE.test(host)) return 403;
  if (origin !== undefined && origin !== `http://${host}`) return 403;
  if (site !== undefined && site !== 'same-origin' && site !== 'none' && url.pathname !== '/') return 403;
  const given = Buffer.from(url.searchParams.get('token') ?? '');
  if (given.length !== token.length || !timingSafeEqual(given, Buffer.from(token))) return 403;
  return method === 'GET' ? undefined : 405;
}

// ---- the stream

type Place = { readonly epoch: number; readonly count: number };
interface Reader {
  readonly response: http.ServerResponse;
  /** Its position in each run. */
  readonly places: Map<string, Place>;
}

/** Reads files while there are readers, and sends each reader its missing changes. */
class Feed {
  /** Positions from another server are invalid here. */
  readonly #id = randomBytes(6).toString('hex');
  readonly #readers = new Set<Reader>();
  #timer: NodeJS.Timeout | undefined;
  #looked = Number.NEGATIVE_INFINITY;
  #beat = performance.now();
  #polling: Promise<void> | undefined;
  #closed = false;

  constructor(
    readonly runs: Runs,
    readonly interval: number,
  ) {}

  add(request: http.IncomingMessage, response: http.ServerResponse): void {
    response.writeHead(200, { ...HEADERS, 'content-type': 'text/event-stream' });
    response.write('retry: 1000\n\n');
    const reader: Reader = { response, places: this.#placesIn(String(request.headers['last-event-id'] ?? '')) };
    this.#readers.add(reader);
    response.on('close', () => this.#readers.delete(reader));
    this.#start();
  }
  #start(): void {
    if (this.#polling || this.#closed) return;
    clearTimeout(this.#timer);
    this.#polling = this.#look().finally(() => {
      this.#polling = undefined;
      if (!this.#readers.size || this.#closed) return;
      this.#timer = setTimeout(() => this.#start(), this.interval);
      this.#timer.unref();
    });
  }
  async #look(): Promise<void> {
    const now = performance.now();
    if (now - this.#looked > LOOK) {
      this.#looked = now;
      await this.runs.find();
    }
    await this.runs.poll();
    const beats = now - this.#beat > BEAT;
    if (beats) this.#beat = now;
    for (const reader of this.#readers) this.#send(reader, beats);
  }
  #send({ response, places }: Reader, beats: boolean): void {
    if (response.writableNeedDrain) return; // a slow reader gets more once it has read
    const isFirst = !places.has('');
    const changes: Change[] = this.runs.all.flatMap((run) => {
      const place = places.get(run.id);
      if (place?.epoch === run.epoch && place.count === run.count) return [];
      places.set(run.id, { epoch: run.epoch, count: run.count });
      return run.changesSince(place);
    });
    places.set('', { epoch: 0, count: 0 });
    if (changes.length || isFirst)
      response.write(`id: ${this.#idOf(places)}\ndata: ${JSON.stringify(changes)}\n\n`); // JSON has no line breaks
    else if (beats) response.write(': here\n\n');
  }

  #idOf(places: ReadonlyMap<string, Place>): string {
    const parts = [...places].filter(([run]) => run).map(([run, { epoch, count }]) => `${run}.${epoch}.${count}`);
    return [this.#id, ...parts].join(',');
  }
  #placesIn(id: string): Map<string, Place> {
    const [server, ...parts] = id.split(',');
    if (server !== this.#id) return new Map();
    return new Map(
      parts.flatMap((part) => {
        const [run, epoch, count] = part.split('.');
        const place = { epoch: Number(epoch), count: Number(count) };
        return run && Number.isSafeInteger(place.epoch) && Number.isSafeInteger(place.count) ? [[run, place]] : [];
      }),
    );
  }

  /** Sends the last lines to all readers, and ends the streams. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#polling;
    this.#looked = Number.NEGATIVE_INFINITY; // so that the newest runs are included
    if (this.#readers.size) await this.#look().catch(() => {});
    for (const { response } of this.#readers) response.end('event: end\ndata: {}\n\n');
    this.#readers.clear();
  }
}
