// Models whose linears are quantized: by pattern, as single layers and as a stack; the original's files; packed files.
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as tx from 'tsxla';
import { readSafetensors, readTorch } from 'tsxla/io';
import { afterAll, describe, expect, test } from 'vitest';
import { TwoBlocks } from '../nn/stacked.js';
import { goldenPath } from '../support.js';

const { nn, quant } = tx;
const folder = mkdtempSync(path.join(tmpdir(), 'tsxla-quant-'));
afterAll(() => rmSync(folder, { recursive: true }));

const CONFIG = {
  hiddenSize: 16,
  intermediateSize: 24,
  numHiddenLayers: 2,
  numAttentionHeads: 2,
  numKeyValueHeads: 1,
  headDim: 8,
  vocabSize: 32,
  tieWordEmbeddings: true,
};
const qwen = (scanLayers: boolean) => {
  tx.manualSeed(3);
  return new tx.models.Qwen3ForCausalLM(CONFIG, { scanLayers });
};
const ids = tx.tensor([[1, 5, 9, 2]], { dtype: 'i32' });
const difference = async (a: tx.Tensor, b: tx.Tensor) => Number(await a.sub(b).abs().max().item());
const weights = (model: tx.nn.Module) =>
  new Map([...quant.quantLinears(model)].map(([name, layer]) => [name, layer.effectiveWeight().detach()]));

describe('a model', () => {
  const single = qwen(false);
  const stacked = qwen(true);
  stacked.loadStateDict(single.stateDict());
  const options = { preset: 'q2a4', options: { groupSize: 4 } } as const;

  test('linears are replaced by pattern, and each is reported with its size and error', async () => {
    const report = await quant.quantizeModel(single, options);
    expect(report.layers.length).toBe(14);
    const { name, kind, bits, shape, bytesBefore, bytes, error } = report.layers.find((l) =>
      l.name.endsWith('0.mlp.down_proj'),
    )!;
    expect({ name, kind, bits, shape, bytesBefore, bytes }).toEqual({
      name: 'model.layers.0.mlp.down_proj',
      kind: 'factored',
      bits: 2,
      shape: [16, 24],
      bytesBefore: 16 * 24 * 4,
      bytes: 16 * 6 + 4 * 4 + 32 * (16 + 24) * 4,
    });
    expect(error).toBeGreaterThan(0.1);
    expect(error).toBeLessThan(0.4);
    const attention = report.layers.find((l) => l.name === 'model.layers.1.self_attn.q_proj')!;
    expect(attention.bits).toBe(4);
    expect(attention.error).toBeLessThan(error / 2);
    expect(String(report)).toMatch(/^model\.layers\.0\.self_attn\.q_proj +4 bits .* to .* error \d+\.\d%\n/);
    expect(String(report)).toMatch(/\n14 linears, .* to .*, error \d+\.\d%$/);
    expect(single.lmHead).toBeInstanceOf(nn.Linear);
  });

  test('in a stack the same layers become the same: names, errors, logits', async () => {
    const report = await quant.quantizeModel(stacked, options);
    expect(report.layers.map((l) => l.name).sort()).toEqual(
      [...quant.quantLinears(single)].map(([name]) => name).sort(),
    );
    expect([...quant.quantLinears(stacked)].length).toBe(7);
    const names = (m: tx.nn.Module) => [...m.stateDict()].map(([name, t]) => `${name} ${t.aval}`).sort();
    expect(names(stacked)).toEqual(names(single));
    expect(await difference(stacked.forward(ids), single.forward(ids))).toBeLessThan(1e-5);
  });

  test('scales in a stack are trained by one program, whose products do not grow with the rank', async () => {
    const dots = async (scaleRank: number) => {
      const model = qwen(true);
      const mlps = { targets: quant.MLP, kind: 'factored', lutSize: 4, groupSize: 4, scaleRank } as const;
      await quant.quantizeModel(model, { rules: [mlps] });
      model.freeze().unfreeze(/scale_|rank_magnitude/);
      const trained = model.parameters().filter((p) => p.requiresGrad);
      expect(trained.length).toBe(9);
      const f = tx.compile((ids: tx.Tensor) => tx.grad(model.loss(ids), trained) as tx.Tensor[]);
      if (scaleRank === 2) for (const g of await f(ids)) expect(Number(await g.abs().max().item())).toBeGreaterThan(0);
      return f.stablehlo([ids]).split('dot_general').length - 1;
    };
    expect(await dots(2)).toBe(await dots(8));
  });

  test('materialized, it computes the same, with a cache too', async () => {
    const before = (await single.forward(ids).data()) as Float32Array;
    const count = (m: tx.nn.Module) => m.buffers().length;
    const buffers = count(stacked);
    for (const [, layer] of quant.quantLinears(stacked)) layer.materialize();
    expect(count(stacked)).toBe(buffers + 7);
    expect(await difference(stacked.forward(ids), tx.tensor(before, { shape: [1, 4, 32] }))).toBeLessThan(1e-5);
    const [made] = await stacked.generate([1, 5, 9, 2], { maxNewTokens: 1, doSample: false }); // with a cache
    const last = before.slice(-32);
    expect(made!.tokens.at(-1)).toBe(last.indexOf(Math.max(...last)));
    for (const [, layer] of quant.quantLinears(stacked)) layer.dematerialize();
  });

  test('only the targets, by rules of any kind', async () => {
    const model = qwen(false);
    const report = await quant.quantizeModel(model, {
      rules: [
        { targets: '*mlp.down_proj', kind: 'symmetric', bits: 4, init: 'grid' },
        { targets: quant.MLP, kind: 'lut', lutSize: 16, scaleRank: 2, groupSize: 8 },
      ],
      targets: /layers\.0\./,
    });
    expect(report.layers.map((l) => `${l.name} ${l.kind}`)).toEqual([
      'model.layers.0.mlp.gate_proj lut',
      'model.layers.0.mlp.up_proj lut',
      'model.layers.0.mlp.down_proj symmetric',
    ]);
    for (const { error } of report.layers) expect(error).toBeLessThan(0.15);
  });

  test('mistakes are sentences', async () => {
    const model = new nn.Sequential(new nn.Linear(4, 4));
    await expect(quant.quantizeModel(model, { preset: 'q2a4' })).rejects.toThrow(
      /^quantize: no linear of Sequential matches .*mlp.* or .*self_attn.*; its linears include 0$/,
    );
    await expect(quant.quantizeModel(model, { preset: 'q3' as never })).rejects.toThrow(
      "quantize: there is no preset 'q3': it must be one of q2a4, q4a4, q4a4_r32, q2a2",
    );
    await expect(quant.quantizeModel(model, {})).rejects.toThrow('quantizeModel: pass either preset or rules');
    await expect(
      quant.quantizeModel(model, { rules: [{ targets: '*', kind: 'factored', scaleRank: 0 }] }),
    ).rejects.toThrow('FactoredLinear: scaleRank is 0: it must be a whole number, at least 1');
  });

  test.each([
    ['as single layers', () => single],
    ['as a stack', () => stacked],
  ])('packed (%s): the file has the size of its parts, and gives back every weight to the bit', async (_, model) => {
    const file = path.join(folder, 'packed.safetensors');
    const written = await quant.savePacked(file, model());
    expect(written).toEqual({ bytes: statSync(file).size, layers: 14 });
    const arrays = await readSafetensors(file);
    expect(arrays.get('model.layers.1.mlp.gate_proj.packed')).toMatchObject({ dtype: 'u8', shape: [24, 4] });
    expect(arrays.has('model.layers.1.mlp.gate_proj._indices')).toBe(false);
    const payload = [...arrays.values()].reduce((sum, a) => sum + a.data.byteLength, 0);
    expect(written.bytes - payload).toBeLessThan(20_000); // its header

    const again = qwen(model() === stacked);
    await quant.loadPacked(again, file);
    const wanted = weights(model());
    const pairs = [...weights(again)].map(([name, w]) => w.ne(wanted.get(name)!).sum());
    expect(pairs.length).toBe(wanted.size);
    expect(await tx.stack(pairs).sum().item()).toBe(0);

    const half = await quant.savePacked(file, model(), { scaleDtype: 'f16' });
    const scales = [...arrays]
      .filter(([name]) => /scale_[AB]$/.test(name))
      .reduce((sum, [, a]) => sum + a.data.length, 0);
    expect(written.bytes - half.bytes).toBeGreaterThan(2 * scales - 1000);
  });

  test('codes of 2 and 4 bits are packed and unpacked, also where a byte is not full', async () => {
    for (const [bits, n] of [
      [2, 7],
      [4, 5],
    ] as const) {
      const codes = tx.randint(0, 2 ** bits, [3, 2, n], { dtype: 'u8' });
      await tx.sync(codes);
      const packed = quant.pack(codes, bits);
      expect(packed.shape).toEqual([3, 2, Math.ceil((n * bits) / 8)]);
      expect(await quant.unpack(packed, bits, n).ne(codes).sum().item()).toBe(0);
    }
    expect(await quant.pack(tx.tensor([1, 2, 3, 0], { dtype: 'u8' }), 2).tolist()).toEqual([0b00111001]);
  });
});

describe("the original's files", () => {
  class Block extends nn.Module {
    mlp = Object.assign(new nn.Module(), {
      gateProj: new nn.Linear(12, 20, { bias: false }),
      downProj: new nn.Linear(20, 12, { bias: false }),
    });
    selfAttn = Object.assign(new nn.Module(), { qProj: new nn.Linear(12, 12) });
    override forward(x: tx.Tensor): tx.Tensor {
      return this.mlp.downProj.forward(this.mlp.gateProj.forward(x).relu()).add(this.selfAttn.qProj.forward(x));
    }
  }
  class Model extends TwoBlocks {
    constructor(stacked: boolean) {
      super(() => new Block(), stacked);
    }
  }
  const numbers = readSafetensors(goldenPath('quant/numbers.safetensors'));
  const number = async (name: string) => {
    const { data, shape } = (await numbers).get(name)!;
    return tx.tensor(data, { shape });
  };
  const read = async (name: string) =>
    (await readTorch(goldenPath(`quant/${name}.pt`))) as Map<string, tx.io.HostArray>;

  test.each([
    ['v2', false, 6],
    ['v2', true, 6],
    ['v2_baked', true, 6], // without _indices: they are found in _Q
    ['v1', true, 6],
    ['v0', true, 4],
  ] as const)('%s (stacked: %s) computes what it did there', async (name, stacked, layers) => {
    const model = new Model(stacked);
    const state = await read(name);
    if (name === 'v2')
      state.set('layers.0.mlp.gate_proj.lora_A', { dtype: 'f32', shape: [1], data: new Float32Array(1) });
    const imported = await quant.importOriginal(model, state, { group_size: name === 'v1' ? 8 : 4 });
    expect(imported.layers).toBe(layers);
    expect([...imported.adapters.keys()]).toEqual(name === 'v2' ? ['layers.0.mlp.gate_proj.lora_A'] : []);
    expect(await difference(model.forward(await number('x')), await number(`${name}.y`))).toBeLessThan(2e-6);
  });

  test('what is exported has its names, and is imported again; config.json says how it was made', async () => {
    const model = new Model(true);
    const state = await read('v2');
    await quant.importOriginal(model, state, { group_size: 4 });
    const exported = quant.exportOriginal(model);
    expect([...exported.keys()].sort()).toEqual([...state.keys()].sort());
    for (const [name, { shape }] of state) expect([name, exported.get(name)!.shape]).toEqual([name, shape]);
    const again = new Model(false);
    await quant.importOriginal(again, exported);
    expect(await difference(again.forward(await number('x')), await number('v2.y'))).toBeLessThan(2e-6);
    expect(quant.originalConfig(model, { modelId: 'Qwen/Qwen3-0.6B' })).toEqual({
      version: 'v2',
      model_id: 'Qwen/Qwen3-0.6B',
      lut_bits: 2,
      mlp_lut_bits: 2,
      attn_lut_bits: 4,
      scale_rank: 2,
      mlp_scale_rank: 2,
      attn_scale_rank: 3,
      group_size: 4,
      force_positive_scales: false,
      magnitude_activation: 'identity',
    });
  });
  test('a state dict without quantized linears is refused', async () => {
    await expect(quant.importOriginal(new Model(false), new Model(false).stateDict())).rejects.toThrow(
      'importOriginal: the state dict has no quantized linears of Model: no linear has a tensor lut or _qat_nbits',
    );
  });
});
