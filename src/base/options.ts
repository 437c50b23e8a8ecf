// Checks options objects: unknown names, and values that are not options objects, are errors. TypeScript finds them at compile
// time; in plain JavaScript, or with `any`, they would be ignored silently.
import { ArgumentError } from './errors.js';
import { describe, isPlain } from './tree.js';

/** `what` starts the error: "CosineLR". undefined is accepted. */
export function checkOptions<O extends object>(
  what: string,
  names: readonly (keyof O & string)[],
  given: O | undefined,
): void {
  if (given === undefined) return;
  if (!isPlain(given))
    throw new ArgumentError(`${what}: got ${describe(given)} in place of its options: ${takes(names)}`);
  const unknown = unknownOption(names, given);
  if (unknown) throw new ArgumentError(`${what}: ${unknown}`);
}
const takes = (names: readonly string[]): string =>
  names.length ? `write { ${names.join(', ')} }, those that you need` : 'it takes none';

/** The error for an unknown option; undefined if all are known. */
export function unknownOption(names: readonly string[], given: Readonly<Record<string, unknown>>): string | undefined {
  const unknown = Object.keys(given).find((key) => !names.includes(key) && given[key] !== undefined);
  if (unknown === undefined) return undefined;
  const meant = nearest(unknown, names);
  const known = names.length ? `it takes ${names.join(', ')}` : 'it takes none';
  return `there is no option '${unknown}': ${known}${meant ? ` (did you mean ${meant}?)` : ''}`;
}

/** Names of options in other libraries. */
const ALIASES: Readonly<Record<string, readonly string[]>> = {
  axis: ['dim'],
  axes: ['dim'],
  dims: ['dim'],
  dim: ['dims'],
  keepdims: ['keepdim'],
  offset: ['diagonal'],
  k: ['diagonal'],
  diagonal: ['offset'],
  unbiased: ['correction'],
  slope: ['negativeSlope'],
  ord: ['p'],
  size: ['shape'],
  learningrate: ['lr'],
  wd: ['weightDecay'],
  beta: ['decay'],
  beta1: ['betas'],
  beta2: ['betas'],
  tmax: ['tMax', 'totalSteps'],
  etamin: ['floor'],
  minlr: ['floor'],
  maxlength: ['maxNewTokens', 'length'],
  maxtokens: ['maxNewTokens'],
  numworkers: ['workers'],
  prefetchfactor: ['prefetch'],
  collatefn: ['collate'],
  ratio: ['p'],
};
const bare = (name: string): string => name.toLowerCase().replaceAll('_', '');
/** The option that was probably meant: another spelling, another library's name, a missing or extra word, or a typo. */
export function nearest(name: string, options: readonly string[]): string | undefined {
  const given = bare(name);
  const same = (o: string) => bare(o) === given;
  const alias = (o: string) => ALIASES[given]?.includes(o);
  const part = (o: string) =>
    Math.min(o.length, given.length) > 3 && (given.includes(bare(o)) || bare(o).includes(given));
  const slip = (o: string) => editsBetween(bare(o), given) <= (given.length > 5 ? 2 : 1);
  for (const fits of [same, alias, part, slip]) {
    const found = options.find(fits);
    if (found) return found;
  }
  return undefined;
}

/** The edit distance: letters to insert, remove, replace, or swap with the next one. */
function editsBetween(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const above = rows[i - 1]!;
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row[j] = Math.min(
        above[j]! + 1,
        row[j - 1]! + 1,
        above[j - 1]! + Number(a[i - 1] !== b[j - 1]),
        swapped ? rows[i - 2]![j - 2]! + 1 : Number.POSITIVE_INFINITY,
      );
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
