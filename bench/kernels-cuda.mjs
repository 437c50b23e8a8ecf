// Kernels through Triton on a GPU: values beside the plain form in f32, times beside XLA's own form. Takes less than 200 s.
// node bench/kernels-cuda.mjs [--runs N] [--device cpu] (after npm run build). On the CPU kernels are StableHLO, and small:
// that only shows that this file works.
//
// First table: kernels that ship and those of docs/kernels.md; a chain of ten in one program, so that starting programs does
// not count. Second: the tests' kernels, which use every operation of the language, Triton's form beside StableHLO's.
import { parseArgs } from 'node:util';
import * as tx from '../dist/index.js';
import { turnHeads } from '../dist/models/heads.js';
import { RotaryEmbedding, rotate } from '../dist/models/rope.js';

const { values: args } = parseArgs({
  options: { runs: { type: 'string', default: '20' }, device: { type: 'string', default: 'cuda' } },
});
process.env.TSXLA_LOG = 'quiet';
process.env.PJRT_DEVICE = args.device.toUpperCase();
const RUNS = Number(args.runs);
const CHAIN = 10;
const isSmall = args.device === 'cpu';
const { block, iota, programId, when, where } = tx.kernels;

const withKernels = (on, describe) => {
  if (on) process.env.TSXLA_KERNELS = 'triton,heads';
  else delete process.env.TSXLA_KERNELS;
  try {
    return describe();
  } finally {
    delete process.env.TSXLA_KERNELS;
  }
};

// ---- what is measured: kernel and plain are functions of the operands, from the first of them to something like it

/** Queries and keys of one layer: q, k, both weights of norms, as a list of [q, k]. */
function heads(name, [B, T, H, G, d]) {
  const rope = new RotaryEmbedding({ type: 'default', theta: 1e6, originalMaxPositionEmbeddings: T }, d, T);
  const rotation = rope.forward(tx.arange(T).unsqueeze(0));
  const normed = (x, weight) => {
    const wide = x.float();
    return wide
      .mul(wide.square().mean({ dim: -1, keepdim: true }).add(1e-6).rsqrt())
      .to(x.dtype)
      .mul(weight);
  };
  return {
    name: `heads, ${name}`,
    operands: [[B, T, H, d], [B, T, G, d], [d], [d]],
    chained: 2,
    kernel: (q, k, ...weights) => turnHeads(q, k, rotation, { eps: 1e-6, offset: 0, weights }),
    plain: (q, k, ...weights) =>
      [q, k].map((x, i) => rotate(normed(x, weights[i]).transpose(1, 2), rotation).transpose(1, 2)),
    grads: true,
  };
}

function softmax(rows, width) {
  const kernel = tx.kernel(
    function softmax(x, y) {
      const wide = x.load().to('f32');
      const e = wide.sub(wide.max(1, true)).exp();
      y.store(e.div(e.sum(1, true)).to(y.dtype));
    },
    (x) => {
      const some = block([4, width], (i) => [i, 0]);
      return { grid: [Math.ceil(rows / 4)], in: [some], out: { of: x, ...some } };
    },
  );
  return {
    name: `softmax, ${rows} x ${width}`,
    operands: [[rows, width]],
    kernel: (x) => kernel(x),
    plain: (x) => x.float().softmax(1).to(x.dtype),
  };
}

function linear(M, N) {
  const [m, n, k] = [64, 64, 32];
  const kernel = tx.kernel(
    function linear(x, w, y, sum) {
      when(programId(2).eq(0), () => sum.store(0));
      sum.store(sum.load().add(x.load().dot(w.load(), { transB: true })));
      when(programId(2).eq(N / k - 1), () => y.store(sum.load().maximum(0).to(y.dtype)));
    },
    (x) => ({
      grid: [M / m, N / n, N / k],
      sequential: [2],
      in: [block([m, k], (i, _, l) => [i, l]), block([n, k], (_, j, l) => [j, l])],
      out: { of: { dtype: x.dtype, shape: [M, N] }, ...block([m, n], (i, j) => [i, j]) },
      scratch: [{ dtype: 'f32', shape: [m, n] }],
      stages: 3,
    }),
  );
  return {
    name: `linear and relu, ${M} x ${N} x ${N}`,
    operands: [
      [M, N],
      [N, N],
    ],
    scale: N ** -0.5,
    kernel: (x, w) => kernel(x, w),
    plain: (x, w) => x.matmul(w.T).relu(),
  };
}

function attention(heads, T, d) {
  const B = isSmall ? 16 : 64;
  const kernel = tx.kernel(
    function attention(q, key, v, out, top, total, sum) {
      const [i, j] = [programId(1), programId(2)];
      when(j.eq(0), () => {
        top.store(-1e30);
        total.store(0);
        sum.store(0);
      });
      when(j.le(i), () => {
        const rows = iota([B, B], 0).add(i.mul(B));
        const columns = iota([B, B], 1).add(j.mul(B));
        const products = q
          .load()
          .dot(key.load(), { transB: true })
          .mul(d ** -0.5);
        const scores = where(rows.ge(columns), products, -1e30);
        const most = top.load().maximum(scores.max(1, true));
        const shrink = top.load().sub(most).exp();
        const weights = scores.sub(most).exp();
        total.store(total.load().mul(shrink).add(weights.sum(1, true)));
        sum.store(sum.load().mul(shrink).add(weights.to(v.dtype).dot(v.load())));
        top.store(most);
      });
      when(j.eq(T / B - 1), () => out.store(sum.load().div(total.load()).to(out.dtype)));
    },
    (q) => {
      const queries = block([null, B, d], (h, i) => [h, i, 0]);
      const keys = block([null, B, d], (h, _, j) => [h, j, 0]);
      const [column, part] = [
        [B, 1],
        [B, d],
      ].map((shape) => ({ dtype: 'f32', shape }));
      return {
        grid: [heads, T / B, T / B],
        sequential: [2],
        in: [queries, keys, keys],
        out: { of: q, ...queries },
        scratch: [column, column, part],
      };
    },
  );
  const shape = [heads, T, d];
  return {
    name: `attention, ${heads} x ${T} x ${d}`,
    operands: [shape, shape, shape],
    kernel: (q, k, v) => kernel(q, k, v),
    plain: (q, k, v) =>
      tx.scaledDotProductAttention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), { isCausal: true }).squeeze(0),
  };
}

const ROWS = isSmall
  ? [heads('small', [1, 16, 4, 2, 8]), softmax(16, 32), linear(64, 64), attention(1, 32, 16)]
  : [
      heads('Qwen3-0.6B, 4 x 1024', [4, 1024, 16, 8, 128]),
      heads('Qwen3-8B, 1 x 8192', [1, 8192, 32, 8, 128]),
      softmax(4096, 1024),
      linear(4096, 1024),
      attention(64, 1024, 128),
    ];

// ---- measuring

/** Milliseconds of one call, the best of three rounds. */
async function best(run) {
  const touch = async (out) => [out].flat()[0].flatten().index('0:1').data();
  await touch(await run()); // compiled and done
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 3; round++) {
    const start = performance.now();
    let last;
    for (let i = 0; i < RUNS; i++) last = await run();
    await touch(last);
    least = Math.min(least, (performance.now() - start) / RUNS);
  }
  return least;
}
const results = (of, form, xs) => [of[form](...xs)].flat();
const gradsOf = (of, form, xs, gs) => {
  const ys = results(of, form, xs);
  return tx.grad(
    ys.map((y, i) => y.float().mul(gs[i].float()).sum()).reduce((a, b) => a.add(b)),
    xs,
  );
};
const chain = (of, form, xs) => {
  let now = xs;
  for (let i = 0; i < CHAIN; i++) now = [...results(of, form, now), ...xs.slice(of.chained ?? 1)];
  return now.slice(0, of.chained ?? 1);
};

async function measure(of) {
  tx.manualSeed(0);
  const draw = (dtype) =>
    of.operands.map((shape, i) => {
      const x = tx.randn(shape).mul(i && of.scale ? of.scale : 1);
      return x.to(dtype).detach().requiresGrad_();
    });
  const xs = draw('f32');
  const gs = results(of, 'plain', xs).map((y) => tx.randn(y.shape));
  await tx.sync(...xs, ...gs);
  const values = (form) =>
    withKernels(form === 'kernel', () => [...results(of, form, xs), ...(of.grads ? gradsOf(of, form, xs, gs) : [])]);
  const far = values('kernel').map((y, i, all) => [y, all.length, i]);
  const want = values('plain');
  const errors = await Promise.all(far.map(([y], i) => y.sub(want[i]).abs().amax().div(want[i].abs().amax()).item()));
  const half = draw('bf16');
  await tx.sync(...half);
  const times = {};
  for (const form of ['plain', 'kernel']) {
    const on = form === 'kernel';
    const forward = tx.compile((...ys) => withKernels(on, () => chain(of, form, ys)));
    times[form] = (await best(() => forward(...half))) / CHAIN;
    if (!of.grads) continue;
    const train = tx.compile((...ys) =>
      withKernels(on, () => {
        const loss = chain(of, form, ys)
          .map((y) => y.float().sum())
          .reduce((a, b) => a.add(b));
        return tx.grad(loss, ys);
      }),
    );
    times[`${form} gradients`] = (await best(() => train(...half))) / CHAIN;
  }
  return { errors, times };
}

const us = (ms) => (ms === undefined ? '' : (1000 * ms).toFixed(1)).padStart(10);
console.log(
  `${'kernel (bf16, us a call)'.padEnd(34)}${['XLA', 'kernel', 'XLA+grad', 'kern+grad'].map((s) => s.padStart(10)).join('')}  error in f32`,
);
for (const of of ROWS) {
  try {
    const { errors, times } = await measure(of);
    const columns = ['plain', 'kernel', 'plain gradients', 'kernel gradients'].map((key) => us(times[key]));
    console.log(`${of.name.padEnd(34)}${columns.join('')}  ${Math.max(...errors).toExponential(1)}`);
  } catch (e) {
    console.log(`${of.name.padEnd(34)}failed: ${String(e.message).slice(0, 600)}`);
  }
}

// ---- the language

async function casesOf() {
  try {
    const { tsImport } = await import('tsx/esm/api');
    return await tsImport('../test/kernels/cases.ts', import.meta.url);
  } catch (e) {
    console.log(`The tests' kernels are left out: ${e.message}`);
    return {};
  }
}
/** How many of these kernels give another result than StableHLO's form; and which, if they are run one by one. */
async function differing(cases) {
  const outs = (on) => withKernels(on, () => cases.map((one) => called(one, one.operands)));
  const worst = (a, b) => {
    const [x, y] = [a.to('f64'), b.to('f64')];
    const equal = x.eq(y).logicalOr(x.ne(x).logicalAnd(y.ne(y)));
    return tx.where(equal, 0, x.sub(y).abs().div(y.abs().maximum(1))).amax();
  };
  const [got, want] = [outs(true), outs(false)];
  const numbers = await Promise.all(got.map((ys, i) => Promise.all(ys.map((y, j) => worst(y, want[i][j]).item()))));
  // bf16 and f16 are rounded after each operation in one form, and not in the other.
  return cases.flatMap(({ name, tolerance = 1e-6 }, i) => {
    const most = /b?f16/.test(name) ? 0.2 : 20 * tolerance;
    const error = Math.max(...numbers[i].map(Number));
    return error <= most ? [] : [`${name}: ${error.toExponential(1)}`];
  });
}
const { CASES = {}, called } = await casesOf();
const groups = Object.entries(CASES);
for (const [group, all] of groups) {
  const cases = isSmall ? all.slice(0, 8) : all;
  let wrong;
  try {
    wrong = await differing(cases);
  } catch {
    wrong = [];
    for (const one of cases)
      wrong.push(...(await differing([one]).catch((e) => [`${one.name}: ${String(e.message).slice(0, 300)}`])));
  }
  console.log(
    `${group}: ${cases.length - wrong.length} of ${cases.length} kernels agree${wrong.map((w) => `\n  ${w}`).join('')}`,
  );
}
process.exit(0);
