// A loop over datasets that Ray Data reads. ARGS: a name, epochs, and how often the run may fail. What each worker was given in an
// epoch is written into SEEN. In the first attempt rank 1 is killed in the middle of epoch 1, in the second in epoch 2 a file tells
// the test to kill Ray's worker.
import fs from 'node:fs';
import * as tx from 'tsxla';
import { Checkpoint, getCheckpoint, getContext, getDatasetShard, rayDataset, report, TorchTrainer } from 'tsxla/train';

const [name = 'data', epochs = '3', maxFailures = '0'] = process.argv.slice(2);
const { SEEN = '', DATA = '' } = process.env;
const isKilled = Number(maxFailures) > 0;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function loop() {
  const { rank, attempt } = getContext();
  const model = new tx.nn.Linear(1, 1);
  const { epoch: done = -1 } = (await getCheckpoint()?.load({ model })) ?? {};
  const train = getDatasetShard('train');
  for (let epoch = Number(done) + 1; epoch < Number(epochs); epoch++) {
    const rows = [];
    let batches = 0;
    for await (const batch of train.iterBatches({
      batchSize: 16,
      localShuffleBufferSize: 64,
      localShuffleSeed: epoch,
    })) {
      for (const [i, id] of batch.id.entries())
        rows.push([Number(id), batch.text[i], batch.tokens[i] && Array.from(batch.tokens[i])]);
      if (isKilled && rank === 1 && ++batches === 2) {
        if (attempt === 0 && epoch === 1) process.kill(process.pid, 'SIGKILL');
        if (attempt === 1 && epoch === 2) {
          fs.writeFileSync(`${SEEN}/kill`, '');
          await pause(600_000);
        }
      }
    }
    fs.writeFileSync(`${SEEN}/${name}-${epoch}-${rank}.json`, JSON.stringify({ rows, attempt }));
    const checkpoint = await Checkpoint.save({ model, epoch });
    await report({ epoch, rows: rows.length }, { checkpoint });
  }
  if (isKilled) return;
  if (name === 'uneven') {
    if (rank === 0) for await (const _ of train.iterRows());
    return;
  }
  const others = {};
  for (const other of ['objects', 'table', 'lines']) {
    others[other] = [];
    for await (const batch of getDatasetShard(other).iterBatches({ batchFormat: 'rows' })) others[other].push(...batch);
  }
  others.shuffled = [];
  for await (const { y } of getDatasetShard('table').iterRows()) others.shuffled.push(y);
  others.steps = 0; // which workers take together
  for await (const batch of getDatasetShard('lines').iterBatches({ batchSize: 5, dropLast: true }))
    others.steps += (await tx.train.averageMetrics({ rows: batch.text.length })).rows;
  for await (const row of getDatasetShard('lines').iterRows()) {
    others.left = row; // a loop that leaves an epoch can begin the next
    break;
  }
  others.again = 0;
  for await (const _ of getDatasetShard('lines')) others.again++;
  fs.writeFileSync(
    `${SEEN}/${name}-others-${rank}.json`,
    JSON.stringify(others, (_, x) => (typeof x === 'bigint' ? Number(x) : x)),
  );
}

const datasets = {
  train: rayDataset(`${DATA}/rows-*.parquet`, { columns: ['id', 'text', 'tokens'], shuffle: 'files', seed: 1 }),
  ...(!isKilled && {
    objects: rayDataset([`${DATA}/a.jsonl`, `${DATA}/b.jsonl`]),
    table: rayDataset(`${DATA}/table.csv`, { columns: ['y'], shuffle: true, seed: 3 }),
    lines: rayDataset(`${DATA}/lines.txt`, { equal: true }),
  }),
};
const trainer = new TorchTrainer({
  trainLoopPerWorker: loop,
  datasets: name === 'nowhere' ? { train: rayDataset(`${DATA}/none-*.parquet`) } : datasets,
  scalingConfig: { numWorkers: 2, placementStrategy: 'SPREAD' },
  runConfig: { name, storagePath: process.env.STORAGE, failureConfig: { maxFailures: Number(maxFailures) } },
  ray: { env: { STORAGE: process.env.STORAGE ?? '', SEEN, DATA } },
});
const { history } = await trainer.fit();
console.log(JSON.stringify(history));
