// Composites with a gradient of their own: where the gradient of the parts would be wrong, or lose digits.
import { Interner } from '../../base/intern.js';
import type { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import type { Ssa } from '../../ir/op.js';
import { batchBody } from './batch.js';
import { Body, parameter } from './body.js';
import { define, type Each, type Shifted, same } from './define.js';

/**
 * An op whose text is that of `forward`, and whose gradient is `vjp`. `batch`: its attributes for stacked operands; null: none
 * would do, and no gradient passes: its parts are batched.
 */
export function custom<X extends readonly Expr[], A = null>(
  name: string,
  forward: (xs: X, attrs: A) => Expr,
  vjp: (g: Expr, xs: X, attrs: A, y: Expr) => Each<X, Expr | null>,
  batch: Shifted<A> | null = same,
): (xs: X, attrs: A) => Expr {
  const bodies = new Interner<Body>(1000); // forward is traced once for operands of the same types
  const bodyOf = (types: readonly Aval[], attrs: A): Body => {
    const key = `${types.map((t) => t.id)}:${JSON.stringify(attrs)}`;
    return bodies.get(key, () => {
      const params = types.map((t) => parameter(t));
      return new Body(params, [forward(params as unknown as X, attrs)]);
    });
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
    batch:
      batch ??
      (({ attrs, n, stack, all }) => {
        const whole = all();
        const types = whole.map(({ aval }) => aval.withShape(aval.shape.slice(1)));
        const body = batchBody(
          bodyOf(types, attrs),
          whole.map(() => true),
          n,
        );
        const [y] = body.body.apply(whole);
        return body.stacked[0] ? y! : stack(y!);
      }),
  });
}
