// One program a function: how many different ones it may become, and that nothing else runs inside.
import * as tx from 'tsxla';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { startCounting, times } from './support.js';

beforeAll(() => void vi.stubEnv('TSXLA_LOG', 'quiet'));

const { counter } = tx.metrics;
const EXCEEDED = 'Maximum number of different graphs allowed per function exceeded:';
/** A function that goes another way for each value of its second argument. */
const branching = (maxGraphs: number) =>
  tx.compile(
    function foo(x: tx.Tensor, way: number) {
      const twice = x.add(x);
      if (way === 0) return twice.mul(2);
      if (way === 1) return twice.add(x);
      return way === 2 ? twice.div(3) : twice;
    },
    { maxGraphs, staticArguments: [1] },
  );
const says = (n: number, got: string, expected: string): RegExp =>
  new RegExp(`^foo: ${EXCEEDED} ${n}\nGot: ${got}\nExpected: ${expected}\n {4}at .*graphs\\.test\\.ts:\\d+\n {4}\\w`);

describe('maxGraphs', () => {
  const x = tx.rand([10]);

  test('one, and one is needed: no error, and the values are right', async () => {
    const f = tx.compile((t: tx.Tensor) => t.add(t), { maxGraphs: 1 });
    expect(await (await f(x)).tolist()).toEqual(await x.add(x).tolist());
    expect(await (await f(x)).tolist()).toEqual(await x.add(x).tolist());
  });

  test('four, and four ways are taken: ways that were taken before are free', async () => {
    const f = branching(4);
    for (const way of [0, 1, 2, 0, 1, 3, 2, 3]) await f(x, way);
    expect(f.programs).toBe(4);
  });

  test('another shape is one too many: the error tells both', async () => {
    const f = branching(1);
    await f(x, 3);
    const message = says(1, 'argument \\[0\\], f32\\[5\\]', 'argument \\[0\\], f32\\[10\\]');
    await expect(f(tx.rand([5]), 3)).rejects.toThrow(message);
    await expect(f(tx.rand([5]), 3)).rejects.toThrow(tx.TooManyGraphsError);
  });

  test('another operation from the start is one too many', async () => {
    const f = tx.compile(
      function foo(t: tx.Tensor, way: number) {
        return way === 0 ? t.add(t) : t.mul(5);
      },
      { maxGraphs: 1, staticArguments: [1] },
    );
    await f(x, 0);
    await expect(f(x, 2)).rejects.toThrow(says(1, 'operation 2, mul f32\\[10\\]', 'operation 2, add f32\\[10\\]'));
  });

  test('a third way after a common beginning: the error tells where it leaves the nearest', async () => {
    const f = branching(2);
    await f(x, 0);
    await f(x, 1);
    await expect(f(x, 2)).rejects.toThrow(says(2, 'operation 4, div f32\\[10\\]', 'operation 4, mul f32\\[10\\]'));
  });

  test('an end before the others is one too many', async () => {
    const [one, two] = [branching(1), branching(2)];
    await one(x, 0);
    await expect(one(x, 3)).rejects.toThrow(says(1, 'operation 3, nothing', 'operation 3, mul f32\\[10\\]'));
    await two(x, 0);
    await two(x, 1);
    await expect(two(x, 3)).rejects.toThrow(says(2, 'operation 3, nothing', 'operation 3, add f32\\[10\\]'));
  });

  test('after the error, known values can still be read, and nothing was changed', async () => {
    const state = tx.zeros([1]);
    const f = tx.compile((t: tx.Tensor) => state.add_(t.sum()), { maxGraphs: 1 });
    await f(tx.ones([2]));
    await expect(f(tx.ones([3]))).rejects.toThrow(EXCEEDED);
    expect(await state.tolist()).toEqual([2]);
    await f(tx.ones([2]));
    expect(await state.tolist()).toEqual([4]);
  });

  test('each function has a limit of its own', async () => {
    const [f, g] = [1, 2].map((k) => tx.compile((t: tx.Tensor) => t.mul(k).sin(), { maxGraphs: 1 }));
    await f!(x);
    await g!(x);
    expect([f!.programs, g!.programs]).toEqual([1, 1]);
  });
});

test('a new shape compiles once; a shape that was there before does not', async () => {
  const f = tx.compile((x: tx.Tensor) => x.cos().add(x));
  const compiles = [];
  for (const n of [5, 6, 7, 5, 6]) {
    const x = tx.rand([n, 3]);
    await tx.sync(x);
    await startCounting();
    await f(x);
    compiles.push(await times('CompileTime'));
    expect(await times('ExecuteTime')).toBe(1);
  }
  expect(compiles).toEqual([1, 1, 1, 0, 0]);
});

describe('inside a compiled function', () => {
  const waysByValue = (t: tx.Tensor) => {
    void t.max().item(); // to decide by it
    return t.sin();
  };

  test.each([true, false])('reading a value is an error that says what to do (fullGraph: %s)', async (fullGraph) => {
    const f = tx.compile(waysByValue, { fullGraph });
    const x = tx.rand([5, 5]);
    await tx.sync(x);
    await startCounting();
    await expect(f(x)).rejects.toThrow(
      'item() inside waysByValue: a step only describes a computation and has no values yet: ' +
        'return the tensor, and read it after',
    );
    expect(await times('ExecuteTime')).toBe(0);
  });

  test('outside of one, reading runs what it needs', async () => {
    await startCounting();
    expect(await tx.ones([2]).mul(1).max().item()).toBe(1);
    expect(await times('ExecuteTime')).toBe(1);
  });
});

describe('calls of compiled functions', () => {
  const cosSin = (x: tx.Tensor) => x.sin().cos();

  test('each is one execution, whatever was computed one by one before', async () => {
    const x = tx.randn([5, 5]).mul(5);
    await tx.sync(x);
    const expected = await cosSin(x).tolist();
    for (const compiled of [tx.compile(cosSin), tx.compile(tx.compile(cosSin).fn)]) {
      await startCounting();
      expect(await (await compiled(x)).tolist()).toEqual(expected);
      expect(await times('ExecuteTime')).toBe(1);
    }
  });

  test('the result of one as the argument of another: two executions, one program', async () => {
    const x = tx.randn([10, 5]);
    await tx.sync(x);
    const f = tx.compile(cosSin);
    const expected = (await cosSin(cosSin(x)).tolist()) as number[][];
    await startCounting();
    const got = (await (await f(await f(x))).tolist()) as number[][];
    expect(await times('ExecuteTime')).toBe(2);
    expect(f.programs).toBe(1);
    got.flat().forEach((v, i) => expect(v).toBeCloseTo(expected.flat()[i]!, 6));
  });
});

describe('computing one by one', () => {
  test('the same operation again compiles nothing', async () => {
    const x = tx.randn([5, 5]);
    await tx.sync(x);
    await startCounting();
    await tx.sync(x.logsumexp({ dim: 0 }));
    expect([await times('CompileTime'), await times('ExecuteTime')]).toEqual([1, 1]);
    await tx.sync(x.logsumexp({ dim: 0 }));
    expect([await times('CompileTime'), await times('ExecuteTime')]).toEqual([1, 2]);
  });

  test('random numbers: others each time by one program, the same again from the same state', async () => {
    const draw = async () => (await tx.randn([12, 13]).data()) as Float32Array;
    await draw();
    await startCounting();
    const state = tx.defaultGenerator.getState();
    await tx.sync(state);
    const [a, b] = [await draw(), await draw()];
    expect(b).not.toEqual(a);
    expect(counter('UncachedCompile')).toBeUndefined();
    expect(await tx.defaultGenerator.getState().tolist()).not.toEqual(await state.tolist());
    tx.defaultGenerator.setState(state);
    expect(await draw()).toEqual(a);
  });

  test('an operation with several results runs once for all of them', async () => {
    const a = tx.randn([5, 3]);
    await tx.sync(a);
    await startCounting();
    const { U, S, Vh } = tx.linalg.svd(a, { fullMatrices: false });
    await tx.sync(U, S, Vh);
    expect(await times('ExecuteTime')).toBe(1);
    expect(counter('xla::linalg.svd')).toBe(1);
    const back = (await U.mul(S).matmul(Vh).tolist()) as number[][];
    const given = ((await a.tolist()) as number[][]).flat();
    back.flat().forEach((v, i) => expect(v).toBeCloseTo(given[i]!, 4));
  });

  test('batch norm runs once, its statistics with it', async () => {
    const norm = new tx.nn.BatchNorm1d(3);
    const x = tx.randn([8, 3]);
    await tx.sync(x, ...norm.parameters(), ...norm.buffers());
    await startCounting();
    await tx.sync(norm.forward(x));
    expect(await times('ExecuteTime')).toBe(1);
    expect(await norm.numBatchesTracked!.item()).toBe(1);
    const mean = (await x.mean(0).mul(0.1).tolist()) as number[];
    ((await norm.runningMean!.tolist()) as number[]).forEach((v, i) => expect(v).toBeCloseTo(mean[i]!, 5));
    expect(await times('ExecuteTime')).toBe(2); // the mean of x: what was tracked was there
  });
});
