// Recovery training on eight devices, in every way of sharing the work: the losses of one device.
process.env.CPU_NUM_DEVICES = '8';
process.env.TSXLA_LOG = 'quiet';
process.env.XLA_FLAGS = XLA_FLAGS; // many programs that run a few times

import { type RecoveryEvent, type RecoveryOptions, trainRecoveryLora } from 'tsxla/recovery';
import { beforeAll, expect, test, vi } from 'vitest';
import { settle } from '../../dist/recovery/options.js';
import { recover } from '../../dist/recovery/train.js';
import { ALONE } from '../../dist/recovery/workers.js';
import { ShardedArray } from '../../dist/runtime/sharded.js';
import { XLA_FLAGS } from '../../vitest.config.js';
import { file, linesOf, newFolder, writeStudentAndCache } from '../recovery/support.js';

const lines = linesOf(60);
const text = file('train.txt', lines.join('\n\n'));
const [student, cache] = [newFolder(), newFolder()];
let alone: number[];

async function losses(
  options: Partial<RecoveryOptions>,
  stopAt?: number,
  train: (...args: Parameters<typeof trainRecoveryLora>) => Promise<unknown> = trainRecoveryLora,
): Promise<number[]> {
  const found: number[] = [];
  await train(
    {
      ...{ model: student, kdCacheDir: cache, recoveryR: 2, lr: 1e-2, batchSize: 8, accumulationSteps: 2 },
      ...{
        maxSteps: 4,
        logInterval: 1,
        shuffle: false,
        output: newFolder(),
        evalData: [text],
        evalSamples: 8,
        ...options,
      },
    },
    (e: RecoveryEvent) => {
      if (e.kind === 'progress' && e.step === stopAt) process.emit('SIGTERM', 'SIGTERM');
      if (e.kind === 'log') found.push(e.loss);
      if (e.kind === 'eval') found.push(e.perplexity);
    },
  );
  return found;
}

beforeAll(async () => {
  await writeStudentAndCache(student, cache, text, { sequenceLength: 16, topK: 5, negatives: 4, sequences: 32 });
  alone = await losses({});
}, 120_000);

test.each(['data=8', 'fsdp=8', 'data=2,fsdp=2,model=2'])('--mesh %s', async (mesh) => {
  const found = await losses({ mesh });
  expect(found.length).toBe(alone.length);
  found.forEach((x, i) => void expect(Math.abs(x - alone[i]!) / alone[i]!).toBeLessThan(1e-4));
});

test.each([
  [undefined, 'data=8'],
  ['fsdp=8', 'fsdp=8'],
  ['data=4,model=2', 'data=4, model=2'],
])(
  'workers that XLA joins, --mesh %s: all devices, and nothing is read of which others have a part',
  async (mesh, made) => {
    const whole = ShardedArray.prototype.toHost;
    const read = vi.spyOn(ShardedArray.prototype, 'toHost').mockImplementation(function (this: ShardedArray) {
      if (!this.sharding.isReplicated) throw new Error(`${this.aval} is ${this.sharding}`);
      return whole.call(this);
    });
    let used = '';
    const share = async (all: unknown) => {
      used = String(all);
      return { index: 0, count: 1 };
    };
    try {
      const found = await losses(mesh ? { mesh } : {}, undefined, (options, tell) =>
        recover(settle(options), tell!, { ...ALONE, count: 2, share }),
      );
      expect(used).toBe(made);
      expect(found.length).toBe(alone.length);
      found.forEach((x, i) => void expect(Math.abs(x - alone[i]!) / alone[i]!).toBeLessThan(1e-4));
    } finally {
      read.mockRestore();
    }
  },
);

test('stopped on one mesh and resumed on another, with an anchor: the losses of a run that was never stopped', async () => {
  const options = { anchorKlWeight: 0.3, anchorSamples: 3, trainNorms: true, shuffle: true, evalSteps: 2 };
  const [whole, output] = [await losses(options), newFolder()];
  const first = await losses({ ...options, output, mesh: 'fsdp=8' }, 3);
  const found = [...first, ...(await losses({ ...options, output, mesh: 'data=4,model=2', resume: true }))];
  expect(found.length).toBe(whole.length);
  found.forEach((x, i) => void expect(Math.abs(x - whole[i]!) / whole[i]!).toBeLessThan(1e-4));
});

test('a batch that devices cannot share, and a mesh that does not multiply out, are refused with the numbers', async () => {
  await expect(losses({ mesh: 'data=8', batchSize: 4 })).rejects.toThrow(
    '--batch-size is 4, which the 8 groups of devices in the mesh data=8 cannot split evenly: use 8',
  );
  await expect(losses({ mesh: 'data=2,model=2' })).rejects.toThrow(
    '--mesh data=2,model=2: data 2 x model 2 = 4, and there are 8 devices',
  );
  await expect(losses({ mesh: 'sequence=8' })).rejects.toThrow(
    '--mesh sequence=8: unknown axis sequence: use data, fsdp, model',
  );
});
