// Small calls: an actor-critic acts on one observation of the host's and reads one or two results, and learns from 64 of them.
// In turns with torch, eager: npm run bench:small [-- --rounds 9 --calls 300 --python PATH]
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import { parseArgs } from 'node:util';
import * as tx from 'tsxla';

const root = path.resolve(import.meta.dirname, '..');
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '9' },
    calls: { type: 'string', default: '300' },
    python: { type: 'string', default: path.join(root, '.venv/bin/python') },
  },
});
process.env['PJRT_DEVICE'] ??= 'CPU';
const [rounds, calls] = [Number(values.rounds), Number(values.calls)];

function startTorch(python: string) {
  const { stdin, stdout } = spawn(python, ['bench/torch_small.py'], { cwd: root, stdio: ['pipe', 'pipe', 'inherit'] });
  const answers = readline.createInterface(stdout)[Symbol.asyncIterator]();
  const timesOf = async (name: string): Promise<number[]> => {
    stdin.write(`${name} ${calls}\n`);
    return JSON.parse((await answers.next()).value);
  };
  return { timesOf, end: () => stdin.end() };
}
if (!existsSync(values.python))
  console.error(`no ${values.python}, so without torch: bench/README.md says how to make it, or pass --python`);
const torch = existsSync(values.python) ? startTorch(values.python) : undefined;

tx.manualSeed(0);
const { Linear, Tanh, Sequential } = tx.nn;
const body = new Sequential(new Linear(4, 64), new Tanh(), new Linear(64, 64), new Tanh());
const [policy, value] = [new Linear(64, 2), new Linear(64, 1)];
const optimizer = new tx.optim.Adam([...body.parameters(), ...policy.parameters(), ...value.parameters()], {
  lr: 3e-4,
});
const observation = [0.1, 0.2, 0.3, 0.4];
const x = tx.randn([64, 4]);
const actions = tx.randint(0, 2, [64, 1]);
const [old, advantages, returns] = [tx.randn([64, 1]).mul(0.1).sub(0.7), tx.randn([64, 1]), tx.randn([64, 1])];

const act = tx.compile((o: tx.Tensor) => {
  const h = body.forward(o);
  return [policy.forward(h).softmax(-1), value.forward(h)] as const;
});
const actOnce = tx.compile((o: tx.Tensor) => policy.forward(body.forward(o)).softmax(-1));
const learn = tx.compile(() => {
  optimizer.zeroGrad();
  const h = body.forward(x);
  const ratio = policy.forward(h).logSoftmax(-1).gather(1, actions).sub(old).exp();
  const gain = tx.minimum(ratio.mul(advantages), ratio.clamp(0.8, 1.2).mul(advantages)).mean();
  const loss = tx.mseLoss(value.forward(h), returns).mul(0.5).sub(gain);
  loss.backward();
  optimizer.step();
  return loss;
});

const cases: Record<string, () => Promise<unknown>> = {
  'act, one read': async () => (await actOnce(tx.tensor(observation))).tolist(),
  'act, two reads': async () => {
    const [p, v] = await act(tx.tensor(observation));
    return Promise.all([p.tolist(), v.item()]);
  },
  update: async () => (await learn()).item(),
};

const median = (xs: readonly number[]): number => xs.toSorted((a, b) => a - b)[xs.length >> 1]!;
const table = [];
for (const [name, run] of Object.entries(cases)) {
  const seen = { ours: [] as number[], torch: [] as number[] };
  for (let round = -2; round < rounds; round++) {
    const times: number[] = [];
    for (let i = 0; i < calls; i++) {
      const start = performance.now();
      await run();
      times.push(performance.now() - start);
    }
    const theirs = (await torch?.timesOf(name)) ?? [Number.NaN];
    if (round < 0) continue; // the first rounds compile and warm up
    seen.ours.push(median(times));
    seen.torch.push(median(theirs));
  }
  const [ours, theirs] = [median(seen.ours) * 1e3, median(seen.torch) * 1e3];
  table.push({
    case: name,
    'tsxla, us': ours.toFixed(0),
    'torch, us': theirs.toFixed(0),
    ratio: (ours / theirs).toFixed(2),
  });
}
torch?.end();
console.table(table);
