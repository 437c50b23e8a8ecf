// The interface of a lint rule. The same rules run in ESLint (eslint.ts) and in `tsxla lint` (program.ts).
import type ts from 'typescript';
import type { Code } from './code.js';

/** Replaces characters from start to end by a text; an insertion if start equals end. */
export interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

export interface Finding {
  readonly node: ts.Node;
  readonly message: string;
  /** Edits that do what the author intended: `--fix` applies them. */
  readonly fix?: readonly Edit[] | undefined;
  /** Edits that the author has to confirm: an editor offers them. */
  readonly suggestion?: { readonly title: string; readonly edits: readonly Edit[] } | undefined;
}

export interface Rule {
  /** The name without the prefix: `await-read` for `tsxla/await-read`. */
  readonly name: string;
  /** One line, for ESLint and for docs/lint.md. */
  readonly description: string;
  /** Whether findings may have a fix or a suggestion. */
  readonly fixes?: boolean;
  readonly suggests?: boolean;
  check(code: Code): Iterable<Finding>;
}
