// How an op is declared: one record with all its facts, from which the graph, the gradient and the text follow.
import type { DType } from '../../base/dtype.js';
import { DTypeError, ShapeError } from '../../base/errors.js';
import { literal } from '../../base/literal.js';
import { isFloat, isSigned } from '../../base/promote.js';
import type { Aval } from '../../ir/aval.js';
import { Expr } from '../../ir/expr.js';
import type { Emitter, Op, Ssa } from '../../ir/op.js';

/** One T for each operand. */
export type Each<X, T> = { readonly [K in keyof X]: T };

export interface OpDef<X extends readonly Expr[], A> {
  readonly name: string;
  /** The type of the result; throws a sentence with the op and every operand's type. */
  infer(xs: Each<X, Aval>, attrs: A): Aval;
  lower(e: Emitter, xs: Each<X, Ssa>, attrs: A, out: Aval): Ssa;
  /** The gradient of each operand, written with ops, so that it has a gradient itself. Absent: not differentiable. */
  vjp?(g: Expr, xs: X, attrs: A, y: Expr): Each<X, Expr | null>;
}

/** The same with several results. */
export interface MultiOpDef<X extends readonly Expr[], A> {
  readonly name: string;
  infer(xs: Each<X, Aval>, attrs: A): readonly Aval[];
  lower(e: Emitter, xs: Each<X, Ssa>, attrs: A, outs: readonly Aval[]): readonly Ssa[];
  vjp?(gs: readonly (Expr | null)[], xs: X, attrs: A, ys: readonly Expr[]): Each<X, Expr | null>;
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
  op.vjp !== undefined && inputs.some((x) => x.differentiable) && avals.some((a) => isFloat(a.dtype));

// The types of a record hold for its own inputs alone; the graph forgets them. This is the one place where they are cast.
export function define<X extends readonly Expr[], A = null>(def: OpDef<X, A>): (xs: X, attrs: A) => Expr {
  const { vjp } = def;
  const op = register({
    name: def.name,
    lower: (e, xs, expr) => [def.lower(e, xs as Each<X, Ssa>, expr.attrs as A, expr.aval)],
    ...(vjp && {
      vjp: ([g], expr) => vjp(g!, expr.inputs as unknown as X, expr.attrs as A, expr) as readonly (Expr | null)[],
    }),
  });
  return (xs, attrs) => {
    const aval = def.infer(xs.map((x) => x.aval) as unknown as Each<X, Aval>, attrs);
    return new Expr(op, xs, attrs, aval, undefined, flows(op, xs, [aval]));
  };
}

export function defineMulti<X extends readonly Expr[], A = null>(def: MultiOpDef<X, A>): (xs: X, attrs: A) => Expr[] {
  const { vjp } = def;
  const op = register({
    name: def.name,
    lower: (e, xs, expr) => def.lower(e, xs as Each<X, Ssa>, expr.attrs as A, expr.avals!),
    ...(vjp && {
      vjp: (gs, expr) =>
        vjp(gs, expr.inputs as unknown as X, expr.attrs as A, results(expr)) as readonly (Expr | null)[],
    }),
    ...(def.covers && { covers: (wide, narrow) => def.covers!(wide.attrs as A, narrow.attrs as A) }),
  });
  return (xs, attrs) => {
    const avals = def.infer(xs.map((x) => x.aval) as unknown as Each<X, Aval>, attrs);
    return results(new Expr(op, xs, attrs, avals[0]!, avals, flows(op, xs, avals)));
  };
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
  const type = isFloat(dtype) ? 'FLOAT' : isSigned(dtype) ? 'SIGNED' : 'UNSIGNED';
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
