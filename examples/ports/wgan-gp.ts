// WGAN-GP (Gulrajani et al., 2017), after eriklindernoren/PyTorch-GAN/implementations/wgan_gp/wgan_gp.py.
// npx tsx examples/ports/wgan-gp.ts
import { pathToFileURL } from 'node:url';
import * as tx from 'tsxla';
import { nn, optim, type Tensor } from 'tsxla';

export class Generator extends nn.Module {
  model;

  constructor(
    latentDim: number,
    readonly imgShape: readonly [number, number, number],
    widths: readonly [number, number, number, number] = [128, 256, 512, 1024],
  ) {
    super();
    const block = (inFeat: number, outFeat: number, normalize = true) => {
      const layers: (nn.Linear | nn.BatchNorm1d | nn.LeakyReLU)[] = [new nn.Linear(inFeat, outFeat)];
      if (normalize) layers.push(new nn.BatchNorm1d(outFeat, { eps: 0.8 }));
      layers.push(new nn.LeakyReLU(0.2));
      return layers;
    };
    this.model = new nn.Sequential(
      ...block(latentDim, widths[0], false),
      ...block(widths[0], widths[1]),
      ...block(widths[1], widths[2]),
      ...block(widths[2], widths[3]),
      new nn.Linear(widths[3], imgShape[0] * imgShape[1] * imgShape[2]),
      new nn.Tanh(),
    );
  }

  override forward(z: Tensor): Tensor {
    const img = this.model.forward(z);
    return img.view([img.shape[0]!, ...this.imgShape]);
  }
}

export class Discriminator extends nn.Module {
  model;

  constructor(imgShape: readonly [number, number, number], widths: readonly [number, number] = [512, 256]) {
    super();
    this.model = new nn.Sequential(
      new nn.Linear(imgShape[0] * imgShape[1] * imgShape[2], widths[0]),
      new nn.LeakyReLU(0.2),
      new nn.Linear(widths[0], widths[1]),
      new nn.LeakyReLU(0.2),
      new nn.Linear(widths[1], 1),
    );
  }

  override forward(img: Tensor): Tensor {
    const imgFlat = img.view([img.shape[0]!, -1]);
    return this.model.forward(imgFlat);
  }
}

/** Calculates the gradient penalty loss for WGAN GP. */
function computeGradientPenalty(D: Discriminator, realSamples: Tensor, fakeSamples: Tensor, alpha: Tensor): Tensor {
  // alpha: random weights for interpolation between real and fake samples, [B, 1, 1, 1]
  const interpolates = alpha.mul(realSamples).add(tx.sub(1, alpha).mul(fakeSamples)).detach().requiresGrad_(true);
  const dInterpolates = D.forward(interpolates);
  const fake = tx.onesLike(dInterpolates);
  // Get gradient w.r.t. interpolates
  let [gradients] = tx.grad(dInterpolates, interpolates, { gradOutputs: fake, createGraph: true }) as [Tensor];
  gradients = gradients.view([gradients.shape[0]!, -1]);
  return gradients.norm({ p: 2, dim: 1 }).sub(1).square().mean();
}

export interface Batch {
  readonly realImgs: Tensor;
  readonly z: Tensor;
  readonly alpha: Tensor;
}
export async function train(
  generator: Generator,
  discriminator: Discriminator,
  batches: Iterable<Batch>,
  { lr = 0.0002, b1 = 0.5, b2 = 0.999, nCritic = 5, lambdaGp = 10 } = {},
): Promise<{ dLosses: number[]; gLosses: number[] }> {
  const optimizerG = new optim.Adam(generator.parameters(), { lr, betas: [b1, b2] });
  const optimizerD = new optim.Adam(discriminator.parameters(), { lr, betas: [b1, b2] });

  const trainDiscriminator = tx.compile((realImgs: Tensor, z: Tensor, alpha: Tensor) => {
    optimizerD.zeroGrad();
    // Generate a batch of images. The original discards the generator's gradients of this later.
    const fakeImgs = generator.forward(z).detach();
    const realValidity = discriminator.forward(realImgs);
    const fakeValidity = discriminator.forward(fakeImgs);
    const gradientPenalty = computeGradientPenalty(discriminator, realImgs, fakeImgs, alpha);
    // Adversarial loss
    const dLoss = realValidity.mean().neg().add(fakeValidity.mean()).add(gradientPenalty.mul(lambdaGp));
    dLoss.backward();
    optimizerD.step();
    return dLoss;
  });

  const trainGenerator = tx.compile((z: Tensor) => {
    optimizerG.zeroGrad();
    // Loss measures generator's ability to fool the discriminator
    const fakeImgs = generator.forward(z);
    const fakeValidity = discriminator.forward(fakeImgs);
    const gLoss = fakeValidity.mean().neg();
    gLoss.backward();
    optimizerG.step();
    optimizerD.zeroGrad(); // so that both functions always start without gradients
    return gLoss;
  });

  const [dLosses, gLosses]: [number[], number[]] = [[], []];
  let i = 0;
  for (const { realImgs, z, alpha } of batches) {
    const dLoss = await trainDiscriminator(realImgs, z, alpha);
    // eslint-disable-next-line tsxla/no-read-in-loop -- every loss is reported
    dLosses.push(await dLoss.item());
    // Train the generator every n_critic steps
    if (i++ % nCritic === 0) gLosses.push(await (await trainGenerator(z)).item());
  }
  return { dLosses, gLosses };
}

async function main() {
  tx.manualSeed(0);
  const imgShape = [1, 8, 8] as const;
  const [generator, discriminator] = [
    new Generator(16, imgShape, [32, 32, 64, 64]),
    new Discriminator(imgShape, [64, 32]),
  ];
  // Real images: a bright bar at a random height.
  const rows = tx.arange(8).to('f32').reshape([1, 1, 8, 1]);
  const batches = Array.from({ length: 300 }, () => {
    const height = tx.rand([32, 1, 1, 1]).mul(7);
    const bar = rows.sub(height).square().neg().exp().mul(2).sub(1);
    const realImgs = bar.expand([32, 1, 8, 8]).contiguous();
    return { realImgs, z: tx.randn([32, 16]), alpha: tx.rand([32, 1, 1, 1]) };
  });
  const { dLosses, gLosses } = await train(generator, discriminator, batches, { lr: 0.001 });
  dLosses.forEach((loss, i) => {
    if (i % 50 === 49)
      console.log(`batch ${i + 1}: D loss ${loss.toFixed(3)}, G loss ${gLosses[Math.floor(i / 5)]!.toFixed(3)}`);
  });
}
if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
