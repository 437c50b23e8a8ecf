// torch's products of vectors and matrices.
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isFloat, isInexact, kindOf } from '../base/promote.js';
import { broadcastShapes, normalizeDim, range, type Shape, sameShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { contract, type Labelled, mergeLead, takeDiagonals } from './contract.js';
import { floating } from './prim/align.js';
import { broadcastTo, reduceSum } from './prim/broadcast.js';
import { conjugate } from './prim/complex.js';
import { dtypesDiffer, typesOf } from './prim/define.js';
import { dotGeneral } from './prim/dot.js';
import { takeFixed } from './prim/gather.js';
import { reshape } from './prim/move.js';
import { abs, add, eq, isnan, logicalAnd, logicalOr, mul, sign, sqrt, sub, where } from './prim/pointwise.js';
import { pow } from './prim/power.js';
import { type PrecisionOption, withPrecision } from './prim/precision.js';
import { reduceMax } from './prim/reduce.js';
import { sliceDim } from './prim/slice.js';

/** torch converts nothing in products: all operands of one dtype, of numbers. */
function checkProduct(op: string, xs: readonly Expr[]): void {
  if (xs.some((x) => x.dtype !== xs[0]!.dtype)) {
    throw new DTypeError(dtypesDiffer(op, xs));
  }
  if (kindOf(xs[0]!.dtype) === 0) throw new DTypeError(`${op}: takes numbers, got ${typesOf(xs)}: convert them first`);
}
function checkRanks(op: string, xs: readonly Expr[], ranks: readonly number[], what: string): void {
  if (xs.some((x, i) => x.shape.length !== ranks[i]!)) {
    throw new ShapeError(`${op}: takes ${what}, got ${typesOf(xs)}: use matmul for other shapes`);
  }
}
function checkInner(op: string, a: Expr, b: Expr, inA: number, inB: number, hint = 'swap dims or operands'): void {
  const [m, n] = [a.shape.at(inA)!, b.shape.at(inB)!];
  if (m !== n) throw new ShapeError(`${op}: ${a.aval} x ${b.aval}: inner sizes ${m} and ${n} differ: ${hint}`);
}

// ---- matmul and its special cases

/**
 * The matrix product, batched over leading dimensions, which broadcast; a vector is a row on the left, a column on the
 * right. Reaches XLA as one product of two matrices where the right side is one matrix, else with one batch dimension.
 */
export function matmul(a: Expr, b: Expr, { precision }: PrecisionOption = {}): Expr {
  if (precision) return withPrecision('matmul', precision, () => matmul(a, b));
  checkProduct('matmul', [a, b]);
  if (!a.shape.length || !b.shape.length) {
    throw new ShapeError(`matmul: takes vectors and matrices, got ${typesOf([a, b])}: use mul for scalars`);
  }
  const [vectorA, vectorB] = [a.shape.length === 1, b.shape.length === 1];
  checkInner('matmul', a, b, -1, vectorB ? -1 : -2);
  const left = vectorA ? reshape(a, [1, ...a.shape]) : a;
  const right = vectorB ? reshape(b, [...b.shape, 1]) : b;
  const lead = broadcastShapes('matmul', left.shape.slice(0, -2), right.shape.slice(0, -2));
  const [k, n] = right.shape.slice(-2) as [number, number];
  const y =
    right.aval.size === k * n
      ? dotGeneral([left, reshape(right, [k, n])], { batch: [[], []], sum: [[left.shape.length - 1], [0]] })
      : dotGeneral([batched(left, lead), batched(right, lead)], {
          batch: [range(lead.length), range(lead.length)],
          sum: [[lead.length + 1], [lead.length]],
        });
  return reshape(y, [...lead, ...(vectorA ? [] : [left.shape.at(-2)!]), ...(vectorB ? [] : [n])]);
}
const batched = (x: Expr, lead: Shape): Expr => broadcastTo(x, [...lead, ...x.shape.slice(-2)]);

const product =
  (op: string, ranks: readonly [number, number], what: string) =>
  (a: Expr, b: Expr, { precision }: PrecisionOption = {}): Expr => {
    checkProduct(op, [a, b]);
    checkRanks(op, [a, b], ranks, what);
    checkInner(op, a, b, -1, ranks[1] === 1 ? -1 : -2);
    if (ranks[0] === 3 && a.shape[0] !== b.shape[0]) {
      throw new ShapeError(`${op}: batch sizes of ${typesOf([a, b])} differ: matmul broadcasts them`);
    }
    return withPrecision(op, precision, () => matmul(a, b));
  };
export const mm = product('mm', [2, 2], 'two matrices');
export const bmm = product('bmm', [3, 3], 'two batches of matrices');
export const mv = product('mv', [2, 1], 'a matrix and a vector');
export const dot = product('dot', [1, 1], 'two vectors');
const plainVdot = product('vdot', [1, 1], 'two vectors');
/** The same as dot, with the first vector conjugated if it is complex. */
export const vdot: typeof dot = (a, b, options) => plainVdot(conjugate(a), b, options);

/** The outer product: every element of one vector times every element of another. Dtypes are promoted, as in mul. */
export function outer(a: Expr, b: Expr): Expr {
  checkRanks('outer', [a, b], [1, 1], 'two vectors');
  return mul(reshape(a, [...a.shape, 1]), b);
}

/** The sum of products over the last dimension of each. */
export function inner(a: Expr, b: Expr): Expr {
  if (!a.shape.length || !b.shape.length) return mul(a, b);
  checkProduct('inner', [a, b]);
  checkInner('inner', a, b, -1, -1);
  return tensordot(a, b, [[-1], [-1]]);
}

/** The factors of beta * x + alpha * product. */
export interface AddOptions {
  readonly beta?: number | boolean;
  readonly alpha?: number | boolean;
}
const added =
  (op: string, times: (a: Expr, b: Expr) => Expr) =>
  (x: Expr, a: Expr, b: Expr, options: AddOptions = {}): Expr => {
    const [beta, alpha] = [Number(options.beta ?? 1), Number(options.alpha ?? 1)];
    if (op === 'addr' && [x, a, b].every((e) => e.dtype === 'bool')) {
      const [kept, made] = [
        logicalAnd(x, beta !== 0),
        logicalAnd(logicalAnd(reshape(a, [a.aval.size, 1]), b), alpha !== 0),
      ];
      return logicalOr(kept, made); // booleans are summed by or
    }
    checkProduct(op, [x, a, b]);
    if (!isInexact(x.dtype) && !(Number.isInteger(beta) && Number.isInteger(alpha))) {
      throw new ArgumentError(`${op}: beta ${beta} and alpha ${alpha} must be whole for ${typesOf([x, a, b])}`);
    }
    const y = times(a, b);
    if (!sameShape(broadcastShapes(op, x.shape, y.shape), y.shape)) {
      throw new ShapeError(`${op}: ${x.aval} does not broadcast to the product ${y.aval}`);
    }
    const scaled = alpha === 1 ? y : mul(y, alpha);
    return beta === 0 ? scaled : add(beta === 1 ? x : mul(x, beta), scaled); // with 0, x may hold NaN: it is not looked at
  };
export const addmm = added('addmm', mm);
export const addmv = added('addmv', mv);
export const addr = added('addr', outer);
export const baddbmm = added('baddbmm', bmm);
/** The products are summed over the batch. */
export const addbmm = added('addbmm', (a, b) => reduceSum(bmm(a, b), [0]));

function checkBias(op: string, bias: Expr | null | undefined, out: Shape): void {
  if (bias?.shape.length && !sameShape(bias.shape, out)) {
    throw new ShapeError(`${op}: bias is ${bias.aval}: it takes [${out.join(', ')}]`);
  }
}

/** x W^T + bias, with W of shape [out, in] or [in]. */
export function linear(x: Expr, weight: Expr, bias?: Expr | null, { precision }: PrecisionOption = {}): Expr {
  const all = [x, weight, ...(bias ? [bias] : [])];
  checkProduct('linear', all);
  if (!x.shape.length || !weight.shape.length || weight.shape.length > 2) {
    throw new ShapeError(`linear: takes [..., in] and a weight [out, in], got ${typesOf(all)}`);
  }
  checkInner('linear', x, weight, -1, -1, 'the weight is [out, in]');
  checkBias('linear', bias, weight.shape.slice(0, -1));
  const y = withPrecision('linear', precision, () =>
    dotGeneral([x, weight], { batch: [[], []], sum: [[x.shape.length - 1], [weight.shape.length - 1]] }),
  );
  return bias ? add(y, bias) : y;
}

/** a W b + bias for every row of a [..., in1] and b [..., in2], with W of shape [out, in1, in2]. */
export function bilinear(a: Expr, b: Expr, weight: Expr, bias?: Expr | null): Expr {
  const all = [a, b, weight, ...(bias ? [bias] : [])];
  checkProduct('bilinear', all);
  const [lead, other] = [a.shape.slice(0, -1), b.shape.slice(0, -1)];
  const [, in1, in2] = weight.shape;
  if (weight.shape.length !== 3 || in1 !== a.shape.at(-1) || in2 !== b.shape.at(-1) || String(lead) !== String(other)) {
    throw new ShapeError(`bilinear: takes [..., in1], [..., in2] and a weight [out, in1, in2], got ${typesOf(all)}`);
  }
  checkBias('bilinear', bias, weight.shape.slice(0, 1));
  const y = einsum('ni,oij,nj->no', mergeLead(a, 1), weight, mergeLead(b, 1));
  const shaped = reshape(y, [...lead, weight.shape[0]!]);
  return bias ? add(shaped, bias) : shaped;
}

// ---- any dimensions

/** Sums over the last `dims` dimensions of a and the first of b, or over pairs of dimensions: [[of a], [of b]]. */
export function tensordot(a: Expr, b: Expr, dims: number | readonly [readonly number[], readonly number[]] = 2): Expr {
  checkProduct('tensordot', [a, b]);
  const [rankA, rankB] = [a.shape.length, b.shape.length];
  if (typeof dims === 'number' && !(Number.isInteger(dims) && dims >= 0 && dims <= Math.min(rankA, rankB))) {
    throw new ShapeError(`tensordot: ${dims} dimensions cannot be summed over in ${typesOf([a, b])}`);
  }
  if (typeof dims !== 'number' && dims.length !== 2)
    throw new ArgumentError(`tensordot: dims has ${dims.length} lists: give two, the dimensions of a and those of b`);
  const [as, bs] = typeof dims === 'number' ? [range(dims).map((i) => rankA - dims + i), range(dims)] : dims;
  if (as.length !== bs.length) {
    throw new ArgumentError(`tensordot: ${as.length} dimensions of a and ${bs.length} of b: give as many of each`);
  }
  const [inA, inB] = [
    as.map((d) => normalizeDim('tensordot', d, rankA)),
    bs.map((d) => normalizeDim('tensordot', d, rankB)),
  ];
  inA.forEach((d, i) => {
    const [m, n] = [a.shape[d]!, b.shape[inB[i]!]!];
    if (m !== n && m !== 1 && n !== 1) {
      throw new ShapeError(`tensordot: ${typesOf([a, b])}: sizes ${m} of dim ${d} and ${n} of dim ${inB[i]} differ`);
    }
  });
  const labelsA = range(rankA).map((d) => (inA.includes(d) ? `s${inA.indexOf(d)}` : `a${d}`));
  const labelsB = range(rankB).map((d) => (inB.includes(d) ? `s${inB.indexOf(d)}` : `b${d}`));
  const out = [...labelsA, ...labelsB].filter((l) => !l.startsWith('s'));
  return contract(
    [
      { x: a, labels: labelsA },
      { x: b, labels: labelsB },
    ],
    out,
  );
}

/**
 * Einstein's sum: 'bij,bjk->bik'. A letter names a dimension; one that is not in the output is summed over; without an
 * output, the letters that occur once, in alphabetical order; '...' stands for the other dimensions, which broadcast; a
 * letter twice in one operand takes the diagonal. Several operands are multiplied in pairs, smallest products first.
 * Unlike torch: no lists of numbers in place of letters.
 */
export function einsum(equation: string, ...given: Expr[] | [readonly Expr[]]): Expr {
  const operands = given.flat() as Expr[];
  const what = `einsum '${equation}' of ${typesOf(operands)}`;
  const bad = (problem: string) => new ArgumentError(`${what}: ${problem}`);
  const [inputs, output, extra] = equation.replaceAll(/\s/g, '').split('->') as [string, string?, string?];
  const terms = inputs.split(',');
  if (extra !== undefined) throw bad("'->' occurs twice");
  if (!operands.length || terms.length !== operands.length) {
    throw bad(`${terms.length} terms for ${operands.length} operands: separate terms by commas`);
  }
  for (const t of [...terms, output ?? '']) {
    if (!/^[A-Za-z]*(\.\.\.)?[A-Za-z]*$/.test(t)) throw bad(`'${t}' is not a valid term: use letters and one '...'`);
  }
  checkProduct('einsum', operands);
  const letters = terms.map((t) => [...t.replace('...', '')]);
  const hidden = terms.map((t, i) => (t.includes('...') ? operands[i]!.shape.length - letters[i]!.length : 0));
  terms.forEach((t, i) => {
    if (hidden[i]! < 0 || (!t.includes('...') && letters[i]!.length !== operands[i]!.shape.length)) {
      throw new ShapeError(`${what}: '${t}' names ${letters[i]!.length} dimensions of ${operands[i]!.aval}`);
    }
  });
  // The dimensions of an ellipsis are named from the back: they meet as broadcasting has them.
  const dots = (n: number) => range(n).map((i) => `.${n - i}`);
  const expand = (t: string, n: number): string[] => {
    const [before, after] = t.split('...') as [string, string?];
    return after === undefined ? [...before] : [...before, ...dots(n), ...after];
  };
  const most = Math.max(...hidden);
  const labelled = terms.map((t, i): Labelled => ({ x: operands[i]!, labels: expand(t, hidden[i]!) }));
  const seen = labelled.flatMap((x) => x.labels);
  const once = [...new Set(letters.flat())].filter((l) => letters.flat().indexOf(l) === letters.flat().lastIndexOf(l));
  const out = output === undefined ? [...dots(most), ...once.sort()] : expand(output, most);
  const unknown = out.find((l) => !seen.includes(l));
  if (unknown) throw bad(`'${unknown}' of the output is in no term`);
  const twice = out.find((l, i) => out.indexOf(l) < i);
  if (twice) throw bad(`'${twice}' occurs twice in the output`);
  const known = new Map<string, number>();
  for (const { x, labels } of labelled) {
    labels.forEach((l, d) => {
      const [n, before] = [x.shape[d]!, known.get(l) ?? 1];
      if (n !== 1 && before !== 1 && n !== before) {
        throw new ShapeError(`${what}: sizes ${before} and ${n} of '${l.startsWith('.') ? '...' : l}' differ`);
      }
      if (n !== 1 || before === 1) known.set(l, n);
    });
    labels.forEach((l, d) => {
      const first = x.shape[labels.indexOf(l)]!;
      if (first !== x.shape[d]) throw new ShapeError(`${what}: sizes ${first} and ${x.shape[d]} of '${l}' differ`);
    });
  }
  return contract(labelled.map(takeDiagonals), out);
}

/** Blocks of b, one for every element of a, times it. */
export function kron(a: Expr, b: Expr): Expr {
  const rank = Math.max(a.shape.length, b.shape.length);
  const wide = (x: Expr): number[] => [...range(rank - x.shape.length).map(() => 1), ...x.shape];
  const [sizeA, sizeB] = [wide(a), wide(b)];
  const y = mul(
    reshape(
      a,
      sizeA.flatMap((n) => [n, 1]),
    ),
    reshape(
      b,
      sizeB.flatMap((n) => [1, n]),
    ),
  );
  return reshape(
    y,
    sizeA.map((n, d) => n * sizeB[d]!),
  );
}

/** The product of several matrices, in the order that takes the fewest multiplications; a vector may be at either end. */
export function multiDot(xs: readonly Expr[]): Expr {
  if (xs.length < 2) throw new ArgumentError(`multiDot: takes at least two operands, got ${xs.length}`);
  const [first, last] = [xs[0]!, xs.at(-1)!];
  const left = first.shape.length === 1 ? reshape(first, [1, ...first.shape]) : first;
  const right = last.shape.length === 1 ? reshape(last, [...last.shape, 1]) : last;
  const all = [left, ...xs.slice(1, -1), right];
  checkRanks(
    'multiDot',
    all,
    all.map(() => 2),
    'matrices',
  );
  all.slice(1).forEach((x, i) => checkInner('multiDot', all[i]!, x, -1, -2));
  const size = [left.shape[0]!, ...all.map((x) => x.shape[1]!)];
  const memo = new Map<string, { cost: number; make: () => Expr }>();
  const best = (i: number, j: number): { cost: number; make: () => Expr } => {
    if (i === j) return { cost: 0, make: () => all[i]! };
    const key = `${i},${j}`;
    const known = memo.get(key);
    if (known) return known;
    const ways = range(j - i).map((k) => {
      const [l, r] = [best(i, i + k), best(i + k + 1, j)];
      const cost = l.cost + r.cost + size[i]! * size[i + k + 1]! * size[j + 1]!;
      return { cost, make: () => mm(l.make(), r.make()) };
    });
    const least = ways.reduce((p, q) => (q.cost < p.cost ? q : p));
    memo.set(key, least);
    return least;
  };
  const y = best(0, all.length - 1).make();
  return reshape(y, [...(left === first ? [y.shape[0]!] : []), ...(right === last ? [y.shape[1]!] : [])]);
}
export const chainMatmul = (...xs: Expr[]): Expr => multiDot(xs);

/** The p-norm of the difference of every row of a [..., m, d] and every row of b [..., n, d]. */
export function cdist(
  a: Expr,
  b: Expr,
  { p = 2 }: { readonly p?: number; readonly computeMode?: string } = {}, // how it is computed is XLA's matter
): Expr {
  if (a.shape.length < 2 || b.shape.length < 2 || a.shape.at(-1) !== b.shape.at(-1)) {
    throw new ShapeError(`cdist: takes [..., m, d] and [..., n, d], got ${typesOf([a, b])}`);
  }
  if (!(p >= 0)) throw new ArgumentError(`cdist: p is ${p}: it must be 0 or more, or Infinity`);
  const rows = (x: Expr, at: number) => reshape(x, x.shape.toSpliced(x.shape.length - at, 0, 1));
  const difference = sub(rows(floating(a), 1), rows(floating(b), 2));
  const last = [difference.shape.length - 1];
  const size = abs(difference);
  if (p === 0) return reduceSum(abs(sign(where(isnan(difference), 1, difference))), last); // of slope 0
  if (p === 1) return reduceSum(size, last);
  if (p === Number.POSITIVE_INFINITY) return reduceMax(size, last);
  // Equal rows or elements: powers have no slope at 0, so the gradient there is set to 0, as in torch.
  const root = (x: Expr, q: number) =>
    where(eq(x, 0), 0, q === 0.5 ? sqrt(where(eq(x, 0), 1, x)) : pow(where(eq(x, 0), 1, x), q));
  return root(reduceSum(p === 2 ? mul(difference, difference) : root(size, p), last), 1 / p);
}

/** The p-norm of the difference of every two rows of a matrix: (0, 1), (0, 2), ..., (1, 2), ... */
export function pdist(x: Expr, { p = 2 }: { readonly p?: number } = {}): Expr {
  if (x.shape.length !== 2 || !isFloat(x.dtype)) throw new ShapeError(`pdist: takes a matrix of floats, got ${x.aval}`);
  const n = x.shape[0]!;
  const pairs = range(n).flatMap((i) => range(n - i - 1).map((j) => i * n + i + 1 + j));
  const all = reshape(cdist(x, x, { p }), [n * n]);
  return pairs.length ? takeFixed(all, 0, pairs) : sliceDim(all, 0, 0, 0);
}
