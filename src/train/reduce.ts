// Data parallelism over workers: prepareModel, prepareDataLoader, prepareOptimizer and averages. Where XLA joins the devices, the
// model is split over the mesh and its program sums gradients. On CPUs, where a program cannot wait for another process, gradients
// are averaged between backward and the update.
import { createHash } from 'node:crypto';
import { type DType, sizeOf } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { describe, shown } from '../base/tree.js';
import type { DataLoader } from '../data/index.js';
import type { Mesh } from '../ir/mesh.js';
import { Module } from '../nn/index.js';
import { shared } from '../nn/shared.js';
import type { Optimizer } from '../optim/index.js';
import type { StepOptions } from '../optim/optimizer.js';
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

/** The most numbers in one message; larger data is sent in several. */
const MESSAGE = 2 ** 24;
/** How many elements of a tensor are compared between workers. */
const SAMPLE = 64;

export interface PrepareModelOptions {
  /** The parameters to split along the model axis, as for `parallelize`. */
  readonly table?: ParallelTable;
}
/** Prepares a model for this worker: splits it over the mesh, if there is one, and gives it the same values in all workers. */
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
/** XLA assumes that replicated values and random states are equal in all workers. It does not notice if they differ. */
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
      `prepareModel: the model or the seed of worker ${odd} differs from that of worker 0: ` +
        'call tx.manualSeed with the same number in all workers before the model is created, and load the same files',
    );
}
/** The bytes of each worker, gathered by a sum in which each worker fills its own range. */
async function gather(loop: Loop, what: string, own: Uint8Array): Promise<Buffer[]> {
  const { rank, worldSize } = loop.context;
  const size = own.length;
  const places = new Float32Array(worldSize * size);
  places.set(own, rank * size);
  const found = Buffer.from(await loop.inTurn(() => loop.link.reduce('sum', places, what)));
  return Array.from({ length: worldSize }, (_, i) => found.subarray(i * size, (i + 1) * size));
}
const isExact = ({ dtype }: Tensor): boolean => FLOATS.includes(dtype);
/** A tensor that f32 cannot represent exactly (integers, booleans, f64), as one number for each byte. */
async function bytesOf(t: Tensor): Promise<Tensor> {
  const { buffer, byteOffset, byteLength } = await t.data();
  return tensor(Float32Array.from(new Uint8Array(buffer, byteOffset, byteLength)));
}
async function fromBytes(bytes: Tensor, { dtype, shape }: Tensor): Promise<Tensor> {
  return fromBuffer(Uint8Array.from((await bytes.data()) as Float32Array), { dtype, shape });
}

/** A loader of this worker's batches of `batchSize` items: it gets one of every worldSize items, in the loader's order. */
export function prepareDataLoader<T, R>(loader: DataLoader<T, R>): DataLoader<T, R> {
  const { shards, context } = currentLoop('prepareDataLoader');
  return shareLoader(loader, shards.index, shards.count, context.mesh);
}

/** Moves tensors to the model's devices. Batches are split over the mesh if their size is divisible. */
export function toDevice<T>(x: T): Promise<T>;
export function toDevice<T extends readonly unknown[]>(...all: T): Promise<T>;
export async function toDevice(...all: readonly unknown[]): Promise<unknown> {
  const { mesh } = currentLoop('toDevice').context;
  const placed = await Promise.all(
    all.map((x) => {
      if (!(x instanceof Tensor)) throw new ArgumentError(`toDevice: expected tensors, got ${describe(x)}`);
      return mesh ? placeRows(x, mesh) : x;
    }),
  );
  return all.length === 1 ? placed[0] : placed;
}
async function placeRows(t: Tensor, mesh: Mesh): Promise<Tensor> {
  const isPlaced = () => shardingOf(t)?.mesh === mesh; // batches of a prepared loader are
  if (isPlaced()) return t;
  if ((await processCount()) > 1) {
    await sync(t); // it may be computed from a tensor on the mesh
    return isPlaced() ? t : fromLocal(t, mesh);
  }
  const isShared = t.ndim > 0 && t.shape[0]! % mesh.sizeOf(batchAxes(mesh)) === 0;
  return isShared ? shardBatch(t, mesh) : t;
}

/**
 * Replaces every gradient by its mean over all workers. For loops that change gradients before the update, such as by clipping;
 * otherwise prepareOptimizer does it. Does nothing where XLA sums gradients or there is one worker.
 */
export function averageGradients(of: Module | Iterable<Tensor>): Promise<void> {
  const loop = currentLoop('averageGradients');
  loop.isAveraged = true;
  if (!loop.isApart) return Promise.resolve();
  checkOutside(loop, 'averageGradients()');
  if (averaging.get(loop)?.isAwaited === false)
    throw new ArgumentError(
      'averageGradients() was called again before the previous call was awaited: write await averageGradients(model)',
    );
  const means = watched(average(loop, of));
  averaging.set(loop, means);
  return means;
}
/** The last averageGradients() of each loop. */
const averaging = new WeakMap<Loop, Watched>();
/** Throws inside compiled functions, synchronously: a rejection might not be awaited. */
function checkOutside({ context: { worldSize } }: Loop, what: string): void {
  const step = currentStep();
  if (step)
    throw new ArgumentError(
      `${what} is inside ${step.name}, a compiled program, which cannot wait for the gradients of ${plural(worldSize - 1, 'other CPU worker')}: ` +
        `end ${step.name} after loss.backward(), and await ${what} after it`,
    );
}
async function average(loop: Loop, of: Module | Iterable<Tensor>): Promise<void> {
  const parameters = [...(of instanceof Module ? of.parameters() : of)].filter((p) => p.requiresGrad || p.grad);
  if (!parameters.some((p) => p.grad))
    throw new ArgumentError('averageGradients: no parameter has a gradient: call it after loss.backward()');
  // Other workers' losses may use a parameter that this worker's did not: its gradient here counts as 0, as in torch.
  const gradients = parameters.map((p) => p.grad?.detach() ?? zeros(p.shape, { dtype: p.dtype }));
  const isUsed = tensor(Float32Array.from(parameters, (p) => (p.grad ? 1 : 0)));
  const means = await loop.inTurn(() => exchange(loop, 'mean', 'averageGradients', [...gradients, isUsed]));
  const used = (await means.pop()!.data()) as Float32Array;
  parameters.forEach((p, i) => {
    if (used[i]) p.grad = means[i]!;
    shared.means.add(means[i]!);
  });
}

/** The dtypes that workers exchange: f32 represents all of them exactly. */
const FLOATS: readonly DType[] = ['f32', 'bf16', 'f16'];
/** Reduces tensors over all workers. */
async function exchange(
  { link }: Loop,
  op: 'mean' | 'sum',
  what: string,
  tensors: readonly Tensor[],
  change = (data: Float32Array) => data,
): Promise<Tensor[]> {
  const wrong = tensors.find((t) => !FLOATS.includes(t.dtype));
  if (wrong) throw new ArgumentError(`${what}: ${wrong.aval} cannot be reduced: use f32, bf16 or f16`);
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

/** Averages each metric over all workers; a loss becomes that of the whole batch. */
export async function averageMetrics<M extends Record<string, number>>(metrics: M): Promise<M> {
  const loop = currentLoop('averageMetrics');
  const { rank, worldSize } = loop.context;
  if (worldSize === 1) return metrics;
  const names = Object.keys(metrics).sort();
  const wrong = names.find((name) => typeof metrics[name] !== 'number');
  if (wrong) throw new ArgumentError(`averageMetrics: ${wrong} is ${shown(metrics[wrong])}: metrics must be numbers`);
  // As bytes of f64: f32 would round token counts. The hash of the names shows whether all workers gave the same metrics.
  const values = Buffer.from(Float64Array.from(names, (name) => metrics[name]!).buffer);
  const called = createHash('sha256').update(names.join()).digest().subarray(0, 8);
  const all = await gather(loop, 'averageMetrics', Buffer.concat([called, values]));
  const odd = all.findIndex((theirs) => !theirs.subarray(0, 8).equals(called));
  if (odd >= 0)
    throw new ArgumentError(
      `averageMetrics: worker ${rank} passed ${names.join(', ')}, and worker ${odd} other names: all workers must pass the same names`,
    );
  const mean = (i: number) => all.reduce((sum, theirs) => sum + theirs.readDoubleLE(8 * (i + 1)), 0) / worldSize;
  return Object.fromEntries(Object.keys(metrics).map((name) => [name, mean(names.indexOf(name))])) as M;
}

/** Whether `says` is true in any worker. The result is the same in all workers. */
export async function anyWorker(says: boolean): Promise<boolean> {
  const loop = currentLoop('anyWorker');
  if (loop.context.worldSize === 1) return says;
  const [count] = await loop.inTurn(() => loop.link.reduce('sum', Float32Array.of(Number(says)), 'anyWorker'));
  return count! > 0;
}

/** A promise that knows whether it was awaited. */
class Watched extends Promise<undefined> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise; // then() returns a plain promise
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

/** An optimizer whose step may wait for other workers. */
export type PreparedOptimizer<O> = { step(options?: StepOptions): PromiseLike<void> } & O;
/**
 * Returns an optimizer whose step first averages gradients over all workers: `await optimizer.step()`, outside of compiled
 * functions. Where XLA sums gradients, or there is one worker, returns the optimizer itself.
 */
export function prepareOptimizer<O extends Optimizer>(optimizer: O): PreparedOptimizer<O> {
  const loop = currentLoop('prepareOptimizer');
  loop.isAveraged = true;
  if (!loop.isApart) return optimizer;
  for (const { params } of optimizer.paramGroups) for (const p of params) shared.parameters.add(p);
  let last: Watched | undefined;
  let underWay = false;
  // Gradients of the next batch would be added while those of this step are averaged. With one worker this would go unnoticed.
  const checkAwaited = (what: string) => {
    if (underWay || last?.isAwaited === false)
      throw new ArgumentError(
        `prepareOptimizer: ${what} was called before the previous step was awaited: write await optimizer.step()`,
      );
  };
  const update = async (options?: StepOptions): Promise<void> => {
    underWay = true;
    try {
      const parameters = optimizer.paramGroups.flatMap((group) => [...group.params]);
      // After a compiled backward, gradients are already computed. In a plain loop other values, such as the loss, may still have
      // to be computed from the current parameters, whose memory a compiled update would donate to the new ones.
      const isPlainLoop = parameters.some(({ grad }) => grad && grad.expr.op.name !== 'input');
      await average(loop, parameters);
      if (isPlainLoop) await optimizer.step(options);
      else await runStep(() => optimizer.step(options), { name: 'update' });
    } finally {
      underWay = false;
    }
  };
  const step = (options?: StepOptions): Promise<void> => {
    checkOutside(loop, 'optimizer.step()');
    if (options?.skipIf)
      throw new ArgumentError(
        'prepareOptimizer: with step({ skipIf }), as GradScaler calls it, each worker would decide alone whether to skip: ' +
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
      return typeof value === 'function' ? value.bind(target) : value; // methods need the target's private fields
    },
  }) as PreparedOptimizer<O>;
}

/** Prepares a model and moves batches to its devices with toDevice, so that a loop is the same on every device. */
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
