// Commands of all pages and notebooks: each `tsxla` command exists and has the flags that it is given, each script of npm and
// each file is there. Links lead somewhere; what is committed of the notebooks was run, and has nothing of the machine that
// ran it. test/slow/docs.test.ts runs the commands.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Command } from 'commander';
import { afterAll, expect, test } from 'vitest';
import { COMMANDS } from '../dist/cli/commands.js';
import { cleaned, folder, NOTEBOOKS, type Notebook, read, textOf, withOutputs } from '../scripts/notebooks.js';
import { allPages, commandsOf, read as readPage, root } from './pages.js';

const names = Object.keys(NOTEBOOKS);
const notebooks = new Map(names.map((name) => [name, read(path.join(folder, `${name}.ipynb`))]));
const codeOf = ({ cells }: Notebook) => cells.filter((cell) => cell.cell_type === 'code');
const sourcesOf = ({ cells }: Notebook) => cells.map(({ source }) => textOf(source)).join('\n\n');

/** Without the `tsxla` that begins a line of prose, which is no command. */
const withoutSubject = (text: string) =>
  text
    .split(/^```/m)
    .map((part, i) => (i % 2 ? part : part.replace(/^tsxla /gm, '')))
    .join('```');
const pages: readonly (readonly [name: string, text: string])[] = [
  ...allPages().map((page) => [page, withoutSubject(readPage(page))] as const),
  ...[...notebooks].map(([name, notebook]) => [`notebooks/${name}.ipynb`, sourcesOf(notebook)] as const),
];

/** The commands of a page: words behind `tsxla`, up to the first that is none; and the flags up to the end of the line. */
function commandsIn(text: string): { readonly words: string[]; readonly flags: string[] }[] {
  const lines = text.replaceAll('\\\n', ' ').split('\n');
  return lines.flatMap((line) =>
    [...line.matchAll(/(?:npx |\b)tsxla ([a-z]+(?:-[a-z]+)*)((?:(?! && |[;>|`'"] ?$| #).)*)/g)].flatMap(
      ([all, first, rest]) => {
        const isCommand = all.startsWith('npx ') || /^\s*(?:[A-Z_]+=\S+ )*tsxla /.test(line) || rest!.includes(' --');
        if (!isCommand) return [];
        const [, second] = /^ ([a-z]+(?:-[a-z]+)*)(?= |$)/.exec(rest!) ?? [];
        const flags = [...rest!.matchAll(/(?<= )--[a-z][\w-]*/g)].map(([flag]) => flag);
        return [
          {
            words: [first!, ...(['plugins', 'ray', 'cache', 'hlo'].includes(first!) && second ? [second] : [])],
            flags,
          },
        ];
      },
    ),
  );
}

const commands = new Map<string, Command>();
for (const [name, , load] of COMMANDS) {
  const command = await load();
  commands.set(name, command);
  for (const each of command.commands) commands.set(`${name} ${each.name()}`, each);
}

test('their commands exist, with these flags', () => {
  const found = pages.flatMap(([page, text]) => commandsIn(text).map((command) => ({ page, ...command })));
  expect(found.length).toBeGreaterThan(100);
  const wrong = found.flatMap(({ page, words, flags }) => {
    const command = commands.get(words.join(' '));
    if (!command) return [`${page}: tsxla ${words.join(' ')}`];
    const unknown = flags.filter((flag) => flag !== '--help' && !command.options.some(({ long }) => long === flag));
    return unknown.map((flag) => `${page}: tsxla ${words.join(' ')} ${flag}`);
  });
  expect(wrong).toEqual([]);
});

test('scripts of npm exist, and so do files that a command names', () => {
  const scriptsOf = (file: string) => Object.keys(JSON.parse(readPage(file)).scripts);
  const own = scriptsOf('package.json');
  const ofStarter = scriptsOf('packages/create-tsxla/template/package.json');
  const builtIn = ['install', 'create', 'run'];
  const wrong = pages.flatMap(([page, text]) =>
    commandsOf(text).flatMap((line) => [
      ...[...line.matchAll(/\bnpm (?:run )?([a-z][\w:-]*)/g)]
        .map(([, script]) => script!)
        .filter((script) => ![...own, ...builtIn, ...(page.startsWith('packages/') ? ofStarter : [])].includes(script)),
      ...[...line.matchAll(/\b(?:scripts|test|bench|examples|packages|docs)\/[\w./-]+\.\w+/g)]
        .map(([file]) => file)
        .filter((file) => !fs.existsSync(path.join(root, file)) && !file.endsWith('.gz')) // a file that the line writes
        .map((file) => `${page}: ${file}`),
    ]),
  );
  expect(wrong).toEqual([]);
});

test('a wrong flag would be found', () => {
  expect(
    commandsIn(
      '  TSXLA_LOG=debug npx tsxla plan --model M \\\n   --tpus v6e-1 && npx tsxla plugins install tpu --if-missing',
    ),
  ).toEqual([
    { words: ['plan'], flags: ['--model', '--tpus'] },
    { words: ['plugins', 'install'], flags: ['--if-missing'] },
  ]);
});

test('their links lead somewhere, and each recipe says what was tried and what was not', () => {
  const links = pages.flatMap(([page, text]) =>
    [...text.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, link]) => [page, link!] as const),
  );
  expect(links.length).toBeGreaterThan(25);
  const lost = links.filter(([page, link]) => !fs.existsSync(path.join(root, path.dirname(page), link)));
  expect(lost).toEqual([]);
  for (const [page, text] of pages.filter(
    ([page]) => page.startsWith('docs/recipes/') && !page.endsWith('README.md'),
  )) {
    expect(text, page).toMatch(/^Tried: /m);
    expect(text, page).toMatch(/(^| )Not tried: /m);
  }
});

test.each(names)('%s.ipynb: every cell was run, there are pictures, and nothing of the machine', (name) => {
  const text = fs.readFileSync(path.join(folder, `${name}.ipynb`), 'utf8');
  const cells = codeOf(notebooks.get(name)!);
  expect(cells.map((cell) => (cell as { execution_count?: number }).execution_count)).toEqual(
    cells.map((_, i) => i + 1),
  );
  const outputs = cells.flatMap((cell) => cell.outputs!);
  expect(outputs.filter((output) => output.output_type === 'error')).toEqual([]);
  expect(outputs.filter((output) => output.data?.['image/svg+xml']).length).toBeGreaterThan(0);
  expect(text).not.toMatch(/\/(root|home|Users|tmp|work|var|opt|mnt|usr)\//);
  expect(text).not.toContain('\\u001b');
  expect(text.length).toBeLessThan(150_000);
});

const scratch = path.join(root, `examples/.notebooks-${process.pid}`); // inside the package, so that programs find it by name
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));

test('cells in TypeScript are right by their types', async () => {
  const programs = names.filter((name) => NOTEBOOKS[name] === 'deno');
  fs.mkdirSync(scratch);
  const files = programs.map((name) => {
    const code = codeOf(notebooks.get(name)!).map(({ source }) => textOf(source));
    fs.writeFileSync(path.join(scratch, `${name}.ts`), code.join('\n;'));
    return path.join(scratch, `${name}.ts`);
  });
  const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2023'];
  const args = ['node_modules/typescript-7/bin/tsc', '--ignoreConfig', ...options, '--types', 'node', ...files];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root }).catch(
    (e: { stdout: string }) => e,
  );
  expect(files.length).toBeGreaterThan(0);
  expect(stdout).toBe('');
});

test('outputs are committed without paths, colours and lines of progress', () => {
  const places = [
    ['/scratch/x1', '~/notebooks'],
    ['/scratch', '~'],
  ] as const;
  const log = '\u001b[32mok\u001b[39m /scratch/x1/a\nteacher: 1 of 3 steps\nteacher: 3 of 3 steps\ndone in /scratch/b';
  expect(cleaned(log, places)).toBe('ok ~/notebooks/a\nteacher: 3 of 3 steps\ndone in ~/b');
  const cell = { cell_type: 'code', source: ['1'], outputs: [] } as const;
  const stream = (text: string) => ({ output_type: 'stream', name: 'stdout', text }) as const;
  const ran = { cells: [{ ...cell, outputs: [stream('/scra'), stream('tch/b\n')] }], metadata: {} };
  const { cells } = withOutputs({ cells: [cell], metadata: {} }, { notebook: ran, places });
  expect(cells[0]!.outputs).toEqual([{ output_type: 'stream', name: 'stdout', text: ['~/b\n'] }]);
});
