// A training step on one repeated batch, and on batches of a loader: the same program, interleaved.
import * as tx from 'tsxla';
import { DataLoader } from 'tsxla/data';

const [BATCH, FEATURES, HIDDEN, CLASSES] = [256, 784, 2048, 10];

/** A network of about 80 ms a step on two cores, and items that are made when they are asked for, as if decoded. */
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
  const read = { items: 0 };
  const get = (i: number) => {
    read.items++;
    return { x: new Float32Array(FEATURES).fill((i % 100) / 100), y: i % CLASSES };
  };
  return { train, get, read };
}

const median = (xs: readonly number[]): number => xs.toSorted((a, b) => a - b)[xs.length >> 1]!;
const uploads = () => tx.metrics.counter('SyncTensorsToData') ?? 0;

/**
 * A step on a loader's batch and one on a constant batch in turns, so that whatever else the machine does meets both. The
 * time of the former begins with asking for the batch, and what the loader reads ahead is done during it. In ms.
 */
export async function compare({ rounds, steps }: { rounds: number; steps: number }) {
  const { train, get, read } = makeCase();
  const loader = new DataLoader({ length: BATCH * (steps + 1), get }, { batchSize: BATCH, shuffle: true });
  const constant: number[] = [];
  const loaded: number[] = [];
  let late = 0; // steps that had to upload their batch themselves
  let idle = 0; // steps during which nothing of the next batch was read
  const finish = async (x: tx.Tensor, y: tx.Tensor, start: number): Promise<number> => {
    const before = uploads();
    const running = train(x, y);
    if (uploads() > before) late++;
    await (await running).item();
    return performance.now() - start;
  };
  const x = tx.ones([BATCH, FEATURES]);
  const y = tx.zeros([BATCH], { dtype: 'i64' });
  await tx.sync(x, y);
  for (let round = -1; round < rounds; round++) {
    let start = performance.now();
    read.items = 0;
    for await (const batch of loader) {
      const one = await finish(batch.x, batch.y, start);
      const other = await finish(x, y, performance.now());
      const { batch: taken } = loader.state();
      if (taken <= steps && read.items <= BATCH * taken) idle++;
      batch.x.dispose();
      batch.y.dispose();
      const isWarm = round >= 0 && taken > 1; // nothing can be read ahead of an epoch's first batch
      if (isWarm) loaded.push(one);
      if (isWarm) constant.push(other);
      start = performance.now();
    }
  }
  const ratio = median(loaded.map((ms, i) => ms / constant[i]!));
  return { constant: median(constant), loaded: median(loaded), ratio, late, idle };
}
