// Functions of torch's that are written otherwise here: each says how.
import * as tx from 'tsxla';
import type { Spelling, Value } from './call.js';

type T = tx.Tensor;
/** torch's Python operators: `2 - x` is tx.sub(2, x) here. */
const reflected =
  (torch: string): Spelling =>
  ([x, y], kwargs, call) =>
    call(torch, [y, x], kwargs);
/** A list that torch takes as separate arguments, or the other way round. */
const asList =
  (torch: string): Spelling =>
  (args, kwargs, call) =>
    call(torch, [args], kwargs);
/** Attributes: x.T. */
const attribute =
  (name: 'T' | 'H' | 'mT' | 'mH'): Spelling =>
  ([x]) =>
    (x as T)[name];
/** Works in place on a copy, which wants no gradient itself. */
const inPlace =
  (torch: string): Spelling =>
  ([x, ...args], kwargs, call) =>
    call(torch, [(x as T).clone(), ...args], kwargs);

const fractional =
  (torch: string): Spelling =>
  (args, { _random_samples, ...kwargs }, call) =>
    call(torch, args, { ...kwargs, ...(_random_samples !== undefined && { random_samples: _random_samples }) });

/** torch.var(x, false): unbiased has no place here. */
const unbiased =
  (torch: string): Spelling =>
  ([x, by], kwargs, call) =>
    call(torch, [x], { ...kwargs, unbiased: by });

export const SPELLED: Readonly<Record<string, Spelling>> = {
  __radd__: reflected('torch.add'),
  __rsub__: reflected('torch.sub'),
  __rmul__: reflected('torch.mul'),
  __rdiv__: reflected('torch.div'),
  __rmod__: reflected('torch.remainder'),
  __rpow__: reflected('torch.pow'),
  __rand__: reflected('torch.bitwise_and'),
  __ror__: reflected('torch.bitwise_or'),
  __rxor__: reflected('torch.bitwise_xor'),
  __rmatmul__: reflected('torch.matmul'),
  __getitem__: ([x, index]) => (x as T).index(...((Array.isArray(index) ? index : [index]) as never[])),
  T: attribute('T'),
  H: attribute('H'),
  mT: attribute('mT'),
  mH: attribute('mH'),
  'var.unbiased': unbiased('torch.var'),
  'std.unbiased': unbiased('torch.std'),
  'var_mean.unbiased': unbiased('torch.var_mean'),
  'std_mean.unbiased': unbiased('torch.std_mean'),
  // Entries of the database that are functions of their own, around torch's:
  einsum: ([tensors, equation], kwargs, call) => call('torch.einsum', [equation, tensors], kwargs),
  polygamma: ([x, n], kwargs, call) => call('torch.polygamma', [n, x], kwargs),
  'special.polygamma': ([x, n], kwargs, call) => call('torch.special.polygamma', [n, x], kwargs),
  where: ([x, condition, other], kwargs, call) => call('torch.where', [condition, x, other], kwargs),
  'nn.functional.embedding': ([weight, ids], kwargs, call) =>
    call('torch.nn.functional.embedding', [ids, weight], kwargs),
  'nn.functional.embedding_bag': ([weight, ids], kwargs, call) =>
    call('torch.nn.functional.embedding_bag', [ids, weight], kwargs),
  'linalg.pinv.singular': ([a, b], _, call) => call('torch.linalg.pinv', [(a as T).matmul((b as T).mT)]),
  svd_lowrank: ([a, b], kwargs, call) => call('torch.svd_lowrank', [(a as T).matmul((b as T).mT)], kwargs),
  pca_lowrank: ([a, b], kwargs, call) => call('torch.pca_lowrank', [(a as T).matmul((b as T).mT)], kwargs),
  'normal.number_mean': ([std, mean, ...args], kwargs, call) => call('torch.normal', [mean, std, ...args], kwargs),
  'linalg.lstsq.grad_oriented': (args, kwargs, call) =>
    (flatResults(call('torch.linalg.lstsq', args.slice(0, 2), { driver: args[2], ...kwargs })) as T[]).slice(0, 2),
  resize_: inPlace('torch.Tensor.resize_'),
  resize_as_: inPlace('torch.Tensor.resize_as_'),
  cauchy: inPlace('torch.Tensor.cauchy_'),
  geometric: inPlace('torch.Tensor.geometric_'),
  log_normal: inPlace('torch.Tensor.log_normal_'),
  // A device, `non_blocking` and `copy` have no place here.
  to: ([x, ...args], kwargs) => {
    const dtype =
      args.find((a) => a instanceof tx.Tensor || /^(bool|bf16|[uif]\d+)$/.test(String(a))) ?? kwargs['dtype'];
    return dtype instanceof tx.Tensor ? (x as T).typeAs(dtype) : (x as T).to((dtype ?? (x as T).dtype) as 'f32');
  },
  'max.binary': ([a, b], _, call) => call('torch.maximum', [a, b]),
  'min.binary': ([a, b], _, call) => call('torch.minimum', [a, b]),
  'meshgrid.variadic_tensors': asList('torch.meshgrid'),
  broadcast_tensors: asList('torch.broadcast_tensors'),
  fill: (args, kwargs, call) => call('torch.fill', args, kwargs),
  zero_: inPlace('torch.Tensor.zero_'),
  exponential: inPlace('torch.Tensor.exponential_'),
  uniform: inPlace('torch.Tensor.uniform_'),
  'normal.in_place': inPlace('torch.Tensor.normal_'),
  'nn.functional.fractional_max_pool2d': fractional('torch.nn.functional.fractional_max_pool2d'),
  'nn.functional.fractional_max_pool3d': fractional('torch.nn.functional.fractional_max_pool3d'),
  'nn.functional.unfold': (args, kwargs, call) => call('torch.im2col', args, kwargs),
};

/** Results that are named here and a tuple in torch, in torch's order; results that are no tensors as they are. */
export function flatResults(y: Value): Value[] {
  if (Array.isArray(y) && y.length && typeof y[0] !== 'object') return [y]; // a shape
  if (Array.isArray(y)) return y.flatMap(flatResults);
  if (y !== null && typeof y === 'object' && !(y instanceof tx.Tensor) && Object.getPrototypeOf(y) === Object.prototype)
    return Object.values(y).flatMap(flatResults);
  return [y];
}
