// Misuse of the losses: what the error says.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

const f = (...shape: number[]) => tx.ones(shape);
const i = (...shape: number[]) => tx.zeros(shape, { dtype: 'i64' });
const cases: readonly [run: () => unknown, message: string][] = [
  [
    () => f(4, 3).crossEntropy(i(3)),
    'crossEntropy: the target is i64[3]: for the input f32[4, 3] its shape must be [4]',
  ],
  [
    () => f(4, 3).crossEntropy(f(4)),
    'crossEntropy: the input is f32[4, 3], but the target is f32[4]: a float target has the probability of each class',
  ],
  [() => f(4, 3).nllLoss(f(4)), 'nllLoss: the target is f32[4]: class indices must be integers: convert it to i64'],
  [() => f(4, 3).crossEntropy(i(4), { weight: f(4) }), 'crossEntropy: the weight is f32[4]: f32[4, 3] has 3 classes'],
  [
    () => f(4, 3).crossEntropy(i(4), { labelSmoothing: 2 }),
    'crossEntropy: labelSmoothing is 2: it must be between 0 and 1',
  ],
  [
    () => f(4, 3).crossEntropy(f(4, 3), { ignoreIndex: 1 }),
    'crossEntropy: ignoreIndex is for class indices, but the target is f32[4, 3]: leave it out',
  ],
  [() => f().crossEntropy(i()), 'crossEntropy: the input is f32[]: it needs a dimension for the classes'],
  [
    () => f(2).mseLoss(f(2), { reduction: 'average' as 'mean' }),
    "mseLoss: reduction is 'average': use 'mean', 'none' or 'sum'",
  ],
  [
    () => f(2, 3).binaryCrossEntropy(f(3)),
    'binaryCrossEntropy: the input is f32[2, 3], but the target is f32[3]: both must have the same shape',
  ],
  [
    () => f(2, 3).binaryCrossEntropyWithLogits(f(3)),
    'binaryCrossEntropyWithLogits: the input is f32[2, 3], but the target is f32[3]: both must have the same shape',
  ],
  [() => f(2).huberLoss(f(2), { delta: 0 }), 'huberLoss: delta is 0: it must be above 0'],
  [() => f(2).smoothL1Loss(f(2), { beta: -1 }), 'smoothL1Loss: beta is -1: it must be 0 or more'],
  [
    () => f(2, 3).gaussianNllLoss(f(2, 3), f(4)),
    'gaussianNllLoss: the variance is f32[4]: it must broadcast to the input f32[2, 3], or have one value per row',
  ],
  [
    () => f(2, 3).cosineEmbeddingLoss(f(2, 3), i(2, 3)),
    'cosineEmbeddingLoss: f32[2, 3] and f32[2, 3] with target i64[2, 3]: give rows [N, D] and [N], or vectors [D] and []',
  ],
  [() => f(3).cosineSimilarity(f(3)), 'cosineSimilarity: dim 1 is out of range for 1 dimensions: use -1 to 0'],
  [() => f(2, 3).l1Loss(f(4)), 'l1Loss: shapes [2, 3] and [4] do not broadcast: sizes 3 and 4 differ at dim -1'],
];
test.each(cases)('%s', (run, message) => {
  expect(run).toThrow(tx.ArgumentError);
  expect(run).toThrow(message);
});

test('a class out of range that only the device has is NaN, not a loss of nothing', async () => {
  const target = tx
    .tensor([0, 2], { dtype: 'i64' })
    .mul(2)
    .add(1)
    .sub(1)
    .add(tx.tensor([0, 1]));
  const losses = await tx.crossEntropy(f(2, 3), target, { reduction: 'none' }).data();
  expect(Array.from(losses as Float32Array, Number.isNaN)).toEqual([false, true]);
});
