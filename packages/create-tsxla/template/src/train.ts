// Learns to tell two spirals apart. `npm start` runs it on the best device there is; PJRT_DEVICE=CPU chooses one.
import * as tx from 'tsxla';

const { nn, optim } = tx;

/** Points of two spirals, and which of them each is on. */
const points = Array.from({ length: 512 }, (_, i) => {
  const arm = i % 2;
  const t = i / 512;
  const angle = 7 * t + arm * Math.PI;
  return { x: [t * Math.cos(angle), t * Math.sin(angle)], y: arm };
});

class Net extends nn.Module {
  readonly hidden = new nn.Linear(2, 64);
  readonly middle = new nn.Linear(64, 64);
  readonly out = new nn.Linear(64, 2);

  override forward(x: tx.Tensor): tx.Tensor {
    return this.out.forward(this.middle.forward(this.hidden.forward(x).tanh()).relu());
  }
}

tx.manualSeed(0);
const model = new Net();
const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
const loader = new tx.data.DataLoader(points, { batchSize: 64, shuffle: true });

// Traced and compiled once; every later call only runs the program.
const train = tx.compile(function train(x: tx.Tensor, y: tx.Tensor) {
  optimizer.zeroGrad();
  const loss = nn.functional.crossEntropy(model.forward(x), y);
  loss.backward();
  optimizer.step();
  return loss;
});

const EPOCHS = 60;
for (let epoch = 1; epoch <= EPOCHS; epoch++) {
  let loss = tx.zeros([]);
  for await (const { x, y } of loader) loss = await train(x, y);
  if (epoch % 10 === 0) console.log(`epoch ${epoch}  loss ${(await loss.item()).toFixed(4)}`);
}

const x = tx.tensor(points.map((point) => point.x));
const y = tx.tensor(points.map((point) => point.y));
const right = tx.noGrad(() => model.forward(x).argmax(1).eq(y).sum());
console.log(`accuracy ${((100 * Number(await right.item())) / points.length).toFixed(1)}%`);
