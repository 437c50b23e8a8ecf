// Checkpoints: what is saved comes back, what is damaged is noticed, and the last good one is never lost.
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import fsp from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import * as tx from 'tsxla';
import { afterAll, expect, test, vi } from 'vitest';
import { defaultClient } from '../dist/runtime/value.js';
import { javaScriptOf } from './javascript.js';

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-checkpoint-'));
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));
let folders = 0;
const folder = () => path.join(scratch, String(folders++));
const { CheckpointManager } = tx.io;

const twoLayers = () => new tx.nn.Sequential(new tx.nn.Linear(3, 4), new tx.nn.BatchNorm1d(4), new tx.nn.Linear(4, 2));
const valuesOf = async (module: tx.nn.Module) =>
  Object.fromEntries(
    await Promise.all([...module.stateDict()].map(async ([name, t]) => [name, await t.tolist()] as const)),
  );

test('a model, an optimizer, the random generator and plain values come back', async () => {
  const dir = folder();
  const model = twoLayers();
  const optimizer = new tx.optim.AdamW(model.parameters(), { lr: 0.1 });
  const learn = async () => {
    model
      .forward(tx.ones([5, 3]))
      .sum()
      .backward();
    optimizer.step();
    optimizer.zeroGrad();
    await tx.sync();
  };
  await learn();
  const manager = new CheckpointManager(dir);
  const notes = {
    epoch: 3,
    names: ['a', 'b'],
    big: 2n ** 60n,
    worst: Number.POSITIVE_INFINITY,
    table: new Map([[1, tx.arange(3)]]),
  };
  await manager.save(10, { model, optimizer, notes }, { metrics: { loss: 0.5 } });
  const [saved, draw] = [await valuesOf(model), await tx.rand([4]).tolist()];
  await learn();
  const after = await valuesOf(model);
  expect(after).not.toEqual(saved);

  await manager.done(); // it is written while the next step runs
  const restored = await new CheckpointManager(dir).load({ model, optimizer });
  expect(restored).toMatchObject({ step: 10, metrics: { loss: 0.5 } });
  expect(await valuesOf(model)).toEqual(saved);
  expect(await tx.rand([4]).tolist()).toEqual(draw);
  const { table, ...others } = restored!.values.notes as typeof notes;
  expect(others).toEqual({ epoch: 3, names: ['a', 'b'], big: 2n ** 60n, worst: Number.POSITIVE_INFINITY });
  expect(Array.from((table.get(1) as unknown as { data: BigInt64Array }).data)).toEqual([0n, 1n, 2n]);
  await learn(); // with the moments of then
  expect(await valuesOf(model)).toEqual(after);
});

test('stacked layers are saved by the names of each', async () => {
  const dir = folder();
  const stack = new tx.nn.LayerStack([new tx.nn.Linear(2, 2), new tx.nn.Linear(2, 2), new tx.nn.Linear(2, 2)]);
  const manager = new CheckpointManager(dir, { background: false });
  await manager.save(1, { stack });
  const file = await tx.io.readSafetensors(path.join(dir, 'step-00000001/stack.safetensors'));
  expect([...file.keys()].sort()).toEqual(['0.bias', '0.weight', '1.bias', '1.weight', '2.bias', '2.weight']);
  const other = new tx.nn.LayerStack([new tx.nn.Linear(2, 2), new tx.nn.Linear(2, 2), new tx.nn.Linear(2, 2)]);
  await manager.load({ stack: other });
  expect(await valuesOf(other)).toEqual(await valuesOf(stack));
});

test('the newest are kept, and the best', async () => {
  const manager = new CheckpointManager(folder(), { keep: 2, best: { metric: 'loss' } });
  for (const [i, loss] of [3, 1, 2, 5, 4].entries()) await manager.save(i, { n: i }, { metrics: { loss } });
  await manager.done();
  expect(manager.list().map((c) => c.step)).toEqual([1, 3, 4]);
  expect(manager.best?.step).toBe(1);
  expect((await manager.load({}, { step: 'best' }))?.values).toEqual({ n: 1 });
  const other = new CheckpointManager(manager.dir, { best: { metric: 'val' } });
  await expect(other.load({}, { step: 'best' })).rejects.toThrow('no checkpoint in');
  await expect(manager.load({}, { step: 2 })).rejects.toThrow('has no checkpoint of step 2: it has 1, 3, 4');
  expect(await new CheckpointManager(folder()).load()).toBeUndefined();
});

test('a file that is cut off, changed or missing is noticed, and the one before is used', async () => {
  const dir = folder();
  const manager = new CheckpointManager(dir);
  const model = twoLayers();
  for (const step of [1, 2]) await manager.save(step, { model, step });
  await manager.done();
  const file = path.join(dir, 'step-00000002/model.safetensors');
  const whole = fs.readFileSync(file);
  const damage: [string, () => void, string][] = [
    ['cut', () => fs.writeFileSync(file, whole.subarray(0, whole.length - 1)), 'bytes, but had'],
    [
      'changed',
      () =>
        fs.writeFileSync(
          file,
          whole.map((b, i) => (i === whole.length - 3 ? b ^ 1 : b)),
        ),
      'has changed since',
    ],
    ['gone', () => fs.rmSync(file), 'model.safetensors is missing'],
  ];
  for (const [, harm, message] of damage) {
    harm();
    await expect(manager.load({ model }, { step: 2 })).rejects.toThrow(message);
    expect((await manager.load({ model }))?.values).toEqual({ step: 1 });
    fs.writeFileSync(file, whole);
  }
  // Cut off at any byte, the list of what is there is no list.
  const manifest = path.join(dir, 'step-00000002/checkpoint.json');
  const text = fs.readFileSync(manifest);
  for (let n = 0; n < text.length - 1; n += 13) {
    fs.writeFileSync(manifest, text.subarray(0, n));
    expect((await manager.load({ model }))?.step).toBe(1);
  }
});

test('a rate, a count or a step that has changed in the list of what is there is noticed, whichever byte it is', async () => {
  const dir = folder();
  const manager = new CheckpointManager(dir, { background: false });
  const optimizer = new tx.optim.SGD([new tx.nn.Parameter(tx.zeros([2]))], { lr: 0.1 });
  await manager.save(1, { optimizer, place: { epoch: 3, batch: 17 } }, { metrics: { loss: 2.5 } });
  const manifest = path.join(dir, 'step-00000001/checkpoint.json');
  const text = fs.readFileSync(manifest);
  const load = () => manager.load({ optimizer }, { rng: false });
  const whole = await load();
  for (let at = 0; at < text.length; at++) {
    fs.writeFileSync(
      manifest,
      text.map((byte, i) => (i === at ? byte ^ 1 : byte)),
    );
    expect([null, whole]).toContainEqual(await load().catch(() => null));
    expect(optimizer.paramGroups[0]!.lr).toBe(0.1);
  }
});

test('a manifest or an index that says something else, with right checksums, is refused, and the one before is used', async () => {
  const dir = folder();
  const manager = new CheckpointManager(dir, { background: false });
  const model = new tx.nn.Linear(3, 2);
  for (const step of [1, 2]) await manager.save(step, { model, note: { table: new Map([[1, 2]]) } });
  const [manifest, index] = ['checkpoint.json', 'arrays.json'].map((name) => path.join(dir, 'step-00000002', name)) as [
    string,
    string,
  ];
  const [saved, arrays] = [manifest, index].map((file) => JSON.parse(fs.readFileSync(file, 'utf8')));
  const hash = (text: string) => createHash('sha256').update(text).digest('hex');
  type Tree = Record<string, never>;
  const write = (about: object, parts: object = arrays) => {
    const text = JSON.stringify(parts);
    fs.writeFileSync(index, text);
    const { sha256: _, ...rest } = { ...saved, ...about } as Tree;
    const files =
      'files' in about ? rest.files! : { ...saved.files, 'arrays.json': { bytes: text.length, sha256: hash(text) } };
    const content = { ...rest, files };
    fs.writeFileSync(manifest, JSON.stringify({ ...content, sha256: hash(JSON.stringify(content)) }));
  };
  const part = arrays.model.weight.parts[0];
  const weight = (change: object) => ({
    ...arrays,
    model: { ...arrays.model, weight: { ...arrays.model.weight, ...change } },
  });
  const wrong: [() => void, string][] = [
    [() => write({ stateful: undefined }), '"stateful" is missing: expected a list'],
    [() => write({ items: null }), '"items" is null: expected an object'],
    [() => write({ step: '2' }), '"step" is "2": expected a whole number'],
    [() => write({ metrics: 7 }), '"metrics" is 7: expected an object'],
    [() => write({ files: { '../x': { bytes: 1 } } }), 'names ../x, which is not a file in its folder'],
    [() => write({ items: { ...saved.items, note: { table: { $map: 256 } } } }), 'cannot read the state of note'],
    [() => write({ items: { ...saved.items, note: { $tensor: 'gone' } } }), 'no array "gone"'],
    [() => write({ items: { ...saved.items, note: { $bigint: 'x' } } }), 'expected an integer'],
    [() => write({}, { ...arrays, model: null }), 'expected an object'],
    [() => write({}, weight({ parts: 'x' })), '"parts" is "x": expected a list'],
    [() => write({}, weight({ parts: [{ ...part, file: '../x' }] })), 'names ../x'],
    // As many elements as there should be, and some of them twice.
    [
      () => write({}, weight({ parts: [0, 0].map((row) => ({ ...part, start: [row, 0], shape: [1, 3] })) })),
      'inside another part',
    ],
  ];
  for (const [harm, message] of wrong) {
    harm();
    await expect(manager.load({ model }, { step: 2 }), message).rejects.toThrow(message);
    await expect(manager.load({ model }, { step: 2 }), message).rejects.toThrow(tx.CheckpointError);
    expect((await manager.load({ model }))?.step, message).toBe(1);
  }
  write({ items: { ...saved.items, rng: null } });
  await expect(manager.load({ model })).rejects.toThrow('has no state of the random generator');
  expect((await manager.load({ model }, { rng: false }))?.step).toBe(2);
});

test('saves that are not awaited are written one after the other, and the last one is the newest', async () => {
  const manager = new CheckpointManager(folder(), { keep: 9 });
  const saves = [5, 4, 3, 2, 1].map((step) => manager.save(step, { step }));
  await manager.done();
  expect(manager.list().map((c) => c.step)).toEqual([5, 4, 3, 2, 1]);
  await Promise.all(saves);
  expect((await manager.load())?.values).toEqual({ step: 1 });
});

test('a damaged checkpoint that had made room for another does not keep the folder from being used', async () => {
  const dir = folder();
  await new CheckpointManager(dir, { background: false }).save(1, { a: 1 });
  const left = path.join(dir, `.unfinished-${os.hostname().replace(/\W/g, '_')}-999999999-x.2-former`);
  fs.mkdirSync(left);
  fs.writeFileSync(path.join(left, 'checkpoint.json'), '{');
  expect((await new CheckpointManager(dir).load())?.step).toBe(1);
});

test('what cannot be saved or does not fit is said, and nothing is changed', async () => {
  const dir = folder();
  const manager = new CheckpointManager(dir, { background: false });
  const model = twoLayers();
  await manager.save(1, { model });
  await expect(manager.save(2, { when: new Date(0) })).rejects.toThrow(
    'when is a Date: save something with stateDict()',
  );
  await expect(manager.save(2, model as never)).rejects.toThrow('pass an object with items by name: { model }');
  await expect(manager.load(model as never)).rejects.toThrow('pass an object with items by name: { model }');
  await expect(manager.save(2, { rng: 1 })).rejects.toThrow('the name rng is reserved for the random generator');
  await expect(manager.save(-1, {})).rejects.toThrow('the step is -1');
  await expect(manager.save(2, { '../evil': 1 })).rejects.toThrow('"../evil" is not a valid file name');
  await expect(manager.load({ model, optimizer: new tx.optim.SGD(model.parameters(), { lr: 1 }) })).rejects.toThrow(
    'has no optimizer: it has model',
  );
  await expect(manager.load({ model: new tx.nn.Linear(2, 2) })).rejects.toThrow('Unexpected key(s)');
  expect(manager.latest?.step).toBe(1);
  // All of it, or nothing: where the second does not fit, the first is as it was.
  const [a, b] = [new tx.nn.Linear(2, 2), new tx.nn.Linear(2, 2)];
  const optimizer = new tx.optim.AdamW(a.parameters(), { lr: 0.5 });
  await manager.save(3, { a, optimizer, b });
  tx.nn.init.zeros_(a.weight);
  optimizer.paramGroups[0]!.lr = 0.25;
  await expect(manager.load({ a, optimizer, b: new tx.nn.Linear(3, 3) })).rejects.toThrow('size mismatch');
  expect(await a.weight.tolist()).toEqual([
    [0, 0],
    [0, 0],
  ]);
  expect(optimizer.paramGroups[0]!.lr).toBe(0.25);
  fs.writeFileSync(path.join(dir, '..', 'file'), '');
  expect(() => new CheckpointManager(path.join(dir, '../file'))).toThrow('for checkpoints');
});

test('names and keys of any kind come back as they were', async () => {
  const manager = new CheckpointManager(folder(), { background: false });
  const odd = { 'a.b': tx.tensor([1]), a: { b: tx.tensor([2]) }, $tensor: 'x', $$n: 1, $number: '5' };
  await manager.save(1, { odd });
  const back = (await manager.load())!.values.odd as Record<string, unknown>;
  const first = (x: unknown) => Number((x as { data: BigInt64Array }).data[0]);
  expect([first(back['a.b']), first((back.a as Record<string, unknown>).b)]).toEqual([1, 2]);
  expect(back).toMatchObject({ $tensor: 'x', $$n: 1, $number: '5' });
});

test('saving holds nothing on the device: the next step gives its old values up as before', async () => {
  const stack = new tx.nn.LayerStack([new tx.nn.Linear(4, 4), new tx.nn.Linear(4, 4)]);
  const optimizer = new tx.optim.AdamW(stack.parameters(), { lr: 0.1 });
  const train = tx.compile((x: tx.Tensor) => {
    stack.forward(x).sum().backward();
    optimizer.step();
    optimizer.zeroGrad();
  });
  const x = tx.ones([2, 4]);
  const live = async () => {
    await train(x);
    await tx.sync({ wait: true });
    return (await defaultClient()).live.buffers;
  };
  await live();
  const before = await live();
  const manager = new CheckpointManager(folder());
  await manager.save(1, { stack, optimizer });
  expect(await live()).toBe(before);
});

test('another manager of the folder does not disturb a save, and what went wrong in the background is told', async () => {
  const dir = folder();
  const manager = new CheckpointManager(dir);
  await manager.save(1, { large: tx.zeros([1 << 20]) });
  new CheckpointManager(dir); // while it is written
  await manager.done();
  expect(manager.list().map((c) => c.step)).toEqual([1]);
  // Killed between giving way and taking the place, the former checkpoint of the step is put back.
  fs.renameSync(
    path.join(dir, 'step-00000001'),
    path.join(dir, `.unfinished-${os.hostname().replace(/\W/g, '_')}-999999-x.1-former`),
  );
  expect(new CheckpointManager(dir).latest?.step).toBe(1);
  await manager.save(1, { small: 1 });
  await manager.done();
  expect((await manager.load())?.values).toEqual({ small: 1 });
  fs.rmSync(dir, { recursive: true });
  await manager.save(2, { small: 1 });
  await expect(manager.save(3, {})).rejects.toThrow('cannot save the checkpoint of step 2');
});

const program = await javaScriptOf('test/checkpoint-case.ts');
afterAll(() => fs.rmSync(program));
const run = (dir: string, steps: number, every: number) =>
  promisify(execFile)(process.execPath, [program, dir, String(steps), String(every)]);

test('a disk that fills while saving: an error that says so, the last good checkpoint untouched', async () => {
  const dir = folder();
  // The shell's limit on the size of files stands for a full disk: what does not fit is refused.
  const code = `
    import * as tx from 'tsxla';
    const manager = new tx.io.CheckpointManager(${JSON.stringify(dir)}, { background: false });
    await manager.save(1, { small: tx.zeros([10]) });
    await manager.save(2, { large: tx.zeros([1 << 20]) }).catch((e) => console.log(e.name + ': ' + e.message));
    console.log(JSON.stringify((await manager.load())?.step), manager.list().length);
  `;
  const file = path.join(scratch, 'full.mjs');
  fs.writeFileSync(file, code.replace("'tsxla'", JSON.stringify(path.resolve('dist/index.js'))));
  const { stdout } = await promisify(execFile)('bash', ['-c', `trap '' XFSZ; ulimit -f 1024; exec node ${file}`], {
    env: { ...process.env, TSXLA_CACHE: 'off' },
  });
  expect(stdout).toContain('CheckpointError: cannot save the checkpoint of step 2');
  expect(stdout).toContain('EFBIG');
  expect(stdout.trim().split('\n').at(-1)).toBe('1 1');
  expect(fs.readdirSync(dir)).toEqual(['step-00000001']);
});

test('told to end twice, it does not wait for the end of a step', async () => {
  const code = `import * as tx from ${JSON.stringify(path.resolve('dist/index.js'))};
    const manager = new tx.io.CheckpointManager(${JSON.stringify(folder())}, { every: 1000 });
    await manager.tick(1, {});
    console.log('ready');
    setTimeout(() => {}, 60_000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code]);
  let said = '';
  child.stdout.on('data', () => child.kill('SIGINT'));
  child.stderr.on('data', (data) => {
    if (!said) child.kill('SIGINT');
    said += data;
  });
  const signal = await new Promise((resolve) => child.on('close', (_, signal) => resolve(signal)));
  expect(signal).toBe('SIGINT');
  expect(said).toContain('SIGINT received: saving a checkpoint after this step; send it again to exit now');
});

test('SIGTERM saves; a resumed run ends as one that was never stopped', async () => {
  const [whole, cut] = [folder(), folder()];
  const { stdout } = await run(whole, 20, 6);
  const child = spawn(process.execPath, [program, cut, '20', '1000']);
  let said = '';
  child.stdout.on('data', (data) => {
    said += data;
    if (!child.killed && /^9 /m.test(said)) child.kill('SIGTERM');
  });
  await new Promise((resolve) => child.on('close', resolve));
  const at = new CheckpointManager(cut).latest!.step;
  expect(at).toBeGreaterThanOrEqual(9);
  expect(at).toBeLessThan(20);
  const again = await run(cut, 20, 6);
  expect(again.stdout).toContain(`from ${at}`);
  expect(again.stdout).toMatch(/hash [0-9a-f]{64}/);
  expect(again.stdout.split('hash')[1]).toBe(stdout.split('hash')[1]);
});

test('a run that goes back to an earlier step continues from there, whatever was saved before', async () => {
  const manager = new CheckpointManager(folder(), { keep: 3, background: false });
  for (const step of [100, 200, 300]) await manager.save(step, { run: 1 });
  await manager.load({}, { step: 100 });
  await manager.save(110, { run: 2 });
  expect(manager.list().map((c) => c.step)).toEqual([200, 300, 110]);
  expect(await manager.load()).toMatchObject({ step: 110, values: { run: 2 } });
});

test('what is saved is what was there when save was called', async () => {
  const manager = new CheckpointManager(folder(), { keep: 9 });
  const w = tx.zeros([3]);
  const array = { dtype: 'f32', shape: [1], data: Float32Array.of(1) } as const;
  const saves: Promise<void>[] = [];
  for (const step of [1, 2, 3]) {
    w.add_(1);
    saves.push(manager.save(step, { w, array }));
  }
  await Promise.all(saves);
  array.data[0] = 9;
  await manager.done();
  for (const step of [1, 2, 3]) {
    const { values } = (await manager.load({}, { step }))!;
    expect(values).toMatchObject({
      w: { data: Float32Array.of(step, step, step) },
      array: { data: Float32Array.of(1) },
    });
  }
});

test('a checkpoint can be looked at without going back in random numbers', async () => {
  const manager = new CheckpointManager(folder(), { background: false });
  await manager.save(1, {});
  const [a, b] = [await tx.rand([2]).tolist(), await tx.rand([2]).tolist()];
  await manager.load({}, { rng: false });
  const c = await tx.rand([2]).tolist();
  await manager.load();
  expect(await tx.rand([2]).tolist()).toEqual(a);
  expect([a, b]).not.toContainEqual(c);
});

test.runIf(process.platform === 'linux')('a folder that cannot be made is an error at once', () => {
  expect(() => new CheckpointManager('/proc/x/y')).toThrow('cannot use /proc/x/y for checkpoints');
});

test('a process that ends while it removes an old checkpoint, or that fails while one is written, leaves whole ones', async () => {
  const dir = folder();
  const model = twoLayers();
  {
    await using manager = new CheckpointManager(dir, { keep: 1 });
    await manager.save(1, { model });
    await manager.done();
    const rm = vi.spyOn(fsp, 'rm').mockImplementation(async (folder) => {
      for (const name of fs.existsSync(String(folder)) ? ['checkpoint.json'] : [])
        fs.rmSync(path.join(String(folder), name)); // and no further
    });
    await manager.save(2, { model });
    await manager.done();
    rm.mockRestore();
    await manager.save(3, { model }); // it is written when the manager is disposed of
  }
  expect(fs.readdirSync(dir).filter((name) => !name.startsWith('.'))).toEqual(['step-00000003']);
  new CheckpointManager(dir);
  expect(fs.readdirSync(dir)).toEqual(['step-00000003']);
});
