// Savers that are killed at any moment leave one whole save: the last that was done, or the one that they were at.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type Kind, numbersIn, startSaver } from '../models/saving.js';
import { times } from '../repeat.js';
import { scratch } from '../scratch.js';

const { newFolder } = scratch('saving');
const KILLS = times(5, 15);

test.each<Kind>(['model', 'adapters', 'student'])(
  `%s: killed with -9 ${KILLS} times, each time a whole save is left`,
  async (kind) => {
    const folder = newFolder();
    let next = 1;
    for (let i = 0; i < KILLS; i++) {
      const saver = await startSaver(kind, folder, next);
      await sleep((i * 13) % 60);
      await saver.kill();
      const numbers = await numbersIn[kind](folder);
      expect(new Set(numbers).size, `${numbers}`).toBe(1);
      expect(numbers[0]).toBeGreaterThanOrEqual(saver.done());
      expect(numbers[0]).toBeLessThanOrEqual(saver.done() + 1);
      next = numbers[0]! + 1;
    }
  },
);
