// Attention as one node, so that a device can have a form of its own for it, forward and backward:
// - cuDNN's flash attention, on CUDA in bf16 and f16 (prim/cudnn.ts);
// - our own flash attention, on a TPU (kernels/flash.ts);
// - plain: two batched products and a softmax between, which XLA fuses; on the CPU a causal one in bands of queries;
// - in chunks: the plain form for some queries at a time, in a loop, where all scores at once would be too large.
// The gradient is a node, too. It computes the weights again, in the words of the forward pass: where both are in one
// program, XLA takes the second for the first; across a loop or a checkpoint only what is [.., T, d] is kept.

import { scan } from '../autograd/scan.js';
import { gradients } from '../autograd/sweep.js';
import { DTYPES, sizeOf } from '../base/dtype.js';
import { Interner } from '../base/intern.js';
import { wideType } from '../base/promote.js';
import { range } from '../base/shape.js';
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { BATCH_AXES, Sharding } from '../ir/mesh.js';
import type { Emitter, Lane, Ssa } from '../ir/op.js';
import * as tpu from '../kernels/flash.js';
import { batchBody } from './prim/batch.js';
import { alias, Body, parameter } from './prim/body.js';
import { broadcastTo, reduceSum } from './prim/broadcast.js';
import { writeRegion } from './prim/collective.js';
import { full, iota } from './prim/constant.js';
import { flashBackward, flashForward } from './prim/cudnn.js';
import { defineMulti, type Lanes } from './prim/define.js';
import { dotGeneral } from './prim/dot.js';
import { convert, permute, reshape } from './prim/move.js';
import { add, div, eq, exp, ge, gt, le, log, maximum, mul, sub, where } from './prim/pointwise.js';
import { reduceOr, reduceTop } from './prim/reduce.js';
import { concat, padDim, sliceDim } from './prim/slice.js';
import { advance, words } from './prim/threefry.js';

/**
 * Operands: query [B, H, T, d], key [B, G, S, d], value [B, G, S, e], where G divides H; the mask, bool or float, whose
 * sizes may be 1; the state of a random generator. Results: the output [B, H, T, e], and the statistic [B, H, T], the
 * logarithm of each softmax's sum, which only a gradient uses.
 */
export interface Attention {
  readonly scale: number;
  /** Query i sees keys 0 to i. */
  readonly causal: boolean;
  readonly mask: boolean;
  /** The part of the weights that is dropped; above 0 there is a random state. */
  readonly dropout: number;
  /** How many queries are taken at a time; 0: all. */
  readonly chunk: number;
  /** Whether a flash attention may do it. */
  readonly flash: boolean;
}
interface Operands {
  readonly q: Expr;
  readonly k: Expr;
  readonly v: Expr;
  readonly mask?: Expr | undefined;
  readonly state?: Expr | undefined;
}
const operandsOf = (xs: readonly Expr[], { mask, dropout }: Attention): Operands => {
  const [q, k, v, ...rest] = xs as [Expr, Expr, Expr, ...Expr[]];
  return { q, k, v, mask: mask ? rest[0] : undefined, state: dropout ? rest[mask ? 1 : 0] : undefined };
};
const given = ({ mask, dropout }: Attention): number => 3 + Number(mask) + Number(dropout > 0);

// ---- the plain form, of all queries or of some

type Of = Pick<Attention, 'scale' | 'causal' | 'dropout'>;
/** [B, H, T, n] as [B, G, H / G, T, n]: heads with the same key side by side. */
const grouped = (x: Expr, k: Expr): Expr => {
  const [, groups] = k.shape as [number, number];
  const [batch, heads, rows, n] = x.shape as [number, number, number, number];
  return reshape(x, [batch, groups, heads / groups, rows, n]);
};
/** A product for every example and group, in this shape; `sum`: the dimensions that are summed over. */
const product = (
  a: Expr,
  b: Expr,
  sum: readonly [readonly number[], readonly number[]],
  shape: readonly number[],
  wide: boolean,
): Expr =>
  reshape(
    dotGeneral([a, b], {
      batch: [
        [0, 1],
        [0, 1],
      ],
      sum,
      ...(wide && wideType(a.dtype) !== a.dtype && { out: wideType(a.dtype) }),
    }),
    shape,
  );
/** All rows that have the same keys. */
const ROWS = [
  [2, 3],
  [2, 3],
] as const;
const overKeys = (reduce: (x: Expr, dims: readonly number[]) => Expr, x: Expr): Expr =>
  reshape(reduce(x, [3]), x.shape.with(3, 1));

const column = (x: Expr): Expr => reshape(x, [...x.shape, 1]);
const uncolumn = (x: Expr): Expr => reshape(x, x.shape.slice(0, -1));

/** Far below every score. Finite: with -inf XLA's CPU compiler makes a softmax that takes three times as long. */
const HIDDEN = -1e30;
/** [B, H, T, S] in f32 at least; HIDDEN where a query does not see a key. `first`: the place of the first query. */
function scoresOf({ q, k, mask }: Operands, { scale, causal }: Of, first?: Expr): Expr {
  const [batch, heads, rows] = q.shape as [number, number, number];
  const shape = [batch, heads, rows, k.shape[2]!];
  let scores = mul(product(grouped(q, k), k, [[4], [3]], shape, true), scale);
  const hidden = full([], HIDDEN, scores.dtype);
  if (mask) scores = mask.dtype === 'bool' ? where(mask, scores, hidden) : add(scores, convert(mask, scores.dtype));
  if (!causal) return scores;
  const [query, key] = [iota(shape.slice(2), 0, 'i32'), iota(shape.slice(2), 1, 'i32')];
  return where(ge(first ? add(query, first) : query, key), scores, hidden);
}

interface Softmax {
  /** exp(score - the largest of the row). Divided by the total, they are the weights. */
  readonly powers: Expr;
  readonly total: Expr;
  /** exp(score - statistic) is the weight. */
  readonly statistic: Expr;
}
/** A row of which nothing is seen has weights of 0. Only masks make such; or there are no keys. */
function softmax(scores: Expr, mask: Expr | undefined): Softmax {
  const isSafe = !mask && scores.shape[3]! > 0;
  const top = overKeys(reduceTop, scores);
  const shift = isSafe ? top : where(le(top, HIDDEN), 0, top);
  const powers = exp(sub(scores, shift));
  const total = overKeys(reduceSum, powers);
  const statistic = add(shift, log(total));
  if (isSafe) return { powers, total, statistic };
  const isEmpty = eq(total, 0);
  return {
    powers,
    total: where(isEmpty, 1, total),
    statistic: where(isEmpty, Number.POSITIVE_INFINITY, statistic),
  };
}

/** Whether each weight is kept. A query's random numbers follow those of the one before it, in a chunk or not. */
function kept(state: Expr, shape: readonly number[], dropout: number): Expr {
  const [batch, heads, rows, keys] = shape as [number, number, number, number];
  const [bits] = words(state, [rows, batch, heads, keys]);
  const least = full(bits.shape, Math.min(Math.round(dropout * 2 ** 32), 2 ** 32 - 1), 'u32');
  return permute(ge(bits, least), [1, 2, 0, 3]);
}
function dropped(x: Expr, { state }: Operands, { dropout }: Of): Expr {
  return state ? where(kept(state, x.shape, dropout), mul(x, 1 / (1 - dropout)), 0) : x;
}

function plainForward(xs: Operands, of: Of, first?: Expr): Expr[] {
  const { q, v, mask } = xs;
  const { powers, total, statistic } = softmax(scoresOf(xs, of, first), mask);
  const used = convert(dropped(powers, xs, of), v.dtype);
  const sums = product(grouped(used, v), v, [[4], [2]], q.shape.with(3, v.shape[3]!), true);
  // Divided last: what is [T, e] is smaller than what is [T, S].
  return [convert(div(sums, total), q.dtype), uncolumn(statistic)];
}

interface Results {
  readonly output: Expr;
  /** Absent: the softmax is computed again as in the forward pass. */
  readonly statistic?: Expr;
  /** The gradient of the output. */
  readonly g: Expr;
}
/** The gradients of query, key and value, the latter two in f32 at least, and of what is added to the scores. */
function plainBackward(xs: Operands, { output, statistic, g }: Results, of: Of, first?: Expr): Expr[] {
  const { q, k, v, mask } = xs;
  const scores = scoresOf(xs, of, first);
  const wide = scores.dtype;
  const { powers, total } = statistic
    ? { powers: exp(sub(scores, column(statistic))), total: undefined }
    : softmax(scores, mask);
  const weights = total ? div(powers, total) : powers;
  // The powers are there from the forward pass; but a small f16 gradient divided by the total may be too small for it.
  const late = total && q.dtype === wide;
  const used = convert(dropped(late ? powers : weights, xs, of), v.dtype);
  const byUsed = late ? div(g, total) : g;
  const ofUsed = product(grouped(g, v), v, [[4], [3]], scores.shape, true);
  const common = overKeys(reduceSum, mul(convert(g, wide), convert(output, wide))); // the same for all keys
  const ofScores = mul(weights, sub(dropped(ofUsed, xs, of), common));
  const scaled = grouped(convert(mul(ofScores, of.scale), q.dtype), k);
  return [
    product(scaled, k, [[4], [2]], q.shape, false),
    product(scaled, grouped(q, k), ROWS, k.shape, true),
    product(grouped(used, v), grouped(byUsed, v), ROWS, v.shape, true),
    ofScores,
  ];
}

/** The gradient of a mask, from that of the scores it was added to. */
const toMask = (ofScores: Expr, mask: Aval): Expr =>
  convert(
    reshape(
      reduceSum(
        ofScores,
        range(4).filter((d) => mask.shape[d] !== ofScores.shape[d]),
      ),
      mask.shape,
    ),
    mask.dtype,
  );

// ---- in chunks

/** [B, H, T, n] as [chunks, B, H, rows, n]; what is missing of the last chunk is 0. */
function cut(x: Expr, chunks: number): Expr {
  const [batch, heads, all, n] = x.shape as [number, number, number, number];
  const rows = Math.ceil(all / chunks);
  const whole = padDim(x, 2, 0, chunks * rows - all, x.dtype === 'bool' ? false : 0);
  return permute(reshape(whole, [batch, heads, chunks, rows, n]), [2, 0, 1, 3, 4]);
}
/** The other way round. */
function joined(x: Expr, all: number): Expr {
  const [chunks, batch, heads, rows, n] = x.shape as [number, number, number, number, number];
  return sliceDim(reshape(permute(x, [1, 2, 0, 3, 4]), [batch, heads, chunks * rows, n]), 2, 0, all);
}

/**
 * Runs `each` on some queries at a time: with their part of the operands and of `more`, and the place of the first of them.
 * It gives sums over all chunks, which begin at 0, and rows.
 */
function inChunks(
  xs: Operands,
  more: readonly Expr[],
  { chunk }: Attention,
  sums: readonly Aval[],
  each: (part: Operands, more: readonly Expr[], first: Expr) => { sums: readonly Expr[]; rows: readonly Expr[] },
): { sums: Expr[]; rows: Expr[] } {
  const { q, k, mask, state } = xs;
  const [batch, heads, all] = q.shape as [number, number, number];
  const chunks = Math.ceil(all / chunk);
  const size = Math.ceil(all / chunks);
  const cutMask = mask && mask.shape[2] !== 1 ? [cut(mask, chunks)] : [];
  const firsts = mul(iota([chunks], 0, 'i32'), full([chunks], size, 'i32'));
  const { carry, ys } = scan(
    [...sums.map((s) => full(s.shape, 0, s.dtype)), ...(state ? [state] : [])],
    [firsts, cut(q, chunks), ...cutMask, ...more.map((x) => cut(x, chunks))],
    chunks,
    (carried, [first, rows, ...rest]) => {
      const now = state && carried[sums.length]!;
      const part = { ...xs, q: rows!, mask: cutMask.length ? rest[0]! : mask, state: now };
      const done = each(part, rest.slice(cutMask.length), first!);
      const next = now ? [advance(now, sizeOf([size, batch, heads, k.shape[2]!]))] : [];
      return { carry: [...done.sums.map((s, i) => add(carried[i]!, s)), ...next], ys: done.rows };
    },
  );
  return { sums: carry.slice(0, sums.length), rows: ys.map((y) => joined(y, all)) };
}

// ---- in bands: some queries at a time, each with the keys up to its last query alone

/**
 * How many, for a causal attention on the CPU, where what is hidden need not be computed: of [64, 256, 64] in four bands
 * it takes 30% less time, forward and backward. Bands of fewer than 64 queries are too small for good products.
 */
function bandsOf({ platform }: Emitter, q: Aval, k: Aval, { causal, mask, dropout, chunk }: Attention): number {
  const [rows, keys] = [q.shape[2]!, k.shape[2]!];
  if (platform !== 'cpu' || !causal || mask || dropout || chunk || rows !== keys) return 1;
  return [4, 2].find((n) => rows % n === 0 && rows / n >= 64) ?? 1;
}
/** What `each` makes of every band: its part of the operands, the function that cuts other rows, its first query. */
function inBands<R>(
  { q, k, v }: Operands,
  bands: number,
  each: (part: Operands, cut: (x: Expr) => Expr, first: Expr) => R,
): R[] {
  const size = q.shape[2]! / bands;
  return range(bands).map((i) => {
    const cut = (x: Expr) => sliceDim(x, 2, i * size, (i + 1) * size);
    const seen = (x: Expr) => sliceDim(x, 2, 0, (i + 1) * size);
    return each({ q: cut(q), k: seen(k), v: seen(v) }, cut, full([], i * size, 'i32'));
  });
}
const bandedForward = (xs: Operands, of: Of, bands: number): Expr[] => {
  const parts = inBands(xs, bands, (part, _, first) => plainForward(part, of, first));
  return [0, 1].map((i) =>
    concat(
      parts.map((p) => p[i]!),
      2,
    ),
  );
};
function bandedBackward(xs: Operands, { output, g }: Results, of: Of, bands: number): Expr[] {
  const parts = inBands(xs, bands, (part, cut, first) =>
    plainBackward(part, { output: cut(output), g: cut(g) }, of, first),
  );
  const keys = xs.k.shape[2]!;
  const summed = (i: number) =>
    parts.map((p) => padDim(p[i]!, 2, 0, keys - p[i]!.shape[2]!)).reduce((a, b) => add(a, b));
  const dq = concat(
    parts.map((p) => p[0]!),
    2,
  );
  return [dq, summed(1), summed(2)];
}

function forward(xs: Operands, of: Attention, bands = 1): Expr[] {
  if (bands > 1) return bandedForward(xs, of, bands);
  if (!of.chunk) return plainForward(xs, of);
  const { rows } = inChunks(xs, [], of, [], (part, _, first) => {
    const [output, statistic] = plainForward(part, of, first) as [Expr, Expr];
    return { sums: [], rows: [output, column(statistic)] };
  });
  return [rows[0]!, uncolumn(rows[1]!)];
}

function backward(xs: Operands, results: Results, of: Attention, maskGrad: boolean, bands = 1): Expr[] {
  const { q, k, v, mask } = xs;
  const finish = ([dq, dk, dv, dm]: readonly Expr[]) => [
    dq!,
    convert(dk!, k.dtype),
    convert(dv!, v.dtype),
    ...(maskGrad ? [convert(dm!, mask!.dtype)] : []),
  ];
  if (bands > 1) return finish(bandedBackward(xs, results, of, bands));
  if (!of.chunk) {
    const { statistic: _, ...again } = results;
    const [dq, dk, dv, ofScores] = plainBackward(xs, again, of) as [Expr, Expr, Expr, Expr];
    return finish([dq, dk, dv, ...(maskGrad ? [toMask(ofScores, mask!.aval)] : [])]);
  }
  const { output, statistic, g } = results;
  const wide = wideType(q.dtype);
  const isSum = maskGrad && mask!.shape[2] === 1; // of all queries; else each chunk has rows of its own
  const sums = [k.aval, v.aval, ...(isSum ? [mask!.aval] : [])].map((a) => a.withDType(wide));
  const done = inChunks(xs, [output, column(statistic!), g], of, sums, (part, [o, s, dy], first) => {
    const results = { output: o!, statistic: uncolumn(s!), g: dy! };
    const [dq, dk, dv, ofScores] = plainBackward(part, results, of, first) as [Expr, Expr, Expr, Expr];
    const dm = maskGrad ? [toMask(ofScores, part.mask!.aval.withDType(wide))] : [];
    return { sums: [dk, dv, ...(isSum ? dm : [])], rows: [dq, ...(isSum ? [] : dm)] };
  });
  return finish([done.rows[0]!, ...done.sums.slice(0, 2), ...(isSum ? done.sums.slice(2) : done.rows.slice(1))]);
}

// ---- on CUDA

/** What cuDNN can do (its documentation, and XLA's): the rest is computed plainly. */
function isFlash(
  { platform, mesh }: Emitter,
  [q, k, v]: readonly Aval[],
  { flash, mask, dropout }: Attention,
): boolean {
  if (platform !== 'cuda' || !flash || mesh || dropout) return false; // XLA cannot split it; its random numbers are its own
  const [queries, keys, d] = [q!.shape[2]!, k!.shape[2]!, q!.shape[3]!];
  const isEven = queries % 2 === 0 && keys % 2 === 0; // a bias has a gradient only then
  return (
    (q!.dtype === 'bf16' || q!.dtype === 'f16') &&
    v!.shape[3] === d &&
    d % 8 === 0 &&
    d <= 128 &&
    queries > 1 &&
    keys > 0 &&
    q!.size > 0 &&
    (!mask || isEven)
  );
}

/** Far below every score; cuDNN subtracts such numbers, and so they are finite. */
const UNSEEN = { bf16: -(2 ** 41), f16: -(2 ** 15) } as const;
/** A mask as cuDNN adds it, and whether each query sees anything: where not, cuDNN's answer is no use. */
function asBias(mask: Expr, q: Aval, k: Aval): Expr[] {
  const dtype = q.dtype as keyof typeof UNSEEN;
  const shape = [mask.shape[0]!, mask.shape[1]!, q.shape[2]!, k.shape[2]!];
  const all = broadcastTo(mask, shape);
  const unseen = full([], UNSEEN[dtype], dtype);
  if (mask.dtype === 'bool') return [where(all, full([], 0, dtype), unseen), overKeys(reduceOr, all)];
  return [maximum(convert(all, dtype), unseen), overKeys(reduceOr, gt(all, Number.NEGATIVE_INFINITY))];
}
const cleared = (x: Expr, sees: Expr): Expr => where(sees, x, full([], 0, x.dtype));

function lowerFlash(e: Emitter, xs: readonly Ssa[], of: Attention, outs: readonly Aval[]): Ssa[] {
  const [q, k, v, mask] = xs as [Ssa, Ssa, Ssa, Ssa?];
  if (!of.mask) return flashForward(e, [q, k, v], of, outs);
  const [bias, sees] = biasOf(e, mask!, q, k);
  const [output, statistic] = flashForward(e, [q, k, v, bias], of, outs) as [Ssa, Ssa];
  return [...write(e, 'cleared', [output, sees!], null, ([x, s]) => [cleared(x!, s!)]), statistic];
}

function lowerFlashBackward(e: Emitter, xs: readonly Ssa[], of: Backward, outs: readonly Aval[]): Ssa[] {
  const [q, k, v] = xs as [Ssa, Ssa, Ssa];
  const [output, statistic, g] = xs.slice(given(of)) as [Ssa, Ssa, Ssa];
  if (!of.mask) return flashBackward(e, { q, k, v, statistic, output, g }, of, outs);
  const mask = xs[3]!;
  const [bias, sees] = biasOf(e, mask, q, k) as [Ssa, Ssa];
  const [seen] = write(e, 'cleared', [g, sees], null, ([x, s]) => [cleared(x!, s!)]);
  const types = [...outs.slice(0, 3), ...(of.maskGrad ? [e.typeOf(bias)] : [])];
  const made = flashBackward(e, { q, k, v, bias, statistic, output, g: seen! }, of, types);
  if (!of.maskGrad) return made;
  const type = e.typeOf(mask);
  return [...made.slice(0, 3), ...write(e, 'toMask', [made[3]!], type.id, ([x]) => [toMask(x!, type)])];
}
const biasOf = (e: Emitter, mask: Ssa, q: Ssa, k: Ssa): Ssa[] => {
  const [a, b] = [e.typeOf(q), e.typeOf(k)];
  return write(e, 'asBias', [mask], [a.id, b.id], ([m]) => asBias(m!, a, b));
};

// ---- on a TPU

type Devices = 'one' | Sharding;
/** How kernels are spread over devices, or nothing where products with the scores between them are the better form. */
function tpuFlash(
  { platform, mesh }: Emitter,
  [q, k, v]: readonly Aval[],
  { flash, mask, dropout }: Attention,
): Devices | undefined {
  if (platform !== 'tpu' || !flash || mask || dropout || !tpu.flashFits(q!, k!, v!)) return undefined;
  if (!mesh || mesh.size === 1) return 'one';
  const isSplit = (axis: string) => mesh.sizeOf(axis) > 1;
  const among = (names: readonly string[]) => mesh.axisNames.filter((axis) => isSplit(axis) && names.includes(axis));
  const [batch, heads] = [among(BATCH_AXES), among(['model'])];
  const known = batch.length + heads.length === mesh.axisNames.filter(isSplit).length;
  const fits = q!.shape[0]! % mesh.sizeOf(batch) === 0 && k!.shape[1]! % mesh.sizeOf(heads) === 0;
  return known && fits ? Sharding.along(mesh, [batch, heads]) : undefined;
}
/** Runs kernels on each device's part of the batch and of the heads: XLA does not split them. */
function onParts(
  e: Emitter,
  devices: Devices,
  xs: readonly Ssa[],
  outs: readonly Aval[],
  run: (parts: readonly Ssa[]) => Ssa[],
): Ssa[] {
  if (devices === 'one') return run(xs);
  const parts = xs.map((x) => e.typeOf(x)).map((t) => t.withShape(devices.shardShape(t.shape)));
  const split = (types: readonly Aval[]) => ({ shardings: types.map(() => devices), types });
  return writeRegion(e, devices.mesh, xs, split(parts), split(outs), run);
}
/** What of an attention is the kernels': all else would make others of them. */
const ofFlash = ({ scale, causal }: Attention): tpu.Flash => ({ scale, causal });
const lowerTpuFlash = (e: Emitter, devices: Devices, xs: readonly Ssa[], of: tpu.Flash, outs: readonly Aval[]): Ssa[] =>
  onParts(e, devices, xs, outs, (parts) =>
    write(e, 'flash', parts, of, ([q, k, v]) => tpu.flashForward({ q: q!, k: k!, v: v! }, of)),
  );
const lowerTpuFlashBackward = (
  e: Emitter,
  devices: Devices,
  xs: readonly Ssa[],
  of: tpu.Flash,
  outs: readonly Aval[],
): Ssa[] =>
  onParts(e, devices, xs, outs, (parts) =>
    write(e, 'flashBackward', parts, of, ([q, k, v, output, statistic, g]) =>
      tpu.flashBackward({ q: q!, k: k!, v: v! }, { output: output!, statistic: statistic!, g: g! }, of),
    ),
  );

// ---- the nodes

const bodies = new Interner<Body>(1000); // traced once for operands of the same types
/** Writes what a function makes of values of these types. `attrs`: all else that it depends on. */
function write(
  e: Emitter,
  name: string,
  xs: readonly Ssa[],
  attrs: unknown,
  run: (xs: readonly Expr[]) => readonly Expr[],
): Ssa[] {
  const types = xs.map((x) => e.typeOf(x));
  const key = `${name}:${types.map((t) => t.id)}:${JSON.stringify(attrs)}`;
  const body = bodies.get(key, () => {
    const params = types.map((t) => parameter(t));
    return new Body(params, run(params));
  });
  return body.emit(e, xs);
}

interface Backward extends Attention {
  readonly maskGrad: boolean;
}
const resultsOf = (xs: readonly Expr[], of: Attention): Required<Results> => {
  const [output, statistic, g] = xs.slice(given(of)) as [Expr, Expr, Expr];
  return { output, statistic, g };
};
/** Operands: those of the attention, its results, and the gradient of its output. */
const backwardOp: (xs: readonly Expr[], attrs: Backward) => Expr[] = defineMulti<readonly Expr[], Backward>({
  name: 'attentionBackward',
  infer: ([q, k, v, mask], { maskGrad }) => [q!, k!, v!, ...(maskGrad ? [mask!] : [])],
  lower: (e, xs, attrs, outs) => {
    const types = xs.slice(0, 3).map((x) => e.typeOf(x));
    if (isFlash(e, types, attrs)) return lowerFlashBackward(e, xs, attrs, outs);
    const devices = tpuFlash(e, types, attrs);
    if (devices) return lowerTpuFlashBackward(e, devices, xs, ofFlash(attrs), outs);
    const own = { ...attrs, chunk: chunkOn(e, types, attrs) };
    const bands = bandsOf(e, types[0]!, types[1]!, own);
    return write(e, 'backward', xs, { ...own, bands }, (all) =>
      backward(operandsOf(all, own), resultsOf(all, own), own, own.maskGrad, bands),
    );
  },
  // Second derivatives are those of the plain form. One value may stand for several operands: each has a gradient of its own.
  vjp: (gs, xs, attrs) => {
    const own = xs.map((x) => (x.differentiable ? alias(x) : x));
    const plain = { ...attrs, chunk: 0 };
    const ys = backward(operandsOf(own, plain), resultsOf(own, plain), plain, attrs.maskGrad);
    const seeded = range(ys.length).filter((i) => gs[i]);
    return gradients(
      seeded.map((i) => ys[i]!),
      seeded.map((i) => gs[i]!),
      own,
    );
  },
  batch: (lanes) => {
    const { attrs } = lanes;
    return asExamples(lanes, backwardOp, (all, plain) =>
      backward(operandsOf(all, plain), resultsOf(all, plain), plain, attrs.maskGrad),
    );
  },
});

const attentionOp: (xs: readonly Expr[], attrs: Attention) => Expr[] = defineMulti<readonly Expr[], Attention>({
  name: 'attention',
  infer: ([q, , v]) => [
    q!.withShape(q!.shape.with(3, v!.shape[3]!)),
    q!.withShape(q!.shape.slice(0, 3)).withDType(wideType(q!.dtype)),
  ],
  lower: (e, xs, attrs, outs) => {
    const types = xs.slice(0, 3).map((x) => e.typeOf(x));
    if (isFlash(e, types, attrs)) return lowerFlash(e, xs, attrs, outs);
    const devices = tpuFlash(e, types, attrs);
    if (devices) return lowerTpuFlash(e, devices, xs, ofFlash(attrs), outs);
    const own = { ...attrs, chunk: chunkOn(e, types, attrs) };
    const bands = bandsOf(e, types[0]!, types[1]!, own);
    return write(e, 'forward', xs, { ...own, bands }, (all) => forward(operandsOf(all, own), own, bands));
  },
  vjp: ([g], xs, attrs, ys) => {
    const maskGrad = attrs.mask && xs[3]!.differentiable;
    const back = backwardOp([...xs, ...ys, g!], { ...attrs, maskGrad });
    return xs.map((_, i) => (i < 3 || (i === 3 && maskGrad) ? back[i]! : null));
  },
  batch: (lanes) => asExamples(lanes, attentionOp, (all, plain) => forward(operandsOf(all, plain), plain)),
});

/** Examples are more of the batch. With dropout, of which each may have its own, it is the plain form that is batched. */
function asExamples<A extends Attention>(
  { xs, stacked, attrs, n, all }: Lanes<readonly Expr[], A>,
  op: (xs: readonly Expr[], attrs: A) => Expr[],
  plain: (xs: readonly Expr[], attrs: A) => readonly Expr[],
): Lane[] {
  if (attrs.dropout) {
    const params = xs.map(({ aval }, i) => parameter(stacked[i] ? aval.withShape(aval.shape.slice(1)) : aval));
    const { body, stacked: are } = batchBody(new Body(params, plain(params, { ...attrs, chunk: 0 })), stacked, n);
    return body.apply(xs).map((x, i) => ({ x, stacked: are[i]! }));
  }
  const whole = all();
  const [, batch] = whole[0]!.shape as [number, number];
  const single = attrs.mask && whole[3]!.shape[1] === 1; // one mask for the whole batch of an example
  const isShared = single && !stacked[3] && !('maskGrad' in attrs && attrs.maskGrad); // and for all examples
  const joined = whole.map((x, i) => {
    if (i === 3 && isShared) return xs[3]!;
    const y = i === 3 && single ? broadcastTo(x, x.shape.with(1, batch)) : x;
    return reshape(y, [n * batch, ...y.shape.slice(2)]);
  });
  const chunk = attrs.flash ? chunkFor(joined[0]!.aval, joined[1]!.aval) : attrs.chunk; // else the user has said it
  return op(joined, { ...attrs, chunk }).map((y, i) => {
    const x = reshape(y, [n, batch, ...y.shape.slice(1)]);
    const isMask = i === 3 && single;
    return { x: isMask ? reshape(reduceSum(x, [1]), x.shape.with(1, 1)) : x, stacked: true };
  });
}

/** How many queries at a time where several devices share the work: what was found for all of it, unless the user said so. */
const chunkOn = ({ mesh }: Emitter, [q, k]: readonly Aval[], { chunk, flash }: Attention): number =>
  mesh && chunk && flash ? chunkFor(q!, k!, mesh.size) : chunk;

/** The output of an attention. */
export const attention = (xs: readonly Expr[], attrs: Attention): Expr => attentionOp(xs, attrs)[0]!;

/** Scores of more bytes than this, of one attention, are computed in chunks of at most `part` bytes. */
export const CHUNKED = { above: 512 * 2 ** 20, part: 64 * 2 ** 20 };
/** How many queries at a time; 0: all. `devices`: how many share the work. */
export function chunkFor(q: Aval, k: Aval, devices = 1): number {
  const row = (sizeOf([q.shape[0]!, q.shape[1]!, k.shape[2]!]) * DTYPES[wideType(q.dtype)].bytes) / devices;
  return row * q.shape[2]! <= CHUNKED.above ? 0 : Math.max(1, Math.floor(CHUNKED.part / row));
}
