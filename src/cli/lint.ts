// `tsxla lint`: the rules of tsxla/eslint, without ESLint.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Command } from 'commander';
import pc from 'picocolors';
import { plural } from '../base/format.js';
import { fixed, type LintMessage, type LintReport, lint } from '../lint/program.js';

interface Flags {
  readonly rule?: string[];
  readonly fix?: true;
  readonly json?: true;
}

export function lintCommand(): Command {
  return new Command('lint')
    .argument('[files...]', "files, folders and patterns ('src/**/*.ts'); default: what tsconfig.json includes")
    .option('--rule <names...>', 'check only these rules')
    .option('--fix', 'apply the safe fixes')
    .option('--json', 'print the findings as JSON')
    .action((patterns: string[], { rule, fix, json }: Flags) => {
      const options = rule ? { rules: rule } : {};
      let report = lint(patterns, options);
      if (fix && writeFixes(report.messages)) report = lint(patterns, options);
      console.log(json ? JSON.stringify(report.messages, null, 2) : show(report));
      if (report.messages.length) process.exitCode = 1;
    });
}

/** Writes fixes to files. Returns whether a file was written. */
function writeFixes(messages: readonly LintMessage[]): boolean {
  const files = new Set(messages.filter((m) => m.fix).map((m) => m.file));
  for (const file of files) {
    const own = messages.filter((m) => m.file === file);
    writeFileSync(file, fixed(readFileSync(file, 'utf8'), own));
  }
  return files.size > 0;
}

function show({ files, messages }: LintReport): string {
  const lines = messages.map(
    ({ file, line, column, rule, message }) =>
      `${path.relative('', file)}:${line}:${column}  ${message}  ${pc.dim(rule)}`,
  );
  const fixable = messages.filter((m) => m.fix).length;
  const hint = fixable ? ` (${fixable} with --fix)` : '';
  return [...lines, `${plural(messages.length, 'finding')}${hint} in ${plural(files.length, 'file')}`].join('\n');
}
