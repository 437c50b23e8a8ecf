// ResNet-18 (He et al., 2015), after torchvision/models/resnet.py and pytorch/examples/imagenet.
// npx tsx examples/ports/resnet18.ts
import { pathToFileURL } from 'node:url';
import * as tx from 'tsxla';
import { nn, optim, type Tensor } from 'tsxla';

const conv3x3 = (inPlanes: number, outPlanes: number, stride = 1) =>
  new nn.Conv2d(inPlanes, outPlanes, 3, { stride, padding: 1, bias: false });
const conv1x1 = (inPlanes: number, outPlanes: number, stride = 1) =>
  new nn.Conv2d(inPlanes, outPlanes, 1, { stride, bias: false });

class BasicBlock extends nn.Module {
  conv1;
  bn1;
  relu = new nn.ReLU();
  conv2;
  bn2;

  constructor(
    inplanes: number,
    planes: number,
    stride = 1,
    readonly downsample: nn.Sequential | null = null,
  ) {
    super();
    this.conv1 = conv3x3(inplanes, planes, stride);
    this.bn1 = new nn.BatchNorm2d(planes);
    this.conv2 = conv3x3(planes, planes);
    this.bn2 = new nn.BatchNorm2d(planes);
  }

  override forward(x: Tensor): Tensor {
    let out = this.conv1.forward(x);
    out = this.bn1.forward(out);
    out = this.relu.forward(out);
    out = this.conv2.forward(out);
    out = this.bn2.forward(out);
    const identity = this.downsample ? this.downsample.forward(x) : x;
    return this.relu.forward(out.add(identity));
  }
}

export class ResNet extends nn.Module {
  conv1;
  bn1;
  relu = new nn.ReLU();
  maxpool = new nn.MaxPool2d(3, { stride: 2, padding: 1 });
  layer1;
  layer2;
  layer3;
  layer4;
  avgpool = new nn.AdaptiveAvgPool2d([1, 1]);
  fc;

  constructor(
    layers: readonly [number, number, number, number],
    { numClasses = 1000, width = 64 } = {}, // torchvision's width is 64; smaller ones are faster to try
  ) {
    super();
    this.conv1 = new nn.Conv2d(3, width, 7, { stride: 2, padding: 3, bias: false });
    this.bn1 = new nn.BatchNorm2d(width);
    let inplanes = width;
    const makeLayer = (planes: number, blocks: number, stride = 1) => {
      const downsample =
        stride !== 1 || inplanes !== planes
          ? new nn.Sequential(conv1x1(inplanes, planes, stride), new nn.BatchNorm2d(planes))
          : null;
      const first = new BasicBlock(inplanes, planes, stride, downsample);
      inplanes = planes;
      const others = Array.from({ length: blocks - 1 }, () => new BasicBlock(inplanes, planes));
      return new nn.Sequential(first, ...others);
    };
    this.layer1 = makeLayer(width, layers[0]);
    this.layer2 = makeLayer(2 * width, layers[1], 2);
    this.layer3 = makeLayer(4 * width, layers[2], 2);
    this.layer4 = makeLayer(8 * width, layers[3], 2);
    this.fc = new nn.Linear(8 * width, numClasses);
  }

  override forward(x: Tensor): Tensor {
    x = this.conv1.forward(x);
    x = this.bn1.forward(x);
    x = this.relu.forward(x);
    x = this.maxpool.forward(x);

    x = this.layer1.forward(x);
    x = this.layer2.forward(x);
    x = this.layer3.forward(x);
    x = this.layer4.forward(x);

    x = this.avgpool.forward(x);
    x = x.flatten(1);
    return this.fc.forward(x);
  }
}
export const resnet18 = (options = {}) => new ResNet([2, 2, 2, 2], options);

export interface Batch {
  readonly images: Tensor;
  readonly target: Tensor;
}
export async function train(
  model: ResNet,
  batches: Iterable<Batch>,
  { lr = 0.1, stepSize = 30 } = {},
): Promise<number[]> {
  const criterion = new nn.CrossEntropyLoss();
  const optimizer = new optim.SGD(model.parameters(), { lr, momentum: 0.9, weightDecay: 1e-4 });
  const scheduler = new optim.StepLR(optimizer, stepSize, 0.1);
  model.train();
  const step = tx.compile((images: Tensor, target: Tensor) => {
    const output = model.forward(images);
    const loss = criterion.forward(output, target);
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    return loss;
  });
  const losses: number[] = [];
  for (const { images, target } of batches) {
    // eslint-disable-next-line tsxla/no-read-in-loop -- every loss is reported
    losses.push(await (await step(images, target)).item());
    scheduler.step();
  }
  return losses;
}

async function main() {
  tx.manualSeed(0);
  const model = resnet18({ numClasses: 4, width: 8 });
  // Each class is a direction of stripes, under noise.
  const [x, y] = [tx.arange(32).to('f32').reshape([1, 32]), tx.arange(32).to('f32').reshape([32, 1])];
  const stripes = tx.stack([x.expand([32, 32]), y.expand([32, 32]), x.add(y), x.sub(y)]).sin(); // [4, 32, 32]
  const batches = Array.from({ length: 40 }, () => {
    const target = tx.randint(0, 4, [16]);
    const images = stripes
      .indexSelect(0, target)
      .unsqueeze(1)
      .add(tx.randn([16, 3, 32, 32]));
    return { images, target };
  });
  const losses = await train(model, batches, { lr: 0.05 });
  losses.forEach((loss, i) => i % 5 === 4 && console.log(`step ${i + 1}: loss ${loss.toFixed(3)}`));
}
if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
