// Adapters on the quantized linears themselves, of every kind, as single layers and as a stack: what the original of recovery
// LoRA gets wrong is right here.
import * as tx from 'tsxla';
import { beforeAll, describe, expect, test } from 'vitest';
import { TwoBlocks } from '../nn/stacked.js';

const { lora, nn, quant } = tx;
const [WIDTH, RANK] = [8, 3];

/** A linear of each kind, in a row, around which x goes: what an early one does, later ones see. */
class Block extends nn.Module {
  readonly symmetric = new nn.Linear(WIDTH, WIDTH, { bias: false });
  readonly lut = new nn.Linear(WIDTH, WIDTH);
  readonly factored = new nn.Linear(WIDTH, WIDTH);
  readonly packed = new nn.Linear(WIDTH, WIDTH, { bias: false });
  override forward(x: tx.Tensor): tx.Tensor {
    return [this.symmetric, this.lut, this.factored, this.packed].reduce(
      (x, layer) => x.add(layer.forward(x).tanh()),
      x,
    );
  }
}
const numbers = (size: number, scale: number, seed = 0) =>
  Float64Array.from({ length: size }, (_, i) => scale * Math.sin(1 + seed + i * i * 0.7));

/** Quantized, in f64, with adapters that do something. */
async function adapted(stacked: boolean): Promise<TwoBlocks> {
  const model = nn.init.skipInit(() => new TwoBlocks(() => new Block(), stacked));
  for (const [i, p] of model.parameters().entries()) p.assign(Float32Array.from(numbers(p.numel(), 0.4, i)));
  const rank = { lutSize: 4, groupSize: 2, scaleRank: RANK };
  await quant.quantizeModel(model, {
    rules: [
      { targets: '*.symmetric', kind: 'symmetric', bits: 2 },
      { targets: '*.lut', kind: 'lut', ...rank },
      { targets: /factored|packed/, kind: 'factored', ...rank },
    ],
  });
  for (const [name, layer] of [...quant.quantLinears(model)])
    if (name.endsWith('packed')) model.setSubmodule(name, quant.PackedLinear.of(layer));
  model.to('f64');
  const adapters = nn.init.skipInit(() => lora.addLora(model, { targets: /./, rank: 2, alpha: 3, dtype: 'f64' }));
  for (const [i, { loraA, loraB }] of [...adapters.values()].entries())
    for (const [j, p] of [loraA, loraB].entries()) p.assign(numbers(p.numel(), 0.3, i + 10 * j));
  await tx.sync(...model.parameters(), ...model.buffers());
  return model;
}
const x = tx.tensor(numbers(3 * WIDTH, 1), { shape: [3, WIDTH] });
const materialize = async (model: TwoBlocks): Promise<void> => {
  for (const [, layer] of quant.quantLinears(model)) layer.materialize();
  await tx.sync(...model.buffers());
};
const FORMS = [
  ['single layers', false],
  ['a LayerStack', true],
] as const;

describe.each(FORMS)('%s', (_, stacked) => {
  let model: TwoBlocks; // which each test leaves as it was, less that its weights may be materialized
  beforeAll(async () => {
    model = await adapted(stacked);
  });

  test.each(['trained', 'materialized'])('gradients of early adapters are exact (%s)', async (form) => {
    if (form === 'materialized') await materialize(model);
    else model.unfreeze(/factored.*(scale_|rank_magnitude)/); // whose codes are fixed, so they have exact gradients, too
    const trained = [...model.namedParameters()].filter(([, p]) => p.requiresGrad);
    expect(trained.length).toBe((stacked ? 1 : 2) * (form === 'trained' ? 11 : 8));
    const f = tx.compile(() => {
      const loss = model.forward(x).square().sum();
      return {
        loss: loss.detach(),
        grads: tx.grad(
          loss,
          trained.map(([, p]) => p),
        ) as tx.Tensor[],
      };
    });
    const lossOf = async () => Number(await (await f()).loss.item());
    const gradients = await Promise.all((await f()).grads.map((g) => g.data()));
    for (const [i, [name, p]] of trained.entries()) {
      if (!stacked && !name.startsWith('layers.0.')) continue; // the early ones
      const was = (await p.data()).slice() as Float64Array;
      const direction = numbers(was.length, 1, 3).map((d, k) => (stacked && k >= was.length / 2 ? 0 : d));
      const at = async (t: number) => {
        p.assign(was.map((value, k) => value + t * direction[k]!));
        return lossOf();
      };
      const slope = (await at(1e-5)) - (await at(-1e-5));
      await at(0);
      const exact = direction.reduce((sum, d, k) => sum + d * Number(gradients[i]![k]), 0);
      expect(Math.abs(exact), name).toBeGreaterThan(1e-3);
      expect(Math.abs(slope / 2e-5 / exact - 1), name).toBeLessThan(1e-6);
    }
  });

  test('one matmul per quantized linear, and beside it two of its adapter, whatever the rank of its scales', () => {
    const dots = (fn: () => tx.Tensor) =>
      tx
        .compile(fn)
        .stablehlo([])
        .match(/dot_general/g)!.length;
    const linears = 4 * (stacked ? 1 : 2); // a stack is one loop
    expect(dots(() => model.forward(x))).toBe(3 * linears);
    expect(dots(() => lora.disableAdapter(model, () => model.forward(x)))).toBe(linears);
  });

  test('merged, it is quantized again: near the sum; unmerged, every bit is as it was', async () => {
    const state = async () => {
      const entries = [...model.stateEntries()].map(({ tensor, names }) => [names[0]!, tensor] as const);
      const data = await Promise.all(entries.map(([, t]) => t.data()));
      return Object.fromEntries(entries.map(([name], i) => [name, Array.from(data[i] as Float64Array, Number)]));
    };
    const layers = [...lora.adaptersOf(model).values()];
    const bases = () => layers.map((l) => (l.baseLayer as tx.quant.QuantLinear).effectiveWeight().detach());
    const [before, output] = [await state(), await model.forward(x).data()];
    const [base, wanted] = [bases(), layers.map((layer) => layer.weight.detach())];
    await tx.sync(...base, ...wanted);
    lora.mergeAdapter(model);
    const merged = bases();
    const kept = layers.map((l) => (l.baseLayer as tx.quant.QuantLinear).effective!);
    const distance = (a: tx.Tensor, b: tx.Tensor) => a.sub(b).square().sum();
    const found = layers.map((_, i) =>
      tx.stack([distance(merged[i]!, wanted[i]!), distance(base[i]!, wanted[i]!), distance(merged[i]!, kept[i]!)]),
    );
    await tx.sync(...found);
    for (const distances of found) {
      const [near, far, stale] = (await distances.tolist()) as [number, number, number];
      expect(near).toBeLessThan(far); // nearer than without the adapter
      expect(near).toBeGreaterThan(0); // but it is quantized
      expect(stale).toBeLessThan(1e-12); // and what is kept of it is computed again
    }
    lora.unmergeAdapter(model);
    expect(await state()).toEqual(before);
    expect(await model.forward(x).data()).toEqual(output);
  });

  test('an adapter that adds nothing changes nothing when it is merged', async () => {
    for (const { loraB } of lora.adaptersOf(model).values()) loraB.assign(new Float64Array(loraB.numel()));
    const before = (await model.forward(x).data()) as Float64Array;
    const after = (await lora.mergeAndUnload(model).forward(x).data()) as Float64Array;
    for (const [i, y] of before.entries()) expect(after[i]).toBeCloseTo(y, 6);
  });
});
