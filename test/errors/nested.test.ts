// Lists that hold themselves, or are nested thousands deep, end in a sentence and not in a full stack.
import * as tx from 'tsxla';
import { stackCollate } from 'tsxla/data';
import { describe, expect, test } from 'vitest';

type List = (number | List)[];
const circular: List = [];
circular.push(circular);
const deep = (levels: number): List => {
  let list: List = [1];
  for (let i = 1; i < levels; i++) list = [list];
  return list;
};

describe.each([
  ['that holds itself', circular],
  ['nested 5,000 deep', deep(5000)],
  ['nested 200,000 deep', deep(200_000)],
])('a list %s', (_, list) => {
  test('as the data of a tensor', () => {
    expect(() => tx.tensor(list)).toThrow(tx.ShapeError);
    expect(() => tx.tensor(list)).toThrow('tensor: arrays are nested more than 64 deep, or one contains itself');
    expect(() => tx.tensor([[1], list])).toThrow('more than 64 deep');
  });
  test('where tensors, numbers or shapes belong', () => {
    expect(() => tx.stack(list as never)).toThrow(tx.ArgumentError);
    expect(() => tx.cat([list] as never)).toThrow(tx.ArgumentError);
    expect(() => tx.ones([2]).add(list as never)).toThrow(tx.ArgumentError);
    expect(() => tx.ones(list as never)).toThrow(tx.ArgumentError);
    expect(() => tx.ones([2]).reshape(list as never)).toThrow(tx.ArgumentError);
  });
  test('as an argument of a compiled function, or an item of a batch', async () => {
    await expect(tx.compile((x: unknown) => x)(list)).rejects.toThrow('nested more than 500 deep, or contains itself');
    await expect((async () => stackCollate()([list] as never))()).rejects.toThrow('nested more than 500 deep');
  });
});

test('as many dimensions as torch has are fine, and things that cannot be written are named', () => {
  expect(tx.tensor(deep(64)).shape).toHaveLength(64);
  expect(() => tx.tensor(deep(65))).toThrow('more than 64 deep');
  expect(() => tx.tensor([Object.create(null)])).toThrow('got an object (object)');
});
