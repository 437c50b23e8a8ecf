// What gradients say when there are none.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { testMisuses } from './misuse.js';

type T = tx.Tensor;
const x = tx.ones([3], { requiresGrad: true });
const one = tx.ones([], { requiresGrad: true });
const HERE = '.*autograd\\.errors\\.test\\.ts:\\d+';
const cases: readonly [name: string, run: () => unknown, text: string | RegExp][] = [
  [
    'nothing wants a gradient',
    () => tx.ones([]).mul(2).backward(),
    'backward: this f32[] depends on no tensor that requires a gradient: call requiresGrad_() on one',
  ],
  [
    'several elements',
    () => x.mul(2).backward(),
    'backward: f32[3] has 3 elements: reduce it to one first (sum, mean), or pass its gradient',
  ],
  [
    'a gradient of another type',
    () => x.backward(tx.ones([2])),
    'backward: the gradient is f32[2], but the tensor is f32[3]',
  ],
  [
    'an op without a gradient on the way',
    () => x.gt(0).sum().backward(),
    new RegExp(
      `^backward: no gradient reaches this i64\\[\\]: it was computed through compare, which has no gradient, at ${HERE}$`,
    ),
  ],
  [
    'detach on the way',
    () => x.detach().sum().backward(),
    new RegExp(
      `^backward: no gradient reaches this f32\\[\\]: it was computed through detach\\(\\) or noGrad, at ${HERE}$`,
    ),
  ],
  [
    'noGrad on the way',
    () =>
      tx
        .noGrad(() => x.mul(2))
        .sum()
        .backward(),
    new RegExp(
      `^backward: no gradient reaches this f32\\[\\]: it was computed through detach\\(\\) or noGrad, at ${HERE}$`,
    ),
  ],
  [
    'integers want none',
    () => tx.tensor([1, 2]).requiresGrad_(),
    'requiresGrad_: this tensor is i64[2]: only floats have gradients',
  ],
  [
    'not a leaf',
    () => x.mul(2).requiresGrad_(false),
    'requiresGrad_: this f32[3] was computed from variables, so its requiresGrad is fixed: use detach()',
  ],
  [
    'an unused input',
    () => tx.grad(x.sum(), [x, one]),
    'grad: no output depends on input 1, f32[]: leave it out, or pass { allowUnused: true }',
  ],
  [
    'an input that wants none',
    () => tx.grad(x.sum(), tx.ones([2])),
    'grad: input 0, f32[2], does not require a gradient: call requiresGrad_() on it first',
  ],
  ['too few gradients', () => tx.grad([x.sum(), one], x, { gradOutputs: [one] }), 'grad: 1 gradOutputs for 2 outputs'],
  [
    'a function of several numbers',
    () => tx.grad((y: T) => y.mul(2))(x),
    'grad: the function returned f32[3]: it must return one floating point number: reduce it (sum, mean)',
  ],
  [
    'a function of none',
    () => tx.grad((() => 3) as unknown as (y: T) => T)(x),
    'grad: the function returned the number 3: it must return a tensor',
  ],
  [
    'an argument that is not there',
    () => tx.grad((y: T) => y.sum(), { argnums: 1 as never })(x),
    'grad: argnums has 1, but the function was called with 1 arguments',
  ],
  [
    'integers as an argument',
    () => tx.valueAndGrad((p: { n: T }) => p.n.sum())({ n: tx.tensor([1]) }),
    "valueAndGrad: argument 0's leaf .n is i64[1]: only floats have gradients",
  ],
  [
    'a rule with too few gradients',
    () => tx.customVjp((a: T, _b: T) => a, { backward: (_, g) => [g] })(x, x),
    'customVjp: backward returned 1 gradients for 2 arguments: return an array with one gradient each',
  ],
  [
    'a rule with a gradient of another type',
    () => tx.customVjp((a: T) => a.mul(2), { backward: (_, g) => [g.sum()] })(x),
    "customVjp: the arguments' leaf [0] is f32[3] as given and f32[] in the result of backward",
  ],
  [
    'a rule that draws',
    () => tx.customVjp((a: T) => a.mul(2), { backward: (_, g) => [g.mul(tx.rand([3]))] })(x),
    'customVjp: backward draws random numbers: draw them in forward and return them as residuals',
  ],
  [
    'an async function',
    // eslint-disable-next-line tsxla/no-async-function -- the error is tested
    () => tx.noGrad(async () => 1),
    'noGrad: the function is async: only describe inside noGrad, and await the results after it',
  ],
];

testMisuses(cases);

test('gradcheck without floats', async () => {
  await expect(tx.gradcheck((n) => n!, [tx.tensor([1])])).rejects.toThrow(
    'gradcheck: no input is a float tensor: there is no gradient to check',
  );
});
