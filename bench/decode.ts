// Decoding on the CPU, here and with transformers, in turns in one run: milliseconds of one step for 1 to 16 prompts, and of
// the prompts. npm run bench:decode [-- --prompts 1,2,4,8,16 --lengths 32 --rounds 5 --tokens 16 --python PATH]
import { spawn } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { parseArgs } from 'node:util';
import { AutoModelForCausalLM } from 'tsxla/models';
import { decode, SIZES, type Turn } from './decode-case.js';

const root = path.resolve(import.meta.dirname, '..');
const { values } = parseArgs({
  options: {
    prompts: { type: 'string', default: '1,2,4,8,16' },
    /** Of the prompts, in tokens. */
    lengths: { type: 'string', default: '32' },
    rounds: { type: 'string', default: '5' },
    tokens: { type: 'string', default: '16' },
    python: { type: 'string', default: path.join(root, '.venv/bin/python') },
  },
});
type Take = (prompts: number, length: number) => Promise<Turn>;
const tokens = Number(values.tokens);

const model = AutoModelForCausalLM.fromConfig({ ...SIZES, model_type: 'qwen3' }).eval();
const ours: Take = (prompts, length) => decode(model, prompts, length, tokens);

const child = spawn(values.python, ['decode_torch.py', JSON.stringify(SIZES)], {
  cwd: path.join(root, 'bench/peers'),
  stdio: ['pipe', 'pipe', process.env['DEBUG'] ? 'inherit' : 'ignore'],
});
const lines = readline.createInterface(child.stdout)[Symbol.asyncIterator]();
async function answer() {
  const { value, done } = await lines.next();
  if (done) throw new Error(`${values.python} ended: DEBUG=1 shows what it wrote; --python PATH has transformers`);
  return JSON.parse(value);
}
const theirs: Take = async (prompts, length) => {
  child.stdin.write(`${JSON.stringify({ prompts, length, tokens })}\n`);
  return answer();
};

const median = (xs: readonly number[]) => xs.toSorted((a, b) => a - b)[xs.length >> 1]!;
const { name } = await answer();
console.log(`${os.availableParallelism()} cores, load ${os.loadavg()[0]!.toFixed(1)}; tsxla beside ${name}`);
console.log('prompts  length   step ms           processor ms      prompt ms         step, ours over theirs');
for (const length of values.lengths.split(',').map(Number)) {
  for (const prompts of values.prompts.split(',').map(Number)) {
    const turns: Record<'ours' | 'theirs', Turn[]> = { ours: [], theirs: [] };
    for (const take of [ours, theirs]) await take(prompts, length); // warms up
    for (let round = 0; round < Number(values.rounds); round++) {
      turns.ours.push(await ours(prompts, length));
      turns.theirs.push(await theirs(prompts, length));
    }
    const of = (what: 'prompt' | 'step' | 'cpu') =>
      [turns.ours, turns.theirs].map((side) => median(side.map((t) => t[what])));
    const cell = (what: 'prompt' | 'step' | 'cpu') =>
      of(what)
        .map((x) => x.toFixed(1).padStart(7))
        .join(' :')
        .padEnd(18);
    const [a, b] = of('step') as [number, number];
    console.log(
      `${String(prompts).padStart(7)} ${String(length).padStart(7)} ${cell('step')}${cell('cpu')}${cell('prompt')}${(a / b).toFixed(2).padStart(6)}`,
    );
  }
}
child.stdin.end();
console.log(
  `load ${os.loadavg()[0]!.toFixed(1)} at the end; on a busy machine run it again, or compare the processor time`,
);
