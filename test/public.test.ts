// What is public: names that can be called, and types that can be written down. The types are checked by the compiler
// (npm run check); a wrong one would not be there, or hold something else.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';

const src = path.resolve(import.meta.dirname, '../src');
const read = (file: string) => readFileSync(path.join(src, file), 'utf8');

describe('methods', () => {
  test('what takes a list, or a text, first is a function only', () => {
    for (const name of ['cat', 'concat', 'stack', 'hstack', 'broadcastTensors', 'einsum', 'multiDot']) {
      expect(name in tx).toBe(true);
      expect(name in tx.Tensor.prototype).toBe(false);
    }
    // @ts-expect-error: nor do the types have it
    expect(() => tx.ones([2]).cat([])).toThrow(TypeError);
  });

  test('T, H, mT and mH are read, not called', async () => {
    const x = tx.tensor([[[1, 2, 3]]]);
    expect(x.mT.shape).toEqual([1, 3, 1]);
    expect(await x.mH.tolist({ numbers: true })).toEqual([[[1], [2], [3]]]);
    expect(tx.ones([2, 3]).H.shape).toEqual(tx.ones([2, 3]).T.shape);
    expect(() => x.H).toThrow('t: takes at most 2 dimensions, got i64[1, 1, 3]: use mT or transpose(dim0, dim1)');
    expect(() => tx.ones([3]).mT).toThrow('adjoint, mT and mH: take 2 dimensions or more, got f32[3]');
  });

  test('dropout', async () => {
    expect(await tx.ones([3]).dropout({ p: 1 }).tolist()).toEqual([0, 0, 0]);
    expect(await tx.ones([3]).dropout({ training: false }).tolist()).toEqual([1, 1, 1]);
  });
});

describe('types', () => {
  test('options can be written down, with tensors in them', () => {
    const sort: tx.SortOptions = { dim: 0, descending: true };
    const limits: tx.ClampOptions = { min: tx.zeros([]), max: 1 };
    const entropy: tx.CrossEntropyOptions = { weight: tx.ones([3]), reduction: 'sum' satisfies tx.Reduction };
    const dims: tx.DimOption[] = [0, [0, 1], { dim: -1, keepdim: true }];
    const sum: tx.SumOptions = { dim: 1, dtype: 'f64' satisfies tx.DType };
    const bce: tx.BinaryCrossEntropyOptions = { weight: tx.ones([2]) };
    const pad: tx.PadOptions = { mode: 'reflect' };
    const shape: tx.Shape = [2, 3];
    const index: tx.Index[] = [0, '1:', null, tx.tensor([0])];
    const operands: tx.Operand[] = [1, 2n, true, tx.ones([])];
    // @ts-expect-error: an option that is not there
    const wrong: tx.SortOptions = { dimension: 0 };

    const x = tx.ones(shape);
    expect(x.sort(sort).values.clamp(limits).shape).toEqual(shape);
    expect(tx.crossEntropy(x, tx.tensor([0, 1]), entropy).shape).toEqual([]);
    expect(dims.map((d) => x.amax(d).shape)).toEqual([[3], [], [2, 1]]);
    expect(x.sum(sum).dtype).toBe('f64');
    expect(tx.binaryCrossEntropy(tx.ones([2]), tx.ones([2]), bce).shape).toEqual([]);
    expect(x.pad([1, 1], pad).shape).toEqual([2, 5]);
    expect(x.index(...index.slice(0, 2)).shape).toEqual([2]);
    expect(operands.map((o) => x.mul(o).shape)).toEqual(operands.map(() => shape));
    expect(wrong).toBeDefined();
  });

  test('every type that an operation exports has a public name', () => {
    const files = [...read('ops/index.ts').matchAll(/from '\.\/(.*)\.js'/g)].map((m) => read(`ops/${m[1]}.ts`));
    const types = files.flatMap((text) => [...text.matchAll(/^export (?:interface|type) (\w+)/gm)].map((m) => m[1]!));
    const functions = ['Extremum', 'OrderStatistic', 'Meshgrid']; // of operations, not of their arguments
    const named = read('tensor/types.ts');
    expect(types.filter((t) => !functions.includes(t) && !new RegExp(`\\bops\\.${t}\\b`).test(named))).toEqual([]);
    expect(types.length).toBeGreaterThan(30); // the pattern still finds them
  });
});

test.each(['nn', 'optim', 'data', 'models'])('tsxla/%s by itself brings the methods of tensors', (subpath) => {
  const program = `import 'tsxla/${subpath}'; import { Tensor } from './dist/tensor/tensor.js';
    console.log(typeof Tensor.prototype.matmul, typeof Tensor.prototype.add_, typeof Tensor.prototype.normal_);`;
  const cwd = path.resolve(src, '..');
  const printed = execFileSync(process.execPath, ['--input-type=module', '-e', program], { cwd, encoding: 'utf8' });
  expect(printed).toBe('function function function\n');
});
