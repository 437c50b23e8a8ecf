// Explains why two cached programs have different keys.
import type { Stored } from '../runtime/cache-store.js';

export interface Difference {
  /** The name of what differs: `options.numPartitions`, `flags.XLA_FLAGS`, `plugin.sha256`. */
  readonly of: string;
  readonly a: string;
  readonly b: string;
}

/** All differences between the ingredients of two programs, and the first line where their texts differ. */
export function differences(a: Stored, b: Stored): Difference[] {
  const { program: _a, ...first } = a.header.ingredients;
  const { program: _b, ...second } = b.header.ingredients;
  const line = firstLine(a.text(), b.text());
  return [...compare('', first, second), ...(line ? [line] : [])];
}

const isObject = (x: unknown): x is Record<string, unknown> => typeof x === 'object' && x !== null && !Array.isArray(x);
const print = (x: unknown): string => (x === undefined ? '(none)' : typeof x === 'string' ? x : JSON.stringify(x));

function compare(of: string, a: unknown, b: unknown): Difference[] {
  if (JSON.stringify(a) === JSON.stringify(b)) return [];
  if ((isObject(a) || a === undefined) && (isObject(b) || b === undefined)) {
    const names = [...new Set([...Object.keys(a ?? {}), ...Object.keys(b ?? {})])].sort();
    return names.flatMap((name) => compare(of ? `${of}.${name}` : name, a?.[name], b?.[name]));
  }
  if (of.startsWith('flags.')) return [{ of, a: only(a, b), b: only(b, a) }];
  return [{ of, a: print(a), b: print(b) }];
}

/** The flags only in the first list; all of them if the lists differ only in the order of equal names. */
function only(a: unknown, b: unknown): string {
  const [mine, theirs] = [a ?? [], b ?? []] as [string[], string[]];
  return mine.filter((flag) => !theirs.includes(flag)).join(' ') || mine.join(' ') || '(none)';
}

const WIDTH = 100;
function firstLine(a: string, b: string): Difference | undefined {
  const [first, second] = [a.split('\n'), b.split('\n')];
  const i = first.findIndex((text, at) => text !== second[at]);
  const at = i < 0 ? first.length : i;
  const [x, y] = [first[at], second[at]];
  if (x === y) return undefined;
  let column = 0;
  while (column < Math.min(x?.length ?? 0, y?.length ?? 0) && x![column] === y![column]) column++;
  const start = column > WIDTH / 2 ? column - WIDTH / 4 : 0;
  const part = (text?: string) =>
    text === undefined ? '(the end)' : `${start ? '...' : ''}${text.slice(start, start + WIDTH).trim()}`;
  return { of: `program line ${at + 1}`, a: part(x), b: part(y) };
}
