// Sets of times, as sorted and disjoint intervals.
export type Interval = readonly [start: number, end: number];

export function union(intervals: readonly Interval[]): Interval[] {
  const all: [number, number][] = [];
  for (const [start, end] of [...intervals].sort((a, b) => a[0] - b[0])) {
    const last = all.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else if (end > start) all.push([start, end]);
  }
  return all;
}
/** The difference of two sets: the first without the second. */
export function without(from: readonly Interval[], taken: readonly Interval[]): Interval[] {
  const left: Interval[] = [];
  let i = 0;
  for (const [start, end] of from) {
    let at = start;
    while (i < taken.length && taken[i]![1] <= at) i++;
    for (let j = i; j < taken.length && taken[j]![0] < end; j++) {
      const [from, to] = taken[j]!;
      if (from > at) left.push([at, from]);
      at = Math.max(at, to);
    }
    if (at < end) left.push([at, end]);
  }
  return left;
}
export const lengthOf = (intervals: readonly Interval[]): number => intervals.reduce((n, [a, b]) => n + b - a, 0);
