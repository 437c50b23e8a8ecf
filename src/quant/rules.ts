// Rules that select the linears of a model and how each is quantized. A preset is a list of two rules.
import { ArgumentError } from '../base/errors.js';
import type { Linear } from '../nn/linear.js';
import type { Pattern } from '../nn/module.js';
import { FactoredLinear, type FactoredOptions } from './factored.js';
import type { QuantLinear } from './linear.js';
import { LutLinear, type LutOptions } from './lut-linear.js';
import { ATTENTION, MLP, PRESET_NAMES, PRESETS, type Preset } from './presets.js';
import { SymmetricLinear, type SymmetricOptions } from './symmetric.js';

export type LayerOptions =
  | ({ readonly kind: 'symmetric' } & SymmetricOptions)
  | ({ readonly kind: 'lut' } & LutOptions)
  | ({ readonly kind: 'factored' } & FactoredOptions);
/** How linears whose names match are quantized. The first rule that matches is used. */
export type QuantRule = { readonly targets: Pattern } & LayerOptions;

const KINDS = { symmetric: SymmetricLinear, lut: LutLinear, factored: FactoredLinear } as const;

/** Creates a quantized linear from a linear, without fitting it. */
export function quantLinear(linear: Linear, { kind, ...options }: LayerOptions): QuantLinear {
  const made = KINDS[kind] as (new (linear: Linear, options: object) => QuantLinear) | undefined;
  if (made) return new made(linear, options);
  throw new ArgumentError(`quantize: there is no kind '${kind}': it must be one of ${Object.keys(KINDS).join(', ')}`);
}

/** The rules of a preset. `options` override those of the preset. */
export function presetRules(name: Preset, options: FactoredOptions = {}): QuantRule[] {
  const preset = PRESETS[name];
  if (!preset)
    throw new ArgumentError(`quantize: there is no preset '${name}': it must be one of ${PRESET_NAMES.join(', ')}`);
  const rule = (targets: RegExp, [lutSize, scaleRank]: readonly [number, number]): QuantRule => ({
    targets,
    kind: 'factored',
    lutSize,
    scaleRank,
    ...options,
  });
  return [rule(MLP, preset.mlp), rule(ATTENTION, preset.attention)];
}
