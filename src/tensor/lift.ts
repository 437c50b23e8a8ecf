// From operations on expressions to operations on tensors: every function that ops/ exports becomes one of tsxla's and a
// method of Tensor, with the same arguments and tensors where it has expressions. Adding an op needs nothing here.
import { Expr } from '../ir/expr.js';
import { entry } from '../ir/source.js';
import { alias } from '../ops/body.js';
import { Tensor } from './tensor.js';

/** A type with tensors where it has expressions. */
export type Lift<T> = T extends Expr
  ? Tensor
  : T extends readonly [infer A, ...infer B]
    ? readonly [Lift<A>, ...LiftAll<B>]
    : T extends readonly (infer E)[]
      ? Expr extends E
        ? readonly Lift<E>[]
        : T
      : Extract<T[keyof T], Expr> extends never
        ? T
        : { readonly [K in keyof T]: Lift<T[K]> }; // options and results by name
type LiftAll<A extends readonly unknown[]> = { [K in keyof A]: Lift<A[K]> };
type LiftResult<R> = R extends readonly Expr[] ? { -readonly [K in keyof R]: Tensor } : Lift<R>;
/** Both signatures of a function that has two, or its one twice; TypeScript infers only the last one otherwise. */
type Signatures<F> = F extends { (...args: infer A): infer R; (...args: infer B): infer S }
  ? [first: (...args: A) => R, second: (...args: B) => S]
  : [F, F];
type LiftOne<F> = F extends (...args: infer A) => infer R ? (...args: LiftAll<A>) => LiftResult<R> : never;
export type LiftFunction<F> = LiftOne<Signatures<F>[0]> & LiftOne<Signatures<F>[1]>;
/** Of each list of arguments (there may be several), the method that takes them, if the first is an expression. */
type MethodOf<Args, R> = Args extends readonly [infer X, ...infer A]
  ? Expr extends X
    ? (...args: LiftAll<A>) => LiftResult<R>
    : never
  : never;
type MethodsOf<F> = F extends (...args: infer A) => infer R ? MethodOf<A, R> : never;
type All<U> = [U] extends [never]
  ? never
  : (U extends unknown ? (u: U) => void : never) extends (i: infer I) => void
    ? I
    : never;
/** The same as a method: the first argument is the tensor itself. */
export type LiftMethod<F> = All<MethodsOf<Signatures<F>[0]> | MethodsOf<Signatures<F>[1]>>;

const isPlain = (x: unknown): x is Record<string, unknown> =>
  typeof x === 'object' && x !== null && Object.getPrototypeOf(x) === Object.prototype;

/** The tensors of a call, by what they stand for. */
type Given = Map<Expr, Tensor>;

function lower(x: unknown, given: Given): unknown {
  if (x instanceof Tensor) {
    const { expr } = x;
    given.set(expr, x);
    return expr;
  }
  if (Array.isArray(x)) return x.some((e) => e instanceof Tensor) ? x.map((e) => lower(e, given)) : x;
  if (isPlain(x)) return Object.fromEntries(Object.entries(x).map(([k, v]) => [k, lower(v, given)]));
  return x;
}
function raise(x: unknown, given: Given, itself: boolean): unknown {
  if (x instanceof Expr) {
    const operand = given.get(x);
    if (operand && itself) return operand;
    return new Tensor(operand && x.differentiable ? alias(x) : x); // a gradient of its own
  }
  if (Array.isArray(x)) return x.map((e) => raise(e, given, itself));
  return isPlain(x) ? Object.fromEntries(Object.entries(x).map(([k, v]) => [k, raise(v, given, itself)])) : x;
}

/** `itself`: where there is nothing to do, the result is the operand, not a tensor of its own. */
export function liftFunction<F extends (...args: never[]) => unknown>(f: F, itself = false): LiftFunction<F> {
  const call = f as unknown as (...args: unknown[]) => unknown;
  return entry((...args: unknown[]) => {
    const given: Given = new Map();
    return raise(call(...args.map((x) => lower(x, given))), given, itself);
  }) as LiftFunction<F>;
}
/** The same as a method. */
export function liftMethod(
  f: (...args: never[]) => unknown,
  itself = false,
): (this: Tensor, ...args: unknown[]) => unknown {
  const call = liftFunction(f, itself) as (...args: unknown[]) => unknown;
  return entry(function (this: Tensor, ...args: unknown[]) {
    return call(this, ...args);
  });
}
