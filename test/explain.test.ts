// Every compile explains itself: what differs from the nearest program, where, and what to write instead.
import * as tx from 'tsxla';
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { analyse } from '../dist/observe/debug.js';

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
        '    every shape needs another program: pad the input to one of a few sizes \\(buckets\\), or leave the last short batch out\n$',
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
  expect(said).toContain("convert it to one dtype before the call: x.to('f32')");
  expect(difference.kind).toBe('dtype');
});

test("an argument is named before all else: beside a step's new state, another length of a list, another argument", async () => {
  const model = new tx.nn.Linear(4, 1);
  const optimizer = new tx.optim.Adam(model.parameters(), { lr: 0.01 });
  const seen: tx.Tensor[] = [];
  const f = tx.compile(
    (x: tx.Tensor, y: tx.Tensor) => {
      let loss = tx.mseLoss(model.forward(x), y);
      for (const s of seen) loss = loss.add(s.mean());
      optimizer.zeroGrad();
      loss.backward();
      optimizer.step();
      return loss;
    },
    { name: 'named', check: false },
  );
  const x = tx.ones([8, 4]);
  const difference = async (...batch: [tx.Tensor, tx.Tensor]) => {
    await f(...batch);
    return tx.explain().findLast(({ name }) => name === 'named')!.difference;
  };
  await f(x, tx.ones([8, 1]));
  await f(x, tx.ones([8, 1]));
  expect(await difference(x, tx.ones([8, 1], { dtype: 'i64' }))).toMatchObject({
    kind: 'dtype',
    what: 'argument [1]',
    was: 'f32[8, 1]',
    now: 'i64[8, 1]',
  });
  seen.push(x);
  expect(await difference(tx.ones([2, 4]), tx.ones([2, 1]))).toMatchObject({ kind: 'shape', what: 'argument [0]' });
  // Nearer than the last program is the first, which also had 8 rows.
  expect(await difference(x, tx.ones([8, 1], { dtype: 'bf16' }))).toMatchObject({
    kind: 'dtype',
    what: 'argument [1]',
    now: 'bf16[8, 1]',
  });
});

test('a list that grows: the tensor that is new', async () => {
  const seen: tx.Tensor[] = [];
  const f = tx.compile((x: tx.Tensor) => seen.reduce((sum, s) => sum.add(s.mean()), x.mean()), { name: 'growing' });
  await f(tx.ones([9]));
  seen.push(tx.ones([5]));
  await f(tx.ones([9]));
  expect(said).toMatch(
    new RegExp(
      `^tsxla: rule stale: growing: it no longer describes the program it was traced to: the inputs \\(new: f32\\[5\\], the tensor made at ${here}\\): was 1 tensor, now 2 tensors: calls still run`,
    ),
  );
  expect(said).toContain('keep a list that it reads at one length');
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
      `^tsxla: the read at ${here} is compiled again \\(2 programs now\\): the tensor made at ${here}: was f32\\[9\\], now f32\\[4\\]`,
    ),
  );
});

test('parameters that are read one by one are to be read together', async () => {
  const parameters = [3, 5, 7].map((n) => tx.ones([n]));
  await tx.sync(...parameters);
  for (const p of parameters) await p.abs().sum().item();
  expect(said).toMatch(/is compiled again \(3 programs now\): .*: was f32\[5\], now f32\[7\]/);
  expect(said).toContain('read several tensors together, in one program (`await tx.read(a, b, ...)`)');
  expect(said).not.toContain('short batch');
});

test('a plain loop over data that is still to be computed: the code did not go another way', async () => {
  const model = new tx.nn.Linear(3, 1);
  const optimizer = new tx.optim.SGD(model.parameters(), { lr: 0.1 });
  const train = async (data: tx.Tensor) => {
    for (let i = 0; i < 4; i++) {
      optimizer.zeroGrad();
      model.forward(data).square().mean().backward();
      await optimizer.step();
    }
  };
  const data = tx.ones([8, 3]);
  await tx.sync(data);
  await train(data);
  expect(said).toBe('');
  await train(data.index(tx.randperm(8)));
  expect(said).toMatch(/^tsxla: SGD\.step is compiled again \(2 programs now\): operation \d+: was /);
  expect(said).toContain('data that is not computed yet (`await tx.sync(data)` before the loop)');
  expect(said).not.toContain('the code took another branch');
  said = '';
  const shuffled = data.index(tx.randperm(8));
  await tx.sync(shuffled);
  await train(shuffled);
  expect(said).toBe('');
});

test('a loop that reads and compiles at every step is told, and one whose graph grows', async () => {
  for (const k of [1.5, 2.5, 3.5, 4.5]) await tx.ones([11]).mul(k).sum().item();
  expect(said).toMatch(
    /the read at .* is compiled again \(3 programs now\): a constant f32\[11\]: was \d\.5, now \d\.5/,
  );
  said = '';
  let x = tx.ones([13], { requiresGrad: true });
  for (let i = 0; i < 5; i++) {
    x = x.sub(x.mul(0.5));
    await x.sum().item();
  }
  expect(said).toMatch(/compiled again \(\d programs now\): the graph grows: was \d+ operations, now \d+ operations/);
  expect(said).toContain('compute it with the loss, `await tx.sync(h, loss)`');
});

test('a state that is carried over a plain loop: where it is made, and what helps', async () => {
  const w = tx.ones([3], { requiresGrad: true });
  const loop = async (end: (h: tx.Tensor, loss: tx.Tensor) => Promise<unknown>) => {
    let h = tx.zeros([3]);
    for (let i = 0; i < 6; i++) {
      h = h.detach().mul(w).add(0.25).tanh();
      const loss = h.sum();
      loss.backward();
      await end(h, loss);
    }
    w.grad = null;
  };
  await loop((_, loss) => loss.item());
  expect(said).toMatch(new RegExp(`the graph grows: was .*\\n    at ${here}\\n    a value of the last step`));
  said = '';
  await loop((h, loss) => tx.sync(h, loss, w.grad!));
  expect(said).toBe('');
});

test('values that are read one after the other are to be read together', async () => {
  const layers = [4, 5, 6, 7].map((n) => new tx.nn.Linear(n, n + 1));
  const activations = () => {
    const all = [tx.ones([2, 4])];
    for (const layer of layers) all.push(layer.forward(all.at(-1)!).tanh());
    return all.slice(1);
  };
  const gradients = () => {
    activations().at(-1)!.sum().backward();
    return layers.map((layer) => layer.weight.grad!);
  };
  for (const x of activations()) await x.detach().data();
  const told = new RegExp(
    `^tsxla: the read at ${here} is compiled again \\(3 programs now\\): it was described before the last program ran, ` +
      `which could have computed it\\n    at ${here}\\n    read values together, in one program: \`await tx\\.read\\(a, b, \\.\\.\\.\\)\``,
  );
  expect(said).toMatch(told);
  said = '';
  for (const g of gradients()) await g.norm().item(); // what is new is little of it
  expect(said).toMatch(told);
  said = '';
  await tx.read(...gradients());
  await Promise.all(gradients().map((g) => g.norm().item()));
  expect(said).toBe('');
  expect(tx.explain().at(-1)!.difference?.kind).not.toBe('together');
});

test('what differs inside a loop, a checkpoint or a branch is told by its line; options as they are written', async () => {
  let k = 1.5;
  const x = tx.ones([3, 2]);
  const inside: [body: string, fn: () => tx.Tensor][] = [
    ['checkpoint', () => tx.checkpoint((y: tx.Tensor) => y.mul(k).exp(), x)],
    ['scan', () => tx.scan((c: tx.Tensor, row: tx.Tensor) => [c.add(row).mul(k), null], tx.zeros([2]), x)[0]],
    [
      'cond',
      () =>
        tx.cond(
          x.sum().gt(0),
          (y: tx.Tensor) => y.mul(k),
          (y: tx.Tensor) => y,
          x,
        ),
    ],
  ];
  for (const [body, fn] of inside) {
    for (k of [1.5, 2.5]) await tx.step(fn, { name: body });
    const { what, was, now, at } = tx.explain().at(-1)!.difference!;
    expect([body, what.replace(/f32\S+( \d+\])?/, 'T'), was, now]).toEqual([
      body,
      `a constant T in the body of ${body}`,
      '1.5',
      '2.5',
    ]);
    expect(at).toMatch(new RegExp(here));
  }
  for (const n of [0, 1]) await tx.step(() => x.narrow(0, n, 2), { name: 'rows' });
  expect(tx.explain().at(-1)!.difference).toMatchObject({ what: 'slice', was: '[0:2, 0:2]', now: '[1:3, 0:2]' });
  for (const n of [0, 1]) await tx.step(() => x.flip(n), { name: 'flipped' });
  expect(tx.explain().at(-1)!.difference).toMatchObject({ was: '[0]', now: '[1]' });
  const all = JSON.stringify(tx.explain().map((r) => r.difference));
  expect(all).not.toMatch(/\[object|\\"body|unknown/);
});

test('compiles are too frequent where a function or a line is compiled again, not where each is compiled once', async () => {
  tx.metrics.clearAll();
  const x = tx.tensor(new Float32Array(4));
  const each = Array.from({ length: 12 }, (_, i) => tx.compile((y: tx.Tensor) => y.mul(i + 0.5)));
  for (const f of each) await f(x);
  expect(tx.metrics.metricData('CompileTime')!.total).toBe(12);
  expect(analyse()).toEqual([]);
  const again = tx.compile((y: tx.Tensor) => y.mul(2).atan());
  for (let n = 1; n <= 16; n++) await again(tx.tensor(new Float32Array(n))); // one of them is the first
  expect(analyse().join()).toContain('CompileTime too frequent: 15 counts during 28 steps');
});

test('quiet: the first programs, functions that read many things once, and TSXLA_LOG=quiet', async () => {
  for (const n of [1, 2]) await tx.ones([n]).exp().sum().item();
  const x = tx.ones([2]);
  for (let i = 0; i < 3; i++) await tx.step(() => x.sin());
  for (let i = 0; i < 3; i++) await tx.step(() => x.cos()); // another function, though neither has a name
  const f = tx.compile((x: tx.Tensor) => x.add(1), { name: 'first' });
  await f(tx.ones([2]));
  await f(tx.ones([3]));
  expect(said).toBe('');
});
