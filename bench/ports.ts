// The programs of examples/ports on weights and data by formulas, as their originals in torch have them (scripts/golden/ports):
// for the test of their losses (test/slow/ports.test.ts) and for bench/zoo.ts. Sizes: ports.json.
import { readFileSync } from 'node:fs';
import type { nn, Tensor } from 'tsxla';
import * as tx from 'tsxla';
import * as bert from '../examples/ports/bert-mlm.js';
import * as ddpm from '../examples/ports/ddpm.js';
import * as gat from '../examples/ports/gat.js';
import * as lstm from '../examples/ports/lstm-lm.js';
import * as ppo from '../examples/ports/ppo.js';
import * as resnet from '../examples/ports/resnet18.js';
import * as seq2seq from '../examples/ports/seq2seq.js';
import * as wgan from '../examples/ports/wgan-gp.js';

export type Size = 'golden' | 'small' | 'large';
// biome-ignore lint/suspicious/noExplicitAny: each port has its own numbers
type Sizes = any;
const ALL: Record<string, Record<Size, Sizes>> = JSON.parse(
  readFileSync(new URL('./ports.json', import.meta.url), 'utf8'),
);

export interface Options {
  readonly dtype: 'f32' | 'f64';
  /** The number of steps to run: batches, epochs of GAT, iterations of PPO. */
  readonly steps: number;
  /** Called where a step begins and where the last one ends. May throw to end the run. */
  readonly tick?: () => void;
}
/** Runs that many steps of a port, and gives the losses. */
export function runPort(name: string, size: Size, { dtype, steps, tick = () => {} }: Options): Promise<number[]> {
  return PORTS[name]!(ALL[name]![size], formulas(dtype), steps, tick);
}
export const portNames = (): string[] => Object.keys(ALL);

const sizeOf = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
const whole = (i: number, k: number): number => (i * i * 31 + i * 7919 + k * 104729 + 17) % 65537;
/** Numbers between -0.5 and 0.5. */
const numbers = (n: number, k: number): Float64Array =>
  Float64Array.from({ length: n }, (_, i) => whole(i, k) / 65537 - 0.5);

type Formulas = ReturnType<typeof formulas>;
function formulas(dtype: 'f32' | 'f64') {
  const made = (shape: number[], values: Float64Array) =>
    tx.tensor(dtype === 'f64' ? values : Float32Array.from(values), { shape, dtype });
  return {
    dtype,
    data: (shape: number[], k: number): Tensor =>
      made(
        shape,
        numbers(sizeOf(shape), k).map((x) => x * 2),
      ),
    tokens: (shape: number[], k: number, count: number): Tensor =>
      tx.tensor(
        BigInt64Array.from({ length: sizeOf(shape) }, (_, i) => BigInt(Math.floor((whole(i, k) * count) / 65537))),
        { shape, dtype: 'i64' },
      ),
    /** A model whose parameters are given by their names. */
    fill<M extends nn.Module>(model: M): M {
      model.to(dtype);
      tx.noGrad(() => {
        for (const [name, p] of model.namedParameters()) {
          const k = [...name].reduce((sum, c, i) => sum + c.charCodeAt(0) * (i + 1), 0) % 65537;
          const [factor, more] =
            p.shape.length >= 2 ? [2 / Math.sqrt(sizeOf(p.shape.slice(1))), 0] : [0.2, Number(name.endsWith('weight'))];
          p.copy_(
            made(
              [...p.shape],
              numbers(p.numel(), k).map((x) => x * factor + more),
            ),
          );
        }
      });
      return model;
    },
  };
}

/** Batches again and again, that many in all. */
function* cycle<T>(made: readonly T[], steps: number, tick: () => void): Iterable<T> {
  for (let n = 0; n < steps; n++) {
    tick();
    yield made[n % made.length]!;
  }
  tick();
}
const each = <T>(n: number, make: (n: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));
/** Computed once, not in the first step that uses them. */
const kept = async <T>(batches: T[]): Promise<T[]> => {
  for (const batch of batches) await tx.sync(...(Object.values(batch as object) as Tensor[]));
  return batches;
};

type Port = (s: Sizes, f: Formulas, steps: number, tick: () => void) => Promise<number[]>;
const PORTS: Readonly<Record<string, Port>> = {
  resnet18: async (s, { data, tokens, fill }, steps, tick) => {
    const model = fill(resnet.resnet18({ numClasses: s.classes, width: s.width }));
    const shape = [s.batch, 3, s.image, s.image];
    const batches = await kept(
      each(s.batches, (n) => ({ images: data(shape, n), target: tokens([s.batch], 100 + n, s.classes) })),
    );
    return resnet.train(model, cycle(batches, steps, tick), { lr: s.lr, stepSize: s.stepSize });
  },
  seq2seq: async (s, { tokens, fill }, steps, tick) => {
    /** Zeros (padding) in the last two rows of some columns. */
    const padded = (x: Tensor, from: number, to: number) => {
      const [rows, columns] = [tx.arange(x.shape[0]!).unsqueeze(1), tx.arange(x.shape[1]!)];
      const isPadding = rows
        .ge(x.shape[0]! - 2)
        .logicalAnd(columns.ge(from))
        .logicalAnd(columns.lt(to));
      return tx.where(isPadding, 0, x.add(1));
    };
    const batches = each(s.batches, (n): seq2seq.Batch => {
      const [src, tgt] = [
        tokens([s.source, s.batch], n, s.words - 1),
        tokens([s.target, s.batch], 100 + n, s.words - 1),
      ];
      return [padded(src, 0, 2), padded(tgt, 1, 3)];
    });
    const { layers, dim, heads, words, hidden } = s;
    const model = new seq2seq.Seq2SeqTransformer(layers, layers, dim, heads, words, words, hidden, 0);
    return seq2seq.train(fill(model), cycle(await kept(batches), steps, tick), { lr: s.lr });
  },
  'lstm-lm': async (s, { tokens, fill }, steps, tick) => {
    const model = fill(new lstm.RNNModel(s.words, s.dim, s.hidden, s.layers, 0));
    const source = lstm.batchify(tokens([s.batch * (s.batches * s.bptt + 1)], 5, s.words), s.batch);
    const data = steps < s.batches ? source.narrow(0, 0, steps * s.bptt + 1) : source;
    tick();
    return lstm.train(model, data, { bptt: s.bptt, lr: s.lr, epochs: Math.ceil(steps / s.batches), report: tick });
  },
  ppo: async (s, { fill }, steps, tick) => {
    let calls = 0;
    const uniform = (n: number) => {
      calls++;
      return Array.from({ length: n }, (_, i) => whole(i, calls) / 65537);
    };
    const permutation = (n: number) => {
      const keys = uniform(n);
      return keys.map((_, i) => i).sort((a, b) => keys[a]! - keys[b]!);
    };
    const sizes = { numEnvs: s.envs, numSteps: s.steps, numMinibatches: s.minibatches, updateEpochs: s.epochs };
    const options = { ...sizes, numIterations: Math.min(steps, s.iterations), learningRate: s.lr };
    tick();
    return ppo.train(fill(new ppo.Agent(4, 2, s.hidden)), { uniform, permutation }, options, tick);
  },
  ddpm: async (s, { data, tokens, fill, dtype }, steps, tick) => {
    const model = new ddpm.DenoiseDiffusion(fill(new ddpm.UNet(1, s.channels, s.groups)), s.noises, dtype);
    const shape = [s.batch, 1, s.image, s.image];
    const batches = each(s.batches, (n) => ({
      ...{ x0: data(shape, n), t: tokens([s.batch], 100 + n, s.noises), noise: data(shape, 200 + n) },
    }));
    return ddpm.train(model, cycle(await kept(batches), steps, tick), { lr: s.lr });
  },
  gat: async (s, { data, tokens, fill, dtype }, steps, tick) => {
    const model = fill(new gat.GAT(s.features, s.hidden, s.classes, 0, 0.2, s.heads));
    const edges = data([s.nodes, s.nodes], 3)
      .gt(1 - 2 * s.edges)
      .to(dtype)
      .triu(1);
    const graph = {
      ...{ features: data([s.nodes, s.features], 1), labels: tokens([s.nodes], 2, s.classes) },
      ...{ idxTrain: tx.arange(s.train), adj: edges.add(edges.t()).add(tx.eye(s.nodes, { dtype })) },
    };
    await kept([graph]);
    tick();
    return gat.train(model, graph, { epochs: steps, lr: s.lr, report: tick });
  },
  'bert-mlm': async (s, { data, tokens, fill }, steps, tick) => {
    const model = new bert.BertForMaskedLM({
      ...{ vocabSize: s.words, hiddenSize: s.dim, numHiddenLayers: s.layers, numAttentionHeads: s.heads },
      ...{ intermediateSize: s.hidden, maxPositionEmbeddings: s.length, typeVocabSize: 2 },
      ...{ hiddenDropoutProb: 0, layerNormEps: 1e-12 },
    });
    const shape = [s.batch, s.length];
    const batches = each(s.batches, (n) => {
      const ids = tokens(shape, n, s.words);
      const masked = data(shape, 100 + n).lt(-0.4);
      const last = tx.arange(s.length).ge(s.length - 2);
      const isPadding = tx.arange(s.batch).lt(2).unsqueeze(1).logicalAnd(last);
      return {
        ...{ inputIds: tx.where(masked, 1, ids), labels: tx.where(masked, ids, -100) },
        attentionMask: isPadding.logicalNot().to('i64'),
      };
    });
    const { lr, warmup, total } = s;
    return bert.train(fill(model), cycle(await kept(batches), steps, tick), { lr, warmup, total });
  },
  'wgan-gp': async (s, { data, fill }, steps, tick) => {
    const img = [1, s.image, s.image] as const;
    const [G, D] = [
      fill(new wgan.Generator(s.latent, img, s.generator)),
      fill(new wgan.Discriminator(img, s.discriminator)),
    ];
    const batches = each(s.batches, (n) => ({
      ...{ realImgs: data([s.batch, ...img], n), z: data([s.batch, s.latent], 100 + n) },
      alpha: data([s.batch, 1, 1, 1], 200 + n)
        .add(1)
        .div(2),
    }));
    return (await wgan.train(G, D, cycle(await kept(batches), steps, tick), { lr: s.lr })).dLosses;
  },
};
