// Jacobians, Hessians and products with Jacobians against torch.func (scripts/golden/func.py has the same functions).
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { golden } from '../support.js';
import { wave } from './cases.js';

type T = tx.Tensor;
const { hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap } = tx.func;
type F = (...xs: T[]) => T;

const eye = tx.eye(2, { dtype: 'f64' });
const FUNCTIONS: Record<string, readonly [F, readonly number[][]]> = {
  sines: [(x) => x.sin().mul(x).sum(), [[4]]],
  'a layer': [(x) => wave([2, 3], 0.5).matmul(x).tanh(), [[3]]],
  softmax: [(x) => x.softmax(-1), [[4]]],
  logsumexp: [(x) => x.logsumexp(1), [[2, 3]]],
  'two arguments': [(x, y) => x.exp().mul(y.pow(3)), [[3], [3]]],
  'layer norm': [(x, weight) => tx.layerNorm(x, [3], { weight }), [[2, 3], [3]]],
  'cross entropy': [(x) => tx.crossEntropy(x, tx.tensor([2, 0])), [[2, 3]]],
  inverse: [(x) => x.add(eye.mul(3)).inv(), [[2, 2]]],
  convolution: [
    (x, w) => tx.conv1d(x, w, { stride: 2, padding: 1 }).tanh(),
    [
      [1, 2, 4],
      [2, 2, 3],
    ],
  ],
  'cumprod and sort': [(x) => x.cumprod(0).add(x.sort().values.square()), [[4]]],
  'gelu and norm': [(x) => tx.gelu(x).div(x.norm()), [[4]]],
  attention: [
    (q, k) => tx.scaledDotProductAttention(q, k, k),
    [
      [1, 2, 3],
      [1, 2, 3],
    ],
  ],
};
type Answer = Record<'jacrev' | 'jacfwd' | 'hessian' | 'vjp', number[][]> & Record<'value' | 'jvp', number[]>;
const answers = JSON.parse(golden('func.json')) as Record<string, Answer>;

test('the same functions', () => expect(Object.keys(FUNCTIONS)).toEqual(Object.keys(answers)));

const flat = (tree: unknown): T[] => (Array.isArray(tree) ? tree.flatMap(flat) : [tree as T]);
test.each(Object.keys(FUNCTIONS))('%s', async (name) => {
  const [f, shapes] = FUNCTIONS[name]!;
  const xs = shapes.map((s, i) => wave(s, i + 0.2));
  const tangents = shapes.map((s, i) => wave(s, i + 2.2));
  const argnums = xs.map((_, i) => i);
  const [value, change] = jvp(f, xs, tangents);
  const [again, push] = linearize(f, ...xs);
  const [, pull] = vjp(f, ...xs);
  const doubled = vmap(jacrev(f, { argnums }))(...xs.map((x) => tx.stack([x, x])));
  const [got] = await tx.read({
    jacrev: flat(jacrev(f, { argnums })(...xs)),
    chunks: flat(jacrev(f, { argnums, chunkSize: 3 })(...xs)),
    jacfwd: flat(jacfwd(f, { argnums })(...xs)),
    hessian: flat(hessian(f, { argnums })(...xs)),
    inside: flat(doubled).map((t) => t.select(0, 1)),
    vjp: pull(wave(value.shape, 4.2)),
    value: [value, again],
    jvp: [change, push(...tangents)],
  });
  const want = answers[name]!;
  const wanted: Record<keyof typeof got, number[][]> = {
    ...want,
    chunks: want.jacrev,
    inside: want.jacrev,
    value: [want.value, want.value],
    jvp: [want.jvp, want.jvp],
  };
  for (const [what, arrays] of Object.entries(got)) {
    const expected = wanted[what as keyof typeof got];
    expect(arrays.length, what).toBe(expected.length);
    arrays.forEach((a, i) => {
      expect(a.length).toBe(expected[i]!.length);
      Array.from(a, Number).forEach((x, k) => void expect(x, `${what} ${i} ${k}`).toBeCloseTo(expected[i]![k]!, 9));
    });
  }
});
