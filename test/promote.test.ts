// Type promotion, compared with torch's own answers (torch 2.13), for all pairs of dtypes.
import { describe, expect, test } from 'vitest';
import type { DType } from '../dist/base/dtype.js';
import { promote } from '../dist/base/promote.js';
import { Aval } from '../dist/ir/aval.js';
import { resultType } from '../dist/ops/prim/align.js';
import { input } from '../dist/ops/prim/variable.js';

const of = (dtype: string, shape: readonly number[]) => input(Aval.of(dtype as DType, shape));
const answer = (f: () => DType): string => {
  try {
    return f();
  } catch {
    return '-';
  }
};

/** Rows and columns of a table as [row, column, entry]. */
function entries(table: string): [string, string, string][] {
  const [head, ...rows] = table
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
  return rows.flatMap(([row, ...cells]) => cells.map((c, i): [string, string, string] => [row!, head![i]!, c]));
}

// torch.promote_types(row, column); '-' where torch refuses.
const PROMOTE = `
           bool u8   i8   i16  i32  i64  u16  u32  u64  f16 bf16 f32 f64 f8e5m2 f8e4m3fn
  bool     bool u8   i8   i16  i32  i64  -    -    -    f16 bf16 f32 f64 -      -
  u8       u8   u8   i16  i16  i32  i64  -    -    -    f16 bf16 f32 f64 -      -
  i8       i8   i16  i8   i16  i32  i64  -    -    -    f16 bf16 f32 f64 -      -
  i16      i16  i16  i16  i16  i32  i64  -    -    -    f16 bf16 f32 f64 -      -
  i32      i32  i32  i32  i32  i32  i64  -    -    -    f16 bf16 f32 f64 -      -
  i64      i64  i64  i64  i64  i64  i64  -    -    -    f16 bf16 f32 f64 -      -
  u16      -    -    -    -    -    -    u16  -    -    f16 bf16 f32 f64 -      -
  u32      -    -    -    -    -    -    -    u32  -    f16 bf16 f32 f64 -      -
  u64      -    -    -    -    -    -    -    -    u64  f16 bf16 f32 f64 -      -
  f16      f16  f16  f16  f16  f16  f16  f16  f16  f16  f16 f32  f32 f64 -      -
  bf16     bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64 -      -
  f32      f32  f32  f32  f32  f32  f32  f32  f32  f32  f32 f32  f32 f64 -      -
  f64      f64  f64  f64  f64  f64  f64  f64  f64  f64  f64 f64  f64 f64 -      -
  f8e5m2   -    -    -    -    -    -    -    -    -    -   -    -   -   f8e5m2 -
  f8e4m3fn -    -    -    -    -    -    -    -    -    -   -    -   -   -      f8e4m3fn
`;
// torch.result_type of an array (row) and a tensor without dimensions (column).
const SCALAR = `
           bool     u8       i8       i16      i32      i64      u16      u32      u64      f16      bf16     f32      f64      f8e5m2   f8e4m3fn
  bool     bool     u8       i8       i16      i32      i64      -        -        -        f16      bf16     f32      f64      -        -
  u8       u8       u8       u8       u8       u8       u8       u8       u8       u8       f16      bf16     f32      f64      -        -
  i8       i8       i8       i8       i8       i8       i8       i8       i8       i8       f16      bf16     f32      f64      -        -
  i16      i16      i16      i16      i16      i16      i16      i16      i16      i16      f16      bf16     f32      f64      -        -
  i32      i32      i32      i32      i32      i32      i32      i32      i32      i32      f16      bf16     f32      f64      -        -
  i64      i64      i64      i64      i64      i64      i64      i64      i64      i64      f16      bf16     f32      f64      -        -
  u16      u16      u16      u16      u16      u16      u16      u16      u16      u16      f16      bf16     f32      f64      -        -
  u32      u32      u32      u32      u32      u32      u32      u32      u32      u32      f16      bf16     f32      f64      -        -
  u64      u64      u64      u64      u64      u64      u64      u64      u64      u64      f16      bf16     f32      f64      -        -
  f16      f16      f16      f16      f16      f16      f16      f16      f16      f16      f16      f16      f16      f16      f16      f16
  bf16     bf16     bf16     bf16     bf16     bf16     bf16     bf16     bf16     bf16     bf16     bf16     bf16     bf16     bf16     bf16
  f32      f32      f32      f32      f32      f32      f32      f32      f32      f32      f32      f32      f32      f32      f32      f32
  f64      f64      f64      f64      f64      f64      f64      f64      f64      f64      f64      f64      f64      f64      f64      f64
  f8e5m2   f8e5m2   f8e5m2   f8e5m2   f8e5m2   f8e5m2   f8e5m2   f8e5m2   f8e5m2   f8e5m2   f8e5m2   f8e5m2   f8e5m2   f8e5m2   f8e5m2   f8e5m2
  f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn
`;
// torch.result_type of an array (row) and a Python number; of a tensor without dimensions and a number it is the same.
const weak = { true: true, '2': 2, '2.5': 2.5 } as const;
const NUMBER = `
           true     2        2.5
  bool     bool     i64      f32
  u8       u8       u8       f32
  i8       i8       i8       f32
  i16      i16      i16      f32
  i32      i32      i32      f32
  i64      i64      i64      f32
  u16      u16      u16      f32
  u32      u32      u32      f32
  u64      u64      u64      f32
  f16      f16      f16      f16
  bf16     bf16     bf16     bf16
  f32      f32      f32      f32
  f64      f64      f64      f64
  f8e5m2   f8e5m2   f8e5m2   f8e5m2
  f8e4m3fn f8e4m3fn f8e4m3fn f8e4m3fn
`;

const compare = (table: string, ours: (row: string, column: string) => DType) => {
  const known = entries(table).filter(([, , want]) => want !== '-');
  expect(known.map(([a, b]) => `${a} ${b}: ${answer(() => ours(a, b))}`)).toEqual(
    known.map(([a, b, want]) => `${a} ${b}: ${want}`),
  );
};

describe('where torch has an answer, it is ours', () => {
  test('two dtypes', () => compare(PROMOTE, (a, b) => promote(a as DType, b as DType)));
  test('two arrays', () => compare(PROMOTE, (a, b) => resultType(of(a, [3]), of(b, [1]))));
  test('an array and a scalar', () => compare(SCALAR, (a, b) => resultType(of(a, [3]), of(b, []))));
  test('a scalar and an array', () => compare(SCALAR, (a, b) => resultType(of(b, []), of(a, [3]))));
  test('an array and a number', () => compare(NUMBER, (a, b) => resultType(of(a, [3]), weak[b as keyof typeof weak])));
  test('a scalar and a number', () => compare(NUMBER, (a, b) => resultType(weak[b as keyof typeof weak], of(a, []))));
  test('numbers alone', () => {
    expect([resultType(true), resultType(2), resultType(2n), resultType(2.5), resultType(Number.NaN)]).toEqual([
      'bool',
      'i64',
      'i64',
      'f32',
      'f32',
    ]);
  });
  test('three operands: arrays before scalars before numbers', () => {
    expect(resultType(of('i32', [3]), of('f16', []), 2.5)).toBe('f16');
    expect(resultType(of('bf16', [3]), of('f64', []), 2.5)).toBe('bf16');
    expect(resultType(of('bool', [3]), of('i8', []), 2)).toBe('i8');
    expect(resultType(of('u8', [3]), of('i8', [1]), of('f16', []))).toBe('f16');
  });
});

describe('where torch refuses', () => {
  const refused = entries(PROMOTE).filter(([, , want]) => want === '-');
  const isF8 = (d: string) => d.startsWith('f8');

  test('f8 meets nothing but itself', () => {
    const pairs = refused.filter(([a, b]) => isF8(a) || isF8(b));
    expect(pairs.length).toBe(54);
    for (const [a, b] of pairs) {
      expect(() => promote(a as DType, b as DType)).toThrow(
        `${a} and ${b} have no common dtype: convert one of them first`,
      );
    }
  });
  test('the wide unsigned integers go to the smallest integers that hold both', () => {
    const pairs = refused.filter(([a, b]) => a < b && !isF8(a) && !isF8(b));
    expect(pairs.map(([a, b]) => `${a} ${b}: ${answer(() => promote(a as DType, b as DType))}`)).toMatchInlineSnapshot(`
      [
        "bool u16: u16",
        "bool u32: u32",
        "bool u64: u64",
        "i8 u16: i32",
        "i8 u32: i64",
        "i8 u64: -",
        "i16 u16: i32",
        "i16 u32: i64",
        "i16 u64: -",
        "i32 u16: i32",
        "i32 u32: i64",
        "i32 u64: -",
        "i64 u16: i64",
        "i64 u32: i64",
        "i64 u64: -",
        "u16 u8: u16",
        "u16 u32: u32",
        "u16 u64: u64",
        "u32 u8: u32",
        "u32 u64: u64",
        "u64 u8: u64",
      ]
    `);
  });
});
