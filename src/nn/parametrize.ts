// torch.nn.utils.parametrize: parameters that are computed from others each time they are read.
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe } from '../base/tree.js';
import { noGrad } from '../tensor/autograd.js';
import { Tensor } from '../tensor/tensor.js';
import { ModuleDict } from './containers.js';
import { Module, Parameter } from './module.js';

/** Computes a parameter: forward maps the trained tensors to it; the optional rightInverse maps back. */
export interface Parametrization extends Module {
  forward(...originals: Tensor[]): Tensor;
  /** The trained tensors for which forward returns this value: one or several. */
  rightInverse?(value: Tensor): Tensor | readonly Tensor[];
}

const STEPS = Symbol('steps');
const COUNT = Symbol('count');
/** The trained tensors that replace a parameter (original, or original0, original1, ...), and the steps that compute it. */
export class ParametrizationList extends Module {
  readonly [STEPS]: Parametrization[] = [];
  /** How many tensors it has; 0: one that has no number. */
  [COUNT] = 0;
  constructor(value: Parameter, first: Parametrization) {
    super();
    const made = noGrad(() => first.rightInverse?.(value.detach())) ?? value;
    const list = made instanceof Tensor ? [made] : made;
    this[COUNT] = made instanceof Tensor ? 0 : list.length;
    list.forEach((t, i) => {
      const name = this[COUNT] ? `original${i}` : 'original';
      const isItself = t === value;
      Object.assign(this, { [name]: isItself ? value : new Parameter(t, { requiresGrad: value.requiresGrad }) });
    });
    this.append(first);
  }
  append(step: Parametrization): void {
    this[STEPS].push(step);
  }
  get originals(): Parameter[] {
    const fields = this as unknown as Record<string, Parameter>;
    return this[COUNT] ? Array.from({ length: this[COUNT] }, (_, i) => fields[`original${i}`]!) : [fields['original']!];
  }
  /** The parameter. */
  override forward(): Tensor {
    const [first, ...rest] = this[STEPS];
    return rest.reduce((x, step) => step.forward(x), first!.forward(...this.originals));
  }
  /** Sets the trained tensors such that the parameter has this value. */
  assign(value: Tensor): void {
    noGrad(() => {
      let now: Tensor | readonly Tensor[] = value;
      for (const step of this[STEPS].toReversed()) {
        if (!step.rightInverse)
          throw new ArgumentError(`${step.constructor.name} has no rightInverse: its parameter cannot be assigned`);
        now = step.rightInverse(now as Tensor);
      }
      const list = now instanceof Tensor ? [now] : now;
      this.originals.forEach((p, i) => void p.copy_(list[i]!));
    });
  }
  override *members(): ReturnType<Module['members']> {
    yield* super.members();
    for (const [i, step] of this[STEPS].entries()) yield [String(i), step];
  }
}

const listOf = (module: Module, name: string): ParametrizationList | undefined => {
  const all = (module as { parametrizations?: unknown }).parametrizations;
  return all instanceof ModuleDict && all.keys().includes(name) ? (all.get(name) as ParametrizationList) : undefined;
};
/** Whether a parameter of this module (or any of them) is computed by a parametrization. */
export function isParametrized(module: Module, name?: string): boolean {
  const all = (module as { parametrizations?: unknown }).parametrizations;
  return all instanceof ModuleDict && (name === undefined || all.keys().includes(name));
}

/** A field that is computed whenever it is read. It is no member: what it is computed from is. */
export function computedField(
  module: Module,
  name: string,
  get: (module: Module) => Tensor,
  set?: (module: Module, value: Tensor) => void,
): void {
  delete (module as unknown as Record<string, unknown>)[name];
  Object.defineProperty(module, name, {
    configurable: true,
    enumerable: false,
    get(this: Module) {
      return get(this);
    },
    set(this: Module, value: Tensor) {
      if (!set) throw new ArgumentError(`${this.constructor.name}.${name} is computed and cannot be assigned`);
      set(this, value);
    },
  });
}
/** A field that holds a value again. */
export function plainField(module: Module, name: string, value: unknown): void {
  Object.defineProperty(module, name, { value, configurable: true, enumerable: true, writable: true });
}
export function parameterOf(op: string, module: Module, name: string): Parameter {
  const found = (module as unknown as Record<string, unknown>)[name];
  if (found instanceof Parameter) return found;
  throw new ArgumentError(`${op}: ${module.constructor.name}.${name} is ${describe(found)}, not a parameter`);
}

/**
 * Computes a parameter by `parametrization` from a trained tensor that replaces it: parametrizations.NAME.original in state
 * dicts. Several are applied one after the other.
 */
export function registerParametrization<M extends Module>(
  module: M,
  name: string,
  parametrization: Parametrization,
): M {
  const known = listOf(module, name);
  if (known) {
    known.append(parametrization);
    return module;
  }
  const own = parameterOf('registerParametrization', module, name);
  const list = new ParametrizationList(own, parametrization);
  const was = own.aval;
  const now = noGrad(() => list.forward()).aval;
  if (now !== was)
    throw new ArgumentError(
      `registerParametrization: ${parametrization.constructor.name} returns ${now} for ${name}, which is ${was}: the type must stay the same`,
    );
  const holder = module as Module & { parametrizations?: ModuleDict<ParametrizationList> };
  holder.parametrizations ??= new ModuleDict<ParametrizationList>();
  holder.parametrizations.set(name, list);
  computedField(
    module,
    name,
    (m) => listOf(m, name)!.forward(),
    (m, value) => listOf(m, name)!.assign(value),
  );
  return module;
}

/** Removes the parametrization of a parameter: it keeps its value, or with leaveParametrized: false gets the original. */
export function removeParametrizations<M extends Module>(
  module: M,
  name: string,
  options: { readonly leaveParametrized?: boolean } = {},
): M {
  checkOptions('removeParametrizations', ['leaveParametrized'], options);
  const list = listOf(module, name);
  if (!list)
    throw new ArgumentError(`removeParametrizations: ${module.constructor.name}.${name} has no parametrization`);
  const { leaveParametrized = true } = options;
  const { originals } = list;
  if (!leaveParametrized && originals.length > 1)
    throw new ArgumentError('removeParametrizations: there are several originals: leaveParametrized must be true');
  const value = leaveParametrized ? noGrad(() => list.forward()) : originals[0]!;
  plainField(module, name, new Parameter(value, { requiresGrad: originals[0]!.requiresGrad }));
  const holder = module as Module & { parametrizations?: ModuleDict<ParametrizationList> };
  const rest = [...holder.parametrizations!].filter(([key]) => key !== name);
  if (rest.length) holder.parametrizations = new ModuleDict(rest);
  else delete holder.parametrizations;
  return module;
}
