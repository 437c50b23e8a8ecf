// torch.nn.utils: gradient clipping, parameters as one vector, weight and spectral norm, packed sequences.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { noGrad } from '../tensor/autograd.js';
import { ones, zeros } from '../tensor/create.js';
import { cat } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { clipGradNorm, clipGradValue } from './clip.js';
import type { Module } from './module.js';
import { Parameter } from './module.js';
import { isParametrized, registerParametrization, removeParametrizations } from './parametrize.js';
import { oldSpectralNorm, oldWeightNorm, spectralNorm, weightNorm } from './weight-norms.js';

export { type ClipOptions, clipGradNorm, clipGradValue } from './clip.js';
export * as rnn from './packed.js';
export { removeSpectralNorm, removeWeightNorm } from './weight-norms.js';
export {
  clipGradNorm as clipGradNorm_,
  clipGradValue as clipGradValue_,
  oldSpectralNorm as spectralNorm,
  oldWeightNorm as weightNorm,
};
/** torch.nn.utils.parametrize: parameters that are computed from others each time they are read. */
export const parametrize = { registerParametrization, removeParametrizations, isParametrized };
export const parametrizations = { weightNorm, spectralNorm };

/** Concatenates all parameters into one vector. Differentiable. */
export function parametersToVector(parameters: Iterable<Tensor>): Tensor {
  const list = [...parameters];
  if (!list.length) throw new ArgumentError('parametersToVector: the list of parameters is empty');
  return cat(list.map((p) => p.reshape([-1])));
}
/** Copies consecutive parts of a vector into parameters. */
export function vectorToParameters(vector: Tensor, parameters: Iterable<Tensor>): void {
  const list = [...parameters];
  const total = list.reduce((n, p) => n + p.numel(), 0);
  if (vector.ndim !== 1 || vector.numel() !== total)
    throw new ShapeError(`vectorToParameters: the vector is ${vector.aval}, but the parameters have ${total} elements`);
  noGrad(() => {
    let at = 0;
    for (const p of list) {
      p.copy_(vector.detach().narrow(0, at, p.numel()).reshape(p.shape));
      at += p.numel();
    }
  });
}

/** A layer with a weight [out, in, ...] and a bias. */
interface Weighted extends Module {
  weight: Parameter;
  bias: Parameter | null;
}
/** A batch norm. */
interface Norm extends Module {
  readonly weight: Parameter | null;
  readonly bias: Parameter | null;
  readonly runningMean: Tensor | null;
  readonly runningVar: Tensor | null;
  readonly eps: number;
}
/** A copy of a layer with the following batch norm (in eval mode) folded into its weights. */
function fused<M extends Weighted>(op: string, layer: M, norm: Norm, outputs: number): M {
  if (layer.training || norm.training) throw new ArgumentError(`${op}: both must be in eval mode: call eval() first`);
  const { runningMean: mean, runningVar: variance, eps } = norm;
  if (!mean || !variance) throw new ArgumentError(`${op}: ${norm.constructor.name} has no running statistics`);
  const copy = layer.clone();
  noGrad(() => {
    const { dtype } = layer.weight;
    const scale = (norm.weight ?? ones([outputs], { dtype })).mul(variance.add(eps).rsqrt());
    const shape = [outputs, ...layer.weight.shape.slice(1).map(() => 1)];
    const bias = layer.bias ?? zeros([outputs], { dtype });
    copy.weight = new Parameter(layer.weight.mul(scale.reshape(shape)), { requiresGrad: layer.weight.requiresGrad });
    copy.bias = new Parameter(
      bias
        .sub(mean)
        .mul(scale)
        .add(norm.bias ?? 0),
      layer.bias ? { requiresGrad: layer.bias.requiresGrad } : {},
    );
  });
  return copy;
}
export const fuseConvBnEval = <M extends Weighted & { readonly outChannels: number }>(conv: M, bn: Norm): M =>
  fused('fuseConvBnEval', conv, bn, conv.outChannels);
export const fuseLinearBnEval = <M extends Weighted & { readonly outFeatures: number }>(linear: M, bn: Norm): M =>
  fused('fuseLinearBnEval', linear, bn, linear.outFeatures);
