// Readers that do what the fuzzer is to find, one for each kind of failure.
import fs from 'node:fs';
import path from 'node:path';
import { FileError } from 'tsxla';
import { mutateBytes } from '../scripts/fuzz/bytes.js';
import type { Files, Target } from '../scripts/fuzz/target.js';

const FILE = 'letters.txt';
const SEED = Buffer.from('abcdefgh'.repeat(8));
const isDamaged = (files: Files): boolean => !files.get(FILE)!.equals(SEED);

const target = (name: string, read: (bytes: Buffer, file: string) => unknown): Target => ({
  name,
  about: name,
  covers: [],
  make: () => [new Map([[FILE, SEED]])],
  mutate: () => mutateBytes,
  async read(folder, files) {
    const file = path.join(folder, FILE);
    return isDamaged(files) ? read(fs.readFileSync(file), file) : { letters: 64 };
  },
  legal: ({ value }) => ((value as { letters: number }).letters < 64 ? 'letters are lost' : undefined),
});

const held: Buffer[] = [];
export const TARGETS: readonly Target[] = [
  target('refused', (_, file) => {
    throw new FileError(`${file} is damaged`);
  }),
  target('changed', (bytes) => ({ letters: 64, bytes })),
  target('crash', () => {
    setImmediate(() => {
      throw new RangeError('in a callback');
    });
    return new Promise((resolve) => setTimeout(resolve, 1000));
  }),
  target('hang', () => {
    for (;;);
  }),
  target('memory', () => {
    for (let i = 0; i < 40; i++) held.push(Buffer.alloc(2 ** 24, 1));
    return { letters: 64 };
  }),
  target('foreign error', () => (undefined as unknown as string).length),
  target('nameless error', () => {
    throw new FileError('it is damaged');
  }),
  target('silent change', () => ({ letters: 1 })),
];
