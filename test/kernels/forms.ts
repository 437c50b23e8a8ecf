// A kernel's two results: StableHLO's form on the CPU, and Triton's, interpreted.
import type * as tx from 'tsxla';
import { Aval } from '../../dist/ir/aval.js';
import { traceKernel } from '../../dist/kernels/program.js';
import { type TritonKernel, tritonOf } from '../../dist/kernels/triton.js';
import { type Case, called } from './cases.js';
import { held, type Memory, runTriton } from './ttir.js';

const elementOf = (dtype: tx.DType): string => (dtype === 'bool' ? 'i8' : dtype.replace('u', 'i'));
/** What fresh memory of the device holds: nothing that a kernel may use. */
const garbage = (dtype: tx.DType): number | bigint => (/f/.test(dtype) ? Number.NaN : dtype === 'i64' ? 77n : 77);
const flat = (x: unknown): (number | bigint)[] => (Array.isArray(x) ? x.flatMap(flat) : [x as number]);

export function triton({ name, run, options, operands, examples }: Case): TritonKernel {
  const types = operands.map((x) => Aval.of(x.dtype, examples ? x.shape.slice(1) : x.shape));
  const program = traceKernel(name, run, types, options);
  return tritonOf(
    examples
      ? program.batch(
          examples,
          operands.map(() => true),
        )
      : program,
  );
}

async function memoryOf(x: tx.Tensor): Promise<Memory> {
  const element = elementOf(x.dtype);
  return { element, data: flat(await x.tolist()).map((n) => held(element, element === 'i64' ? BigInt(n) : n)) };
}

/** What the Triton form gives, as plain arrays. `short`: operands have one element less than the kernel was made for. */
export async function interpreted(kernel: Case, { short = false } = {}): Promise<number[][]> {
  const { ir, grid, zeroed } = triton(kernel);
  const { out } = kernel.options;
  const outs = (Array.isArray(out) ? out : [out]).map(({ of: { dtype, shape } }) => ({
    dtype: dtype as tx.DType,
    shape: kernel.examples ? [kernel.examples, ...shape] : shape,
  }));
  const inputs = await Promise.all(kernel.operands.map(memoryOf));
  if (short) for (const { data } of inputs) data.pop();
  const results = outs.map(({ dtype, shape }, i): Memory => {
    const n = shape.reduce((a: number, b: number) => a * b, 1);
    const element = elementOf(dtype);
    return {
      element,
      data: Array(n).fill(zeroed.includes(i) ? held(element, element === 'i64' ? 0n : 0) : garbage(dtype)),
    };
  });
  runTriton(ir, grid, [...inputs, ...zeroed.map((i) => results[i]!), ...results]);
  return results.map(({ data }, i) => data.map((n) => (outs[i]!.dtype === 'u8' ? Number(n) & 255 : Number(n))));
}

/** Where the two forms differ, in words; '' where they agree. */
export async function difference(kernel: Case): Promise<string> {
  const outs = called(kernel, kernel.operands);
  const [want, got] = await Promise.all([
    Promise.all(outs.map(async (x) => flat(await x.tolist()).map(Number))),
    interpreted(kernel), // reads its operands by the same program
  ]);
  const { tolerance = 1e-6 } = kernel;
  const near = (x: number, y: number) =>
    Object.is(x, y) || x === y || Math.abs(x - y) <= tolerance * Math.max(1, Math.abs(y));
  const found = want.flatMap((values, i) =>
    values.flatMap((y, j) =>
      near(got[i]![j]!, y) ? [] : `result ${i}, element ${j}: ${got[i]![j]}, StableHLO's form ${y}`,
    ),
  );
  return found.slice(0, 3).join('; ');
}
