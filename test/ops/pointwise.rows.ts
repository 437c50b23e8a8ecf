// Element by element.
import * as tx from 'tsxla';
import { bools, type Fill, input, ints, Table } from './row.js';

export const table = new Table('pointwise');

// op, torch's name where it is another, what it is defined for
const unary: readonly [op: 'exp' | 'tanh', fill?: Fill][] = [['exp'], ['tanh']];
for (const [op, fill] of unary) {
  table.row(op, [input([2, 3], fill)], (a) => tx[op](a), `torch.${op}(a)`);
  table.row(op, [input([2, 3], fill, 'bf16')], (a) => tx[op](a), `torch.${op}(a)`);
}
table.row('add', [input([2, 3]), input([3])], (a, b) => a.add(b), 'a + b');
table.row('add', [ints([2, 3]), input([])], (a, b) => a.add(b), 'a + b');
table.row('logicalAnd', [bools([4]), bools([4])], (a, b) => a.logicalAnd(b), 'torch.logical_and(a, b)');
