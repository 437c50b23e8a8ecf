// What the tests of recovery share: a small Qwen3, folders that go away.
import * as tx from 'tsxla';
import { writeKDCache } from 'tsxla/distill';
import { saveStudent } from 'tsxla/recovery';
import { folderOf } from '../models/support.js';
import { scratch } from '../scratch.js';

export const { newFolder, file } = scratch('recovery');

export const ids = tx.tensor([[1, 5, 9, 2, 7, 3]], { dtype: 'i32' });
export const logits = async (model: tx.models.DecoderForCausalLM): Promise<Float32Array> =>
  (await model.forward(ids).float().data()) as Float32Array;
export const furthest = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Math.max(...Array.from(a, (x, i) => Math.abs(x - b[i]!)));

const WORDS = 'the quick brown fox jumps over a lazy dog and runs far away from home'.split(' ');
/** Lines of words that follow one another in a few ways. */
export const linesOf = (count: number): string[] =>
  Array.from({ length: count }, (_, i) =>
    Array.from({ length: 9 }, (_, j) => WORDS[(i * 7 + j * (1 + (i % 4))) % WORDS.length]).join(' '),
  );

/** What the teacher says of a text: of `sequences` sequences of `sequenceLength` tokens, with candidates and negatives. */
export interface CacheSizes {
  readonly sequenceLength: number;
  readonly topK: number;
  readonly negatives: number;
  readonly sequences: number;
}
/** A small student of 2 bits, and what its teacher says of a text. */
export async function writeStudentAndCache(
  student: string,
  cache: string,
  text: string,
  sizes: CacheSizes,
): Promise<void> {
  const model = await tx.models.Qwen3ForCausalLM.fromPretrained(folderOf('tied'), { dtype: 'f32' });
  await tx.quant.quantizeModel(model, { preset: 'q2a2', options: { scaleRank: 2 } });
  await saveStudent(student, model);
  const teacher = { teacher: folderOf('tied'), data: text, dtype: 'f32', logits: 'f32' } as const;
  await writeKDCache(cache, { ...teacher, ...sizes, batchSize: 4 });
}
