// The public types of arguments and results. The options of operation `name` are called NameOptions. They are derived from the
// operations in ops/, with tensors in place of expressions.

import type * as ops from '../ops/index.js';
import type { Operand as ExprOperand } from '../ops/prim/align.js';
import type * as reduced from '../ops/reduced.js';
import type { Index as ExprIndex } from '../ops/spec.js';
import type { Lift } from './lift.js';

export type { DType, TypedArray } from '../base/dtype.js';
export type { Shape } from '../base/shape.js';
export type { DimOption } from '../ops/dims.js';
export type { Sizes } from '../ops/window.js';
export type { ItemOptions, ReadOptions } from './tensor.js';

/** A tensor or a number. */
export type Operand = Lift<ExprOperand>;
/** An index item, as between the brackets of torch's x[...]. */
export type Index = Lift<ExprIndex>;

/** The options type of an operation that does not export one. */
type Last<A extends readonly unknown[]> = Required<A> extends readonly [...unknown[], infer O] ? Lift<O> : never;

// element by element
export type AddOptions = Lift<ops.Scaled>;
export type AddcmulOptions = Lift<ops.Factor>;
export type ClampOptions = Lift<ops.Limits>;
export type Device = ops.Device;
export type DivOptions = Lift<ops.Division>;
export type IscloseOptions = Lift<ops.Closeness>;
export type EluOptions = Lift<ops.Alpha>;
export type GeluOptions = Last<Parameters<typeof ops.gelu>>;
export type ShrinkOptions = Lift<ops.Lambda>;
export type SoftmaxOptions = Lift<ops.AlongDim>;

// reductions, order
export type SumOptions = Last<Parameters<typeof ops.sum>>;
export type VarOptions = Last<Parameters<typeof ops.std>>;
export type NormOptions = Lift<ops.NormOption>;
export type QuantileOptions = Last<Parameters<typeof ops.quantile>>;
export type DiffOptions = Lift<ops.DiffOption>;
export type TrapezoidOptions = Lift<ops.TrapezoidOption>;
export type CovOptions = Lift<ops.CovOption>;
export type HistogramOptions = Lift<ops.HistogramOption>;
export type HistcOptions = Lift<ops.HistcOption>;
export type SortOptions = Lift<ops.SortOption>;
export type TopkOptions = Lift<ops.TopkOption>;
export type SearchsortedOptions = Lift<ops.SorterOption>;
export type BucketizeOptions = Lift<ops.SearchOption>;

// shapes, products, decompositions
export type DiagonalOptions = Lift<ops.Diagonal>;
export type PadOptions = Last<Parameters<typeof ops.pad>>;
export type AddmmOptions = Lift<ops.AddOptions>;
export type SolveTriangularOptions = Lift<ops.TriangularOptions>;
export type MatrixRankOptions = Lift<ops.RankOptions>;
export type SvdOptions = Lift<ops.SvdOptions>;
export type LstsqOptions = Lift<ops.LstsqOptions>;

// normalization
export type LayerNormOptions = Lift<ops.LayerNormOptions>;
export type RmsNormOptions = Lift<ops.RmsNormOptions>;
export type LocalResponseNormOptions = Lift<ops.ResponseNormOptions>;
export type NormalizeOptions = Lift<ops.NormalizeOptions>;

// space
export type ConvOptions = Lift<ops.ConvOptions>;
export type ConvTransposeOptions = Lift<ops.ConvTransposeOptions>;
export type MaxPoolOptions = Lift<ops.MaxPoolOptions>;
export type AdaptiveMaxPoolOptions = Lift<ops.AdaptiveMaxPoolOptions>;
export type AvgPoolOptions = Lift<ops.AvgPoolOptions>;
export type OutputSize = Lift<ops.OutputSize>;
export type InterpolateOptions = Lift<ops.InterpolateOptions>;
export type GridSampleOptions = Lift<ops.GridSampleOptions>;
export type EmbeddingBagOptions = Lift<ops.EmbeddingBagOptions>;
export type Im2colOptions = Lift<ops.ColumnOptions>;

export type MaxUnpoolOptions = Lift<ops.MaxUnpoolOptions>;
export type GradientOptions = Lift<ops.GradientOptions>;

// losses
export type MultiMarginLossOptions = Lift<ops.MultiMarginOptions>;
export type LinearCrossEntropyOptions = Lift<ops.LinearCrossEntropyOptions>;
export type Reduction = reduced.Reduction;
export type LossOptions = Lift<reduced.Reduced>;
export type CrossEntropyOptions = Lift<ops.ClassOptions>;
export type BinaryCrossEntropyOptions = Last<Parameters<typeof ops.binaryCrossEntropy>>;
export type KlDivOptions = Lift<ops.KlOptions>;
export type PoissonNllLossOptions = Lift<ops.PoissonOptions>;
export type CtcLossOptions = Lift<ops.CtcLossOptions>;
export type GaussianNllLossOptions = Lift<ops.GaussianOptions>;
export type CosineSimilarityOptions = Lift<ops.CosineOptions>;
export type MarginLossOptions = Lift<ops.Margin>;
export type TripletMarginLossOptions = Lift<ops.TripletOptions>;
export type TriangleOptions = Lift<ops.Triangle>;
