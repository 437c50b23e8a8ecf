// The line search of LBFGS, as in torch: finds a step that satisfies the strong Wolfe conditions.

/** A point on the line: its distance, the loss, the gradient, and the product of gradient and direction. */
export interface Point {
  readonly t: number;
  readonly loss: number;
  readonly grad: Float64Array;
  readonly slope: number;
}
export interface LineSearch {
  /** The loss and its gradient at a distance. */
  readonly evaluate: (t: number) => Promise<Point>;
  readonly from: Point;
  /** The first distance to try. */
  readonly t: number;
  /** The largest element of the direction. */
  readonly norm: number;
  readonly toleranceChange: number;
  readonly maxEvaluations: number;
}
const [C1, C2] = [1e-4, 0.9];

/** The minimum of the cubic through two points with their slopes, within bounds. */
function cubicMinimum(a: Point, b: Point, bounds?: readonly [number, number]): number {
  const [least, most] = bounds ?? (a.t <= b.t ? [a.t, b.t] : [b.t, a.t]);
  const d1 = a.slope + b.slope - (3 * (a.loss - b.loss)) / (a.t - b.t);
  const squared = d1 ** 2 - a.slope * b.slope;
  if (!(squared >= 0)) return (least + most) / 2;
  const d2 = Math.sqrt(squared);
  const [near, far] = a.t <= b.t ? [a, b] : [b, a];
  const t = far.t - (far.t - near.t) * ((far.slope + d2 - d1) / (far.slope - near.slope + 2 * d2));
  return Math.min(Math.max(t, least), most);
}

/** The point that was found, and the number of evaluations. */
export async function strongWolfe(
  search: LineSearch,
): Promise<{ readonly point: Point; readonly evaluations: number }> {
  const { evaluate, from, norm, toleranceChange, maxEvaluations } = search;
  const isTooHigh = (p: Point) => p.loss > from.loss + C1 * p.t * from.slope;
  const isFlat = (p: Point) => Math.abs(p.slope) <= -C2 * from.slope;

  // Bracketing: increases the distance until the minimum is between two points.
  let last: Point = { ...from, t: 0 };
  let next = await evaluate(search.t);
  let evaluations = 1;
  let tries = 0;
  let bracket: [Point, Point] | undefined;
  while (tries < maxEvaluations) {
    if (isTooHigh(next) || (tries > 1 && next.loss >= last.loss)) {
      bracket = [last, next];
      break;
    }
    if (isFlat(next)) return { point: next, evaluations };
    if (next.slope >= 0) {
      bracket = [last, next];
      break;
    }
    const t = cubicMinimum(last, next, [next.t + 0.01 * (next.t - last.t), next.t * 10]);
    last = next;
    next = await evaluate(t);
    evaluations++;
    tries++;
  }
  bracket ??= [{ ...from, t: 0 }, next];

  // Zoom: shrinks the bracket until a point satisfies the conditions.
  let [low, high] = bracket[0].loss <= bracket[1].loss ? [0, 1] : [1, 0];
  let hasStalled = false;
  while (tries < maxEvaluations) {
    const [a, b] = bracket;
    if (Math.abs(b.t - a.t) * norm < toleranceChange) break;
    let t = cubicMinimum(a, b);
    const [least, most] = [Math.min(a.t, b.t), Math.max(a.t, b.t)];
    const margin = 0.1 * (most - least);
    if (Math.min(most - t, t - least) < margin) {
      if (hasStalled || t >= most || t <= least) {
        t = Math.abs(t - most) < Math.abs(t - least) ? most - margin : least + margin;
        hasStalled = false;
      } else hasStalled = true;
    } else hasStalled = false;
    const point = await evaluate(t);
    evaluations++;
    tries++;
    if (isTooHigh(point) || point.loss >= bracket[low as 0].loss) {
      bracket[high as 0] = point;
      [low, high] = bracket[0].loss <= bracket[1].loss ? [0, 1] : [1, 0];
      continue;
    }
    const isDone = isFlat(point);
    if (!isDone && point.slope * (bracket[high as 0].t - bracket[low as 0].t) >= 0)
      bracket[high as 0] = bracket[low as 0];
    bracket[low as 0] = point;
    if (isDone) break;
  }
  return { point: bracket[low as 0], evaluations };
}
