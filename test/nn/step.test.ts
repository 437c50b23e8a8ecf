// Layers in compiled steps: one program for many steps, running statistics and random numbers in it; and initial values.
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';

const { nn } = tx;
process.env['TSXLA_LOG'] = 'quiet';
const compiles = () => tx.metrics.counter('UncachedCompile') ?? 0;
const close = (got: unknown, want: readonly number[], digits = 5) =>
  (got as number[]).forEach((x, i) => expect(x).toBeCloseTo(want[i]!, digits));

describe('a compiled step', () => {
  test('with batch norm and dropout is one program, and its running statistics are those of a loop by hand', async () => {
    tx.manualSeed(1);
    const norm = new nn.BatchNorm1d(2);
    const net = new nn.Sequential(norm, new nn.Linear(2, 8), new nn.Dropout(0.5), new nn.Linear(8, 1));
    const lr = tx.tensor(0.1);
    const train = tx.compile((x: tx.Tensor) => {
      net.zeroGrad();
      const loss = net.forward(x).square().mean();
      loss.backward();
      tx.noGrad(() => {
        for (const p of net.parameters()) p.sub_(p.grad!.mul(lr));
      });
      return loss;
    });
    const batches = Array.from({ length: 6 }, (_, k) =>
      Array.from({ length: 4 }, (_, i) => [Math.sin(3 * k + i), Math.cos(k * i) * 2 + 1]),
    );
    await tx.sync(...net.stateDict().values(), lr); // initial values are a program of their own
    const before = compiles();
    const [mean, variance] = [
      [0, 0],
      [1, 1],
    ];
    const losses: number[] = [];
    for (const batch of batches) {
      losses.push(Number(await (await train(tx.tensor(batch, { dtype: 'f32' }))).item()));
      for (const c of [0, 1]) {
        const column = batch.map((row) => row[c]!);
        const middle = column.reduce((a, b) => a + b) / 4;
        const spread = column.reduce((a, b) => a + (b - middle) ** 2, 0) / 3;
        mean![c] = 0.9 * mean![c]! + 0.1 * middle;
        variance![c] = 0.9 * variance![c]! + 0.1 * spread;
      }
    }
    expect(compiles() - before).toBe(1);
    close(await norm.runningMean!.tolist(), mean!);
    close(await norm.runningVar!.tolist(), variance!);
    expect(await norm.numBatchesTracked!.item()).toBe(6);
    expect(new Set(losses).size).toBe(6);
  });

  test('drops other values each time, and the same ones from the same seed', async () => {
    const drop = new nn.Dropout(0.5);
    const run = tx.compile((x: tx.Tensor) => drop.forward(x));
    const ten = async () => {
      tx.manualSeed(3);
      return Promise.all([0, 1, 2].map(async () => String(await (await run(tx.ones([32]))).tolist())));
    };
    const first = await ten();
    expect(new Set(first).size).toBe(3);
    expect(await ten()).toEqual(first);
  });

  test('in eval mode nothing is drawn and nothing learned', async () => {
    const norm = new nn.BatchNorm1d(2, { momentum: null }).eval();
    const run = tx.compile((x: tx.Tensor) => norm.forward(x));
    close(await (await run(tx.tensor([[1, 2]], { dtype: 'f32' }))).reshape([2]).tolist(), [1, 2], 4);
    expect(await norm.numBatchesTracked!.item()).toBe(0);
    expect(await norm.runningMean!.tolist()).toEqual([0, 0]);
    norm.train();
    await run(
      tx.tensor(
        [
          [1, 2],
          [3, 4],
        ],
        { dtype: 'f32' },
      ),
    );
    await run(
      tx.tensor(
        [
          [5, 6],
          [7, 8],
        ],
        { dtype: 'f32' },
      ),
    );
    close(await norm.runningMean!.tolist(), [4, 5]); // the mean over both batches
    norm.resetRunningStats();
    expect(await norm.runningMean!.tolist()).toEqual([0, 0]);
  });

  test('a recurrent layer is a loop: the program does not grow with time', () => {
    const lstm = new nn.LSTM(3, 4, { numLayers: 2 });
    const size = (length: number) => {
      const [output] = lstm.forward(tx.zeros([length, 2, 3]));
      const loss = output.sum();
      loss.backward();
      const text = tx.graphText([loss, ...lstm.parameters().map((p) => p.grad!)], { format: 'stablehlo' });
      lstm.zeroGrad();
      return text.split('\n').length;
    };
    expect(size(40)).toBe(size(10));
  });

  test('attention draws dropout while training, also where the weights are asked for', async () => {
    tx.manualSeed(5);
    const attention = new nn.MultiheadAttention(4, 2, { dropout: 0.5, batchFirst: true });
    const x = tx.randn([1, 6, 4]);
    for (const needWeights of [true, false]) {
      const once = async () => String(await attention.forward(x, x, x, { needWeights })[0].tolist());
      attention.train();
      expect(await once()).not.toBe(await once());
      attention.eval();
      expect(await once()).toBe(await once());
    }
  });
});

describe('dropout', () => {
  test('of channels drops whole ones, and keeps the mean', async () => {
    tx.manualSeed(0);
    const cases = [
      [new nn.Dropout1d(0.25), [64, 16, 3], 2],
      [new nn.Dropout2d(0.25), [64, 16, 2, 2], 2],
      [new nn.Dropout3d(0.25), [64, 16, 2, 1, 2], 2],
      [new nn.Dropout3d(0.25), [1024, 2, 1, 2], 1], // without a batch
    ] as const;
    const found = cases.map(([layer, shape, lead]) => {
      const dropped = layer.forward(tx.ones(shape)).flatten({ startDim: lead });
      const whole = dropped
        .amin({ dim: -1 })
        .eq(dropped.amax({ dim: -1 }))
        .all();
      return tx.stack([whole.float(), dropped.eq(0).float().mean(), dropped.mean()]);
    });
    for (const [whole, zeros, mean] of (await tx.stack(found).tolist()) as number[][]) {
      expect(whole).toBe(1);
      expect(zeros).toBeCloseTo(0.25, 1);
      expect(mean).toBeCloseTo(1, 1);
    }
  });

  test('for selu keeps mean and variance', async () => {
    tx.manualSeed(0);
    for (const layer of [new nn.AlphaDropout(0.3), new nn.FeatureAlphaDropout(0.3)]) {
      const y = layer.forward(tx.randn([20_000, 2]));
      expect(Number(await y.mean().item())).toBeCloseTo(0, 1);
      expect(Number(await y.std().item())).toBeCloseTo(1, 1);
    }
    const whole = new nn.FeatureAlphaDropout(0.3).forward(tx.zeros([50, 2, 3]));
    expect(
      await whole
        .amin({ dim: 2 })
        .eq(whole.amax({ dim: 2 }))
        .all()
        .item(),
    ).toBe(1);
  });

  test('randomized relu draws slopes between its limits', async () => {
    const slopes = new nn.RReLU(0.2, 0.4).forward(tx.full([2000], -1, { dtype: 'f32' })).neg();
    expect(Number(await slopes.min().item())).toBeGreaterThanOrEqual(0.2);
    expect(Number(await slopes.max().item())).toBeLessThanOrEqual(0.4);
    expect(Number(await slopes.mean().item())).toBeCloseTo(0.3, 1);
  });
});

// ---- torch's formulas, with enough draws to come close to the bounds

/** Uniform between plus and minus this, normal with this deviation, or one number everywhere. */
type Expected = { readonly bound: number } | { readonly std: number } | { readonly all: number };
const bound = (fanIn: number): Expected => ({ bound: 1 / Math.sqrt(fanIn) });
const initial: readonly [name: string, make: () => tx.nn.Module, expected: Record<string, Expected>][] = [
  ['Linear', () => new nn.Linear(50, 200), { weight: bound(50), bias: bound(50) }],
  ['Bilinear', () => new nn.Bilinear(20, 30, 100), { weight: bound(20), bias: bound(20) }],
  ['Embedding', () => new nn.Embedding(100, 50), { weight: { std: 1 } }],
  ['Conv2d', () => new nn.Conv2d(8, 200, 3, { groups: 2 }), { weight: bound(4 * 9), bias: bound(4 * 9) }],
  ['ConvTranspose2d', () => new nn.ConvTranspose2d(40, 200, 3), { weight: bound(200 * 9), bias: bound(200 * 9) }],
  ['LSTM', () => new nn.LSTM(30, 40), { weight_ih_l0: bound(40), weight_hh_l0: bound(40), bias_ih_l0: bound(40) }],
  ['GRUCell', () => new nn.GRUCell(30, 50), { weight_ih: bound(50), weight_hh: bound(50), bias_hh: bound(50) }],
  [
    'MultiheadAttention',
    () => new nn.MultiheadAttention(60, 4),
    {
      in_proj_weight: { bound: Math.sqrt(6 / (4 * 60)) },
      in_proj_bias: { all: 0 },
      'out_proj.weight': bound(60),
      'out_proj.bias': { all: 0 },
    },
  ],
  [
    'BatchNorm1d',
    () => new nn.BatchNorm1d(3),
    {
      weight: { all: 1 },
      bias: { all: 0 },
      running_mean: { all: 0 },
      running_var: { all: 1 },
      num_batches_tracked: { all: 0 },
    },
  ],
  ['LayerNorm', () => new nn.LayerNorm(3), { weight: { all: 1 }, bias: { all: 0 } }],
  ['PReLU', () => new nn.PReLU(3), { weight: { all: 0.25 } }],
];
/** The tensors of each module with their mean, deviation, least and greatest, all in one program. */
tx.manualSeed(11);
const statistics = initial.map(([, make]) =>
  [...make().stateDict()].map(([name, value]) => {
    const t = value.detach().to('f64');
    return { name, count: t.numel(), found: tx.stack([t.mean(), t.std({ correction: 0 }), t.min(), t.max()]) };
  }),
);
await tx.sync(...statistics.flat().map(({ found }) => found));

test.each(initial.map((row, i) => [row[0], row[2], statistics[i]!] as const))(
  "initial values of %s are torch's",
  async (_, expected, all) => {
    for (const [name, want] of Object.entries(expected)) {
      const { count, found } = all.find((s) => s.name === name)!;
      const [mean, std, low, high] = (await found.tolist()) as number[];
      if ('all' in want) {
        expect([low, high]).toEqual([want.all, want.all]);
        continue;
      }
      const [limit, spread] = 'bound' in want ? [want.bound, want.bound / Math.sqrt(3)] : [Infinity, want.std];
      const noise = 5 / Math.sqrt(count); // five deviations of the mean
      expect(Math.abs(mean!)).toBeLessThan(noise * spread);
      expect(Math.abs(std! / spread - 1)).toBeLessThan(noise);
      expect(Math.max(-low!, high!)).toBeLessThanOrEqual(limit);
      if ('bound' in want) expect(Math.min(-low!, high!)).toBeGreaterThan(0.9 * limit);
    }
  },
);
