// Loops in which something goes wrong, or is counted: faults.ts NAME STORAGE [WORKERS]. Prints what fit() came to.
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as tx from 'tsxla';
import * as train from 'tsxla/train';

const [name, storage, workers = '2'] = process.argv.slice(2) as [string, string, string?];

const LOOPS: Record<string, () => unknown> = {
  /** A report's price, and then what cannot be: a program that waits for others. */
  async costs() {
    await train.report({ step: 0 });
    await train.barrier();
    const start = performance.now();
    for (let step = 1; step <= 500; step++) await train.report({ step, loss: 1 / step });
    const middle = performance.now();
    for (let i = 0; i < 500; i++) await train.barrier();
    console.log(`${(middle - start) / 500} ms a report, ${(performance.now() - middle) / 500} ms a barrier`);

    const weight = new tx.nn.Parameter(tx.zeros([3]));
    const optimizer = train.prepareOptimizer(new tx.optim.SGD([weight], { lr: 0.1 }));
    await tx.compile(function update() {
      optimizer.step();
    })();
  },
  /** A plain loop, as torch has it: the loss is read behind the update. Both workers have the same rows. */
  async plain() {
    tx.manualSeed(1);
    const model = new tx.nn.Linear(4, 1);
    const optimizer = train.prepareOptimizer(new tx.optim.Adam(model.parameters(), { lr: 0.01 }));
    const [x, y] = await new train.SeamlessTPUTrainer(model).toDevice(tx.randn([8, 4]), tx.randn([8, 1]));
    for (let step = 0; step < 3; step++) {
      optimizer.zeroGrad();
      const loss = tx.mseLoss(model.forward(x), y);
      loss.backward();
      await optimizer.step();
      await train.report({ loss: Number(await loss.item()) });
    }
  },
  /** What workers do together where they differ: gradients that one of them lacks, values f32 does not hold, several at once. */
  async together() {
    const { rank } = train.getContext();
    const first = async (t: tx.Tensor) => Number((await t.data())[0]);
    const parameter = () => new tx.nn.Parameter(tx.zeros([2]));
    const optimizerOf = (...params: tx.Tensor[]) => train.prepareOptimizer(new tx.optim.SGD(params, { lr: 1 }));

    const [zeroth, second, unused] = [parameter(), parameter(), parameter()];
    const optimizer = optimizerOf(zeroth, second, unused);
    const own = rank ? second : zeroth;
    own
      .mul(2 * rank + 2)
      .sum()
      .backward(); // 2 of worker 0, 4 of worker 1
    await optimizer.step();
    const means = { zeroth: await first(zeroth), second: await first(second), unused: Number(unused.grad === null) };

    class Odd extends tx.nn.Module {
      large = new tx.nn.Buffer(tx.tensor([2 ** 30 + 1 - rank], { dtype: 'i32' }));
      exact = new tx.nn.Buffer(tx.tensor([0.1 + rank], { dtype: 'f64' }));
    }
    const { large, exact } = await train.prepareModel(new Odd());

    const [a, b] = [parameter(), parameter()];
    a.sum().backward();
    b.mul(10).sum().backward();
    await (rank ? a : b).grad!.data(); // so that the other takes longer
    const steps = [a, b].map((p) => optimizerOf(p).step());
    const { mean, tokens } = await train.averageMetrics({ tokens: 2 ** 40 + 1, mean: rank });
    await Promise.all(steps);
    const inTurn = { a: await first(a), b: await first(b), mean, tokens };

    const list = new tx.nn.Sequential(new tx.nn.Linear(1, 1)); // which is a list of modules, too
    list
      .forward(tx.ones([1, 1]))
      .mul(rank)
      .sum()
      .backward();
    await train.averageGradients(list);
    const slope = await first([...list.parameters()][0]!.grad!);

    const refuse = (run: () => unknown) => {
      try {
        run();
      } catch (e) {
        console.log((e as Error).message);
      }
    };
    refuse(() => new tx.optim.GradScaler().step(optimizer));
    const clipped = parameter();
    const later = optimizerOf(clipped);
    clipped.grad = tx.full([2], 6.0 * rank + 0.5); // a mean of 3.5
    refuse(() => tx.optim.clipGradNorm([clipped], 1));
    await train.averageGradients([clipped]);
    tx.optim.clipGradValue([clipped], 2);
    await later.step();
    for (const hurry of [() => later.step(), () => train.averageGradients([clipped])]) {
      const awaited = hurry();
      refuse(hurry);
      await awaited; // too late
    }

    const exactly = { large: await first(large), exact: await first(exact) };
    const seen = { ...means, ...inTurn, slope, clipped: await first(clipped), ...exactly };
    fs.writeFileSync(path.join(storage, `seen-${rank}`), JSON.stringify(seen));
    console.log('at length '.repeat(1e5), `worker ${rank} has said all`);
    process.on('exit', () => {
      const end = Date.now() + 200;
      while (Date.now() < end); // time enough to be killed in
      fs.writeFileSync(path.join(storage, `exit-${rank}`), 'in peace');
    });
  },
  /** Until it is told to end: it may do something before. */
  async waits() {
    fs.writeFileSync(path.join(storage, `pid-${train.getContext().rank}`), String(process.pid));
    const told = new AbortController();
    process.once('SIGTERM', () => told.abort());
    await sleep(60_000, undefined, { signal: told.signal }).catch(() => {});
    fs.writeFileSync(path.join(storage, `left-${train.getContext().rank}`), 'in peace');
  },
  async full() {
    await train.report({ step: 1 }, { checkpoint: await train.Checkpoint.save({ small: tx.zeros([10]) }) });
    await train.report({ step: 2 }, { checkpoint: await train.Checkpoint.save({ large: tx.zeros([1 << 20]) }) });
  },
};

const trainer = new train.TorchTrainer({
  trainLoopPerWorker: LOOPS[name]!,
  scalingConfig: { numWorkers: Number(workers) },
  runConfig: { name: 'fault', storagePath: storage },
});
try {
  const { metrics, checkpoint, history } = await trainer.fit();
  const files = checkpoint ? fs.readdirSync(checkpoint.path).sort() : [];
  console.log(JSON.stringify({ metrics, reports: history.length, files }));
} catch (e) {
  const { name, message, cause, result } = e as train.TrainingFailedError;
  const { name: kind, cause: inner } = cause as Error;
  const said = { name, message, cause: kind, inner: (inner as Error | undefined)?.name, last: result.metrics };
  console.log(JSON.stringify(said));
}
