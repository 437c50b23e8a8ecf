// The training step that all sides run: a decoder-only transformer (RMSNorm, causal attention, SwiGLU, no positions, no
// biases), cross-entropy, AdamW; f32. Weights and tokens are made here once, and read by every side from a folder.
import { writeFileSync } from 'node:fs';
import path from 'node:path';

export const SIZES = {
  tiny: { L: 2, D: 256, H: 4, F: 1024, V: 2048, B: 4, T: 128 },
  small: { L: 4, D: 512, H: 8, F: 2048, V: 8192, B: 8, T: 256 },
} as const;
export type Size = keyof typeof SIZES;

export interface Model {
  /** Layers, width, heads, width of the hidden layer, words, sequences, their length. */
  readonly L: number;
  readonly D: number;
  readonly H: number;
  readonly F: number;
  readonly V: number;
  readonly B: number;
  readonly T: number;
  readonly lr: number;
  readonly betas: readonly [number, number];
  readonly eps: number;
  readonly weightDecay: number;
  /** Name and shape of each weight, in the order of the file. */
  readonly shapes: readonly (readonly [string, readonly number[]])[];
}

export function modelOf(size: Size): Model {
  const { L, D, F, V } = SIZES[size];
  const layer = (i: number): [string, number[]][] => [
    [`l${i}.n1`, [D]],
    ...['wq', 'wk', 'wv', 'wo'].map((w): [string, number[]] => [`l${i}.${w}`, [D, D]]),
    [`l${i}.n2`, [D]],
    [`l${i}.w1`, [D, F]],
    [`l${i}.w3`, [D, F]],
    [`l${i}.w2`, [F, D]],
  ];
  const layers = Array.from({ length: L }, (_, i) => layer(i)).flat();
  const shapes: Model['shapes'] = [['emb', [V, D]], ...layers, ['nf', [D]], ['head', [D, V]]];
  return { ...SIZES[size], lr: 1e-3, betas: [0.9, 0.95], eps: 1e-8, weightDecay: 0.01, shapes };
}

/** model.json, weights.f32 and tokens.i32 ([B, T + 1]). */
export function writeModel(folder: string, model: Model): void {
  const random = randomNumbers(1);
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const parts = model.shapes.map(([name, shape]) => {
    const scale = name === 'emb' ? 0.02 : shape[0]! ** -0.5;
    const n = shape.reduce((a, b) => a * b);
    return Float32Array.from({ length: n }, () => (shape.length === 1 ? 1 : normal() * scale));
  });
  const tokens = Int32Array.from({ length: model.B * (model.T + 1) }, () => Math.floor(random() * model.V));
  writeFileSync(path.join(folder, 'model.json'), JSON.stringify(model));
  writeFileSync(path.join(folder, 'weights.f32'), Buffer.concat(parts.map((p) => new Uint8Array(p.buffer))));
  writeFileSync(path.join(folder, 'tokens.i32'), tokens);
}

/** Mulberry32: the same numbers in [0, 1) everywhere. */
function randomNumbers(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), seed | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
