// One model among workers. Where XLA joins their devices, a model is split over the mesh and its program sums gradients itself.
// On CPUs a program cannot wait for another process: gradients are averaged between backward and the update.
import { createHash } from 'node:crypto';
import { type DType, sizeOf } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { describe, shown } from '../base/tree.js';
import type { DataLoader } from '../data/index.js';
import type { Mesh } from '../ir/mesh.js';
import { Module } from '../nn/index.js';
import type { Optimizer } from '../optim/index.js';
import type { StepOptions } from '../optim/optimizer.js';
import { shared } from '../optim/shared.js';
import {
  fromLocal,
  type ParallelTable,
  parallelize,
  processCount,
  replicate,
  shardBatch,
  shardingOf,
} from '../spmd/index.js';
import { batchAxes } from '../spmd/shares.js';
import { step as runStep } from '../step/step.js';
import { compute, sync } from '../step/sync.js';
import { noGrad } from '../tensor/autograd.js';
import { fromBuffer, tensor, zeros } from '../tensor/create.js';
import { defaultGenerator } from '../tensor/random.js';
import { currentStep } from '../tensor/scope.js';
import { Tensor } from '../tensor/tensor.js';
import { shareLoader } from './data.js';
import { currentLoop, type Loop } from './loop.js';

/** Numbers in one message: what is larger goes in several. */
const MESSAGE = 2 ** 24;
/** Elements of a tensor by which one knows it. */
const SAMPLE = 64;

export interface PrepareModelOptions {
  /** Which parameters are split along the axis model: as `parallelize` takes it. */
  readonly table?: ParallelTable;
}
/** The model as this worker has it: split over the mesh, if there is one, with the values that all workers have. */
export async function prepareModel<M extends Module>(model: M, options: PrepareModelOptions = {}): Promise<M> {
  const loop = currentLoop('prepareModel');
  placeModel(loop, model, options);
  await shareValues(loop, model);
  return model;
}
function placeModel({ context: { mesh } }: Loop, model: Module, { table }: PrepareModelOptions): void {
  if (mesh) parallelize(model, mesh, table);
}
async function shareValues(loop: Loop, model: Module): Promise<void> {
  if (loop.context.worldSize === 1) return;
  const values = [...model.parameters(), ...model.buffers()];
  if (!loop.isApart) return checkAlike(loop, values);
  const isFirst = loop.context.rank === 0;
  const sums = await loop.inTurn(async () => {
    const sent = await Promise.all(values.map((t) => (isExact(t) ? t : bytesOf(t))));
    return exchange(loop, 'sum', 'prepareModel', sent, (data) => (isFirst ? data : data.fill(0)));
  });
  const first = await Promise.all(values.map((t, i) => (isExact(t) ? sums[i]! : fromBytes(sums[i]!, t))));
  noGrad(() => values.forEach((t, i) => void t.copy_(first[i]!)));
  await sync(...values);
}
/** XLA takes it for granted that what is whole is the same in all workers, and so is what they draw: others would go apart unseen. */
async function checkAlike(loop: Loop, values: readonly Tensor[]): Promise<void> {
  const { mesh } = loop.context;
  const isWhole = (t: Tensor) => shardingOf(t)?.isReplicated ?? true;
  const beginnings = [defaultGenerator.state, ...values.filter(isWhole)].map((t) => {
    const some = t.detach().flatten().narrow(0, 0, Math.min(t.numel(), SAMPLE));
    return mesh ? replicate(some, mesh) : some;
  });
  await compute('prepareModel', ...beginnings);
  const hash = createHash('sha256');
  for (const t of beginnings) hash.update((await t.data()) as Uint8Array);
  const all = await gather(loop, 'prepareModel', hash.digest());
  const odd = all.findIndex((theirs) => !theirs.equals(all[0]!));
  if (odd > 0)
    throw new ArgumentError(
      `prepareModel: the model or the seed of worker ${odd} is not that of worker 0, and XLA joins them into one: ` +
        'call tx.manualSeed with the same number in all workers, before the model is made, and read the same files',
    );
}
/** The bytes of each worker: a sum, in which all have places of their own. */
async function gather(loop: Loop, what: string, own: Uint8Array): Promise<Buffer[]> {
  const { rank, worldSize } = loop.context;
  const size = own.length;
  const places = new Float32Array(worldSize * size);
  places.set(own, rank * size);
  const found = Buffer.from(await loop.inTurn(() => loop.link.reduce('sum', places, what)));
  return Array.from({ length: worldSize }, (_, i) => found.subarray(i * size, (i + 1) * size));
}
const isExact = ({ dtype }: Tensor): boolean => FLOATS.includes(dtype);
/** What f32 does not hold (integers, booleans, f64), byte by byte. */
async function bytesOf(t: Tensor): Promise<Tensor> {
  const { buffer, byteOffset, byteLength } = await t.data();
  return tensor(Float32Array.from(new Uint8Array(buffer, byteOffset, byteLength)));
}
async function fromBytes(bytes: Tensor, { dtype, shape }: Tensor): Promise<Tensor> {
  return fromBuffer(Uint8Array.from((await bytes.data()) as Float32Array), { dtype, shape });
}

/** The loader of this worker's batches, each of `batchSize` items: of every worldSize items in its order, one. */
export function prepareDataLoader<T, R>(loader: DataLoader<T, R>): DataLoader<T, R> {
  const { shards, context } = currentLoop('prepareDataLoader');
  return shareLoader(loader, shards.index, shards.count, context.mesh);
}

/** Tensors where the model is: batches are split over the mesh, if that divides them. */
export function toDevice<T>(x: T): Promise<T>;
export function toDevice<T extends readonly unknown[]>(...all: T): Promise<T>;
export async function toDevice(...all: readonly unknown[]): Promise<unknown> {
  const { mesh } = currentLoop('toDevice').context;
  const placed = await Promise.all(
    all.map((x) => {
      if (!(x instanceof Tensor)) throw new ArgumentError(`toDevice: takes tensors, got ${describe(x)}`);
      return mesh ? placeRows(x, mesh) : x;
    }),
  );
  return all.length === 1 ? placed[0] : placed;
}
async function placeRows(t: Tensor, mesh: Mesh): Promise<Tensor> {
  const isPlaced = () => shardingOf(t)?.mesh === mesh; // as a prepared loader gives it
  if (isPlaced()) return t;
  if ((await processCount()) > 1) {
    await sync(t); // it may be computed from something that is
    return isPlaced() ? t : fromLocal(t, mesh);
  }
  const isShared = t.ndim > 0 && t.shape[0]! % mesh.sizeOf(batchAxes(mesh)) === 0;
  return isShared ? shardBatch(t, mesh) : t;
}

/**
 * The mean of every gradient over all workers, in its place. For loops that do something with gradients before the update, such
 * as clipping; else prepareOptimizer does it. Where XLA sums gradients, or there is one worker, it does nothing.
 */
export function averageGradients(of: Module | Iterable<Tensor>): Promise<void> {
  const loop = currentLoop('averageGradients');
  loop.isAveraged = true;
  if (!loop.isApart) return Promise.resolve();
  checkOutside(loop, 'averageGradients()');
  if (averaging.get(loop)?.isAwaited === false)
    throw new ArgumentError(
      'averageGradients() while nobody waits for the one before: write await averageGradients(model)',
    );
  const means = watched(average(loop, of));
  averaging.set(loop, means);
  return means;
}
/** The last one of a loop. */
const averaging = new WeakMap<Loop, Watched>();
/** A program cannot wait: thrown at once, and not into a promise that nobody has. */
function checkOutside({ context: { worldSize } }: Loop, what: string): void {
  const step = currentStep();
  if (step)
    throw new ArgumentError(
      `${what} is inside ${step.name}, a program, which cannot wait for the gradients of ${plural(worldSize - 1, 'other CPU worker')}: ` +
        `end ${step.name} behind loss.backward(), and await ${what} after it`,
    );
}
async function average(loop: Loop, of: Module | Iterable<Tensor>): Promise<void> {
  const parameters = [...(of instanceof Module ? of.parameters() : of)].filter((p) => p.requiresGrad || p.grad);
  if (!parameters.some((p) => p.grad))
    throw new ArgumentError('averageGradients: no parameter has a gradient: call it after loss.backward()');
  // What this worker's loss did not use, another's may have: to the mean it adds 0, as in torch.
  const gradients = parameters.map((p) => p.grad?.detach() ?? zeros(p.shape, { dtype: p.dtype }));
  const isUsed = tensor(Float32Array.from(parameters, (p) => (p.grad ? 1 : 0)));
  const means = await loop.inTurn(() => exchange(loop, 'mean', 'averageGradients', [...gradients, isUsed]));
  const used = (await means.pop()!.data()) as Float32Array;
  parameters.forEach((p, i) => {
    if (used[i]) p.grad = means[i]!;
    shared.means.add(means[i]!);
  });
}

/** What is exchanged: as f32, which holds all of them. */
const FLOATS: readonly DType[] = ['f32', 'bf16', 'f16'];
/** Tensors of the same shapes, reduced over all workers. */
async function exchange(
  { link }: Loop,
  op: 'mean' | 'sum',
  what: string,
  tensors: readonly Tensor[],
  change = (data: Float32Array) => data,
): Promise<Tensor[]> {
  const wrong = tensors.find((t) => !FLOATS.includes(t.dtype));
  if (wrong) throw new ArgumentError(`${what}: ${wrong.aval}: workers exchange f32, bf16 and f16: use one of these`);
  const wide = tensors.map((t) => t.detach().to('f32'));
  await sync(...wide);
  const all = new Float32Array(tensors.reduce((n, t) => n + t.numel(), 0));
  let at = 0;
  for (const t of wide) {
    all.set((await t.data()) as Float32Array, at);
    at += t.numel();
  }
  const sent = change(all);
  const parts: Promise<Float32Array>[] = [];
  for (let from = 0; from < sent.length; from += MESSAGE)
    parts.push(link.reduce(op, sent.subarray(from, from + MESSAGE), what));
  let from = 0;
  for (const part of parts) {
    const reduced = await part;
    sent.set(reduced, from);
    from += reduced.length;
  }
  at = 0;
  return tensors.map(({ shape, dtype }) => {
    const values = sent.slice(at, (at += sizeOf(shape)));
    const t = tensor(values, { shape });
    return dtype === 'f32' ? t : t.to(dtype);
  });
}

/** The mean of each number over all workers: of a loss, that of the whole batch. */
export async function averageMetrics<M extends Record<string, number>>(metrics: M): Promise<M> {
  const loop = currentLoop('averageMetrics');
  const { rank, worldSize } = loop.context;
  if (worldSize === 1) return metrics;
  const names = Object.keys(metrics).sort();
  const wrong = names.find((name) => typeof metrics[name] !== 'number');
  if (wrong) throw new ArgumentError(`averageMetrics: ${wrong} is ${shown(metrics[wrong])}, and metrics are numbers`);
  // As bytes: f32 would round them, and a number of tokens is soon larger than it holds. By their names all know that they mean the same.
  const values = Buffer.from(Float64Array.from(names, (name) => metrics[name]!).buffer);
  const called = createHash('sha256').update(names.join()).digest().subarray(0, 8);
  const all = await gather(loop, 'averageMetrics', Buffer.concat([called, values]));
  const odd = all.findIndex((theirs) => !theirs.subarray(0, 8).equals(called));
  if (odd >= 0)
    throw new ArgumentError(
      `averageMetrics: worker ${rank} gave ${names.join(', ')}, and worker ${odd} others: all workers give numbers of the same names`,
    );
  const mean = (i: number) => all.reduce((sum, theirs) => sum + theirs.readDoubleLE(8 * (i + 1)), 0) / worldSize;
  return Object.fromEntries(Object.keys(metrics).map((name) => [name, mean(names.indexOf(name))])) as M;
}

/** Whether one of the workers says so: all of them hear the same. */
export async function anyWorker(says: boolean): Promise<boolean> {
  const loop = currentLoop('anyWorker');
  if (loop.context.worldSize === 1) return says;
  const [count] = await loop.inTurn(() => loop.link.reduce('sum', Float32Array.of(Number(says)), 'anyWorker'));
  return count! > 0;
}

/** Knows whether somebody waits for it. */
class Watched extends Promise<undefined> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise; // whoever waits for what comes after it waits for it
  }
  isAwaited = false;
  // biome-ignore lint/suspicious/noThenProperty: a promise has one
  override then<A = void, B = never>(
    onDone?: ((value: undefined) => A | PromiseLike<A>) | null,
    onFailed?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.isAwaited = true;
    return super.then(onDone, onFailed);
  }
}
const watched = (work: Promise<void>): Watched =>
  new Watched((resolve, reject) => void work.then(() => resolve(undefined), reject));

/** An optimizer whose step may have to wait for other workers. */
export type PreparedOptimizer<O> = { step(options?: StepOptions): void | Promise<void> } & O;
/**
 * The optimizer whose step averages gradients over all workers first: `await optimizer.step()`, outside of compiled functions.
 * Where XLA sums gradients, or there is one worker, it is the optimizer itself.
 */
export function prepareOptimizer<O extends Optimizer>(optimizer: O): PreparedOptimizer<O> {
  const loop = currentLoop('prepareOptimizer');
  loop.isAveraged = true;
  if (!loop.isApart) return optimizer;
  for (const { params } of optimizer.paramGroups) for (const p of params) shared.parameters.add(p);
  let last: Watched | undefined;
  let underWay = false;
  // Gradients of the next batch in the middle of a step would be taken for its own: with one worker nobody would notice.
  const checkAwaited = (what: string) => {
    if (underWay || last?.isAwaited === false)
      throw new ArgumentError(
        `prepareOptimizer: ${what} while nobody waits for the step before, whose gradients are being averaged: write await optimizer.step()`,
      );
  };
  const update = async (options?: StepOptions): Promise<void> => {
    underWay = true;
    try {
      const parameters = optimizer.paramGroups.flatMap((group) => [...group.params]);
      // A program has left gradients as they are. In a plain loop more than those may still have to be computed, such as the
      // loss, from parameters as they are now: a step would give their memory to the new ones.
      const isPlainLoop = parameters.some(({ grad }) => grad && grad.expr.op.name !== 'input');
      await average(loop, parameters);
      if (isPlainLoop) optimizer.step(options);
      else await runStep(() => optimizer.step(options), { name: 'update' });
    } finally {
      underWay = false;
    }
  };
  const step = (options?: StepOptions): Promise<void> => {
    checkOutside(loop, 'optimizer.step()');
    if (options?.skipIf)
      throw new ArgumentError(
        "prepareOptimizer: step({ skipIf }), as GradScaler calls it, would be each worker's own decision: " +
          'await averageGradients(model) before scaler.step(optimizer), with the optimizer as it is',
      );
    checkAwaited('step()');
    return (last = watched(update(options)));
  };
  const zeroGrad: O['zeroGrad'] = (options) => {
    checkAwaited('zeroGrad()');
    optimizer.zeroGrad(options);
  };
  return new Proxy(optimizer, {
    get(target, key) {
      if (key === 'step') return step;
      if (key === 'zeroGrad') return zeroGrad;
      const value = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value; // its private fields are the target's
    },
  }) as PreparedOptimizer<O>;
}

/** Spec 003's: the model is where it belongs, and toDevice brings batches there. The loop is the same on every device. */
export class SeamlessTPUTrainer<M extends Module> {
  readonly #ready: Promise<void>;
  constructor(
    readonly model: M,
    options: PrepareModelOptions = {},
  ) {
    const loop = currentLoop('SeamlessTPUTrainer');
    placeModel(loop, model, options);
    this.#ready = shareValues(loop, model);
    this.#ready.catch(() => {}); // thrown by toDevice
  }
  toDevice<T>(x: T): Promise<T>;
  toDevice<T extends readonly unknown[]>(...all: T): Promise<T>;
  async toDevice(...all: unknown[]): Promise<unknown> {
    await this.#ready;
    return toDevice(...all);
  }
}
