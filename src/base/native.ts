// koffi, the library that calls C. Its stack size can be set only before the first library is loaded, so code that loads one
// calls giveStack first.
import type { KoffiFunc } from 'koffi';
import { PluginLoadError } from './errors.js';
import { koffi } from './packages.js';

/** XLA's compiler needs far more stack than koffi gives a call by default (1 MiB, and 256 KiB off the main thread). */
export function giveStack(): void {
  const { sync_stack_size, async_stack_size } = koffi().config() as Record<string, number>;
  if (sync_stack_size! >= STACK && async_stack_size! >= STACK) return;
  try {
    koffi().config({ sync_stack_size: STACK, async_stack_size: STACK, resident_async_pools: 4 });
  } catch (e) {
    throw new PluginLoadError(
      'this program loaded a library with koffi before tsxla, so the stack size that XLA needs can no longer be set: ' +
        'start a tsxla client first, or set sync_stack_size and async_stack_size to 16 MiB with koffi.config',
      { cause: e },
    );
  }
}
const STACK = 16 * 2 ** 20;

/** Sets an environment variable, for C libraries too: what a program under Bun sets is not seen by them. */
export function setEnvironment(name: string, value: string): void {
  process.env[name] = value;
  if (!process.versions['bun']) return;
  giveStack();
  koffi().load(null).func('int setenv(const char* name, const char* value, int overwrite)')(name, value, 1);
}

type Flock = (fd: number, operation: number) => number;
let flock: KoffiFunc<Flock> | null | undefined; // null: Windows has none
const EXCLUSIVE_NOW = 2 | 4; // LOCK_EX | LOCK_NB
/** Takes the kernel's exclusive lock of an open file. */
export function lockFile(fd: number): 'taken' | 'held' | 'unsupported' {
  flock = flock === undefined ? loadFlock() : flock;
  if (!flock) return 'unsupported';
  if (flock(fd, EXCLUSIVE_NOW) === 0) return 'taken';
  return koffi().errno() === koffi().os.errno['EWOULDBLOCK'] ? 'held' : 'unsupported';
}
function loadFlock(): KoffiFunc<Flock> | null {
  if (process.platform === 'win32') return null;
  try {
    giveStack();
  } catch {
    // The program loaded a library itself. Locks need no large stack; starting XLA reports the error.
  }
  return koffi().load(null).func('int flock(int fd, int operation)');
}
