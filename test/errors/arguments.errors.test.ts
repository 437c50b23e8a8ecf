// What TypeScript refuses is refused when it runs, too: in JavaScript, and where types are `any`.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import type { Takes } from '../../dist/tensor/arguments.js';
import * as autograd from '../../dist/tensor/autograd.js';
import * as control from '../../dist/tensor/control.js';
import * as language from '../../dist/tensor/index.js';
import { SIGNATURES } from '../../dist/tensor/signatures.js';
import { type Misuse, testMisuses } from './misuse.js';

// biome-ignore lint/suspicious/noExplicitAny: what these calls are about
const js: any = tx;
// biome-ignore lint/suspicious/noExplicitAny: the same
const x: any = tx.zeros([2, 3]);
const [image, kernel] = [tx.zeros([1, 1, 4, 4]), tx.zeros([2, 1, 2, 2])];

// biome-ignore format: a table
const options: readonly Misuse[] = [
  ['axis', () => x.sum({ axis: 1 }), "sum: there is no option 'axis': it takes dim, keepdim, dtype (did you mean dim?)"],
  ['dims', () => x.sum({ dims: [0] }), "sum: there is no option 'dims': it takes dim, keepdim, dtype (did you mean dim?)"],
  ['keepDim', () => x.mean({ dim: 0, keepDim: true }), "mean: there is no option 'keepDim': it takes dim, keepdim, dtype (did you mean keepdim?)"],
  ['keepdims', () => x.amax(0, { keepdims: true }), "amax: there is no option 'keepdims': it takes dim, keepdim (did you mean keepdim?)"],
  ['start_dim', () => x.flatten({ start_dim: 1 }), "flatten: there is no option 'start_dim': it takes startDim, endDim (did you mean startDim?)"],
  ['offset for diagonal', () => x.diag({ offset: 1 }), "diag: there is no option 'offset': it takes diagonal (did you mean diagonal?)"],
  ['a step', () => js.compile(() => x, { nmae: 'x' }), "compile: there is no option 'nmae': it takes check, fullGraph, staticArguments, name, maxGraphs, compilationTimeoutSeconds, cache, xlaFlags (did you mean name?)"],
  ['softmax along an axis', () => x.softmax({ axis: 1 }), "softmax: there is no option 'axis': it takes dim, dtype (did you mean dim?)"],
  ['max along an axis', () => x.max({ axis: 0 }), "max: there is no option 'axis': it takes dim, keepdim (did you mean dim?)"],
  ['unbiasd', () => x.var({ unbiasd: false }), "var: there is no option 'unbiasd': it takes dim, keepdim, correction, unbiased (did you mean unbiased?)"],
  ['one that nothing has', () => js.dropout(x, { rate: 1 }), "dropout: there is no option 'rate': it takes p, training, generator"],
  ['of a new tensor', () => js.tensor([1], { device: 'cpu' }), "tensor: there is no option 'device': it takes dtype, requiresGrad, shape"],
  ['of a reader', () => x.item({ number: true }), "item: there is no option 'number': it takes bigint, numbers (did you mean numbers?)"],
  ['of backward', () => x.backward(undefined, { keepGraph: true }), /^backward: there is no option 'keepGraph': it takes createGraph/],
  ['a value of the wrong kind', () => x.sum({ keepdim: 1 }), 'sum: keepdim is 1: it takes true or false: write x.sum(dim?, keepdim?, { dtype })'],
  ['a word that is none', () => js.searchsorted(tx.zeros([3]), x, { side: 'up' }), "searchsorted: side is 'up': use 'left' or 'right'"],
  ['a number or a word', () => x.norm('nux'), "norm: p is 'nux': use a number, 'fro' or 'nuc'"],
  ['one that is required', () => x.solveTriangular(x), 'solveTriangular: upper is missing: write x.solveTriangular(b, { upper, left, unitriangular })'],
  ['twice', () => x.sum(0, { dim: 1 }), 'sum: dim is given twice: write x.sum(dim?, keepdim?, { dtype })'],
  ['not last', () => x.sort({ dim: 0 }, true), 'sort: dim is { dim }: it takes a number: write x.sort(dim?, descending?, { stable })'],
];
// biome-ignore format: a table
const others: readonly Misuse[] = [
  ['a dtype in place of options', () => js.tensor([1, 2], 'f32'), "tensor: options is 'f32': it takes { dtype, requiresGrad, shape }: write tensor(data | { data, dtype, shape, re, im }, { dtype, requiresGrad, shape })"],
  ['the same', () => js.arange(3, 'f32'), /^arange: options is 'f32': it takes \{ dtype, requiresGrad \}: write arange\(end, \{ dtype, requiresGrad \}\), /],
  ['sizes and a dtype', () => js.zeros(2, 3, 'i32'), /^zeros: sizes is 'i32': it takes a number: write zeros\(shape, /],
  ['a number in place of options', () => x.round(2), 'round: options is 2: it takes { decimals }: write x.round({ decimals })'],
  ['a word in place of options', () => x.gelu('tanh'), "gelu: options is 'tanh': it takes { approximate }: write x.gelu({ approximate })"],
  ['one too many', () => x.relu(1), 'relu: too many arguments: write x.relu()'],
  ['one too many by place', () => x.mean(-1, true, 'f64'), 'mean: too many arguments: write x.mean(dim?, keepdim?, { dtype })'],
  ["torch's unbiased", () => x.var(0, true), 'var: too many arguments: write x.var(dim?, { keepdim, correction, unbiased })'],
  ['one too few', () => js.matmul(x), 'matmul: b is missing: write matmul(a, b, { precision })'],
  ['none', () => x.topk(), 'topk: k is missing: write x.topk(k, dim?, largest?, sorted?)'],
  ['text', () => x.add('1'), "add: b is '1': it takes a number, true or false or a tensor: write x.add(b, { alpha })"],
  ['text, in place', () => x.add_('1'), "add_: b is '1': it takes a number, true or false or a tensor: write x.add_(b, { alpha })"],
  ['null', () => x.mul(null), 'mul: b is null: it takes a number, true or false or a tensor: write x.mul(b)'],
  ['the wrong way round', () => x.gather(tx.tensor([0]), 1), 'gather: dim is i64[1]: it takes a number: write x.gather(dim, index)'],
  ['a list of numbers for tensors', () => js.cat([1, 2]), 'cat: xs[0] is 1: it takes a tensor: write cat(xs, dim?)'],
  ['tensors one by one', () => js.cat(x, x), 'cat: xs is f32[2, 3]: it takes a list of tensors: write cat(xs, dim?)'],
  ['a list for a tensor', () => x.isin([1]), 'isin: testElements is [1]: it takes a number, true or false or a tensor: write x.isin(testElements, { invert, assumeUnique })'],
  ['an equation that comes second', () => js.einsum(x, 'ij->i'), 'einsum: equation is f32[2, 3]: it takes a string: write einsum(equation, ...given) or einsum(equation, given)'],
  ['a stride in place of the bias', () => js.conv2d(image, kernel, 2), 'conv2d: bias is 2: it takes null or a tensor: write conv2d(x, weight, bias?, stride?, padding?, dilation?, groups?)'],
  ['two tensors and a flag', () => x.max(x, true), 'max: dim is f32[2, 3]: it takes a number: write x.max(other?), x.max({ dim, keepdim }) or x.max(dim, keepdim?)'],
  ['embedding the wrong way round', () => js.embedding(tx.zeros([4, 2]), tx.tensor([1, 2])), 'embedding: ids f32[4, 2] and weight i64[2]: swap them: embedding(ids, weight)'],
  ['classes as floats', () => js.crossEntropy(x, tx.tensor([0.5, 1])), "crossEntropy: the input is f32[2, 3], but the target is f32[2]: a float target has the probability of each class, in the input's shape; for class indices use long()"],
  ['infinity as an integer', () => x.long().indexPut([0], Number.POSITIVE_INFINITY), 'Infinity is not a value of i64: integers have neither infinities nor NaN'],
  ['no share', () => x.quantile([]), 'quantile: q is an empty list for f32[2, 3]: give at least one number'],
  ['a dim of a scalar', () => x.sum().takeAlongDim(tx.tensor(0), 0), 'takeAlongDim: f32[] has no dimensions'],
  ['one list of dimensions', () => x.tensordot(x, [[0]]), 'tensordot: dims has 1 lists: give two, the dimensions of a and those of b'],
  ['columns without end', () => js.vander(tx.zeros([3]), Number.POSITIVE_INFINITY), 'vander: N is Infinity: it must be a whole number, at least 0'],
];
testMisuses([...options, ...others], /arguments\.errors\.test\.ts:\d+/);

test('undefined is the same as nothing', () => {
  expect(x.sum(undefined, true).shape).toEqual([1, 1]);
  expect(x.sort({ dim: undefined }, undefined).values.shape).toEqual([2, 3]);
  expect(x.relu(undefined).shape).toEqual([2, 3]);
});

test('every function has a signature, but for those that take functions and trees, and check them themselves', () => {
  const unchecked = new Set([
    ...Object.keys(autograd),
    ...Object.keys(control),
    'Generator',
    'Tensor',
    'slice',
    'sync',
    'accumulate',
    'autocast',
    'matmulPrecision',
    'getFloat32MatmulPrecision',
    'setFloat32MatmulPrecision',
    'afterStep',
    'getStablehlo',
    'graphText',
    'read',
    'kernel',
  ]);
  const names = Object.keys(language).filter((name) => /^[a-z]/.test(name) && typeof js[name] === 'function');
  expect(names.filter((name) => !SIGNATURES[name] && !unchecked.has(name))).toEqual([]);
});

// Numbers from a fixed sequence choose arguments, most of them of a kind that is taken: whatever is wrong with them is said
// by an error of ours, never by JavaScript's own (Cannot read properties of undefined).
test('no arguments make an error that is not ours', () => {
  let seed = 1;
  const pick = <T>(from: readonly T[]): T => {
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    return from[Math.floor((seed / 2 ** 31) * from.length)]!;
  };
  const tensors = [x, x.long(), x.bool(), tx.tensor([1, 0, 2]), tx.tensor(1.5), tx.zeros(3, 3), image, tx.zeros(0, 3)];
  const lists = [[], [0], [1, 2], [-1], [1.5], [2, 2, 2], [x, x], [[0], [1]], [tensors[5], tensors[3]]];
  const anything = [0, 1, -1, 3, 1.5, Number.NaN, '', 'a', true, null, undefined, {}, { axis: 1 }, () => 1, 10n];
  const kinds: Readonly<Record<string, readonly unknown[]>> = {
    tensor: tensors,
    number: [0, 1, -1, 2, 3, 1.5, Number.NaN, Number.POSITIVE_INFINITY],
    bigint: [1n, -1n],
    boolean: [true, false],
    string: ['a', '', 'ij,jk->ik', '...', '1:2'],
    dtype: ['f32', 'i64', 'bool', 'u8'],
    null: [null],
    list: lists,
    bytes: [new Float32Array(2), new ArrayBuffer(8)],
    instance: [new tx.Generator(1)],
  };
  const fitting = (takes: Takes): unknown => {
    const kind = pick(takes.kinds);
    if (takes.optional && pick([true, false, false])) return undefined;
    if (kind === 'options') return Object.fromEntries(Object.entries(takes.options!).map(([k, t]) => [k, fitting(t)]));
    if (kind === 'list' && takes.each && pick([true, false]))
      return pick([[], [0], [0, 0]]).map(() => fitting(takes.each!));
    return pick(kind === 'string' && takes.words ? takes.words : (kinds[kind] ?? anything));
  };
  const foreign: string[] = [];
  for (const [name, signatures] of Object.entries(SIGNATURES)) {
    if (!js[name]) continue; // a method
    if (signatures.some((s) => s.some((p) => p.kinds.includes('function')))) continue; // it would run something
    for (let i = 0; i < 60; i++) {
      const args = pick(signatures).map((p) => fitting(p));
      if (i % 3 === 0) args.splice(pick([0, 1, 2]), pick([0, 1]), pick([...anything, ...tensors, ...lists]));
      try {
        js[name](...args);
      } catch (e) {
        if (!(e instanceof tx.TsxlaError)) foreign.push(`${name}: ${(e as Error).message}`);
      }
    }
  }
  expect(foreign).toEqual([]);
});
