// One row checked: type, values and gradients against torch, gradients against finite differences in f64.
import { type Tensor, tensor } from 'tsxla';
import type { HostArray } from 'tsxla/io';
import type { Buffer } from 'tsxla/pjrt';
import { compareWithDifferences } from '../../dist/autograd/gradcheck.js';
import { DTYPES, type DType, show } from '../../dist/base/dtype.js';
import { decodeFloats } from '../../dist/base/float.js';
import { evaluate } from '../../dist/runtime/evaluate.js';
import type { Row } from './row.js';

process.env['TSXLA_LOG'] = 'quiet'; // hundreds of programs from one line are what is meant here

export const isFloat = (d: DType) => DTYPES[d].mlir.includes('f');
/** Relative to the larger of the two and to the array's own scale: sums of roundings grow with it. */
const TOLERANCE: Partial<Record<DType, number>> = {
  f64: 1e-9,
  f32: 2e-5,
  f16: 4e-3,
  bf16: 3e-2,
  f8e4m3fn: 0.13,
  f8e5m2: 0.26,
};

export function checkClose(
  got: HostArray,
  want: HostArray,
  what: string,
  tolerance = TOLERANCE[want.dtype] ?? 0,
): void {
  if (show(got) !== show(want)) throw new Error(`${what} is ${show(got)}, torch has ${show(want)}`);
  const [g, w] = [decodeFloats(got.dtype, got.data), decodeFloats(want.dtype, want.data)];
  const scale = Math.max(
    0,
    ...Array.from(w as ArrayLike<number | bigint>, (x) => Math.abs(Number(x))).filter(Number.isFinite),
  );
  for (let i = 0; i < w.length; i++) {
    const [x, y] = [g[i]!, w[i]!];
    if (Object.is(x, y) || x === y) continue;
    const error = Math.abs(Number(x) - Number(y));
    if (!(error <= tolerance * Math.max(Math.abs(Number(y)), 0.1 * scale, 1e-3)))
      throw new Error(`${what}[${i}] is ${x}, torch has ${y}`);
  }
}

export const fetch = async (t: Tensor): Promise<HostArray> => ({
  dtype: t.dtype,
  shape: t.shape,
  data: await t.data(),
});
const listOf = (y: Tensor | readonly Tensor[]): readonly Tensor[] => (Array.isArray(y) ? y : [y]) as readonly Tensor[];
export const upload = (a: HostArray, requiresGrad: boolean) =>
  tensor(a.data, { dtype: a.dtype, shape: a.shape, requiresGrad });

/** A number that depends on every result: each times its seed, summed. */
export const weighted = (ys: readonly Tensor[], seeds: readonly (Tensor | undefined)[]): Tensor =>
  ys.flatMap((y, i) => (seeds[i] ? [y.mul(seeds[i]).sum()] : [])).reduce((a, b) => a.add(b));

export async function againstTorch(row: Row, golden: (key: string) => HostArray | undefined): Promise<void> {
  const inputs = row.inputs.map((_, i) => golden(`in${i}`)!);
  const xs = inputs.map((a) => upload(a, isFloat(a.dtype) && row.grad !== false));
  const ys = listOf(row.run(...xs));
  const seeds = ys.map((_, i) => golden(`seed${i}`)).map((s) => s && upload(s, false));
  if (seeds.some(Boolean)) weighted(ys, seeds).backward();
  const grads = xs.map((x) => x.grad);
  const wanted = [...ys, ...grads.filter((g) => g !== null)];
  const buffers = await evaluate(
    wanted.map((t) => t.expr),
    { cause: 'sync' },
  ); // one program for all
  buffers.forEach((b, i) => {
    const made = show((b as Buffer).deviceType());
    if (made !== show(wanted[i]!)) throw new Error(`the type was inferred as ${show(wanted[i]!)}, XLA made ${made}`);
  });
  for (const [i, y] of ys.entries()) checkClose(await fetch(y), golden(`out${i}`)!, `result ${i}`, row.tolerance);
  for (const [i, g] of grads.entries()) {
    const want = golden(`grad${i}`);
    if (want && !g) throw new Error(`input ${i} has no gradient, in torch it has`);
    if (want && g) checkClose(await fetch(g), want, `gradient ${i}`, row.tolerance && row.tolerance * 4);
  }
}

/** The row in f64, as a function of its floating point inputs, and its gradient. */
export async function againstDifferences(
  row: Row,
  golden: (key: string) => HostArray | undefined,
  order: 1 | 2,
): Promise<void> {
  const inputs = row.inputs.map((_, i) => golden(`in${i}`)!);
  const floats = inputs.flatMap((a, i) => (isFloat(a.dtype) ? [i] : []));
  const start = floats.map((i) => Float64Array.from(decodeFloats(inputs[i]!.dtype, inputs[i]!.data) as Float32Array));
  const seedOf = (n: number) => Float64Array.from({ length: n }, (_, k) => Math.cos(3 * k + 1));
  const make = (data: readonly Float64Array[]) => {
    const xs = inputs.map((a, i) => {
      const k = floats.indexOf(i);
      return k < 0 ? upload(a, false) : tensor(data[k]!, { dtype: 'f64', shape: a.shape, requiresGrad: true });
    });
    const ys = listOf(row.run(...xs)).filter((y) => y.requiresGrad && isFloat(y.dtype));
    const value = weighted(
      ys,
      ys.map((y) => tensor(seedOf(y.expr.aval.size), { dtype: 'f64', shape: y.shape })),
    );
    return { value, variables: floats.map((i) => xs[i]!) };
  };
  const first = (data: readonly Float64Array[]) => {
    const { value, variables } = make(data);
    if (order === 1) return { value, variables };
    // The gradient, again made one number: its own gradient is the second derivative.
    value.backward(undefined, { createGraph: true });
    const grads = variables.flatMap((v) => (v.grad?.requiresGrad ? [v.grad] : []));
    for (const v of variables) v.grad = null;
    const again = grads.length
      ? weighted(
          grads,
          grads.map((g) => tensor(seedOf(g.expr.aval.size), { dtype: 'f64', shape: g.shape })),
        )
      : undefined;
    return { value: again, variables };
  };
  if (!first(start).value) return; // linear: the gradient is constant
  await compareWithDifferences(
    {
      value: async (data) => Number(await first(data).value!.item()),
      gradient: async (data) => {
        const { value, variables } = first(data);
        value!.backward();
        return Promise.all(variables.map(async (v) => (v.grad ? ((await v.grad.data()) as Float64Array) : null)));
      },
    },
    start,
  );
}

/** Everything that is checked of a row, given its golden arrays. */
export async function checkRow(row: Row, golden: (key: string) => HostArray | undefined): Promise<void> {
  await againstTorch(row, golden);
  if (!golden('seed0') || row.smooth === false) return;
  await againstDifferences(row, golden, 1);
  await againstDifferences(row, golden, 2);
}
