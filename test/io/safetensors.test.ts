// safetensors: what is written is what is read, and a damaged file is named.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { openSafetensors, openSharded, readAll, readSafetensors, writeSafetensors, writeSharded } from 'tsxla/io';
import { DTYPES, type DType } from 'tsxla/pjrt';
import { expect, test } from 'vitest';
import { array, expected, golden, temporaryFolder, toldAll } from './files.js';

const dir = temporaryFolder();
const file = path.join(dir, 'x.safetensors');

test('every dtype, scalars and empty arrays', async () => {
  const arrays = new Map(
    Object.keys(DTYPES)
      .filter((d) => d !== 'c128') // which the format lacks
      .map((d, i) => [`a.${d}`, array(d as DType, ...[[3, 2], [], [0, 4]][i % 3]!)]),
  );
  await writeSafetensors(file, arrays);
  expect(await readSafetensors(file)).toEqual(arrays);
  expect(fs.readdirSync(dir)).toEqual(['x.safetensors']); // no temporary file is left
});

test('a file cut short, or that is something else', async () => {
  await writeSafetensors(file, new Map([['w', array('f32', 8)]]));
  const whole = fs.readFileSync(file);
  const damaged = async (bytes: Uint8Array) => {
    fs.writeFileSync(file, bytes);
    return readSafetensors(file);
  };
  await expect(damaged(whole.subarray(0, -4))).rejects.toThrow(
    /x\.safetensors is not a whole safetensors file: w ends at byte \d+ of \d+/,
  );
  await expect(damaged(whole.subarray(0, 5))).rejects.toThrow('it has 5 bytes');
  await expect(damaged(Buffer.from('PK this is a zip file, really'))).rejects.toThrow(
    /its header would be \d+ bytes long/,
  );
  await expect(damaged(Buffer.concat([whole.subarray(0, 8), Buffer.alloc(whole.length - 8, 'x')]))).rejects.toThrow(
    'its header is not JSON',
  );
  const headed = (header: unknown) => headedBy(JSON.stringify(header));
  const headedBy = (json: string) => {
    const text = Buffer.from(json, 'latin1');
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(text.length));
    return damaged(Buffer.concat([length, text, Buffer.alloc(64)]));
  };
  await expect(headed(null)).rejects.toThrow('its header is not an object');
  await expect(headed({ w: { dtype: 'F32', shape: [2] } })).rejects.toThrow(
    'its header says of w: {"dtype":"F32","shape":[2]}',
  );
  await expect(headed({ w: { dtype: 'F32', shape: [-2], data_offsets: [0, 8] } })).rejects.toThrow(
    'its header says of w',
  );
  await expect(headed({ w: { dtype: 'F32', shape: [2], data_offsets: [8, 0] } })).rejects.toThrow(
    'w is f32[2] but has -8 bytes',
  );
  await expect(headed({ w: { dtype: 'F32', shape: [1.5], data_offsets: [0, 6] } })).rejects.toThrow(
    'its header says of w',
  );
  await expect(headed({ w: { dtype: 'C128', shape: [1], data_offsets: [0, 16] } })).rejects.toThrow(
    'w: element type C128 (safetensors) is not supported',
  );
  await expect(headed({ w: { dtype: 'U8', shape: [2 ** 40, 2 ** 40], data_offsets: [0, 64] } })).rejects.toThrow(
    'but has 64 bytes',
  );
  await expect(headed([])).rejects.toThrow('its header is not an object');
  await expect(headed({ __metadata__: { a: 1 } })).rejects.toThrow('its metadata is to hold texts, and says of a: 1');
  const u8 = (begin: number, end: number) => ({ dtype: 'U8', shape: [end - begin], data_offsets: [begin, end] });
  expect([...(await headed({ b: u8(32, 64), a: u8(0, 32), e: u8(32, 32) })).keys()]).toEqual(['b', 'a', 'e']);
  await expect(headed({ a: u8(0, 40), b: u8(32, 64) })).rejects.toThrow(/b begins at byte \d+, inside a/);
  await expect(headed({ a: u8(0, 30), b: u8(32, 64) })).rejects.toThrow(
    /bytes \d+ to \d+, before b, belong to no array/,
  );
  await expect(headed({ a: u8(0, 60) })).rejects.toThrow(/bytes \d+ to \d+, at its end, belong to no array/);
  await expect(headedBy('{"a": [], "a": []}')).rejects.toThrow('its header says of a: []');
  const entry = JSON.stringify(u8(0, 64));
  await expect(headedBy(`{"a": ${entry}, "\\u0061": ${entry}}`)).rejects.toThrow('its header names a twice');
  await expect(headedBy(`{"a": ${'['.repeat(50_000)}${']'.repeat(50_000)}}`)).rejects.toThrow('deeply nested');
  await expect(headedBy('{"a\xff": 1}')).rejects.toThrow('its header is not JSON');
  await expect(readSafetensors(dir)).rejects.toThrow(/is not a whole safetensors file|EISDIR/);
  await expect(readSafetensors(path.join(dir, 'none'))).rejects.toThrow(/^cannot read .*none: ENOENT/);
});

test('through a link, into a pipe, and by two at once', async () => {
  const real = path.join(dir, 'real.safetensors');
  const link = path.join(dir, 'link.safetensors');
  await writeSafetensors(real, new Map([['w', array('f32', 2)]]));
  fs.symlinkSync(real, link);
  await writeSafetensors(link, new Map([['w', array('f32', 3)]]));
  expect(fs.lstatSync(link).isSymbolicLink()).toBe(true);
  expect((await readSafetensors(real)).get('w')!.shape).toEqual([3]);
  await writeSafetensors('/dev/null', new Map([['w', array('f32', 3)]]));
  expect(fs.statSync('/dev/null').isCharacterDevice()).toBe(true);
  const filled = (v: number) =>
    new Map([['w', { dtype: 'f32', shape: [1 << 18], data: new Float32Array(1 << 18).fill(v) } as const]]);
  await Promise.all([1, 2, 3, 4].map((v) => writeSafetensors(real, filled(v))));
  const { data } = (await readSafetensors(real)).get('w')!;
  expect(data.every((v) => v === data[0])).toBe(true); // one of them, whole
  fs.rmSync(link);
  fs.rmSync(real);
});

test('names that are special to JSON or to the format', async () => {
  await writeSafetensors(file, new Map([['__proto__', array('f32', 2)]]));
  expect([...(await readSafetensors(file)).keys()]).toEqual(['__proto__']);
  await expect(writeSafetensors(file, new Map([['__metadata__', array('f32', 2)]]))).rejects.toThrow(
    'an array cannot be named __metadata__',
  );
});

test('data that does not fit its shape is not written', async () => {
  fs.rmSync(file, { force: true });
  const wrong = { dtype: 'f32', shape: [3], data: new Float32Array(2) } as const;
  await expect(writeSafetensors(file, new Map([['w', wrong]]))).rejects.toThrow(
    'w: f32[3] has 8 bytes of data in a Float32Array',
  );
  expect(fs.readdirSync(dir)).toEqual([]);
});

test('what the official writer wrote, with its metadata', async () => {
  expect(toldAll(await readSafetensors(golden('every.safetensors')))).toEqual(expected['every.safetensors']);
  await using opened = await openSafetensors(golden('every.safetensors'));
  expect(Object.fromEntries(opened.metadata)).toEqual({ format: 'pt', note: 'ä 語' });
});

test('a file is opened without reading its arrays, which are read one by one or in part', async () => {
  const w = { dtype: 'f32', shape: [4, 3], data: Float32Array.from({ length: 12 }, (_, i) => i) } as const;
  const arrays = new Map([['w', w], ['b', array('f64')], ['half', array('f16', 5)]]); // biome-ignore format: short
  await writeSafetensors(file, arrays, { metadata: { step: '12' } });
  await using opened = await openSafetensors(file);
  expect([...opened.keys()]).toEqual(['w', 'b', 'half']);
  expect(opened.entries.get('w')).toMatchObject({ dtype: 'f32', shape: [4, 3], byteLength: 48 });
  expect(opened.metadata.get('step')).toBe('12');
  expect(await opened.read('b')).toEqual(arrays.get('b'));
  expect(await opened.readRange('w', 1, 3)).toEqual({
    dtype: 'f32',
    shape: [2, 3],
    data: Float32Array.of(3, 4, 5, 6, 7, 8),
  });
  expect((await opened.readRange('half', 5, 5)).shape).toEqual([0]);
  await expect(opened.readRange('w', 3, 5)).rejects.toThrow(
    'readRange: rows 3 to 5 are out of range for w, f32[4, 3]: use 0 to 4',
  );
  await expect(opened.readRange('b', 0, 1)).rejects.toThrow('readRange: b is a scalar (f64[]): use read');
  await expect(opened.read('v.w')).rejects.toThrow(/x\.safetensors has no array v\.w: it has 3, w, \.\.\./);
});

test('tensors are computed in one program and written', async () => {
  const x = tx.arange(3);
  const compiles = () => tx.metrics.counter('UncachedCompile') ?? 0;
  const before = compiles();
  await writeSafetensors(file, new Map([['x', x], ['y', x.add(1).to('bf16')]])); // biome-ignore format: short
  expect(await readSafetensors(file)).toEqual(
    new Map([
      ['x', { dtype: 'i64', shape: [3], data: BigInt64Array.of(0n, 1n, 2n) }],
      ['y', { dtype: 'bf16', shape: [3], data: Uint16Array.of(0x3f80, 0x4000, 0x4040) }],
    ]),
  );
  expect(compiles() - before).toBe(1);
});

test('a disk that is full leaves the file that was there, and nothing beside it', async () => {
  const folder = path.join(dir, 'full');
  fs.mkdirSync(folder);
  const target = path.join(folder, 'x.safetensors');
  await writeSafetensors(target, new Map([['w', array('f32', 2)]]));
  const program = `import { writeSafetensors } from 'tsxla/io';
    process.on('SIGXFSZ', () => {});
    const w = { dtype: 'u8', shape: [1 << 20], data: new Uint8Array(1 << 20) };
    await writeSafetensors(${JSON.stringify(target)}, new Map([['w', w]])).catch((e) => console.log(e.name, e.message));`;
  const node = [process.execPath, '--input-type=module', '-e', `'${program.replaceAll("'", `'"'"'`)}'`].join(' ');
  const said = execFileSync('bash', ['-c', `ulimit -f 100; ${node}`], { encoding: 'utf8', cwd: import.meta.dirname });
  expect(said).toMatch(/^FileError cannot write .*full\/x\.safetensors: EFBIG/);
  expect(fs.readdirSync(folder)).toEqual(['x.safetensors']);
  expect(await readSafetensors(target)).toEqual(new Map([['w', array('f32', 2)]]));
  await expect(writeSafetensors('/dev/full', new Map([['w', array('f32', 2)]]))).rejects.toThrow(
    'cannot write /dev/full: ENOSPC',
  );
});

const model = new Map([['a', array('f32', 10)], ['b', array('f32', 10)], ['c', array('f64', 30)], ['d', array('u8')]]); // biome-ignore format: short

test("a model in shards, in Hugging Face's layout", async () => {
  const folder = path.join(dir, 'shards');
  await writeSharded(folder, model, { maxShardBytes: 100 });
  expect(fs.readdirSync(folder).sort()).toEqual([
    'model-00001-of-00003.safetensors',
    'model-00002-of-00003.safetensors',
    'model-00003-of-00003.safetensors',
    'model.safetensors.index.json',
  ]);
  const index = JSON.parse(fs.readFileSync(path.join(folder, 'model.safetensors.index.json'), 'utf8'));
  expect(index.metadata).toEqual({ total_size: 321 });
  expect(index.weight_map).toEqual({
    a: 'model-00001-of-00003.safetensors',
    b: 'model-00001-of-00003.safetensors',
    c: 'model-00002-of-00003.safetensors', // larger than a shard may be: alone
    d: 'model-00003-of-00003.safetensors',
  });
  await using opened = await openSharded(folder);
  expect(opened.entries.get('c')).toMatchObject({ dtype: 'f64', shape: [30], byteLength: 240 });
  expect((await opened.readRange('c', 2, 4)).data).toEqual(model.get('c')!.data.slice(2, 4));
  expect(opened.metadata.get('format')).toBe('pt');
  expect(await readAll(await openSharded(path.join(folder, 'model.safetensors.index.json')))).toEqual(model);
  await writeSharded(folder, model); // in one file: what is left of the shards goes
  expect(fs.readdirSync(folder)).toEqual(['model.safetensors']);
  expect(await readAll(await openSharded(folder))).toEqual(model);
});

test('shards that are not there, and arrays that are not in them', async () => {
  const folder = path.join(dir, 'broken');
  await writeSharded(folder, model, { maxShardBytes: 100 });
  const index = path.join(folder, 'model.safetensors.index.json');
  const promised = JSON.parse(fs.readFileSync(index, 'utf8'));
  const edit = (weights: Record<string, unknown>) => {
    fs.writeFileSync(index, JSON.stringify({ weight_map: { ...promised.weight_map, ...weights } }));
    return openSharded(folder);
  };
  await expect(edit({ e: 'model-00001-of-00003.safetensors' })).rejects.toThrow(
    'lists arrays that are not in its shards: e (of model-00001-of-00003.safetensors)',
  );
  await expect(edit({ e: 'model-00004-of-00003.safetensors' })).rejects.toThrow(
    'names 4 shards, 1 of which is not there: model-00004-of-00003.safetensors',
  );
  await expect(edit({ e: '../x.safetensors' })).rejects.toThrow(
    "says that e is in '../x.safetensors', which is not a file in its folder",
  );
  await expect(edit({ e: 7 })).rejects.toThrow('says that e is in 7');
  fs.writeFileSync(index, `{"weight_map": {"e": ${'['.repeat(20_000)}${']'.repeat(20_000)}}}`); // deeper than the stack
  await expect(openSharded(folder)).rejects.toThrow('is not JSON: it is nested more than 1000 deep');
  await expect(edit({ constructor: 'model-00001-of-00003.safetensors' })).rejects.toThrow(
    'lists arrays that are not in its shards: constructor',
  );
  const { a: _, ...fewer } = promised.weight_map;
  fs.writeFileSync(index, JSON.stringify({ weight_map: fewer }));
  expect(new Map([...(await readAll(await openSharded(folder)))].sort())).toEqual(model); // none is lost
  fs.writeFileSync(index, '{}');
  await expect(openSharded(folder)).rejects.toThrow('is not an index of shards: it has no weight_map');
  fs.writeFileSync(index, '{');
  await expect(openSharded(index)).rejects.toThrow('is not an index of shards: ');
  fs.rmSync(index);
  await expect(openSharded(folder)).rejects.toThrow(
    'has no model: neither model.safetensors.index.json nor model.safetensors',
  );
});
