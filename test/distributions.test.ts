// tx.distributions: probabilities, entropies, moments and divergences against torch (scripts/golden/distributions.py). What is
// drawn: test/slow/distributions.test.ts.
import { readFileSync } from 'node:fs';
import * as tx from 'tsxla';
import * as D from 'tsxla/distributions';
import { beforeEach, expect, test } from 'vitest';
import { decodeFloats } from '../dist/base/float.js';
import { logGammaGrad } from '../dist/distributions/gamma-functions.js';

type Nested = number | string | readonly Nested[];
type Spec = number | { t: Nested } | { cls: string; args: Spec[]; kwargs: Record<string, Spec> } | readonly Spec[];
interface Case extends Record<string, unknown> {
  readonly spec: Spec & { cls: string };
  readonly value: Nested;
  readonly batchShape: number[];
  readonly eventShape: number[];
  readonly grads: Nested[];
}
interface Golden {
  readonly cases: Case[];
  readonly kl: { p: Spec & { cls: string }; q: Spec & { cls: string }; kl: Nested; grads: Nested[] }[];
  readonly gammaGrad: { alpha: number[]; x: number[]; grad: number[][] };
  readonly unit: number[];
}
const golden: Golden = JSON.parse(readFileSync(new URL('golden/distributions.json', import.meta.url), 'utf8'));

const camel = (name: string) => name.replace(/_(\w)/g, (_, c: string) => c.toUpperCase());
const f64 = (x: Nested, requiresGrad = false) => tx.tensor(x as number, { dtype: 'f64', requiresGrad });
function build(spec: Spec, leaves: tx.Tensor[]): unknown {
  if (Array.isArray(spec)) return spec.map((s) => build(s, leaves));
  if (typeof spec === 'number') return spec;
  if ('t' in spec) {
    leaves.push(f64(spec.t, true));
    return leaves.at(-1);
  }
  const { cls, args, kwargs } = spec as { cls: string; args: Spec[]; kwargs: Record<string, Spec> };
  const Class = D[cls as 'Normal'] as unknown as new (...args: unknown[]) => unknown;
  const given = args.map((s) => build(s, leaves));
  const named = Object.entries(kwargs).map(([k, v]) => [camel(k), build(v, leaves)]);
  return named.length ? new Class(...given, Object.fromEntries(named)) : new Class(...given);
}
const make = (spec: Spec, leaves: tx.Tensor[] = []) => build(spec, leaves) as D.Distribution;
const flat = (x: Nested): number[] =>
  Array.isArray(x) ? x.flatMap(flat) : [Number(String(x).replace('inf', 'Infinity'))];
const far = (got: ArrayLike<number | bigint>, want: readonly number[], rtol: number): number =>
  Math.max(
    0,
    ...want.map((w, i) => {
      const g = Number(got[i]);
      if (Object.is(g, w) || g === w) return 0;
      return Math.abs(g - w) / (rtol * (1e-3 + Math.abs(w)));
    }),
    got.length === want.length ? 0 : Number.POSITIVE_INFINITY,
  );

/** Many tensors against their answers, in one read. */
async function compare(rows: readonly (readonly [name: string, got: tx.Tensor, want: Nested])[], rtol: number) {
  const values: unknown[] = [];
  for (let i = 0; i < rows.length; i += 60)
    values.push(...(await Promise.all(rows.slice(i, i + 60).map(([, got]) => got.data()))));
  const wrong = rows.flatMap(([name, , want], i) => {
    const off = far(values[i] as Float64Array, flat(want), rtol);
    return off <= 1 ? [] : [`${name}: ${Array.from(values[i] as Float64Array)} instead of ${flat(want)}`];
  });
  expect(wrong).toEqual([]);
}

beforeEach(() => void tx.manualSeed(7));

test('log probabilities, their gradients, entropies, moments, cdf and icdf are those of torch', async () => {
  const rows = golden.cases.flatMap((c, k) => {
    const leaves: tx.Tensor[] = [];
    const d = make(c.spec, leaves);
    const name = `${k} ${c.spec.cls}`;
    expect([d.batchShape, d.eventShape], name).toEqual([c.batchShape, c.eventShape]);
    const isContinuous = c.grads.length > leaves.length;
    const value = f64(c.value, isContinuous);
    const log = d.logProb(value);
    if (leaves.length) log.sum().backward();
    const unit = f64(golden.unit).reshape([3, ...d.batchShape.map(() => 1)]);
    const answers = {
      logProb: () => log,
      entropy: () => d.entropy(),
      cdf: () => d.cdf(value),
      icdf: () => d.icdf(unit),
      mean: () => d.mean,
      mode: () => d.mode,
      variance: () => d.variance,
      stddev: () => d.stddev,
    };
    const grads = c.grads.map((g, i) => {
      const leaf = leaves[i] ?? value;
      return [`${name} gradient ${i}`, leaf.grad ?? tx.zerosLike(leaf), g] as const;
    });
    return [
      ...grads,
      ...Object.entries(answers).flatMap(([key, f]) =>
        c[key] === null ? [] : [[`${name} ${key}`, f(), c[key] as Nested] as const],
      ),
    ];
  });
  expect(rows.length).toBeGreaterThan(300);
  await compare(rows, 1e-8);
});

test('divergences and their gradients are those of torch', async () => {
  const rows = golden.kl.flatMap(({ p, q, kl, grads }) => {
    const leaves: tx.Tensor[] = [];
    const got = D.klDivergence(make(p, leaves), make(q, leaves));
    if (got.requiresGrad) got.sum().backward();
    const name = `${p.cls} ${q.cls}`;
    return [
      [name, got, kl] as const,
      ...grads.map((g, i) => [`${name} gradient ${i}`, leaves[i]!.grad ?? tx.zerosLike(leaves[i]!), g] as const),
    ];
  });
  await compare(rows, 1e-8);
});

test("a gamma draw's gradient by its shape is torch's", async () => {
  const { alpha, x, grad } = golden.gammaGrad;
  const shape = [alpha.length, x.length];
  const [a, at] = [f64(alpha).unsqueeze(-1).expand(shape), f64(x).expand(shape)];
  await compare([['gammaGrad', logGammaGrad(a, at, at.log()).mul(at), grad]], 1e-6);
});

const numbers = async (t: tx.Tensor): Promise<number[]> => Array.from((await t.data()) as Float32Array, Number);

test('a seed gives the same draws, in lazy code, in compiled functions and inside scan', async () => {
  const draw = () => new D.Gamma(2.5, 1).sample([5]);
  tx.manualSeed(3);
  const lazy = [await numbers(draw()), await numbers(draw())];
  tx.manualSeed(3);
  const compiled = tx.compile(draw);
  expect([await numbers(await compiled()), await numbers(await compiled())]).toEqual(lazy);
  tx.manualSeed(3);
  const [, scanned] = tx.scan((carry: tx.Tensor, _: tx.Tensor) => [carry, draw()], tx.tensor(0), tx.zeros([2]));
  expect(await numbers(scanned)).toEqual(lazy.flat());
  expect(lazy[0]).not.toEqual(lazy[1]);
  const generator = new tx.Generator(9);
  const own = await numbers(new D.Poisson(4).sample([6], { generator }));
  generator.manualSeed(9);
  expect(await numbers(new D.Poisson(4).sample([6], { generator }))).toEqual(own);
});

const MANY = 50_000;
const decoded = async (t: tx.Tensor): Promise<number[]> =>
  Array.from(decodeFloats(t.dtype, await t.data()) as ArrayLike<number | bigint>, Number);
const within = (low: number, high: number) => (x: number) => x >= low && x <= high;
const whole = (most: number) => (x: number) => Number.isInteger(x) && x >= 0 && x <= most;
const isReal = within(-Number.MAX_VALUE, Number.MAX_VALUE);
const isOneOf = (...values: number[]) => values.includes.bind(values);

test.each(['bf16', 'f16', 'f32'] as const)('no draw in %s is infinite, NaN or outside the support', async (dtype) => {
  const t = (...x: number[]) => tx.tensor(x.length === 1 ? x[0]! : x, { dtype });
  const outcomes = () => t(0.5, 0, 0.5, 0);
  const draws: Record<string, readonly [draw: tx.Tensor, isPossible: (x: number) => boolean]> = {
    Normal: [new D.Normal(t(0), t(1)).sample([MANY]), isReal],
    LogNormal: [new D.LogNormal(t(0), t(1)).sample([MANY]), within(Number.MIN_VALUE, 1e4)],
    Cauchy: [new D.Cauchy(t(0), t(1)).sample([4 * MANY]), isReal],
    HalfCauchy: [new D.HalfCauchy(t(1)).sample([4 * MANY]), within(0, Number.MAX_VALUE)],
    HalfNormal: [new D.HalfNormal(t(1)).sample([MANY]), within(0, 10)],
    Laplace: [new D.Laplace(t(0), t(1)).sample([MANY]), isReal],
    Gumbel: [new D.Gumbel(t(0), t(1)).sample([MANY]), isReal],
    VonMises: [new D.VonMises(t(0), t(1)).sample([MANY]), within(-3.2, 3.2)],
    Uniform: [new D.Uniform(t(1), t(2)).sample([MANY]), (x) => x >= 1 && x < 2],
    Exponential: [new D.Exponential(t(1)).sample([MANY]), within(0, 100)],
    Gamma: [new D.Gamma(t(0.3), t(1)).sample([MANY]), within(Number.MIN_VALUE, 100)],
    Chi2: [new D.Chi2(t(1)).sample([MANY]), within(Number.MIN_VALUE, 100)],
    Beta: [new D.Beta(t(0.5), t(0.5)).sample([MANY]), within(0, 1)],
    Dirichlet: [new D.Dirichlet(t(0.01, 0.01, 3)).sample([MANY]), within(0, 1)],
    StudentT: [new D.StudentT(t(2)).sample([MANY]), isReal],
    Bernoulli: [new D.Bernoulli(t(0.3)).sample([MANY]), isOneOf(0, 1)],
    'Bernoulli of 0': [new D.Bernoulli(t(0)).sample([MANY]), isOneOf(0)],
    'Bernoulli of 1': [new D.Bernoulli(t(1)).sample([MANY]), isOneOf(1)],
    Binomial: [new D.Binomial(20, t(0.9)).sample([MANY]), whole(20)],
    Poisson: [new D.Poisson(t(3)).sample([MANY]), whole(100)],
    Geometric: [new D.Geometric(t(0.25)).sample([MANY]), whole(200)],
    'Geometric of 1': [new D.Geometric(t(1)).sample([MANY]), isOneOf(0)],
    Categorical: [new D.Categorical(outcomes()).sample([2 * MANY]), isOneOf(0, 2)],
    OneHotCategorical: [new D.OneHotCategorical(outcomes()).sample([MANY]).matmul(t(0, 1, 0, 1)), isOneOf(0)],
    Multinomial: [new D.Multinomial(10, outcomes()).sample([10_000]).matmul(t(0, 1, 0, 1)), isOneOf(0)],
    LogitRelaxedBernoulli: [new D.LogitRelaxedBernoulli(t(0.5), t(0.3)).sample([MANY]), isReal],
    RelaxedBernoulli: [new D.RelaxedBernoulli(t(0.5), t(0.3)).sample([MANY]), (x) => x > 0 && x < 1],
    ExpRelaxedCategorical: [new D.ExpRelaxedCategorical(t(0.5), t(0.2, 0.8)).sample([MANY]), within(-1000, 0)],
    RelaxedOneHotCategorical: [new D.RelaxedOneHotCategorical(t(0.5), t(0.2, 0.8)).sample([MANY]), within(0, 1)],
    MultivariateNormal: [new D.MultivariateNormal(t(0, 0), { scaleTril: tx.eye(2, { dtype }) }).sample([MANY]), isReal],
    gumbelSoftmax: [tx.gumbelSoftmax(tx.zeros([64, 256], { dtype })), within(0, 1)],
    'gumbelSoftmax, hard': [tx.gumbelSoftmax(tx.zeros([64, 256], { dtype }), { hard: true }), within(0, 1)],
    poisson: [tx.poisson(tx.full([MANY], 3, { dtype })), whole(100)],
    binomial: [tx.binomial(tx.full([MANY], 20, { dtype }), t(0.9)), whole(20)],
    bernoulli: [tx.zeros([MANY], { dtype }).bernoulli(), isOneOf(0)],
    multinomial: [tx.multinomial(outcomes(), MANY, { replacement: true }), isOneOf(0, 2)],
    rand: [tx.rand([MANY], { dtype }), (x) => x >= 0 && x < 1],
    randn: [tx.randn([MANY], { dtype }), isReal],
    uniform_: [tx.empty([MANY], { dtype }).uniform_(1, 2), (x) => x >= 1 && x < 2],
    normal_: [tx.empty([MANY], { dtype }).normal_(), isReal],
    exponential_: [tx.empty([MANY], { dtype }).exponential_(), within(0, 100)],
    cauchy_: [tx.empty([4 * MANY], { dtype }).cauchy_(), isReal],
    logNormal_: [tx.empty([MANY], { dtype }).logNormal_(), within(0, Number.MAX_VALUE)],
    geometric_: [tx.empty([MANY], { dtype }).geometric_(0.25), within(1, 200)],
    bernoulli_: [tx.empty([MANY], { dtype }).bernoulli_(0), isOneOf(0)],
  };
  const values = await Promise.all(Object.values(draws).map(([x]) => decoded(x)));
  const impossible = Object.entries(draws).map(([name, [, isPossible]], i) => [
    name,
    values[i]!.filter((x) => !isPossible(x)).length,
  ]);
  expect(impossible.filter(([, count]) => count !== 0)).toEqual([]);
});

test('the smallest and the largest uniform numbers give finite draws', async () => {
  // With seed 1, these counters of the cipher give the words 50 and 2 ** 32 - 66.
  for (const [counter, isLow] of [
    [42115550, true],
    [82824146, false],
  ] as const) {
    const generator = new tx.Generator(1);
    const draw = (d: D.Distribution) => {
      generator.setState(tx.tensor(Uint32Array.of(1, 0, counter, 0)));
      return d.sample([1], { generator });
    };
    const [laplace] = await decoded(draw(new D.Laplace(0, 1)));
    expect(laplace).toBeCloseTo(isLow ? Math.log((2 * 50.5) / 2 ** 32) : -Math.log(2 ** -23), 4);
    for (const d of [new D.Gumbel(0, 1), new D.Cauchy(0, 1), new D.Exponential(1), new D.LogitRelaxedBernoulli(1, 0.5)])
      expect((await decoded(draw(d))).every(Number.isFinite), String(d)).toBe(true);
  }
});

test('expand, enumerateSupport and perplexity are those of torch', async () => {
  const d = new D.Normal(0, tx.tensor([1.0, 2.5])).expand([3, 2]);
  expect([d.batchShape, d.sample([4]).shape, d.sampleN(5).shape]).toEqual([
    [3, 2],
    [4, 3, 2],
    [5, 3, 2],
  ]);
  expect(new D.Independent(d, 1).expand([7, 3]).sample().shape).toEqual([7, 3, 2]);
  expect(new D.TransformedDistribution(d, new D.ExpTransform()).expand([5, 3, 2]).logProb(1).shape).toEqual([5, 3, 2]);
  expect(new D.Beta(1, 2).expand([2]).batchShape).toEqual([2]);
  expect(new D.RelaxedBernoulli(0.5, 0.3).expand([2]).rsample().shape).toEqual([2]);
  const coin = new D.Bernoulli(tx.tensor([0.5, 0.25]));
  expect(await coin.enumerateSupport().tolist()).toEqual([
    [0, 0],
    [1, 1],
  ]);
  expect(await new D.Categorical(tx.ones([3])).enumerateSupport().tolist({ numbers: true })).toEqual([0, 1, 2]);
  expect(await new D.Categorical(tx.ones([4])).perplexity().item()).toBeCloseTo(4);
});

test('what cannot be right is refused with the value, where the host knows it', () => {
  expect(() => new D.Normal(0, -1)).toThrow('Normal: scale is -1: it must be positive');
  expect(() => new D.Normal(0, tx.tensor([1, -2]))).toThrow('scale is -2');
  expect(() => new D.Normal(0, -1, { validateArgs: false })).not.toThrow();
  expect(() => new D.Exponential(1).logProb(-0.5)).toThrow('the value is -0.5: it must be nonnegative');
  expect(() => new D.Categorical(tx.tensor([0.5, 0.5])).logProb(tx.tensor([2]))).toThrow('a whole number in [0, 1]');
  expect(() => new D.Categorical({})).toThrow('give exactly one of probs and logits');
  expect(() => new D.Dirichlet(tx.tensor(1.5))).toThrow('at least one dimension');
  expect(() => new D.Bernoulli(0.5).rsample()).toThrow('Bernoulli.rsample: it has no reparameterized samples');
  expect(() => new D.MultivariateNormal(tx.zeros([2]), {})).toThrow('exactly one of covarianceMatrix');
  expect(() => new D.Uniform(1, 1)).toThrow('low must be below high');
  expect(() => D.klDivergence(new D.Normal(0, 1), new D.Poisson(1))).toThrow('no rule for Normal and Poisson');
});

test('a registered rule serves subclasses, and the nearest one is taken', async () => {
  class Mine extends D.Normal {}
  D.registerKl(Mine, D.Laplace, (p) => p.loc.mul(0).add(42));
  expect(await D.klDivergence(new Mine(0, 1), new D.Laplace(0, 1)).item()).toBe(42);
  expect(await D.klDivergence(new Mine(0, 1), new Mine(0, 1)).item()).toBe(0);
});

test('relaxed distributions keep their class and parameters when they are expanded', async () => {
  const probs = tx.tensor([0.2, 0.8]);
  const bernoulli = new D.RelaxedBernoulli(tx.tensor(0.5), { probs }).expand([3, 2]);
  expect(bernoulli).toBeInstanceOf(D.RelaxedBernoulli);
  expect([bernoulli.batchShape, await bernoulli.probs.tolist()]).toEqual([[3, 2], await probs.expand([3, 2]).tolist()]);
  const categorical = new D.RelaxedOneHotCategorical(tx.tensor(0.5), { probs }).expand([4]);
  expect(categorical).toBeInstanceOf(D.RelaxedOneHotCategorical);
  expect([categorical.batchShape, categorical.eventShape, categorical.probs.shape]).toEqual([[4], [2], [4, 2]]);
});

test('a transform by a number has a finite Jacobian at infinity', async () => {
  const at = tx.tensor([Number.POSITIVE_INFINITY, 1], { dtype: 'f32' });
  const affine = new D.AffineTransform(0, 2);
  expect(await affine.logAbsDetJacobian(at).tolist()).toEqual([Math.fround(Math.log(2)), Math.fround(Math.log(2))]);
});
