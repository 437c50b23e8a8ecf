// Measures start-up time: `import 'tsxla'` and `tsxla --help` against a bare `node -e 0`, interleaved.
// npm run bench:start [-- RUNS]
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const RUNS = Number(process.argv[2] ?? 25);
const CASES = [
  { name: 'node -e 0', args: ['-e', '0'], most: 1 },
  { name: "import 'tsxla'", args: ['--input-type=module', '-e', "import 'tsxla'"], most: 2.5 },
  { name: 'tsxla --help', args: ['dist/cli/main.js', '--help'], most: 3 },
];

/** Seconds by the clock, and of all threads' work: the latter hardly changes while others use the machine. */
function run(args: readonly string[]): { readonly clock: number; readonly cpu: number } {
  const script = 'TIMEFORMAT="%R %U %S"; time "$@" > /dev/null';
  const { stderr, status } = spawnSync('bash', ['-c', script, 'bash', process.execPath, ...args], {
    cwd: root,
    encoding: 'utf8',
    env: { ...process.env, LC_ALL: 'C' },
  });
  const [clock, user, system] = stderr.trim().split('\n').at(-1)!.split(' ').map(Number);
  if (status !== 0 || clock === undefined) throw new Error(`node ${args.join(' ')} failed:\n${stderr}`);
  return { clock, cpu: user! + system! };
}

const times = CASES.map(() => [] as ReturnType<typeof run>[]);
for (let i = 0; i <= RUNS; i++)
  CASES.forEach(({ args }, k) => {
    const time = run(args);
    if (i) times[k]!.push(time); // the first reads files from the disk
  });

const median = (k: number, of: 'clock' | 'cpu'): number =>
  times[k]!.map((t) => t[of]).sort((a, b) => a - b)[Math.floor(RUNS / 2)]!;
console.log(`medians of ${RUNS} runs      clock            CPU time         at most`);
CASES.forEach(({ name, most }, k) => {
  const column = (of: 'clock' | 'cpu') =>
    `${(1e3 * median(k, of)).toFixed(0).padStart(4)} ms ${(median(k, of) / median(0, of)).toFixed(2).padStart(5)} x`;
  console.log(`${name.padEnd(20)}  ${column('clock')}    ${column('cpu')}    ${k ? `${most} x` : ''}`);
});
