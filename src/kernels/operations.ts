// The pointwise operations of kernels: one row each, with what it becomes. `hlo` is StableHLO's name; `float`, `signed` and
// `unsigned` are MLIR's, which Triton (GPU) and Mosaic (TPU) share.
import type { DType } from '../base/dtype.js';
import { isFloat, isUnsigned } from '../base/promote.js';

export interface Pointwise {
  readonly operands: 1 | 2;
  readonly hlo: string;
  /** Absent: the operation does not take such elements. */
  readonly float?: string;
  readonly signed?: string;
  /** Default: as `signed`. */
  readonly unsigned?: string;
  /** Whether it takes booleans, by `signed`'s operation. */
  readonly bool?: boolean;
}

// biome-ignore format: a table
export const POINTWISE = {
  add:   { operands: 2, hlo: 'add',         float: 'arith.addf',     signed: 'arith.addi' },
  sub:   { operands: 2, hlo: 'subtract',    float: 'arith.subf',     signed: 'arith.subi' },
  mul:   { operands: 2, hlo: 'multiply',    float: 'arith.mulf',     signed: 'arith.muli' },
  div:   { operands: 2, hlo: 'divide',      float: 'arith.divf',     signed: 'arith.divsi',  unsigned: 'arith.divui' },
  rem:   { operands: 2, hlo: 'remainder',   float: 'arith.remf',     signed: 'arith.remsi',  unsigned: 'arith.remui' },
  max:   { operands: 2, hlo: 'maximum',     float: 'arith.maximumf', signed: 'arith.maxsi',  unsigned: 'arith.maxui' },
  min:   { operands: 2, hlo: 'minimum',     float: 'arith.minimumf', signed: 'arith.minsi',  unsigned: 'arith.minui' },
  and:   { operands: 2, hlo: 'and',                                  signed: 'arith.andi',   bool: true },
  or:    { operands: 2, hlo: 'or',                                   signed: 'arith.ori',    bool: true },
  xor:   { operands: 2, hlo: 'xor',                                  signed: 'arith.xori',   bool: true },
  shl:   { operands: 2, hlo: 'shift_left',                           signed: 'arith.shli' },
  shr:   { operands: 2, hlo: 'shift_right_arithmetic',               signed: 'arith.shrsi',  unsigned: 'arith.shrui' },
  neg:   { operands: 1, hlo: 'negate',      float: 'arith.negf' },
  abs:   { operands: 1, hlo: 'abs',         float: 'math.absf',      signed: 'math.absi' },
  exp:   { operands: 1, hlo: 'exponential', float: 'math.exp' },
  log:   { operands: 1, hlo: 'log',         float: 'math.log' },
  sqrt:  { operands: 1, hlo: 'sqrt',        float: 'math.sqrt' },
  rsqrt: { operands: 1, hlo: 'rsqrt',       float: 'math.rsqrt' },
  sin:   { operands: 1, hlo: 'sine',        float: 'math.sin' },
  cos:   { operands: 1, hlo: 'cosine',      float: 'math.cos' },
  tanh:  { operands: 1, hlo: 'tanh',        float: 'math.tanh' },
  erf:   { operands: 1, hlo: 'chlo.erf',    float: 'math.erf' },
  floor: { operands: 1, hlo: 'floor',       float: 'math.floor' },
  ceil:  { operands: 1, hlo: 'ceil',        float: 'math.ceil' },
} as const satisfies Record<string, Pointwise>;
export type PointwiseName = keyof typeof POINTWISE;

/** MLIR's operation for elements of a dtype, if there is one. */
export function mlirOf(name: PointwiseName, dtype: DType): string | undefined {
  const row: Pointwise = POINTWISE[name];
  if (isFloat(dtype)) return row.float;
  if (dtype === 'bool') return row.bool ? row.signed : undefined;
  return isUnsigned(dtype) ? (row.unsigned ?? row.signed) : row.signed;
}

/** The comparisons: StableHLO's direction, MLIR's predicates, and the comparison of two known numbers. */
// biome-ignore format: a table
export const COMPARE = {
  eq: { hlo: 'EQ', float: 1, signed: 0, unsigned: 0, holds: (a: number, b: number) => a === b },
  ne: { hlo: 'NE', float: 13, signed: 1, unsigned: 1, holds: (a: number, b: number) => a !== b },
  lt: { hlo: 'LT', float: 4, signed: 2, unsigned: 6, holds: (a: number, b: number) => a < b },
  le: { hlo: 'LE', float: 5, signed: 3, unsigned: 7, holds: (a: number, b: number) => a <= b },
  gt: { hlo: 'GT', float: 2, signed: 4, unsigned: 8, holds: (a: number, b: number) => a > b },
  ge: { hlo: 'GE', float: 3, signed: 5, unsigned: 9, holds: (a: number, b: number) => a >= b },
} as const;
export type CompareName = keyof typeof COMPARE;

export const REDUCE = {
  sum: { hlo: 'add', float: 'arith.addf', signed: 'arith.addi', unsigned: 'arith.addi' },
  max: { hlo: 'maximum', float: 'arith.maximumf', signed: 'arith.maxsi', unsigned: 'arith.maxui' },
  min: { hlo: 'minimum', float: 'arith.minimumf', signed: 'arith.minsi', unsigned: 'arith.minui' },
} as const;
export type ReduceName = keyof typeof REDUCE;
