// An optimizer: groups of parameters, each with its options, and a state for every parameter that is there from the start. Its
// step describes the update, in a plain loop or inside a step; all numbers that may change are scalars on the device.
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { checkOptions, unknownOption } from '../base/options.js';
import { isFloat, wideType } from '../base/promote.js';
import { describe, isPlain } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { insideBody } from '../ir/scope.js';
import { entry } from '../ir/source.js';
import { convert } from '../ops/prim/move.js';
import { add, eq, neg, where } from '../ops/prim/pointwise.js';
import { detach } from '../ops/prim/variable.js';
import { tensor, zeros } from '../tensor/create.js';
import { currentStep } from '../tensor/scope.js';
import { beside, Tensor } from '../tensor/tensor.js';
import { checkOption, type Option, optionsOf, type Rule } from './rule.js';
import { type GivenState, loadState, type OptimizerState, saveState } from './state-dict.js';

/** Tensors, or tensors with their names (what `namedParameters()` gives), or groups of them with options of their own. */
export type Params<O> = Named | Iterable<GroupOptions<O>>;
type Named = Iterable<Tensor | readonly [name: string, parameter: Tensor]>;
export type GroupOptions<O> = O & { readonly params: Named | Tensor };
/** A group's options, to be read and, where they are numbers, set: `group.lr = 1e-4`. */
export type Group<O> = { -readonly [K in keyof O]-?: O[K] } & { readonly params: readonly Tensor[] };

export interface StepOptions {
  /** One boolean: where it is true, nothing changes. */
  readonly skipIf?: Tensor;
}

/** Changes parameters by their gradients: zeroGrad(), step(), and a state dict in torch's layout. */
export class Optimizer<O extends object = object> {
  readonly #rule: Rule<O>;
  readonly #defaults: Required<O>;
  readonly #groups: ParameterGroup<O>[] = [];

  constructor(rule: Rule<O>, params: Params<O>, options: O) {
    if (currentStep() || insideBody())
      throw new ArgumentError(`${rule.name} is made inside a step: its state must outlive it: make it outside, before`);
    this.#rule = rule;
    this.#defaults = optionsOf(rule, options);
    if (params instanceof Tensor)
      throw new ArgumentError(`${rule.name}: the parameters are one tensor, ${params.aval}: pass a list, [it]`);
    const list = [...checkList(rule.name, params)];
    if (!list.length)
      throw new ArgumentError(`${rule.name}: there are no parameters: pass model.parameters(), or a list of tensors`);
    const isGroups = list.every((x) => isPlain(x) && 'params' in x);
    for (const group of isGroups ? list : [{ params: list }]) this.addParamGroup(group as GroupOptions<O>);
  }

  /** The groups, whose numbers may be set at any time, outside of steps. */
  get paramGroups(): readonly Group<O>[] {
    return this.#groups.map((g) => g.face);
  }

  /** The state of each parameter, by name. */
  get state(): ReadonlyMap<Tensor, Readonly<Record<string, Tensor>>> {
    return new Map(this.#groups.flatMap((g) => g.params.map((p, i) => [p, g.state[i]!] as const)));
  }

  /** More parameters, with options of their own. */
  addParamGroup({ params, ...options }: GroupOptions<O>): void {
    const taken = new Map(this.#groups.flatMap((g, n) => g.params.map((p) => [p, n] as const)));
    const group = new ParameterGroup(this.#rule, params, optionsOf(this.#rule, options, this.#defaults));
    const double = group.params.find((p) => taken.has(p));
    if (double)
      throw new ArgumentError(
        `${this.#rule.name}: ${group.nameOf(double)} is in group ${taken.get(double)} and in group ${this.#groups.length}: a parameter has one group`,
      );
    this.#groups.push(group);
  }

  /** Forgets all gradients; with `setToNone: false` they become zeros instead. */
  zeroGrad(options: { readonly setToNone?: boolean } = {}): void {
    checkOptions(`${this.#rule.name}.zeroGrad`, ['setToNone'], options);
    const { setToNone = true } = options;
    for (const p of this.#groups.flatMap((g) => g.params)) {
      if (setToNone) p.grad = null;
      else p.grad?.zero_();
    }
  }

  /** Changes every parameter that has a gradient. */
  step(options: StepOptions = {}): void {
    checkOptions(`${this.#rule.name}.step`, ['skipIf'], options);
    const { skipIf } = options;
    for (const group of this.#groups) group.update(skipIf && detach(skipIf.expr));
  }

  /** torch's layout: state by the parameters' numbers, param_groups with options. Its tensors are the optimizer's own. */
  stateDict(): OptimizerState {
    return saveState(this.#groups);
  }
  /** Takes a state dict of its own or of torch's; all that does not fit is told at once, and nothing is changed then. */
  loadStateDict(state: GivenState): void {
    loadState(this.#rule, this.#groups, state);
  }

  toString(): string {
    const groups = this.#groups.map(({ params, options }, i) => {
      const lines = Object.entries(options).map(([name, value]) => `    ${name}: ${JSON.stringify(value)}`);
      return `  group ${i}: ${params.length} parameters\n${lines.join('\n')}`;
    });
    return `${this.#rule.name} (\n${groups.join('\n')}\n)`;
  }
}
for (const name of ['step', 'zeroGrad', 'addParamGroup'] as const) {
  Object.defineProperty(Optimizer.prototype, name, { value: entry(Optimizer.prototype[name] as () => unknown) });
}

/** Parameters, in a list: a model itself, or nothing, is an error. */
export function checkList<P extends Iterable<unknown>>(what: string, params: P): P {
  const isModel = typeof (params as { parameters?: unknown } | null)?.parameters === 'function';
  if (!isModel && Symbol.iterator in Object(params)) return params;
  throw new ArgumentError(
    `${what}: the parameters are ${describe(params)}: pass model.parameters(), or a list of tensors`,
  );
}

/** The machine's epsilon: the gap between 1 and the next number. */
const EPSILON: Partial<Record<DType, number>> = { bf16: 2 ** -7, f16: 2 ** -10, f32: 2 ** -23, f64: 2 ** -52 };
const exprsOf = (tensors: Readonly<Record<string, Tensor>>): Record<string, Expr> =>
  Object.fromEntries(Object.entries(tensors).map(([name, t]) => [name, t.expr]));

/** Parameters with the same options, and all that belongs to them. */
export class ParameterGroup<O extends object> {
  readonly params: readonly Tensor[];
  readonly names: readonly string[] | undefined;
  /** Of each parameter; low precision has a state in f32, and with masterWeights a copy of itself. */
  readonly state: readonly Readonly<Record<string, Tensor>>[];
  /** How many steps were done: one for all, or the program would have one for each parameter. */
  readonly step: Tensor;
  readonly face: Group<O>;
  readonly #scalars: Readonly<Record<string, Tensor>>;

  constructor(
    readonly rule: Rule<O>,
    params: Named | Tensor,
    readonly options: Required<O>,
  ) {
    const entries = [...(params instanceof Tensor ? [params] : params)].map((x, i) => checkParameter(rule.name, x, i));
    if (!entries.length) throw new ArgumentError(`${rule.name}: a group has no parameters: leave it out`);
    this.params = entries.map(([, p]) => p);
    this.names = entries.every(([name]) => name !== undefined) ? entries.map(([name]) => name!) : undefined;
    const double = this.params.find((p, i) => this.params.indexOf(p) !== i);
    if (double)
      throw new ArgumentError(`${rule.name}: ${this.nameOf(double)} is given twice: pass each parameter once`);
    const masters = (options as { masterWeights?: boolean }).masterWeights;
    this.state = this.params.map((p) => {
      const dtype = wideType(p.dtype);
      const shapes = Object.entries(rule.state(p.shape, options));
      if (masters && dtype !== p.dtype) shapes.push(['master', p.shape]);
      return Object.fromEntries(shapes.map(([name, shape]) => [name, beside(p, zeros(shape, { dtype }))]));
    });
    const dtype = this.params.some((p) => p.dtype === 'f64') ? 'f64' : 'f32';
    this.step = zeros([], { dtype: 'f32' });
    this.#scalars = Object.fromEntries(
      Object.entries(rule.numbers(options)).map(([name, value]) => [name, tensor(value, { dtype })]),
    );
    this.face = this.#makeFace();
  }

  /** A parameter, for errors. */
  nameOf(p: Tensor): string {
    const i = this.params.indexOf(p);
    return `parameter ${this.names ? `'${this.names[i]}'` : i}, ${p.aval},`;
  }

  #makeFace(): Group<O> {
    const face = Object.create(null, { params: { value: this.params, enumerable: true } });
    for (const name of Object.keys(this.options) as (keyof O & string)[]) {
      const get = () => this.options[name];
      const set = (value: unknown) => this.set({ [name]: value });
      Object.defineProperty(face, name, { get, set, enumerable: true });
    }
    const name = this.rule.name;
    return new Proxy(Object.seal(face), {
      set(to, key, value) {
        if (typeof key === 'string' && !(key in to))
          throw new ArgumentError(`${name}: ${unknownOption(Object.keys(to), { [key]: value })}`);
        return Reflect.set(to, key, value);
      },
    });
  }

  /** Other options, from the host: the program stays the same. */
  set(given: Readonly<Record<string, unknown>>): void {
    const { name: rule, options } = this.rule;
    const [first] = Object.keys(given);
    const where = currentStep()?.name ?? (insideBody() ? 'the body of a loop' : undefined);
    if (where)
      throw new ArgumentError(
        `${rule}: ${first} is set inside ${where}, which is only described: set it outside, before the call`,
      );
    for (const [name, value] of Object.entries(given)) {
      const option = (options as Record<string, Option<unknown>>)[name]!;
      checkOption(rule, name, option, value);
      if (typeof value === 'boolean' && value !== (this.options as Record<string, unknown>)[name])
        throw new ArgumentError(`${rule}: ${name} is part of the program and cannot change: make another optimizer`);
    }
    const next = { ...this.options, ...given };
    this.rule.check?.(next);
    const needed = Object.keys(this.rule.state(this.params[0]!.shape, next));
    const lacking = needed.find((name) => !(name in this.state[0]!));
    if (lacking)
      throw new ArgumentError(
        `${rule}: ${first} was 0 when the optimizer was made, which has no ${lacking}: make another one`,
      );
    const [was, now] = [this.rule.numbers(this.options), this.rule.numbers(next)];
    Object.assign(this.options, given);
    for (const [name, scalar] of Object.entries(this.#scalars)) {
      if (!Object.is(was[name], now[name])) scalar.copy_(now[name]!);
    }
  }

  update(skip: Expr | undefined): void {
    const live = this.params.flatMap((p, i) => (p.grad ? [{ p, grad: p.grad, state: this.state[i]! }] : []));
    if (!live.length) return;
    const put = (t: Tensor, next: Expr) => t.rebind(skip ? where(skip, detach(t.expr), next) : next);
    const { maximize } = this.options as { maximize?: boolean };
    const t = add(this.step.expr, 1);
    const rule = this.rule.begin({ ...exprsOf(this.#scalars), t }, this.options);
    for (const { p, grad, state } of live) {
      const { dtype } = p;
      const { master, ...own } = exprsOf(state);
      const value = detach(p.expr);
      const wide = convert(value, wideType(dtype));
      // Where a parameter is no longer its copy, rounded, somebody else has set it.
      const from = master ? where(eq(convert(master, dtype), value), master, wide) : wide;
      const g = convert(detach(grad.expr), wide.dtype);
      const { p: next, ...changed } = rule(
        { p: from, g: maximize ? neg(g) : g, ...own },
        EPSILON[from === wide ? dtype : 'f32']!,
      );
      put(p, convert(next!, dtype));
      if (master) put(state.master!, next!);
      for (const [name, expr] of Object.entries(changed)) put(state[name]!, expr);
    }
    put(this.step, t);
  }
}

function checkParameter(rule: string, given: unknown, i: number): readonly [string | undefined, Tensor] {
  const [name, p] = Array.isArray(given) && given.length === 2 ? given : [undefined, given];
  const what = `${rule}: parameter ${name === undefined ? i : `'${name}'`}`;
  if (!(p instanceof Tensor)) throw new ArgumentError(`${what} is ${describe(p)}: it must be a tensor`);
  if (!isFloat(p.dtype)) throw new ArgumentError(`${what} is ${p.aval}: only floats can be learned`);
  if (!p.isLeaf)
    throw new ArgumentError(
      `${what}, ${p.aval}, was computed from others (it is no leaf): pass what it was computed from`,
    );
  return [name, p];
}
