// Printing, as torch prints.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { DTYPES, type DType } from '../dist/base/dtype.js';
import { encodeNumbers } from '../dist/base/float.js';
import { format } from '../dist/tensor/inspect.js';
import { goldenPath } from './support.js';

interface Printed {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly values: readonly string[];
  readonly text: string;
}
const rows: Printed[] = JSON.parse(readFileSync(goldenPath('print.json'), 'utf8'));
const number = (text: string) =>
  ({ True: 1, False: 0, nan: Number.NaN, inf: Number.POSITIVE_INFINITY, '-inf': Number.NEGATIVE_INFINITY })[text] ??
  Number(text);

test.each(rows.map((r) => [`${r.dtype}[${r.shape}] ${r.text.slice(0, 40)}`, r] as const))(
  '%s',
  (_, { dtype, shape, values, text }) => {
    const data = dtype === 'i64' ? BigInt64Array.from(values, BigInt) : encodeNumbers(dtype, values.map(number));
    expect(data).toBeInstanceOf(DTYPES[dtype].array);
    expect(format(dtype, shape, data)).toBe(text);
  },
);
