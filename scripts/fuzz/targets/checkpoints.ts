// Checkpoints: the manifest, the index of arrays and their files, all of them with checksums.
import { createHash } from 'node:crypto';
import path from 'node:path';
import { type CheckpointInfo, CheckpointManager, type HostArray } from 'tsxla/io';
import { writeCheckpoint } from '../../../dist/io/checkpoint-files.js';
import type { Saved, Snapshot } from '../../../dist/io/state.js';
import { sameValue, shown } from '../compare.js';
import { mutateJson } from '../json.js';
import { mutateSafetensors, readSafetensorsStrictly } from '../safetensors.js';
import type { Case, Files, Target } from '../target.js';
import { golden, made } from './files.js';

const sha256 = (bytes: Uint8Array | string): string => createHash('sha256').update(bytes).digest('hex');
type Json = Record<string, unknown>;
/** An object that can be written again: it is not nested deeper than the stack. */
const jsonOf = (b: Buffer | undefined): Json | undefined => {
  try {
    const value = JSON.parse(b!.toString());
    JSON.stringify(value);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
};
const isObject = (x: unknown): x is Json => typeof x === 'object' && x !== null;

/** Makes all checksums and sizes of a checkpoint's folder right, where the JSON is such that they have a place. */
function sealFolder(files: Files, folder: string): void {
  const at = (name: string) => path.posix.join(folder, name);
  const index = jsonOf(files.get(at('arrays.json')));
  for (const arrays of Object.values(index ?? {}))
    for (const entry of isObject(arrays) ? Object.values(arrays) : [])
      for (const part of isObject(entry) && Array.isArray(entry.parts) ? entry.parts : []) {
        const bytes = isObject(part) && arrayIn(files.get(at(String(part.file))), String(part.key));
        if (bytes) part.sha256 = sha256(bytes);
      }
  if (index) files.set(at('arrays.json'), Buffer.from(JSON.stringify(index)));
  const manifest = jsonOf(files.get(at('checkpoint.json')));
  if (!manifest) return;
  for (const [name, entry] of Object.entries(isObject(manifest.files) ? manifest.files : {})) {
    const bytes = files.get(at(name));
    if (!bytes || !isObject(entry)) continue;
    entry.bytes = bytes.length;
    if ('sha256' in entry) entry.sha256 = sha256(bytes);
  }
  const { sha256: old, ...rest } = manifest;
  const sealed = old === undefined ? rest : { ...rest, sha256: sha256(JSON.stringify(rest)) };
  files.set(at('checkpoint.json'), Buffer.from(JSON.stringify(sealed, null, 1)));
}
function arrayIn(file: Buffer | undefined, key: string): Buffer | undefined {
  try {
    return readSafetensorsStrictly(file!).get(key)?.bytes;
  } catch {
    return undefined;
  }
}
const foldersOf = (files: Files): string[] => [...new Set([...files.keys()].map((name) => path.dirname(name)))];
const seal = (files: Files): void => {
  for (const folder of foldersOf(files)) sealFolder(files, folder);
};

/** Two checkpoints, the newer one with arrays in parts. */
async function twoSteps(): Promise<Files> {
  const f32 = (shape: number[], fill: number): HostArray => {
    const data = new Float32Array(shape.reduce((n, d) => n * d, 1)).map((_, i) => fill + i);
    return { dtype: 'f32', shape, data };
  };
  const whole = ({ dtype, shape, data }: HostArray) => ({
    dtype,
    shape,
    parts: [{ start: shape.map(() => 0), shape, data }],
  });
  const rng = {
    stateful: false,
    tree: { $tensor: 'rng' },
    arrays: new Map([['rng', whole({ dtype: 'u32', shape: [4], data: Uint32Array.of(1, 2, 3, 4) })]]),
  };
  const state = (step: number): Snapshot => {
    const [top, bottom] = [f32([1, 3], step), f32([1, 3], 10 * step)];
    const parts = [
      { start: [0, 0], shape: [1, 3], data: top.data },
      { start: [1, 0], shape: [1, 3], data: bottom.data },
    ];
    const model = new Map([
      [
        'weight',
        {
          dtype: 'f32' as const,
          shape: [2, 3],
          parts:
            step > 1 ? parts : parts.slice(0, 1).map((p) => ({ ...p, shape: [2, 3], data: f32([2, 3], step).data })),
        },
      ],
      ['bias', whole(f32([3], step))],
    ]);
    const tree = {
      lr: 0.1,
      big: { $bigint: '9007199254740993' },
      nan: { $number: 'NaN' },
      list: [1, { $undefined: true }],
      at: { $map: [['a', 1]] },
      mean: { $tensor: 'mean' },
    };
    return new Map<string, Saved>([
      ['model', { stateful: true, tree: { $arrays: true }, arrays: model }],
      ['note', { stateful: false, tree, arrays: new Map([['mean', whole(f32([2], step))]]) }],
      ['rng', rng],
    ]);
  };
  const files = await made(async (dir) => {
    for (const step of [1, 2])
      await writeCheckpoint(dir, { step, metrics: { loss: 1 / step }, order: step }, state(step));
  });
  // The time and the name of the attempt would be others each time.
  for (const [name, bytes] of files)
    if (name.endsWith('checkpoint.json'))
      files.set(name, Buffer.from(JSON.stringify({ ...jsonOf(bytes), time: 1.7e12, attempt: 'attempt' }, null, 1)));
  seal(files);
  return files;
}
const versionOne = (): Files =>
  new Map(
    ['checkpoint.json', 'model.safetensors', 'rng.safetensors'].map((name) => [
      `step-00000003/${name}`,
      golden(`checkpoint-v1/step-00000003/${name}`),
    ]),
  );

interface Loaded {
  readonly list: readonly CheckpointInfo[];
  readonly step: number | undefined;
  readonly metrics: unknown;
  readonly values: unknown;
  readonly older: unknown;
}
/** Something with a state that is not looked at: every array is read and verified. */
class Taken {
  taken: unknown;
  stateDict(): unknown {
    return {};
  }
  loadStateDict(state: unknown): void {
    this.taken = state;
  }
}

const checkpoint: Target = {
  name: 'checkpoint',
  about: 'checkpoints: checkpoint.json, arrays.json and files of arrays',
  covers: ['tsxla/io CheckpointManager'],
  make: async () => [await twoSteps(), versionOne()],
  mutate: (name) => (name.endsWith('.json') ? mutateJson : mutateSafetensors),
  seal,
  async read(folder): Promise<Loaded> {
    const manager = new CheckpointManager(folder, { readOnly: true, best: { metric: 'loss' } });
    const list = manager.list().map(({ path: _, ...info }) => info as CheckpointInfo);
    const model = new Taken();
    const found = await manager.load({ model });
    if (!found) throw new Error('no checkpoint, and no error');
    const { step, metrics, values } = found;
    const best = list.length && manager.best ? await manager.load({}, { step: 'best' }) : undefined;
    return { list, step, metrics, values: [values, model.taken], older: best?.values };
  },
  legal({ before, after, base, value }: Case) {
    const { list, step, metrics } = value as Loaded;
    const numbers = (x: unknown) => isObject(x) && Object.values(x).every((n) => n === null || typeof n === 'number');
    const wrong = list.find(
      (c) => !Number.isSafeInteger(c.step) || c.step < 0 || typeof c.time !== 'number' || !numbers(c.metrics),
    );
    if (wrong) return `a checkpoint is listed as ${shown(wrong)}`;
    // Of a folder whose checksums are right, anything may have changed; of others, it must have been passed over.
    const folder = [...foldersOf(after)].find((dir) => jsonOf(after.get(`${dir}/checkpoint.json`))?.step === step);
    if (!folder) return `step ${step} is of no folder`;
    const own = new Map([...after].filter(([name]) => name.startsWith(`${folder}/`)));
    const [sealed, old] = [new Map(own), new Map([...before].filter(([name]) => name.startsWith(`${folder}/`)))];
    sealFolder(sealed, folder);
    const meaning = (files: Files) =>
      [...files].map(([name, b]) => [name, name.endsWith('.json') ? jsonOf(b) : b] as const);
    const isSealed = sameValue(new Map(meaning(sealed)), new Map(meaning(own)));
    if (!isSealed) return `the checksums of ${folder} are wrong, and it was read`;
    const isOld = sameValue(new Map(meaning(own)), new Map(meaning(old)));
    if (
      isOld &&
      step === (base as Loaded).step &&
      sameValue((value as Loaded).values, (base as Loaded).values) === false
    )
      return 'other values of the same files';
    return numbers(metrics) ? undefined : `metrics are ${shown(metrics)}`;
  },
};

export const CHECKPOINTS: readonly Target[] = [checkpoint];
