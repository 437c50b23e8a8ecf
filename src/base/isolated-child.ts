// The other end of isolated.ts: takes one call, answers it, and ends.
import { plainError } from './errors.js';

process.once('message', async ({ module, name, args }: { module: string; name: string; args: unknown[] }) => {
  let answer: unknown;
  try {
    const exports = (await import(module)) as Record<string, (...args: unknown[]) => unknown>;
    answer = { value: await exports[name]!(...args) };
  } catch (e) {
    answer = { error: plainError(e) };
  }
  process.send!(answer, () => process.exit());
});
