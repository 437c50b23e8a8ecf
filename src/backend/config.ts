// How the backend is to work: specs 002 and 004's fields, as one table of which types, checks, the environment's names and
// what is printed are made. A wrong value is an error where it is set.
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
  /** What it has to be, for an error. */
  readonly kind: string;
  readonly fits: (x: unknown) => x is T;
  /** From the text of an environment variable. */
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

/** Every field, its default, and what it does. docs/backend.md shows this table. */
// biome-ignore format: a table
export const FIELDS = {
  version: oneOf(Object.values(TPUVersion), 'auto', 'the TPU that is meant: its memory is the limit; auto: the one that is here'),
  memoryFraction: number(0.9, { above: 0, most: 1 }, "the part of the device's memory that may be used: what would take more is refused"),
  mixedPrecision: flag(true, 'products in `precision`, sums and losses in f32, and weights that are trained stay f32'),
  precision: oneOf(['bfloat16', 'float32'], 'bfloat16', 'of products; without mixedPrecision of weights and inputs, too'),
  compilationMode: oneOf(Object.values(TPUCompilationMode), 'torch_xla', 'torch_xla: a program for each kind of inputs; xla: for the sample inputs only; pjit: split over all devices'),
  cacheMaxSize: number(100, { least: 1, whole: true }, 'how many prepared and how many compiled models are remembered; the one not used for longest goes first'),
  enableXlaCache: flag(true, 'whether compiled models are remembered, in memory and on disk'),
  compilationTimeoutSeconds: number(300, { above: 0, most: MOST_SECONDS }, 'how long a compile is waited for'),
  allocationHistoryRetentionSeconds: number(3600, { above: 0 }, 'how long allocations are listed in the history'),
  v6eMemoryGb: orNull(number(0, { above: 0 }, "a v6e's memory, where it is not the published one (GiB)")),
  v7MemoryGb: orNull(number(0, { above: 0 }, "the memory of a v7's device, where it is not the published one (GiB)")),
  enableStrictValidation: flag(false, 'warnings are errors, and so is a missing TPU'),
  monitoringIntervalSeconds: number(1, { above: 0, most: MOST_SECONDS }, 'the time between two samples of monitorMemory'),
  monitoringDurationSeconds: number(60, { above: 0, most: MOST_SECONDS }, 'how long monitorMemory goes on'),
  gradientCheckpointing: flag(true, 'blocks are computed again for the gradient, and not kept; where nothing is trained it has no effect'),
  xlaOptimizationLevel: oneOf([0, 1, 2], 2, 'how hard XLA works on CPU and GPU code: 0 little, to debug; 1 some; 2 all. On a TPU it has no effect, which is logged'),
} satisfies Readonly<Record<string, Field<unknown>>>;

type Fields = { -readonly [K in keyof typeof FIELDS]: (typeof FIELDS)[K] extends Field<infer T> ? T : never };
type FieldName = keyof Fields;
const NAMES = Object.keys(FIELDS) as FieldName[];
const fieldOf = (name: FieldName): Field<unknown> => FIELDS[name];

/** TSXLA_TPU_MEMORY_FRACTION */
export const environmentName = (name: string): string => `TSXLA_TPU_${spelled(name).toUpperCase()}`;

export interface TPUConfig extends Fields {}
/** hardware.tpu of a configuration, or a configuration by itself, as in spec 004. */
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
    // Setting what no field is called ends up here: memory_fraction would be there, and have no effect.
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

  /** Takes what the environment says: TSXLA_TPU_MEMORY_FRACTION=0.8 and its like. */
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

/** The configuration of spec 002: a mode, and hardware.tpu. */
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
    if (!found) throw error(`${path}: there is no such file`, {});
    try {
      return new KernelPyTorchConfig(found);
    } catch (e) {
      throw error(`${path}: ${messageOf(e)}`, { cause: e });
    }
  }
  /** From TSXLA_BACKEND_MODE, and TSXLA_TPU_MEMORY_FRACTION and its like. */
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
/** Spec 004's name. */
export { KernelPyTorchConfig as TorchBridgeConfig };

/** Either form; nothing is all defaults. */
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

/** The planner's row of the TPU that is meant; of none where that is up to the device, and it is no TPU. */
export const chipOf = ({ version }: TPUConfig, deviceKind = ''): Chip | undefined =>
  findChip(version === 'auto' ? deviceKind : version);

/** The memory of one device of that TPU, in bytes. */
export function hbmOf({ v6eMemoryGb, v7MemoryGb }: TPUConfig, chip: Chip): number {
  const given: Readonly<Record<string, number | null>> = { v6e: v6eMemoryGb, tpu7x: v7MemoryGb };
  const override = given[chip.name];
  return override ? override * 2 ** 30 : chip.hbm.bytes;
}

/**
 * How many bytes may be used of a device with so much memory: memoryFraction of it, or of what the TPU has that `version`
 * names, if that is less.
 */
export function limitOf(config: TPUConfig, capacity: number, deviceKind = ''): number {
  const chip = chipOf(config, deviceKind);
  return config.memoryFraction * Math.min(capacity, chip ? hbmOf(config, chip) : capacity);
}
