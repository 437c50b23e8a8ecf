// The small random Qwen3 models that transformers made, and what it computed with them (scripts/golden/qwen3.py).
import { readFileSync } from 'node:fs';
import * as tx from 'tsxla';
import { type HostArray, readSafetensors } from 'tsxla/io';
import type { SamplingOptions } from 'tsxla/models';
import { goldenPath } from '../support.js';

export type Name = 'tied' | 'untied';
export const NAMES = ['tied', 'untied'] as const;
export const folderOf = (name: Name): string => goldenPath(`qwen3/${name}`);

export const numbers = await readSafetensors(goldenPath('qwen3/numbers.safetensors'));
export const given = (name: string): tx.Tensor => {
  const { dtype, shape, data } = numbers.get(name)!;
  return tx.tensor(data, { dtype, shape });
};

interface Generated {
  readonly prompts: number[][];
  readonly greedy: number[][];
  readonly penalized: number[];
}
interface Chat {
  readonly messages: { role: string; content: string }[];
  readonly [option: string]: unknown;
}
export const facts = JSON.parse(readFileSync(goldenPath('qwen3/facts.json'), 'utf8')) as Record<Name, Generated> & {
  readonly filters: Record<string, number>[];
  readonly training: { model: Name; lr: number; weight_decay: number; losses: number[] };
  readonly tokenizer: {
    readonly vocab: number;
    readonly texts: { text: string; ids: number[]; decoded: string }[];
    readonly chats: { given: Chat; text: string }[];
  };
};

/** transformers' names in ours. */
export const camel = (options: Record<string, number>): SamplingOptions =>
  Object.fromEntries(
    Object.entries(options).map(([k, v]) => [k.replace(/_(.)/g, (_, c: string) => c.toUpperCase()), v]),
  );

export const load = (name: Name, options: tx.models.Qwen3Options = {}): Promise<tx.models.Qwen3ForCausalLM> =>
  tx.models.Qwen3ForCausalLM.fromPretrained(folderOf(name), { dtype: 'f32', ...options });

/** The largest difference, over the largest number that was wanted. */
export function relativeError(got: ArrayLike<number | bigint>, { data }: HostArray): number {
  let [difference, largest] = [0, 0];
  for (let i = 0; i < data.length; i++) {
    const want = Number(data[i]);
    if (got.length !== data.length || Number.isNaN(Number(got[i]))) return Number.POSITIVE_INFINITY;
    difference = Math.max(difference, Math.abs(Number(got[i]) - want));
    largest = Math.max(largest, Math.abs(want));
  }
  return difference / largest;
}
