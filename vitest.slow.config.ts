import { defineConfig } from 'vitest/config';
import quick from './vitest.config.js';

// The slower suite: long runs, killed processes, TPU compiles.
// Long runs are compiled as for a user; and libtpu, which compiles here too, does not know the flags of the quick suite.
const { projects: _, env: { XLA_FLAGS: __, ...env } = {}, ...common } = quick.test!;
export default defineConfig({
  test: { ...common, env, include: ['test/slow/**/*.test.ts'], testTimeout: 900_000 },
});
