// Kernels compiled by Google's compiler for every generation of TPUs, on a machine that has none: each group of operations, whole
// attentions, and attention split over chips.

import * as tx from 'tsxla';
import { type AheadOfTime, compileAhead } from 'tsxla/plan';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Aval } from '../../src/ir/aval.js';
import type { Expr } from '../../src/ir/expr.js';
import { type Flash, type FlashOperands, flashBackward, flashForward } from '../../src/kernels/flash.js';
import { lowerToMosaic } from '../../src/kernels/mosaic.js';
import type { KernelProgram } from '../../src/kernels/program.js';
import { Body, parameter } from '../../src/ops/prim/body.js';
import { TextEmitter } from '../../src/stablehlo/emitter.js';
import { CASES } from '../kernels/mosaic-cases.js';
import { tsxla } from '../support.js';

const before = process.env.CPU_NUM_DEVICES;
process.env.CPU_NUM_DEVICES = '4'; // to describe what is split over four chips
afterAll(() => {
  if (before === undefined) delete process.env.CPU_NUM_DEVICES;
  else process.env.CPU_NUM_DEVICES = before;
});
beforeAll(async () => {
  const { status, stderr } = await tsxla(['plugins', 'path', 'tpu']);
  if (status) expect((await tsxla(['plugins', 'install', 'tpu'])).status, stderr).toBe(0);
}, 600_000);

const GENERATIONS = ['v4:2x2x1', 'v5e:1x1', 'v5p:2x2x1', 'v6e:1x1', 'tpu7x:2x2x1'];

/** A program of what `write` makes of its parameters. */
function programOf(params: readonly Aval[], write: (e: TextEmitter, xs: readonly string[]) => string[]): string {
  const e = new TextEmitter(false, 'tpu');
  const names = params.map((p) => e.parameter(p));
  let made: string[] = [];
  const body = e.region([], () => (made = write(e, names)));
  const given = names.map((n, i) => `${n}: ${params[i]!.mlir}`).join(', ');
  const types = made.map((x) => e.typeOf(x).mlir).join(', ');
  return `func.func @main(${given}) -> (${types}) ${body.replace('"stablehlo.return"', '"func.return"')}`;
}
const kernelsProgram = (all: readonly KernelProgram[]): string =>
  programOf(
    all.flatMap((k) => k.inputs.map((p) => p.array)),
    (e, xs) => {
      let i = 0;
      return all.flatMap((k) => {
        const own = k.inputs.map(() => xs[i++]!);
        return lowerToMosaic(
          e,
          k,
          own,
          k.outputs.map((p) => p.array),
        );
      });
    },
  );
const ofTpu = ({ work }: AheadOfTime) => work.kernels.filter((k) => k.opcode === 'custom-call');

describe.each(GENERATIONS)('%s', (topology) => {
  test('operations: those of test/kernels/mosaic-cases.ts', async () => {
    // The matrix unit of a v4 multiplies no integers.
    const all = [...CASES].filter(([name]) => !(name === 'product_of_i8' && topology.startsWith('v4')));
    const done = await compileAhead(kernelsProgram(all.map(([, kernel]) => kernel)), { topology });
    expect(ofTpu(done).length).toBe(all.length);
  });

  test.each<
    [string, readonly [H: number, G: number, T: number, S: number, d: number], tx.DType, Partial<Flash>, boolean]
  >([
    ['causal, grouped heads, bf16', [4, 2, 1024, 1024, 128], 'bf16', { causal: true }, false],
    ['no whole blocks, f32', [2, 2, 1000, 700, 64], 'f32', {}, false],
    [
      'a window, a soft cap and segments',
      [4, 2, 1100, 1100, 128],
      'bf16',
      { causal: true, window: 300, softcap: 30 },
      true,
    ],
    ['short', [2, 1, 130, 200, 256], 'bf16', { causal: true }, false],
  ])('flash attention, forward and backward: %s', async (_, [H, G, T, S, d], dtype, of, segmented) => {
    const [q, k] = [Aval.of(dtype, [1, H, T, d]), Aval.of(dtype, [1, G, S, d])];
    const params = [q, k, k, q, ...(segmented ? [Aval.of('i32', [1, T]), Aval.of('i32', [1, S])] : [])];
    const text = programOf(params, (e, names) => {
      const xs = params.map((p) => parameter(p));
      const [query, key, value, g, ...ids] = xs as [Expr, Expr, Expr, Expr, ...Expr[]];
      const segments = segmented ? { queries: ids[0]!, keys: ids[1]! } : undefined;
      const operands: FlashOperands = { q: query, k: key, v: value, segments };
      const flash: Flash = { scale: d ** -0.5, causal: false, ...of };
      const [output, statistic] = flashForward(operands, flash);
      const body = new Body(xs, [output, ...flashBackward(operands, { output, statistic, g }, flash)]);
      return body.emit(e, names);
    });
    const done = await compileAhead(text, { topology });
    expect(ofTpu(done).length).toBe(3);
  });
});

/** The step of a layer's attention, forward and backward, as a program for TPUs. */
const step = (x: tx.Tensor): tx.Tensor => {
  const own = x.requiresGrad_();
  const y = tx.scaledDotProductAttention(own, own, own, { isCausal: true });
  return tx.grad(y.float().sum(), [own])[0]!;
};

test('scaledDotProductAttention takes the kernels, TSXLA_ATTENTION=plain does not', async () => {
  const x = tx.zeros([2, 8, 2048, 128], { dtype: 'bf16' }); // its scores do not fit in VMEM
  const compiled = async () =>
    compileAhead(tx.compile(step).stablehlo([x], { platform: 'tpu' }), { topology: 'v6e:1x1' });
  const flash = await compiled();
  expect(ofTpu(flash).length).toBe(3);
  const products = ofTpu(flash).reduce((n, k) => n + (k.flops.bf16 ?? 0), 0);
  // Two products forward and seven backward, of a little more than half of all scores.
  const share = products / (9 * 2 * 16 * 2048 ** 2 * 128);
  expect(share).toBeGreaterThan(0.5);
  expect(share).toBeLessThan(0.7);
  process.env.TSXLA_ATTENTION = 'plain';
  try {
    const plain = await compiled();
    expect(ofTpu(plain).length).toBe(0);
    expect(flash.work.bytes).toBeLessThan(plain.work.bytes / 2);
  } finally {
    delete process.env.TSXLA_ATTENTION;
  }
});

test.each<[string, tx.spmd.Mesh, tx.spmd.PartitionSpec]>([
  ['the batch', new tx.spmd.Mesh([4], ['data']), ['data']],
  ['batch and heads', new tx.spmd.Mesh([2, 2], ['fsdp', 'model']), ['fsdp', 'model']],
])('split over four chips: %s', async (_, mesh, spec) => {
  const x = tx.spmd.shard(tx.zeros([4, 2, 512, 128], { dtype: 'bf16' }), mesh, spec);
  const text = tx.compile(step).stablehlo([x], { platform: 'tpu' });
  expect(text).toContain('sdy.manual_computation');
  const done = await compileAhead(text, { topology: 'v6e:2x2', numPartitions: 4 });
  expect(done.used).toBe(4);
  expect(ofTpu(done).length).toBe(3);
  expect(done.work.collectives).toEqual([]); // each device has all that its part needs
});
