// A low-rank adapter on a layer (LoRA, arXiv:2106.09685): y = layer(x) + alpha/rank * (dropout(x) A^T) B^T.
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { groupedProduct } from '../nn/grouped.js';
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

// Symbols instead of private names, so that copies of a module (clone) have them too.
const STATE = Symbol('state');
const BEFORE = Symbol('before');

/** A layer that can have an adapter: Linear, or a quantized one. */
export interface Adaptable extends Projection {
  readonly weight?: Tensor;
  /** The matrix that x is multiplied with, if that is not `weight`. */
  effectiveWeight?(): Tensor;
  /** Replaces that matrix in a quantized layer, by quantizing again. */
  requantize_?(weight: Tensor): void;
  /** That matrix, if it is kept; materialize() recomputes it. */
  readonly effective?: Tensor | null;
  materialize?(): unknown;
}
export const isAdaptable = (m: Module): m is Adaptable =>
  'inFeatures' in m && 'outFeatures' in m && !(m instanceof LoraLinear);

export interface AdapterOptions {
  /** The rank of the adapter's matrices. Default: 8. */
  readonly rank?: number;
  /** The adapter's output is multiplied by alpha / rank. Default: the rank. */
  readonly alpha?: number;
  /** Dropout probability of the adapter's input in training. Default: 0. */
  readonly dropout?: number;
  /** The dtype of the adapter's matrices; products are computed in that of x. Default: 'f32'. */
  readonly dtype?: DType;
  /** Standard deviation of the first matrix's initial values; the second starts with zeros. Default: 0.02. */
  readonly initStd?: number;
}

export class LoraLinear extends Module implements Projection {
  readonly baseLayer: Adaptable;
  /** [rank, inFeatures]; stacked in a LayerStack. */
  readonly loraA: Parameter;
  /** [outFeatures, rank] */
  readonly loraB: Parameter;
  readonly rank: number;
  readonly alpha: number;
  readonly dropout: number;
  readonly [STATE] = { enabled: true, merged: false };
  /** Copies of the layer's tensors from before the merge. */
  [BEFORE]: ReadonlyMap<Tensor, Tensor> = new Map();

  /** `lead`: the leading dimensions of stacked parameters: layers of a LayerStack, experts. */
  constructor(base: Adaptable, options: AdapterOptions = {}, lead: readonly number[] = []) {
    super();
    const { rank = 8, alpha = rank, dropout = 0, dtype = 'f32', initStd = 0.02 } = options;
    checkCount('LoRA: rank', rank);
    if (!(Number.isFinite(alpha) && alpha > 0)) throw new ArgumentError(`LoRA: alpha is ${alpha}: it must be above 0`);
    if (!(dropout >= 0 && dropout < 1))
      throw new ArgumentError(`LoRA: dropout is ${dropout}: it must be at least 0 and below 1`);
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
    return this[STATE].merged;
  }
  /** Whether the adapter is applied: false while it is merged or disabled. Compiled functions notice a change. */
  get active(): boolean {
    return dependOn(this[STATE], () => this[STATE].enabled && !this[STATE].merged);
  }

  /** loraA in x's dtype, if the adapter's input is x; null with dropout, which differs for each adapter. */
  firstOf(x: Tensor): Tensor | null {
    return this.active && !(this.training && this.dropout) ? gathered(this.loraA).to(x.dtype) : null;
  }
  override forward(x: Tensor, first?: Tensor): Tensor {
    const y = this.baseLayer.forward(x);
    if (!this.active) return y;
    const dropped = dropout(x, { p: this.dropout, training: this.training });
    const [a, b] = [gathered(this.loraA), gathered(this.loraB).mul(this.scaling)].map((w) => w.to(x.dtype));
    const narrow = first ?? groupedProduct(dropped, a!) ?? linear(dropped, a!); // [..., rank]
    return y.add((groupedProduct(narrow, b!) ?? linear(narrow, b!)).to(y.dtype));
  }

  /** The adapter as a matrix to add to the layer's: [outFeatures, inFeatures]. */
  change(): Tensor {
    return this.loraB.matmul(this.loraA).mul(this.scaling);
  }
  /** The matrix that x is multiplied with, including the adapter. */
  get weight(): Tensor {
    const { baseLayer } = this;
    const own = matrixOf(baseLayer);
    return this.active ? sum(own, this.change()) : own;
  }

  /** Merges the adapter into the layer's matrix. A copy is kept, so that unmerge restores it bit for bit. */
  merge(): void {
    if (this.merged) throw new ArgumentError('LoRA: this adapter is already merged: unmerge it first');
    const { baseLayer } = this;
    const before = new Map([...baseLayer.parameters(), ...baseLayer.buffers()].map((t) => [t as Tensor, t.detach()]));
    noGrad(() => {
      const merged = sum(matrixOf(baseLayer), this.change()).detach();
      if (baseLayer.requantize_) baseLayer.requantize_(merged);
      else matrixOf(baseLayer).become(merged.expr);
      if (baseLayer.effective) baseLayer.materialize?.();
    });
    this[BEFORE] = before;
    this[STATE].merged = true;
  }
  unmerge(): void {
    if (!this.merged) throw new ArgumentError('LoRA: this adapter is not merged: there is nothing to unmerge');
    for (const [t, was] of this[BEFORE]) t.become(was.expr);
    if (this.baseLayer.effective) this.baseLayer.materialize?.();
    this[BEFORE] = new Map();
    this[STATE].merged = false;
  }

  /** Runs fn with this adapter disabled. */
  without<T>(fn: () => T): T {
    void this.active; // records the dependency before the change
    const { enabled } = this[STATE];
    this[STATE].enabled = false;
    try {
      return fn();
    } finally {
      this[STATE].enabled = enabled;
    }
  }

  override *members(): ReturnType<Module['members']> {
    yield ['base_layer', this.baseLayer];
    yield ['lora_A', this.loraA];
    yield ['lora_B', this.loraB];
  }
  /** The layer's tensors keep their names, so that files of the model without adapters still load. */
  override *stateEntries(prefix = ''): Generator<StateEntry> {
    yield* this.baseLayer.stateEntries(prefix);
    yield { tensor: this.loraA, names: [`${prefix}lora_A`], stacked: 0 };
    yield { tensor: this.loraB, names: [`${prefix}lora_B`], stacked: 0 };
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
/** The sum, computed in the wider of both dtypes and rounded once. */
const sum = (weight: Tensor, change: Tensor): Tensor => weight.add(change).to(weight.dtype);
