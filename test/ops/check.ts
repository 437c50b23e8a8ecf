// One row checked: type, values and gradients against torch, gradients against finite differences in f64.
import { createHash } from 'node:crypto';
import { compile, grad, type Tensor, tensor } from 'tsxla';
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

type Golden = (key: string) => HostArray | undefined;

/** The row in torch's dtypes: what has to be computed, and its comparison with torch. */
function againstTorch(row: Row, golden: Golden) {
  const inputs = row.inputs.map((_, i) => golden(`in${i}`)!);
  const xs = inputs.map((a) => upload(a, isFloat(a.dtype) && row.grad !== false));
  const ys = listOf(row.run(...xs));
  const seeds = ys.map((_, i) => golden(`seed${i}`)).map((s) => s && upload(s, false));
  if (seeds.some(Boolean)) weighted(ys, seeds).backward();
  const grads = xs.map((x) => x.grad);
  const wanted = [...ys, ...grads.filter((g) => g !== null)];
  const compare = async () => {
    const buffers = await compute(wanted);
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
  };
  return { wanted, compare };
}

const compute = (tensors: readonly Tensor[]) =>
  evaluate(
    tensors.map((t) => t.expr),
    { cause: 'sync' },
  );

/** The row in f64, as a function of its floating point inputs. */
function smooth(row: Row, golden: Golden) {
  const inputs = row.inputs.map((_, i) => golden(`in${i}`)!);
  const floats = inputs.flatMap((a, i) => (isFloat(a.dtype) ? [i] : []));
  const start = floats.map((i) => Float64Array.from(decodeFloats(inputs[i]!.dtype, inputs[i]!.data) as Float32Array));
  const variables = (data: readonly Float64Array[]) =>
    data.map((x, k) => tensor(x, { dtype: 'f64', shape: inputs[floats[k]!]!.shape, requiresGrad: true }));
  const seedOf = (t: Tensor) =>
    tensor(
      Float64Array.from({ length: t.expr.aval.size }, (_, k) => Math.cos(3 * k + 1)),
      { dtype: 'f64', shape: t.shape },
    );
  const number = (ys: readonly Tensor[]) => (ys.length ? weighted(ys, ys.map(seedOf)) : undefined);
  /** For both orders a number (the row's, its gradient's) and its gradients. A linear row has no second. */
  const orders = (xs: readonly Tensor[]) => {
    const all = inputs.map((a, i) => (floats.includes(i) ? xs[floats.indexOf(i)]! : upload(a, false)));
    const first = number(listOf(row.run(...all)).filter((y) => y.requiresGrad && isFloat(y.dtype)))!;
    const gradients = grad(first, xs, { createGraph: true, allowUnused: true });
    const second = number(gradients.flatMap((g) => (g?.requiresGrad ? [g] : [])));
    const again = second && grad(second, xs, { allowUnused: true });
    return [
      { value: first, gradients: gradients.map((g) => g?.detach() ?? null) },
      ...(second ? [{ value: second, gradients: again! }] : []),
    ];
  };
  return { start, variables, orders };
}
type Smooth = ReturnType<typeof smooth>;
type Orders = ReturnType<Smooth['orders']>;

/** Several rows as one compiled function. `at` waits until every row that still needs points has asked for one. */
class Together {
  readonly #waiting = new Map<number, { data: readonly Float64Array[]; give: (orders: Promise<Orders>) => void }>();
  readonly #needing: Set<number>;
  readonly #run;
  constructor(readonly rows: readonly Smooth[]) {
    this.#needing = new Set(rows.keys());
    this.#run = compile((xs: Tensor[][]) => rows.map((row, i) => row.orders(xs[i]!)));
  }
  at(i: number, data: readonly Float64Array[]): Promise<Orders> {
    return new Promise((give) => {
      this.#waiting.set(i, { data, give });
      this.#runIfAllAsked();
    });
  }
  /** Row i needs no more points. */
  leave(i: number): void {
    this.#needing.delete(i);
    this.#runIfAllAsked();
  }
  #runIfAllAsked(): void {
    if (!this.#waiting.size || this.#waiting.size < this.#needing.size) return;
    const asked = new Map(this.#waiting);
    this.#waiting.clear();
    const results = this.#run(this.rows.map((row, i) => row.variables(asked.get(i)?.data ?? row.start)));
    for (const [i, { give }] of asked) give(results.then((all) => all[i]!));
  }
}

/** Gradients of first and second order against finite differences in f64. */
async function againstDifferences({ start }: Smooth, at: (data: readonly Float64Array[]) => Promise<Orders>) {
  const known = new Map<string, Promise<(number | undefined)[]>>(); // both orders ask for the same points
  const values = (data: readonly Float64Array[]) => {
    const key = data.reduce((hash, x) => hash.update(x), createHash('sha256')).digest('hex');
    const read = async () => Promise.all((await at(data)).map(async ({ value }) => Number(await value.item())));
    const found = known.get(key) ?? read();
    known.set(key, found);
    return found;
  };
  const orders = await at(start);
  for (const [i, { gradients }] of orders.entries()) {
    const gradient = () => Promise.all(gradients.map(async (g) => g && ((await g.data()) as Float64Array)));
    await compareWithDifferences({ value: async (data) => (await values(data))[i]!, gradient }, start);
  }
}

/** The rows at their points, in one program; where that fails, or a row does, each by itself. */
async function checkDifferences(rows: readonly Smooth[]): Promise<PromiseSettledResult<void>[]> {
  const together = new Together(rows);
  const check = (row: Smooth, i: number) =>
    againstDifferences(row, (data) => together.at(i, data)).finally(() => together.leave(i));
  const outcomes = await Promise.allSettled(rows.map(check));
  if (rows.length === 1) return outcomes;
  for (const [i, { status }] of outcomes.entries())
    if (status === 'rejected') outcomes[i] = (await checkDifferences([rows[i]!]))[0]!;
  return outcomes;
}

/**
 * Everything that is checked of these rows, given their golden arrays: for each the failure, if there is one. They are
 * computed together, because many rows in a program take little longer to compile than one.
 */
export async function checkRows(rows: readonly Row[], golden: (row: Row) => Golden): Promise<Map<Row, unknown>> {
  const failures = new Map<Row, unknown>();
  const each = <R>(list: readonly Row[], f: (row: Row) => R): Map<Row, R> => {
    const done = new Map<Row, R>();
    for (const row of list)
      try {
        done.set(row, f(row));
      } catch (error) {
        failures.set(row, error);
      }
    return done;
  };
  const traced = each(rows, (row) => againstTorch(row, golden(row)));
  await compute([...traced.values()].flatMap(({ wanted }) => wanted)).catch(() => undefined); // then each row fails or succeeds by itself
  for (const [row, { compare }] of traced) await compare().catch((error) => failures.set(row, error));
  const isSmooth = (row: Row) => !failures.has(row) && golden(row)('seed0') && row.smooth !== false;
  const points = each(rows.filter(isSmooth), (row) => smooth(row, golden(row)));
  const outcomes = await checkDifferences([...points.values()]);
  for (const [i, row] of [...points.keys()].entries())
    if (outcomes[i]!.status === 'rejected') failures.set(row, outcomes[i]!.reason);
  return failures;
}
