// Fine-tunes a Qwen3 on questions and answers, with plain cross-entropy on the answers' tokens.
//   npx tsx examples/finetune-qwen3.ts [--model FOLDER or Qwen/Qwen3-0.6B --data FILE.jsonl --lr 1e-5] [--epochs 30] [--out FOLDER]
// A line of the data is {"prompt": ..., "completion": ...}. Without --model it uses a tiny model with random weights from this
// repository, which memorizes the capitals in examples/data.
import path from 'node:path';
import { parseArgs } from 'node:util';
import * as tx from 'tsxla';
import { data, models, optim, type Tensor } from 'tsxla';

const { values: args } = parseArgs({
  options: {
    model: { type: 'string' },
    data: { type: 'string', default: path.join(import.meta.dirname, 'data/capitals.jsonl') },
    lr: { type: 'string' },
    epochs: { type: 'string', default: '30' },
    batch: { type: 'string', default: '8' },
    out: { type: 'string', default: 'out/qwen3' },
  },
});
const tiny = path.join(import.meta.dirname, '../test/golden/qwen3/tied');
const lr = Number(args.lr ?? (args.model ? 1e-5 : 3e-3));
const epochs = Number(args.epochs);
tx.manualSeed(1);

// f32: XLA's bf16 is many times slower on a CPU. On a GPU or TPU leave it out, and keep masterWeights in the optimizer.
const model = await models.Qwen3ForCausalLM.fromPretrained(args.model ?? tiny, { dtype: 'f32' });
const tokenizer = model.tokenizer!;
const count = model.parameters().reduce((n, p) => n + p.numel(), 0);
console.log(`${count.toLocaleString('en')} parameters in ${model.config.numHiddenLayers} layers`);

// ---- questions and answers, as the model's chat template has them

interface Example {
  readonly prompt: string;
  readonly completion: string;
}
const asked = (prompt: string): string =>
  tokenizer.applyChatTemplate([{ role: 'user', content: prompt }], {
    addGenerationPrompt: true,
    enable_thinking: false,
  });

const examples: Example[] = [];
for await (const example of new data.JsonlDataset<Example>(args.data)) examples.push(example);
const end = tokenizer.specialTokens['eos_token'] ?? '<|im_end|>';
const items = examples.map(({ prompt, completion }) => {
  const question = tokenizer.encode(asked(prompt));
  const answer = tokenizer.encode(completion + end);
  return {
    ids: Int32Array.from([...question, ...answer]),
    labels: Int32Array.from([...question.map(() => -100), ...answer]), // no loss on the question
  };
});
// Padded at the end, to multiples of 32, for few programs. Attention is causal, so padding needs no mask.
const collate = data.bucketCollate({ multiple: 32, padValue: { '.ids': 0, '.labels': -100 } });
const loader = new data.DataLoader(items, { batchSize: Number(args.batch), shuffle: true, collate });

/** The answers to some questions, and how many of them begin correctly. */
async function ask(some: readonly Example[]): Promise<{ answers: string[]; right: number }> {
  model.eval();
  const prompts = some.map(({ prompt }) => asked(prompt));
  const said = await model.generate(prompts, { temperature: 0, maxNewTokens: 16 });
  const answers = said.map(({ text }) => text.trim());
  return { answers, right: answers.filter((a, i) => a.startsWith(some[i]!.completion)).length };
}

// ---- training

const optimizer = new optim.AdamW(model.parameters(), { lr, weightDecay: 0.01 });
const steps = epochs * loader.length!;
const schedule = new optim.CosineLR(optimizer, {
  totalSteps: steps + 1,
  warmup: Math.ceil(steps / 20),
  floor: lr / 10,
});
const train = tx.compile(function train(ids: Tensor, labels: Tensor) {
  const loss = model.loss(ids, labels);
  loss.backward();
  optim.clipGradNorm(model.parameters(), 1);
  optimizer.step();
  optimizer.zeroGrad();
  return loss;
});

const shown = examples.slice(0, 4);
console.log(`before: ${JSON.stringify((await ask(shown)).answers)}`);
for (let epoch = 1; epoch <= epochs; epoch++) {
  const losses: Tensor[] = [];
  model.train();
  for await (const { ids, labels } of loader) {
    losses.push(await train(ids, labels));
    schedule.step();
  }
  if (epoch % Math.ceil(epochs / 6) === 0 || epoch === epochs)
    console.log(`epoch ${epoch}  loss ${(await tx.stack(losses).mean().item()).toFixed(4)}`);
}
const { answers, right } = await ask(examples);
for (const [i, { prompt }] of shown.entries()) console.log(`${prompt} ${answers[i]}`);
console.log(`${right} of ${examples.length} answers are right`);
await model.savePretrained(args.out);
console.log(
  `saved in ${args.out}: npx tsxla generate --model ${args.out} --chat --prompt ${JSON.stringify(shown[0]!.prompt)}`,
);
