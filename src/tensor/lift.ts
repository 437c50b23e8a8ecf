// Turns operations on expressions into operations on tensors: every function that ops/ exports becomes a public function and
// a method of Tensor, with tensors in place of expressions. Adding an op needs no change here.
import { ArgumentError } from '../base/errors.js';
import { isPlain, listed } from '../base/tree.js';
import { Expr } from '../ir/expr.js';
import { entry } from '../ir/source.js';
import { alias } from '../ops/prim/body.js';
import { events } from '../runtime/events.js';
import { checkOf } from './arguments.js';
import { autocastDType, castOf } from './autocast.js';
import { ORDER, type OrderOf } from './order.js';
import { SIGNATURES } from './signatures.js';
import { Tensor } from './tensor.js';
import { withoutDevices } from './to.js';

/** A type with expressions replaced by tensors. */
export type Lift<T> = T extends Expr
  ? Tensor
  : T extends readonly [infer A, ...infer B]
    ? readonly [Lift<A>, ...LiftAll<B>]
    : T extends readonly (infer E)[]
      ? Expr extends E
        ? readonly Lift<E>[]
        : T
      : T extends object
        ? { readonly [K in keyof T]: Lift<T[K]> | (object extends Pick<T, K> ? null : never) } // options and results by name
        : T;
/** Optional arguments may also be null, as torch's None. */
type LiftAll<A extends readonly unknown[]> = { [K in keyof A]: Lift<A[K]> | (undefined extends A[K] ? null : never) };
type LiftResult<R> = R extends readonly Expr[]
  ? { -readonly [K in keyof R]: Tensor }
  : R extends Expr
    ? Tensor
    : Extract<R[keyof R], Expr> extends never
      ? Lift<R>
      : Named<Lift<R>>;
/** Named results are also a list, in torch's order. */
export type Named<R> = R &
  Iterable<Tensor> & { readonly [I in Exclude<keyof Fields<keyof R>, keyof unknown[]>]: Tensor };
/** As many fields as there are names, as a tuple. */
type Fields<Name, N extends unknown[] = []> = [Name] extends [never]
  ? N
  : Fields<Exclude<Name, Last<Name>>, [...N, unknown]>;
/** One of a union. */
type Last<U> = All<U extends unknown ? (u: U) => U : never> extends (u: infer L) => unknown ? L : never;
/** Both signatures of an overloaded function, or its only one twice; otherwise TypeScript infers only the last one. */
type Signatures<F> = F extends { (...args: infer A): infer R; (...args: infer B): infer S }
  ? [first: (...args: A) => R, second: (...args: B) => S]
  : [F, F];
type LiftOne<F> = F extends (...args: infer A) => infer R ? (...args: LiftAll<A>) => LiftResult<R> : never;
export type LiftFunction<F, Order> = Order extends readonly []
  ? LiftOne<Signatures<F>[0]> & LiftOne<Signatures<F>[1]>
  : LiftOne<ByPlace<F, Order>> & LiftOne<ByName<F>>;
/** For each list of arguments (there may be several): those after the first, if the first is an expression. */
type MethodArgs<Args> = Args extends readonly [infer X, ...infer A] ? (Expr extends X ? LiftAll<A> : never) : never;
type MethodOf<A extends readonly unknown[], R> = [A] extends [never] ? never : (...args: A) => LiftResult<R>;
type MethodsOf<F> = F extends (...args: infer A) => infer R ? MethodOf<MethodArgs<A>, R> : never;
type All<U> = [U] extends [never]
  ? never
  : (U extends unknown ? (u: U) => void : never) extends (i: infer I) => void
    ? I
    : never;
/** The same as a method: the first argument is the tensor itself. */
export type LiftMethod<F, Order> = Order extends readonly []
  ? All<MethodsOf<Signatures<F>[0]> | MethodsOf<Signatures<F>[1]>>
  : MethodsOf<ByPlace<F, Order>> & MethodsOf<ByName<F>>;

// A function whose options (its last argument) may also be given by position has two signatures. The one with named options
// is last: TypeScript reports errors against it when neither matches.
type ByPlace<F, Order> = F extends (...args: infer A) => infer R
  ? Required<A> extends readonly [...infer X, infer O]
    ? (...args: [...X, ...Given<OptionsIn<O>, Order>]) => R
    : never
  : never;
type ByName<F> = F extends (...args: infer A) => infer R
  ? Required<A> extends readonly [...infer X, infer O]
    ? (...args: object extends OptionsIn<O> ? [...X, options?: OptionsIn<O>] : [...X, options: OptionsIn<O>]) => R
    : never
  : never;
type OptionsIn<T> = Exclude<T, Expr | number | bigint | string | boolean | null | undefined | readonly unknown[]>;
/** All ways to give options: the first few by position, then an object with others. */
export type Given<O, Order> =
  | ([KeyOf<O>] extends [never]
      ? []
      : object extends O
        ? [options?: O | First<O, Order>]
        : [options: O | First<O, Order>])
  | (Order extends readonly [infer K extends keyof O, ...infer Rest] ? [O[K], ...Given<Without<O, K>, Rest>] : never);
type KeyOf<O> = O extends unknown ? keyof O : never;
type First<O, Order> = Order extends readonly [infer K extends keyof O, ...unknown[]] ? O[K] : never;
type Without<O, K> = O extends unknown ? { [P in keyof O as P extends K ? never : P]: O[P] } : never;

/** The tensors of a call, by expression. */
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
    return new Tensor(operand && x.differentiable ? alias(x) : x); // its own node, for a separate gradient
  }
  if (Array.isArray(x)) return x.map((e) => raise(e, given, itself));
  return isPlain(x) ? listed(Object.fromEntries(Object.entries(x).map(([k, v]) => [k, raise(v, given, itself)]))) : x;
}

type Operation = (...args: never[]) => unknown;
/** As in torch, these return the same tensor if there is nothing to do; other operations return a new one. */
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
/** An operation on tensors: checks the arguments, orders them, and lowers them to expressions. */
function lifted(op: string, f: Operation, isMethod: boolean): (args: unknown[]) => unknown {
  const check = checkOf(op, ORDER[op.replace(/_$/, '') as keyof typeof ORDER], isMethod);
  const itself = ITSELF.includes(op);
  const cast = castOf(op);
  const first = SIGNATURES[op]?.[0]?.[0]?.kinds; // a first operand that may be a number may be the only tensor operand
  const ofNumbers = first?.includes('tensor') && first.includes('number');
  return (given) => {
    const args = op === 'to' ? withoutDevices(given) : given;
    if (args.length < given.length && args.length === 1) return args[0]; // it is there already
    const list = check(args);
    const tensors: Operands = new Map();
    for (let i = 0; i < list.length; i++) list[i] = lower(list[i], tensors);
    if (ofNumbers && !tensors.size)
      throw new ArgumentError(`${op}: none of the operands is a tensor: create one with tensor(), or use Math`);
    const low = autocastDType();
    const operands = low && cast ? cast(list, low) : list;
    return raise(f(...(operands as never[])), tensors, itself);
  };
}
/** The functions of a namespace (linalg.norm); their names may also exist outside of it. */
export const liftSpace = <N extends string, S extends object>(space: N, functions: S): LiftSpace<N, S> =>
  Object.fromEntries(
    Object.entries(functions).map(([name, f]) => {
      const op = `${space}.${name}`;
      const counted = (...args: never[]) => {
        events.op(op);
        return (f as Operation)(...args);
      };
      return [name, liftFunction(op, counted)];
    }),
  ) as LiftSpace<N, S>;
type LiftSpace<N extends string, S> = {
  readonly [K in keyof S]: LiftFunction<S[K], OrderOf<K extends string ? `${N}.${K}` : never>>;
};

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
