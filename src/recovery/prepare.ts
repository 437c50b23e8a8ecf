// From what was asked for to a student with adapters, ready to learn. Mistakes come to light on the way, the cheap checks first.
import fs from 'node:fs/promises';
import path from 'node:path';
import { type DType, TORCH } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { sourcesOf } from '../distill/cache-rows.js';
import { adaptersOf, addLora, loadAdapters, TARGETS } from '../lora/index.js';
import { readFolder } from '../models/folder.js';
import { QWEN3_TENSOR_PARALLEL, Qwen3ForCausalLM } from '../models/index.js';
import { CHECKPOINT } from '../models/qwen3.js';
import { checkFinite } from '../nn/finite.js';
import { FactoredLinear, type Preset, type QuantLinear, quantizeModel, quantLinears } from '../quant/index.js';
import { keepWeight } from '../quant/model.js';
import { device } from '../runtime/device.js';
import {
  deviceCount,
  type Mesh,
  meshFromConfig,
  meshFromEnv,
  meshOf,
  parallelize,
  parseSizes,
  type Share,
  useSpmd,
} from '../spmd/index.js';
import { PARALLEL_AXES } from '../spmd/parallel.js';
import { batchAxes } from '../spmd/shares.js';
import { manualSeed } from '../tensor/random.js';
import { type Lesson, openLesson } from './lessons.js';
import { flagOf, type Settings } from './options.js';
import { studentIn } from './output.js';
import { type AdaptersToTrain, findStudent, loadStudent, type StudentForm, saveStudent } from './student.js';
import type { Workers } from './workers.js';

export interface Setup {
  readonly student: Qwen3ForCausalLM;
  readonly form: StudentForm;
  readonly lesson: Lesson;
  readonly dtype: DType;
  readonly mesh: Mesh | undefined;
  /** The part of every batch that this process loads. */
  readonly share: Share;
}

/** Measured with Qwen3-0.6B: on an H200, light takes 2% more time and a third less memory; a TPU has little memory. */
const CHECKPOINTING = { cpu: 'none', cuda: 'light', tpu: 'full' } as const;

export async function prepare(s: Settings, workers: Workers): Promise<Setup> {
  const on = device(s.tpu ? 'tpu' : s.device);
  if (s.xlaCacheDir) process.env.XLA_PERSISTENT_CACHE_PATH = s.xlaCacheDir;
  const dtype = s.dtype ? (TORCH[s.dtype] ?? (s.dtype as DType)) : on === 'cpu' || s.mixedPrecision ? 'f32' : 'bf16';
  const layers = {
    scanLayers: s.scanLayers ?? on !== 'cuda',
    checkpoint: CHECKPOINT[s.gradientCheckpointing ?? CHECKPOINTING[on]],
  };
  const mesh = await meshFor(s, workers);
  const split = (model: Qwen3ForCausalLM) => (mesh ? parallelize(model, mesh, QWEN3_TENSOR_PARALLEL) : model);
  const name = s.v2Checkpoint ?? s.model;
  const source = s.v2Checkpoint ? { base: s.model } : {};
  const { folder, form } = await findStudent(name, source);
  if (s.quantize && form !== 'plain')
    throw new ArgumentError(`--quantize ${s.quantize}: ${name} is quantized already: leave it out`);
  if (s.resumeFrom) await fs.access(s.resumeFrom).catch(() => missing('--resume-from', s.resumeFrom!));
  await sourcesOf([...(s.trainData ?? []), ...(s.evalData ?? [])]);
  const { config, tokenizer } = await readFolder(folder);
  if (s.evalData && !tokenizer) throw new ArgumentError(`--eval-data: ${folder} has no tokenizer.json`);
  const teacher = s.teacher ? await Qwen3ForCausalLM.fromPretrained(s.teacher, { dtype, ...layers }) : null;
  if (teacher) await checkFinite(`--teacher ${s.teacher}`, teacher);
  if (teacher) split(teacher.requiresGrad_(false));
  const lesson = await openLesson(s, config, tokenizer, teacher);

  const adapterOptions = {
    ...{ dropout: s.dropout, trainNorms: s.trainNorms },
    ...{ trainEmbeddings: s.trainEmbeddings, trainLmHead: s.trainLmHead },
  };
  const { model: student } = await loadStudent(s.quantize ? await quantized(folder, s.quantize, s, workers) : name, {
    ...source,
    dtype,
    ...layers,
    materialize: false,
    adapters: !s.resumeFrom,
    adapterOptions,
  });
  await adapt(student, s, adapterOptions);
  await checkFinite(`the student ${name}${s.resumeFrom ? ` with the adapters ${s.resumeFrom}` : ''}`, student);
  split(student);
  student.train();
  return { student, form, lesson, dtype, mesh, share: await workers.share(mesh) };
}

/** The mesh that is asked for; none: one device, or all of them where XLA joins workers. */
async function meshFor(s: Settings, { apart, count }: Workers): Promise<Mesh | undefined> {
  const { batchSize, mesh } = s;
  const isJoined = count > 1 && !apart;
  if (!mesh && !isJoined && !useSpmd()) return undefined;
  const devices = await deviceCount();
  const made = mesh
    ? meshOf(parseSizes(mesh, '--mesh', PARALLEL_AXES), devices, `--mesh ${mesh}`)
    : useSpmd()
      ? meshFromEnv(devices)
      : meshFromConfig({}, devices);
  const idle = made.axisNames.find((axis) => !PARALLEL_AXES.includes(axis));
  if (idle)
    throw new ArgumentError(
      `the mesh ${made} has an axis ${idle}, along which nothing is split here: use ${PARALLEL_AXES.join(', ')}`,
    );
  const shares = made.sizeOf(batchAxes(made)) * (apart ? count : 1); // each worker has such a mesh
  if (batchSize % shares)
    throw new ArgumentError(
      `--batch-size is ${batchSize}, and in the mesh ${made}${apart ? ` of each of ${count} workers` : ''} ${shares} groups of devices have sequences of their own: ${batchSize} / ${shares} is no whole number: use ${shares * Math.ceil(batchSize / shares)}`,
    );
  return made.size > 1 ? made : undefined;
}
const missing = (flag: string, name: string): never => {
  throw new ArgumentError(`${flag}: there is no ${name}`);
};

/** The student is kept beside its adapters, which are nothing without it. A run that goes on finds it there. */
async function quantized(from: string, preset: Preset, s: Settings, workers: Workers): Promise<string> {
  const folder = studentIn(s);
  const isThere = s.resume && (await fs.stat(path.join(folder, 'config.json')).catch(() => null));
  if (workers.isFirst && !isThere) {
    const model = await Qwen3ForCausalLM.fromPretrained(from);
    await quantizeModel(model, { preset });
    await saveStudent(folder, model);
  }
  await workers.meet(); // the others read what the first one wrote
  return folder;
}

/** Adapters, and what else is trained; weights that stay are computed once. */
async function adapt(model: Qwen3ForCausalLM, s: Settings, options: AdaptersToTrain): Promise<void> {
  manualSeed(s.seed);
  if (!adaptersOf(model).size)
    addLora(model, {
      targets: [...(s.mlpOnly ? [] : TARGETS.attention), ...(s.includeKProj ? ['k_proj'] : []), ...TARGETS.mlp],
      rank: s.recoveryR,
      ...(s.recoveryAlpha !== undefined && { alpha: s.recoveryAlpha }),
      ...options,
    });
  else checkOwnAdapters(model, s);
  if (s.resumeFrom) await loadAdapters(model, s.resumeFrom);
  const frozen = s.freezeMags ? '--freeze-mags' : s.freezeMagsMlp ? '--freeze-mags-mlp' : undefined;
  if (frozen && ![...quantLinears(model)].some(([, layer]) => layer instanceof FactoredLinear))
    throw new ArgumentError(
      `${frozen}: ${s.v2Checkpoint ?? s.model} has no magnitudes, which the original's form has: leave it out`,
    );
  const dtype = model.lmHead.weight.dtype;
  for (const [name, layer] of quantLinears(model)) {
    if (trainsMagnitudes(name, layer, s)) layer.dematerialize().rankMagnitude.requiresGrad_();
    else await keepWeight(layer, dtype);
  }
}

/** As the original has it: magnitudes are trained unless they are frozen. Those of packed students are part of their scales. */
const trainsMagnitudes = (name: string, layer: QuantLinear, s: Settings): layer is FactoredLinear =>
  layer instanceof FactoredLinear && !s.freezeAll && !s.freezeMags && !(s.freezeMagsMlp && name.includes('.mlp.'));

/** The original's files may have adapters already, which are trained on. */
function checkOwnAdapters(model: Qwen3ForCausalLM, s: Settings): void {
  const { rank, alpha } = [...adaptersOf(model).values()][0]!;
  const own = { recoveryR: ['rank', rank], recoveryAlpha: ['alpha', alpha] } as const;
  for (const [name, [what, value]] of Object.entries(own)) {
    const given = s[name as keyof typeof own] ?? value;
    if (given !== value)
      throw new ArgumentError(
        `${flagOf(name)} is ${given}, but ${s.v2Checkpoint ?? s.model} has adapters of ${what} ${value}: use that`,
      );
  }
}
