// Contractions of named dimensions, made of matrix products: what einsum and tensordot share.
import { sizeOf } from '../base/dtype.js';
import { range, type Shape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { reduceSum } from './prim/broadcast.js';
import { dotGeneral } from './prim/dot.js';
import { permute, reshape } from './prim/move.js';
import { mul } from './prim/pointwise.js';
import { padDim, slice } from './prim/slice.js';

/** An operand with a label for each dimension. */
export interface Labelled {
  readonly x: Expr;
  readonly labels: readonly string[];
}
type Labels = readonly string[];

const sizes = ({ x, labels }: Labelled): Map<string, number> => new Map(labels.map((l, i) => [l, x.shape[i]!]));
const arrange = ({ x, labels }: Labelled, order: Labels): Expr =>
  permute(
    x,
    order.map((l) => labels.indexOf(l)),
  );

/** x_ii: the elements where the dimensions of one label agree, until no label is there twice. */
export function takeDiagonals({ x, labels }: Labelled): Labelled {
  const j = labels.findIndex((l, i) => labels.indexOf(l) < i);
  if (j < 0) return { x, labels };
  const i = labels.indexOf(labels[j]!);
  const rest = range(labels.length).filter((d) => d !== i && d !== j);
  const [n, lead] = [x.shape[i]!, rest.map((d) => x.shape[d]!)];
  // Rows of n become rows of n + 1: the diagonal is then the first column.
  const flat = reshape(permute(x, [...rest, i, j]), [...lead, n * n]);
  const skewed = reshape(padDim(flat, lead.length, 0, n), [...lead, n, n + 1]);
  const first = slice(
    skewed,
    skewed.shape.map(() => 0),
    [...lead, n, 1],
  );
  return takeDiagonals({ x: reshape(first, [...lead, n]), labels: [...rest.map((d) => labels[d]!), labels[j]!] });
}

/** Sums over the labels that nothing else needs. */
const sumAway = ({ x, labels }: Labelled, needed: ReadonlySet<string>): Labelled => ({
  x: reduceSum(
    x,
    range(labels.length).filter((d) => !needed.has(labels[d]!)),
  ),
  labels: labels.filter((l) => needed.has(l)),
});

/** Two operands, summed over the labels they share and nothing else needs; as one matrix product, batched if need be. */
function contractPair(a: Labelled, b: Labelled, needed: ReadonlySet<string>): Labelled {
  const [sizeA, sizeB] = [sizes(a), sizes(b)];
  const shared = a.labels.filter((l) => sizeB.has(l));
  const [batch, sum] = [shared.filter((l) => needed.has(l)), shared.filter((l) => !needed.has(l))];
  const [freeA, freeB] = [a.labels.filter((l) => !sizeB.has(l)), b.labels.filter((l) => !sizeA.has(l))];
  const labels = [...batch, ...freeA, ...freeB];
  if (!sum.length) {
    const wide = (x: Labelled, own: Labels) =>
      reshape(
        arrange(x, [...batch, ...own]),
        labels.map((l) => (x.labels.includes(l) ? sizes(x).get(l)! : 1)),
      );
    return { x: mul(wide(a, freeA), wide(b, freeB)), labels };
  }
  // The order [batch, sum, free] is taken as it is, else [batch, free, sum] is made.
  const place = (x: Labelled, free: Labels) => {
    const sumFirst = [...batch, ...sum, ...free].every((l, i) => l === x.labels[i]);
    const order = sumFirst ? [...batch, ...sum, ...free] : [...batch, ...free, ...sum];
    return { x: arrange(x, order), sum: sum.map((l) => order.indexOf(l)) };
  };
  const [l, r] = [place(a, freeA), place(b, freeB)];
  const lead = range(batch.length);
  return { x: dotGeneral([l.x, r.x], { batch: [lead, lead], sum: [l.sum, r.sum] }), labels };
}

/** The sum over all labels that are not in `out`; sizes of one label are equal or 1. */
export function contract(operands: readonly Labelled[], out: Labels): Expr {
  const full = new Map<string, number>();
  for (const x of operands) for (const [l, n] of sizes(x)) if (n !== 1 || !full.has(l)) full.set(l, n);
  // A size of 1 that meets a larger one is stretched by leaving it out.
  const stretched = operands.map(({ x, labels }) => {
    const kept = range(labels.length).filter((d) => x.shape[d] === full.get(labels[d]!));
    return {
      x: reshape(
        x,
        kept.map((d) => x.shape[d]!),
      ),
      labels: kept.map((d) => labels[d]!),
    };
  });
  const neededBy = (others: readonly Labelled[]) => new Set([...out, ...others.flatMap((o) => o.labels)]);
  let list: Labelled[] = stretched.map((x, i) => sumAway(x, neededBy(stretched.filter((_, j) => j !== i))));
  while (list.length > 1) {
    const [i, j] = cheapest(list, out);
    const others = list.filter((_, k) => k !== i && k !== j);
    list = [...others, contractPair(list[i]!, list[j]!, neededBy(others))];
  }
  return arrange(sumAway(list[0]!, new Set(out)), out);
}

/** The pair whose product is smallest, beside the operands it replaces. */
function cheapest(list: readonly Labelled[], out: Labels): [number, number] {
  if (list.length === 2) return [0, 1];
  let best: [number, number] = [0, 1];
  let least = Number.POSITIVE_INFINITY;
  for (const i of range(list.length)) {
    for (const j of range(list.length).slice(i + 1)) {
      const [a, b] = [list[i]!, list[j]!];
      const needed = new Set([...out, ...list.flatMap((o, k) => (k === i || k === j ? [] : o.labels))]);
      const both = new Map([...sizes(a), ...sizes(b)]);
      const cost = sizeOf([...both].filter(([l]) => needed.has(l)).map(([, n]) => n)) - a.x.aval.size - b.x.aval.size;
      if (cost < least) [best, least] = [[i, j], cost];
    }
  }
  return best;
}

/** Leading dimensions as one. */
export const mergeLead = (x: Expr, keep: number): Expr =>
  reshape(x, [sizeOf(x.shape.slice(0, -keep)), ...x.shape.slice(-keep)] as Shape);
