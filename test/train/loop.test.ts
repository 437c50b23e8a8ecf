// One worker: this process, with all its devices as a mesh.
import fs from 'node:fs';
import path from 'node:path';
import { inspect } from 'node:util';
import * as tx from 'tsxla';
import * as train from 'tsxla/train';
import { expect, test, vi } from 'vitest';
import { eventFiles, readEvents } from '../../dist/board/event-file.js';
import { Run } from '../../dist/board/run.js';
import { counts } from '../../dist/runtime/program.js';
import { Loop, withLoop } from '../../dist/train/loop.js';
import { runLoop as asLoop } from '../../dist/train/worker.js';
import { scratch } from '../scratch.js';

process.env.CPU_NUM_DEVICES = '4';
const folders = scratch('loop');

const runLoop = (
  trainLoopPerWorker: () => unknown,
  { storagePath = folders.newFolder(), ...run }: train.RunOptions = {},
  options: Partial<train.TrainerOptions<undefined>> = {},
) => new train.TorchTrainer({ trainLoopPerWorker, runConfig: { name: 'run', storagePath, ...run }, ...options }).fit();
const save = (items: Record<string, unknown>) => train.Checkpoint.save(items);

test('what a loop reports is the result; what it is given is its config', async () => {
  const result = await new train.TorchTrainer({
    trainLoopPerWorker: async ({ epochs }) => {
      for (let epoch = 1; epoch <= epochs; epoch++) await train.report({ epoch, loss: 1 / epoch });
    },
    trainLoopConfig: { epochs: 3 },
  }).fit();
  expect(result.metrics).toEqual({ epoch: 3, loss: 1 / 3 });
  expect(result.history.map((m) => m.epoch)).toEqual([1, 2, 3]);
  expect([result.checkpoint, result.error]).toEqual([undefined, undefined]);
  expect(path.dirname(result.path)).toBe(path.resolve('runs'));
  expect(fs.existsSync(result.path)).toBe(false); // nothing to keep: nothing is made
});

test('getContext: who it is', async () => {
  let seen: train.TrainContext | undefined;
  await runLoop(() => void (seen = train.getContext()));
  expect(seen).toMatchObject({ rank: 0, worldSize: 1, localRank: 0, nodeRank: 0, trialName: 'run', attempt: 0 });
  expect(String(seen!.mesh)).toBe(String(new tx.spmd.Mesh([4], ['data'])));
});

test('a loop on a mesh gives what one device gives', async () => {
  const [xs, ys] = [Array.from({ length: 8 }, (_, i) => [i / 8, 1]), Array.from({ length: 8 }, (_, i) => [i / 4])];
  const losses = async (prepare: boolean) => {
    tx.manualSeed(1);
    const model = new tx.nn.Linear(2, 1);
    let [x, y] = [tx.tensor(xs), tx.tensor(ys)];
    const optimizer = new tx.optim.SGD(model.parameters(), { lr: 0.1 });
    if (prepare) {
      const seamless = new train.SeamlessTPUTrainer(model);
      [x, y] = await seamless.toDevice(x, y);
      expect(tx.spmd.shardingOf(x)!.shardShape(x.shape)).toEqual([2, 2]);
      expect(await train.toDevice(x)).toBe(x); // as a prepared loader gives it
    }
    const list: number[] = [];
    for (let i = 0; i < 3; i++) {
      optimizer.zeroGrad();
      const loss = tx.mseLoss(model.forward(x), y);
      loss.backward();
      await (prepare ? train.prepareOptimizer(optimizer) : optimizer).step();
      list.push(Number(await loss.item()));
    }
    return list;
  };
  const plain = await losses(false);
  let meshed: number[] = [];
  await runLoop(async () => void (meshed = await losses(true)));
  plain.forEach((loss, i) => void expect(meshed[i]).toBeCloseTo(loss, 6));
});

test('the loop of SeamlessTPUTrainer runs each step, though nothing is read or awaited', async () => {
  let model!: tx.nn.Linear;
  const before: number[] = [];
  const start = { ...counts };
  await runLoop(async () => {
    model = new tx.nn.Linear(10, 1);
    const optimizer = new tx.optim.Adam(model.parameters(), { lr: 0.001 });
    const trainer = new train.SeamlessTPUTrainer(model);
    const [x, y] = await trainer.toDevice(tx.randn([100, 10]), tx.randn([100, 1]));
    before.push(...((await model.weight.data()) as Float32Array));
    Object.assign(start, counts);
    for (let epoch = 0; epoch < 40; epoch++) {
      optimizer.zeroGrad();
      const output = model.forward(x);
      const loss = tx.mseLoss(output, y);
      loss.backward();
      optimizer.step();
    }
  });
  expect(counts.executed - start.executed).toBeGreaterThanOrEqual(40);
  expect(counts.executed - start.executed).toBeLessThan(45);
  expect(counts.compiled - start.compiled).toBeLessThan(10);
  expect([...((await model.weight.data()) as Float32Array)]).not.toEqual(before);
});

test('xlaSpmdConfig is the mesh', async () => {
  let mesh: tx.spmd.Mesh | undefined;
  const asked = { xlaSpmdConfig: { meshShape: [2, 2], dataParallelSize: 2, modelParallelSize: 2 } };
  await runLoop(() => void (mesh = train.getContext().mesh), {}, { torchConfig: asked });
  expect(mesh!.axisNames).toEqual(['data', 'model']);
  await expect(runLoop(() => {}, {}, { torchConfig: { xlaSpmdConfig: { dataParallelSize: 3 } } })).rejects.toThrow(
    'data 3, and there are 4 devices',
  );
});

test('a loop that throws: TrainingFailedError with what it threw, and all that was reported', async () => {
  const failed = await runLoop(async () => {
    await train.report({ step: 1 });
    throw new RangeError('no such row');
  }).catch((e) => e as train.TrainingFailedError);
  expect(failed).toBeInstanceOf(train.TrainingFailedError);
  expect(failed).toMatchObject({ message: 'the run run failed: no such row', cause: { name: 'RangeError' } });
  expect((failed as train.TrainingFailedError).result).toMatchObject({
    metrics: { step: 1 },
    error: { name: 'RangeError' },
  });
  expect(inspect(failed).match(/no such row/g)).toHaveLength(2); // the message, and the cause: not a third time in `result`
});

test("a checkpoint where report's options belong, as Ray's own takes it", async () => {
  const failed = runLoop(async () => {
    await train.report({ step: 1 }, (await train.Checkpoint.save({ step: 1 })) as never);
  });
  await expect(failed).rejects.toThrow('report: got a Checkpoint in place of its options: write { checkpoint }');
});

test('a loop that fails begins again at the last checkpoint, and its history has each step once', async () => {
  const seen: string[] = [];
  const loop = async () => {
    const weights = tx.zeros([3]);
    let step = Number((await train.getCheckpoint()?.load({}))?.step ?? 0);
    seen.push(`${train.getContext().attempt}: from ${step}`);
    for (step++; step <= 6; step++) {
      if (step === 4 && train.getContext().attempt < 2) throw new Error('once more');
      await train.report({ step, loss: -step }, { checkpoint: step % 2 ? undefined : await save({ weights, step }) });
    }
  };
  const tensorboard = folders.newFolder();
  const result = await runLoop(loop, { failureConfig: { maxFailures: 2 }, tensorboard });
  expect(seen).toEqual(['0: from 0', '1: from 2', '2: from 2']);
  expect(result.history.map((m) => m.step)).toEqual([1, 2, 3, 4, 5, 6]);
  expect(result.checkpoints.map((c) => c.metrics.step)).toEqual([2, 4, 6]);
  const events = eventFiles(tensorboard).flatMap((file) => [...readEvents(file)].map(({ event }) => event));
  const values = events.flatMap((e) => (e.summary?.values ?? []).map((v) => [v.tag, e.step, v.simpleValue]));
  expect(values).toEqual([1, 2, 3, 4, 5, 6].map((step) => ['loss', step, -step]));
  await expect(runLoop(loop, { failureConfig: { maxFailures: 1 } })).rejects.toThrow(
    /the run run failed at attempt 2: once more; its last checkpoint is .*checkpoint-000001/,
  );
});

test('tsxla board shows a run while it runs, when it begins again, and how it ended', async () => {
  const storagePath = folders.newFolder();
  const board = () => new Run('1', 'run', path.join(storagePath, 'run'));
  const lossOf = async (run: Run) => {
    await run.poll();
    return run.data.series.get('loss');
  };
  const live: unknown[] = [];
  const loop = async () => {
    const first = Number((await train.getCheckpoint()?.load({}))?.step ?? 0) + 1;
    for (let step = first; step <= 5; step++) {
      const loss = step + train.getContext().attempt / 10;
      await train.report({ loss, t: 7 }, { checkpoint: step === 2 ? await save({ step }) : undefined });
      const run = board();
      await vi.waitFor(async () => expect((await lossOf(run))?.y.at(-1)).toBe(loss), 10_000);
      live.push(run.data.info.status);
      if (step === 4 && !train.getContext().attempt) throw new Error('once more');
    }
    await tx.ones([3]).mul(2).data();
    throw new RangeError('at the end');
  };
  await expect(runLoop(loop, { storagePath, failureConfig: { maxFailures: 1 } })).rejects.toThrow('at the end');
  expect(live).toEqual(Array(7).fill('live'));
  const run = board();
  expect(await lossOf(run)).toEqual({ x: [1, 2, 3, 4, 5], y: [1, 2, 3.1, 4.1, 5.1] });
  expect(run.data.info).toMatchObject({ status: 'failed', error: 'at the end' });
  expect([...run.data.series.keys()]).toEqual(['loss']);
  expect(run.data.compiles.length).toBeGreaterThan(0);

  await runLoop(() => {}, { storagePath, name: 'quiet' }); // nothing reported, nothing left
  expect(fs.existsSync(path.join(storagePath, 'quiet'))).toBe(false);
});

test('a loop cannot end the log of its run: it says what the trainer saw', async () => {
  const storagePath = folders.newFolder();
  const loop = async () => {
    for (let step = 1; step <= 3; step++) {
      await train.report({ loss: step });
      using log = train.getRunLog()!;
      log.mark({ metric: 'loss', label: `mark ${step}`, value: step });
      log.end('finished');
      log.end('stopped');
    }
    throw new Error('too late');
  };
  await expect(runLoop(loop, { storagePath })).rejects.toThrow('too late');
  const text = fs.readFileSync(path.join(storagePath, 'run/events.jsonl'), 'utf8');
  const events = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { kind: string; status?: string });
  const ofKind = (kind: string) => events.filter((event) => event.kind === kind);
  expect([ofKind('metrics').length, ofKind('mark').length]).toEqual([3, 3]);
  expect(ofKind('end').map(({ status }) => status)).toEqual(['failed']);
});

test('tsxla board keeps step 0 of a run that begins again behind it', async () => {
  const storagePath = folders.newFolder();
  const loop = async () => {
    const first = Number((await train.getCheckpoint()?.load({}))?.step ?? -1) + 1;
    for (let step = first; step < 3; step++) {
      const checkpoint = await save({ step });
      await train.report({ step, loss: step + 0.5 }, { checkpoint });
      const log = path.join(storagePath, 'run/events.jsonl'); // has what is kept, whatever happens now
      expect(JSON.parse(fs.readFileSync(log, 'utf8').trim().split('\n').at(-1)!)).toMatchObject({
        kind: 'metrics',
        step,
      });
      if (!train.getContext().attempt) throw new Error('once more');
    }
  };
  await runLoop(loop, { storagePath, failureConfig: { maxFailures: 1 } });
  const run = new Run('1', 'run', path.join(storagePath, 'run'));
  await run.poll();
  expect(run.data.series.get('loss')).toEqual({ x: [0, 1, 2], y: [0.5, 1.5, 2.5] });
});

test('a run of more reports than a call takes arguments continues', async () => {
  const storagePath = folders.newFolder();
  const last = 200_000;
  const some = async () => {
    for (let step = 1; step < last; step++) void train.report({ loss: step });
    await train.report({ loss: last }, { checkpoint: await save({ last }) });
  };
  await runLoop(some, { storagePath });
  const tensorboard = folders.newFolder();
  const { history } = await runLoop(() => train.report({ loss: 0 }), { storagePath, tensorboard });
  expect(history).toHaveLength(last + 1);
  const events = eventFiles(tensorboard).flatMap((file) => [...readEvents(file)]);
  expect(events.at(-1)!.event.step).toBe(last + 1);
});

test('profile: the steps that lead to some reports', async () => {
  const profile = folders.newFolder();
  const loop = async () => {
    const w = tx.ones([8, 8]);
    const step = tx.compile(function step(x: tx.Tensor) {
      return x.matmul(w).sum();
    });
    for (let i = 0; i < 6; i++) await train.report({ loss: Number(await (await step(tx.ones([8, 8]))).item()) });
  };
  await runLoop(loop, { profile, profileSteps: '3:5' });
  const files = path.join(profile, 'plugins/profile/steps_3_5');
  const file = fs.readdirSync(files).find((name) => name.endsWith('.xplane.pb'))!;
  const { steps } = tx.profiler.summarizeProfile(path.join(files, file));
  expect(steps).toBe(2);
  expect(() => new train.RunConfig({ profileSteps: '3:5' })).toThrow("profileSteps is '3:5', but profile is not set");
  expect(() => new train.RunConfig({ profile, profileSteps: '5' })).toThrow(
    'RunConfig: profileSteps is 5: write the first step',
  );
});

test('a mistake is not made again: no other attempt would mend it', async () => {
  let attempts = 0;
  const loop = () => {
    attempts++;
    // eslint-disable-next-line tsxla/shapes -- the mistake that is tested
    tx.zeros([2, 3]).matmul(tx.zeros([2, 3]));
  };
  await expect(runLoop(loop, { failureConfig: { maxFailures: -1 } })).rejects.toThrow(/the run run failed: matmul: /);
  expect(attempts).toBe(1);
});

test('numToKeep: the newest; with a score the best, and always the last', async () => {
  const scores = [3, 1, 2, 5, 4];
  const loop = async () => {
    for (const loss of scores) await train.report({ loss }, { checkpoint: await save({ loss }) });
  };
  const kept = async (checkpointConfig: train.CheckpointOptions) =>
    (await runLoop(loop, { checkpointConfig })).checkpoints.map((c) => c.metrics.loss);
  expect(await kept({})).toEqual(scores);
  expect(await kept({ numToKeep: 2 })).toEqual([5, 4]);
  expect(await kept({ numToKeep: 2, checkpointScoreAttribute: 'loss', checkpointScoreOrder: 'min' })).toEqual([
    1, 2, 4,
  ]);
  expect(await kept({ numToKeep: 1, checkpointScoreAttribute: 'loss' })).toEqual([5, 4]);
});

test('a checkpoint that is half there is left out, and what was left unfinished is removed', async () => {
  const storagePath = folders.newFolder();
  const from: unknown[] = [];
  const loop = async () => {
    from.push((await train.getCheckpoint()?.load())?.step);
    for (let step = 1; step <= 3; step++)
      await train.report({ step }, { checkpoint: await save({ step, w: tx.ones([9]) }) });
  };
  await runLoop(loop, { storagePath });
  const run = path.join(storagePath, 'run');
  const parts = path.join(run, 'checkpoint-000003/step-00000003');
  fs.truncateSync(path.join(parts, 'w.safetensors'), 8);
  fs.rmSync(path.join(run, 'checkpoint-000002/train.json'));
  fs.mkdirSync(path.join(run, '.unfinished-1/step-00000004'), { recursive: true });
  const said: string[] = [];
  const write = process.stderr.write;
  process.stderr.write = (text: string) => said.push(text) > 0;
  const again = await runLoop(loop, { storagePath }).finally(() => Object.assign(process.stderr, { write }));
  expect(said.join('')).toMatch(
    /checkpoint-000003 is damaged: step-00000003.w.safetensors has 8 bytes, expected \d+; this checkpoint is ignored/,
  );
  expect(said.join('')).toMatch(/checkpoint-000002 is not a complete checkpoint: .*; this checkpoint is ignored/);
  expect(from).toEqual([undefined, 1]);
  expect(again.history.map((m) => m.step)).toEqual([1, 1, 2, 3]); // those behind checkpoint 1 were done again
  expect(path.basename(again.checkpoint!.path)).toBe('checkpoint-000006');
  expect(fs.existsSync(path.join(run, '.unfinished-1'))).toBe(false);
});

test("a folder of the user's own is copied, and stays the user's", async () => {
  const own = folders.newFolder();
  fs.mkdirSync(path.join(own, 'deep'), { recursive: true });
  fs.writeFileSync(path.join(own, 'deep/a.txt'), 'one');
  const result = await runLoop(async () => {
    await train.report({ step: 1 }, { checkpoint: own });
    fs.writeFileSync(path.join(own, 'deep/a.txt'), 'two');
  });
  expect(fs.readFileSync(path.join(result.checkpoint!.path, 'deep/a.txt'), 'utf8')).toBe('one');
  const copy = await result.checkpoint!.toDirectory(folders.newFolder());
  expect(fs.readdirSync(path.join(copy, 'deep'))).toEqual(['a.txt']);
  await expect(result.checkpoint!.load()).rejects.toThrow('was not written by Checkpoint.save');
  fs.writeFileSync(path.join(own, 'train.json'), '{}');
  await expect(runLoop(() => train.report({}, { checkpoint: own }))).rejects.toThrow(
    'has a file train.json, a name that the run uses itself: rename your file',
  );
});

test('links in a folder are followed, and a checkpoint of a run can be reported again', async () => {
  const own = folders.newFolder();
  fs.mkdirSync(path.join(own, 'deep'), { recursive: true });
  fs.writeFileSync(path.join(own, 'deep/a.txt'), 'one');
  fs.symlinkSync('deep/a.txt', path.join(own, 'latest'));
  fs.symlinkSync('deep', path.join(own, 'also'));
  const { checkpoint } = await runLoop(() => train.report({ step: 1 }, { checkpoint: own }));
  const again = (await runLoop(() => train.report({ step: 2 }, { checkpoint: checkpoint! }))).checkpoints[0]!;
  expect(again.metrics).toEqual({ step: 2 });
  for (const name of ['deep/a.txt', 'latest', 'also/a.txt'])
    expect(fs.readFileSync(path.join(again.checkpoint.path, name), 'utf8')).toBe('one');
});

test('reports that were not awaited are kept, in order', async () => {
  const result = await runLoop(async () => {
    for (let step = 1; step <= 3; step++) void train.report({ step }, { checkpoint: await save({ step }) });
  });
  expect(result.checkpoints.map((c) => c.metrics.step)).toEqual([1, 2, 3]);
});

test('removed checkpoints are no error: the run continues from the last one left', async () => {
  const storagePath = folders.newFolder();
  const remove = (n: number) => fs.rmSync(path.join(storagePath, `run/checkpoint-00000${n}`), { recursive: true });
  const from: number[] = [];
  const loop = async () => {
    let step = Number((await train.getCheckpoint()?.load())?.step ?? 0);
    from.push(step);
    for (step++; step <= 6; step++) {
      await train.report({ step }, { checkpoint: await save({ step }) });
      if (step === 3) remove(2); // which would be removed next
      if (step === 5 && from.length === 1) {
        remove(5);
        throw new Error('and then it fails');
      }
    }
  };
  const keep = { failureConfig: { maxFailures: 1 }, checkpointConfig: { numToKeep: 2 } };
  const result = await runLoop(loop, { storagePath, ...keep });
  expect(from).toEqual([0, 4]);
  expect(result.history.map((m) => m.step)).toEqual([1, 2, 3, 4, 5, 6]);
  expect(result.checkpoints.map((c) => c.metrics.step)).toEqual([5, 6]);
});

test.each<[string, (text: string) => string | undefined, number[]]>([
  ['cut within a line', (text) => text.slice(0, text.indexOf('2')), [1, 4]],
  ['gone', () => undefined, [4]],
])('a history that is %s: the run continues with what can be read', async (_, cut, steps) => {
  const storagePath = folders.newFolder();
  await runLoop(
    async () => {
      for (let step = 1; step <= 3; step++) await train.report({ step }, { checkpoint: await save({ step }) });
    },
    { storagePath },
  );
  const file = path.join(storagePath, 'run/history.jsonl');
  const text = cut(fs.readFileSync(file, 'utf8'));
  if (text === undefined) fs.rmSync(file);
  else fs.writeFileSync(file, text);
  let fails = 1;
  const more = async () => {
    if (fails--) throw new Error('once more');
    await train.report({ step: 4 }, { checkpoint: await save({ step: 4 }) });
  };
  const { history } = await runLoop(more, { storagePath, failureConfig: { maxFailures: 1 } });
  expect(history).toEqual(steps.map((step) => ({ step })));
  expect(fs.readFileSync(file, 'utf8')).toBe(steps.map((step) => `{"step":${step}}\n`).join(''));
});

test('a run is kept by one program at a time', async () => {
  const storagePath = folders.newFolder();
  await expect(runLoop(() => runLoop(() => {}, { storagePath }), { storagePath })).rejects.toThrow(
    /another run is using .*: wait for it to end, or use another name/,
  );
  await runLoop(() => {}, { storagePath });
});

test('storage that cannot be written is said before training begins', async () => {
  const file = folders.file('taken', '');
  let began = false;
  const begin = () => void (began = true);
  await expect(runLoop(begin, { storagePath: file })).rejects.toThrow(
    /^storagePath .*taken is a file: give another folder/,
  );
  if (process.platform === 'linux')
    await expect(runLoop(begin, { storagePath: '/proc/x/y' })).rejects.toThrow(
      /^storagePath \/proc\/x\/y.*: the folder cannot be created: ENOENT/,
    );
  await expect(runLoop(begin, { storagePath: 'gs://bucket/runs' })).rejects.toThrow(
    'runs on this machine are stored in folders',
  );
  expect(began).toBe(false);
});

test.each<[string, () => unknown, string]>([
  [
    'a tensor',
    () => train.report({ loss: tx.zeros([]) as never }),
    'report: loss is a Tensor: metrics must be numbers. Read it first: await loss.item()',
  ],
  ['a text', () => train.report({ loss: '0.1' as never }), "report: loss is '0.1': metrics must be numbers"],
  ['no object', () => train.report(3 as never), 'report: the metrics are the number 3: give numbers by name'],
  ['no folder', () => train.report({}, { checkpoint: '/nowhere' }), 'there is no folder /nowhere'],
  [
    'the folder of the run as its checkpoint',
    () => {
      const { trialDir } = train.getContext();
      fs.mkdirSync(trialDir!, { recursive: true });
      return train.report({}, { checkpoint: trialDir });
    },
    "contains the run's own folder: use a folder outside of it",
  ],
  [
    'no checkpoint',
    () => train.report({}, { checkpoint: 7 as never }),
    'checkpoint is the number 7: give a Checkpoint',
  ],
  ['no data', () => train.getDatasetShard('train'), "there is no dataset 'train': TorchTrainer has none"],
  ['no tensor', () => train.toDevice(3), 'toDevice: expected tensors, got the number 3'],
  ['no loader', () => train.prepareDataLoader([] as never), 'prepareDataLoader: expected a DataLoader, got an Array'],
  [
    'another run',
    () => new train.TorchTrainer({ trainLoopPerWorker: () => {} }).fit(),
    'a training loop is already running in this process',
  ],
])('in the loop, %s is an error', async (_, loop, message) => {
  await expect(runLoop(loop)).rejects.toThrow(message);
});

test('outside of a loop there is nothing to ask', async () => {
  expect(() => train.getContext()).toThrow(
    'getContext: no training loop is running: call it inside trainLoopPerWorker',
  );
  await expect(train.report({})).rejects.toThrow('report: no training loop is running');
});

test('a metric that is no number any more can be reported', async () => {
  expect((await runLoop(() => train.report({ loss: Number.NaN, n: 3n }))).metrics).toEqual({ loss: Number.NaN, n: 3 });
});

test('where the run is kept at an address, a checkpoint is saved in a folder of this machine, until it is kept', async () => {
  const seen: string[] = [];
  const link = {
    async report(_: train.Metrics, checkpoint: string | null) {
      expect(fs.readdirSync(checkpoint!).length).toBeGreaterThan(0);
      expect(path.dirname(checkpoint!)).toMatch(/\/tsxla-saving-\w{6}$/); // not to be guessed by others
      expect(fs.statSync(path.dirname(checkpoint!)).mode & 0o777).toBe(0o700);
      seen.push(checkpoint!);
    },
  };
  const spec = { name: 'run', attempt: 0, storage: null, checkpoint: null, reduce: 'none' };
  const loop = new Loop({ rank: 0, worldSize: 1 } as never, spec as never, link as never, {} as never);
  await withLoop(loop, async () => {
    await train.report({ loss: 1 }, { checkpoint: await save({ step: 1 }) });
    expect(fs.existsSync(seen[0]!)).toBe(false);
    await save({ step: 2 }); // and never reported
  });
  expect(fs.existsSync(path.dirname(seen[0]!))).toBe(false);
});

test('after a restart each worker draws as it would have: from its own seed', async () => {
  const folder = folders.newFolder();
  const saves = new tx.io.CheckpointManager(folder);
  const draw = () => tx.rand([2]).tolist();
  tx.manualSeed(7);
  await draw();
  await saves.save(0, { step: 1 }); // the first worker's, whose seed is another
  await saves.done();
  tx.manualSeed(8);
  await draw();
  const next = await draw();
  const spec = { name: 'run', attempt: 1, storage: folder, checkpoint: folder, reduce: 'engine' };
  const loop = new Loop({ rank: 1, worldSize: 2 } as never, spec as never, {} as never, {} as never);
  await withLoop(loop, async () => {
    tx.manualSeed(8);
    await train.getCheckpoint()!.load();
    expect(await draw()).toEqual(next);
  });
});

test.each(['xla', 'engine'])('averageMetrics: the mean over workers, with gradients reduced by: %s', async (reduce) => {
  const other = Float64Array.of(3, 2 ** 40 + 2);
  let names: ArrayLike<number> | undefined;
  const link = {
    /** The names of the other worker. Default: the same. */
    async reduce(_: string, data: Float32Array) {
      const own = data.subarray(0, data.length / 2);
      const theirs = new Uint8Array(other.buffer).subarray(0, own.length - 8);
      return Float32Array.of(...own, ...Array.from(names ?? own.subarray(0, 8)), ...theirs);
    },
  };
  const loop = new Loop({ rank: 0, worldSize: 2 } as never, { reduce } as never, link as never, {} as never);
  await withLoop(loop, async () => {
    expect(await train.averageMetrics({ loss: 1, tokens: 2 ** 40 })).toEqual({ loss: 2, tokens: 2 ** 40 + 1 });
    names = new Uint8Array(8);
    await expect(train.averageMetrics({ loss: 1 })).rejects.toThrow(
      'averageMetrics: worker 0 passed loss, and worker 1 other names: all workers must pass the same names',
    );
    await expect(train.averageMetrics({ loss: '1' } as never)).rejects.toThrow('averageMetrics: loss is');
  });
});

test('workers that XLA joins must begin alike: another seed is refused', async () => {
  const sent: Uint8Array[] = [];
  const link = {
    /** The other worker, whose seed is the first one's. */
    async reduce(_: string, data: Float32Array) {
      sent.push(Uint8Array.from(data.subarray(32)));
      return Float32Array.of(...sent[0]!, ...data.subarray(32));
    },
  };
  const mesh = new tx.spmd.Mesh([4], ['data']);
  const spec = { reduce: 'xla' };
  const loop = new Loop({ rank: 1, worldSize: 2, mesh } as never, spec as never, link as never, {} as never);
  const prepared = (seed: number) => {
    tx.manualSeed(seed);
    return train.prepareModel(new tx.nn.Linear(2, 3));
  };
  await withLoop(loop, async () => {
    await prepared(1);
    await prepared(1);
    await expect(prepared(2)).rejects.toThrow(
      'prepareModel: the model or the seed of worker 1 differs from that of worker 0: call tx.manualSeed',
    );
  });
  expect(sent.map((hash) => hash.length)).toEqual([32, 32, 32]);
});

test('workers that XLA should have joined, and has not; a storage that they cannot write together', async () => {
  vi.stubEnv('WORLD_SIZE', '2');
  const spec = { reduce: 'xla', devices: 'cpu', storage: null, attempt: 0 };
  try {
    await expect(asLoop(spec as never, {} as never, {} as never)).rejects.toThrow(
      'the run has 2 workers, but the device has joined 1',
    );
  } finally {
    vi.unstubAllEnvs();
  }
  const loop = new Loop({ rank: 1, worldSize: 2 } as never, spec as never, {} as never, {} as never);
  await withLoop(loop, async () => {
    await expect(save({})).rejects.toThrow('set storagePath to a folder that all machines share');
  });
});

test('a run of a Ray cluster is left as it is', async () => {
  const storagePath = folders.newFolder();
  fs.mkdirSync(path.join(storagePath, 'run/checkpoint_2026-11-16_03-13-14.560197'), { recursive: true });
  await expect(runLoop(() => {}, { storagePath })).rejects.toThrow(
    'has checkpoints of a run on a Ray cluster, which have another format: give the address of the cluster, or use another name',
  );
});
