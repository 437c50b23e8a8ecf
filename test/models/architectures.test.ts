// Every architecture computes what transformers computes: logits, gradients, greedy tokens, alone and in a padded batch.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { readSafetensors, writeSafetensors } from 'tsxla/io';
import { describe, expect, test } from 'vitest';
import { scratch } from '../scratch.js';
import { logitsOf, make, quickLayers, testGradients, testGreedy } from './architecture-cases.js';
import { golden, NAMES } from './architectures.js';

const { newFolder } = scratch('architectures');
const { AutoModelForCausalLM } = tx.models;

describe.each(NAMES)('%s', (name) => {
  const facts = golden(name);

  // In the other ways: test/slow/architectures.test.ts.
  testGradients(name, quickLayers(name));
  testGreedy(name, 'as a loop');

  test('its folder loads again, equal, and has the names and shapes of transformers', async () => {
    const model = await make(facts);
    const folder = newFolder();
    await model.savePretrained(folder);
    const again = await AutoModelForCausalLM.fromPretrained(folder, { scanLayers: true });
    const [a, b] = [logitsOf(model, facts.ids), logitsOf(again, facts.ids)];
    expect(Number(await a.sub(b).abs().max().item())).toBeLessThan(1e-5);
    expect(again.config).toEqual({ ...model.config, ...('json' in model.config && { json: expect.anything() }) });
    const written = await readSafetensors(path.join(folder, 'model.safetensors'));
    const { data } = written.get([...written.keys()].find((n) => /c_attn\.weight|[qv]\w*_proj\.weight/.test(n))!)!;
    expect(data.length).toBeGreaterThan(0);
    const text = fs.readFileSync(path.join(folder, 'config.json'), 'utf8');
    if (name === 'gemma2') expect(text).toMatch(/"final_logit_softcapping": 30\.0,/); // transformers refuses 30
    const config = JSON.parse(text);
    expect(config.model_type).toBe(facts.config.model_type);
  });
});

test("GPT-2's files may lack the prefix of names and have masks, and hold matrices transposed", async () => {
  const facts = golden('gpt2');
  const model = await make(facts);
  const folder = newFolder();
  await model.savePretrained(folder);
  const file = path.join(folder, 'model.safetensors');
  const stored = await readSafetensors(file);
  expect(stored.get('transformer.h.0.mlp.c_fc.weight')!.shape).toEqual([32, 128]);
  const old = new Map([...stored].map(([name, array]) => [name.replace('transformer.', ''), array]));
  old.set('h.0.attn.bias', { dtype: 'f32', shape: [1], data: new Float32Array(1) });
  await writeSafetensors(file, old);
  const again = await AutoModelForCausalLM.fromPretrained(folder);
  const difference = logitsOf(model, facts.ids).sub(logitsOf(again, facts.ids)).abs().max();
  expect(Number(await difference.item())).toBeLessThan(1e-5);
});

test("Gemma 3's folders with pictures: the text part is read, by either name", async () => {
  const facts = golden('gemma3');
  const model = await make(facts);
  for (const [prefix, inside] of [
    ['model.language_model.', 'model.'],
    ['language_model.model.', 'model.'],
  ] as const) {
    const folder = newFolder();
    await model.savePretrained(folder);
    const file = path.join(folder, 'model.safetensors');
    const arrays = [...(await readSafetensors(file))].map(([name, array]) => [name.replace(inside, prefix), array]);
    const picture = { dtype: 'f32', shape: [1], data: new Float32Array(1) } as const;
    await writeSafetensors(file, new Map([...arrays, ['vision_tower.a.weight', picture]] as never));
    const config = { model_type: 'gemma3', text_config: facts.config, vision_config: {}, dtype: 'float32' };
    fs.writeFileSync(path.join(folder, 'config.json'), JSON.stringify(config));
    const again = await AutoModelForCausalLM.fromPretrained(folder);
    const difference = logitsOf(model, facts.ids).sub(logitsOf(again, facts.ids)).abs().max();
    expect(Number(await difference.item())).toBeLessThan(1e-5);
  }
});

describe('what is not supported is refused by name', () => {
  const { config } = golden('llama');
  test.each([
    [
      { model_type: 'mamba' },
      /the architecture mamba is not supported; supported are llama, mistral, qwen2, qwen3, gemma2/,
    ],
    [{ rope_parameters: { rope_type: 'mrope' } }, 'rope_type is mrope: supported are default, linear, dynamic'],
    [{ rope_parameters: { rope_type: 'linear' } }, 'rope_type linear needs factor'],
    [{ hidden_act: 'swiglu' }, 'the activation swiglu is not supported: supported are silu, gelu'],
    [{ num_key_value_heads: 3 }, 'num_attention_heads is 4, which is not divisible by num_key_value_heads, 3'],
    [{ attention_dropout: 0.1 }, 'attention_dropout is not supported'],
    [{ hidden_size: '32' }, '"hidden_size" is "32": expected a whole number'],
    [{ layer_types: ['chunked_attention', 'full_attention', 'full_attention'] }, 'layer_types has chunked_attention'],
    [{ vocab_size: 10, pad_token_id: 20 }, 'pad_token_id is 20, vocab_size is 10'],
  ])('%o', (change, text) => {
    expect(() => AutoModelForCausalLM.fromConfig({ ...config, ...change })).toThrow(text);
  });
  test('phi3: factors of another length', () => {
    const { config } = golden('phi3-longrope');
    const rope = { ...(config.rope_parameters as object), short_factor: [1] };
    expect(() => AutoModelForCausalLM.fromConfig({ ...config, rope_parameters: rope })).toThrow(
      'shortFactor has 1 numbers: it must have 2, one for each rotated pair',
    );
  });
});
