// Options as torch's users write them: None as null, by place, those that change nothing here; and what is said where a call is
// likely not what was meant.
import * as tx from 'tsxla';
import { expect, test, vi } from 'vitest';

const { nn } = tx;
const f32 = (data: number[] | number[][]) => tx.tensor(data, { dtype: 'f32' });

test('null is "left out" where torch takes None', () => {
  expect(new nn.MaxPool2d(2, null).forward(tx.ones([1, 1, 4, 4])).shape).toEqual([1, 1, 2, 2]);
  expect(new nn.AvgPool1d(2, { stride: null }).forward(tx.ones([1, 1, 4])).shape).toEqual([1, 1, 2]);
  expect(new nn.Upsample(null, 2).forward(tx.ones([1, 1, 2])).shape).toEqual([1, 1, 4]);
  expect(new nn.MultiheadAttention(4, 2, { kdim: null, vdim: null }).inProjWeight!.shape).toEqual([12, 4]);
  expect(new nn.Embedding(3, 2, null).paddingIdx).toBe(undefined);
  expect(new nn.CrossEntropyLoss({ weight: null }).stateDict().size).toBe(0);
  expect(new nn.NLLLoss(null).stateDict().size).toBe(0);
});

test('inplace is accepted and changes nothing', async () => {
  for (const layer of [new nn.ReLU(true), new nn.ReLU({ inplace: false }), new nn.LeakyReLU(0.1, true)]) {
    const x = f32([-1, 2]);
    layer.forward(x);
    expect(await x.tolist()).toEqual([-1, 2]);
  }
  expect(String(new nn.ELU(1, true))).toContain('ELU(alpha=1, inplace=true)');
  expect(String(new nn.Dropout(0.1))).toContain('Dropout(p=0.1)');
});

test('norms without an offset', () => {
  const layers = [
    new nn.BatchNorm2d(3, { bias: false }),
    new nn.InstanceNorm1d(3, { affine: true, bias: false }),
    new nn.GroupNorm(1, 3, 1e-5, true, false),
  ];
  for (const layer of layers) expect([...layer.namedParameters().keys()]).toEqual(['weight']);
});

test('initial values by place and by name', async () => {
  const w = new nn.Parameter(tx.empty([1000]));
  const spread = async () => await w.std().item();
  nn.init.normal_(w, { std: 0.02 });
  expect(await spread()).toBeCloseTo(0.02, 2);
  nn.init.normal_(w, 5, 2);
  expect(await w.mean().item()).toBeCloseTo(5, 0);
  nn.init.uniform_(w, { a: 2, b: 3 });
  expect(await w.amin().item()).toBeGreaterThanOrEqual(2);
  nn.init.truncNormal_(w, { std: 0.02, a: -0.01, b: 0.01 });
  expect(await w.abs().amax().item()).toBeLessThanOrEqual(0.0101);
  expect(() => nn.init.normal_(w, { stdd: 1 } as never)).toThrow(/there is no option 'stdd'.*did you mean std/);
  expect(await new nn.PReLU(1, { init: 0.1 }).weight.tolist()).toEqual([Math.fround(0.1)]);
});

test('Embedding: fromPretrained, maxNorm, scaleGradByFreq', async () => {
  const table = f32([
    [3, 4],
    [0.3, 0.4],
    [6, 8],
  ]);
  const frozen = nn.Embedding.fromPretrained(table);
  expect(frozen.weight.requiresGrad).toBe(false);
  expect(nn.Embedding.fromPretrained(table, false).weight.requiresGrad).toBe(true);
  const short = nn.Embedding.fromPretrained(table, { maxNorm: 1, freeze: false });
  const rows = (await short.forward(tx.tensor([0, 1])).tolist()) as number[][];
  expect(rows[0]![0]).toBeCloseTo(0.6, 5);
  expect(rows[1]![0]).toBeCloseTo(0.3, 5);
  expect(((await short.weight.tolist()) as number[][])[2]).toEqual([6, 8]); // it was not used
  const scaled = new nn.Embedding(3, 2, { scaleGradByFreq: true });
  scaled
    .forward(tx.tensor([0, 0, 1]))
    .sum()
    .backward();
  expect(await scaled.weight.grad!.tolist()).toEqual([
    [1, 1],
    [1, 1],
    [0, 0],
  ]);
});

test('EmbeddingBag by place, and with the end of the last bag among the offsets', async () => {
  const weights = f32([[1], [2], [4]]);
  const bag = nn.EmbeddingBag.fromPretrained(weights, { mode: 'sum', includeLastOffset: true });
  const [ids, offsets] = [tx.tensor([0, 1, 2]), tx.tensor([0, 2, 3])];
  expect(await bag.forward(ids, offsets).tolist()).toEqual([[3], [4]]);
});

test('whole numbers into a layer: the error names the dtype to ask for', () => {
  expect(() => new nn.Linear(2, 2).forward(tx.tensor([[1.0, 2.0]]))).toThrow(/tx\.tensor\(data, \{ dtype: 'f32' \}\)/);
});

test('a loss of shapes that broadcast says so, as torch warns', async () => {
  const lines: string[] = [];
  vi.stubEnv('TSXLA_LOG', '');
  const spy = vi.spyOn(process.stderr, 'write').mockImplementation((text) => lines.push(String(text)) > 0);
  // eslint-disable-next-line tsxla/shapes -- the notice is tested
  tx.mseLoss(tx.ones([4, 1]), tx.ones([4]));
  tx.mseLoss(tx.ones([4]), tx.ones([4]));
  spy.mockRestore();
  vi.unstubAllEnvs();
  expect(lines.join('')).toMatch(
    /mseLoss: the target f32\[4\] and the input f32\[4, 1\] have different shapes: both are broadcast to \[4, 4\]/,
  );
  expect(lines.length).toBe(1);
});

test('a compiled function that is called with too few arguments says how many it has', async () => {
  const add = tx.compile((x: tx.Tensor, y: tx.Tensor) => x.add(y.mul(2)));
  await expect((add as unknown as (x: tx.Tensor) => Promise<tx.Tensor>)(tx.ones([1]))).rejects.toThrow(
    /called with 1 argument, the function has 2: Cannot read properties of undefined/,
  );
  const optional = tx.compile((x: tx.Tensor, y?: tx.Tensor) => (y ? x.add(y) : x.mul(3)));
  expect(await (await optional(tx.ones([1]))).tolist()).toEqual([3]);
});

test('p.data = t is an error, not a hidden method', async () => {
  const { weight } = new nn.Linear(1, 1);
  expect(() => {
    (weight as { data: unknown }).data = tx.zeros([1, 1]);
  }).toThrow(/data is a method here/);
  expect((await weight.data()).length).toBe(1);
});

test('lazy layers take their sizes from the first tensor, keep their parameters, and become ordinary ones', async () => {
  const net = new nn.Sequential(
    new nn.LazyConv2d(4, 3, { groups: 2 }),
    new nn.LazyBatchNorm2d(),
    new nn.Flatten(),
    new nn.LazyLinear(5),
  );
  const parameters = net.parameters();
  const opt = new tx.optim.SGD(parameters, { lr: 0.1 });
  const y = net.forward(tx.randn([2, 6, 5, 5]));
  expect(y.shape).toEqual([2, 5]);
  expect(net.parameters().every((p, i) => p === parameters[i])).toBe(true);
  expect(parameters.map((p) => p.shape)).toEqual([[4, 3, 3, 3], [4], [4], [4], [5, 36], [5]]);
  expect(net.at(0).constructor).toBe(nn.Conv2d);
  y.sum().backward();
  const before = await parameters[4]!.tolist();
  opt.step();
  expect(await parameters[4]!.tolist()).not.toEqual(before);
  const first = tx.compile((x: tx.Tensor) => new nn.LazyLinear(2).forward(x));
  await expect(first(tx.ones([1, 2]))).rejects.toThrow(/once outside of compiled functions/);
});

test('pools give indices where they are asked for, in values and in types, and unpooling takes them', async () => {
  const x = f32([[1, 5, 2, 3]]).unsqueeze(0);
  const pool = new nn.MaxPool1d(2, { returnIndices: true });
  const [values, indices] = pool.forward(x);
  expect(await indices.tolist({ numbers: true })).toEqual([[[1, 3]]]);
  expect(await new nn.MaxUnpool1d(2).forward(values, indices).tolist()).toEqual([[[0, 5, 0, 3]]]);
  const [, places] = new nn.AdaptiveMaxPool1d(1, true).forward(x);
  expect(await places.tolist({ numbers: true })).toEqual([[[1]]]);
  const y: tx.Tensor = new nn.MaxPool1d(2).forward(x);
  expect(y.shape).toEqual([1, 1, 2]);
  expect(new nn.MaxPool1d({ kernelSize: 2, stride: 1 }).forward(x).shape).toEqual([1, 1, 3]);
});

test('Transformer: defaults, masks by place, activations, and a mask that looks back only', async () => {
  const model = new nn.Transformer({
    dModel: 4,
    nhead: 2,
    numEncoderLayers: 1,
    numDecoderLayers: 1,
    dimFeedforward: 8,
  });
  const [src, tgt] = [tx.randn([3, 2, 4]), tx.randn([5, 2, 4])];
  const mask = nn.Transformer.generateSquareSubsequentMask(3);
  const inf = Number.POSITIVE_INFINITY;
  expect(await mask.tolist()).toEqual([
    [0, -inf, -inf],
    [0, 0, -inf],
    [0, 0, 0],
  ]);
  model.eval();
  const byPlace = model.forward(src, tgt, mask, nn.Transformer.generateSquareSubsequentMask(5));
  const byName = model.forward(src, tgt, { srcIsCausal: true, tgtIsCausal: true });
  expect(await byPlace.sub(byName).abs().amax().item()).toBeLessThan(1e-5);
  expect(() => model.forward(src, tx.randn([5, 3, 4]))).toThrow(/the batch sizes of src/);
  const layer = new nn.TransformerEncoderLayer(4, 2, { activation: (x) => x.gelu({ approximate: 'tanh' }) });
  const encoder = new nn.TransformerEncoder(layer, 2, { norm: new nn.LayerNorm(4) });
  const [first, second] = [...encoder.layers].map((l) => l.linear1.weight);
  expect(first === second).toBe(false); // copies, all with the values of the layer, as in torch
  expect(await first!.tolist()).toEqual(await second!.tolist());
  expect(await first!.tolist()).toEqual(await layer.linear1.weight.tolist());
  expect(() => new nn.TransformerEncoderLayer(4, 2, { activation: 'swish' as 'relu' })).toThrow(
    /activation is .?swish/,
  );
});

test('channels are shuffled, and a triplet loss takes a distance', async () => {
  const x = tx.arange(4, { dtype: 'f32' }).reshape([1, 4, 1]);
  expect(await new nn.ChannelShuffle(2).forward(x).flatten().tolist()).toEqual([0, 2, 1, 3]);
  const loss = new nn.TripletMarginWithDistanceLoss({ distanceFunction: (a, b) => a.sub(b).abs().sum(-1), margin: 3 });
  expect(await loss.forward(f32([[0]]), f32([[1]]), f32([[2]])).item()).toBe(2);
  const usual = new nn.TripletMarginWithDistanceLoss();
  expect(await usual.forward(f32([[0]]), f32([[1]]), f32([[5]])).item()).toBe(0);
});

test("parameters of a decoder layer come in torch's order, by which state dicts of optimizers are loaded", () => {
  const names = [...new nn.TransformerDecoderLayer(4, 2).namedParameters().keys()].map((name) => name.split('.')[0]);
  expect([...new Set(names)]).toEqual(['self_attn', 'multihead_attn', 'linear1', 'linear2', 'norm1', 'norm2', 'norm3']);
});
