// Devices, collectives and changes of models by themselves, as spec 002's XLA integration has them.
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

  /** What tensors are computed on unless they are split: cpu:0. */
  get device(): string {
    return this.devices[0]!;
  }
  /** Those of this process. */
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

  /** Waits until the devices have computed all that was asked of them. What failed there is thrown here. */
  syncAllDevices(): Promise<void> {
    return naming('syncAllDevices', allComputed);
  }

  /** What the plugin tells of a device, by its place in `devices`. */
  async getDeviceStats(index = 0): Promise<DeviceStats> {
    const found = await deviceAt(index);
    const { id, kind, processIndex, attributes } = found;
    return { name: this.devices[index]!, id, kind, processIndex, attributes, memory: found.memory() ?? null };
  }
}
export interface DeviceStats {
  readonly name: string;
  readonly id: number;
  /** As the maker calls it. */
  readonly kind: string;
  readonly processIndex: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** The device's own figures, in bytes; null where it has none (a CPU). */
  readonly memory: {
    readonly bytesInUse: number;
    readonly peakBytesInUse?: number;
    readonly bytesLimit?: number;
  } | null;
}

const OPERATIONS = ['sum', 'mean'] as const;
export type ReduceOperation = (typeof OPERATIONS)[number];

/** Training on all devices: each has the whole model and a part of the batch, and XLA sums gradients on their way. */
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
  /** All devices, along one axis, data. */
  get mesh(): Mesh {
    const { worldSize: size } = this; // before the plugin is started, as many as are expected
    if (this.#mesh?.size !== size) this.#mesh = meshOf({ data: size }, size);
    return this.#mesh;
  }

  /**
   * Gives every device the model. Batches are to be split over the mesh: TPUBackend.prepareData does it. Gradients are those of
   * the whole batch then, on every device.
   */
  wrapModel<M extends Module>(model: M): M {
    if (!(model instanceof Module)) throw new TPUDistributedError(`wrapModel: takes a model, got ${describe(model)}`);
    if (!this.isDistributed) return model;
    log.info('a model is given to all devices', { model: model.constructor.name, devices: this.worldSize });
    return parallelize(model, this.mesh);
  }

  /**
   * The sum or mean of what each device has of the tensor: of its parts where it is split along its first dimension over the
   * devices, of as many equal copies where it is not. So the mean of a gradient, which is that of the whole batch already, is
   * itself. How a tensor lies that is still to be computed is not known, and it counts as whole: tx.sync it before, or spmd.shard
   * it.
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
        `allReduce: ${tensor.aval} is split over ${sharding.axes[0]} of another mesh, ${sharding.mesh}: shard it over the mesh of this one, or reduce it in a spmd.shardMap of its own`,
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

  /** Waits until the devices have done all that was asked of them, and for those of other processes. */
  async barrier(): Promise<void> {
    await naming(
      'barrier',
      async () => {
        await allComputed();
        if (this.isDistributed) await this.allReduce(ones([])).data(); // which none has before all have come to it
      },
      TPUDistributedError,
    );
  }
}

/** Changes of models by themselves, unmeasured: TPUOptimizer compares what they do. */
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

/** The three of them, as spec 002 takes them apart. */
export function createXlaIntegration(
  config?: Configuration,
): [deviceManager: XLADeviceManager, distributed: XLADistributedTraining, optimizations: XLAOptimizations] {
  const deviceManager = new XLADeviceManager(config);
  return [deviceManager, new XLADistributedTraining(deviceManager), new XLAOptimizations(config)];
}
