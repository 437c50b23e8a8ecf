// From operations on expressions to operations on tensors: every function that ops/ exports becomes one of tsxla's and a
// method of Tensor, with the same arguments and tensors where it has expressions. Adding an op needs nothing here.
import { isPlain } from '../base/tree.js';
import { Expr } from '../ir/expr.js';
import { entry } from '../ir/source.js';
import { alias } from '../ops/prim/body.js';
import { checkOf } from './arguments.js';
import { autocastDType, castOf } from './autocast.js';
import { ORDER } from './order.js';
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
export type LiftFunction<F, Order> =
  Arranged<F, Order> extends infer G ? LiftOne<Signatures<G>[0]> & LiftOne<Signatures<G>[1]> : never;
/** Of each list of arguments (there may be several) those after the first, if that is an expression. */
type MethodArgs<Args> = Args extends readonly [infer X, ...infer A] ? (Expr extends X ? LiftAll<A> : never) : never;
type MethodOf<A extends readonly unknown[], R> = [A] extends [never] ? never : (...args: A) => LiftResult<R>;
type MethodsOf<F> = F extends (...args: infer A) => infer R ? MethodOf<MethodArgs<A>, R> : never;
type All<U> = [U] extends [never]
  ? never
  : (U extends unknown ? (u: U) => void : never) extends (i: infer I) => void
    ? I
    : never;
/** The same as a method: the first argument is the tensor itself. */
export type LiftMethod<F, Order> =
  Arranged<F, Order> extends infer G ? All<MethodsOf<Signatures<G>[0]> | MethodsOf<Signatures<G>[1]>> : never;

/** A function whose options, its last argument, may also be given by place, in this order. */
type Arranged<F, Order> = Order extends readonly []
  ? F
  : F extends (...args: infer A) => infer R
    ? Required<A> extends readonly [...infer X, infer O]
      ? (...args: [...X, ...Given<OptionsIn<O>, Order>]) => R
      : never
    : never;
type OptionsIn<T> = Exclude<T, Expr | number | bigint | string | boolean | null | undefined | readonly unknown[]>;
/** All ways to give options: the first few one by one, then an object with others. */
export type Given<O, Order> =
  | (object extends O ? [options?: O | First<O, Order>] : [options: O | First<O, Order>])
  | (Order extends readonly [infer K extends keyof O, ...infer Rest] ? [O[K], ...Given<Without<O, K>, Rest>] : never);
type First<O, Order> = Order extends readonly [infer K extends keyof O, ...unknown[]] ? O[K] : never;
type Without<O, K> = O extends unknown ? { [P in keyof O as P extends K ? never : P]: O[P] } : never;

/** The tensors of a call, by what they stand for. */
type Operands = Map<Expr, Tensor>;

function lower(x: unknown, given: Operands): unknown {
  if (x instanceof Tensor) {
    const { expr } = x;
    given.set(expr, x);
    return expr;
  }
  if (Array.isArray(x)) return x.some((e) => e instanceof Tensor) ? x.map((e) => lower(e, given)) : x;
  if (isPlain(x)) return Object.fromEntries(Object.entries(x).map(([k, v]) => [k, lower(v, given)]));
  return x;
}
function raise(x: unknown, given: Operands, itself: boolean): unknown {
  if (x instanceof Expr) {
    const operand = given.get(x);
    if (operand && itself) return operand;
    return new Tensor(operand && x.differentiable ? alias(x) : x); // a gradient of its own
  }
  if (Array.isArray(x)) return x.map((e) => raise(e, given, itself));
  return isPlain(x) ? Object.fromEntries(Object.entries(x).map(([k, v]) => [k, raise(v, given, itself)])) : x;
}

type Operation = (...args: never[]) => unknown;
/** Where there is nothing to do, these give the very tensor they were given, as in torch; others one of their own. */
const ITSELF = [
  'to',
  'typeAs',
  'float',
  'double',
  'half',
  'bfloat16',
  'contiguous',
  'positive',
  'flatten',
  'atleast1d',
  'atleast2d',
  'atleast3d',
  'broadcastTensors',
];
/** An operation on tensors: what it is given is checked, put in order, and lowered where it stands. */
function lifted(op: string, f: Operation, isMethod: boolean): (args: unknown[]) => unknown {
  const check = checkOf(op, ORDER[op.replace(/_$/, '') as keyof typeof ORDER], isMethod);
  const itself = ITSELF.includes(op);
  const cast = castOf(op);
  return (args) => {
    const list = check(args);
    const tensors: Operands = new Map();
    for (let i = 0; i < list.length; i++) list[i] = lower(list[i], tensors);
    const low = autocastDType();
    const given = low && cast ? cast(list, low) : list;
    return raise(f(...(given as never[])), tensors, itself);
  };
}
export function liftFunction(op: string, f: Operation): (...args: unknown[]) => unknown {
  const call = lifted(op, f, false);
  return entry((...args: unknown[]) => call(args), op);
}
export function liftMethod(op: string, f: Operation): (this: Tensor, ...args: unknown[]) => unknown {
  const call = lifted(op, f, true);
  return entry(function (this: Tensor, ...args: unknown[]) {
    return call([this, ...args]);
  }, op);
}
