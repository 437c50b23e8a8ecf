// The configuration classes of TorchTrainer, with Ray Train's names. A table has the check of every field. Contradictions are
// errors before anything is started.
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { isPlain, shown } from '../base/tree.js';
import { parseSteps } from '../profiler/range.js';
import type { SpmdConfig } from '../spmd/index.js';

/** The check of one field: a predicate, and its description for the error. */
interface Field {
  readonly is: (x: never) => boolean;
  readonly must: string;
}
export type Fields<O> = { readonly [K in keyof Required<O>]: Field };

export const wholeField = (least: number, also = ''): Field => ({
  is: (x: unknown) => Number.isSafeInteger(x) && (x as number) >= least,
  must: `a whole number, ${least} or more${also}`,
});
export const text: Field = { is: (x: unknown) => typeof x === 'string' && x !== '', must: 'a non-empty string' };
export const flag: Field = { is: (x: unknown) => typeof x === 'boolean', must: 'true or false' };
const oneOf = (...names: readonly string[]): Field => ({
  is: (x: string) => names.includes(x),
  must: `${names.slice(0, -1).join(', ')}${names.length > 1 ? ' or ' : ''}${names.at(-1)}`,
});
const size = wholeField(1);
/** Sizes of a mesh axis: -1 takes the remaining devices. */
const share: Field = {
  is: (x: unknown) => x === -1 || size.is(x as never),
  must: `${size.must}, or -1 (the remaining devices)`,
};

/** Options that were checked by a table. An option that is not given stays undefined, unless it has a default. */
abstract class Config<O extends object> {
  constructor(fields: Fields<O>, options: O | undefined, defaults: Partial<O> = {}) {
    const what = new.target.name;
    checkFields(what, fields, options instanceof Config ? { ...options } : (options ?? ({} as O)));
    Object.assign(this, defaults, given(options ?? {}));
  }
}
export function checkFields<O extends object>(what: string, fields: Fields<O>, options: O): void {
  checkOptions(what, Object.keys(fields) as (keyof O & string)[], options);
  for (const [name, value] of Object.entries(options)) {
    const { is, must } = fields[name as keyof O];
    if (value !== undefined && !is(value as never))
      throw new ArgumentError(`${what}: ${name} is ${shown(value)}: it must be ${must}`);
  }
}
const given = (options: object): object =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
const nested = (name: string): Field => ({
  is: (x: unknown) => isPlain(x) || x instanceof Config,
  must: `a ${name} or its options`,
});

export type PlacementStrategy = 'PACK' | 'SPREAD' | 'STRICT_PACK' | 'STRICT_SPREAD';
export interface ScalingOptions {
  /** Number of worker processes. Default: 1, which is this process; all its devices are one mesh. */
  readonly numWorkers?: number;
  readonly useTpu?: boolean;
  readonly useGpu?: boolean;
  /** Topology of a TPU slice in chips, such as '2x2x2', or the name of a slice, which includes the type: 'v6e-16', 'v4:2x2x2'. */
  readonly topology?: string;
  /** 'TPU-V4', 'TPU-V6E', or Ray's name of a GPU type. */
  readonly acceleratorType?: string;
  readonly placementStrategy?: PlacementStrategy;
  /** Resources reserved for each worker, such as { CPU: 2 } or { TPU: 4 }. */
  readonly resourcesPerWorker?: Readonly<Record<string, number>>;
}
const SCALING: Fields<ScalingOptions> = {
  numWorkers: wholeField(0, ' (0 and 1: this process)'),
  useTpu: flag,
  useGpu: flag,
  topology: text,
  acceleratorType: text,
  placementStrategy: oneOf('PACK', 'SPREAD', 'STRICT_PACK', 'STRICT_SPREAD'),
  resourcesPerWorker: {
    is: isPlain as (x: unknown) => boolean,
    must: 'an object of amounts by name, as in { TPU: 4 }',
  },
};

/** The number of workers and the devices and resources of each. */
export class ScalingConfig extends Config<ScalingOptions> implements ScalingOptions {
  declare readonly numWorkers?: number;
  declare readonly useTpu?: boolean;
  declare readonly useGpu?: boolean;
  declare readonly topology?: string;
  declare readonly acceleratorType?: string;
  declare readonly placementStrategy?: PlacementStrategy;
  declare readonly resourcesPerWorker?: Readonly<Record<string, number>>;

  constructor(options?: ScalingOptions) {
    super(SCALING, options);
    const { useTpu = false, useGpu = false, topology, acceleratorType, resourcesPerWorker = {} } = this;
    const { TPU, GPU } = resourcesPerWorker;
    const refuse = (why: string): never => {
      throw new ArgumentError(`ScalingConfig: ${why}`);
    };
    if (useTpu && useGpu) refuse('useTpu and useGpu are both true: a worker has one kind of device: choose one');
    for (const [name, amount] of Object.entries(resourcesPerWorker)) {
      const known = ['CPU', 'GPU', 'TPU'].find((k) => k !== name && k === name.toUpperCase());
      if (known) refuse(`resourcesPerWorker has ${name}: Ray's name for it is ${known}`);
      if (!(Number.isFinite(amount) && amount >= 0))
        refuse(`resourcesPerWorker has ${name}: ${shown(amount)}: it must be a number, 0 or more`);
    }
    const ofTpu =
      topology !== undefined
        ? `topology is '${topology}'`
        : /^tpu/i.test(acceleratorType ?? '') && `acceleratorType is '${acceleratorType}'`;
    if (ofTpu && !useTpu) refuse(`${ofTpu}, but useTpu is not set: add useTpu: true, or remove it`);
    if (TPU !== undefined && !useTpu)
      refuse(`resourcesPerWorker has TPU: ${TPU}, but useTpu is not set: add useTpu: true, or remove TPU`);
    if (GPU && !useGpu)
      refuse(`resourcesPerWorker has GPU: ${GPU}, but useGpu is not set: add useGpu: true, or remove GPU`);
    if (useTpu && TPU !== undefined && !size.is(TPU as never))
      refuse(
        `useTpu is true, but resourcesPerWorker has TPU: ${TPU}: give each worker a whole number of chips, 1 or more`,
      );
  }
}

export interface FailureOptions {
  /** How often a failed run is restarted from its last checkpoint; -1: without limit. Default: 0. */
  readonly maxFailures?: number;
}
export class FailureConfig extends Config<FailureOptions> implements FailureOptions {
  declare readonly maxFailures: number;
  constructor(options?: FailureOptions) {
    super({ maxFailures: wholeField(-1, ' (-1: no limit)') }, options, { maxFailures: 0 });
  }
}

export interface CheckpointOptions {
  /** How many checkpoints are kept: the newest, or those with the best score. The last one is always kept. Default: all. */
  readonly numToKeep?: number;
  /** The metric by which checkpoints are scored. Default: none; newer checkpoints are better. */
  readonly checkpointScoreAttribute?: string;
  /** Whether a higher or a lower score is better. Default: 'max'. */
  readonly checkpointScoreOrder?: 'max' | 'min';
}
export class CheckpointConfig extends Config<CheckpointOptions> implements CheckpointOptions {
  declare readonly numToKeep?: number;
  declare readonly checkpointScoreAttribute?: string;
  declare readonly checkpointScoreOrder: 'max' | 'min';
  constructor(options?: CheckpointOptions) {
    const fields = { numToKeep: size, checkpointScoreAttribute: text, checkpointScoreOrder: oneOf('max', 'min') };
    super(fields, options, { checkpointScoreOrder: 'max' });
  }
}

export interface RunOptions {
  /** The run's folder in storagePath. An existing run of this name is resumed. Default: a new name for each run. */
  readonly name?: string;
  /** The folder or address that holds the runs. Default: 'runs'. */
  readonly storagePath?: string;
  readonly failureConfig?: FailureOptions;
  readonly checkpointConfig?: CheckpointOptions;
  /** A folder for TensorBoard curves of worker 0's reports. The x axis is the metric `step`, or else the number of the report. */
  readonly tensorboard?: string;
  /** A folder for profiles of some steps; each report ends a step. Each worker writes one file. */
  readonly profile?: string;
  /** The first step to profile and the one after the last, as 'first:end'. Default: '2:4': programs are compiled by then. */
  readonly profileSteps?: string;
}
const folderName: Field = {
  is: (x: unknown) => typeof x === 'string' && /^\w[\w.-]*$/.test(x),
  must: 'the name of a folder: letters, digits, _ - and .',
};
const RUN: Fields<RunOptions> = {
  name: folderName,
  storagePath: text,
  failureConfig: nested('FailureConfig'),
  checkpointConfig: nested('CheckpointConfig'),
  tensorboard: text,
  profile: text,
  profileSteps: text,
};
export class RunConfig extends Config<RunOptions> implements RunOptions {
  declare readonly name?: string;
  declare readonly storagePath: string;
  declare readonly tensorboard?: string;
  declare readonly profile?: string;
  declare readonly profileSteps?: string;
  readonly failureConfig: FailureConfig;
  readonly checkpointConfig: CheckpointConfig;
  constructor(options?: RunOptions) {
    super(RUN, options, { storagePath: 'runs' });
    if (this.profileSteps !== undefined) parseSteps(this.profileSteps, 'RunConfig: profileSteps');
    if (this.profileSteps !== undefined && this.profile === undefined)
      throw new ArgumentError(
        `RunConfig: profileSteps is '${this.profileSteps}', but profile is not set: set profile to a folder`,
      );
    this.failureConfig = new FailureConfig(options?.failureConfig);
    this.checkpointConfig = new CheckpointConfig(options?.checkpointConfig);
  }
}

export interface XlaSpmdConfig extends SpmdConfig {
  /** 'auto', the only mode: XLA derives all other shardings from those of the parameters. */
  readonly partitioningMode?: 'auto';
}
export interface TorchOptions {
  /** 'xla_tpu' requires useTpu; 'xla' accepts any device. */
  readonly backend?: 'xla' | 'xla_tpu';
  /** The mesh of all devices. Default: all devices on the data axis. */
  readonly xlaSpmdConfig?: XlaSpmdConfig;
}
const SPMD: Fields<XlaSpmdConfig> = {
  meshShape: {
    is: (x: unknown) => Array.isArray(x) && x.length > 0 && x.every((n) => size.is(n as never)),
    must: 'a list of whole numbers from 1, as in [2, 2]',
  },
  dataParallelSize: share,
  modelParallelSize: share,
  fsdpSize: share,
  sequenceParallelSize: share,
  partitioningMode: oneOf('auto'),
};
const TORCH: Fields<TorchOptions> = {
  backend: oneOf('xla', 'xla_tpu'),
  xlaSpmdConfig: { is: isPlain as (x: unknown) => boolean, must: 'an object, as in { dataParallelSize: 4 }' },
};
export class TorchConfig extends Config<TorchOptions> implements TorchOptions {
  declare readonly backend?: 'xla' | 'xla_tpu';
  declare readonly xlaSpmdConfig?: XlaSpmdConfig;
  constructor(options?: TorchOptions) {
    super(TORCH, options);
    if (this.xlaSpmdConfig) checkFields('TorchConfig: xlaSpmdConfig', SPMD, this.xlaSpmdConfig);
  }
}
