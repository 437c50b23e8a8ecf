// Adapters: what PEFT computes with them, on plain layers and on stacked ones.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { load, relativeError } from '../models/support.js';
import { goldenPath } from '../support.js';

const { lora, nn } = tx;
const { TARGETS } = lora;
const numbers = await tx.io.readSafetensors(goldenPath('lora/numbers.safetensors'));
const ids = tx.tensor(numbers.get('ids')!.data, { dtype: 'i64', shape: [2, 7] });
const few = tx.arange(12).reshape([2, 6]);
const PEFT = goldenPath('lora/peft');
const FORMS = [['plain layers', {}] as const, ['a LayerStack', { scanLayers: true }] as const];
/** By the names of state dicts, those of stacked layers apart. */
function gradientsOf(model: tx.nn.Module): Map<string, tx.Tensor> {
  const found = new Map<string, tx.Tensor>();
  for (const { tensor, names, stacked } of model.stateEntries())
    if (tensor.grad) names.forEach((n, i) => void found.set(n, stacked ? tensor.grad!.select(0, i) : tensor.grad!));
  return found;
}
const close = async (got: tx.Tensor, name: string, limit = 1e-5) =>
  expect(relativeError(await got.data(), numbers.get(name)!), name).toBeLessThan(limit);
const bits = async (t: tx.Tensor) => Buffer.from(new Uint8Array((await t.data()).buffer)).toString('hex');

test.each(FORMS)('%s: logits, loss and the gradient of every adapter are those of PEFT', async (_, options) => {
  const model = await load('tied', options);
  await lora.loadAdapters(model, PEFT);
  const logits = model.forward(ids);
  const loss = tx.crossEntropy(logits.narrow(1, 0, 6).flatten(0, 1), ids.narrow(1, 1, 6).flatten());
  loss.backward();
  const gradients = gradientsOf(model);
  await tx.sync(logits, loss, ...gradients.values());
  await close(logits, 'logits');
  await close(loss, 'loss');
  const wanted = [...numbers.keys()].flatMap((key) => (key.startsWith('grad.') ? [key.slice(5)] : []));
  expect([...gradients.keys()].sort()).toEqual(wanted.sort()); // and nothing else has one
  for (const name of wanted) await close(gradients.get(name)!, `grad.${name}`, 1e-4);
});

test.each(FORMS)('%s: merging is what PEFT does, and unmerging gives every bit back', async (_, options) => {
  const model = await load('tied', options);
  const names = [...model.stateDict().keys()];
  await lora.loadAdapters(model, goldenPath('lora/original.pt'), { alpha: 6 });
  const weight = () => model.stateDict().get('model.layers.1.mlp.up_proj.weight')!;
  const before = await bits(weight());
  lora.mergeAdapter(model);
  await close(model.forward(ids), 'merged');
  await close(weight(), 'weight', 1e-6);
  expect(await bits(weight())).not.toBe(before);
  expect(() => lora.mergeAdapter(model)).toThrow('this adapter is already merged: unmerge it first');
  lora.unmergeAdapter(model);
  expect(await bits(weight())).toBe(before);
  lora.mergeAndUnload(model);
  expect([...model.stateDict().keys()]).toEqual(names);
  await close(model.forward(ids), 'merged');
  expect(() => lora.mergeAdapter(model)).toThrow('Qwen3ForCausalLM has no adapters: add some with addLora');
});

/** Two layers of one input and one of another, as in an MLP. */
class Gated extends nn.Module {
  readonly norm = new nn.LayerNorm(8);
  readonly gateProj = new nn.Linear(8, 12, { bias: false });
  readonly upProj = new nn.Linear(8, 12);
  readonly downProj = new nn.Linear(12, 8);
  override forward(x: tx.Tensor): tx.Tensor {
    const [gate, up] = nn.forwardEach([this.gateProj, this.upProj], this.norm.forward(x)) as [tx.Tensor, tx.Tensor];
    return x.add(this.downProj.forward(gate.silu().mul(up)));
  }
}
class Net extends nn.Module {
  readonly embedTokens = new nn.Embedding(20, 8);
  readonly layers: tx.nn.LayerStack<Gated> | tx.nn.Sequential;
  readonly norm = new nn.LayerNorm(8);
  readonly lmHead = new nn.Linear(8, 20, { bias: false });
  constructor({ scanLayers = false } = {}) {
    super();
    const layers = [new Gated(), new Gated()];
    this.layers = scanLayers ? new nn.LayerStack(layers) : new nn.Sequential(...layers);
  }
  hidden(ids: tx.Tensor): tx.Tensor {
    return this.norm.forward(this.layers.forward(this.embedTokens.forward(ids)));
  }
  override forward(ids: tx.Tensor): tx.Tensor {
    return this.lmHead.forward(this.hidden(ids));
  }
}
const productsOf = (model: tx.nn.Sequential | Gated) =>
  tx
    .compile((x: tx.Tensor) => model.forward(x))
    .stablehlo([tx.zeros([4, 8])])
    .match(/dot_general/g)!.length;
/** Numbers of the host's: drawing some for every kind of parameter would be a program each. */
const fill = (t: tx.Tensor, scale = 0.4) =>
  t.assign(Float32Array.from({ length: t.numel() }, (_, i) => scale * Math.sin(1 + i * i * 0.7)));
const fillAll = <M extends tx.nn.Module>(make: () => M): M => {
  const model = nn.init.skipInit(make);
  for (const p of model.parameters()) fill(p);
  return model;
};
const addFilled = (model: tx.nn.Module, options: tx.lora.LoraOptions) => {
  const added = nn.init.skipInit(() => lora.addLora(model, options));
  for (const { loraA, loraB } of added.values()) for (const p of [loraA, loraB]) fill(p);
  return added;
};

test('adapters of one input are one product, unless each drops elements of its own', async () => {
  const model = fillAll(() => new Gated());
  addFilled(model, { targets: TARGETS.mlp, rank: 2, dropout: 0.5 });
  expect(productsOf(model)).toBe(9); // training: three of each layer
  expect(productsOf(model.eval())).toBe(8);
  const x = fill(tx.zeros([4, 8]));
  const apart = [model.gateProj, model.upProj].map((layer) => layer.forward(x));
  const joined = nn.forwardEach([model.gateProj, model.upProj], x);
  await tx.sync(x, ...apart, ...joined);
  for (const i of [0, 1]) expect(Number(await apart[i]!.sub(joined[i]!).abs().max().item())).toBeLessThan(1e-5);
});

test('dropout is for the adapter alone, and for training', async () => {
  const layer = fillAll(() => new nn.Linear(64, 1, { bias: false }));
  const model = new nn.Sequential(layer);
  lora.addLora(model, { targets: '0', rank: 1, alpha: 3, dropout: 0.25 });
  const adapter = lora.adaptersOf(model).get('0')!;
  nn.init.ones_(adapter.loraA);
  nn.init.ones_(adapter.loraB);
  const x = tx.ones([512, 64]);
  const added = (await model.forward(x).sub(layer.forward(x)).div(3).tolist()) as number[][];
  const mean = added.flat().reduce((a, b) => a + b) / 512;
  expect(new Set(added.flat().map((v) => Math.round(v))).size).toBeGreaterThan(5); // what is kept counts 1 / 0.75
  expect(Math.abs(mean - 64)).toBeLessThan(1);
  model.eval();
  expect(await model.forward(x).sub(layer.forward(x)).div(3).sub(64).abs().max().item()).toBeLessThan(1e-4);
});

test.each(FORMS)('%s: training changes the adapters and what the options name, in one program', async (_, options) => {
  const model = fillAll(() => new Net(options));
  const before = new Map([...model.stateDict()].map(([name, t]) => [name, t.clone()]));
  await tx.sync(...before.values());
  lora.addLora(model, { targets: TARGETS.mlp, rank: 2, dropout: 0.1, trainNorms: true });
  const optimizer = new tx.optim.AdamW(
    model.parameters().filter((p) => p.requiresGrad),
    { lr: 0.03 },
  );
  const train = tx.compile((ids: tx.Tensor) => {
    const start = lora.disableAdapter(model, () => tx.noGrad(() => model.hidden(ids)));
    const hidden = model.hidden(ids);
    const loss = tx.crossEntropy(model.lmHead.forward(hidden), ids.add(1));
    tx.distill.anchorLoss(hidden, model.lmHead.weight, { hidden: start }).mul(0.01).add(loss).backward();
    optimizer.step();
    optimizer.zeroGrad();
    return loss;
  });
  const losses: number[] = [];
  for (let i = 0; i < 40; i++) losses.push(Number(await (await train(tx.arange(19))).item()));
  expect(train.programs).toBe(1);
  expect(losses.at(-1)).toBeLessThan(losses[0]! - 0.5);
  const after = model.stateDict();
  const same = await tx.stack([...before].map(([name, t]) => t.eq(after.get(name)!).all())).tolist();
  const changed = [...before.keys()].filter((_, i) => !(same as boolean[])[i]);
  expect(changed).toEqual([...before.keys()].filter((name) => name.includes('norm')));
});

test('switched off, the model is what it was; a compiled function notices', async () => {
  const model = fillAll(() => new Net());
  const run = tx.compile((x: tx.Tensor) => model.forward(x));
  const plain = await bits(await run(few));
  addFilled(model, { targets: TARGETS.mlp, rank: 2 });
  const adapted = tx.compile((x: tx.Tensor) => model.forward(x));
  const on = await bits(await adapted(few));
  expect(on).not.toBe(plain);
  expect(await bits(await lora.disableAdapter(model, () => adapted(few)))).toBe(plain);
  expect(await bits(await adapted(few))).toBe(on);
  expect(adapted.programs).toBe(2);
});

test('which parameters are trained', () => {
  const trained = (options: tx.lora.LoraOptions, scanLayers = false) => {
    const model = nn.init.skipInit(() => new Net({ scanLayers }));
    nn.init.skipInit(() => lora.addLora(model, options));
    return [...model.namedParameters()].filter(([, p]) => p.requiresGrad).map(([name]) => name);
  };
  const only = (names: string[]) => names.filter((n) => !/lora_[AB]$/.test(n));
  expect(trained({ targets: 'layers.1.up_proj' })).toEqual(['layers.1.up_proj.lora_A', 'layers.1.up_proj.lora_B']);
  expect(trained({ targets: TARGETS.mlp }).length).toBe(2 * 3 * 2);
  expect(trained({ targets: TARGETS.mlp }, true).length).toBe(3 * 2); // each stands for two
  expect(only(trained({ targets: /proj$/, trainLmHead: true, trainEmbeddings: true }))).toEqual([
    'embed_tokens.weight',
    'lm_head.weight',
  ]);
});

test('a model in bf16: adapters are kept in f32, the result is bf16; its head may have an adapter', async () => {
  const model = fillAll(() => new Net()).to('bf16');
  addFilled(model, { targets: ['lm_head', 'up_proj'] });
  expect(lora.adaptersOf(model).get('lm_head')!.loraA.dtype).toBe('f32');
  const logits = model.forward(few);
  const product = tx.linear(model.hidden(few), model.lmHead.weight); // what the losses take
  await tx.sync(logits, product);
  expect(logits.dtype).toBe('bf16');
  const [a, b] = [logits.float(), product.float()];
  expect(Number(await a.sub(b).norm().div(a.norm()).item())).toBeLessThan(0.01);
});

test('a quantized layer: its weight is not a parameter, and a merge quantizes again', async () => {
  class Halves extends nn.Module {
    readonly inFeatures = 6;
    readonly outFeatures = 4;
    readonly codes = new nn.Buffer(tx.arange(24).remainder(7).sub(3).to('i8').reshape([4, 6]));
    effectiveWeight = () => this.codes.to('f32').mul(0.5);
    requantize_(weight: tx.Tensor) {
      this.codes.copy_(weight.mul(2).round().to('i8'));
    }
    override forward = (x: tx.Tensor) => tx.linear(x, this.effectiveWeight());
  }
  const layer = new Halves();
  const model = new nn.Sequential(layer);
  await tx.sync(layer.codes);
  const codes = await bits(layer.codes);
  const [adapter] = [...addFilled(model, { targets: '0', rank: 2 }).values()];
  const exact = adapter!.weight;
  await tx.sync(exact);
  lora.mergeAdapter(model);
  const gap = layer.effectiveWeight().sub(exact).abs().max();
  expect(Number(await gap.item())).toBeLessThanOrEqual(0.2500001);
  lora.unmergeAdapter(model);
  expect(await bits(layer.codes)).toBe(codes);
});

test('mistakes are told', async () => {
  const [model, stacked] = [await load('tied'), await load('tied', { scanLayers: true })];
  const add =
    (options: tx.lora.LoraOptions, to: tx.nn.Module = model) =>
    () =>
      lora.addLora(to, options);
  expect(add({ rank: 0 })).toThrow('LoRA: rank is 0: it must be a whole number, at least 1');
  expect(add({ alpha: -1 })).toThrow('LoRA: alpha is -1: it must be above 0');
  expect(add({ dropout: 1 })).toThrow('LoRA: dropout is 1: it must be at least 0 and below 1');
  expect(add({ targets: 'c_attn' })).toThrow(
    'addLora: no layer matches c_attn: adapters need linear layers, such as model.layers.0.self_attn.q_proj, ',
  );
  expect(add({ targets: 'self_attn' })).toThrow('addLora: self_attn is a Qwen3Attention: adapters need linear layers');
  expect(add({ targets: 'layers.1.mlp.up_proj' }, stacked)).toThrow(
    'selects model.layers.1.mlp.up_proj but not model.layers.0.mlp.up_proj: all layers of a LayerStack get adapters together',
  );
  expect(add({ targets: '0', trainLmHead: true }, new nn.Sequential(new nn.Linear(2, 2)))).toThrow(
    'addLora: trainLmHead: Sequential has no such layer',
  );
  expect(model.parameters().every((p) => p.requiresGrad)).toBe(true); // nothing was changed
  lora.addLora(model, { targets: 'lm_head' });
  expect(add({})).toThrow('addLora: Qwen3ForCausalLM already has adapters: call mergeAndUnload first');
  expect(() => lora.mergeAdapter(model)).toThrow(
    'model.embed_tokens.weight and lm_head.weight share the weight of lm_head: an adapter cannot be merged into only one of them',
  );
});
