// Misuse of convolutions, pooling and interpolation: by the text of the error.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

const f = (...shape: number[]) => tx.zeros(shape);
const i = (...shape: number[]) => tx.zeros(shape, { dtype: 'i64' });

// biome-ignore format: a table
const cases: readonly [string, () => unknown, string][] = [
  ['rank', () => f(3, 3).conv2d(f(1, 1, 2, 2)), 'conv2d: takes [N, C, H, W], or that without N, got f32[3, 3]'],
  ['channels', () => f(1, 3, 8, 8).conv2d(f(4, 2, 3, 3)), 'conv2d: f32[1, 3, 8, 8] has 3 channels, weight f32[4, 2, 3, 3] takes 2 with 1 groups'],
  ['weight', () => f(1, 3, 8).conv1d(f(4, 3, 3, 3)), 'conv1d: takes a weight [out, in / groups, ...window of 1], got f32[1, 3, 8] and f32[4, 3, 3, 3]'],
  ['groups', () => f(1, 4, 8).conv1d(f(3, 2, 3), null, { groups: 2 }), 'conv1d: 2 groups do not divide the 3 features of weight f32[3, 2, 3]'],
  ['dtypes', () => i(1, 1, 4).conv1d(f(1, 1, 2)), 'conv1d: dtypes of i64[1, 1, 4] and f32[1, 1, 2] differ'],
  ['bias', () => f(1, 1, 4).conv1d(f(2, 1, 2), f(3)), 'conv1d: bias is f32[3]: it takes [2]'],
  ['same with stride', () => f(1, 1, 4).conv1d(f(1, 1, 2), null, { padding: 'same', stride: 2 }), "conv1d: padding 'same' needs stride 1, got [2]"],
  ['window', () => f(1, 1, 2, 4).conv2d(f(1, 1, 3, 3)), 'conv2d: the window covers 3 elements, but the padded input f32[1, 1, 2, 4] has 2 in dim -2'],
  ['stride', () => f(1, 1, 4).conv1d(f(1, 1, 2), null, { stride: 0 }), 'conv1d: stride is 0: use whole numbers of at least 1'],
  ['sizes', () => f(1, 1, 4, 4).conv2d(f(1, 1, 2, 2), null, { padding: [1, 2, 3] }), 'conv2d: padding is [1, 2, 3]: give one number, or 2'],
  ['output padding', () => f(1, 1, 4).convTranspose1d(f(1, 1, 2), null, { outputPadding: 1 }), 'convTranspose1d: outputPadding 1 must be less than stride 1 or dilation 1'],
  ['transposed channels', () => f(1, 3, 4).convTranspose1d(f(2, 3, 2)), 'convTranspose1d: f32[1, 3, 4] has 3 channels, weight f32[2, 3, 2] takes 2'],
  ['pool padding', () => f(1, 1, 4, 4).maxPool2d(2, { padding: 2 }), 'maxPool2d: padding 2 is more than half the window of 2: use at most 1'],
  ['pool window', () => f(1, 1, 4, 4).avgPool2d(5), 'avgPool2d: a window of 5 does not fit f32[1, 1, 4, 4] in dim -2, with padding 0'],
  ['pool of booleans', () => i(1, 1, 4).bool().avgPool1d(2), 'avgPool1d: takes floating point numbers, got bool[1, 1, 4]'],
  ['no size', () => f(1, 1, 4).interpolate({}), 'interpolate of f32[1, 1, 4]: give size or scaleFactor, and only one of them'],
  ['mode', () => f(1, 1, 4).interpolate({ size: 2, mode: 'bilinear' }), "interpolate: mode 'bilinear' takes 4 dimensions, got f32[1, 1, 4]"],
  ['shuffle', () => f(1, 6, 2, 2).pixelShuffle(2), 'pixelShuffle: takes [..., C * 2 * 2, H, W] with upscaleFactor 2, got f32[1, 6, 2, 2]'],
  ['columns', () => f(1, 8, 5).col2im([3, 4], 2), 'col2im: takes [N, C * 4, 6] for these windows, got f32[1, 8, 5]'],
];
test.each(cases)('%s', (_, misuse, text) => {
  expect(misuse).toThrow(text);
  expect(misuse).toThrow(/at .*conv\.errors\.test\.ts:\d+/);
});
