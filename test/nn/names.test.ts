// Modules and functions of torch that are few lines here: lists of parameters, the adaptive softmax, names at the top.
import * as tx from 'tsxla';
import { expect, expectTypeOf, test } from 'vitest';

const { nn } = tx;

test("ParameterList and ParameterDict hold parameters, by torch's names in state dicts", async () => {
  class Model extends nn.Module {
    list = new nn.ParameterList([tx.ones([2]), new nn.Parameter(tx.zeros([3]))]);
    dict = new nn.ParameterDict({ left: tx.ones([1]), right: tx.zeros([1]) });
  }
  const model = new Model();
  const names = ['list.0', 'list.1', 'dict.left', 'dict.right'];
  expect([...model.namedParameters().keys()]).toEqual(names);
  expect([...model.stateDict().keys()]).toEqual(names);
  expect([model.list.length, model.list.at(-1).shape, model.dict.keys()]).toEqual([2, [3], ['left', 'right']]);
  const copy = model.clone();
  tx.noGrad(() => copy.list.at(0).mul_(5));
  expect([await model.list.at(0).tolist(), await copy.list.at(0).tolist()]).toEqual([
    [1, 1],
    [5, 5],
  ]);
  model.list.append(tx.ones([1])).set(-1, tx.ones([4]));
  model.dict.delete('left');
  model.dict.update([['more', tx.ones([5])]]);
  expect([...model.parameters()].map((p) => p.numel())).toEqual([2, 3, 4, 1, 5]);
  expect(model.parameters().every((p) => p instanceof nn.Parameter && p.requiresGrad)).toBe(true);
  expect(() => model.list.at(3)).toThrow(/ParameterList: no parameter 3: it has 3 parameters/);
  expect(() => model.dict.get('left')).toThrow(/no parameter left: it has right, more/);
  expect(() => model.dict.set('a.b', tx.ones([1]))).toThrow(/a parameter cannot be named "a.b"/);
  // biome-ignore lint/suspicious/noExplicitAny: as JavaScript would call it
  expect(() => model.list.append(3 as any)).toThrow(/ParameterList: element 3 is .*3.*, not a tensor/);
});

test('the adaptive softmax, with the numbers of torch', async () => {
  const m = new nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], 2, true).double();
  for (const [k, p] of m.parameters().entries())
    tx.noGrad(() =>
      p.copy_(
        tx
          .arange(p.numel(), { dtype: 'f64' })
          .mul(k + 1)
          .sin()
          .reshape(p.shape),
      ),
    );
  const x = tx.arange(40, { dtype: 'f64' }).cos().reshape(5, 8).detach().requiresGrad_();
  const targets = tx.tensor([0, 4, 9, 6, 2]);
  const [output, loss] = m.forward(x, targets) as Iterable<tx.Tensor> as [tx.Tensor, tx.Tensor];
  loss.backward();
  const close = (got: unknown, want: readonly number[]) =>
    [got].flat().forEach((v, i) => expect(v).toBeCloseTo(want[i]!, 9));
  const want = [-5.0732592571, -5.3602505791, -6.2319899847, -3.3495640154, -4.8530278004];
  close(await output!.tolist(), want);
  close(await loss!.item(), [4.9736183273]);
  close(await x.grad!.mul(tx.arange(40).reshape(5, 8)).sum().item(), [10.8489527555]);
  close(await m.tail.at(1).at(0).weight.grad!.abs().sum().item(), [1.8199612831]);
  expect(await m.predict(x).tolist({ numbers: true })).toEqual([1, 2, 3, 9, 1]);
  const third = [-3.1703460348, -7.1101470038, -4.0147001232, -1.0251704516, -1.181611656, -1.334404841];
  close(await m.logProb(x).select(0, 2).tolist(), [
    ...third,
    -6.1144704383,
    -5.765180177,
    -5.8089049975,
    -6.2319899847,
  ]);
  close(await m.forward(x.select(0, 1), targets.select(0, 1)).output.item(), [want[1]!]);
  expect(() => m.forward(x, tx.tensor([0, 4, 10, 6, 2]))).toThrow(/has class 10: classes are 0 to 9/);
  expect(() => new nn.AdaptiveLogSoftmaxWithLoss(8, 10, [6, 3])).toThrow(/cutoffs are \[6, 3\]: they must be/);
});

test('Sequential knows the types of its layers', () => {
  const net = new nn.Sequential(new nn.Linear(2, 3), new nn.ReLU(), new nn.Linear(3, 1));
  expectTypeOf(net.at(2)).toEqualTypeOf<tx.nn.Linear>();
  expect(net.at(2).weight.shape).toEqual([1, 3]);
  const any: tx.nn.Sequential = net;
  const layers: tx.nn.Layer[] = [...net];
  expect(any.at(-1)).toBe(new nn.Sequential(...layers).at(2));
  expectTypeOf(net.at(-1)).toExtend<tx.nn.Module>();
});

test('asTensor, isTensor, vmap and nn.functional.rrelu', async () => {
  const x = tx.tensor([1, 2]);
  expect(tx.asTensor(x)).toBe(x);
  expect(tx.asTensor(x, { dtype: 'f32' }).dtype).toBe('f32');
  expect(await tx.asTensor([1.5, 2]).tolist()).toEqual([1.5, 2]);
  expect([tx.isTensor(x), tx.isTensor([1]), tx.isTensor(new nn.Parameter(tx.ones([1])))]).toEqual([true, false, true]);
  expect(tx.vmap).toBe(tx.func.vmap);
  const y = await nn.functional.rrelu(tx.tensor([-1, 2], { dtype: 'f64' }), { lower: 0.1, upper: 0.3 }).tolist();
  expect(y).toEqual([-0.2, 2]);
});

test('a boolean alpha is for booleans, as in torch', async () => {
  const [a, b] = [tx.tensor([true, false, false]), tx.tensor([true, true, false])];
  expect(await tx.add(a, b, { alpha: true }).tolist()).toEqual([true, true, false]);
  expect(await a.add(b, { alpha: false }).tolist()).toEqual([true, false, false]);
  expect(() => tx.tensor([1]).add(tx.tensor([2]), { alpha: true })).toThrow(/add: alpha is true, but the result i64/);
});

test('binaryCrossEntropy refuses what is no probability where the host has it', async () => {
  const p = tx.tensor([0.5, 1.5], { dtype: 'f32', requiresGrad: true });
  const t = tx.tensor([0, 1], { dtype: 'f32' });
  expect(() => tx.binaryCrossEntropy(p, t)).toThrow(/the input f32\[2\] has 1.5: all must be from 0 to 1/);
  expect(() => new nn.BCELoss().forward(t, tx.tensor([0, -1], { dtype: 'f32' }))).toThrow(/the target f32\[2\] has -1/);
  expect(() => t.binaryCrossEntropy(tx.tensor([0, NaN], { dtype: 'f32' }))).toThrow(/the target f32\[2\] has NaN/);
  expect(await tx.binaryCrossEntropy(p.mul(1), t).item()).toBeNaN(); // computed: not on the host
  expect(await tx.binaryCrossEntropy(t, t).item()).toBeCloseTo(0);
});

test('a wrong option of a layer is named, by TypeScript too', () => {
  // @ts-expect-error: 'pading' does not exist. Did you mean to write 'padding'?
  expect(() => new nn.Conv2d(1, 2, 3, { pading: 1 })).toThrow(/no option 'pading'.*did you mean padding/);
  // @ts-expect-error: 'biases' does not exist. Did you mean to write 'bias'?
  expect(() => new nn.Linear(2, 3, { biases: false })).toThrow(/no option 'biases'.*did you mean bias/);
  // @ts-expect-error: 'pp' does not exist
  expect(() => new nn.Dropout({ pp: 1 })).toThrow(/no option 'pp'/);
  const right = [
    new nn.Conv2d(1, 2, 3, 2, 1),
    new nn.Conv1d(1, 2, 3, 1, { padding: 'same' }),
    new nn.Linear(2, 3, false),
  ];
  right.push(new nn.LazyConv2d(2, 3, 2, 1) as tx.nn.Conv2d, new nn.LazyLinear(3, false));
  expect(right.map((m) => m.bias !== null)).toEqual([true, true, false, true, false]);
});
