// gradAndValue: valueAndGrad with torch.func's order of results.
import { entry } from '../ir/source.js';
import { type Args, type FunctionOptions, type Grads, valueAndGrad } from '../tensor/autograd.js';
import type { Tensor } from '../tensor/tensor.js';

/** A function that returns [gradient, value] of f (with hasAux: [gradient, [value, aux]]). */
export const gradAndValue = entry((f: (...args: never[]) => Tensor, options: FunctionOptions = {}): unknown => {
  const both = valueAndGrad(f, options);
  return entry((...args: never[]) => {
    const [value, grads] = both(...args);
    return [grads, value];
  });
}) as {
  <F extends (...args: never[]) => readonly [Tensor, unknown], const N extends number | readonly number[] = 0>(
    f: F,
    options: FunctionOptions<N> & { readonly hasAux: true },
  ): (...args: Args<F>) => [Grads<F, N>, ReturnType<F>];
  <F extends (...args: never[]) => Tensor, const N extends number | readonly number[] = 0>(
    f: F,
    options?: FunctionOptions<N>,
  ): (...args: Args<F>) => [Grads<F, N>, Tensor];
};
