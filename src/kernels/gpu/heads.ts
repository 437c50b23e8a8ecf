// Queries and keys on their way into attention, as kernels for GPUs: each head normalized (RMSNorm), turned by its position
// (rotary embedding), and written as [B, T, heads, d], the order that cuDNN's attention reads. One pass over the projections
// forward and one backward; XLA has some ten kernels for them, with transposes and concatenations between.
import type { ArrayType } from '../../base/dtype.js';
import type { Block, Ref } from '../block.js';
import type { BlockSpec, KernelOptions, OutSpec } from '../program.js';

export interface HeadsKernel {
  /** Of each head; null: heads are turned alone. */
  readonly norm: { readonly eps: number /** The scale is this + weight. */; readonly offset: number } | null;
}
/** What `tx.kernel` takes. */
export interface Definition {
  readonly run: (...refs: Ref[]) => void;
  readonly options: (...types: ArrayType[]) => KernelOptions & { readonly out: readonly OutSpec[] };
}

/** Numbers of a program: what 128 threads hold in registers, forward and backward. */
const MOST_NUMBERS = 2048;

/** Where blocks of some tokens lie; q and k are [B, T, heads, d], cosines and sines [B or 1, 1, T, d]. */
function tiling(q: ArrayType, k: ArrayType, cos: ArrayType) {
  const [B, T, H, d] = q.shape as [number, number, number, number];
  const G = k.shape[2]!;
  const tokens = Math.max(1, Math.min(T, 2 ** Math.floor(Math.log2(MOST_NUMBERS / (Math.max(H, G) * d)))));
  const heads = (n: number): BlockSpec => ({ shape: [null, tokens, n, d], index: (b, t) => [b!, t!, 0, 0] });
  const angles: BlockSpec = {
    shape: [null, null, tokens, d],
    index: (b, t) => [cos.shape[0] === 1 ? 0 : b!, 0, t!, 0],
  };
  const parts = Math.ceil(T / tokens);
  return { grid: [B, parts], d, parts, B, queries: heads(H), keys: heads(G), angles };
}

const HALVES = [0, 1] as const;
type Pair = readonly [Block, Block];
/** The two halves of the last dimension, in f32. */
function halves(ref: Ref): Pair {
  const size = ref.shape.with(-1, ref.shape.at(-1)! / 2);
  return HALVES.map((i) =>
    ref.load({ at: size.map((n, d) => (d === size.length - 1 ? i * n : 0)), size }).to('f32'),
  ) as unknown as Pair;
}
function storeHalves(ref: Ref, pair: Pair): void {
  HALVES.forEach((i) => {
    const { shape } = pair[i];
    ref.store(pair[i].to(ref.dtype), { at: shape.map((n, d) => (d === shape.length - 1 ? i * n : 0)) });
  });
}
/** Of tokens, for all their heads. */
const perToken = (ref: Ref): Pair => halves(ref).map((x) => x.unsqueeze(1)) as unknown as Pair;
/** The sum over the last dimension of both halves. */
const total = ([a, b]: Pair): Block => a.sum(2, true).add(b.sum(2, true));
const times = ([a, b]: Pair, [c, d]: Pair | readonly [Block, Block]): Pair => [a.mul(c), b.mul(d)];

type Norm = NonNullable<HeadsKernel['norm']>;
const scaleOf = (weight: Ref, { offset }: Norm): Pair => {
  const w = halves(weight);
  return offset ? [w[0].add(offset), w[1].add(offset)] : w;
};
/** 1 / the root of the mean square of each head. */
const inverseOf = (x: Pair, { eps }: Norm, d: number): Block =>
  total(times(x, x))
    .mul(1 / d)
    .add(eps)
    .rsqrt();

/** q, k, [their norms' weights,] cosines, sines: to q and k, [B, T, heads, d]. */
export function headsForward({ norm }: HeadsKernel): Definition {
  return {
    run: (...refs) => {
      const [q, k, ...rest] = refs as [Ref, Ref, ...Ref[]];
      const weights = norm ? rest.splice(0, 2) : [];
      const [cos, sin, ...outs] = rest as [Ref, Ref, Ref, Ref];
      const [c, s] = [perToken(cos), perToken(sin)];
      [q, k].forEach((ref, i) => {
        let x = halves(ref);
        if (norm) {
          const r = inverseOf(x, norm, ref.shape.at(-1)!);
          x = times(times(x, [r, r]), scaleOf(weights[i]!, norm));
        }
        const [a, b] = x;
        storeHalves(outs[i]!, [a.mul(c[0]).sub(b.mul(s[0])), b.mul(c[1]).add(a.mul(s[1]))]);
      });
    },
    options: (q, k, ...rest) => {
      const { grid, queries, keys, angles } = tiling(q!, k!, rest.at(-1)!);
      return {
        grid,
        in: [queries, keys, ...(norm ? [null, null] : []), angles, angles],
        out: [
          { of: q!, ...queries },
          { of: k!, ...keys },
        ],
      };
    },
  };
}

/**
 * The same operands, and the gradients of both results: to the gradients of q and k, and of the weights: for each program
 * its part of the sum, [B, programs, d] in f32.
 */
export function headsBackward({ norm }: HeadsKernel): Definition {
  return {
    run: (...refs) => {
      const [q, k, ...rest] = refs as [Ref, Ref, ...Ref[]];
      const weights = norm ? rest.splice(0, 2) : [];
      const [cos, sin, gq, gk, ...outs] = rest as [Ref, Ref, Ref, Ref, ...Ref[]];
      const [c, s] = [perToken(cos), perToken(sin)];
      [
        [q, gq],
        [k, gk],
      ].forEach(([ref, grad], i) => {
        const [ga, gb] = halves(grad!);
        const turned: Pair = [ga.mul(c[0]).add(gb.mul(s[1])), gb.mul(c[1]).sub(ga.mul(s[0]))];
        if (!norm) {
          storeHalves(outs[i]!, turned);
          return;
        }
        const d = ref!.shape.at(-1)!;
        const x = halves(ref!);
        const r = inverseOf(x, norm, d);
        const unit = times(x, [r, r]);
        const g = times(turned, scaleOf(weights[i]!, norm));
        const along = total(times(g, unit)).mul(1 / d);
        storeHalves(outs[i]!, [g[0].sub(unit[0].mul(along)).mul(r), g[1].sub(unit[1].mul(along)).mul(r)]);
        storeHalves(outs[2 + i]!, times(turned, unit).map((y) => y.sum(0).sum(0)) as unknown as Pair);
      });
    },
    options: (q, k, ...rest) => {
      const { grid, queries, keys, angles, B, parts, d } = tiling(q!, k!, rest.at(-3)!);
      const sum: OutSpec = {
        of: { dtype: 'f32', shape: [B, parts, d] },
        shape: [null, null, d],
        index: (b, t) => [b!, t!, 0],
      };
      return {
        grid,
        in: [queries, keys, ...(norm ? [null, null] : []), angles, angles, queries, keys],
        out: [{ of: q!, ...queries }, { of: k!, ...keys }, ...(norm ? [sum, sum] : [])],
      };
    },
  };
}
