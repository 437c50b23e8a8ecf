// The disk cache: what it is keyed by, who compiles, and what it does with entries and folders that are no good.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { type Client, CompileError, type LoadedExecutable } from 'tsxla/pjrt';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { parseBytes } from '../dist/base/format.js';
import { metrics } from '../dist/observe/index.js';
import { type CacheOptions, DiskCache } from '../dist/runtime/cache.js';
import { flagsNow, type Ingredients, keyOf, sortFlags, withoutLocations } from '../dist/runtime/cache-key.js';
import { BadEntryError, type Header, listEntries, readEntry, writeEntry } from '../dist/runtime/cache-store.js';
import { added, adding, ask, askAtOnce, file, folder, scratch } from './cache-support.js';
import { goldenPath, startCpu, tsxla, upload } from './support.js';

let client: Client;
beforeAll(async () => {
  client = await startCpu();
});
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));

let said: string[];
beforeEach(() => {
  said = [];
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => said.push(String(text)) > 0);
  for (const name of ['TSXLA_CACHE', 'TSXLA_CACHE_SIZE', 'XLA_PERSISTENT_CACHE_PATH', 'XLA_PERSISTENT_CACHE_READ_ONLY'])
    vi.stubEnv(name, '');
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

const open = (dir: string, options: CacheOptions = {}): DiskCache => DiskCache.open({ folder: dir, ...options })!;
/** Asks for a program; says where it came from and how often it was compiled. */
async function get(cache: DiskCache, text: string, options: object = {}) {
  const compile = vi.fn(() => client.compile(text));
  const got = await cache.getOrCompile(client, { text, options, name: 'a test' }, compile);
  return { ...got, compiles: compile.mock.calls.length };
}
const run = async (executable: LoadedExecutable): Promise<number[]> => {
  const { outputs } = executable.execute([upload(client, 1, 2, 3, 4)]);
  return Array.from(await outputs[0]!.toHost<Float32Array>());
};
const entries = (dir: string): string[] => fs.readdirSync(dir).filter((name) => name.endsWith('.program'));
/** How much counters grow while fn runs. */
async function counted<T>(fn: () => Promise<T>) {
  const names = ['Hit', 'Miss', 'DeserializeFailure'];
  const now = () => names.map((name) => metrics.counter(`PersistentCache${name}`) ?? 0);
  const before = now();
  const value = await fn();
  return { value, counts: now().map((n, i) => n - before[i]!) };
}

describe('a program', () => {
  test('is compiled once, loaded afterwards, and computes the same', async () => {
    const cache = open(folder());
    const first = await counted(() => get(cache, adding(1)));
    expect(first).toMatchObject({ value: { tier: 'compiled', compiles: 1 }, counts: [0, 1, 0] });
    const second = await counted(() => get(cache, adding(1)));
    expect(second).toMatchObject({ value: { tier: 'disk', compiles: 0 }, counts: [1, 0, 0] });
    expect(await run(first.value.executable)).toEqual(added(1));
    expect(await run(second.value.executable)).toEqual(added(1));
    expect(second.value.key).toBe(first.value.key);
  });

  test('is compiled once when asked for five times at once', async () => {
    const cache = open(folder());
    const all = await Promise.all(Array.from({ length: 5 }, () => get(cache, adding(2))));
    expect(all.reduce((sum, got) => sum + got.compiles, 0)).toBe(1);
    expect(new Set(all.map((got) => got.executable)).size).toBe(1);
  });

  test('that does not compile is an error, and can be asked for again', async () => {
    const cache = open(folder());
    const compile = () => client.compile('module {');
    await expect(cache.getOrCompile(client, { text: adding(3) }, compile)).rejects.toThrow(CompileError);
    expect(await get(cache, adding(3))).toMatchObject({ tier: 'compiled' });
  });

  test('whose source locations alone differ is the same', async () => {
    const cache = open(folder());
    await get(cache, adding(4, ' loc("a.ts":1:2)'));
    const { tier, executable } = await get(cache, adding(4, ' loc(callsite("f"("b.ts":3:4) at "g)"("c.ts":5:6)))'));
    expect([tier, await run(executable)]).toEqual(['disk', added(4)]);
    expect(await get(cache, adding(5, ' loc("a.ts":1:2)'))).toMatchObject({ tier: 'compiled' });
  });

  test('on four devices is another than on one, and runs on four', async () => {
    const dir = folder();
    const text = fs.readFileSync(goldenPath('mlir/spmd.mlir'), 'utf8');
    using four = await startCpu({ cpu_device_count: 4 });
    using eight = await startCpu({ cpu_device_count: 8 });
    const on = (c: Client) => open(dir).getOrCompile(c, { text }, () => c.compile(text));
    const first = await on(four);
    expect(first.tier).toBe('compiled');
    expect((await on(eight)).tier).toBe('compiled');
    const again = await on(four);
    expect(again.tier).toBe('disk');
    expect(again.executable.devices).toEqual(first.executable.devices);
    expect(again.executable.inputs).toEqual(first.executable.inputs);
  });
});

describe('processes', () => {
  const step = goldenPath('gpt-step.mlir');
  test('the second compiles nothing', async () => {
    const dir = folder();
    const files = [file(adding(1)), file(adding(2)), step];
    expect(await ask(dir, files)).toMatchObject({ compiles: 3, hits: 0, misses: 3 });
    const second = await ask(dir, files);
    expect(second).toMatchObject({ compiles: 0, hits: 3, misses: 0, stderr: '' });
    expect(second.answers.map((a) => a.result)).toEqual([added(1), added(2), undefined]);
  });

  test('two at once compile once', async () => {
    const all = await askAtOnce(2, folder(), [step]);
    expect(all.map((a) => a.compiles).sort()).toEqual([0, 1]);
    expect(all.map((a) => a.answers[0]!.tier).sort()).toEqual(['compiled', 'disk']);
  });

  test('other flags are another program, their order and dumps are not', async () => {
    const dir = folder();
    const source = [file(adding(1))];
    const tierWith = async (flags: string) => (await ask(dir, source, 'now', { XLA_FLAGS: flags })).answers[0]!.tier;
    const [a, b] = ['--xla_cpu_enable_fast_math=false', '--xla_cpu_enable_fast_min_max=false'];
    expect(await tierWith('')).toBe('compiled');
    expect(await tierWith('--xla_dump_hlo_as_text')).toBe('disk');
    expect(await tierWith(`${a} ${b}`)).toBe('compiled');
    expect(await tierWith(`${b} --xla_dump_hlo_as_text  ${a}`)).toBe('disk');
    const inFile = file(`${b}\n${a}\n`);
    expect(await tierWith(inFile)).toBe('disk');
    expect(await tierWith(a)).toBe('compiled');
  });

  test.for([
    ['unable', /the cpu plugin cannot store or load them \(.*DmaMap/],
    ['old', /cannot store or load them \(.* has no PJRT_Executable_DeserializeAndLoad/],
  ] as const)('a plugin that cannot load (%s) works without it, with one notice', async ([how, complaint]) => {
    const dir = folder();
    const files = [file(adding(1)), file(adding(2)), file(adding(1))];
    await ask(dir, files);
    const { compiles, answers, stderr } = await ask(dir, files, how);
    expect(compiles).toBe(3);
    expect(answers.map((a) => a.result)).toEqual([added(1), added(2), added(1)]);
    expect(stderr).toMatch(complaint);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(entries(dir)).toHaveLength(2); // they are good, and stay
  });
});

test('who has waited long enough compiles too', async () => {
  const dir = folder();
  using other = await startCpu();
  let finish = (_: LoadedExecutable) => {};
  const begun = new Promise<void>((started) => {
    const compile = () =>
      new Promise<LoadedExecutable>((resolve) => {
        finish = resolve;
        started();
      });
    open(dir).getOrCompile(other, { text: adding(1), options: {} }, compile);
  });
  await begun;
  const order: string[] = [];
  setTimeout(() => order.push('0.4 s are over'), 400);
  const waited = get(open(dir, { waitSeconds: 0.5 }), adding(1)).finally(() => order.push('compiled'));
  expect(await waited).toMatchObject({ tier: 'compiled', compiles: 1 });
  expect(order).toEqual(['0.4 s are over', 'compiled']);
  finish(await other.compile(adding(1)));
});

describe('the key', () => {
  const base: Ingredients = {
    format: 1,
    program: 'p',
    options: { numPartitions: 1, xlaFlags: { a: true, b: 1 } },
    defaults: {},
    flags: { XLA_FLAGS: ['--a=1'] },
    plugin: { platform: 'cpu', version: 'cpu', api: '0.81', size: 10, sha256: 's' },
    devices: { cpu: 1 },
    machine: { model: 'm', cores: 2, features: 'f' },
  };
  const { plugin, machine } = base as Required<Ingredients>;
  test.each<[string, Partial<Ingredients>]>([
    ['format', { format: 2 }],
    ['program', { program: 'q' }],
    ['option', { options: { numPartitions: 2, xlaFlags: { a: true, b: 1 } } }],
    ['flag for one program', { options: { numPartitions: 1, xlaFlags: { a: false, b: 1 } } }],
    ["client's own option", { defaults: { xlaFlags: { c: true } } }],
    ['flag', { flags: { XLA_FLAGS: ['--a=2'] } }],
    ["TPU compiler's flag", { flags: { XLA_FLAGS: ['--a=1'], LIBTPU_INIT_ARGS: ['--a=1'] } }],
    ['plugin file', { plugin: { ...plugin, sha256: 't' } }],
    ['plugin version', { plugin: { ...plugin, version: 'cpu 2' } }],
    ['API version', { plugin: { ...plugin, api: '0.82' } }],
    ['number of devices', { devices: { cpu: 2 } }],
    ['kind of device', { devices: { 'TPU v6 lite': 1 } }],
    ['processor', { machine: { ...machine, features: 'g' } }],
    ['number of cores', { machine: { ...machine, cores: 4 } }],
  ])('another %s is another key', (_, change) => {
    expect(keyOf({ ...base, ...change })).not.toBe(keyOf(base));
  });

  test('the order in which options are written changes nothing', () => {
    const reversed = Object.fromEntries(Object.entries(base).reverse()) as unknown as Ingredients;
    expect(keyOf({ ...reversed, options: { xlaFlags: { b: 1, a: true }, numPartitions: 1 } })).toBe(keyOf(base));
  });

  test.each([
    ['--b=1 --a=2', ['--a=2', '--b=1']],
    ['  --b   --a=2\n--c', ['--a=2', '--b', '--c']],
    ['--a=2 --b=3 --a=1', ['--a=2', '--a=1', '--b=3']], // the last of a name wins, so their order stays
    ['--b="x -y" --a=1', ['--a=1', '--b="x -y"']],
    ['--b 1 --a 2', ['--a 2', '--b 1']],
    ['--xla_dump_to=/tmp/x --a --xla_gpu_dump_llvmir', ['--a']],
  ])('flags %j', (text, sorted) => expect(sortFlags(text)).toEqual(sorted));

  test('flags that XLA reads from a file are those in it, and the megacore is one', () => {
    vi.stubEnv('XLA_FLAGS', file('--b --a'));
    vi.stubEnv('TPU_MEGACORE', 'megacore');
    expect(flagsNow()).toEqual({ XLA_FLAGS: ['--a', '--b'], TPU_MEGACORE: ['megacore'] });
    vi.unstubAllEnvs();
  });

  test.each([
    ['return %0 : tensor<f32> loc(#loc3)', 'return %0 : tensor<f32>'],
    ['#loc = loc("x.ts":1:2)\nmodule {\n} loc(#loc)\n#loc1 = loc("f)"(#loc))\n', 'module {\n}'],
    ['a {s = "in loc(b)"} // not loc(c\n loc(fused["("(#l), unknown])', 'a {s = "in loc(b)"} // not loc(c'],
    ['call @loc(%a) alloc(%b) %loc(c)', 'call @loc(%a) alloc(%b) %loc(c)'],
  ])('locations %j', (text, without) => expect(withoutLocations(text)).toBe(without));
  test('locations beside a constant of 64 million digits', () => {
    const constant = `dense<"0x${'7'.repeat(64e6)}">`;
    expect(withoutLocations(`${constant} loc(#loc)`) === constant).toBe(true);
  });
});

describe('a damaged entry', () => {
  let dir: string;
  let name: string;
  let key: string;
  let good: Buffer;
  beforeAll(async () => {
    vi.stubEnv('TSXLA_CACHE', 'on'); // before the beforeEach above
    dir = folder();
    ({ key } = await get(open(dir), adding(1)));
    good = fs.readFileSync(path.join(dir, `${key}.program`));
  });
  beforeEach(() => {
    dir = folder();
    name = path.join(dir, `${key}.program`);
    fs.writeFileSync(name, good, { mode: 0o600 });
  });
  const places = (count: number, end: number) => Array.from({ length: count }, (_, i) => Math.floor((i * end) / count));

  test('200 flipped bits, from the first byte to the last, are all noticed', async () => {
    expect((await readEntry(dir, key))!.text()).toBe(adding(1));
    for (const at of [...places(199, good.length - 1), good.length - 1]) {
      const bad = Buffer.from(good);
      bad[at]! ^= 1 << (at % 8);
      fs.writeFileSync(name, bad);
      await expect(readEntry(dir, key), `byte ${at}`).rejects.toThrow(BadEntryError);
    }
  });
  test('200 lengths, and one byte too many, are all noticed', async () => {
    for (const length of places(200, good.length)) {
      fs.writeFileSync(name, good.subarray(0, length));
      await expect(readEntry(dir, key), `length ${length}`).rejects.toThrow(BadEntryError);
    }
    fs.writeFileSync(name, Buffer.concat([good, Buffer.of(0)]));
    await expect(readEntry(dir, key)).rejects.toThrow('is damaged: its checksum does not match');
  });

  const flipped = () => {
    const bad = Buffer.from(good);
    bad[bad.length >> 1]! ^= 0x10;
    return bad;
  };
  test.each([
    ['a flipped bit', flipped, 'is damaged: its checksum does not match'],
    ['nothing', () => '', 'is not a cached program'],
    ['half of it', () => good.subarray(0, good.length >> 1), 'is damaged'],
    ['another file', () => '#!/bin/sh\n'.repeat(100), 'is not a cached program'],
  ])('%s: counted, said, compiled again and mended', async (_, content, complaint) => {
    fs.writeFileSync(name, content());
    const { value, counts } = await counted(() => get(open(dir), adding(1)));
    expect([value.tier, await run(value.executable), counts]).toEqual(['compiled', added(1), [0, 1, 1]]);
    expect(said.join('')).toContain(complaint);
    expect((await get(open(dir), adding(1))).tier).toBe('disk');
  });

  test.each([
    ['no header', () => 'x'.repeat(200), 'is not JSON'],
    ['another type', (h) => JSON.stringify({ ...h, inputs: 7 }), '"inputs" is 7: expected a list'],
    ['no sizes', ({ sizes: _, ...h }) => JSON.stringify(h), '"sizes" is missing: expected an object'],
    ['other sizes', (h) => JSON.stringify({ ...h, sizes: { ...h.sizes, executable: 1 } }), 'bytes follow its header'],
    [
      'other ingredients',
      (h) => JSON.stringify({ ...h, ingredients: { ...h.ingredients, program: '' } }),
      'its key does not match',
    ],
  ] as [string, (header: Header) => string, string][])('%s, with a right checksum', async (_, change, complaint) => {
    const { header } = (await readEntry(dir, key))!;
    const start = good.indexOf('\n') + 1 + 32 + 4; // after a line, a checksum and a length
    const text = Buffer.from(change(header));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(text.length);
    const body = Buffer.concat([length, text, good.subarray(start + good.readUInt32LE(start - 4))]);
    fs.writeFileSync(
      name,
      Buffer.concat([good.subarray(0, start - 36), createHash('sha256').update(body).digest(), body]),
    );
    const reading = readEntry(dir, key);
    await expect(reading).rejects.toThrow(BadEntryError);
    await expect(reading).rejects.toThrow(complaint);
    expect(await listEntries(dir)).toHaveLength(1);
  });

  test('the entry of another program under its name', async () => {
    const other = await get(open(dir), adding(2));
    fs.copyFileSync(path.join(dir, `${other.key}.program`), name);
    const { tier, executable } = await get(open(dir), adding(1));
    expect([tier, await run(executable)]).toEqual(['compiled', added(1)]);
    expect(said.join('')).toContain(`contains another program, ${other.key}`);
  });

  test('a whole entry that XLA cannot load', async () => {
    const { header, text } = (await readEntry(dir, key))!;
    await writeEntry(dir, header, text(), new Uint8Array(100), 1e9);
    const { value, counts } = await counted(() => get(open(dir), adding(1)));
    expect([value.tier, await run(value.executable), counts]).toEqual(['compiled', added(1), [0, 1, 1]]);
    expect(said.join('')).toMatch(/\.program cannot be loaded: /);
  });

  test('one that others can write to', async () => {
    fs.chmodSync(name, 0o666);
    expect((await get(open(dir), adding(1))).tier).toBe('compiled');
    expect(said.join('')).toContain(`others can write to ${name} (mode 666)`);
    expect(fs.statSync(name).mode & 0o777).toBe(0o600);
  });
});

describe('the folder', () => {
  test('is made for this user alone', () => {
    const dir = path.join(folder(), 'a', 'b');
    expect(open(dir).folder).toBe(dir);
    expect(fs.statSync(dir).mode & 0o777).toBe(0o700);
  });

  const opened = (dir: string) => DiskCache.open({ folder: dir });
  test('that others can write to is refused, once', () => {
    const dir = folder();
    fs.chmodSync(dir, 0o770);
    expect([opened(dir), opened(dir)]).toEqual([undefined, undefined]);
    expect(said).toEqual([
      `tsxla: compiled programs are not cached in ${dir}: others can write to ${dir} (mode 770): run chmod go-w on it. ` +
        'A cached program is code\n',
    ]);
  });
  test('that others can exchange is refused', () => {
    const parent = folder();
    fs.chmodSync(parent, 0o777);
    expect(opened(path.join(parent, 'programs'))).toBeUndefined();
    expect(said.join('')).toContain(`every user can write to ${parent}, and so replace ${parent}/programs`);
    fs.chmodSync(parent, 0o1777); // as /tmp is
    expect(opened(path.join(parent, 'programs'))).toBeDefined();
  });
  test.runIf(process.getuid!() === 0)('that belongs to another user is refused', () => {
    const dir = folder();
    fs.chownSync(dir, 12345, 12345);
    expect(opened(dir)).toBeUndefined();
    expect(said.join('')).toContain(`${dir} belongs to another user (uid 12345, this process is 0)`);
  });
  test('that cannot be made is told', () => {
    const dir = path.join(file(''), 'programs');
    expect(opened(dir)).toBeUndefined();
    expect(said.join('')).toMatch(/^tsxla: compiled programs are not cached in .*: ENOTDIR/);
  });

  test('reading only: hits, and not a byte is written', async () => {
    const dir = folder();
    await get(open(dir), adding(1));
    const name = path.join(dir, entries(dir)[0]!);
    fs.utimesSync(name, 1e9, 1e9);
    fs.writeFileSync(path.join(dir, `${'0'.repeat(64)}.program`), 'bad');
    const state = () => fs.readdirSync(dir).map((n) => [n, fs.statSync(path.join(dir, n)).mtimeMs]);
    const before = state();
    for (const [variable, value] of Object.entries({ TSXLA_CACHE: 'readonly', XLA_PERSISTENT_CACHE_READ_ONLY: '1' })) {
      vi.stubEnv(variable, value);
      const cache = open(dir);
      expect((await get(cache, adding(1))).tier).toBe('disk');
      expect((await get(cache, adding(2))).tier).toBe('compiled');
      expect((await get(cache, adding(2))).tier).toBe('compiled');
      vi.stubEnv(variable, '');
    }
    expect(state()).toEqual(before);
    expect(DiskCache.open({ folder: path.join(dir, 'none'), readOnly: true })).toBeUndefined();
  });

  test('off: there is none; and a mode that does not exist is an error', () => {
    vi.stubEnv('TSXLA_CACHE', 'off');
    expect(opened(folder())).toBeUndefined();
    expect(said).toEqual([]);
    vi.stubEnv('TSXLA_CACHE', 'no');
    expect(() => opened(folder())).toThrow('TSXLA_CACHE=no: use one of on, off, readonly');
  });

  test('a full disk: said once, and programs run', async ({ skip }) => {
    const disk = folder();
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k,mode=700', 'tmpfs', disk], { stdio: 'ignore' });
    } catch {
      skip('making a small disk needs root');
    }
    try {
      fs.writeFileSync(path.join(disk, 'filler'), Buffer.alloc(56 * 1024));
      const cache = open(disk);
      for (const n of [1, 2, 3]) expect(await run((await get(cache, adding(n))).executable)).toEqual(added(n));
      expect(said).toHaveLength(1);
      expect(said[0]).toMatch(/^tsxla: compiled programs are not cached in .*: ENOSPC/);
      expect(fs.readdirSync(disk).filter((name) => /program|tmp|lock/.test(name))).toEqual([]);
    } finally {
      execFileSync('umount', [disk]);
    }
  });
});

describe('its size', () => {
  const total = (dir: string): number =>
    entries(dir).reduce((sum, name) => sum + fs.statSync(path.join(dir, name)).size, 0);
  test('stays within the bound; the least recently used go', async () => {
    const dir = folder();
    const first = await get(open(dir), adding(1));
    const limit = Math.floor(3.5 * total(dir));
    const cache = open(dir, { limit });
    const ago = (key: string, seconds: number) => {
      const then = new Date(Date.now() - 1000 * seconds);
      fs.utimesSync(path.join(dir, `${key}.program`), then, then);
    };
    ago(first.key, 1000);
    ago((await get(cache, adding(2))).key, 900);
    ago((await get(cache, adding(3))).key, 800);
    expect((await get(cache, adding(1))).tier).toBe('disk'); // used: now the youngest
    for (const n of [4, 5]) {
      ago((await get(cache, adding(n))).key, 100);
      expect(total(dir)).toBeLessThanOrEqual(limit);
      expect(entries(dir)).toHaveLength(3);
    }
    expect(entries(dir)).toContain(`${first.key}.program`);
    expect((await get(cache, adding(1))).tier).toBe('disk');
    expect((await get(cache, adding(3))).tier).toBe('compiled');
  });

  test('a program larger than the bound is not kept, and pushes nothing out', async () => {
    const dir = folder();
    await get(open(dir), adding(1));
    expect((await get(open(dir, { limit: 1000 }), adding(2))).tier).toBe('compiled');
    expect(entries(dir)).toHaveLength(1);
    expect(said.join('')).toContain('a test is not cached: it is larger than the limit of the whole cache (1000 B)');
  });

  test('what a killed process left is removed after an hour, and files of others never', async () => {
    const dir = folder();
    const temporary = path.join(dir, `${'a'.repeat(64)}.program.tmp-${crypto.randomUUID()}`);
    for (const name of [temporary, path.join(dir, 'notes.txt')]) {
      fs.writeFileSync(name, 'x');
      fs.utimesSync(name, 1e9, 1e9);
    }
    await get(open(dir), adding(1));
    expect(fs.existsSync(temporary)).toBe(false);
    expect(fs.existsSync(path.join(dir, 'notes.txt'))).toBe(true);
  });

  test.each([
    ['500MB', 5e8],
    ['2GiB', 2 ** 31],
    ['1.5 kib', 1536],
    ['10', 10],
    ['7B', 7],
    ['2G', undefined],
    ['much', undefined],
  ])('%s', (text, n) => expect(parseBytes(text)).toBe(n));
  test('that is no size is an error', () => {
    vi.stubEnv('TSXLA_CACHE_SIZE', 'much');
    expect(() => DiskCache.open({ folder: folder() })).toThrow('TSXLA_CACHE_SIZE=much is not a size');
  });
});

describe('tsxla cache', () => {
  let dir: string;
  let keys: string[];
  beforeEach(async () => {
    dir = folder();
    const got = [await get(open(dir), adding(1)), await get(open(dir), adding(2), { numReplicas: 1 })];
    keys = got.map((g) => g.key);
  });
  const cache = (...args: string[]) => tsxla(['cache', ...args], { XLA_PERSISTENT_CACHE_PATH: dir });

  test('lists', async () => {
    const { stdout } = await cache();
    expect(stdout).toMatch(/^key +name +size +used +compile +platform\n/);
    for (const key of keys)
      expect(stdout).toMatch(new RegExp(`${key.slice(0, 12)} +a test +[\\d.]+ KiB +\\d+ s ago +[\\d.]+ m?s +cpu\n`));
    expect(stdout).toMatch(new RegExp(`2 programs, [\\d.]+ KiB of at most 10.0 GiB in ${dir}\n$`));
    const { entries } = JSON.parse((await cache('--json')).stdout);
    expect(entries.map((e: { key: string }) => e.key).sort()).toEqual(keys.toSorted());
  });

  test('says when the folder is refused', async () => {
    fs.chmodSync(dir, 0o777);
    expect((await cache()).stdout).toContain(`not used: others can write to ${dir} (mode 777)`);
  });

  test('explains a program', async () => {
    const { stdout } = await cache('explain', keys[0]!.slice(0, 10));
    expect(stdout).toMatch(/name +a test\ninputs +1: f32\[4\]\noutputs +1: f32\[4\]\ncompiled +20\S+Z, in /);
    expect(stdout).toMatch(
      /plugin +cpu, version cpu, PJRT C API 0\.81, sha256 [0-9a-f]{12}\ndevices +1 x cpu\nmachine /,
    );
    expect((await cache('explain', keys[0]!, '--text')).stdout.trim()).toBe(adding(1).trim());
    expect(JSON.parse((await cache('explain', keys[0]!, '--json')).stdout)).toMatchObject({
      key: keys[0],
      name: 'a test',
    });
  });

  test('explains what differs between two', async () => {
    const { stdout } = await cache('explain', ...keys);
    expect(stdout).toBe(
      'options.numReplicas\n  (none)\n  1\nprogram line 3\n  %c = stablehlo.constant dense<1.0> : tensor<4xf32>\n' +
        '  %c = stablehlo.constant dense<2.0> : tensor<4xf32>\n',
    );
    expect((await cache('explain', keys[0]!, keys[0]!)).stdout).toBe('both are the same program\n');
  });

  test('a key that is not there, and an entry that is damaged', async () => {
    expect(await cache('explain', 'xyz')).toMatchObject({
      status: 1,
      stderr: `error: no program in ${dir} has a key that begins with xyz: tsxla cache lists them\n`,
    });
    fs.appendFileSync(path.join(dir, `${keys[0]}.program`), 'x');
    expect(await cache('explain', keys[0]!)).toMatchObject({
      status: 1,
      stderr: `error: ${dir}/${keys[0]}.program is damaged: its checksum does not match\n`,
    });
  });

  test('prunes by age and size, and clears', async () => {
    fs.utimesSync(path.join(dir, `${keys[1]}.program`), 1e9, 1e9);
    expect((await cache('prune')).stdout).toBe('removed 0 programs, 0 B\n');
    expect((await cache('prune', '--older-than', '30d')).stdout).toMatch(/^removed 1 program, /);
    expect(entries(dir)).toEqual([`${keys[0]}.program`]);
    expect((await cache('prune', '--size', 'much')).stderr).toContain('not a size: write it as 500MB or 2GiB');
    expect(JSON.parse((await cache('prune', '--size', '1KB', '--json')).stdout)).toMatchObject({ entries: 1 });
    await get(open(dir), adding(1));
    expect((await cache('clear')).stdout).toMatch(/^removed 1 program, /);
    expect(fs.readdirSync(dir)).toEqual([]);
    expect(await listEntries(dir)).toEqual([]);
  });
});
