// What is alive at the peak, against what the compiler itself reports.
import * as tx from 'tsxla';
import { livenessOf } from 'tsxla/plan';
import { describe, expect, test } from 'vitest';
import { startCpu } from '../support.js';
import { goldenProgram } from './support.js';

describe('programs for TPUs', () => {
  // The compiler's own peak also counts what lies on the chip, so it is compared with what it allots in HBM.
  test.each(['v6e-scan', 'v6e-batched', 'v6e-spmd'])(
    '%s: the sum is what the compiler allots, within 2 percent',
    (name) => {
      const { module, memory } = goldenProgram(name);
      const live = livenessOf(module);
      const allotted = memory.arguments + memory.outputs - memory.aliased + memory.temporaries;
      expect(Math.abs(live.peak / allotted - 1)).toBeLessThan(0.02);
      expect(live.arguments + live.activations + live.temporaries).toBe(live.peak);
      expect(live.arguments / memory.arguments).toBeCloseTo(1, 2);
    },
  );

  test('what a loop leaves for its gradient is an activation, named by the op and stacked by its turns', () => {
    const { module, facts } = goldenProgram('v6e-scan');
    const { N, B, D } = facts;
    const { activations, tenLargest } = livenessOf(module);
    expect(tenLargest).toContainEqual(
      expect.objectContaining({
        class: 'activation',
        what: 'tanh',
        shape: `f32[${N},${B},${D}]`,
        bytes: 4 * N * B * D,
      }),
    );
    expect(activations).toBeGreaterThanOrEqual(4 * N * B * D);
    expect(tenLargest).toContainEqual(
      expect.objectContaining({ class: 'argument', shape: `f32[${N},${D},${D}]`, bytes: 4 * N * D * D }),
    );
  });
});

test('an argument that is updated in place is one buffer', async () => {
  using client = await startCpu();
  const n = 1 << 20;
  const w = tx.zeros([n]);
  const train = tx.compile(function train(g: tx.Tensor) {
    w.add_(g.mul(0.1));
    return w.narrow(0, 0, 1);
  });
  using executable = await client.compile(train.stablehlo([tx.zeros([n])], { platform: 'cpu' }));
  const { arguments: given, temporaries, tenLargest } = livenessOf(await executable.optimizedModule());
  expect(given).toBe(2 * 4 * n);
  expect(temporaries).toBeLessThan(1000);
  expect(
    tenLargest
      .map((b) => b.what)
      .slice(0, 2)
      .sort(),
  ).toEqual(['argument 0', 'argument 1']);
});
