// Norm and rotation of queries and keys as one operation, where TSXLA_KERNELS=heads asks for it on an NVIDIA GPU.
import { type HeadsKernel, headsBackward, headsForward } from '../kernels/gpu/heads.js';
import { isSwitchedOn } from '../kernels/switches.js';
import { device } from '../runtime/device.js';
import { customVjp } from '../tensor/autograd.js';
import { kernel } from '../tensor/kernels.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Rotation } from './rope.js';

/** Norms of each head. */
export interface HeadNorms {
  readonly eps: number;
  readonly offset: number;
  readonly weights: readonly [q: Tensor, k: Tensor];
}

const FLOATS = ['f32', 'bf16', 'f16'];
/** Whether it is asked for, and made for such heads: turned as a whole, of floats. */
export function fusesHeads(q: Tensor, k: Tensor, [cos]: Rotation): boolean {
  if (!isSwitchedOn('heads') || device() !== 'cuda') return false;
  return cos.shape.at(-1) === q.shape[3] && q.shape[3]! % 2 === 0 && q.dtype === k.dtype && FLOATS.includes(q.dtype);
}

const made = new Map<string, ReturnType<typeof make>>();
function make(of: HeadsKernel) {
  const [there, back] = [headsForward(of), headsBackward(of)];
  const forward = kernel(function heads(...refs) {
    there.run(...refs);
  }, there.options);
  const backward = kernel(function headsBackward(...refs) {
    back.run(...refs);
  }, back.options);
  return customVjp((...xs: Tensor[]) => forward(...xs), {
    backward: ({ inputs: xs }, gs: Tensor[]) => {
      const [gq, gk, ...sums] = backward(...xs, ...gs);
      return [gq, gk, ...sums.map((sum, i) => sum.sum([0, 1]).to(xs[2 + i]!.dtype)), null, null];
    },
  });
}

/** Queries [B, T, H, d] and keys [B, T, G, d], normalized and turned, in the same order. The rotation has no gradient. */
export function turnHeads(q: Tensor, k: Tensor, [cos, sin]: Rotation, norms: HeadNorms | null): [Tensor, Tensor] {
  const of: HeadsKernel = { norm: norms && { eps: norms.eps, offset: norms.offset } };
  const key = JSON.stringify(of);
  const run = made.get(key) ?? make(of);
  made.set(key, run);
  return run(q, k, ...(norms?.weights ?? []), cos, sin) as [Tensor, Tensor];
}
