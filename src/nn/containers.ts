// Containers: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict.
import { refuseBrackets } from '../base/brackets.js';
import { ArgumentError } from '../base/errors.js';
import { describe } from '../base/tree.js';
import { Tensor } from '../tensor/tensor.js';
import { Module, memberPut, Parameter } from './module.js';

// Symbols, and no private names: a copy of a module (clone) has them, too.
const LIST = Symbol('list');
const MODULES = Symbol('modules');
const PARAMETERS = Symbol('parameters');

/** A module from one tensor to one tensor: the type of parameters that take a layer. */
export interface Layer extends Module {
  forward(x: Tensor): Tensor;
}

/** A list of modules, named 0, 1, 2 and so on. */
export class ModuleList<M extends Module = Module> extends Module implements Iterable<M> {
  readonly [LIST]: M[] = [];
  constructor(modules: Iterable<M> = []) {
    super();
    for (const m of modules) this.append(m);
  }
  append(module: M): this {
    if (!(module instanceof Module))
      throw new ArgumentError(`${this.constructor.name}: element ${this.length} is ${describe(module)}, not a module`);
    this[LIST].push(module);
    memberPut();
    return this;
  }
  get length(): number {
    return this[LIST].length;
  }
  /** The module at an index, which may be negative. */
  at(i: number): M {
    const found = this[LIST].at(i);
    if (!found) throw new ArgumentError(`${this.constructor.name}: no module ${i}: it has ${this.length} modules`);
    return found;
  }
  [Symbol.iterator](): Iterator<M> {
    return this[LIST][Symbol.iterator]();
  }
  /** Throws: the owner of the list calls its modules. */
  override forward(..._args: never[]): unknown {
    throw new ArgumentError(
      `${this.constructor.name} has no forward: call its modules, for (const m of list) x = m.forward(x), or use nn.Sequential`,
    );
  }
  override *members(): ReturnType<Module['members']> {
    for (const [i, m] of this[LIST].entries()) yield [String(i), m];
    yield* super.members();
  }
  protected override replaceMember(was: Module, now: Module): void {
    this[LIST].forEach((m, i) => {
      if (m === (was as unknown)) this[LIST][i] = now as M;
    });
    memberPut();
    super.replaceMember(was, now);
  }
}

/** The type of an element: places from the end are not told apart. */
type At<L extends readonly Layer[], I extends number> = `${I}` extends `-${string}` ? L[number] : L[I];
/** Calls layers one after the other. */
export class Sequential<L extends readonly Layer[] = readonly Layer[]> extends ModuleList<Layer> {
  constructor(...layers: L) {
    super(layers);
  }
  override at<I extends number>(i: I): At<L, I> {
    return super.at(i) as At<L, I>;
  }
  override forward(x: Tensor): Tensor {
    for (const layer of this) x = layer.forward(x);
    return x;
  }
}

/** Modules by name. */
export class ModuleDict<M extends Module = Module> extends Module implements Iterable<[string, M]> {
  readonly [MODULES]: Map<string, M>;
  constructor(modules: Readonly<Record<string, M>> | Iterable<readonly [string, M]> = {}) {
    super();
    const entries = Symbol.iterator in modules ? modules : Object.entries(modules);
    this[MODULES] = new Map();
    for (const [name, module] of entries) this.set(name, module);
  }
  set(name: string, module: M): this {
    if (!(module instanceof Module))
      throw new ArgumentError(`ModuleDict: ${name} is ${describe(module)}, not a module`);
    checkName('ModuleDict: a module', name);
    this[MODULES].set(name, module);
    memberPut();
    return this;
  }
  get(name: string): M {
    const found = this[MODULES].get(name);
    if (!found)
      throw new ArgumentError(`ModuleDict: no module ${name}: it has ${[...this[MODULES].keys()].join(', ')}`);
    return found;
  }
  keys(): string[] {
    return [...this[MODULES].keys()];
  }
  [Symbol.iterator](): Iterator<[string, M]> {
    return this[MODULES][Symbol.iterator]();
  }
  override *members(): ReturnType<Module['members']> {
    yield* this[MODULES];
    yield* super.members();
  }
  protected override replaceMember(was: Module, now: Module): void {
    for (const [name, m] of this[MODULES]) if (m === (was as unknown)) this[MODULES].set(name, now as M);
    memberPut();
    super.replaceMember(was, now);
  }
}

// ---- parameters

const asParameter = (what: string, x: unknown): Parameter => {
  if (!(x instanceof Tensor)) throw new ArgumentError(`${what} is ${describe(x)}, not a tensor`);
  return x instanceof Parameter ? x : new Parameter(x);
};
const checkName = (what: string, name: string): void => {
  if (!name || name.includes('.'))
    throw new ArgumentError(`${what} cannot be named ${JSON.stringify(name)}: dots separate names`);
};

/** A list of parameters, named 0, 1, 2 and so on. Other tensors become parameters. */
export class ParameterList extends Module implements Iterable<Parameter> {
  readonly [PARAMETERS]: Parameter[] = [];
  constructor(parameters: Iterable<Tensor> = []) {
    super();
    this.extend(parameters);
  }
  append(parameter: Tensor): this {
    this[PARAMETERS].push(asParameter(`ParameterList: element ${this.length}`, parameter));
    memberPut();
    return this;
  }
  extend(parameters: Iterable<Tensor>): this {
    for (const p of parameters) this.append(p);
    return this;
  }
  get length(): number {
    return this[PARAMETERS].length;
  }
  /** The parameter at an index, which may be negative. */
  at(i: number): Parameter {
    const found = this[PARAMETERS].at(i);
    if (!found) throw new ArgumentError(`ParameterList: no parameter ${i}: it has ${this.length} parameters`);
    return found;
  }
  /** Replaces a parameter. */
  set(i: number, parameter: Tensor): this {
    this.at(i);
    this[PARAMETERS][i < 0 ? i + this.length : i] = asParameter(`ParameterList: element ${i}`, parameter);
    memberPut();
    return this;
  }
  [Symbol.iterator](): Iterator<Parameter> {
    return this[PARAMETERS][Symbol.iterator]();
  }
  override *members(): ReturnType<Module['members']> {
    for (const [i, p] of this[PARAMETERS].entries()) yield [String(i), p];
    yield* super.members();
  }
}

/** Parameters by name. Other tensors become parameters. */
export class ParameterDict extends Module implements Iterable<[string, Parameter]> {
  readonly [PARAMETERS]: Map<string, Parameter> = new Map();
  constructor(parameters: Readonly<Record<string, Tensor>> | Iterable<readonly [string, Tensor]> = {}) {
    super();
    this.update(parameters);
  }
  update(parameters: Readonly<Record<string, Tensor>> | Iterable<readonly [string, Tensor]>): this {
    const entries = Symbol.iterator in parameters ? parameters : Object.entries(parameters);
    for (const [name, p] of entries) this.set(name, p);
    return this;
  }
  set(name: string, parameter: Tensor): this {
    checkName('ParameterDict: a parameter', name);
    this[PARAMETERS].set(name, asParameter(`ParameterDict: ${name}`, parameter));
    memberPut();
    return this;
  }
  get(name: string): Parameter {
    const found = this[PARAMETERS].get(name);
    if (!found) throw new ArgumentError(`ParameterDict: no parameter ${name}: it has ${this.keys().join(', ')}`);
    return found;
  }
  has(name: string): boolean {
    return this[PARAMETERS].has(name);
  }
  delete(name: string): boolean {
    memberPut();
    return this[PARAMETERS].delete(name);
  }
  get length(): number {
    return this[PARAMETERS].size;
  }
  keys(): string[] {
    return [...this[PARAMETERS].keys()];
  }
  values(): Parameter[] {
    return [...this[PARAMETERS].values()];
  }
  [Symbol.iterator](): Iterator<[string, Parameter]> {
    return this[PARAMETERS][Symbol.iterator]();
  }
  override *members(): ReturnType<Module['members']> {
    yield* this[PARAMETERS];
    yield* super.members();
  }
}

for (const List of [ModuleList, ParameterList])
  refuseBrackets(List, (list, i) => `${list.constructor.name}[${i}]: write list.at(${i})`);
