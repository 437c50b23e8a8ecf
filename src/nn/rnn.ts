// Recurrent layers: a scan over time, so that neither the program nor its gradient grows with the sequence.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { range, type Shape, showShape } from '../base/shape.js';
import { scan } from '../tensor/control.js';
import { empty, zeros } from '../tensor/create.js';
import { cat, linear, relu, stack, tanh, where } from '../tensor/functions.js';
import { dropout } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';
import * as init from './init.js';
import { Module, Parameter } from './module.js';
import { checkCount, checkProbability, type Given, optionsInOrder, showOptions } from './options.js';
import { PackedSequence } from './packed.js';

// Symbols, and no private names: a copy of a module (clone) has them, too.
const KIND = Symbol('kind');

/** The state carried from step to step: the hidden state, and for an LSTM its cell. */
type State = readonly Tensor[];
interface Kind {
  /** How many blocks of rows the weights have. */
  readonly gates: number;
  /** How many tensors the state has. */
  readonly states: number;
  /** The next state, of what comes from the input and from the hidden state: each [..., gates * hidden]. */
  readonly step: (fromInput: Tensor, fromHidden: Tensor, state: State) => State;
}

const elman = (activation: (x: Tensor) => Tensor): Kind => ({
  gates: 1,
  states: 1,
  step: (x, h) => [activation(x.add(h))],
});
const KINDS = {
  tanh: elman((x) => tanh(x)),
  relu: elman((x) => relu(x)),
  lstm: {
    gates: 4,
    states: 2,
    step: (x, h, state) => {
      const [input, forget, cell, output] = x.add(h).chunk(4, { dim: -1 });
      const c = forget.sigmoid().mul(state[1]!).add(input.sigmoid().mul(cell.tanh()));
      return [output.sigmoid().mul(c.tanh()), c];
    },
  },
  gru: {
    gates: 3,
    states: 1,
    step: (x, h, [was]) => {
      const [xr, xz, xn] = x.chunk(3, { dim: -1 });
      const [hr, hz, hn] = h.chunk(3, { dim: -1 });
      const fresh = xn.add(xr.add(hr).sigmoid().mul(hn)).tanh();
      return [fresh.add(xz.add(hz).sigmoid().mul(was!.sub(fresh)))];
    },
  },
} satisfies Record<string, Kind>;

/** The weights of one direction of one layer, by torch's names without their endings. */
const weight = (bound: number, ...shape: Shape): Parameter => init.uniform_(new Parameter(empty(shape)), -bound, bound);

// ---- over time

interface CommonOptions {
  readonly numLayers?: number;
  readonly bias?: boolean;
  /** Whether the input and the result are [N, L, ...] instead of [L, N, ...]. Default: false. */
  readonly batchFirst?: boolean;
  /** The dropout probability between layers in train mode. Default: 0. */
  readonly dropout?: number;
  readonly bidirectional?: boolean;
}
export interface RNNOptions extends CommonOptions {
  readonly nonlinearity?: 'tanh' | 'relu';
}
export interface LSTMOptions extends CommonOptions {
  /** The size that the hidden state is projected to; 0: no projection. Default: 0. */
  readonly projSize?: number;
}
export type GRUOptions = CommonOptions;

const COMMON = ['numLayers', 'bias', 'batchFirst', 'dropout', 'bidirectional'] as const;
const LSTM_ORDER = [...COMMON, 'projSize'] as const;
const RNN_ORDER = ['numLayers', 'nonlinearity', 'bias', 'batchFirst', 'dropout', 'bidirectional'] as const;
const NORMALLY = { numLayers: 1, bias: true, batchFirst: false, dropout: 0, bidirectional: false };

/**
 * Parameters are named as in torch: weightIhL0 (weight_ih_l0 in state dicts) is the first layer's weight for the input,
 * weightHhL0Reverse its weight for the hidden state in the reverse direction.
 */
class Recurrent extends Module {
  [name: `weight${string}L${number}`]: Parameter;
  [name: `bias${string}L${number}`]: Parameter;
  readonly numLayers: number;
  readonly bias: boolean;
  readonly batchFirst: boolean;
  readonly dropout: number;
  readonly bidirectional: boolean;
  readonly [KIND]: Kind;

  constructor(
    kind: Kind,
    readonly inputSize: number,
    readonly hiddenSize: number,
    options: Required<CommonOptions>,
    readonly projSize = 0,
  ) {
    super();
    const { name } = new.target;
    this[KIND] = kind;
    this.numLayers = checkCount(`${name}: numLayers`, options.numLayers);
    this.bias = options.bias;
    this.batchFirst = options.batchFirst;
    this.dropout = options.dropout;
    this.bidirectional = options.bidirectional;
    checkCount(`${name}: inputSize`, inputSize);
    checkCount(`${name}: hiddenSize`, hiddenSize);
    checkCount(`${name}: projSize`, projSize, 0);
    checkProbability(`${name}: dropout`, this.dropout);
    if (projSize >= hiddenSize)
      throw new ArgumentError(`${name}: projSize is ${projSize}: it must be less than hiddenSize, ${hiddenSize}`);
    const [bound, rows] = [1 / Math.sqrt(hiddenSize), kind.gates * hiddenSize];
    for (const layer of range(this.numLayers)) {
      const width = layer ? this.outputSize * this.directions : inputSize;
      for (const suffix of this.suffixes(layer)) {
        Object.assign(this, {
          [`weightIh${suffix}`]: weight(bound, rows, width),
          [`weightHh${suffix}`]: weight(bound, rows, this.outputSize),
          ...(this.bias && { [`biasIh${suffix}`]: weight(bound, rows), [`biasHh${suffix}`]: weight(bound, rows) }),
          ...(projSize && { [`weightHr${suffix}`]: weight(bound, projSize, hiddenSize) }),
        });
      }
    }
  }
  private get directions(): number {
    return this.bidirectional ? 2 : 1;
  }
  private get outputSize(): number {
    return this.projSize || this.hiddenSize;
  }
  private suffixes(layer: number): string[] {
    return this.bidirectional ? [`L${layer}`, `L${layer}Reverse`] : [`L${layer}`];
  }
  private weightOf(name: string, suffix: string): Parameter | null {
    return (this as unknown as Record<string, Parameter>)[name + suffix] ?? null;
  }

  /** The results of all times, and the last state of each layer and direction: [numLayers * directions, N, size] each. */
  protected run(
    given: Tensor | PackedSequence,
    initial: State | undefined,
  ): [output: Tensor | PackedSequence, last: State] {
    const { name } = this.constructor;
    const packed = given instanceof PackedSequence ? given : undefined;
    const x = packed ? packed.padded : (given as Tensor);
    if (packed && x.ndim !== 3)
      throw new ShapeError(`${name}: takes packed sequences of [L, N, ${this.inputSize}], got ${x.aval}`);
    if ((x.ndim !== 3 && x.ndim !== 2) || x.size(-1) !== this.inputSize)
      throw new ShapeError(
        `${name}: takes ${this.batchFirst ? '[N, L, ' : '[L, N, '}${this.inputSize}], or that without N, got ${x.aval}`,
      );
    const batched = x.ndim === 3;
    const swaps = batched && this.batchFirst && !packed;
    const mask = packed?.mask.unsqueeze(-1);
    let output = swaps ? x.transpose(0, 1) : batched ? x : x.unsqueeze(1); // [L, N, ...]
    const first = this.firstState(output.size(1), batched, output, initial);
    const last: State[] = [];
    for (const layer of range(this.numLayers)) {
      if (layer) output = dropout(output, this.dropout, this.training);
      const ran = this.suffixes(layer).map((suffix, d) => {
        const state = first.map((s) => s.select(0, layer * this.directions + d));
        return this.overTime(output, state, suffix, d === 1, mask);
      });
      output = cat(
        ran.map(([ys]) => ys),
        -1,
      );
      last.push(...ran.map(([, state]) => state));
    }
    const states = range(this[KIND].states).map((i) => stack(last.map((state) => state[i]!)));
    if (packed) return [packed.withPadded(output), states];
    return [
      swaps ? output.transpose(0, 1) : batched ? output : output.squeeze(1),
      batched ? states : states.map((s) => s.squeeze(1)),
    ];
  }
  /** `mask`: bool[L, N, 1], false after the end of a sequence, where the state is kept and the result is 0. */
  private overTime(
    xs: Tensor,
    state: State,
    suffix: string,
    reverse: boolean,
    mask?: Tensor,
  ): [ys: Tensor, last: State] {
    const [hh, biasHh, hr] = ['weightHh', 'biasHh', 'weightHr'].map((name) => this.weightOf(name, suffix));
    const fromInput = linear(xs, this.weightOf('weightIh', suffix)!, this.weightOf('biasIh', suffix)); // of all times at once
    const pass = (was: State, x: Tensor): [State, Tensor] => {
      const [h, ...others] = this[KIND].step(x, linear(was[0]!, hh!, biasHh), was) as [Tensor, ...Tensor[]];
      const shown = hr ? linear(h, hr) : h;
      return [[shown, ...others], shown];
    };
    const first: State = state.map((s) => s.to(fromInput.dtype)); // autocast may have changed it
    const masked = (was: State, [x, goes]: readonly [Tensor, Tensor]): [State, Tensor] => {
      const [now, shown] = pass(was, x);
      return [now.map((s, i) => where(goes, s, was[i]!)), where(goes, shown, 0)];
    };
    const [last, ys] = mask
      ? scan(masked, first, [fromInput, mask] as const, { reverse })
      : scan(pass, first, fromInput, { reverse });
    return [ys, last];
  }
  private firstState(n: number, batched: boolean, like: Tensor, given: State | undefined): State {
    const { name } = this.constructor;
    return range(this[KIND].states).map((i) => {
      const shape = [this.numLayers * this.directions, n, i ? this.hiddenSize : this.outputSize];
      const state = given?.[i];
      if (!state) return zeros(shape, { dtype: like.dtype });
      const expected = batched ? shape : shape.toSpliced(1, 1);
      if (String(state.shape) !== String(expected))
        throw new ShapeError(`${name}: the first state is ${state.aval}: its shape must be ${showShape(expected)}`);
      return batched ? state : state.unsqueeze(1);
    });
  }
  override extraRepr(): string {
    const { numLayers, bias, batchFirst, dropout, bidirectional, projSize } = this;
    const unusual = Object.entries({ numLayers, bias, batchFirst, dropout, bidirectional, projSize }).filter(
      ([key, value]) => value !== ({ ...NORMALLY, projSize: 0 } as Record<string, unknown>)[key],
    );
    return [`${this.inputSize}, ${this.hiddenSize}`, ...unusual.map(([k, v]) => showOptions({ [k]: v }))].join(', ');
  }
}

/** h = tanh(W x + U h): [L, N, inputSize] to [L, N, hiddenSize], and the last h of each layer. */
export class RNN extends Recurrent {
  readonly nonlinearity: 'tanh' | 'relu';
  constructor(inputSize: number, hiddenSize: number, ...options: Given<RNNOptions, typeof RNN_ORDER>) {
    const { nonlinearity, ...common } = optionsInOrder<Required<RNNOptions>>(
      'RNN',
      RNN_ORDER,
      { ...NORMALLY, nonlinearity: 'tanh' },
      options,
    );
    checkNonlinearity('RNN', nonlinearity);
    super(KINDS[nonlinearity], inputSize, hiddenSize, common);
    this.nonlinearity = nonlinearity;
  }
  override forward(x: PackedSequence, h0?: Tensor | null): [output: PackedSequence, h: Tensor];
  override forward(x: Tensor, h0?: Tensor | null): [output: Tensor, h: Tensor];
  override forward(x: Tensor | PackedSequence, h0?: Tensor | null): [output: Tensor | PackedSequence, h: Tensor] {
    const [output, [h]] = this.run(x, h0 ? [h0] : undefined);
    return [output, h!];
  }
}

/** A gated recurrent unit: [L, N, inputSize] to [L, N, hiddenSize], and the last h of each layer. */
export class GRU extends Recurrent {
  constructor(inputSize: number, hiddenSize: number, ...options: Given<GRUOptions, typeof COMMON>) {
    super(KINDS.gru, inputSize, hiddenSize, optionsInOrder<Required<GRUOptions>>('GRU', COMMON, NORMALLY, options));
  }
  override forward(x: PackedSequence, h0?: Tensor | null): [output: PackedSequence, h: Tensor];
  override forward(x: Tensor, h0?: Tensor | null): [output: Tensor, h: Tensor];
  override forward(x: Tensor | PackedSequence, h0?: Tensor | null): [output: Tensor | PackedSequence, h: Tensor] {
    const [output, [h]] = this.run(x, h0 ? [h0] : undefined);
    return [output, h!];
  }
}

type Initial = readonly [h0: Tensor, c0: Tensor] | null;
/** Long short-term memory: [L, N, inputSize] to [L, N, hiddenSize], and the last h and c of each layer. */
export class LSTM extends Recurrent {
  constructor(inputSize: number, hiddenSize: number, ...options: Given<LSTMOptions, typeof LSTM_ORDER>) {
    const { projSize, ...common } = optionsInOrder<Required<LSTMOptions>>(
      'LSTM',
      LSTM_ORDER,
      { ...NORMALLY, projSize: 0 },
      options,
    );
    super(KINDS.lstm, inputSize, hiddenSize, common, projSize);
  }
  override forward(x: PackedSequence, state?: Initial): [output: PackedSequence, state: [h: Tensor, c: Tensor]];
  override forward(x: Tensor, state?: Initial): [output: Tensor, state: [h: Tensor, c: Tensor]];
  override forward(
    x: Tensor | PackedSequence,
    state?: Initial,
  ): [output: Tensor | PackedSequence, state: [h: Tensor, c: Tensor]] {
    const [output, [h, c]] = this.run(x, state ?? undefined);
    return [output, [h!, c!]];
  }
}

// ---- one step

class Cell extends Module {
  weightIh: Parameter;
  weightHh: Parameter;
  biasIh: Parameter | null;
  biasHh: Parameter | null;
  readonly [KIND]: Kind;
  constructor(
    kind: Kind,
    readonly inputSize: number,
    readonly hiddenSize: number,
    bias: boolean,
  ) {
    super();
    const { name } = new.target;
    checkCount(`${name}: inputSize`, inputSize);
    checkCount(`${name}: hiddenSize`, hiddenSize);
    this[KIND] = kind;
    const [bound, rows] = [1 / Math.sqrt(hiddenSize), kind.gates * hiddenSize];
    this.weightIh = weight(bound, rows, inputSize);
    this.weightHh = weight(bound, rows, hiddenSize);
    this.biasIh = bias ? weight(bound, rows) : null;
    this.biasHh = bias ? weight(bound, rows) : null;
  }
  protected step(x: Tensor, given: State | undefined): State {
    const shape = [...x.shape.slice(0, -1), this.hiddenSize];
    const state = given ?? range(this[KIND].states).map(() => zeros(shape, { dtype: x.dtype }));
    const wrong = state.find((s) => String(s.shape) !== String(shape));
    if (wrong)
      throw new ShapeError(
        `${this.constructor.name}: the state is ${wrong.aval}: its shape must be ${showShape(shape)}`,
      );
    const fromInput = linear(x, this.weightIh, this.biasIh);
    return this[KIND].step(fromInput, linear(state[0]!, this.weightHh, this.biasHh), state);
  }
  override extraRepr(): string {
    return `${this.inputSize}, ${this.hiddenSize}${this.biasIh ? '' : ', bias=false'}`;
  }
}
interface CellOptions {
  readonly bias?: boolean;
}
/** One step of an RNN: [N, inputSize] and h to the next h. */
export class RNNCell extends Cell {
  constructor(
    inputSize: number,
    hiddenSize: number,
    ...options: Given<CellOptions & { readonly nonlinearity?: 'tanh' | 'relu' }, ['bias', 'nonlinearity']>
  ) {
    const { bias, nonlinearity } = optionsInOrder(
      'RNNCell',
      ['bias', 'nonlinearity'],
      { bias: true, nonlinearity: 'tanh' as 'tanh' | 'relu' },
      options,
    );
    checkNonlinearity('RNNCell', nonlinearity);
    super(KINDS[nonlinearity], inputSize, hiddenSize, bias);
  }
  override forward(x: Tensor, h?: Tensor | null): Tensor {
    return this.step(x, h ? [h] : undefined)[0]!;
  }
}
/** One step of a GRU: [N, inputSize] and h to the next h. */
export class GRUCell extends Cell {
  constructor(inputSize: number, hiddenSize: number, ...options: Given<CellOptions, ['bias']>) {
    super(KINDS.gru, inputSize, hiddenSize, optionsInOrder('GRUCell', ['bias'], { bias: true }, options).bias);
  }
  override forward(x: Tensor, h?: Tensor | null): Tensor {
    return this.step(x, h ? [h] : undefined)[0]!;
  }
}
/** One step of an LSTM: [N, inputSize], h and c to the next h and c. */
export class LSTMCell extends Cell {
  constructor(inputSize: number, hiddenSize: number, ...options: Given<CellOptions, ['bias']>) {
    super(KINDS.lstm, inputSize, hiddenSize, optionsInOrder('LSTMCell', ['bias'], { bias: true }, options).bias);
  }
  override forward(x: Tensor, state?: readonly [h: Tensor, c: Tensor]): [h: Tensor, c: Tensor] {
    const [h, c] = this.step(x, state);
    return [h!, c!];
  }
}

function checkNonlinearity(layer: string, given: string): void {
  if (given !== 'tanh' && given !== 'relu')
    throw new ArgumentError(`${layer}: nonlinearity is '${given}': use 'tanh' or 'relu'`);
}
