// autocast: the dtypes of results are torch's, for every operation; it is part of what a compiled function is traced for.
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';
import { tables } from '../ops/tables.js';
import { golden } from '../support.js';

const { mixes, rows } = JSON.parse(golden('autocast.json')) as {
  mixes: string[];
  rows: Record<string, string>;
};
const isLow: Record<string, (i: number, n: number) => boolean> = {
  f32: () => false,
  low: () => true,
  first: (i) => i === 0,
  last: (i, n) => i === n - 1,
};

/** What a function gives, or the error. */
const said = (f: () => string): string => {
  try {
    return f();
  } catch (e) {
    return `!${(e as Error).message.split('\n')[0]}`;
  }
};
/** Rows that torch computes another way: in f64, to compare values; torch.linalg.cross is not on its lists as torch.cross is, and here they are one; inner of
 * a scalar is a product there; huber_loss of two dtypes has another one without data than with. */
const UNLIKE = ['.double()', 'linalg.cross(', 'inner(a, b) of f32[],', 'huber_loss(a, b) of f32[4], f64'];

test.each(mixes)('results have torch’s dtypes: inputs %s', (mix) => {
  const k = mixes.indexOf(mix);
  const wrong: string[] = [];
  let compared = 0;
  for (const { family, rows: list } of tables) {
    for (const row of list) {
      const want = rows[`${family}/${row.name}`]?.split('|')[k]?.trim();
      if (!want || UNLIKE.some((part) => row.name.includes(part))) continue;
      const xs = row.inputs.map(({ shape, dtype }, i) =>
        tx.zeros(shape, { dtype: dtype === 'f32' && isLow[mix]!(i, row.inputs.length) ? 'bf16' : dtype }),
      );
      const dtypes = () => String([row.run(...xs)].flat().map((t) => (t as tx.Tensor).dtype));
      const got = said(() => tx.autocast({ dtype: 'bf16' }, dtypes));
      // Tensors without data take dtypes that torch's kernels refuse: so do ours, with and without autocast.
      if (got.startsWith('!') && said(dtypes) === got) continue;
      compared++;
      if (got !== want) wrong.push(`${row.op}: ${row.name}: ${got}, torch has ${want}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(compared).toBeGreaterThan(300);
});

describe('autocast', () => {
  const [x, w] = [tx.ones([2, 4]), tx.ones([3, 4], { requiresGrad: true })];

  test('casts inside, gives gradients of the parameters’ dtype, and can be switched off', async () => {
    const [h, off, loss] = tx.autocast({ dtype: 'f16' }, () => {
      const h = tx.linear(x, w);
      return [h, tx.autocast({ enabled: false }, () => tx.linear(x, w)), tx.mseLoss(h, tx.zeros([2, 3]))] as const;
    });
    expect([h.dtype, off.dtype, loss.dtype, tx.linear(x, w).dtype]).toEqual(['f16', 'f32', 'f32', 'f32']);
    loss.backward();
    expect(w.grad!.dtype).toBe('f32');
    expect(await loss.item()).toBe(16);
    w.grad = null;
  });

  test('is part of what a compiled function is traced for', async () => {
    const f = tx.compile((a: tx.Tensor) => a.matmul(a));
    const a = tx.ones([2, 2]);
    expect((await f(a)).dtype).toBe('f32');
    expect((await tx.autocast({ enabled: true }, () => f(a))).dtype).toBe('bf16');
    expect((await tx.autocast({ dtype: 'f16' }, () => f(a))).dtype).toBe('f16');
    expect((await f(a)).dtype).toBe('f32');
    expect(f.programs).toBe(3);
    await expect(tx.autocast({}, () => f(tx.ones([2, 3])))).rejects.toThrow(/matmul/);
  });
  test('and so is noGrad', async () => {
    const v = tx.tensor([2, 3], { dtype: 'f32', requiresGrad: true });
    const f = tx.compile((a: tx.Tensor) => {
      const y = a.mul(v);
      return y.requiresGrad ? y.mul(10) : y;
    });
    const [free, tied] = [await tx.noGrad(() => f(tx.ones([2]))), await f(tx.ones([2]))];
    expect([await free.tolist(), await tied.tolist()]).toEqual([
      [2, 3],
      [20, 30],
    ]);
    expect(f.programs).toBe(2);
    const step = await tx.noGrad(() => tx.step(() => v.mul(2)));
    expect(await step.tolist()).toEqual([4, 6]);
    expect(() => tx.noGrad(async () => f(tx.ones([2])))).toThrow('noGrad: the function is async');
  });

  test('what it cannot do is an error', () => {
    expect(() => tx.autocast({ dtype: 'f32' as never }, () => 1)).toThrow(/dtype is 'f32': it must be 'bf16' or 'f16'/);
    expect(() => tx.autocast({}, async () => 1)).toThrow(/the function is async/);
    expect(() => tx.autocast({}, () => tx.binaryCrossEntropy(x, x))).toThrow(/use binaryCrossEntropyWithLogits/);
    expect(tx.linear(x, w).dtype).toBe('f32');
  });
});
