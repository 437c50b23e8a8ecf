// The abstract value of an expression: dtype and shape. Equal ones are the same object, so they compare by identity.
import { type ArrayType, DTYPES, type DType, show, sizeOf } from '../base/dtype.js';
import { Interner, newId } from '../base/intern.js';
import type { Shape } from '../base/shape.js';

export class Aval implements ArrayType {
  /** The type in StableHLO: tensor<2x3xf32>. */
  readonly mlir: string;
  readonly size: number;

  private constructor(
    readonly id: number,
    readonly dtype: DType,
    readonly shape: Shape,
  ) {
    this.mlir = `tensor<${[...shape, DTYPES[dtype].mlir].join('x')}>`;
    this.size = sizeOf(shape);
  }

  static of(dtype: DType, shape: Shape): Aval {
    return interned.get(`${dtype}${shape}`, () => new Aval(newId(), dtype, Object.freeze([...shape])));
  }

  get rank(): number {
    return this.shape.length;
  }

  withShape(shape: Shape): Aval {
    return Aval.of(this.dtype, shape);
  }

  withDType(dtype: DType): Aval {
    return Aval.of(dtype, this.shape);
  }

  toString(): string {
    return show(this);
  }
}
const interned = new Interner<Aval>();
