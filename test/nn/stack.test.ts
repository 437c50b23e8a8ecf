// Equal layers as one loop: the same numbers as one by one, the same names in state dicts, a program that does not grow.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { counts } from '../../dist/runtime/program.js';

const { nn } = tx;
class Block extends nn.Module {
  norm = new nn.LayerNorm(8);
  fcIn = new nn.Linear(8, 16);
  fcOut = new nn.Linear(16, 8, { bias: false });
  override forward(x: tx.Tensor, shift: tx.Tensor): tx.Tensor {
    return x.add(this.fcOut.forward(tx.tanh(this.fcIn.forward(this.norm.forward(x).add(shift)))));
  }
}
/** With values of the host's, which no program has to draw: the same for the same seed. */
const blocks = (n: number, seed = 1) =>
  Array.from({ length: n }, (_, i) => {
    const block = nn.init.skipInit(() => new Block());
    const values = (size: number) => Float32Array.from({ length: size }, (_, k) => Math.sin(seed + 7 * i + 3 * k));
    const arrays = [...block.stateDict()].map(
      ([name, { dtype, shape }]) => [name, { dtype, shape, data: values(shape.reduce((a, b) => a * b)) }] as const,
    );
    block.loadStateDict(new Map(arrays));
    return block;
  });
const differences = (pairs: readonly (readonly [tx.Tensor, tx.Tensor])[]) =>
  tx.stack(pairs.map(([a, b]) => a.sub(b).abs().max())); // as one program
const equal = async (...pairs: (readonly [tx.Tensor, tx.Tensor])[]) =>
  expect(await differences(pairs).tolist()).toEqual(pairs.map(() => 0));

test.each([
  ['as they are', 2, {}],
  ['with checkpoint', 2, { checkpoint: true }],
  ['two a pass', 4, { unroll: 2 }],
])('a stack computes what its layers do, %s', async (_, count, options) => {
  tx.manualSeed(1);
  const layers = blocks(count);
  const stack = new nn.LayerStack(blocks(count), options);
  const [x, shift] = [tx.randn([3, 8]), tx.randn([8])];
  await tx.sync();
  const worst = await tx.step(() => {
    const one = layers.reduce((h, layer) => layer.forward(h, shift), x);
    const all = stack.forward(x, shift);
    const loose = nn.scanLayers(layers, x, options, shift);
    const gradsOf = (y: tx.Tensor, parameters: tx.Tensor[]) => tx.grad(y.square().sum(), parameters) as tx.Tensor[];
    const own = layers.map((layer) => gradsOf(one, layer.parameters()));
    const alone = layers.map((layer) => gradsOf(loose, layer.parameters())); // each layer's parameters get theirs
    const stacked = gradsOf(all, stack.parameters());
    return differences([
      [all, one],
      [loose, one],
      ...stacked.map((g, k) => [g, tx.stack(own.map((grads) => grads[k]!))] as const),
      ...own.flatMap((grads, i) => grads.map((g, k) => [alone[i]![k]!, g] as const)),
    ]).max();
  });
  expect(Number(await worst.item())).toBeLessThan(1e-5);
});

test('state dicts keep the names and shapes of the layers, both ways', async () => {
  const plain = new nn.ModuleList(blocks(2, 1));
  const stack = new nn.LayerStack(blocks(2, 2));
  expect([...stack.stateDict()].map(([name, t]) => `${name} ${t.aval}`).sort()).toEqual(
    [...plain.stateDict()].map(([name, t]) => `${name} ${t.aval}`).sort(),
  );
  expect([...stack.namedParameters().keys()][0]).toBe('*.norm.weight');
  const other = new nn.ModuleList(blocks(2, 3));
  stack.loadStateDict(plain.stateDict());
  other.loadStateDict(stack.stateDict());
  const [want, got, back] = [plain.stateDict(), stack.stateDict(), other.stateDict()];
  await equal(...[...want].flatMap(([name, t]) => [[got.get(name)!, t] as const, [back.get(name)!, t] as const]));
  // Arrays of files, and one layer alone.
  const arrays = new Map(
    await Promise.all(
      [...want].map(async ([name, t]) => [name, { dtype: t.dtype, shape: t.shape, data: await t.data() }] as const),
    ),
  );
  const third = new nn.LayerStack(blocks(2, 4));
  third.loadStateDict(arrays);
  third.loadStateDict({ '1.fc_in.bias': arrays.get('1.fc_in.bias')! }, { strict: false });
  third.loadStateDict({ '0.fc_in.bias': tx.zeros([16]) }, { strict: false });
  const now = third.stateDict();
  await equal(
    [now.get('0.fc_in.weight')!, plain.at(0).fcIn.weight],
    [now.get('0.fc_in.bias')!, tx.zeros([16])],
    [now.get('1.fc_in.bias')!, plain.at(1).fcIn.bias!],
  );
  arrays.delete('1.fc_in.weight');
  expect(() => third.loadStateDict(arrays)).toThrow('Missing key(s) in state_dict: "1.fc_in.weight".');
});

test('dropout differs from layer to layer and from step to step', async () => {
  const layers = Array.from({ length: 3 }, () => new nn.Sequential(new nn.Linear(4, 4), new nn.Dropout(0.5)));
  for (const layer of layers) {
    const { weight, bias } = layer.at(0) as tx.nn.Linear;
    nn.init.eye_(weight);
    nn.init.zeros_(bias!);
  }
  const stack = new nn.LayerStack(layers);
  const run = tx.compile((x: tx.Tensor) => stack.forward(x));
  const [a, b] = [await (await run(tx.ones([64, 4]))).tolist(), await (await run(tx.ones([64, 4]))).tolist()];
  expect(a).not.toEqual(b);
  const kept = (a as number[][]).flat().filter((v) => v === 8).length / 256; // 2 ** 3 where all three kept it
  expect(kept).toBeGreaterThan(0.06);
  expect(kept).toBeLessThan(0.2);
  stack.eval();
  expect(await (await run(tx.ones([64, 4]))).min().item()).toBe(1);
});

test('initial values: as many programs as there are kinds of parameters, not as there are layers', async () => {
  await tx.sync(); // what is pending from before
  tx.manualSeed(2); // the host knows the state again: draws do not depend on one another
  const stackOf = (n: number) =>
    new nn.LayerStack(Array.from({ length: n }, () => new nn.Sequential(new nn.Linear(5, 6), new nn.Linear(6, 5))));
  const computed = async (stack: tx.nn.Module) => {
    const before = { ...counts };
    await stack.parameters()[0]!.data();
    return { compiled: counts.compiled - before.compiled, executed: counts.executed - before.executed };
  };
  // Weights of two shapes, and biases of two; then one program that stacks them all, which counts the layers.
  expect(await computed(stackOf(6))).toEqual({ compiled: 4 + 1, executed: 4 * 6 + 1 });
  expect(await computed(stackOf(9))).toEqual({ compiled: 1, executed: 4 * 9 + 1 });
  expect(await computed(stackOf(6))).toEqual({ compiled: 0, executed: 4 * 6 + 1 });
});

test('layers that differ are refused', () => {
  class Wide extends Block {
    override fcIn = new nn.Linear(8, 16, { bias: false });
  }
  expect(() => new nn.LayerStack([new Block(), new Wide()])).toThrow(
    'scanLayers: layer 1 differs from layer 0: it has Wide(',
  );
  expect(() => new nn.LayerStack([])).toThrow('scanLayers: the list of layers is empty');
});

test('the layers a stack was made of are not computed beside it', async () => {
  await tx.sync(); // what is pending from before
  const stack = new tx.nn.LayerStack([1, 2, 3].map(() => new tx.nn.Linear(4, 4)));
  const computed = [...tx.graphText().matchAll(/= (\S+) .*ROOT=/g)].map((m) => m[1]);
  expect(computed.sort()).toEqual(['f32[3,4,4]{2,1,0}', 'f32[3,4]{1,0}']);
  expect(stack.length).toBe(3);
});
