// KD caches are checked where they are written and where they are read: what is damaged or cannot be learnt from is an error
// that names file, sequence and position.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { importKDCache, KDCacheDataset, writeKDCache } from 'tsxla/distill';
import { type HostArray, openSafetensors, readSafetensors, writeSafetensors } from 'tsxla/io';
import { expect, test } from 'vitest';
import { load } from '../models/support.js';
import { goldenPath } from '../support.js';
import { newFolder, sequencesOf, small } from './support.js';

const model = await load('tied');
const whole = newFolder();
await writeKDCache(whole, { ...small, teacher: model, sequences: 8 });
const all = await sequencesOf(whole);

const copyOf = (folder: string): string => {
  const to = newFolder();
  fs.cpSync(folder, to, { recursive: true });
  return to;
};
const shardIn = (folder: string, n = 1) => path.join(folder, `shard-0000${n}.safetensors`);
/** Rewrites a shard as earlier versions did, without checksums, after `change`. */
async function rewrite(file: string, change: (arrays: Map<string, HostArray>) => void = () => {}, note?: string) {
  const arrays = await readSafetensors(file);
  await using opened = await openSafetensors(file);
  const { crc32: _, ...old } = JSON.parse(opened.metadata.get('kd-cache')!);
  change(arrays);
  await writeSafetensors(file, arrays, { metadata: { 'kd-cache': note ?? JSON.stringify(old) } });
}

test('a changed byte anywhere in a shard is an error that names it; among its numbers, the sequence, too', async () => {
  const folder = copyOf(whole);
  const file = shardIn(folder);
  const bytes = fs.readFileSync(file);
  const start = 8 + Number(bytes.readBigUInt64LE());
  await using opened = await openSafetensors(file);
  const arrays = [...opened.entries.values()] as { position: number; byteLength: number }[];
  const sequenceOf = (at: number) => {
    const { position, byteLength } = arrays.find((a) => at >= a.position && at < a.position + a.byteLength)!;
    return Math.floor((at - position) / (byteLength / 4));
  };
  let refused = 0;
  for (let at = 0; at < bytes.length; at += at < start ? 7 : 97) {
    const damaged = Buffer.from(bytes);
    damaged[at]! ^= 1 << (at % 8);
    fs.writeFileSync(file, damaged);
    const read = sequencesOf(folder).then(
      (sequences) => ({ sequences, message: '' }),
      (e: Error) => ({ sequences: undefined, message: e.message }),
    );
    const { sequences, message } = await read;
    if (sequences)
      expect(sequences, `byte ${at} of the header`).toEqual(all); // a space that became another
    else expect(message).toContain(file);
    if (at >= start)
      expect(message).toContain(
        `the checksum of sequence ${sequenceOf(at)} (${4 + sequenceOf(at)} of the cache) differs`,
      );
    refused += sequences ? 0 : 1;
  }
  expect(refused).toBeGreaterThan(100);
  fs.writeFileSync(file, bytes);
  expect(await sequencesOf(folder)).toEqual(all);
});

test('a cache of an earlier version, without checksums, opens and is continued', async () => {
  const folder = copyOf(whole);
  for (const n of [0, 1]) await rewrite(shardIn(folder, n));
  expect(await sequencesOf(folder)).toEqual(all);
  expect(await writeKDCache(folder, { ...small, teacher: model, sequences: 10 })).toMatchObject({ resumedAt: 8 });
  expect((await sequencesOf(folder)).slice(0, 8)).toEqual(all);
});

const set = (name: string, at: number, value: number) => (arrays: Map<string, HostArray>) => {
  (arrays.get(name)!.data as Float32Array)[at] = value;
};
// Of 4 sequences: 16 tokens, 15 positions, 5 and 4 candidates.
// biome-ignore format: a table
test.each<[string, number, number, string]>([
  ['input_ids', 2 * 16 + 3, 1e9, 'sequence 2 (6 of the cache), position 3: input_ids holds token 1000000000, but the vocabulary has 0 to 351'],
  ['topk_idx', (15 + 14) * 5, 352, 'sequence 1 (5 of the cache), position 14: topk_idx holds token 352, but the vocabulary has 0 to 351'],
  ['rand_idx', 0, -1, 'sequence 0 (4 of the cache), position 0: rand_idx holds token -1, but the vocabulary has 0 to 351'],
  ['loss_mask', 5, 2, 'sequence 0 (4 of the cache), position 5: loss_mask holds 2: a mask is 0 or 1'],
  ['attention_mask', 5, 255, 'sequence 0 (4 of the cache), position 5: attention_mask holds 255: a mask is 0 or 1'],
  ['topk_logits', 3 * 75 + 6, Number.NaN, "sequence 3 (7 of the cache), position 1: topk_logits holds NaN: the teacher's logits must be finite: make the cache again with f32 storage (--logits f32)"],
  ['rand_logits', 1, Number.NEGATIVE_INFINITY, 'sequence 0 (4 of the cache), position 0: rand_logits holds -inf'],
])('without checksums: %s[%i] = %d', async (name, at, value, said) => {
  const folder = copyOf(whole);
  await rewrite(shardIn(folder), set(name, at, value));
  const text = `${shardIn(folder)}: ${said}`;
  await expect(sequencesOf(folder)).rejects.toThrow(text);
  await expect(KDCacheDataset.open(folder, { preload: true })).rejects.toThrow(text);
});

test('f16 and bf16 logits are checked by their bits', async () => {
  const folder = newFolder();
  await writeKDCache(folder, { ...small, teacher: model, sequences: 2, logits: 'f16' });
  for (const [dtype, bits, shown] of [
    ['f16', 0x7c00, 'inf'],
    ['f16', 0xfe01, 'NaN'],
    ['bf16', 0xff80, '-inf'],
    ['bf16', 0x7fc0, 'NaN'],
  ] as const) {
    const damaged = copyOf(folder);
    await rewrite(shardIn(damaged, 0), (arrays) => {
      const { shape, data } = arrays.get('topk_logits')!;
      arrays.set('topk_logits', { dtype, shape, data });
      data[7] = bits;
    });
    await expect(sequencesOf(damaged)).rejects.toThrow(`position 1: topk_logits holds ${shown}:`);
  }
});

test('notes and manifests that are not as they should be are named with what was expected', async () => {
  const refuses = async (change: (folder: string) => unknown, text: string) => {
    const folder = copyOf(whole);
    await change(folder);
    await expect(KDCacheDataset.open(folder)).rejects.toThrow(text);
  };
  const note = (text: string) => (folder: string) => rewrite(shardIn(folder), undefined, text);
  await refuses(note('{'), 'shard-00001.safetensors: the kd-cache of its header is not JSON');
  await refuses(note('null'), 'the kd-cache of its header: its content is null: expected an object');
  await refuses(note('{"first": "4", "after": null}'), '"first" is "4": expected a whole number of at least 0');
  await refuses(
    note('{"first": 5, "after": null}'),
    'shard-00001.safetensors begins with sequence 5 of the cache, but the shards before it have 4',
  );
  await refuses(
    note('{"first": 4, "after": null, "crc32": [1, 2, 3, 4]}'),
    'is damaged: the checksum of its header differs',
  );
  const manifest = (from: string, to: string) => (folder: string) => {
    const file = path.join(folder, 'manifest.json');
    const text = fs.readFileSync(file, 'utf8');
    expect(text).toContain(from);
    fs.writeFileSync(file, text.replace(from, to));
  };
  await refuses(
    manifest('"topK": 5', '"topK": "5"'),
    'manifest.json: "settings.topK" is "5": expected a whole number of at least 1',
  );
  await refuses(
    manifest('"vocabSize": 352,', ''),
    'manifest.json: "settings.vocabSize" is missing: expected a whole number of at least 1',
  );
  await refuses(
    manifest('cache-v1', 'cache-v2'),
    'manifest.json: "format" is "tsxla-kd-cache-v2": expected "tsxla-kd-cache-v1"',
  );
  await refuses(
    manifest('"complete": true', '"complete": 1'),
    'manifest.json: "complete" is 1: expected true or false',
  );
  await refuses((folder) => fs.writeFileSync(path.join(folder, 'manifest.json'), 'x'), 'manifest.json is not JSON');
});

test('a logit that f16 cannot hold ends the run: the shards before are kept, and go on', async () => {
  const f32 = newFolder();
  const options = { ...small, batchSize: 1, shardSequences: 1, sequences: 8 };
  await writeKDCache(f32, { ...options, teacher: model });
  const largest = (await sequencesOf(f32)).map((s) => Math.max(...s.topkLogits!.map(Math.abs)));
  const worst = largest.indexOf(Math.max(...largest));
  expect(worst).toBeGreaterThan(0); // or there are no shards before
  const before = Math.max(...largest.slice(0, worst));
  const teacher = await load('tied');
  tx.noGrad(() => void teacher.model.norm.weight.mul_(65_504 / ((before + largest[worst]!) / 2)));
  await tx.sync(teacher.model.norm.weight);
  const folder = newFolder();
  await expect(writeKDCache(folder, { ...options, teacher, logits: 'f16' })).rejects.toThrow(
    new RegExp(
      `^kd-cache: sequence ${worst}, position \\d+: topk_logits is -?\\d{5}[.\\d]*, which is too large for f16: make the cache with --logits f32, with --overwrite`,
    ),
  );
  expect(fs.readdirSync(folder).filter((n) => n.startsWith('shard-'))).toHaveLength(worst);
  expect(fs.readdirSync(folder).filter((n) => n.endsWith('.tmp') || n.endsWith('.lock'))).toEqual([]);
  expect(await sequencesOf(folder, { partial: true })).toHaveLength(worst);
  const rest = { ...options, teacher, logits: 'f16', sequences: worst } as const;
  expect(await writeKDCache(folder, rest)).toMatchObject({ resumedAt: worst, sequences: worst });
  const first = newFolder();
  tx.noGrad(() => void teacher.model.norm.weight.mul_(100));
  await expect(writeKDCache(first, { ...options, teacher, logits: 'f16' })).rejects.toThrow('sequence 0, position 0:');
  expect(fs.readdirSync(first)).toEqual([]);
});

test("the original's: tokens are checked where meta.json has no vocab_size; checksums when it is converted", async () => {
  const folder = copyOf(goldenPath('kd-cache'));
  const metaFile = path.join(folder, 'meta.json');
  const { vocab_size: _, ...meta } = JSON.parse(fs.readFileSync(metaFile, 'utf8'));
  fs.writeFileSync(metaFile, JSON.stringify(meta));
  await KDCacheDataset.open(folder, { expect: { vocabSize: 352 } });
  await expect(KDCacheDataset.open(folder, { expect: { vocabSize: 300 } })).rejects.toThrow(
    `${path.join(folder, 'shard_00000.pt')}: sequence 0 (0 of the cache), position 0: rand_idx holds token 300, but the vocabulary has 0 to 299`,
  );
  fs.writeFileSync(metaFile, JSON.stringify({ ...meta, vocab_size: 'many' }));
  await expect(KDCacheDataset.open(folder)).rejects.toThrow(
    'meta.json: "vocab_size" is "many": expected a whole number',
  );

  fs.writeFileSync(metaFile, JSON.stringify({ ...meta, vocab_size: 352 }));
  const file = path.join(folder, 'shard_00001.pt');
  const bytes = fs.readFileSync(file);
  const damaged = Buffer.from(bytes);
  const { position } = (await tx.io.locateTorch(file)).get('topk_logits')!;
  damaged[position + 3]! ^= 1; // a logit that is finite and another
  fs.writeFileSync(file, damaged);
  const to = newFolder();
  const text = /shard_00001.pt is not a.* torch file: .* is damaged: its CRC-32 differs/;
  await expect(importKDCache(folder, to)).rejects.toThrow(text);
  await expect(KDCacheDataset.open(folder, { preload: true })).rejects.toThrow(text);
  // torch.serialization.set_crc32_options(False) writes 0 for all checksums.
  const without = Buffer.from(bytes);
  for (const [header, crc] of [
    ['PK\x03\x04', 14],
    ['PK\x01\x02', 16],
  ] as const)
    for (let at = without.indexOf(header); at >= 0; at = without.indexOf(header, at + 1))
      without.writeUInt32LE(0, at + crc);
  fs.writeFileSync(file, without);
  expect(fs.readdirSync(to)).toEqual([]);
  expect(await importKDCache(folder, to)).toBe(5); // into the same folder
});

test('folders that cannot be written are refused before the teacher is read', async () => {
  const text = path.join(whole, 'manifest.json', 'sub');
  const teacher = '/nowhere/at/all';
  for (const folder of ['', text, '/proc/x/y']) {
    await expect(writeKDCache(folder, { ...small, teacher })).rejects.toThrow(
      /^--output .*: (the name is empty|.*manifest.json is a file|the folder cannot be created)/,
    );
    await expect(importKDCache(goldenPath('kd-cache'), folder)).rejects.toThrow(/^the folder to write .*: /);
  }
});
