// The programs of examples/ports, and prefill and decoding of Qwen3, beside torch: the same weights and data, in turns, losses
// compared. npm run bench:zoo [-- --only resnet18,ppo --sizes small,large --rounds 7 --seconds 2 --compile --device cuda
// --python PATH --page docs/zoo.md]
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { parseArgs } from 'node:util';
import { type Bar, bars } from 'tsxla/board';
import { AutoModelForCausalLM } from 'tsxla/models';
import { decode, SIZES, type Turn } from './decode-case.js';
import { portNames } from './ports.js';

const root = path.resolve(import.meta.dirname, '..');
const venv = path.join(root, '.venv/bin/python');
const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    sizes: { type: 'string', default: 'small,large' },
    rounds: { type: 'string', default: '7' },
    /** Of each side in a round. */
    seconds: { type: 'string', default: '2' },
    /** Also torch.compile, where it works. */
    compile: { type: 'boolean', default: false },
    device: { type: 'string', default: 'cpu' },
    python: { type: 'string', default: venv },
    /** Where the page goes; its picture lies in img/ beside it. */
    page: { type: 'string' },
  },
});

const TITLES: Readonly<Record<string, string>> = {
  ...{
    resnet18: 'ResNet-18',
    seq2seq: 'seq2seq transformer',
    'lstm-lm': 'LSTM language model',
    ppo: 'PPO, an iteration',
  },
  ...{ ddpm: 'DDPM', gat: 'GAT', 'bert-mlm': 'BERT MLM', 'wgan-gp': 'WGAN-GP, five batches', qwen3: 'Qwen3' },
};
/** Steps that differ from one another are measured together. */
const TOGETHER: Readonly<Record<string, number>> = { 'wgan-gp': 5 };
/** Prompts of 128 tokens. */
const PROMPTS = [1, 4];
const [LENGTH, TOKENS] = [128, 16];
/** Losses of f32 differ by its rounding, which grows from step to step: those before and after one update are compared. */
const TOLERANCE = 1e-3;

const fail = (message: string): never => {
  console.error(`bench:zoo: ${message}`);
  process.exit(1);
};
const list = (text: string, known: readonly string[], option: string): string[] => {
  const wanted = text.split(',').filter(Boolean);
  const strange = wanted.find((name) => !known.includes(name));
  if (strange !== undefined) fail(`${option}: there is no ${strange}: use ${known.join(', ')}`);
  return wanted;
};
const number = (text: string, option: string): number =>
  Number(text) > 0 ? Number(text) : fail(`${option} is ${text}: give a number above 0`);

const names = [...portNames(), 'qwen3'];
const only = list(values.only ?? names.join(','), names, '--only');
const sizes = list(values.sizes, ['small', 'large'], '--sizes');
const [device] = list(values.device, ['cpu', 'cuda'], '--device') as ['cpu' | 'cuda'];
const [rounds, seconds] = [number(values.rounds, '--rounds'), number(values.seconds, '--seconds')];
if (!existsSync(values.python))
  fail(
    `there is no ${values.python}: python3 -m venv .venv && .venv/bin/pip install torch==2.13.0 transformers numpy, or pass --python PATH`,
  );
process.env['PJRT_DEVICE'] = device.toUpperCase();

interface Answer {
  readonly ms: readonly number[];
  readonly cpu: number;
}
/** A process that stays, and works only in its turns. */
interface Side<T> {
  readonly about: { readonly name: string; readonly losses: readonly number[] };
  readonly take: (turn: object) => Promise<T>;
  readonly end: () => void;
}
async function start<T>(command: string, args: readonly string[]): Promise<Side<T>> {
  const child = spawn(command, args, { cwd: root, stdio: ['pipe', 'pipe', 'pipe'] });
  let said = '';
  child.stderr.on('data', (data) => (said = (said + data).slice(-2000)));
  const lines = readline.createInterface(child.stdout)[Symbol.asyncIterator]();
  const answer = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`${command} ${args.join(' ')} ended:\n${said}`);
    return JSON.parse(value);
  };
  const take = (turn: object) => {
    child.stdin.write(`${JSON.stringify(turn)}\n`);
    return answer();
  };
  return { about: await answer(), take, end: () => child.stdin.end() };
}

const sorted = (xs: readonly number[]) => xs.toSorted((a, b) => a - b);
const median = (xs: readonly number[]) => sorted(xs)[xs.length >> 1]!;

/** Milliseconds of ours and of a peer in each round, and how far losses are apart. */
interface Row {
  readonly name: string;
  readonly size: string;
  readonly ms: Readonly<Record<string, readonly number[]>>;
  /** Processor milliseconds of a step. */
  readonly cpu: Readonly<Record<string, readonly number[]>>;
  readonly difference: string;
}
const rows: Row[] = [];
/** Of rounds that both measured: a decoding step is a difference of two times, which other work may turn below 0. */
const ratios = (row: Row, peer = 'eager', of: 'ms' | 'cpu' = 'ms'): number[] =>
  (row[of]['ours'] ?? [])
    .map((x, i) => x / (row[of][peer]?.[i] ?? 0))
    .filter((ratio) => ratio > 0 && Number.isFinite(ratio));
const middle = (xs: readonly number[]) => (xs.length ? median(xs).toFixed(2) : '-');
const spread = (xs: readonly number[]) =>
  xs.length ? `${middle(xs)} (${Math.min(...xs).toFixed(2)} to ${Math.max(...xs).toFixed(2)})` : '-';

async function measurePort(name: string, size: string): Promise<void> {
  const steps = name === 'ppo' ? '1' : '2';
  const together = TOGETHER[name] ?? 1;
  const sides: Record<string, Side<Answer>> = {};
  try {
    sides['ours'] = await start(process.execPath, ['--import', 'tsx', 'bench/zoo_step.ts', name, size, steps]);
    for (const mode of values.compile ? ['eager', 'compile'] : ['eager']) {
      const side = start<Answer>(values.python, ['bench/peers/zoo_torch.py', name, size, steps, device, mode]);
      if (mode === 'eager') sides[mode] = await side;
      else {
        const compiled = await side.catch((error: Error) => {
          console.log(`${name}, ${size}: torch.compile fails: ${error.message.trim().split('\n').at(-1)}`);
        });
        if (compiled) sides[mode] = compiled;
      }
    }
    const ours = sides['ours']!.about.losses;
    let difference = 0;
    for (const { about } of Object.values(sides)) {
      const apart = about.losses.map((x, i) => Math.abs(x - ours[i]!) / Math.max(1e-6, Math.abs(x)));
      difference = Math.max(difference, ...apart);
      if (about.losses.length !== ours.length || !(difference <= TOLERANCE))
        fail(`${name}, ${size}: losses differ: ${ours.join(' ')} here, ${about.losses.join(' ')} with ${about.name}`);
    }
    const row: Row = { name, size, ms: {}, cpu: {}, difference: difference.toExponential(0) };
    const [ms, cpu] = [row.ms, row.cpu] as Record<string, number[]>[] as [
      Record<string, number[]>,
      Record<string, number[]>,
    ];
    for (let round = -1; round < rounds; round++) {
      for (const [key, side] of Object.entries(sides)) {
        const turn = await side.take({ steps: 1e9, seconds });
        if (round < 0) continue; // compiles and warms up
        const groups: number[] = [];
        for (let i = 0; i + together <= turn.ms.length; i += together)
          groups.push(turn.ms.slice(i, i + together).reduce((a, b) => a + b));
        (ms[key] ??= []).push(median(groups.length ? groups : turn.ms));
        (cpu[key] ??= []).push((turn.cpu / turn.ms.length) * 1e3 * together);
      }
    }
    add(row);
  } finally {
    for (const side of Object.values(sides)) side.end();
  }
}

async function measureQwen3(): Promise<void> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'tsxla-zoo-'));
  const args = ['bench/peers/decode_torch.py', JSON.stringify(SIZES), '--folder', folder, '--device', device];
  let side: Side<Turn> | undefined;
  try {
    side = await start<Turn>(values.python, args);
    const model = (await AutoModelForCausalLM.fromPretrained(folder)).eval();
    for (const prompts of PROMPTS) {
      const turn = { prompts, length: LENGTH, tokens: TOKENS };
      const turns: Record<'ours' | 'eager', Turn[]> = { ours: [], eager: [] };
      for (let round = -1; round < rounds; round++) {
        const [ours, theirs] = [await decode(model, prompts, LENGTH, TOKENS), await side.take(turn)];
        if (round < 0) continue;
        turns.ours.push(ours);
        turns.eager.push(theirs);
      }
      const same = turns.ours[0]!.ids.flat().filter((id, i) => id === turns.eager[0]!.ids.flat()[i]).length;
      const difference = `${same} of ${prompts * (1 + TOKENS)} tokens equal`;
      if (same < 0.9 * prompts * (1 + TOKENS)) fail(`qwen3: ${difference}: the sides do not compute the same`);
      const of = (get: (turn: Turn) => number) => ({ ours: turns.ours.map(get), eager: turns.eager.map(get) });
      const what = prompts === 1 ? '1 prompt' : `${prompts} prompts`;
      add({ name: `Qwen3 prefill, ${what}`, size: 'large', ms: of((t) => t.prompt), cpu: {}, difference });
      add({ name: `Qwen3 decoding, ${what}`, size: 'large', ms: of((t) => t.step), cpu: of((t) => t.cpu), difference });
    }
  } finally {
    side?.end();
    rmSync(folder, { recursive: true, force: true });
  }
}

const time = (ms: number): string => (ms < 10 ? ms.toFixed(2) : ms < 100 ? ms.toFixed(1) : ms.toFixed(0));
const titleOf = ({ name, size }: Row): string => (TITLES[name] ? `${TITLES[name]}, ${size}` : name);
function cellsOf(row: Row): string[] {
  const { ours, eager } = row.ms;
  return [
    ...[titleOf(row), time(median(ours!)), time(median(eager!)), spread(ratios(row))],
    middle(ratios(row, 'eager', 'cpu')),
    ...(values.compile ? [middle(ratios(row, 'compile'))] : []),
    row.difference,
  ];
}
const HEAD = [
  ...['', 'tsxla, ms', 'torch, ms', 'tsxla over torch', 'processor time'],
  ...(values.compile ? ['tsxla over torch.compile'] : []),
  'losses differ by',
];
function add(row: Row): void {
  rows.push(row);
  console.log(
    cellsOf(row)
      .map((cell, i) => (i ? cell.padStart(i === 3 ? 22 : i > 5 ? 25 : 12) : cell.padEnd(30)))
      .join(''),
  );
}

const load = os.loadavg()[0]!.toFixed(1);
console.log(`${os.availableParallelism()} cores, load ${load}; ${HEAD.slice(1).join(', ')}`);
for (const name of only) {
  if (name === 'qwen3') await measureQwen3();
  else for (const size of sizes) await measurePort(name, size);
}
const over = rows.filter((row) => median(ratios(row)) > 1);
console.log(over.length ? `slower than torch: ${over.map(titleOf).join('; ')}` : 'no row is slower than torch');

if (values.page) {
  const page = path.resolve(values.page);
  const image = `img/${path.basename(page, '.md')}-${device}.svg`;
  const bar = (peer: string) =>
    Object.fromEntries(
      rows.map((row): [string, Bar] => {
        const all = ratios(row, peer);
        return [
          titleOf(row),
          all.length ? { value: median(all), low: Math.min(...all), high: Math.max(...all) } : null,
        ];
      }),
    );
  const picture = bars(
    { 'over eager': bar('eager'), ...(values.compile && { 'over torch.compile': bar('compile') }) },
    {
      title: `tsxla's time over torch's, ${device.toUpperCase()}`,
      x: 'below 1: tsxla is faster',
      marks: [{ label: 'torch', value: 1 }],
    },
  );
  mkdirSync(path.join(path.dirname(page), 'img'), { recursive: true });
  writeFileSync(path.join(path.dirname(page), image), picture.svg);
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const what =
    only.length < names.length || sizes.length < 2
      ? [...(values.only ? ['--only', values.only] : []), '--sizes', values.sizes]
      : [];
  const flags = [
    ...what,
    '--rounds',
    values.rounds,
    ...(values.compile ? ['--compile'] : []),
    ...(device === 'cuda' ? ['--device cuda'] : []),
  ];
  const lines = [
    '# The zoo: eight programs and Qwen3 beside torch',
    '',
    `The programs of \`examples/ports\`, and prefill and decoding of a Qwen3 of 98 million parameters, beside`,
    `torch: same weights and data, in turns. \`npm run bench:zoo -- ${flags.join(' ')} --page docs/${path.basename(page)}\``,
    'writes this page.',
    '',
    `![Times of tsxla over those of torch](./${image})`,
    '',
    line(HEAD),
    line(HEAD.map((_, i) => (i ? '---:' : '---'))),
    ...rows.map((row) => line(cellsOf(row))),
    '',
    '- Milliseconds of a training step (a decoding step), the median of the rounds. The ratio is the median of those of the',
    '  rounds, with the lowest and the highest. Processor time: the same ratio of the time of all cores.',
    '- `small` is the size at which the examples run, `large` that of the original programs, or near it',
    '  (`bench/ports.json`). Every step reads its loss, on both sides.',
    `- ${os.availableParallelism()} cores (${os.cpus()[0]!.model.trim()}), load ${load} at the start and ${os.loadavg()[0]!.toFixed(1)} at the end.`,
  ];
  writeFileSync(page, `${lines.join('\n')}\n`);
  console.log(`wrote ${values.page} and ${image}`);
}
process.exit();
