// Values of torch files without a JavaScript type: tensors of other dtypes and layouts, complex numbers.
import type { HostArray } from '../base/dtype.js';
import type { Shape } from '../base/shape.js';

/** A complex tensor: `viewAsReal` is what torch.view_as_real gives, its last dimension holds the real and the imaginary part. */
export interface ComplexTensor {
  readonly dtype: 'complex32' | 'complex64' | 'complex128';
  readonly shape: Shape;
  readonly viewAsReal: HostArray;
}
/** A tensor of a dtype that is not here, as float8_e8m0fnu: its elements as unsigned integers. */
export interface RawTensor {
  readonly dtype: string; // torch's name
  readonly shape: Shape;
  readonly bits: HostArray;
}
export type SparseTensor =
  | {
      readonly layout: 'sparse_coo';
      readonly indices: HostArray; // i64[dimensions, elements]
      readonly values: HostArray | ComplexTensor | RawTensor;
      readonly shape: Shape;
      readonly coalesced: boolean;
    }
  | {
      readonly layout: 'sparse_csr' | 'sparse_csc' | 'sparse_bsr' | 'sparse_bsc';
      readonly compressedIndices: HostArray;
      readonly plainIndices: HostArray;
      readonly values: HostArray | ComplexTensor | RawTensor;
      readonly shape: Shape;
    };
/** A quantized tensor: `values` is what torch's int_repr() gives, x = (value - zeroPoint) * scale. */
export interface QuantizedTensor {
  readonly dtype: 'qint8' | 'quint8' | 'qint32';
  readonly shape: Shape;
  readonly values: HostArray;
  readonly qscheme: string; // per_tensor_affine, or with arrays for each index of an axis: per_channel_affine, ...
  readonly scale: number | HostArray;
  readonly zeroPoint: number | HostArray;
  readonly axis?: number;
}
/** Tensors of several shapes in one buffer. */
export interface NestedTensor {
  readonly layout: 'nested';
  readonly buffer: HostArray;
  readonly sizes: HostArray;
  readonly strides: HostArray;
  readonly storageOffsets: HostArray;
}
/** A tensor without elements. */
export interface MetaTensor {
  readonly device: 'meta';
  readonly dtype: string;
  readonly shape: Shape;
}
/** One of Python's complex numbers. */
export interface ComplexNumber {
  readonly real: number;
  readonly imag: number;
}

/**
 * What a torch file holds: dicts are Maps, tuples and sizes are arrays, tensors are HostArrays; dtypes, devices and layouts are
 * their names.
 */
export type TorchValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | HostArray
  | ComplexTensor
  | RawTensor
  | SparseTensor
  | QuantizedTensor
  | NestedTensor
  | MetaTensor
  | ComplexNumber
  | TorchValue[]
  | Map<TorchValue, TorchValue>
  | Set<TorchValue>;
