// The products that a TPU writes as convolutions: pairs of elements that meet are counted without visiting each.
import { expect, test } from 'vitest';
import { pairs } from '../../dist/plan/hlo/flops.js';

const window = (size: number, stride: number, low: number, lhsDilate: number, rhsDilate: number) =>
  ({ size, stride, low, lhsDilate, rhsDilate }) as Parameters<typeof pairs>[2];

/** One by one. */
function counted(length: number, made: number, w: ReturnType<typeof window>): number {
  let n = 0;
  for (let o = 0; o < made; o++)
    for (let k = 0; k < w.size; k++) {
      const at = o * w.stride - w.low + k * w.rhsDilate;
      if (at >= 0 && at % w.lhsDilate === 0 && at / w.lhsDilate < length) n++;
    }
  return n;
}

test('pairs of small windows, strides, paddings and gaps are those that are counted one by one', () => {
  for (const length of [1, 4, 7])
    for (const made of [1, 5, 9])
      for (const size of [2, 3, 8])
        for (const stride of [1, 2, 5])
          for (const low of [-2, 0, 3, 7])
            for (const gap of [1, 2, 4, 6])
              for (const reach of [1, 3, 4]) {
                const w = window(size, stride, low, gap, reach);
                expect([length, made, w, pairs(length, made, w)]).toEqual([length, made, w, counted(length, made, w)]);
              }
});

test('a window as long as a large batch, of which each element meets one', () => {
  const n = 1_000_000; // visiting each pair would take hours
  expect(pairs(n, n, window(n, n - 1, n - 1, n, 1))).toBe(counted(12, 12, window(12, 11, 11, 12, 1)) * (n / 12));
});
