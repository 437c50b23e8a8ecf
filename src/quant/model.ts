// Quantizes models: replaces their linears by quantized ones and reports errors and sizes.

import { DTYPES, type DType } from '../base/dtype.js';
import { ArgumentError, DataError } from '../base/errors.js';
import { columns, bytes as showBytes } from '../base/format.js';
import { checkFinite, showNonfinite } from '../nn/finite.js';
import { Linear } from '../nn/linear.js';
import { fits, type Module, type Pattern } from '../nn/module.js';
import { numbered } from '../nn/stack.js';
import { compute } from '../step/sync.js';
import { noGrad } from '../tensor/autograd.js';
import { where } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import type { FactoredOptions } from './factored.js';
import { type Parts, QuantLinear } from './linear.js';
import type { Preset } from './presets.js';
import { presetRules, type QuantRule, quantLinear } from './rules.js';

export interface QuantizeOptions {
  readonly preset?: Preset;
  /** Options that override those of the preset. */
  readonly options?: FactoredOptions;
  /** Rules, instead of a preset. */
  readonly rules?: readonly QuantRule[];
  /** Quantize only the linears that match. Default: all that the rules select. */
  readonly targets?: Pattern;
  /** Dequantize each weight once and keep it, for a model whose scales are not trained. Default: false. */
  readonly materialize?: boolean;
  readonly onLayer?: (report: LayerReport, done: number, total: number) => void;
}

/** The result of quantizing one linear. */
export interface LayerReport {
  readonly name: string;
  readonly kind: string;
  readonly bits: number;
  readonly shape: readonly [outFeatures: number, inFeatures: number];
  /** Bytes of the weight before; `bytes` is that of packed codes, levels and scales. */
  readonly bytesBefore: number;
  readonly bytes: number;
  /** The norm of the weight's change, relative to the norm of the weight. */
  readonly error: number;
}
export class QuantReport {
  constructor(readonly layers: readonly LayerReport[]) {}
  #sum(of: (layer: LayerReport) => number): number {
    return this.layers.reduce((sum, layer) => sum + of(layer), 0);
  }
  get bytesBefore(): number {
    return this.#sum((l) => l.bytesBefore);
  }
  get bytes(): number {
    return this.#sum((l) => l.bytes);
  }
  /** The mean of the layers' errors, each weighted by its number of weights. */
  get error(): number {
    const size = (l: LayerReport) => l.shape[0] * l.shape[1];
    return this.#sum((l) => l.error * size(l)) / this.#sum(size);
  }
  toString(): string {
    const rows = this.layers.map((l) => [
      l.name,
      `${l.bits} bits`,
      `${showBytes(l.bytesBefore)} to ${showBytes(l.bytes)}`,
      `error ${(100 * l.error).toFixed(1)}%`,
    ]);
    const total = `${this.layers.length} linears, ${showBytes(this.bytesBefore)} to ${showBytes(this.bytes)}, error ${(100 * this.error).toFixed(1)}%`;
    return rows.length ? `${columns(rows, '')}\n${total}` : total;
  }
}

/** All quantized linears of a model, by name; in a LayerStack one stands for all layers, with * as the index. */
export function* quantLinears(model: Module): Generator<[name: string, layer: QuantLinear]> {
  for (const [name, m] of model.namedModules()) if (m instanceof QuantLinear) yield [name, m];
}
/** Dequantizes a weight and keeps it. Called one layer at a time, so that only one weight is computed at once. */
export async function keepWeight(layer: QuantLinear, dtype: DType): Promise<void> {
  noGrad(() => layer.materialize(dtype));
  await compute('weights', layer.effective!);
}
/**
 * The names in state dicts of the layers that a module stands for: several if its tensors have a leading dimension. A layer with an
 * adapter keeps its name.
 */
export function namesOf(path: string, lead: readonly number[]): string[] {
  return numbered(path.replace(/\.base_layer$/, ''), lead);
}

/** The linears that match the rules, each with its rule. */
export function linearsFor(
  model: Module,
  rules: readonly QuantRule[],
  targets?: Pattern,
): Map<string, readonly [Linear, QuantRule]> {
  const plan = new Map<string, readonly [Linear, QuantRule]>();
  const linears = [...model.namedModules()].filter((m): m is [string, Linear] => m[1] instanceof Linear);
  for (const [name, linear] of linears) {
    if (targets && !fits(targets, name, linear.weight)) continue;
    const rule = rules.find((r) => fits(r.targets, name, linear.weight));
    if (rule) plan.set(name, [linear, rule]);
  }
  if (plan.size) return plan;
  const some = linears.slice(0, 6).map(([name]) => name);
  throw new ArgumentError(
    `quantize: no linear of ${model.constructor.name} matches ${[targets ?? rules.map((r) => r.targets)].flat().map(String).join(' or ')}; ${
      some.length ? `its linears include ${some.join(', ')}` : 'it has no linears'
    }`,
  );
}
/** Replaces a linear by its name. */
export function replace(model: Module, name: string, layer: QuantLinear): void {
  layer.train((model.getSubmodule(name) as Linear).training);
  model.setSubmodule(name, layer);
}

/** Quantizes the linears of a model in place, one at a time: only one additional layer is in memory. */
export async function quantizeModel(model: Module, options: QuantizeOptions): Promise<QuantReport> {
  const { preset, rules, targets, materialize = false, onLayer } = options;
  if (!preset === !rules) throw new ArgumentError('quantizeModel: pass either preset or rules');
  const plan = linearsFor(model, rules ?? presetRules(preset!, options.options), targets);
  await checkFinite('quantize', model);
  const reports: LayerReport[] = [];
  let done = 0;
  for (const [name, [linear, { targets: _, ...rule }]] of plan) {
    const weight = linear.weight.detach();
    const layer = quantLinear(linear, rule);
    await compute('quantize', weight);
    await layer.fit();
    await compute('quantize', ...layer.parameters(), ...layer.buffers()); // codes first, so that they are not computed twice
    const error = noGrad(() => relativeError(layer.effectiveWeight().float(), weight.float()));
    if (materialize) layer.materialize();
    await compute('quantize', error, ...layer.parameters(), ...layer.buffers());
    const errors = (await error.tolist()) as number[];
    const names = namesOf(name, weight.shape.slice(0, -2));
    const bad = errors.findIndex((e) => !Number.isFinite(e));
    if (bad >= 0)
      throw new DataError(
        `quantize: the error of ${names[bad]}.weight is ${showNonfinite(errors[bad]!)}, though all its weights are finite: they are too large or too small for ${layer.kind} levels: exclude this layer with targets`,
      );
    replace(model, name, layer);
    if (!layer.parameters().includes(linear.weight)) linear.weight.dispose();
    done++;
    const { bits } = layer.parts();
    for (const [i, of] of names.entries()) {
      const report = {
        name: of,
        kind: layer.kind,
        bits,
        shape: [layer.outFeatures, layer.inFeatures] as const,
        bytesBefore: layer.outFeatures * layer.inFeatures * DTYPES[weight.dtype].bytes,
        bytes: packedBytes(layer.parts(), errors.length),
        error: errors[i]!,
      };
      reports.push(report);
      onLayer?.(report, done, plan.size);
    }
  }
  return new QuantReport(reports);
}

/** The norm of each layer's change relative to that of its weight; absolute for a weight of zeros. */
function relativeError(made: Tensor, weight: Tensor): Tensor {
  const sum = (x: Tensor) => x.square().sum([-2, -1]).reshape([-1]);
  const [change, size] = [sum(made.sub(weight)), sum(weight)];
  return change.div(where(size.eq(0), 1, size)).sqrt();
}

/** The packed size in bytes of one of `layers` stacked layers. */
export function packedBytes({ bits, codes, levels, scale }: Parts, layers: number): number {
  const size = (t: Tensor) => (t.numel() * DTYPES[t.dtype].bytes) / layers;
  const scales = 'left' in scale ? size(scale.left) + size(scale.right) : size(scale.whole);
  const [out, width] = codes.shape.slice(-2) as [number, number];
  return out * Math.ceil((width * bits) / 8) + size(levels) + scales;
}
