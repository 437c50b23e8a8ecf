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
    return x.add(this.fcOut.forward(tx.gelu(this.fcIn.forward(this.norm.forward(x).add(shift)))));
  }
}
const blocks = (n: number) => Array.from({ length: n }, () => new Block());
const copyOf = (layers: Block[]): Block[] =>
  layers.map((layer) => {
    const copy = new Block();
    copy.loadStateDict(layer.stateDict());
    return copy;
  });
const close = async (a: tx.Tensor, b: tx.Tensor) =>
  expect(Number(await a.sub(b).abs().max().item())).toBeLessThan(1e-5);

test.each([
  ['as they are', {}],
  ['with checkpoint', { checkpoint: true }],
  ['two a pass', { unroll: 2 }],
])('a stack computes what its layers do, %s', async (_, options) => {
  tx.manualSeed(1);
  const layers = blocks(4);
  const stack = new nn.LayerStack(copyOf(layers), options);
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
    const pairs = [
      [all, one],
      [loose, one],
      ...stacked.map((g, k) => [g, tx.stack(own.map((grads) => grads[k]!))]),
      ...own.flatMap((grads, i) => grads.map((g, k) => [alone[i]![k]!, g])),
    ];
    return tx.stack(pairs.map(([a, b]) => a!.sub(b!).abs().max())).max();
  });
  expect(Number(await worst.item())).toBeLessThan(1e-5);
});

test('state dicts keep the names and shapes of the layers, both ways', async () => {
  const plain = new nn.ModuleList(blocks(3));
  const stack = new nn.LayerStack(blocks(3));
  expect([...stack.stateDict()].map(([name, t]) => `${name} ${t.aval}`).sort()).toEqual(
    [...plain.stateDict()].map(([name, t]) => `${name} ${t.aval}`).sort(),
  );
  stack.loadStateDict(plain.stateDict());
  for (const [name, t] of stack.stateDict()) await close(t, plain.stateDict().get(name)!);
  const other = new nn.ModuleList(blocks(3));
  other.loadStateDict(stack.stateDict());
  await close(other.at(2).fcOut.weight, plain.at(2).fcOut.weight);
  expect([...stack.namedParameters().keys()][0]).toBe('*.norm.weight');
  // Arrays of files, and one layer alone.
  const arrays = new Map(
    await Promise.all(
      [...plain.stateDict()].map(
        async ([name, t]) => [name, { dtype: t.dtype, shape: t.shape, data: await t.data() }] as const,
      ),
    ),
  );
  const third = new nn.LayerStack(blocks(3));
  third.loadStateDict(arrays);
  await close(third.stateDict().get('1.fc_in.bias')!, plain.at(1).fcIn.bias!);
  third.loadStateDict({ '1.fc_in.bias': arrays.get('1.fc_in.bias')! }, { strict: false });
  third.loadStateDict({ '1.fc_in.bias': tx.zeros([16]) }, { strict: false });
  await close(third.stateDict().get('1.fc_in.bias')!, tx.zeros([16]));
  await close(third.stateDict().get('2.fc_in.bias')!, plain.at(2).fcIn.bias!);
  arrays.delete('2.fc_in.weight');
  expect(() => third.loadStateDict(arrays)).toThrow('Missing key(s) in state_dict: "2.fc_in.weight".');
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
  const first = new nn.LayerStack(blocks(6));
  const before = counts.compiled;
  await first.layer.fcIn.weight.data();
  const compiled = counts.compiled - before;
  expect(compiled).toBeLessThan(8);
  const again = counts.compiled;
  const second = new nn.LayerStack(blocks(6));
  await second.layer.fcIn.weight.data();
  expect(counts.compiled).toBe(again);
});

test('layers that differ are refused', () => {
  class Wide extends Block {
    override fcIn = new nn.Linear(8, 16, { bias: false });
  }
  expect(() => new nn.LayerStack([new Block(), new Wide()])).toThrow('scanLayers: layer 1 differs from layer 0: Wide(');
  expect(() => new nn.LayerStack([])).toThrow('scanLayers: there are no layers');
});

test('the layers a stack was made of are not computed beside it', async () => {
  await tx.sync(); // what is pending from before
  const stack = new tx.nn.LayerStack([1, 2, 3].map(() => new tx.nn.Linear(4, 4)));
  const computed = [...tx.graphText().matchAll(/= (\S+) .*ROOT=/g)].map((m) => m[1]);
  expect(computed.sort()).toEqual(['f32[3,4,4]{2,1,0}', 'f32[3,4]{1,0}', 'u32[4]{0}']); // and the generator's state
  expect(stack.length).toBe(3);
});
