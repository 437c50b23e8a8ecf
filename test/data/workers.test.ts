// Worker threads: order, errors, and arrays that are moved and not copied.
import * as tx from 'tsxla';
import { DataLoader, type Dataset, IterableDataset, TensorDataset } from 'tsxla/data';
import { expect, test } from 'vitest';

const module = new URL('../fixtures/transform.mjs', import.meta.url);
type Made = { x: tx.Tensor; index: tx.Tensor };
const load = async (dataset: unknown, o: object = {}): Promise<Made[]> => {
  const seen: Made[] = [];
  const loader = new DataLoader<unknown, Made>(dataset as Dataset<unknown>, {
    batchSize: 4,
    workers: { module, count: 2 },
    ...o,
  });
  for await (const batch of loader) seen.push(batch);
  return seen;
};
const numbers = (n: number) => Array.from({ length: n }, (_, i) => i);

test.each([
  ['map-style', numbers(20)],
  ['iterable', IterableDataset.from(() => numbers(20))],
])('items are transformed in threads, in order: %s', async (_, dataset) => {
  const batches = await load(dataset, { workers: { module: module.pathname, count: 3, data: { factor: 10 } } });
  const x = await Promise.all(batches.map((b) => b.x.tolist()));
  expect(x.flat()).toEqual(numbers(20).map((i) => [i, i * 10]));
  const indices = await Promise.all(batches.map((b) => b.index.tolist({ numbers: true })));
  expect(indices.flat()).toEqual(numbers(20));
});

test('a transform may be written in TypeScript', async () => {
  const [batch] = await load(numbers(4), {
    workers: { module: new URL('../fixtures/transform-typed.ts', import.meta.url) },
  });
  expect(await batch!.x.tolist()).toEqual([[1], [2], [3], [4]]);
});

test("the dataset's own arrays stay whole: what is sent of them is a copy", async () => {
  const mine = numbers(8).map((i) => ({ x: Float32Array.of(i, 0, 0) }));
  await load(mine);
  expect(mine[3]!.x).toEqual(Float32Array.of(3, 0, 0));
  const rows = new TensorDataset(tx.arange(8, { dtype: 'f32' }));
  const [batch] = await load({ length: 8, get: async (i: number) => (await rows.get(i))[0] });
  expect(await batch!.x.tolist()).toEqual([0, 1, 2, 3].map((i) => [i, 2 * i]));
});

test('threads are kept for the next epoch, and a process ends without being told to', async () => {
  const code = `
    import { DataLoader } from 'tsxla/data';
    const loader = new DataLoader([0, 1, 2, 3], { device: 'host', workers: { module: ${JSON.stringify(module.pathname)} } });
    for (let i = 0; i < 2; i++) for await (const b of loader) process.stdout.write(b.x.shape + ' ');`;
  const { execFileSync } = await import('node:child_process');
  const root = new URL('../..', import.meta.url).pathname;
  const out = execFileSync(process.execPath, ['--input-type=module', '-e', code], {
    cwd: root,
    encoding: 'utf8',
    timeout: 60_000,
  });
  expect(out.trim().split(' ')).toHaveLength(8);
});

test('what goes wrong in a thread is told', async () => {
  await expect(load([0, 1, 1000, 3])).rejects.toThrow(
    /^item 2: transform of file:.*transform.mjs failed: no such picture$/,
  );
  await expect(load([0, 1001, 2, 3])).rejects.toThrow(
    /^worker \d of file:.*transform.mjs died: it ended with exit code 7 \(it had items 0 to 3\)$/,
  );
  await expect(load(numbers(4), { workers: { module: '/nowhere/transform.mjs' } })).rejects.toThrow(
    /item 0: transform of .*Cannot find module/,
  );
  await expect(
    load(numbers(4), { workers: { module: new URL('data:text/javascript,export const x = 1') } }),
  ).rejects.toThrow('it exports no function named transform (it has: x)');
  await expect(load([() => 1, 2, 3, 4])).rejects.toThrow(
    'items 0 to 3 cannot be sent to a worker: () => 1 could not be cloned',
  );
});

test('a function cannot be sent to a thread: the error shows what to write', () => {
  const made = (o: object) => () => new DataLoader([1], o);
  const advice = "workers: { module: new URL('./transform.js', import.meta.url), count: 2 }";
  expect(made({ workers: (x: number) => x })).toThrow('a function cannot be sent to a thread');
  expect(made({ workers: { module: (x: number) => x } })).toThrow(advice);
  for (const o of [{ numWorkers: 2 }, { numWorkers: 2, workers: { module, count: 2 } }]) {
    expect(made(o)).toThrow('DataLoader: use workers instead of numWorkers');
    expect(made(o)).toThrow(advice);
  }
  expect(made({ workers: { module, num: 2 } })).toThrow("DataLoader: workers: there is no option 'num'");
});

test("torch's DataLoader(dataset, 16), and a loop without await", () => {
  expect(() => new DataLoader([1], 16 as never)).toThrow(
    'DataLoader: got the number 16 in place of its options: write { batchSize, ',
  );
  expect(() => [...(new DataLoader([1]) as never as Iterable<unknown>)]).toThrow(
    'a DataLoader is read with for await: for await (const batch of loader)',
  );
});
