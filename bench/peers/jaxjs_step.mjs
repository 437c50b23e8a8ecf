// jax-js's side of bench/cpu.ts, the whole step in jit, on WebAssembly: on one core as it is shipped; with threads.mjs on all.
import { readModel, takeTurns } from './side.mjs';

const jax = await import('@jax-js/jax');
const { numpy: np, nn, jit, valueAndGrad, tree } = jax;
await jax.init('wasm');

const { L, D, H, V, B, T, lr, betas, eps, weightDecay, weights, ids, targets } = readModel();
const inputs = [np.array(ids), np.array(targets), np.triu(np.full([T, T], -1e9), 1)];

// Every use of an array but its last takes a reference.
const norm = (h, weight) =>
  h.ref.mul(np.reciprocal(np.sqrt(np.mean(h.ref.mul(h), -1, { keepdims: true }).add(1e-5)))).mul(weight);
const heads = (h) => h.reshape([B, T, H, D / H]).transpose([0, 2, 1, 3]);

function lossOf(w, x, y, mask) {
  let h = np.take(w.emb, x, 0);
  for (let i = 0; i < L; i++) {
    const of = (name) => w[`l${i}.${name}`];
    let a = norm(h.ref, of('n1'));
    const q = heads(np.matmul(a.ref, of('wq')));
    const k = heads(np.matmul(a.ref, of('wk')));
    const v = heads(np.matmul(a, of('wv')));
    const scores = np.matmul(q, k.transpose([0, 1, 3, 2])).mul((D / H) ** -0.5);
    const mixed = np.matmul(nn.softmax(scores.add(mask.ref), -1), v);
    h = h.add(np.matmul(mixed.transpose([0, 2, 1, 3]).reshape([B * T, D]), of('wo')));
    a = norm(h.ref, of('n2'));
    h = h.add(np.matmul(nn.silu(np.matmul(a.ref, of('w1'))).mul(np.matmul(a, of('w3'))), of('w2')));
  }
  mask.dispose();
  const logp = nn.logSoftmax(np.matmul(norm(h, w.nf), w.head), -1);
  return logp
    .mul(nn.oneHot(y, V))
    .sum()
    .mul(-1 / (B * T));
}

/** AdamW; c1 and c2 are what the averages are to be multiplied with at this step. */
function adamW(w, first, second, g, c1, c2) {
  const [b1, b2] = betas;
  first = tree.map((a, g) => a.mul(b1).add(g.mul(1 - b1)), first, tree.ref(g));
  second = tree.map((a, g) => a.mul(b2).add(g.ref.mul(g).mul(1 - b2)), second, g);
  const moved = (w, a, b) =>
    w.mul(1 - lr * weightDecay).sub(
      a
        .mul(c1.ref)
        .mul(lr)
        .div(np.sqrt(b.mul(c2.ref)).add(eps)),
    );
  w = tree.map(moved, w, tree.ref(first), tree.ref(second));
  c1.dispose();
  c2.dispose();
  return [w, first, second];
}

const compiled = jit((w, first, second, x, y, mask, c1, c2) => {
  const [loss, g] = valueAndGrad(lossOf)(tree.ref(w), x, y, mask);
  return [loss, ...adamW(w, first, second, g, c1, c2)];
});

const entries = Object.entries(weights);
const make = (of) => Object.fromEntries(entries.map(([name, weight]) => [name, of(weight)]));
const zeros = () => make(({ shape }) => np.zeros(shape));
let state = [make(({ shape, data }) => np.array(data).reshape(shape)), zeros(), zeros()];
let t = 0;
async function step() {
  t++;
  const corrections = betas.map((b) => np.array(1 / (1 - b ** t)));
  const [loss, ...next] = compiled(...state, ...inputs.map((a) => a.ref), ...corrections);
  state = next;
  await jax.blockUntilReady(state);
  return (await loss.data())[0];
}
await takeTurns(`jax-js 0.1.25 jit, wasm${globalThis.Worker ? ', threads' : ''}`, step);
