// Rotary positions (RoPE, arXiv:2104.09864) and their scalings for texts longer than in training: a position p rotates the pair
// (i, i + r/2) of the first r elements of a head by the angle p * frequency[i].
import { ArgumentError } from '../base/errors.js';
import { checkJson, flag, list, object, optional, real, text } from '../base/json.js';
import { Module } from '../nn/module.js';
import { tensor } from '../tensor/create.js';
import { cat, where as choose } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { brief, type Json, positive, refuser, size } from './config.js';

// Symbols instead of private names, so that copies of a module (clone) have them too.
const FREQUENCIES = Symbol('frequencies');
const OTHERS = Symbol('others');

export interface RopeParameters {
  readonly type: RopeType;
  /** The base of the wavelengths. */
  readonly theta: number;
  /** The fraction of each head that is rotated. Default: 1. */
  readonly partialRotaryFactor?: number | undefined;
  readonly factor?: number | undefined;
  /** The length of texts in training, from which the scaling starts. */
  readonly originalMaxPositionEmbeddings: number;
  readonly attentionFactor?: number | undefined;
  readonly betaFast?: number | undefined;
  readonly betaSlow?: number | undefined;
  readonly mscale?: number | undefined;
  readonly mscaleAllDim?: number | undefined;
  readonly truncate?: boolean | undefined;
  readonly lowFreqFactor?: number | undefined;
  readonly highFreqFactor?: number | undefined;
  readonly shortFactor?: readonly number[] | undefined;
  readonly longFactor?: readonly number[] | undefined;
}

const RopeSchema = object({
  rope_type: optional(text),
  type: optional(text),
  rope_theta: optional(positive),
  partial_rotary_factor: optional(positive),
  factor: optional(positive),
  original_max_position_embeddings: optional(size),
  attention_factor: optional(positive),
  beta_fast: optional(positive),
  beta_slow: optional(positive),
  mscale: optional(real),
  mscale_all_dim: optional(real),
  truncate: optional(flag),
  low_freq_factor: optional(positive),
  high_freq_factor: optional(positive),
  short_factor: optional(list(positive)),
  long_factor: optional(list(positive)),
});
const PlacesSchema = object({
  rope_parameters: optional(RopeSchema),
  rope_scaling: optional(RopeSchema),
  rope_theta: optional(positive),
  partial_rotary_factor: optional(positive),
  original_max_position_embeddings: optional(size),
});

export interface RopeDefaults {
  readonly theta?: number;
  readonly headDim: number;
  readonly maxPositionEmbeddings: number;
}

/** The rotary positions of a config.json: transformers 5 has rope_parameters, 4 had rope_theta and rope_scaling. */
export function readRope(json: Json, where: string, defaults: RopeDefaults): RopeParameters {
  const given = checkJson(json, where, PlacesSchema);
  const scaling = given.rope_scaling ?? given.rope_parameters ?? {};
  const theta = scaling.rope_theta ?? given.rope_parameters?.rope_theta ?? given.rope_theta ?? defaults.theta ?? 10_000;
  const type = scaling.rope_type ?? scaling.type ?? 'default';
  const refuse = refuser(where);
  if (!isRopeType(type))
    return refuse(`rope_type is ${brief(type)}: supported are ${Object.keys(SCALINGS).join(', ')}`);
  const parameters: RopeParameters = {
    type,
    theta,
    partialRotaryFactor: scaling.partial_rotary_factor ?? given.partial_rotary_factor,
    factor: scaling.factor,
    originalMaxPositionEmbeddings:
      given.original_max_position_embeddings ??
      scaling.original_max_position_embeddings ??
      defaults.maxPositionEmbeddings,
    attentionFactor: scaling.attention_factor,
    betaFast: scaling.beta_fast,
    betaSlow: scaling.beta_slow,
    mscale: scaling.mscale,
    mscaleAllDim: scaling.mscale_all_dim,
    truncate: scaling.truncate,
    lowFreqFactor: scaling.low_freq_factor,
    highFreqFactor: scaling.high_freq_factor,
    shortFactor: scaling.short_factor,
    longFactor: scaling.long_factor,
  };
  const half = rotaryDimOf(parameters, defaults.headDim) / 2;
  if (parameters.partialRotaryFactor !== undefined && !Number.isInteger(half))
    refuse(
      `partial_rotary_factor ${parameters.partialRotaryFactor} of head_dim ${defaults.headDim} is not an even number`,
    );
  const missing = NEEDS[type].find((key) => parameters[key] === undefined);
  if (missing) refuse(`rope_type ${type} needs ${snake(missing)}`);
  for (const key of ['shortFactor', 'longFactor'] as const)
    if (type === 'longrope' && parameters[key]!.length !== half)
      refuse(
        `rope_type longrope: ${key} has ${parameters[key]!.length} numbers: it must have ${half}, one for each rotated pair`,
      );
  return parameters;
}
const NEEDS: Readonly<Record<RopeType, readonly (keyof RopeParameters)[]>> = {
  default: [],
  linear: ['factor'],
  dynamic: ['factor'],
  yarn: [],
  longrope: ['shortFactor', 'longFactor'],
  llama3: ['factor', 'lowFreqFactor', 'highFreqFactor'],
};

/** The fields of config.json for rotary positions. */
export const writeRope = ({ type, theta, ...others }: RopeParameters): Json => ({
  rope_type: type,
  rope_theta: theta,
  ...Object.fromEntries(
    Object.entries(others)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => [snake(key), value]),
  ),
});
const snake = (name: string): string => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);

/** The number of elements of each head that are rotated. */
export const rotaryDimOf = (
  { partialRotaryFactor = 1 }: Pick<RopeParameters, 'partialRotaryFactor'>,
  headDim: number,
) => Math.floor(headDim * partialRotaryFactor);

// ---- scalings

interface Frequencies {
  readonly frequencies: readonly number[];
  /** Cosines and sines are multiplied by it. */
  readonly scale?: number;
  /** Other frequencies for texts longer than `above` positions. */
  readonly long?: { readonly above: number; frequenciesFor(length: Tensor): Tensor };
}
const f = Math.fround; // torch computes them in f32

const plain = (theta: number, dim: number): number[] =>
  Array.from({ length: dim / 2 }, (_, i) => f(1 / f(theta ** f((2 * i) / dim))));

type Scaling = (p: RopeParameters, dim: number, maxPositions: number) => Frequencies;
const SCALINGS = {
  default: ({ theta }, dim) => ({ frequencies: plain(theta, dim) }),
  /** Positions are divided by the factor (arXiv:2306.15595). */
  linear: ({ theta, factor = 1 }, dim) => ({ frequencies: plain(theta, dim).map((w) => f(w / factor)) }),
  /** The base increases with the length of the text beyond that in training. */
  dynamic({ theta, factor = 1 }, dim, maxPositions) {
    const exponents = tensor(Float32Array.from({ length: dim / 2 }, (_, i) => (2 * i) / dim));
    const frequenciesFor = (length: Tensor): Tensor => {
      const grown = length
        .float()
        .mul(factor / maxPositions)
        .sub(factor - 1);
      return grown
        .pow(dim / (dim - 2))
        .mul(theta)
        .pow(exponents)
        .reciprocal();
    };
    return { frequencies: plain(theta, dim), long: { above: maxPositions, frequenciesFor } };
  },
  /** Long wavelengths are interpolated, short ones are not (arXiv:2309.00071). */
  yarn(p, dim, maxPositions) {
    const { theta, originalMaxPositionEmbeddings: original, betaFast = 32, betaSlow = 1, truncate = true } = p;
    const factor = p.factor ?? maxPositions / original;
    const grow = (by: number) => (factor <= 1 ? 1 : 0.1 * by * Math.log(factor) + 1);
    const scale = p.attentionFactor ?? (p.mscale && p.mscaleAllDim ? grow(p.mscale) / grow(p.mscaleAllDim) : grow(1));
    const dimOf = (rotations: number) => (dim * Math.log(original / (rotations * 2 * Math.PI))) / (2 * Math.log(theta));
    const [from, to] = [dimOf(betaFast), dimOf(betaSlow)];
    const low = Math.max(truncate ? Math.floor(from) : from, 0);
    const high = Math.min(truncate ? Math.ceil(to) : to, dim - 1);
    const width = high === low ? 0.001 : high - low;
    const frequencies = Array.from({ length: dim / 2 }, (_, i) => {
      const wave = f(theta ** f((2 * i) / dim));
      const kept = f(1 - Math.min(1, Math.max(0, f((i - low) / width))));
      return f(f(1 / f(factor * wave)) * f(1 - kept) + f(1 / wave) * kept);
    });
    return { frequencies, scale };
  },
  /** A factor for each frequency, for short and for long texts (arXiv:2402.13753). */
  longrope(p, dim, maxPositions) {
    const { theta, shortFactor = [], longFactor = [], originalMaxPositionEmbeddings: original } = p;
    const factor = p.factor ?? maxPositions / original;
    const scale = p.attentionFactor ?? (factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(original)));
    const scaled = (by: readonly number[]) => by.map((x, i) => f(1 / f(f(x) * f(theta ** f((2 * i) / dim)))));
    const long = tensor(Float32Array.from(scaled(longFactor)));
    return { frequencies: scaled(shortFactor), scale, long: { above: original, frequenciesFor: () => long } };
  },
  /** Frequencies of long wavelengths are divided by the factor, short ones not, with a smooth transition (Llama 3.1). */
  llama3({ theta, factor = 1, lowFreqFactor = 1, highFreqFactor = 1, originalMaxPositionEmbeddings: old }, dim) {
    const frequencies = plain(theta, dim).map((w) => {
      const length = (2 * Math.PI) / w;
      if (length > old / lowFreqFactor) return f(w / factor);
      if (length < old / highFreqFactor) return w;
      const smooth = (old / length - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
      return f(((1 - smooth) * w) / factor + smooth * w);
    });
    return { frequencies };
  },
} satisfies Readonly<Record<string, Scaling>>;
export type RopeType = keyof typeof SCALINGS;
export const ROPE_TYPES = Object.keys(SCALINGS) as readonly RopeType[];
const isRopeType = (name: string): name is RopeType => Object.hasOwn(SCALINGS, name);

/** A scaling as numbers: factors by which frequencies are divided, and a scale of cosines and sines. */
export function ropeFactors(
  parameters: RopeParameters,
  headDim: number,
  maxPositions: number,
): { readonly factors: readonly number[]; readonly scale: number } {
  const dim = rotaryDimOf(parameters, headDim);
  const scaling: Scaling = SCALINGS[parameters.type];
  const { frequencies, scale = 1 } = scaling(parameters, dim, maxPositions);
  return { factors: plain(parameters.theta, dim).map((w, i) => w / frequencies[i]!), scale };
}

// ---- the module

export type Rotation = readonly [cos: Tensor, sin: Tensor];

/** From positions to the rotation of queries and keys. */
export class RotaryEmbedding extends Module {
  readonly [FREQUENCIES]: Tensor; // not a buffer, so that it stays f32 when the model becomes bf16
  readonly [OTHERS]: Pick<Frequencies, 'scale' | 'long'>;
  constructor(parameters: RopeParameters, headDim: number, maxPositions: number) {
    super();
    const dim = rotaryDimOf(parameters, headDim);
    if (!isRopeType(parameters.type))
      throw new ArgumentError(
        `the rope type ${parameters.type} is not supported: supported are ${ROPE_TYPES.join(', ')}`,
      );
    const scaling: Scaling = SCALINGS[parameters.type];
    const { frequencies, ...others } = scaling(parameters, dim, maxPositions);
    this[FREQUENCIES] = tensor(Float32Array.from(frequencies));
    this[OTHERS] = others;
  }
  /** From positions [B, T] to the cosines and sines of angles, each [B, 1, T, r]. */
  override forward(positions: Tensor): Rotation {
    const { scale = 1, long } = this[OTHERS];
    const half = positions.float().unsqueeze(-1).mul(this.frequenciesAt(positions, long)); // [B, T, r/2]
    const angles = cat([half, half], -1).unsqueeze(1); // [B, 1, T, r]: the same for every head
    if (scale === 1) return [angles.cos(), angles.sin()];
    return [angles.cos().mul(scale), angles.sin().mul(scale)];
  }
  private frequenciesAt(positions: Tensor, long: Frequencies['long']): Tensor {
    if (!long) return this[FREQUENCIES];
    const length = positions.max().add(1);
    return choose(length.gt(long.above), long.frequenciesFor(length), this[FREQUENCIES]);
  }
}

/** Rotates the first r elements of x [B, heads, T, d]. */
export function rotate(x: Tensor, [cos, sin]: Rotation): Tensor {
  const r = cos.shape.at(-1)!;
  const d = x.shape.at(-1)!;
  if (r < d) return cat([rotate(x.narrow(-1, 0, r), [cos, sin]), x.narrow(-1, r, d - r)], -1);
  const [a, b] = x.chunk(2, -1);
  return x.mul(cos.to(x.dtype)).add(cat([b.neg(), a], -1).mul(sin.to(x.dtype)));
}
