// npm run fuzz -- --target npz --cases 10000 --seed 1: reads mutated files with every reader of the library.
import { Command, InvalidArgumentError, Option } from 'commander';
import { type Failure, fuzz } from './run.js';
import { TARGETS } from './targets.js';

const whole = (text: string): number => {
  const n = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(n)) throw new InvalidArgumentError('not a whole number');
  return n;
};
const program = new Command('fuzz')
  .description('read mutated files: each is read right, or refused by a TsxlaError that names it')
  .addOption(
    new Option('--target <name>', 'what is read').choices(['all', ...TARGETS.map((t) => t.name)]).default('all'),
  )
  .option('--cases <n>', 'how many files of each target', whole, 1000)
  .option('--seed <n>', 'another seed gives other files', whole, 1)
  .option('--case <n>', 'this case alone', whole)
  .option('--keep <dir>', 'where files are kept that make a reader fail (default: a new folder for temporary files)')
  .option('--jobs <n>', 'processes at a time (default: 2)', whole)
  .option('--list', 'print the targets')
  .parse();
const { target, cases, seed, case: only, keep, jobs, list } = program.opts();

/** Without control characters: files are quoted. */
const print = (text: string): void => console.log(text.replace(/[^\P{C}\n]/gu, '?'));
const printFailure = ({ target, seed, case: number, why, what, message, kept }: Failure): void =>
  print(
    [
      `FAILURE ${target}: ${why}`,
      `  again:    npm run fuzz -- --target ${target} --seed ${seed} --case ${number}`,
      `  mutation: ${what.slice(0, 500)}`,
      `  files:    ${kept}`,
      ...message
        .split('\n')
        .slice(0, 12)
        .map((line) => `  | ${line.slice(0, 400)}`),
    ].join('\n'),
  );

if (list) for (const { name, about } of TARGETS) console.log(`${name.padEnd(18)} ${about}`);
else {
  for (const { name } of TARGETS.filter((t) => target === 'all' || t.name === target)) {
    const range = only === undefined ? { cases } : { cases: 1, first: only, jobs: 1 };
    const r = await fuzz({ target: name, seed, keep, jobs, ...range, onFailure: printFailure });
    const failed = r.failures.reduce((n, f) => n + f.cases.length, 0);
    for (const message of r.refusedSeeds) console.log(`NOTE ${name}: a valid file is refused: ${message}`);
    for (const f of r.failures.filter((f) => f.cases.length > 1))
      console.log(
        `${name}: case ${f.case} (${f.why}) and ${f.cases.length - 1} more alike: ${f.cases.slice(1, 9).join(', ')}`,
      );
    console.log(
      `${name}: ${r.cases} cases, ${r.same} same, ${r.refused} refused, ${r.changed} changed, ${failed} failures` +
        `${failed ? ` of ${r.failures.length} kinds` : ''}, ${r.seconds.toFixed(1)} s`,
    );
    if (failed) process.exitCode = 1;
  }
}
