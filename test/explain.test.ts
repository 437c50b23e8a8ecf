// Every compile explains itself: what differs from the nearest program, where, and what to write instead.
import * as tx from 'tsxla';
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';

beforeAll(() => tx.ones([1]).item()); // says which device it uses

let said = '';
beforeEach(() => {
  said = '';
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    said += text;
    return true;
  });
});
afterEach(() => vi.restoreAllMocks());

const here = '.*explain\\.test\\.ts:\\d+';
/** Runs twice as it is, then once in another way; gives what was said and the record of that compile. */
async function change(warm: () => Promise<unknown>, then: () => Promise<unknown>) {
  await warm();
  await warm();
  expect(said).toBe('');
  await then();
  const record = tx.explain().at(-1)!;
  return { said, record, difference: record.difference! };
}

test('another batch size', async () => {
  const f = tx.compile((x: tx.Tensor, y: tx.Tensor) => x.matmul(y), { name: 'train' });
  const y = tx.ones([4, 2]);
  const { said, record, difference } = await change(
    () => f(tx.ones([32, 4]), y),
    () => f(tx.ones([7, 4]), y),
  );
  expect(said).toMatch(
    new RegExp(
      '^tsxla: train is compiled again \\(2 programs now\\): argument \\[0\\]: was f32\\[32, 4\\], now f32\\[7, 4\\]\n' +
        `    at ${here}\n` +
        '    every shape is a program of its own: pad the input to one of a few sizes \\(buckets\\), or leave the last short batch out\n$',
    ),
  );
  expect(difference).toMatchObject({ kind: 'shape', what: 'argument [0]', was: 'f32[32, 4]', now: 'f32[7, 4]' });
  expect(record).toMatchObject({
    name: 'train',
    cause: 'torch_xla.compile',
    earlier: 1,
    inputs: 2,
    outputs: 1,
    cache: 'miss',
  });
  expect(record.at).toMatch(new RegExp(here));
  expect(record.seconds).toBeGreaterThan(0);
  expect(record.nearest).toBe(tx.explain().filter((r) => r.name === 'train')[0]!.hash);
});

test('another dtype', async () => {
  const f = tx.compile((x: tx.Tensor) => x.mul(2), { name: 'scale' });
  const { said, difference } = await change(
    () => f(tx.ones([3])),
    () => f(tx.ones([3], { dtype: 'bf16' })),
  );
  expect(said).toContain('scale is compiled again (2 programs now): argument [0]: was f32[3], now bf16[3]');
  expect(said).toContain("bring it to one dtype before the call: x.to('f32')");
  expect(difference.kind).toBe('dtype');
});

test('another constant', async () => {
  const x = tx.ones([5]);
  let lr = 0.1;
  const update = () => tx.step(() => void x.sub_(x.mul(lr)), { name: 'update' });
  const { said, difference } = await change(update, () => {
    lr = 0.05;
    return update();
  });
  expect(said).toMatch(
    new RegExp(
      `^tsxla: update is compiled again \\(2 programs now\\): a constant f32\\[5\\]: was 0\\.1, now 0\\.05\n    at ${here}\n    a number in the code is part of the program: pass it as an argument`,
    ),
  );
  expect(difference.kind).toBe('constant');
  expect(difference.at).toMatch(new RegExp(here));
});

test('another flag', async () => {
  const x = tx.ones([6]);
  const run = (xlaFlags: Record<string, boolean>) => tx.step(() => x.exp(), { name: 'flagged', xlaFlags });
  const { said, difference } = await change(
    () => run({ xla_cpu_enable_fast_math: false }),
    () => run({ xla_cpu_enable_fast_math: true }),
  );
  expect(said).toContain(
    'flagged is compiled again (2 programs now): the flag xla_cpu_enable_fast_math: was false, now true',
  );
  expect(difference.kind).toBe('flag');
});

test('another order of operations', async () => {
  const x = tx.ones([7]);
  const run = (swap: boolean) => tx.step(() => (swap ? x.exp().sin() : x.sin().exp()), { name: 'ordered' });
  const { said, difference } = await change(
    () => run(false),
    () => run(true),
  );
  expect(said).toMatch(
    new RegExp(
      `ordered is compiled again \\(2 programs now\\): the order of operations: was sin f32\\[7\\], now exp f32\\[7\\]\n    at ${here}`,
    ),
  );
  expect(difference.kind).toBe('order');
});

test('another operation, another option, another result, another change in place', async () => {
  const x = tx.ones([8]);
  const y = tx.ones([8]);
  await tx.sync(x, y);
  const run = (fn: () => unknown) => tx.step(fn as () => undefined, { name: 'varied' });
  const base = () => run(() => x.exp());
  await base();
  await base();
  const square = tx.ones([3, 3]);
  await run(() => square.flip(0));
  const kinds: [string, () => unknown][] = [
    ['op', () => x.log()],
    ['op', () => x.exp().neg()],
    ['option', () => square.flip(1)],
    ['outputs', () => Array(2).fill(x.exp())],
    ['donation', () => void x.copy_(x.exp())],
  ];
  for (const [kind, fn] of kinds) {
    await run(fn);
    expect(tx.explain().at(-1)!.difference!.kind).toBe(kind);
  }
});

test('a loop that reads: its line is compiled again when its shape changes', async () => {
  const read = (x: tx.Tensor) => x.mul(3).sum().item();
  const batches = [...Array.from({ length: 4 }, () => tx.ones([9])), tx.ones([4])];
  await tx.sync(...batches);
  for (const x of batches) await read(x);
  expect(said).toMatch(
    new RegExp(
      `^tsxla: what is read at ${here} is compiled again \\(2 programs now\\): the tensor made at ${here}: was f32\\[9\\], now f32\\[4\\]`,
    ),
  );
});

test('quiet: the first programs, functions that read many things once, and TSXLA_LOG=quiet', async () => {
  for (const n of [1, 2, 3, 4]) await tx.ones([n]).exp().sum().item();
  const x = tx.ones([2]);
  for (let i = 0; i < 3; i++) await tx.step(() => x.sin());
  for (let i = 0; i < 3; i++) await tx.step(() => x.cos()); // another function, though neither has a name
  const f = tx.compile((x: tx.Tensor) => x.add(1), { name: 'first' });
  await f(tx.ones([2]));
  await f(tx.ones([3]));
  expect(said).toBe('');
});
