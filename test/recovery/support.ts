// What the tests of recovery share: a small Qwen3, folders that go away.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import * as tx from 'tsxla';
import { afterAll } from 'vitest';

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-recovery-'));
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));
let folders = 0;
export const newFolder = (): string => path.join(scratch, `folder-${folders++}`);
export const file = (name: string, text: string): string => {
  fs.writeFileSync(path.join(scratch, name), text);
  return path.join(scratch, name);
};

export const ids = tx.tensor([[1, 5, 9, 2, 7, 3]], { dtype: 'i32' });
export const logits = async (model: tx.models.Qwen3ForCausalLM): Promise<Float32Array> =>
  (await model.forward(ids).float().data()) as Float32Array;
export const furthest = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Math.max(...Array.from(a, (x, i) => Math.abs(x - b[i]!)));
