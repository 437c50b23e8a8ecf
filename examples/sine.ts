// A small network learns a sine: tensors, gradients and in-place updates as in torch, compiled once.
import * as tx from 'tsxla';
import { plot } from './plot.js';

const x = tx.linspace(-Math.PI, Math.PI, 256).unsqueeze(1); // [256, 1]
const y = x.sin();

tx.manualSeed(0);
const w1 = tx.randn([1, 64]).requiresGrad_();
const b1 = tx.randn([64]).mul(2).requiresGrad_();
const w2 = tx.randn([64, 1]).div(8).requiresGrad_();
const b2 = tx.zeros([1], { requiresGrad: true });
const parameters = [w1, b1, w2, b2];
const momenta = parameters.map((p) => tx.zerosLike(p));
const predict = () => x.matmul(w1).add(b1).tanh().matmul(w2).add(b2);

const step = tx.compile(function step() {
  for (const p of parameters) p.grad = null;
  const loss = tx.mseLoss(predict(), y);
  loss.backward();
  tx.noGrad(() => {
    parameters.forEach((p, i) => {
      momenta[i]!.mul_(0.9).add_(p.grad!);
      p.sub_(momenta[i]!.mul(0.004));
    });
  });
  return loss;
});

const STEPS = 1000;
let loss = Number.NaN;
let start = performance.now();
for (let i = 0; i <= STEPS; i++) {
  const error = await step(); // one program computes the loss and every update
  if (i % 200 === 0) {
    loss = await error.item();
    console.log(`step ${String(i).padStart(4)} loss ${loss.toFixed(6)}`);
  }
  if (i > 0) continue;
  const [{ seconds, cache }] = tx.explain().slice(-1) as [tx.CompileRecord];
  console.log(`${cache === 'disk' ? 'found among the compiled programs' : 'compiled'} in ${seconds!.toFixed(2)} s`);
  start = performance.now();
}
console.log(`${(((performance.now() - start) / STEPS) * 1000).toFixed(0)} us a step`);
console.log(plot((await predict().data()) as Float32Array));
if (!(loss < 0.01)) throw new Error(`the network did not learn: loss ${loss}`);
