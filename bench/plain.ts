// A step of a plain loop beside the same step as a compiled function, in turns: npm run bench:plain [-- --rounds 7 --steps 50]
// The difference is the host's cost of tracing, hashing and queueing each step.
import { parseArgs } from 'node:util';
import * as tx from 'tsxla';

process.env['PJRT_DEVICE'] ??= 'CPU';
const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '7' }, steps: { type: 'string', default: '50' } },
});
const [rounds, steps] = [Number(values.rounds), Number(values.steps)];
const median = (xs: readonly number[]): number => xs.toSorted((a, b) => a - b)[xs.length >> 1]!;

/** A network with this number of parameters, and a step of it, plain and compiled. */
function makeCase(parameters: number) {
  const x = tx.randn([32, 32]);
  const make = () => {
    const layers = Array.from({ length: parameters / 2 }, () => new tx.nn.Linear(32, 32));
    const model = new tx.nn.Sequential(...layers);
    const optimizer = new tx.optim.AdamW(model.parameters(), { lr: 1e-4 });
    const describe = () => {
      optimizer.zeroGrad();
      const loss = model.forward(x).square().mean();
      loss.backward();
      return { loss, started: optimizer.step() };
    };
    return describe;
  };
  const [one, other] = [make(), make()];
  const train = tx.compile(() => one().loss);
  return {
    compiled: async () => void (await train()),
    plain: async () => void (await other().started),
  };
}

async function timeOf(step: () => Promise<void>): Promise<number> {
  const start = performance.now();
  for (let i = 0; i < steps; i++) await step();
  await tx.sync({ wait: true });
  return (performance.now() - start) / steps;
}

const cases = new Map([60, 400].map((n) => [n, makeCase(n)]));
const table = [];
for (const [parameters, { plain, compiled }] of cases) {
  const seen = { plain: [] as number[], compiled: [] as number[] };
  for (let round = -1; round < rounds; round++) {
    const times = { compiled: await timeOf(compiled), plain: await timeOf(plain) };
    if (round < 0) continue; // the first one compiles
    seen.plain.push(times.plain);
    seen.compiled.push(times.compiled);
  }
  const [p, c] = [median(seen.plain), median(seen.compiled)];
  table.push({ parameters, 'plain, ms': p.toFixed(2), 'compiled, ms': c.toFixed(2), ratio: (p / c).toFixed(2) });
}
console.table(table);
