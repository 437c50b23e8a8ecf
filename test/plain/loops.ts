// Torch's plain loops, as people write them: each gives a vector of what it has learned. scripts/golden/plain_loops.py has
// the same in torch. `compiled`: the body is one compiled function, for comparison.
import * as tx from 'tsxla';

const { nn, optim } = tx;

/** Values that need no random numbers: the same in torch. */
export const wave = (shape: readonly number[], seed: number, scale = 0.3): tx.Tensor => {
  const size = shape.reduce((a, b) => a * b, 1);
  const data = Float32Array.from({ length: size }, (_, i) => Math.sin((i + 1) * (seed + 1) * 0.7) * scale);
  return tx.fromBuffer(data, { dtype: 'f32', shape: [...shape] });
};
function fill(module: tx.nn.Module, seed: number): void {
  let n = seed;
  tx.noGrad(() => {
    for (const p of module.parameters()) p.copy_(wave(p.shape, n++));
  });
}
const mlp = (): tx.nn.Sequential => {
  const model = new nn.Sequential(new nn.Linear(6, 8), new nn.Tanh(), new nn.Linear(8, 3));
  fill(model, 0);
  return model;
};
const [X, Y] = [wave([16, 6], 11, 1), Array.from({ length: 16 }, (_, i) => BigInt(i % 3))];
const data = () => ({ x: X, y: tx.tensor(Y, { dtype: 'i64' }) });

/** `read`: after which steps a value is read; `awaits`: whether step() is awaited. */
export interface How {
  readonly read: (i: number) => boolean;
  readonly awaits: boolean;
  readonly compiled: boolean;
}

/** Calls body n times, plainly or compiled. */
async function repeat(n: number, how: How, body: () => { loss: tx.Tensor; done?: PromiseLike<void> | undefined }) {
  const one = how.compiled ? tx.compile(() => body().loss) : undefined;
  for (let i = 0; i < n; i++) {
    if (one) {
      const loss = await one();
      if (how.read(i)) await loss.item();
      continue;
    }
    const { loss, done } = body();
    if (how.awaits) await done;
    if (how.read(i)) await loss.item();
  }
}

export const HOWS = {
  'reads every step': { read: () => true, awaits: false, compiled: false },
  'reads every 10th': { read: (i) => i % 10 === 9, awaits: true, compiled: false },
  'never reads': { read: () => false, awaits: true, compiled: false },
  'never awaits': { read: () => false, awaits: false, compiled: false },
} as const satisfies Readonly<Record<string, How>>;
/** Optimizer steps of one iteration, where there are several. */
export const ENDS: Readonly<Record<string, number>> = { gan: 2 };

/** Each runs n steps. */
export const LOOPS: Readonly<Record<string, (n: number, how: How) => Promise<tx.Tensor[]>>> = {
  async mlp(n, how) {
    const [model, { x, y }] = [mlp(), data()];
    const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
    await repeat(n, how, () => {
      optimizer.zeroGrad();
      const loss = tx.crossEntropy(model.forward(x), y);
      loss.backward();
      return { loss, done: optimizer.step() };
    });
    return [...model.parameters()];
  },
  async rnn(n, how) {
    const [w, u] = [wave([4, 4], 1).requiresGrad_(), wave([4, 4], 2).requiresGrad_()];
    const optimizer = new optim.SGD([w, u], { lr: 0.05, momentum: 0.9 });
    const x = wave([2, 4], 3, 1);
    if (how.compiled) {
      const state = tx.zeros([2, 4]);
      const one = tx.compile(() => {
        optimizer.zeroGrad();
        const h = tx.tanh(x.matmul(w).add(state.matmul(u)));
        const loss = h.sub(0.5).square().mean();
        loss.backward();
        optimizer.step();
        tx.noGrad(() => state.copy_(h));
        return loss;
      });
      for (let i = 0; i < n; i++) await one();
      return [w, u, state];
    }
    let h = tx.zeros([2, 4]);
    await repeat(n, how, () => {
      h = h.detach();
      optimizer.zeroGrad();
      h = tx.tanh(x.matmul(w).add(h.matmul(u)));
      const loss = h.sub(0.5).square().mean();
      loss.backward();
      return { loss, done: optimizer.step() };
    });
    return [w, u, h.detach()];
  },
  async gan(n, how) {
    const [g, d] = [new nn.Linear(2, 4), new nn.Linear(4, 1)];
    fill(g, 4);
    fill(d, 6);
    const optG = new optim.Adam(g.parameters(), { lr: 0.01, betas: [0.5, 0.999] });
    const optD = new optim.Adam(d.parameters(), { lr: 0.01, betas: [0.5, 0.999] });
    const [z, real] = [wave([8, 2], 8, 1), wave([8, 4], 9, 1).add(0.5)];
    const [ones, zeros] = [tx.ones([8, 1]), tx.zeros([8, 1])];
    await repeat(n, how, () => {
      const fake = g.forward(z);
      optD.zeroGrad();
      const lossD = tx
        .binaryCrossEntropyWithLogits(d.forward(real), ones)
        .add(tx.binaryCrossEntropyWithLogits(d.forward(fake.detach()), zeros));
      lossD.backward();
      optD.step();
      optG.zeroGrad();
      const lossG = tx.binaryCrossEntropyWithLogits(d.forward(fake), ones);
      lossG.backward();
      return { loss: lossG, done: optG.step() };
    });
    return [...g.parameters(), ...d.parameters()];
  },
  async ema(n, how) {
    const [model, { x, y }] = [mlp(), data()];
    const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
    const ema = new optim.EMA(model.parameters(), { decay: 0.9 });
    await repeat(n, how, () => {
      optimizer.zeroGrad();
      const loss = tx.crossEntropy(model.forward(x), y);
      loss.backward();
      const done = optimizer.step();
      ema.update();
      return { loss, done };
    });
    return [...ema.averages];
  },
  async accumulation(n, how) {
    const [model, { x, y }] = [mlp(), data()];
    const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
    await repeat(n, how, () => {
      optimizer.zeroGrad();
      let loss = tx.zeros([]);
      for (const part of [0, 1]) {
        loss = tx.crossEntropy(model.forward(x.narrow(0, part * 8, 8)), y.narrow(0, part * 8, 8)).div(2);
        loss.backward();
      }
      return { loss, done: optimizer.step() };
    });
    return [...model.parameters()];
  },
  async scaled(n, how) {
    const [model, { x, y }] = [mlp(), data()];
    const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
    const scaler = new tx.amp.GradScaler({ initScale: 1024, growthInterval: 50 });
    await repeat(n, how, () => {
      optimizer.zeroGrad();
      const loss = tx.crossEntropy(model.forward(x), y);
      scaler.scale(loss).backward();
      const done = scaler.step(optimizer);
      scaler.update();
      return { loss, done };
    });
    return [...model.parameters()];
  },
  async batchNorm(n, how) {
    const model = new nn.Sequential(
      new nn.Linear(6, 8, { bias: false }),
      new nn.BatchNorm1d(8),
      new nn.ReLU(),
      new nn.Linear(8, 3),
    );
    fill(model, 0);
    const { x, y } = data();
    const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
    const schedule = new optim.StepLR(optimizer, { stepSize: 20, gamma: 0.5 });
    const n1 = { ...how, compiled: false };
    const one = how.compiled
      ? tx.compile(() => {
          optimizer.zeroGrad();
          const loss = tx.crossEntropy(model.forward(x), y);
          loss.backward();
          optimizer.step();
          return loss;
        })
      : undefined;
    if (one)
      for (let i = 0; i < n; i++) {
        await one();
        schedule.step();
      }
    else
      await repeat(n, n1, () => {
        optimizer.zeroGrad();
        const loss = tx.crossEntropy(model.forward(x), y);
        loss.backward();
        const done = optimizer.step();
        schedule.step();
        return { loss, done };
      });
    return [...model.parameters(), ...[...model.buffers()].filter((b) => b.dtype === 'f32')];
  },
};
