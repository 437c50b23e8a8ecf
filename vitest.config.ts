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

/**
 * Files that leave the process as they found it (environment, devices, clock) and count nothing. They are run by one process
 * after the other, which loads XLA once. All other files have a process each.
 */
const SHARED = [
  'test/{errors,lora,ops,quant}/**/*.test.ts',
  'test/io/{file,numpy,torch,torch-values,torch-write,zip}.test.ts',
  'test/nn/layers.test.ts',
  'test/optim/{autocast,optimizers}.test.ts',
  'test/{autograd,control,float,hlo,print,promote,regressions,vit}.test.ts',
];

// Tests import the built package by its own name ('tsxla/pjrt'), so they see exactly what a user gets.
export default defineConfig({
  test: {
    projects: [
      { extends: true, test: { name: 'shared', include: SHARED, isolate: false } },
      { extends: true, test: { name: 'own', include: ['test/**/*.test.ts'], exclude: ['test/slow/**', ...SHARED] } },
    ],
    execArgv: ['--expose-gc'],
    pool: 'forks',
    maxWorkers: 2,
    // What is counted as compiled must not depend on earlier runs, nor what a program prints on where it runs.
    env: { TSXLA_CACHE: 'off', NO_COLOR: '1', FORCE_COLOR: '0', XLA_FLAGS: process.env['XLA_FLAGS'] ?? XLA_FLAGS },
    testTimeout: 300_000,
    hookTimeout: 120_000,
    server: { deps: { external: [/\/dist\//] } },
  },
});
