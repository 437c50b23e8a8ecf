// Equal layers as one: their parameters are stacked, and one loop in the program goes through them. Compile time does not
// grow with the number of layers, and neither does the number of arrays that an optimizer updates.
import { ArgumentError } from '../base/errors.js';
import { insideModule } from '../ir/source.js';
import { checkpoint as checkpointed } from '../tensor/autograd.js';
import { scan } from '../tensor/control.js';
import { stack } from '../tensor/functions.js';
import { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';
import { LayerLoop } from './module-paths.js';

/** A layer that passes on what it is given, changed: its result has its argument's dtype and shape. */
export interface Block<A extends readonly unknown[] = readonly never[]> extends Module {
  forward(x: Tensor, ...others: A): Tensor;
}

export interface ScanLayersOptions {
  /** Keep only each layer's input for the gradient, and compute the rest of it again. */
  readonly checkpoint?: boolean;
  /** How many layers one pass of the loop goes through. */
  readonly unroll?: number;
}

/**
 * Layers, one after the other: x goes through all, the other arguments are the same for each. As one loop over their
 * parameters, stacked. To keep them stacked from step to step, use a LayerStack: it copies nothing.
 */
export function scanLayers<A extends readonly unknown[]>(
  layers: LayerStack<Block<A>> | Iterable<Block<A>>,
  x: Tensor,
  options: ScanLayersOptions = {},
  ...others: A
): Tensor {
  if (layers instanceof LayerStack) return layers.scan(x, (x, layer) => layer.forward(x, ...others), options);
  const list = [...layers];
  const tensors = tensorsOf(list);
  return scanRows(tensors[0]!, stackRows(tensors), x, (x) => list[0]!.forward(x, ...others), options, list);
}

/** Equal layers, called 0, 1, 2 and so on in state dicts, and * as parameters: each holds those of all layers. */
export class LayerStack<M extends Block<never>> extends Module {
  readonly #layer: M;
  readonly length: number;
  /** What forward does unless told. */
  options: ScanLayersOptions;

  /** The layers are used up: their parameters become the stack's. */
  constructor(layers: Iterable<M>, options: ScanLayersOptions = {}) {
    super();
    const list = [...layers];
    const tensors = tensorsOf(list);
    const rows = stackRows(tensors);
    this.#layer = list[0]!;
    this.length = list.length;
    this.options = options;
    tensors[0]!.forEach((t, i) => void t.become(rows[i]!.expr));
    for (const t of tensors.slice(1).flat()) t.dispose(); // or they would be computed, too, with whatever is computed next
  }

  /** The one that stands for all: its parameters are stacked. */
  get layer(): M {
    return this.#layer;
  }

  override forward(x: Tensor, ...others: M extends Block<infer A> ? A : never): Tensor {
    return this.scan(x, (x, layer) => layer.forward(x, ...(others as never)));
  }
  /** The loop itself, for what is carried from layer to layer beside x. In each pass `layer` has the parameters of the next. */
  scan<C>(init: C, step: (carry: C, layer: M) => C, options: ScanLayersOptions = {}): C {
    const [own] = tensorsOf([this.#layer], false);
    return scanRows(own!, own!, init, (carry) => step(carry, this.#layer), { ...this.options, ...options });
  }

  override *members(): ReturnType<Module['members']> {
    yield ['*', this.#layer];
  }
  override *stateEntries(prefix = ''): ReturnType<Module['stateEntries']> {
    for (const { tensor, names } of this.#layer.stateEntries()) {
      if (names.length > 1)
        throw new ArgumentError('LayerStack: its layers hold a LayerStack: nest them the other way');
      yield {
        tensor,
        names: Array.from({ length: this.length }, (_, i) => `${prefix}${i}.${names[0]}`),
        stacked: true,
      };
    }
  }
  override extraRepr(): string {
    return `${this.length} layers${this.options.checkpoint ? ', checkpoint' : ''}`;
  }
}

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
  if (!first) throw new ArgumentError('scanLayers: there are no layers');
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
        `scanLayers: layer ${i} differs from layer 0: ${b[k]?.trim()} where that has ${a[k]?.trim()}: run them one by one`,
      );
  }
  return all.map((tensors) => tensors.map(([, t]) => t));
}
