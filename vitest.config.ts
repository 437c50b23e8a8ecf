import { defineConfig } from 'vitest/config';

// Tests import the built package by its own name ('tsxla/pjrt'), so they see exactly what a user gets.
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/slow/**'],
    execArgv: ['--expose-gc'],
    pool: 'forks', // one process a file: each loads its own copy of XLA
    maxWorkers: 2,
    // What is counted as compiled must not depend on earlier runs, nor what a program prints on where it runs.
    env: { TSXLA_CACHE: 'off', NO_COLOR: '1', FORCE_COLOR: '0' },
    testTimeout: 300_000,
    hookTimeout: 120_000,
    server: { deps: { external: [/\/dist\//] } },
  },
});
