// What targets share: files of the repository as seeds, and arrays compared with what a strict reader says.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { HostArray } from 'tsxla/io';
import { DTYPES } from 'tsxla/pjrt';
import { sameValue } from '../compare.js';
import type { Told } from '../safetensors.js';
import type { Case, Files } from '../target.js';

const GOLDEN = path.join(import.meta.dirname, '../../../test/golden');
export const goldenPath = (name: string): string => path.join(GOLDEN, name);
export const golden = (name: string): Buffer => fs.readFileSync(goldenPath(name));
/** One file of the repository as a seed, under a name that all seeds of a target share. */
export const alone =
  (as: string) =>
  (name: string): Files =>
    new Map([[as, golden(name)]]);
/** Some files of a folder as one seed. */
export const together = (folder: string, names: readonly string[]): Files =>
  new Map(names.map((name) => [name, golden(path.join(folder, name))]));

/** What is written to a folder, as one seed. */
export async function made(write: (folder: string) => Promise<unknown>): Promise<Files> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-fuzz-seed-'));
  try {
    await write(folder);
    const names = fs.readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
    const files = names.filter((name) => fs.statSync(path.join(folder, name)).isFile());
    return new Map(files.map((name) => [name, fs.readFileSync(path.join(folder, name))]));
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

export const bytesOf = ({ data }: HostArray): Buffer => Buffer.from(data.buffer, data.byteOffset, data.byteLength);
const shown = (list: Iterable<string>): string => [...list].join(', ').slice(0, 200) || 'none';

/** How arrays that were read differ from those that a file holds. */
export function differences(read: ReadonlyMap<string, HostArray>, told: ReadonlyMap<string, Told>): string | undefined {
  const [missing, extra] = [[...told.keys()].filter((k) => !read.has(k)), [...read.keys()].filter((k) => !told.has(k))];
  if (missing.length || extra.length) return `arrays missing: ${shown(missing)}; made up: ${shown(extra)}`;
  for (const [name, { dtype, shape, bytes }] of told) {
    const array = read.get(name)!;
    if (DTYPES[array.dtype].safetensors !== dtype) return `${name} is ${array.dtype}, the file says ${dtype}`;
    if (!isDeepStrictEqual([...array.shape], [...shape]))
      return `${name} has shape ${array.shape}, the file says ${shape}`;
    if (!bytesOf(array).equals(bytes)) return `${name} has other elements than the file`;
  }
  return undefined;
}

/** What a strict reader says, or the sentence that the file should have been refused. */
export function strictly<T>(read: () => T, use: (told: T) => string | undefined): string | undefined {
  let told: T;
  try {
    told = read();
  } catch (e) {
    return `read, though a strict reader refuses it: ${(e as Error).message}`;
  }
  return use(told);
}

/** Whether JSON texts mean the same. */
export function sameJson(a: Buffer | undefined, b: Buffer | undefined): boolean {
  if (!a || !b) return a === b;
  try {
    return a.equals(b) || sameValue(JSON.parse(a.toString()), JSON.parse(b.toString())) === true;
  } catch {
    return false;
  }
}
/** For readers of JSON: what is read differs only where the texts do. */
export const sameMeaning = ({ before, after }: Case, names: readonly string[] = [...before.keys()]): boolean =>
  names.every((name) => sameJson(before.get(name), after.get(name)));
