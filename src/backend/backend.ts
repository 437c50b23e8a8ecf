// The backend of specs 002 and 004: a device, and models and data brought to it as the configuration says.
import fs from 'node:fs';
import { dirname } from 'node:path';
import { inspect } from 'node:util';
import { type BatchGuidance, batchGuidance } from '../base/chips.js';
import type { HostArray } from '../base/dtype.js';
import { isFloat } from '../base/promote.js';
import { describe, isPlain } from '../base/tree.js';
import { readTorch } from '../io/torch.js';
import { type TorchTree, writeTorch } from '../io/torch-write.js';
import { checkState, Module } from '../nn/module.js';
import type { Optimizer } from '../optim/optimizer.js';
import type { DeviceType } from '../plugins/index.js';
import { absence, announceDevice, device, isChosen, isPresent } from '../runtime/device.js';
import { wholeOf } from '../runtime/memory.js';
import { programCount } from '../runtime/program.js';
import { defaultClient } from '../runtime/value.js';
import { shardBatch } from '../spmd/parallel.js';
import { Tensor } from '../tensor/tensor.js';
import { type CacheStats, ModelCache } from './cache.js';
import type { OptimizationLevel } from './changes.js';
import { checkFile, checkOptions } from './check.js';
import { type CompilationStats, XLACompiler } from './compiler.js';
import { type Configuration, chipOf, configOf, dtypeOf, hbmOf, type KernelPyTorchConfig } from './config.js';
import { allComputed, deviceAt, worldRank, worldSize } from './devices.js';
import { TPUCheckpointError, TPUModelPreparationError, TPUNotAvailableError, TPUValidationError } from './errors.js';
import { ModelForm } from './forward.js';
import { XLADeviceManager, XLADistributedTraining } from './integration.js';
import { log, warnOnce } from './log.js';
import { type MemoryStatistics, TPUMemoryManager } from './memory.js';
import { named, naming } from './naming.js';
import { prepare } from './standing.js';

export interface DeviceInfo {
  readonly deviceType: DeviceType;
  readonly deviceId: number;
  /** As the maker calls it: "TPU v6 lite", "NVIDIA H200", "cpu". */
  readonly deviceName: string;
  /** The plugin's own words. */
  readonly driverVersion: string;
  /** Bytes of the device's memory; null where it does not say. */
  readonly totalMemory: number | null;
  /** What may be used of it. */
  readonly memoryLimit: number;
  /** The planner's name of the TPU that is here, or that the configuration means; null for none. */
  readonly version: string | null;
  /** That TPU's memory, of one device, in bytes. */
  readonly hbm: number | null;
  readonly batchGuidance: BatchGuidance | null;
  readonly worldSize: number;
}

export interface BackendMemoryStats extends MemoryStatistics {
  readonly executables: number;
  /** Programs that are kept to run again. */
  readonly programs: number;
  readonly modelCacheStats: CacheStats;
  readonly compilationCacheStats: CompilationStats['compilationCache'];
}

export interface SaveOptions {
  readonly optimizer?: Optimizer;
  /** True where an optimizer is given, unless told. */
  readonly saveOptimizer?: boolean;
}
export interface LoadModelOptions {
  readonly optimizer?: Optimizer;
  /** True where an optimizer is given, unless told. */
  readonly loadOptimizer?: boolean;
}

/** Everything that holds for any device. Extend it for a backend of your own. */
export class BaseBackend {
  readonly config: KernelPyTorchConfig;
  readonly memory: TPUMemoryManager;
  readonly compiler: XLACompiler;
  readonly #distributed: XLADistributedTraining;
  readonly #prepared: ModelCache<ModelForm>;

  constructor(config?: Configuration) {
    this.config = configOf(config);
    this.memory = new TPUMemoryManager(this.config);
    this.compiler = new XLACompiler(this.config);
    this.#distributed = new XLADistributedTraining(new XLADeviceManager(this.config));
    this.#prepared = new ModelCache('prepared model', () => this.config.hardware.tpu.cacheMaxSize);
  }

  /** What tensors are computed on. */
  get device(): DeviceType {
    return device();
  }
  /** The devices of all processes. */
  get worldSize(): number {
    return worldSize();
  }
  /** The number of this process's first device among them. */
  get rank(): number {
    return worldRank();
  }
  get isDistributed(): boolean {
    return this.worldSize > 1;
  }

  /** What is known of a device, by its place among those of this process. */
  async getDeviceInfo(deviceId = 0): Promise<DeviceInfo> {
    const { kind } = await deviceAt(deviceId);
    const client = await defaultClient();
    const { tpu } = this.config.hardware;
    const chip = chipOf(tpu, kind);
    const total = wholeOf(client);
    return {
      deviceType: this.device,
      deviceId,
      deviceName: kind,
      driverVersion: client.platformVersion,
      totalMemory: Number.isFinite(total) ? total : null,
      memoryLimit: this.memory.limit,
      version: chip?.name ?? null,
      hbm: chip ? hbmOf(tpu, chip) : null,
      batchGuidance: chip ? batchGuidance(chip) : null,
      worldSize: this.worldSize,
    };
  }

  /**
   * Brings a model to the device, the dtype and the shape that the configuration asks for, in place: mixed precision and
   * checkpoints change what its modules compute, not what they are. What was prepared so and is still the same is left alone.
   */
  prepareModel<M extends Module>(model: M, optimizationLevel?: OptimizationLevel): M {
    if (!(model instanceof Module))
      throw new TPUModelPreparationError(`prepareModel: takes a model, got ${describe(model)}`);
    const { precision, mixedPrecision, gradientCheckpointing } = this.config.hardware.tpu;
    const key = `${this.config.mode} ${precision} ${mixedPrecision} ${gradientCheckpointing} ${optimizationLevel}`;
    if (this.#prepared.get(model, key, (form) => form.isStill(model))) return model;
    const name = model.constructor.name;
    if (mixedPrecision && precision === 'float32')
      warnOnce('mixedPrecision has no effect: precision is float32, and there is nothing to mix it with');
    try {
      const changes = prepare(model, this.config, optimizationLevel);
      const isShared = changes.some(({ name, status }) => name === 'sharding' && status === 'applied');
      if (!isShared) this.#distributed.wrapModel(model);
      this.#prepared.set(model, key, new ModelForm(model), undefined);
      log.info('a model is prepared', {
        model: name,
        device: this.device,
        changes: changes.filter((c) => c.status === 'applied').map((c) => c.what),
      });
    } catch (e) {
      throw named(`prepareModel: ${name}`, e, TPUModelPreparationError, { model: name });
    }
    return model;
  }

  /**
   * Data as the model takes them: floats in its dtype, and the batch (dimension 0) split over the devices where there are
   * several and they divide it. Of any tree of lists, objects and Maps; what is no tensor stays as it is.
   */
  prepareData<T>(data: T): T {
    if (data instanceof Promise) throw new TPUValidationError('prepareData: got a Promise: await it first');
    const { tpu } = this.config.hardware;
    const dtype = tpu.mixedPrecision ? undefined : dtypeOf(tpu);
    const mesh = this.isDistributed ? this.#distributed.mesh : undefined;
    const one = (t: Tensor): Tensor => {
      const cast = dtype && isFloat(t.dtype) ? t.to(dtype) : t;
      if (!mesh) return cast;
      if (t.ndim && t.shape[0]! % mesh.size === 0) return shardBatch(cast, mesh);
      warnOnce(`prepareData: ${t.aval} is not split: its first dimension is no multiple of ${mesh.size} devices`);
      return cast;
    };
    return mapTensors(data, one);
  }

  /** Waits until the device has computed all that was asked of it. What failed there is thrown here. */
  synchronize(): Promise<void> {
    return naming('synchronize', allComputed);
  }

  async getMemoryStats(): Promise<BackendMemoryStats> {
    const client = await defaultClient();
    return {
      ...(await this.memory.getMemoryStats()),
      executables: client.live.executables,
      programs: programCount(),
      modelCacheStats: this.#prepared.stats(),
      compilationCacheStats: this.compiler.getCompilationStats().compilationCache,
    };
  }

  /** Forgets which models were prepared and compiled, and frees the compiled programs. */
  clearCache(): void {
    this.#prepared.clear();
    this.compiler.clearCache();
  }

  /** Writes the model, and the optimizer if it is given, as torch.save does: torch.load(path, weights_only=True) reads it. */
  async saveModel(model: Module, path: string, options: SaveOptions = {}): Promise<void> {
    checkFile('saveModel', model, path);
    checkOptions('saveModel', ['optimizer', 'saveOptimizer'], options);
    const { optimizer, saveOptimizer = optimizer !== undefined } = options;
    const refuse = (why: string) => new TPUCheckpointError(`${path} is not written: ${why}`, { details: { path } });
    if (saveOptimizer && !optimizer) throw refuse('saveOptimizer is true, and no optimizer is given');
    if (/\.safetensors$/i.test(path))
      throw refuse('it would be a file of torch by another name: call it .pth, or use writeSafetensors of tsxla/io');
    if (!fs.existsSync(dirname(path))) throw refuse(`there is no folder ${dirname(path)}`);
    const { mode, hardware } = this.config;
    const about = { device: this.device, worldSize: this.worldSize, mode, precision: hardware.tpu.precision };
    await naming(
      `the model cannot be saved in ${path}`,
      () => {
        const state = {
          model_state_dict: model.stateDict(),
          ...(saveOptimizer && { optimizer_state_dict: optimizer!.stateDict() as unknown as TorchTree }),
        };
        // The values of this moment, whatever is trained while they are written.
        const now = mapTensors<typeof state>(state, (t) => t.detach());
        const metadata = { ...about, model: model.constructor.name, written: new Date().toISOString() };
        return writeTorch(path, { ...now, metadata });
      },
      TPUCheckpointError,
      { path },
    );
  }

  /** Reads what saveModel wrote, or a state dict that torch.save did. All of it fits, or nothing is changed. */
  async loadModel<M extends Module>(model: M, path: string, options: LoadModelOptions = {}): Promise<M> {
    checkFile('loadModel', model, path);
    checkOptions('loadModel', ['optimizer', 'loadOptimizer'], options);
    const { optimizer, loadOptimizer = optimizer !== undefined } = options;
    const refuse = (why: string) => new TPUCheckpointError(`${path} is not loaded: ${why}`, { details: { path } });
    if (loadOptimizer && !optimizer) throw refuse('loadOptimizer is true, and no optimizer is given');
    await naming(
      `the model cannot be loaded from ${path}`,
      async () => {
        const file = await readTorch(path);
        if (!(file instanceof Map)) throw refuse('it holds no dict');
        const state = (file.get('model_state_dict') ?? file) as ReadonlyMap<string, HostArray>;
        const learned = file.get('optimizer_state_dict');
        if (loadOptimizer && !(learned instanceof Map)) throw refuse('it has no state of an optimizer');
        const shapeOf = (name: string) => state.get(name)?.shape;
        checkState(model.constructor.name, [...model.stateEntries()], shapeOf, [...state.keys()], true);
        if (loadOptimizer) optimizer!.loadStateDict(learned as object);
        model.loadStateDict(state);
      },
      TPUCheckpointError,
      { path },
    );
    return model;
  }

  toString(): string {
    const { mode } = this.config;
    return `${this.constructor.name}(device=${this.device}, worldSize=${this.worldSize}, mode=${mode})`;
  }
  [inspect.custom](): string {
    return this.toString();
  }
}

/** A tree of lists, objects and Maps with other tensors in it, and what is none as it is. */
function mapTensors<T>(tree: T, one: (t: Tensor) => Tensor): T {
  const walk = (x: unknown): unknown => {
    if (x instanceof Tensor) return one(x);
    if (Array.isArray(x)) return x.map(walk);
    if (x instanceof Map) return new Map([...x].map(([key, value]) => [key, walk(value)]));
    return isPlain(x) ? Object.fromEntries(Object.entries(x).map(([key, value]) => [key, walk(value)])) : x;
  };
  return walk(tree) as T;
}

/** On a TPU; where there is none, on what there is, which is said once, or is an error where validation is strict. */
export class TPUBackend extends BaseBackend {
  constructor(config?: Configuration) {
    super(config);
    const used = device();
    if (used === 'tpu' && !isPresent('tpu'))
      throw new TPUNotAvailableError(
        'PJRT_DEVICE asks for a TPU, and this machine has none: tsxla doctor tells what it has',
      );
    if (used === 'tpu' || isChosen()) return;
    if (this.config.hardware.tpu.enableStrictValidation)
      throw new TPUNotAvailableError(
        `${absence.tpu}, and enableStrictValidation is on: turn it off to use the ${used}, or set PJRT_DEVICE=${used.toUpperCase()} to say that it is meant`,
      );
    warnOnce(`${absence.tpu}: the ${used} is used instead`, { device: used });
    announceDevice();
  }
}
