// cuDNN's flash attention, as XLA's CUDA plugin takes it: a custom call whose JSON says what is computed. The score matrix
// is never written down. Operands are [B, T, H, d]; results come as [B, H, T, d], laid out in memory as the operands are.
import type { Aval } from '../../ir/aval.js';
import type { Emitter, Ssa } from '../../ir/op.js';
import { i64s } from './define.js';

export interface Flash {
  readonly scale: number;
  readonly causal: boolean;
}

/** Which dimensions of a product are summed over, and which run together; heads are dim 1 of scores and 2 of operands. */
const product = (sum: readonly [number, number], scoresFirst: boolean) => ({
  lhs_contracting_dimensions: [`${sum[0]}`],
  rhs_contracting_dimensions: [`${sum[1]}`],
  lhs_batch_dimensions: ['0', scoresFirst ? '1' : '2'],
  rhs_batch_dimensions: ['0', '2'],
});
const PRODUCTS = {
  forward: {
    bmm1_dot_dimension_numbers: product([3, 3], false), // scores: query, key
    bmm2_dot_dimension_numbers: product([3, 1], true), // output: weights, value
  },
  backward: {
    bmm1_grad_gemm1_dot_dimension_numbers: product([2, 1], true), // of the key: scores' gradient, query
    bmm1_grad_gemm2_dot_dimension_numbers: product([3, 1], true), // of the query: scores' gradient, key
    bmm2_grad_gemm1_dot_dimension_numbers: product([2, 1], true), // of the value: weights, output's gradient
    bmm2_grad_gemm2_dot_dimension_numbers: product([3, 3], false), // of the weights: output's gradient, value
  },
} as const;

/** q [B, H, T, d] and k of the operands, as this library has them. */
function configOf(pass: keyof typeof PRODUCTS, q: Aval, k: Aval, { scale, causal }: Flash): string {
  const [batch, heads, queries] = q.shape;
  const scores = {
    element_type: q.dtype.toUpperCase(),
    dimensions: [batch, heads, queries, k.shape[2]].map(String),
    tuple_shapes: [],
    layout: {
      dim_level_types: [],
      dim_unique: [],
      dim_ordered: [],
      minor_to_major: ['3', '2', '1', '0'],
      tiles: [],
      element_size_in_bits: '0',
      memory_space: '0',
      index_primitive_type: 'PRIMITIVE_TYPE_INVALID',
      pointer_primitive_type: 'PRIMITIVE_TYPE_INVALID',
      dynamic_shape_metadata_prefix_bytes: '0',
    },
    is_dynamic_dimension: [false, false, false, false],
  };
  return JSON.stringify({
    operation_queue_id: '0',
    cudnn_fmha_backend_config: {
      algorithm: {
        algo_id: '0',
        math_type: 'TENSOR_OP_MATH',
        tuning_knobs: { '17': '1', '24': '0' },
        is_cudnn_frontend: true,
        workspace_size: '0',
      },
      fmha_scale: scale,
      intermediate_tensor_shape: scores,
      is_flash_attention: true,
      mask_type: causal ? 'CAUSAL' : 'NO_MASK',
      ...PRODUCTS[pass],
      dropout_rate: 0,
      seed: 42, // of dropout, which is not asked for
      sliding_window_length: 0,
      max_seg_per_batch: 1,
      is_paged_attention: false,
    },
  });
}

/** Layouts of a custom call's operands or results, the fastest dimension first. */
export const layouts = (all: readonly (readonly number[])[]): string =>
  `[${all.map((l) => `dense<${l.length > 1 ? `[${l.join(', ')}]` : l.join()}> : tensor<${l.length}xindex>`).join(', ')}]`;
export const rowMajor = ({ rank }: Aval): number[] => Array.from({ length: rank }, (_, i) => rank - 1 - i);

/** The first `turned` results are [B, H, T, d]. The last is cuDNN's own room, which XLA finds the size of. */
function call(
  e: Emitter,
  target: string,
  config: string,
  operands: readonly Ssa[],
  outs: readonly Aval[],
  turned: number,
): Ssa[] {
  const workspace = outs[0]!.withDType('u8').withShape([0]);
  const results = [...outs, workspace];
  return e.op('custom_call', operands, results, {
    call_target_name: `"${target}"`,
    api_version: '2 : i32',
    backend_config: JSON.stringify(config),
    operand_layouts: layouts(operands.map((x) => rowMajor(e.typeOf(x)))),
    result_layouts: layouts(results.map((x, i) => (i < turned ? [3, 1, 2, 0] : rowMajor(x)))),
  });
}

/** [B, H, T, d] as [B, T, H, d]. Where the user made the one of the other, XLA drops both. */
function headsInside(e: Emitter, x: Ssa): Ssa {
  const [b, h, t, d] = e.typeOf(x).shape as [number, number, number, number];
  return e.op('transpose', [x], [e.typeOf(x).withShape([b, t, h, d])], { permutation: i64s([0, 2, 1, 3]) })[0]!;
}

/** The output and the logarithm of each softmax's sum. The bias, if any, is [B or 1, H or 1, T, S]. */
export function flashForward(
  e: Emitter,
  [q, k, v, bias]: readonly [Ssa, Ssa, Ssa, (Ssa | undefined)?],
  flash: Flash,
  outs: readonly Aval[],
): Ssa[] {
  const config = configOf('forward', e.typeOf(q), e.typeOf(k), flash);
  const operands = [...[q, k, v].map((x) => headsInside(e, x)), ...(bias ? [bias] : [])];
  return call(e, bias ? '__cudnn$fmhaScaleBiasSoftmax' : '__cudnn$fmhaSoftmax', config, operands, outs, 1).slice(0, 2);
}

/** The gradients of query, key and value, and of the bias where `outs` has it. */
export function flashBackward(
  e: Emitter,
  { q, k, v, bias, statistic, output, g }: Record<'q' | 'k' | 'v' | 'statistic' | 'output' | 'g', Ssa> & { bias?: Ssa },
  flash: Flash,
  outs: readonly Aval[],
): Ssa[] {
  const config = configOf('backward', e.typeOf(q), e.typeOf(k), flash);
  const turned = (x: Ssa) => headsInside(e, x);
  const operands = [turned(q), turned(k), turned(v), statistic, turned(g), ...(bias ? [bias] : []), turned(output)];
  const target = bias ? '__cudnn$fmhaScaleBiasSoftmaxBackward' : '__cudnn$fmhaSoftmaxBackward';
  return call(e, target, config, operands, outs, 3).slice(0, outs.length);
}
