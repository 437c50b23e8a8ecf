// Archives that are not what they say: every member is found, or there is an error; nothing kills the process.
import fs from 'node:fs';
import path from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';
import { FileError } from 'tsxla';
import { readNpz, readTorch, writeNpz } from 'tsxla/io';
import { expect, test } from 'vitest';
import { array, golden, temporaryFolder, toldAll } from './files.js';

const dir = temporaryFolder();
const file = (name: string) => path.join(dir, name);
const told = JSON.parse(fs.readFileSync(golden('torch.json'), 'utf8')).npz;

const END = 'PK\x05\x06';
const END64 = 'PK\x06\x06';
const LOCATOR = 'PK\x06\x07';
const CENTRAL = 'PK\x01\x02';
const LOCAL = 'PK\x03\x04';

/** Where the record of a member begins: all of them in order. */
function* records(b: Buffer, signature: string): Generator<number> {
  for (let at = b.indexOf(signature, 0, 'latin1'); at >= 0; at = b.indexOf(signature, at + 4, 'latin1')) yield at;
}
const first = (b: Buffer, signature: string) => [...records(b, signature)][0]!;
const last = (b: Buffer, signature: string) => b.lastIndexOf(signature, undefined, 'latin1');

/** Reads a copy of a golden file in which something was changed. */
async function changed(name: string, change: (b: Buffer) => unknown): Promise<unknown> {
  const bytes = fs.readFileSync(golden(name));
  const copy = file(`changed${path.extname(name)}`);
  const made = change(bytes);
  fs.writeFileSync(copy, made instanceof Buffer ? made : bytes);
  return name.endsWith('.npz') ? readNpz(copy) : readTorch(copy);
}

test("Python's other ways to write archives", async () => {
  for (const name of ['pipe.npz', 'pipe-deflated.npz', 'comment.npz'])
    expect(toldAll(await readNpz(golden(name))), name).toEqual(told);
  expect([...(await readNpz(golden('paths.npz'))).keys()]).toEqual(['/absolute', '../up', 'größe']); // names, never paths
});

test('a zip64 locator beyond the file is an error that can be caught', async () => {
  const lie = (b: Buffer) => b.writeBigUInt64LE(2n ** 63n, first(b, LOCATOR) + 8);
  await expect(changed('every.pt', lie)).rejects.toThrow(
    /its zip64 end record is not at byte \d{19}, where its locator points/,
  );
  await writeNpz(file('zip64.npz'), new Map([['x', array('f32', 2)]]));
  const bytes = fs.readFileSync(file('zip64.npz'));
  for (const lies of [2n ** 63n, 2n ** 64n - 1n, 0n, BigInt(bytes.length)]) {
    bytes.writeBigUInt64LE(lies, first(bytes, LOCATOR) + 8);
    fs.writeFileSync(file('zip64.npz'), bytes);
    await expect(readNpz(file('zip64.npz'))).rejects.toThrow(FileError);
  }
});

test('a wrong count of members never means fewer arrays', async () => {
  const counts = (n: number) => (b: Buffer) => {
    b.writeUInt16LE(n, last(b, END) + 8);
    b.writeUInt16LE(n, last(b, END) + 10);
  };
  const real = (await readNpz(golden('every.npz'))).size;
  await expect(changed('every.npz', counts(2))).rejects.toThrow(
    `its end record counts 2 members, but its directory lists ${real}`,
  );
  for (const n of [0, real - 1, real + 1, 0xffff])
    await expect(changed('every.npz', counts(n)), `${n}`).rejects.toThrow(FileError);
  await expect(changed('every.pt', counts(1))).rejects.toThrow('its end record and its zip64 end record disagree');
  const both = (b: Buffer) => {
    counts(1)(b);
    b.writeBigUInt64LE(1n, first(b, END64) + 24);
    b.writeBigUInt64LE(1n, first(b, END64) + 32);
  };
  await expect(changed('every.pt', both)).rejects.toThrow('its end record counts 1 members, but its directory lists');
});

const number16 = (signature: string, offset: number, value: number) => (b: Buffer) =>
  b.writeUInt16LE(value, (signature === END ? last : first)(b, signature) + offset);
const number32 = (signature: string, offset: number, value: number) => (b: Buffer) =>
  b.writeUInt32LE(value, (signature === END ? last : first)(b, signature) + offset);
const number64 = (signature: string, offset: number, value: bigint) => (b: Buffer) =>
  b.writeBigUInt64LE(value, first(b, signature) + offset);

test.each<[string, RegExp, (b: Buffer) => unknown]>([
  ['a directory elsewhere', /its directory should lie at bytes 1 to/, number32(END, 16, 1)],
  ['a directory of another size', /its directory should lie at/, number32(END, 12, 46)],
  ['a directory beyond the file', /its directory should lie at/, number32(END, 16, 0xffffffff)],
  ['no end', /it is not a zip archive, or its end record is missing/, number32(END, 0, 0)],
  ['bytes behind the end', /3 bytes follow its end record/, (b) => Buffer.concat([b, Buffer.alloc(3)])],
  ['bytes in front', /its directory should lie at/, (b) => Buffer.concat([Buffer.alloc(9), b])],
  ['a part of several: number', /it is one part of a multi-disk archive/, number16(END, 4, 1)],
  ['a part of several: count', /it is one part of a multi-disk archive/, number16(END, 8, 1)],
  ['a part of several: a member', /it is one part of a multi-disk archive/, number16(CENTRAL, 34, 1)],
  ['an encrypted member', /bool\.npy is encrypted/, number16(CENTRAL, 8, 1)],
  ['an unknown way of packing', /bool\.npy is compressed by method 12: 0 \(none\)/, number16(CENTRAL, 10, 12)],
  ['another way of packing in front', /bool\.npy: its compression method at byte 0/, number16(LOCAL, 8, 8)],
  [
    'another size in front',
    /bool\.npy: its size at byte 0 differs/,
    (b) => b.writeBigUInt64LE(1n, first(b, LOCAL) + 30 + 8 + 4),
  ],
  ['another checksum in front', /bool\.npy: its checksum at byte 0 differs/, number32(LOCAL, 14, 1)],
  ['another name in front', /bool\.npy: its name at byte 0 differs/, (b) => b.write('x', first(b, LOCAL) + 30)],
  ['another name in the directory', /boox\.npy: its name at/, (b) => b.write('x', first(b, CENTRAL) + 46 + 3)],
  ['a name that is not UTF-8', /is not UTF-8/, (b) => b.writeUInt8(0xff, first(b, CENTRAL) + 46)],
  ['a name with a zero', /whose name is empty or contains a zero byte/, (b) => b.writeUInt8(0, first(b, CENTRAL) + 46)],
  ['a member claimed larger', /bool\.npy claims 4096 bytes out of/, number32(CENTRAL, 24, 4096)],
  [
    'a member beyond the file',
    /bool\.npy: its size|bool\.npy reaches beyond byte/,
    (b) => {
      b.writeUInt32LE(0x7fffffff, first(b, CENTRAL) + 20);
      b.writeUInt32LE(0x7fffffff, first(b, CENTRAL) + 24);
    },
  ],
  ['a member elsewhere', /bool\.npy has no local header at byte 5/, number32(CENTRAL, 42, 5)],
  ['two members in one place', /overlap at byte 0/, (b) => b.writeUInt32LE(0, [...records(b, CENTRAL)][1]! + 42)],
  ['no zip64 field', /the zip64 field of bool\.npy is damaged/, number32(CENTRAL, 24, 0xffffffff)],
  ['a damaged directory', /its directory is damaged at byte/, (b) => b.writeUInt16LE(9999, first(b, CENTRAL) + 28)],
  ['a damaged record', /its directory is damaged at byte/, number16(CENTRAL, 2, 0)],
])('%s', async (_, message, change) => {
  const reading = changed('every.npz', change);
  await expect(reading).rejects.toThrow(FileError);
  await expect(reading).rejects.toThrow(message);
});

test.each<[string, (b: Buffer) => unknown]>([
  ['start', number64(END64, 48, 2n ** 63n)],
  ['size', number64(END64, 40, 2n ** 64n - 1n)],
  ['count', number64(END64, 32, 2n ** 40n)],
  ['length', number64(END64, 4, 45n)],
  ['disk', number32(END64, 16, 1)],
  ['disks', number32(LOCATOR, 16, 2)],
  ['signature', number32(END64, 0, 0)],
  ['locator', number32(LOCATOR, 0, 0)],
])('a zip64 record whose %s lies', async (_, change) => {
  await expect(changed('every.pt', change)).rejects.toThrow(FileError);
});

/** An archive of one member, its compressed bytes given. */
function deflated(packed: Buffer, content: Buffer, claimed = content.length): Promise<unknown> {
  const name = Buffer.from('x.npy');
  const common = Buffer.alloc(26);
  common.writeUInt16LE(20, 0);
  common.writeUInt16LE(8, 4);
  common.writeUInt32LE(crc32(content), 10);
  common.writeUInt32LE(packed.length, 14);
  common.writeUInt32LE(claimed, 18);
  common.writeUInt16LE(name.length, 22);
  const local = Buffer.concat([Buffer.from(LOCAL, 'latin1'), common, name, packed]);
  const central = Buffer.concat([Buffer.from(`${CENTRAL}\x14\x00`, 'latin1'), common, Buffer.alloc(14), name]);
  const end = Buffer.alloc(22);
  end.write(END, 'latin1');
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(local.length, 16);
  fs.writeFileSync(file('deflated.npz'), Buffer.concat([local, central, end]));
  return readNpz(file('deflated.npz'));
}

test('compressed members unpack to what they claim', async () => {
  const header = "{'descr': '|u1', 'fortran_order': False, 'shape': (70000,), }".padEnd(117);
  const content = Buffer.concat([
    Buffer.from(`\x93NUMPY\x01\x00\x76\x00${header}\n`, 'latin1'),
    Buffer.alloc(70_000, 3),
  ]);
  const packed = deflateRawSync(content);
  const arrays = (await deflated(packed, content)) as Map<string, { data: Uint8Array }>;
  expect(arrays.get('x')!.data).toEqual(new Uint8Array(70_000).fill(3));
  await expect(deflated(packed.subarray(0, 20), content, 10_000)).rejects.toThrow(FileError);
  await expect(deflated(packed.subarray(0, -2), content)).rejects.toThrow(/x\.npy: unexpected end of file/);
  await expect(deflated(deflateRawSync(Buffer.concat([content, content])), content)).rejects.toThrow(
    'x.npy unpacks to more than the 70128 bytes it claims',
  );
  await expect(deflated(Buffer.alloc(100, 0xff), content)).rejects.toThrow(/x\.npy: invalid/);
  await expect(deflated(packed, content, 2 ** 31)).rejects.toThrow('x.npy claims 2147483648 bytes out of');
  content[200]! ^= 1; // the checksum of something else
  await expect(deflated(packed, content)).rejects.toThrow(
    'x.npy is damaged: its CRC-32 differs from the one in the archive',
  );
});
