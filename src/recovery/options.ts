// Every option of recovery training, once: of this table are made the types, the command's flags, its help, the checks and
// the page of the docs. Names are those of the original's flags, in camelCase.
import fs from 'node:fs';
import path from 'node:path';
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { parseTopology } from '../base/slices.js';
import { shown } from '../base/tree.js';
import { PRESET_NAMES } from '../quant/presets.js';
import { addressFromEnv } from '../train/ray/address.js';

type Kind = 'text' | 'texts' | 'number' | 'whole' | 'switch' | readonly string[];
export interface Flag {
  readonly kind: Kind;
  readonly group: string;
  readonly text: string;
  /** What turning it off means, of a switch that is on without being given. */
  readonly off?: string;
  /** What the command does where it is not given; another text where that depends on other things. */
  readonly default?: number | string | boolean;
  readonly otherwise?: string;
  readonly least?: number;
  readonly most?: number;
  /** The number must be larger. */
  readonly above?: number;
  /** Without any of these it would do nothing. */
  readonly needs?: readonly string[];
  /** A run that goes on may have another. */
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
  model: { group: MODEL, kind: 'text', text: 'the student: a folder that tsxla quantize wrote, any Qwen3 folder, or a name on the hub' },
  v2Checkpoint: { group: MODEL, kind: 'text', text: "the original's quantized checkpoint of that model: a folder, or a .pt or .safetensors file" },
  quantize: { group: MODEL, kind: PRESET_NAMES, text: 'quantize a plain model first; it is kept in student/ of --output' },
  output: { group: MODEL, kind: 'text', default: 'runs/recovery_lora', free: true, text: 'the folder of the run: adapters, checkpoints, metrics' },
  device: { group: MODEL, kind: ['auto', 'cpu', 'cuda', 'tpu'], default: 'auto', free: true, text: 'where to train; auto is PJRT_DEVICE, else the best there is' },
  tpu: { group: MODEL, kind: 'switch', default: false, free: true, text: 'the same as --device tpu' },
  mesh: { group: MODEL, kind: 'text', free: true, otherwise: 'one device; of several workers on GPUs or TPUs, and of a --topology, data=-1; with XLA_USE_SPMD=1 what XLA_MESH_SHAPE and others say', text: 'how all devices share the work: data=2,fsdp=4, or model=2; -1 is what remains' },
  dtype: { group: MODEL, kind: DTYPE_NAMES, otherwise: 'bf16, on a CPU f32', text: 'of weights and activations; adapters and their optimizer are f32' },
  mixedPrecision: { group: MODEL, kind: 'switch', default: false, text: 'weights stay f32, products are computed in bf16' },
  xlaCacheDir: { group: MODEL, kind: 'text', free: true, text: 'keep compiled programs in this folder' },

  kdCacheDir: { group: DATA, kind: 'text', text: "learn from a KD cache (tsxla kd-cache, or the original's files)" },
  preload: { group: DATA, needs: ['kdCacheDir'], kind: 'switch', default: false, free: true, text: 'keep the whole cache in memory' },
  trainData: { group: DATA, kind: 'texts', text: 'learn from .jsonl, .parquet or .txt files instead' },
  textField: { group: DATA, needs: ['trainData', 'evalData'], kind: 'text', default: 'text', text: 'the field, or column, with the text' },
  datasetFormat: { group: DATA, needs: ['trainData'], kind: ['text', 'alpaca', 'sharegpt'], default: 'text', text: 'what the objects in those files look like' },
  templateMode: { group: DATA, needs: ['trainData'], kind: ['none', 'no-think', 'think', 'both', 'all'], default: 'none', text: 'put them into the chat template: without thinking, with it, both, or those and as plain text' },
  seqLen: { group: DATA, kind: 'whole', least: 2, otherwise: "the cache's, else 1024", text: 'tokens in a sequence' },
  shuffle: { group: DATA, kind: 'switch', default: true, text: 'another order in every epoch', off: 'the same order in every epoch' },
  seed: { group: DATA, kind: 'whole', least: 0, default: 0, text: 'of the order, of dropout and of new adapters' },

  recoveryR: { group: ADAPTERS, kind: 'whole', least: 1, default: 8, text: 'the rank of the adapters' },
  recoveryAlpha: { group: ADAPTERS, kind: 'number', above: 0, otherwise: 'the rank', text: 'what an adapter adds is multiplied with alpha / rank' },
  dropout: { group: ADAPTERS, kind: 'number', least: 0, most: 0.99, default: 0, text: 'of what the adapters see' },
  mlpOnly: { group: ADAPTERS, kind: 'switch', default: false, text: 'adapters on gate, up and down only' },
  includeKProj: { group: ADAPTERS, kind: 'switch', default: false, text: 'adapters on k, too' },
  resumeFrom: { group: ADAPTERS, kind: 'text', text: "begin with these adapters: a folder of PEFT's, or a file" },
  freezeMags: { group: ADAPTERS, kind: 'switch', default: false, text: "of the original's form: do not train magnitudes of scales" },
  freezeMagsMlp: { group: ADAPTERS, kind: 'switch', default: false, text: 'the same for the MLP alone' },
  freezeAll: { group: ADAPTERS, kind: 'switch', default: false, text: 'train adapters and nothing else' },
  trainNorms: { group: ADAPTERS, kind: 'switch', default: false, text: 'train the norms, too' },
  trainEmbeddings: { group: ADAPTERS, kind: 'switch', default: false, text: 'train the embeddings, too' },
  trainLmHead: { group: ADAPTERS, kind: 'switch', default: false, text: 'train the head, too' },

  loraMode: { group: LOSS, kind: ['recover', 'sft', 'kd'], otherwise: 'kd with a cache or a teacher, else recover', text: 'recover: predict every token; sft: those of answers; kd: what a teacher says' },
  teacher: { group: LOSS, kind: 'text', text: 'a teacher that runs beside the student, where there is no cache' },
  kdTemperature: { group: LOSS, needs: ['kdCacheDir', 'teacher'], kind: 'number', above: 0, default: 2, text: 'of both distributions' },
  kdAlpha: { group: LOSS, needs: ['kdCacheDir', 'teacher'], kind: 'number', least: 0, most: 1, otherwise: '1 with a cache, 0.5 with --teacher', text: "the teacher's share of the loss; the rest is the text's" },
  hardTop1: { group: LOSS, needs: ['kdCacheDir'], kind: 'number', least: 0, default: 0, text: "weight of the teacher's first choice, among the candidates" },
  hardTop1End: { group: LOSS, needs: ['kdCacheDir'], kind: 'number', least: 0, otherwise: 'as at the start', text: 'that weight at the end' },
  hardFull: { group: LOSS, needs: ['kdCacheDir'], kind: 'number', least: 0, default: 0, text: "weight of the teacher's first choice, in the whole vocabulary" },
  anchorKlWeight: { group: LOSS, kind: 'number', least: 0, default: 0, text: 'weight of staying near the student without adapters' },
  anchorSamples: { group: LOSS, needs: ['anchorKlWeight'], kind: 'whole', least: 1, default: 32, text: 'sequences on which that is measured' },
  anchorInterval: { group: LOSS, needs: ['anchorKlWeight'], kind: 'whole', least: 1, default: 1, text: 'every so many steps' },
  compute: { group: LOSS, needs: ['kdCacheDir'], kind: ['auto', 'gather', 'dense'], default: 'auto', text: 'logits of candidates: from their rows of the head, or from all rows; auto is what is faster here' },

  maxSteps: { group: TRAINING, kind: 'whole', least: 1, default: 1000, text: 'steps of the optimizer' },
  batchSize: { group: TRAINING, kind: 'whole', least: 1, default: 4, text: 'sequences at a time' },
  accumulationSteps: { group: TRAINING, kind: 'whole', least: 1, default: 1, text: 'batches in a step, as a loop in one program' },
  lr: { group: TRAINING, kind: 'number', above: 0, default: 3e-4, text: 'the highest learning rate' },
  warmupSteps: { group: TRAINING, kind: 'whole', least: 0, otherwise: '100, at most a tenth', text: 'steps until it is reached' },
  minLrRatio: { group: TRAINING, kind: 'number', least: 0, most: 1, default: 0.1, text: 'the last learning rate, as a part of it' },
  constantLr: { group: TRAINING, kind: 'switch', default: false, text: 'no cosine after the warm-up' },
  weightDecay: { group: TRAINING, kind: 'number', least: 0, default: 0, text: 'of AdamW' },
  gradClip: { group: TRAINING, kind: 'number', least: 0, default: 1, text: 'the largest norm of all gradients; 0 for any' },
  gradientCheckpointing: { group: TRAINING, kind: ['none', 'light', 'full'], otherwise: 'full on a TPU, light on a GPU, none on a CPU', text: 'what layers compute again for the gradient instead of keeping it: light, norms and gates; full, everything: less memory, a third more work' },
  scanLayers: { group: TRAINING, kind: 'switch', otherwise: 'not on a GPU', text: 'layers as one loop: compiles as fast as one', off: 'the layers one by one: compiles slower, may run faster' },

  workers: { group: WORKERS, kind: 'whole', least: 1, default: 1, free: true, otherwise: '1; with --topology its hosts', text: 'processes that train one student, each with its share of every batch; on CPUs, unless --device says otherwise' },
  ray: { group: WORKERS, kind: 'text', free: true, otherwise: 'RAY_ADDRESS, where there are several workers', text: 'the address of a Ray cluster that runs them, as http://head:8265; all its machines see the same files' },
  topology: { group: WORKERS, needs: ['ray'], kind: 'text', free: true, text: 'the TPU slice to reserve there: v6e-16, v4:2x2x2' },
  maxFailures: { group: WORKERS, kind: 'whole', least: -1, default: 3, free: true, text: 'how often workers that died begin again from the last checkpoint; -1 always' },

  logInterval: { group: WATCHING, kind: 'whole', least: 1, default: 50, free: true, text: 'steps between two lines of metrics.jsonl' },
  saveSteps: { group: WATCHING, kind: 'whole', least: 1, default: 500, free: true, text: 'steps between two checkpoints' },
  keepCheckpoints: { group: WATCHING, kind: 'whole', least: 1, default: 3, free: true, text: 'how many of the newest are kept, beside the best' },
  evalData: { group: WATCHING, kind: 'texts', text: 'measure perplexity on these files' },
  evalSteps: { group: WATCHING, needs: ['evalData'], kind: 'whole', least: 0, default: 0, free: true, text: 'every so many steps; 0: at the start and at the end' },
  evalSamples: { group: WATCHING, needs: ['evalData'], kind: 'whole', least: 0, default: 0, text: 'on so many sequences; 0 for all' },
  resume: { group: WATCHING, kind: 'switch', default: false, free: true, text: 'go on with the run in --output, exactly' },
  overwrite: { group: WATCHING, kind: 'switch', default: false, free: true, text: 'begin anew in an --output that has a run' },
  verbose: { group: WATCHING, kind: 'switch', default: false, free: true, text: 'say what happens in every step' },
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
type Known = {
  readonly [N in Name as (typeof FLAGS)[N] extends { default: unknown } ? N : never]: ValueOf<
    (typeof FLAGS)[N]['kind']
  >;
};
type Open = {
  readonly [N in Name as N extends keyof Known ? never : N]?: ValueOf<(typeof FLAGS)[N]['kind']> | undefined;
};

/** What the command's flags say, in camelCase. */
export type RecoveryOptions = Partial<Known> & Open & { readonly model: string };
/** The same with the table's defaults, checked. */
export type Settings = Known & Open & { readonly model: string };

/** --recovery-r */
export const flagOf = (name: string): string => `--${name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`;

/** The options with their defaults; the first that is wrong is an error that names its flag. */
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
  return topology ? { ...all, workers: Math.max(workers, parseTopology(topology).hosts) } : all;
}

export const defaultOf = (name: string): unknown => (FLAGS as Readonly<Record<string, Flag>>)[name]?.default;

/** What must be the same in a run that goes on. */
export const fixed = (s: Settings): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(s).filter(([name]) => !(FLAGS as Readonly<Record<string, Flag>>)[name]?.free));

function checkValue(flag: string, { kind, least, most, above }: Flag, value: unknown): void {
  const wrong = (what: string) => new ArgumentError(`${flag} is ${shown(value)}: ${what}`);
  if (typeof kind === 'object') {
    if (!kind.includes(value as string)) throw wrong(`it is one of ${kind.join(', ')}`);
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
  } else if (kind === 'switch' && typeof value !== 'boolean') throw wrong('it is true or false');
  else if (kind === 'text' && typeof value !== 'string') throw wrong('it must be a text');
  else if (kind === 'text' && !value) throw wrong('it must not be empty');
  else if (kind === 'texts' && !(Array.isArray(value) && value.length && value.every((v) => typeof v === 'string')))
    throw wrong('it must name files');
}

/** What cannot go together. */
function checkTogether(s: Settings): void {
  const data = [s.kdCacheDir && '--kd-cache-dir', s.trainData && '--train-data'].filter(Boolean);
  if (!s.model) throw new ArgumentError('--model is missing: the folder of a Qwen3 model, or its name on the hub');
  if (!data.length)
    throw new ArgumentError(
      'there is nothing to learn from: pass --kd-cache-dir (tsxla kd-cache makes one) or --train-data FILES',
    );
  const conflicts: [boolean, string][] = [
    [data.length > 1, '--kd-cache-dir and --train-data: take one of them'],
    [
      !!s.kdCacheDir && !!s.teacher,
      '--kd-cache-dir and --teacher: the cache has what the teacher says: take one of them',
    ],
    [
      !!s.kdCacheDir && s.loraMode !== undefined && s.loraMode !== 'kd',
      `--lora-mode ${s.loraMode} and --kd-cache-dir: that is for kd`,
    ],
    [s.loraMode === 'kd' && !s.kdCacheDir && !s.teacher, '--lora-mode kd: pass --kd-cache-dir or --teacher'],
    [
      !!s.teacher && s.loraMode !== undefined && s.loraMode !== 'kd',
      `--lora-mode ${s.loraMode} and --teacher: that is for kd`,
    ],
    [s.tpu && s.device !== 'auto' && s.device !== 'tpu', `--tpu and --device ${s.device}: take one of them`],
    [
      s.topology !== undefined && !['auto', 'tpu'].includes(s.device),
      `--topology is of TPUs, and --device is ${s.device}: take one of them`,
    ],
    [s.mlpOnly && s.includeKProj, '--mlp-only and --include-k-proj: take one of them'],
    [
      s.freezeAll && (s.trainNorms || s.trainEmbeddings || s.trainLmHead),
      '--freeze-all trains adapters and nothing else: leave out --train-norms, --train-embeddings and --train-lm-head',
    ],
    [s.resume && s.overwrite, '--resume and --overwrite: take one of them'],
    [!!s.v2Checkpoint && !!s.quantize, '--v2-checkpoint and --quantize: the checkpoint is quantized: take one of them'],
    [s.hardFull > 0 && s.compute === 'gather', '--hard-full needs the whole vocabulary: leave --compute gather out'],
    [
      (s.warmupSteps ?? 0) >= s.maxSteps,
      `--warmup-steps ${s.warmupSteps} of --max-steps ${s.maxSteps}: the warm-up must be shorter`,
    ],
    [
      s.mixedPrecision && !['float32', 'f32', undefined].includes(s.dtype),
      `--mixed-precision and --dtype ${s.dtype}: its weights are f32`,
    ],
    [s.constantLr && s.minLrRatio !== FLAGS.minLrRatio.default, '--constant-lr and --min-lr-ratio: take one of them'],
  ];
  for (const [wrong, text] of conflicts) if (wrong) throw new ArgumentError(text);
  for (const [name, { needs, default: otherwise }] of Object.entries(FLAGS as Readonly<Record<string, Flag>>)) {
    const value = s[name as Name];
    if (!needs || value === undefined || value === otherwise || needs.some((other) => s[other as Name])) continue;
    throw new ArgumentError(`${flagOf(name)} does nothing without ${needs.map(flagOf).join(' or ')}: leave it out`);
  }
}

const FILES = ['model', 'v2Checkpoint', 'kdCacheDir', 'trainData', 'evalData', 'resumeFrom', 'teacher'] as const;
/** Files of this machine by their whole paths; what is not there may be a name on the hub. */
export function placed<S extends Partial<Settings>>(s: S): S {
  const whole = (name: string) => (fs.existsSync(name) ? path.resolve(name) : name);
  const found = FILES.flatMap((name) => {
    const value = s[name];
    return value === undefined ? [] : [[name, typeof value === 'string' ? whole(value) : value.map(whole)]];
  });
  const made = (['output', 'xlaCacheDir'] as const).flatMap((name) => (s[name] ? [[name, path.resolve(s[name])]] : []));
  return { ...s, ...Object.fromEntries([...found, ...made]) };
}
