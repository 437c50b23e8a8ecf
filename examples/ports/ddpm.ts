// Denoising diffusion (Ho et al., 2020), after labml.ai's annotated DDPM (ddpm/__init__.py, ddpm/unet.py).
// npx tsx examples/ports/ddpm.ts
import { pathToFileURL } from 'node:url';
import * as tx from 'tsxla';
import { nn, optim, type Tensor } from 'tsxla';

class TimeEmbedding extends nn.Module {
  lin1;
  lin2;
  constructor(readonly nChannels: number) {
    super();
    this.lin1 = new nn.Linear(nChannels / 4, nChannels);
    this.lin2 = new nn.Linear(nChannels, nChannels);
  }
  override forward(t: Tensor): Tensor {
    // Sinusoidal position embeddings, the same as those of transformers
    const halfDim = this.nChannels / 8;
    const { dtype } = this.lin1.weight;
    const freqs = tx
      .arange(halfDim)
      .to(dtype)
      .mul(-Math.log(10_000) / (halfDim - 1))
      .exp();
    const angles = t.to(dtype).unsqueeze(1).mul(freqs);
    const emb = tx.cat([angles.sin(), angles.cos()], { dim: 1 });
    return this.lin2.forward(this.lin1.forward(emb).silu());
  }
}

class ResidualBlock extends nn.Module {
  norm1;
  conv1;
  norm2;
  conv2;
  shortcut;
  timeEmb;
  constructor(inChannels: number, outChannels: number, timeChannels: number, nGroups: number) {
    super();
    this.norm1 = new nn.GroupNorm(nGroups, inChannels);
    this.conv1 = new nn.Conv2d(inChannels, outChannels, 3, { padding: 1 });
    this.norm2 = new nn.GroupNorm(nGroups, outChannels);
    this.conv2 = new nn.Conv2d(outChannels, outChannels, 3, { padding: 1 });
    this.shortcut = inChannels === outChannels ? new nn.Identity() : new nn.Conv2d(inChannels, outChannels, 1);
    this.timeEmb = new nn.Linear(timeChannels, outChannels);
  }
  override forward(x: Tensor, t: Tensor): Tensor {
    let h = this.conv1.forward(this.norm1.forward(x).silu());
    h = h.add(this.timeEmb.forward(t.silu()).unsqueeze(2).unsqueeze(3));
    h = this.conv2.forward(this.norm2.forward(h).silu());
    return h.add(this.shortcut.forward(x));
  }
}

class AttentionBlock extends nn.Module {
  projection;
  output;
  constructor(readonly nChannels: number) {
    super();
    this.projection = new nn.Linear(nChannels, 3 * nChannels);
    this.output = new nn.Linear(nChannels, nChannels);
  }
  override forward(x: Tensor): Tensor {
    const [B, C, H, W] = x.shape as [number, number, number, number];
    const seq = x.view([B, C, H * W]).permute(0, 2, 1);
    const [q, k, v] = this.projection.forward(seq).chunk(3, { dim: -1 }) as [Tensor, Tensor, Tensor];
    const attn = q
      .matmul(k.transpose(1, 2))
      .mul(C ** -0.5)
      .softmax({ dim: 2 });
    const res = this.output.forward(attn.matmul(v)).add(seq);
    return res.permute(0, 2, 1).reshape([B, C, H, W]);
  }
}

export class UNet extends nn.Module {
  imageProj;
  timeEmb;
  down1;
  downsample;
  down2;
  middle1;
  attention;
  middle2;
  up2;
  upsample;
  up1;
  norm;
  final;
  constructor(imageChannels: number, nChannels: number, nGroups = 8) {
    super();
    const [n, time] = [nChannels, nChannels * 4];
    const block = (inChannels: number, outChannels: number) =>
      new ResidualBlock(inChannels, outChannels, time, nGroups);
    this.imageProj = new nn.Conv2d(imageChannels, n, 3, { padding: 1 });
    this.timeEmb = new TimeEmbedding(time);
    this.down1 = block(n, n);
    this.downsample = new nn.Conv2d(n, n, 3, { stride: 2, padding: 1 });
    this.down2 = block(n, 2 * n);
    this.middle1 = block(2 * n, 2 * n);
    this.attention = new AttentionBlock(2 * n);
    this.middle2 = block(2 * n, 2 * n);
    this.up2 = block(4 * n, n); // with the output of down2
    this.upsample = new nn.ConvTranspose2d(n, n, 4, { stride: 2, padding: 1 });
    this.up1 = block(2 * n, n); // with the output of down1
    this.norm = new nn.GroupNorm(nGroups, n);
    this.final = new nn.Conv2d(n, imageChannels, 3, { padding: 1 });
  }
  override forward(x: Tensor, t: Tensor): Tensor {
    const emb = this.timeEmb.forward(t);
    const h1 = this.down1.forward(this.imageProj.forward(x), emb);
    const h2 = this.down2.forward(this.downsample.forward(h1), emb);
    let h = this.middle1.forward(h2, emb);
    h = this.middle2.forward(this.attention.forward(h), emb);
    h = this.up2.forward(tx.cat([h, h2], { dim: 1 }), emb);
    h = this.up1.forward(tx.cat([this.upsample.forward(h), h1], { dim: 1 }), emb);
    return this.final.forward(this.norm.forward(h).silu());
  }
}

export class DenoiseDiffusion {
  readonly beta;
  readonly alpha;
  readonly alphaBar;
  constructor(
    readonly epsModel: UNet,
    readonly nSteps: number,
    dtype: tx.DType = 'f32',
  ) {
    this.beta = tx.linspace(0.0001, 0.02, nSteps, { dtype });
    this.alpha = tx.sub(1, this.beta);
    this.alphaBar = this.alpha.cumprod(0);
  }
  #gather = (consts: Tensor, t: Tensor) => consts.indexSelect(0, t).reshape([-1, 1, 1, 1]);

  qSample(x0: Tensor, t: Tensor, eps: Tensor): Tensor {
    const alphaBar = this.#gather(this.alphaBar, t);
    return alphaBar.sqrt().mul(x0).add(tx.sub(1, alphaBar).sqrt().mul(eps));
  }
  pSample(xt: Tensor, t: Tensor, eps: Tensor): Tensor {
    const epsTheta = this.epsModel.forward(xt, t);
    const [alphaBar, alpha] = [this.#gather(this.alphaBar, t), this.#gather(this.alpha, t)];
    const epsCoef = tx.sub(1, alpha).div(tx.sub(1, alphaBar).sqrt());
    const mean = xt.sub(epsCoef.mul(epsTheta)).div(alpha.sqrt());
    return mean.add(this.#gather(this.beta, t).sqrt().mul(eps));
  }
  loss(x0: Tensor, t: Tensor, noise: Tensor): Tensor {
    const xt = this.qSample(x0, t, noise);
    return tx.mseLoss(noise, this.epsModel.forward(xt, t));
  }
}

type Batch = Readonly<Record<'x0' | 't' | 'noise', Tensor>>;
export async function train(
  diffusion: DenoiseDiffusion,
  batches: Iterable<Batch>,
  { lr = 2e-5 } = {},
): Promise<number[]> {
  const optimizer = new optim.Adam(diffusion.epsModel.parameters(), { lr });
  await tx.sync(diffusion.beta, diffusion.alpha, diffusion.alphaBar);
  const step = tx.compile((x0: Tensor, t: Tensor, noise: Tensor) => {
    optimizer.zeroGrad();
    const loss = diffusion.loss(x0, t, noise);
    loss.backward();
    optimizer.step();
    return loss;
  });
  const losses: number[] = [];
  // eslint-disable-next-line tsxla/no-read-in-loop -- every loss is reported
  for (const { x0, t, noise } of batches) losses.push(await (await step(x0, t, noise)).item());
  return losses;
}

async function main() {
  tx.manualSeed(0);
  const diffusion = new DenoiseDiffusion(new UNet(1, 16, 4), 100);
  const rows = tx.arange(8).to('f32').reshape([8, 1]);
  const bars = rows
    .sub(tx.rand([200, 16, 1, 1, 1]).mul(7))
    .square()
    .neg()
    .exp()
    .mul(2)
    .sub(1);
  const [x0, t, noise] = [bars.expand([200, 16, 1, 8, 8]), tx.randint(0, 100, [200, 16]), tx.randn([200, 16, 1, 8, 8])];
  await tx.sync(x0, t, noise);
  function* batches() {
    for (let i = 0; i < 200; i++) yield { x0: x0.select(0, i), t: t.select(0, i), noise: noise.select(0, i) };
  }
  const losses = await train(diffusion, batches(), { lr: 2e-3 });
  losses.forEach((loss, i) => i % 40 === 39 && console.log(`step ${i + 1}: loss ${loss.toFixed(3)}`));
  const sample = tx.compile((x: Tensor, t: Tensor, eps: Tensor) => tx.noGrad(() => diffusion.pSample(x, t, eps)));
  let x = tx.randn([1, 1, 8, 8]);
  for (let t = 99; t >= 0; t--)
    x = await sample(x, tx.tensor([t]), t ? tx.randn([1, 1, 8, 8]) : tx.zeros([1, 1, 8, 8]));
  const image = (await x.reshape([8, 8]).tolist()) as number[][];
  for (const row of image) console.log(row.map((v) => (v > 0 ? '#' : '.')).join(''));
}
if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
