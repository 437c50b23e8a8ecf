// Training on a real Ray cluster: two nodes on this machine, started and stopped here.
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import * as tx from 'tsxla';
import { type RunEvent, submitRun, watchRun } from 'tsxla/ray';
import { TorchTrainer } from 'tsxla/train';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { linesOf, writeStudentAndCache } from '../recovery/support.js';
import { times } from '../repeat.js';
import { type Process, pause, TestCluster, TOKEN, until } from '../train/ray/cluster.js';

const root = path.join(import.meta.dirname, '../..');
const main = path.join(root, 'dist/cli/main.js');
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-ray-test-'));
const project = path.join(scratch, 'project');
const storage = path.join(scratch, 'runs');
const temporary = () => fs.readdirSync(os.tmpdir()).filter((name) => name.startsWith('tsxla-worker-'));
const before = new Set(temporary());
let cluster: TestCluster;

beforeAll(async () => {
  fs.cpSync(path.join(root, 'test/train/ray/project'), project, { recursive: true });
  fs.mkdirSync(path.join(project, 'node_modules'));
  fs.symlinkSync(root, path.join(project, 'node_modules/tsxla'));
  cluster = await TestCluster.start();
}, 600_000);
afterAll(async () => {
  for (const child of started) child.kill('SIGKILL');
  await cluster.stop();
  fs.rmSync(scratch, { recursive: true });
}, 600_000);

const started: ChildProcess[] = [];
/** A program that was started: what it printed, and its end. */
class Program {
  output = '';
  readonly child: ChildProcess;
  readonly ended: Promise<number | NodeJS.Signals | null>;
  constructor(args: string[], env: Record<string, string> = {}) {
    const own = { ...process.env, RAY_ADDRESS: cluster.address, RAY_AUTH_TOKEN: TOKEN, STORAGE: storage };
    this.child = spawn(process.execPath, args, { cwd: project, env: { ...own, ...env } });
    started.push(this.child);
    for (const stream of [this.child.stdout!, this.child.stderr!]) stream.on('data', (data) => (this.output += data));
    this.ended = new Promise((resolve) => this.child.once('exit', (code, signal) => resolve(code ?? signal)));
  }
  says(text: string): Promise<boolean> {
    return until(text, () => {
      const found = this.output.includes(text);
      if (found || this.child.exitCode === null) return found;
      throw new Error(`it ended before it said ${text}:\n${this.output}`);
    });
  }
}
interface Trained {
  readonly began: number;
  readonly history: readonly { step: number; loss: number }[];
  readonly path: string;
  readonly checkpoint: string;
}
async function trained(program: Program): Promise<Trained> {
  const code = await program.ended;
  if (code !== 0) throw new Error(`it ended with ${code}:\n${program.output}`);
  return JSON.parse(program.output.trim().split('\n').at(-1)!);
}
const train = (...args: (string | number)[]) => new Program(['train.js', ...args.map(String)]);
const losses = ({ history }: Trained) => history.map((m) => m.loss);

/** The node processes that are workers, Ray's processes that have them, and the job's driver. */
const workers = () =>
  cluster.processes('node ').filter((p) => /^node (dist\/)?(train|environment|early)\.js/.test(p.command));
const rayWorkers = () => cluster.processes('ray::RayTrainWorker');
const driver = () => cluster.processes('tsxla_driver.main {').find((p) => p.command.startsWith('python '));
const checkpoints = (name: string): number =>
  fs.existsSync(path.join(storage, name))
    ? fs.readdirSync(path.join(storage, name)).filter((f) => /^checkpoint_\d/.test(f)).length
    : 0;
/** What a run must not leave on a cluster. */
async function expectNothingLeft(): Promise<void> {
  await until('the end of all workers', () => !workers().length && !driver());
  await until('no temporary folder', () => temporary().every((name) => before.has(name)));
  await until('no placement group', async () => !(await cluster.groups()).length);
  expect(cluster.processes('tsxla_driver')).toEqual([]);
}

const KILLS = times(4, 10);
/** A run of two workers that nothing happens to. */
const STEPS = 90;
let calm: Program | undefined;
const undisturbed = () => trained((calm ??= train(STEPS, 'calm')));

test('two CPU workers give the loss curve of one', async () => {
  const alone = { RAY_ADDRESS: '', TSXLA_TRAIN_WORKERS: '1' };
  // First without the cluster: a node that has just started takes no jobs yet.
  const one = await trained(new Program(['train.js', String(STEPS), 'one'], alone));
  const two = await undisturbed();
  expect(calm!.output).toContain('gradients are averaged by ray.util.collective with gloo');
  expect(calm!.output).toMatch(/\[rank 0\] first step at/);
  expect(calm!.output).toMatch(/\[rank 1\] first step at/);
  const first = Number(calm!.output.match(/\[rank 0\] first step at (\d+)/)![1]);
  const reports = [...calm!.output.matchAll(/reporting took ([\d.]+) ms/g)].map((m) => Number(m[1]));
  console.log(`first step after ${(first - two.began) / 1000} s; a report took at least ${Math.min(...reports)} ms`);
  expect(losses(one)).toHaveLength(STEPS);
  for (const [i, loss] of losses(two).entries()) expect(Math.abs(loss - losses(one)[i]!)).toBeLessThan(1e-4);
  expect(checkpoints('calm')).toBe(STEPS / 3);
  expect(two.checkpoint.startsWith(path.join(storage, 'calm'))).toBe(true);
  await expectNothingLeft();
});

test(`workers and nodes killed ${KILLS} times: the run ends with the loss of an undisturbed one`, async () => {
  const random = generator(11);
  const program = train(STEPS, 'killed', 100, -1);
  let group: Process[] = [];
  for (let kill = 0; kill < KILLS; kill++) {
    const known = new Set(group.map((p) => p.pid));
    const fresh = () => rayWorkers().filter((p) => !known.has(p.pid));
    group = await until('two new workers', () => (fresh().length === 2 ? fresh() : undefined));
    const kept = checkpoints('killed');
    if (kill % 2) await until('a checkpoint', () => checkpoints('killed') > kept);
    await pause(random() * (kill % 2 ? 1000 : 5000)); // every other time anywhere in their start
    const victims = workers().length === 2 && random() < 0.7 ? workers() : group;
    if (kill % 3 === 2) {
      await cluster.killRaylet();
      await cluster.addNode();
    } else
      try {
        process.kill(victims[random() < 0.5 ? 0 : 1]!.pid, 'SIGKILL');
      } catch {} // it has ended by itself: what was killed before took it along
    await until('the end of that group', () => group.some((p) => !rayWorkers().some((w) => w.pid === p.pid)));
  }
  const result = await trained(program);
  expect(result.history.map((m) => m.step)).toEqual(Array.from({ length: STEPS }, (_, i) => i + 1));
  expect(losses(result)).toEqual(losses(await undisturbed()));
  await expectNothingLeft();
});

/** Python runs it when it starts: then torch is not to be found. */
const WITHOUT_TORCH = `from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name == 'torch' else find(name, *more)
`;

test('a compiled script that git ignores, and workers without torch: the same numbers', async () => {
  const compiled = path.join(scratch, 'compiled');
  fs.cpSync(project, compiled, { recursive: true, verbatimSymlinks: true });
  fs.mkdirSync(path.join(compiled, 'dist'));
  fs.renameSync(path.join(compiled, 'train.js'), path.join(compiled, 'dist/train.js'));
  fs.writeFileSync(path.join(compiled, '.gitignore'), 'dist\n');
  execFileSync('git', ['init', '-q'], { cwd: compiled });
  fs.writeFileSync(path.join(compiled, 'sitecustomize.py'), WITHOUT_TORCH);
  const program = new Program([path.join(compiled, 'dist/train.js'), '9', 'compiled']);
  expect(losses(await trained(program))).toEqual(losses(await undisturbed()).slice(0, 9));
  expect(program.output).toContain('gradients are averaged by a Ray actor');
});

test('`tsxla ray submit` works from a clone of this repository, whose dist is ignored', async () => {
  const clone = path.join(scratch, 'clone');
  execFileSync('git', ['clone', '--quiet', root, clone]);
  fs.cpSync(path.join(root, 'dist'), path.join(clone, 'dist'), { recursive: true });
  fs.symlinkSync(path.join(root, 'node_modules'), path.join(clone, 'node_modules'));
  fs.copyFileSync(path.join(project, 'train.js'), path.join(clone, 'train.js'));
  fs.writeFileSync(path.join(clone, '.env'), 'KEY=fake');
  const submit = ['dist/cli/main.js', 'ray', 'submit', 'train.js', '--', '9', 'clone'].map((arg, i) =>
    i === 0 || i === 3 ? path.join(clone, arg) : arg,
  );
  const program = new Program(submit);
  expect(losses(await trained(program))).toEqual(losses(await undisturbed()).slice(0, 9));
  expect(program.output).toMatch(/^tsxla: uploading \d+ files, [\d.]+ MiB to /m);
  expect(program.output).toMatch(/^tsxla: not uploaded: 1 untracked file with credentials: \.env\./m);
});

test('recovery by two workers of the cluster: the losses of one process', async () => {
  const text = path.join(project, 'train.txt');
  fs.writeFileSync(text, linesOf(40).join('\n\n'));
  const sizes = { sequenceLength: 16, topK: 5, negatives: 4, sequences: 24 };
  await writeStudentAndCache(path.join(project, 'student'), path.join(project, 'cache'), text, sizes);
  const command = [
    'node_modules/tsxla/dist/cli/main.js',
    'train-recovery-lora',
    '--model',
    'student',
    '--recovery-r',
    '2',
  ];
  const recover = (output: string, ...args: string[]) =>
    new Program([...command, '--output', output, '--max-steps', '8', '--log-interval', '1', '--lr', '1e-2', ...args]);
  const lossesIn = (output: string): number[] =>
    fs
      .readFileSync(path.join(project, output, 'metrics.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).loss);
  const alone = recover('alone', '--kd-cache-dir', 'cache');
  expect(await alone.ended, alone.output).toBe(0);
  const both = recover('both', '--kd-cache-dir', 'cache', '--workers', '2', '--ray', cluster.address);
  expect(await both.ended, both.output).toBe(0);
  expect(both.output).toMatch(/steps +8\n +loss +\d/);
  expect(lossesIn('both')).toHaveLength(8);
  lossesIn('alone').forEach((loss, i) => void expect(lossesIn('both')[i]).toBeCloseTo(loss, 5));
});

test.each([
  [
    'leaves',
    'the run early failed: worker 1: WorkerError: it waits for worker 0, whose loop has ended: all workers must take',
  ],
  [
    'sums',
    'worker 0 is at averageMetrics of 32 numbers, and worker 1 at averageMetrics of 48 numbers: all workers must make the same calls',
  ],
  [
    'meets',
    'worker 0 is at barrier, and worker 1 at averageMetrics of 32 numbers: all workers must make the same calls',
  ],
])('workers that do not do the same, as one that %s: a mistake, which is said and not made again', async (how, why) => {
  const withoutTorch = how === 'meets';
  if (withoutTorch) fs.writeFileSync(path.join(project, 'sitecustomize.py'), WITHOUT_TORCH);
  const program = new Program(['early.js', how]);
  expect(await program.ended).toBe(1);
  fs.rmSync(path.join(project, 'sitecustomize.py'), { force: true });
  expect(program.output).toContain('the run early failed: worker ');
  expect(program.output).toContain(why);
  if (how !== 'leaves')
    expect(program.output).toContain(withoutTorch ? 'averaged by a Ray actor' : 'ray.util.collective with gloo');
  await expectNothingLeft();
});

test('the driver killed: the run is submitted again and continues, or reports that it may not', async () => {
  const program = train(9, 'driver', 400, 1);
  await until('a checkpoint', () => fs.existsSync(path.join(storage, 'driver/checkpoint_manager_snapshot.json')));
  process.kill(driver()!.pid, 'SIGKILL');
  expect(losses(await trained(program))).toEqual(losses(await undisturbed()).slice(0, 9));
  expect(program.output).toContain('Submitting it again');

  const once = train(9, 'once', 400);
  await until('a checkpoint', () => fs.existsSync(path.join(storage, 'once/checkpoint_manager_snapshot.json')));
  process.kill(driver()!.pid, 'SIGKILL');
  expect(await once.ended).toBe(1);
  expect(once.output).toMatch(
    /TrainingFailedError: the run once failed: the driver of the job \S+ died: Job entrypoint command failed with exit code 137; .* resumes from the last checkpoint in \S+\/once/s,
  );
  await expectNothingLeft();
});

test('Ctrl-C and `tsxla ray stop`: workers save, and nothing is left', async () => {
  const program = train(1000, 'interrupted', 50);
  await program.says('first step at');
  program.child.kill('SIGINT');
  expect(await program.ended).toBe('SIGINT');
  expect(program.output).toMatch(/stopping the job \S+; its workers may save first/);
  await expectNothingLeft();

  const saves = path.join(scratch, 'saves');
  const detach = [main, 'ray', 'submit', 'train.js', '--detach', '--', '1000', 'detached', '50'];
  const detached = new Program(detach, { SAVES: saves });
  expect(await detached.ended).toBe(0);
  const [, id] = detached.output.match(/is the job (\S+); it continues without this program/)!;
  const follow = new Program([main, 'ray', 'logs', '--follow', id!]);
  await follow.says('[rank 1] first step at');
  const listed = new Program([main, 'ray', 'jobs']);
  await listed.ended;
  expect(listed.output).toMatch(new RegExp(`${id} +RUNNING +2 workers`));
  const stop = new Program([main, 'ray', 'stop', id!]);
  expect([await stop.ended, stop.output]).toEqual([0, `${id} has ended: stopped\n`]);
  expect(await follow.ended).toBe(1);
  expect(follow.output).toContain(`error: the job ${id} has stopped`);
  // A worker that is a step behind the other saves for it, and the other has nothing to go on with.
  const [said, rank] = follow.output.match(/\[rank (\d)\] .*SIGTERM: saved the checkpoint of step \d+ in \S+/) ?? [];
  const kept = await new tx.io.CheckpointManager(`${saves}/${rank}`).load({});
  expect(said).toContain(`step ${kept?.values['step']} in`);
  await expectNothingLeft();
});

test('the program of docs/ray.md runs, with the command it shows, and its result is there for others', async () => {
  const [, program] = fs
    .readFileSync(path.join(root, 'docs/ray.md'), 'utf8')
    .match(/```ts\n(\/\/ train\.ts\n.*?)```/s)!;
  fs.writeFileSync(path.join(project, 'train.ts'), program!);
  fs.symlinkSync(path.join(root, 'node_modules/tsx'), path.join(project, 'node_modules/tsx'));
  const submit = new Program([main, 'ray', 'submit', 'train.ts', '--workers', '2', '--address', cluster.address]);
  expect([await submit.ended, submit.output]).toEqual([
    0,
    expect.stringMatching(/\{ step: 20, loss: [\d.e-]+ \} \S+\/first\/checkpoint_/),
  ]);
  const [, id] = submit.output.match(/is the job (\S+)/)!;
  const { metrics, history, checkpoints } = await TorchTrainer.attach(cluster.address, id!, { token: TOKEN });
  expect([metrics?.['step'], history.length, checkpoints.length]).toEqual([20, 20, 4]);
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [
      'node_modules/typescript-7/bin/tsc',
      '--ignoreConfig',
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      '--module',
      'nodenext',
      '--target',
      'es2023',
      '--types',
      'node',
      '--typeRoots',
      path.join(root, 'node_modules/@types'),
      path.join(project, 'train.ts'),
    ],
    { cwd: root },
  ).catch((e: { stdout: string }) => e);
  expect(stdout).toBe('');
});

const ENVIRONMENT = { command: ['node', 'environment.js'], env: {}, max_failures: 0, checkpoints: {} };
const REQUEST = { ...ENVIRONMENT, storage, spec: { run: 0, name: 'slice', reduce: 'xla' } } as const;
async function eventsOf(id: string): Promise<RunEvent[]> {
  const events: RunEvent[] = [];
  for await (const event of watchRun(cluster.client(), id)) events.push(event);
  return events;
}

test("a TPU slice is reserved by Ray's own facility, and ranks follow the slice's order", async () => {
  const stay = path.join(scratch, 'looked-at'); // workers stay until it is there
  const slice = { use_tpu: true, topology: '2x2x2', accelerator_type: 'TPU-V4', resources_per_worker: { TPU: 4 } };
  const request = {
    ...REQUEST,
    name: 'slice',
    device: 'tpu',
    scaling: { num_workers: 2, ...slice },
    env: { STAY: stay },
  } as const;
  const id = await submitRun(cluster.client(), request, { project, checkPlugin: false });
  await until('both workers', () => workers().length === 2);
  const groups = await cluster.groups();
  // The slice's head is reserved first, which keeps others from parts of the slice; then a bundle for each machine.
  expect(groups).toContainEqual([{ 'TPU-v4-16-head': 1 }]);
  expect(groups).toContainEqual([expect.objectContaining({ TPU: 4 }), expect.objectContaining({ TPU: 4 })]);
  fs.writeFileSync(stay, '');

  const said = (await eventsOf(id)).flatMap((e) =>
    e.type === 'log' ? [e.line.match(/^\[rank (\d)\] environment (.*)$/)] : [],
  );
  const env = said
    .filter((m) => m !== null)
    .sort((a, b) => Number(a[1]) - Number(b[1]))
    .map((m) => JSON.parse(m[2]!));
  expect(env).toHaveLength(2);
  const [host] = env[0].TPU_WORKER_HOSTNAMES.split(',');
  for (const [rank, found] of env.entries())
    expect(found).toMatchObject({
      RANK: String(rank),
      WORLD_SIZE: '2',
      LOCAL_RANK: '0',
      LOCAL_WORLD_SIZE: '1',
      NODE_RANK: String(rank),
      MASTER_ADDR: host,
      MASTER_PORT: expect.stringMatching(/^\d+$/),
      PJRT_DEVICE: 'TPU',
      XLA_USE_SPMD: '1',
      TPU_NAME: 'slice-a',
      TPU_WORKER_ID: String(rank), // the cluster's second node is the slice's first machine
      TPU_WORKER_HOSTNAMES: `${host},${host}`,
      TPU_ACCELERATOR_TYPE: 'v4-16',
      TPU_TOPOLOGY: '2x2x2',
      TPU_VISIBLE_CHIPS: '0,1,2,3',
      TSXLA_TRAIN_SPEC: expect.stringContaining('spec.json'),
    });
  expect(env[0].MASTER_PORT).toBe(env[1].MASTER_PORT);
  expect(env[0].TSXLA_RENDEZVOUS_TOKEN).toMatch(/^[0-9a-f]{32}$/);
  expect(env[1].TSXLA_RENDEZVOUS_TOKEN).toBe(env[0].TSXLA_RENDEZVOUS_TOKEN);
  expect([env[0].STAY, env[0].TSXLA_WORKER_ENV]).toEqual([stay, undefined]);
  await expectNothingLeft();
});

test('a request that the cluster cannot satisfy is refused, with what was wanted, what there is, and what is free', async () => {
  const request = { ...REQUEST, name: 'gpus', device: 'cuda', scaling: { num_workers: 2, use_gpu: true } } as const;
  const events = await eventsOf(await submitRun(cluster.client(), request, { project, startTimeout: 4 }));
  const failed = events.find((e) => e.type === 'failed');
  expect(failed).toMatchObject({
    why: 'resources',
    message: expect.stringMatching(/within 4 s: requested 2 x \(GPU 1\); the cluster has CPU 4, .*; free: CPU 4, /),
  });
  await expectNothingLeft();
});

test('a storage that cannot be written, and one with a run of another engine, are said', async () => {
  const whyNot = async (kept: string) => {
    const at = { ...REQUEST, name: 'kept', storage: kept, device: 'cpu', scaling: { num_workers: 1 } } as const;
    const events = await eventsOf(await submitRun(cluster.client(), at, { project }));
    return events.find((e) => e.type === 'failed');
  };
  expect(await whyNot('/proc/runs')).toMatchObject({
    why: 'controller',
    message: '/proc/runs cannot keep checkpoints: No such file or directory: choose another storagePath or name',
  });
  fs.mkdirSync(path.join(scratch, 'local/kept/checkpoint-000001'), { recursive: true });
  expect(await whyNot(path.join(scratch, 'local'))).toMatchObject({
    message: expect.stringContaining('kept has checkpoints of a run without Ray, which have another format'),
  });
});

test('what workers lack is said before anything starts', async () => {
  const bare = path.join(scratch, 'bare');
  fs.mkdirSync(bare);
  for (const name of ['package.json', 'environment.js'])
    fs.copyFileSync(path.join(project, name), path.join(bare, name));
  const request = { ...REQUEST, name: 'bare', device: 'cpu', scaling: { num_workers: 1 } } as const;
  const events = await eventsOf(await submitRun(cluster.client(), request, { project: bare }));
  expect(events.find((e) => e.type === 'failed')).toMatchObject({
    why: 'missing',
    message: expect.stringMatching(/^\S+: the package tsxla is not found \(Cannot find package 'tsxla'/),
  });
  expect(events.some((e) => e.type === 'hello')).toBe(false);
});

test('with install: true workers install what the lock file says, once a machine', async () => {
  const [bare, cache] = [path.join(scratch, 'installed'), path.join(scratch, 'cache')];
  fs.mkdirSync(bare);
  const npm = (args: string[], cwd: string) =>
    execFileSync('npm', [...args, '--ignore-scripts'], { cwd, encoding: 'utf8', stdio: 'pipe' });
  const packed = npm(['pack', '--pack-destination', bare], root).trim().split('\n').at(-1)!;
  fs.writeFileSync(
    path.join(bare, 'package.json'),
    JSON.stringify({ type: 'module', dependencies: { tsxla: `file:${packed}` } }),
  );
  npm(['install', '--package-lock-only', '--no-audit', '--no-fund'], bare);
  fs.copyFileSync(path.join(project, 'environment.js'), path.join(bare, 'environment.js'));
  const plugin = execFileSync(process.execPath, [main, 'plugins', 'path', 'cpu'], { encoding: 'utf8' }).trim();
  const env = { TSXLA_CACHE_DIR: cache, TSXLA_PLUGIN_CPU: plugin };
  const request = { ...REQUEST, name: 'installed', device: 'cpu', scaling: { num_workers: 2 }, env } as const;
  const events = await eventsOf(await submitRun(cluster.client(), request, { project: bare, install: true }));
  expect(
    events
      .filter((e) => e.type !== 'log')
      .map((e) => e.type)
      .sort(),
  ).toEqual(['driver', 'hello', 'hello', 'result']);
  const [folder, ...others] = fs.readdirSync(path.join(cache, 'ray')).filter((name) => !name.endsWith('.lock'));
  expect(others).toEqual([]);
  expect(fs.existsSync(path.join(cache, 'ray', folder!, 'node_modules/tsxla/package.json'))).toBe(true);
});

test('with install: true workers get the package of a tsxla that the project links to', async () => {
  const [linked, cache] = [path.join(scratch, 'linked'), path.join(scratch, 'linked-cache')];
  fs.mkdirSync(linked);
  const dependencies = { tsxla: `file:${path.relative(linked, root)}` };
  fs.writeFileSync(path.join(linked, 'package.json'), JSON.stringify({ type: 'module', dependencies }));
  execFileSync('npm', ['install', '--no-audit', '--no-fund'], { cwd: linked, stdio: 'pipe' });
  expect(fs.lstatSync(path.join(linked, 'node_modules/tsxla')).isSymbolicLink()).toBe(true);
  fs.copyFileSync(path.join(project, 'environment.js'), path.join(linked, 'environment.js'));
  const plugin = execFileSync(process.execPath, [main, 'plugins', 'path', 'cpu'], { encoding: 'utf8' }).trim();
  const env = { TSXLA_CACHE_DIR: cache, TSXLA_PLUGIN_CPU: plugin };
  const request = { ...REQUEST, name: 'linked', device: 'cpu', scaling: { num_workers: 2 }, env } as const;
  const id = await submitRun(cluster.client(), request, { project: linked, install: true });
  fs.rmSync(path.join(linked, 'node_modules'), { recursive: true }); // as on another machine, seconds before workers look
  const events = await eventsOf(id);
  const types = events.filter((e) => e.type !== 'log').map((e) => e.type);
  expect(types.sort(), JSON.stringify(events)).toEqual(['driver', 'hello', 'hello', 'result']);
  const [folder] = fs.readdirSync(path.join(cache, 'ray')).filter((name) => !name.endsWith('.lock'));
  const installed = fs.lstatSync(path.join(cache, 'ray', folder!, 'node_modules/tsxla'));
  expect(installed.isSymbolicLink()).toBe(false);
});

test('no cluster, a token that is wrong, and a script that submits nothing', async () => {
  const nowhere = new Program([main, 'ray', 'submit', 'train.js', '--address', 'http://127.0.0.1:9']);
  expect(await nowhere.ended).toBe(1);
  expect(nowhere.output).toContain('error: no Ray cluster at http://127.0.0.1:9: nothing listens there.');
  const wrong = new Program(['train.js'], { RAY_AUTH_TOKEN: 'guessed' });
  expect(await wrong.ended).toBe(1);
  expect(wrong.output).toContain("rejects the token: set RAY_AUTH_TOKEN to the cluster's token");
  await expect(cluster.client({ token: '' }).version()).rejects.toThrow('requires a token: set RAY_AUTH_TOKEN');
  fs.writeFileSync(path.join(project, 'idle.js'), 'console.log(1 + 1);');
  const idle = new Program([main, 'ray', 'submit', 'idle.js']);
  expect([await idle.ended, idle.output]).toEqual([
    1,
    `2\nerror: ray submit: idle.js ended without submitting a job to ${cluster.address}: it must call new TorchTrainer({...}).fit()\n`,
  ]);
});

/** Numbers in [0, 1): the same ones every time. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    return state / 2 ** 31;
  };
}
