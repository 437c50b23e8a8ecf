// Low-rank scales: computes one scale for each group of weights along the inputs, and the nearest product of two thin matrices.
// A group's scale is repeated over its members, so only the small matrix of groups is decomposed, with each column weighted by the
// square root of its group's size. Runs once, on the host, in f64.
import { ArgumentError } from '../base/errors.js';
import { compute } from '../step/sync.js';
import { foriLoop } from '../tensor/control.js';
import { ones, tensor } from '../tensor/create.js';
import { pad } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { snap } from './lut.js';

/** scales [out, in] of which each row is groups [out, G] with column g repeated sizes[g] times. */
export interface GroupScales {
  /** [layers * out * G] */
  readonly values: Float32Array;
  readonly layers: number;
  readonly out: number;
  readonly sizes: readonly number[];
}

/** max: the largest weight of a group gets the outermost level. best: the scale with the least error, searched from there. */
export type ScaleInit = 'max' | 'best';
/** The options of quantization with a table of levels. */
export interface LevelOptions {
  /** Number of levels: 4 (2 bits) or 16 (4 bits). Default: 16. */
  readonly lutSize?: number;
  /** Number of weights along the inputs that initially share a scale. */
  readonly groupSize?: number;
  /**
   * How the initial scale is chosen: 'best' has the least error, 'max' fits the largest weight, as in the original. Default:
   * 'best' up to 4 levels, 'max' for more, which measured better.
   */
  readonly init?: ScaleInit;
  /** Whether 0 is a level. Default: false. */
  readonly includeZero?: boolean;
}
export function checkInit(layer: string, init: ScaleInit): void {
  if (init !== 'max' && init !== 'best')
    throw new ArgumentError(`${layer}: init is '${init}': it must be 'best' or 'max'`);
}
const ROUNDS = 12;

/** A scale for each group of groupSize weights along the inputs of a weight [..., out, in], under these levels. */
export async function groupScales(
  weight: Tensor,
  groupSize: number,
  levels: readonly number[],
  init: ScaleInit,
): Promise<GroupScales> {
  const [out, width] = weight.shape.slice(-2) as [number, number];
  const groups = Math.ceil(width / groupSize);
  const sizes = Array.from({ length: groups }, (_, g) => Math.min(groupSize, width - g * groupSize));
  const grouped = (t: Tensor) => pad(t, [0, groups * groupSize - width]).reshape([-1, t.size(-2), groups, groupSize]);
  const w = grouped(weight.detach().float()); // [layers, out, G, groupSize]
  const real = grouped(ones([1, width])); // 0 for the padding of the last group
  const most = Math.max(...levels.map(Math.abs));
  const start = w.abs().amax(-1, true).div(most).clamp({ min: LEAST });
  const lut = tensor(levels, { dtype: 'f32' });
  // Lloyd's method: the best levels for these scales, then the best scales for those levels.
  const better = (scale: Tensor): Tensor => {
    const q = snap(w.div(scale), lut).mul(real);
    const [up, down] = [w.mul(q).sum(-1, true), q.square().sum(-1, true)];
    return up.div(down.clamp({ min: 1e-12 })).clamp({ min: LEAST });
  };
  const scales = init === 'max' ? start : foriLoop(0, ROUNDS, (_, scale: Tensor) => better(scale), start);
  await compute('quantize', scales);
  return { values: (await scales.data()) as Float32Array, layers: w.size(0), out, sizes };
}
const LEAST = 1e-8;

/** left [out, rank] with columns of length 1, magnitudes [rank], right [rank, in] with rows of length 1. */
export interface Factors {
  readonly left: Float32Array;
  readonly magnitudes: Float64Array;
  readonly right: Float32Array;
}

/** The nearest product of the given rank to one layer's scales; with `positive`, a near one without negative factors. */
export function factorize({ values, out, sizes }: GroupScales, layer: number, rank: number, positive = false): Factors {
  const G = sizes.length;
  const width = sizes.reduce((a, b) => a + b);
  const m = new Float64Array(out * G);
  for (let i = 0; i < m.length; i++) m[i] = values[layer * m.length + i]! * Math.sqrt(sizes[i % G]!);
  const { u, s, v } = positive ? positiveFactors(m, out, G, rank) : singular(m, out, G, rank);
  const left = new Float32Array(out * rank);
  const right = new Float32Array(rank * width);
  for (let k = 0; k < rank; k++) {
    // Ranks that the scales do not need start with magnitude 0, which can be learned, and an arbitrary direction.
    const spare = !(s[k]! > 1e-7 * s[0]!);
    if (spare) s[k] = 0;
    for (let i = 0; i < out; i++) left[i * rank + k] = spare ? wave(k, i, out) : u[k]![i]!;
    for (let g = 0, j = 0; g < G; g++)
      for (let end = j + sizes[g]!; j < end; j++)
        right[k * width + j] = spare ? wave(k, j, width) : v[k]![g]! / Math.sqrt(sizes[g]!);
  }
  return { left, magnitudes: s, right };
}
/** A cosine of length 1; the directions of different k < n differ. */
const wave = (k: number, i: number, n: number): number =>
  Math.sqrt((k % n === 0 ? 1 : 2) / n) * Math.cos((Math.PI * (k % n) * (i + 0.5)) / n);

interface Decomposed {
  /** `rank` vectors of length out. */
  readonly u: readonly Float64Array[];
  readonly s: Float64Array;
  /** `rank` vectors of length G. */
  readonly v: readonly Float64Array[];
}
/** Singular values and vectors of m [rows, n], largest first, computed from the eigenvectors of m' m. */
function singular(m: Float64Array, rows: number, n: number, rank: number): Decomposed {
  const gram = new Float64Array(n * n);
  for (let r = 0; r < rows; r++)
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) gram[i * n + j]! += m[r * n + i]! * m[r * n + j]!;
  const vectors = eigenvectors(gram, n);
  const order = Array.from({ length: n }, (_, i) => i).sort((a, b) => gram[b * n + b]! - gram[a * n + a]!);
  const v = order.slice(0, rank).map((k) => vectors.subarray(k * n, k * n + n));
  const s = new Float64Array(rank);
  const u = v.map((vector, k) => {
    const product = new Float64Array(rows);
    for (let r = 0; r < rows; r++) for (let i = 0; i < n; i++) product[r]! += m[r * n + i]! * vector[i]!;
    s[k] = length(product);
    return product.map((x) => x / (s[k]! || 1));
  });
  return { u, s, v };
}
const dot = (x: Float64Array, y: Float64Array): number => x.reduce((sum, a, i) => sum + a * y[i]!, 0);
const length = (x: Float64Array): number => Math.sqrt(dot(x, x));

/** Jacobi's method: a becomes diagonal; the rows of the result are its eigenvectors. */
function eigenvectors(a: Float64Array, n: number): Float64Array {
  const v = Float64Array.from({ length: n * n }, (_, i) => (i % (n + 1) === 0 ? 1 : 0));
  const rotate = (x: Float64Array, i: number, j: number, c: number, s: number): void => {
    const [p, q] = [x[i]!, x[j]!];
    x[i] = c * p - s * q;
    x[j] = s * p + c * q;
  };
  for (let sweep = 0; sweep < 30; sweep++) {
    let off = 0;
    for (let p = 0; p < n; p++)
      for (let q = p + 1; q < n; q++) {
        const [app, aqq, apq] = [a[p * n + p]!, a[q * n + q]!, a[p * n + q]!];
        if (Math.abs(apq) <= 1e-16 * Math.sqrt(Math.abs(app * aqq))) continue;
        off++;
        const theta = (aqq - app) / (2 * apq);
        const t = Math.sign(theta || 1) / (Math.abs(theta) + Math.hypot(theta, 1));
        const c = 1 / Math.hypot(t, 1);
        for (let k = 0; k < n; k++) rotate(a, k * n + p, k * n + q, c, t * c);
        for (let k = 0; k < n; k++) rotate(a, p * n + k, q * n + k, c, t * c);
        for (let k = 0; k < n; k++) rotate(v, p * n + k, q * n + k, c, t * c);
      }
    if (off === 0) break;
  }
  return v;
}

/** Lee and Seung's multiplicative updates, from the absolute values of the singular vectors. */
function positiveFactors(m: Float64Array, rows: number, n: number, rank: number): Decomposed {
  const start = singular(m, rows, n, rank);
  const u = start.u.map((x, k) => x.map((y) => Math.abs(y) * start.s[k]! + 1e-9));
  const v = start.v.map((x) => x.map((y) => Math.abs(y) + 1e-9));
  const r = u.length;
  const improve = (a: Float64Array[], b: Float64Array[], at: (i: number, j: number) => number): void => {
    const products = b.map((x) => b.map((y) => dot(x, y)));
    for (let i = 0; i < a[0]!.length; i++) {
      const now = a.map((x) => x[i]!);
      for (let k = 0; k < r; k++) {
        let wanted = 0;
        for (let j = 0; j < b[k]!.length; j++) wanted += at(i, j) * b[k]![j]!;
        const had = now.reduce((sum, x, l) => sum + x * products[l]![k]!, 0);
        a[k]![i] = now[k]! * (wanted / Math.max(had, 1e-300));
      }
    }
  };
  for (let i = 0; i < 50; i++) {
    improve(u, v, (i, j) => m[i * n + j]!);
    improve(v, u, (j, i) => m[i * n + j]!);
  }
  const s = new Float64Array(rank);
  u.forEach((x, k) => void (s[k] = length(x) * length(v[k]!)));
  const unit = (x: Float64Array) => {
    const l = length(x) || 1;
    return x.map((y) => y / l);
  };
  return { u: u.map(unit), s, v: v.map(unit) };
}
