// A pool of tensors of one type that are created once, lent and returned. Each borrower gets a new handle, which has no value
// after its return: so a tensor cannot be used or returned once another task has it.
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { lossOf } from '../runtime/value.js';
import { currentStep } from '../tensor/scope.js';
import { Tensor } from '../tensor/tensor.js';
import { TPUMemoryPoolError } from './errors.js';

export interface PoolDetails {
  /** The number of its tensors, including those in use. */
  readonly size: number;
  readonly available: number;
  readonly inUse: number;
  /** inUse / size. */
  readonly utilization: number;
  readonly shape: readonly number[];
  readonly dtype: string;
  /** The size of all its tensors. */
  readonly bytes: number;
  /** The number of callers waiting for a tensor. */
  readonly waiting: number;
}

interface Waiter {
  readonly take: (tensor: Tensor) => void;
  readonly fail: (error: Error) => void;
}

export class MemoryPool {
  readonly #idle: Tensor[];
  readonly #out = new Set<Tensor>();
  /** Waiting callers, first come, first served. While one waits, no tensor is idle. */
  readonly #waiting: Waiter[] = [];

  constructor(
    readonly id: string,
    readonly aval: Aval,
    readonly bytesEach: number,
    tensors: readonly Tensor[],
    /** Makes a new handle in place of a returned one: with this value, or zeros. */
    private readonly renew: (before: Tensor, value?: Expr) => Tensor,
  ) {
    this.#idle = [...tensors];
  }

  /** The tensors not in use. */
  get idle(): readonly Tensor[] {
    return this.#idle;
  }

  get details(): PoolDetails {
    const [available, inUse] = [this.#idle.length, this.#out.size];
    const size = available + inUse;
    return {
      size,
      available,
      inUse,
      utilization: inUse / size,
      shape: this.aval.shape,
      dtype: this.aval.dtype,
      bytes: size * this.bytesEach,
      waiting: this.#waiting.length,
    };
  }

  take(): Tensor {
    this.#checkOutside('getTensorFromPool');
    const tensor = this.#idle.pop();
    if (tensor) return this.#lend(tensor);
    const { inUse, waiting } = this.details;
    throw new TPUMemoryPoolError(
      `pool ${this.id} is empty: all ${inUse} of its ${this.aval} are in use${waiting ? `, and ${waiting} callers wait for one` : ''}: return one, ` +
        'wait with waitForTensor or withTensor, or create a larger pool',
      { details: { poolId: this.id, inUse, waiting } },
    );
  }

  wait(): Promise<Tensor> {
    this.#checkOutside('waitForTensor');
    if (this.#idle.length) return Promise.resolve(this.take());
    return new Promise((take, fail) => this.#waiting.push({ take, fail }));
  }

  /** Lends a tensor to `use`, and takes it back even if that throws, unless it was returned already. */
  async with<T>(use: (tensor: Tensor) => T | Promise<T>): Promise<T> {
    const tensor = await this.wait();
    try {
      return await use(tensor);
    } finally {
      if (this.#out.has(tensor)) this.giveBack(tensor);
      else tensor.dispose(); // the pool was cleared
    }
  }

  giveBack(tensor: Tensor): void {
    this.#checkOutside('returnTensorToPool');
    if (!this.#out.delete(tensor)) {
      const what = tensor instanceof Tensor ? `this ${tensor.peek()?.aval ?? 'tensor'}` : String(tensor);
      throw new TPUMemoryPoolError(
        `${what} is not in use from pool ${this.id}: it was returned already, or is not from this pool: return a tensor of getTensorFromPool once`,
        { details: { poolId: this.id } },
      );
    }
    const fresh = this.#reclaim(tensor);
    const next = this.#waiting.shift();
    if (next) next.take(this.#lend(fresh));
    else this.#idle.push(fresh);
  }

  /** Frees idle tensors. Tensors in use stay valid; waiting callers get an error. */
  clear(): void {
    for (const tensor of this.#idle.splice(0)) tensor.release(`was freed with pool ${this.id}, which was cleared`);
    this.#out.clear();
    for (const { fail } of this.#waiting.splice(0))
      fail(
        new TPUMemoryPoolError(
          `pool ${this.id} was cleared while this call waited for one of its tensors: create a new pool`,
        ),
      );
  }

  #lend(tensor: Tensor): Tensor {
    this.#out.add(tensor);
    return tensor;
  }

  /** A new handle with its value, if that still has the lent type (values may differ); else a new tensor of zeros. */
  #reclaim(tensor: Tensor): Tensor {
    const expr = tensor.peek();
    if (!expr || expr.aval !== this.aval || expr.differentiable || lossOf(expr)) return this.renew(tensor);
    const fresh = this.renew(tensor, expr);
    tensor.release(`was returned to pool ${this.id}`); // the value stays: `fresh` has it
    return fresh;
  }

  #checkOutside(what: string): void {
    const step = currentStep();
    if (step)
      throw new TPUMemoryPoolError(
        `${what} inside ${step.name}: a step is traced once and run many times: take and return tensors outside of it`,
      );
  }
}
