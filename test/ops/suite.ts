// Every row of a family: type, values and gradients against torch, gradients of first and second order against finite
// differences in f64, and the inferred type against XLA's own. PJRT_DEVICE=CUDA runs it all on a GPU.
import { readSafetensors } from 'tsxla/io';
import { describe, test } from 'vitest';
import { goldenPath } from '../support.js';
import { checkRows } from './check.js';
import type { Row, Table } from './row.js';

/** Rows in one program. Sixteen take half the processor time of one by one, more take no less. */
const TOGETHER = 16;

export async function suite({ family, rows }: Table): Promise<void> {
  const golden = await readSafetensors(goldenPath(`ops/${family}.safetensors`));
  const goldenOf = (row: Row) => (key: string) => golden.get(`${row.name}/${key}`);
  const failures = new Map<Row, () => Promise<Map<Row, unknown>>>();
  for (const group of groups(rows)) {
    let checked: Promise<Map<Row, unknown>> | undefined;
    for (const row of group) failures.set(row, () => (checked ??= checkRows(group, goldenOf)));
  }
  describe(family, () => {
    for (const row of rows)
      test(`${row.op}: ${row.name}`, async () => {
        const failed = await failures.get(row)!();
        if (failed.has(row)) throw failed.get(row);
      });
  });
}

/** Rows of about the same size: a group is computed as often as its largest row has elements. */
function groups(rows: readonly Row[]): Row[][] {
  const size = ({ inputs }: Row) => inputs.reduce((n, { shape }) => n + shape.reduce((a, b) => a * b, 1), 0);
  const made: Row[][] = [];
  for (const row of [...rows].sort((a, b) => size(a) - size(b))) {
    const last = made.at(-1);
    if (last && last.length < TOGETHER && size(row) <= 4 * Math.max(16, size(last[0]!))) last.push(row);
    else made.push([row]);
  }
  return made;
}
