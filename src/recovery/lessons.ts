// Lessons: the training data of a student and its loss on a batch. The loss takes the model as an argument, so that data can be
// checked before weights are read.
//   B sequences of L tokens; S = L - 1 positions, of which each predicts the next token
import type { HostArray } from '../base/dtype.js';
import { ArgumentError, DataError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { DataLoader, type DataLoaderOptions, type Dataset, type IterableDataset } from '../data/index.js';
import { KDCacheDataset, kdLoss, liveKdLoss, nextTokenLoss } from '../distill/index.js';
import type { DecoderConfig, DecoderForCausalLM, Tokenizer } from '../models/index.js';
import { noGrad } from '../tensor/autograd.js';
import { zeros } from '../tensor/create.js';
import { where } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { textRows } from './documents.js';
import type { Settings } from './options.js';
import type { Schedule } from './schedule.js';

/** Tensors [B, ...] on the device, by name. */
export type Batch = Readonly<Record<string, Tensor>> & {
  /** i32[B, L] */
  readonly inputIds: Tensor;
  /** u8[B, L]: 1 for tokens to predict. */
  readonly lossMask: Tensor;
};
type Row = Readonly<Record<string, unknown>>;

export interface Lesson {
  readonly sequenceLength: number;
  readonly rows: Dataset<Row> | IterableDataset<Row>;
  /** Number of sequences, if it is known before they are read. */
  readonly sequences: number | undefined;
  /** A batch of zeros, for compiling. */
  placeholder(batchSize: number): Batch;
  /** The mean loss over the positions of the mask. */
  loss(student: DecoderForCausalLM, batch: Batch, now: Pick<Schedule, 'hardTop1'>): Tensor;
}

/** Batches of a lesson; each iteration is an epoch. Sequences that do not fill a batch are dropped. */
export const batchesOf = ({ rows }: Lesson, options: DataLoaderOptions<Row, Batch>): DataLoader<Row, Batch> =>
  new DataLoader<Row, Batch>(rows, { dropLast: true, ...options });

/** The mask of positions: whether the token after a position is to be predicted. */
export const targetMask = ({ lossMask }: Pick<Batch, 'lossMask'>): Tensor =>
  lossMask.narrow(1, 1, lossMask.size(1) - 1);
const nextOf = ({ inputIds }: Batch): Tensor => inputIds.narrow(1, 1, inputIds.size(1) - 1);
/** Hidden states of all positions except the last, which predicts no token: [B, S, D]. */
export const positionsOf = (model: DecoderForCausalLM, inputIds: Tensor): Tensor =>
  model.model.forward(inputIds).narrow(1, 0, inputIds.size(1) - 1);

/** Opens the training data and checks it against the student. Files are opened, but not read completely. */
export async function openLesson(
  settings: Settings,
  config: DecoderConfig,
  tokenizer: Tokenizer | null,
  teacher: DecoderForCausalLM | null,
): Promise<Lesson> {
  const lesson = settings.kdCacheDir
    ? await cachedLesson(settings, config, tokenizer)
    : await textLesson(settings, config, tokenizer, teacher);
  const { sequenceLength, sequences } = lesson;
  const needed = settings.batchSize * settings.accumulationSteps;
  if (sequences !== undefined && sequences < needed)
    throw new ArgumentError(
      `a step takes ${needed} sequences (--batch-size ${settings.batchSize} times --accumulation-steps ${settings.accumulationSteps}), but ${settings.kdCacheDir} has only ${plural(sequences, 'sequence')}: use smaller values`,
    );
  if (sequenceLength > config.maxPositionEmbeddings)
    throw new ArgumentError(
      `sequences have ${sequenceLength} tokens, but the student has only ${config.maxPositionEmbeddings} positions: use a smaller --seq-len`,
    );
  return lesson;
}

// ---- a cache of a teacher's logits

async function cachedLesson(s: Settings, config: DecoderConfig, tokenizer: Tokenizer | null): Promise<Lesson> {
  const cache = await KDCacheDataset.open(s.kdCacheDir!, {
    preload: s.preload,
    expect: { tokenizer: tokenizer?.hash, vocabSize: config.vocabSize, sequenceLength: s.seqLen },
  });
  const rows: Dataset<Row> = {
    length: cache.length,
    async get(i) {
      const { attentionMask: _, ...row } = await cache.get(i); // padding is at the end, and attention is causal
      return row;
    },
  };
  const first = Object.entries((await rows.get(0)) as Readonly<Record<string, HostArray>>);
  return {
    sequenceLength: cache.info.sequenceLength,
    sequences: cache.length,
    rows,
    placeholder: (B) =>
      Object.fromEntries(first.map(([name, { dtype, shape }]) => [name, zeros([B, ...shape], { dtype })])) as Batch,
    loss(student, batch, { hardTop1 }) {
      const { kdAlpha: alpha = 1 } = s;
      const hidden = positionsOf(student, batch.inputIds);
      const head = student.lmHead.weight;
      const mask = targetMask(batch);
      const { topkIdx, topkLogits, randIdx = null, randLogits = null } = batch;
      const { loss } = kdLoss(
        hidden,
        head,
        { topkIdx: topkIdx!, topkLogits: topkLogits!, randIdx, randLogits },
        {
          mask,
          temperature: s.kdTemperature,
          hardTop1: s.hardTop1 || s.hardTop1End ? hardTop1 : 0,
          hardFull: s.hardFull,
          softcap: student.logitsSoftcap,
          ...(s.compute !== 'auto' && { compute: s.compute }),
        },
      );
      if (alpha === 1) return loss;
      return loss
        .mul(alpha)
        .add(nextTokenLoss(hidden, head, nextOf(batch), { mask, softcap: student.logitsSoftcap }).mul(1 - alpha));
    },
  };
}

// ---- text, with or without a teacher model

const DEFAULT_LENGTH = 1024;

async function textLesson(
  s: Settings,
  config: DecoderConfig,
  tokenizer: Tokenizer | null,
  teacher: DecoderForCausalLM | null,
): Promise<Lesson> {
  const L = s.seqLen ?? Math.min(DEFAULT_LENGTH, config.maxPositionEmbeddings);
  if (!tokenizer)
    throw new DataError(
      `${s.model} has no tokenizer.json, which --train-data needs: copy it there, or use --kd-cache-dir`,
    );
  if (teacher && teacher.config.vocabSize !== config.vocabSize)
    throw new ArgumentError(
      `--teacher ${s.teacher} has a vocabulary of ${teacher.config.vocabSize} tokens, the student of ${config.vocabSize}: they must be equal`,
    );
  if (teacher?.tokenizer && teacher.tokenizer.hash !== tokenizer.hash)
    throw new ArgumentError(
      `--teacher ${s.teacher} has a different tokenizer than the student: use a teacher with the same tokenizer`,
    );
  return {
    sequenceLength: L,
    sequences: undefined,
    rows: await textRows(s, tokenizer, L, config.vocabSize),
    placeholder: (B) => ({
      inputIds: zeros([B, L], { dtype: 'i32' }),
      lossMask: zeros([B, L], { dtype: 'u8' }),
    }),
    loss(student, batch) {
      const { inputIds } = batch;
      const hidden = positionsOf(student, inputIds);
      const [next, mask] = [nextOf(batch), targetMask(batch)];
      const softcap = student.logitsSoftcap;
      if (!teacher) return nextTokenLoss(hidden, student.lmHead.weight, next, { mask, softcap });
      const labels = where(mask.ne(0), next, -100);
      const expecting = {
        hidden: noGrad(() => positionsOf(teacher, inputIds)),
        head: teacher.lmHead.weight,
        softcap: teacher.logitsSoftcap,
      };
      return liveKdLoss(hidden, student.lmHead.weight, expecting, labels, {
        mask,
        softcap,
        temperature: s.kdTemperature,
        alpha: s.kdAlpha ?? 0.5,
      }).loss;
    },
  };
}
