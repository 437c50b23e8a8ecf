// XLA flags that tsxla sets where the user's XLA_FLAGS does not: each says what it was measured to be worth.
import { env } from '../base/env.js';
import type { CompileOptions } from '../pjrt/index.js';

const DEFAULTS: Readonly<Record<string, NonNullable<CompileOptions['xlaFlags']>>> = {
  cpu: {
    // Concurrent kernels compete for the cores: without them a small GPT's step takes 5% less. JAX does the same.
    xla_cpu_enable_concurrency_optimized_scheduler: false,
    // The pass cuts sums along a row into windows, before which what is summed has to be written out. Without it a cross
    // entropy of [512, 2048] and its gradient take 1.4 ms of processor time instead of 7.3, a masked softmax 0.7 instead of
    // 2.9. Sums have many partial ones all the same: of 65,536 numbers within 3e-7 of the true one, of a million 2e-6.
    xla_disable_hlo_passes: 'tree_reduction_rewriter',
  },
};

export function defaultFlags(device: string): NonNullable<CompileOptions['xlaFlags']> {
  const chosen = (env('XLA_FLAGS') ?? '').split(/\s+/).map((flag) => flag.replace(/^--/, '').replace(/=.*/, ''));
  return Object.fromEntries(Object.entries(DEFAULTS[device] ?? {}).filter(([flag]) => !chosen.includes(flag)));
}
