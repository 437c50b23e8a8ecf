// What a terminal shows during long work: a line that stays below the messages.
import { beforeEach, expect, test, vi } from 'vitest';
import { timeLeft } from '../dist/base/format.js';
import { notice, say, stand } from '../dist/base/log.js';
import { progress } from '../dist/cli/progress.js';

const STEERING = new RegExp(['(\\n', '\\r', '\x1b\\[1A', '\x1b\\[K)'].join('|'));
let screen: string[];
const terminal = (columns: number) => Object.assign(process.stderr, { isTTY: true, columns });
beforeEach(() => {
  screen = [''];
  vi.stubEnv('TSXLA_LOG', '');
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    for (const part of String(text).split(STEERING)) {
      if (part === '\n') screen.push('');
      else if (part === '\x1b[1A') screen.pop();
      else if (part === '\x1b[K') screen[screen.length - 1] = '';
      else if (part !== '\r') screen[screen.length - 1] += part;
    }
    return true;
  });
  return () => {
    stand('');
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  };
});

test('messages stand above a bar, all of them, and it goes when it is done', () => {
  terminal(80);
  const tell = progress('training', String, () => ' steps');
  tell(1, 4);
  notice('perplexity 20.00 after 1 step');
  tell(2, 4);
  say('[Step 3] Starting...\n[Step 3] Done\n');
  tell(3, 4);
  const said = ['tsxla: perplexity 20.00 after 1 step', '[Step 3] Starting...', '[Step 3] Done'];
  expect(screen).toEqual([...said, `training ${'█'.repeat(23)}${'░'.repeat(7)} 3 of 4 steps`, '']);
  tell(4, 4);
  expect(screen).toEqual([...said, '']);
});

test.each([80, 60, 30])('a bar fits into %i columns: its picture is shorter, then left out', (columns) => {
  terminal(columns);
  progress('training', String, () => ', 12 min left, loss 0.4512, lr 8.0e-5, 121000 tokens/s, 6.10 GiB')(3, 1200);
  expect(screen[0]!.length).toBeLessThan(columns);
  expect(screen[0]!).toMatch(/^training .*3 of 1200/);
});

test('time left is told as people do', () => {
  expect([0.04, 59.2, 100, 3540, 7500].map(timeLeft)).toEqual(['1 s', '60 s', '2 min', '59 min', '2 h 5 min']);
});
