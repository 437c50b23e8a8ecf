// What the training kit is given: an option that is not there, what is no options object, and the wrong thing in a place are
// errors that say what to write. TypeScript says so before; these are the calls of plain JavaScript.
import * as tx from 'tsxla';
import { QWEN3, Qwen3ForCausalLM } from 'tsxla/models';
import { describe, expect, test } from 'vitest';
import { testMisuses } from './misuse.js';

// biome-ignore lint/suspicious/noExplicitAny: what these calls are about
const { nn, optim, data, io, autocast }: any = tx;
const x = tx.zeros([2, 8]);
const linear = new nn.Linear(8, 4);
const optimizer = new optim.AdamW(linear.parameters());
// biome-ignore lint/suspicious/noExplicitAny: the same
const qwen: any = new Qwen3ForCausalLM({
  ...QWEN3['0.6B'],
  ...{ vocabSize: 16, hiddenSize: 8, intermediateSize: 8, numHiddenLayers: 1, numAttentionHeads: 2 },
  ...{ numKeyValueHeads: 1, headDim: 4, bosTokenId: null, eosTokenId: null },
});
const ids = tx.zeros([1, 4], { dtype: 'i64' });
const mha = new nn.MultiheadAttention(8, 2);
const encoder = new nn.TransformerEncoderLayer(8, 2);

describe('an option that is not there', () => {
  // biome-ignore format: a table
  testMisuses([
    ['LSTM', () => new nn.LSTM(8, 4, { num_layers: 2 }), "LSTM: there is no option 'num_layers': it takes numLayers, bias, batchFirst, dropout, bidirectional, projSize (did you mean numLayers?)"],
    ['forward of an encoder', () => encoder.forward(x, { causal: true }), "TransformerEncoderLayer.forward: there is no option 'causal': it takes srcMask, srcKeyPaddingMask, isCausal (did you mean isCausal?)"],
    ['loadStateDict', () => linear.loadStateDict({}, { Strict: false }), "loadStateDict: there is no option 'Strict': it takes strict (did you mean strict?)"],
    ['AdamW', () => new optim.AdamW(linear.parameters(), { weight_decay: 0 }), /there is no option 'weight_decay': .* \(did you mean weightDecay\?\)$/],
    ['a learning rate', () => new optim.SGD(linear.parameters(), { learningRate: 1 }), /there is no option 'learningRate': .* \(did you mean lr\?\)$/],
    ['of a group', () => { optimizer.paramGroups[0].learningRate = 1; }, /^AdamW: there is no option 'learningRate': .* \(did you mean lr\?\)$/],
    ['CosineLR', () => new optim.CosineLR(optimizer, { totalSteps: 9, warmupSteps: 2 }), "CosineLR: there is no option 'warmupSteps': it takes totalSteps, warmup, floor, lastEpoch (did you mean warmup?)"],
    ["torch's T_max", () => new optim.CosineLR(optimizer, { T_max: 9 }), "CosineLR: there is no option 'T_max': it takes totalSteps, warmup, floor, lastEpoch (did you mean totalSteps?)"],
    ['LinearLR', () => new optim.LinearLR(optimizer, { start_factor: 0.1 }), "LinearLR: there is no option 'start_factor': it takes startFactor, endFactor, totalIters, lastEpoch (did you mean startFactor?)"],
    ['EMA', () => new optim.EMA(linear.parameters(), { beta: 0.9 }), "EMA: there is no option 'beta': it takes decay, warmup (did you mean decay?)"],
    ['GradScaler', () => new optim.GradScaler({ init_scale: 2 }), /^GradScaler: there is no option 'init_scale': .* \(did you mean initScale\?\)$/],
    ['clipGradNorm', () => optim.clipGradNorm([x], 1, { norm_type: 1 }), "clipGradNorm: there is no option 'norm_type': it takes normType, errorIfNonfinite (did you mean normType?)"],
    ['a step', () => optimizer.step({ skip: true }), "AdamW.step: there is no option 'skip': it takes skipIf (did you mean skipIf?)"],
    ['zeroGrad', () => optimizer.zeroGrad({ set_to_none: false }), "AdamW.zeroGrad: there is no option 'set_to_none': it takes setToNone (did you mean setToNone?)"],
    ['autocast', () => autocast({ device: 'cuda' }, () => x), "autocast: there is no option 'device': it takes dtype, enabled"],
    ['bucketCollate', () => data.bucketCollate({ pad_value: 1 }), /there is no option 'pad_value': .* \(did you mean padValue\?\)$/],
    ['stackCollate', () => data.stackCollate({ dtypes: 'f32' }), "stackCollate: there is no option 'dtypes': it takes dtype (did you mean dtype?)"],
    ['packSequences', () => data.packSequences([], { length: 8, too_long: 'split' }), /there is no option 'too_long': .* \(did you mean tooLong\?\)$/],
    ['chunkTokens', () => data.chunkTokens([], { length: 8, sep: 1 }), /^chunkTokens: there is no option 'sep'/],
    ['JsonlDataset', () => new data.JsonlDataset('x', { by: 'line' }), "JsonlDataset: there is no option 'by': it takes maxBytes"],
    ['ParquetDataset', () => new data.ParquetDataset('x', { column: ['a'] }), /\(did you mean columns\?\)$/],
    ['randomSplit', () => data.randomSplit([1, 2], [1, 1], { generator: 1 }), "randomSplit: there is no option 'generator': it takes seed"],
    ['DataLoader', () => new data.DataLoader([1], { batch_size: 1 }), /there is no option 'batch_size': .* \(did you mean batchSize\?\)$/],
    ['generate', () => qwen.generate([1], { max_new_tokens: 4 }), /^generate: there is no option 'max_new_tokens': .* \(did you mean maxNewTokens\?\)$/],
    ["a model's forward", () => qwen.forward(ids, { attention_mask: ids }), "Qwen3.forward: there is no option 'attention_mask': it takes attentionMask, segmentIds, positionIds, cache, outputHiddenStates, outputAttentions, outputRouterLogits, outputRouterLoad (did you mean attentionMask?)"],
    ["a model's configuration", () => new Qwen3ForCausalLM({ ...QWEN3['0.6B'], hidden_size: 8 } as never), /^Qwen3: there is no option 'hidden_size': .* \(did you mean hiddenSize\?\)$/],
  ]);
  test('of what is asynchronous', async () => {
    const wrong = (Qwen3ForCausalLM as typeof qwen).fromPretrained('x', { torchDtype: 'f32' });
    await expect(wrong).rejects.toThrow(
      /^fromPretrained: there is no option 'torchDtype': .* \(did you mean dtype\?\)$/,
    );
    await expect(io.resolveModel('x', { revison: 'a' })).rejects.toThrow(/\(did you mean revision\?\)$/);
  });
});

describe('what is no options object', () => {
  // biome-ignore format: a table
  testMisuses([
    ['a mask of another shape by place', () => mha.forward(x, x, x, x), 'MultiheadAttention: keyPaddingMask is f32[2, 8]: it must be [2]'],
    ["a model's mask by place", () => qwen.forward(ids, ids), 'Qwen3.forward: got a Tensor in place of its options: write { attentionMask, segmentIds, positionIds, cache, outputHiddenStates, outputAttentions, outputRouterLogits, outputRouterLoad }, those that you need'],
    ['a dtype', () => autocast('f16', () => x), "autocast: got the string 'f16' in place of its options: write { dtype, enabled }, those that you need"],
    ['none, of autocast', () => autocast(() => x), "autocast: options come first: autocast({ dtype: 'bf16' }, () => ...)"],
    ['one too many by place', () => new nn.Linear(8, 4, true, 1), 'Linear: takes bias, got 2 arguments'],
  ]);
});

class Twice extends tx.nn.Module {
  readonly fooBar = new tx.nn.Linear(1, 1);
  readonly foo_bar = new tx.nn.Linear(1, 1);
}
class Bare extends tx.nn.Module {
  readonly w = tx.zeros([2], { requiresGrad: true });
}

describe('the wrong thing in a place', () => {
  // biome-ignore format: a table
  testMisuses([
    ['a model for its parameters', () => new optim.AdamW(linear), 'AdamW: the parameters are a Linear: pass model.parameters(), or a list of tensors'],
    ['a model that is a list', () => new optim.AdamW(new nn.Sequential(linear)), 'AdamW: the parameters are a Sequential: pass model.parameters(), or a list of tensors'],
    ['a model for an average', () => new optim.EMA(linear), 'EMA: the parameters are a Linear: pass model.parameters(), or a list of tensors'],
    ['a tensor for a number', () => new optim.SGD([x.clone().requiresGrad_()], { lr: 0.1, momentum: tx.tensor(0.1) }), 'SGD: momentum is a Tensor: it must be 0 or more: read it first, await momentum.item()'],
    ['text for a number', () => new nn.Dropout('0.5'), "Dropout: p is '0.5': a probability is between 0 and 1"],
    ['text for a count', () => new nn.Linear('8', 4), "Linear: inFeatures is '8': it must be a whole number, at least 1"],
    ['options for a number', () => optim.clipGradNorm([x], { maxNorm: 1 }), 'clipGradNorm: maxNorm is an object: it must be 0 or more: write clipGradNorm(parameters, 1)'],
    ['a promise for a state dict', () => linear.loadStateDict(Promise.resolve(new Map())), 'loadStateDict: Linear got a promise (await it): the state dict must be a Map or an object'],
    ['lists in a state dict', () => new nn.Linear(2, 1, false).loadStateDict({ weight: [[1, 2]] }), 'loadStateDict: weight is an Array: it must be a tensor (tx.tensor(...)) or { dtype, shape, data }'],
    ['one tensor for three', () => mha.forward(x), 'MultiheadAttention.forward: key is undefined: it takes query, key and value: for self-attention write forward(x, x, x)'],
    ['a number for a layer', () => new nn.TransformerEncoder(3, 2), 'TransformerEncoder: takes a layer, or a function that makes one, got the number 3: write new TransformerEncoder(new TransformerEncoderLayer(...), 2)'],
    ['a list for a tensor', () => new nn.Parameter([1, 2]), 'nn.Parameter: takes a tensor, got an Array: write new nn.Parameter(tx.tensor(...))'],
    ['a list of modules that is called', () => new nn.ModuleList([linear]).forward(x), 'ModuleList has no forward: call its modules, for (const m of list) x = m.forward(x), or use nn.Sequential'],
    ["torch's name of a dtype", () => linear.to('bfloat16'), "Linear.to: dtype 'bfloat16' is written 'bf16'"],
    ['a tensor as a prompt', () => qwen.generate(ids), 'generate: the prompt is a Tensor: it must be a string, a list of token ids, or a list of those. For a tensor, pass Array.from(await ids.data(), Number)'],
    ['messages as a prompt', () => qwen.generate([{ role: 'user', content: 'hi' }]), 'generate: the prompt is an object: it must be a string, a list of token ids, or a list of those. For messages, pass model.tokenizer.applyChatTemplate(messages)'],
    ['two fields of one name', () => new Twice().parameters(), 'Twice: fields fooBar and foo_bar are both foo_bar in state dicts: rename one of them'],
    ['a variable that is no parameter', () => new Bare().parameters(), 'Bare.w is a tensor that requires a gradient but is not a parameter: wrap it in nn.Parameter, or detach() it'],
  ]);
  // biome-ignore format: a table
  testMisuses([
    ['one sequence', () => qwen.forward(tx.zeros([4], { dtype: 'i64' })), 'Qwen3: inputIds is i64[4]: it must be [B, T]: for one sequence use inputIds.unsqueeze(0)'],
    ['a mask of another length', () => qwen.forward(ids, { attentionMask: tx.ones([1, 3]) }), 'Qwen3: attentionMask is f32[1, 3], inputIds is i64[1, 4]: their shapes must be equal'],
  ], /kit\.errors\.test\.ts:\d+/);
  test('of what is asynchronous', async () => {
    const reads = tx.compile((x: tx.Tensor) => [x.item()] as unknown);
    await expect(reads(x)).rejects.toThrow(/inside a compiled function/);
    await expect(io.writeSafetensors('x', [x])).rejects.toThrow(
      'takes a Map or an object of arrays and tensors, got an Array',
    );
    const readAll = async (items: AsyncIterable<unknown>) => {
      for await (const _ of items);
    };
    const nothing = new data.DataLoader({ length: 2, get: () => undefined }, { batchSize: 2 });
    await expect(readAll(nothing)).rejects.toThrow('item 0 of the dataset is undefined: its get(0) returns nothing');
    const lines = new data.DataLoader(new data.JsonlDataset('/no/such.jsonl'));
    await expect(readAll(lines)).rejects.toThrow(/^cannot read \/no\/such\.jsonl: ENOENT/);
  });
});

test('an array of a file is a tensor', async () => {
  const host = { dtype: 'bf16', shape: [2, 1], data: Uint16Array.of(0x3f80, 0x4000) } as const;
  expect(await tx.tensor(host).tolist()).toEqual([[1], [2]]);
  expect(await tx.tensor(host, { dtype: 'f32' }).tolist()).toEqual([[1], [2]]);
  expect(tx.tensor(host, { dtype: 'f32' }).dtype).toBe('f32');
});

test('what the types say of splits and batches is so', async () => {
  const [train, rest] = tx.data.randomSplit([1, 2, 3, 4], [0.75, 0.25]);
  expect([train.length, rest.length]).toEqual([3, 1]);
  const pairs = new tx.data.DataLoader(new tx.data.TensorDataset(tx.zeros([4, 2]), tx.zeros([4])), { batchSize: 4 });
  for await (const [a, b] of pairs) expect([a.shape, b.shape]).toEqual([[4, 2], [4]]);
});

test('options that torch takes by place are taken by place', () => {
  expect(new nn.Linear(8, 4, false).bias).toBe(null);
  expect(new nn.LSTM(8, 4, 2, { batchFirst: true }).numLayers).toBe(2);
  expect(new nn.RNN(8, 4, 2, 'relu').nonlinearity).toBe('relu');
  expect(new nn.LayerNorm(8, 1e-3).eps).toBe(1e-3);
  expect(new nn.RMSNorm(8, 1e-3).eps).toBe(1e-3);
  expect(new nn.BatchNorm2d(8, 1e-3, 0.2).momentum).toBe(0.2);
  expect(new nn.GroupNorm(2, 8, 1e-3, false).weight).toBe(null);
  expect(new nn.Embedding(8, 4, 0).paddingIdx).toBe(0);
  expect(new nn.MultiheadAttention(8, 2, 0.3).dropout).toBe(0.3);
  expect(new nn.TransformerEncoderLayer(8, 2, 16).linear1.outFeatures).toBe(16);
  expect(new nn.CrossEntropyLoss(tx.ones([3])).weight.shape).toEqual([3]);
  expect(String(new nn.GELU('tanh'))).toContain('approximate=tanh');
});
