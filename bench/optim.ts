// Measures the cost of an optimizer step besides arithmetic: AdamW with 400 parameters. npm run bench:optim
import * as tx from 'tsxla';
import { metricData } from '../dist/observe/metrics.js';

const [COUNT, SHAPE, STEPS] = [400, [64, 64], 50] as const;
const now = () => performance.now();
const since = (start: number) => `${(now() - start).toFixed(1)} ms`;

const filled = (value: number) => tx.tensor(new Float32Array(SHAPE[0] * SHAPE[1]).fill(value), { shape: SHAPE });

for (const name of ['SGD', 'AdamW', 'Adafactor'] as const) {
  const params = Array.from({ length: COUNT }, () => filled(1).requiresGrad_());
  const grads = params.map(() => filled(0.1));
  let start = now();
  const optimizer = new tx.optim[name](params, { lr: 1e-3 });
  console.log(`${name}, ${COUNT} parameters ${SHAPE.join(' x ')}: made in ${since(start)}`);
  const update = () => {
    params.forEach((p, i) => void (p.grad = grads[i]!));
    optimizer.step();
    optimizer.zeroGrad();
  };
  const train = tx.compile(update);
  const traced = () => metricData('LazyTracing')?.accumulator ?? 0;
  const before = traced();
  start = now();
  await train();
  await tx.sync({ wait: true });
  console.log(
    `  first call ${since(start)}, of it tracing ${((traced() - before) / 1e6).toFixed(1)} ms, the rest is XLA`,
  );
  const times: number[] = [];
  for (let i = 0; i < STEPS; i++) {
    optimizer.paramGroups[0]!.lr = 1e-3 / (1 + i);
    start = now();
    await train();
    await tx.sync({ wait: true });
    times.push(now() - start);
  }
  times.sort((a, b) => a - b);
  console.log(
    `  later calls ${times[STEPS / 2]!.toFixed(2)} ms (median), ${times[0]!.toFixed(2)} ms (least); ${train.programs} program`,
  );
}
