// tx.special: functions that torch has only there.
import * as tx from 'tsxla';
import { type Fill, input, ints, Table } from './row.js';

export const table = new Table('special');
const { special } = tx;
type Unary = (x: tx.Tensor) => tx.Tensor;
const snake = (name: string) => name.replaceAll(/[A-Z]/g, (c) => `_${c.toLowerCase()}`).replace(/_?([01])$/, '$1');
const PROBABILITY: Fill = [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.05];
const SPREAD: Fill = [-7.25, -3.5, -1.1, -0.3, 0.1, 0.4, 1.3, 6.5];
const UNIT: Fill = [-1.5, -0.7, -0.2, 0.1, 0.6, 1.3, 2.5, 4];
const POSITIVE: Fill = [0.05, 0.4, 1.1, 1.9, 2.2, 3.3, 5.5, 9.1];

/** Name, where it is smooth, where it may go wrong, and whether torch has its gradient. */
const unary: readonly (readonly [name: keyof typeof special, fill: Fill, edges: Fill, grad: boolean])[] = [
  ['entr', POSITIVE, [0, -1, 'nan', 'inf', 1], true],
  ['ndtr', SPREAD, ['inf', '-inf', 'nan', 12, -12], true],
  ['ndtri', PROBABILITY, [0, 1, -0.1, 1.1, 'nan', 1e-6, 1e-20], true],
  ['logNdtr', SPREAD, ['inf', 'nan', -30, 5], true],
  ['erfcx', UNIT, ['inf', 'nan', 20, 0, -7.25], true],
  ['i1', SPREAD, [0, 'nan', 20], true],
  ['i1e', SPREAD, [0, 'nan', 50, -50], true],
  ['besselJ0', SPREAD, [0, 'nan', 20, 5], false],
  ['besselJ1', SPREAD, [0, 'nan', 20, -5], false],
  ['besselY0', POSITIVE, [0, -1, 'nan', 20], false],
  ['besselY1', POSITIVE, [0, -1, 'nan', 20], false],
  ['modifiedBesselI0', SPREAD, [0, 'nan', 20], false],
  ['modifiedBesselI1', SPREAD, [0, 'nan', 20], false],
  ['modifiedBesselK0', POSITIVE, [0, -1, 'nan', 20], false],
  ['modifiedBesselK1', POSITIVE, [0, -1, 'nan', 20], false],
  ['scaledModifiedBesselK0', POSITIVE, [0, -1, 'nan', 50], false],
  ['scaledModifiedBesselK1', POSITIVE, [0, -1, 'nan', 50], false],
  ['sphericalBesselJ0', SPREAD, [0, 'inf', 'nan', 20], false],
  ['airyAi', SPREAD, [0, 'nan', 9, 110, 'inf', 2.09], false],
];
for (const [name, fill, edges, grad] of unary) {
  const torch = `torch.special.${snake(name)}(a)`;
  const run: Unary = (x) => (special[name] as Unary)(x);
  table.row(`special.${name}`, [input([8], fill)], run, torch, { grad });
  table.row(`special.${name}`, [input([(edges as number[]).length], edges)], run, torch, { grad: false });
}
table.row('special.entr', [ints([3], 1, 9)], (x) => special.entr(x), 'torch.special.entr(a)');

const degrees = [
  'chebyshevPolynomialT',
  'chebyshevPolynomialU',
  'chebyshevPolynomialV',
  'chebyshevPolynomialW',
] as const;
const shifted = [
  'shiftedChebyshevPolynomialT',
  'shiftedChebyshevPolynomialU',
  'shiftedChebyshevPolynomialV',
  'shiftedChebyshevPolynomialW',
] as const;
const others = ['hermitePolynomialH', 'hermitePolynomialHe', 'laguerrePolynomialL', 'legendrePolynomialP'] as const;
for (const name of [...degrees, ...shifted, ...others]) {
  const torch = `torch.special.${snake(name)}`;
  const x = input([6], [-1.2, -0.6, 0.1, 0.3, 0.8, 1.4]);
  const n = input([6], [0, 1, 2, 3, 7, -1]);
  table.row(`special.${name}`, [x, n], (a, b) => special[name](a, b), `${torch}(a, b)`, { grad: false });
  table.row(`special.${name}`, [x], (a) => special[name](a, 4), `${torch}(a, 4)`, { grad: false });
}

table.row(
  'special.xlog1py',
  [input([2, 3], 'positive'), input([3], 'positive')],
  (a, b) => special.xlog1py(a, b),
  'torch.special.xlog1py(a, b)',
);
table.row(
  'special.xlog1py',
  [input([5], [0, 0, 0, 2, -1]), input([5], [-1, 'nan', 'inf', -1, -2])],
  (a, b) => special.xlog1py(a, b),
  'torch.special.xlog1py(a, b)',
  { grad: false },
);
table.row('special.xlog1py', [input([3], 'positive')], (a) => special.xlog1py(2, a), 'torch.special.xlog1py(2, a)');
table.row(
  'special.zeta',
  [input([5], [1.5, 2, 3.5, 6, 12]), input([5], [0.5, 1, 2.5, 9, 20])],
  (a, b) => special.zeta(a, b),
  'torch.special.zeta(a.detach(), b)',
  { smooth: false, grad: false },
);
table.row(
  'special.zeta',
  [input([7], [1, 0.5, 2, 3, 2.5, 2, 'nan']), input([7], [2, 2, -1, -3.5, -0.5, 0, 1])],
  (a, b) => special.zeta(a, b),
  'torch.special.zeta(a, b)',
  { grad: false },
);
table.row('special.zeta', [input([3], 'positive')], (a) => special.zeta(3, a), 'torch.special.zeta(3., a)', {
  tolerance: 1e-4,
});
