// A row of the table of operations: what is computed here, and the same in torch. scripts/golden/ops.py writes the answers.
import type { Tensor } from 'tsxla';
import type { DType } from 'tsxla/pjrt';

/** How an input is filled: by a distribution, or with these very numbers ('nan', 'inf' and '-inf' for those). */
export type Fill =
  | 'normal'
  | 'positive'
  | 'unit'
  | 'distinct'
  | { readonly from: number; readonly to: number }
  | readonly (number | 'nan' | 'inf' | '-inf')[];

export interface Input {
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly fill: Fill;
}

export interface RowOptions {
  /** false: the op has no gradient, or not here. */
  readonly grad?: boolean;
  /** false: not compared with finite differences (not smooth here, or only defined for some values). */
  readonly smooth?: boolean;
  /** Relative tolerance against torch, if not the dtype's own. */
  readonly tolerance?: number;
}

export interface Row extends RowOptions {
  /** The public name this row is about. */
  readonly op: string;
  readonly name: string;
  readonly inputs: readonly Input[];
  readonly run: (...xs: Tensor[]) => Tensor | readonly Tensor[];
  /** The same in Python, with torch, F (torch.nn.functional) and the inputs a, b, c, ... at hand. */
  readonly torch: string;
}

export const input = (shape: readonly number[], fill: Fill = 'normal', dtype: DType = 'f32'): Input => ({
  shape,
  dtype,
  fill,
});
export const ints = (shape: readonly number[], from = -9, to = 10, dtype: DType = 'i64'): Input => ({
  shape,
  dtype,
  fill: { from, to },
});
export const bools = (shape: readonly number[]): Input => ({ shape, dtype: 'bool', fill: { from: 0, to: 2 } });

/** Rows of one family. Their names are made of the Python text, which says all there is to say. */
export class Table {
  readonly rows: Row[] = [];
  constructor(readonly family: string) {}

  row(op: string, inputs: readonly Input[], run: Row['run'], torch: string, options: RowOptions = {}): void {
    const types = inputs.map(
      (i) => `${i.dtype}[${i.shape}]${typeof i.fill === 'string' && i.fill !== 'normal' ? ` ${i.fill}` : ''}`,
    );
    let name = `${torch} of ${types.join(', ')}`;
    for (let n = 2; this.rows.some((r) => r.name === name); n++) name = `${torch} of ${types.join(', ')} (${n})`;
    this.rows.push({ op, name, inputs, run, torch, ...options });
  }
}
