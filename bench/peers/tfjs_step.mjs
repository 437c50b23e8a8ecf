// TensorFlow.js' side of bench/cpu.ts, on its WebAssembly backend.
import * as tf from '@tensorflow/tfjs';
import '@tensorflow/tfjs-backend-wasm';
import { readModel, takeTurns } from './side.mjs';

await tf.setBackend('wasm');
await tf.ready();

const { L, D, H, V, B, T, lr, betas, eps, weightDecay, weights, ids, targets } = readModel();
const entries = Object.entries(weights);
const w = Object.fromEntries(
  entries.map(([name, { shape, data }]) => [name, tf.variable(tf.tensor(data, shape), true, name)]),
);
const x = tf.tensor1d(ids, 'int32');
const y = tf.oneHot(tf.tensor1d(targets, 'int32'), V).toFloat();
const mask = tf.tidy(() =>
  tf.linalg
    .bandPart(tf.ones([T, T]), -1, 0)
    .sub(1)
    .mul(1e9),
);

const embed = tf.customGrad((weight) => ({
  value: tf.gather(weight, x),
  gradFunc: (g) => tf.scatterND(x.expandDims(1), g, [V, D]),
}));
// Only products of two matrices, neither transposed, are fast there, and the gradient of its own asks for transposed ones:
// as it is shipped, the step takes five times as long.
const matmul = tf.customGrad((a, b, save) => {
  save([a, b]);
  const gradFunc = (g, [a, b]) => [g.matMul(b.transpose()), a.transpose().matMul(g)];
  return { value: a.matMul(b), gradFunc };
});
const norm = (h, weight) => h.mul(tf.rsqrt(h.square().mean(-1, true).add(1e-5))).mul(weight);
const heads = (h) => h.reshape([B, T, H, D / H]).transpose([0, 2, 1, 3]);

function lossOf() {
  let h = embed(w.emb);
  for (let i = 0; i < L; i++) {
    const of = (name) => w[`l${i}.${name}`];
    let a = norm(h, of('n1'));
    const [q, k, v] = ['wq', 'wk', 'wv'].map((name) => heads(matmul(a, of(name))));
    const scores = tf.matMul(q, k, false, true).mul((D / H) ** -0.5);
    const mixed = tf.softmax(scores.add(mask)).matMul(v);
    h = h.add(matmul(mixed.transpose([0, 2, 1, 3]).reshape([B * T, D]), of('wo')));
    a = norm(h, of('n2'));
    const gate = matmul(a, of('w1'));
    h = h.add(matmul(gate.mul(gate.sigmoid()).mul(matmul(a, of('w3'))), of('w2')));
  }
  return tf.losses.softmaxCrossEntropy(y, matmul(norm(h, w.nf), w.head));
}

const adam = tf.train.adam(lr, ...betas, eps);
function step() {
  const { value, grads } = tf.variableGrads(lossOf);
  tf.tidy(() => {
    for (const p of Object.values(w)) p.assign(p.mul(1 - lr * weightDecay));
  });
  adam.applyGradients(grads);
  const loss = value.dataSync()[0];
  tf.dispose([grads, value]);
  return loss;
}
await takeTurns(`tfjs ${tf.version.tfjs}, wasm`, step);
