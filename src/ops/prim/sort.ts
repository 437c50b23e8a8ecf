// The primitives that sort. The order is torch's: NaN above everything, -0 equal to 0.
import { literal } from '../../base/literal.js';
import { isFloat } from '../../base/promote.js';
import { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import type { Ssa } from '../../ir/op.js';
import { zerosLike } from './constant.js';
import { checkDType, comparing, defineMulti, i64, same, shifted } from './define.js';
import { ordered } from './define-pointwise.js';
import { scatterAlong } from './gather.js';

/** What belongs to chosen elements of x, at their places; zeros elsewhere. */
const putBack = (g: Expr, x: Expr, indices: Expr, dim: number): Expr =>
  scatterAlong(zerosLike(x), indices, g, dim, 'add', 'unique');

/** Along one dimension: the values in order, and the places they came from. */
export const sortAlong = defineMulti<[Expr], { dim: number; descending: boolean; stable: boolean }>({
  name: 'sort',
  infer: ([x]) => {
    checkDType('sort', [x], ...ordered);
    return [x, x.withDType('i64')];
  },
  lower: (e, [x], { dim, descending, stable }, [values, indices]) => {
    const places = indices!.withDType('i32');
    const [scalar, place, bool] = [values!.withShape([]), places.withShape([]), Aval.of('bool', [])];
    const [iotas] = e.op('iota', [], [places], { iota_dimension: i64(dim) });
    const before = e.region([scalar, scalar, place, place], ([a, b]) => {
      const is = (direction: string, v: Ssa, w: Ssa) =>
        e.op('compare', [v, w], [bool], comparing(direction, e.typeOf(v).dtype))[0]!;
      const [low, high] = descending ? [b!, a!] : [a!, b!];
      const less = is('LT', low, high);
      if (!isFloat(scalar.dtype)) return [less];
      const [onlyHighIsNaN] = e.op('and', [is('NE', high, high), is('EQ', low, low)], [bool]);
      return e.op('or', [less, onlyHighIsNaN!], [bool]);
    });
    const attrs = { dimension: i64(dim), is_stable: String(stable) };
    const [v, i] = e.op('sort', [x, iotas!], [values!, places], attrs, [before]);
    return [v!, e.op('convert', [i!], [indices!])[0]!];
  },
  vjp: ([g], [x], { dim }, [, indices]) => [g ? putBack(g, x, indices!, dim) : null],
  batch: shifted(({ dim, ...how }) => ({ dim: dim + 1, ...how })),
});

/** The k largest or smallest of the last dimension, in order, and their places. */
export const topK = defineMulti<[Expr], { k: number; largest: boolean }>({
  name: 'topK',
  infer: ([x], { k }) => {
    checkDType('topk', [x], ...ordered);
    const top = x.withShape([...x.shape.slice(0, -1), k]);
    return [top, top.withDType('i64')];
  },
  lower: (e, [x], { k, largest }, [values, indices]) => {
    const type = e.typeOf(x);
    const float = isFloat(type.dtype);
    // XLA orders by bits, where a NaN with its sign set comes last: all NaN are made alike.
    const alike = (): Ssa => {
      const [odd] = e.op('compare', [x, x], [type.withDType('bool')], comparing('NE', type.dtype));
      const [nan] = e.op('constant', [], [type], { value: `dense<${literal(Number.NaN, type.dtype)}> : ${type.mlir}` });
      return e.op('select', [odd!, nan!, x], [type])[0]!;
    };
    const key = float ? alike() : x;
    const flip = (v: Ssa) => e.op(float ? 'negate' : 'not', [v], [e.typeOf(v)])[0]!; // ~x has no overflow, -x has
    const [v, i] = e.op('chlo.top_k', [largest ? key : flip(key)], [values!, indices!.withDType('i32')], { k: i64(k) });
    return [largest ? v! : flip(v!), e.op('convert', [i!], [indices!])[0]!];
  },
  vjp: ([g], [x], _, [, indices]) => [g ? putBack(g, x, indices!, x.shape.length - 1) : null],
  batch: same,
});
