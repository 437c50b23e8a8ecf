// What each change does to a model, and that taking it back leaves nothing.
import * as tx from 'tsxla';
import {
  type ChangeReport,
  KernelPyTorchConfig,
  OPTIMIZATION_LEVELS,
  type OptimizationLevel,
  type Purpose,
  TPUConfig,
  undoOptimizations,
} from 'tsxla/backend';
import { beforeEach, describe, expect, test } from 'vitest';
import { prepare } from '../../dist/backend/standing.js';

const { nn } = tx;
beforeEach(() => void tx.manualSeed(7));

const block = (size = 16) => new nn.Sequential(new nn.Linear(size, 32), new nn.GELU(), new nn.Linear(32, size));
const mlp = (blocks = 4) =>
  new nn.Sequential(new nn.Linear(8, 16), ...Array.from({ length: blocks }, () => block()), new nn.Linear(16, 4));
const encoder = () =>
  new nn.TransformerEncoder(
    () => new nn.TransformerEncoderLayer(8, 2, { dimFeedforward: 16, batchFirst: true, dropout: 0 }),
    3,
  );
const f32 = new TPUConfig({ precision: 'float32' });
const applyLevel = (model: tx.nn.Module, level: OptimizationLevel, mode: Purpose, tpu?: TPUConfig): ChangeReport[] =>
  prepare(model, new KernelPyTorchConfig({ mode, hardware: { tpu: tpu ?? {} } }), level);

type Model = tx.nn.Module & { forward(x: tx.Tensor): tx.Tensor };
/** Compiled fast rather than well. */
const xlaFlags = { xla_backend_optimization_level: 0, xla_llvm_disable_expensive_passes: true };
const train = (model: Model, options = {}) =>
  tx.compile((x: tx.Tensor) => {
    const loss = model.forward(x).sin().mean(); // of squares, a norm at the end would leave nothing to learn
    return [loss, ...tx.grad(loss, model.parameters())];
  }, options);
/** A loss and the gradients of all parameters. */
const gradients = async (model: Model, x: tx.Tensor): Promise<number[][]> =>
  Promise.all((await train(model, { xlaFlags })(x)).map(async (t) => Array.from(await t.data(), Number)));
const norm = (xs: number[]) => Math.hypot(...xs);
/** The largest, over tensors, of the norm of the difference by the norm. */
const distance = (a: number[][], b: number[][]) =>
  Math.max(...a.map((x, i) => norm(x.map((v, j) => v - b[i]![j]!)) / (norm(x) || 1)));
const bits = async (model: tx.nn.Module) =>
  Promise.all([...model.stateDict()].map(async ([name, t]) => [name, t.dtype, String(await t.data())]));
const statusOf = (changes: ChangeReport[], name: string) => changes.find((c) => c.name === name);
/** Modules whose forward is not their class's. */
const wrapped = (model: tx.nn.Module) => model.modules().filter((m) => Object.hasOwn(m, 'forward')).length;
const lines = (text: string) => text.split('\n').length;

describe('bf16 linears', () => {
  test('for training: products are bf16, results and weights f32, and gradients are right', async () => {
    const [model, x] = [mlp(1), tx.randn([8, 8])];
    const before = await gradients(model, x);
    const changes = applyLevel(model, 'conservative', 'training');
    expect(changes).toEqual([
      { name: 'bf16 linears', status: 'applied', what: '4 Linear layers multiply in bf16, from weights in f32' },
    ]);
    const text = tx.compile((x: tx.Tensor) => model.forward(x)).stablehlo([x]);
    expect(text.match(/dot_general.*bf16/g)).toHaveLength(4);
    expect(model.forward(x).dtype).toBe('f32');
    expect(model.parameters().map((p) => p.dtype)).toEqual(Array(8).fill('f32'));
    const error = distance(before, await gradients(model, x));
    expect(error).toBeGreaterThan(1e-5);
    expect(error).toBeLessThan(0.03);
  });

  test('for inference: weights are half as large, names stay', async () => {
    const [model, x] = [mlp(1), tx.randn([8, 8])];
    const names = [...model.stateDict().keys()];
    const what = applyLevel(model, 'conservative', 'inference')[0]!.what;
    expect(what).toBe('4 Linear layers multiply in bf16: 5.02 KiB of weights are 2.51 KiB');
    expect(model.parameters().map((p) => p.dtype)).toEqual(Array(8).fill('bf16'));
    expect([...model.stateDict().keys()]).toEqual(names);
    expect(model.forward(x).dtype).toBe('f32');
  });

  test('a weight that another layer uses, too, stays f32', () => {
    class Tied extends nn.Module {
      readonly embed = new nn.Embedding(10, 8);
      readonly up = new nn.Linear(8, 8);
      readonly head = new nn.Linear(8, 10, { bias: false });
      constructor() {
        super();
        Object.assign(this.head, { weight: this.embed.weight });
      }
      override forward(ids: tx.Tensor): tx.Tensor {
        return this.head.forward(this.up.forward(this.embed.forward(ids)));
      }
    }
    const model = new Tied();
    applyLevel(model, 'conservative', 'inference');
    expect([...model.namedParameters()].map(([name, p]) => [name, p.dtype])).toEqual([
      ['embed.weight', 'f32'],
      ['up.weight', 'bf16'],
      ['up.bias', 'bf16'],
    ]);
    expect(model.forward(tx.tensor([1, 2])).dtype).toBe('f32');
  });

  test('where it has no effect, it says why', () => {
    const why = (model: tx.nn.Module, purpose: 'training' | 'inference', config?: TPUConfig) =>
      applyLevel(model, 'conservative', purpose, config)[0];
    expect(why(mlp(), 'inference', f32)).toEqual({
      name: 'bf16 linears',
      status: 'none',
      what: 'precision is float32',
    });
    expect(why(new nn.ReLU(), 'inference')!.what).toBe('it has no Linear layers in f32');
    expect(why(mlp().to('bf16'), 'inference')!.what).toBe('it has no Linear layers in f32');
    expect(why(mlp(), 'training', new TPUConfig({ mixedPrecision: false }))!.what).toBe(
      'mixedPrecision is false: it is needed to keep trained weights in f32',
    );
  });
});

describe('checkpointing', () => {
  test('of blocks takes less memory for the gradient, which stays the same', async () => {
    const [model, x] = [mlp(8), tx.randn([256, 8])];
    const [before, plain] = [await gradients(model, x), await train(model).prepare([x])];
    const changes = applyLevel(model, 'balanced', 'training', f32);
    expect(statusOf(changes, 'checkpointing')).toEqual({
      name: 'checkpointing',
      status: 'applied',
      what: '8 blocks keep only their inputs, and are recomputed for the gradient',
    });
    expect(distance(before, await gradients(model, x))).toBeLessThan(1e-6);
    const { memory } = await train(model).prepare([x]);
    expect(memory.temporaries).toBeLessThan(0.6 * plain.memory.temporaries);
  });

  test('draws the same numbers again for the gradient', async () => {
    const dropping = () => new nn.Sequential(block(), new nn.Sequential(new nn.Linear(16, 16), new nn.Dropout(0.5)));
    const [model, x] = [dropping(), tx.randn([8, 16])];
    tx.manualSeed(3);
    const before = await gradients(model, x);
    applyLevel(model, 'balanced', 'training', f32);
    tx.manualSeed(3);
    expect(distance(before, await gradients(model, x))).toBeLessThan(1e-6);
  });

  test('of a LayerStack, through its options, and of Qwen3', async () => {
    const stack = new nn.Sequential(new nn.LayerStack([block(), block()]) as never);
    applyLevel(stack, 'balanced', 'training', f32);
    expect(String(stack)).toContain('2 layers, checkpoint');
    undoOptimizations(stack);
    expect(String(stack)).not.toContain('checkpoint');
    const qwen = (options: tx.models.Qwen3Options) => new tx.models.Qwen3ForCausalLM(QWEN3, options);
    const said = (model: tx.nn.Module) =>
      statusOf(applyLevel(model, 'balanced', 'training', f32), 'checkpointing')!.what;
    expect(said(qwen({}))).toMatch(/^3 blocks keep/);
    expect(said(qwen({ checkpoint: true }))).toBe('its blocks are checkpointed already');
    expect(said(qwen({ scanLayers: true, checkpoint: true }))).toBe('its blocks are checkpointed already');
  });

  test('where it has no effect, it says why', () => {
    const why = (model: tx.nn.Module, purpose: 'training' | 'inference', config?: TPUConfig) =>
      statusOf(applyLevel(model, 'balanced', purpose, config), 'checkpointing')!.what;
    expect(why(mlp(), 'inference')).toBe('inference keeps no activations for gradients');
    expect(why(mlp(), 'training', new TPUConfig({ gradientCheckpointing: false }))).toBe(
      'gradientCheckpointing is false',
    );
    expect(why(new nn.Sequential(new nn.Linear(2, 2), new nn.ReLU()), 'training')).toBe(
      'it has no list of blocks: checkpointing the whole model or a single layer saves nothing',
    );
    const norms = () => new nn.Sequential(new nn.Linear(4, 4), new nn.BatchNorm1d(4));
    expect(why(new nn.Sequential(norms(), norms()), 'training')).toBe(
      'its blocks have running statistics, which must be updated only once a step',
    );
  });
});

describe('fused attention', () => {
  class Attending extends nn.Module {
    readonly attention = new nn.MultiheadAttention(8, 2, { batchFirst: true });
    override forward(x: tx.Tensor): tx.Tensor {
      return this.attention.forward(x, x, x)[0];
    }
  }
  test('computes no weights that are not asked for', async () => {
    const [model, x] = [new Attending(), tx.randn([2, 5, 8])];
    const before = await gradients(model, x);
    const changes = applyLevel(model, 'balanced', 'training', f32);
    expect(statusOf(changes, 'fused attention')!.what).toBe(
      '1 MultiheadAttention layer without unused attention weights',
    );
    expect(model.attention.forward(x, x, x)[1]).toBeNull();
    expect(model.attention.forward(x, x, x, { needWeights: true })[1]!.shape).toEqual([2, 5, 5]);
    expect(distance(before, await gradients(model, x))).toBeLessThan(1e-5);
  });
  test("a transformer's is fused already", () => {
    const changes = applyLevel(encoder(), 'balanced', 'training', f32);
    expect(statusOf(changes, 'fused attention')).toEqual({
      name: 'fused attention',
      status: 'none',
      what: 'its attention is fused already',
    });
  });
});

const QWEN3 = {
  vocabSize: 32,
  hiddenSize: 16,
  intermediateSize: 24,
  numHiddenLayers: 3,
  numAttentionHeads: 2,
  numKeyValueHeads: 1,
  headDim: 8,
};

describe('scanned layers', () => {
  const scanned = (model: tx.nn.Module, purpose: 'training' | 'inference' = 'training') => {
    const config = new TPUConfig({ precision: 'float32', gradientCheckpointing: false });
    return statusOf(applyLevel(model, 'aggressive', purpose, config), 'scanned layers')!;
  };
  test('are one loop: the program does not grow with their number; gradients and names stay', async () => {
    const x = tx.randn([8, 8]);
    const size = (model: Model) => lines(train(model).stablehlo([x]));
    const [few, many] = [mlp(4), mlp(12)];
    const names = [...many.stateDict().keys()];
    expect(size(many)).toBeGreaterThan(2 * size(few));
    const before = await gradients(few, x);
    expect(scanned(few).what).toBe('4 equal layers run as 1 loop');
    expect(scanned(many).what).toBe('12 equal layers run as 1 loop');
    const body = (text: string) => text.split('\n').filter((line) => !/reshape|concatenate|slice/.test(line)).length; // not stacking
    expect(body(train(many).stablehlo([x]))).toBe(body(train(few).stablehlo([x])));
    expect([...many.stateDict().keys()]).toEqual(names);
    expect(distance(before, await gradients(few, x))).toBeLessThan(1e-5);
  });

  test('of a TransformerEncoder, with masks', async () => {
    const [model, x] = [encoder().eval(), tx.randn([2, 4, 8])];
    const mask = tx.ones([4, 4], { dtype: 'bool' }).triu(1);
    const forward = async () => Array.from(await model.forward(x, { mask }).data(), Number);
    const before = await forward();
    expect(scanned(model).what).toBe('3 equal layers run as 1 loop');
    expect(distance([before], [await forward()])).toBeLessThan(1e-5);
  });

  test('drop what they dropped, each something else', async () => {
    const layer = () => new nn.Sequential(new nn.Linear(8, 8), new nn.Dropout(0.5));
    const [model, x] = [new nn.Sequential(layer(), layer(), layer()), tx.randn([4, 8])];
    tx.manualSeed(3);
    const before = await gradients(model, x);
    expect(scanned(model).what).toBe('3 equal layers run as 1 loop');
    tx.manualSeed(3);
    expect(distance(before, await gradients(model, x))).toBeLessThan(1e-5);
  });

  class Scaled extends nn.Module {
    readonly linear = new nn.Linear(8, 8);
    constructor(readonly factor: number) {
      super();
    }
    override forward(x: tx.Tensor): tx.Tensor {
      return this.linear.forward(x).mul(this.factor).add(x);
    }
  }
  const three = (...factors: number[]) => new nn.Sequential(...factors.map((factor) => new Scaled(factor)));

  test('have equal numbers in their fields, too', () => {
    expect(scanned(three(1, 2, 3))).toMatchObject({ status: 'none' });
    expect(scanned(three(1, 2, 2, 2)).what).toBe('3 equal layers run as 1 loop');
    const model = three(1, 1, 1);
    model.children()[1]!.eval();
    expect(scanned(model)).toMatchObject({ status: 'none' });
  });

  test('are those that are there when it runs', async () => {
    const [model, x] = [three(1, 1, 1, 1), tx.randn([2, 8])];
    scanned(model);
    model.setSubmodule('3', new Scaled(7));
    model.children()[0]!.freeze();
    const loops = Array.from(await model.forward(x).data(), Number);
    undoOptimizations(model);
    expect(distance([Array.from(await model.forward(x).data(), Number)], [loops])).toBeLessThan(1e-5);
  });

  test('of Qwen3, which generates as before', async () => {
    const model = new tx.models.Qwen3ForCausalLM(QWEN3).eval();
    const said = () => model.generate([[1, 2, 3]], { maxNewTokens: 3 });
    const tokens = await said();
    expect(scanned(model).what).toBe('3 equal layers run as 1 loop');
    expect(tx.compile((x: tx.Tensor) => model.forward(x)).stablehlo([tx.ones([1, 4], { dtype: 'i32' })])).toContain(
      'stablehlo.while',
    );
    expect(await said()).toEqual(tokens);
  });

  test('running statistics: not while they are learned', async () => {
    const layer = () => new nn.Sequential(new nn.Linear(4, 4), new nn.BatchNorm1d(4));
    const make = () => new nn.Sequential(layer(), layer(), layer());
    expect(scanned(make())).toEqual({
      name: 'scanned layers',
      status: 'none',
      what: 'its equal layers have running statistics, which a loop cannot change',
    });
    const [model, x] = [make(), tx.randn([8, 4])];
    const before = await model.eval().forward(x).data();
    expect(scanned(model, 'inference').status).toBe('applied');
    const program = () => tx.compile((x: tx.Tensor) => model.forward(x)).stablehlo([x]);
    expect(program()).toContain('stablehlo.while');
    expect(distance([Array.from(before, Number)], [Array.from(await model.forward(x).data(), Number)])).toBeLessThan(
      1e-5,
    );
    model.train();
    expect(program()).not.toContain('stablehlo.while');
  });

  test('layers that are not equal, or few, are none', () => {
    const none = 'it has no 3 equal layers in a row';
    expect(scanned(mlp(2)).what).toBe(none);
    const half = new nn.Sequential(block(), block(), block());
    half.at(1).freeze();
    expect(scanned(half).what).toBe(none);
    expect(scanned(new nn.Sequential(new nn.ReLU(), new nn.ReLU(), new nn.ReLU())).what).toBe(none);
  });
});

describe('everything in bf16', () => {
  test('for training: all products, with weights and results in f32', () => {
    const [model, x] = [encoder(), tx.randn([2, 4, 8])];
    const changes = applyLevel(model, 'aggressive', 'training');
    expect(statusOf(changes, 'everything in bf16')!.status).toBe('applied');
    const text = tx.compile((x: tx.Tensor) => model.forward(x)).stablehlo([x]);
    expect(text.match(/dot_general.*/g)!.filter((line) => !line.includes('bf16'))).toEqual([]);
    expect(model.forward(x).dtype).toBe('f32');
  });
  test('for inference: all weights', async () => {
    const [model, x] = [new nn.Sequential(new nn.Linear(8, 8), new nn.LayerNorm(8)), tx.randn([2, 8])];
    const before = Array.from(await model.forward(x).data(), Number);
    applyLevel(model, 'aggressive', 'inference');
    expect(new Set(model.parameters().map((p) => p.dtype))).toEqual(new Set(['bf16']));
    expect(model.forward(x).dtype).toBe('f32');
    expect(distance([before], [Array.from(await model.forward(x).data(), Number)])).toBeLessThan(0.02);
  });
});

test.each([
  ['an MLP', () => mlp(3), () => tx.randn([4, 8])],
  ['a TransformerEncoder', encoder, () => tx.randn([2, 4, 8])],
  ['Qwen3', () => new tx.models.Qwen3ForCausalLM(QWEN3), () => tx.randint(32, [2, 6])],
])('the loss and the gradients of %s are right at each level, and exact again afterwards', async (_, make, input) => {
  const [model, x]: [Model, tx.Tensor] = [make(), input()];
  const before = await gradients(model, x);
  for (const level of OPTIMIZATION_LEVELS) {
    applyLevel(model, level, 'training');
    const all = (await gradients(model, x)).flat();
    expect(distance([before.flat()], [all])).toBeLessThan(0.03);
  }
  undoOptimizations(model);
  expect(await gradients(model, x)).toEqual(before);
});

describe('taking back', () => {
  test('leaves what another model put around a layer of both, in any order', async () => {
    const [shared, x] = [new nn.Linear(64, 64), tx.randn([2, 64])];
    const [a, b] = [new nn.Sequential(shared), new nn.Sequential(shared, new nn.ReLU())];
    const result = async () => String(await shared.forward(x).data());
    const before = await result();
    for (const model of [a, b]) applyLevel(model, 'conservative', 'training');
    const rounded = await result();
    expect(rounded).not.toBe(before);
    undoOptimizations(a);
    expect(await result()).toBe(rounded); // b has it still
    undoOptimizations(b);
    expect(await result()).toBe(before);
    expect(wrapped(b)).toBe(0);
  });

  test('leaves a forward that the layer was given since', () => {
    const layer = new nn.Linear(4, 4);
    applyLevel(new nn.Sequential(layer), 'conservative', 'training');
    const model = new nn.Sequential(layer);
    const other = (x: tx.Tensor) => x;
    layer.forward = other;
    applyLevel(model, 'conservative', 'training');
    expect(layer.forward).not.toBe(other);
    undoOptimizations(model);
    expect(layer.forward).toBe(other);
  });

  test('leaves the model as it was, bit for bit where weights were not rounded', async () => {
    const [model, x] = [encoder(), tx.randn([2, 4, 8])];
    const [before, weights] = [await gradients(model, x), await bits(model)];
    applyLevel(model, 'aggressive', 'training');
    expect(wrapped(model)).toBeGreaterThan(9);
    undoOptimizations(model);
    expect(wrapped(model)).toBe(0);
    expect(await bits(model)).toEqual(weights);
    expect(await gradients(model, x)).toEqual(before);
  });

  test('a function that was compiled with a change notices that it is gone', async () => {
    const [model, x] = [mlp(1), tx.randn([2, 8])];
    const [own, forward] = [await model.forward(x).data(), tx.compile((x: tx.Tensor) => model.forward(x))];
    applyLevel(model, 'conservative', 'training');
    expect(await (await forward(x)).data()).not.toEqual(own);
    undoOptimizations(model);
    expect(await (await forward(x)).data()).toEqual(own);
  });

  test('another level takes back what it does not want, and puts nothing on twice', () => {
    const model = mlp(4);
    const names = () => applyLevel(model, 'aggressive', 'training').filter((c) => c.status === 'applied');
    const [first, many] = [names(), wrapped(model)];
    expect(names()).toEqual(first);
    expect(wrapped(model)).toBe(many);
    applyLevel(model, 'conservative', 'training');
    expect(wrapped(model)).toBe(10);
    applyLevel(model, 'conservative', 'inference'); // another change of that name
    expect(model.parameters()[0]!.dtype).toBe('bf16');
    applyLevel(model, 'conservative', 'training', f32);
    expect([wrapped(model), model.parameters()[0]!.dtype]).toEqual([0, 'f32']);
  });
});
