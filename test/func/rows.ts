// Rows of the operations' tables under vmap, against a loop: values, and gradients taken inside of it.
import * as tx from 'tsxla';
import { type HostArray, readSafetensors } from 'tsxla/io';
import { evaluate } from '../../dist/runtime/evaluate.js';
import { checkClose, fetch, isFloat, upload, weighted } from '../ops/check.js';
import type { Row, Table } from '../ops/row.js';
import { goldenPath } from '../support.js';

type Golden = (key: string) => HostArray | undefined;
export interface Case {
  readonly row: Row;
  readonly golden: Golden;
  /** Which inputs are stacked; the others are the same for both examples. */
  readonly stacked: readonly boolean[];
}

const listOf = (y: tx.Tensor | readonly tx.Tensor[]): readonly tx.Tensor[] => [y].flat() as tx.Tensor[];
/** Random rows are compared in test/func/vmap.test.ts: a loop draws other numbers. */
const isRandom = ({ torch }: Row) =>
  /dropout|rand|bernoulli|multinomial|alpha_drop/.test(torch) && !/p=0|\b0\.0\b/.test(torch);

/** All cases of a family: every input stacked, and each of several alone. */
export async function casesOf({ family, rows }: Table): Promise<Case[]> {
  const golden = await readSafetensors(goldenPath(`ops/${family}.safetensors`));
  return rows
    .filter((row) => row.inputs.length && !isRandom(row))
    .flatMap((row) => {
      const patterns = [row.inputs.map(() => true)];
      if (row.inputs.length > 1) patterns.push(...row.inputs.map((_, i) => row.inputs.map((__, k) => k === i)));
      return patterns.map((stacked) => ({ row, stacked, golden: (key: string) => golden.get(`${row.name}/${key}`) }));
    });
}
export const nameOf = ({ row, stacked }: Case) =>
  `${row.op}: ${row.name}${stacked.every(Boolean) ? '' : `, input ${stacked.indexOf(true)} alone`}`;

/** The second example: the first one's elements in another order, so that what was valid is. */
const rotated = (a: HostArray): HostArray => {
  const data = a.data.slice() as Float64Array;
  data.set(a.data.subarray(1) as Float64Array);
  if (data.length) data[data.length - 1] = a.data[0] as number;
  return { ...a, data: data as HostArray['data'] };
};
const seedOf = (y: tx.Tensor) =>
  tx
    .tensor(
      Float64Array.from({ length: y.numel() }, (_, k) => Math.cos(3 * k + 1)),
      { dtype: 'f64', shape: y.shape },
    )
    .to(y.dtype);

/** What a case computes: by vmap, and by a loop. */
export function described({ row, golden, stacked }: Case) {
  const arrays = row.inputs.map((_, i) => golden(`in${i}`)!);
  const examples = [arrays, arrays.map((a, i) => (stacked[i] ? rotated(a) : a))].map((list) =>
    list.map((a) => upload(a, false)),
  );
  const floats = arrays.flatMap((a, i) => (isFloat(a.dtype) ? [i] : []));
  const values = (...xs: tx.Tensor[]) => listOf(row.run(...xs));
  const gradients = (...xs: tx.Tensor[]) => {
    const number = (...all: tx.Tensor[]) => {
      const ys = values(...all).filter((y) => y.requiresGrad && isFloat(y.dtype));
      return ys.length ? weighted(ys, ys.map(seedOf)).to('f32') : tx.zeros([]);
    };
    const gradient = tx.func.grad(number as never, { argnums: floats }) as unknown as (
      ...xs: tx.Tensor[]
    ) => tx.Tensor[];
    return gradient(...xs);
  };
  const isDifferentiable = floats.length > 0 && golden('seed0') !== undefined;
  const f = (...xs: tx.Tensor[]) => [...values(...xs), ...(isDifferentiable ? gradients(...xs) : [])];
  const inputs = examples[0]!.map((x, i) => (stacked[i] ? tx.stack([x, examples[1]![i]!]) : x));
  const got = tx.func.vmap(f, { inDims: stacked.map((is) => (is ? 0 : null)) })(...inputs);
  const [a, b] = examples.map((xs) => f(...xs)) as [tx.Tensor[], tx.Tensor[]];
  const want = a.map((y, i) => tx.stack([y, b[i]!]));
  return { got, want };
}

/** For each case the failure, if there is one. Many cases in one program take little longer to compile than one. */
export async function checkCases(cases: readonly Case[]): Promise<Map<Case, unknown>> {
  const failures = new Map<Case, unknown>();
  const made = new Map<Case, ReturnType<typeof described>>();
  for (const c of cases)
    try {
      made.set(c, described(c));
    } catch (error) {
      failures.set(c, error);
    }
  const all = [...made.values()].flatMap(({ got, want }) => [...got, ...want]).map((t) => t.expr);
  await evaluate(all, { cause: 'sync' }).catch(() => undefined); // then each fails or succeeds by itself
  for (const [c, { got, want }] of made)
    try {
      if (got.length !== want.length) throw new Error(`${got.length} results, a loop has ${want.length}`);
      for (const [i, y] of got.entries())
        checkClose(await fetch(y), await fetch(want[i]!), `result ${i}`, c.row.tolerance);
    } catch (error) {
      failures.set(c, error);
    }
  return failures;
}
