// XLA flags that tsxla sets unless the user's XLA_FLAGS has them, each with its measured effect.
import { env } from '../base/env.js';
import type { CompileOptions } from '../pjrt/index.js';

const DEFAULTS: Readonly<Record<string, NonNullable<CompileOptions['xlaFlags']>>> = {
  cpu: {
    // Concurrent kernels compete for the cores: without them a small GPT's step takes 5% less. JAX does the same.
    xla_cpu_enable_concurrency_optimized_scheduler: false,
  },
};

export function defaultFlags(device: string): NonNullable<CompileOptions['xlaFlags']> {
  const chosen = (env('XLA_FLAGS') ?? '').split(/\s+/).map((flag) => flag.replace(/^--/, '').replace(/=.*/, ''));
  return Object.fromEntries(Object.entries(DEFAULTS[device] ?? {}).filter(([flag]) => !chosen.includes(flag)));
}
