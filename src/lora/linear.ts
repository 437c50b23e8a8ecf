// A low-rank adapter on a layer (LoRA, arXiv:2106.09685): y = layer(x) + alpha/rank * (dropout(x) A^T) B^T.
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { normal_ } from '../nn/init.js';
import { Module, Parameter } from '../nn/module.js';
import { checkCount } from '../nn/options.js';
import type { Projection } from '../nn/projection.js';
import { gathered } from '../spmd/gathered.js';
import { noGrad } from '../tensor/autograd.js';
import { empty, zeros } from '../tensor/create.js';
import { linear } from '../tensor/functions.js';
import { dropout } from '../tensor/random.js';
import { dependOn } from '../tensor/scope.js';
import type { StateEntry } from '../tensor/state.js';
import type { Tensor } from '../tensor/tensor.js';

/** A layer that adapters can be put on: Linear, or a quantized one. */
export interface Adaptable extends Projection {
  readonly weight?: Tensor;
  /** The matrix it multiplies with, where that is not its weight. */
  effectiveWeight?(): Tensor;
  /** Takes another such matrix, as a quantized layer does: by quantizing again. */
  requantize_?(weight: Tensor): void;
  /** That matrix, where it is kept; materialize() computes it again. */
  readonly effective?: Tensor | null;
  materialize?(): unknown;
}
export const isAdaptable = (m: Module): m is Adaptable =>
  'inFeatures' in m && 'outFeatures' in m && !(m instanceof LoraLinear);

export interface AdapterOptions {
  /** The size between the two matrices. */
  readonly rank?: number;
  /** What the adapter adds is multiplied with alpha / rank; the rank unless told. */
  readonly alpha?: number;
  /** The chance of an element of x not to reach the adapter while training. */
  readonly dropout?: number;
  /** Of the adapter's matrices; products are computed in x's. */
  readonly dtype?: DType;
  /** Of the first matrix's initial values; the second begins with zeros. */
  readonly initStd?: number;
}

export class LoraLinear extends Module implements Projection {
  readonly baseLayer: Adaptable;
  /** [rank, inFeatures]; in a LayerStack one for each layer. */
  readonly loraA: Parameter;
  /** [outFeatures, rank] */
  readonly loraB: Parameter;
  readonly rank: number;
  readonly alpha: number;
  readonly dropout: number;
  readonly #state = { enabled: true, merged: false };
  /** What the layer's tensors held before it was merged. */
  #before: ReadonlyMap<Tensor, Tensor> = new Map();

  /** `layers`: how many the parameters of the layer stand for, in a LayerStack. */
  constructor(base: Adaptable, options: AdapterOptions = {}, layers?: number) {
    super();
    const { rank = 8, alpha = rank, dropout = 0, dtype = 'f32', initStd = 0.02 } = options;
    checkCount('LoRA: rank', rank);
    if (!(Number.isFinite(alpha) && alpha > 0)) throw new ArgumentError(`LoRA: alpha is ${alpha}: it must be above 0`);
    if (!(dropout >= 0 && dropout < 1))
      throw new ArgumentError(`LoRA: dropout is ${dropout}: it must be at least 0 and below 1`);
    const lead = layers === undefined ? [] : [layers];
    this.baseLayer = base;
    this.loraA = normal_(new Parameter(empty([...lead, rank, base.inFeatures], { dtype })), 0, initStd);
    this.loraB = new Parameter(zeros([...lead, base.outFeatures, rank], { dtype }));
    this.rank = rank;
    this.alpha = alpha;
    this.dropout = dropout;
  }
  get inFeatures(): number {
    return this.baseLayer.inFeatures;
  }
  get outFeatures(): number {
    return this.baseLayer.outFeatures;
  }
  get bias(): unknown {
    return 'bias' in this.baseLayer ? this.baseLayer.bias : null;
  }
  get scaling(): number {
    return this.alpha / this.rank;
  }
  get merged(): boolean {
    return this.#state.merged;
  }
  /** Whether it adds anything now: not while it is merged or switched off. A compiled function notices. */
  get active(): boolean {
    return dependOn(this.#state, () => this.#state.enabled && !this.#state.merged);
  }

  /** In x's dtype, where it takes x as it is: dropout differs from adapter to adapter. */
  firstOf(x: Tensor): Tensor | null {
    return this.active && !(this.training && this.dropout) ? gathered(this.loraA).to(x.dtype) : null;
  }
  override forward(x: Tensor, first?: Tensor): Tensor {
    const y = this.baseLayer.forward(x);
    if (!this.active) return y;
    const dropped = dropout(x, { p: this.dropout, training: this.training });
    const narrow = first ?? linear(dropped, gathered(this.loraA).to(x.dtype)); // [..., rank]
    return y.add(linear(narrow, gathered(this.loraB).mul(this.scaling).to(x.dtype)).to(y.dtype));
  }

  /** What it adds to the layer's matrix: [outFeatures, inFeatures]. */
  change(): Tensor {
    return this.loraB.matmul(this.loraA).mul(this.scaling);
  }
  /** The matrix that x is multiplied with, the adapter included. */
  get weight(): Tensor {
    const { baseLayer } = this;
    const own = matrixOf(baseLayer);
    return this.active ? sum(own, this.change()) : own;
  }

  /** Puts the adapter into the layer's matrix. What was there is kept, so that unmerge gives it back bit for bit. */
  merge(): void {
    if (this.merged) throw new ArgumentError('LoRA: this adapter is merged already: unmerge it first');
    const { baseLayer } = this;
    const before = new Map([...baseLayer.parameters(), ...baseLayer.buffers()].map((t) => [t as Tensor, t.detach()]));
    noGrad(() => {
      const merged = sum(matrixOf(baseLayer), this.change()).detach();
      if (baseLayer.requantize_) baseLayer.requantize_(merged);
      else matrixOf(baseLayer).become(merged.expr);
      if (baseLayer.effective) baseLayer.materialize?.();
    });
    this.#before = before;
    this.#state.merged = true;
  }
  unmerge(): void {
    if (!this.merged) throw new ArgumentError('LoRA: this adapter is not merged: there is nothing to take out');
    for (const [t, was] of this.#before) t.become(was.expr);
    if (this.baseLayer.effective) this.baseLayer.materialize?.();
    this.#before = new Map();
    this.#state.merged = false;
  }

  /** fn, without what the adapter adds. */
  without<T>(fn: () => T): T {
    void this.active; // noted before it changes
    const { enabled } = this.#state;
    this.#state.enabled = false;
    try {
      return fn();
    } finally {
      this.#state.enabled = enabled;
    }
  }

  override *members(): ReturnType<Module['members']> {
    yield ['base_layer', this.baseLayer];
    yield ['lora_A', this.loraA];
    yield ['lora_B', this.loraB];
  }
  /** The layer's tensors keep their names: files of the model without adapters load as before. */
  override *stateEntries(prefix = ''): Generator<StateEntry> {
    yield* this.baseLayer.stateEntries(prefix);
    yield { tensor: this.loraA, names: [`${prefix}lora_A`], stacked: false };
    yield { tensor: this.loraB, names: [`${prefix}lora_B`], stacked: false };
  }
  override extraRepr(): string {
    return `rank=${this.rank}, alpha=${this.alpha}${this.dropout ? `, dropout=${this.dropout}` : ''}${this.merged ? ', merged' : ''}`;
  }
}

function matrixOf(layer: Adaptable): Tensor {
  const matrix = layer.effectiveWeight?.() ?? layer.weight;
  if (matrix) return matrix;
  throw new ArgumentError(
    `LoRA: ${layer.constructor.name} has neither a weight nor effectiveWeight(): it cannot be merged`,
  );
}
/** Added in the wider of both dtypes, rounded once. */
const sum = (weight: Tensor, change: Tensor): Tensor => weight.add(change).to(weight.dtype);
