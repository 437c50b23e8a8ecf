// What a student learns from: the batches, and how much it loses on one. All that needs a model is a function of it, so that
// data is checked before weights are read.
//   B sequences of L tokens; S = L - 1 positions, of which each predicts the next token
import type { HostArray } from '../base/dtype.js';
import { ArgumentError, DataError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { DataLoader, type DataLoaderOptions, type Dataset, type IterableDataset } from '../data/index.js';
import { KDCacheDataset, kdLoss, liveKdLoss, nextTokenLoss } from '../distill/index.js';
import type { Qwen3Config, Qwen3ForCausalLM, Tokenizer } from '../models/index.js';
import { noGrad } from '../tensor/autograd.js';
import { zeros } from '../tensor/create.js';
import { where } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { textRows } from './documents.js';
import type { Settings } from './options.js';
import type { Schedule } from './schedule.js';

/** By name, each [B, ...] on the device. */
export type Batch = Readonly<Record<string, Tensor>> & {
  /** i32[B, L] */
  readonly inputIds: Tensor;
  /** u8[B, L]: 1 for tokens that are to be predicted. */
  readonly lossMask: Tensor;
};
type Row = Readonly<Record<string, unknown>>;

export interface Lesson {
  readonly sequenceLength: number;
  readonly rows: Dataset<Row> | IterableDataset<Row>;
  /** How many there are, where that is known before they are read. */
  readonly sequences: number | undefined;
  /** Batches that hold nothing, to compile for. */
  placeholder(batchSize: number): Batch;
  /** The mean over the positions that count. */
  loss(student: Qwen3ForCausalLM, batch: Batch, now: Pick<Schedule, 'hardTop1'>): Tensor;
}

/** Batches of a lesson, an epoch each time it is iterated; each leaves other sequences out where they do not fill a batch. */
export const batchesOf = ({ rows }: Lesson, options: DataLoaderOptions<Row, Batch>): DataLoader<Row, Batch> =>
  new DataLoader<Row, Batch>(rows, { dropLast: true, ...options });

/** What the next tokens' mask is: of each position, whether the token behind it counts. */
export const targetMask = ({ lossMask }: Pick<Batch, 'lossMask'>): Tensor =>
  lossMask.narrow(1, 1, lossMask.size(1) - 1);
const nextOf = ({ inputIds }: Batch): Tensor => inputIds.narrow(1, 1, inputIds.size(1) - 1);
/** Hidden states of all positions but the last, behind which nothing comes: [B, S, D]. */
export const positionsOf = (model: Qwen3ForCausalLM, inputIds: Tensor): Tensor =>
  model.model.forward(inputIds).narrow(1, 0, inputIds.size(1) - 1);

/** Finds out what is there to learn from; files are looked at, not read. */
export async function openLesson(
  settings: Settings,
  config: Qwen3Config,
  tokenizer: Tokenizer | null,
  teacher: Qwen3ForCausalLM | null,
): Promise<Lesson> {
  const lesson = settings.kdCacheDir
    ? await cachedLesson(settings, config, tokenizer)
    : await textLesson(settings, config, tokenizer, teacher);
  const { sequenceLength, sequences } = lesson;
  const needed = settings.batchSize * settings.accumulationSteps;
  if (sequences !== undefined && sequences < needed)
    throw new ArgumentError(
      `a step takes ${needed} sequences (--batch-size ${settings.batchSize} times --accumulation-steps ${settings.accumulationSteps}), and ${settings.kdCacheDir} has ${plural(sequences, 'sequence')}: use smaller ones`,
    );
  if (sequenceLength > config.maxPositionEmbeddings)
    throw new ArgumentError(
      `sequences of ${sequenceLength} tokens: the student has ${config.maxPositionEmbeddings} positions: use a smaller --seq-len`,
    );
  return lesson;
}

// ---- a cache of what a teacher said

async function cachedLesson(s: Settings, config: Qwen3Config, tokenizer: Tokenizer | null): Promise<Lesson> {
  const cache = await KDCacheDataset.open(s.kdCacheDir!, {
    preload: s.preload,
    expect: { tokenizer: tokenizer?.hash, vocabSize: config.vocabSize, sequenceLength: s.seqLen },
  });
  const rows: Dataset<Row> = {
    length: cache.length,
    async get(i) {
      const { attentionMask: _, ...row } = await cache.get(i); // padding is at the end, where nothing sees it
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
          ...(s.compute !== 'auto' && { compute: s.compute }),
        },
      );
      if (alpha === 1) return loss;
      return loss.mul(alpha).add(nextTokenLoss(hidden, head, nextOf(batch), { mask }).mul(1 - alpha));
    },
  };
}

// ---- text, with a teacher beside the student or without

const DEFAULT_LENGTH = 1024;

async function textLesson(
  s: Settings,
  config: Qwen3Config,
  tokenizer: Tokenizer | null,
  teacher: Qwen3ForCausalLM | null,
): Promise<Lesson> {
  const L = s.seqLen ?? Math.min(DEFAULT_LENGTH, config.maxPositionEmbeddings);
  if (!tokenizer)
    throw new DataError(
      `${s.model} has no tokenizer.json, which --train-data needs: copy it there, or use --kd-cache-dir`,
    );
  if (teacher && teacher.config.vocabSize !== config.vocabSize)
    throw new ArgumentError(
      `--teacher ${s.teacher} has ${teacher.config.vocabSize} tokens, the student ${config.vocabSize}: they need one vocabulary`,
    );
  if (teacher?.tokenizer && teacher.tokenizer.hash !== tokenizer.hash)
    throw new ArgumentError(
      `--teacher ${s.teacher} has another tokenizer than the student: its tokens mean other texts`,
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
      if (!teacher) return nextTokenLoss(hidden, student.lmHead.weight, next, { mask });
      const labels = where(mask.ne(0), next, -100);
      const expecting = { hidden: noGrad(() => positionsOf(teacher, inputIds)), head: teacher.lmHead.weight };
      return liveKdLoss(hidden, student.lmHead.weight, expecting, labels, {
        mask,
        temperature: s.kdTemperature,
        alpha: s.kdAlpha ?? 0.5,
      }).loss;
    },
  };
}
