// Memory of the device: what may be used of it, what is used and by whom, and tensors that are made once and lent.

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

/** What is known of the device: before it is started, a CPU's memory, and nothing of others. */
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
  /** f32 unless told. */
  readonly dtype?: DType;
  readonly requiresGrad?: boolean;
  /** What it is for: the history shows it. */
  readonly purpose?: string;
  /** Takes it out of this pool, whose tensors must be such ones, instead of making it. */
  readonly poolId?: string;
}

export interface AllocationRecord {
  /** As Date.now() tells it. */
  readonly time: number;
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly bytes: number;
  readonly purpose: string;
}

/** All in bytes. */
export interface MemoryStatistics {
  /** What all tensors take on the devices, by our own count. */
  readonly allocatedMemory: number;
  /** The part of it that lies idle in pools. */
  readonly cachedMemory: number;
  /** What is allocated, or promised to tensors handed out; what the device's own allocator has set aside, where that is more. */
  readonly reservedMemory: number;
  /** What is left below the limit. */
  readonly availableMemory: number;
  readonly memoryFraction: number;
  /** Tensors that were handed out and are alive; those that lie idle in pools are not among them. */
  readonly activeTensors: number;
  /** The device's own peak, where it tells; else the most that was allocated since the process began. */
  readonly peakMemory: number;
  readonly limit: number;
  /** The device's whole memory. */
  readonly total: number;
  /** What the device itself tells; null where it tells nothing, as the CPU. */
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
/** What is known of a tensor that was handed out. */
class Handed {
  ref: WeakRef<Tensor> | undefined;
  constructor(
    /** What it counts for among what is promised: nothing once it is on the device. */
    public promised: number,
    /** Who counts it. */
    public by: TPUMemoryManager | undefined,
    readonly poolId: string | undefined,
  ) {}
}
/** It carries that itself: to look it up in a WeakMap would take longer than all else. */
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

/** The history is no longer than twice this. */
const MOST_REMEMBERED = 10_000;

export class TPUMemoryManager {
  readonly config: KernelPyTorchConfig;
  #known = unstarted();
  #last: Expr | undefined;
  #history: Allocation[] = [];
  readonly #handed = new Set<Handed>();
  readonly #collected = new FinalizationRegistry<Handed>((handed) => this.#forget(handed));
  /**
   * Bytes; too many where tensors are on the device since they were counted, never too few. No small integer: V8 would throw
   * away all code of this class when it grows beyond one.
   */
  #promised = -0;
  readonly #pools = new Map<string, MemoryPool>();
  #poolsMade = 0;

  /** From now on programs that need more than the limit are refused, too: a process has one device, and one limit. */
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
  /** What may be used now, in bytes. */
  get limit(): number {
    const { total, kind } = this.#here;
    return limitOf(this.#tpu, total, kind);
  }

  [inspect.custom](): string {
    return `TPUMemoryManager(limit=${bytes(this.limit)}, pools=${this.#pools.size})`;
  }

  // ---- single tensors

  /** Zeros. Their memory is promised now, and taken when they are first computed. */
  allocateTensor(shape: readonly number[], options?: AllocationOptions): Tensor {
    if (options) checkOptions('allocateTensor', ALLOCATION_OPTIONS, options);
    const { dtype = 'f32', requiresGrad = false, purpose = 'unknown', poolId } = options ?? {};
    const zeros = this.#zerosOf(shape, dtype);
    if (requiresGrad && !isFloat(dtype))
      throw new TPUValidationError(
        `allocateTensor: only floats have gradients, and ${zeros.aval} is asked for with requiresGrad`,
      );
    const tensor = poolId === undefined ? this.#make(zeros, purpose) : this.#fromPool(poolId, zeros.aval);
    return requiresGrad ? tensor.requiresGrad_() : tensor;
  }
  /** A node that nobody has: each tensor gets its own, with its own value. Many of one kind come in a row. */
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
      `allocateTensor: ${aval} is asked for, and pool ${poolId} has ${pool.aval}: leave poolId away, or create a pool of this kind`,
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

  /** Frees what allocateTensor gave, now and not when the garbage collector finds it. */
  freeTensor(tensor: Tensor): void {
    const handed = HandedTensor.handed(tensor, this);
    const expr = handed && tensor.peek();
    const problem = !handed
      ? `${tensor instanceof Tensor ? `this ${tensor.aval}` : describe(tensor)} was not allocated here: dispose() frees a tensor of yours`
      : !expr
        ? 'this tensor was freed before: free it once'
        : handed.poolId !== undefined && this.#pools.has(handed.poolId)
          ? `this ${expr.aval} belongs to pool ${handed.poolId}: give it back with returnTensorToPool`
          : undefined;
    if (problem) throw new TPUMemoryError(`freeTensor: ${problem}`);
    this.#forget(handed!);
    tensor.release('was freed');
  }

  /** What was allocated in the last allocationHistoryRetentionSeconds, oldest first; of very many, the last. */
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
   * What counts is what the client has alive, and of the tensors handed out those that are not there yet: they are described
   * and still to be computed. So none counts twice. Of several devices each has its share, where it tells.
   */
  #usage(): { readonly taken: number; readonly live: number; readonly promised: number; readonly waiting: number } {
    let waiting = 0;
    for (const handed of this.#handed) {
      const expr = handed.ref?.deref()?.peek();
      if (!expr) {
        this.#forget(handed); // collected or disposed
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
  /** Whether it surely fits, without a look at each tensor. */
  #fits(required: number): boolean {
    return this.#here.ledger.bytes + this.#promised + required <= this.limit;
  }

  /** Garbage is collected before one looks: a tensor that was looked at lives until the event loop's next turn. */
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
      ...(waiting ? [`${bytes(promised)} are promised to ${plural(waiting, 'tensor')} still to be computed`] : []),
    ];
    throw new TPUOutOfMemoryError(
      `${what}: ${count === 1 ? `${aval} takes` : `${count} of ${aval} take`} ${bytes(required)}, and ${bytes(available)} of ${bytes(limit)} are left: ${uses.join(', ')}. ` +
        `Free some (freeTensor, clearMemoryPools), ask for less, or raise memoryFraction, which is ${this.#tpu.memoryFraction}`,
      { details: fields },
    );
  }

  // ---- pools

  /** Makes so many tensors of zeros of one shape on the device, in one program. Resolves to the pool's id. */
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
      handed.by = undefined; // what is left of it is its owner's
      return this.#handOut(value, each, id);
    };
    this.#remember({ time: Date.now(), aval, bytes: poolSize * each, purpose: id });
    await naming('createMemoryPool', () => compute('memory_pool', ...tensors), TPUMemoryError);
    this.#pools.set(id, new MemoryPool(id, aval, each, tensors, renew));
    return id;
  }

  /** A tensor of the pool, until it is returned. It holds what was left in it. */
  getTensorFromPool(poolId: string): Tensor {
    return this.#pool(poolId).take();
  }
  /** The same when there is one: first come, first served. */
  async waitForTensor(poolId: string): Promise<Tensor> {
    return this.#pool(poolId).wait();
  }
  /** Lends one to `use`, when there is one, and takes it back whatever happens. */
  async withTensor<T>(poolId: string, use: (tensor: Tensor) => T | Promise<T>): Promise<T> {
    return this.#pool(poolId).with(use);
  }
  /** Gives back what the pool gave: that handle, once. It is spent from then on. */
  returnTensorToPool(poolId: string, tensor: Tensor): true {
    this.#pool(poolId).giveBack(tensor);
    return true;
  }

  /** Of one pool, or of all. */
  getPoolStats(poolId?: string): PoolStatistics {
    const pools = poolId === undefined ? [...this.#pools.values()] : [this.#pool(poolId)];
    const poolDetails = Object.fromEntries(pools.map((pool) => [pool.id, pool.details]));
    const totalTensors = Object.values(poolDetails).reduce((n, { size }) => n + size, 0);
    return { totalPools: pools.length, totalTensors, poolDetails };
  }

  /** Frees all pools. Tensors that are out stay valid, and belong to whoever has them. */
  clearMemoryPools(): void {
    for (const pool of this.#pools.values()) pool.clear();
    this.#pools.clear();
  }

  #pool(poolId: string): MemoryPool {
    const pool = this.#pools.get(poolId);
    if (pool) return pool;
    const known = this.#pools.size ? `there are ${[...this.#pools.keys()].join(', ')}` : 'there are none';
    throw new TPUMemoryPoolError(
      `there is no pool ${shown(poolId)}, or no longer: ${known}: createMemoryPool gives the id of a new one; a tensor of a pool that was cleared is yours (dispose() frees it)`,
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
   * Samples of getMemoryStats, one each `interval` seconds for `duration` seconds, as configured unless told. They come
   * whether or not someone asks for them; on a terminal a line shows them.
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
   * The tensor with its last two dimensions filled up with zeros to whole tiles of the chip: of `chip`, else of the TPU that
   * `version` names or that is here, else of a TPU.
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
      ? `${showShape(shape)} is no shape: sizes are whole numbers, at least 0`
      : dtypeMistake(String(dtype));
  if (mistake) throw new TPUValidationError(`${what}: ${mistake}`, { details: { shape, dtype } });
  return Aval.of(dtype, shape);
}
