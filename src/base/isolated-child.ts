// The other end of isolated.ts: takes one call, answers it, and ends.
import { plainError } from './thrown.js';

// If the parent dies, so does this process, in the middle of a compile too (exit would wait for it).
const orphaned = () => process.kill(process.pid, 'SIGKILL');
process.on('disconnect', orphaned);

process.once('message', async ({ module, name, args }: { module: string; name: string; args: unknown[] }) => {
  let answer: unknown;
  try {
    const exports = (await import(module)) as Record<string, (...args: unknown[]) => unknown>;
    answer = { value: await exports[name]!(...args) };
  } catch (e) {
    answer = { error: plainError(e) };
  }
  process.off('disconnect', orphaned);
  process.send!(answer, () => process.exit());
});
