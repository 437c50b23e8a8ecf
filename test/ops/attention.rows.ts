// Attention: every option, masks of every kind, and shapes that meet as torch's do. Dropout: attention.test.ts.
import * as tx from 'tsxla';
import type { DType } from 'tsxla/pjrt';
import { bools, type Fill, type Input, input, type RowOptions, Table } from './row.js';

export const table = new Table('attention');
type Shape = readonly number[];
const qkv = (q: Shape, k: Shape, v: Shape, dtype: DType = 'f32'): Input[] =>
  [q, k, v].map((shape) => input(shape, 'normal', dtype));
/** Finite differences, twice over many operands, take seconds: one row of each kind has them, all have torch's gradients. */
const SMOOTH = { smooth: true };
const attend = (inputs: readonly Input[], options: tx.AttentionOptions, torch: string, more: RowOptions = {}): void =>
  table.row(
    'scaledDotProductAttention',
    inputs,
    (q, k, v, attnMask) => tx.scaledDotProductAttention(q!, k!, v!, { ...(attnMask && { attnMask }), ...options }),
    `F.scaled_dot_product_attention(a, b, c${inputs[3] ? ', attn_mask=d' : ''}${torch ? `, ${torch}` : ''})`,
    { smooth: false, ...more },
  );

const plain = [
  [1, 2, 3, 4],
  [1, 2, 5, 4],
  [1, 2, 5, 2],
] as const;
attend(qkv(...plain), {}, '');
attend(qkv(...plain, 'bf16'), {}, '');
attend(qkv(...plain, 'f16'), {}, '');
attend(qkv(...plain, 'f64'), {}, '');
attend(qkv(...plain), { scale: 0.3 }, 'scale=0.3', SMOOTH);
attend(qkv([3, 4], [5, 4], [5, 4]), {}, '');
attend(qkv([2, 3, 4], [2, 5, 4], [2, 5, 4]), {}, '');
attend(qkv([2, 1, 2, 3, 4], [2, 1, 2, 2, 4], [2, 1, 2, 2, 4]), { isCausal: true }, 'is_causal=True');
// leading dimensions broadcast
attend(qkv([2, 2, 3, 4], [2, 1, 5, 4], [2, 1, 5, 4]), {}, '');
attend(qkv([1, 2, 3, 4], [2, 2, 5, 4], [2, 2, 5, 4]), {}, '');
attend(qkv([2, 2, 3, 4], [5, 4], [5, 4]), {}, '');
// no keys, no queries, heads of size 0
attend(qkv([1, 3, 4], [1, 0, 4], [1, 0, 4]), {}, '');
attend(qkv([1, 0, 4], [1, 3, 4], [1, 3, 4]), {}, '');
attend(qkv([1, 2, 0], [1, 3, 0], [1, 3, 2]), {}, '');
// causal: as many keys as queries, more, fewer
for (const keys of [3, 5, 2]) attend(qkv([2, 3, 4], [2, keys, 4], [2, keys, 4]), { isCausal: true }, 'is_causal=True');
attend(qkv([1, 3, 2], [1, 3, 2], [1, 3, 2]), { isCausal: true }, 'is_causal=True', SMOOTH);
attend(qkv([2, 4, 4], [2, 4, 4], [2, 4, 4], 'bf16'), { isCausal: true }, 'is_causal=True');
// heads that share keys
const gqa = (q: number, k: number, v = k): [Shape, Shape, Shape] => [
  [2, q, 3, 4],
  [2, k, 3, 4],
  [2, v, 3, 2],
];
for (const [k, v] of [
  [2, 2],
  [1, 1],
  [2, 1],
] as const)
  attend(qkv(...gqa(4, k, v)), { enableGqa: true, isCausal: true }, 'enable_gqa=True, is_causal=True');
attend(qkv([4, 3, 4], [2, 5, 4], [2, 5, 4]), { enableGqa: true }, 'enable_gqa=True');
attend(qkv([4, 2, 2], [2, 2, 2], [2, 2, 2]), { enableGqa: true }, 'enable_gqa=True', SMOOTH);
attend(qkv([2, 4, 3, 4], [1, 2, 5, 4], [1, 2, 5, 4]), { enableGqa: true }, 'enable_gqa=True');
attend([...qkv(...gqa(4, 2)), bools([2, 4, 3, 3])], { enableGqa: true }, 'enable_gqa=True');
// masks that broadcast, of booleans and of numbers that are added
for (const shape of [
  [3, 5],
  [2, 1, 3, 5],
  [1, 2, 1, 5],
  [2, 2, 3, 1],
] as Shape[]) {
  attend([...qkv([2, 2, 3, 4], [2, 2, 5, 4], [2, 2, 5, 2]), bools(shape)], {}, '');
  // What is added to all scores of a query changes nothing: its gradient is 0, and as computed the noise about it.
  attend([...qkv([2, 2, 3, 4], [2, 2, 5, 4], [2, 2, 5, 2]), input(shape)], {}, '', { grad: shape.at(-1) !== 1 });
}
attend([...qkv([1, 2, 2, 2], [1, 2, 3, 2], [1, 2, 3, 2]), input([2, 1, 3])], {}, '', SMOOTH);
for (const shape of [[5], []] as Shape[])
  attend([...qkv([2, 3, 4], [2, 5, 4], [2, 5, 2]), input(shape)], {}, '', { grad: shape.length > 0 });
attend([...qkv([2, 2, 1, 3, 4], [2, 2, 1, 2, 4], [2, 2, 1, 2, 4]), input([2, 1, 1, 3, 2])], {}, '');
attend([...qkv(...plain, 'bf16'), input([3, 5], 'normal', 'bf16')], {}, '');
// In f32, rounded once: torch's CPU computes gradients of bf16 from the rounded output, and where much cancels they are 3% off.
table.row(
  'scaledDotProductAttention',
  [...qkv([2, 2, 3, 4], [2, 2, 3, 4], [2, 2, 3, 4], 'bf16'), bools([3, 3])],
  (q, k, v, attnMask) => tx.scaledDotProductAttention(q!, k!, v!, { attnMask: attnMask! }),
  'F.scaled_dot_product_attention(a.float(), b.float(), c.float(), attn_mask=d).to(a.dtype)',
  { smooth: false },
);
// rows of which nothing is seen are 0, and nothing flows back
const hidden: Fill = [0, '-inf', 0.5, '-inf', '-inf', '-inf', 1, 2, 3];
const none: Fill = [1, 0, 1, 0, 0, 0, 1, 1, 1];
attend([...qkv([2, 3, 4], [2, 3, 4], [2, 3, 4]), input([3, 3], hidden)], {}, '');
attend([...qkv([2, 3, 4], [2, 3, 4], [2, 3, 4]), { shape: [3, 3], dtype: 'bool', fill: none }], {}, '');
attend([...qkv([3, 2], [3, 2], [3, 2]), { shape: [3, 3], dtype: 'bool', fill: none }], {}, '', SMOOTH);
