// The table of changes that TPUOptimizer makes to a model: each row is one change, made in place and fully reversible. Names in
// state dicts and the model's class stay the same.
import { gradEnabled } from '../autograd/mode.js';
import { byteLength } from '../base/dtype.js';
import { bytes, plural } from '../base/format.js';
import { isPlain } from '../base/tree.js';
import { DecoderLayer } from '../models/blocks.js';
import { DecoderModel } from '../models/decoder.js';
import { MultiheadAttention } from '../nn/attention.js';
import { type Layer, ModuleDict, ModuleList, Sequential } from '../nn/containers.js';
import { Linear } from '../nn/linear.js';
import { isMember, type Module } from '../nn/module.js';
import { LayerStack, scanLayers } from '../nn/stack.js';
import {
  TransformerDecoder,
  TransformerDecoderLayer,
  TransformerEncoder,
  TransformerEncoderLayer,
} from '../nn/transformer.js';
import { meshOf } from '../spmd/config.js';
import { dataParallel, fsdp } from '../spmd/parallel.js';
import { shard, unmark } from '../spmd/sharding.js';
import { autocast, autocastDType } from '../tensor/autocast.js';
import { checkpoint } from '../tensor/autograd.js';
import { dependOn } from '../tensor/scope.js';
import { Tensor } from '../tensor/tensor.js';
import { dtypeOf, type TPUConfig } from './config.js';
import { type Forward, tensorsIn, wrapForward } from './forward.js';

/** Each level includes the changes of those before it. */
export const OPTIMIZATION_LEVELS = ['conservative', 'balanced', 'aggressive'] as const;
export type OptimizationLevel = (typeof OPTIMIZATION_LEVELS)[number];
export const PURPOSES = ['inference', 'training'] as const;
export type Purpose = (typeof PURPOSES)[number];

/** The conditions that decide whether a change is made. */
export interface Context {
  readonly purpose: Purpose;
  readonly config: TPUConfig;
  /** The number of devices; undefined if not known yet. */
  readonly devices?: number | undefined;
  /** The memory of one device, in bytes. */
  readonly capacity?: number;
}
export interface Applied {
  /** What was changed, as a sentence. */
  readonly what: string;
  undo(): void;
  /** Makes the change permanent: frees what was kept for an exact undo. */
  readonly settle?: () => void;
}
/** Why a change would have no effect on this model. */
export interface None {
  readonly none: string;
}

export interface Change {
  readonly name: string;
  readonly level: OptimizationLevel;
  /** The largest relative error of outputs that is allowed: the norm of the difference divided by the norm. */
  readonly tolerance: number;
  /** Why it has no effect on any model, if so. */
  readonly unless: (context: Context) => string | undefined;
  readonly apply: (model: Module, context: Context) => Applied | None;
}

/** The tolerance for rounding to the 8 bits of bf16. */
const ROUNDED = 0.05;
/** The tolerance for the same sums in another order. */
const SAME = 1e-3;

/** All changes, in the order in which they are made. docs/optimizer.md shows this table. */
export const CHANGES: readonly Change[] = [
  { name: 'bf16 linears', level: 'conservative', tolerance: ROUNDED, unless: noBf16, apply: bf16Linears },
  { name: 'checkpointing', level: 'balanced', tolerance: SAME, unless: noCheckpoints, apply: checkpointing },
  { name: 'fused attention', level: 'balanced', tolerance: SAME, unless: () => undefined, apply: fusedAttention },
  { name: 'everything in bf16', level: 'aggressive', tolerance: ROUNDED, unless: noBf16, apply: everythingInBf16 },
  { name: 'scanned layers', level: 'aggressive', tolerance: SAME, unless: () => undefined, apply: scannedLayers },
  { name: 'sharding', level: 'aggressive', tolerance: SAME, unless: noDevices, apply: sharding },
];

function noBf16({ config, purpose }: Context): string | undefined {
  if (dtypeOf(config) === 'f32') return 'precision is float32';
  if (purpose === 'training' && !config.mixedPrecision)
    return 'mixedPrecision is false: it is needed to keep trained weights in f32';
  return undefined;
}
function noCheckpoints({ config, purpose }: Context): string | undefined {
  if (purpose === 'inference') return 'inference keeps no activations for gradients';
  return config.gradientCheckpointing ? undefined : 'gradientCheckpointing is false';
}
function noDevices({ devices }: Context): string | undefined {
  if (devices === undefined) return 'the number of devices is not known before optimize() has started them';
  return devices > 1 ? undefined : 'there is one device';
}

// ---- reversible changes

/** Collects undo functions, run in reverse order; a change that fails half-way is undone at once. */
function reversibly(make: (undo: (() => void)[]) => Omit<Applied, 'undo'> | None): Applied | None {
  const steps: (() => void)[] = [];
  const undo = () => {
    for (const step of steps.splice(0).reverse()) step();
  };
  try {
    const made = make(steps);
    return 'none' in made ? made : { ...made, undo };
  } catch (e) {
    undo();
    throw e;
  }
}

/** Wraps a module's forward. A function compiled with the wrapper is traced again once the wrapper is removed. */
function around(module: Module, wrap: (forward: Forward) => Forward): () => void {
  const here = { on: true };
  const undo = wrapForward(module, (forward) => {
    const wrapped = wrap(forward);
    return (...args) => {
      dependOn(here, () => here.on);
      return wrapped(...args);
    };
  });
  return () => {
    here.on = false;
    undo();
  };
}

function mapTensors<T>(tree: T, fn: (t: Tensor) => Tensor): T {
  const { tensors, replaced } = tensorsIn(tree);
  return replaced(tensors.map(fn));
}
const castFloats = (dtype: 'bf16' | 'f32') => (t: Tensor) =>
  t.dtype === (dtype === 'bf16' ? 'f32' : 'bf16') ? t.to(dtype) : t;

/** The bytes of a model's parameters and buffers. */
export const weightsOf = (model: Module): number =>
  [...model.parameters(), ...model.buffers()].reduce((n, t) => n + byteLength(t.aval), 0);

/** The relative error that rounding alone causes in a model's outputs. */
export const roundingOf = (model: Module): number =>
  model.parameters().some((p) => p.dtype === 'bf16' || p.dtype === 'f16') ? ROUNDED : 0;

/** Converts tensors to bf16. Undo restores the exact values until it is settled; after that, the rounded ones. */
function narrow(tensors: readonly Tensor[], undo: (() => void)[]): () => void {
  const before = new Map(tensors.map((t) => [t, t.detach()]));
  for (const t of tensors) t.become(t.detach().to('bf16').expr);
  undo.push(() => {
    for (const t of tensors) t.become((before.get(t) ?? t.detach().to('f32')).expr);
  });
  return () => before.clear();
}

// ---- bf16

/** nn.Linear and its subclasses. Layers of tsxla/quant and adapters of tsxla/lora choose their own precision. */
function bf16Linears(model: Module, { purpose }: Context): Applied | None {
  const linears = model.modules().filter((m) => m instanceof Linear && m.weight.dtype === 'f32');
  if (!linears.length) return { none: 'it has no Linear layers in f32' };
  return reversibly((undo) => {
    for (const linear of linears)
      undo.push(
        around(linear, (forward) => (x, ...rest) => {
          if (autocastDType() || !(x instanceof Tensor)) return forward(x, ...rest); // an enclosing autocast decides
          const y = autocast({ dtype: 'bf16' }, () => forward(x, ...rest));
          return y instanceof Tensor ? y.to(x.dtype) : y;
        }),
      );
    const what = `${plural(linears.length, 'Linear layer')} multipl${linears.length === 1 ? 'ies' : 'y'} in bf16`;
    if (purpose === 'training') return { what: `${what}, from weights in f32` };
    // A weight shared with another layer (tied embeddings) would make that layer's results bf16.
    const elsewhere = new Set(model.modules().flatMap((m) => (linears.includes(m) ? [] : [...ownTensors(m)])));
    const own = [...new Set(linears.flatMap(ownTensors))].filter((t) => t.dtype === 'f32' && !elsewhere.has(t));
    const was = weightsOf(model);
    const settle = narrow(own, undo);
    return { what: `${what}: ${bytes(was)} of weights are ${bytes(weightsOf(model))}`, settle };
  });
}
const ownTensors = (module: Module): Tensor[] =>
  [...module.members()].map(([, m]) => m).filter((m): m is Tensor & typeof m => m instanceof Tensor);

function everythingInBf16(model: Module, { purpose }: Context): Applied | None {
  const tensors = [...model.parameters(), ...model.buffers()];
  const floats = tensors.filter((t) => t.dtype === 'f32');
  if (!floats.length && !tensors.some((t) => t.dtype === 'bf16')) return { none: 'it has no weights in f32' };
  /** Results are f32 as before. Those of a submodule that is bf16 already and gets bf16 inputs stay bf16. */
  const asBefore = (args: unknown[], results: unknown): unknown => {
    const given = tensorsIn(args).tensors.map((t) => t.dtype);
    const isWide = given.includes('f32') || (floats.length > 0 && !given.includes('bf16'));
    return isWide ? mapTensors(results, castFloats('f32')) : results;
  };
  return reversibly((undo) => {
    if (purpose === 'training') {
      const inBf16 =
        (forward: Forward): Forward =>
        (...args) =>
          asBefore(
            args,
            autocast({ dtype: 'bf16' }, () => forward(...args)),
          );
      undo.push(around(model, inBf16));
      return {
        what: `all products are bf16, norms and sums f32, from weights in ${floats.length ? 'f32' : 'bf16, as before'}`,
      };
    }
    const was = weightsOf(model);
    const settle = narrow(floats, undo);
    undo.push(
      around(
        model,
        (forward) =>
          (...args) =>
            asBefore(args, forward(...mapTensors(args, castFloats('bf16')))),
      ),
    );
    if (!floats.length) return { what: 'inputs are bf16, as its weights are' };
    return { what: `weights, inputs and activations are bf16: ${bytes(was)} are ${bytes(weightsOf(model))}`, settle };
  });
}

// ---- checkpointing

/** Blocks of a model: elements of the outermost lists that contain layers themselves. */
function* blocksOf(owner: Module, seen = new Set<Module>()): Generator<Module> {
  if (seen.has(owner)) return;
  seen.add(owner);
  for (const [name, child] of owner.namedChildren()) {
    const isBlock = /(^|\.)\d+$/.test(name) && child.children().length > 0 && !isList(child);
    if (child instanceof LayerStack || isBlock) yield child;
    else yield* blocksOf(child, seen);
  }
}
/** Lists have no forward. */
const isList = (m: Module): boolean =>
  (m instanceof ModuleList && !(m instanceof Sequential)) || m instanceof ModuleDict;
/** A layer that updates running statistics cannot be recomputed or run in a loop during training. */
const hasStatistics = (m: Module): boolean =>
  m.modules().some((x) => (x as { readonly runningMean?: unknown }).runningMean instanceof Tensor);

function checkpointing(model: Module): Applied | None {
  const all = new Set(blocksOf(model));
  const already = new Set(
    model.modules().flatMap((m) => (m instanceof DecoderModel && m.checkpoint ? m.layers.children() : [])),
  );
  const isDone = (m: Module) =>
    already.has(m) || (m instanceof DecoderLayer && m.light) || (m instanceof LayerStack && !!m.options.checkpoint);
  const open = [...all].filter((m) => !isDone(m));
  const blocks = open.filter((m) => !hasStatistics(m));
  const count = blocks.reduce((n, m) => n + (m instanceof LayerStack ? m.length : 1), 0);
  if (all.size && !open.length) return { none: 'its blocks are checkpointed already' };
  if (open.length && !blocks.length)
    return { none: 'its blocks have running statistics, which must be updated only once a step' };
  if (count < 2)
    return { none: 'it has no list of blocks: checkpointing the whole model or a single layer saves nothing' };
  return reversibly((undo) => {
    for (const block of blocks) {
      if (block instanceof LayerStack) {
        const { options } = block;
        block.options = { ...options, checkpoint: true };
        undo.push(() => void (block.options = options));
      } else undo.push(around(block, recomputed));
    }
    return { what: `${plural(count, 'block')} keep only their inputs, and are recomputed for the gradient` };
  });
}

/** A checkpointed forward: only its arguments are kept for the gradient. No effect without gradients. */
const recomputed =
  (forward: Forward): Forward =>
  (...args) => {
    if (!gradEnabled()) return forward(...args);
    const { tensors, replaced } = tensorsIn(args);
    return checkpoint((...inside: Tensor[]) => forward(...replaced(inside)), ...tensors);
  };

// ---- attention

function fusedAttention(model: Module): Applied | None {
  // Transformer layers already ask for no attention weights.
  const fused = new Set(
    model
      .modules()
      .filter((m) => m instanceof TransformerEncoderLayer || m instanceof TransformerDecoderLayer)
      .flatMap((m) => m.children()),
  );
  const attentions = model.modules().filter((m) => m instanceof MultiheadAttention);
  const open = attentions.filter((m) => !fused.has(m));
  if (!attentions.length) return { none: 'it has no MultiheadAttention' };
  if (!open.length) return { none: 'its attention is fused already' };
  return reversibly((undo) => {
    for (const attention of open)
      undo.push(
        around(
          attention,
          (forward) =>
            (q, k, v, options = {}) =>
              forward(q, k, v, { needWeights: false, ...(options as object) }),
        ),
      );
    return { what: `${plural(open.length, 'MultiheadAttention layer')} without unused attention weights` };
  });
}

// ---- one loop for equal layers

/** The least number of equal layers that is worth a loop. */
const LEAST = 3;

function scannedLayers(model: Module, { purpose }: Context): Applied | None {
  const lists = model.modules().flatMap((owner) => {
    const list = listOf(owner);
    return list ? [{ owner, list, runs: equalRuns([...list]) }] : [];
  });
  const long = lists.flatMap(({ runs }) => runs.filter(isLong));
  const learns = (run: EqualLayers) => purpose === 'training' && hasStatistics(run[0]!);
  const loops = long.filter((run) => !learns(run));
  if (!loops.length) {
    if (long.length) return { none: 'its equal layers have running statistics, which a loop cannot change' };
    if (model.modules().some((m) => m instanceof LayerStack)) return { none: 'its layers run as a loop already' };
    return { none: `it has no ${LEAST} equal layers in a row` };
  }
  return reversibly((undo) => {
    for (const layer of new Set(loops.flat())) undo.push(around(layer, keepsDType));
    for (const { owner, list, runs } of lists)
      if (runs.some((run) => loops.includes(run))) undo.push(around(owner, inLoops(list)));
    return { what: `${loops.flat().length} equal layers run as ${plural(loops.length, 'loop')}` };
  });
}
type EqualLayers = readonly Layer[];
const isLong = (run: EqualLayers): boolean => run.length >= LEAST;

/** The list of layers that a module applies in sequence. */
function listOf(owner: Module): Iterable<Layer> | undefined {
  if (owner instanceof Sequential) return owner;
  const has = owner instanceof TransformerEncoder || owner instanceof TransformerDecoder;
  const isDecoder =
    owner instanceof DecoderModel &&
    owner.layers instanceof ModuleList &&
    !owner.checkpoint &&
    owner.kinds.length === 1; // all layers see the same
  if (has || isDecoder) return owner.layers as Iterable<unknown> as Iterable<Layer>;
  return undefined;
}

/** Keeps the dtype of the loop's carry, though products are bf16. */
const keepsDType =
  (forward: Forward): Forward =>
  (x, ...rest) => {
    const y = forward(x, ...rest);
    return y instanceof Tensor && x instanceof Tensor ? y.to(x.dtype) : y;
  };

/** A module's own forward, with loops in place of equal layers in its list at the time of the call. */
function inLoops(list: Iterable<Layer>): (forward: Forward) => Forward {
  const steps = () =>
    equalRuns([...list]).flatMap((run): readonly Pick<Layer, 'forward'>[] => {
      const isLoop = isLong(run) && !(hasStatistics(run[0]!) && run[0]!.training);
      return isLoop ? [{ forward: (x: Tensor, ...rest: never[]) => scanLayers<never[]>(run, x, {}, ...rest) }] : run;
    });
  return (forward) =>
    (...args) => {
      const grows = args.some((x) => (x as { cache?: unknown } | undefined)?.cache); // a decoder counts its layers, then
      if (grows) return forward(...args);
      const found = steps();
      Object.defineProperty(list, Symbol.iterator, { value: () => found.values(), configurable: true });
      try {
        return forward(...args);
      } finally {
        delete (list as { [Symbol.iterator]?: unknown })[Symbol.iterator];
      }
    };
}

/** Runs of neighbouring layers that differ only in their values. */
function equalRuns(layers: readonly Layer[]): Layer[][] {
  const runs: Layer[][] = [];
  let last: string | undefined;
  for (const layer of layers) {
    const form = formOf(layer);
    if (form !== undefined && form === last) runs.at(-1)!.push(layer);
    else runs.push([layer]);
    last = form;
  }
  return runs;
}
/** The structure of a layer; undefined for one without parameters, which a loop has nothing to iterate over. */
function formOf(layer: Layer): string | undefined {
  const tensors = [...layer.namedParameters(), ...layer.namedBuffers()];
  if (!tensors.length || layer instanceof LayerStack) return undefined;
  const shapes = tensors.map(([name, t]) => `${name} ${t.aval} ${t.requiresGrad}`);
  const settings = layer.modules().map((m) => `${m.training} ${settingsOf(Object.entries(m))}`);
  return [layer.constructor.name, layer.toString(), ...shapes, ...settings].join('\n');
}
/** The settings of a module (fields that are not members): numbers and strings by value, lists and objects by content, others by identity. */
const settingsOf = (fields: readonly (readonly [string, unknown])[]): string =>
  fields.map(([name, x]) => (isMember(x) ? '' : `${name}: ${settingOf(x)}`)).join();
function settingOf(x: unknown): string {
  if (Array.isArray(x)) return `[${settingsOf(Object.entries(x))}]`;
  if (isPlain(x)) return `{${settingsOf(Object.entries(x))}}`;
  if (typeof x === 'function' || (typeof x === 'object' && x)) return `#${numberOf(x)}`;
  return typeof x === 'string' ? JSON.stringify(x) : String(x);
}
const numbers = new WeakMap<object, number>();
let numbered = 0;
function numberOf(x: object): number {
  const number = numbers.get(x) ?? ++numbered;
  numbers.set(x, number);
  return number;
}

// ---- many devices

function sharding(model: Module, { devices, capacity = Number.POSITIVE_INFINITY }: Context): Applied | None {
  const isLarge = weightsOf(model) > capacity / 2;
  const mesh = meshOf(isLarge ? { fsdp: -1 } : { data: -1 }, devices!, 'sharding');
  const axis = mesh.axisNames[0]!;
  return reversibly((undo) => {
    undo.push(() => {
      for (const t of [...model.parameters(), ...model.buffers()]) unmark(t);
    });
    (isLarge ? fsdp : dataParallel)(model, mesh);
    undo.push(
      around(model, (forward) => (...args) => {
        const { tensors, replaced } = tensorsIn(args);
        const divide = tensors.every((t) => t.ndim && t.shape[0]! % mesh.size === 0);
        return forward(...(divide ? replaced(tensors.map((t) => shard(t, mesh, [axis]))) : args));
      }),
    );
    const weights = isLarge ? 'each has a part of the weights' : 'each has all weights';
    return { what: `${devices} devices share the batch if they divide it; ${weights}` };
  });
}
