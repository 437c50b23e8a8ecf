// vmap against a loop in JavaScript: values, gradients inside of vmap, and gradients of it.
import * as tx from 'tsxla';
import { checkClose, isFloat } from '../ops/check.js';
import { type FunctionCase, wave } from './cases.js';

type T = tx.Tensor;
const listOf = (y: T | readonly T[]): readonly T[] => [y].flat() as T[];
const weighted = (ys: readonly T[]): T =>
  ys
    .filter((y) => isFloat(y.dtype))
    .map((y, i) =>
      y
        .to('f64')
        .mul(wave(y.shape, i + 0.3))
        .sum(),
    )
    .reduce((a, b) => a.add(b));

/** Every input stacked, and each of several alone. */
function patterns({ inputs }: FunctionCase): boolean[][] {
  const alone = inputs.length > 1 ? inputs.map((_, i) => inputs.map((__, k) => k === i)) : [];
  return [inputs.map(() => true), ...alone];
}

/** What must be equal: pairs of what vmap gives and what a loop gives. */
function pairs({ inputs, f, grad = true }: FunctionCase, stacked: readonly boolean[]): [T, T][] {
  const n = inputs[0]!.shape[0]!;
  const inDims = stacked.map((is) => (is ? 0 : null));
  const given = inputs.map((x, i) => (stacked[i] ? x : x.select(0, 0)));
  const floats = given.flatMap((x, i) => (isFloat(x.dtype) ? [i] : []));
  const values = (...xs: T[]) => listOf(f(...xs));
  const looped = (g: (...xs: T[]) => readonly T[], xs: readonly T[]): T[] => {
    const rows = Array.from({ length: n }, (_, k) => g(...xs.map((x, i) => (stacked[i] ? x.select(0, k) : x))));
    return rows[0]!.map((_, i) => tx.stack(rows.map((row) => row[i]!)));
  };
  const mapped = (g: (...xs: T[]) => readonly T[], xs: readonly T[]): readonly T[] =>
    tx.func.vmap(g, { inDims })(...xs);
  const both = (g: (...xs: T[]) => readonly T[]): [T, T][] => {
    const want = looped(g, given);
    return mapped(g, given).map((y, i) => [y, want[i]!]);
  };
  const gradOf = (g: (...xs: T[]) => T) =>
    tx.func.grad(g as never, { argnums: floats }) as unknown as (...xs: T[]) => T[];
  const outside = (run: typeof mapped) => gradOf((...xs) => weighted(run(values, xs)))(...given);
  const whole = grad && floats.length ? outside(looped as typeof mapped) : [];
  return [
    ...both(values),
    ...(grad && floats.length ? both(gradOf((...xs) => weighted(values(...xs)))) : []),
    ...(grad && floats.length ? outside(mapped) : []).map((g, i): [T, T] => [g, whole[i]!]),
  ];
}

/** Compares all of it, in one program. */
export async function checkCase(c: FunctionCase): Promise<void> {
  const all = patterns(c).flatMap((stacked) => pairs(c, stacked));
  const [arrays] = await tx.read(all);
  all.forEach(([got, want], i) => {
    const [a, b] = arrays[i]!;
    checkClose({ ...typeOf(got), data: a }, { ...typeOf(want), data: b }, `pair ${i}`);
  });
}
const typeOf = ({ dtype, shape }: T) => ({ dtype, shape });
