// GradScaler: scales f16 losses up so that small gradients are not lost, and gradients down again. Overflows are detected on
// the device: nothing is read.
import { ArgumentError, DTypeError } from '../base/errors.js';
import { checkOptions as checkNames } from '../base/options.js';
import { wideType } from '../base/promote.js';
import type { Expr } from '../ir/expr.js';
import { entry } from '../ir/source.js';
import { full } from '../ops/prim/constant.js';
import { convert } from '../ops/prim/move.js';
import { add, div, eq, isfinite, logicalAnd, logicalNot, logicalOr, mul, where } from '../ops/prim/pointwise.js';
import { reduceAnd } from '../ops/prim/reduce.js';
import { detach } from '../ops/prim/variable.js';
import { tensor } from '../tensor/create.js';
import { currentStep, dependOn, type StepScope } from '../tensor/scope.js';
import { loadTensors } from '../tensor/state.js';
import { Tensor } from '../tensor/tensor.js';
import type { Optimizer } from './optimizer.js';

export interface GradScalerOptions {
  readonly initScale?: number;
  readonly growthFactor?: number;
  readonly backoffFactor?: number;
  readonly growthInterval?: number;
  /** false: losses and gradients are not scaled. Default: true. */
  readonly enabled?: boolean;
}
/** torch's names. */
export interface GradScalerState {
  readonly scale: Tensor;
  readonly growth_factor: number;
  readonly backoff_factor: number;
  readonly growth_interval: number;
  readonly _growth_tracker: Tensor;
}
// biome-ignore lint/suspicious/noExplicitAny: an optimizer of any options
type AnyOptimizer = Optimizer<any>;

/** The progress of an optimizer since the last update(), in the step that is being described. */
interface Progress {
  readonly step: StepScope | undefined;
  readonly found: Tensor;
  stepped: boolean;
}

/** Scales f16 losses up and gradients down again: scale(loss).backward(), step(optimizer), update(). */
export class GradScaler {
  #options: Required<GradScalerOptions>;
  readonly #scale: Tensor;
  /** Steps without overflow since the scale last changed. */
  readonly #tracker: Tensor;
  #progress = new Map<AnyOptimizer, Progress>();

  constructor(options: GradScalerOptions = {}) {
    checkNames('GradScaler', ['initScale', 'growthFactor', 'backoffFactor', 'growthInterval', 'enabled'], options);
    const {
      initScale = 2 ** 16,
      growthFactor = 2,
      backoffFactor = 0.5,
      growthInterval = 2000,
      enabled = true,
    } = options;
    this.#options = checkOptions({ initScale, growthFactor, backoffFactor, growthInterval, enabled });
    this.#scale = tensor(initScale, { dtype: 'f32' });
    this.#tracker = tensor(0, { dtype: 'i32' });
  }

  isEnabled(): boolean {
    return this.#options.enabled;
  }
  /** Unlike torch: asynchronous. */
  async getScale(): Promise<number> {
    return this.#options.enabled ? await this.#scale.item() : 1;
  }

  /** Scales a loss: call backward() on the result. Unlike torch: an f16 loss is scaled in f32, where it cannot overflow. */
  scale(loss: Tensor): Tensor {
    if (!this.#options.enabled) return loss;
    return new Tensor(mul(convert(loss.expr, wideType(loss.dtype)), this.#scale.expr));
  }

  /** Scales the gradients of an optimizer's parameters down, to use them before step() (clipGradNorm). */
  unscale_(optimizer: AnyOptimizer): void {
    if (!this.#options.enabled) return;
    const before = this.#of(optimizer);
    if (before)
      throw new ArgumentError(
        before.stepped
          ? 'unscale_() after step(): call it before'
          : 'unscale_() has already been called on this optimizer since the last update()',
      );
    const inverse = div(1, this.#scale.expr);
    let fine: Expr = full([], true, 'bool');
    for (const { params, masterWeights } of optimizer.paramGroups) {
      for (const p of params as readonly Tensor[]) {
        if (!p.grad) continue;
        const g = p.grad;
        if (g.dtype === 'f16' && !masterWeights)
          throw new DTypeError(
            `GradScaler: the gradient of an f16 parameter, ${g.aval}, would be lost in f16: keep parameters in f32 and use autocast, or pass masterWeights: true`,
          );
        const wide = mul(convert(detach(g.expr), wideType(g.dtype)), inverse);
        fine = logicalAnd(fine, reduceAnd(isfinite(wide)));
        if (wide.dtype === g.dtype) g.rebind(wide);
        else p.grad = new Tensor(wide);
      }
    }
    this.#progress.set(optimizer, { step: currentStep(), found: new Tensor(logicalNot(fine)), stepped: false });
  }

  /** Calls the optimizer's step, which changes nothing if a gradient is not finite. */
  step(optimizer: AnyOptimizer): PromiseLike<void> {
    if (!this.#options.enabled) return optimizer.step();
    if (!this.#of(optimizer)) this.unscale_(optimizer);
    const progress = this.#of(optimizer)!;
    if (progress.stepped) throw new ArgumentError('step() has already been called since the last update()');
    progress.stepped = true;
    return optimizer.step({ skipIf: progress.found });
  }

  /** Decreases the scale after an overflow, and increases it after many steps without; or sets a given scale from the host. */
  update(newScale?: number): void {
    if (!this.#options.enabled) return;
    const { growthFactor, backoffFactor, growthInterval } = dependOn(this, () => this.#options);
    const seen = [...this.#progress.values()].filter((p) => p.step === currentStep());
    this.#progress = new Map();
    if (newScale !== undefined) {
      this.#scale.copy_(newScale);
      return;
    }
    if (!seen.length)
      throw new ArgumentError('GradScaler: update() was called before step() or unscale_(): call it after the step');
    const found = seen.map((p) => p.found.expr).reduce((a, b) => logicalOr(a, b));
    const [scale, tracker] = [this.#scale.expr, add(this.#tracker.expr, 1)];
    const isLong = eq(tracker, growthInterval);
    const grown = mul(scale, growthFactor);
    const more = where(logicalAnd(isLong, isfinite(grown)), grown, scale);
    this.#scale.rebind(where(found, mul(scale, backoffFactor), more));
    this.#tracker.rebind(where(logicalOr(found, isLong), full([], 0, 'i32'), tracker));
  }

  /** The progress of an optimizer in the current step. */
  #of(optimizer: AnyOptimizer): Progress | undefined {
    const progress = this.#progress.get(optimizer);
    return progress?.step === currentStep() ? progress : undefined;
  }

  stateDict(): GradScalerState | Record<string, never> {
    const { growthFactor, backoffFactor, growthInterval, enabled } = this.#options;
    if (!enabled) return {};
    return {
      scale: this.#scale,
      growth_factor: growthFactor,
      backoff_factor: backoffFactor,
      growth_interval: growthInterval,
      _growth_tracker: this.#tracker,
    };
  }
  /** Loads a state dict of tsxla or torch. */
  loadStateDict(state: object): void {
    if (!this.#options.enabled) return;
    const { growth_factor, backoff_factor, growth_interval, scale, _growth_tracker } = state as GradScalerState;
    const { initScale, enabled } = this.#options;
    const [growthFactor, backoffFactor, growthInterval] = [growth_factor, backoff_factor, growth_interval];
    const asTensor = (x: unknown) => (typeof x === 'number' ? tensor(x) : x);
    const next = checkOptions({ initScale, growthFactor, backoffFactor, growthInterval, enabled });
    loadTensors(
      'GradScaler',
      [
        { tensor: this.#scale, names: ['scale'], stacked: 0 },
        { tensor: this.#tracker, names: ['_growth_tracker'], stacked: 0 },
      ],
      { scale: asTensor(scale), _growth_tracker: asTensor(_growth_tracker) },
    );
    this.#options = next;
  }
}
function checkOptions(options: Required<GradScalerOptions>): Required<GradScalerOptions> {
  const { initScale, growthFactor, backoffFactor, growthInterval } = options;
  if (!(growthFactor > 1))
    throw new ArgumentError(`GradScaler: growthFactor is ${growthFactor}: it must be more than 1`);
  if (!(backoffFactor > 0 && backoffFactor < 1))
    throw new ArgumentError(`GradScaler: backoffFactor is ${backoffFactor}: it must be between 0 and 1`);
  if (!(initScale > 0) || !(Number.isInteger(growthInterval) && growthInterval > 0))
    throw new ArgumentError(
      `GradScaler: initScale ${initScale} and growthInterval ${growthInterval} must be more than 0`,
    );
  return options;
}
for (const name of ['scale', 'unscale_', 'step', 'update'] as const) {
  Object.defineProperty(GradScaler.prototype, name, { value: entry(GradScaler.prototype[name] as () => unknown) });
}
