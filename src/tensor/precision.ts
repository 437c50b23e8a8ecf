// The precision of f32 products: torch's public functions and flags.
import { checkDescribed } from '../base/described.js';
import { ArgumentError } from '../base/errors.js';
import { describe, shown } from '../base/tree.js';
import {
  checkPrecision,
  defaultPrecision,
  type MatmulPrecision,
  precisionSettings,
  setPrecision,
  withPrecision,
} from '../ops/prim/precision.js';
import { chooseDevice } from '../runtime/device.js';

export type { MatmulPrecision };

/**
 * Sets the precision of f32 products: 'highest' (all 24 bits), 'high' (TF32 on GPUs, three bf16 products on TPUs) or 'medium' (the
 * fastest of the device). Default: 'highest' on CPUs and GPUs, 'medium' on TPUs, as in PyTorch/XLA.
 * Part of a program's key: a compiled function is compiled again under another precision.
 */
export function setFloat32MatmulPrecision(precision: MatmulPrecision): void {
  setPrecision({ matmul: checkPrecision('setFloat32MatmulPrecision', precision) });
}

/** The precision of f32 products: as it was set. Default: that of the chosen device. */
export const getFloat32MatmulPrecision = (): MatmulPrecision =>
  precisionSettings().matmul ?? defaultPrecision(chooseDevice().device);

/** Runs fn with f32 products in this precision, including those of its gradients. */
export function matmulPrecision<T>(precision: MatmulPrecision, fn: () => T): T {
  checkPrecision('matmulPrecision', precision);
  if (typeof fn !== 'function')
    throw new ArgumentError(
      `matmulPrecision: takes a precision and a function, got ${describe(fn)}: write matmulPrecision('high', () => ...)`,
    );
  return withPrecision('matmulPrecision', precision, () => checkDescribed('matmulPrecision', fn()));
}

function checkSwitch(name: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw new ArgumentError(`${name} is ${shown(value)}: it must be true or false`);
  return value;
}

/** torch.backends: whether GPUs may round f32 operands to TF32. */
export const backends = {
  cuda: {
    matmul: {
      /** For matrix products. Default: false. The same as setFloat32MatmulPrecision('high' or 'highest'). */
      get allowTf32(): boolean {
        return (precisionSettings().matmul ?? 'highest') !== 'highest';
      },
      set allowTf32(value: boolean) {
        setPrecision({ matmul: checkSwitch('backends.cuda.matmul.allowTf32', value) ? 'high' : 'highest' });
      },
    },
  },
  cudnn: {
    /** For convolutions. Default: true, as in torch. */
    get allowTf32(): boolean {
      return precisionSettings().cudnnTf32;
    },
    set allowTf32(value: boolean) {
      setPrecision({ cudnnTf32: checkSwitch('backends.cudnn.allowTf32', value) });
    },
  },
};
