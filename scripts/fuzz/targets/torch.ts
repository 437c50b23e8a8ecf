// torch's files: a zip with a pickle, and the older form, pickles one after another.
import path from 'node:path';
import { type HostArray, openTorch, readTorch, writeTorch } from 'tsxla/io';
import { mutateBytes } from '../bytes.js';
import { sameValue } from '../compare.js';
import { mutateLegacy, mutatePickle } from '../pickle.js';
import type { Case, Target } from '../target.js';
import { mutateZip, readZip } from '../zip.js';
import { alone, made } from './files.js';

const FILE = 'a.pt';
const ZIPS = ['every', 'views', 'checkpoint', 'values2', 'values4', 'big', 'weights-only', 'no-checksums'];
const PICKLES = ['old', 'legacy', 'legacy-model', 'legacy-parts', 'legacy4'];
const isArray = (x: object): x is HostArray => 'dtype' in x && 'data' in x;

/** The value without the elements of its arrays. */
const outline = (x: unknown): unknown => {
  if (typeof x !== 'object' || x === null || x instanceof Uint8Array) return x;
  if (x instanceof Map) return new Map([...x].map(([k, v]) => [outline(k), outline(v)]));
  if (x instanceof Set || Array.isArray(x)) return [...x].map(outline);
  return isArray(x)
    ? { dtype: x.dtype, shape: x.shape }
    : Object.fromEntries(Object.entries(x).map(([k, v]) => [k, outline(v)]));
};

/**
 * What may differ: the elements, where the bytes of storages do (torch compares no checksums, so readers do not); anything,
 * where the pickle does. Records of the archive are no content.
 */
export function legalTorch(
  { base, value }: Pick<Case, 'base' | 'value'>,
  before: Buffer,
  after: Buffer,
): string | undefined {
  let members: ReadonlyMap<string, Buffer>;
  try {
    members = new Map(readZip(after).map(({ name, data }) => [name, data]));
  } catch (e) {
    return `read, though a strict reader of zip archives refuses it: ${(e as Error).message}`;
  }
  const known = readZip(before);
  const pickle = (list: Iterable<string>) => [...list].find((name) => /^[^/]*\/data\.pkl$/.test(name));
  const [was, is] = [pickle(known.map((m) => m.name)), pickle(members.keys())];
  if (!was || !is) return is ? undefined : 'read without a pickle';
  const differs = known.filter(({ name, data }) => !members.get(name)?.equals(data)).map(({ name }) => name);
  if (differs.includes(was) || base === undefined) return undefined;
  if (sameValue(outline(value), outline(base)) === false)
    return `another outline of the same pickle (members ${differs})`;
  return differs.length ? undefined : 'other elements of the same members';
}

/** Also as a dict of tensors, of which some read a part alone. */
async function readAs(file: string): Promise<{ value: unknown; arrays: unknown }> {
  const value = await readTorch(file);
  if (!(value instanceof Map)) return { value, arrays: null };
  await using opened = await openTorch(file);
  const arrays = new Map<string, HostArray>();
  for (const name of opened.entries.keys()) arrays.set(name, await opened.read(name));
  return { value, arrays };
}

/** For our own writer. */
const OWN = {
  weight: { dtype: 'f32', shape: [2, 3], data: Float32Array.of(1, 2, 3, 4, 5, 6) },
  ids: { dtype: 'i64', shape: [2], data: BigInt64Array.of(7n, -1n) },
  epoch: 3,
  lr: [0.1, 1e-7],
  name: 'é',
  done: null,
} as const;

const pt: Target = {
  name: 'pt',
  about: "torch's files: a zip archive with a pickle",
  covers: ['tsxla/io readTorch', 'tsxla/io openTorch', 'tsxla/io locateTorch'],
  make: async () => [
    ...ZIPS.map((name) => alone(FILE)(`io/${name}.pt`)),
    await made((folder) => writeTorch(path.join(folder, FILE), OWN)),
  ],
  mutate: () => mutateZip((name) => (name.endsWith('data.pkl') ? mutatePickle : mutateBytes)),
  read: async (folder) => readAs(path.join(folder, FILE)),
  legal: ({ before, after, base, value }) => legalTorch({ base, value }, before.get(FILE)!, after.get(FILE)!),
};

const legacy: Target = {
  name: 'pt-legacy',
  about: "torch's files before torch 1.6: pickles one after another",
  covers: ['tsxla/io readTorch', 'tsxla/io locateTorch'],
  make: () => PICKLES.map((name) => alone(FILE)(`io/${name}.pt`)),
  mutate: () => mutateLegacy,
  read: async (folder) => readAs(path.join(folder, FILE)),
  legal: ({ base, value, before, after }) => {
    if (base === undefined) return undefined;
    // The elements lie behind the pickles, each storage after its length.
    const [was, is] = [before.get(FILE)!, after.get(FILE)!];
    return was.equals(is) ? 'another value of the same bytes' : value === undefined ? 'nothing' : undefined;
  },
};

export const TORCH: readonly Target[] = [pt, legacy];
