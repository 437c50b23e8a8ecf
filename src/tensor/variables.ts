// The tensor of each variable of a graph: where backward() leaves its gradient.
import type { Expr } from '../ir/expr.js';
import type { Tensor } from './tensor.js';

export const variables = new WeakMap<Expr, Tensor>();
