// Ray Data on a real Ray cluster: two nodes on this machine, whose workers are given the rows of files, also when they are killed.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TestCluster, TOKEN, until } from '../train/ray/cluster.js';

const root = path.join(import.meta.dirname, '../..');
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-ray-data-'));
const [project, data, seen, storage] = ['project', 'data', 'seen', 'runs'].map((name) => path.join(scratch, name));
let cluster: TestCluster;

const FILES = 6;
const ROWS = 101; // of each file
const ALL = FILES * ROWS;
const row = (id: number) => [id, id % 7 ? `text ${id}` : null, Array.from({ length: id % 3 }, (_, i) => id + i)];
const WRITE = `
import sys, pyarrow as pa, pyarrow.parquet as pq
folder, files, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for f in range(files):
    ids = list(range(f * rows, (f + 1) * rows))
    pq.write_table(pa.table({
        "id": pa.array(ids, pa.int64()),
        "text": [f"text {i}" if i % 7 else None for i in ids],
        "tokens": pa.array([[i + j for j in range(i % 3)] for i in ids], pa.list_(pa.int32())),
        "unused": [0.5] * rows,
    }), f"{folder}/rows-{f}.parquet")
`;

beforeAll(async () => {
  fs.cpSync(path.join(root, 'test/train/ray/project'), project!, { recursive: true });
  fs.mkdirSync(path.join(project!, 'node_modules'));
  fs.symlinkSync(root, path.join(project!, 'node_modules/tsxla'));
  for (const folder of [data!, seen!]) fs.mkdirSync(folder);
  cluster = await TestCluster.start();
  execFileSync(path.join(root, '.venv/ray/bin/python'), ['-c', WRITE, data!, String(FILES), String(ROWS)]);
  const file = (name: string, lines: readonly string[]) =>
    fs.writeFileSync(path.join(data!, name), `${lines.join('\n')}\n`);
  const numbers = Array.from({ length: 25 }, (_, i) => i);
  for (const [name, from] of [['a', 0], ['b', 25]] as const) // biome-ignore format: short
    file(`${name}.jsonl`, numbers.map((i) => JSON.stringify({ n: from + i, of: { name } }))); // biome-ignore format: short
  file('table.csv', ['x,y', ...numbers.map((i) => `${i},${i * i}`)]);
  file('lines.txt', numbers.map((i) => `line ${i}`)); // biome-ignore format: short
}, 600_000);
afterAll(async () => {
  await cluster?.stop();
  fs.rmSync(scratch, { recursive: true });
}, 600_000);

/** Runs the program: what it printed, and its exit status. */
function run(...args: string[]): { output: string; ended: Promise<number | null> } {
  const env = { RAY_ADDRESS: cluster.address, RAY_AUTH_TOKEN: TOKEN, STORAGE: storage, SEEN: seen, DATA: data };
  const child = spawn(process.execPath, ['data.js', ...args], { cwd: project, env: { ...process.env, ...env } });
  const ran = { output: '', ended: new Promise<number | null>((resolve) => child.once('exit', resolve)) };
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (text) => (ran.output += text));
  return ran;
}
const read = (name: string) => JSON.parse(fs.readFileSync(path.join(seen!, `${name}.json`), 'utf8'));
type Row = [number, string | null, number[]];
/** What both workers were given in an epoch, by the attempt that came to its end. */
function epochOf(name: string, epoch: number): { attempts: number[]; sizes: number[] } {
  const parts: { rows: Row[]; attempt: number }[] = [0, 1].map((rank) => read(`${name}-${epoch}-${rank}`));
  const rows = parts.flatMap((p) => p.rows).sort((a, b) => a[0] - b[0]);
  expect(rows, `epoch ${epoch} of ${name}`).toEqual(Array.from({ length: ALL }, (_, id) => row(id)));
  return { attempts: parts.map((p) => p.attempt), sizes: parts.map((p) => p.rows.length) };
}

test('each row comes once an epoch, to one of two workers on two nodes; all formats', async () => {
  const program = run('calm', '2');
  expect(await program.ended, program.output).toBe(0);
  for (const epoch of [0, 1]) expect(epochOf('calm', epoch).sizes, program.output).toEqual([ALL / 2, ALL / 2]);
  const parts = [0, 1].map((rank) => read(`calm-others-${rank}`));
  const all = (name: string) => parts.flatMap((part) => part[name]);
  const objects = all('objects').sort((a, b) => a.n - b.n);
  expect(objects).toEqual(Array.from({ length: 50 }, (_, n) => ({ n, of: { name: n < 25 ? 'a' : 'b' } })));
  const table = all('table').map((r) => Number(r.y)).sort((a, b) => a - b); // biome-ignore format: short
  expect(table).toEqual(Array.from({ length: 25 }, (_, i) => i * i));
  const orders = [all('table').map((r) => r.y), all('shuffled')];
  expect(orders[0]).not.toEqual(orders[1]); // another in each epoch
  expect(new Set(orders[1])).toEqual(new Set(orders[0]));
  expect(parts.map((part) => part.table.length).sort()).toEqual([12, 13]);
  expect(all('table').every((r) => Object.keys(r).join() === 'y')).toBe(true);
  expect(parts.map((part) => part.lines.length)).toEqual([12, 12]); // equal: the 25th is left out
  expect(new Set(all('lines').map((r) => r.text)).size).toBe(24);
  expect(parts.map((part) => part.steps)).toEqual([10, 10]);
  expect(parts.map((part) => part.again)).toEqual([12, 12]);
});

test('a worker and then its Ray process are killed in the middle of an epoch: each row once in every epoch', async () => {
  const program = run('killed', '4', '3');
  await until('the second kill', () => fs.existsSync(path.join(seen!, 'kill')));
  const [victim] = cluster.processes('ray::RayTrainWorker');
  process.kill(victim!.pid, 'SIGKILL');
  expect(await program.ended, program.output).toBe(0);
  const attempts = [0, 1, 2, 3].map((epoch) => epochOf('killed', epoch).attempts);
  // What was finished is not read again; the epoch that was under way begins again.
  expect(attempts).toEqual([[0, 0], [1, 1], [2, 2], [2, 2]]); // biome-ignore format: short
  const history: { epoch: number }[] = JSON.parse(program.output.trim().split('\n').at(-1)!);
  expect(history.map((m) => m.epoch)).toEqual([0, 1, 2, 3]);
});

test('a worker that goes through its rows more often than the others is told, and does not wait', async () => {
  const program = run('uneven', '1');
  expect(await program.ended, program.output).toBe(1);
  expect(program.output).toContain(
    'it waits for worker 1, whose loop has ended: all workers must take the same number',
  );
});

test('files that are not there are told in a sentence', async () => {
  const program = run('nowhere');
  expect(await program.ended).toBe(1);
  expect(program.output).toContain(
    `the run nowhere failed: no file matches ${data}/none-*.parquet on the cluster: the files of a rayDataset must be at the same path on all machines`,
  );
});
