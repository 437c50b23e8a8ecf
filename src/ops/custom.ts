// Composites with a gradient of their own: where the gradient of the parts would be wrong, or lose digits.
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import type { Ssa } from '../ir/op.js';
import { define, type Each } from './define.js';
import { input } from './variable.js';

/** An op whose text is that of `forward`, and whose gradient is `vjp`. */
export function custom<X extends readonly Expr[], A = null>(
  name: string,
  forward: (xs: X, attrs: A) => Expr,
  vjp: (g: Expr, xs: X, attrs: A, y: Expr) => Each<X, Expr | null>,
): (xs: X, attrs: A) => Expr {
  const inputs = (types: readonly Aval[]) => types.map((t) => input(t)) as unknown as X;
  return define<X, A>({
    name,
    infer: (xs, attrs) => forward(inputs(Object.values(xs) as Aval[]), attrs).aval,
    lower: (e, xs, attrs) => {
      const given = Object.values(xs) as Ssa[];
      const params = inputs(given.map((x) => e.typeOf(x)));
      return e.graph(collect([forward(params, attrs)]), new Map(params.map((p, i) => [p, [given[i]!]])))[0]!;
    },
    vjp,
  });
}
