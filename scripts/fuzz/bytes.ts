// Mutations of plain bytes, and what all mutations share.
import type { Random } from './random.js';

export interface Mutant {
  readonly bytes: Buffer;
  /** What was done, for people: "bytes 12 to 20 removed". */
  readonly what: string;
}
/** Makes another file of one. `others` are valid files of the same kind. Undefined: it cannot be done to this file. */
export type Mutate = (bytes: Buffer, random: Random, others: readonly Buffer[]) => Mutant | undefined;

/** One of these, chosen at random; a mutation that is listed twice is twice as likely. Plain bytes where none applies. */
export const oneOf =
  (...mutations: readonly Mutate[]): Mutate =>
  (bytes, random, others) => {
    for (let tries = 0; tries < 8; tries++) {
      const mutant = attempt(random.pick(mutations), bytes, random, others);
      if (mutant && !mutant.bytes.equals(bytes)) return mutant;
    }
    return mutateBytes(bytes, random, others);
  };

/** A file that an earlier mutation has damaged may be one that this one cannot take apart. */
function attempt(mutate: Mutate, ...given: Parameters<Mutate>): Mutant | undefined {
  try {
    return mutate(...given);
  } catch {
    return undefined;
  }
}

export const splice = (b: Buffer, at: number, remove: number, put: Uint8Array = Buffer.alloc(0)): Buffer =>
  Buffer.concat([b.subarray(0, at), put, b.subarray(at + remove)]);

/** Sizes, counts and offsets that readers get wrong. */
export const SIZES: readonly bigint[] = [
  0n,
  1n,
  2n,
  0x7fn,
  0x80n,
  0xffn,
  0x7fffn,
  0xffffn,
  0x10000n,
  1_000_000n,
  0x7fffffffn,
  0x80000000n,
  0xfffffffen,
  0xffffffffn,
  0x100000000n,
  2n ** 40n,
  2n ** 53n - 1n,
  2n ** 53n,
  2n ** 63n - 1n,
  2n ** 63n,
  2n ** 64n - 1n,
];
/** Another number in the place of one: far off, or next to it. */
export const otherSize = (old: bigint, random: Random): bigint =>
  random.once(3)
    ? random.pick([old + 1n, old - 1n, old * 2n, old / 2n, old + 8n, old ^ (1n << BigInt(random.below(32)))])
    : random.pick(SIZES);

/** Writes a whole number of 1 to 8 bytes, cut to its field. */
export function writeSize(b: Buffer, at: number, width: number, value: bigint): void {
  const field = Buffer.alloc(8);
  field.writeBigUInt64LE(BigInt.asUintN(64, value));
  field.copy(b, at, 0, width);
}
export const readSize = (b: Buffer, at: number, width: number): bigint => {
  const field = Buffer.alloc(8);
  b.copy(field, 0, at, at + width);
  return field.readBigUInt64LE();
};

const INTERESTING = [0, 1, 0x0a, 0x7f, 0x80, 0xff, ...Buffer.from('.()[]{}"\'0987,:-', 'latin1')];
const at = (b: Buffer, random: Random): number => random.below(b.length);

const flip: Mutate = (b, random) => {
  const out = Buffer.from(b);
  const places = Array.from({ length: 1 + random.below(3) }, () => at(b, random));
  for (const place of places)
    out[place] = random.once(2) ? random.pick(INTERESTING) : out[place]! ^ (1 << random.below(8));
  return { bytes: out, what: `bytes ${places.join(', ')} changed` };
};
const size: Mutate = (b, random) => {
  const width = random.pick([1, 2, 4, 8]);
  if (b.length < width) return undefined;
  const out = Buffer.from(b);
  const place = random.below(b.length - width + 1);
  const value = otherSize(readSize(b, place, width), random);
  writeSize(out, place, width, value);
  if (random.once(4)) out.subarray(place, place + width).reverse(); // big endian
  return { bytes: out, what: `${width} bytes at ${place} set to ${value}` };
};
const cut: Mutate = (b, random) => {
  const end = at(b, random);
  return { bytes: b.subarray(0, end), what: `cut off at byte ${end} of ${b.length}` };
};
const remove: Mutate = (b, random) => {
  const [place, n] = [at(b, random), 1 + random.below(random.pick([4, 64, 1024]))];
  return { bytes: splice(b, place, n), what: `bytes ${place} to ${place + n} removed` };
};
const insert: Mutate = (b, random) => {
  const [place, n] = [random.below(b.length + 1), 1 + random.below(random.pick([4, 64]))];
  return { bytes: splice(b, place, 0, random.bytes(n)), what: `${n} bytes inserted at ${place}` };
};
const repeat: Mutate = (b, random) => {
  const [place, n] = [at(b, random), 1 + random.below(random.pick([8, 64, 512]))];
  const block = b.subarray(place, place + n);
  const times = random.pick([1, 1, 2, 100]);
  const bytes = splice(b, place, 0, Buffer.concat(Array.from({ length: times }, () => block)));
  return { bytes, what: `bytes ${place} to ${place + n} repeated ${times} times` };
};
const move: Mutate = (b, random) => {
  const [place, n] = [at(b, random), 1 + random.below(64)];
  const block = Buffer.from(b.subarray(place, place + n));
  const rest = splice(b, place, n);
  const to = random.below(rest.length + 1);
  return { bytes: splice(rest, to, 0, block), what: `bytes ${place} to ${place + n} moved to ${to}` };
};
const crossed: Mutate = (b, random, others) => {
  const other = random.pick(others);
  if (!other?.length) return undefined;
  const [place, from] = [at(b, random), at(other, random)];
  return {
    bytes: Buffer.concat([b.subarray(0, place), other.subarray(from)]),
    what: `continued at byte ${place} with another file from byte ${from} on`,
  };
};
const zeros: Mutate = (b, random) => {
  const [place, n] = [at(b, random), 1 + random.below(random.pick([16, 4096]))];
  const bytes = Buffer.from(b).fill(0, place, Math.min(b.length, place + n));
  return { bytes, what: `bytes ${place} to ${place + n} set to 0` };
};
const whole: Mutate = (b, random) =>
  random.pick([
    () => ({ bytes: Buffer.alloc(0), what: 'emptied' }),
    () => ({ bytes: Buffer.concat([Buffer.from('\ufeff'), b]), what: 'a byte order mark put before it' }),
    () => ({ bytes: Buffer.concat([b, b]), what: 'written twice' }),
    () => ({ bytes: Buffer.concat([b, Buffer.alloc(1 + random.below(64))]), what: 'zeros appended' }),
    () => ({ bytes: random.bytes(random.below(64)), what: 'replaced by random bytes' }),
    () => ({ bytes: Buffer.from(b.toString('utf8'), 'utf16le'), what: 'written as UTF-16' }),
  ])();

const PLAIN = [flip, flip, flip, size, size, cut, remove, insert, repeat, move, crossed, zeros, whole];
/** Mutations that know no format. */
export const mutateBytes: Mutate = (b, random, others) => {
  if (!b.length) return { bytes: random.bytes(1 + random.below(32)), what: 'random bytes in an empty file' };
  for (;;) {
    const mutant = random.pick(PLAIN)(b, random, others);
    if (mutant && !mutant.bytes.equals(b)) return mutant;
  }
};
