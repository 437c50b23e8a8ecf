// The development rules: each is found where it is broken, and nothing is found in good code.
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import * as tx from 'tsxla';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { Aval } from '../dist/ir/aval.js';
import { collect } from '../dist/ir/graph.js';
import { describeProgram } from '../dist/observe/explain.js';
import { adviceFor, checkProgram } from '../dist/observe/rules-compile.js';
import { noteEnd, noteRead, noteRun } from '../dist/observe/rules-loop.js';
import { tiledBytes } from '../dist/observe/rules-products.js';
import { counts } from '../dist/runtime/program.js';

beforeEach(async () => {
  await tx.sync({ wait: true });
  tx.rules.mode = 'warn';
  tx.rules.ignored.clear();
  tx.rules.clear();
});
/** The rules that were broken, each once. */
const found = () => [...new Set(tx.rules.findings().map((f) => f.rule))];
const here = expect.stringMatching(/rules\.test\.ts:\d+$/);
const zeros = (shape: readonly number[], dtype: 'f32' | 'bf16' = 'f32') => tx.zeros(shape, { dtype });

/** A classifier whose step takes milliseconds, with momentum and a learning rate that changes. */
async function classifier() {
  const [w1, w2] = [tx.randn([256, 512]).mul(0.05), tx.randn([512, 128]).mul(0.05)].map((w) => w.requiresGrad_());
  const momenta = [w1, w2].map((w) => tx.zerosLike(w!).detach());
  const lr = tx.tensor(0.1);
  const batches = Array.from({ length: 4 }, () => ({ x: tx.randn([256, 256]), y: tx.randint(0, 128, [256]) }));
  await tx.sync(w1!, w2!, ...momenta, lr, ...batches.flatMap(({ x, y }) => [x, y]));
  const update = (x: tx.Tensor, y: tx.Tensor) => {
    for (const w of [w1!, w2!]) w.grad = null;
    const loss = tx.crossEntropy(x.matmul(w1!).relu().matmul(w2!), y);
    loss.backward();
    tx.noGrad(() => {
      [w1!, w2!].forEach((w, i) => w.sub_(momenta[i]!.mul_(0.9).add_(w.grad!).mul(lr)));
    });
    return loss;
  };
  return { update, lr, batch: (i: number) => batches[i % batches.length]! };
}

test('a healthy training loop breaks no rule', async () => {
  const { update, lr, batch } = await classifier();
  const train = tx.compile(update, { name: 'healthy' });
  const losses: number[] = [];
  for (let i = 0; i < 120; i++) {
    lr.copy_(tx.tensor(0.1 * 0.99 ** i));
    const { x, y } = batch(i);
    const loss = await train(x, y);
    tx.afterStep(async (loss: tx.Tensor) => losses.push(Number(await loss.item())), loss);
    if (i % 10 === 0) expect(await loss.item()).toBeGreaterThan(0);
  }
  await tx.sync({ wait: true });
  expect(losses.length).toBe(120);
  expect(tx.rules.findings()).toEqual([]);
  expect(tx.rules.report()).toBe(
    'No findings (shapes, constants, reads, pending, lanes, precision, dispatch, stale).\n',
  );
});

describe('shapes', () => {
  const total = (name: string) => tx.compile((x: tx.Tensor) => x.mul(2).sum(), { name });

  test('the third size of an input: the sizes, what it cost, and what to pad to', async () => {
    const f = total('lengths');
    await f(tx.ones([4, 100]));
    await f(tx.ones([4, 120]));
    await f(tx.ones([4, 120]));
    expect(tx.rules.findings()).toEqual([]);
    await f(tx.ones([4, 200]));
    expect(tx.rules.findings()).toEqual([
      {
        rule: 'shapes',
        place: here,
        what: 'lengths is compiled for 3 shapes of argument [0]: dim 1 was 100, 120, 200',
        cost: expect.stringMatching(/^2 compiles took [\d.]+ .*s, and this is one more$/),
        // 128 + 2 * 128 + 256 elements for 100 + 2 * 120 + 200
        fix: 'pad dim 1 to 128 or 256 and mask the padding (19% more elements in the calls so far); leave a last short batch out',
      },
    ]);
    await f(tx.ones([4, 210]));
    expect(tx.rules.findings().map((f) => f.what)).toEqual([
      'lengths is compiled for 4 shapes of argument [0]: dim 1 was 100, 120, 200, 210',
    ]);
  });

  test('also of a tensor that a step finds outside, and of one that a plain loop reads', async () => {
    for (const n of [5, 6, 7]) {
      const x = tx.ones([n]);
      await tx.step(() => x.mul(2), { name: 'outside' });
    }
    expect(tx.rules.findings()[0]!.what).toMatch(
      /^outside is compiled for 3 shapes of the tensor made at .*rules\.test\.ts:\d+: dim 0 was 5, 6, 7$/,
    );
    tx.rules.clear();
    for (const n of [5, 5, 5, 6, 7]) {
      const x = tx.tensor(Array.from({ length: n }, (_, i) => i));
      await x.mul(2).sum().item();
    }
    expect(tx.rules.findings()).toMatchObject([
      { rule: 'shapes', place: here, what: expect.stringMatching(/^the read at .*:\d+ is compiled for 3 shapes/) },
    ]);
  });

  test('a last short batch and chosen buckets are fine', async () => {
    const [short, buckets] = [total('short'), total('buckets')];
    for (let epoch = 0; epoch < 3; epoch++) for (const n of [32, 32, 7]) await short(tx.ones([n, 8]));
    for (const n of [64, 128, 256, 384, 512]) await buckets(tx.ones([2, n]));
    expect(tx.rules.findings()).toEqual([]);
  });

  test('functions without a name are not one function', async () => {
    await tx.compile((x: tx.Tensor) => x.add(11).sum())(tx.ones([3]));
    await tx.compile((x: tx.Tensor) => x.add(12).sum())(tx.ones([5]));
    await tx.compile((x: tx.Tensor) => x.add(13).sum())(tx.ones([7]));
    await tx.compile((x: tx.Tensor) => x.add(14).sum())(tx.ones([9]));
    expect(tx.rules.findings()).toEqual([]);
  });

  test.each<[sizes: Record<number, number>, buckets: number[] | undefined, padding: number]>([
    [{ 5: 1, 6: 1, 7: 1 }, [8], 24 / 18 - 1],
    [{ 100: 1, 300: 1, 500: 2 }, [128, 384, 512], (128 + 384 + 1024) / 1400 - 1],
    [{ 64: 1, 128: 9, 1024: 1 }, undefined, 0], // round already
    [{ 1: 1, 2: 1, 4: 1, 8: 1, 16: 1, 32: 1, 64: 1, 128: 1, 256: 1 }, [16, 64, 128, 256], 592 / 511 - 1],
    // What is rarely used shares the next larger one.
    [
      { 1: 1, 60: 50, 100: 50, 500: 50, 900: 1, 1000: 50 },
      [64, 128, 512, 1024],
      (64 * 51 + 128 * 50 + 512 * 50 + 1024 * 51) / (1 + 3000 + 5000 + 25000 + 900 + 50000) - 1,
    ],
  ])('calls by size %j: buckets %j', (calls, buckets, padding) => {
    const advice = adviceFor(
      new Map(Object.entries(calls).map(([n, times]) => [Aval.of('f32', [Number(n), 3]), times])),
    );
    expect(advice?.dims[0]?.buckets).toEqual(buckets);
    if (advice) expect(advice.padding).toBeCloseTo(padding, 10);
  });

  test('two sizes that change together are padded together', () => {
    const seen = new Map(
      [
        [3, 5],
        [4, 6],
        [9, 7],
      ].map((shape) => [Aval.of('f32', shape), 1]),
    );
    const advice = adviceFor(seen)!;
    expect(advice.dims.map(({ dim, buckets }) => [dim, buckets])).toEqual([
      [0, [4, 16]],
      [1, [8]],
    ]);
    expect(advice.padding).toBeCloseTo((32 + 32 + 128) / (15 + 24 + 63) - 1, 10);
  });
});

describe('constants', () => {
  test('a number that changes with the step, with its line', async () => {
    const w = tx.ones([4]);
    for (let i = 0; i < 3; i++) await tx.step(() => void w.mul_(0.5 ** (i + 1)), { name: 'decay' });
    expect(tx.rules.findings()).toEqual([
      {
        rule: 'constants',
        place: here,
        what: 'decay is compiled for 3 values of a constant f32[4]: 0.5, 0.25, 0.125',
        cost: expect.stringMatching(/^2 compiles took .*, and this is one more$/),
        fix: 'pass the number as an argument of the compiled function, or keep it in a tensor: lr.copy_(tx.tensor(0.1))',
      },
    ]);
  });

  test('two numbers at two places are two findings', async () => {
    const [v, w] = [tx.ones([5]), tx.ones([6])];
    for (let i = 0; i < 4; i++) await tx.step(() => void v.mul_(0.5 ** (i + 1)), { name: 'two' });
    for (let i = 0; i < 4; i++) await tx.step(() => void w.mul_(0.3 ** (i + 1)), { name: 'two' });
    expect(tx.rules.findings().map(({ rule, place }) => [rule, place])).toEqual([
      ['constants', here],
      ['constants', here],
    ]);
  });

  test('an index that changes with the step', async () => {
    const data = tx.arange(10);
    await tx.sync(data);
    for (let i = 0; i < 4; i++) await tx.step(() => data.index(i).mul(2), { name: 'rows' });
    expect(tx.rules.findings()).toMatchObject([
      {
        rule: 'constants',
        place: here,
        fix: 'make an index that changes a tensor: x.indexSelect(0, i), with i an argument or a tensor',
      },
    ]);
  });

  test('its fixes are fine: an argument, a tensor that is set, a tensor as the index; and one change of mind', async () => {
    const [w, lr, data] = [tx.ones([4]), tx.tensor(1), tx.arange(10)];
    const scaled = tx.compile((by: tx.Tensor) => void w.mul_(by), { name: 'scaled' });
    const rows = tx.compile((i: tx.Tensor) => data.indexSelect(0, i), { name: 'selected' });
    for (let i = 0; i < 5; i++) {
      await scaled((0.5 ** i) as never);
      lr.copy_(tx.tensor(0.9 ** i));
      await tx.step(() => void w.mul_(lr), { name: 'set' });
      await rows(tx.tensor([i]));
      await tx.step(() => w.mul(i < 3 ? 0.1 : 0.01), { name: 'once' });
    }
    expect(tx.rules.findings()).toEqual([]);
  });
});

describe('reads', () => {
  test('at every step: the line that waits, for how long, and what to do', async () => {
    const { update, batch } = await classifier();
    const train = tx.compile(update, { name: 'reading' });
    for (let i = 0; i < 51; i++) {
      const { x, y } = batch(i);
      const loss = await train(x, y);
      await loss.item();
    }
    expect(tx.rules.findings()).toEqual([
      {
        rule: 'reads',
        place: here,
        what: 'reading: values are read after 50 of 50 steps',
        cost: expect.stringMatching(/^[\d.]+ [mu]s of waiting a step, \d+% of the loop's time$/),
        fix: 'read every 50th step, or let afterStep(fn, loss) call fn when the value is ready, without blocking the loop',
      },
    ]);
    expect(tx.rules.report()).toMatch(
      /^1 finding\n\nreads: the loop does not wait for a value at every step\n {2}found: reading: .*\n {2}at: {4}.*rules\.test\.ts:\d+\n {2}cost: {2}.*\n {2}fix: {3}.*\n$/,
    );
  });

  test('every second step, many at once now and then, or the results of a function that changes nothing: fine', async () => {
    tx.rules.ignored.add('dispatch'); // these are small
    const w = tx.ones([4]);
    const add = tx.compile((x: tx.Tensor) => w.add_(x).sum(), { name: 'seldom' });
    const infer = tx.compile((x: tx.Tensor) => x.mul(2), { name: 'inference' });
    const x = tx.ones([4]);
    for (let i = 0; i < 120; i++) {
      const sum = await add(x);
      if (i % 2 === 0) await sum.item();
      if (i === 60) for (let k = 0; k < 100; k++) await w.data(); // a checkpoint
    }
    for (let i = 0; i < 120; i++) await (await infer(x)).data();
    expect(tx.rules.findings()).toEqual([]);
  });
});

describe('products on a TPU', () => {
  test.each([
    ['sizes of 300', [4096, 300], [300, 300], 'v5e', 28],
    ['heads of 64', [8, 1024, 64], [8, 64, 1024], 'v5p', 100],
    ['128, where 256 are multiplied at a time', [4096, 128], [128, 4096], 'v6e', 100],
  ] as const)('lanes: %s', (_, a, b, chip, percent) => {
    const product = zeros(a, 'bf16').matmul(zeros(b, 'bf16'));
    const of = chip === 'v6e' ? 256 : 128;
    const odd = a.at(-1)!;
    expect(tx.rules.check(product, { chip })).toEqual([
      {
        rule: 'lanes',
        place: here,
        what: `the graph: matmul bf16[${a.join(', ')}] x bf16[${b.join(', ')}]: not multiples of ${of}: ${odd}`,
        cost: expect.stringMatching(
          new RegExp(`^of its products at least ${percent}% more work in the matrix unit, and \\d+% more memory$`),
        ),
        fix: `make feature sizes multiples of ${of}: ${Math.ceil(odd / of) * of} for ${odd}`,
      },
    ]);
  });

  test('lanes: a convolution with 64 features takes twice the memory', () => {
    const y = tx.conv2d(zeros([32, 64, 56, 56], 'bf16'), zeros([64, 64, 3, 3], 'bf16'), undefined, { padding: 1 });
    expect(tx.rules.check(y, { chip: 'v5e' })).toMatchObject([
      {
        rule: 'lanes',
        what: expect.stringContaining('not multiples of 128: 64'),
        cost: expect.stringContaining('100% more memory'),
      },
    ]);
  });

  test('products of rows in groups count for each row once, and their gradients too', () => {
    const ends = tx.zeros([8], { dtype: 'i32' });
    const dot = tx.groupedMm(zeros([4096, 100], 'bf16'), zeros([8, 100, 512], 'bf16'), ends);
    const outer = tx.groupedMm(zeros([512, 100], 'bf16'), zeros([100, 512], 'bf16'), ends);
    for (const y of [dot, outer])
      expect(tx.rules.check(y, { chip: 'v5e' })).toMatchObject([
        { rule: 'lanes', fix: 'make feature sizes multiples of 128: 128 for 100' },
      ]);
    const wide = tx.groupedMm(zeros([1024, 512]), zeros([8, 512, 256]), ends);
    expect(tx.rules.check(wide, { chip: 'v6e' })).toMatchObject([
      { rule: 'precision', what: expect.stringContaining('100% of 268 MFLOP are products in f32') },
    ]);
  });

  test('lanes: what is small beside the rest does not count, and the body of a loop counts as often as it runs', () => {
    const x = zeros([1024, 512], 'bf16');
    const odd = (h: tx.Tensor) => h.matmul(zeros([512, 10], 'bf16')).matmul(zeros([10, 512], 'bf16'));
    const even = (h: tx.Tensor) => h.matmul(zeros([512, 512], 'bf16'));
    const layers = (f: (h: tx.Tensor) => tx.Tensor) =>
      tx.scan((h: tx.Tensor, _: tx.Tensor) => [f(h), h.sum()], x, zeros([24, 1]))[0];
    expect(tx.rules.check(odd(layers(even)), { chip: 'v5e' })).toEqual([]);
    expect(tx.rules.check(even(layers(odd)), { chip: 'v5e' })).toMatchObject([{ rule: 'lanes' }]);
  });

  test('good sizes, matrices with a vector, and products of elements are fine', () => {
    const good = zeros([4096, 512], 'bf16').matmul(zeros([512, 1024], 'bf16'));
    const vector = zeros([1, 1000], 'bf16').matmul(zeros([1000, 4096], 'bf16'));
    expect(tx.rules.check([good, vector, zeros([3, 5]).mul(zeros([3, 5]))], { chip: 'v6e' })).toEqual([]);
  });

  test('precision: most of the work is in f32', () => {
    const wide = zeros([1024, 1024]).matmul(zeros([1024, 1024]));
    expect(tx.rules.check(wide, { chip: 'v6e' })).toEqual([
      {
        rule: 'precision',
        place: here,
        what: 'the graph: 100% of 2.15 GFLOP are products in f32, the largest matmul f32[1024, 1024] x f32[1024, 1024]',
        cost: 'twice the memory and the traffic of bf16, and a matrix unit that is made for bf16',
        fix: "convert weights and inputs to bf16: x.to('bf16')",
      },
    ]);
    const narrow = zeros([4096, 1024], 'bf16').matmul(zeros([1024, 1024], 'bf16'));
    expect(tx.rules.check([wide, narrow], { chip: 'v6e' })).toEqual([]); // a fifth of the work
  });

  test('a chip that is none', () =>
    expect(() => tx.rules.check(tx.ones([1]), { chip: 'h200' as never })).toThrow(
      'h200 is not a TPU: use one of v2, v3, v4, v5e, v5p, v6e, tpu7x',
    ));

  test('are looked at before a program is compiled there: on a TPU both rules, on a GPU precision, on the CPU none', () => {
    const { expr } = zeros([4096, 300]).matmul(zeros([300, 4096]));
    const isGiven = (e: unknown) => e !== expr;
    const graph = collect([expr], isGiven);
    const plan = { graph, parameters: graph.nodes.slice(0, 2), labels: () => [], aliases: [], isGiven };
    const rulesOn = (platform: string, kind: string) => {
      const request = { cause: 'compile', name: `${platform}_step` } as const;
      tx.rules.clear();
      checkProgram(describeProgram(plan, request), plan, { platform, devices: [{ kind }] }, request);
      return found();
    };
    expect(rulesOn('tpu', 'TPU v6 lite')).toEqual(['lanes', 'precision']);
    expect(rulesOn('cuda', 'NVIDIA H200')).toEqual(['precision']);
    expect(rulesOn('cpu', 'cpu')).toEqual([]);
  });

  // What libtpu 0.0.51 says that arguments take; test/slow asks it again.
  test.each([
    [[4096, 4097], 4096 * 4104],
    [[65536, 100], 65536 * 104],
    [[64, 1024, 64], 64 * 1024 * 64],
    [[32, 56, 56, 64], 32 * 56 * 56 * 128],
    [[32, 56, 56, 3], 32 * 56 * 128 * 3],
  ])('bf16%j takes the memory of %d elements', (shape, elements) =>
    expect(tiledBytes(Aval.of('bf16', shape))).toBe(2 * elements),
  );
});

describe('dispatch', () => {
  test('steps that are over before the next is started', async () => {
    const w = tx.ones([4]);
    const x = tx.ones([4]);
    await tx.sync(w, x);
    const tiny = tx.compile((x: tx.Tensor) => void w.add_(x), { name: 'tiny' });
    for (let i = 0; i < 2000 && !found().length; i++) await tiny(x);
    expect(tx.rules.findings()).toMatchObject([
      {
        rule: 'dispatch',
        place: here,
        what: expect.stringMatching(/^tiny: the device works [\d.]+ us a step$/),
        cost: expect.stringMatching(/^a step takes [\d.]+ [mu]s: the device waits for \d+% of the time$/),
        fix: 'a larger batch, or several steps in one program: tx.scan over batches',
      },
    ]);
  });

  test('steps that take longer to describe than to run', async () => {
    const w = tx.ones([4]);
    const described = () => {
      for (let i = 0; i < 100; i++) w.add_(1);
    };
    for (let i = 0; i < 1000 && !found().length; i++) await tx.step(described, { name: 'described' });
    expect(tx.rules.findings()).toMatchObject([
      {
        rule: 'dispatch',
        cost: expect.stringMatching(/ of it to describe the step again: the device waits for \d+% of the time$/),
        fix: 'compile(fn), which describes it once, or several steps in one program: tx.scan over batches',
      },
    ]);
  });

  test('a loop that waits for something else is fine', async () => {
    const w = tx.ones([4]);
    const idle = tx.compile(() => void w.add_(1), { name: 'idle' });
    for (let i = 0; i < 110; i++) {
      await idle();
      await new Promise((resolve) => setTimeout(resolve, 3)); // data that is being loaded
    }
    expect(tx.rules.findings()).toEqual([]);
  });
});

describe('modes', () => {
  test('error: what breaks a rule is thrown before it is compiled or run, and all is as it was', async () => {
    tx.rules.mode = 'error';
    const ones = (n: number) => tx.tensor(new Array(n).fill(1), { dtype: 'f32' });
    const w = tx.zeros([]);
    const sum = tx.compile((x: tx.Tensor) => void w.add_(x.sum()), { name: 'strict' });
    await sum(ones(3));
    await sum(ones(5));
    const before = { ...counts };
    for (const n of [7, 7, 9]) {
      const error: unknown = await sum(ones(n)).catch((e) => e);
      expect(error).toBeInstanceOf(tx.RuleError);
      expect(error).toMatchObject({
        rule: 'shapes',
        message: expect.stringMatching(
          /^rule shapes: strict is compiled for 3 shapes.*\n {4}at .*rules\.test\.ts:\d+\n {4}pad dim 0 to/,
        ),
      });
    }
    expect(counts).toEqual(before);
    await sum(ones(5)); // a known shape is still right
    expect(await w.item()).toBe(13);
  });

  test('error: a loop that reads at every step is stopped before its next step', async () => {
    tx.rules.mode = 'error';
    tx.rules.ignored.add('dispatch');
    const w = tx.zeros([]);
    const add = tx.compile(() => w.add_(1).mul(1), { name: 'stopped' });
    const loop = async () => {
      for (let i = 0; i < 100; i++) await (await add()).item();
    };
    await expect(loop()).rejects.toThrow(/^rule reads: stopped: values are read after 50 of 50 steps/);
    expect(await w.item()).toBe(50);
  });

  test('off, and ignored rules: nothing is looked for', async () => {
    let programs = 0;
    const loop = async (name: string) => {
      const factor = ++programs; // else the programs are known already
      const f = tx.compile((x: tx.Tensor) => x.mul(factor).sum(), { name });
      for (const n of [3, 5, 7]) await f(tx.ones([n]));
    };
    tx.rules.mode = 'off';
    await loop('unwatched');
    tx.rules.mode = 'warn';
    tx.rules.ignored.add('shapes');
    await loop('ignored');
    expect(tx.rules.findings()).toEqual([]);
    tx.rules.ignored.delete('shapes');
    await loop('watched');
    expect(found()).toEqual(['shapes']);
    expect(() => (tx.rules.mode = 'loud' as never)).toThrow('rules.mode: loud is not a mode: use warn, error, off');
  });

  const program = `
    import * as tx from 'tsxla';
    const f = tx.compile((x) => x.sum(), { name: 'f' });
    for (const n of [3, 5, 7, 9]) await f(tx.ones([n]));
    console.log(tx.rules.mode, [...tx.rules.ignored], tx.rules.findings().length);`;
  const run = (TSXLA_RULES: string) =>
    promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], {
      cwd: path.join(import.meta.dirname, '..'),
      env: { ...process.env, TSXLA_RULES },
    });

  test('TSXLA_RULES sets them, and a warning is said once', async () => {
    const [unset, off, ignored] = await Promise.all([run(''), run('off'), run('warn,-shapes,-reads')]);
    expect(unset.stdout).toBe('warn [] 1\n');
    expect(
      unset.stderr.match(
        /^tsxla: rule shapes: f is compiled for 3 shapes .*\n {4}at .*:4\n {4}pad dim 0 to 4 or 8 and mask .*$/gm,
      ),
    ).toHaveLength(1);
    // One event, one message: where the rule speaks, the compile itself is not reported as well.
    expect(unset.stderr).not.toContain('f is compiled again (3 programs now)');
    expect(unset.stderr).toContain('f is compiled again (4 programs now)');
    expect(off.stdout).toBe('off [] 0\n');
    expect(ignored.stdout).toBe("warn [ 'shapes', 'reads' ] 0\n");
    expect(off.stderr + ignored.stderr).not.toContain('tsxla: rule');
    await expect(run('error')).rejects.toThrow(/RuleError: rule shapes: f is compiled for 3 shapes/);
    await expect(run('warn,reads')).rejects.toThrow(
      'TSXLA_RULES=warn,reads is not valid: write warn, error, off, and after it rules to leave out: warn,-reads (shapes, constants, reads, pending, lanes, precision, dispatch, stale)',
    );
  });
});

test('watching a step captures no stack trace, and asks for the time once', () => {
  tx.rules.ignored.add('reads').add('dispatch');
  const program = { donated: 400 } as unknown as Parameters<typeof noteRun>[0];
  const request = { cause: 'compile', name: 'cost' } as const;
  const [captured, asked] = [vi.spyOn(Error, 'captureStackTrace'), vi.spyOn(performance, 'now')];
  try {
    for (let i = 0; i < 2_000; i++) {
      noteRun(program, request);
      noteEnd(request, 0, 0);
      noteRead(undefined, 0);
    }
    expect(captured).not.toHaveBeenCalled();
    expect(asked).toHaveBeenCalledTimes(2_000);
  } finally {
    vi.restoreAllMocks();
  }
});
