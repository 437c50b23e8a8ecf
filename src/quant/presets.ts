// The original's presets: which linears of a model are quantized, and how. A table alone, so that the command line can list it
// without loading tensors.

export const MLP = /(^|\.)mlp\.(gate|up|down)_proj$/;
export const ATTENTION = /(^|\.)self_attn\.(q|k|v|o)_proj$/;

/** Levels and rank of the MLPs' scales, and of attention's. */
export const PRESETS = {
  q2a4: { mlp: [4, 32], attention: [16, 8] },
  q4a4: { mlp: [16, 4], attention: [16, 4] },
  q4a4_r32: { mlp: [16, 32], attention: [16, 32] },
  q2a2: { mlp: [4, 32], attention: [4, 32] },
} as const satisfies Readonly<Record<string, Record<'mlp' | 'attention', readonly [lutSize: number, rank: number]>>>;
export type Preset = keyof typeof PRESETS;
export const PRESET_NAMES = Object.keys(PRESETS) as readonly Preset[];
