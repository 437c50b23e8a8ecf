// How notebooks show tensors: as text, and small ones as a table.
import type { TypedArray } from '../base/dtype.js';
import type { MimeBundle } from '../base/jupyter.js';
import { isComplex } from '../base/promote.js';
import type { Aval } from '../ir/aval.js';
import { format } from './inspect.js';

const ROWS = 20;
const COLUMNS = 12;

/** The MIME bundle of a tensor with these elements. */
export function display({ dtype, shape }: Aval, data: TypedArray, suffixes: readonly string[]): MimeBundle {
  const text = format(dtype, shape, data, suffixes);
  const [rows, columns] = shape.length === 1 ? [1, shape[0]!] : shape;
  const isSmall = shape.length > 0 && shape.length <= 2 && data.length > 0 && rows! <= ROWS && columns! <= COLUMNS;
  if (!isSmall || isComplex(dtype)) return { 'text/plain': text };
  // The numbers are taken from the text, whose number of digits is chosen for all elements together.
  const cells = text.slice(text.indexOf('['), text.lastIndexOf(']') + 1).match(/[^\s[\],]+/g)!;
  const row = (i: number) =>
    `<tr>${cells
      .slice(i * columns!, (i + 1) * columns!)
      .map(cell)
      .join('')}</tr>`;
  const head = `<caption style="text-align:left">${dtype}[${shape.join(', ')}]${suffixes.map((s) => `, ${s}`).join('')}</caption>`;
  const body = Array.from({ length: rows! }, (_, i) => row(i)).join('');
  return { 'text/plain': text, 'text/html': `<table style="font-variant-numeric:tabular-nums">${head}${body}</table>` };
}
const cell = (text: string): string => `<td style="text-align:right">${text}</td>`;
