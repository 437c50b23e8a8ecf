// GGUF files of models are what llama.cpp's converter writes of them (scripts/golden/export.py).
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import * as tx from 'tsxla';
import { exportGguf } from 'tsxla/export';
import { type GgufValue, openGguf, readGguf } from 'tsxla/io';
import { describe, expect, test } from 'vitest';
import { fill } from '../models/architectures.js';
import { scratch } from '../scratch.js';
import { goldenPath } from '../support.js';

interface Field {
  readonly types: readonly string[];
  readonly value: unknown;
}
interface Converted {
  readonly config: Readonly<Record<string, unknown>>;
  readonly metadata: Readonly<Record<string, Field>>;
  readonly tensors: Readonly<Record<string, { shape: number[]; hash: string }>>;
}
const golden: { models: Record<string, Converted>; vocabularies: Record<string, Record<string, Field>> } = JSON.parse(
  fs.readFileSync(goldenPath('export.json'), 'utf8'),
);
const tokenizers: Record<string, { files: Record<string, string> }> = JSON.parse(
  gunzipSync(fs.readFileSync(goldenPath('tokenizers.json.gz'))).toString('utf8'),
);
const { newFolder } = scratch('export');
const { AutoModelForCausalLM } = tx.models;

async function make(config: object): Promise<tx.models.DecoderForCausalLM> {
  const model = AutoModelForCausalLM.fromConfig(config as never).eval();
  await fill(model);
  return model;
}
const newFile = (): string => {
  const folder = newFolder();
  fs.mkdirSync(folder, { recursive: true });
  return path.join(folder, 'model.gguf');
};
const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 16);

/** As gguf-py tells a field. */
const TYPES: Record<string, string> = { u32: 'UINT32', f32: 'FLOAT32', string: 'STRING', bool: 'BOOL', i32: 'INT32' };
const fieldOf = (v: GgufValue): Field => ({
  types: v.type === 'array' ? ['ARRAY', TYPES[v.of]!] : [TYPES[v.type]!],
  value: v.value,
});
/** What the converter leaves out where llama.cpp has a default. */
const OURS =
  /\.(vocab_size|rope\.dimension_count|rope\.freq_base|attention\.(key|value)_length|attention\.head_count_kv|attn_factor|rope\.scaling\.type|rope\.freq_base_swa)$|\.sliding_window_pattern$/;

test.each(Object.entries(golden.models))('%s', async (_, { config, metadata, tensors }) => {
  const model = await make(config);
  const file = newFile();
  await exportGguf(model, file, { type: 'f32' });
  await using written = await openGguf(file);
  const own = Object.fromEntries([...written.metadata].map(([key, value]) => [key, fieldOf(value)]));
  for (const [key, field] of Object.entries(metadata)) expect({ key, ...own[key] }).toEqual({ key, ...field });
  const prefix = `${own['general.architecture']!.value}.`;
  const more = Object.keys(own).filter((key) => key.startsWith(prefix) && !(key in metadata) && !OURS.test(key));
  expect(more).toEqual([]);
  const made = new Map<string, object>();
  for (const [name, { shape, type }] of written.entries)
    made.set(name, { shape, type, hash: hashOf(await written.readRaw(name)) });
  const wanted = Object.entries(tensors).map(([name, t]) => [name, { ...t, type: 'F32' }] as const);
  expect(Object.fromEntries(made)).toEqual(Object.fromEntries(wanted));
});

describe('vocabularies', () => {
  const { config } = golden.models.llama!;
  const exported = async (name: string, file: string, change: (json: Record<string, unknown>) => object = (j) => j) => {
    const folder = newFolder();
    const model = AutoModelForCausalLM.fromConfig({ ...config, vocab_size: 560 } as never);
    await model.savePretrained(folder);
    for (const [of, text] of Object.entries(tokenizers[name]!.files)) fs.writeFileSync(path.join(folder, of), text);
    const json = change(JSON.parse(tokenizers[name]!.files['tokenizer.json']!));
    fs.writeFileSync(path.join(folder, 'tokenizer.json'), JSON.stringify(json));
    const loaded = await AutoModelForCausalLM.fromPretrained(folder);
    const report = await exportGguf(loaded, file);
    const { metadata } = await readGguf(file);
    return { report, field: (key: string) => metadata.get(`tokenizer.${key}`)?.value as never };
  };
  test.each(Object.entries(golden.vocabularies))('byte-level: %s', async (name, fields) => {
    const { report, field } = await exported(name, newFile());
    const hash = (list: readonly string[]) => hashOf(Buffer.from(list.join('\0')));
    for (const [key, { value }] of Object.entries(fields)) {
      const own = field(key.replace('tokenizer.', '')) as unknown;
      if (key.endsWith('.tokens')) expect(hash((own as string[]).slice(0, 430))).toBe(value);
      else if (key.endsWith('.merges')) expect(hash(own as string[])).toBe(value);
      else if (key.endsWith('.token_type')) expect((own as number[]).slice(0, 430)).toEqual(value);
      else expect({ key, own }).toEqual({ key, own: value });
    }
    expect(report.vocabulary).toEqual({ model: 'gpt2', pre: fields['tokenizer.ggml.pre']!.value, size: 560 });
  });
  test.each([
    ['llama2', true],
    ['metaspace', true],
    ['gemma', false],
  ])('SentencePiece: %s', async (name, prefix) => {
    const { field } = await exported(name, newFile());
    const tokens: string[] = field('ggml.tokens');
    const [scores, kinds]: number[][] = [field('ggml.scores'), field('ggml.token_type')];
    expect([field('ggml.model'), field('ggml.pre')]).toEqual(['llama', 'default']);
    expect([field('ggml.add_space_prefix'), field('ggml.add_bos_token')]).toEqual([prefix, true]);
    const kindOf = (token: string) => kinds![tokens.indexOf(token)];
    expect(['<unk>', '<s>', '<|sep|>', '<keep>', '<0x0A>', 'a', '[PAD555]'].map(kindOf)).toEqual([2, 3, 3, 4, 6, 1, 5]);
    const json = JSON.parse(tokenizers[name]!.files['tokenizer.json']!);
    const merged: string[] = json.model.merges.map((pair: string[]) => pair.join(''));
    const byScore = [...new Set(merged)].sort((a, b) => scores![tokens.indexOf(b)]! - scores![tokens.indexOf(a)]!);
    expect(byScore).toEqual([...new Set(merged)]); // joined in the order of the merges
  });
  test('the way text is split', async () => {
    const withMerges = (ignore_merges: boolean) => (json: Record<string, unknown>) => ({
      ...json,
      model: { ...(json.model as object), ignore_merges },
    });
    expect((await exported('llama3', newFile(), withMerges(true))).report.vocabulary?.pre).toBe('llama-bpe');
    const odd = {
      type: 'Sequence',
      pretokenizers: [{ type: 'Split', pattern: { Regex: '\\d+' }, behavior: 'Isolated', invert: false }],
    };
    await expect(exported('llama3', newFile(), (json) => ({ ...json, pre_tokenizer: odd }))).rejects.toThrow(
      /splits text is not known here \(Split: \\d\+\): name it with tokenizerPre/,
    );
  });
});

const { config: LLAMA } = golden.models.llama!;
const relative = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  let [change, size] = [0, 0];
  for (let i = 0; i < b.length; i++) {
    change += (a[i]! - b[i]!) ** 2;
    size += b[i]! ** 2;
  }
  return Math.sqrt(change / size);
};

describe('types', async () => {
  const sizes = {
    hidden_size: 256,
    intermediate_size: 320,
    num_hidden_layers: 1,
    head_dim: 64,
    tie_word_embeddings: false,
  };
  const model = await make({ ...LLAMA, ...sizes });
  const plain = newFile();
  await exportGguf(model, plain, { type: 'f32' });
  const { arrays } = await readGguf(plain);

  test.each([
    ['f16', 1, 'F16', 1e-3],
    ['bf16', 32, 'BF16', 4e-3],
    ['q8_0', 7, 'Q8_0', 8e-3],
    ['q4_0', 2, 'Q4_0', 0.12],
    ['q4_k', 14, 'Q4_K', 0.09],
  ] as const)('%s', async (type, id, stored, error) => {
    const file = newFile();
    const report = await exportGguf(model, file, { type });
    await using written = await openGguf(file);
    expect(written.metadata.get('general.file_type')).toEqual({ type: 'u32', value: id });
    const is4 = stored.startsWith('Q4');
    for (const [name, { shape, type: own }] of written.entries) {
      const isVector = shape.length === 1;
      const isNarrow = type === 'q4_k' && name === 'blk.0.ffn_down.weight'; // rows of 320
      expect({ name, own }).toEqual({
        name,
        own: isVector ? 'F32' : isNarrow ? 'Q5_0' : is4 && name === 'output.weight' ? 'Q8_0' : stored,
      });
      const { data } = await written.read(name);
      expect(relative(data as Float32Array, arrays.get(name)!.data as Float32Array), name).toBeLessThan(error);
    }
    expect(report.fallbacks).toEqual(
      type === 'q4_k' ? [{ name: 'blk.0.ffn_down.weight', row: 320, type: 'Q5_0' }] : [],
    );
    expect(report.bytes).toBe(fs.statSync(file).size);
  });
  test('experts are quantized one by one, and routers stay f32', async () => {
    const sizes = { hidden_size: 256, moe_intermediate_size: 64, num_hidden_layers: 1, head_dim: 64 };
    const experts = await make({ ...golden.models['qwen3-moe']!.config, ...sizes });
    await tx.quant.quantizeModel(experts, { preset: 'q4a4', options: { scaleRank: 2 } });
    const [whole, file] = [newFile(), newFile()];
    await exportGguf(experts, whole, { type: 'f32' });
    const { arrays } = await readGguf(whole);
    await exportGguf(experts, file, { type: 'q4_k' });
    await using written = await openGguf(file);
    const told = (name: string) => {
      const { type, shape } = written.entries.get(`blk.0.${name}.weight`)!;
      return `${type} ${shape}`;
    };
    expect(['ffn_gate_inp', 'ffn_gate_exps', 'ffn_down_exps', 'attn_q'].map(told)).toEqual([
      'F32 8,256',
      'Q4_K 8,64,256',
      'Q5_0 8,256,64',
      'Q4_K 256,256',
    ]);
    const { data } = await written.read('blk.0.ffn_gate_exps.weight');
    const { data: before } = arrays.get('blk.0.ffn_gate_exps.weight')!;
    expect(relative(data as Float32Array, before as Float32Array)).toBeLessThan(0.09);
  });
  test('rows that are no whole blocks of any', async () => {
    const odd = await make({ ...LLAMA, intermediate_size: 40, num_hidden_layers: 1 });
    const report = await exportGguf(odd, newFile(), { type: 'q4_0' });
    expect(report.fallbacks).toEqual([{ name: 'blk.0.ffn_down.weight', row: 40, type: 'F16' }]);
  });
});

describe('what llama.cpp cannot run is refused by name', () => {
  const { models } = golden;
  const rope = (type: string, more: object) => ({ rope_parameters: { rope_type: type, rope_theta: 10000, ...more } });
  test.each([
    ['gemma2', { query_pre_attn_scalar: 16 }, 'this Gemma 2: query_pre_attn_scalar is 16, and it takes 8'],
    ['gemma2', { attn_logit_softcapping: null }, 'attn_logit_softcapping is null, and it takes 50'],
    ['gemma3', { tie_word_embeddings: false }, 'the output has a table of its own'],
    [
      'smollm3',
      { no_rope_layer_interval: 2, no_rope_layers: null },
      'layers without positions are others than every fourth',
    ],
    ['qwen3', { attention_bias: true }, 'it does not read model.layers.0.self_attn.o_proj.bias'],
    ['llama', { hidden_act: 'relu' }, 'it takes silu, and the activation is relu'],
    ['llama', rope('default', { partial_rotary_factor: 0.5 }), 'positions turn 4 of the 8 numbers of a head'],
    [
      'qwen2',
      rope('llama3', { factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 32 }),
      'it does not read the factors of rope_type llama3',
    ],
    ['qwen2', { head_dim: 16 }, '4 heads of 16 are 64 numbers, and hidden_size is 32'],
    [
      'llama',
      rope('yarn', { factor: 4, original_max_position_embeddings: 32, truncate: false }),
      'rope_type yarn with truncate false',
    ],
    ['gpt2', { scale_attn_weights: false }, 'scale_attn_weights is false'],
    ['qwen3-moe', { norm_topk_prob: false }, 'norm_topk_prob is false, and it takes true'],
    ['qwen3-moe', { mlp_only_layers: [1] }, 'layer 1 has no experts, and it takes them in every layer'],
    ['mixtral', { hidden_act: 'gelu' }, 'it takes silu, and the activation is gelu'],
  ])('%s %j', async (name, change, message) => {
    const model = AutoModelForCausalLM.fromConfig({ ...models[name]!.config, ...change } as never);
    const file = newFile();
    await expect(exportGguf(model, file)).rejects.toThrow(message);
    expect(fs.existsSync(file)).toBe(false);
  });
  test('an architecture without a form', async () => {
    const model = await make(LLAMA);
    Object.assign(model, { architecture: { ...model.architecture, gguf: undefined } });
    await expect(exportGguf(model, newFile())).rejects.toThrow('Llama has no GGUF form');
  });
  test('a window or a rope type that llama.cpp leaves out is told', async () => {
    const notes = async (config: object) => (await exportGguf(await make(config), newFile())).notes[0];
    expect(await notes(golden.models.mistral!.config)).toContain('a layer sees 6 tokens');
    expect(await notes({ ...LLAMA, ...rope('dynamic', { factor: 2 }) })).toContain('no rope_type dynamic');
  });
});
