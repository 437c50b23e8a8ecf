// The tensor: a lazy value. Operations on it are described, not computed; reading it computes.

import { inspect } from 'node:util';
import { gradEnabled } from '../autograd/mode.js';
import { type DType, sizeOf, type TypedArray } from '../base/dtype.js';
import { ArgumentError, ReadError, ShapeError, SpentError } from '../base/errors.js';
import { decodeFloats } from '../base/float.js';
import { noticeOnce } from '../base/log.js';
import { isFloat } from '../base/promote.js';
import { normalizeDim, type Shape } from '../base/shape.js';
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { Mesh } from '../ir/mesh.js';
import { insideBody } from '../ir/scope.js';
import { captureSource, currentSource, entry, type Source } from '../ir/source.js';
import '../observe/index.js'; // side effect: metrics, explanations and rules listen to the runtime
import { gradients } from '../autograd/sweep.js';
import type * as ops from '../ops/index.js';
import { onesLike } from '../ops/prim/constant.js';
import { add } from '../ops/prim/pointwise.js';
import { constrain } from '../ops/prim/sharding.js';
import { detach, input, isVariable, variable } from '../ops/prim/variable.js';
import { Cell } from '../runtime/cell.js';
import { changesArePending, describedSince, fetchArray, placedAsBefore } from '../runtime/evaluate.js';
import { events } from '../runtime/events.js';
import { isOn } from '../runtime/layout.js';
import { hold, ownRecord, recordOf, release } from '../runtime/record.js';
import type { Stored } from '../runtime/sharded.js';
import { borrow, Failed, freeValue, hostValue, repay, setValue, shareValue } from '../runtime/value.js';
import type { InPlaceMethods } from './inplace.js';
import { format } from './inspect.js';
import type { LiftMethod } from './lift.js';
import type { OrderOf } from './order.js';
import { currentStep, stepStart } from './scope.js';
import { variables } from './variables.js';

type Ops = typeof ops;
/** Operations whose first argument is no tensor (but a list of them, or a text): functions only. */
export type FunctionOnly = { [K in keyof Ops]: Expr extends Parameters<Ops[K]>[0] ? never : K }[keyof Ops];
type Methods = { [K in Exclude<keyof Ops, FunctionOnly>]: LiftMethod<Ops[K], OrderOf<K>> };
/** Every other operation of ops/ is a method (lift.ts). */
export interface Tensor extends Methods, InPlaceMethods {}

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the methods are put on the prototype by tensor/index.ts
export class Tensor {
  #expr: Expr | undefined;
  /** Where its value is once it was changed in place, or used inside a step. */
  #cell: Cell | undefined;
  /** What it stands for while a body uses it for one of several. */
  #lent: Expr | undefined;
  /** Why it has no value any more. */
  #spent: (() => string) | undefined;
  #grad: Tensor | null = null;
  /** The call that put `grad` there (step/place.ts); undefined: other code did. */
  gradPut: object | undefined;

  constructor(expr: Expr) {
    this.#expr = gradEnabled() ? expr : detach(expr);
    hold(this.#expr);
    if (SAME.has(this.#expr.op.name) && !currentStep()) borrow(this.#expr);
    events.count('tensorCreated');
    currentStep()?.made.push(this);
  }

  /** The expression that it currently denotes. */
  get expr(): Expr {
    if (this.#lent) return this.#lent;
    if (this.#spent) throw new SpentError(this.#spent());
    if (this.#cell) return this.#cell.expr;
    return this.#expr!.serial < stepStart() ? this.cell.expr : this.#expr!;
  }

  /** What it stands for, to be computed now: it is to lie where what it was before did. */
  get wanted(): Expr {
    return this.#cell && Mesh.exists && !this.#lent && !this.#spent ? placedAsBefore(this.#cell) : this.expr;
  }

  /** The place of its value: a step that uses the tensor finds there what it holds at each call. */
  get cell(): Cell {
    if (this.#spent) throw new SpentError(this.#spent());
    if (!this.#cell) {
      this.#cell = new Cell(this.#expr!, false);
      release(this.#expr!); // the cell holds it now
      this.#expr = undefined;
    }
    return this.#cell;
  }
  /** The same, if anything has asked for it. */
  get knownCell(): Cell | undefined {
    return this.#cell;
  }

  /** The accumulated gradient, after `backward()`. */
  get grad(): Tensor | null {
    this.#noteGrad(true);
    return this.#grad;
  }
  set grad(grad: Tensor | null) {
    this.#noteGrad(false);
    this.gradPut = undefined;
    this.#grad = grad;
  }
  #noteGrad(read: boolean): void {
    const grads = currentStep()?.grads;
    if (grads && !grads.has(this)) grads.set(this, { before: this.#grad, put: this.gradPut, read });
  }
  /** As it was before a step was traced. */
  restoreGrad(grad: Tensor | null, put: object | undefined): void {
    this.#grad = grad;
    this.gradPut = put;
  }

  /** What it stands for now, without anyone noticing; undefined if its value is gone. */
  peek(): Expr | undefined {
    if (this.#lent) return this.#lent;
    if (this.#spent) return undefined;
    return this.#cell ? this.#cell.peek() : this.#expr;
  }

  /** Runs fn while these tensors stand for those values, which may have other shapes. */
  static lend<T>(tensors: readonly Tensor[], values: readonly Tensor[], fn: () => T): T {
    const before = tensors.map((t) => t.#lent);
    tensors.forEach((t, i) => void (t.#lent = values[i]!.expr));
    try {
      return fn();
    } finally {
      tensors.forEach((t, i) => void (t.#lent = before[i]));
    }
  }

  /** It has no value from now on, and says why when it is used. */
  spend(why: (what: Aval, source: Source | undefined) => string): void {
    const expr = this.peek();
    if (!expr) return;
    const { aval, source } = expr; // and not the node: that would keep the graph
    repay(expr);
    this.#spent = () => why(aval, source);
    if (this.#cell)
      this.#cell.settle(nothing(aval, this.#spent)); // for steps that know it
    else release(expr);
    this.#expr = undefined;
  }
  /** It has this value from now on. */
  revive(expr: Expr): void {
    this.#spent = undefined;
    if (this.#cell) this.#cell.settle(expr);
    else {
      this.#expr = expr;
      hold(expr);
    }
  }

  /** Frees its memory on the device now. Using it afterwards is an error. */
  dispose(): void {
    this.release('was disposed');
  }
  /** The same, and says what was done. */
  release(done: string): void {
    const expr = this.peek();
    if (!expr) return;
    const why = `this ${expr.aval} ${done}: it has no value any more`;
    this.spend(() => why);
    // Not where another tensor has the same value, or a change that is still to be computed may need it.
    if (recordOf(expr).holders === 0 && !changesArePending()) freeValue(expr);
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
  /** How many dimensions it has. */
  get ndim(): number {
    return this.shape.length;
  }
  /** How many elements it has. */
  numel(): number {
    return this.aval.size;
  }
  /** The size of one dimension, which may be counted from the end. */
  size(dim: number): number {
    return this.shape[normalizeDim('size', dim, this.ndim)] ?? 1;
  }

  /** JavaScript's operators do not know tensors: `x + 1` would be a string. In a text it is what console.log shows. */
  [Symbol.toPrimitive](hint: string): string {
    if (hint === 'string') return this.#show();
    const argument = currentStep()
      ? ' (a number that is an argument of a compiled function is a tensor inside; staticArguments are not)'
      : '';
    throw new ArgumentError(
      `this ${this.aval} is not a number${argument}: write x.add(y) for x + y, or read it: await x.item()`,
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

  /** A matrix's transpose: t(). There are no complex numbers: H is the same. */
  get T(): Tensor {
    return this.t();
  }
  get H(): Tensor {
    return this.t();
  }
  /** The transpose of every matrix of a batch: adjoint(). mH is the same. */
  get mT(): Tensor {
    return this.adjoint();
  }
  get mH(): Tensor {
    return this.adjoint();
  }
  /** Whether a gradient can reach it. */
  get requiresGrad(): boolean {
    return (this.peek() ?? this.expr).differentiable;
  }

  /** Whether it was not computed from something that wants a gradient. */
  get isLeaf(): boolean {
    return !this.expr.differentiable || isVariable(this.expr);
  }

  /** Makes it a variable: `backward()` leaves its gradient in `grad`. */
  requiresGrad_(on = true): this {
    const was = this.expr;
    if (on && !isFloat(this.dtype))
      throw new ArgumentError(`requiresGrad_: only floats have gradients, this is ${was.aval}`);
    if (!on && !this.isLeaf)
      throw new ArgumentError(`requiresGrad_: this ${was.aval} was computed: use detach() for its value alone`);
    if (on !== was.differentiable) {
      const now = on ? variable(was) : detach(was);
      if (recordOf(was).holders === 1) shareValue(was, now); // where others have the same value, it is copied
      this.#put(now);
    }
    return this;
  }

  /** Another value in place of the one it has; a variable stays one. For functions that work in place. */
  rebind(expr: Expr): this {
    const was = this.expr;
    if (expr.aval !== was.aval)
      throw new ArgumentError(`${was.aval} cannot become ${expr.aval}: in place, dtype and shape stay`);
    if (!this.isLeaf)
      throw new ArgumentError(`this ${was.aval} was computed from variables: change detach() of it instead`);
    const now = this.#placed(expr);
    this.#put(was.differentiable ? variable(detach(now)) : now);
    return this;
  }
  /** Another tensor's value, as it is to lie here. */
  #placed(expr: Expr): Expr {
    const sharding = Mesh.exists ? this.cell.sharding : undefined;
    const own = recordOf(expr).sharding;
    if (!sharding || !own || own === sharding || !isOn(own.mesh, sharding.mesh)) return expr;
    const now = constrain(expr, sharding);
    ownRecord(now).sharding = sharding;
    return now;
  }

  /** A value of another dtype or shape in place of the one it has; a variable stays one. For modules that are converted. */
  become(expr: Expr): this {
    this.#put(this.requiresGrad ? variable(detach(expr)) : detach(expr));
    return this;
  }

  /** The same value by way of another node, which gradients pass, too; a variable stays one. */
  reroute(by: (expr: Expr) => Expr): this {
    const { expr } = this;
    const now = this.isLeaf && expr.differentiable ? variable(by(detach(expr))) : by(expr);
    if (isVariable(now)) ownRecord(now).sharding = recordOf(now.inputs[0]!).sharding;
    this.#put(now);
    return this;
  }

  /** Values of the host's, or on devices, in place of the one it has; a variable stays one. */
  assign(values: TypedArray | Stored): this {
    const node = input(this.aval, this.requiresGrad);
    setValue(node, values);
    this.#put(node);
    return this;
  }

  #put(expr: Expr): void {
    if (this.#lent)
      throw new ArgumentError(
        `this ${expr.aval} of one of several equal layers is changed in place: run them one by one`,
      );
    warnOfGrowth();
    this.cell.expr = expr;
    if (expr.differentiable) variables.set(expr, this);
  }

  /** `backward()` leaves its gradient in `grad` though it was computed. */
  retainGrad(): this {
    if (!this.requiresGrad) throw new ArgumentError(noGradientReaches('retainGrad', this.expr));
    if (!variables.has(this.expr)) variables.set(this.expr, this);
    return this;
  }

  /** The same value, without a past: no gradient passes. */
  detach(): Tensor {
    return new Tensor(detach(this.expr));
  }

  /**
   * Adds the gradient of this tensor to the `grad` of every variable it depends on; `createGraph`: to differentiate again.
   * Unlike torch: may be called again, as the graph is always kept.
   */
  backward(gradient?: Tensor, { createGraph = false }: { readonly createGraph?: boolean } = {}): void {
    const seed = seedFor('backward', this, gradient);
    const wrt = collect([this.expr], (e) => !e.differentiable).nodes.filter((e) => variables.has(e));
    gradients([this.expr], [seed], wrt).forEach((g, i) => {
      const owner = variables.get(wrt[i]!)!;
      if (!g) return;
      const made = createGraph ? g : detach(g);
      owner.grad = new Tensor(owner.grad ? add(owner.grad.expr, made) : made);
    });
  }

  /** Its elements in row-major order, in the array of its dtype (raw bits for bool, f16, bf16 and f8). */
  data(): Promise<TypedArray> {
    return this.#read('data', this.data, (data) => data);
  }

  /** Its elements as nested arrays. Unlike torch: asynchronous; i64 and u64 are bigints unless numbers are asked for. */
  tolist({ numbers = false }: ReadOptions = {}): Promise<Nested> {
    return this.#read('tolist', this.tolist, (data, { dtype, shape }) => {
      const at = reader(dtype, data, numbers);
      const build = ([n, ...rest]: Shape, offset: number): Nested =>
        n === undefined ? at(offset) : Array.from({ length: n }, (_, i) => build(rest, offset + i * sizeOf(rest)));
      return build(shape, 0);
    });
  }

  /** The one element. Unlike torch: asynchronous; of i64 and u64 it is a bigint unless a number is asked for. */
  item({ numbers = false }: ReadOptions = {}): Promise<number | bigint | boolean> {
    return this.#read('item', this.item, (data, { dtype }) => reader(dtype, data, numbers)(0), checkOne);
  }

  /** Prints it in torch's layout. */
  print(): Promise<void> {
    return this.#read('print', this.print, (data, { dtype, shape }) => {
      console.log(format(dtype, shape, data, this.#suffixes()));
    });
  }

  /** What `use` makes of its elements. `method` is what the user called: the line that did is found above it. */
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
      const { wanted: expr } = this; // what it is now: it may change before it is read
      check(expr.aval);
      return use(await fetchArray(expr, { cause: 'read', source }), expr.aval);
    })();
  }

  #suffixes(): string[] {
    return this.requiresGrad ? ['requiresGrad=true'] : [];
  }

  /** For console.log: its values if the host has seen them, else only what it is. Never computes anything. */
  [inspect.custom](): string {
    return this.#show();
  }
}

// Nodes made and errors thrown in these belong to the line that calls them.
for (const name of ['requiresGrad_', 'retainGrad', 'rebind', 'detach', 'backward'] as const) {
  Object.defineProperty(Tensor.prototype, name, { value: entry(Tensor.prototype[name] as () => unknown) });
}

function checkOne(aval: Aval): void {
  if (aval.size !== 1) throw new ArgumentError(`item: ${aval} has ${aval.size} elements, not one: use tolist()`);
}
const readInside = (method: string, where: string): string =>
  `${method}() inside ${where}: a step only describes what is computed, there is no value yet: return the tensor, and read it after`;
/** A state that lies on the devices beside the tensor it is of, if both have the same shape. */
export function beside(of: Tensor, state: Tensor): Tensor {
  if (String(of.shape) === String(state.shape)) state.cell.follows = of.cell;
  return state;
}
/** The tensor of an expression, as a variable if it is to be one. */
export const made = (expr: Expr, { requiresGrad = false }: { readonly requiresGrad?: boolean } = {}): Tensor => {
  const t = new Tensor(expr);
  return requiresGrad ? t.requiresGrad_() : t;
};

const readInBody = (method: string, aval: Aval): string =>
  `${method}() inside the body of a loop or branch, which is described now and computed later: return ${aval} from it, and read the result`;

export interface ReadOptions {
  /** i64 and u64 as JavaScript's numbers; one that a number cannot hold is an error. */
  readonly numbers?: boolean;
}

/** Element i as JavaScript has it. */
function reader(dtype: DType, data: TypedArray, numbers: boolean): (i: number) => Scalar {
  const values = decodeFloats(dtype, data);
  return (i) => {
    const x = values[i]!;
    if (dtype === 'bool') return x !== 0;
    if (!numbers || typeof x !== 'bigint') return x;
    if (Number.isSafeInteger(Number(x))) return Number(x);
    throw new ArgumentError(`element ${i} is ${x}, which a number cannot hold exactly: read it as a bigint`);
  };
}

type Scalar = number | bigint | boolean;
export type Nested = Scalar | readonly Nested[];

const MOST_PENDING = 50_000;
/** A graph that grows from step to step is never computed, and compiles ever longer. */
function warnOfGrowth(): void {
  if (currentStep() || describedSince() < MOST_PENDING) return;
  noticeOnce(
    `${MOST_PENDING} operations are described and not computed yet: end each step with \`await tx.sync()\`, read something, or use tx.compile` +
      `\n    at ${currentSource() ?? 'an unknown place'}`,
    'growth',
  );
}

/** Operations whose result is their operand's value. */
const SAME: ReadonlySet<string> = new Set(['detach', 'alias']);
/** A node in place of one whose value was freed. */
function nothing(aval: Aval, why: () => string): Expr {
  const node = input(aval);
  ownRecord(node).value = new Failed(() => new SpentError(why()));
  return node;
}

/** What gradients start from: given, or 1 for a single element. */
export function seedFor(op: string, result: Tensor, gradient?: Tensor): Expr {
  const { aval } = result.expr;
  if (!result.requiresGrad) throw new ArgumentError(noGradientReaches(op, result.expr));
  if (!gradient && aval.size !== 1) {
    throw new ShapeError(
      `${op}: ${aval} has ${aval.size} elements: reduce it to one first (sum, mean), or pass its gradient`,
    );
  }
  if (gradient && gradient.expr.aval !== aval) {
    throw new ShapeError(`${op}: the gradient is ${gradient.expr.aval}, the tensor ${aval}`);
  }
  return gradient?.expr ?? onesLike(result.expr);
}

/** Why: nothing wants one, or the only way there leads through an op that has none. */
function noGradientReaches(op: string, expr: Expr): string {
  const cut = collect([expr], (e) => e.differentiable).nodes.findLast(
    (e) => !e.differentiable && e.inputs.some((x) => x.differentiable),
  );
  if (!cut) {
    return `${op}: nothing that wants a gradient leads to this ${expr.aval}: call requiresGrad_() on what should have one`;
  }
  const place = cut.source ? `, at ${cut.source}` : '';
  const why = cut.op.name === 'detach' ? 'detach() or noGrad' : `${cut.op.name}, which has no gradient`;
  return `${op}: no gradient reaches this ${expr.aval}: the way to it leads through ${why}${place}`;
}
