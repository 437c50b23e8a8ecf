// The host's time for a call of a `compile`d function, over the bare executable's and beside JAX's; and for a large `step`.
// npm run bench:overhead [-- --rounds 9 --calls 100 --python PATH]
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import { parseArgs } from 'node:util';
import { findPlugin } from 'tsxla/plugins';
import { type Case, callBudget, makeCase, makeStep, STEP_BUDGET, timesOf } from './dispatch.js';

const root = path.resolve(import.meta.dirname, '..');
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '9' },
    calls: { type: 'string', default: '100' },
    python: { type: 'string', default: path.join(root, '.venv/bin/python') },
  },
});
const [rounds, calls] = [Number(values.rounds), Number(values.calls)];
process.env['PJRT_DEVICE'] = 'CPU';

/** JAX on the same plugin, in a process that waits for its turns: bench/jax_dispatch.py. */
async function startJax(python: string) {
  const plugin = (await findPlugin('cpu')).path;
  const args = ['bench/jax_dispatch.py', '--plugin', plugin, '--option', 'cpu_device_count=1'];
  const { stdin, stdout } = spawn(python, args, { cwd: root, stdio: ['pipe', 'pipe', 'inherit'] });
  const answers = readline.createInterface(stdout)[Symbol.asyncIterator]();
  const timesOf = async (size: number, calls: number): Promise<number[]> => {
    stdin.write(`${size} ${calls}\n`);
    return JSON.parse((await answers.next()).value);
  };
  return { timesOf, end: () => stdin.end() };
}
const hasJax = existsSync(values.python);
if (!hasJax)
  console.error(`no ${values.python}, so without JAX: bench/README.md says how to make it, or pass --python`);
const jax = hasJax ? await startJax(values.python) : undefined;

const median = (xs: readonly number[]): number => xs.toSorted((a, b) => a - b)[xs.length >> 1]!;

interface Row extends Case {
  readonly name: string;
  readonly size: number;
  /** Of each round: the medians of its calls. */
  readonly seen: { bare: number; compiled: number; jax: number }[];
}
const sizes = { '1 input, 1 output': 0, '117 tensors changed': 117, '400 tensors changed': 400 };
const rows: Row[] = [];
for (const [name, size] of Object.entries(sizes)) rows.push({ name, size, ...(await makeCase(size)), seen: [] });
const bigStep = makeStep(5000);
const steps: number[] = [];

for (let round = -1; round < rounds; round++) {
  for (const { size, bare, compiled, seen } of rows) {
    const ours = await timesOf({ bare, compiled }, calls);
    const theirs = (await jax?.timesOf(size, calls)) ?? [Number.NaN];
    // The first round warms up.
    if (round >= 0) seen.push({ bare: median(ours.bare), compiled: median(ours.compiled), jax: median(theirs) });
  }
  const { bigStep: times } = await timesOf({ bigStep }, 10);
  if (round >= 0) steps.push(Math.min(...times)); // it takes long enough to be interrupted by others
}
jax?.end();

const us = (ms: number): string => (Number.isNaN(ms) ? '-' : `${(ms * 1000).toFixed(0)} us`).padStart(9);
const verdict = (ms: number, budget: number): string => {
  if (ms > budget) process.exitCode = 1;
  return ms > budget ? 'OVER' : 'ok';
};
console.log(`\nmedians of ${rounds} rounds      bare  compiled      over    budget                 JAX, same plugin`);
for (const { name, buffers, seen } of rows) {
  const of = (key: keyof (typeof seen)[number]) => us(median(seen.map((s) => s[key])));
  const over = median(seen.map((s) => s.compiled - s.bare));
  const budget = callBudget(buffers);
  console.log(
    `${name.padEnd(20)} ${of('bare')} ${of('compiled')} ${us(over)} ${us(budget)}  ${verdict(over, budget).padEnd(4)} ${of('jax')}`,
  );
}
console.log(`
a step of 5,000 ops (best of 10) ${median(steps).toFixed(1)} ms, budget ${STEP_BUDGET} ms  ${verdict(median(steps), STEP_BUDGET)}`);
