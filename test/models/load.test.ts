// Folders of models: loaded by name and strictly, in little memory, and written again.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import * as tx from 'tsxla';
import { readSafetensors } from 'tsxla/io';
import { QWEN3, Qwen3ForCausalLM, readQwen3Config } from 'tsxla/models';
import { afterAll, expect, test } from 'vitest';
import { counts } from '../../dist/runtime/program.js';
import { folderOf, NAMES } from './support.js';

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'qwen3-'));
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));

/** Parameters are computed with whatever is read next: these would not fit. */
const forget = (model: tx.nn.Module) => {
  for (const p of model.parameters()) p.dispose();
};

// As transformers counts them.
const COUNTS = {
  '0.6B': 596_049_920,
  '1.7B': 1_720_574_976,
  '4B': 4_022_468_096,
  '8B': 8_190_735_360,
  '14B': 14_768_307_200,
  '32B': 32_762_123_264,
} as const;
test.each(Object.keys(COUNTS) as (keyof typeof COUNTS)[])('Qwen3 %s has its number of parameters', (size) => {
  const model = new Qwen3ForCausalLM(QWEN3[size]); // nothing is computed
  expect(model.parameters().reduce((n, p) => n + p.numel(), 0)).toBe(COUNTS[size]);
  forget(model);
});

test.each(['0.6B', '32B'] as const)('a training step of Qwen3 %s is written down without making a weight', (size) => {
  const before = tx.metrics.counter('ExecuteComputation');
  const options = { scanLayers: true, checkpoint: true };
  const model = tx.nn.init.skipInit(() => new Qwen3ForCausalLM(QWEN3[size], options)).to('bf16');
  const train = tx.compile((ids: tx.Tensor) => {
    const loss = model.loss(ids);
    loss.backward();
    return loss;
  });
  const text = train.stablehlo([tx.zeros([1, 2048], { dtype: 'i32' })], { platform: 'tpu' });
  const { numHiddenLayers: L, intermediateSize: F, hiddenSize: D } = QWEN3[size];
  expect(text).toContain(`tensor<${L}x${F}x${D}xbf16>`);
  expect(text.length).toBeLessThan(300_000); // whatever the number of layers
  expect(tx.metrics.counter('ExecuteComputation')).toBe(before);
  forget(model);
});

test('a random model: norms are ones, biases and the row of padding zeros, all else is drawn', async () => {
  const sizes = { hiddenSize: 32, intermediateSize: 16, numHiddenLayers: 2, numAttentionHeads: 2, numKeyValueHeads: 1 };
  const more = { headDim: 8, vocabSize: 64, padTokenId: 3, tieWordEmbeddings: true, attentionBias: true };
  const model = new Qwen3ForCausalLM({ ...sizes, ...more });
  await tx.sync(...model.parameters());
  for (const [name, p] of model.namedParameters()) {
    const data = [...(await p.data())] as number[];
    const deviation = Math.sqrt(data.reduce((sum, x) => sum + x * x, 0) / data.length);
    if (/norm/.test(name)) expect(new Set(data), name).toEqual(new Set([1]));
    else if (/bias/.test(name)) expect(new Set(data), name).toEqual(new Set([0]));
    else expect(Math.abs(deviation / 0.02 - 1), name).toBeLessThan(0.2);
  }
  const table = (await model.model.embedTokens.weight.tolist()) as number[][];
  expect(table.map((row) => row.every((x) => x === 0)).indexOf(true)).toBe(3);
});

test.each(NAMES)('%s: read in its own dtype, written, and read again, all is the same', async (name) => {
  const model = await Qwen3ForCausalLM.fromPretrained(folderOf(name));
  expect(new Set(model.parameters().map((p) => p.dtype))).toEqual(new Set(['bf16']));
  const folder = path.join(scratch, name);
  await model.savePretrained(folder);
  const shards = fs.readdirSync(folderOf(name)).filter((f) => f.endsWith('.safetensors'));
  const before = (await Promise.all(shards.map((f) => readSafetensors(path.join(folderOf(name), f))))).flatMap((m) => [
    ...m,
  ]);
  const after = await readSafetensors(path.join(folder, 'model.safetensors'));
  expect(new Map([...after].sort())).toEqual(new Map(before.sort()));
  const again = await Qwen3ForCausalLM.fromPretrained(folder, { scanLayers: true });
  expect(again.config).toEqual(model.config);
  expect(again.generationConfig).toEqual(model.generationConfig);
  expect(again.tokenizer?.encode('hello')).toEqual(model.tokenizer?.encode('hello'));
  const [p, q] = [model, again].map((m) => [...m.stateDict()].sort(([a], [b]) => (a < b ? -1 : 1)));
  expect(q!.map(([n, t]) => [n, t.dtype, t.shape])).toEqual(p!.map(([n, t]) => [n, t.dtype, t.shape]));
});

test('a model whose layers are a loop is written without a program: each stacked tensor is read once, and cut here', async () => {
  const model = await Qwen3ForCausalLM.fromPretrained(folderOf('untied'), { scanLayers: true });
  const reads = () => tx.metrics.metricData('TransferFromDeviceTime')?.total ?? 0;
  const before = [counts.compiled, tx.metrics.counter('ExecuteComputation') ?? 0, reads()] as const;
  const folder = path.join(scratch, 'scanned');
  await model.savePretrained(folder);
  expect(counts.compiled - before[0]).toBe(0);
  expect((tx.metrics.counter('ExecuteComputation') ?? 0) - before[1]).toBe(0);
  expect(reads() - before[2]).toBe(model.parameters().length);
  const plain = await Qwen3ForCausalLM.fromPretrained(folderOf('untied'));
  await plain.savePretrained(path.join(scratch, 'plain'));
  const [a, b] = await Promise.all(
    ['scanned', 'plain'].map((f) => readSafetensors(path.join(scratch, f, 'model.safetensors'))),
  );
  expect(new Map([...a!].sort())).toEqual(new Map([...b!].sort()));
});

test('unroll is of the loop over layers: without one it is refused', () => {
  const config = { ...QWEN3['0.6B'], numHiddenLayers: 2 };
  expect(() => tx.nn.init.skipInit(() => new Qwen3ForCausalLM(config, { unroll: 2 }))).toThrow(
    'Qwen3: unroll is 2, but there is no loop: pass scanLayers: true as well',
  );
});

/** A folder with a model of zeros, of which only the header takes room on the disk. */
function hollow(config: Record<string, unknown>): string {
  const folder = fs.mkdtempSync(path.join(scratch, 'hollow-'));
  fs.writeFileSync(path.join(folder, 'config.json'), JSON.stringify(config));
  let end = 0;
  const place = (n: number) => [end, (end += 2 * n)];
  const state = [...tx.nn.init.skipInit(() => new Qwen3ForCausalLM(readQwen3Config(config))).namedParameters()];
  const header = state.map(([n, t]) => [n, { dtype: 'BF16', shape: t.shape, data_offsets: place(t.numel()) }]);
  const text = Buffer.from(JSON.stringify(Object.fromEntries(header)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const file = path.join(folder, 'model.safetensors');
  fs.writeFileSync(file, Buffer.concat([length, text]));
  fs.truncateSync(file, 8 + text.length + end);
  return folder;
}
const config = JSON.parse(fs.readFileSync(path.join(folderOf('tied'), 'config.json'), 'utf8')) as Record<
  string,
  unknown
>;

test('loading takes at most 1.3 times the size of the model, and computes no random weights', async () => {
  const sizes = { hidden_size: 1024, intermediate_size: 3072, num_hidden_layers: 6, vocab_size: 32000 };
  const folder = hollow({
    ...config,
    ...sizes,
    num_attention_heads: 16,
    num_key_value_heads: 8,
    head_dim: 128,
    layer_types: null,
  });
  const child = fileURLToPath(new URL('load-memory.mjs', import.meta.url));
  for (const options of [{}, { dtype: 'f32', scanLayers: true }]) {
    const { stdout } = await promisify(execFile)(process.execPath, [child, folder, JSON.stringify(options)]);
    const { size, peak, compiles } = JSON.parse(stdout) as Record<'size' | 'peak' | 'compiles', number>;
    expect(size).toBeGreaterThan(2e8);
    expect(peak / size, JSON.stringify(options)).toBeLessThan(1.3);
    expect(compiles).toBe(1); // of the child's own, before it loads
  }
}, 120_000);

// ---- what is wrong with a folder

const odd = (change: Record<string, unknown>): string => {
  const folder = fs.mkdtempSync(path.join(scratch, 'odd-'));
  fs.cpSync(folderOf('tied'), folder, { recursive: true });
  fs.writeFileSync(path.join(folder, 'config.json'), JSON.stringify({ ...config, ...change }));
  return folder;
};
test.each([
  [{ model_type: 'llama' }, 'the architecture is llama; Qwen3ForCausalLM loads only dense Qwen3 models (qwen3)'],
  [{ model_type: 'qwen3_moe' }, 'the architecture is qwen3_moe; Qwen3ForCausalLM loads'],
  [
    { rope_parameters: null, rope_scaling: { rope_type: 'mrope', factor: 4 } },
    'rope_type is mrope: supported are default, linear, dynamic, yarn, longrope, llama3',
  ],
  [{ use_sliding_window: true }, 'sliding windows are not supported'],
  [{ hidden_act: 'gelu' }, 'hidden_act is gelu: Qwen3 has silu'],
  [{ hidden_size: '64' }, 'config.json: "hidden_size" is "64": expected a whole number from 1 to'],
  [{ hidden_size: null }, 'config.json: "hidden_size" is null: expected a whole number from 1 to'],
  [{ hidden_size: undefined }, 'config.json: "hidden_size" is missing: expected a whole number from 1 to'],
  [{ layer_types: 'x' }, 'config.json: "layer_types" is "x": expected a list'],
  [{ rope_parameters: null, rope_theta: 'x' }, 'config.json: "rope_theta" is "x": expected a number'],
  [{ rope_parameters: { rope_theta: '1e6' } }, 'config.json: "rope_parameters.rope_theta" is "1e6": expected a number'],
  [{ bos_token_id: {} }, 'config.json: "bos_token_id" is an object: expected a whole number'],
  [{ eos_token_id: ['x'] }, 'config.json: "eos_token_id" is a list of 1: expected a token id or a list of token ids'],
  [{ pad_token_id: 1.5 }, 'config.json: "pad_token_id" is 1.5: expected a whole number'],
  [{ pad_token_id: 5000 }, 'config.json: pad_token_id is 5000, vocab_size is 352: token ids must be less'],
  [
    { num_hidden_layers: 1e9 },
    'config.json: "num_hidden_layers" is 1000000000: expected a whole number from 1 to 10000',
  ],
  [{ head_dim: 15 }, 'config.json: Qwen3: headDim is 15: it must be even'],
  [
    { quantization_config: { quant_method: 'tsxla', file: '../x' } },
    '"quantization_config.file" is "../x": expected the name',
  ],
  [{ num_key_value_heads: 3 }, 'numAttentionHeads is 4, which is not divisible by numKeyValueHeads, 3'],
  [{ dtype: 'int4' }, 'weights in int4 are not supported'],
  [{ num_hidden_layers: 3 }, 'Missing key(s) in state_dict: "model.layers.2.self_attn.q_proj.weight"'],
  [{ num_hidden_layers: 1 }, 'Unexpected key(s) in state_dict: "model.layers.1.'],
  [{ tie_word_embeddings: false }, 'Missing key(s) in state_dict: "lm_head.weight"'],
  [{ hidden_size: 32 }, 'size mismatch for model.embed_tokens.weight'],
])('%o: an error that says so', async (change, text) => {
  await expect(Qwen3ForCausalLM.fromPretrained(odd(change))).rejects.toThrow(text);
});

test('a config that does not fit the weights: folder, file, the first keys with both shapes, how many more', async () => {
  const folder = odd({ hidden_size: 32 });
  const error: Error = await Qwen3ForCausalLM.fromPretrained(folder).then(
    () => new Error('it loaded'),
    (e) => e,
  );
  const lines = error.message.split('\n\t');
  expect(lines[0]).toBe(
    `Error(s) in loading state_dict for Qwen3ForCausalLM from ${path.join(folder, 'model.safetensors')}:`,
  );
  expect(lines[1]).toBe('size mismatch for model.embed_tokens.weight: [352, 64] in the state dict, [352, 32] here.');
  expect(lines.slice(1, -2)).toHaveLength(5);
  expect(lines.at(-2)).toMatch(/^and \d+ more of other sizes\.$/);
  expect(lines.at(-1)).toBe(
    `The model is described by ${path.join(folder, 'config.json')}: use the one that was saved with these weights.`,
  );
});

test('an id of -1 stands for none, as transformers reads it', () => {
  const ids = { bos_token_id: -1, eos_token_id: [-1, 7], pad_token_id: -1 };
  expect(readQwen3Config({ ...config, ...ids })).toMatchObject({ bosTokenId: null, eosTokenId: [7], padTokenId: null });
  expect(readQwen3Config({ ...config, eos_token_id: -1 }).eosTokenId).toBe(null);
});

test('generation_config.json is written as it was read, but for what was changed', async () => {
  const folder = odd({});
  const file = path.join(folder, 'generation_config.json');
  const json = {
    bos_token_id: 1,
    pad_token_id: 3,
    eos_token_id: [2, 5],
    do_sample: true,
    top_k: 20,
    penalty_alpha: 0.5,
  };
  fs.writeFileSync(file, JSON.stringify({ ...json, temperature: null }));
  const model = await Qwen3ForCausalLM.fromPretrained(folder);
  model.generationConfig = { ...model.generationConfig, topK: 7 };
  const to = path.join(scratch, 'generation');
  await model.savePretrained(to);
  const written = JSON.parse(fs.readFileSync(path.join(to, 'generation_config.json'), 'utf8'));
  expect(written).toEqual({ ...json, top_k: 7 });
  fs.writeFileSync(file, JSON.stringify({ top_k: 'many' }));
  await expect(Qwen3ForCausalLM.fromPretrained(folder)).rejects.toThrow(
    `${file}: "top_k" is "many": expected a whole number of at least 0`,
  );
});

test('a folder that is not there, or is no model, is an error', async () => {
  await expect(Qwen3ForCausalLM.fromPretrained('/nowhere/at/all')).rejects.toThrow('neither an existing folder');
  await expect(Qwen3ForCausalLM.fromPretrained(scratch)).rejects.toThrow('has no config.json');
  const folder = odd({});
  fs.rmSync(path.join(folder, 'model.safetensors'));
  await expect(Qwen3ForCausalLM.fromPretrained(folder)).rejects.toThrow('has no model');
});

test('prompts that the model cannot take are errors', () => {
  const model = tx.nn.init.skipInit(() => new Qwen3ForCausalLM({ ...QWEN3['0.6B'], maxPositionEmbeddings: 64 }));
  const generate =
    (prompt: string | number[], options = {}) =>
    () =>
      model.generateStream(prompt, options);
  expect(generate('text')).toThrow('the model has no tokenizer: pass token ids');
  expect(generate([1, 151936])).toThrow("token 151936 of prompt 0 is out of range: the model's tokens are 0 to 151935");
  expect(generate([1, -1])).toThrow('token -1 of prompt 0 is out of range');
  expect(generate([])).toThrow('prompt');
  expect(generate(Array(64).fill(1))).toThrow(
    'a prompt has 64 tokens, which leaves no room for new ones: the model has 64 positions',
  );
  expect(generate([1], { maxNewTokens: 1.5 })).toThrow('maxNewTokens is 1.5');
  expect(generate([1], { stop: 'x' })).toThrow('stop needs a tokenizer');
});
