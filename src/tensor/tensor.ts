// Tensor: a lazy array. Operations on it only extend a graph; reading values compiles and runs it.

import { inspect } from 'node:util';
import { gradEnabled } from '../autograd/mode.js';
import { refuseBrackets } from '../base/brackets.js';
import { type DType, sizeOf, type TypedArray } from '../base/dtype.js';
import { ArgumentError, DTypeError, ReadError, ShapeError, SpentError } from '../base/errors.js';
import { decodeFloats } from '../base/float.js';
import { JUPYTER_DISPLAY, type MimeBundle } from '../base/jupyter.js';
import { isComplex, isFloat, isInexact, wideType } from '../base/promote.js';
import { normalizeDim, type Shape } from '../base/shape.js';
import { describe, isPlain } from '../base/tree.js';
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { sweeping } from '../ir/hooks.js';
import { Mesh } from '../ir/mesh.js';
import { insideBody } from '../ir/scope.js';
import { captureSource, entry, placeOf, type Source } from '../ir/source.js';
import '../observe/index.js'; // side effect: metrics, explanations and rules listen to the runtime
import { customVjp } from '../autograd/custom-vjp.js';
import { checkHistory, gradients } from '../autograd/sweep.js';
import { notePending } from '../observe/rules-pending.js';
import type * as ops from '../ops/index.js';
import { onesLike } from '../ops/prim/constant.js';
import { add } from '../ops/prim/pointwise.js';
import { constrain } from '../ops/prim/sharding.js';
import { detach, input, isVariable, variable } from '../ops/prim/variable.js';
import { Cell, changesArePending } from '../runtime/cell.js';
import { fetchArray } from '../runtime/evaluate.js';
import { events } from '../runtime/events.js';
import { isOn } from '../runtime/layout.js';
import { hold, ownRecord, recordOf, release } from '../runtime/record.js';
import type { Stored } from '../runtime/sharded.js';
import { isIdle } from '../runtime/turn.js';
import { borrow, Failed, freeValue, hostValue, repay, setValue, shareValue } from '../runtime/value.js';
import { forgetComputed, isLate, noteBackward, noteLate, noteMade, pendingLosses, readTogether } from './carried.js';
import { display } from './display.js';
import type { HookMethods } from './hooks.js';
import type { InPlaceMethods } from './inplace.js';
import { format } from './inspect.js';
import type { LiftMethod } from './lift.js';
import type { OrderOf } from './order.js';
import type { Pieces } from './pieces.js';
import type { MaxPools } from './pooled.js';
import { currentStep, stepStart } from './scope.js';
import { afterGrad, variables } from './variables.js';

type Ops = typeof ops;
/** Operations whose first argument is not a tensor (a list of tensors, a string): functions only. */
export type FunctionOnly = { [K in keyof Ops]: Expr extends Parameters<Ops[K]>[0] ? never : K }[keyof Ops];
type Methods = {
  [K in Exclude<keyof Ops, FunctionOnly | keyof Pieces | keyof MaxPools>]: LiftMethod<Ops[K], OrderOf<K>>;
};
/** Every other operation of ops/ is a method (lift.ts). */
export interface Tensor extends Methods, Pieces, MaxPools, InPlaceMethods, HookMethods {}

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the methods are put on the prototype by tensor/index.ts
export class Tensor {
  #expr: Expr | undefined;
  /** Holds the value once the tensor was changed in place or used inside a step. */
  #cell: Cell | undefined;
  /** Replaces the value while Tensor.lend runs: the weights of one layer, where several layers share stacked weights. */
  #lent: Expr | undefined;
  /** The error text of a tensor whose value was freed. */
  #spent: (() => string) | undefined;
  #grad: Tensor | null = null;
  /** The call that put `grad` there (step/place.ts); undefined: other code did. */
  gradPut: object | undefined;

  constructor(expr: Expr) {
    this.#expr = gradEnabled() ? expr : detach(expr);
    hold(this.#expr);
    if (SAME.has(this.#expr.op.name) && !currentStep()) borrow(this.#expr); // shares its operand's memory: it must not be donated
    events.count('tensorCreated');
    noteMade(this.#expr);
    notePending(this.#expr, pendingLosses);
    currentStep()?.made.push(this);
  }

  /** The expression this tensor currently denotes. */
  get expr(): Expr {
    if (this.#lent) return this.#lent;
    if (this.#spent) throw new SpentError(this.#spent());
    const now = this.#cell ? this.#cell.peek() : this.#expr!;
    if (isLate(now)) noteLate(now, this.#cell !== undefined);
    if (this.#cell) return this.#cell.expr;
    // Inside a step, a tensor made before the step is an input. Its cell tells the step which value to read at each call.
    return now.serial < stepStart() ? this.cell.expr : now;
  }

  /** The expression to compute for a read, with the same sharding as the tensor's value before. */
  get wanted(): Expr {
    return this.#cell && Mesh.exists && !this.#lent && !this.#spent ? this.#cell.placed() : this.expr;
  }

  /** The cell with its value: a step that uses the tensor reads it at each call. */
  get cell(): Cell {
    if (this.#spent) throw new SpentError(this.#spent());
    if (!this.#cell) {
      this.#cell = new Cell(this.#expr!, false);
      release(this.#expr!); // the cell holds it now
      this.#expr = undefined;
    }
    return this.#cell;
  }
  /** The cell if there is one. */
  get knownCell(): Cell | undefined {
    return this.#cell;
  }

  /** The accumulated gradient, after `backward()`. */
  get grad(): Tensor | null {
    this.#noteGrad(true);
    return this.#grad;
  }
  set grad(grad: Tensor | null) {
    if (grad) checkGrad(this.aval, grad);
    this.#noteGrad(false);
    this.gradPut = undefined;
    this.#grad = grad;
  }
  /** Notes for the step being traced what the gradient was before: a call that fails puts it back. */
  #noteGrad(read: boolean): void {
    const grads = currentStep()?.grads;
    if (grads && !grads.has(this)) grads.set(this, { before: this.#grad, put: this.gradPut, read });
  }
  /** Restores the gradient from before a step was traced. */
  restoreGrad(grad: Tensor | null, put: object | undefined): void {
    this.#grad = grad;
    this.gradPut = put;
  }

  /** The current expression, without recording a use; undefined if its value was freed. */
  peek(): Expr | undefined {
    if (this.#lent) return this.#lent;
    if (this.#spent) return undefined;
    return this.#cell ? this.#cell.peek() : this.#expr;
  }

  /** Runs fn with the values of `tensors` replaced by `values`, which may have other shapes. */
  static lend<T>(tensors: readonly Tensor[], values: readonly Tensor[], fn: () => T): T {
    const before = tensors.map((t) => t.#lent);
    tensors.forEach((t, i) => void (t.#lent = values[i]!.expr));
    try {
      return fn();
    } finally {
      tensors.forEach((t, i) => void (t.#lent = before[i]));
    }
  }

  /** Drops its value. Later uses throw an error with this text. */
  spend(why: (what: Aval, source: Source | undefined) => string): void {
    const expr = this.peek();
    if (!expr) return;
    const { aval, source } = expr; // not the node, which would keep the graph
    repay(expr);
    this.#spent = () => why(aval, source);
    if (this.#cell)
      this.#cell.settle(nothing(aval, this.#spent)); // for steps that use the cell
    else release(expr);
    this.#expr = undefined;
  }
  /** Gives a tensor whose value was dropped a new one. */
  revive(expr: Expr): void {
    this.#spent = undefined;
    if (this.#cell) this.#cell.settle(expr);
    else {
      this.#expr = expr;
      hold(expr);
    }
  }

  /** Frees its device memory now. Using the tensor afterwards is an error. */
  dispose(): void {
    this.release('was disposed');
  }
  /** The same, with the reason for the error: 'was disposed'. */
  release(done: string): void {
    const expr = this.peek();
    if (!expr) return;
    const why = `this ${expr.aval} ${done}: it no longer has a value`;
    this.spend(() => why);
    // Not freed if another tensor has the same value, or a pending computation may need it.
    if (recordOf(expr).holders === 0 && !changesArePending() && isIdle()) freeValue(expr);
  }
  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Its dtype and shape. */
  get aval(): Aval {
    return (this.peek() ?? this.expr).aval;
  }
  get shape(): Shape {
    return this.aval.shape;
  }
  get dtype(): DType {
    return this.aval.dtype;
  }
  /** The number of dimensions. Same as dim() and ndimension(). */
  get ndim(): number {
    return this.shape.length;
  }
  dim(): number {
    return this.ndim;
  }
  ndimension(): number {
    return this.ndim;
  }
  /** The number of elements. */
  numel(): number {
    return this.aval.size;
  }
  nelement(): number {
    return this.numel();
  }
  /** The shape, or the size of one dimension, which may be negative. */
  size(): Shape;
  size(dim: number): number;
  size(dim?: number): Shape | number {
    return dim === undefined ? this.shape : (this.shape[normalizeDim('size', dim, this.ndim)] ?? 1);
  }
  isFloatingPoint(): boolean {
    return isFloat(this.dtype);
  }
  isComplex(): boolean {
    return isComplex(this.dtype);
  }

  /** Throws for JavaScript operators: `x + 1` would be a string. In a template string: the text of console.log. */
  [Symbol.toPrimitive](hint: string): string {
    if (hint === 'string') return this.#show();
    const inside = currentStep() !== undefined || insideBody();
    const argument = currentStep()
      ? ' (a number that is an argument of a compiled function is a tensor inside; staticArguments are not)'
      : '';
    // `x + y` and `x == y` pass the hint 'default', all other operators 'number'.
    const [sum, compare] = hint === 'default' ? ['x.add(y) for x + y', 'eq'] : ['x.mul(y) for x * y', 'gt'];
    const sign = compare === 'eq' ? '==' : '>';
    const way = inside
      ? `choose with tx.where(x.${compare}(y), a, b) or tx.cond`
      : `read it: (await x.item()) ${sign} y; in a compiled function: tx.where(x.${compare}(y), a, b) or tx.cond`;
    throw new ArgumentError(
      `this ${this.aval} is not a number${argument}: write ${sum}, x.${compare}(y) for x ${sign} y. To branch on a value, ${way}`,
    );
  }
  toString(): string {
    return this.#show();
  }
  #show(): string {
    const expr = this.peek();
    if (!expr) return `tensor(spent: ${this.#spent!()})`;
    const values = hostValue(expr);
    if (values) return format(expr.dtype, expr.shape, values, this.#suffixes());
    return `tensor(${[expr.aval, 'not read yet', ...this.#suffixes()].join(', ')})`;
  }
  [Symbol.iterator](): never {
    throw new ArgumentError(`this ${this.expr.aval} is not a list: use unbind(), or read it: await x.tolist()`);
  }
  toJSON(): never {
    throw new ArgumentError(`this ${this.expr.aval} has no values yet: read it first, await x.tolist()`);
  }

  /** The transpose of a matrix: t(). H is also conjugated. */
  get T(): Tensor {
    return this.t();
  }
  get H(): Tensor {
    return this.t().conj();
  }
  /** The transpose of every matrix of a batch. mH, the same as adjoint(), is also conjugated. */
  get mT(): Tensor {
    return this.ndim < 2 ? this.adjoint() : this.transpose(-2, -1);
  }
  get mH(): Tensor {
    return this.adjoint();
  }
  /** Whether gradients flow to this tensor. Setting it calls `requiresGrad_`: `p.requiresGrad = false` freezes a parameter. */
  get requiresGrad(): boolean {
    return (this.peek() ?? this.expr).differentiable;
  }
  set requiresGrad(on: boolean) {
    this.requiresGrad_(on);
  }

  /** Whether it was not computed from tensors that require a gradient. */
  get isLeaf(): boolean {
    return !this.expr.differentiable || isVariable(this.expr);
  }

  /** Makes it a variable: `backward()` stores its gradient in `grad`. */
  requiresGrad_(on = true): this {
    const was = this.expr;
    if (on && !isInexact(this.dtype))
      throw new ArgumentError(`requiresGrad_: this tensor is ${was.aval}: only floats have gradients`);
    if (!on && !this.isLeaf)
      throw new ArgumentError(
        `requiresGrad_: this ${was.aval} was computed from variables, so its requiresGrad is fixed: use detach()`,
      );
    if (on !== was.differentiable) {
      const now = on ? variable(was) : detach(was);
      if (recordOf(was).holders === 1) shareValue(was, now); // shared only if no other tensor has the value
      this.#put(now);
    }
    return this;
  }

  /**
   * Replaces the value, for in-place operations; a variable stays one. Gradients flow through the new value; under noGrad they
   * flow as before, as in torch.
   */
  rebind(expr: Expr): this {
    const was = this.expr;
    if (expr.aval !== was.aval)
      throw new ArgumentError(`an in-place operation cannot change dtype or shape: ${was.aval} to ${expr.aval}`);
    const now = this.#placed(expr);
    if (this.isLeaf) this.#put(was.differentiable ? variable(detach(now)) : now);
    else this.#put(gradEnabled() ? now : customVjp([was], [detach(now)], [], (_, gs) => gs)[0]!);
    return this;
  }
  /** The new value with the sharding of this tensor. */
  #placed(expr: Expr): Expr {
    const sharding = Mesh.exists ? this.cell.sharding : undefined;
    const own = recordOf(expr).sharding;
    if (!sharding || !own || own === sharding || !isOn(own.mesh, sharding.mesh)) return expr;
    const now = constrain(expr, sharding);
    ownRecord(now).sharding = sharding;
    return now;
  }

  /** Replaces the value by one of another dtype or shape; a variable stays one. For converting modules. */
  become(expr: Expr): this {
    this.#put(this.requiresGrad ? variable(detach(expr)) : detach(expr));
    return this;
  }

  /** Routes the value through another node, which gradients pass too; a variable stays one. */
  reroute(by: (expr: Expr) => Expr): this {
    const { expr } = this;
    const now = this.isLeaf && expr.differentiable ? variable(by(detach(expr))) : by(expr);
    if (isVariable(now)) ownRecord(now).sharding = recordOf(now.inputs[0]!).sharding;
    this.#put(now);
    return this;
  }

  /** Replaces the value by an array on the host or on devices; a variable stays one. */
  assign(values: TypedArray | Stored): this {
    const node = input(this.aval, this.requiresGrad);
    setValue(node, values);
    this.#put(node);
    return this;
  }

  #put(expr: Expr): void {
    if (this.#lent)
      throw new ArgumentError(
        `this ${expr.aval} is changed in place while its value is replaced: with scanned layers, run them one by one; in functionalCall, put the layer in eval mode`,
      );
    const was = this.expr;
    const isKept = variables.get(was) === this; // also a computed one: retainGrad applies to the last value
    if (isKept && !isVariable(was)) variables.delete(was);
    this.cell.expr = expr;
    if (expr.differentiable && (isKept || isVariable(expr))) variables.set(expr, this);
  }

  /** Makes `backward()` store the gradient of this computed tensor in `grad`. */
  retainGrad(): this {
    if (!this.requiresGrad) throw new ArgumentError(noGradientReaches('retainGrad', this.expr));
    if (!variables.has(this.expr)) variables.set(this.expr, this);
    return this;
  }

  /** The same value without gradients: they stop here. */
  detach(): Tensor {
    return new Tensor(detach(this.expr));
  }

  /**
   * Adds the gradient of this tensor to the `grad` of every variable it depends on. A single-element loss needs no `gradient`:
   * options may come first. Unlike torch: may be called again, as the graph is always kept.
   */
  backward(options: BackwardOptions): void;
  backward(gradient?: Tensor | null, options?: BackwardOptions): void;
  backward(given?: Tensor | BackwardOptions | null, options?: BackwardOptions): void {
    const [gradient, { createGraph = false }] = isPlain(given)
      ? [undefined, given as BackwardOptions]
      : [(given as Tensor | null) ?? undefined, options ?? {}];
    const seed = seedFor('backward', this, gradient);
    const { nodes } = collect([this.expr], (e) => !e.differentiable); // the graph, as far as gradients can flow
    checkHistory(nodes);
    const wrt = nodes.filter((e) => variables.has(e));
    sweeping(createGraph, () => gradients([this.expr], [seed], wrt)).forEach((g, i) => {
      const owner = variables.get(wrt[i]!)!;
      if (!g) return;
      const made = createGraph ? g : detach(g); // without its history, which would keep the whole graph in memory
      owner.grad = new Tensor(owner.grad ? add(owner.grad.expr, made) : made);
      for (const hook of afterGrad.get(owner) ?? []) hook(owner);
    });
    noteBackward(
      this.expr,
      wrt.flatMap((e) => variables.get(e)!.grad?.peek() ?? []),
    );
  }

  /**
   * The elements in row-major order, in the typed array of the dtype (raw bits for bool, f16, bf16 and f8; real and imaginary
   * part for each complex element).
   */
  data(): Promise<TypedArray> {
    return this.#read('data', this.data, (data) => data);
  }

  /** The elements as nested arrays; complex ones as { re, im }. Unlike torch: asynchronous; i64 and u64 are bigints by default. */
  tolist({ numbers = false }: ReadOptions = {}): Promise<Nested> {
    return this.#read('tolist', this.tolist, (data, { dtype, shape }) => {
      const at = reader(dtype, data, numbers);
      const build = ([n, ...rest]: Shape, offset: number): Nested =>
        n === undefined ? at(offset) : Array.from({ length: n }, (_, i) => build(rest, offset + i * sizeOf(rest)));
      return build(shape, 0);
    });
  }

  /**
   * The only element as a number; a bool as 0 or 1. Unlike torch: asynchronous; an integer that a number cannot hold exactly is
   * an error: read it with `{ bigint: true }`.
   */
  item(options: ItemOptions & { readonly bigint: true }): Promise<bigint>;
  item(options?: ItemOptions & { readonly bigint?: false }): Promise<number>;
  item({ bigint = false }: ItemOptions = {}): Promise<number | bigint> {
    const check = (aval: Aval) => {
      if (isComplex(aval.dtype))
        throw new ArgumentError(`item: ${aval} is complex: use tolist(), or read x.real() and x.imag()`);
      if (aval.size !== 1) throw new ArgumentError(`item: ${aval} has ${aval.size} elements, not one: use tolist()`);
      if (bigint && isFloat(aval.dtype))
        throw new ArgumentError(`item: { bigint: true } is for integers, but this tensor is ${aval}: leave it out`);
    };
    const use = (data: TypedArray, { dtype }: Aval) => {
      const value = reader(dtype, data, !bigint, 'item({ bigint: true })')(0) as number | bigint | boolean;
      return bigint ? BigInt(value) : Number(value);
    };
    return this.#read('item', this.item, use, check);
  }

  /** Prints the tensor in torch's layout. */
  print(): Promise<void> {
    return this.#read('print', this.print, (data, { dtype, shape }) => {
      console.log(format(dtype, shape, data, this.#suffixes()));
    });
  }

  /** Reads the elements and returns `use` of them. `method`: the public method, whose caller errors and events report. */
  #read<T>(
    name: string,
    method: (...args: never[]) => unknown,
    use: (data: TypedArray, aval: Aval) => T,
    check: (aval: Aval) => void = () => {},
  ): Promise<T> {
    const step = currentStep();
    if (step) throw new ReadError(readInside(name, step.name)); // thrown, not rejected: a step cannot await
    if (insideBody()) throw new ReadError(readInBody(name, this.aval));
    const source = captureSource(method);
    return (async () => {
      const { wanted: expr } = this; // the current value: the tensor may change before the read completes
      check(expr.aval);
      const array = await fetchArray(expr, { cause: 'read', source }, readTogether(expr));
      forgetComputed(expr);
      return use(array, expr.aval);
    })();
  }

  #suffixes(): string[] {
    return this.requiresGrad ? ['requiresGrad=true'] : [];
  }

  /** For notebooks (Deno's kernel): computes and reads the values. Not called by user code. */
  [JUPYTER_DISPLAY](): Promise<MimeBundle> {
    return this.#read('display', this.data, (data, aval) => display(aval, data, this.#suffixes()));
  }

  /** For console.log: the values if the host has them, otherwise only the type. Never computes. */
  [inspect.custom](): string {
    return this.#show();
  }
}

// Nodes and errors made in these are attributed to the caller's line.
for (const name of ['requiresGrad_', 'retainGrad', 'rebind', 'detach', 'backward'] as const) {
  Object.defineProperty(Tensor.prototype, name, { value: entry(Tensor.prototype[name] as () => unknown) });
}

/** As in torch, a gradient has the tensor's dtype and shape. f32 for a narrower float is accepted: GradScaler sets it. */
function checkGrad(aval: Aval, grad: Tensor): void {
  if (!(grad instanceof Tensor))
    throw new ArgumentError(`grad is ${describe(grad)}: it must be a tensor of type ${aval}, or null`);
  const own = grad.aval;
  if (own === aval) return;
  if (String(own.shape) !== String(aval.shape))
    throw new ShapeError(`grad is ${own}, but the tensor is ${aval}: a gradient has the shape of its tensor`);
  if (!isFloat(aval.dtype) || own.dtype !== wideType(aval.dtype))
    throw new DTypeError(`grad is ${own}, but the tensor is ${aval}: convert it first: x.grad = g.to('${aval.dtype}')`);
}
const readInside = (method: string, where: string): string =>
  `${method}() inside ${where}: a step only describes a computation and has no values yet: return the tensor, and read it after the step`;
/** Gives an optimizer's state the sharding of its parameter, if both have the same shape. */
export function beside(of: Tensor, state: Tensor): Tensor {
  if (String(of.shape) === String(state.shape)) state.cell.follows = of.cell;
  return state;
}
/** The tensor of an expression; a variable if requiresGrad is set. */
export const made = (expr: Expr, { requiresGrad = false }: { readonly requiresGrad?: boolean } = {}): Tensor => {
  const t = new Tensor(expr);
  return requiresGrad ? t.requiresGrad_() : t;
};

const readInBody = (method: string, aval: Aval): string =>
  `${method}() inside the body of a loop or branch, which only describes a computation: return ${aval} from it, and read the result`;

export interface BackwardOptions {
  /** Whether the gradients can be differentiated again. Default: false. */
  readonly createGraph?: boolean;
  /** Accepted as in torch, without effect: the graph is always kept. */
  readonly retainGraph?: boolean;
}
export interface ReadOptions {
  /** i64 and u64 as JavaScript numbers; values that a number cannot hold exactly are an error. */
  readonly numbers?: boolean;
}
export interface ItemOptions extends ReadOptions {
  /** Returns a bigint, for i64 and u64 beyond 2 ** 53. Default: false, a number. */
  readonly bigint?: boolean;
}

/** Element i as a JavaScript value. `exactly`: how to read a bigint, for the error. */
function reader(
  dtype: DType,
  data: TypedArray,
  numbers: boolean,
  exactly = 'leave { numbers: true } out',
): (i: number) => Scalar {
  const values = decodeFloats(dtype, data);
  if (isComplex(dtype)) return (i) => ({ re: Number(values[2 * i]), im: Number(values[2 * i + 1]) });
  return (i) => {
    const x = values[i]!;
    if (dtype === 'bool') return x !== 0;
    if (!numbers || typeof x !== 'bigint') return x;
    if (Number.isSafeInteger(Number(x))) return Number(x);
    throw new ArgumentError(
      `element ${i} is ${x}, which a JavaScript number cannot hold exactly: read it as a bigint: ${exactly}`,
    );
  };
}

/** A complex number in JavaScript. */
export interface Complex {
  readonly re: number;
  readonly im: number;
}
type Scalar = number | bigint | boolean | Complex;
export type Nested = Scalar | readonly Nested[];

/** Operations whose result has the value of their operand. */
const SAME: ReadonlySet<string> = new Set(['detach', 'alias']);
/** A node that replaces one whose value was freed. */
function nothing(aval: Aval, why: () => string): Expr {
  const node = input(aval);
  ownRecord(node).value = new Failed(() => new SpentError(why()));
  return node;
}

/** The initial gradient of backward: as given, or 1 for a single element. */
export function seedFor(op: string, result: Tensor, gradient?: Tensor): Expr {
  const { aval } = result.expr;
  if (!result.requiresGrad) throw new ArgumentError(noGradientReaches(op, result.expr));
  if (!gradient && aval.size !== 1) {
    throw new ShapeError(
      `${op}: ${aval} has ${aval.size} elements: reduce it to one first (sum, mean), or pass its gradient`,
    );
  }
  if (!gradient && isComplex(aval.dtype)) {
    throw new DTypeError(`${op}: ${aval} is complex: take a real loss (abs, real), or pass its gradient`);
  }
  if (gradient && gradient.expr.aval !== aval) {
    throw new ShapeError(`${op}: the gradient is ${gradient.expr.aval}, but the tensor is ${aval}`);
  }
  return gradient?.expr ?? onesLike(result.expr);
}

refuseBrackets(
  Tensor,
  (x, i) => `x[${i}] of ${(x as Tensor).expr.aval}: write x.index(${i}), or x.indexPut_([${i}], value) to change it`,
);

/** The reason: no input requires a gradient, or every path to one goes through an op without a gradient. */
function noGradientReaches(op: string, expr: Expr): string {
  const cut = collect([expr], (e) => e.differentiable).nodes.findLast(
    (e) => !e.differentiable && e.inputs.some((x) => x.differentiable),
  );
  if (!cut) {
    return `${op}: this ${expr.aval} depends on no tensor that requires a gradient: call requiresGrad_() on one`;
  }
  const place = placeOf(cut.source) && `, at ${cut.source}`;
  const why = cut.op.name === 'detach' ? 'detach() or noGrad' : `${cut.op.name}, which has no gradient`;
  const way = cut.op.name === 'kernel' ? ': give it one with tx.customVjp' : '';
  return `${op}: no gradient reaches this ${expr.aval}: it was computed through ${why}${place}${way}`;
}
