// BaseBackend and TPUBackend of TorchBridge / KernelPyTorch: a device, and models and data prepared for it as configured.
import fs from 'node:fs';
import { dirname } from 'node:path';
import { inspect } from 'node:util';
import { type BatchGuidance, batchGuidance } from '../base/chips.js';
import type { HostArray } from '../base/dtype.js';
import { isFloat } from '../base/promote.js';
import { describe, isPlain } from '../base/tree.js';
import { readTorch } from '../io/torch.js';
import { writeTorch } from '../io/torch-write.js';
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
  /** The vendor's name: "TPU v6 lite", "NVIDIA H200", "cpu". */
  readonly deviceName: string;
  /** The version text of the plugin. */
  readonly driverVersion: string;
  /** Bytes of the device's memory; null if it does not report it. */
  readonly totalMemory: number | null;
  /** The bytes of it that may be used. */
  readonly memoryLimit: number;
  /** The planner's name of this machine's TPU, or of the configured one; null if there is neither. */
  readonly version: string | null;
  /** Memory of one device of that TPU, in bytes. */
  readonly hbm: number | null;
  readonly batchGuidance: BatchGuidance | null;
  readonly worldSize: number;
}

export interface BackendMemoryStats extends MemoryStatistics {
  readonly executables: number;
  /** The number of programs kept for reuse. */
  readonly programs: number;
  readonly modelCacheStats: CacheStats;
  readonly compilationCacheStats: CompilationStats['compilationCache'];
}

export interface SaveOptions {
  readonly optimizer?: Optimizer;
  /** Default: true if an optimizer is given. */
  readonly saveOptimizer?: boolean;
}
export interface LoadModelOptions {
  readonly optimizer?: Optimizer;
  /** Default: true if an optimizer is given. */
  readonly loadOptimizer?: boolean;
}

/** The backend for any device. Extend it to write your own backend. */
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

  /** The type of device that tensors are computed on. */
  get device(): DeviceType {
    return device();
  }
  /** The number of devices of all processes. */
  get worldSize(): number {
    return worldSize();
  }
  /** The index of this process's first device among them. */
  get rank(): number {
    return worldRank();
  }
  get isDistributed(): boolean {
    return this.worldSize > 1;
  }

  /** Properties of a device, by its index among those of this process. */
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
   * Prepares a model for the device as configured, in place: its dtype, mixed precision, checkpointing. Modules keep their class;
   * only their computation changes. A model already prepared with the same settings and unchanged since is left alone.
   */
  prepareModel<M extends Module>(model: M, optimizationLevel?: OptimizationLevel): M {
    if (!(model instanceof Module))
      throw new TPUModelPreparationError(`prepareModel: takes a model, got ${describe(model)}`);
    const { precision, mixedPrecision, gradientCheckpointing } = this.config.hardware.tpu;
    const key = `${this.config.mode} ${precision} ${mixedPrecision} ${gradientCheckpointing} ${optimizationLevel}`;
    if (this.#prepared.get(model, key, (form) => form.isStill(model))) return model;
    const name = model.constructor.name;
    if (mixedPrecision && precision === 'float32')
      warnOnce('mixedPrecision has no effect: precision is float32 already');
    try {
      const changes = prepare(model, this.config, optimizationLevel);
      const isShared = changes.some(({ name, status }) => name === 'sharding' && status === 'applied');
      if (!isShared) this.#distributed.wrapModel(model);
      this.#prepared.set(model, key, new ModelForm(model), undefined);
      log.info('model prepared', {
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
   * Converts data to what the model takes: floats in its dtype, and the batch (dimension 0) split over the devices if there are
   * several and they divide it. Takes any tree of lists, objects and Maps; leaves that are not tensors are left as they are.
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
      warnOnce(`prepareData: ${t.aval} is not split: its first dimension is not a multiple of ${mesh.size} devices`);
      return cast;
    };
    return mapTensors(data, one);
  }

  /** Waits until the device has finished all requested work. Throws errors of that work. */
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

  /** Clears the caches of prepared and compiled models, and frees the compiled programs. */
  clearCache(): void {
    this.#prepared.clear();
    this.compiler.clearCache();
  }

  /** Writes the model, and the optimizer if given, in torch.save's format: torch.load(path, weights_only=True) reads it. */
  async saveModel(model: Module, path: string, options: SaveOptions = {}): Promise<void> {
    checkFile('saveModel', model, path);
    checkOptions('saveModel', ['optimizer', 'saveOptimizer'], options);
    const { optimizer, saveOptimizer = optimizer !== undefined } = options;
    const refuse = (why: string) => new TPUCheckpointError(`${path} was not written: ${why}`, { details: { path } });
    if (saveOptimizer && !optimizer) throw refuse('saveOptimizer is true, but no optimizer is given');
    if (/\.safetensors$/i.test(path))
      throw refuse(
        'its content would be in the format of torch.save: name it .pth, or use writeSafetensors of tsxla/io',
      );
    if (!fs.existsSync(dirname(path))) throw refuse(`folder ${dirname(path)} does not exist`);
    const { mode, hardware } = this.config;
    const about = { device: this.device, worldSize: this.worldSize, mode, precision: hardware.tpu.precision };
    await naming(
      `the model cannot be saved in ${path}`,
      () => {
        const state = {
          model_state_dict: model.stateDict(),
          ...(saveOptimizer && { optimizer_state_dict: optimizer!.stateDict() }),
        };
        // A snapshot of the values: training may continue while they are written.
        const now = mapTensors<typeof state>(state, (t) => t.detach());
        const metadata = { ...about, model: model.constructor.name, written: new Date().toISOString() };
        return writeTorch(path, { ...now, metadata });
      },
      TPUCheckpointError,
      { path },
    );
  }

  /** Reads a file of saveModel, or a state dict of torch.save. If anything does not fit, nothing is changed. */
  async loadModel<M extends Module>(model: M, path: string, options: LoadModelOptions = {}): Promise<M> {
    checkFile('loadModel', model, path);
    checkOptions('loadModel', ['optimizer', 'loadOptimizer'], options);
    const { optimizer, loadOptimizer = optimizer !== undefined } = options;
    const refuse = (why: string) => new TPUCheckpointError(`${path} was not loaded: ${why}`, { details: { path } });
    if (loadOptimizer && !optimizer) throw refuse('loadOptimizer is true, but no optimizer is given');
    await naming(
      `the model cannot be loaded from ${path}`,
      async () => {
        const file = await readTorch(path);
        if (!(file instanceof Map)) throw refuse('it does not contain a dict');
        const state = (file.get('model_state_dict') ?? file) as ReadonlyMap<string, HostArray>;
        const learned = file.get('optimizer_state_dict');
        if (loadOptimizer && !(learned instanceof Map)) throw refuse('it contains no optimizer state');
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

/** Maps the tensors in a tree of lists, objects and Maps; other leaves are kept. */
function mapTensors<T>(tree: T, one: (t: Tensor) => Tensor): T {
  const walk = (x: unknown): unknown => {
    if (x instanceof Tensor) return one(x);
    if (Array.isArray(x)) return x.map(walk);
    if (x instanceof Map) return new Map([...x].map(([key, value]) => [key, walk(value)]));
    return isPlain(x) ? Object.fromEntries(Object.entries(x).map(([key, value]) => [key, walk(value)])) : x;
  };
  return walk(tree) as T;
}

/** A backend on a TPU. Without a TPU it warns once and uses another device, or throws if enableStrictValidation is on. */
export class TPUBackend extends BaseBackend {
  constructor(config?: Configuration) {
    super(config);
    const used = device();
    if (used === 'tpu' && !isPresent('tpu'))
      throw new TPUNotAvailableError('PJRT_DEVICE is TPU, but this machine has none: tsxla doctor lists its devices');
    if (used === 'tpu' || isChosen()) return;
    if (this.config.hardware.tpu.enableStrictValidation)
      throw new TPUNotAvailableError(
        `${absence.tpu}, and enableStrictValidation is on: to use the ${used}, turn it off or set PJRT_DEVICE=${used.toUpperCase()}`,
      );
    warnOnce(`${absence.tpu}: using the ${used} instead`, { device: used });
    announceDevice();
  }
}
