// A real Ray cluster on this machine: two nodes (raylets), started and stopped by the test that needs one. Its nodes say that they
// are the two hosts of a TPU slice, v4 2x2x2, the second machine first; Ray does not check this.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { RayCluster } from 'tsxla/ray';
import { pythonWith } from '../../../scripts/python.js';

const root = path.join(import.meta.dirname, '../../..');
/** Ray, in an environment of its own. */
let venv: string;
const MARK = 'TSXLA_TEST_CLUSTER';
export const TOKEN = 'a-token-that-is-hard-to-guess';

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as net.AddressInfo;
      server.close(() => resolve(port));
    });
  });

export const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
export async function until<T>(what: string, test: () => T | Promise<T>, seconds = 600): Promise<NonNullable<T>> {
  for (const end = Date.now() + seconds * 1000; ; await pause(100)) {
    const found = await test();
    if (found) return found;
    if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s`);
  }
}

export interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
  readonly env: string;
}
/** The processes of this machine that are ours to look at. */
function processes(): Process[] {
  return fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const [command, env] = ['cmdline', 'environ'].map((file) => fs.readFileSync(`/proc/${name}/${file}`, 'utf8'));
        const stat = fs.readFileSync(`/proc/${name}/stat`, 'utf8');
        const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
        return [{ pid: Number(name), parent, command: command!.replaceAll('\0', ' ').trim(), env: env! }];
      } catch {
        return []; // it has ended meanwhile
      }
    });
}

/** Ray's answer to a question for what it has. */
interface Listed {
  readonly data: {
    readonly result: {
      readonly result: readonly {
        readonly state: string;
        readonly bundles: readonly { readonly unit_resources: Record<string, number> }[];
      }[];
    };
  };
}

export class TestCluster {
  readonly folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-ray-'));
  address = '';
  #gcs = 0;
  #nodes: ChildProcess[] = [];

  static async start(): Promise<TestCluster> {
    venv = pythonWith('ray', path.join(root, 'test/slow/ray-requirements.txt'));
    const cluster = new TestCluster();
    const [gcs, dashboard] = [await freePort(), await freePort()];
    cluster.#gcs = gcs;
    cluster.address = `http://127.0.0.1:${dashboard}`;
    const head = ['--head', `--port=${gcs}`, `--dashboard-port=${dashboard}`, `--temp-dir=${cluster.folder}`];
    await cluster.#start([...head, `--ray-client-server-port=${await freePort()}`], 1);
    await until('the dashboard', () =>
      cluster
        .client()
        .version()
        .catch(() => undefined),
    );
    await cluster.addNode();
    return cluster;
  }

  client(options = { token: TOKEN }): RayCluster {
    return new RayCluster(this.address, options);
  }

  /** The second node. */
  async addNode(): Promise<void> {
    const before = this.#raylets().length;
    await this.#start([`--address=127.0.0.1:${this.#gcs}`], 0);
    await until('the second node', () => this.#raylets().length > before);
  }

  async #start(args: string[], worker: 0 | 1): Promise<void> {
    const resources = { TPU: 4, ...(worker === 0 && { 'TPU-v4-16-head': 1 }) };
    const common = ['--num-cpus=2', '--disable-usage-stats', '--block', `--resources=${JSON.stringify(resources)}`];
    const env = {
      ...process.env,
      PATH: `${path.join(venv, 'bin')}:${process.env['PATH']}`,
      [MARK]: this.folder,
      RAY_AUTH_MODE: 'token',
      RAY_AUTH_TOKEN: TOKEN,
      TPU_NAME: 'slice-a',
      TPU_WORKER_ID: String(worker),
      TPU_ACCELERATOR_TYPE: 'v4-16',
      TPU_TOPOLOGY: '2x2x2',
    };
    const all = ['start', ...args, `--dashboard-agent-listen-port=${await freePort()}`, ...common];
    const log = fs.openSync(path.join(this.folder, `node-${this.#nodes.length}.log`), 'w');
    this.#nodes.push(spawn(path.join(venv, 'bin/ray'), all, { env, stdio: ['ignore', log, log] }));
    fs.closeSync(log);
  }

  /** The placement groups that are there: what each of their parts has. */
  async groups(): Promise<Record<string, number>[][]> {
    const url = `${this.address}/api/v0/placement_groups?detail=true`;
    const { data } = (await (await fetch(url, { headers: { authorization: `Bearer ${TOKEN}` } })).json()) as Listed;
    return data.result.result
      .filter(({ state }) => state !== 'REMOVED')
      .map(({ bundles }) => bundles.map((bundle) => bundle.unit_resources));
  }

  /** What the cluster has started: its nodes' descendants, and what has left them but inherited a variable of theirs. */
  processes(command = ''): Process[] {
    const all = processes();
    const own = new Set(all.filter((p) => p.env.includes(`${MARK}=${this.folder}\0`)));
    for (const { pid } of own) for (const p of all) if (p.parent === pid) own.add(p); // a Set grows while it is walked
    return [...own].filter((p) => p.command.includes(command));
  }

  #raylets = () => this.processes('raylet/raylet ');

  /** kill -9 of the second node's raylet. */
  async killRaylet(): Promise<void> {
    const node = this.#nodes.pop()!;
    const ended = new Promise((resolve) => node.once('exit', resolve));
    const isOwn = (p: Process): boolean =>
      p.parent === node.pid || this.processes().some((q) => q.pid === p.parent && isOwn(q));
    for (const raylet of this.#raylets()) if (isOwn(raylet)) process.kill(raylet.pid, 'SIGKILL');
    await ended; // `ray start --block` ends what is left of its node
  }

  /** Ends all nodes: they are told, and have a moment for it. */
  async stop(): Promise<void> {
    const pids = new Set(this.processes().map((p) => p.pid)); // Ray's have no parent any more, once their node has ended
    for (const node of this.#nodes) node.kill('SIGTERM');
    const left = () => processes().filter((p) => pids.has(p.pid) && p.command);
    await until('the end of all processes', () => !left().length, 3).catch(() => {});
    for (const { pid } of left())
      try {
        process.kill(pid, 'SIGKILL');
      } catch {} // ended meanwhile
    await until('the end of all processes', () => !left().length);
    fs.rmSync(this.folder, { recursive: true, force: true });
  }
}
