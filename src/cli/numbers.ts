// Numbers that options take.
import { InvalidArgumentError } from 'commander';

export function whole(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('not a whole number');
  return Number(text);
}
export function count(text: string): number {
  if (whole(text) < 1) throw new InvalidArgumentError('not a number from 1');
  return Number(text);
}
/** Any of them. */
export function number(text: string): number {
  const n = Number(text);
  if (text.trim() === '' || !Number.isFinite(n)) throw new InvalidArgumentError('not a number');
  return n;
}
