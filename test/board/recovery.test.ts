// What recovery writes for the board: every step, compiles, samples before and after, how it ended; and the live page of --board.
import path from 'node:path';
import { trainRecoveryLora } from 'tsxla/recovery';
import { expect, test } from 'vitest';
import { Run } from '../../dist/board/run.js';
import { file, linesOf, newFolder, writeStudentAndCache } from '../recovery/support.js';
import { tsxla } from '../support.js';
import { Listener } from './support.js';

test('a run, seen live and afterwards, and one that diverges', async () => {
  const [student, cache, output] = [newFolder(), newFolder(), path.join(newFolder(), 'run')];
  const text = file('train.txt', linesOf(40).join('\n\n'));
  await writeStudentAndCache(student, cache, text, { sequenceLength: 16, topK: 5, negatives: 4, sequences: 24 });
  const base = { model: student, kdCacheDir: cache, output, recoveryR: 2, batchSize: 2, logInterval: 2, saveSteps: 2 };
  const options = { ...base, maxSteps: 4, evalData: [text], evalSamples: 2, samplePrompt: 'the fox' };

  const live: number[] = [];
  let listener: Listener | undefined;
  const stderr = process.stderr.write;
  process.stderr.write = ((line: string) => {
    const [url] = /http:\/\/127\S+/.exec(line) ?? [];
    if (url) listener = new Listener(url);
    return true;
  }) as typeof process.stderr.write;
  try {
    await trainRecoveryLora({ ...options, board: true });
  } finally {
    process.stderr.write = stderr;
  }
  await listener!.until(() => listener!.ended);
  live.push(...listener!.runs.get('run')!.series.get('stepLoss')!.x);
  expect(live).toEqual([1, 2, 3, 4]);
  expect(listener!.runs.get('run')!.info.status).toBe('finished');

  const read = async () => {
    const run = new Run('1', 'run', output);
    await run.poll();
    return run.data;
  };
  const data = await read();
  expect(data.info).toMatchObject({ status: 'finished', steps: 4, settings: { batchSize: 2 } });
  expect(data.info.facts).toMatchObject({ form: 'packed', device: 'cpu' });
  expect(data.samples.map((s) => [s.title, s.prompt])).toEqual(['before', 'after'].map((title) => [title, 'the fox']));
  expect(data.compiles.map((c) => c.name)).toEqual(expect.arrayContaining(['train', 'evaluatePerplexity']));
  const [loss, single] = [data.series.get('loss')!, data.series.get('stepLoss')!];
  expect(loss.x).toEqual([2, 4]);
  for (const [i, mean] of loss.y.entries()) expect(mean).toBeCloseTo((single.y[2 * i]! + single.y[2 * i + 1]!) / 2, 5);
  expect(data.series.get('perplexity')!.x).toEqual([0, 4]);

  const error = await trainRecoveryLora({ ...base, overwrite: true, maxSteps: 4, lr: 1e30, gradClip: 0 }).catch(
    (e) => e,
  );
  expect((await read()).info).toMatchObject({ status: 'failed', error: (error as Error).message });
});

test('a board without a port that it can have', async () => {
  const { status, stderr } = await tsxla(['board', '--port', '70000']);
  expect([status, stderr]).toEqual([1, expect.stringContaining('70000')]);
});
