// What test/models/saving.test.ts and test/slow/saving.test.ts kill: saves a model, adapters or a student again and again, each
// time with a number in every file.
import * as tx from 'tsxla';
import { saveStudent } from 'tsxla/recovery';

const [, , kind, folder, from] = process.argv;
const SIZES = { hiddenSize: 32, intermediateSize: 32, numHiddenLayers: 1, numAttentionHeads: 2, numKeyValueHeads: 1 };
const modelWith = (n) =>
  tx.nn.init.skipInit(
    () => new tx.models.Qwen3ForCausalLM({ ...SIZES, headDim: 8, vocabSize: 64, ropeTheta: 10_000 + n }),
  );
const numbered = async (n) => {
  const model = modelWith(n);
  for (const p of model.parameters()) p.assign(new Float32Array(p.numel()).fill(n));
  model.generationConfig = { doSample: false, maxNewTokens: 1 + n };
  return model;
};
const SAVE = {
  model: async (n) => (await numbered(n)).savePretrained(folder),
  student: async (n) => {
    const model = await numbered(n);
    await tx.quant.quantizeModel(model, { preset: 'q2a2', options: { scaleRank: 1 } });
    await saveStudent(folder, model);
  },
  adapters: async (n) => {
    const model = new tx.nn.Sequential(new tx.nn.Linear(4, 4));
    tx.lora.addLora(model, { targets: '0', rank: 2, alpha: 1 + n });
    const [adapter] = tx.lora.adaptersOf(model).values();
    adapter.loraB.assign(new Float32Array(8).fill(n));
    await tx.lora.saveAdapters(model, folder);
  },
};

for (let n = Number(from); ; n++) {
  await SAVE[kind](n);
  process.stdout.write(`${n}\n`);
}
