// nn.utils: packed sequences, normalized weights, parametrizations, vectors of parameters and fused layers, against torch.
import { readFileSync } from 'node:fs';
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { goldenPath } from '../support.js';

process.env['TSXLA_LOG'] = 'quiet'; // every case is a program of its own
const { nn } = tx;
const { rnn } = nn.utils;
interface Numbers {
  readonly shape: number[];
  readonly data: number[];
}
interface Recorded {
  readonly state: Record<string, Numbers>;
  readonly x: Numbers;
  readonly outputs: Numbers[];
  readonly gradX: Numbers;
  readonly grads: Record<string, Numbers>;
  readonly after: Record<string, Numbers>;
}
interface Packed extends Recorded {
  readonly kind: 'RNN' | 'GRU' | 'LSTM';
  readonly bidirectional: boolean;
  readonly lengths: number[];
  readonly h0: Numbers;
  readonly packedData: Numbers;
  readonly batchSizes: number[];
}
interface Norm extends Recorded {
  readonly layer: 'Linear' | 'Conv1d' | 'ConvTranspose1d';
  readonly norm: 'weightNorm' | 'oldWeightNorm' | 'spectralNorm' | 'oldSpectralNorm';
}
const golden = JSON.parse(readFileSync(goldenPath('nn-utils.json'), 'utf8')) as { packed: Packed[]; norms: Norm[] };

const up = ({ shape, data }: Numbers) => tx.tensor(Float64Array.from(data), { dtype: 'f64', shape });
const stateOf = (state: Record<string, Numbers>) =>
  new Map(Object.entries(state).map(([name, x]) => [name, up(x)] as const));
const weighted = (ys: readonly tx.Tensor[]) =>
  ys
    .map((y) => {
      const seed = Float64Array.from({ length: y.numel() }, (_, k) => Math.cos(k));
      return y.mul(tx.tensor(seed, { dtype: 'f64', shape: y.shape })).sum();
    })
    .reduce((a, b) => a.add(b));
function expectClose(got: tx.Tensor, data: ArrayLike<number | bigint>, want: Numbers, what: string): void {
  expect(got.shape, what).toEqual(want.shape);
  const error = Math.max(0, ...want.data.map((x, i) => Math.abs(x - Number(data[i]))));
  expect(error, what).toBeLessThan(1e-9);
}
async function compare(module: tx.nn.Module, x: tx.Tensor, ys: readonly tx.Tensor[], want: Recorded): Promise<void> {
  weighted(ys).backward();
  const pairs: [string, tx.Tensor, Numbers][] = [
    ...ys.map((y, i): [string, tx.Tensor, Numbers] => [`result ${i}`, y, want.outputs[i]!]),
    ['the gradient of x', x.grad!, want.gradX],
    ...[...module.namedParameters()].map(([n, p]): [string, tx.Tensor, Numbers] => [
      `grad ${n}`,
      p.grad!,
      want.grads[n]!,
    ]),
    ...[...module.stateDict()].map(([n, t]): [string, tx.Tensor, Numbers] => [n, t, want.after[n]!]),
  ];
  await tx.sync(...pairs.map(([, t]) => t));
  for (const [what, t, numbers] of pairs) expectClose(t, await t.data(), numbers, what);
  expect([...module.namedParameters().keys()].sort()).toEqual(Object.keys(want.grads).sort());
}

test.each(golden.packed)('$kind of packed sequences, bidirectional: $bidirectional', async (c) => {
  const options = { numLayers: 2, bidirectional: c.bidirectional, batchFirst: true };
  const module = new nn[c.kind](2, 3, options).double();
  module.loadStateDict(stateOf(c.state));
  const x = up(c.x).requiresGrad_();
  const packed = rnn.packPaddedSequence(x, c.lengths, { batchFirst: true, enforceSorted: false });
  expect(packed.batchSizes).toEqual(c.batchSizes);
  expectClose(packed.data, await packed.data.data(), c.packedData, 'data');
  const h0 = up(c.h0);
  const forward = module.forward.bind(module) as (x: unknown, h0: unknown) => unknown;
  const [output, last] = forward(packed, c.kind === 'LSTM' ? [h0, h0.mul(0.5)] : h0) as [
    tx.nn.utils.rnn.PackedSequence,
    tx.Tensor | tx.Tensor[],
  ];
  const [padded, lengths] = rnn.padPackedSequence(output, { batchFirst: true, paddingValue: -1, totalLength: 6 });
  expect(await lengths.tolist({ numbers: true })).toEqual(c.lengths);
  await compare(module, x, [padded, ...[last].flat()], c);
});

test('lengths that are a tensor: one compiled program for all of them', async () => {
  const gru = new nn.GRU(2, 3);
  const x = tx.randn([5, 2, 2]);
  const run = tx.compile((lengths: tx.Tensor) => gru.forward(rnn.packPaddedSequence(x, lengths))[1]);
  for (const lengths of [
    [5, 3],
    [4, 1],
  ]) {
    const want = gru.forward(rnn.packPaddedSequence(x, lengths))[1];
    const got = await run(tx.tensor(lengths));
    expect(await got.sub(want).abs().amax().item()).toBeLessThan(1e-6);
  }
  expect(run.programs).toBe(1);
});

test('sequences of several lengths: pad, pack, unpack, and what is refused', async () => {
  const list = [tx.ones([1, 2]), tx.ones([3, 2])];
  expect(rnn.padSequence(list).shape).toEqual([3, 2, 2]);
  expect(await rnn.padSequence(list, true, -1).select(0, 0).select(1, 0).tolist()).toEqual([1, -1, -1]);
  expect(await rnn.padSequence(list, true, 0, 'left').select(0, 0).select(1, 0).tolist()).toEqual([0, 0, 1]);
  expect(() => rnn.packSequence(list)).toThrow(/the longest must come first: pass \{ enforceSorted: false \}/);
  const packed = rnn.packSequence(list, { enforceSorted: false });
  expect(rnn.unpackSequence(packed).map((t) => t.shape)).toEqual([
    [1, 2],
    [3, 2],
  ]);
  const doubled = packed.withData(packed.data.mul(2));
  expect(await rnn.padPackedSequence(doubled)[0].select(1, 0).tolist()).toEqual([
    [2, 2],
    [0, 0],
    [0, 0],
  ]);
  expect(() => rnn.packPaddedSequence(tx.ones([3, 2, 2]), [4, 1])).toThrow(/a length is 4: .* 1 to 3/);
});

const { parametrizations, parametrize } = nn.utils;
const NORMS = {
  weightNorm: (m: tx.nn.Module, dim?: number | null) =>
    parametrizations.weightNorm(m, dim === undefined ? {} : { dim }),
  oldWeightNorm: (m: tx.nn.Module, dim?: number | null) => nn.utils.weightNorm(m, dim === undefined ? {} : { dim }),
  spectralNorm: (m: tx.nn.Module) =>
    parametrizations.spectralNorm(m, m instanceof nn.ConvTranspose1d ? { nPowerIterations: 2 } : {}),
  oldSpectralNorm: (m: tx.nn.Module) => nn.utils.spectralNorm(m),
};
const LAYERS = {
  Linear: () => new nn.Linear(3, 4),
  Conv1d: () => new nn.Conv1d(2, 3, 2),
  ConvTranspose1d: () => new nn.ConvTranspose1d(2, 3, 2),
};
test.each(golden.norms)('$norm of $layer: state dict, results, gradients, state after it', async (c) => {
  const module = LAYERS[c.layer]().double();
  const dim = c.layer === 'Conv1d' ? (c.norm === 'weightNorm' ? null : 1) : undefined;
  NORMS[c.norm](module, dim);
  expect([...module.stateDict().keys()].sort()).toEqual(Object.keys(c.state).sort());
  module.loadStateDict(stateOf(c.state));
  const x = up(c.x).requiresGrad_();
  const forward = (m: tx.nn.Module) => (m.forward as (x: tx.Tensor) => tx.Tensor)(x);
  const y = forward(module);
  module.eval();
  await compare(module, x, [y, forward(module)], c);
  const copy = module.clone();
  expect(await forward(copy).sub(forward(module)).abs().amax().item()).toBe(0);
});

test('parametrizations can be registered, stacked, assigned and removed', async () => {
  class Symmetric extends nn.Module implements tx.nn.Parametrization {
    override forward(...[x]: tx.Tensor[]): tx.Tensor {
      return x!.triu().add(x!.triu(1).t());
    }
    rightInverse(x: tx.Tensor): tx.Tensor {
      return x.triu();
    }
  }
  class Double extends nn.Module implements tx.nn.Parametrization {
    override forward(...[x]: tx.Tensor[]): tx.Tensor {
      return x!.mul(2);
    }
    rightInverse(x: tx.Tensor): tx.Tensor {
      return x.div(2);
    }
  }
  const lin = new nn.Linear(2, 2);
  parametrize.registerParametrization(lin, 'weight', new Symmetric());
  parametrize.registerParametrization(lin, 'weight', new Double());
  expect(parametrize.isParametrized(lin, 'weight')).toBe(true);
  expect([...lin.namedParameters().keys()]).toEqual(['bias', 'parametrizations.weight.original']);
  (lin as { weight: tx.Tensor }).weight = tx
    .tensor([
      [2, 4],
      [4, 6],
    ])
    .float();
  expect(await lin.weight.tolist()).toEqual([
    [2, 4],
    [4, 6],
  ]);
  lin
    .forward(tx.ones([1, 2]))
    .sum()
    .backward();
  const grads = lin.parameters().map((p) => p.grad);
  expect(await grads[1]!.tolist()).toEqual([
    [2, 4],
    [0, 2],
  ]);
  parametrize.removeParametrizations(lin, 'weight');
  expect([...lin.namedParameters().keys()]).toEqual(['bias', 'weight']);
  expect(await lin.weight.tolist()).toEqual([
    [2, 4],
    [4, 6],
  ]);
});

test('weight norm and spectral norm can be taken away, and the weight stays', async () => {
  for (const [add, remove] of [
    [nn.utils.weightNorm, nn.utils.removeWeightNorm],
    [nn.utils.spectralNorm, nn.utils.removeSpectralNorm],
  ] as const) {
    const lin = add(new nn.Linear(3, 2)) as tx.nn.Linear;
    const before = await lin.weight.tolist();
    remove(lin);
    expect([...lin.namedParameters().keys()].sort()).toEqual(['bias', 'weight']);
    expect(await lin.weight.tolist()).toEqual(before);
    expect(Object.hasOwn(lin, 'forward')).toBe(false);
  }
});

test('parameters as a vector, and back', async () => {
  const lin = new nn.Linear(2, 1);
  const vector = nn.utils.parametersToVector(lin.parameters());
  expect(vector.shape).toEqual([3]);
  nn.utils.vectorToParameters(tx.tensor([1, 2, 3], { dtype: 'f32' }), lin.parameters());
  expect(await lin.weight.tolist()).toEqual([[1, 2]]);
  expect(await lin.bias!.tolist()).toEqual([3]);
  expect(() => nn.utils.vectorToParameters(tx.ones([4]), lin.parameters())).toThrow(/the parameters have 3 elements/);
});

test("clipping has torch's names", async () => {
  const p = new nn.Parameter(tx.tensor([3, 4], { dtype: 'f32' }));
  p.grad = tx.tensor([3, 4], { dtype: 'f32' });
  expect(await nn.utils.clipGradNorm_([p], 1).item()).toBe(5);
  nn.utils.clipGradValue_([p], 0.7);
  const [a, b] = (await p.grad.tolist()) as number[];
  expect(a).toBeCloseTo(0.6, 5);
  expect(b).toBeCloseTo(0.7, 5);
});

test('a batch norm is fused into the layer before it', async () => {
  const pairs = [
    [new nn.Conv2d(2, 3, 2, { bias: false }), new nn.BatchNorm2d(3), tx.randn([1, 2, 4, 4])],
    [new nn.Linear(2, 3), new nn.BatchNorm1d(3), tx.randn([4, 2])],
  ] as const;
  for (const [layer, norm, x] of pairs) {
    norm.forward(layer.forward(tx.randn(x.shape.length > 2 ? [4, 2, 4, 4] : [8, 2])));
    expect(() => nn.utils.fuseConvBnEval(layer as tx.nn.Conv2d, norm)).toThrow(/eval mode/);
    layer.eval();
    norm.eval();
    const fused =
      layer instanceof nn.Linear
        ? nn.utils.fuseLinearBnEval(layer, norm)
        : nn.utils.fuseConvBnEval(layer as tx.nn.Conv2d, norm);
    const want = norm.forward(layer.forward(x));
    expect(await fused.forward(x).sub(want).abs().amax().item()).toBeLessThan(1e-5);
  }
});
