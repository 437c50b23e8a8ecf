// How many operations an instruction takes: products of matrices exactly, the rest by the elements they make.
import { BoundedMap } from '../../base/bounded.js';
import { sizeOf } from '../../base/dtype.js';
import { type Instruction, primitive } from '../../pjrt/hlo-proto.js';
import { type Body, elementsOf, leavesOf, type OptimizedProgram } from './program.js';

/**
 * What a kernel computes with: the matrix unit at one of its precisions, or the vector unit. tf32 are products of f32 with
 * the device's default precision for them; f32 are those that must be exact.
 */
export type Unit = 'bf16' | 'tf32' | 'f32' | 'int8' | 'vector';
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
/** A few steps of a polynomial each. */
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
      return { [unitOf(body, i)]: 2 * made * contracted(body, i, i.dot?.lhs_contracting_dims ?? []) };
    case 'convolution':
      return { [unitOf(body, i)]: convolutionFlops(body, i) };
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
      return {}; // done on the way
    case 'reduce-window':
      return { vector: made * windowSteps(body, i) };
    default:
      return MOVES.has(i.opcode) ? {} : { vector: made * (TRANSCENDENTAL.has(i.opcode) ? STEPS : 1) };
  }
}

/** A window that always sees the whole row is a TPU's way to write a sum that is spread out again: one step an element. */
const windowSteps = (body: Body, i: Instruction) =>
  (i.window?.dims ?? []).reduce((n, w, d) => n * (w.size < (body.operand(i, 0).shape?.dims[d] ?? 1) ? w.size : 1), 1);

const contracted = (body: Body, i: Instruction, dims: readonly number[]) =>
  dims.reduce((n, d) => n * (body.operand(i, 0).shape?.dims[d] ?? 1), 1);

const HIGHEST = 2;
const F32_ALGORITHM = 11; // dot_f32_f32_f32
function unitOf(body: Body, i: Instruction): Unit {
  const type = primitive(body.operand(i, 0).shape?.type ?? 0);
  if (/^(s|u)\d|^pred|^f8/.test(type)) return 'int8';
  if (type === 'f64' || type.startsWith('c')) return 'vector';
  if (type !== 'f32') return 'bf16';
  return i.precision?.operands.includes(HIGHEST) || i.precision?.algorithm === F32_ALGORITHM ? 'f32' : 'tf32';
}

/** A TPU writes every product as a convolution, with batches as windows of which only one element meets another. */
function convolutionFlops(body: Body, i: Instruction): number {
  const [input, kernel] = [body.operand(i, 0).shape?.dims ?? [], body.operand(i, 1).shape?.dims ?? []];
  const [c, output] = [i.convolution, i.shape?.dims ?? []];
  if (!c) return 0;
  const meetings = (i.window?.dims ?? []).reduce((n, w, d) => {
    const [length, made] = [input[c.inputSpatial[d]!] ?? 1, output[c.outputSpatial[d]!] ?? 1];
    return n * pairs(length, made, w);
  }, 1);
  const summed = kernel[c.kernelInput] ?? 1; // of one group of features
  return (
    (2 * (output[c.outputBatch] ?? 1) * (output[c.outputFeature] ?? 1) * summed * meetings) / Math.max(1, i.batchGroups)
  );
}

type WindowDim = NonNullable<Instruction['window']>['dims'][number];
const counted = new BoundedMap<string, number>(10_000);
/** How often an element of the window meets one of the input, and not padding nor a gap between elements. */
function pairs(length: number, made: number, { size, stride, low, lhsDilate, rhsDilate }: WindowDim): number {
  const [gap, reach] = [Math.max(1, lhsDilate), Math.max(1, rhsDilate)];
  if (size === 1 && low === 0 && gap === 1) return made;
  const key = [length, made, size, stride, low, gap, reach].join();
  let n = counted.get(key);
  if (n !== undefined) return n;
  n = 0;
  for (let o = 0; o < made; o++) {
    for (let k = 0; k < size; k++) {
      const at = o * Math.max(1, stride) - low + k * reach;
      if (at >= 0 && at % gap === 0 && at / gap < length) n++;
    }
  }
  counted.set(key, n);
  return n;
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
/** Libraries that XLA calls on a GPU. */
function customFlops(program: OptimizedProgram, body: Body, i: Instruction): Flops {
  if (/^__cublas\$|^__triton_gemm/.test(i.target)) {
    const config = (program.config(i) as GemmConfig).gemm_backend_config?.dot_dimension_numbers;
    const dims = config?.lhs_contracting_dimensions?.map(Number) ?? [];
    return { [unitOf(body, i)]: 2 * elementsOf(leavesOf(i.shape)[0]) * contracted(body, i, dims) };
  }
  if (i.target.startsWith('__cudnn$fmha')) {
    const config = (program.config(i) as AttentionConfig).cudnn_fmha_backend_config;
    const scores = sizeOf((config?.intermediate_tensor_shape?.dimensions ?? []).map(Number)); // [B, H, T, S]
    const width = body.operand(i, 0).shape?.dims.at(-1) ?? 0;
    // Two products forward; backward four, and the scores once more, for they were not kept.
    const products = i.target.includes('Backward') ? 5 : 2;
    const seen = config?.mask_type?.includes('CAUSAL') ? 1 / 2 : 1;
    return { bf16: 2 * products * scores * width * seen, vector: scores * STEPS * seen };
  }
  if (i.target.startsWith('__cudnn$conv')) return { [unitOf(body, i)]: libraryConvolutionFlops(body, i) };
  return {};
}

/** cuDNN's results come first, its room after; the instruction has the window and the labels of a convolution. */
function libraryConvolutionFlops(body: Body, i: Instruction): number {
  const shape = leavesOf(i.shape)[0];
  return shape ? convolutionFlops(body, Object.assign(Object.create(i) as Instruction, { shape })) : 0;
}
