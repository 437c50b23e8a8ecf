// TPUOptimizer: what it says of its changes is so, and what makes outputs drift is undone.
import * as tx from 'tsxla';
import {
  basicConfig,
  KernelPyTorchConfig,
  TPUConfig,
  TPUConfigurationError,
  TPUOptimizationError,
  TPUOptimizer,
  TPUValidationError,
} from 'tsxla/backend';
import { beforeEach, describe, expect, test } from 'vitest';

const { nn } = tx;
let logged: string[] = [];
beforeEach(() => {
  tx.manualSeed(7);
  logged = [];
  basicConfig({ write: (line) => void logged.push(line) });
});

const optimizer = new TPUOptimizer();
const block = () => new nn.Sequential(new nn.Linear(16, 32), new nn.GELU(), new nn.Linear(32, 16));
const mlp = () => new nn.Sequential(new nn.Linear(8, 16), block(), block(), block(), new nn.Linear(16, 4));
const numbers = async (t: tx.Tensor) => Array.from(await t.data(), Number);
const bits = async (model: tx.nn.Module) =>
  Promise.all([...model.stateDict()].map(async ([name, t]) => [name, t.dtype, String(await t.data())]));
const norm = (xs: number[]) => Math.hypot(...xs);
const distance = (a: number[], b: number[]) => norm(a.map((x, i) => x - b[i]!)) / norm(a);
const wrapped = (model: tx.nn.Module) => model.modules().filter((m) => Object.hasOwn(m, 'forward')).length;
const applied = (result: { changes: readonly { name: string; status: string }[] }, status = 'applied') =>
  result.changes.filter((c) => c.status === status).map((c) => c.name);

describe('the result', () => {
  test('of balanced training: what was done, what it cost, and how far outputs are', async () => {
    const [model, x] = [mlp(), tx.randn([256, 8])];
    const before = await numbers(model.forward(x));
    const result = await optimizer.optimize(model, x);
    const same: tx.nn.Sequential = result.optimizedModel; // by its type, too
    expect(same).toBe(model);
    expect([result.optimizationLevel, result.purpose]).toEqual(['balanced', 'training']);
    expect(applied(result)).toEqual(['bf16 linears', 'checkpointing']);
    expect(result.changes[2]).toEqual({
      name: 'fused attention',
      status: 'none',
      what: 'it has no MultiheadAttention',
    });

    const { before: was, after, speedup, memorySaved } = result.performanceMetrics!;
    for (const m of [was, after]) for (const n of Object.values(m)) expect(n).toBeGreaterThan(0);
    expect(speedup).toBe(was.stepTime / after.stepTime);
    expect(memorySaved).toBe(was.memory - after.memory);
    expect(memorySaved).toBeGreaterThan(0);
    expect(was.weights).toBe(after.weights);

    const drift = distance(before, await numbers(model.forward(x)));
    expect(drift).toBeGreaterThan(0);
    expect(result.comparison!.relativeError).toBeCloseTo(drift, 6);
    expect(result.comparison).toMatchObject({ tolerance: 0.05, outputs: 1 });
    expect(result.changes[0]!.drift).toBe(result.comparison!.relativeError);
    expect(result.memoryUsage.weights).toBe(was.weights);
    expect(result.memoryUsage.live).toBeGreaterThan(was.weights);
    expect(result.optimizationTime).toBeGreaterThan(was.compileTime);
    expect(String(result)).toMatch(
      /^Sequential, balanced, for training, in .*\n +change +status +drift\n +bf16 linears +applied +\S+ +8 Linear layers multiply/,
    );
    expect(String(result)).toMatch(/ +before +after\n +stepTime .*\n +memory .*\n +compileTime .*\n +weights .*\n/);
  });

  test('of inference: bf16 weights take half the memory', async () => {
    const [model, x] = [mlp(), tx.randn([4, 8])];
    const before = await numbers(model.forward(x));
    const result = await optimizer.optimizeForInference(model, x);
    expect([result.optimizationLevel, result.purpose]).toEqual(['conservative', 'inference']);
    const { performanceMetrics } = result;
    expect(performanceMetrics!.after.weights).toBe(performanceMetrics!.before.weights / 2);
    expect(performanceMetrics!.after.memory).toBeLessThan(0.7 * performanceMetrics!.before.memory);
    expect(distance(before, await numbers(model.forward(x)))).toBeLessThan(0.01);
  });

  test('of aggressive training of Qwen3: every change that fits is there, and weights and gradients are left alone', async () => {
    const sizes = { vocabSize: 32, hiddenSize: 16, intermediateSize: 24, numHiddenLayers: 3, numAttentionHeads: 2 };
    const model = new tx.models.Qwen3ForCausalLM({ ...sizes, numKeyValueHeads: 1, headDim: 8 });
    const result = await optimizer.optimizeForTraining(model, tx.randint(32, [2, 6]), 'aggressive', { runs: 1 });
    expect(applied(result)).toEqual(['bf16 linears', 'checkpointing', 'everything in bf16', 'scanned layers']);
    expect(applied(result, 'undone')).toEqual([]);
    expect(result.comparison!.relativeError).toBeLessThan(0.02);
    expect(model.parameters().every((p) => p.dtype === 'f32' && p.grad === null)).toBe(true);
  });

  test('of inference: and the device has that memory back', async () => {
    const [model, x] = [new nn.Linear(1024, 1024), tx.ones([1, 1024])];
    await tx.sync();
    const { live } = (await optimizer.optimize(mlp(), undefined, 'conservative')).memoryUsage;
    const { memoryUsage } = await optimizer.optimizeForInference(model, x);
    expect(live - memoryUsage.live).toBeGreaterThan(0.9 * 2 * 1024 ** 2);
  });

  test("the configuration's mode is the purpose", async () => {
    const inference = new TPUOptimizer(new KernelPyTorchConfig({ mode: 'inference' }));
    expect((await inference.optimize(mlp(), undefined, 'conservative')).purpose).toBe('inference');
    expect((await optimizer.optimize(mlp(), undefined, 'conservative')).purpose).toBe('training');
  });
});

/** What bf16 cannot tell apart: sums near ten thousand. */
class Fragile extends nn.Module {
  readonly fc = new nn.Linear(8, 8);
  override forward(x: tx.Tensor): tx.Tensor {
    return this.fc.forward(x.add(1e4)).sub(this.fc.forward(x.mul(0).add(1e4)));
  }
}

describe('a change is undone', () => {
  test('where outputs drift, and the model is what it was bit for bit', async () => {
    for (const purpose of ['inference', 'training'] as const) {
      const [model, x] = [new Fragile(), tx.randn([4, 8])];
      const [weights, outputs] = [await bits(model), await numbers(model.forward(x))];
      const result = await optimizer.optimize(model, x, 'conservative', { purpose });
      const [change] = result.changes;
      expect(change).toMatchObject({ name: 'bf16 linears', status: 'undone' });
      expect(change!.drift).toBeGreaterThan(0.05);
      expect(change!.what).toMatch(/^outputs drift by [\d.]+, 0.05 is allowed$/);
      expect(logged.join('')).toContain('WARNING - change undone model=Fragile change=bf16 linears');
      expect(wrapped(model)).toBe(0);
      expect(await bits(model)).toEqual(weights);
      expect(await numbers(model.forward(x))).toEqual(outputs);
      expect(result.comparison).toMatchObject({ maxAbsoluteError: 0, relativeError: 0 });
      expect(result.performanceMetrics).toMatchObject({ speedup: 1, memorySaved: 0 });
    }
  });

  test('by the tolerance that is given', async () => {
    const [model, x] = [mlp(), tx.randn([4, 8])];
    const strict = await optimizer.optimizeForInference(model, x, 'conservative', { tolerance: 1e-6 });
    expect(applied(strict, 'undone')).toEqual(['bf16 linears']);
    expect(model.parameters()[0]!.dtype).toBe('f32');
    expect(applied(await optimizer.optimizeForInference(model, x))).toEqual(['bf16 linears']);
  });

  test('where numbers become infinite', async () => {
    class Steep extends nn.Module {
      readonly fc = new nn.Linear(1, 1, { bias: false });
      override forward(x: tx.Tensor): tx.Tensor {
        return tx.ones([1]).div(this.fc.forward(x).sub(1)); // 1.001 is 1 in bf16
      }
    }
    const model = new Steep();
    tx.noGrad(() => model.fc.weight.fill_(1.001));
    const { changes } = await optimizer.optimizeForInference(model, tx.ones([1, 1]));
    expect(changes[0]).toMatchObject({ status: 'undone', drift: Number.POSITIVE_INFINITY });
  });

  test('where it takes away what the model needs', async () => {
    class Looking extends nn.Module {
      readonly attention = new nn.MultiheadAttention(8, 2, { batchFirst: true });
      override forward(x: tx.Tensor): tx.Tensor {
        const [y, weights] = this.attention.forward(x, x, x);
        return weights!.matmul(y);
      }
    }
    class Showing extends Looking {
      override forward(x: tx.Tensor): never {
        return this.attention.forward(x, x, x) as never;
      }
    }
    for (const [model, why] of [
      [new Looking(), /^it failed: .*null/],
      [new Showing(), /^outputs drift by Infinity/],
    ] as const) {
      const { changes } = await optimizer.optimizeForInference(model, tx.randn([2, 4, 8]), 'balanced');
      const change = changes.find((c) => c.name === 'fused attention');
      expect(change).toMatchObject({ status: 'undone', what: expect.stringMatching(why) });
      expect(wrapped(model.attention)).toBe(1); // outProj, in bf16
    }
  });
});

describe('measuring', () => {
  test('leaves gradients, running statistics, random states and training flags as they are', async () => {
    const own = new tx.Generator(5);
    class Noise extends nn.Module {
      override forward(x: tx.Tensor): tx.Tensor {
        return x.add(tx.rand([8], { generator: own }));
      }
    }
    const model = new nn.Sequential(
      new nn.Linear(8, 8),
      new nn.BatchNorm1d(8),
      new nn.Dropout(0.5),
      new Noise(),
      new nn.Linear(8, 2),
    );
    const x = tx.randn([16, 8]);
    model.forward(x).square().mean().backward();
    model.at(2).eval();
    const state = async () => ({
      weights: await bits(model),
      gradients: await Promise.all(model.parameters().map((p) => numbers(p.grad!))),
      random: [await numbers(tx.defaultGenerator.state), await numbers(own.state)],
      training: model.modules().map((m) => m.training),
    });
    const before = await state();
    const grads = model.parameters().map((p) => p.grad);
    await optimizer.optimizeForTraining(model, x, 'balanced');
    expect(await state()).toEqual(before);
    expect(model.parameters().every((p, i) => p.grad === grads[i])).toBe(true);
    expect(before.training).toEqual([true, true, true, false, true, true]);
  });

  test('two models of one architecture share nothing', async () => {
    const [a, b, x] = [mlp(), mlp(), tx.randn([4, 8])];
    const own = await Promise.all([a, b].map((m) => numbers(m.forward(x))));
    await optimizer.optimizeForInference(a, x);
    expect(b.parameters()[0]!.dtype).toBe('f32');
    await optimizer.optimizeForInference(b, x);
    for (const [i, model] of [a, b].entries())
      expect(distance(own[i]!, await numbers(model.forward(x)))).toBeLessThan(0.01);
    expect(distance(own[0]!, own[1]!)).toBeGreaterThan(0.1);
  });

  test('counts, and gives its programs up', async () => {
    const counting = new TPUOptimizer();
    expect(counting.getOptimizationStats()).toEqual({
      optimizations: 0,
      applied: 0,
      undone: 0,
      seconds: 0,
      programs: 0,
    });
    const { optimizationTime } = await counting.optimizeForInference(mlp(), tx.randn([3, 8]));
    const stats = { optimizations: 1, applied: 1, undone: 0, seconds: optimizationTime, programs: 2 };
    expect(counting.getOptimizationStats()).toEqual(stats);
    counting.clearCache();
    expect(counting.getOptimizationStats()).toEqual({ ...stats, programs: 0 });
  });
});

describe('optimizing again', () => {
  test('puts nothing on twice, and takes back what is not wanted', async () => {
    const [model, x] = [mlp(), tx.randn([4, 8])];
    const [weights, names] = [await bits(model), [...model.stateDict().keys()]];
    await optimizer.optimizeForTraining(model, x, 'aggressive', { runs: 1 });
    const many = wrapped(model);
    const again = await optimizer.optimizeForTraining(model, x, 'aggressive', { runs: 1 });
    expect([wrapped(model), again.comparison!.relativeError, again.performanceMetrics!.speedup]).toEqual([many, 0, 1]);
    const less = await optimizer.optimizeForTraining(model, x, 'conservative', { runs: 1 });
    expect(applied(less)).toEqual(['bf16 linears']);
    expect(less.performanceMetrics!.after.memory).not.toBe(less.performanceMetrics!.before.memory);
    expect(wrapped(model)).toBe(8);
    expect([...model.stateDict().keys()]).toEqual(names);
    less.undo();
    expect(wrapped(model)).toBe(0);
    expect(await bits(model)).toEqual(weights);
  });

  test('at the same time is an error', async () => {
    const model = mlp();
    const first = optimizer.optimize(model);
    await expect(optimizer.optimize(model)).rejects.toThrow(
      'this Sequential is already being optimized: await the earlier call first',
    );
    await first;
  });
});

describe('what cannot be', () => {
  test('a forward that fails: the model stays as it is', async () => {
    const model = mlp();
    const failing = optimizer.optimize(model, tx.ones([4, 7]));
    await expect(failing).rejects.toThrow(TPUOptimizationError);
    await expect(failing).rejects.toThrow(/^Sequential fails on the sample inputs: /);
    expect(wrapped(model)).toBe(0);
  });

  test('sample inputs that the model does not take: a warning, or an error where validation is strict', async () => {
    const strict = new TPUOptimizer(new TPUConfig({ enableStrictValidation: true }));
    const embedding = () => new nn.Sequential(new nn.Embedding(10, 8), new nn.Linear(8, 8));
    for (const [sample, why] of [
      [tx.ones([2, 3]), /Sequential does not accept the sample inputs \(.*integers.*\): changes are applied without/],
      [[[1, 2, 3]], /the sample inputs, an Array, contain no tensor: changes are applied without comparing outputs/],
      ['x', /the sample inputs, the string 'x', contain no tensor/],
    ] as const) {
      const model = embedding();
      await expect(strict.optimize(model, sample)).rejects.toThrow(TPUValidationError);
      expect(wrapped(model)).toBe(0);
      logged = [];
      const result = await optimizer.optimize(model, sample);
      expect(logged.join('')).toMatch(why);
      expect([result.performanceMetrics, result.comparison]).toEqual([null, null]);
      expect(result.changes[0]).toEqual({
        name: 'bf16 linears',
        status: 'applied',
        what: '1 Linear layer multiplies in bf16, from weights in f32 (not compared)',
      });
      expect(String(result)).toContain('nothing was measured or compared');
    }
  });

  test('no sample inputs are no reason to warn', async () => {
    const result = await optimizer.optimize(mlp());
    expect([result.performanceMetrics, result.comparison, logged]).toEqual([null, null, []]);
  });

  test('levels, options and models that there are not', async () => {
    const failing = async (run: Promise<unknown>, kind: new (message: string) => Error, message: string) => {
      await expect(run).rejects.toThrow(kind);
      await expect(run).rejects.toThrow(message);
    };
    const o = (options: object) => optimizer.optimize(mlp(), undefined, 'balanced', options);
    await failing(
      optimizer.optimize(mlp(), undefined, 'reckless' as never),
      TPUConfigurationError,
      "the optimization level is 'reckless': it must be conservative, balanced, aggressive",
    );
    await failing(o({ purpose: 'fun' }), TPUConfigurationError, "the purpose is 'fun': it must be inference, training");
    await failing(o({ run: 3 }), TPUConfigurationError, "there is no option 'run'");
    await failing(o({ runs: 0 }), TPUConfigurationError, 'runs is 0');
    await failing(o({ tolerance: -1 }), TPUConfigurationError, 'tolerance is -1: it must be a number of at least 0');
    await failing(optimizer.optimize({} as never), TPUOptimizationError, 'the model is an object: pass an nn.Module');
  });
});

test('sample inputs of another shape: an error of validation where that is strict; no place is named where none is known', async () => {
  const strict = new TPUOptimizer(new TPUConfig({ enableStrictValidation: true }));
  for (const [o, kind] of [
    [optimizer, TPUOptimizationError],
    [strict, TPUValidationError],
  ] as const) {
    const failing = o.optimize(mlp(), tx.randn([4, 7]));
    await expect(failing).rejects.toThrow(kind);
    await expect(failing).rejects.toThrow(/inner sizes 7 and 8 differ: the weight is \[out, in\]$/);
  }
});

test("the document's keywords as an object: where they go is said", async () => {
  const [model, x] = [mlp(), tx.randn([4, 8])];
  const way = "write optimize(model, sampleInputs, 'balanced')";
  await expect(optimizer.optimize(model, { sampleInputs: x, optimizationLevel: 'balanced' })).rejects.toThrow(way);
  await expect(optimizer.optimize(model, x, { optimizationLevel: 'balanced' } as never)).rejects.toThrow(way);
});

test('arguments in a list, and trees among them', async () => {
  class Two extends nn.Module {
    readonly fc = new nn.Linear(4, 4);
    override forward(x: tx.Tensor, { scale, times }: { scale: tx.Tensor; times: number }): { y: tx.Tensor; n: number } {
      let y = this.fc.forward(x);
      for (let i = 0; i < times; i++) y = y.mul(scale);
      return { y, n: times };
    }
  }
  const { comparison, changes } = await optimizer.optimizeForInference(new Two(), [
    tx.randn([2, 4]),
    { scale: tx.tensor(2), times: 2 },
  ]);
  expect(comparison!.outputs).toBe(1);
  expect(changes[0]!.status).toBe('applied');
});
