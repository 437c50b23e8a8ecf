// Detects index numbers that change from iteration to iteration: `out.index(await action.item())`. For a tensor computed by the
// same program they are constants, which XLA can optimize, until the numbers of a source line were seen to change: then they
// are inputs, as each value would compile another program.
import { Mesh } from '../ir/mesh.js';
import { currentSource, placeOf } from '../ir/source.js';

/** The numbers of one kind of index, or one source line, in order, since a program was started; and those of the iteration before. */
interface Seen {
  since: number;
  at: number;
  readonly numbers: string[];
  /** How often a number differed from that at the same position of the iteration before. */
  changes: number;
}
/** By kind, for all lines together. While these do not change, no source line is looked up, which would take microseconds. */
const kinds = new Map<string, Seen>();
const lines = new Map<string, Seen>();
const MOST = 1024;
/**
 * Records the numbers of an index and returns whether they change: true from the third value on, as the first change only
 * starts the tracking of lines. `since`: a number that changes with each program that is started.
 */
export function varies(kind: string, numbers: readonly number[], since: number): boolean {
  if (Mesh.exists) return false; // an offset input would gather a sharded dimension
  const text = String(numbers);
  if (!note(kinds, kind, text, since).changes) return false;
  const place = placeOf(currentSource());
  return place !== '' && note(lines, `${kind} ${place}`, text, since).changes > 0;
}

function note(known: Map<string, Seen>, key: string, text: string, since: number): Seen {
  let seen = known.get(key);
  if (!seen) {
    if (known.size >= MOST) known.delete(known.keys().next().value!);
    known.set(key, (seen = { since, at: 0, numbers: [], changes: 0 }));
  }
  if (seen.since !== since) [seen.since, seen.at] = [since, 0];
  const was = seen.numbers[seen.at];
  if (was !== undefined && was !== text) seen.changes++;
  if (seen.at < MOST) seen.numbers[seen.at++] = text;
  return seen;
}
