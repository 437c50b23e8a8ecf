import { defineConfig } from 'vitest/config';

/**
 * What runs a few times need not run fast: with these XLA compiles in a fifth of the processor time. They are the flags of
 * the CPU's code generator alone; `XLA_FLAGS= npx vitest run` compiles as for a user.
 */
const XLA_FLAGS = [
  '--xla_backend_optimization_level=0',
  '--xla_cpu_use_fusion_emitters=false',
  '--xla_cpu_parallel_codegen_split_count=1',
].join(' ');

// Tests import the built package by its own name ('tsxla/pjrt'), so they see exactly what a user gets.
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/slow/**'],
    execArgv: ['--expose-gc'],
    pool: 'forks', // one process a file: each loads its own copy of XLA
    maxWorkers: 2,
    // What is counted as compiled must not depend on earlier runs, nor what a program prints on where it runs.
    env: { TSXLA_CACHE: 'off', NO_COLOR: '1', FORCE_COLOR: '0', XLA_FLAGS: process.env['XLA_FLAGS'] ?? XLA_FLAGS },
    testTimeout: 300_000,
    hookTimeout: 120_000,
    server: { deps: { external: [/\/dist\//] } },
  },
});
