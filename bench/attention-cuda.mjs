// Attention through cuDNN on a GPU: errors against the plain form in f32 on the same inputs, and times beside the plain form in
// bf16. node bench/attention-cuda.mjs (after npm run build). One line a case: how many calls of cuDNN the program has,
// errors relative to the largest number of each result (bf16 has 8 bits: 1e-2 is good), best milliseconds forward and with
// the gradients.
import * as tx from '../dist/index.js';

process.env.TSXLA_LOG = 'quiet';
process.env.PJRT_DEVICE ??= 'CUDA';
const RUNS = Number(process.argv[2] ?? 20);

/** [name, batch, heads, heads of the key, queries, keys, d, options, mask] */
const CASES = [
  ['causal', 8, 16, 16, 1024, 1024, 64, { isCausal: true }],
  ['not causal', 8, 16, 16, 1024, 1024, 64, {}],
  ['causal f16', 8, 16, 16, 1024, 1024, 64, { isCausal: true }, undefined, 'f16'],
  ['grouped 16/8', 4, 16, 8, 2048, 2048, 128, { isCausal: true, enableGqa: true }],
  ['fewer queries', 4, 16, 16, 256, 1024, 64, { isCausal: true }],
  ['bool mask', 4, 16, 16, 1024, 1024, 64, {}, 'bool'],
  ['float mask', 4, 16, 16, 1024, 1024, 64, {}, 'float'],
  ['long', 1, 16, 16, 8192, 8192, 64, { isCausal: true }],
];

/** bool: sequences of different lengths, and two queries that see nothing. float: a bias for each head, with a gradient. */
function maskOf(kind, batch, heads, queries, keys, dtype) {
  if (!kind) return undefined;
  if (kind === 'float') return tx.randn([heads, queries, keys], { dtype, requiresGrad: true });
  const lengths = tx
    .arange(batch)
    .add(1)
    .mul(Math.floor(keys / batch))
    .reshape([batch, 1, 1, 1]);
  const rows = tx.arange(queries).reshape([1, 1, queries, 1]);
  return tx.arange(keys).reshape([1, 1, 1, keys]).lt(lengths).logicalAnd(rows.ge(2));
}

/** A step that gives the output and the gradients, in some form and dtype. */
function stepOf(form, xs, g, options) {
  const attend = (q, k, v, attnMask) => {
    process.env.TSXLA_ATTENTION = form;
    return tx.scaledDotProductAttention(q, k, v, { ...options, ...(attnMask && { attnMask }) });
  };
  const wanted = xs.filter((x) => x?.requiresGrad);
  const both = () => {
    const y = attend(...xs);
    return [y, ...tx.grad(y.mul(g).sum(), wanted)];
  };
  return { both, forward: tx.compile(() => attend(...xs)), train: tx.compile(both) };
}

async function best(run) {
  await (await run()).data(); // compiled and done
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 3; round++) {
    const start = performance.now();
    let last;
    for (let i = 0; i < RUNS; i++) last = await run(); // dispatched, one after the other
    await last.flatten().index('0:1').data();
    least = Math.min(least, (performance.now() - start) / RUNS);
  }
  return least;
}

/** The largest difference, relative to the largest number. */
const errorOf = async (got, want) => {
  const wide = want.float();
  const error = got.float().sub(wide).abs().amax().div(wide.abs().amax());
  return Number(await error.item());
};

for (const [name, batch, heads, groups, queries, keys, d, options, kind, dtype = 'bf16'] of CASES) {
  try {
    tx.manualSeed(0);
    const draw = (h, t) => tx.randn([batch, h, t, d], { dtype, requiresGrad: true });
    const xs = [
      draw(heads, queries),
      draw(groups, keys),
      draw(groups, keys),
      maskOf(kind, batch, heads, queries, keys, dtype),
    ];
    const g = tx.randn([batch, heads, queries, d], { dtype });
    await tx.sync(...xs.filter(Boolean), g);
    const wide = xs.map((x) => (x?.requiresGrad ? x.detach().float().requiresGrad_() : x));
    const flash = stepOf('auto', xs, g, options);
    const exact = stepOf('auto', wide, g.float(), options);
    const plain = stepOf('plain', xs, g, options);
    const calls = tx.getStablehlo(flash.both()).split('custom_call').length - 1;
    const [got, want] = [await flash.train(), await exact.train()];
    const errors = [];
    for (let i = 0; i < got.length; i++) errors.push((await errorOf(got[i], want[i])).toExponential(1));
    const times = [];
    for (const { forward, train } of [flash, plain])
      times.push(
        `${(await best(forward)).toFixed(2)} / ${(await best(async () => (await train()).at(-1))).toFixed(2)}`,
      );
    const shape = `B${batch} H${heads}/${groups} T${queries}/${keys} d${d} ${dtype}`;
    console.log(`${name}: ${shape}: ${calls} calls, errors ${errors.join(' ')}, ms ${times[0]} (plain ${times[1]})`);
  } catch (e) {
    console.log(`${name}: FAILED: ${e.message.split('\n').slice(0, 3).join(' ').slice(0, 400)}`);
  }
}
