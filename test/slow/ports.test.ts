// The programs of examples/ports against their originals in torch (scripts/golden/ports): the first 20 losses, in f64.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { nn, Tensor } from 'tsxla';
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import * as bert from '../../examples/ports/bert-mlm.js';
import * as ddpm from '../../examples/ports/ddpm.js';
import * as gat from '../../examples/ports/gat.js';
import * as lstm from '../../examples/ports/lstm-lm.js';
import * as ppo from '../../examples/ports/ppo.js';
import * as resnet from '../../examples/ports/resnet18.js';
import * as seq2seq from '../../examples/ports/seq2seq.js';
import * as wgan from '../../examples/ports/wgan-gp.js';
import { golden } from '../support.js';

/** Numbers between -0.5 and 0.5 by a formula that torch's side computes as well: scripts/golden/ports/common.py. */
const numbers = (n: number, k: number): Float64Array =>
  Float64Array.from({ length: n }, (_, i) => ((i * i * 31 + i * 7919 + k * 104729 + 17) % 65537) / 65537 - 0.5);
const sizeOf = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
const data = (shape: number[], k: number): Tensor =>
  tx.tensor(
    numbers(sizeOf(shape), k).map((x) => x * 2),
    { shape, dtype: 'f64' },
  );
const tokens = (shape: number[], k: number, count: number): Tensor =>
  tx.tensor(
    BigInt64Array.from(numbers(sizeOf(shape), k), (x) => BigInt(Math.floor((x + 0.5) * count))),
    { shape, dtype: 'i64' },
  );
/** A model whose parameters are given by their names. */
function fill<M extends nn.Module>(model: M): M {
  model.to('f64');
  tx.noGrad(() => {
    for (const [name, p] of model.namedParameters()) {
      const k = [...name].reduce((sum, c, i) => sum + c.charCodeAt(0) * (i + 1), 0) % 65537;
      const x = tx.tensor(numbers(p.numel(), k), { shape: p.shape, dtype: 'f64' });
      const isMatrix = p.shape.length >= 2;
      p.copy_(
        isMatrix ? x.mul(2 / Math.sqrt(sizeOf(p.shape.slice(1)))) : x.mul(0.2).add(Number(name.endsWith('weight'))),
      );
    }
  });
  return model;
}
const steps = <T>(make: (n: number) => T): T[] => Array.from({ length: 20 }, (_, n) => make(n));

const PORTS: Readonly<Record<string, () => Promise<number[]>>> = {
  resnet18: () =>
    resnet.train(
      fill(resnet.resnet18({ numClasses: 4, width: 4 })),
      steps((n) => ({ images: data([8, 3, 32, 32], n), target: tokens([8], 100 + n, 4) })),
      { lr: 0.02, stepSize: 8 },
    ),
  gat: () => {
    const edges = data([24, 24], 3).gt(0.5).to('f64').triu(1);
    return gat.train(
      fill(new gat.GAT(10, 6, 3, 0, 0.2, 4)),
      {
        ...{ features: data([24, 10], 1), labels: tokens([24], 2, 3), idxTrain: tx.arange(16) },
        adj: edges.add(edges.t()).add(tx.eye(24, { dtype: 'f64' })),
      },
      { epochs: 20, lr: 0.01 },
    );
  },
  'lstm-lm': () => {
    const source = lstm.batchify(tokens([4 * (20 * 6 + 1)], 5, 12), 4);
    return lstm.train(fill(new lstm.RNNModel(12, 8, 10, 2, 0)), source, { bptt: 6, lr: 5 });
  },
  ddpm: () =>
    ddpm.train(
      new ddpm.DenoiseDiffusion(fill(new ddpm.UNet(1, 8, 4)), 50, 'f64'),
      steps((n) => ({ x0: data([4, 1, 8, 8], n), t: tokens([4], 100 + n, 50), noise: data([4, 1, 8, 8], 200 + n) })),
      { lr: 1e-3 },
    ),
  ppo: () => {
    let calls = 0;
    const uniform = (n: number) => Array.from(numbers(n, ++calls), (x) => x + 0.5);
    const permutation = (n: number) => {
      const keys = uniform(n);
      return keys.map((_, i) => i).sort((a, b) => keys[a]! - keys[b]!);
    };
    const sizes = { numSteps: 16, numIterations: 5, updateEpochs: 1, learningRate: 2.5e-3 };
    return ppo.train(fill(new ppo.Agent(4, 2, 8)), { uniform, permutation }, sizes);
  },
  'wgan-gp': async () => {
    const img = [1, 4, 4] as const;
    const [G, D] = [fill(new wgan.Generator(6, img, [8, 8, 10, 10])), fill(new wgan.Discriminator(img, [12, 8]))];
    const batches = steps((n) => ({
      ...{ realImgs: data([8, ...img], n), z: data([8, 6], 100 + n) },
      alpha: data([8, 1, 1, 1], 200 + n)
        .add(1)
        .div(2),
    }));
    return (await wgan.train(G, D, batches, { lr: 0.002 })).dLosses;
  },
  'bert-mlm': () => {
    const model = new bert.BertForMaskedLM({
      ...{ vocabSize: 20, hiddenSize: 16, numHiddenLayers: 2, numAttentionHeads: 4, intermediateSize: 24 },
      ...{ maxPositionEmbeddings: 8, typeVocabSize: 2, hiddenDropoutProb: 0, layerNormEps: 1e-12 },
    });
    const batches = steps((n) => {
      const ids = tokens([6, 8], n, 20);
      const masked = data([6, 8], 100 + n).lt(-0.4);
      const isPadding = tx.arange(6).lt(2).unsqueeze(1).logicalAnd(tx.arange(8).ge(6));
      return {
        ...{ inputIds: tx.where(masked, 1, ids), labels: tx.where(masked, ids, -100) },
        attentionMask: isPadding.logicalNot().to('i64'),
      };
    });
    return bert.train(fill(model), batches, { lr: 3e-3 });
  },
  seq2seq: () => {
    /** Zeros (padding) from a row on, in some columns. */
    const padded = (x: Tensor, row: number, from: number, to: number) => {
      const [rows, columns] = [tx.arange(x.shape[0]!).unsqueeze(1), tx.arange(x.shape[1]!)];
      return tx.where(rows.ge(row).logicalAnd(columns.ge(from)).logicalAnd(columns.lt(to)), 0, x.add(1));
    };
    const batches = steps(
      (n) => [padded(tokens([7, 5], n, 13), 5, 0, 2), padded(tokens([8, 5], 100 + n, 13), 6, 1, 3)] as const,
    );
    return seq2seq.train(fill(new seq2seq.Seq2SeqTransformer(2, 2, 16, 4, 14, 14, 24, 0)), batches, { lr: 0.003 });
  },
};

test.each(Object.entries(PORTS))('%s: 20 losses are those of torch', async (name, run) => {
  const want = JSON.parse(golden(`ports/${name}.json`)) as number[];
  expect(want.length).toBe(20);
  const got = await run();
  expect(got.length).toBe(20);
  got.forEach((loss, i) => expect(Math.abs(loss - want[i]!) / Math.abs(want[i]!), `step ${i + 1}`).toBeLessThan(1e-6));
});

const root = path.resolve(import.meta.dirname, '../..');
test.each(Object.keys(PORTS))('%s runs as a program, prints its losses, and is one short file', (name) => {
  const file = `examples/ports/${name}.ts`;
  const output = execFileSync(process.execPath, ['--import', 'tsx', file], {
    ...{ cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
    env: { ...process.env, PJRT_DEVICE: 'CPU', TSXLA_LOG: 'quiet' },
  });
  expect([...output.matchAll(/(?:loss|reward) (-?[\d.]+)/g)].length).toBeGreaterThan(1);
  expect(readFileSync(path.join(root, file), 'utf8').trimEnd().split('\n').length).toBeLessThan(200);
});
