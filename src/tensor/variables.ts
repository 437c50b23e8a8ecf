// Maps each variable of a graph to its tensor, where backward() stores the gradient.
import type { Expr } from '../ir/expr.js';
import type { HookList } from '../ir/hooks.js';
import type { Tensor } from './tensor.js';

export const variables = new WeakMap<Expr, Tensor>();
/** Hooks called after a gradient was added to a variable's `grad`. */
export const afterGrad = new WeakMap<Tensor, HookList<(tensor: Tensor) => void>>();
