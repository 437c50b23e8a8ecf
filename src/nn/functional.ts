// torch.nn.functional: the operations of the tensor language that networks are made of.
export * from '../tensor/functions.js';
export { dropout } from '../tensor/random.js';
