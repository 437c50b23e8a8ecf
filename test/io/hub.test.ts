// Models of the hub, against a small hub on this machine: the official client talks to it as to the real one.
import fs from 'node:fs';
import path from 'node:path';
import { HubError } from 'tsxla';
import { openSharded, readAll, resolveModel, writeSharded } from 'tsxla/io';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { array, temporaryFolder, toldAll } from './files.js';
import { isLarge, oidOf, TestHub } from './hub-server.js';

const dir = temporaryFolder();
const COMMIT = 'c'.repeat(40);
const NAME = 'tiny/model';

const hub = new TestHub();
const files = new Map<string, Buffer>();
hub.repos.set(NAME, { commits: { [COMMIT]: files }, refs: { main: COMMIT } });

const model = new Map([['a', array('u8', 300_000)], ['b', array('f32', 100_000)]]); // biome-ignore format: short
let [cache, folder] = ['', ''];
let run = 0;

beforeAll(async () => {
  await hub.start();
  vi.stubEnv('HF_ENDPOINT', hub.address);
  const source = path.join(dir, 'source');
  await writeSharded(source, model, { maxShardBytes: 350_000 });
  for (const name of fs.readdirSync(source)) files.set(name, fs.readFileSync(path.join(source, name)));
  files.set('config.json', Buffer.from('{}'));
  files.set('tokenizer.json', Buffer.from('{"version": 1}'));
  files.set('empty.txt', Buffer.alloc(0));
  files.set('README.md', Buffer.from('# not needed'));
  files.set('../outside.json', Buffer.from('{}'));
});
afterAll(() => {
  hub.stop();
  vi.unstubAllEnvs();
});
beforeEach(() => {
  vi.stubEnv('HF_HOME', path.join(dir, `home${run++}`));
  vi.stubEnv('HF_HUB_CACHE', '');
  vi.stubEnv('HF_TOKEN', '');
  vi.stubEnv('HF_HUB_OFFLINE', '');
  cache = path.join(process.env['HF_HOME']!, 'hub');
  folder = path.join(cache, 'models--tiny--model');
  hub.reset();
});

const expectModel = async (found: string) =>
  expect(toldAll(await readAll(await openSharded(found)))).toEqual(toldAll(model));
const largeBytes = () => [...files].reduce((n, [name, b]) => n + (isLarge(name) ? b.length : 0), 0);
const incomplete = () => fs.readdirSync(path.join(folder, 'blobs')).filter((f) => f.endsWith('.incomplete'));

test("a name is fetched once, into the layout of Python's client", async () => {
  const found = await resolveModel(NAME);
  expect(found).toBe(path.join(folder, 'snapshots', COMMIT));
  expect(fs.readdirSync(found).sort()).toEqual([
    'config.json',
    'empty.txt',
    'model-00001-of-00002.safetensors',
    'model-00002-of-00002.safetensors',
    'model.safetensors.index.json',
    'tokenizer.json',
  ]);
  expect(fs.readFileSync(path.join(folder, 'refs/main'), 'utf8')).toBe(COMMIT);
  expect(fs.readlinkSync(path.join(found, 'config.json'))).toBe(
    path.join('../../blobs', oidOf('config.json', files.get('config.json')!)),
  );
  await expectModel(found);
  expect(incomplete()).toEqual([]);
  const before = hub.asked.length;
  expect(await resolveModel(NAME)).toBe(found);
  expect(await resolveModel(NAME, { revision: COMMIT, offline: true })).toBe(found);
  expect(hub.asked.length).toBe(before); // the cache answers alone
  await resolveModel(NAME, { refresh: true });
  expect(hub.asked.length).toBe(before + 2); // the commit and its list: nothing is fetched again
});

test('a connection that breaks is taken up where it broke', async () => {
  hub.cutAfter = 100_000;
  await expectModel(await resolveModel(NAME));
  expect(hub.asked.filter((a) => a.includes('00001-of') && a.includes('bytes=')).map((a) => a.split(' ')[1])).toEqual([
    'bytes=100000-300103',
    'bytes=200000-300103',
    'bytes=300000-300103',
  ]);
  expect(hub.served).toBe([...files].reduce((n, [f, b]) => n + (/^R|^\./.test(f) ? 0 : b.length), 0)); // each byte once
});

test('what was fetched before a stop is kept, and the next run resumes from there', async () => {
  const stop = new AbortController();
  const seen: number[] = [];
  const onProgress = ({ file, done, total }: { file: string; done: number; total: number }) => {
    if (!file.includes('00002-of')) return;
    seen.push(total);
    if (done > 100_000) stop.abort();
  };
  hub.cutAfter = 150_000; // so that the whole file is not there before the stop
  const stopped = await resolveModel(NAME, { signal: stop.signal, onProgress }).catch((e) => e);
  expect(stopped).toBeInstanceOf(HubError);
  expect(stopped.message).toMatch(
    /^fetching tiny\/model was stopped: model-00002-of-00002\.safetensors: \d+ of 400104 bytes are kept/,
  );
  expect(seen[0]).toBe(400_104);
  const [part] = incomplete();
  const kept = fs.statSync(path.join(folder, 'blobs', part!)).size;
  expect(kept).toBeGreaterThan(100_000);

  await expect(resolveModel(NAME, { offline: true })).rejects.toThrow(
    /tiny\/model is not whole in the cache \(.*\): config\.json, model-00002-of-00002\.safetensors missing, and nothing is downloaded offline/,
  );
  hub.reset();
  await expectModel(await resolveModel(NAME));
  expect(hub.asked.filter((a) => a.includes('bytes='))).toEqual([
    `/tiny/model/resolve/${COMMIT}/model-00002-of-00002.safetensors bytes=${kept}-400103`,
  ]);
  expect(hub.served).toBeLessThan(largeBytes() - 300_104 - kept + 1000);
});

test('several at once: one fetches, the others find it there', async () => {
  const found = await Promise.all([1, 2, 3].map(() => resolveModel(NAME)));
  expect(new Set(found).size).toBe(1);
  expect(hub.served).toBeLessThan(largeBytes() + 2000);
});

test('bytes that are not what the hub promises are not kept', async () => {
  hub.lie = true;
  await expect(resolveModel(NAME)).rejects.toThrow(
    /came with hash [0-9a-f]+, expected [0-9a-f]+; it was removed: try again/,
  );
  expect(incomplete()).toEqual([]);
  hub.lie = false;
  await expectModel(await resolveModel(NAME));
});

test('offline', async () => {
  vi.stubEnv('HF_HUB_OFFLINE', '1');
  const failed = await resolveModel(NAME).catch((e) => e);
  expect(failed).toBeInstanceOf(HubError);
  expect(failed.message).toBe(
    `tiny/model is not in the cache (${folder}), and nothing is downloaded offline. Unset HF_HUB_OFFLINE, or copy that folder \
from a machine where this was run: hf download tiny/model`,
  );
  expect(hub.asked).toEqual([]);
});

test('a hub that says no, or is not there', async () => {
  hub.status = 401;
  await expect(resolveModel(NAME)).rejects.toThrow(
    /cannot fetch tiny\/model: .*accept its terms at .*tiny\/model, and set HF_TOKEN/,
  );
  hub.status = 200;
  await expect(resolveModel('tiny/other')).rejects.toThrow(/has no such model, or it is private/);
  hub.status = 404;
  await expect(resolveModel('tiny/other')).rejects.toThrow(/has no such model or revision, or it is private/);
  hub.status = 200;
  await expect(resolveModel(NAME, { revision: 'v2' })).rejects.toThrow(
    'cannot fetch tiny/model (v2): it has no branch, tag or commit v2',
  );
  vi.stubEnv('HF_ENDPOINT', 'http://127.0.0.1:9');
  await expect(resolveModel(NAME)).rejects.toThrow(
    /cannot fetch tiny\/model: fetch failed .*: check the network.*\(there is no folder tiny\/model here\)$/,
  );
  vi.stubEnv('HF_ENDPOINT', hub.address);
});

test('a hub that limits requests (429) is asked again, with a Retry-After header or without', async () => {
  Object.assign(hub, { busy: 1, busyStatus: 429 });
  await expectModel(await resolveModel(NAME));
  vi.stubEnv('HF_HOME', path.join(dir, `home${run++}`));
  for (const retryAfter of ['0', new Date(0).toUTCString()]) {
    Object.assign(hub, { busy: 4, busyStatus: 429, retryAfter }); // the fifth try is answered
    await expectModel(await resolveModel(NAME));
    vi.stubEnv('HF_HOME', path.join(dir, `home${run++}`));
  }
  hub.busy = Number.POSITIVE_INFINITY;
  await expect(resolveModel(NAME)).rejects.toThrow(
    /cannot fetch tiny\/model: http:\S+ limits requests \(HTTP 429\), also after 5 tries: try again in a few minutes\. With HF_TOKEN/,
  );
});

test('a folder is used as it is; what is neither folder nor name says so', async () => {
  expect(await resolveModel(dir)).toBe(dir);
  await expect(resolveModel('./nowhere')).rejects.toThrow(
    './nowhere is neither an existing folder nor a name of the hub',
  );
  await expect(resolveModel('a/b/c')).rejects.toThrow('neither an existing folder');
  await expect(resolveModel('a/..')).rejects.toThrow('neither an existing folder');
  await expect(resolveModel(NAME, { revision: '../x' })).rejects.toThrow(
    'revision ../x of tiny/model is not a valid branch, tag or commit',
  );
  expect(hub.asked).toEqual([]);
});
