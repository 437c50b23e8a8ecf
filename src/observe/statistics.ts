// Operations that compute statistics of a value next to it: the numbers of NaN and infinite elements, and the range of the
// others.
import { literal } from '../base/literal.js';
import { range } from '../base/shape.js';
import { Aval } from '../ir/aval.js';
import { Expr } from '../ir/expr.js';
import type { Emitter, Op, Ssa } from '../ir/op.js';
import { comparing, i64, i64s, results } from '../ops/prim/define.js';

const COUNTS = Aval.of('i32', [1, 2]);
const RANGE = Aval.of('f32', [1, 2]);

const splat = (e: Emitter, value: number, type: Aval): Ssa => {
  const scalar = type.withShape([]);
  const [x] = e.op('constant', [], [scalar], { value: `dense<${literal(value, scalar.dtype)}> : ${scalar.mlir}` });
  return type.rank ? e.op('broadcast_in_dim', [x!], [type], { broadcast_dimensions: i64s([]) })[0]! : x!;
};

/** Masks of NaN and infinite elements; `wide`: the value in a type that every device can compare. */
function kindsOf(e: Emitter, x: Ssa): { wide: Ssa; type: Aval; nan: Ssa; inf: Ssa } {
  const own = e.typeOf(x);
  const type = own.withDType(own.dtype === 'f64' ? 'f64' : 'f32');
  const flags = type.withDType('bool');
  const wide = own === type ? x : e.op('convert', [x], [type])[0]!;
  const [nan] = e.op('compare', [wide, wide], [flags], comparing('NE', type.dtype));
  const [size] = e.op('abs', [wide], [type]);
  const [inf] = e.op(
    'compare',
    [size!, splat(e, Number.POSITIVE_INFINITY, type)],
    [flags],
    comparing('EQ', type.dtype),
  );
  return { wide, type, nan: nan!, inf: inf! };
}

/** A flag [1] for a float: 2 if an element is NaN, else 1 if one is infinite, else 0. Takes one pass. */
const FLAGS: Op = {
  name: 'nonfiniteFlags',
  lower(e, [x], { aval }) {
    const { type, nan, inf } = kindsOf(e, x!);
    const int = aval.withShape([]);
    const ints = type.withDType(int.dtype);
    const [ofInf] = e.op('select', [inf, splat(e, 1, ints), splat(e, 0, ints)], [ints]);
    const [flags] = e.op('select', [nan, splat(e, 2, ints), ofInf!], [ints]);
    const body = e.region([int, int], (xs) => e.op('maximum', xs, [int])); // devices cannot combine flags with `or`
    const [all] = e.op('reduce', [flags!, splat(e, 0, int)], [int], over(type), [body]);
    return e.op('reshape', [all!], [aval]);
  },
};
export const nonfiniteFlags = (x: Expr): Expr => new Expr(FLAGS, [x], null, Aval.of('i32', [1]));

/**
 * A float, with its [[NaN, infinite]] counts and [[least, largest finite]] range. A barrier keeps XLA from fusing across: the
 * measured value is the operation's own result, and later operations use exactly that value.
 */
const MEASURE: Op = {
  name: 'measure',
  lower(e, [x], { aval }) {
    const [own] = e.op('optimization_barrier', [x!], [aval]);
    const { wide, type, nan, inf } = kindsOf(e, own!);
    const flags = type.withDType('bool');
    const [bad] = e.op('or', [nan, inf], [flags]);
    const [least, largest] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY].map((end) => ({
      end,
      x: e.op('select', [bad!, splat(e, end, type), wide], [type])[0]!,
    })) as [{ end: number; x: Ssa }, { end: number; x: Ssa }];
    const scalar = type.withShape([]);
    const int = scalar.withDType('i32');
    const ints = [nan, inf].map((flag) => e.op('convert', [flag], [type.withDType('i32')])[0]!);
    const types = [int, int, scalar, scalar];
    const body = e.region([...types, ...types], (all) =>
      ['add', 'add', 'minimum', 'maximum'].map((op, i) => e.op(op, [all[i]!, all[i + 4]!], [types[i]!])[0]!),
    );
    const start = [splat(e, 0, int), splat(e, 0, int), splat(e, least.end, scalar), splat(e, largest.end, scalar)];
    const all = e.op('reduce', [...ints, least.x, largest.x, ...start], types, over(type), [body]);
    const ends = all
      .slice(2)
      .map((end) => (type.dtype === 'f32' ? end : e.op('convert', [end], [RANGE.withShape([])])[0]!));
    return [own!, joined(e, all.slice(0, 2), COUNTS), joined(e, ends, RANGE)];
  },
};
export function measured(x: Expr): { value: Expr; counts: Expr; range: Expr } {
  const [value, counts, ends] = results(new Expr(MEASURE, [x], null, x.aval, [x.aval, COUNTS, RANGE]));
  return { value: value!, counts: counts!, range: ends! };
}

const over = ({ rank }: Aval) => ({ dimensions: i64s(range(rank)) });
/** Two scalars as [[a, b]]. */
function joined(e: Emitter, scalars: readonly Ssa[], type: Aval): Ssa {
  const parts = scalars.map((x) => e.op('reshape', [x], [type.withShape([1, 1])])[0]!);
  return e.op('concatenate', parts, [type], { dimension: i64(1) })[0]!;
}
