// The original's quantization presets. Only a table, so that the command line can list them without loading tensors.

/** Names of linears in MLPs (including experts) and in attention, of all decoders. */
export const MLP = /(^|\.)(mlp|block_sparse_moe)\.(experts\.[\d*]+\.)?(\w+_proj|c_\w+|w[123])$/;
export const ATTENTION = /(^|\.)(self_attn|attn)\.(\w+_proj|c_\w+)$/;

/** The number of levels and the rank of scales, for MLPs and for attention. */
export const PRESETS = {
  q2a4: { mlp: [4, 32], attention: [16, 8] },
  q4a4: { mlp: [16, 4], attention: [16, 4] },
  q4a4_r32: { mlp: [16, 32], attention: [16, 32] },
  q2a2: { mlp: [4, 32], attention: [4, 32] },
} as const satisfies Readonly<Record<string, Record<'mlp' | 'attention', readonly [lutSize: number, rank: number]>>>;
export type Preset = keyof typeof PRESETS;
export const PRESET_NAMES = Object.keys(PRESETS) as readonly Preset[];
