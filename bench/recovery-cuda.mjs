// The main job's step on a GPU, as bench/peers' torch has it: Qwen3-0.6B in bf16 with random weights, adapters in f32, KD over
// 128 cached logits, AdamW, no accumulation. Beside it, in the same run: qwen3_lora_kd_torch.py 4
//   node bench/recovery-cuda.mjs [FLAGS]       after npm run build; PJRT_DEVICE chooses the device
//   --gather | --dense          the head: rows of candidates (default), or all of them
//   --unrolled                  28 layers one after the other, each with weights of its own (default)
//   --stacked                   the same with all layers' weights stacked: 12 arrays of adapters to be updated, not 336
//   --grouped                   the same with adapters stacked, and weights as they are
//   --scan                      layers as a loop
//   --checkpoint                keep only the inputs of layers for the gradient
//   --light                     keep only what products give
//   --chunk 256                 positions at a time in the head; 4096 is no loop
//   --profile DIR               profiles five steps more: tsxla profile DIR says where their time goes
//   --batch 4 --length 1024 --rank 8 --steps 20
//   --tiny                      a small model, to see that it works, on any device
//   --count                     no run: how many operations of each kind the program has
import { parseArgs } from 'node:util';
import * as tx from '../dist/index.js';
import { getMemoryInfo } from '../dist/xm/index.js';

const flag = { type: 'boolean', default: false };
const number = (value) => ({ type: 'string', default: String(value) });
const { values: given } = parseArgs({
  options: {
    ...{
      gather: flag,
      dense: flag,
      unrolled: flag,
      stacked: flag,
      grouped: flag,
      scan: flag,
      checkpoint: flag,
      light: flag,
    },
    ...{
      tiny: flag,
      count: flag,
      chunk: { type: 'string' },
      profile: { type: 'string' },
      batch: number(4),
      length: number(1024),
      rank: number(8),
      steps: number(20),
    },
  },
});
const [B, rank, steps] = [given.batch, given.rank, given.steps].map(Number);
const [L, K] = given.tiny ? [64, 16] : [Number(given.length), 128];
const TINY = { vocabSize: 512, hiddenSize: 64, intermediateSize: 96, numHiddenLayers: 3, headDim: 32 };
const config = given.tiny
  ? { ...tx.models.QWEN3['0.6B'], ...TINY, numAttentionHeads: 4, numKeyValueHeads: 2 }
  : tx.models.QWEN3['0.6B'];
const { vocabSize: V, numHiddenLayers: N } = config;
const form = ['scan', 'stacked', 'grouped'].find((name) => given[name]) ?? 'unrolled';
const compute = given.dense ? 'dense' : 'gather';
const checkpoint = given.light ? 'light' : given.checkpoint;
const options = { compute, temperature: 2, ...(given.chunk && { chunk: Number(given.chunk) }) };

tx.manualSeed(0);
const stacked = { scanLayers: true, unroll: form === 'stacked' ? N : 1 };
const model = new tx.models.Qwen3ForCausalLM(config, {
  checkpoint,
  ...((form === 'scan' || form === 'stacked') && stacked),
});
model.to('bf16');
tx.lora.addLora(model, { rank });
const adapters = [...model.namedParameters()].filter(([, p]) => p.requiresGrad);
const groups = form === 'grouped' ? groupsOf(adapters) : [];
const trained = form === 'grouped' ? groups.map((g) => g.all) : adapters.map(([, p]) => p);
const optimizer = new tx.optim.AdamW(trained, { lr: 3e-4 });
const ids = tx.randint(0, V, [B, L], { dtype: 'i32' });
const topkIdx = tx.randint(0, V, [B, L - 1, K], { dtype: 'i32' });
const topkLogits = tx.randn([B, L - 1, K]).to('f16');

/** Adapters of one kind, those of all layers, as one array: [N, ...]. */
function groupsOf(adapters) {
  const kinds = new Map();
  for (const [name, p] of adapters) {
    const kind = name.replace(/\.\d+\./, '.*.');
    kinds.set(kind, [...(kinds.get(kind) ?? []), p]);
  }
  return [...kinds.values()].map((own) => ({ own, all: new tx.nn.Parameter(tx.stack(own).detach()) }));
}

const loss = (ids, candidates) => {
  const hidden = model.model.forward(ids).narrow(1, 0, L - 1);
  return tx.distill.kdLoss(hidden, model.lmHead.weight, candidates, options).loss;
};
const train = tx.compile(function train(ids, candidates) {
  const own = groups.flatMap((g) => g.own);
  const rows = groups.flatMap((g) => g.all.unbind(0));
  const l = tx.Tensor.lend(own, rows, () => loss(ids, candidates));
  l.backward();
  optimizer.step();
  optimizer.zeroGrad(); // here, and not before: gradients that are still set would be results of the step
  return l;
});
const batch = [ids, { topkIdx, topkLogits }];
// Before anything is compiled: kernels then say whose line they are.
const profiler = given.profile && new tx.profiler.StepProfiler(given.profile, { steps: '0:5' });
const name = `tsxla ${form}${checkpoint ? `, checkpoint ${checkpoint}` : ''}, ${compute}${given.chunk ? ` in chunks of ${given.chunk}` : ''}${given.tiny ? ', tiny' : ''}`;

if (given.count) {
  const found = new Map();
  for (const [, op] of train.stablehlo(batch, { platform: 'cuda' }).matchAll(/"stablehlo\.(\w+)"\(/g))
    found.set(op, (found.get(op) ?? 0) + 1);
  console.log(
    `${name}: ${[...found]
      .sort((a, b) => b[1] - a[1])
      .map(([op, n]) => `${n} ${op}`)
      .join(', ')}`,
  );
} else {
  await tx.sync();
  const { seconds, cached, memory } = await train.prepare(batch);
  let begin = performance.now();
  const first = await (await train(...batch)).item();
  const warm = (performance.now() - begin) / 1e3;
  for (let i = 0; i < 2; i++) await (await train(...batch)).item();
  begin = performance.now();
  let last;
  for (let i = 0; i < steps; i++) last = await train(...batch);
  const end = await last.item();
  const ms = (performance.now() - begin) / steps;
  const { peakBytesUsed } = await getMemoryInfo();
  const GB = (bytes) => (bytes === undefined ? '?' : (bytes / 1e9).toFixed(2));
  console.log(
    `${name}: ${ms.toFixed(1)} ms/step, ${Math.round((B * L) / (ms / 1e3))} tok/s, peak ${GB(peakBytesUsed)} GB ` +
      `(program: arguments ${GB(memory.arguments)}, temporaries ${GB(memory.temporaries)}), ` +
      `compile ${seconds.toFixed(1)} s${cached ? ' (now from the cache)' : ''}, first step ${warm.toFixed(1)} s, ` +
      `${train.programs} program, loss ${first.toFixed(4)} to ${end.toFixed(4)}`,
  );
  if (profiler) for (let i = 0; i < 5; i++) await profiler.step(i, async () => (last = await train(...batch)));
}
