// What transformers generates with the small models (scripts/golden/generate.py), and those models.
import { readFileSync } from 'node:fs';
import * as tx from 'tsxla';
import { goldenPath } from '../support.js';
import { fill, golden } from './architectures.js';

export interface Run {
  /** transformers' names. */
  readonly options: Readonly<Record<string, never>>;
  readonly ends: number[];
  readonly tokens: number[][];
}
export interface BeamRun extends Run {
  /** How many of the prompts. */
  readonly prompts: number;
  readonly scores: number[];
}
export const facts = JSON.parse(readFileSync(goldenPath('generate.json'), 'utf8')) as {
  readonly new: number;
  readonly beams: Record<string, { readonly prompts: number[][]; readonly runs: BeamRun[] }>;
  readonly greedy: Record<string, { readonly runs: (Run & { readonly prompts: number[][] })[] }>;
  readonly processors: {
    readonly ids: number[][];
    readonly logits: number[][];
    readonly ends: number[];
    readonly cases: { options: Record<string, never>; left: number[][]; sums: number[] }[];
  };
};

export const camel = (options: Readonly<Record<string, unknown>>): tx.models.GenerateOptions =>
  Object.fromEntries(
    Object.entries(options).map(([k, v]) => [k.replace(/_(.)/g, (_, c: string) => c.toUpperCase()), v]),
  );

export async function make(
  name: string,
  options: tx.models.DecoderOptions = {},
): Promise<tx.models.DecoderForCausalLM> {
  const model = tx.models.AutoModelForCausalLM.fromConfig(golden(name).config, options).eval();
  await fill(model);
  return model;
}
export const compiles = (): number => tx.metrics.counter('UncachedCompile') ?? 0;
