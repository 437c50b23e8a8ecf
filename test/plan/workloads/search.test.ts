// The search for the largest batch, over memory that grows as programs' does: each look is a compile, so they are counted.
import { largestBatch } from 'tsxla/workloads';
import { expect, test } from 'vitest';

async function search(peakOf: (batch: number) => number, available: number, most?: number) {
  const looks: number[] = [];
  const largest = await largestBatch(async (batch) => {
    looks.push(batch);
    return { fits: peakOf(batch) <= available, peak: peakOf(batch), available };
  }, most);
  return { largest, looks };
}

test('memory in a line: two looks give it, and two more confirm', async () => {
  expect(await search((b) => 3 + 2 * b, 31.24)).toEqual({ largest: 14, looks: [1, 2, 14, 15] });
});

test('memory that bends, jumps, or stays: the answer is right, in few looks', async () => {
  const cases: readonly (readonly [(b: number) => number, number])[] = [
    [(b) => 3 + b ** 1.3, 31],
    [(b) => 3 + b ** 0.8, 31],
    [(b) => 2 + (b > 8 ? 10 : 0) + b / 2, 31],
    [(b) => Math.max(12, b), 100],
    [(b) => 3 + 8 * Math.ceil(b / 8), 101],
  ];
  for (const [peakOf, available] of cases) {
    const { largest, looks } = await search(peakOf, available);
    expect(peakOf(largest)).toBeLessThanOrEqual(available);
    expect(peakOf(largest + 1)).toBeGreaterThan(available);
    expect(looks.length).toBeLessThan(14);
    expect(new Set(looks).size).toBe(looks.length);
  }
});

test('nothing fits: 0, after one look; everything fits: as much as was asked for', async () => {
  expect(await search(() => 2, 1)).toEqual({ largest: 0, looks: [1] });
  expect((await search((b) => b, 1e9, 64)).largest).toBe(64);
});
