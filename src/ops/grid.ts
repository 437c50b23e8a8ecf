// Sampling images at the points of a grid: affineGrid and gridSample.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { range, type Shape, showShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { clamp } from './math.js';
import { matmul } from './matmul.js';
import { inWide } from './prim/align.js';
import { broadcastTo } from './prim/broadcast.js';
import { constants, full } from './prim/constant.js';
import { checkDType, typesOf } from './prim/define.js';
import { gatherAlong } from './prim/gather.js';
import { convert, permute, reshape } from './prim/move.js';
import {
  add,
  div,
  eq,
  floor,
  fmod,
  ge,
  gt,
  le,
  logicalAnd,
  lt,
  mul,
  neg,
  round,
  sub,
  where,
} from './prim/pointwise.js';
import { concat, sliceDim } from './prim/slice.js';
import { detach } from './prim/variable.js';

/** The points of an image of `size` [N, C, H, W] (or [N, C, D, H, W]), moved by theta [N, 2, 3] ([N, 3, 4]). */
export function affineGrid(
  theta: Expr,
  size: Shape,
  { alignCorners = false }: { readonly alignCorners?: boolean } = {},
): Expr {
  const space = size.slice(2);
  const n = space.length;
  if (
    (n !== 2 && n !== 3) ||
    theta.shape.length !== 3 ||
    theta.shape[1] !== n ||
    theta.shape[2] !== n + 1 ||
    theta.shape[0] !== size[0]
  )
    throw new ShapeError(
      `affineGrid: theta must be [N, 2, 3] for a size [N, C, H, W], or [N, 3, 4] for [N, C, D, H, W], got ${theta.aval} and ${showShape(size)}`,
    );
  // Rounded as torch rounds: a point on an element, as of an identity, must not lie one bit before it.
  const rounded = theta.dtype === 'f32' ? Math.fround : (v: number) => v;
  const line = (count: number) => {
    const step = rounded(2 / (count - 1));
    return range(count).map((i) => {
      if (count === 1) return 0;
      const at = rounded(i < Math.floor(count / 2) ? step * i - 1 : 1 - step * (count - 1 - i));
      return alignCorners ? at : rounded(at * (count - 1)) / count;
    });
  };
  // The coordinate of the last dimension comes first.
  const axes = range(n).map((k) => {
    const d = n - 1 - k;
    return reshape(
      broadcastTo(
        reshape(
          constants(line(space[d]!), theta.dtype),
          space.map((s, i) => (i === d ? s : 1)),
        ),
        space,
      ),
      [...space, 1],
    );
  });
  const points = concat([...axes, full([...space, 1], 1, theta.dtype)], n);
  const flat = reshape(points, [1, space.reduce((a, b) => a * b, 1), n + 1]);
  return reshape(matmul(flat, permute(theta, [0, 2, 1])), [size[0]!, ...space, n]);
}

export interface GridSampleOptions {
  readonly mode?: 'bilinear' | 'nearest' | 'bicubic';
  /** Values outside the image: zeros, the nearest element inside, or the mirrored image. */
  readonly paddingMode?: 'zeros' | 'border' | 'reflection';
  /** Whether -1 and 1 are the centres of the first and last element, or their outer edges. Default: false. */
  readonly alignCorners?: boolean;
}
/**
 * Samples x [N, C, H, W] (or [N, C, D, H, W]) at the points of a grid [N, ..., 2] ([N, ..., 3]): coordinates from -1 to 1,
 * the last dimension first.
 */
export function gridSample(
  x: Expr,
  grid: Expr,
  { mode = 'bilinear', paddingMode = 'zeros', alignCorners = false }: GridSampleOptions = {},
): Expr {
  const n = x.shape.length - 2;
  checkDType('gridSample', [x.aval], isFloat, 'floating point numbers');
  if ((n !== 2 && n !== 3) || grid.shape.length !== n + 2 || grid.shape[n + 1] !== n || grid.shape[0] !== x.shape[0])
    throw new ShapeError(
      `gridSample: takes [N, C, H, W] and [N, ..., ..., 2], or [N, C, D, H, W] and [N, ..., ..., ..., 3], got ${typesOf([x, grid])}`,
    );
  if (x.dtype !== grid.dtype)
    throw new ArgumentError(`gridSample: dtypes of ${typesOf([x, grid])} differ: convert one first`);
  if (mode === 'bicubic' && n !== 2)
    throw new ArgumentError(`gridSample: mode 'bicubic' takes [N, C, H, W], got ${x.aval}`);
  return inWide(x, (image) => sampled(image, convert(grid, image.dtype), { mode, paddingMode, alignCorners }));
}
function sampled(x: Expr, grid: Expr, { mode, paddingMode, alignCorners }: Required<GridSampleOptions>): Expr {
  const [N, C, ...space] = x.shape as [number, number, ...number[]];
  const n = space.length;
  const out = grid.shape.slice(1, -1);
  const P = out.reduce((a, b) => a * b, 1);
  const points = reshape(grid, [N, P, n]);
  const lines = reshape(x, [N, C, space.reduce((a, b) => a * b, 1)]);
  const inside = (at: Expr, d: number) => padded(at, space[d]!, paddingMode, alignCorners);
  /** Places in elements, in the order of the dimensions. */
  const raw = space.map((size, d) => {
    const g = reshape(sliceDim(points, 2, n - 1 - d, n - d), [N, P]);
    return alignCorners ? mul(add(g, 1), (size - 1) / 2) : div(sub(mul(add(g, 1), size), 1), 2);
  });
  const places = mode === 'bicubic' ? raw : raw.map(inside);
  /** The elements at whole places, one for each dimension; 0 where one is outside. */
  const read = (at: readonly Expr[]): Expr => {
    const within = at.map((p, d) => logicalAnd(ge(p, 0), le(p, space[d]! - 1))).reduce((a, b) => logicalAnd(a, b));
    const flat = at.reduce(
      (i, p, d) => add(mul(i, space[d]!), convert(where(within, p, 0), 'i64')),
      full([N, P], 0, 'i64'),
    );
    const values = gatherAlong(lines, broadcastTo(reshape(flat, [N, 1, P]), [N, C, P]), 2);
    return where(reshape(within, [N, 1, P]), values, 0);
  };
  const weigh = (value: Expr, weight: Expr) => mul(value, reshape(weight, [N, 1, P]));
  /** For each dimension the places around a point, and how much each counts. */
  const around = places.map((p, d): { at: Expr; weight: Expr }[] => {
    if (mode === 'nearest') return [{ at: round(p), weight: where(full([N, P], false, 'bool'), p, 1) }]; // of slope 0
    const low = floor(p);
    const t = sub(p, low);
    if (mode === 'bilinear')
      return [
        { at: low, weight: sub(1, t) },
        { at: add(low, 1), weight: t },
      ];
    return cubic(t).map((weight, k) => ({ at: inside(add(low, k - 1), d), weight }));
  });
  const corners = around.reduce<{ at: Expr[]; weight: Expr }[]>(
    (all, each) => all.flatMap((a) => each.map((b) => ({ at: [...a.at, b.at], weight: mul(a.weight, b.weight) }))),
    [{ at: [], weight: full([N, P], 1, x.dtype) }],
  );
  const total = corners.map(({ at, weight }) => weigh(read(at), weight)).reduce((a, b) => add(a, b));
  return reshape(total, [N, C, ...out]);
}
/** Keys' cubic with a = -0.75, for the four places around. */
function cubic(t: Expr): Expr[] {
  const a = -0.75;
  const near = (u: Expr) => add(mul(mul(sub(mul(u, a + 2), a + 3), u), u), 1);
  const far = (u: Expr) => sub(mul(add(mul(sub(mul(u, a), 5 * a), u), 8 * a), u), 4 * a);
  return [far(add(t, 1)), near(t), near(sub(1, t)), far(sub(2, t))];
}
/** A place, brought inside where the padding says so. */
function padded(at: Expr, size: number, mode: string, alignCorners: boolean): Expr {
  if (mode === 'zeros') return at;
  // On the borders the gradient is 0, as in torch; clamp would let it pass.
  const limit = (p: Expr) =>
    where(logicalAnd(gt(p, 0), lt(p, size - 1)), p, detach(clamp(p, { min: 0, max: size - 1 })));
  if (mode === 'border') return limit(at);
  const [low, high] = alignCorners ? [0, size - 1] : [-0.5, size - 0.5];
  const span = high - low;
  if (!span) return mul(at, 0);
  const from = sub(at, low);
  const distance = where(lt(from, 0), neg(from), from); // not abs, whose gradient is 0 at 0
  const rest = fmod(distance, span);
  const even = eq(fmod(floor(div(distance, span)), 2), 0);
  return limit(where(even, add(rest, low), sub(span + low, rest)));
}
