// Creating tensors from others: with the dtype of one (x.newZeros), with torch's strides, by broadcasting shapes.
import type { DType } from '../base/dtype.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { broadcastShapes as broadcast, type Shape, showShape } from '../base/shape.js';
import { entry } from '../ir/source.js';
import { checked } from './arguments.js';
import { full, type TensorOptions, tensor, zeros } from './create.js';
import { type Sized, sized } from './sizes.js';
import { type Nested, Tensor } from './tensor.js';

/** The shape that the given shapes broadcast to. */
export const broadcastShapes = checked('broadcastShapes', (...shapes: (number | Shape)[]): number[] => [
  ...broadcast('broadcastShapes', ...shapes.map((s) => (typeof s === 'number' ? [s] : s))),
]);

/** Unlike torch: zeros in row-major order; tensors have no strides. */
export const emptyStrided = checked(
  'emptyStrided',
  (size: Shape, stride: Shape, options: TensorOptions = {}): Tensor => {
    if (size.length !== stride.length)
      throw new ShapeError(
        `emptyStrided: ${showShape(size)} has ${size.length} sizes, ${showShape(stride)} ${stride.length} strides`,
      );
    return zeros(size, options);
  },
);
/** Unlike torch: zeros in row-major order; tensors have no strides. */
export const emptyPermuted = checked(
  'emptyPermuted',
  (size: Shape, physicalLayout: Shape, options: TensorOptions = {}): Tensor => {
    const dims = [...physicalLayout].sort((a, b) => a - b);
    if (dims.length !== size.length || dims.some((d, i) => d !== i))
      throw new ArgumentError(
        `emptyPermuted: the layout ${showShape(physicalLayout)} must name each of the ${size.length} dimensions of ${showShape(size)} once`,
      );
    return zeros(size, options);
  },
);

declare module './tensor.js' {
  interface Tensor {
    /** Zeros. Default dtype: that of this tensor. */
    newZeros(...given: Sized<TensorOptions>): Tensor;
    newOnes(...given: Sized<TensorOptions>): Tensor;
    /** Unlike torch: zeros. */
    newEmpty(...given: Sized<TensorOptions>): Tensor;
    /** Unlike torch: zeros in row-major order; tensors have no strides. */
    newEmptyStrided(size: Shape, stride: Shape, options?: TensorOptions): Tensor;
    newFull(size: Shape, value: number | bigint | boolean, options?: TensorOptions): Tensor;
    /** A tensor of these values. Default dtype: that of this tensor. */
    newTensor(data: Nested, options?: TensorOptions): Tensor;
  }
}
const withDType = (x: Tensor, options: TensorOptions | undefined): TensorOptions & { dtype: DType } => ({
  ...options,
  dtype: options?.dtype ?? x.dtype,
});
const filled = (name: string, value: number) =>
  function (this: Tensor, ...given: Sized<TensorOptions>): Tensor {
    const [shape, options] = sized(name, given);
    return full(shape, value, withDType(this, options));
  };
const METHODS = {
  newZeros: filled('newZeros', 0),
  newOnes: filled('newOnes', 1),
  newEmpty: filled('newEmpty', 0),
  newEmptyStrided(this: Tensor, size: Shape, stride: Shape, options?: TensorOptions): Tensor {
    return emptyStrided(size, stride, withDType(this, options));
  },
  newFull(this: Tensor, size: Shape, value: number | bigint | boolean, options?: TensorOptions): Tensor {
    return full(size, value, withDType(this, options));
  },
  newTensor(this: Tensor, data: Nested, options?: TensorOptions): Tensor {
    return tensor(data, withDType(this, options));
  },
};
for (const [name, method] of Object.entries(METHODS))
  Object.defineProperty(Tensor.prototype, name, {
    value: entry(method as (...args: never[]) => Tensor),
    writable: true,
    configurable: true,
  });
