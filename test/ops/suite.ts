// Every row of a family: type, values and gradients against torch, gradients of first and second order against finite
// differences in f64, and the inferred type against XLA's own. PJRT_DEVICE=CUDA runs it all on a GPU.
import { readSafetensors } from 'tsxla/io';
import { describe, test } from 'vitest';
import { goldenPath } from '../support.js';
import { checkRow } from './check.js';
import type { Table } from './row.js';

export async function suite({ family, rows }: Table): Promise<void> {
  const golden = await readSafetensors(goldenPath(`ops/${family}.safetensors`));
  describe.concurrent(family, () => {
    for (const row of rows)
      test(`${row.op}: ${row.name}`, () => checkRow(row, (key) => golden.get(`${row.name}/${key}`)));
  });
}
