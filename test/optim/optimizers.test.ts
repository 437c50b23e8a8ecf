// Every optimizer and option against torch, over 25 steps with the same gradients.

import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';
import { golden } from '../support.js';

interface Run {
  readonly name: 'SGD';
  readonly options: Record<string, unknown> & { readonly low?: 'rounded' | 'master' };
  readonly seen: number[][][];
  readonly state: Record<string, number[]>[];
  readonly sizes: Record<string, number>[];
}
const { shapes, start, gradients, runs } = JSON.parse(golden('optim.json')) as {
  shapes: number[][];
  start: number[][];
  gradients: number[][][];
  runs: Run[];
};

const values = async (t: tx.Tensor) => Array.from((await t.to('f64').data()) as Float64Array);
/** The largest difference, as a part of the largest number that the tensor had on the way. */
function difference(got: readonly number[], want: readonly number[], size: number): number {
  expect(got.length).toBe(want.length);
  return Math.max(...got.map((x, i) => Math.abs(x - want[i]!) / size));
}
const make = (data: number[][], dtype: tx.DType, requiresGrad = false) =>
  data.map((x, i) =>
    tx.tensor(Float64Array.from(x), { shape: shapes[i]!, dtype: 'f64' }).to(dtype).detach().requiresGrad_(requiresGrad),
  );

describe.each(runs.map((r) => [`${r.name} ${JSON.stringify(r.options)}`, r] as const))('%s', (_, run) => {
  test('is what torch computes, with another learning rate on the way, in one program', async () => {
    const { low, ...options } = run.options;
    const dtype = low ? 'bf16' : 'f32';
    const params = make(start, dtype, true);
    const optimizer = new tx.optim[run.name](params, { ...options, masterWeights: low === 'master' });
    const step = tx.compile((grads: tx.Tensor[]) => {
      params.forEach((p, i) => void (p.grad = grads[i]!));
      optimizer.step();
      optimizer.zeroGrad();
    });
    const [group] = optimizer.paramGroups;
    const seen: number[][][] = [];
    for (const [k, grads] of gradients.entries()) {
      if (k === 10) group!.lr *= 0.5;
      await step(make(grads, dtype));
      if ([1, 2, gradients.length].includes(k + 1)) seen.push(await Promise.all(params.map(values)));
    }
    expect(step.programs).toBe(1);
    // bf16 has 8 bits: where torch's f32 number lies between two of them, ours may be rounded to the other.
    const tolerance = low ? 2 ** -8 : 1e-6;
    seen.forEach((got, k) => {
      got.forEach((x, i) => expect(difference(x, run.seen[k]![i]!, run.sizes[i]!.p!)).toBeLessThan(tolerance));
    });
    const want = run.seen.flat(2).map(Math.fround); // written with 9 digits
    const equal = seen.flat(2).filter((x, i) => x === want[i]).length;
    if (low) expect(equal / seen.flat(2).length).toBeGreaterThan(0.97);
    for (const [i, p] of params.entries()) {
      const { master, ...state } = optimizer.state.get(p)!;
      expect(master !== undefined).toBe(low === 'master');
      const { step: _, ...want } = run.state[i]!;
      expect(Object.keys(state).sort()).toEqual(Object.keys(want).sort());
      for (const [name, t] of Object.entries(state)) {
        expect(t.dtype).toBe('f32');
        if (low !== 'rounded')
          expect(difference(await values(t), want[name]!, run.sizes[i]![name]!)).toBeLessThan(1e-6);
      }
    }
    const { state } = optimizer.stateDict();
    for (const [i, { step }] of run.state.entries()) if (step) expect(await values(state[i]!.step!)).toEqual(step); // torch's SGD does not count
  });
});
