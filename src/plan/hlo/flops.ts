// The FLOPs of an instruction: exact for matrix products, otherwise by the number of elements of the result.
import { BoundedMap } from '../../base/bounded.js';
import { sizeOf } from '../../base/dtype.js';
import { type Instruction, primitive } from '../../pjrt/hlo-proto.js';
import { type Body, elementsOf, leavesOf, type OptimizedProgram } from './program.js';

/**
 * The unit of a kernel: the matrix unit at one of its precisions, or the vector unit. tf32 is for products of f32 with the
 * device's default precision, f32 for those that must be exact. lookup is also the matrix unit, in bf16: a TPU computes a gather
 * from a small table as a product with ones and zeros, which takes time but is not work of the model.
 */
export type Unit = 'bf16' | 'tf32' | 'f32' | 'int8' | 'lookup' | 'vector';
export type Flops = Readonly<Partial<Record<Unit, number>>>;

// biome-ignore format: a list
const MOVES = new Set([
  'parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast', 'bitcast-convert', 'copy', 'copy-start', 'copy-done',
  'broadcast', 'reshape', 'transpose', 'slice', 'dynamic-slice', 'dynamic-update-slice', 'concatenate', 'pad', 'gather',
  'reverse', 'iota', 'after-all', 'partition-id', 'replica-id', 'optimization-barrier', 'opt-barrier', 'add-dependency',
  'all-gather', 'all-to-all', 'collective-permute', 'async-start', 'async-update', 'async-done', 'custom-call', 'infeed',
  'outfeed', 'send', 'recv', 'send-done', 'recv-done', 'get-dimension-size', 'domain',
]);
// biome-ignore format: a list
const TRANSCENDENTAL = new Set([
  'exponential', 'exponential-minus-one', 'log', 'log-plus-one', 'logistic', 'tanh', 'tan', 'sine', 'cosine', 'power',
  'sqrt', 'rsqrt', 'cbrt', 'atan2', 'erf', 'divide', 'remainder',
]);
/** Functions that take a polynomial of a few steps. */
const STEPS = 4;

export function sum(all: readonly Flops[]): Flops {
  const total: Partial<Record<Unit, number>> = {};
  for (const flops of all)
    for (const [unit, n] of Object.entries(flops) as [Unit, number][]) total[unit] = (total[unit] ?? 0) + n;
  return total;
}

export function flopsOf(program: OptimizedProgram, body: Body, i: Instruction): Flops {
  const made = elementsOf(i.shape);
  switch (i.opcode) {
    case 'fusion':
    case 'call': {
      const inner = program.body(i.called[0]!);
      return sum(inner.order.map((each) => flopsOf(program, inner, each)));
    }
    case 'dot':
      return { [productUnit(program, body, i)]: 2 * made * contracted(body, i, i.dot?.lhs_contracting_dims ?? []) };
    case 'convolution':
      return { [productUnit(program, body, i)]: convolutionFlops(body, i) };
    case 'custom-call':
      return customFlops(program, body, i);
    case 'reduce':
    case 'sort':
    case 'scatter':
    case 'select-and-scatter':
      return { vector: Math.max(...i.operands.map((id) => elementsOf(body.at(id).shape))) };
    case 'all-reduce':
    case 'all-reduce-start':
    case 'reduce-scatter':
      return {}; // free, as part of another kernel
    case 'reduce-window':
      return { vector: made * windowSteps(body, i) };
    default:
      return MOVES.has(i.opcode) ? {} : { vector: made * (TRANSCENDENTAL.has(i.opcode) ? STEPS : 1) };
  }
}

/** A window that always covers the whole row is how a TPU writes a sum that is broadcast again: one operation per element. */
const windowSteps = (body: Body, i: Instruction) =>
  (i.window?.dims ?? []).reduce((n, w, d) => n * (w.size < (body.operand(i, 0).shape?.dims[d] ?? 1) ? w.size : 1), 1);

const contracted = (body: Body, i: Instruction, dims: readonly number[]) =>
  dims.reduce((n, d) => n * (body.operand(i, 0).shape?.dims[d] ?? 1), 1);

const HIGHEST = 2;
const F32_ALGORITHM = 11; // dot_f32_f32_f32
/** Both operands are computed with the higher precision of the two. */
function unitOf(body: Body, i: Instruction): Unit {
  const types = i.operands.slice(0, 2).map((id) => primitive(body.at(id).shape?.type ?? 0));
  if (types.some((type) => type === 'f64' || type.startsWith('c'))) return 'vector';
  if (types.every((type) => /^(s|u)\d|^pred|^f8/.test(type))) return 'int8';
  if (!types.includes('f32')) return 'bf16';
  return i.precision?.operands.includes(HIGHEST) || i.precision?.algorithm === F32_ALGORITHM ? 'f32' : 'tf32';
}
const productUnit = (program: OptimizedProgram, body: Body, i: Instruction): Unit =>
  i.operands.some((id) => isOneHot(program, body.at(id))) ? 'lookup' : unitOf(body, i);

/** A one-hot matrix: a comparison of an iota of rows with the requested rows. */
function isOneHot(program: OptimizedProgram, i: Instruction): boolean {
  if (i.opcode !== 'fusion' || primitive(i.shape?.type ?? 0) !== 'pred') return false;
  const opcodes = new Set(program.body(i.called[0]!).order.map((each) => each.opcode));
  return opcodes.has('iota') && opcodes.has('compare');
}

/** A TPU writes every matrix product as a convolution, with batches as windows in which only one pair of elements overlaps. */
function convolutionFlops(body: Body, i: Instruction): number {
  const [input, kernel] = [body.operand(i, 0).shape?.dims ?? [], body.operand(i, 1).shape?.dims ?? []];
  const [c, output] = [i.convolution, i.shape?.dims ?? []];
  if (!c) return 0;
  const meetings = (i.window?.dims ?? []).reduce((n, w, d) => {
    const [length, made] = [input[c.inputSpatial[d]!] ?? 1, output[c.outputSpatial[d]!] ?? 1];
    return n * pairs(length, made, w);
  }, 1);
  const summed = kernel[c.kernelInput] ?? 1; // features of one group
  return (
    (2 * (output[c.outputBatch] ?? 1) * (output[c.outputFeature] ?? 1) * summed * meetings) / Math.max(1, i.batchGroups)
  );
}

type WindowDim = NonNullable<Instruction['window']>['dims'][number];
const counted = new BoundedMap<string, number>(10_000);
/**
 * How often elements of the window overlap elements of the input, without padding and gaps between elements: pairs (o, k) of an
 * output and an element of the window whose place o * stride + k * reach - low has an element. A TPU writes batches of products
 * as windows as long as the batch, so the pairs are counted row by row, not one by one.
 */
export function pairs(length: number, made: number, { size, stride, low, lhsDilate, rhsDilate }: WindowDim): number {
  const [gap, reach, step] = [Math.max(1, lhsDilate), Math.max(1, rhsDilate), Math.max(1, stride)];
  if (size === 1 && low === 0 && gap === 1) return made;
  const key = [length, made, size, stride, low, gap, reach].join();
  let n = counted.get(key);
  if (n !== undefined) return n;
  n = 0;
  const [rows, perRow, count, by] = made < size ? [made, step, size, reach] : [size, reach, made, step];
  const common = gcd(by, gap);
  const period = gap / common;
  const inverse = inverseOf(by / common, period);
  for (let row = 0; row < rows; row++) {
    const origin = low - row * perRow; // i * by - origin must be a multiple of gap, from 0 to (length - 1) * gap
    if (origin % common) continue;
    const first = Math.max(0, Math.ceil(origin / by));
    const last = Math.min(count - 1, Math.floor((origin + (length - 1) * gap) / by));
    const from = first + modulo(modulo(origin / common, period) * inverse - first, period);
    if (from <= last) n += Math.floor((last - from) / period) + 1;
  }
  counted.set(key, n);
  return n;
}
const modulo = (a: number, b: number): number => ((a % b) + b) % b;
const gcd = (a: number, b: number): number => (b ? gcd(b, a % b) : a);
/** The x with a * x = 1 modulo m, for a and m without a common divisor. */
function inverseOf(a: number, m: number): number {
  let x = 0;
  while (x < m - 1 && (a * x) % m !== 1) x++;
  return x;
}

interface GemmConfig {
  readonly gemm_backend_config?: {
    readonly dot_dimension_numbers?: { readonly lhs_contracting_dimensions?: readonly string[] };
  };
}
interface AttentionConfig {
  readonly cudnn_fmha_backend_config?: {
    readonly intermediate_tensor_shape?: { readonly dimensions?: readonly string[] };
    readonly mask_type?: string;
  };
}
/** The operands of a TPU's kernel for grouped matrix products (ops/prim/grouped.ts). */
export function groupedOperands(body: Body, i: Instruction): readonly [Instruction, Instruction] | undefined {
  if (i.target !== 'tpu_custom_call' || !i.name.startsWith('ragged-dot-')) return undefined;
  const [rows, others] = i.operands.map((id) => body.at(id)).filter(({ shape }) => (shape?.dims.length ?? 0) > 1);
  return rows && others && [rows, others];
}

interface MosaicConfig {
  readonly custom_call_config?: {
    readonly cost_estimate?: Readonly<Record<'flops' | 'transcendentals' | 'bytes_accessed', number | string>>;
  };
}
/** What a kernel for a TPU says of itself (kernels/cost.ts, or JAX's Pallas), if it does. */
export function mosaicCost(
  program: OptimizedProgram,
  i: Instruction,
): { readonly flops: number; readonly transcendentals: number; readonly bytes: number } | undefined {
  if (i.opcode !== 'custom-call' || i.target !== 'tpu_custom_call') return undefined;
  const said = (program.config(i) as MosaicConfig).custom_call_config?.cost_estimate;
  const number = (x: number | string | undefined) => Number(x ?? 0);
  return (
    said && {
      flops: number(said.flops),
      transcendentals: number(said.transcendentals),
      bytes: number(said.bytes_accessed),
    }
  );
}

/** FLOPs of library calls on a GPU, and of TPU kernels. */
function customFlops(program: OptimizedProgram, body: Body, i: Instruction): Flops {
  const grouped = groupedOperands(body, i);
  if (grouped) {
    const [m = 0, k = 0] = grouped[0].shape?.dims ?? [];
    const n = i.shape?.dims.at(-1) ?? 0; // the shape is [m, n] or [groups, k, n]
    const types = grouped.map(({ shape }) => primitive(shape?.type ?? 0));
    return { [types.includes('f32') ? 'tf32' : 'bf16']: 2 * m * k * n };
  }
  const said = mosaicCost(program, i);
  if (said) {
    const types = i.operands.map((id) => primitive(body.at(id).shape?.type ?? 0));
    const unit = types.includes('bf16') ? 'bf16' : types.includes('f32') ? 'tf32' : 'int8';
    return { [unit]: said.flops, vector: said.transcendentals * STEPS };
  }
  if (/^__cublas\$|^__triton_gemm/.test(i.target)) {
    const config = (program.config(i) as GemmConfig).gemm_backend_config?.dot_dimension_numbers;
    const dims = config?.lhs_contracting_dimensions?.map(Number) ?? [];
    return { [unitOf(body, i)]: 2 * elementsOf(leavesOf(i.shape)[0]) * contracted(body, i, dims) };
  }
  if (i.target.startsWith('__cudnn$fmha')) {
    const config = (program.config(i) as AttentionConfig).cudnn_fmha_backend_config;
    const scores = sizeOf((config?.intermediate_tensor_shape?.dimensions ?? []).map(Number)); // [B, H, T, S]
    const width = body.operand(i, 0).shape?.dims.at(-1) ?? 0;
    // Two products forward; four backward, and the scores once more, because they are recomputed.
    const products = i.target.includes('Backward') ? 5 : 2;
    const seen = config?.mask_type?.includes('CAUSAL') ? 1 / 2 : 1;
    return { bf16: 2 * products * scores * width * seen, vector: scores * STEPS * seen };
  }
  if (i.target.startsWith('__cudnn$conv')) return { [unitOf(body, i)]: libraryConvolutionFlops(body, i) };
  return {};
}

/** cuDNN's results are before its workspace; the instruction has the window and the labels of a convolution. */
function libraryConvolutionFlops(body: Body, i: Instruction): number {
  const shape = leavesOf(i.shape)[0];
  return shape ? convolutionFlops(body, Object.assign(Object.create(i) as Instruction, { shape })) : 0;
}
