// XLACompiler: what is compiled, when, and what is remembered of it.
process.env.TSXLA_CACHE = 'off';

import * as tx from 'tsxla';
import {
  basicConfig,
  TPUConfig,
  TPUValidationError,
  XLACompilationError,
  XLACompilationTimeoutError,
  XLACompiler,
} from 'tsxla/backend';
import { expect, test } from 'vitest';
import { collectGarbage } from '../../dist/runtime/memory.js';
import { programCount } from '../../dist/runtime/program.js';

const mlp = (width = 8) =>
  new tx.nn.Sequential(new tx.nn.Linear(4, width), new tx.nn.GELU(), new tx.nn.Linear(width, 2));
const compiles = () => tx.metrics.counter('StableHloCompile') ?? 0;
const list = async (t: tx.Tensor) => Array.from((await t.data()) as Float32Array);
const x = tx.randn([3, 4]);
await tx.sync(x);

test('it compiles now, and the compiled model gives what forward gives', async () => {
  const model = mlp();
  const compiler = new XLACompiler();
  await tx.sync(...model.parameters());
  const before = compiles();
  const compiled = await compiler.compileModel(model, x);
  expect(compiles() - before).toBe(1);
  const y = await compiled(x);
  expect(compiles() - before).toBe(1); // nothing more
  expect(await list(y)).toEqual(await list(await tx.compile((x: tx.Tensor) => model.forward(x))(x)));
  expect(compiled.model).toBe(model);
  expect(compiled.program!.memory.arguments).toBeGreaterThan(0);
});

test('the same model and kind of inputs is found again; what differs is not', async () => {
  const [model, compiler] = [mlp(), new XLACompiler()];
  const first = await compiler.compileModel(model, x);
  expect(await compiler.compileModel(model, tx.zeros([3, 4]))).toBe(first);
  expect(await compiler.compileModel(model, [tx.zeros([3, 4])])).toBe(first);
  expect(await compiler.compileModel(model, tx.zeros([5, 4]))).not.toBe(first);
  expect(compiler.getCompilationStats()).toMatchObject({ hits: 2, misses: 2, hitRate: 0.5, cachedGraphs: 2 });
  expect(compiler.getCompilationStats().compilationCache).toMatchObject({ hits: 2, misses: 2, evictions: 0, size: 2 });
});

test('two models of one architecture share the program, never a result', async () => {
  const [a, b, compiler] = [mlp(), mlp(), new XLACompiler()];
  await tx.sync(...a.parameters(), ...b.parameters());
  const [one, before] = [await compiler.compileModel(a, x), compiles()];
  const other = await compiler.compileModel(b, x);
  expect(compiles()).toBe(before); // weights are inputs of the program
  expect(other).not.toBe(one);
  expect(await list(await one(x))).toEqual(await list(await tx.step(() => a.forward(x))));
  expect(await list(await other(x))).toEqual(await list(await tx.step(() => b.forward(x))));
  expect(await list(await one(x))).not.toEqual(await list(await other(x)));
  expect(compiler.getCompilationStats()).toMatchObject({ misses: 2, cachedGraphs: 1 });
});

test('weights are used as they are at each call: loaded, trained, in another dtype, or of another layer', async () => {
  const [model, other, compiler] = [mlp(), mlp(), new XLACompiler()];
  const compiled = await compiler.compileModel(model, x);
  await compiled(x);
  model.loadStateDict(other.stateDict());
  expect(await list(await compiled(x))).toEqual(await list(await tx.step(() => other.forward(x))));
  model.setSubmodule('2', new tx.nn.Linear(8, 5));
  const wider = await compiled(x);
  expect(wider.shape).toEqual([3, 5]);
  expect(await list(wider)).toEqual(await list(await tx.step(() => model.forward(x))));
  expect(await compiler.compileModel(model, x)).not.toBe(compiled);
  model.to('bf16');
  expect((await (await compiler.compileModel(model, x.to('bf16')))(x.to('bf16'))).dtype).toBe('bf16');
});

test('layers that were there before and change places are noticed, in fields and in lists', async () => {
  class Pair extends tx.nn.Module {
    first = new tx.nn.Linear(4, 4);
    more = [new tx.nn.Linear(4, 4)];
    override forward(x: tx.Tensor) {
      return this.more[0]!.forward(this.first.forward(x).relu());
    }
  }
  const [spare, model, compiler] = [new tx.nn.Linear(4, 4), new Pair(), new XLACompiler()];
  const layers = new tx.nn.Sequential(new tx.nn.Linear(4, 4), new tx.nn.ReLU());
  const [compiled, stacked] = [await compiler.compileModel(model, x), await compiler.compileModel(layers, x)];
  const expectSame = async () => {
    expect(await list(await compiled(x))).toEqual(await list(await tx.step(() => model.forward(x))));
    expect(await list(await stacked(x))).toEqual(await list(await tx.step(() => layers.forward(x))));
  };
  await expectSame();
  layers.setSubmodule('0', spare);
  await expectSame();
  [model.first, model.more[0]] = [model.more[0]!, model.first];
  await expectSame();
  model.more[0] = spare;
  await expectSame();
  Object.assign(model.first, { weight: spare.weight });
  await expectSame();
  const three = Object.assign(new Pair(), { third: spare });
  Object.assign(three, {
    forward: (x: tx.Tensor) => three.first.forward(three.third.forward(x)),
    third: three.first, // it has this one twice
    more: [three.more[0], spare],
  });
  const twice = await compiler.compileModel(three, x);
  await twice(x);
  three.third = spare;
  expect(await list(await twice(x))).toEqual(await list(await tx.step(() => three.forward(x))));
});

test('dropout and batch norm follow train() and eval()', async () => {
  const model = new tx.nn.Sequential(new tx.nn.Linear(4, 64), new tx.nn.Dropout(0.5));
  const compiled = await new XLACompiler().compileModel(model.eval(), x);
  expect(await list(await compiled(x))).toEqual(await list(await compiled(x)));
  model.train();
  expect(await list(await compiled(x))).not.toEqual(await list(await compiled(x)));
});

test('the least recently used one makes room, and is reported', async () => {
  const lines: string[] = [];
  basicConfig({ level: 'info', format: 'json', write: (line) => lines.push(line) });
  const compiler = new XLACompiler(new TPUConfig({ cacheMaxSize: 2 }));
  const models = [mlp(5), mlp(6), mlp(7)];
  for (const model of models) await compiler.compileModel(model, x);
  expect(compiler.getCompilationStats()).toMatchObject({ evictions: 1, cachedGraphs: 2, cacheMaxSize: 2 });
  await compiler.compileModel(models[1]!, x); // still there
  expect(compiler.getCompilationStats().hits).toBe(1);
  await compiler.compileModel(models[0]!, x); // not any more; now models[2] is the oldest
  expect(compiler.getCompilationStats()).toMatchObject({ hits: 1, misses: 4, evictions: 2 });
  const records = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(records.filter((r) => r.message === 'model compiled')).toHaveLength(4);
  const evicted = records.filter((r) => r.message === 'compiled model evicted from the cache');
  expect(evicted).toHaveLength(2);
  expect(evicted[0]).toMatchObject({ level: 'INFO', model: 'Sequential', kept: 2 });
  basicConfig({ level: 'silent' });
});

test("a garbage-collected model's entry goes, and with it the program that no other uses", async () => {
  const compiler = new XLACompiler();
  const { counter } = tx.metrics;
  const freed = counter('DestroyCompileHandles') ?? 0;
  await (async () => {
    const compiled = await compiler.compileModel(mlp(9), x);
    await (await compiled(x)).data();
  })();
  expect(compiler.getCompilationStats().cachedGraphs).toBe(1);
  for (let i = 0; i < 10 && compiler.getCompilationStats().cachedGraphs; i++) await collectGarbage();
  expect(compiler.getCompilationStats()).toMatchObject({ cachedGraphs: 0, bytes: 0 });
  expect(compiler.getCompilationStats().compilationCache).toMatchObject({ collected: 1, evictions: 0 });
  expect((counter('DestroyCompileHandles') ?? 0) - freed).toBe(1);
});

test('without the cache it is compiled each time', async () => {
  const [model, before] = [mlp(10), compiles()];
  const compiler = new XLACompiler(new TPUConfig({ enableXlaCache: false }));
  const [a, b] = [await compiler.compileModel(model, x), await compiler.compileModel(model, x)];
  expect(a).not.toBe(b);
  expect(compiles() - before).toBeGreaterThanOrEqual(2);
  expect(compiler.getCompilationStats()).toMatchObject({ hits: 0, misses: 0, cachedGraphs: 0 });
  const cached = await compiler.compileModel(model, x, { useCache: true });
  expect(await compiler.compileModel(model, x, { useCache: true })).toBe(cached);
  expect(await list(await a(x))).toEqual(await list(await cached(x)));
});

test('one that makes room while it is compiled leaves no program behind', async () => {
  const compiler = new XLACompiler(new TPUConfig({ cacheMaxSize: 1 }));
  const models = [31, 32, 33, 34].map((width) => mlp(width));
  await tx.sync(...models.flatMap((model) => model.parameters()));
  const before = programCount();
  const all = await Promise.all(models.map((model) => compiler.compileModel(model, x)));
  expect(programCount()).toBe(before + 1);
  for (const [i, compiled] of all.entries())
    expect(await list(await compiled(x))).toEqual(await list(await tx.step(() => models[i]!.forward(x))));
});

test('clearCache frees programs; compiled models that were handed out make them again', async () => {
  const [model, compiler] = [mlp(11), new XLACompiler()];
  const compiled = await compiler.compileModel(model, x);
  const y = await list(await compiled(x));
  compiler.clearCache();
  expect(compiler.getCompilationStats()).toMatchObject({ cachedGraphs: 0, bytes: 0 });
  expect(await list(await compiled(x))).toEqual(y);
});

test('a compile that takes too long is an error of its name, and is found later', async () => {
  const config = new TPUConfig({ compilationTimeoutSeconds: 1e-3 });
  const [model, compiler] = [mlp(12), new XLACompiler(config)];
  await expect(compiler.compileModel(model, x)).rejects.toThrow(XLACompilationTimeoutError);
  await expect(compiler.compileModel(mlp(13), x)).rejects.toThrow(
    /compileModel: Sequential: compiling Sequential .* took more than 0.001 s: nothing was run/,
  );
  config.compilationTimeoutSeconds = 60;
  expect((await (await compiler.compileModel(model, x))(x)).shape).toEqual([3, 2]);
});

test('compilationMode xla keeps to the sample inputs; torch_xla takes others as they come', async () => {
  const model = mlp();
  const strict = new XLACompiler(new TPUConfig({ compilationMode: 'xla' }));
  const compiled = await strict.compileModel(model, x);
  expect((await compiled(x)).shape).toEqual([3, 2]);
  await expect(compiled(tx.zeros([7, 4]))).rejects.toThrow(XLACompilationError);
  await expect(strict.compileModel(model)).rejects.toThrow(
    /compilationMode xla compiles Sequential for its sample inputs/,
  );
  const lax = await new XLACompiler().compileModel(model);
  expect(lax.program).toBeUndefined();
  expect((await lax(tx.zeros([7, 4]))).shape).toEqual([7, 2]);
});

test('xlaOptimizationLevel reaches XLA', async () => {
  const hashes = [0, 1, 2].map(async (xlaOptimizationLevel) => {
    const compiler = new XLACompiler(new TPUConfig({ xlaOptimizationLevel: xlaOptimizationLevel as 0 }));
    return (await compiler.compileModel(mlp(), x)).program!.hash;
  });
  expect(new Set(await Promise.all(hashes)).size).toBe(3);
});

test.each<[string, unknown, unknown, string]>([
  ['no model', {}, x, 'compileModel: takes a model, got'],
  [
    'no tensor',
    mlp(),
    'abc',
    "compileModel: sampleInputs is the string 'abc': pass a tensor, or a list of forward's arguments",
  ],
  ['a wrong width', mlp(), tx.zeros([3, 5]), 'compileModel: Sequential: linear'],
])('%s: a sentence', async (_, model, inputs, said) => {
  const compiling = new XLACompiler().compileModel(model as tx.nn.Module, inputs);
  await expect(compiling).rejects.toThrow(TPUValidationError);
  await expect(compiling).rejects.toThrow(said);
});

test('a topology that is none is refused before anything is compiled', async () => {
  const compiler = new XLACompiler();
  await expect(compiler.compileAheadOfTime(mlp(), x, 'v6e-3')).rejects.toThrow(
    /compileAheadOfTime: Sequential for v6e-3: v6e-3: there is no v6e slice of 3 chips/,
  );
  await expect(compiler.compileAheadOfTime(mlp(), undefined, 'v6e-1')).rejects.toThrow(TPUValidationError);
});

test('inputs that a model cannot take are a mistake of the same name when it is compiled and when it is called', async () => {
  const [model, compiler] = [new tx.nn.Linear(4, 2), new XLACompiler()];
  const compiled = await compiler.compileModel(model, tx.zeros([3, 4]));
  for (const wrong of [compiler.compileModel(model, tx.zeros([3, 5])), compiled(tx.zeros([3, 5]))])
    await expect(wrong).rejects.toMatchObject({
      name: 'TPUValidationError',
      message: expect.stringContaining('inner sizes 5 and 4 differ'),
    });
});
