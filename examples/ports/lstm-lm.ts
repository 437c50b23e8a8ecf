// An LSTM language model, after pytorch/examples/word_language_model (main.py, model.py).
// npx tsx examples/ports/lstm-lm.ts
import { pathToFileURL } from 'node:url';
import * as tx from 'tsxla';
import { nn, optim, type Tensor } from 'tsxla';

type Hidden = [h: Tensor, c: Tensor];

export class RNNModel extends nn.Module {
  drop;
  encoder;
  rnn;
  decoder;

  constructor(
    readonly ntoken: number,
    ninp: number,
    readonly nhid: number,
    readonly nlayers: number,
    dropout = 0.5,
  ) {
    super();
    this.drop = new nn.Dropout(dropout);
    this.encoder = new nn.Embedding(ntoken, ninp);
    this.rnn = new nn.LSTM(ninp, nhid, { numLayers: nlayers, dropout });
    this.decoder = new nn.Linear(nhid, ntoken);
    this.initWeights();
  }

  initWeights() {
    const initrange = 0.1;
    nn.init.uniform_(this.encoder.weight, -initrange, initrange);
    nn.init.zeros_(this.decoder.bias!);
    nn.init.uniform_(this.decoder.weight, -initrange, initrange);
  }

  override forward(input: Tensor, hidden: Hidden): [decoded: Tensor, hidden: Hidden] {
    const emb = this.drop.forward(this.encoder.forward(input));
    let [output, next] = this.rnn.forward(emb, hidden);
    output = this.drop.forward(output);
    let decoded = this.decoder.forward(output);
    decoded = decoded.view([-1, this.ntoken]);
    return [decoded.logSoftmax({ dim: 1 }), [...next]];
  }

  initHidden(bsz: number): Hidden {
    const weight = this.decoder.weight;
    const zeros = () => tx.zeros([this.nlayers, bsz, this.nhid], { dtype: weight.dtype });
    return [zeros(), zeros()];
  }
}

/** Starting from sequential data, arranges it into columns: [a b c d e f] with bsz 2 is [[a d] [b e] [c f]]. */
export function batchify(data: Tensor, bsz: number): Tensor {
  const nbatch = Math.floor(data.shape[0]! / bsz);
  data = data.narrow(0, 0, nbatch * bsz);
  return data.view([bsz, -1]).t().contiguous();
}

function getBatch(source: Tensor, i: number, bptt: number): [data: Tensor, target: Tensor] {
  const data = source.narrow(0, i, bptt);
  const target = source.narrow(0, i + 1, bptt);
  return [data, target];
}

export async function train(
  model: RNNModel,
  trainData: Tensor,
  { lr = 20, bptt = 35, clip = 0.25, epochs = 1, report = (_loss: number) => {} } = {},
): Promise<number[]> {
  const criterion = new nn.NLLLoss();
  // The hidden state is an argument and a result of the compiled function.
  const step = tx.compile((data: Tensor, targets: Tensor, h: Tensor, c: Tensor) => {
    model.zeroGrad();
    const [output, hidden] = model.forward(data, [h, c]);
    const loss = criterion.forward(output, targets.reshape([-1]));
    loss.backward();

    // clipGradNorm helps prevent the exploding gradient problem in RNNs / LSTMs.
    optim.clipGradNorm(model.parameters(), clip);
    tx.noGrad(() => {
      for (const p of model.parameters()) p.add_(p.grad!, { alpha: -lr });
    });
    return [loss, hidden[0].detach(), hidden[1].detach()] as const; // repackage_hidden
  });
  model.train();
  await tx.sync(trainData); // computed once: batches are then slices of it, by one program
  const losses: number[] = [];
  for (let epoch = 0; epoch < epochs; epoch++) {
    let hidden = model.initHidden(trainData.shape[1]!);
    for (let i = 0; i + bptt < trainData.shape[0]!; i += bptt) {
      const [data, targets] = getBatch(trainData, i, bptt);
      const [loss, h, c] = await step(data, targets, ...hidden);
      hidden = [h, c];
      // eslint-disable-next-line tsxla/no-read-in-loop -- every loss is reported
      losses.push(await loss.item());
      report(losses.at(-1)!);
    }
  }
  return losses;
}

async function main() {
  tx.manualSeed(1111);
  const text = 'the quick brown fox jumps over the lazy dog while the dog dreams of the fox . '
    .repeat(60)
    .trim()
    .split(' ');
  const idx2word = [...new Set(text)];
  const ids = tx.tensor(text.map((word) => idx2word.indexOf(word)));
  const model = new RNNModel(idx2word.length, 32, 32, 2, 0.05);
  const losses = await train(model, batchify(ids, 4), { bptt: 16, lr: 10, epochs: 12 });
  losses.forEach((loss, i) => {
    if (i % 36 === 35) console.log(`batch ${i + 1}: loss ${loss.toFixed(3)}, perplexity ${Math.exp(loss).toFixed(2)}`);
  });
}
if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
