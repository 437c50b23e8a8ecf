// Our side of bench/cpu.ts: the step as one compiled function.
import type { Tensor } from 'tsxla';
import * as tx from 'tsxla';
import type { Model } from './peers/model.js';
import { readModel, takeTurns } from './peers/side.mjs';

type Read = Model & {
  readonly weights: Readonly<Record<string, { readonly shape: number[]; readonly data: Float32Array }>>;
  readonly ids: Int32Array;
  readonly targets: Int32Array;
};
const { L, D, H, V, B, T, lr, betas, eps, weightDecay, weights, ids, targets } = readModel() as Read;
process.env['PJRT_DEVICE'] = 'CPU';

const w = Object.fromEntries(
  Object.entries(weights).map(([name, { shape, data }]) => [
    name,
    tx.tensor(data, { dtype: 'f32' }).reshape(shape).detach().requiresGrad_(),
  ]),
) as Record<string, Tensor>;
const x = tx.tensor(ids).reshape([B, T]);
const y = tx.tensor(targets);

const norm = (h: Tensor, weight: Tensor) => tx.rmsNorm(h, D, { weight, eps: 1e-5 });
const heads = (h: Tensor) => h.reshape([B, T, H, D / H]).transpose(1, 2); // [B, H, T, D / H]
const causal = tx.ones([T, T], { dtype: 'bool' }).tril();

function attention(q: Tensor, k: Tensor, v: Tensor): Tensor {
  const scores = q.matmul(k.transpose(-2, -1)).mul((D / H) ** -0.5); // [B, H, T, T]
  return tx.where(causal, scores, -1e9).softmax(-1).matmul(v);
}

function logits(): Tensor {
  let h = tx.embedding(x, w['emb']!); // [B, T, D]
  for (let i = 0; i < L; i++) {
    const of = (name: string) => w[`l${i}.${name}`]!;
    let a = norm(h, of('n1'));
    const [q, k, v] = ['wq', 'wk', 'wv'].map((name) => heads(a.matmul(of(name)))) as [Tensor, Tensor, Tensor];
    h = h.add(attention(q, k, v).transpose(1, 2).reshape([B, T, D]).matmul(of('wo')));
    a = norm(h, of('n2'));
    h = h.add(
      tx
        .silu(a.matmul(of('w1')))
        .mul(a.matmul(of('w3')))
        .matmul(of('w2')),
    );
  }
  return norm(h, w['nf']!).matmul(w['head']!).reshape([-1, V]);
}

const parameters = Object.values(w);
const ms = parameters.map((p) => tx.zerosLike(p));
const vs = parameters.map((p) => tx.zerosLike(p));
const t = tx.tensor(0, { dtype: 'f32' });
function adamW() {
  t.add_(1);
  const c1 = tx.sub(1, tx.pow(betas[0], t));
  const c2 = tx.sub(1, tx.pow(betas[1], t)).sqrt();
  for (const [i, p] of parameters.entries()) {
    const [m, v, g] = [ms[i]!, vs[i]!, p.grad!];
    m.mul_(betas[0]).add_(g.mul(1 - betas[0]));
    v.mul_(betas[1]).add_(g.mul(g).mul(1 - betas[1]));
    p.mul_(1 - lr * weightDecay).sub_(m.div(c1).mul(lr).div(v.sqrt().div(c2).add(eps)));
    p.grad = null;
  }
}

const train = tx.compile(function train() {
  const loss = tx.crossEntropy(logits(), y);
  loss.backward();
  tx.noGrad(adamW);
  return loss;
});
await takeTurns('tsxla', async () => Number(await (await train()).item()));
