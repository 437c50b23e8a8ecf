// `tsxla/eslint`: the rules as an ESLint plugin, for flat configurations with type information.
import { createRequire } from 'node:module';
import path from 'node:path';
import type ts from 'typescript';
import { ArgumentError } from '../base/errors.js';
import { version } from '../base/version.js';
import { Code, type TypeScript } from './code.js';
import type { Edit, Rule } from './rule.js';
import { rules } from './rules/index.js';

// The part of ESLint's types used here: importing them would make ESLint a dependency of every package that imports tsxla.
interface Fixer {
  replaceTextRange(range: [number, number], text: string): unknown;
}
type Fix = (fixer: Fixer) => unknown;
interface RuleContext {
  readonly cwd: string;
  readonly sourceCode: object;
  report(descriptor: object): void;
}
export interface RuleModule {
  readonly meta: {
    readonly type: 'problem';
    readonly docs: { readonly description: string; readonly url: string };
    readonly fixable?: 'code';
    readonly hasSuggestions: boolean;
    readonly schema: [];
  };
  create(context: RuleContext): Record<string, (node: object) => void>;
}
export interface Plugin {
  readonly meta: { readonly name: string; readonly version: string };
  readonly rules: Record<string, RuleModule>;
  readonly configs: {
    /** Every rule as an error (no-read-in-loop as a warning), for TypeScript files. */
    readonly recommended: {
      readonly name: string;
      readonly files: string[];
      readonly plugins: Record<string, Pick<Plugin, 'meta' | 'rules'>>;
      readonly rules: Record<string, 'error' | 'warn'>;
    };
  };
}

/** Rules about speed rather than wrong results. */
const WARNINGS = ['no-read-in-loop'];

/** ESLint's source code object; typescript-eslint's parser adds the services. */
interface SourceCode {
  readonly parserServices?: {
    readonly program?: ts.Program | null;
    readonly esTreeNodeToTSNodeMap?: { get(node: object): ts.Node };
  };
  getLocFromIndex(index: number): { line: number; column: number };
}

function ruleModule(rule: Rule): RuleModule {
  return {
    meta: {
      type: 'problem',
      docs: { description: rule.description, url: `docs/lint.md#${rule.name}` },
      ...(rule.fixes && { fixable: 'code' }),
      hasSuggestions: rule.suggests ?? false,
      schema: [],
    },
    create(context) {
      const sourceCode = context.sourceCode as SourceCode;
      const { program, esTreeNodeToTSNodeMap } = sourceCode.parserServices ?? {};
      if (!program || !esTreeNodeToTSNodeMap)
        throw new ArgumentError(
          `tsxla/${rule.name} needs types: set languageOptions.parser to typescript-eslint's parser and languageOptions.parserOptions.projectService to true (docs/lint.md)`,
        );
      return {
        Program(node: object) {
          const file = esTreeNodeToTSNodeMap.get(node) as ts.SourceFile;
          const code = Code.of(typescriptOf(file, context.cwd), program, file);
          const at = (index: number) => sourceCode.getLocFromIndex(index);
          for (const found of rule.check(code)) {
            const { title, edits } = found.suggestion ?? {};
            context.report({
              loc: { start: at(code.start(found.node)), end: at(found.node.end) },
              message: found.message,
              ...(found.fix && { fix: fixOf(found.fix) }),
              ...(edits && { suggest: [{ desc: title, fix: fixOf(edits) }] }),
            });
          }
        },
      };
    },
  };
}

const fixOf =
  (edits: readonly Edit[]): Fix =>
  (fixer) =>
    edits.map(({ start, end, text }) => fixer.replaceTextRange([start, end], text));

const known = new Map<unknown, TypeScript>();
/** The parser's TypeScript module, which made the file: node kinds have different numbers in other versions. */
function typescriptOf(file: ts.SourceFile, cwd: string): TypeScript {
  const found = known.get(file.constructor) ?? candidates(cwd).find((ts) => made(ts, file));
  if (!found)
    throw new ArgumentError(
      `the TypeScript used by typescript-eslint was not found from ${cwd}: install typescript (5 or 6) next to typescript-eslint, or use npx tsxla lint`,
    );
  known.set(file.constructor, found);
  return found;
}
const made = (ts: TypeScript, file: ts.SourceFile): boolean =>
  ts.createSourceFile?.('a.ts', '', ts.ScriptTarget.Latest).constructor === file.constructor;

function candidates(cwd: string): TypeScript[] {
  const here = createRequire(import.meta.url);
  const project = createRequire(path.join(cwd, 'package.json'));
  const parsers = ['typescript-eslint', '@typescript-eslint/parser'].map(
    (name) => () => createRequire(project.resolve(name)),
  );
  return [...parsers, () => project, () => here].flatMap((from) => {
    try {
      return [from()('typescript') as TypeScript];
    } catch {
      return []; // not installed there
    }
  });
}

const all = Object.fromEntries(rules.map((rule) => [rule.name, ruleModule(rule)]));
const plugins: Plugin['configs']['recommended']['plugins'] = {};
const plugin: Plugin = {
  meta: { name: 'tsxla', version },
  rules: all,
  configs: {
    recommended: {
      name: 'tsxla/recommended',
      files: ['**/*.{ts,tsx,mts,cts}'],
      plugins,
      rules: Object.fromEntries(rules.map(({ name }) => [`tsxla/${name}`, WARNINGS.includes(name) ? 'warn' : 'error'])),
    },
  },
};
plugins['tsxla'] = plugin;

export default plugin;
