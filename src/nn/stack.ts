// Stacks of equal layers: their parameters are stacked, and one loop in the program runs them. Compile time and the number
// of arrays that an optimizer updates do not grow with the number of layers.
import { ArgumentError } from '../base/errors.js';
import { insideModule } from '../ir/source.js';
import { checkpoint as checkpointed } from '../tensor/autograd.js';
import { scan } from '../tensor/control.js';
import { stack } from '../tensor/functions.js';
import { Tensor } from '../tensor/tensor.js';
import { refuseHooks } from './hooks.js';
import { Module } from './module.js';
import { LayerLoop } from './module-paths.js';

// Symbols, and no private names: a copy of a module (clone) has them, too.
const LAYER = Symbol('layer');

/** A layer whose result has the dtype and shape of its first argument. */
export interface Block<A extends readonly unknown[] = readonly never[]> extends Module {
  forward(x: Tensor, ...others: A): Tensor;
}

export interface ScanLayersOptions {
  /** Whether to keep only each layer's input for the gradient and recompute the rest. Default: false. */
  readonly checkpoint?: boolean;
  /** The number of layers per iteration of the loop. Default: 1. */
  readonly unroll?: number;
}

/**
 * Runs layers one after the other as one loop over their stacked parameters; the arguments after x are the same for each
 * layer. A LayerStack keeps the parameters stacked and avoids the copy.
 */
export function scanLayers<A extends readonly unknown[]>(
  layers: LayerStack<Block<A>> | Iterable<Block<A>>,
  x: Tensor,
  options: ScanLayersOptions = {},
  ...others: A
): Tensor {
  if (layers instanceof LayerStack) return layers.scan(x, (x, layer) => layer.forward(x, ...others), options);
  const list = [...layers];
  refuseHooks('scanLayers', list);
  const tensors = tensorsOf(list);
  return scanRows(tensors[0]!, stackRows(tensors), x, (x) => list[0]!.forward(x, ...others), options, list);
}

/** Equal layers, named 0, 1, 2 and so on in state dicts, and * as parameters: each is stacked for all layers. */
export class LayerStack<M extends Block<never>> extends Module {
  readonly [LAYER]: M;
  readonly length: number;
  /** The default of forward. */
  options: ScanLayersOptions;

  /** Consumes the layers: their parameters become the stack's. */
  constructor(layers: Iterable<M>, options: ScanLayersOptions = {}) {
    super();
    const list = [...layers];
    refuseHooks('LayerStack', list);
    const tensors = tensorsOf(list);
    const rows = stackRows(tensors);
    this[LAYER] = list[0]!;
    this.length = list.length;
    this.options = options;
    tensors[0]!.forEach((t, i) => void t.become(rows[i]!.expr));
    for (const t of tensors.slice(1).flat()) t.dispose(); // otherwise the next program would compute them, too
  }

  /** The one that stands for all: its parameters are stacked. */
  get layer(): M {
    return this[LAYER];
  }

  override forward(x: Tensor, ...others: M extends Block<infer A> ? A : never): Tensor {
    return this.scan(x, (x, layer) => layer.forward(x, ...(others as never)));
  }
  /** The loop itself, for what is carried from layer to layer beside x. In each pass `layer` has the parameters of the next. */
  scan<C>(init: C, step: (carry: C, layer: M) => C, options: ScanLayersOptions = {}): C {
    const [own] = tensorsOf([this[LAYER]], false);
    return scanRows(own!, own!, init, (carry) => step(carry, this[LAYER]), { ...this.options, ...options });
  }

  override *members(): ReturnType<Module['members']> {
    yield ['*', this[LAYER]];
  }
  override *stateEntries(prefix = ''): ReturnType<Module['stateEntries']> {
    yield* stackedEntries(this[LAYER], this.length, prefix);
  }
  override extraRepr(): string {
    return `${this.length} layers${this.options.checkpoint ? ', checkpoint' : ''}`;
  }
}

/** The state of equal modules of which one holds all: its tensors have a dimension more, and names for each. */
export function* stackedEntries(one: Module, length: number, prefix: string): ReturnType<Module['stateEntries']> {
  for (const { tensor, names, stacked } of one.stateEntries())
    yield {
      tensor,
      names: Array.from({ length }, (_, i) => names.map((name) => `${prefix}${i}.${name}`)).flat(),
      stacked: stacked + 1,
    };
}
/** A path with numbers in place of each *, for the given counts: all of them, the last * counting fastest. */
export const numbered = (path: string, counts: readonly number[]): string[] =>
  counts.reduce(
    (paths, n) => paths.flatMap((path) => Array.from({ length: n }, (_, i) => path.replace('*', String(i)))),
    [path],
  );

/** The loop: each row of the stacked tensors in place of the layer's own. */
function scanRows<C>(
  own: readonly Tensor[],
  stacked: readonly Tensor[],
  init: C,
  step: (carry: C) => C,
  { checkpoint = false, unroll = 1 }: ScanLayersOptions,
  layers: readonly Module[] = [],
): C {
  const pass = (carry: C, rows: readonly Tensor[]): C => Tensor.lend(own, rows, () => step(carry));
  const run = () =>
    scan(
      (carry: C, rows: readonly Tensor[]) => [checkpoint ? checkpointed(pass, carry, rows) : pass(carry, rows), []],
      init,
      stacked,
      { unroll },
    );
  return insideModule(new LayerLoop(layers), run)[0];
}

const stackRows = (tensors: readonly (readonly Tensor[])[]): Tensor[] =>
  tensors[0]!.map((_, i) => stack(tensors.map((own) => own[i]!)));

/** The parameters and buffers of each layer, in the same order; an error if the layers differ. */
function tensorsOf(layers: readonly Module[], compare = true): Tensor[][] {
  const [first] = layers;
  if (!first) throw new ArgumentError('scanLayers: the list of layers is empty');
  const all = layers.map((layer) => [...layer.namedParameters(), ...layer.namedBuffers()]);
  if (!all[0]!.length) throw new ArgumentError('scanLayers: the layers have no parameters: write an ordinary loop');
  const form = (i: number) =>
    [
      layers[i]!.toString(),
      ...all[i]!.map(([name, t]) => `${name}: ${t.aval}${t.requiresGrad ? '' : ', frozen'}`),
    ].join('\n');
  for (let i = 1; compare && i < layers.length; i++) {
    const [a, b] = [form(0).split('\n'), form(i).split('\n')];
    const k = a.findIndex((line, j) => line !== b[j]);
    if (k >= 0 || a.length !== b.length)
      throw new ArgumentError(
        `scanLayers: layer ${i} differs from layer 0: it has ${b[k]?.trim()}, layer 0 has ${a[k]?.trim()}: run them one by one`,
      );
  }
  return all.map((tensors) => tensors.map(([, t]) => t));
}
