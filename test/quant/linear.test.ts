// The three quantized linears: values and gradients as torch gives them for the same formulas, and by finite differences.
import * as tx from 'tsxla';
import { readSafetensors } from 'tsxla/io';
import { describe, expect, test } from 'vitest';
import { goldenPath } from '../support.js';

const { nn, quant } = tx;
const golden = await readSafetensors(goldenPath('quant.safetensors'));
const given = (name: string): tx.Tensor => {
  const { dtype, shape, data } = golden.get(name)!;
  return tx.tensor(data, { dtype, shape });
};
const linear = (out = 6, width = 10) => new nn.Linear(width, out, { bias: false });
const same = async (pairs: [tx.Tensor, tx.Tensor][], within = 1e-11) => {
  const worst = tx.stack(pairs.map(([a, b]) => a.double().reshape(b.shape).sub(b.double()).abs().max())).max();
  expect(Number(await worst.item())).toBeLessThan(within);
};

/** Runs a layer on the golden input, and compares its result and the gradients of x and of these parameters. */
async function asTorch(layer: tx.quant.QuantLinear, name: string, parameters: Record<string, tx.Tensor>) {
  const x = given(`${name}.x`).requiresGrad_();
  const y = layer.forward(x);
  const grads = tx.grad(y.mul(given('gy')).sum(), [x, ...Object.values(parameters)]) as tx.Tensor[];
  const wanted = ['y', 'grad.x', ...Object.keys(parameters).map((key) => `grad.${key}`)];
  await same([y, ...grads].map((got, i) => [got, given(`${name}.${wanted[i]}`)]));
}

describe('levels', () => {
  test('are those that torch.linspace has in f16', () => {
    for (const size of [4, 5, 16])
      expect(quant.uniformLut(size)).toEqual([...(golden.get(`lut${size}`)!.data as Float64Array)]);
    expect(quant.uniformLut(16, { includeZero: true })).toEqual([...(golden.get('lut16.zero')!.data as Float64Array)]);
  });
  test('rounding to f16 saturates, and its gradient is 1 everywhere', async () => {
    const x = tx.tensor([0.1, 70000, -1e9, 1 / 3], { dtype: 'f32', requiresGrad: true });
    const y = quant.roundF16(x);
    expect(await y.tolist()).toEqual([0.0999755859375, 65504, -65504, 0.333251953125]);
    expect(await (tx.grad(y.sum(), [x]) as tx.Tensor[])[0]!.tolist()).toEqual([1, 1, 1, 1]);
  });
});

describe('symmetric levels with a learned scale (V0)', () => {
  test.each([2, 4])('%i bits: values, and gradients to x, the weights and the scale', async (bits) => {
    const layer = new quant.SymmetricLinear(linear(), { bits }).double();
    layer.loadStateDict({ weight: given('weight'), _f_param: given(`v0.${bits}.f`), _qat_nbits: tx.tensor(bits) });
    await asTorch(layer, `v0.${bits}`, { weight: layer.weight, f: layer.fParam });
  });
  test.each([2, 4])('%i bits: the levels begin where the percentile, the grid and Newton say', async (bits) => {
    const starts = async (init: tx.quant.ClipMethod) => {
      const plain = linear(40, 50);
      plain.loadStateDict({ weight: given(`v0.${bits}.clip.weight`) });
      const layer = new quant.SymmetricLinear(plain, { bits, init });
      await layer.fit();
      const error = layer.effectiveWeight().sub(plain.weight).square().mean();
      return { share: Number(await tx.softplus(layer.fParam).item()), error: Number(await error.item()) };
    };
    for (const init of ['percentile', 'grid'] as const)
      expect((await starts(init)).share).toBeCloseTo(Number(await given(`v0.${bits}.clip.${init}`).item()), 5);
    const newton = await starts('newton');
    expect(newton.error).toBeLessThan(Number(await given(`v0.${bits}.clip.newton_mse`).item()) * 1.0001);
    expect(newton.error).toBeLessThanOrEqual((await starts('percentile')).error);
  });
  test('bits and init are checked', () => {
    expect(() => new quant.SymmetricLinear(linear(), { bits: 3 })).toThrow(
      'SymmetricLinear: bits is 3: it must be 2 or 4',
    );
    expect(() => new quant.SymmetricLinear(linear(), { init: 'guess' as never })).toThrow(
      "SymmetricLinear: init is 'guess': it must be one of newton, percentile, grid",
    );
  });
});

describe('levels with scales of low rank (V1)', () => {
  const options = { lutSize: 4, scaleRank: 2, groupSize: 4, learnableLut: true };
  const made = () => {
    const layer = new quant.LutLinear(linear(), options).double();
    const names = ['scale_A', 'scale_B', 'lut'];
    layer.loadStateDict({ weight: given('weight'), ...Object.fromEntries(names.map((n) => [n, given(`v1.${n}`)])) });
    return layer;
  };
  test('values, and gradients to x, the scales and the levels', async () => {
    const layer = made();
    await asTorch(layer, 'v1', { scale_A: layer.scaleA!, scale_B: layer.scaleB!, lut: layer.lut });
  });
  test('trained weights get the gradient of the quantized ones, and the scales keep theirs', async () => {
    const layer = made();
    const [x, gy] = [given('x'), given('gy')];
    const [w, a] = tx.grad(layer.forward(x).mul(gy).sum(), [layer.weight, layer.scaleA!]) as tx.Tensor[];
    await same([
      [w!, gy.t().matmul(x)],
      [a!, given('v1.grad.scale_A')],
    ]);
  });
  test('the scales begin as the nearest product of rank 2 to the largest weights of groups', async () => {
    const plain = linear();
    plain.loadStateDict({ weight: given('weight') });
    const layer = new quant.LutLinear(plain, { ...options, init: 'max' });
    await layer.fit();
    await same([[layer.scaleA!.matmul(layer.scaleB!), given('v1.scales')]], 1e-6);
    const full = new quant.LutLinear(plain, { ...options, scaleRank: 0, init: 'max' });
    await full.fit();
    expect(full.fullScales!.shape).toEqual([6, 12]);
    expect(
      await full
        .effectiveWeight()
        .abs()
        .sub(full.fullScales!.narrow(1, 0, 10))
        .max()
        .item(),
    ).toBeLessThan(1e-6);
  });
});

describe('levels with factored scales (V2)', () => {
  const made = (options: tx.quant.FactoredOptions, name: string) => {
    const layer = new quant.FactoredLinear(linear(), { scaleRank: 3, groupSize: 4, ...options }).double();
    const names = ['scale_A', 'scale_B', 'rank_magnitude'];
    const state = Object.fromEntries(names.map((n) => [n, given(`${name}.${n}`)]));
    const deltas = options.learnableLut ? { _lut_raw_deltas: given(`${name}.deltas`) } : {};
    layer.loadStateDict({ ...state, ...deltas, _indices: given('v2.codes'), lut: given('lut16') });
    return layer;
  };
  test.each([
    ['identity', {}],
    ['positive', { positive: 'abs', magnitude: 'softplus' }],
    ['learned', { learnableLut: true }],
    ['f16', { f16: true }],
  ] as const)('%s: one product gives what the sum over ranks does, with its gradients', async (name, options) => {
    const layer = made(options, `v2.${name}`);
    await asTorch(layer, `v2.${name}`, {
      scale_A: layer.scaleA,
      scale_B: layer.scaleB,
      rank_magnitude: layer.rankMagnitude,
      ...(layer.lutRawDeltas ? { deltas: layer.lutRawDeltas } : {}),
    });
  });
  test('the gradients are those of finite differences, to x, scales and levels', async () => {
    const layer = made({ positive: 'softplus', magnitude: 'softplus' }, 'v2.identity');
    const tensors = [layer.scaleA, layer.scaleB, layer.rankMagnitude, layer.lut] as tx.Tensor[];
    await tx.gradcheck(
      (x, ...values) => tx.Tensor.lend(tensors, values, () => layer.forward(x)),
      [given('x'), ...tensors.map((t) => t.detach())],
    );
  });
  test('scales and codes begin as the original says, without a floor under magnitudes', async () => {
    const plain = linear();
    plain.loadStateDict({ weight: given('weight') });
    const layer = new quant.FactoredLinear(plain, { lutSize: 16, scaleRank: 2, groupSize: 4, init: 'max' });
    await layer.fit();
    await same([[layer.scales(), given('v2.scales')]], 1e-3); // magnitudes are f16's, as the original's
    expect(await layer.indices.ne(given('v2.indices')).sum().item()).toBe(0);
  });
  test('scales with the least error beat those of the largest weights by a quarter, at 2 bits', async () => {
    const plain = linear(32, 64);
    tx.manualSeed(7); // 0.72 to 0.75 with others
    tx.nn.init.normal_(plain.weight, 0, 0.02);
    await tx.sync(plain.weight);
    const error = async (init: 'best' | 'max') => {
      const layer = new quant.FactoredLinear(plain, { lutSize: 4, scaleRank: 2, groupSize: 32, init });
      await layer.fit();
      await tx.sync(layer.indices);
      return Number(await layer.effectiveWeight().sub(plain.weight).norm().div(plain.weight.norm()).item());
    };
    expect(await error('best')).toBeLessThan(0.75 * (await error('max')));
  });
  test.each([
    ['positive scales', { positive: 'abs', magnitude: 'softplus', scaleRank: 3 }],
    ['positive by softplus', { positive: 'softplus', scaleRank: 3 }],
    ['more ranks than groups', { scaleRank: 8 }],
    ['levels to 2', { lutMaxAbs: 2, learnableLut: true, scaleRank: 3 }],
  ] as const)('%s: 4 bits stay close to the weights', async (_, options) => {
    const plain = linear();
    plain.loadStateDict({ weight: given('weight') });
    const before = plain.weight.detach();
    const layer = new quant.FactoredLinear(plain, { groupSize: 4, ...options });
    await layer.fit();
    const error = layer.effectiveWeight().sub(before).norm().div(before.norm());
    expect(await error.item()).toBeLessThan(0.06);
    const grads = tx.grad(
      layer
        .forward(tx.ones([1, 10]))
        .square()
        .sum(),
      layer.parameters(),
    ) as tx.Tensor[];
    expect(
      await tx
        .stack(grads.map((g) => g.isfinite().all()))
        .all()
        .item(),
    ).toBe(1);
  });
});

describe('one product', () => {
  const dots = (layer: tx.quant.QuantLinear) =>
    tx
      .compile((x: tx.Tensor) => layer.forward(x))
      .stablehlo([tx.ones([7, 10])])
      .split('dot_general').length - 1;
  test.each([1, 4, 32])(
    'a materialized linear of rank %i is one dot, a trained one has one more for its scales',
    async (scaleRank) => {
      const layer = new quant.FactoredLinear(linear(), { lutSize: 4, scaleRank, groupSize: 4 });
      await layer.fit();
      await tx.sync();
      expect(dots(layer)).toBe(2);
      const before = await layer.forward(tx.ones([1, 10])).tolist();
      layer.materialize();
      await tx.sync();
      expect(dots(layer)).toBe(1);
      expect(await layer.forward(tx.ones([1, 10])).tolist()).toEqual(before);
    },
  );
  test('what is materialized is not trained', async () => {
    const layer = new quant.FactoredLinear(linear(), { lutSize: 4, scaleRank: 2 });
    await layer.fit();
    layer.materialize();
    expect(layer.parameters().some((p) => p.requiresGrad)).toBe(false);
    layer.scaleA.requiresGrad_();
    expect(() => layer.forward(tx.ones([1, 10]))).toThrow(
      'FactoredLinear: its scales require gradients, but its weight is materialized: call dematerialize() first',
    );
    expect(layer.dematerialize().forward(tx.ones([1, 10])).requiresGrad).toBe(true);
  });
  test('a compiled function notices that a weight is materialized', async () => {
    const layer = new quant.FactoredLinear(linear(), { lutSize: 4, scaleRank: 2 });
    await layer.fit();
    const f = tx.compile((x: tx.Tensor) => layer.forward(x));
    const x = tx.ones([1, 10]);
    const before = await f(x);
    layer.materialize();
    await same([[await f(x), before]], 1e-6);
    expect(f.programs).toBe(2);
  });
});

test('defect: the gradients of adapters on early layers are exact', async () => {
  const names = ['gate', 'up', 'down'] as const;
  const layers = Object.fromEntries(
    names.map((n) => {
      const [out, width] = given(`mlp.${n}._indices`).shape as [number, number];
      const layer = new quant.FactoredLinear(linear(out, width), { scaleRank: 2 }).double();
      const keys = ['_indices', 'scale_A', 'scale_B', 'rank_magnitude', 'lut'];
      layer.loadStateDict(Object.fromEntries(keys.map((k) => [k, given(`mlp.${n}.${k}`)])));
      return [n, layer.materialize()];
    }),
  );
  const adapters = Object.fromEntries(
    names.flatMap((n) => ['A', 'B'].map((m) => [`${n}_${m}`, given(`mlp.${n}_${m}`).requiresGrad_()])),
  );
  const through = (n: string, x: tx.Tensor) =>
    layers[n]!.forward(x).add(x.matmul(adapters[`${n}_A`]!.t()).matmul(adapters[`${n}_B`]!.t()));
  const x = given('x');
  const y = x.add(through('down', tx.silu(through('gate', x)).mul(through('up', x))));
  const grads = tx.grad(tx.mseLoss(y, given('mlp.target')), Object.values(adapters)) as tx.Tensor[];
  await same(Object.keys(adapters).map((name, i) => [grads[i]!, given(`mlp.grad.${name}`)]));
  const largest = tx.stack(grads.filter((_, i) => i % 2).map((g) => g.abs().max())); // of the second factors
  expect(Number(await largest.min().item())).toBeGreaterThan(1e-4); // in the original 0 for gate and up
});
