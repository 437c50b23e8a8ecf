// torch.nn.functional: the operations of the tensor language that networks are made of.
export { scaledDotProductAttention } from '../tensor/attention.js';
export * from '../tensor/functions.js';
export { batchNorm, instanceNorm } from '../tensor/norm.js';
export {
  alphaDropout,
  dropout,
  dropout1d,
  dropout2d,
  dropout3d,
  featureAlphaDropout,
} from '../tensor/random.js';
