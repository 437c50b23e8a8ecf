// Until io has openSharded and writeSharded.
import fs from 'node:fs/promises';
import path from 'node:path';
import type { ArrayType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { type HostArray, readSafetensors, writeSafetensors } from '../io/index.js';
import type { Tensor } from '../tensor/tensor.js';

export interface TensorFile {
  readonly entries: ReadonlyMap<string, ArrayType>;
  read(name: string): Promise<HostArray>;
  close(): Promise<void>;
}

export async function openSharded(folder: string): Promise<TensorFile> {
  const index = await fs.readFile(path.join(folder, 'model.safetensors.index.json'), 'utf8').catch(() => undefined);
  const names: string[] = index
    ? [...new Set(Object.values(JSON.parse(index).weight_map as Record<string, string>))]
    : ['model.safetensors'];
  const entries = new Map<string, HostArray>();
  for (const name of names) for (const [k, v] of await readSafetensors(path.join(folder, name))) entries.set(k, v);
  return {
    entries,
    read: async (name) => entries.get(name) ?? Promise.reject(new ArgumentError(`no ${name}`)),
    close: async () => entries.clear(),
  };
}

export async function writeSharded(folder: string, arrays: ReadonlyMap<string, Tensor>): Promise<void> {
  const read = new Map<string, HostArray>();
  for (const [name, t] of arrays) read.set(name, { dtype: t.dtype, shape: t.shape, data: await t.data() });
  await fs.mkdir(folder, { recursive: true });
  await writeSafetensors(path.join(folder, 'model.safetensors'), read);
}
