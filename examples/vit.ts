// A vision transformer, ported line by line from torch (scripts/golden/vit.py has the original).

import type { Tensor } from 'tsxla';
import * as tx from 'tsxla';

export type Weights = Readonly<Record<string, Tensor>>;

const layerNorm = (w: Weights, name: string, x: Tensor): Tensor => {
  const centred = x.sub(x.mean({ dim: -1, keepdim: true }));
  const variance = centred.square().mean({ dim: -1, keepdim: true });
  return centred.mul(variance.add(1e-5).rsqrt()).mul(w[`${name}.weight`]!).add(w[`${name}.bias`]!);
};
const linear = (w: Weights, name: string, x: Tensor): Tensor => tx.linear(x, w[`${name}.weight`]!, w[`${name}.bias`]!);

function attention(w: Weights, name: string, x: Tensor, heads: number): Tensor {
  const [B, T, D] = x.shape as [number, number, number];
  const qkv = tx.linear(x, w[`${name}.in_proj_weight`]!, w[`${name}.in_proj_bias`]!); // [B, T, 3D]
  const [q, k, v] = qkv.chunk(3, { dim: -1 }).map((t) => t.reshape([B, T, heads, D / heads]).transpose(1, 2)) as [
    Tensor,
    Tensor,
    Tensor,
  ];
  const scores = q.matmul(k.transpose(-2, -1)).div(Math.sqrt(D / heads)); // [B, heads, T, T]
  const mixed = scores.softmax({ dim: -1 }).matmul(v).transpose(1, 2).reshape([B, T, D]);
  return linear(w, `${name}.out_proj`, mixed);
}

function block(w: Weights, name: string, x: Tensor, heads: number): Tensor {
  x = x.add(attention(w, `${name}.self_attn`, layerNorm(w, `${name}.norm1`, x), heads));
  const hidden = linear(w, `${name}.linear1`, layerNorm(w, `${name}.norm2`, x)).gelu();
  return x.add(linear(w, `${name}.linear2`, hidden));
}

export function vit(w: Weights, images: Tensor, { depth = 2, heads = 4, patch = 4 } = {}): Tensor {
  const B = images.shape[0]!;
  let x = tx.conv2d(images, w['patch.weight']!, w['patch.bias']!, { stride: patch }).flatten(2).transpose(1, 2); // [B, patches, dim]
  x = tx.cat([w['cls']!.expand([B, -1, -1]), x], { dim: 1 }).add(w['position']!);
  for (let i = 0; i < depth; i++) x = block(w, `layers.${i}`, x, heads);
  return linear(w, 'head', layerNorm(w, 'norm', x).select(1, 0));
}
