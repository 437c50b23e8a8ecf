// Our side of bench/cpu.ts: the step as one compiled function.
import type { Tensor } from 'tsxla';
import * as tx from 'tsxla';
import { readModel, takeTurns } from './peers/side.mjs';

const { L, D, H, V, B, T, lr, betas, eps, weightDecay, weights, ids, targets } = readModel();
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
function logits(): Tensor {
  let h = tx.embedding(x, w['emb']!); // [B, T, D]
  for (let i = 0; i < L; i++) {
    const of = (name: string) => w[`l${i}.${name}`]!;
    let a = norm(h, of('n1'));
    const [q, k, v] = ['wq', 'wk', 'wv'].map((name) => heads(a.matmul(of(name)))) as [Tensor, Tensor, Tensor];
    const mixed = tx.scaledDotProductAttention(q, k, v, { isCausal: true });
    h = h.add(mixed.transpose(1, 2).reshape([B, T, D]).matmul(of('wo')));
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

const optimizer = new tx.optim.AdamW(Object.values(w), { lr, betas, eps, weightDecay });
const train = tx.compile(function train() {
  optimizer.zeroGrad();
  const loss = tx.crossEntropy(logits(), y);
  loss.backward();
  optimizer.step();
  return loss;
});
await takeTurns('tsxla', async () => (await train()).item());
