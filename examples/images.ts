// A convolutional network that reads digits. The digits are drawn here, as distorted pen strokes on 16 x 16 pixels, so there is
// nothing to download.
//   npx tsx examples/images.ts [--epochs 4] [--out FOLDER]
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import * as tx from 'tsxla';
import { data, io, nn, optim, type Tensor } from 'tsxla';

const { values: args } = parseArgs({
  options: { epochs: { type: 'string', default: '4' }, out: { type: 'string', default: 'out/images' } },
});
const [SIZE, CLASSES, BATCH, LR, EPOCHS] = [16, 10, 50, 4e-3, Number(args.epochs)];
tx.manualSeed(1);

// ---- the images

/** The pen's path for each digit, in a square from 0 to 1: points, with null where the pen is lifted. */
const circle = (x: number, y: number, r: number, from = 0, to = 1, wide = 1): Point[] =>
  Array.from({ length: 17 }, (_, i) => {
    const turn = 2 * Math.PI * (from + ((to - from) * i) / 16);
    return [x + wide * r * Math.sin(turn), y - r * Math.cos(turn)];
  });
type Point = readonly [x: number, y: number];
const PATHS: readonly (readonly (Point | null)[])[] = [
  circle(0.5, 0.5, 0.38, 0, 1, 0.7),
  [
    [0.35, 0.25],
    [0.55, 0.1],
    [0.55, 0.9],
  ],
  [...circle(0.5, 0.32, 0.22, -0.25, 0.35), [0.25, 0.88], [0.78, 0.88]],
  [...circle(0.47, 0.3, 0.2, -0.2, 0.5), ...circle(0.47, 0.69, 0.2, 0, 0.7)],
  [
    [0.6, 0.9],
    [0.6, 0.1],
    [0.22, 0.62],
    [0.8, 0.62],
  ],
  [[0.75, 0.12], [0.35, 0.12], [0.3, 0.48], ...circle(0.48, 0.66, 0.22, -0.1, 0.7)],
  [[0.65, 0.1], [0.36, 0.45], ...circle(0.5, 0.68, 0.2, -0.25, 0.75)],
  [
    [0.22, 0.12],
    [0.78, 0.12],
    [0.42, 0.9],
  ],
  [...circle(0.5, 0.3, 0.18), null, ...circle(0.5, 0.7, 0.22)],
  [...circle(0.5, 0.32, 0.2, 0.25, 1.25), [0.68, 0.55], [0.55, 0.9]],
];

/** Numbers in [0, 1), the same in every run (mulberry32). */
function randomNumbers(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), seed | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Draws a handwritten digit: the closer the pen passed to a pixel, the darker it is. */
function draw(digit: number, random: () => number): Float32Array {
  const around = (middle: number, by: number) => middle + by * (2 * random() - 1);
  const [turn, lean, width, height] = [around(0, 0.3), around(0, 0.35), around(0.85, 0.25), around(0.9, 0.2)];
  const [dx, dy, pen, noise] = [around(0, 0.08), around(0, 0.08), around(0.075, 0.03), 0.15 * random()];
  const bend = (p: Point | null): Point | null => {
    if (!p) return null;
    const x = width * (p[0] - 0.5 + around(0, 0.03)) + lean * (0.5 - p[1]);
    const y = height * (p[1] - 0.5 + around(0, 0.03));
    return [0.5 + dx + x * Math.cos(turn) - y * Math.sin(turn), 0.5 + dy + x * Math.sin(turn) + y * Math.cos(turn)];
  };
  const points = PATHS[digit]!.map(bend);
  return Float32Array.from({ length: SIZE * SIZE }, (_, i) => {
    const at: Point = [((i % SIZE) + 0.5) / SIZE, (Math.floor(i / SIZE) + 0.5) / SIZE];
    const near = Math.min(...points.slice(1).map((p, j) => distance(at, points[j]!, p)));
    const ink = 1 / (1 + Math.exp((near - pen) * 60));
    return Math.min(1, Math.max(0, ink + noise * (random() - 0.5)));
  });
}
/** The distance from a point to a stroke. */
function distance([x, y]: Point, from: Point | null, to: Point | null): number {
  if (!from || !to) return Number.POSITIVE_INFINITY;
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const part = Math.max(0, Math.min(1, ((x - from[0]) * dx + (y - from[1]) * dy) / (dx * dx + dy * dy)));
  return Math.hypot(x - from[0] - part * dx, y - from[1] - part * dy);
}

interface Item {
  readonly image: io.HostArray;
  readonly digit: Int32Array;
}
function digits(count: number, seed: number): Item[] {
  const random = randomNumbers(seed);
  return Array.from({ length: count }, (_, i) => ({
    image: { dtype: 'f32', shape: [1, SIZE, SIZE], data: draw(i % CLASSES, random) },
    digit: Int32Array.of(i % CLASSES),
  }));
}
const [trainSet, testSet] = [digits(3000, 1), digits(1000, 2)];

const shades = ' .:-=+*#%@';
const rows = ({ image }: Item) =>
  Array.from({ length: SIZE }, (_, y) =>
    Array.from(image.data.subarray(y * SIZE, (y + 1) * SIZE) as Float32Array, (v) => shades[Math.round(v * 9)]).join(
      '',
    ),
  );
const shown = trainSet.slice(20, 26).map(rows);
console.log(shown[0]!.map((_, y) => shown.map((r) => r[y]).join(' ')).join('\n'));

// ---- the network

const block = (from: number, to: number) => [
  new nn.Conv2d(from, to, 3, { padding: 1, bias: false }),
  new nn.BatchNorm2d(to),
  new nn.ReLU(),
];
const model = new nn.Sequential(
  ...block(1, 16),
  ...block(16, 32),
  new nn.MaxPool2d(2), // 8 x 8
  ...block(32, 32),
  new nn.MaxPool2d(2), // 4 x 4
  new nn.Flatten(),
  new nn.Dropout(0.2),
  new nn.Linear(32 * 4 * 4, CLASSES),
);
console.log(String(model));

const optimizer = new optim.AdamW(model.parameters(), { lr: LR, weightDecay: 0.01 });
const loader = new data.DataLoader(trainSet, { batchSize: BATCH, shuffle: true });
const schedule = new optim.OneCycleLR(optimizer, { maxLr: LR, totalSteps: EPOCHS * loader.length! + 1 });

const train = tx.compile(function train(x: Tensor, y: Tensor) {
  optimizer.zeroGrad();
  const loss = nn.functional.crossEntropy(model.forward(x), y.flatten());
  loss.backward();
  optimizer.step();
  return loss;
});
const right = tx.compile(function right(x: Tensor, y: Tensor) {
  return tx.noGrad(() => model.forward(x).argmax(1).eq(y.flatten()).sum());
});

/** The fraction of test images that are read correctly, with BatchNorm's running statistics. */
async function accuracy(): Promise<number> {
  model.eval();
  const counts: Tensor[] = [];
  for await (const { image, digit } of new data.DataLoader(testSet, { batchSize: 100 }))
    counts.push(await right(image, digit));
  model.train();
  return (await tx.stack(counts).sum().item()) / testSet.length;
}

for (let epoch = 1; epoch <= EPOCHS; epoch++) {
  const losses: Tensor[] = [];
  const start = performance.now();
  for await (const { image, digit } of loader) {
    losses.push(await train(image, digit));
    schedule.step();
  }
  const loss = await tx.stack(losses).mean().item();
  const seconds = ((performance.now() - start) / 1e3).toFixed(1);
  console.log(
    `epoch ${epoch}  loss ${loss.toFixed(3)}  test accuracy ${((await accuracy()) * 100).toFixed(1)}%  ${seconds} s`,
  );
}
mkdirSync(args.out, { recursive: true });
await io.writeSafetensors(path.join(args.out, 'digits.safetensors'), model.stateDict());
