// The child process of isolated.ts: runs one call, sends the result, and exits.
import { plainError } from './thrown.js';

// If the parent dies, this process kills itself, even during a compile (exit would wait for that).
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
