// torch's scaledDotProductAttention on tensors. How it is computed on a device: ops/attention.ts.

import { sizeOf } from '../base/dtype.js';
import { env } from '../base/env.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { broadcastShapes, type Shape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { entry } from '../ir/source.js';
import { attention, chunkFor } from '../ops/attention.js';
import { broadcastInDim, broadcastTo } from '../ops/prim/broadcast.js';
import { typesOf } from '../ops/prim/define.js';
import { reshape } from '../ops/prim/move.js';
import { mul } from '../ops/prim/pointwise.js';
import { checked, named } from './arguments.js';
import { cast } from './autocast.js';
import { type DrawOptions, defaultGenerator } from './random.js';
import { Tensor } from './tensor.js';

const OP = 'scaledDotProductAttention';

export interface AttentionOptions extends DrawOptions {
  /** bool: true where a query attends to a key. Floats: added to the scores. Broadcasts to [..., queries, keys]. */
  readonly attnMask?: Tensor | null;
  /** The fraction of the weights that is dropped, at random. Default: 0. */
  readonly dropoutP?: number;
  /** Query i attends to keys 0 to i. Default: false. */
  readonly isCausal?: boolean;
  /** Factor of the scores. Default: 1 / sqrt(d). */
  readonly scale?: number | null;
  /** Key and value may have fewer heads: each serves as many heads of the query, next to each other. */
  readonly enableGqa?: boolean;
}

/**
 * softmax(query keyT * scale + mask) value, of [..., heads, queries, d], [..., heads, keys, d] and [..., heads, keys, e].
 * A query that attends to no key gets zeros. Unlike torch: dropout draws other numbers from a seed.
 */
export const scaledDotProductAttention = checked(
  OP,
  (
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ...rest:
      | [options?: AttentionOptions]
      | [attnMask: Tensor | null, options?: Omit<AttentionOptions, 'attnMask'>]
      | [attnMask: Tensor | null, dropoutP: number, options?: Omit<AttentionOptions, 'attnMask' | 'dropoutP'>]
      | [
          attnMask: Tensor | null,
          dropoutP: number,
          isCausal: boolean,
          options?: Omit<AttentionOptions, 'attnMask' | 'dropoutP' | 'isCausal'>,
        ]
  ): Tensor => {
    const options = named<AttentionOptions>(['attnMask', 'dropoutP', 'isCausal'], rest);
    const {
      attnMask,
      dropoutP = 0,
      isCausal = false,
      scale,
      enableGqa = false,
      generator = defaultGenerator,
    } = options;
    const [q, k, v, bias] = cast(OP, [query.expr, key.expr, value.expr, attnMask?.expr] as const);
    checkOperands(q, k, v);
    if (!(dropoutP >= 0 && dropoutP <= 1))
      throw new ArgumentError(`${OP}: dropoutP is ${dropoutP}: a probability is between 0 and 1`);
    if (attnMask && isCausal)
      throw new ArgumentError(`${OP}: attnMask and isCausal are both given: make the mask causal, with tril()`);
    const heads = enableGqa ? groupsOf(q, k, v) : undefined;
    const { lead, four } = merged(q, k, v, heads);
    const [queries, keys, d] = [q.shape.at(-2)!, k.shape.at(-2)!, q.shape.at(-1)!];
    const mask = bias && maskOf(bias, q, [...lead, queries, keys]);
    const [query4] = four as [Expr, Expr, Expr];
    const dropout = dropoutP < 1 ? dropoutP : 0; // all of it: below
    const state = dropout ? [generator.take(sizeOf([...lead, queries, keys]))] : [];
    const output = attention([...four, ...(mask ? [mask] : []), ...state], {
      scale: scale ?? (d ? 1 / Math.sqrt(d) : 1),
      causal: isCausal,
      mask: Boolean(mask),
      dropout,
      ...formOf(query4, four[1]!),
    });
    const shaped = reshape(output, [...lead, queries, v.shape.at(-1)!]);
    return new Tensor(dropoutP === 1 ? mul(shaped, 0) : shaped);
  },
);

function checkOperands(q: Expr, k: Expr, v: Expr): void {
  const types = typesOf([q, k, v]);
  if ([q, k, v].some((x) => x.shape.length < 2))
    throw new ShapeError(`${OP}: takes [..., tokens, d] three times, got ${types}`);
  if (!isFloat(q.dtype)) throw new DTypeError(`${OP}: takes floats, got ${types}: use float()`);
  if (q.dtype !== k.dtype || q.dtype !== v.dtype)
    throw new DTypeError(`${OP}: dtypes of ${types} differ: convert one first`);
  const [d, other] = [q.shape.at(-1), k.shape.at(-1)];
  if (d !== other) throw new ShapeError(`${OP}: query and key differ in their last dim, ${d} and ${other}: ${types}`);
  const [keys, values] = [k.shape.at(-2), v.shape.at(-2)];
  if (keys !== values)
    throw new ShapeError(`${OP}: got ${keys} keys and ${values} values: they must be equal in number: ${types}`);
}

/** How many heads key and value have. */
function groupsOf(q: Expr, k: Expr, v: Expr): readonly [key: number, value: number] {
  if ([q, k, v].some((x) => x.shape.length < 3))
    throw new ShapeError(`${OP}: enableGqa: takes [..., heads, tokens, d], got ${typesOf([q, k, v])}`);
  const [heads, ofKey, ofValue] = [q, k, v].map((x) => x.shape.at(-3)!) as [number, number, number];
  if (!ofKey || !ofValue || heads % ofKey || heads % ofValue)
    throw new ShapeError(
      `${OP}: enableGqa: ${ofKey} heads of the key and ${ofValue} of the value must divide the ${heads} of the query: ${typesOf([q, k, v])}`,
    );
  return [ofKey, ofValue];
}

/** The operands as [B, heads, tokens, d], and the leading dimensions of the result. */
function merged(
  q: Expr,
  k: Expr,
  v: Expr,
  groups: readonly [number, number] | undefined,
): { lead: Shape; four: Expr[] } {
  if (!groups) {
    const heads = [q, k, v].map((x) => x.shape.at(-3) ?? 1);
    if (heads.some((n) => n !== heads[0] && n !== 1 && heads[0] !== 1))
      throw new ShapeError(
        `${OP}: ${typesOf([q, k, v])} have ${heads.join(', ')} heads: if query heads share key heads, pass { enableGqa: true }`,
      );
    const lead = broadcastShapes(OP, ...[q, k, v].map((x) => x.shape.slice(0, -2)));
    return { lead, four: [q, k, v].map((x) => fourDims(broadcastTo(x, [...lead, ...x.shape.slice(-2)]))) };
  }
  const heads = q.shape.at(-3)!;
  const batch = broadcastShapes(OP, ...[q, k, v].map((x) => x.shape.slice(0, -3)));
  const whole = (x: Expr) => fourDims(broadcastTo(x, [...batch, ...x.shape.slice(-3)]));
  const shared = groups[0] === groups[1];
  return {
    lead: [...batch, heads],
    four: [whole(q), ...[k, v].map((x) => (shared ? whole(x) : repeated(whole(x), heads)))],
  };
}
/** All leading dimensions but the last are merged into one; missing ones are 1. */
function fourDims(x: Expr): Expr {
  const lead = x.shape.slice(0, -2);
  return reshape(x, [sizeOf(lead.slice(0, -1)), lead.at(-1) ?? 1, ...x.shape.slice(-2)]);
}
/** Heads repeated up to a number. */
function repeated(x: Expr, heads: number): Expr {
  const [batch, own, tokens, d] = x.shape as [number, number, number, number];
  const wide = broadcastInDim(x, [batch, own, heads / own, tokens, d], [0, 1, 3, 4]);
  return reshape(wide, [batch, heads, tokens, d]);
}

/** The mask in four dimensions that broadcast to those of the scores. */
function maskOf(mask: Expr, q: Expr, scores: Shape): Expr {
  const fits =
    mask.shape.length <= scores.length &&
    mask.shape.every((n, i) => n === 1 || n === scores[i + scores.length - mask.shape.length]);
  if (!fits)
    throw new ShapeError(`${OP}: attnMask ${mask.aval} does not broadcast to the scores [${scores.join(', ')}]`);
  if (mask.dtype !== 'bool' && mask.dtype !== q.dtype && mask.dtype !== 'f32')
    throw new DTypeError(
      `${OP}: attnMask is ${mask.aval}: it must be bool, f32 or ${q.dtype} (the query's dtype): convert it`,
    );
  const all = [...scores.slice(mask.shape.length).map(() => 1), ...mask.shape];
  const isShared = all.slice(0, -3).every((n) => n === 1); // by the whole batch
  return fourDims(isShared ? reshape(mask, all) : broadcastTo(mask, [...scores.slice(0, -3), ...all.slice(-3)]));
}

/**
 * TSXLA_ATTENTION: 'plain' computes all scores at once; a number computes that many queries at a time. Default: cuDNN where
 * it supports the operands, otherwise scores that are too large for memory are computed in chunks.
 */
function formOf(q: Expr, k: Expr): { chunk: number; flash: boolean } {
  const wanted = env('TSXLA_ATTENTION') ?? 'auto';
  if (wanted === 'auto') return { chunk: chunkFor(q.aval, k.aval), flash: true };
  if (wanted === 'plain') return { chunk: 0, flash: false };
  const chunk = Number(wanted);
  if (!Number.isSafeInteger(chunk) || chunk < 1)
    throw new ArgumentError(
      `TSXLA_ATTENTION=${wanted} is not valid: use auto, plain, or the number of queries to compute at a time`,
    );
  return { chunk: chunk < q.shape[2]! ? chunk : 0, flash: false };
}

declare module './tensor.js' {
  interface Tensor {
    scaledDotProductAttention(key: Tensor, value: Tensor, options?: AttentionOptions): Tensor;
  }
}
Object.defineProperty(Tensor.prototype, OP, {
  value: entry(function (this: Tensor, key: Tensor, value: Tensor, options: AttentionOptions = {}) {
    return scaledDotProductAttention(this, key, value, options);
  }),
  writable: true,
  configurable: true,
});
