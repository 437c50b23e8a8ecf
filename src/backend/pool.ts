// Tensors of one kind that are made once, lent and given back. Whoever takes one gets a handle of its own: given back, it is
// spent, so that nobody uses or returns what someone else has by now.
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { lossOf } from '../runtime/value.js';
import { currentStep } from '../tensor/scope.js';
import { Tensor } from '../tensor/tensor.js';
import { TPUMemoryPoolError } from './errors.js';

export interface PoolDetails {
  /** How many tensors it has, those that are out included. */
  readonly size: number;
  readonly available: number;
  readonly inUse: number;
  /** inUse / size. */
  readonly utilization: number;
  readonly shape: readonly number[];
  readonly dtype: string;
  /** Of all of them. */
  readonly bytes: number;
  /** How many wait for one. */
  readonly waiting: number;
}

interface Waiter {
  readonly take: (tensor: Tensor) => void;
  readonly fail: (error: Error) => void;
}

export class MemoryPool {
  readonly #idle: Tensor[];
  readonly #out = new Set<Tensor>();
  /** First come, first served. While someone waits, nothing is idle. */
  readonly #waiting: Waiter[] = [];

  constructor(
    readonly id: string,
    readonly aval: Aval,
    readonly bytesEach: number,
    tensors: readonly Tensor[],
    /** Another handle in place of one that came back: of this value, or of zeros. */
    private readonly renew: (before: Tensor, value?: Expr) => Tensor,
  ) {
    this.#idle = [...tensors];
  }

  /** What is there, and not in use. */
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
      `pool ${this.id} has nothing left: all ${inUse} of its ${this.aval} are out${waiting ? `, and ${waiting} wait for one` : ''}: return one, ` +
        'wait with waitForTensor or withTensor, or create a larger pool',
      { details: { poolId: this.id, inUse, waiting } },
    );
  }

  wait(): Promise<Tensor> {
    this.#checkOutside('waitForTensor');
    if (this.#idle.length) return Promise.resolve(this.take());
    return new Promise((take, fail) => this.#waiting.push({ take, fail }));
  }

  /** Lends one to `use`, and takes it back whatever happens, unless that has been done. */
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
        `${what} is not out of pool ${this.id}: it was returned before, or comes from elsewhere: return what getTensorFromPool gave, once`,
        { details: { poolId: this.id } },
      );
    }
    const fresh = this.#reclaim(tensor);
    const next = this.#waiting.shift();
    if (next) next.take(this.#lend(fresh));
    else this.#idle.push(fresh);
  }

  /** Frees what is idle. What is out stays with whoever has it; who waits is told. */
  clear(): void {
    for (const tensor of this.#idle.splice(0)) tensor.release(`went with pool ${this.id}, which was cleared`);
    this.#out.clear();
    for (const { fail } of this.#waiting.splice(0))
      fail(new TPUMemoryPoolError(`pool ${this.id} was cleared while this waited for a tensor of it: create it again`));
  }

  #lend(tensor: Tensor): Tensor {
    this.#out.add(tensor);
    return tensor;
  }

  /** Its value under another handle, if it is as it was lent; what it holds may be another. Else a new one. */
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
        `${what} inside ${step.name}: a step is traced once and run often: take and return tensors outside of it`,
      );
  }
}
