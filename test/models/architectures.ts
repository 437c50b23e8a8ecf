// The small models of every architecture that transformers made (scripts/golden/models.py). Their weights are computed here and
// there by the same formula.
import { readdirSync, readFileSync } from 'node:fs';
import * as tx from 'tsxla';
import { goldenPath } from '../support.js';

export interface Golden {
  readonly config: Readonly<Record<string, unknown>>;
  readonly ids: readonly (readonly number[])[];
  readonly prompts: number[][];
  readonly greedy: number[][];
  /** How many tokens can be compared. Default: all. */
  readonly comparable?: number;
}
export const NAMES = readdirSync(goldenPath('models'))
  .filter((file) => file.endsWith('.json'))
  .map((file) => file.replace('.json', ''));
export const golden = (name: string): Golden => JSON.parse(readFileSync(goldenPath(`models/${name}.json`), 'utf8'));

/** Numbers from -1 to 1 by a linear congruence, seeded by the name; scaled like an initialization. */
function weight(name: string, shape: readonly number[]): Float32Array {
  let state = [...name].reduce((seed, c) => (seed * 31 + c.charCodeAt(0)) % 2147483647, 7);
  const [scale, offset] = shape.length > 1 ? [0.35, 0] : [0.1, name.endsWith('bias') ? 0 : 0.9];
  return Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => {
    state = (state * 16807) % 2147483647;
    return ((2 * state) / 2147483647 - 1) * scale + offset;
  });
}

/** Gives a model the weights that transformers' had. */
export async function fill(model: tx.models.DecoderForCausalLM): Promise<void> {
  const { stored } = model.architecture;
  const state = new Map<string, tx.Tensor>();
  for (const { tensor, names, stacked } of model.stateEntries())
    for (const name of names) {
      if (name === 'lm_head.weight' && model.config.tieWordEmbeddings) continue;
      const shape = tensor.shape.slice(stacked);
      const isTransposed = stored?.isTransposed?.(name);
      const made = tx.tensor(weight(name, shape), { shape: isTransposed ? [...shape].reverse() : shape });
      state.set(name, isTransposed ? made.t().contiguous() : made);
    }
  model.loadStateDict(state, { strict: false });
  await tx.sync();
}
