// How primitives are declared: one record with type rule, StableHLO text, gradient and batching rule.
import type { DType } from '../../base/dtype.js';
import { DTypeError, ShapeError } from '../../base/errors.js';
import { literal } from '../../base/literal.js';
import { isFloat, isInexact, isSigned } from '../../base/promote.js';
import type { Aval } from '../../ir/aval.js';
import { Expr } from '../../ir/expr.js';
import type { Emitter, Lane, Op, Ssa } from '../../ir/op.js';

/** One T for each operand. */
export type Each<X, T> = { readonly [K in keyof X]: T };

/** The argument of a batching rule: an op's operands for n examples, some of them stacked along a new first dimension. */
export interface Lanes<X extends readonly Expr[], A> {
  readonly xs: X;
  readonly stacked: Each<X, boolean>;
  readonly attrs: A;
  readonly n: number;
  /** One operand stacked, and all of them. */
  readonly stack: (x: Expr) => Expr;
  all(): X;
}

export interface OpDef<X extends readonly Expr[], A> {
  readonly name: string;
  /** The type of the result. Throws an error with the op and the types of all operands. */
  infer(xs: Each<X, Aval>, attrs: A): Aval;
  lower(e: Emitter, xs: Each<X, Ssa>, attrs: A, out: Aval): Ssa;
  /** The gradient of each operand, written with ops, so that it is differentiable too. Absent: not differentiable. */
  vjp?(g: Expr, xs: X, attrs: A, y: Expr): Each<X, Expr | null>;
  /**
   * The result for n examples, stacked: for vmap. Or only the attributes with which the op itself takes operands that are all
   * stacked; `same`: those it has. null: the op has no operands.
   */
  readonly batch: ((lanes: Lanes<X, A>) => Expr) | Shifted<A> | null;
}

/** The attributes of the op on stacked operands. */
export interface Shifted<A> {
  attrs(attrs: A, n: number): A;
}
/** For ops whose attributes name no dimension, or count from the end. */
export const same = { attrs: <A>(attrs: A): A => attrs };
/** For ops whose attributes name dimensions: each moves up by one. */
export const shifted = <A>(attrs: (attrs: A, n: number) => A): Shifted<A> => ({ attrs });
/** The positions of an operand's dimensions once it is stacked. */
export const next = (dims: readonly number[]): number[] => dims.map((d) => d + 1);

/** The same with several results. */
export interface MultiOpDef<X extends readonly Expr[], A> {
  readonly name: string;
  infer(xs: Each<X, Aval>, attrs: A): readonly Aval[];
  lower(e: Emitter, xs: Each<X, Ssa>, attrs: A, outs: readonly Aval[]): readonly Ssa[];
  vjp?(gs: readonly (Expr | null)[], xs: X, attrs: A, ys: readonly Expr[]): Each<X, Expr | null>;
  /** The same for n examples: each result says whether it is stacked. */
  readonly batch: ((lanes: Lanes<X, A>) => readonly Lane[]) | Shifted<A>;
  covers?(wide: A, narrow: A): boolean;
}

/** Every primitive by name: the emitter, the sweep, the tests and the compatibility page read it. */
export const OPS = new Map<string, Op>();

function register(op: Op): Op {
  if (OPS.has(op.name)) throw new Error(`the op ${op.name} is defined twice`);
  OPS.set(op.name, op);
  return op;
}

/** Whether a gradient can flow through a node: its op has a rule, one of its inputs wants one, a result can have one. */
export const flows = (op: Op, inputs: readonly Expr[], avals: readonly Aval[]): boolean =>
  op.vjp !== undefined && inputs.some((x) => x.differentiable) && avals.some((a) => isInexact(a.dtype));

const lanesOf = <X extends readonly Expr[], A>(
  expr: Expr,
  inputs: readonly Lane[],
  n: number,
  stack: (x: Expr) => Expr,
): Lanes<X, A> => ({
  xs: inputs.map((l) => l.x) as unknown as X,
  stacked: inputs.map((l) => l.stacked) as Each<X, boolean>,
  attrs: expr.attrs as A,
  n,
  stack,
  all: () => inputs.map((l) => (l.stacked ? l.x : stack(l.x))) as unknown as X,
});
export const stackedLanes = (xs: readonly Expr[]): Lane[] => xs.map((x) => ({ x, stacked: true }));

// The types of a record hold for its own inputs alone; the graph forgets them. This is the one place where they are cast.
export function define<X extends readonly Expr[], A = null>(def: OpDef<X, A>): (xs: X, attrs: A) => Expr {
  const { vjp, batch } = def;
  const op = register({
    name: def.name,
    lower: (e, xs, expr) => [def.lower(e, xs as Each<X, Ssa>, expr.attrs as A, expr.aval)],
    ...(vjp && {
      vjp: ([g], expr) => vjp(g!, expr.inputs as unknown as X, expr.attrs as A, expr) as readonly (Expr | null)[],
    }),
    ...(batch && {
      batch: (expr, inputs, n, stack) => {
        const lanes = lanesOf<X, A>(expr, inputs, n, stack);
        return stackedLanes([
          typeof batch === 'function' ? batch(lanes) : make(lanes.all(), batch.attrs(lanes.attrs, n)),
        ]);
      },
    }),
  });
  const make = (xs: X, attrs: A): Expr => {
    const aval = def.infer(xs.map((x) => x.aval) as unknown as Each<X, Aval>, attrs);
    return new Expr(op, xs, attrs, aval, undefined, flows(op, xs, [aval]));
  };
  return make;
}

export function defineMulti<X extends readonly Expr[], A = null>(def: MultiOpDef<X, A>): (xs: X, attrs: A) => Expr[] {
  const { vjp, batch } = def;
  const op = register({
    name: def.name,
    lower: (e, xs, expr) => def.lower(e, xs as Each<X, Ssa>, expr.attrs as A, expr.avals!),
    ...(vjp && {
      vjp: (gs, expr) =>
        vjp(gs, expr.inputs as unknown as X, expr.attrs as A, results(expr)) as readonly (Expr | null)[],
    }),
    batch: (expr, inputs, n, stack) => {
      const lanes = lanesOf<X, A>(expr, inputs, n, stack);
      return typeof batch === 'function' ? batch(lanes) : stackedLanes(make(lanes.all(), batch.attrs(lanes.attrs, n)));
    },
    ...(def.covers && { covers: (wide, narrow) => def.covers!(wide.attrs as A, narrow.attrs as A) }),
  });
  const make = (xs: X, attrs: A): Expr[] => {
    const avals = def.infer(xs.map((x) => x.aval) as unknown as Each<X, Aval>, attrs);
    return results(new Expr(op, xs, attrs, avals[0]!, avals, flows(op, xs, avals)));
  };
  return make;
}

/** One result of an op with several. The emitter and the sweep know it by this name. */
export const PICK = register({ name: 'pick', lower: () => [], vjp: ([g]) => [g!] });
const picks = new WeakMap<Expr, Expr[]>();
/** The results of a node with several, always the same nodes. */
export function results(e: Expr): Expr[] {
  let list = picks.get(e);
  if (!list) {
    list = e.avals!.map((aval, index) => new Expr(PICK, [e], { index }, aval, undefined, flows(PICK, [e], [aval])));
    picks.set(e, list);
  }
  return list;
}

// ---- checks that many infer rules share

export const showAll = (xs: readonly Aval[]): string => xs.join(' and ');
export const typesOf = (xs: readonly Expr[]): string => showAll(xs.map((x) => x.aval));

/** Operands of different dtypes, and what to do: integers, as tx.tensor makes of whole numbers, mostly were meant to be floats. */
export function dtypesDiffer(op: string, xs: readonly Expr[]): string {
  const float = xs.find((x) => isFloat(x.dtype))?.dtype;
  const whole = float && xs.some((x) => !isFloat(x.dtype));
  const way = whole ? `: x.to('${float}'), or make it so: tx.tensor(data, { dtype: '${float}' })` : '';
  return `${op}: dtypes of ${typesOf(xs)} differ: convert one first${way}`;
}

/** Which dtypes an op takes, and how an error says it. */
export type Accepts = readonly [accepts: (d: DType) => boolean, what: string];

export function checkDType(op: string, xs: readonly Aval[], accepts: (d: DType) => boolean, what: string): void {
  for (const x of xs) if (!accepts(x.dtype)) throw new DTypeError(`${op}: takes ${what}, got ${showAll(xs)}`);
}

/** All operands of one type: primitives do not broadcast or convert; `align` has done so. */
export function checkSame(op: string, xs: readonly Aval[]): Aval {
  const [first] = xs as [Aval, ...Aval[]];
  for (const x of xs) {
    if (x === first) continue; // equal ones are the same object
    if (x.dtype !== first.dtype) throw new DTypeError(`${op}: dtypes of ${showAll(xs)} differ`);
    throw new ShapeError(`${op}: shapes of ${showAll(xs)} differ`);
  }
  return first;
}

// ---- StableHLO attribute texts

/** How two values are compared. The type is said too: XLA folds constants of signed integers as unsigned ones without it. */
export const comparing = (direction: string, dtype: DType): { comparison_direction: string; compare_type: string } => {
  const type = isInexact(dtype) ? 'FLOAT' : isSigned(dtype) ? 'SIGNED' : 'UNSIGNED';
  return {
    comparison_direction: `#stablehlo<comparison_direction ${direction}>`,
    compare_type: `#stablehlo<comparison_type ${type}>`,
  };
};

export const i64s = (xs: readonly number[]): string => `array<i64${xs.length ? `: ${xs.join(', ')}` : ''}>`;
export const i64 = (x: number): string => `${x} : i64`;

/** One number, in the text of a rule. */
export const scalarConstant = (e: Emitter, value: number | bigint | boolean, scalar: Aval): Ssa =>
  e.op('constant', [], [scalar], { value: `dense<${literal(value, scalar.dtype)}> : ${scalar.mlir}` })[0]!;

/** Whether an operation forgets NaN. XLA's CPU compiler does so for the larger and the smaller of two: it is fast that way. */
export const forgetsNaN = (e: Emitter, hlo: string, { dtype }: Aval): boolean =>
  e.platform === 'cpu' && (hlo === 'maximum' || hlo === 'minimum') && isFloat(dtype);

/** An operation on two operands: NaN if one is. */
export function keepingNaN(e: Emitter, hlo: string, [a, b]: readonly Ssa[], out: Aval): Ssa {
  const [y] = e.op(hlo, [a!, b!], [out]);
  if (!forgetsNaN(e, hlo, out)) return y!;
  const pick = (x: Ssa, other: Ssa) => {
    const nans = e.op('compare', [x, x], [out.withDType('bool')], comparing('NE', out.dtype));
    return e.op('select', [nans[0]!, x, other], [out])[0]!;
  };
  return pick(a!, pick(b!, y!));
}
