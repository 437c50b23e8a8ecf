// The configuration of the backend: one table of fields, from which types, checks, environment variables and printed text are
// derived. Setting a wrong value throws.
import { inspect } from 'node:util';
import { MOST_SECONDS } from '../base/check.js';
import { type Chip, findChip } from '../base/chips.js';
import type { DType } from '../base/dtype.js';
import { columns, spelled } from '../base/format.js';
import { anyObject, readJsonSync } from '../base/json.js';
import { unknownOption } from '../base/options.js';
import { messageOf } from '../base/thrown.js';
import { describe, isPlain, shown } from '../base/tree.js';
import { checkOneOf, checkOptions } from './check.js';
import { TPUConfigurationError } from './errors.js';

interface Field<T> {
  readonly about: string;
  readonly unset: T;
  /** The accepted values, for errors. */
  readonly kind: string;
  readonly fits: (x: unknown) => x is T;
  /** Parses the text of an environment variable. */
  readonly read: (text: string) => unknown;
}

const oneOf = <const T extends string | number>(values: readonly T[], unset: NoInfer<T>, about: string): Field<T> => ({
  about,
  unset,
  kind: values.join(', '),
  fits: (x): x is T => values.includes(x as T),
  read: (text) => values.find((value) => String(value) === text.toLowerCase()) ?? text,
});
const flag = (unset: boolean, about: string): Field<boolean> => ({
  about,
  unset,
  kind: 'true or false',
  fits: (x) => typeof x === 'boolean',
  read: (text) => ({ true: true, '1': true, false: false, '0': false })[text.toLowerCase()] ?? text,
});
interface Range {
  readonly above?: number;
  readonly least?: number;
  readonly most?: number;
  readonly whole?: boolean;
}
function number(unset: number, range: Range, about: string): Field<number> {
  const { above = Number.NEGATIVE_INFINITY, least = Number.NEGATIVE_INFINITY, most = Number.MAX_VALUE, whole } = range;
  const low = range.above !== undefined ? ` above ${above}` : ` of at least ${least}`;
  return {
    about,
    unset,
    kind: `a ${whole ? 'whole ' : ''}number${low}${range.most === undefined ? '' : `, at most ${most}`}`,
    fits: (x): x is number =>
      typeof x === 'number' && x > above && x >= least && x <= most && (!whole || Number.isSafeInteger(x)),
    read: (text) => (text.trim() && !Number.isNaN(Number(text)) ? Number(text) : text),
  };
}
const orNull = <T>(field: Field<T>): Field<T | null> => ({
  ...field,
  unset: null,
  kind: `${field.kind}, or null`,
  fits: (x): x is T | null => x === null || field.fits(x),
});

export const TPUVersion = { AUTO: 'auto', V4: 'v4', V5E: 'v5e', V5P: 'v5p', V6E: 'v6e', V7: 'v7' } as const;
export type TPUVersion = (typeof TPUVersion)[keyof typeof TPUVersion];
export const TPUCompilationMode = { XLA: 'xla', PJIT: 'pjit', TORCH_XLA: 'torch_xla' } as const;
export type TPUCompilationMode = (typeof TPUCompilationMode)[keyof typeof TPUCompilationMode];

/** Every field, its default and its effect. docs/backend.md shows this table. */
// biome-ignore format: a table
export const FIELDS = {
  version: oneOf(Object.values(TPUVersion), 'auto', "the target TPU: its memory is the limit; auto: this machine's"),
  memoryFraction: number(0.9, { above: 0, most: 1 }, "the fraction of the device's memory that may be used: requests beyond it are refused"),
  mixedPrecision: flag(true, 'compute products in `precision`, sums and losses in f32; trained weights stay f32'),
  precision: oneOf(['bfloat16', 'float32'], 'bfloat16', 'precision of products; without mixedPrecision also of weights and inputs'),
  compilationMode: oneOf(Object.values(TPUCompilationMode), 'torch_xla', 'torch_xla: a program for each kind of inputs; xla: only for the sample inputs; pjit: split over all devices'),
  cacheMaxSize: number(100, { least: 1, whole: true }, 'the number of prepared and of compiled models to cache; the least recently used is evicted first'),
  enableXlaCache: flag(true, 'cache compiled models in memory and on disk'),
  compilationTimeoutSeconds: number(300, { above: 0, most: MOST_SECONDS }, 'the longest time to wait for a compile'),
  allocationHistoryRetentionSeconds: number(3600, { above: 0 }, 'how long allocations stay in the history'),
  v6eMemoryGb: orNull(number(0, { above: 0 }, 'memory of a v6e in GiB, if not the published one')),
  v7MemoryGb: orNull(number(0, { above: 0 }, 'memory of one v7 device in GiB, if not the published one')),
  enableStrictValidation: flag(false, 'warnings and a missing TPU are errors'),
  monitoringIntervalSeconds: number(1, { above: 0, most: MOST_SECONDS }, 'the time between two samples of monitorMemory'),
  monitoringDurationSeconds: number(60, { above: 0, most: MOST_SECONDS }, 'how long monitorMemory runs'),
  gradientCheckpointing: flag(true, 'recompute blocks for the gradient instead of keeping their activations; no effect on inference'),
  xlaOptimizationLevel: oneOf([0, 1, 2], 2, 'optimization of CPU and GPU code by XLA: 0 little, for debugging; 1 some; 2 all. No effect on a TPU, which is logged'),
} satisfies Readonly<Record<string, Field<unknown>>>;

type Fields = { -readonly [K in keyof typeof FIELDS]: (typeof FIELDS)[K] extends Field<infer T> ? T : never };
type FieldName = keyof Fields;
const NAMES = Object.keys(FIELDS) as FieldName[];
const fieldOf = (name: FieldName): Field<unknown> => FIELDS[name];

/** TSXLA_TPU_MEMORY_FRACTION */
export const environmentName = (name: string): string => `TSXLA_TPU_${spelled(name).toUpperCase()}`;

export interface TPUConfig extends Fields {}
/** hardware.tpu of a configuration, or a configuration by itself, as in TorchBridge. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: its fields are defined from the table
export class TPUConfig {
  readonly #values: Record<string, unknown> = Object.fromEntries(NAMES.map((name) => [name, fieldOf(name).unset]));

  constructor(given: Partial<Fields> = {}) {
    if (!(given instanceof TPUConfig)) checkOptions('TPUConfig', NAMES, given, TPUConfigurationError);
    for (const name of NAMES) if (given[name] !== undefined) this.#set(name, given[name]);
  }

  #set(name: FieldName, value: unknown, origin = `TPUConfig.${name}`): void {
    const field = fieldOf(name);
    if (!field.fits(value))
      throw new TPUConfigurationError(`${origin} is ${shown(value)}: it must be ${field.kind} (${field.about})`, {
        details: { field: name, value },
      });
    this.#values[name] = value;
  }

  static {
    for (const name of NAMES)
      Object.defineProperty(TPUConfig.prototype, name, {
        enumerable: true,
        get(this: TPUConfig) {
          return this.#values[name];
        },
        set(this: TPUConfig, value: unknown) {
          this.#set(name, value);
        },
      });
    // Setting an unknown field ends up here: memory_fraction would otherwise be added without any effect.
    const unknown = new Proxy(
      {},
      {
        set(target, name, value, config) {
          if (typeof name === 'symbol') return Reflect.set(target, name, value, config);
          throw new TPUConfigurationError(`TPUConfig: ${unknownOption(NAMES, { [name]: value ?? null })}`);
        },
      },
    );
    Object.setPrototypeOf(TPUConfig.prototype, unknown);
  }

  /** Sets fields from environment variables such as TSXLA_TPU_MEMORY_FRACTION=0.8. */
  readEnvironment(env: NodeJS.ProcessEnv = process.env): this {
    for (const name of NAMES) {
      const text = env[environmentName(name)];
      if (text) this.#set(name, fieldOf(name).read(text), environmentName(name));
    }
    return this;
  }
  static fromEnv(env: NodeJS.ProcessEnv = process.env): TPUConfig {
    return new TPUConfig().readEnvironment(env);
  }

  toJSON(): Fields {
    return { ...this.#values } as unknown as Fields;
  }
  toString(): string {
    return `TPUConfig\n${columns(NAMES.map((name) => [name, shown(this.#values[name]), fieldOf(name).about]))}`;
  }
  [inspect.custom](): string {
    return this.toString();
  }
}

/** The defaults that each mode changes. */
const MODES = {
  inference: { gradientCheckpointing: false },
  training: {},
  development: { gradientCheckpointing: false, xlaOptimizationLevel: 0 },
} as const satisfies Readonly<Record<string, Partial<Fields>>>;
export type Mode = keyof typeof MODES;

export interface ConfigOptions {
  readonly mode?: Mode;
  readonly hardware?: { readonly tpu?: Partial<Fields> | TPUConfig };
}

/** The configuration from KernelPyTorch's TPU Backend Guide: a mode, and hardware.tpu. */
export class KernelPyTorchConfig {
  readonly mode: Mode;
  readonly hardware: { readonly tpu: TPUConfig };

  constructor(options: ConfigOptions = {}) {
    checkOptions('KernelPyTorchConfig', ['mode', 'hardware'], options, TPUConfigurationError);
    const { mode = 'training', hardware = {} } = options;
    checkOneOf('KernelPyTorchConfig: mode', mode, Object.keys(MODES));
    checkOptions('KernelPyTorchConfig.hardware', ['tpu'], hardware, TPUConfigurationError);
    const { tpu } = hardware;
    this.mode = mode;
    this.hardware = { tpu: tpu instanceof TPUConfig ? tpu : new TPUConfig({ ...MODES[mode], ...tpu }) };
    Object.freeze(this.hardware);
    Object.freeze(this); // a mode sets defaults: a later change would have no effect
  }

  /** From a JSON file of the same form: { "mode": "training", "hardware": { "tpu": { "memoryFraction": 0.8 } } }. */
  static fromFile(path: string): KernelPyTorchConfig {
    const error = (message: string, options: ErrorOptions) =>
      new TPUConfigurationError(message, { ...options, details: { path } });
    const found = readJsonSync(path, anyObject, { error });
    if (!found) throw error(`${path} does not exist`, {});
    try {
      return new KernelPyTorchConfig(found);
    } catch (e) {
      throw error(`${path}: ${messageOf(e)}`, { cause: e });
    }
  }
  /** From environment variables: TSXLA_BACKEND_MODE, and one for each field such as TSXLA_TPU_MEMORY_FRACTION. */
  static fromEnv(env: NodeJS.ProcessEnv = process.env): KernelPyTorchConfig {
    const mode = env['TSXLA_BACKEND_MODE'] as Mode | undefined;
    const config = new KernelPyTorchConfig(mode ? { mode } : {});
    config.hardware.tpu.readEnvironment(env);
    return config;
  }

  toString(): string {
    return `KernelPyTorchConfig(mode=${this.mode})\n${this.hardware.tpu}`;
  }
  [inspect.custom](): string {
    return this.toString();
  }
}
/** TorchBridge's name. */
export { KernelPyTorchConfig as TorchBridgeConfig };

/** Either form of configuration; undefined means all defaults. */
export type Configuration = KernelPyTorchConfig | TPUConfig;
export function configOf(config: Configuration | undefined): KernelPyTorchConfig {
  if (config instanceof KernelPyTorchConfig) return config;
  if (config === undefined || config instanceof TPUConfig)
    return new KernelPyTorchConfig(config ? { hardware: { tpu: config } } : {});
  const way = isPlain(config) ? `: write new ${'mode' in config ? 'KernelPyTorchConfig' : 'TPUConfig'}({ ... })` : '';
  throw new TPUConfigurationError(`a KernelPyTorchConfig or a TPUConfig is needed, got ${describe(config)}${way}`);
}

export const dtypeOf = ({ precision }: TPUConfig): DType & ('bf16' | 'f32') =>
  precision === 'bfloat16' ? 'bf16' : 'f32';

/** The planner's row of the configured TPU, or of the device; undefined if that is not a TPU. */
export const chipOf = ({ version }: TPUConfig, deviceKind = ''): Chip | undefined =>
  findChip(version === 'auto' ? deviceKind : version);

/** The memory of one device of that TPU, in bytes. */
export function hbmOf({ v6eMemoryGb, v7MemoryGb }: TPUConfig, chip: Chip): number {
  const given: Readonly<Record<string, number | null>> = { v6e: v6eMemoryGb, tpu7x: v7MemoryGb };
  const override = given[chip.name];
  return override ? override * 2 ** 30 : chip.hbm.bytes;
}

/**
 * The bytes that may be used of a device with this capacity: memoryFraction of it, or of the memory of the TPU named by
 * `version`, if that is less.
 */
export function limitOf(config: TPUConfig, capacity: number, deviceKind = ''): number {
  const chip = chipOf(config, deviceKind);
  return config.memoryFraction * Math.min(capacity, chip ? hbmOf(config, chip) : capacity);
}
