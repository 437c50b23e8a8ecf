// What the tests of recovery share: a small Qwen3, folders that go away.
import * as tx from 'tsxla';
import { scratch } from '../scratch.js';

export const { newFolder, file } = scratch('recovery');

export const ids = tx.tensor([[1, 5, 9, 2, 7, 3]], { dtype: 'i32' });
export const logits = async (model: tx.models.Qwen3ForCausalLM): Promise<Float32Array> =>
  (await model.forward(ids).float().data()) as Float32Array;
export const furthest = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Math.max(...Array.from(a, (x, i) => Math.abs(x - b[i]!)));
