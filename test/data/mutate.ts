// Files that are almost right, for the readers' tests: each is a pure function of its number.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as tx from 'tsxla';
import { expect } from 'vitest';

/** Numbers from 0 to n - 1, the same for the same seed. */
function dice(seed: number): (n: number) => number {
  const bytes = createHash('sha256').update(String(seed)).digest();
  let at = 0;
  return (n) => bytes.readUInt16LE((at += 2) % 32) % n;
}

const INTERESTING = [0, 1, 0x7f, 0x80, 0xff, 0x0a, 0x7b, 0x22];
/** One to four changes: bytes set, bits flipped, parts cut out, doubled or cut off. */
export function mutate(bytes: Uint8Array, seed: number): Uint8Array {
  const roll = dice(seed);
  let out = Uint8Array.from(bytes);
  for (let change = 1 + roll(4); change > 0 && out.length; change--) {
    const at = roll(3) ? roll(out.length) : Math.max(0, out.length - 1 - roll(900)); // the footer is where the sizes are
    const end = Math.min(out.length, at + 1 + roll(16));
    const kind = roll(7);
    if (kind < 2) out[at] = INTERESTING[roll(INTERESTING.length)]!;
    else if (kind < 4) out[at]! ^= 1 << roll(8);
    else if (kind === 4) out = Uint8Array.from([...out.subarray(0, at), ...out.subarray(end)]);
    else if (kind === 5) out = Uint8Array.from([...out.subarray(0, end), ...out.subarray(at)]);
    else out = out.slice(0, at);
  }
  return out;
}

/** Reads so many mutated files; each is read, or refused with a DataError, in bounded time and memory. */
export async function readsOrRefuses(
  n: number,
  originals: readonly { name: string; bytes: Uint8Array }[],
  open: (file: string) => AsyncIterable<unknown>,
): Promise<{ read: number; refused: number }> {
  const folder = mkdtempSync(path.join(tmpdir(), 'tsxla-mutated-'));
  let [read, refused] = [0, 0];
  try {
    for (let seed = 0; seed < n; seed++) {
      const { name, bytes } = originals[seed % originals.length]!;
      const file = path.join(folder, name);
      writeFileSync(file, mutate(bytes, seed));
      const start = performance.now();
      try {
        let items = 0;
        for await (const _ of open(file))
          if (++items > 100_000) throw new Error(`mutation ${seed} of ${name} has no end`);
        read++;
      } catch (e) {
        if (!(e instanceof tx.DataError)) throw new Error(`mutation ${seed} of ${name}: ${(e as Error)?.stack}`);
        expect(e.message).toContain(name);
        refused++;
      }
      const took = performance.now() - start;
      if (took > 30_000) throw new Error(`mutation ${seed} of ${name} took ${took} ms`);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  return { read, refused };
}
