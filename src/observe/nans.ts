// tx.debug.nans: the switch of the search for NaN and infinities. docs/debug-nans.md is the guide.
import { env, envFlag } from '../base/env.js';
import { checkOptions } from '../base/options.js';
import { recordCalls } from '../ir/source.js';
import { addSink } from '../runtime/events.js';
import { recordModules } from './module-names.js';

export interface NansOptions {
  /** Also report infinities. Default: true. */
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
  recordModules(now.on);
  checking?.[Symbol.dispose]();
  checking = undefined;
  if (!now.on) return;
  const loading = import('./nonfinite.js'); // loaded while the first program runs
  checking = addSink({
    checkResults: async (ran, compute) => (await loading).findNonfinite(ran, compute, now.infs),
  });
}

/**
 * Turns the search for NaN and infinities on, or off with false. While it is on, a step, compiled function, read or sync with
 * such a value in its results throws a NonfiniteError that names the operation that produced it. Default: TSXLA_DEBUG_NANS, or
 * off. `using _ = tx.debug.nans()` restores the previous setting at the end of the block.
 */
export function nans(on = true, options: NansOptions = {}): Disposable {
  checkOptions('debug.nans', ['infs'], options);
  const before = mode;
  setMode({ on, infs: options.infs ?? true });
  return { [Symbol.dispose]: () => setMode(before) };
}
if (envFlag('TSXLA_DEBUG_NANS')) setMode({ on: true, infs: env('TSXLA_DEBUG_NANS') !== 'nan' });
