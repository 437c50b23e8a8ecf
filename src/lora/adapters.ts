// Adds adapters to the layers of a model by name; disables, merges and removes them.
import { ArgumentError } from '../base/errors.js';
import { DecoderForCausalLM } from '../models/decoder.js';
import { Embedding } from '../nn/embedding.js';
import { Experts } from '../nn/experts.js';
import { fitsName, type Module, type Parameter } from '../nn/module.js';
import { LayerStack, numbered } from '../nn/stack.js';
import { type Adaptable, type AdapterOptions, isAdaptable, LoraLinear } from './linear.js';

/** Selects layers: by the end of their names (q_proj, mlp.up_proj; * is a wildcard), a regular expression, or a function. */
export type Target = string | RegExp | ((name: string) => boolean);

/** The layers of a transformer that recovery LoRA trains. */
export const TARGETS = {
  attention: ['q_proj', 'v_proj', 'o_proj'],
  mlp: ['gate_proj', 'up_proj', 'down_proj'],
} as const;

export interface LoraOptions extends AdapterOptions {
  /** The layers to add adapters to. Default: those of the model's architecture, else q, v and o of attention and all of the MLP. */
  readonly targets?: Target | readonly Target[];
  readonly trainNorms?: boolean;
  readonly trainEmbeddings?: boolean;
  /** With tied weights this also trains the embeddings. Default: false. */
  readonly trainLmHead?: boolean;
}

/**
 * Adds an adapter to every layer that a target selects. All other parameters are frozen, except those of the options `train...`. In
 * a LayerStack the adapters are stacked as the layers are. Returns the adapters by the names of their layers.
 */
export function addLora(model: Module, options: LoraOptions = {}): Map<string, LoraLinear> {
  const { targets = defaultTargets(model), ...others } = options;
  const { trainNorms = false, trainEmbeddings = false, trainLmHead = false, ...adapter } = others;
  if (adaptersOf(model).size)
    throw new ArgumentError(`addLora: ${model.constructor.name} already has adapters: call mergeAndUnload first`);
  const layers = findLayers(model, Array.isArray(targets) ? targets : [targets as Target]);
  const trained = [
    ...(trainNorms ? parametersOf(model, 'trainNorms', (_, m) => /norm/i.test(m.constructor.name)) : []),
    ...(trainEmbeddings ? parametersOf(model, 'trainEmbeddings', (_, m) => m instanceof Embedding) : []),
    ...(trainLmHead ? parametersOf(model, 'trainLmHead', (name) => /(^|\.)lm_head$/.test(name)) : []),
  ];
  const added = new Map(
    [...layers].map(([name, layer]) => [name, new LoraLinear(layer, adapter, stacksOf(model, name))]),
  );
  model.requiresGrad_(false); // after all checks: errors leave the model unchanged
  for (const [name, lora] of added) model.setSubmodule(name, lora.train(model.training));
  for (const p of trained) p.requiresGrad_();
  return added;
}

/** The targets of the model's architecture, or else TARGETS. */
function defaultTargets(model: Module): string[] {
  const { attention, mlp } = model instanceof DecoderForCausalLM ? model.architecture.lora : TARGETS;
  return [...attention, ...mlp];
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

/** The numbers of stacked layers and experts that the parameters under this name have. */
function stacksOf(model: Module, name: string): number[] {
  const parts = name.split('.');
  const stacks = parts.flatMap((part, i) => (part === '*' ? [model.getSubmodule(parts.slice(0, i).join('.'))] : []));
  return stacks.flatMap((m) => (m instanceof LayerStack || m instanceof Experts ? [m.length] : []));
}
/** The names of all layers that a layer in a LayerStack, or in experts, stands for. */
export const namesOf = (model: Module, name: string): string[] => numbered(name, stacksOf(model, name));

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
          `addLora: ${shown(target)} selects ${some[0]} but not ${names.find((n) => !some.includes(n))}: all layers of a LayerStack get adapters together: select all of them, or create the model with scanLayers: false`,
        );
      return some.length ? [[name, m] as const] : [];
    });
    const layers = fitting.filter((e): e is [string, Adaptable] => isAdaptable(e[1]));
    if (!layers.length) {
      const [other] = fitting;
      const can = all.filter(([, m]) => isAdaptable(m)).map(([name]) => namesOf(model, name)[0]!);
      throw new ArgumentError(
        `addLora: ${other ? `${shown(target)} is a ${other[1].constructor.name}` : `no layer matches ${shown(target)}`}: adapters need ${can.length ? `linear layers, such as ${can.slice(0, 7).join(', ')}` : `linear layers, of which ${model.constructor.name} has none`}`,
      );
    }
    for (const [name, layer] of layers) found.set(name, layer);
  }
  return found;
}

// ---- all adapters of a model

/** All adapters of a model, by the names of their layers; * stands for the layers of a LayerStack. */
export const adaptersOf = (model: Module): Map<string, LoraLinear> =>
  new Map([...model.namedModules()].filter((e): e is [string, LoraLinear] => e[1] instanceof LoraLinear));

function someAdapters(op: string, model: Module): Map<string, LoraLinear> {
  const adapters = adaptersOf(model);
  if (adapters.size) return adapters;
  throw new ArgumentError(`${op}: ${model.constructor.name} has no adapters: add some with addLora`);
}

/** Runs fn with all adapters disabled. */
export function disableAdapter<T>(model: Module, fn: () => T): T {
  return [...someAdapters('disableAdapter', model).values()].reduce<() => T>(
    (inner, a) => () => a.without(inner),
    fn,
  )();
}

/** Merges the adapters into the layers' weights. unmergeAdapter restores the weights bit for bit from a copy. */
export function mergeAdapter(model: Module): void {
  const adapters = someAdapters('mergeAdapter', model);
  checkTied(model, adapters);
  for (const adapter of adapters.values()) adapter.merge();
}
export function unmergeAdapter(model: Module): void {
  for (const adapter of someAdapters('unmergeAdapter', model).values()) adapter.unmerge();
}

/** Merges the adapters into the layers' weights and removes them. Returns the model. */
export function mergeAndUnload<M extends Module>(model: M): M {
  const adapters = someAdapters('mergeAndUnload', model);
  checkTied(model, adapters);
  for (const [name, adapter] of adapters) {
    if (!adapter.merged) adapter.merge();
    model.setSubmodule(name, adapter.baseLayer);
  }
  return model;
}

/** Throws if a weight to merge into is shared with another layer. */
export function checkTied(model: Module, adapters: ReadonlyMap<string, LoraLinear>): void {
  const uses = [...model.stateEntries()];
  for (const [name, { baseLayer }] of adapters) {
    const used = uses.filter((e) => e.tensor === baseLayer.weight);
    if (used.length > 1)
      throw new ArgumentError(
        `LoRA: ${used.map((e) => e.names[0]).join(' and ')} share the weight of ${name}: an adapter cannot be merged into only one of them`,
      );
  }
}
