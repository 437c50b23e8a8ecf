// A kernel in TypeScript: RMSNorm and a gate in one pass over memory, with its gradient, checked and compared.
import * as tx from 'tsxla';

const { block } = tx.kernels;
const EPS = 1e-6;

/** y = x / rms(x) * weight * sigmoid(gate), eight rows at a time. */
const forward = tx.kernel(
  function gatedNorm(x, gate, weight, y) {
    const rows = x.load();
    const scale = rows.mul(rows).sum(1, true).div(rows.shape[1]!).add(EPS).rsqrt();
    y.store(rows.mul(scale).mul(weight.load()).mul(gate.load().sigmoid()));
  },
  (x) => {
    const rows = block([8, x.shape[1]!], (i) => [i, 0]);
    return { grid: [Math.ceil(x.shape[0]! / 8)], in: [rows, rows], out: { of: x, ...rows } };
  },
);

/** The same with tensors: the reference, from which the gradient is derived. */
function plain(x: tx.Tensor, gate: tx.Tensor, weight: tx.Tensor): tx.Tensor {
  const scale = x.square().mean(1, true).add(EPS).rsqrt();
  return x.mul(scale).mul(weight).mul(gate.sigmoid());
}
const gatedNorm = tx.customVjp(forward, {
  forward: (x: tx.Tensor, gate: tx.Tensor, weight: tx.Tensor) => [forward(x, gate, weight), [x, gate, weight]] as const,
  backward: ([x, gate, weight], g) => tx.func.vjp(plain, x!, gate!, weight!)[1](g),
});

const x = tx.randn([100, 64]).requiresGrad_();
const gate = tx.randn([100, 64]);
const weight = tx.ones([64]).requiresGrad_();
await forward.check(x.detach(), gate, weight.detach());
console.log('no access is out of bounds, and no two programs write the same element');

const difference = await gatedNorm(x, gate, weight)
  .sub(plain(x, gate, weight))
  .abs()
  .max()
  .item();
console.log(`largest difference to the plain form: ${difference < 1e-5 ? 'below 1e-5' : difference}`);

gatedNorm(x, gate, weight).sum().backward();
console.log(`gradients: x [${x.grad!.shape}], weight [${weight.grad!.shape}]`);

const step = tx.compile((a: tx.Tensor) => gatedNorm(a, gate, weight).mean());
for (let i = 0; i < 3; i++) await (await step(tx.randn([100, 64]))).item();
console.log(`${step.programs} program for 3 calls`);
