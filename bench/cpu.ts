// Compares a GPT training step on the CPU in tsxla, torch, JAX, jax-js and tfjs, interleaved in one run.
// npm run bench:cpu [-- --sizes tiny,small --rounds 5 --only torch,jax --torch PATH --jax PATH]
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { modelOf, SIZES, type Size, writeModel } from './peers/model.js';

const root = path.resolve(import.meta.dirname, '..');
const peers = path.join(root, 'bench/peers');
const venv = path.join(root, '.venv/bin/python');
const { values } = parseArgs({
  options: {
    sizes: { type: 'string', default: 'tiny,small' },
    rounds: { type: 'string', default: '5' },
    /** Of each side in a round, unless its steps are over before. */
    seconds: { type: 'string', default: '6' },
    only: { type: 'string', default: 'torch,jax,jaxjs,jaxjsThreads,tfjs' },
    python: { type: 'string', default: venv },
    torch: { type: 'string' },
    jax: { type: 'string' },
  },
});
/** The largest fraction of the machine that other processes may use during a turn. */
const QUIET = 0.1;

const COMMANDS: Readonly<Record<string, readonly [command: string, ...args: string[]]>> = {
  tsxla: [process.execPath, '--import', 'tsx', '../cpu_step.ts'],
  torch: [values.torch ?? values.python, 'torch_step.py'],
  jax: [values.jax ?? values.python, 'jax_step.py'],
  jaxjs: [process.execPath, 'jaxjs_step.mjs'],
  jaxjsThreads: [process.execPath, '--import', './threads.mjs', 'jaxjs_step.mjs'],
  tfjs: [process.execPath, 'tfjs_step.mjs'],
};
/** As they are shipped; with threads of our making, jax-js is shown, but not what we compare with. */
const TYPESCRIPT = ['jaxjs', 'tfjs'];

interface Turn {
  readonly losses: readonly number[];
  readonly ms: readonly number[];
  /** Processor seconds. */
  readonly cpu: number;
}
interface Side {
  readonly key: string;
  readonly name: string;
  readonly take: (steps: number, seconds: number) => Promise<Turn>;
  readonly end: () => void;
  /** Of the first turn, which warms up. */
  losses: readonly number[];
  readonly turns: (Turn & { readonly others: number })[];
}

/** A process that stays, and works only in its turns. */
async function start(key: string, folder: string): Promise<Side> {
  const [command, ...args] = COMMANDS[key]!;
  const child = spawn(command, [...args, folder], {
    cwd: peers,
    stdio: ['pipe', 'pipe', process.env['DEBUG'] ? 'inherit' : 'ignore'],
  });
  const lines = readline.createInterface(child.stdout)[Symbol.asyncIterator]();
  const answer = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`${key} ended: DEBUG=1 shows what it wrote (${command} ${args.join(' ')})`);
    return JSON.parse(value);
  };
  const take = (steps: number, seconds: number): Promise<Turn> => {
    child.stdin.write(`${JSON.stringify({ steps, seconds })}\n`);
    return answer();
  };
  const { name } = await answer();
  return { key, name, take, end: () => child.stdin.end(), losses: [], turns: [] };
}

/** Processor seconds of the whole machine so far. */
function machineSeconds(): number {
  const [user, nice, system, , , irq, softirq, steal] = readFileSync('/proc/stat', 'utf8')
    .split('\n')[0]!
    .trim()
    .split(/\s+/)
    .slice(1)
    .map(Number) as number[];
  return (user! + nice! + system! + irq! + softirq! + steal!) / 100;
}

/** Runs one turn and measures the load of other processes; repeats it if that was high. */
async function quietTurn(side: Side): Promise<Side['turns'][number]> {
  for (let attempt = 1; ; attempt++) {
    const [before, started] = [machineSeconds(), performance.now()];
    const turn = await side.take(20, Number(values.seconds));
    const seconds = (performance.now() - started) / 1e3;
    const others = Math.max(0, (machineSeconds() - before - turn.cpu) / (seconds * os.availableParallelism()));
    if (others <= QUIET || attempt === 3) return { ...turn, others };
    await wait(2000);
  }
}

const sorted = (xs: readonly number[]) => xs.toSorted((a, b) => a - b);
const median = (xs: readonly number[]) => sorted(xs)[xs.length >> 1]!;
const percent = (x: number) => `${(x * 100).toFixed(0)}%`;

async function measure(size: Size): Promise<void> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'tsxla-bench-'));
  const sides: Side[] = [];
  try {
    writeModel(folder, modelOf(size));
    for (const key of wanted) sides.push(await start(key, folder));
    for (const side of sides) side.losses = (await side.take(3, 600)).losses;
    for (let round = 1; round <= Number(values.rounds); round++) {
      for (const side of sides) {
        const turn = await quietTurn(side);
        side.turns.push(turn);
        const times = `${median(turn.ms).toFixed(1)} ms (best ${Math.min(...turn.ms).toFixed(1)}, ${turn.ms.length} steps)`;
        console.log(`${size}, round ${round}: ${side.name.padEnd(32)} ${times}, others took ${percent(turn.others)}`);
      }
    }
    report(size, sides);
  } finally {
    for (const side of sides) side.end();
    rmSync(folder, { recursive: true });
  }
}

function report(size: Size, sides: readonly Side[]): void {
  const { L, D, H, F, V, B, T } = SIZES[size];
  console.log(
    `\n${size}: ${L} layers, ${D} wide, ${H} heads, hidden ${F}, ${V} words, batch ${B} x ${T}; medians of the rounds`,
  );
  console.log(`${''.padEnd(32)}      ms     best  processor s  others   first losses`);
  const time = (side: Side) => median(side.turns.map((t) => median(t.ms)));
  for (const side of sides) {
    const best = Math.min(...side.turns.flatMap((t) => t.ms));
    const cpu = median(side.turns.map((t) => t.cpu / t.ms.length));
    const others = Math.max(...side.turns.map((t) => t.others));
    const losses = side.losses.map((x) => x.toFixed(4)).join(' ');
    console.log(
      `${side.name.padEnd(32)} ${time(side).toFixed(1).padStart(8)} ${best.toFixed(1).padStart(8)} ${cpu.toFixed(3).padStart(9)} ${percent(others).padStart(8)}${others > QUIET ? '!' : ' '}  ${losses}`,
    );
  }
  const ours = sides.find((s) => s.key === 'tsxla')!;
  for (const side of sides) {
    const differs = side.losses.some((x, i) => Math.abs(x / ours.losses[i]! - 1) > 1e-3);
    if (differs) fail(`the losses of ${side.name} and ours differ: they do not run the same step`);
  }
  const ratio = (of: Side) => time(ours) / time(of);
  const isBusy = sides.some((s) => s.turns.some((t) => t.others > QUIET));
  const check = (what: string, value: number, limit: number) => {
    const verdict = isBusy ? 'not sure' : value <= limit ? 'ok' : 'OVER';
    console.log(`${what}: ${value.toFixed(2)} (at most ${limit})  ${verdict}`);
    if (verdict !== 'ok') process.exitCode = 1;
  };
  const [jax, torch] = ['jax', 'torch'].map((key) => sides.find((s) => s.key === key));
  if (jax) check("our time over JAX's", ratio(jax), 1);
  if (torch) check("our time over torch's", ratio(torch), 1.5);
  const [best] = sides.filter((s) => TYPESCRIPT.includes(s.key)).toSorted((a, b) => time(a) - time(b));
  if (best) check(`our time over that of ${best.name}`, ratio(best), 0.2);
  if (isBusy)
    console.log(
      `! the machine was busy with other work (load ${os.loadavg()[0]!.toFixed(1)}): run it again when it is quiet`,
    );
  console.log();
}
function fail(problem: string): void {
  console.log(problem);
  process.exitCode = 1;
}

const wanted = ['tsxla', ...values.only.split(',').filter((key) => key !== 'tsxla')].filter((key) => {
  const [command] = COMMANDS[key] ?? [];
  if (!command) throw new Error(`--only: there is no ${key}: ${Object.keys(COMMANDS).join(', ')}`);
  if (!existsSync(command))
    console.error(`no ${command}, so without ${key}: bench/README.md says how to make it, or pass --${key} PATH`);
  return existsSync(command);
});
if (wanted.some((key) => /js/.test(key)) && !existsSync(path.join(peers, 'node_modules')))
  execFileSync('npm', ['install', '--no-package-lock', '--ignore-scripts'], { cwd: peers, stdio: 'inherit' });
console.log(`${os.availableParallelism()} cores, load ${os.loadavg()[0]!.toFixed(2)}`);
for (const size of values.sizes.split(',')) {
  if (!(size in SIZES)) throw new Error(`--sizes: there is no ${size}: ${Object.keys(SIZES).join(', ')}`);
  await measure(size as Size);
}
