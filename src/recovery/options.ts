// The options of recovery training, in one table. Types, the command's flags and help, checks and the table in the docs are derived
// from it. Names are those of the original's flags, in camelCase.
import fs from 'node:fs';
import path from 'node:path';
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { parseTopology } from '../base/slices.js';
import { shown } from '../base/tree.js';
import { parseSteps } from '../profiler/range.js';
import { PRESET_NAMES } from '../quant/presets.js';
import { addressFromEnv } from '../train/ray/address.js';

type Kind = 'text' | 'texts' | 'number' | 'whole' | 'switch' | readonly string[];
export interface Flag {
  readonly kind: Kind;
  readonly group: string;
  readonly text: string;
  /** Help of the --no flag of a switch whose default is on. */
  readonly off?: string;
  /** The default value; `otherwise` describes a default that depends on other options. */
  readonly default?: number | string | boolean;
  readonly otherwise?: string;
  readonly least?: number;
  readonly most?: number;
  /** The number must be larger. */
  readonly above?: number;
  /** The option has no effect unless one of these is given. */
  readonly needs?: readonly string[];
  /** A resumed run may change it. */
  readonly free?: true;
}

const MODEL = 'Model and place';
const DATA = 'Data';
const ADAPTERS = 'Adapters';
const LOSS = 'Loss';
const TRAINING = 'Training';
const WATCHING = 'Watching and saving';
const WORKERS = 'Several processes and machines';

const DTYPE_NAMES = ['float32', 'float16', 'bfloat16', 'f32', 'f16', 'bf16'] as const;

// biome-ignore format: a table
export const FLAGS = {
  model: { group: MODEL, kind: 'text', text: 'the student: a folder that tsxla quantize wrote, the folder of any supported model, or its name on the hub' },
  v2Checkpoint: { group: MODEL, kind: 'text', text: "a quantized checkpoint of that model in the original's format: a folder, or a .pt or .safetensors file" },
  quantize: { group: MODEL, kind: PRESET_NAMES, text: 'quantize a plain model first; it is stored in student/ of --output' },
  output: { group: MODEL, kind: 'text', default: 'runs/recovery_lora', free: true, text: 'the folder of the run: adapters, checkpoints, metrics' },
  device: { group: MODEL, kind: ['auto', 'cpu', 'cuda', 'tpu', 'mps'], default: 'auto', free: true, text: 'the device to train on; auto: PJRT_DEVICE, else the best one available' },
  tpu: { group: MODEL, kind: 'switch', default: false, free: true, text: 'the same as --device tpu' },
  mesh: { group: MODEL, kind: 'text', free: true, otherwise: 'one device; with several workers on GPUs or TPUs, or with --topology, data=-1; with XLA_USE_SPMD=1 the mesh of XLA_MESH_SHAPE etc.', text: 'the mesh of all devices: data=2,fsdp=4, or model=2; -1 takes the remaining devices' },
  dtype: { group: MODEL, kind: DTYPE_NAMES, otherwise: 'bf16; on a CPU f32', text: 'the dtype of weights and activations; adapters and their optimizer are f32' },
  mixedPrecision: { group: MODEL, kind: 'switch', default: false, text: 'keep weights in f32 and compute matrix products in bf16' },
  xlaCacheDir: { group: MODEL, kind: 'text', free: true, text: 'cache compiled programs in this folder' },

  kdCacheDir: { group: DATA, kind: 'text', text: "train on a KD cache (of tsxla kd-cache, or in the original's format)" },
  preload: { group: DATA, needs: ['kdCacheDir'], kind: 'switch', default: false, free: true, text: 'keep the whole cache in memory' },
  trainData: { group: DATA, kind: 'texts', text: 'train on .jsonl, .parquet or .txt files instead, also hf://datasets/OWNER/NAME/PATTERN' },
  textField: { group: DATA, needs: ['trainData', 'evalData'], kind: 'text', default: 'text', text: 'the field or column that has the text' },
  datasetFormat: { group: DATA, needs: ['trainData'], kind: ['text', 'alpaca', 'sharegpt'], default: 'text', text: 'the format of the objects in those files' },
  templateMode: { group: DATA, needs: ['trainData'], kind: ['none', 'no-think', 'think', 'both', 'all'], default: 'none', text: 'apply the chat template: without thinking, with thinking, both, or both and as plain text' },
  seqLen: { group: DATA, kind: 'whole', least: 2, otherwise: "the cache's, else 1024", text: 'number of tokens in a sequence' },
  shuffle: { group: DATA, kind: 'switch', default: true, text: 'a new order in every epoch', off: 'use the same order in every epoch' },
  seed: { group: DATA, kind: 'whole', least: 0, default: 0, text: 'seed of the order, of dropout and of new adapters' },

  recoveryR: { group: ADAPTERS, kind: 'whole', least: 1, default: 8, text: 'the rank of the adapters' },
  recoveryAlpha: { group: ADAPTERS, kind: 'number', above: 0, otherwise: 'the rank', text: 'the output of an adapter is multiplied by alpha / rank' },
  dropout: { group: ADAPTERS, kind: 'number', least: 0, most: 0.99, default: 0, text: "dropout probability of the adapters' inputs" },
  mlpOnly: { group: ADAPTERS, kind: 'switch', default: false, text: 'adapters on gate, up and down only' },
  includeKProj: { group: ADAPTERS, kind: 'switch', default: false, text: 'adapters on k as well' },
  resumeFrom: { group: ADAPTERS, kind: 'text', text: "start from these adapters: a folder in PEFT's format, or a file" },
  freezeMags: { group: ADAPTERS, kind: 'switch', default: false, text: "in the original's format: do not train the magnitudes of scales" },
  freezeMagsMlp: { group: ADAPTERS, kind: 'switch', default: false, text: 'the same for the MLP only' },
  freezeAll: { group: ADAPTERS, kind: 'switch', default: false, text: 'train only the adapters' },
  trainNorms: { group: ADAPTERS, kind: 'switch', default: false, text: 'also train the norms' },
  trainEmbeddings: { group: ADAPTERS, kind: 'switch', default: false, text: 'also train the embeddings' },
  trainLmHead: { group: ADAPTERS, kind: 'switch', default: false, text: 'also train the head' },

  loraMode: { group: LOSS, kind: ['recover', 'sft', 'kd'], otherwise: 'kd with a cache or a teacher, else recover', text: "the target. recover: every token; sft: tokens of answers; kd: a teacher's distribution" },
  teacher: { group: LOSS, kind: 'text', text: 'a teacher model that runs beside the student, if there is no cache' },
  kdTemperature: { group: LOSS, needs: ['kdCacheDir', 'teacher'], kind: 'number', above: 0, default: 2, text: 'temperature of both distributions' },
  kdAlpha: { group: LOSS, needs: ['kdCacheDir', 'teacher'], kind: 'number', least: 0, most: 1, otherwise: '1 with a cache, 0.5 with --teacher', text: "weight of the teacher's loss; the rest is the loss on the text" },
  hardTop1: { group: LOSS, needs: ['kdCacheDir'], kind: 'number', least: 0, default: 0, text: "weight of the loss on the teacher's top token, over the candidates" },
  hardTop1End: { group: LOSS, needs: ['kdCacheDir'], kind: 'number', least: 0, otherwise: 'the same as --hard-top1', text: 'value of --hard-top1 at the end of the run' },
  hardFull: { group: LOSS, needs: ['kdCacheDir'], kind: 'number', least: 0, default: 0, text: "weight of the loss on the teacher's top token, over the whole vocabulary" },
  anchorKlWeight: { group: LOSS, kind: 'number', least: 0, default: 0, text: 'weight of the KL divergence from the student without adapters' },
  anchorSamples: { group: LOSS, needs: ['anchorKlWeight'], kind: 'whole', least: 1, default: 32, text: 'number of sequences on which that is measured' },
  anchorInterval: { group: LOSS, needs: ['anchorKlWeight'], kind: 'whole', least: 1, default: 1, text: 'steps between two measurements' },
  compute: { group: LOSS, needs: ['kdCacheDir'], kind: ['auto', 'gather', 'dense'], default: 'auto', text: 'compute logits of candidates from their rows of the head (gather) or from all rows (dense); auto: the faster one on this device' },

  maxSteps: { group: TRAINING, kind: 'whole', least: 1, default: 1000, text: 'number of optimizer steps' },
  batchSize: { group: TRAINING, kind: 'whole', least: 1, default: 4, text: 'number of sequences in a batch' },
  accumulationSteps: { group: TRAINING, kind: 'whole', least: 1, default: 1, text: 'batches per optimizer step, as a loop in one program' },
  lr: { group: TRAINING, kind: 'number', above: 0, default: 3e-4, text: 'the highest learning rate' },
  warmupSteps: { group: TRAINING, kind: 'whole', least: 0, otherwise: '100, at most a tenth of --max-steps', text: 'steps until --lr is reached' },
  minLrRatio: { group: TRAINING, kind: 'number', least: 0, most: 1, default: 0.1, text: 'the final learning rate, as a fraction of --lr' },
  constantLr: { group: TRAINING, kind: 'switch', default: false, text: 'keep the learning rate constant after the warm-up, without cosine decay' },
  weightDecay: { group: TRAINING, kind: 'number', least: 0, default: 0, text: 'weight decay of AdamW' },
  gradClip: { group: TRAINING, kind: 'number', least: 0, default: 1, text: 'the largest norm of all gradients; 0: no clipping' },
  gradientCheckpointing: { group: TRAINING, kind: ['none', 'light', 'full'], otherwise: 'full on a TPU, light on a GPU, none on a CPU', text: 'what layers recompute in the backward pass. light: norms and gates; full: everything, for less memory and a third more work' },
  scanLayers: { group: TRAINING, kind: 'switch', otherwise: 'on, except on a GPU', text: 'run the layers as one loop, which compiles as fast as a single layer', off: 'run the layers one by one: compiles slower, may run faster' },

  workers: { group: WORKERS, kind: 'whole', least: 1, default: 1, free: true, otherwise: "1; with --topology the slice's number of hosts", text: 'number of processes that train one student, each with a part of every batch; on CPUs unless --device is given' },
  ray: { group: WORKERS, kind: 'text', free: true, otherwise: 'RAY_ADDRESS, if there are several workers', text: 'the address of a Ray cluster that runs the workers, such as http://head:8265; all its machines must share the files' },
  topology: { group: WORKERS, needs: ['ray'], kind: 'text', free: true, text: 'the TPU slice to reserve there: v6e-16, v4:2x2x2' },
  maxFailures: { group: WORKERS, kind: 'whole', least: -1, default: 3, free: true, text: 'how often failed workers restart from the last checkpoint; -1: no limit' },

  logInterval: { group: WATCHING, kind: 'whole', least: 1, default: 50, free: true, text: 'steps between two lines of metrics.jsonl' },
  saveSteps: { group: WATCHING, kind: 'whole', least: 1, default: 500, free: true, text: 'steps between two checkpoints' },
  keepCheckpoints: { group: WATCHING, kind: 'whole', least: 1, default: 3, free: true, text: 'number of newest checkpoints to keep, in addition to the best' },
  tensorboard: { group: WATCHING, kind: 'text', free: true, text: 'write curves for TensorBoard into this folder' },
  profile: { group: WATCHING, kind: 'text', free: true, text: 'profile some steps into this folder: for tsxla profile, TensorBoard and Perfetto' },
  profileSteps: { group: WATCHING, needs: ['profile'], kind: 'text', default: '10:15', free: true, text: 'the steps to profile: the first, and the one after the last' },
  evalData: { group: WATCHING, kind: 'texts', text: 'evaluate perplexity on these files' },
  evalSteps: { group: WATCHING, needs: ['evalData'], kind: 'whole', least: 0, default: 0, free: true, text: 'steps between two evaluations; 0: at the start and at the end only' },
  evalSamples: { group: WATCHING, needs: ['evalData'], kind: 'whole', least: 0, default: 0, text: 'number of sequences to evaluate; 0: all' },
  samplePrompt: { group: WATCHING, kind: 'text', free: true, text: 'continue this text before the first step and after the last; --board and reports show it' },
  board: { group: WATCHING, kind: 'switch', default: false, free: true, text: 'show the run in the browser while it trains: prints a link' },
  resume: { group: WATCHING, kind: 'switch', default: false, free: true, text: 'resume the run in --output exactly where it stopped' },
  overwrite: { group: WATCHING, kind: 'switch', default: false, free: true, text: 'remove the run in --output and start a new one' },
  verbose: { group: WATCHING, kind: 'switch', default: false, free: true, text: 'print the phases of every step' },
} as const satisfies Readonly<Record<string, Flag>>;

type Name = keyof typeof FLAGS;
type ValueOf<K> = K extends 'text'
  ? string
  : K extends 'texts'
    ? readonly string[]
    : K extends 'number' | 'whole'
      ? number
      : K extends 'switch'
        ? boolean
        : K extends readonly (infer C)[]
          ? C
          : never;
type WithDefault = {
  readonly [N in Name as (typeof FLAGS)[N] extends { default: unknown } ? N : never]: ValueOf<
    (typeof FLAGS)[N]['kind']
  >;
};
type WithoutDefault = {
  readonly [N in Name as N extends keyof WithDefault ? never : N]?: ValueOf<(typeof FLAGS)[N]['kind']> | undefined;
};

/** The options of trainRecoveryLora: the command's flags in camelCase. */
export type RecoveryOptions = Partial<WithDefault> & WithoutDefault & { readonly model: string };
/** Checked options, with the defaults of the table. */
export type Settings = WithDefault & WithoutDefault & { readonly model: string };

/** The flag of an option: --recovery-r of recoveryR. */
export const flagOf = (name: string): string => `--${name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`;

/** Checks options and adds defaults. Throws for the first wrong one, by its flag. */
export function settle(given: RecoveryOptions): Settings {
  checkOptions('trainRecoveryLora', Object.keys(FLAGS) as Name[], given);
  const named = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  for (const [name, value] of Object.entries(named)) checkValue(flagOf(name), FLAGS[name as Name], value);
  const defaults = Object.entries(FLAGS as Readonly<Record<string, Flag>>).flatMap(([name, flag]) =>
    flag.default === undefined ? [] : [[name, flag.default] as const],
  );
  const settings = { ...Object.fromEntries(defaults), ...named } as unknown as Settings;
  const { topology, workers } = settings;
  const ray = settings.ray ?? (workers > 1 || topology ? addressFromEnv() : undefined);
  const all = ray === undefined ? settings : { ...settings, ray };
  checkTogether(all);
  parseSteps(all.profileSteps, flagOf('profileSteps'));
  return topology ? { ...all, workers: Math.max(workers, parseTopology(topology).hosts) } : all;
}

export const defaultOf = (name: string): unknown => (FLAGS as Readonly<Record<string, Flag>>)[name]?.default;

/** The settings that must be the same in a resumed run. */
export const fixed = (s: Settings): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(s).filter(([name]) => !(FLAGS as Readonly<Record<string, Flag>>)[name]?.free));

function checkValue(flag: string, { kind, least, most, above }: Flag, value: unknown): void {
  const wrong = (what: string) => new ArgumentError(`${flag} is ${shown(value)}: ${what}`);
  if (typeof kind === 'object') {
    if (!kind.includes(value as string)) throw wrong(`it must be one of ${kind.join(', ')}`);
  } else if (kind === 'number' || kind === 'whole') {
    const n = value as number;
    const fits =
      (kind === 'whole' ? Number.isSafeInteger(n) : Number.isFinite(n)) && !(n < (least ?? n)) && !(n > (most ?? n));
    if (fits && !(n <= (above ?? Number.NEGATIVE_INFINITY))) return;
    const range = [
      above !== undefined && `above ${above}`,
      least !== undefined && `at least ${least}`,
      most !== undefined && `at most ${most}`,
    ].filter(Boolean);
    throw wrong(
      `it must be a ${kind === 'whole' ? 'whole number' : 'number'}${range.length ? `, ${range.join(', ')}` : ''}`,
    );
  } else if (kind === 'switch' && typeof value !== 'boolean') throw wrong('it must be true or false');
  else if (kind === 'text' && typeof value !== 'string') throw wrong('it must be a string');
  else if (kind === 'text' && !value) throw wrong('it must not be empty');
  else if (kind === 'texts' && !(Array.isArray(value) && value.length && value.every((v) => typeof v === 'string')))
    throw wrong('it must be a list of files');
}

/** Throws for options that contradict each other. */
function checkTogether(s: Settings): void {
  const data = [s.kdCacheDir && '--kd-cache-dir', s.trainData && '--train-data'].filter(Boolean);
  if (!s.model) throw new ArgumentError('--model is missing: the folder of a model, or its name on the hub');
  if (!data.length)
    throw new ArgumentError('no training data: pass --kd-cache-dir (tsxla kd-cache makes one) or --train-data FILES');
  const conflicts: [boolean, string][] = [
    [data.length > 1, '--kd-cache-dir and --train-data are both given: pass one of them'],
    [
      !!s.kdCacheDir && !!s.teacher,
      "--kd-cache-dir and --teacher are both given, and the cache has a teacher's logits already: pass one of them",
    ],
    [
      !!s.kdCacheDir && s.loraMode !== undefined && s.loraMode !== 'kd',
      `--kd-cache-dir needs --lora-mode kd, not ${s.loraMode}`,
    ],
    [s.loraMode === 'kd' && !s.kdCacheDir && !s.teacher, '--lora-mode kd needs --kd-cache-dir or --teacher'],
    [
      !!s.teacher && s.loraMode !== undefined && s.loraMode !== 'kd',
      `--teacher needs --lora-mode kd, not ${s.loraMode}`,
    ],
    [
      s.tpu && s.device !== 'auto' && s.device !== 'tpu',
      `--tpu and --device ${s.device} are both given: pass one of them`,
    ],
    [
      s.topology !== undefined && !['auto', 'tpu'].includes(s.device),
      `--topology is for TPUs, but --device is ${s.device}: pass one of them`,
    ],
    [s.mlpOnly && s.includeKProj, '--mlp-only and --include-k-proj are both given: pass one of them'],
    [
      s.freezeAll && (s.trainNorms || s.trainEmbeddings || s.trainLmHead),
      '--freeze-all trains only the adapters: leave out --train-norms, --train-embeddings and --train-lm-head',
    ],
    [s.resume && s.overwrite, '--resume and --overwrite are both given: pass one of them'],
    [
      !!s.v2Checkpoint && !!s.quantize,
      '--v2-checkpoint and --quantize are both given, and the checkpoint is quantized already: pass one of them',
    ],
    [s.hardFull > 0 && s.compute === 'gather', '--hard-full needs the whole vocabulary: leave --compute gather out'],
    [
      (s.warmupSteps ?? 0) >= s.maxSteps,
      `--warmup-steps is ${s.warmupSteps}: it must be less than --max-steps, which is ${s.maxSteps}`,
    ],
    [
      s.mixedPrecision && !['float32', 'f32', undefined].includes(s.dtype),
      `--mixed-precision needs --dtype f32, not ${s.dtype}`,
    ],
    [
      s.constantLr && s.minLrRatio !== FLAGS.minLrRatio.default,
      '--constant-lr and --min-lr-ratio are both given: pass one of them',
    ],
  ];
  for (const [wrong, text] of conflicts) if (wrong) throw new ArgumentError(text);
  for (const [name, { needs, default: otherwise }] of Object.entries(FLAGS as Readonly<Record<string, Flag>>)) {
    const value = s[name as Name];
    if (!needs || value === undefined || value === otherwise || needs.some((other) => s[other as Name])) continue;
    throw new ArgumentError(`${flagOf(name)} does nothing without ${needs.map(flagOf).join(' or ')}: leave it out`);
  }
}

const FILES = ['model', 'v2Checkpoint', 'kdCacheDir', 'trainData', 'evalData', 'resumeFrom', 'teacher'] as const;
/** Makes paths of existing files absolute; other names may be on the hub. */
export function placed<S extends Partial<Settings>>(s: S): S {
  const whole = (name: string) => (fs.existsSync(name) ? path.resolve(name) : name);
  const found = FILES.flatMap((name) => {
    const value = s[name];
    return value === undefined ? [] : [[name, typeof value === 'string' ? whole(value) : value.map(whole)]];
  });
  const made = (['output', 'xlaCacheDir', 'tensorboard', 'profile'] as const).flatMap((name) =>
    s[name] ? [[name, path.resolve(s[name])]] : [],
  );
  return { ...s, ...Object.fromEntries([...found, ...made]) };
}
