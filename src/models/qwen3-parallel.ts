// Which dimensions of Qwen3's parameters are split when several devices share each product (Megatron, arXiv:1909.08053): the
// projections into heads and into the MLP by their outputs, those out of them by their inputs, tables by their rows.
import type { ParallelTable } from '../spmd/parallel.js';

const [OUTPUTS, INPUTS] = [0, 1];
const INTO = ['q_proj', 'k_proj', 'v_proj', 'gate_proj', 'up_proj'];
const OUT_OF = ['o_proj', 'down_proj'];
/** Of a linear, with or without codes in place of weights, and with or without an adapter. */
const matrices = (name: string, dim: number) =>
  ['weight', 'effective', 'indices'].map((what) => [`${name}.*${what}`, dim] as const);

export const QWEN3_TENSOR_PARALLEL: ParallelTable = Object.fromEntries([
  ...INTO.flatMap((name) => [
    ...matrices(name, OUTPUTS),
    [`${name}.*bias`, OUTPUTS] as const,
    [`${name}.*lora_B`, OUTPUTS] as const,
  ]),
  ...OUT_OF.flatMap((name) => [...matrices(name, INPUTS), [`${name}.*lora_A`, INPUTS] as const]),
  ['embed_tokens.weight', OUTPUTS],
  ['lm_head.weight', OUTPUTS],
]);
