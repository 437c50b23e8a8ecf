// No flag of train-recovery-lora is ignored in silence: where it would do nothing, that is said.
import { expect, test } from 'vitest';
import { FLAGS, type Flag, flagOf, settle } from '../../dist/recovery/options.js';
import { tsxla } from '../support.js';

const another = ({ kind, default: value }: Flag): unknown =>
  typeof kind === 'object'
    ? kind.find((choice) => choice !== value)
    : { text: 'other', texts: ['a.txt'], number: 0.5, whole: 7, switch: !value }[kind];
const dependent = Object.entries(FLAGS as Readonly<Record<string, Flag>>).filter(([, flag]) => flag.needs);
/** One that lacks what the flag needs, and says no more than a run must. */
const without = (flag: Flag) =>
  flag.needs!.includes('kdCacheDir') ? { trainData: ['a.txt'] } : { kdCacheDir: 'cache' };

test.each(dependent)('%s does nothing alone, and that is said', (name, flag) => {
  const needed = flag.needs!.map(flagOf).join(' or ');
  expect(() => settle({ model: 'student', ...without(flag), [name]: another(flag) })).toThrow(
    `${flagOf(name)} does nothing without ${needed}: leave it out`,
  );
  expect(() => settle({ model: 'student', ...without(flag), [name]: flag.default })).not.toThrow();
});

// biome-ignore format: a table
test.each([
  [{ constantLr: true, minLrRatio: 0.5 }, '--constant-lr and --min-lr-ratio are both given: pass one of them'],
  [{ mlpOnly: true, includeKProj: true }, '--mlp-only and --include-k-proj are both given: pass one of them'],
  [{ freezeAll: true, trainNorms: true }, '--freeze-all trains only the adapters: leave out --train-norms, --train-embeddings and --train-lm-head'],
])('%o cannot go together', (options, message) => {
  expect(() => settle({ model: 'student', kdCacheDir: 'cache', ...options })).toThrow(message);
});

test.each([
  [
    ['--grad-clip', '1', '--clip-grad-norm', '2'],
    /'--clip-grad-norm <x>' cannot be used with option '--grad-clip <x>'/,
  ],
  [['--compute', 'dense', '--no-full-logits'], /'--no-full-logits' cannot be used with option '--compute <name>'/],
])('%j: two names of one thing', async (args, message) => {
  const { status, stderr } = await tsxla(['train-recovery-lora', '--model', 'student', ...args]);
  expect(status).toBe(1);
  expect(stderr).toMatch(message);
});

test.each([
  ['', "--output is '': it must not be empty"],
  ['package.json/sub', '--output package.json/sub: '],
  ['/proc/x/y', '--output /proc/x/y: the folder cannot be created: '],
])('--output %j is refused in one sentence', async (output, sentence) => {
  const { status, stderr } = await tsxla([
    ...['train-recovery-lora', '--model', 'student', '--kd-cache-dir', 'cache', '--output', output],
  ]);
  expect([status, stderr.trim().split('\n')]).toEqual([1, [expect.stringContaining(`error: ${sentence}`)]]);
});
