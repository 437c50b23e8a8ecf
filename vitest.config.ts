import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/**
 * What runs a few times need not run fast: with these XLA compiles in a fifth of the processor time. They are the flags of
 * the CPU's code generator alone; `XLA_FLAGS= npx vitest run` compiles as for a user.
 */
export const XLA_FLAGS = [
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
  'test/base/{folder,json}.test.ts',
  'test/data/{collate,files}.test.ts',
  'test/distill/{cache-checked,cache-original}.test.ts',
  'test/io/{file,gguf,numpy,torch,torch-values,torch-write,zip}.test.ts',
  'test/models/{architectures,outputs,tokenizer,tokenizers}.test.ts',
  'test/nn/{clone,hooks,layers,moduleinfo}.test.ts',
  'test/optim/{autocast,optimizers}.test.ts',
  'test/train/{config,ray/credentials}.test.ts',
  'test/{backend/names,conformance/table,func/golden,opinfo/opinfo,plan/topology}.test.ts',
  'test/{autograd,build,compat,complex,control,few-rows,float,hlo,layers,print,promote,regressions,results,vit}.test.ts',
];

const DIST = fileURLToPath(new URL('dist/', import.meta.url));
/** The built package: this folder's dist, wherever the repository lies. */
const BUILT = new RegExp(`^${DIST.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}`);

// Tests import the built package by its own name ('tsxla/pjrt'), so they see exactly what a user gets.
export default defineConfig({
  test: {
    projects: [
      { extends: true, test: { name: 'shared', include: SHARED, isolate: false } },
      { extends: true, test: { name: 'own', include: ['test/**/*.test.ts'], exclude: ['test/slow/**', ...SHARED] } },
    ],
    execArgv: ['--expose-gc'],
    pool: 'forks',
    maxWorkers: 3, // on two cores: one of three often waits for a process or a clock
    // What is counted as compiled must not depend on earlier runs, nor what a program prints on where it runs. '' is unset.
    env: {
      TSXLA_CACHE: 'off',
      TSXLA_LOG: '',
      CPU_NUM_DEVICES: '',
      NO_COLOR: '1',
      FORCE_COLOR: '0',
      XLA_FLAGS: process.env['XLA_FLAGS'] ?? XLA_FLAGS,
    },
    testTimeout: 600_000,
    hookTimeout: 600_000,
    server: { deps: { external: [BUILT] } },
  },
});
