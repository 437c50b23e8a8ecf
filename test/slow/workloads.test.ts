// Plans, asked of the TPU's own compiler: of a user's function by its names and lines, and of workloads of a model so small that a
// compile takes seconds.
import * as tx from 'tsxla';
import { ask, compileAhead, plan } from 'tsxla/plan';
import { pageOf, planWorkload, reportOf } from 'tsxla/workloads';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { scratch } from '../scratch.js';
import { tsxla } from '../support.js';

beforeAll(async () => {
  const { status, stderr } = await tsxla(['plugins', 'path', 'tpu']);
  if (status) expect((await tsxla(['plugins', 'install', 'tpu'])).status, stderr).toBe(0);
}, 600_000);

describe("a user's function", () => {
  const model = new tx.nn.Sequential(new tx.nn.Linear(4096, 16384), new tx.nn.ReLU(), new tx.nn.Linear(16384, 4096));
  const optimizer = new tx.optim.AdamW(model.namedParameters(), { lr: 1e-3 });
  const train = (x: tx.Tensor) => {
    const loss = model.forward(x).square().mean();
    loss.backward();
    optimizer.step();
    optimizer.zeroGrad();
    return loss;
  };
  const weights = 4 * (2 * 4096 * 16384 + 16384 + 4096);

  test('fits: memory by its parts, work by hand, and nothing was computed', async () => {
    const batch = { dtype: 'f32', shape: [512, 4096] } as const;
    const p = await plan(train, [batch], 'v6e-1', { names: model.namedParameters() });
    expect(p.fits).toBe(true);
    expect(p.parts.weights).toBeGreaterThanOrEqual(weights);
    expect(p.parts.weights).toBeLessThan(1.001 * weights);
    expect(p.parts.state).toBeGreaterThanOrEqual(2 * weights);
    expect(p.parts.batch).toBe(4 * 512 * 4096);
    const { code, ...data } = p.parts;
    expect(Object.values(data).reduce((a, b) => a + b)).toBeCloseTo(p.peak, -6);
    expect(p.estimate.flops).toBeGreaterThan(5 * 2 * 512 * 4096 * 16384); // of three products forward and back, one needs no gradient
    expect(p.estimate.seconds).toBeGreaterThan((3 * weights) / 1640e9); // all weights and state are read
    expect(p.largest.map((b) => b.what)).toEqual(expect.arrayContaining(['0.weight', '2.weight']));
    expect(tx.metrics.counter('ExecuteComputation') ?? 0).toBe(0);
  });

  test('is asked once', async () => {
    vi.stubEnv('TSXLA_CACHE', 'on');
    const args = [{ dtype: 'f32', shape: [128, 4096] }];
    const first = await plan(train, args, 'v6e-1', { fresh: true });
    const again = await plan(train, args, 'v6e-1');
    expect([first.cached, again.cached]).toEqual([false, true]);
    expect({ ...again, cached: false }).toEqual(first);
    vi.unstubAllEnvs();
  });

  test('does not fit: by how much, as the compiler says without us, and where the largest buffers were made', async () => {
    const x = tx.zeros([400_000, 4096]);
    const p = await plan(train, [x], 'v6e-1');
    expect(p.fits).toBe(false);
    expect(p.shortage).toBe(p.peak - p.available);
    expect(p.largest.some((b) => b.source?.includes('workloads.test.ts:'))).toBe(true);
    const text = tx.compile(train).stablehlo([x], { platform: 'tpu' });
    const refusal = await compileAhead(text, { topology: 'v6e:1x1' }).catch((e: Error) => e);
    expect(refusal).toBeInstanceOf(tx.OutOfMemoryError);
  });

  test('what is no plan is an error in one sentence', async () => {
    await expect(plan(train, [], 'v6e-3')).rejects.toThrow('there is no v6e slice of 3 chips');
    await expect(plan(train, tx.zeros([1]) as never, 'v6e-1')).rejects.toThrow('pass them as a list, [x, y]');
    await expect(plan(7 as never, [], 'v6e-1')).rejects.toThrow('plan: expected a function, got');
    await expect(plan((x: tx.Tensor) => x, [{ dtype: 'float32', shape: [2] }], 'v6e-1')).rejects.toThrow(
      "plan: dtype 'float32' is written 'f32'",
    );
  });

  test('a compile that takes too long is an error', async () => {
    const text = tx.compile((x: tx.Tensor) => x.add(1)).stablehlo([tx.zeros([3])], { platform: 'tpu' });
    const late = ask('late', text, { topology: 'v6e:1x1', timeoutSeconds: 0.05, fresh: true });
    await expect(late).rejects.toThrow('libtpu compiling for v6e:1x1: no answer within 0.05 s');
  });
});

describe('workloads', () => {
  const sizes = { vocab_size: 512, hidden_size: 128, intermediate_size: 256, num_hidden_layers: 2, head_dim: 32 };
  const heads = { num_attention_heads: 4, num_key_value_heads: 2, tie_word_embeddings: true, torch_dtype: 'bfloat16' };
  const { file } = scratch('plan');
  const config = (name: string, more: object = {}) =>
    file(name, JSON.stringify({ model_type: 'qwen3', ...sizes, ...heads, ...more }));
  const model = config('config.json');

  test('over more devices: less on each, with collectives between them', async () => {
    const wide = config('wide.json', { hidden_size: 256, intermediate_size: 512 }); // large enough to be split
    const { rows } = await planWorkload({
      model: wide,
      workload: 'full',
      tpus: ['v6e-1', 'v6e-4'],
      batches: [2],
      seq: 64,
    });
    const of = (tpu: string, mesh: object) =>
      rows.find((r) => r.tpu === tpu && JSON.stringify(r.settings.mesh) === JSON.stringify(mesh))!.programs[0]!.plan;
    const [one, data, fsdp] = [of('v6e-1', {}), of('v6e-4', { data: 4 }), of('v6e-4', { fsdp: 4 })];
    expect(data.parts.weights).toBe(one.parts.weights);
    expect(fsdp.parts.state).toBeLessThan(one.parts.state / 2);
    expect(one.estimate.collectives).toEqual([]);
    expect(data.estimate.collectives.map((c) => c.kind)).toContain('all-reduce');
    expect(fsdp.estimate.collectives.map((c) => c.kind)).toContain('all-gather');
  });

  test('what does not fit is explained, and what would help was tried; another row that fails leaves it alone', async () => {
    const found = await planWorkload({
      model,
      workload: 'full',
      tpus: ['v5e-1'],
      batches: [1, 12_000],
      seq: 128,
      remat: 'none',
    });
    expect(found.rows.map((r) => r.fits)).toEqual([true, false]);
    const { remedies } = found.rows[1]!;
    expect(remedies!.map((r) => r.flag)).toEqual(['--batch 6000', '--remat']);
    expect(remedies!.find((r) => r.what === 'remat')).toMatchObject({ fits: true });
    const text = reportOf(found);
    expect(text).toContain('models/decoder.ts:');
    expect(text).toMatch(/remat +[\d.]+ GiB, fits +--remat/);
    expect(text).toContain('Of 2 combinations, take v5e-1, batch 1:');
    const page = pageOf(found);
    const data = /<script type="application\/json" id="plan">(.*?)<\/script>/s.exec(page)![1]!;
    expect(JSON.parse(data).rows).toHaveLength(2);
    expect(page).not.toMatch(/https?:\/\/(?!jax-ml|docs\.cloud|www\.nvidia)/);
  });

  test('compiles that take too long are rows that say so', async () => {
    const { rows } = await planWorkload({
      model,
      workload: 'full',
      tpus: ['v6e-1'],
      batches: [3],
      timeoutSeconds: 0.05,
      fresh: true,
    });
    expect(rows[0]).toMatchObject({ fits: false, error: 'libtpu compiling for v6e:1x1: no answer within 0.05 s' });
    expect(reportOf({ model: { name: 'w', config: {} as never }, workload: 'full', rows, looked: [] })).toContain(
      'timed out',
    );
  });
});
