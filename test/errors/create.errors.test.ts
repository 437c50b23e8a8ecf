// What is said of values, shapes and dtypes that no tensor can be made of.
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';

const cases: readonly (readonly [what: string, run: () => unknown, text: string])[] = [
  [
    'uneven arrays',
    () => tx.tensor([[1, 2], [3]]),
    'tensor: the nested arrays are uneven: shapes [2] and [1] side by side',
  ],
  [
    'a number among arrays',
    () => tx.tensor([[1], 2]),
    'tensor: the nested arrays are uneven: shapes [1] and [] side by side',
  ],
  [
    'a text',
    () => tx.tensor(['1'] as never),
    'tensor: takes numbers, booleans and nested arrays of them, got 1 (string)',
  ],
  [
    'nothing',
    () => tx.tensor([undefined] as never),
    'tensor: takes numbers, booleans and nested arrays of them, got undefined (undefined)',
  ],
  [
    'tensors in an array',
    () => tx.tensor([tx.zeros([])] as never),
    'tensor: takes numbers, booleans and nested arrays of them, got a tensor: use stack',
  ],
  [
    'a tensor',
    () => tx.tensor(tx.zeros([]) as never),
    'tensor: data is f32[]: it takes a number, true or false, a typed array or buffer, { data, dtype, shape, re, im } or a list (for tensors use clone, to or stack)',
  ],
  [
    'a number that is not exact',
    () => tx.tensor(2 ** 53),
    'tensor: 9007199254740992 is not an exact i64: use a BigInt (123n) or a float dtype',
  ],
  [
    'NaN as an integer',
    () => tx.tensor([Number.NaN], { dtype: 'i32' }),
    'tensor: NaN is not an exact i32: use a BigInt (123n) or a float dtype',
  ],
  ['too large', () => tx.tensor([300], { dtype: 'u8' }), 'tensor: 300 does not fit u8 (0 to 255): use a larger dtype'],
  [
    'too large a BigInt',
    () => tx.tensor([2n ** 63n]),
    'tensor: 9223372036854775808 does not fit i64 (-9223372036854775808 to 9223372036854775807): use a larger dtype',
  ],
  [
    'another shape',
    () => tx.tensor(new Float32Array(3), { shape: [2, 2] }),
    'tensor: 3 elements do not fit shape [2, 2]',
  ],
  ['a dtype that is none', () => tx.zeros([2], { dtype: 'q8' as never }), 'zeros: q8 is not a dtype: use one of bool'],
  [
    'integers that want gradients',
    () => tx.tensor([1], { requiresGrad: true }),
    'requiresGrad_: this tensor is i64[1]: only floats have gradients',
  ],
  ['a size that is none', () => tx.ones([2, -1]), 'ones: [2, -1] is not a shape: -1 is not a size'],
  [
    'a shape in words',
    () => tx.zeros('2' as never),
    "zeros: shape is '2': it takes a list of numbers: write zeros(shape, { dtype, requiresGrad }), zeros(size, ...sizes) or",
  ],
  ['full', () => tx.full([2], -1, { dtype: 'u8' }), 'tensor: -1 does not fit u8 (0 to 255): use a larger dtype'],
  ['arange that never ends', () => tx.arange(0, 5, -1), 'arange: a step of -1 does not lead from 0 to 5'],
  [
    'arange of nothing',
    () => (tx.arange as () => unknown)(),
    'arange: end is missing: write arange(end, { dtype, requiresGrad }), arange(start, end, { dtype, requiresGrad }) or',
  ],
  ['linspace', () => tx.linspace(0, 1, 1.5), 'linspace: the number of steps must be whole and not negative, got 1.5'],
  [
    'fromBuffer',
    () => tx.fromBuffer(new ArrayBuffer(7), { dtype: 'f32' }),
    'fromBuffer: 7 bytes are not a whole number of f32 elements (4 bytes each)',
  ],
  [
    'an array of a file',
    () => tx.mul({ dtype: 'f32', shape: [2], data: new Float32Array(2) } as never, 2),
    'mul: a is a host array { dtype, shape, data }: pass tx.tensor(a)',
  ],
];
test.each(cases)('%s', (_, run, text) => {
  expect(run).toThrow(tx.ArgumentError);
  expect(run).toThrow(text);
  expect(run).toThrow(`\n    at ${import.meta.filename}:`);
});

describe("torch's names of dtypes", () => {
  const named = (run: (dtype: never) => unknown) => expect(() => run('torch.bfloat16' as never));
  test.each([
    ['ones', (dtype: never) => tx.ones([2], { dtype })],
    ['randn', (dtype: never) => tx.randn([2], { dtype })],
    ['randint', (dtype: never) => tx.randint(0, 9, [2], { dtype })],
    ['sum', (dtype: never) => tx.ones([2]).sum({ dtype })],
  ])('%s says ours', (op, run) => named(run).toThrow(`${op}: dtype 'torch.bfloat16' is written 'bf16'`));
});
