// Weight norm and spectral norm, as parametrizations and in torch's older form, whose names in state dicts are weight_g and
// weight_v, weight_orig and weight_u.
import { ArgumentError } from '../base/errors.js';
import { range } from '../base/shape.js';
import type { Handle } from '../ir/hooks.js';
import { noGrad } from '../tensor/autograd.js';
import { matmul, vectorNorm } from '../tensor/functions.js';
import { randn } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';
import { ConvTranspose1d, ConvTranspose2d, ConvTranspose3d } from './conv.js';
import { Buffer, Module, Parameter } from './module.js';
import { type Given, optionsInOrder } from './options.js';
import {
  computedField,
  type Parametrization,
  parameterOf,
  plainField,
  registerParametrization,
  removeParametrizations,
} from './parametrize.js';

// ---- weight norm (arXiv:1602.07868): a direction v and a length g

/** The norm of all dimensions but one; of all of them for null. */
function normExcept(v: Tensor, dim: number | null): Tensor {
  if (dim === null || dim === -1) return vectorNorm(v, { p: 2 });
  const dims = range(v.ndim).filter((d) => d !== dim);
  return dims.length ? vectorNorm(v, { p: 2, dim: dims, keepdim: true }) : v.abs();
}
const weightOf = (g: Tensor, v: Tensor, dim: number | null): Tensor => v.mul(g.div(normExcept(v, dim)));

class WeightNorm extends Module implements Parametrization {
  constructor(readonly dim: number | null) {
    super();
  }
  override forward(...[g, v]: Tensor[]): Tensor {
    return weightOf(g!, v!, this.dim);
  }
  rightInverse(weight: Tensor): [g: Tensor, v: Tensor] {
    return [normExcept(weight, this.dim), weight];
  }
}
export interface WeightNormOptions {
  readonly name?: string;
  /** The dimension whose slices each have a length; null: one length for the whole weight. */
  readonly dim?: number | null;
}
type GivenWeight = Given<WeightNormOptions, ['name', 'dim']>;
const weightOptions = (op: string, given: readonly unknown[]) =>
  optionsInOrder<Required<WeightNormOptions>>(op, ['name', 'dim'], { name: 'weight', dim: 0 }, given);

/** Splits a module's weight into length and direction: parametrizations.weight.original0 and original1. */
export function weightNorm<M extends Module>(module: M, ...options: GivenWeight): M {
  const { name, dim } = weightOptions('weightNorm', options);
  return registerParametrization(module, name, new WeightNorm(dim));
}

type Fields = Record<string, unknown>;
const fieldsOf = (module: Module): Fields => module as unknown as Fields;
/** The same in torch's older form: weight_g and weight_v. */
export function oldWeightNorm<M extends Module>(module: M, ...options: GivenWeight): M {
  const { name, dim } = weightOptions('weightNorm', options);
  const weight = parameterOf('weightNorm', module, name);
  const { requiresGrad } = weight;
  const norm = noGrad(() => normExcept(weight.detach(), dim));
  fieldsOf(module)[`${name}G`] = new Parameter(norm, { requiresGrad });
  fieldsOf(module)[`${name}V`] = new Parameter(weight, { requiresGrad });
  computedField(module, name, (m) =>
    weightOf(fieldsOf(m)[`${name}G`] as Tensor, fieldsOf(m)[`${name}V`] as Tensor, dim),
  );
  return module;
}
export function removeWeightNorm<M extends Module>(module: M, name = 'weight'): M {
  return removeOld('removeWeightNorm', module, name, ['G', 'V']);
}
function removeOld<M extends Module>(op: string, module: M, name: string, endings: readonly string[]): M {
  const fields = fieldsOf(module);
  const first = fields[`${name}${endings[0]}`];
  if (!(first instanceof Parameter))
    throw new ArgumentError(`${op}: ${module.constructor.name}.${name} has no such normalization`);
  const { requiresGrad } = first;
  const value = noGrad(() => fields[name] as Tensor);
  for (const ending of endings) delete fields[`${name}${ending}`];
  plainField(module, name, new Parameter(value, { requiresGrad }));
  return module;
}

// ---- spectral norm (arXiv:1802.05957): divided by its largest singular value, which a power iteration follows

export interface SpectralNormOptions {
  readonly name?: string;
  readonly nPowerIterations?: number;
  readonly eps?: number;
  /** The output dimension. Default: 0, and 1 for transposed convolutions. */
  readonly dim?: number | null;
}
const SPECTRAL = ['name', 'nPowerIterations', 'eps', 'dim'] as const;
type GivenSpectral = Given<SpectralNormOptions, typeof SPECTRAL>;
interface Spectral {
  readonly name: string;
  readonly nPowerIterations: number;
  readonly eps: number;
  readonly dim: number;
}
function spectralOptions(module: Module, given: readonly unknown[]): Spectral {
  const found = optionsInOrder<Required<SpectralNormOptions>>(
    'spectralNorm',
    SPECTRAL,
    { name: 'weight', nPowerIterations: 1, eps: 1e-12, dim: null },
    given,
  );
  if (!(found.nPowerIterations > 0))
    throw new ArgumentError(`spectralNorm: nPowerIterations is ${found.nPowerIterations}: it must be 1 or more`);
  const isTransposed = [ConvTranspose1d, ConvTranspose2d, ConvTranspose3d].some((type) => module instanceof type);
  return { ...found, dim: found.dim ?? (isTransposed ? 1 : 0) };
}
/** A weight as a matrix whose rows are the slices of one dimension. */
function asMatrix(weight: Tensor, dim: number): Tensor {
  const order = [dim, ...range(weight.ndim).filter((d) => d !== dim)];
  return weight.permute(order).reshape([weight.size(dim), -1]);
}
const unit = (x: Tensor, eps: number): Tensor =>
  x.div(vectorNorm(x, { p: 2, dim: -1, keepdim: true }).clamp({ min: eps }));
function iterate(matrix: Tensor, u: Buffer, v: Buffer, times: number, eps: number): void {
  noGrad(() => {
    for (let i = 0; i < times; i++) {
      u.copy_(unit(matmul(matrix, v), eps));
      v.copy_(unit(matmul(matrix.t(), u), eps));
    }
  });
}
const startVector = (n: number, weight: Tensor, eps: number): Buffer =>
  noGrad(() => new Buffer(unit(randn([n], { dtype: weight.dtype }), eps)));
const sigmaOf = (matrix: Tensor, u: Tensor, v: Tensor): Tensor => u.detach().mul(matmul(matrix, v.detach())).sum();
/** Steps of the iteration before the first use, as in torch. */
const WARM_UP = 15;

class SpectralNorm extends Module implements Parametrization {
  readonly nPowerIterations: number;
  readonly eps: number;
  readonly dim: number;
  readonly _u: Buffer | null;
  readonly _v: Buffer | null;
  constructor(weight: Tensor, { nPowerIterations, eps, dim }: Spectral) {
    super();
    [this.nPowerIterations, this.eps, this.dim] = [nPowerIterations, eps, dim];
    const isVector = weight.ndim === 1;
    const matrix = isVector ? weight : asMatrix(weight.detach(), dim);
    this._u = isVector ? null : startVector(matrix.size(0), weight, eps);
    this._v = isVector ? null : startVector(matrix.size(1), weight, eps);
    if (this._u && this._v) iterate(matrix, this._u, this._v, WARM_UP, eps);
  }
  override forward(...[weight]: Tensor[]): Tensor {
    const { _u: u, _v: v, eps, dim } = this;
    if (!u || !v) return unit(weight!, eps); // a vector has one singular value: its length
    const matrix = asMatrix(weight!, dim);
    if (this.training) iterate(matrix.detach(), u, v, this.nPowerIterations, eps);
    return weight!.div(sigmaOf(matrix, u, v));
  }
  rightInverse(value: Tensor): Tensor {
    return value;
  }
}
/** Divides a module's weight by its largest singular value. Each use in train mode runs the power iteration. */
export function spectralNorm<M extends Module>(module: M, ...options: GivenSpectral): M {
  const given = spectralOptions(module, options);
  const weight = parameterOf('spectralNorm', module, given.name);
  return registerParametrization(module, given.name, new SpectralNorm(weight, given));
}

const iterations = new WeakMap<Module, Map<string, Handle>>();
/** The same in torch's older form: weight_orig, weight_u and weight_v. */
export function oldSpectralNorm<M extends Module>(module: M, ...options: GivenSpectral): M {
  const { name, nPowerIterations, eps, dim } = spectralOptions(module, options);
  const weight = parameterOf('spectralNorm', module, name);
  const matrix = asMatrix(weight.detach(), dim);
  fieldsOf(module)[`${name}Orig`] = new Parameter(weight, { requiresGrad: weight.requiresGrad });
  fieldsOf(module)[`${name}U`] = startVector(matrix.size(0), weight, eps);
  fieldsOf(module)[`${name}V`] = startVector(matrix.size(1), weight, eps);
  const parts = (m: Module) =>
    ['Orig', 'U', 'V'].map((ending) => fieldsOf(m)[`${name}${ending}`]) as [Tensor, Buffer, Buffer];
  computedField(module, name, (m) => {
    const [w, u, v] = parts(m);
    return w.div(sigmaOf(asMatrix(w, dim), u, v));
  });
  const handle = (module as Module).registerForwardPreHook((m) => {
    const [w, u, v] = parts(m);
    if (!m.training) return;
    noGrad(() => {
      for (let i = 0; i < nPowerIterations; i++) {
        v.copy_(unit(matmul(asMatrix(w, dim).t(), u), eps)); // the other order than the newer form
        u.copy_(unit(matmul(asMatrix(w, dim), v), eps));
      }
    });
  });
  iterations.set(module, (iterations.get(module) ?? new Map<string, Handle>()).set(name, handle));
  return module;
}
export function removeSpectralNorm<M extends Module>(module: M, name = 'weight'): M {
  removeOld('removeSpectralNorm', module, name, ['Orig', 'U', 'V']);
  iterations.get(module)?.get(name)?.remove();
  return module;
}
export { removeParametrizations };
