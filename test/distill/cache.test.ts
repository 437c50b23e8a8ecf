// A KD cache holds what the teacher says, whichever way it was made, and is continued without doubles.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { DataLoader, IterableDataset } from 'tsxla/data';
import { KDCacheDataset, type KDCacheProgress, teacherCandidates, writeKDCache } from 'tsxla/distill';
import { Tokenizer } from 'tsxla/models';
import { describe, expect, test } from 'vitest';
import { largest } from '../../dist/distill/cache-teacher.js';
import { defaultClient } from '../../dist/runtime/value.js';
import { folderOf, load } from '../models/support.js';
import { goldenPath } from '../support.js';
import { file, newFolder, sentence, sequencesOf, small } from './support.js';

const tokenizer = await Tokenizer.fromPretrained(folderOf('tied'));
const model = await load('tied');
const V = model.config.vocabSize;
const loaded = { ...small, teacher: model };

const whole = newFolder();
const told: KDCacheProgress[] = [];
const written = await writeKDCache(whole, { ...small, onProgress: (p) => told.push(p) });
const compiled = tx.explain().map((r) => r.name);
const all = await sequencesOf(whole);

describe('what is in it', () => {
  test('the text, tokenized, with an end behind each, one after the other', async () => {
    const end = tokenizer.encode('<|im_end|>');
    const tokens = Array.from({ length: 24 }, (_, i) => [...tokenizer.encode(sentence(i)), ...end]).flat();
    const padding = all.length * 16 - tokens.length;
    expect(padding).toBeGreaterThan(0);
    expect(padding).toBeLessThan(16);
    expect(all.flatMap((s) => s.inputIds)).toEqual([...tokens, ...Array(padding).fill(0)]);
    for (const mask of ['attentionMask', 'lossMask'])
      expect(all.flatMap((s) => s[mask])).toEqual([...tokens.map(() => 1), ...Array(padding).fill(0)]);
  });

  test("the largest of the teacher's logits, and those of others, for each position but the last", async () => {
    for (const { inputIds, topkIdx, topkLogits, randIdx, randLogits } of [all[0]!, all[3]!, all.at(-1)!]) {
      const ids = tx.tensor(Int32Array.from(inputIds!), { shape: [1, 16] });
      const logits = (await model.forward(ids).tolist()) as number[][][];
      expect([topkIdx!.length, randIdx!.length]).toEqual([15 * 5, 15 * 4]);
      for (let s = 0; s < 15; s++) {
        const row = logits[0]![s]!;
        const best = row
          .map((_, i) => i)
          .sort((a, b) => row[b]! - row[a]!)
          .slice(0, 5);
        expect(topkIdx!.slice(s * 5, s * 5 + 5)).toEqual(best);
        best.forEach((id, k) => expect(topkLogits![s * 5 + k]).toBeCloseTo(row[id]!, 4));
        const others = randIdx!.slice(s * 4, s * 4 + 4);
        others.forEach((id, r) => expect(randLogits![s * 4 + r]).toBeCloseTo(row[id]!, 4));
        expect(new Set([...best, ...others]).size).toBe(9); // no token twice
      }
    }
  });

  test('the tokens drawn at random are from everywhere, and others for another seed', async () => {
    const ids = all.flatMap((s) => s.randIdx!);
    expect([Math.min(...ids), Math.max(...ids)].map((x) => Math.round(x / 10))).toEqual([0, 35]);
    const mean = ids.reduce((a, b) => a + b, 0) / ids.length;
    expect(Math.abs(mean - (V - 1) / 2)).toBeLessThan(6); // the deviation of this mean is 0.6 for drawing from quarters
    const folder = newFolder();
    await writeKDCache(folder, { ...loaded, seed: 8, sequences: 4 });
    const other = await sequencesOf(folder);
    expect(other[0]!.topkIdx).toEqual(all[0]!.topkIdx);
    expect(other[0]!.randIdx).not.toEqual(all[0]!.randIdx);
  });

  test('half the bytes of logits in f16, and none at random if none are asked for', async () => {
    const folder = newFolder();
    await writeKDCache(folder, { ...loaded, logits: 'f16', negatives: 0, sequences: 2 });
    const cache = await KDCacheDataset.open(folder);
    const sequence = await cache.get(1);
    expect(sequence.topkLogits).toMatchObject({ dtype: 'f16', shape: [15, 5] });
    expect(Object.keys(sequence)).not.toContain('randIdx');
    const numbers = tx.tensor(sequence.topkLogits.data, { dtype: 'f16', shape: [75] }).float();
    (await numbers.data()).forEach((x, i) => expect(x).toBeCloseTo(all[1]!.topkLogits![i]!, 2));
  });
});

describe('one program', () => {
  test('for all batches, the last that is not full too', () => {
    expect(all.length % 4).not.toBe(0);
    expect(compiled).toEqual(['firstNonfinite', 'teacherCandidates']); // that of its weights, and that of its texts
  });

  test('in chunks it is the same, takes less memory, and never holds the logits of all positions', async () => {
    const [B, L, V] = [4, 33, 4000];
    const embedding = new tx.nn.Embedding(V, 8);
    const teacher = { config: { vocabSize: V }, model: embedding, lmHead: new tx.nn.Linear(8, V, { bias: false }) };
    const sizes = { sequenceLength: L, topK: 5, negatives: 4 };
    const ids = tx.randint(V, [B, L], { dtype: 'i32' });
    const random = tx.tensor(Uint32Array.of(1, 0, 0, 0));
    const client = await defaultClient();
    const memory: number[] = [];
    const found: ArrayLike<number>[][] = [];
    for (const rows of [B * L, 10]) {
      const reduce = teacherCandidates(teacher, sizes, 'f32', rows * 4 * V);
      const text = reduce.stablehlo([ids, random]);
      memory.push((await client.compile(text)).memory().temporaries);
      expect(text.includes(`tensor<${B * (L - 1)}x${V}x`)).toBe(rows > 10);
      expect(text).not.toContain(`tensor<${B}x${L}x${V}x`);
      const { topkIdx, topkLogits, randIdx, randLogits } = await reduce(ids, random);
      found.push(
        await Promise.all([topkIdx, topkLogits, randIdx!, randLogits!].map((t) => t.data() as Promise<Float32Array>)),
      );
    }
    const [together, chunked] = found as [ArrayLike<number>[], ArrayLike<number>[]];
    for (const i of [0, 2]) expect(Array.from(chunked[i]!)).toEqual(Array.from(together[i]!));
    for (const i of [1, 3]) Array.from(chunked[i]!).forEach((x, j) => expect(x).toBeCloseTo(together[i]![j]!, 4));
    expect(memory[1]).toBeLessThan(memory[0]! / 5);
  });
});

test.each([
  [1281, 5],
  [352, 40], // too few groups: sorted whole
])('the largest of %i by groups, %i of them, are those of topk, equals too', async (V, k) => {
  const numbers = Float32Array.from({ length: 2 * V }, (_, i) => (i * 7919) % 31);
  const x = tx.tensor(numbers, { shape: [2, V] });
  const [ours, theirs] = [largest(x, k), x.topk(k)];
  await tx.sync(ours.values, ours.indices, theirs.values);
  expect(await ours.values.tolist()).toEqual(await theirs.values.tolist());
  const places = (await ours.indices.tolist()) as number[][];
  expect(places.map((row, r) => row.map((i) => numbers[r * V + i]))).toEqual(await theirs.values.tolist());
  for (const row of places) expect(new Set(row).size).toBe(k);
});

describe('continued', () => {
  test('by pieces, with another batch size and other shards, it is the same: nothing twice, nothing left out', async () => {
    const folder = newFolder();
    const rest = { ...loaded, batchSize: 3, shardSequences: 3 };
    expect(await writeKDCache(folder, { ...rest, sequences: 5 })).toMatchObject({ sequences: 5, resumedAt: 0 });
    expect(await writeKDCache(folder, { ...rest, sequences: 6 })).toMatchObject({ sequences: 6, resumedAt: 5 });
    expect(await writeKDCache(folder, rest)).toMatchObject({ sequences: all.length, resumedAt: 6 });
    const there = await sequencesOf(folder);
    expect(there.map((s) => [s.inputIds, s.topkIdx, s.randIdx])).toEqual(
      all.map((s) => [s.inputIds, s.topkIdx, s.randIdx]),
    );
  });

  test('what is whole is left alone: nothing is computed', async () => {
    const runs = tx.metrics.metricData('ExecuteTime')!.total;
    expect(await writeKDCache(whole, loaded)).toEqual({ ...written, resumedAt: all.length });
    expect(tx.metrics.metricData('ExecuteTime')!.total).toBe(runs);
  });

  test('a shard that is cut off, missing, or half-written by a killed run, is made again', async () => {
    const folder = newFolder();
    fs.cpSync(whole, folder, { recursive: true });
    const shard = (n: number) => path.join(folder, `shard-0000${n}.safetensors`);
    fs.truncateSync(shard(1), 900);
    await expect(KDCacheDataset.open(folder)).rejects.toThrow(
      /shard-00001.safetensors is not a whole safetensors file: /,
    );
    fs.writeFileSync(`${shard(1)}.0f3a.tmp`, 'half');
    expect(await writeKDCache(folder, loaded)).toMatchObject({ resumedAt: 4 });
    expect(await sequencesOf(folder)).toEqual(all);
    fs.rmSync(shard(1));
    await expect(KDCacheDataset.open(folder)).rejects.toThrow(/has no shard-00001.safetensors: copy it again/);
    const last = fs
      .readdirSync(folder)
      .filter((n) => n.startsWith('shard-'))
      .at(-1)!;
    await writeKDCache(folder, loaded);
    fs.rmSync(path.join(folder, last));
    await expect(KDCacheDataset.open(folder)).rejects.toThrow(
      new RegExp(`has only \\d+ of ${all.length} sequences: shards are missing`),
    );
    expect(fs.readdirSync(folder).filter((n) => n.endsWith('.tmp') || n.endsWith('.lock'))).toEqual([]);
  });

  test('it says how large it will be before anything is computed, and how long it takes', () => {
    expect(told[0]).toMatchObject({ sequences: 0, bytes: 0, tokensPerSecond: undefined });
    expect(Math.abs(told[0]!.total! - all.length)).toBeLessThan(0.35 * all.length);
    expect(told.at(-1)).toMatchObject({
      sequences: all.length,
      total: all.length,
      bytes: written.bytes,
      secondsLeft: 0,
    });
    expect(told.at(-1)!.tokensPerSecond).toBeGreaterThan(0);
    const files = fs.readdirSync(whole).filter((n) => n.startsWith('shard-'));
    const onDisk = files.reduce((n, f) => n + fs.statSync(path.join(whole, f)).size, 0);
    expect(onDisk - written.bytes).toBeLessThan(1200 * files.length); // headers
  });
});

describe('documents', () => {
  const tokensOf = async (options: object) => {
    const folder = newFolder();
    await writeKDCache(folder, {
      ...loaded,
      teacher: model,
      topK: 1,
      negatives: 0,
      sequenceLength: 8,
      ...options,
    } as never);
    return (await sequencesOf(folder)).map(({ inputIds, attentionMask, lossMask }) => ({
      tokens: inputIds!.slice(
        0,
        attentionMask!.reduce((a, b) => a + b),
      ),
      learnt: inputIds!.filter((_, i) => lossMask![i]),
    }));
  };
  const flat = (rows: { tokens: number[] }[]) => rows.flatMap((r) => r.tokens);

  test('text files by paragraph or line, Parquet and chats', async () => {
    const text = file('a.txt', 'one\ntwo\n\nthree four\n');
    const end = tokenizer.encode('<|im_end|>');
    const encoded = (...texts: string[]) => texts.flatMap((t) => [...tokenizer.encode(t), ...end]);
    expect(flat(await tokensOf({ data: text }))).toEqual(encoded('one\ntwo', 'three four'));
    expect(flat(await tokensOf({ data: text, by: 'line' }))).toEqual(encoded('one', 'two', 'three four'));
    expect(flat(await tokensOf({ data: text, separator: null }))).toEqual(tokenizer.encode('one\ntwothree four'));
    const rows = Array.from({ length: 100 }, (_, i) => (i % 10 === 9 ? [] : [`row ${i}`])).flat(); // every tenth is null
    expect(flat(await tokensOf({ data: goldenPath('parquet/zstd.parquet') }))).toEqual(encoded(...rows));
    const lists = Array.from({ length: 100 }, (_, i) => Array.from({ length: i % 5 }, (_, j) => i + j)).flat();
    expect(flat(await tokensOf({ data: goldenPath('parquet/zstd.parquet'), field: 'tokens' }))).toEqual(lists);
    const messages = [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'ho' },
    ];
    const chat = tokenizer.encode(tokenizer.applyChatTemplate(messages, { addGenerationPrompt: false }));
    expect(flat(await tokensOf({ data: file('c.jsonl', JSON.stringify({ messages })), field: 'messages' }))).toEqual(
      chat,
    );
  });

  test('each in a sequence of its own, cut and padded; what its labels leave out is not learnt', async () => {
    const data = [[1, 2, 3], [9], { tokens: [4, 5, 6, 7], labels: [-100, -100, 6, 7] }, Array(11).fill(8)];
    expect(await tokensOf({ data: IterableDataset.from(data), pack: false })).toEqual([
      { tokens: [1, 2, 3], learnt: [1, 2, 3] },
      { tokens: [4, 5, 6, 7], learnt: [6, 7] },
      { tokens: Array(8).fill(8), learnt: Array(8).fill(8) },
    ]);
    expect(await tokensOf({ data: IterableDataset.from(data) })).toEqual([
      { tokens: [1, 2, 3, 9, 4, 5, 6, 7], learnt: [1, 2, 3, 9, 6, 7] },
      { tokens: Array(8).fill(8), learnt: Array(8).fill(8) },
      { tokens: [8, 8, 8], learnt: [8, 8, 8] },
    ]);
  });
});

describe('reading', () => {
  test('kept in memory or not, it is the same', async () => {
    expect(await sequencesOf(whole, { preload: true })).toEqual(all);
  });

  test('a loader shuffles over everything by a seed, and resumes where it was', async () => {
    const cache = await KDCacheDataset.open(whole);
    const loader = () => new DataLoader(cache, { batchSize: 2, shuffle: true, seed: 3, device: 'host' });
    const batches = async (from: DataLoader<Awaited<ReturnType<typeof cache.get>>>, most = 99) => {
      const seen: number[][] = [];
      for await (const { inputIds, topkLogits, randIdx } of from) {
        expect([topkLogits.shape, randIdx!.shape]).toEqual([
          [2, 15, 5],
          [2, 15, 4],
        ]);
        seen.push(Array.from((await inputIds.data()) as Int32Array));
        if (seen.length === most) break;
      }
      return seen;
    };
    const epoch = await batches(loader());
    const found = epoch.flatMap((b) => [b.slice(0, 16), b.slice(16)]).map(String);
    const places = found.map((f) => all.findIndex((s) => String(s.inputIds) === f));
    expect(new Set(places).size).toBe(all.length - (all.length % 2)); // what does not fill a batch is left out
    expect(places.slice(0, 4).some((p) => p >= 8)).toBe(true); // not shard by shard
    const first = loader();
    const begun = await batches(first, 2);
    const second = loader();
    second.load(JSON.parse(JSON.stringify(first.state())));
    expect([...begun, ...(await batches(second))]).toEqual(epoch);
  });
});
