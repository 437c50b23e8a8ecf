// The same training step, lowered by JAX, run by JAX and by `tsxla hlo run` on the same plugin, in turns.
// npm run bench:hlo [-- --size tiny --rounds 5 --python PATH]
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { findPlugin } from 'tsxla/plugins';

const root = path.resolve(import.meta.dirname, '..');
const { values } = parseArgs({
  options: {
    size: { type: 'string', default: 'tiny' },
    rounds: { type: 'string', default: '5' },
    repeat: { type: 'string', default: '20' },
    python: { type: 'string', default: path.join(root, '.venv/bin/python') },
  },
});
if (!existsSync(values.python)) {
  console.error(`no ${values.python}: bench/README.md says how to make it, or pass --python`);
  process.exit(1);
}
const run = (command: string, ...args: string[]) =>
  execFileSync(command, args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });

const step = path.join(root, '.venv', `step-${values.size}`);
if (!existsSync(step)) {
  mkdirSync(step, { recursive: true });
  run(values.python, 'scripts/golden/jax_step.py', step, '--size', values.size);
}
const plugin = (await findPlugin('cpu')).path;
const tsxla = (...args: string[]) =>
  JSON.parse(run(process.execPath, 'dist/cli/main.js', 'hlo', 'run', ...args, '--device', 'cpu', '--json'));
const jax = (...args: string[]) =>
  JSON.parse(run(values.python, 'bench/jax_hlo.py', step, '--repeat', values.repeat, ...args));

interface Timing {
  readonly median: number;
  readonly best: number;
  readonly dispatch: number;
}
const sides: Record<string, () => Timing> = {
  tsxla: () => {
    const { runs } = tsxla(
      `${step}/gpt-step.mlir`,
      '--inputs',
      `${step}/gpt-step.inputs.safetensors`,
      '--repeat',
      values.repeat,
    );
    const small = tsxla('test/golden/mlir/dispatch.mlir', '--random-inputs', '--repeat', '2000');
    return { median: runs.median * 1e3, best: runs.min * 1e3, dispatch: small.runs.dispatch * 1e6 };
  },
  'JAX, same plugin': () => {
    const r = jax('--plugin', plugin, '--option', 'cpu_device_count=1');
    return { median: r.ms_median, best: r.ms_min, dispatch: r.dispatch_us };
  },
  'JAX, its own client': () => {
    const r = jax();
    return { median: r.ms_median, best: r.ms_min, dispatch: r.dispatch_us };
  },
};

const seen = new Map<string, Timing[]>(Object.keys(sides).map((name) => [name, []]));
for (let round = 0; round < Number(values.rounds); round++) {
  for (const [name, measure] of Object.entries(sides)) {
    const t = measure();
    seen.get(name)!.push(t);
    console.log(
      `round ${round + 1}  ${name.padEnd(20)} ${t.median.toFixed(1)} ms (best ${t.best.toFixed(1)}), dispatch ${t.dispatch.toFixed(0)} us`,
    );
  }
}
const middle = (xs: number[]) => xs.sort((a, b) => a - b)[xs.length >> 1]!;
const all = (name: string, key: keyof Timing) => seen.get(name)!.map((t) => t[key]);
console.log('\nmedian of the rounds        step      best     dispatch of 120 inputs, 120 outputs');
for (const name of seen.keys()) {
  const [median, best, dispatch] = [
    middle(all(name, 'median')),
    Math.min(...all(name, 'best')),
    middle(all(name, 'dispatch')),
  ];
  console.log(
    `${name.padEnd(22)} ${median.toFixed(1).padStart(7)} ms ${best.toFixed(1).padStart(7)} ms ${dispatch.toFixed(0).padStart(7)} us`,
  );
}
