// Adapters on the layers of a model: put on by name, switched off, merged, taken out.
import { ArgumentError } from '../base/errors.js';
import { Embedding } from '../nn/embedding.js';
import { fitsName, type Module, type Parameter } from '../nn/module.js';
import { LayerStack } from '../nn/stack.js';
import { type Adaptable, type AdapterOptions, isAdaptable, LoraLinear } from './linear.js';

/** Which layers: by the end of their names (q_proj, mlp.up_proj; * stands for anything), an expression, or a function. */
export type Target = string | RegExp | ((name: string) => boolean);

/** The layers of a transformer that recovery LoRA is for. */
export const TARGETS = {
  attention: ['q_proj', 'v_proj', 'o_proj'],
  mlp: ['gate_proj', 'up_proj', 'down_proj'],
} as const;

export interface LoraOptions extends AdapterOptions {
  /** q, v and o of the attention and all of the MLP, unless told. */
  readonly targets?: Target | readonly Target[];
  readonly trainNorms?: boolean;
  readonly trainEmbeddings?: boolean;
  /** Where weights are tied, the embeddings are trained with it. */
  readonly trainLmHead?: boolean;
}

/**
 * Puts an adapter on every layer that a target names. All else is frozen, less what the options say: only adapters have
 * gradients. In a LayerStack the adapters are stacked as the layers are. Gives the adapters by their layers' names.
 */
export function addLora(model: Module, options: LoraOptions = {}): Map<string, LoraLinear> {
  const { targets = [...TARGETS.attention, ...TARGETS.mlp], ...others } = options;
  const { trainNorms = false, trainEmbeddings = false, trainLmHead = false, ...adapter } = others;
  if (adaptersOf(model).size)
    throw new ArgumentError(`addLora: ${model.constructor.name} has adapters already: mergeAndUnload them first`);
  const layers = findLayers(model, Array.isArray(targets) ? targets : [targets as Target]);
  const trained = [
    ...(trainNorms ? parametersOf(model, 'trainNorms', (_, m) => /norm/i.test(m.constructor.name)) : []),
    ...(trainEmbeddings ? parametersOf(model, 'trainEmbeddings', (_, m) => m instanceof Embedding) : []),
    ...(trainLmHead ? parametersOf(model, 'trainLmHead', (name) => /(^|\.)lm_head$/.test(name)) : []),
  ];
  const added = new Map(
    [...layers].map(([name, layer]) => [name, new LoraLinear(layer, adapter, stackOf(model, name)?.length)]),
  );
  model.requiresGrad_(false); // from here on nothing can go wrong
  for (const [name, lora] of added) model.setSubmodule(name, lora.train(model.training));
  for (const p of trained) p.requiresGrad_();
  return added;
}

function parametersOf(model: Module, option: string, which: (name: string, m: Module) => boolean): Parameter[] {
  const found = [...model.namedModules()].flatMap(([name, m]) => (which(name, m) ? m.parameters() : []));
  if (found.length) return found;
  throw new ArgumentError(`addLora: ${option}: ${model.constructor.name} has no such layer`);
}

// ---- names

const isTarget = (target: Target, name: string): boolean =>
  typeof target === 'function'
    ? target(name)
    : fitsName(target, name) || (typeof target === 'string' && fitsName(`*.${target}`, name));

/** The LayerStack that a layer of this name is in: its parameters stand for those of all layers. */
function stackOf(model: Module, name: string): { readonly length: number } | undefined {
  for (const [path, m] of model.namedModules())
    if (m instanceof LayerStack && name.startsWith(path ? `${path}.*.` : '*.')) return m;
  return undefined;
}
/** The names of the layers that one of a LayerStack stands for. */
export const namesOf = (model: Module, name: string): string[] =>
  Array.from({ length: stackOf(model, name)?.length ?? 1 }, (_, i) => name.replace(/(^|\.)\*(?=\.)/, `$1${i}`));

const shown = (target: Target): string => (typeof target === 'function' ? 'the function in targets' : String(target));

function findLayers(model: Module, targets: readonly Target[]): Map<string, Adaptable> {
  const all = [...model.namedModules()].filter(([name]) => name);
  const found = new Map<string, Adaptable>();
  for (const target of targets) {
    const fitting = all.flatMap(([name, m]) => {
      const names = namesOf(model, name);
      const some = names.filter((n) => isTarget(target, n));
      if (some.length && some.length < names.length && isAdaptable(m))
        throw new ArgumentError(
          `addLora: ${shown(target)} names ${some[0]} but not ${names.find((n) => !some.includes(n))}: the layers of a LayerStack have adapters together: name all of them, or make the model with scanLayers: false`,
        );
      return some.length ? [[name, m] as const] : [];
    });
    const layers = fitting.filter((e): e is [string, Adaptable] => isAdaptable(e[1]));
    if (!layers.length) {
      const [other] = fitting;
      const can = all.filter(([, m]) => isAdaptable(m)).map(([name]) => namesOf(model, name)[0]!);
      throw new ArgumentError(
        `addLora: ${other ? `${shown(target)} is a ${other[1].constructor.name}` : `no layer fits ${shown(target)}`}: adapters go on ${can.length ? `linear layers, as ${can.slice(0, 7).join(', ')}` : `linear layers, of which ${model.constructor.name} has none`}`,
      );
    }
    for (const [name, layer] of layers) found.set(name, layer);
  }
  return found;
}

// ---- all adapters of a model

/** By the names of the layers that they are on; * stands for the layers of a LayerStack. */
export const adaptersOf = (model: Module): Map<string, LoraLinear> =>
  new Map([...model.namedModules()].filter((e): e is [string, LoraLinear] => e[1] instanceof LoraLinear));

function someAdapters(op: string, model: Module): Map<string, LoraLinear> {
  const adapters = adaptersOf(model);
  if (adapters.size) return adapters;
  throw new ArgumentError(`${op}: ${model.constructor.name} has no adapters: put some on it with addLora`);
}

/** What fn describes is computed without adapters, as the model was before them. */
export function disableAdapter<T>(model: Module, fn: () => T): T {
  return [...someAdapters('disableAdapter', model).values()].reduce<() => T>(
    (inner, a) => () => a.without(inner),
    fn,
  )();
}

/** Puts the adapters into the layers' weights, until unmergeAdapter gives those back as they were, bit for bit: they are kept. */
export function mergeAdapter(model: Module): void {
  const adapters = someAdapters('mergeAdapter', model);
  checkTied(model, adapters);
  for (const adapter of adapters.values()) adapter.merge();
}
export function unmergeAdapter(model: Module): void {
  for (const adapter of someAdapters('unmergeAdapter', model).values()) adapter.unmerge();
}

/** Puts the adapters into the layers' weights for good: the model is as it was made, with other weights. */
export function mergeAndUnload<M extends Module>(model: M): M {
  const adapters = someAdapters('mergeAndUnload', model);
  checkTied(model, adapters);
  for (const [name, adapter] of adapters) {
    if (!adapter.merged) adapter.merge();
    model.setSubmodule(name, adapter.baseLayer);
  }
  return model;
}

/** A weight that another layer uses, too, must not change under it. */
export function checkTied(model: Module, adapters: ReadonlyMap<string, LoraLinear>): void {
  const uses = [...model.stateEntries()];
  for (const [name, { baseLayer }] of adapters) {
    const used = uses.filter((e) => e.tensor === baseLayer.weight);
    if (used.length > 1)
      throw new ArgumentError(
        `LoRA: the weight of ${name} is ${used.map((e) => e.names[0]).join(' and ')}: an adapter cannot be merged into one of them alone`,
      );
  }
}
