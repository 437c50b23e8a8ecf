// Mutated files: a reader gives a value or an error of ours, soon, and never takes more memory than a file can fill.
import fs from 'node:fs';
import path from 'node:path';
import { TsxlaError } from 'tsxla';
import { readNpy, readNpz, readSafetensors, readTorch } from 'tsxla/io';
import { expect, test } from 'vitest';
import { golden, temporaryFolder } from './files.js';

const TIME = 5000; // ms for a file of a few kB: many times what the slowest needs on a busy machine
const MEMORY = 64 * 2 ** 20; // bytes of arrays made of one file: 16 MiB that expanded views may take, and rubbish
const ADDRESSES = 2 ** 30; // bytes that the process's address space may grow by: an absurd array would, though it is never filled

const READERS: readonly (readonly [string, (file: string) => Promise<unknown>, readonly string[]])[] = [
  ['safetensors', readSafetensors, ['every.safetensors']],
  [
    'pt',
    readTorch,
    ['every.pt', 'views.pt', 'checkpoint.pt', 'values2.pt', 'values4.pt', 'big.pt', 'danger.pt', 'weights-only.pt'],
  ],
  ['legacy.pt', readTorch, ['legacy.pt', 'legacy-model.pt', 'legacy-parts.pt', 'legacy4.pt']],
  ['npy', readNpy, ['version1.npy', 'version2.npy', 'version3.npy', 'records.npy']],
  ['npz', readNpz, ['every.npz', 'compressed.npz']],
];

export function fuzz(count: number): void {
  const dir = temporaryFolder();
  test.each(READERS)(`${count} mutated files: %s`, async (kind, read, names) => {
    const random = generator(20_240_607);
    const seeds = names.map((name) => fs.readFileSync(golden(name)));
    const outcomes = new Map<string, number>();
    const file = path.join(dir, `mutant.${kind}`);
    let [slowest, largest] = [0, 0];
    const addresses = peakAddresses();
    for (let i = 0; i < count; i++) {
      const seed = seeds[i % seeds.length]!;
      const mutant = kind === 'pt' && random(2) ? mutatePickle(seed, random) : mutate(seed, seeds, random);
      fs.writeFileSync(file, mutant);
      const before = process.memoryUsage();
      const start = performance.now();
      const outcome = await Promise.race([
        read(file).then(
          () => 'read',
          (e) => (e instanceof TsxlaError ? e.name : failure(e, mutant, path.join(dir, `${kind}-${i}`))),
        ),
        new Promise<string>((done) => setTimeout(done, 10 * TIME, 'no answer').unref()),
      ]);
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      slowest = Math.max(slowest, performance.now() - start);
      largest = Math.max(largest, process.memoryUsage().arrayBuffers - before.arrayBuffers);
    }
    console.log(`${kind}: ${[...outcomes].map(([o, n]) => `${n} ${o}`).join(', ')}; slowest ${Math.round(slowest)} ms`);
    expect([...outcomes.keys()].filter((o) => !/^(read|FileError|UnsafePickleError)$/.test(o))).toEqual([]);
    expect(outcomes.get('FileError')).toBeGreaterThan(count / 20); // the mutants are not all alike
    expect(slowest).toBeLessThan(TIME);
    expect(largest).toBeLessThan(MEMORY);
    expect(peakAddresses() - addresses).toBeLessThan(ADDRESSES);
  });
}

/** Bytes, at most so far; 0 where the system does not tell. */
const peakAddresses = (): number =>
  fs.existsSync('/proc/self/status')
    ? 1024 * Number(fs.readFileSync('/proc/self/status', 'utf8').match(/VmPeak:\s*(\d+)/)?.[1] ?? 0)
    : 0;

/** An error that is not ours: told with its stack, its file kept as hex. */
function failure(e: unknown, mutant: Buffer, name: string): string {
  return `${path.basename(name)}: ${e instanceof Error ? e.stack : String(e)}\n${mutant.toString('hex')}`;
}

type Random = (below: number) => number;
/** mulberry32: the same mutants every time. */
function generator(seed: number): Random {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

const INTERESTING = [0, 1, 0x7f, 0x80, 0xff, ...Buffer.from('.()[]{}"\'0987,:-PKcRQatest\x8a\x8b\x95', 'latin1')];
const MUTATIONS: readonly ((b: Buffer, seeds: readonly Buffer[], random: Random) => Buffer)[] = [
  (b, _, random) => flip(b, random, () => random(256)),
  (b, _, random) => flip(b, random, () => INTERESTING[random(INTERESTING.length)]!),
  (b, _, random) => flip(b, random, (old) => old ^ (1 << random(8))),
  (b, _, random) => b.subarray(0, random(b.length + 1)), // cut short
  (b, _, random) => splice(b, random(b.length), random(16), Buffer.alloc(0)), // bytes taken out
  (b, _, random) => splice(b, random(b.length), 0, Buffer.from(Array.from({ length: random(16) }, () => random(256)))),
  (b, seeds, random) => {
    const other = seeds[random(seeds.length)]!;
    const from = random(other.length);
    return splice(b, random(b.length), random(64), other.subarray(from, from + random(64)));
  },
  (b, _, random) => {
    // A size that lies: 4 or 8 bytes become a large or odd number.
    const out = Buffer.from(b);
    const at = random(Math.max(1, b.length - 8));
    const sizes = [0xffffffffffffffffn, 0x7fffffffffffffffn, 0xffffffffn, 0x80000000n, 0x7fffffffn, 0x100000000n, 1n];
    if (b.length >= 8) out.writeBigUInt64LE(sizes[random(sizes.length)]!, at);
    return out;
  },
  (b, _, random) => {
    // Digits in a text: shapes and offsets.
    const digits = [...b.keys()].filter((i) => b[i]! >= 48 && b[i]! <= 57);
    if (!digits.length) return b;
    const at = digits[random(digits.length)]!;
    const texts = ['9', '-1', '99999999999999999999', '1e9', '0', '1.5', '', '4294967296'];
    return splice(b, at, 1, Buffer.from(texts[random(texts.length)]!));
  },
];
const splice = (b: Buffer, at: number, remove: number, put: Buffer): Buffer =>
  Buffer.concat([b.subarray(0, at), put, b.subarray(at + remove)]);
function flip(b: Buffer, random: Random, to: (old: number) => number): Buffer {
  const out = Buffer.from(b);
  if (!out.length) return out;
  const at = random(out.length);
  out[at] = to(out[at]!);
  return out;
}

function mutate(seed: Buffer, seeds: readonly Buffer[], random: Random): Buffer {
  let mutant = Buffer.from(seed);
  for (let n = 1 + random(4); n > 0; n--) {
    mutant = MUTATIONS[random(MUTATIONS.length)]!(mutant, seeds, random) as Buffer<ArrayBuffer>;
  }
  return mutant;
}

/** Other bytes in the pickle of a torch file, whose length stays: so the zip around it is whole. It has no checksum then. */
function mutatePickle(seed: Buffer, random: Random): Buffer {
  const out = Buffer.from(seed);
  const name = out.indexOf('data.pkl');
  out.writeUInt32LE(0, out.lastIndexOf('PK\x03\x04', name, 'latin1') + 14);
  const central = out.indexOf('data.pkl', name + 8);
  out.writeUInt32LE(0, out.lastIndexOf('PK\x01\x02', central, 'latin1') + 16);
  const start = out.indexOf('\x80', out.indexOf('data.pkl'), 'latin1');
  const length = out.indexOf('PK', start, 'latin1') - start;
  for (let n = 1 + random(6); n > 0; n--) {
    const at = start + random(length);
    if (random(2)) out[at] = INTERESTING[random(INTERESTING.length)]!;
    else {
      const from = start + random(length);
      out.copy(out, at, from, from + Math.min(random(24), start + length - at, start + length - from));
    }
  }
  return out;
}
