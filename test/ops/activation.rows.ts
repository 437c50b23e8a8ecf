// Activations.
import * as tx from 'tsxla';
import { type Fill, input, ints, Table } from './row.js';

export const table = new Table('activation');
const call = tx as unknown as Record<string, (...xs: unknown[]) => tx.Tensor>;
const SPECIAL: Fill = [0, 30, -30, 'inf', '-inf', 'nan', 1, -1];
const snake = (op: string) => op.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);

// op, options (as here, as in Python), where it has corners
type Case = readonly [op: string, options?: Record<string, unknown> | undefined, python?: string, edges?: Fill];
const cases: readonly Case[] = [
  ['relu', undefined, '', [0, -1, 2, 'nan', 'inf', '-inf']],
  ['relu6', undefined, '', [0, 6, 7, -1, 'inf', '-inf']],
  ['hardtanh', undefined, '', [-1, 1, 0, 2, 'inf', '-inf']],
  ['hardtanh', { minVal: -0.5, maxVal: 2 }, 'min_val=-0.5, max_val=2.0', [-0.5, 2]],
  ['leakyRelu', undefined, '', [0, -1, 2, 'inf', '-inf']],
  ['leakyRelu', { negativeSlope: 0.3 }, 'negative_slope=0.3'],
  ['elu', undefined, '', [0, 800, -800, 'inf', '-inf', 'nan']],
  ['elu', { alpha: 0.7 }, 'alpha=0.7', [0]],
  ['celu', undefined, '', [0, 800, -800, 'inf', '-inf', 'nan']],
  ['celu', { alpha: 0.7 }, 'alpha=0.7', [0]],
  ['selu', undefined, '', [0, 800, -800, 'inf', '-inf', 'nan']],
  ['gelu', undefined, '', [0, 30, -30, 1]],
  ['gelu', { approximate: 'tanh' }, "approximate='tanh'", [0, 30, -30, 1]],
  ['silu', undefined, '', [0, 30, -30, 100, -200]],
  ['mish', undefined, '', [0, 30, -30, 100, -200]],
  ['softplus', undefined, '', SPECIAL],
  ['softplus', { beta: 2, threshold: 3 }, 'beta=2, threshold=3', [1, 2, -1, 40]],
  ['softsign', undefined, '', [0, 1e6, -1e6, 1]],
  ['tanhshrink', undefined, '', [0, 30, -30, 'nan']],
  ['softshrink', undefined, '', [0.5, -0.5, 0, 'inf', '-inf']],
  ['softshrink', { lambd: 0.2 }, 'lambd=0.2'],
  ['hardshrink', undefined, '', [0.5, -0.5, 0, 'nan', 'inf', '-inf']],
  ['hardshrink', { lambd: 0.2 }, 'lambd=0.2'],
  ['hardsigmoid', undefined, '', [3, -3, 4, -4, 'inf', '-inf', 'nan']],
  ['hardswish', undefined, '', [3, -3, 4, -4, 0, 'inf', '-inf', 'nan']],
  ['logsigmoid', undefined, '', SPECIAL],
];
// Half of the numbers are near zero and half beyond most corners, none on one.
const SPREAD: Fill = [-7.25, -3.5, -1.1, -0.3, 0.1, 0.4, 1.3, 6.5];
for (const [op, options, python = '', edges] of cases) {
  const torch = `F.${snake(op)}(a${python && `, ${python}`})`;
  const run = (a: tx.Tensor) => (options ? call[op]!(a, options) : call[op]!(a));
  table.row(op, [input([2, 4], SPREAD)], run, torch);
  table.row(op, [input([2, 4], SPREAD, 'bf16')], run, torch, { smooth: false });
  if (edges) table.row(op, [input([(edges as readonly unknown[]).length], edges)], run, torch, { smooth: false });
}
table.row('relu', [ints([4])], (a) => a.relu(), 'F.relu(a)');
table.row('relu', [input([0, 2])], (a) => a.relu(), 'F.relu(a)');
table.row('relu6', [ints([4])], (a) => a.relu6(), 'F.relu6(a)');
table.row('gelu', [input([])], (a) => a.gelu(), 'F.gelu(a)');
table.row('silu', [input([4], 'normal', 'f16')], (a) => a.silu(), 'F.silu(a)', { smooth: false });
table.row('threshold', [input([2, 4], SPREAD)], (a) => a.threshold(0.2, -5), 'F.threshold(a, 0.2, -5)');
table.row('threshold', [input([3], [0.5, 'nan', 1])], (a) => a.threshold(0.5, 2), 'F.threshold(a, 0.5, 2.0)', {
  smooth: false,
});
table.row('prelu', [input([2, 4], SPREAD), input([1])], (a, w) => a.prelu(w), 'F.prelu(a, b)');
table.row('prelu', [input([2, 4], SPREAD), input([4])], (a, w) => a.prelu(w), 'F.prelu(a, b)');
table.row('prelu', [input([2, 2, 2], SPREAD), input([2])], (a, w) => a.prelu(w), 'F.prelu(a, b)');
table.row('prelu', [input([4], [0, -1, 2, '-inf']), input([1], [0.3])], (a, w) => a.prelu(w), 'F.prelu(a, b)', {
  smooth: false,
});
table.row('prelu', [input([], [-2]), input([1])], (a, w) => a.prelu(w), 'F.prelu(a, b)');

// ---- along a dimension

for (const dim of [0, 1, -1]) table.row('glu', [input([4, 2, 2])], (a) => a.glu({ dim }), `F.glu(a, dim=${dim})`);
table.row('glu', [input([3, 4])], (a) => a.glu(), 'F.glu(a)');
for (const op of ['softmax', 'logSoftmax', 'softmin']) {
  const python = snake(op);
  for (const dim of [0, 1, -1]) {
    table.row(op, [input([2, 3, 2])], (a) => call[op]!(a, dim), `F.${python}(a, dim=${dim})`);
  }
  table.row(op, [input([2, 5])], (a) => call[op]!(a, { dim: 1 }), `F.${python}(a, dim=1)`);
  table.row(op, [input([])], (a) => call[op]!(a, 0), `F.${python}(a, dim=0)`);
  table.row(op, [input([0, 3])], (a) => call[op]!(a, 1), `F.${python}(a, dim=1)`);
  table.row(op, [input([2, 5], 'normal', 'bf16')], (a) => call[op]!(a, -1), `F.${python}(a, dim=-1)`, {
    smooth: false,
  });
  table.row(op, [input([2, 5], 'normal', 'f16')], (a) => call[op]!(a, -1), `F.${python}(a, dim=-1)`, { smooth: false });
  table.row(
    op,
    [ints([2, 3])],
    (a) => call[op]!(a, { dim: 1, dtype: 'f64' }),
    `F.${python}(a, dim=1, dtype=torch.float64)`,
  );
  table.row(op, [input([4], [1000, 999, -1000, 0])], (a) => call[op]!(a, 0), `F.${python}(a, dim=0)`, {
    smooth: false,
  });
}
table.row('softmax', [input([2, 2], ['-inf', 0, '-inf', '-inf'])], (a) => a.softmax(1), 'F.softmax(a, dim=1)', {
  smooth: false,
});
table.row('logSoftmax', [input([4], ['-inf', 0, 1, '-inf'])], (a) => a.logSoftmax(0), 'F.log_softmax(a, dim=0)', {
  smooth: false,
});
// Numbers that were once wrong.
table.row('silu', [input([4], [-11.25, -11.5, -12, -13], 'f16')], (a) => a.silu(), 'F.silu(a)', { smooth: false });
for (const op of ['elu', 'celu', 'selu'] as const) {
  const lost = input([3], [-7, -8, -6.5], 'bf16');
  table.row(op, [lost], (a) => a[op]().mul(1000), `F.${op}(a) * 1000`, { smooth: false });
}
table.row('glu', [input([3, 0])], (a) => a.glu(), 'F.glu(a)', { grad: false });
table.row(
  'gelu',
  [input([3], [-5, -5.5, -4.5])],
  (a) => a.gelu({ approximate: 'tanh' }).mul(1e5),
  "(F.gelu(a.double(), approximate='tanh') * 1e5).float()",
  { smooth: false },
);
