// Attention through cuDNN on a GPU: errors against the plain form in f32 on the same inputs, and times beside the plain form in
// bf16. node bench/attention-cuda.mjs [RUNS] (after npm run build). One line a case: how many calls of cuDNN the program has,
// errors relative to the largest number of each result (bf16 has 8 bits: 1e-2 is good), best milliseconds forward and with
// the gradients.
//
// --against DIR: on torch's inputs instead, and beside torch's own errors: first python bench/attention_torch.py DIR.
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import * as tx from '../dist/index.js';
import { LoadedExecutable } from '../dist/pjrt/index.js';

process.env.TSXLA_LOG = 'quiet';
process.env.PJRT_DEVICE ??= 'CUDA';
const { values: args, positionals } = parseArgs({ options: { against: { type: 'string' } }, allowPositionals: true });
const RUNS = Number(positionals[0] ?? 20);
const CASES = JSON.parse(fs.readFileSync(path.join(import.meta.dirname, 'attention-cases.json'), 'utf8'));

/**
 * lengths: sequences of different lengths, and two queries that see nothing. float: a bias for each head, with a gradient.
 * random: the same for all.
 */
function maskOf(kind, batch, heads, queries, keys, dtype) {
  if (!kind) return undefined;
  if (kind === 'float') return tx.randn([heads, queries, keys], { dtype, requiresGrad: true });
  if (kind === 'random') return tx.rand([queries, keys]).lt(0.7);
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
  return error.item();
};

const optionsOf = ({ causal = false, groups }) => ({ isCausal: causal, enableGqa: groups !== undefined });

async function measure(of) {
  const { batch, heads, groups = heads, queries, keys = queries, d, mask, dtype = 'bf16' } = of;
  tx.manualSeed(0);
  const draw = (h, t) => tx.randn([batch, h, t, d], { dtype, requiresGrad: true });
  const xs = [
    draw(heads, queries),
    draw(groups, keys),
    draw(groups, keys),
    maskOf(mask, batch, heads, queries, keys, dtype),
  ];
  const g = tx.randn([batch, heads, queries, d], { dtype });
  await tx.sync(...xs.filter(Boolean), g);
  const wide = xs.map((x) => (x?.requiresGrad ? x.detach().float().requiresGrad_() : x));
  const options = optionsOf(of);
  const flash = stepOf('auto', xs, g, options);
  const exact = stepOf('auto', wide, g.float(), options);
  const plain = stepOf('plain', xs, g, options);
  const calls = tx.getStablehlo(flash.both()).split('custom_call').length - 1;
  const [got, want] = [await flash.train(), await exact.train()];
  const errors = [];
  for (let i = 0; i < got.length; i++) errors.push((await errorOf(got[i], want[i])).toExponential(1));
  const times = [];
  for (const { forward, train } of [flash, plain])
    times.push(`${(await best(forward)).toFixed(2)} / ${(await best(async () => (await train()).at(-1))).toFixed(2)}`);
  const shape = `B${batch} H${heads}/${groups} T${queries}/${keys} d${d} ${dtype}`;
  return `${shape}: ${calls} calls, errors ${errors.join(' ')}, ms ${times[0]} (plain ${times[1]})`;
}

/** The optimized programs that run, overheard. */
const ran = new Set();
const { execute } = LoadedExecutable.prototype;
LoadedExecutable.prototype.execute = function (...given) {
  ran.add(this);
  return execute.apply(this, given);
};
/** How many calls of cuDNN's attention they have. */
async function cudnnCalls() {
  const texts = await Promise.all([...ran].map((executable) => executable.optimizedHlo()));
  return texts.join('').split('"__cudnn$fmha').length - 1;
}

/** Ours and torch's errors against the truth. Good: at most twice torch's, or 1e-2. */
async function compare(of, number) {
  const file = await tx.io.readTorch(path.join(args.against, `${number}.pt`));
  const tensorOf = (a, requiresGrad = false) =>
    a && tx.tensor(a.data, { dtype: a.dtype, shape: a.shape, requiresGrad });
  const xs = ['q', 'k', 'v', 'mask'].map((name) => file.get(name)).map((a) => tensorOf(a, a && a.dtype !== 'bool'));
  const g = tensorOf(file.get('g'));
  await tx.sync(...xs.filter(Boolean), g);
  ran.clear();
  const got = await stepOf('auto', xs, g, optionsOf(of)).train();
  const calls = await cudnnCalls().catch((e) => `? (${e.message})`);
  const said = [];
  for (const [i, name] of ['output', 'dq', 'dk', 'dv', 'dmask'].slice(0, got.length).entries()) {
    const truth = tensorOf(file.get('truth')[i]);
    const [ours, torch] = [await errorOf(got[i], truth), await errorOf(tensorOf(file.get('torch')[i]), truth)];
    const good = ours <= 2 * torch || ours <= 1e-2;
    if (!good) process.exitCode = 1;
    said.push(`${name} ${ours.toExponential(1)} (torch ${torch.toExponential(1)})${good ? '' : ' TOO LARGE'}`);
  }
  return `${xs[0].dtype}[${xs[0].shape}]: ${calls} calls of cuDNN in the optimized HLO, errors: ${said.join(', ')}`;
}

for (const [i, of] of CASES.entries()) {
  try {
    console.log(`${of.name}: ${await (args.against ? compare(of, i) : measure(of))}`);
  } catch (e) {
    process.exitCode = 1;
    console.log(`${of.name}: FAILED: ${e.message.split('\n').slice(0, 3).join(' ').slice(0, 400)}`);
  }
}
