// `tsxla kd-cache` and `tsxla kd-convert`, as a user runs them; and what goes wrong, before anything is compiled.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { KDCacheDataset, writeKDCache } from 'tsxla/distill';
import { Tokenizer } from 'tsxla/models';
import { expect, test } from 'vitest';
import { folderOf } from '../models/support.js';
import { goldenPath, tsxla } from '../support.js';
import { file, jsonl, newFolder, sequencesOf, small } from './support.js';

const sizes = ['-l', '16', '-k', '5', '-r', '4', '--shard-sequences', '4', '--seed', '7'];
const made = newFolder();
const first = await tsxla(['kd-cache', '-t', folderOf('tied'), '-d', jsonl, '-o', made, ...sizes, '-n', '6']);

test('it reports its plan, its progress and its result; and resumes', async () => {
  expect(first.status, first.stderr).toBe(0);
  expect(first.stderr).toMatch(/tsxla: about 6 sequences, \d+\.?\d* KiB\n/);
  expect(first.stderr).toMatch(/kd-cache: 6 of 6 sequences \(\d+\.?\d* KiB\), \d+ tokens\/s\n/);
  expect(first.stdout).toMatch(/: 6 sequences, \d+\.?\d* KiB, in [\d.]+ m?s\n$/);
  const args = ['kd-cache', '-t', folderOf('tied'), '-d', jsonl, '-o', made, ...sizes, '-n', '9', '--json'];
  const again = await tsxla(args);
  expect(again.stderr).toContain('has 6 sequences already: resuming after them');
  expect(JSON.parse(again.stdout)).toMatchObject({ folder: made, sequences: 9, resumedAt: 6 });
  const [ours, theirs] = [newFolder(), newFolder()];
  expect((await tsxla(['kd-convert', made, theirs])).stdout).toBe(`${theirs}: 9 sequences\n`);
  const convert = ['kd-convert', theirs, ours, '--tokenizer', folderOf('tied')];
  expect((await tsxla(convert)).stdout).toBe(`${ours}: 9 sequences\n`);
  expect(await sequencesOf(ours)).toEqual(await sequencesOf(made));
  expect((await KDCacheDataset.open(ours)).info.tokenizer).toBe((await KDCacheDataset.open(made)).info.tokenizer);
});

const empty = file('empty.jsonl', '\n');
const short = file('short.jsonl', '{"text": ""}\n{"text": null}\n');
const odd = file('odd.jsonl', '{"prompt": "a", "answer": "b"}\n');
const far = file('far.jsonl', '{"text": [1, 2, 352]}\n');
const gone = '/nowhere/at/all';
// biome-ignore format: a table
test.each<[string, object, string]>([
  ['a teacher that is not there', { teacher: gone }, '/nowhere/at/all is neither an existing folder'],
  ['data that are not there', { data: 'gone.jsonl' }, 'there is no file gone.jsonl'],
  ['data of another kind', { data: 'a.csv' }, 'a.csv: documents must be in .jsonl, .parquet or .txt files'],
  ['data of two kinds', { data: [jsonl, 'a.txt'] }, 'give files of one kind at a time'],
  ['an empty file', { data: empty }, 'the dataset is empty: no items in'],
  ['no text in it', { data: short }, 'the data is empty: no document has two tokens or more'],
  ['another field', { data: odd }, "a document has no field 'text'; its fields are prompt, answer"],
  ['a column that is not there', { data: goldenPath('parquet/none.parquet'), field: 'body' }, "has no column 'body': it has id"],
  ['tokens of another vocabulary', { data: far }, "token 352 of a document is out of range: the teacher's tokens are 0 to 351"],
  ['text without a tokenizer', { teacher: folderOf('untied') }, 'the model has no tokenizer.json: add one to its folder, or give documents as lists of token ids'],
  ['sequences of one token', { sequenceLength: 1 }, 'sequenceLength is 1: it must be a whole number, at least 2'],
  ['longer than the teacher can', { sequenceLength: 512 }, 'sequenceLength is 512, but the teacher has only 256 positions'],
  ['no candidates', { topK: 0 }, 'topK is 0: it must be a whole number, at least 1'],
  ['more candidates than tokens', { topK: 350 }, 'topK 350 and negatives 4 are together more than the vocabulary of 352 tokens'],
  ['another dtype', { logits: 'f64' }, 'logits is f64: it must be f16, bf16 or f32'],
  ['no batch', { batchSize: 0 }, 'batchSize is 0: it must be a whole number, at least 1'],
])('%s: a sentence, and nothing is compiled', async (_, wrong, said) => {
  await expect(writeKDCache(newFolder(), { ...small, ...wrong } as never)).rejects.toThrow(said);
  expect(tx.explain()).toEqual([]);
});

test('a cache that was made otherwise is not continued, and says what differs', async () => {
  const options = { ...small, logits: 'f16' as const };
  await expect(writeKDCache(made, { ...options, topK: 6, seed: 1 })).rejects.toThrow(
    /has a cache with other settings \(its topK is 5, here it is 6; its seed is 7, here it is 1\): use the same to continue it, --overwrite/,
  );
  const other = file('other.jsonl', '{"text": "another"}\n');
  await expect(writeKDCache(made, { ...options, data: other })).rejects.toThrow(/its sources is \[.*text.jsonl/);
  const bare = newFolder();
  fs.cpSync(made, bare, { recursive: true });
  fs.rmSync(path.join(bare, 'manifest.json'));
  await expect(writeKDCache(bare, options)).rejects.toThrow(/has shards but no manifest.json: use --overwrite/);
  expect(tx.explain()).toEqual([]);
});

test('the command says it without a stack', async () => {
  const { status, stderr } = await tsxla(['kd-cache', '-t', gone, '-d', jsonl, '-o', newFolder()]);
  expect([status, stderr.includes('    at ')]).toEqual([1, false]);
  expect(stderr).toContain('error: /nowhere/at/all is neither an existing folder');
});

test('a cache that does not suit the student is refused', async () => {
  const { hash } = await Tokenizer.fromPretrained(folderOf('tied'));
  const open = (expect: object) => KDCacheDataset.open(made, { expect });
  await open({ tokenizer: hash, vocabSize: 352, sequenceLength: 16 });
  await open({ tokenizer: null }); // nothing is known: nothing is wrong
  await expect(open({ tokenizer: `0${hash}` })).rejects.toThrow(
    /was made with another tokenizer \(\w{8}, the student's is/,
  );
  await expect(open({ vocabSize: 151_936 })).rejects.toThrow(
    /made by a teacher with 352 tokens, but the student has 151936/,
  );
  await expect(open({ sequenceLength: 8 })).rejects.toThrow(/has sequences of 16 tokens, not of 8 as requested/);
  await expect(KDCacheDataset.open(gone)).rejects.toThrow(/there is no KD cache \/nowhere\/at\/all: make one/);
  const cut = newFolder();
  fs.cpSync(made, cut, { recursive: true });
  const manifest = path.join(cut, 'manifest.json');
  fs.writeFileSync(manifest, fs.readFileSync(manifest, 'utf8').replace('"complete": true', '"complete": false'));
  await expect(KDCacheDataset.open(cut)).rejects.toThrow(/is not finished: run the same command again to continue it/);
  expect((await KDCacheDataset.open(cut, { partial: true })).length).toBe(9);
  await expect((await open({})).get(9)).rejects.toThrow(/sequence 9 is out of range: the cache has sequences 0 to 8/);
});
