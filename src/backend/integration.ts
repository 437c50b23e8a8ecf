// The XLA integration from KernelPyTorch's TPU Backend Guide: devices, collectives and model changes as separate classes.
import { inspect } from 'node:util';
import { describe } from '../base/tree.js';
import type { Mesh } from '../ir/mesh.js';
import { Module } from '../nn/module.js';
import { meshOf } from '../spmd/config.js';
import { allReduce as reduceAll, shardMap } from '../spmd/manual.js';
import { parallelize } from '../spmd/parallel.js';
import { shardingOf } from '../spmd/sharding.js';
import { ones } from '../tensor/create.js';
import { Tensor } from '../tensor/tensor.js';
import type { OptimizationLevel } from './changes.js';
import { checkOneOf } from './check.js';
import { type Configuration, configOf, type KernelPyTorchConfig } from './config.js';
import { allComputed, deviceAt, deviceNames, worldRank, worldSize } from './devices.js';
import { TPUDistributedError } from './errors.js';
import { log } from './log.js';
import { named, naming } from './naming.js';
import { prepare } from './standing.js';

export class XLADeviceManager {
  readonly config: KernelPyTorchConfig;
  constructor(config?: Configuration) {
    this.config = configOf(config);
  }

  /** The device of tensors that are not split: cpu:0. */
  get device(): string {
    return this.devices[0]!;
  }
  /** The devices of this process. */
  get devices(): readonly string[] {
    return deviceNames();
  }
  get worldSize(): number {
    return worldSize();
  }
  get rank(): number {
    return worldRank();
  }

  [inspect.custom](): string {
    return `XLADeviceManager(devices=${this.devices})`;
  }

  /** Waits until the devices have finished all requested work. Throws errors of that work. */
  syncAllDevices(): Promise<void> {
    return naming('syncAllDevices', allComputed);
  }

  /** The plugin's data about a device, by its index in `devices`. */
  async getDeviceStats(index = 0): Promise<DeviceStats> {
    const found = await deviceAt(index);
    const { id, kind, processIndex, attributes } = found;
    return { name: this.devices[index]!, id, kind, processIndex, attributes, memory: found.memory() ?? null };
  }
}
export interface DeviceStats {
  readonly name: string;
  readonly id: number;
  /** The vendor's name. */
  readonly kind: string;
  readonly processIndex: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Memory as reported by the device, in bytes; null if it reports none (CPU). */
  readonly memory: {
    readonly bytesInUse: number;
    readonly peakBytesInUse?: number;
    readonly bytesLimit?: number;
  } | null;
}

const OPERATIONS = ['sum', 'mean'] as const;
export type ReduceOperation = (typeof OPERATIONS)[number];

/** Data-parallel training: each device has the whole model and a part of the batch; XLA sums the gradients. */
export class XLADistributedTraining {
  #mesh: Mesh | undefined;
  constructor(readonly deviceManager: XLADeviceManager = new XLADeviceManager()) {
    if (!(deviceManager instanceof XLADeviceManager))
      throw new TPUDistributedError(
        `XLADistributedTraining: takes an XLADeviceManager, got ${describe(deviceManager)}: write new XLADistributedTraining(new XLADeviceManager(config))`,
      );
  }

  get worldSize(): number {
    return this.deviceManager.worldSize;
  }
  get rank(): number {
    return this.deviceManager.rank;
  }
  get isDistributed(): boolean {
    return this.worldSize > 1;
  }
  /** A mesh of all devices along one axis, `data`. */
  get mesh(): Mesh {
    const { worldSize: size } = this; // before the plugin is started, the expected number
    if (this.#mesh?.size !== size) this.#mesh = meshOf({ data: size }, size);
    return this.#mesh;
  }

  /**
   * Replicates the model on every device. Split batches over the mesh with TPUBackend.prepareData: gradients are then those of
   * the whole batch, on every device.
   */
  wrapModel<M extends Module>(model: M): M {
    if (!(model instanceof Module)) throw new TPUDistributedError(`wrapModel: takes a model, got ${describe(model)}`);
    if (!this.isDistributed) return model;
    log.info('model replicated on all devices', { model: model.constructor.name, devices: this.worldSize });
    return parallelize(model, this.mesh);
  }

  /**
   * The sum or mean over the devices: of the tensor's parts if it is split along its first dimension over them, else of one equal
   * copy on each device. So the mean of a gradient, which is that of the whole batch already, is the gradient itself. The sharding
   * of a tensor that is not computed yet is unknown, and it counts as replicated: call tx.sync or spmd.shard on it before.
   */
  allReduce(tensor: Tensor, op: ReduceOperation = 'sum'): Tensor {
    if (!(tensor instanceof Tensor))
      throw new TPUDistributedError(`allReduce: takes a tensor, got ${describe(tensor)}`);
    checkOneOf('allReduce: op', op, OPERATIONS, TPUDistributedError);
    if (!this.isDistributed) return tensor;
    const { mesh } = this;
    const sharding = shardingOf(tensor);
    const isSplit = sharding?.mesh.key === mesh.key && sharding.axes[0]?.includes('data');
    if (!isSplit && sharding?.axes[0]?.length)
      throw new TPUDistributedError(
        `allReduce: ${tensor.aval} is split over ${sharding.axes[0]} of another mesh, ${sharding.mesh}: shard it over this object's mesh, or reduce it in a spmd.shardMap`,
      );
    try {
      return shardMap((part: Tensor) => reduceAll(part, 'data', { op }), {
        mesh,
        in: [isSplit ? ['data'] : []],
        out: [],
      })(tensor);
    } catch (e) {
      throw named(`allReduce over ${this.worldSize} devices`, e, TPUDistributedError);
    }
  }

  [inspect.custom](): string {
    return `XLADistributedTraining(devices=${this.worldSize})`;
  }

  /** Waits until all devices, also those of other processes, have finished all requested work. */
  async barrier(): Promise<void> {
    await naming(
      'barrier',
      async () => {
        await allComputed();
        if (this.isDistributed) await this.allReduce(ones([])).data(); // available only when all processes have reached it
      },
      TPUDistributedError,
    );
  }
}

/** Changes of models without measuring them; TPUOptimizer also compares the outputs. */
export class XLAOptimizations {
  readonly config: KernelPyTorchConfig;
  constructor(config?: Configuration) {
    this.config = configOf(config);
  }
  [inspect.custom](): string {
    return `XLAOptimizations(mode=${this.config.mode})`;
  }

  /** Makes the changes of a level, in place. */
  optimizeModelForXla<M extends Module>(model: M, level: OptimizationLevel = 'balanced'): M {
    prepare(model, this.config, level);
    return model;
  }
}

/** Creates the three objects of KernelPyTorch's TPU Backend Guide. */
export function createXlaIntegration(
  config?: Configuration,
): [deviceManager: XLADeviceManager, distributed: XLADistributedTraining, optimizations: XLAOptimizations] {
  const deviceManager = new XLADeviceManager(config);
  return [deviceManager, new XLADistributedTraining(deviceManager), new XLAOptimizations(config)];
}
