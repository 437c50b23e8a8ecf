// Trees: nested arrays and plain objects with leaves, as functions take and return them. null and undefined have no leaves.
import { ArgumentError } from './errors.js';

export interface Flat<T> {
  readonly leaves: readonly T[];
  /** The path of each leaf: .h, .layers[2].weight; empty for a tree that is one leaf. */
  readonly paths: readonly string[];
  /** The structure of the tree: equal for trees that differ only in their leaves. */
  readonly form: string;
  /** The same tree with other leaves. */
  rebuild<U>(leaves: readonly U[]): unknown;
}

export const isPlain = (x: unknown): x is Record<string, unknown> =>
  typeof x === 'object' && x !== null && [Object.prototype, null].includes(Object.getPrototypeOf(x));
/**
 * Results by name that are also a list, in the order of their names: `const [values, indices] = x.max(1)`, `x.max(1)[0]`.
 * The list's properties are not enumerable, so they stay plain objects with their names.
 */
export function listed(results: Record<string, unknown>): Record<string, unknown> & Iterable<unknown> {
  const all = Object.values(results);
  const places = Object.fromEntries(all.map((value, i) => [i, { value }]));
  const iterator = { [Symbol.iterator]: { value: () => all[Symbol.iterator]() } };
  return Object.defineProperties(results, { ...places, ...iterator }) as never;
}

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;
const member = (key: string): string => (IDENTIFIER.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`);

const DEEPEST = 500; // recursive code has stack for a few thousand levels

/** Flattens a tree. `what` names it in errors: "the carry of scan". */
export function flatten<T>(what: string, tree: unknown, isLeaf: (x: unknown) => x is T, kind: string): Flat<T> {
  const leaves: T[] = [];
  const paths: string[] = [];
  let form = '';
  const visit = (x: unknown, path: string, depth: number): ((next: () => unknown) => unknown) => {
    if (depth > DEEPEST) throw new ArgumentError(`${what} is nested more than ${DEEPEST} deep, or contains itself`);
    if (isLeaf(x)) {
      leaves.push(x);
      paths.push(path);
      form += '*';
      return (next) => next();
    }
    if (x === null || x === undefined) {
      form += x === null ? '0' : '?';
      return () => x;
    }
    if (Array.isArray(x)) {
      form += '[';
      const parts = x.map((e, i) => visit(e, `${path}[${i}]`, depth + 1));
      form += ']';
      return (next) => parts.map((part) => part(next));
    }
    if (isPlain(x)) {
      // Sorted, so that the order of properties makes no difference.
      form += '{';
      const parts = Object.keys(x)
        .sort()
        .map((key) => {
          form += member(key);
          return [key, visit(x[key], path + member(key), depth + 1)] as const;
        });
      form += '}';
      const empty = Object.fromEntries(Object.keys(x).map((key) => [key, undefined as unknown]));
      const isListed = Symbol.iterator in x;
      return (next) => {
        const built = { ...empty };
        for (const [key, part] of parts) built[key] = part(next);
        return isListed ? listed(built) : built;
      };
    }
    throw new ArgumentError(`${what}${path && `, at ${path}`} is ${describe(x)}: it must be ${kind}`);
  };
  const build = visit(tree, '', 0);
  return {
    leaves,
    paths,
    form,
    rebuild(others) {
      let i = 0;
      return build(() => others[i++]);
    },
  };
}

/** A value as written in code, for errors: strings have quotes. */
export const shown = (x: unknown): string =>
  typeof x === 'string' ? `'${x}'` : typeof x === 'object' || typeof x === 'function' ? describe(x) : String(x);

/** A value in words, for errors. */
export function describe(x: unknown): string {
  if (x === null || x === undefined) return String(x);
  if (typeof x === 'function') return 'a function';
  if (x instanceof Promise) return 'a promise (await it)';
  if (typeof x === 'object') {
    const kind = isPlain(x) ? 'object' : (x.constructor?.name ?? 'object');
    return `${/^[aeio]/i.test(kind) ? 'an' : 'a'} ${kind}`;
  }
  return `the ${typeof x} ${shown(x)}`;
}

/** The leaf of a tree in words: "the carry's leaf .h", "the carry" if it is one leaf. */
export const leafName = (what: string, path: string): string =>
  path ? `${what}'${what.endsWith('s') ? '' : 's'} leaf ${path}` : what;
export const showPaths = (paths: readonly string[]): string =>
  paths.length === 0 ? 'no leaves' : paths.length === 1 && !paths[0] ? 'one leaf' : `the leaves ${paths.join(', ')}`;
