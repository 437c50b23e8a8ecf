// A GPT that learns to write TypeScript from this library's own source, character by character; after Karpathy's nanoGPT.
//   npx tsx examples/gpt.ts [--text FILE] [--steps 1600] [--out FOLDER]
// It trains, prints the loss on held-back text, saves the best weights (safetensors), and writes a sample.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import * as tx from 'tsxla';
import { data, io, nn, optim, type Tensor } from 'tsxla';

const { values: args } = parseArgs({
  options: {
    text: { type: 'string' },
    steps: { type: 'string', default: '1600' },
    out: { type: 'string', default: 'out/gpt' },
    seed: { type: 'string', default: '1' },
  },
});
const config = { layers: 4, heads: 4, width: 128, context: 64, dropout: 0 };
const training = {
  steps: Number(args.steps),
  batch: 16,
  lr: 2e-3,
  minLr: 2e-4,
  warmup: Math.ceil(Number(args.steps) / 20),
  weightDecay: 0.1,
  betas: [0.9, 0.99] as const,
  clip: 1,
  evaluateEvery: Math.ceil(Number(args.steps) / 8),
  evaluateBatches: 8,
};
tx.manualSeed(Number(args.seed));

// ---- the text

/** All source files of the library as one text, shuffled by name so that what is held back is like the rest. */
function ownSource(): string {
  const root = path.resolve(import.meta.dirname, '../src');
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((f) => f.endsWith('.ts'));
  const written = files.filter((f) => !/layout|functions|signatures/.test(f)).sort((a, b) => hash(a) - hash(b));
  return written.map((f) => readFileSync(path.join(root, f), 'utf8')).join('\n');
}
const hash = (s: string): number => [...s].reduce((h, c) => (Math.imul(h, 31) + c.charCodeAt(0)) >>> 0, 7);

const text = args.text ? readFileSync(args.text, 'utf8') : ownSource();
const letters = [...new Set(text)].sort();
const idOf = new Map(letters.map((c, i) => [c, i]));
const encode = (s: string): Int32Array => Int32Array.from(s, (c) => idOf.get(c) ?? 0);
const decode = (ids: Iterable<number>): string => Array.from(ids, (i) => letters[i]).join('');

/** Every window of `context` letters, and the letters that follow. */
class Stretches implements data.Dataset<[Int32Array, Int32Array]> {
  constructor(readonly ids: Int32Array) {}
  get length(): number {
    return this.ids.length - config.context;
  }
  get(i: number): [Int32Array, Int32Array] {
    return [this.ids.subarray(i, i + config.context), this.ids.subarray(i + 1, i + 1 + config.context)];
  }
}
const ids = encode(text);
const held = Math.floor(ids.length * 0.9);
const options = { batchSize: training.batch, shuffle: true, seed: Number(args.seed) };
const trainLoader = new data.DataLoader(new Stretches(ids.subarray(0, held)), options);
const heldLoader = new data.DataLoader(new Stretches(ids.subarray(held)), options);

// ---- the model

class CausalSelfAttention extends nn.Module {
  readonly cAttn = new nn.Linear(config.width, 3 * config.width, { bias: false });
  readonly cProj = new nn.Linear(config.width, config.width, { bias: false });

  override forward(x: Tensor): Tensor {
    const [B, T, C] = x.shape as [number, number, number];
    const parts = this.cAttn.forward(x).split(C, { dim: 2 }); // three of [B, T, C]
    const [q, k, v] = parts.map((p) => p.reshape([B, T, config.heads, -1]).transpose(1, 2)); // [B, heads, T, C / heads]
    const dropoutP = this.training ? config.dropout : 0;
    const y = tx.scaledDotProductAttention(q!, k!, v!, { isCausal: true, dropoutP });
    return this.cProj.forward(y.transpose(1, 2).reshape([B, T, C]));
  }
}

class MLP extends nn.Module {
  readonly cFc = new nn.Linear(config.width, 4 * config.width, { bias: false });
  readonly cProj = new nn.Linear(4 * config.width, config.width, { bias: false });
  readonly dropout = new nn.Dropout(config.dropout);

  override forward(x: Tensor): Tensor {
    return this.dropout.forward(this.cProj.forward(this.cFc.forward(x).gelu()));
  }
}

class Block extends nn.Module {
  readonly ln1 = new nn.LayerNorm(config.width, { bias: false });
  readonly attn = new CausalSelfAttention();
  readonly ln2 = new nn.LayerNorm(config.width, { bias: false });
  readonly mlp = new MLP();

  override forward(x: Tensor): Tensor {
    x = x.add(this.attn.forward(this.ln1.forward(x)));
    return x.add(this.mlp.forward(this.ln2.forward(x)));
  }
}

class GPT extends nn.Module {
  readonly wte: nn.Embedding;
  readonly wpe = new nn.Embedding(config.context, config.width);
  readonly h = new nn.ModuleList(Array.from({ length: config.layers }, () => new Block()));
  readonly lnF = new nn.LayerNorm(config.width, { bias: false });

  constructor(vocabulary: number) {
    super();
    this.wte = new nn.Embedding(vocabulary, config.width); // also the head: each letter is scored by its own vector
    for (const [name, p] of this.namedParameters()) {
      if (p.ndim < 2) continue;
      // The more layers add to the residual stream, the smaller their initial weights.
      const std = name.endsWith('c_proj.weight') ? 0.02 / Math.sqrt(2 * config.layers) : 0.02;
      nn.init.normal_(p, 0, std);
    }
  }

  override forward(x: Tensor): Tensor {
    let y = this.wte.forward(x).add(this.wpe.forward(tx.arange(x.shape[1]!)));
    for (const block of this.h) y = block.forward(y);
    return this.lnF.forward(y).matmul(this.wte.weight.t()); // [B, T, vocabulary]
  }

  loss(x: Tensor, y: Tensor): Tensor {
    return nn.functional.crossEntropy(this.forward(x).flatten(0, 1), y.flatten());
  }
}

const model = new GPT(letters.length);
const count = model.parameters().reduce((n, p) => n + p.numel(), 0);
console.log(
  `${text.length.toLocaleString('en')} letters, ${letters.length} different; ${count.toLocaleString('en')} parameters`,
);

// ---- training

// Weight decay for matrices, not for the scales of norms.
const all = model.parameters();
const optimizer = new optim.AdamW(
  [
    { params: all.filter((p) => p.ndim >= 2), weightDecay: training.weightDecay },
    { params: all.filter((p) => p.ndim < 2), weightDecay: 0 },
  ],
  { lr: training.lr, betas: training.betas },
);
const schedule = new optim.CosineLR(optimizer, {
  totalSteps: training.steps,
  warmup: training.warmup,
  floor: training.minLr,
});

const train = tx.compile(function train(x: Tensor, y: Tensor) {
  const loss = model.loss(x, y);
  loss.backward();
  optim.clipGradNorm(model.parameters(), training.clip);
  optimizer.step();
  optimizer.zeroGrad(); // at the end, so that gradients are not results of the step
  return loss;
});
const evaluate = tx.compile(function evaluate(x: Tensor, y: Tensor) {
  return tx.noGrad(() => model.loss(x, y));
});

/** The mean loss on held-back text. */
async function heldLoss(): Promise<number> {
  model.eval();
  let total = 0;
  let n = 0;
  for await (const [x, y] of heldLoader) {
    total += await (await evaluate(x, y)).item();
    if (++n === training.evaluateBatches) break;
  }
  model.train();
  return total / n;
}

async function* forever<T>(loader: AsyncIterable<T>): AsyncGenerator<T> {
  for (;;) yield* loader;
}

const file = path.join(args.out, 'gpt.safetensors');
mkdirSync(args.out, { recursive: true });
let best = Number.POSITIVE_INFINITY;
let step = 0;
let start = performance.now();
for await (const [x, y] of forever(trainLoader)) {
  const loss = await train(x, y);
  schedule.step();
  if (++step === 1) {
    await loss.item();
    start = performance.now(); // without the compile
  }
  if (step % training.evaluateEvery === 0 || step === training.steps) {
    const [seen, held] = [await loss.item(), await heldLoss()];
    const ms = (performance.now() - start) / (step - 1);
    const rate = schedule.getLastLr()[0]!.toExponential(1);
    console.log(
      `step ${String(step).padStart(4)}  loss ${seen.toFixed(3)}  held back ${held.toFixed(3)}  lr ${rate}  ${ms.toFixed(0)} ms a step`,
    );
    if (held < best) {
      best = held;
      await io.writeSafetensors(file, model.stateDict(), { metadata: { letters: letters.join('') } });
    }
  }
  if (step === training.steps) break;
}

// ---- sampling

model.loadStateDict(await io.readSafetensors(file));
model.eval();
/** Draws the letter after a window of `context` letters. Returns it and the window that ends with it. */
const next = tx.compile(function next(window: Tensor, temperature: Tensor) {
  return tx.noGrad(() => {
    const logits = model.forward(window).select(1, -1).div(temperature); // [1, vocabulary]
    const letter = logits.softmax(-1).multinomial(1); // [1, 1]
    return { letter, window: tx.cat([window.narrow(1, 1, config.context - 1), letter.to(window.dtype)], { dim: 1 }) };
  });
});

/** Continues a prompt. Letters are read after all steps were started, so that the device does not wait for the host. */
async function sample(prompt: Int32Array, length: number, temperature: number): Promise<string> {
  let window: Tensor = tx.tensor(prompt).reshape([1, -1]);
  const written: Tensor[] = [];
  while (written.length < length) {
    const after = await next(window, temperature);
    written.push(after.letter);
    window = after.window;
  }
  return decode(await Promise.all(written.map((letter) => letter.item())));
}
const prompt = ids.subarray(held, held + config.context);
console.log(`\nbest held-back loss ${best.toFixed(3)}, weights in ${file}\n`);
console.log(`given: ${JSON.stringify(decode(prompt))}\ncontinuation:\n${await sample(prompt, 500, 0.6)}`);
