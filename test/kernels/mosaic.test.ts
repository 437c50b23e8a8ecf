// Kernels as Mosaic modules for TPUs, beside those that JAX writes for the same kernels in Pallas (scripts/kernels-mosaic.py). Where
// ours differ, the difference is listed with its reason.
import { describe, expect, test } from 'vitest';
import { Aval } from '../../src/ir/aval.js';
import { kernelCost } from '../../src/kernels/cost.js';
import { mosaicText } from '../../src/kernels/mosaic.js';
import { type KernelOptions, traceKernel } from '../../src/kernels/program.js';
import { block, programId, type Ref, when } from '../../src/tensor/kernels.js';
import { golden } from '../support.js';
import { CASES } from './mosaic-cases.js';
import { fingerprint, renumbered } from './mosaic-fingerprint.js';

interface Difference {
  readonly why: string;
  readonly theirs: RegExp;
  readonly ours: string;
}
const NEGATION: Difference = {
  why: 'JAX writes -x as 0 - x, which is 0 for x = 0; ours is -0, as everywhere else',
  theirs: /%(\d+) = vector\.broadcast\(0 : f32\).*\n\s*(%\d+) = arith\.subf\(%\1, (%\d+)\)(.*)\((\S+), \S+\) ->/,
  ours: '$2 = arith.negf($3)$4($5) ->',
};
const DIFFERENCES: Readonly<Record<string, readonly Difference[]>> = {
  arithmetic: [NEGATION],
  sigmoid: [NEGATION],
  comparisons: [
    {
      why: 'JAX asks for ordered and not equal, which does not hold of NaN; ours is not (ordered and equal), which does',
      theirs: /(%\d+)( = arith\.cmpf.*)predicate = 6( .* -> )(vector<8x128xi1>)\n(.*)\1\)/,
      ours: '%1000$2predicate = 1$3$4\n  %1001 = vector.broadcast(true) (i1) -> $4\n  $1 = arith.xori(%1000, %1001) ($4, $4) -> $4\n$5$1)',
    },
  ],
  looped: [
    {
      why: 'JAX adds the length of a loop to its first index',
      theirs: /\s*(%\d+) = arith\.addi\(0 : i32, 4 : i32\).*(\n.*scf\.for\(0 : i32, )\1/,
      ours: '$24 : i32',
    },
  ],
  parts: [
    {
      why: 'a result that is stored in parts is 0 first: what no part reaches is 0 on every device, and is undefined in Pallas',
      theirs: /(\n {2}%\d+ = vector\.load\(%1, 8 : index, 0)/,
      ours: '\n  %1000 = vector.broadcast(0 : f32) (f32) -> vector<16x256xf32>\n  tpu.vector_store(%1000, %2, 0 : index, 0 : index) {add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>} (vector<16x256xf32>, memref<16x256xf32, #tpu.memory_space<vmem>>, index, index) -> ()$1',
    },
  ],
};

describe('as Pallas writes it', () => {
  test.each([...CASES])('%s', (name, kernel) => {
    let theirs = golden(`mosaic/${name}.txt`).trimEnd();
    for (const d of DIFFERENCES[name] ?? []) {
      expect(theirs, d.why).toMatch(d.theirs);
      theirs = theirs.replace(d.theirs, d.ours);
    }
    const functions = theirs.split('\n\n').map((f) => renumbered(f.split('\n')).join('\n'));
    expect(fingerprint(mosaicText(kernel))).toBe(functions.join('\n\n'));
  });
});

const traced = (run: (...refs: Ref[]) => void, operands: readonly Aval[], options: KernelOptions) =>
  traceKernel('k', run, operands, options);
const f32 = (...shape: number[]) => Aval.of('f32', shape);
const copy = (x: Ref, y: Ref) => y.store(x.load());

describe('what a TPU cannot do is said with what to choose', () => {
  test.each<[string, Aval, readonly (number | null)[], RegExp]>([
    [
      'columns',
      f32(32, 256),
      [8, 64],
      /input 0: blocks of shape \[8, 64\] of f32\[32, 256\]: dimension 1 must be a multiple of 128, or the whole 256: choose 128/,
    ],
    ['rows', f32(32, 256), [4, 128], /dimension 0 must be a multiple of 8, or the whole 32: choose 8/],
    [
      'rows of bf16',
      Aval.of('bf16', [32, 256]),
      [8, 128],
      /dimension 0 must be a multiple of 16, or the whole 32: choose 16/,
    ],
    [
      'an unseen row',
      f32(32, 256),
      [null, 128],
      /dimension 0 must be .*: choose 8, or move the dimension further to the front/,
    ],
    ['a list', f32(2048), [64], /dimension 0 must be a multiple of 128, or the whole 2048/],
    ['f64', Aval.of('f64', [8, 128]), [8, 128], /input 0: a TPU's kernels take .*: convert f64 outside/],
    [
      'large blocks',
      f32(8192, 8192),
      [2048, 1024],
      /its blocks take 32\.0 MiB of VMEM, where 16\.0 MiB fit .*input 0 .*, 16\.0 MiB/,
    ],
  ])('%s', (_, of, shape, message) => {
    const at = block(shape, (i) => shape.map((__, d) => (d === 0 ? i! : 0)));
    const kernel = traced(copy as never, [of], { grid: [2], in: [at], out: { of, ...at } });
    expect(() => mosaicText(kernel)).toThrow(message);
  });

  test('operations, with their line', () => {
    const of = Aval.of('i8', [32, 128]);
    const kernel = traced(((x: Ref, y: Ref) => y.store(x.load().add(1))) as never, [of], { grid: [1], out: { of } });
    expect(() => mosaicText(kernel)).toThrow(
      /a TPU does not compute with i8: convert it first, x\.to\('i32'\) \(.*mosaic\.test\.ts:\d+/,
    );
  });

  test('a result that is read while it moves', () => {
    const rows = block([8, 128], (i) => [i!, 0]);
    const run = ((x: Ref, y: Ref) => {
      when(programId(0).eq(0), () => y.store(0));
      y.store(y.load().add(x.load()));
    }) as never;
    const kernel = traced(run, [f32(16, 128)], {
      grid: [2],
      sequential: [0],
      in: [rows],
      out: { of: f32(16, 128), ...rows },
    });
    expect(() => mosaicText(kernel)).toThrow(/output 0 .* is read, and its block changes along a sequential dimension/);
  });
});

test('elements beyond the end of an array are read as 0, also on a TPU', () => {
  const rows = block([8, 128], (i) => [i!, 0]);
  const kernel = traced(copy as never, [f32(20, 128)], { grid: [3], in: [rows], out: { of: f32(20, 128), ...rows } });
  const text = fingerprint(mosaicText(kernel));
  expect(text).toMatch(/arith\.muli\(%0, 8 : i32\)/);
  expect(text).toMatch(/arith\.subi\(20 : i32, /);
  expect(text).toMatch(/arith\.select/);
});

describe('cost', () => {
  const linear = CASES.get('linear')!;
  test('products, bytes that are fetched, and nothing twice', () => {
    const { products, transcendentals, bytes } = kernelCost(linear);
    expect(products).toBe(2 * 64 * 256 * 256);
    expect(transcendentals).toBe(0);
    const [rows, weights, out] = [2 * (32 * 128), 2 * (128 * 128), 2 * (32 * 128)];
    expect(bytes).toBe(8 * rows + 8 * weights + 4 * out);
  });
  test('an attention: blocks of which all is hidden are neither computed nor fetched', () => {
    const { products, bytes } = kernelCost(CASES.get('flashAttention')!);
    const [heads, block, d, seen] = [4, 256, 128, 3]; // of two blocks of queries and two of keys
    expect(products).toBe(heads * seen * 2 * (2 * block * block * d));
    const [queries, row] = [2 * 512 * d * 2, 512 * 4];
    const keys = 2 * (256 + 400 - 256) * d * 2; // block 0 stays from the first block of queries to the second
    expect(bytes).toBe(heads * (queries + row + keys));
  });
  test('parts that when leaves out are not counted', () => {
    const of = f32(128, 128);
    const rows = block([32, 128], (i) => [i!, 0]);
    const kernel = traced(
      ((x: Ref, y: Ref) => {
        y.store(0);
        when(programId(0).lt(1), () => y.store(x.load().exp()));
      }) as never,
      [of],
      { grid: [4], in: [rows], out: { of, ...rows } },
    );
    expect(kernelCost(kernel).transcendentals).toBe(32 * 128);
  });
});
