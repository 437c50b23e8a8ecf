// Tensor parallelism of decoders (Megatron, arXiv:1909.08053): projections into heads and MLPs are split by their outputs, those out
// of them by their inputs, embeddings by their rows.
import type { ParallelTable } from '../spmd/parallel.js';

/** The dimensions of a matrix [out, in], and that of experts before them. */
const [OUTPUTS, INPUTS, EXPERTS] = [0, 1, -1];
const INTO = ['q_proj', 'k_proj', 'v_proj', 'gate_proj', 'up_proj'];
const OUT_OF = ['o_proj', 'down_proj'];
/** The entries of a linear, quantized or not, and with or without an adapter. */
const matrices = (name: string, dim: number) =>
  ['weight', 'effective', 'indices'].map((what) => [`${name}.*${what}`, dim] as const);

/** The table of a decoder, by the names of its linears into and out of heads and MLPs, and of its embedding. */
export const tensorParallelTable = (
  into: readonly string[],
  outOf: readonly string[],
  embedding: string,
): ParallelTable =>
  Object.fromEntries([
    ...into.flatMap((name) => [
      ...matrices(name, OUTPUTS),
      [`${name}.*bias`, OUTPUTS] as const,
      [`${name}.*lora_B`, OUTPUTS] as const,
    ]),
    ...outOf.flatMap((name) => [...matrices(name, INPUTS), [`${name}.*lora_A`, INPUTS] as const]),
    [`${embedding}.weight`, OUTPUTS],
    ['lm_head.weight', OUTPUTS],
  ]);

/** The table of decoders with Llama's names. */
export const TENSOR_PARALLEL = tensorParallelTable(INTO, OUT_OF, 'embed_tokens');
/** Adds experts, which are split over devices: each device computes its own. */
export const expertParallelTable = (names: readonly string[]): ParallelTable => ({
  ...Object.fromEntries(names.map((name) => [`experts.*.${name}.*`, EXPERTS] as const)),
  ...TENSOR_PARALLEL,
});
export const EXPERT_PARALLEL = expertParallelTable(['gate_proj', 'up_proj', 'down_proj']);
/** The same table, because Qwen3 has Llama's names. */
export const QWEN3_TENSOR_PARALLEL = TENSOR_PARALLEL;

/** The layers with adapters in decoders with Llama's names. */
export const LORA_TARGETS = {
  attention: ['q_proj', 'v_proj', 'o_proj'],
  key: ['k_proj'],
  mlp: ['gate_proj', 'up_proj', 'down_proj'],
} as const;
