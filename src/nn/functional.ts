// tx.nn.functional: the operations of torch.nn.functional.
export { scaledDotProductAttention } from '../tensor/attention.js';
export { fractionalMaxPool2d, fractionalMaxPool3d } from '../tensor/fractional.js';
export * from '../tensor/functions.js';
/** torch.nn.functional.unfold and fold are for images, unlike torch.Tensor.unfold. */
export { col2im as fold, im2col as unfold } from '../tensor/functions.js';
export { batchNorm, instanceNorm } from '../tensor/norm.js';
export {
  alphaDropout,
  dropout,
  dropout1d,
  dropout2d,
  dropout3d,
  featureAlphaDropout,
  rrelu,
} from '../tensor/random.js';
export { gumbelSoftmax } from '../tensor/samplers.js';
export { tripletMarginWithDistanceLoss } from './triplet.js';
