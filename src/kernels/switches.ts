// TSXLA_KERNELS: which kernels for GPUs are used. They are off by default until they have been measured on one.
import { env } from '../base/env.js';
import { ArgumentError } from '../base/errors.js';

const NAMES = ['triton', 'heads'] as const;
export type KernelSwitch = (typeof NAMES)[number];

/** The names in TSXLA_KERNELS, a list with commas. */
function switchedOn(): readonly KernelSwitch[] {
  const given = (env('TSXLA_KERNELS') ?? '').split(',').flatMap((name) => name.trim() || []);
  for (const name of given)
    if (!NAMES.includes(name as KernelSwitch))
      throw new ArgumentError(`TSXLA_KERNELS=${given.join()}: there is no ${name}: it takes ${NAMES.join(', ')}`);
  return given as KernelSwitch[];
}

/** Whether this kernel that ships is used. */
export const isSwitchedOn = (name: KernelSwitch): boolean => switchedOn().includes(name);
/** Whether kernels become Triton's on a GPU: asked for by itself, or by a kernel that is made for it. */
export const usesTriton = (): boolean => switchedOn().length > 0;
