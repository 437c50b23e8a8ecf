// LBFGS: several evaluations of a closure in one step, each chosen by the values of those before. The model runs on the
// device; the history of directions and the choice of steps are on the host, as they need every loss and gradient.

import { gradEnabled } from '../autograd/mode.js';
import { isHostArray } from '../base/dtype.js';
import { ArgumentError, StateDictError } from '../base/errors.js';
import { decodeFloats } from '../base/float.js';
import { describe, isPlain } from '../base/tree.js';
import { full } from '../ops/prim/constant.js';
import { convert, reshape } from '../ops/prim/move.js';
import { detach } from '../ops/prim/variable.js';
import { cat } from '../ops/shape.js';
import { enableGrad } from '../tensor/autograd.js';
import { tensor } from '../tensor/create.js';
import { currentStep } from '../tensor/scope.js';
import { setTensor } from '../tensor/state.js';
import { Tensor } from '../tensor/tensor.js';
import { type Point, strongWolfe } from './line-search.js';
import { type Given, type Group, type GroupOptions, Optimizer, type Params } from './optimizer.js';
import { choice, count, notNegative, type Rule, rate } from './rule.js';
import type { GivenState, OptimizerState } from './state-dict.js';

export interface LBFGSOptions {
  lr?: number;
  /** The most iterations in one step. Default: 20. */
  maxIter?: number;
  /** The most evaluations of the closure in one step. Default: 1.25 times maxIter. */
  maxEval?: number | null;
  toleranceGrad?: number;
  toleranceChange?: number;
  historySize?: number;
  lineSearchFn?: 'strong_wolfe' | null;
}
const lbfgs: Rule<LBFGSOptions> = {
  name: 'LBFGS',
  options: {
    lr: rate(1),
    maxIter: { ...count(20, 0), fixed: false },
    maxEval: { ...count<number | null>(null, 0), fixed: false },
    toleranceGrad: notNegative(1e-7),
    toleranceChange: notNegative(1e-9),
    historySize: { ...count(100, 1), fixed: false },
    lineSearchFn: { ...choice('strong_wolfe'), fixed: false },
  },
  numbers: () => ({}),
  state: () => ({}),
  begin: () => () => ({}),
};

/** The state between steps. */
interface Memory {
  evaluations: number;
  iterations: number;
  d: Float64Array;
  t: number;
  readonly dirs: Float64Array[];
  readonly steps: Float64Array[];
  readonly ro: number[];
  hDiag: number;
  grad: Float64Array;
  loss: number;
}
const dot = (a: Float64Array, b: Float64Array): number => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
};
const addTo = (x: Float64Array, factor: number, y: Float64Array): Float64Array => {
  for (let i = 0; i < x.length; i++) x[i]! += factor * y[i]!;
  return x;
};
const largest = (x: Float64Array): number => x.reduce((most, v) => Math.max(most, Math.abs(v)), 0);
/** The concatenated gradients of the parameters (zeros for none). */
const joined = (xs: readonly (Tensor | null)[], like: readonly Tensor[]): Tensor =>
  new Tensor(
    cat(
      like.map((p, i) => {
        const x = xs[i];
        return x ? convert(reshape(detach(x.expr), [p.numel()]), 'f64') : full([p.numel()], 0, 'f64');
      }),
    ),
  );

/** Optimizer without step(), which is always asynchronous here. */
interface Base {
  readonly paramGroups: readonly Group<LBFGSOptions>[];
  readonly state: ReadonlyMap<Tensor, Readonly<Record<string, Tensor>>>;
  addParamGroup(group: GroupOptions<LBFGSOptions>): void;
  zeroGrad(options?: { readonly setToNone?: boolean }): void;
  stateDict(): OptimizerState;
  loadStateDict(state: GivenState): void;
  toString(): string;
}
const Base = Optimizer as unknown as new (
  rule: Rule<LBFGSOptions>,
  params: Params<LBFGSOptions>,
  options: Given<LBFGSOptions>,
) => Base;

/**
 * A quasi-Newton method with a Hessian estimated from the last gradients (Liu and Nocedal, 1989). `await
 * optimizer.step(closure)`: the closure zeroes gradients, computes the loss, calls backward() and returns the loss; it may be async.
 */
export class LBFGS extends Base {
  readonly #params: readonly Tensor[];
  #memory: Memory | undefined;
  #loaded: Readonly<Record<string, unknown>> | undefined;

  constructor(params: Params<LBFGSOptions>, options: Given<LBFGSOptions> = {}) {
    super(lbfgs, params, options);
    if (this.paramGroups.length !== 1)
      throw new ArgumentError(`LBFGS: got ${this.paramGroups.length} groups of parameters: it supports one`);
    this.#params = this.paramGroups[0]!.params;
  }
  override addParamGroup(group: GroupOptions<LBFGSOptions>): void {
    if (this.paramGroups.length)
      throw new ArgumentError('LBFGS: cannot add a second group of parameters: it supports one');
    super.addParamGroup(group);
  }

  /** The loss and the gradient at the current parameters. */
  async #evaluate(
    closure: () => Tensor | Promise<Tensor>,
  ): Promise<{ result: Tensor; loss: number; grad: Float64Array }> {
    const result = await (gradEnabled() ? closure() : enableGrad(closure));
    if (!(result instanceof Tensor) || result.numel() !== 1)
      throw new ArgumentError(
        `LBFGS.step: the closure returned ${describe(result)}: it must return the loss, a tensor with one element`,
      );
    const grads = joined(
      this.#params.map((p) => p.grad),
      this.#params,
    );
    const [loss, grad] = await Promise.all([result.item(), grads.data()]);
    return { result, loss: Number(loss), grad: grad as Float64Array };
  }
  #set(values: Float64Array): void {
    let offset = 0;
    for (const p of this.#params) {
      const data = values.slice(offset, offset + p.numel());
      const isF32 = p.dtype === 'f32';
      setTensor(p, { dtype: isF32 ? 'f32' : 'f64', shape: p.shape, data: isF32 ? Float32Array.from(data) : data });
      offset += p.numel();
    }
  }

  /** Runs several iterations; resolves to the loss before the first. */
  async step(closure: () => Tensor | Promise<Tensor>): Promise<Tensor> {
    if (currentStep())
      throw new ArgumentError(
        'LBFGS.step: it cannot run inside a compiled function, as it reads values: compile the computation of the closure instead',
      );
    if (typeof closure !== 'function')
      throw new ArgumentError(
        `LBFGS.step: the closure is ${describe(closure)}: it must be a function: write step(() => loss)`,
      );
    const [group] = this.paramGroups;
    const { maxIter, toleranceGrad, toleranceChange, historySize, lineSearchFn } = group!;
    const maxEval = group!.maxEval ?? Math.floor((maxIter * 5) / 4);
    const given: unknown = group!.lr;
    const lr = given instanceof Tensor ? Number(await given.to('f64').item()) : (given as number);

    await this.#restore();
    let { result, loss, grad } = await this.#evaluate(closure);
    const first = result;
    let evaluations = 1;
    this.#memory ??= {
      ...{ evaluations: 0, iterations: 0, d: new Float64Array(), t: 0, hDiag: 1, grad: new Float64Array(), loss },
      ...{ dirs: [], steps: [], ro: [] },
    };
    const memory = this.#memory;
    memory.evaluations++;
    if (largest(grad) <= toleranceGrad) return first;

    let x = (await joined(this.#params, this.#params).data()) as Float64Array;
    for (let n = 1; n <= maxIter; n++) {
      memory.iterations++;
      if (memory.iterations === 1) memory.d = grad.map((g) => -g);
      else memory.d = direction(memory, grad, historySize);
      const { d } = memory;
      memory.grad = grad;
      memory.loss = loss;
      const sum = grad.reduce((s, g) => s + Math.abs(g), 0);
      memory.t = memory.iterations === 1 ? Math.min(1, 1 / sum) * lr : lr;
      const slope = dot(grad, d);
      if (slope > -toleranceChange) break;

      let used = 0;
      const [from, before] = [x, memory.loss];
      const moved = (t: number) => addTo(from.slice(), t, d);
      if (lineSearchFn) {
        const evaluate = async (t: number): Promise<Point> => {
          this.#set(moved(t));
          const { loss, grad } = await this.#evaluate(closure);
          return { t, loss, grad, slope: dot(grad, d) };
        };
        const found = await strongWolfe({
          ...{ evaluate, from: { t: 0, loss, grad, slope }, t: memory.t, norm: largest(d) },
          ...{ toleranceChange, maxEvaluations: maxEval - evaluations },
        });
        ({ loss, grad } = found.point);
        memory.t = found.point.t;
        used = found.evaluations;
        x = moved(memory.t);
        this.#set(x);
      } else {
        x = moved(memory.t);
        this.#set(x);
        if (n !== maxIter) {
          ({ result, loss, grad } = await this.#evaluate(closure));
          used = 1;
        }
      }
      evaluations += used;
      memory.evaluations += used;
      if (evaluations >= maxEval || largest(grad) <= toleranceGrad) break;
      if (largest(d) * Math.abs(memory.t) <= toleranceChange || Math.abs(loss - before) < toleranceChange) break;
    }
    return first;
  }

  /** Loads a state dict of tsxla or torch. The next step reads its tensors. */
  override loadStateDict(given: GivenState): void {
    const { state, param_groups } = recordOf(given) as { state?: object; param_groups?: unknown };
    super.loadStateDict({ state: {}, param_groups });
    const entries = recordOf(recordOf(state)['0']);
    const missing = Object.keys(entries).length ? STATE.filter((key) => !(key in entries)) : [];
    if (missing.length)
      throw new StateDictError(`LBFGS: the state dict has no ${missing.join(', ')}`, {
        missing,
        unexpected: [],
        misshapen: [],
      });
    this.#memory = undefined;
    this.#loaded = Object.keys(entries).length ? entries : undefined;
  }
  async #restore(): Promise<void> {
    const from = this.#loaded;
    if (!from) return;
    this.#loaded = undefined;
    const lists = (key: string) => Promise.all((from[key] as unknown[]).map(numbersOf));
    const number = async (key: string) => (await numbersOf(from[key]))[0]!;
    this.#memory = {
      ...{ evaluations: await number('func_evals'), iterations: await number('n_iter') },
      ...{ d: await numbersOf(from.d), t: await number('t'), hDiag: await number('H_diag') },
      ...{ dirs: await lists('old_dirs'), steps: await lists('old_stps') },
      ...{ ro: (await lists('ro')).map(([x]) => x!) },
      ...{ grad: await numbersOf(from.prev_flat_grad), loss: await number('prev_loss') },
    };
  }

  /** torch's layout: the history is the state of the first parameter. */
  override stateDict(): OptimizerState {
    const { param_groups } = super.stateDict();
    if (this.#loaded) return { state: { 0: this.#loaded as never }, param_groups };
    const m = this.#memory;
    if (!m) return { state: {}, param_groups };
    const dtype = this.#params.some((p) => p.dtype === 'f64') ? 'f64' : 'f32';
    const made = (x: Float64Array) => tensor(x, { dtype });
    const state = {
      ...{ func_evals: m.evaluations, n_iter: m.iterations, d: made(m.d), t: m.t, H_diag: m.hDiag },
      ...{ old_dirs: m.dirs.map(made), old_stps: m.steps.map(made), ro: m.ro.map((x) => tensor(x, { dtype })) },
      ...{ prev_flat_grad: made(m.grad), prev_loss: m.loss },
    };
    return { state: { 0: state as never }, param_groups };
  }
}

const STATE = ['func_evals', 'n_iter', 'd', 't', 'old_dirs', 'old_stps', 'ro', 'H_diag', 'prev_flat_grad', 'prev_loss'];
const recordOf = (x: unknown): Record<string, unknown> =>
  x instanceof Map ? Object.fromEntries(x) : isPlain(x) ? x : {};
/** A number, a tensor or an array of a file. */
async function numbersOf(x: unknown): Promise<Float64Array> {
  if (x instanceof Tensor) return (await x.to('f64').flatten().data()) as Float64Array;
  return isHostArray(x) ? Float64Array.from(decodeFloats(x.dtype, x.data), Number) : Float64Array.of(Number(x));
}

/** The next direction, after adding the last step to the history. */
function direction(m: Memory, grad: Float64Array, historySize: number): Float64Array {
  const y = grad.map((g, i) => g - m.grad[i]!);
  const s = m.d.map((d) => d * m.t);
  const ys = dot(y, s);
  if (ys > 1e-10) {
    if (m.dirs.length === historySize) for (const list of [m.dirs, m.steps, m.ro]) list.shift();
    m.dirs.push(y);
    m.steps.push(s);
    m.ro.push(1 / ys);
    m.hDiag = ys / dot(y, y);
  }
  const q = grad.map((g) => -g);
  const al: number[] = [];
  for (let i = m.dirs.length - 1; i >= 0; i--) {
    al[i] = dot(m.steps[i]!, q) * m.ro[i]!;
    addTo(q, -al[i]!, m.dirs[i]!);
  }
  const r = q.map((v) => v * m.hDiag);
  m.dirs.forEach((dir, i) => addTo(r, al[i]! - dot(dir, r) * m.ro[i]!, m.steps[i]!));
  return r;
}
