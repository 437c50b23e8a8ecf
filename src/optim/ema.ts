// EMA: the exponential moving average of parameters, which often evaluates better than the parameters. It is updated inside
// the step and swapped in for evaluation.
import { checkList } from '../base/check.js';
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { wideType } from '../base/promote.js';
import { describe, shown } from '../base/tree.js';
import { entry } from '../ir/source.js';
import { convert } from '../ops/prim/move.js';
import { add, div, eq, maximum, mul, sub, where } from '../ops/prim/pointwise.js';
import { detach } from '../ops/prim/variable.js';
import { tensor, zeros } from '../tensor/create.js';
import { dependOn } from '../tensor/scope.js';
import { loadTensors } from '../tensor/state.js';
import { beside, Tensor } from '../tensor/tensor.js';

export interface EMAOptions {
  /** The fraction of the average that is kept in each update. */
  readonly decay?: number;
  /** Whether early averages follow the parameters faster: the decay of update n is at most (1 + n) / (10 + n). */
  readonly warmup?: boolean;
}

/** A moving average of parameters: call update() inside the step, and swap() to evaluate. */
export class EMA {
  readonly params: readonly Tensor[];
  /** The averages, in the order of the parameters; f32 for bf16 and f16. */
  readonly averages: readonly Tensor[];
  /** The number of updates, and 1 - decay: on the device. */
  readonly #updates: Tensor;
  readonly #rest: Tensor;
  readonly #warmup: boolean;
  readonly #names: readonly string[];
  #decay: number;
  /** Whether update() was called: before that there are no averages. */
  #begun = false;
  /** The parameters' values while the averages are swapped in. */
  #kept: readonly Tensor[] | undefined;

  constructor(params: Iterable<Tensor | readonly [name: string, parameter: Tensor]>, options: EMAOptions = {}) {
    checkOptions('EMA', ['decay', 'warmup'], options);
    const { decay = 0.999, warmup = false } = options;
    checkList('EMA', params);
    const entries = [...params].map((x, i) => (x instanceof Tensor ? ([String(i), x] as const) : x));
    this.params = entries.map(([name, p]) => checkTensor('EMA', name, p));
    this.#names = entries.map(([name]) => name);
    if (!this.params.length) throw new ArgumentError('EMA: the list of parameters is empty: pass model.parameters()');
    this.averages = this.params.map((p) => beside(p, zeros(p.shape, { dtype: wideType(p.dtype) })));
    this.#updates = zeros([], { dtype: 'f32' });
    this.#decay = checkDecay(decay);
    this.#rest = tensor(1 - decay, { dtype: 'f32' });
    this.#warmup = warmup;
  }

  get decay(): number {
    return this.#decay;
  }
  /** From the host: the program stays the same. */
  set decay(decay: number) {
    this.#decay = checkDecay(decay);
    this.#rest.copy_(1 - decay);
  }

  /** Updates the averages. The first update copies the parameters. */
  update(): void {
    this.#checkOwn('update');
    this.#begun = true;
    const n = this.#updates.expr;
    const early = div(9, add(n, 10)); // 1 - (1 + n) / (10 + n)
    const rest = where(eq(n, 0), 1, this.#warmup ? maximum(this.#rest.expr, early) : this.#rest.expr);
    this.params.forEach((p, i) => {
      const average = this.averages[i]!;
      const value = convert(detach(p.expr), average.dtype);
      average.rebind(add(average.expr, mul(sub(value, average.expr), rest)));
    });
    this.#updates.rebind(add(n, 1));
  }

  /** Copies the averages into other tensors (the parameters of a copy of the model), in the same order. */
  applyTo(targets: Iterable<Tensor>): void {
    this.#checkBegun('applyTo');
    const list = [...targets];
    const wrong =
      list.length !== this.params.length || list.find((t, i) => String(t.shape) !== String(this.params[i]!.shape));
    if (wrong)
      throw new ArgumentError(
        wrong === true
          ? `EMA: applyTo: ${list.length} tensors for ${this.params.length} averages`
          : `EMA: applyTo: ${wrong.aval} has another shape than its average: pass the parameters in the EMA's order`,
      );
    list.forEach((t, i) => t.rebind(convert(this.averages[i]!.expr, t.dtype)));
  }

  /** Replaces the parameters by the averages; the next call restores the parameters. */
  swap(): void {
    if (this.#kept) {
      this.params.forEach((p, i) => p.rebind(this.#kept![i]!.expr));
      this.#kept = undefined;
      return;
    }
    this.#checkBegun('swap');
    const kept = this.params.map((p) => p.detach());
    this.applyTo(this.params);
    this.#kept = kept;
  }

  #checkBegun(method: string): void {
    if (!this.#begun)
      throw new ArgumentError(`EMA: ${method}() was called before the first update(): there are no averages yet`);
  }

  /** A compiled function notices, too. */
  #checkOwn(method: string): void {
    if (dependOn(this, () => this.#kept !== undefined))
      throw new ArgumentError(`EMA: ${method}() was called while the averages are swapped in: call swap() first`);
  }

  /** The averages by name: the parameters' names if they were given, otherwise numbers. */
  stateDict(): Map<string, Tensor> {
    this.#checkOwn('stateDict'); // the parameters saved with it would be the averages
    return new Map([
      ['updates', this.#updates],
      ...this.averages.map((t, i) => [`averages.${this.#names[i]}`, t] as const),
    ]);
  }
  loadStateDict(state: object): void {
    const entries = [...this.stateDict()].map(([name, tensor]) => ({ tensor, names: [name], stacked: 0 }));
    loadTensors('EMA', entries, state);
    this.#begun = true;
  }
}
for (const name of ['update', 'applyTo', 'swap'] as const) {
  Object.defineProperty(EMA.prototype, name, { value: entry(EMA.prototype[name] as () => unknown) });
}

function checkTensor(what: string, name: string, p: unknown): Tensor {
  if (p instanceof Tensor) return p;
  throw new ArgumentError(`${what}: parameter ${name} is ${describe(p)}: it must be a tensor`);
}
function checkDecay(decay: number): number {
  if (typeof decay === 'number' && decay >= 0 && decay <= 1) return decay;
  throw new ArgumentError(`EMA: decay is ${shown(decay)}: it must be from 0 to 1`);
}
