// Random numbers: the cipher's published vectors, moments, reproducibility, and that drawing never compiles again.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import * as tx from 'tsxla';
import { beforeEach, expect, test } from 'vitest';
import { decodeFloats } from '../dist/base/float.js';
import { threefry2x32 } from '../dist/ops/prim/threefry.js';
import { counts } from '../dist/runtime/program.js';

beforeEach(() => void tx.manualSeed(1234));
const numbers = async (t: tx.Tensor): Promise<number[]> =>
  Array.from(decodeFloats(t.dtype, await t.data()) as ArrayLike<number | bigint>, Number);
const mean = (xs: readonly number[]) => xs.reduce((a, b) => a + b, 0) / xs.length;
const moment = (xs: readonly number[], n: number) => {
  const center = mean(xs);
  return mean(xs.map((x) => (x - center) ** n));
};

test('Threefry-2x32-20 gives the known answers of its authors', async () => {
  // key, counter, answer: from Random123's kat_vectors
  const vectors = [
    [0, 0, 0, 0, 0x6b200159, 0x99ba4efe],
    [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x1cb996fc, 0xbb002be7],
    [0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3, 0xc4923a9c, 0x483df7a0],
  ];
  const column = (i: number) => tx.tensor(Uint32Array.from(vectors, (v) => v[i]!)).expr;
  const [x0, x1] = threefry2x32(column(0), column(1), column(2), column(3));
  expect([await numbers(new tx.Tensor(x0)), await numbers(new tx.Tensor(x1))]).toEqual([
    vectors.map((v) => v[4]),
    vectors.map((v) => v[5]),
  ]);
});

test('the seed is the key, and element i of a draw has counter i', async () => {
  tx.manualSeed(0x0370734413198a2en);
  const key = [0x13198a2e, 0x03707344].map((k) => tx.tensor(Uint32Array.of(k, k, k, k)).expr);
  const [x0] = threefry2x32(
    key[0]!,
    key[1]!,
    tx.tensor(Uint32Array.of(0, 1, 2, 3)).expr,
    tx.tensor(new Uint32Array(4)).expr,
  );
  const want = (await numbers(new tx.Tensor(x0))).map((bits) => (bits >>> 8) / 2 ** 24);
  expect(await numbers(tx.rand([4]))).toEqual(want);
});

test('the counter carries over into its upper word', async () => {
  const g = new tx.Generator(7);
  const at = (lo: number, hi: number) => g.setState(tx.tensor(Uint32Array.of(7, 0, lo, hi)));
  const across = await numbers(tx.rand([4], { generator: at(0xfffffffe, 5) }));
  const state = await numbers(g.state);
  expect(state).toEqual([7, 0, 2, 6]);
  const before = await numbers(tx.rand([2], { generator: at(0xfffffffe, 5) }));
  const after = await numbers(tx.rand([2], { generator: at(0, 6) }));
  expect(across).toEqual([...before, ...after]);
});

// LLVM's search for checksums met the rounds of the cipher in such loops, and never came back (ops/prim/threefry.ts).
test.each([[[16]], [[5, 16]], [[4, 32]]])('the extremes of a draw of %j compile', async (shape) => {
  for (const draw of [() => tx.rand(shape), () => tx.rand(shape, { dtype: 'f64' }), () => tx.randn(shape)]) {
    tx.manualSeed(5);
    const [first, second] = [await numbers(draw()), await numbers(draw())];
    tx.manualSeed(5);
    const extremes = [await numbers(draw().min()), await numbers(draw().max())];
    expect(extremes).toEqual([[Math.min(...first)], [Math.max(...second)]]);
  }
});

test('the same seed gives the same numbers, another gives others', async () => {
  const a = await numbers(tx.rand([100]));
  expect(await numbers(tx.manualSeed(1234) && tx.rand([100]))).toEqual(a);
  expect(await numbers(tx.rand([100]))).not.toEqual(a);
  expect(await numbers(tx.manualSeed(1235) && tx.rand([100]))).not.toEqual(a);
});

test('numbers do not depend on how the shape is cut: 12 = 3 x 4 = 5 and 7', async () => {
  const whole = await numbers(tx.rand([12]));
  tx.manualSeed(1234);
  expect(await numbers(tx.rand([3, 2, 2]))).toEqual(whole);
  tx.manualSeed(1234);
  const [a, b] = [tx.rand([5]), tx.rand([7])];
  expect([...(await numbers(a)), ...(await numbers(b))]).toEqual(whole);
  for (const dtype of ['f64', 'f32'] as const) {
    tx.manualSeed(1234);
    const normal = await numbers(tx.randn([6], { dtype }));
    tx.manualSeed(1234);
    expect([...(await numbers(tx.randn([3], { dtype }))), ...(await numbers(tx.randn([3], { dtype })))]).toEqual(
      normal,
    );
  }
});

test('a state can be kept and put back', async () => {
  const g = new tx.Generator(5);
  tx.rand([3], { generator: g });
  const state = g.getState();
  const a = await numbers(tx.rand([4], { generator: g }));
  g.setState(state);
  expect(await numbers(tx.rand([4], { generator: g }))).toEqual(a);
  expect([g.initialSeed(), new tx.Generator().initialSeed()]).toEqual([5n, 67280421310721n]);
  expect(g.seed()).toBe(g.initialSeed());
});

const N = 100_000; // a mean of N numbers is off by less than 5 of its own deviations

test.each(['f32', 'f64', 'bf16', 'f16'] as const)('rand in %s is uniform', async (dtype) => {
  const xs = await numbers(tx.rand([N], { dtype }));
  expect(Math.min(...xs.slice(0, 50_000))).toBeGreaterThanOrEqual(0);
  expect(xs.every((x) => x < 1)).toBe(true);
  const step = { f32: 2 ** -24, f64: 2 ** -53, bf16: 2 ** -8, f16: 2 ** -11 }[dtype];
  expect(Math.abs(mean(xs) - (0.5 - step / 2))).toBeLessThan((5 * Math.sqrt(1 / 12)) / Math.sqrt(N));
  const bins = new Array(64).fill(0);
  for (const x of xs) bins[Math.floor(x * 64)]++;
  const chi2 = bins.reduce((s, n) => s + (n - N / 64) ** 2 / (N / 64), 0);
  expect(chi2).toBeLessThan(63 + 5 * Math.sqrt(2 * 63));
  expect(chi2).toBeGreaterThan(63 - 5 * Math.sqrt(2 * 63));
  const neighbours = mean(xs.slice(1).map((x, i) => (x - 0.5) * (xs[i]! - 0.5)));
  expect(Math.abs(neighbours)).toBeLessThan(5 / 12 / Math.sqrt(N));
});

test.each(['f32', 'f64'] as const)('randn in %s is normal', async (dtype) => {
  const xs = await numbers(tx.randn([N], { dtype }));
  expect(Math.abs(mean(xs))).toBeLessThan(5 / Math.sqrt(N));
  expect(Math.abs(moment(xs, 2) - 1)).toBeLessThan(5 * Math.sqrt(2 / N));
  expect(Math.abs(moment(xs, 3))).toBeLessThan(5 * Math.sqrt(15 / N));
  expect(Math.abs(moment(xs, 4) - 3)).toBeLessThan(5 * Math.sqrt(96 / N));
  const within = (s: number) => xs.filter((x) => Math.abs(x) < s).length / N;
  for (const [s, p] of [
    [1, 0.682689],
    [2, 0.9545],
    [3, 0.9973],
  ] as const)
    expect(Math.abs(within(s) - p)).toBeLessThan(5 * Math.sqrt((p * (1 - p)) / N));
  expect(xs.every(Number.isFinite)).toBe(true);
});

test('the largest and smallest words give finite normal and exponential numbers', async () => {
  const { open, unit } = await import('../dist/ops/prim/threefry.js');
  const pair = [0, 0].map(() => tx.tensor(Uint32Array.of(0, 0xffffffff, 0x80000000)).expr) as never;
  expect(await numbers(new tx.Tensor(open(pair, 'f32')))).toEqual([2 ** -33, 1 - 2 ** -24, 0.5]);
  expect(await numbers(new tx.Tensor(open(pair, 'f64')))).toEqual([2 ** -54, 1 - 2 ** -53, expect.closeTo(0.5)]);
  expect(await numbers(new tx.Tensor(unit(pair, 'f32')))).toEqual([0, 1 - 2 ** -24, 0.5]);
});

test('randint covers its range evenly, ends included', async () => {
  const xs = await numbers(tx.randint(-3, 4, [70_000]));
  for (let v = -3; v < 4; v++) {
    const n = xs.filter((x) => x === v).length;
    expect(Math.abs(n - 10_000)).toBeLessThan(5 * Math.sqrt((10_000 * 6) / 7));
  }
  const wide = await tx.randint(-(2n ** 62n), 2n ** 62n, [1000]).data();
  expect([...(wide as BigInt64Array)].filter((x) => x < 0n).length).toBeGreaterThan(400);
  expect(tx.randint(0, 10, [2], { dtype: 'i32' }).dtype).toBe('i32');
  expect(await numbers(tx.randint(5, 6, [3], { dtype: 'u8' }))).toEqual([5, 5, 5]);
});

test('normal takes means and deviations, and its gradient goes to both', async () => {
  const xs = await numbers(tx.normal(3, 2, { shape: [N] }));
  expect(Math.abs(mean(xs) - 3)).toBeLessThan(10 / Math.sqrt(N));
  expect(Math.abs(Math.sqrt(moment(xs, 2)) - 2)).toBeLessThan(10 / Math.sqrt(2 * N));
  const [m, s] = [tx.tensor([1, 2], { dtype: 'f32', requiresGrad: true }), tx.tensor(0.5, { requiresGrad: true })];
  const y = tx.normal(m, s);
  y.sum().backward();
  expect(await numbers(m.grad!)).toEqual([1, 1]);
  const z = (await numbers(y)).map((v, i) => (v - (i + 1)) / 0.5);
  expect(await numbers(s.grad!)).toEqual([expect.closeTo(z[0]! + z[1]!, 5)]);
});

test('bernoulli, in the dtype of the probabilities', async () => {
  const p = tx.tensor([0, 0.25, 1], { dtype: 'f32' });
  const draws = await numbers(p.mul(tx.ones([20_000, 1])).bernoulli());
  const part = (k: number) => mean(draws.filter((_, i) => i % 3 === k));
  expect([part(0), part(2)]).toEqual([0, 1]);
  expect(Math.abs(part(1) - 0.25)).toBeLessThan(5 * Math.sqrt(0.1875 / 20_000));
});

test('randperm holds every number once, in another order each time', async () => {
  const [a, b] = [await numbers(tx.randperm(500)), await numbers(tx.randperm(500))];
  expect(a.toSorted((x, y) => x - y)).toEqual(Array.from({ length: 500 }, (_, i) => i));
  expect(a).not.toEqual(b);
  expect(await numbers(tx.randperm(0))).toEqual([]);
  const firsts = new Array(4).fill(0);
  for (let i = 0; i < 400; i++) firsts[(await numbers(tx.randperm(4)))[0]!]++;
  for (const n of firsts) expect(Math.abs(n - 100)).toBeLessThan(5 * Math.sqrt(75));
});

test('multinomial with replacement has the given frequencies', async () => {
  const xs = await numbers(tx.multinomial(tx.tensor([1, 0, 3, 4], { dtype: 'f32' }), 16_000, { replacement: true }));
  for (const [k, p] of [1 / 8, 0, 3 / 8, 4 / 8].entries()) {
    const n = xs.filter((x) => x === k).length / xs.length;
    expect(Math.abs(n - p)).toBeLessThanOrEqual(5 * Math.sqrt((p * (1 - p)) / xs.length));
  }
  expect(tx.multinomial(tx.ones([3, 5]), 2, { replacement: true }).shape).toEqual([3, 2]);
});

test('multinomial without replacement draws each index once, the likely ones first', async () => {
  const p = tx.tensor([0.5, 0, 0.3, 0.2], { dtype: 'f32' }).mul(tx.ones([8000, 1]));
  const xs = await numbers(p.multinomial(3));
  const rows = Array.from({ length: 8000 }, (_, i) => xs.slice(3 * i, 3 * i + 3));
  expect(rows.every((r) => new Set(r).size === 3 && !r.includes(1))).toBe(true);
  const first = rows.filter((r) => r[0] === 0).length / 8000;
  expect(Math.abs(first - 0.5)).toBeLessThan(5 * Math.sqrt(0.25 / 8000));
  const second = rows.filter((r) => r[0] === 0 && r[1] === 2).length / 8000; // 0.5 * 0.3 / 0.5
  expect(Math.abs(second - 0.3)).toBeLessThan(5 * Math.sqrt(0.21 / 8000));
});

test('dropout keeps the mean, and its gradient has the same mask', async () => {
  const x = tx.ones([20_000], { requiresGrad: true });
  const y = tx.dropout(x, { p: 0.3 });
  y.sum().backward();
  const [ys, gs] = [await numbers(y), await numbers(x.grad!)];
  expect(gs).toEqual(ys);
  expect(new Set(ys)).toEqual(new Set([0, Math.fround(1 / 0.7)]));
  expect(Math.abs(ys.filter((v) => v === 0).length / 20_000 - 0.3)).toBeLessThan(5 * Math.sqrt(0.21 / 20_000));
  expect(await numbers(tx.dropout(x, { training: false }).sum())).toEqual([20_000]);
  expect(await numbers(tx.dropout(x, { p: 0 }).sum())).toEqual([20_000]);
  expect(await numbers(tx.dropout(x, { p: 1 }).sum())).toEqual([0]);
});

test('in place: a variable stays one', async () => {
  const w = tx.zeros([1000], { requiresGrad: true });
  expect(w.uniform_(-2, 3)).toBe(w);
  const xs = await numbers(w);
  expect(Math.min(...xs)).toBeGreaterThanOrEqual(-2);
  expect(Math.max(...xs)).toBeLessThanOrEqual(3);
  expect([w.requiresGrad, w.isLeaf]).toEqual([true, true]);
  w.mul(2).sum().backward();
  expect(await numbers(w.grad!.sum())).toEqual([2000]);
  const e = await numbers(tx.zeros([N]).exponential_(4));
  expect(Math.abs(mean(e) - 0.25)).toBeLessThan((5 * 0.25) / Math.sqrt(N));
  expect(Math.min(...e.slice(0, 50_000))).toBeGreaterThan(0);
  const n = await numbers(tx.zeros([N]).normal_(1, 3));
  expect(Math.abs(mean(n) - 1)).toBeLessThan(15 / Math.sqrt(N));
  const b = await numbers(tx.zeros([N]).bernoulli_(0.1));
  expect(Math.abs(mean(b) - 0.1)).toBeLessThan(5 * Math.sqrt(0.09 / N));
});

test('like another tensor', () => {
  const x = tx.zeros([2, 3], { dtype: 'f64' });
  expect([tx.randLike(x), tx.randnLike(x, { dtype: 'f32' })].map((t) => `${t.dtype} ${t.shape}`)).toEqual([
    'f64 2,3',
    'f32 2,3',
  ]);
});

test('drawing again runs the same program: nothing is compiled, whatever the seed', async () => {
  const step = async () =>
    numbers(
      tx
        .rand([3])
        .add(tx.dropout(tx.ones([3])))
        .add(tx.randn([3])),
    );
  const first = await step();
  const { compiled, executed } = counts;
  const more = [await step(), await step()];
  tx.manualSeed(99);
  more.push(await step());
  expect(new Set([first, ...more].map(String)).size).toBe(4);
  expect(counts.compiled - compiled).toBe(0);
  expect(counts.executed - executed).toBe(3); // the generator's next state comes with the numbers
});

test('a draw in the body of a loop is another one in each pass, and the generator continues after it', async () => {
  const [, ys] = tx.scan((c: tx.Tensor, _x: null) => [c, tx.rand([2])] as const, tx.zeros([]), null, { length: 3 });
  const after = tx.rand([2]);
  const got = [...(await numbers(ys)), ...(await numbers(after))];
  tx.manualSeed(1234);
  expect(got).toEqual(await numbers(tx.rand([8])));
});

test("dropout in a loop: the gradient sees each pass's own mask", async () => {
  const x = tx.ones([1000], { requiresGrad: true });
  const [y] = tx.scan((c: tx.Tensor, _: null) => [tx.dropout(c, { p: 0.2 }), null] as const, x, null, { length: 3 });
  y.sum().backward();
  const ys = await numbers(y);
  expect(await numbers(x.grad!)).toEqual(ys);
  expect(Math.abs(ys.filter((v) => v > 0).length / 1000 - 0.512)).toBeLessThan(5 * Math.sqrt(0.25 / 1000)); // 0.8 ** 3
});

test('a draw in a branch counts only if the branch is taken', async () => {
  const run = async (yes: boolean) => {
    tx.manualSeed(1234);
    const y = tx.cond(
      tx.tensor(yes),
      () => tx.rand([2]),
      () => tx.zeros([2]),
    );
    return [...(await numbers(y)), ...(await numbers(tx.rand([2])))];
  };
  tx.manualSeed(1234);
  const all = await numbers(tx.rand([4]));
  expect(await run(true)).toEqual(all);
  expect(await run(false)).toEqual([0, 0, ...all.slice(0, 2)]);
});

test('a draw in a while, and inside a loop in a loop', async () => {
  const [, total] = tx.whileLoop(
    ([i]) => i.lt(3),
    ([i, sum]) => [i.add(1), sum.add(tx.rand([]))] as [tx.Tensor, tx.Tensor],
    [tx.tensor(0), tx.zeros([])] as [tx.Tensor, tx.Tensor],
  );
  const nested = tx.foriLoop(
    0,
    2,
    (_i, c: tx.Tensor) => tx.foriLoop(0, 2, (_j, d: tx.Tensor) => d.add(tx.rand([])), c),
    tx.zeros([]),
  );
  const got = [...(await numbers(total)), ...(await numbers(nested))];
  tx.manualSeed(1234);
  const all = await numbers(tx.rand([7]));
  const sum = (xs: number[]) => xs.reduce((a, b) => Math.fround(a + b), 0);
  expect(got).toEqual([sum(all.slice(0, 3)), sum(all.slice(3))]);
});

test('a generator of its own continues after a checkpoint, with its first seed', async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-generator-'));
  try {
    const generator = new tx.Generator(7);
    tx.rand([3], { generator });
    await new tx.io.CheckpointManager(dir, { background: false }).save(1, { generator });
    const want = await numbers(tx.rand([3], { generator }));
    const other = new tx.Generator(8);
    await new tx.io.CheckpointManager(dir).load({ generator: other });
    expect(await numbers(tx.rand([3], { generator: other }))).toEqual(want);
    expect(other.initialSeed()).toBe(7n);
  } finally {
    fs.rmSync(dir, { recursive: true, force: true });
  }
  const third = new tx.Generator(1);
  expect(() => third.loadStateDict({ state: tx.zeros([4]), seed: 1n })).toThrow('the state must be u32[4], got f32[4]');
  expect(() => third.loadStateDict({ state: 3 as never, seed: 1n })).toThrow(
    'Generator.loadStateDict: the state is the number 3: it must be u32[4]',
  );
});
