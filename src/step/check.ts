// Checks that a compiled function still describes the program it was traced to, by tracing it again and comparing. JavaScript
// values it captured, and the tensors its variables referred to, were fixed by the first trace.
import { ArgumentError } from '../base/errors.js';
import { placeOf, type Source } from '../ir/source.js';
import { describeProgram, differenceOf } from '../observe/explain.js';
import { broken, isChecked } from '../observe/rules.js';
import { keyOf, type Request } from '../runtime/program.js';
import { lossOf } from '../runtime/value.js';
import { otherUse, type Slot, type Trace } from './trace.js';

/** The number of calls after the first of each kind that are traced again. */
const CHECKED_CALLS = 2;
/** Whether a call that has a trace is checked. `check`: each call (true), none (false). Default: the second and third. */
export const isDue = (t: Trace, check: boolean | undefined): boolean =>
  check ?? (t.checks < CHECKED_CALLS && isChecked('stale') && !t.slots.some(isLost));
/** Left out of the check: the call itself throws for a value that is gone. */
const isLost = (slot: Slot): boolean => slot.kind === 'cell' && lossOf(slot.cell.peek()) !== undefined;

/** Compares a trace with a new one. What differs is an error if `strict`, else a finding of the rule `stale`. */
export function checkAgain(
  name: string,
  before: Trace,
  again: () => Trace,
  source: Source | undefined,
  strict: boolean,
): void {
  before.checks++;
  const change = strict ? changeOf(before, again()) : changeOrFailure(before, again);
  if (!change) return;
  const what = `${name}: ${change.what}`;
  if (strict) throw new ArgumentError(`${what}${change.at && `\n    at ${change.at}`}\n    ${change.fix}`);
  const cost = 'calls still run the program of the first trace';
  const place = change.at || placeOf(source);
  broken({ rule: 'stale', place, what, cost, fix: change.fix }, `${name} ${place}`);
}

interface Change {
  readonly what: string;
  /** Where in the user's code: FILE:LINE, if it is known. */
  readonly at: string;
  readonly fix: string;
}

/** A failing second trace is a finding, not an error: the call already has a program. */
function changeOrFailure(before: Trace, again: () => Trace): Change | undefined {
  try {
    return changeOf(before, again());
  } catch (error) {
    const fix =
      'a compiled function must describe the same program at every call: do not keep tensors made inside it, or state';
    return { what: `it fails when traced again: ${(error as Error).message}`, at: '', fix };
  }
}

const REQUEST: Request = { cause: 'compile' };
function changeOf(before: Trace, after: Trace): Change | undefined {
  const [was, now] = [keyOf(before.computation, REQUEST), keyOf(after.computation, REQUEST)];
  const difference =
    was.hash === now.hash
      ? undefined
      : differenceOf(
          describeProgram(before.computation, REQUEST, was),
          describeProgram(after.computation, REQUEST, now),
        );
  const change = difference
    ? { ...difference, what: `${difference.what}: was ${difference.was}, now ${difference.now}` }
    : otherUse(before, after);
  return change && { at: '', ...change, what: `it no longer describes the program it was traced to: ${change.what}` };
}
