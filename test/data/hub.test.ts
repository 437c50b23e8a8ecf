// Data by their names on the hub, hf://..., against a small hub on this machine.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { ArgumentError, FileError, HubError } from 'tsxla';
import { type IterableDataset, JsonlDataset, ParquetDataset, TextDataset } from 'tsxla/data';
import { KDCacheDataset } from 'tsxla/distill';
import { resolveFile, resolveFiles } from 'tsxla/io';
import { findStudent } from 'tsxla/recovery';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { sourcesOf } from '../../dist/distill/cache-rows.js';
import { Shards } from '../../dist/train/data.js';
import { oidOf, TestHub } from '../io/hub-server.js';
import { folderOf } from '../models/support.js';
import { scratch } from '../scratch.js';
import { goldenPath, tsxla } from '../support.js';

const { newFolder, file } = scratch('hub-data');
const hub = new TestHub();
const [FIRST, SECOND] = ['1'.repeat(40), '2'.repeat(40)];
const SET = 'hf://datasets/some/texts';

/** Lines that differ, so that a byte too many or too few would show. */
const lines = (shard: number) =>
  Array.from({ length: 4000 }, (_, i) => ({
    id: shard * 4000 + i,
    text: createHash('sha256').update(`${shard} ${i}`).digest('hex'),
  }));
const jsonl = (shard: number) =>
  Buffer.from(
    lines(shard)
      .map((line) => `${JSON.stringify(line)}\n`)
      .join(''),
  );
const parquet = (codec: string) => fs.readFileSync(goldenPath(`parquet/${codec}.parquet`));

const first = new Map<string, Buffer>([
  ['README.md', Buffer.from('# Texts')],
  ['notes.txt', Buffer.from('one\ntwo\n\nthree\n')],
  ['raw/train-00002-of-00003.jsonl', jsonl(2)],
  ['raw/train-00000-of-00003.jsonl', jsonl(0)],
  ['raw/train-00001-of-00003.jsonl', jsonl(1)],
  ['raw/test.jsonl', Buffer.from('{"id": -1}\n')],
  ['raw/deep/er/more #1.jsonl', Buffer.from('{"id": -2}\n')],
  ['rows/train-00000-of-00003.parquet', parquet('zstd')],
  ['rows/train-00001-of-00003.parquet', parquet('snappy')],
  ['rows/train-00002-of-00003.parquet', parquet('none')],
]);
const second = new Map([...first, ['raw/test.jsonl', Buffer.from('{"id": -3}\n')]]);
hub.repos.set('datasets/some/texts', {
  commits: { [FIRST]: first, [SECOND]: second },
  refs: { main: SECOND, 'v1.0': FIRST, 'refs/convert/parquet': FIRST, 'a/branch': FIRST },
});
const secret = { commits: { [FIRST]: first }, refs: { main: FIRST }, token: 'hf_right' } as const;
hub.repos.set('datasets/some/private', { ...secret, access: 'private' });
hub.repos.set('datasets/some/gated', { ...secret, access: 'gated' });
hub.repos.set('some/model', {
  commits: { [FIRST]: new Map([['data/a.jsonl', Buffer.from('1\n')]]) },
  refs: { main: FIRST },
});

beforeAll(async () => {
  await hub.start();
  vi.stubEnv('HF_ENDPOINT', hub.address);
});
afterAll(() => {
  hub.stop();
  vi.unstubAllEnvs();
});
beforeEach(() => {
  vi.stubEnv('HF_HOME', newFolder());
  for (const name of ['HF_HUB_CACHE', 'HF_TOKEN', 'HF_HUB_OFFLINE']) vi.stubEnv(name, '');
  hub.reset();
});

const collect = async <T>(source: AsyncIterable<T>): Promise<T[]> => {
  const seen: T[] = [];
  for await (const x of source) seen.push(x);
  return seen;
};
const idsOf = async (files: string) => (await collect(new JsonlDataset<{ id: number }>(files))).map((line) => line.id);
const cacheOf = (name: string) => path.join(process.env['HF_HOME']!, 'hub', name);
const cache = () => cacheOf('datasets--some--texts');
/** What was asked for of files: their names, and from which byte on. */
const fetched = () =>
  hub.asked.flatMap((a) => {
    const [, name, start = '0'] = /\/resolve\/[^/]+\/([^ ]+)(?: bytes=(\d+)-)?/.exec(a) ?? [];
    return name ? [`${path.basename(name)} ${start}`] : [];
  });
const failure = async (x: Promise<unknown>): Promise<Error> =>
  x.then(
    () => expect.fail('no error'),
    (e) => e,
  );

describe('streamed', () => {
  test('three shards, each connection cut twice: every line once, in order, every byte right', async () => {
    Object.assign(hub, { cutAfter: 130_000, cuts: 6 });
    const files = `${SET}/raw/train-*.jsonl`;
    expect(await collect(new JsonlDataset(files))).toEqual([0, 1, 2].flatMap(lines));
    const size = (shard: number) => jsonl(shard).length;
    expect(size(0)).toBeGreaterThan(260_000);
    expect(hub.cuts).toBe(0);
    expect(
      fetched()
        .filter((f) => !f.endsWith(' 0'))
        .sort(),
    ).toEqual([0, 1, 2].flatMap((n) => [130_000, 260_000].map((from) => `train-0000${n}-of-00003.jsonl ${from}`)));
    expect(hub.served).toBe(size(0) + size(1) + size(2)); // each byte once
    for (const shard of [0, 1, 2]) {
      const name = `raw/train-0000${shard}-of-00003.jsonl`;
      expect(fs.readFileSync(path.join(cache(), 'snapshots', SECOND, name)).equals(jsonl(shard))).toBe(true);
      expect(fs.readlinkSync(path.join(cache(), 'snapshots', SECOND, name))).toBe(
        `../../../blobs/${oidOf(name, jsonl(shard))}`,
      );
    }
    // The cache answers alone from now on.
    const before = hub.asked.length;
    expect(await collect(new JsonlDataset(files))).toEqual([0, 1, 2].flatMap(lines));
    expect(hub.asked.length).toBe(before);
  });

  test('Parquet: the rows of all shards; each is fetched before it is read, not all at the start', async () => {
    const rows = new ParquetDataset<{ id: bigint }>(`${SET}/rows/*.parquet`, { columns: ['id'] });
    Object.assign(hub, { cutAfter: 3000, cuts: 2 });
    const ids = (await collect(rows)).map((row) => Number(row.id));
    expect(ids).toEqual([0, 1, 2].flatMap(() => Array.from({ length: 100 }, (_, i) => i)));
    vi.stubEnv('HF_HOME', newFolder());
    hub.reset();
    for await (const _ of rows) break;
    expect(fetched().filter((f) => f.startsWith('train-00002'))).toEqual([]);
    expect(fs.existsSync(path.join(cache(), 'snapshots', SECOND, 'rows/train-00000-of-00003.parquet'))).toBe(true);
    expect(fs.existsSync(path.join(cache(), 'snapshots', SECOND, 'rows/train-00002-of-00003.parquet'))).toBe(false);
  });

  test('a stopped reader resumes after its item, in the middle of the second shard', async () => {
    const data = new JsonlDataset<{ id: number }>(`${SET}/raw/train-*.jsonl`);
    let state: Parameters<IterableDataset<unknown>['read']>[1];
    for await (const { item, after } of data.read(0)) {
      state = after;
      if (item.id === 5000) break;
    }
    expect(state).toMatchObject({ file: 1, name: 'train-00001-of-00003.jsonl' });
    vi.stubEnv('HF_HOME', newFolder()); // another machine
    hub.reset();
    const rest: number[] = [];
    for await (const { item } of data.read(0, state)) rest.push(item.id);
    expect(rest).toEqual(Array.from({ length: 12_000 - 5001 }, (_, i) => 5001 + i));
    expect(fetched().filter((f) => f.startsWith('train-00000'))).toEqual([]); // it is behind
  });

  test('several readers at once: each file is fetched once', async () => {
    const files = `${SET}/raw/train-*.jsonl`;
    const all = await Promise.all([1, 2, 3].map(() => idsOf(files)));
    for (const ids of all) expect(ids).toEqual(Array.from({ length: 12_000 }, (_, i) => i));
    expect(hub.served).toBe([0, 1, 2].reduce((n, shard) => n + jsonl(shard).length, 0));
  });

  test('several processes at once: each file is fetched once', async () => {
    const script = `import { JsonlDataset } from 'tsxla/data';
      let n = 0;
      for await (const _ of new JsonlDataset('${SET}/raw/train-*.jsonl')) n++;
      process.stdout.write(String(n));`;
    const { execFile } = await import('node:child_process');
    const count = () =>
      new Promise<string>((resolve, reject) =>
        execFile(process.execPath, ['--input-type=module', '-e', script], (e, out) => (e ? reject(e) : resolve(out))),
      );
    expect(await Promise.all([count(), count(), count()])).toEqual(['12000', '12000', '12000']);
    expect(hub.served).toBe([0, 1, 2].reduce((n, shard) => n + jsonl(shard).length, 0));
  });

  test('bytes that are not what the hub promises are not kept', async () => {
    hub.lie = true;
    await expect(idsOf(`${SET}/raw/test.jsonl`)).rejects.toThrow(/raw\/test.jsonl came with hash [0-9a-f]+, expected/);
    hub.lie = false;
    expect(await idsOf(`${SET}/raw/test.jsonl`)).toEqual([-3]);
  });
});

describe('machines that are unlucky', () => {
  const shard = 'raw/train-00000-of-00003.jsonl';
  const blob = () => path.join(cache(), 'blobs', oidOf(shard, jsonl(0)));
  const read = async () => {
    expect(await collect(new JsonlDataset(`${SET}/${shard}`))).toEqual(lines(0));
    expect(fs.readFileSync(blob()).equals(jsonl(0))).toBe(true);
    expect(fs.existsSync(`${blob()}.incomplete`)).toBe(false);
  };

  test('a part of an earlier try that is not of the file: it is fetched from its start', async () => {
    fs.mkdirSync(path.dirname(blob()), { recursive: true });
    fs.writeFileSync(`${blob()}.incomplete`, Buffer.alloc(1000, 1));
    await read();
    expect(fetched()).toContain('train-00000-of-00003.jsonl 0');
  });

  test('a proxy that answers a range with the whole file', async () => {
    Object.assign(hub, { cutAfter: 130_000, cuts: 1, ignoresRanges: true });
    await read();
    vi.stubEnv('HF_HOME', newFolder());
    Object.assign(hub, { cutAfter: 130_000, cuts: 100 });
    const error = await failure(collect(new JsonlDataset(`${SET}/${shard}`)));
    expect(error.message).toMatch(/came with more than its \d+ bytes; it was removed: try again/);
    hub.cuts = 0;
    await read();
  });

  test.each([0, 5000])('a file of the cache that was cut to %d bytes is fetched again, and not read', async (size) => {
    await read();
    fs.truncateSync(blob(), size);
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    expect((await failure(idsOf(`${SET}/${shard}`))).message).toContain('is not whole in the cache');
    vi.stubEnv('HF_HUB_OFFLINE', '');
    await read();
  });

  test('a hub that is busy for a moment', async () => {
    hub.busy = 2;
    await read();
  });

  test('a cache that cannot be written', async () => {
    fs.mkdirSync(process.env['HF_HOME']!, { recursive: true });
    fs.writeFileSync(path.join(process.env['HF_HOME']!, 'hub'), '');
    const error = await failure(idsOf(`${SET}/${shard}`));
    expect(error).toBeInstanceOf(FileError);
    expect(error.message).toMatch(/^cannot write into the cache: .*: set HF_HUB_CACHE to another folder$/);
  });

  test('who stops does not stop another that waits for the same list', async () => {
    const stop = new AbortController();
    const name = `${SET}/${shard}`;
    const first = failure(resolveFile(name, { signal: stop.signal }));
    const second = resolveFile(name);
    stop.abort();
    expect((await first).message).toContain('was stopped');
    expect(fs.readFileSync(await second).equals(jsonl(0))).toBe(true);
  });
});

describe('the token', () => {
  const name = 'hf://datasets/some/private/raw/test.jsonl';
  test('is given to the hub alone, whatever host the next page of a list is at', async () => {
    const seen: (string | undefined)[] = [];
    const other = http.createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.setHeader('content-type', 'application/json').end('[]');
    });
    await new Promise<void>((done) => void other.listen(0, '127.0.0.1', done));
    vi.stubEnv('HF_TOKEN', 'hf_right');
    hub.elsewhere = `http://127.0.0.1:${(other.address() as AddressInfo).port}/more`;
    expect(await idsOf(name)).toEqual([-1]);
    other.close();
    expect(seen).toEqual([undefined]);
  });

  test('of two lines is not repeated in an error', async () => {
    vi.stubEnv('HF_TOKEN', 'hf_se\ncret');
    const { message } = await failure(idsOf(name));
    expect(message).toContain('has spaces or characters that no token has');
    expect(message).not.toContain('cret');
  });
});

describe('names', () => {
  test('patterns: *, **, ? and sets; the order is that of the paths; the tree comes in pages', async () => {
    hub.page = 3;
    const named = async (pattern: string) =>
      (await sourcesOf([`${SET}/${pattern}`])).map(({ name, bytes }: { name: string; bytes: number }) => {
        expect(bytes).toBe([...second].find(([f]) => path.basename(f) === name)![1].length);
        return name;
      });
    const shards = [0, 1, 2].map((n) => `train-0000${n}-of-00003.jsonl`);
    expect(await named('raw/train-*')).toEqual(shards);
    expect(hub.asked.filter((a) => a.includes('/tree/')).length).toBeGreaterThan(3);
    expect(await named('raw/*.jsonl')).toEqual(['test.jsonl', ...shards]);
    expect(await named('raw/train-0000?-of-*')).toEqual(shards);
    expect(await named('raw/train-0000[!01]*')).toEqual(shards.slice(2));
    expect(await named('raw/train-0000[0-1]*')).toEqual(shards.slice(0, 2));
    expect(await named('raw/**')).toEqual(['more #1.jsonl', 'test.jsonl', ...shards]);
    expect(await named('**/*.jsonl')).toEqual(['more #1.jsonl', 'test.jsonl', ...shards]);
    await expect(named('raw/train-0000[9-0]*')).rejects.toThrow('no file matches raw/train-0000[9-0]*');
    expect(await named('raw/train-0000[!-1]*')).toEqual([shards[0], shards[2]]);
    expect(await named('*.txt')).toEqual(['notes.txt']);
    expect(hub.served).toBe(0); // nothing is fetched to know that
    expect(hub.asked.filter((a) => a.includes('/revision/')).length).toBe(1); // a process asks once
    expect(await idsOf(`${SET}/raw/deep/**`)).toEqual([-2]); // a path that has to be quoted
  });

  test('a revision is a tag, a branch, a commit or a ref', async () => {
    expect(await idsOf(`${SET}/raw/test.jsonl`)).toEqual([-3]);
    for (const revision of ['v1.0', FIRST, 'refs/convert/parquet', 'a%2Fbranch'])
      expect(await idsOf(`${SET}@${revision}/raw/test.jsonl`)).toEqual([-1]);
    expect(fs.readFileSync(path.join(cache(), 'refs/v1.0'), 'utf8')).toBe(FIRST);
    expect(fs.readFileSync(path.join(cache(), 'refs/refs/convert/parquet'), 'utf8')).toBe(FIRST);
  });

  test('datasets, models, and files of this machine side by side', async () => {
    const here = file('here.jsonl', '7\n');
    const names = [
      `${SET}/raw/test.jsonl`,
      here,
      'hf://some/model/data/*.jsonl',
      'hf://models/some/model/data/a.jsonl',
    ];
    expect(await collect(new JsonlDataset(names))).toEqual([{ id: -3 }, 7, 1, 1]);
    expect(await resolveFiles(names)).toEqual([
      path.join(cache(), 'snapshots', SECOND, 'raw/test.jsonl'),
      here,
      ...[1, 2].map(() => path.join(cacheOf('models--some--model'), 'snapshots', FIRST, 'data/a.jsonl')),
    ]);
    expect(await collect(new TextDataset(`${SET}/notes.txt`, { by: 'paragraph' }))).toEqual(['one\ntwo', 'three']);
    await expect(resolveFile(`${SET}/raw/*`)).rejects.toThrow('matches 4 files: name one of them');
  });

  test("a dataset of TorchTrainer's workers: parts are disjoint and complete", async () => {
    const parts = await Promise.all(
      [0, 1].map(async (rank) => {
        const shards = await Shards.open({ train: `${SET}/rows/*.parquet` }, rank, 2);
        return collect(shards.shard<{ score: number }>() as AsyncIterable<{ score: number }>);
      }),
    );
    expect(parts.map((p) => p.length)).toEqual([150, 150]);
    const scores = parts.flat().map((row) => row.score).sort((a, b) => a - b); // biome-ignore format: short
    expect(scores).toEqual(Array.from({ length: 300 }, (_, i) => Math.floor(i / 3) / 4));
    await expect(Shards.open({ train: `${SET}/rows/*.parqet` }, 0, 1)).rejects.toThrow('no file matches rows/*.parqet');
  });

  test("a file of the original's: what it says of itself lies beside it", async () => {
    const config = JSON.stringify({ model_id: folderOf('tied') });
    const files = new Map([
      ['run/model_state_dict.pt', Buffer.from('weights')],
      ['run/config.json', Buffer.from(config)],
    ]);
    files.set('bare/model_state_dict.pt', Buffer.from('weights'));
    hub.repos.set('some/student', { commits: { [FIRST]: files }, refs: { main: FIRST } });
    const file = path.join(cacheOf('models--some--student'), 'snapshots', FIRST, 'run/model_state_dict.pt');
    expect(await findStudent('hf://some/student/run/model_state_dict.pt')).toMatchObject({
      form: 'original',
      folder: folderOf('tied'),
      file,
      config: { model_id: folderOf('tied') },
    });
    await expect(findStudent('hf://some/student/bare/model_state_dict.pt')).rejects.toThrow(
      'bare/model_state_dict.pt does not name its model',
    );
    await expect(findStudent('hf://some/student/run/model.pt')).rejects.toThrow('some/student: no file run/model.pt');
  });

  test('a KD cache in a folder of the hub', async () => {
    const cached = goldenPath('kd-cache');
    const files = fs
      .readdirSync(cached)
      .map((name) => [`k/${name}`, fs.readFileSync(path.join(cached, name))] as const);
    hub.repos.set('datasets/some/cache', { commits: { [FIRST]: new Map(files) }, refs: { main: FIRST } });
    const [here, there] = [await KDCacheDataset.open(cached), await KDCacheDataset.open('hf://datasets/some/cache/k')];
    expect(there.length).toBe(here.length);
    expect(await there.get(0)).toEqual(await here.get(0));
    const shard = (await Shards.open({ train: 'hf://datasets/some/cache/k' }, 1, 2)).shard();
    expect(shard.length).toBe(Math.floor(here.length / 2));
    await expect(KDCacheDataset.open('hf://datasets/some/cache/j')).rejects.toThrow(
      'no file matches j/*: the nearest are k/',
    );
  });

  test('a name that is none says what one is', () => {
    const bad = ['hf://', 'hf://datasets/texts', `${SET}`, `${SET}/`, `${SET}/../x`, `${SET}//x`, 'hf://spaces/a/b/c'];
    for (const name of bad) {
      const make = () => new JsonlDataset(name);
      expect(make).toThrow(ArgumentError);
      expect(make).toThrow(`${name} is not a file of the hub: write hf://datasets/OWNER/NAME/PATH`);
    }
    expect(() => new JsonlDataset(`${SET}@a%2F..%2Fb/x.jsonl`)).toThrow('is not a valid branch, tag or commit');
  });
});

describe('what goes wrong, in a sentence', () => {
  const read = (name: string) => failure(idsOf(name));
  test('a dataset that is not there', async () => {
    const error = await read('hf://datasets/some/text/raw/test.jsonl');
    expect(error).toBeInstanceOf(HubError);
    expect(error.message).toBe(
      `cannot fetch dataset some/text: ${hub.address} has no such dataset, or it is private or gated: check its name, accept its terms at ${hub.address}/datasets/some/text, and set HF_TOKEN`,
    );
    vi.stubEnv('HF_TOKEN', 'hf_any');
    expect((await read('hf://datasets/some/text/raw/test.jsonl')).message).toBe(
      `cannot fetch dataset some/text: ${hub.address} has no such dataset, or it is private: check its name, and set HF_TOKEN to a token that may read it`,
    );
  });

  test('a private dataset, and a gated one: without a token, with a wrong one, with the right one', async () => {
    const [hidden, gated] = ['private', 'gated'].map((name) => `hf://datasets/some/${name}/raw/test.jsonl`);
    expect((await read(hidden!)).message).toContain('or it is private or gated: check its name, accept its terms at');
    const terms = `cannot fetch dataset some/gated: it needs permission: accept its terms at ${hub.address}/datasets/some/gated, and set HF_TOKEN to a token of that account`;
    expect((await read(gated!)).message).toBe(terms);
    vi.stubEnv('HF_TOKEN', 'hf_wrong');
    expect((await read(hidden!)).message).toContain(
      'or it is private: check its name, and set HF_TOKEN to a token that',
    );
    expect((await read(gated!)).message).toBe(terms);
    vi.stubEnv('HF_TOKEN', 'hf_right');
    expect(await idsOf(hidden!)).toEqual([-1]);
    expect(await idsOf(gated!)).toEqual([-1]);
    vi.stubEnv('HF_TOKEN', '');
    fs.writeFileSync(path.join(process.env['HF_HOME']!, 'token'), 'hf_right\n'); // of `hf auth login`
    fs.rmSync(cacheOf('datasets--some--private'), { recursive: true });
    expect(await idsOf('hf://datasets/some/private/raw/train-00000-of-00003.jsonl')).toHaveLength(4000);
  });

  test('a token that the hub does not accept', async () => {
    vi.stubEnv('HF_TOKEN', 'hf_old');
    hub.status = 401;
    expect((await read(`${SET}/raw/test.jsonl`)).message).toBe(
      `cannot fetch dataset some/texts: ${hub.address} does not accept the token: set HF_TOKEN to one that is valid, or unset it`,
    );
  });

  test('a revision that is not there', async () => {
    expect((await read(`${SET}@v2/raw/test.jsonl`)).message).toBe(
      `cannot fetch dataset some/texts (v2): it has no branch, tag or commit v2: see ${hub.address}/datasets/some/texts`,
    );
  });

  test('files that are not there: the nearest are named; a folder', async () => {
    expect((await read(`${SET}/raw/trian-*.jsonl`)).message).toBe(
      'dataset some/texts: no file matches raw/trian-*.jsonl: the nearest are raw/train-00000-of-00003.jsonl, raw/train-00001-of-00003.jsonl, raw/train-00002-of-00003.jsonl',
    );
    expect((await read(`${SET}/raw/train-00000-of-00002.jsonl`)).message).toBe(
      'dataset some/texts: no file raw/train-00000-of-00002.jsonl: the nearest are raw/train-00000-of-00003.jsonl, raw/train-00001-of-00003.jsonl, raw/train-00002-of-00003.jsonl',
    );
    expect((await read(`${SET}/raw`)).message).toBe(`${SET}/raw is a folder of 5 files: name them, as in ${SET}/raw/*`);
  });

  test('offline: what is not in the cache, what is only partly, and what is', async () => {
    const all = `${SET}/raw/train-*.jsonl`;
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    expect((await read(all)).message).toBe(
      `${all} is not in the cache (${cache()}), and nothing is downloaded offline: unset HF_HUB_OFFLINE, or copy that folder from a machine where this was run (hf download some/texts --repo-type dataset)`,
    );
    expect(hub.asked).toEqual([]);
    vi.stubEnv('HF_HUB_OFFLINE', '');
    await idsOf(`${SET}/raw/train-00001-of-00003.jsonl`);
    const before = hub.asked.length;
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    expect(await idsOf(`${SET}/raw/train-00001-of-00003.jsonl`)).toHaveLength(4000);
    expect((await read(all)).message).toContain(
      `is not whole in the cache (${cache()}): raw/train-00000-of-00003.jsonl and 1 more missing, and nothing is downloaded offline`,
    );
    expect((await read(`${SET}/raw/none-*`)).message).toContain('no file matches raw/none-*');
    vi.stubEnv('HF_HUB_OFFLINE', '');
    await idsOf(all);
    const online = hub.asked.length;
    expect(online).toBeGreaterThan(before);
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    vi.stubEnv('HF_ENDPOINT', 'http://127.0.0.1:9'); // another process knows nothing of what this one asked for
    expect(await idsOf(all)).toHaveLength(12_000);
    vi.stubEnv('HF_ENDPOINT', hub.address);
    expect(hub.asked.length).toBe(online);
  });

  test("offline with a cache of another program's, that has no list of files", async () => {
    await idsOf(`${SET}/raw/train-*.jsonl`);
    fs.rmSync(path.join(cache(), 'trees'), { recursive: true });
    vi.stubEnv('HF_ENDPOINT', 'http://127.0.0.1:9');
    expect(await idsOf(`${SET}/raw/train-00002-of-00003.jsonl`)).toHaveLength(4000); // needs no list
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    expect(await idsOf(`${SET}/raw/train-*.jsonl`)).toHaveLength(12_000);
    vi.stubEnv('HF_ENDPOINT', hub.address);
  });

  const broken = ['', '{', '{"format_version": 2, "files": {}}', '{"format_version": 1, "files": {"a": 1}}'];
  test.each(broken)('a list of files that is broken is asked for again: %s', async (text) => {
    for (const sub of ['trees', 'refs']) fs.mkdirSync(path.join(cache(), sub), { recursive: true });
    fs.writeFileSync(path.join(cache(), 'refs/v1.0'), FIRST);
    const tree = path.join(cache(), 'trees', `${FIRST}.json`);
    fs.writeFileSync(tree, text);
    expect(await idsOf(`${SET}@v1.0/raw/t*t.jsonl`)).toEqual([-1]);
    expect(Object.keys(JSON.parse(fs.readFileSync(tree, 'utf8')).files)).toContain('raw/test.jsonl');
  });

  test('a hub that is not there', async () => {
    vi.stubEnv('HF_ENDPOINT', 'http://127.0.0.1:9');
    expect((await read(`${SET}/raw/test.jsonl`)).message).toMatch(
      /^cannot fetch dataset some\/texts: fetch failed \(.*\): check the network, set HF_ENDPOINT to a mirror, or give files that are here$/,
    );
    vi.stubEnv('HF_ENDPOINT', hub.address);
  });
});

describe('commands', () => {
  const texts = 'the quick brown fox jumps over a lazy dog\n\n'.repeat(60);
  const local = file('words.txt', texts);
  const WORDS = 'hf://datasets/some/words/words.txt';
  hub.repos.set('datasets/some/words', {
    commits: { [FIRST]: new Map([['words.txt', Buffer.from(texts)]]) },
    refs: { main: FIRST },
  });

  test('eval-perplexity: the same number as of a file that is here', async () => {
    const args = ['eval-perplexity', '-m', folderOf('tied'), '-l', '64', '--json', '-d'];
    const [here, there] = [await tsxla([...args, local]), await tsxla([...args, WORDS])].map((r) => {
      expect(r.status, r.stderr).toBe(0);
      return JSON.parse(r.stdout);
    });
    expect({ ...there, seconds: 0 }).toEqual({ ...here, seconds: 0 });
    const wrong = await tsxla([...args, 'hf://datasets/some/words/word.txt']);
    expect(wrong.status).toBe(1);
    expect(wrong.stderr).toContain('dataset some/words: no file word.txt: the nearest are words.txt\n');
  });

  test('train-recovery-lora: the same losses as of a file that is here', async () => {
    const args = [
      'train-recovery-lora',
      '--model',
      folderOf('tied'),
      '--seq-len',
      '16',
      '--max-steps',
      '3',
      '--lr',
      '1e-2',
    ];
    const [here, there] = [newFolder(), newFolder()];
    for (const [data, output] of [
      [local, here],
      [WORDS, there],
    ] as const) {
      // biome-ignore format: short
      const files = ['--train-data', data, '--eval-data', data, '--output', output, '--log-interval', '1'];
      const { status, stderr } = await tsxla([...args, '--recovery-r', '2', ...files]);
      expect(status, stderr).toBe(0);
    }
    const [a, b] = [here, there].map((folder) =>
      fs
        .readFileSync(path.join(folder, 'metrics.jsonl'), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).loss),
    );
    expect(a!.filter((loss) => typeof loss === 'number').length).toBeGreaterThanOrEqual(3);
    expect(b).toEqual(a);
  });

  test('kd-cache: the same bytes as of a file that is here', async () => {
    const sizes = ['-l', '16', '-k', '5', '-r', '4', '-n', '6'];
    const [a, b] = [newFolder(), newFolder()];
    for (const [data, output] of [[local, a], [WORDS, b]] as const) // biome-ignore format: short
      expect((await tsxla(['kd-cache', '-t', folderOf('tied'), '-d', data, '-o', output, ...sizes])).status).toBe(0);
    const names = fs.readdirSync(a);
    expect(names).toContain('shard-00000.safetensors');
    for (const name of names)
      expect(fs.readFileSync(path.join(b, name)).equals(fs.readFileSync(path.join(a, name))), name).toBe(true);
  });
});
