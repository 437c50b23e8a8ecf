// Module: parameters, buffers and other modules as fields of a class. There is no registration: fields are members, and a
// field's name in torch's spelling (qProj: q_proj) is its name in state dicts.

import { inspect } from 'node:util';
import { DTYPES, type DType, dtypeMistake, TORCH } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { bytes, spelled } from '../base/format.js';
import { checkOptions } from '../base/options.js';
import { isFloat } from '../base/promote.js';
import { describe, isPlain } from '../base/tree.js';
import type { Handle } from '../ir/hooks.js';
import { device, deviceNamed } from '../runtime/device.js';
import { memberRead, membersListed, memberWritten, moduleMade } from '../tensor/members.js';
import { dependOn } from '../tensor/scope.js';
import { type LoadedKeys, loadTensors, partOf, type StateDict, type StateEntry } from '../tensor/state.js';
import { Tensor } from '../tensor/tensor.js';
import { copyOf, refuseBound, refusePrivate } from './clone.js';
import {
  addHook,
  type BackwardHook,
  type BackwardPreHook,
  copyModuleHooks,
  type ForwardHook,
  type ForwardPreHook,
  type HookOptions,
  ownForward,
  putForward,
} from './hooks.js';
import { noteClass, registerModules } from './module-paths.js';

let made = 0;
/** Counts created modules, parameters and buffers and those put into lists and dicts, which field reads do not show. */
export const membersMade = (): number => made;
export const memberPut = (): void => void made++;

function checkTensor(what: string, data: unknown): Tensor {
  if (data instanceof Tensor) return data;
  throw new ArgumentError(`nn.${what}: takes a tensor, got ${describe(data)}: write new nn.${what}(tx.tensor(...))`);
}

export { checkState } from '../tensor/state.js';

/** A trainable tensor of a module. */
export class Parameter extends Tensor {
  constructor(data: Tensor, options: { readonly requiresGrad?: boolean } = {}) {
    super(checkTensor('Parameter', data).detach().expr);
    made++;
    checkOptions('Parameter', ['requiresGrad'], options);
    const { requiresGrad = true } = options;
    if (requiresGrad) this.requiresGrad_();
  }
}

/** A tensor of a module's state that is not trained: running statistics, tables. */
export class Buffer extends Tensor {
  /** Whether it is part of state dicts. Default: true. */
  readonly persistent: boolean;
  constructor(data: Tensor, options: { readonly persistent?: boolean } = {}) {
    super(checkTensor('Buffer', data).detach().expr);
    made++;
    checkOptions('Buffer', ['persistent'], options);
    const { persistent = true } = options;
    this.persistent = persistent;
  }
}

/** Selects parameters by name. In a string, * matches anything, and it must match the whole name. */
export type Pattern = string | RegExp | ((name: string, parameter: Parameter) => boolean);

export type Member = Parameter | Buffer | Module;
export const isMember = (x: unknown): x is Member =>
  x instanceof Parameter || x instanceof Buffer || x instanceof Module;

/**
 * Checks values when they are assigned to fields, as in torch. Reports reads and changes of fields to traces: a compiled
 * function is traced again if a field that it read has changed.
 */
const ASSIGNING: ProxyHandler<object> = {
  get(target, key, receiver) {
    memberRead(target, key);
    return Reflect.get(target, key, receiver);
  },
  ownKeys(target) {
    membersListed(target);
    return Reflect.ownKeys(target);
  },
  // Also called for every assignment.
  defineProperty(target, key, property) {
    memberWritten(target, key);
    return Reflect.defineProperty(target, key, property);
  },
  deleteProperty(target, key) {
    memberWritten(target, key);
    return Reflect.deleteProperty(target, key);
  },
  set(target, key, value: unknown, receiver) {
    const was: unknown = Object.getOwnPropertyDescriptor(target, key)?.value;
    if (was instanceof Buffer && value instanceof Tensor && !isMember(value))
      return Reflect.set(target, key, new Buffer(value, { persistent: was.persistent }), receiver);
    if (was instanceof Parameter && value != null && !isMember(value))
      throw new ArgumentError(
        `cannot assign ${value instanceof Tensor ? value.aval : describe(value)} as parameter '${String(key)}' of ${target.constructor.name} (nn.Parameter or null expected): write new nn.Parameter(...), or change its values: tx.noGrad(() => p.copy_(values))`,
      );
    return Reflect.set(target, key, value, receiver);
  },
};
/** The constructor returns a proxy, so that fields of subclasses are set on the proxy. */
class Assigned {
  constructor() {
    moduleMade(this);
    // biome-ignore lint/correctness/noConstructorReturn: the proxy is the module
    return new Proxy(this, ASSIGNING);
  }
}

/** The base class of all layers and models: fields with parameters, buffers and modules, and forward(). */
export class Module extends Assigned {
  #training = true;
  constructor() {
    super();
    made++;
    noteClass(new.target);
  }

  /** Computes the result. Implemented by subclasses. */
  forward(..._args: never[]): unknown {
    throw new ArgumentError(`${this.constructor.name} has no forward: write forward(x: Tensor): Tensor in the class`);
  }

  /** Whether the module is in train mode: dropout drops, batch norm updates its statistics. A compiled function notices changes. */
  get training(): boolean {
    return dependOn(this, () => this.#training);
  }

  /** Puts this module and all modules inside into train mode; `train(false)` is eval(). */
  train(on = true): this {
    for (const module of this.modules()) module.#training = on;
    return this;
  }
  eval(): this {
    return this.train(false);
  }

  // ---- members

  /** The direct members by name, in the order of the fields. Elements of lists are included: layers.0, layers.1. */
  *members(): Generator<[name: string, member: Member]> {
    const walk = function* (name: string, x: unknown): Generator<[string, Member]> {
      if (isMember(x)) yield [name, x];
      else if (Array.isArray(x)) for (const [i, e] of x.entries()) yield* walk(`${name}.${i}`, e);
    };
    const fields = new Map<string, string>(); // by their names
    for (const [field, x] of Object.entries(this)) {
      checkField(this, field, x);
      for (const [name, member] of walk(spelled(field), x)) {
        const other = fields.get(name);
        if (other !== undefined)
          throw new ArgumentError(
            `${this.constructor.name}: fields ${other} and ${field} are both ${name} in state dicts: rename one of them`,
          );
        fields.set(name, field);
        yield [name, member];
      }
    }
  }

  /** All modules with their names, this one first, each once. */
  *namedModules(prefix = '', seen = new Set<Module>()): Generator<[name: string, module: Module]> {
    if (seen.has(this)) return;
    seen.add(this);
    yield [prefix, this];
    for (const [name, m] of this.namedChildren()) yield* m.namedModules(prefix ? `${prefix}.${name}` : name, seen);
  }
  *namedChildren(): Generator<[name: string, module: Module]> {
    for (const [name, m] of this.members()) if (m instanceof Module) yield [name, m];
  }
  modules(): Module[] {
    return [...this.namedModules()].map(([, m]) => m);
  }
  children(): Module[] {
    return [...this.namedChildren()].map(([, m]) => m);
  }

  /** All tensors with their names, in the order of the fields: a shared one appears with each name. */
  *#tensors(prefix = ''): Generator<[name: string, tensor: Parameter | Buffer]> {
    const nested: [string, Module][] = [];
    for (const [name, m] of this.members()) {
      if (m instanceof Module) nested.push([`${prefix}${name}.`, m]);
      else yield [prefix + name, m];
    }
    for (const [path, m] of nested) yield* m.#tensors(path); // as torch: a module's own first
  }
  #named<T extends Tensor>(kind: abstract new (...args: never[]) => T): Map<string, T> {
    const found = new Map<T, string>(); // a shared one counts once, by its first name
    for (const [name, t] of this.#tensors()) if (t instanceof kind && !found.has(t as T)) found.set(t as T, name);
    return new Map([...found].map(([t, name]) => [name, t]));
  }
  namedParameters(): Map<string, Parameter> {
    return this.#named(Parameter);
  }
  parameters(): Parameter[] {
    return [...this.namedParameters().values()];
  }
  namedBuffers(): Map<string, Buffer> {
    return this.#named(Buffer);
  }
  buffers(): Buffer[] {
    return [...this.namedBuffers().values()];
  }

  /** The module of this name ('layers.0.mlp'). */
  getSubmodule(name: string): Module {
    for (const [known, m] of this.namedModules()) if (known === name) return m;
    const names = [...this.namedModules()].map(([known]) => known).filter(Boolean);
    throw new ArgumentError(
      `${this.constructor.name} has no module ${name}: it has ${names.slice(0, 12).join(', ')}${names.length > 12 ? ', ...' : ''}`,
    );
  }
  /** Replaces the module of this name, everywhere it is used. */
  setSubmodule(name: string, module: Module): void {
    const was = this.getSubmodule(name);
    for (const m of this.modules()) m.replaceMember(was, module);
  }
  /** Puts another module into every field and list that has this one. Containers override it. */
  protected replaceMember(was: Module, now: Module): void {
    const put = (holder: object): void => {
      for (const [key, x] of Object.entries(holder)) {
        if (x === was) Object.assign(holder, { [key]: now });
        else if (Array.isArray(x)) put(x);
      }
    };
    put(this);
  }

  // ---- changes

  /** Calls fn with this module and every module inside, innermost first. */
  apply(fn: (module: Module) => void): this {
    for (const child of new Set(this.children())) child.apply(fn);
    fn(this);
    return this;
  }

  /**
   * A deep copy: parameters, buffers and all modules inside, with their modes and hooks. Shared members (tied weights) are
   * shared in the copy. Gradients are not copied, as in torch.
   */
  clone(): this {
    return copyOf(this, {
      module: (x) => {
        if (!(x instanceof Module)) return undefined;
        const type = Object.getPrototypeOf(x).constructor as typeof Module;
        refusePrivate(type, Module);
        const copy = Reflect.construct(Module, [], type) as Module;
        copy.#training = x.#training;
        copyModuleHooks(x, copy);
        return copy;
      },
      forward: (from, to) => {
        const own = from instanceof Module ? ownForward(from) : (from as Module).forward;
        if (!own) return; // that of hooks alone, which the copy has
        if (to instanceof Module) {
          refuseBound(own, from.constructor.name);
          putForward(to, own);
        } else Object.assign(to, { forward: own });
      },
      member: (x, value) => {
        if (x instanceof Parameter) return new Parameter(value, { requiresGrad: x.requiresGrad });
        return x instanceof Buffer ? new Buffer(value, { persistent: x.persistent }) : undefined;
      },
    });
  }

  requiresGrad_(on = true): this {
    for (const p of this.parameters()) p.requiresGrad_(on);
    return this;
  }
  /** Freezes these parameters: sets requiresGrad to false. Default: all. */
  freeze(pattern: Pattern = /(?:)/): this {
    return this.#learn('freeze', pattern, false);
  }
  /** Unfreezes these parameters: sets requiresGrad to true. Default: all. */
  unfreeze(pattern: Pattern = /(?:)/): this {
    return this.#learn('unfreeze', pattern, true);
  }
  #learn(op: string, pattern: Pattern, on: boolean): this {
    const all = [...this.namedParameters()];
    const found = all.filter(([name, p]) => fits(pattern, name, p));
    if (!found.length) {
      const some = all.slice(0, 6).map(([name]) => name);
      throw new ArgumentError(
        `${op}: no parameter of ${this.constructor.name} matches ${String(pattern)}: its parameters include ${some.join(', ')}`,
      );
    }
    for (const [, p] of found) p.requiresGrad_(on);
    return this;
  }
  zeroGrad(): void {
    for (const p of this.parameters()) p.grad = null;
  }

  /** Converts floating point parameters and buffers to a dtype, or checks the device: a process computes on one (tx.device). */
  to(target: DType | 'cpu' | 'cuda' | 'tpu' | 'mps' | { toString(): string }): this {
    const name = String(target);
    if (!(name in DTYPES)) {
      if (/^xla(:0)?$/.test(name)) return this;
      const wanted = deviceNamed(name);
      if (!wanted) {
        const isTorch = name.replace(/^torch\./, '') in TORCH;
        throw new ArgumentError(
          `${this.constructor.name}.to: ${isTorch ? dtypeMistake(name) : `${name} is neither a dtype nor a device`}`,
        );
      }
      device(wanted);
      return this;
    }
    const dtype = name as DType;
    if (!isFloat(dtype))
      throw new ArgumentError(
        `${this.constructor.name}.to: parameters cannot be converted to ${name}: it must be a float dtype`,
      );
    for (const t of new Set([...this.#tensors()].map(([, t]) => t))) {
      if (!isFloat(t.dtype) || t.dtype === dtype) continue;
      t.become(t.detach().to(dtype).expr);
      if (t.grad) t.grad = t.grad.detach().to(dtype);
    }
    return this;
  }
  float(): this {
    return this.to('f32');
  }
  double(): this {
    return this.to('f64');
  }
  half(): this {
    return this.to('f16');
  }
  bfloat16(): this {
    return this.to('bf16');
  }

  // ---- hooks: called in the order in which they were added; a change traces a compiled function again

  /** Calls `hook` with the arguments before each forward; a returned value replaces them. */
  registerForwardPreHook<M extends Module>(this: M, hook: ForwardPreHook<M>, options: HookOptions = {}): Handle {
    checkOptions('registerForwardPreHook', ['prepend'], options);
    return addHook('registerForwardPreHook', this, 'forwardPre', hook, options.prepend);
  }
  /** Calls `hook` with the arguments and the result of each forward; a returned value replaces the result. */
  registerForwardHook<M extends Module>(this: M, hook: ForwardHook<M>, options: HookOptions = {}): Handle {
    checkOptions('registerForwardHook', ['prepend'], options);
    return addHook('registerForwardHook', this, 'forward', hook, options.prepend);
  }
  /** Calls `hook` with the gradients of the results; a returned value replaces them. */
  registerFullBackwardPreHook<M extends Module>(this: M, hook: BackwardPreHook<M>, options: HookOptions = {}): Handle {
    checkOptions('registerFullBackwardPreHook', ['prepend'], options);
    return addHook('registerFullBackwardPreHook', this, 'backwardPre', hook, options.prepend);
  }
  /** Calls `hook` with the gradients of the arguments and of the results; a returned value replaces the former. */
  registerFullBackwardHook<M extends Module>(this: M, hook: BackwardHook<M>, options: HookOptions = {}): Handle {
    checkOptions('registerFullBackwardHook', ['prepend'], options);
    return addHook('registerFullBackwardHook', this, 'backward', hook, options.prepend);
  }

  // ---- state dicts

  /** The tensors of the state dict: a module's own before those of modules inside, as in torch. */
  *stateEntries(prefix = ''): Generator<StateEntry> {
    const members = [...this.members()];
    for (const [name, m] of members) {
      if (m instanceof Module || (m instanceof Buffer && !m.persistent)) continue;
      yield { tensor: m, names: [prefix + name], stacked: 0 };
    }
    for (const [name, m] of members) if (m instanceof Module) yield* m.stateEntries(`${prefix}${name}.`);
  }

  /** Parameters and persistent buffers by name: the tensors themselves, not copies. */
  stateDict(): Map<string, Tensor> {
    const state = new Map<string, Tensor>();
    for (const { tensor, names, stacked } of this.stateEntries())
      names.forEach((name, i) => void state.set(name, stacked ? partOf(tensor.detach(), stacked, i) : tensor));
    return state;
  }

  /**
   * Copies the values of a state dict, converted to the module's dtypes. All mismatches are listed in one error, before any
   * change; with `strict: false` names may be missing or unused. A tensor with two names (tied weights) needs one of them.
   */
  loadStateDict(state: StateDict, options: { readonly strict?: boolean } = {}): LoadedKeys {
    checkOptions('loadStateDict', ['strict'], options);
    const { strict = true } = options;
    return loadTensors(this.constructor.name, [...this.stateEntries()], state, strict);
  }

  // ---- printing

  /** The text between the brackets when the module is printed: sizes and options. */
  extraRepr(): string {
    return '';
  }
  override toString(): string {
    const parameters = this.parameters();
    const count = (list: readonly Parameter[]) => list.reduce((n, p) => n + p.numel(), 0);
    const size = parameters.reduce((n, p) => n + p.numel() * DTYPES[p.dtype].bytes, 0);
    const learned = count(parameters.filter((p) => p.requiresGrad));
    return `${this.#tree()}\n${number(count(parameters))} parameters (${bytes(size)}), ${number(learned)} of them trained`;
  }
  #tree(): string {
    const children = [...this.namedChildren()];
    const head = `${this.constructor.name}(${this.extraRepr()}`;
    if (!children.length) return `${head})`;
    const own = this.parameters().reduce((n, p) => n + p.numel(), 0);
    // Equal neighbours, as the layers of a transformer, are shown once.
    const lines: { first: string; last: string; text: string; times: number }[] = [];
    for (const [name, m] of children) {
      const text = m.#tree();
      const before = lines.at(-1);
      if (before?.text === text && /\d$/.test(name)) Object.assign(before, { last: name, times: before.times + 1 });
      else lines.push({ first: name, last: name, text, times: 1 });
    }
    const shown = lines.map(({ first, last, text, times }) => {
      const name = times > 1 ? `(${first}-${last}): ${times} x ` : `(${first}): `;
      return `  ${name}${text.replaceAll('\n', '\n  ')}`;
    });
    return `${head}\n${shown.join('\n')}\n)${own ? ` # ${number(own)}` : ''}`;
  }
  [inspect.custom](): string {
    return this.toString();
  }
}

const number = (n: number): string => n.toLocaleString('en-US');

export function fits(pattern: Pattern, name: string, parameter: Parameter): boolean {
  return typeof pattern === 'function' ? pattern(name, parameter) : fitsName(pattern, name);
}
export function fitsName(pattern: string | RegExp, name: string): boolean {
  if (pattern instanceof RegExp) return new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, '')).test(name);
  const parts = pattern.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`).test(name);
}

/** Rejects members in fields that are not searched: they would silently not be trained. */
function checkField(module: Module, field: string, x: unknown): void {
  if (x === null || typeof x !== 'object' || isMember(x)) return;
  const tensors = (Array.isArray(x) ? x : [x]).filter(
    (t) => t instanceof Tensor && t.requiresGrad && t.isLeaf && !isMember(t),
  );
  if (tensors.length)
    throw new ArgumentError(
      `${module.constructor.name}.${field} is a tensor that requires a gradient but is not a parameter: wrap it in nn.Parameter, or detach() it`,
    );
  if (Array.isArray(x) || x instanceof Tensor) return;
  const inside = x instanceof Map || x instanceof Set ? [...x.values()] : isPlain(x) ? Object.values(x) : [];
  if (inside.some(isMember))
    throw new ArgumentError(
      `${module.constructor.name}.${field} holds modules or parameters in ${describe(x)}, which is not searched: use an array, nn.ModuleList or nn.ModuleDict`,
    );
}

registerModules(Module, Parameter);
