// Composites with a gradient of their own: where the gradient of the parts would be wrong, or lose digits.
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import type { Ssa } from '../ir/op.js';
import { Body, parameter } from './body.js';
import { define, type Each } from './define.js';

/** An op whose text is that of `forward`, and whose gradient is `vjp`. */
export function custom<X extends readonly Expr[], A = null>(
  name: string,
  forward: (xs: X, attrs: A) => Expr,
  vjp: (g: Expr, xs: X, attrs: A, y: Expr) => Each<X, Expr | null>,
): (xs: X, attrs: A) => Expr {
  const bodies = new Map<string, Body>(); // forward is traced once for operands of the same types
  const bodyOf = (types: readonly Aval[], attrs: A): Body => {
    const key = `${types.map((t) => t.id)}:${JSON.stringify(attrs)}`;
    let body = bodies.get(key);
    if (!body) {
      const params = types.map((t) => parameter(t));
      bodies.set(key, (body = new Body(params, [forward(params as unknown as X, attrs)])));
    }
    return body;
  };
  return define<X, A>({
    name,
    infer: (xs, attrs) => bodyOf(Object.values(xs) as Aval[], attrs).results[0]!.aval,
    lower: (e, xs, attrs) => {
      const given = Object.values(xs) as Ssa[];
      const types = given.map((x) => e.typeOf(x));
      return bodyOf(types, attrs).emit(e, given)[0]!;
    },
    vjp,
  });
}
