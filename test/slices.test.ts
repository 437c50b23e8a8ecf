// Parts of tensors at offsets that change from step to step, outside of steps: compiles and executions are counted.
import * as tx from 'tsxla';
import { beforeEach, describe, expect, test } from 'vitest';
import { counts, dropPrograms } from '../dist/runtime/program.js';

let start = { ...counts };
beforeEach(() => {
  dropPrograms(tx.explain().map(({ hash }) => hash)); // other tests may have compiled the same
  start = { ...counts };
});
const compiled = (): number => counts.compiled - start.compiled;
const executed = (): number => counts.executed - start.executed;
const begin = (): void => void (start = { ...counts });

/** 0, 1, ... on the device. */
async function onDevice(...shape: number[]): Promise<tx.Tensor> {
  const x = tx
    .arange(shape.reduce((a, b) => a * b))
    .to('f32')
    .reshape(shape);
  await tx.sync(x);
  begin();
  return x;
}
const rows = Array.from({ length: 12 }, (_, i) => Array.from({ length: 4 }, (_, j) => 4 * i + j));
const column = (j: number): number[] => rows.map((row) => row[j]!);
const sum = (list: readonly (readonly number[])[]): number => list.flat().reduce((a, b) => a + b, 0);

type Form = [name: string, at: (x: tx.Tensor, i: number) => tx.Tensor, expected: (i: number) => unknown];
const FORMS: Form[] = [
  ['narrow', (x, i) => x.narrow(0, 2 * i, 2), (i) => rows.slice(2 * i, 2 * i + 2)],
  ['narrow from the end', (x, i) => x.narrow(0, -2 * (i + 1), 2), (i) => rows.slice(10 - 2 * i, 12 - 2 * i)],
  ['tx.narrow', (x, i) => tx.narrow(x, 0, 2 * i, 2), (i) => rows.slice(2 * i, 2 * i + 2)],
  ['select', (x, i) => x.select(0, i), (i) => rows[i]],
  ['select of columns', (x, i) => x.select(-1, i - 4), (i) => column(i)],
  ['index with a number', (x, i) => x.index(i), (i) => rows[i]],
  ['index with two', (x, i) => x.index(i, -1 - i), (i) => rows[i]![3 - i]],
  ['index with a slice', (x, i) => x.index(tx.slice(i, i + 3)), (i) => rows.slice(i, i + 3)],
  ['a text', (x, i) => x.index(`${i}:${i + 2}`, '1:3'), (i) => rows.slice(i, i + 2).map((row) => row.slice(1, 3))],
  ['steps', (x, i) => x.index(tx.slice(i, i + 6, 3)), (i) => [rows[i], rows[i + 3]]],
  ['a new dimension', (x, i) => x.index(null, i, '...'), (i) => [rows[i]]],
  ['a list', (x, i) => x.index([i, 11 - i, i]), (i) => [rows[i], rows[11 - i], rows[i]]],
  ['a number and a tensor', (x, i) => x.index(i, tx.tensor([2, 0])), (i) => [rows[i]![2], rows[i]![0]]],
  ['of another form', (x, i) => x.reshape([2, 6, 4]).select(1, i), (i) => [rows[i], rows[i + 6]]],
];

describe('a tensor on the device: one program for all offsets', () => {
  test.each(FORMS)('%s', async (_, at, expected) => {
    const x = await onDevice(12, 4);
    for (let i = 0; i < 4; i++) expect(await at(x, i).tolist()).toEqual(expected(i));
    expect([compiled(), executed()]).toEqual([1, 4]);
  });

  test.each(FORMS)('%s: values and gradients as with constants, and as cut on the host', async (_, at, expected) => {
    const [x, host] = [(await onDevice(12, 4)).requiresGrad_(), tx.tensor(rows, { dtype: 'f32' })];
    const gradient = (i: number) => {
      x.grad = null;
      at(x, i).square().sum().backward();
      return x.grad!;
    };
    const constant = tx.compile((i: number) => [at(x, i), gradient(i)] as const, { staticArguments: [0] });
    for (const i of [1, 3]) {
      const [part, grad] = await constant(i);
      const plain = gradient(i);
      expect(await part.tolist()).toEqual(expected(i));
      expect(await plain.tolist()).toEqual(await grad.tolist());
      expect(await at(host, i).tolist()).toEqual(expected(i));
    }
  });

  test('as a part of a larger graph', async () => {
    const x = await onDevice(12, 4);
    for (let i = 0; i < 4; i++) {
      const y = x
        .narrow(0, i, 3)
        .mul(2)
        .add(x.select(0, 11 - i))
        .sum();
      expect(await y.item()).toBe(2 * sum(rows.slice(i, i + 3)) + 3 * sum([rows[11 - i]!]));
    }
    expect([compiled(), executed()]).toEqual([1, 4]);
  });

  test('as an argument of a compiled function: one program computes it for all offsets', async () => {
    const x = await onDevice(12, 4);
    const f = tx.compile((part: tx.Tensor) => part.sum());
    for (let i = 0; i < 5; i++)
      expect(await (await f(x.narrow(0, 2 * i, 2))).item()).toBe(sum(rows.slice(2 * i, 2 * i + 2)));
    expect([compiled(), executed(), f.programs]).toEqual([2, 10, 1]);
  });

  test('of a result that a compiled function has only promised', async () => {
    const make = tx.compile(() => tx.arange(48).to('f32').reshape([12, 4]));
    for (let i = 0; i < 3; i++) expect(await (await make()).select(0, i).tolist()).toEqual(rows[i]);
    expect([compiled(), executed()]).toEqual([2, 6]);
  });

  test('written in place', async () => {
    const x = await onDevice(12, 4);
    for (let i = 0; i < 4; i++) {
      x.indexPut_([i, tx.slice(i, i + 1)], -1);
      await tx.sync();
    }
    expect(compiled()).toBe(1);
    expect(await x.tolist()).toEqual(rows.map((row, i) => row.map((v, j) => (i === j ? -1 : v))));
    begin();
    for (let i = 0; i < 3; i++)
      expect(await x.indexPut([i], 1, { accumulate: true }).sum().item()).toBe(1128 - 30 - 4 + 4);
    expect(compiled()).toBe(1);
  });

  test('equal offsets are the same program as others', async () => {
    const x = await onDevice(12, 4);
    for (const [a, b] of [
      [1, 2],
      [3, 3],
      [0, 0],
      [2, 1],
    ] as const)
      expect(await x.select(0, a).add(x.select(0, b)).tolist()).toEqual(rows[a]!.map((v, j) => v + rows[b]![j]!));
    expect(compiled()).toBe(1);
  });

  test('another size is another program; nothing, and all, are no parts', async () => {
    const x = await onDevice(12, 4);
    expect((await x.narrow(0, 3, 0).tolist()) as unknown[]).toEqual([]);
    expect(await x.narrow(0, 0, 12).tolist()).toEqual(rows);
    begin();
    for (const n of [2, 3])
      for (const i of [0, 5]) expect(await x.narrow(0, i, n).tolist()).toEqual(rows.slice(i, i + n));
    expect(compiled()).toBe(2);
  });

  test('classes outside are errors where the host has them', () => {
    const x = tx.ones([2, 3]);
    expect(() => tx.crossEntropy(x, tx.tensor([0, 3]))).toThrow(
      'crossEntropy: the target i64[2] has class 3, and f32[2, 3] has classes 0 to 2',
    );
    expect(() => tx.nllLoss(x, tx.tensor([-1, 0]))).toThrow('nllLoss: the target i64[2] has class -1');
    expect(tx.crossEntropy(x, tx.tensor([-1, 0]), { ignoreIndex: -1 }).shape).toEqual([]);
    expect(tx.nllLoss(x, tx.tensor([-100, 2])).shape).toEqual([]);
  });

  test('offsets outside are errors, as before', async () => {
    const x = await onDevice(12, 4);
    expect(() => x.narrow(0, 11, 2)).toThrow('narrow: 11 to 13 is out of range for size 12 of dim 0 in f32[12, 4]');
    expect(() => x.select(0, -13)).toThrow('select: index -13 is out of range for size 12 of dim 0 in f32[12, 4]');
    expect(() => x.index(12)).toThrow('index: index 12 is out of range for dim 0 of f32[12, 4]');
    expect(() => x.index(tx.slice(0, 4, -1))).toThrow('the step of a slice must be positive');
  });
});

describe('gradients', () => {
  test('of a part of a variable: one program for all offsets, values as with constants', async () => {
    const w = (await onDevice(12, 4)).requiresGrad_();
    await tx.sync(w);
    const inStep = tx.compile(
      (i: number) => {
        w.grad = null;
        w.index(tx.slice(i, i + 6, 2), 1)
          .square()
          .sum()
          .backward();
        return w.grad!;
      },
      { staticArguments: [0] },
    );
    const expected: unknown[] = [];
    for (let i = 0; i < 4; i++) expected.push(await (await inStep(i)).tolist());
    begin();
    for (let i = 0; i < 4; i++) {
      w.grad = null;
      w.index(tx.slice(i, i + 6, 2), 1)
        .square()
        .sum()
        .backward();
      expect(await w.grad!.tolist()).toEqual(expected[i]);
    }
    expect([compiled(), executed()]).toEqual([1, 4]);
  });

  test('a loop that trains on parts of data, and a part of its weights', async () => {
    const x = await onDevice(12, 4);
    const w = tx.full([6, 4], 0.5, { dtype: 'f32', requiresGrad: true });
    await tx.sync(w);
    const own = Array.from({ length: 6 }, () => Array<number>(4).fill(0.5));
    begin();
    for (let i = 0; i < 4; i++) {
      const loss = x
        .narrow(0, i, 3)
        .mul(w.narrow(0, i, 3))
        .sum();
      w.grad = null;
      loss.backward();
      tx.noGrad(() => w.sub_(w.grad!.mul(0.125)));
      const was = rows.slice(i, i + 3).map((row, k) => row.map((v, j) => v * own[i + k]![j]!));
      expect(await loss.item()).toBe(sum(was));
      for (let k = 0; k < 3; k++) own[i + k] = own[i + k]!.map((v, j) => v - rows[i + k]![j]! * 0.125);
    }
    expect([compiled(), executed()]).toEqual([1, 4]);
    expect(await w.tolist()).toEqual(own);
  });
});

test.each(['awaited', 'not awaited'])(
  'a plain loop with an optimizer, steps %s: programs do not depend on offsets',
  async (how) => {
    tx.manualSeed(1);
    const data = tx.randn([12, 4]).mul(2); // not computed before the loop
    const w = tx.ones([6, 4]).requiresGrad_();
    const optimizer = new tx.optim.SGD([w], { lr: 0.125 });
    const compiles: number[] = [];
    for (let i = 0; i < 8; i++) {
      optimizer.zeroGrad();
      data
        .narrow(0, i, 3)
        .mul(w.narrow(0, i % 4, 3))
        .sum()
        .backward();
      const done = optimizer.step();
      if (how === 'awaited') await done;
      compiles.push(compiled());
    }
    await tx.sync();
    if (how === 'awaited') expect(compiles.at(-1)).toBe(compiles[2]); // what outlives a step is learned in the first two
    expect(compiled()).toBeLessThanOrEqual(5);
    const x = (await data.tolist()) as number[][];
    const expected = Array.from({ length: 6 }, () => Array<number>(4).fill(1));
    for (let i = 0; i < 8; i++)
      for (let k = 0; k < 3; k++)
        expected[(i % 4) + k] = expected[(i % 4) + k]!.map((v, j) => v - 0.125 * x[i + k]![j]!);
    for (const [i, row] of ((await w.tolist()) as number[][]).entries())
      for (const [j, v] of row.entries()) expect(v).toBeCloseTo(expected[i]![j]!, 5);
  },
);

describe('a tensor on the host: cut there, nothing is compiled', () => {
  const host = (dtype: tx.DType = 'f32') => tx.tensor(rows, { dtype });
  test('rows, columns, elements, steps', async () => {
    expect(await host().narrow(0, 3, 2).tolist()).toEqual(rows.slice(3, 5));
    expect(await host().narrow(1, 1, 2).tolist()).toEqual(rows.map((row) => row.slice(1, 3)));
    expect(await host('i64').select(1, 2).tolist({ numbers: true })).toEqual(column(2));
    expect(await host('bf16').index(2, -1).item()).toBe(11);
    expect(await host().index('1::5', '::3').tolist()).toEqual([1, 6, 11].map((i) => [rows[i]![0], rows[i]![3]]));
    expect(await host().index('3:4', '::2').tolist()).toEqual([[12, 14]]);
    expect(await host().reshape([12, 4]).narrow(0, 1, 2).tolist()).toEqual(rows.slice(1, 3));
    expect([compiled(), executed()]).toEqual([0, 0]);
  });

  test('what is read from a part, and changed, changes neither it nor the whole', async () => {
    const x = host();
    const part = x.narrow(0, 1, 2);
    ((await part.data()) as Float32Array).fill(7);
    part.add_(1);
    expect(await part.tolist()).toEqual(rows.slice(1, 3).map((row) => row.map((v) => v + 1)));
    expect(await x.tolist()).toEqual(rows);
  });

  test('as arguments of a compiled function: one execution a call', async () => {
    const f = tx.compile((x: tx.Tensor, y: tx.Tensor) => x.sum().add(y));
    const [x, y] = [host(), tx.tensor(column(0), { dtype: 'f32' })];
    for (let i = 0; i < 4; i++)
      expect(await (await f(x.narrow(0, 3 * i, 3), y.index(i))).item()).toBe(sum(rows.slice(3 * i, 3 * i + 3)) + 4 * i);
    expect([compiled(), executed()]).toEqual([1, 4]);
  });

  test('any number of parts', async () => {
    const x = host();
    const parts = Array.from({ length: 600 }, (_, i) => x.select(0, i % 12));
    expect(await parts[599]!.tolist()).toEqual(rows[11]);
    expect([compiled(), executed()]).toEqual([0, 0]);
  });

  test('a variable is computed, for its gradient', async () => {
    const w = tx.tensor(rows, { dtype: 'f32', requiresGrad: true });
    w.select(0, 2).sum().backward();
    expect(await w.grad!.sum(1).tolist()).toEqual(rows.map((_, i) => (i === 2 ? 4 : 0)));
  });
});

describe('where numbers stay constants', () => {
  test('inside a compiled function', async () => {
    const x = await onDevice(12, 4);
    const f = tx.compile((a: tx.Tensor, i: number) => a.select(0, i), { staticArguments: [1] });
    for (let i = 0; i < 3; i++) expect(await (await f(x, i)).tolist()).toEqual(rows[i]);
    expect(f.programs).toBe(3);
    const g = tx.compile((a: tx.Tensor, i: tx.Tensor) => a.narrow(0, i.long().mul(2), 2));
    for (let i = 0; i < 3; i++) expect(await (await g(x, i)).tolist()).toEqual(rows.slice(2 * i, 2 * i + 2));
    expect(g.programs).toBe(1);
  });

  test('of more parts than one program should have as inputs', async () => {
    const x = await onDevice(12, 4);
    const all = tx.stack(Array.from({ length: 300 }, (_, i) => x.select(0, i % 12)));
    expect(await all.sum().item()).toBe(25 * sum(rows));
    expect(tx.explain().at(-1)!.inputs).toBe(1 + 256);
  });

  test('of what is still to be computed', async () => {
    const x = await onDevice(12, 4);
    for (let i = 0; i < 3; i++) await x.mul(2).select(0, i).tolist();
    expect(compiled()).toBe(3);
  });
});
