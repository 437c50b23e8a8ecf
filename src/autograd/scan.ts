// Loops with a known number of iterations. The body is written once; the gradient is a loop in reverse order over the values
// that the first one saved.
import { byteLength } from '../base/dtype.js';
import { literal } from '../base/literal.js';
import { isInexact } from '../base/promote.js';
import { range } from '../base/shape.js';
import { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import type { Emitter, Lane, Ssa } from '../ir/op.js';
import { batchBody, frontTo, stack, toFront } from '../ops/prim/batch.js';
import { Body, type Changed, captured, parameter, type Traced, trace, usedBy } from '../ops/prim/body.js';
import { full, zerosLike } from '../ops/prim/constant.js';
import { comparing, defineMulti, type Lanes, PICK } from '../ops/prim/define.js';
import { matrixOfRows } from '../ops/prim/dot.js';
import { readRow, writeRow } from '../ops/prim/dynamic.js';
import { reshape } from '../ops/prim/move.js';
import { add } from '../ops/prim/pointwise.js';
import { concat, pieces } from '../ops/prim/slice.js';
import { recomputed } from './checkpoint.js';
import { gradients } from './sweep.js';

export interface ScanOptions {
  /** Whether to iterate from the last element to the first. Default: false. */
  readonly reverse?: boolean;
  /** The number of iterations unrolled per turn of the loop. Default: 1. */
  readonly unroll?: number;
  /** Whether to keep only the carries for the gradient and recompute the rest of each iteration. Default: false. */
  readonly checkpoint?: boolean;
}

/**
 * Operands: what the body captured, the first carry, the stacked inputs. The body takes those, with one row of each stacked
 * input, and gives the next carry and a row of each output.
 */
interface Attrs extends Required<ScanOptions> {
  readonly body: Body;
  readonly length: number;
  /** How many operands are captured, how many are carried. */
  readonly fixed: number;
  readonly carried: number;
}

const scanOp: (xs: readonly Expr[], attrs: Attrs) => Expr[] = defineMulti<readonly Expr[], Attrs>({
  name: 'scan',
  infer: (_, { body, carried, length }) =>
    body.results.map(({ aval }, i) => (i < carried ? aval : aval.withShape([length, ...aval.shape]))),
  lower: (e, xs, attrs, outs) => lower(e, xs, attrs, outs),
  vjp: (gs, operands, attrs) => reverseScan(gs, operands, attrs),
  batch: (lanes) => batchScan(lanes),
  covers: (wide, narrow) => sameLoop(wide, narrow) && wide.body.covers(narrow.body),
});

const sameLoop = (a: Attrs, b: Attrs): boolean =>
  a.length === b.length && a.fixed === b.fixed && a.carried === b.carried && a.reverse === b.reverse;

/** Runs a body for each row of the stacked inputs, with a carry. Outside values that the body uses are captured. */
export function scan(
  init: readonly Expr[],
  xs: readonly Expr[],
  length: number,
  run: (carry: readonly Expr[], x: readonly Expr[]) => { carry: readonly Expr[]; ys: readonly Expr[] },
  options: ScanOptions = {},
): { carry: Expr[]; ys: Expr[] } {
  const n = init.length;
  const t = trace([...init.map((c) => c.aval), ...rowsOf(xs)], (params) => {
    const { carry, ys } = run(params.slice(0, n), params.slice(n));
    return [...carry, ...ys];
  });
  const carries = init.map((before, i) => ({ before, inside: t.params[i]!, after: t.results[i]! }));
  return looped(t, carries, { xs, rows: t.params.slice(n), ys: t.results.slice(n) }, length, options);
}

/**
 * Sums over all passes: `run` says what one pass adds to each, and is called once; `start` says, after that, what they
 * begin with. Nothing is kept of a pass, so that memory does not grow with their number.
 */
export function sumOver(
  xs: readonly Expr[],
  length: number,
  run: (x: readonly Expr[]) => readonly Expr[],
  start: (terms: readonly Expr[]) => readonly Expr[],
  advice?: string,
): Expr[] {
  const t = trace(rowsOf(xs), run, advice);
  const sums = start(t.results).map((before, i) => {
    const inside = parameter(before.aval);
    return { before, inside, after: add(inside, t.results[i]!) };
  });
  return looped(t, sums, { xs, rows: t.params, ys: [] }, length, {}).carry;
}

const rowsOf = (xs: readonly Expr[]): Aval[] => xs.map((x) => x.aval.withShape(x.shape.slice(1)));

/** The loop of a traced body: what it hands on from pass to pass, and what it takes and gives in each. */
function looped(
  traced: Traced,
  carries: readonly Changed[],
  { xs, rows, ys }: Readonly<Record<'xs' | 'rows' | 'ys', readonly Expr[]>>,
  length: number,
  { reverse = false, unroll = 1, checkpoint = false }: ScanOptions,
): { carry: Expr[]; ys: Expr[] } {
  const { cells, born } = traced;
  const all = [...carries, ...cells.values()];
  const results = [...all.map((c) => c.after), ...ys];
  const used = usedBy(traced, rows, results); // the others need not be there at all
  const params = [...all.map((c) => c.inside), ...used.map((i) => rows[i]!)];
  const fixed = captured(params, results, born);
  const outs = loop([...fixed, ...all.map((c) => c.before), ...used.map((i) => xs[i]!)], {
    body: new Body([...fixed, ...params], results),
    length,
    fixed: fixed.length,
    carried: all.length,
    reverse,
    unroll,
    checkpoint,
  });
  [...cells.keys()].forEach((cell, i) => (cell.expr = outs[carries.length + i]!));
  return { carry: outs.slice(0, carries.length), ys: outs.slice(all.length) };
}

function loop(operands: readonly Expr[], attrs: Attrs): Expr[] {
  const { body, length, fixed, carried, unroll } = attrs;
  if (!body.results.length) return [];
  if (length >= 2 * unroll) return scanOp(operands, attrs);
  if (length > 0) return writtenOut(operands, attrs);
  return body.results.map(({ aval }, i) =>
    i < carried ? operands[fixed + i]! : full([0, ...aval.shape], 0, aval.dtype),
  );
}

/** All passes one after the other: nothing is stacked that one pass saves for its gradient alone. */
function writtenOut(operands: readonly Expr[], { body, length, fixed, carried, reverse, checkpoint }: Attrs): Expr[] {
  const [consts, init, xs] = split(operands, fixed, carried);
  const stacks = xs.map((x) =>
    pieces(
      x,
      0,
      range(length).map(() => 1),
    ).map((row) => reshape(row, x.shape.slice(1))),
  );
  const order = reverse ? range(length).reverse() : range(length);
  const ys: Expr[][] = [];
  let carry: readonly Expr[] = init;
  for (const i of order) {
    const args = [...consts, ...carry, ...stacks.map((rows) => rows[i]!)];
    const results = checkpoint ? recomputed(body, args) : body.apply(args);
    carry = results.slice(0, carried);
    ys[i] = results.slice(carried);
  }
  const stacked = ys[0]!.map((_, k) =>
    concat(
      ys.map((row) => reshape(row[k]!, [1, ...row[k]!.shape])),
      0,
    ),
  );
  return [...carry, ...stacked];
}

// ---- as text

const COUNTER = Aval.of('i32', []);

function lower(e: Emitter, operands: readonly Ssa[], attrs: Attrs, outs: readonly Aval[]): Ssa[] {
  const { body, length, fixed, carried, reverse, unroll } = attrs;
  const [consts, carry, xs] = split(operands, fixed, carried);
  const turned = matricesToTurn(e, attrs);
  for (const i of turned) {
    const { dtype, shape } = e.typeOf(consts[i]!);
    const out = Aval.of(dtype, [shape[1]!, shape[0]!]);
    consts.push(...e.op('transpose', [consts[i]!], [out], { permutation: 'array<i64: 1, 0>' }));
  }
  const count = (i: number) => e.op('constant', [], [COUNTER], { value: `dense<${i}> : ${COUNTER.mlir}` })[0]!;
  const stacks = outs.slice(carried).map((out) => {
    const [zero] = e.op('constant', [], [out.withShape([])], {
      value: `dense<${ZERO(out)}> : ${out.withShape([]).mlir}`,
    });
    return e.op('broadcast_in_dim', [zero!], [out], { broadcast_dimensions: 'array<i64>' })[0]!;
  });
  interface State {
    readonly consts: readonly Ssa[];
    readonly carry: readonly Ssa[];
    readonly xs: readonly Ssa[];
    readonly stacks: readonly Ssa[];
  }
  const pass = (s: State, at: Ssa, zero: Ssa): State => {
    turned.forEach((i, k) => void e.turned!.set(s.consts[i]!, s.consts[fixed + k]!));
    const results = body.emit(e, [
      ...s.consts.slice(0, fixed),
      ...s.carry,
      ...s.xs.map((x) => readRow(e, x, at, zero)),
    ]);
    return {
      ...s,
      carry: results.slice(0, carried),
      stacks: s.stacks.map((stack, i) => writeRow(e, stack, results[carried + i]!, at, zero)),
    };
  };
  /** The place of pass i + offset, in the order of the loop. */
  const place = (i: Ssa, offset: number): Ssa => {
    if (reverse) return e.op('subtract', [count(length - 1 - offset), i], [COUNTER])[0]!;
    return offset ? e.op('add', [i, count(offset)], [COUNTER])[0]! : i;
  };
  const flat = (s: State) => [...s.consts, ...s.carry, ...s.xs, ...s.stacks];
  const unflat = (all: readonly Ssa[]): State => {
    const [c, k, x, rest] = split(all, consts.length, carry.length, xs.length);
    return { consts: c, carry: k, xs: x, stacks: rest };
  };

  const types = [COUNTER, ...[...consts, ...carry, ...xs, ...stacks].map((x) => e.typeOf(x))];
  const looped = length - (length % unroll);
  const go = e.region(types, ([i]) => [
    e.op('compare', [i!, count(looped)], [COUNTER.withDType('bool')], comparing('LT', COUNTER.dtype))[0]!,
  ]);
  const turn = e.region(types, ([i, ...all]) => {
    const zero = count(0);
    let s = unflat(all);
    for (const k of range(unroll)) s = pass(s, place(i!, k), zero);
    return [e.op('add', [i!, count(unroll)], [COUNTER])[0]!, ...flat(s)];
  });
  let state = unflat(e.op('while', [count(0), ...consts, ...carry, ...xs, ...stacks], types, {}, [go, turn]).slice(1));
  // The remaining iterations are written after the loop.
  for (let i = looped; i < length; i++) state = pass(state, count(reverse ? length - 1 - i : i), count(0));
  return [...state.carry, ...state.stacks];
}

/** The fewest passes that are worth a transposition before the loop, and the most bytes of a matrix that is kept in both forms. */
const TURNING_PASSES = 8;
const TURNED_BYTES = 2 ** 22;
/** Captured matrices that each pass multiplies with rows: their places. On a CPU the loop takes them transposed, too. */
function matricesToTurn(e: Emitter, { body, fixed, length }: Attrs): number[] {
  if (e.platform !== 'cpu' || e.mesh || !e.turned || length < TURNING_PASSES) return [];
  const matrices = new Set(body.graph.nodes.map(matrixOfRows));
  return range(fixed).filter((i) => matrices.has(body.params[i]!) && byteLength(body.params[i]!.aval) <= TURNED_BYTES);
}

const ZERO = (a: Aval): string => literal(a.dtype === 'bool' ? false : 0, a.dtype);

function split<T>(all: readonly T[], ...sizes: readonly number[]): T[][] & [T[], T[], T[], T[]] {
  let at = 0;
  const parts = sizes.map((n) => all.slice(at, (at += n)));
  return [...parts, all.slice(at)] as T[][] & [T[], T[], T[], T[]];
}

// ---- for many examples

/** The examples of a stacked input lie behind its rows. */
function batchScan({ xs, stacked, attrs, n }: Lanes<readonly Expr[], Attrs>): Lane[] {
  const { body, fixed, carried } = attrs;
  // What a pass makes of stacked values is stacked, and so is what the next pass is given.
  let given: readonly boolean[] = stacked;
  for (;;) {
    const more = batchBody(body, given, n).stacked;
    const next = given.map((is, i) => is || (i >= fixed && i < fixed + carried && more[i - fixed]!));
    if (next.every((is, i) => is === given[i])) break;
    given = next;
  }
  const pass = batchBody(body, given, n, (i) => i < carried && given[fixed + i]!);
  const operands = xs.map((x, i) => {
    if (i < fixed + carried) return given[i] && !stacked[i] ? stack(x, n) : x;
    return stacked[i] ? frontTo(x, 1) : x;
  });
  return scanOp(operands, { ...attrs, body: pass.body }).map((x, i) => ({
    x: i >= carried && pass.stacked[i] ? toFront(x, 1) : x,
    stacked: pass.stacked[i]!,
  }));
}

// ---- the gradient

function reverseScan(gs: readonly (Expr | null)[], operands: readonly Expr[], attrs: Attrs): (Expr | null)[] {
  const { body, fixed, carried } = attrs;
  const active = activity(operands, attrs);
  const params = body.params.map((p, i) => parameter(p.aval, i, active[i]));
  const results = body.apply(params);

  // The gradient of one pass: what comes from the pass after it, and from this pass's outputs.
  const carries = range(carried).filter((i) => active[fixed + i]);
  const outputs = range(results.length).filter((i) => i >= carried && gs[i] && results[i]!.differentiable);
  const [fromNext, fromOutputs] = [carries, outputs].map((list) => list.map((i) => parameter(results[i]!.aval)));
  const wrt = range(params.length).filter((i) => active[i]);
  const flow = gradients(
    [...carries, ...outputs].map((i) => results[i]!),
    [...fromNext!, ...fromOutputs!],
    wrt.map((i) => params[i]!),
  );
  const gradientOf = new Map(wrt.map((i, k) => [i, flow[k]!]));
  const toFixed = wrt.filter((i) => i < fixed && gradientOf.get(i));
  const toRows = wrt.filter((i) => i >= fixed + carried && gradientOf.get(i));
  const sums = toFixed.map((i) => parameter(params[i]!.aval));
  const next = [
    ...carries.map((i) => gradientOf.get(fixed + i) ?? zerosLike(params[fixed + i]!)),
    ...toFixed.map((i, k) => add(sums[k]!, gradientOf.get(i)!)),
  ];
  const rows = toRows.map((i) => gradientOf.get(i)!);

  const { consts, saved } = residuals([...next, ...rows], params, results, attrs);
  const isRow = (e: Expr) => params.indexOf(e) >= fixed + carried;
  const kept = saved.filter((e) => !isRow(e));
  const wide = kept.length
    ? scanOp(operands, { ...attrs, body: new Body(params, [...results, ...kept], body) }).slice(results.length)
    : [];
  const back = loop(
    [
      ...consts.map((e) => operands[params.indexOf(e)]!),
      ...carries.map((i) => gs[i] ?? zerosLike(operands[fixed + i]!)),
      ...sums.map(zerosLike),
      ...saved.map((e) => (isRow(e) ? operands[params.indexOf(e)]! : wide[kept.indexOf(e)]!)),
      ...outputs.map((i) => gs[i]!),
    ],
    {
      ...attrs,
      body: new Body([...consts, ...fromNext!, ...sums, ...saved, ...fromOutputs!], [...next, ...rows]),
      fixed: consts.length,
      carried: next.length,
      reverse: !attrs.reverse,
    },
  );
  const order = [...carries.map((i) => fixed + i), ...toFixed, ...toRows];
  return operands.map((_, i) => back[order.indexOf(i)] ?? null);
}

/** Which operands a gradient goes to. One carried on is reached too if any pass puts into it what wants a gradient. */
function activity(operands: readonly Expr[], { body, fixed, carried }: Attrs): boolean[] {
  const active = operands.map((x) => x.differentiable && isInexact(x.dtype));
  for (;;) {
    const results = body.apply(body.params.map((p, i) => parameter(p.aval, i, active[i])));
    const more = range(carried).filter((i) => results[i]!.differentiable && !active[fixed + i]);
    if (!more.length) return active;
    for (const i of more) active[fixed + i] = true;
  }
}

/** Operations that only move elements: repeating them is cheaper than saving the result. */
const CHEAP = new Set(['broadcastInDim', 'reshape', 'transpose', 'convert', 'detach', 'alias', 'variable']);

/** What the gradient of a pass needs of the pass: values that change from pass to pass are saved; others are at hand. */
export function residuals(
  wanted: readonly Expr[],
  params: readonly Expr[],
  results: readonly Expr[],
  { fixed, checkpoint }: Pick<Attrs, 'fixed' | 'checkpoint'>,
): { consts: Expr[]; saved: Expr[] } {
  const forward = new Set(collect(results).nodes);
  const changing = new Set(params.slice(fixed));
  for (const e of forward) if (e.inputs.some((x) => changing.has(x))) changing.add(e);
  // An inner loop that was widened to save what its own gradient needs belongs to the pass, and so do its results.
  const belongs = (e: Expr): boolean =>
    forward.has(e) ||
    ((e.op === PICK || e.op.covers !== undefined) && e.inputs.length > 0 && e.inputs.every((x) => belongs(x)));
  const changes = (e: Expr): boolean => changing.has(e) || (!forward.has(e) && e.inputs.some(changes));
  const isSaved = (e: Expr): boolean => {
    if (changing.has(e) && e.inputs.length === 0) return true; // a parameter
    if (checkpoint || e.avals || !belongs(e) || !changes(e)) return false;
    return !(CHEAP.has(e.op.name) && byteLength(e.inputs[0]!.aval) <= byteLength(e.aval));
  };
  const { nodes } = collect(wanted, isSaved);
  const fixedParams = new Set(params.slice(0, fixed));
  return { consts: nodes.filter((e) => fixedParams.has(e)), saved: nodes.filter(isSaved) };
}
