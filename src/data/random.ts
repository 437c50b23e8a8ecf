// Random numbers on the host: each stream is a pure function of its seeds (seed, epoch, ...), so that an order is recomputed
// instead of saved.

/** 32 bits well mixed (the finalizer of MurmurHash3). */
function mix(x: number): number {
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}
const rotate = (x: number, k: number): number => (x << k) | (x >>> (32 - k));

/** Numbers from 0 up to 1, the same for the same seeds (xoshiro128**). */
export function randomFrom(...seeds: readonly number[]): () => number {
  let [a, b, c, d] = [1, 2, 3, 4].map((i) =>
    seeds.reduce((h, seed) => mix(mix(h ^ (seed >>> 0)) + Math.floor(seed / 2 ** 32)), mix(i * 0x9e3779b9)),
  ) as [number, number, number, number];
  const bits = (): number => {
    const result = Math.imul(rotate(Math.imul(b, 5), 7), 9) >>> 0;
    const shifted = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = rotate(d, 11);
    return result;
  };
  return () => ((bits() >>> 5) * 2 ** 26 + (bits() >>> 6)) / 2 ** 53;
}

/** Shuffles in place. */
export function shuffle<A extends { readonly length: number; [i: number]: unknown }>(list: A, random: () => number): A {
  for (let i = list.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [list[i], list[j]] = [list[j], list[i]];
  }
  return list;
}

/** 0 to n - 1 in random order. */
export const permutation = (n: number, ...seeds: readonly number[]): Uint32Array =>
  shuffle(
    Uint32Array.from({ length: n }, (_, i) => i),
    randomFrom(...seeds),
  );
