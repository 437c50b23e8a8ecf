// XLACompiler for TPUs that are not here, by libtpu's own compiler.
import * as tx from 'tsxla';
import { TPUConfig, XLACompilationTimeoutError, XLACompiler } from 'tsxla/backend';
import { expect, test } from 'vitest';

const { nn } = tx;
const model = new nn.Sequential(new nn.Linear(512, 2048), new nn.GELU(), new nn.Linear(2048, 512));
const inputs = tx.zeros([256, 512]);

test('a model is compiled for a v6e and a v5p, with what it takes there', async () => {
  const compiler = new XLACompiler();
  for (const topology of ['v6e-1', 'v5p-2']) {
    const { fits, parts, peak, estimate } = await compiler.compileAheadOfTime(model, inputs, topology, { fresh: true });
    expect(fits).toBe(true);
    expect(parts.weights).toBe(4 * (2 * 512 * 2048 + 2048 + 512)); // f32
    expect(peak).toBeGreaterThan(parts.weights);
    expect(estimate.seconds).toBeGreaterThan(0);
  }
  expect(compiler.getCompilationStats()).toMatchObject({ hits: 0, misses: 0 }); // nothing here was compiled
});

test('one that takes too long ends, and says so', async () => {
  const compiler = new XLACompiler(new TPUConfig({ compilationTimeoutSeconds: 0.05 }));
  const compiling = compiler.compileAheadOfTime(model, inputs, 'v6e-1', { fresh: true });
  await expect(compiling).rejects.toThrow(XLACompilationTimeoutError);
  await expect(compiling).rejects.toThrow(/compileAheadOfTime: Sequential for v6e-1/);
});
