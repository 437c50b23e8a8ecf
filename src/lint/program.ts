// Lints files without ESLint: one TypeScript program for each tsconfig.json. ESLint's comments disable rules here too.
import { createRequire } from 'node:module';
import path from 'node:path';
import type ts from 'typescript';
import { ArgumentError } from '../base/errors.js';
import { Code, type TypeScript } from './code.js';
import type { Edit, Finding } from './rule.js';
import { rules } from './rules/index.js';

export interface LintMessage {
  /** The absolute path. */
  readonly file: string;
  /** From 1, as editors count. */
  readonly line: number;
  readonly column: number;
  /** `tsxla/await-read` */
  readonly rule: string;
  readonly message: string;
  readonly fix?: readonly Edit[];
  readonly suggestion?: Finding['suggestion'];
}
export interface LintReport {
  readonly files: readonly string[];
  readonly messages: readonly LintMessage[];
}
export interface LintOptions {
  /** Default: the current folder. */
  readonly cwd?: string;
  /** Names of rules, with or without `tsxla/`. Default: all. */
  readonly rules?: readonly string[];
  /** Texts to use in place of files, by absolute path: unsaved text of an editor, or a test's. */
  readonly texts?: ReadonlyMap<string, string>;
}

const EXTENSIONS = ['.ts', '.tsx', '.mts', '.cts', '.js', '.jsx', '.mjs', '.cjs'];
const OPTIONS: ts.CompilerOptions = {
  noEmit: true,
  skipLibCheck: true,
  allowJs: true,
  composite: false,
  incremental: false,
};

/** Lints files, folders and patterns (`src/**` and `*.ts`). Default: the files of tsconfig.json. */
export function lint(
  patterns: readonly string[],
  { cwd = process.cwd(), texts, ...options }: LintOptions = {},
): LintReport {
  const ts = createRequire(import.meta.url)('typescript') as TypeScript;
  const chosen = chooseRules(options.rules);
  const configs = new Map<string | undefined, string[]>();
  const files = texts ? [...texts.keys()] : findFiles(ts, cwd, patterns);
  for (const file of files) {
    const config = ts.findConfigFile(path.dirname(file), ts.sys.fileExists);
    configs.set(config, [...(configs.get(config) ?? []), file]);
  }
  const messages = [...configs].flatMap(([config, names]) => {
    const program = ts.createProgram(programOptions(ts, config, names, texts));
    return names.flatMap((name) => {
      const file = program.getSourceFile(name);
      return file ? lintFile(Code.of(ts, program, file), chosen) : [];
    });
  });
  return { files, messages };
}

function chooseRules(names: readonly string[] | undefined): typeof rules {
  if (!names) return rules;
  return names.map((name) => {
    const rule = rules.find((r) => r.name === name.replace(/^tsxla\//, ''));
    if (!rule) throw new ArgumentError(`there is no rule ${name}: use ${rules.map((r) => r.name).join(', ')}`);
    return rule;
  });
}

function findFiles(ts: TypeScript, cwd: string, patterns: readonly string[]): string[] {
  if (!patterns.length) {
    const config = ts.findConfigFile(cwd, ts.sys.fileExists);
    if (!config)
      throw new ArgumentError(`no tsconfig.json in ${cwd} or above: pass the files, as in tsxla lint 'src/**/*.ts'`);
    return readConfig(ts, config).fileNames.filter((f) => !f.endsWith('.d.ts'));
  }
  const found = patterns.flatMap((pattern) => {
    const full = path.resolve(cwd, pattern);
    if (ts.sys.fileExists(full)) return [full];
    const isFolder = ts.sys.directoryExists(full);
    const files = ts.sys.readDirectory(
      isFolder ? full : cwd,
      EXTENSIONS,
      ['**/node_modules', '**/.*/**', '**/*.d.ts'],
      [isFolder ? '**/*' : pattern],
    );
    if (!files.length) throw new ArgumentError(`no file matches ${pattern} in ${cwd}`);
    return files;
  });
  return [...new Set(found.map((f) => path.resolve(f)))];
}

function readConfig(ts: TypeScript, config: string): ts.ParsedCommandLine {
  const host: ts.ParseConfigFileHost = {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic(d) {
      throw new ArgumentError(`${config}: ${ts.flattenDiagnosticMessageText(d.messageText, '\n')}`);
    },
  };
  return ts.getParsedCommandLineOfConfigFile(config, OPTIONS, host)!;
}

function programOptions(
  ts: TypeScript,
  config: string | undefined,
  rootNames: readonly string[],
  texts: LintOptions['texts'],
): ts.CreateProgramOptions {
  const { ModuleKind, ModuleResolutionKind, ScriptTarget } = ts;
  const options = config
    ? { ...readConfig(ts, config).options, ...OPTIONS }
    : {
        ...OPTIONS,
        strict: true,
        target: ScriptTarget.ES2023,
        module: ModuleKind.NodeNext,
        moduleResolution: ModuleResolutionKind.NodeNext,
      };
  const host = ts.createCompilerHost(options);
  host.jsDocParsingMode = ts.JSDocParsingMode?.ParseForTypeInfo; // comments are not used
  if (texts) {
    const { readFile, fileExists } = host;
    host.readFile = (name) => texts.get(name) ?? readFile(name);
    host.fileExists = (name) => texts.has(name) || fileExists(name);
  }
  return { rootNames, options, host };
}

function lintFile(code: Code, chosen: typeof rules): LintMessage[] {
  const { file } = code;
  const isDisabled = disabledIn(file.text);
  return chosen
    .flatMap((rule) =>
      [...rule.check(code)].map(({ node, message, fix, suggestion }) => {
        const { line, character } = file.getLineAndCharacterOfPosition(node.getStart(file));
        return {
          file: path.resolve(file.fileName),
          line: line + 1,
          column: character + 1,
          rule: `tsxla/${rule.name}`,
          message,
          ...(fix && { fix }),
          ...(suggestion && { suggestion }),
        };
      }),
    )
    .filter((m) => !isDisabled(m.rule, m.line))
    .sort((a, b) => a.line - b.line || a.column - b.column);
}

const COMMENT = /(?:\/\/|\/\*)[ \t]*eslint-(disable-next-line|disable-line|disable|enable)\b([^\n]*)/g;
/** Whether a rule is disabled on a line, by ESLint's comments: `// eslint-disable-next-line tsxla/await-read -- why`. */
function disabledIn(text: string): (rule: string, line: number) => boolean {
  const comments = [...text.matchAll(COMMENT)].map((m) => ({
    kind: m[1]!,
    line: text.slice(0, m.index).split('\n').length,
    rules: m[2]!
      .replace(/\*\/.*|--.*/, '')
      .split(',')
      .flatMap((r) => r.trim() || []),
  }));
  return (rule, line) => {
    let isOff = false;
    for (const comment of comments) {
      if (comment.rules.length && !comment.rules.includes(rule)) continue;
      if (comment.kind === 'disable-line' && comment.line === line) return true;
      if (comment.kind === 'disable-next-line' && comment.line + 1 === line) return true;
      if (comment.line > line) continue;
      if (comment.kind === 'disable') isOff = true;
      if (comment.kind === 'enable') isOff = false;
    }
    return isOff;
  };
}

/** Applies the fixes of messages to a text; of two overlapping fixes, only the first. */
export function fixed(text: string, messages: readonly LintMessage[]): string {
  const fixes = messages
    .flatMap(({ fix }) =>
      fix ? [{ start: Math.min(...fix.map((e) => e.start)), end: Math.max(...fix.map((e) => e.end)), fix }] : [],
    )
    .sort((a, b) => a.start - b.start);
  let end = -1;
  const edits = fixes.flatMap((f) => {
    if (f.start < end) return [];
    end = f.end;
    return f.fix;
  });
  return edits.reduceRight((t, e) => t.slice(0, e.start) + e.text + t.slice(e.end), text);
}
