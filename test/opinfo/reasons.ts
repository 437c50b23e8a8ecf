// Why entries of PyTorch's operator database do not give what torch gives. Every failure has a reason here, and every reason
// must be true: test/opinfo/opinfo.test.ts. They are printed in docs/opinfo.md.
import type { Part } from './replay.js';

export interface Reason {
  readonly why: string;
  readonly parts: readonly Part[];
  readonly entries: readonly string[];
  /** Only samples outside of the committed selection fail. */
  readonly rare?: boolean;
}
export const REASONS: readonly Reason[] = [
  { why: 'absent: complex numbers', parts: ['value'], entries: ['linalg.eig', 'linalg.eigvals'] },
  { why: 'absent: complex numbers', parts: ['error'], entries: ['masked_fill'] },
  { why: 'alpha must be a number', parts: ['value'], entries: ['add'], rare: true },
  { why: 'item() of a bool is 0 or 1', parts: ['value'], entries: ['item'] },
  {
    why: 'torch cuts a fractional alpha or beta of integers to 0: here it is an error',
    parts: ['value'],
    entries: ['addmv', 'addbmm', 'baddbmm'],
  },
  {
    why: 'numbers are taken where torch wants a tensor',
    parts: ['error'],
    entries: [
      'atan2',
      'copysign',
      'eq',
      'fmax',
      'fmin',
      'fmod',
      'ge',
      'gt',
      'le',
      'ldexp',
      'logaddexp',
      'lt',
      'max.binary',
      'maximum',
      'min.binary',
      'minimum',
      'logical_and',
      'logical_or',
      'logical_xor',
      'heaviside',
      'lcm',
      'gcd',
      'isclose',
      'nextafter',
      'igamma',
      'igammac',
      'ne',
      '__radd__',
      '__rdiv__',
      '__rmul__',
      '__rand__',
      '__ror__',
      '__rxor__',
      'hypot',
    ],
  },
  {
    why: 'the gradient is that of a matrix, of which one triangle is read; torch has it for the factor',
    parts: ['grad', 'grad2'],
    entries: ['cholesky_inverse', 'cholesky_solve'],
  },
  { why: 'errors cannot depend on values: weights are not looked at', parts: ['error'], entries: ['cov'] },
  {
    why: 'rounding: f32 differs in the last digits',
    parts: ['grad2'],
    entries: ['i0', 'index_reduce.prod', 'special.i1'],
  },
  { why: 'rounding: f32 differs in the last digits', parts: ['grad', 'grad2'], entries: ['erfinv'] },
  {
    why: 'equal elements come in another order',
    parts: ['value'],
    entries: ['kthvalue', 'topk', 'mode', 'sort', 'argsort'],
    rare: true,
  },
  {
    why: 'JavaScript does not tell 3.0 from 3',
    parts: ['error'],
    entries: ['linspace', 'linspace.tensor_overload', 'logspace', 'logspace.tensor_overload'],
  },
  {
    why: 'absent: LU and LDL factors',
    parts: ['value'],
    entries: ['linalg.ldl_factor', 'linalg.ldl_factor_ex', 'linalg.ldl_solve'],
  },
  {
    why: "torch's gradient is wrong: elements that are overwritten get one",
    parts: ['grad'],
    entries: ['as_strided_scatter'],
  },
  {
    why: 'an empty batch of integers stays i64 in torch',
    parts: ['value'],
    entries: ['nn.functional.local_response_norm'],
    rare: true,
  },
  {
    why: 'scores without a dimension are refused',
    parts: ['value', 'grad'],
    entries: ['nn.functional.multi_margin_loss', 'nn.functional.multilabel_margin_loss'],
  },
  {
    why: 'windows lie at random places, which are not given',
    parts: ['value', 'grad'],
    entries: ['nn.functional.fractional_max_pool3d'],
    rare: true,
  },
  {
    why: 'a gradient of second order is NaN where a row is masked out',
    parts: ['grad2'],
    entries: ['nn.functional.scaled_dot_product_attention'],
  },
  {
    why: 'an empty input of one dimension is refused',
    parts: ['value', 'grad'],
    entries: ['nn.functional.batch_norm'],
    rare: true,
  },
  {
    why: 'vectors beyond the singular values are not determined',
    parts: ['value'],
    entries: ['svd'],
    rare: true,
  },
  {
    why: 'rounding: f32 differs in the last digits',
    parts: ['grad', 'grad2'],
    entries: ['polygamma.polygamma_n_0', 'special.polygamma.special_polygamma_n_0'],
    rare: true,
  },
  { why: 'sizes above 2 ** 53 are refused', parts: ['value'], entries: ['unravel_index'], rare: true },
  { why: 'alpha must be a number', parts: ['value'], entries: ['index_add'] },
  { why: 'a nested list of indices is one index each', parts: ['value', 'grad'], entries: ['__getitem__'] },
  { why: 'the shape is an option', parts: ['value'], entries: ['normal.number_mean'] },
  {
    why: 'the number of bins is part of the shape: pass minlength',
    parts: ['value'],
    entries: ['bincount'],
    rare: true,
  },
  { why: 'absent: there is no storage to resize', parts: ['value'], entries: ['resize_', 'resize_as_'] },
  { why: 'a scalar has no index', parts: ['value'], entries: ['nonzero'], rare: true },
  {
    why: 'numClasses must be given: shapes cannot depend on values',
    parts: ['value'],
    entries: ['nn.functional.one_hot'],
    rare: true,
  },
  {
    why: 'absent: nn.MultiheadAttention has it',
    parts: ['value'],
    entries: ['nn.functional.multi_head_attention_forward'],
  },
  { why: 'the mean of integers is a float here', parts: ['error'], entries: ['mean'] },
  {
    why: "torch's gradient takes log probabilities to be normalized",
    parts: ['grad'],
    entries: ['nn.functional.ctc_loss'],
  },
  {
    why: 'the gradient of second order at equal or zero elements differs',
    parts: ['grad2'],
    entries: ['scatter_reduce.prod'],
  },
  {
    why: 'the gradient fills both triangles of a symmetric matrix',
    parts: ['grad', 'grad2'],
    entries: ['linalg.eigh'],
  },
  { why: 'the gradient fills both triangles of a symmetric matrix', parts: ['grad2'], entries: ['linalg.eigvalsh'] },
  {
    why: 'the gradient of second order at equal or zero elements differs',
    parts: ['grad2'],
    entries: ['linalg.norm.subgradients_at_zero', 'masked.logaddexp'],
    rare: true,
  },
  { why: 'a scalar is no vector', parts: ['value', 'grad'], entries: ['linalg.vander'] },
];
