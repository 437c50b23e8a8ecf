// TPUMemoryManager: the limit on device memory, allocations and their history, statistics, and pools of tensors.

import { inspect } from 'node:util';
import { MOST_SECONDS } from '../base/check.js';
import { byteLength, DTYPES, type DType, dtypeMistake } from '../base/dtype.js';
import { bytes, plural } from '../base/format.js';
import { isFloat } from '../base/promote.js';
import { sameShape, showShape } from '../base/shape.js';
import { describe, shown } from '../base/tree.js';
import { Aval } from '../ir/aval.js';
import { Expr } from '../ir/expr.js';
import { full } from '../ops/prim/constant.js';
import type { Client, DeviceMemory } from '../pjrt/index.js';
import { device } from '../runtime/device.js';
import { collectGarbage, collectNow, limitMemory, machineMemory, wholeOf } from '../runtime/memory.js';
import { isStored } from '../runtime/sharded.js';
import { defaultClient, nodeValue, startedClient } from '../runtime/value.js';
import { compute } from '../step/sync.js';
import { Tensor } from '../tensor/tensor.js';
import { checkCount, checkOptions } from './check.js';
import { type Configuration, chipOf, configOf, type KernelPyTorchConfig, limitOf, type TPUConfig } from './config.js';
import { TPUMemoryError, TPUMemoryPoolError, TPUOutOfMemoryError, TPUValidationError } from './errors.js';
import { type LayoutOptions, optimizeLayout, type TensorLayout } from './layout.js';
import { log } from './log.js';
import { MemoryMonitor, type MonitorOptions } from './monitor.js';
import { naming } from './naming.js';
import { MemoryPool, type PoolDetails } from './pool.js';

/** What is known of the device. Before it is started, only a CPU's memory is known. */
interface Here {
  readonly client: Client | undefined;
  readonly total: number;
  readonly kind: string;
  readonly ledger: { readonly bytes: number };
}
const unstarted = (): Here => ({ client: undefined, total: machineMemory(device()), kind: '', ledger: { bytes: 0 } });
const started = (client: Client): Here => ({
  client,
  total: wholeOf(client),
  kind: client.defaultDevice.kind,
  ledger: client.ledger,
});

export interface AllocationOptions {
  /** Default: 'f32'. */
  readonly dtype?: DType;
  readonly requiresGrad?: boolean;
  /** The purpose, shown in the history. Default: 'unknown'. */
  readonly purpose?: string;
  /** Takes the tensor from this pool, which must hold tensors of this type, instead of creating one. */
  readonly poolId?: string;
}

export interface AllocationRecord {
  /** In the units of Date.now(). */
  readonly time: number;
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly bytes: number;
  readonly purpose: string;
}

/** Memory statistics. Sizes are in bytes. */
export interface MemoryStatistics {
  /** Memory of all tensors on the devices, as counted by tsxla. */
  readonly allocatedMemory: number;
  /** The part of it that is idle in pools. */
  readonly cachedMemory: number;
  /** Memory that is allocated, or reserved for tensors handed out; or that of the device's allocator, if that is more. */
  readonly reservedMemory: number;
  /** Memory left below the limit. */
  readonly availableMemory: number;
  readonly memoryFraction: number;
  /** The number of live tensors that were handed out, without those idle in pools. */
  readonly activeTensors: number;
  /** The peak reported by the device; if it reports none, the most that was allocated since the process started. */
  readonly peakMemory: number;
  readonly limit: number;
  /** Total memory of the device. */
  readonly total: number;
  /** Statistics reported by the device; null if it reports none (CPU). */
  readonly device: DeviceMemory | null;
}

export interface PoolStatistics {
  readonly totalPools: number;
  readonly totalTensors: number;
  readonly poolDetails: Readonly<Record<string, PoolDetails>>;
}

interface Allocation {
  readonly time: number;
  readonly aval: Aval;
  readonly bytes: number;
  readonly purpose: string;
}
/** The bookkeeping of a tensor that was handed out. */
class Handed {
  ref: WeakRef<Tensor> | undefined;
  constructor(
    /** Its share of the promised bytes; 0 once it is on the device. */
    public promised: number,
    /** The manager that counts it. */
    public by: TPUMemoryManager | undefined,
    readonly poolId: string | undefined,
  ) {}
}
/** A tensor with its bookkeeping in a field: looking that up in a WeakMap would dominate the cost. */
class HandedTensor extends Tensor {
  readonly #handed: Handed;
  constructor(expr: Expr, handed: Handed) {
    super(expr);
    this.#handed = handed;
    handed.ref = new WeakRef<Tensor>(this);
  }
  static handed(tensor: Tensor, by: TPUMemoryManager): Handed | undefined {
    const handed = tensor instanceof HandedTensor ? tensor.#handed : undefined;
    return handed?.by === by ? handed : undefined;
  }
}

/** The history has at most twice as many entries. */
const MOST_REMEMBERED = 10_000;

export class TPUMemoryManager {
  readonly config: KernelPyTorchConfig;
  #known = unstarted();
  #last: Expr | undefined;
  #history: Allocation[] = [];
  readonly #handed = new Set<Handed>();
  readonly #collected = new FinalizationRegistry<Handed>((handed) => this.#forget(handed));
  /**
   * Promised bytes: too high if tensors have reached the device since they were counted, never too low. Starts as -0, not as a
   * small integer: V8 would discard the optimized code of this class when the number outgrows one.
   */
  #promised = -0;
  readonly #pools = new Map<string, MemoryPool>();
  #poolsMade = 0;

  /** Side effect: programs that need more than the limit are refused from now on. A process has one device and one limit. */
  constructor(config?: Configuration) {
    this.config = configOf(config);
    const { tpu } = this.config.hardware;
    limitMemory((capacity) => limitOf(tpu, capacity, startedClient()?.defaultDevice.kind));
  }

  get #tpu(): TPUConfig {
    return this.config.hardware.tpu;
  }
  get #here(): Here {
    if (this.#known.client) return this.#known;
    const client = startedClient();
    return client ? (this.#known = started(client)) : this.#known;
  }
  /** The current limit, in bytes. */
  get limit(): number {
    const { total, kind } = this.#here;
    return limitOf(this.#tpu, total, kind);
  }

  [inspect.custom](): string {
    return `TPUMemoryManager(limit=${bytes(this.limit)}, pools=${this.#pools.size})`;
  }

  // ---- single tensors

  /** Returns zeros. Their memory is reserved now, and allocated when they are first computed. */
  allocateTensor(shape: readonly number[], options?: AllocationOptions): Tensor {
    if (options) checkOptions('allocateTensor', ALLOCATION_OPTIONS, options);
    const { dtype = 'f32', requiresGrad = false, purpose = 'unknown', poolId } = options ?? {};
    const zeros = this.#zerosOf(shape, dtype);
    if (requiresGrad && !isFloat(dtype))
      throw new TPUValidationError(
        `allocateTensor: requiresGrad is true, but ${zeros.aval} is not of a floating point dtype`,
      );
    const tensor = poolId === undefined ? this.#make(zeros, purpose) : this.#fromPool(poolId, zeros.aval);
    return requiresGrad ? tensor.requiresGrad_() : tensor;
  }
  /** A node that is not shared: each tensor gets its own value. Calls often repeat the same type. */
  #zerosOf(shape: readonly number[], dtype: DType): Expr {
    const last = this.#last;
    if (last?.dtype === dtype && sameShape(last.shape, shape)) return last;
    return (this.#last = zerosOf(avalOf('allocateTensor', shape, dtype)));
  }
  #make({ op, inputs, attrs, aval }: Expr, purpose: string): Tensor {
    const size = aval.size * DTYPES[aval.dtype].bytes;
    this.#checkFits('allocateTensor', size, aval);
    this.#remember({ time: Date.now(), aval, bytes: size, purpose });
    return this.#handOut(new Expr(op, inputs, attrs, aval, undefined, false), size);
  }
  #fromPool(poolId: string, aval: Aval): Tensor {
    const pool = this.#pool(poolId);
    if (pool.aval === aval) return pool.take();
    throw new TPUMemoryPoolError(
      `allocateTensor: pool ${poolId} has tensors ${pool.aval}, not ${aval}: leave out poolId, or create a pool of this type`,
      { details: { poolId, shape: aval.shape, dtype: aval.dtype } },
    );
  }

  #handOut(expr: Expr, size: number, poolId?: string): Tensor {
    const handed = new Handed(isStored(nodeValue(expr)) ? 0 : size, this, poolId);
    const tensor = new HandedTensor(expr, handed);
    this.#handed.add(handed);
    this.#collected.register(tensor, handed);
    this.#promised += handed.promised;
    return tensor;
  }
  #forget(handed: Handed): void {
    if (!this.#handed.delete(handed)) return;
    this.#promised -= handed.promised;
  }

  /** Frees a tensor of allocateTensor immediately, without waiting for the garbage collector. */
  freeTensor(tensor: Tensor): void {
    const handed = HandedTensor.handed(tensor, this);
    const expr = handed && tensor.peek();
    const problem = !handed
      ? `${tensor instanceof Tensor ? `this ${tensor.aval}` : describe(tensor)} was not allocated by this manager: free it with dispose()`
      : !expr
        ? 'this tensor was freed already: free it once'
        : handed.poolId !== undefined && this.#pools.has(handed.poolId)
          ? `this ${expr.aval} belongs to pool ${handed.poolId}: return it with returnTensorToPool`
          : undefined;
    if (problem) throw new TPUMemoryError(`freeTensor: ${problem}`);
    this.#forget(handed!);
    tensor.release('was freed');
  }

  /** Allocations of the last allocationHistoryRetentionSeconds, oldest first; at least the latest 10,000 of them are kept. */
  getAllocationHistory(): AllocationRecord[] {
    const since = Date.now() - this.#tpu.allocationHistoryRetentionSeconds * 1e3;
    this.#history = this.#history.filter(({ time }) => time >= since);
    return this.#history.map(({ time, aval, bytes, purpose }) => ({
      time,
      shape: aval.shape,
      dtype: aval.dtype,
      bytes,
      purpose,
    }));
  }
  #remember(allocation: Allocation): void {
    if (this.#history.push(allocation) > 2 * MOST_REMEMBERED) this.#history.splice(0, MOST_REMEMBERED);
  }

  // ---- the limit

  /**
   * Counts the client's live buffers, plus tensors handed out that are not computed yet: so none counts twice. With several
   * devices, each counts its own share if it reports memory.
   */
  #usage(): { readonly taken: number; readonly live: number; readonly promised: number; readonly waiting: number } {
    let waiting = 0;
    for (const handed of this.#handed) {
      const expr = handed.ref?.deref()?.peek();
      if (!expr) {
        this.#forget(handed); // garbage-collected or disposed
        continue;
      }
      const promised = isStored(nodeValue(expr)) ? 0 : byteLength(expr.aval);
      this.#promised += promised - handed.promised;
      handed.promised = promised;
      if (promised) waiting++;
    }
    const { client, ledger } = this.#here;
    const own = client && client.addressableDevices.length > 1 ? client.defaultDevice.memory()?.bytesInUse : undefined;
    const live = Math.min(ledger.bytes, own ?? ledger.bytes);
    return { taken: live + this.#promised, live, promised: this.#promised, waiting };
  }
  /** Whether it certainly fits, without checking each tensor. */
  #fits(required: number): boolean {
    return this.#here.ledger.bytes + this.#promised + required <= this.limit;
  }

  /** Collects garbage before checking tensors: a dereferenced tensor lives until the event loop's next turn. */
  #checkFits(what: string, required: number, aval: Aval, count = 1): void {
    if (this.#fits(required)) return;
    if (required <= this.limit) collectNow();
    const { limit } = this;
    const { taken, live, promised, waiting } = this.#usage();
    if (taken + required <= limit) return;
    const available = Math.max(0, limit - taken);
    const cached = this.#cached();
    const fields = {
      required,
      available,
      limit,
      allocated: live,
      promised,
      cached,
      shape: aval.shape,
      dtype: aval.dtype,
    };
    log.error('allocation refused', fields);
    const uses = [
      `${bytes(live)} are on the device${cached ? `, ${bytes(cached)} of them idle in pools` : ''}`,
      ...(waiting ? [`${bytes(promised)} are reserved for ${plural(waiting, 'tensor')} not computed yet`] : []),
    ];
    throw new TPUOutOfMemoryError(
      `${what}: ${count === 1 ? `${aval} takes` : `${count} of ${aval} take`} ${bytes(required)}, and ${bytes(available)} of ${bytes(limit)} are left: ${uses.join(', ')}. ` +
        `Free some (freeTensor, clearMemoryPools), allocate less, or raise memoryFraction, now ${this.#tpu.memoryFraction}`,
      { details: fields },
    );
  }

  // ---- pools

  /** Creates `poolSize` tensors of zeros of one shape on the device, in one program. Resolves to the pool's id. */
  async createMemoryPool(
    poolSize: number,
    tensorSize: readonly number[],
    options: { readonly dtype?: DType } = {},
  ): Promise<string> {
    checkCount('createMemoryPool: poolSize', poolSize, 1);
    checkOptions('createMemoryPool', ['dtype'], options);
    const aval = avalOf('createMemoryPool', tensorSize, options.dtype ?? 'f32');
    const each = byteLength(aval);
    if (!this.#fits(poolSize * each)) await collectGarbage();
    this.#checkFits('createMemoryPool', poolSize * each, aval, poolSize);
    const id = `pool_${++this.#poolsMade}`;
    const make = () => this.#handOut(zerosOf(aval), each, id);
    const tensors = Array.from({ length: poolSize }, make);
    const renew = (before: Tensor, value = zerosOf(aval)) => {
      const handed = HandedTensor.handed(before, this)!;
      this.#forget(handed);
      handed.by = undefined; // its owner keeps the rest
      return this.#handOut(value, each, id);
    };
    this.#remember({ time: Date.now(), aval, bytes: poolSize * each, purpose: id });
    await naming('createMemoryPool', () => compute('memory_pool', ...tensors), TPUMemoryError);
    this.#pools.set(id, new MemoryPool(id, aval, each, tensors, renew));
    return id;
  }

  /** Lends a tensor of the pool until it is returned. It keeps the values of its last use. */
  getTensorFromPool(poolId: string): Tensor {
    return this.#pool(poolId).take();
  }
  /** Waits until the pool has a tensor to lend: first come, first served. */
  async waitForTensor(poolId: string): Promise<Tensor> {
    return this.#pool(poolId).wait();
  }
  /** Waits for a tensor, lends it to `use`, and takes it back even if that throws. */
  async withTensor<T>(poolId: string, use: (tensor: Tensor) => T | Promise<T>): Promise<T> {
    return this.#pool(poolId).with(use);
  }
  /** Returns a tensor of getTensorFromPool to its pool, once. The handle has no value afterwards. */
  returnTensorToPool(poolId: string, tensor: Tensor): true {
    this.#pool(poolId).giveBack(tensor);
    return true;
  }

  /** Statistics of one pool, or of all. */
  getPoolStats(poolId?: string): PoolStatistics {
    const pools = poolId === undefined ? [...this.#pools.values()] : [this.#pool(poolId)];
    const poolDetails = Object.fromEntries(pools.map((pool) => [pool.id, pool.details]));
    const totalTensors = Object.values(poolDetails).reduce((n, { size }) => n + size, 0);
    return { totalPools: pools.length, totalTensors, poolDetails };
  }

  /** Frees all pools. Tensors in use stay valid and belong to their users. */
  clearMemoryPools(): void {
    for (const pool of this.#pools.values()) pool.clear();
    this.#pools.clear();
  }

  #pool(poolId: string): MemoryPool {
    const pool = this.#pools.get(poolId);
    if (pool) return pool;
    const known = this.#pools.size ? `there are ${[...this.#pools.keys()].join(', ')}` : 'there are none';
    throw new TPUMemoryPoolError(
      `there is no pool ${shown(poolId)} (it may have been cleared): ${known}. createMemoryPool returns the id of a new pool; a tensor of a cleared pool is yours: free it with dispose()`,
      { details: { poolId } },
    );
  }
  get #idle(): Tensor[] {
    return [...this.#pools.values()].flatMap((pool) => pool.idle);
  }
  #cached(): number {
    return this.#idle
      .map((tensor) => tensor.peek()!)
      .reduce((sum, expr) => sum + (isStored(nodeValue(expr)) ? byteLength(expr.aval) : 0), 0);
  }

  // ---- figures

  async getMemoryStats(): Promise<MemoryStatistics> {
    const client = await naming('getMemoryStats', defaultClient, TPUMemoryError);
    const own = client.defaultDevice.memory();
    const { limit } = this;
    const { taken } = this.#usage();
    return {
      allocatedMemory: client.ledger.bytes,
      cachedMemory: this.#cached(),
      reservedMemory: Math.max(taken, own?.poolBytes ?? own?.bytesReserved ?? 0),
      availableMemory: Math.max(0, limit - taken),
      memoryFraction: this.#tpu.memoryFraction,
      activeTensors: this.#handed.size - this.#idle.length,
      peakMemory: own?.peakBytesInUse ?? client.ledger.peak,
      limit,
      total: wholeOf(client),
      device: own ?? null,
    };
  }

  /**
   * Samples getMemoryStats every `interval` seconds for `duration` seconds. Defaults: the configuration's. Sampling runs whether
   * or not samples are read; on a terminal a line shows them.
   */
  monitorMemory(options: MonitorOptions = {}): MemoryMonitor {
    const { monitoringIntervalSeconds, monitoringDurationSeconds } = this.#tpu;
    checkOptions('monitorMemory', ['interval', 'duration'], options);
    const { interval = monitoringIntervalSeconds, duration = monitoringDurationSeconds } = options;
    for (const [name, value] of Object.entries({ interval, duration }))
      if (!(value > 0 && value <= MOST_SECONDS))
        throw new TPUValidationError(
          `monitorMemory: ${name} is ${shown(value)}: it must be a number of seconds above 0, at most ${MOST_SECONDS}`,
          {
            details: { [name]: value },
          },
        );
    return new MemoryMonitor(() => this.getMemoryStats(), interval, duration);
  }

  /**
   * Pads the last two dimensions of a tensor with zeros to whole tiles of a chip: `chip`, else the configured TPU or this
   * machine's, else any TPU.
   */
  optimizeTensorLayout(tensor: Tensor, options: LayoutOptions = {}): TensorLayout {
    checkOptions('optimizeTensorLayout', ['chip'], options);
    return optimizeLayout(tensor, options.chip, chipOf(this.#tpu, this.#here.kind));
  }
}

const ALLOCATION_OPTIONS = ['dtype', 'requiresGrad', 'purpose', 'poolId'];

const zerosOf = ({ shape, dtype }: Aval): Expr => full(shape, 0, dtype);
function avalOf(what: string, shape: readonly number[], dtype: DType): Aval {
  const mistake = !Array.isArray(shape)
    ? `takes a shape as an array of sizes, got ${describe(shape)}`
    : shape.some((n) => !Number.isSafeInteger(n) || n < 0)
      ? `${showShape(shape)} is not a shape: sizes must be whole numbers, at least 0`
      : dtypeMistake(String(dtype));
  if (mistake) throw new TPUValidationError(`${what}: ${mistake}`, { details: { shape, dtype } });
  return Aval.of(dtype, shape);
}
