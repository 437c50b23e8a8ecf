// The precision of f32 products: torch's float32_matmul_precision. GPUs and TPUs have units that round operands first (TF32,
// bf16) and are several times as fast.
import type { DType } from '../../base/dtype.js';
import { ArgumentError } from '../../base/errors.js';
import { shown } from '../../base/tree.js';
import type { Attributes, Emitter, Ssa } from '../../ir/op.js';

/**
 * 'highest': all 24 bits. 'high': TF32 on a GPU, three products of bf16 on a TPU. 'medium': the fastest that the device has
 * (TF32, one product of bf16). A CPU always computes with all bits.
 */
export type MatmulPrecision = 'highest' | 'high' | 'medium';
const HLO: Readonly<Record<MatmulPrecision, string>> = { highest: 'HIGHEST', high: 'HIGH', medium: 'DEFAULT' };

interface Settings {
  /** Of matrix products, and on a TPU of convolutions. Absent: the device's default. */
  readonly matmul?: MatmulPrecision | undefined;
  /** Whether cuDNN may round the operands of convolutions to TF32. */
  readonly cudnnTf32: boolean;
}
let settings: Settings = { cudnnTf32: true };
export const precisionSettings = (): Settings => settings;
export const setPrecision = (changed: Partial<Settings>): void => {
  settings = { ...settings, ...changed };
};
/** A key of the settings: functions are traced again under other settings. */
export const precisionKey = (): string => `${settings.matmul ?? ''}${settings.cudnnTf32 ? '' : ' noTf32'}`;

export function checkPrecision(op: string, precision: unknown): MatmulPrecision {
  if (typeof precision === 'string' && Object.hasOwn(HLO, precision)) return precision as MatmulPrecision;
  throw new ArgumentError(`${op}: precision is ${shown(precision)}: use 'highest', 'high' or 'medium'`);
}

/** Products of complex numbers are products of their parts. */
export const isRoundable = (dtype: DType): boolean => dtype === 'f32' || dtype === 'c64';

/** torch's default on GPUs, PyTorch/XLA's on TPUs. */
export const defaultPrecision = (platform: string): MatmulPrecision => (platform === 'tpu' ? 'medium' : 'highest');

export interface PrecisionOption {
  /** Of this product of f32. Default: `tx.setFloat32MatmulPrecision`'s. */
  readonly precision?: MatmulPrecision | null;
}
/** What `describe` makes, with the precision of one call. */
export function withPrecision<T>(op: string, precision: MatmulPrecision | null | undefined, describe: () => T): T {
  if (precision === undefined || precision === null) return describe();
  const was = settings;
  settings = { ...was, matmul: checkPrecision(op, precision) };
  try {
    return describe();
  } finally {
    settings = was;
  }
}

/** The attribute of an operation on f32, where it differs from what XLA does by itself. */
export function precisionConfig(
  e: Emitter,
  x: Ssa,
  precision: MatmulPrecision,
  dialect: 'stablehlo' | 'chlo' = 'stablehlo',
): Attributes {
  if (e.platform === 'cpu' || !isRoundable(e.typeOf(x).dtype) || precision === 'medium') return {};
  const one = `#${dialect}<precision ${HLO[precision]}>`;
  return { precision_config: `[${one}, ${one}]` };
}
