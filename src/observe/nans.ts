// tx.debug: finding out what goes wrong. docs/debugging.md is the guide.
import { env, envFlag } from '../base/env.js';
import { checkOptions } from '../base/options.js';
import { recordCalls } from '../ir/source.js';
import { keepBefore } from '../runtime/cell.js';
import { addSink } from '../runtime/events.js';
import { recordModules } from './module-names.js';

export interface NansOptions {
  /** Whether infinities are reported, too. Default: true. */
  readonly infs?: boolean;
}
interface Mode {
  readonly on: boolean;
  readonly infs: boolean;
}
let mode: Mode = { on: false, infs: true };
let checking: Disposable | undefined;

function setMode(now: Mode): void {
  mode = now;
  recordCalls(now.on);
  keepBefore(now.on);
  recordModules(now.on);
  checking?.[Symbol.dispose]();
  checking = undefined;
  if (!now.on) return;
  const loading = import('./nonfinite.js'); // with the first program under way
  checking = addSink({
    checkResults: async (ran, compute) => (await loading).findNonfinite(ran, compute, now.infs),
  });
}

/**
 * Turns the search for NaN and infinities on, or off with false. While it is on, a step, a compiled function, a read or a
 * sync whose results hold one throws a NonfiniteError that names the operation that made it. Default: what
 * TSXLA_DEBUG_NANS says. `using _ = tx.debug.nans()` turns it back at the end of the block.
 */
export function nans(on = true, options: NansOptions = {}): Disposable {
  checkOptions('debug.nans', ['infs'], options);
  const before = mode;
  setMode({ on, infs: options.infs ?? true });
  return { [Symbol.dispose]: () => setMode(before) };
}
if (envFlag('TSXLA_DEBUG_NANS')) setMode({ on: true, infs: env('TSXLA_DEBUG_NANS') !== 'nan' });
