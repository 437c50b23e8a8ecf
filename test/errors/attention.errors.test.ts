// Misuse of attention: by the text of the error.
import * as tx from 'tsxla';
import { testMisuses } from './misuse.js';

const f = (...shape: number[]) => tx.zeros(shape);
const i = (...shape: number[]) => tx.zeros(shape, { dtype: 'i64' });
const attend = tx.scaledDotProductAttention;
const x = () => f(2, 3, 4);
const op = 'scaledDotProductAttention';

// biome-ignore format: a table
testMisuses([
  ['vectors', () => attend(f(4), f(4), f(4)), `${op}: takes [..., tokens, d] three times, got f32[4] and f32[4] and f32[4]`],
  ['integers', () => attend(i(2, 4), i(2, 4), i(2, 4)), `${op}: takes floats, got i64[2, 4] and i64[2, 4] and i64[2, 4]: use float()`],
  ['dtypes', () => attend(x(), x().double(), x()), `${op}: dtypes of f32[2, 3, 4] and f64[2, 3, 4] and f32[2, 3, 4] differ: convert one first`],
  ['sizes of heads', () => attend(x(), f(2, 3, 5), x()), `${op}: query and key differ in their last dim, 4 and 5: f32[2, 3, 4] and f32[2, 3, 5] and f32[2, 3, 4]`],
  ['keys and values', () => attend(x(), x(), f(2, 5, 4)), `${op}: got 3 keys and 5 values: they must be equal in number: f32[2, 3, 4] and f32[2, 3, 4] and f32[2, 5, 4]`],
  ['heads', () => attend(f(2, 4, 3, 4), f(2, 2, 3, 4), f(2, 2, 3, 4)), `${op}: f32[2, 4, 3, 4] and f32[2, 2, 3, 4] and f32[2, 2, 3, 4] have 4, 2, 2 heads: if query heads share key heads, pass { enableGqa: true }`],
  ['groups', () => attend(f(4, 3, 4), f(3, 3, 4), f(3, 3, 4), { enableGqa: true }), `${op}: enableGqa: 3 heads of the key and 3 of the value must divide the 4 of the query: f32[4, 3, 4] and f32[3, 3, 4] and f32[3, 3, 4]`],
  ['groups without heads', () => attend(f(3, 4), f(3, 4), f(3, 4), { enableGqa: true }), `${op}: enableGqa: takes [..., heads, tokens, d], got f32[3, 4] and f32[3, 4] and f32[3, 4]`],
  ['two masks', () => attend(x(), x(), x(), f(3, 3), 0, true), `${op}: attnMask and isCausal are both given: make the mask causal, with tril()`],
  ['a mask of integers', () => attend(x(), x(), x(), i(3, 3)), `${op}: attnMask is i64[3, 3]: it must be bool, f32 or f32 (the query's dtype): convert it`],
  ['a mask of another shape', () => attend(x(), x(), x(), f(3, 4)), `${op}: attnMask f32[3, 4] does not broadcast to the scores [2, 3, 3]`],
  ['a mask that widens', () => attend(x(), x(), x(), f(2, 2, 3, 3)), `${op}: attnMask f32[2, 2, 3, 3] does not broadcast to the scores [2, 3, 3]`],
  ['a probability', () => attend(x(), x(), x(), { dropoutP: 2 }), `${op}: dropoutP is 2: a probability is between 0 and 1`],
  ['an option of another name', () => attend(x(), x(), x(), { causal: true } as never), /^scaledDotProductAttention: there is no option 'causal'/],
], /at .*attention\.errors\.test\.ts:\d+/);
