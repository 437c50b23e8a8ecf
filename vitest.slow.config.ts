import { defineConfig, mergeConfig } from 'vitest/config';
import quick from './vitest.config.js';

// The slower suite: long runs, killed processes, TPU compiles. One file at a time: they measure memory and time.
const slow = mergeConfig(
  quick,
  defineConfig({ test: { testTimeout: 900_000, maxWorkers: 1, fileParallelism: false } }),
);
slow.test = { ...slow.test, include: ['test/slow/**/*.test.ts'], exclude: [] };
export default slow;
