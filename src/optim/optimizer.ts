// The base class of optimizers: groups of parameters with options, and a state for every parameter, created at the start.
// step() describes the update, in a plain loop or inside a step; all numbers that may change are scalars on the device.

import { gradEnabled } from '../autograd/mode.js';
import { checkList } from '../base/check.js';
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { checkOptions, unknownOption } from '../base/options.js';
import { isComplex, isFloat, partType, wideType } from '../base/promote.js';
import { type Shape, sameShape } from '../base/shape.js';
import { describe, isPlain } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { insideBody } from '../ir/scope.js';
import { currentSource, entry } from '../ir/source.js';
import { viewAsComplex, viewAsReal } from '../ops/complex.js';
import { convert, reshape } from '../ops/prim/move.js';
import { add, eq, mul, neg, sub, where } from '../ops/prim/pointwise.js';
import { detach } from '../ops/prim/variable.js';
import { beginStep, endStep } from '../step/plain.js';
import { enableGrad, noGrad } from '../tensor/autograd.js';
import { full as fillWith, tensor, zeros } from '../tensor/create.js';
import { currentStep, dependOn } from '../tensor/scope.js';
import { beside, Tensor } from '../tensor/tensor.js';
import { checkOption, type Option, optionsOf, type Rule } from './rule.js';
import { type GivenState, loadState, type OptimizerState, saveState } from './state-dict.js';

/** Tensors, named tensors (the result of `namedParameters()`), or groups of them with options. */
export type Params<O> = Named | Iterable<GroupOptions<O>>;
type Named = Iterable<Tensor | readonly [name: string, parameter: Tensor]>;
export type GroupOptions<O> = Given<O> & { readonly params: Named | Tensor };
/** Options for the constructor: the learning rate may be a tensor with one element. */
export type Given<O> = O extends { lr?: number } ? Omit<O, 'lr'> & { readonly lr?: number | Tensor } : O;
/** A group's options. Numbers can be set: `group.lr = 1e-4`. */
export type Group<O> = { -readonly [K in keyof O]-?: O[K] } & { readonly params: readonly Tensor[] };

export interface StepOptions {
  /** A boolean scalar: if true, the step changes nothing. */
  readonly skipIf?: Tensor;
}

/**
 * Updates parameters by their gradients: zeroGrad(), step(), and a state dict in torch's layout. The update itself is a `Rule`
 * (rules.ts), which describes it for one parameter.
 */
export class Optimizer<O extends object = object> {
  readonly #rule: Rule<O>;
  readonly #defaults: Required<O>;
  readonly #groups: ParameterGroup<O>[] = [];

  constructor(rule: Rule<O>, params: Params<O>, options: Given<O>) {
    if (currentStep() || insideBody())
      throw new ArgumentError(
        `${rule.name}: created inside a step, but its state must outlive the step: create it outside`,
      );
    this.#rule = rule;
    this.#defaults = optionsOf(rule, options as object);
    if (params instanceof Tensor)
      throw new ArgumentError(
        `${rule.name}: the parameters are a single tensor, ${params.aval}: pass a list of tensors`,
      );
    const list = [...checkList(rule.name, params)];
    if (!list.length)
      throw new ArgumentError(
        `${rule.name}: the list of parameters is empty: pass model.parameters(), or a list of tensors`,
      );
    const isGroups = list.every((x) => isPlain(x) && 'params' in x);
    for (const group of isGroups ? list : [{ params: list }]) this.addParamGroup(group as GroupOptions<O>);
  }

  /** The groups. Their numbers may be set at any time outside of steps. */
  get paramGroups(): readonly Group<O>[] {
    return this.#groups.map((g) => g.face);
  }

  /** The state of each parameter, by name. */
  get state(): ReadonlyMap<Tensor, Readonly<Record<string, Tensor>>> {
    return new Map(this.#groups.flatMap((g) => g.params.map((p, i) => [p, { ...g.state[i]!, ...g.shared }] as const)));
  }

  /** Adds parameters with their own options. */
  addParamGroup(given: GroupOptions<O>): void {
    const { params, ...options } = given as GroupOptions<object>;
    const taken = new Map(this.#groups.flatMap((g, n) => g.params.map((p) => [p, n] as const)));
    const group = new ParameterGroup(this.#rule, params, optionsOf(this.#rule, options, this.#defaults));
    const double = group.params.find((p) => taken.has(p));
    if (double)
      throw new ArgumentError(
        `${this.#rule.name}: ${group.nameOf(double)} is in group ${taken.get(double)} and in group ${this.#groups.length}: a parameter can be in one group only`,
      );
    const [first] = this.#groups;
    if (first && Boolean(first.names) !== Boolean(group.names))
      throw new ArgumentError(
        `${this.#rule.name}: group ${this.#groups.length} has ${group.names ? '' : 'no '}names, group 0 ${first.names ? 'has' : 'has none'}: pass names (namedParameters()) for all groups, or for none`,
      );
    this.#groups.push(group);
  }

  /** Sets all gradients to null, or to zeros with `setToNone: false`. */
  zeroGrad(options: { readonly setToNone?: boolean } = {}): void {
    checkOptions(`${this.#rule.name}.zeroGrad`, ['setToNone'], options);
    const { setToNone = true } = options;
    for (const p of this.#groups.flatMap((g) => g.params)) {
      if (setToNone) p.grad = null;
      else p.grad?.zero_();
    }
  }

  /**
   * Updates every parameter that has a gradient. In a plain loop this ends a step: all changes are computed by one program, in
   * the background. Awaiting the result is optional, and waits until that program was started. Inside a compiled function there
   * is nothing to await.
   *
   * A closure, which computes the loss and its gradients, is called first, and its result is returned: the loss, or a promise
   * of it if the closure is async.
   */
  step<T>(closure: () => Promise<T>): Promise<T>;
  step<T>(closure: () => T): T;
  step(options?: StepOptions): PromiseLike<void>;
  step(given: StepOptions | (() => unknown) = {}): unknown {
    const name = `${this.#rule.name}.step`;
    if (typeof given !== 'function') return this.#update(name, given ?? {});
    const result = gradEnabled() ? given() : enableGrad(given); // an async closure only fits the first
    if (isThenable(result)) return result.then(async (value) => [await this.#update(name, {}), value][1]);
    this.#update(name, {});
    return result;
  }

  #update(name: string, options: StepOptions): PromiseLike<void> {
    checkOptions(name, ['skipIf'], options);
    const { skipIf } = options;
    beginStep(name);
    for (const group of this.#groups) group.update(skipIf && detach(skipIf.expr));
    const own = () =>
      this.#groups.flatMap((g) => [...g.params, ...[...g.state, g.shared].flatMap((s) => Object.values(s)), g.step]);
    return endStep(name, { source: currentSource(), group: this, own })!;
  }

  /** The state in torch's layout: state by the index of the parameter, param_groups with options. Tensors are not copied. */
  stateDict(): OptimizerState {
    return saveState(this.#groups);
  }
  /** Loads a state dict of tsxla or torch. All mismatches are listed in one error, before any change. */
  loadStateDict(state: GivenState): void {
    loadState(this.#rule, this.#groups, state);
  }

  toString(): string {
    const groups = this.#groups.map(({ params, options }, i) => {
      const lines = Object.entries(options).map(
        ([name, value]) => `    ${name}: ${value instanceof Tensor ? value.aval : JSON.stringify(value)}`,
      );
      return `  group ${i}: ${params.length} parameters\n${lines.join('\n')}`;
    });
    return `${this.#rule.name} (\n${groups.join('\n')}\n)`;
  }
}
for (const name of ['step', 'zeroGrad', 'addParamGroup'] as const) {
  Object.defineProperty(Optimizer.prototype, name, { value: entry(Optimizer.prototype[name] as () => unknown) });
}

const isThenable = (x: unknown): x is Promise<unknown> =>
  typeof (x as PromiseLike<unknown> | null)?.then === 'function';

/** The machine epsilon: the gap between 1 and the next number. */
const EPSILON: Partial<Record<DType, number>> = { bf16: 2 ** -7, f16: 2 ** -10, f32: 2 ** -23, f64: 2 ** -52 };
const exprsOf = (tensors: Readonly<Record<string, Tensor>>): Record<string, Expr> =>
  Object.fromEntries(Object.entries(tensors).map(([name, t]) => [name, t.expr]));

/** As in torch, real and imaginary parts of a complex parameter are updated as separate elements. */
const parts = (x: Expr): Expr => (isComplex(x.dtype) ? viewAsReal(x) : x);
const like = (dtype: DType, x: Expr): Expr => (isComplex(dtype) ? viewAsComplex(x) : x);
function stateOf(p: Tensor, shape: Shape, value: number, dtype: DType): Tensor {
  if (!isComplex(dtype)) return fillWith(shape, value, { dtype });
  if (!sameShape(shape, p.shape)) return fillWith(shape, value, { dtype: partType(dtype) });
  return value === 0
    ? zeros(shape, { dtype })
    : fillWith([...shape, 2], value, { dtype: partType(dtype) }).viewAsComplex();
}

/** Parameters with the same options, and their state. */
export class ParameterGroup<O extends object> {
  readonly params: readonly Tensor[];
  readonly names: readonly string[] | undefined;
  /** The state of each parameter; f32 for low precision, with a copy of the parameter if masterWeights is set. */
  readonly state: readonly Record<string, Tensor>[];
  /** The number of steps: one for all parameters, to keep the program small. */
  readonly step: Tensor;
  /** Other numbers that change with each step, shared by all parameters. */
  readonly shared: Readonly<Record<string, Tensor>>;
  /** What `paramGroups` shows of it: options that can be read and set. */
  readonly face: Group<O>;
  readonly #dtype: DType;
  /** Learning rate, betas and other numbers as tensors: they are inputs, so that a schedule does not compile new programs. */
  readonly #scalars: Readonly<Record<string, Tensor>>;
  /** Whether there was a step: a momentum buffer that is created later lacks the gradients of earlier steps. */
  #begun = false;

  constructor(
    readonly rule: Rule<O>,
    params: Named | Tensor,
    readonly options: Required<O>,
  ) {
    const entries = [...(params instanceof Tensor ? [params] : params)].map((x, i) => checkParameter(rule, x, i));
    if (!entries.length) throw new ArgumentError(`${rule.name}: a group has no parameters: remove it`);
    this.params = entries.map(([, p]) => p);
    const unnamed = entries.findIndex(([name]) => name === undefined);
    if (unnamed >= 0 && entries.some(([name]) => name !== undefined))
      throw new ArgumentError(
        `${rule.name}: parameter ${unnamed} has no name, but others have: pass names (namedParameters()) for all, or for none`,
      );
    this.names = unnamed < 0 ? entries.map(([name]) => name!) : undefined;
    const double = this.params.find((p, i) => this.params.indexOf(p) !== i);
    if (double)
      throw new ArgumentError(`${rule.name}: ${this.nameOf(double)} is given twice: pass each parameter once`);
    this.state = this.params.map(() => ({}));
    this.grow(options);
    this.#dtype = this.params.some((p) => partType(p.dtype) === 'f64') ? 'f64' : 'f32';
    this.step = zeros([], { dtype: 'f32' });
    this.shared = Object.fromEntries((rule.shared ?? []).map((name) => [name, zeros([], { dtype: 'f32' })]));
    this.#scalars = Object.fromEntries(
      Object.entries(this.#numbers(options)).map(([name, value]) => [name, tensor(value, { dtype: this.#dtype })]),
    );
    this.face = this.#makeFace();
  }

  /** The name of a parameter, for errors. */
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

  /** Creates missing state that the options need: all of it at first; later the buffers of a momentum that was 0. */
  grow(options: Required<O>): void {
    const masters = (options as { masterWeights?: boolean }).masterWeights;
    const initial = this.rule.initial?.(options) ?? {};
    this.params.forEach((p, i) => {
      const dtype = wideType(p.dtype);
      const shapes = Object.entries(this.rule.state(p.shape, options));
      if (masters && dtype !== p.dtype) shapes.push(['master', p.shape]);
      for (const [name, shape] of shapes)
        this.state[i]![name] ??= beside(p, stateOf(p, shape, initial[name] ?? 0, dtype));
    });
  }
  /** Whether these options need state that does not exist yet. */
  #lacks(options: Required<O>): boolean {
    return Object.keys(this.rule.state(this.params[0]!.shape, options)).some((name) => !(name in this.state[0]!));
  }

  /** The numbers that the program takes from the options. Those computed from tensor options are computed by the program. */
  #numbers(options: Required<O>): Readonly<Record<string, number>> {
    const { lr } = options as Rated;
    return this.rule.numbers(lr instanceof Tensor ? { ...options, lr: 0 } : options);
  }
  #exprs(): Record<string, Expr> {
    const scalars = exprsOf(this.#scalars);
    const { lr: given } = this.options as Rated;
    if (given instanceof Tensor) {
      // The factor of weight decay is computed in the tensor's dtype, as in torch.
      const lr = reshape(detach(given.expr), []);
      const kept = scalars.kept && sub(1, mul(lr, convert(scalars.weightDecay!, lr.dtype)));
      Object.assign(scalars, { lr: convert(lr, this.#dtype) }, kept && { kept: convert(kept, this.#dtype) });
    }
    const wide = (x: Expr) => convert(x, this.#dtype);
    for (const [name, t] of Object.entries(this.shared)) scalars[name] = wide(t.expr);
    return { ...scalars, t: wide(add(this.step.expr, 1)) };
  }

  /** Sets options from the host: the program stays the same. */
  set(given: Readonly<Record<string, unknown>>): void {
    const { name: rule, options } = this.rule;
    const [first] = Object.keys(given);
    const where = currentStep()?.name ?? (insideBody() ? 'the body of a loop' : undefined);
    if (where)
      throw new ArgumentError(
        `${rule}: ${first} is set inside ${where}, which only describes a computation: set it outside, before the call`,
      );
    for (const [name, value] of Object.entries(given)) {
      const option = (options as Record<string, Option<unknown>>)[name]!;
      checkOption(rule, name, option, value);
      const was = (this.options as Record<string, unknown>)[name];
      if ((option.fixed || value instanceof Tensor) && value !== was)
        throw new ArgumentError(
          `${rule}: ${name} cannot be changed, as it is part of the program: create a new optimizer`,
        );
    }
    const { lr } = this.options as Rated;
    const { lr: nextLr } = given as Rated;
    if (lr instanceof Tensor && typeof nextLr === 'number') {
      const { lr: _, ...others } = given;
      noGrad(() => lr.fill_(nextLr)); // as torch's schedules do: the tensor stays the rate
      if (Object.keys(others).length) this.set(others);
      return;
    }
    const next = { ...this.options, ...given };
    this.rule.check?.(next);
    if (this.#begun && (next as { dampening?: number }).dampening && this.#lacks(next))
      throw new ArgumentError(
        `${rule}: ${first} was 0 in earlier steps, so there is no buffer to dampen: create a new optimizer`,
      );
    this.grow(next);
    const [was, now] = [this.#numbers(this.options), this.#numbers(next)];
    Object.assign(this.options, given);
    for (const [name, scalar] of Object.entries(this.#scalars)) {
      if (!Object.is(was[name], now[name])) scalar.copy_(now[name]!);
    }
  }

  /** Describes the update of every parameter that has a gradient. Where `skip` is true, everything keeps its value. */
  update(skip: Expr | undefined): void {
    const live = this.params.flatMap((p, i) => (p.grad ? [{ p, grad: p.grad, state: this.state[i]! }] : []));
    if (!live.length) return;
    this.#begun = true;
    dependOn(this, () => Object.keys(this.state[0]!).length); // a momentum from now on is another program
    const put = (t: Tensor, next: Expr) => t.rebind(skip ? where(skip, detach(t.expr), next) : next);
    const { maximize } = this.options as { maximize?: boolean };
    const scalars = this.#exprs();
    const rule = this.rule.begin(scalars, this.options);
    for (const { p, grad, state } of live) {
      const { dtype } = p;
      const { master, ...own } = exprsOf(state);
      const value = detach(p.expr);
      const wide = convert(value, wideType(dtype));
      // A parameter that differs from its rounded master copy was set by other code, which takes precedence.
      const from = master ? where(eq(convert(master, dtype), value), master, wide) : wide;
      const g = parts(convert(detach(grad.expr), wide.dtype));
      const { p: next, ...changed } = rule(
        {
          p: parts(from),
          g: maximize ? neg(g) : g,
          ...Object.fromEntries(Object.entries(own).map(([name, x]) => [name, parts(x)])),
        },
        EPSILON[from === wide ? partType(dtype) : 'f32']!,
      );
      put(p, convert(like(dtype, next!), dtype));
      if (master) put(state.master!, next!);
      for (const [name, expr] of Object.entries(changed)) put(state[name]!, like(state[name]!.dtype, expr));
    }
    for (const [name, expr] of Object.entries(this.rule.end?.(scalars) ?? {}))
      put(this.shared[name]!, convert(expr, 'f32'));
    put(this.step, add(this.step.expr, 1));
  }
}
type Rated = { readonly lr?: number | Tensor };
type AnyRule = Pick<Rule<object>, 'name' | 'realOnly'>;

function checkParameter(rule: AnyRule, given: unknown, i: number): readonly [string | undefined, Tensor] {
  const [name, p] = Array.isArray(given) && given.length === 2 ? given : [undefined, given];
  const what = `${rule.name}: parameter ${name === undefined ? i : `'${name}'`}`;
  if (!(p instanceof Tensor)) throw new ArgumentError(`${what} is ${describe(p)}: it must be a tensor`);
  if (isComplex(p.dtype) && rule.realOnly)
    throw new ArgumentError(`${what} is ${p.aval}: ${rule.name} takes real parameters only: pass viewAsReal() of it`);
  if (!isFloat(p.dtype) && !isComplex(p.dtype))
    throw new ArgumentError(`${what} is ${p.aval}: it must have a float or complex dtype`);
  if (!p.isLeaf)
    throw new ArgumentError(
      `${what}, ${p.aval}, was computed from other tensors (not a leaf): pass the tensors it was computed from`,
    );
  return [name, p];
}
