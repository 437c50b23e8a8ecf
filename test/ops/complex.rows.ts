// Complex numbers, from real inputs to real results: what finite differences can follow. More rows: test/complex.test.ts.
import * as tx from 'tsxla';
import { input, Table } from './row.js';

export const table = new Table('complex');
const { row } = { row: table.row.bind(table) };
const two = [input([2, 3]), input([2, 3])];
const z = 'torch.complex(a, b)';

row('complex', two, (a, b) => tx.complex(a, b).viewAsReal(), `torch.view_as_real(${z})`);
row(
  'viewAsReal',
  two,
  (a, b) => tx.complex(a, b).mul(tx.complex(b, a)).viewAsReal(),
  `torch.view_as_real(${z} * torch.complex(b, a))`,
);
row('viewAsComplex', [input([3, 2])], (a) => a.viewAsComplex().abs(), 'torch.view_as_complex(a).abs()');
row(
  'polar',
  [input([4], 'positive'), input([4])],
  (a, b) => tx.polar(a, b).viewAsReal(),
  'torch.view_as_real(torch.polar(a, b))',
);
row('real', two, (a, b) => tx.complex(a, b).exp().real(), `${z}.exp().real`);
row('real', [input([3])], (a) => a.real(), 'torch.real(a)');
row('imag', two, (a, b) => tx.complex(a, b).sin().imag(), `${z}.sin().imag`);
row(
  'conj',
  two,
  (a, b) => tx.complex(a, b).conj().mul(tx.complex(b, b)).viewAsReal(),
  `torch.view_as_real(${z}.conj() * torch.complex(b, b))`,
);
row('conj', [input([3])], (a) => a.conj(), 'torch.conj(a) * 1');
row(
  'conjPhysical',
  [input([3]), input([3])],
  (a, b) => tx.complex(a, b).conjPhysical().viewAsReal(),
  'torch.view_as_real(torch.complex(a, b).conj_physical())',
);
row('abs', two, (a, b) => tx.complex(a, b).abs(), `${z}.abs()`);
row('angle', two, (a, b) => tx.complex(a, b).angle(), `${z}.angle()`);
row('angle', [input([4], [-1.5, 0, 2, 'nan'])], (a) => a.angle(), 'a.angle()', { grad: false });
row('sgn', two, (a, b) => tx.complex(a, b).sgn().viewAsReal(), `torch.view_as_real(${z}.sgn())`);
row('isreal', [input([2]), input([2], [0, 1])], (a, b) => tx.complex(a, b).isreal(), `torch.isreal(${z})`, {
  grad: false,
});
row('isreal', [input([2])], (a) => a.isreal(), 'torch.isreal(a)', { grad: false });
row('cfloat', [input([3])], (a) => a.cfloat().mul(a).viewAsReal(), 'torch.view_as_real(a.cfloat() * a)', {
  smooth: false,
});
row('cdouble', [input([3])], (a) => a.cdouble().mul(a).viewAsReal(), 'torch.view_as_real(a.cdouble() * a)', {
  smooth: false,
});
row(
  'matmul',
  two,
  (a, b) => tx.complex(a, b).matmul(tx.complex(b, a).mH).viewAsReal(),
  `torch.view_as_real(${z} @ torch.complex(b, a).mH)`,
);
row(
  'adjoint',
  two,
  (a, b) => tx.complex(a, b).adjoint().viewAsReal(),
  `torch.view_as_real(${z}.adjoint().resolve_conj())`,
);
row(
  'vdot',
  [input([3]), input([3])],
  (a, b) => tx.vdot(tx.complex(a, b), tx.complex(b, a)).viewAsReal(),
  `torch.view_as_real(torch.vdot(${z}, torch.complex(b, a)))`,
);
row('norm', two, (a, b) => tx.complex(a, b).norm(), `${z}.norm()`);
row(
  'stft',
  [input([20])],
  (a) => tx.stft(a, 8, 4).viewAsReal(),
  'torch.view_as_real(torch.stft(a, 8, 4, window=torch.ones(8, dtype=a.dtype), return_complex=True))',
);
row(
  'istft',
  [input([5, 6, 2])],
  (a) => tx.istft(a.viewAsComplex(), 8, 2),
  'torch.istft(torch.view_as_complex(a), 8, 2, window=torch.ones(8, dtype=a.dtype))',
);

// Windows, as stft takes them: periodic by default.
const windows: readonly [op: string, made: (dtype: tx.DType) => tx.Tensor, torch: string][] = [
  ['hannWindow', (dtype) => tx.hannWindow(8, { dtype }), 'hann_window(8'],
  ['hannWindow', (dtype) => tx.hannWindow(8, false, { dtype }), 'hann_window(8, False'],
  ['hammingWindow', (dtype) => tx.hammingWindow(8, { dtype }), 'hamming_window(8'],
  ['hammingWindow', (dtype) => tx.hammingWindow(8, false, 0.6, 0.3, { dtype }), 'hamming_window(8, False, 0.6, 0.3'],
  ['blackmanWindow', (dtype) => tx.blackmanWindow(8, { dtype }), 'blackman_window(8'],
  ['blackmanWindow', (dtype) => tx.blackmanWindow(8, { periodic: false, dtype }), 'blackman_window(8, periodic=False'],
  ['bartlettWindow', (dtype) => tx.bartlettWindow(8, { dtype }), 'bartlett_window(8'],
  ['bartlettWindow', (dtype) => tx.bartlettWindow(8, false, { dtype }), 'bartlett_window(8, False'],
  ['kaiserWindow', (dtype) => tx.kaiserWindow(8, { dtype }), 'kaiser_window(8'],
  ['kaiserWindow', (dtype) => tx.kaiserWindow(8, false, 5, { dtype }), 'kaiser_window(8, False, 5.0'],
];
for (const [op, made, torch] of windows)
  row(op, [input([8])], (a) => a.mul(made(a.dtype)), `a * torch.${torch}, dtype=a.dtype)`);
for (const n of [0, 1])
  row('hannWindow', [input([n])], (a) => a.add(tx.hannWindow(n)), `a + torch.hann_window(${n})`, { grad: false });
row(
  'stft',
  [input([20])],
  (a) => tx.stft(a, 8, { hopLength: 4, window: tx.hannWindow(8, { dtype: a.dtype }) }).viewAsReal(),
  'torch.view_as_real(torch.stft(a, 8, 4, window=torch.hann_window(8, dtype=a.dtype), return_complex=True))',
);
