// Shape arguments of functions that create tensors.
import { checkShape, type Shape } from '../base/shape.js';
import { isPlain } from '../base/tree.js';

/** A shape as an array or as separate sizes, then options: zeros([2, 3]), zeros(2, 3), zeros(2, 3, { dtype: 'i32' }). */
export type Sized<Options> =
  | [shape: Shape, options?: Options]
  | [size: number, ...sizes: number[]]
  | [size: number, ...sizes: number[], options: Options];
export function sized<Options>(op: string, given: Sized<Options>): [shape: Shape, options: Options] {
  const args: unknown[] = [...given];
  const options = (isPlain(args.at(-1)) ? args.pop() : {}) as Options;
  return [checkShape(op, (Array.isArray(args[0]) ? args[0] : args) as Shape), options];
}
