// The fuzzer makes the same files each time, and reads with every reader there is. What it finds: test/slow/fuzz.test.ts.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import * as data from 'tsxla/data';
import * as distill from 'tsxla/distill';
import * as io from 'tsxla/io';
import * as lora from 'tsxla/lora';
import * as models from 'tsxla/models';
import { expect, test } from 'vitest';
import { Random } from '../scripts/fuzz/random.js';
import { mutantOf } from '../scripts/fuzz/target.js';
import { TARGETS } from '../scripts/fuzz/targets.js';

test.each(TARGETS.map((t) => [t.name, t] as const))(
  '%s: the same files each time, others for each case',
  async (_, target) => {
    const bytesOf = async (number: number) => {
      const { files } = mutantOf(target, await target.make(), new Random(`${target.name} 1 ${number}`));
      return [...files].map(([name, bytes]) => `${name} ${bytes.toString('base64')}`).join('\n');
    };
    const [first, again] = [await Promise.all([0, 1, 2, 3].map(bytesOf)), await Promise.all([0, 1, 2, 3].map(bytesOf))];
    expect(again).toEqual(first);
    expect(new Set(first).size).toBeGreaterThan(2);
  },
);

test.each([
  ['--cases', 'abc', 'not a whole number'],
  ['--target', 'nzp', 'Allowed choices are all, safetensors'],
])('%s %s is refused in a sentence', (option, value, said) => {
  const main = fileURLToPath(new URL('../scripts/fuzz/main.ts', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, ['--import', 'tsx', main, option, value], {
    encoding: 'utf8',
  });
  expect([status, stderr.includes('    at ')], stderr).toEqual([1, false]);
  expect(stderr).toContain(said);
});

/** What reads a file, of all that a module exports. */
const READER = /^(read|open|load|locate|import)[A-Z]|Dataset$|File$|^CheckpointManager$|^Tokenizer$/;
/** Those that read no file, or by way of a reader that is there. */
const OTHERS: Readonly<Record<string, string>> = {
  ...{
    ArrayDataset: 'of arrays',
    ConcatDataset: 'of datasets',
    TensorDataset: 'of tensors',
    IterableDataset: 'abstract',
    loadBalancingLoss: 'of tensors',
    resolveFile: 'gives a path',
  },
};
test('every reader that is exported has a target', () => {
  const covered = new Set(TARGETS.flatMap((t) => t.covers));
  const missing = Object.entries({ io, data, models, lora, distill }).flatMap(([name, module]) =>
    Object.keys(module)
      .filter((key) => READER.test(key) && !(key in OTHERS) && !covered.has(`tsxla/${name} ${key}`))
      .map((key) => `tsxla/${name} ${key}`),
  );
  expect(missing).toEqual([]);
  expect(covered.size).toBeGreaterThan(15);
});
