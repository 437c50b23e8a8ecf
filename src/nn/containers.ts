// Modules made of modules.
import { ArgumentError } from '../base/errors.js';
import { describe } from '../base/tree.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module, memberPut } from './module.js';

/** A module from one tensor to one tensor: the type of what takes "a layer". */
export interface Layer extends Module {
  forward(x: Tensor): Tensor;
}

/** Modules in a list, called 0, 1, 2 and so on. */
export class ModuleList<M extends Module = Module> extends Module implements Iterable<M> {
  readonly #list: M[] = [];
  constructor(modules: Iterable<M> = []) {
    super();
    for (const m of modules) this.append(m);
  }
  append(module: M): this {
    if (!(module instanceof Module))
      throw new ArgumentError(`${this.constructor.name}: element ${this.length} is ${describe(module)}, not a module`);
    this.#list.push(module);
    memberPut();
    return this;
  }
  get length(): number {
    return this.#list.length;
  }
  /** The module at a place, which may be counted from the end. */
  at(i: number): M {
    const found = this.#list.at(i);
    if (!found) throw new ArgumentError(`${this.constructor.name}: there is no module ${i}: it has ${this.length}`);
    return found;
  }
  [Symbol.iterator](): Iterator<M> {
    return this.#list[Symbol.iterator]();
  }
  /** None: which module is called, and with what, is for whoever has the list. */
  override forward(..._args: never[]): unknown {
    throw new ArgumentError(
      `${this.constructor.name} has no forward: call its modules, for (const m of list) x = m.forward(x), or use nn.Sequential`,
    );
  }
  override *members(): ReturnType<Module['members']> {
    for (const [i, m] of this.#list.entries()) yield [String(i), m];
    yield* super.members();
  }
  protected override replaceMember(was: Module, now: Module): void {
    this.#list.forEach((m, i) => {
      if (m === (was as unknown)) this.#list[i] = now as M;
    });
    memberPut();
    super.replaceMember(was, now);
  }
}

/** Layers, one after the other. */
export class Sequential extends ModuleList<Layer> {
  constructor(...layers: Layer[]) {
    super(layers);
  }
  override forward(x: Tensor): Tensor {
    for (const layer of this) x = layer.forward(x);
    return x;
  }
}

/** Modules by name. */
export class ModuleDict<M extends Module = Module> extends Module implements Iterable<[string, M]> {
  readonly #modules: Map<string, M>;
  constructor(modules: Readonly<Record<string, M>> | Iterable<readonly [string, M]> = {}) {
    super();
    const entries = Symbol.iterator in modules ? modules : Object.entries(modules);
    this.#modules = new Map();
    for (const [name, module] of entries) this.set(name, module);
  }
  set(name: string, module: M): this {
    if (!(module instanceof Module))
      throw new ArgumentError(`ModuleDict: ${name} is ${describe(module)}, not a module`);
    if (!name || name.includes('.'))
      throw new ArgumentError(`ModuleDict: a module cannot be called ${JSON.stringify(name)}: dots separate names`);
    this.#modules.set(name, module);
    memberPut();
    return this;
  }
  get(name: string): M {
    const found = this.#modules.get(name);
    if (!found)
      throw new ArgumentError(`ModuleDict: there is no module ${name}: it has ${[...this.#modules.keys()].join(', ')}`);
    return found;
  }
  keys(): string[] {
    return [...this.#modules.keys()];
  }
  [Symbol.iterator](): Iterator<[string, M]> {
    return this.#modules[Symbol.iterator]();
  }
  override *members(): ReturnType<Module['members']> {
    yield* this.#modules;
    yield* super.members();
  }
  protected override replaceMember(was: Module, now: Module): void {
    for (const [name, m] of this.#modules) if (m === (was as unknown)) this.#modules.set(name, now as M);
    memberPut();
    super.replaceMember(was, now);
  }
}
