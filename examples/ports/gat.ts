// Graph attention networks (Velickovic et al., 2017), after Diego999/pyGAT: dense, with a mask for missing edges.
// npx tsx examples/ports/gat.ts
import { pathToFileURL } from 'node:url';
import * as tx from 'tsxla';
import { nn, optim, type Tensor } from 'tsxla';

class GraphAttentionLayer extends nn.Module {
  W;
  a;
  leakyrelu;

  constructor(
    inFeatures: number,
    outFeatures: number,
    readonly dropout: number,
    alpha: number,
    readonly concat = true,
  ) {
    super();
    this.W = new nn.Parameter(tx.empty([inFeatures, outFeatures]));
    nn.init.xavierUniform_(this.W, Math.SQRT2);
    this.a = new nn.Parameter(tx.empty([2 * outFeatures, 1]));
    nn.init.xavierUniform_(this.a, Math.SQRT2);
    this.leakyrelu = new nn.LeakyReLU(alpha);
  }

  override forward(h: Tensor, adj: Tensor): Tensor {
    const Wh = h.matmul(this.W); // [N, out]
    const e = this.prepareAttentionalMechanismInput(Wh);

    const zeroVec = tx.onesLike(e).mul(-9e15);
    let attention = tx.where(adj.gt(0), e, zeroVec);
    attention = attention.softmax({ dim: 1 });
    attention = tx.dropout(attention, { p: this.dropout, training: this.training });
    const hPrime = attention.matmul(Wh);
    return this.concat ? hPrime.elu() : hPrime;
  }

  prepareAttentionalMechanismInput(Wh: Tensor): Tensor {
    const half = this.a.shape[0]! / 2;
    const Wh1 = Wh.matmul(this.a.narrow(0, 0, half)); // [N, 1]
    const Wh2 = Wh.matmul(this.a.narrow(0, half, half));
    const e = Wh1.add(Wh2.t()); // [N, N]
    return this.leakyrelu.forward(e);
  }
}

export class GAT extends nn.Module {
  attentions;
  outAtt;

  constructor(
    nfeat: number,
    nhid: number,
    nclass: number,
    readonly dropout: number,
    alpha: number,
    nheads: number,
  ) {
    super();
    this.attentions = new nn.ModuleList(
      Array.from({ length: nheads }, () => new GraphAttentionLayer(nfeat, nhid, dropout, alpha)),
    );
    this.outAtt = new GraphAttentionLayer(nhid * nheads, nclass, dropout, alpha, false);
  }

  override forward(x: Tensor, adj: Tensor): Tensor {
    x = tx.dropout(x, { p: this.dropout, training: this.training });
    x = tx.cat(
      [...this.attentions].map((att) => att.forward(x, adj)),
      { dim: 1 },
    );
    x = tx.dropout(x, { p: this.dropout, training: this.training });
    x = this.outAtt.forward(x, adj).elu();
    return x.logSoftmax({ dim: 1 });
  }
}

export interface Graph {
  readonly features: Tensor; // [N, F]
  readonly adj: Tensor; // [N, N], with a node's edge to itself
  readonly labels: Tensor;
  readonly idxTrain: Tensor;
}
export async function train(
  model: GAT,
  graph: Graph,
  { epochs = 100, lr = 0.005, report = (_loss: number) => {} } = {},
): Promise<number[]> {
  const { features, adj, labels, idxTrain } = graph;
  const optimizer = new optim.Adam(model.parameters(), { lr, weightDecay: 5e-4 });
  const step = tx.compile(() => {
    model.train();
    optimizer.zeroGrad();
    const output = model.forward(features, adj);
    const lossTrain = tx.nllLoss(output.indexSelect(0, idxTrain), labels.indexSelect(0, idxTrain));
    lossTrain.backward();
    optimizer.step();
    return lossTrain;
  });
  const losses: number[] = [];
  for (let epoch = 0; epoch < epochs; epoch++) {
    // eslint-disable-next-line tsxla/no-read-in-loop -- every loss is reported
    losses.push(await (await step()).item());
    report(losses.at(-1)!);
  }
  return losses;
}

async function main() {
  tx.manualSeed(0);
  // Three communities: edges are frequent inside, and features are weak hints.
  const [N, F, classes] = [60, 16, 3];
  const labels = tx.arange(N).remainder(classes);
  const same = labels.unsqueeze(0).eq(labels.unsqueeze(1));
  const chance = tx.where(same, 0.3, 0.02);
  const upper = tx.rand([N, N]).lt(chance).to('f32').triu(1);
  const adj = upper.add(upper.t()).add(tx.eye(N));
  const features = tx.randn([N, F]).mul(0.5).add(tx.oneHot(labels, F).to('f32'));
  await tx.sync(features, adj, labels); // computed once, not in every step
  const model = new GAT(F, 8, classes, 0.2, 0.2, 4);
  const losses = await train(model, { features, adj, labels, idxTrain: tx.arange(30) }, { lr: 0.02 });
  losses.forEach((loss, i) => i % 20 === 19 && console.log(`epoch ${i + 1}: loss ${loss.toFixed(3)}`));
  model.eval();
  const predicted = model.forward(features, adj).argmax(1);
  const right = predicted.eq(labels).narrow(0, 30, 30).to('f32').mean();
  console.log(`accuracy on the other nodes ${(await right.item()).toFixed(2)}`);
}
if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
