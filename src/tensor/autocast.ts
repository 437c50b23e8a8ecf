// Automatic mixed precision: operations called inside autocast convert their tensors to another dtype, by torch's lists for GPUs.
// Only lift.ts applies it, where every operation is called by its name.

import { checkDescribed } from '../base/described.js';
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { promote } from '../base/promote.js';
import { describe, isPlain, shown } from '../base/tree.js';
import { Expr } from '../ir/expr.js';
import { convert } from '../ops/prim/move.js';

const names = (text: string): string[] => text.trim().split(/\s+/);
/** Products: fast in 16 bits, and precise enough. */
const LOW = names(`
  conv1d conv2d conv3d convTranspose1d convTranspose2d convTranspose3d matmul mm mv bmm addmm addmv addr addbmm baddbmm
  chainMatmul multiDot einsum groupedMm linear prelu vecdot scaledDotProductAttention`);
/** Operations that overflow or lose too much precision in 16 bits. */
const F32 = names(`
  acos arccos asin arcsin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow square cbrt softplus
  softmax softmin logSoftmax logsumexp sum prod cumsum cumprod trapezoid trapz cumulativeTrapezoid
  norm vectorNorm nuclearNorm spectralNorm dist cdist layerNorm rmsNorm groupNorm localResponseNorm normalize
  cosineSimilarity crossEntropy nllLoss poissonNllLoss klDiv l1Loss smoothL1Loss huberLoss mseLoss cosineEmbeddingLoss
  hingeEmbeddingLoss marginRankingLoss softMarginLoss tripletMarginLoss binaryCrossEntropyWithLogits
  lpPool1d lpPool2d lpPool3d interpolate`);
/** Operations for which torch rejects operands of different dtypes: all are converted to the widest. */
const WIDEST = names('addcdiv addcmul atan2 arctan2 bilinear cross dot vdot inner tensordot indexPut scatterAdd');

type Low = 'bf16' | 'f16';
let low: Low | undefined;
/** The dtype of products; undefined if autocast is off. A compiled function is traced again when it changes. */
export const autocastDType = (): Low | undefined => low;

export interface AutocastOptions {
  readonly dtype?: Low;
  /** false turns an outer autocast off inside. Default: true. */
  readonly enabled?: boolean;
}

/** Runs fn in mixed precision: products in `dtype`; sums, losses and exponentials in f32. */
export function autocast<T>(options: AutocastOptions, fn: () => T): T {
  if (typeof options === 'function')
    throw new ArgumentError("autocast: options come first: autocast({ dtype: 'bf16' }, () => ...)");
  checkOptions('autocast', ['dtype', 'enabled'], options);
  const { dtype = 'bf16', enabled = true } = options ?? {};
  if (dtype !== 'bf16' && dtype !== 'f16')
    throw new ArgumentError(`autocast: dtype is ${shown(dtype)}: it must be 'bf16' or 'f16'`);
  if (typeof fn !== 'function') throw new ArgumentError(`autocast: takes options and a function, got ${describe(fn)}`);
  const was = low;
  low = enabled ? dtype : undefined;
  try {
    return checkDescribed('autocast', fn());
  } finally {
    low = was;
  }
}

type Cast = (args: readonly unknown[], low: Low) => readonly unknown[];
const isEligible = (x: unknown): x is Expr => x instanceof Expr && ['f16', 'bf16', 'f32'].includes(x.dtype);
/** The arguments with their float tensors, also those in lists and options, converted to another dtype. */
function castTo(x: unknown, dtype: Low | 'f32'): unknown {
  if (isEligible(x)) return convert(x, dtype);
  if (Array.isArray(x)) return x.map((e) => castTo(e, dtype));
  return isPlain(x) ? Object.fromEntries(Object.entries(x).map(([k, v]) => [k, castTo(v, dtype)])) : x;
}
const floatsIn = (x: unknown): Expr[] =>
  isEligible(x) ? [x] : Array.isArray(x) ? x.flatMap(floatsIn) : isPlain(x) ? Object.values(x).flatMap(floatsIn) : [];
const all =
  (dtypeOf: (args: readonly unknown[], low: Low) => Low | 'f32'): Cast =>
  (args, low) =>
    castTo(args, dtypeOf(args, low)) as readonly unknown[];

const RULES: ReadonlyMap<string, Cast> = new Map([
  ...LOW.map((op) => [op, all((_, low) => low)] as const),
  ...F32.map((op) => [op, all(() => 'f32')] as const),
  ...WIDEST.map(
    (op) =>
      [
        op,
        all(
          (args, low) =>
            floatsIn(args)
              .map((x) => x.dtype)
              .reduce(promote, low) as Low,
        ),
      ] as const,
  ),
  [
    'binaryCrossEntropy',
    () => {
      throw new ArgumentError(
        'binaryCrossEntropy inside autocast: its gradient overflows in 16 bits: use binaryCrossEntropyWithLogits without the sigmoid, or autocast({ enabled: false }, ...)',
      );
    },
  ],
]);
/** Converts the arguments of an operation as autocast requires. */
export const castOf = (op: string): Cast | undefined => RULES.get(op);
/** The same for an operation that is not called through lift.ts. */
export const cast = <X extends readonly unknown[]>(op: string, operands: X): X =>
  low ? ((castOf(op)?.(operands, low) ?? operands) as X) : operands;
