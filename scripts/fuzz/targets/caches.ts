// KD caches, ours and the original's.

import { importKDCache, KDCacheDataset, type KDSequence } from 'tsxla/distill';
import type { HostArray } from 'tsxla/io';
import { mutateBytes } from '../bytes.js';
import { mutateJson } from '../json.js';
import { mutatePickle } from '../pickle.js';
import { joinSafetensors, mutateSafetensors, readSafetensorsStrictly, splitSafetensors } from '../safetensors.js';
import type { Target } from '../target.js';
import { mutateZip } from '../zip.js';
import { bytesOf, goldenPath, made, strictly, together } from './files.js';
import { legalTorch } from './torch.js';

interface Cache {
  readonly info: object;
  readonly sequences: readonly KDSequence[];
}
const MOST = 1000;
async function readCache(folder: string): Promise<Cache> {
  const cache = await KDCacheDataset.open(folder);
  if (cache.length > MOST) throw new Error(`${cache.length} sequences`);
  const sequences = await Promise.all(Array.from({ length: cache.length }, (_, i) => cache.get(i)));
  await KDCacheDataset.open(folder, { preload: true });
  return { info: cache.info, sequences };
}

const FIELDS: Readonly<Record<string, string>> = {
  ...{ inputIds: 'input_ids', attentionMask: 'attention_mask', lossMask: 'loss_mask' },
  ...{ topkIdx: 'topk_idx', topkLogits: 'topk_logits', randIdx: 'rand_idx', randLogits: 'rand_logits' },
};
const isShard = (name: string): boolean => name.endsWith('.safetensors');

/** As caches were before they had checksums: nothing stops what reads their arrays. */
function withoutChecksums(shard: Buffer): Buffer {
  const { header, data } = splitSafetensors(shard)!;
  const { __metadata__: metadata, ...arrays } = JSON.parse(header.toString());
  const { crc32: _, ...note } = JSON.parse(metadata['kd-cache']);
  const old = { __metadata__: { 'kd-cache': JSON.stringify(note) }, ...arrays };
  return joinSafetensors({ header: Buffer.from(JSON.stringify(old)), data });
}

const ours: Target = {
  name: 'kd-cache',
  about: 'KD caches: manifest.json and shards in safetensors',
  covers: ['tsxla/distill KDCacheDataset'],
  async make() {
    const cache = await made((folder) => importKDCache(goldenPath('kd-cache'), folder, { tokenizer: 'a'.repeat(64) }));
    return [cache, new Map([...cache].map(([name, b]) => [name, isShard(name) ? withoutChecksums(b) : b]))];
  },
  mutate: (name) => (isShard(name) ? mutateSafetensors : mutateJson),
  read: readCache,
  legal: ({ after, value }) =>
    strictly(
      () =>
        [...after.keys()]
          .filter(isShard)
          .sort()
          .map((name) => readSafetensorsStrictly(after.get(name)!)),
      (shards) => {
        const { sequences } = value as Cache;
        const manifest = JSON.parse(after.get('manifest.json')!.toString());
        if (sequences.length !== manifest.sequences)
          return `${sequences.length} sequences, the manifest says ${manifest.sequences}`;
        for (const [field, stored] of Object.entries(FIELDS)) {
          const told = shards.map(
            (shard) =>
              shard.get(stored)?.bytes ?? (field === 'lossMask' ? shard.get('attention_mask')?.bytes : undefined),
          );
          const read = sequences.map((s) => s[field as keyof KDSequence] as HostArray | undefined);
          if (read.every((a) => a === undefined)) continue; // the manifest says that there are none
          if (!Buffer.concat(read.map((a) => bytesOf(a!))).equals(Buffer.concat(told.map((b) => b ?? Buffer.alloc(0)))))
            return `${field}: other elements than the shards`;
        }
        return undefined;
      },
    ),
};

const SHARDS = ['shard_00000.pt', 'shard_00001.pt'];
const original: Target = {
  name: 'kd-cache-original',
  about: "the original's KD caches: meta.json, progress.json and shards of torch",
  covers: ['tsxla/distill KDCacheDataset', 'tsxla/distill importKDCache', 'tsxla/io locateTorch'],
  make: () => [together('kd-cache', ['meta.json', 'progress.json', ...SHARDS])],
  mutate: (name) =>
    name.endsWith('.json')
      ? mutateJson
      : mutateZip((member) => (member.endsWith('data.pkl') ? mutatePickle : mutateBytes)),
  read: readCache,
  legal({ before, after, base, value }) {
    const [was, is] = [base as Cache, value as Cache];
    const progress = after.get('progress.json');
    const written = progress && JSON.parse(progress.toString())?.n_written;
    if (typeof written === 'number' && written !== is.sequences.length)
      return `${is.sequences.length} sequences of ${written}`;
    const changed = SHARDS.filter((name) => !after.get(name)?.equals(before.get(name)!));
    if (!changed.length && was.sequences.length !== is.sequences.length)
      return 'another number of sequences in the same shards';
    // Shards that are whole say the same as before; of others, what their archives hold decides.
    for (const name of changed) {
      const shard = after.get(name);
      if (!shard) continue;
      const wrong = legalTorch({ base: null, value: null }, before.get(name)!, shard);
      if (wrong && wrong !== 'other elements of the same members') return `${name}: ${wrong}`;
    }
    return undefined;
  },
};

export const CACHES: readonly Target[] = [ours, original];
