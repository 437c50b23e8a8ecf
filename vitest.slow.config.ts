import { defineConfig } from 'vitest/config';
import quick from './vitest.config.js';

// The slower suite: long runs, killed processes, TPU compiles.
const { projects: _, ...common } = quick.test!;
export default defineConfig({
  test: { ...common, include: ['test/slow/**/*.test.ts'], testTimeout: 900_000 },
});
