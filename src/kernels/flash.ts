// Flash attention: softmax(query keyT * scale) value without a matrix of scores in memory, forward and backward, as three kernels.
// Each keeps what it sums in the memory of the core while blocks of the other side pass by; blocks of which nothing is seen are
// neither fetched nor computed. After Dao and others, FlashAttention-2 (arXiv 2307.08691); scores of keys by queries in the kernel
// of keys, so that the statistic of queries lies along its rows, are JAX's idea (splash attention).
import type { DType } from '../base/dtype.js';
import { Interner } from '../base/intern.js';
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { full, zerosLike } from '../ops/prim/constant.js';
import { convert, reshape } from '../ops/prim/move.js';
import { type Block, iota, programId, type Ref, when, where } from './block.js';
import { callKernel, type KernelDefinition } from './kernel.js';
import type { BlockSpec } from './program.js';

/** Rows of queries and of keys that are computed at a time. */
export interface Blocks {
  readonly queries: number;
  readonly keys: number;
}
/** Query [B, H, T, d], key [B, G, S, d], value [B, G, S, e], where G divides H. */
export interface Flash {
  readonly scale: number;
  /** Query i sees keys 0 to i. */
  readonly causal: boolean;
  /** Query i sees keys i - window + 1 to i: of a causal attention. */
  readonly window?: number | undefined;
  /** Scores are capped: tanh(score / cap) * cap. */
  readonly softcap?: number | undefined;
  /** Default: 512 of each, or all there are. */
  readonly blocks?: Blocks | undefined;
}
export interface Segments {
  /** [B, T] and [B, S], i32: a query sees keys of its own number. */
  readonly queries: Expr;
  readonly keys: Expr;
}
export interface FlashOperands {
  readonly q: Expr;
  readonly k: Expr;
  readonly v: Expr;
  readonly segments?: Segments | undefined;
}

/** Far below every score, and below the first `top`: its power is 0 also in a row that sees nothing. */
const HIDDEN = -1e30;
const FIRST = -1e29;
/** The statistic of a row that sees nothing: with it the powers of all its scores are 0. */
const EMPTY = 1e30;
const LANES = 128;

/** Of lists up to this long the whole is a block. Longer ones are cut into multiples of 128, evenly where that is possible. */
function blockOf(all: number, most: number): number {
  if (all <= most) return all;
  for (let n = most; n >= most / 2; n -= LANES) if (all % n === 0) return n;
  return most;
}

interface Sizes {
  readonly batch: number;
  readonly heads: number;
  readonly groups: number;
  readonly queries: number;
  readonly keys: number;
  readonly d: number;
  readonly e: number;
}
function sizesOf([q, k, v]: readonly { readonly shape: readonly number[] }[]): Sizes {
  const [batch, heads, queries, d] = q!.shape as [number, number, number, number];
  const [, groups, keys] = k!.shape as [number, number, number];
  return { batch, heads, groups, queries, keys, d, e: v!.shape[3]! };
}

// ---- which blocks of queries see which blocks of keys

/** Numbers of blocks are scalars of the device. */
class Sight {
  constructor(
    readonly of: Flash,
    readonly n: Sizes,
    readonly block: Blocks,
    readonly segmented: boolean,
  ) {}

  get queryBlocks(): number {
    return Math.ceil(this.n.queries / this.block.queries);
  }
  get keyBlocks(): number {
    return Math.ceil(this.n.keys / this.block.keys);
  }
  #firstQuery(i: Block): Block {
    return i.mul(this.block.queries);
  }
  #lastQuery(i: Block): Block {
    return this.#firstQuery(i).add(this.block.queries - 1);
  }
  #firstKey(j: Block): Block {
    return j.mul(this.block.keys);
  }
  #lastKey(j: Block): Block {
    return this.#firstKey(j).add(this.block.keys - 1);
  }

  /** A block of keys that block i of queries sees: j itself, or the nearest that it does. */
  nearestKeys(i: Block, j: Block): Block {
    const { causal, window } = this.of;
    const low =
      window === undefined
        ? j
        : j.maximum(
            this.#firstQuery(i)
              .sub(window - 1)
              .maximum(0)
              .div(this.block.keys),
          );
    const capped = low.minimum(this.keyBlocks - 1);
    return causal ? capped.minimum(this.#lastQuery(i).div(this.block.keys)) : j;
  }
  /** A block of queries that sees block j of keys. */
  nearestQueries(i: Block, j: Block): Block {
    const { causal, window } = this.of;
    if (!causal) return i;
    const low = i.maximum(this.#firstKey(j).div(this.block.queries)).minimum(this.queryBlocks - 1);
    return window === undefined
      ? low
      : low.minimum(
          this.#lastKey(j)
            .add(window - 1)
            .div(this.block.queries),
        );
  }

  /** Whether a block of queries sees any of a block of keys; undefined: always. */
  any(i: Block, j: Block): Block | undefined {
    const { causal, window } = this.of;
    if (!causal) return undefined;
    const some = this.#lastQuery(i).ge(this.#firstKey(j));
    return window === undefined ? some : some.and(this.#firstQuery(i).sub(this.#lastKey(j)).lt(window));
  }
  /** Whether some of it is hidden; undefined: never; true: it is not known. */
  partly(i: Block, j: Block): Block | true | undefined {
    if (this.segmented) return true;
    const { causal, window } = this.of;
    const parts = [
      ...(causal ? [this.#firstQuery(i).lt(this.#lastKey(j))] : []),
      ...(window === undefined ? [] : [this.#lastQuery(i).sub(this.#firstKey(j)).ge(window)]),
      ...(this.n.keys % this.block.keys ? [j.eq(this.keyBlocks - 1)] : []),
    ];
    return parts.length ? parts.reduce((a, b) => a.or(b)) : undefined;
  }

  /** Runs a step on two blocks, with masks only where some of it is hidden, and not at all where all is. */
  step(i: Block, j: Block, run: (masked: boolean) => void): void {
    const [any, partly] = [this.any(i, j), this.partly(i, j)];
    const both = (...all: readonly (Block | undefined)[]): Block | undefined =>
      all.reduce((a, b) => (a && b ? a.and(b) : (a ?? b)));
    const doIf = (condition: Block | undefined, masked: boolean) =>
      condition ? when(condition, () => run(masked)) : run(masked);
    if (partly === undefined || partly === true) doIf(any, partly === true);
    else {
      doIf(both(any, partly.to('i32').eq(0)), false);
      doIf(both(any, partly), true);
    }
  }

  /** Which scores are seen, of [queries, keys], or turned. `ids`: the numbers of the segments, as a column and a row. */
  seen(i: Block, j: Block, turned: boolean, ids?: readonly [queries: Block, keys: Block]): Block {
    const { causal, window } = this.of;
    const shape = turned ? [this.block.keys, this.block.queries] : [this.block.queries, this.block.keys];
    const queries = iota(shape, turned ? 1 : 0).add(this.#firstQuery(i));
    const keys = iota(shape, turned ? 0 : 1).add(this.#firstKey(j));
    const parts = [
      ...(causal ? [queries.ge(keys)] : []),
      ...(window === undefined ? [] : [queries.sub(keys).lt(window)]),
      ...(this.n.keys % this.block.keys ? [keys.lt(this.n.keys)] : []),
      ...(ids ? [ids[0].eq(ids[1]).broadcastTo(shape)] : []),
    ];
    return parts.length ? parts.reduce((a, b) => a.and(b)) : queries.ge(0);
  }
}

// ---- the arithmetic that all three share

/** Scores as they enter the softmax, before anything is hidden. */
function scoresOf(a: Block, b: Block, { scale, softcap }: Flash): Block {
  const scores = a.dot(b, { transB: true }).mul(scale);
  return softcap === undefined
    ? scores
    : scores
        .mul(1 / softcap)
        .tanh()
        .mul(softcap);
}
/** The gradient of the product of query and key, from that of the (capped) score. */
function uncapped(g: Block, score: Block, { scale, softcap }: Flash): Block {
  if (softcap === undefined) return g.mul(scale);
  const t = score.mul(1 / softcap);
  return g.mul(scale).sub(g.mul(scale).mul(t).mul(t));
}
/** [n, 1] as [1, n], and the other way round: through a matrix that a core can transpose. */
const asRow = (column: Block): Block => column.broadcastTo([column.shape[0]!, LANES]).t().max(0, true);
const asColumn = (row: Block): Block => row.broadcastTo([LANES, row.shape[1]!]).t().max(1, true);

const spec = (shape: BlockSpec['shape'], index: BlockSpec['index']): BlockSpec => ({ shape, index });
const f32 = (...shape: number[]) => ({ dtype: 'f32' as DType, shape });
/** By the grid's numbers: b, head, i, j. */
type At = (...ids: Block[]) => readonly [b: Block, head: Block, i: Block, j: Block];
/** Blocks of operands, by which query and which key a program has. */
function placesOf({ n, block }: Sight, at: At) {
  const share = n.heads / n.groups;
  const queries = (size: number) =>
    spec([null, null, block.queries, size], (...ids) => [at(...ids)[0], at(...ids)[1], at(...ids)[2], 0]);
  const keys = (size: number) =>
    spec([null, null, block.keys, size], (...ids) => {
      const [b, h, , j] = at(...ids);
      return [b, share === 1 ? h : h.div(share), j, 0];
    });
  return {
    q: queries(n.d),
    g: queries(n.e),
    k: keys(n.d),
    v: keys(n.e),
    /** Of a statistic, [B, H, 1, T]. */
    row: spec([null, null, 1, block.queries], (...ids) => [at(...ids)[0], at(...ids)[1], 0, at(...ids)[2]]),
    queryColumn: spec([null, block.queries, 1], (...ids) => [at(...ids)[0], at(...ids)[2], 0]),
    queryRow: spec([null, 1, block.queries], (...ids) => [at(...ids)[0], 0, at(...ids)[2]]),
    keyColumn: spec([null, block.keys, 1], (...ids) => [at(...ids)[0], at(...ids)[3], 0]),
    keyRow: spec([null, 1, block.keys], (...ids) => [at(...ids)[0], 0, at(...ids)[3]]),
  };
}

// ---- forward

/** [q, k, v, (segments of queries, a column, and keys, a row)] to the output and the statistic [B, H, 1, T]. */
const forwardKernel = (sight: Sight): KernelDefinition => {
  const { of, segmented, n } = sight;
  return {
    name: 'flashAttention',
    options: (types) => {
      const at: At = (b, h, i, j) => [b!, h!, i!, sight.nearestKeys(i!, j!)];
      const p = placesOf(sight, at);
      return {
        grid: [n.batch, n.heads, sight.queryBlocks, sight.keyBlocks],
        sequential: [3],
        in: [p.q, p.k, p.v, ...(segmented ? [p.queryColumn, p.keyRow] : [])],
        out: [
          { of: { dtype: types[0]!.dtype, shape: [n.batch, n.heads, n.queries, n.e] }, ...p.g },
          { of: f32(n.batch, n.heads, 1, n.queries), ...p.row },
        ],
        scratch: [f32(sight.block.queries, 1), f32(sight.block.queries, 1), f32(sight.block.queries, n.e)],
      };
    },
    run: (...refs) => {
      const [q, k, v] = refs as [Ref, Ref, Ref];
      const ids = segmented ? refs.slice(3, 5) : [];
      const [out, statistic, top, total, sum] = refs.slice(3 + ids.length) as [Ref, Ref, Ref, Ref, Ref];
      const [i, j] = [programId(2), programId(3)];
      when(j.eq(0), () => {
        top.store(FIRST);
        total.store(0);
        sum.store(0);
      });
      sight.step(i, j, (masked) => {
        const all = scoresOf(q.load(), k.load(), of);
        const scores = masked ? where(sight.seen(i, j, false, pairOf(ids)), all, HIDDEN) : all;
        const [was, most] = [top.load(), top.load().maximum(scores.max(1, true))];
        const shrink = was.sub(most).exp();
        const powers = scores.sub(most).exp();
        total.store(total.load().mul(shrink).add(powers.sum(1, true)));
        sum.store(sum.load().mul(shrink).add(powers.to(v.dtype).dot(v.load())));
        top.store(most);
      });
      when(j.eq(sight.keyBlocks - 1), () => {
        const all = total.load();
        const isEmpty = all.eq(0);
        const divisor = where(isEmpty, 1, all);
        out.store(sum.load().div(divisor).to(out.dtype));
        statistic.store(asRow(where(isEmpty, EMPTY, top.load().add(divisor.log()))));
      });
    },
  };
};
const pairOf = (ids: readonly Ref[]): readonly [Block, Block] | undefined =>
  ids.length ? [ids[0]!.load(), ids[1]!.load()] : undefined;

// ---- backward

/** [q, k, v, output, its gradient, statistic, (segments)] to the gradient of q and, [B, H, 1, T], what all keys' have in common. */
const queryKernel = (sight: Sight): KernelDefinition => {
  const { of, segmented, n } = sight;
  return {
    name: 'flashAttentionQuery',
    options: (types) => {
      const p = placesOf(sight, (b, h, i, j) => [b!, h!, i!, sight.nearestKeys(i!, j!)]);
      const { queries } = sight.block;
      return {
        grid: [n.batch, n.heads, sight.queryBlocks, sight.keyBlocks],
        sequential: [3],
        in: [p.q, p.k, p.v, p.g, p.g, p.row, ...(segmented ? [p.queryColumn, p.keyRow] : [])],
        out: [
          { of: types[0]!, ...p.q },
          { of: f32(n.batch, n.heads, 1, n.queries), ...p.row },
        ],
        scratch: [f32(queries, 1), f32(queries, 1), f32(queries, n.d)],
      };
    },
    run: (...refs) => {
      const [q, k, v, output, g, statistic] = refs as [Ref, Ref, Ref, Ref, Ref, Ref];
      const ids = segmented ? refs.slice(6, 8) : [];
      const [dq, commonRow, shift, common, sum] = refs.slice(6 + ids.length) as [Ref, Ref, Ref, Ref, Ref];
      const [i, j] = [programId(2), programId(3)];
      when(j.eq(0), () => {
        const both = output.load().to('f32').mul(g.load().to('f32')).sum(1, true);
        shift.store(asColumn(statistic.load()));
        common.store(both);
        sum.store(0);
        commonRow.store(asRow(both));
      });
      sight.step(i, j, (masked) => {
        const all = scoresOf(q.load(), k.load(), of);
        const scores = masked ? where(sight.seen(i, j, false, pairOf(ids)), all, HIDDEN) : all;
        const weights = scores.sub(shift.load()).exp();
        const ofWeights = g.load().dot(v.load(), { transB: true });
        const ofScores = uncapped(weights.mul(ofWeights.sub(common.load())), all, of);
        sum.store(sum.load().add(ofScores.to(k.dtype).dot(k.load())));
      });
      when(j.eq(sight.keyBlocks - 1), () => dq.store(sum.load().to(dq.dtype)));
    },
  };
};

/** [q, k, v, gradient of the output, statistic, common, (segments of queries, a row, and keys, a column)] to those of k and v. */
const keyKernel = (sight: Sight): KernelDefinition => {
  const { of, segmented, n } = sight;
  return {
    name: 'flashAttentionKey',
    options: (types) => {
      const share = n.heads / n.groups;
      const blocks = sight.queryBlocks;
      const p = placesOf(sight, (b, group, j, step) => [
        b!,
        share === 1 ? group! : group!.mul(share).add(step!.div(blocks)),
        sight.nearestQueries(share === 1 ? step! : step!.rem(blocks), j!),
        j!,
      ]);
      // Its keys are a group's, whichever head of it comes by.
      const own = (size: number) => spec([null, null, sight.block.keys, size], (b, group, j) => [b!, group!, j!, 0]);
      return {
        grid: [n.batch, n.groups, sight.keyBlocks, share * blocks],
        sequential: [3],
        in: [p.q, own(n.d), own(n.e), p.g, p.row, p.row, ...(segmented ? [p.queryRow, p.keyColumn] : [])],
        out: [
          { of: types[1]!, ...own(n.d) },
          { of: types[2]!, ...own(n.e) },
        ],
        scratch: [f32(sight.block.keys, n.d), f32(sight.block.keys, n.e)],
      };
    },
    run: (...refs) => {
      const [q, k, v, g, statistic, common] = refs as [Ref, Ref, Ref, Ref, Ref, Ref];
      const ids = segmented ? refs.slice(6, 8) : [];
      const [dk, dv, ofKey, ofValue] = refs.slice(6 + ids.length) as [Ref, Ref, Ref, Ref];
      const { heads, groups } = n;
      const [j, step, blocks] = [programId(2), programId(3), sight.queryBlocks];
      const i = heads === groups ? step : step.rem(blocks);
      when(step.eq(0), () => {
        ofKey.store(0);
        ofValue.store(0);
      });
      sight.step(i, j, (masked) => {
        const all = scoresOf(k.load(), q.load(), of); // [keys, queries]
        const scores = masked ? where(sight.seen(i, j, true, pairOf(ids)), all, HIDDEN) : all;
        const weights = scores.sub(statistic.load()).exp();
        ofValue.store(ofValue.load().add(weights.to(g.dtype).dot(g.load())));
        const ofWeights = v.load().dot(g.load(), { transB: true });
        const ofScores = uncapped(weights.mul(ofWeights.sub(common.load())), all, of);
        ofKey.store(ofKey.load().add(ofScores.to(q.dtype).dot(q.load())));
      });
      when(step.eq((heads / groups) * blocks - 1), () => {
        dk.store(ofKey.load().to(dk.dtype));
        dv.store(ofValue.load().to(dv.dtype));
      });
    },
  };
};

// ---- as operations

const kernels = new Interner<KernelDefinition>(300);
interface Form {
  readonly name: string;
  readonly most: Blocks;
  readonly make: (sight: Sight) => KernelDefinition;
}
const FORWARD: Form = { name: 'forward', most: { queries: 512, keys: 512 }, make: forwardKernel };
const OF_QUERY: Form = { name: 'query', most: { queries: 512, keys: 512 }, make: queryKernel };
const OF_KEY: Form = { name: 'key', most: { queries: 512, keys: 512 }, make: keyKernel };
function run({ name, most, make }: Form, of: Flash, segments: Segments | undefined, xs: readonly Expr[]): Expr[] {
  const n = sizesOf(xs);
  const kernel = kernels.get(JSON.stringify([name, of, n, segments !== undefined]), () => {
    const { queries, keys } = of.blocks ?? most;
    const block = { queries: blockOf(n.queries, queries), keys: blockOf(n.keys, keys) };
    return make(new Sight(of, n, block, segments !== undefined));
  });
  return callKernel(kernel, xs);
}

const column = (x: Expr): Expr => reshape(convert(x, 'i32'), [...x.shape, 1]);
const row = (x: Expr): Expr => reshape(convert(x, 'i32'), [x.shape[0]!, 1, x.shape[1]!]);
const isEmpty = (...xs: readonly Expr[]): boolean => xs.some((x) => x.aval.size === 0);
/** The output [B, H, T, e], and the statistic [B, H, T]: the logarithm of each softmax's sum, which the gradient uses. */
export function flashForward({ q, k, v, segments }: FlashOperands, of: Flash): [output: Expr, statistic: Expr] {
  const rows = q.shape.slice(0, 3);
  // Without keys every query gets zeros; all other empty operands make the output empty.
  if (isEmpty(q, k, v)) return [full([...rows, v.shape[3]!], 0, q.dtype), full(rows, 0, 'f32')];
  const ids = segments ? [column(segments.queries), row(segments.keys)] : [];
  const [output, statistic] = run(FORWARD, of, segments, [q, k, v, ...ids]) as [Expr, Expr];
  return [output, reshape(statistic, rows)];
}

/** The gradients of query, key and value. */
export function flashBackward(
  { q, k, v, segments }: FlashOperands,
  { output, statistic, g }: { readonly output: Expr; readonly statistic: Expr; readonly g: Expr },
  of: Flash,
): [dq: Expr, dk: Expr, dv: Expr] {
  if (isEmpty(q, k, v)) return [zerosLike(q), zerosLike(k), zerosLike(v)];
  const [batch, heads, queries] = q.shape as [number, number, number];
  const rows = reshape(statistic, [batch, heads, 1, queries]);
  const [ofQuery, ofKey] = segments
    ? [
        [column(segments.queries), row(segments.keys)],
        [row(segments.queries), column(segments.keys)],
      ]
    : [[], []];
  const [dq, common] = run(OF_QUERY, of, segments, [q, k, v, output, g, rows, ...ofQuery]) as [Expr, Expr];
  const [dk, dv] = run(OF_KEY, of, segments, [q, k, v, g, rows, common, ...ofKey]) as [Expr, Expr];
  return [dq, dk, dv];
}

/** Whether these kernels are faster on a TPU than products with the scores between them, and its compiler takes them. */
export function flashFits(q: Aval, k: Aval, v: Aval): boolean {
  const [queries, keys] = [q.shape[2]!, k.shape[2]!];
  const isWide = (n: number) => n % 64 === 0 && n <= 256;
  return (
    (q.dtype === 'bf16' || q.dtype === 'f32') &&
    isWide(q.shape[3]!) &&
    isWide(v.shape[3]!) &&
    queries >= LANES &&
    keys >= LANES &&
    q.size > 0
  );
}
