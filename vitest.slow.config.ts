import { defineConfig, mergeConfig } from 'vitest/config';
import quick from './vitest.config.js';

// The slower suite: long runs, killed processes, TPU compiles.
const slow = mergeConfig(quick, defineConfig({ test: { testTimeout: 900_000 } }));
slow.test = { ...slow.test, include: ['test/slow/**/*.test.ts'], exclude: [] };
export default slow;
