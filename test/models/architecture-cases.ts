// What every architecture must compute as transformers does. The quick suite asks each in some ways to compute its layers,
// the slow suite in the others: a compile each.
import * as tx from 'tsxla';
import { readSafetensors } from 'tsxla/io';
import { expect, test } from 'vitest';
import { partOf } from '../../dist/tensor/state.js';
import { goldenPath } from '../support.js';
import { fill, type Golden, golden } from './architectures.js';
import { relativeError } from './support.js';

type Model = tx.models.DecoderForCausalLM;
export async function make(facts: Golden, options: tx.models.DecoderOptions = {}): Promise<Model> {
  const model = tx.models.AutoModelForCausalLM.fromConfig(facts.config, options).eval();
  await fill(model);
  return model;
}
export const logitsOf = (model: Model, ids: readonly (readonly number[])[]) =>
  model.forward(tx.tensor(ids, { dtype: 'i32' }));

/** The numbers of a gradient that the golden files keep: its first elements, its sum, the sum of its squares. */
function kept(data: ArrayLike<number>, most: number): Float64Array {
  const all = Float64Array.from(data);
  const stride = Math.max(1, Math.floor(all.length / most));
  const some = all.filter((_, i) => i % stride === 0).slice(0, most);
  const sum = all.reduce((a, b) => a + b, 0);
  return Float64Array.from([...some, sum, all.reduce((a, b) => a + b * b, 0)]);
}

const isOfExpert = (name: string): boolean => name.includes('.experts.');

const LAYERS = {
  'one by one': {},
  'as a loop': { scanLayers: true, checkpoint: true },
  'with light checkpoints': { checkpoint: 'light' },
} as const satisfies Record<string, tx.models.DecoderOptions>;
export type Layers = keyof typeof LAYERS;

/** Architectures are asked one by one, their variants (`llama-yarn`) as a loop. */
export const quickLayers = (name: string): Layers => (name.includes('-') ? 'as a loop' : 'one by one');

export function testGradients(name: string, layers: Layers): void {
  test(`logits and gradients, layers ${layers}`, async () => {
    const facts = golden(name);
    const numbers = await readSafetensors(goldenPath(`models/${name}.safetensors`));
    const model = await make(facts, LAYERS[layers]);
    const ids = tx.tensor(facts.ids, { dtype: 'i32' });
    const logits = model.forward(ids);
    const loss = model.loss(ids);
    loss.backward();
    const gradients = new Map<string, tx.Tensor>();
    for (const { tensor, names, stacked } of model.stateEntries())
      names.forEach((n, i) => void gradients.set(n, stacked ? partOf(tensor.grad!, stacked, i) : tensor.grad!));
    await tx.sync(logits, loss, ...gradients.values());
    const wanted = numbers.get('logits')!.data as Float32Array;
    const got = await logits.data();
    expect(Math.max(...Array.from(wanted, (x, i) => Math.abs(x - Number(got[i]))))).toBeLessThan(1e-4);
    expect(relativeError(await loss.data(), numbers.get('loss')!)).toBeLessThan(1e-5);
    const { stored } = model.architecture;
    const tied = model.config.tieWordEmbeddings ? ['lm_head.weight'] : [];
    const names = [...numbers.keys()].filter((k) => k.startsWith('grad.')).map((k) => k.slice('grad.'.length));
    expect([...gradients.keys()].filter((n) => !tied.includes(n)).sort()).toEqual(names.sort());
    for (const n of names) {
      const gradient = gradients.get(n)!;
      const asStored = stored?.isTransposed?.(n) ? gradient.t() : gradient;
      const read = numbers.get(`grad.${n}`)!;
      const want = { ...read, data: read.data as Float32Array };
      const mine = kept((await asStored.contiguous().data()) as Float32Array, isOfExpert(n) ? 24 : 96);
      const parts = [
        [0, want.data.length - 2],
        [want.data.length - 2, want.data.length - 1],
        [want.data.length - 1, want.data.length],
      ] as const;
      const largest = Math.max(...Array.from(want.data.slice(0, -2), (x) => Math.abs(Number(x))));
      for (const [from, to] of [parts[0], parts[2]]) {
        const part = { ...want, data: want.data.slice(from, to), shape: [to - from] };
        expect(relativeError(mine.slice(from, to), part), `gradient of ${n}`).toBeLessThan(1e-3);
      }
      const size = gradient.numel();
      expect(Math.abs(mine.at(-2)! - Number(want.data.at(-2))), `sum of the gradient of ${n}`).toBeLessThan(
        1e-3 * largest * Math.sqrt(size) + 1e-5,
      );
    }
  });
}

export function testGreedy(name: string, layers: 'one by one' | 'as a loop'): void {
  test(`greedy tokens, alone and padded on the left, layers ${layers}`, async () => {
    const facts = golden(name);
    const model = await make(facts, { scanLayers: layers === 'as a loop' });
    const options = { maxNewTokens: 48, doSample: false, eosTokenIds: [] };
    const together = await model.generate(facts.prompts, options);
    const n = facts.comparable ?? 48;
    for (const [i, { tokens }] of together.entries()) {
      const [alone] = await model.generate(facts.prompts[i]!, options);
      for (const got of [tokens, alone!.tokens]) expect(got.slice(0, n)).toEqual(facts.greedy[i]!.slice(0, n));
    }
  });
}
