// A training step on one batch again and again, and on batches of a loader: the same program, in turns.
import * as tx from 'tsxla';
import { DataLoader } from 'tsxla/data';

const [BATCH, FEATURES, HIDDEN, CLASSES] = [256, 784, 1024, 10];

/** A network of about 25 ms a step on two cores, and items that are made when they are asked for, as if decoded. */
function makeCase() {
  const parameter = (...shape: number[]) => tx.randn(shape).mul(0.02).requiresGrad_();
  const weights = [parameter(FEATURES, HIDDEN), parameter(HIDDEN, HIDDEN), parameter(HIDDEN, CLASSES)] as const;
  const train = tx.compile(function train(x: tx.Tensor, y: tx.Tensor) {
    for (const w of weights) w.grad = null;
    const [a, b, c] = weights;
    const loss = tx.crossEntropy(x.matmul(a).relu().matmul(b).relu().matmul(c), y);
    loss.backward();
    tx.noGrad(() => weights.forEach((w) => w.sub_(w.grad!.mul(0.01))));
    return loss;
  });
  const get = (i: number) => ({ x: new Float32Array(FEATURES).fill((i % 100) / 100), y: i % CLASSES });
  return { train, get };
}

const median = (xs: readonly number[]): number => xs.toSorted((a, b) => a - b)[xs.length >> 1]!;
const uploads = () => tx.metrics.counter('SyncTensorsToData') ?? 0;

/** Medians over all steps, in ms; the median of the rounds' ratios; how many steps had to upload their batch themselves. */
export async function compare({ rounds, steps }: { rounds: number; steps: number }) {
  const { train, get } = makeCase();
  const loader = new DataLoader({ length: BATCH * (steps + 1), get }, { batchSize: BATCH, shuffle: true });
  const first = await loader[Symbol.asyncIterator]().next();
  const { x, y } = first.value as { x: tx.Tensor; y: tx.Tensor };
  let late = 0;
  const time = async (x: tx.Tensor, y: tx.Tensor, start: number): Promise<number> => {
    const before = uploads();
    const running = train(x, y);
    if (uploads() > before) late++;
    await (await running).item();
    return performance.now() - start;
  };
  const all = { constant: [] as number[], loaded: [] as number[] };
  const ratios: number[] = [];
  for (let round = -1; round < rounds; round++) {
    const [constant, loaded]: [number[], number[]] = [[], []];
    for (let i = 0; i < steps; i++) constant.push(await time(x, y, performance.now()));
    let start = performance.now(); // a step begins with asking for its batch
    for await (const batch of loader) {
      loaded.push(await time(batch.x, batch.y, start));
      batch.x.dispose();
      batch.y.dispose();
      start = performance.now();
    }
    if (round < 0) continue; // the first round warms up
    loaded.shift(); // nothing can be fetched before an epoch begins
    ratios.push(median(loaded) / median(constant));
    all.constant.push(...constant);
    all.loaded.push(...loaded);
  }
  return { constant: median(all.constant), loaded: median(all.loaded), ratio: median(ratios), late };
}
