// BERT's masked language modelling (Devlin et al., 2018), after transformers/models/bert/modeling_bert.py (BertForMaskedLM).
// npx tsx examples/ports/bert-mlm.ts
import { pathToFileURL } from 'node:url';
import * as tx from 'tsxla';
import { nn, optim, type Tensor } from 'tsxla';

export interface BertConfig {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly numHiddenLayers: number;
  readonly numAttentionHeads: number;
  readonly intermediateSize: number;
  readonly maxPositionEmbeddings: number;
  readonly typeVocabSize: number;
  readonly hiddenDropoutProb: number;
  readonly layerNormEps: number;
}

class BertEmbeddings extends nn.Module {
  wordEmbeddings;
  positionEmbeddings;
  tokenTypeEmbeddings;
  layerNorm;
  dropout;

  constructor(config: BertConfig) {
    super();
    this.wordEmbeddings = new nn.Embedding(config.vocabSize, config.hiddenSize);
    this.positionEmbeddings = new nn.Embedding(config.maxPositionEmbeddings, config.hiddenSize);
    this.tokenTypeEmbeddings = new nn.Embedding(config.typeVocabSize, config.hiddenSize);
    this.layerNorm = new nn.LayerNorm(config.hiddenSize, { eps: config.layerNormEps });
    this.dropout = new nn.Dropout(config.hiddenDropoutProb);
  }
  override forward(inputIds: Tensor, tokenTypeIds: Tensor): Tensor {
    const positionIds = tx.arange(inputIds.shape[1]!);
    let embeddings = this.wordEmbeddings.forward(inputIds).add(this.tokenTypeEmbeddings.forward(tokenTypeIds));
    embeddings = embeddings.add(this.positionEmbeddings.forward(positionIds));
    return this.dropout.forward(this.layerNorm.forward(embeddings));
  }
}

class BertSelfAttention extends nn.Module {
  query;
  key;
  value;
  dropout;
  constructor(readonly config: BertConfig) {
    super();
    this.query = new nn.Linear(config.hiddenSize, config.hiddenSize);
    this.key = new nn.Linear(config.hiddenSize, config.hiddenSize);
    this.value = new nn.Linear(config.hiddenSize, config.hiddenSize);
    this.dropout = new nn.Dropout(config.hiddenDropoutProb);
  }
  override forward(hiddenStates: Tensor, attentionMask: Tensor): Tensor {
    const [B, T, D] = hiddenStates.shape as [number, number, number];
    const heads = this.config.numAttentionHeads;
    const transposeForScores = (x: Tensor) => x.view([B, T, heads, D / heads]).permute(0, 2, 1, 3);
    const q = transposeForScores(this.query.forward(hiddenStates));
    const k = transposeForScores(this.key.forward(hiddenStates));
    const v = transposeForScores(this.value.forward(hiddenStates));
    let scores = q.matmul(k.transpose(-1, -2)).div(Math.sqrt(D / heads));
    scores = scores.add(attentionMask);
    const probs = this.dropout.forward(scores.softmax({ dim: -1 }));
    return probs.matmul(v).permute(0, 2, 1, 3).reshape([B, T, D]);
  }
}

class BertLayer extends nn.Module {
  attention;
  attentionOutput;
  attentionNorm;
  intermediate;
  output;
  outputNorm;
  dropout;
  constructor(config: BertConfig) {
    super();
    const { hiddenSize, intermediateSize, layerNormEps: eps } = config;
    this.attention = new BertSelfAttention(config);
    this.attentionOutput = new nn.Linear(hiddenSize, hiddenSize);
    this.attentionNorm = new nn.LayerNorm(hiddenSize, { eps });
    this.intermediate = new nn.Linear(hiddenSize, intermediateSize);
    this.output = new nn.Linear(intermediateSize, hiddenSize);
    this.outputNorm = new nn.LayerNorm(hiddenSize, { eps });
    this.dropout = new nn.Dropout(config.hiddenDropoutProb);
  }
  override forward(hiddenStates: Tensor, attentionMask: Tensor): Tensor {
    const attended = this.attentionOutput.forward(this.attention.forward(hiddenStates, attentionMask));
    const attentionOutput = this.attentionNorm.forward(this.dropout.forward(attended).add(hiddenStates));
    const intermediate = this.intermediate.forward(attentionOutput).gelu();
    return this.outputNorm.forward(this.dropout.forward(this.output.forward(intermediate)).add(attentionOutput));
  }
}

export class BertForMaskedLM extends nn.Module {
  embeddings;
  layer;
  transform;
  transformNorm;
  bias;
  constructor(config: BertConfig) {
    super();
    this.embeddings = new BertEmbeddings(config);
    this.layer = new nn.ModuleList(Array.from({ length: config.numHiddenLayers }, () => new BertLayer(config)));
    this.transform = new nn.Linear(config.hiddenSize, config.hiddenSize);
    this.transformNorm = new nn.LayerNorm(config.hiddenSize, { eps: config.layerNormEps });
    this.bias = new nn.Parameter(tx.zeros([config.vocabSize]));
    for (const [name, p] of this.namedParameters())
      if (/(ings|[a-z])\.weight$/.test(name) && p.ndim > 1) nn.init.normal_(p, 0, 0.02);
  }
  override forward(inputIds: Tensor, attentionMask: Tensor, tokenTypeIds: Tensor): Tensor {
    let hidden = this.embeddings.forward(inputIds, tokenTypeIds);
    // Padding gets a score that softmax turns into 0.
    const mask = tx.sub(1, attentionMask.to(hidden.dtype)).mul(-1e9).unsqueeze(1).unsqueeze(1); // [B, 1, 1, T]
    for (const layer of this.layer) hidden = layer.forward(hidden, mask);
    hidden = this.transformNorm.forward(this.transform.forward(hidden).gelu());
    // The decoder's weights are those of the embeddings.
    return tx.linear(hidden, this.embeddings.wordEmbeddings.weight, this.bias);
  }
}

export interface Batch {
  readonly inputIds: Tensor;
  readonly attentionMask: Tensor;
  readonly labels: Tensor; // -100 where nothing is masked
}
export async function train(
  model: BertForMaskedLM,
  batches: Iterable<Batch>,
  { lr = 1e-3, warmup = 5, total = 20 } = {},
): Promise<number[]> {
  const optimizer = new optim.AdamW(model.parameters(), { lr, betas: [0.9, 0.999], weightDecay: 0.01 });
  const scheduler = new optim.LambdaLR(optimizer, (n) =>
    n < warmup ? n / warmup : Math.max(0, (total - n) / (total - warmup)),
  );
  model.train();
  const step = tx.compile((inputIds: Tensor, attentionMask: Tensor, labels: Tensor) => {
    const logits = model.forward(inputIds, attentionMask, tx.zerosLike(inputIds));
    const loss = tx.crossEntropy(logits.view([-1, logits.shape.at(-1)!]), labels.view([-1]));
    optimizer.zeroGrad();
    loss.backward();
    optim.clipGradNorm(model.parameters(), 1);
    optimizer.step();
    return loss;
  });
  const losses: number[] = [];
  for (const { inputIds, attentionMask, labels } of batches) {
    // eslint-disable-next-line tsxla/no-read-in-loop -- every loss is reported
    losses.push(await (await step(inputIds, attentionMask, labels)).item());
    scheduler.step();
  }
  return losses;
}

const MASK = 1;
async function main() {
  tx.manualSeed(0);
  const config: BertConfig = {
    ...{ vocabSize: 24, hiddenSize: 32, numHiddenLayers: 2, numAttentionHeads: 4, intermediateSize: 64 },
    ...{ maxPositionEmbeddings: 16, typeVocabSize: 2, hiddenDropoutProb: 0, layerNormEps: 1e-12 },
  };
  // Sentences that count up from a random number: masked words follow from their neighbours.
  const ids = tx.randint(0, 20, [300, 32, 1]).add(tx.arange(12)).remainder(20).add(4);
  const masked = tx.rand([300, 32, 12]).lt(0.15);
  const [inputIds, labels] = [tx.where(masked, MASK, ids), tx.where(masked, ids, -100)];
  const attentionMask = tx.ones([32, 12], { dtype: 'i64' });
  await tx.sync(inputIds, labels);
  function* batches() {
    for (let i = 0; i < 300; i++) yield { inputIds: inputIds.select(0, i), attentionMask, labels: labels.select(0, i) };
  }
  const losses = await train(new BertForMaskedLM(config), batches(), { lr: 3e-3, warmup: 10, total: 300 });
  losses.forEach((loss, i) => i % 50 === 49 && console.log(`step ${i + 1}: loss ${loss.toFixed(3)}`));
}
if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
