// The cost of a graph's matrix products on a device: how much of a TPU's matrix unit and memory is padding, and how much is
// computed in f32.
import { findChip, TPU_TILE, type TpuName } from '../base/chips.js';
import { DTYPES } from '../base/dtype.js';
import { flops as showFlops } from '../base/format.js';
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import type { Graph } from '../ir/graph.js';
import { placeOf } from '../ir/source.js';
import { Body } from '../ops/prim/body.js';
import type { Convolution } from '../ops/prim/convolution.js';
import type { MatmulPrecision } from '../ops/prim/precision.js';
import type { Finding } from './rules.js';

/** A product of matrices [m, k] and [k, n], and how often it is computed. */
export interface Product {
  readonly node: Expr;
  readonly times: number;
  readonly m: number;
  readonly k: number;
  readonly n: number;
  /** The sizes chosen by the user, if they are not m, k and n. */
  readonly features?: readonly number[];
}

type Dims = readonly number[];
interface Dot {
  readonly batch: readonly [Dims, Dims];
  readonly sum: readonly [Dims, Dims];
  readonly precision?: MatmulPrecision | undefined;
}
const sizeIn = ({ shape }: Expr, dims: Dims): number => dims.reduce((size, d) => size * shape[d]!, 1);

const PRODUCTS: Readonly<Record<string, (e: Expr, times: number) => Product>> = {
  dotGeneral(node, times) {
    const [a, b] = node.inputs as [Expr, Expr];
    const { batch, sum } = node.attrs as Dot;
    const [size, k] = [sizeIn(a, batch[0]), sizeIn(a, sum[0])];
    return { node, times: times * size, m: a.aval.size / size / k, k, n: b.aval.size / size / k };
  },
  /** The product that XLA may turn it into: sums over the window together with the features. */
  convolution(node, times) {
    const c = node.attrs as Convolution;
    const [x, kernel] = node.inputs as [Expr, Expr];
    const [groups, out] = [c.featureGroups * c.batchGroups, kernel.shape[c.kernel.batch]!];
    const k = kernel.aval.size / out;
    const features = [x.shape[c.x.feature]!, out];
    return { node, times: times * groups, m: node.aval.size / out, k, n: out / groups, features };
  },
  /** Each row is multiplied by one matrix, for any number of groups. */
  groupedDot(node, times) {
    const [m, k] = node.inputs[0]!.shape as [number, number];
    return { node, times, m, k, n: node.shape[1]! };
  },
  groupedOuter(node, times) {
    const [k, m] = node.inputs[0]!.shape as [number, number];
    return { node, times, m, k, n: node.shape[2]! };
  },
};

/** All products of a graph; those in loop bodies count as often as they run. */
export function productsOf(graph: Graph, isGiven: (e: Expr) => boolean = () => false, times = 1): Product[] {
  return graph.nodes.flatMap((e) => {
    if (isGiven(e)) return [];
    const product = PRODUCTS[e.op.name];
    if (product) return e.inputs.every((x) => x.aval.size) ? [product(e, times)] : [];
    return bodiesOf(e.attrs).flatMap(({ body, passes }) => productsOf(body.graph, undefined, times * passes));
  });
}

/** The bodies of scans (with their number of passes), loops, branches and checkpoints. */
function bodiesOf(attrs: unknown): { body: Body; passes: number }[] {
  const { body, branches = [], length = 1 } = (attrs ?? {}) as { body?: Body; branches?: Body[]; length?: number };
  if (body instanceof Body) return [{ body, passes: length }];
  return branches.map((branch) => ({ body: branch, passes: 1 / branches.length }));
}

const flopsOf = ({ m, k, n, times }: Product): number => 2 * m * k * n * times;
const total = (products: readonly Product[], of: (p: Product) => number): number =>
  products.reduce((sum, p) => sum + of(p), 0);
export const totalFlops = (products: readonly Product[]): number => total(products, flopsOf);

// ---- the shape of a TPU

const up = (n: number, to: number): number => Math.ceil(n / to) * to;

/** The sizes of a product, rounded up for the matrix unit: the contracted one and one other; rows of the third stream through. */
function inUnit({ m, k, n }: Product, array: number): { readonly m: number; readonly k: number; readonly n: number } {
  if (m === 1 || k === 1 || n === 1) return { m, k, n }; // XLA multiplies elementwise and sums instead
  const either = m * up(n, array) <= up(m, array) * n ? { m, n: up(n, array) } : { m: up(m, array), n };
  return { ...either, k: up(k, array) };
}

/** The bytes of an array in tiles of 8 x 128, with its dimensions in the order that pads least, as XLA chooses it. */
export function tiledBytes({ shape, size, dtype }: Aval): number {
  const pad = (dim: number, to: number) => up(shape[dim]!, to) / shape[dim]!;
  const pads = shape.flatMap((_, lanes) =>
    shape.flatMap((_, rows) => (rows === lanes ? [] : [pad(lanes, TPU_TILE.columns) * pad(rows, TPU_TILE.rows)])),
  );
  return (pads.length ? Math.min(...pads) : 1) * size * DTYPES[dtype].bytes;
}
const arraysOf = ({ node }: Product): Aval[] => [...node.inputs, node].map((e) => e.aval);
const bytesOf = (p: Product, of: (aval: Aval) => number): number =>
  arraysOf(p).reduce((sum, aval) => sum + of(aval), 0);
const plainBytes = ({ size, dtype }: Aval): number => size * DTYPES[dtype].bytes;

// ---- the rules

const TOO_MUCH = 0.1;

/** Findings for the products of a program, on a TPU of this name or kind; without one, on a GPU. */
export function checkProducts(products: readonly Product[], name: string, chip?: string): Finding[] {
  if (!products.length) return [];
  return [
    ...(chip ? checkLanes(products, name, findChip(chip)?.matrixUnit ?? 128) : []),
    ...checkPrecision(products, name, chip !== undefined),
  ];
}

function checkLanes(products: readonly Product[], name: string, array: number): Finding[] {
  const padded = (p: Product) => flopsOf({ ...p, ...inUnit(p, array) });
  const work = total(products, padded) / totalFlops(products) - 1;
  const memory = total(products, (p) => bytesOf(p, tiledBytes)) / total(products, (p) => bytesOf(p, plainBytes)) - 1;
  if (Math.max(work, memory) < TOO_MUCH) return [];
  const waste = (p: Product) =>
    work >= memory ? padded(p) - flopsOf(p) : bytesOf(p, tiledBytes) - bytesOf(p, plainBytes);
  const worst = most(products, waste);
  const odd = oddSizes(worst, array);
  const all = products.filter((p) => waste(p) > 0).length;
  return [
    {
      rule: 'lanes',
      place: placeOf(worst.node.source),
      what: `${name}: ${show(worst)}${all > 1 ? ` (and ${all - 1} more)` : ''}: not multiples of ${array}: ${odd.join(', ')}`,
      cost: `of its products at least ${percent(work)} more work in the matrix unit, and ${percent(memory)} more memory`,
      fix: `make feature sizes multiples of ${array}: ${odd.map((n) => `${up(n, array)} for ${n}`).join(', ')}`,
    },
  ];
}
/** The sizes of a product that need rounding up. */
function oddSizes(p: Product, array: number): number[] {
  const wide = inUnit(p, array);
  const sizes = p.features ?? (['k', 'n', 'm'] as const).filter((d) => wide[d] !== p[d]).map((d) => p[d]);
  const odd = sizes.filter((n) => n % array);
  return [...new Set(odd.length ? odd : arraysOf(p).flatMap(({ shape }) => shape.filter((n) => n % array)))];
}

function checkPrecision(products: readonly Product[], name: string, onTpu: boolean): Finding[] {
  const wide = products.filter(({ node }) => isWide(node));
  const share = totalFlops(wide) / totalFlops(products);
  if (share <= 0.5) return [];
  const largest = most(wide, flopsOf);
  return [
    {
      rule: 'precision',
      place: placeOf(largest.node.source),
      what: `${name}: ${percent(share)} of ${showFlops(totalFlops(products))} are products in f32, the largest ${show(largest)}`,
      cost: 'twice the memory and the traffic of bf16, and a matrix unit that is made for bf16',
      fix: `convert weights and inputs to bf16: x.to('bf16')${onTpu ? '' : ", or allow TF32: tx.setFloat32MatmulPrecision('high')"}`,
    },
  ];
}
/** Whether a product is in f32 without a request for full precision. */
const isWide = ({ inputs, attrs }: Expr): boolean =>
  inputs[0]!.dtype === 'f32' && (attrs as Dot).precision !== 'highest';
/** Whether a product has the device's default precision: a TPU rounds f32 operands to bf16. */
export const isRounded = ({ node: { inputs, attrs } }: Product): boolean =>
  inputs[0]!.dtype === 'f32' && !(attrs as Dot).precision;

const most = (products: readonly Product[], of: (p: Product) => number): Product =>
  products.reduce((best, p) => (of(p) > of(best) ? p : best));
const percent = (share: number): string => `${Math.round(share * 100)}%`;
const names: Readonly<Record<string, string>> = { dotGeneral: 'matmul' };
const show = ({ node }: Product): string =>
  `${names[node.op.name] ?? node.op.name} ${node.inputs.map((x) => x.aval).join(' x ')}`;

/** Findings of the rules for products for a graph on a chip, which this machine need not have. */
export const checkGraph = (graph: Graph, isGiven: (e: Expr) => boolean, chip: TpuName, name = 'the graph'): Finding[] =>
  checkProducts(productsOf(graph, isGiven), name, chip);
