// The "large" GPT training step of bench/peers/gpt_torch.py on a GPU: bf16 by autocast, attention through cuDNN, Adam.
// node bench/gpt-cuda.mjs [large|small|tiny] (after npm run build; PJRT_DEVICE chooses the device).
import * as tx from '../dist/index.js';

const SIZES = {
  tiny: { L: 2, D: 256, H: 4, F: 1024, V: 2048, B: 4, T: 128 },
  small: { L: 4, D: 512, H: 8, F: 2048, V: 8192, B: 8, T: 256 },
  large: { L: 12, D: 1024, H: 16, F: 4096, V: 32768, B: 8, T: 1024 },
};
const size = process.argv[2] ?? 'large';
const { L, D, H, F, V, B, T } = SIZES[size];
const { nn } = tx;

const weight = (...shape) => new nn.Parameter(tx.randn(shape).mul(0.02));
const heads = (x) => x.reshape([B, T, H, D / H]).transpose(1, 2); // [B, H, T, D / H]
class Block extends nn.Module {
  n1 = new nn.RMSNorm(D, { eps: 1e-6 });
  n2 = new nn.RMSNorm(D, { eps: 1e-6 });
  q = weight(D, D);
  k = weight(D, D);
  v = weight(D, D);
  o = weight(D, D);
  g = weight(D, F);
  u = weight(D, F);
  d = weight(F, D);
  forward(x) {
    let h = this.n1.forward(x);
    const [q, k, v] = [this.q, this.k, this.v].map((w) => heads(h.matmul(w)));
    const seen = tx.scaledDotProductAttention(q, k, v, { isCausal: true });
    x = x.add(seen.transpose(1, 2).reshape([B, T, D]).matmul(this.o));
    h = this.n2.forward(x);
    return x.add(tx.silu(h.matmul(this.g)).mul(h.matmul(this.u)).matmul(this.d));
  }
}
class GPT extends nn.Module {
  emb = weight(V, D);
  layers = Array.from({ length: L }, () => new Block());
  norm = new nn.RMSNorm(D, { eps: 1e-6 });
  forward(ids) {
    let x = tx.embedding(ids, this.emb);
    for (const layer of this.layers) x = layer.forward(x);
    return this.norm.forward(x).matmul(this.emb.t());
  }
}

const model = new GPT();
const optimizer = new tx.optim.Adam(model.parameters(), { lr: 1e-3 });
const ids = tx.randint(0, V, [B, T]);
const targets = ids.roll(-1, 1).reshape([-1]);
await tx.sync();
const train = tx.compile(function train() {
  const logits = tx.autocast({ dtype: 'bf16', enabled: size === 'large' }, () => model.forward(ids));
  const loss = tx.crossEntropy(logits.reshape([-1, V]).float(), targets);
  loss.backward();
  optimizer.step();
  optimizer.zeroGrad(); // here, and not before: gradients that are still set would be results of the step
  return loss;
});
const ms = async (run) => {
  const start = performance.now();
  await run();
  return performance.now() - start;
};
const median = (times) => times.toSorted((a, b) => a - b)[times.length >> 1].toFixed(1);
let loss;
const start = async () => void (loss = await train());
const read = async () => {
  await start();
  return loss.item();
};
const wait = async () => {
  await start();
  await tx.sync({ wait: true }); // as gpt_torch.py does: the device is done, nothing is copied
};
const first = await read();
for (let i = 0; i < 2; i++) await read();
const [waits, reads] = [[], []];
for (let i = 0; i < 12; i++) {
  waits.push(await ms(wait));
  reads.push(await ms(read));
}
const stream = await ms(async () => {
  for (let i = 0; i < 12; i++) await start();
  await loss.item();
});
console.log(
  `tsxla ${size}: ${median(waits)} ms/step, ${median(reads)} with its loss read, ${(stream / 12).toFixed(1)} without waiting, loss ${first.toFixed(4)} to ${(await loss.item()).toFixed(4)}`,
);
