// Modules as functions of their parameters: for per-example gradients and ensembles.
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe, isPlain } from '../base/tree.js';
import { entry } from '../ir/source.js';
import { stack } from '../tensor/functions.js';
import { Tensor } from '../tensor/tensor.js';

/** The part of nn.Module that is needed to call it. */
export interface ModuleLike {
  forward(...args: never[]): unknown;
  namedParameters(): ReadonlyMap<string, Tensor>;
  namedBuffers(): ReadonlyMap<string, Tensor>;
}
/** Tensors by their names in the module: 'layers.0.weight'. */
export type ModuleState = Readonly<Record<string, Tensor>> | ReadonlyMap<string, Tensor>;

export interface FunctionalCallOptions {
  /** Whether every parameter and buffer must be given; otherwise missing ones keep the module's. Default: false. */
  readonly strict?: boolean;
}

const named = (module: ModuleLike): Map<string, Tensor> =>
  new Map([...module.namedParameters(), ...module.namedBuffers()]);

function entriesOf(state: ModuleState): [string, Tensor][] {
  const entries = state instanceof Map ? [...state] : isPlain(state) ? Object.entries(state) : undefined;
  if (!entries)
    throw new ArgumentError(
      `functionalCall: the parameters are ${describe(state)}: pass an object or a map of tensors by name, or an array of such`,
    );
  for (const [name, t] of entries)
    if (!(t instanceof Tensor))
      throw new ArgumentError(`functionalCall: ${name} is ${describe(t)}: it must be a tensor`);
  return entries as [string, Tensor][];
}

/**
 * Calls a module with these tensors in place of its parameters and buffers. `args`: its argument, or an array of arguments.
 * Several objects of tensors are merged.
 */
export const functionalCall = entry(
  <M extends ModuleLike>(
    module: M,
    state: ModuleState | readonly ModuleState[],
    args: Parameters<M['forward']> | Parameters<M['forward']>[0] = [] as never,
    options: FunctionalCallOptions = {},
  ): ReturnType<M['forward']> => {
    checkOptions('functionalCall', ['strict'], options);
    const own = named(module);
    const given = new Map<string, Tensor>();
    for (const part of Array.isArray(state) ? (state as readonly ModuleState[]) : [state as ModuleState])
      for (const [name, t] of entriesOf(part)) {
        if (given.has(name)) throw new ArgumentError(`functionalCall: ${name} is given twice`);
        if (!own.has(name))
          throw new ArgumentError(
            `functionalCall: the module has no parameter or buffer ${name}: it has ${[...own.keys()].slice(0, 8).join(', ')}${own.size > 8 ? ', ...' : ''}`,
          );
        given.set(name, t);
      }
    const missing = options.strict ? [...own.keys()].filter((name) => !given.has(name)) : [];
    if (missing.length)
      throw new ArgumentError(`functionalCall: ${missing.join(', ')} missing: pass them, or leave strict out`);
    const list = (Array.isArray(args) ? args : [args]) as never[];
    return Tensor.lend(
      [...given.keys()].map((name) => own.get(name)!),
      [...given.values()],
      () => module.forward(...list) as ReturnType<M['forward']>,
    );
  },
);

/**
 * Stacks the parameters and buffers of equal modules along a new first dimension. For an ensemble, use vmap(functionalCall)
 * over both.
 */
export const stackModuleState = entry(
  (modules: readonly ModuleLike[]): [params: Record<string, Tensor>, buffers: Record<string, Tensor>] => {
    const [first] = modules;
    if (!first) throw new ArgumentError('stackModuleState: the list of modules is empty');
    const stacked = (of: (m: ModuleLike) => ReadonlyMap<string, Tensor>) => {
      const maps = modules.map(of);
      const names = [...maps[0]!.keys()];
      maps.forEach((map, i) => {
        const other = names.find((name) => map.get(name)?.aval !== maps[0]!.get(name)!.aval);
        if (other !== undefined || map.size !== names.length)
          throw new ArgumentError(
            `stackModuleState: module ${i} differs from module 0${other ? `: ${other} is ${map.get(other)?.aval ?? 'missing'} and ${maps[0]!.get(other)!.aval}` : ''}: all modules must have the same structure`,
          );
      });
      return Object.fromEntries(
        names.map((name) => {
          const all = maps.map((map) => map.get(name)!);
          const whole = stack(all.map((t) => t.detach()));
          return [name, all[0]!.requiresGrad ? whole.requiresGrad_() : whole];
        }),
      );
    };
    return [stacked((m) => m.namedParameters()), stacked((m) => m.namedBuffers())];
  },
);
