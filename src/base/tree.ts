// Trees: nested arrays and plain objects with leaves, as functions take and return them. null and undefined hold no leaf.
import { ArgumentError } from './errors.js';

export interface Flat<T> {
  readonly leaves: readonly T[];
  /** Where each leaf is: .h, .layers[2].weight; empty for a tree that is one leaf. */
  readonly paths: readonly string[];
  /** The tree without its leaves: equal for trees that differ in leaves only. */
  readonly form: string;
  /** The same tree with other leaves. */
  rebuild<U>(leaves: readonly U[]): unknown;
}

export const isPlain = (x: unknown): x is Record<string, unknown> =>
  typeof x === 'object' && x !== null && [Object.prototype, null].includes(Object.getPrototypeOf(x));
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;
const member = (key: string): string => (IDENTIFIER.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`);

const DEEPEST = 500; // what calls itself for each level has stack for some thousand

/** Takes a tree apart. `what` names it in errors: "the carry of scan". */
export function flatten<T>(what: string, tree: unknown, isLeaf: (x: unknown) => x is T, kind: string): Flat<T> {
  const leaves: T[] = [];
  const paths: string[] = [];
  let form = '';
  const visit = (x: unknown, path: string, depth: number): ((next: () => unknown) => unknown) => {
    if (depth > DEEPEST) throw new ArgumentError(`${what} is nested more than ${DEEPEST} deep, or holds itself`);
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
      // Sorted, so that the order in which properties were written makes no difference.
      form += '{';
      const parts = Object.keys(x)
        .sort()
        .map((key) => {
          form += member(key);
          return [key, visit(x[key], path + member(key), depth + 1)] as const;
        });
      form += '}';
      return (next) => Object.fromEntries(parts.map(([key, part]) => [key, part(next)]));
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

/** A value as it is written, for errors: a text that should be a number shows its quotes. */
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
