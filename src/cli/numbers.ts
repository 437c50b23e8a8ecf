// Parsers for numbers in command-line options.
import { InvalidArgumentError } from 'commander';
import { MOST_SECONDS } from '../base/check.js';

export function whole(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('not a whole number');
  if (!Number.isSafeInteger(Number(text))) throw new InvalidArgumentError('too large for a whole number');
  return Number(text);
}
export function count(text: string): number {
  if (whole(text) < 1) throw new InvalidArgumentError('must be at least 1');
  return Number(text);
}
/** Seconds that a timer can wait for. */
export function duration(text: string): number {
  const n = count(text);
  if (n > MOST_SECONDS) throw new InvalidArgumentError(`must be at most ${MOST_SECONDS} s (24 days)`);
  return n;
}
/** Any finite number. */
export function number(text: string): number {
  const n = Number(text);
  if (text.trim() === '' || !Number.isFinite(n)) throw new InvalidArgumentError('not a number');
  return n;
}
