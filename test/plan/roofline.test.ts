// Counting in optimized HLO against arithmetic done by hand, and against XLA's own counts where no loop is inside.
import * as tx from 'tsxla';
import type { Client } from 'tsxla/pjrt';
import { type Cost, costOf, estimate, findChip, parseTopology } from 'tsxla/plan';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startCpu } from '../support.js';
import { goldenProgram } from './support.js';

let client: Client;
beforeAll(async () => {
  client = await startCpu();
});
afterAll(() => client.dispose());

async function count(text: string): Promise<{ cost: Cost; xla: Readonly<Record<string, number>> }> {
  using executable = await client.compile(text);
  return { cost: costOf(await executable.optimizedModule()), xla: executable.cost() };
}

/** A compiled function's program for the CPU. */
const stablehlo = (fn: (...args: tx.Tensor[]) => tx.Tensor, ...args: tx.Tensor[]): string =>
  tx.compile(fn).stablehlo(args, { platform: 'cpu' });

describe('on the CPU', () => {
  test('a product of matrices: 2 M N K', async () => {
    const { cost, xla } = await count(stablehlo((x, w) => x.matmul(w), tx.zeros([64, 128]), tx.zeros([128, 256])));
    expect(cost.productFlops).toBe(2 * 64 * 128 * 256);
    expect(cost.flops).toBe(xla['flops']);
    expect(cost.bytes).toBe(4 * (64 * 128 + 128 * 256 + 64 * 256));
  });

  test('an elementwise kernel reads its operands and writes its result once', async () => {
    const [a, b] = [tx.zeros([1000, 1000]), tx.zeros([1000, 1000])];
    const { cost } = await count(stablehlo((x, y) => x.mul(y).add(x), a, b));
    expect(cost).toMatchObject({ productFlops: 0, flops: 2e6, bytes: 3 * 4e6 });
  });

  test('a step of an MLP: three products of each weight, less the gradient of the input', async () => {
    const [B, D, H] = [32, 64, 128];
    const [w1, w2] = [tx.zeros([D, H]).requiresGrad_(), tx.zeros([H, D]).requiresGrad_()];
    const step = (x: tx.Tensor) => {
      x.matmul(w1).relu().matmul(w2).square().sum().backward();
      return w1.grad!.sum().add(w2.grad!.sum());
    };
    const { cost, xla } = await count(stablehlo(step, tx.ones([B, D])));
    expect(cost.productFlops).toBe((2 + 3) * 2 * B * D * H);
    expect(cost.flops / xla['flops']!).toBeCloseTo(1, 1);
  });

  test('a loop counts as often as it runs, and reads a slice of its stacked weights each time', async () => {
    const [N, B, D] = [7, 16, 64];
    const step = (x: tx.Tensor, w: tx.Tensor) =>
      tx.scan((h: tx.Tensor, w: tx.Tensor) => [h.matmul(w).tanh(), h.sum()], x, w)[0];
    const { cost, xla } = await count(stablehlo(step, tx.zeros([B, D]), tx.zeros([N, D, D])));
    expect(cost.openLoops).toBe(0);
    expect(cost.productFlops).toBe(N * 2 * B * D * D);
    expect(cost.productFlops).toBeGreaterThan(3 * xla['flops']!); // XLA counts the body once
    expect(cost.bytes).toBeLessThan(4 * N * (4 * D * D + 20 * B * D)); // not N times all N weights
  });

  test('a loop that ends when values say so is counted once, and told', async () => {
    const { cost } = await count(
      stablehlo(
        (x) =>
          tx.whileLoop(
            (x: tx.Tensor) => x.sum().lt(1e6),
            (x: tx.Tensor) => x.mul(2),
            x,
          ),
        tx.ones([4]),
      ),
    );
    expect(cost.openLoops).toBe(1);
    expect(estimate(cost, findChip('v6e')!).openLoops).toBe(1);
  });
});

describe('for TPUs', () => {
  test('a scanned stack with its gradient: products are convolutions, loops have no noted length', () => {
    const { module, facts } = goldenProgram('v6e-scan');
    const { N, B, D } = facts;
    const cost = costOf(module);
    expect(cost.openLoops).toBe(0);
    expect(cost.productFlops).toBe(3 * N * 2 * B * D * D);
  });

  test("what a tpu7x's SparseCores exchange is inside of a custom call", () => {
    const { module, facts } = goldenProgram('tpu7x-data');
    const [sum] = costOf(module).collectives;
    expect(sum).toMatchObject({ kind: 'all-reduce' });
    expect(sum!.bytes).toBeGreaterThanOrEqual(4 * facts.D ** 2); // the gradient
  });

  test('batches of products are convolutions in which most pairs do not meet', () => {
    const { module, facts } = goldenProgram('v6e-batched');
    const { B, T, D } = facts;
    expect(costOf(module).productFlops).toBe(2 * B * T * T * D);
  });

  test('products of rows in groups: each row meets one matrix, and matrices of groups without rows are not read', () => {
    const { module, facts } = goldenProgram('v6e-grouped');
    const { N, D } = facts;
    const { kernels, productFlops } = costOf(module);
    const grouped = kernels.filter((k) => k.flops.bf16);
    expect(grouped.length).toBe(3); // 30 rows became 32: else there would be a product of all rows with all matrices
    expect(grouped.map((k) => k.flops)).toEqual(Array(3).fill({ bf16: 2 * 32 * D * 2 * D }));
    expect(productFlops).toBe(3 * 2 * 32 * D * 2 * D);
    const matrix = 2 * D * 2 * D; // bytes
    const times = grouped.map((k) => Math.floor(k.bytes / matrix));
    expect(times.sort((a, b) => a - b)).toEqual([32, 32, N]); // the third writes a gradient for each group
  });

  test('a gather that a v5e writes as a product with ones and zeros is time, and no work of the model', () => {
    const { module, facts } = goldenProgram('v5e-lookup');
    const { rows, table, width } = facts;
    const cost = costOf(module);
    expect(cost.productFlops).toBe(0);
    expect(cost.flops).toBeLessThan(2 * rows * (table + 4 * width)); // comparing rows, and the sum of their products
    const lookup = cost.kernels.find((k) => k.flops.lookup)!;
    expect(lookup.flops).toMatchObject({ lookup: 2 * rows * table * width });
    const chip = findChip('v5e')!;
    const { computeSeconds, utilisation } = estimate(cost, chip);
    expect(computeSeconds).toBeGreaterThanOrEqual((2 * rows * table * width) / chip.peak.bf16);
    expect(utilisation).toBe(0);
  });

  test('collectives: how many, their bytes, and their time on the links of the slice', () => {
    const { module } = goldenProgram('v6e-spmd');
    const cost = costOf(module);
    const MiB = 2 ** 20;
    expect(cost.collectives).toEqual([
      { kind: 'all-reduce', count: 1, bytes: expect.closeTo(MiB, -5) },
      { kind: 'all-gather', count: 2, bytes: expect.closeTo(8 * MiB, -5) },
    ]);
    // Two sums in one exchange, of which each device keeps its parts.
    const scattered = 2 * (512 * 512 + 512 * 256);
    expect(costOf(goldenProgram('v6e-scatter').module).collectives).toEqual([
      { kind: 'reduce-scatter', count: 1, bytes: scattered },
    ]);
    const whole = estimate(cost, findChip('v6e')!);
    const real = estimate(cost, findChip('v6e')!, parseTopology('v6e-8'));
    expect(real.interconnectSeconds).toBeGreaterThan(whole.interconnectSeconds); // 2x4 chips are no closed torus
  });
});

describe('the time', () => {
  const chip = findChip('v6e')!;
  const kernel = { name: 'k', opcode: 'fusion', times: 1, flops: {}, bytes: 0, overlaps: false };
  const cost = (...kernels: Cost['kernels']): Cost => ({
    kernels,
    flops: 0,
    productFlops: 0,
    bytes: 0,
    collectives: [],
    openLoops: 0,
  });

  test('of a kernel is its arithmetic or its memory, whichever takes longer, as often as it runs', () => {
    const heavy = { ...kernel, flops: { bf16: 918e9 }, bytes: 164e6, times: 3 };
    expect(estimate(cost(heavy), chip).seconds).toBeCloseTo(3e-3, 9);
    expect(estimate(cost({ ...heavy, bytes: 16.4e9 }), chip).seconds).toBeCloseTo(30e-3, 9);
    expect(estimate(cost({ ...kernel, flops: { f32: 918e9 } }), chip).seconds).toBeCloseTo(6e-3, 9);
  });

  test('is used by products for at most all of it, whatever their precision', () => {
    const used = (flops: Cost['kernels'][number]['flops']) => estimate(cost({ ...kernel, flops }), chip).utilisation;
    expect(used({ int8: 918e9 })).toBe(1); // twice as fast as bf16, and not used twice
    expect(used({ bf16: 918e9 })).toBe(1);
    expect(used({ f32: 918e9 })).toBeCloseTo(1 / 6, 9);
    expect(used({ bf16: 1e9, vector: 1e12 })).toBeLessThan(0.1);
  });

  test('what overlaps costs no time of its own until it is the longest', () => {
    const work = { ...kernel, flops: { bf16: 918e9 } };
    const copy = { ...kernel, bytes: 820e6, overlaps: true };
    expect(estimate(cost(work, copy), chip).seconds).toBeCloseTo(1e-3, 9);
    expect(estimate(cost(work, copy, copy, copy), chip).seconds).toBeCloseTo(1.5e-3, 9);
  });

  test("of a ring: all but a device's own part goes around, twice to add and to share", () => {
    const gather = { ...kernel, collective: { kind: 'all-gather', bytes: 360e6, group: 4 } as const };
    const reduce = { ...kernel, collective: { kind: 'all-reduce', bytes: 360e6, group: 4 } as const };
    expect(estimate(cost(gather), chip).seconds).toBeCloseTo(0.75e-3, 9);
    expect(estimate(cost(reduce), chip).seconds).toBeCloseTo(1.5e-3, 9);
    expect(estimate(cost(reduce), chip, parseTopology('v6e-8')).seconds).toBeCloseTo(6e-3, 9); // one link of four
  });

  test('a GPU starts kernels one by one, which takes time too', () => {
    const h200 = findChip('h200')!;
    expect(estimate(cost({ ...kernel, times: 1000 }), h200).seconds).toBeCloseTo(1000 * h200.launch, 9);
  });
});
