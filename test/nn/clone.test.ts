// Copies of modules, tied weights, and what may be put into the field of a parameter.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { rows } from './layers.rows.js';

const { nn } = tx;

class Tied extends nn.Module {
  tok = new nn.Embedding(5, 3);
  layers = [new nn.Linear(3, 3), new nn.Linear(3, 3)];
  norm = new nn.BatchNorm1d(3);
  decoder = new nn.Linear(3, 5, { bias: false });
  table = new nn.Buffer(tx.ones([3]), { persistent: false });
  act = (x: tx.Tensor) => x.relu();
  constructor() {
    super();
    this.decoder.weight = this.tok.weight; // the types accept it
  }
  override forward(ids: tx.Tensor): tx.Tensor {
    let x = this.tok.forward(ids);
    for (const layer of this.layers) x = this.act(layer.forward(x));
    return this.decoder.forward(this.norm.forward(x).mul(this.table));
  }
}

test('tied weights are one parameter with two names, as in torch', async () => {
  const net = new Tied();
  expect([...net.namedParameters().keys()].filter((n) => n.includes('tok') || n.includes('decoder'))).toEqual([
    'tok.weight',
  ]);
  expect([...net.stateDict().keys()].filter((n) => n.endsWith('weight') && !n.includes('layers'))).toEqual([
    'tok.weight',
    'norm.weight',
    'decoder.weight',
  ]);
  const ids = tx.tensor([0, 1, 2]);
  net.forward(ids).sum().backward();
  const both = net.tok.weight.grad!;
  expect(net.decoder.weight.grad === both).toBe(true);
  const opt = new tx.optim.SGD(net.parameters(), { lr: 0.1 });
  opt.step();
  expect(await net.decoder.weight.tolist()).toEqual(await net.tok.weight.tolist());
});

test('clone copies parameters, buffers, modes and hooks; what is tied stays tied; changes do not reach the other', async () => {
  const net = new Tied();
  net.layers[0]!.freeze();
  net.norm.eval();
  net.layers[1]!.registerForwardHook((_, __, y) => y.mul(2));
  const ids = tx.tensor([0, 1, 2]);
  const copy = net.clone();
  expect(copy).toBeInstanceOf(Tied);
  expect(copy.decoder.weight === copy.tok.weight).toBe(true);
  expect(copy.tok.weight === net.tok.weight).toBe(false);
  expect(copy.layers[0]!.weight.requiresGrad).toBe(false);
  expect(copy.layers[1]!.weight.requiresGrad).toBe(true);
  expect([copy.training, copy.norm.training]).toEqual([true, false]);
  expect([...copy.stateDict().keys()]).toEqual([...net.stateDict().keys()]);
  expect(copy.table.persistent).toBe(false);
  const before = await net.forward(ids).tolist();
  expect(await copy.forward(ids).tolist()).toEqual(before);
  copy.train().forward(ids).sum().backward();
  new tx.optim.SGD(copy.parameters(), { lr: 1 }).step();
  expect(net.tok.weight.grad).toBe(null);
  expect(await net.forward(ids).tolist()).toEqual(before);
  expect(await copy.eval().forward(ids).tolist()).not.toEqual(before);
});

test('a copy is independent of compiled steps that update the original in place', async () => {
  const net = new nn.Linear(2, 2);
  const target = net.clone();
  const start = await target.weight.tolist();
  const opt = new tx.optim.SGD(net.parameters(), { lr: 0.1 });
  const train = tx.compile((x: tx.Tensor) => {
    opt.zeroGrad();
    const loss = net.forward(x).square().mean();
    loss.backward();
    opt.step();
    return loss;
  });
  for (let i = 0; i < 3; i++) await train(tx.ones([4, 2]));
  expect(await target.weight.tolist()).toEqual(start);
  expect(await net.weight.tolist()).not.toEqual(start);
});

test('every layer can be copied, and the copy computes the same', () => {
  const seen = new Set<unknown>();
  const failed = rows.filter((row) => {
    const module = row.make();
    if (seen.has(module.constructor)) return false;
    seen.add(module.constructor);
    const copy = module.clone();
    const text = (m: tx.nn.Module) => `${m}\n${[...m.stateDict()].map(([name, t]) => `${name} ${t.aval}`)}`;
    if (text(copy) !== text(module) || copy.constructor !== module.constructor) return true;
    const xs = row.inputs.map(({ shape, dtype }) => tx.zeros(shape, { dtype: dtype === 'f64' ? 'f32' : dtype }));
    row.run(copy as never, ...xs); // would fail where something was left behind
    return false;
  });
  expect(failed.map((row) => row.name)).toEqual([]);
});

test('Qwen3 and layers with adapters can be copied', () => {
  const sizes = { hiddenSize: 8, intermediateSize: 12, numHiddenLayers: 2, numAttentionHeads: 2, numKeyValueHeads: 1 };
  const config = { ...tx.models.QWEN3['0.6B'], ...sizes, headDim: 4, vocabSize: 11, tieWordEmbeddings: true };
  for (const scanLayers of [false, true]) {
    const model = new tx.models.Qwen3ForCausalLM(config, { scanLayers });
    tx.lora.addLora(model, { rank: 2 });
    const copy = model.clone();
    expect([...copy.namedParameters().keys()]).toEqual([...model.namedParameters().keys()]);
    expect(copy.lmHead.weight === copy.model.embedTokens.weight).toBe(true);
    expect(copy.forward(tx.tensor([[1, 2, 3]])).shape).toEqual([1, 3, 11]);
  }
});

test('a class with private names says that it cannot be copied', () => {
  class Secret extends nn.Module {
    readonly #scale = 2;
    override forward(x: tx.Tensor): tx.Tensor {
      return x.mul(this.#scale);
    }
  }
  expect(() => new nn.Sequential(new Secret()).clone()).toThrow(/class Secret has the private name #scale/);
});

test('structuredClone of a module fails instead of giving an object without its values', () => {
  expect(() => structuredClone(new nn.Linear(2, 2))).toThrow(/could not be cloned/);
});

test('a plain tensor cannot take the place of a parameter; null and another parameter can', () => {
  const lin = new nn.Linear(2, 3);
  expect(() => {
    (lin as { weight: unknown }).weight = tx.zeros([3, 2]);
  }).toThrow(/cannot assign f32\[3, 2\] as parameter 'weight' of Linear \(nn.Parameter or null expected\)/);
  expect(lin.parameters().length).toBe(2);
  lin.weight = new nn.Parameter(tx.zeros([3, 2]));
  lin.bias = null;
  expect([...lin.namedParameters().keys()]).toEqual(['weight']);
});

test('a tensor in place of a buffer becomes the buffer, as in torch', () => {
  const norm = new nn.BatchNorm1d(2);
  (norm as { runningMean: tx.Tensor }).runningMean = tx.ones([2]);
  expect([...norm.stateDict().keys()]).toContain('running_mean');
});

test('a forward that was assigned is copied, behind hooks too; one that computes with the original is refused', async () => {
  const lin = new nn.Linear(2, 2);
  const doubled = function (this: tx.nn.Linear, x: tx.Tensor): tx.Tensor {
    return nn.Linear.prototype.forward.call(this, x).mul(2);
  };
  lin.forward = doubled;
  const [plain, x] = [new nn.Linear(2, 2), tx.ones([1, 2])];
  const values = async (m: tx.nn.Linear) => (await m.forward(x).tolist()) as number[][];
  const copy = lin.clone();
  expect(await values(copy)).toEqual(await values(lin));
  tx.noGrad(() => copy.weight.zero_());
  expect(await values(copy)).not.toEqual(await values(lin)); // it computes with its own weights
  const seen: unknown[] = [];
  lin.registerForwardHook(() => void seen.push(1));
  const hooked = lin.clone();
  expect(await values(hooked)).toEqual(await values(lin));
  expect(seen).toHaveLength(2);

  plain.forward = (x: tx.Tensor) => doubled.call(plain, x);
  expect(() => plain.clone()).toThrow(
    'the forward of Linear is an arrow function, which would compute with the weights',
  );
  plain.forward = doubled.bind(plain);
  expect(() => plain.clone()).toThrow('a bound function');
  class Field extends nn.Module {
    readonly inner = new nn.Linear(2, 2);
    override forward = (x: tx.Tensor): tx.Tensor => this.inner.forward(x);
  }
  expect(() => new Field().clone()).toThrow('the forward of Field is an arrow function');
});
