// Element by element.
import * as tx from 'tsxla';
import { bools, type Fill, type Input, input, ints, type Row, type RowOptions, Table } from './row.js';

export const table = new Table('pointwise');
const call = tx as unknown as Record<string, (...xs: unknown[]) => tx.Tensor>;
const snake = (op: string) => op.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
const row = (op: string, inputs: readonly Input[], run: Row['run'], torch: string, options?: RowOptions) =>
  table.row(op, inputs, run, torch, options);

// ---- one operand: random numbers in f32 and bf16, integers, and the numbers where it might go wrong

interface Unary {
  readonly fill?: Fill;
  /** Corners, poles and non-numbers, against torch only. */
  readonly edges?: Fill;
  /** How torch calls it. */
  readonly torch?: string;
  readonly ints?: false;
  /** Relative tolerance in bf16. */
  readonly coarse?: number;
}
const SPECIAL: Fill = [0, 1, -1, 'inf', '-inf', 'nan'];
const unary: Readonly<Record<string, Unary>> = {
  neg: { edges: SPECIAL },
  abs: { edges: SPECIAL, fill: [-2, -0.5, 0.25, 3, 1.5, -1] },
  sign: { edges: SPECIAL, fill: [-2, -0.5, 0.25, 3, 1.5, -1] },
  sgn: { edges: SPECIAL, fill: [-2, -0.5, 0.25, 3, 1.5, -1] },
  square: { edges: SPECIAL },
  reciprocal: { fill: 'positive', edges: SPECIAL },
  positive: { edges: SPECIAL },
  floor: { fill: [-2.5, -0.25, 0.5, 1.75, 2.5, 8.125], edges: SPECIAL },
  ceil: { fill: [-2.5, -0.25, 0.5, 1.75, 2.5, 8.125], edges: SPECIAL },
  trunc: { fill: [-2.5, -0.25, 0.5, 1.75, 2.5, 8.125], edges: SPECIAL },
  round: { fill: [-2.25, -0.25, 0.75, 1.75, 2.25, 8.125], edges: [0.5, 1.5, 2.5, -0.5, 'inf', 'nan'] },
  frac: { fill: [-2.5, -0.25, 0.5, 1.75, 2.5, 8.125], edges: SPECIAL, ints: false },
  exp: { edges: [0, 1, 100, '-inf', 'inf', 'nan'] },
  exp2: { edges: [0, 3, 200, '-inf', 'inf', 'nan'] },
  expm1: { edges: [0, 1e-7, -1e-7, '-inf', 'inf', 'nan'] },
  log: { fill: 'positive', edges: SPECIAL },
  log2: { fill: 'positive', edges: [0, 8, 1024, -1, 'inf', 'nan'] },
  log10: { fill: 'positive', edges: [0, 10, 1000, -1, 'inf', 'nan'] },
  log1p: { fill: 'positive', edges: [0, -1, 1e-7, -2, 'inf', 'nan'] },
  sqrt: { fill: 'positive', edges: SPECIAL },
  rsqrt: { fill: 'positive', edges: SPECIAL },
  sin: { edges: SPECIAL },
  cos: { edges: SPECIAL },
  tan: { fill: 'unit', edges: SPECIAL },
  asin: { fill: 'unit', edges: SPECIAL, ints: false },
  acos: { fill: 'unit', edges: SPECIAL, ints: false },
  atan: { edges: SPECIAL },
  sinh: { edges: SPECIAL },
  cosh: { edges: SPECIAL },
  tanh: { edges: [0, 1e-4, 20, '-inf', 'inf', 'nan'] },
  asinh: { edges: SPECIAL },
  acosh: { fill: [1.1, 1.5, 2, 3, 4, 5], edges: SPECIAL },
  atanh: { fill: 'unit', edges: SPECIAL, ints: false },
  // torch's gradient rounds to bf16 at every step of a difference of near numbers; ours is that of f32, rounded once.
  sinc: { coarse: 0.1, edges: [0, 1, -1, 0.5, 2.5, 'nan'] },
  deg2rad: { edges: SPECIAL },
  rad2deg: { edges: SPECIAL },
  erf: { edges: SPECIAL },
  erfc: { edges: [0, 3, 6, 'inf', '-inf', 'nan'] },
  erfinv: { fill: 'unit', edges: [0, 1, -1, 2, 0.99, 'nan'], ints: false },
  lgamma: { fill: 'positive', edges: [1, 2, 0, 0.5, 'inf', 'nan'] },
  digamma: { fill: 'positive', edges: [1, 2, 10, 0.5, -0.5, 'nan'] },
  sigmoid: { edges: [0, 100, -100, 'inf', '-inf', 'nan'] },
  logit: { fill: [0.1, 0.3, 0.5, 0.7, 0.9, 0.95], edges: [0, 1, 0.5, 0.25, -1, 'nan'], ints: false },
  i0: { fill: [-9, -2.5, 0.5, 3, 7.75, 12], edges: [0, 8, -8, 30, 'inf', 'nan'] },
  i0e: { fill: [-9, -2.5, 0.5, 3, 7.75, 12], edges: [0, 8, -8, 30, 1e6, 'nan'], torch: 'torch.special.i0e' },
  nanToNum: { edges: SPECIAL },
};
for (const [op, { fill, edges, torch = `torch.${snake(op)}`, ints: whole, coarse }] of Object.entries(unary)) {
  const run = (a: tx.Tensor) => call[op]!(a);
  row(op, [input([2, 3], fill)], run, `${torch}(a)`);
  row(op, [input([2, 3], fill, 'bf16')], run, `${torch}(a)`, {
    smooth: false,
    ...(coarse && { tolerance: coarse }),
  });
  if (edges) row(op, [input([6], edges)], run, `${torch}(a)`, { smooth: false });
  if (whole !== false) row(op, [ints([3], 1, 9)], run, `${torch}(a)`);
}
row('abs', [ints([4], 0, 9, 'u8')], (a) => tx.abs(a), 'torch.abs(a)');
row('abs', [ints([4], -9, 9, 'i8')], (a) => tx.abs(a), 'torch.abs(a)');
row('neg', [ints([4], 0, 9, 'u8')], (a) => tx.neg(a), 'torch.neg(a)');
row('sign', [bools([4])], (a) => tx.sign(a), 'torch.sign(a)');
row('sign', [ints([4], 0, 3, 'u8')], (a) => tx.sign(a), 'torch.sign(a)');
row('square', [bools([4])], (a) => tx.square(a), 'torch.square(a)');
row('sqrt', [bools([4])], (a) => tx.sqrt(a), 'torch.sqrt(a)');
row('exp', [input([0, 3])], (a) => tx.exp(a), 'torch.exp(a)');
row('exp', [input([])], (a) => a.exp(), 'torch.exp(a)');
row('exp', [input([4], 'normal', 'f16')], (a) => a.exp(), 'torch.exp(a)', { smooth: false });
row('exp', [input([4], 'normal', 'f64')], (a) => a.exp(), 'torch.exp(a)');
row('cbrt', [input([4], [0.5, 1, 8, 3])], (a) => tx.cbrt(a), 'a ** (1 / 3)');
row(
  'popcount',
  [ints([5], 0, 9, 'u8')],
  (a) => tx.popcount(a),
  'torch.tensor([bin(x).count("1") for x in a], dtype=torch.uint8)',
);
row('truth', [input([3], [0, -2, 'nan'])], (a) => tx.truth(a), 'a.bool()');
row(
  'nanToNum',
  [input([4], ['nan', 'inf', '-inf', 2])],
  (a) => tx.nanToNum(a, { nan: 1, posinf: 7, neginf: -7 }),
  'torch.nan_to_num(a, nan=1.0, posinf=7.0, neginf=-7.0)',
  { smooth: false },
);
for (const dtype of ['f16', 'f64'] as const) {
  row('nanToNum', [input([4], ['nan', 'inf', '-inf', 2], dtype)], (a) => a.nanToNum(), 'torch.nan_to_num(a)', {
    smooth: false,
  });
}
row('logit', [input([5], [-0.5, 0.05, 0.5, 0.9, 2])], (a) => tx.logit(a, { eps: 0.1 }), 'torch.logit(a, eps=0.1)', {
  smooth: false,
});
row(
  'round',
  [input([5], [1.23, -15.57, 25.01, 123.456, 0.05])],
  (a) => a.round({ decimals: 1 }),
  'torch.round(a, decimals=1)',
  { smooth: false },
);
row('round', [input([4], [14, 26, 123.456, -77])], (a) => a.round({ decimals: -1 }), 'torch.round(a, decimals=-1)', {
  smooth: false,
});
for (const n of [0, 1, 2, 3]) {
  row('polygamma', [input([4], 'positive')], (a) => tx.polygamma(n, a), `torch.polygamma(${n}, a)`);
}
for (const n of [1, 2, 4]) {
  const below = [-9.3, -0.5, -20.75, -1.25, 0.25, 30];
  row('polygamma', [input([6], below)], (a) => tx.polygamma(n, a), `torch.polygamma(${n}, a)`, { smooth: n < 4 });
}
row('digamma', [input([4], [-9.3, -20.75, -100.4, -0.5], 'f64')], (a) => a.digamma(), 'a.digamma()');
row('polygamma', [ints([3], 1, 9)], (a) => a.polygamma(1), 'a.polygamma(1)');
row('mvlgamma', [input([4], [3, 4.5, 6, 2.5])], (a) => tx.mvlgamma(a, 3), 'torch.mvlgamma(a, 3)');
row('mvlgamma', [ints([3], 3, 9)], (a) => a.mvlgamma(2), 'torch.mvlgamma(a, 2)');

// ---- two operands: broadcast, with a number on either side, integers, and where it might go wrong

type Edge = readonly (number | 'nan' | 'inf' | '-inf')[];
type Pair = readonly [Edge, Edge];
interface Binary {
  readonly a?: Fill;
  readonly b?: Fill;
  readonly edges?: Pair;
  readonly torch?: string;
  /** The dtypes of integers it is compared on, each with positive operands. */
  readonly ints?: false;
  readonly bools?: true;
  /** A number on the right, and on the left. */
  readonly right?: number;
  readonly left?: number;
  readonly grad?: false;
  readonly smooth?: false;
}
const PAIRS: Pair = [
  [0, 0, 1, 'inf', '-inf', 'nan', 1, 2, -3],
  [0, 1, 0, 1, 'inf', 1, 'nan', 2, 3],
];
const DIVISIONS: Pair = [
  [-7, 7, 1, -1, 'inf', 5, -5, 'nan', 6],
  [2, -2, 'inf', 'inf', 2, 0, 0, 1, 3],
];
/** torch's gradient of the remainder of infinity is NaN, this one infinite. */
const FINITE: Pair = [
  [-7, 7, 1, -1, 5, -5, 'nan', 6],
  [2, -2, 'inf', 'inf', 0, 0, 1, 3],
];
const FAR: Fill = [2.5, -1.25, 3.75, 0.5, -2.75, 4.5];
const binary: Readonly<Record<string, Binary>> = {
  add: { edges: PAIRS, right: 2, left: 0.5, bools: true },
  sub: { edges: PAIRS, right: 2, left: 0.5 },
  mul: { edges: PAIRS, right: 2, left: 0.5, bools: true },
  div: { b: 'positive', edges: DIVISIONS, right: 2, left: 0.5 },
  floorDivide: { a: FAR, b: 'positive', edges: DIVISIONS, right: 2, left: 5, grad: false },
  fmod: { a: FAR, b: 'positive', edges: DIVISIONS, right: 2 },
  remainder: { a: FAR, b: 'positive', edges: FINITE, right: 2, left: 5 },
  pow: {
    a: 'positive',
    edges: [
      [0, 0, 0, -1, -2, 2, 2, 'nan', 'inf'],
      [0, 2, 0.5, 2, 0.5, 0, -1, 0, -1],
    ],
    right: 3,
    left: 2,
  },
  maximum: { edges: PAIRS, bools: true },
  minimum: { edges: PAIRS, bools: true },
  fmax: { edges: PAIRS, bools: true },
  fmin: { edges: PAIRS, bools: true },
  atan2: { edges: PAIRS },
  hypot: {
    edges: [
      [3, 1e30, 0, 0, 'inf', 'nan', 1e-30, -3, 1],
      [4, 1e30, 2, -2, 1, 1, 1e-30, 4, 'nan'],
    ],
    ints: false,
  },
  copysign: {
    a: FAR,
    b: [2, -1, -3],
    edges: [
      [0, 1, -1, 3, 2, 0],
      [-1, -2, 0, -1, 'inf', 1],
    ],
    right: -1,
  },
  logaddexp: {
    edges: [
      [0, '-inf', 'inf', 1, 1e4, 'nan'],
      [0, '-inf', 1, '-inf', 1, 1],
    ],
    ints: false,
  },
  logaddexp2: {
    edges: [
      [0, '-inf', 'inf', 1, 1e4, 'nan'],
      [0, '-inf', 1, '-inf', 1, 1],
    ],
    ints: false,
  },
  xlogy: {
    b: 'positive',
    edges: [
      [0, 0, 0, 2, 0, 1],
      ['nan', 0, 'inf', 0, -1, 'nan'],
    ],
    right: 2,
    left: 2,
  },
  nextafter: {
    edges: [
      [0, 1, 1, -1, 2, 'nan'],
      [1, 2, 0, -2, 2, 1],
    ],
    ints: false,
    smooth: false,
  },
  heaviside: {
    edges: [
      [0, 1, -1, 'nan', 'inf', 0],
      [0.5, 2, 2, 2, 2, 'nan'],
    ],
    grad: false,
  },
  ldexp: {
    b: [1, 2, 3],
    edges: [
      [1, 3, 0, 'inf', 'nan', 1],
      [3, -2, 4, 2, 1, 200],
    ],
    right: 3,
  },
};
for (const [
  op,
  { a, b, edges, torch = `torch.${snake(op)}`, ints: whole, bools: truths, right, left, ...options },
] of Object.entries(binary)) {
  const run = (x: tx.Tensor, y: tx.Tensor) => call[op]!(x, y);
  row(op, [input([2, 3], a), input([3], b)], run, `${torch}(a, b)`, options);
  row(op, [input([2, 1], Array.isArray(a) ? 'positive' : a, 'bf16'), input([1, 3], b, 'bf16')], run, `${torch}(a, b)`, {
    ...options,
    smooth: false,
  });
  if (edges) row(op, [...edges.map((e) => input([e.length], e))], run, `${torch}(a, b)`, { ...options, smooth: false });
  if (whole !== false) {
    for (const dtype of ['i64', 'i32', 'u8'] as const)
      row(op, [ints([2, 3], 1, 9, dtype), ints([3], 1, 5, dtype)], run, `${torch}(a, b)`, options);
  }
  if (truths) row(op, [bools([5]), bools([5])], run, `${torch}(a, b)`);
  if (right !== undefined)
    row(op, [input([4], 'positive')], (x) => call[op]!(x, right), `${torch}(a, torch.tensor(${right}))`, {
      ...options,
      smooth: false,
    });
  if (left !== undefined)
    row(op, [input([4], 'positive')], (x) => call[op]!(left, x), `${torch}(torch.tensor(${left}), a)`, {
      ...options,
      smooth: false,
    });
}
row('add', [input([2, 3]), input([3])], (a, b) => a.add(b, { alpha: 2.5 }), 'torch.add(a, b, alpha=2.5)');
row('add', [ints([3]), ints([3])], (a, b) => a.add(b, { alpha: 3 }), 'torch.add(a, b, alpha=3)');
row('sub', [input([2, 3]), input([3])], (a, b) => a.sub(b, { alpha: 2.5 }), 'torch.sub(a, b, alpha=2.5)');
row('add', [input([0, 3]), input([3])], (a, b) => a.add(b), 'a + b');
row('add', [ints([3], 0, 9, 'u8')], (a) => a.add(-1), 'a + (-1)');
row('mul', [ints([3], 0, 9, 'i8')], (a) => a.mul(300), 'a * 300');
row('mul', [input([3], 'positive', 'f16')], (a) => a.mul(1e6), 'a * 1e6', { smooth: false });
for (const mode of ['trunc', 'floor'] as const) {
  row(
    'div',
    [ints([2, 4], -9, 9), ints([4], 1, 5)],
    (a, b) => a.div(b, { roundingMode: mode }),
    `torch.div(a, b, rounding_mode='${mode}')`,
  );
  row(
    'div',
    [input([6], FAR), input([6], 'positive')],
    (a, b) => a.div(b, { roundingMode: mode }),
    `torch.div(a, b, rounding_mode='${mode}')`,
  );
}
const SIGNED: readonly [Input, Input] = [
  { shape: [4], dtype: 'i32', fill: [-7, 7, -7, 7] },
  { shape: [4], dtype: 'i32', fill: [2, -2, -2, 2] },
];
for (const op of ['floorDivide', 'remainder', 'fmod'])
  row(op, SIGNED, (a, b) => call[op]!(a, b), `torch.${snake(op)}(a, b)`);
row(
  'pow',
  [
    { shape: [5], dtype: 'i64', fill: [2, -1, 1, 0, 3] },
    { shape: [5], dtype: 'i64', fill: [-1, -3, -1, 5, 3] },
  ],
  (a, b) => a.pow(b),
  'a ** b',
);
for (const n of ['0', '1', '2', '3', '-1', '-2', '0.5', '1.5']) {
  row('pow', [input([4], 'positive')], (a) => a.pow(Number(n)), `a ** ${n}`);
}
row('pow', [input([4])], (a) => a.pow(3), 'a ** 3');
row('pow', [input([3], [0, -1, 'nan'])], (a) => a.pow(0), 'a ** 0', { smooth: false });
row('pow', [input([3], [0, 2, 3])], (a) => a.pow(2), 'a ** 2');
row('pow', [ints([4], 0, 5)], (a) => a.pow(2), 'a ** 2');
row('pow', [ints([4], 0, 5)], (a) => a.pow(0.5), 'a ** 0.5');
row('pow', [input([4])], (a) => tx.pow(2, a), '2 ** a');
row('pow', [input([3], [0, 1, -1])], (a) => tx.pow(0, a), 'torch.pow(0.0, a)', { smooth: false });
row('pow', [bools([3])], (a) => tx.pow(2, a), 'torch.pow(2, a)');

// ---- dtypes that meet

const meetings: readonly [Input, Input][] = [
  [ints([2, 3]), input([])],
  [ints([3], 0, 9, 'i32'), ints([], 0, 9, 'i64')],
  [ints([3], 0, 9, 'u8'), ints([3], -9, 9, 'i8')],
  [input([3], 'normal', 'f16'), input([3], 'normal', 'bf16')],
  [input([3], 'normal', 'bf16'), input([], 'normal', 'f64')],
  [bools([3]), ints([3])],
  [bools([3]), input([3])],
];
for (const inputs of meetings) {
  row('add', inputs, (a, b) => a.add(b), 'a + b', { smooth: false });
  row('lt', inputs, (a, b) => a.lt(b), 'a < b');
  row('where', [bools([3]), ...inputs], (c, a, b) => tx.where(c, a, b), 'torch.where(a, b, c)', { smooth: false });
}
row('mul', [ints([3])], (a) => a.mul(1.5), 'a * 1.5');
row('mul', [input([3], 'normal', 'bf16')], (a) => a.mul(1.5), 'a * 1.5', { smooth: false });
row('add', [bools([3])], (a) => a.add(1), 'a + 1');
row('add', [bools([3])], (a) => a.add(true), 'a + True');
row('div', [bools([3])], (a) => a.div(2), 'a / 2');

// ---- three operands

row('addcmul', [input([2, 3]), input([3]), input([2, 1])], (a, b, c) => a.addcmul(b, c), 'torch.addcmul(a, b, c)');
row(
  'addcmul',
  [input([3]), input([3]), input([3])],
  (a, b, c) => a.addcmul(b, c, { value: 0.5 }),
  'torch.addcmul(a, b, c, value=0.5)',
);
row(
  'addcmul',
  [ints([3]), ints([3]), ints([3])],
  (a, b, c) => a.addcmul(b, c, { value: 2 }),
  'torch.addcmul(a, b, c, value=2)',
);
row(
  'addcdiv',
  [input([2, 3]), input([3]), input([2, 1], 'positive')],
  (a, b, c) => a.addcdiv(b, c),
  'torch.addcdiv(a, b, c)',
);
row(
  'addcdiv',
  [input([3]), input([3]), input([3], 'positive')],
  (a, b, c) => a.addcdiv(b, c, { value: 0.5 }),
  'torch.addcdiv(a, b, c, value=0.5)',
);
row('lerp', [input([2, 3]), input([3])], (a, b) => a.lerp(b, 0.3), 'torch.lerp(a, b, 0.3)');
row('lerp', [input([2, 3]), input([3])], (a, b) => a.lerp(b, 0.75), 'torch.lerp(a, b, 0.75)');
row('lerp', [input([4]), input([4]), input([4], [0, 1, 0.25, -1.5])], (a, b, c) => a.lerp(b, c), 'torch.lerp(a, b, c)');
const CLAMPED = input([5], [-2, -0.5, 0.25, 0.75, 3]);
row('clamp', [CLAMPED], (a) => a.clamp(0, 1), 'torch.clamp(a, 0, 1)');
row('clamp', [CLAMPED], (a) => a.clamp({ min: 0 }), 'torch.clamp(a, min=0)');
row('clamp', [CLAMPED], (a) => a.clamp({ max: 0.5 }), 'torch.clamp(a, max=0.5)');
row('clampMin', [CLAMPED], (a) => a.clampMin(0), 'torch.clamp_min(a, 0)');
row('clampMin', [ints([4])], (a) => a.clampMin(1.5), 'torch.clamp_min(a, 1.5)');
row('clampMax', [CLAMPED, input([1], [0.5])], (a, b) => a.clampMax(b), 'torch.clamp_max(a, b)');
row('clamp', [input([5], [1, 2, 3, 0, 'inf'])], (a) => a.clamp(1, 3), 'torch.clamp(a, 1, 3)', { smooth: false });
row('clamp', [input([3], [1, 2, 3])], (a) => a.clamp(2.5, 1.5), 'torch.clamp(a, 2.5, 1.5)', { smooth: false });
row('clamp', [input([2], [1, 'nan'])], (a) => a.clamp(Number.NaN), "torch.clamp(a, float('nan'))", { grad: false });
row('clamp', [ints([4])], (a) => a.clamp(-2, 3), 'torch.clamp(a, -2, 3)');
row('clamp', [ints([4])], (a) => a.clamp({ min: 1.5 }), 'torch.clamp(a, min=1.5)');
row(
  'clamp',
  [input([5], [1, 2, 3, 1, 0]), input([5], [1, 2.5, 0, 5, 3]), input([5], [2, 3, 2, 4, 3.5])],
  (a, b, c) => a.clamp(b, c),
  'torch.clamp(a, b, c)',
  { smooth: false },
);
row('clamp', [input([2, 3]), input([3], [-0.1, 0, 0.1])], (a, b) => a.clamp({ max: b }), 'torch.clamp(a, max=b)');

// ---- truth and bits

for (const op of ['eq', 'ne', 'lt', 'le', 'gt', 'ge']) {
  row(
    op,
    [input([5], [1, 2, 'nan', 'inf', 0]), input([5], [1, 3, 'nan', 'inf', -1])],
    (a, b) => call[op]!(a, b),
    `torch.${op}(a, b)`,
  );
  row(op, [ints([2, 4], 0, 3), ints([4], 0, 3)], (a, b) => call[op]!(a, b), `torch.${op}(a, b)`);
  row(op, [ints([4], 0, 3, 'u8')], (a) => call[op]!(a, 1), `torch.${op}(a, 1)`);
  row(op, [bools([5]), bools([5])], (a, b) => call[op]!(a, b), `torch.${op}(a, b)`);
}
for (const op of ['logicalAnd', 'logicalOr', 'logicalXor']) {
  row(op, [bools([5]), bools([5])], (a, b) => call[op]!(a, b), `torch.${snake(op)}(a, b)`);
  row(op, [input([4], [0, 1, 'nan', 0]), ints([4], 0, 2)], (a, b) => call[op]!(a, b), `torch.${snake(op)}(a, b)`);
}
row('logicalNot', [bools([4])], (a) => a.logicalNot(), 'torch.logical_not(a)');
row('logicalNot', [input([3], [0, 1, 'nan'])], (a) => a.logicalNot(), 'torch.logical_not(a)');
for (const op of ['bitwiseAnd', 'bitwiseOr', 'bitwiseXor']) {
  row(op, [ints([2, 3]), ints([3])], (a, b) => call[op]!(a, b), `torch.${snake(op)}(a, b)`);
  row(op, [ints([3], 0, 200, 'u8')], (a) => call[op]!(a, 12), `torch.${snake(op)}(a, 12)`);
  row(op, [bools([5]), bools([5])], (a, b) => call[op]!(a, b), `torch.${snake(op)}(a, b)`);
}
row('bitwiseNot', [ints([4])], (a) => a.bitwiseNot(), 'torch.bitwise_not(a)');
row('bitwiseNot', [bools([4])], (a) => a.bitwiseNot(), 'torch.bitwise_not(a)');
const SHIFTS: readonly [Input, Input] = [
  { shape: [5], dtype: 'i32', fill: [1, -8, 1, -8, 5] },
  { shape: [5], dtype: 'i32', fill: [31, 1, 32, 40, 2] },
];
for (const op of ['bitwiseLeftShift', 'bitwiseRightShift']) {
  row(op, SHIFTS, (a, b) => call[op]!(a, b), `torch.${snake(op)}(a, b)`);
  row(op, [ints([4], 0, 250, 'u8')], (a) => call[op]!(a, 2), `torch.${snake(op)}(a, 2)`);
}
for (const op of ['isnan', 'isinf', 'isfinite', 'isposinf', 'isneginf', 'signbit']) {
  for (const dtype of ['f32', 'bf16', 'f64'] as const)
    row(op, [input([5], [0, -2, 'inf', '-inf', 1], dtype)], (a) => call[op]!(a), `torch.${op}(a)`);
  row(op, [ints([3])], (a) => call[op]!(a), `torch.${op}(a)`);
  row(op, [bools([3])], (a) => call[op]!(a), `torch.${op}(a)`);
}
row('isnan', [input([2], ['nan', 1])], (a) => a.isnan(), 'torch.isnan(a)');
row('isfinite', [input([2], ['nan', 1])], (a) => a.isfinite(), 'torch.isfinite(a)');
const NEAR: readonly [Input, Input] = [
  input([6], [1, 1, 1, 'nan', 'inf', 0]),
  input([6], [1.000001, 1.1, 1, 'nan', 'inf', 1e-9]),
];
row('isclose', NEAR, (a, b) => a.isclose(b), 'torch.isclose(a, b)');
row(
  'isclose',
  NEAR,
  (a, b) => a.isclose(b, { rtol: 0, atol: 0.2, equalNan: true }),
  'torch.isclose(a, b, rtol=0, atol=0.2, equal_nan=True)',
);
const said = (python: string) => `torch.tensor(${python})`; // torch answers with a boolean of Python's
for (const [x, y] of [
  [input([3]), input([3])],
  [input([], [1.5]), input([], [1.5])],
  [input([2], [1, 2]), input([2], [1, 2.0000001], 'f64')],
  [input([1], ['nan']), input([1], ['nan'])],
  [input([2]), input([2, 1])],
  [ints([2], 3, 4), input([2], [3, 3])],
  [input([0]), input([0])],
] as const) {
  row('equal', [x, y], (a, b) => a.equal(b), said('torch.equal(a, b)'), { grad: false });
  row('equal', [x], (a) => a.equal(a.clone()), said('torch.equal(a, a.clone())'), { grad: false });
}
row('allclose', NEAR, (a, b) => a.allclose(b), said('torch.allclose(a, b)'));
row(
  'allclose',
  NEAR,
  (a) => a.allclose(a.add(1e-7), { equalNan: true }),
  said('torch.allclose(a, a + 1e-7, equal_nan=True)'),
);
row(
  'allclose',
  [input([2], [1, 2])],
  (a) => a.allclose(a.add(0.05), { rtol: 0, atol: 0.1 }),
  said('torch.allclose(a, a + 0.05, rtol=0, atol=0.1)'),
  { grad: false },
);
row('isclose', [ints([4], 0, 3), ints([4], 0, 3)], (a, b) => a.isclose(b), 'torch.isclose(a, b)');

row('where', [bools([2, 1]), input([3]), input([2, 3])], (c, a, b) => tx.where(c, a, b), 'torch.where(a, b, c)');
row('where', [bools([4])], (c) => tx.where(c, 1, 2), 'torch.where(a, 1, 2)');
row('where', [bools([4]), input([4])], (c, a) => tx.where(c, a, 0.5), 'torch.where(a, b, 0.5)');
row('where', [bools([4]), ints([4])], (c, a) => c.where(a, 0.5), 'torch.where(a, b, 0.5)');
row('where', [input([2, 4]), bools([4]), input([1, 4])], (x, c, y) => x.where(c, y), 'a.where(b, c)');
row('where', [input([4]), bools([4])], (x, c) => x.where(c, 0), 'a.where(b, 0.)');
row('where', [bools([4]), bools([4]), bools([4])], (x, c, y) => x.where(c, y), 'a.where(b, c)');
row('where', [ints([4]), bools([2, 1])], (x, c) => x.where(c, 1.5), 'a.where(b, 1.5)');
// NaN in the branch that is not taken, and the usual way to keep it from the gradient.
row(
  'where',
  [input([3], [0, 1, 4])],
  (a) => tx.where(a.gt(0), tx.where(a.gt(0), a, 1).sqrt(), a),
  'torch.where(a > 0, torch.where(a > 0, a, 1.0).sqrt(), a)',
  { smooth: false },
);
row('where', [input([3], [-1, 1, 4])], (a) => tx.where(a.gt(0), a.sqrt(), a), 'torch.where(a > 0, a.sqrt(), a)', {
  smooth: false,
});
row('maskedFill', [input([2, 3]), bools([3])], (a, m) => a.maskedFill(m, -1.5), 'a.masked_fill(b, -1.5)');
row(
  'maskedFill',
  [input([3]), bools([2, 3])],
  (a, m) => a.maskedFill(m, Number.NEGATIVE_INFINITY),
  "a.masked_fill(b, float('-inf'))",
  { smooth: false },
);
row(
  'maskedFill',
  [input([2, 3], 'normal', 'bf16'), bools([2, 3]), input([])],
  (a, m, v) => a.maskedFill(m, v),
  'a.masked_fill(b, c)',
  { smooth: false },
);
row('maskedFill', [ints([4]), bools([4])], (a, m) => a.maskedFill(m, 1.5), 'a.masked_fill(b, 1.5)');

// ---- numbers that were once wrong

const EDGE: RowOptions = { smooth: false };
const EXACT: RowOptions = { grad: false, tolerance: 0 };
const powers = (base: number, most: number) => [-most, -13, -3, -2, -1, 0, 1, 2, 3, 13, most].map((n) => base ** n);
for (const [dtype, two, ten] of [
  ['f32', 126, 37],
  ['f64', 1000, 300],
] as const) {
  row('log2', [input([11], powers(2, two), dtype)], (a) => a.log2(), 'torch.log2(a)', EXACT);
  row('log10', [input([11], powers(10, ten), dtype)], (a) => a.log10(), 'torch.log10(a)', EXACT);
}
row('erf', [input([8], [1.5, 3, 3.9, 4, 5, 10, -5, -10])], (a) => a.erf(), 'torch.erf(a)', {
  grad: false,
  tolerance: 1e-7,
});
const SMALL: Fill = [-11.25, -11.5, -12, -13];
row('sigmoid', [input([4], SMALL, 'f16')], (a) => a.sigmoid(), 'torch.sigmoid(a)', EDGE);
row('i0', [input([4], [11.25, 11.5, 12, -12], 'f16')], (a) => a.i0(), 'torch.i0(a)', { grad: false });
row('expm1', [input([3], [-15, -20, -30])], (a) => a.expm1().mul(1e6), 'torch.exp(a) * 1e6 - 1e6', {
  ...EDGE,
  tolerance: 1e-6,
});
row('pow', [ints([4], 2, 9, 'i16'), ints([4], 60, 200, 'i16')], (a, b) => a.pow(b), 'torch.pow(a, b)');
row('pow', [ints([4], -9, 9), ints([4], 60, 2 ** 40)], (a, b) => a.pow(b), 'torch.pow(a, b)');
row('pow', [input([3], [100, 64, 3], 'i64')], (a) => tx.pow(2, a), 'torch.pow(2, a)');
row(
  'pow',
  [input([4], [3, 7, 5, 2], 'u8'), input([4], [255, 128, 200, 64], 'u8')],
  (a, b) => a.pow(b),
  'torch.pow(a, b)',
);
row('pow', [ints([4], -9, 9, 'i32')], (a) => a.pow(300), 'torch.pow(a, 300)');
row(
  'pow',
  [input([5], [0, 1, -1, 2, -3], 'i32')],
  (a) => a.pow(tx.full([5], -3, { dtype: 'i32' })),
  'torch.pow(a, torch.full((5,), -3, dtype=torch.int32))',
);
row('pow', [ints([1])], () => tx.pow(-1, tx.full([1], -3, { dtype: 'i64' })), 'torch.pow(-1, torch.tensor([-3]))');
const NOT_FINITE: Fill = ['inf', 'nan', '-inf', 'inf'];
row('mul', [bools([4]), input([4], NOT_FINITE)], (a, b) => a.mul(b), 'a * b', EDGE);
row('div', [bools([4])], (a) => a.div(0), 'a / 0');
const NANS: Fill = ['nan', 1, 5, -5];
row('clamp', [input([4], NANS)], (a) => a.clamp(0, 2), 'a.clamp(0, 2)', EDGE);
row('clamp', [input([4], NANS), input([4], [0, 'nan', 1, 1])], (a, b) => a.clamp({ min: b }), 'a.clamp(min=b)', EDGE);
// A JavaScript number is not rounded to a small float before it multiplies.
const LARGE = input([4], [60000, -40000, 1000, 20], 'f16');
row('mul', [LARGE], (a) => a.mul(1e-8), 'a * 1e-8', EDGE);
row('div', [LARGE], (a) => a.div(1e8), 'a / 1e8', EDGE);
row('mul', [input([4], [256, 513, 100, 3], 'bf16')], (a) => a.mul(0.1), 'a * 0.1', { ...EDGE, tolerance: 0 });
row('floorDivide', [input([4], [1, -1, 2, 0.5], 'f16')], (a) => a.floorDivide(0.1), 'torch.floor_divide(a, 0.1)', {
  grad: false,
});
row('hypot', [input([3], ['inf', 'nan', 'nan']), input([3], ['nan', '-inf', 1])], (a, b) => a.hypot(b), 'a.hypot(b)', {
  grad: false,
});
row('isclose', [bools([4]), bools([4])], (a, b) => a.isclose(b), 'torch.isclose(a, b)');
row(
  'isclose',
  [input([2], [0, 2147483647], 'i32'), input([2], [-2147483648, -1], 'i32')],
  (a, b) => a.isclose(b),
  'torch.isclose(a, b)',
);
row('ldexp', [input([3], 'normal', 'f16'), ints([3], 0, 4, 'i32')], (a, b) => a.ldexp(b), 'torch.ldexp(a, b)', EDGE);
row(
  'ldexp',
  [input([3], [1e-30, 1, -2e-20]), input([3], [200, -100, 150], 'i64')],
  (a, b) => a.ldexp(b),
  'torch.ldexp(a, b)',
  { grad: false },
);
row('ldexp', [input([2], [1, 3]), input([2], ['inf', '-inf'])], (a, b) => a.ldexp(b), 'torch.ldexp(a, b)', {
  grad: false,
});
const WIDE = [ints([4], 0, 200, 'u8'), input([4], [100, 127, -128, -100], 'i8')];
row('add', WIDE, (a, b) => a.add(b, { alpha: 2 }), 'torch.add(a, b, alpha=2)');
row('sub', WIDE, (a, b) => a.sub(b, { alpha: 3 }), 'torch.sub(a, b, alpha=3)');
row('add', [bools([4]), bools([4])], (a, b) => a.add(b, { alpha: 2 }), 'torch.add(a, b, alpha=2)');
row('addcmul', WIDE, (a, b) => a.addcmul(b, b, { value: 2 }), 'torch.addcmul(a, b, b, value=2)');
row(
  'div',
  [input([4], [0, 1, -3, 2]), input([4], [0, 0, 2, 'nan'])],
  (a, b) => a.div(b, { roundingMode: 'trunc' }),
  "torch.div(a, b, rounding_mode='trunc')",
  EDGE,
);
for (const n of [1, 2, 3, 4]) {
  const edges = input([4], ['inf', '-inf', 0, 'nan']);
  row('polygamma', [edges], (a) => a.polygamma(n), `torch.polygamma(${n}, a)`, { grad: false });
}

// ---- numbers.ts
row('rsub', [input([2, 3]), input([3])], (a, b) => a.rsub(b, { alpha: 2 }), 'torch.rsub(a, b, alpha=2)');
row('rsub', [ints([3])], (a) => a.rsub(1), 'torch.rsub(a, 1)');
row('floatPower', [input([4], 'positive'), input([4])], (a, b) => a.floatPower(b), 'torch.float_power(a, b)', {
  smooth: false,
});
row('floatPower', [ints([4])], (a) => a.floatPower(2), 'torch.float_power(a, 2)');
row('gcd', [ints([2, 5], -60, 60), ints([5], -60, 60)], (a, b) => a.gcd(b), 'torch.gcd(a, b)');
row('gcd', [input([4], [0, 12, 0, -18], 'i32')], (a) => a.gcd(0), 'torch.gcd(a, torch.zeros_like(a))');
row('gcd', [ints([6], 0, 200, 'u8'), ints([6], 0, 200, 'u8')], (a, b) => tx.gcd(a, b), 'torch.gcd(a, b)');
row('lcm', [ints([2, 5], -60, 60), ints([5], -60, 60)], (a, b) => a.lcm(b), 'torch.lcm(a, b)');
row(
  'lcm',
  [input([4], [0, 12, 0, -18], 'i64'), input([4], [0, 8, 3, 0], 'i64')],
  (a, b) => tx.lcm(a, b),
  'torch.lcm(a, b)',
);
row('frexp', [input([6], [0, 1, -3.7, 100.5, 0.3, -0.5])], (a) => [...a.frexp()], 'torch.frexp(a.detach())', {
  grad: false,
});
row('frexp', [input([3], [0.1, -3.7, 9], 'f64')], (a) => a.frexp().mantissa, 'torch.frexp(a)[0]', { smooth: false });
const SHAPES = input([8], [0.5, 1, 2.5, 4, 9, 30, 0.1, 3]);
const POINTS = input([8], [0.2, 2, 2, 9, 4, 33, 1.5, 3]);
row('igamma', [SHAPES, POINTS], (a, b) => tx.igamma(a.detach(), b), 'torch.igamma(a.detach(), b)', {
  smooth: false,
  tolerance: 5e-5,
});
row('igammac', [SHAPES, POINTS], (a, b) => tx.igammac(a.detach(), b), 'torch.igammac(a.detach(), b)', {
  smooth: false,
  tolerance: 5e-5,
});
for (const op of ['igamma', 'igammac'] as const) {
  const ends = [input([8], [1, 1, 0, 0, 'inf', 1, -1, 'inf']), input([8], [0, 'inf', 1, 0, 2, 'nan', 1, 'inf'])];
  row(op, ends, (a, b) => a[op](b), `torch.${op}(a, b)`, { grad: false });
}
