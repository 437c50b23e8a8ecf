import { defineConfig } from 'vitest/config';

// Tests import the built package by its own name ('tsxla/pjrt'), so they see exactly what a user gets.
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/slow/**'],
    execArgv: ['--expose-gc'],
    pool: 'forks', // one process a file: each loads its own copy of XLA
    maxWorkers: 2,
    env: { TSXLA_CACHE: 'off' }, // what is counted as compiled must not depend on earlier runs
    testTimeout: 300_000,
    hookTimeout: 120_000,
    server: { deps: { external: [/\/dist\//] } },
  },
});
