// tx.func: the function transforms of torch.func: gradients, Jacobian products, Jacobians, vmap, functionalCall.
export { type FunctionOptions, grad, valueAndGrad } from '../tensor/autograd.js';
export type { Dims } from './dims.js';
export { gradAndValue } from './grad-and-value.js';
export { hessian, type Jacobian, type JacobianOptions, jacfwd, jacrev } from './jacobian.js';
export {
  type FunctionalCallOptions,
  functionalCall,
  type ModuleLike,
  type ModuleState,
  stackModuleState,
} from './module.js';
export { jvp, linearize, vjp } from './vjp.js';
export { type VmapOptions, vmap } from './vmap.js';
