// Transforms: invertible functions of random variables with log determinants of their Jacobians.
import { sizeOf } from '../base/dtype.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { broadcastShapes, type Shape, sameShape, showShape } from '../base/shape.js';
import { arange, fullLike, zeros, zerosLike } from '../tensor/create.js';
import { cat } from '../tensor/functions.js';
import { Tensor } from '../tensor/tensor.js';
import type { Constraint } from './constraints.js';
import * as constraints from './constraints.js';
import { finfo, sumRightmost, type Value } from './distribution.js';

export abstract class Transform {
  abstract readonly domain: Constraint;
  abstract readonly codomain: Constraint;
  /** 1: increasing, -1: decreasing; undefined: neither, so that there is no cdf. */
  get sign(): number | Tensor | undefined {
    return undefined;
  }
  get bijective(): boolean {
    return true;
  }
  abstract forward(x: Tensor): Tensor;
  abstract inverse(y: Tensor): Tensor;
  /** log |dy / dx|, summed over the event's dimensions. */
  abstract logAbsDetJacobian(x: Tensor, y: Tensor): Tensor;
  forwardShape(shape: Shape): Shape {
    return shape;
  }
  inverseShape(shape: Shape): Shape {
    return shape;
  }
  /** The inverse transform. */
  get inv(): Transform {
    return new InverseTransform(this);
  }
  /** Whether the other transform is known to be the same function. */
  equals(other: Transform): boolean {
    return this === other;
  }
}

class InverseTransform extends Transform {
  constructor(readonly base: Transform) {
    super();
  }
  get domain(): Constraint {
    return this.base.codomain;
  }
  get codomain(): Constraint {
    return this.base.domain;
  }
  override get sign(): number | Tensor | undefined {
    return this.base.sign;
  }
  override get bijective(): boolean {
    return this.base.bijective;
  }
  forward(x: Tensor): Tensor {
    return this.base.inverse(x);
  }
  inverse(y: Tensor): Tensor {
    return this.base.forward(y);
  }
  logAbsDetJacobian(x: Tensor, y: Tensor): Tensor {
    return this.base.logAbsDetJacobian(y, x).neg();
  }
  override forwardShape(shape: Shape): Shape {
    return this.base.inverseShape(shape);
  }
  override inverseShape(shape: Shape): Shape {
    return this.base.forwardShape(shape);
  }
  override get inv(): Transform {
    return this.base;
  }
  override equals(other: Transform): boolean {
    return other instanceof InverseTransform && this.base.equals(other.base);
  }
}

/** Element by element and increasing, without parameters: two of a class are equal. */
abstract class Increasing extends Transform {
  readonly domain: Constraint = constraints.real;
  override get sign(): 1 {
    return 1;
  }
  override equals(other: Transform): boolean {
    return other.constructor === this.constructor;
  }
}

export class ExpTransform extends Increasing {
  readonly codomain = constraints.positive;
  forward(x: Tensor): Tensor {
    return x.exp();
  }
  inverse(y: Tensor): Tensor {
    return y.log();
  }
  logAbsDetJacobian(x: Tensor): Tensor {
    return x;
  }
}

/** Kept away from 0 and 1 by the rounding of the dtype, as in torch. */
const clipped = (p: Tensor): Tensor => p.clamp({ min: finfo(p).tiny, max: 1 - finfo(p).eps });

export class SigmoidTransform extends Increasing {
  readonly codomain = constraints.unitInterval;
  forward(x: Tensor): Tensor {
    return clipped(x.sigmoid());
  }
  inverse(y: Tensor): Tensor {
    const p = clipped(y);
    return p.log().sub(p.neg().log1p());
  }
  logAbsDetJacobian(x: Tensor): Tensor {
    return x.neg().softplus().add(x.softplus()).neg();
  }
}

export class TanhTransform extends Increasing {
  readonly codomain = constraints.interval(-1, 1);
  forward(x: Tensor): Tensor {
    return x.tanh();
  }
  inverse(y: Tensor): Tensor {
    return y.atanh();
  }
  logAbsDetJacobian(x: Tensor): Tensor {
    return x.add(x.mul(-2).softplus()).neg().add(Math.LN2).mul(2);
  }
}

export class SoftplusTransform extends Increasing {
  readonly codomain = constraints.positive;
  forward(x: Tensor): Tensor {
    return x.softplus();
  }
  inverse(y: Tensor): Tensor {
    return y.neg().expm1().neg().log().add(y);
  }
  logAbsDetJacobian(x: Tensor): Tensor {
    return x.neg().softplus().neg();
  }
}

const shapeOf = (x: Value): Shape => (x instanceof Tensor ? x.shape : []);
const isSame = (a: Value, b: Value): boolean =>
  a === b || (a instanceof Tensor && b instanceof Tensor && a.peek() === b.peek());

/** loc + scale * x. */
export class AffineTransform extends Transform {
  readonly #eventDim: number;
  constructor(
    readonly loc: Value,
    readonly scale: Value,
    { eventDim = 0 }: { readonly eventDim?: number } = {},
  ) {
    super();
    this.#eventDim = eventDim;
  }
  get domain(): Constraint {
    return constraints.independent(constraints.real, this.#eventDim);
  }
  get codomain(): Constraint {
    return this.domain;
  }
  override get sign(): number | Tensor {
    return typeof this.scale === 'number' ? Math.sign(this.scale) : this.scale.sign();
  }
  forward(x: Tensor): Tensor {
    return x.mul(this.scale).add(this.loc);
  }
  inverse(y: Tensor): Tensor {
    return y.sub(this.loc).div(this.scale);
  }
  logAbsDetJacobian(x: Tensor): Tensor {
    const { scale } = this;
    const log =
      typeof scale === 'number'
        ? fullLike(x, Math.log(Math.abs(scale)))
        : scale
            .abs()
            .log()
            .expand(broadcastShapes('AffineTransform', x.shape, scale.shape));
    return sumRightmost(log, this.#eventDim);
  }
  override forwardShape(shape: Shape): Shape {
    return broadcastShapes('AffineTransform', shape, shapeOf(this.loc), shapeOf(this.scale));
  }
  override inverseShape(shape: Shape): Shape {
    return this.forwardShape(shape);
  }
  override equals(other: Transform): boolean {
    return other instanceof AffineTransform && isSame(this.loc, other.loc) && isSame(this.scale, other.scale);
  }
}

/** x ** exponent, of positive numbers. */
export class PowerTransform extends Transform {
  readonly domain = constraints.positive;
  readonly codomain = constraints.positive;
  constructor(readonly exponent: Value) {
    super();
  }
  override get sign(): number | Tensor {
    return typeof this.exponent === 'number' ? Math.sign(this.exponent) : this.exponent.sign();
  }
  forward(x: Tensor): Tensor {
    return x.pow(this.exponent);
  }
  inverse(y: Tensor): Tensor {
    return y.pow(typeof this.exponent === 'number' ? 1 / this.exponent : this.exponent.reciprocal());
  }
  logAbsDetJacobian(x: Tensor, y: Tensor): Tensor {
    return y.mul(this.exponent).div(x).abs().log();
  }
  override forwardShape(shape: Shape): Shape {
    return broadcastShapes('PowerTransform', shape, shapeOf(this.exponent));
  }
  override inverseShape(shape: Shape): Shape {
    return this.forwardShape(shape);
  }
  override equals(other: Transform): boolean {
    return other instanceof PowerTransform && isSame(this.exponent, other.exponent);
  }
}

/** |x|. Its inverse is the positive one; there is no density. */
export class AbsTransform extends Transform {
  readonly domain = constraints.real;
  readonly codomain = constraints.positive;
  override get bijective(): boolean {
    return false;
  }
  forward(x: Tensor): Tensor {
    return x.abs();
  }
  inverse(y: Tensor): Tensor {
    return y;
  }
  logAbsDetJacobian(): Tensor {
    throw new ArgumentError('AbsTransform: not invertible, so it has no Jacobian: use HalfNormal or HalfCauchy');
  }
  override equals(other: Transform): boolean {
    return other instanceof AbsTransform;
  }
}

/** The softmax function. Not invertible. */
export class SoftmaxTransform extends Transform {
  readonly domain = constraints.realVector;
  readonly codomain = constraints.simplex;
  override get bijective(): boolean {
    return false;
  }
  forward(x: Tensor): Tensor {
    return x.softmax(-1);
  }
  inverse(y: Tensor): Tensor {
    return y.log();
  }
  logAbsDetJacobian(): Tensor {
    throw new ArgumentError('SoftmaxTransform: not invertible, so it has no Jacobian: use StickBreakingTransform');
  }
  override equals(other: Transform): boolean {
    return other instanceof SoftmaxTransform;
  }
}

/** Maps n - 1 real numbers to n that add up to 1: each takes a part of the remaining stick. */
export class StickBreakingTransform extends Transform {
  readonly domain = constraints.realVector;
  readonly codomain = constraints.simplex;
  /** The logarithms of how many parts are left at each place. */
  #offset(x: Tensor): Tensor {
    const n = x.shape.at(-1)!;
    return arange(n, { dtype: x.dtype }).neg().add(n).log();
  }
  forward(x: Tensor): Tensor {
    const z = clipped(x.sub(this.#offset(x)).sigmoid());
    const left = z.neg().add(1).cumprod(-1);
    const one = zeros([...x.shape.slice(0, -1), 1], { dtype: x.dtype }).add(1);
    return cat([z, one], -1).mul(cat([one, left], -1));
  }
  inverse(y: Tensor): Tensor {
    const n = y.shape.at(-1)! - 1;
    const first = y.narrow(-1, 0, n);
    const left = first
      .cumsum(-1)
      .neg()
      .add(1)
      .clamp({ min: finfo(y).tiny });
    return first.log().sub(left.log()).add(this.#offset(first));
  }
  logAbsDetJacobian(x: Tensor, y: Tensor): Tensor {
    const z = x.sub(this.#offset(x));
    // log sigmoid(-z) + log y, less z: what torch computes as -z + logsigmoid(z) + log(y).
    return z
      .neg()
      .add(z.logsigmoid())
      .add(y.narrow(-1, 0, x.shape.at(-1)!).log())
      .sum(-1);
  }
  override forwardShape(shape: Shape): Shape {
    return [...shape.slice(0, -1), shape.at(-1)! + 1];
  }
  override inverseShape(shape: Shape): Shape {
    return [...shape.slice(0, -1), shape.at(-1)! - 1];
  }
  override equals(other: Transform): boolean {
    return other instanceof StickBreakingTransform;
  }
}

/** Composes transforms; the first one is applied first. */
export class ComposeTransform extends Transform {
  readonly parts: readonly Transform[];
  constructor(parts: readonly Transform[]) {
    super();
    this.parts = [...parts];
  }
  get domain(): Constraint {
    const [first] = this.parts;
    if (!first) return constraints.real;
    // The parts' own events, and what later parts join.
    let events = this.parts.at(-1)!.codomain.eventDim;
    for (const part of [...this.parts].reverse())
      events = Math.max(events + part.domain.eventDim - part.codomain.eventDim, part.domain.eventDim);
    return constraints.independent(first.domain, events - first.domain.eventDim);
  }
  get codomain(): Constraint {
    const last = this.parts.at(-1);
    if (!last) return constraints.real;
    let events = this.parts[0]!.domain.eventDim;
    for (const part of this.parts)
      events = Math.max(events + part.codomain.eventDim - part.domain.eventDim, part.codomain.eventDim);
    return constraints.independent(last.codomain, events - last.codomain.eventDim);
  }
  override get sign(): number | Tensor | undefined {
    let sign: number | Tensor = 1;
    for (const part of this.parts) {
      const own = part.sign;
      if (own === undefined) return undefined;
      sign = typeof sign === 'number' ? (typeof own === 'number' ? sign * own : own.mul(sign)) : sign.mul(own);
    }
    return sign;
  }
  override get bijective(): boolean {
    return this.parts.every((part) => part.bijective);
  }
  forward(x: Tensor): Tensor {
    return this.parts.reduce((at, part) => part.forward(at), x);
  }
  inverse(y: Tensor): Tensor {
    return this.parts.reduceRight((at, part) => part.inverse(at), y);
  }
  logAbsDetJacobian(x: Tensor, y: Tensor): Tensor {
    if (!this.parts.length) return zerosLike(x);
    const steps = [x];
    for (const part of this.parts.slice(0, -1)) steps.push(part.forward(steps.at(-1)!));
    steps.push(y);
    let events = this.domain.eventDim;
    return this.parts
      .map((part, i) => {
        const log = sumRightmost(part.logAbsDetJacobian(steps[i]!, steps[i + 1]!), events - part.domain.eventDim);
        events += part.codomain.eventDim - part.domain.eventDim;
        return log;
      })
      .reduce((a, b) => a.add(b));
  }
  override forwardShape(shape: Shape): Shape {
    return this.parts.reduce((s, part) => part.forwardShape(s), shape);
  }
  override inverseShape(shape: Shape): Shape {
    return this.parts.reduceRight((s, part) => part.inverseShape(s), shape);
  }
  override equals(other: Transform): boolean {
    return (
      other instanceof ComposeTransform &&
      other.parts.length === this.parts.length &&
      this.parts.every((part, i) => part.equals(other.parts[i]!))
    );
  }
}
/** The identity. */
export const identityTransform: Transform = new ComposeTransform([]);

/** Reinterprets the last `reinterpretedBatchNdims` batch dimensions of a transform as event dimensions. */
export class IndependentTransform extends Transform {
  constructor(
    readonly base: Transform,
    readonly reinterpretedBatchNdims: number,
  ) {
    super();
  }
  get domain(): Constraint {
    return constraints.independent(this.base.domain, this.reinterpretedBatchNdims);
  }
  get codomain(): Constraint {
    return constraints.independent(this.base.codomain, this.reinterpretedBatchNdims);
  }
  override get sign(): number | Tensor | undefined {
    return this.base.sign;
  }
  override get bijective(): boolean {
    return this.base.bijective;
  }
  forward(x: Tensor): Tensor {
    return this.base.forward(x);
  }
  inverse(y: Tensor): Tensor {
    return this.base.inverse(y);
  }
  logAbsDetJacobian(x: Tensor, y: Tensor): Tensor {
    return sumRightmost(this.base.logAbsDetJacobian(x, y), this.reinterpretedBatchNdims);
  }
  override forwardShape(shape: Shape): Shape {
    return this.base.forwardShape(shape);
  }
  override inverseShape(shape: Shape): Shape {
    return this.base.inverseShape(shape);
  }
  override equals(other: Transform): boolean {
    return (
      other instanceof IndependentTransform &&
      other.reinterpretedBatchNdims === this.reinterpretedBatchNdims &&
      this.base.equals(other.base)
    );
  }
}

/** Reshapes events. */
export class ReshapeTransform extends Transform {
  constructor(
    readonly inShape: Shape,
    readonly outShape: Shape,
  ) {
    super();
    if (sizeOf(inShape) !== sizeOf(outShape))
      throw new ShapeError(
        `ReshapeTransform: inShape ${showShape(inShape)} and outShape ${showShape(outShape)} have different numbers of elements`,
      );
  }
  get domain(): Constraint {
    return constraints.independent(constraints.real, this.inShape.length);
  }
  get codomain(): Constraint {
    return constraints.independent(constraints.real, this.outShape.length);
  }
  forward(x: Tensor): Tensor {
    return x.reshape(this.forwardShape(x.shape));
  }
  inverse(y: Tensor): Tensor {
    return y.reshape(this.inverseShape(y.shape));
  }
  logAbsDetJacobian(x: Tensor): Tensor {
    return zeros(x.shape.slice(0, x.ndim - this.inShape.length), { dtype: x.dtype });
  }
  #swap(shape: Shape, from: Shape, to: Shape): Shape {
    const cut = shape.length - from.length;
    if (cut < 0 || !sameShape(shape.slice(cut), from))
      throw new ShapeError(`ReshapeTransform: ${showShape(shape)} does not end in ${showShape(from)}`);
    return [...shape.slice(0, cut), ...to];
  }
  override forwardShape(shape: Shape): Shape {
    return this.#swap(shape, this.inShape, this.outShape);
  }
  override inverseShape(shape: Shape): Shape {
    return this.#swap(shape, this.outShape, this.inShape);
  }
}
