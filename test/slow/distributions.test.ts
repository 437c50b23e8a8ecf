// What tx.distributions draw: by moments, by the Kolmogorov-Smirnov statistic and by Pearson's, with fixed seeds.
import * as tx from 'tsxla';
import * as D from 'tsxla/distributions';
import { beforeEach, expect, test } from 'vitest';

beforeEach(() => void tx.manualSeed(7));

const N = 20_000;
const numbers = async (t: tx.Tensor): Promise<number[]> => Array.from((await t.data()) as Float32Array, Number);

/** The largest distance of the empirical distribution from the cdf, times sqrt(N): 1.95 once in a thousand. */
async function kolmogorovSmirnov(d: D.Distribution): Promise<number> {
  const x = d.sample([N]).sort({ dim: 0 }).values;
  const p = await numbers(d.cdf(x));
  return Math.sqrt(N) * Math.max(...p.map((f, i) => Math.max(f - i / N, (i + 1) / N - f)));
}
test.each([
  ['Normal', new D.Normal(1, 2)],
  ['LogNormal', new D.LogNormal(0.5, 0.7)],
  ['HalfNormal', new D.HalfNormal(2)],
  ['HalfCauchy', new D.HalfCauchy(2)],
  ['Cauchy', new D.Cauchy(-1, 2)],
  ['Laplace', new D.Laplace(1, 0.5)],
  ['Gumbel', new D.Gumbel(1, 0.5)],
  ['Uniform', new D.Uniform(-1, 3)],
  ['Exponential', new D.Exponential(2)],
  ['Gamma of shape 0.3', new D.Gamma(0.3, 2)],
  ['Gamma of shape 4', new D.Gamma(4, 0.5)],
  ['Gamma of shape 300', new D.Gamma(300, 0.5)],
  ['Chi2', new D.Chi2(3)],
  ['tanh of a Normal', new D.TransformedDistribution(new D.Normal(0.2, 0.8), new D.TanhTransform())],
  [
    'a mixture',
    new D.MixtureSameFamily(
      new D.Categorical(tx.tensor([0.3, 0.7])),
      new D.Normal(tx.tensor([-2.0, 1.5]), tx.tensor([0.5, 1.25])),
    ),
  ],
])('samples of %s are distributed by its cdf', async (_, d) => {
  expect(await kolmogorovSmirnov(d)).toBeLessThan(1.95);
});

/** Pearson's statistic over its degrees of freedom, of outcomes expected at least ten times; the others are one outcome. */
async function chiSquare(d: D.Distribution, most: number): Promise<number> {
  const counts = new Map<number, number>();
  for (const x of await numbers(d.sample([N]))) counts.set(x, (counts.get(x) ?? 0) + 1);
  const log = await numbers(d.logProb(tx.arange(most + 1, { dtype: 'f32' })));
  const expected = log.map((l) => N * Math.exp(l));
  const cells = expected.flatMap((e, k) => (e < 10 ? [] : [{ e, o: counts.get(k) ?? 0 }]));
  const rest = { e: N - cells.reduce((s, c) => s + c.e, 0), o: N - cells.reduce((s, c) => s + c.o, 0) };
  const all = rest.e > 5 ? [...cells, rest] : cells;
  const statistic = all.reduce((s, { e, o }) => s + (o - e) ** 2 / e, 0);
  const df = all.length - 1;
  return (statistic - df) / Math.sqrt(2 * df); // about standard normal
}
test.each([
  ['Poisson of rate 0.7', new D.Poisson(0.7), 12],
  ['Poisson of rate 6', new D.Poisson(6), 30],
  ['Poisson of rate 40', new D.Poisson(40), 100],
  ['Poisson of rate 1000', new D.Poisson(1000), 1300],
  ['few successes', new D.Binomial(30, 0.1), 30],
  ['many successes', new D.Binomial(200, 0.3), 200],
  ['mostly successes', new D.Binomial(200, { probs: 0.93 }), 200],
  ['Geometric', new D.Geometric(0.3), 60],
  ['Bernoulli', new D.Bernoulli({ logits: 0.4 }), 1],
  ['Categorical', new D.Categorical({ probs: tx.tensor([0.1, 0.5, 0.0, 0.4]) }), 3],
])('samples of %s come as often as their probabilities say', async (_, d, most) => {
  expect(Math.abs(await chiSquare(d, most))).toBeLessThan(3.3);
});

test('samples of other distributions have their means and variances', async () => {
  const c = tx.tensor([[0.2, 0.5, 3.0]]);
  const cases: [string, D.Distribution, ((x: tx.Tensor) => tx.Tensor)?][] = [
    ['Beta', new D.Beta(tx.tensor([0.5, 3.0]), tx.tensor([0.7, 2.0]))],
    ['Dirichlet', new D.Dirichlet(c)],
    ['StudentT', new D.StudentT(tx.tensor([8, 30], { dtype: 'f32' }), 1, 2)],
    ['OneHotCategorical', new D.OneHotCategorical(tx.tensor([[0.1, 0.3, 0.6]]))],
    ['Multinomial', new D.Multinomial(6, tx.tensor([[0.1, 0.3, 0.6]]))],
    [
      'MultivariateNormal',
      new D.MultivariateNormal(
        tx.tensor([1.5, -1]),
        tx.tensor(
          [
            [2, 0.5],
            [0.5, 1],
          ],
          { dtype: 'f32' },
        ),
      ),
    ],
    ['Independent', new D.Independent(new D.Normal(tx.tensor([1.5, -1]), tx.tensor([0.5, 2])), 1)],
    ['Poisson of a large rate', new D.Poisson(tx.tensor([1e5, 3e7]))],
    ['Binomial of large counts', new D.Binomial(tx.tensor([1e5, 1e6]), { probs: tx.tensor([0.4, 0.001]) })],
  ];
  for (const [name, d] of cases) {
    const x = d.sample([N]);
    expect(x.shape, name).toEqual([N, ...d.batchShape, ...d.eventShape]);
    const deviations = x.mean(0).sub(d.mean).div(d.variance.div(N).sqrt());
    const spread = x.var({ dim: 0 }).div(d.variance);
    const [zs, ratios] = await Promise.all([numbers(deviations), numbers(spread)]); // by one program
    for (const z of zs) expect(Math.abs(z), name).toBeLessThan(3.5);
    for (const r of ratios) expect(Math.abs(r - 1), name).toBeLessThan(0.05);
  }
});

test('angles of VonMises gather around loc as the Bessel functions say', async () => {
  const d = new D.VonMises(tx.tensor([0.5, -2.0, 1.5]), tx.tensor([0.001, 1, 50]));
  const x = d.sample([N]);
  const off = x.sub(d.loc);
  const length = await numbers(off.cos().mean(0));
  const want = await numbers(d.variance.neg().add(1));
  length.forEach((l, i) => expect(Math.abs(l - want[i]!)).toBeLessThan(0.02));
  for (const s of await numbers(off.sin().mean(0))) expect(Math.abs(s)).toBeLessThan(0.02);
});

test('rsample moves with its parameters so that the quantile stays', async () => {
  // dx/dtheta = -(dF/dtheta) / (dF/dx), for every distribution of one number with a cdf.
  const make: Record<string, (a: tx.Tensor, b: tx.Tensor) => D.Distribution> = {
    Normal: (a, b) => new D.Normal(a, b),
    LogNormal: (a, b) => new D.LogNormal(a, b),
    Laplace: (a, b) => new D.Laplace(a, b),
    Cauchy: (a, b) => new D.Cauchy(a, b),
    Gumbel: (a, b) => new D.Gumbel(a, b),
    Uniform: (a, b) => new D.Uniform(a, a.add(b)),
    Exponential: (a, b) => new D.Exponential(a.mul(b)),
    HalfNormal: (a, b) => new D.HalfNormal(a.mul(b)),
  };
  const rows: [string, tx.Tensor, tx.Tensor][] = [];
  for (const [name, of] of Object.entries(make)) {
    const leaf = () =>
      [
        tx.tensor(0.5, { dtype: 'f64', requiresGrad: true }),
        tx.tensor(1.3, { dtype: 'f64', requiresGrad: true }),
      ] as const;
    const [a, b] = leaf();
    const d = of(a, b);
    expect(d.hasRsample, name).toBe(true);
    const x = d.rsample([50]);
    x.sum().backward();
    const [c, e] = leaf();
    const again = of(c, e);
    const fixed = x.detach();
    again.cdf(fixed).div(again.logProb(fixed).exp().detach()).sum().neg().backward();
    rows.push([`${name} a`, a.grad!, c.grad!], [`${name} b`, b.grad!, e.grad!]);
  }
  const far = await Promise.all(rows.map(async ([, x, y]) => x.sub(y).abs().sum().item()));
  expect(rows.filter((_, i) => !(far[i]! < 1e-8)).map(([name]) => name)).toEqual([]);
});

test('gradients of Gamma, Beta, Dirichlet and StudentT draws are those of the expectations', async () => {
  const alpha = tx.tensor([0.4, 2.5, 20], { requiresGrad: true });
  new D.Gamma(alpha, 2).rsample([N]).mean(0).sum().backward();
  for (const g of await numbers(alpha.grad!)) expect(Math.abs(g - 0.5)).toBeLessThan(0.02); // of alpha / rate
  const a = tx.tensor([0.5, 3], { requiresGrad: true });
  new D.Beta(a, tx.tensor([1.5, 2])).rsample([N]).mean(0).sum().backward();
  const beta = [1.5 / 4, 2 / 25]; // b / (a + b)^2
  (await numbers(a.grad!)).forEach((g, i) => expect(Math.abs(g - beta[i]!)).toBeLessThan(0.01));
  const df = tx.tensor(6, { dtype: 'f32', requiresGrad: true });
  new D.StudentT(df).rsample([N]).square().mean().backward();
  expect(Math.abs((await df.grad!.item()) + 2 / 16)).toBeLessThan(0.03); // of df / (df - 2)
});

test('samplers without an object', async () => {
  const x = tx.zeros([N]);
  const mean = async (t: tx.Tensor) => Number(await t.mean().item());
  expect(Math.abs((await mean(x.clone().geometric_(0.25))) - 4)).toBeLessThan(0.1);
  expect(Math.abs((await mean(x.clone().logNormal_(0.5, 0.5))) - Math.exp(0.625))).toBeLessThan(0.05);
  expect(Math.abs((await mean(x.clone().cauchy_(3, 2).lt(3).float())) - 0.5)).toBeLessThan(0.015);
  expect(Math.abs((await mean(tx.poisson(tx.full([N], 3.5)))) - 3.5)).toBeLessThan(0.06);
  expect(Math.abs((await mean(tx.binomial(tx.full([N], 10), tx.tensor(0.25)))) - 2.5)).toBeLessThan(0.05);
  expect(() => x.clone().geometric_(2)).toThrow('geometric_: p is 2');
  expect(await tx.poisson(tx.tensor([0, -1, Number.NaN])).tolist()).toEqual([0, Number.NaN, Number.NaN]);
  expect(await tx.binomial(tx.tensor([5, 5, 0]), tx.tensor([0, 1.0, 0.5])).tolist()).toEqual([0, 5, 0]);
});

test('gumbelSoftmax draws by the probabilities, one-hot if hard, with the gradient of the soft draw', async () => {
  const logits = tx.tensor([0.1, 0.3, 0.6]).log().expand([N, 3]).clone().requiresGrad_();
  const hard = tx.gumbelSoftmax(logits, 0.5, true);
  const shares = await numbers(hard.mean(0));
  [0.1, 0.3, 0.6].forEach((p, i) => expect(Math.abs(shares[i]! - p)).toBeLessThan(0.02));
  tx.manualSeed(1);
  tx.gumbelSoftmax(logits, { tau: 0.5 })
    .mul(tx.tensor([1, 2, 3]))
    .sum()
    .backward();
  const soft = await numbers(logits.grad!);
  logits.grad = null;
  tx.manualSeed(1);
  tx.gumbelSoftmax(logits, { tau: 0.5, hard: true })
    .mul(tx.tensor([1, 2, 3]))
    .sum()
    .backward();
  expect(await numbers(logits.grad!)).toEqual(soft);
});
