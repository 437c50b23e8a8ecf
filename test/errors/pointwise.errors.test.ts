// Misuse of the pointwise operations: what the error says.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

const f = (...shape: number[]) => tx.ones(shape);
const of = (dtype: NonNullable<tx.TensorOptions['dtype']>, ...shape: number[]) => tx.ones(shape, { dtype });
const said = (run: () => unknown): string => {
  try {
    run();
  } catch (e) {
    return (e as Error).message.split('\n')[0]!;
  }
  return 'no error';
};

const cases: readonly [run: () => unknown, message: string][] = [
  [() => f(2, 3).add(f(4)), 'add: shapes [2, 3] and [4] do not broadcast: sizes 3 and 4 differ at dim -1'],
  [
    () => f(2).mul(of('f8e5m2', 2)),
    'mul: f32[2] and f8e5m2[2]: f32 and f8e5m2 have no common dtype: convert one of them first',
  ],
  [
    () => of('i64', 2).add(of('u64', 2)),
    'add: i64[2] and u64[2]: i64 and u64 have no common dtype: convert one of them first',
  ],
  [
    () => of('bool', 2).sub(of('bool', 2)),
    'sub: takes numbers (for booleans: logicalNot, logicalXor, or convert them), got bool[2] and bool[2]',
  ],
  [
    () => tx.neg(of('bool', 2)),
    'neg: takes numbers (for booleans: logicalNot, logicalXor, or convert them), got bool[2]',
  ],
  [() => f(2).bitwiseAnd(f(2)), 'bitwiseAnd: takes integers or booleans, got f32[2] and f32[2]'],
  [() => f(2).div(2, { roundingMode: 'up' as 'floor' }), "div: roundingMode is 'up': use null, 'floor' or 'trunc'"],
  [
    () => of('i32', 2).pow(-1),
    'pow: i32[2] to the power -1: integers have no negative powers: convert to floats first',
  ],
  [() => f(2).clamp(), 'clamp: neither min nor max is given: write clamp(x, { min: 0 }) or clamp(x, 0, 1)'],
  [
    () => of('i32', 2).add(of('i64', 2), { alpha: 1.5 }),
    'add: alpha is 1.5, but the result i64: use a whole number, or convert first',
  ],
  [() => of('u8', 3).clamp({ max: 300 }), 'clamp: 300 does not fit u8[3]: u8 holds 0 to 255: convert to i64 first'],
  [
    () => tx.where(of('bool', 2), of('i8', 2), -200),
    'where: -200 does not fit i8[2]: i8 holds -128 to 127: convert to i64 first',
  ],
  [
    () => of('u8', 2).maskedFill(of('bool', 2), 256),
    'maskedFill: 256 does not fit u8[2]: u8 holds 0 to 255: convert to i64 first',
  ],
  [
    () => tx.where(f(2), 1, 2),
    'where: the condition is f32[2], not booleans: compare first, and put it first: where(x.gt(0), a, b)',
  ],
  [() => f(2).maskedFill(of('i32', 2), 0), 'maskedFill: the mask must be bool, got i32[2]: compare first'],
  [
    () => f(2).maskedFill(of('bool', 2), f(2)),
    'maskedFill: the value must be one number, got f32[2]: use where(mask, value, x) for several',
  ],
  [() => tx.polygamma(0.5, f(2)), 'polygamma: takes a whole number and a tensor, got 0.5: write polygamma(1, x)'],
  [() => f(2).mvlgamma(0), 'mvlgamma: p is 0: it must be a dimension, 1 or more'],
  [() => tx.positive(of('bool', 2)), 'positive: takes numbers, got bool[2]: convert it first'],
];
test.each(cases)('%s', (run, message) => expect(said(run)).toBe(message));

test('an error is of its class, and says where', () => {
  expect(() => f(2).add(f(3))).toThrow(tx.ShapeError);
  expect(() => tx.neg(of('bool', 2))).toThrow(tx.DTypeError);
  expect(() => f(2).add(f(3))).toThrow(/pointwise\.errors\.test\.ts:\d+$/);
});
