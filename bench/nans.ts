// Measures the cost of tx.debug.nans(): a GPT training step with it off and on, interleaved, and the search for a bad weight.
// npm run bench:nans [-- --layers 28 --scan --width 64 --rounds 9]
import { parseArgs } from 'node:util';
import * as tx from 'tsxla';

const { values } = parseArgs({
  options: {
    layers: { type: 'string', default: '4' },
    width: { type: 'string', default: '128' },
    scan: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '9' },
  },
});
const [layers, D, scanLayers] = [Number(values.layers), Number(values.width), values.scan];

const median = (xs: readonly number[]): number => xs.toSorted((a, b) => a - b)[xs.length >> 1]!;

tx.manualSeed(1);
const model = new tx.models.Qwen3ForCausalLM(
  {
    ...{ vocabSize: 2048, hiddenSize: D, intermediateSize: 3 * D, numHiddenLayers: layers },
    ...{ numAttentionHeads: 4, numKeyValueHeads: 2, headDim: D / 4, maxPositionEmbeddings: 256 },
  },
  { scanLayers, checkpoint: scanLayers },
);
const optimizer = new tx.optim.AdamW(model.parameters(), { lr: 1e-4 });
const train = tx.compile(function train(ids: tx.Tensor) {
  const loss = model.loss(ids);
  loss.backward();
  optimizer.step();
  optimizer.zeroGrad();
  return loss;
});
const ids = tx.randint(0, 2048, [4, 64]);
await tx.sync(ids);

async function stepTime(): Promise<number> {
  const start = performance.now();
  for (let i = 0; i < 5; i++) await (await train(ids)).item();
  return (performance.now() - start) / 5;
}
const [off, on]: [number[], number[]] = [[], []];
for (let round = -1; round < Number(values.rounds); round++) {
  const times = [await stepTime()];
  tx.debug.nans();
  times.push(await stepTime());
  tx.debug.nans(false);
  if (round >= 0) [off, on].forEach((list, i) => void list.push(times[i]!)); // the first compiles
}
const ratio = median(on.map((t, i) => t / off[i]!));
console.log(`off ${median(off).toFixed(1)} ms, on ${median(on).toFixed(1)} ms a step: ${ratio.toFixed(2)} times`);

const bad = [...model.namedParameters()].find(([name]) => name.endsWith('down_proj.weight'))![1];
const data = (await bad.data()) as Float32Array;
data[data.length - 1] = Number.NaN;
bad.assign(data);
tx.debug.nans();
const start = performance.now();
const error = await train(ids).catch((e: unknown) => e as Error);
console.log(`the search took ${((performance.now() - start) / 1e3).toFixed(1)} s:\n${(error as Error).message}`);
