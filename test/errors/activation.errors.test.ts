// Misuse of the activations: what the error says.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

const f = (...shape: number[]) => tx.ones(shape);
const cases: readonly [run: () => unknown, message: string][] = [
  [() => f(2, 3).glu({ dim: 1 }), 'glu: f32[2, 3] cannot be split in half along dim 1: its size must be even'],
  [() => f(2, 3).glu({ dim: 2 }), 'glu: dim 2 is out of range for 2 dimensions: use -2 to 1'],
  [() => f(2, 3).softmax(-3), 'softmax: dim -3 is out of range for 2 dimensions: use -2 to 1'],
  [() => f(2, 3).softmax(undefined as never), 'softmax: dim is missing: write x.softmax(dim, dtype?)'],
  [
    () => tx.logSoftmax(tx.ones([3], { dtype: 'i64' }), 0),
    "logSoftmax: takes floating point numbers, got i64[3]: logSoftmax(x, { dim, dtype: 'f32' })",
  ],
  [() => f(2).hardtanh({ minVal: 2, maxVal: 1 }), 'hardtanh: minVal 2 is greater than maxVal 1'],
  [() => f(2).softshrink({ lambd: -1 }), 'softshrink: lambd is -1: it must be 0 or more'],
  [() => f(2).celu({ alpha: 0 }), 'celu: alpha is 0: it must not be 0, as x / alpha is computed'],
  [() => f(2).gelu({ approximate: 'sigmoid' as 'tanh' }), "gelu: approximate is 'sigmoid': use 'none' or 'tanh'"],
  [() => f(2, 3).prelu(f(2)), 'prelu: f32[2] does not fit f32[2, 3]: give 1 slope, or 3 (one per channel)'],
];
test.each(cases)('%s', (run, message) => {
  expect(run).toThrow(tx.ArgumentError);
  expect(run).toThrow(message);
});
