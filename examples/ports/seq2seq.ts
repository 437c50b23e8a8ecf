// A sequence-to-sequence transformer (Vaswani et al., 2017), after PyTorch's tutorial "Language Translation with nn.Transformer".
// npx tsx examples/ports/seq2seq.ts
import { pathToFileURL } from 'node:url';
import * as tx from 'tsxla';
import { nn, optim, type Tensor } from 'tsxla';

export const [PAD_IDX, BOS_IDX, EOS_IDX] = [0, 1, 2];

/** Adds positional encoding to the token embedding to introduce a notion of word order. */
class PositionalEncoding extends nn.Module {
  dropout;
  posEmbedding;

  constructor(embSize: number, dropout: number, maxlen = 64) {
    super();
    const den = tx.exp(
      tx
        .arange(0, embSize, 2)
        .to('f64')
        .mul(-Math.log(10000) / embSize),
    );
    const pos = tx.arange(0, maxlen).to('f64').reshape([maxlen, 1]);
    // sin in the even places, cos in the odd ones
    const both = tx.stack([pos.mul(den).sin(), pos.mul(den).cos()], { dim: 2 });
    this.posEmbedding = new nn.Buffer(both.reshape([maxlen, 1, embSize]), { persistent: false });
    this.dropout = new nn.Dropout(dropout);
  }

  override forward(tokenEmbedding: Tensor): Tensor {
    const position = this.posEmbedding.narrow(0, 0, tokenEmbedding.shape[0]!).to(tokenEmbedding.dtype);
    return this.dropout.forward(tokenEmbedding.add(position));
  }
}

/** Converts a tensor of input indices into the corresponding tensor of token embeddings. */
class TokenEmbedding extends nn.Module {
  embedding;
  constructor(
    vocabSize: number,
    readonly embSize: number,
  ) {
    super();
    this.embedding = new nn.Embedding(vocabSize, embSize);
  }
  override forward(tokens: Tensor): Tensor {
    return this.embedding.forward(tokens).mul(Math.sqrt(this.embSize));
  }
}

export interface Masks {
  readonly tgtMask: Tensor;
  readonly srcPaddingMask: Tensor;
  readonly tgtPaddingMask: Tensor;
}

export class Seq2SeqTransformer extends nn.Module {
  encoder;
  decoder;
  generator;
  srcTokEmb;
  tgtTokEmb;
  positionalEncoding;

  constructor(
    numEncoderLayers: number,
    numDecoderLayers: number,
    embSize: number,
    nhead: number,
    srcVocabSize: number,
    tgtVocabSize: number,
    dimFeedforward = 512,
    dropout = 0.1,
  ) {
    super();
    // The two halves of nn.Transformer
    const encoderLayer = () => new nn.TransformerEncoderLayer(embSize, nhead, { dimFeedforward, dropout });
    const decoderLayer = () => new nn.TransformerDecoderLayer(embSize, nhead, { dimFeedforward, dropout });
    this.encoder = new nn.TransformerEncoder(encoderLayer, numEncoderLayers, { norm: new nn.LayerNorm(embSize) });
    this.decoder = new nn.TransformerDecoder(decoderLayer, numDecoderLayers, { norm: new nn.LayerNorm(embSize) });
    this.generator = new nn.Linear(embSize, tgtVocabSize);
    this.srcTokEmb = new TokenEmbedding(srcVocabSize, embSize);
    this.tgtTokEmb = new TokenEmbedding(tgtVocabSize, embSize);
    this.positionalEncoding = new PositionalEncoding(embSize, dropout);
    for (const p of this.parameters()) if (p.ndim > 1) nn.init.xavierUniform_(p);
  }

  override forward(src: Tensor, trg: Tensor, { tgtMask, srcPaddingMask, tgtPaddingMask }: Masks): Tensor {
    const memory = this.encode(src, srcPaddingMask);
    const outs = this.decoder.forward(this.positionalEncoding.forward(this.tgtTokEmb.forward(trg)), memory, {
      ...{ tgtMask, tgtKeyPaddingMask: tgtPaddingMask, memoryKeyPaddingMask: srcPaddingMask },
    });
    return this.generator.forward(outs);
  }

  encode(src: Tensor, srcPaddingMask: Tensor): Tensor {
    const srcEmb = this.positionalEncoding.forward(this.srcTokEmb.forward(src));
    return this.encoder.forward(srcEmb, { srcKeyPaddingMask: srcPaddingMask });
  }
}

/** True where attention is not allowed: to later words. */
export const generateSquareSubsequentMask = (sz: number): Tensor => tx.ones([sz, sz], { dtype: 'bool' }).triu(1);

export function createMask(src: Tensor, tgt: Tensor): Masks {
  const tgtMask = generateSquareSubsequentMask(tgt.shape[0]!);
  const srcPaddingMask = src.eq(PAD_IDX).t();
  const tgtPaddingMask = tgt.eq(PAD_IDX).t();
  return { tgtMask, srcPaddingMask, tgtPaddingMask };
}

export type Batch = readonly [src: Tensor, tgt: Tensor]; // each [length, batch]
export async function train(
  transformer: Seq2SeqTransformer,
  batches: Iterable<Batch>,
  { lr = 0.0001 } = {},
): Promise<number[]> {
  const lossFn = new nn.CrossEntropyLoss({ ignoreIndex: PAD_IDX });
  const optimizer = new optim.Adam(transformer.parameters(), { lr, betas: [0.9, 0.98], eps: 1e-9 });
  transformer.train();
  const step = tx.compile((src: Tensor, tgt: Tensor) => {
    const length = tgt.shape[0]!;
    const tgtInput = tgt.narrow(0, 0, length - 1);
    const logits = transformer.forward(src, tgtInput, createMask(src, tgtInput));
    optimizer.zeroGrad();
    const tgtOut = tgt.narrow(0, 1, length - 1);
    const loss = lossFn.forward(logits.reshape([-1, logits.shape.at(-1)!]), tgtOut.reshape([-1]));
    loss.backward();
    optimizer.step();
    return loss;
  });
  const losses: number[] = [];
  // eslint-disable-next-line tsxla/no-read-in-loop -- every loss is reported
  for (const [src, tgt] of batches) losses.push(await (await step(src, tgt)).item());
  return losses;
}

/** Generates word by word, always the most likely one. */
async function greedyDecode(model: Seq2SeqTransformer, src: Tensor, maxLen: number): Promise<number[]> {
  // Padded to one length, so that one program is enough: later words are ignored.
  const predict = tx.compile((tgt: Tensor) =>
    tx.noGrad(() => model.forward(src, tgt, createMask(src, tgt)).argmax(-1)),
  );
  const ys = [BOS_IDX];
  while (ys.length < maxLen && ys.at(-1) !== EOS_IDX) {
    const tgt = tx.tensor([...ys, ...Array(maxLen - ys.length).fill(PAD_IDX)]).reshape([maxLen, 1]);
    const words = await (await predict(tgt)).data();
    ys.push(Number(words[ys.length - 1]));
  }
  return ys.slice(1);
}

async function main() {
  tx.manualSeed(0);
  // The other language has the same words, in reverse.
  const [words, length] = [12, 6];
  const src = tx.randint(3, words, [250, length, 32]);
  const ends = [BOS_IDX, EOS_IDX].map((id) => tx.full([250, 1, 32], id, { dtype: 'i64' })) as [Tensor, Tensor];
  const tgt = tx.cat([ends[0], src.flip(1), ends[1]], { dim: 1 });
  await tx.sync(src, tgt);
  function* pairs() {
    for (let i = 0; i < 250; i++) yield [src.select(0, i), tgt.select(0, i)] as const;
  }
  const transformer = new Seq2SeqTransformer(2, 2, 32, 4, words, words, 64, 0);
  const losses = await train(transformer, pairs(), { lr: 0.003 });
  losses.forEach((loss, i) => i % 50 === 49 && console.log(`step ${i + 1}: loss ${loss.toFixed(3)}`));
  transformer.eval();
  const sentence = tx.tensor([3, 4, 5, 6, 7, 8]).reshape([length, 1]);
  console.log('3 4 5 6 7 8 is', (await greedyDecode(transformer, sentence, length + 2)).join(' '));
}
if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
