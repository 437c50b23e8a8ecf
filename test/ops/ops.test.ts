// Every row of the table: type, values and gradients against torch, gradients of first and second order against finite
// differences in f64, and the inferred type against XLA's own. PJRT_DEVICE=CUDA runs it all on a GPU.
import { readSafetensors } from 'tsxla/io';
import { describe, test } from 'vitest';
import { goldenPath } from '../support.js';
import { checkRow } from './check.js';
import { tables } from './tables.js';

for (const { family, rows } of tables) {
  const golden = await readSafetensors(goldenPath(`ops/${family}.safetensors`));
  describe(family, () => {
    for (const row of rows)
      test(`${row.op}: ${row.name}`, () => checkRow(row, (key) => golden.get(`${row.name}/${key}`)));
  });
}
